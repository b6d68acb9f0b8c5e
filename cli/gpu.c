/* gpu.c -- a small driver table by dlopen. */
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)

static bool fill_table(struct gpu *gpu, const char *path)
{
    void *symbol;
#define GPU_LOAD(entry, function, required)                                                        \
    symbol = dlsym(gpu->library, STRING(function));                                                \
    if (required && !symbol) {                                                                     \
        snprintf(gpu->error, sizeof gpu->error, "%s has no entry point " STRING(function), path);  \
        return false;                                                                              \
    }                                                                                              \
    /* POSIX: a data pointer holds a function's address. */                                        \
    memcpy(&gpu->entry, &symbol, sizeof symbol);
    GPU_ENTRIES(GPU_LOAD)
#undef GPU_LOAD
    symbol = dlsym(gpu->library, "ptxmmEmulatorReport");
    memcpy(&gpu->EmulatorReport, &symbol, sizeof symbol);
    return true;
}

bool gpu_ok(struct gpu *gpu, CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return true;
    const char *name = NULL, *text = NULL;
    gpu->GetErrorName(result, &name);
    gpu->GetErrorString(result, &text);
    snprintf(gpu->error, sizeof gpu->error, "%s: %s%s%s (error %d)", call,
             name ? name : "unknown error", text ? ", " : "", text ? text : "", (int)result);
    return false;
}

static int attribute(struct gpu *gpu, CUdevice_attribute which)
{
    int value = 0;
    return gpu->DeviceGetAttribute(&value, which, gpu->device) == CUDA_SUCCESS ? value : 0;
}

static bool start(struct gpu *gpu, int ordinal)
{
    int count = 0;
    if (!gpu_ok(gpu, gpu->Init(0), "cuInit") ||
        !gpu_ok(gpu, gpu->DriverGetVersion(&gpu->driver_version), "cuDriverGetVersion") ||
        !gpu_ok(gpu, gpu->DeviceGetCount(&count), "cuDeviceGetCount"))
        return false;
    if (ordinal < 0 || ordinal >= count) {
        snprintf(gpu->error, sizeof gpu->error,
                 "device %d does not exist: the driver has %d device%s", ordinal, count,
                 count == 1 ? "" : "s");
        return false;
    }
    if (!gpu_ok(gpu, gpu->DeviceGet(&gpu->device, ordinal), "cuDeviceGet") ||
        !gpu_ok(gpu, gpu->DeviceGetName(gpu->name, sizeof gpu->name, gpu->device),
                "cuDeviceGetName"))
        return false;
    gpu->arch = 10 * attribute(gpu, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                attribute(gpu, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    gpu->sm_count = attribute(gpu, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);

    if (!gpu_ok(gpu, gpu->DevicePrimaryCtxRetain(&gpu->context, gpu->device),
                "cuDevicePrimaryCtxRetain")) {
        gpu->context = NULL;
        return false;
    }
    return gpu_ok(gpu, gpu->CtxSetCurrent(gpu->context), "cuCtxSetCurrent");
}

bool gpu_open(struct gpu *gpu, const char *library_path, int ordinal)
{
    *gpu = (struct gpu){ 0 };
    gpu->library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    if (!gpu->library) {
        const char *why = dlerror();
        snprintf(gpu->error, sizeof gpu->error, "the driver library cannot be opened: %s",
                 why ? why : library_path);
        return false;
    }
    if (fill_table(gpu, library_path) && start(gpu, ordinal))
        return true;
    char error[sizeof gpu->error];
    const char *report = gpu_report(gpu); /* of an emulator, which says more than a result does */
    snprintf(error, sizeof error, "%.500s%s%.500s", gpu->error, *report ? "; " : "", report);
    gpu_close(gpu);
    memcpy(gpu->error, error, sizeof error);
    return false;
}

void gpu_close(struct gpu *gpu)
{
    if (gpu->context) {
        CUcontext current = NULL;
        gpu->CtxGetCurrent(&current);
        if (current == gpu->context)
            gpu->CtxSetCurrent(NULL);
        gpu->DevicePrimaryCtxRelease(gpu->device);
    }
    if (gpu->library)
        dlclose(gpu->library);
    *gpu = (struct gpu){ 0 };
}

bool gpu_is_emulator(const struct gpu *gpu)
{
    return gpu->EmulatorReport != NULL;
}

const char *gpu_report(const struct gpu *gpu)
{
    const char *text = gpu->EmulatorReport ? gpu->EmulatorReport() : NULL;
    return text ? text : "";
}

CUdeviceptr gpu_alloc(struct gpu *gpu, size_t bytes)
{
    CUdeviceptr address = 0;
    const CUresult result = gpu->MemAlloc(&address, bytes ? bytes : 1);
    if (result == CUDA_SUCCESS)
        return address;
    size_t available = 0, total = 0;
    char call[160];
    if (gpu->MemGetInfo && gpu->MemGetInfo(&available, &total) == CUDA_SUCCESS)
        snprintf(call, sizeof call,
                 "allocating %.1f MB on the device (%.1f MB of %.1f MB are free)",
                 (double)bytes * 1e-6, (double)available * 1e-6, (double)total * 1e-6);
    else
        snprintf(call, sizeof call, "allocating %.1f MB on the device", (double)bytes * 1e-6);
    gpu_ok(gpu, result, call);
    return 0;
}

void gpu_free(struct gpu *gpu, CUdeviceptr address)
{
    if (address)
        gpu->MemFree(address);
}

bool gpu_upload(struct gpu *gpu, CUdeviceptr to, const void *from, size_t bytes)
{
    return !bytes || gpu_ok(gpu, gpu->MemcpyHtoD(to, from, bytes), "cuMemcpyHtoD");
}

bool gpu_download(struct gpu *gpu, void *to, CUdeviceptr from, size_t bytes)
{
    return !bytes || gpu_ok(gpu, gpu->MemcpyDtoH(to, from, bytes), "cuMemcpyDtoH");
}
