// The driver API: allocation, copies, fills, host memory, pools, tensor maps.
#include "emu_cuda.h"

static void allocation(void **state)
{
    (void)state;
    CUdeviceptr p, q, base;
    size_t n, total, pitch;
    BAD(cuMemAlloc(&p, 0));
    BAD(cuMemAlloc(NULL, 4));
    IS(ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, (size_t)1 << 45));
    OK(cuMemAlloc(&p, 1000));
    OK(cuMemAlloc(&q, 1000));
    assert_int_equal(p % 512, 0);
    OK(cuMemGetInfo(&n, &total));
    assert_true(n <= total - 2000);
    BAD(cuMemGetInfo(NULL, &total));
    OK(cuMemGetAddressRange(&base, &n, p + 999));
    assert_true(base == p && n == 1000);
    OK(cuMemGetAddressRange(NULL, NULL, p));
    IS(ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &n, p + 1000));
    IS(ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &n, 0x1234));
    BAD(cuMemFree(q + 4));
    BAD(cuMemFree(0x1234));
    OK(cuMemFree(0));
    OK(cuMemFree(q));
    BAD(cuMemFree(q));
    OK(cuMemFree(p));
    OK(cuMemAllocPitch(&p, &pitch, 513, 3, 16));
    assert_int_equal(pitch, 1024);
    OK(cuMemFree(p));
    BAD(cuMemAllocPitch(&p, &pitch, 100, 3, 3));
    BAD(cuMemAllocPitch(&p, &pitch, 0, 3, 4));
    BAD(cuMemAllocPitch(&p, &pitch, 100, 0, 4));
    BAD(cuMemAllocPitch(&p, NULL, 100, 3, 4));
    OK(cuMemAlloc(&p, (size_t)40 << 30));               // room that nobody touches
    OK(cuMemsetD8(p + ((size_t)39 << 30), 7, 16));
    OK(cuMemFree(p));
    CUdeviceptr global;
    const struct cuda *c = *state;
    OK(cuModuleGetGlobal(&global, NULL, c->mod, "counter"));
    BAD(cuMemFree(global));
}

static void copies(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    uint8_t a[256], b[256], zero[256] = {0};
    for (int i = 0; i < 256; i++)
        a[i] = (uint8_t)i;
    OK(cuMemAlloc(&p, 256));
    OK(cuMemAlloc(&q, 256));
    OK(cuMemcpyHtoD(p, a, 256));
    OK(cuMemcpyDtoD(q, p, 256));
    OK(cuMemcpyDtoH(b, q, 256));
    assert_memory_equal(a, b, 256);
    OK(cuMemcpy(p, (CUdeviceptr)(uintptr_t)zero, 256));  // unified: host to device
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)b, p, 256));
    assert_memory_equal(b, zero, 256);
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)b, (CUdeviceptr)(uintptr_t)a, 256));
    assert_memory_equal(a, b, 256);
    OK(cuMemcpyHtoDAsync(p, a, 200, 0));
    OK(cuMemcpyDtoDAsync(q, p, 100, CU_STREAM_PER_THREAD));
    OK(cuMemcpyAsync(q + 100, p, 100, CU_STREAM_LEGACY));
    OK(cuMemcpyDtoHAsync(b, q, 200, 0));
    OK(cuCtxSynchronize());
    assert_memory_equal(a, b, 100);
    assert_memory_equal(a, b + 100, 100);
    OK(cuMemcpyDtoD(p, p + 16, 100));                   // overlapping
    OK(cuMemcpyDtoH(b, p, 84));
    assert_memory_equal(a + 16, b, 84);

    OK(cuMemcpyHtoD(p, a, 0));
    OK(cuMemcpyHtoD(p, NULL, 0));
    BAD(cuMemcpyHtoD(0, a, 4));
    BAD(cuMemcpyHtoD(p, NULL, 4));
    BAD(cuMemcpyHtoD(p, a, 257));
    BAD(cuMemcpyHtoD(p + 255, a, 2));
    BAD(cuMemcpyHtoD(p + 256, a, 1));
    BAD(cuMemcpyHtoD(p - 1, a, 1));
    BAD(cuMemcpyHtoD(p, a, SIZE_MAX));
    BAD(cuMemcpyHtoD(0x12340000, a, 4));
    BAD(cuMemcpyDtoH(b, p + 250, 7));
    BAD(cuMemcpyDtoD(q, p + 250, 7));
    BAD(cuMemcpyDtoD(q + 250, p, 7));
    NO_HANDLE(cuMemcpyHtoDAsync(p, a, 4, WILD(CUstream)));
    OK(cuMemFree(q));
    BAD(cuMemcpyDtoH(b, q, 4));
    BAD(cuMemcpyDtoD(q, p, 4));
}

// Bytes nobody wrote come back as ff, whatever is there.
static void unwritten(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    uint8_t b[64], ff[64];
    memset(ff, 0xff, sizeof ff);
    OK(cuMemAlloc(&p, 64));
    OK(cuMemAlloc(&q, 64));
    OK(cuMemsetD8(p + 8, 3, 8));
    OK(cuMemcpyDtoD(q, p, 64));                         // what is unwritten stays so
    OK(cuMemcpyDtoH(b, q, 64));
    assert_memory_equal(b, ff, 8);
    assert_int_equal(b[8], 3);
    assert_int_equal(b[15], 3);
    assert_memory_equal(b + 16, ff, 48);
}

static void fills(void **state)
{
    (void)state;
    CUdeviceptr p;
    uint8_t b[100], want[100];
    OK(cuMemAlloc(&p, 100));
    OK(cuMemsetD8(p, 0x11, 100));
    OK(cuMemsetD16(p + 2, 0x2233, 3));
    OK(cuMemsetD32(p + 12, 0x44556677, 2));
    OK(cuMemcpyDtoH(b, p, 100));
    memset(want, 0x11, 100);
    memcpy(want + 2, "\x33\x22\x33\x22\x33\x22", 6);
    memcpy(want + 12, "\x77\x66\x55\x44\x77\x66\x55\x44", 8);
    assert_memory_equal(b, want, 100);
    OK(cuMemsetD2D8(p, 10, 5, 4, 10));
    OK(cuMemsetD2D16(p + 4, 10, 0x0707, 1, 10));
    OK(cuMemsetD2D32Async(p, 20, 0x01020304, 1, 5, 0));
    OK(cuMemsetD2D8Async(p, 10, 6, 1, 1, 0));
    OK(cuMemsetD2D16Async(p, 10, 6, 1, 1, 0));
    OK(cuMemsetD2D32(p, 20, 6, 1, 1));
    OK(cuMemsetD8Async(p, 1, 100, 0));
    OK(cuMemsetD16Async(p, 1, 50, 0));
    OK(cuMemsetD32Async(p, 1, 25, 0));
    assert_int_equal(cuda_word(p + 96), 1);
    OK(cuMemsetD32(p, 1, 0));
    BAD(cuMemsetD8(p, 1, 101));
    BAD(cuMemsetD16(p + 1, 1, 4));
    BAD(cuMemsetD32(p + 2, 1, 4));
    BAD(cuMemsetD32(p, 1, SIZE_MAX));
    BAD(cuMemsetD8(0x123400, 1, 4));
    BAD(cuMemsetD2D8(p, 9, 1, 10, 10));                 // rows longer than the pitch
    BAD(cuMemsetD2D8(p, 10, 1, 10, 11));
    BAD(cuMemsetD2D32(p, 10, 1, 2, 2));                 // pitch no multiple of the element
    NO_HANDLE(cuMemsetD8Async(p, 1, 4, WILD(CUstream)));
}

static void rectangles(void **state)
{
    (void)state;
    CUdeviceptr p;
    uint8_t a[6 * 16], b[6 * 16] = {0};
    for (unsigned i = 0; i < sizeof a; i++)
        a[i] = (uint8_t)i;
    OK(cuMemAlloc(&p, 6 * 32));
    OK(cuMemsetD8(p, 0xee, 6 * 32));
    CUDA_MEMCPY2D c = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = a,
        .srcPitch = 16,
        .srcXInBytes = 2,
        .srcY = 1,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = p,
        .dstPitch = 32,
        .dstXInBytes = 4,
        .dstY = 2,
        .WidthInBytes = 8,
        .Height = 3,
    };
    OK(cuMemcpy2D(&c));
    CUDA_MEMCPY2D back = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = p,
        .srcPitch = 32,
        .srcXInBytes = 4,
        .srcY = 2,
        .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = b,
        .dstPitch = 16,
        .WidthInBytes = 8,
        .Height = 3,
    };
    OK(cuMemcpy2DUnaligned(&back));
    for (int y = 0; y < 3; y++)
        assert_memory_equal(b + 16 * y, a + 16 * (y + 1) + 2, 8);
    OK(cuMemcpy2DAsync(&back, 0));
    assert_int_equal(cuda_word(p + 2 * 32 + 12), 0xeeeeeeee);
    BAD(cuMemcpy2D(NULL));
    c.dstPitch = 11;
    BAD(cuMemcpy2D(&c));                                // below x + width
    c.dstPitch = 32;
    c.Height = 5;
    BAD(cuMemcpy2D(&c));                                // past the end
    c.Height = 0;
    OK(cuMemcpy2D(&c));
    c.Height = 1;
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    IS(ERROR_NOT_SUPPORTED, cuMemcpy2D(&c));
    c.srcMemoryType = (CUmemorytype)77;
    BAD(cuMemcpy2D(&c));

    CUDA_MEMCPY3D d = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = a,
        .srcPitch = 4,
        .srcHeight = 4,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = p,
        .dstPitch = 8,
        .dstHeight = 6,
        .dstZ = 1,
        .WidthInBytes = 4,
        .Height = 3,
        .Depth = 3,
    };
    OK(cuMemcpy3D(&d));
    for (unsigned z = 0; z < 3; z++)
        for (unsigned y = 0; y < 3; y++) {
            uint32_t want;
            memcpy(&want, a + (z * 4 + y) * 4, 4);
            assert_int_equal(cuda_word(p + ((z + 1) * 6 + y) * 8), want);
        }
    OK(cuMemcpy3DAsync(&d, 0));
    d.Depth = 4;
    BAD(cuMemcpy3D(&d));
    BAD(cuMemcpy3D(NULL));
}

static void between_contexts(void **state)
{
    const struct cuda *c = *state;
    CUcontext other;
    CUdeviceptr p, q;
    uint32_t v = 77;
    OK(cuMemAlloc(&p, 64));
    OK(cuCtxCreate(&other, NULL, 0, 0));
    OK(cuMemAlloc(&q, 64));
    OK(cuMemcpyHtoD(q, &v, 4));
    OK(cuMemcpyPeer(p, c->ctx, q, other, 4));
    OK(cuMemcpyPeerAsync(p + 4, c->ctx, q, other, 4, 0));
    assert_int_equal(cuda_word(p), 77);
    assert_int_equal(cuda_word(p + 4), 77);
    IS(ERROR_INVALID_CONTEXT, cuMemcpyPeer(p, NULL, q, other, 4));
    BAD(cuMemcpyPeer(p, c->ctx, q, other, 65));
    CUDA_MEMCPY3D_PEER d = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = q,
        .srcContext = other,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = p + 8,
        .dstContext = c->ctx,
        .WidthInBytes = 4,
        .Height = 1,
        .Depth = 1,
    };
    OK(cuMemcpy3DPeer(&d));
    OK(cuMemcpy3DPeerAsync(&d, 0));
    assert_int_equal(cuda_word(p + 8), 77);
    BAD(cuMemcpy3DPeer(NULL));
    OK(cuCtxPopCurrent(NULL));

    // A kernel reaches the other context's memory only with peer access.
    unsigned n = 1, add = 1;
    void *args[] = {&q, &n, &add};
    OK(cuCtxEnablePeerAccess(other, 0));
    IS(ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(other, 0));
    OK(cuLaunchKernel(cuda_function(c, "add1"), 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    OK(cuCtxSynchronize());
    assert_int_equal(cuda_word(q), 78);
    OK(cuCtxDisablePeerAccess(other));
    IS(ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(other));
    IS(ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(WILD(CUcontext), 0));
    IS(ERROR_INVALID_DEVICE, cuCtxEnablePeerAccess(c->ctx, 0));
    BAD(cuCtxEnablePeerAccess(other, 1));
    OK(cuLaunchKernel(cuda_function(c, "add1"), 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    IS(ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    OK(cuCtxDestroy(other));
}

// A kernel adds to 100 words that the host writes and reads where they are.
static void add_in_place(const struct cuda *c, CUdeviceptr p, uint32_t *words)
{
    for (unsigned i = 0; i < 100; i++)
        words[i] = i;
    unsigned n = 100, v = 1000;
    void *args[] = {&p, &n, &v};
    OK(cuLaunchKernel(cuda_function(c, "add1"), 1, 1, 1, 128, 1, 1, 0, 0, args, NULL));
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(words[i], 1000 + i);
}

static void host_memory(void **state)
{
    const struct cuda *c = *state;
    void *h, *r;
    CUdeviceptr p;
    unsigned flags;
    OK(cuMemHostAlloc(&h, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&p, h, 0));
    assert_int_equal(p, (uintptr_t)h);
    BAD(cuMemHostGetDevicePointer(&p, h, 1));
    BAD(cuMemHostGetDevicePointer(NULL, h, 0));
    OK(cuMemHostGetFlags(&flags, h));
    assert_int_equal(flags, CU_MEMHOSTALLOC_DEVICEMAP);
    add_in_place(c, p, h);
    BAD(cuMemHostUnregister(h));
    OK(cuMemFreeHost(h));
    BAD(cuMemFreeHost(h));
    BAD(cuMemFreeHost(&flags));
    OK(cuMemFreeHost(NULL));
    BAD(cuMemHostAlloc(&h, 64, 0x80));
    BAD(cuMemHostAlloc(NULL, 64, 0));
    OK(cuMemHostAlloc(&h, 0, 0));
    OK(cuMemAllocHost(&h, 64));
    OK(cuMemFreeHost(h));

    r = aligned_alloc(4096, 8192);
    OK(cuMemHostRegister(r, 8192, 0));
    IS(ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(r, 8192, 0));
    OK(cuMemHostGetDevicePointer(&p, r, 0));
    OK(cuMemsetD32(p, 9, 4));
    assert_int_equal(((uint32_t *)r)[3], 9);
    BAD(cuMemFreeHost(r));
    OK(cuMemHostUnregister(r));
    IS(ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(r));
    BAD(cuMemHostRegister(NULL, 4, 0));
    BAD(cuMemHostRegister(r, 0, 0));
    BAD(cuMemHostRegister((void *)0x100000, 4096, 0));  // no such memory
    free(r);
}

static void managed_memory(void **state)
{
    const struct cuda *c = *state;
    CUdeviceptr p;
    unsigned managed = 0, type = 0;
    BAD(cuMemAllocManaged(NULL, 64, CU_MEM_ATTACH_GLOBAL));
    BAD(cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL));
    BAD(cuMemAllocManaged(&p, 64, 0));
    OK(cuMemAllocManaged(&p, 400, CU_MEM_ATTACH_GLOBAL));
    uint32_t *words = (uint32_t *)(uintptr_t)p;
    add_in_place(c, p, words);
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    assert_int_equal(managed, 1);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    BAD(cuMemFreeHost(words));
    BAD(cuMemFree(p + 4));
    OK(cuMemFree(p));
    BAD(cuMemFree(p));
}

static void pointer_attributes(void **state)
{
    const struct cuda *c = *state;
    CUdeviceptr p;
    void *h;
    unsigned u;
    CUcontext ctx;
    CUdeviceptr base;
    int dev;
    OK(cuMemAlloc(&p, 1000));
    OK(cuMemAllocHost(&h, 64));
    OK(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, p + 8));
    assert_ptr_equal(ctx, c->ctx);
    OK(cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 999));
    assert_int_equal(u, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)h));
    assert_int_equal(u, CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 8));
    assert_int_equal(base, p);
    OK(cuPointerGetAttribute(&dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    assert_int_equal(dev, 0);
    BAD(cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 1000));
    BAD(cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&u));
    BAD(cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0));
    BAD(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    BAD(cuPointerGetAttribute(&h, CU_POINTER_ATTRIBUTE_HOST_POINTER, p));
    BAD(cuPointerGetAttribute(&u, (CUpointer_attribute)99, p));
    CUpointer_attribute ask[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
    void *answers[] = {&u, &ctx};
    OK(cuPointerGetAttributes(2, ask, answers, p));
    assert_int_equal(u, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttributes(2, ask, answers, (uintptr_t)&u));
    assert_int_equal(u, 0);
    assert_null(ctx);
    BAD(cuPointerGetAttributes(0, ask, answers, p));
    BAD(cuPointerGetAttributes(2, NULL, answers, p));
    int one = 1;
    OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    BAD(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
}

static void pools(void **state)
{
    (void)state;
    CUmemoryPool pool, mine;
    CUdeviceptr p;
    uint64_t v = 1 << 20;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuDeviceGetMemPool(&mine, 0));
    assert_ptr_equal(pool, mine);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
    v = 0;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
    assert_int_equal(v, 1 << 20);
    BAD(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &v));
    BAD(cuMemPoolGetAttribute(WILD(CUmemoryPool), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
    BAD(cuMemPoolDestroy(pool));
    const CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    OK(cuMemPoolCreate(&mine, &props));
    OK(cuDeviceSetMemPool(0, mine));
    OK(cuMemAllocFromPoolAsync(&p, 64, mine, 0));
    OK(cuMemsetD8(p, 1, 64));
    OK(cuMemFreeAsync(p, 0));
    BAD(cuMemFreeAsync(p, 0));
    OK(cuMemPoolTrimTo(mine, 0));
    OK(cuMemPoolDestroy(mine));
    BAD(cuMemPoolDestroy(mine));
    BAD(cuMemAllocFromPoolAsync(&p, 64, mine, 0));
    OK(cuMemAllocAsync(&p, 64, 0));
    OK(cuMemFree(p));
    OK(cuMemAllocAsync(&p, 0, 0));
    OK(cuMemFreeAsync(0, 0));
    NO_HANDLE(cuMemAllocAsync(&p, 64, WILD(CUstream)));
    NO_HANDLE(cuMemFreeAsync(p, WILD(CUstream)));
    BAD(cuMemPoolCreate(&mine, NULL));
}

static void tensor_maps(void **state)
{
    (void)state;
    CUtensorMap map;
    const cuuint64_t dim[2] = {1024, 512}, stride[1] = {2048};
    const cuuint32_t box[2] = {64, 32}, step[2] = {1, 1};
    void *at = (void *)(uintptr_t)0x7f1234567890;
#define ENCODE(type, swizzle)                                         \
    cuTensorMapEncodeTiled(&map, type, 2, at, dim, stride, box, step, \
                           CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,    \
                           CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    OK(ENCODE(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_SWIZZLE_128B));
    assert_memory_equal(&map, "\x90\x78\x56\x34\x12\x7f", 6);
    BAD(ENCODE(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_SWIZZLE_64B));
    assert_non_null(strstr(ptxmmEmulatorReport(), "swizzle span"));
    BAD(ENCODE(CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, CU_TENSOR_MAP_SWIZZLE_128B));
    BAD(cuTensorMapEncodeTiled(NULL, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, at, dim, stride, box, step,
                               0, 0, 0, 0));
    OK(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)0x100000));
    assert_memory_equal(&map, "\0\0\x10\0\0\0\0\0", 8);
    BAD(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)0x100008));
    BAD(cuTensorMapReplaceAddress(NULL, at));
    const int corner[2] = {0, 0};
    IS(ERROR_NOT_SUPPORTED, cuTensorMapEncodeIm2col(&map, 0, 4, at, dim, stride, corner, corner, 1,
                                                    1, step, 0, 0, 0, 0));
    assert_non_null(strstr(ptxmmEmulatorReport(), "cuTensorMapEncodeIm2col"));
    IS(ERROR_NOT_SUPPORTED,
       cuTensorMapEncodeIm2colWide(&map, 0, 4, at, dim, stride, 0, 0, 1, 1, step, 0, 0, 0, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(allocation),  CUDA_TEST(copies),
        CUDA_TEST(unwritten),   CUDA_TEST(fills),
        CUDA_TEST(rectangles),  CUDA_TEST(between_contexts),
        CUDA_TEST(host_memory), CUDA_TEST(pointer_attributes),
        CUDA_TEST(managed_memory),
        CUDA_TEST(pools),       CUDA_TEST(tensor_maps),
    };
    return cmocka_run_group_tests_name("emu/driver_memory", tests, NULL, NULL);
}
