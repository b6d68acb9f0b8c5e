/*
 * The machine: divergence, memory, warps, barriers, calls, clusters, dependent grids.
 *
 * Everything runs under each policy and some seeds: results may not depend on them.
 */
#include "emu_run.h"

static const enum machine_policy policies[] = { POLICY_EARLY, POLICY_LATE, POLICY_RANDOM };

#define EVERYWHERE(e, ...) \
    for (unsigned round_ = 0; round_ < 6; round_++) { \
        struct emu e; \
        emu_open(&e, policies[round_ % 3], round_ / 3 + 1); \
        __VA_ARGS__ \
        emu_close(&e); \
    }

/* Thread number in r0, its 4-byte place in the output at rd0. */
#define PROLOGUE \
    ".reg .b32 r<40>; .reg .b64 rd<20>; .reg .pred p<8>; .reg .b16 h<8>; .reg .f32 f<8>;\n" \
    "mov.u32 r0, %tid.x; mov.u32 r1, %ctaid.x; mov.u32 r2, %ntid.x; mad.lo.u32 r1, r1, r2, r0;\n" \
    "ld.param.u64 rd0, [out]; mul.wide.u32 rd1, r1, 4; add.u64 rd0, rd0, rd1;\n"

#define KERNEL(body) \
    HEAD ".visible .entry k(.param .u64 out) {\n" PROLOGUE body "ret;\n}\n"

static void expect_u32(const uint32_t *got, unsigned n, uint32_t (*want)(unsigned i))
{
    for (unsigned i = 0; i < n; i++)
        if (got[i] != want(i))
            fail_msg("element %u: expected 0x%x, got 0x%x", i, want(i), got[i]);
}

/* Runs `k(out)` and compares. */
static void check(struct emu *e, const char *text, unsigned blocks, unsigned threads,
                  uint32_t (*want)(unsigned i))
{
    const unsigned n = blocks * threads;

    emu_load(e, text);
    const uint64_t out = emu_alloc(e, n * 4);
    RUN(e, "k", blocks, threads, out);
    expect_u32(emu_bytes(e, out), n, want);
}

/* ---- divergence ---- */

static uint32_t collatz(unsigned n)
{
    uint32_t steps = 0;

    for (n++; n != 1; steps++)
        n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}

/* Every lane goes round its own number of times, and meets the others for a vote at the end. */
static void test_loops(void **state)
{
    static const char text[] = KERNEL(
        "add.u32 r3, r1, 1; mov.u32 r4, 0;\n"
        "step: setp.eq.u32 p0, r3, 1; @p0 bra done;\n"
        "and.b32 r5, r3, 1; setp.eq.u32 p1, r5, 0; add.u32 r4, r4, 1; @p1 bra even;\n"
        "mad.lo.u32 r3, r3, 3, 1; bra step;\n"
        "even: shr.u32 r3, r3, 1; bra step;\n"
        "done: vote.sync.ballot.b32 r6, p0, 0xffffffff; add.u32 r4, r4, r6; add.u32 r4, r4, 1;\n"
        "st.global.u32 [rd0], r4;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 2, 96, collatz);)
}

static uint32_t switched(unsigned i)
{
    return i % 4 == 0 ? 100 : i % 4 == 1 ? 210 : i % 4 == 2 ? 320 : 430;
}

static void test_indirect_branch(void **state)
{
    static const char text[] = KERNEL(
        "and.b32 r3, r0, 3;\n"
        "table: .branchtargets zero, one, two, three;\n"
        "brx.idx r3, table;\n"
        "zero: mov.u32 r4, 100; bra join;\n"
        "one: mov.u32 r4, 200; bra join;\n"
        "two: mov.u32 r4, 300; bra join;\n"
        "three: mov.u32 r4, 400;\n"
        "join: mad.lo.u32 r4, r3, 10, r4; st.global.u32 [rd0], r4;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 1, 32, switched);)
}

static uint32_t ones(unsigned i)
{
    (void)i;
    return 1;
}

/* Lane 0 waits in a loop for what the other lanes of its own warp do further down. */
static void test_spin_on_own_warp(void **state)
{
    static const char text[] = KERNEL(
        ".shared .align 4 .b32 flag[1];\n"
        "mov.u32 r9, 0; setp.eq.u32 p0, r0, 0; @p0 st.shared.u32 [flag], r9; bar.warp.sync -1;\n"
        "@!p0 bra work;\n"
        "spin: ld.volatile.shared.u32 r3, [flag]; setp.ne.u32 p1, r3, 31; @p1 bra spin;\n"
        "bra done;\n"
        "work: atom.shared.add.u32 r4, [flag], 1;\n"
        "done: mov.u32 r5, 1; st.global.u32 [rd0], r5;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 1, 32, ones);)
}

/* ---- memory ---- */

static uint32_t reversed(unsigned i)
{
    return (i / 64 * 64 + 63 - i % 64) * 3;
}

static void test_shared(void **state)
{
    static const char text[] = KERNEL(
        ".shared .align 16 .b32 buf[64];\n"
        "mul.lo.u32 r3, r1, 3; mov.u32 r4, buf; mad.lo.u32 r5, r0, 4, r4; st.shared.u32 [r5], r3;\n"
        "bar.sync 0; sub.u32 r6, 63, r0; mad.lo.u32 r6, r6, 4, r4; ld.shared.u32 r7, [r6];\n"
        "st.global.u32 [rd0], r7;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 5, 64, reversed);)
}

static uint32_t sum_of_vector(unsigned i)
{
    return 10 * i + 6 + (i & 0xff) + ((i | 0x80) & 0x80 ? 0xffffff80u | (i & 0x7f) : 0);
}

/* Vectors, bytes with sign, generic addresses, local memory. */
static void test_widths(void **state)
{
    static const char text[] = KERNEL(
        ".shared .align 16 .b8 sm[2048]; .local .align 16 .b8 lo[32];\n"
        "mov.u32 r3, sm; mad.lo.u32 r3, r0, 16, r3;\n"
        "mad.lo.u32 r4, r1, 10, 0; mov.u32 r5, 1; mov.u32 r6, 2; mov.u32 r7, 3;\n"
        "st.shared.v4.b32 [r3], {r4, r5, r6, r7}; bar.warp.sync -1;\n"
        "cvt.u64.u32 rd2, r3; cvta.shared.u64 rd2, rd2;\n"
        "ld.v2.u32 {r8, r9}, [rd2]; ld.v2.u32 {r10, r11}, [rd2+8];\n"
        "add.u32 r8, r8, r9; add.u32 r10, r10, r11; add.u32 r8, r8, r10;\n"
        "mov.u64 rd3, lo; cvta.local.u64 rd3, rd3; or.b32 r12, r1, 128; st.u8 [rd3+5], r12;\n"
        "st.local.u8 [lo+6], r1; ld.u8 r13, [rd3+6]; ld.local.s8 r14, [lo+5];\n"
        "add.u32 r8, r8, r13; add.u32 r8, r8, r14; st.global.u32 [rd0], r8;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 1, 128, sum_of_vector);)
}

static void test_atomics(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 out) {\n"
        ".reg .b32 r<9>; .reg .b64 a, b; .reg .f32 f;\n"
        "ld.param.u64 a, [out]; mov.u32 r0, %tid.x; mov.u32 r1, %ctaid.x; "
        "mad.lo.u32 r0, r1, 64, r0;\n"
        "atom.global.add.u32 r2, [a], 1;\n"
        "red.global.max.u32 [a+4], r0;\n"
        "atom.global.cas.b32 r3, [a+8], 77, r0;\n"
        "mov.f32 f, 0f3F000000; red.global.add.f32 [a+12], f;\n"
        "atom.global.inc.u32 r4, [a+16], 9;\n"
        "atom.global.exch.b32 r5, [a+20], 5;\n"
        "shl.b32 r6, 1, r0; red.global.or.b32 [a+24], r6;\n"
        "mov.b64 b, 3; red.global.add.u64 [a+32], b;\n"
        "mov.b32 r7, 0x3c003c00; red.global.add.noftz.f16x2 [a+40], r7;\n"
        "ret; }\n";
    static const uint32_t before[12] = { 0, 0, 77 };
    (void)state;
    EVERYWHERE(e,
        emu_load(&e, text);
        const uint64_t out = emu_put(&e, before, sizeof before);
        RUN(&e, "k", 3, 64, out);
        const uint32_t *v = emu_bytes(&e, out);
        assert_int_equal(v[0], 192);
        assert_int_equal(v[1], 191);
        assert_true(v[2] < 192 && v[2] != 77);
        assert_int_equal(v[3], 0x42c00000);
        assert_int_equal(v[4], 192 % 10);
        assert_int_equal(v[5], 5);
        assert_int_equal(v[6], UINT32_MAX);
        assert_int_equal(v[8], 576);
        assert_int_equal(v[10], 0x5a005a00);
    )
}

/* ---- module variables and constants ---- */

static uint32_t from_table(unsigned i)
{
    return (i % 4 + 1) * 11 + 1000;
}

static void test_variables(void **state)
{
    static const char text[] = HEAD
        ".const .align 4 .u32 table[4] = { 11, 22, 33, 44 };\n"
        ".global .align 4 .u32 base = 1000;\n"
        ".visible .entry k(.param .u64 out) {\n" PROLOGUE
        "and.b32 r3, r0, 3; mul.wide.u32 rd2, r3, 4; mov.u64 rd3, table; add.u64 rd2, rd2, rd3;\n"
        "ld.const.u32 r4, [rd2]; ld.global.u32 r5, [base]; add.u32 r4, r4, r5;\n"
        "st.global.u32 [rd0], r4; ret; }\n";
    (void)state;
    EVERYWHERE(e, check(&e, text, 1, 32, from_table);)
}

/* ---- warps ---- */

static uint32_t warp_sum(unsigned i)
{
    return i / 32 * 32 * 32 + 496;
}

static void test_shuffle(void **state)
{
    static const char text[] = KERNEL(
        "mov.u32 r3, r1;\n"
        "shfl.sync.bfly.b32 r4, r3, 16, 31, -1; add.u32 r3, r3, r4;\n"
        "shfl.sync.bfly.b32 r4, r3, 8, 31, -1; add.u32 r3, r3, r4;\n"
        "shfl.sync.bfly.b32 r4, r3, 4, 31, -1; add.u32 r3, r3, r4;\n"
        "shfl.sync.down.b32 r4|p0, r3, 2, 31, -1; shfl.sync.idx.b32 r5, r4, 0, 31, -1;\n"
        "shfl.sync.idx.b32 r3, r3, 0, 31, -1; add.u32 r3, r3, r5;\n"
        "shfl.sync.up.b32 r4, r1, 1, 0, -1; sub.u32 r4, r1, r4;\n"  /* 1, but 0 in lane 0 */
        "redux.sync.add.u32 r4, r4, -1; sub.u32 r4, r4, 31;\n"
        "redux.sync.add.u32 r6, r1, -1; st.global.u32 [rd0], r6;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 2, 64, warp_sum);)
}

static uint32_t group_size(unsigned i)
{
    return (i % 32 % 3 == 0 ? 11 : i % 32 % 3 == 1 ? 11 : 10) + (i % 32 % 3) * 100;
}

/* Diverged lanes meet by member mask at one instruction. */
static void test_match(void **state)
{
    static const char text[] = KERNEL(
        "rem.u32 r3, r0, 32; rem.u32 r3, r3, 3; setp.eq.u32 p0, r3, 1; @p0 bra there;\n"
        "nop_: mov.u32 r9, 0;\n"
        "there: match.any.sync.b32 r4, r3, -1; popc.b32 r5, r4; elect.sync r6|p1, r4;\n"
        "activemask.b32 r7; setp.ne.u32 p2, r7, -1; @p2 trap;\n"
        "@p1 add.u32 r6, r6, 0; sub.u32 r6, r6, r3; setp.ne.u32 p2, r6, 0; @p2 trap;\n"
        "mad.lo.u32 r5, r3, 100, r5; st.global.u32 [rd0], r5;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 2, 64, group_size);)
}

static uint32_t transposed(unsigned i)
{
    const unsigned row = 2 * (i % 4), column = i / 4;

    return (row * 8 + column) | ((row + 1) * 8 + column) << 16;
}

static void test_matrices(void **state)
{
    static const char text[] = KERNEL(
        ".shared .align 16 .b8 sm[1024];\n"
        "mov.u32 r3, sm; mul.lo.u32 r4, r0, 2; add.u32 r5, r4, 1; shl.b32 r5, r5, 16; "
        "or.b32 r4, r4, r5;\n"
        "and.b32 r6, r0, 7; mad.lo.u32 r6, r6, 16, r3;\n"
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [r6], {r4};\n"
        "bar.warp.sync -1;\n"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r7}, [r6]; setp.ne.u32 p0, r7, r4; @p0 trap;\n"
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {r8}, [r6];\n"
        "movmatrix.sync.aligned.m8n8.trans.b16 r9, r4; setp.ne.u32 p0, r8, r9; @p0 trap;\n"
        "st.global.u32 [rd0], r8;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 1, 32, transposed);)
}

/* ---- named barriers ---- */

static uint32_t relay(unsigned i)
{
    return i / 64 % 2 == 0 ? 7 : 8;
}

/* Two pairs of warps hand work over by sync and arrive. */
static void test_named_barriers(void **state)
{
    static const char text[] = KERNEL(
        ".shared .align 4 .b32 box[1];\n"
        "setp.ge.u32 p0, r0, 64; @p0 bra second;\n"
        "mov.u32 r3, 7; setp.eq.u32 p1, r0, 0; @p1 st.shared.u32 [box], r3; bar.arrive 1, 128;\n"
        "bar.sync 2, 128; ld.shared.u32 r4, [box]; sub.u32 r4, r4, 1; bra out_;\n"
        "second: bar.sync 1, 128; ld.shared.u32 r4, [box]; add.u32 r4, r4, 1;\n"
        "barrier.cta.sync 3, 64; setp.eq.u32 p1, r0, 64; @p1 st.shared.u32 [box], r4; "
        "bar.arrive 2, 128;\n"
        "out_: st.global.u32 [rd0], r4;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 3, 128, relay);)
}

static uint32_t starter(unsigned i)
{
    const uint32_t before = (((0 * 3 + 1) * 3 + 2) * 3 + 1) * 3 + 2;

    return i / 32 % 2 ? (before * 3 + 1) * 3 + 2 : before * 3 + 1;
}

/* Two warps take turns. The first starts it: it arrives at its own barrier, and then waits there. */
static void test_own_barrier(void **state)
{
    static const char text[] = KERNEL(
        ".shared .align 4 .b32 box[1];\n"
        "shr.u32 r3, r0, 5; add.u32 r4, r3, 1; sub.u32 r5, 3, r4; mov.u32 r6, 0; and.b32 r7, r0, 31;\n"
        "setp.eq.u32 p0, r7, 0; setp.eq.u32 p1, r3, 0; @p0 st.shared.u32 [box], r6; bar.sync 0;\n"
        "@p1 bra first; bra turn;\n"
        "first: bar.arrive 1, 64;\n"
        "turn: bar.sync r4, 64; ld.shared.u32 r8, [box]; mad.lo.u32 r8, r8, 3, r4;\n"
        "bar.warp.sync 0xffffffff; @p0 st.shared.u32 [box], r8; bar.warp.sync 0xffffffff;\n"
        "bar.arrive r5, 64; add.u32 r6, r6, 1; setp.lt.u32 p2, r6, 3; @p2 bra turn;\n"
        "st.global.u32 [rd0], r8;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 3, 64, starter);)
}

static uint32_t left_out(unsigned i)
{
    return i % 2 ? 1000 : 2 * i % 128;
}

/* r9 is undefined in odd threads, and they leave out what depends on it: nothing of that gets out. */
static void test_undefined_guards(void **state)
{
    static const char text[] = KERNEL(
        "and.b32 r3, r0, 1; setp.eq.u32 p0, r3, 0; @p0 mov.u32 r9, r0; mov.u32 r10, 0;\n"
        "setp.ge.u32 p1, r9, 200; @p1 bra over; setp.ge.u32 p2, r9, 300; @p2 bra inner;\n"
        "mov.u32 r10, r9; ld.param.u64 rd5, [out];\n"
        "inner: add.u32 r10, r10, r0;\n"
        "over: @!p1 mov.u32 r11, 1; @p1 mov.u32 r11, 2; shfl.sync.idx.b32 r12, r11, 0, 31, 0xffffffff;\n"
        "@p0 mov.u32 r13, r10; @!p0 mov.u32 r13, 1000; st.global.u32 [rd0], r13;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 2, 64, left_out);)
}

static uint32_t counted(unsigned i)
{
    (void)i;
    return 34 + 1000 + 0;
}

/* 100 threads: the last warp is short, and some threads leave before the barrier. */
static void test_barrier_reduction(void **state)
{
    static const char text[] = KERNEL(
        "rem.u32 r3, r0, 3; setp.eq.u32 p0, r3, 0; barrier.cta.red.popc.u32 r4, 0, p0;\n"
        "barrier.cta.red.or.pred p1, 1, p0; barrier.cta.red.and.pred p2, 2, p0;\n"
        "selp.u32 r5, 1000, 0, p1; selp.u32 r6, 5000, 0, p2; add.u32 r4, r4, r5; "
        "add.u32 r4, r4, r6;\n"
        "st.global.u32 [rd0], r4; setp.gt.u32 p3, r0, 40; @p3 exit; barrier.cta.sync 5;\n");
    (void)state;
    EVERYWHERE(e, check(&e, text, 2, 100, counted);)
}

/* ---- setmaxnreg ---- */

static uint32_t sevens(unsigned i)
{
    (void)i;
    return 7;
}

static void test_setmaxnreg(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 out) .reqntid 384 .minnctapersm 1 {\n" PROLOGUE
        "mov.u32 r9, 7; setp.ge.u32 p0, r0, 128; @p0 bra consumer;\n"
        "setmaxnreg.dec.sync.aligned.u32 40; st.global.u32 [rd0], r9; ret;\n"
        "consumer: setmaxnreg.inc.sync.aligned.u32 232; st.global.u32 [rd0], r9; ret; }\n";
    (void)state;
    EVERYWHERE(e, check(&e, text, 2, 384, sevens);)
}

/* Threads start with as many registers as the largest increase asks for, if the CTA may have them, as ptxas has it: a
 * worker that "raises" its few once more does not leave the others with as few. */
static void test_setmaxnreg_again(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 out) .reqntid 384 .minnctapersm 1 {\n" PROLOGUE
        "mov.u32 r9, 7; setp.ge.u32 p0, r0, 128; @p0 bra consumer;\n"
        "setmaxnreg.dec.sync.aligned.u32 24; bar.sync 1; setmaxnreg.inc.sync.aligned.u32 24;\n"
        "st.global.u32 [rd0], r9; ret;\n"
        "consumer: setmaxnreg.inc.sync.aligned.u32 240; bar.sync 1;\n"
        "setmaxnreg.inc.sync.aligned.u32 240; st.global.u32 [rd0], r9; ret; }\n";
    (void)state;
    EVERYWHERE(e, check(&e, text, 2, 384, sevens);)
}

/* ---- bytes that nobody writes ---- */

static uint32_t packed(unsigned i)
{
    return 0x11000000u | (i & 0xff) << 16 | (i + 1) << 8 | i;
}

/* As compilers put bytes together: r5, r6 and r7 are written nowhere, and none of their bytes comes out. */
static void test_unwritten_bytes(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 out) {\n" PROLOGUE
        "add.u32 r2, r1, 1;\n"
        "prmt.b32 r3, r1, r2, 0x3340; prmt.b32 r4, r1, r5, 0x3340; prmt.b32 r8, r6, r7, 0x3340;\n"
        "mov.b32 r9, r4; prmt.b32 r9, r9, r8, 0x5410;\n"
        "prmt.b32 r1, r3, r9, 0x4410; and.b32 r1, r1, 0x00ffffff; or.b32 r1, r1, 0x11000000;\n"
        "st.global.u32 [rd0], r1; ret; }\n";
    (void)state;
    EVERYWHERE(e, check(&e, text, 2, 96, packed);)
}

/* ---- what decides by itself ---- */

static uint32_t decided(unsigned i)
{
    return i % 2 ? 11 : 22;
}

/* true or x, false and x, 0 and x, all ones or x are known where x, which is r9's of odd threads, is not. */
static void test_decided(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 out) {\n" PROLOGUE
        "and.b32 r2, r0, 1; setp.eq.u32 p0, r2, 1; @!p0 mov.u32 r9, 5;\n"
        "setp.gt.u32 p1, r9, 7; or.pred p2, p0, p1; and.pred p3, p2, p2; not.pred p4, p0;\n"
        "and.pred p4, p4, p1; or.pred p4, p4, p4;\n"
        "setp.eq.or.u32 p5, r9, 5, p0; not.pred p6, p0; setp.ne.and.u32 p7, r9, 5, p6;\n"
        "mov.u32 r10, 22; @p2 mov.u32 r10, 11; @p4 mov.u32 r10, 33; @!p5 mov.u32 r10, 44;\n"
        "@p7 mov.u32 r10, 55;\n"
        "sub.u32 r3, 0, r2; not.b32 r4, r3; and.b32 r5, r9, r4; or.b32 r6, r9, r3;\n"
        "and.b32 r5, r5, 0; and.b32 r6, r6, 0; add.u32 r10, r10, r5; add.u32 r10, r10, r6;\n"
        "cvt.u64.u32 rd2, r9; cvt.s64.s32 rd3, r4; and.b64 rd2, rd2, rd3; setp.eq.u64 p1, rd2, 9;\n"
        "@p1 mov.u32 r10, 66; st.global.u32 [rd0], r10; ret; }\n";
    (void)state;
    EVERYWHERE(e, check(&e, text, 1, 64, decided);)
}

/* ---- calls ---- */

static uint32_t factorial(unsigned i)
{
    uint32_t f = 1;

    for (unsigned k = 2; k <= i % 7; k++)
        f *= k;
    return f + i % 7 * 2;
}

static void test_calls(void **state)
{
    static const char text[] = HEAD
        ".func (.param .b32 result) fact(.param .b32 n);\n"
        ".func (.param .b32 result) fact(.param .b32 n) {\n"
        ".reg .b32 a, b; .reg .pred p;\n"
        "ld.param.b32 a, [n]; setp.gt.u32 p, a, 1; @p bra more; mov.b32 b, 1; bra back;\n"
        "more: sub.u32 b, a, 1;\n"
        "{ .param .b32 x; .param .b32 y; st.param.b32 [x], b; call.uni (y), fact, (x); "
        "ld.param.b32 b, [y]; }\n"
        "mul.lo.u32 b, a, b;\n"
        "back: st.param.b32 [result], b; ret; }\n"
        ".func (.reg .b32 d) twice(.reg .b32 v) { add.u32 d, v, v; ret; }\n"
        ".visible .entry k(.param .u64 out) {\n" PROLOGUE
        "rem.u32 r3, r1, 7;\n"
        "{ .param .b32 x; .param .b32 y; st.param.b32 [x], r3; call (y), fact, (x); "
        "ld.param.b32 r4, [y]; }\n"
        "setp.ne.u32 p0, r3, 0; mov.u32 r5, 0; @p0 call (r5), twice, (r3);\n"
        "add.u32 r4, r4, r5; st.global.u32 [rd0], r4; ret; }\n";
    (void)state;
    EVERYWHERE(e, check(&e, text, 1, 64, factorial);)
}

static uint32_t through_pointer(unsigned i)
{
    return i % 2 ? i * 3 : i + 100;
}

static void test_function_pointers(void **state)
{
    static const char text[] = HEAD
        ".func (.param .b32 r) triple(.param .b32 a) { .reg .b32 x; ld.param.b32 x, [a];"
        " mul.lo.u32 x, x, 3; st.param.b32 [r], x; ret; }\n"
        ".func (.param .b32 r) plus(.param .b32 a) { .reg .b32 x; ld.param.b32 x, [a];"
        " add.u32 x, x, 100; st.param.b32 [r], x; ret; }\n"
        ".visible .entry k(.param .u64 out) {\n" PROLOGUE
        "mov.u64 rd2, triple; mov.u64 rd3, plus; and.b32 r3, r0, 1; setp.ne.u32 p0, r3, 0;\n"
        "selp.b64 rd4, rd2, rd3, p0;\n"
        "{ .param .b32 x; .param .b32 y; st.param.b32 [x], r1;\n"
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
        "call (y), rd4, (x), proto; ld.param.b32 r4, [y]; }\n"
        "st.global.u32 [rd0], r4; ret; }\n";
    (void)state;
    EVERYWHERE(e, check(&e, text, 1, 64, through_pointer);)
}

static void test_printf(void **state)
{
    static const char text[] = HEAD
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
        /* "%d %.2f %s\n" */
        ".global .align 1 .b8 fmt[] = {37,100,32,37,46,50,102,32,37,115,10,0};\n"
        ".global .align 1 .b8 word[] = {104,105,0};\n"                               /* "hi" */
        ".visible .entry k(.param .u64 out) {\n"
        ".local .align 8 .b8 args[24]; .reg .b64 a, b, c, d; .reg .b32 r; .reg .pred p;\n"
        "mov.u32 r, %tid.x; setp.ne.u32 p, r, 3; @p exit;\n"
        "mov.u64 a, args; cvta.local.u64 a, a; st.local.u32 [args], -5;\n"
        "mov.f64 b, 0d3FF8000000000000; st.local.f64 [args+8], b;\n"
        "mov.u64 c, word; cvta.global.u64 c, c; st.local.u64 [args+16], c;\n"
        "mov.u64 d, fmt; cvta.global.u64 d, d;\n"
        "{ .param .b64 x; .param .b64 y; .param .b32 z; st.param.b64 [x], d; st.param.b64 [y], a;\n"
        "call.uni (z), vprintf, (x, y); ld.param.b32 r, [z]; }\n"
        "ld.param.u64 a, [out]; st.global.u32 [a], r; ret; }\n";
    (void)state;
    EVERYWHERE(e,
        emu_load(&e, text);
        const uint64_t out = emu_alloc(&e, 4);
        RUN(&e, "k", 1, 32, out);
        assert_string_equal(e.printed, "-5 1.50 hi\n");
        assert_int_equal(*(uint32_t *)emu_bytes(&e, out), 3);
    )
}

/* ---- clusters ---- */

static uint32_t neighbour(unsigned i)
{
    const unsigned cta = i / 64, other = cta / 4 * 4 + (cta + 1) % 4;

    return other * 64 + i % 64 + (cta % 4) * 100000;
}

/* Every CTA reads its neighbour's shared memory, which stays until all have read. */
static void test_cluster(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 out) .reqnctapercluster 4, 1, 1 {\n" PROLOGUE
        ".shared .align 4 .b32 own[64];\n"
        "mov.u32 r3, own; mad.lo.u32 r4, r0, 4, r3; st.shared.u32 [r4], r1;\n"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
        "mov.u32 r5, %cluster_ctarank; add.u32 r6, r5, 1; and.b32 r6, r6, 3;\n"
        "mapa.shared::cluster.u32 r7, r4, r6; getctarank.shared::cluster.u32 r8, r7;\n"
        "setp.ne.u32 p0, r8, r6; @p0 trap; ld.shared::cluster.u32 r9, [r7];\n"
        "cvt.u64.u32 rd2, r4; cvta.shared.u64 rd2, rd2; mapa.u64 rd3, rd2, r6; ld.u32 r10, [rd3];\n"
        "setp.ne.u32 p0, r10, r9; @p0 trap;\n"
        "mad.lo.u32 r9, r5, 100000, r9; st.global.u32 [rd0], r9;\n"
        "barrier.cluster.arrive.relaxed; barrier.cluster.wait; ret; }\n";
    (void)state;
    EVERYWHERE(e, check(&e, text, 12, 64, neighbour);)
}

/* ---- dependent grids ---- */

/* The second grid starts early, waits, and then sees what the first has written. */
static void test_programmatic(void **state)
{
    static const char text[] = HEAD
        ".visible .entry first(.param .u64 out) {\n" PROLOGUE
        "griddepcontrol.launch_dependents; mov.u32 r4, 2000;\n"
        "slow: sub.u32 r4, r4, 1; setp.ne.u32 p0, r4, 0; @p0 bra slow;\n"
        "st.global.u32 [rd0], r1; ret; }\n"
        ".visible .entry second(.param .u64 out) {\n" PROLOGUE
        "griddepcontrol.wait; ld.global.u32 r3, [rd0]; add.u32 r3, r3, 5; "
        "st.global.u32 [rd0], r3; ret; }\n"
        ".visible .entry third(.param .u64 out) {\n" PROLOGUE
        "ld.global.u32 r3, [rd0]; mul.lo.u32 r3, r3, 2; st.global.u32 [rd0], r3; ret; }\n";
    (void)state;
    EVERYWHERE(e,
        emu_load(&e, text);
        const uint64_t out = emu_alloc(&e, 4 * 256);
        uint8_t params[3][256];
        const struct emu_launch plain = { .grid = { 4 }, .block = { 64 } };
        const struct emu_launch early = { .grid = { 4 }, .block = { 64 }, .programmatic = true };
        const struct launch chain[3] = {
            emu_prepare(&e, "first", &plain, &out, 1, params[0]),
            emu_prepare(&e, "second", &early, &out, 1, params[1]),
            emu_prepare(&e, "third", &plain, &out, 1, params[2]),
        };
        assert_true(machine_run(e.machine, chain, 3, &e.trap));
        for (unsigned i = 0; i < 256; i++)
            assert_int_equal(((uint32_t *)emu_bytes(&e, out))[i], (i + 5) * 2);
    )
}

/* ---- many CTAs on few multiprocessors; grids and blocks in three dimensions ---- */

static void test_places(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 out) {\n"
        ".reg .b32 x, y, z, n; .reg .b64 a, b;\n"
        "mov.u32 x, %ctaid.z; mov.u32 n, %nctaid.y; mov.u32 y, %ctaid.y; mad.lo.u32 x, x, n, y;\n"
        "mov.u32 n, %nctaid.x; mov.u32 y, %ctaid.x; mad.lo.u32 x, x, n, y;\n"
        "mov.u32 n, %ntid.z; mov.u32 y, %tid.z; mad.lo.u32 x, x, n, y;\n"
        "mov.u32 n, %ntid.y; mov.u32 y, %tid.y; mad.lo.u32 x, x, n, y;\n"
        "mov.u32 n, %ntid.x; mov.u32 y, %tid.x; mad.lo.u32 x, x, n, y;\n"
        "ld.param.u64 a, [out]; mul.wide.u32 b, x, 4; add.u64 a, a, b; st.global.u32 [a], x; "
        "ret; }\n";
    (void)state;
    EVERYWHERE(e,
        emu_load(&e, text);
        const unsigned n = 7 * 5 * 11 * 3 * 5 * 7;
        const uint64_t out = emu_alloc(&e, n * 4);
        const struct emu_launch l = { .grid = { 7, 5, 11 }, .block = { 3, 5, 7 } };
        emu_must(&e, "k", &l, 1, &out);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(((uint32_t *)emu_bytes(&e, out))[i], i);
    )
}

/* ---- when CTAs start ---- */

/* The most CTAs of 16 that run side by side: all, each alone, or some, as the policy says. */
static void test_starts(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 out) {\n"
        ".reg .b32 n; .reg .b64 a; .reg .pred p;\n"
        "ld.param.u64 a, [out]; atom.global.add.u32 n, [a], 1; add.u32 n, n, 1;\n"
        "red.global.max.u32 [a+4], n; mov.u32 n, 100;\n"
        "work: sub.u32 n, n, 1; setp.ne.u32 p, n, 0; @p bra work;\n"
        "red.global.add.u32 [a], -1; ret; }\n";
    static const uint32_t before[2];
    (void)state;
    EVERYWHERE(e,
        emu_load(&e, text);
        const uint64_t out = emu_put(&e, before, sizeof before);
        RUN(&e, "k", 16, 1, out);
        const uint32_t most = ((uint32_t *)emu_bytes(&e, out))[1];
        switch (e.config.policy) {
        case POLICY_EARLY: assert_int_equal(most, 1); break;
        case POLICY_LATE: assert_int_equal(most, 16); break;
        case POLICY_RANDOM: assert_in_range(most, 2, 15); break;
        }
    )
}

/* Every thread gets to its end and writes a 1. Behind the results are zeros, for flags. */
static void all_come(const char *text, unsigned blocks, unsigned threads)
{
    static const uint32_t before[64];

    EVERYWHERE(e,
        emu_load(&e, text);
        const uint64_t out = emu_put(&e, before, sizeof before);
        RUN(&e, "k", blocks, threads, out);
        expect_u32(emu_bytes(&e, out), blocks * threads, ones);
    )
}

/* Each CTA goes round until all have come: they start although those before are never idle. */
static void test_meeting(void **state)
{
    static const char text[] = KERNEL(
        ".reg .b64 all; ld.param.u64 all, [out]; red.global.add.u32 [all+96], 1;\n"
        "wait: ld.relaxed.gpu.global.u32 r3, [all+96]; setp.ne.u32 p0, r3, 24; @p0 bra wait;\n"
        "mov.u32 r4, 1; st.global.u32 [rd0], r4;\n");
    (void)state;
    all_come(text, 24, 1);
}

/* Sleep is no work: however long a kernel sleeps, and whoever waits for it, it goes on. */
static void test_sleep(void **state)
{
    static const char *const texts[] = {
        /* all, again and again */
        KERNEL("mov.u32 r3, 200;\n"
               "again: nanosleep.u32 1000000; sub.u32 r3, r3, 1; setp.ne.u32 p0, r3, 0; @p0 bra again;\n"
               "mov.u32 r4, 1; st.global.u32 [rd0], r4;\n"),
        /* half a warp goes round while the other half sleeps */
        KERNEL(".reg .b64 all; ld.param.u64 all, [out]; mov.u32 r3, %laneid; setp.ge.u32 p0, r3, 16; @p0 bra sleeper;\n"
               "wait: ld.relaxed.gpu.global.u32 r3, [all+128]; setp.eq.u32 p0, r3, 0; @p0 bra wait;\n"
               "bra both;\n"
               "sleeper: nanosleep.u32 1000000; nanosleep.u32 1000000; nanosleep.u32 1000000; nanosleep.u32 1000000;\n"
               "mov.u32 r4, 1; st.relaxed.gpu.global.u32 [all+128], r4;\n"
               "both: mov.u32 r4, 1; st.global.u32 [rd0], r4;\n"),
    };
    (void)state;
    for (unsigned i = 0; i < 2; i++)
        all_come(texts[i], 1, 32);
}

/* Lanes that went different ways all get on, in whatever order they stand in the text. */
static void test_turns(void **state)
{
    static const char *const texts[] = {
        /* a chain: eights of the warp wait for those whose code is further down */
        KERNEL(".reg .b64 all; ld.param.u64 all, [out]; mov.u32 r3, %laneid; shr.u32 r3, r3, 3;\n"
               "setp.eq.u32 p0, r3, 3; @p0 bra three; setp.eq.u32 p0, r3, 2; @p0 bra two; setp.eq.u32 p0, r3, 1; @p0 bra one;\n"
               "zero: ld.relaxed.gpu.global.u32 r3, [all+128]; setp.eq.u32 p0, r3, 0; @p0 bra zero; bra join;\n"
               "one: ld.relaxed.gpu.global.u32 r3, [all+132]; setp.eq.u32 p0, r3, 0; @p0 bra one;\n"
               "st.relaxed.gpu.global.u32 [all+128], 1; bra join;\n"
               "two: ld.relaxed.gpu.global.u32 r3, [all+136]; setp.eq.u32 p0, r3, 0; @p0 bra two;\n"
               "st.relaxed.gpu.global.u32 [all+132], 1; bra join;\n"
               "three: st.relaxed.gpu.global.u32 [all+136], 1;\n"
               "join: mov.u32 r4, 1; st.global.u32 [rd0], r4;\n"),
        /* half a warp waits while the other half counts, and is in the same state all the time */
        KERNEL(".reg .b64 all; ld.param.u64 all, [out]; mov.u32 r3, %laneid; setp.ge.u32 p0, r3, 16; @p0 bra work;\n"
               "wait: ld.relaxed.gpu.global.u32 r3, [all+128]; setp.eq.u32 p0, r3, 0; @p0 bra wait; bra join;\n"
               "work: mov.u32 r3, 100000;\n"
               "more: sub.u32 r3, r3, 1; setp.ne.u32 p0, r3, 0; @p0 bra more;\n"
               "st.relaxed.gpu.global.u32 [all+128], 1;\n"
               "join: mov.u32 r4, 1; st.global.u32 [rd0], r4;\n"),
    };
    /* both halves wait for the other */
    static const char stuck[] =
        KERNEL(".reg .b64 all; ld.param.u64 all, [out]; mov.u32 r3, %laneid; setp.ge.u32 p0, r3, 16; @p0 bra high;\n"
               "low: ld.relaxed.gpu.global.u32 r3, [all+128]; setp.eq.u32 p0, r3, 0; @p0 bra low;\n"
               "st.relaxed.gpu.global.u32 [all+132], 1; bra join;\n"
               "high: ld.relaxed.gpu.global.u32 r3, [all+132]; setp.eq.u32 p0, r3, 0; @p0 bra high;\n"
               "st.relaxed.gpu.global.u32 [all+128], 1;\n"
               "join: mov.u32 r4, 1; st.global.u32 [rd0], r4;\n");
    static const uint32_t before[35];
    (void)state;
    for (unsigned i = 0; i < 2; i++)
        all_come(texts[i], 1, 32);
    EVERYWHERE(e,
        emu_load(&e, stuck);
        const uint64_t out = emu_put(&e, before, sizeof before);
        const struct emu_launch launch = { .grid = { 1 }, .block = { 32 } };
        assert_false(emu_run(&e, "k", &launch, 1, &out));
        assert_int_equal(e.trap.kind, TRAP_LIVELOCK);
        assert_non_null(strstr(e.trap.text, "back in a state"));
    )
}

/* CTAs that sleep on their way round are found to go round as others are. */
static void test_sleeping_livelock(void **state)
{
    static const char text[] = KERNEL(
        ".reg .b64 all; ld.param.u64 all, [out];\n"
        "wait: nanosleep.u32 100; ld.relaxed.gpu.global.u32 r3, [all+4]; setp.eq.u32 p0, r3, 0; @p0 bra wait;\n"
        "st.global.u32 [rd0], r3;\n");
    static const uint32_t before[2];
    (void)state;
    EVERYWHERE(e,
        emu_load(&e, text);
        const uint64_t out = emu_put(&e, before, sizeof before);
        const struct emu_launch launch = { .grid = { 2 }, .block = { 64 } };
        assert_false(emu_run(&e, "k", &launch, 1, &out));
        assert_int_equal(e.trap.kind, TRAP_LIVELOCK);
        assert_non_null(strstr(e.trap.text, "back in a state"));
    )
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_indirect_branch),
        cmocka_unit_test(test_spin_on_own_warp),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_shuffle),
        cmocka_unit_test(test_match),
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_named_barriers),
        cmocka_unit_test(test_own_barrier),
        cmocka_unit_test(test_barrier_reduction),
        cmocka_unit_test(test_setmaxnreg),
        cmocka_unit_test(test_setmaxnreg_again),
        cmocka_unit_test(test_unwritten_bytes),
        cmocka_unit_test(test_decided),
        cmocka_unit_test(test_undefined_guards),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_function_pointers),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_programmatic),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_starts),
        cmocka_unit_test(test_meeting),
        cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_sleeping_livelock),
    };

    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
