// Launches, attributes of kernels, occupancy.
#include "runtime.h"

#include <string.h>

// The launch's configuration between `<<<...>>>` and the kernel's host function, which may nest in
// its arguments.
enum { NESTED = 16 };

struct configuration {
    dim3 grid, block;
    size_t smem;
    cudaStream_t stream;
};

static _Thread_local struct configuration configurations[NESTED];
static _Thread_local unsigned depth;

#pragma GCC visibility push(default)
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t smem,
                                     struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *smem, void *stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t smem,
                               cudaStream_t stream);
#pragma GCC visibility pop

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t smem, struct CUstream_st *stream)
{
    if (depth == NESTED)
        return 1;
    configurations[depth++] = (struct configuration){grid, block, smem, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *smem, void *stream)
{
    if (depth == 0)
        return runtime_note(cudaErrorMissingConfiguration);
    const struct configuration *c = &configurations[--depth];
    *grid = c->grid;
    *block = c->block;
    *smem = c->smem;
    memcpy(stream, &c->stream, sizeof c->stream);
    return cudaSuccess;
}

static CUlaunchConfig config_of(dim3 grid, dim3 block, size_t smem, cudaStream_t stream)
{
    return (CUlaunchConfig){.gridDimX = grid.x,
                            .gridDimY = grid.y,
                            .gridDimZ = grid.z,
                            .blockDimX = block.x,
                            .blockDimY = block.y,
                            .blockDimZ = block.z,
                            .sharedMemBytes = smem > UINT32_MAX ? UINT32_MAX : (unsigned)smem,
                            .hStream = stream};
}

// The runtime's words for a launch that cannot be.
static int launch_code(int result)
{
    return result == CUDA_ERROR_INVALID_VALUE ? (int)cudaErrorInvalidConfiguration : result;
}

static int launch(const void *host, const CUlaunchConfig *config, void **args)
{
    CUfunction function;
    const int result = runtime_function(host, &function);
    return result == CUDA_SUCCESS ? launch_code(cuLaunchKernelEx(config, function, args, NULL))
                                  : result;
}

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t smem,
                             cudaStream_t stream)
{
    const CUlaunchConfig config = config_of(grid, block, smem, stream);
    return runtime_note(launch(func, &config, args));
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t smem,
                               cudaStream_t stream)
{
    return cudaLaunchKernel((const void *)kernel, grid, block, args, smem, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args,
                                        size_t smem, cudaStream_t stream)
{
    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig config = config_of(grid, block, smem, stream);
    config.attrs = &cooperative;
    config.numAttrs = 1;
    return runtime_note(launch(func, &config, args));
}

// Attributes are numbered and laid out alike in both APIs.
_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "launch attributes");
_Static_assert((int)cudaLaunchAttributeClusterDimension ==
                   (int)CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
               "launch attributes");

static CUlaunchConfig config_from(const cudaLaunchConfig_t *c)
{
    CUlaunchConfig config = config_of(c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream);
    config.attrs = (CUlaunchAttribute *)c->attrs;
    config.numAttrs = c->numAttrs;
    return config;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    if (!config)
        return runtime_note(cudaErrorInvalidValue);
    const CUlaunchConfig c = config_from(config);
    return runtime_note(launch(func, &c, args));
}

PASS(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void *data),
     cuLaunchHostFunc(stream, fn, data))

// ---- attributes ---------------------------------------------------------------------------------

static int set_attribute(CUkernel kernel, int attribute, int value)
{
    CUdevice dev;
    const CUresult result = cuCtxGetDevice(&dev);
    return result == CUDA_SUCCESS
               ? cuKernelSetAttribute((CUfunction_attribute)attribute, value, kernel, dev)
               : result;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attribute, int value)
{
    CUkernel kernel;
    int result = runtime_kernel(func, &kernel);
    if (result == CUDA_SUCCESS)
        result = set_attribute(kernel, (int)attribute, value);
    return runtime_note(result);
}

PASS(cudaKernelSetAttributeForDevice,
     (cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value, int dev),
     cuKernelSetAttribute((CUfunction_attribute)attribute, value, (CUkernel)kernel, dev))

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
    CUfunction function;
    int result = runtime_function(func, &function);
    if (result == CUDA_SUCCESS)
        result = cuFuncSetCacheConfig(function, (CUfunc_cache)config);
    return runtime_note(result);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *func)
{
    CUfunction function;
    int shared = 0, constant = 0, local = 0;
    int result = runtime_function(func, &function);
    if (!attributes)
        return runtime_note(cudaErrorInvalidValue);
    memset(attributes, 0, sizeof *attributes);
    const struct {
        CUfunction_attribute number;
        int *to;
    } rows[] = {
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &shared},
        {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &constant},
        {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &local},
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &attributes->maxThreadsPerBlock},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &attributes->numRegs},
        {CU_FUNC_ATTRIBUTE_PTX_VERSION, &attributes->ptxVersion},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &attributes->binaryVersion},
        {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &attributes->cacheModeCA},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &attributes->maxDynamicSharedSizeBytes},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &attributes->preferredShmemCarveout},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &attributes->clusterDimMustBeSet},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &attributes->requiredClusterWidth},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, &attributes->requiredClusterHeight},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, &attributes->requiredClusterDepth},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
         &attributes->clusterSchedulingPolicyPreference},
        {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
         &attributes->nonPortableClusterSizeAllowed},
    };
    for (size_t i = 0; result == CUDA_SUCCESS && i < sizeof rows / sizeof *rows; i++)
        result = cuFuncGetAttribute(rows[i].to, rows[i].number, function);
    attributes->sharedSizeBytes = (size_t)shared;
    attributes->constSizeBytes = (size_t)constant;
    attributes->localSizeBytes = (size_t)local;
    return runtime_note(result);
}

cudaError_t cudaFuncGetName(const char **name, const void *func)
{
    CUkernel kernel;
    int result = runtime_kernel(func, &kernel);
    if (result == CUDA_SUCCESS)
        result = cuKernelGetName(name, kernel);
    return runtime_note(result);
}

cudaError_t cudaFuncGetParamInfo(const void *func, size_t index, size_t *offset, size_t *bytes)
{
    CUkernel kernel;
    int result = runtime_kernel(func, &kernel);
    if (result == CUDA_SUCCESS)
        result = cuKernelGetParamInfo(kernel, index, offset, bytes);
    return runtime_note(result);
}

// ---- occupancy ----------------------------------------------------------------------------------

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *func,
                                                                   int threads, size_t smem,
                                                                   unsigned int flags)
{
    CUfunction function;
    int result = runtime_function(func, &function);
    if (result == CUDA_SUCCESS)
        result = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                      smem, flags);
    return runtime_note(result);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func,
                                                          int threads, size_t smem)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, func, threads, smem, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *smem, const void *func, int blocks,
                                                      int threads)
{
    CUfunction function;
    int result = runtime_function(func, &function);
    if (result == CUDA_SUCCESS)
        result = cuOccupancyAvailableDynamicSMemPerBlock(smem, function, blocks, threads);
    return runtime_note(result);
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *func,
                                                 const cudaLaunchConfig_t *config)
{
    CUfunction function;
    int result = config ? runtime_function(func, &function) : (int)cudaErrorInvalidValue;
    if (result == CUDA_SUCCESS) {
        const CUlaunchConfig c = config_from(config);
        result = cuOccupancyMaxPotentialClusterSize(size, function, &c);
    }
    return runtime_note(result);
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *func,
                                           const cudaLaunchConfig_t *config)
{
    CUfunction function;
    int result = config ? runtime_function(func, &function) : (int)cudaErrorInvalidValue;
    if (result == CUDA_SUCCESS) {
        const CUlaunchConfig c = config_from(config);
        result = cuOccupancyMaxActiveClusters(clusters, function, &c);
    }
    return runtime_note(result);
}
