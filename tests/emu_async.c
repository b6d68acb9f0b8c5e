/*
 * Asynchronous instructions as programs: bulk copies and reductions, clusters, cp.async, remote
 * stores, tensor maps that a kernel edits. Every policy, several seeds; then one thing wrong.
 */
#include "emu_run.h"

#include "tmap.h"

enum { WORDS = 1024 };

#define ENTRY(params, smem) \
    HEAD ".extern .shared .align 1024 .b8 " smem "[];\n" \
    ".visible .entry k(" params ")\n{\n" \
    ".reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .pred %p<8>; .reg .f32 %f<8>;\n"

#define ONE_THREAD "mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; @%p0 bra OUT;\n"

#define WAIT(bar, parity) \
    "{ .reg .pred ok_;\n" \
    "again_: mbarrier.try_wait.parity.shared::cta.b64 ok_, [" bar "], " parity ";\n" \
    "@!ok_ bra again_; }\n"

#define PARAM(name, reg) "ld.param.u64 " reg ", [" name "];\n"

struct edit {
    const char *from, *to;
    enum trap_kind kind;
};

/* A copy of text with one place changed; NULL: unchanged. */
static char *edited(const char *text, const struct edit *edit)
{
    char *const out = malloc(strlen(text) + 4096);

    assert_non_null(out);
    if (!edit) {
        strcpy(out, text);
        return out;
    }
    const char *at = strstr(text, edit->from);
    if (!at)
        fail_msg("no '%s' in the program", edit->from);
    sprintf(out, "%.*s%s%s", (int)(at - text), text, edit->to, at + strlen(edit->from));
    return out;
}

typedef void topic_fn(struct emu *e, const struct edit *edit);

/* Loads, runs, and looks at the trap if there must be one. False: it trapped. */
static bool go(struct emu *e, const char *text, const struct edit *edit, struct emu_launch launch,
               unsigned count, const uint64_t *values)
{
    char *const program = edited(text, edit);

    emu_load(e, program);
    free(program);
    if (!launch.grid[0])
        launch.grid[0] = 1;
    if (!edit) {
        emu_must(e, "k", &launch, count, values);
        return true;
    }
    if (emu_run(e, "k", &launch, count, values))
        fail_msg("'%s' for '%s': no trap", edit->to, edit->from);
    if (e->trap.kind != edit->kind) {
        char *report = trap_report(&e->trap);

        print_error("'%s' for '%s': want %s\n%s\n", edit->to, edit->from, trap_name(edit->kind),
                    report);
        free(report);
        fail();
    }
    return false;
}

static void all_policies(topic_fn *topic, const struct edit *edits, unsigned count)
{
    for (unsigned policy = 0; policy < 3; policy++)
        for (unsigned seed = 0; seed < 4; seed++) {
            struct emu e;

            emu_open(&e, policy, seed);
            topic(&e, NULL);
            emu_close(&e);
        }
    for (unsigned i = 0; i < count; i++)
        for (unsigned policy = 0; policy < 3; policy++) {
            struct emu e;

            emu_open(&e, policy, i);
            topic(&e, &edits[i]);
            emu_close(&e);
        }
}

#define TOPIC(name, ...) \
    static void name##_topic(void **state) \
    { \
        static const struct edit edits[] = { __VA_ARGS__ }; \
        (void)state; \
        all_policies(name, edits, sizeof edits / sizeof edits[0]); \
    }

static uint32_t *pattern(void)
{
    static uint32_t words[WORDS];

    for (unsigned i = 0; i < WORDS; i++)
        words[i] = i * 2654435761u;
    return words;
}

/* ---- bulk copies of one CTA ---- */

static void bulk(struct emu *e, const struct edit *edit)
{
    static const char text[] = ENTRY(".param .u64 src, .param .u64 dst", "sm")
        ONE_THREAD PARAM("src", "%rd0") PARAM("dst", "%rd1")
        "mov.u32 %r1, sm; add.u32 %r2, %r1, 4096; mov.u32 %r3, 4096;\n"
        "mbarrier.init.shared::cta.b64 [%r2], 1;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], %r3;\n"
        "cp.async.bulk.prefetch.L2.global [%rd0], %r3;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], %r3, "
        "[%r2];\n"
        WAIT("%r2", "0")
        "ld.shared.u32 %r4, [%r1+8]; add.u32 %r4, %r4, 1; st.shared.u32 [%r1+8], %r4;\n"
        "fence.proxy.async.shared::cta;\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r3;\n"
        "cp.async.bulk.commit_group;\n"
        "cp.async.bulk.wait_group.read 0;\n"
        "st.shared.u32 [%r1], 7;\n"
        "cp.async.bulk.wait_group 0;\n"
        "ld.global.u32 %r5, [%rd1+8]; st.global.u32 [%rd1+12], %r5;\n"
        "OUT: ret; }\n";
    const uint32_t *in = pattern();
    const uint64_t src = emu_put(e, in, 4096), dst = emu_alloc(e, 4096);

    if (!go(e, text, edit, (struct emu_launch){ .block = { 32 }, .smem = 8192 }, 2,
            (uint64_t[]){ src, dst }))
        return;
    const uint32_t *out = emu_bytes(e, dst);
    for (unsigned i = 0; i < WORDS; i++) {
        const uint32_t want = i == 2 || i == 3 ? in[2] + 1 : in[i];
        if (out[i] != want)
            fail_msg("word %u is %08x, want %08x", i, out[i], want);
    }
}

TOPIC(bulk,
    { "[%r1], [%rd0], %r3, [%r2]", "[%r1+4], [%rd0], %r3, [%r2]", TRAP_MISALIGNED },
    { "[%r1], [%rd0], %r3, [%r2]", "[%r1], [%rd0+8], %r3, [%r2]", TRAP_MISALIGNED },
    { "mov.u32 %r3, 4096;", "mov.u32 %r3, 4104;", TRAP_TENSOR_ACCESS },
    { "[%r1], [%rd0], %r3, [%r2]", "[%r1], [%rd0+16], %r3, [%r2]", TRAP_BOUNDS },
    { "[%r1], [%rd0], %r3, [%r2]", "[%r1], [%rd0], 16384, [%r2]", TRAP_BOUNDS },
    { "[%r1], [%rd0], %r3, [%r2]", "[%r1+16], [%rd0], %r3, [%r2]", TRAP_MBARRIER_MEMORY },
    { "[%r1], [%rd0], %r3, [%r2]", "[%r1], [%rd0], %r3, [%r2+8]", TRAP_MBARRIER },
    { "[%r1], [%rd0], %r3, [%r2]", "[%r1], [%rd0], 2048, [%r2]", TRAP_DEADLOCK },
    { "[%rd1], [%r1], %r3", "[%rd1+16], [%r1], %r3", TRAP_BOUNDS },
    { "[%rd1], [%r1], %r3", "[%rd1], [%r1+128], %r3", TRAP_UNDEFINED },
    { "ld.shared.u32 %r4, [%r1+8]", "ld.shared.u32 %r4, [%r2]", TRAP_MBARRIER_MEMORY },
    { "st.shared.u32 [%r1], 7", "st.shared.u32 [%r2+4], 7", TRAP_MBARRIER_MEMORY },
    { "mbarrier.init.shared::cta.b64 [%r2], 1;\n", "", TRAP_MBARRIER },
    { "mbarrier.init.shared::cta.b64 [%r2], 1", "mbarrier.init.shared::cta.b64 [%r2+4], 1",
      TRAP_MISALIGNED },
    { "mbarrier.init.shared::cta.b64 [%r2], 1", "mbarrier.init.shared::cta.b64 [%r2], 0",
      TRAP_MBARRIER },
    { "mbarrier.init.shared::cta.b64 [%r2], 1", "mbarrier.init.shared::cta.b64 [%r2], %r9",
      TRAP_UNDEFINED })

/* ---- a cluster ---- */

/* Rank 0 multicasts to both; each sends its own words to its peer by copy, store and add. */
static void cluster(struct emu *e, const struct edit *edit)
{
    static const char text[] = ENTRY(".param .u64 src, .param .u64 dst", "sm")
        "mov.u32 %r0, %tid.x; mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1;\n"
        PARAM("src", "%rd0") PARAM("dst", "%rd1")
        "mov.u32 %r1, sm; add.u32 %r2, %r1, 8192;\n"
        "mapa.shared::cluster.u32 %r11, %r1, %r21; mapa.shared::cluster.u32 %r12, %r2, %r21;\n"
        "setp.ne.u32 %p0, %r0, 0; @%p0 bra JOIN;\n"
        "mbarrier.init.shared::cta.b64 [%r2], 1;\n"
        "mbarrier.init.shared::cta.b64 [%r2+8], 2;\n"
        "st.shared.u32 [%r1+2048], 0;\n"
        "fence.mbarrier_init.release.cluster;\n"
        "JOIN: barrier.cluster.arrive; barrier.cluster.wait;\n"
        "@%p0 bra LEAVE;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1552;\n"
        "setp.ne.u32 %p1, %r20, 0; @%p1 bra SENT;\n"
        "mov.u16 %h0, 3;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%r1], [%rd0], 1024, [%r2], %h0;\n"
        "SENT: mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12+8];\n"
        "mbarrier.arrive.shared::cta.b64 _, [%r2+8];\n"
        "{ .reg .pred ok_;\n"
        "again_: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ok_, [%r2+8], 0;\n"
        "@!ok_ bra again_; }\n"
        "mul.lo.u32 %r13, %r20, 512; cvt.u64.u32 %rd2, %r13; add.u64 %rd2, %rd2, %rd0;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r11+2056], {%r20, %r21}, "
        "[%r12];\n"
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
        "[%r11+2048], 5, [%r12];\n"
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
        "[%r11+2048], %r21, [%r12];\n"
        "mbarrier.init.shared::cta.b64 [%r2+16], 1;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+16], 512;\n"
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1+4096], [%rd2], 512, "
        "[%r2+16];\n"
        WAIT("%r2+16", "0")
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r11+1024], "
        "[%r1+4096], 512, [%r12];\n"
        WAIT("%r2", "0")
        "mul.lo.u32 %r13, %r20, 4096; cvt.u64.u32 %rd2, %r13; add.u64 %rd2, %rd2, %rd1;\n"
        "fence.proxy.async.shared::cta;\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 1536;\n"
        "ld.shared.u32 %r14, [%r1+2048]; st.global.u32 [%rd2+2048], %r14;\n"
        "ld.shared.v2.u32 {%r14, %r15}, [%r1+2056]; st.global.v2.u32 [%rd2+2056], {%r14, %r15};\n"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
        "LEAVE: barrier.cluster.arrive; barrier.cluster.wait;\n"
        "ret; }\n";
    const uint32_t *in = pattern();
    const uint64_t src = emu_put(e, in, 4096), dst = emu_alloc(e, 8192);

    if (!go(e, text, edit, (struct emu_launch){ .grid = { 2 }, .block = { 32 }, .cluster = { 2 },
                                                .smem = 16384 }, 2, (uint64_t[]){ src, dst }))
        return;
    for (unsigned rank = 0; rank < 2; rank++) {
        const uint32_t *out = (uint32_t *)emu_bytes(e, dst) + 1024 * rank;

        for (unsigned i = 0; i < 256; i++)
            assert_int_equal(out[i], in[i]);
        for (unsigned i = 0; i < 128; i++)
            assert_int_equal(out[256 + i], in[128 * (1 - rank) + i]);
        assert_int_equal(out[512], 5 + rank);
        assert_int_equal(out[514], 1 - rank);
        assert_int_equal(out[515], rank);
    }
}

TOPIC(cluster,
    { "mov.u16 %h0, 3", "mov.u16 %h0, 7", TRAP_BOUNDS },
    { "mov.u16 %h0, 3", "mov.u16 %h0, 1", TRAP_DEADLOCK },
    { "[%r1+4096], 512, [%r12]", "[%r1+4096], 512, [%r2]", TRAP_TENSOR_ACCESS },
    { "[%r11+2056], {%r20, %r21}, [%r12]", "[%r11+2056], {%r20, %r21}, [%r2]",
      TRAP_TENSOR_ACCESS },
    { "[%r11+2056], {%r20, %r21}", "[%r11+2052], {%r20, %r21}", TRAP_MISALIGNED },
    { "[%r11+2056], {%r20, %r21}", "[%r11+2056], {%r20, %r25}", TRAP_UNDEFINED },
    { "[%r11+2048], 5, [%r12]", "[%r11+8192], 5, [%r12]", TRAP_MBARRIER_MEMORY },
    { "ok_, [%r2+8], 0", "ok_, [%r12+8], 0", TRAP_WRONG_SPACE },
    { "mbarrier.init.shared::cta.b64 [%r2+8], 2;\n", "", TRAP_MBARRIER },
    { "mbarrier.arrive.shared::cta.b64 _, [%r2+8];\n", "", TRAP_DEADLOCK },
    { "mapa.shared::cluster.u32 %r11, %r1, %r21", "add.u32 %r11, %r1, 0x5000000", TRAP_BOUNDS })

/* ---- cp.async ---- */

static void copies(struct emu *e, const struct edit *edit)
{
    static const char text[] = ENTRY(".param .u64 src, .param .u64 dst", "sm")
        PARAM("src", "%rd0") PARAM("dst", "%rd1")
        "mov.u32 %r0, %tid.x; mov.u32 %r1, sm; add.u32 %r30, %r1, 8192;\n"
        "setp.eq.u32 %p2, %r0, 0; @%p2 mbarrier.init.shared::cta.b64 [%r30], 32;\n"
        "@%p2 mbarrier.init.shared::cta.b64 [%r30+8], 1;\n"
        "bar.sync 0;\n"
        "shl.b32 %r2, %r0, 4; cvt.u64.u32 %rd2, %r2; add.u64 %rd3, %rd0, %rd2;\n"
        "add.u32 %r3, %r1, %r2; add.u64 %rd4, %rd1, %rd2;\n"
        "cp.async.cg.shared.global [%r3], [%rd3], 16;\n"
        "cp.async.commit_group;\n"
        "cp.async.ca.shared.global [%r3+1024], [%rd3], 8; "
        "cp.async.ca.shared.global [%r3+1032], [%rd3+12], 4; "
        "cp.async.ca.shared.global [%r3+1036], [%rd3+8], 4;\n"
        "cp.async.commit_group;\n"
        "mov.u32 %r4, 5; cp.async.ca.shared.global [%r3+2048], [%rd3], 16, %r4;\n"
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r30];\n"
        "setp.lt.u32 %p1, %r0, 16; cp.async.cg.shared.global [%r3+3072], [%rd3], 16, %p1;\n"
        "@%p2 cp.async.mbarrier.arrive.shared::cta.b64 [%r30+8];\n"
        "@%p2 mbarrier.arrive.shared::cta.b64 _, [%r30+8];\n"
        "cp.async.wait_group 1;\n"
        "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r3]; "
        "st.global.v4.u32 [%rd4], {%r5, %r6, %r7, %r8};\n"
        "cp.async.wait_group 0;\n"
        "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r3+1024]; "
        "st.global.v4.u32 [%rd4+512], {%r5, %r6, %r7, %r8};\n"
        WAIT("%r30", "0")
        "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r3+2048]; "
        "st.global.v4.u32 [%rd4+1024], {%r5, %r6, %r7, %r8};\n"
        "cp.async.wait_all;\n"
        WAIT("%r30+8", "0")
        "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r3+3072]; "
        "st.global.v4.u32 [%rd4+1536], {%r5, %r6, %r7, %r8};\n"
        "OUT: ret; }\n";
    const uint32_t *in = pattern();
    const uint64_t src = emu_put(e, in, 512), dst = emu_alloc(e, 2048);

    if (!go(e, text, edit, (struct emu_launch){ .block = { 32 }, .smem = 16384 }, 2,
            (uint64_t[]){ src, dst }))
        return;
    const uint32_t *out = emu_bytes(e, dst);
    for (unsigned t = 0; t < 32; t++)
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t v = in[4 * t + i];
            const uint32_t half = i < 2 ? v : in[4 * t + 5 - i];

            assert_int_equal(out[4 * t + i], v);
            assert_int_equal(out[128 + 4 * t + i], half);
            assert_int_equal(out[256 + 4 * t + i], i == 0 ? v : i == 1 ? v & 0xff : 0);
            assert_int_equal(out[384 + 4 * t + i], t < 16 ? 0 : v);
        }
}

TOPIC(copies,
    { "[%r3], [%rd3], 16;", "[%r3+8], [%rd3], 16;", TRAP_MISALIGNED },
    { "[%r3], [%rd3], 16;", "[%r3], [%rd3+8], 16;", TRAP_MISALIGNED },
    { "[%r3], [%rd3], 16;", "[%r3], [%rd3+512], 16;", TRAP_BOUNDS },
    { "[%r3], [%rd3], 16;", "[%r30], [%rd3], 16;", TRAP_MBARRIER_MEMORY },
    { "mov.u32 %r4, 5;", "mov.u32 %r4, 17;", TRAP_TENSOR_ACCESS },
    { "[%r30], 32;", "[%r30], 33;", TRAP_DEADLOCK },
    { "@%p2 mbarrier.arrive.shared::cta.b64 _, [%r30+8];\n", "", TRAP_DEADLOCK })

/* ---- reductions ---- */

static void reduce(struct emu *e, const struct edit *edit)
{
    static const char text[] = ENTRY(".param .u64 dst", "sm")
        PARAM("dst", "%rd0") "mov.u32 %r1, sm; mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0;\n"
        "shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2;\n"
        "add.u32 %r4, %r0, 0x3c003c00; st.shared.u32 [%r3], %r4;\n"
        "cvt.rn.f32.u32 %f0, %r0; st.shared.f32 [%r3+128], %f0;\n"
        "fence.proxy.async.shared::cta;\n"
        "bar.warp.sync -1; @%p0 bra OUT;\n"
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r1], 128;\n"
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd0+128], [%r1+128], 128;\n"
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%rd0+256], [%r1], 128;\n"
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u64 [%rd0+384], [%r1], 128;\n"
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b32 [%rd0+512], [%r1], 128;\n"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
        "OUT: ret; }\n";
    uint32_t in[160];

    for (unsigned i = 0; i < 160; i++)
        in[i] = i < 32 ? i : i < 64 ? 0x3f000000 : i < 96 ? 0x3c003c00 : i < 128 ? 0x3c003c10 : i;
    const uint64_t dst = emu_put(e, in, sizeof in);

    if (!go(e, text, edit, (struct emu_launch){ .block = { 32 }, .smem = 4096 }, 1,
            (uint64_t[]){ dst }))
        return;
    const uint32_t *out = emu_bytes(e, dst);
    for (unsigned i = 0; i < 32; i++) {
        const float f = (float)i + 0.5f;
        uint32_t bits;

        memcpy(&bits, &f, 4);
        assert_int_equal(out[i], 0x3c003c00 + 2 * i);
        assert_int_equal(out[32 + i], bits);
        /* 1 + (1 + i 2^-10) in the low half: rounds to even in steps of 2^-9 */
        assert_int_equal(out[64 + i], 0x40000000 | (0x4000 + i / 2 + (i % 4 == 3)));
        assert_int_equal(out[128 + i], (128 + i) ^ (0x3c003c00 + i));
    }
    for (unsigned i = 0; i < 16; i++) {
        const uint64_t mine = (UINT64_C(0x3c003c01) + 2 * i) << 32 | (0x3c003c00 + 2 * i);
        const uint64_t old = UINT64_C(0x3c003c103c003c10);
        uint64_t now;

        memcpy(&now, &out[96 + 2 * i], 8);
        assert_true(now == (mine > old ? mine : old));
    }
}

TOPIC(reduce,
    { "[%rd0], [%r1], 128", "[%rd0], [%r1+1024], 128", TRAP_UNDEFINED },
    { "[%rd0+512], [%r1]", "[%rd0+528], [%r1]", TRAP_BOUNDS })

/* ---- tensor maps that a kernel edits ---- */

/* A map of another tensor becomes, field by field, the one wanted, and loads its box. */
static void replace(struct emu *e, const struct edit *edit)
{
    static const char text[] =
        ENTRY(".param .u64 base, .param .u64 slot, .param .u64 src, .param .u64 dst", "sm")
        PARAM("base", "%rd0") PARAM("slot", "%rd1") PARAM("src", "%rd2") PARAM("dst", "%rd3")
        "mov.u32 %r0, %tid.x; mov.u32 %r1, sm; shl.b32 %r2, %r0, 2; cvt.u64.u32 %rd4, %r2;\n"
        "add.u64 %rd4, %rd4, %rd0; add.u32 %r3, %r1, %r2; add.u32 %r30, %r1, 8192;\n"
        "ld.global.u32 %r4, [%rd4]; st.shared.u32 [%r3], %r4;\n"
        "bar.warp.sync -1;\n"
        "setp.ne.u32 %p0, %r0, 0; @%p0 bra EDITED;\n"
        "mbarrier.init.shared::cta.b64 [%r30], 1;\n"
        "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r1], %rd2;\n"
        "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r1], 2;\n"
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], 2;\n"
        "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 0, 16;\n"
        "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 1, 12;\n"
        "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 2, 3;\n"
        "mov.u64 %rd5, 64; tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r1], 0, "
        "%rd5;\n"
        "mov.u64 %rd5, 1024; tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r1], 1, "
        "%rd5;\n"
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 0, 8;\n"
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 1, 16;\n"
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 2, 2;\n"
        "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r1], 0, 1;\n"
        "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r1], 1, 2;\n"
        "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r1], 2, 1;\n"
        "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r1], 0;\n"
        "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r1], 0;\n"
        "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r1], 0;\n"
        "EDITED: bar.warp.sync -1;\n"
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
        "[%rd1], [%r1], 128;\n"
        "@%p0 bra OUT;\n"
        "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;\n"
        "mov.u64 %rd9, 0; fence.proxy.tensormap::generic.acquire.gpu [%rd9], 128;\n"
        "prefetch.tensormap [%rd1];\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 512;\n"
        "cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
        "[%r1+1024], [%rd1, {4, 2, 1}], [%r30];\n"
        WAIT("%r30", "0")
        "cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r1+1024], 512;\n"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
        "OUT: ret; }\n";
    const uint64_t dim[] = { 64, 64 }, stride[] = { 256 };
    const uint32_t box[] = { 32, 8 }, ones[] = { 1, 1 };
    const struct tmap_request request = {
        .type = 6, .rank = 2, .address = 4096, .dim = dim, .stride = stride, .box = box,
        .element_stride = ones, .swizzle = 2, .fill = 1,
    };
    const uint32_t *in = pattern();
    uint8_t map[TMAP_BYTES];

    assert_null(tmap_encode(&request, 90, map));
    const uint64_t base = emu_put(e, map, sizeof map), slot = emu_alloc(e, 128);
    const uint64_t src = emu_put(e, in, 3 * 1024), dst = emu_alloc(e, 512);

    if (!go(e, text, edit, (struct emu_launch){ .block = { 32 }, .smem = 16384 }, 4,
            (uint64_t[]){ base, slot, src, dst }))
        return;
    const uint32_t *out = emu_bytes(e, dst);
    for (unsigned z = 0; z < 2; z++)
        for (unsigned y = 0; y < 8; y++)
            for (unsigned x = 0; x < 8; x++) {
                const unsigned row = 2 + 2 * y;
                const uint32_t want = row < 12 ? in[(1 + z) * 256 + row * 16 + 4 + x] : 0;

                assert_int_equal(out[(z * 8 + y) * 8 + x], want);
            }
}

TOPIC(replace,
    { "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r1], 2;", "", TRAP_TENSOR_MAP },
    { "[%rd1, {4, 2, 1}]", "[%rd1, {3, 2, 1}]", TRAP_TENSOR_ACCESS },
    { "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;\n", "", TRAP_TENSOR_MAP },
    { "[%rd1], [%r1], 128;", "[%rd1], [%r1+64], 128;", TRAP_MISALIGNED },
    { "[%rd1], [%r1], 128;", "[%rd1], [%r1+256], 128;", TRAP_UNDEFINED },
    { "[%r1], 1, 12;", "[%r1], 1, 60;", TRAP_BOUNDS })

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bulk_topic),
        cmocka_unit_test(cluster_topic),
        cmocka_unit_test(copies_topic),
        cmocka_unit_test(reduce_topic),
        cmocka_unit_test(replace_topic),
    };

    return cmocka_run_group_tests_name("emu/async", tests, NULL, NULL);
}
