/* main.c -- ptxmm-bench: the kernels of the pack beside cuBLASLt, in one process.
 *
 *     build/bin/ptxmm-bench                              three large bf16 products, pair and cool: under a minute
 *     build/bin/ptxmm-bench --shapes bench/shapes.txt --protocol pair --json results.json
 *     build/bin/ptxmm-bench --shape 4096 --type f16 --all-kernels
 *     build/bin/ptxmm-bench --shape 1x8192x8192 --constant b --floor  beside a kernel that only reads and writes
 *     build/bin/ptxmm-bench --random-shapes 100 --seed 7 > shapes.txt
 *     build/bin/ptxmm-bench --calibrate results.json --judge others.json     the model's constants, see docs/model.md
 *     build/bin/ptxmm-bench --choose results.json > choices.json     for ptxmm run --choices, and other programs
 *
 * Results are checked before anything is timed. The table goes to standard output, progress to standard error. Exit
 * code: 0, 1 a result was wrong or a measurement failed, 2 the command line, 3 no driver or device.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "cli/choices.h"
#include "cli/output.h"
#include "cli/workload.h"

enum { EXIT_RIGHT = 0, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_NO_DEVICE = 3 };

enum key {
    KEY_SHAPES = 256, KEY_SHAPE, KEY_TYPE, KEY_B_TYPE, KEY_OUT_TYPE, KEY_ACCUMULATE, KEY_CONSTANT, KEY_KERNEL, KEY_ALL, KEY_PROTOCOL, KEY_PAIRS, KEY_JSON,
    KEY_MARKDOWN, KEY_CALIBRATE, KEY_CHOOSE, KEY_CHOICES, KEY_CHART, KEY_QUICK, KEY_SEED, KEY_DEVICE, KEY_DRIVER, KEY_CUBLASLT, KEY_NO_HOST,
    KEY_WORKSPACE, KEY_FLOOR, KEY_FLOOR_PTX, KEY_CLUSTER, KEY_CLUSTER_ROWS, KEY_GROUPS, KEY_STAGES, KEY_LAUNCHES, KEY_RANDOM, KEY_JUDGE, KEY_DESCENTS
};

static const struct argp_option option_table[] = {
    { "shapes", KEY_SHAPES, "FILE", 0, "every product of this list: lines of \"name M N K batch layout\"", 0 },
    { "shape", KEY_SHAPE, "MxNxK", 0,
      "this product; may be repeated; xBATCH behind it: a strided batch; one number is a cube", 0 },
    { "type", KEY_TYPE, "bf16|f16|e4m3|e5m2", 0, "type of A and B (default bf16)", 0 },
    { "b-type", KEY_B_TYPE, "TYPE", 0, "type of B, where it is another one", 0 },
    { "out-type", KEY_OUT_TYPE, "bf16|f16|f32", 0, "type of D (default: that of A and B; fp8: bf16)", 0 },
    { "accumulate", KEY_ACCUMULATE, "default|fast", 0, "of fp8, for both sides: fast allows a sum of fewer bits", 0 },
    { "constant", KEY_CONSTANT, "a|b|ab", 0, "promise our plans that no kernel before writes these operands, as here none does", 0 },
    { "kernel", KEY_KERNEL, "NAME", 0, "this kernel instead of the one that the library selects", 0 },
    { "all-kernels", KEY_ALL, NULL, 0, "every kernel that can, not only the selected one", 0 },
    { "all-launches", KEY_LAUNCHES, "COUNT", 0,
      "the same, and each split and multicast kernel in the COUNT launches that are predicted fastest (at most 640)", 0 },
    { "cluster", KEY_CLUSTER, "CTAS", 0, "split and multicast kernels in clusters of so many CTAs", 0 },
    { "cluster-rows", KEY_CLUSTER_ROWS, "COUNT", 0, "multicast kernels with so many rows of tiles in a cluster", 0 },
    { "groups", KEY_GROUPS, "COUNT", 0, "split and multicast kernels with so many clusters that share a tile's K", 0 },
    { "stages", KEY_STAGES, "COUNT", 0, "split kernels with so many slots of the load ring", 0 },
    { "protocol", KEY_PROTOCOL, "LIST", 0, "of pair, cool, sustained, with commas, or all (default pair,cool)", 0 },
    { "pairs", KEY_PAIRS, "COUNT", 0, "alternations of the pair protocol, 1 to 64 (default 24)", 0 },
    { "json", KEY_JSON, "FILE", 0, "write all numbers there, each sample too", 0 },
    { "markdown", KEY_MARKDOWN, "FILE", 0, "only print the tables of docs/results.md from what --json wrote", 0 },
    { "chart", KEY_CHART, "FILE.svg", 0, "with --markdown: draw that run too", 0 },
    { "calibrate", KEY_CALIBRATE, "FILE", 0,
      "only fit the model's constants to what --json wrote, best with --all-launches; may be repeated", 0 },
    { "judge", KEY_JUDGE, "FILE", 0,
      "with --calibrate: what the choice loses on these times, which are not fitted to; alone: by the constants that stand", 0 },
    { "descents", KEY_DESCENTS, "COUNT", 0, "of --calibrate: from so many places (default 24)", 0 },
    { "choose", KEY_CHOOSE, "FILE", 0,
      "only print the fastest kernel of each product in what --json wrote, for --choices; may be repeated", 0 },
    { "choices", KEY_CHOICES, "FILE", 0, "take the kernels that --choose printed", 0 },
    { "random-shapes", KEY_RANDOM, "COUNT", 0, "only print a list of random products for --shapes, which --seed decides", 0 },
    { "quick", KEY_QUICK, NULL, 0, "fewer repeats: 8 pairs, 1 cool run, 2 bursts", 0 },
    { "no-host-time", KEY_NO_HOST, NULL, 0, "leave out the host time of a run", 0 },
    { "workspace", KEY_WORKSPACE, "BYTES", 0, "what our plans may ask for, 0: none (default 268435456)", 0 },
    { "floor", KEY_FLOOR, NULL, 0, "time beside each product a kernel that only reads A and B once and writes D", 0 },
    { "floor-ptx", KEY_FLOOR_PTX, "FILE", 0, "the same, with its kernels from this file", 0 },
    { "seed", KEY_SEED, "NUMBER", 0, "of the random data, or of --random-shapes (default 1)", 0 },
    { "device", KEY_DEVICE, "NUMBER", 0, "which device (default 0)", 0 },
    { "driver", KEY_DRIVER, "PATH", 0, "the CUDA driver library (default: $PTXMM_DRIVER, else libcuda.so.1)", 0 },
    { "cublaslt", KEY_CUBLASLT, "PATH", 0, "cuBLASLt's library (default: $PTXMM_CUBLASLT, else it is looked for); none: time ours alone", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

enum { MAX_FILES = 32 };

struct arguments {
    struct bench bench;
    struct shapes shapes;
    const char *driver, *cublaslt, *json, *markdown, *chart;
    const char *choices, *floor_ptx;
    const char *calibrate[MAX_FILES], *judge[MAX_FILES], *choose[MAX_FILES];
    size_t calibrate_count, judge_count, choose_count;
    int descents;
    size_t random_shapes;
    int device;
    bool quick, no_host, floor;
};

/* ---- progress ------------------------------------------------------------------------------------------------- */

void bench_progress(const char *format, ...)
{
    const bool terminal = isatty(STDERR_FILENO);
    if (!format) {
        if (terminal) fputs("\r\033[K", stderr);
        return;
    }
    va_list list;
    va_start(list, format);
    if (terminal) fputs("\r\033[K", stderr);
    vfprintf(stderr, format, list);
    if (!terminal) fputc('\n', stderr);
    va_end(list);
    fflush(stderr);
}

/* ---- the command line ----------------------------------------------------------------------------------------- */

static void usage(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void usage(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("ptxmm-bench: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(EXIT_USAGE);
}

static long long number(const char *option, const char *text, long long low, long long high)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        usage("--%s is \"%s\", must be a number from %lld to %lld", option, text, low, high);
    return value;
}

static enum ptxmm_type factor_type(const char *option, const char *text)
{
    enum ptxmm_type type;
    if (!type_parse(text, &type) || type == PTXMM_F32)
        usage("--%s is \"%s\", must be bf16, f16, e4m3 or e5m2", option, text);
    return type;
}

static int protocols(const char *text)
{
    int set = 0;
    for (const char *at = text; *at;) {
        const size_t length = strcspn(at, ",");
        int found = length == 3 && strncmp(at, "all", 3) == 0 ? 7 : 0;
        for (int i = 0; i < PROTOCOLS; i++)
            if (strlen(protocol_names[i]) == length && strncmp(at, protocol_names[i], length) == 0) found = 1 << i;
        if (!found) usage("--protocol is \"%s\", must be pair, cool, sustained (several with commas) or all", text);
        set |= found;
        at += length + (at[length] == ',');
    }
    if (!set) usage("--protocol is empty, must be pair, cool, sustained or all");
    return set;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *a = state->input;
    struct bench *bench = &a->bench;
    char why[600];
    switch (key) {
    case KEY_SHAPES:
        if (shapes_read(&a->shapes, text, why, sizeof why)) usage("%s", why);
        return 0;
    case KEY_SHAPE:
        if (shapes_parse(&a->shapes, text, why, sizeof why)) usage("%s", why);
        return 0;
    case KEY_TYPE: bench->type = factor_type("type", text); return 0;
    case KEY_B_TYPE: bench->b_type = factor_type("b-type", text); return 0;
    case KEY_OUT_TYPE:
        if (!type_parse(text, &bench->out_type) || type_is_fp8(bench->out_type))
            usage("--out-type is \"%s\", must be bf16, f16 or f32", text);
        return 0;
    case KEY_ACCUMULATE:
        if (strcmp(text, "default") && strcmp(text, "fast"))
            usage("--accumulate is \"%s\", must be default or fast", text);
        bench->accumulate = strcmp(text, "fast") ? PTXMM_ACCUMULATE_DEFAULT : PTXMM_ACCUMULATE_FAST;
        return 0;
    case KEY_CONSTANT:
        if (!constant_parse(text, &bench->constant_a, &bench->constant_b))
            usage("--constant is \"%s\", must be a, b or ab", text);
        return 0;
    case KEY_KERNEL:
        if (!ptxmm_kernel_by_name(text))
            usage("--kernel is \"%s\": the pack has no kernel of this name (ptxmm kernels lists them)", text);
        bench->kernel = text;
        return 0;
    case KEY_ALL: bench->all_kernels = true; return 0;
    case KEY_LAUNCHES:
        bench->all_launches = (size_t)number("all-launches", text, 1, MOST_LAUNCHES);
        bench->all_kernels = true;
        return 0;
    case KEY_CLUSTER: bench->cluster = (int)number("cluster", text, 1, 8); return 0;
    case KEY_CLUSTER_ROWS: bench->cluster_rows = (int)number("cluster-rows", text, 1, 8); return 0;
    case KEY_GROUPS: bench->groups = (int)number("groups", text, 1, 64); return 0;
    case KEY_STAGES: bench->stages = (int)number("stages", text, PTXMM_LEAST_STAGES, 64); return 0;
    case KEY_RANDOM: a->random_shapes = (size_t)number("random-shapes", text, 1, 10000); return 0;
    case KEY_PROTOCOL: bench->protocols = protocols(text); return 0;
    case KEY_PAIRS: bench->pairs = (int)number("pairs", text, 1, MEASURE_MAX_SAMPLES); return 0;
    case KEY_JSON: a->json = text; return 0;
    case KEY_MARKDOWN: a->markdown = text; return 0;
    case KEY_CHART: a->chart = text; return 0;
    case KEY_CALIBRATE:
        if (a->calibrate_count == MAX_FILES) usage("--calibrate: more than %d files", MAX_FILES);
        a->calibrate[a->calibrate_count++] = text;
        return 0;
    case KEY_JUDGE:
        if (a->judge_count == MAX_FILES) usage("--judge: more than %d files", MAX_FILES);
        a->judge[a->judge_count++] = text;
        return 0;
    case KEY_DESCENTS: a->descents = (int)number("descents", text, 1, 1000); return 0;
    case KEY_CHOOSE:
        if (a->choose_count == MAX_FILES) usage("--choose: more than %d files", MAX_FILES);
        a->choose[a->choose_count++] = text;
        return 0;
    case KEY_CHOICES: a->choices = text; return 0;
    case KEY_QUICK: a->quick = true; return 0;
    case KEY_NO_HOST: a->no_host = true; return 0;
    case KEY_WORKSPACE: bench->workspace = number("workspace", text, 0, INT64_MAX); return 0;
    case KEY_FLOOR: a->floor = true; return 0;
    case KEY_FLOOR_PTX:
        a->floor = true;
        a->floor_ptx = text;
        return 0;
    case KEY_SEED: bench->seed = (uint64_t)number("seed", text, 0, INT64_MAX); return 0;
    case KEY_DEVICE: a->device = (int)number("device", text, 0, 1023); return 0;
    case KEY_DRIVER: a->driver = text; return 0;
    case KEY_CUBLASLT: a->cublaslt = text; return 0;
    case ARGP_KEY_ARG: usage("unexpected argument \"%s\" (--help lists the options)", text);
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- what it runs on ------------------------------------------------------------------------------------------ */

static json_t *machine(struct arguments *a)
{
    struct bench *bench = &a->bench;
    char version[80], lt_version[40] = "none";
    double limit;
    const int driver = ptxmm_driver_version(bench->mm), library = ptxmm_version();
    nvml_facts(bench->nvml, version, sizeof version, &limit);
    if (bench->lt) {
        const size_t v = cublaslt_version(bench->lt);
        snprintf(lt_version, sizeof lt_version, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    }
    printf("ptxmm %d.%d.%d on %s: %d SMs, %.0f MHz at most, %.0f MB L2%s\n", library / 10000, library / 100 % 100,
           library % 100, bench->device.name, bench->device.sm_count, bench->device.clock_khz / 1e3,
           (double)bench->device.l2_bytes / 1048576,
           gpu_is_emulator(&bench->gpu) ? " -- an EMULATOR: its times say nothing of a GPU" : "");
    printf("driver %s%s, CUDA %d.%d", version, *version ? "" : ptxmm_driver_path(bench->mm), driver / 1000,
           driver % 1000 / 10);
    if (limit > 0) printf(", power limit %.0f W", limit);
    printf("\ncuBLASLt %s%s%s\n", lt_version, bench->lt ? " at " : "", bench->lt ? cublaslt_path(bench->lt) : "");
    char date[32];
    const time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    return json_pack("{s:i, s:s, s:i, s:s, s:b, s:i, s:i, s:I, s:s, s:s, s:i, s:f, s:s, s:s}", "schema", 1, "date",
                     date, "ptxmm_version", library, "device", bench->device.name, "emulator",
                     gpu_is_emulator(&bench->gpu), "sms", bench->device.sm_count, "clock_khz",
                     bench->device.clock_khz, "l2_bytes", (json_int_t)bench->device.l2_bytes, "driver", version,
                     "driver_path", ptxmm_driver_path(bench->mm), "cuda_driver_version", driver, "power_limit_watts",
                     limit, "cublaslt_version", lt_version, "cublaslt_path",
                     bench->lt ? cublaslt_path(bench->lt) : "");
}

/* Opens all; 0, or the exit code after one line. */
static int open_all(struct arguments *a)
{
    struct bench *bench = &a->bench;
    struct gpu *gpu = &bench->gpu;
    struct ptxmm_error error;
    struct choice_list choices = { NULL, 0, NULL };
    char why[700], bus[32] = "";
    if (a->choices && !choices_read(a->choices, &choices, why, sizeof why)) {
        fprintf(stderr, "ptxmm-bench: %s\n", why);
        return EXIT_USAGE;
    }
    const struct ptxmm_options options = { .driver = a->driver, .choices = choices.list, .choice_count = choices.count };
    const enum ptxmm_status status = ptxmm_open(&bench->mm, &options, &error);
    choices_drop(&choices);
    if (status) {
        fprintf(stderr, "ptxmm-bench: %s\n", error.text);
        return EXIT_NO_DEVICE;
    }
    if (!gpu_open(gpu, ptxmm_driver_path(bench->mm), a->device)) {
        fprintf(stderr, "ptxmm-bench: %s\n", gpu->error);
        return EXIT_NO_DEVICE;
    }
    if (ptxmm_device_query(bench->mm, a->device, &bench->device, &error)) {
        fprintf(stderr, "ptxmm-bench: %s\n", error.text);
        return EXIT_NO_DEVICE;
    }
    bench->measure.gpu = gpu;
    bench->measure.hold = !gpu_is_emulator(gpu);
    bench->measure.workspace = gpu_alloc(gpu, MEASURE_WORKSPACE);
    if (!bench->measure.workspace) {
        fprintf(stderr, "ptxmm-bench: %s\n", gpu->error);
        return EXIT_NO_DEVICE;
    }
    const float one = 1;
    bench->one = gpu_alloc(gpu, sizeof one);
    if (!bench->one || !gpu_upload(gpu, bench->one, &one, sizeof one)) {
        fprintf(stderr, "ptxmm-bench: %s\n", gpu->error);
        return EXIT_NO_DEVICE;
    }
    if (!gpu_ok(gpu, gpu->StreamCreate(&bench->measure.stream, 0), "cuStreamCreate")) {
        fprintf(stderr, "ptxmm-bench: %s\n", gpu->error);
        return EXIT_NO_DEVICE;
    }
    if (gpu->DeviceGetPCIBusId && !gpu_is_emulator(gpu) &&
        gpu->DeviceGetPCIBusId(bus, sizeof bus, gpu->device) == CUDA_SUCCESS)
        bench->nvml = nvml_open(bus);
    bench->measure.nvml = bench->nvml;
    if (a->floor && floor_open(&bench->floor, gpu, a->floor_ptx, why, sizeof why)) {
        fprintf(stderr, "ptxmm-bench: the floor: %s\n", why);
        return a->floor_ptx ? EXIT_USAGE : EXIT_NO_DEVICE;
    }
    if (gpu_is_emulator(gpu)) return 0; /* cuBLASLt brings machine code, which an emulator does not run */
    if (a->cublaslt && !strcmp(a->cublaslt, "none")) return 0;
    bench_progress("cuBLASLt");
    const int missing = cublaslt_open(&bench->lt, a->cublaslt, why, sizeof why);
    bench_progress(NULL);
    if (missing && (a->cublaslt || getenv("PTXMM_CUBLASLT"))) {
        fprintf(stderr, "ptxmm-bench: %s\n", why);
        return EXIT_USAGE;
    }
    if (missing) printf("without cuBLASLt: %s\n", why);
    return 0;
}

static void close_all(struct arguments *a)
{
    struct bench *bench = &a->bench;
    if (bench->gpu.context) {
        gpu_free(&bench->gpu, bench->measure.workspace);
        gpu_free(&bench->gpu, bench->one);
        floor_close(&bench->floor);
        if (bench->measure.stream) bench->gpu.StreamDestroy(bench->measure.stream);
    }
    cublaslt_close(&bench->lt);
    nvml_close(&bench->nvml);
    ptxmm_close(&bench->mm, NULL);
    gpu_close(&bench->gpu);
    json_decref(bench->results);
    shapes_free(&a->shapes);
}

/* ---- host time ------------------------------------------------------------------------------------------------ */

/* One tile, so that the GPU keeps up with the host and no call waits for room in the queue. */
static json_t *host_time(struct bench *bench)
{
    struct measure *m = &bench->measure;
    struct gpu *gpu = &bench->gpu;
    struct ptxmm_plan *plan = NULL;
    struct ptxmm_error error;
    struct host_times times;
    json_t *object = NULL;
    const struct ptxmm_problem problem = { .m = 64, .n = 64, .k = 64, .a.type = bench->type, .b.type = bench->b_type,
                                           .d.type = bench->out_type, .accumulate = bench->accumulate,
                                           .prefer.kernel = bench->kernel };
    const struct ptxmm_arguments arguments = { .a = gpu_alloc(gpu, 64 * 64 * 4), .b = gpu_alloc(gpu, 64 * 64 * 4),
                                               .d = gpu_alloc(gpu, 64 * 64 * 4), .alpha = 1 };
    bool ok = arguments.a && arguments.b && arguments.d && gpu->MemsetD8(arguments.a, 0, 64 * 64 * 4) == CUDA_SUCCESS &&
              gpu->MemsetD8(arguments.b, 0, 64 * 64 * 4) == CUDA_SUCCESS;
    if (!ok) snprintf(m->error, sizeof m->error, "%s", gpu->error);
    if (ok && ptxmm_plan_create(bench->mm, &problem, NULL, &plan, &error)) {
        snprintf(m->error, sizeof m->error, "%s", error.text);
        ok = false;
    }
    ok = ok && measure_host(m, plan, &arguments, &times);
    if (ok) {
        printf("\nhost time of one call, median [quartiles] in us: cuLaunchKernelEx alone %.3f [%.3f, %.3f], "
               "ptxmm_plan_run %.3f [%.3f, %.3f]: %.3f beyond the driver (%s)\n",
               times.bare.median * 1e6, times.bare.low * 1e6, times.bare.high * 1e6, times.run.median * 1e6,
               times.run.low * 1e6, times.run.high * 1e6, times.beyond * 1e6,
               ptxmm_plan_info(plan)->candidate.kernel->name);
        object = json_pack("{s:f, s:f, s:f}", "launch_us", times.bare.median * 1e6, "run_us", times.run.median * 1e6,
                           "beyond_us", times.beyond * 1e6);
    } else {
        printf("\nhost time: %s\n", m->error);
        object = json_pack("{s:s}", "failed", m->error);
        bench->wrong++;
    }
    ptxmm_plan_destroy(&plan);
    gpu_free(gpu, arguments.a);
    gpu_free(gpu, arguments.b);
    gpu_free(gpu, arguments.d);
    return object;
}

/* ---- all of it ------------------------------------------------------------------------------------------------ */

static void summarise(const struct bench *bench)
{
    for (int i = 0; i < PROTOCOLS; i++)
        if (bench->first[i].count > 1)
            printf("%s%s: geometric mean of %d: %.3f of cuBLASLt's first heuristic, %.3f of its best of 8\n",
                   i ? "" : "\n", protocol_names[i], bench->first[i].count,
                   exp(bench->first[i].log_sum / bench->first[i].count),
                   exp(bench->best[i].log_sum / bench->best[i].count));
}

/* In words that repeat it. */
static int print_random(struct arguments *a)
{
    char why[600];
    if (a->shapes.count) usage("--random-shapes makes a list: give it without --shape and --shapes");
    if (shapes_random(&a->shapes, a->random_shapes, a->bench.seed, why, sizeof why)) usage("%s", why);
    printf("# ptxmm-bench --random-shapes %zu --seed %llu\n# name M N K batch layout\n", a->random_shapes,
           (unsigned long long)a->bench.seed);
    shapes_print(&a->shapes);
    shapes_free(&a->shapes);
    return EXIT_RIGHT;
}

/* Whatever ends the program, --help too: what was printed must have been written. */
static void check_output(int code, void *unused)
{
    (void)unused;
    if (!output_end("ptxmm-bench") && !code) _exit(EXIT_USAGE);
}

int main(int argc, char **argv)
{
    static struct arguments a; /* large: sets and samples */
    struct bench *bench = &a.bench;
    const struct argp argp = {
        .options = option_table,
        .parser = parse,
        .doc = "ptxmm-bench -- times the kernels beside cuBLASLt in one process, after checking their results.",
    };
    char why[600], command[400] = "";
    output_begin();
    on_exit(check_output, NULL);
    bench->type = PTXMM_BF16;
    bench->protocols = PROTOCOL_PAIR | PROTOCOL_COOL;
    bench->seed = 1;
    bench->workspace = 256 << 20;
    argp_err_exit_status = EXIT_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    if (a.random_shapes) return print_random(&a);
    if (a.descents && !a.calibrate_count) usage("--descents is of --calibrate: give both");
    if (a.calibrate_count || a.judge_count)
        return bench_calibrate(a.calibrate, a.calibrate_count, a.judge, a.judge_count, a.descents ? a.descents : 24) ? EXIT_USAGE
                                                                                                                  : EXIT_RIGHT;
    if (a.choose_count) return bench_choose(a.choose, a.choose_count) ? EXIT_USAGE : EXIT_RIGHT;
    if (a.chart && !a.markdown) usage("--chart draws what --markdown reads: give both");
    if (a.chart && bench_chart(a.markdown, a.chart)) return EXIT_USAGE;
    if (a.markdown) return bench_markdown(a.markdown) ? EXIT_USAGE : EXIT_RIGHT;
    if (bench->kernel) {
        /* A kernel's name decides the types, but for kernels that take bf16 or f16. */
        const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(bench->kernel);
        if (kernel->a != PTXMM_BF16_OR_F16) bench->type = kernel->a;
        if (kernel->b != PTXMM_BF16_OR_F16) bench->b_type = kernel->b;
        if (kernel->d != PTXMM_BF16_OR_F16) bench->out_type = kernel->d;
    }
    const struct ptxmm_problem launched = { .m = 1, .n = 1, .k = 1, .a.type = PTXMM_BF16, .b.type = PTXMM_BF16,
                                            .d.type = PTXMM_BF16,
                                            .prefer = { .cluster = bench->cluster, .cluster_rows = bench->cluster_rows,
                                                        .groups = bench->groups, .stages = bench->stages } };
    struct ptxmm_error error;
    if (ptxmm_problem_check(&launched, &error)) usage("%s", error.text);
    if (!bench->b_type) bench->b_type = bench->type;
    if (!bench->out_type) bench->out_type = type_is_fp8(bench->type) ? PTXMM_BF16 : bench->type;
    if (!bench->pairs) bench->pairs = a.quick ? 8 : 24;
    bench->cool_repeats = a.quick ? 1 : 3;
    bench->bursts = a.quick ? 2 : 4;
    if (!a.shapes.count && shapes_default(&a.shapes, why, sizeof why)) usage("%s", why);
    FILE *json_file = a.json ? fopen(a.json, "w") : NULL;
    if (a.json && !json_file) usage("cannot write %s: %s", a.json, strerror(errno));
    for (int i = 0; i < argc; i++)
        snprintf(command + strlen(command), sizeof command - strlen(command), "%s%s", i ? " " : "", argv[i]);

    int code = open_all(&a);
    if (code == 0) {
        bench->results = json_array();
        json_t *root = machine(&a);
        json_object_set_new(root, "command", json_string(command));
        json_object_set_new(root, "pairs", json_integer(bench->pairs));
        json_object_set_new(root, "cool_repeats", json_integer(bench->cool_repeats));
        json_object_set_new(root, "seed", json_integer((json_int_t)bench->seed));
        json_object_set_new(root, "workspace_limit", json_integer((json_int_t)bench->workspace));
        const char *constant = constant_name(bench->constant_a, bench->constant_b);
        if (*constant) printf("our plans are promised that these are constant: %s\n", constant);
        bench_table_head(bench);
        for (size_t i = 0; i < a.shapes.count; i++) {
            char place[48];
            snprintf(place, sizeof place, "%zu/%zu", i + 1, a.shapes.count);
            bench_product(bench, &a.shapes.list[i], place);
        }
        summarise(bench);
        if (!a.no_host && !bench->wrong) json_object_set_new(root, "host", host_time(bench));
        json_object_set(root, "results", bench->results);
        code = bench->wrong ? EXIT_WRONG : EXIT_RIGHT;
        if (json_file &&
            (json_dumpf(root, json_file, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) || fputc('\n', json_file) == EOF)) {
            fprintf(stderr, "ptxmm-bench: cannot write %s\n", a.json);
            code = EXIT_WRONG;
        }
        json_decref(root);
    }
    if (json_file && fclose(json_file) && code == 0) {
        fprintf(stderr, "ptxmm-bench: cannot write %s: %s\n", a.json, strerror(errno));
        code = EXIT_WRONG;
    }
    close_all(&a);
    return code;
}
