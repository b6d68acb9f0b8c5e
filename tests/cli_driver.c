/* cli_driver.c -- a CUDA driver that multiplies on the CPU, for tests of the command: it knows the
 * argument block and nothing of kernels. CLI_DRIVER_FAULT in the environment plants one error of
 * the kinds that a kernel may have:
 *
 *   element   one element of D is off by 3 %             swap    two rows of D are exchanged
 *   nan       one element is NaN                         skip    one element is not written
 *   before, behind, padding   one byte outside D is written        flaky   every launch after the
 * first differs in one bit launch    the launch fails                           wait    waiting for
 * the kernel fails memory    device memory is exhausted                 nodevice   there is no
 * device
 *
 * Built as a shared library of its own. Device memory is host memory, so a sanitizer sees through
 * it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "ptxmm.h"

#define EXPORT __attribute__((visibility("default")))

/* What the 128 opaque bytes of a tensor map hold here. */
struct map {
    uint64_t address, dims[3], strides[2];
};

struct kernel {
    int half_a, half_b, half_out, wide_out; /* f16 rather than bf16; f32 */
};

static int device_arch = 90;
static CUcontext current;
static int launches;
static int sticky; /* a fault that the next wait reports */

static int planted(const char *fault)
{
    const char *text = getenv("CLI_DRIVER_FAULT");
    return text && !strcmp(text, fault);
}

/* ---- elements: exponent and fraction handled by the C library, so that this shares no code with
 * what it tests ---- */

static float load(const unsigned char *at, int half)
{
    uint16_t bits;
    memcpy(&bits, at, 2);
    if (!half) {
        const uint32_t wide = (uint32_t)bits << 16;
        float x;
        memcpy(&x, &wide, 4);
        return x;
    }
    const int e = bits >> 10 & 31, f = bits & 1023;
    const float magnitude = e == 31 ? (f ? NAN : INFINITY)
                            : e     ? ldexpf((float)(1024 + f), e - 25)
                                    : ldexpf((float)f, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static uint16_t round_to(float x, int half)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const int digits = half ? 11 : 8, least = half ? -14 : -126;
    const double largest = half ? 65520 : 0x1.ffp127; /* from here on: infinity */
    if (isnan(x))
        return 0x7fff;
    if (fabs((double)x) >= largest)
        return (uint16_t)(sign | (half ? 0x7c00 : 0x7f80));
    int e;
    frexp(fabs((double)x), &e);
    e = x == 0 || e - 1 < least ? least : e - 1;
    /* Below 2^digits, or just that. */
    const double units = nearbyint(ldexp(fabs((double)x), digits - 1 - e));
    return (uint16_t)(sign + ((unsigned)(e - least) << (digits - 1)) + (unsigned)units);
}

static void store(unsigned char *at, float x, const struct kernel *k)
{
    if (k->wide_out) {
        memcpy(at, &x, 4);
    } else {
        const uint16_t bits = round_to(x, k->half_out);
        memcpy(at, &bits, 2);
    }
}

static float load_c(const unsigned char *at, const struct kernel *k)
{
    float x;
    if (!k->wide_out)
        return load(at, k->half_out);
    memcpy(&x, at, 4);
    return x;
}

/* ---- the product ---- */

static float *widen(const struct map *map, uint64_t z, uint64_t rows, uint64_t depth, int half)
{
    float *wide = malloc((rows * depth + 1) * sizeof *wide);
    for (uint64_t row = 0; wide && row < rows; row++)
        for (uint64_t i = 0; i < depth; i++)
            wide[row * depth + i] = load((const unsigned char *)(uintptr_t)map->address +
                                             z * map->strides[1] + row * map->strides[0] + 2 * i,
                                         half);
    return wide;
}

/* Product z of the batch. */
static void multiply_one(const struct kernel *loaded, const struct ptxmm_gemm_args *args, uint64_t z)
{
    /* Where one kernel serves both 16-bit types, the argument block says which. */
    struct kernel types = *loaded, *k = &types;
    if (args->idesc) {
        k->half_a = !(args->idesc & 1 << 7);
        k->half_b = !(args->idesc & 1 << 10);
        k->half_out = (args->flags & PTXMM_FLAG_F16_OUT) != 0;
    }
    struct map a, b;
    memcpy(&a, &args->map_a, sizeof a);
    memcpy(&b, &args->map_b, sizeof b);
    const size_t size = k->wide_out ? 4 : 2;
    unsigned char *d = (unsigned char *)(uintptr_t)args->d + z * args->batch_stride_d * size;
    const unsigned char *c =
        (const unsigned char *)(uintptr_t)args->c + z * args->batch_stride_c * size;
    const uint64_t depth = args->k_slices && args->alpha != 0 ? a.dims[0] : 0;
    float *wide_a = widen(&a, z, args->m, depth, k->half_a),
          *wide_b = widen(&b, z, args->n, depth, k->half_b);
    for (uint64_t row = 0; row < args->m; row++)
        for (uint64_t col = 0; col < args->n; col++) {
            double sum = 0;
            for (uint64_t i = 0; i < depth; i++)
                sum += (double)wide_a[row * depth + i] * (double)wide_b[col * depth + i];
            float x = args->alpha * (float)sum;
            if (args->beta != 0)
                x += args->beta * load_c(c + (row * args->ldc + col) * size, k);
            const uint64_t middle_row = args->m / 2, middle_col = args->n / 2;
            if (row == middle_row && col == middle_col) {
                if (planted("element"))
                    x = x * 1.03F + 0.5F;
                if (planted("nan"))
                    x = NAN;
                if (planted("skip"))
                    continue;
            }
            store(d + (row * args->ldd + col) * size, x, k);
        }
    free(wide_a);
    free(wide_b);
    const size_t pitch = (size_t)args->ldd * size, width = args->n * size;
    if (planted("swap") && args->m > 1)
        for (size_t i = 0; i < width; i++) {
            const unsigned char keep = d[i];
            d[i] = d[pitch + i];
            d[pitch + i] = keep;
        }
    if (planted("before") && launches == 0)
        d[-3] ^= 1;
    if (planted("behind") && launches == 0)
        d[args->m * pitch + 8] ^= 1;
    if (planted("padding") && launches == 0)
        d[(args->m / 2) * pitch + width] ^= 1;
    if (planted("flaky") && launches > 0)
        d[0] ^= 1;
}

static void multiply(const struct kernel *loaded, const struct ptxmm_gemm_args *args)
{
    for (uint64_t z = 0; z < args->batch; z++)
        multiply_one(loaded, args, z);
    launches++;
}

/* ---- the driver ---- */

EXPORT CUresult cuInit(unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult result, const char **name)
{
    *name = result == CUDA_ERROR_LAUNCH_FAILED   ? "CUDA_ERROR_LAUNCH_FAILED"
            : result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                                 : "CUDA_ERROR_OF_THE_TEST";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult result, const char **text)
{
    (void)result;
    *text = "planted by the test";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    *count = planted("nodevice") ? 0 : 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)size, "test device");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device)
{
    const char *arch = getenv("CLI_DRIVER_ARCH");
    (void)device;
    device_arch = arch ? atoi(arch) : 90;
    switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = device_arch / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = device_arch % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 232448; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1980000; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 60 << 20; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 3125000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 6144; break;
    default: *value = 1;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)1 << 30;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)&current;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void)
{
    return sticky ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo(size_t *available, size_t *total)
{
    *available = 1 << 20;
    *total = (size_t)1 << 30;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    void *memory = planted("memory") ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
    *address = (CUdeviceptr)(uintptr_t)memory;
    return memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFree(CUdeviceptr address)
{
    free((void *)(uintptr_t)address);
    return CUDA_SUCCESS;
}

static CUresult copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy((void *)(uintptr_t)to, from, bytes);
}

EXPORT CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    return copy(to, (const void *)(uintptr_t)from, bytes);
}

EXPORT CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    (void)stream;
    return copy((void *)(uintptr_t)to, from, bytes);
}

EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    return copy(to, (const void *)(uintptr_t)from, bytes);
}

EXPORT CUresult cuMemsetD8(CUdeviceptr at, unsigned char value, size_t count)
{
    memset((void *)(uintptr_t)at, value, count);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemsetD32(CUdeviceptr at, unsigned value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy((char *)(uintptr_t)at + 4 * i, &value, 4);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute which, CUdeviceptr address)
{
    (void)address;
    if (which != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        return CUDA_ERROR_INVALID_VALUE;
    memset(data, 0, sizeof(int));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    *stream = (CUstream)&launches;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    return cuCtxSynchronize();
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)&sticky;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    return cuCtxSynchronize();
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end)
{
    (void)begin, (void)end;
    *ms = 0.5F;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options,
                                  void **jit_values, unsigned jit_count, CUlibraryOption *options,
                                  void **values, unsigned count)
{
    (void)code, (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values,
        (void)count;
    *library = calloc(1, sizeof(struct kernel));
    return *library ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
    free(library);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    struct kernel *k = (struct kernel *)library;
    k->half_a = k->half_b = k->half_out = strstr(name, "_f16_") != NULL;
    k->wide_out = strstr(name, "_f32_") != NULL;
    *kernel = (CUkernel)library;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel kernel,
                                     CUdevice device)
{
    (void)which, (void)value, (void)kernel, (void)device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncLoad(CUfunction function)
{
    (void)function;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                       void *address, const cuuint64_t *dims,
                                       const cuuint64_t *strides, const cuuint32_t *box,
                                       const cuuint32_t *element_strides,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion promotion,
                                       CUtensorMapFloatOOBfill fill)
{
    (void)type, (void)box, (void)element_strides, (void)interleave, (void)swizzle, (void)promotion,
        (void)fill;
    if (rank != 3)
        return CUDA_ERROR_INVALID_VALUE;
    const struct map m = { (uint64_t)(uintptr_t)address,
                           { dims[0], dims[1], dims[2] },
                           { strides[0], strides[1] } };
    memset(map, 0, sizeof *map);
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    const uint64_t value = (uint64_t)(uintptr_t)address;
    memcpy(map, &value, sizeof value);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                 void **parameters, void **extra)
{
    (void)config, (void)extra;
    struct ptxmm_gemm_args args;
    memcpy(&args, parameters[0], sizeof args);
    if (planted("launch"))
        return CUDA_ERROR_LAUNCH_FAILED;
    sticky = planted("wait");
    if (!sticky)
        multiply((const struct kernel *)function, &args);
    return CUDA_SUCCESS;
}
