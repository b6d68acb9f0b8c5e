/* What the two AVX2 steps share: when they run and how they round, eight accumulators at a time. */
#ifndef EMULATOR_TENSOR_LANES_H
#define EMULATOR_TENSOR_LANES_H

#include <immintrin.h>

#include "tensor.h"

#define AVX2 __attribute__((target("avx2,f16c"), noinline))
#define AVX2_INLINE static inline __attribute__((target("avx2,f16c"), always_inline))

#define TOWARD_ZERO 0x7f80u     /* MXCSR: round toward zero, keep subnormals, mask exceptions */

/* Whatever has AVX2 and FMA has F16C, which not every compiler can ask for. */
static inline bool have_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

struct accumulators {
    __m256i magnitude, sign, exp;   /* sign: all ones or 0 */
    __m256i odd;                    /* all ones: infinity or NaN */
};

AVX2_INLINE struct accumulators decode_c(__m256i code, bool half)
{
    const int mantissa = half ? 10 : 23, field_max = half ? 31 : 255, bias = half ? 15 : 127;
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi32(1);
    const __m256i mant = _mm256_and_si256(code, _mm256_set1_epi32((1 << mantissa) - 1));
    const __m256i field = _mm256_and_si256(_mm256_srli_epi32(code, mantissa),
                                           _mm256_set1_epi32(field_max));
    const __m256i hidden = _mm256_min_epu32(field, one);
    const __m256i exp = _mm256_sub_epi32(_mm256_max_epi32(field, one), _mm256_set1_epi32(bias));
    struct accumulators c;

    c.magnitude = _mm256_or_si256(mant, _mm256_slli_epi32(hidden, mantissa));
    c.sign = _mm256_srai_epi32(half ? _mm256_slli_epi32(code, 16) : code, 31);
    c.exp = _mm256_blendv_epi8(exp, _mm256_set1_epi32(TENSOR_NO_EXPONENT),
                               _mm256_cmpeq_epi32(c.magnitude, zero));
    c.odd = _mm256_cmpeq_epi32(field, _mm256_set1_epi32(field_max));
    return c;
}

/* The lanes that need it go element by element through the plain model; old: d before the step. */
static inline void patch(const struct tensor_kind *kind, const struct tensor_tile *a, unsigned m,
                         const struct tensor_tile *b, unsigned n, unsigned lanes,
                         const uint32_t *old, bool keep, uint32_t *d)
{
    for (unsigned i = 0; i < 8; i++)
        if (lanes >> i & 1)
            d[i] = tensor_element(kind, a, m, b, n + i, keep ? old[i] : 0);
}

#endif
