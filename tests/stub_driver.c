/* stub_driver.c -- see stub_driver.h. Built as a shared library; exports the entry points that the
 * loader calls. */
#define _GNU_SOURCE
#include "stub_driver.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Handles are addresses of these, so that a wrong one shows. */
struct stub_library {
    int magic;
    atomic_int loaded;
    char name[64]; /* of the one kernel that a test image has */
};
struct stub_ctx {
    int device;
};

enum { LIBRARY_MAGIC = 0x4c494252, CONTEXTS = 4 };

static struct stub_state state;
static struct stub_ctx contexts[STUB_DEVICES][CONTEXTS];
static _Thread_local CUcontext current;

EXPORT struct stub_state *stub_state(void)
{
    return &state;
}

EXPORT void stub_reset(void)
{
    memset(&state, 0, sizeof state);
    state.driver_version = 13000;
    state.device_count = 1;
    for (int i = 0; i < STUB_DEVICES; i++) {
        // An H200 as its driver describes it: 2619 MHz HBM at 6144 bits would be less than the data
        // sheet, so 3125.
        state.devices[i] = (struct stub_device){
            .major = 9,
            .minor = 0,
            .sms = 132,
            .shared_bytes = 232448,
            .clock_khz = 1980000,
            .l2_bytes = 60 << 20,
            .memory_khz = 3125000,
            .bus_bits = 6144,
            .memory_from = (uint64_t)(i + 1) << 40,
            .memory_to = ((uint64_t)(i + 1) << 40) + (UINT64_C(1) << 39),
        };
        for (int j = 0; j < CONTEXTS; j++)
            contexts[i][j].device = i;
    }
    current = NULL;
}

__attribute__((constructor)) static void start(void)
{
    stub_reset();
}

EXPORT CUcontext stub_context(int device, int number)
{
    return (CUcontext)&contexts[device][number];
}

/* Does this call fail now? The first thing every entry point asks. */
static CUresult fails(const char *call)
{
    if (!state.fail_call || strcmp(state.fail_call, call))
        return CUDA_SUCCESS;
    return atomic_fetch_add(&state.fail_calls, 1) < state.fail_after ? CUDA_SUCCESS
                                                                     : state.fail_result;
}

#define MAY_FAIL                            \
    do {                                    \
        CUresult result_ = fails(__func__); \
        if (result_ != CUDA_SUCCESS)        \
            return result_;                 \
    } while (0)

#define NEEDS(condition, otherwise) \
    do {                            \
        if (!(condition))           \
            return otherwise;       \
    } while (0)

EXPORT CUresult cuDriverGetVersion(int *version)
{
    MAY_FAIL;
    *version = state.driver_version;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuInit(unsigned flags)
{
    MAY_FAIL;
    NEEDS(flags == 0, CUDA_ERROR_INVALID_VALUE);
    atomic_fetch_add(&state.init_calls, 1);
    return CUDA_SUCCESS;
}

/* The results that tests make calls fail with. */
static const struct {
    CUresult result;
    const char *name;
} results[] = {
#define RESULT(name) { name, #name },
    RESULT(CUDA_SUCCESS) RESULT(CUDA_ERROR_INVALID_VALUE) RESULT(CUDA_ERROR_OUT_OF_MEMORY)
        RESULT(CUDA_ERROR_NOT_INITIALIZED) RESULT(CUDA_ERROR_NO_DEVICE)
            RESULT(CUDA_ERROR_INVALID_IMAGE) RESULT(CUDA_ERROR_NO_BINARY_FOR_GPU)
                RESULT(CUDA_ERROR_NOT_FOUND) RESULT(CUDA_ERROR_ILLEGAL_ADDRESS)
                    RESULT(CUDA_ERROR_MISALIGNED_ADDRESS) RESULT(CUDA_ERROR_LAUNCH_FAILED)
                        RESULT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) RESULT(CUDA_ERROR_UNKNOWN)
#undef RESULT
};

EXPORT CUresult cuGetErrorName(CUresult result, const char **name)
{
    MAY_FAIL;
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (results[i].result == result) {
            *name = results[i].name;
            return CUDA_SUCCESS;
        }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult result, const char **text)
{
    MAY_FAIL;
    (void)result;
    *text = "the stub was told to fail";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    MAY_FAIL;
    *count = state.device_count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    MAY_FAIL;
    NEEDS(ordinal >= 0 && ordinal < state.device_count, CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    MAY_FAIL;
    NEEDS(device >= 0 && device < state.device_count && size > 8, CUDA_ERROR_INVALID_VALUE);
    strcpy(name, "stub 0");
    name[5] = (char)('0' + device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    MAY_FAIL;
    NEEDS(device >= 0 && device < state.device_count, CUDA_ERROR_INVALID_DEVICE);
    const struct stub_device *d = &state.devices[device];
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = d->major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = d->minor; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = d->sms; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = d->shared_bytes; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = d->clock_khz; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = d->l2_bytes; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = d->memory_khz; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = d->bus_bits; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    MAY_FAIL;
    *context = current;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    MAY_FAIL;
    NEEDS(current, CUDA_ERROR_INVALID_CONTEXT);
    *device = ((struct stub_ctx *)current)->device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevResource(CUcontext context, CUdevResource *resource,
                                    CUdevResourceType type)
{
    MAY_FAIL;
    NEEDS(context && type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_VALUE);
    int sms = state.devices[((struct stub_ctx *)context)->device].sms;
    memset(resource, 0, sizeof *resource);
    resource->type = type;
    resource->sm.smCount = state.context_sms ? state.context_sms : (unsigned)sms;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    MAY_FAIL;
    *available = *total = 0;
    return state.context_fault;
}

EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                      CUdeviceptr address)
{
    MAY_FAIL;
    for (int i = 0; i < state.device_count; i++) {
        if (address < state.devices[i].memory_from || address >= state.devices[i].memory_to)
            continue;
        switch ((int)attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)data = CU_MEMORYTYPE_DEVICE; break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = 0; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = i; break;
        default: return CUDA_ERROR_INVALID_VALUE;
        }
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* A cubin is an ELF file, text has a .version line; anything else is no image. */
EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
                                  void **values, unsigned count, CUlibraryOption *library_options,
                                  void **library_values, unsigned library_count)
{
    MAY_FAIL;
    (void)library_options, (void)library_values, (void)library_count;
    int is_elf = !memcmp(code, "\177ELF", 4);
    if (is_elf && state.refuses_cubins)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!is_elf && !strstr(code, ".version")) {
        for (unsigned i = 0; i < count; i++)
            if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
                strcpy(values[i], "stub.ptx:1: neither ELF nor PTX\n");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (state.load_delay_us)
        usleep((unsigned)state.load_delay_us);
    struct stub_library *loaded = calloc(1, sizeof *loaded);
    NEEDS(loaded, CUDA_ERROR_OUT_OF_MEMORY);
    loaded->magic = LIBRARY_MAGIC;
    *library = (CUlibrary)loaded;
    atomic_fetch_add(&state.loads, 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
    struct stub_library *loaded = (struct stub_library *)library;
    NEEDS(loaded && loaded->magic == LIBRARY_MAGIC, CUDA_ERROR_INVALID_HANDLE);
    atomic_fetch_add(&state.unloads, 1);
    free(loaded); // also when it is to fail: what is tested is what the caller says then
    MAY_FAIL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    MAY_FAIL;
    struct stub_library *loaded = (struct stub_library *)library;
    NEEDS(loaded && loaded->magic == LIBRARY_MAGIC && strlen(name) < sizeof loaded->name,
          CUDA_ERROR_INVALID_HANDLE);
    strcpy(loaded->name, name);
    *kernel = (CUkernel)loaded;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                     CUdevice device)
{
    MAY_FAIL;
    NEEDS(attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
              ((struct stub_library *)kernel)->magic == LIBRARY_MAGIC,
          CUDA_ERROR_INVALID_VALUE);
    NEEDS(value <= state.devices[device].shared_bytes, CUDA_ERROR_INVALID_VALUE);
    int at = atomic_fetch_add(&state.attributes_set, 1) %
             (int)(sizeof state.attribute / sizeof state.attribute[0]);
    state.attribute[at].kernel = kernel;
    state.attribute[at].device = device;
    state.attribute[at].value = value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    MAY_FAIL;
    NEEDS(current, CUDA_ERROR_INVALID_CONTEXT);
    NEEDS(((struct stub_library *)kernel)->magic == LIBRARY_MAGIC, CUDA_ERROR_INVALID_HANDLE);
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncLoad(CUfunction function)
{
    MAY_FAIL;
    struct stub_library *loaded = (struct stub_library *)function;
    NEEDS(loaded && loaded->magic == LIBRARY_MAGIC, CUDA_ERROR_INVALID_HANDLE);
    loaded->loaded = 1;
    atomic_fetch_add(&state.function_loads, 1);
    return CUDA_SUCCESS;
}

EXPORT const char *stub_function_name(CUfunction function)
{
    return ((struct stub_library *)function)->name;
}

EXPORT CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function,
                                             const CUlaunchConfig *config)
{
    MAY_FAIL;
    struct stub_library *loaded = (struct stub_library *)function;
    NEEDS(current, CUDA_ERROR_INVALID_CONTEXT);
    NEEDS(loaded && loaded->magic == LIBRARY_MAGIC, CUDA_ERROR_INVALID_HANDLE);
    NEEDS(config->numAttrs == 1 &&
              config->attrs[0].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
              config->attrs[0].value.clusterDim.x >= 1 &&
              config->gridDimX % config->attrs[0].value.clusterDim.x == 0 &&
              config->blockDimX >= 1 && config->sharedMemBytes > 0,
          CUDA_ERROR_INVALID_VALUE);
    int sms = state.devices[((struct stub_ctx *)current)->device].sms;
    int fit = sms / (int)config->attrs[0].value.clusterDim.x;
    *count = state.clusters < 0 ? 0 : state.clusters ? state.clusters : fit;
    return CUDA_SUCCESS;
}

static unsigned element_bytes(CUtensorMapDataType type)
{
    switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32: return 4;
    default: return 0;
    }
}

/* Refuses what the driver refuses. */
EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                       void *address, const cuuint64_t *dims,
                                       const cuuint64_t *strides, const cuuint32_t *box,
                                       const cuuint32_t *element_strides,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    MAY_FAIL;
    unsigned bytes = element_bytes(type);
    NEEDS(map && (uintptr_t)map % 64 == 0 && rank == 3 && bytes, CUDA_ERROR_INVALID_VALUE);
    NEEDS((uintptr_t)address % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 2; i++)
        NEEDS(strides[i] % 16 == 0 && strides[i] < UINT64_C(1) << 40, CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 3; i++) {
        NEEDS(dims[i] >= 1 && dims[i] <= UINT64_C(1) << 32, CUDA_ERROR_INVALID_VALUE);
        NEEDS(box[i] >= 1 && box[i] <= 256 && element_strides[i] >= 1 && element_strides[i] <= 8,
              CUDA_ERROR_INVALID_VALUE);
    }
    NEEDS(box[0] * bytes % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    NEEDS(swizzle != CU_TENSOR_MAP_SWIZZLE_128B || box[0] * bytes <= 128, CUDA_ERROR_INVALID_VALUE);
    struct stub_map noted = {
        .address = (uintptr_t)address,
        .dims = { dims[0], dims[1], dims[2] },
        .strides = { strides[0], strides[1] },
        .box = { box[0], box[1], box[2] },
        .element_strides = { element_strides[0], element_strides[1], element_strides[2] },
        .type = (uint8_t)type,
        .rank = (uint8_t)rank,
        .interleave = (uint8_t)interleave,
        .swizzle = (uint8_t)swizzle,
        .l2 = (uint8_t)l2,
        .fill = (uint8_t)fill,
    };
    _Static_assert(sizeof noted == sizeof *map, "a note fills a map");
    memcpy(map, &noted, sizeof *map);
    atomic_fetch_add(&state.encodes, 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    MAY_FAIL;
    NEEDS((uintptr_t)map % 64 == 0 && (uintptr_t)address % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    uint64_t value = (uintptr_t)address;
    memcpy((char *)map + offsetof(struct stub_map, address), &value, sizeof value);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                 void **parameters, void **extra)
{
    MAY_FAIL;
    struct stub_library *loaded = (struct stub_library *)function;
    NEEDS(current, CUDA_ERROR_INVALID_CONTEXT);
    NEEDS(loaded && loaded->magic == LIBRARY_MAGIC && loaded->loaded, CUDA_ERROR_INVALID_HANDLE);
    NEEDS(!extra && config->gridDimX >= 1 && config->blockDimX <= 1024, CUDA_ERROR_INVALID_VALUE);
    int at = atomic_fetch_add(&state.launches, 1);
    if (at >= STUB_LAUNCHES)
        return CUDA_SUCCESS;
    struct stub_launch *launch = &state.launch[at];
    *launch = (struct stub_launch){
        .function = function,
        .context = current,
        .stream = config->hStream,
        .grid = { config->gridDimX, config->gridDimY, config->gridDimZ },
        .block = { config->blockDimX, config->blockDimY, config->blockDimZ },
        .shared = config->sharedMemBytes,
    };
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            launch->cluster = config->attrs[i].value.clusterDim.x;
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            launch->programmatic = config->attrs[i].value.programmaticStreamSerializationAllowed;
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            launch->cooperative = config->attrs[i].value.cooperative;
    }
    memcpy(launch->arguments, parameters[0], STUB_BLOCK_BYTES);
    return CUDA_SUCCESS;
}
