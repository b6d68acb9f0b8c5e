// Memory: allocation, copies, fills, pools, pointers.
#include "runtime.h"

#include <string.h>

// ---- allocation ---------------------------------------------------------------------------------

static CUresult allocate(void **pointer, size_t bytes)
{
    CUdeviceptr at = 0;
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result =
        bytes ? cuMemAlloc(&at, bytes) : CUDA_SUCCESS; // nothing is a null pointer here
    if (result == CUDA_SUCCESS)
        *pointer = (void *)(uintptr_t)at;
    return result;
}

PASS(cudaMalloc, (void **pointer, size_t bytes), allocate(pointer, bytes))
PASS(cudaFree, (void *pointer), cuMemFree(device(pointer)))
PASS(cudaMallocHost, (void **pointer, size_t bytes), cuMemAllocHost(pointer, bytes))
PASS(cudaHostAlloc, (void **pointer, size_t bytes, unsigned int flags),
     cuMemHostAlloc(pointer, bytes, flags))
PASS(cudaFreeHost, (void *pointer), pointer ? cuMemFreeHost(pointer) : CUDA_SUCCESS)
PASS(cudaHostRegister, (void *pointer, size_t bytes, unsigned int flags),
     cuMemHostRegister(pointer, bytes, flags))
PASS(cudaHostUnregister, (void *pointer), cuMemHostUnregister(pointer))
PASS(cudaHostGetFlags, (unsigned int *flags, void *pointer), cuMemHostGetFlags(flags, pointer))
PASS(cudaMemGetInfo, (size_t *available, size_t *total), cuMemGetInfo(available, total))

static CUresult address(void **to, CUresult result, const CUdeviceptr *at)
{
    if (result == CUDA_SUCCESS)
        *to = (void *)(uintptr_t)*at;
    return result;
}

cudaError_t cudaHostGetDevicePointer(void **pointer, void *host, unsigned int flags)
{
    CUdeviceptr at = 0;
    FORWARD(address(pointer, cuMemHostGetDevicePointer(&at, host, flags), &at));
}

cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags)
{
    CUdeviceptr at = 0;
    FORWARD(address(pointer, cuMemAllocManaged(&at, bytes, flags), &at));
}

static CUresult allocate_rows(void **pointer, size_t *pitch, size_t width, size_t rows)
{
    CUdeviceptr at = 0;
    if (!pointer || !pitch)
        return CUDA_ERROR_INVALID_VALUE;
    return address(pointer, cuMemAllocPitch(&at, pitch, width, rows, 16), &at);
}

PASS(cudaMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t rows),
     allocate_rows(pointer, pitch, width, rows))

static CUresult allocate_slices(struct cudaPitchedPtr *p, struct cudaExtent extent)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    p->xsize = extent.width;
    p->ysize = extent.height;
    return allocate_rows(&p->ptr, &p->pitch, extent.width, extent.height * extent.depth);
}

PASS(cudaMalloc3D, (struct cudaPitchedPtr *p, struct cudaExtent extent),
     allocate_slices(p, extent))

static CUresult allocate_async(void **pointer, size_t bytes, CUmemoryPool pool, cudaStream_t stream)
{
    CUdeviceptr at = 0;
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    return address(pointer,
                   pool ? cuMemAllocFromPoolAsync(&at, bytes, pool, stream)
                        : cuMemAllocAsync(&at, bytes, stream),
                   &at);
}

PASS(cudaMallocAsync, (void **pointer, size_t bytes, cudaStream_t stream),
     allocate_async(pointer, bytes, NULL, stream))
PASS(cudaMallocFromPoolAsync,
     (void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
     allocate_async(pointer, bytes, pool, stream))
PASS(cudaFreeAsync, (void *pointer, cudaStream_t stream), cuMemFreeAsync(device(pointer), stream))
PASS(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes), cuMemPoolTrimTo(pool, bytes))
PASS(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
     cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value))
PASS(cudaMemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
     cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value))
PASS(cudaMemPoolDestroy, (cudaMemPool_t pool), cuMemPoolDestroy(pool))

static CUresult pointer_attributes(struct cudaPointerAttributes *to, const void *pointer)
{
    unsigned type = 0, managed = 0;
    int dev = 0;
    void *at = NULL, *host = NULL;
    if (!to)
        return CUDA_ERROR_INVALID_VALUE;
    CUpointer_attribute numbers[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *values[] = {&type, &managed, &dev, &at, &host};
    const CUresult result = cuPointerGetAttributes(5, numbers, values, device(pointer));
    memset(to, 0, sizeof *to);
    to->device = dev;
    to->devicePointer = at;
    to->hostPointer = host;
    to->type = managed                        ? cudaMemoryTypeManaged
               : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
               : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                              : cudaMemoryTypeUnregistered;
    if (to->type == cudaMemoryTypeUnregistered) {
        to->device = cudaInvalidDeviceId;
        to->hostPointer = (void *)(uintptr_t)pointer;
    }
    return result;
}

PASS(cudaPointerGetAttributes, (struct cudaPointerAttributes *to, const void *pointer),
     pointer_attributes(to, pointer))

// ---- copies -------------------------------------------------------------------------------------

// Every copy is the driver's copy in up to three dimensions. cudaMemcpyDefault looks at the
// addresses, and so does the driver with CU_MEMORYTYPE_UNIFIED; the other kinds say which side is
// the host's.
static int side_is_host(enum cudaMemcpyKind kind, int source)
{
    return kind == cudaMemcpyHostToHost ||
           (source ? kind == cudaMemcpyHostToDevice : kind == cudaMemcpyDeviceToHost);
}

static CUresult copy_box(CUDA_MEMCPY3D *c, void *to, const void *from, enum cudaMemcpyKind kind,
                         int wait, cudaStream_t stream)
{
    if ((unsigned)kind > cudaMemcpyDefault)
        return (CUresult)cudaErrorInvalidMemcpyDirection;
    if (c->WidthInBytes == 0 || c->Height == 0 || c->Depth == 0)
        return CUDA_SUCCESS;
    const CUmemorytype plain =
        kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
    c->srcMemoryType = side_is_host(kind, 1) ? CU_MEMORYTYPE_HOST : plain;
    c->dstMemoryType = side_is_host(kind, 0) ? CU_MEMORYTYPE_HOST : plain;
    c->srcHost = from;
    c->srcDevice = device(from);
    c->dstHost = to;
    c->dstDevice = device(to);
    return wait ? cuMemcpy3D(c) : cuMemcpy3DAsync(c, stream);
}

static CUresult copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, int wait,
                     cudaStream_t stream)
{
    CUDA_MEMCPY3D c = {.WidthInBytes = bytes, .Height = 1, .Depth = 1};
    if (wait && kind == cudaMemcpyHostToDevice)
        return bytes ? cuMemcpyHtoD(device(to), from, bytes) : CUDA_SUCCESS;
    if (wait && kind == cudaMemcpyDeviceToHost)
        return bytes ? cuMemcpyDtoH(to, device(from), bytes) : CUDA_SUCCESS;
    if (wait && kind == cudaMemcpyDeviceToDevice)
        return bytes ? cuMemcpyDtoD(device(to), device(from), bytes) : CUDA_SUCCESS;
    return copy_box(&c, to, from, kind, wait, stream);
}

static CUresult copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                          size_t width, size_t rows, enum cudaMemcpyKind kind, int wait,
                          cudaStream_t stream)
{
    CUDA_MEMCPY3D c = {.WidthInBytes = width,
                       .Height = rows,
                       .Depth = 1,
                       .srcPitch = from_pitch,
                       .dstPitch = to_pitch};
    if (width > to_pitch || width > from_pitch)
        return (CUresult)cudaErrorInvalidPitchValue;
    return copy_box(&c, to, from, kind, wait, stream);
}

static CUresult copy_slices(const struct cudaMemcpy3DParms *p, int wait, cudaStream_t stream)
{
    if (!p || p->srcArray || p->dstArray)
        return p ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE; // there are no arrays here
    CUDA_MEMCPY3D c = {.WidthInBytes = p->extent.width,
                       .Height = p->extent.height,
                       .Depth = p->extent.depth,
                       .srcXInBytes = p->srcPos.x,
                       .srcY = p->srcPos.y,
                       .srcZ = p->srcPos.z,
                       .dstXInBytes = p->dstPos.x,
                       .dstY = p->dstPos.y,
                       .dstZ = p->dstPos.z,
                       .srcPitch = p->srcPtr.pitch,
                       .dstPitch = p->dstPtr.pitch,
                       .srcHeight = p->srcPtr.ysize,
                       .dstHeight = p->dstPtr.ysize};
    return copy_box(&c, p->dstPtr.ptr, p->srcPtr.ptr, p->kind, wait, stream);
}

PASS(cudaMemcpy, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind),
     copy(to, from, bytes, kind, 1, NULL))
PASS(cudaMemcpyAsync,
     (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
     copy(to, from, bytes, kind, 0, stream))
PASS(cudaMemcpy2D,
     (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
      enum cudaMemcpyKind kind),
     copy_rows(to, to_pitch, from, from_pitch, width, rows, kind, 1, NULL))
PASS(cudaMemcpy2DAsync,
     (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
      enum cudaMemcpyKind kind, cudaStream_t stream),
     copy_rows(to, to_pitch, from, from_pitch, width, rows, kind, 0, stream))
PASS(cudaMemcpy3D, (const struct cudaMemcpy3DParms *p), copy_slices(p, 1, NULL))
PASS(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *p, cudaStream_t stream),
     copy_slices(p, 0, stream))
// Every device sees every address.
PASS(cudaMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t bytes),
     ((void)to_device, (void)from_device, copy(to, from, bytes, cudaMemcpyDefault, 1, NULL)))
PASS(cudaMemcpyPeerAsync,
     (void *to, int to_device, const void *from, int from_device, size_t bytes,
      cudaStream_t stream),
     ((void)to_device, (void)from_device, copy(to, from, bytes, cudaMemcpyDefault, 0, stream)))

// A variable of the program, from `offset` on.
static int inside(const void *symbol, size_t bytes, size_t offset, void **at)
{
    CUdeviceptr base;
    size_t size;
    const int result = runtime_variable(symbol, &base, &size);
    if (result != CUDA_SUCCESS)
        return result;
    *at = (void *)(uintptr_t)(base + offset);
    return offset > size || bytes > size - offset ? (int)cudaErrorInvalidValue : 0;
}

static int to_symbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                     enum cudaMemcpyKind kind, int wait, cudaStream_t stream)
{
    void *at;
    const int result = inside(symbol, bytes, offset, &at);
    return result == 0 ? (int)copy(at, from, bytes, kind, wait, stream) : result;
}

static int from_symbol(void *to, const void *symbol, size_t bytes, size_t offset,
                       enum cudaMemcpyKind kind, int wait, cudaStream_t stream)
{
    void *at;
    const int result = inside(symbol, bytes, offset, &at);
    return result == 0 ? (int)copy(to, at, bytes, kind, wait, stream) : result;
}

PASS(cudaMemcpyToSymbol,
     (const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
     to_symbol(symbol, from, bytes, offset, kind, 1, NULL))
PASS(cudaMemcpyToSymbolAsync,
     (const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
      cudaStream_t stream),
     to_symbol(symbol, from, bytes, offset, kind, 0, stream))
PASS(cudaMemcpyFromSymbol,
     (void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
     from_symbol(to, symbol, bytes, offset, kind, 1, NULL))
PASS(cudaMemcpyFromSymbolAsync,
     (void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
      cudaStream_t stream),
     from_symbol(to, symbol, bytes, offset, kind, 0, stream))

// ---- fills --------------------------------------------------------------------------------------

static CUresult fill(void *to, size_t pitch, int value, size_t width, size_t rows, int wait,
                     cudaStream_t stream)
{
    const unsigned char byte = (unsigned char)value;
    if (width == 0 || rows == 0)
        return CUDA_SUCCESS;
    if (rows == 1)
        return wait ? cuMemsetD8(device(to), byte, width)
                    : cuMemsetD8Async(device(to), byte, width, stream);
    return wait ? cuMemsetD2D8(device(to), pitch, byte, width, rows)
                : cuMemsetD2D8Async(device(to), pitch, byte, width, rows, stream);
}

// Slices that follow each other without gaps are more rows; with gaps, one fill each.
static CUresult fill_slices(struct cudaPitchedPtr p, int value, struct cudaExtent e, int wait,
                            cudaStream_t stream)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t z = 0; result == CUDA_SUCCESS && z < e.depth; z++)
        result = fill((char *)p.ptr + z * p.pitch * p.ysize, p.pitch, value, e.width, e.height,
                      wait, stream);
    return result;
}

PASS(cudaMemset, (void *to, int value, size_t bytes), fill(to, bytes, value, bytes, 1, 1, NULL))
PASS(cudaMemsetAsync, (void *to, int value, size_t bytes, cudaStream_t stream),
     fill(to, bytes, value, bytes, 1, 0, stream))
PASS(cudaMemset2D, (void *to, size_t pitch, int value, size_t width, size_t rows),
     fill(to, pitch, value, width, rows, 1, NULL))
PASS(cudaMemset2DAsync,
     (void *to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream),
     fill(to, pitch, value, width, rows, 0, stream))
PASS(cudaMemset3D, (struct cudaPitchedPtr p, int value, struct cudaExtent extent),
     fill_slices(p, value, extent, 1, NULL))
PASS(cudaMemset3DAsync,
     (struct cudaPitchedPtr p, int value, struct cudaExtent extent, cudaStream_t stream),
     fill_slices(p, value, extent, 0, stream))
