#include "mufu.h"

#include <math.h>
#include <stdbool.h>

#include "floats.h"
#include "mufu_table.h"

/*
 * The sum is kept with 36 bits below the last bit of a result of 24 bits. A function's coefficients
 * have weights of their own, and one constant that stands for rounding and for the columns that the
 * multipliers leave out.
 *
 *   sum = c0 * 2^34 + bias + c1 * x * 2^(36 - w1) + c2 * square(x) * 2^(36 - w2)
 */
struct unit {
    const struct mufu_interval *table;
    unsigned index;             /* bits of the operand that choose the interval, of 23 */
    unsigned w1, w2;
    unsigned cut;               /* first column of the square that is there */
    uint64_t bias;
};

#define LOG2_E 1.44269504088896340736

#define QUARTERS(x) ((uint64_t)((x) * 17179869184.0))   /* 2^34 */

static const struct unit ex2 = { mufu_ex2_table, 6, 15, 34, 19, QUARTERS(0.7464) };
static const struct unit rcp = { mufu_rcp_table, 7, 15, 32, 17, QUARTERS(0.2470) };
static const struct unit rsq[2] = {
    { mufu_rsq1_table, 6, 16, 34, 19, QUARTERS(0.99997) },
    { mufu_rsq2_table, 6, 16, 34, 19, QUARTERS(0.99997) },
};
static const struct unit root[2] = {
    { mufu_sqrt1_table, 6, 17, 36, 19, QUARTERS(0.99998) },
    { mufu_sqrt2_table, 6, 17, 36, 19, QUARTERS(0.99998) },
};
static const struct unit lg2 = { mufu_lg2_table, 6, 14, 33, 19, QUARTERS(0.2045) };
static const struct unit sine = { mufu_sin_table, 6, 13, 32, 19, 0 };
static const struct unit tangent = { mufu_tanh_table, 0, 16, 34, 19, 0 };

/* The square of x without the partial products below column `cut`. Equal ones are folded. */
static int64_t square(uint32_t x, unsigned cut)
{
    int64_t sum = 0;

    for (uint32_t left = x; left; left &= left - 1) {
        const unsigned i = (unsigned)__builtin_ctz(left);
        /* Bit i meets itself in column 2 i, and each lower bit j in column i + j + 1. */
        if (2 * i >= cut)
            sum += INT64_C(1) << 2 * i;
        const uint32_t below = x & ((1u << i) - 1);
        const uint32_t kept = i + 1 >= cut ? below : below >> (cut - i - 1) << (cut - i - 1);
        sum += (int64_t)kept << (i + 1);
    }
    return sum;
}

static int64_t evaluate(const struct unit *f, unsigned interval, uint32_t x)
{
    const struct mufu_interval *c = &f->table[interval];
    const int64_t linear = (int64_t)c->c1 * x, quadratic = c->c2 * square(x, f->cut);

    return ((int64_t)c->c0 << 34) + (int64_t)f->bias + linear * (INT64_C(1) << (36 - f->w1)) +
           quadratic * (INT64_C(1) << (36 - f->w2));
}

/* operand: 23 bits, of which the upper ones choose the interval. */
static int64_t interpolate(const struct unit *f, uint32_t operand)
{
    const unsigned rest = 23 - f->index;

    return evaluate(f, operand >> rest, operand & ((1u << rest) - 1));
}

/* 24 bits, the first of which is set, times 2^(exponent - 23). */
static uint32_t make(bool negative, uint64_t mantissa, int exponent)
{
    const uint32_t sign = (uint32_t)negative << 31;

    if (exponent < -126)
        return sign;
    if (exponent > 127)
        return sign | 0x7f800000;
    return sign | (uint32_t)(exponent + 127) << 23 | ((uint32_t)mantissa & 0x7fffff);
}

/* magnitude * 2^scale, cut to 24 bits. */
static uint32_t normalise(bool negative, uint64_t magnitude, int scale)
{
    if (!magnitude)
        return (uint32_t)negative << 31;
    const int top = 63 - __builtin_clzll(magnitude);
    const uint64_t mantissa = top > 23 ? magnitude >> (top - 23) : magnitude << (23 - top);

    return make(negative, mantissa, scale + top);
}

static int exponent_of(uint32_t x)
{
    return (int)(x >> 23 & 0xff) - 127;
}

uint32_t mufu_rcp(uint32_t x)
{
    const uint32_t magnitude = x & 0x7fffffff, fraction = x & 0x7fffff;
    const bool negative = x >> 31;

    if (magnitude > 0x7f800000)
        return NAN_F32;
    if (magnitude == 0x7f800000)
        return x & 0x80000000;
    if (magnitude < 0x800000)
        return (x & 0x80000000) | 0x7f800000;
    if (!fraction)
        return make(negative, 1u << 23, -exponent_of(x));
    return make(negative, (uint64_t)(interpolate(&rcp, fraction) >> 36), -exponent_of(x) - 1);
}

uint32_t mufu_rsq(uint32_t x)
{
    const uint32_t magnitude = x & 0x7fffffff, fraction = x & 0x7fffff;

    if (magnitude > 0x7f800000)
        return NAN_F32;
    if (magnitude < 0x800000)
        return (x & 0x80000000) | 0x7f800000;
    if (x >> 31)
        return NAN_F32;
    if (magnitude == 0x7f800000)
        return 0;
    const int e = exponent_of(x);
    const int half = (e - (e & 1)) / 2;
    if (!fraction && !(e & 1))
        return make(false, 1u << 23, -half);
    return make(false, (uint64_t)(interpolate(&rsq[e & 1], fraction) >> 36), -half - 1);
}

uint32_t mufu_sqrt(uint32_t x)
{
    const uint32_t magnitude = x & 0x7fffffff;

    if (magnitude > 0x7f800000)
        return NAN_F32;
    if (magnitude < 0x800000)
        return x & 0x80000000;
    if (x >> 31)
        return NAN_F32;
    if (magnitude == 0x7f800000)
        return x;
    const int e = exponent_of(x);
    const int64_t sum = interpolate(&root[e & 1], x & 0x7fffff);
    return make(false, (uint64_t)(sum >> 36), (e - (e & 1)) / 2);
}

/* |x| * 2^bits, cut off; 0 <= |x| * 2^bits < 2^62. */
static uint64_t fixed(uint32_t x, int bits)
{
    const uint64_t mantissa = (x & 0x7fffff) | 0x800000;
    const int shift = exponent_of(x) - 23 + bits;

    if ((x & 0x7fffffff) < 0x800000 || shift <= -24)
        return 0;
    return shift < 0 ? mantissa >> -shift : mantissa << shift;
}

uint32_t mufu_ex2(uint32_t x)
{
    const uint32_t magnitude = x & 0x7fffffff;
    const bool negative = x >> 31;

    if (magnitude > 0x7f800000)
        return NAN_F32;
    if (magnitude >= 0x43800000)                /* 256 */
        return negative ? 0 : 0x7f800000;
    const uint64_t value = fixed(x, 23);
    int64_t v = (int64_t)value;
    if (negative)                               /* the complement, but for whole numbers */
        v = value & 0x7fffff ? ~v : -v;
    const uint32_t fraction = (uint32_t)v & 0x7fffff;
    const int whole = (int)((v - fraction) / (1 << 23));
    return make(false, fraction ? (uint64_t)(interpolate(&ex2, fraction) >> 36) : 1u << 23, whole);
}

/*
 * Within 2^-15 of 0 the logarithm takes another way, which is exact but for one bit of the mantissa
 * that is added above 1 and taken off below.
 */
static uint32_t small_lg2(double value)
{
    int p;

    frexp(value, &p);
    value += ldexp(1, p - 1 - 8);
    return (uint32_t)format_round(format_f32, value, RND_RZ);
}

uint32_t mufu_lg2(uint32_t x)
{
    const uint32_t magnitude = x & 0x7fffffff, fraction = x & 0x7fffff;

    if (magnitude > 0x7f800000)
        return NAN_F32;
    if (magnitude < 0x800000)
        return 0xff800000;
    if (x >> 31)
        return NAN_F32;
    if (magnitude == 0x7f800000)
        return x;
    const int e = exponent_of(x);
    if (x == 0x3f800000)
        return 0;
    const double value = magnitude - 0x3f7f0000 < 0x20000 ? log1p(float_of(x) - 1.0) * LOG2_E : 1;
    if (fabs(value) < 0x1p-15)
        return small_lg2(value);
    /* 60 bits behind the point would overflow beside the exponent: the last 8 are never seen. */
    const int64_t sum = (int64_t)e * (INT64_C(1) << 52) + (interpolate(&lg2, fraction) >> 8);
    return normalise(sum < 0, (uint64_t)(sum < 0 ? ~sum : sum), -52);
}

/* Sine of k quarter turns of 2^23 steps each. */
static uint32_t quarter(uint64_t k, bool negative)
{
    uint32_t f = (uint32_t)k & 0x7fffff;

    if (k >> 23 & 1)
        f = ~f & 0x7fffff;
    const int64_t sum = interpolate(&sine, f);
    return normalise(negative ^ (k >> 24 & 1), (uint64_t)(sum < 0 ? 0 : sum), -60);
}

static uint64_t turn(uint32_t x)
{
    if (exponent_of(x) > 36)
        return 0;
    return fixed(x, 25) & 0x1ffffff;
}

uint32_t mufu_sin(uint32_t x)
{
    const uint32_t magnitude = x & 0x7fffffff;

    if (magnitude >= 0x7f800000)
        return NAN_F32;
    if (magnitude < 0x800000)
        return x & 0x80000000;
    return quarter(turn(x), x >> 31);
}

uint32_t mufu_cos(uint32_t x)
{
    if ((x & 0x7fffffff) >= 0x7f800000)
        return NAN_F32;
    return quarter(turn(x) + (1u << 23), false);
}

/*
 * Below 2^-8 the function is its operand, from 8 on it is 1. In between each power of two has
 * intervals of its own, 17 bits of the operand each.
 */
uint32_t mufu_tanh(uint32_t x)
{
    static const struct {
        uint8_t first;          /* interval */
        uint8_t bits;           /* of the operand behind the point */
        uint8_t unit;           /* the sum's unit is 2^-(36 + unit) */
    } binades[] = {
        { 0, 25, 31 }, { 1, 24, 30 }, { 2, 23, 29 }, { 3, 23, 28 }, { 5, 22, 27 }, { 7, 22, 26 },
        { 11, 21, 25 }, { 15, 20, 24 }, { 19, 20, 24 }, { 27, 20, 24 }, { 43, 18, 24 },
    };
    const uint32_t magnitude = x & 0x7fffffff;
    const int e = exponent_of(magnitude);

    if (magnitude > 0x7f800000)
        return NAN_F32;
    if (e < -8)
        return x;
    if (e > 2)
        return (x & 0x80000000) | 0x3f800000;
    const unsigned bits = binades[e + 8].bits, unit = binades[e + 8].unit;
    const uint32_t operand = (uint32_t)fixed(magnitude, (int)bits) - (1u << (e + (int)bits));
    const int64_t sum = evaluate(&tangent, binades[e + 8].first + (operand >> 17),
                                 operand & 0x1ffff);
    return normalise(x >> 31, (uint64_t)sum, -36 - (int)unit);
}

/* ---- high words of f64 ---- */

/* 24 bits of a mantissa cut to the 20 of a high word. */
static uint32_t make_high(bool negative, uint64_t mantissa, int exponent)
{
    const uint32_t sign = (uint32_t)negative << 31;

    if (exponent < -1022)
        return sign;
    if (exponent > 1023)
        return sign | 0x7ff00000;
    return sign | (uint32_t)(exponent + 1023) << 20 | ((uint32_t)mantissa & 0x7fffff) >> 3;
}

uint32_t mufu_rcp64h(uint32_t x)
{
    const uint32_t magnitude = x & 0x7fffffff, fraction = (x & 0xfffff) << 3;
    const bool negative = x >> 31;
    const int e = (int)(magnitude >> 20) - 1023;

    if (magnitude > 0x7ff00000)
        return 0x7fffffff;
    if (magnitude == 0x7ff00000)
        return x & 0x80000000;
    if (magnitude < 0x100000)
        return (x & 0x80000000) | 0x7ff00000;
    if (!fraction)
        return make_high(negative, 1u << 23, -e);
    return make_high(negative, (uint64_t)(interpolate(&rcp, fraction) >> 36), -e - 1);
}

uint32_t mufu_rsq64h(uint32_t x)
{
    const uint32_t magnitude = x & 0x7fffffff, fraction = (x & 0xfffff) << 3;
    const int e = (int)(magnitude >> 20) - 1023, half = (e - (e & 1)) / 2;

    if (magnitude > 0x7ff00000)
        return 0x7fffffff;
    if (magnitude < 0x100000)
        return (x & 0x80000000) | 0x7ff00000;
    if (x >> 31)
        return 0xfff80000;
    if (magnitude == 0x7ff00000)
        return 0;
    if (!fraction && !(e & 1))
        return make_high(false, 1u << 23, -half);
    return make_high(false, (uint64_t)(interpolate(&rsq[e & 1], fraction) >> 36), -half - 1);
}
