// What nvcc's host code registers before main: fat binaries, kernels, variables. Each is loaded
// when first used.
#define _POSIX_C_SOURCE 200809L
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// The calls of nvcc's host code (crt/host_runtime.h and crt/device_functions.h declare them, for
// C++ only).
#pragma GCC visibility push(default)
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device_name, const char *name,
                            int threads, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid,
                            int *warp);
void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int external,
                       size_t bytes, int constant, int global);
char __cudaInitModule(void **handle);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
#pragma GCC visibility pop

struct binary {
    void *wrapper;
    struct binary *next;
    CUlibrary library;
    int status; // of loading it, once tried
    int tried;
};

struct symbol {
    const void *host;
    char *name;
    struct binary *binary;
    struct symbol *next;
    CUkernel kernel; // once asked for
};

// The registry is the program's, filled before main: there is nothing else it could hang from.
static struct {
    pthread_mutex_t lock;
    struct binary *binaries;
    struct symbol *kernels, *variables;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

void **__cudaRegisterFatBinary(void *wrapper)
{
    struct binary *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->wrapper = wrapper;
    pthread_mutex_lock(&registry.lock);
    b->next = registry.binaries;
    registry.binaries = b;
    pthread_mutex_unlock(&registry.lock);
    return (void **)b;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

static void forget(struct symbol **list, const struct binary *binary)
{
    while (*list) {
        struct symbol *s = *list;
        if (s->binary == binary) {
            *list = s->next;
            free(s->name);
            free(s);
        } else {
            list = &s->next;
        }
    }
}

void __cudaUnregisterFatBinary(void **handle)
{
    pthread_mutex_lock(&registry.lock);
    struct binary **at = &registry.binaries;
    while (*at && (void **)*at != handle)
        at = &(*at)->next;
    struct binary *b = *at;
    if (b) {
        *at = b->next;
        forget(&registry.kernels, b);
        forget(&registry.variables, b);
        free(b); // the library stays: this is called at exit, when the driver may be gone
    }
    pthread_mutex_unlock(&registry.lock);
}

static void add(struct symbol **list, void **handle, const void *host, const char *name)
{
    struct symbol *s = calloc(1, sizeof *s);
    if (!s || !handle || !(s->name = strdup(name))) {
        free(s);
        return; // the symbol is unknown when used
    }
    s->host = host;
    s->binary = (struct binary *)handle;
    pthread_mutex_lock(&registry.lock);
    s->next = *list;
    *list = s;
    pthread_mutex_unlock(&registry.lock);
}

void __cudaRegisterFunction(void **handle, const char *host, char *device_name, const char *name,
                            int threads, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp)
{
    (void)device_name, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    add(&registry.kernels, handle, host, name);
}

void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int external,
                       size_t bytes, int constant, int global)
{
    (void)address, (void)external, (void)bytes, (void)constant, (void)global;
    add(&registry.variables, handle, host, name);
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

// Called with the lock held.
static int load(struct binary *b)
{
    if (!b->tried) {
        b->tried = 1;
        b->status = cuLibraryLoadData(&b->library, b->wrapper, NULL, NULL, 0, NULL, NULL, 0);
    }
    return b->status;
}

static struct symbol *find(struct symbol *s, const void *host)
{
    while (s && s->host != host)
        s = s->next;
    return s;
}

int runtime_kernel(const void *host, CUkernel *kernel)
{
    int result = runtime_enter();
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&registry.lock);
    struct symbol *s = find(registry.kernels, host);
    if (s && !s->kernel) {
        result = load(s->binary);
        if (result == CUDA_SUCCESS)
            result = cuLibraryGetKernel(&s->kernel, s->binary->library, s->name);
        if (result == CUDA_ERROR_NOT_FOUND)
            result = cudaErrorInvalidDeviceFunction;
    }
    *kernel = s ? s->kernel : (CUkernel)host;
    pthread_mutex_unlock(&registry.lock);
    const char *name;
    if (!s && (!host || cuKernelGetName(&name, *kernel) != CUDA_SUCCESS))
        result = cudaErrorInvalidDeviceFunction;
    return result;
}

int runtime_function(const void *host, CUfunction *function)
{
    CUkernel kernel;
    const int result = runtime_kernel(host, &kernel);
    return result == CUDA_SUCCESS ? (int)cuKernelGetFunction(function, kernel) : result;
}

int runtime_variable(const void *host, CUdeviceptr *address, size_t *bytes)
{
    int result = runtime_enter();
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&registry.lock);
    struct symbol *s = find(registry.variables, host);
    result = s ? load(s->binary) : (int)cudaErrorInvalidSymbol;
    if (result == CUDA_SUCCESS)
        result = cuLibraryGetGlobal(address, bytes, s->binary->library, s->name);
    pthread_mutex_unlock(&registry.lock);
    return result == CUDA_ERROR_NOT_FOUND ? (int)cudaErrorInvalidSymbol : result;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    return runtime_note(runtime_kernel(host, (CUkernel *)kernel));
}

PASS(cudaGetKernel, (cudaKernel_t *kernel, const void *host),
     runtime_kernel(host, (CUkernel *)kernel))
PASS(cudaGetFuncBySymbol, (cudaFunction_t *function, const void *host),
     runtime_function(host, (CUfunction *)function))

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
    CUdeviceptr at;
    const int result = runtime_variable(symbol, &at, NULL);
    if (result == CUDA_SUCCESS)
        *address = (void *)(uintptr_t)at;
    return runtime_note(result);
}

cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
    CUdeviceptr at;
    return runtime_note(runtime_variable(symbol, &at, bytes));
}

// ---- libraries by hand --------------------------------------------------------------------------

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                enum cudaJitOption *jit_options, void **jit_values,
                                unsigned int jit_count, enum cudaLibraryOption *options,
                                void **values, unsigned int count)
{
    FORWARD(cuLibraryLoadData((CUlibrary *)library, code, (CUjit_option *)jit_options, jit_values,
                              jit_count, (CUlibraryOption *)options, values, count));
}

PASS(cudaLibraryUnload, (cudaLibrary_t library), cuLibraryUnload((CUlibrary)library))
PASS(cudaLibraryGetKernel, (cudaKernel_t *kernel, cudaLibrary_t library, const char *name),
     cuLibraryGetKernel((CUkernel *)kernel, (CUlibrary)library, name))
PASS(cudaLibraryGetKernelCount, (unsigned int *count, cudaLibrary_t library),
     cuLibraryGetKernelCount(count, (CUlibrary)library))
PASS(cudaLibraryEnumerateKernels,
     (cudaKernel_t *kernels, unsigned int count, cudaLibrary_t library),
     cuLibraryEnumerateKernels((CUkernel *)kernels, count, (CUlibrary)library))

cudaError_t cudaLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library,
                                 const char *name)
{
    CUdeviceptr at;
    CUresult result = runtime_enter();
    if (result == CUDA_SUCCESS)
        result = cuLibraryGetGlobal(&at, bytes, (CUlibrary)library, name);
    if (result == CUDA_SUCCESS)
        *address = (void *)(uintptr_t)at;
    return runtime_note(result);
}
