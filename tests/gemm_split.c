/* gemm_split.c -- topics about split and multicast kernels: K over the CTAs of a cluster, or loads shared by them, and K over groups of
 * clusters that share a workspace. Clusters and groups are chosen in two ways: by the ABI, where any choice must be right, and by the
 * library's plans. */
#include <stdio.h>
#include <string.h>

#include "gemm_topics.h"

/* Clusters of every size, more of them than tiles and fewer, fewer slices than CTAs, with and without operands that are promised to
 * be constant: by the ABI. */
static bool launch_split(const struct gemm_case *c, const struct foreign_split *split, uint32_t promises)
{
    struct gemm_case exact = *c;
    exact.workspace_bytes = foreign_workspace(c->kernel, c->m, c->n, 1, split);
    struct gemm_run run;
    CUresult launched = CUDA_SUCCESS;
    char text[600];
    bool ok = gemm_prepare(&topic_rig, &exact, &run);
    run.promises = promises;
    ok = ok && foreign_launch(&topic_rig, &run, FOREIGN_NONE, split, &launched) &&
         gpu_ok(&topic_rig.gpu, launched, "cuLaunchKernelEx") && gemm_fetch(&topic_rig, &run) && gemm_judge(&topic_rig, &run);
    if (!ok)
        print_message("    %s\n        clusters of %u in %u rows, %u groups, %u clusters, promises %u: %s%s\n",
                      gemm_describe(c, text, sizeof text), split->cluster, split->rows, split->groups, split->clusters, promises,
                      run.error, topic_rig.gpu.error);
    gemm_release(&topic_rig, &run);
    return ok;
}

static const struct ptxmm_kernel_info *begin_split(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    if (kernel->algorithm != PTXMM_SPLIT && kernel->algorithm != PTXMM_MULTICAST) topic_skip("the kernel does not split K");
    return kernel;
}

static void split_clusters(const struct ptxmm_kernel_info *kernel)
{
    static const uint32_t sizes[] = { 1, 2, 3, 4, 8, 5, 6, 7 };
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k;
    const struct {
        int64_t m, n, k;
        uint32_t groups, clusters;
        float beta;
    } shapes[] = {
        { tm + 1, tn + 5, 5 * tk + 3, 1, 0, 2 },    /* parts of unequal length, or none for some */
        { tm - 1, tn - 3, 1, 1, 0, 0 },             /* one product */
        { tm, tn + 1, 0, 1, 1, 1 },                 /* no product, one cluster for two tiles */
        { 2 * tm + 1, tn, 9 * tk - 1, 1, 2, 0 },    /* three tiles on two clusters */
        { tm, tn, 7 * tk + 5, 2, 0, 0 },            /* groups, all at a time */
        { tm + 1, tn + 1, 11 * tk, 3, 1, 2 },       /* ... one after another */
        { 3, 2 * tn, 2 * tk + 1, 5, 3, 1 },         /* ... more than slices, tiles that cross clusters */
    };
    bool ok = true;
    for (size_t i = 0; ok && i < (topic_rig.full ? LENGTH(sizes) : 5); i++)
        for (size_t j = 0; ok && j < LENGTH(shapes); j++) {
            if (!topic_rig.full && (i + j) % 2 && i != 2) continue;
            struct gemm_case c = topic_case(kernel, shapes[j].m, shapes[j].n, shapes[j].k, FILL_SMALL_INT);
            c.beta = shapes[j].beta;
            c.with_c = c.beta != 0;
            const struct foreign_split split = { sizes[i], shapes[j].groups, shapes[j].clusters, 0 };
            static const uint32_t promises[] = { 0, PTXMM_FLAG_CONSTANT_B, PTXMM_FLAG_CONSTANT_A,
                                                 PTXMM_FLAG_CONSTANT_A | PTXMM_FLAG_CONSTANT_B };
            ok = launch_split(&c, &split, promises[(i + j / 2) % 4]);
            c.fill = FILL_NORMAL;
            for (int p = 0; ok && topic_rig.full && p < 4; p++) ok = launch_split(&c, &split, promises[p]);
        }
    assert_true(ok);
}

/* Every rectangle of tiles that a cluster may be, with fewer tiles than it has and more. */
static void multicast_clusters(const struct ptxmm_kernel_info *kernel)
{
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k, stages = kernel->stages;
    const struct {
        int64_t m, n, k;
        uint32_t groups;
        float alpha, beta;
    } shapes[] = {
        { tm + 1, tn + 5, tk + 3, 1, 1, 2 },              /* edges behind a tile ... */
        { tm - 1, tn - 3, 1, 1, 1, 0 },                   /* ... and within it; one product */
        { tm + 1, 2 * tn + 1, 3 * tk - 1, 2, -2, 0 },     /* parts of K of unequal length, shorter than the ring */
        { 17, tn - 1, 2 * tk + 1, 5, 1, 1 },              /* ... and none for two groups */
        { tm, tn + 1, 0, 3, 1, 1 },                       /* no product at all */
        { 2, 9, (stages + 1) * tk, 1, 1, 0 },             /* the ring goes round ... */
        { tm, tn, (2 * stages + 3) * tk + 5, 2, 1, 0 },   /* ... in every group */
        { tm + 2, tn - 1, 2 * tk, 2, 0, -1 },             /* alpha 0 */
        { 1, 1, 40 * tk, 40, 1, 0 },                      /* more groups than are added at a time */
        { tm - 3, tn + 9, 9 * tk + 1, 4, 1, 2 },          /* as many as wide tiles add at several places at once */
    };
    bool ok = true;
    size_t turn = 0;
    for (uint32_t cluster = 1; cluster <= 8; cluster *= 2)
        for (uint32_t rows = 1; rows <= cluster; rows *= 2, turn++)
            for (size_t j = 0; ok && j < LENGTH(shapes); j++) {
                const struct foreign_split split = { cluster, shapes[j].groups, 0, rows };
                if (cluster * split.groups > 80) continue; /* they must all fit the device at a time */
                if (!topic_rig.full && (turn + j) % 2) continue;
                struct gemm_case c = topic_case(kernel, shapes[j].m, shapes[j].n, shapes[j].k, FILL_SMALL_INT);
                c.alpha = shapes[j].alpha;
                c.beta = shapes[j].beta;
                c.with_c = c.beta != 0;
                ok = launch_split(&c, &split, turn % 2 ? PTXMM_FLAG_CONSTANT_B : 0);
                c.fill = FILL_NORMAL;
                if (ok && topic_rig.full) ok = launch_split(&c, &split, 0);
            }
    assert_true(ok);
}

enum { MOST_WORKSPACE = 64 << 20 };

/* Plans that are asked for a launch have it, and are right. */
static void asked_launches(const struct ptxmm_kernel_info *kernel)
{
    static const int split[][3] = { { 3, 1, 2 }, { 2, 0, 3 }, { 0, 0, 4 } }, multicast[][3] = { { 4, 2, 2 }, { 2, 1, 3 }, { 0, 8, 0 } };
    bool ok = true;
    for (size_t i = 0; ok && i < LENGTH(split); i++) {
        const int *launch = kernel->algorithm == PTXMM_MULTICAST ? multicast[i] : split[i];
        struct gemm_case c = topic_case(kernel, kernel->tile_m + 1, kernel->tile_n - 3, 7 * kernel->tile_k + 5, FILL_NORMAL);
        struct gemm_run run;
        c.cluster = launch[0];
        c.cluster_rows = launch[1];
        c.groups = launch[2];
        c.workspace_limit = MOST_WORKSPACE;
        ok = gemm_result(&topic_rig, &c, &run);
        const struct ptxmm_plan_info *info = ptxmm_plan_info(run.plan);
        if (ok) {
            const struct ptxmm_candidate *has = &info->candidate;
            assert_true((!c.cluster || has->cluster == c.cluster) && (!c.cluster_rows || has->cluster_rows == c.cluster_rows) &&
                        (!c.groups || has->groups == c.groups) && info->cluster == has->cluster);
            ok = gemm_judge(&topic_rig, &run);
            if (!ok) print_message("    %s\n", run.error);
        }
        gemm_release(&topic_rig, &run);
    }
    assert_true(ok);
}

void topic_clusters(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin_split(state);
    if (kernel->algorithm == PTXMM_MULTICAST)
        multicast_clusters(kernel);
    else
        split_clusters(kernel);
    asked_launches(kernel);
}

/* Rings of any length that may be asked for: the shortest, one that divides nothing, the longest; fewer slices than slots, as many, more,
 * and laps that run on into the next tile. */
void topic_rings(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin_split(state);
    if (kernel->algorithm != PTXMM_SPLIT) topic_skip("the ring has one length");
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k;
    const int lengths[] = { 4, 5, (int)kernel->stages };
    bool ok = true;
    for (size_t i = 0; ok && i < LENGTH(lengths); i++) {
        const int stages = lengths[i];
        const struct gemm_case cases[] = {
            { .m = tm, .n = tn - 1, .k = 3 * tk },
            { .m = tm - 1, .n = tn + 1, .k = stages * tk, .constant_b = 1 },
            { .m = tm + 1, .n = tn, .k = (stages + 2) * tk + 3, .sm_budget = 1, .constant_a = 1, .constant_b = 1 },
            { .m = tm + 1, .n = 2 * tn + 1, .k = 2 * (2 * stages + 1) * tk - 5, .sm_budget = 2, .cluster = 2, .constant_b = 1 },
            { .m = tm, .n = 2 * tn, .k = 3 * (stages + 1) * tk, .sm_budget = 2, .cluster = 1, .groups = 3, .workspace_limit = MOST_WORKSPACE },
        };
        for (size_t j = 0; ok && j < LENGTH(cases); j++) {
            struct gemm_case c = topic_case(kernel, cases[j].m, cases[j].n, cases[j].k, FILL_NORMAL);
            struct gemm_run run;
            c.constant_a = cases[j].constant_a;
            c.constant_b = cases[j].constant_b;
            c.sm_budget = cases[j].sm_budget;
            c.cluster = cases[j].cluster;
            c.groups = cases[j].groups;
            c.workspace_limit = cases[j].workspace_limit;
            c.stages = stages;
            ok = gemm_result(&topic_rig, &c, &run);
            if (ok) {
                const struct ptxmm_plan_info *info = ptxmm_plan_info(run.plan);
                assert_int_equal(info->candidate.stages, stages);
                assert_int_equal(info->shared_bytes, kernel->shared_bytes - (kernel->stages - (unsigned)stages) * (unsigned)(tm + tn) * 128);
                ok = gemm_judge(&topic_rig, &run);
            }
            if (!ok) print_message("    %d stages: %s\n", stages, run.error);
            gemm_release(&topic_rig, &run);
        }
    }
    assert_true(ok);
}

/* ---- groups as the library chooses them ------------------------------------------------------------------------ */

/* K from small to huge. */
struct gemm_case topic_grouped_case(const struct ptxmm_kernel_info *kernel)
{
    const struct gemm_case types = { .kernel = kernel };
    struct ptxmm_problem problem = {
        .m = kernel->tile_m, .n = kernel->tile_n - 1, .a.type = gemm_type_a(&types), .b.type = gemm_type_b(&types),
        .d = { .type = gemm_type_d(&types), .ld = kernel->tile_n },
        .prefer = { .kernel = kernel->name, .workspace_limit = MOST_WORKSPACE },
    };
    for (int64_t slices = 8; slices <= 1 << 14; slices += slices / 4) {
        struct ptxmm_candidate best;
        struct ptxmm_error error;
        size_t count;
        problem.k = slices * kernel->tile_k + 16;
        if (ptxmm_select(&topic_rig.device, &problem, &best, 1, &count, &error)) fail_msg("%s", error.text);
        if (best.reason != PTXMM_REASON_NONE) fail_msg("%s", ptxmm_reason_text(best.reason));
        if (best.groups == 1) continue;
        struct gemm_case c = topic_case(kernel, problem.m, problem.n, problem.k, FILL_SMALL_INT);
        c.workspace_limit = MOST_WORKSPACE;
        return c;
    }
    fail_msg("the library never takes more than one group");
    return types;
}

/* Launches one after another on a workspace of their own, all with the same bits; the counters are zero each time. */
static bool repeat(struct gemm_run *first, const struct gemm_case *c, int count)
{
    struct gemm_run again = { 0 };
    char where[200];
    bool ok = gemm_prepare(&topic_rig, c, &again);
    for (int i = 0; ok && i < count; i++) {
        matrix_poison(&again.d);
        ok = gemm_rewind(&topic_rig, &again) && gemm_launch(&topic_rig, &again, NULL) &&
             gemm_fetch(&topic_rig, &again) && gemm_workspace_intact(&topic_rig, &again);
        if (ok && !gemm_same(first, &again, where, sizeof where)) {
            snprintf(again.error, sizeof again.error, "run %d differs: %s", i, where);
            ok = false;
        }
    }
    if (!ok) print_message("    %s\n", again.error);
    gemm_release(&topic_rig, &again);
    return ok;
}

/* Two shapes take turns in one workspace: each finds zeros, and leaves them. */
static bool share(const struct gemm_run *first, const struct gemm_case *c)
{
    struct gemm_case other = *c;
    struct gemm_run run[2] = { 0 };
    char where[200];
    other.m = c->kernel->tile_m + 3; /* two tiles: what lies in the workspace for the one is something else for the other */
    bool ok = gemm_prepare(&topic_rig, c, &run[0]) && gemm_prepare(&topic_rig, &other, &run[1]);
    const int larger = run[1].workspace_bytes > run[0].workspace_bytes;
    if (run[1 - larger].workspace_bytes) run[1 - larger].arguments.workspace = run[larger].arguments.workspace;
    for (int i = 0; ok && i < (topic_rig.full ? 8 : 3); i++) ok = gemm_launch(&topic_rig, &run[i % 2], NULL);
    ok = ok && gemm_fetch(&topic_rig, &run[0]) && gemm_fetch(&topic_rig, &run[1]) && gemm_judge(&topic_rig, &run[0]) &&
         gemm_judge(&topic_rig, &run[1]);
    if (!ok) print_message("    one workspace, two shapes: %s%s\n", run[0].error, run[1].error);
    if (ok && !gemm_same(&run[0], first, where, sizeof where)) {
        print_message("    one workspace, two shapes: %s\n", where);
        ok = false;
    }
    for (int i = 0; i < 2; i++) gemm_release(&topic_rig, &run[i]);
    return ok;
}

/* Two streams, a workspace each. */
static bool at_once(const struct gemm_run *first, const struct gemm_case *c)
{
    struct gpu *gpu = &topic_rig.gpu;
    struct gemm_run run[2] = { 0 };
    CUstream streams[2] = { 0 };
    char where[200];
    bool ok = true;
    for (int i = 0; i < 2; i++)
        ok = ok && gpu_ok(gpu, gpu->StreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate") &&
             gemm_prepare(&topic_rig, c, &run[i]);
    for (int i = 0; ok && i < (topic_rig.full ? 200 : 2); i++) ok = gemm_launch(&topic_rig, &run[i % 2], streams[i % 2]);
    for (int i = 0; ok && i < 2; i++) {
        ok = gemm_fetch(&topic_rig, &run[i]) && gemm_workspace_intact(&topic_rig, &run[i]);
        if (ok && !gemm_same(&run[i], first, where, sizeof where)) {
            print_message("    stream %d differs: %s\n", i, where);
            ok = false;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (*run[i].error) print_message("    two streams: %s\n", run[i].error);
        if (streams[i]) gpu->StreamDestroy(streams[i]);
        gemm_release(&topic_rig, &run[i]);
    }
    return ok;
}

static bool replay(const struct gemm_run *first, const struct gemm_case *c)
{
    struct gpu *gpu = &topic_rig.gpu;
    struct gemm_run run = { 0 };
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    char where[200] = "";
    if (!gpu->StreamBeginCapture || !gpu->StreamEndCapture || !gpu->GraphInstantiateWithFlags || !gpu->GraphLaunch ||
        !gpu->GraphExecDestroy || !gpu->GraphDestroy)
        return true;
    bool ok = gpu_ok(gpu, gpu->StreamCreate(&stream, 0), "cuStreamCreate") && gemm_prepare(&topic_rig, c, &run) &&
              gpu_ok(gpu, gpu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    const bool launched = ok && gemm_launch(&topic_rig, &run, stream);
    if (ok) ok = gpu_ok(gpu, gpu->StreamEndCapture(stream, &graph), "cuStreamEndCapture") && launched;
    ok = ok && gpu_ok(gpu, gpu->GraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiateWithFlags");
    for (int i = 0; ok && i < (topic_rig.full ? 100 : 1); i++) {
        matrix_poison(&run.d);
        ok = gemm_rewind(&topic_rig, &run) && gpu_ok(gpu, gpu->GraphLaunch(exec, stream), "cuGraphLaunch") &&
             gemm_fetch(&topic_rig, &run) && gemm_workspace_intact(&topic_rig, &run) &&
             gemm_same(&run, first, where, sizeof where);
    }
    if (!ok) print_message("    replayed: %s%s%s\n", run.error, gpu->error, where);
    if (exec) gpu->GraphExecDestroy(exec);
    if (graph) gpu->GraphDestroy(graph);
    if (stream) gpu->StreamDestroy(stream);
    gemm_release(&topic_rig, &run);
    return ok;
}

void topic_groups(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin_split(state);
    if (!topic_rig.full && kernel->algorithm == PTXMM_SPLIT)
        topic_skip("the library takes groups from a K that is too long here; the topic clusters launches them by the ABI");
    struct gemm_case c = topic_grouped_case(kernel);
    struct gemm_run first = { 0 };
    bool ok = gemm_result(&topic_rig, &c, &first);
    const struct ptxmm_plan_info *info = ptxmm_plan_info(first.plan);
    if (ok) {
        print_message("    K=%lld: clusters of %u, %lld groups, %lld bytes of workspace\n", (long long)c.k, info->cluster,
                      (long long)info->candidate.groups, (long long)info->workspace_bytes);
        assert_true(info->candidate.groups > 1 && info->workspace_bytes > PTXMM_WORKSPACE_COUNTERS);
        ok = gemm_judge(&topic_rig, &first);
        if (!ok) print_message("    %s\n", first.error);
    }
    struct gemm_case normal = c;
    struct gemm_run of_normal = { 0 };
    normal.fill = FILL_NORMAL; /* where another order of addition would be another result */
    ok = ok && gemm_result(&topic_rig, &normal, &of_normal) &&
         repeat(&of_normal, &normal, topic_rig.full ? 100 : 2) && share(&of_normal, &normal) &&
         at_once(&of_normal, &normal) && replay(&of_normal, &normal);
    gemm_release(&topic_rig, &of_normal);
    gemm_release(&topic_rig, &first);
    assert_true(ok);

    /* alpha, beta and C: only the group that comes last may apply them. */
    struct tally tally = { 0 };
    const struct {
        float alpha, beta;
        bool with_c;
        enum c_content content;
        bool nan_a;
        int budget;
    } kinds[] = { { -0.5f, 2, true, C_IS_D, false, 0 }, { 1, 0, true, C_NAN, false, 7 },
                  { 1, -1, true, C_NAN, false, 0 },     { 0, 0.5f, true, C_NORMAL, true, 0 },
                  { 0, 0, true, C_NAN, true, 0 } };
    for (size_t i = 0; i < LENGTH(kinds); i++)
        for (int place = 0; place < 2; place++) {
            if (!topic_rig.full && (place != (int)i % 2 || i == 1 || i == 4)) continue;
            struct gemm_case scaled = c;
            scaled.alpha = kinds[i].alpha;
            scaled.beta = kinds[i].beta;
            scaled.with_c = kinds[i].with_c;
            scaled.c = kinds[i].content;
            scaled.nan_a = kinds[i].nan_a;
            if (kinds[i].budget) scaled.sm_budget = kinds[i].budget;
            scaled.scalars = place ? SCALARS_ON_DEVICE : SCALARS_ON_HOST;
            topic_try(&tally, &scaled);
        }
    topic_finish(&tally);
}
