/* gemm_batch.c -- topics about batches: matrices behind one another, beside one another and shared, with nothing of
 * one reaching into another. Each batch is judged like single products, and is also the same bits as they are. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gemm_topics.h"

enum placing { BEHIND, BESIDE, SHARED };

struct batch_case {
    int64_t m, n, k, batch;
    enum placing a, b, c, d;
    int64_t gap; /* between matrices, in 16-byte units beyond what alignment asks for */
    float alpha, beta;
    enum matrix_fill fill;
    int sm_budget;
    int64_t nan_matrix;   /* all of this matrix of A is NaN, if not 0: 1 is the first */
    bool by_abi;          /* launched without the library, split and multicast kernels with ... */
    uint32_t cluster, groups, clusters, rows;
    bool on_device;       /* alpha and beta are */
    int64_t workspace_limit;
};

static const struct ptxmm_kernel_info *kernel_of_batch;

static int64_t rounded(enum ptxmm_type type, int64_t elements)
{
    const int64_t unit = 16 / (int64_t)type_bytes(type);
    return (elements + unit - 1) / unit * unit;
}

/* Behind one another: the next begins where the 16 bytes with the last element end. */
static bool place(struct stack *x, const struct batch_case *c, enum placing how, enum ptxmm_type type, int64_t rows,
                  int64_t cols, enum matrix_role role)
{
    const int64_t gap = c->gap * 16 / (int64_t)type_bytes(type), row = rounded(type, cols ? cols : 1);
    if (how == BESIDE) return stack_create(x, type, c->batch, rows, cols, c->batch * (row + gap), row + gap, role);
    const int64_t apart = rounded(type, (rows - 1) * row + cols) + gap;
    return stack_create(x, type, c->batch, rows, cols, row, how == SHARED ? 0 : apart, role);
}

/* ---- one batch ------------------------------------------------------------------------------------------------- */

struct batch_run {
    const struct batch_case *c;
    struct stack a, b, cm, d;
    CUdeviceptr at_a, at_b, at_c, at_d, scalars, workspace;
    struct ptxmm_problem problem;
    char error[1400];
};

static bool failed(struct batch_run *run, const char *text)
{
    snprintf(run->error, sizeof run->error, "%s", text);
    return false;
}

static CUdeviceptr send(const struct stack *x)
{
    struct gpu *gpu = &topic_rig.gpu;
    const CUdeviceptr at = gpu_alloc(gpu, x->whole.bytes);
    if (at && gpu_upload(gpu, at, x->whole.base, x->whole.bytes)) return at;
    gpu_free(gpu, at);
    return 0;
}

static bool make(struct batch_run *run, enum ptxmm_type wanted)
{
    const struct batch_case *c = run->c;
    const struct gemm_case types = { .kernel = kernel_of_batch, .a = wanted, .b = wanted, .d = wanted };
    const enum ptxmm_type a = gemm_type_a(&types), b = gemm_type_b(&types), d = gemm_type_d(&types);
    if (!place(&run->a, c, c->a, a, c->m, c->k, MATRIX_INPUT) ||
        !place(&run->b, c, c->b, b, c->n, c->k, MATRIX_INPUT) ||
        !place(&run->cm, c, c->c, d, c->m, c->n, MATRIX_INPUT) ||
        !place(&run->d, c, c->d, d, c->m, c->n, MATRIX_OUTPUT))
        return failed(run, "host memory is exhausted");
    stack_fill(&run->a, c->fill, topic_rig.seed, STREAM_A);
    stack_fill(&run->b, c->fill, topic_rig.seed, STREAM_B);
    stack_fill(&run->cm, fill_is_exact(c->fill) ? FILL_SMALL_INT : FILL_NORMAL, topic_rig.seed, STREAM_C);
    if (c->nan_matrix) {
        struct matrix nan = stack_at(&run->a, c->nan_matrix - 1);
        for (int64_t row = 0; row < nan.rows; row++)
            for (int64_t col = 0; col < nan.cols; col++) matrix_set(&nan, row, col, NAN);
    }
    const float scalars[2] = { c->alpha, c->beta };
    struct gpu *gpu = &topic_rig.gpu;
    run->at_a = send(&run->a);
    run->at_b = send(&run->b);
    run->at_c = send(&run->cm);
    run->at_d = send(&run->d);
    run->scalars = gpu_alloc(gpu, sizeof scalars);
    if (!run->at_a || !run->at_b || !run->at_c || !run->at_d || !run->scalars ||
        !gpu_upload(gpu, run->scalars, scalars, sizeof scalars))
        return failed(run, gpu->error);
    run->problem = (struct ptxmm_problem){
        .kind = PTXMM_BATCH_STRIDED, .m = c->m, .n = c->n, .k = c->k, .batch = c->batch,
        .a = { .type = a, .ld = run->a.ld, .batch_stride = run->a.apart },
        .b = { .type = b, .ld = run->b.ld, .batch_stride = run->b.apart },
        .c = { .type = d, .ld = run->cm.ld, .batch_stride = run->cm.apart },
        .d = { .type = d, .ld = run->d.ld, .batch_stride = run->d.apart },
        .accumulate = gemm_accumulate(kernel_of_batch),
        .alpha_on_device = c->on_device, .beta_on_device = c->on_device,
        .prefer = { .kernel = kernel_of_batch->name, .sm_budget = gemm_budget(kernel_of_batch, c->sm_budget),
                    .workspace_limit = c->workspace_limit },
    };
    return true;
}

static struct ptxmm_arguments arguments_of(const struct batch_run *run)
{
    const struct batch_case *c = run->c;
    return (struct ptxmm_arguments){
        .a = run->at_a + MATRIX_GUARD, .b = run->at_b + MATRIX_GUARD, .c = run->at_c + MATRIX_GUARD,
        .d = run->at_d + MATRIX_GUARD, .alpha = c->on_device ? NAN : c->alpha, .beta = c->on_device ? NAN : c->beta,
        .alpha_at = c->on_device ? run->scalars : 0, .beta_at = c->on_device ? run->scalars + 4 : 0,
        .workspace = run->workspace,
    };
}

/* Counters of zeros, sums of NaN. */
static bool make_workspace(struct batch_run *run, int64_t bytes)
{
    struct gpu *gpu = &topic_rig.gpu;
    if (!bytes) return true;
    run->workspace = gpu_alloc(gpu, (size_t)bytes);
    return (run->workspace && gpu_ok(gpu, gpu->MemsetD8(run->workspace, 0xff, (size_t)bytes), "cuMemsetD8") &&
            gpu_ok(gpu, gpu->MemsetD8(run->workspace, 0, PTXMM_WORKSPACE_COUNTERS), "cuMemsetD8")) ||
           failed(run, gpu->error);
}

static bool by_library(struct batch_run *run)
{
    struct ptxmm_plan *plan = NULL;
    struct ptxmm_error error;
    if (ptxmm_plan_create(topic_rig.mm, &run->problem, NULL, &plan, &error)) return failed(run, error.text);
    const int64_t bytes = ptxmm_plan_info(plan)->workspace_bytes;
    bool ok = make_workspace(run, bytes);
    struct ptxmm_arguments arguments = arguments_of(run);
    arguments.workspace_bytes = bytes;
    if (ok && ptxmm_plan_run(plan, &arguments, NULL, &error)) ok = failed(run, error.text);
    ptxmm_plan_destroy(&plan);
    return ok;
}

static bool by_abi(struct batch_run *run)
{
    const struct batch_case *c = run->c;
    const struct ptxmm_kernel_info *k = kernel_of_batch;
    const struct foreign_split split = { c->cluster, c->groups, c->clusters, c->rows };
    const bool splits = k->algorithm == PTXMM_SPLIT || k->algorithm == PTXMM_MULTICAST;
    const struct gemm_case single = { .kernel = k, .m = c->m, .n = c->n, .k = c->k };
    struct gemm_run foreign = {
        .c = &single, .a = stack_at(&run->a, 0), .b = stack_at(&run->b, 0), .cm = stack_at(&run->cm, 0),
        .d = stack_at(&run->d, 0), .batch = c->batch, .apart_a = run->a.apart, .apart_b = run->b.apart,
        .apart_c = run->cm.apart, .apart_d = run->d.apart,
    };
    CUresult launched;
    if (!make_workspace(run, splits ? foreign_workspace(k, c->m, c->n, c->batch, &split) : 0)) return false;
    foreign.arguments = arguments_of(run);
    foreign.at_workspace.address = run->workspace;
    if (!foreign_launch(&topic_rig, &foreign, FOREIGN_NONE, splits ? &split : NULL, &launched))
        return failed(run, foreign.error);
    return gpu_ok(&topic_rig.gpu, launched, "cuLaunchKernelEx") || failed(run, topic_rig.gpu.error);
}

static bool fetch(struct batch_run *run)
{
    struct gpu *gpu = &topic_rig.gpu;
    if (gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize") &&
        gpu_download(gpu, run->d.whole.base, run->at_d, run->d.whole.bytes))
        return true;
    snprintf(run->error, sizeof run->error, "%s\n%s", gpu->error, gpu_report(gpu));
    return false;
}

static bool judge(struct batch_run *run)
{
    const struct batch_case *c = run->c;
    char text[1200];
    if (!stack_intact(&run->d, text, sizeof text)) {
        snprintf(run->error, sizeof run->error, "written outside D: %s", text);
        return false;
    }
    unsigned char counters[256] = { 0 };
    if (run->workspace && !gpu_download(&topic_rig.gpu, counters, run->workspace, sizeof counters))
        return failed(run, topic_rig.gpu.error);
    for (size_t i = 0; i < sizeof counters; i++)
        if (counters[i]) return failed(run, "the workspace's counters are not zero again");
    const struct check_batch check = {
        .a = &run->a, .b = &run->b, .c = c->beta != 0 ? &run->cm : NULL, .d = &run->d, .alpha = c->alpha,
        .beta = c->beta, .promotion = kernel_of_batch->promotion,
        .exact = fill_is_exact_in(c->fill, kernel_of_batch, c->k), .seed = topic_rig.seed, .block_work = (int64_t)1 << 31,
    };
    struct check_result result;
    check_all(&check, &result);
    return result.ok || failed(run, check_describe(&result, text, sizeof text));
}

/* The first and the last product by themselves, into the poisoned D of the batch: the same bits. */
static bool same_as_single(struct batch_run *run)
{
    const struct batch_case *c = run->c;
    struct stack whole = run->d;
    bool ok = stack_create(&run->d, whole.whole.type, c->batch, c->m, c->n, whole.ld, whole.apart, MATRIX_OUTPUT);
    for (int64_t z = 0; ok && z < c->batch; z += c->batch > 1 ? c->batch - 1 : 1) {
        struct ptxmm_problem single = run->problem;
        struct ptxmm_arguments arguments = arguments_of(run);
        struct ptxmm_plan *plan = NULL;
        struct ptxmm_error error;
        single.kind = PTXMM_DENSE;
        single.batch = 0;
        single.a.batch_stride = single.b.batch_stride = single.c.batch_stride = single.d.batch_stride = 0;
        single.prefer.workspace_limit = 0;
        arguments.workspace = 0;
        arguments.a += (uint64_t)(z * run->a.apart) * run->a.whole.size;
        arguments.b += (uint64_t)(z * run->b.apart) * run->b.whole.size;
        arguments.c += (uint64_t)(z * run->cm.apart) * run->cm.whole.size;
        arguments.d += (uint64_t)(z * run->d.apart) * run->d.whole.size;
        ok = gpu_upload(&topic_rig.gpu, run->at_d, run->d.whole.base, run->d.whole.bytes);
        if (ok && (ptxmm_plan_create(topic_rig.mm, &single, NULL, &plan, &error) ||
                   ptxmm_plan_run(plan, &arguments, NULL, &error)))
            ok = failed(run, error.text);
        ptxmm_plan_destroy(&plan);
        ok = ok && fetch(run);
        const struct matrix x = stack_at(&whole, z), y = stack_at(&run->d, z);
        for (int64_t row = 0; ok && row < x.rows; row++)
            if (memcmp(x.data + (size_t)(row * x.ld) * x.size, y.data + (size_t)(row * y.ld) * y.size,
                       (size_t)x.cols * x.size)) {
                snprintf(run->error, sizeof run->error,
                         "row %lld of matrix %lld has other bits than the product by itself", (long long)row, (long long)z);
                ok = false;
            }
        stack_poison(&run->d);
    }
    stack_destroy(&whole);
    return ok;
}

static bool try_batch(const struct batch_case *c, enum ptxmm_type type)
{
    static const char *const placings[] = { "behind", "beside", "shared" };
    struct batch_run run = { .c = c };
    /* Where K is split, a product by itself may be split otherwise. */
    const bool compares = kernel_of_batch->batch_invariant && !c->by_abi;
    const bool ok = make(&run, type) && (c->by_abi ? by_abi(&run) : by_library(&run)) && fetch(&run) && judge(&run) &&
                    (!compares || same_as_single(&run));
    if (!ok)
        print_message("    %lld times M=%lld N=%lld K=%lld A %s, B %s, C %s, D %s, gap %lld, fill %s, alpha=%g beta=%g "
                      "sm_budget=%d%s\n        %s\n",
                      (long long)c->batch, (long long)c->m, (long long)c->n, (long long)c->k, placings[c->a],
                      placings[c->b], placings[c->c], placings[c->d], (long long)c->gap, fill_name(c->fill),
                      (double)c->alpha, (double)c->beta, c->sm_budget, c->by_abi ? ", by the ABI" : "", run.error);
    const CUdeviceptr blocks[] = { run.at_a, run.at_b, run.at_c, run.at_d, run.scalars, run.workspace };
    for (size_t i = 0; i < LENGTH(blocks); i++) gpu_free(&topic_rig.gpu, blocks[i]);
    struct stack *const stacks[] = { &run.a, &run.b, &run.cm, &run.d };
    for (size_t i = 0; i < LENGTH(stacks); i++) stack_destroy(stacks[i]);
    return ok;
}

static void try_all(const struct batch_case *cases, size_t count)
{
    int wrong = 0;
    for (size_t i = 0; i < count && wrong < 4; i++) {
        if (try_batch(&cases[i], i % 2 ? PTXMM_F16 : PTXMM_BF16)) continue;
        wrong++;
        if (!rig_revive(&topic_rig)) break;
    }
    if (wrong) fail_msg("%d batches wrong", wrong);
}

/* ---- topics ---------------------------------------------------------------------------------------------------- */

void topic_batches(void **state)
{
    const struct ptxmm_kernel_info *k = kernel_of_batch = topic_begin_once(state);
    const int64_t tm = k->tile_m, tn = k->tile_n, tk = k->tile_k;
    const enum matrix_fill ints = FILL_SMALL_INT;
    const struct batch_case cases[] = {
        /* edges in all sizes, nothing between the matrices, C added */
        { tm + 1, tn + 3, tk + 8, 3, BEHIND, BEHIND, BEHIND, BEHIND, 0, 1, 1, ints, .nan_matrix = 0 },
        /* heads of attention: within the rows of one wide matrix */
        { 33, 40, tk + 3, 5, BESIDE, BESIDE, BESIDE, BESIDE, 0, -2, 0.5f, FILL_NORMAL, .nan_matrix = 0 },
        /* one A for all, gaps of NaN behind B, D beside one another with gaps that must survive */
        { tm - 3, 71, 2 * tk, 4, SHARED, BEHIND, BEHIND, BESIDE, 3, 1, 0, ints, .nan_matrix = 0 },
        /* one B and one C for all; more tiles than CTAs; a product of NaN in their midst */
        { tm + 1, tn + 1, tk, 5, BEHIND, SHARED, SHARED, BEHIND, 1, 1, 2, ints, .sm_budget = 2, .nan_matrix = 2 },
        /* no K; and alpha 0: D = beta C of each */
        { tm + 2, 9, 0, 3, BEHIND, BEHIND, BEHIND, BEHIND, 2, 1, -1, ints, .nan_matrix = 0 },
        { 17, tn, 2 * tk, 2, BEHIND, SHARED, BEHIND, BEHIND, 0, 0, 1, ints, .nan_matrix = 1, .on_device = true },
        /* one product, whatever is said of others */
        { 19, 23, tk + 1, 1, BEHIND, BEHIND, BEHIND, BEHIND, 5, 1, 1, ints, .nan_matrix = 0 },
        /* both factors shared: the same product, again and again */
        { 5, 8, 24, 7, SHARED, SHARED, BEHIND, BEHIND, 0, 1, 0, FILL_NORMAL, .sm_budget = 1, .nan_matrix = 0 },
        /* by the ABI: three coordinates, two strides */
        { tm + 1, 70, tk + 8, 3, BEHIND, BEHIND, BEHIND, BEHIND, 1, 1, 2, ints, .nan_matrix = 0, .by_abi = true,
          .cluster = 2, .groups = 1, .rows = 2 },
        { 30, tn + 5, 3 * tk, 4, SHARED, BESIDE, BESIDE, BESIDE, 0, 1, 1, ints, .nan_matrix = 0, .by_abi = true,
          .cluster = 1, .groups = 1, .clusters = 0, .rows = 1 },
        /* split: tiles of several matrices in one workspace, fewer clusters than parts; multicast: a column of nothing but padding */
        { tm, tn + 1, 6 * tk, 3, BEHIND, BEHIND, BEHIND, BEHIND, 0, 1, 1, ints, .nan_matrix = 0, .by_abi = true,
          .cluster = 2, .groups = 3, .clusters = 4, .rows = 1 },
        /* multicast: squares, most of each outside */
        { tm - 1, tn, 3 * tk - 8, 3, BEHIND, BEHIND, SHARED, BEHIND, 0, 1, 1, FILL_NORMAL, .nan_matrix = 0, .by_abi = true,
          .cluster = 4, .groups = 2, .rows = 2 },
    };
    /* Without K over groups the last ones are ordinary launches once more. */
    try_all(cases, LENGTH(cases) - (k->algorithm == PTXMM_MULTICAST ? 0 : k->algorithm == PTXMM_SPLIT ? 1 : 2));
    if (!topic_rig.full) return;
    const struct batch_case many[] = {
        { 512, 512, 512, 64, BEHIND, BEHIND, BEHIND, BEHIND, 0, 1, 0, FILL_NORMAL, .nan_matrix = 0 },
        { 129, 257, 520, 100, BEHIND, BEHIND, BEHIND, BEHIND, 1, 1, 1, ints, .nan_matrix = 0 },
        { 130, 128, 1000, 60, BESIDE, BESIDE, BESIDE, BESIDE, 0, 1, 0, FILL_NORMAL, .nan_matrix = 0 },
        { 1, 1000, 264, 300, BEHIND, SHARED, BEHIND, BEHIND, 0, 1, 0, ints, .nan_matrix = 7 },
        { 16, 64, 8192, 4, BEHIND, BEHIND, BEHIND, BEHIND, 0, 1, 1, FILL_NORMAL, .nan_matrix = 0,
          .workspace_limit = 64 << 20 },
        { 3, 5, 16, 5000, BEHIND, BEHIND, BEHIND, BEHIND, 0, 1, 1, ints, .nan_matrix = 0 },
    };
    try_all(many, LENGTH(many));
}

/* Matrices 3,221,225,472 elements apart: only two of each exist, with nothing between them that anybody needs. */
void topic_far_batches(void **state)
{
    enum { M = 130, N = 72, K = 80 };
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    if (!topic_rig.full) topic_skip("32 GB of device memory are for PTXMM_TEST=full");
    struct gpu *gpu = &topic_rig.gpu;
    const int64_t apart = INT64_C(3221225472);
    const struct gemm_case types = { .kernel = kernel };
    const enum ptxmm_type a_type = gemm_type_a(&types), b_type = gemm_type_b(&types), d_type = gemm_type_d(&types);
    struct matrix a[2], b, c[2], d[2];
    assert_true(matrix_create(&b, b_type, N, K, K, MATRIX_INPUT));
    matrix_fill(&b, FILL_SMALL_INT, topic_rig.seed, STREAM_B);
    const size_t a_apart = (size_t)apart * type_bytes(a_type), d_apart = (size_t)apart * type_bytes(d_type);
    const CUdeviceptr at_a = gpu_alloc(gpu, a_apart + M * K * type_bytes(a_type)),
                      at_b = gpu_alloc(gpu, N * K * b.size),
                      at_c = gpu_alloc(gpu, d_apart + M * N * type_bytes(d_type)),
                      at_d = gpu_alloc(gpu, d_apart + M * N * type_bytes(d_type));
    bool ok = at_a && at_b && at_c && at_d && gpu_upload(gpu, at_b, b.data, N * K * b.size);
    const bool fits = ok;
    for (int z = 0; z < 2; z++) {
        assert_true(matrix_create(&a[z], a_type, M, K, K, MATRIX_INPUT));
        assert_true(matrix_create(&c[z], d_type, M, N, N, MATRIX_INPUT));
        assert_true(matrix_create(&d[z], d_type, M, N, N, MATRIX_OUTPUT));
        matrix_fill(&a[z], FILL_SMALL_INT, topic_rig.seed + (uint64_t)z, STREAM_A);
        matrix_fill(&c[z], FILL_SMALL_INT, topic_rig.seed + (uint64_t)z, STREAM_C);
        ok = ok && gpu_upload(gpu, at_a + (size_t)z * a_apart, a[z].data, M * K * a[z].size) &&
             gpu_upload(gpu, at_c + (size_t)z * d_apart, c[z].data, M * N * c[z].size) &&
             gpu_ok(gpu, gpu->MemsetD8(at_d + (size_t)z * d_apart, 0xff, M * N * d[z].size), "cuMemsetD8");
    }
    const struct ptxmm_problem problem = {
        .kind = PTXMM_BATCH_STRIDED, .m = M, .n = N, .k = K, .batch = 2,
        .a = { .type = a_type, .batch_stride = apart }, .b = { .type = b_type },
        .c = { .type = d_type, .batch_stride = apart }, .d = { .type = d_type, .batch_stride = apart },
        .accumulate = gemm_accumulate(kernel), .prefer.kernel = kernel->name,
    };
    const struct ptxmm_arguments arguments = { .a = at_a, .b = at_b, .c = at_c, .d = at_d, .alpha = 1, .beta = 1 };
    struct ptxmm_plan *plan = NULL;
    struct ptxmm_error error = { .text = "" };
    ok = ok && ptxmm_plan_create(topic_rig.mm, &problem, NULL, &plan, &error) == PTXMM_OK &&
         ptxmm_plan_run(plan, &arguments, NULL, &error) == PTXMM_OK &&
         gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize");
    if (!ok) print_message("    %s%s\n", error.text, gpu->error);
    for (int z = 0; ok && z < 2; z++) {
        char text[1200];
        struct check_result result;
        const struct check_problem check = { .a = &a[z], .b = &b, .c = &c[z], .d = &d[z], .alpha = 1, .beta = 1,
                                             .exact = true };
        ok = gpu_download(gpu, d[z].data, at_d + (size_t)z * d_apart, M * N * d[z].size);
        check_product(&check, &result);
        if (ok && !result.ok) print_message("    matrix %d: %s\n", z, check_describe(&result, text, sizeof text));
        ok = ok && result.ok;
    }
    ptxmm_plan_destroy(&plan);
    const CUdeviceptr blocks[] = { at_a, at_b, at_c, at_d };
    for (size_t i = 0; i < LENGTH(blocks); i++) gpu_free(gpu, blocks[i]);
    for (int z = 0; z < 2; z++) {
        matrix_destroy(&a[z]);
        matrix_destroy(&c[z]);
        matrix_destroy(&d[z]);
    }
    matrix_destroy(&b);
    if (!fits) topic_skip(gpu->error);
    assert_true(ok);
}
