/*
 * The heads of small PTX programs: what is understood, what is refused, how values are compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/ptx_case.h"

#define HEAD "//run: grid 2,3 block 32 cluster 2 smem 0x400\n"
#define BODY ".visible .entry kernel_1(.param .u64 a) {}\n"

static void parse(struct ptx_case *c, const char *text)
{
    char message[256];

    if (!ptx_case_parse(c, text, message, sizeof message))
        fail_msg("%s", message);
}

static void test_parse(void **state)
{
    (void)state;
    struct ptx_case c;

    parse(&c, "// words\n" HEAD "//arg: a bf16[64] = i\r\n//buffer: out s8[4]\n//arg: n u64 = 1 << 40\n"
              "//arg: m tensormap tf32 of a dim 8,4,2 box 4,2,1 step 1,2 swizzle 64 fill nan\n"
              "//expect: out[1..2] ~ i / 3.0 within 1e-3\n//expect: a = 7\n" BODY);
    assert_string_equal(c.kernel, "kernel_1");
    assert_int_equal(c.grid[0], 2);
    assert_int_equal(c.grid[1], 3);
    assert_int_equal(c.grid[2], 1);
    assert_int_equal(c.cluster[0], 2);
    assert_int_equal(c.smem, 1024);
    assert_int_equal(c.nargs, 4);
    assert_string_equal(c.arg[0].init, "i");
    assert_null(c.arg[1].init);
    assert_true(c.arg[1].hidden);
    assert_false(c.arg[2].hidden);
    assert_int_equal(c.arg[2].count, 0);
    assert_true(c.arg[3].is_map);
    assert_int_equal(c.arg[3].map.type, 11);
    assert_int_equal(c.arg[3].map.pitch[0], 32);
    assert_int_equal(c.arg[3].map.pitch[1], 128);
    assert_int_equal(c.arg[3].map.step[1], 2);
    assert_int_equal(c.arg[3].map.step[2], 1);
    assert_int_equal(c.arg[3].map.swizzle, 2);
    assert_int_equal(c.nexpects, 2);
    assert_int_equal(c.expect[0].first, 1);
    assert_int_equal(c.expect[0].last, 2);
    assert_int_equal(c.expect[1].last, 63);
    assert_string_equal(c.rules, "");
    ptx_case_free(&c);
    parse(&c, HEAD "//rules: assume\n//arg: a u8[4096]\n"
              "//arg: m tensormap b6x16_p32 of a dim 128,4,2 box 128,4,1 swizzle 128 atom 32\n" BODY);
    assert_string_equal(c.rules, "assume");
    assert_int_equal(c.arg[1].map.type, 15);
    assert_int_equal(c.arg[1].map.pitch[0], 96);
    assert_int_equal(c.arg[1].map.pitch[1], 384);
    assert_int_equal(c.arg[1].map.swizzle, 4);
    ptx_case_free(&c);
}

static void test_refuse(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {BODY, "there is no //run: line"},
        {"//run: grid 1 threads 3\n" BODY, "line 1: expected grid"},
        {"//run: grid 0\n" BODY, "line 1: expected a size"},
        {HEAD, "there is no .entry"},
        {HEAD "//arg: a b8[3]\n" BODY, "line 2: expected a type"},
        {HEAD "//arg: a u8[0]\n" BODY, "line 2: expected a number of elements"},
        {HEAD "//arg: n u8\n" BODY, "line 2: a scalar needs a value"},
        {HEAD "//buffer: n u8 = 1\n" BODY, "line 2: expected a buffer"},
        {HEAD "//expect: b = 1\n" BODY, "line 2: no such buffer"},
        {HEAD "//arg: a u8[3]\n//expect: a[2..3] = 1\n" BODY, "line 3: expected a range"},
        {HEAD "//arg: a u8[3]\n//expect: a ~ 1\n" BODY, "line 3: expected within"},
        {HEAD "//arg: m tensormap f32 of a dim 4 box 4\n" BODY, "line 2: no such buffer"},
        {HEAD "//arg: a u8[3]\n//arg: m tensormap u8 of a dim 4,4 box 4\n" BODY, "line 3: dim and"},
        {HEAD "//arg: a u8[3]\n//arg: m tensormap b4 of a dim 4 box 4\n" BODY, "line 3: expected u8"},
        {HEAD "//arg: a u8[3]\n//arg: m tensormap u8 of a dim 4 box 4 swizzle 64 atom 32\n" BODY,
         "line 3: expected dim"},
        {HEAD "//rules: strict\n" BODY, "line 2: expected assume or none"},
    };

    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        struct ptx_case c;
        char message[256] = "";

        assert_false(ptx_case_parse(&c, bad[k][0], message, sizeof message));
        if (!strstr(message, bad[k][1]))
            fail_msg("'%s' is said of\n%s", message, bad[k][0]);
        ptx_case_free(&c);
    }
}

static void test_expressions(void **state)
{
    (void)state;
    static const struct { const char *text; double value; } good[] = {
        {"1 + 2 * 3 - 4 / 2", 5}, {"(1 << 4 | 3) ^ 0x11", 2}, {"-7 / 2", -3}, {"-7 % 4", -3},
        {"-8 >> 1", -4}, {"!(3 > 2) || 1 && 0", 0}, {"i * 2", 10}, {"n + a[i - 5]", 107},
        {"min(3, -2) + max(1.5, 1)", -0.5}, {"abs(-4)", 4}, {"sqrt(2.25)", 1.5},
        {"i == 5 ? 1.5 : 2", 1.5}, {"~0 & 15", 15}, {"1e3 / 8", 125}, {"a[1] <= 9", 1},
    };
    static const char *const bad[] = {
        "", "1 +", "x", "a", "a[9]", "a[-1]", "out[0]", "1 / 0", "5 % 0", "1.5 % 2", "(1", "1 2",
        "min(1)", "2 ? 3", "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1",
    };
    struct ptx_case c;
    unsigned char a[] = {7, 8};
    uint64_t n = 100;
    void *initial[PTX_ARGS] = {a, NULL, &n};
    const struct ptx_values v = {&c, initial};
    struct ptx_number x;
    char message[256];

    parse(&c, HEAD "//arg: a u8[2] = i + 7\n//arg: out u8[1]\n//arg: n u64 = 100\n" BODY);
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        if (!ptx_expr_eval(&v, good[k].text, 5, &x, message, sizeof message))
            fail_msg("%s: %s", good[k].text, message);
        if ((x.real ? x.d : (double)x.i) != good[k].value)
            fail_msg("%s is %g", good[k].text, x.real ? x.d : (double)x.i);
    }
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        if (ptx_expr_eval(&v, bad[k], 5, &x, message, sizeof message))
            fail_msg("'%s' is accepted", bad[k]);
    ptx_case_free(&c);
}

static void test_values(void **state)
{
    (void)state;
    static const struct { enum ptx_type type; double d; unsigned bits; } halves[] = {
        {PTX_F16, 1, 0x3c00}, {PTX_F16, -2.5, 0xc100}, {PTX_F16, 65519, 0x7bff},
        {PTX_F16, 65520, 0x7c00}, {PTX_F16, 5.9604644775390625e-8, 0x0001}, {PTX_F16, 2e-8, 0},
        {PTX_F16, 6.0975551605224609375e-5, 0x03ff}, {PTX_F16, 6.1035e-5, 0x0400},
        {PTX_F16, 2049, 0x6800}, {PTX_F16, 2051, 0x6802}, {PTX_BF16, 1.00390625, 0x3f80},
        {PTX_BF16, 1.01171875, 0x3f82}, {PTX_BF16, -0.0, 0x8000}, {PTX_BF16, 1e39, 0x7f80},
    };

    for (size_t k = 0; k < sizeof halves / sizeof *halves; k++) {
        uint16_t bits = 0;

        ptx_element_store(halves[k].type, (struct ptx_number){.real = true, .d = halves[k].d},
                          &bits, 0);
        if (bits != halves[k].bits)
            fail_msg("%.17g becomes %04x, not %04x", halves[k].d, bits, halves[k].bits);
    }
    for (unsigned bits = 0; bits < 0x10000; bits++)     /* every number survives the way there */
        for (int t = 0; t < 2; t++) {                   /* and back */
            const enum ptx_type type = t ? PTX_BF16 : PTX_F16;
            const uint16_t in = (uint16_t)bits;
            const struct ptx_number x = ptx_element(type, &in, 0);
            uint16_t out = 0;

            ptx_element_store(type, x, &out, 0);
            if (out != in && x.d == x.d)
                fail_msg("%04x becomes %04x", in, out);
        }
}

static void test_check(void **state)
{
    (void)state;
    struct ptx_case c;
    float got[4] = {0, 1, 2.001f, 3};
    void *results[PTX_ARGS] = {got}, *initial[PTX_ARGS] = {NULL};
    const struct ptx_values v = {&c, initial};
    char message[256];

    parse(&c, HEAD "//arg: a f32[4]\n//expect: a ~ i within 1e-3\n//expect: a[3] = 3\n" BODY);
    assert_true(ptx_case_check(&v, results, message, sizeof message));
    got[3] = 3.0000002f;
    assert_false(ptx_case_check(&v, results, message, sizeof message));
    assert_string_equal(message, "line 4: a[3] is 3.00000024, expected 3");
    got[2] = (float)strtod("nan", NULL);
    assert_false(ptx_case_check(&v, results, message, sizeof message));
    ptx_case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_refuse),
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_check),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
