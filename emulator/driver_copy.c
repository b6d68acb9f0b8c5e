// Copies and fills: the checks when they are asked for, and the moving of bytes with their
// validity.
#define _POSIX_C_SOURCE 200809L
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "valid.h"

// What a copy to the host gives for bytes that nobody wrote: NaN in every format.
enum { POISON = 0xff };

// ---- addresses ----------------------------------------------------------------------------------

static bool device_range(uint64_t address)
{
    return address >= MEM_BASE && address < MEM_LIMIT;
}

const struct mem_block *memory_block(struct context *ctx, uint64_t address)
{
    const struct mem_block *block = mem_find(ctx->mem, address);
    return block ? block : mem_space_find(driver.space, address);
}

static bool resolve(struct context *ctx, uint64_t address, uint64_t bytes, struct mem_ref *ref)
{
    const struct mem_block *block = memory_block(ctx, address);
    if (!block || bytes > block->size - (address - block->base))
        return false;
    *ref = (struct mem_ref){block->bytes + (address - block->base), block->valid,
                            address - block->base};
    return true;
}

// Bytes from the first to behind the last of slices x rows x width, 0 when they are too many to
// count.
static uint64_t span(uint64_t slices, uint64_t height, uint64_t rows, uint64_t pitch,
                     uint64_t width)
{
    uint64_t lines, bytes;
    if (__builtin_mul_overflow(slices - 1, height, &lines) ||
        __builtin_add_overflow(lines, rows - 1, &lines) ||
        __builtin_mul_overflow(lines, pitch, &bytes) ||
        __builtin_add_overflow(bytes, width, &bytes) || bytes >> 62)
        return 0;
    return bytes;
}

static uint64_t extent(const struct side *side, const struct copy *c)
{
    return span(c->slices, side->height, c->rows, side->pitch, c->width);
}

static bool side_ok(struct context *ctx, const struct side *side, const struct copy *c)
{
    const uint64_t bytes = extent(side, c);
    struct mem_ref ref;
    if (bytes == 0 || side->address == 0)
        return false;
    if ((c->rows > 1 || c->slices > 1) && side->pitch < c->width)
        return false;
    if (c->slices > 1 && side->height < c->rows)
        return false;
    if (side->host && !device_range(side->address))
        return true;
    return resolve(ctx, side->address, bytes, &ref);
}

CUresult copy_check(struct context *ctx, const struct copy *c)
{
    if (c->width == 0 || c->rows == 0 || c->slices == 0)
        return CUDA_SUCCESS;
    return side_ok(ctx, &c->to, c) && side_ok(ctx, &c->from, c) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
}

// ---- moving bytes -------------------------------------------------------------------------------

// One end of a row: host bytes, and validity if it is device memory.
static bool row_place(struct context *ctx, const struct side *side, uint64_t at, size_t bytes,
                      struct mem_ref *ref)
{
    if (side->host && !device_range(side->address)) {
        *ref = (struct mem_ref){(uint8_t *)(uintptr_t)(side->address + at), NULL, 0};
        return true;
    }
    return resolve(ctx, side->address + at, bytes, ref);
}

static void poison(uint8_t *to, const struct mem_ref *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!valid_get(from->valid, from->at + i, 1))
            to[i] = POISON;
}

static void row_copy(const struct mem_ref *to, const struct mem_ref *from, size_t bytes)
{
    memmove(to->host, from->host, bytes);
    const bool whole = !from->valid || valid_all(from->valid, from->at, bytes);
    if (to->valid) {
        if (whole)
            valid_fill(to->valid, to->at, bytes, true);
        else
            valid_copy(to->valid, to->at, from->valid, from->at, bytes);
    } else if (!whole) {
        poison(to->host, from, bytes);
    }
}

CUresult copy_run(struct context *ctx, const struct copy *c)
{
    size_t width = c->width, rows = c->rows, slices = c->slices;
    struct side to = c->to, from = c->from;
    if (width == 0 || rows == 0 || slices == 0)
        return CUDA_SUCCESS;
    if (c->staged)
        from.address = (uintptr_t)c->staged;
    if (slices == 1 && to.pitch == width && from.pitch == width) {
        width *= rows;                          // rows that touch are one row
        rows = 1;
    }
    for (size_t z = 0; z < slices; z++)
        for (size_t y = 0; y < rows; y++) {
            struct mem_ref t, f;
            if (!row_place(ctx, &to, (z * to.height + y) * to.pitch, width, &t) ||
                !row_place(ctx, &from, (z * from.height + y) * from.pitch, width, &f))
                return CUDA_ERROR_ILLEGAL_ADDRESS;          // freed since it was enqueued
            row_copy(&t, &f, width);
        }
    return CUDA_SUCCESS;
}

CUresult fill_check(struct context *ctx, const struct work *work)
{
    const uint64_t width = work->fill.width, rows = work->fill.rows, pitch = work->fill.pitch;
    struct mem_ref ref;
    if (work->fill.address % work->fill.element ||
        (rows > 1 && (pitch < width || pitch % work->fill.element)))
        return CUDA_ERROR_INVALID_VALUE;
    if (width == 0 || rows == 0)
        return CUDA_SUCCESS;
    const uint64_t bytes = span(1, 1, rows, pitch, width);
    return bytes && resolve(ctx, work->fill.address, bytes, &ref) ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_INVALID_VALUE;
}

static void fill_row(uint8_t *to, size_t bytes, uint32_t value, unsigned element)
{
    bool same = element == 1 || (value & 0xff) * (element == 2 ? 0x0101u : 0x01010101u) ==
                                    (element == 2 ? value & 0xffff : value);
    if (same) {
        memset(to, (int)(value & 0xff), bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += element)
        memcpy(to + i, &value, element);
}

CUresult fill_run(struct context *ctx, const struct work *work)
{
    if (work->fill.width == 0)
        return CUDA_SUCCESS;
    for (size_t y = 0; y < work->fill.rows; y++) {
        struct mem_ref ref;
        if (!resolve(ctx, work->fill.address + y * work->fill.pitch, work->fill.width, &ref))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        fill_row(ref.host, work->fill.width, work->fill.value, work->fill.element);
        valid_fill(ref.valid, ref.at, work->fill.width, true);
    }
    return CUDA_SUCCESS;
}

// ---- submitting ---------------------------------------------------------------------------------

enum { SYNC = 1 };                      // the call returns when the work is done

static CUresult finish(struct context *ctx, CUstream stream, bool sync, struct work *work)
{
    struct stream *s = stream_find(ctx, stream);
    CUresult result = s ? capture_legacy(ctx, s) : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && s->context->fault)
        result = s->context->fault;
    if (result == CUDA_SUCCESS && sync)
        result = s->capture ? capture_touches(s) : capture_forbids();
    if (result != CUDA_SUCCESS) {
        work_drop(work);
        return result;
    }
    result = stream_submit(s, work);
    return result == CUDA_SUCCESS && sync ? stream_drain(s) : result;
}

// An asynchronous copy takes plain host memory as it is now, should it have to wait.
static bool stage(const struct context *ctx, struct copy *c)
{
    if (!c->from.host || device_range(c->from.address) || mem_find(driver.host, c->from.address))
        return true;
    bool queued = false;
    for (const struct stream *s = ctx->streams; s; s = s->next)
        queued |= s->first != NULL;
    if (!queued || c->width == 0 || c->rows == 0 || c->slices == 0)
        return true;
    const uint64_t bytes = extent(&c->from, c);
    c->staged = malloc(bytes);
    if (!c->staged)
        return false;
    memcpy(c->staged, (const void *)(uintptr_t)c->from.address, bytes);
    return true;
}

static CUresult submit(struct context *ctx, CUstream stream, bool sync, const struct copy *copy)
{
    CUresult result = copy_check(ctx, copy);
    if (result != CUDA_SUCCESS)
        return result;
    struct work *work = work_new(WORK_COPY);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->copy = *copy;
    const struct stream *s = stream_find(ctx, stream);
    if (!sync && s && !s->capture && !stage(ctx, &work->copy)) {
        work_drop(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return finish(ctx, stream, sync, work);
}

static CUresult linear(struct context *ctx, CUstream stream, bool sync, struct side to,
                       struct side from, size_t bytes)
{
    to.pitch = from.pitch = bytes;
    to.height = from.height = 1;
    const struct copy copy = {.to = to, .from = from, .width = bytes, .rows = 1, .slices = 1};
    return submit(ctx, stream, sync, &copy);
}

static struct side on_device(CUdeviceptr address)
{
    return (struct side){.address = address};
}

static struct side on_host(const void *address)
{
    return (struct side){.address = (uintptr_t)address, .host = true};
}

// A unified address: what it is shows in the address.
static struct side unified(CUdeviceptr address)
{
    return (struct side){.address = address, .host = !device_range(address)};
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    IN_HEALTHY(linear(ctx, 0, SYNC, on_device(to), on_host(from), bytes));
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    IN_HEALTHY(linear(ctx, 0, SYNC, on_host(to), on_device(from), bytes));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    IN_HEALTHY(linear(ctx, 0, SYNC, on_device(to), on_device(from), bytes));
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    IN_HEALTHY(linear(ctx, 0, SYNC, unified(to), unified(from), bytes));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    IN_HEALTHY(linear(ctx, stream, !SYNC, on_device(to), on_host(from), bytes));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    IN_HEALTHY(linear(ctx, stream, !SYNC, on_host(to), on_device(from), bytes));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    IN_HEALTHY(linear(ctx, stream, !SYNC, on_device(to), on_device(from), bytes));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    IN_HEALTHY(linear(ctx, stream, !SYNC, unified(to), unified(from), bytes));
}

// Both contexts must live; the addresses say the rest.
static CUresult peers(CUcontext to, CUcontext from)
{
    return context_find(to) && context_find(from) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult peer(struct context *ctx, CUstream stream, bool sync, CUdeviceptr to,
                     CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t bytes)
{
    CUresult result = peers(to_ctx, from_ctx);
    return result == CUDA_SUCCESS ? linear(ctx, stream, sync, on_device(to), on_device(from), bytes)
                                  : result;
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx,
                      size_t bytes)
{
    IN_HEALTHY(peer(ctx, 0, SYNC, to, to_ctx, from, from_ctx, bytes));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx,
                           size_t bytes, CUstream stream)
{
    IN_HEALTHY(peer(ctx, stream, !SYNC, to, to_ctx, from, from_ctx, bytes));
}

// ---- two and three dimensions -------------------------------------------------------------------

static CUresult place(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch,
                      size_t height, size_t width, size_t x, size_t y, size_t z, struct side *side)
{
    if (pitch < width || pitch - width < x)
        return CUDA_ERROR_INVALID_VALUE;
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        *side = on_host(host);
        break;
    case CU_MEMORYTYPE_DEVICE:
        *side = on_device(device);
        break;
    case CU_MEMORYTYPE_UNIFIED:
        *side = unified(device);
        break;
    case CU_MEMORYTYPE_ARRAY:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    side->pitch = pitch;
    side->height = height;
    if (side->address)
        side->address += (z * height + y) * pitch + x;
    return CUDA_SUCCESS;
}

static CUresult copy_2d(struct context *ctx, CUstream stream, bool sync, const CUDA_MEMCPY2D *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    struct copy c = {.width = p->WidthInBytes, .rows = p->Height, .slices = 1};
    if (c.width == 0 || c.rows == 0)
        return CUDA_SUCCESS;
    // A pitch of 0 means rows that touch.
    CUresult result = place(p->dstMemoryType, p->dstHost, p->dstDevice,
                            p->dstPitch ? p->dstPitch : p->dstXInBytes + c.width, p->Height,
                            c.width, p->dstXInBytes, p->dstY, 0, &c.to);
    if (result == CUDA_SUCCESS)
        result = place(p->srcMemoryType, p->srcHost, p->srcDevice,
                       p->srcPitch ? p->srcPitch : p->srcXInBytes + c.width, p->Height, c.width,
                       p->srcXInBytes, p->srcY, 0, &c.from);
    return result == CUDA_SUCCESS ? submit(ctx, stream, sync, &c) : result;
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *p)
{
    IN_HEALTHY(copy_2d(ctx, 0, SYNC, p));
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p)
{
    IN_HEALTHY(copy_2d(ctx, 0, SYNC, p));
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream stream)
{
    IN_HEALTHY(copy_2d(ctx, stream, !SYNC, p));
}

CUresult copy_from_3d(const CUDA_MEMCPY3D *p, struct copy *c)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    *c = (struct copy){.width = p->WidthInBytes, .rows = p->Height, .slices = p->Depth};
    if (c->width == 0 || c->rows == 0 || c->slices == 0)
        return CUDA_SUCCESS;
    CUresult result = place(p->dstMemoryType, p->dstHost, p->dstDevice,
                            p->dstPitch ? p->dstPitch : p->dstXInBytes + c->width,
                            p->dstHeight ? p->dstHeight : p->dstY + c->rows, c->width,
                            p->dstXInBytes, p->dstY, p->dstZ, &c->to);
    if (result == CUDA_SUCCESS)
        result = place(p->srcMemoryType, p->srcHost, p->srcDevice,
                       p->srcPitch ? p->srcPitch : p->srcXInBytes + c->width,
                       p->srcHeight ? p->srcHeight : p->srcY + c->rows, c->width, p->srcXInBytes,
                       p->srcY, p->srcZ, &c->from);
    return result;
}

static CUresult copy_3d(struct context *ctx, CUstream stream, bool sync, const CUDA_MEMCPY3D *p)
{
    struct copy c;
    CUresult result = copy_from_3d(p, &c);
    return result == CUDA_SUCCESS ? submit(ctx, stream, sync, &c) : result;
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *p)
{
    IN_HEALTHY(copy_3d(ctx, 0, SYNC, p));
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream stream)
{
    IN_HEALTHY(copy_3d(ctx, stream, !SYNC, p));
}

static CUresult copy_3d_peer(struct context *ctx, CUstream stream, bool sync,
                             const CUDA_MEMCPY3D_PEER *p)
{
    CUresult result = p ? peers(p->dstContext, p->srcContext) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    const CUDA_MEMCPY3D q = {
        .srcXInBytes = p->srcXInBytes,
        .srcY = p->srcY,
        .srcZ = p->srcZ,
        .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost,
        .srcDevice = p->srcDevice,
        .srcPitch = p->srcPitch,
        .srcHeight = p->srcHeight,
        .dstXInBytes = p->dstXInBytes,
        .dstY = p->dstY,
        .dstZ = p->dstZ,
        .dstMemoryType = p->dstMemoryType,
        .dstHost = p->dstHost,
        .dstDevice = p->dstDevice,
        .dstPitch = p->dstPitch,
        .dstHeight = p->dstHeight,
        .WidthInBytes = p->WidthInBytes,
        .Height = p->Height,
        .Depth = p->Depth,
    };
    return copy_3d(ctx, stream, sync, &q);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p)
{
    IN_HEALTHY(copy_3d_peer(ctx, 0, SYNC, p));
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream stream)
{
    IN_HEALTHY(copy_3d_peer(ctx, stream, !SYNC, p));
}

// ---- fills --------------------------------------------------------------------------------------

static CUresult fill(struct context *ctx, CUstream stream, bool sync, CUdeviceptr to, size_t pitch,
                     uint32_t value, unsigned element, size_t count, size_t rows)
{
    struct work *work = work_new(WORK_FILL);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->fill.address = to;
    work->fill.pitch = pitch;
    work->fill.element = element;
    work->fill.value = value;
    work->fill.rows = rows;
    work->fill.width = count * element;
    CUresult result = count > SIZE_MAX / 4 ? CUDA_ERROR_INVALID_VALUE : fill_check(ctx, work);
    if (result != CUDA_SUCCESS || work->fill.width == 0 || rows == 0) {
        work_drop(work);
        return result;
    }
    return finish(ctx, stream, sync, work);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    IN_HEALTHY(fill(ctx, 0, SYNC, to, 0, value, 1, count, 1));
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
    IN_HEALTHY(fill(ctx, 0, SYNC, to, 0, value, 2, count, 1));
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
    IN_HEALTHY(fill(ctx, 0, SYNC, to, 0, value, 4, count, 1));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    IN_HEALTHY(fill(ctx, stream, !SYNC, to, 0, value, 1, count, 1));
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    IN_HEALTHY(fill(ctx, stream, !SYNC, to, 0, value, 2, count, 1));
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    IN_HEALTHY(fill(ctx, stream, !SYNC, to, 0, value, 4, count, 1));
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                         size_t rows)
{
    IN_HEALTHY(fill(ctx, 0, SYNC, to, pitch, value, 1, width, rows));
}

CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                          size_t rows)
{
    IN_HEALTHY(fill(ctx, 0, SYNC, to, pitch, value, 2, width, rows));
}

CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                          size_t rows)
{
    IN_HEALTHY(fill(ctx, 0, SYNC, to, pitch, value, 4, width, rows));
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t rows, CUstream stream)
{
    IN_HEALTHY(fill(ctx, stream, !SYNC, to, pitch, value, 1, width, rows));
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t rows, CUstream stream)
{
    IN_HEALTHY(fill(ctx, stream, !SYNC, to, pitch, value, 2, width, rows));
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                            size_t rows, CUstream stream)
{
    IN_HEALTHY(fill(ctx, stream, !SYNC, to, pitch, value, 4, width, rows));
}
