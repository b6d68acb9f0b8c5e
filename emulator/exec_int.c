/*
 * Integer arithmetic.
 */
#include "exec_loop.h"

#include <stdlib.h>

__extension__ typedef __int128 wide_s;
__extension__ typedef unsigned __int128 wide_u;

static enum type type_of(const struct inst *in)
{
    return (enum type)in->type[0];
}

static int32_t clamp32(int64_t v)
{
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}

/* ---- carries ---- */

static void put_carry(struct warp *w, uint32_t mask, uint32_t carry, uint32_t defined)
{
    w->carry = (w->carry & ~mask) | (carry & mask);
    w->def_carry = (w->def_carry & ~mask) | (defined & mask);
}

/*
 * Sum of x and y, with the carry flag when `chain`; for differences y comes negated and the flag
 * is the borrow. Writes the flag when the instruction asks for it.
 */
static enum flow carry_add(struct warp *w, const struct inst *in, uint32_t mask, bool subtract,
                           bool chain)
{
    const bool wide = type_bits(type_of(in)) == 64;
    uint32_t defined = warp_defined(w, &in->o[1]) & warp_defined(w, &in->o[2]);
    uint32_t out = 0;

    if (chain)
        defined &= w->def_carry;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        const uint64_t x = warp_value(w, &in->o[1], l), y = warp_value(w, &in->o[2], l);
        const unsigned flag = chain ? (w->carry >> l) & 1 : 0;
        uint64_t sum;
        bool carry;
        if (wide) {
            const wide_u full = subtract ? (wide_u)x - y - flag : (wide_u)x + y + flag;
            sum = (uint64_t)full;
            carry = (full >> 64) & 1;
        } else {
            const uint64_t full = subtract ? (uint64_t)(uint32_t)x - (uint32_t)y - flag
                                           : (uint64_t)(uint32_t)x + (uint32_t)y + flag;
            sum = (uint32_t)full;
            carry = (full >> 32) & 1;
        }
        out |= (uint32_t)carry << l;
        warp_set(w, &in->o[0], l, sum, (defined >> l) & 1);
    }
    if (in->flags & INST_CC)
        put_carry(w, mask, out, defined);
    return FLOW_NEXT;
}

enum flow op_addc(struct warp *w, const struct inst *in, uint32_t mask)
{
    return carry_add(w, in, mask, false, true);
}

enum flow op_subc(struct warp *w, const struct inst *in, uint32_t mask)
{
    return carry_add(w, in, mask, true, true);
}

static uint32_t add_halves(uint32_t a, uint32_t b)
{
    return ((a & 0x7fff7fff) + (b & 0x7fff7fff)) ^ ((a ^ b) & 0x80008000);
}

enum flow int_add(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->flags & INST_CC)
        return carry_add(w, in, mask, false, false);
    if (in->flags & INST_SAT)
        BINARY32(clamp32((int64_t)(int32_t)a[l] + (int32_t)b[l]));
    switch (type_of(in)) {
    case TY_U16X2: case TY_S16X2:
        BINARY32(add_halves(a[l], b[l]));
    case TY_U16: case TY_S16:
        BINARY32((a[l] + b[l]) & 0xffff);
    case TY_U64: case TY_S64: case TY_B64:
        BINARY64(a[l] + b[l]);
    default:
        BINARY32(a[l] + b[l]);
    }
}

enum flow int_sub(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->flags & INST_CC)
        return carry_add(w, in, mask, true, false);
    if (in->flags & INST_SAT)
        BINARY32(clamp32((int64_t)(int32_t)a[l] - (int32_t)b[l]));
    switch (type_of(in)) {
    case TY_U16: case TY_S16:
        BINARY32((a[l] - b[l]) & 0xffff);
    case TY_U64: case TY_S64: case TY_B64:
        BINARY64(a[l] - b[l]);
    default:
        BINARY32(a[l] - b[l]);
    }
}

/* ---- products ---- */

static uint64_t high_u64(uint64_t a, uint64_t b)
{
    return (uint64_t)(((wide_u)a * b) >> 64);
}

static uint64_t high_s64(uint64_t a, uint64_t b)
{
    return (uint64_t)((wide_u)((wide_s)(int64_t)a * (int64_t)b) >> 64);
}

static uint32_t high_u32(uint32_t a, uint32_t b)
{
    return (uint32_t)(((uint64_t)a * b) >> 32);
}

static uint32_t high_s32(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32);
}

#define S16(x) ((int32_t)(int16_t)(uint16_t)(x))

enum flow int_mul(struct warp *w, const struct inst *in, uint32_t mask)
{
    switch (in->sub) {
    case SUB_WIDE:
        switch (type_of(in)) {
        case TY_U16: BINARY32((a[l] & 0xffff) * (b[l] & 0xffff));
        case TY_S16: BINARY32(S16(a[l]) * S16(b[l]));
        case TY_U32: WIDEN((uint64_t)a[l] * b[l]);
        default: WIDEN((int64_t)(int32_t)a[l] * (int32_t)b[l]);
        }
    case SUB_HI:
        switch (type_of(in)) {
        case TY_U16: BINARY32((a[l] & 0xffff) * (b[l] & 0xffff) >> 16);
        case TY_S16: BINARY32((uint32_t)(S16(a[l]) * S16(b[l])) >> 16);
        case TY_U32: BINARY32(high_u32(a[l], b[l]));
        case TY_S32: BINARY32(high_s32(a[l], b[l]));
        case TY_U64: BINARY64(high_u64(a[l], b[l]));
        default: BINARY64(high_s64(a[l], b[l]));
        }
    default:
        switch (type_of(in)) {
        case TY_U16: case TY_S16: BINARY32((a[l] & 0xffff) * (b[l] & 0xffff) & 0xffff);
        case TY_U64: case TY_S64: BINARY64(a[l] * b[l]);
        default: BINARY32(a[l] * b[l]);
        }
    }
}

/* The product's half that mad adds to. */
static uint64_t product(const struct inst *in, uint64_t a, uint64_t b)
{
    const bool high = in->sub == SUB_HI;

    switch (type_of(in)) {
    case TY_U32: return high ? high_u32((uint32_t)a, (uint32_t)b) : (uint32_t)a * (uint32_t)b;
    case TY_S32: return high ? high_s32((uint32_t)a, (uint32_t)b) : (uint32_t)a * (uint32_t)b;
    case TY_U64: return high ? high_u64(a, b) : a * b;
    default: return high ? high_s64(a, b) : a * b;
    }
}

static enum flow carry_mad(struct warp *w, const struct inst *in, uint32_t mask, bool chain)
{
    const bool wide = type_bits(type_of(in)) == 64;
    uint32_t defined = warp_defined(w, &in->o[1]) & warp_defined(w, &in->o[2]) &
                       warp_defined(w, &in->o[3]);
    uint32_t out = 0;

    if (chain)
        defined &= w->def_carry;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        const uint64_t x = product(in, warp_value(w, &in->o[1], l), warp_value(w, &in->o[2], l));
        const uint64_t y = warp_value(w, &in->o[3], l);
        const wide_u sum = (wide_u)x + y + (chain ? (w->carry >> l) & 1 : 0);
        out |= (uint32_t)((sum >> (wide ? 64 : 32)) & 1) << l;
        warp_set(w, &in->o[0], l, wide ? (uint64_t)sum : (uint32_t)sum, (defined >> l) & 1);
    }
    if (in->flags & INST_CC)
        put_carry(w, mask, out, defined);
    return FLOW_NEXT;
}

enum flow op_madc(struct warp *w, const struct inst *in, uint32_t mask)
{
    return carry_mad(w, in, mask, true);
}

enum flow op_mad(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->flags & INST_CC)
        return carry_mad(w, in, mask, false);
    if (in->flags & INST_SAT)
        TERNARY32(clamp32((int64_t)(int32_t)high_s32(a[l], b[l]) + (int32_t)c[l]));
    switch (in->sub) {
    case SUB_WIDE:
        switch (type_of(in)) {
        case TY_U16: TERNARY32((a[l] & 0xffff) * (b[l] & 0xffff) + c[l]);
        case TY_S16: TERNARY32((uint32_t)(S16(a[l]) * S16(b[l])) + c[l]);
        case TY_U32: WIDEN((uint64_t)a[l] * b[l] + c[l]);
        default: WIDEN((uint64_t)((int64_t)(int32_t)a[l] * (int32_t)b[l]) + c[l]);
        }
    case SUB_HI:
        switch (type_of(in)) {
        case TY_U16: TERNARY32((((a[l] & 0xffff) * (b[l] & 0xffff) >> 16) + c[l]) & 0xffff);
        case TY_S16: TERNARY32((((uint32_t)(S16(a[l]) * S16(b[l])) >> 16) + c[l]) & 0xffff);
        case TY_U32: TERNARY32(high_u32(a[l], b[l]) + c[l]);
        case TY_S32: TERNARY32(high_s32(a[l], b[l]) + c[l]);
        case TY_U64: TERNARY64(high_u64(a[l], b[l]) + c[l]);
        default: TERNARY64(high_s64(a[l], b[l]) + c[l]);
        }
    default:
        switch (type_of(in)) {
        case TY_U16: case TY_S16: TERNARY32(((a[l] & 0xffff) * (b[l] & 0xffff) + c[l]) & 0xffff);
        case TY_U64: case TY_S64: TERNARY64(a[l] * b[l] + c[l]);
        default: TERNARY32(a[l] * b[l] + c[l]);
        }
    }
}

/* 24-bit product, 48 bits of it. */
static uint64_t product24(uint32_t a, uint32_t b, bool is_signed)
{
    if (is_signed) {
        const int64_t x = (int32_t)(a << 8) >> 8, y = (int32_t)(b << 8) >> 8;
        return (uint64_t)(x * y);
    }
    return (uint64_t)(a & 0xffffff) * (b & 0xffffff);
}

static uint32_t half24(const struct inst *in, uint32_t a, uint32_t b)
{
    const uint64_t p = product24(a, b, type_of(in) == TY_S32);

    return (uint32_t)(in->sub == SUB_HI ? p >> 16 : p);
}

enum flow op_mul24(struct warp *w, const struct inst *in, uint32_t mask)
{
    BINARY32(half24(in, a[l], b[l]));
}

enum flow op_mad24(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->flags & INST_SAT)
        TERNARY32(clamp32((int64_t)(int32_t)half24(in, a[l], b[l]) + (int32_t)c[l]));
    TERNARY32(half24(in, a[l], b[l]) + c[l]);
}

/* ---- quotients: by zero everything is all ones, as on an H200 ---- */

static uint64_t quotient_s(int64_t a, int64_t b)
{
    return !b ? UINT64_MAX : b == -1 ? 0 - (uint64_t)a : (uint64_t)(a / b);
}

static uint64_t remainder_s(int64_t a, int64_t b)
{
    return !b ? UINT64_MAX : b == -1 ? 0 : (uint64_t)(a % b);
}

enum flow int_div(struct warp *w, const struct inst *in, uint32_t mask)
{
    switch (type_of(in)) {
    case TY_U16: BINARY32((b[l] & 0xffff) ? (a[l] & 0xffff) / (b[l] & 0xffff) : 0xffff);
    case TY_S16: BINARY32(quotient_s(S16(a[l]), S16(b[l])) & 0xffff);
    case TY_U32: BINARY32(b[l] ? a[l] / b[l] : UINT32_MAX);
    case TY_S32: BINARY32(quotient_s((int32_t)a[l], (int32_t)b[l]));
    case TY_U64: BINARY64(b[l] ? a[l] / b[l] : UINT64_MAX);
    default: BINARY64(quotient_s((int64_t)a[l], (int64_t)b[l]));
    }
}

enum flow op_rem(struct warp *w, const struct inst *in, uint32_t mask)
{
    switch (type_of(in)) {
    case TY_U16: BINARY32((b[l] & 0xffff) ? (a[l] & 0xffff) % (b[l] & 0xffff) : 0xffff);
    case TY_S16: BINARY32(remainder_s(S16(a[l]), S16(b[l])) & 0xffff);
    case TY_U32: BINARY32(b[l] ? a[l] % b[l] : UINT32_MAX);
    case TY_S32: BINARY32(remainder_s((int32_t)a[l], (int32_t)b[l]));
    case TY_U64: BINARY64(b[l] ? a[l] % b[l] : UINT64_MAX);
    default: BINARY64(remainder_s((int64_t)a[l], (int64_t)b[l]));
    }
}

/* ---- sign, order ---- */

enum flow int_abs(struct warp *w, const struct inst *in, uint32_t mask)
{
    switch (type_of(in)) {
    case TY_S16: UNARY32((S16(a[l]) < 0 ? -S16(a[l]) : S16(a[l])) & 0xffff);
    case TY_S64: UNARY64((int64_t)a[l] < 0 ? 0 - a[l] : a[l]);
    default: UNARY32((int32_t)a[l] < 0 ? 0 - a[l] : a[l]);
    }
}

enum flow int_neg(struct warp *w, const struct inst *in, uint32_t mask)
{
    switch (type_of(in)) {
    case TY_S16: UNARY32((0 - a[l]) & 0xffff);
    case TY_S64: UNARY64(0 - a[l]);
    default: UNARY32(0 - a[l]);
    }
}

static uint32_t halves(uint32_t a, uint32_t b, bool is_signed, bool greater, bool relu)
{
    uint32_t d = 0;

    for (unsigned i = 0; i < 32; i += 16) {
        const int32_t x = is_signed ? S16(a >> i) : (int32_t)((a >> i) & 0xffff);
        const int32_t y = is_signed ? S16(b >> i) : (int32_t)((b >> i) & 0xffff);
        int32_t z = (x > y) == greater ? x : y;
        if (relu && z < 0)
            z = 0;
        d |= ((uint32_t)z & 0xffff) << i;
    }
    return d;
}

static int32_t relu32(int32_t v, bool relu)
{
    return relu && v < 0 ? 0 : v;
}

#define LESS(type, a, b) ((type)(a) < (type)(b) ? (a) : (b))
#define MORE(type, a, b) ((type)(a) > (type)(b) ? (a) : (b))

enum flow int_min(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool relu = in->flags & INST_RELU;

    switch (type_of(in)) {
    case TY_U16X2: BINARY32(halves(a[l], b[l], false, false, false));
    case TY_S16X2: BINARY32(halves(a[l], b[l], true, false, relu));
    case TY_U16: BINARY32(LESS(uint16_t, a[l], b[l]));
    case TY_S16: BINARY32(S16(a[l]) < S16(b[l]) ? a[l] : b[l]);
    case TY_U32: BINARY32(LESS(uint32_t, a[l], b[l]));
    case TY_S32: BINARY32(relu32((int32_t)LESS(int32_t, a[l], b[l]), relu));
    case TY_U64: BINARY64(LESS(uint64_t, a[l], b[l]));
    default: BINARY64(LESS(int64_t, a[l], b[l]));
    }
}

enum flow int_max(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool relu = in->flags & INST_RELU;

    switch (type_of(in)) {
    case TY_U16X2: BINARY32(halves(a[l], b[l], false, true, false));
    case TY_S16X2: BINARY32(halves(a[l], b[l], true, true, relu));
    case TY_U16: BINARY32(MORE(uint16_t, a[l], b[l]));
    case TY_S16: BINARY32(S16(a[l]) > S16(b[l]) ? a[l] : b[l]);
    case TY_U32: BINARY32(MORE(uint32_t, a[l], b[l]));
    case TY_S32: BINARY32(relu32((int32_t)MORE(int32_t, a[l], b[l]), relu));
    case TY_U64: BINARY64(MORE(uint64_t, a[l], b[l]));
    default: BINARY64(MORE(int64_t, a[l], b[l]));
    }
}

enum flow op_sad(struct warp *w, const struct inst *in, uint32_t mask)
{
#define APART(type, utype) \
    ((type)a[l] < (type)b[l] ? (utype)b[l] - (utype)a[l] : (utype)a[l] - (utype)b[l])
    switch (type_of(in)) {
    case TY_U16: TERNARY32((c[l] + (uint32_t)APART(uint16_t, uint16_t)) & 0xffff);
    case TY_S16: TERNARY32((c[l] + (uint32_t)APART(int16_t, uint16_t)) & 0xffff);
    case TY_U32: TERNARY32(c[l] + APART(uint32_t, uint32_t));
    case TY_S32: TERNARY32(c[l] + APART(int32_t, uint32_t));
    case TY_U64: TERNARY64(c[l] + APART(uint64_t, uint64_t));
    default: TERNARY64(c[l] + APART(int64_t, uint64_t));
    }
#undef APART
}

/* ---- dot products of bytes ---- */

static int32_t byte_of(uint32_t v, unsigned i, bool is_signed)
{
    const uint32_t byte = (v >> 8 * i) & 0xff;

    return is_signed ? (int32_t)(int8_t)(uint8_t)byte : (int32_t)byte;
}

static uint32_t dot4(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb)
{
    for (unsigned i = 0; i < 4; i++)
        c += (uint32_t)(byte_of(a, i, sa) * byte_of(b, i, sb));
    return c;
}

static uint32_t dot2(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb, bool high)
{
    for (unsigned i = 0; i < 2; i++) {
        const int32_t half = sa ? S16(a >> 16 * i) : (int32_t)((a >> 16 * i) & 0xffff);
        c += (uint32_t)half * (uint32_t)byte_of(b, i + 2 * high, sb);
    }
    return c;
}

enum flow op_dp4a(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool sa = in->type[0] == TY_S32, sb = in->type[1] == TY_S32;

    TERNARY32(dot4(a[l], b[l], c[l], sa, sb));
}

enum flow op_dp2a(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool sa = in->type[0] == TY_S32, sb = in->type[1] == TY_S32, high = in->sub == SUB_HI;

    TERNARY32(dot2(a[l], b[l], c[l], sa, sb, high));
}
