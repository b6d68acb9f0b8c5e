/*
 * Cluster launch control: grids of every shape are done once whatever is cancelled, the answers
 * name clusters and coordinates rightly, and each misuse is a trap.
 */
#include "emu_run.h"

/* ---- a worker -----------------------------------------------------------------------------------
 *
 * Every CTA does the tile of its own place, then asks. In a cluster the CTA of rank 0 asks for all,
 * and each CTA finds its own place behind the first one of the cancelled cluster.
 *
 *     times[tile]  how often it was done      owner[tile]  the flat %ctaid of who did it
 *     counts       CTAs that started, answers that were yes, answers that were no
 */
static const char head[] =
    ".version 8.6\n.target sm_100a\n.address_size 64\n"
    ".extern .shared .align 16 .b8 large[];\n"
    ".visible .entry k(.param .u64 times, .param .u64 owner, .param .u64 counts)\n{\n"
    ".shared .align 16 .b8 answer[16];\n.shared .align 8 .b64 bar;\n"
    ".reg .b32 x, y, z, rx, ry, rz, me, tile, t, at, bars, parity, lane, rank, nx, ny, v, w;\n"
    ".reg .b64 p;\n.reg .b128 said;\n.reg .pred done, lead, asks, more;\n"
    "mov.u32 x, %ctaid.x;\nmov.u32 y, %ctaid.y;\nmov.u32 z, %ctaid.z;\n"
    "mov.u32 rx, %cluster_ctaid.x;\nmov.u32 ry, %cluster_ctaid.y;\nmov.u32 rz, %cluster_ctaid.z;\n"
    "mov.u32 nx, %nctaid.x;\nmov.u32 ny, %nctaid.y;\n"
    "mov.u32 lane, %laneid;\nmov.u32 rank, %cluster_ctarank;\n"
    "mov.u32 at, answer;\nmov.u32 bars, bar;\nmov.u32 parity, 0;\n"
    "setp.eq.u32 lead, lane, 0;\nsetp.eq.and.u32 asks, rank, 0, lead;\n"
    "mad.lo.u32 me, z, ny, y;\nmad.lo.u32 me, me, nx, x;\n"
    "@lead mbarrier.init.shared::cta.b64 [bars], 1;\n"
    "@lead fence.mbarrier_init.release.cluster;\n"
    "ld.param.u64 p, [counts];\n@lead red.global.add.u32 [p], 1;\n";

static const char loop[] =
    "ask:\n"
    "mad.lo.u32 tile, z, ny, y;\nmad.lo.u32 tile, tile, nx, x;\n"
    "ld.param.u64 p, [times];\nmad.wide.u32 p, tile, 4, p;\n@lead red.global.add.u32 [p], 1;\n"
    "ld.param.u64 p, [owner];\nmad.wide.u32 p, tile, 4, p;\n@lead st.global.u32 [p], me;\n"
    "@lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], 16;\n"
    "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
    "@asks clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes%s.b128"
    " [at], [bars];\n"
    "wait: mbarrier.try_wait.parity.shared::cta.b64 done, [bars], parity;\n@!done bra wait;\n"
    "xor.b32 parity, parity, 1;\n"
    "ld.shared.b128 said, [at];\n"
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 more, said;\n"
    "selp.u32 v, 4, 8, more;\n"
    "ld.param.u64 p, [counts];\ncvt.u64.u32 said_at, v;\nadd.u64 p, p, said_at;\n"
    "@asks red.global.add.u32 [p], 1;\n"
    "@!more bra end;\n"
    "%s"
    "add.u32 x, x, rx;\nadd.u32 y, y, ry;\nadd.u32 z, z, rz;\n"
    "fence.proxy.async.shared::cta;\nbra ask;\n"
    "end: barrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}\n";

static const char vector[] =
    "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {x, y, z, _}, said;\n";
static const char singles[] =
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 x, said;\n"
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 y, said;\n"
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 z, said;\n";

static void worker(char *text, size_t room, bool multicast, bool by_coordinate)
{
    char body[4096];
    int n = snprintf(body, sizeof body, loop, multicast ? ".multicast::cluster::all" : "",
                     by_coordinate ? singles : vector);

    assert_true(n > 0 && (size_t)n < sizeof body);
    n = snprintf(text, room, "%s.reg .b64 said_at;\n%s", head, body);
    assert_true(n > 0 && (size_t)n < room);
}

static void open_b200(struct emu *e, unsigned sms, enum machine_policy policy, uint64_t seed)
{
    emu_open_b200(e, policy, seed);
    e->config.sms = sms;
    emu_renew(e);
}

struct tally {
    unsigned started, yes, no;
};

enum { TILES = 512, ONE_CTA_AN_SM = 200000 };

static const uint32_t zeros[TILES];

static void one(const struct emu_launch *l, unsigned sms, enum machine_policy policy, uint64_t seed,
                struct tally *sum)
{
    const unsigned ctas = l->grid[0] * l->grid[1] * l->grid[2];
    const unsigned size = l->cluster[0] * l->cluster[1] * l->cluster[2];
    const uint32_t *times, *owner, *counts;
    uint64_t values[3];
    char text[8192];
    struct emu e;

    assert_true(ctas <= TILES);
    open_b200(&e, sms, policy, seed);
    worker(text, sizeof text, size > 1, seed & 1);
    emu_load(&e, text);
    values[0] = emu_put(&e, zeros, sizeof zeros);
    values[1] = emu_put(&e, zeros, sizeof zeros);
    values[2] = emu_put(&e, zeros, 16);
    emu_must(&e, "k", l, 3, values);
    times = emu_bytes(&e, values[0]);
    owner = emu_bytes(&e, values[1]);
    counts = emu_bytes(&e, values[2]);
    for (unsigned tile = 0; tile < ctas; tile++) {
        if (times[tile] != 1)
            fail_msg("policy %d seed %llu: tile %u was done %u times", (int)policy,
                     (unsigned long long)seed, tile, times[tile]);
        /* who does another's tile has done its own: it did start */
        if (owner[tile] >= ctas || owner[owner[tile]] != owner[tile])
            fail_msg("tile %u has the owner %u", tile, owner[tile]);
    }
    /* every cluster started or was cancelled, and each that started asked until it was refused */
    assert_int_equal(counts[0] + size * counts[1], ctas);
    assert_int_equal(counts[0], size * counts[2]);
    sum->started += counts[0];
    sum->yes += counts[1];
    sum->no += counts[2];
    emu_close(&e);
}

static const struct emu_launch launches[] = {
    { .grid = { 50, 1, 1 }, .block = { 32 }, .cluster = { 1, 1, 1 }, .smem = ONE_CTA_AN_SM },
    { .grid = { 5, 3, 4 }, .block = { 32 }, .cluster = { 1, 1, 1 }, .smem = ONE_CTA_AN_SM },
    { .grid = { 40, 1, 1 }, .block = { 32 }, .cluster = { 2, 1, 1 }, .smem = ONE_CTA_AN_SM },
    { .grid = { 4, 6, 3 }, .block = { 32 }, .cluster = { 2, 2, 1 }, .smem = ONE_CTA_AN_SM },
    { .grid = { 2, 3, 8 }, .block = { 32 }, .cluster = { 1, 1, 4 }, .smem = ONE_CTA_AN_SM },
    { .grid = { 3, 1, 1 }, .block = { 32 }, .cluster = { 1, 1, 1 }, .smem = ONE_CTA_AN_SM },
    { .grid = { 4, 1, 1 }, .block = { 32 }, .cluster = { 4, 1, 1 }, .smem = ONE_CTA_AN_SM },
};

enum { LAUNCHES = sizeof launches / sizeof launches[0] };

static void once_each(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LAUNCHES; i++)
        for (unsigned policy = 0; policy < 3; policy++) {
            struct tally sum = { 0 };

            for (uint64_t seed = 0; seed < 12; seed++)
                one(&launches[i], 4, (enum machine_policy)policy, seed, &sum);
            /* more clusters than fit: some were cancelled; no more than fit: none could be */
            const unsigned ctas = launches[i].grid[0] * launches[i].grid[1] * launches[i].grid[2];

            if (ctas > 4)
                assert_true(sum.yes > 0);
            assert_true(sum.no > 0);
        }
}

/* No cluster ever starts behind the first ones when nobody is refused while some are left. */
static void exhausted(void **state)
{
    (void)state;
    for (unsigned sms = 1; sms <= 3; sms++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct tally sum = { 0 };

            one(&launches[0], sms, POLICY_LATE, seed, &sum);
            assert_int_equal(sum.started, sms);
            assert_int_equal(sum.yes, 50 - sms);
        }
}

/* A request may be refused with clusters left, which then start by themselves. */
static void refused_early(void **state)
{
    unsigned times = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct tally sum = { 0 };

        one(&launches[0], 2, POLICY_RANDOM, seed, &sum);
        times += sum.started > 2;
    }
    assert_true(times > 5);
}

/* Where everybody fits at once, everybody starts and the answers are no. */
static void nothing_left(void **state)
{
    const struct emu_launch l = { .grid = { 6, 1, 1 }, .block = { 32 }, .cluster = { 1, 1, 1 } };

    (void)state;
    for (unsigned policy = 0; policy < 3; policy++) {
        struct tally sum = { 0 };

        one(&l, 4, (enum machine_policy)policy, 1, &sum);
        if (policy == POLICY_LATE)
            assert_int_equal(sum.yes, 0);
        assert_int_equal(sum.started + sum.yes, 6);
    }
}

/* The answer has been read by ordinary instructions: the next one comes behind a proxy fence. */
static void fenced(void **state)
{
    static const char fence[] = "fence.proxy.async.shared::cta;\n";

    (void)state;
    for (unsigned i = 0; i < LAUNCHES - 2; i++)         /* where something is cancelled */
        for (unsigned without = 0; without < 2; without++) {
            uint64_t values[3];
            char text[8192], *at;
            struct emu e;
            bool ok;

            open_b200(&e, 4, POLICY_LATE, i);
            e.config.rules = RULE_STRICT;
            emu_renew(&e);
            worker(text, sizeof text, launches[i].cluster[0] * launches[i].cluster[1] *
                                      launches[i].cluster[2] > 1, false);
            at = strstr(text, fence);
            assert_non_null(at);
            if (without)
                memset(at, ' ', sizeof fence - 2);
            emu_load(&e, text);
            values[0] = emu_put(&e, zeros, sizeof zeros);
            values[1] = emu_put(&e, zeros, sizeof zeros);
            values[2] = emu_put(&e, zeros, 16);
            ok = emu_run(&e, "k", &launches[i], 3, values);
            assert_int_equal(ok ? TRAP_NONE : e.trap.kind, without ? TRAP_PROXY : TRAP_NONE);
            emu_close(&e);
        }
}

/* ---- misuse ---------------------------------------------------------------------------------- */

#define KIND(name) (UINT64_C(1) << TRAP_##name)
#define TRY "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 "
#define TRY_ALL "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes" \
    ".multicast::cluster::all.b128 "
#define IS "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 "
#define FIRST "clusterlaunchcontrol.query_cancel.get_first_ctaid"
#define ARM "mbarrier.init.shared::cta.b64 [bars], 1;\n" \
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], 16;\n"
#define WAIT "w: mbarrier.try_wait.parity.shared::cta.b64 p, [bars], 0;\n@!p bra w;\n"
#define GET "ld.shared.b128 said, [at];\n"
#define STORE "ld.param.u64 g, [out];\nst.global.u32 [g], v;\n"

static const struct {
    const char *body;
    unsigned ctas, cluster;
    uint64_t kinds;
    const char *words;          /* of the report */
} mistakes[] = {
    { ARM TRY "[at], [bars];\n" WAIT GET IS "p, said;\nselp.u32 v, 1, 0, p;\n" STORE, 1, 1,
      KIND(NONE), NULL },
    { ARM "add.u32 at, at, 8;\n" TRY "[at], [bars];\n", 1, 1, KIND(MISALIGNED), "multiple of 16" },
    { ARM "add.u32 bars, bars, 4;\n" TRY "[at], [bars];\n", 1, 1, KIND(MISALIGNED),
      "multiple of 8" },
    { TRY "[at], [bars];\n", 1, 1, KIND(MBARRIER), NULL },
    { ARM TRY "[bars+-32], [bars];\n", 1, 1, KIND(BOUNDS), NULL },
    /* the answer over the barrier itself */
    { "add.u32 bars, at, 8;\n" ARM TRY "[at], [bars];\n", 1, 1, KIND(MBARRIER_MEMORY), NULL },
    /* into another CTA's memory, or telling another's barrier */
    { ARM "xor.b32 v, rank, 1;\nmapa.shared::cluster.u32 at, at, v;\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\n" TRY "[at], [bars];\n", 2, 2,
      KIND(WRONG_SPACE), NULL },
    { ARM "xor.b32 v, rank, 1;\nmapa.shared::cluster.u32 bars, bars, v;\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\n" TRY "[at], [bars];\n", 2, 2,
      KIND(WRONG_SPACE), NULL },
    /* once more after a refusal that somebody has seen */
    { ARM TRY "[at], [bars];\n" WAIT GET IS "p, said;\n@p bra e;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], 16;\n" TRY "[at], [bars];\ne:\n", 1, 1,
      KIND(INSTRUCTION), "none may follow" },
    /* no answer at all, and the coordinates of none */
    { "mov.b64 h, 77;\nmov.b128 said, {h, h};\n" IS "p, said;\n", 1, 1, KIND(INSTRUCTION),
      "is no answer" },
    { ARM TRY "[at], [bars];\n" WAIT GET FIRST "::x.b32.b128 v, said;\n" STORE, 1, 1,
      KIND(UNDEFINED), NULL },
    { ARM TRY "[at], [bars];\n" WAIT GET FIRST ".v4.b32.b128 {a, b, c, v}, said;\n" STORE, 1, 1,
      KIND(UNDEFINED), NULL },
    /* a barrier that expects nothing, or another number of bytes */
    { "mbarrier.init.shared::cta.b64 [bars], 1;\n" TRY "[at], [bars];\n" WAIT, 1, 1,
      KIND(DEADLOCK), "arrivals pending" },
    { "mbarrier.init.shared::cta.b64 [bars], 1;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], 32;\n" TRY "[at], [bars];\n" WAIT, 1, 1,
      KIND(DEADLOCK), "16 bytes outstanding" },
    /* only one CTA of two has a barrier for the answer */
    { "setp.ne.u32 q, rank, 0;\n@q bra s;\n" ARM "s: barrier.cluster.arrive;\n"
      "barrier.cluster.wait;\n@q bra e;\n" TRY_ALL "[at], [bars];\ne: barrier.cluster.arrive;\n"
      "barrier.cluster.wait;\n", 2, 2, KIND(MBARRIER), NULL },
    /* a CTA of the cluster has left */
    { ARM "barrier.cluster.arrive;\nbarrier.cluster.wait;\nsetp.ne.u32 q, rank, 0;\n@q bra e;\n"
      "mov.u32 v, 0;\nn: nanosleep.u32 1000;\nadd.u32 v, v, 1;\nsetp.lt.u32 p, v, 50;\n@p bra n;\n"
      TRY_ALL "[at], [bars];\ne:\n", 2, 2, KIND(DEAD_TARGET), "exited" },
    /* the asker does not wait: the answer may come when it has left */
    { ARM TRY "[at], [bars];\n", 1, 1, KIND(EXIT_PENDING) | KIND(NONE), NULL },
};

static const char frame[] =
    ".version 8.6\n.target sm_100a\n.address_size 64\n"
    ".visible .entry k(.param .u64 out)\n{\n"
    ".shared .align 16 .b8 answer[16];\n.shared .align 8 .b64 bar;\n"
    ".reg .b32 at, bars, rank, v, a, b, c;\n.reg .b64 g, h;\n.reg .b128 said;\n"
    ".reg .pred p, q;\n"
    "mov.u32 at, answer;\nmov.u32 bars, bar;\nmov.u32 rank, %%cluster_ctarank;\n%sret;\n}\n";

static enum trap_kind found(unsigned i, enum machine_policy policy, uint64_t seed, char **report)
{
    const struct emu_launch l = { .grid = { mistakes[i].ctas }, .block = { 1 },
                                  .cluster = { mistakes[i].cluster } };
    enum trap_kind kind = TRAP_NONE;
    char text[4096];
    struct emu e;
    uint64_t out;
    const int n = snprintf(text, sizeof text, frame, mistakes[i].body);

    assert_true(n > 0 && (size_t)n < sizeof text);
    open_b200(&e, 4, policy, seed);
    emu_load(&e, text);
    out = emu_alloc(&e, 4);
    if (!emu_run(&e, "k", &l, 1, &out)) {
        kind = e.trap.kind;
        *report = trap_report(&e.trap);
    }
    emu_close(&e);
    return kind;
}

static void misuse(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
        for (unsigned policy = 0; policy < 3; policy++) {
            char *report = NULL;
            const enum trap_kind kind = found(i, (enum machine_policy)policy, i, &report);

            if (!(mistakes[i].kinds >> kind & 1) ||
                (mistakes[i].words && !(report && strstr(report, mistakes[i].words)))) {
                print_error("row %u, policy %u: %s\n%s\n", i, policy, report ? report : "no trap",
                            mistakes[i].body);
                fail();
            }
            free(report);
        }
}

/* What is late is noticed late: the answer read before it is there, the exit before it came. */
static void too_soon(void **state)
{
    static const char body[] = ARM TRY "[at], [bars];\n" GET IS "p, said;\n@p ret;\n" WAIT;
    const struct emu_launch l = { .grid = { 1 }, .block = { 1 }, .cluster = { 1 } };
    char text[4096], *report = NULL;
    struct emu e;
    uint64_t out;

    (void)state;
    snprintf(text, sizeof text, frame, body);
    open_b200(&e, 4, POLICY_LATE, 1);
    emu_load(&e, text);
    out = emu_alloc(&e, 4);
    assert_false(emu_run(&e, "k", &l, 1, &out));
    assert_int_equal(e.trap.kind, TRAP_UNDEFINED);
    emu_close(&e);
    assert_int_equal(found(sizeof mistakes / sizeof mistakes[0] - 1, POLICY_LATE, 1, &report),
                     TRAP_EXIT_PENDING);
    free(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_each),
        cmocka_unit_test(exhausted),
        cmocka_unit_test(refused_early),
        cmocka_unit_test(nothing_left),
        cmocka_unit_test(fenced),
        cmocka_unit_test(misuse),
        cmocka_unit_test(too_soon),
    };

    return cmocka_run_group_tests_name("clc", tests, NULL, NULL);
}
