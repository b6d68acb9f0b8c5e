/* Whole tiles: operands decoded once, then the fused step over decoded data, in portable C. */
#include "tensor.h"

#include <string.h>

/* ---- decoding ------------------------------------------------------------------------------ */

struct layout {
    uint8_t mantissa, exponent, low;    /* fields of a raw element; low: ignored bits below */
    uint8_t bias;
    uint8_t specials;       /* 2: top exponent is Inf or NaN, 1: all ones is NaN, 0: none */
};

static const struct layout layouts[] = {
    [TENSOR_BF16] = {7, 8, 0, 127, 2},
    [TENSOR_F16] = {10, 5, 0, 15, 2},
    [TENSOR_TF32] = {10, 8, 13, 127, 2},
    [TENSOR_E4M3] = {3, 4, 0, 7, 1},
    [TENSOR_E5M2] = {2, 5, 0, 15, 2},
    [TENSOR_E3M2] = {2, 3, 0, 3, 0},
    [TENSOR_E2M3] = {3, 2, 0, 1, 0},
    [TENSOR_E2M1] = {1, 2, 0, 1, 0},
};

/* The product of two significands is shifted left so that its lowest bit has weight 2^-F: one part
 * of the shift is applied to A, the rest to B, and both stay below 2^15. */
static unsigned shift_of(const struct tensor_kind *kind, enum tensor_side side)
{
    const unsigned a = layouts[kind->a].mantissa, b = layouts[kind->b].mantissa;
    const unsigned total = kind->fraction - a - b;
    const unsigned first = total < 14 - a ? total : 14 - a;

    return side == TENSOR_A ? first : total - first;
}

static uint32_t raw_element(const uint8_t *row, unsigned i, unsigned bytes)
{
    uint16_t half;
    uint32_t word;

    switch (bytes) {
    case 1:
        return row[i];
    case 2:
        memcpy(&half, row + 2 * i, 2);
        return half;
    default:
        memcpy(&word, row + 4 * i, 4);
        return word;
    }
}

/* One row; elements go to sig[i * stride], exp[i * stride]. True if a NaN or infinity is among
 * them. Inlined with a constant layout for each format. */
static inline bool decode_row(const struct layout f, unsigned bytes, unsigned shift, unsigned k,
                              unsigned stride, const uint8_t *row, uint32_t *sig, int32_t *exp)
{
    const uint32_t field_max = (1u << f.exponent) - 1, mant_max = (1u << f.mantissa) - 1;
    uint32_t special = 0;

    for (unsigned i = 0; i < k; i++) {
        const uint32_t code = raw_element(row, i, bytes) >> f.low;
        const uint32_t mant = code & mant_max, field = code >> f.mantissa & field_max;
        const uint32_t sign = -(code >> (f.mantissa + f.exponent) & 1);
        const uint32_t hidden = field != 0;
        const uint32_t magnitude = (mant | hidden << f.mantissa) << shift;
        const uint32_t odd = f.specials == 0 ? 0 :
            field == field_max && (f.specials == 2 || mant == mant_max);
        const bool zero = magnitude == 0 || odd;
        const uint32_t value = odd ? 0 : ((magnitude ^ sign) - sign) & 0xffff;

        special |= odd;
        sig[i * stride] = value;
        exp[i * stride] = zero ? TENSOR_NO_EXPONENT : (int32_t)(field + !hidden) - f.bias;
    }
    return special;
}

static bool decode_float_row(enum tensor_format format, unsigned shift, unsigned k, unsigned stride,
                             const uint8_t *row, uint32_t *sig, int32_t *exp)
{
    switch (format) {
    case TENSOR_BF16:
        return decode_row((struct layout){7, 8, 0, 127, 2}, 2, shift, k, stride, row, sig, exp);
    case TENSOR_F16:
        return decode_row((struct layout){10, 5, 0, 15, 2}, 2, shift, k, stride, row, sig, exp);
    case TENSOR_TF32:
        return decode_row((struct layout){10, 8, 13, 127, 2}, 4, shift, k, stride, row, sig, exp);
    case TENSOR_E4M3:
        return decode_row((struct layout){3, 4, 0, 7, 1}, 1, shift, k, stride, row, sig, exp);
    case TENSOR_E5M2:
        return decode_row((struct layout){2, 5, 0, 15, 2}, 1, shift, k, stride, row, sig, exp);
    default:
        return decode_row(layouts[format], 1, shift, k, stride, row, sig, exp);
    }
}

static void negate_row(const struct tensor_kind *kind, enum tensor_format format, uint8_t *row)
{
    const unsigned bytes = tensor_element_bits(kind, format) / 8;
    const struct layout *f = &layouts[format];
    const unsigned sign = f->low + f->mantissa + f->exponent;

    for (unsigned i = 0; i < kind->k; i++)
        row[i * bytes + sign / 8] ^= (uint8_t)(1u << sign % 8);
}

void tensor_decode_integers(const struct tensor_kind *kind, struct tensor_tile *tile)
{
    const bool is_a = tile->side == TENSOR_A;
    const unsigned k = kind->k, shift = shift_of(kind, tile->side);

    if (tile->integers)
        return;
    tile->integers = true;
    tile->any_special = false;
    for (unsigned r = 0; r < tile->rows; r++) {
        const size_t at = is_a ? (size_t)r * k : (size_t)(r / 8) * k * 8 + r % 8;

        tile->special[r] = decode_float_row(is_a ? kind->a : kind->b, shift, k, is_a ? 1 : 8,
                                            tile->raw[r], tile->sig + at, tile->exp + at);
        tile->any_special |= tile->special[r];
    }
}

void tensor_load(const struct tensor_kind *kind, enum tensor_side side, bool negate,
                 const uint8_t (*rows)[TENSOR_ROW_BYTES], unsigned count, struct tensor_tile *tile)
{
    const enum tensor_format format = side == TENSOR_A ? kind->a : kind->b;

    tile->side = side;
    tile->rows = count;
    tile->any_special = tile->integers = tile->floats = false;
    memcpy(tile->raw, rows, count * sizeof rows[0]);
    if (format >= TENSOR_S8)
        return;
    if (negate)
        for (unsigned r = 0; r < count; r++)
            negate_row(kind, format, tile->raw[r]);
    tensor_decode_floats(kind, tile);
}

/* ---- the step ------------------------------------------------------------------------------ */

static void raw_codes(const struct tensor_kind *kind, enum tensor_format format, const uint8_t *row,
                      uint32_t *codes)
{
    if (format == TENSOR_B1) {
        for (unsigned i = 0; i < 256; i++)
            codes[i] = row[i / 8] >> i % 8 & 1;
        return;
    }
    for (unsigned i = 0; i < kind->k; i++)
        codes[i] = raw_element(row, i, tensor_element_bits(kind, format) / 8);
}

uint32_t tensor_element(const struct tensor_kind *kind, const struct tensor_tile *a, unsigned m,
                        const struct tensor_tile *b, unsigned n, uint32_t c)
{
    uint32_t x[256], y[256];

    raw_codes(kind, kind->a, a->raw[m], x);
    raw_codes(kind, kind->b, b->raw[n], y);
    return tensor_dot(kind, x, y, c, NULL, NULL);
}

struct accumulator {
    bool special;
    int32_t exp;            /* TENSOR_NO_EXPONENT for a zero */
    int32_t sig;            /* signed; weight of its lowest bit is 2^(exp - mantissa) */
};

static struct accumulator decode_c(bool half, uint32_t code)
{
    const unsigned mantissa = half ? 10 : 23, exponent = half ? 5 : 8;
    const uint32_t mant = code & ((1u << mantissa) - 1);
    const uint32_t field = code >> mantissa & ((1u << exponent) - 1);
    const int32_t sig = (int32_t)(mant | (uint32_t)(field != 0) << mantissa);
    struct accumulator c;

    c.special = field == (1u << exponent) - 1;
    c.sig = code >> (mantissa + exponent) & 1 ? -sig : sig;
    c.exp = sig == 0 ? TENSOR_NO_EXPONENT : (int32_t)(field + (field == 0)) - (half ? 15 : 127);
    return c;
}

static int64_t signed_shift(int64_t v, int right)
{
    const int64_t q = (v < 0 ? -v : v) >> (right < 63 ? right : 63);

    return v < 0 ? -q : q;
}

static int top_bit(uint64_t v)
{
    return 63 - __builtin_clzll(v);
}

static uint32_t pack_f32(int64_t sum, int e0, unsigned mantissa)
{
    const uint32_t sign = sum < 0 ? 0x80000000u : 0;
    const uint64_t v = sum < 0 ? -(uint64_t)sum : (uint64_t)sum;
    uint32_t q;
    int e, shift;

    if (v == 0)
        return 0;
    e = top_bit(v) + e0;
    if (e >= 128)
        return sign | 0x7f800000u;
    if (e < -126)
        e = -126;
    shift = e0 - e + (int)mantissa;
    q = (uint32_t)(shift >= 0 ? v << shift : shift > -64 ? v >> -shift : 0) << (23 - mantissa);
    if (q == 0)
        return 0;
    return sign | (q >= 1u << 23 ? (uint32_t)(e + 127) << 23 | (q & 0x7fffffu) : q);
}

static uint32_t pack_f16(int64_t sum, int e0)
{
    const uint32_t sign = sum < 0 ? 0x8000u : 0;
    const uint64_t v = sum < 0 ? -(uint64_t)sum : (uint64_t)sum;
    uint64_t q;
    int e, right;

    if (v == 0)
        return 0;
    e = top_bit(v) + e0;
    if (e > 16)
        return sign | 0x7c00u;
    if (e < -14)
        e = -14;
    right = e - 10 - e0;
    if (right <= 0)
        q = v << -right;
    else if (right > 62)
        q = 0;
    else
        q = (v + (UINT64_C(1) << (right - 1)) - 1 + (v >> right & 1)) >> right;
    if (q == 0)
        return 0;
    /* A carry out of the significand lands in the exponent field by itself. */
    q = q >= 1024 ? ((uint64_t)(e + 15) << 10) + (q - 1024) : q;
    return sign | (uint32_t)(q >= 0x7c00 ? 0x7c00 : q);
}

static uint32_t step_float(const struct tensor_kind *kind, const uint32_t *sa, const int32_t *ea,
                           const uint32_t *sb, const int32_t *eb, struct accumulator c)
{
    const bool half = kind->d == TENSOR_TO_F16;
    const int up = kind->fraction - (half ? 10 : 23);
    int32_t e = half ? -21 : -133;
    int64_t sum;

    if (c.exp > e)
        e = c.exp;
    for (unsigned i = 0; i < kind->k; i++)
        if (ea[i] + eb[8 * i] > e)
            e = ea[i] + eb[8 * i];
    sum = up >= 0 ? signed_shift(c.sig * (INT64_C(1) << up), e - c.exp)
                  : signed_shift(c.sig, e - c.exp - up);
    for (unsigned i = 0; i < kind->k; i++)
        sum += signed_shift((int32_t)(int16_t)sa[i] * (int16_t)sb[8 * i], e - ea[i] - eb[8 * i]);
    return half ? pack_f16(sum, e - kind->fraction)
                : pack_f32(sum, e - kind->fraction, kind->mantissa);
}

static uint32_t step_integer(const struct tensor_kind *kind, const uint8_t *a, const uint8_t *b,
                             uint32_t c)
{
    int64_t sum = (int32_t)c;

    if (kind->a == TENSOR_B1) {
        for (unsigned i = 0; i < TENSOR_ROW_BYTES; i++)
            sum += __builtin_popcount((unsigned)(a[i] & b[i]));
        return (uint32_t)sum;
    }
    for (unsigned i = 0; i < TENSOR_ROW_BYTES; i++)
        sum += (kind->a == TENSOR_S8 ? (int8_t)a[i] : a[i]) *
               (kind->b == TENSOR_S8 ? (int8_t)b[i] : b[i]);
    if (kind->saturate)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

void tensor_step_portable(const struct tensor_kind *kind, struct tensor_tile *a,
                          struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    const unsigned k = kind->k;

    if (kind->d != TENSOR_TO_S32) {
        tensor_decode_integers(kind, a);
        tensor_decode_integers(kind, b);
    }
    for (unsigned m = 0; m < a->rows; m++, d += pitch) {
        for (unsigned n = 0; n < b->rows; n++) {
            const uint32_t old = keep ? d[n] : 0;

            if (kind->d == TENSOR_TO_S32) {
                d[n] = step_integer(kind, a->raw[m], b->raw[n], old);
            } else {
                const struct accumulator c = decode_c(kind->d == TENSOR_TO_F16, old);
                const size_t at = (size_t)(n / 8) * k * 8 + n % 8;

                if (a->special[m] || b->special[n] || c.special)
                    d[n] = tensor_element(kind, a, m, b, n, old);
                else
                    d[n] = step_float(kind, a->sig + (size_t)m * k, a->exp + (size_t)m * k,
                                      b->sig + at, b->exp + at, c);
            }
        }
    }
}

static bool rules_are_measured(const struct tensor_rules *rules)
{
    return !rules->zeros_count && !rules->no_floor && !rules->normalise;
}

/* What the measured rules do not cover goes element by element through the plain model. */
static void step_plain(const struct tensor_kind *kind, const struct tensor_tile *a,
                       const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    for (unsigned m = 0; m < a->rows; m++)
        for (unsigned n = 0; n < b->rows; n++)
            d[m * pitch + n] = tensor_element(kind, a, m, b, n, keep ? d[m * pitch + n] : 0);
}

void tensor_step(const struct tensor_kind *kind, struct tensor_tile *a, struct tensor_tile *b,
                 bool keep, uint32_t *d, unsigned pitch)
{
    if (kind->d != TENSOR_TO_S32 && !rules_are_measured(&kind->rules))
        step_plain(kind, a, b, keep, d, pitch);
    else if (!tensor_step_floats(kind, a, b, keep, d, pitch) &&
             !tensor_step_avx2(kind, a, b, keep, d, pitch))
        tensor_step_portable(kind, a, b, keep, d, pitch);
}
