/*
 * Floating-point arithmetic that IEEE defines. NaN results are 7fffffff and 7fff.
 */
#include "exec_loop.h"

#include <fenv.h>
#include <math.h>

#include "floats.h"

enum calculation { SUM, DIFFERENCE, PRODUCT, QUOTIENT, FUSED };

/* ---- f32 ---- */

static uint32_t saturate32(uint32_t bits)
{
    const float f = float_of(bits);

    return f >= 1 ? 0x3f800000 : f > 0 ? bits : 0;
}

static inline uint32_t tidy32(uint32_t bits)
{
    return is_nan32(bits) ? NAN_F32 : bits;
}

/* The exact result in double, rounded to odd. */
static double wide(enum calculation what, double a, double b, double c)
{
    switch (what) {
    case SUM: return odd_add(a, b);
    case DIFFERENCE: return odd_add(a, -b);
    case PRODUCT: return a * b;
    case QUOTIENT: return odd_div(a, b);
    case FUSED: return odd_add(a * b, c);
    }
    return 0;
}

/* Zero results of sums have a sign that the direction decides. */
static bool zero_sum(enum calculation what, double a, double b, double c, double *zero)
{
    double x = a, y = what == DIFFERENCE ? -b : b;

    if (what == PRODUCT || what == QUOTIENT)
        return false;
    if (what == FUSED) {
        x = a * b;
        y = c;
    }
    if (x + y != 0 || (x == 0 && y == 0 && signbit(x) == signbit(y)))
        return false;
    *zero = -0.0;
    return true;
}

static uint32_t slow32(enum calculation what, uint32_t a, uint32_t b, uint32_t c,
                       const struct inst *in)
{
    const bool ftz = in->flags & INST_FTZ;

    if (ftz) {
        a = flush32(a);
        b = flush32(b);
        c = flush32(c);
    }
    const double x = float_of(a), y = float_of(b), z = float_of(c);
    double r = wide(what, x, y, z), zero;
    if (in->rnd == RND_RM && r == 0 && zero_sum(what, x, y, z, &zero))
        r = zero;
    uint32_t d = (uint32_t)format_round(format_f32, r, (enum rounding)in->rnd);
    if (ftz)
        d = flush32(d);
    return in->flags & INST_SAT ? saturate32(d) : d;
}

/* Plain: nearest even, subnormals kept. */
static bool is_plain(const struct inst *in)
{
    return !(in->flags & (INST_FTZ | INST_SAT)) && (in->rnd == RND_NONE || in->rnd == RND_RN);
}

/* Where the processor has the instruction, the library's way round it is a waste. */
#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_FMA __builtin_cpu_supports("fma")
__attribute__((target("fma")))
#else
#define HAVE_FMA false
#endif
static void fuse_rows(struct span s, uint32_t *d, const uint32_t *a, const uint32_t *b,
                      const uint32_t *c)
{
    EACH_LANE(s, d[l] = tidy32(bits_of_float(__builtin_fmaf(float_of(a[l]), float_of(b[l]),
                                                            float_of(c[l])))));
}

static enum flow fuse(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct span s = span_of(mask);
    uint32_t ta[LANES], tb[LANES], tc[LANES], d[LANES], defined = UINT32_MAX;
    const uint32_t *const a = row32(w, &in->o[1], ta, s, &defined);
    const uint32_t *const b = row32(w, &in->o[2], tb, s, &defined);
    const uint32_t *const c = row32(w, &in->o[3], tc, s, &defined);

    fuse_rows(s, d, a, b, c);
    put32(w, &in->o[0], s, d, defined);
    return FLOW_NEXT;
}

#define FLOAT2(expression) BINARY32(tidy32(bits_of_float(expression)))
#define FA float_of(a[l])
#define FB float_of(b[l])
#define FC float_of(c[l])

static enum flow calculate32(struct warp *w, const struct inst *in, uint32_t mask,
                             enum calculation what)
{
    if (what == FUSED) {
        if (is_plain(in) && HAVE_FMA)
            return fuse(w, in, mask);
        if (is_plain(in))
            TERNARY32(tidy32(bits_of_float(fmaf(FA, FB, FC))));
        TERNARY32(slow32(what, a[l], b[l], c[l], in));
    }
    if (!is_plain(in))
        BINARY32(slow32(what, a[l], b[l], 0, in));
    switch (what) {
    case SUM: FLOAT2(FA + FB);
    case DIFFERENCE: FLOAT2(FA - FB);
    case PRODUCT: FLOAT2(FA * FB);
    default: FLOAT2(FA / FB);
    }
}

/* ---- f64 ---- */

static double in_double(enum calculation what, double a, double b, double c)
{
    switch (what) {
    case SUM: return a + b;
    case DIFFERENCE: return a - b;
    case PRODUCT: return a * b;
    case QUOTIENT: return a / b;
    case FUSED: return fma(a, b, c);
    }
    return 0;
}

int exec_direction(const struct inst *in)
{
    switch (in->rnd) {
    case RND_RZ: return FE_TOWARDZERO;
    case RND_RM: return FE_DOWNWARD;
    case RND_RP: return FE_UPWARD;
    default: return FE_TONEAREST;
    }
}

static uint64_t quiet64(uint64_t bits)
{
    return bits | UINT64_C(1) << 51;
}

static bool is_nan64(uint64_t bits)
{
    return (bits & (UINT64_MAX >> 1)) > UINT64_C(0x7ff) << 52;
}

static enum flow calculate64(struct warp *w, const struct inst *in, uint32_t mask,
                             enum calculation what)
{
    const struct span s = span_of(mask);
    uint64_t ta[LANES], tb[LANES], tc[LANES], d[LANES];
    uint32_t defined = UINT32_MAX;
    const uint64_t *const a = row64(w, &in->o[1], ta, s, &defined);
    const uint64_t *const b = row64(w, &in->o[2], tb, s, &defined);
    const uint64_t *const c = what == FUSED ? row64(w, &in->o[3], tc, s, &defined) : b;
    const int way = exec_direction(in);

    if (way != FE_TONEAREST)
        fesetround(way);
    for (unsigned l = s.lo; l < s.hi; l++) {
        volatile double x = double_of(a[l]), y = double_of(b[l]), z = double_of(c[l]);
        volatile double r = in_double(what, x, y, z);
        d[l] = bits_of_double(r);
        if ((what == SUM || what == DIFFERENCE) && is_nan64(b[l]))
            d[l] = quiet64(b[l]);       /* of two NaNs the second */
    }
    if (way != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    put64(w, &in->o[0], s, d, defined);
    return FLOW_NEXT;
}

/* ---- f16 and bf16, alone and in pairs ---- */

static bool is_bf16(enum type type)
{
    return type == TY_BF16 || type == TY_BF16X2;
}

static bool is_pair(enum type type)
{
    return type == TY_F16X2 || type == TY_BF16X2;
}

static uint32_t calculate16(enum calculation what, enum type type, uint32_t flags, uint16_t a,
                            uint16_t b, uint16_t c)
{
    const bool brain = is_bf16(type);
    const struct format f = brain ? format_bf16 : format_f16;

    if (flags & INST_FTZ && !brain) {
        a = flush16(a);
        b = flush16(b);
        c = flush16(c);
    }
    const double r = wide(what, format_value(f, a), format_value(f, b), format_value(f, c));
    uint16_t d = (uint16_t)format_round(f, r, RND_RN);
    const bool nan = (d & 0x7fff) == 0x7fff;
    if (flags & INST_FTZ && !brain)
        d = flush16(d);
    if (flags & INST_SAT)
        d = nan || d & 0x8000 ? 0 : d > 0x3c00 ? 0x3c00 : d;
    if (flags & INST_RELU && !nan && d & 0x8000)
        d = 0;
    return d;
}

static uint32_t calculate_pair(enum calculation what, enum type type, uint32_t flags, uint32_t a,
                               uint32_t b, uint32_t c)
{
    uint32_t d = calculate16(what, type, flags, (uint16_t)a, (uint16_t)b, (uint16_t)c);

    if (is_pair(type))
        d |= calculate16(what, type, flags, (uint16_t)(a >> 16), (uint16_t)(b >> 16),
                         (uint16_t)(c >> 16)) << 16;
    return d;
}

static enum flow calculate(struct warp *w, const struct inst *in, uint32_t mask,
                           enum calculation what)
{
    const enum type type = (enum type)in->type[0];
    const uint32_t flags = in->flags;

    if (type == TY_F32)
        return calculate32(w, in, mask, what);
    if (type == TY_F64)
        return calculate64(w, in, mask, what);
    if (what == FUSED)
        TERNARY32(calculate_pair(what, type, flags, a[l], b[l], c[l]));
    BINARY32(calculate_pair(what, type, flags, a[l], b[l], 0));
}

static bool is_float(const struct inst *in)
{
    return type_float((enum type)in->type[0]);
}

enum flow op_add(struct warp *w, const struct inst *in, uint32_t mask)
{
    return is_float(in) ? calculate(w, in, mask, SUM) : int_add(w, in, mask);
}

enum flow op_sub(struct warp *w, const struct inst *in, uint32_t mask)
{
    return is_float(in) ? calculate(w, in, mask, DIFFERENCE) : int_sub(w, in, mask);
}

enum flow op_mul(struct warp *w, const struct inst *in, uint32_t mask)
{
    return is_float(in) ? calculate(w, in, mask, PRODUCT) : int_mul(w, in, mask);
}

enum flow op_fma(struct warp *w, const struct inst *in, uint32_t mask)
{
    return calculate(w, in, mask, FUSED);
}

enum flow op_div(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->flags & (INST_APPROX | INST_FULL))
        return approx_div(w, in, mask);
    return is_float(in) ? calculate(w, in, mask, QUOTIENT) : int_div(w, in, mask);
}

/* ---- roots and reciprocals that round ---- */

static enum flow unary_rounded(struct warp *w, const struct inst *in, uint32_t mask, bool root)
{
    const bool ftz = in->flags & INST_FTZ;
    const enum rounding rounding = (enum rounding)in->rnd;

    if (in->type[0] == TY_F64) {
        const struct span s = span_of(mask);
        uint64_t ta[LANES], d[LANES];
        uint32_t defined = UINT32_MAX;
        const uint64_t *a = row64(w, &in->o[1], ta, s, &defined);
        fesetround(exec_direction(in));
        for (unsigned l = s.lo; l < s.hi; l++) {
            volatile double x = double_of(a[l]), one = 1;
            volatile double r = root ? sqrt(x) : one / x;
            d[l] = bits_of_double(r);
        }
        fesetround(FE_TONEAREST);
        put64(w, &in->o[0], s, d, defined);
        return FLOW_NEXT;
    }
    const struct span s = span_of(mask);
    uint32_t ta[LANES], d[LANES], defined = UINT32_MAX;
    const uint32_t *a = row32(w, &in->o[1], ta, s, &defined);
    for (unsigned l = s.lo; l < s.hi; l++) {
        const double x = float_of(ftz ? flush32(a[l]) : a[l]);
        const double r = root ? odd_sqrt(x) : odd_div(1, x);
        d[l] = (uint32_t)format_round(format_f32, r, rounding);
        if (ftz)
            d[l] = flush32(d[l]);
    }
    put32(w, &in->o[0], s, d, defined);
    return FLOW_NEXT;
}

enum flow float_sqrt(struct warp *w, const struct inst *in, uint32_t mask)
{
    return unary_rounded(w, in, mask, true);
}

enum flow float_rcp(struct warp *w, const struct inst *in, uint32_t mask)
{
    return unary_rounded(w, in, mask, false);
}

/* ---- sign ---- */

static uint32_t sign16(enum type type, uint32_t flags, uint32_t v, bool negate)
{
    uint32_t d = 0;

    for (unsigned i = 0; i < (is_pair(type) ? 32u : 16u); i += 16) {
        uint16_t h = (uint16_t)(v >> i);
        if (flags & INST_FTZ && !is_bf16(type))
            h = flush16(h);
        const bool nan = is_bf16(type) ? is_nan_bf16(h) : is_nan16(h);
        d |= (nan ? NAN_F16 : (uint32_t)(uint16_t)(negate ? h ^ 0x8000 : h & 0x7fff)) << i;
    }
    return d;
}

enum flow op_abs(struct warp *w, const struct inst *in, uint32_t mask)
{
    const enum type type = (enum type)in->type[0];
    const uint32_t flags = in->flags;

    if (!is_float(in))
        return int_abs(w, in, mask);
    if (type == TY_F64)
        UNARY64(is_nan64(a[l]) ? quiet64(a[l]) : a[l] & (UINT64_MAX >> 1));
    if (type != TY_F32)
        UNARY32(sign16(type, flags, a[l], false));
    if (flags & INST_FTZ)
        UNARY32(tidy32(flush32(a[l]) & 0x7fffffff));
    UNARY32(tidy32(a[l] & 0x7fffffff));
}

enum flow op_neg(struct warp *w, const struct inst *in, uint32_t mask)
{
    const enum type type = (enum type)in->type[0];
    const uint32_t flags = in->flags;

    if (!is_float(in))
        return int_neg(w, in, mask);
    if (type == TY_F64)
        UNARY64(is_nan64(a[l]) ? quiet64(a[l]) : a[l] ^ UINT64_C(1) << 63);
    if (type != TY_F32)
        UNARY32(sign16(type, flags, a[l], true));
    if (flags & INST_FTZ)
        UNARY32(tidy32(flush32(a[l]) ^ 0x80000000));
    UNARY32(tidy32(a[l] ^ 0x80000000));
}

enum flow op_copysign(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->type[0] == TY_F64)
        BINARY64((b[l] & (UINT64_MAX >> 1)) | (a[l] & UINT64_C(1) << 63));
    BINARY32((b[l] & 0x7fffffff) | (a[l] & 0x80000000));
}

/* ---- order ---- */

/*
 * Minimum or maximum of two encodings that are compared as sign and magnitude, so that -0 < +0.
 * top: the sign bit. nan: the largest encoding that is not a NaN, and the NaN that results.
 */
static uint64_t pick(uint64_t a, uint64_t b, uint64_t top, uint64_t inf, uint64_t nan, bool greater,
                     uint32_t flags)
{
    uint64_t sign = 0;

    if (flags & INST_XORSIGN)
        sign = (a ^ b) & top;
    if (flags & (INST_XORSIGN | INST_ABS)) {
        a &= ~top;
        b &= ~top;
    }
    const bool na = (a & ~top) > inf, nb = (b & ~top) > inf;
    if (na || nb) {
        if ((na && nb) || flags & INST_NAN)
            return nan;
        return (na ? b : a) | sign;
    }
    /* Ordered keys: negative encodings run backwards. */
    const uint64_t ka = a & top ? ~a & (top | (top - 1)) : a | top;
    const uint64_t kb = b & top ? ~b & (top | (top - 1)) : b | top;
    return ((ka > kb) == greater ? a : b) | sign;
}

static uint32_t pick16(enum type type, uint32_t flags, uint32_t a, uint32_t b, bool greater)
{
    uint32_t d = 0;

    for (unsigned i = 0; i < (is_pair(type) ? 32u : 16u); i += 16) {
        uint16_t x = (uint16_t)(a >> i), y = (uint16_t)(b >> i);
        if (flags & INST_FTZ && !is_bf16(type)) {
            x = flush16(x);
            y = flush16(y);
        }
        d |= (uint32_t)pick(x, y, 0x8000, is_bf16(type) ? 0x7f80 : 0x7c00, NAN_F16, greater, flags)
             << i;
    }
    return d;
}

static uint32_t pick32(uint32_t flags, uint32_t a, uint32_t b, bool greater)
{
    if (flags & INST_FTZ) {
        a = flush32(a);
        b = flush32(b);
    }
    return (uint32_t)pick(a, b, 0x80000000, 0x7f800000, NAN_F32, greater, flags);
}

static enum flow order(struct warp *w, const struct inst *in, uint32_t mask, bool greater)
{
    const enum type type = (enum type)in->type[0];
    const uint32_t flags = in->flags;

    if (type == TY_F64)
        BINARY64(pick(a[l], b[l], UINT64_C(1) << 63, UINT64_C(0x7ff) << 52,
                      UINT64_C(0x7fffffffffffffff), greater, flags));
    if (type == TY_F32 && in->o[3].kind != OPND_NONE) /* of three, in whichever order */
        TERNARY32(pick32(flags, pick32(flags, a[l], b[l], greater), c[l], greater));
    if (type == TY_F32)
        BINARY32(pick32(flags, a[l], b[l], greater));
    BINARY32(pick16(type, flags, a[l], b[l], greater));
}

enum flow op_min(struct warp *w, const struct inst *in, uint32_t mask)
{
    return is_float(in) ? order(w, in, mask, false) : int_min(w, in, mask);
}

enum flow op_max(struct warp *w, const struct inst *in, uint32_t mask)
{
    return is_float(in) ? order(w, in, mask, true) : int_max(w, in, mask);
}

/* ---- classes ---- */

static bool is_class(unsigned class, uint64_t bits, struct format f)
{
    const uint64_t top = (UINT64_C(1) << f.exponent) - 1;
    const uint64_t exponent = bits >> f.mantissa & top;
    const uint64_t fraction = bits & ((UINT64_C(1) << f.mantissa) - 1);

    switch (class) {
    case SUB_FINITE: return exponent != top;
    case SUB_INFINITE: return exponent == top && !fraction;
    case SUB_NUMBER: return exponent != top || !fraction;
    case SUB_NOTANUMBER: return exponent == top && fraction;
    case SUB_NORMAL: return exponent ? exponent != top : !fraction;      /* zeros too */
    default: return !exponent && fraction;
    }
}

enum flow op_testp(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct format f = in->type[0] == TY_F64 ? format_f64 : format_f32;
    uint32_t hit = 0;

    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        hit |= (uint32_t)is_class(in->sub, warp_value(w, &in->o[1], l), f) << l;
    }
    warp_set_pred(w, &in->o[0], mask, hit, warp_defined(w, &in->o[1]));
    return FLOW_NEXT;
}
