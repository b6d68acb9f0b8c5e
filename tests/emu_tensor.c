/* Tensor-core arithmetic: published rows, and the fast implementations against the plain one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "emu_replay.h"
#include "numerics_rows.h"
#include "tensor.h"

static uint64_t random_state;

static uint64_t random64(void)
{
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)(random64() >> 32) % n;
}

/* ---- names --------------------------------------------------------------------------------- */

static const char *const format_names[] = {
    [TENSOR_BF16] = "bf16", [TENSOR_F16] = "f16", [TENSOR_TF32] = "tf32", [TENSOR_E4M3] = "e4m3",
    [TENSOR_E5M2] = "e5m2", [TENSOR_E3M2] = "e3m2", [TENSOR_E2M3] = "e2m3", [TENSOR_E2M1] = "e2m1",
    [TENSOR_S8] = "s8", [TENSOR_U8] = "u8", [TENSOR_B1] = "b1",
};

static enum tensor_format format_of(const char *name)
{
    for (unsigned i = 0; i < sizeof format_names / sizeof format_names[0]; i++)
        if (strcmp(format_names[i], name) == 0)
            return (enum tensor_format)i;
    fail_msg("no format %s", name);
    return TENSOR_BF16;
}

static bool kind_of(struct tensor_kind *kind, bool wgmma, const char *a, const char *b,
                    const char *d, unsigned block, const char *scale)
{
    const enum tensor_result result = strcmp(d, "f16") == 0 ? TENSOR_TO_F16 : TENSOR_TO_F32;
    const enum tensor_format x = format_of(a), y = format_of(b);
    const enum tensor_scale s = !scale ? TENSOR_UNSCALED :
        strcmp(scale, "ue4m3") == 0 ? TENSOR_UE4M3 : TENSOR_UE8M0;
    enum tensor_family family;

    if (wgmma)
        return tensor_kind_wgmma(kind, x, y, result, false);
    if (block)
        family = x != TENSOR_E2M1 ? TENSOR_KIND_MXF8F6F4 :
            block == 32 ? TENSOR_KIND_MXF4 : TENSOR_KIND_MXF4NVF4;
    else
        family = x == TENSOR_TF32 ? TENSOR_KIND_TF32 :
            x <= TENSOR_F16 ? TENSOR_KIND_F16 : TENSOR_KIND_F8F6F4;
    return tensor_kind_tcgen05(kind, family, x, y, result, s, block, false);
}

/* ---- rows ---------------------------------------------------------------------------------- */

static const char *const paths[] = {"portable", "AVX2", "floats"};

/* Puts a row into a tile and runs the fast implementations on it too. */
static void check_fast(const struct tensor_kind *kind, const uint32_t *a, const uint32_t *b,
                       uint32_t c, uint32_t want, const char *what)
{
    static struct tensor_tile x, y;
    uint8_t rows[8][TENSOR_ROW_BYTES] = {{0}}, other[8][TENSOR_ROW_BYTES] = {{0}};
    const unsigned bytes = tensor_element_bits(kind, kind->a) / 8;
    uint32_t d[3][8];

    for (unsigned i = 0; i < kind->k; i++)
        for (unsigned r = 0; r < 8; r++) {
            memcpy(&rows[r][i * bytes], &a[i], bytes);
            memcpy(&other[r][i * bytes], &b[i], bytes);
        }
    tensor_load(kind, TENSOR_A, false, (const uint8_t (*)[TENSOR_ROW_BYTES])rows, 1, &x);
    tensor_load(kind, TENSOR_B, false, (const uint8_t (*)[TENSOR_ROW_BYTES])other, 8, &y);
    for (unsigned i = 0; i < 24; i++)
        d[i / 8][i % 8] = c;
    tensor_step_portable(kind, &x, &y, true, d[0], 8);
    if (!tensor_step_avx2(kind, &x, &y, true, d[1], 8))
        memcpy(d[1], d[0], sizeof d[1]);
    if (!tensor_step_floats(kind, &x, &y, true, d[2], 8))
        memcpy(d[2], d[0], sizeof d[2]);
    for (unsigned i = 0; i < 24; i++)
        if (d[i / 8][i % 8] != want)
            fail_msg("%s: %s gives %08x, want %08x", what, paths[i / 8], d[i / 8][i % 8], want);
}

static void check_row(const struct numerics_row *row)
{
    struct tensor_kind kind;

    assert_true(kind_of(&kind, row->wgmma, row->a_type, row->b_type, row->d_type, row->block,
                        row->block ? row->scale_type : NULL));
    if (row->k)
        assert_int_equal(kind.k, row->k);

    const uint32_t got = tensor_dot(&kind, row->a, row->b, row->c, row->sa, row->sb);

    if (got != row->d)
        fail_msg("%s: got %08x, want %08x", row->what, got, row->d);
    if (kind.scale == TENSOR_UNSCALED)
        check_fast(&kind, row->a, row->b, row->c, row->d, row->what);
}

static void vectors(void **state)
{
    (void)state;
    numerics_vectors(check_row);
}

static void worked_rows(void **state)
{
    (void)state;
    numerics_worked(check_row);
}

/* ---- random tiles -------------------------------------------------------------------------- */

struct fields { unsigned bits, exponent, mantissa, low; };

static struct fields fields_of(enum tensor_format format)
{
    switch (format) {
    case TENSOR_BF16: return (struct fields){16, 8, 7, 0};
    case TENSOR_F16:  return (struct fields){16, 5, 10, 0};
    case TENSOR_TF32: return (struct fields){32, 8, 23, 0};
    case TENSOR_E4M3: return (struct fields){8, 4, 3, 0};
    case TENSOR_E5M2: return (struct fields){8, 5, 2, 0};
    case TENSOR_E3M2: return (struct fields){6, 3, 2, 0};
    case TENSOR_E2M3: return (struct fields){6, 2, 3, 0};
    case TENSOR_E2M1: return (struct fields){4, 2, 1, 0};
    default:          return (struct fields){8, 0, 8, 0};
    }
}

enum { DISTRIBUTIONS = 17 };

/* One encoding. The distributions: raw, moderate, subnormal, near overflow, full range of finite
 * numbers, sparse zeros of moderate and of full range, small integers, powers of two, one, signed
 * zeros, sprinkled specials, subnormals beside moderate, tiny, wide steps, ties, alternating. */
static uint32_t draw(struct fields f, unsigned distribution)
{
    const uint32_t raw = (uint32_t)random64();
    const uint32_t mask = f.bits == 32 ? UINT32_MAX : (1u << f.bits) - 1;
    const uint32_t mant = raw >> 8 & ((1u << f.mantissa) - 1), sign = raw & 1;
    const uint32_t top = (1u << f.exponent) - 1, bias = top / 2;
    uint32_t field;

    if (f.exponent == 0)
        return distribution % 3 == 0 ? raw & mask : distribution % 3 == 1 ? 0x7f : 0x80 + raw % 2;
    switch (distribution) {
    case 0:
        return raw & mask;
    case 1:
    moderate:
        field = bias - 3 + below(7) % (top > 6 ? 7 : 2);
        break;
    case 2:
        field = 0;
        break;
    case 3:
        field = top - 1 - below(2);
        break;
    case 4:
    full:
        field = below(top);
        break;
    case 5:
        if (below(4))
            return sign << (f.bits - 1);
        goto moderate;
    case 6:
        if (below(4))
            return sign << (f.bits - 1);
        goto full;
    case 7:
        return sign << (f.bits - 1) | (bias + below(2)) << f.mantissa;
    case 8:
        return sign << (f.bits - 1) | below(top) << f.mantissa;
    case 9:
        return bias << f.mantissa;
    case 10:
        return sign << (f.bits - 1);
    case 11:
        if (below(8) == 0)
            return sign << (f.bits - 1) | top << f.mantissa | (below(2) ? mant : 0);
        goto moderate;
    case 12:
        if (below(2))
            goto moderate;
        field = 0;
        break;
    case 13:
        field = below(3) % (top + 1);
        break;
    case 14:
        field = bias / 2 * below(3) % (top + 1);
        break;
    case 15:
        return sign << (f.bits - 1) | (bias - below(2)) << f.mantissa | (mant & 1);
    default:
        return (below(2) ? 1u << (f.bits - 1) : 0) | bias << f.mantissa | mant;
    }
    return (sign << (f.bits - 1) | field << f.mantissa | mant) & mask;
}

static struct fields accumulator_fields(enum tensor_result d)
{
    return d == TENSOR_TO_F32 ? (struct fields){32, 8, 23, 0} :
        d == TENSOR_TO_F16 ? (struct fields){16, 5, 10, 0} : (struct fields){32, 0, 31, 0};
}

static uint32_t draw_accumulator(enum tensor_result d, unsigned distribution)
{
    if (d == TENSOR_TO_S32)
        return distribution % 3 == 0 ? (uint32_t)random64() :
            distribution % 3 == 1 ? INT32_MAX - below(300000) : 0x80000000u + below(300000);
    return distribution == 9 ? 0 : draw(accumulator_fields(d), distribution);
}

enum { ROWS = 4, COLUMNS = 24 };

static unsigned runs[3];        /* of each path */

static void check_tiles(const struct tensor_kind *kind, unsigned da, unsigned db, unsigned dc,
                        bool keep, bool negate, bool plain_rules)
{
    static struct tensor_tile a, b;
    static uint8_t rows[COLUMNS][TENSOR_ROW_BYTES];
    static uint32_t x[ROWS][256], y[COLUMNS][256], c[ROWS][COLUMNS], d[3][ROWS][COLUMNS];
    unsigned used;
    const unsigned bytes = tensor_element_bits(kind, kind->a) / 8;

    for (unsigned side = 0; side < 2; side++) {
        for (unsigned r = 0; r < (side ? COLUMNS : ROWS); r++) {
            if (kind->a == TENSOR_B1) {
                for (unsigned i = 0; i < TENSOR_ROW_BYTES; i++)
                    rows[r][i] = (uint8_t)random64();
                for (unsigned i = 0; i < 256; i++)
                    (side ? y : x)[r][i] = rows[r][i / 8] >> i % 8 & 1;
                continue;
            }
            for (unsigned i = 0; i < kind->k; i++) {
                const struct fields f = fields_of(side ? kind->b : kind->a);
                uint32_t e = draw(f, side ? db : da);

                memcpy(&rows[r][i * bytes], &e, bytes);
                if (side == 0 && negate)
                    e ^= 1u << (f.bits - 1);
                (side ? y : x)[r][i] = e;
            }
        }
        tensor_load(kind, side ? TENSOR_B : TENSOR_A, !side && negate,
                    (const uint8_t (*)[TENSOR_ROW_BYTES])rows, side ? COLUMNS : ROWS,
                    side ? &b : &a);
    }
    for (unsigned i = 0; i < ROWS * COLUMNS; i++)
        c[i / COLUMNS][i % COLUMNS] = draw_accumulator(kind->d, dc);
    for (unsigned i = 0; i < 3; i++)
        memcpy(d[i], c, sizeof c);
    if (plain_rules) {
        tensor_step(kind, &a, &b, keep, d[0][0], COLUMNS);
        used = 1;
    } else {
        tensor_step_portable(kind, &a, &b, keep, d[0][0], COLUMNS);
        used = 1u | (unsigned)tensor_step_avx2(kind, &a, &b, keep, d[1][0], COLUMNS) << 1;
        used |= (unsigned)tensor_step_floats(kind, &a, &b, keep, d[2][0], COLUMNS) << 2;
    }
    for (unsigned i = 0; i < 3; i++)
        runs[i] += used >> i & 1;
    for (unsigned m = 0; m < ROWS; m++)
        for (unsigned n = 0; n < COLUMNS; n++) {
            const uint32_t want = tensor_dot(kind, x[m], y[n], keep ? c[m][n] : 0, NULL, NULL);

            for (unsigned i = 0; i < 3; i++)
                if (used >> i & 1 && d[i][m][n] != want)
                    fail_msg("%s x %s, distributions %u %u %u, (%u,%u), c %08x: %s gives %08x, "
                             "want %08x", format_names[kind->a], format_names[kind->b], da, db, dc,
                             m, n, c[m][n], paths[i], d[i][m][n], want);
        }
}

static void check_kind(const struct tensor_kind *kind)
{
    const bool negatable = kind->d != TENSOR_TO_S32;

    for (unsigned da = 0; da < DISTRIBUTIONS; da++)
        for (unsigned db = 0; db < DISTRIBUTIONS; db++)
            check_tiles(kind, da, db, below(DISTRIBUTIONS), below(8) != 0,
                        negatable && below(4) == 0, false);
    for (unsigned dc = 0; dc < DISTRIBUTIONS; dc++)
        for (unsigned i = 0; i < 4; i++)
            check_tiles(kind, below(DISTRIBUTIONS), below(DISTRIBUTIONS), dc, true, false, false);
}

static void random_wgmma(void **state)
{
    unsigned kinds = 0;

    (void)state;
    random_state = 1;
    for (unsigned a = 0; a <= TENSOR_B1; a++)
        for (unsigned b = 0; b <= TENSOR_B1; b++)
            for (unsigned d = 0; d < 3; d++)
                for (unsigned saturate = 0; saturate < 2; saturate++) {
                    struct tensor_kind kind;

                    if (!tensor_kind_wgmma(&kind, a, b, d, saturate))
                        continue;
                    check_kind(&kind);
                    kinds++;
                }
    assert_int_equal(kinds, 12 + 8 + 1);
    print_message("tiles: %u portable, %u AVX2, %u floats\n", runs[0], runs[1], runs[2]);
}

static void random_tcgen05(void **state)
{
    unsigned kinds = 0;

    (void)state;
    random_state = 2;
    for (unsigned family = 0; family <= TENSOR_KIND_I8; family++)
        for (unsigned a = 0; a <= TENSOR_B1; a++)
            for (unsigned b = 0; b <= TENSOR_B1; b++)
                for (unsigned d = 0; d < 3; d++) {
                    struct tensor_kind kind;

                    if (!tensor_kind_tcgen05(&kind, family, a, b, d, TENSOR_UNSCALED, 0, false))
                        continue;
                    check_kind(&kind);
                    kinds++;
                    kind.rules.zeros_count = below(2);
                    kind.rules.no_floor = below(2);
                    kind.rules.normalise = below(2);
                    if (kind.d != TENSOR_TO_S32)
                        check_tiles(&kind, below(17), below(17), below(17), true, false, true);
                }
    assert_int_equal(kinds, 5 + 1 + 50 + 4);
}

/* ---- another arithmetic ---------------------------------------------------------------------- */

/* Rows of every distribution, against the replay that shares nothing with the emulator. */
static unsigned replayed(const struct tensor_kind *kind)
{
    const struct fields fa = fields_of(kind->a), fb = fields_of(kind->b);
    uint32_t a[64], b[64], sa[4], sb[4];

    for (unsigned i = 0; i < DISTRIBUTIONS * DISTRIBUTIONS * 4; i++) {
        const unsigned da = i % DISTRIBUTIONS, db = i / DISTRIBUTIONS % DISTRIBUTIONS;
        const uint32_t c = draw_accumulator(kind->d, below(DISTRIBUTIONS));
        uint32_t got, want;

        for (unsigned k = 0; k < kind->k; k++) {
            a[k] = draw(fa, da);
            b[k] = draw(fb, db);
        }
        for (unsigned k = 0; k < 4; k++) {
            sa[k] = i % 3 ? 100 + below(56) : below(256);
            sb[k] = i % 3 ? 100 + below(56) : below(256);
        }
        got = tensor_dot(kind, a, b, c, sa, sb);
        want = replay_kind(kind, a, b, c, sa, sb);
        if (got != want)
            fail_msg("%s x %s -> %u, scale %u block %u, distributions %u %u, c %08x: %08x, "
                     "replayed %08x", format_names[kind->a], format_names[kind->b], kind->d,
                     kind->scale, kind->block, da, db, c, got, want);
    }
    return 1;
}

static void independent(void **state)
{
    static const struct { enum tensor_scale scale; unsigned block; } scales[] = {
        { TENSOR_UNSCALED, 0 }, { TENSOR_UE8M0, 32 }, { TENSOR_UE8M0, 16 }, { TENSOR_UE4M3, 16 },
    };
    unsigned kinds[2] = {0};

    (void)state;
    random_state = 3;
    for (unsigned a = 0; a < TENSOR_B1; a++)
        for (unsigned b = 0; b < TENSOR_B1; b++)
            for (unsigned d = 0; d < 3; d++)
                for (unsigned saturate = 0; saturate < 2; saturate++) {
                    struct tensor_kind kind;

                    if (tensor_kind_wgmma(&kind, a, b, d, saturate))
                        kinds[0] += replayed(&kind);
                    for (unsigned f = 0; f <= TENSOR_KIND_I8; f++)
                        for (unsigned s = 0; s < sizeof scales / sizeof scales[0]; s++)
                            if (tensor_kind_tcgen05(&kind, f, a, b, d, scales[s].scale,
                                                    scales[s].block, saturate))
                                kinds[1] += replayed(&kind);
                }
    assert_int_equal(kinds[0], 12 + 8);
    assert_int_equal(kinds[1], 5 + 1 + 50 + 8 + 25 + 1 + 3);
}

/* ---- the open points ----------------------------------------------------------------------- */

/* Each switch changes what it says, and only that. */
static void switches(void **state)
{
    struct tensor_kind kind;
    uint32_t a[64] = {0}, b[64] = {0}, sa[4] = {0x7f, 0x7f, 0x7f, 0x7f};

    (void)state;
    assert_true(tensor_kind_tcgen05(&kind, TENSOR_KIND_F16, TENSOR_BF16, TENSOR_BF16, TENSOR_TO_F32,
                                    TENSOR_UNSCALED, 0, false));
    a[1] = 0x2180, b[0] = 0x7f00, b[1] = 0x3f80;
    assert_int_equal(tensor_dot(&kind, a, b, 0, NULL, NULL), 0x21800000);
    kind.rules.zeros_count = true;      /* 0 x 2^127 has exponent 1 then, and 2^-60 is lost */
    assert_int_equal(tensor_dot(&kind, a, b, 0, NULL, NULL), 0);

    kind.rules = tensor_rules_measured;
    a[0] = 0x1980, b[0] = 0x1b00, a[1] = 0x9780, b[1] = 0x1800;    /* 2^-149 - 2^-159 */
    assert_int_equal(tensor_dot(&kind, a, b, 0, NULL, NULL), 1);
    kind.rules.no_floor = true;
    assert_int_equal(tensor_dot(&kind, a, b, 0, NULL, NULL), 0);

    /* c = 2^-25 - 2^-23 beside 0.5 x 0.5 in e2m1: exponent 0 as it is encoded, -2 normalised. */
    assert_true(tensor_kind_tcgen05(&kind, TENSOR_KIND_F8F6F4, TENSOR_E2M1, TENSOR_E2M1,
                                    TENSOR_TO_F32, TENSOR_UNSCALED, 0, false));
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    a[0] = 1, b[0] = 1;
    assert_int_equal(tensor_dot(&kind, a, b, 0xb2800000, NULL, NULL), 0x3e800000);  /* - 2^-26 */
    kind.rules.normalise = true;
    assert_int_equal(tensor_dot(&kind, a, b, 0xb2800000, NULL, NULL), 0x3e7fffff);

    assert_true(tensor_kind_tcgen05(&kind, TENSOR_KIND_MXF4, TENSOR_E2M1, TENSOR_E2M1,
                                    TENSOR_TO_F32, TENSOR_UE8M0, 32, false));
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    a[0] = 2, b[0] = 2;                 /* group 0 is 1 with scale 2^-127; groups of 0 have 2^73 */
    sa[0] = 0, sa[1] = 200;
    assert_int_equal(tensor_dot(&kind, a, b, 0, sa, (uint32_t[]){127, 127}), 0);
    kind.rules.fp4_zeros_vanish = true;
    assert_int_equal(tensor_dot(&kind, a, b, 0, sa, (uint32_t[]){127, 127}), 0x00400000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(worked_rows),
        cmocka_unit_test(random_wgmma),
        cmocka_unit_test(random_tcgen05),
        cmocka_unit_test(independent),
        cmocka_unit_test(switches),
    };

    return cmocka_run_group_tests_name("emu/tensor", tests, NULL, NULL);
}
