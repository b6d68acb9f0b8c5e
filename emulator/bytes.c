/*
 * Bytes that nobody writes. Whether a register is defined is known for whole registers, lane by lane.
 * Compilers put bytes together with prmt, and where a byte of the result is never looked at they
 * name a register there that nothing writes:
 *
 *     prmt.b32 r3, r1, r2, 0x3340;        two bytes that were loaded; r1 and r2 are written
 *     prmt.b32 r6, r4, r5, 0x3340;        r5 is written nowhere: byte 1 of r6 is anything
 *     prmt.b32 r7, r3, r6, 0x4210;        bytes 0 to 2 of what was loaded: all of r7 is defined
 *
 * Such bytes are found once, in the text: of each register those that some write leaves undefined,
 * through prmt with a constant selector and mov. Then a prmt takes zeros for a register that nothing
 * writes, and any other instruction that reads a register with undefined bytes reads, instead, a
 * register that nothing writes, which makes it the use of an undefined value that it is.
 */
#include "parse.h"

enum { ALL_BYTES = 0xf };

struct bytes {
    struct program *p;
    const struct function *f;
    uint8_t *defined;           /* by register of BANK_32: bytes that every write defines */
    uint8_t *next;
    bool *written;
};

static bool is_word(const struct operand *o)
{
    return o->kind == OPND_REG && o->bank == BANK_32;
}

static bool is_constant_prmt(const struct inst *in)
{
    return in->op == OP_PRMT && in->sub == SUB_NONE && in->o[3].kind == OPND_IMM && is_word(&in->o[0]);
}

static bool is_copy(const struct inst *in)
{
    return in->op == OP_MOV && is_word(&in->o[0]) && is_word(&in->o[1]);
}

static unsigned bytes_of(const struct bytes *b, const struct operand *o)
{
    return is_word(o) ? b->defined[o->reg] : ALL_BYTES;
}

/* Bytes of the result that come from defined bytes of the sources. */
static unsigned permuted(const struct bytes *b, const struct inst *in)
{
    const unsigned sources = bytes_of(b, &in->o[1]) | bytes_of(b, &in->o[2]) << 4;
    unsigned result = 0;

    for (unsigned i = 0; i < 4; i++)
        result |= (sources >> (in->o[3].imm >> 4 * i & 7) & 1) << i;
    return result;
}

static void each_word(const struct bytes *b, struct operand *o, void (*fn)(const struct bytes *, struct operand *))
{
    if (is_word(o) || (o->kind == OPND_ADDR && o->base == ADDR_REG && o->bank == BANK_32))
        fn(b, o);
    for (uint32_t i = 0; o->kind == OPND_VEC && i < o->n; i++)
        each_word(b, &b->p->elems[o->reg + i], fn);
}

static void write_word(const struct bytes *b, struct operand *o)
{
    b->written[o->reg] = true;
}

/* Does the register have bytes that nobody writes, and others? */
static void undo(const struct bytes *b, struct operand *o)
{
    const unsigned defined = b->defined[o->reg];
    uint32_t nobody = 0;

    if (defined == 0 || defined == ALL_BYTES)
        return;
    while (b->written[nobody])  /* there is one: undefined bytes begin with it */
        nobody++;
    o->reg = nobody;
}

static void find_written(struct bytes *b)
{
    for (uint32_t pc = b->f->first; pc < b->f->end; pc++) {
        struct inst *in = &b->p->insts[pc];

        for (unsigned i = 0; i < in->nopnd; i++)
            if (in->dst >> i & 1)
                each_word(b, &in->o[i], write_word);
    }
    for (uint32_t i = 0; i < b->f->nparams; i++)
        if (b->f->params[i].in_reg)
            each_word(b, &b->f->params[i].reg, write_word);
    for (uint32_t r = 0; r < b->f->nregs[BANK_32]; r++)
        b->defined[r] = b->written[r] ? ALL_BYTES : 0;
}

/* One more round; false: nothing changed. */
static bool spread(struct bytes *b)
{
    const uint32_t n = b->f->nregs[BANK_32];
    bool changed = false;

    for (uint32_t r = 0; r < n; r++)
        b->next[r] = b->written[r] ? ALL_BYTES : 0;
    for (uint32_t pc = b->f->first; pc < b->f->end; pc++) {
        const struct inst *in = &b->p->insts[pc];

        if (is_constant_prmt(in))
            b->next[in->o[0].reg] &= (uint8_t)permuted(b, in);
        else if (is_copy(in))
            b->next[in->o[0].reg] &= (uint8_t)bytes_of(b, &in->o[1]);
    }
    for (uint32_t r = 0; r < n; r++) {
        changed |= b->next[r] != b->defined[r];
        b->defined[r] = b->next[r];
    }
    return changed;
}

static void rewrite(struct bytes *b)
{
    for (uint32_t pc = b->f->first; pc < b->f->end; pc++) {
        struct inst *in = &b->p->insts[pc];

        if (is_constant_prmt(in)) {
            for (unsigned k = 1; k <= 2; k++)
                if (is_word(&in->o[k]) && !b->defined[in->o[k].reg])
                    in->o[k] = (struct operand){.kind = OPND_IMM, .type = TY_B32};
        } else if (!is_copy(in)) {
            for (unsigned i = 0; i < in->nopnd; i++)
                if (!(in->dst >> i & 1))
                    each_word(b, &in->o[i], undo);
        }
    }
}

void bytes_settle(struct parser *ps, uint32_t func)
{
    struct bytes b = {.p = ps->p, .f = &ps->p->funcs[func]};
    const uint32_t n = b.f->nregs[BANK_32];
    bool some = false;

    b.defined = parse_alloc(ps, n + 1);
    b.next = parse_alloc(ps, n + 1);
    b.written = parse_alloc(ps, (n + 1) * sizeof *b.written);
    find_written(&b);
    for (uint32_t r = 0; r < n; r++)
        some |= !b.written[r];
    if (!some)
        return;
    while (spread(&b))
        continue;
    rewrite(&b);
}
