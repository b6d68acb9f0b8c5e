/*
 * Approximate functions. The hardware's tables are not public: these give the correctly rounded
 * value, which lies within the error that the instructions promise, and the promised special cases.
 */
#include "exec_loop.h"

#include <math.h>

#include "floats.h"

static double reciprocal(double x)
{
    return 1 / x;
}

static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}

static enum flow approximate(struct warp *w, const struct inst *in, uint32_t mask,
                             double (*f)(double))
{
    const enum type type = (enum type)in->type[0];
    const bool ftz = in->flags & INST_FTZ;
    const struct span s = span_of(mask);
    uint32_t ta[LANES], d[LANES], defined = UINT32_MAX;

    if (type == TY_F64) {
        uint64_t t64[LANES], d64[LANES];
        const uint64_t *x = row64(w, &in->o[1], t64, s, &defined);
        for (unsigned l = s.lo; l < s.hi; l++) {
            /* Subnormals are flushed and the low word of the result is zero. */
            const double v = double_of(x[l]);
            const double in64 = fabs(v) < 0x1p-1022 ? copysign(0, v) : v;
            d64[l] = bits_of_double(f(in64)) & ~UINT64_C(0xffffffff);
        }
        put64(w, &in->o[0], s, d64, defined);
        return FLOW_NEXT;
    }
    const uint32_t *a = row32(w, &in->o[1], ta, s, &defined);
    for (unsigned l = s.lo; l < s.hi; l++) {
        if (type == TY_F32) {
            const uint32_t x = ftz ? flush32(a[l]) : a[l];
            d[l] = (uint32_t)format_round(format_f32, f(float_of(x)), RND_RN);
            if (ftz)
                d[l] = flush32(d[l]);
            continue;
        }
        const bool brain = type == TY_BF16 || type == TY_BF16X2;
        const struct format form = brain ? format_bf16 : format_f16;
        d[l] = 0;
        for (unsigned i = 0; i < type_bits(type); i += 16) {
            const double v = format_value(form, (uint16_t)(a[l] >> i));
            d[l] |= (uint32_t)format_round(form, f(v), RND_RN) << i;
        }
    }
    put32(w, &in->o[0], s, d, defined);
    return FLOW_NEXT;
}

enum flow op_rcp(struct warp *w, const struct inst *in, uint32_t mask)
{
    return in->flags & INST_APPROX ? approximate(w, in, mask, reciprocal) : float_rcp(w, in, mask);
}

enum flow op_sqrt(struct warp *w, const struct inst *in, uint32_t mask)
{
    return in->flags & INST_APPROX ? approximate(w, in, mask, sqrt) : float_sqrt(w, in, mask);
}

enum flow op_rsqrt(struct warp *w, const struct inst *in, uint32_t mask)
{
    return approximate(w, in, mask, reciprocal_root);
}

enum flow op_sin(struct warp *w, const struct inst *in, uint32_t mask)
{
    return approximate(w, in, mask, sin);
}

enum flow op_cos(struct warp *w, const struct inst *in, uint32_t mask)
{
    return approximate(w, in, mask, cos);
}

enum flow op_lg2(struct warp *w, const struct inst *in, uint32_t mask)
{
    return approximate(w, in, mask, log2);
}

enum flow op_ex2(struct warp *w, const struct inst *in, uint32_t mask)
{
    return approximate(w, in, mask, exp2);
}

enum flow op_tanh(struct warp *w, const struct inst *in, uint32_t mask)
{
    return approximate(w, in, mask, tanh);
}
