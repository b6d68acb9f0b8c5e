/* What the two AVX2 steps share: eight accumulators at a time. */
#ifndef EMULATOR_TENSOR_LANES_H
#define EMULATOR_TENSOR_LANES_H

#include <immintrin.h>

#include "tensor.h"

#define AVX2 __attribute__((target("avx2,f16c"), noinline))
#define AVX2_INLINE static inline __attribute__((target("avx2,f16c"), always_inline))

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

#endif
