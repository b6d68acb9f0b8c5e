// Libraries: PTX that every context translates for itself at first use, and kernels that name
// functions in all of them.
#define _POSIX_C_SOURCE 200809L
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { UNSET = -2 };

static bool list_kernels(struct library *lib, const struct program *p)
{
    struct kernel *kernels = calloc(p->nfuncs + 1, sizeof *kernels);
    unsigned n = 0;
    if (!kernels)
        return false;
    for (uint32_t i = 0; i < p->nfuncs; i++) {
        if (!p->funcs[i].entry)
            continue;
        struct kernel *k = &kernels[n++];
        k->library = lib;
        k->name = strdup(p->funcs[i].name);
        k->handle = k->name ? handle_new(HANDLE_KERNEL, k) : NULL;
        for (unsigned d = 0; d < DEVICES_MOST; d++)
            k->max_dynamic_smem[d] = k->carveout[d] = k->nonportable[d] = UNSET;
        if (!k->handle) {
            while (n-- > 0) {
                if (kernels[n].handle)
                    handle_drop(kernels[n].handle);
                free(kernels[n].name);
            }
            free(kernels);
            return false;
        }
    }
    lib->kernels = kernels;
    lib->kernel_count = n;
    lib->listed = true;
    return true;
}

// The library's module in a context, translated now if it is the first use.
static CUresult module_in(struct library *lib, struct context *ctx, struct module **out)
{
    if (lib->status != CUDA_SUCCESS) {
        driver_report(ctx, lib->why);
        return lib->status;
    }
    for (unsigned i = 0; i < lib->module_count; i++)
        if (lib->modules[i]->context == ctx) {
            *out = lib->modules[i];
            return CUDA_SUCCESS;
        }
    struct module **modules = realloc(lib->modules, (lib->module_count + 1) * sizeof *modules);
    if (!modules)
        return CUDA_ERROR_OUT_OF_MEMORY;
    lib->modules = modules;
    struct module *m;
    const CUlibrary handle = lib->handle;
    CUresult result = module_load(ctx, lib->text, lib->length, &m);     // drops the lock meanwhile
    if (result != CUDA_SUCCESS)
        return result;
    if (handle_find(HANDLE_LIBRARY, handle) != lib) {                   // unloaded under our feet
        module_free(m);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    for (unsigned i = 0; i < lib->module_count; i++)
        if (lib->modules[i]->context == ctx) {                          // another thread was faster
            module_free(m);
            *out = lib->modules[i];
            return CUDA_SUCCESS;
        }
    modules = realloc(lib->modules, (lib->module_count + 1) * sizeof *modules);
    if (modules)
        lib->modules = modules;
    if (!modules || (!lib->listed && !list_kernels(lib, m->image->program))) {
        module_free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->library = lib;
    lib->modules[lib->module_count++] = m;
    *out = m;
    return CUDA_SUCCESS;
}

void library_forget(struct context *ctx)
{
    for (struct module *m = ctx->modules; m; m = m->next) {
        struct library *lib = m->library;
        for (unsigned i = 0; lib && i < lib->module_count; i++)
            if (lib->modules[i] == m)
                lib->modules[i] = lib->modules[--lib->module_count];
        m->library = NULL;
    }
}

static void library_free(struct library *lib)
{
    handle_drop(lib->handle);
    for (unsigned i = 0; i < lib->kernel_count; i++) {
        handle_drop(lib->kernels[i].handle);
        free(lib->kernels[i].name);
    }
    while (lib->module_count > 0)
        module_free(lib->modules[--lib->module_count]);
    free(lib->kernels);
    free(lib->modules);
    free(lib->text);
    free(lib);
}

struct func *library_function(struct kernel *kernel, struct context *ctx, CUresult *result)
{
    struct module *m;
    *result = module_in(kernel->library, ctx, &m);
    if (*result != CUDA_SUCCESS)
        return NULL;
    struct func *f = module_function(m, kernel->name);
    if (!f) {
        *result = CUDA_ERROR_NOT_FOUND;
        return NULL;
    }
    if (!f->kernel) {
        const int dev = ctx->device->ordinal;
        f->kernel = kernel;
        if (kernel->max_dynamic_smem[dev] != UNSET)
            f->max_dynamic_smem = kernel->max_dynamic_smem[dev];
        if (kernel->carveout[dev] != UNSET)
            f->carveout = kernel->carveout[dev];
        if (kernel->nonportable[dev] != UNSET)
            f->nonportable_cluster = kernel->nonportable[dev];
    }
    return f;
}

struct func *func_find(struct context *ctx, CUfunction handle, CUresult *result)
{
    struct func *f = handle_find(HANDLE_FUNCTION, handle);
    struct kernel *k = f ? NULL : handle_find(HANDLE_KERNEL, handle);
    *result = f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    return k ? library_function(k, ctx, result) : f;
}

// ---- loading ------------------------------------------------------------------------------------

// Loading only keeps the text: what is wrong with it is the answer of the first call that needs a
// kernel.
static CUresult load(CUlibrary *out, const void *data)
{
    if (!out || !data)
        return CUDA_ERROR_INVALID_VALUE;
    struct library *lib = calloc(1, sizeof *lib);
    if (!lib)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const char *text = NULL, *why = "";
    lib->status = image_text(data, &text, &lib->length, &lib->text, &why);
    snprintf(lib->why, sizeof lib->why, "%s", why);
    if (lib->status == CUDA_SUCCESS && !lib->text)
        lib->text = strndup(text, lib->length);
    lib->handle = handle_new(HANDLE_LIBRARY, lib);
    if (!lib->handle || (lib->status == CUDA_SUCCESS && !lib->text)) {
        library_free(lib);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    // A binary without PTX is known to be useless at once.
    if (lib->status == CUDA_ERROR_NO_BINARY_FOR_GPU) {
        driver_report(context_current(), lib->why);
        library_free(lib);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    *out = lib->handle;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options,
                           void **jit_values, unsigned int jit_count, CUlibraryOption *options,
                           void **values, unsigned int count)
{
    (void)options, (void)values;
    if ((jit_count && (!jit_options || !jit_values)) || (count && !options))
        return CUDA_ERROR_INVALID_VALUE;
    IN_DRIVER(load(library, code));
}

static CUresult load_file(CUlibrary *out, const char *path)
{
    char *data;
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = file_read(path, &data);
    if (result != CUDA_SUCCESS)
        return result;
    result = load(out, data);
    free(data);
    return result;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit_options,
                               void **jit_values, unsigned int jit_count, CUlibraryOption *options,
                               void **values, unsigned int count)
{
    (void)options, (void)values;
    if ((jit_count && (!jit_options || !jit_values)) || (count && !options))
        return CUDA_ERROR_INVALID_VALUE;
    IN_DRIVER(load_file(library, path));
}

static CUresult unload(CUlibrary handle)
{
    struct library *lib = handle_find(HANDLE_LIBRARY, handle);
    if (!lib)
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct context *c = driver.contexts; c; c = c->next) {
        const bool busy = c->executing;
        c->pins++;
        context_quiet(c);
        if (--c->pins == 0)
            pthread_cond_broadcast(&driver.changed);
        if (busy)
            c = driver.contexts;                // the list may have changed meanwhile
        if (!c)
            break;
    }
    if (handle_find(HANDLE_LIBRARY, handle) == lib)
        library_free(lib);
    return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    IN_DRIVER(unload(library));
}

// ---- contents -----------------------------------------------------------------------------------

static CUresult in_context(struct context *ctx, CUlibrary handle, struct library **lib,
                           struct module **m)
{
    *lib = handle_find(HANDLE_LIBRARY, handle);
    return *lib ? module_in(*lib, ctx, m) : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult get_kernel(struct context *ctx, CUkernel *out, CUlibrary handle, const char *name)
{
    struct library *lib;
    struct module *m;
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = in_context(ctx, handle, &lib, &m);
    if (result != CUDA_SUCCESS)
        return result;
    for (unsigned i = 0; i < lib->kernel_count; i++)
        if (strcmp(lib->kernels[i].name, name) == 0) {
            *out = lib->kernels[i].handle;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    IN_HEALTHY(get_kernel(ctx, kernel, library, name));
}

static CUresult get_module(struct context *ctx, CUmodule *out, CUlibrary handle)
{
    struct library *lib;
    struct module *m;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = in_context(ctx, handle, &lib, &m);
    if (result == CUDA_SUCCESS)
        *out = m->handle;
    return result;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    IN_HEALTHY(get_module(ctx, module, library));
}

static CUresult get_global(struct context *ctx, CUdeviceptr *address, size_t *bytes,
                           CUlibrary handle, const char *name)
{
    struct library *lib;
    struct module *m;
    CUresult result = in_context(ctx, handle, &lib, &m);
    return result == CUDA_SUCCESS ? module_global(m, address, bytes, name) : result;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                            const char *name)
{
    IN_HEALTHY(get_global(ctx, address, bytes, library, name));
}

static CUresult get_managed(CUlibrary handle)
{
    return handle_find(HANDLE_LIBRARY, handle) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                             const char *name)
{
    (void)address, (void)bytes, (void)name;
    IN_HEALTHY(get_managed(library));
}

static CUresult kernel_count(struct context *ctx, unsigned *count, CUlibrary handle)
{
    struct library *lib;
    struct module *m;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = in_context(ctx, handle, &lib, &m);
    if (result == CUDA_SUCCESS)
        *count = lib->kernel_count;
    return result;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    IN_HEALTHY(kernel_count(ctx, count, library));
}

static CUresult enumerate(struct context *ctx, CUkernel *kernels, unsigned count, CUlibrary handle)
{
    struct library *lib;
    struct module *m;
    if (!kernels)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = in_context(ctx, handle, &lib, &m);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count && i < lib->kernel_count; i++)
        kernels[i] = lib->kernels[i].handle;
    return result;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
    IN_HEALTHY(enumerate(ctx, kernels, count, library));
}

// ---- kernels ------------------------------------------------------------------------------------

static CUresult get_function(struct context *ctx, CUfunction *out, CUkernel handle)
{
    struct kernel *k = handle_find(HANDLE_KERNEL, handle);
    CUresult result;
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    const struct func *f = library_function(k, ctx, &result);
    if (f)
        *out = f->handle;
    return result;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    IN_HEALTHY(get_function(ctx, function, kernel));
}

static CUresult get_library(CUlibrary *out, CUkernel handle)
{
    const struct kernel *k = handle_find(HANDLE_KERNEL, handle);
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = k->library->handle;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    IN_DRIVER(get_library(library, kernel));
}

static CUresult get_name(const char **out, CUkernel handle)
{
    const struct kernel *k = handle_find(HANDLE_KERNEL, handle);
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = k->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    IN_DRIVER(get_name(name, kernel));
}

// The kernel's function in some context of the device: the current one, else any.
static struct func *for_device(struct context *ctx, CUkernel handle, CUdevice dev, CUresult *result)
{
    struct kernel *k = handle_find(HANDLE_KERNEL, handle);
    *result = !k                  ? CUDA_ERROR_INVALID_HANDLE
              : !device_find(dev) ? CUDA_ERROR_INVALID_DEVICE
                                  : CUDA_SUCCESS;
    if (*result != CUDA_SUCCESS)
        return NULL;
    for (struct context *c = driver.contexts; c && ctx->device->ordinal != dev; c = c->next)
        if (c->device->ordinal == dev)
            ctx = c;
    return library_function(k, ctx, result);
}

static CUresult get_attribute(struct context *ctx, int *value, CUfunction_attribute attribute,
                              CUkernel handle, CUdevice dev)
{
    CUresult result;
    const struct func *f = for_device(ctx, handle, dev, &result);
    return f ? func_get(f, attribute, value) : result;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice dev)
{
    IN_HEALTHY(get_attribute(ctx, value, attribute, kernel, dev));
}

static CUresult set_attribute(struct context *ctx, CUfunction_attribute attribute, int value,
                              CUkernel handle, CUdevice dev)
{
    CUresult result;
    struct kernel *k = handle_find(HANDLE_KERNEL, handle);
    struct func *f = for_device(ctx, handle, dev, &result);
    if (f)
        result = func_set(f, attribute, value);
    if (result != CUDA_SUCCESS)
        return result;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        k->max_dynamic_smem[dev] = value;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        k->carveout[dev] = value;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        k->nonportable[dev] = value != 0;
        break;
    default:
        break;
    }
    // Contexts that have the function already.
    for (unsigned i = 0; i < k->library->module_count; i++) {
        struct module *m = k->library->modules[i];
        struct func *g = m->context->device->ordinal == dev ? module_function(m, k->name) : NULL;
        if (g && g != f)
            func_set(g, attribute, value);
    }
    return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice dev)
{
    IN_HEALTHY(set_attribute(ctx, attribute, value, kernel, dev));
}

static CUresult set_cache(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    if (!handle_find(HANDLE_KERNEL, kernel))
        return CUDA_ERROR_INVALID_HANDLE;
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    return device_find(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    IN_DRIVER(set_cache(kernel, config, dev));
}

static CUresult param_info(struct context *ctx, CUkernel handle, size_t index, size_t *offset,
                           size_t *size)
{
    CUresult result;
    struct kernel *k = handle_find(HANDLE_KERNEL, handle);
    const struct func *f = k ? library_function(k, ctx, &result) : NULL;
    return !k ? CUDA_ERROR_INVALID_HANDLE : f ? func_param(f, index, offset, size) : result;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    IN_HEALTHY(param_info(ctx, kernel, index, offset, size));
}
