/*
 * Operands: read as written (struct raw), then fitted to the slots of a form.
 */
#include <string.h>

#include "parse.h"

/* ---- reading -------------------------------------------------------------------------------- */

enum bank operand_bank(enum type t)
{
    return t == TY_PRED ? BANK_PRED : type_bits(t) > 32 ? BANK_64 : BANK_32;
}

uint32_t operand_elems(struct parser *ps, uint32_t n)
{
    struct program *p = ps->p;

    while (p->nelems + n > ps->elems_cap)
        p->elems = parse_grow(ps, p->elems, &ps->elems_cap, p->nelems, sizeof *p->elems);
    p->nelems += n;
    return p->nelems - n;
}

void operand_use_shared(struct parser *ps, uint32_t pc, uint32_t slot, const struct operand *o)
{
    if (o->kind != OPND_ADDR || o->base != ADDR_SHARED)
        return;
    if (ps->nuses == ps->uses_cap)
        ps->uses = parse_grow(ps, ps->uses, &ps->uses_cap, ps->nuses, sizeof *ps->uses);
    ps->uses[ps->nuses++] = (struct shared_use){pc, slot, ps->func, o->reg};
}

/* A name that is bound: register, or a symbol's address. */
static void bound(struct parser *ps, const struct token *t, const struct binding *b,
                  uint32_t number, struct raw *r)
{
    struct operand *o = &r->o;

    o->kind = OPND_ADDR;
    r->is_symbol = true;
    switch (b->kind) {
    case BIND_REG:
        r->is_symbol = false;
        o->kind = OPND_REG;
        o->type = b->type;
        o->bank = (uint8_t)operand_bank((enum type)b->type);
        o->reg = b->index + number * (b->type == TY_B128 ? 2 : 1);
        break;
    case BIND_SHARED:
        o->base = ADDR_SHARED;
        o->reg = b->index;
        r->space = SP_SHARED;
        break;
    case BIND_SYMBOL:
        o->base = ADDR_SYMBOL;
        o->reg = b->index;
        r->space = (uint8_t)ps->p->symbols[b->index].space;
        break;
    case BIND_LOCAL:
        o->base = ADDR_FRAME;
        o->off = b->offset;
        r->space = SP_LOCAL;
        break;
    case BIND_KERNEL_PARAM:
        o->base = ADDR_PARAM;
        o->off = b->offset;
        r->space = SP_PARAM;
        break;
    case BIND_FRAME_PARAM:
        o->base = ADDR_FRAME;
        o->off = b->offset;
        r->space = SP_PARAM;
        r->writable = b->writable;
        r->size = b->size;
        break;
    case BIND_FUNC:
        r->is_symbol = false;
        o->kind = OPND_FUNC;
        o->reg = b->index;
        break;
    default:
        FAIL(ps, t, "'%.*s' is not an operand", (int)t->len, t->s);
    }
}

static void name(struct parser *ps, struct raw *r)
{
    const struct token t = ps->lex.tok;
    uint32_t number;
    const struct binding *b;

    parse_next(ps);
    if (t.len == 1 && *t.s == '_') {
        r->o.kind = OPND_SINK;
        return;
    }
    b = names_lookup(ps, &t, &number);
    if (b) {
        bound(ps, &t, b, number, r);
        return;
    }
    if (*t.s == '%' && sreg_parse(ps, &t, &r->o))
        return;
    r->label = names_find(ps, t.s, t.len, true);
    if (r->label->label && r->label->label->kind != BIND_LABEL)
        r->list = r->label->label;
}

static void immediate(struct parser *ps, struct operand *o)
{
    const struct constant c = expr_parse(ps);

    o->kind = OPND_IMM;
    o->base = !c.is_float ? RAW_INT : !c.exact ? RAW_FLOAT : c.single ? RAW_SINGLE : RAW_DOUBLE;
    o->imm = c.u;
    if (o->base == RAW_FLOAT)
        memcpy(&o->imm, &c.d, sizeof c.d);
}

static void no_such_name(struct parser *ps, const struct raw *r)
{
    FAIL(ps, &r->tok, "'%.*s' is not declared", (int)r->tok.len, r->tok.s);
}

/* {a, b, ..}: fills a vector operand */
static void vector(struct parser *ps, struct operand *o)
{
    const struct token at = ps->lex.tok;
    struct operand e[256];
    uint32_t n = 0;

    parse_expect(ps, '{');
    do {
        struct raw r = {.tok = ps->lex.tok};

        if (n == sizeof e / sizeof *e)
            FAIL(ps, &at, "a vector has at most 256 elements");
        if (expr_starts(ps))
            immediate(ps, &r.o);
        else if (ps->lex.tok.kind == TOK_IDENT)
            name(ps, &r);
        else
            FAIL(ps, &ps->lex.tok, "expected a vector element, found '%.*s'",
                 (int)ps->lex.tok.len, ps->lex.tok.s);
        if (r.label)
            no_such_name(ps, &r);
        if (r.o.kind != OPND_REG && r.o.kind != OPND_IMM && r.o.kind != OPND_SINK &&
            r.o.kind != OPND_SPECIAL)
            FAIL(ps, &r.tok, "'%.*s' cannot be a vector element", (int)r.tok.len, r.tok.s);
        e[n++] = r.o;
    } while (parse_accept(ps, ','));
    parse_expect(ps, '}');

    const uint32_t first = operand_elems(ps, n);

    memcpy(&ps->p->elems[first], e, n * sizeof *e);
    *o = (struct operand){.kind = OPND_VEC, .n = (uint16_t)n, .reg = first};
}

/* [base], [base + constant], [constant], [map, {coordinates}] */
static void memory(struct parser *ps, struct raw *r)
{
    struct operand *o = &r->o;

    parse_expect(ps, '[');
    r->memory = true;
    if (expr_starts(ps)) {
        o->off = expr_integer(ps);
        o->base = ADDR_ABS;
        o->kind = OPND_ADDR;
    } else if (ps->lex.tok.kind == TOK_IDENT) {
        const struct token at = ps->lex.tok;

        r->tok = at;
        name(ps, r);
        if (r->label)
            no_such_name(ps, r);
        if (o->kind == OPND_REG) {
            const enum type t = (enum type)o->type;

            if (t == TY_PRED || type_float(t) || t == TY_B128)
                FAIL(ps, &at, "'%.*s' is .%s; an address is an integer", (int)at.len, at.s,
                     type_name(t));
            o->kind = OPND_ADDR;
            o->base = ADDR_REG;
        } else if (o->kind != OPND_ADDR) {
            FAIL(ps, &at, "'%.*s' has no address", (int)at.len, at.s);
        }
        if (parse_accept(ps, '+'))
            o->off += expr_integer(ps);
    } else {
        FAIL(ps, &ps->lex.tok, "expected an address, found '%.*s'", (int)ps->lex.tok.len,
             ps->lex.tok.s);
    }
    if (parse_accept(ps, ',')) {
        if (!parse_is(ps, '{'))
            FAIL(ps, &ps->lex.tok, "expected { and the tensor coordinates");
        vector(ps, &r->coords);
        r->tensor = true;
    }
    parse_expect(ps, ']');
}

void operand_raw(struct parser *ps, struct raw *r)
{
    memset(r, 0, sizeof *r);
    r->tok = ps->lex.tok;
    if (parse_is(ps, '[')) {
        memory(ps, r);
    } else if (parse_is(ps, '{')) {
        vector(ps, &r->o);
    } else if (ps->lex.tok.kind == TOK_IDENT && !expr_starts(ps)) {
        name(ps, r);
        if (r->is_symbol && parse_accept(ps, '+'))
            r->o.off += expr_integer(ps);
    } else if (parse_is(ps, '!')) {
        /* !p, or a constant expression */
        const struct lex before = ps->lex;

        parse_next(ps);
        if (ps->lex.tok.kind == TOK_IDENT && !expr_starts(ps)) {
            name(ps, r);
            if (r->o.kind != OPND_REG || r->o.type != TY_PRED)
                FAIL(ps, &r->tok, "! needs a predicate");
            r->o.negated = true;
        } else {
            ps->lex = before;
            immediate(ps, &r->o);
        }
    } else if (expr_starts(ps)) {
        immediate(ps, &r->o);
    } else {
        FAIL(ps, &ps->lex.tok, "expected an operand, found '%.*s'", (int)ps->lex.tok.len,
             ps->lex.tok.s);
    }
}

/* Operands up to the semicolon, which is left. a|b are two, the first marked paired. */
unsigned operand_list(struct parser *ps, struct raw *raws)
{
    unsigned n = 0;

    if (parse_is(ps, ';'))
        return 0;
    for (;;) {
        if (n == RAW_OPERANDS)
            FAIL(ps, &ps->lex.tok, "too many operands");
        operand_raw(ps, &raws[n]);
        if (parse_accept(ps, '|'))
            raws[n].paired = true;
        else if (!parse_accept(ps, ','))
            return n + 1;
        n++;
    }
}

/* ---- fitting -------------------------------------------------------------------------------- */

/* May a register of type `have` hold an operand of type `want`? `wider`: as for ld, st, cvt. */
bool operand_fits(enum type want, enum type have, bool wider)
{
    const unsigned w = type_bits(want), h = type_bits(have);
    const bool bits = have == TY_B8 || have == TY_B16 || have == TY_B32 || have == TY_B64;
    const bool more = wider && h > w && h <= 64;

    if (want == TY_PRED || have == TY_PRED || want == TY_B128 || have == TY_B128)
        return want == have;
    switch (want) {
    case TY_B8: case TY_B16: case TY_B32: case TY_B64:
        return h == w || more;
    case TY_U8: case TY_S8: case TY_U16: case TY_S16: case TY_U32: case TY_S32: case TY_U64:
    case TY_S64:
        return !type_float(have) && (h == w || more);
    case TY_F16:
        return have == TY_F16 || have == TY_B16 || (bits && more);
    case TY_F32: case TY_F64:
        return have == want || (bits && (h == w || more));
    case TY_F16X2:
        return have == TY_F16X2 || have == TY_B32;
    default:                    /* bf16, tf32, packed pairs: plain bits only */
        return bits && h == w;
    }
}

static uint64_t mask_of(enum type t)
{
    const unsigned bits = type_bits(t);

    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

/* Gives a raw immediate the bits it has as `type`. False: it has none. */
static bool convert(struct operand *o, enum type type, bool bit_moves)
{
    const unsigned raw = o->base;
    double d = 0;
    float f;

    o->base = 0;
    o->type = (uint8_t)type;
    if (type == TY_PRED) {
        o->imm = o->imm != 0;
        return raw == RAW_INT;
    }
    if (raw == RAW_INT) {
        o->imm &= mask_of(type);
        return !type_float(type);
    }
    if (raw == RAW_FLOAT) {
        memcpy(&d, &o->imm, sizeof d);
    } else if (raw == RAW_SINGLE) {
        const uint32_t bits = (uint32_t)o->imm;

        if (type == TY_F32 || (bit_moves && type == TY_B32))
            return true;
        memcpy(&f, &bits, sizeof f);
        d = (double)f;
    } else {
        if (type == TY_F64 || (bit_moves && type == TY_B64))
            return true;
        memcpy(&d, &o->imm, sizeof d);
    }
    if (type == TY_F32) {
        uint32_t bits;

        f = (float)d;
        memcpy(&bits, &f, sizeof bits);
        o->imm = bits;
        return true;
    }
    memcpy(&o->imm, &d, sizeof d);
    return type == TY_F64;
}

static void mismatch(struct parser *ps, const struct raw *r, enum type type)
{
    const int len = (int)ps->opcode.len;
    const char *op = ps->opcode.s;

    if (r->label)
        no_such_name(ps, r);
    if (r->o.kind == OPND_REG)
        FAIL(ps, &r->tok, "'%.*s' is .%s, %.*s wants .%s here", (int)r->tok.len, r->tok.s,
             type_name((enum type)r->o.type), len, op, type_name(type));
    FAIL(ps, &r->tok, "'%.*s' is no operand of type .%s for %.*s", (int)r->tok.len,
         r->tok.s, type_name(type), len, op);
}

/* A source or destination of the type: register, or immediate for a source. */
void operand_value(struct parser *ps, const struct raw *r, struct operand *o, enum type type,
                   bool dst, bool wider)
{
    *o = r->o;
    if (r->memory || r->is_symbol)
        mismatch(ps, r, type);
    if (o->kind == OPND_REG) {
        if (!operand_fits(type, (enum type)o->type, wider))
            mismatch(ps, r, type);
        return;
    }
    if (o->kind == OPND_IMM && !dst && convert(o, type, true))
        return;
    mismatch(ps, r, type);
}

static bool may_be_special(uint16_t op)
{
    return op == OP_MOV || op == OP_CVT;
}

/* What ld and st move may stand in braces though it is one element. */
static struct raw unwrapped(const struct parser *ps, const struct raw *r, uint16_t op)
{
    struct raw one = *r;

    if ((op == OP_LD || op == OP_ST) && r->o.kind == OPND_VEC && r->o.n == 1)
        one.o = ps->p->elems[r->o.reg];
    return one;
}

static void value(struct parser *ps, const struct spec *s, const struct raw *given, struct inst *in,
                  struct operand *o)
{
    const enum type type = (enum type)s->type;
    const struct raw inner = unwrapped(ps, given, in->op), *const r = &inner;

    if (s->dst && s->sink && r->o.kind == OPND_SINK) {
        o->kind = OPND_SINK;
        return;
    }
    if (s->symbol && r->is_symbol && !r->memory) {
        const uint8_t space = in->space == SP_SHARED_CLUSTER ? SP_SHARED : in->space;

        if (space != r->space)
            FAIL(ps, &r->tok, "'%.*s' is in another state space", (int)r->tok.len, r->tok.s);
        *o = r->o;
        return;
    }
    if (!s->dst && may_be_special(in->op) && r->o.kind == OPND_SPECIAL) {
        if (type_float(type) || type_bits(type) == 8)
            mismatch(ps, r, type);
        *o = r->o;
        return;
    }
    if (s->reg_only && r->o.kind != OPND_REG)
        mismatch(ps, r, type);
    if (!s->dst && r->o.kind == OPND_IMM && (in->op == OP_ADD || in->op == OP_MUL ||
        in->op == OP_SUB || in->op == OP_MAD || in->op == OP_FMA) && r->o.base != RAW_INT &&
        !type_float(type))
        mismatch(ps, r, type);
    operand_value(ps, r, o, type, s->dst, s->wider);
}

static void values(struct parser *ps, const struct spec *s, const struct raw *r,
                   struct operand *o)
{

    if (r->o.kind != OPND_VEC)
        FAIL(ps, &r->tok, "expected a vector of %u elements", s->count);
    if (r->o.n != s->count)
        FAIL(ps, &r->tok, "vector of %u elements where %u are expected", r->o.n, s->count);

    bool all_sinks = s->dst;

    for (uint32_t i = 0; i < r->o.n; i++) {
        struct operand *e = &ps->p->elems[r->o.reg + i];
        const struct raw one = {.o = *e, .tok = r->tok};

        if (e->kind == OPND_SINK && s->dst)
            continue;
        if (e->kind == OPND_SINK)
            FAIL(ps, &r->tok, "_ is not a source");
        all_sinks = false;
        operand_value(ps, &one, e, (enum type)s->type, s->dst, s->wider);
    }
    if (all_sinks)
        FAIL(ps, &r->tok, "a vector of nothing but _");
    *o = r->o;
}

static bool symbol_in(uint8_t symbol, uint8_t wanted)
{
    return symbol == wanted || (symbol == SP_SHARED && wanted == SP_SHARED_CLUSTER);
}

static void address(struct parser *ps, const struct spec *s, const struct raw *r, struct inst *in,
                    struct operand *o)
{
    if (!r->memory)
        FAIL(ps, &r->tok, "expected an address in []");
    if (r->tensor != (s->kind == SPEC_TENSOR))
        FAIL(ps, &r->tok, s->kind == SPEC_TENSOR ? "expected [tensor map, {coordinates}]"
                                                 : "this address takes no coordinates");
    *o = r->o;
    if (r->is_symbol) {
        const bool narrows = s->space == SP_GENERIC && s->kind == SPEC_MEM && &in->o[0] <= o &&
                             (in->op == OP_LD || in->op == OP_ST || in->op == OP_ATOM ||
                              in->op == OP_ATOM_CAS || in->op == OP_RED) && r->space != SP_PARAM;

        if (narrows)
            in->space = r->space;
        else if (!(symbol_in(r->space, s->space) ||
                   (in->op == OP_PREFETCH_TENSORMAP && s->space == SP_GENERIC)))
            FAIL(ps, &r->tok, "'%.*s' is in another state space than the instruction names",
                 (int)r->tok.len, r->tok.s);
        if (in->op == OP_ST && r->space == SP_PARAM && !r->writable)
            FAIL(ps, &r->tok, "an input parameter cannot be written");
    } else if (o->base == ADDR_ABS) {
        if (s->space != SP_LOCAL)
            FAIL(ps, &r->tok, "only .local takes a constant address");
    } else if (o->bank != BANK_64 && (s->space == SP_GENERIC || s->space == SP_GLOBAL) &&
               in->op != OP_TCGEN_ALLOC && in->op != OP_TCGEN_COMMIT) {
        FAIL(ps, &r->tok, "an address of 64 bits is expected");
    }
    if (s->space == SP_TENSOR && (r->is_symbol || o->base != ADDR_REG || o->bank != BANK_32))
        FAIL(ps, &r->tok, "expected an address in Tensor Memory, [32-bit register + constant]");
    if (s->kind == SPEC_TENSOR) {
        const struct spec coords = {.kind = SPEC_VALUE, .type = TY_B32, .count = s->count};
        const struct raw c = {.o = r->coords, .tok = r->tok};

        if (r->is_symbol || o->off)
            FAIL(ps, &r->tok, "the tensor map is a register with its generic address");
        values(ps, &coords, &c, o + 1);
    }
}

static void immediate_in(struct parser *ps, const struct spec *s, const struct raw *r,
                         struct operand *o)
{
    if (r->o.kind != OPND_IMM || r->o.base != RAW_INT)
        FAIL(ps, &r->tok, "expected an integer constant");
    *o = r->o;
    o->base = 0;
    o->type = TY_B32;

    const int64_t v = (int64_t)o->imm;

    if (s->kind == SPEC_SIGN) {
        if (v != 1 && v != -1)
            FAIL(ps, &r->tok, "%lld where 1 or -1 is expected", (long long)v);
    } else if (v < s->lo || v > s->hi || v % s->step) {
        if (s->step > 1)
            FAIL(ps, &r->tok, "%lld where a multiple of %lld in %lld..%lld is expected",
                 (long long)v, (long long)s->step, (long long)s->lo, (long long)s->hi);
        FAIL(ps, &r->tok, "%lld where a value in %lld..%lld is expected", (long long)v,
             (long long)s->lo, (long long)s->hi);
    }
    o->imm &= UINT32_MAX;
}

static void predicate(struct parser *ps, const struct spec *s, const struct raw *r,
                      struct inst *in, struct operand *o)
{
    *o = r->o;
    if (s->dst) {
        if (s->sink && o->kind == OPND_SINK)
            return;
        if (o->kind != OPND_REG || o->negated)
            mismatch(ps, r, TY_PRED);
    }
    if (o->kind == OPND_SPECIAL && o->type == TY_PRED && in->op == OP_MOV)
        return;
    operand_value(ps, r, o, TY_PRED, s->dst, false);
}

/* Could the operand stand for the spec at all? Decides which optional ones are meant. */
static bool plausible(const struct spec *s, const struct raw *r)
{
    switch (s->kind) {
    case SPEC_MEM: case SPEC_TENSOR:
        return r->memory;
    case SPEC_PRED:
        return !r->memory && (r->o.kind == OPND_IMM || r->o.kind == OPND_SINK ||
                              (r->o.kind == OPND_REG && r->o.type == TY_PRED));
    case SPEC_SINK:
        return r->o.kind == OPND_SINK;
    case SPEC_ANY:
        return true;
    default:
        return !r->memory && !(r->o.kind == OPND_REG && r->o.type == TY_PRED);
    }
}

static void assign_one(struct parser *ps, const struct spec *s, const struct raw *r,
                       struct inst *in, unsigned slot)
{
    struct operand *o = &in->o[slot];

    switch (s->kind) {
    case SPEC_VALUE: case SPEC_POLICY:
        if (s->vector || s->count > 1)
            values(ps, s, r, o);
        else
            value(ps, s, r, in, o);
        break;
    case SPEC_PRED:
        predicate(ps, s, r, in, o);
        break;
    case SPEC_MEM: case SPEC_TENSOR:
        address(ps, s, r, in, o);
        break;
    case SPEC_IMM: case SPEC_SIGN:
        immediate_in(ps, s, r, o);
        break;
    case SPEC_SINK:
        if (r->o.kind != OPND_SINK)
            FAIL(ps, &r->tok, "the destination is _ for a barrier of the cluster");
        o->kind = OPND_SINK;
        break;
    default:
        *o = r->o;
        break;
    }
}

void operand_assign(struct parser *ps, const struct shape *shape, const struct raw *raws,
                    unsigned n, struct inst *in)
{
    unsigned needed = 0, at = 0;

    for (unsigned i = 0; i < shape->nspecs; i++)
        needed += !shape->spec[i].optional && shape->spec[i].kind != SPEC_EMPTY;
    for (unsigned i = 0; i < shape->nspecs; i++) {
        const struct spec *s = &shape->spec[i];

        if (s->kind == SPEC_EMPTY)
            continue;
        if (s->optional && (at >= n || n - at <= needed || !plausible(s, &raws[at])))
            continue;
        if (at >= n)
            FAIL(ps, &ps->lex.tok, "operand missing: %u given, at least %u wanted", n,
                 needed + at);

        const bool second = i + 1 < shape->nspecs && s->pair;

        if (raws[at].paired && !second)
            FAIL(ps, &raws[at].tok, "a pair a|b does not fit here");
        if (second && !raws[at].paired && !shape->spec[i + 1].optional)
            FAIL(ps, &raws[at].tok, "a pair a|b is expected here");
        needed -= !s->optional;
        assign_one(ps, s, &raws[at++], in, shape->slot[i]);
        if (second && !raws[at - 1].paired)
            i++;                /* the pair's second is left out */
    }
    if (at < n)
        FAIL(ps, &raws[at].tok, "one operand too many");
}
