/* For tests of what may be wrong with tcgen05: a small program that is right, and what changes it. */
#ifndef TESTS_EMU_TCGEN_PROGRAM_H
#define TESTS_EMU_TCGEN_PROGRAM_H

#include "emu_run.h"

enum { M = 128, N = 64, K = 32 };       /* two steps of 16 */

/* A and B without swizzle at 0x800 and 0x2800, all ones: D = K everywhere. */
static const char program[] =
    ".version 8.8\n.target sm_100a\n.address_size 64\n"
    ".extern .shared .align 1024 .b8 sm[];\n"
    ".visible .entry k(.param .u64 pd)\n.reqntid 128\n{\n"
    ".reg .b32 tid, wrp, lane, i, t, base, addr, tm, idesc, r<16>;\n"
    ".reg .b64 g, ad, bd;\n.reg .b16 msk;\n.reg .pred p, q, lead;\n"
    "mov.u32 tid, %tid.x;\nshr.u32 wrp, tid, 5;\nmov.u32 lane, %laneid;\nmov.u32 base, sm;\n"
    "mov.u32 idesc, 0x08100490;\n"
    "mov.u32 i, 0;\nshl.b32 t, tid, 2;\nadd.u32 t, t, base;\nmov.u32 r0, 0x3f803f80;\n"
    "FILL: st.shared.b32 [t+1024], r0;\n"
    "add.u32 t, t, 512;\nadd.u32 i, i, 512;\nsetp.lt.u32 p, i, 16384;\n@p bra FILL;\n"
    "fence.proxy.async.shared::cta;\n"
    "setp.ne.u32 p, tid, 0;\n@p bra READY;\n"
    "mbarrier.init.shared::cta.b64 [base], 1;\n"
    "mbarrier.init.shared::cta.b64 [base+8], 1;\n"
    "fence.mbarrier_init.release.cluster;\n"
    "READY: bar.warp.sync 0xffffffff;\n"
    "setp.ne.u32 p, wrp, 0;\n@p bra HAVE;\n"
    "mov.u32 r1, 64;\n"
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base+16], r1;\n"
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
    "HAVE: bar.sync 0;\n"
    "ld.shared.b32 tm, [base+16];\n"
    "setp.ne.u32 p, wrp, 1;\n@p bra WAIT;\n"
    "elect.sync _|lead, 0xffffffff;\n@!lead bra ISSUED;\n"
    "mov.b64 ad, 0x0000400800800080;\nmov.b64 bd, 0x0000400800400280;\n"
    "setp.eq.u32 q, tid, 5000;\n"
    "tcgen05.mma.cta_group::1.kind::f16 [tm], ad, bd, idesc, q;\n"
    "add.u64 ad, ad, 256;\nadd.u64 bd, bd, 128;\n"
    "tcgen05.mma.cta_group::1.kind::f16 [tm], ad, bd, idesc, 1;\n"
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [base];\n"
    "ISSUED: bar.warp.sync 0xffffffff;\n"
    "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [base], 0;\n@!p bra WAIT;\n"
    "tcgen05.fence::after_thread_sync;\n"
    "shl.b32 addr, wrp, 21;\nadd.u32 addr, addr, tm;\n"
    "ld.param.u64 g, [pd];\nmad.wide.u32 g, tid, 256, g;\nmov.u32 i, 0;\n"
    "LOAD: tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0, r1, r2, r3}, [addr];\n"
    "tcgen05.wait::ld.sync.aligned;\n"
    "st.global.v4.b32 [g], {r0, r1, r2, r3};\n"
    "add.u64 g, g, 16;\nadd.u32 addr, addr, 4;\nadd.u32 i, i, 4;\n"
    "setp.lt.u32 p, i, 64;\n@p bra LOAD;\n"
    "tcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
    "setp.ne.u32 p, wrp, 2;\n@p bra END;\n"
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 64;\n"
    "END: ret;\n}\n";

static char text[16384];

static inline void replace(const char *base, const char *from, const char *to)
{
    const char *at = strstr(base, from);

    if (!at)
        fail_msg("the program has no\n%s", from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - base), base, to, at + strlen(from));
}

/* Replaces in the text that an earlier replace left. */
static inline void replace_also(const char *from, const char *to)
{
    char *earlier = strdup(text);

    assert_non_null(earlier);
    replace(earlier, from, to);
    free(earlier);
}

static inline bool run_text(struct emu *e, unsigned ctas)
{
    uint64_t d[1];

    emu_load(e, text);
    d[0] = emu_alloc(e, (size_t)ctas * M * N * 4);
    if (!emu_run(e, "k", &(struct emu_launch){ .grid = { ctas }, .block = { 128 },
                                               .smem = 20480 }, 1, d))
        return false;
    for (unsigned i = 0; i < ctas * M * N; i++) {
        float f;

        memcpy(&f, (char *)emu_bytes(e, d[0]) + 4 * i, 4);
        if (f != K) {
            print_error("element %u is %g\n", i, (double)f);
            fail();
        }
    }
    return true;
}

#define KIND(name) (UINT64_C(1) << TRAP_##name)

#define MMA "tcgen05.mma.cta_group::1.kind::f16 [tm], ad, bd, idesc, q;\n"
#define COMMIT "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [base];\n"
#define LD "LOAD: tcgen05.ld.sync.aligned.32x32b.x4.b32 {r0, r1, r2, r3}, [addr];\n"
#define DEALLOC "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 64;\n"
#define ALLOC "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [base+16], r1;\n"
#define RELINQUISH "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"

#endif
