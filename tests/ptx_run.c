/*
 * Runs the small PTX programs of tests/ptx through a driver library and holds the results against
 * the expectations in their heads: `ptx_run [file.ptx ...]`, all of tests/ptx without arguments.
 *
 * The driver is the emulator beside this program, or what PTXMM_DRIVER names; programs that must
 * trap run on the emulator only, for a GPU need not notice. A driver that has no device is skipped,
 * and so is a program for another architecture than the device's.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <cuda.h>

#include "cli/ptx_case.h"
#include "cli/text.h"

#define ENTRIES(X) \
    X(cuInit, (unsigned)) \
    X(cuDeviceGet, (CUdevice *, int)) \
    X(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice)) \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice)) \
    X(cuDevicePrimaryCtxReset_v2, (CUdevice)) \
    X(cuCtxSetCurrent, (CUcontext)) \
    X(cuCtxSynchronize, (void)) \
    X(cuModuleLoadData, (CUmodule *, const void *)) \
    X(cuModuleUnload, (CUmodule)) \
    X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
    X(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int)) \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
    X(cuMemFree_v2, (CUdeviceptr)) \
    X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t)) \
    X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t)) \
    X(cuTensorMapEncodeTiled, (CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, \
                               const cuuint64_t *, const cuuint64_t *, const cuuint32_t *, \
                               const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, \
                               CUtensorMapL2promotion, CUtensorMapFloatOOBfill)) \
    X(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **)) \
    X(cuGetErrorName, (CUresult, const char **))

struct driver {
    void *library;
    const char *missing;                    /* why nothing can run, or NULL */
    CUdevice device;
    const char *(*report)(void);            /* the emulator's, or NULL */
#define X(name, args) CUresult (*name) args;
    ENTRIES(X)
#undef X
};

struct program {
    const char *path;
    const struct driver *driver;
};

/* ---- driver --------------------------------------------------------------------------------- */

static void *open_library(void)
{
    const char *name = getenv("PTXMM_DRIVER");
    char path[4200];
    ssize_t n;
    char *slash;

    if (name && *name && strcmp(name, "emulator"))
        return dlopen(name, RTLD_NOW | RTLD_LOCAL);
    n = readlink("/proc/self/exe", path, 4095);
    if (n <= 0)
        return NULL;
    path[n] = 0;
    slash = strrchr(path, '/');
    strcpy(slash ? slash : path, "/../lib/libptxmm_emulator.so");
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void find(void *library, const char *name, void *slot, const char **missing)
{
    void *symbol = dlsym(library, name);

    if (!symbol)
        *missing = name;
    memcpy(slot, &symbol, sizeof symbol);
}

static void open_driver(struct driver *d)
{
    d->library = open_library();
    if (!d->library) {
        d->missing = "no driver library";
        return;
    }
#define X(name, args) find(d->library, #name, &d->name, &d->missing);
    ENTRIES(X)
#undef X
    if (d->missing)
        return;

    const char *none;

    find(d->library, "ptxmmEmulatorReport", &d->report, &none);
    if (d->cuInit(0) || d->cuDeviceGet(&d->device, 0))
        d->missing = "the driver has no device";
}

/* ---- one program ---------------------------------------------------------------------------- */

struct run {
    const struct program *program;
    const struct driver *d;
    struct ptx_case c;
    char *text;
    CUmodule module;
    CUdeviceptr buffer[PTX_ARGS];
    void *initial[PTX_ARGS];                /* what the host knows of the argument */
    void *result[PTX_ARGS];
    CUtensorMap map[PTX_ARGS];
    bool context;
};

static const char *error_name(const struct driver *d, CUresult code)
{
    const char *name = NULL;

    if (d->cuGetErrorName(code, &name) || !name)
        name = "unknown error";
    return name;
}

static void check(struct run *r, CUresult code, const char *what)
{
    if (code)
        fail_msg("%s: %s%s%s", what, error_name(r->d, code), r->d->report ? "\n" : "",
                 r->d->report ? r->d->report() : "");
}

#define DO(call, ...) check(r, r->d->call(__VA_ARGS__), #call)

static void encode(struct run *r, unsigned i)
{
    const struct ptx_map *m = &r->c.arg[i].map;

    DO(cuTensorMapEncodeTiled, &r->map[i], (CUtensorMapDataType)m->type, m->rank,
       (void *)(uintptr_t)r->buffer[m->buffer], m->dim, m->pitch, m->box, m->step,
       CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)m->swizzle,
       CU_TENSOR_MAP_L2_PROMOTION_NONE, (CUtensorMapFloatOOBfill)m->fill);
}

static void prepare(struct run *r)
{
    char message[512];

    for (unsigned i = 0; i < r->c.nargs; i++) {
        const struct ptx_arg *arg = &r->c.arg[i];
        const size_t size = ptx_arg_size(arg);
        const struct ptx_values values = {&r->c, r->initial};

        if (arg->init) {
            void *bytes = malloc(size);

            assert_non_null(bytes);
            if (!ptx_case_fill(&values, i, bytes, message, sizeof message)) {
                free(bytes);
                fail_msg("%s", message);
            }
            r->initial[i] = bytes;
        }
        if (arg->count) {
            r->result[i] = malloc(size);
            assert_non_null(r->result[i]);
            DO(cuMemAlloc_v2, &r->buffer[i], size);
            if (arg->init)
                DO(cuMemcpyHtoD_v2, r->buffer[i], r->initial[i], size);
        }
        if (arg->is_map)
            encode(r, i);
    }
}

static CUresult launch(struct run *r)
{
    const struct ptx_case *c = &r->c;
    void *params[PTX_ARGS];
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    CUlaunchConfig config = {
        .gridDimX = c->grid[0], .gridDimY = c->grid[1], .gridDimZ = c->grid[2],
        .blockDimX = c->block[0], .blockDimY = c->block[1], .blockDimZ = c->block[2],
        .sharedMemBytes = c->smem, .attrs = &cluster, .numAttrs = c->cluster[0] ? 1 : 0,
    };
    CUfunction function;
    CUresult code;
    unsigned n = 0;

    cluster.value.clusterDim.x = c->cluster[0];
    cluster.value.clusterDim.y = c->cluster[1];
    cluster.value.clusterDim.z = c->cluster[2];
    for (unsigned i = 0; i < c->nargs; i++)
        if (!c->arg[i].hidden)
            params[n++] = c->arg[i].is_map ? (void *)&r->map[i]
                        : c->arg[i].count ? (void *)&r->buffer[i] : r->initial[i];
    DO(cuModuleGetFunction, &function, r->module, c->kernel);
    if (c->smem > 48 * 1024)
        DO(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
           (int)c->smem);
    code = r->d->cuLaunchKernelEx(&config, function, params, NULL);
    return code ? code : r->d->cuCtxSynchronize();
}

static void must_trap(struct run *r, CUresult code)
{
    const char *report = r->d->report();

    if (!code)
        fail_msg("ran to its end, a trap was expected: %s", r->c.trap);
    if (!strstr(report, r->c.trap))
        fail_msg("%s; the report does not say '%s':\n%s", error_name(r->d, code), r->c.trap,
                 report);
}

static void must_match(struct run *r, CUresult code)
{
    const struct ptx_values values = {&r->c, r->initial};
    char message[512];

    check(r, code, "launch");
    for (unsigned i = 0; i < r->c.nargs; i++)
        if (r->c.arg[i].count)
            DO(cuMemcpyDtoH_v2, r->result[i], r->buffer[i], ptx_arg_size(&r->c.arg[i]));
    if (!ptx_case_check(&values, r->result, message, sizeof message))
        fail_msg("%s", message);
}

/* Does the program's .target include the device? sm_90 and everything newer, sm_90a exactly that,
 * sm_100f its family. */
static bool runs_here(struct run *r, char *target, size_t size)
{
    const char *at = strstr(r->text, "\n.target sm_");
    int major = 0, minor = 0, arch = 0;
    char suffix = 0;

    if (!at)
        fail_msg("%s: there is no .target", r->program->path);
    snprintf(target, size, "%.*s", (int)strcspn(at + 9, ", \n"), at + 9);
    sscanf(target, "sm_%d%c", &arch, &suffix);
    DO(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, r->d->device);
    DO(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, r->d->device);
    return suffix == 'a' ? arch == 10 * major + minor
         : suffix == 'f' ? arch / 10 == major && arch % 10 <= minor : arch <= 10 * major + minor;
}

/* Does the emulator follow the rules that the program is for? A GPU has none to choose. */
static bool rules_apply(const struct run *r)
{
    const char *rules = getenv("PTXMM_EMU_RULES");
    const bool any = rules && *rules;

    if (!*r->c.rules || !r->d->report)
        return true;
    return strcmp(r->c.rules, "none") ? any && strstr(rules, r->c.rules) : !any;
}

static void test_program(void **state)
{
    struct run *r = *state;
    CUcontext context;
    char message[512], target[32];

    if (r->d->missing) {
        print_message("skipped: %s\n", r->d->missing);
        skip();
    }
    r->text = text_read(r->program->path, NULL);
    if (!r->text)
        fail_msg("%s: cannot be read", r->program->path);
    if (!ptx_case_parse(&r->c, r->text, message, sizeof message))
        fail_msg("%s: %s", r->program->path, message);
    if (r->c.trap && !r->d->report) {
        print_message("skipped: only the emulator need notice\n");
        skip();
    }
    if (!rules_apply(r)) {
        print_message("skipped: for PTXMM_EMU_RULES=%s\n", r->c.rules);
        skip();
    }
    if (!runs_here(r, target, sizeof target)) {
        print_message("skipped: the device is not of %s\n", target);
        skip();
    }
    DO(cuDevicePrimaryCtxRetain, &context, r->d->device);
    r->context = true;
    DO(cuCtxSetCurrent, context);
    DO(cuModuleLoadData, &r->module, r->text);
    prepare(r);
    if (r->c.trap)
        must_trap(r, launch(r));
    else
        must_match(r, launch(r));
}

static int set_up(void **state)
{
    struct run *r = aligned_alloc(128, sizeof *r);      /* a tensor map has an alignment */

    if (!r)
        return -1;
    memset(r, 0, sizeof *r);
    r->program = *state;
    r->d = r->program->driver;
    *state = r;
    return 0;
}

/* A trap spoils the context, so each program gets a fresh one. */
static int tear_down(void **state)
{
    struct run *r = *state;

    if (r->context) {
        for (unsigned i = 0; i < r->c.nargs; i++)
            if (r->buffer[i])
                (void)r->d->cuMemFree_v2(r->buffer[i]);
        if (r->module)
            (void)r->d->cuModuleUnload(r->module);
        (void)r->d->cuCtxSetCurrent(NULL);
        (void)r->d->cuDevicePrimaryCtxRelease_v2(r->d->device);
        (void)r->d->cuDevicePrimaryCtxReset_v2(r->d->device);
    }
    for (unsigned i = 0; i < PTX_ARGS; i++) {
        free(r->initial[i]);
        free(r->result[i]);
    }
    ptx_case_free(&r->c);
    free(r->text);
    free(r);
    return 0;
}

int main(int argc, char **argv)
{
    struct driver driver = {0};
    glob_t found = {0};
    struct program *programs;
    struct CMUnitTest *tests;
    size_t n;
    int failed;

    if (argc > 1) {
        n = (size_t)argc - 1;
        argv++;
    } else {
        if (glob("tests/ptx/*.ptx", 0, NULL, &found)) {
            fprintf(stderr, "tests/ptx: no programs; run me in the root of the source\n");
            return 1;
        }
        n = found.gl_pathc;
        argv = found.gl_pathv;
    }
    open_driver(&driver);
    programs = calloc(n, sizeof *programs);
    tests = calloc(n, sizeof *tests);
    if (!programs || !tests)
        return 1;
    for (size_t i = 0; i < n; i++) {
        const char *slash = strrchr(argv[i], '/');

        programs[i] = (struct program){argv[i], &driver};
        tests[i] = (struct CMUnitTest){
            .name = slash ? slash + 1 : argv[i], .test_func = test_program,
            .setup_func = set_up, .teardown_func = tear_down, .initial_state = &programs[i],
        };
    }
    failed = _cmocka_run_group_tests("ptx", tests, n, NULL, NULL);
    free(programs);
    free(tests);
    globfree(&found);
    return failed;
}
