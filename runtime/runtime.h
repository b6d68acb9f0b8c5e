// The CUDA runtime API on top of the emulator's driver: what its files share.
//
// nvcc -cudart shared makes programs that look for libcudart.so.13; this library is one. Handles
// are the driver's own (cudaStream_t is CUstream), numbers of errors, attributes and flags are the
// same in both APIs, so most calls hand their arguments on. What is left to do here: primary
// contexts made when first needed, the registry of what nvcc put into the program (registry.c),
// launches (launch.c), and the last error of each thread.
#ifndef RUNTIME_H
#define RUNTIME_H

// What this library exports is what cuda_runtime_api.h declares, and in registry.c what nvcc's host
// code calls.
#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#include <cuda.h>
// From cuda_profiler_api.h, which not every toolkit has.
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
#pragma GCC visibility pop

// Makes some context current: the thread's own if it has one, else the primary context of its
// device.
CUresult runtime_enter(void);
// Remembers an error as the thread's last one; returns it.
cudaError_t runtime_note(int result);

// Body of a call that is one expression of the driver.
#define FORWARD(expression)                                                              \
    do {                                                                                 \
        const CUresult entered = runtime_enter();                                        \
        return runtime_note(entered != CUDA_SUCCESS ? (int)entered : (int)(expression)); \
    } while (0)
// A whole such call.
#define PASS(name, parameters, expression) \
    cudaError_t name parameters            \
    {                                      \
        FORWARD(expression);               \
    }

// What a host address stands for. `runtime_kernel` answers cudaErrorInvalidDeviceFunction for an
// unknown one, and also takes kernels that have no host address (cudaKernel_t).
int runtime_kernel(const void *host, CUkernel *kernel);
int runtime_function(const void *host, CUfunction *function);
int runtime_variable(const void *host, CUdeviceptr *address, size_t *bytes);

static inline CUdeviceptr device(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

#endif
