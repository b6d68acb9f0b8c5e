// Modules: PTX text to a translated image whose variables live in the context's memory.
#define _POSIX_C_SOURCE 200809L
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "valid.h"

// ---- what was handed in -------------------------------------------------------------------------

enum { FATBIN_WRAPPER = 0x466243b1, FATBIN_PTX = 1 };
#define FATBIN_MAGIC 0xba55ed50u
#define FATBIN_LZ4  UINT64_C(0x2000)
#define FATBIN_ZSTD UINT64_C(0x8000)

// Head of a fat binary, and of each entry in it. Only what is looked at has a name.
struct fatbin_head {
    uint32_t magic;
    uint16_t version, head_bytes;
    uint64_t bytes;
};

struct fatbin_entry {
    uint16_t kind, version;
    uint32_t head_bytes;
    uint64_t bytes;                             // of the payload, which follows the head
    uint32_t packed_bytes, options;
    uint16_t minor, major;
    uint32_t arch, name_at, name_bytes;
    uint64_t flags, nothing, plain_bytes;       // of compressed text when it is unpacked
};

// The text of an entry.
static CUresult entry_text(const struct fatbin_entry *e, const uint8_t *payload, const char **text,
                           size_t *length, char **owned, const char **why)
{
    if (e->flags & (FATBIN_LZ4 | FATBIN_ZSTD)) {
        const size_t packed = e->packed_bytes < e->bytes ? e->packed_bytes : (size_t)e->bytes;
        *owned = text_unpack(e->flags & FATBIN_ZSTD ? PACKED_ZSTD : PACKED_LZ4, payload, packed,
                             e->plain_bytes, why);
        if (!*owned)
            return CUDA_ERROR_NO_BINARY_FOR_GPU;
        *text = *owned;
        *length = strnlen(*text, (size_t)e->plain_bytes);
    } else {
        *text = (const char *)payload;
        *length = strnlen(*text, e->bytes);
    }
    return CUDA_SUCCESS;
}

// Finds the newest PTX text that the part can run.
static CUresult fatbin_text(const uint8_t *data, const char **text, size_t *length, char **owned,
                            const char **why)
{
    const unsigned part = driver_part_is_b200() ? 100 : 90;
    struct fatbin_head head;
    memcpy(&head, data, sizeof head);
    const uint8_t *at = data + head.head_bytes, *end = at + head.bytes, *payload = NULL;
    struct fatbin_entry best = {0};
    *why = "the fat binary holds no PTX for this part (the emulator runs PTX, not machine code)";
    while ((size_t)(end - at) >= sizeof best) {
        struct fatbin_entry e;
        memcpy(&e, at, sizeof e);
        if (e.head_bytes < sizeof e || e.head_bytes > (size_t)(end - at) ||
            e.bytes > (size_t)(end - at) - e.head_bytes)
            break;
        if (e.kind == FATBIN_PTX && e.arch <= part && e.arch > best.arch) {
            best = e;
            payload = at + e.head_bytes;
        }
        at += e.head_bytes + e.bytes;
    }
    return payload ? entry_text(&best, payload, text, length, owned, why)
                   : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

// PTX begins with .version, perhaps behind blanks, comments and preprocessor lines.
static bool looks_like_ptx(const char *p)
{
    for (;;) {
        p += strspn(p, " \t\r\n\f\v");
        if (*p == '#' || (p[0] == '/' && p[1] == '/')) {
            p += strcspn(p, "\n");
        } else if (p[0] == '/' && p[1] == '*') {
            p = strstr(p + 2, "*/");
            if (!p)
                return false;
            p += 2;
        } else {
            return strncmp(p, ".version", 8) == 0;
        }
    }
}

CUresult image_text(const void *data, const char **text, size_t *length, char **owned,
                    const char **why)
{
    uint32_t magic;
    *owned = NULL;
    if (*(const uint8_t *)data == 0) {
        *why = "the image is empty";
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (memcmp(data, "\177ELF", strnlen(data, 4)) == 0 && strnlen(data, 4) == 4) {
        *why = "the image is a cubin: the emulator runs PTX, not machine code";
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    const uint8_t first = *(const uint8_t *)data;
    if (first == (FATBIN_WRAPPER & 0xff) || first == (FATBIN_MAGIC & 0xff)) {
        memcpy(&magic, data, sizeof magic);
        if (magic == FATBIN_WRAPPER) {
            const void *inner;
            memcpy(&inner, (const char *)data + 8, sizeof inner);
            return fatbin_text(inner, text, length, owned, why);
        }
        if (magic == FATBIN_MAGIC)
            return fatbin_text(data, text, length, owned, why);
    }
    if (looks_like_ptx(data)) {
        *text = data;
        *length = strlen(data);
        return CUDA_SUCCESS;
    }
    *why = "the image is neither PTX text nor a binary";
    return CUDA_ERROR_INVALID_IMAGE;
}

// ---- images -------------------------------------------------------------------------------------

static void write_word(uint8_t *to, unsigned bytes, uint64_t value)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static bool place_symbols(struct image *image)
{
    struct program *p = image->program;
    for (uint32_t i = 0; i < p->nsymbols; i++) {
        struct symbol *s = &p->symbols[i];
        if (s->size == 0)
            continue;
        const enum mem_kind kind = s->space == SP_CONST ? MEM_CONST : MEM_GLOBAL;
        const struct mem_block *block =
            mem_alloc(image->context->mem, s->size, s->align, kind, s->name);
        if (!block)
            return false;
        image->blocks[i] = s->address = block->base;
        if (s->init)
            memcpy(block->bytes, s->init, s->size);
        valid_fill(block->valid, 0, s->size, true); // variables without a value start as zeros
    }
    for (uint32_t i = 0; i < p->nsymbols; i++) {
        const struct symbol *s = &p->symbols[i];
        const struct mem_block *block = s->size ? mem_find(image->context->mem, s->address) : NULL;
        for (uint32_t k = 0; block && k < s->nrelocs; k++) {
            const struct reloc *r = &s->relocs[k];
            const uint64_t value =
                r->function ? FUNCTION_ADDRESS + r->index : p->symbols[r->index].address;
            write_word(block->bytes + r->offset, r->size,
                       (value + (uint64_t)r->addend) >> r->shift);
        }
    }
    return true;
}

// The name of something that is used but defined nowhere, or NULL.
static const char *unresolved(const struct program *p)
{
    for (uint32_t i = 0; i < p->nsymbols; i++)
        if (p->symbols[i].is_extern)
            return p->symbols[i].name;
    for (uint32_t i = 0; i < p->ninsts; i++)
        for (unsigned k = 0; k < p->insts[i].nopnd; k++) {
            const struct operand *o = &p->insts[i].o[k];
            const struct function *f = o->kind == OPND_FUNC ? &p->funcs[o->reg] : NULL;
            if (f && f->is_extern && f->builtin == BUILTIN_NONE)
                return f->name;
        }
    return NULL;
}

static CUresult load_code(enum load_status status)
{
    switch (status) {
    case LOAD_OK:                   return CUDA_SUCCESS;
    case LOAD_UNSUPPORTED_VERSION:  return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    case LOAD_NO_MEMORY:            return CUDA_ERROR_OUT_OF_MEMORY;
    default:                        return CUDA_ERROR_INVALID_PTX;
    }
}

CUresult image_new(struct context *ctx, const char *text, size_t length, struct image **out)
{
    const struct load_options options = {.sm = driver_part_is_b200() ? 100 : 90};
    struct load_error error = {0};
    struct program *program = NULL;
    ctx->pins++;
    pthread_mutex_unlock(&driver.lock);
    const enum load_status status = program_load(text, length, &options, &program, &error);
    pthread_mutex_lock(&driver.lock);
    if (--ctx->pins == 0)
        pthread_cond_broadcast(&driver.changed);
    if (status != LOAD_OK) {
        char report[sizeof error.file + sizeof error.message + sizeof error.text + 64];
        snprintf(report, sizeof report, "%s:%u: error: %s%s%s", error.file, error.line,
                 error.message, error.text[0] ? "\n    " : "", error.text);
        driver_report(ctx, report);
        return load_code(status);
    }
    const char *missing = unresolved(program);
    if (missing) {
        char report[512];
        snprintf(report, sizeof report, "error: %s is declared extern and defined nowhere",
                 missing);
        driver_report(ctx, report);
        program_free(program);
        return CUDA_ERROR_INVALID_PTX;
    }

    struct image *image = calloc(1, sizeof *image);
    if (!image) {
        program_free(program);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    image->refs = 1;
    image->context = ctx;
    image->program = program;
    image->next = ctx->images;
    ctx->images = image;
    image->blocks = calloc(program->nsymbols + 1, sizeof *image->blocks);
    image->funcs = calloc(program->nfuncs + 1, sizeof *image->funcs);
    if (!image->blocks || !image->funcs || !place_symbols(image)) {
        image_drop(image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = image;
    return CUDA_SUCCESS;
}

void image_drop(struct image *image)
{
    if (--image->refs > 0)
        return;
    struct image **at = image->context ? &image->context->images : NULL;
    while (at && *at != image)
        at = &(*at)->next;
    if (at)
        *at = image->next;
    for (uint32_t i = 0; at && image->blocks && i < image->program->nsymbols; i++)
        if (image->blocks[i])
            mem_free(image->context->mem, image->blocks[i]);
    free(image->blocks);
    free(image->funcs);
    program_free(image->program);
    free(image);
}

// ---- modules ------------------------------------------------------------------------------------

CUresult module_load(struct context *ctx, const char *text, size_t length, struct module **out)
{
    struct module *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = image_new(ctx, text, length, &m->image);
    if (result != CUDA_SUCCESS) {
        free(m);
        return result;
    }
    m->context = ctx;
    m->handle = handle_new(HANDLE_MODULE, m);
    if (!m->handle) {
        image_drop(m->image);
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < m->image->program->nfuncs; i++)
        func_init(&m->image->funcs[i], m->image, m, &m->image->program->funcs[i]);
    m->next = ctx->modules;
    ctx->modules = m;
    *out = m;
    return CUDA_SUCCESS;
}

void module_free(struct module *m)
{
    struct module **at = &m->context->modules;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    handle_drop(m->handle);
    for (uint32_t i = 0; i < m->image->program->nfuncs; i++) {
        struct func *f = &m->image->funcs[i];
        if (f->handle)
            handle_drop(f->handle);
        f->module = NULL;
        f->kernel = NULL;
    }
    image_drop(m->image);               // launches still queued keep it
    free(m);
}

struct func *module_function(struct module *m, const char *name)
{
    const struct function *function = program_find(m->image->program, name);
    if (!function || !function->entry)
        return NULL;
    struct func *f = &m->image->funcs[function - m->image->program->funcs];
    if (!f->handle)
        f->handle = handle_new(HANDLE_FUNCTION, f);
    return f->handle ? f : NULL;
}

// ---- logs of the translator ---------------------------------------------------------------------

struct logs {
    char *text[2];                      // error, info
    size_t room[2];
    void **size[2];                     // where the length written is returned
};

static CUresult read_options(unsigned count, CUjit_option *options, void **values,
                             struct logs *logs)
{
    if (count && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        switch (options[i]) {
        case CU_JIT_ERROR_LOG_BUFFER:
            logs->text[0] = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER:
            logs->text[1] = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            logs->room[0] = (uint32_t)(uintptr_t)values[i];
            logs->size[0] = &values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            logs->room[1] = (uint32_t)(uintptr_t)values[i];
            logs->size[1] = &values[i];
            break;
        default:
            if ((unsigned)options[i] >= CU_JIT_NUM_OPTIONS)
                return CUDA_ERROR_INVALID_VALUE;
        }
    return CUDA_SUCCESS;
}

static void write_logs(const struct logs *logs, const char *error)
{
    for (int i = 0; i < 2; i++) {
        size_t used = 0;
        if (logs->text[i] && logs->room[i]) {
            snprintf(logs->text[i], logs->room[i], "%s", i == 0 && error ? error : "");
            used = strlen(logs->text[i]);
        }
        if (logs->size[i])
            *logs->size[i] = (void *)(uintptr_t)used;
    }
}

static CUresult load_data(struct context *ctx, CUmodule *out, const void *data, unsigned count,
                          CUjit_option *options, void **values)
{
    struct logs logs = {0};
    const char *text = NULL, *why = NULL;
    char *owned = NULL;
    size_t length = 0;
    struct module *m = NULL;
    if (!out || !data)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = read_options(count, options, values, &logs);
    if (result == CUDA_SUCCESS)
        result = capture_forbids();
    if (result != CUDA_SUCCESS)
        return result;
    result = image_text(data, &text, &length, &owned, &why);
    if (result == CUDA_SUCCESS)
        result = module_load(ctx, text, length, &m);
    else
        driver_report(ctx, why);
    free(owned);
    write_logs(&logs, result == CUDA_SUCCESS ? NULL : ctx->report);
    if (result == CUDA_SUCCESS)
        *out = m->handle;
    return result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    IN_HEALTHY(load_data(ctx, module, image, 0, NULL, NULL));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                            CUjit_option *options, void **values)
{
    IN_HEALTHY(load_data(ctx, module, image, count, options, values));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    IN_HEALTHY(load_data(ctx, module, image, 0, NULL, NULL));
}

CUresult file_read(const char *path, char **data)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long size = -1;
    if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0)
        text = calloc(1, (size_t)size + 16);            // ends in zeros, whatever it is
    const bool ok = text && fread(text, 1, (size_t)size, f) == (size_t)size;
    if (f)
        fclose(f);
    if (!ok) {
        free(text);
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    *data = text;
    return CUDA_SUCCESS;
}

static CUresult load_file(struct context *ctx, CUmodule *out, const char *path)
{
    char *data;
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = file_read(path, &data);
    if (result != CUDA_SUCCESS)
        return result;
    result = load_data(ctx, out, data, 0, NULL, NULL);
    free(data);
    return result;
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    IN_HEALTHY(load_file(ctx, module, path));
}

static CUresult unload(CUmodule handle)
{
    struct module *m = handle_find(HANDLE_MODULE, handle);
    if (!m || m->library)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = capture_forbids();
    if (result != CUDA_SUCCESS)
        return result;
    struct context *owner = m->context;
    owner->pins++;
    stream_pump(owner, true);
    context_quiet(owner);
    if (--owner->pins == 0)
        pthread_cond_broadcast(&driver.changed);
    m = handle_find(HANDLE_MODULE, handle);             // the lock was dropped
    if (m)
        module_free(m);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    IN_HEALTHY(unload(module));
}

static CUresult get_function(CUfunction *out, CUmodule handle, const char *name)
{
    struct module *m = handle_find(HANDLE_MODULE, handle);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    const struct func *f = module_function(m, name);
    if (!f)
        return CUDA_ERROR_NOT_FOUND;
    *out = f->handle;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    IN_HEALTHY(get_function(function, module, name));
}

CUresult module_global(const struct module *m, CUdeviceptr *address, size_t *bytes,
                       const char *name)
{
    if (!name || (!address && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    const struct symbol *s = program_symbol(m->image->program, name);
    if (!s || s->is_function_local)
        return CUDA_ERROR_NOT_FOUND;
    if (address)
        *address = s->address;
    if (bytes)
        *bytes = s->size;
    return CUDA_SUCCESS;
}

static CUresult get_global(CUdeviceptr *address, size_t *bytes, CUmodule handle, const char *name)
{
    const struct module *m = handle_find(HANDLE_MODULE, handle);
    return m ? module_global(m, address, bytes, name) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                              const char *name)
{
    IN_HEALTHY(get_global(address, bytes, module, name));
}

static CUresult loading_mode(CUmoduleLoadingMode *mode)
{
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    IN_DRIVER(loading_mode(mode));
}

static unsigned kernels_of(const struct program *p)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < p->nfuncs; i++)
        n += p->funcs[i].entry;
    return n;
}

static CUresult function_count(unsigned *count, CUmodule handle)
{
    const struct module *m = handle_find(HANDLE_MODULE, handle);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = kernels_of(m->image->program);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    IN_HEALTHY(function_count(count, module));
}

static CUresult enumerate(CUfunction *functions, unsigned count, CUmodule handle)
{
    struct module *m = handle_find(HANDLE_MODULE, handle);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!functions)
        return CUDA_ERROR_INVALID_VALUE;
    const struct program *p = m->image->program;
    unsigned n = 0;
    for (uint32_t i = 0; i < p->nfuncs && n < count; i++)
        if (p->funcs[i].entry) {
            const struct func *f = module_function(m, p->funcs[i].name);
            if (!f)
                return CUDA_ERROR_OUT_OF_MEMORY;
            functions[n++] = f->handle;
        }
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule module)
{
    IN_HEALTHY(enumerate(functions, count, module));
}
