#include "form_tcgen.h"

static bool is_tcgen(const struct inst *in)
{
    return in->op >= OP_TCGEN_ALLOC && in->op <= OP_TCGEN_MMA_WS;
}

unsigned form_tcgen_registers(const struct inst *in)
{
    switch (in->shape) {
    case SHAPE_16X128B: return in->vec <= 64 ? 2u * in->vec : 0;
    case SHAPE_16X256B: return in->vec <= 32 ? 4u * in->vec : 0;
    default: return in->vec;
    }
}

const char *form_tcgen_check(struct inst *in)
{
    switch (in->op) {
    case OP_TCGEN_LD: case OP_TCGEN_ST: case OP_TCGEN_LD_RED:
        in->flags |= INST_ALIGNED;
        if (!form_tcgen_registers(in))
            return "the shape has no so many repetitions";
        if (in->op == OP_TCGEN_LD_RED && in->vec < 2)
            return "tcgen05.ld.red has at least two repetitions";
        break;
    case OP_TCGEN_CP:
        if (in->sub == SUB_B4X16_P64 || in->sub == SUB_B6X16_P32) {
            in->sub2 = in->sub;
            in->sub = SUB_NONE;
        }
        if ((in->sub2 != SUB_NONE) != !!(in->flags & INST_TO))
            return ".b8x16 goes together with .b4x16_p64 or .b6x16_p32";
        break;
    case OP_TCGEN_MMA: case OP_TCGEN_MMA_SP:
        if (in->kind >= KIND_MXF8F6F4 && !in->block)
            in->block = 32;
        if (in->flags & INST_ASHIFT && (in->sub == SUB_FILL || in->sub == SUB_USE))
            return ".ashift does not go with a collector that fills or uses";
        break;
    default:
        break;
    }
    return NULL;
}

const char *form_tcgen_target(const struct inst *in, unsigned sm, char suffix)
{
    const bool family = suffix != 0 && ((sm >= 100 && sm <= 103) || sm == 110);
    const bool exact = family && suffix == 'a';
    const bool narrow = in->kind == KIND_MXF4 || in->kind == KIND_MXF4NVF4;

    switch (in->op) {
    case OP_ADD_PAIR: case OP_SUB_PAIR: case OP_MUL_PAIR: case OP_FMA_PAIR: case OP_ADD_MIXED:
    case OP_SUB_MIXED: case OP_FMA_MIXED:
        return sm >= 100 ? NULL : "this instruction needs sm_100 or higher";
    case OP_REDUX_F32:
        return suffix && sm >= 100 && sm <= 103 ? NULL
                                                : "redux of .f32 needs a target such as sm_100a";
    case OP_CVT_NARROW:
        return suffix && sm >= 100 ? NULL : "this conversion needs a target such as sm_100a";
    default:
        break;
    }
    if (in->op == OP_CLC_TRY_CANCEL || in->op == OP_CLC_QUERY) {
        if (sm < 100)
            return "clusterlaunchcontrol needs sm_100 or higher";
        return in->flags & INST_MULTICAST && !suffix
               ? ".multicast::cluster::all needs a target such as sm_100a or sm_100f" : NULL;
    }
    if (in->cta_group && (in->op == OP_TENSOR_LOAD || in->op == OP_TENSOR_PREFETCH))
        return sm >= 100 && suffix ? NULL
                                   : ".cta_group needs a target such as sm_100a or sm_100f";
    if (in->sub == SUB_GATHER4 && in->op == OP_TENSOR_LOAD && in->space == SP_SHARED)
        return sm >= 100 ? NULL : ".tile::gather4 needs sm_100 or higher";
    if ((in->sub == SUB_GATHER4 && (in->op == OP_TENSOR_LOAD || in->op == OP_TENSOR_PREFETCH)) ||
        (in->sub == SUB_SCATTER4 && in->op == OP_TENSOR_STORE))
        return sm >= 100 && suffix
               ? NULL : ".tile::gather4 and .tile::scatter4 need a target such as sm_100a";
    if (!is_tcgen(in))
        return NULL;
    if (!family)
        return "tcgen05 needs a target such as sm_100a or sm_100f";
    if (in->op == OP_TCGEN_LD_RED && sm < 103)
        return "tcgen05.ld.red needs sm_103a or sm_103f";
    if (in->kind == KIND_I8 && (!exact || sm == 103))
        return ".kind::i8 needs sm_100a";
    if (in->op == OP_TCGEN_SHIFT && !exact)
        return "tcgen05.shift needs a target that ends in a";
    if (in->flags & INST_SCALE_VEC && !exact)
        return ".scale_vec needs a target that ends in a (.block16 and .block32 do not)";
    if (in->op == OP_TCGEN_MMA_SP && narrow && !exact)
        return ".sp with this kind needs a target that ends in a";
    return NULL;
}

/* ---- operands -------------------------------------------------------------------------------- */

static void registers(struct parser *ps, const struct raw *r, struct operand *o, unsigned count,
                      bool dst)
{
    bool any = false;

    if (r->o.kind != OPND_VEC)
        FAIL(ps, &r->tok, "expected a vector of %u registers", count);
    if (r->o.n != count)
        FAIL(ps, &r->tok, "vector of %u elements where %u are expected", r->o.n, count);
    for (unsigned i = 0; i < count; i++) {
        struct operand *e = &ps->p->elems[r->o.reg + i];
        const struct raw one = {.o = *e, .tok = r->tok};

        if (e->kind == OPND_SINK)
            FAIL(ps, &r->tok, "_ does not fit here");
        operand_value(ps, &one, e, TY_B32, dst, false);
        any |= e->kind == OPND_REG;
    }
    if (!any)
        FAIL(ps, &r->tok, "a vector of nothing but constants");
    *o = r->o;
}

static void tensor_memory(struct parser *ps, const struct raw *r, struct operand *o)
{
    if (!r->memory || r->tensor || r->is_symbol || r->o.base != ADDR_REG || r->o.bank != BANK_32 ||
        type_float((enum type)r->o.type))
        FAIL(ps, &r->tok, "expected an address in Tensor Memory, [32-bit register + constant]");
    *o = r->o;
}

static void wanted(struct parser *ps, const struct raw *raws, unsigned n, unsigned least,
                   unsigned most)
{
    if (n < least)
        FAIL(ps, &ps->lex.tok, "operand missing: %u given, at least %u wanted", n, least);
    if (n > most)
        FAIL(ps, &raws[most].tok, "one operand too many");
}

/* D, A, B, then metadata if sparse, the instruction descriptor, scale factors if there are any,
 * the lanes that stay (a vector), enable-input-d, and the scale of D or the zero-column mask. */
static void multiply(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in)
{
    const bool scaled = in->block != 0, stationary = in->op == OP_TCGEN_MMA_WS;
    const bool sparse = in->op == OP_TCGEN_MMA_SP || (stationary && in->nopnd == 7);
    const unsigned most = 5u + sparse + 2u * scaled + (scaled ? 0 : stationary ? 1 : 2);
    unsigned at = 3, slot = 3;

    wanted(ps, raws, n, 5u + sparse + 2u * scaled, most);
    for (unsigned i = 0; i < n; i++)
        if (raws[i].paired)
            FAIL(ps, &raws[i].tok, "a pair a|b does not fit here");
    tensor_memory(ps, &raws[0], &in->o[0]);
    if (raws[1].memory)
        tensor_memory(ps, &raws[1], &in->o[1]);
    else
        operand_value(ps, &raws[1], &in->o[1], TY_U64, false, false);
    if (in->flags & INST_ASHIFT && !raws[1].memory)
        FAIL(ps, &raws[1].tok, ".ashift needs A in Tensor Memory");
    operand_value(ps, &raws[2], &in->o[2], TY_U64, false, false);
    if (sparse)
        tensor_memory(ps, &raws[at++], &in->o[slot++]);
    operand_value(ps, &raws[at], &in->o[slot], TY_U32, false, false);
    at++, slot++;
    for (unsigned i = 0; scaled && i < 2; i++)
        tensor_memory(ps, &raws[at++], &in->o[slot++]);
    if (!scaled && !stationary) {
        if (at < n && raws[at].o.kind == OPND_VEC)
            registers(ps, &raws[at++], &in->o[slot], in->cta_group == 2 ? 8 : 4, false);
        slot++;
    }
    if (at == n)
        FAIL(ps, &ps->lex.tok, "operand missing: the predicate that keeps D");
    if (raws[at].memory)
        FAIL(ps, &raws[at].tok, "expected a predicate");
    operand_value(ps, &raws[at], &in->o[slot], TY_PRED, false, false);
    at++, slot++;
    if (at == n)
        return;
    if (stationary) {
        operand_value(ps, &raws[at], &in->o[slot], TY_B64, false, false);
        return;
    }
    if (raws[at].o.kind != OPND_IMM || raws[at].o.base != RAW_INT || raws[at].o.imm > 15)
        FAIL(ps, &raws[at].tok, "the scale of D is 0 to 15");
    if (in->kind == KIND_F8F6F4)
        FAIL(ps, &raws[at].tok, ".kind::f8f6f4 takes no scale of D");
    if (ps->p->sm == 110)
        FAIL(ps, &raws[at].tok, "a scale of D is not for this target");
    in->o[slot] = raws[at].o;
    in->o[slot].type = TY_B32;
}

static void load(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in,
                 const struct shape *shape)
{
    const unsigned count = form_tcgen_registers(in);
    const bool split = in->shape == SHAPE_16X32BX2, reduces = in->op == OP_TCGEN_LD_RED;
    struct shape rest = *shape;

    wanted(ps, raws, n, 2u + split + reduces, 2u + split + reduces);
    registers(ps, &raws[0], &in->o[0], count, true);
    rest.nspecs--;
    for (unsigned i = 0; i < rest.nspecs; i++) {
        rest.spec[i] = shape->spec[i + 1];
        rest.slot[i] = shape->slot[i + 1];
    }
    operand_assign(ps, &rest, raws + 1, n - 1, in);
}

static void store(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in,
                  const struct shape *shape)
{
    const bool split = in->shape == SHAPE_16X32BX2;
    struct shape rest = *shape;

    wanted(ps, raws, n, 2u + split, 2u + split);
    registers(ps, &raws[n - 1], &in->o[2], form_tcgen_registers(in), false);
    rest.nspecs--;
    operand_assign(ps, &rest, raws, n - 1, in);
}

bool form_tcgen_assign(struct parser *ps, const struct shape *shape, const struct raw *raws,
                       unsigned n, struct inst *in)
{
    switch (in->op) {
    case OP_TCGEN_MMA: case OP_TCGEN_MMA_SP: case OP_TCGEN_MMA_WS:
        multiply(ps, raws, n, in);
        return true;
    case OP_TCGEN_LD: case OP_TCGEN_LD_RED:
        load(ps, raws, n, in, shape);
        return true;
    case OP_TCGEN_ST:
        store(ps, raws, n, in, shape);
        return true;
    default:
        return false;
    }
}

void form_tcgen_rules(struct parser *ps, const struct raw *raws, const struct inst *in)
{
    struct function *f = &ps->p->funcs[ps->func];

    if (in->op == OP_TCGEN_ALLOC || in->op == OP_TCGEN_DEALLOC) {
        const uint64_t columns = in->o[1].imm;

        if (in->o[1].kind == OPND_IMM && (columns < 32 || columns > 512 || columns & (columns - 1)))
            FAIL(ps, &raws[1].tok, "the columns are a power of two, 32 to 512");
    }
    if (is_tcgen(in) && in->cta_group) {
        f->cta_groups |= (uint8_t)(1u << in->cta_group);
        if (f->cta_groups == 6)
            FAIL(ps, &ps->opcode, "'%s' uses tcgen05 with both .cta_group::1 and .cta_group::2",
                 f->name);
    }
}
