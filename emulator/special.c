/*
 * Opcodes whose operands the table cannot describe, and rules that tie operands to modifiers.
 */
#include <string.h>

#include "form_tcgen.h"
#include "wmma.h"

/* ---- mov ------------------------------------------------------------------------------------ */

static void mov_vector(struct parser *ps, const struct raw *r, struct operand *o, enum type type,
                       bool dst)
{
    unsigned bits = 0;
    const unsigned want = type_bits(type);

    if (type != TY_B16 && type != TY_B32 && type != TY_B64 && type != TY_B128)
        FAIL(ps, &r->tok, "only mov.b16, b32, b64 and b128 pack and unpack");
    if (!r->o.n || want % r->o.n || want / r->o.n < 8)
        FAIL(ps, &r->tok, "a vector of %u elements does not make .%s", r->o.n, type_name(type));
    for (uint32_t i = 0; i < r->o.n; i++) {
        struct operand *e = &ps->p->elems[r->o.reg + i];

        if (e->kind == OPND_REG)
            bits = type_bits((enum type)e->type);
        else if (e->kind == OPND_SPECIAL)
            bits = e->type == TY_U64 ? 64 : 32;
        else
            bits = want / r->o.n;
        if (bits != want / r->o.n)
            FAIL(ps, &r->tok, "element %u has %u bits, %u are expected", i, bits, want / r->o.n);
        if (dst ? e->kind != OPND_REG && e->kind != OPND_SINK : e->kind == OPND_SINK)
            FAIL(ps, &r->tok, "element %u cannot be a %s", i, dst ? "destination" : "source");
        if (e->kind == OPND_IMM) {
            if (e->base != RAW_INT && e->base != RAW_SINGLE)
                FAIL(ps, &r->tok, "element %u is no integer", i);
            e->base = 0;
            e->type = bits == 8 ? TY_B8 : bits == 16 ? TY_B16 : bits == 32 ? TY_B32 : TY_B64;
            if (bits < 64)
                e->imm &= (UINT64_C(1) << bits) - 1;
        }
    }
    *o = r->o;
}

static void mov_source(struct parser *ps, const struct raw *r, struct operand *o, enum type type)
{
    const unsigned bits = type_bits(type);

    *o = r->o;
    if (r->o.kind == OPND_SPECIAL) {
        const bool either = r->o.reg == SR_GRIDID;

        if (type_float(type) || r->o.type == TY_PRED ||
            (!either && (r->o.type == TY_U64) != (bits == 64)))
            FAIL(ps, &r->tok, "%s does not fit .%s", special_name((enum special)r->o.reg),
                 type_name(type));
    } else if (r->o.kind == OPND_FUNC) {
        if (bits != 64 || type_float(type))
            FAIL(ps, &r->tok, "a function's address has 64 bits");
    } else if (r->is_symbol && !r->memory) {
        if (bits < 32 || bits > 64 || type_float(type))
            FAIL(ps, &r->tok, "an address does not fit .%s", type_name(type));
        if (bits == 32 && (r->space == SP_GLOBAL || r->space == SP_CONST))
            FAIL(ps, &r->tok, "an address of 64 bits does not fit .%s", type_name(type));
    } else {
        operand_value(ps, r, o, type, false, false);
    }
}

static void mov(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in)
{
    const enum type type = (enum type)in->type[0];

    if (n != 2)
        FAIL(ps, &ps->lex.tok, "mov has two operands");
    if (raws[0].o.kind == OPND_VEC)
        mov_vector(ps, &raws[0], &in->o[0], type, true);
    else
        operand_value(ps, &raws[0], &in->o[0], type, true, false);
    if (raws[1].o.kind == OPND_VEC)
        mov_vector(ps, &raws[1], &in->o[1], type, false);
    else
        mov_source(ps, &raws[1], &in->o[1], type);
    if (raws[0].o.kind == OPND_VEC && raws[1].o.kind == OPND_VEC)
        FAIL(ps, &raws[0].tok, "mov packs or unpacks, not both");
}

/* ---- wgmma ---------------------------------------------------------------------------------- */

static void fragment(struct parser *ps, const struct raw *r, struct operand *o, unsigned count,
                     enum type type, bool dst)
{
    if (r->o.kind != OPND_VEC || r->o.n != count)
        FAIL(ps, &r->tok, "expected a vector of %u registers", count);
    for (unsigned i = 0; i < count; i++) {
        struct operand *e = &ps->p->elems[r->o.reg + i];
        const struct raw one = {.o = *e, .tok = r->tok};

        if (e->kind != OPND_REG)
            FAIL(ps, &r->tok, "element %u is no register", i);
        operand_value(ps, &one, e, type, dst, false);
    }
    *o = r->o;
}

static int64_t flag_value(struct parser *ps, const struct raw *r, int64_t a, int64_t b)
{
    if (r->o.kind != OPND_IMM || r->o.base != RAW_INT)
        FAIL(ps, &r->tok, "expected %lld or %lld", (long long)a, (long long)b);

    const int64_t v = (int64_t)r->o.imm;

    if (v != a && v != b)
        FAIL(ps, &r->tok, "%lld where %lld or %lld is expected", (long long)v, (long long)a,
             (long long)b);
    return v;
}

static void wgmma(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in)
{
    const bool sparse = in->op == OP_WGMMA_SP;
    const bool floats = in->type[0] != TY_S32;
    const bool halves = in->type[1] == TY_F16 || in->type[1] == TY_BF16;
    const bool a_regs = n > 1 && raws[1].o.kind == OPND_VEC;
    const unsigned scale = sparse ? 5 : 3;      /* slot of scale-d */
    const unsigned want = scale + 1 + (floats ? 2 : 0) + (halves ? (a_regs ? 1 : 2) : 0);

    if (n != want)
        FAIL(ps, n > want ? &raws[want].tok : &ps->lex.tok,
             "%u operands, this form with A in %s has %u", n,
             a_regs ? "registers" : "shared memory", want);
    for (unsigned i = 0; i < n; i++)
        if (raws[i].paired || raws[i].memory)
            FAIL(ps, &raws[i].tok, "unexpected operand");
    switch (in->type[0]) {
    case TY_F16:
        fragment(ps, &raws[0], &in->o[0], in->n / 4u, TY_F16X2, true);
        break;
    case TY_S32:
        fragment(ps, &raws[0], &in->o[0], in->n / 2u, TY_S32, true);
        break;
    default:
        fragment(ps, &raws[0], &in->o[0], in->n / 2u, TY_F32, true);
        break;
    }
    if (a_regs)
        fragment(ps, &raws[1], &in->o[1], 4, TY_B32, false);
    else
        operand_value(ps, &raws[1], &in->o[1], TY_U64, false, false);
    operand_value(ps, &raws[2], &in->o[2], TY_U64, false, false);
    if (sparse) {
        operand_value(ps, &raws[3], &in->o[3], TY_B32, false, false);
        in->o[4] = (struct operand){.kind = OPND_IMM, .type = TY_B32};
        in->o[4].imm = (uint64_t)flag_value(ps, &raws[4], 0, type_bits((enum type)in->type[1]) == 8
                                                             ? 0 : 1);
    }
    if (raws[scale].o.kind == OPND_IMM)
        (void)flag_value(ps, &raws[scale], 0, 1);
    operand_value(ps, &raws[scale], &in->o[scale], TY_PRED, false, false);

    unsigned at = scale + 1;

    if (floats) {
        in->flags |= flag_value(ps, &raws[at], 1, -1) < 0 ? INST_NEG_A : 0;
        in->flags |= flag_value(ps, &raws[at + 1], 1, -1) < 0 ? INST_NEG_B : 0;
        at += 2;
    }
    if (halves && !a_regs)
        in->flags |= flag_value(ps, &raws[at++], 0, 1) ? INST_TRANS_A : 0;
    if (halves)
        in->flags |= flag_value(ps, &raws[at], 0, 1) ? INST_TRANS_B : 0;
    in->nopnd = (uint8_t)(scale + 1);
}

/* ---- mma.sync ------------------------------------------------------------------------------- */

/* A fragment, or without braces the one register that it is. */
static void mma_fragment(struct parser *ps, const struct raw *r, struct operand *o, unsigned count,
                         enum type type, bool dst)
{
    if (r->paired || r->memory)
        FAIL(ps, &r->tok, "unexpected operand");
    if (count == 1 && r->o.kind == OPND_REG)
        operand_value(ps, r, o, type, dst, false);
    else
        fragment(ps, r, o, count, type, dst);
}

static void mma(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in)
{
    const unsigned bits = type_bits((enum type)in->type[1]);
    const unsigned lanes_bits = bits == 64 ? 256 : 128;     /* a register of four lanes */
    const unsigned b = in->k * bits / lanes_bits, a = b * in->m / 8u;
    const unsigned d = in->type[0] == TY_F16 ? in->m / 8u : in->m / 4u;
    const enum type words = bits == 64 ? TY_F64 : TY_B32;
    const enum type sums = in->type[0] == TY_F16 ? TY_B32 : (enum type)in->type[0];

    if (n != 4)
        FAIL(ps, n > 4 ? &raws[4].tok : &ps->lex.tok, "mma has four operands: D, A, B, C");
    mma_fragment(ps, &raws[0], &in->o[0], d, sums, true);
    mma_fragment(ps, &raws[1], &in->o[1], a, words, false);
    mma_fragment(ps, &raws[2], &in->o[2], b, words, false);
    mma_fragment(ps, &raws[3], &in->o[3], d, sums, false);
}

/* Of A the half that is there. */
static void mma_sp(struct parser *ps, const struct raw *raws, struct inst *in)
{
    const unsigned b = in->k * type_bits((enum type)in->type[1]) / 128, a = b / 2 * in->m / 8u;
    const unsigned d = in->type[0] == TY_F16 ? 2 : 4;
    const enum type sums = in->type[0] == TY_F16 ? TY_B32 : (enum type)in->type[0];

    mma_fragment(ps, &raws[0], &in->o[0], d, sums, true);
    mma_fragment(ps, &raws[1], &in->o[1], a, TY_B32, false);
    mma_fragment(ps, &raws[2], &in->o[2], b, TY_B32, false);
    mma_fragment(ps, &raws[3], &in->o[3], d, sums, false);
}

/* ---- wmma ----------------------------------------------------------------------------------- */

static enum type wmma_class(enum suboperation matrix, enum type t)
{
    return t == TY_F64 || (matrix == SUB_C && t != TY_F16) ? t : TY_B32;
}

static void wmma_fragment(struct parser *ps, const struct raw *r, const struct inst *in,
                          struct operand *o, enum suboperation matrix, enum type t, bool dst)
{
    mma_fragment(ps, r, o, wmma_registers(in, matrix, t), wmma_class(matrix, t), dst);
}

static void wmma_mma(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in)
{
    const enum type d = (enum type)in->type[0];
    enum type c = d;

    if (n != 4)
        FAIL(ps, n > 4 ? &raws[4].tok : &ps->lex.tok, "wmma.mma has four operands: D, A, B, C");
    if (in->type[2] == TY_NONE) {           /* of f16: types of D and C alone are written */
        c = (enum type)in->type[1];
        in->type[1] = in->type[2] = TY_F16;
    }
    wmma_fragment(ps, &raws[0], in, &in->o[0], SUB_C, d, true);
    wmma_fragment(ps, &raws[1], in, &in->o[1], SUB_A, (enum type)in->type[1], false);
    wmma_fragment(ps, &raws[2], in, &in->o[2], SUB_B, (enum type)in->type[2], false);
    wmma_fragment(ps, &raws[3], in, &in->o[3], SUB_C, c, false);
}

/* ---- branches and calls --------------------------------------------------------------------- */

static void refer(struct parser *ps, const struct raw *r, bool targets)
{
    struct label_ref *ref;

    if (r->tok.kind != TOK_IDENT || r->memory)
        FAIL(ps, &r->tok, "expected a label");
    ref = parse_alloc(ps, sizeof *ref);
    ref->name = names_find(ps, r->tok.s, r->tok.len, true);
    ref->pc = ps->p->ninsts;
    ref->elem = NO_INDEX;
    ref->targets = targets;
    ref->next = ps->block->refs;
    ps->block->refs = ref;
}

static void branch(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in)
{
    if (n != 1)
        FAIL(ps, &ps->lex.tok, "bra has one operand, a label");
    refer(ps, &raws[0], false);
    in->o[0].kind = OPND_LABEL;
}

static void branch_indexed(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in)
{
    if (n != 2)
        FAIL(ps, &ps->lex.tok, "brx.idx has two operands: an index and a list of targets");
    if (raws[0].o.kind != OPND_REG)
        FAIL(ps, &raws[0].tok, "the index is a register");
    operand_value(ps, &raws[0], &in->o[0], TY_U32, false, false);
    refer(ps, &raws[1], true);
}

/* ( operands ) as a vector; NONE if there is no parenthesis */
static void parenthesised(struct parser *ps, struct operand *o, const struct param *formals,
                          uint32_t nformals, bool known, bool results)
{
    const struct token at = ps->lex.tok;
    struct operand e[64];
    uint32_t n = 0;

    parse_expect(ps, '(');
    while (!parse_is(ps, ')')) {
        struct raw r;

        if (n == sizeof e / sizeof *e)
            FAIL(ps, &at, "more than 64 arguments");
        operand_raw(ps, &r);
        if (r.label)
            FAIL(ps, &r.tok, "'%.*s' is not declared", (int)r.tok.len, r.tok.s);
        if (r.memory || r.o.kind == OPND_VEC || r.o.kind == OPND_SPECIAL)
            FAIL(ps, &r.tok, "not an argument");
        if (known && n >= nformals)
            FAIL(ps, &r.tok, "the function has %u %s", nformals,
                 results ? "results" : "parameters");
        if (r.is_symbol) {
            if (r.o.base != ADDR_FRAME || r.space != SP_PARAM)
                FAIL(ps, &r.tok, "'%.*s' is not a .param variable", (int)r.tok.len, r.tok.s);
            if (known && !formals[n].in_reg && r.size < formals[n].size)
                FAIL(ps, &r.tok, "%u bytes are passed, '%s' has %u", (unsigned)r.size,
                     formals[n].name, formals[n].size);
            e[n] = r.o;
        } else if (r.o.kind == OPND_SINK) {
            if (!results)
                FAIL(ps, &r.tok, "_ is not a source");
            e[n] = r.o;
        } else {
            const enum type type = known ? formals[n].type
                                 : r.o.kind == OPND_REG ? (enum type)r.o.type : TY_B64;

            operand_value(ps, &r, &e[n], type, results, true);
        }
        n++;
        if (!parse_accept(ps, ','))
            break;
    }
    parse_expect(ps, ')');
    if (known && n != nformals)
        FAIL(ps, &at, "%u %s given, the function has %u", n, results ? "results" : "arguments",
             nformals);

    const uint32_t first = operand_elems(ps, n);

    memcpy(&ps->p->elems[first], e, n * sizeof *e);
    *o = (struct operand){.kind = OPND_VEC, .n = (uint16_t)n, .reg = first};
}

void special_edge(struct parser *ps, uint32_t from, uint32_t to)
{
    if (ps->nedges == ps->edges_cap)
        ps->edges = parse_grow(ps, ps->edges, &ps->edges_cap, ps->nedges, sizeof *ps->edges);
    ps->edges[ps->nedges++] = (struct call_edge){from, to};
}

/* call (results), callee, (arguments), prototype; reads its operands itself */
void special_call(struct parser *ps, struct inst *in)
{
    const struct lex results_at = ps->lex;
    const bool has_results = parse_is(ps, '(');

    if (has_results) {
        /* the callee decides their types: skip now, read when it is known */
        struct operand skipped;

        parenthesised(ps, &skipped, NULL, 0, false, true);
        parse_expect(ps, ',');
    }

    const struct token at = ps->lex.tok;
    struct raw callee;
    const struct function *f = NULL;

    if (at.kind != TOK_IDENT)
        FAIL(ps, &at, "expected the function to call");
    operand_raw(ps, &callee);
    if (callee.o.kind == OPND_FUNC) {
        f = &ps->p->funcs[callee.o.reg];
        if (f->entry)
            FAIL(ps, &at, "a kernel cannot be called");
        special_edge(ps, ps->func, callee.o.reg);
    } else if (callee.o.kind == OPND_REG && !callee.memory) {
        operand_value(ps, &callee, &callee.o, TY_U64, false, false);
        ps->indirect = true;
    } else {
        FAIL(ps, &at, "'%.*s' is not a function", (int)at.len, at.s);
    }
    in->o[0] = callee.o;
    in->nopnd = 3;
    in->dst = 1 << 1;
    if (has_results) {
        const struct lex here = ps->lex;

        ps->lex = results_at;
        parenthesised(ps, &in->o[1], f ? f->rets : NULL, f ? f->nrets : 0, !!f, true);
        ps->lex = here;
    }
    if (parse_accept(ps, ',')) {
        if (parse_is(ps, '('))
            parenthesised(ps, &in->o[2], f ? f->params : NULL, f ? f->nparams : 0, !!f, false);
        else if (f || !parse_is(ps, '_'))
            goto prototype;
        if (parse_accept(ps, ','))
            goto prototype;
    }
    if (!f)
        FAIL(ps, &at, "a call through a register needs a .callprototype label");
    if (!has_results && f->nrets)
        FAIL(ps, &at, "'%s' returns %u values", f->name, f->nrets);
    if (in->o[2].kind == OPND_NONE && f->nparams)
        FAIL(ps, &at, "'%s' has %u parameters", f->name, f->nparams);
    return;

prototype:;
    struct raw list;

    operand_raw(ps, &list);
    if (f || !list.list)
        FAIL(ps, &list.tok, "expected the label of a .callprototype or .calltargets");
}

/* ---- rules between operands ----------------------------------------------------------------- */

static void setp(struct parser *ps, const struct raw *raws, const struct inst *in, unsigned c)
{
    const bool combines = in->o[c].kind != OPND_NONE;

    if (combines && !in->sub)
        FAIL(ps, &raws[0].tok, ".and, .or or .xor is missing for the third source");
    if (!combines && in->sub)
        FAIL(ps, &raws[0].tok, "the predicate to combine with is missing");
    if (in->type[c == 4 ? 0 : 1] == TY_B16 || in->type[c == 4 ? 0 : 1] == TY_B32 ||
        in->type[c == 4 ? 0 : 1] == TY_B64)
        if (in->cmp != CMP_EQ && in->cmp != CMP_NE)
            FAIL(ps, &raws[0].tok, "a .b type compares with .eq and .ne only");
}

static void bar(struct parser *ps, const struct raw *raws, const struct inst *in)
{
    const unsigned at = in->op == OP_BAR_RED;
    const struct operand *id = &in->o[at], *threads = &in->o[at + 1];

    if (id->kind == OPND_IMM && id->imm > 15)
        FAIL(ps, &raws[at].tok, "a barrier is one of 0..15");
    if (threads->kind == OPND_IMM && threads->imm % 32)
        FAIL(ps, &raws[at + 1].tok, "threads at a barrier come in multiples of 32");
}

static void cp_async(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in)
{
    const uint64_t size = in->o[2].imm;

    if (size != 4 && size != 8 && size != 16)
        FAIL(ps, &raws[2].tok, "a copy has 4, 8 or 16 bytes");
    if (in->o[3].kind == OPND_NONE)
        return;
    if (in->o[3].kind == OPND_REG && in->o[3].bank == BANK_PRED)
        return;
    for (unsigned i = 3; i < n; i++)
        if (raws[i].tok.s && in->o[3].kind == raws[i].o.kind) {
            operand_value(ps, &raws[i], &in->o[3], TY_U32, false, false);
            return;
        }
    FAIL(ps, &raws[3].tok, "not a source size");
}

static void bulk_size(struct parser *ps, const struct raw *raws, const struct inst *in,
                      unsigned slot)
{
    if (in->o[slot].kind == OPND_IMM && in->o[slot].imm % 16)
        FAIL(ps, &raws[slot].tok, "the size is a multiple of 16");
}

/* min and max: .abs by itself belongs to the form of three operands, .xorsign to that of two. */
static void extreme(struct parser *ps, const struct raw *raws, unsigned n, const struct inst *in)
{
    const bool three = n == 4;

    if (three && ps->p->sm < 100)
        FAIL(ps, &raws[3].tok, "the least or greatest of three takes sm_100, this module has sm_%u",
             ps->p->sm);
    if (three && in->flags & INST_XORSIGN)
        FAIL(ps, &ps->opcode, ".xorsign takes two operands");
    if (!three && in->flags & INST_ABS && !(in->flags & INST_XORSIGN))
        FAIL(ps, &ps->opcode, ".abs of two operands goes with .xorsign");
}

static void check(struct parser *ps, const struct raw *raws, unsigned n, struct inst *in)
{
    switch (in->op) {
    case OP_MIN: case OP_MAX:
        extreme(ps, raws, n, in);
        break;
    case OP_SETP:
        setp(ps, raws, in, 4);
        break;
    case OP_SET:
        setp(ps, raws, in, 3);
        break;
    case OP_BAR: case OP_BAR_RED:
        bar(ps, raws, in);
        break;
    case OP_CP_ASYNC:
        cp_async(ps, raws, n, in);
        break;
    case OP_BULK_COPY: case OP_BULK_REDUCE:
        bulk_size(ps, raws, in, 2);
        break;
    case OP_BULK_PREFETCH:
        bulk_size(ps, raws, in, 1);
        break;
    case OP_ALLOCA:
        if (in->o[2].kind == OPND_IMM && in->o[2].imm & (in->o[2].imm - 1))
            FAIL(ps, &raws[2].tok, "the alignment is a power of two");
        ps->p->moves_stack = true;
        break;
    case OP_STACKSAVE: case OP_STACKRESTORE:
        ps->p->moves_stack = true;
        break;
    case OP_MMA_SP:
        mma_sp(ps, raws, in);
        break;
    case OP_WMMA_LOAD:
        wmma_fragment(ps, &raws[0], in, &in->o[0], (enum suboperation)in->sub,
                      (enum type)in->type[0], true);
        break;
    case OP_WMMA_STORE:
        wmma_fragment(ps, &raws[1], in, &in->o[1], SUB_C, (enum type)in->type[0], false);
        break;
    default:
        break;
    }
}

void special_assign(struct parser *ps, const struct shape *shape, const struct raw *raws,
                    unsigned n, struct inst *in)
{
    switch (in->op) {
    case OP_MOV:
        if (in->type[0] == TY_PRED)
            break;
        mov(ps, raws, n, in);
        return;
    case OP_WGMMA: case OP_WGMMA_SP:
        wgmma(ps, raws, n, in);
        return;
    case OP_MMA:
        mma(ps, raws, n, in);
        return;
    case OP_WMMA_MMA:
        wmma_mma(ps, raws, n, in);
        return;
    case OP_BRA:
        branch(ps, raws, n, in);
        return;
    case OP_BRX:
        branch_indexed(ps, raws, n, in);
        return;
    default:
        if (!form_tcgen_assign(ps, shape, raws, n, in))
            break;
        form_tcgen_rules(ps, raws, in);
        return;
    }
    operand_assign(ps, shape, raws, n, in);
    check(ps, raws, n, in);
    form_tcgen_rules(ps, raws, in);
}
