/* cli_check.c -- the reference and the check that judge every product. Most of it plants errors: a
 * check that cannot fail is worthless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/check.h"

static double value(enum ptxmm_type type, uint16_t bits)
{
    return type_load(type, &bits);
}

static uint16_t bits_of(enum ptxmm_type type, double x)
{
    return type == PTXMM_BF16 ? bf16_from_double(x) : f16_from_double(x);
}

struct product {
    struct matrix a, b, c, d;
    struct check_problem problem;
};

/* A tensor core's arithmetic over columns start..end - 1: 16 products and the accumulator cut 25 bits
 * below the largest exponent, the sum cut to 24 bits; of fp8 32 products, 13 and 14 bits. */
static double tensor_core(const struct product *p, int64_t row, int64_t col, int64_t start,
                          int64_t end)
{
    const bool fp8 = type_is_fp8(p->a.type);
    const int step = fp8 ? 32 : 16, below = fp8 ? 13 : 25, kept = fp8 ? 14 : 24;
    double sum = 0;
    for (int64_t first = start; first < end; first += step) {
        double terms[33] = { sum };
        double largest = fabs(sum);
        for (int64_t i = 0; i < step && first + i < end; i++) {
            terms[i + 1] =
                matrix_get(&p->a, row, first + i) * matrix_get(&p->b, col, first + i);
            largest = fmax(largest, fabs(terms[i + 1]));
        }
        if (largest == 0)
            continue;
        int e;
        frexp(largest, &e);
        const double unit = ldexp(1, e - 1 - below);
        sum = 0;
        for (int i = 0; i <= step; i++)
            sum += trunc(terms[i] / unit) * unit;
        if (sum != 0) {
            frexp(sum, &e);
            const double last = ldexp(1, e - kept);
            sum = trunc(sum / last) * last;
        }
    }
    return sum;
}

static float add_up(const struct product *p, int64_t row, int64_t col)
{
    const int64_t k = p->a.cols, interval = p->problem.promotion ? p->problem.promotion : k;
    float sum = 0;
    for (int64_t start = 0; start < k; start += interval)
        sum += (float)tensor_core(p, row, col, start, start + interval < k ? start + interval : k);
    return sum;
}

static void make_promoted(struct product *p, enum ptxmm_type in, enum ptxmm_type out, int64_t m,
                          int64_t n, int64_t k, enum matrix_fill fill, float alpha, float beta,
                          int64_t promotion)
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
    p->problem = (struct check_problem){
        .a = &p->a, .b = &p->b, .c = &p->c, .d = &p->d, .alpha = alpha, .beta = beta, .seed = 4,
        .promotion = promotion
    };
    for (int64_t row = 0; row < m; row++)
        for (int64_t col = 0; col < n; col++) {
            float x = alpha * add_up(p, row, col);
            if (beta != 0)
                x += beta * (float)matrix_get(&p->c, row, col);
            matrix_set(&p->d, row, col, (double)x);
        }
}

static void make(struct product *p, enum ptxmm_type in, enum ptxmm_type out, int64_t m, int64_t n,
                 int64_t k, enum matrix_fill fill, float alpha, float beta)
{
    make_promoted(p, in, out, m, n, k, fill, alpha, beta, 0);
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
                    make(&p, in, wide ? PTXMM_F32 : in, 80, 90, 100, (enum matrix_fill)fill,
                         scaled ? -1.25F : 1, scaled ? 0.5F : 0);
                    p.problem.exact = fill_is_exact((enum matrix_fill)fill) && !scaled;
                    for (size_t way = 0; way < WAYS; way++) {
                        struct check_result r;
                        char text[4096];
                        choose(&p, way);
                        check_product(&p.problem, &r);
                        if (!r.ok)
                            print_error("%s %s %s: %s", fill_name((enum matrix_fill)fill),
                                        type_name(in), r.method,
                                        check_describe(&r, text, sizeof text));
                        assert_true(r.ok);
                        assert_int_equal(r.wrong, 0);
                        assert_true(r.max_units <= 1);
                        assert_int_equal(r.block_columns, ways[way].columns);
                        assert_true(r.flagged <= r.blocks / 100 + 1 || fill == FILL_SPECIALS ||
                                    fill == FILL_WIDE);
                    }
                    drop(&p);
                }
}

/* With each promotion interval, none included; nothing is promised of blocks, whose tolerances add
 * up. */
static void right_fp8_products_pass(void **state)
{
    (void)state;
    static const int64_t intervals[] = { 0, 32, 128 };
    for (int i = 0; i < 3 * FILL_COUNT; i++)
        for (enum ptxmm_type in = PTXMM_E4M3; in <= PTXMM_E5M2; in++)
            for (int wide = 0; wide < 2; wide++) {
                const enum matrix_fill fill = (enum matrix_fill)(i % FILL_COUNT);
                struct product p;
                struct check_result r;
                char text[4096];
                make_promoted(&p, in, wide ? PTXMM_F32 : PTXMM_F16, 40, 50, 200, fill,
                              wide ? 1 : 0x1p-10F, 0, intervals[i / FILL_COUNT]);
                p.problem.exact = fill_is_exact(fill) && wide;
                for (size_t way = 0; way < 2; way++) {
                    choose(&p, way);
                    check_product(&p.problem, &r);
                    if (!r.ok)
                        print_error("%s %s promoted every %lld: %s", fill_name(fill),
                                    type_name(in), (long long)p.problem.promotion,
                                    check_describe(&r, text, sizeof text));
                    assert_true(r.ok && r.wrong == 0 && r.max_units <= 1);
                }
                drop(&p);
            }
}

/* The tolerance knows the interval: a sum that ran over all of K is wrong where promotion was
 * promised, for some elements. And one element wrong by a tenth of D's spread is found in both. */
static void wrong_fp8_sums_are_found(void **state)
{
    (void)state;
    for (int promotion = 0; promotion <= 32; promotion += 32) {
        struct product p;
        struct check_result r;
        make_promoted(&p, PTXMM_E4M3, PTXMM_F32, 20, 30, 400, FILL_NORMAL, 1, 0, promotion);
        for (int sign = -1; sign <= 1; sign += 2) {
            const double right = matrix_get(&p.d, 7, 8);
            matrix_set(&p.d, 7, 8, right + sign * (promotion ? 2 : 4));
            for (size_t way = 0; way < 2; way++) {
                choose(&p, way);
                check_product(&p.problem, &r);
                assert_true(!r.ok && r.wrong == 1 && r.row == 7 && r.col == 8);
            }
            matrix_set(&p.d, 7, 8, right);
        }
        drop(&p);
    }
    struct product p;
    struct check_result r;
    make_promoted(&p, PTXMM_E5M2, PTXMM_F32, 8, 8, 1 << 15, FILL_ONES, 1, 0, 0);
    assert_true(matrix_get(&p.d, 0, 0) == 16384); /* where ones are too small to count */
    choose(&p, 0);
    check_product(&p.problem, &r);
    assert_true(r.ok);
    p.problem.promotion = 128;
    check_product(&p.problem, &r);
    assert_true(!r.ok && r.wrong == 64);
    drop(&p);
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

/* One element wrong by a standard deviation of D, at corners, edges of blocks and inside, for each
 * type of D. */
static void one_wrong_element_is_found(void **state)
{
    (void)state;
    static const int64_t places[][2] = { { 0, 0 },   { 0, 89 },  { 79, 0 }, { 79, 89 },
                                         { 17, 63 }, { 18, 64 }, { 40, 31 } };
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
            const int64_t row = random_range(8, 2 * (uint64_t)i, 0, 79),
                          col = random_range(8, 2 * (uint64_t)i + 1, 0, 89);
            const double right = matrix_get(&p.d, row, col);
            const uint16_t bits = (uint16_t)(bits_of(in, right) + 2);
            if (fabs(right) <
                1) /* of a small sum, the accumulator's own error may exceed D's places */
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
        /* Equal signs of both hide it; eight seeds do not all have those. */
        for (uint64_t seed = 0; seed < 8; seed++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_products_pass),
        cmocka_unit_test(right_fp8_products_pass),
        cmocka_unit_test(wrong_fp8_sums_are_found),
        cmocka_unit_test(one_wrong_element_is_found),
        cmocka_unit_test(two_last_places_are_found),
        cmocka_unit_test(swapped_rows_and_columns_are_found),
        cmocka_unit_test(gross_errors_are_found),
        cmocka_unit_test(specials_are_followed),
        cmocka_unit_test(what_is_not_read_does_not_count),
        cmocka_unit_test(overflow_is_infinity),
        cmocka_unit_test(exact_means_bits),
        cmocka_unit_test(empty_products_are_right),
    };
    return cmocka_run_group_tests_name("cli_check", tests, NULL, NULL);
}
