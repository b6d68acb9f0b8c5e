/* images.c -- the embedded cubins. */
#include "images.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "hashes.h"
#include "sha256.h"

/* The bytes of every cubin, between two labels. Made without an assembler for PTX a cubin is an
 * empty file. */
#define KERNEL(sm, suffix, source, name, ...)                                                     \
    extern const unsigned char ptxmm_image_##sm##_##name[] __attribute__((visibility("hidden"))); \
    extern const unsigned char ptxmm_image_##sm##_##name##_end[]                                  \
        __attribute__((visibility("hidden")));                                                    \
    __asm__(".pushsection .rodata.ptxmm_images, \"a\"\n"                                          \
            ".balign 64\n"                                                                        \
            ".globl ptxmm_image_" #sm "_" #name "\n"                                              \
            ".hidden ptxmm_image_" #sm "_" #name "\n"                                             \
            "ptxmm_image_" #sm "_" #name ":\n"                                                    \
            ".incbin \"cubin/sm" #sm "_" #name ".cubin\"\n"                                       \
            ".globl ptxmm_image_" #sm "_" #name "_end\n"                                          \
            ".hidden ptxmm_image_" #sm "_" #name "_end\n"                                         \
            "ptxmm_image_" #sm "_" #name "_end:\n"                                                \
            ".byte 0\n"                                                                           \
            ".popsection\n");
#include "ptx/kernels.def"
#undef KERNEL

static const struct image {
    const unsigned char *bytes, *end;
    const char *sha256;
} images[KERNEL_COUNT] = {
#define KERNEL(sm, suffix, source, name, ...) \
    { ptxmm_image_##sm##_##name, ptxmm_image_##sm##_##name##_end, SHA256_sm##sm##_##name },
#include "ptx/kernels.def"
#undef KERNEL
};

static size_t image_size(size_t index)
{
    return (size_t)((uintptr_t)images[index].end - (uintptr_t)images[index].bytes);
}

enum ptxmm_status ptxmm_kernel_image(size_t index, struct ptxmm_image *image,
                                     struct ptxmm_error *error)
{
    if (!image)
        return error_set(error, PTXMM_ERROR_ARGUMENT,
                         "image is NULL, must point to where the result goes");
    *image = (struct ptxmm_image){ 0 };
    if (index >= KERNEL_COUNT)
        return error_set(error, PTXMM_ERROR_ARGUMENT, "index is %zu, must be less than %d", index,
                         (int)KERNEL_COUNT);
    if (image_size(index) == 0)
        return error_set(error, PTXMM_ERROR_IMAGE,
                         "%s: the image is missing: this library was built without ptxas",
                         ptxmm_kernel(index)->name);
    *image = (struct ptxmm_image){ images[index].bytes, image_size(index), images[index].sha256 };
    return error_none(error);
}

/* ---- files --------------------------------------------------------------------------------- */

/* Reads <dir>/<kernel name>.<extension> whole into memory that the caller frees, with a 0 behind
 * it. */
static enum ptxmm_status read_file(const char *dir, const char *name, const char *extension,
                                   char **bytes, size_t *size, struct ptxmm_error *error)
{
    *bytes = NULL;
    size_t length = strlen(dir) + strlen(name) + strlen(extension) + 3;
    char *path = malloc(length);
    if (!path)
        return error_set(error, PTXMM_ERROR_MEMORY, "no memory for a path (%zu bytes)", length);
    snprintf(path, length, "%s/%s.%s", dir, name, extension);

    enum ptxmm_status status = PTXMM_OK;
    size_t capacity = 0;
    *size = 0;
    FILE *file = fopen(path, "rbe");
    if (!file) {
        status = error_set(error, PTXMM_ERROR_IMAGE, "%s: the image is missing: %s: %s", name, path,
                           strerror(errno));
        free(path);
        return status;
    }
    do {
        if (*size + 1 >= capacity) {
            capacity = capacity ? 2 * capacity : 64 * 1024;
            char *larger = realloc(*bytes, capacity);
            if (!larger) {
                status = error_set(error, PTXMM_ERROR_MEMORY, "no memory for %s (%zu bytes)", path,
                                   capacity);
                break;
            }
            *bytes = larger;
        }
        errno = 0;
        *size += fread(*bytes + *size, 1, capacity - 1 - *size, file);
    } while (!feof(file) && !ferror(file));
    if (!status && ferror(file))
        status = error_set(error, PTXMM_ERROR_IMAGE, "%s: the image cannot be read: %s: %s", name,
                           path, strerror(errno));
    fclose(file);
    free(path);
    if (status) {
        free(*bytes);
        *bytes = NULL;
    } else {
        (*bytes)[*size] = '\0';
    }
    return status;
}

/* ---- loading ------------------------------------------------------------------------------- */

static enum ptxmm_status check_image(size_t index, const void *bytes, size_t size,
                                     struct ptxmm_error *error)
{
    const char *name = ptxmm_kernel(index)->name;
    if (size < image_size(index))
        return error_set(error, PTXMM_ERROR_IMAGE,
                         "%s: the image is truncated: %zu bytes, must be %zu", name, size,
                         image_size(index));
    char hex[65];
    sha256(bytes, size, hex);
    if (strcmp(hex, images[index].sha256))
        return error_set(error, PTXMM_ERROR_IMAGE, "%s: wrong checksum: sha256 is %s, must be %s",
                         name, hex, images[index].sha256);
    return PTXMM_OK;
}

/* What a driver answers when the fault is in the image, so that other images may still serve. */
static int is_image_fault(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_NOT_FOUND: return 1;
    default: return 0;
    }
}

/* Gives text or a cubin to the driver. `result` is what it said, for the caller to try something
 * else. */
static enum ptxmm_status offer(struct ptxmm *mm, size_t index, const void *code, const char *what,
                               CUlibrary *library, CUresult *result, struct ptxmm_error *error)
{
    const char *name = ptxmm_kernel(index)->name;
    char log[512] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)(uintptr_t)(sizeof log - 1) };
    *library = NULL;
    *result = mm->driver.LibraryLoadData(library, code, options, values, 2, NULL, NULL, 0);
    if (*result == CUDA_SUCCESS) {
        pack_log(mm, "loaded %s from %s", name, what);
        return PTXMM_OK;
    }
    *library = NULL;
    enum ptxmm_status status =
        driver_failed(&mm->driver, error, *result, "cuLibraryLoadData(%s, %s)", name, what);
    if (status != PTXMM_ERROR_DRIVER || !is_image_fault(*result))
        return status;
    status =
        error_set(error, PTXMM_ERROR_IMAGE, "%s: cuLibraryLoadData refused %s with %s (%d)%s%.*s",
                  name, what, driver_result_name(&mm->driver, *result), (int)*result,
                  log[0] ? ": " : "", (int)sizeof log, log);
    if (error)
        error->driver_result = (int)*result;
    return status;
}

static enum ptxmm_status offer_cubin(struct ptxmm *mm, size_t index, CUlibrary *library,
                                     CUresult *result, struct ptxmm_error *error)
{
    const void *bytes = images[index].bytes;
    size_t size = image_size(index);
    char *file = NULL;
    if (mm->image_dir) {
        enum ptxmm_status status =
            read_file(mm->image_dir, ptxmm_kernel(index)->name, "cubin", &file, &size, error);
        if (status)
            return status;
        bytes = file;
    } else if (size == 0) {
        *result = CUDA_ERROR_NO_BINARY_FOR_GPU; // the same remedy helps
        return error_set(error, PTXMM_ERROR_IMAGE,
                         "%s: the image is missing: this library was built without ptxas",
                         ptxmm_kernel(index)->name);
    }
    enum ptxmm_status status = check_image(index, bytes, size, error);
    if (!status)
        status = offer(mm, index, bytes, "its cubin", library, result, error);
    free(file);
    return status;
}

/* A driver that runs no cubins, like an emulator, or a kernel under work: the text of the kernel,
 * if a folder was named. *error says why the cubin would not do. */
static enum ptxmm_status offer_ptx(struct ptxmm *mm, size_t index, CUlibrary *library,
                                   struct ptxmm_error *error)
{
    char *text = NULL;
    if (!mm->ptx_dir) {
        size_t length = error ? strlen(error->text) : 0;
        if (error)
            snprintf(error->text + length, sizeof error->text - length,
                     "; no folder with its PTX was named (options.ptx_dir, PTXMM_PTX_DIR)");
        return PTXMM_ERROR_IMAGE;
    }
    size_t size;
    enum ptxmm_status status =
        read_file(mm->ptx_dir, ptxmm_kernel(index)->name, "ptx", &text, &size, error);
    if (status)
        return status;
    CUresult result;
    status = offer(mm, index, text, "its PTX", library, &result, error);
    free(text);
    return status;
}

enum ptxmm_status image_load(struct ptxmm *mm, size_t index, CUkernel *kernel,
                             struct ptxmm_error *error)
{
    struct slot *slot = &mm->slots[index];
    const char *name = ptxmm_kernel(index)->name;
    enum ptxmm_status status = PTXMM_OK;
    *kernel = NULL;
    pthread_mutex_lock(&slot->lock);
    if (!slot->library) {
        CUlibrary library = NULL;
        CUresult result = CUDA_SUCCESS;
        status = offer_cubin(mm, index, &library, &result, error);
        if (status == PTXMM_ERROR_IMAGE && result == CUDA_ERROR_NO_BINARY_FOR_GPU)
            status = offer_ptx(mm, index, &library, error);
        if (!status) {
            CUkernel found = NULL;
            result = mm->driver.LibraryGetKernel(&found, library, name);
            if (result == CUDA_SUCCESS) {
                slot->library = library;
                slot->kernel = found;
            } else {
                status = driver_failed(&mm->driver, error, result, "cuLibraryGetKernel(%s)", name);
                mm->driver.LibraryUnload(library);
            }
        }
    }
    *kernel = slot->kernel;
    pthread_mutex_unlock(&slot->lock);
    return status;
}

enum ptxmm_status image_function(struct ptxmm *mm, size_t index, CUdevice device,
                                 CUfunction *function, struct ptxmm_error *error)
{
    const struct ptxmm_kernel_info *info = ptxmm_kernel(index);
    CUkernel kernel;
    *function = NULL;
    enum ptxmm_status status = image_load(mm, index, &kernel, error);
    if (status)
        return status;
    // The limit belongs to kernel and device; setting it again does no harm, so nothing remembers
    // where it was set.
    const struct driver *driver = &mm->driver;
    CUresult result = driver->KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                 (int)info->shared_bytes, kernel, device);
    if (result)
        return driver_failed(driver, error, result,
                             "cuKernelSetAttribute(%s, MAX_DYNAMIC_SHARED_SIZE_BYTES, %u)",
                             info->name, info->shared_bytes);
    // Loading lazily at the first launch could fail inside a stream capture; this is the time for
    // it.
    CUfunction found = NULL;
    result = driver->KernelGetFunction(&found, kernel);
    if (result)
        return driver_failed(driver, error, result, "cuKernelGetFunction(%s)", info->name);
    result = driver->FuncLoad(found);
    if (result)
        return driver_failed(driver, error, result, "cuFuncLoad(%s)", info->name);
    *function = found;
    return PTXMM_OK;
}

enum ptxmm_status image_unload(struct ptxmm *mm, size_t index, struct ptxmm_error *error)
{
    struct slot *slot = &mm->slots[index];
    if (!slot->library)
        return PTXMM_OK;
    CUresult result = mm->driver.LibraryUnload(slot->library);
    slot->library = NULL;
    slot->kernel = NULL;
    // At exit the driver may be gone before us, and with it the kernels.
    if (result && result != CUDA_ERROR_DEINITIALIZED)
        return driver_failed(&mm->driver, error, result, "cuLibraryUnload(%s)",
                             ptxmm_kernel(index)->name);
    return PTXMM_OK;
}
