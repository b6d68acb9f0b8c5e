/*
 * The rules that ask for every fence and wait: what the ordinary rules let pass under some policy
 * is a trap under each, and what is right is right.
 */
#include "emu_tcgen_program.h"

static void open_strict(struct emu *e, enum machine_policy policy, uint64_t seed, unsigned rules)
{
    emu_open_b200(e, policy, seed);
    e->config.rules = rules;
    emu_renew(e);
}

#define WAITS "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [base], 0;\n@!p bra WAIT;\n"
#define AFTER "tcgen05.fence::after_thread_sync;\nshl.b32 addr, wrp, 21;\n"
#define WAIT_LD "tcgen05.wait::ld.sync.aligned;\nst.global"
#define STORE "st.global.v4.b32 [g], {r0, r1, r2, r3};\n"
#define READ "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r9}, [tm];\n"
/* a second product by the thread of the first: lane 0 of warp 1 is elected */
#define TAIL "tcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
#define AGAIN(fence) TAIL "setp.ne.u32 p, tid, 32;\n@p bra OVER;\n" fence \
    "tcgen05.mma.cta_group::1.kind::f16 [tm], ad, bd, idesc, 1;\n" \
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [base+8];\n" \
    "OVER: mbarrier.try_wait.parity.shared::cta.b64 p, [base+8], 0;\n@!p bra OVER;\n" \
    "bar.sync 0;\n"

/* 1 KB of ones to where A's ones are, and the wait for it. */
#define OVER_A "add.u32 r10, base, 8;\nadd.u32 r11, base, 1024;\nadd.u32 r12, base, 9216;\n" \
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [r10], 1024;\n" \
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes " \
    "[r11], [r12], 1024, [r10];\n" \
    "THERE: mbarrier.try_wait.parity.shared::cta.b64 p, [r10], 0;\n@!p bra THERE;\n"

static const struct {
    const char *from, *to;      /* NULL: the program as it is */
    unsigned rules;
    uint64_t kinds;
    const char *words;
} rows[] = {
    { NULL, NULL, RULE_STRICT, KIND(NONE), NULL },
    /* ordinary writes that the tensor core reads */
    { "fence.proxy.async.shared::cta;\n", "", RULE_STRICT_PROXY, KIND(PROXY), "fence.proxy.async" },
    { "fence.proxy.async.shared::cta;\n", "fence.proxy.async.global;\n", RULE_STRICT_PROXY,
      KIND(PROXY), NULL },
    { "fence.proxy.async.shared::cta;\n", "fence.proxy.async;\n", RULE_STRICT_PROXY, KIND(NONE),
      NULL },
    { "fence.proxy.async.shared::cta;\n", "fence.proxy.async.shared::cluster;\n",
      RULE_STRICT_PROXY, KIND(NONE), NULL },
    /* by the warp that issues alone, after the barrier: accepted */
    { "fence.proxy.async.shared::cta;\nsetp.ne.u32 p, tid, 0;\n@p bra READY;\n",
      "setp.ne.u32 p, tid, 0;\n@p bra READY;\n", RULE_STRICT_PROXY, KIND(PROXY), NULL },
    { "elect.sync _|lead", "fence.proxy.async.shared::cta;\nelect.sync _|lead", RULE_STRICT_PROXY,
      KIND(NONE), NULL },
    /* written again behind the fence */
    { "READY: bar.warp.sync 0xffffffff;\n",
      "READY: bar.warp.sync 0xffffffff;\nshl.b32 t, tid, 2;\nadd.u32 t, t, base;\n"
      "st.shared.b32 [t+1024], r0;\n", RULE_STRICT_PROXY, KIND(PROXY), NULL },
    { "elect.sync _|lead", "add.u32 t, base, 1024;\natom.shared.or.b32 r9, [t], 0;\n"
      "elect.sync _|lead", RULE_STRICT_PROXY, KIND(PROXY), NULL },
    /* a bulk or tensor copy reads too */
    { "elect.sync _|lead", "ld.param.u64 g, [pd];\nadd.u32 t, base, 4096;\n"
      "st.shared.b32 [t], r0;\ncp.async.bulk.global.shared::cta.bulk_group [g], [t], 16;\n"
      "elect.sync _|lead", RULE_STRICT_PROXY, KIND(PROXY), "cp.async.bulk" },
    /* a copy into Tensor Memory reads too, and st.bulk writes */
    { "elect.sync _|lead, 0xffffffff;\n@!lead bra ISSUED;\n",
      "elect.sync _|lead, 0xffffffff;\n@!lead bra ISSUED;\nadd.u32 t, base, 1024;\n"
      "st.bulk.weak.shared::cta [t], 512, 0;\n"
      "tcgen05.cp.cta_group::1.32x128b.warpx4 [tm], 0x0000400800000080;\n", RULE_STRICT_PROXY,
      KIND(PROXY), "tcgen05.cp" },
    /* a copy over what has been read by an ordinary instruction */
    { "elect.sync _|lead, 0xffffffff;\n@!lead bra ISSUED;\n",
      "ld.shared.b32 r9, [base+1024];\nelect.sync _|lead, 0xffffffff;\n@!lead bra ISSUED;\n" OVER_A,
      RULE_STRICT_PROXY, KIND(PROXY), "has read these bytes" },
    { "elect.sync _|lead, 0xffffffff;\n@!lead bra ISSUED;\n",
      "ld.shared.b32 r9, [base+1024];\nfence.proxy.async.shared::cta;\n"
      "elect.sync _|lead, 0xffffffff;\n@!lead bra ISSUED;\n" OVER_A, RULE_STRICT_PROXY,
      KIND(NONE), NULL },
    /* registers before wait::ld */
    { STORE, "add.u32 r9, r0, 1;\n" STORE, RULE_STRICT_WAIT, KIND(NONE), NULL },
    { "tcgen05.wait::ld.sync.aligned;\nst.global",
      "add.u32 r9, r0, 1;\ntcgen05.wait::ld.sync.aligned;\nst.global", RULE_STRICT_WAIT,
      KIND(PENDING), "before tcgen05.wait::ld" },
    { "tcgen05.wait::ld.sync.aligned;\nst.global", "st.global", RULE_STRICT_WAIT, KIND(PENDING),
      "before tcgen05.wait::ld" },
    { "tcgen05.wait::ld.sync.aligned;\nst.global", "tcgen05.wait::st.sync.aligned;\nst.global",
      RULE_STRICT_WAIT, KIND(PENDING), "before tcgen05.wait::ld" },
    /* the product, then a load: the wait, the fence behind it */
    { "tcgen05.fence::after_thread_sync;\nshl", "shl", RULE_STRICT_FENCE, KIND(FENCE),
      "after_thread_sync" },
    { WAITS AFTER, "tcgen05.fence::after_thread_sync;\n" WAITS "shl.b32 addr, wrp, 21;\n",
      RULE_STRICT_FENCE, KIND(FENCE), "after_thread_sync" },
    { WAITS AFTER "add", "WAIT:\n" AFTER "add", RULE_STRICT_FENCE,
      KIND(FENCE) | KIND(UNDEFINED), NULL },
    /* a store, then a load or the tensor core: wait::st, and fences between two warps */
    { LD, "LOAD: tcgen05.st.sync.aligned.32x32b.x1.b32 [addr], {r8};\n"
      "tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0, r1, r2, r3}, [addr];\n", RULE_STRICT_FENCE,
      KIND(FENCE), "tcgen05.wait::st" },
    /* a load, then a store of the same warp: wait::ld */
    { LD, LD "tcgen05.st.sync.aligned.32x32b.x1.b32 [addr], {r8};\n"
      "tcgen05.wait::st.sync.aligned;\n", RULE_STRICT_FENCE, KIND(FENCE), "tcgen05.wait::ld" },
    /* the accumulator used again by the thread that multiplied: fences on both sides */
    { TAIL, AGAIN("tcgen05.fence::after_thread_sync;\n"), RULE_STRICT, KIND(NONE), NULL },
    { TAIL, AGAIN(""), RULE_STRICT_FENCE, KIND(FENCE), "after_thread_sync" },
    /* two products of different shapes without a commit between */
    { MMA, MMA "mov.u32 r5, 0x080c0490;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [tm], ad, bd, r5, q;\n", RULE_STRICT_FENCE,
      KIND(FENCE), "a commit" },
};

static void fences_and_waits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (unsigned policy = 0; policy < 3; policy++) {
            struct emu e;
            char *report = NULL;
            bool ok;

            open_strict(&e, (enum machine_policy)policy, i, rows[i].rules);
            if (rows[i].from)
                replace(program, rows[i].from, rows[i].to);
            else
                memcpy(text, program, sizeof program);
            if (strstr(text, "{r8};"))
                replace_also("mov.u32 r0, 0x3f80", "mov.u32 r8, 0;\nmov.u32 r0, 0x3f80");
            ok = run_text(&e, 1);
            report = ok ? NULL : trap_report(&e.trap);
            if (!(rows[i].kinds >> (ok ? TRAP_NONE : e.trap.kind) & 1) ||
                (rows[i].words && !strstr(report, rows[i].words))) {
                print_error("row %u, policy %u:\n%s\n%s\n", i, policy, report ? report : "no trap",
                            rows[i].to ? rows[i].to : "");
                fail();
            }
            free(report);
            emu_close(&e);
        }
}

/* How the kernel in `text` ends, whose one parameter is the address of 1 KB. */
static enum trap_kind outcome(bool strict, unsigned policy, unsigned ctas, unsigned threads)
{
    struct emu e;

    emu_open(&e, (enum machine_policy)policy, 1);
    e.config.rules = strict ? RULE_STRICT : 0;
    emu_renew(&e);
    emu_load(&e, text);

    const uint64_t out = emu_alloc(&e, 1024);
    const bool ok = emu_run(&e, "k", &(struct emu_launch){
        .grid = { ctas }, .block = { threads } }, 1, &out);
    const enum trap_kind kind = ok ? TRAP_NONE : e.trap.kind;

    emu_close(&e);
    return kind;
}

/* wgmma's operands too, written by the warpgroup itself; and by the peer CTA, fenced there. */
static void hopper(void **state)
{
    static const char written[] = HEAD
        ".visible .entry k(.param .u64 out)\n.reqntid 128\n{\n"
        ".shared .align 1024 .b8 sm[4096];\n.reg .b32 t, at, z;\n.reg .f32 d<4>;\n"
        ".reg .b64 a;\n"
        "mov.u32 t, %%tid.x;\nmov.u32 at, sm;\nmad.lo.u32 at, t, 32, at;\nmov.u32 z, 0;\n"
        "st.shared.v4.b32 [at], {z, z, z, z};\nst.shared.v4.b32 [at+16], {z, z, z, z};\n"
        "%sbar.sync 0;\n"
        "mov.u32 at, sm;\nshr.u32 at, at, 4;\ncvt.u64.u32 a, at;\n"
        "or.b64 a, a, 0x0000000800400000;\n"
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
        "{d0, d1, d2, d3}, a, a, 0, 1, 1, 0, 0;\n"
        "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nret;\n}\n";
    static const char sent[] = HEAD
        ".visible .entry k(.param .u64 out)\n.reqntid 32\n.reqnctapercluster 2\n{\n"
        ".shared .align 128 .b8 sm[512];\n.reg .b32 t, at, far, rank, v;\n.reg .b64 g;\n"
        ".reg .pred p;\n"
        "mov.u32 t, %%tid.x;\nmov.u32 rank, %%cluster_ctarank;\nxor.b32 v, rank, 1;\n"
        "mov.u32 at, sm;\nmad.lo.u32 at, t, 16, at;\nmapa.shared::cluster.u32 far, at, v;\n"
        "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
        "st.shared::cluster.v4.b32 [far], {t, t, t, t};\n%s"
        "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
        "ld.param.u64 g, [out];\nmad.wide.u32 g, rank, 512, g;\nmov.u32 at, sm;\n"
        "setp.eq.u32 p, t, 0;\n"
        "@p cp.async.bulk.global.shared::cta.bulk_group [g], [at], 512;\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;\n}\n";
    static const char *const texts[] = { written, sent };

    (void)state;
    for (unsigned i = 0; i < 2; i++)
        for (unsigned fenced = 0; fenced < 2; fenced++)
            for (unsigned policy = 0; policy < 3; policy++) {
                snprintf(text, sizeof text, texts[i], fenced ? "fence.proxy.async;\n" : "");
                assert_int_equal(outcome(true, policy, 1 + i, i ? 32 : 128),
                                 fenced ? TRAP_NONE : TRAP_PROXY);
            }
}

/* A CTA leaves: what it copies out has been read, and it knows. */
static void exits(void **state)
{
    static const struct { const char *end; enum trap_kind kind; } ends[] = {
        { "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n", TRAP_NONE },
        { "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n", TRAP_NONE },
        { "cp.async.bulk.commit_group;\ncp.async.bulk.commit_group;\n"
          "cp.async.bulk.wait_group.read 1;\n", TRAP_NONE },
        { "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 1;\n", TRAP_EXIT_PENDING },
        { "cp.async.bulk.commit_group;\n", TRAP_EXIT_PENDING },
        { "cp.async.bulk.wait_group 0;\n", TRAP_EXIT_PENDING },
        { "", TRAP_EXIT_PENDING },
    };

    (void)state;
    for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++)
        for (unsigned strict = 0; strict < 2; strict++)
            for (unsigned policy = 0; policy < 3; policy++) {
                snprintf(text, sizeof text, HEAD
                         ".visible .entry k(.param .u64 out)\n{\n.shared .align 16 .b8 s[16];\n"
                         ".reg .b32 a, z;\n.reg .b64 g;\nmov.u32 a, s;\nmov.u32 z, 7;\n"
                         "st.shared.v4.b32 [a], {z, z, z, z};\nfence.proxy.async;\n"
                         "ld.param.u64 g, [out];\n"
                         "cp.async.bulk.global.shared::cta.bulk_group [g], [a], 16;\n%sret;\n}\n",
                         ends[i].end);
                assert_int_equal(outcome(strict, policy, 1, 1), strict ? ends[i].kind : TRAP_NONE);
            }
}

/* A CTA of a pair leaves at once, or stays until both have met; the other arrives at its barrier later. */
static void arrivals_at_the_gone(void **state)
{
    (void)state;
    for (unsigned stays = 0; stays < 2; stays++)
        for (unsigned strict = 0; strict < 2; strict++)
            for (unsigned policy = 0; policy < 3; policy++) {
                snprintf(text, sizeof text, HEAD
                         ".visible .entry k(.param .u64 out)\n.reqntid 32\n.reqnctapercluster 2\n{\n"
                         ".shared .align 8 .b64 bar;\n.reg .b32 t, at, rank, i;\n.reg .pred p, q;\n"
                         "mov.u32 t, %%tid.x;\nmov.u32 rank, %%cluster_ctarank;\nmov.u32 at, bar;\n"
                         "setp.eq.u32 p, t, 0;\n@p mbarrier.init.shared::cta.b64 [at], 2;\n"
                         "@p fence.mbarrier_init.release.cluster;\nbar.warp.sync -1;\n"
                         "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
                         "setp.eq.u32 q, rank, 1;\n@q bra gone;\nmov.u32 i, 0;\n"
                         "again:\nadd.u32 i, i, 1;\nsetp.lt.u32 q, i, 2000;\n@q bra again;\n"
                         "mapa.shared::cluster.u32 at, at, 1;\n"
                         "@p mbarrier.arrive.shared::cluster.b64 _, [at];\n"
                         "gone:\n%sret;\n}\n",
                         stays ? "bar.warp.sync -1;\nbarrier.cluster.arrive.aligned;\n"
                                 "barrier.cluster.wait.aligned;\n" : "");
                assert_int_equal(outcome(strict, policy, 2, 32),
                                 strict && !stays ? TRAP_DEAD_TARGET : TRAP_NONE);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fences_and_waits),
        cmocka_unit_test(hopper),
        cmocka_unit_test(exits),
        cmocka_unit_test(arrivals_at_the_gone),
    };

    return cmocka_run_group_tests_name("strict", tests, NULL, NULL);
}
