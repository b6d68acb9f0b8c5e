/*
 * For tests of tcgen05: one program that fills shared memory and all of Tensor Memory of one CTA or
 * of a pair, lets one thread issue some instructions, and writes Tensor Memory back.
 */
#ifndef TESTS_EMU_TCGEN_H
#define TESTS_EMU_TCGEN_H

#include "emu_run.h"

enum { LANES_ALL = 128, COLUMNS_ALL = 512, SMEM_IMAGE = 96 * 1024, SMEM_AT = 0x800, MOST_STEPS = 16 };

/* What one issued instruction may use. */
struct tcgen_step {
    uint64_t a, b;              /* descriptors */
    uint32_t at;                /* A in Tensor Memory */
    uint32_t idesc, sfa, sfb, d, keep;
};

struct tcgen_bench {
    struct emu emu;
    unsigned ctas;              /* 1 or 2 */
    uint8_t (*smem)[SMEM_IMAGE];        /* [ctas]: from address SMEM_AT on */
    uint32_t (*in)[LANES_ALL][COLUMNS_ALL], (*out)[LANES_ALL][COLUMNS_ALL];    /* [ctas] */
    struct tcgen_step steps[MOST_STEPS];
    unsigned count;
};

static inline void bench_open(struct tcgen_bench *b, unsigned ctas, enum machine_policy policy,
                              uint64_t seed, unsigned rules)
{
    memset(b, 0, sizeof *b);
    emu_open_b200(&b->emu, policy, seed);
    b->emu.config.rules = rules;
    emu_renew(&b->emu);
    b->ctas = ctas;
    b->smem = calloc(ctas, sizeof b->smem[0]);
    b->in = calloc(ctas, sizeof b->in[0]);
    b->out = calloc(ctas, sizeof b->out[0]);
    assert_true(b->smem && b->in && b->out);
}

static inline void bench_close(struct tcgen_bench *b)
{
    free(b->smem);
    free(b->in);
    free(b->out);
    emu_close(&b->emu);
}

/* The program; `instruction` may use ad bd at id sa sb dt and the predicate keep. */
static inline void bench_text(char *text, size_t room, unsigned group, const char *instruction)
{
    const int n = snprintf(text, room,
        ".version 8.8\n.target sm_100a\n.address_size 64\n"
        ".extern .shared .align 1024 .b8 sm[];\n"
        ".visible .entry bench(.param .u64 psm, .param .u64 pin, .param .u64 pout, .param .u64 pst,"
        " .param .u32 pn)\n"
        ".reqntid 128\n%s"
        "{\n"
        ".reg .b32 tid, wrp, rank, i, n, t, u, base, addr, at, id, sa, sb, dt, kp, lane;\n"
        ".reg .b32 v<32>;\n"
        ".reg .b64 g, h, ad, bd, st;\n"
        ".reg .b16 msk;\n"
        ".reg .pred p, keep, lead;\n"
        "mov.u32 tid, %%tid.x;\nshr.u32 wrp, tid, 5;\nmov.u32 lane, %%laneid;\n"
        "mov.u32 rank, %%cluster_ctarank;\n"
        "mov.u32 base, sm;\n"
        /* shared memory from the image */
        "ld.param.u64 g, [psm];\n"
        "mad.wide.u32 g, rank, %u, g;\n"
        "mad.wide.u32 g, tid, 16, g;\n"
        "mad.lo.u32 t, tid, 16, base;\n"
        "mov.u32 i, 0;\n"
        "FILL:\n"
        "ld.global.v4.b32 {v0, v1, v2, v3}, [g];\n"
        "st.shared.v4.b32 [t+1024], {v0, v1, v2, v3};\n"
        "add.u64 g, g, 2048;\nadd.u32 t, t, 2048;\nadd.u32 i, i, 2048;\n"
        "setp.lt.u32 p, i, %u;\n@p bra FILL;\n"
        "fence.proxy.async.shared::cta;\n"
        "setp.ne.u32 p, tid, 0;\n@p bra READY;\n"
        "mbarrier.init.shared::cta.b64 [base], 1;\n"
        "fence.mbarrier_init.release.cluster;\n"
        "READY:\n"
        "bar.warp.sync 0xffffffff;\n"
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
        "setp.ne.u32 p, wrp, 0;\n@p bra HAVE;\n"
        "tcgen05.alloc.cta_group::%u.sync.aligned.shared::cta.b32 [base+8], 512;\n"
        "tcgen05.relinquish_alloc_permit.cta_group::%u.sync.aligned;\n"
        "HAVE:\n"
        "bar.sync 0;\n"
        /* Tensor Memory from the image: this warp's lanes, 16 columns at a time */
        "ld.param.u64 g, [pin];\n"
        "mad.wide.u32 g, rank, 262144, g;\n"
        "mad.wide.u32 g, tid, 2048, g;\n"
        "shl.b32 addr, wrp, 21;\n"
        "mov.u32 i, 0;\n"
        "LOAD:\n"
        "ld.global.v4.b32 {v0, v1, v2, v3}, [g];\n"
        "ld.global.v4.b32 {v4, v5, v6, v7}, [g+16];\n"
        "ld.global.v4.b32 {v8, v9, v10, v11}, [g+32];\n"
        "ld.global.v4.b32 {v12, v13, v14, v15}, [g+48];\n"
        "tcgen05.st.sync.aligned.32x32b.x16.b32 [addr], "
        "{v0,v1,v2,v3,v4,v5,v6,v7,v8,v9,v10,v11,v12,v13,v14,v15};\n"
        "add.u64 g, g, 64;\nadd.u32 addr, addr, 16;\nadd.u32 i, i, 16;\n"
        "setp.lt.u32 p, i, 512;\n@p bra LOAD;\n"
        "tcgen05.wait::st.sync.aligned;\n"
        "tcgen05.fence::before_thread_sync;\n"
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
        "tcgen05.fence::after_thread_sync;\n"
        /* one thread issues */
        "or.b32 t, tid, rank;\nsetp.ne.u32 p, t, 0;\n@p bra WAIT;\n"
        "ld.param.u64 st, [pst];\nld.param.u32 n, [pn];\nmov.u32 i, 0;\n"
        "ISSUE:\n"
        "ld.global.b64 ad, [st];\nld.global.b64 bd, [st+8];\nld.global.b32 at, [st+16];\n"
        "ld.global.b32 id, [st+20];\nld.global.b32 sa, [st+24];\nld.global.b32 sb, [st+28];\n"
        "ld.global.b32 dt, [st+32];\nld.global.b32 kp, [st+36];\n"
        "setp.ne.u32 keep, kp, 0;\n"
        "%s\n"
        "add.u64 st, st, 40;\nadd.u32 i, i, 1;\nsetp.lt.u32 p, i, n;\n@p bra ISSUE;\n"
        "mov.u16 msk, %u;\n"
        "tcgen05.commit.cta_group::%u.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
        " [base], msk;\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [base], 0;\n@!p bra WAIT;\n"
        "bar.warp.sync 0xffffffff;\n"
        "tcgen05.fence::after_thread_sync;\n"
        "ld.param.u64 g, [pout];\n"
        "mad.wide.u32 g, rank, 262144, g;\n"
        "mad.wide.u32 g, tid, 2048, g;\n"
        "shl.b32 addr, wrp, 21;\n"
        "mov.u32 i, 0;\n"
        "STORE:\n"
        "tcgen05.ld.sync.aligned.32x32b.x16.b32 "
        "{v0,v1,v2,v3,v4,v5,v6,v7,v8,v9,v10,v11,v12,v13,v14,v15}, [addr];\n"
        "tcgen05.wait::ld.sync.aligned;\n"
        "st.global.v4.b32 [g], {v0, v1, v2, v3};\n"
        "st.global.v4.b32 [g+16], {v4, v5, v6, v7};\n"
        "st.global.v4.b32 [g+32], {v8, v9, v10, v11};\n"
        "st.global.v4.b32 [g+48], {v12, v13, v14, v15};\n"
        "add.u64 g, g, 64;\nadd.u32 addr, addr, 16;\nadd.u32 i, i, 16;\n"
        "setp.lt.u32 p, i, 512;\n@p bra STORE;\n"
        "tcgen05.fence::before_thread_sync;\n"
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
        "setp.ne.u32 p, wrp, 0;\n@p bra END;\n"
        "tcgen05.dealloc.cta_group::%u.sync.aligned.b32 0, 512;\n"
        "END: ret;\n"
        "}\n",
        group == 2 ? ".reqnctapercluster 2\n" : ".reqnctapercluster 1\n",
        (unsigned)SMEM_IMAGE, (unsigned)SMEM_IMAGE, group, group, instruction,
        group == 2 ? 3u : 1u, group, group);

    assert_true(n > 0 && (size_t)n < room);
}

/* True: it ran, and out is what Tensor Memory holds. */
static inline bool bench_run(struct tcgen_bench *b, const char *instruction)
{
    static char text[16384];
    const struct emu_launch launch = { .grid = { b->ctas }, .block = { 128 },
                                       .smem = SMEM_IMAGE + 1024 };
    struct emu *e = &b->emu;
    uint64_t values[5];
    bool ok;

    bench_text(text, sizeof text, b->ctas, instruction);
    emu_load(e, text);
    values[0] = emu_put(e, b->smem, b->ctas * sizeof b->smem[0]);
    values[1] = emu_put(e, b->in, b->ctas * sizeof b->in[0]);
    values[2] = emu_alloc(e, b->ctas * sizeof b->out[0]);
    values[3] = emu_put(e, b->steps, sizeof b->steps);
    values[4] = b->count;
    ok = emu_run(e, "bench", &launch, 5, values);
    if (ok)
        memcpy(b->out, emu_bytes(e, values[2]), b->ctas * sizeof b->out[0]);
    for (unsigned i = 0; i < 4; i++)
        assert_true(mem_free(e->mem, values[i]));
    return ok;
}

static inline void bench_must(struct tcgen_bench *b, const char *instruction)
{
    if (!bench_run(b, instruction)) {
        char *report = trap_report(&b->emu.trap);

        print_error("%s\n%s\n", instruction, report);
        free(report);
        fail();
    }
}

static inline void bench_fill(struct tcgen_bench *b, uint64_t seed)
{
    for (unsigned c = 0; c < b->ctas; c++) {
        for (unsigned i = 0; i < SMEM_IMAGE; i += 8) {
            const uint64_t r = emu_random(&seed);

            memcpy(b->smem[c] + i, &r, 8);
        }
        for (unsigned l = 0; l < LANES_ALL; l++)
            for (unsigned k = 0; k < COLUMNS_ALL; k++)
                b->in[c][l][k] = (uint32_t)emu_random(&seed);
    }
}

#endif
