/* driver.c -- finds libcuda at run time, and puts its failures into words. */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kernels.h"

/* What the dynamic linker calls the library: a name like libcuda.so.1 becomes a path here. */
static const char *linker_path(void *library, const char *name)
{
    struct link_map *map = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && map->l_name[0])
        return map->l_name;
    return name;
}

/* dlsym gives a data pointer where C wants a function pointer; the bytes are the same on every
 * system that has dlsym. */
static int find(void *library, const char *symbol, void *member)
{
    void *address = dlsym(library, symbol);
    memcpy(member, &address, sizeof address);
    return address != NULL;
}

static enum ptxmm_status find_all(struct driver *driver, struct ptxmm_error *error)
{
#define FIND(member, symbol)                               \
    if (!find(driver->library, #symbol, &driver->member))  \
        return error_set(error, PTXMM_ERROR_DRIVER_SYMBOL, \
                         "the CUDA driver library %s has no entry point " #symbol, driver->path);
#define FIND_OPTIONAL(member, symbol) find(driver->library, #symbol, &driver->member);
    DRIVER_CALLS(FIND)
    DRIVER_OPTIONAL_CALLS(FIND_OPTIONAL)
#undef FIND
#undef FIND_OPTIONAL
    return PTXMM_OK;
}

/* The version first: a driver that is too old lacks entry points too, and its age is what its owner
 * can do something about. */
static enum ptxmm_status check_version(struct driver *driver, struct ptxmm_error *error)
{
    find(driver->library, "cuGetErrorName", &driver->GetErrorName); // for the words of a failure
    find(driver->library, "cuGetErrorString", &driver->GetErrorString);
    if (!find(driver->library, "cuDriverGetVersion", &driver->DriverGetVersion))
        return PTXMM_OK; // find_all will name it
    CUresult result = driver->DriverGetVersion(&driver->version);
    if (result)
        return driver_failed(driver, error, result, "cuDriverGetVersion");
    int needed = kernels_min_driver();
    if (driver->version < needed)
        return error_set(
            error, PTXMM_ERROR_DRIVER_TOO_OLD,
            "the CUDA driver library %s supports CUDA %d.%d, the pack needs %d.%d or newer",
            driver->path, driver->version / 1000, driver->version % 1000 / 10, needed / 1000,
            needed % 1000 / 10);
    return PTXMM_OK;
}

enum ptxmm_status driver_open(struct driver *driver, const char *name, struct ptxmm_error *error)
{
    *driver = (struct driver){ 0 };
    const char *source = "options.driver";
    if (!name) {
        name = secure_getenv("PTXMM_DRIVER");
        source = "PTXMM_DRIVER";
        if (!name || !name[0]) {
            name = "libcuda.so.1";
            source = "the default";
        }
    } else if (!name[0]) {
        return error_set(
            error, PTXMM_ERROR_ARGUMENT,
            "options.driver is an empty string, must be a path or a library name, or NULL");
    }
    driver->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!driver->library) {
        const char *why = dlerror();
        enum ptxmm_status status = error_set(error, PTXMM_ERROR_NO_DRIVER,
                                             "no CUDA driver library: looked for \"%s\" (%s): %s",
                                             name, source, why ? why : "dlopen failed");
        *driver = (struct driver){ 0 };
        return status;
    }
    driver->path = linker_path(driver->library, name);

    enum ptxmm_status status = check_version(driver, error);
    if (!status)
        status = find_all(driver, error);
    if (status) {
        dlclose(driver->library);
        *driver = (struct driver){ 0 };
        return status;
    }
    // From here on the library stays in the process: a driver that was initialised has threads and
    // exit handlers.
    CUresult result = driver->Init(0);
    if (result) {
        status = driver_failed(driver, error, result, "cuInit");
        *driver = (struct driver){ 0 };
    }
    return status;
}

const char *driver_result_name(const struct driver *driver, CUresult result)
{
    const char *name = NULL;
    if (!driver->GetErrorName || driver->GetErrorName(result, &name) || !name)
        name = "an unknown error";
    return name;
}

/* Errors after which, says cuda.h, the context or the process answers the same to every later call.
 * No call of ours makes one of them by itself, because none waits for a kernel. */
static int is_sticky(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED: return 1;
    default:
        // CUDA_ERROR_TENSOR_MEMORY_LEAK, CONTAINED and EXTERNAL_DEVICE: older cuda.h has no names
        // for them.
        return (int)result == 721 || (int)result == 226 || (int)result == 911;
    }
}

enum ptxmm_status driver_failed(const struct driver *driver, struct ptxmm_error *error,
                                CUresult result, const char *call, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, call);
    vsnprintf(what, sizeof what, call, arguments);
    va_end(arguments);

    // A broken context makes other calls fail for reasons that are not theirs, so it is asked.
    // Cheap, and does not wait.
    CUresult context = result;
    size_t unused[2];
    if (!is_sticky(result) && driver->MemGetInfo)
        context = driver->MemGetInfo(&unused[0], &unused[1]);

    enum ptxmm_status status;
    if (is_sticky(context)) {
        status = error_set(error, PTXMM_ERROR_CONTEXT_FAULTED,
                           "the CUDA context had already faulted with %s (%d), found by %s",
                           driver_result_name(driver, context), (int)context, what);
        result = context;
    } else {
        const char *text = NULL;
        if (!driver->GetErrorString || driver->GetErrorString(result, &text) || !text)
            text = "no description";
        status = error_set(error, PTXMM_ERROR_DRIVER, "%s returned %s (%d): %s", what,
                           driver_result_name(driver, result), (int)result, text);
    }
    if (error)
        error->driver_result = (int)result;
    return status;
}
