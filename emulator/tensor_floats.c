/* The fused step in f32 arithmetic for sixteen columns at a time, AVX2 and F16C.
 *
 * A product of two operands has at most 22 significant bits, so it is exact in f32; scaled by the
 * power of two 2^(F-E) it is cut toward zero to an integer by the conversion itself. The integers
 * are added exactly (16 of them stay below 2^31) and one conversion toward zero and a scaling
 * give the result. What leaves this frame goes element by element through the plain model:
 * infinities and NaN, sums of 2^31 and more, exponents near the top of f32. */
#include "tensor.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "tensor_lanes.h"

/* Exponents of products: above, no result can overflow f32; below, 2^(F-E) stays in f32. */
enum { HIGHEST = 120, LOWEST = -100 };

/* ---- decoding -------------------------------------------------------------------------------- */

struct eight {
    __m256 value;
    __m256i power;              /* int32 */
    __m256i odd;                /* all ones: infinity or NaN */
};

AVX2_INLINE struct eight finish(__m256 value, __m256i nan, int least)
{
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i field = _mm256_and_si256(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(255));
    const __m256i zero = _mm256_cmpeq_epi32(_mm256_slli_epi32(bits, 1), _mm256_setzero_si256());
    struct eight r;

    r.odd = _mm256_or_si256(nan, _mm256_cmpeq_epi32(field, _mm256_set1_epi32(255)));
    r.value = _mm256_andnot_ps(_mm256_castsi256_ps(r.odd), value);
    r.power = _mm256_max_epi32(_mm256_sub_epi32(field, _mm256_set1_epi32(127)),
                               _mm256_set1_epi32(least));
    r.power = _mm256_blendv_epi8(r.power, _mm256_set1_epi32(TENSOR_NO_EXPONENT),
                                 _mm256_or_si256(zero, r.odd));
    return r;
}

/* Elements 8 * i .. 8 * i + 7 of a row. */
AVX2_INLINE struct eight decode8(enum tensor_format format, const uint8_t *row, unsigned i)
{
    const __m256i none = _mm256_setzero_si256();
    __m128i half, byte;

    switch (format) {
    case TENSOR_BF16:
        half = _mm_loadu_si128((const __m128i *)(row + 16 * i));
        return finish(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16)), none,
                      -126);
    case TENSOR_F16:
        half = _mm_loadu_si128((const __m128i *)(row + 16 * i));
        return finish(_mm256_cvtph_ps(half), none, -14);
    case TENSOR_TF32:
        return finish(_mm256_castsi256_ps(_mm256_and_si256(
            _mm256_loadu_si256((const __m256i *)(row + 32 * i)), _mm256_set1_epi32(~0x1fff))), none,
                      -126);
    default:
        break;
    }
    byte = _mm_loadl_epi64((const __m128i *)(row + 8 * i));
    if (format == TENSOR_E5M2) {
        half = _mm_slli_epi16(_mm_cvtepu8_epi16(byte), 8);
        return finish(_mm256_cvtph_ps(half), none, -14);
    } else {
        /* e4m3 as an f16 of the same fields is 2^8 too small. */
        const __m128i wide = _mm_cvtepi8_epi16(byte);
        const __m256i code = _mm256_and_si256(_mm256_cvtepu8_epi32(byte), _mm256_set1_epi32(0x7f));
        const __m128i magnitude = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x7f)), 7);

        half = _mm_or_si128(magnitude, _mm_and_si128(wide, _mm_set1_epi16((short)0x8000)));
        return finish(_mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f)),
                      _mm256_cmpeq_epi32(code, _mm256_set1_epi32(0x7f)), -6);
    }
}

AVX2_INLINE void transpose8(__m256 r[8])
{
    __m256 t[8], u[8];

#pragma GCC unroll 8
    for (unsigned i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 8
    for (unsigned i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], _MM_SHUFFLE(1, 0, 1, 0));
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], _MM_SHUFFLE(3, 2, 3, 2));
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], _MM_SHUFFLE(1, 0, 1, 0));
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], _MM_SHUFFLE(3, 2, 3, 2));
    }
#pragma GCC unroll 8
    for (unsigned i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}

struct range {
    __m256i low, high;
};

AVX2_INLINE void widen_range(struct range *range, __m256i power)
{
    const __m256i none = _mm256_cmpeq_epi32(power, _mm256_set1_epi32(TENSOR_NO_EXPONENT));

    range->high = _mm256_max_epi32(range->high, power);
    range->low = _mm256_min_epi32(range->low, _mm256_blendv_epi8(power, _mm256_set1_epi32(999),
                                                                 none));
}

AVX2_INLINE void decode_a(enum tensor_format format, unsigned k, struct tensor_tile *tile,
                          struct range *range)
{
    for (unsigned r = 0; r < tile->rows; r++) {
        __m256i odd = _mm256_setzero_si256();

        for (unsigned i = 0; i < k / 8; i++) {
            const struct eight e = decode8(format, tile->raw[r], i);
            const __m256i low = _mm256_and_si256(e.power, _mm256_set1_epi32(0xffff));

            widen_range(range, e.power);
            odd = _mm256_or_si256(odd, e.odd);
            _mm256_storeu_ps(tile->value + (size_t)r * k + 8 * i, e.value);
            _mm256_storeu_si256((__m256i *)(tile->power + (size_t)r * k + 8 * i),
                                _mm256_or_si256(low, _mm256_slli_epi32(low, 16)));
        }
        tile->special[r] = !_mm256_testz_si256(odd, odd);
        tile->any_special |= tile->special[r];
    }
}

AVX2_INLINE void decode_b(enum tensor_format format, unsigned k, struct tensor_tile *tile,
                          struct range *range)
{
    for (unsigned n = 0; n < tile->rows; n += 8) {
        const size_t base = (size_t)(n / 16) * k * 16 + n % 16;
        __m256i odd[8];

#pragma GCC unroll 8
        for (unsigned r = 0; r < 8; r++)
            odd[r] = _mm256_setzero_si256();
        for (unsigned i = 0; i < k / 8; i++) {
            __m256 value[8], power[8];

#pragma GCC unroll 8
            for (unsigned r = 0; r < 8; r++) {
                const struct eight e = decode8(format, tile->raw[n + r], i);

                widen_range(range, e.power);
                odd[r] = _mm256_or_si256(odd[r], e.odd);
                value[r] = e.value;
                power[r] = _mm256_castsi256_ps(e.power);
            }
            transpose8(value);
            transpose8(power);
#pragma GCC unroll 8
            for (unsigned j = 0; j < 8; j++) {
                const size_t at = base + (8 * i + j) * 16;
                const __m256i p = _mm256_castps_si256(power[j]);

                _mm256_storeu_ps(tile->value + at, value[j]);
                _mm_storeu_si128((__m128i *)((uint8_t *)tile->power + 2 * at),
                                 _mm_packs_epi32(_mm256_castsi256_si128(p),
                                                 _mm256_extracti128_si256(p, 1)));
            }
        }
        for (unsigned r = 0; r < 8; r++) {
            tile->special[n + r] = !_mm256_testz_si256(odd[r], odd[r]);
            tile->any_special |= tile->special[n + r];
        }
    }
}

AVX2_INLINE void decode_side(enum tensor_format format, unsigned k, struct tensor_tile *tile,
                             struct range *range)
{
    if (tile->side == TENSOR_A)
        decode_a(format, k, tile, range);
    else
        decode_b(format, k, tile, range);
}

AVX2 static void decode_tile(enum tensor_format format, struct tensor_tile *tile)
{
    struct range range = {_mm256_set1_epi32(999), _mm256_set1_epi32(-999)};
    int32_t low[8], high[8];

    switch (format) {
    case TENSOR_BF16: decode_side(TENSOR_BF16, 16, tile, &range); break;
    case TENSOR_F16:  decode_side(TENSOR_F16, 16, tile, &range); break;
    case TENSOR_TF32: decode_side(TENSOR_TF32, 8, tile, &range); break;
    case TENSOR_E4M3: decode_side(TENSOR_E4M3, 32, tile, &range); break;
    default:          decode_side(TENSOR_E5M2, 32, tile, &range); break;
    }
    _mm256_storeu_si256((__m256i *)low, range.low);
    _mm256_storeu_si256((__m256i *)high, range.high);
    tile->low = 999;
    tile->high = -999;
    for (unsigned i = 0; i < 8; i++) {
        tile->low = low[i] < tile->low ? low[i] : tile->low;
        tile->high = high[i] > tile->high ? high[i] : tile->high;
    }
}

void tensor_decode_floats(const struct tensor_kind *kind, struct tensor_tile *tile)
{
    const enum tensor_format format = tile->side == TENSOR_A ? kind->a : kind->b;
    unsigned saved;

    if (!have_avx2() || format > TENSOR_E5M2)
        return;
    saved = _mm_getcsr();
    _mm_setcsr(TOWARD_ZERO);
    decode_tile(format, tile);
    _mm_setcsr(saved);
    tile->floats = true;
}

/* ---- the step -------------------------------------------------------------------------------- */

struct shape {
    unsigned k;
    int fraction;
    bool half;              /* f16 accumulator */
};

/* 2^e, e between -127 (gives 0) and 127. */
AVX2_INLINE __m256 power2(__m256i e)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
}

AVX2_INLINE __m256i add_watched(__m256i x, __m256i y, __m256i *overflow)
{
    const __m256i s = _mm256_add_epi32(x, y);

    *overflow = _mm256_or_si256(*overflow, _mm256_and_si256(_mm256_xor_si256(x, s),
                                                            _mm256_xor_si256(y, s)));
    return s;
}

/* sum * 2^(e - F) as a result; never -0. */
AVX2_INLINE __m256i convert(const struct shape s, __m256i sum, __m256i e)
{
    const __m256i weight = _mm256_sub_epi32(e, _mm256_set1_epi32(s.fraction));
    __m256 r = _mm256_cvtepi32_ps(sum);

    if (s.half) {
        /* Lost bits go into the lowest one: that keeps every tie of the second rounding apart. */
        const __m256i exact = _mm256_cmpeq_epi32(_mm256_cvttps_epi32(r), sum);
        const __m256i odd = _mm256_andnot_si256(exact, _mm256_set1_epi32(1));
        __m256i h, magnitude;

        r = _mm256_castsi256_ps(_mm256_or_si256(_mm256_castps_si256(r), odd));
        r = _mm256_mul_ps(r, power2(weight));
        h = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(r, _MM_FROUND_TO_NEAREST_INT));
        magnitude = _mm256_and_si256(h, _mm256_set1_epi32(0x7fff));
        return _mm256_andnot_si256(_mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256()), h);
    } else {
        const __m256i first = _mm256_max_epi32(weight, _mm256_set1_epi32(-126));

        r = _mm256_mul_ps(_mm256_mul_ps(r, power2(first)),
                          power2(_mm256_sub_epi32(weight, first)));
        if (s.fraction == 13)
            r = _mm256_and_ps(r, _mm256_castsi256_ps(_mm256_set1_epi32(~0x3ff)));
        r = _mm256_and_ps(r, _mm256_cmp_ps(r, _mm256_setzero_ps(), _CMP_NEQ_UQ));
        return _mm256_castps_si256(r);
    }
}

/* Eight columns of the sixteen: everything after the maximum of the products' exponents.
 * Returns the lanes that need the plain model. */
AVX2_INLINE unsigned columns8(const struct shape s, const float *va, const float *vb,
                              __m128i highest, bool keep, uint32_t *d)
{
    const int up = s.fraction - (s.half ? 10 : 23);
    __m256i e = _mm256_cvtepi16_epi32(highest), sum = _mm256_setzero_si256();
    __m256i bad = _mm256_setzero_si256();
    struct accumulators c;
    __m256 scale;

    if (keep) {
        c = decode_c(_mm256_loadu_si256((const __m256i *)d), s.half);
        e = _mm256_max_epi32(e, c.exp);
    }
    scale = power2(_mm256_min_epi32(_mm256_sub_epi32(_mm256_set1_epi32(s.fraction), e),
                                    _mm256_set1_epi32(127)));
    for (unsigned first = 0; first < s.k; first += 16) {
        __m256i part = _mm256_setzero_si256();

#pragma GCC unroll 8
        for (unsigned i = first; i < first + (s.k < 16 ? s.k : 16); i++) {
            const __m256 p = _mm256_mul_ps(_mm256_broadcast_ss(va + i),
                                           _mm256_loadu_ps(vb + 16 * i));

            part = _mm256_add_epi32(part, _mm256_cvttps_epi32(_mm256_mul_ps(p, scale)));
        }
        sum = s.k <= 16 || s.fraction == 13 ? _mm256_add_epi32(sum, part)
                                            : add_watched(sum, part, &bad);
    }
    if (keep) {
        const __m256i away = _mm256_sub_epi32(e, c.exp);
        const __m256i q = up >= 0
            ? _mm256_srlv_epi32(_mm256_slli_epi32(c.magnitude, up >= 0 ? up : 0), away)
            : _mm256_srlv_epi32(c.magnitude, _mm256_add_epi32(away, _mm256_set1_epi32(-up)));

        sum = add_watched(sum, _mm256_sub_epi32(_mm256_xor_si256(q, c.sign), c.sign), &bad);
        bad = _mm256_or_si256(bad, c.odd);
        if (!s.half)
            bad = _mm256_or_si256(bad, _mm256_cmpgt_epi32(e, _mm256_set1_epi32(HIGHEST)));
    }
    _mm256_storeu_si256((__m256i *)d, convert(s, sum, e));
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(bad));
}

AVX2_INLINE void step_tile(const struct shape s, const struct tensor_kind *kind,
                           const struct tensor_tile *a, const struct tensor_tile *b, bool keep,
                           uint32_t *d, unsigned pitch)
{
    for (unsigned n = 0; n < b->rows; n += 16) {
        const unsigned halves = b->rows - n < 16 ? 1 : 2;
        const float *vb = b->value + (size_t)n * s.k;
        const uint8_t *pb = (const uint8_t *)b->power + 2 * (size_t)n * s.k;
        unsigned columns = 0;

        if (b->any_special)
            for (unsigned i = 0; i < 8 * halves; i++)
                columns |= (unsigned)b->special[n + i] << i;
        for (unsigned m = 0; m < a->rows; m++) {
            const uint32_t *pa = a->power + (size_t)m * s.k;
            const float *va = a->value + (size_t)m * s.k;
            uint32_t *const at = d + (size_t)m * pitch + n;
            const unsigned special = a->special[m] ? 0xffff : columns;
            __m256i e = _mm256_set1_epi16(s.half ? -21 : -133);

#pragma GCC unroll 8
            for (unsigned i = 0; i < s.k; i++)
                e = _mm256_max_epi16(e, _mm256_adds_epi16(
                    _mm256_set1_epi32((int)pa[i]),
                    _mm256_load_si256((const __m256i *)(pb + 32 * i))));
            for (unsigned h = 0; h < halves; h++) {
                uint32_t old[8];
                unsigned lanes = special >> 8 * h & 0xff;

                memcpy(old, at + 8 * h, sizeof old);
                lanes |= columns8(s, va, vb + 8 * h, h ? _mm256_extracti128_si256(e, 1)
                                                       : _mm256_castsi256_si128(e), keep,
                                  at + 8 * h);
                if (lanes)
                    patch(kind, a, m, b, n + 8 * h, lanes, old, keep, at + 8 * h);
            }
        }
    }
}

#define STEP(name, k, fraction, half) \
    AVX2 static void name(const struct tensor_kind *kind, const struct tensor_tile *a, \
                          const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch) \
    { \
        if (keep) \
            step_tile((struct shape){k, fraction, half}, kind, a, b, true, d, pitch); \
        else \
            step_tile((struct shape){k, fraction, half}, kind, a, b, false, d, pitch); \
    }

STEP(step_k8, 8, 25, false)
STEP(step_k16, 16, 25, false)
STEP(step_k16_half, 16, 25, true)
STEP(step_k32, 32, 25, false)
STEP(step_k32_half, 32, 25, true)
STEP(step_k32_short, 32, 13, false)
STEP(step_k32_short_half, 32, 13, true)

typedef void step_fn(const struct tensor_kind *kind, const struct tensor_tile *a,
                     const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch);

static step_fn *choose(const struct tensor_kind *kind)
{
    const bool half = kind->d == TENSOR_TO_F16;

    if (kind->k == 8)
        return step_k8;
    if (kind->k == 16)
        return half ? step_k16_half : step_k16;
    if (kind->fraction == 13)
        return half ? step_k32_short_half : step_k32_short;
    return half ? step_k32_half : step_k32;
}

bool tensor_step_floats(const struct tensor_kind *kind, const struct tensor_tile *a,
                        const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    unsigned saved;

    if (!a->floats || !b->floats || a->low + b->low < LOWEST || a->high + b->high > HIGHEST)
        return false;
    saved = _mm_getcsr();
    _mm_setcsr(TOWARD_ZERO);
    choose(kind)(kind, a, b, keep, d, pitch);
    _mm_setcsr(saved);
    return true;
}

#else

void tensor_decode_floats(const struct tensor_kind *kind, struct tensor_tile *tile)
{
    (void)kind, (void)tile;
}

bool tensor_step_floats(const struct tensor_kind *kind, const struct tensor_tile *a,
                        const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch)
{
    (void)kind, (void)a, (void)b, (void)keep, (void)d, (void)pitch;
    return false;
}

#endif
