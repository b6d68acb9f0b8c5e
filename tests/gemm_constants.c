/* gemm_constants.c -- the topic about operands that the caller promises to be constant. A kernel may read them before the one in
 * front of it has ended, and nothing else. So something in front of each product writes one of its other inputs, as late as it
 * can: a kernel that copies, or the product before, whose D is the next one's A. Every D must have the bits that it has without a
 * promise, when each launch is waited for. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gemm_topics.h"

enum { MOST_STEPS = 6, MOST_WORKSPACE = 64 << 20 };

struct constant_case {
    int64_t m, n, k;
    int64_t batch;       /* 0: none */
    const char *promise; /* "a", "b" or "ab" */
    char written;        /* 'a', 'b', 'c', or 's' for alpha and beta: by a copy; 'd': A is the D of the product before */
    float alpha, beta;   /* beta not 0: there is a C */
    bool on_device;      /* alpha and beta are */
    int sm_budget;
    bool groups;         /* with a workspace */
};

/* ---- the kernel in front ---------------------------------------------------------------------------------------- */

/* Lets the product begin at once, lingers, and copies. It may not write before what is in front of itself has ended, for that
 * still reads. One CTA: the product's CTAs shall find the device free. */
static const char late_copy_text[] =
    ".version 8.0\n"
    ".target sm_90\n"
    ".address_size 64\n"
    ".visible .entry late_copy(.param .u64 to, .param .u64 from, .param .u32 words)\n"
    "{\n"
    "    .reg .b32 i, n, step, x, y, z, w;\n"
    "    .reg .b64 p, q, at;\n"
    "    .reg .pred more;\n"
    "    griddepcontrol.launch_dependents;\n"
    "    griddepcontrol.wait;\n"
    "    mov.u32 i, %tid.x;\n"
    "    setp.ge.u32 more, i, 32;\n"
    "@more bra begin;\n"
    "    mov.u32 n, 1000;\n"
    "linger:\n"
    "    nanosleep.u32 20;\n"
    "    add.u32 n, n, -1;\n"
    "    setp.ne.u32 more, n, 0;\n"
    "@more bra linger;\n"
    "begin:\n"
    "    bar.sync 0;\n"
    "    ld.param.u64 p, [to];\n"
    "    ld.param.u64 q, [from];\n"
    "    ld.param.u32 n, [words];\n"
    "    mov.u32 step, %ntid.x;\n"
    "    mul.wide.u32 at, i, 16;\n"
    "    add.u64 p, p, at;\n"
    "    add.u64 q, q, at;\n"
    "    mul.wide.u32 at, step, 16;\n"
    "copy:\n"
    "    setp.ge.u32 more, i, n;\n"
    "@more bra done;\n"
    "    ld.global.v4.u32 {x, y, z, w}, [q];\n"
    "    st.global.v4.u32 [p], {x, y, z, w};\n"
    "    add.u64 p, p, at;\n"
    "    add.u64 q, q, at;\n"
    "    add.u32 i, i, step;\n"
    "    bra copy;\n"
    "done:\n"
    "    ret;\n"
    "}\n";

static bool late_copy(CUkernel kernel, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    struct gpu *gpu = &topic_rig.gpu;
    uint32_t words = (uint32_t)(bytes / 16);
    void *parameters[] = { &to, &from, &words };
    CUlaunchAttribute early = { .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION };
    early.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1, .attrs = &early, .numAttrs = 1,
    };
    return gpu_ok(gpu, gpu->LaunchKernelEx(&config, (CUfunction)kernel, parameters, NULL), "cuLaunchKernelEx");
}

static bool wait_for_all(void)
{
    return gpu_ok(&topic_rig.gpu, topic_rig.gpu.CtxSynchronize(), "cuCtxSynchronize");
}

/* ---- one chain -------------------------------------------------------------------------------------------------- */

struct chain {
    const struct constant_case *c;
    CUkernel copy;
    int steps, stages;
    struct ptxmm_problem problem;
    struct stack a, b, cm, d[2][MOST_STEPS];     /* d: what came out, without and with the promise */
    CUdeviceptr at_a, at_b, at_c, at_scalars, at_d[MOST_STEPS], workspace;
    CUdeviceptr to, from[MOST_STEPS];            /* what is written before each product, and what with */
    size_t bytes;
    char error[1400];
};

static bool failed(struct chain *x, const char *text)
{
    snprintf(x->error, sizeof x->error, "%s", text);
    return false;
}

static bool create(struct stack *x, const struct constant_case *c, enum ptxmm_type type, int64_t rows, int64_t cols,
                   enum matrix_role role)
{
    const int64_t unit = 16 / (int64_t)type_bytes(type), ld = ((cols ? cols : 1) + unit - 1) / unit * unit;
    return stack_create(x, type, c->batch ? c->batch : 1, rows, cols, ld, rows * ld, role);
}

static bool send(struct chain *x, CUdeviceptr *at, const void *from, size_t bytes)
{
    struct gpu *gpu = &topic_rig.gpu;
    if (!*at) *at = gpu_alloc(gpu, bytes);
    return (*at && gpu_upload(gpu, *at, from, bytes)) || failed(x, gpu->error);
}

/* An operand on the device. Of the one that is written there are as many as steps, each with other numbers. */
static bool make_operand(struct chain *x, struct stack *operand, CUdeviceptr *at, char name, uint64_t stream)
{
    for (int i = 0; x->c->written == name && i < x->steps; i++) {
        stack_fill(operand, FILL_NORMAL, topic_rig.seed + 1 + (uint64_t)i, stream);
        if (!send(x, &x->from[i], operand->whole.base, operand->whole.bytes)) return false;
    }
    stack_fill(operand, FILL_NORMAL, topic_rig.seed, stream);
    if (!send(x, at, operand->whole.base, operand->whole.bytes)) return false;
    if (x->c->written == name) {
        x->to = *at;
        x->bytes = operand->whole.bytes;
    }
    return true;
}

static bool make_scalars(struct chain *x)
{
    const struct constant_case *c = x->c;
    float scalars[4] = { c->alpha, c->beta, 0, 0 };
    if (!send(x, &x->at_scalars, scalars, sizeof scalars)) return false;
    if (c->written != 's') return true;
    x->to = x->at_scalars;
    x->bytes = sizeof scalars;
    for (int i = 0; i < x->steps; i++) { /* alpha is 0 now and then: what was loaded early is then not wanted */
        scalars[0] = i % 3 == 1 ? 0 : c->alpha * (float)(i + 1);
        if (!send(x, &x->from[i], scalars, sizeof scalars)) return false;
    }
    return true;
}

static bool make(struct chain *x, const struct ptxmm_kernel_info *kernel)
{
    const struct constant_case *c = x->c;
    const struct gemm_case types = { .kernel = kernel };
    const enum ptxmm_type a = gemm_type_a(&types), b = gemm_type_b(&types), d = gemm_type_d(&types);
    if (!create(&x->a, c, a, c->m, c->k, MATRIX_INPUT) || !create(&x->b, c, b, c->n, c->k, MATRIX_INPUT) ||
        !create(&x->cm, c, d, c->m, c->n, MATRIX_INPUT))
        return failed(x, "host memory is exhausted");
    for (int i = 0; i < 2 * x->steps; i++)
        if (!create(&x->d[i % 2][i / 2], c, d, c->m, c->n, MATRIX_OUTPUT)) return failed(x, "host memory is exhausted");
    const struct stack *first = &x->d[0][0];
    x->problem = (struct ptxmm_problem){
        .kind = c->batch ? PTXMM_BATCH_STRIDED : PTXMM_DENSE, .m = c->m, .n = c->n, .k = c->k, .batch = c->batch,
        .a = { .type = a, .ld = x->a.ld, .batch_stride = x->a.apart },
        .b = { .type = b, .ld = x->b.ld, .batch_stride = x->b.apart },
        .d = { .type = d, .ld = first->ld, .batch_stride = first->apart },
        .accumulate = gemm_accumulate(kernel),
        .alpha_on_device = c->on_device, .beta_on_device = c->on_device && c->beta != 0,
        .prefer = { .kernel = kernel->name, .sm_budget = gemm_budget(kernel, c->sm_budget), .workspace_limit = c->groups ? MOST_WORKSPACE : 0,
                    .stages = x->stages },
    };
    if (c->beta != 0) x->problem.c = (struct ptxmm_operand){ .type = d, .ld = x->cm.ld, .batch_stride = x->cm.apart };
    return make_operand(x, &x->a, &x->at_a, 'a', STREAM_A) && make_operand(x, &x->b, &x->at_b, 'b', STREAM_B) &&
           make_operand(x, &x->cm, &x->at_c, 'c', STREAM_C) && make_scalars(x);
}

/* D and what is written before it begin as NaN: what is read too early shows, from the first step on. */
static bool rewind_all(struct chain *x, bool promised, int64_t workspace_bytes)
{
    struct gpu *gpu = &topic_rig.gpu;
    for (int i = 0; i < x->steps; i++) {
        const struct matrix *whole = &x->d[promised][i].whole;
        if (!send(x, &x->at_d[i], whole->base, whole->bytes)) return false;
    }
    if (x->to && !gpu_ok(gpu, gpu->MemsetD8(x->to, 0xff, x->bytes), "cuMemsetD8")) return failed(x, gpu->error);
    if (workspace_bytes && !x->workspace) {
        x->workspace = gpu_alloc(gpu, (size_t)workspace_bytes);
        if (!x->workspace || !gpu_ok(gpu, gpu->MemsetD8(x->workspace, 0xff, (size_t)workspace_bytes), "cuMemsetD8") ||
            !gpu_ok(gpu, gpu->MemsetD8(x->workspace, 0, PTXMM_WORKSPACE_COUNTERS), "cuMemsetD8"))
            return failed(x, gpu->error);
    }
    return wait_for_all() || failed(x, gpu->error);
}

static struct ptxmm_arguments arguments_of(const struct chain *x, int step, int64_t workspace_bytes)
{
    const struct constant_case *c = x->c;
    const bool nothing = c->k == 0 || (c->alpha == 0 && !c->on_device); /* then A and B may be anywhere */
    const bool there = x->problem.beta_on_device;
    const CUdeviceptr a = step && c->written == 'd' ? x->at_d[step - 1] : x->at_a;
    return (struct ptxmm_arguments){
        .a = nothing ? 0 : a + MATRIX_GUARD, .b = nothing ? 0 : x->at_b + MATRIX_GUARD,
        .c = c->beta != 0 ? x->at_c + MATRIX_GUARD : 0, .d = x->at_d[step] + MATRIX_GUARD,
        .alpha = c->on_device ? NAN : c->alpha, .beta = there ? NAN : c->beta,
        .alpha_at = c->on_device ? x->at_scalars : 0, .beta_at = there ? x->at_scalars + sizeof(float) : 0,
        .workspace = x->workspace, .workspace_bytes = workspace_bytes,
    };
}

static bool run_chain(struct chain *x, bool promised)
{
    struct gpu *gpu = &topic_rig.gpu;
    struct ptxmm_problem problem = x->problem;
    struct ptxmm_plan *plan = NULL;
    struct ptxmm_error error;
    if (promised) constant_parse(x->c->promise, &problem.a.constant, &problem.b.constant);
    if (ptxmm_plan_create(topic_rig.mm, &problem, NULL, &plan, &error)) return failed(x, error.text);
    const int64_t bytes = ptxmm_plan_info(plan)->workspace_bytes;
    bool ok = x->c->groups == (bytes > 0) || failed(x, "the plan has groups where it should not, or has none");
    ok = ok && rewind_all(x, promised, bytes);
    for (int i = 0; ok && i < x->steps; i++) {
        const struct ptxmm_arguments arguments = arguments_of(x, i, bytes);
        if (x->to) ok = (late_copy(x->copy, x->to, x->from[i], x->bytes) && (promised || wait_for_all())) || failed(x, gpu->error);
        if (ok && ptxmm_plan_run(plan, &arguments, NULL, &error)) ok = failed(x, error.text);
        ok = ok && (promised || wait_for_all() || failed(x, gpu->error));
    }
    ok = ok && (wait_for_all() || failed(x, gpu->error));
    for (int i = 0; ok && i < x->steps; i++) {
        struct matrix *whole = &x->d[promised][i].whole;
        ok = gpu_download(gpu, whole->base, x->at_d[i], whole->bytes) || failed(x, gpu->error);
    }
    if (!ok && *gpu_report(gpu)) print_message("    %s\n", gpu_report(gpu));
    ptxmm_plan_destroy(&plan);
    return ok;
}

static bool same(struct chain *x)
{
    for (int i = 0; i < x->steps; i++) {
        char where[256];
        if (!stack_intact(&x->d[1][i], where, sizeof where)) {
            snprintf(x->error, sizeof x->error, "step %d wrote outside D: %s", i, where);
            return false;
        }
        for (int64_t z = 0; z < x->d[0][i].count; z++) {
            const struct matrix p = stack_at(&x->d[0][i], z), q = stack_at(&x->d[1][i], z);
            if (!isfinite(matrix_get(&p, 0, 0))) return failed(x, "D is no number: nothing can be seen of what was read");
            for (int64_t row = 0; row < p.rows; row++)
                for (int64_t col = 0; col < p.cols; col++) {
                    const size_t at = (size_t)(row * p.ld + col) * p.size;
                    if (memcmp(p.data + at, q.data + at, p.size) == 0) continue;
                    snprintf(x->error, sizeof x->error, "step %d, matrix %lld: D[%lld][%lld] is %.9g, must be %.9g", i,
                             (long long)z, (long long)row, (long long)col, matrix_get(&q, row, col), matrix_get(&p, row, col));
                    return false;
                }
        }
    }
    return true;
}

static void release(struct chain *x)
{
    struct gpu *gpu = &topic_rig.gpu;
    const CUdeviceptr blocks[] = { x->at_a, x->at_b, x->at_c, x->at_scalars, x->workspace };
    for (size_t i = 0; i < LENGTH(blocks); i++) gpu_free(gpu, blocks[i]);
    for (int i = 0; i < x->steps; i++) {
        gpu_free(gpu, x->at_d[i]);
        gpu_free(gpu, x->from[i]);
        stack_destroy(&x->d[0][i]);
        stack_destroy(&x->d[1][i]);
    }
    stack_destroy(&x->a);
    stack_destroy(&x->b);
    stack_destroy(&x->cm);
}

static bool try_chain(const struct ptxmm_kernel_info *kernel, const struct constant_case *c, int stages, CUkernel copy)
{
    static struct chain chain; /* large */
    chain = (struct chain){ .c = c, .copy = copy, .stages = stages, .steps = topic_rig.full ? MOST_STEPS : 2 };
    const bool ok = make(&chain, kernel) && run_chain(&chain, false) && run_chain(&chain, true) && same(&chain);
    if (!ok)
        print_message("    M=%lld N=%lld K=%lld batch %lld, constant %s, %s, alpha=%g beta=%g%s sm_budget=%d%s, %d stages\n        %s\n",
                      (long long)c->m, (long long)c->n, (long long)c->k, (long long)c->batch, c->promise,
                      c->written == 'a'   ? "A is written before"
                      : c->written == 'b' ? "B is written before"
                      : c->written == 'c' ? "C is written before"
                      : c->written == 'd' ? "A is the D before"
                                          : "alpha and beta are written before",
                      (double)c->alpha, (double)c->beta, c->on_device ? " on the device" : "", c->sm_budget,
                      c->groups ? ", in groups" : "", stages, chain.error);
    release(&chain);
    return ok;
}

/* ---- the topic -------------------------------------------------------------------------------------------------- */

void topic_constants(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    struct gpu *gpu = &topic_rig.gpu;
    const struct gemm_case types = { .kernel = kernel };
    const bool chains = gemm_type_a(&types) == gemm_type_d(&types), splits = kernel->algorithm == PTXMM_SPLIT;
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k, ring = kernel->stages * tk;
    const struct constant_case cases[] = {
        { 17, 40, 2 * tk, 0, "b", 'a', 1, 0, false, 0, false },                 /* fewer slices than slots */
        { 17, 40, ring, 0, "b", 'a', 1, 2, false, 0, false },                   /* as many */
        { tm + 1, 40, ring + tk + 3, 0, "b", 'a', -0.5f, 0, false, 0, false },  /* more */
        { 2 * tm + 1, tn + 1, tk + 8, 0, "b", 'a', 1, 0, false, 2, false },     /* more tiles than CTAs */
        { tm - 1, tn + 1, 2 * tk + 1, 0, "a", 'b', 1, 0, false, 0, false },     /* the other operand */
        { 9, 2 * tn, ring + 1, 0, "a", 'b', 2, 1, true, 1, false },
        { tm + 1, tn - 1, ring + 8, 0, "ab", 'c', 1, 1, false, 0, false },      /* both: C is late */
        { tm, tn, 5, 0, "ab", 's', 0.5f, -1, true, 0, false },                  /* ... alpha and beta are */
        { 33, tn + 1, 2 * tk, 0, "ab", 's', 0.5f, 0, true, 1, false },
        { tm + 1, 24, tk + 8, 3, "b", 'a', 1, 0, false, 2, false },             /* batches */
        { 17, tn + 1, 2 * tk, 3, "ab", 'c', 1, -1, false, 0, false },
        { 17, 40, 0, 0, "ab", 'c', 1, 2, false, 0, false },                     /* neither A nor B is there to be read */
        { 17, 40, 2 * tk, 0, "ab", 'c', 0, 2, false, 0, false },
        { tm + 1, tk + 8, tk + 8, 0, "b", 'd', 0.1f, 0, false, 0, false },      /* D is A */
        { 17, ring + tk + 8, ring + tk + 8, 0, "b", 'd', 0.05f, 0, true, 0, false },
        { 17, tk + 8, tk + 8, 3, "b", 'd', 0.1f, 0, false, 1, false },
    };
    /* On a GPU: CTAs on all SMs, or many tiles for each, and K over groups that share a workspace. */
    const struct gemm_case long_k = topic_rig.full && splits ? topic_grouped_case(kernel) : types;
    const struct constant_case large[] = {
        { 5 * tm + 1, 7 * tn + 3, 12 * tk, 0, "b", 'a', 1, 0, false, 20, false },
        { 12 * tm, 4 * tn, ring, 0, "ab", 'c', 1, 1, false, 0, false },
        { 17, 4096, 2048, 0, "b", 'a', 1, 0, false, 0, false },
        { 129, 257, 520, 30, "b", 'a', 1, 0, false, 0, false },
        { 9 * tm + 1, 1024, 1024, 0, "b", 'd', 0.03f, 0, false, 0, false },
        { 17, 1024, 1024, 0, "b", 'd', 0.03f, 0, false, 0, false },
        { long_k.m, long_k.n, long_k.k, 0, "b", 'a', 0.5f, 1, false, 0, true },
        { long_k.m, long_k.n, long_k.k, 0, "ab", 'c', 0.5f, 1, false, 0, true },
    };
    CUlibrary library = NULL;
    CUkernel copy = NULL;
    if (!gpu->LibraryLoadData || !gpu->LibraryGetKernel || !gpu->LaunchKernelEx) topic_skip("the driver has no libraries of kernels");
    bool ok = gpu_ok(gpu, gpu->LibraryLoadData(&library, late_copy_text, NULL, NULL, 0, NULL, NULL, 0), "cuLibraryLoadData") &&
              gpu_ok(gpu, gpu->LibraryGetKernel(&copy, library, "late_copy"), "cuLibraryGetKernel");
    if (!ok) print_message("    %s\n", gpu->error);
    for (size_t i = 0; ok && i < LENGTH(cases) + (topic_rig.full ? LENGTH(large) : 0); i++) {
        const struct constant_case *c = i < LENGTH(cases) ? &cases[i] : &large[i - LENGTH(cases)];
        if ((c->written == 'd' && !chains) || (c->groups && !splits)) continue;
        /* A ring that may be short is, every third time. */
        ok = try_chain(kernel, c, splits && i % 3 == 0 ? PTXMM_LEAST_STAGES : (int)kernel->stages, copy);
    }
    if (library) gpu->LibraryUnload(library);
    assert_true(ok);
}
