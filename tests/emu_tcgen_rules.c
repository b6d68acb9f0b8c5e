/* A small program with tcgen05, right under every policy, and what may be wrong with it: one trap
 * for each mistake. */
#include "emu_tcgen_program.h"

static void right(void **state)
{
    (void)state;
    for (unsigned policy = 0; policy < 3; policy++)
        for (unsigned seed = 0; seed < 20; seed++) {
            struct emu e;

            emu_open_b200(&e, policy, seed);
            memcpy(text, program, sizeof program);
            if (!run_text(&e, 1)) {
                print_error("%s\n", trap_report(&e.trap));
                fail();
            }
            emu_close(&e);
        }
}

/* 1 KB of ones to where A's ones are. */
#define INTO_A "add.u32 r10, base, 8;\nadd.u32 r11, base, 1024;\nadd.u32 r12, base, 9216;\n" \
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [r10], 1024;\n" \
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes " \
    "[r11], [r12], 1024, [r10];\n"
#define AWAIT "THERE: mbarrier.try_wait.parity.shared::cta.b64 p, [r10], 0;\n@!p bra THERE;\n"

struct row {
    const char *from, *to;
    uint64_t kinds;             /* a bit each; 0 stands for PENDING under the late policy */
};

static const struct row rows[] = {
    /* allocation */
    { "mov.u32 r1, 64;", "mov.u32 r1, 48;", KIND(TENSOR_MEMORY) },
    { "mov.u32 r1, 64;", "mov.u32 r1, 1024;", KIND(TENSOR_MEMORY) },
    { ALLOC, ALLOC "mov.u32 r1, 128;\n" ALLOC, KIND(TENSOR_MEMORY) },
    { ALLOC, RELINQUISH ALLOC, KIND(TENSOR_MEMORY) },
    { ALLOC, "setp.lt.u32 q, lane, 16;\n@q " ALLOC, KIND(DIVERGENT) },
    { "[base+16], r1;", "[base+18], r1;", KIND(MISALIGNED) },
    { "[base+16], r1;", "[base+8], r1;", KIND(MBARRIER_MEMORY) },
    { "mov.u32 r1, 64;", "add.u32 r1, lane, 64;", KIND(MISMATCH) },
    { DEALLOC, "", KIND(TENSOR_MEMORY) },
    { DEALLOC, "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32;\n", KIND(TENSOR_MEMORY) },
    { DEALLOC, DEALLOC DEALLOC, KIND(TENSOR_MEMORY) },
    { "mov.u32 r1, 64;", "mov.u32 r1, 32;", KIND(TENSOR_MEMORY) },
    /* loads */
    { "shl.b32 addr, wrp, 21;", "xor.b32 addr, wrp, 1;\nshl.b32 addr, addr, 21;",
      KIND(TENSOR_MEMORY) },
    { "shl.b32 addr, wrp, 21;", "shl.b32 addr, wrp, 21;\nadd.u32 addr, addr, 65536;",
      KIND(TENSOR_MEMORY) },
    { "add.u32 addr, addr, tm;", "add.u32 addr, addr, tm;\nadd.u32 addr, addr, 61;",
      KIND(TENSOR_MEMORY) },
    { "add.u32 addr, addr, tm;", "add.u32 addr, addr, tm;\nadd.u32 addr, addr, 512;",
      KIND(TENSOR_MEMORY) },
    { "add.u32 addr, addr, tm;", "add.u32 addr, addr, tm;\nadd.u32 addr, addr, lane;",
      KIND(MISMATCH) },
    { LD, "LOAD: setp.lt.u32 q, lane, 16;\n@q tcgen05.ld.sync.aligned.32x32b.x4.b32 "
      "{r0, r1, r2, r3}, [addr];\n", KIND(DIVERGENT) },
    /* every warp may name lane 0; bits 23 and up are nothing */
    { "shl.b32 addr, wrp, 21;", "mov.b32 addr, 0;", KIND(NONE) },
    { "add.u32 addr, addr, tm;", "add.u32 addr, addr, tm;\nor.b32 addr, addr, 0xff800000;",
      KIND(NONE) },
    { MMA, "or.b32 r4, tm, 0xc0000000;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [r4], ad, bd, idesc, q;\n", KIND(NONE) },
    /* multiplying */
    { "idesc, q;\nadd", "idesc, 1;\nadd", KIND(UNDEFINED) },
    { "0x0000400800800080", "0x0000000800800080", KIND(DESCRIPTOR) },
    { "0x0000400800800080", "0x6000400800800080", KIND(DESCRIPTOR) },
    { "0x0000400800800080", "0x2000400800800080", KIND(DESCRIPTOR) },
    { "0x0000400800800080", "0x0010400800800080", KIND(DESCRIPTOR) },
    { "0x0000400800800080", "0x0000400840800080", KIND(DESCRIPTOR) },
    { "0x0000400800800080", "0x0020400800800080", KIND(DESCRIPTOR) },
    { "0x0000400800800080", "0x0002400800800080", KIND(UNVERIFIED) },
    { "0x0000400800800080", "0x00004fff00800080", KIND(BOUNDS) },
    { "0x08100490", "0x081004d0", KIND(DESCRIPTOR) },           /* bit 6 */
    { "0x08100490", "0x08900490", KIND(DESCRIPTOR) },           /* bit 23 */
    { "0x08100490", "0x28100490", KIND(DESCRIPTOR) },           /* bit 29 */
    { "0x08100490", "0x48100490", KIND(DESCRIPTOR) },           /* the shift of .ws */
    { "0x08100490", "0x08100498", KIND(DESCRIPTOR) },           /* saturation */
    { "0x08100490", "0x08100494", KIND(DESCRIPTOR) },           /* sparse */
    { "0x08100490", "0x08100590", KIND(DESCRIPTOR) },           /* no type of A */
    { "0x08100490", "0x08100480", KIND(DESCRIPTOR) },           /* bf16 to f16 */
    { "0x08100490", "0x0c100490", KIND(DESCRIPTOR) },           /* M = 192 */
    { "0x08100490", "0x08000490", KIND(DESCRIPTOR) },           /* N = 0 */
    { "0x08100490", "0x08420490", KIND(DESCRIPTOR) },           /* N = 264 */
    { "0x08100490", "0x08200490", KIND(TENSOR_MEMORY) | KIND(BOUNDS) },         /* N = 128 */
    { MMA, "add.u32 r4, tm, 8;\ntcgen05.mma.cta_group::1.kind::f16 [r4], ad, bd, idesc, q;\n",
      KIND(TENSOR_MEMORY) },
    { MMA, "add.u32 r4, tm, 0x100000;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [r4], ad, bd, idesc, q;\n", KIND(TENSOR_MEMORY) },
    { MMA, "tcgen05.mma.cta_group::1.kind::f16.collector::a::use [tm], ad, bd, idesc, q;\n",
      KIND(INSTRUCTION) },
    /* .ws: M = 128, N = 64, then M = 192, N = 32, zeroed columns, collectors, sparse */
    { MMA, "tcgen05.mma.ws.cta_group::1.kind::f16 [tm], ad, bd, idesc, q, 0;\n", KIND(NONE) },
    { MMA, "mov.u32 r5, 0x0c100490;\n"
      "tcgen05.mma.ws.cta_group::1.kind::f16 [tm], ad, bd, r5, q;\n", KIND(DESCRIPTOR) },
    { MMA, "mov.u32 r5, 0x08080490;\n"
      "tcgen05.mma.ws.cta_group::1.kind::f16 [tm], ad, bd, r5, q;\n", KIND(DESCRIPTOR) },
    { MMA, "tcgen05.mma.ws.cta_group::1.kind::f16 [tm], ad, bd, idesc, q, 0x8000000000;\n",
      KIND(INSTRUCTION) },
    { MMA, "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::use [tm], ad, bd, idesc, q;\n",
      KIND(INSTRUCTION) },
    { MMA, "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::fill [tm], ad, bd, idesc, q;\n"
      "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::use [tm], ad, bd, idesc, q;\n",
      KIND(INSTRUCTION) },
    { MMA, "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::fill [tm], ad, bd, idesc, q;\n"
      "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::lastuse [tm], ad, bd, idesc, q;\n",
      KIND(NONE) },
    { MMA, "tcgen05.mma.ws.sp.cta_group::1.kind::f16 [tm], ad, bd, [tm], idesc, q;\n",
      KIND(INSTRUCTION) },
    { MMA, "tcgen05.mma.sp.cta_group::1.kind::f16 [tm], ad, bd, [tm], idesc, q;\n",
      KIND(INSTRUCTION) },
    { MMA, "mov.u32 r5, 0x08100420;\n"
      "tcgen05.mma.cta_group::1.kind::i8 [tm], ad, bd, r5, q, 1;\n", KIND(INSTRUCTION) },
    { "setp.lt.u32 p, i, 16384;\n@p bra FILL;", "setp.lt.u32 p, i, 8192;\n@p bra FILL;",
      KIND(UNDEFINED) },
    /* commit */
    { "@!lead bra ISSUED;\n", "setp.eq.u32 p, lane, 5;\n@p " COMMIT "@!lead bra ISSUED;\n",
      KIND(INSTRUCTION) },
    { COMMIT, "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [base+24];\n",
      KIND(MBARRIER) },
    { COMMIT, "mov.u16 msk, 3;\ntcgen05.commit.cta_group::1.mbarrier::arrive::one"
      ".shared::cluster.multicast::cluster.b64 [base], msk;\n", KIND(BOUNDS) },
    { COMMIT, "", KIND(DEADLOCK) },
    { COMMIT, COMMIT COMMIT, KIND(MBARRIER) | KIND(DEADLOCK) | KIND(NONE) },
    /* a copy into the operands: over, and under way */
    { "@!lead bra ISSUED;\n", "@!lead bra ISSUED;\n" INTO_A AWAIT, KIND(NONE) },
    { "@!lead bra ISSUED;\n", "@!lead bra ISSUED;\n" INTO_A, 0 },
    /* what nothing orders */
    { "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [base], 0;\n@!p bra WAIT;\n", "WAIT:\n",
      0 },
    { "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [base], 0;\n@!p bra WAIT;\n",
      "WAIT: tcgen05.ld.sync.aligned.32x32b.x1.b32 {r9}, [tm];\n", 0 },
    { MMA, MMA "mov.u32 r5, 0x080c0490;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [tm], ad, bd, r5, q;\n", 0 },
    { LD, "LOAD: tcgen05.st.sync.aligned.32x32b.x1.b32 [addr], {r0};\n"
      "tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0, r1, r2, r3}, [addr];\n", 0 },
    { LD "tcgen05.wait::ld.sync.aligned;\n",
      LD "tcgen05.st.sync.aligned.32x32b.x1.b32 [addr], {r8};\ntcgen05.wait::st.sync.aligned;\n",
      0 },
    /* the load and the next product over its columns; the store and the product that reads it */
    { LD "tcgen05.wait::ld.sync.aligned;\n", LD "setp.ne.u32 q, lane, 31;\n"
      "@!q tcgen05.mma.cta_group::1.kind::f16 [tm], ad, bd, idesc, 0;\n", 0 },
    { "elect.sync _|lead, 0xffffffff;\n@!lead bra ISSUED;\n",
      "mov.b32 r8, 0;\nmov.u32 r5, 0x08040490;\n"
      "tcgen05.st.sync.aligned.32x32b.x8.b32 [tm+48], {r8,r8,r8,r8,r8,r8,r8,r8};\n"
      "elect.sync _|lead, 0xffffffff;\n@!lead bra ISSUED;\n"
      "mov.b64 bd, 0x0000400800400280;\nsetp.eq.u32 q, tid, 5000;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [tm], [tm+48], bd, r5, q;\n", 0 },
    { LD, "LOAD: setp.ne.u32 q, lane, 31;\n"
      "@!q tcgen05.cp.cta_group::1.128x128b [tm], 0x0000400800800080;\n"
      "tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0, r1, r2, r3}, [addr];\n", 0 },
};

/* Runs the program with one mistake; TRAP_NONE: nothing was found. */
static enum trap_kind found(const struct row *row, enum machine_policy policy, uint64_t seed)
{
    enum trap_kind kind = TRAP_NONE;
    struct emu e;

    emu_open_b200(&e, policy, seed);
    replace(program, row->from, row->to);
    if (strstr(text, "r8};"))
        replace_also("mov.u32 r0, 0x3f80", "mov.u32 r8, 0;\nmov.u32 r0, 0x3f80");
    if (!run_text(&e, 1))
        kind = e.trap.kind;
    emu_close(&e);
    return kind;
}

static void complain(unsigned i, enum machine_policy policy, enum trap_kind kind)
{
    fail_msg("row %u, policy %d, instead of\n%s\nthere is\n%s\ntrap: %s", i, (int)policy,
             rows[i].from, rows[i].to, kind ? trap_name(kind) : "none");
}

static void wrong(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (unsigned policy = 0; rows[i].kinds && policy < 3; policy++) {
            const enum trap_kind kind = found(&rows[i], policy, i);

            if (!(rows[i].kinds >> kind & 1))
                complain(i, policy, kind);
        }
}

/* A race shows itself when engines are late, with most orders in which they may finish. */
static void races(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned times = 0;

        for (unsigned seed = 0; !rows[i].kinds && seed < 12; seed++) {
            const enum trap_kind kind = found(&rows[i], POLICY_LATE, seed);

            times += kind == TRAP_PENDING || kind == TRAP_UNDEFINED;    /* nothing written yet */
            if (kind != TRAP_PENDING && kind != TRAP_UNDEFINED && kind != TRAP_NONE)
                complain(i, POLICY_LATE, kind);
        }
        if (!rows[i].kinds && times < 4)
            complain(i, POLICY_LATE, TRAP_NONE);
    }
}

/* ---- pairs ----------------------------------------------------------------------------------- */

#define PAIR \
    ".version 8.8\n.target sm_100a\n.address_size 64\n.shared .align 16 .b8 sm[64];\n" \
    ".visible .entry k(.param .u64 pd)\n.reqntid 32\n.reqnctapercluster 2\n{\n" \
    ".reg .b32 base, tm, rank, a;\n.reg .b64 ad;\n.reg .pred p, q;\n" \
    "mov.u32 base, sm;\nmov.u32 rank, %cluster_ctarank;\nsetp.ne.u32 q, rank, 0;\n" \
    "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
#define PAIR_ALLOC "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [base], 64;\n"
#define PAIR_DEALLOC "tcgen05.dealloc.cta_group::2.sync.aligned.b32 tm, 64;\n"
#define TOGETHER "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
#define GET "ld.shared.b32 tm, [base];\n"

static const struct {
    const char *text;
    uint64_t kinds;
    const char *words;          /* of the report */
} pairs[] = {
    { PAIR PAIR_ALLOC GET TOGETHER PAIR_DEALLOC "ret;\n}\n", KIND(NONE), NULL },
    { PAIR "@q bra E;\n" PAIR_ALLOC "E: ret;\n}\n", KIND(DEADLOCK) | KIND(DEAD_TARGET), NULL },
    { PAIR "@q bra E;\n" PAIR_ALLOC "E: " TOGETHER "ret;\n}\n", KIND(DEADLOCK),
      "tcgen05.alloc of the pair's other CTA" },
    { PAIR "selp.u32 a, 32, 64, q;\n"
      "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [base], a;\nret;\n}\n",
      KIND(MISMATCH), NULL },
    { PAIR PAIR_ALLOC GET "@q bra E;\n" PAIR_DEALLOC "E: ret;\n}\n", KIND(TENSOR_MEMORY), NULL },
    /* dealloc may wait for the other CTA's, which waits for the barrier */
    { PAIR PAIR_ALLOC GET "@q bra E;\n" PAIR_DEALLOC TOGETHER "ret;\n"
      "E: " TOGETHER PAIR_DEALLOC "ret;\n}\n", KIND(NONE) | KIND(DEADLOCK), NULL },
    /* a product for both when the other has freed its columns and left */
    { PAIR PAIR_ALLOC GET "@!q bra L;\n" PAIR_DEALLOC "bra E;\n"
      "L: mov.u32 a, 0;\nW: nanosleep.u32 1000;\nadd.u32 a, a, 1;\nsetp.lt.u32 p, a, 50;\n"
      "@p bra W;\nmov.b64 ad, 0x0000400800800040;\nelect.sync _|p, -1;\n"
      "@p tcgen05.mma.cta_group::2.kind::f16 [tm], ad, ad, 0x10040490, 0;\nE: ret;\n}\n",
      KIND(DEAD_TARGET) | KIND(TENSOR_MEMORY), NULL },
    /* the peer has exited */
    { PAIR "@q bra E;\nmov.u32 tm, 0;\nW: nanosleep.u32 1000;\nadd.u32 tm, tm, 1;\n"
      "setp.lt.u32 p, tm, 50;\n@p bra W;\n" PAIR_ALLOC "E: ret;\n}\n", KIND(DEAD_TARGET), NULL },
};

static void pair_rules(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (unsigned policy = 0; policy < 3; policy++) {
            struct emu e;
            uint64_t d[1] = { 0 };
            char *report;
            bool ok;

            emu_open_b200(&e, policy, i);
            emu_load(&e, pairs[i].text);
            ok = emu_run(&e, "k", &(struct emu_launch){ .grid = { 2 }, .block = { 32 } }, 1, d);
            report = ok ? NULL : trap_report(&e.trap);
            if (!(pairs[i].kinds >> (ok ? TRAP_NONE : e.trap.kind) & 1) ||
                (pairs[i].words && !(report && strstr(report, pairs[i].words)))) {
                print_error("row %u, policy %u: %s\n%s\n", i, policy, report ? report : "no trap",
                            pairs[i].text);
                fail();
            }
            free(report);
            emu_close(&e);
        }
}

/* Columns that a CTA frees and gets again hold nothing. */
static void poison_again(void **state)
{
    (void)state;
    for (unsigned policy = 0; policy < 3; policy++) {
        struct emu e;

        emu_open_b200(&e, policy, 1);
        replace(program, RELINQUISH, "");
        replace_also(DEALLOC, DEALLOC "mov.u32 r1, 64;\n" ALLOC
                     "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [tm];\n"
                     "tcgen05.wait::ld.sync.aligned;\nst.global.b32 [g+-16], r0;\n" DEALLOC);
        assert_false(run_text(&e, 1));
        assert_int_equal(e.trap.kind, TRAP_UNDEFINED);
        emu_close(&e);
    }
}

/* In a cluster the address of a shared variable has the CTA's rank in bits 24 and up. */
static void shared_symbols(void **state)
{
    static const char ranks[] =
        ".version 8.8\n.target sm_100a\n.address_size 64\n.shared .align 16 .b8 sm[64];\n"
        ".visible .entry k(.param .u64 pd)\n{\n.reg .b32 a, b, r;\n.reg .b64 g;\n"
        "mov.u32 a, sm;\nmov.u32 r, %cluster_ctarank;\nshl.b32 b, r, 24;\nsub.u32 a, a, b;\n"
        "ld.param.u64 g, [pd];\nmad.wide.u32 g, r, 4, g;\nst.global.b32 [g], a;\nret;\n}\n";
    struct emu e;
    uint64_t d;

    (void)state;
    emu_open_b200(&e, POLICY_RANDOM, 1);
    emu_load(&e, ranks);
    d = emu_alloc(&e, 16);
    emu_must(&e, "k", &(struct emu_launch){ .grid = { 4 }, .block = { 1 }, .cluster = { 4 } }, 1,
             &d);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(((uint32_t *)emu_bytes(&e, d))[i], 0x400);
    emu_close(&e);
}

/* One kernel uses one cta_group. */
static void groups(void **state)
{
    static const char mixed[] =
        PAIR PAIR_ALLOC "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nret;\n}\n";

    (void)state;
    emu_refused(mixed, 100, "both .cta_group::1 and .cta_group::2");
}

/* ---- several CTAs of one multiprocessor ------------------------------------------------------ */

/* 512 columns each: they take turns. Base 0 only where nobody else has columns. */
static void turns(void **state)
{
    static const unsigned columns[] = { 512, 256, 128 };

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        for (unsigned policy = 0; policy < 3; policy++) {
            struct emu e;
            char number[64];

            emu_open_b200(&e, policy, i);
            e.config.sms = 1;
            emu_renew(&e);
            snprintf(number, sizeof number, "mov.u32 r1, %u;", columns[i]);
            replace(program, "mov.u32 r1, 64;", number);
            snprintf(number, sizeof number, "b32 tm, %u;", columns[i]);
            replace_also("b32 tm, 64;", number);
            replace_also("mad.wide.u32 g, tid, 256, g;",
                         "mov.u32 i, %ctaid.x;\nmad.lo.u32 i, i, 128, tid;\n"
                         "mad.wide.u32 g, i, 256, g;");
            if (!run_text(&e, 7)) {
                print_error("%s\n", trap_report(&e.trap));
                fail();
            }
            emu_close(&e);
        }
}

/* Without relinquishing, the second CTA waits until the first is gone; that is no deadlock. */
static void permit(void **state)
{
    struct emu e;

    (void)state;
    emu_open_b200(&e, POLICY_RANDOM, 3);
    e.config.sms = 1;
    emu_renew(&e);
    replace(program, RELINQUISH, "");
    replace_also("mad.wide.u32 g, tid, 256, g;",
                 "mov.u32 i, %ctaid.x;\nmad.lo.u32 i, i, 128, tid;\nmad.wide.u32 g, i, 256, g;");
    assert_true(run_text(&e, 5));
    emu_close(&e);
}

/* The result's place as a generic address: its low word is the shared one. Of another kind of memory
 * it is an error. */
static void generic_result(void **state)
{
    (void)state;
    struct emu e;

    emu_open_b200(&e, 0, 1);
    replace(program, ALLOC,
            "mov.u64 bd, sm;\ncvta.shared.u64 bd, bd;\n"
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bd+16], r1;\n");
    assert_true(run_text(&e, 1));
    emu_close(&e);
    emu_open_b200(&e, 0, 1);
    replace(program, ALLOC,
            "ld.param.u64 bd, [pd];\n"
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bd+16], r1;\n");
    assert_false(run_text(&e, 1));
    assert_int_equal(e.trap.kind, TRAP_WRONG_SPACE);
    emu_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generic_result), cmocka_unit_test(right), cmocka_unit_test(wrong), cmocka_unit_test(races),
        cmocka_unit_test(pair_rules), cmocka_unit_test(poison_again),
        cmocka_unit_test(shared_symbols),
        cmocka_unit_test(groups), cmocka_unit_test(turns), cmocka_unit_test(permit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
