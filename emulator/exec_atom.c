/*
 * Atomic operations on global and shared memory, lane after lane.
 */
#include "floats.h"
#include "reach.h"

static uint32_t atomic_half(const struct inst *in, uint32_t old, uint32_t b)
{
    const enum type type = (enum type)in->type[0];
    const bool brain = type == TY_BF16 || type == TY_BF16X2;
    const struct format f = brain ? format_bf16 : format_f16;
    const double x = format_value(f, old & 0xffff), y = format_value(f, b & 0xffff);

    if (in->sub == SUB_ADD)
        return (uint32_t)format_round(f, odd_add(x, y), RND_RN);
    if (x != x || y != y)
        return x == x ? old & 0xffff : y == y ? b & 0xffff : NAN_F16;
    if (x == y)                 /* zeros of different sign */
        return in->sub == SUB_MIN ? (old | b) & 0xffff : old & b & 0xffff;
    return ((x < y) == (in->sub == SUB_MIN) ? old : b) & 0xffff;
}

/* In global memory f32 sums flush subnormals, in shared memory they do not. */
static uint64_t atomic_float(const struct inst *in, uint64_t old, uint64_t b, bool ftz)
{
    if (in->type[0] == TY_F64)
        return bits_of_double(double_of(old) + double_of(b));
    if (ftz) {
        const uint32_t sum = bits_of_float(float_of(flush32((uint32_t)old)) +
                                           float_of(flush32((uint32_t)b)));
        return is_nan32(sum) ? NAN_F32 : flush32(sum);
    }
    const uint32_t sum = bits_of_float(float_of((uint32_t)old) + float_of((uint32_t)b));
    return is_nan32(sum) ? NAN_F32 : sum;
}

static uint64_t atomic_result(const struct inst *in, uint64_t old, uint64_t b, bool ftz)
{
    const enum type type = (enum type)in->type[0];
    const bool less = type_signed(type)
        ? (type == TY_S32 ? (int32_t)(uint32_t)old < (int32_t)(uint32_t)b
                          : (int64_t)old < (int64_t)b)
        : old < b;

    switch (type) {
    case TY_F16: case TY_BF16:
        if (in->sub != SUB_EXCH)
            return atomic_half(in, (uint32_t)old, (uint32_t)b);
        break;
    case TY_F16X2: case TY_BF16X2:
        if (in->sub != SUB_EXCH)
            return atomic_half(in, (uint32_t)old, (uint32_t)b) |
                   atomic_half(in, (uint32_t)old >> 16, (uint32_t)b >> 16) << 16;
        break;
    case TY_F32: case TY_F64:
        if (in->sub == SUB_ADD)
            return atomic_float(in, old, b, ftz);
        break;
    default:
        break;
    }
    switch (in->sub) {
    case SUB_ADD: return old + b;
    case SUB_MIN: return less ? old : b;
    case SUB_MAX: return less ? b : old;
    case SUB_AND: return old & b;
    case SUB_OR: return old | b;
    case SUB_XOR: return old ^ b;
    case SUB_INC: return old >= b ? 0 : old + 1;
    case SUB_DEC: return old == 0 || old > b ? b : old - 1;
    default: return b;          /* exch */
    }
}

/* One element of one lane: memory op= b. */
static bool atomic_element(struct warp *w, const struct inst *in, unsigned lane,
                           const struct place *p, unsigned at, unsigned size,
                           const struct operand *to, const struct operand *b, uint64_t address)
{
    const uint32_t full = (uint32_t)((UINT64_C(1) << size) - 1);
    const bool known = warp_defined(w, b) >> lane & 1;
    const bool valid = valid_bits(p, at, size) == full;
    const bool defined = known && (valid || in->sub == SUB_EXCH);
    const uint64_t old = fetch(p->data + at, size);

    if (!defined && p->space == SP_GLOBAL) {
        warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, address,
                     known ? "memory that nobody wrote" : "the operand");
        return false;
    }
    const uint64_t next = atomic_result(in, old, warp_value(w, b, lane),
                                        p->space == SP_GLOBAL);
    put(w, p, at, &next, size, defined);
    if (to)
        warp_set(w, to, lane, old, valid);
    return true;
}

static enum flow atomic(struct warp *w, const struct inst *in, uint32_t mask,
                        const struct operand *to, const struct operand *address,
                        const struct operand *b)
{
    const struct program *program = w->grid->program;
    const enum type type = (enum type)in->type[0];
    const unsigned size = type_bits(type) / 8, all = size * in->vec;
    const unsigned parts = size == 16 ? 2 : in->vec, step = size == 16 ? 8 : size;
    struct place p;

    if (!warp_need(w, in, address, mask, "the address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t at = warp_address(w, address, lane);
        if (!reach(w, in, at, (enum space)in->space, lane, all, ACCESS_WRITE, &p))
            return FLOW_TRAP;
        if (p.space == SP_LOCAL || p.space == SP_PARAM)
            return warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, at,
                                "atomics work on global and shared memory");
        for (unsigned i = 0; i < parts; i++) {
            struct operand d = { 0 }, v;
            if (size == 16) {
                v = *b;
                v.reg += i;
                if (to) {
                    d = *to;
                    d.reg += i;
                }
            } else {
                v = *operand_element(program, b, i);
                if (to)
                    d = *operand_element(program, to, i);
            }
            if (!atomic_element(w, in, lane, &p, i * step, step, to ? &d : NULL, &v,
                                at))
                return FLOW_TRAP;
        }
    }
    return FLOW_NEXT;
}

enum flow op_atom(struct warp *w, const struct inst *in, uint32_t mask)
{
    return atomic(w, in, mask, &in->o[0], &in->o[1], &in->o[2]);
}

enum flow op_red(struct warp *w, const struct inst *in, uint32_t mask)
{
    return atomic(w, in, mask, NULL, &in->o[0], &in->o[1]);
}

enum flow op_atom_cas(struct warp *w, const struct inst *in, uint32_t mask)
{
    const unsigned size = type_bits((enum type)in->type[0]) / 8;
    const unsigned parts = size == 16 ? 2 : 1, step = size == 16 ? 8 : size;
    struct place p;

    if (!warp_need(w, in, &in->o[1], mask, "the address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t at = warp_address(w, &in->o[1], lane);
        if (!reach(w, in, at, (enum space)in->space, lane, size, ACCESS_WRITE, &p))
            return FLOW_TRAP;
        uint64_t old[2] = { 0, 0 }, next[2] = { 0, 0 };
        bool equal = true, known = true, valid = true, next_known = true;
        for (unsigned i = 0; i < parts; i++) {
            struct operand b = in->o[2], c = in->o[3];
            b.reg += i;
            c.reg += i;
            old[i] = fetch(p.data + i * step, step);
            next[i] = warp_value(w, &c, lane);
            const uint64_t expected = warp_value(w, &b, lane);
            equal = equal && old[i] == (step == 8 ? expected
                                                  : expected & ((UINT64_C(1) << 8 * step) - 1));
            known = known && (warp_defined(w, &b) >> lane & 1);
            next_known = next_known && (warp_defined(w, &c) >> lane & 1);
            valid = valid && valid_bits(&p, i * step, step) == (1u << step) - 1;
        }
        if (p.space == SP_GLOBAL && (!known || !valid || (equal && !next_known)))
            return warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, at, "%s",
                                valid ? "an operand" : "memory that nobody wrote");
        for (unsigned i = 0; i < parts; i++) {
            struct operand d = in->o[0];
            d.reg += i;
            if (equal)
                put(w, &p, i * step, &next[i], step, known && valid && next_known);
            warp_set(w, &d, lane, old[i], valid);
        }
    }
    return FLOW_NEXT;
}
