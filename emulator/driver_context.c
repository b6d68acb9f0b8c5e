// Contexts: primary ones, created ones, and each thread's stack of current contexts.
#include "driver.h"

#include <stdlib.h>
#include <string.h>

// ---- the calling thread's stack -----------------------------------------------------------------
// Handles, not pointers: a context destroyed elsewhere leaves a stale handle behind, which is then
// an error.

enum { STACK_MOST = 256 };

static _Thread_local CUcontext stack[STACK_MOST];
static _Thread_local unsigned stack_depth;

CUcontext context_stack_top(void)
{
    return stack_depth ? stack[stack_depth - 1] : NULL;
}

struct context *context_find(CUcontext handle)
{
    return handle_find(HANDLE_CONTEXT, handle);
}

struct context *context_current(void)
{
    return context_find(context_stack_top());
}

static CUresult push(CUcontext handle)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context_find(handle))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack_depth == STACK_MOST)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[stack_depth++] = handle;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *handle)
{
    if (stack_depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack_depth--;
    if (handle)
        *handle = stack[stack_depth];
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext handle)
{
    if (!handle) {
        if (stack_depth > 0)
            stack_depth--;
        return CUDA_SUCCESS;
    }
    if (!context_find(handle))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack_depth > 0)
        stack[stack_depth - 1] = handle;
    else
        stack[stack_depth++] = handle;
    return CUDA_SUCCESS;
}

// ---- making and unmaking ------------------------------------------------------------------------

static const struct limits default_limits = {
    .stack = 1024,
    .printf_fifo = 8650752,
    .malloc_heap = 8388608,
    .sync_depth = 2,
    .pending_launches = 2048,
    .l2_fetch = 64,
    .persisting_l2 = 11796480,
};

static struct context *context_new(struct device *device, unsigned flags, unsigned api_version)
{
    struct context *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return NULL;
    ctx->device = device;
    ctx->flags = flags;
    ctx->api_version = api_version;
    ctx->id = driver_id();
    ctx->limits = default_limits;
    ctx->mem = mem_new(driver.space, device_memory());
    ctx->legacy = ctx->mem ? stream_new(ctx, 0, 0) : NULL;
    ctx->handle = ctx->legacy ? handle_new(HANDLE_CONTEXT, ctx) : NULL;
    if (ctx->handle) {
        mem_attach(ctx->mem, driver.host);
        ctx->next = driver.contexts;
        driver.contexts = ctx;
        return ctx;
    }
    if (ctx->legacy)
        stream_free(ctx->legacy);
    mem_delete(ctx->mem);
    free(ctx);
    return NULL;
}

void context_quiet(struct context *ctx)
{
    while (ctx->executing)
        pthread_cond_wait(&driver.changed, &driver.lock);
}

static void context_free(struct context *ctx)
{
    handle_drop(ctx->handle);                   // nobody finds it from here on
    ctx->helper_stop = true;
    if (!ctx->fault)
        ctx->fault = CUDA_ERROR_CONTEXT_IS_DESTROYED;   // ends every wait inside it
    pthread_cond_broadcast(&driver.changed);
    while (ctx->pins > 0 || ctx->executing)
        pthread_cond_wait(&driver.changed, &driver.lock);
    if (ctx->has_helper) {
        pthread_mutex_unlock(&driver.lock);
        pthread_join(ctx->helper, NULL);
        pthread_mutex_lock(&driver.lock);
    }
    struct context **at = &driver.contexts;
    while (*at != ctx)
        at = &(*at)->next;
    *at = ctx->next;
    while (ctx->captures)
        capture_end(ctx->captures);
    while (ctx->streams)
        stream_free(ctx->streams);
    library_forget(ctx);
    while (ctx->modules)
        module_free(ctx->modules);
    event_forget_context(ctx);
    for (struct image *image = ctx->images; image; image = image->next)
        image->context = NULL; // still held by graphs; its variables go with the memory
    machine_destroy(ctx->machine);
    mem_delete(ctx->mem);
    free(ctx->report);
    free(ctx);
}

static bool flags_ok(unsigned flags)
{
    const unsigned schedule = flags & CU_CTX_SCHED_MASK;
    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) &&
           (schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN ||
            schedule == CU_CTX_SCHED_YIELD || schedule == CU_CTX_SCHED_BLOCKING_SYNC);
}

static CUresult create(CUcontext *handle, unsigned flags, CUdevice ordinal, unsigned api_version)
{
    struct device *device = device_find(ordinal);
    if (!handle || !flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    struct context *ctx = context_new(device, flags, api_version);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = ctx->handle;
    return push(ctx->handle);
}

// cuda.h no longer declares the older forms, but programs still ask for them.
#pragma GCC visibility push(default)
CUresult cuCtxCreate_v2(CUcontext *handle, unsigned int flags, CUdevice dev);
CUresult cuCtxCreate_v3(CUcontext *handle, CUexecAffinityParam *params, int count,
                        unsigned int flags, CUdevice dev);
#pragma GCC visibility pop

CUresult cuCtxCreate_v2(CUcontext *handle, unsigned int flags, CUdevice dev)
{
    IN_DRIVER(create(handle, flags, dev, 3020));
}

CUresult cuCtxCreate_v3(CUcontext *handle, CUexecAffinityParam *params, int count,
                        unsigned int flags, CUdevice dev)
{
    (void)params;
    IN_DRIVER(count ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : create(handle, flags, dev, 3020));
}

CUresult cuCtxCreate_v4(CUcontext *handle, CUctxCreateParams *params, unsigned int flags,
                        CUdevice dev)
{
    if (params && (params->numExecAffinityParams || params->cigParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    IN_DRIVER(create(handle, flags, dev, 3020));
}

static CUresult destroy(CUcontext handle)
{
    struct context *victim = context_find(handle);
    if (!victim)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (victim->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context_stack_top() == handle)
        stack_depth--;
    context_free(victim);
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
    IN_DRIVER(destroy(handle));
}

// ---- primary contexts ---------------------------------------------------------------------------

static CUresult retain(CUcontext *handle, CUdevice ordinal)
{
    struct device *device = device_find(ordinal);
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!device->primary) {
        device->primary = context_new(device, device->primary_flags, 3020);
        if (!device->primary)
            return CUDA_ERROR_OUT_OF_MEMORY;
        device->primary->primary = true;
        device->primary->flags |= CU_CTX_MAP_HOST;
    }
    device->primary_refs++;
    *handle = device->primary->handle;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice dev)
{
    IN_DRIVER(retain(handle, dev));
}

static void primary_end(struct device *device)
{
    struct context *ctx = device->primary;
    device->primary = NULL;
    if (ctx)
        context_free(ctx);
}

static CUresult release(CUdevice ordinal)
{
    struct device *device = device_find(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (device->primary_refs == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--device->primary_refs == 0)
        primary_end(device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    IN_DRIVER(release(dev));
}

// Ends the context, faults included; the next retain makes a fresh one. The count of retains is
// kept.
static CUresult reset(CUdevice ordinal)
{
    struct device *device = device_find(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    primary_end(device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    IN_DRIVER(reset(dev));
}

static CUresult primary_state(CUdevice ordinal, unsigned *flags, int *active)
{
    struct device *device = device_find(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = device->primary_flags;
    *active = device->primary != NULL;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    IN_DRIVER(primary_state(dev, flags, active));
}

static CUresult primary_flags(CUdevice ordinal, unsigned flags)
{
    struct device *device = device_find(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    device->primary_flags = flags;
    if (device->primary)
        device->primary->flags = flags | CU_CTX_MAP_HOST;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    IN_DRIVER(primary_flags(dev, flags));
}

// ---- the current context ------------------------------------------------------------------------

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
    IN_DRIVER(push(handle));
}

CUresult cuCtxPopCurrent_v2(CUcontext *handle)
{
    IN_DRIVER(pop(handle));
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
    IN_DRIVER(set_current(handle));
}

static CUresult get_current(CUcontext *handle)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    *handle = context_stack_top();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *handle)
{
    IN_DRIVER(get_current(handle));
}

// The context that a call names, 0 meaning the current one.
static CUresult named(CUcontext handle, struct context **ctx)
{
    *ctx = handle ? context_find(handle) : context_current();
    if (*ctx)
        return CUDA_SUCCESS;
    return handle                ? CUDA_ERROR_INVALID_CONTEXT
           : context_stack_top() ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                 : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult get_device(CUcontext handle, CUdevice *dev)
{
    struct context *ctx;
    CUresult result = named(handle, &ctx);
    if (result == CUDA_SUCCESS && !dev)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *dev = ctx->device->ordinal;
    return result;
}

CUresult cuCtxGetDevice(CUdevice *dev)
{
    IN_DRIVER(get_device(NULL, dev));
}

CUresult cuCtxGetDevice_v2(CUdevice *dev, CUcontext handle)
{
    IN_DRIVER(get_device(handle, dev));
}

static CUresult synchronize(CUcontext handle)
{
    struct context *ctx;
    CUresult result = named(handle, &ctx);
    if (result != CUDA_SUCCESS)
        return result;
    ctx->pins++;
    result = context_drain(ctx);
    ctx->pins--;
    pthread_cond_broadcast(&driver.changed);
    return result;
}

CUresult cuCtxSynchronize(void)
{
    IN_DRIVER(synchronize(NULL));
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    IN_DRIVER(synchronize(handle));
}

static CUresult get_unsigned(unsigned value, unsigned *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    IN_CONTEXT(get_unsigned(ctx->flags, flags));
}

static CUresult set_flags(struct context *ctx, unsigned flags)
{
    if (!flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    ctx->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    IN_CONTEXT(set_flags(ctx, flags));
}

static CUresult get_id(CUcontext handle, unsigned long long *id)
{
    struct context *ctx;
    CUresult result = named(handle, &ctx);
    if (result == CUDA_SUCCESS && !id)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *id = ctx->id;
    return result;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    IN_DRIVER(get_id(handle, id));
}

static CUresult api_version(CUcontext handle, unsigned *version)
{
    struct context *ctx;
    CUresult result = named(handle, &ctx);
    return result == CUDA_SUCCESS ? get_unsigned(ctx->api_version, version) : result;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    IN_DRIVER(api_version(handle, version));
}

static CUresult priority_range(int *least, int *greatest)
{
    if (least)
        *least = STREAM_PRIORITY_LEAST;
    if (greatest)
        *greatest = STREAM_PRIORITY_GREATEST;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    IN_CONTEXT(priority_range(least, greatest));
}

// ---- limits and preferences: kept and given back; the stack's alone has an effect, if it is large 

static size_t *limit_of(struct context *ctx, CUlimit limit)
{
    switch (limit) {
    case CU_LIMIT_STACK_SIZE:                       return &ctx->limits.stack;
    case CU_LIMIT_PRINTF_FIFO_SIZE:                 return &ctx->limits.printf_fifo;
    case CU_LIMIT_MALLOC_HEAP_SIZE:                 return &ctx->limits.malloc_heap;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: return &ctx->limits.pending_launches;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:         return &ctx->limits.l2_fetch;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:         return &ctx->limits.persisting_l2;
    default:                                        return NULL;
    }
}

static CUresult get_limit(struct context *ctx, size_t *value, CUlimit limit)
{
    const size_t *at = limit_of(ctx, limit);
    if (!value || (unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_SHMEM_SIZE)
        *value = (size_t)device_attribute(ctx->device,
                                          CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    else if (limit == CU_LIMIT_CIG_ENABLED)
        *value = 0;
    else if (!at)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    else
        *value = *at;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    IN_HEALTHY(get_limit(ctx, value, limit));
}

static CUresult set_limit(struct context *ctx, CUlimit limit, size_t value)
{
    size_t *at = limit_of(ctx, limit);
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!at)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (limit == CU_LIMIT_STACK_SIZE)
        value = (value + 15) / 16 * 16;
    if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE) {
        const size_t most =
            (size_t)device_attribute(ctx->device, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
        value = value < most ? value : most;
    }
    *at = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    IN_HEALTHY(set_limit(ctx, limit, value));
}

static CUresult get_cache(struct context *ctx, CUfunc_cache *config)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = ctx->cache_config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    IN_CONTEXT(get_cache(ctx, config));
}

static CUresult set_cache(struct context *ctx, CUfunc_cache config)
{
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    ctx->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    IN_CONTEXT(set_cache(ctx, config));
}

static CUresult get_banks(struct context *ctx, CUsharedconfig *config)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = ctx->bank_config ? ctx->bank_config : CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    IN_CONTEXT(get_banks(ctx, config));
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    IN_CONTEXT((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_SUCCESS);
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    IN_HEALTHY(CUDA_SUCCESS);
}

// ---- peers --------------------------------------------------------------------------------------

static CUresult peer(struct context *ctx, CUcontext handle, bool enable)
{
    struct context *other = context_find(handle);
    if (!other)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (other == ctx)
        return CUDA_ERROR_INVALID_DEVICE;
    if (enable)
        return mem_attach(ctx->mem, other->mem) ? CUDA_SUCCESS
                                                : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    return mem_detach(ctx->mem, other->mem) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags)
{
    IN_HEALTHY(flags ? CUDA_ERROR_INVALID_VALUE : peer(ctx, handle, true));
}

CUresult cuCtxDisablePeerAccess(CUcontext handle)
{
    IN_HEALTHY(peer(ctx, handle, false));
}
