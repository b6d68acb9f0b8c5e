/* cmd_emulate.c -- `ptxmm emulate FILE.ptx`: runs one kernel as the comments at its head say, see
 * ptx_case.h, and shows what came out. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_case.h"
#include "session.h"
#include "text.h"

enum { SHOWN = 16 }; /* elements of a buffer that people see */

struct run {
    const struct options *options;
    struct session session;
    struct ptx_case c;
    char *text;
    CUmodule module;
    CUdeviceptr buffer[PTX_ARGS];
    void *initial[PTX_ARGS]; /* what the host knows of the argument */
    void *result[PTX_ARGS];
    CUtensorMap map[PTX_ARGS];
    char message[1024];
};

/* ---- the device's side ---- */

static bool encode(struct run *r, unsigned i)
{
    struct gpu *gpu = &r->session.gpu;
    const struct ptx_map *m = &r->c.arg[i].map;
    return gpu_ok(gpu,
                  gpu->TensorMapEncodeTiled(
                      &r->map[i], (CUtensorMapDataType)m->type, m->rank,
                      (void *)(uintptr_t)r->buffer[m->buffer], m->dim, m->pitch, m->box, m->step,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)m->swizzle,
                      CU_TENSOR_MAP_L2_PROMOTION_NONE, (CUtensorMapFloatOOBfill)m->fill),
                  "cuTensorMapEncodeTiled");
}

/* Buffers, their first values, scalars and maps. False: what was wrong is in r->message, or in the
 * gpu's error. */
static bool prepare(struct run *r)
{
    struct gpu *gpu = &r->session.gpu;
    const struct ptx_values values = { &r->c, r->initial };
    for (unsigned i = 0; i < r->c.nargs; i++) {
        const struct ptx_arg *arg = &r->c.arg[i];
        const size_t size = ptx_arg_size(arg);
        if (arg->init) {
            void *bytes = malloc(size);
            if (!bytes || !ptx_case_fill(&values, i, bytes, r->message, sizeof r->message)) {
                if (!bytes)
                    snprintf(r->message, sizeof r->message, "host memory is exhausted");
                free(bytes);
                return false;
            }
            r->initial[i] = bytes;
        }
        if (arg->count) {
            r->buffer[i] = gpu_alloc(gpu, size);
            if (!r->buffer[i] ||
                (arg->init && !gpu_upload(gpu, r->buffer[i], r->initial[i], size)))
                return false;
        }
        if (arg->is_map && !encode(r, i))
            return false;
    }
    return true;
}

static bool launch(struct run *r)
{
    struct gpu *gpu = &r->session.gpu;
    const struct ptx_case *c = &r->c;
    CUlaunchAttribute cluster = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
    cluster.value.clusterDim.x = c->cluster[0];
    cluster.value.clusterDim.y = c->cluster[1];
    cluster.value.clusterDim.z = c->cluster[2];
    const CUlaunchConfig config = {
        .gridDimX = c->grid[0],
        .gridDimY = c->grid[1],
        .gridDimZ = c->grid[2],
        .blockDimX = c->block[0],
        .blockDimY = c->block[1],
        .blockDimZ = c->block[2],
        .sharedMemBytes = c->smem,
        .attrs = &cluster,
        .numAttrs = c->cluster[0] ? 1 : 0,
    };
    void *parameters[PTX_ARGS];
    unsigned n = 0;
    for (unsigned i = 0; i < c->nargs; i++)
        if (!c->arg[i].hidden)
            parameters[n++] = c->arg[i].is_map  ? (void *)&r->map[i]
                              : c->arg[i].count ? (void *)&r->buffer[i]
                                                : r->initial[i];
    CUfunction function;
    return gpu_ok(gpu, gpu->ModuleGetFunction(&function, r->module, c->kernel),
                  "cuModuleGetFunction") &&
           (c->smem <= 48 * 1024 ||
            gpu_ok(gpu,
                   gpu->FuncSetAttribute(function,
                                         CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         (int)c->smem),
                   "cuFuncSetAttribute")) &&
           gpu_ok(gpu, gpu->LaunchKernelEx(&config, function, parameters, NULL),
                  "cuLaunchKernelEx") &&
           gpu_ok(gpu, gpu->CtxSynchronize(), "waiting for the kernel");
}

static bool fetch(struct run *r)
{
    for (unsigned i = 0; i < r->c.nargs; i++) {
        const size_t size = ptx_arg_size(&r->c.arg[i]);
        if (!r->c.arg[i].count)
            continue;
        r->result[i] = malloc(size);
        if (!r->result[i]) {
            snprintf(r->message, sizeof r->message, "host memory is exhausted");
            return false;
        }
        if (!gpu_download(&r->session.gpu, r->result[i], r->buffer[i], size))
            return false;
    }
    return true;
}

/* ---- for people and for scripts ---- */

static void show(const struct run *r)
{
    for (unsigned i = 0; i < r->c.nargs; i++) {
        const struct ptx_arg *arg = &r->c.arg[i];
        if (!arg->count)
            continue;
        printf("%-8s %s[%zu]:", arg->name, ptx_type_name(arg->type), arg->count);
        for (size_t k = 0; k < arg->count && k < SHOWN; k++) {
            char number[64];
            ptx_case_print(arg->type, r->result[i], k, number, sizeof number);
            printf(" %s", number);
        }
        printf(arg->count > SHOWN ? " ...\n" : "\n");
    }
}

static json_t *buffers(const struct run *r)
{
    json_t *all = json_object();
    for (unsigned i = 0; i < r->c.nargs; i++) {
        const struct ptx_arg *arg = &r->c.arg[i];
        if (!arg->count || !r->result[i])
            continue;
        json_t *list = json_array();
        for (size_t k = 0; k < arg->count; k++) {
            char number[64];
            ptx_case_print(arg->type, r->result[i], k, number, sizeof number);
            json_array_append_new(list, json_string(number));
        }
        json_object_set_new(all, arg->name, list);
    }
    return all;
}

/* What came of it: 0 as the head says, 1 not. */
static int verdict(struct run *r, bool ran)
{
    const char *report = gpu_report(&r->session.gpu);
    const struct ptx_values values = { &r->c, r->initial };
    bool right;
    if (r->c.trap) {
        right = !ran && strstr(report, r->c.trap);
        if (!right)
            snprintf(r->message, sizeof r->message, "a trap with the words \"%s\" was expected, %s",
                     r->c.trap, ran ? "but the kernel ran to its end" : "not this one");
    } else {
        right = ran && ptx_case_check(&values, r->result, r->message, sizeof r->message);
        if (!ran)
            snprintf(r->message, sizeof r->message, "%s", r->session.gpu.error);
    }
    if (r->options->json) {
        json_t *o = json_pack("{s:s, s:s, s:b, s:b, s:s, s:s, s:o}", "file", r->options->file,
                              "kernel", r->c.kernel, "right", right, "ran", ran, "message",
                              right ? "" : r->message, "report", report, "buffers", buffers(r));
        json_dumpf(o, stdout, JSON_INDENT(1));
        putchar('\n');
        json_decref(o);
    } else {
        if (ran)
            show(r);
        if (!ran)
            printf("%s%s", report, *report && report[strlen(report) - 1] != '\n' ? "\n" : "");
        if (!right)
            printf("wrong    %s\n", r->message);
        else if (r->c.trap)
            printf("right    it traps as its head says: %s\n", r->c.trap);
        else if (r->c.nexpects)
            printf("right    %u expectations hold\n", r->c.nexpects);
        else
            printf("ran      the head expects nothing\n");
    }
    return right ? EXIT_RIGHT : EXIT_WRONG;
}

static int run(struct run *r)
{
    const struct options *o = r->options;
    struct gpu *gpu = &r->session.gpu;
    if (!o->json) {
        char device[512];
        session_describe(&r->session, device, sizeof device);
        printf("device   %s\n", device);
        printf("kernel   %s<<<(%u,%u,%u), (%u,%u,%u), %u>>>", r->c.kernel, r->c.grid[0],
               r->c.grid[1], r->c.grid[2], r->c.block[0], r->c.block[1], r->c.block[2], r->c.smem);
        printf(r->c.cluster[0] ? ", clusters of %u x %u x %u\n" : "\n", r->c.cluster[0],
               r->c.cluster[1], r->c.cluster[2]);
    }
    if (!gpu->ModuleLoadData || !gpu->LaunchKernelEx || !gpu->TensorMapEncodeTiled) {
        complain(o, "the driver lacks cuModuleLoadData, cuLaunchKernelEx or cuTensorMapEncodeTiled");
        return EXIT_NO_DEVICE;
    }
    if (!gpu_ok(gpu, gpu->ModuleLoadData(&r->module, r->text), "cuModuleLoadData")) {
        device_failed(&r->session, o, o->file, gpu->error);
        return EXIT_USAGE;
    }
    if (!prepare(r)) {
        if (*r->message)
            return complain(o, "%s: %s", o->file, r->message);
        return device_failed(&r->session, o, "preparing the buffers", gpu->error);
    }
    const bool ran = launch(r);
    if (ran && !fetch(r))
        return device_failed(&r->session, o, "reading the results",
                             *r->message ? r->message : gpu->error);
    return verdict(r, ran);
}

/* The part that the program is made for: the emulator can be either. */
static const char *part_of(const char *text)
{
    const char *target = strstr(text, ".target");
    return target && !strncmp(target + strcspn(target, "s"), "sm_10", 5) ? "sm100" : NULL;
}

int command_emulate(const struct options *given)
{
    struct options options = *given;
    if (!options.file)
        return complain(given, "no file is given: `ptxmm emulate FILE.ptx`");
    if (!options.driver)
        options.driver = "emulator";
    struct run *r = aligned_alloc(128, (sizeof *r + 127) / 128 * 128); // tensor maps are aligned
    if (!r)
        return complain(given, "host memory is exhausted");
    memset(r, 0, sizeof *r);
    r->options = &options;
    int code;
    r->text = text_read(options.file, NULL);
    if (!r->text) {
        code = complain(&options, "%s cannot be read", options.file);
    } else if (!ptx_case_parse(&r->c, r->text, r->message, sizeof r->message)) {
        code = complain(&options, "%s: %s", options.file, r->message);
    } else {
        if (!options.arch && !strcmp(options.driver, "emulator"))
            options.arch = part_of(r->text);
        r->message[0] = 0;
        code = session_open(&r->session, &options, true);
        if (!code) {
            code = run(r);
            for (unsigned i = 0; i < r->c.nargs; i++)
                gpu_free(&r->session.gpu, r->buffer[i]);
            if (r->module)
                (void)r->session.gpu.ModuleUnload(r->module);
            session_close(&r->session);
        }
    }
    for (unsigned i = 0; i < PTX_ARGS; i++) {
        free(r->initial[i]);
        free(r->result[i]);
    }
    ptx_case_free(&r->c);
    free(r->text);
    free(r);
    return code;
}
