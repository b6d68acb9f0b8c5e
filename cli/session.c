/* session.c -- opening the pack and a driver. */
#define _GNU_SOURCE
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "choices.h"

#define EMULATOR "libptxmm_emulator.so"
#define REPORT_LINES                                                                               \
    24 /* of an emulator's report: where many threads wait, one tells as much as all */

void executable_folder(char *text, size_t size)
{
    const ssize_t n = readlink("/proc/self/exe", text, size - 1);
    text[n < 0 ? 0 : n] = 0;
    char *slash = strrchr(text, '/');
    if (slash)
        *slash = 0;
    else
        snprintf(text, size, ".");
}

bool find_ptx_folder(const struct options *o, char *text, size_t size)
{
    const char *environment = getenv("PTXMM_PTX_DIR");
    if (o->ptx_dir || (environment && *environment)) {
        snprintf(text, size, "%s", o->ptx_dir ? o->ptx_dir : environment);
        return true;
    }
    /* Of a build, of an installation. */
    static const char *const places[] = { "../ptx", "../share/ptxmm/ptx" };
    char folder[2048];
    executable_folder(folder, sizeof folder);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(text, size, "%s/%s", folder, places[i]);
        if (!access(text, R_OK | X_OK))
            return true;
    }
    *text = 0;
    return false;
}

/* The library that --driver names: "emulator" is the one of the same build or installation, else the
 * dynamic linker may know it. */
static const char *driver_path(const struct options *o, char *text, size_t size)
{
    static const char *const places[] = { "lib", "lib64", "lib/x86_64-linux-gnu",
                                          "lib/aarch64-linux-gnu" };
    if (!o->driver || strcmp(o->driver, "emulator"))
        return o->driver;
    char folder[2048];
    executable_folder(folder, sizeof folder);
    char *slash = strrchr(folder, '/'); /* build/bin -> build/lib, as people would write it */
    if (slash && slash > folder)
        *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(text, size, "%s/%s/" EMULATOR, folder, places[i]);
        if (!access(text, R_OK))
            return text;
    }
    return EMULATOR;
}

/* What the library opens when it is told nothing. */
static const char *default_driver(void)
{
    const char *environment = getenv("PTXMM_DRIVER");
    return environment && *environment ? environment : "libcuda.so.1";
}

int session_open(struct session *s, const struct options *o, bool with_device)
{
    *s = (struct session){ 0 };
    char driver[2200], ptx[2200];
    struct ptxmm_options open_options = { .driver = driver_path(o, driver, sizeof driver) };
    if (find_ptx_folder(o, ptx, sizeof ptx))
        open_options.ptx_dir = ptx;

    /* The emulator reads which part to be when it starts; another driver has the devices it has. */
    const bool emulator = o->driver && !strcmp(o->driver, "emulator");
    if (o->arch && emulator)
        setenv("PTXMM_EMU_PART", strcmp(o->arch, "sm100") ? "h200" : "b200", 1);

    struct choice_list choices = { NULL, 0, NULL };
    struct ptxmm_error error;
    if (o->choices && !choices_read(o->choices, &choices, error.text, sizeof error.text))
        return complain(o, "--choices: %s", error.text);
    open_options.choices = choices.list;
    open_options.choice_count = choices.count;
    const enum ptxmm_status status = ptxmm_open(&s->mm, &open_options, &error);
    choices_drop(&choices);
    if (status) {
        const char *advice = "";
        if (status == PTXMM_ERROR_NO_DRIVER && emulator)
            advice = " (nor is it in lib/ beside the folder of this command)";
        else if (status == PTXMM_ERROR_NO_DRIVER && !o->driver)
            advice = "; without a GPU, --driver emulator runs the kernels on the CPU";
        /* What the library calls it; here it has another name. */
        char *member = strstr(error.text, "options.driver");
        if (member) {
            memmove(member + 8, member + 14, strlen(member + 14) + 1);
            memcpy(member, "--driver", 8);
        }
        /* An emulator may have more to say; it is asked again, because the library has let go of
         * it. */
        if (status == PTXMM_ERROR_DRIVER &&
            !gpu_open(&s->gpu, open_options.driver ? open_options.driver : default_driver(), 0))
            snprintf(error.text, sizeof error.text, "%.1000s", s->gpu.error);
        gpu_close(&s->gpu);
        complain(o, "%s%s", error.text, advice);
        return EXIT_NO_DEVICE;
    }
    if (!with_device)
        return 0;
    if (!gpu_open(&s->gpu, ptxmm_driver_path(s->mm), o->device)) {
        complain(o, "%s (driver library %s)", s->gpu.error, ptxmm_driver_path(s->mm));
        s->gpu = (struct gpu){ 0 };
        session_close(s);
        return EXIT_NO_DEVICE;
    }
    if (ptxmm_device_query(s->mm, o->device, &s->device, &error)) {
        complain(o, "%s", error.text);
        session_close(s);
        return EXIT_NO_DEVICE;
    }
    if (o->arch && s->device.arch / 10 != atoi(o->arch + 2) / 10) {
        complain(o, "--arch is %s, but device %d is sm_%d (%s)", o->arch, o->device,
                 s->device.arch, s->device.name);
        session_close(s);
        return EXIT_NO_DEVICE;
    }
    return 0;
}

void session_close(struct session *s)
{
    ptxmm_close(&s->mm, NULL); /* before the context goes: kernels are unloaded from it */
    gpu_close(&s->gpu);
}

void session_describe(const struct session *s, char *text, size_t size)
{
    const int v = s->gpu.driver_version;
    snprintf(text, size, "%s, sm_%d, %d SMs, %s for CUDA %d.%d (%s)", s->device.name,
             s->device.arch, s->device.sm_count,
             gpu_is_emulator(&s->gpu) ? "the ptxmm emulator on this CPU," : "driver", v / 1000,
             v % 1000 / 10, ptxmm_driver_path(s->mm));
}

bool device_runs(const struct ptxmm_device *device, const struct ptxmm_kernel_info *kernel)
{
    const size_t capacity = ptxmm_kernel_count();
    struct ptxmm_candidate *all = calloc(capacity + 1, sizeof *all);
    const struct ptxmm_problem problem = {
        .m = 64, .n = 64, .k = 64, .a.type = PTXMM_BF16, .b.type = PTXMM_BF16, .d.type = PTXMM_BF16
    };
    size_t count = 0;
    bool runs = false;
    if (all && !ptxmm_select(device, &problem, all, capacity, &count, NULL))
        for (size_t i = 0; i < count; i++)
            runs |= all[i].kernel == kernel && all[i].reason != PTXMM_REASON_ARCHITECTURE;
    free(all);
    return runs;
}

int device_failed(const struct session *s, const struct options *o, const char *what,
                  const char *why)
{
    complain(o, "%s failed: %s", what, why);
    const char *at = gpu_report(&s->gpu);
    for (int line = 0; *at && line < REPORT_LINES; line++) {
        const size_t length = strcspn(at, "\n");
        fprintf(stderr, "%.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
    if (*at)
        fprintf(stderr, "  ... (PTXMM_EMU_REPORT=FILE keeps all of it)\n");
    return EXIT_NO_DEVICE;
}
