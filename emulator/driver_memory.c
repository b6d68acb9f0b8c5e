// Allocation: device memory, page-locked host memory, pools, and what can be asked about an
// address.
#define _GNU_SOURCE
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum host_origin { HOST_ALLOCATED, HOST_REGISTERED, HOST_MANAGED };

struct host_block {
    struct host_block *next;
    uint64_t address, size;
    unsigned flags;
    enum host_origin origin;
    uint64_t context;           // id of the context that made it
};

// ---- device memory ------------------------------------------------------------------------------

static CUresult alloc(struct context *ctx, CUdeviceptr *out, size_t bytes, const char *name)
{
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const struct mem_block *block = mem_alloc(ctx->mem, bytes, 512, MEM_DEVICE, name);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = block->base;
    return CUDA_SUCCESS;
}

static CUresult alloc_sync(struct context *ctx, CUdeviceptr *out, size_t bytes)
{
    CUresult result = capture_forbids();
    return result == CUDA_SUCCESS ? alloc(ctx, out, bytes, "cuMemAlloc") : result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    IN_HEALTHY(alloc_sync(ctx, out, bytes));
}

static CUresult alloc_pitch(struct context *ctx, CUdeviceptr *out, size_t *pitch, size_t width,
                            size_t rows, unsigned element)
{
    if (!out || !pitch || width == 0 || rows == 0 ||
        (element != 4 && element != 8 && element != 16) || width > SIZE_MAX / 2)
        return CUDA_ERROR_INVALID_VALUE;
    const size_t p = (width + 511) / 512 * 512;
    size_t bytes;
    if (__builtin_mul_overflow(p, rows, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = alloc(ctx, out, bytes, "cuMemAllocPitch");
    if (result == CUDA_SUCCESS)
        *pitch = p;
    return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t rows,
                            unsigned int element)
{
    IN_HEALTHY(alloc_pitch(ctx, out, pitch, width, rows, element));
}

// The context whose allocation starts at `address`, or NULL.
static struct context *owner(struct context *ctx, uint64_t address)
{
    const struct mem_block *block = memory_block(ctx, address);
    if (!block || block->base != address || block->kind != MEM_DEVICE)
        return NULL;
    for (struct context *c = driver.contexts; c; c = c->next)
        if (c->mem == block->owner)
            return c;
    return NULL;
}

CUresult memory_free(struct context *ctx, uint64_t address)
{
    if (address == 0)
        return CUDA_SUCCESS;
    struct context *c = owner(ctx, address);
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    c->pins++;
    stream_pump(c, true);                       // earlier work may use it
    context_quiet(c);
    if (--c->pins == 0)
        pthread_cond_broadcast(&driver.changed);
    return mem_free(c->mem, address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult info(struct context *ctx, size_t *available, size_t *total)
{
    if (!available || !total)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t used = 0;
    for (const struct context *c = driver.contexts; c; c = c->next)
        if (c->device == ctx->device)
            used += mem_used(c->mem);
    *total = device_memory();
    *available = used < *total ? *total - used : 0;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    IN_HEALTHY(info(ctx, available, total));
}

static CUresult range(struct context *ctx, CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    const struct mem_block *block = memory_block(ctx, address);
    if (!block)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = block->base;
    if (size)
        *size = block->size;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    IN_HEALTHY(range(ctx, base, size, address));
}

// ---- stream-ordered allocation and pools --------------------------------------------------------

static struct pool *pool_new(struct device *device)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (pool) {
        pool->device = device;
        pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
        pool->handle = handle_new(HANDLE_POOL, pool);
        if (!pool->handle) {
            free(pool);
            pool = NULL;
        }
    }
    return pool;
}

// Memory comes from the context; the allocation is usable at once, which is early but within the
// stream's order.
static CUresult alloc_async(struct context *ctx, CUdeviceptr *out, size_t bytes, CUstream stream)
{
    struct stream *s = stream_find(ctx, stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = capture_legacy(ctx, s);
    if (result != CUDA_SUCCESS)
        return result;
    if (s->capture)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes == 0) {
        *out = 0;
        return CUDA_SUCCESS;
    }
    return alloc(s->context, out, bytes, "cuMemAllocAsync");
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    IN_HEALTHY(alloc_async(ctx, out, bytes, stream));
}

static CUresult alloc_from_pool(struct context *ctx, CUdeviceptr *out, size_t bytes,
                                CUmemoryPool pool, CUstream stream)
{
    return handle_find(HANDLE_POOL, pool) ? alloc_async(ctx, out, bytes, stream)
                                          : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    IN_HEALTHY(alloc_from_pool(ctx, out, bytes, pool, stream));
}

static CUresult free_async(struct context *ctx, CUdeviceptr address, CUstream stream)
{
    struct stream *s = stream_find(ctx, stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = capture_legacy(ctx, s);
    if (result != CUDA_SUCCESS)
        return result;
    if (s->capture)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (address == 0)
        return CUDA_SUCCESS;
    if (owner(ctx, address) != s->context)
        return CUDA_ERROR_INVALID_VALUE;
    struct work *work = work_new(WORK_FREE);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->free.address = address;
    return stream_submit(s, work);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    IN_HEALTHY(free_async(ctx, address, stream));
}

static CUresult default_pool(CUmemoryPool *out, CUdevice dev)
{
    struct device *device = device_find(dev);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!device->pool)
        device->pool = pool_new(device);
    if (!device->pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = device->pool->handle;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
    IN_DRIVER(default_pool(pool, dev));
}

static CUresult current_pool(CUmemoryPool *out, CUdevice dev)
{
    const struct device *device = device_find(dev);
    if (out && device && device->current_pool && handle_find(HANDLE_POOL, device->current_pool)) {
        *out = device->current_pool;
        return CUDA_SUCCESS;
    }
    return default_pool(out, dev);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    IN_DRIVER(current_pool(pool, dev));
}

static CUresult set_pool(CUdevice dev, CUmemoryPool pool)
{
    struct device *device = device_find(dev);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!handle_find(HANDLE_POOL, pool))
        return CUDA_ERROR_INVALID_VALUE;
    device->current_pool = pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    IN_DRIVER(set_pool(dev, pool));
}

static CUresult create_pool(CUmemoryPool *out, const CUmemPoolProps *props)
{
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct device *device = device_find(props->location.id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    struct pool *pool = pool_new(device);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = pool->handle;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    IN_DRIVER(create_pool(pool, props));
}

static CUresult destroy_pool(CUmemoryPool handle)
{
    struct pool *pool = handle_find(HANDLE_POOL, handle);
    if (!pool || pool->device->pool == pool)
        return CUDA_ERROR_INVALID_VALUE;
    handle_drop(handle);
    free(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    IN_DRIVER(destroy_pool(pool));
}

static CUresult pool_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value,
                               bool set)
{
    struct pool *pool = handle_find(HANDLE_POOL, handle);
    if (!pool || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: {
        int *at = &pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        memcpy(set ? (void *)at : value, set ? value : at, sizeof *at);
        return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(set ? (void *)&pool->threshold : value, set ? value : &pool->threshold,
               sizeof pool->threshold);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: {
        const uint64_t nothing = 0;             // pools keep nothing: memory goes back at once
        if (!set)
            memcpy(value, &nothing, sizeof nothing);
        return CUDA_SUCCESS;
    }
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    IN_DRIVER(pool_attribute(pool, attribute, value, false));
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    IN_DRIVER(pool_attribute(pool, attribute, value, true));
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    (void)keep;
    IN_DRIVER(handle_find(HANDLE_POOL, pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

// ---- page-locked host memory --------------------------------------------------------------------

static struct host_block *host_find(uint64_t address)
{
    for (struct host_block *h = driver.host_blocks; h; h = h->next)
        if (address - h->address < h->size)
            return h;
    return NULL;
}

static CUresult host_add(struct context *ctx, void *host, size_t bytes, unsigned flags,
                         enum host_origin origin)
{
    static const char *const names[] = {"cuMemHostAlloc", "cuMemHostRegister", "cuMemAllocManaged"};
    struct host_block *h = calloc(1, sizeof *h);
    if (!h)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!mem_map_host(driver.host, host, bytes, names[origin])) {
        free(h);
        return origin == HOST_REGISTERED ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_OUT_OF_MEMORY;
    }
    *h = (struct host_block){
        driver.host_blocks, (uintptr_t)host, bytes, flags | CU_MEMHOSTALLOC_DEVICEMAP,
        origin,             ctx->id};
    driver.host_blocks = h;
    return CUDA_SUCCESS;
}

static CUresult host_remove(struct context *ctx, void *host, enum host_origin origin)
{
    struct host_block **at = &driver.host_blocks;
    while (*at && (*at)->address != (uintptr_t)host)
        at = &(*at)->next;
    struct host_block *h = *at;
    if (!h || h->origin != origin)
        return origin == HOST_REGISTERED && !h ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
    stream_pump(ctx, true);
    for (struct context *c = driver.contexts; c; c = c->next)
        if (c->executing) { // the list may change while the lock is dropped: start again
            context_quiet(c);
            c = driver.contexts;
            if (!c)
                break;
        }
    *at = h->next;
    mem_free(driver.host, h->address);
    free(h);
    if (origin != HOST_REGISTERED)
        free(host);
    return CUDA_SUCCESS;
}

static CUresult host_new(struct context *ctx, void **out, size_t bytes, unsigned flags,
                         enum host_origin origin)
{
    void *host;
    if (bytes > SIZE_MAX / 2 || posix_memalign(&host, 4096, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = host_add(ctx, host, bytes, flags, origin);
    if (result == CUDA_SUCCESS)
        *out = host;
    else
        free(host);
    return result;
}

static CUresult host_alloc(struct context *ctx, void **out, size_t bytes, unsigned flags)
{
    const unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (!out || (flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = capture_forbids();
    if (result != CUDA_SUCCESS)
        return result;
    *out = NULL;
    return bytes ? host_new(ctx, out, bytes, flags, HOST_ALLOCATED) : CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    IN_HEALTHY(host_alloc(ctx, out, bytes, flags));
}

CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
    IN_HEALTHY(host_alloc(ctx, out, bytes, 0));
}

CUresult cuMemFreeHost(void *host)
{
    IN_HEALTHY(host ? host_remove(ctx, host, HOST_ALLOCATED) : CUDA_SUCCESS);
}

// Managed memory is memory that both sides see at one address, as page-locked memory is: nothing
// migrates here.
static CUresult alloc_managed(struct context *ctx, CUdeviceptr *out, size_t bytes, unsigned flags)
{
    void *host = NULL;
    if (!out || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = capture_forbids();
    if (result == CUDA_SUCCESS)
        result = host_new(ctx, &host, bytes, 0, HOST_MANAGED);
    if (result == CUDA_SUCCESS)
        *out = (uintptr_t)host;
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    IN_HEALTHY(alloc_managed(ctx, out, bytes, flags));
}

static CUresult free_sync(struct context *ctx, uint64_t address)
{
    CUresult result = capture_forbids();
    if (result != CUDA_SUCCESS)
        return result;
    const struct host_block *h = host_find(address);
    return h && h->origin == HOST_MANAGED
               ? host_remove(ctx, (void *)(uintptr_t)address, HOST_MANAGED)
               : memory_free(ctx, address);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    IN_HEALTHY(free_sync(ctx, address));
}

// Is all of [host, host + bytes) memory that the process has?
static bool host_exists(const void *host, size_t bytes)
{
    enum { PAGE = 4096, STEP = 1024 };
    unsigned char state[STEP];
    uint64_t at = (uintptr_t)host / PAGE * PAGE;
    const uint64_t end = (uintptr_t)host + bytes;
    if (end < at)
        return false;
    for (; at < end; at += STEP * PAGE) {
        const size_t n = end - at < STEP * PAGE ? (size_t)(end - at) : STEP * PAGE;
        if (mincore((void *)(uintptr_t)at, n, state) != 0)
            return false;
    }
    return true;
}

static CUresult host_register(struct context *ctx, void *host, size_t bytes, unsigned flags)
{
    const unsigned known =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
    if (!host || bytes == 0 || (flags & ~known) || !host_exists(host, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return host_add(ctx, host, bytes, flags, HOST_REGISTERED);
}

CUresult cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags)
{
    IN_HEALTHY(host_register(ctx, host, bytes, flags));
}

CUresult cuMemHostUnregister(void *host)
{
    IN_HEALTHY(host_remove(ctx, host, HOST_REGISTERED));
}

static CUresult host_device_pointer(CUdeviceptr *out, void *host, unsigned flags)
{
    if (!out || flags || !host_find((uintptr_t)host))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (uintptr_t)host;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *host, unsigned int flags)
{
    IN_HEALTHY(host_device_pointer(out, host, flags));
}

static CUresult host_flags(unsigned *flags, void *host)
{
    const struct host_block *h = host_find((uintptr_t)host);
    if (!flags || !h)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = h->flags;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *host)
{
    IN_HEALTHY(host_flags(flags, host));
}

// ---- questions about an address -----------------------------------------------------------------

#define ANSWER(type, value)                     \
    do {                                        \
        const type answer = (value);            \
        memcpy(data, &answer, sizeof answer);   \
        return CUDA_SUCCESS;                    \
    } while (0)

static CUresult pointer_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    const struct mem_block *block = mem_space_find(driver.space, address);
    if (!block)
        return CUDA_ERROR_INVALID_VALUE;
    const bool host = block->kind == MEM_HOST;
    const struct host_block *h = host ? host_find(address) : NULL;
    const bool managed = h && h->origin == HOST_MANAGED;
    const struct context *ctx = NULL;
    for (const struct context *c = driver.contexts; c; c = c->next)
        if (host ? h && c->id == h->context : c->mem == block->owner)
            ctx = c;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        ANSWER(CUcontext, ctx ? ctx->handle : NULL);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        ANSWER(unsigned, host && !managed ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        ANSWER(CUdeviceptr, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host)
            return CUDA_ERROR_INVALID_VALUE;
        ANSWER(void *, (void *)(uintptr_t)address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        ANSWER(unsigned, !host);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        ANSWER(unsigned long long, block->serial);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        ANSWER(unsigned, managed);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        ANSWER(unsigned, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        ANSWER(int, ctx ? ctx->device->ordinal : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        ANSWER(CUdeviceptr, block->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        ANSWER(size_t, block->size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        ANSWER(unsigned, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        ANSWER(unsigned long long, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        ANSWER(int, 3);                          // read and write
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        ANSWER(CUmemoryPool, NULL);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        ANSWER(unsigned long long, block->serial);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    IN_CONTEXT(pointer_attribute(data, attribute, address));
}

// Many at once: what the address does not have is answered with zeros.
static CUresult pointer_attributes(unsigned count, CUpointer_attribute *attributes, void **data,
                                   CUdeviceptr address)
{
    if (count == 0 || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        if (pointer_attribute(data[i], attributes[i], address) == CUDA_SUCCESS)
            continue;
        if (!data[i] || attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
            attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
            return CUDA_ERROR_INVALID_VALUE;
        switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
            memset(data[i], 0, 8);
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            memcpy(data[i], &(int){-2}, sizeof(int));       // no device
            break;
        default:
            memset(data[i], 0, 4);
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr address)
{
    IN_CONTEXT(pointer_attributes(count, attributes, data, address));
}

static CUresult set_pointer_attribute(const void *value, CUpointer_attribute attribute,
                                      CUdeviceptr address)
{
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
        !mem_space_find(driver.space, address))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;                        // every copy here is ordered already
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    IN_CONTEXT(set_pointer_attribute(value, attribute, address));
}
