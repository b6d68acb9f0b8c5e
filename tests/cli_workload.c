/* cli_workload.c -- random numbers, conversions, matrices with guard bands: what makes the data of
 * all other tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/parallel.h"
#include "cli/workload.h"

/* ---- random numbers ---- */

static void random_known_values(void **state)
{
    (void)state;
    /* The published sequence of splitmix64 from seed 0. */
    assert_true(random_u64(0, 0) == 0xe220a8397b1dcdafu);
    assert_true(random_u64(0, 1) == 0x6e789e6aa1b965f4u);
    assert_true(random_u64(0, 2) == 0x06c45d188009454fu);
    /* What this library gave when it was first written: data of old reports must stay reproducible.
     */
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
            const double next = bits + 1u < formats[f].infinity
                                    ? value(type, (uint16_t)(bits + 1))
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
            assert_true(isnan(value(type, (uint16_t)bits)) &&
                        isnan(value(type, (uint16_t)(bits | 0x8000))));
    }
    assert_true(f16_to_double(0x0001) == 0x1p-24 && f16_to_double(0x3c00) == 1 &&
                f16_to_double(0xfbff) == -65504);
    assert_true(bf16_to_double(0x0001) == 0x1p-133 && bf16_to_double(0x3f80) == 1 &&
                bf16_to_double(0x4049) == 3.140625);
}

static void expect_fp8(enum ptxmm_type type, double x, unsigned bits)
{
    uint8_t got;
    type_store(type, &got, x);
    assert_int_equal(got, bits & 0xff);
}

/* The same for the 8-bit formats, whose numbers end at `most`: beyond it the largest number stays. */
static void conversions_to_fp8_saturate(void **state)
{
    (void)state;
    static const struct {
        enum ptxmm_type type;
        uint8_t most, infinity; /* 0: the format has no infinity */
    } formats[] = { { PTXMM_E4M3, 0x7e, 0 }, { PTXMM_E5M2, 0x7b, 0x7c } };
    for (int f = 0; f < 2; f++) {
        const enum ptxmm_type type = formats[f].type;
        const uint8_t most = formats[f].most, infinity = formats[f].infinity,
                      of_infinity = infinity ? infinity : most;
        for (unsigned code = 0; code < most; code++) {
            const uint8_t bits = (uint8_t)code, above = (uint8_t)(code + 1);
            const double x = type_load(type, &bits), middle = (x + type_load(type, &above)) / 2;
            expect_fp8(type, x, bits);
            expect_fp8(type, -x, bits | 0x80);
            expect_fp8(type, middle, bits & 1 ? above : bits);
            expect_fp8(type, nextafter(middle, 0), bits);
            expect_fp8(type, nextafter(middle, HUGE_VAL), above);
            expect_fp8(type, -nextafter(middle, HUGE_VAL), above | 0x80);
        }
        expect_fp8(type, type_load(type, &most), most);
        expect_fp8(type, 1e300, most);
        expect_fp8(type, -1e300, most | 0x80);
        expect_fp8(type, HUGE_VAL, of_infinity);
        expect_fp8(type, -HUGE_VAL, of_infinity | 0x80);
        expect_fp8(type, 5e-324, 0);
        expect_fp8(type, -5e-324, 0x80);
        expect_fp8(type, NAN, 0x7f);
        if (infinity)
            assert_true(isinf(type_load(type, &infinity)));
        for (unsigned code = of_infinity + 1u; code < 0x80; code++) {
            const uint8_t bits = (uint8_t)code, negative = (uint8_t)(code | 0x80);
            assert_true(isnan(type_load(type, &bits)) && isnan(type_load(type, &negative)));
        }
    }
    assert_true(e4m3_to_double(0x01) == 0x1p-9 && e4m3_to_double(0x38) == 1 &&
                e4m3_to_double(0xfe) == -448);
    assert_true(e5m2_to_double(0x01) == 0x1p-16 && e5m2_to_double(0x3c) == 1 &&
                e5m2_to_double(0xfb) == -57344);
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
        for (enum ptxmm_type type = PTXMM_BF16; type <= PTXMM_E5M2; type++) {
            struct matrix packed, wide;
            if (!type_bytes(type))
                continue;
            assert_true(matrix_create(&packed, type, 300, 77, 0, MATRIX_INPUT));
            assert_true(matrix_create(&wide, type, 300, 77, 96, MATRIX_INPUT));
            matrix_fill(&packed, (enum matrix_fill)fill, 5, STREAM_A);
            matrix_fill(&wide, (enum matrix_fill)fill, 5, STREAM_A);
            for (int64_t row = 0; row < 300; row++)
                assert_memory_equal(packed.data + (size_t)(row * 77) * packed.size,
                                    wide.data + (size_t)(row * 96) * wide.size, 77 * packed.size);
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
    static const enum ptxmm_type types[] = { PTXMM_F16, PTXMM_E4M3, PTXMM_E5M2 };
    for (int i = 0; i < 3 * FILL_COUNT; i++) {
        const int fill = i % FILL_COUNT;
        const enum ptxmm_type type = types[i / FILL_COUNT];
        struct matrix x;
        assert_true(matrix_create(&x, type, 64, 64, 0, MATRIX_INPUT));
        matrix_fill(&x, (enum matrix_fill)fill, 9, STREAM_B);
        double least = HUGE_VAL, most = -HUGE_VAL;
        for (int64_t at = 0; at < 64 * 64; at++) {
            const double v = matrix_get(&x, at / 64, at % 64);
            assert_false(isnan(v));
            least = fmin(least, v);
            most = fmax(most, v);
        }
        if (fill == FILL_ONES || fill == FILL_ZEROS)
            assert_true(least == most && most == (fill == FILL_ONES));
        if (fill == FILL_SMALL_INT)
            assert_true(least == -3 && most == 3);
        if (fill == FILL_POWERS) {
            const double largest = type_is_fp8(type) ? 2 : 8;
            assert_true(least == -largest && most == largest);
        }
        matrix_destroy(&x);
    }
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
    for (enum ptxmm_type type = PTXMM_BF16; type <= PTXMM_E5M2; type++) {
        struct matrix x;
        if (!type_bytes(type))
            continue;
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
    assert_false(matrix_create(&x, PTXMM_E2M1, 5, 7, 8, MATRIX_INPUT));
    assert_false(matrix_create(&x, PTXMM_BF16, -1, 7, 8, MATRIX_INPUT));
    assert_false(matrix_create(&x, PTXMM_BF16, INT64_MAX / 2, INT64_MAX / 2, 0, MATRIX_INPUT));
    assert_true(matrix_create(&x, PTXMM_BF16, 0, 7, 8, MATRIX_INPUT));
    matrix_destroy(&x);
    matrix_destroy(&x);
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
        cmocka_unit_test(random_known_values),
        cmocka_unit_test(random_normal_is_normal),
        cmocka_unit_test(random_range_is_even),
        cmocka_unit_test(conversions_round_to_nearest_even),
        cmocka_unit_test(conversions_to_fp8_saturate),
        cmocka_unit_test(conversion_to_f32_agrees_with_hardware),
        cmocka_unit_test(fills_do_not_depend_on_pitch_or_threads),
        cmocka_unit_test(exact_fills_hold_exact_values),
        cmocka_unit_test(guards_catch_every_side),
        cmocka_unit_test(an_output_begins_as_nan),
        cmocka_unit_test(impossible_matrices_are_refused),
        cmocka_unit_test(a_loop_visits_all_once),
    };
    return cmocka_run_group_tests_name("cli_workload", tests, NULL, NULL);
}
