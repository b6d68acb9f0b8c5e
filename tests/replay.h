/*
 * One fused step of a tensor core, written down from docs/numerics.md as it reads and without the
 * emulator: what tests hold kernels and the emulator against. Slow and plain.
 *
 *     terms:  every product that is not zero, and the old accumulator if it is not zero
 *     E:      the largest exponent among them, at least -133 (f32 result) or -21 (f16 result)
 *     sum:    each magnitude cut to F fraction bits below 2^E, added exactly
 *     result: one conversion, f32 toward zero, f16 to nearest even; too large is infinite, a NaN is
 *             7fffffff or 7fff, nothing is -0
 *
 * The packed fp4 kinds first add groups of 16 products exactly and multiply the sum by two factors;
 * there every group counts for E, the accumulator too.
 */
#ifndef TESTS_REPLAY_H
#define TESTS_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

enum replay_format {
    REPLAY_BF16, REPLAY_F16, REPLAY_TF32, REPLAY_F32, REPLAY_E4M3, REPLAY_E5M2, REPLAY_E3M2,
    REPLAY_E2M3, REPLAY_E2M1, REPLAY_UE8M0, REPLAY_UE4M3, REPLAY_S8, REPLAY_U8,
};

enum replay_class { REPLAY_ZERO, REPLAY_FINITE, REPLAY_INFINITE, REPLAY_NAN };

/* (-1)^negative * significand * 2^(exponent - fraction) */
struct replay_number {
    enum replay_class class;
    bool negative;
    int exponent, fraction;
    uint64_t significand;
};

/* What one instruction adds. */
struct replay_step {
    enum replay_format a, b;
    unsigned k;                 /* products in one step */
    int fraction;               /* F: 25, wgmma's fp8 13, packed fp4 35 */
    int result_bits;            /* fraction bits of an f32 result: 23, wgmma's fp8 13 */
    bool f16;                   /* the accumulator is f16 */
    bool packed;                /* mxf4, mxf4nvf4: groups of 16 */
    enum replay_format scale;   /* of the factors, if block is not 0 */
    unsigned block;             /* elements of K that share a factor */
};

static inline struct replay_number replay_decode(enum replay_format format, uint32_t code)
{
    /* exponent bits, fraction bits, bias, all ones mean infinity and NaN */
    static const struct { int exponent, fraction, bias; bool special; } formats[] = {
        [REPLAY_BF16] = { 8, 7, 127, true }, [REPLAY_F16] = { 5, 10, 15, true },
        [REPLAY_TF32] = { 8, 10, 127, true }, [REPLAY_F32] = { 8, 23, 127, true },
        [REPLAY_E4M3] = { 4, 3, 7, false }, [REPLAY_E5M2] = { 5, 2, 15, true },
        [REPLAY_E3M2] = { 3, 2, 3, false }, [REPLAY_E2M3] = { 2, 3, 1, false },
        [REPLAY_E2M1] = { 2, 1, 1, false }, [REPLAY_UE4M3] = { 4, 3, 7, false },
    };
    struct replay_number x = { .class = REPLAY_FINITE };

    if (format == REPLAY_UE8M0) {       /* a bare exponent: no zero, no sign */
        x.class = code == 0xff ? REPLAY_NAN : REPLAY_FINITE;
        x.exponent = (int)code - 127;
        x.significand = 1;
        return x;
    }
    if (format == REPLAY_TF32)
        code >>= 13;                    /* the low bits are not looked at */
    if (format == REPLAY_UE4M3)
        code &= 0x7f;

    const int m = formats[format].fraction, e = formats[format].exponent;
    const int field = (int)(code >> m & ((1u << e) - 1));
    const uint32_t low = code & ((1u << m) - 1);

    x.negative = code >> (m + e) & 1;
    x.fraction = m;
    x.exponent = (field ? field : 1) - formats[format].bias;
    x.significand = low | (field ? UINT32_C(1) << m : 0);
    if (x.significand == 0)
        x.class = REPLAY_ZERO;
    if (formats[format].special && field == (1 << e) - 1)
        x.class = low ? REPLAY_NAN : REPLAY_INFINITE;
    if ((format == REPLAY_E4M3 || format == REPLAY_UE4M3) && (code & 0x7f) == 0x7f)
        x.class = REPLAY_NAN;
    return x;
}

/* ---- a sum of terms -------------------------------------------------------------------------- */

struct replay_term {
    bool negative;
    int exponent, fraction;     /* magnitude * 2^(exponent - fraction) */
    uint64_t magnitude;
};

struct replay_sum {
    struct replay_term terms[80];
    unsigned count;
    bool nan, up, down;         /* infinities */
};

static inline void replay_add(struct replay_sum *s, bool negative, int exponent, int fraction,
                              uint64_t magnitude)
{
    s->terms[s->count++] = (struct replay_term){ negative, exponent, fraction, magnitude };
}

static inline void replay_infinity(struct replay_sum *s, bool negative)
{
    *(negative ? &s->down : &s->up) = true;
}

/* A sum that holds the old accumulator. */
static inline struct replay_sum replay_start(enum replay_format format, uint32_t c,
                                             bool zero_counts)
{
    const struct replay_number old = replay_decode(format, c);
    struct replay_sum s = { .count = 0 };

    if (old.class == REPLAY_NAN)
        s.nan = true;
    else if (old.class == REPLAY_INFINITE)
        replay_infinity(&s, old.negative);
    else if (old.class == REPLAY_FINITE || zero_counts)
        replay_add(&s, old.negative, old.exponent, old.fraction, old.significand);
    return s;
}

static inline uint32_t replay_to_f32(int64_t sum, int e0, int bits)
{
    const uint32_t sign = sum < 0 ? UINT32_C(1) << 31 : 0;
    const uint64_t v = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
    int top = 63, e;
    uint64_t q;

    if (v == 0)
        return 0;
    while (!(v >> top & 1))
        top--;
    e = top + e0;
    if (e >= 128)
        return sign | 0x7f800000;
    if (e < -126)
        e = -126;
    const int shift = e0 - (e - bits);

    q = shift >= 0 ? v << shift : shift > -64 ? v >> -shift : 0;        /* toward zero */
    q <<= 23 - bits;
    if (q == 0)
        return 0;
    return sign | (q >> 23 ? (uint32_t)(e + 127) << 23 | (uint32_t)(q & 0x7fffff) : (uint32_t)q);
}

static inline uint32_t replay_to_f16(int64_t sum, int e0)
{
    const uint32_t sign = sum < 0 ? 0x8000 : 0;
    const uint64_t v = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
    int top = 63, e;
    uint64_t q;

    if (v == 0)
        return 0;
    while (!(v >> top & 1))
        top--;
    e = top + e0;
    if (e < -14)
        e = -14;
    if (e > 16)
        return sign | 0x7c00;
    const int shift = e0 - (e - 10);

    if (shift >= 0) {
        q = v << shift;
    } else if (shift < -63) {
        q = 0;
    } else {                            /* nearest, ties to even */
        const uint64_t rest = v & ((UINT64_C(1) << -shift) - 1), half = UINT64_C(1) << (-shift - 1);

        q = v >> -shift;
        q += rest > half || (rest == half && (q & 1));
    }
    if (q == 0)
        return 0;
    if (q == 2048) {
        q = 1024;
        e++;
    }
    if (e > 15)
        return sign | 0x7c00;
    return sign | (q >= 1024 ? (uint32_t)(e + 15) << 10 | (uint32_t)(q & 0x3ff) : (uint32_t)q);
}

static inline uint32_t replay_finish(const struct replay_step *step, const struct replay_sum *s,
                                     int least)
{
    int e = least;
    int64_t sum = 0;

    if (s->nan || (s->up && s->down))
        return step->f16 ? 0x7fff : 0x7fffffff;
    if (s->up || s->down)
        return (step->f16 ? 0x7c00 : 0x7f800000) |
               (s->down ? step->f16 ? UINT32_C(0x8000) : UINT32_C(1) << 31 : 0);
    for (unsigned i = 0; i < s->count; i++)
        e = s->terms[i].exponent > e ? s->terms[i].exponent : e;
    for (unsigned i = 0; i < s->count; i++) {
        const struct replay_term *t = &s->terms[i];
        const int shift = step->fraction - t->fraction - (e - t->exponent);
        const uint64_t q = shift >= 0 ? t->magnitude << shift
                         : shift > -64 ? t->magnitude >> -shift : 0;

        sum += t->negative ? -(int64_t)q : (int64_t)q;
    }
    return step->f16 ? replay_to_f16(sum, e - step->fraction)
                     : replay_to_f32(sum, e - step->fraction, step->result_bits);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Every product is a term; a scaled one has both factors' exponents added to its own. */
static inline uint32_t replay_products(const struct replay_step *step, const uint32_t *a,
                                       const uint32_t *b, uint32_t c, uint32_t sa, uint32_t sb)
{
    struct replay_sum s = replay_start(step->f16 ? REPLAY_F16 : REPLAY_F32, c, false);
    int scale = 0;

    if (step->block) {
        const struct replay_number x = replay_decode(step->scale, sa);
        const struct replay_number y = replay_decode(step->scale, sb);

        s.nan |= x.class == REPLAY_NAN || y.class == REPLAY_NAN;
        scale = x.exponent + y.exponent;
    }
    for (unsigned i = 0; i < step->k; i++) {
        const struct replay_number x = replay_decode(step->a, a[i]);
        const struct replay_number y = replay_decode(step->b, b[i]);

        if (x.class == REPLAY_NAN || y.class == REPLAY_NAN)
            s.nan = true;
        else if (x.class == REPLAY_INFINITE || y.class == REPLAY_INFINITE) {
            if (x.class == REPLAY_ZERO || y.class == REPLAY_ZERO)
                s.nan = true;
            else
                replay_infinity(&s, x.negative != y.negative);
        } else if (x.class == REPLAY_FINITE && y.class == REPLAY_FINITE) {
            replay_add(&s, x.negative != y.negative, x.exponent + y.exponent + scale,
                       x.fraction + y.fraction, x.significand * y.significand);
        }
    }
    return replay_finish(step, &s, step->f16 ? -21 : -133);
}

/* Groups of 16 exact products, each times its two factors. */
static inline uint32_t replay_groups(const struct replay_step *step, const uint32_t *a,
                                     const uint32_t *b, uint32_t c, const uint32_t *sa,
                                     const uint32_t *sb)
{
    struct replay_sum s = replay_start(REPLAY_F32, c, true);    /* a zero has exponent -126 */

    for (unsigned g = 0; g < step->k; g += 16) {
        const struct replay_number u = replay_decode(step->scale, sa[g / step->block]);
        const struct replay_number v = replay_decode(step->scale, sb[g / step->block]);
        int64_t quarters = 0;

        s.nan |= u.class == REPLAY_NAN || v.class == REPLAY_NAN;
        for (unsigned i = g; i < g + 16; i++) {
            const struct replay_number x = replay_decode(REPLAY_E2M1, a[i]);
            const struct replay_number y = replay_decode(REPLAY_E2M1, b[i]);
            const int64_t q = (int64_t)(x.significand * y.significand) << (x.exponent + y.exponent);

            quarters += x.negative != y.negative ? -q : q;
        }
        replay_add(&s, quarters < 0, u.exponent + v.exponent, 2 + u.fraction + v.fraction,
                   (uint64_t)(quarters < 0 ? -quarters : quarters) * u.significand * v.significand);
    }
    return replay_finish(step, &s, -1000);
}

/* The accumulator after one instruction. a, b: step->k encodings; sa, sb: a factor per block. */
static inline uint32_t replay_instruction(const struct replay_step *step, const uint32_t *a,
                                          const uint32_t *b, uint32_t c, const uint32_t *sa,
                                          const uint32_t *sb)
{
    return step->packed ? replay_groups(step, a, b, c, sa, sb)
                        : replay_products(step, a, b, c, step->block ? sa[0] : 0,
                                          step->block ? sb[0] : 0);
}

/* s8 and u8: exact; the sum wraps, or is limited once. */
static inline uint32_t replay_integers(enum replay_format fa, enum replay_format fb, unsigned k,
                                       bool saturate, const uint32_t *a, const uint32_t *b,
                                       uint32_t c)
{
    int64_t sum = (int32_t)c;

    for (unsigned i = 0; i < k; i++)
        sum += (fa == REPLAY_S8 ? (int64_t)(int8_t)a[i] : (int64_t)(uint8_t)a[i]) *
               (fb == REPLAY_S8 ? (int64_t)(int8_t)b[i] : (int64_t)(uint8_t)b[i]);
    if (saturate)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

/* The step of a pair of types: wgmma's, or tcgen05's unscaled kinds. */
static inline struct replay_step replay_step_of(enum replay_format a, enum replay_format b,
                                                bool f16, bool wgmma)
{
    const bool narrow = a >= REPLAY_E4M3;

    return (struct replay_step){
        .a = a, .b = b, .k = narrow ? 32 : a == REPLAY_TF32 ? 8 : 16, .f16 = f16,
        .fraction = wgmma && narrow ? 13 : 25, .result_bits = wgmma && narrow ? 13 : 23,
    };
}

#endif
