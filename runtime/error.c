// Errors: names, sentences, and the last one of a thread.
#include "runtime.h"

#include <stddef.h>

static _Thread_local cudaError_t last;

cudaError_t runtime_note(int result)
{
    if (result != cudaSuccess)
        last = (cudaError_t)result;
    return (cudaError_t)result;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

// Errors that the runtime alone has, with sentences; the driver knows those of the others.
#define OWN(X) \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument") \
    X(cudaErrorInvalidPitchValue, "invalid pitch argument") \
    X(cudaErrorInvalidSymbol, "invalid device symbol") \
    X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy") \
    X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version") \
    X(cudaErrorMissingConfiguration, "__global__ function call is not configured") \
    X(cudaErrorInvalidDeviceFunction, "invalid device function")

#define DRIVERS(X) \
    X(cudaSuccess) \
    X(cudaErrorInvalidValue) \
    X(cudaErrorMemoryAllocation) \
    X(cudaErrorInitializationError) \
    X(cudaErrorCudartUnloading) \
    X(cudaErrorNoDevice) \
    X(cudaErrorInvalidDevice) \
    X(cudaErrorInvalidKernelImage) \
    X(cudaErrorDeviceUninitialized) \
    X(cudaErrorNoKernelImageForDevice) \
    X(cudaErrorUnsupportedLimit) \
    X(cudaErrorPeerAccessUnsupported) \
    X(cudaErrorInvalidPtx) \
    X(cudaErrorUnsupportedPtxVersion) \
    X(cudaErrorFileNotFound) \
    X(cudaErrorInvalidResourceHandle) \
    X(cudaErrorIllegalState) \
    X(cudaErrorSymbolNotFound) \
    X(cudaErrorNotReady) \
    X(cudaErrorIllegalAddress) \
    X(cudaErrorLaunchOutOfResources) \
    X(cudaErrorLaunchTimeout) \
    X(cudaErrorPeerAccessAlreadyEnabled) \
    X(cudaErrorPeerAccessNotEnabled) \
    X(cudaErrorSetOnActiveProcess) \
    X(cudaErrorContextIsDestroyed) \
    X(cudaErrorAssert) \
    X(cudaErrorHostMemoryAlreadyRegistered) \
    X(cudaErrorHostMemoryNotRegistered) \
    X(cudaErrorHardwareStackError) \
    X(cudaErrorIllegalInstruction) \
    X(cudaErrorMisalignedAddress) \
    X(cudaErrorInvalidAddressSpace) \
    X(cudaErrorInvalidPc) \
    X(cudaErrorLaunchFailure) \
    X(cudaErrorCooperativeLaunchTooLarge) \
    X(cudaErrorNotPermitted) \
    X(cudaErrorNotSupported) \
    X(cudaErrorStreamCaptureUnsupported) \
    X(cudaErrorStreamCaptureInvalidated) \
    X(cudaErrorStreamCaptureMerge) \
    X(cudaErrorStreamCaptureUnmatched) \
    X(cudaErrorStreamCaptureUnjoined) \
    X(cudaErrorStreamCaptureIsolation) \
    X(cudaErrorStreamCaptureImplicit) \
    X(cudaErrorCapturedEvent) \
    X(cudaErrorStreamCaptureWrongThread) \
    X(cudaErrorGraphExecUpdateFailure) \
    X(cudaErrorInvalidClusterSize) \
    X(cudaErrorUnknown)

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define X(name, sentence) case name: return #name;
        OWN(X)
#undef X
#define X(name) case name: return #name;
        DRIVERS(X)
#undef X
    default: return "unrecognized error code";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    const char *sentence;
    switch (error) {
#define X(name, words) case name: return words;
        OWN(X)
#undef X
    default:
        return cuGetErrorString((CUresult)error, &sentence) == CUDA_SUCCESS && sentence
                   ? sentence
                   : "unrecognized error code";
    }
}
