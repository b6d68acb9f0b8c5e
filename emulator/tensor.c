#include "tensor.h"

#include <string.h>

const struct tensor_rules tensor_rules_measured = {0};

/* ---- formats ------------------------------------------------------------------------------- */

enum class { ZERO, FINITE, INFINITE, NAN_ };

/* value = sig * 2^(exp - mantissa). A subnormal keeps the least exponent, it is not normalised. */
struct number {
    enum class class;
    bool negative;
    int exp;
    unsigned mantissa;
    uint64_t sig;
};

enum codes { HAS_BOTH, HAS_NAN, HAS_NEITHER };  /* what the largest exponents mean */

struct format {
    uint8_t bits;           /* of one encoding */
    uint8_t exponent;       /* bits of the exponent field */
    uint8_t mantissa;
    uint8_t bias;
    uint8_t codes;          /* HAS_NAN: only all ones is NaN, no infinity */
};

static const struct format formats[] = {
    [TENSOR_BF16] = {16, 8, 7, 127, HAS_BOTH},
    [TENSOR_F16] = {16, 5, 10, 15, HAS_BOTH},
    [TENSOR_TF32] = {32, 8, 10, 127, HAS_BOTH},
    [TENSOR_E4M3] = {8, 4, 3, 7, HAS_NAN},
    [TENSOR_E5M2] = {8, 5, 2, 15, HAS_BOTH},
    [TENSOR_E3M2] = {6, 3, 2, 3, HAS_NEITHER},
    [TENSOR_E2M3] = {6, 2, 3, 1, HAS_NEITHER},
    [TENSOR_E2M1] = {4, 2, 1, 1, HAS_NEITHER},
    [TENSOR_S8] = {8, 0, 0, 0, HAS_NEITHER},
    [TENSOR_U8] = {8, 0, 0, 0, HAS_NEITHER},
    [TENSOR_B1] = {1, 0, 0, 0, HAS_NEITHER},
};

static const struct format format_f32 = {32, 8, 23, 127, HAS_BOTH};
static const struct format format_ue8m0 = {8, 8, 0, 127, HAS_NAN};
static const struct format format_ue4m3 = {7, 4, 3, 7, HAS_NAN};

static bool is_integer(enum tensor_format format)
{
    return format >= TENSOR_S8;
}

static struct number decode(const struct format *f, uint32_t code)
{
    const unsigned ignored = f->bits == 32 && f->mantissa == 10 ? 13 : 0;   /* tf32 */
    const uint32_t field_max = (1u << f->exponent) - 1, mant_max = (1u << f->mantissa) - 1;
    const uint32_t mant = (code >> ignored) & mant_max;
    const uint32_t field = (code >> (ignored + f->mantissa)) & field_max;
    struct number n = {.class = FINITE, .mantissa = f->mantissa};

    n.negative = (code >> (ignored + f->mantissa + f->exponent)) & 1;
    n.exp = (int)(field ? field : 1) - f->bias;
    n.sig = mant | (field ? mant_max + 1 : 0);
    if (field == field_max && f->codes == HAS_BOTH)
        n.class = mant ? NAN_ : INFINITE;
    else if (field == field_max && mant == mant_max && f->codes == HAS_NAN)
        n.class = NAN_;
    else if (n.sig == 0)
        n.class = ZERO;
    return n;
}

/* A scale factor: no sign, and ue8m0's code 0 is 2^-127 instead of zero. */
static struct number decode_scale(enum tensor_scale scale, uint32_t code)
{
    struct number n;

    if (scale == TENSOR_UE4M3)
        return decode(&format_ue4m3, code & 0x7f);
    n = decode(&format_ue8m0, code & 0xff);
    n.negative = false;
    n.exp = (int)(code & 0xff) - 127;
    n.sig = 1;
    if (n.class == ZERO)
        n.class = FINITE;
    return n;
}

/* ---- kinds --------------------------------------------------------------------------------- */

static bool is_fp8(enum tensor_format format)
{
    return format == TENSOR_E4M3 || format == TENSOR_E5M2;
}

static bool is_fp864(enum tensor_format format)
{
    return format >= TENSOR_E4M3 && format <= TENSOR_E2M1;
}

static bool is_int8(enum tensor_format format)
{
    return format == TENSOR_S8 || format == TENSOR_U8;
}

static bool is_half(enum tensor_format format)
{
    return format == TENSOR_BF16 || format == TENSOR_F16;
}

bool tensor_kind_wgmma(struct tensor_kind *kind, enum tensor_format a, enum tensor_format b,
                       enum tensor_result d, bool saturate)
{
    *kind = (struct tensor_kind){.a = a, .b = b, .d = d, .fraction = 25, .mantissa = 23,
                                 .saturate = saturate, .rules = tensor_rules_measured};
    if (is_half(a)) {
        kind->k = 16;
        return a == b && !saturate &&
               (d == TENSOR_TO_F32 || (d == TENSOR_TO_F16 && a == TENSOR_F16));
    }
    if (a == TENSOR_TF32) {
        kind->k = 8;
        return b == TENSOR_TF32 && d == TENSOR_TO_F32 && !saturate;
    }
    if (is_fp8(a)) {
        kind->k = 32;
        kind->fraction = kind->mantissa = 13;
        return is_fp8(b) && d != TENSOR_TO_S32 && !saturate;
    }
    if (is_int8(a)) {
        kind->k = 32;
        return is_int8(b) && d == TENSOR_TO_S32;
    }
    kind->k = 0;            /* 256 bits: counted by the row, not by K */
    return a == TENSOR_B1 && b == TENSOR_B1 && d == TENSOR_TO_S32 && !saturate;
}

bool tensor_kind_tcgen05(struct tensor_kind *kind, enum tensor_family family,
                         enum tensor_format a, enum tensor_format b, enum tensor_result d,
                         enum tensor_scale scale, unsigned block, bool saturate)
{
    const bool scaled = family == TENSOR_KIND_MXF8F6F4 || family == TENSOR_KIND_MXF4 ||
                        family == TENSOR_KIND_MXF4NVF4;
    const bool to_float = !saturate && (scaled ? d == TENSOR_TO_F32 : d != TENSOR_TO_S32);

    *kind = (struct tensor_kind){.a = a, .b = b, .d = d, .k = 32, .fraction = 25, .mantissa = 23,
                                 .scale = scale, .block = (uint8_t)block, .saturate = saturate,
                                 .rules = tensor_rules_measured};
    if (scaled != (scale != TENSOR_UNSCALED) || (!scaled && block != 0))
        return false;
    switch (family) {
    case TENSOR_KIND_F16:
        kind->k = 16;
        return is_half(a) && is_half(b) && to_float &&
               (d == TENSOR_TO_F32 || (a == TENSOR_F16 && b == TENSOR_F16));
    case TENSOR_KIND_TF32:
        kind->k = 8;
        return a == TENSOR_TF32 && b == TENSOR_TF32 && to_float && d == TENSOR_TO_F32;
    case TENSOR_KIND_F8F6F4:
        return is_fp864(a) && is_fp864(b) && to_float;
    case TENSOR_KIND_MXF8F6F4:
        return is_fp864(a) && is_fp864(b) && to_float && scale == TENSOR_UE8M0 && block == 32;
    case TENSOR_KIND_MXF4:
    case TENSOR_KIND_MXF4NVF4:
        kind->k = 64;
        kind->fraction = 35;
        kind->groups = true;
        if (family == TENSOR_KIND_MXF4 && block != 32)
            return false;
        return a == TENSOR_E2M1 && b == TENSOR_E2M1 && to_float &&
               (block == 16 || (block == 32 && scale == TENSOR_UE8M0));
    case TENSOR_KIND_I8:
        return is_int8(a) && is_int8(b) && d == TENSOR_TO_S32;
    }
    return false;
}

unsigned tensor_element_bits(const struct tensor_kind *kind, enum tensor_format format)
{
    if (kind->groups)
        return 4;
    return formats[format].bits < 8 && format != TENSOR_B1 ? 8 : formats[format].bits;
}

/* ---- the model, plainly -------------------------------------------------------------------- */

#define NAN_F32 0x7fffffffu
#define NAN_F16 0x7fffu

struct term {
    bool negative;
    int exp;                /* takes part in the maximum */
    unsigned fraction;      /* value = mag * 2^(exp - fraction) */
    uint64_t mag;
};

static unsigned top_bit(uint64_t v)
{
    unsigned p = 0;

    while (v >>= 1)
        p++;
    return p;
}

/* v * 2^shift toward zero. */
static uint64_t shifted(uint64_t v, int shift)
{
    if (shift >= 0)
        return v << shift;
    return shift > -64 ? v >> -shift : 0;
}

/* sum * 2^e0 to f32, toward zero, keeping `mantissa` fraction bits. Overflow gives infinity, a zero
 * is always +0. */
static uint32_t to_f32(int64_t sum, int e0, unsigned mantissa)
{
    const uint32_t sign = sum < 0 ? 0x80000000u : 0;
    const uint64_t v = sum < 0 ? -(uint64_t)sum : (uint64_t)sum;
    uint32_t q;
    int e;

    if (v == 0)
        return 0;
    e = (int)top_bit(v) + e0;
    if (e >= 128)
        return sign | 0x7f800000u;
    if (e < -126)
        e = -126;
    q = (uint32_t)shifted(v, e0 - (e - (int)mantissa)) << (23 - mantissa);
    if (q == 0)
        return 0;
    return q >= 1u << 23 ? sign | (uint32_t)(e + 127) << 23 | (q & 0x7fffffu) : sign | q;
}

/* sum * 2^e0 to f16, nearest even. */
static uint32_t to_f16(int64_t sum, int e0)
{
    const uint32_t sign = sum < 0 ? 0x8000u : 0;
    const uint64_t v = sum < 0 ? -(uint64_t)sum : (uint64_t)sum;
    uint64_t q;
    int e, shift;

    if (v == 0)
        return 0;
    e = (int)top_bit(v) + e0;
    if (e < -14)
        e = -14;
    if (e > 16)
        return sign | 0x7c00u;
    shift = e0 - (e - 10);
    q = shifted(v, shift);
    if (shift < 0 && shift > -64) {
        const uint64_t rest = v & ((UINT64_C(1) << -shift) - 1), half = UINT64_C(1) << (-shift - 1);

        if (rest > half || (rest == half && q & 1))
            q++;
    }
    if (q == 0)
        return 0;
    if (q == 2048) {
        q = 1024;
        e++;
    }
    if (e > 15)
        return sign | 0x7c00u;
    return (uint32_t)(q >= 1024 ? sign | (uint32_t)(e + 15) << 10 | (q & 0x3ff) : sign | q);
}

/* Aligns the terms to the largest exponent, cuts each toward zero, adds. The value is
 * sum * 2^*e0. */
static int64_t fused_sum(const struct tensor_kind *kind, const struct term *terms, unsigned count,
                         int *e0)
{
    const int fraction = kind->fraction;
    int64_t sum = 0;
    int e = terms[0].exp;

    for (unsigned i = 1; i < count; i++)
        if (terms[i].exp > e)
            e = terms[i].exp;
    if (!kind->rules.no_floor && !kind->groups) {
        const int floor = kind->d == TENSOR_TO_F16 ? -21 : -133;

        if (e < floor)
            e = floor;
    }
    for (unsigned i = 0; i < count; i++) {
        const int shift = fraction - (int)terms[i].fraction - (e - terms[i].exp);
        const int64_t q = (int64_t)shifted(terms[i].mag, shift);

        sum += terms[i].negative ? -q : q;
    }
    *e0 = e - fraction;
    return sum;
}

static uint32_t convert(const struct tensor_kind *kind, int64_t sum, int e0)
{
    return kind->d == TENSOR_TO_F16 ? to_f16(sum, e0) : to_f32(sum, e0, kind->mantissa);
}

static struct number decode_operand(const struct tensor_kind *kind, enum tensor_format format,
                                    uint32_t code)
{
    struct number n = decode(&formats[format], code);

    if (kind->rules.normalise && formats[format].codes == HAS_NEITHER && n.class == FINITE)
        while (!(n.sig >> n.mantissa)) {
            n.sig <<= 1;
            n.exp--;
        }
    return n;
}

static struct number decode_accumulator(const struct tensor_kind *kind, uint32_t c)
{
    return decode(kind->d == TENSOR_TO_F16 ? &formats[TENSOR_F16] : &format_f32, c);
}

static uint32_t dot_float(const struct tensor_kind *kind, const uint32_t *a, const uint32_t *b,
                          uint32_t c, const uint32_t *scale_a, const uint32_t *scale_b)
{
    const struct number old = decode_accumulator(kind, c);
    const uint32_t inf = kind->d == TENSOR_TO_F16 ? 0x7c00u : 0x7f800000u;
    const uint32_t sign = kind->d == TENSOR_TO_F16 ? 0x8000u : 0x80000000u;
    struct term terms[65];
    unsigned count = 0;
    bool nan = old.class == NAN_, plus = false, minus = false;
    int scale = 0, e0;
    int64_t sum;

    if (old.class == INFINITE)
        *(old.negative ? &minus : &plus) = true;
    if (kind->scale != TENSOR_UNSCALED) {
        const struct number u = decode_scale(kind->scale, scale_a[0]);
        const struct number v = decode_scale(kind->scale, scale_b[0]);

        nan = nan || u.class == NAN_ || v.class == NAN_;
        scale = u.exp + v.exp;
    }
    if (old.class == FINITE)
        terms[count++] = (struct term){old.negative, old.exp, old.mantissa, old.sig};
    else if (old.class == ZERO && kind->rules.zeros_count)
        terms[count++] = (struct term){false, -126, 0, 0};
    for (unsigned i = 0; i < kind->k; i++) {
        const struct number x = decode_operand(kind, kind->a, a[i]);
        const struct number y = decode_operand(kind, kind->b, b[i]);
        const bool negative = x.negative != y.negative;

        if (x.class == NAN_ || y.class == NAN_) {
            nan = true;
        } else if (x.class == INFINITE || y.class == INFINITE) {
            if (x.class == ZERO || y.class == ZERO)
                nan = true;
            else
                *(negative ? &minus : &plus) = true;
        } else if (x.class == FINITE && y.class == FINITE) {
            terms[count++] = (struct term){negative, x.exp + y.exp + scale,
                                           x.mantissa + y.mantissa, x.sig * y.sig};
        } else if (kind->rules.zeros_count) {
            const int ex = x.class == ZERO ? -126 : x.exp, ey = y.class == ZERO ? -126 : y.exp;

            terms[count++] = (struct term){false, ex + ey + scale, 0, 0};
        }
    }
    if (nan || (plus && minus))
        return kind->d == TENSOR_TO_F16 ? NAN_F16 : NAN_F32;
    if (plus || minus)
        return minus ? inf | sign : inf;
    if (count == 0)
        return 0;
    sum = fused_sum(kind, terms, count, &e0);
    return convert(kind, sum, e0);
}

/* The fp4 block-scaled kinds: 16 products are added exactly, scaled, and aligned as one term. */
static uint32_t dot_groups(const struct tensor_kind *kind, const uint32_t *a, const uint32_t *b,
                           uint32_t c, const uint32_t *scale_a, const uint32_t *scale_b)
{
    const struct number old = decode_accumulator(kind, c);
    struct term terms[5];
    unsigned count = 0;
    int64_t sum;
    int e0;

    for (unsigned i = 0; i < kind->k / kind->block; i++)
        if (decode_scale(kind->scale, scale_a[i]).class == NAN_ ||
            decode_scale(kind->scale, scale_b[i]).class == NAN_)
            return NAN_F32;
    if (old.class == NAN_)
        return NAN_F32;
    if (old.class == INFINITE)
        return c;
    if (old.class == FINITE)
        terms[count++] = (struct term){old.negative, old.exp, old.mantissa, old.sig};
    else if (!kind->rules.fp4_zeros_vanish)
        terms[count++] = (struct term){false, -126, 0, 0};
    for (unsigned g = 0; g < kind->k; g += 16) {
        const struct number u = decode_scale(kind->scale, scale_a[g / kind->block]);
        const struct number v = decode_scale(kind->scale, scale_b[g / kind->block]);
        int64_t quarters = 0;

        for (unsigned i = g; i < g + 16; i++) {
            const struct number x = decode_operand(kind, kind->a, a[i]);
            const struct number y = decode_operand(kind, kind->b, b[i]);
            const int64_t p = (int64_t)(x.sig << x.exp) * (int64_t)(y.sig << y.exp);

            quarters += x.negative != y.negative ? -p : p;
        }
        if (quarters == 0 && kind->rules.fp4_zeros_vanish)
            continue;
        terms[count++] = (struct term){
            quarters < 0, u.exp + v.exp, 2 + u.mantissa + v.mantissa,
            (uint64_t)(quarters < 0 ? -quarters : quarters) * u.sig * v.sig};
    }
    if (count == 0)
        return 0;
    sum = fused_sum(kind, terms, count, &e0);
    return convert(kind, sum, e0);
}

static int integer_value(enum tensor_format format, uint32_t code)
{
    return format == TENSOR_S8 ? (int8_t)code : (int)(code & 0xff);
}

static uint32_t integer_result(const struct tensor_kind *kind, int64_t sum)
{
    if (kind->saturate && sum > INT32_MAX)
        sum = INT32_MAX;
    if (kind->saturate && sum < INT32_MIN)
        sum = INT32_MIN;
    return (uint32_t)sum;
}

static uint32_t dot_integer(const struct tensor_kind *kind, const uint32_t *a, const uint32_t *b,
                            uint32_t c)
{
    int64_t sum = (int32_t)c;

    if (kind->a == TENSOR_B1) {
        for (unsigned i = 0; i < 256; i++)
            sum += a[i] & b[i] & 1;
        return (uint32_t)sum;
    }
    for (unsigned i = 0; i < kind->k; i++)
        sum += integer_value(kind->a, a[i]) * integer_value(kind->b, b[i]);
    return integer_result(kind, sum);
}

uint32_t tensor_dot(const struct tensor_kind *kind, const uint32_t *a, const uint32_t *b,
                    uint32_t c, const uint32_t *scale_a, const uint32_t *scale_b)
{
    if (is_integer(kind->a))
        return dot_integer(kind, a, b, c);
    if (kind->groups)
        return dot_groups(kind, a, b, c, scale_a, scale_b);
    return dot_float(kind, a, b, c, scale_a, scale_b);
}
