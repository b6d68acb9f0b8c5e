/*
 * A warp-specialised GEMM as kernels are really written: one producer lane, TMA, a ring of
 * mbarriers, consumer warpgroups, TMA store. Every policy and many seeds give the same bits, which
 * are those of a chain of fused steps.
 */
#include "emu_run.h"

#include "tensor.h"
#include "tmap.h"

enum { M = 256, N = 256, BM = 128, BN = 128, BK = 64, STAGES = 4 };

/* The ring's next slot, and whether there are more steps of K. */
#define NEXT_SLOT \
    "add.u32 it, it, 1;\n" \
    "add.u32 st, st, 1;\n" \
    "setp.eq.u32 p, st, 4;\n" \
    "selp.b32 st, 0, st, p;\n" \
    "@p xor.b32 ph, ph, 1;\n" \
    "setp.lt.u32 p, it, nkt;\n"

struct text {
    char *at;
    size_t room;
};

static void say(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct text *t, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    const int n = vsnprintf(t->at, t->room, format, list);
    va_end(list);
    assert_true(n >= 0 && (size_t)n < t->room);
    t->at += n;
    t->room -= (size_t)n;
}

/* What may be wrong with the kernel. */
struct fault {
    const char *missing;        /* text that is left out */
    const char *from, *to;      /* text that is replaced */
};

static const char head[] =
    ".version 8.8\n.target sm_90a\n.address_size 64\n"
    ".extern .shared .align 1024 .b8 sm[];\n"
    ".visible .entry gemm(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 nk)\n"
    ".reqntid 384 .minnctapersm 1\n"
    "{\n"
    ".reg .b32 tid, base, bars, wrp, wg, it, st, ph, k0, t, u, a0, b0, nkt, m0, n0, hi, lane;\n"
    ".reg .b64 ta, tb, tc, da, db, ka, kb;\n"
    ".reg .pred p, lead, first;\n";

static const char prologue[] =
    "ld.param.u64 ta, [pa];\n"
    "ld.param.u64 tb, [pb];\n"
    "ld.param.u64 tc, [pc];\n"
    "ld.param.u32 nkt, [nk];\n"
    "mov.u32 tid, %tid.x;\n"
    "mov.u32 lane, %laneid;\n"
    "mov.u32 base, sm;\n"
    "add.u32 bars, base, 163840;\n"
    "shr.u32 wrp, tid, 5;\n"
    "shfl.sync.idx.b32 wrp, wrp, 0, 0x1f, 0xffffffff;\n"
    "shr.u32 wg, wrp, 2;\n"
    "mov.u32 t, %ctaid.y;\n"
    "shl.b32 m0, t, 7;\n"
    "mov.u32 t, %ctaid.x;\n"
    "shl.b32 n0, t, 7;\n"
    "setp.ne.u32 p, wrp, 0;\n"
    "@p bra READY;\n"
    "elect.sync _|lead, 0xffffffff;\n"
    "@!lead bra READY;\n"
    "mbarrier.init.shared::cta.b64 [bars], 1;\n"
    "mbarrier.init.shared::cta.b64 [bars+8], 1;\n"
    "mbarrier.init.shared::cta.b64 [bars+16], 1;\n"
    "mbarrier.init.shared::cta.b64 [bars+24], 1;\n"
    "mbarrier.init.shared::cta.b64 [bars+32], 8;\n"
    "mbarrier.init.shared::cta.b64 [bars+40], 8;\n"
    "mbarrier.init.shared::cta.b64 [bars+48], 8;\n"
    "mbarrier.init.shared::cta.b64 [bars+56], 8;\n"
    "fence.mbarrier_init.release.cluster;\n"
    "READY:\n"
    "bar.sync 0;\n"
    "setp.ne.u32 p, wg, 0;\n"
    "@p bra CONS;\n";

static const char producer[] =
    "setmaxnreg.dec.sync.aligned.u32 40;\n"
    "setp.ne.u32 p, wrp, 0;\n"
    "@p bra FIN;\n"
    "elect.sync _|lead, 0xffffffff;\n"
    "@!lead bra FIN;\n"
    "mov.u32 it, 0;\n"
    "mov.u32 st, 0;\n"
    "mov.u32 ph, 1;\n"
    "mov.u32 k0, 0;\n"
    "PL:\n"
    "shl.b32 t, st, 3;\n"
    "add.u32 t, t, bars;\n"
    "PW:\n"
    "mbarrier.try_wait.parity.shared::cta.b64 p, [t+32], ph;\n"
    "@!p bra PW;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [t], 32768;\n"
    "shl.b32 a0, st, 14;\n"
    "add.u32 a0, a0, base;\n"
    "add.u32 b0, a0, 65536;\n"
    "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
    "[a0], [ta, {k0, m0}], [t];\n"
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    "[b0], [tb, {k0, n0}], [t];\n"
    "add.u32 k0, k0, 64;\n"
    NEXT_SLOT
    "@p bra PL;\n"
    "bra FIN;\n";

static const char consumer[] =
    "CONS:\n"
    "setmaxnreg.inc.sync.aligned.u32 232;\n"
    "and.b32 t, base, 0x3ffff;\n"
    "shr.u32 t, t, 4;\n"
    "add.u32 u, wg, -1;\n"
    "shl.b32 u, u, 9;\n"
    "add.u32 u, u, t;\n"
    "or.b32 a0, u, 0x10000;\n"
    "add.u32 b0, t, 0x11000;\n"
    "mov.u32 hi, 0x40000040;\n"
    "mov.u32 it, 0;\n"
    "mov.u32 st, 0;\n"
    "mov.u32 ph, 0;\n"
    "CL:\n"
    "shl.b32 t, st, 3;\n"
    "add.u32 t, t, bars;\n"
    "CW:\n"
    "mbarrier.try_wait.parity.shared::cta.b64 p, [t], ph;\n"
    "@!p bra CW;\n"
    "shl.b32 u, st, 10;\n"
    "add.u32 k0, a0, u;\n"
    "mov.b64 da, {k0, hi};\n"
    "add.u32 k0, b0, u;\n"
    "mov.b64 db, {k0, hi};\n"
    "setp.ne.u32 first, it, 0;\n"
    "wgmma.fence.sync.aligned;\n";

static const char after[] =
    "wgmma.commit_group.sync.aligned;\n"
    "wgmma.wait_group.sync.aligned 1;\n"
    "setp.eq.u32 p, it, 0;\n"
    "@p bra NOREL;\n"
    "setp.eq.u32 p, st, 0;\n"
    "selp.b32 u, 4, st, p;\n"
    "add.u32 u, u, -1;\n"
    "shl.b32 u, u, 3;\n"
    "add.u32 u, u, bars;\n"
    "elect.sync _|lead, 0xffffffff;\n"
    "@lead mbarrier.arrive.shared::cta.b64 _, [u+32];\n"
    "NOREL:\n"
    NEXT_SLOT
    "@p bra CL;\n"
    "wgmma.wait_group.sync.aligned 0;\n";

static void accumulators(struct text *t)
{
    say(t, "{");
    for (unsigned i = 0; i < 64; i++)
        say(t, "%sd%u", i ? "," : "", i);
    say(t, "}");
}

/* f32 pairs into a tile of 128 rows x 128 columns, as four panels of 32 columns without swizzle:
 * panel x at 16 KB * x of the ring, rows of 128 bytes. Then each warpgroup stores its rows. */
static void epilogue(struct text *t)
{
    say(t, "bar.sync 1, 256;\n"         /* both warpgroups are done with the ring */
        "shr.u32 t, lane, 2;\n"
        "and.b32 u, wrp, 3;\n"
        "shl.b32 u, u, 4;\n"
        "add.u32 t, t, u;\n"            /* row in the warpgroup's 64 */
        "add.u32 u, wg, -1;\n"
        "shl.b32 u, u, 6;\n"
        "add.u32 t, t, u;\n"            /* row in the tile */
        "shl.b32 t, t, 7;\n"
        "add.u32 t, t, base;\n"
        "and.b32 u, lane, 3;\n"
        "shl.b32 u, u, 3;\n"
        "add.u32 t, t, u;\n");
    for (unsigned b = 0; b < 16; b++)
        for (unsigned h = 0; h < 2; h++)
            say(t, "st.shared.v2.f32 [t+%u], {d%u, d%u};\n", b / 4 * 16384 + b % 4 * 32 + h * 1024,
                4 * b + 2 * h, 4 * b + 2 * h + 1);
    say(t, "fence.proxy.async.shared::cta;\n"
        "bar.sync wg, 128;\n"
        "and.b32 t, wrp, 3;\n"
        "setp.ne.u32 p, t, 0;\n"
        "@p bra FIN;\n"
        "elect.sync _|lead, 0xffffffff;\n"
        "@!lead bra FIN;\n"
        "add.u32 u, wg, -1;\n"
        "shl.b32 u, u, 6;\n"
        "add.u32 m0, m0, u;\n"
        "shl.b32 u, u, 7;\n"
        "add.u32 k0, base, u;\n");
    for (unsigned i = 0; i < 4; i++)
        say(t, "add.u32 t, n0, %u;\n"
            "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [tc, {t, m0}], [k0+%u];\n",
            32 * i, 16384 * i);
    say(t, "cp.async.bulk.commit_group;\n"
        "cp.async.bulk.wait_group 0;\n"
        "FIN:\n"
        "ret;\n"
        "}\n");
}

static char *kernel(const struct fault *fault)
{
    char *const text = malloc(65536);
    struct text t = { text, 65536 };

    assert_non_null(text);
    say(&t, "%s.reg .f32 d<64>;\n%s%s%s", head, prologue, producer, consumer);
    for (unsigned i = 0; i < 4; i++) {
        say(&t, "add.s64 ka, da, %u;\nadd.s64 kb, db, %u;\n"
            "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 ", 2 * i, 2 * i);
        accumulators(&t);
        say(&t, ", ka, kb, %s, 1, 1, 0, 0;\n", i ? "1" : "first");
    }
    say(&t, "%s", after);
    epilogue(&t);
    if (fault) {
        const char *what = fault->missing ? fault->missing : fault->from;
        const char *by = fault->missing ? "" : fault->to;
        char *const at = strstr(text, what), *const out = malloc(65536);

        assert_non_null(at);
        assert_non_null(out);
        snprintf(out, 65536, "%.*s%s%s", (int)(at - text), text, by, at + strlen(what));
        free(text);
        return out;
    }
    return text;
}

static uint64_t map_2d(struct emu *e, uint64_t address, uint32_t type, unsigned bytes,
                       uint64_t columns, uint64_t rows, uint32_t box_columns, uint32_t box_rows,
                       uint32_t swizzle)
{
    const uint64_t dim[] = { columns, rows }, stride[] = { columns * bytes };
    const uint32_t box[] = { box_columns, box_rows }, ones[] = { 1, 1 };
    const struct tmap_request request = {
        .type = type, .rank = 2, .address = address, .dim = dim, .stride = stride, .box = box,
        .element_stride = ones, .swizzle = swizzle,
    };
    uint8_t map[TMAP_BYTES];
    const char *wrong = tmap_encode(&request, 90, map);

    if (wrong)
        fail_msg("%s", wrong);
    return emu_put(e, map, sizeof map);
}

struct problem {
    unsigned k;
    uint16_t *a, *b;
    uint32_t *want;             /* M x N */
};

static void problem_open(struct problem *p, unsigned k)
{
    uint64_t random = 5;
    struct tensor_kind kind;

    p->k = k;
    p->a = malloc(M * k * 2);
    p->b = malloc(N * k * 2);
    p->want = calloc(M * N, 4);
    assert_true(p->a && p->b && p->want);
    for (unsigned i = 0; i < M * k; i++)
        p->a[i] = (uint16_t)(0x3e00 + emu_random(&random) % 0x240 + (emu_random(&random) & 0x8000));
    for (unsigned i = 0; i < N * k; i++)
        p->b[i] = (uint16_t)(0x3e00 + emu_random(&random) % 0x240 + (emu_random(&random) & 0x8000));
    assert_true(tensor_kind_wgmma(&kind, TENSOR_BF16, TENSOR_BF16, TENSOR_TO_F32, false));
    for (unsigned m = 0; m < M; m += 8)
        for (unsigned n = 0; n < N; n += 8)         /* every eighth row and column is enough */
            for (unsigned at = 0; at < k; at += 16) {
                uint32_t x[16], y[16], *d = &p->want[m * N + n];

                for (unsigned i = 0; i < 16; i++) {
                    x[i] = p->a[m * k + at + i];
                    y[i] = p->b[n * k + at + i];
                }
                *d = tensor_dot(&kind, x, y, *d, NULL, NULL);
            }
}

static void problem_close(struct problem *p)
{
    free(p->a);
    free(p->b);
    free(p->want);
}

/* Runs it; the outputs if it succeeded. */
static const uint32_t *run(struct emu *e, const struct problem *p, const struct fault *fault)
{
    char *const text = kernel(fault);
    const uint64_t a = emu_put(e, p->a, M * p->k * 2), b = emu_put(e, p->b, N * p->k * 2);
    const uint64_t c = emu_alloc(e, M * N * 4);
    const uint64_t values[] = {
        map_2d(e, a, 9, 2, p->k, M, BK, BM, 3), map_2d(e, b, 9, 2, p->k, N, BK, BN, 3),
        map_2d(e, c, 7, 4, N, M, 32, 64, 0), p->k / BK,
    };
    const struct emu_launch launch = { .grid = { N / BN, M / BM }, .block = { 384 },
                                       .smem = 163840 + 256 };
    bool done;

    emu_load(e, text);
    free(text);
    done = emu_run(e, "gemm", &launch, 4, values);
    return done ? emu_bytes(e, c) : NULL;
}

static void right(void **state)
{
    (void)state;
    for (unsigned k = 64; k <= 704; k += 320) {
        struct problem p;
        uint32_t *first = NULL;

        problem_open(&p, k);
        for (unsigned policy = 0; policy < 3; policy++)
            for (uint64_t seed = 0; seed < (policy == POLICY_RANDOM ? 6 : 2); seed++) {
                struct emu e;
                const uint32_t *c;

                emu_open(&e, policy, seed);
                c = run(&e, &p, NULL);
                if (!c) {
                    char *report = trap_report(&e.trap);

                    print_error("k %u policy %u seed %u\n%s\n", k, policy, (unsigned)seed, report);
                    free(report);
                    fail();
                }
                for (unsigned m = 0; m < M; m += 8)
                    for (unsigned n = 0; n < N; n += 8)
                        if (c[m * N + n] != p.want[m * N + n])
                            fail_msg("k %u policy %u seed %u: (%u,%u) is %08x, want %08x", k,
                                     policy, (unsigned)seed, m, n, c[m * N + n],
                                     p.want[m * N + n]);
                if (!first) {
                    first = malloc(M * N * 4);
                    assert_non_null(first);
                    memcpy(first, c, M * N * 4);
                }
                assert_memory_equal(first, c, M * N * 4);
                emu_close(&e);
            }
        free(first);
        problem_close(&p);
    }
}

#define KIND(name) (1u << TRAP_##name)

/* One thing wrong, and the trap that says so, whatever the timing. */
static void wrong(void **state)
{
    static const struct {
        struct fault fault;
        unsigned kinds;         /* a bit each: timing may choose */
    } rows[] = {
        { { .missing = "mbarrier.init.shared::cta.b64 [bars+32], 8;\n" }, KIND(MBARRIER) },
        { { .from = "_, [t], 32768", .to = "_, [t], 32784" }, KIND(DEADLOCK) },
        { { .from = "_, [t], 32768", .to = "_, [t], 1048576" }, KIND(MBARRIER_TX) },
        { { .missing = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [t], 32768;\n" },
          KIND(DEADLOCK) },
        { { .from = "mov.u32 ph, 1;", .to = "mov.u32 ph, 0;" }, KIND(DEADLOCK) },
        { { .from = "[bars+32], 8", .to = "[bars+32], 9" }, KIND(DEADLOCK) },
        { { .missing = "@lead mbarrier.arrive.shared::cta.b64 _, [u+32];\n" }, KIND(DEADLOCK) },
        { { .from = "@lead mbarrier.arrive", .to = "mbarrier.arrive" },
          KIND(DEADLOCK) | KIND(UNDEFINED) | KIND(MBARRIER) },
        { { .missing = "setmaxnreg.dec.sync.aligned.u32 40;\n" }, KIND(DEADLOCK) },
        { { .missing = "wgmma.fence.sync.aligned;\n" }, KIND(INSTRUCTION) },
        { { .missing = "wgmma.commit_group.sync.aligned;\n" }, KIND(PENDING) },
        { { .missing = "wgmma.wait_group.sync.aligned 0;\n" }, KIND(PENDING) },
        { { .from = "hi, 0x40000040", .to = "hi, 0x40004040" }, KIND(DESCRIPTOR) },
        { { .from = "hi, 0x40000040", .to = "hi, 0x40003fff" }, KIND(BOUNDS) },
        { { .from = "add.u32 u, wg, -1;\nshl.b32 u, u, 9;", .to = "shl.b32 u, wrp, 9;" },
          KIND(MISMATCH) },
        { { .from = "[a0], [ta", .to = "[a0+64], [ta" }, KIND(MISALIGNED) },
        { { .from = "[b0], [tb", .to = "[b0+131072], [tb" }, KIND(BOUNDS) },
        { { .from = "[b0], [tb, {k0, n0}], [t]", .to = "[b0], [tb, {k0, n0}], [t+4]" },
          KIND(MISALIGNED) },
        { { .from = "[b0], [tb, {k0, n0}], [t]", .to = "[b0], [tb, {k0, n0}], [t+128]" },
          KIND(MBARRIER) },
        { { .from = "[b0], [tb, {k0, n0}], [t]", .to = "[bars+-16256], [tb, {k0, n0}], [t]" },
          KIND(MBARRIER_MEMORY) },
        { { .from = "{k0, m0}], [t]", .to = "{it, m0}], [t]" }, KIND(TENSOR_ACCESS) },
        { { .from = "add.u32 t, n0, 0;", .to = "add.u32 t, n0, -512;" }, KIND(TENSOR_ACCESS) },
    };

    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (unsigned policy = 0; policy < 3; policy++) {
            struct problem p;
            struct emu e;

            problem_open(&p, 704);
            emu_open(&e, policy, i);
            if (run(&e, &p, &rows[i].fault))
                fail_msg("row %u, policy %u: no trap", i, policy);
            if (!(rows[i].kinds >> e.trap.kind & 1)) {
                char *report = trap_report(&e.trap);

                print_error("row %u, policy %u: another trap is wanted\n%s\n", i, policy, report);
                free(report);
                fail();
            }
            emu_close(&e);
            problem_close(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right),
        cmocka_unit_test(wrong),
    };

    return cmocka_run_group_tests_name("emu/gemm", tests, NULL, NULL);
}
