/*
 * For tests of instructions that a GPU can run too: the emulator's driver, or with PTXMM_DRIVER
 * another, and device memory for what goes in and what comes out.
 */
#ifndef TESTS_EMU_GPU_H
#define TESTS_EMU_GPU_H

#include "emu_run.h"

#include <cuda.h>
#include <dlfcn.h>

static struct {
    __typeof__(&cuInit) init;
    __typeof__(&cuDevicePrimaryCtxRetain) retain;
    __typeof__(&cuCtxSetCurrent) current;
    __typeof__(&cuModuleLoadData) load;
    __typeof__(&cuModuleUnload) unload;
    __typeof__(&cuModuleGetFunction) function;
    __typeof__(&cuMemAlloc) alloc;
    __typeof__(&cuMemcpyHtoD) to;
    __typeof__(&cuMemcpyDtoH) from;
    __typeof__(&cuLaunchKernel) launch;
    CUdeviceptr in, out;
} gpu;

/* False: there is no such driver, or it does not work. */
static inline bool gpu_open(size_t in, size_t out)
{
    const char *path = getenv("PTXMM_DRIVER");
    void *lib = path && *path && strcmp(path, "emulator") != 0 ? dlopen(path, RTLD_NOW) : NULL;
    CUcontext context;
#define FIND(field, name) \
    *(void **)&gpu.field = lib ? dlsym(lib, #name) : (void *)(uintptr_t)name
    FIND(init, cuInit);
    FIND(retain, cuDevicePrimaryCtxRetain);
    FIND(current, cuCtxSetCurrent);
    FIND(load, cuModuleLoadData);
    FIND(unload, cuModuleUnload);
    FIND(function, cuModuleGetFunction);
    FIND(alloc, cuMemAlloc_v2);
    FIND(to, cuMemcpyHtoD_v2);
    FIND(from, cuMemcpyDtoH_v2);
    FIND(launch, cuLaunchKernel);
#undef FIND
    return gpu.init && !gpu.init(0) && !gpu.retain(&context, 0) && !gpu.current(context) &&
           !gpu.alloc(&gpu.in, in) && !gpu.alloc(&gpu.out, out);
}

#endif
