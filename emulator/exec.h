/*
 * For instruction handlers: operands as rows of lanes.
 *
 * A handler computes the lanes lo .. hi-1 that its mask spans, also those in between that do not
 * take part (arithmetic cannot fault), and writes back only what the mask says. One active lane
 * thus costs one step, a full warp a loop that the compiler makes vector code of.
 */
#ifndef EMULATOR_EXEC_H
#define EMULATOR_EXEC_H

#include <string.h>

#include "state.h"

/* Loops over the lanes of a warp become vector code, whatever the build says. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define OP(NAME, name) enum flow op_##name(struct warp *w, const struct inst *in, uint32_t mask);
#define FORM(NAME, mnemonic, operands, semantics)
#include "isa.def"
#undef OP
#undef FORM

/* For an .aligned instruction of a warp: all its lanes once they have come, else 0, when they were
 * parked or it trapped because some have exited. */
uint32_t warp_whole(struct warp *w, const struct inst *in, uint32_t mask);

/* Parts of handlers that live in another file: the integer types (exec_int.c) and the roundings. */
enum flow int_add(struct warp *w, const struct inst *in, uint32_t mask);
enum flow int_sub(struct warp *w, const struct inst *in, uint32_t mask);
enum flow int_mul(struct warp *w, const struct inst *in, uint32_t mask);
enum flow int_div(struct warp *w, const struct inst *in, uint32_t mask);
enum flow int_abs(struct warp *w, const struct inst *in, uint32_t mask);
enum flow int_neg(struct warp *w, const struct inst *in, uint32_t mask);
enum flow int_min(struct warp *w, const struct inst *in, uint32_t mask);
enum flow int_max(struct warp *w, const struct inst *in, uint32_t mask);
enum flow float_sqrt(struct warp *w, const struct inst *in, uint32_t mask);
enum flow float_rcp(struct warp *w, const struct inst *in, uint32_t mask);
enum flow approx_div(struct warp *w, const struct inst *in, uint32_t mask);

/* exec_float.c: the instruction's rounding, for fesetround(). */
int exec_direction(const struct inst *in);

struct span {
    uint32_t mask;
    unsigned lo, hi;
};

static inline struct span span_of(uint32_t mask)
{
    return (struct span){ mask, (unsigned)__builtin_ctz(mask),
                          32u - (unsigned)__builtin_clz(mask) };
}

const uint32_t *row32_slow(const struct warp *w, const struct operand *op, uint32_t *tmp,
                           struct span s);
const uint64_t *row64_slow(const struct warp *w, const struct operand *op, uint64_t *tmp,
                           struct span s);
void put32_slow(struct warp *w, const struct operand *op, uint32_t mask, const uint32_t *row,
                uint32_t defined);
void put64_slow(struct warp *w, const struct operand *op, uint32_t mask, const uint64_t *row,
                uint32_t defined);

/* The operand's values, low 32 bits; *defined loses the lanes that have none. */
static inline const uint32_t *row32(const struct warp *w, const struct operand *op, uint32_t *tmp,
                                    struct span s, uint32_t *defined)
{
    if (op->kind == OPND_REG && op->bank == BANK_32) {
        *defined &= w->r.def32[op->reg];
        return w->r.r32[op->reg];
    }
    if (op->kind == OPND_IMM) {
        const uint32_t v = (uint32_t)op->imm;
        for (unsigned l = 0; l < LANES; l++)
            tmp[l] = v;
        return tmp;
    }
    *defined &= warp_defined(w, op);
    return row32_slow(w, op, tmp, s);
}

static inline const uint64_t *row64(const struct warp *w, const struct operand *op, uint64_t *tmp,
                                    struct span s, uint32_t *defined)
{
    if (op->kind == OPND_REG && op->bank == BANK_64) {
        *defined &= w->r.def64[op->reg];
        return w->r.r64[op->reg];
    }
    *defined &= warp_defined(w, op);
    return row64_slow(w, op, tmp, s);
}

static inline void put32(struct warp *w, const struct operand *op, struct span s,
                         const uint32_t *row, uint32_t defined)
{
    if (op->kind != OPND_REG || op->bank != BANK_32) {
        put32_slow(w, op, s.mask, row, defined);
        return;
    }
    uint32_t *to = w->r.r32[op->reg];
    uint32_t *def = &w->r.def32[op->reg];
    *def = (*def & ~s.mask) | (defined & s.mask);
    if (s.mask == UINT32_MAX) {
        memcpy(to, row, LANES * sizeof *to);
    } else if (s.hi - s.lo == 1) {
        to[s.lo] = row[s.lo];
    } else {
        for (unsigned l = s.lo; l < s.hi; l++)
            to[l] = (s.mask >> l) & 1 ? row[l] : to[l];
    }
}

static inline void put64(struct warp *w, const struct operand *op, struct span s,
                         const uint64_t *row, uint32_t defined)
{
    if (op->kind != OPND_REG || op->bank != BANK_64) {
        put64_slow(w, op, s.mask, row, defined);
        return;
    }
    uint64_t *to = w->r.r64[op->reg];
    uint32_t *def = &w->r.def64[op->reg];
    *def = (*def & ~s.mask) | (defined & s.mask);
    if (s.mask == UINT32_MAX) {
        memcpy(to, row, LANES * sizeof *to);
    } else if (s.hi - s.lo == 1) {
        to[s.lo] = row[s.lo];
    } else {
        for (unsigned l = s.lo; l < s.hi; l++)
            to[l] = (s.mask >> l) & 1 ? row[l] : to[l];
    }
}

/* Calls the body for the lanes of each member mask that have all come; others are parked. */
enum flow warp_by_member(struct warp *w, const struct inst *in, uint32_t mask,
                         const struct operand *members,
                         void (*body)(struct warp *w, const struct inst *in, uint32_t lanes,
                                      uint32_t member));

/* What the decoder admits and the machine does not execute. */
enum flow exec_refuse(struct warp *w, const struct inst *in, const char *what);

/* Lanes in which `a and b` or `a or b` is known, though one of the two may not be: 0 and x, 1 or x. */
static inline uint32_t logic_defined(enum suboperation op, uint32_t a, uint32_t a_known, uint32_t b,
                                     uint32_t b_known)
{
    const uint32_t both = a_known & b_known;

    switch (op) {
    case SUB_AND: return both | (a_known & ~a) | (b_known & ~b);
    case SUB_OR: return both | (a_known & a) | (b_known & b);
    default: return both;
    }
}

#endif
