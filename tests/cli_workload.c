/* cli_workload.c -- the tools that judge everything else: random numbers, conversions, guard bands, the reference and the check.
 * Half of it plants errors: a check that cannot fail is worthless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/check.h"
#include "cli/parallel.h"

/* ---- random numbers ---- */

static void random_known_values(void **state)
{
    (void)state;
    /* The published sequence of splitmix64 from seed 0. */
    assert_true(random_u64(0, 0) == 0xe220a8397b1dcdafu);
    assert_true(random_u64(0, 1) == 0x6e789e6aa1b965f4u);
    assert_true(random_u64(0, 2) == 0x06c45d188009454fu);
    /* What this library gave when it was first written: data of old reports must stay reproducible. */
    assert_true(random_key(1, STREAM_A) != random_key(1, STREAM_B));
    assert_true(random_key(1, STREAM_A) != random_key(2, STREAM_A));
}

static void random_normal_is_normal(void **state)
{
    (void)state;
    enum { COUNT = 1 << 18 };
    const uint64_t key = random_key(7, 1);
    double moment[5] = { 0 }, largest = 0;
    int within[3] = { 0 };
    for (int i = 0; i < COUNT; i++) {
        const double x = random_normal(key, (uint64_t)i);
        double power = 1;
        for (int p = 0; p < 5; p++, power *= x)
            moment[p] += power / COUNT;
        for (int s = 0; s < 3; s++)
            within[s] += fabs(x) < s + 1;
        largest = fmax(largest, fabs(x));
    }
    /* Six standard errors of each estimate; 3 - 0.03 is the kurtosis of this construction. */
    assert_true(fabs(moment[1]) < 6 / sqrt(COUNT));
    assert_true(fabs(moment[2] - 1) < 6 * sqrt(2.0 / COUNT));
    assert_true(fabs(moment[3]) < 6 * sqrt(15.0 / COUNT));
    assert_true(fabs(moment[4] - 2.97) < 6 * sqrt(96.0 / COUNT));
    const double share[3] = { 0.68269, 0.95450, 0.99730 };
    for (int s = 0; s < 3; s++)
        assert_true(fabs((double)within[s] / COUNT - share[s]) < 0.006);
    assert_true(largest > 4 && largest < 8.3);
}

static void random_range_is_even(void **state)
{
    (void)state;
    int seen[7] = { 0 };
    for (uint64_t i = 0; i < 70000; i++) {
        const int64_t x = random_range(3, i, -3, 3);
        assert_true(x >= -3 && x <= 3);
        seen[x + 3]++;
    }
    for (int i = 0; i < 7; i++)
        assert_true(abs(seen[i] - 10000) < 600);
    for (uint64_t i = 0; i < 1000; i++) {
        const int64_t x = random_range(3, i, 1000000000000, 1000000000009);
        assert_true(x >= 1000000000000 && x <= 1000000000009);
    }
    assert_int_equal(random_range(3, 5, 42, 42), 42);
    (void)random_range(3, 5, INT64_MIN, INT64_MAX);
}

/* ---- conversions ---- */

struct format {
    enum ptxmm_type type;
    uint16_t infinity;
};

static double value(enum ptxmm_type type, uint16_t bits)
{
    return type_load(type, &bits);
}

static uint16_t bits_of(enum ptxmm_type type, double x)
{
    return type == PTXMM_BF16 ? bf16_from_double(x) : f16_from_double(x);
}

/* Every value, every middle between two neighbours, and the doubles next to those. */
static void conversions_round_to_nearest_even(void **state)
{
    (void)state;
    static const struct format formats[] = { { PTXMM_BF16, 0x7f80 }, { PTXMM_F16, 0x7c00 } };
    for (int f = 0; f < 2; f++) {
        const enum ptxmm_type type = formats[f].type;
        for (uint32_t bits = 0; bits < formats[f].infinity; bits++) {
            const double x = value(type, (uint16_t)bits);
            assert_int_equal(bits_of(type, x), bits);
            assert_int_equal(bits_of(type, -x), bits | 0x8000);
            /* Beyond the largest number, the middle lies where the next one would be. */
            const double next = bits + 1u < formats[f].infinity ? value(type, (uint16_t)(bits + 1))
                                                                : 2 * x - value(type, (uint16_t)(bits - 1));
            const double middle = x + (next - x) / 2;
            assert_int_equal(bits_of(type, middle), bits & 1 ? bits + 1 : bits);
            assert_int_equal(bits_of(type, nextafter(middle, 0)), bits);
            assert_int_equal(bits_of(type, nextafter(middle, HUGE_VAL)), bits + 1);
            assert_int_equal(bits_of(type, -nextafter(middle, HUGE_VAL)), (bits + 1) | 0x8000);
        }
        assert_int_equal(bits_of(type, HUGE_VAL), formats[f].infinity);
        assert_int_equal(bits_of(type, -HUGE_VAL), formats[f].infinity | 0x8000);
        assert_int_equal(bits_of(type, 1e300), formats[f].infinity);
        assert_int_equal(bits_of(type, 5e-324), 0);
        assert_int_equal(bits_of(type, -5e-324), 0x8000);
        assert_int_equal(bits_of(type, NAN), 0x7fff);
        assert_int_equal(bits_of(type, -NAN), 0x7fff);
        for (uint32_t bits = formats[f].infinity + 1u; bits < 0x8000; bits++)
            assert_true(isnan(value(type, (uint16_t)bits)) && isnan(value(type, (uint16_t)(bits | 0x8000))));
    }
    assert_true(f16_to_double(0x0001) == 0x1p-24 && f16_to_double(0x3c00) == 1 && f16_to_double(0xfbff) == -65504);
    assert_true(bf16_to_double(0x0001) == 0x1p-133 && bf16_to_double(0x3f80) == 1 && bf16_to_double(0x4049) == 3.140625);
}

/* f32 against the processor's own conversion, also where it ties, underflows and overflows. */
static void conversion_to_f32_agrees_with_hardware(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3000000; i++) {
        uint64_t bits = random_u64(11, i);
        if (i % 3 == 0) /* exponents of f32 and around, where most doubles are not */
            bits = (bits & 0x800fffffffffffffu) | (1023 - 160 + (bits >> 52) % 300) << 52;
        if (i % 5 == 0) /* just a tie, or next to one */
            bits = (bits & ~0x1fffffffull) | (0x10000000 + (bits >> 8) % 3 - 1);
        double x;
        memcpy(&x, &bits, sizeof x);
        const float expected = (float)x;
        uint32_t expected_bits;
        memcpy(&expected_bits, &expected, sizeof expected);
        if (isnan(x))
            assert_int_equal(f32_from_double(x), 0x7fffffff);
        else
            assert_int_equal(f32_from_double(x), expected_bits);
    }
}

/* ---- matrices ---- */

static void fills_do_not_depend_on_pitch_or_threads(void **state)
{
    (void)state;
    for (int fill = 0; fill < FILL_COUNT; fill++)
        for (enum ptxmm_type type = PTXMM_BF16; type <= PTXMM_F32; type++) {
            struct matrix packed, wide;
            assert_true(matrix_create(&packed, type, 300, 77, 0, MATRIX_INPUT));
            assert_true(matrix_create(&wide, type, 300, 77, 96, MATRIX_INPUT));
            matrix_fill(&packed, (enum matrix_fill)fill, 5, STREAM_A);
            matrix_fill(&wide, (enum matrix_fill)fill, 5, STREAM_A);
            for (int64_t row = 0; row < 300; row++)
                assert_memory_equal(packed.data + (size_t)(row * 77) * packed.size, wide.data + (size_t)(row * 96) * wide.size,
                                    77 * packed.size);
            char text[256];
            assert_true(matrix_intact(&packed, text, sizeof text));
            assert_true(matrix_intact(&wide, text, sizeof text));
            matrix_destroy(&packed);
            matrix_destroy(&wide);
        }
}

static void exact_fills_hold_exact_values(void **state)
{
    (void)state;
    struct matrix x;
    assert_true(matrix_create(&x, PTXMM_F16, 64, 64, 0, MATRIX_INPUT));
    for (int fill = 0; fill < FILL_COUNT; fill++) {
        matrix_fill(&x, (enum matrix_fill)fill, 9, STREAM_B);
        double least = HUGE_VAL, most = -HUGE_VAL;
        for (int64_t i = 0; i < 64 * 64; i++) {
            const double v = matrix_get(&x, i / 64, i % 64);
            assert_false(isnan(v));
            least = fmin(least, v);
            most = fmax(most, v);
        }
        if (fill == FILL_ONES || fill == FILL_ZEROS)
            assert_true(least == most && most == (fill == FILL_ONES));
        if (fill == FILL_SMALL_INT)
            assert_true(least == -3 && most == 3);
        if (fill == FILL_POWERS)
            assert_true(least == -8 && most == 8);
    }
    matrix_destroy(&x);
}

static void guards_catch_every_side(void **state)
{
    (void)state;
    for (int role = MATRIX_INPUT; role <= MATRIX_OUTPUT; role++) {
        struct matrix x;
        char text[256];
        assert_true(matrix_create(&x, PTXMM_BF16, 5, 7, 16, (enum matrix_role)role));
        assert_true(matrix_intact(&x, text, sizeof text));
        assert_string_equal(text, "");
        const struct {
            ptrdiff_t offset; /* from the first element */
            const char *words;
        } places[] = {
            { -1, "before the matrix: from 1 to 1 bytes" },
            { -MATRIX_GUARD, "before the matrix: from 4096 to 4096 bytes" },
            { 7 * 2, "the padding of row 0 at column 7 (of 7, leading dimension 16)" },
            { (3 * 16 + 15) * 2 + 1, "the padding of row 3 at column 15" },
            { (4 * 16 + 15) * 2 + 1, "the padding of row 4 at column 15" },
            { 5 * 16 * 2, "1 byte behind the last row, from byte 0" },
            { 5 * 16 * 2 + MATRIX_GUARD - 1, "behind the last row, from byte 4095" },
        };
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            for (int bit = 0; bit < 8; bit++) {
                x.data[places[i].offset] ^= (unsigned char)(1 << bit);
                assert_false(matrix_intact(&x, text, sizeof text));
                assert_non_null(strstr(text, places[i].words));
                x.data[places[i].offset] ^= (unsigned char)(1 << bit);
            }
        matrix_fill(&x, FILL_NORMAL, 1, 1); /* elements are not guarded */
        assert_true(matrix_intact(&x, text, sizeof text));
        matrix_destroy(&x);
    }
}

static void an_output_begins_as_nan(void **state)
{
    (void)state;
    for (enum ptxmm_type type = PTXMM_BF16; type <= PTXMM_F32; type++) {
        struct matrix x;
        assert_true(matrix_create(&x, type, 9, 11, 16, MATRIX_OUTPUT));
        for (int64_t i = 0; i < 99; i++)
            assert_true(isnan(matrix_get(&x, i / 11, i % 11)));
        matrix_destroy(&x);
    }
}

static void impossible_matrices_are_refused(void **state)
{
    (void)state;
    struct matrix x;
    assert_false(matrix_create(&x, PTXMM_BF16, 5, 7, 6, MATRIX_INPUT));
    assert_false(matrix_create(&x, PTXMM_E4M3, 5, 7, 8, MATRIX_INPUT));
    assert_false(matrix_create(&x, PTXMM_BF16, -1, 7, 8, MATRIX_INPUT));
    assert_false(matrix_create(&x, PTXMM_BF16, INT64_MAX / 2, INT64_MAX / 2, 0, MATRIX_INPUT));
    assert_true(matrix_create(&x, PTXMM_BF16, 0, 7, 8, MATRIX_INPUT));
    matrix_destroy(&x);
    matrix_destroy(&x);
}

/* ---- the check ---- */

struct product {
    struct matrix a, b, c, d;
    struct check_problem problem;
};

/* A tensor core's arithmetic: 16 products and the accumulator cut below the largest exponent, the sum cut to 24 bits. */
static float tensor_core(const struct product *p, int64_t row, int64_t col)
{
    double sum = 0;
    for (int64_t first = 0; first < p->a.cols; first += 16) {
        double terms[17] = { sum };
        double largest = fabs(sum);
        for (int64_t i = 0; i < 16; i++) {
            terms[i + 1] = first + i < p->a.cols ? matrix_get(&p->a, row, first + i) * matrix_get(&p->b, col, first + i) : 0;
            largest = fmax(largest, fabs(terms[i + 1]));
        }
        if (largest == 0)
            continue;
        int e;
        frexp(largest, &e);
        const double unit = ldexp(1, e - 1 - 25);
        sum = 0;
        for (int i = 0; i < 17; i++)
            sum += trunc(terms[i] / unit) * unit;
        if (sum != 0) {
            frexp(sum, &e);
            const double last = ldexp(1, e - 24);
            sum = trunc(sum / last) * last;
        }
    }
    return (float)sum;
}

static void make(struct product *p, enum ptxmm_type in, enum ptxmm_type out, int64_t m, int64_t n, int64_t k,
                 enum matrix_fill fill, float alpha, float beta)
{
    memset(p, 0, sizeof *p);
    assert_true(matrix_create(&p->a, in, m, k, k + 8, MATRIX_INPUT));
    assert_true(matrix_create(&p->b, in, n, k, k + 16, MATRIX_INPUT));
    assert_true(matrix_create(&p->c, out, m, n, n + 8, MATRIX_INPUT));
    assert_true(matrix_create(&p->d, out, m, n, n + 24, MATRIX_OUTPUT));
    matrix_fill(&p->a, fill, 21, STREAM_A);
    matrix_fill(&p->b, fill, 21, STREAM_B);
    if (beta != 0)
        matrix_fill(&p->c, FILL_NORMAL, 21, STREAM_C);
    p->problem = (struct check_problem){ .a = &p->a, .b = &p->b, .c = &p->c, .d = &p->d, .alpha = alpha, .beta = beta, .seed = 4 };
    for (int64_t row = 0; row < m; row++)
        for (int64_t col = 0; col < n; col++) {
            float x = alpha * tensor_core(p, row, col);
            if (beta != 0)
                x += beta * (float)matrix_get(&p->c, row, col);
            matrix_set(&p->d, row, col, (double)x);
        }
}

static void drop(struct product *p)
{
    matrix_destroy(&p->a);
    matrix_destroy(&p->b);
    matrix_destroy(&p->c);
    matrix_destroy(&p->d);
}

/* Both ways of checking: each element, and Freivalds with blocks of 1 to 64 columns. */
static const struct {
    int64_t element_work, block_work;
    int columns;
} ways[] = { { INT64_MAX, 0, 0 }, { 1, INT64_MAX, 1 }, { 1, 80 * 90 * 100 / 4, 4 }, { 1, 1, 64 } };
#define WAYS (sizeof ways / sizeof *ways)

static void choose(struct product *p, size_t way)
{
    p->problem.element_work = ways[way].element_work;
    p->problem.block_work = ways[way].block_work;
    p->problem.samples = 8;
}

static void right_products_pass(void **state)
{
    (void)state;
    for (int fill = 0; fill < FILL_COUNT; fill++)
        for (enum ptxmm_type in = PTXMM_BF16; in <= PTXMM_F16; in++)
            for (int wide = 0; wide < 2; wide++)
                for (int scaled = 0; scaled < 2; scaled++) {
                    struct product p;
                    make(&p, in, wide ? PTXMM_F32 : in, 80, 90, 100, (enum matrix_fill)fill, scaled ? -1.25F : 1, scaled ? 0.5F : 0);
                    p.problem.exact = fill_is_exact((enum matrix_fill)fill) && !scaled;
                    for (size_t way = 0; way < WAYS; way++) {
                        struct check_result r;
                        char text[4096];
                        choose(&p, way);
                        check_product(&p.problem, &r);
                        if (!r.ok)
                            print_error("%s %s %s: %s", fill_name((enum matrix_fill)fill), type_name(in), r.method,
                                        check_describe(&r, text, sizeof text));
                        assert_true(r.ok);
                        assert_int_equal(r.wrong, 0);
                        assert_true(r.max_units <= 1);
                        assert_int_equal(r.block_columns, ways[way].columns);
                        assert_true(r.flagged <= r.blocks / 100 + 1 || fill == FILL_SPECIALS || fill == FILL_WIDE);
                    }
                    drop(&p);
                }
}

static void expect_caught(struct product *p, int64_t row, int64_t col, int64_t wrong)
{
    for (size_t way = 0; way < WAYS; way++) {
        struct check_result r;
        char text[4096];
        choose(p, way);
        check_product(&p->problem, &r);
        assert_false(r.ok);
        assert_int_equal(r.wrong, wrong);
        assert_int_equal(r.row, row);
        assert_int_equal(r.col, col);
        check_describe(&r, text, sizeof text);
        char place[64];
        snprintf(place, sizeof place, "first at [%lld, %lld]", (long long)row, (long long)col);
        assert_non_null(strstr(text, place));
        assert_non_null(strchr(text, '#'));
        assert_true(r.map[row * r.map_rows / 80][col * r.map_cols / 90] == '#');
    }
}

/* One element wrong by a standard deviation of D, at corners, edges of blocks and inside, for each type of D. */
static void one_wrong_element_is_found(void **state)
{
    (void)state;
    static const int64_t places[][2] = { { 0, 0 }, { 0, 89 }, { 79, 0 }, { 79, 89 }, { 17, 63 }, { 18, 64 }, { 40, 31 } };
    for (enum ptxmm_type out = PTXMM_BF16; out <= PTXMM_F32; out++) {
        struct product p;
        make(&p, out == PTXMM_F16 ? PTXMM_F16 : PTXMM_BF16, out, 80, 90, 100, FILL_NORMAL, 1, 0);
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            const double right = matrix_get(&p.d, places[i][0], places[i][1]);
            for (int sign = -1; sign <= 1; sign += 2) {
                matrix_set(&p.d, places[i][0], places[i][1], right + sign * 10);
                expect_caught(&p, places[i][0], places[i][1], 1);
            }
            matrix_set(&p.d, places[i][0], places[i][1], NAN);
            expect_caught(&p, places[i][0], places[i][1], 1);
            matrix_set(&p.d, places[i][0], places[i][1], HUGE_VAL);
            expect_caught(&p, places[i][0], places[i][1], 1);
            matrix_set(&p.d, places[i][0], places[i][1], right);
        }
        drop(&p);
    }
}

/* Element by element, and with blocks of one column, two units in the last place are too many. */
static void two_last_places_are_found(void **state)
{
    (void)state;
    for (enum ptxmm_type in = PTXMM_BF16; in <= PTXMM_F16; in++) {
        struct product p;
        make(&p, in, in, 80, 90, 100, FILL_NORMAL, 1, 0);
        for (int64_t i = 0; i < 200; i++) {
            const int64_t row = random_range(8, 2 * (uint64_t)i, 0, 79), col = random_range(8, 2 * (uint64_t)i + 1, 0, 89);
            const double right = matrix_get(&p.d, row, col);
            const uint16_t bits = (uint16_t)(bits_of(in, right) + 2);
            if (fabs(right) < 1) /* of a small sum, the accumulator's own error may exceed D's places */
                continue;
            matrix_set(&p.d, row, col, value(in, bits));
            for (size_t way = 0; way < 2; way++) {
                struct check_result r;
                choose(&p, way);
                check_product(&p.problem, &r);
                assert_false(r.ok);
                assert_int_equal(r.wrong, 1);
                assert_int_equal(r.row, row);
                assert_int_equal(r.col, col);
            }
            matrix_set(&p.d, row, col, right);
        }
        drop(&p);
    }
}

static void swapped_rows_and_columns_are_found(void **state)
{
    (void)state;
    struct product p;
    make(&p, PTXMM_BF16, PTXMM_F32, 80, 90, 100, FILL_NORMAL, 1, 0);
    for (int64_t col = 0; col < 90; col++) {
        const double x = matrix_get(&p.d, 12, col);
        matrix_set(&p.d, 12, col, matrix_get(&p.d, 33, col));
        matrix_set(&p.d, 33, col, x);
    }
    expect_caught(&p, 12, 0, 180);
    drop(&p);

    /* Two columns of one block: with random signs they do not cancel, whichever signs they have. */
    make(&p, PTXMM_BF16, PTXMM_F32, 80, 90, 100, FILL_NORMAL, 1, 0);
    for (int64_t row = 0; row < 80; row++) {
        const double x = matrix_get(&p.d, row, 5);
        matrix_set(&p.d, row, 5, matrix_get(&p.d, row, 6));
        matrix_set(&p.d, row, 6, x);
    }
    for (size_t way = 0; way < WAYS; way++) {
        bool found = false;
        for (uint64_t seed = 0; seed < 8; seed++) { /* equal signs of both hide it; eight seeds do not all have those */
            struct check_result r;
            choose(&p, way);
            p.problem.seed = seed;
            check_product(&p.problem, &r);
            found |= !r.ok;
        }
        assert_true(found);
    }
    drop(&p);
}

/* Everything wrong, nothing written, and a product without alpha. */
static void gross_errors_are_found(void **state)
{
    (void)state;
    struct product p;
    make(&p, PTXMM_F16, PTXMM_F16, 80, 90, 100, FILL_NORMAL, 1, 0.5F);
    p.problem.alpha = 1.125;
    for (size_t way = 0; way < WAYS; way++) {
        struct check_result r;
        choose(&p, way);
        check_product(&p.problem, &r);
        assert_false(r.ok);
        assert_true(r.wrong > 80 * 90 * 9 / 10);
    }
    p.problem.alpha = 1;
    matrix_poison(&p.d);
    expect_caught(&p, 0, 0, 80 * 90);
    drop(&p);
}

/* NaN and infinity in A, B or C belong into exactly their row, column or element. */
static void specials_are_followed(void **state)
{
    (void)state;
    struct product p;
    make(&p, PTXMM_BF16, PTXMM_BF16, 80, 90, 100, FILL_NORMAL, 1, 1);
    matrix_set(&p.a, 7, 50, NAN);
    matrix_set(&p.b, 9, 3, HUGE_VAL);
    matrix_set(&p.c, 11, 13, NAN);
    for (int64_t col = 0; col < 90; col++)
        matrix_set(&p.d, 7, col, NAN);
    for (int64_t row = 0; row < 80; row++)
        if (row != 7)
            matrix_set(&p.d, row, 9, matrix_get(&p.a, row, 3) * HUGE_VAL);
    matrix_set(&p.d, 11, 13, NAN);
    for (size_t way = 0; way < WAYS; way++) {
        struct check_result r;
        choose(&p, way);
        check_product(&p.problem, &r);
        assert_true(r.ok);
    }
    matrix_set(&p.d, 7, 20, 1.5); /* must be NaN */
    expect_caught(&p, 7, 20, 1);
    matrix_set(&p.d, 7, 20, NAN);
    const double infinity = matrix_get(&p.d, 30, 9);
    matrix_set(&p.d, 30, 9, -infinity);
    expect_caught(&p, 30, 9, 1);
    drop(&p);
}

/* beta = 0 with NaN in C, alpha = 0 with NaN in A: not read. K = 0: nothing to add up. */
static void what_is_not_read_does_not_count(void **state)
{
    (void)state;
    struct product p;
    struct check_result r;
    make(&p, PTXMM_BF16, PTXMM_BF16, 80, 90, 100, FILL_NORMAL, 1, 0);
    matrix_set(&p.c, 3, 3, NAN);
    check_product(&p.problem, &r);
    assert_true(r.ok);
    matrix_set(&p.a, 3, 3, NAN);
    p.problem.alpha = 0;
    for (int64_t i = 0; i < 80 * 90; i++)
        matrix_set(&p.d, i / 90, i % 90, 0);
    for (size_t way = 0; way < WAYS; way++) {
        choose(&p, way);
        check_product(&p.problem, &r);
        assert_true(r.ok);
    }
    drop(&p);
    make(&p, PTXMM_BF16, PTXMM_F32, 80, 90, 0, FILL_NORMAL, 1, 0);
    check_product(&p.problem, &r);
    assert_true(r.ok);
    matrix_set(&p.d, 5, 6, 0x1p-149);
    check_product(&p.problem, &r);
    assert_false(r.ok);
    drop(&p);
}

/* f16 results beyond 65504 are infinite, and must be. */
static void overflow_is_infinity(void **state)
{
    (void)state;
    struct product p;
    make(&p, PTXMM_F16, PTXMM_F16, 80, 90, 100, FILL_ONES, 1000, 0);
    struct check_result r;
    check_product(&p.problem, &r);
    assert_true(r.ok);
    assert_true(isinf(matrix_get(&p.d, 1, 1)));
    matrix_set(&p.d, 4, 5, 65504);
    expect_caught(&p, 4, 5, 1);
    drop(&p);
}

static void exact_means_bits(void **state)
{
    (void)state;
    struct product p;
    make(&p, PTXMM_BF16, PTXMM_F32, 80, 90, 100, FILL_SMALL_INT, 1, 0);
    p.problem.exact = true;
    const double right = matrix_get(&p.d, 8, 9);
    matrix_set(&p.d, 8, 9, right + fmax(fabs(right), 1) * 0x1p-22);
    for (size_t way = 0; way < 2; way++) {
        struct check_result r;
        choose(&p, way);
        check_product(&p.problem, &r);
        assert_false(r.ok);
        assert_int_equal(r.row, 8);
    }
    drop(&p);
}

static void empty_products_are_right(void **state)
{
    (void)state;
    struct product p;
    struct check_result r;
    char text[512];
    make(&p, PTXMM_BF16, PTXMM_BF16, 0, 90, 100, FILL_ONES, 1, 0);
    check_product(&p.problem, &r);
    assert_true(r.ok);
    check_describe(&r, text, sizeof text);
    check_describe(&r, text, 1);
    drop(&p);
}

/* ---- the loop over cores ---- */

struct visits {
    unsigned char *seen;
    int64_t count;
};

static void visit(void *user, int64_t first, int64_t last)
{
    struct visits *v = user;
    for (int64_t i = first; i < last; i++)
        v->seen[i]++;
}

static void a_loop_visits_all_once(void **state)
{
    (void)state;
    static const int64_t counts[] = { 0, 1, 2, 3, 100, 4097 }, grains[] = { 1, 2, 7, 5000 };
    unsigned char seen[4097];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t j = 0; j < sizeof grains / sizeof *grains; j++) {
            struct visits v = { seen, counts[i] };
            memset(seen, 0, sizeof seen);
            parallel_for(counts[i], grains[j], visit, &v);
            for (int64_t x = 0; x < 4097; x++)
                assert_int_equal(seen[x], x < counts[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_known_values), cmocka_unit_test(random_normal_is_normal), cmocka_unit_test(random_range_is_even),
        cmocka_unit_test(conversions_round_to_nearest_even), cmocka_unit_test(conversion_to_f32_agrees_with_hardware),
        cmocka_unit_test(fills_do_not_depend_on_pitch_or_threads), cmocka_unit_test(exact_fills_hold_exact_values),
        cmocka_unit_test(guards_catch_every_side), cmocka_unit_test(an_output_begins_as_nan),
        cmocka_unit_test(impossible_matrices_are_refused), cmocka_unit_test(right_products_pass),
        cmocka_unit_test(one_wrong_element_is_found), cmocka_unit_test(two_last_places_are_found),
        cmocka_unit_test(swapped_rows_and_columns_are_found), cmocka_unit_test(gross_errors_are_found),
        cmocka_unit_test(specials_are_followed), cmocka_unit_test(what_is_not_read_does_not_count),
        cmocka_unit_test(overflow_is_infinity), cmocka_unit_test(exact_means_bits), cmocka_unit_test(empty_products_are_right),
        cmocka_unit_test(a_loop_visits_all_once),
    };
    return cmocka_run_group_tests_name("cli_workload", tests, NULL, NULL);
}
