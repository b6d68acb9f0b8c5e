/*
 * Conversions, to the bit as an H200 does them.
 */
#include "exec_loop.h"

#include <math.h>

#include "floats.h"

/* ---- what kinds of number there are ---- */

static bool is_integer(enum type t)
{
    return t >= TY_B8 && t <= TY_S64 && !type_float(t) && type_bits(t) <= 64 &&
           t != TY_E4M3 && t != TY_E5M2;
}

static struct format format_of(enum type t)
{
    switch (t) {
    case TY_F16: case TY_F16X2: return format_f16;
    case TY_BF16: case TY_BF16X2: return format_bf16;
    case TY_F64: return format_f64;
    default: return format_f32;
    }
}

static int64_t sign_extend(uint64_t v, unsigned bits)
{
    return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static uint64_t low_bits(uint64_t v, unsigned bits)
{
    return bits < 64 ? v & ((UINT64_C(1) << bits) - 1) : v;
}

/* ---- integer to integer ---- */

static uint64_t integer_to_integer(const struct inst *in, uint64_t v)
{
    const enum type to = (enum type)in->type[0], from = (enum type)in->type[1];
    const unsigned to_bits = type_bits(to), from_bits = type_bits(from);
    const bool negative = type_signed(from) && sign_extend(v, from_bits) < 0;
    uint64_t x = type_signed(from) ? (uint64_t)sign_extend(v, from_bits) : low_bits(v, from_bits);

    if (in->flags & INST_SAT) {
        if (type_signed(to)) {
            const int64_t most = INT64_MAX >> (64 - to_bits), least = -most - 1;
            if (!negative && x > (uint64_t)most)
                x = (uint64_t)most;
            else if (negative && (int64_t)x < least)
                x = (uint64_t)least;
        } else {
            const uint64_t most = UINT64_MAX >> (64 - to_bits);
            x = negative ? 0 : x > most ? most : x;
        }
    }
    /* A wider destination register takes the sign along. */
    return type_signed(to) ? (uint64_t)sign_extend(x, to_bits) : low_bits(x, to_bits);
}

/* ---- floats and integers ---- */

static double to_integral(double v, unsigned rounding)
{
    switch (rounding) {
    case RND_RNI: case RND_RN: return nearbyint(v);
    case RND_RMI: case RND_RM: return floor(v);
    case RND_RPI: case RND_RP: return ceil(v);
    case RND_RZI: case RND_RZ: return trunc(v);
    default: return v;
    }
}

static uint64_t float_to_integer(const struct inst *in, double v)
{
    const enum type to = (enum type)in->type[0], from = (enum type)in->type[1];
    const unsigned bits = type_bits(to);

    if (v != v) {
        if (from == TY_F64 || bits == 64)
            return bits == 64 ? UINT64_C(1) << 63 : low_bits(UINT64_C(1) << (bits - 1), bits);
        return 0;
    }
    v = to_integral(v, in->rnd);
    if (type_signed(to)) {
        const double most = ldexp(1, (int)bits - 1);
        const int64_t top = INT64_MAX >> (64 - bits);
        const int64_t x = v >= most ? top : v < -most ? -top - 1 : (int64_t)v;
        return (uint64_t)x;
    }
    const double most = ldexp(1, (int)bits);
    return v >= most ? UINT64_MAX >> (64 - bits) : v <= 0 ? 0 : (uint64_t)v;
}

static uint64_t saturate(enum type to, uint64_t bits)
{
    const double v = format_value(format_of(to), bits);

    if (!(v > 0))
        return 0;
    return v >= 1 ? format_round(format_of(to), 1, RND_RN) : bits;
}

static uint64_t integer_to_float(const struct inst *in, uint64_t v)
{
    const enum type to = (enum type)in->type[0], from = (enum type)in->type[1];
    const unsigned bits = type_bits(from);
    const bool negative = type_signed(from) && sign_extend(v, bits) < 0;
    const uint64_t magnitude = negative ? 0 - (uint64_t)sign_extend(v, bits) : low_bits(v, bits);
    const uint64_t d = format_pack(format_of(to), negative, magnitude, 0, false,
                                   (enum rounding)in->rnd);

    return in->flags & INST_SAT ? saturate(to, d) : d;
}

/* ---- floats ---- */

/* What .relu and .satfinite make of a rounded result. */
static uint64_t finish(const struct inst *in, struct format f, uint64_t d)
{
    const uint64_t top = UINT64_C(1) << (f.exponent + f.mantissa);
    const uint64_t inf = ((UINT64_C(1) << f.exponent) - 1) << f.mantissa;
    const bool nan = (d & (top - 1)) > inf;

    if (in->flags & INST_RELU && !nan && d & top)
        d = 0;
    if (in->flags & INST_SATFINITE && (d & (top - 1)) == inf)
        d--;
    return d;
}

/* A NaN from or to double keeps its sign and what fits of its payload, and becomes quiet. */
static uint64_t convert_nan(const struct inst *in, uint64_t v)
{
    const struct format f = format_of((enum type)in->type[0]);
    const uint64_t quiet = v | UINT64_C(1) << 51;
    const uint64_t sign = (v >> 63) << (f.exponent + f.mantissa);

    if (in->flags & INST_SAT)
        return 0;
    if (in->flags & INST_FTZ && in->type[1] == TY_F32)
        return UINT64_C(0x7fffffffe0000000);
    const uint64_t inf = ((UINT64_C(1) << f.exponent) - 1) << f.mantissa;
    return sign | inf | (quiet & (UINT64_MAX >> 12)) >> (52 - f.mantissa);
}

static uint64_t float_to_float(const struct inst *in, uint64_t v)
{
    const enum type to = (enum type)in->type[0], from = (enum type)in->type[1];
    const struct format f = format_of(to);
    const bool ftz = in->flags & INST_FTZ;

    if (from == TY_F32 && ftz)
        v = flush32((uint32_t)v);
    /* Widening a bf16 is a shift, whatever its bits mean. */
    if (from == TY_BF16 && to == TY_F32 && !(in->flags & INST_SAT))
        return (v & 0xffff) << 16;
    if (from == TY_F64 && to == TY_F64 && in->rnd == RND_NONE)
        return in->flags & INST_SAT ? saturate(to, v) : v;
    double x = format_value(format_of(from), v);
    enum rounding rounding = (enum rounding)in->rnd;
    if (x != x && (from == TY_F64 || to == TY_F64))
        return convert_nan(in, bits_of_double(x));
    if (rounding >= RND_RNI) {
        x = to_integral(x, rounding);
        rounding = RND_RN;
    }
    uint64_t d = to == TY_F64 ? bits_of_double(x) : format_round(f, x, rounding);
    if (ftz && to == TY_F32)
        d = flush32((uint32_t)d);
    d = finish(in, f, d);
    return in->flags & INST_SAT ? saturate(to, d) : d;
}

static uint32_t to_tf32(const struct inst *in, uint32_t v)
{
    const uint32_t magnitude = v & 0x7fffffff, sign = v & 0x80000000;
    const bool nan = magnitude > 0x7f800000;

    if (in->rnd == RND_RNA) {
        const bool finite = in->flags & INST_SATFINITE;
        if (magnitude == 0x7f800000)
            return finite ? sign | 0x7f7fe000 : v;
        if (nan)                /* only the low bits go; with .satfinite one step is taken off */
            return (v & ~0x1fffu) - (finite ? 0x2000u : 0);
        const uint32_t d = (magnitude + 0x1000) & ~0x1fffu;
        return sign | (finite && d >= 0x7f800000 ? 0x7f7fe000 : d);
    }
    if (nan)
        return 0x7fffe000;
    if (in->flags & INST_RELU && sign)
        return 0;
    uint32_t d = magnitude & ~0x1fffu;
    const uint32_t lost = magnitude & 0x1fff;
    if (in->rnd == RND_RN && (lost > 0x1000 || (lost == 0x1000 && d & 0x2000)))
        d += 0x2000;
    return sign | d;
}

/* One f32 (or half) to one byte. */
static uint32_t to_byte(const struct inst *in, double v)
{
    if (in->flags & INST_RELU && v <= 0)
        v = 0;
    return in->type[0] == TY_E4M3X2 ? e4m3_of(v) : e5m2_of(v);
}

static uint32_t from_byte(const struct inst *in, uint32_t byte)
{
    const uint16_t h = in->type[1] == TY_E4M3X2 ? half_of_e4m3((uint8_t)byte)
                                                : half_of_e5m2((uint8_t)byte);

    return in->flags & INST_RELU && h & 0x8000 ? 0 : h;
}

static uint32_t f32_to_half(const struct inst *in, uint32_t v)
{
    const struct format f = format_of((enum type)in->type[0]);

    return (uint32_t)finish(in, f, format_round(f, float_of(v), (enum rounding)in->rnd));
}

/* The forms with two sources or pairs. a is the first source. */
static uint64_t packed(const struct inst *in, uint64_t a, uint64_t b)
{
    switch ((enum type)in->type[0]) {
    case TY_F16X2:
    case TY_BF16X2:
        if (in->type[1] != TY_F32)
            return from_byte(in, a >> 8 & 0xff) << 16 | from_byte(in, a & 0xff);
        return (uint64_t)f32_to_half(in, (uint32_t)a) << 16 | f32_to_half(in, (uint32_t)b);
    default:
        if (in->type[1] == TY_F32)
            return to_byte(in, float_of((uint32_t)a)) << 8 | to_byte(in, float_of((uint32_t)b));
        return to_byte(in, half_value((uint16_t)(a >> 16))) << 8 |
               to_byte(in, half_value((uint16_t)a));
    }
}

static uint64_t convert(const struct inst *in, uint64_t a, uint64_t b)
{
    const enum type to = (enum type)in->type[0], from = (enum type)in->type[1];

    if (to == TY_F16X2 || to == TY_BF16X2 || to == TY_E4M3X2 || to == TY_E5M2X2)
        return packed(in, a, b);
    if (to == TY_TF32)
        return to_tf32(in, (uint32_t)a);
    if (is_integer(to) && is_integer(from))
        return integer_to_integer(in, a);
    if (is_integer(from))
        return integer_to_float(in, a);
    if (is_integer(to)) {
        if (from == TY_F32 && in->flags & INST_FTZ)
            a = flush32((uint32_t)a);
        return float_to_integer(in, format_value(format_of(from), a));
    }
    return float_to_float(in, a);
}

/* ---- whole rows of the common forms ---- */

/* Plain rounding to nearest of f32, and integers of which low bits are kept. */
enum form {
    FORM_OTHER,
    FORM_F16X2, FORM_BF16X2, FORM_F16, FORM_BF16,
    FORM_WIDEN_S32, FORM_WIDEN_U32, FORM_NARROW, FORM_U16,
    FORM_F32_F16, FORM_F32_S32, FORM_F32_U32,
};

static bool is_32(const struct operand *op)
{
    return op->kind == OPND_REG && op->bank == BANK_32;
}

static enum form form_of(const struct inst *in)
{
    const enum type to = (enum type)in->type[0], from = (enum type)in->type[1];
    const struct operand *d = &in->o[0], *a = &in->o[1];

    if (in->flags & (INST_FTZ | INST_SAT | INST_SATFINITE | INST_RELU) || d->kind != OPND_REG)
        return FORM_OTHER;
    if (from == TY_F32 && in->rnd == RND_RN && is_32(d))
        switch (to) {
        case TY_F16X2: return FORM_F16X2;
        case TY_BF16X2: return FORM_BF16X2;
        case TY_F16: return FORM_F16;
        case TY_BF16: return FORM_BF16;
        default: return FORM_OTHER;
        }
    if (d->bank == BANK_64 && is_32(a) && (to == TY_U64 || to == TY_S64)) {
        if (from == TY_S32)
            return FORM_WIDEN_S32;
        if (from == TY_U32 || from == TY_U16)
            return FORM_WIDEN_U32;
    }
    if (is_32(d) && (to == TY_U32 || to == TY_S32) && a->kind == OPND_REG && a->bank == BANK_64 &&
        (from == TY_U64 || from == TY_S64))
        return FORM_NARROW;
    if (is_32(d) && is_32(a)) {
        if (to == TY_U16 && (from == TY_U32 || from == TY_S32))
            return FORM_U16;
        if (to == TY_U32 && from == TY_U16)
            return FORM_U16;
        if (to == TY_F32 && in->rnd == RND_RN && from == TY_S32)
            return FORM_F32_S32;
        if (to == TY_F32 && in->rnd == RND_RN && from == TY_U32)
            return FORM_F32_U32;
        if (to == TY_F32 && from == TY_F16)
            return FORM_F32_F16;
    }
    return FORM_OTHER;
}

static inline uint32_t f32_of_half(uint32_t h)
{
    const uint32_t sign = (h & 0x8000) << 16, m = h & 0x7fff;

    if (m > 0x7c00)
        return NAN_F32;
    if (m == 0x7c00)
        return sign | 0x7f800000;
    if (m < 0x400)
        return sign | bits_of_float((float)m * 0x1p-24f);
    return sign | ((m << 13) + 0x38000000);
}

static enum flow convert_rows(struct warp *w, const struct inst *in, uint32_t mask, enum form form)
{
    switch (form) {
    case FORM_F16X2: BINARY32(half_of_f32(a[l]) << 16 | half_of_f32(b[l]));
    case FORM_BF16X2: BINARY32(bf16_of_f32(a[l]) << 16 | bf16_of_f32(b[l]));
    case FORM_F16: UNARY32(half_of_f32(a[l]));
    case FORM_BF16: UNARY32(bf16_of_f32(a[l]));
    case FORM_NARROW: NARROW(a[l]);
    case FORM_U16: UNARY32(a[l] & 0xffff);
    case FORM_F32_S32: UNARY32(bits_of_float((float)(int32_t)a[l]));
    case FORM_F32_U32: UNARY32(bits_of_float((float)a[l]));
    case FORM_F32_F16: UNARY32(f32_of_half(a[l]));
    default:
        break;
    }
    const struct span s = span_of(mask);
    uint32_t ta[LANES], defined = UINT32_MAX;
    uint64_t d[LANES];
    const uint32_t *const a = row32(w, &in->o[1], ta, s, &defined);
    if (form == FORM_WIDEN_S32)
        EACH_LANE(s, d[l] = (uint64_t)(int64_t)(int32_t)a[l]);
    else if (in->type[1] == TY_U16)
        EACH_LANE(s, d[l] = a[l] & 0xffff);
    else
        EACH_LANE(s, d[l] = a[l]);
    put64(w, &in->o[0], s, d, defined);
    return FLOW_NEXT;
}

enum flow op_cvt(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool two = in->o[2].kind != OPND_NONE;
    const enum form form = form_of(in);

    if (form != FORM_OTHER)
        return convert_rows(w, in, mask, form);
    uint32_t defined = warp_defined(w, &in->o[1]);

    if (two)
        defined &= warp_defined(w, &in->o[2]);
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        const uint64_t a = warp_value(w, &in->o[1], l);
        const uint64_t b = two ? warp_value(w, &in->o[2], l) : 0;
        uint64_t d = convert(in, a, b);
        if (in->o[0].kind == OPND_REG && in->o[0].type != TY_NONE)
            d = low_bits(d, type_bits((enum type)in->o[0].type));
        warp_set(w, &in->o[0], l, d, defined >> l & 1);
    }
    return FLOW_NEXT;
}

/* ---- cvt.pack ---- */

static uint32_t clamp_to(int32_t v, unsigned bits, bool is_signed)
{
    const int64_t most = is_signed ? (INT64_C(1) << (bits - 1)) - 1 : (INT64_C(1) << bits) - 1;
    const int64_t least = is_signed ? -most - 1 : 0;
    const int64_t d = v > most ? most : v < least ? least : v;

    return (uint32_t)d & (bits < 32 ? (1u << bits) - 1 : UINT32_MAX);
}

enum flow op_cvt_pack(struct warp *w, const struct inst *in, uint32_t mask)
{
    const enum type to = (enum type)in->type[0];
    const unsigned bits = type_bits(to);
    const bool is_signed = type_signed(to) || to == TY_S4, chained = in->o[3].kind != OPND_NONE;
    uint32_t defined = warp_defined(w, &in->o[1]) & warp_defined(w, &in->o[2]);

    if (chained)
        defined &= warp_defined(w, &in->o[3]);
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        const int32_t a = (int32_t)(uint32_t)warp_value(w, &in->o[1], l);
        const int32_t b = (int32_t)(uint32_t)warp_value(w, &in->o[2], l);
        uint32_t d = clamp_to(a, bits, is_signed) << bits | clamp_to(b, bits, is_signed);
        if (chained)
            d |= (uint32_t)(warp_value(w, &in->o[3], l) << 2 * bits);
        warp_set(w, &in->o[0], l, d, defined >> l & 1);
    }
    return FLOW_NEXT;
}
