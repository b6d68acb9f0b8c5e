/* gpu.h -- the few driver calls that the command, the tests and the bench make themselves: a table
 * filled by dlopen.
 *
 *     struct gpu gpu;
 *     if (!gpu_open(&gpu, ptxmm_driver_path(mm), 0)) return fail(gpu.error);
 *     uint64_t p = gpu_alloc(&gpu, bytes);           // 0: gpu.error says why
 *     gpu.MemcpyHtoD(p, host, bytes);         // or any entry by its name without "cu"
 *     gpu_close(&gpu);
 *
 * Nothing is global: several libraries may be open at once. The context is the device's primary
 * one, which the CUDA runtime and cuBLAS share.
 */
#ifndef GPU_H
#define GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

/* X(name without "cu", symbol, 1 if it must exist). cuda.h's own macros give the versioned symbol:
 * cuMemAlloc is cuMemAlloc_v2. */
#define GPU_ENTRIES(X)                                                                             \
    X(Init, cuInit, 1)                                                                             \
    X(DriverGetVersion, cuDriverGetVersion, 1)                                                     \
    X(GetErrorName, cuGetErrorName, 1)                                                             \
    X(GetErrorString, cuGetErrorString, 1)                                                         \
    X(DeviceGet, cuDeviceGet, 1)                                                                   \
    X(DeviceGetCount, cuDeviceGetCount, 1)                                                         \
    X(DeviceGetName, cuDeviceGetName, 1)                                                           \
    X(DeviceGetAttribute, cuDeviceGetAttribute, 1)                                                 \
    X(DeviceTotalMem, cuDeviceTotalMem, 1)                                                         \
    X(DeviceGetPCIBusId, cuDeviceGetPCIBusId, 0)                                                   \
    X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 1)                                         \
    X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 1)                                       \
    X(DevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 0)                                           \
    X(CtxSetCurrent, cuCtxSetCurrent, 1)                                                           \
    X(CtxGetCurrent, cuCtxGetCurrent, 1)                                                           \
    X(CtxSynchronize, cuCtxSynchronize, 1)                                                         \
    X(MemAlloc, cuMemAlloc, 1)                                                                     \
    X(MemFree, cuMemFree, 1)                                                                       \
    X(MemGetInfo, cuMemGetInfo, 0)                                                                 \
    X(MemAllocHost, cuMemAllocHost, 0)                                                             \
    X(MemFreeHost, cuMemFreeHost, 0)                                                               \
    X(MemcpyHtoD, cuMemcpyHtoD, 1)                                                                 \
    X(MemcpyDtoH, cuMemcpyDtoH, 1)                                                                 \
    X(MemcpyDtoD, cuMemcpyDtoD, 1)                                                                 \
    X(MemcpyHtoDAsync, cuMemcpyHtoDAsync, 1)                                                       \
    X(MemcpyDtoHAsync, cuMemcpyDtoHAsync, 1)                                                       \
    X(MemcpyDtoDAsync, cuMemcpyDtoDAsync, 0)                                                       \
    X(MemsetD8, cuMemsetD8, 1)                                                                     \
    X(MemsetD32, cuMemsetD32, 1)                                                                   \
    X(MemsetD8Async, cuMemsetD8Async, 0)                                                           \
    X(MemsetD32Async, cuMemsetD32Async, 0)                                                         \
    X(MemGetAllocationGranularity, cuMemGetAllocationGranularity, 0)                               \
    X(MemAddressReserve, cuMemAddressReserve, 0)                                                   \
    X(MemAddressFree, cuMemAddressFree, 0)                                                         \
    X(MemCreate, cuMemCreate, 0)                                                                   \
    X(MemRelease, cuMemRelease, 0)                                                                 \
    X(MemMap, cuMemMap, 0)                                                                         \
    X(MemUnmap, cuMemUnmap, 0)                                                                     \
    X(MemSetAccess, cuMemSetAccess, 0)                                                             \
    X(StreamCreate, cuStreamCreate, 1)                                                             \
    X(StreamDestroy, cuStreamDestroy, 1)                                                           \
    X(StreamSynchronize, cuStreamSynchronize, 1)                                                   \
    X(StreamQuery, cuStreamQuery, 0)                                                               \
    X(StreamWaitEvent, cuStreamWaitEvent, 1)                                                       \
    X(StreamBeginCapture, cuStreamBeginCapture, 0)                                                 \
    X(StreamEndCapture, cuStreamEndCapture, 0)                                                     \
    X(GraphGetNodes, cuGraphGetNodes, 0)                                                           \
    X(GraphNodeGetType, cuGraphNodeGetType, 0)                                                     \
    X(GraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 0)                                   \
    X(GraphLaunch, cuGraphLaunch, 0)                                                               \
    X(GraphExecDestroy, cuGraphExecDestroy, 0)                                                     \
    X(GraphDestroy, cuGraphDestroy, 0)                                                             \
    X(EventCreate, cuEventCreate, 1)                                                               \
    X(EventDestroy, cuEventDestroy, 1)                                                             \
    X(EventRecord, cuEventRecord, 1)                                                               \
    X(EventSynchronize, cuEventSynchronize, 1)                                                     \
    X(EventElapsedTime, cuEventElapsedTime, 1)                                                     \
    X(LibraryLoadData, cuLibraryLoadData, 0)                                                       \
    X(LibraryUnload, cuLibraryUnload, 0)                                                           \
    X(LibraryGetKernel, cuLibraryGetKernel, 0)                                                     \
    X(KernelSetAttribute, cuKernelSetAttribute, 0)                                                 \
    X(ModuleLoadData, cuModuleLoadData, 0)                                                         \
    X(ModuleUnload, cuModuleUnload, 0)                                                             \
    X(ModuleGetFunction, cuModuleGetFunction, 0)                                                   \
    X(FuncSetAttribute, cuFuncSetAttribute, 0)                                                     \
    X(LaunchKernelEx, cuLaunchKernelEx, 0)                                                         \
    X(TensorMapEncodeTiled, cuTensorMapEncodeTiled, 0)

struct gpu {
#define GPU_MEMBER(name, symbol, required) __typeof__(symbol) *name;
    GPU_ENTRIES(GPU_MEMBER)
#undef GPU_MEMBER
    /* What went wrong, from an emulator that keeps a report; NULL for a real driver. Its presence
     * is how one is told. */
    const char *(*EmulatorReport)(void);
    void *library;
    CUdevice device;
    CUcontext context;
    int driver_version;
    int arch;               /* 10 * major + minor */
    int sm_count;
    char name[128];         /* of the device */
    char error[1024];       /* the last failure of a gpu_ function, one line */
};

/* Opens the library, takes the device's primary context and makes it current in this thread. False:
 * gpu->error, and there is nothing to close. Other threads call gpu->CtxSetCurrent(gpu->context)
 * themselves. */
bool gpu_open(struct gpu *gpu, const char *library_path, int ordinal);
void gpu_close(struct gpu *gpu); /* accepts a zeroed struct */
bool gpu_is_emulator(const struct gpu *gpu);

/* False if result is not success; then gpu->error is "call: NAME (description)". */
bool gpu_ok(struct gpu *gpu, CUresult result, const char *call);
/* The emulator's account of its last trap, perhaps several lines, or "" (of a real driver). */
const char *gpu_report(const struct gpu *gpu);

/* Device memory; 0 with gpu->error on failure (which says how much was asked and how much is free).
 * gpu_free accepts 0. */
CUdeviceptr gpu_alloc(struct gpu *gpu, size_t bytes);
void gpu_free(struct gpu *gpu, CUdeviceptr address);
bool gpu_upload(struct gpu *gpu, CUdeviceptr to, const void *from, size_t bytes);
bool gpu_download(struct gpu *gpu, void *to, CUdeviceptr from, size_t bytes);

#endif
