/*
 * Approximate functions: what the assembler makes of each, around the function unit (mufu.h).
 *
 * NOT EXACT: lg2 within 2^-14 of 1, and sines and cosines below 2^-14, may miss the hardware's by a
 * few of their last bits.
 */
#include "exec_loop.h"

#include <math.h>

#include "floats.h"
#include "mufu.h"

#define SMALLEST  0x00800000u   /* 2^-126 */
#define LARGE     0x7e800000u   /* 2^126 */
#define TWO_24    0x4b800000u
#define TURN      0x3e22f983u   /* 1 / (2 pi) */

static uint32_t times(uint32_t a, uint32_t b)
{
    const uint32_t d = bits_of_float(float_of(a) * float_of(b));

    return is_nan32(d) ? NAN_F32 : d;
}

static bool is_small(uint32_t x)
{
    return (x & 0x7fffffff) < SMALLEST;
}

static bool is_large(uint32_t x)
{
    return (x & 0x7fffffff) > LARGE && !is_nan32(x);
}

/* Without .ftz, subnormal operands and results take a detour through a scaled operand. */
static uint32_t reciprocal(uint32_t x, bool ftz)
{
    if (ftz)
        return mufu_rcp(x);
    const uint32_t scale = is_large(x) ? 0x3e800000 : is_small(x) ? TWO_24 : 0x3f800000;
    return times(scale, mufu_rcp(times(x, scale)));
}

static uint32_t reciprocal_root(uint32_t x, bool ftz)
{
    if (ftz || !is_small(x))
        return mufu_rsq(x);
    return times(mufu_rsq(times(x, TWO_24)), 0x45800000);
}

static uint32_t root(uint32_t x, bool ftz)
{
    if (ftz || !is_small(x))
        return mufu_sqrt(x);
    return times(mufu_sqrt(times(x, TWO_24)), 0x39800000);
}

static uint32_t power(uint32_t x, bool ftz)
{
    if (ftz || !(float_of(x) < -126))
        return mufu_ex2(x);
    const uint32_t half = mufu_ex2(times(x, 0x3f000000));
    return times(half, half);
}

static uint32_t logarithm(uint32_t x, bool ftz)
{
    if (ftz || !is_small(x))
        return mufu_lg2(x);
    const uint32_t d = bits_of_float(float_of(mufu_lg2(times(x, TWO_24))) - 24);
    return is_nan32(d) ? NAN_F32 : d;
}

static uint32_t turns(uint32_t x)
{
    const double product = (double)float_of(x) * float_of(TURN);

    return (uint32_t)format_round(format_f32, product, RND_RZ);
}

static uint32_t sine(uint32_t x, bool ftz)
{
    (void)ftz;
    return mufu_sin(turns(x));
}

static uint32_t cosine(uint32_t x, bool ftz)
{
    (void)ftz;
    return mufu_cos(turns(x));
}

static uint32_t flush(uint32_t x, bool ftz)
{
    return ftz ? flush32(x) : x;
}

/* div.full scales large divisors down and small ones up, div.approx only the small ones. */
static uint32_t quotient(uint32_t a, uint32_t b, bool ftz, bool full)
{
    a = flush(a, ftz);
    b = flush(b, ftz);
    if (full && is_large(b)) {
        a = flush(times(a, 0x3e800000), ftz);
        b = flush(times(b, 0x3e800000), ftz);
    } else if (!ftz && is_small(b)) {
        a = times(a, TWO_24);
        b = times(b, TWO_24);
    }
    return flush(times(flush(a, ftz), mufu_rcp(b)), ftz);
}

enum flow approx_div(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool ftz = in->flags & INST_FTZ, full = in->flags & INST_FULL;

    BINARY32(quotient(a[l], b[l], ftz, full));
}

/* ---- f64 ---- */

static double high_rcp(double x, bool ftz)
{
    (void)ftz;
    return double_of((uint64_t)mufu_rcp64h((uint32_t)(bits_of_double(x) >> 32)) << 32);
}

/* The unit's value and one step of Newton's method. */
static double refined_root(double x)
{
    const double y = double_of((uint64_t)mufu_rsq64h((uint32_t)(bits_of_double(x) >> 32)) << 32);
    const double error = fma(x, -(y * y), 1);

    return fma(fma(error, 0.375, 0.5), y * error, y);
}

static double double_root(double x, bool ftz)
{
    if (ftz)
        return double_of((uint64_t)mufu_rsq64h((uint32_t)(bits_of_double(x) >> 32)) << 32);
    if (x == 0)
        return copysign(INFINITY, x);
    if (x != x)
        return x + x;
    if (x < 0)
        return double_of(UINT64_C(0xfff8000000000000));
    if (isinf(x))
        return 0;
    return x < 0x1p-1022 ? refined_root(x * 0x1p54) * 0x1p27 : refined_root(x);
}

static enum flow in_double(struct warp *w, const struct inst *in, uint32_t mask,
                           double (*f)(double x, bool ftz))
{
    const struct span s = span_of(mask);
    uint64_t t[LANES], d[LANES];
    uint32_t defined = UINT32_MAX;
    const uint64_t *x = row64(w, &in->o[1], t, s, &defined);

    for (unsigned l = s.lo; l < s.hi; l++)
        d[l] = bits_of_double(f(double_of(x[l]), in->flags & INST_FTZ));
    put64(w, &in->o[0], s, d, defined);
    return FLOW_NEXT;
}

/* 2^x and tanh: the f32 result cut off; what is too large for the format is infinite. */
static uint32_t in_halves(enum type type, uint32_t x, uint32_t (*f)(uint32_t x))
{
    const struct format form = type == TY_BF16 || type == TY_BF16X2 ? format_bf16 : format_f16;
    const uint32_t inf = form.exponent == 5 ? 0x7c00 : 0x7f80;
    uint32_t d = 0;

    for (unsigned i = 0; i < type_bits(type); i += 16) {
        const double v = format_value(form, (uint16_t)(x >> i));
        const double y = float_of(f((uint32_t)format_round(format_f32, v, RND_RN)));
        const bool over = form.exponent == 5 && y >= 65536;
        d |= (over ? inf : (uint32_t)format_round(form, y, RND_RZ)) << i;
    }
    return d;
}

static enum flow approximate(struct warp *w, const struct inst *in, uint32_t mask,
                             uint32_t (*f)(uint32_t x, bool ftz), double (*g)(double x, bool ftz))
{
    const bool ftz = in->flags & INST_FTZ;

    if (in->type[0] == TY_F64)
        return in_double(w, in, mask, g);
    UNARY32(f(a[l], ftz));
}

enum flow op_rcp(struct warp *w, const struct inst *in, uint32_t mask)
{
    return in->flags & INST_APPROX ? approximate(w, in, mask, reciprocal, high_rcp)
                                   : float_rcp(w, in, mask);
}

enum flow op_sqrt(struct warp *w, const struct inst *in, uint32_t mask)
{
    return in->flags & INST_APPROX ? approximate(w, in, mask, root, NULL)
                                   : float_sqrt(w, in, mask);
}

enum flow op_rsqrt(struct warp *w, const struct inst *in, uint32_t mask)
{
    return approximate(w, in, mask, reciprocal_root, double_root);
}

enum flow op_sin(struct warp *w, const struct inst *in, uint32_t mask)
{
    return approximate(w, in, mask, sine, NULL);
}

enum flow op_cos(struct warp *w, const struct inst *in, uint32_t mask)
{
    return approximate(w, in, mask, cosine, NULL);
}

enum flow op_lg2(struct warp *w, const struct inst *in, uint32_t mask)
{
    return approximate(w, in, mask, logarithm, NULL);
}

enum flow op_ex2(struct warp *w, const struct inst *in, uint32_t mask)
{
    const enum type type = (enum type)in->type[0];

    if (type != TY_F32)
        UNARY32(in_halves(type, a[l], mufu_ex2));
    return approximate(w, in, mask, power, NULL);
}

enum flow op_tanh(struct warp *w, const struct inst *in, uint32_t mask)
{
    const enum type type = (enum type)in->type[0];

    if (type != TY_F32)
        UNARY32(in_halves(type, a[l], mufu_tanh));
    UNARY32(mufu_tanh(a[l]));
}
