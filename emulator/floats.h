/*
 * Floating-point encodings and exact roundings between them.
 *
 * Narrow arithmetic is done in double, rounded to odd where double is not exact: a result that
 * carries its inexactness in the last bit can be rounded once more to any narrower format without
 * the error of rounding twice.
 */
#ifndef EMULATOR_FLOATS_H
#define EMULATOR_FLOATS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "program.h"

#define NAN_F32 0x7fffffffu
#define NAN_F16 0x7fffu

static inline float float_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of_float(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline double double_of(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof d);
    return d;
}

static inline uint64_t bits_of_double(double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof bits);
    return bits;
}

/* Subnormals become zeros of their sign. */
static inline uint32_t flush32(uint32_t bits)
{
    return bits & 0x7f800000 ? bits : bits & 0x80000000;
}

static inline uint16_t flush16(uint16_t bits)
{
    return bits & 0x7c00 ? bits : bits & 0x8000;
}

static inline bool is_nan32(uint32_t bits)
{
    return (bits & 0x7fffffff) > 0x7f800000;
}

static inline bool is_nan16(uint32_t bits)
{
    return (bits & 0x7fff) > 0x7c00;
}

static inline bool is_nan_bf16(uint32_t bits)
{
    return (bits & 0x7fff) > 0x7f80;
}

/* An IEEE-like format: sign, exponent field, mantissa field; the top exponent is Inf and NaN. */
struct format {
    unsigned exponent, mantissa;
};

extern const struct format format_f16, format_bf16, format_f32, format_f64;
extern const struct format format_e5m2, format_e4m3;

/* +-magnitude * 2^scale in the format; sticky says that a little more was there. */
uint64_t format_pack(struct format f, bool negative, uint64_t magnitude, int scale, bool sticky,
                     enum rounding rounding);

/* A double (rounded to odd, or exact) in the format; NaN gives all ones below the sign. */
uint64_t format_round(struct format f, double value, enum rounding rounding);

/* The exact value of an encoding, NaN and infinities included. */
double format_value(struct format f, uint64_t bits);

static inline double half_value(uint16_t bits)
{
    return format_value(format_f16, bits);
}

static inline float bf16_value(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

/* f32 to nearest even, the common case, in a few steps. */
static inline uint32_t half_of_f32(uint32_t v)
{
    const uint32_t sign = v >> 16 & 0x8000;
    uint32_t m = v & 0x7fffffff;

    if (m > 0x7f800000)
        return NAN_F16;
    if (m >= 0x47800000)
        return sign | 0x7c00;
    if (m < 0x38800000)         /* subnormal: the sum's last bit is worth 2^-24 */
        return sign | (bits_of_float(float_of(m) + 0.5f) - 0x3f000000);
    m += 0xfff + (m >> 13 & 1);
    return sign | (m - 0x38000000) >> 13;
}

static inline uint32_t bf16_of_f32(uint32_t v)
{
    return is_nan32(v) ? NAN_F16 : (v + 0x7fff + (v >> 16 & 1)) >> 16;
}

/* Sum, quotient, root in double, rounded to odd. */
double odd_add(double a, double b);
double odd_div(double a, double b);
double odd_sqrt(double a);

/* Narrow floats of one byte. They saturate; NaN is 7f. */
uint8_t e4m3_of(double value);
uint8_t e5m2_of(double value);
uint16_t half_of_e4m3(uint8_t bits);
uint16_t half_of_e5m2(uint8_t bits);

#endif
