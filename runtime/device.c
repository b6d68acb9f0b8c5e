// Devices, their primary contexts, versions, limits, the driver's entry points.
#include "runtime.h"

#include <pthread.h>
#include <string.h>

enum { DEVICES = 64 };

// Primary contexts are the process's.
static struct {
    pthread_mutex_t lock;
    int initialized;
    CUcontext primary[DEVICES];
} devices = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int chosen; // the device of a thread that has no context yet

static CUresult initialize(void)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&devices.lock);
    if (!devices.initialized) {
        result = cuInit(0);
        devices.initialized = result == CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&devices.lock);
    return result;
}

static CUresult choose(int dev)
{
    if (dev < 0 || dev >= DEVICES)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&devices.lock);
    CUresult result = CUDA_SUCCESS;
    if (!devices.primary[dev])
        result = cuDevicePrimaryCtxRetain(&devices.primary[dev], dev);
    if (result == CUDA_SUCCESS)
        result = cuCtxSetCurrent(devices.primary[dev]);
    pthread_mutex_unlock(&devices.lock);
    if (result == CUDA_SUCCESS)
        chosen = dev;
    return result;
}

CUresult runtime_enter(void)
{
    CUcontext current = NULL;
    CUresult result = initialize();
    if (result == CUDA_SUCCESS)
        result = cuCtxGetCurrent(&current);
    return result == CUDA_SUCCESS && !current ? choose(chosen) : result;
}

// For calls that need no context.
#define INITIALIZED(expression)                                                      \
    do {                                                                             \
        const CUresult begun = initialize();                                         \
        return runtime_note(begun != CUDA_SUCCESS ? (int)begun : (int)(expression)); \
    } while (0)

cudaError_t cudaGetDeviceCount(int *count)
{
    INITIALIZED(cuDeviceGetCount(count));
}

cudaError_t cudaSetDevice(int dev)
{
    INITIALIZED(choose(dev));
}

cudaError_t cudaInitDevice(int dev, unsigned int device_flags, unsigned int flags)
{
    (void)device_flags;
    INITIALIZED(flags & ~1u ? CUDA_ERROR_INVALID_VALUE : choose(dev));
}

static int current_device(int *dev)
{
    CUcontext current = NULL;
    if (!dev)
        return CUDA_ERROR_INVALID_VALUE;
    if (cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
        return cuCtxGetDevice(dev);
    *dev = chosen;
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDevice(int *dev)
{
    INITIALIZED(current_device(dev));
}

cudaError_t cudaSetValidDevices(int *list, int count)
{
    (void)list;
    INITIALIZED(count < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

cudaError_t cudaChooseDevice(int *dev, const struct cudaDeviceProp *properties)
{
    INITIALIZED(!dev || !properties ? CUDA_ERROR_INVALID_VALUE : (*dev = 0, CUDA_SUCCESS));
}

static CUresult set_flags(unsigned flags)
{
    CUcontext current = NULL;
    if (cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
        return cuCtxSetFlags(flags);
    return cuDevicePrimaryCtxSetFlags(chosen, flags);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    INITIALIZED(set_flags(flags));
}

PASS(cudaGetDeviceFlags, (unsigned int *flags), cuCtxGetFlags(flags))

static CUresult reset(void)
{
    int dev;
    CUresult result = (CUresult)current_device(&dev);
    if (result != CUDA_SUCCESS || dev < 0 || dev >= DEVICES)
        return result;
    pthread_mutex_lock(&devices.lock);
    result = cuDevicePrimaryCtxReset(dev);
    devices.primary[dev] = NULL;
    cuCtxSetCurrent(NULL);
    pthread_mutex_unlock(&devices.lock);
    return result;
}

cudaError_t cudaDeviceReset(void)
{
    INITIALIZED(reset());
}

PASS(cudaDeviceSynchronize, (void), cuCtxSynchronize())

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int dev)
{
    INITIALIZED(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, dev));
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int dev)
{
    INITIALIZED(cuDeviceGetPCIBusId(id, length, dev));
}

cudaError_t cudaDeviceGetByPCIBusId(int *dev, const char *id)
{
    INITIALIZED(cuDeviceGetByPCIBusId(dev, id));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int dev)
{
    INITIALIZED(cuDeviceGetDefaultMemPool(pool, dev));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int dev)
{
    INITIALIZED(cuDeviceGetMemPool(pool, dev));
}

cudaError_t cudaDeviceSetMemPool(int dev, cudaMemPool_t pool)
{
    INITIALIZED(cuDeviceSetMemPool(dev, pool));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int from,
                                      int to)
{
    INITIALIZED(cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, from, to));
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int dev, int peer)
{
    INITIALIZED(cuDeviceCanAccessPeer(can, dev, peer));
}

static CUresult peer_context(int peer, CUcontext *context)
{
    CUcontext mine = NULL;
    CUresult result = cuCtxGetCurrent(&mine);
    const int before = chosen;
    if (result == CUDA_SUCCESS)
        result = choose(peer);
    if (result == CUDA_SUCCESS)
        result = cuCtxGetCurrent(context);
    cuCtxSetCurrent(mine);
    chosen = before;
    return result;
}

static CUresult peer_access(int peer, int enable, unsigned flags)
{
    CUcontext other;
    CUresult result = runtime_enter();
    if (result == CUDA_SUCCESS)
        result = peer_context(peer, &other);
    if (result != CUDA_SUCCESS)
        return result;
    return enable ? cuCtxEnablePeerAccess(other, flags) : cuCtxDisablePeerAccess(other);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    return runtime_note(peer_access(peer, 1, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    return runtime_note(peer_access(peer, 0, 0));
}

static int attribute(int dev, CUdevice_attribute number)
{
    int value = 0;
    cuDeviceGetAttribute(&value, number, dev);
    return value;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int dev)
{
    CUresult result = initialize();
    if (result == CUDA_SUCCESS && !p)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = cuDeviceTotalMem(&(size_t){0}, dev); // is there such a device?
    if (result != CUDA_SUCCESS)
        return runtime_note(result);
    memset(p, 0, sizeof *p);
    cuDeviceGetName(p->name, sizeof p->name, dev);
    cuDeviceGetUuid((CUuuid *)&p->uuid, dev);
    cuDeviceTotalMem(&p->totalGlobalMem, dev);
    const struct {
        int *to;
        CUdevice_attribute number;
    } ints[] = {
        {&p->regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
        {&p->warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
        {&p->maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
        {&p->maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
        {&p->maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y},
        {&p->maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z},
        {&p->maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
        {&p->maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
        {&p->maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z},
        {&p->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {&p->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
        {&p->multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
        {&p->integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED},
        {&p->canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
        {&p->concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
        {&p->ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
        {&p->pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
        {&p->pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
        {&p->pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
        {&p->tccDriver, CU_DEVICE_ATTRIBUTE_TCC_DRIVER},
        {&p->asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
        {&p->unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
        {&p->memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
        {&p->l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
        {&p->persistingL2CacheMaxSize, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE},
        {&p->maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
        {&p->streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
        {&p->globalL1CacheSupported, CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED},
        {&p->localL1CacheSupported, CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED},
        {&p->regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
        {&p->managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
        {&p->concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
        {&p->hostNativeAtomicSupported, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
        {&p->pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
        {&p->computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
        {&p->canUseHostPointerForRegisteredMem,
         CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
        {&p->cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
        {&p->maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
        {&p->accessPolicyMaxWindowSize, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE},
        {&p->hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
        {&p->memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
        {&p->clusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH},
        {&p->unifiedFunctionPointers, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS},
    };
    const struct {
        size_t *to;
        CUdevice_attribute number;
    } sizes[] = {
        {&p->sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
        {&p->sharedMemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
        {&p->sharedMemPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
        {&p->reservedSharedMemPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK},
        {&p->memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
        {&p->totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
        {&p->textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
        {&p->texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT},
        {&p->surfaceAlignment, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT},
    };
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        *ints[i].to = attribute(dev, ints[i].number);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        *sizes[i].to = (size_t)attribute(dev, sizes[i].number);
    return cudaSuccess;
}

// ---- versions, limits ---------------------------------------------------------------------------

PASS(cudaDriverGetVersion, (int *version), cuDriverGetVersion(version))

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return runtime_note(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

PASS(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value), cuCtxSetLimit((CUlimit)limit, value))
PASS(cudaDeviceGetLimit, (size_t * value, enum cudaLimit limit),
     cuCtxGetLimit(value, (CUlimit)limit))
PASS(cudaDeviceSetCacheConfig, (enum cudaFuncCache config),
     cuCtxSetCacheConfig((CUfunc_cache)config))
PASS(cudaDeviceGetCacheConfig, (enum cudaFuncCache *config),
     cuCtxGetCacheConfig((CUfunc_cache *)config))
PASS(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
     cuCtxGetStreamPriorityRange(least, greatest))
PASS(cudaCtxResetPersistingL2Cache, (void), cuCtxResetPersistingL2Cache())
PASS(cudaProfilerStart, (void), CUDA_SUCCESS)
PASS(cudaProfilerStop, (void), CUDA_SUCCESS)

// ---- entry points of the driver -----------------------------------------------------------------

static CUresult entry_point(const char *name, void **function, unsigned version,
                            unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult result =
        cuGetProcAddress(name, function, (int)version, (cuuint64_t)flags, &found);
    if (!status)
        return result;
    *status = found == CU_GET_PROC_ADDRESS_SUCCESS ? cudaDriverEntryPointSuccess
              : found == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                  ? cudaDriverEntryPointVersionNotSufficent
                  : cudaDriverEntryPointSymbolNotFound;
    return result == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : result; // then the status tells
}

PASS(cudaGetDriverEntryPointByVersion,
     (const char *name, void **function, unsigned int version, unsigned long long flags,
      enum cudaDriverEntryPointQueryResult *status),
     entry_point(name, function, version, flags, status))

// Not in the header of CUDA 13 any more, but in its library.
#pragma GCC visibility push(default)
cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status);
#pragma GCC visibility pop
PASS(cudaGetDriverEntryPoint,
     (const char *name, void **function, unsigned long long flags,
      enum cudaDriverEntryPointQueryResult *status),
     entry_point(name, function, CUDART_VERSION, flags, status))
