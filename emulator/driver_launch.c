// Launches: every check the driver makes before a kernel may run, and the packing of its
// parameters.
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "program.h"

static unsigned volume(const unsigned v[3])
{
    return v[0] * v[1] * v[2];
}

// ---- parameters ---------------------------------------------------------------------------------

static CUresult params_from_buffer(struct launch_work *launch, void **extra)
{
    const void *buffer = NULL;
    const size_t *bytes = NULL;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!buffer || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    // Whole words count: 11 bytes are as good as 12.
    if ((*bytes + 3) / 4 < (launch->param_bytes + 3) / 4)
        return CUDA_ERROR_INVALID_VALUE;
    if ((*bytes + 3) / 4 > (launch->param_bytes + 3) / 4)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    memcpy(launch->params, buffer, *bytes < launch->param_bytes ? *bytes : launch->param_bytes);
    return CUDA_SUCCESS;
}

CUresult launch_set_params(struct launch_work *launch, void **params, void **extra)
{
    const struct function *fn = launch->func->function;
    const bool from_buffer = extra && *extra != CU_LAUNCH_PARAM_END;
    if (params && from_buffer)
        return CUDA_ERROR_INVALID_VALUE;
    if (from_buffer)
        return params_from_buffer(launch, extra);
    if (fn->nparams && !params)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < fn->nparams; i++)
        if (!params[i])
            return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < fn->nparams; i++)
        memcpy(launch->params + fn->params[i].offset, params[i], fn->params[i].size);
    return CUDA_SUCCESS;
}

// ---- attributes ---------------------------------------------------------------------------------

struct attributes {
    bool cluster_given;
    unsigned cluster[3];
    bool cooperative, programmatic;
    int priority;
    CUevent event;
};

static CUresult read_attribute(const CUlaunchAttribute *a, struct attributes *out)
{
    const CUlaunchAttributeValue *v = &a->value;
    switch (a->id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        return CUDA_SUCCESS;                            // hints
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        out->cooperative = v->cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        out->cluster[0] = v->clusterDim.x;
        out->cluster[1] = v->clusterDim.y;
        out->cluster[2] = v->clusterDim.z;
        out->cluster_given = out->cluster[0] || out->cluster[1] || out->cluster[2];
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return (unsigned)v->clusterSchedulingPolicyPreference >
                       CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        out->programmatic = v->programmaticStreamSerializationAllowed != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        out->event = v->programmaticEvent.event;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        out->event = v->launchCompletionEvent.event;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        out->priority = v->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return v->deviceUpdatableKernelNode.deviceUpdatable ? CUDA_ERROR_NOT_SUPPORTED
                                                            : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult read_attributes(const CUlaunchConfig *c, struct attributes *out)
{
    if (c->numAttrs && !c->attrs)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++) {
        CUresult result = read_attribute(&c->attrs[i], out);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

// ---- checks -------------------------------------------------------------------------------------

// The cluster a launch gets: the attribute's, the function's, or 1 x 1 x 1.
static CUresult choose_cluster(const struct func *f, const struct attributes *a,
                               struct launch_work *launch)
{
    const struct function *fn = f->function;
    const bool required = f->cluster[0] || f->cluster[1] || f->cluster[2];
    const unsigned *c = required ? f->cluster : a->cluster;
    if (!required && !a->cluster_given) {
        if (fn->explicitcluster)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        launch->cluster[0] = launch->cluster[1] = launch->cluster[2] = 1;
        return CUDA_SUCCESS;
    }
    if (required && a->cluster_given && memcmp(f->cluster, a->cluster, sizeof a->cluster) != 0)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    const uint64_t size = (uint64_t)c[0] * c[1] * c[2];
    const unsigned most = f->nonportable_cluster ? CLUSTER_CTAS : 8;
    if (c[0] > CLUSTER_CTAS || c[1] > CLUSTER_CTAS || c[2] > CLUSTER_CTAS || size == 0 ||
        size > most || (fn->maxclusterrank && size > fn->maxclusterrank))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (int i = 0; i < 3; i++)
        if (launch->grid[i] % c[i])
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    memcpy(launch->cluster, c, sizeof launch->cluster);
    launch->explicit_cluster = true;
    return CUDA_SUCCESS;
}

static CUresult check(const struct context *ctx, const struct func *f, const struct attributes *a,
                      struct launch_work *launch)
{
    const struct function *fn = f->function;
    const unsigned *g = launch->grid, *b = launch->block;
    if (g[0] == 0 || g[1] == 0 || g[2] == 0 || g[0] > 2147483647u || g[1] > 65535 || g[2] > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (b[0] == 0 || b[1] == 0 || b[2] == 0 || b[0] > 1024 || b[1] > 1024 || b[2] > 64 ||
        volume(b) > func_threads_most(f))
        return CUDA_ERROR_INVALID_VALUE;
    if (fn->reqntid[0] &&
        (b[0] != fn->reqntid[0] || b[1] != (fn->reqntid[1] ? fn->reqntid[1] : 1) ||
         b[2] != (fn->reqntid[2] ? fn->reqntid[2] : 1)))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = choose_cluster(f, a, launch);
    if (result != CUDA_SUCCESS)
        return result;
    if (launch->smem > (unsigned)f->max_dynamic_smem)
        return CUDA_ERROR_INVALID_VALUE;
    if (occupancy_blocks(f, volume(b), launch->smem) == 0)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;                  // registers
    if (launch->explicit_cluster &&
        occupancy_clusters(ctx, f, volume(b), launch->smem, volume(launch->cluster)) == 0)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE; // no group of multiprocessors holds one
    if (launch->cooperative &&
        (uint64_t)g[0] * g[1] * g[2] >
            (uint64_t)ctx->device->sms * occupancy_blocks(f, volume(b), launch->smem))
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return CUDA_SUCCESS;
}

CUresult launch_build(struct context *ctx, const CUlaunchConfig *c, CUfunction handle,
                      void **params, void **extra, struct work **out)
{
    CUresult result;
    struct attributes a = {0};
    struct func *f = func_find(ctx, handle, &result);
    if (!f)
        return result;
    if (f->image->context != ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    result = read_attributes(c, &a);
    if (result != CUDA_SUCCESS)
        return result;

    struct work *work = work_new(WORK_LAUNCH);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct launch_work *launch = &work->launch;
    *launch = (struct launch_work){
        .func = f,
        .image = f->image,
        .grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
        .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
        .smem = c->sharedMemBytes,
        .programmatic = a.programmatic,
        .cooperative = a.cooperative,
        .priority = a.priority,
        .params = calloc(1, f->function->param_size + 1),
        .param_bytes = f->function->param_size,
    };
    f->image->refs++;
    if (a.cooperative && !ctx->grid_barrier) {
        const struct mem_block *b = mem_alloc(ctx->mem, GRID_BARRIER_BYTES, 256, MEM_GLOBAL,
                                              "grid barrier");
        ctx->grid_barrier = b ? b->base : 0;
    }
    result = launch->params ? check(ctx, f, &a, launch) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        result = launch_set_params(launch, params, extra);
    if (result == CUDA_SUCCESS && a.event) {
        struct event *event = event_find(a.event);
        if (event && event->context == ctx)
            launch->event = event_keep(event);
        else
            result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS)
        *out = work;
    else
        work_drop(work);
    return result;
}

// ---- entry points -------------------------------------------------------------------------------

static CUresult launch(struct context *ctx, const CUlaunchConfig *config, CUfunction function,
                       void **params, void **extra)
{
    struct stream *s = config ? stream_find(ctx, config->hStream) : ctx->legacy;
    struct work *work;
    CUresult result = launch_build(ctx, config, function, params, extra, &work);
    if (result != CUDA_SUCCESS)
        return result;
    result = !s || s->context != ctx ? CUDA_ERROR_INVALID_HANDLE : capture_legacy(ctx, s);
    if (result == CUDA_SUCCESS && work->launch.event) {
        if (s->capture)
            result = CUDA_ERROR_NOT_SUPPORTED;
        else
            work->launch.event_number = ++work->launch.event->issued;
    }
    if (result != CUDA_SUCCESS) {
        work_drop(work);
        return result;
    }
    return stream_submit(s, work);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                        unsigned int bx, unsigned int by, unsigned int bz, unsigned int smem,
                        CUstream stream, void **params, void **extra)
{
    const CUlaunchConfig config = {gx, gy, gz, bx, by, bz, smem, stream, NULL, 0};
    IN_HEALTHY(launch(ctx, &config, f, params, extra));
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    IN_HEALTHY(launch(ctx, config, f, params, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                   unsigned int bx, unsigned int by, unsigned int bz,
                                   unsigned int smem, CUstream stream, void **params)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                   .value = {.cooperative = 1}};
    const CUlaunchConfig config = {gx, gy, gz, bx, by, bz, smem, stream, &attribute, 1};
    IN_HEALTHY(launch(ctx, &config, f, params, NULL));
}
