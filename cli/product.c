/* product.c -- one product on the device. */
#include "product.h"

#include <stdio.h>

int product_leading(struct options *o)
{
    o->type = o->type ? o->type : PTXMM_BF16;
    o->b_type = o->b_type ? o->b_type : o->type;
    o->out_type = o->out_type ? o->out_type : type_is_fp8(o->type) ? PTXMM_BF16 : o->type;
    const struct {
        const char *name, *what;
        int64_t *ld, columns;
        enum ptxmm_type type;
    } all[4] = { { "lda", "K", &o->lda, o->k, o->type },
                 { "ldb", "K", &o->ldb, o->k, o->b_type },
                 { "ldc", "N", &o->ldc, o->n, o->out_type },
                 { "ldd", "N", &o->ldd, o->n, o->out_type } };
    const struct {
        const char *name;
        int64_t *stride, rows;
    } strides[4] = { { "stride-a", &o->stride_a, o->m },
                     { "stride-b", &o->stride_b, o->n },
                     { "stride-c", &o->stride_c, o->m },
                     { "stride-d", &o->stride_d, o->m } };
    for (int i = 0; i < 4; i++) {
        if (*all[i].ld && *all[i].ld < all[i].columns)
            return complain(o, "--%s is %lld, must be at least %s = %lld", all[i].name,
                            (long long)*all[i].ld, all[i].what, (long long)all[i].columns);
        if (!*all[i].ld)
            *all[i].ld = aligned_ld(all[i].type, all[i].columns);
        if (*strides[i].stride >= 0 && o->batch < 0)
            return complain(o, "--%s is given without --batch, must come with it",
                            strides[i].name);
        /* What is beyond 64 bits is refused as a span, with a number that is. */
        if (o->batch >= 0 && *strides[i].stride < 0 &&
            __builtin_mul_overflow(*all[i].ld, strides[i].rows, strides[i].stride))
            *strides[i].stride = INT64_MAX;
    }
    return 0;
}

void product_problem(const struct options *o, struct ptxmm_problem *problem)
{
    *problem = (struct ptxmm_problem){
        .m = o->m,
        .n = o->n,
        .k = o->k,
        .a = { .type = o->type, .ld = o->lda, .constant = o->constant_a },
        .b = { .type = o->b_type, .ld = o->ldb, .constant = o->constant_b },
        .d = { .type = o->out_type, .ld = o->ldd },
        .accumulate = o->accumulate,
        .prefer = { .kernel = o->kernel,
                    .sm_budget = (int)o->sms,
                    .workspace_limit = o->workspace,
                    .cluster = o->cluster,
                    .cluster_rows = o->cluster_rows,
                    .groups = o->groups,
                    .stages = o->stages },
    };
    if (o->c || o->beta > 0 || o->beta < 0)
        problem->c = (struct ptxmm_operand){ .type = o->out_type, .ld = o->ldc };
    if (o->batch < 0)
        return;
    problem->kind = PTXMM_BATCH_STRIDED;
    problem->batch = o->batch;
    problem->a.batch_stride = o->stride_a;
    problem->b.batch_stride = o->stride_b;
    problem->d.batch_stride = o->stride_d;
    if (problem->c.type)
        problem->c.batch_stride = o->stride_c;
}

double product_flops(const struct ptxmm_problem *p)
{
    const double batch = p->kind == PTXMM_BATCH_STRIDED ? (double)p->batch : 1;
    return 2.0 * (double)p->m * (double)p->n * (double)p->k * batch;
}

void product_words(const struct ptxmm_problem *p, char *text, size_t size)
{
    char times[40] = "";
    const char *constant = constant_name(p->a.constant, p->b.constant);
    if (p->kind == PTXMM_BATCH_STRIDED)
        snprintf(times, sizeof times, "%lld times ", (long long)p->batch);
    snprintf(text, size,
             "%sD[%lld,%lld] = A[%lld,%lld] B[%lld,%lld]%s, %s x %s -> f32 -> %s%s%s", times,
             (long long)p->m, (long long)p->n, (long long)p->m, (long long)p->k, (long long)p->k,
             (long long)p->n, p->c.type ? " + C" : "", type_name(p->a.type), type_name(p->b.type),
             type_name(p->d.type), *constant ? ", constant " : "", constant);
}

int64_t aligned_ld(enum ptxmm_type type, int64_t columns)
{
    const int64_t unit = 16 / (int64_t)type_bytes(type);
    return columns > INT64_MAX - unit ? columns : (columns + unit - 1) / unit * unit;
}

static bool create(struct product *p, struct stack *x, const char *name,
                   const struct ptxmm_operand *operand, int64_t rows, int64_t cols,
                   enum matrix_role role)
{
    const int64_t count = p->problem.kind == PTXMM_BATCH_STRIDED ? p->problem.batch : 1;
    if (stack_create(x, operand->type, count, rows, cols, operand->ld, operand->batch_stride, role))
        return true;
    const int64_t apart = operand->batch_stride, ld = operand->ld ? operand->ld : cols;
    struct ptxmm_error error;
    if (count > 1 && ptxmm_problem_check(&p->problem, &error))
        snprintf(p->error, sizeof p->error, "%s", error.text);
    else if (count > 1 && apart > 0 && apart < (rows - 1) * ld + cols)
        snprintf(p->error, sizeof p->error,
                 "the matrices %s are %lld elements apart, must be at least the %lld of one: this "
                 "program fills each with its own numbers",
                 name, (long long)apart, (long long)((rows - 1) * ld + cols));
    else
        snprintf(p->error, sizeof p->error,
                 "%s needs %lld x %lld x %lld elements, more than host memory has", name,
                 (long long)x->count, (long long)rows, (long long)ld);
    return false;
}

bool product_create(struct product *p, struct session *session, const struct ptxmm_problem *problem,
                    float alpha, float beta)
{
    *p = (struct product){ .session = session, .problem = *problem, .alpha = alpha, .beta = beta };
    return create(p, &p->a, "A", &problem->a, problem->m, problem->k, MATRIX_INPUT) &&
           create(p, &p->b, "B", &problem->b, problem->n, problem->k, MATRIX_INPUT) &&
           (!problem->c.type ||
            create(p, &p->c, "C", &problem->c, problem->m, problem->n, MATRIX_INPUT)) &&
           create(p, &p->d, "D", &problem->d, problem->m, problem->n, MATRIX_OUTPUT);
}

static bool driver_failed(struct product *p)
{
    snprintf(p->error, sizeof p->error, "%s", p->session->gpu.error);
    return false;
}

bool product_upload(struct product *p)
{
    const struct matrix *all[4] = { &p->a.whole, &p->b.whole, &p->c.whole, &p->d.whole };
    for (int i = 0; i < 4; i++)
        if (all[i]->base) {
            p->at[i] = gpu_alloc(&p->session->gpu, all[i]->bytes);
            if (!p->at[i] || !gpu_upload(&p->session->gpu, p->at[i], all[i]->base, all[i]->bytes))
                return driver_failed(p);
        }
    const int64_t bytes = ptxmm_plan_info(p->plan)->workspace_bytes;
    struct gpu *gpu = &p->session->gpu;
    if (bytes) {
        /* Zero where a run counts, NaN where it must not read before it has written. */
        p->workspace = gpu_alloc(gpu, (size_t)bytes);
        if (!p->workspace ||
            !gpu_ok(gpu, gpu->MemsetD8(p->workspace, 0xff, (size_t)bytes), "cuMemsetD8") ||
            !gpu_ok(gpu, gpu->MemsetD8(p->workspace, 0, PTXMM_WORKSPACE_COUNTERS), "cuMemsetD8"))
            return driver_failed(p);
    }
    /* A copy from pageable memory may end after its call; what is promised to be constant, or read
     * on another stream, must be there. */
    return gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize") || driver_failed(p);
}

bool product_plan(struct product *p)
{
    struct ptxmm_error error;
    if (!ptxmm_plan_create(p->session->mm, &p->problem, NULL, &p->plan, &error))
        return true;
    snprintf(p->error, sizeof p->error, "%s", error.text);
    bool any = false;
    for (size_t i = 0; i < ptxmm_kernel_count(); i++)
        any |= device_runs(&p->session->device, ptxmm_kernel(i));
    p->device_is_cause = !any || (error.status != PTXMM_ERROR_NO_KERNEL &&
                                  error.status != PTXMM_ERROR_ARGUMENT);
    return false;
}

bool product_launch(struct product *p, CUstream stream)
{
    const struct ptxmm_arguments arguments = {
        .a = p->at[0] + p->a.whole.guard,
        .b = p->at[1] + p->b.whole.guard,
        .c = p->at[2] ? p->at[2] + p->c.whole.guard : 0,
        .d = p->at[3] + p->d.whole.guard,
        .alpha = p->alpha,
        .beta = p->beta,
        .workspace = p->workspace,
        .workspace_bytes = ptxmm_plan_info(p->plan)->workspace_bytes,
    };
    struct ptxmm_error error;
    if (!ptxmm_plan_run(p->plan, &arguments, stream, &error))
        return true;
    snprintf(p->error, sizeof p->error, "%s", error.text);
    p->faulted = error.status == PTXMM_ERROR_DRIVER || error.status == PTXMM_ERROR_CONTEXT_FAULTED;
    return false;
}

bool product_download(struct product *p)
{
    struct gpu *gpu = &p->session->gpu;
    if (!gpu_ok(gpu, gpu->CtxSynchronize(), "waiting for the kernel")) {
        p->faulted = true;
        return driver_failed(p);
    }
    return gpu_download(gpu, p->d.whole.base, p->at[3], p->d.whole.bytes) || driver_failed(p);
}

bool product_check(const struct product *p, bool exact, uint64_t seed, struct check_result *result,
                   char *text, size_t size)
{
    const struct ptxmm_kernel_info *kernel = ptxmm_plan_info(p->plan)->candidate.kernel;
    const struct check_batch check = { .a = &p->a, .b = &p->b, .c = p->c.whole.base ? &p->c : NULL,
                                       .d = &p->d, .alpha = p->alpha, .beta = p->beta,
                                       .promotion = kernel ? kernel->promotion : 0,
                                       .exact = exact, .seed = seed };
    char where[256];
    size_t used = 0;
    const bool intact = stack_intact(&p->d, where, sizeof where);
    check_all(&check, result);
    if (!intact) {
        const int n = snprintf(text, size,
                               "WRONG: memory around D was written: %s\nelements inside: ", where);
        used = n < 0 || (size_t)n >= size ? size : (size_t)n;
    }
    check_describe(result, text + used, size - used);
    result->ok = result->ok && intact;
    return result->ok;
}

void product_destroy(struct product *p)
{
    ptxmm_plan_destroy(&p->plan);
    for (int i = 0; i < 4; i++)
        gpu_free(&p->session->gpu, p->at[i]);
    gpu_free(&p->session->gpu, p->workspace);
    stack_destroy(&p->a);
    stack_destroy(&p->b);
    stack_destroy(&p->c);
    stack_destroy(&p->d);
}
