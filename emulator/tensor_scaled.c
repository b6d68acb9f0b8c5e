#include "tensor_scaled.h"

#include <string.h>

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))
#endif

typedef int32_t v8 __attribute__((vector_size(32), may_alias));
typedef uint32_t u8x32 __attribute__((vector_size(32), may_alias));
typedef int16_t h16 __attribute__((vector_size(32), may_alias));
typedef int16_t half __attribute__((may_alias));

#define INLINE static inline __attribute__((always_inline))

enum { COLUMNS = 16 };          /* of B that the fp4 step takes at once */

/* ---- one element, plainly -------------------------------------------------------------------- */

static uint32_t element(const struct tensor_kind *kind, const uint8_t *a, const uint8_t *b,
                        const uint8_t *scale_a, const uint8_t *scale_b, uint32_t c)
{
    const unsigned scales = kind->k / kind->block;
    uint32_t x[64], y[64], sa[TENSOR_MOST_SCALES], sb[TENSOR_MOST_SCALES];

    for (unsigned i = 0; i < kind->k; i++) {
        x[i] = kind->groups ? a[i / 2] >> 4 * (i % 2) & 15 : a[i];
        y[i] = kind->groups ? b[i / 2] >> 4 * (i % 2) & 15 : b[i];
    }
    for (unsigned i = 0; i < scales; i++) {
        sa[i] = scale_a[i];
        sb[i] = scale_b[i];
    }
    return tensor_dot(kind, x, y, c, sa, sb);
}

static bool finite(const struct tensor_kind *kind, const uint8_t *scales)
{
    for (unsigned i = 0; i < kind->k / kind->block; i++)
        if (kind->scale == TENSOR_UE8M0 ? scales[i] == 0xff : (scales[i] & 0x7f) == 0x7f)
            return false;
    return true;
}

/* ---- the accumulator ------------------------------------------------------------------------- */

struct old {
    bool special;
    int exp;                    /* of a zero: as the kind says */
    int64_t sig;                /* signed, lowest bit 2^(exp - 23) */
};

INLINE struct old decode_old(uint32_t code, int zero)
{
    const uint32_t field = code >> 23 & 0xff, mantissa = code & 0x7fffff;
    const int64_t sig = mantissa | (field ? 0x800000 : 0);
    struct old c;

    c.special = field == 0xff;
    c.exp = sig == 0 ? zero : (int)(field ? field : 1) - 127;
    c.sig = code >> 31 ? -sig : sig;
    return c;
}

INLINE int64_t toward_zero(int64_t v, int right)
{
    const int64_t q = (v < 0 ? -v : v) >> (right < 63 ? right : 63);

    return v < 0 ? -q : q;
}

/* sum * 2^e0 in f32, toward zero; never -0. */
INLINE uint32_t to_f32(int64_t sum, int e0)
{
    const uint32_t sign = sum < 0 ? 0x80000000u : 0;
    const uint64_t v = sum < 0 ? -(uint64_t)sum : (uint64_t)sum;
    uint32_t q;
    int e, shift;

    if (v == 0)
        return 0;
    e = 63 - __builtin_clzll(v) + e0;
    if (e >= 128)
        return sign | 0x7f800000u;
    if (e < -126)
        e = -126;
    shift = e0 - e + 23;
    q = (uint32_t)(shift >= 0 ? v << shift : shift > -64 ? v >> -shift : 0);
    if (q == 0)
        return 0;
    return sign | (q >= 1u << 23 ? (uint32_t)(e + 127) << 23 | (q & 0x7fffffu) : q);
}

/* ---- mxf8f6f4 -------------------------------------------------------------------------------- */

#define LARGER(x, y) (((x) & ((x) > (y))) | ((y) & ~((x) > (y))))
#define SMALLER(x, y) (((x) & ((x) < (y))) | ((y) & ~((x) < (y))))

/* Eight columns of one row: largest exponent of the products, and their sum cut at e. */
INLINE void largest(const int32_t *ea, const v8 *eb, unsigned k, v8 *e)
{
    *e = eb[0] + ea[0];
    for (unsigned i = 1; i < k; i++) {
        const v8 next = eb[i] + ea[i];

        *e = LARGER(*e, next);
    }
}

INLINE void add_products(const uint32_t *sa, const int32_t *ea, const v8 *sb, const v8 *eb,
                         const v8 *e, unsigned k, int64_t sums[8])
{
    const v8 most = (v8){0} + 31;

    for (unsigned first = 0; first < k; first += 8) {
        v8 part = {0};

        for (unsigned i = first; i < first + 8; i++) {
            const v8 p = ((sb[i] << 16) >> 16) * (int32_t)(int16_t)sa[i];
            const v8 sign = p >> 31, away = *e - eb[i] - ea[i];
            const u8x32 cut = (u8x32)((p ^ sign) - sign) >> (u8x32)SMALLER(away, most);

            part += ((v8)cut ^ sign) - sign;
        }
        for (unsigned l = 0; l < 8; l++)
            sums[l] += part[l];
    }
}

INLINE void step_moved(const struct tensor_kind *kind, const struct tensor_tile *a,
                       const struct tensor_tile *b, const uint8_t (*scale_a)[TENSOR_MOST_SCALES],
                       const uint8_t (*scale_b)[TENSOR_MOST_SCALES], bool keep, uint32_t *d,
                       unsigned pitch)
{
    const unsigned k = kind->k;

    for (unsigned m = 0; m < a->rows; m++, d += pitch) {
        const uint32_t *sa = a->sig + (size_t)m * k;
        const int32_t *ea = a->exp + (size_t)m * k;
        const bool odd = a->special[m] || !finite(kind, scale_a[m]);

        for (unsigned n = 0; n < b->rows; n += 8) {
            const v8 *sb = (const v8 *)(b->sig + (size_t)n * k);
            const v8 *eb = (const v8 *)(b->exp + (size_t)n * k);
            v8 e, moved;
            int64_t sums[8] = {0};
            struct old c[8];

            largest(ea, eb, k, &e);
            for (unsigned l = 0; l < 8; l++) {
                moved[l] = scale_a[m][0] + scale_b[n + l][0] - 254;
                c[l] = decode_old(keep ? d[n + l] : 0, TENSOR_NO_EXPONENT);
                e[l] += moved[l];
                e[l] = c[l].exp > e[l] ? c[l].exp : e[l];
                e[l] = e[l] < -133 ? -133 : e[l];
            }
            moved = e - moved;
            add_products(sa, ea, sb, eb, &moved, k, sums);
            for (unsigned l = 0; l < 8; l++) {
                if (odd || c[l].special || b->special[n + l] || !finite(kind, scale_b[n + l]))
                    d[n + l] = element(kind, a->raw[m], b->raw[n + l], scale_a[m], scale_b[n + l],
                                       keep ? d[n + l] : 0);
                else
                    d[n + l] = to_f32(sums[l] + toward_zero(c[l].sig * 4, e[l] - c[l].exp),
                                      e[l] - 25);
            }
        }
    }
}

/* ---- mxf4, mxf4nvf4 -------------------------------------------------------------------------- */

static const int16_t halves[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* B's elements in halves, sixteen columns beside each other; they take the tile's sig. */
static void spread(struct tensor_tile *b)
{
    half *to = (half *)b->sig;

    memset(to, 0, (size_t)(b->rows + COLUMNS - 1) / COLUMNS * COLUMNS * 64 * sizeof *to);
    for (unsigned n = 0; n < b->rows; n++)
        for (unsigned i = 0; i < 64; i++)
            to[(n / COLUMNS * 64 + i) * COLUMNS + n % COLUMNS] =
                halves[b->raw[n][i / 2] >> 4 * (i % 2) & 15];
}

struct factor {
    int exp, sig;
};

INLINE struct factor factor_of(enum tensor_scale scale, uint8_t code)
{
    const int field = code >> 3 & 15, mantissa = code & 7;

    if (scale == TENSOR_UE8M0)
        return (struct factor){code - 127, 1};
    return (struct factor){(field ? field : 1) - 7, mantissa | (field ? 8 : 0)};
}

INLINE uint32_t finish(const struct tensor_kind *kind, const int16_t *sums, unsigned stride,
                       const struct factor *fa, const struct factor *fb, struct old c)
{
    const int fraction = kind->scale == TENSOR_UE8M0 ? 2 : 8;
    int64_t sum;
    int e = c.exp;

    for (unsigned g = 0; g < 4; g++)
        if (fa[g].exp + fb[g].exp > e)
            e = fa[g].exp + fb[g].exp;
    sum = toward_zero(c.sig * (1 << 12), e - c.exp);
    for (unsigned g = 0; g < 4; g++) {
        const int64_t term = (int64_t)sums[g * stride] * fa[g].sig * fb[g].sig;

        sum += toward_zero(term * (INT64_C(1) << (35 - fraction)), e - fa[g].exp - fb[g].exp);
    }
    return to_f32(sum, e - 35);
}

INLINE void step_groups(const struct tensor_kind *kind, const struct tensor_tile *a,
                        const struct tensor_tile *b, const uint8_t (*scale_a)[TENSOR_MOST_SCALES],
                        const uint8_t (*scale_b)[TENSOR_MOST_SCALES], bool keep, uint32_t *d,
                        unsigned pitch)
{
    const unsigned per = kind->block / 16;      /* groups of a scale factor */

    for (unsigned m = 0; m < a->rows; m++, d += pitch) {
        const bool odd = !finite(kind, scale_a[m]);
        struct factor fa[4], fb[4];
        int16_t x[64];

        for (unsigned i = 0; i < 64; i++)
            x[i] = halves[a->raw[m][i / 2] >> 4 * (i % 2) & 15];
        for (unsigned g = 0; g < 4; g++)
            fa[g] = factor_of(kind->scale, scale_a[m][g / per]);
        for (unsigned n = 0; n < b->rows; n += COLUMNS) {
            const h16 *y = (const h16 *)b->sig + n / COLUMNS * 64;
            _Alignas(32) int16_t sums[4][COLUMNS];

            for (unsigned g = 0; g < 4; g++) {
                h16 sum = {0};

                for (unsigned i = 16 * g; i < 16 * g + 16; i++)
                    sum += y[i] * x[i];
                memcpy(sums[g], &sum, sizeof sum);
            }
            for (unsigned l = 0; l < COLUMNS && n + l < b->rows; l++) {
                const struct old c = decode_old(keep ? d[n + l] : 0, -126);

                if (odd || c.special || !finite(kind, scale_b[n + l])) {
                    d[n + l] = element(kind, a->raw[m], b->raw[n + l], scale_a[m], scale_b[n + l],
                                       keep ? d[n + l] : 0);
                    continue;
                }
                for (unsigned g = 0; g < 4; g++)
                    fb[g] = factor_of(kind->scale, scale_b[n + l][g / per]);
                d[n + l] = finish(kind, &sums[0][l], COLUMNS, fa, fb, c);
            }
        }
    }
}

/* ---- choice ---------------------------------------------------------------------------------- */

#define STEP(name, attribute, body) \
    attribute static void name(const struct tensor_kind *kind, const struct tensor_tile *a, \
                               const struct tensor_tile *b, \
                               const uint8_t (*scale_a)[TENSOR_MOST_SCALES], \
                               const uint8_t (*scale_b)[TENSOR_MOST_SCALES], bool keep, \
                               uint32_t *d, unsigned pitch) \
    { \
        body(kind, a, b, scale_a, scale_b, keep, d, pitch); \
    }

STEP(moved_portable, , step_moved)
STEP(groups_portable, , step_groups)
#ifdef AVX2
STEP(moved_avx2, AVX2, step_moved)
STEP(groups_avx2, AVX2, step_groups)
#endif

static bool usual(const struct tensor_rules *rules)
{
    return !rules->zeros_count && !rules->no_floor && !rules->normalise && !rules->fp4_zeros_vanish;
}

static void step_plain(const struct tensor_kind *kind, const struct tensor_tile *a,
                       const struct tensor_tile *b, const uint8_t (*scale_a)[TENSOR_MOST_SCALES],
                       const uint8_t (*scale_b)[TENSOR_MOST_SCALES], bool keep, uint32_t *d,
                       unsigned pitch)
{
    for (unsigned m = 0; m < a->rows; m++, d += pitch)
        for (unsigned n = 0; n < b->rows; n++)
            d[n] = element(kind, a->raw[m], b->raw[n], scale_a[m], scale_b[n], keep ? d[n] : 0);
}

void tensor_step_scaled(const struct tensor_kind *kind, struct tensor_tile *a,
                        struct tensor_tile *b,
                        const uint8_t (*scale_a)[TENSOR_MOST_SCALES],
                        const uint8_t (*scale_b)[TENSOR_MOST_SCALES], bool keep, uint32_t *d,
                        unsigned pitch)
{
    if (!usual(&kind->rules)) {
        step_plain(kind, a, b, scale_a, scale_b, keep, d, pitch);
        return;
    }
    if (kind->groups) {
        spread(b);
        b->integers = false;
    } else {
        tensor_decode_integers(kind, a);
        tensor_decode_integers(kind, b);
    }
#ifdef AVX2
    if (__builtin_cpu_supports("avx2")) {
        (kind->groups ? groups_avx2 : moved_avx2)(kind, a, b, scale_a, scale_b, keep, d, pitch);
        return;
    }
#endif
    (kind->groups ? groups_portable : moved_portable)(kind, a, b, scale_a, scale_b, keep, d, pitch);
}
