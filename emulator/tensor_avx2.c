/* The fused step on integers for eight columns at a time, AVX2 and F16C. It takes any exponents;
 * tensor_floats.c is twice as fast where they are moderate. Bits are those of tensor_dot(). */
#include "tensor.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "tensor_lanes.h"

struct shape {
    unsigned k;
    unsigned chunk;         /* products that two int32 sums hold */
    int fraction;
    bool half;              /* f16 accumulator */
    bool short_f32;         /* f32 result of 13 fraction bits */
};

/* |sum| < 2^34 as two times four doubles, exact. */
struct wide {
    __m256d low, high;
};

AVX2_INLINE struct wide widen(__m256i v)
{
    return (struct wide){_mm256_cvtepi32_pd(_mm256_castsi256_si128(v)),
                         _mm256_cvtepi32_pd(_mm256_extracti128_si256(v, 1))};
}

AVX2_INLINE struct wide add_wide(struct wide x, struct wide y)
{
    return (struct wide){_mm256_add_pd(x.low, y.low), _mm256_add_pd(x.high, y.high)};
}

/* 2^e for int32 e within the normal doubles. */
AVX2_INLINE __m256d power(__m128i e)
{
    const __m256i biased = _mm256_add_epi64(_mm256_cvtepi32_epi64(e), _mm256_set1_epi64x(1023));

    return _mm256_castsi256_pd(_mm256_slli_epi64(biased, 52));
}

AVX2_INLINE __m256 join(__m128 low, __m128 high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

/* Doubles to f32 toward zero; beyond the range infinity, not the largest number; never -0. */
AVX2_INLINE __m256i to_f32(struct wide v, bool short_f32)
{
    const __m256d limit = _mm256_set1_pd(0x1p128), sign = _mm256_set1_pd(-0.0);
    const __m256d over_low = _mm256_cmp_pd(_mm256_andnot_pd(sign, v.low), limit, _CMP_GE_OQ);
    const __m256d over_high = _mm256_cmp_pd(_mm256_andnot_pd(sign, v.high), limit, _CMP_GE_OQ);
    __m256 r = join(_mm256_cvtpd_ps(v.low), _mm256_cvtpd_ps(v.high));

    if (_mm256_movemask_pd(_mm256_or_pd(over_low, over_high))) {
        const __m256d inf = _mm256_set1_pd(__builtin_inf());
        const __m256d low = _mm256_blendv_pd(v.low, _mm256_or_pd(_mm256_and_pd(v.low, sign), inf),
                                             over_low);
        const __m256d high = _mm256_blendv_pd(v.high,
                                              _mm256_or_pd(_mm256_and_pd(v.high, sign), inf),
                                              over_high);

        r = join(_mm256_cvtpd_ps(low), _mm256_cvtpd_ps(high));
    }
    if (short_f32)
        r = _mm256_and_ps(r, _mm256_castsi256_ps(_mm256_set1_epi32(~0x3ff)));
    r = _mm256_and_ps(r, _mm256_cmp_ps(r, _mm256_setzero_ps(), _CMP_NEQ_UQ));
    return _mm256_castps_si256(r);
}

/* Doubles to f16, nearest even: first to f32 with the lost bits or-ed into the lowest, which keeps
 * every tie apart, then by the hardware conversion. */
AVX2_INLINE __m256i to_f16(struct wide v)
{
    const __m128 low = _mm256_cvtpd_ps(v.low), high = _mm256_cvtpd_ps(v.high);
    const __m256d lost_low = _mm256_cmp_pd(_mm256_cvtps_pd(low), v.low, _CMP_NEQ_UQ);
    const __m256d lost_high = _mm256_cmp_pd(_mm256_cvtps_pd(high), v.high, _CMP_NEQ_UQ);
    const __m256 lost = _mm256_shuffle_ps(_mm256_castpd_ps(lost_low), _mm256_castpd_ps(lost_high),
                                          _MM_SHUFFLE(2, 0, 2, 0));
    const __m256i sticky = _mm256_srli_epi32(
        _mm256_permute4x64_epi64(_mm256_castps_si256(lost), _MM_SHUFFLE(3, 1, 2, 0)), 31);
    const __m256 r = _mm256_castsi256_ps(
        _mm256_or_si256(_mm256_castps_si256(join(low, high)), sticky));
    const __m256i h = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(r, _MM_FROUND_TO_NEAREST_INT));
    const __m256i magnitude = _mm256_and_si256(h, _mm256_set1_epi32(0x7fff));

    return _mm256_andnot_si256(_mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256()), h);
}

/* One row of A against eight rows of B. Returns the lanes whose accumulator is not finite. */
AVX2_INLINE unsigned step8(const struct shape s, const uint32_t *sa, const int32_t *ea,
                           const uint32_t *sb, const int32_t *eb, bool keep, uint32_t *d)
{
    const int up = s.fraction - (s.half ? 10 : 23);
    __m256i e = _mm256_set1_epi32(s.half ? -21 : -133), even, odd;
    struct accumulators c = {.odd = _mm256_setzero_si256()};
    struct wide sum;
    __m256d scale_low, scale_high;

    if (keep) {
        c = decode_c(_mm256_loadu_si256((const __m256i *)d), s.half);
        e = _mm256_max_epi32(e, c.exp);
    }
#pragma GCC unroll 16
    for (unsigned i = 0; i < s.k; i++)
        e = _mm256_max_epi32(e, _mm256_add_epi32(
            _mm256_set1_epi32(ea[i]), _mm256_load_si256((const __m256i *)(eb + 8 * i))));
    even = _mm256_setzero_si256();
    odd = even;
    if (keep) {
        const __m256i away = _mm256_sub_epi32(e, c.exp);
        const __m256i q = up >= 0
            ? _mm256_srlv_epi32(_mm256_slli_epi32(c.magnitude, up), away)
            : _mm256_srlv_epi32(c.magnitude, _mm256_add_epi32(away, _mm256_set1_epi32(-up)));

        odd = _mm256_sub_epi32(_mm256_xor_si256(q, c.sign), c.sign);
    }
    sum = widen(even);
    for (unsigned first = 0; first < s.k; first += s.chunk) {
#pragma GCC unroll 16
        for (unsigned i = first; i < first + s.chunk; i++) {
            const __m256i exp = _mm256_add_epi32(
                _mm256_set1_epi32(ea[i]), _mm256_load_si256((const __m256i *)(eb + 8 * i)));
            const __m256i p = _mm256_madd_epi16(
                _mm256_set1_epi32((int)sa[i]), _mm256_load_si256((const __m256i *)(sb + 8 * i)));
            const __m256i q = _mm256_srlv_epi32(_mm256_abs_epi32(p), _mm256_sub_epi32(e, exp));

            if (i & 1)
                odd = _mm256_add_epi32(odd, _mm256_sign_epi32(q, p));
            else
                even = _mm256_add_epi32(even, _mm256_sign_epi32(q, p));
        }
        sum = add_wide(sum, add_wide(widen(even), widen(odd)));
        even = odd = _mm256_setzero_si256();
    }
    e = _mm256_sub_epi32(e, _mm256_set1_epi32(s.fraction));
    scale_low = power(_mm256_castsi256_si128(e));
    scale_high = power(_mm256_extracti128_si256(e, 1));
    sum.low = _mm256_mul_pd(sum.low, scale_low);
    sum.high = _mm256_mul_pd(sum.high, scale_high);
    _mm256_storeu_si256((__m256i *)d, s.half ? to_f16(sum) : to_f32(sum, s.short_f32));
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(c.odd));
}

AVX2_INLINE void step_tile(const struct shape s, const struct tensor_kind *kind,
                           const struct tensor_tile *a, const struct tensor_tile *b, bool keep,
                           uint32_t *d, unsigned pitch)
{
    for (unsigned n = 0; n < b->rows; n += 8) {
        const uint32_t *sb = b->sig + (size_t)n * s.k;
        const int32_t *eb = b->exp + (size_t)n * s.k;
        unsigned columns = 0;

        if (b->any_special)
            for (unsigned i = 0; i < 8; i++)
                columns |= (unsigned)b->special[n + i] << i;
        for (unsigned m = 0; m < a->rows; m++) {
            uint32_t *const at = d + (size_t)m * pitch + n;
            uint32_t old[8];
            unsigned lanes = a->special[m] ? 0xff : columns;

            memcpy(old, at, sizeof old);
            lanes |= step8(s, a->sig + (size_t)m * s.k, a->exp + (size_t)m * s.k, sb, eb, keep, at);
            if (lanes)
                patch(kind, a, m, b, n, lanes, old, keep, at);
        }
    }
}

AVX2 static void step_k16_f32(const struct tensor_kind *kind, const struct tensor_tile *a,
                              const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    if (keep)
        step_tile((struct shape){16, 16, 25, false, false}, kind, a, b, true, d, pitch);
    else
        step_tile((struct shape){16, 16, 25, false, false}, kind, a, b, false, d, pitch);
}

AVX2 static void step_k16_f16(const struct tensor_kind *kind, const struct tensor_tile *a,
                              const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    step_tile((struct shape){16, 16, 25, true, false}, kind, a, b, keep, d, pitch);
}

AVX2 static void step_k8_f32(const struct tensor_kind *kind, const struct tensor_tile *a,
                             const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    step_tile((struct shape){8, 8, 25, false, false}, kind, a, b, keep, d, pitch);
}

AVX2 static void step_k32_short(const struct tensor_kind *kind, const struct tensor_tile *a,
                                const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    if (kind->d == TENSOR_TO_F16)
        step_tile((struct shape){32, 32, 13, true, false}, kind, a, b, keep, d, pitch);
    else
        step_tile((struct shape){32, 32, 13, false, true}, kind, a, b, keep, d, pitch);
}

AVX2 static void step_k32_long(const struct tensor_kind *kind, const struct tensor_tile *a,
                               const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    if (kind->d == TENSOR_TO_F16)
        step_tile((struct shape){32, 16, 25, true, false}, kind, a, b, keep, d, pitch);
    else
        step_tile((struct shape){32, 16, 25, false, false}, kind, a, b, keep, d, pitch);
}

/* ---- integers ------------------------------------------------------------------------------ */

AVX2_INLINE __m256i extend(const uint8_t *row, bool is_signed)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)row);

    return is_signed ? _mm256_cvtepi8_epi16(v) : _mm256_cvtepu8_epi16(v);
}

AVX2_INLINE int32_t dot32(const __m256i a[2], const __m256i b[2])
{
    const __m256i s = _mm256_add_epi32(_mm256_madd_epi16(a[0], b[0]),
                                       _mm256_madd_epi16(a[1], b[1]));
    __m128i v = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));

    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, _MM_SHUFFLE(1, 0, 3, 2)));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(v);
}

AVX2 static void step_int8(const struct tensor_kind *kind, const struct tensor_tile *a,
                           const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    for (unsigned n = 0; n < b->rows; n++) {
        const __m256i y[2] = {extend(b->raw[n], kind->b == TENSOR_S8),
                              extend(b->raw[n] + 16, kind->b == TENSOR_S8)};

        for (unsigned m = 0; m < a->rows; m++) {
            const __m256i x[2] = {extend(a->raw[m], kind->a == TENSOR_S8),
                                  extend(a->raw[m] + 16, kind->a == TENSOR_S8)};
            uint32_t *const at = d + (size_t)m * pitch + n;
            int64_t sum = (int64_t)(keep ? (int32_t)*at : 0) + dot32(x, y);

            if (kind->saturate)
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            *at = (uint32_t)sum;
        }
    }
}

/* ---- choice -------------------------------------------------------------------------------- */

typedef void step_fn(const struct tensor_kind *kind, const struct tensor_tile *a,
                     const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch);

static step_fn *choose(const struct tensor_kind *kind)
{
    if (kind->d == TENSOR_TO_S32)
        return kind->a == TENSOR_B1 ? NULL : step_int8;
    switch (kind->k) {
    case 8:
        return step_k8_f32;
    case 16:
        return kind->d == TENSOR_TO_F16 ? step_k16_f16 : step_k16_f32;
    case 32:
        return kind->fraction == 13 ? step_k32_short : step_k32_long;
    default:
        return NULL;
    }
}

bool tensor_step_avx2(const struct tensor_kind *kind, struct tensor_tile *a,
                      struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    step_fn *const step = choose(kind);
    unsigned saved;

    if (!step || !have_avx2())
        return false;
    if (kind->d != TENSOR_TO_S32) {
        tensor_decode_integers(kind, a);
        tensor_decode_integers(kind, b);
    }
    saved = _mm_getcsr();
    _mm_setcsr(TOWARD_ZERO);
    step(kind, a, b, keep, d, pitch);
    _mm_setcsr(saved);
    return true;
}

#else

bool tensor_step_avx2(const struct tensor_kind *kind, struct tensor_tile *a,
                      struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    (void)kind, (void)a, (void)b, (void)keep, (void)d, (void)pitch;
    return false;
}

#endif
