/*
 * Ordinary instructions that sm_100 adds: st.bulk, pairs of f32, mixed sums, narrow floats, redux of
 * f32.
 */
#include <math.h>

#include "floats.h"
#include "reach.h"

/* ---- st.bulk --------------------------------------------------------------------------------- */

/* Zeros in the CTA's own shared memory: address and size are multiples of 8. */
static bool clear(struct warp *w, const struct inst *in, unsigned lane)
{
    const uint64_t address = warp_address(w, &in->o[0], lane), size = warp_value(w, &in->o[1], lane);
    struct place p;

    if (size % 8 || size > 1 << 24) {
        warp_trap(w, in, (int)lane, TRAP_INSTRUCTION, "%llu bytes: must be a multiple of 8, at most "
                  "16777216", (unsigned long long)size);
        return false;
    }
    if (misaligned(w, in, lane, address, 8))
        return false;
    if (size == 0)
        return true;
    if (!warp_place(w, in, lane, (enum space)in->space, address, (unsigned)size, ACCESS_WRITE, &p))
        return false;
    if (p.space != SP_SHARED || p.cta != w->cta) {
        warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, address,
                     "st.bulk writes the CTA's own shared memory");
        return false;
    }
    if (meets_mbarrier(w, in, lane, &p, (unsigned)size, true))
        return false;
    memset(p.data, 0, size);
    valid_fill(p.valid, p.valid_at, size, true);
    machine_progress(w->m);
    return true;
}

enum flow op_st_bulk(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!warp_need(w, in, &in->o[0], mask, "the address") ||
        !warp_need(w, in, &in->o[1], mask, "the size"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!clear(w, in, (unsigned)__builtin_ctz(left)))
            return FLOW_TRAP;
    return FLOW_NEXT;
}

/* ---- pairs of f32, and f32 with a narrower operand ------------------------------------------- */

enum operation { SUM, DIFFERENCE, PRODUCT, FUSED };

/* a, b, c are exact; every intermediate is, or is rounded to odd. */
static uint32_t compute(enum operation op, double a, double b, double c, enum rounding rounding)
{
    double v;

    switch (op) {
    case SUM: v = odd_add(a, b); break;
    case DIFFERENCE: v = odd_add(a, -b); break;
    case PRODUCT: v = a * b; break;
    default: v = odd_add(a * b, c); break;
    }
    return (uint32_t)format_round(format_f32, v, rounding == RND_NONE ? RND_RN : rounding);
}

static uint32_t half_of_pair(const struct inst *in, enum operation op, uint32_t a, uint32_t b,
                             uint32_t c)
{
    const bool ftz = in->flags & INST_FTZ;
    const uint32_t d = compute(op, float_of(ftz ? flush32(a) : a), float_of(ftz ? flush32(b) : b),
                               float_of(ftz ? flush32(c) : c), (enum rounding)in->rnd);

    return ftz ? flush32(d) : d;
}

static enum flow pair(struct warp *w, const struct inst *in, uint32_t mask, enum operation op)
{
    const unsigned sources = op == FUSED ? 3 : 2;
    uint32_t defined = UINT32_MAX;

    for (unsigned i = 1; i <= sources; i++)
        defined &= warp_defined(w, &in->o[i]);
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        const uint64_t a = warp_value(w, &in->o[1], l), b = warp_value(w, &in->o[2], l);
        const uint64_t c = op == FUSED ? warp_value(w, &in->o[3], l) : 0;
        const uint64_t low = half_of_pair(in, op, (uint32_t)a, (uint32_t)b, (uint32_t)c);
        const uint64_t high = half_of_pair(in, op, (uint32_t)(a >> 32), (uint32_t)(b >> 32),
                                           (uint32_t)(c >> 32));

        warp_set(w, &in->o[0], l, high << 32 | low, defined >> l & 1);
    }
    return FLOW_NEXT;
}

enum flow op_add_pair(struct warp *w, const struct inst *in, uint32_t mask)
{
    return pair(w, in, mask, SUM);
}

enum flow op_sub_pair(struct warp *w, const struct inst *in, uint32_t mask)
{
    return pair(w, in, mask, DIFFERENCE);
}

enum flow op_mul_pair(struct warp *w, const struct inst *in, uint32_t mask)
{
    return pair(w, in, mask, PRODUCT);
}

enum flow op_fma_pair(struct warp *w, const struct inst *in, uint32_t mask)
{
    return pair(w, in, mask, FUSED);
}

static double widened(const struct inst *in, uint64_t bits)
{
    return format_value(in->type[1] == TY_BF16 ? format_bf16 : format_f16, bits & 0xffff);
}

static uint32_t clamped(uint32_t bits)
{
    const float f = float_of(bits);

    return f > 0 ? f < 1 ? bits : 0x3f800000 : 0;
}

static enum flow mixed(struct warp *w, const struct inst *in, uint32_t mask, enum operation op)
{
    const unsigned sources = op == FUSED ? 3 : 2;
    uint32_t defined = UINT32_MAX;

    for (unsigned i = 1; i <= sources; i++)
        defined &= warp_defined(w, &in->o[i]);
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        const double a = widened(in, warp_value(w, &in->o[1], l));
        const double b = op == FUSED ? widened(in, warp_value(w, &in->o[2], l)) : 0;
        const double wide = float_of((uint32_t)warp_value(w, &in->o[sources], l));
        uint32_t d = op == FUSED ? compute(op, a, b, wide, (enum rounding)in->rnd)
                                 : compute(op, a, wide, 0, (enum rounding)in->rnd);

        if (in->flags & INST_SAT)
            d = clamped(d);
        warp_set(w, &in->o[0], l, d, defined >> l & 1);
    }
    return FLOW_NEXT;
}

enum flow op_add_mixed(struct warp *w, const struct inst *in, uint32_t mask)
{
    return mixed(w, in, mask, SUM);
}

enum flow op_sub_mixed(struct warp *w, const struct inst *in, uint32_t mask)
{
    return mixed(w, in, mask, DIFFERENCE);
}

enum flow op_fma_mixed(struct warp *w, const struct inst *in, uint32_t mask)
{
    return mixed(w, in, mask, FUSED);
}

/* ---- redux ----------------------------------------------------------------------------------- */

/* Whether x is below y; -0 is below +0. Neither is a NaN. */
static bool below(uint32_t x, uint32_t y)
{
    const int32_t a = (int32_t)(x ^ ((uint32_t)((int32_t)x >> 31) & 0x7fffffff));
    const int32_t b = (int32_t)(y ^ ((uint32_t)((int32_t)y >> 31) & 0x7fffffff));

    return a < b;
}

static void reduce(struct warp *w, const struct inst *in, uint32_t lanes, uint32_t member)
{
    const uint32_t defined = lanes & ~warp_defined(w, &in->o[1]) ? 0 : UINT32_MAX;
    uint32_t d = NAN_F32;

    (void)member;
    for (uint32_t left = lanes; left; left &= left - 1) {
        uint32_t v = (uint32_t)warp_value(w, &in->o[1], (unsigned)__builtin_ctz(left));

        if (in->flags & INST_ABS)
            v &= 0x7fffffff;
        if (is_nan32(v)) {
            if (in->flags & INST_NAN) {
                d = NAN_F32;
                break;
            }
        } else if (is_nan32(d) || (in->sub == SUB_MIN ? below(v, d) : below(d, v))) {
            d = v;
        }
    }
    for (uint32_t left = lanes; left; left &= left - 1)
        warp_set(w, &in->o[0], (unsigned)__builtin_ctz(left), d, defined);
}

enum flow op_redux_f32(struct warp *w, const struct inst *in, uint32_t mask)
{
    return warp_by_member(w, in, mask, &in->o[2], reduce);
}

/* ---- narrow floats --------------------------------------------------------------------------- */

struct narrow {
    unsigned mantissa, exponent;        /* bits */
    int least;                  /* exponent of the smallest normal number */
    double most;
};

static struct narrow narrow_of(enum type t)
{
    switch (t) {
    case TY_E2M1X2: return (struct narrow){1, 2, 0, 6};
    case TY_E2M3X2: return (struct narrow){3, 2, 0, 7.5};
    default: return (struct narrow){2, 3, -2, 28};
    }
}

static uint32_t to_narrow(struct narrow f, double v, bool relu)
{
    const uint32_t sign = signbit(v) ? 1u << (f.mantissa + f.exponent) : 0;
    const uint32_t most = (1u << (f.mantissa + f.exponent)) - 1;
    const double magnitude = fabs(v);
    int e;

    if (v != v)
        return most;
    if (relu && sign)
        return 0;
    if (magnitude >= f.most)
        return sign | most;
    if (magnitude == 0)
        return sign;
    e = ilogb(magnitude);
    if (e < f.least)
        e = f.least;
    /* A carry, and the step to the hidden bit, land in the exponent field by themselves. */
    return sign | (((uint32_t)(e - f.least) << f.mantissa) +
                   (uint32_t)nearbyint(ldexp(magnitude, (int)f.mantissa - e)));
}

static double from_narrow(struct narrow f, uint32_t code)
{
    const uint32_t mantissa = code & ((1u << f.mantissa) - 1);
    const uint32_t field = code >> f.mantissa & ((1u << f.exponent) - 1);
    const double magnitude = ldexp(mantissa + (field ? 1u << f.mantissa : 0),
                                   (int)(field ? field - 1 : 0) + f.least - (int)f.mantissa);

    return code >> (f.mantissa + f.exponent) & 1 ? -magnitude : magnitude;
}

/* The power of two at or below |x|, or (up) at or above it. There is no zero: 2^-127 stands in. */
static uint32_t to_exponent(const struct inst *in, uint32_t x)
{
    const uint32_t field = x >> 23 & 0xff, mantissa = x & 0x7fffff;
    uint32_t e = field;

    if (is_nan32(x))
        return 0xff;
    if (in->rnd == RND_RP && field != 0xff)
        e += field ? mantissa != 0 : mantissa > 0x400000;
    return e == 0xff && in->flags & INST_SATFINITE ? 0xfe : e;
}

static uint32_t from_exponent(uint32_t code)
{
    return code == 0xff ? 0x7fff : code ? code << 7 : 0x40;
}

/* How far the upper element of a pair is from the lower one. */
static unsigned apart(enum type t)
{
    return t == TY_E2M1X2 ? 4 : 8;
}

static uint32_t narrowed(const struct inst *in, double a, double b)
{
    const enum type to = (enum type)in->type[0];
    const bool relu = in->flags & INST_RELU;

    return to_narrow(narrow_of(to), a, relu) << apart(to) | to_narrow(narrow_of(to), b, relu);
}

static uint32_t halves_of(const struct inst *in, uint32_t code)
{
    const enum type from = (enum type)in->type[1];
    const struct narrow f = narrow_of(from);
    uint32_t d = 0;

    for (unsigned i = 0; i < 2; i++) {
        const double v = from_narrow(f, code >> i * apart(from));
        const uint32_t h = (uint32_t)format_round(format_f16, v, RND_RN);

        d |= (in->flags & INST_RELU && h & 0x8000 ? 0 : h) << 16 * i;
    }
    return d;
}

static uint32_t convert(const struct inst *in, uint32_t a, uint32_t b)
{
    const enum type to = (enum type)in->type[0], from = (enum type)in->type[1];

    if (to == TY_F16X2)
        return halves_of(in, a);
    if (to == TY_BF16X2)
        return from_exponent(a >> 8 & 0xff) << 16 | from_exponent(a & 0xff);
    if (to == TY_UE8M0X2 && from == TY_BF16X2)
        return to_exponent(in, a & 0xffff0000) << 8 | to_exponent(in, a << 16);
    if (to == TY_UE8M0X2)
        return to_exponent(in, a) << 8 | to_exponent(in, b);
    if (from == TY_F16X2)
        return narrowed(in, half_value((uint16_t)(a >> 16)), half_value((uint16_t)a));
    return narrowed(in, float_of(a), float_of(b));
}

enum flow op_cvt_narrow(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool two = in->o[2].kind != OPND_NONE;
    const uint32_t defined = warp_defined(w, &in->o[1]) &
                             (two ? warp_defined(w, &in->o[2]) : UINT32_MAX);

    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        const uint32_t a = (uint32_t)warp_value(w, &in->o[1], l);
        const uint32_t b = two ? (uint32_t)warp_value(w, &in->o[2], l) : 0;

        warp_set(w, &in->o[0], l, convert(in, a, b), defined >> l & 1);
    }
    return FLOW_NEXT;
}
