#include "floats.h"

#include <math.h>

const struct format format_f16 = { 5, 10 }, format_bf16 = { 8, 7 }, format_f32 = { 8, 23 },
                    format_f64 = { 11, 52 }, format_e5m2 = { 5, 2 }, format_e4m3 = { 4, 3 };

uint64_t format_pack(struct format f, bool negative, uint64_t magnitude, int scale, bool sticky,
                     enum rounding rounding)
{
    const uint64_t sign = (uint64_t)negative << (f.exponent + f.mantissa);
    const uint64_t inf = ((UINT64_C(1) << f.exponent) - 1) << f.mantissa;
    const int bias = (1 << (f.exponent - 1)) - 1, least = 1 - bias;

    if (!magnitude)
        return sign;
    const unsigned room = (unsigned)__builtin_clzll(magnitude);
    magnitude <<= room;
    scale -= (int)room;
    const int exponent = scale + 63;            /* of the leading bit */
    const int quantum = (exponent > least ? exponent : least) - (int)f.mantissa;
    const int drop = quantum - scale;           /* bits to lose: at least 63 - mantissa > 0 */

    uint64_t kept, lost, half;
    if (drop > 64) {
        kept = 0;
        lost = 1;
        half = 2;
    } else if (drop == 64) {
        kept = 0;
        lost = magnitude >> 1 | (magnitude & 1);
        half = UINT64_C(1) << 62;
    } else {
        kept = magnitude >> drop;
        lost = magnitude & ((UINT64_C(1) << drop) - 1);
        half = UINT64_C(1) << (drop - 1);
    }
    const bool inexact = lost || sticky;
    bool up = false;
    switch (rounding) {
    case RND_RZ: case RND_RZI:
        break;
    case RND_RM: case RND_RMI:
        up = negative && inexact;
        break;
    case RND_RP: case RND_RPI:
        up = !negative && inexact;
        break;
    case RND_RNA:
        up = lost >= half;
        break;
    default:
        up = lost > half || (lost == half && (sticky || (kept & 1)));
        break;
    }
    kept += up;

    /* kept has the hidden bit, which adds one to the exponent field; so does a carry. */
    uint64_t bits = kept;
    if (exponent > least) {
        if (exponent - least + 1 > (1 << f.exponent))
            bits = inf;
        else
            bits += (uint64_t)(exponent - least) << f.mantissa;
    }
    if (bits >= inf) {
        const bool finite = rounding == RND_RZ || (rounding == RND_RM && !negative) ||
                            (rounding == RND_RP && negative);
        bits = finite ? inf - 1 : inf;
    }
    return sign | bits;
}

uint64_t format_round(struct format f, double value, enum rounding rounding)
{
    const uint64_t bits = bits_of_double(value), fraction = bits & ((UINT64_C(1) << 52) - 1);
    const bool negative = bits >> 63;
    const int exponent = (int)(bits >> 52 & 0x7ff);

    if (exponent == 0x7ff) {
        const uint64_t all = (UINT64_C(1) << (f.exponent + f.mantissa)) - 1;
        if (fraction)
            return all;
        const uint64_t inf = all >> f.mantissa << f.mantissa;
        return inf | (uint64_t)negative << (f.exponent + f.mantissa);
    }
    if (!exponent)
        return format_pack(f, negative, fraction, -1074, false, rounding);
    return format_pack(f, negative, fraction | UINT64_C(1) << 52, exponent - 1075, false, rounding);
}

double format_value(struct format f, uint64_t bits)
{
    const uint64_t fraction = bits & ((UINT64_C(1) << f.mantissa) - 1);
    const unsigned top = (1u << f.exponent) - 1;
    const unsigned exponent = bits >> f.mantissa & top;
    const uint64_t sign = (bits >> (f.exponent + f.mantissa) & 1) << 63;
    const int bias = (1 << (f.exponent - 1)) - 1;

    if (f.exponent == 11)
        return double_of(bits);
    if (exponent == top)
        return double_of(sign | UINT64_C(0x7ff) << 52 | fraction << (52 - f.mantissa));
    if (exponent)
        return double_of(sign | (uint64_t)((int)exponent - bias + 1023) << 52 |
                         fraction << (52 - f.mantissa));
    const int quantum = 1 - bias - (int)f.mantissa;
    const double magnitude = (double)fraction * double_of((uint64_t)(quantum + 1023) << 52);
    return double_of(bits_of_double(magnitude) | sign);
}

/* ---- round to odd ---- */

/* value is rounded to nearest; error has the sign of what was lost. */
static double to_odd(double value, double error)
{
    uint64_t bits = bits_of_double(value);

    if (error == 0 || value != value || isinf(value) || (bits & 1))
        return value;
    /* The neighbour on the side of the exact value has an odd last bit. */
    const bool outward = (error > 0) == (value > 0) || value == 0;
    bits = outward ? bits + 1 : bits - 1;
    return double_of(bits);
}

double odd_add(double a, double b)
{
    const double sum = a + b;
    const double bb = sum - a;
    const double error = (a - (sum - bb)) + (b - bb);

    return isinf(sum) ? sum : to_odd(sum, error);
}

double odd_div(double a, double b)
{
    const double q = a / b;

    if (q == 0 || isinf(q) || q != q || isinf(b))
        return q;
    const double rest = fma(-q, b, a);          /* exact */
    return to_odd(q, b > 0 ? rest : -rest);
}

double odd_sqrt(double a)
{
    const double r = sqrt(a);

    if (!(a > 0) || isinf(a))
        return r;
    return to_odd(r, fma(-r, r, a));
}

/* ---- one byte ---- */

uint8_t e4m3_of(double value)
{
    if (value != value)
        return 0x7f;
    const double magnitude = fabs(value);
    const unsigned sign = value < 0 ? 0x80 : 0;
    if (magnitude >= 448)
        return (uint8_t)(sign | 0x7e);
    if (magnitude >= 256)       /* the top exponent holds numbers too, in steps of 32 */
        return (uint8_t)(sign | (0x70 + (unsigned)nearbyint(magnitude / 32)));
    return (uint8_t)format_round(format_e4m3, value, RND_RN);
}

uint8_t e5m2_of(double value)
{
    if (value != value)
        return 0x7f;
    if (fabs(value) >= 57344)
        return value < 0 ? 0xfb : 0x7b;
    return (uint8_t)format_round(format_e5m2, value, RND_RN);
}

uint16_t half_of_e4m3(uint8_t bits)
{
    const unsigned magnitude = bits & 0x7f;
    const uint16_t sign = (uint16_t)((bits & 0x80u) << 8);

    if (magnitude == 0x7f)
        return NAN_F16;
    if (magnitude >= 8)                         /* exponents differ by 8 in the bias */
        return (uint16_t)(sign | ((magnitude << 7) + (8u << 10)));
    return (uint16_t)(sign | (uint16_t)format_round(format_f16, magnitude * 0x1p-9, RND_RN));
}

uint16_t half_of_e5m2(uint8_t bits)
{
    return (bits & 0x7f) > 0x7c ? NAN_F16 : (uint16_t)(bits << 8);
}
