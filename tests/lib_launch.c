/* lib_launch.c -- launches of split and multicast kernels: which can be asked for, what plans make of them, and the lists
 * of those that the model thinks fastest. */
#include "lib_fixture.h"

#include "loader/kernels.h"
#include "loader/launch.h"

static const char wide[] = "sm90_gemm_bf16_128x256", split[] = "sm90_gemm_bf16_64x64_split", thin[] = "sm90_gemm_bf16_8x64_split",
                  multicast[] = "sm90_gemm_bf16_128x64_multicast";

static struct ptxmm_device h200(void)
{
    struct ptxmm_device device;
    assert_int_equal(ptxmm_device_known("h200", &device, NULL), PTXMM_OK);
    return device;
}

/* Structures that older callers have: what was reserved is what is new. */
static void sizes(void **unused)
{
    (void)unused;
    assert_int_equal(sizeof(struct ptxmm_preferences), 72);
    assert_int_equal(offsetof(struct ptxmm_preferences, no_programmatic_launch), 32);
    assert_int_equal(offsetof(struct ptxmm_preferences, cluster), 40);
    assert_int_equal(sizeof(struct ptxmm_choice), 96);
    assert_int_equal(offsetof(struct ptxmm_choice, cluster), 64);
}

static struct ptxmm_candidate verdict(const struct ptxmm_problem *problem, const char *kernel)
{
    struct ptxmm_problem one = *problem;
    struct ptxmm_candidate first;
    struct ptxmm_error error;
    const struct ptxmm_device device = h200();
    size_t count;
    one.prefer.kernel = NULL;
    static struct ptxmm_candidate all[512];
    if (ptxmm_select(&device, &one, all, 512, &count, &error))
        fail_msg("ptxmm_select: %s", error.text);
    memset(&first, 0, sizeof first);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(all[i].kernel->name, kernel))
            first = all[i];
    return first;
}

/* What is asked for is what is launched, each of the three alone or together. */
static void asked_is_launched(void **unused)
{
    (void)unused;
    static const struct {
        const char *kernel;
        int cluster, rows, groups;
    } rows[] = {
        { split, 1, 0, 0 },     { split, 3, 0, 0 },     { split, 8, 1, 0 },     { split, 0, 0, 5 },
        { split, 2, 1, 7 },     { split, 4, 0, 1 },     { split, 0, 1, 0 },     { multicast, 1, 0, 0 },
        { multicast, 4, 0, 0 }, { multicast, 8, 8, 0 }, { multicast, 0, 8, 0 }, { multicast, 0, 4, 2 },
        { multicast, 2, 2, 3 }, { multicast, 0, 0, 6 }, { multicast, 2, 1, 1 }, { wide, 1, 1, 1 },
        { wide, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ptxmm_problem p = case_problem(200, 300, 8192);
        p.d.ld = 304;
        p.prefer.workspace_limit = 1 << 28;
        const struct ptxmm_candidate free = verdict(&p, rows[i].kernel);
        p.prefer.cluster = rows[i].cluster;
        p.prefer.cluster_rows = rows[i].rows;
        p.prefer.groups = rows[i].groups;
        const struct ptxmm_candidate c = verdict(&p, rows[i].kernel);
        if (c.reason != PTXMM_REASON_NONE || (rows[i].cluster && c.cluster != rows[i].cluster) ||
            (rows[i].rows && c.cluster_rows != rows[i].rows) ||
            (rows[i].groups && c.groups != rows[i].groups) || c.cluster % c.cluster_rows)
            fail_msg("row %zu: %s, %lld CTAs in %lld rows, %lld groups", i, ptxmm_reason_name(c.reason),
                     (long long)c.cluster, (long long)c.cluster_rows, (long long)c.groups);
        assert_true(free.reason == PTXMM_REASON_NONE && free.seconds <= c.seconds); // the best of all
        assert_true(free.cluster_rows != 8); // which must be asked for
    }
}

/* A rejection names the field, what it is and what it must be. */
static void rejections(void **unused)
{
    (void)unused;
#define REJECTED(kernel_, change, reason_, field_, has_, needs_, words)                                      \
    do {                                                                                                     \
        struct ptxmm_problem p = case_problem(128, 64, 640);                                                 \
        char text[256];                                                                                      \
        p.prefer.workspace_limit = 1 << 28;                                                                  \
        change;                                                                                              \
        struct ptxmm_candidate c = verdict(&p, kernel_);                                                     \
        int length = ptxmm_candidate_describe(&c, text, sizeof text);                                        \
        assert_int_equal(length, strlen(text));                                                              \
        if (c.reason != PTXMM_REASON_##reason_ || strcmp(c.field, field_) || c.has != (has_) ||              \
            c.needs != (needs_) || !strstr(text, words) || c.seconds != 0 || c.groups != 0)                  \
            fail_msg("%s: %s", #change, text);                                                               \
    } while (0)
    REJECTED(wide, p.prefer.cluster = 2, LAUNCH, "prefer.cluster", 2, 1, "prefer.cluster is 2, must be 1");
    REJECTED(wide, p.prefer.cluster_rows = 2, LAUNCH, "prefer.cluster_rows", 2, 1, "must be 1");
    REJECTED(wide, p.prefer.groups = 2, LAUNCH, "prefer.groups", 2, 1, "prefer.groups is 2, must be 1");
    REJECTED(wide, p.prefer.stages = 5, LAUNCH, "prefer.stages", 5, 4, "prefer.stages is 5, must be 4");
    REJECTED(multicast, p.prefer.stages = 8, LAUNCH, "prefer.stages", 8, 9, "prefer.stages is 8, must be 9");
    REJECTED(split, p.prefer.stages = 13, LAUNCH, "prefer.stages", 13, 12, "prefer.stages is 13, must be at most 12");
    REJECTED(split, p.prefer.cluster_rows = 2, LAUNCH, "prefer.cluster_rows", 2, 1, "must be 1");
    REJECTED(multicast, p.prefer.cluster = 3, LAUNCH, "prefer.cluster", 3, 4, "is 3, must be 1, 2, 4 or 8");
    // 10 slices
    REJECTED(split, p.prefer.groups = 11, LAUNCH, "prefer.groups", 11, 10, "is 11, must be at most 10");
    REJECTED(split, p.prefer.cluster = 3; p.prefer.groups = 4, LAUNCH, "prefer.groups", 4, 3, "at most 3");
    REJECTED(split, p.prefer.cluster = 3; p.k = 128, LAUNCH, "prefer.cluster", 3, 2, "at most 2");
    REJECTED(multicast, p.prefer.groups = 11, LAUNCH, "prefer.groups", 11, 10, "at most 10");
    REJECTED(multicast, p.prefer.groups = 2; p.k = 0, LAUNCH, "prefer.groups", 2, 1, "must be 1");
    // SMs
    REJECTED(split, p.prefer.cluster = 4; p.prefer.sm_budget = 3, LAUNCH, "prefer.cluster", 4, 3, "at most 3");
    REJECTED(multicast, p.prefer.cluster_rows = 4; p.prefer.sm_budget = 2, LAUNCH, "prefer.cluster_rows", 4, 2,
             "at most 2");
    // ... of groups that wait for one another: 132 for 32 tiles
    REJECTED(multicast, p.m = 4096; p.prefer.groups = 5, LAUNCH, "prefer.groups", 5, 4, "at most 4");
    // the workspace's bytes and counters
    REJECTED(split, p.prefer.groups = 2; p.prefer.workspace_limit = 1000, WORKSPACE, "prefer.workspace_limit", 1000,
             PTXMM_WORKSPACE_COUNTERS + 2 * 2 * 64 * 64 * 4, "must be at least 131072");
    REJECTED(multicast, p.prefer.groups = 2; p.prefer.workspace_limit = 0, WORKSPACE, "prefer.workspace_limit", 0,
             PTXMM_WORKSPACE_COUNTERS + 2 * 128 * 64 * 4, "must be at least 131072");
    REJECTED(split, p.prefer.groups = 2; p.m = 64 << 15; p.prefer.workspace_limit = INT64_MAX, LAUNCH,
             "prefer.groups", 2, 1, "must be 1");
}

/* The length of a ring: what is asked for, or a rule of measured times (docs/results.md), and the shared memory that holds it. */
static void rings(void **unused)
{
    (void)unused;
    static const struct {
        const char *kernel;
        int64_t m, n, k;
        int cluster, asked, stages;
    } rows[] = {
        { thin, 1, 8192, 8192, 0, 0, 17 },  // 128 CTAs of one tile: the device is full
        { thin, 1, 16384, 8192, 0, 0, 17 }, // ... of two
        { thin, 1, 28672, 4096, 0, 0, 11 }, // 112 CTAs: the next kernel finds SMs
        { thin, 1, 6144, 4096, 1, 0, 11 },  // 96
        { thin, 1, 2112, 7168, 1, 0, 17 },  // 33: each must have more under way
        { thin, 1, 2112, 7168, 3, 0, 11 },  // 99
        { thin, 1, 8192, 8192, 0, 4, 4 },
        { thin, 1, 28672, 4096, 0, 17, 17 },
        { split, 64, 28672, 4096, 0, 0, 12 }, // larger tiles keep all they have
        { split, 64, 28672, 4096, 0, 7, 7 },
        { wide, 64, 28672, 4096, 0, 4, 4 },
        { multicast, 64, 512, 4096, 0, 9, 9 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ptxmm_problem p = case_problem(rows[i].m, rows[i].n, rows[i].k);
        p.prefer.cluster = rows[i].cluster;
        p.prefer.stages = rows[i].asked;
        const struct ptxmm_candidate c = verdict(&p, rows[i].kernel);
        const struct ptxmm_kernel_info *k = ptxmm_kernel_by_name(rows[i].kernel);
        if (c.reason != PTXMM_REASON_NONE || c.stages != rows[i].stages)
            fail_msg("row %zu: %s, %lld stages", i, ptxmm_reason_name(c.reason), (long long)c.stages);
        assert_int_equal(c.shared_bytes, k->shared_bytes - (k->stages - c.stages) * (k->tile_m + k->tile_n) * 128);
    }
}

/* A product of nothing has a ring all the same. */
static void rings_of_nothing(void **unused)
{
    (void)unused;
    struct ptxmm_problem p = case_problem(0, 64, 64);
    const struct ptxmm_kernel_info *k = ptxmm_kernel_by_name(thin);
    struct ptxmm_candidate c = verdict(&p, thin);
    assert_true(c.stages == k->stages && c.shared_bytes == k->shared_bytes);
    p.prefer.stages = 6;
    c = verdict(&p, thin);
    assert_true(c.stages == 6 && c.shared_bytes == k->shared_bytes - (k->stages - 6) * (8 + 64) * 128);
}

/* Plans launch what is asked for, and the block says so. */
static void plans(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(512, 512, 4096);
    problem.prefer.kernel = multicast;
    problem.prefer.workspace_limit = 1 << 26;
    problem.prefer.cluster = 4;
    problem.prefer.cluster_rows = 2;
    problem.prefer.groups = 2;
    struct ptxmm_arguments arguments = case_arguments();
    arguments.workspace = arguments.d + 0x100000;
    arguments.workspace_bytes = 1 << 26;
    const struct stub_launch *launch = run(f, &problem, &arguments);
    struct ptxmm_gemm_args args;
    memcpy(&args, launch->arguments, sizeof args);
    assert_true(launch->cluster == 4 && args.raster == 2 && args.groups == 2 && launch->cooperative == 1);
    assert_true(args.tiles_m == 4 && args.tiles_n == 8 && launch->grid[0] == 64);

    problem.prefer.kernel = split;
    problem.prefer.cluster = 3;
    problem.prefer.cluster_rows = 0;
    problem.prefer.groups = 4;
    problem.prefer.stages = 5;
    launch = run(f, &problem, &arguments);
    memcpy(&args, launch->arguments, sizeof args);
    assert_true(launch->cluster == 3 && args.groups == 4 && launch->cooperative == 0);
    assert_int_equal(launch->shared, ptxmm_kernel_by_name(split)->shared_bytes - (12 - 5) * (64 + 64) * 128);
    problem.prefer.stages = 0;

    struct ptxmm_plan *plan;
    problem.prefer.kernel = wide;
    case_check_error(&f->error, ptxmm_plan_create(f->mm, &problem, NULL, &plan, &f->error), PTXMM_ERROR_NO_KERNEL,
                     "prefer.cluster is 3, must be 1", NULL);
    problem.prefer.kernel = NULL; // of all kernels only split ones have clusters of 3
    plan = make(f, &problem);
    assert_int_equal(ptxmm_plan_info(plan)->candidate.kernel->algorithm, PTXMM_SPLIT);
    assert_int_equal(ptxmm_plan_info(plan)->cluster, 3);
    ptxmm_plan_destroy(&plan);
}

/* ---- lists --------------------------------------------------------------------------------- */

static void check_list(const struct ptxmm_candidate *list, size_t count, const struct ptxmm_problem *problem,
                       const struct ptxmm_device *device)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(!i || list[i].seconds >= list[i - 1].seconds);
        for (size_t j = 0; j < i; j++)
            assert_true(list[i].cluster != list[j].cluster || list[i].cluster_rows != list[j].cluster_rows ||
                        list[i].groups != list[j].groups);
        // Each is what a problem gets that asks for it.
        struct ptxmm_problem asked = *problem;
        struct ptxmm_candidate one = { .kernel = list[i].kernel };
        asked.prefer.cluster = (int)list[i].cluster;
        asked.prefer.cluster_rows = (int)list[i].cluster_rows;
        asked.prefer.groups = (int)list[i].groups;
        launch_choose(timing_of(one.kernel), device, &asked, &one);
        assert_true(one.reason == PTXMM_REASON_NONE && one.seconds == list[i].seconds &&
                    one.ctas == list[i].ctas && one.workspace_bytes == list[i].workspace_bytes);
    }
}

static void lists(void **unused)
{
    (void)unused;
    const struct ptxmm_device device = h200();
    static struct ptxmm_candidate all[700], few[4];
    uint64_t seed = case_seed();
    for (int i = 0; i < 300; i++) {
        struct ptxmm_problem p = case_problem(1 + (int64_t)(case_random(&seed) % 3000), 8 << case_random(&seed) % 10,
                                              8 << case_random(&seed) % 12);
        p.prefer.workspace_limit = case_random(&seed) % 4 ? 1 << 27 : 0;
        if (case_random(&seed) % 4 == 0)
            p.prefer.sm_budget = 1 + (int)(case_random(&seed) % 132);
        const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(i % 2 ? split : multicast);
        struct ptxmm_candidate best = { .kernel = kernel };
        launch_choose(timing_of(kernel), &device, &p, &best);
        const size_t count = launch_list(&device, &p, kernel, all, 700);
        assert_in_range(count, 1, 640);
        // What is chosen is found by a walk that gives up after a few groups that were no better, and may miss one.
        assert_true(best.seconds >= all[0].seconds && best.seconds <= 1.25 * all[0].seconds);
        check_list(all, count < 20 ? count : 20, &p, &device);
        const size_t some = launch_list(&device, &p, kernel, few, 4);
        assert_int_equal(some, count < 4 ? count : 4);
        for (size_t k = 0; k < some; k++)
            assert_true(few[k].seconds == all[k].seconds);
        p.prefer.cluster = 2;
        p.prefer.groups = 1;
        const size_t narrowed = launch_list(&device, &p, kernel, all, 700);
        for (size_t k = 0; k < narrowed; k++)
            assert_true(all[k].cluster == 2 && all[k].groups == 1);
    }
    struct ptxmm_problem empty = case_problem(0, 64, 64);
    assert_int_equal(launch_list(&device, &empty, ptxmm_kernel_by_name(split), all, 700), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),      cmocka_unit_test(asked_is_launched),
        cmocka_unit_test(rejections), cmocka_unit_test(rings),
        cmocka_unit_test(rings_of_nothing), TEST(plans), cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests_name("lib/launch", tests, NULL, NULL);
}
