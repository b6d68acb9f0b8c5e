/* driver.h -- the CUDA driver API as a table of functions found at run time. Nothing is linked to
 * libcuda. */
#ifndef LOADER_DRIVER_H
#define LOADER_DRIVER_H

#include <cuda.h>
#include <ptxmm.h>

/* Every entry point that the loader calls, one row each: the member of struct driver and the symbol
 * in the library, with the version that it has there. */
#define DRIVER_CALLS(X)                                   \
    X(DriverGetVersion, cuDriverGetVersion)               \
    X(Init, cuInit)                                       \
    X(GetErrorName, cuGetErrorName)                       \
    X(GetErrorString, cuGetErrorString)                   \
    X(DeviceGetCount, cuDeviceGetCount)                   \
    X(DeviceGet, cuDeviceGet)                             \
    X(DeviceGetName, cuDeviceGetName)                     \
    X(DeviceGetAttribute, cuDeviceGetAttribute)           \
    X(CtxGetCurrent, cuCtxGetCurrent)                     \
    X(CtxGetDevice, cuCtxGetDevice)                       \
    X(MemGetInfo, cuMemGetInfo_v2)                        \
    X(PointerGetAttribute, cuPointerGetAttribute)         \
    X(LibraryLoadData, cuLibraryLoadData)                 \
    X(LibraryUnload, cuLibraryUnload)                     \
    X(LibraryGetKernel, cuLibraryGetKernel)               \
    X(KernelSetAttribute, cuKernelSetAttribute)           \
    X(KernelGetFunction, cuKernelGetFunction)             \
    X(FuncLoad, cuFuncLoad)                               \
    X(TensorMapEncodeTiled, cuTensorMapEncodeTiled)       \
    X(TensorMapReplaceAddress, cuTensorMapReplaceAddress) \
    X(LaunchKernelEx, cuLaunchKernelEx)

/* Used where the library has them; the member is NULL where it has not. */
#define DRIVER_OPTIONAL_CALLS(X)              \
    X(CtxGetDevResource, cuCtxGetDevResource) \
    X(OccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters)

struct driver {
    void *library;
    const char *path; /* as the dynamic linker knows it; lives as long as the library */
    int version;
#define DRIVER_MEMBER(member, symbol) __typeof__(symbol) *member;
    DRIVER_CALLS(DRIVER_MEMBER)
    DRIVER_OPTIONAL_CALLS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

/* Finds the library (`name`, else PTXMM_DRIVER, else libcuda.so.1), checks its version and its
 * entry points, initialises it. On failure nothing stays behind in *driver. */
enum ptxmm_status driver_open(struct driver *driver, const char *name, struct ptxmm_error *error);

/* Reports that `call` (words like "cuLaunchKernelEx(name)") returned `result`: CONTEXT_FAULTED if
 * the result, or what the context answers when asked again, says that earlier work had broken it;
 * else DRIVER. */
enum ptxmm_status driver_failed(const struct driver *driver, struct ptxmm_error *error,
                                CUresult result, const char *call, ...)
    __attribute__((format(printf, 4, 5)));

/* "CUDA_ERROR_INVALID_IMAGE"; "an unknown error" for a number that the driver does not know. */
const char *driver_result_name(const struct driver *driver, CUresult result);

#endif
