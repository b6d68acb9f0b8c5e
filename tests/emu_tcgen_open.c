/*
 * What no source settles about tcgen05: a trap called UNVERIFIED, and with the word for it in
 * PTXMM_EMU_RULES exactly what docs/emulator-sm100.md says is assumed.
 */
#include "emu_tcgen.h"

enum { AT_A = SMEM_AT, AT_B = SMEM_AT + 0x2000, D = 64 };

/* No swizzle, K-major: 16 bytes of all rows, then the next 16. */
static uint64_t plain(uint32_t start, unsigned rows)
{
    return start >> 4 | (uint64_t)rows << 16 | UINT64_C(8) << 32 | UINT64_C(1) << 46;
}

static uint8_t *at(struct tcgen_bench *b, unsigned cta, uint32_t address)
{
    return b->smem[cta] + (address - SMEM_AT);
}

/* Element k of row r of a plain operand, of 1, 2 or 4 bytes. */
static void put(struct tcgen_bench *b, unsigned cta, uint32_t start, unsigned rows, unsigned size,
                unsigned r, unsigned k, uint32_t code)
{
    const unsigned byte = k * size;

    memcpy(at(b, cta, start + byte / 16 * rows * 16 + r * 16 + byte % 16), &code, size);
}

static uint32_t idesc(unsigned d, unsigned a, unsigned b, unsigned m, unsigned n)
{
    return d << 4 | a << 7 | b << 10 | n / 8 << 17 | m / 16 << 24;
}

/* Opens a bench whose memory is zero. */
static void begin(struct tcgen_bench *b, unsigned ctas, unsigned rules)
{
    bench_open(b, ctas, POLICY_LATE, 3, rules);
    b->count = 1;
    b->steps[0] = (struct tcgen_step){ .a = plain(AT_A, 128), .b = plain(AT_B, 8), .d = D };
}

static void must_be_unverified(struct tcgen_bench *b, const char *instruction)
{
    if (bench_run(b, instruction))
        fail_msg("%s: no trap", instruction);
    if (b->emu.trap.kind != TRAP_UNVERIFIED)
        fail_msg("%s: %s", instruction, trap_report(&b->emu.trap));
    bench_close(b);
}

#define MMA "tcgen05.mma.cta_group::1.kind::f16 [dt], ad, bd, id, keep;"

/* ---- 16-bit types mixed ---------------------------------------------------------------------- */

static void mixed(void **state)
{
    static const unsigned rules[] = { 0, RULE_STRICT, RULE_MIXED, RULE_ASSUME };

    (void)state;
    for (unsigned i = 0; i < 4; i++)
        for (unsigned order = 0; order < 2; order++) {
            struct tcgen_bench b;

            begin(&b, 1, rules[i]);
            b.steps[0].idesc = idesc(1, order, !order, 128, 8);     /* 0: f16, 1: bf16 */
            put(&b, 0, AT_A, 128, 2, 3, 5, order ? 0x4040 : 0x4200);        /* 3 */
            put(&b, 0, AT_B, 8, 2, 1, 5, order ? 0x4500 : 0x40a0);          /* 5 */
            if (i < 2) {
                must_be_unverified(&b, MMA);
                continue;
            }
            bench_must(&b, MMA);
            assert_int_equal(b.out[0][3][D + 1], 0x41700000);       /* 15 */
            assert_int_equal(b.out[0][3][D], 0);
            bench_close(&b);
        }
}

/* ---- 6-bit elements of A in Tensor Memory ---------------------------------------------------- */

static void narrow_a(void **state)
{
    static const char product[] =
        "tcgen05.mma.cta_group::1.kind::f8f6f4 [dt], [at], bd, id, keep;";

    (void)state;
    for (unsigned assume = 0; assume < 2; assume++) {
        struct tcgen_bench b;

        begin(&b, 1, assume ? RULE_ASSUME : 0);
        b.steps[0].idesc = idesc(1, 3, 0, 128, 8);          /* e2m3 x e4m3 */
        b.steps[0].at = 200;
        b.in[0][7][200 + 2] = 0xd1 << 8;                    /* k = 9: 0x11 is 2.25 */
        put(&b, 0, AT_B, 8, 1, 4, 9, 0x40);                 /* 2 */
        if (!assume) {
            must_be_unverified(&b, product);
            continue;
        }
        bench_must(&b, product);
        assert_int_equal(b.out[0][7][D + 4], 0x40900000);   /* 4.5 */
        bench_close(&b);
    }
}

/* ---- base offset ----------------------------------------------------------------------------- */

/* A pattern that begins at line 3 of a 1024-byte block: chunk c of row r lies in place c ^ r of
 * line r, as it would if the block began there. */
static void base_offset(void **state)
{
    (void)state;
    for (unsigned assume = 0; assume < 2; assume++) {
        const uint32_t start = SMEM_AT + 0x1000 + 3 * 128;
        struct tcgen_bench b;

        begin(&b, 1, assume ? RULE_ASSUME : 0);
        bench_fill(&b, 9);
        b.steps[0].a = start >> 4 | UINT64_C(64) << 32 | UINT64_C(1) << 46 | UINT64_C(3) << 49 |
                       UINT64_C(2) << 61;
        if (!assume) {
            must_be_unverified(&b, "tcgen05.cp.cta_group::1.128x128b [dt], ad;");
            continue;
        }
        bench_must(&b, "tcgen05.cp.cta_group::1.128x128b [dt], ad;");
        for (unsigned r = 0; r < 128; r++)
            assert_memory_equal(&b.out[0][r][D], at(&b, 0, start + r * 128 + r % 8 * 16), 16);
        bench_close(&b);
    }
}

/* ---- lanes that stay, in a pair -------------------------------------------------------------- */

static void lanes_of_a_pair(void **state)
{
    static const char text[] =
        "mov.b32 v0, 1;\nmov.b32 v1, 0;\nmov.b32 v2, 2;\n"
        "tcgen05.mma.cta_group::2.kind::f16 [dt], ad, bd, id, {v0,v1,v1,v1,v2,v1,v1,v1}, keep;";

    (void)state;
    for (unsigned assume = 0; assume < 2; assume++) {
        struct tcgen_bench b;

        begin(&b, 2, assume ? RULE_ASSUME : 0);
        b.steps[0].idesc = idesc(1, 1, 1, 256, 16);
        for (unsigned cta = 0; cta < 2; cta++) {
            for (unsigned r = 0; r < 128; r++)
                put(&b, cta, AT_A, 128, 2, r, 0, 0x3f80);
            for (unsigned n = 0; n < 8; n++)
                put(&b, cta, AT_B, 8, 2, n, 0, 0x4000);
        }
        for (unsigned cta = 0; cta < 2; cta++)
            for (unsigned lane = 0; lane < 3; lane++)
                b.in[cta][lane][D + 11] = 0x12345678;
        if (!assume) {
            must_be_unverified(&b, text);
            continue;
        }
        bench_must(&b, text);
        for (unsigned cta = 0; cta < 2; cta++)
            for (unsigned lane = 0; lane < 3; lane++)
                assert_int_equal(b.out[cta][lane][D + 11],
                                 lane == cta ? 0x12345678 : 0x40000000);
        bench_close(&b);
    }
}

/* ---- scale factors that begin at a lane; a scaled D that must be rounded --------------------- */

static void scale_lanes(void **state)
{
    static const char text[] =
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [dt], ad, bd, id, [sa], [sb], keep;";

    (void)state;
    for (unsigned assume = 0; assume < 2; assume++) {
        struct tcgen_bench b;

        begin(&b, 1, assume ? RULE_ASSUME : 0);
        b.steps[0].idesc = 1u << 17 | 1u << 23 | 1u << 27;
        b.steps[0].sfa = 16 << 16 | 300;
        b.steps[0].sfb = 304;
        for (unsigned lane = 0; lane < 128; lane++)
            for (unsigned c = 300; c < 308; c++)
                b.in[0][lane][c] = 0x7f7f7f80;              /* 2 */
        put(&b, 0, AT_A, 128, 1, 0, 0, 0x38);
        put(&b, 0, AT_B, 8, 1, 0, 0, 0x38);
        if (!assume) {
            must_be_unverified(&b, text);
            continue;
        }
        bench_must(&b, text);
        assert_int_equal(b.out[0][0][D], 0x40800000);       /* 1 * 1 * 2 * 2 */
        bench_close(&b);
    }
}

static void scaled_subnormals(void **state)
{
    static const char text[] = "tcgen05.mma.cta_group::1.kind::f16 [dt], ad, bd, id, keep, 2;";
    static const struct { uint32_t old, new; bool exact; } rows[] = {
        { 0x00800004, 0x00200001, true }, { 0x00800002, 0x00200000, false },
        { 0x00800006, 0x00200002, false }, { 0x80000001, 0, false },
        { 0x40000000, 0x3f000000, true },
        { 0x7f800000, 0x7f800000, true },
    };

    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (unsigned assume = 0; assume < 2; assume++) {
            struct tcgen_bench b;

            begin(&b, 1, assume ? RULE_ASSUME : 0);
            b.steps[0].idesc = idesc(1, 1, 1, 128, 8);
            b.steps[0].keep = 1;
            b.in[0][9][D + 2] = rows[i].old;
            if (!assume && !rows[i].exact) {
                must_be_unverified(&b, text);
                continue;
            }
            bench_must(&b, text);
            assert_int_equal(b.out[0][9][D + 2], rows[i].new);
            bench_close(&b);
        }
}

/* ---- is a copy behind a product? ------------------------------------------------------------- */

/* A product reads its factors, the same thread then copies over them: late engines tell the two
 * apart under the rule, and never without. */
static void copy_behind_product(void **state)
{
    static const char text[] =
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [dt], ad, bd, id, [sa], [sb], keep;\n"
        "tcgen05.cp.cta_group::1.32x128b.warpx4 [sa], bd;";

    (void)state;
    for (unsigned rule = 0; rule < 2; rule++) {
        unsigned trapped = 0;

        for (uint64_t seed = 0; seed < 12; seed++) {
            struct tcgen_bench b;

            bench_open(&b, 1, POLICY_LATE, seed, rule ? RULE_STRICT_CP : 0);
            b.count = 1;
            b.steps[0] = (struct tcgen_step){ .a = plain(AT_A, 128), .b = plain(AT_B, 8), .d = D,
                                              .idesc = 1u << 17 | 1u << 23 | 1u << 27, .sfa = 300,
                                              .sfb = 304 };
            if (!bench_run(&b, text)) {
                assert_int_equal(b.emu.trap.kind, TRAP_PENDING);
                trapped++;
            }
            bench_close(&b);
        }
        assert_true(rule ? trapped > 2 : trapped == 0);
    }
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

struct sum {
    const char *instruction;
    unsigned size, code_a, code_b;      /* bytes of an element; types in the descriptor */
    uint32_t a[2], b[2];        /* elements 0 and 1 of row 0 */
    unsigned rule;
    uint32_t without, with;
};

static void arithmetic(void **state)
{
    static const struct sum sums[] = {
        /* 0 * 2^127 beside 2^-60 */
        { MMA, 2, 1, 1, { 0x0000, 0x2180 }, { 0x7f00, 0x3f80 }, RULE_ZEROS_COUNT, 0x21800000, 0 },
        /* 2^-149 - 2^-159 */
        { MMA, 2, 1, 1, { 0x1980, 0x9780 }, { 0x1b00, 0x1800 }, RULE_NO_FLOOR, 1, 0 },
    };

    (void)state;
    for (unsigned i = 0; i < sizeof sums / sizeof sums[0]; i++)
        for (unsigned rule = 0; rule < 2; rule++) {
            struct tcgen_bench b;

            begin(&b, 1, rule ? sums[i].rule : 0);
            b.steps[0].idesc = idesc(1, sums[i].code_a, sums[i].code_b, 128, 8);
            for (unsigned k = 0; k < 2; k++) {
                put(&b, 0, AT_A, 128, sums[i].size, 0, k, sums[i].a[k]);
                put(&b, 0, AT_B, 8, sums[i].size, 0, k, sums[i].b[k]);
            }
            bench_must(&b, sums[i].instruction);
            assert_int_equal(b.out[0][0][D], rule ? sums[i].with : sums[i].without);
            bench_close(&b);
        }
}

/* e3m2's least subnormal, 2^-4, has the exponent -2 unless normalised. Two products of 2^-8 cancel;
 * the accumulator 2^-32 beside them is cut at 2^-29 for -2 - 2, and kept at 2^-33 for -4 - 4. */
static void normalised(void **state)
{
    (void)state;
    for (unsigned rule = 0; rule < 2; rule++) {
        struct tcgen_bench b;

        begin(&b, 1, rule ? RULE_NORMALISE : 0);
        b.steps[0].idesc = idesc(1, 4, 4, 128, 8);
        b.steps[0].keep = 1;
        b.in[0][0][D] = 0x2f800000;
        *at(&b, 0, AT_A) = 0x41;                            /* codes 1 and 1, 6 bits each */
        *at(&b, 0, AT_B) = 0x41;                            /* 1 and -1 */
        *at(&b, 0, AT_B + 1) = 0x08;
        bench_must(&b, "tcgen05.mma.cta_group::1.kind::f8f6f4 [dt], ad, bd, id, keep;");
        assert_int_equal(b.out[0][0][D], rule ? 0x2f800000 : 0);
        bench_close(&b);
    }
}

/* nvf4: a group of zeros with the factor 448 beside a small one. */
static void zero_groups(void **state)
{
    static const char text[] =
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 "
        "[dt], ad, bd, id, [sa], [sb], keep;";

    (void)state;
    for (unsigned rule = 0; rule < 2; rule++) {
        struct tcgen_bench b;

        begin(&b, 1, rule ? RULE_FP4_ZEROS_VANISH : 0);
        b.steps[0].idesc = 1u << 7 | 1u << 10 | 1u << 17 | 1u << 27;
        b.steps[0].sfa = 300;
        b.steps[0].sfb = 304;
        b.steps[0].keep = 1;
        b.in[0][0][D] = 0x2a800000;                         /* 2^-42 */
        for (unsigned lane = 0; lane < 128; lane++)
            for (unsigned c = 300; c < 308; c++)
                b.in[0][lane][c] = 0x01010178;              /* group 0: 256; others 2^-9 */
        bench_must(&b, text);
        /* E is 16 with group 0, cut at 2^-19; without it -42 */
        assert_int_equal(b.out[0][0][D], rule ? 0x2a800000 : 0);
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixed), cmocka_unit_test(narrow_a), cmocka_unit_test(base_offset),
        cmocka_unit_test(lanes_of_a_pair), cmocka_unit_test(scale_lanes),
        cmocka_unit_test(scaled_subnormals), cmocka_unit_test(copy_behind_product),
        cmocka_unit_test(arithmetic), cmocka_unit_test(normalised), cmocka_unit_test(zero_groups),
    };

    return cmocka_run_group_tests_name("open points", tests, NULL, NULL);
}
