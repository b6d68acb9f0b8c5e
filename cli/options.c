/* options.c -- the command line. argp keeps the tables and writes the help; what is wrong is said
 * here, in one line. */
#include "options.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workload.h"

enum key {
    KEY_DRIVER = 256, KEY_PTX_DIR, KEY_DEVICE, KEY_JSON, KEY_HELP, KEY_VERSION,
    KEY_M, KEY_N, KEY_K, KEY_BATCH, KEY_STRIDE_A, KEY_STRIDE_B, KEY_STRIDE_C, KEY_STRIDE_D,
    KEY_LDA, KEY_LDB, KEY_LDC, KEY_LDD, KEY_TYPE, KEY_B_TYPE, KEY_OUT_TYPE, KEY_ACCUMULATE, KEY_CONSTANT, KEY_ARCH,
    KEY_KERNEL, KEY_CHOICES, KEY_SMS, KEY_CLUSTER, KEY_CLUSTER_ROWS, KEY_GROUPS, KEY_WORKSPACE, KEY_ALPHA, KEY_BETA, KEY_A, KEY_B, KEY_C, KEY_OUT, KEY_SEED, KEY_REPEAT,
    KEY_QUICK, KEY_FULL, KEY_FORCE, KEY_TILES, KEY_SLICES, KEY_STAGES, KEY_ACCUMULATORS, KEY_ISSUE,
    KEY_LOAD, KEY_MMA, KEY_EPILOGUE, KEY_SVG
};

/* Each option is a group of its own, so that argp keeps the order in which they are written. */
#define IN_ORDER (__COUNTER__ + 1)
#define HELP    { "help", KEY_HELP, NULL, 0, "this text", -1 }
#define JSON                                                                                       \
    { "json", KEY_JSON, NULL, 0, "one JSON object on standard output, nothing else", IN_ORDER }
#define DRIVER                                                                                     \
    { "driver", KEY_DRIVER, "PATH", 0,                                                             \
      "the CUDA driver library; the word emulator: the one that comes with ptxmm and needs no "    \
      "GPU (default: $PTXMM_DRIVER, else libcuda.so.1)", IN_ORDER },                               \
    { "ptx-dir", KEY_PTX_DIR, "DIR", 0,                                                            \
      "folder with the kernels as PTX, for drivers that take no cubins", IN_ORDER }
#define DEVICE  { "device", KEY_DEVICE, "NUMBER", 0, "which device (default 0)", IN_ORDER }
#define ARCH    { "arch", KEY_ARCH, "ARCH", 0, "the architecture: sm90 or sm100", IN_ORDER }
#define PART                                                                                       \
    { "arch", KEY_ARCH, "ARCH", 0,                                                                 \
      "the device must be sm90 or sm100; the emulator then is such a part", IN_ORDER }
#define SIZES                                                                                      \
    { "m", KEY_M, "ROWS", 0, "rows of A and D", IN_ORDER },                                        \
    { "n", KEY_N, "COLUMNS", 0, "columns of B and D", IN_ORDER },                                  \
    { "k", KEY_K, "DEPTH", 0, "columns of A, rows of B", IN_ORDER }
#define TYPES                                                                                      \
    { "type", KEY_TYPE, "TYPE", 0, "of A and B: bf16, f16, e4m3 or e5m2 (default bf16)",           \
      IN_ORDER },                                                                                  \
    { "b-type", KEY_B_TYPE, "TYPE", 0, "of B, where it is another one", IN_ORDER },                \
    { "out-type", KEY_OUT_TYPE, "TYPE", 0,                                                         \
      "of D and C: bf16, f16 or f32 (default: that of A and B, bf16 for e4m3 and e5m2)",           \
      IN_ORDER },                                                                                  \
    { "accumulate", KEY_ACCUMULATE, "HOW", 0,                                                      \
      "default, or fast: e4m3 and e5m2 may be summed in fewer bits than f32 has", IN_ORDER }
#define LEADING                                                                                    \
    { "lda", KEY_LDA, "ELEMENTS", 0,                                                               \
      "distance between rows of A in memory (default: the least of 16-byte steps)", IN_ORDER },    \
    { "ldb", KEY_LDB, "ELEMENTS", 0, "the same for the columns of B", IN_ORDER },                  \
    { "ldc", KEY_LDC, "ELEMENTS", 0, "the same for the rows of C", IN_ORDER },                     \
    { "ldd", KEY_LDD, "ELEMENTS", 0, "the same for the rows of D", IN_ORDER }
#define BATCH                                                                                      \
    { "batch", KEY_BATCH, "COUNT", 0, "so many products of this size in one launch", IN_ORDER },   \
    { "stride-a", KEY_STRIDE_A, "ELEMENTS", 0,                                                     \
      "distance between the matrices A of a batch; 0: all share one (default: without a gap)",     \
      IN_ORDER },                                                                                  \
    { "stride-b", KEY_STRIDE_B, "ELEMENTS", 0, "the same for B", IN_ORDER },                       \
    { "stride-c", KEY_STRIDE_C, "ELEMENTS", 0, "the same for C", IN_ORDER },                       \
    { "stride-d", KEY_STRIDE_D, "ELEMENTS", 0, "the same for D, not 0", IN_ORDER }
#define CONSTANT                                                                                   \
    { "constant", KEY_CONSTANT, "OPERANDS", 0,                                                     \
      "a, b or ab: promise that the kernel before does not write them, so that this one may load " \
      "them before it has ended", IN_ORDER }
#define CHOICE                                                                                     \
    { "kernel", KEY_KERNEL, "NAME", 0, "this kernel and no other", IN_ORDER },                     \
    { "sms", KEY_SMS, "COUNT", 0, "use at most so many SMs", IN_ORDER },                           \
    { "cluster", KEY_CLUSTER, "CTAS", 0,                                                           \
      "split and multicast kernels in clusters of so many CTAs (default: the fastest predicted)",  \
      IN_ORDER },                                                                                  \
    { "cluster-rows", KEY_CLUSTER_ROWS, "COUNT", 0,                                                \
      "multicast kernels with so many rows of tiles in a cluster", IN_ORDER },                     \
    { "groups", KEY_GROUPS, "COUNT", 0,                                                            \
      "split and multicast kernels with so many clusters that share a tile's K", IN_ORDER },       \
    { "stages", KEY_STAGES, "COUNT", 0, "split kernels with so many slots of the load ring", IN_ORDER }
#define WORKSPACE(words)                                                                           \
    { "workspace", KEY_WORKSPACE, "BYTES", 0, words, IN_ORDER }
#define SEED    { "seed", KEY_SEED, "NUMBER", 0, "of the random data (default 1)", IN_ORDER }
#define END     { NULL, 0, NULL, 0, NULL, 0 }

static const struct argp_option devices_options[] = { PART, JSON, DRIVER, HELP, END };
static const struct argp_option kernels_options[] = { ARCH, JSON, HELP, END };
static const struct argp_option plan_options[] = {
    SIZES, TYPES, LEADING, BATCH, CONSTANT, ARCH, CHOICE,
    WORKSPACE("device memory for sums of parts of K, 0: none (default 67108864)"),
    { "beta", KEY_BETA, "NUMBER", 0, "factor of C; not 0: C is read too", IN_ORDER },
    JSON, HELP, END
};
static const struct argp_option run_options[] = {
    SIZES, TYPES, LEADING, BATCH, CONSTANT,
    { "a", KEY_A, "A.npy", 0, "A, M x K, float32 or float16", IN_ORDER },
    { "b", KEY_B, "B.npy", 0, "B, K x N", IN_ORDER },
    { "c", KEY_C, "C.npy", 0, "C, M x N", IN_ORDER },
    { "out", KEY_OUT, "D.npy", 0, "write D there: float16 for f16, else float32", IN_ORDER },
    { "alpha", KEY_ALPHA, "NUMBER", 0, "factor of the product (default 1)", IN_ORDER },
    { "beta", KEY_BETA, "NUMBER", 0, "factor of C (default 0, or 1 with --c)", IN_ORDER },
    SEED,
    { "repeat", KEY_REPEAT, "TIMES", 0, "timed launches (default 20; emulator 1)", IN_ORDER },
    CHOICE,
    { "choices", KEY_CHOICES, "FILE", 0, "the kernels that ptxmm-bench --choose printed", IN_ORDER },
    WORKSPACE("for sums of parts of K, 0: none (default 67108864)"),
    PART, DEVICE, DRIVER, JSON, HELP, END
};
static const struct argp_option verify_options[] = {
    { "quick", KEY_QUICK, NULL, 0, "small shapes (default)", IN_ORDER },
    { "full", KEY_FULL, NULL, 0, "more shapes, and large ones on a GPU", IN_ORDER },
    { "kernel", KEY_KERNEL, "NAME", 0, "only this kernel", IN_ORDER },
    WORKSPACE("for sums of parts of K, 0: none (default 67108864)"),
    SEED, PART, DEVICE, DRIVER, JSON, HELP, END
};
static const struct argp_option export_options[] = {
    ARCH,
    { "force", KEY_FORCE, NULL, 0, "write into a folder that is not empty", IN_ORDER },
    { "ptx-dir", KEY_PTX_DIR, "DIR", 0, "where the kernels' PTX is", IN_ORDER },
    HELP, END
};
static const struct argp_option emulate_options[] = { PART, DEVICE, DRIVER, JSON, HELP, END };
static const struct argp_option model_options[] = {
    { "tiles", KEY_TILES, "COUNT", 0, "tiles that one CTA computes (default 3)", IN_ORDER },
    { "slices", KEY_SLICES, "COUNT", 0, "K-slices of a tile (default 6)", IN_ORDER },
    { "stages", KEY_STAGES, "COUNT", 0,
      "load slots (default: a table over 1 to 8; 4 in the drawing)", IN_ORDER },
    { "accumulators", KEY_ACCUMULATORS, "COUNT", 0,
      "accumulator buffers (default: 1 and 2; 2 in the drawing)", IN_ORDER },
    { "issue", KEY_ISSUE, "TIME", 0, "between two loads (default 1)", IN_ORDER },
    { "load", KEY_LOAD, "TIME", 0, "from a load's issue to its data (default 12)", IN_ORDER },
    { "mma", KEY_MMA, "TIME", 0, "of the tensor core for one slice (default 4)", IN_ORDER },
    { "epilogue", KEY_EPILOGUE, "TIME", 0, "of one tile (default 8)", IN_ORDER },
    { "svg", KEY_SVG, "FILE", 0, "draw the timeline", IN_ORDER },
    JSON, HELP, END
};

static const struct {
    struct command command;
    const struct argp_option *options;
    const char *arguments; /* in the usage line */
    const char *doc;
} commands[] = {
    { { "devices", "what the driver has", command_devices },
      devices_options, "",
      "Lists the devices and which kernels of the pack each can run." },
    { { "kernels", "what the pack has", command_kernels },
      kernels_options, "",
      "Lists the kernels. Needs no GPU." },
    { { "plan", "which kernel would run, why, how fast; needs no GPU", command_plan },
      plan_options, "--m M --n N --k K",
      "Judges every kernel for D[M,N] = A[M,K] B[K,N] and predicts its time. Needs no GPU: --arch "
      "names the part (default sm90).\v"
      "Exit code 1: no kernel can run this.\n\n"
      "Example:  ptxmm plan --m 8192 --n 4096 --k 7168 --type bf16" },
    { { "run", "multiply, check, time", command_run },
      run_options, "--m M --n N --k K | --a A.npy --b B.npy",
      "Computes D = alpha * A B + beta * C from random normal data or from .npy files, checks all "
      "of D against double precision and prints time and error.\v"
      "Exit codes: 0 right, 1 wrong, 2 bad input, 3 no driver or device.\n\nExamples:\n"
      "  ptxmm run --m 4096 --n 4096 --k 4096\n"
      "  ptxmm run --a A.npy --b B.npy --type f16 --out-type f32 --out D.npy\n"
      "  ptxmm run --m 256 --n 300 --k 200 --driver emulator" },
    { { "verify", "sweep shapes through every kernel", command_verify },
      verify_options, "",
      "Runs every kernel on edge shapes with normal and exact data and guard bands, and checks "
      "every element." },
    { { "export", "cubins, PTX and manifest.json into a folder", command_export },
      export_options, "DIR",
      "Writes what a foreign runtime needs to launch the kernels itself. Needs no GPU." },
    { { "emulate", "run one PTX file as its head says", command_emulate },
      emulate_options, "FILE.ptx",
      "Runs a kernel on the emulator with the launch, arguments and expectations in the comments "
      "at the head of its file, and shows its buffers, or the trap. tests/ptx is full of them.\v"
      "Exit codes: 0 as the head says, 1 not, 2 bad file, 3 no driver or device.\n\n"
      "Example:  ptxmm emulate tests/ptx/02_integers.ptx" },
    { { "model", "the pipeline model, as a table or a drawing", command_model },
      model_options, "",
      "How load slots and accumulator buffers keep a tensor core busy.\v"
      "Example:  ptxmm model --stages 4 --epilogue 30 --svg timeline.svg" },
};
#define COMMANDS (sizeof commands / sizeof *commands)

int complain(const struct options *o, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "ptxmm%s%s: ", o->command ? " " : "", o->command ? o->command : "");
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return EXIT_USAGE;
}

/* ---- values ---- */

/* Reading stops at the first offence; argp then only has to be left. */
struct reader {
    struct options *options;
    const struct argp_option *table;
    bool wrong, done;
};

static const char *option_name(const struct argp_option *table, int key)
{
    while (table->name && table->key != key)
        table++;
    return table->name ? table->name : "?";
}

static void must_be(struct reader *r, int key, const char *text, const char *what)
{
    complain(r->options, "--%s is \"%s\", must be %s", option_name(r->table, key), text, what);
    r->wrong = true;
}

static bool digits(const char *text, uint64_t *value)
{
    if (!*text)
        return false;
    *value = 0;
    for (; *text; text++)
        if (!isdigit((unsigned char)*text) || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, *text - '0', value))
            return false;
    return true;
}

static int64_t whole(struct reader *r, int key, const char *text, int64_t low, int64_t high)
{
    uint64_t value;
    if (digits(text, &value) && value <= INT64_MAX && (int64_t)value >= low &&
        (int64_t)value <= high)
        return (int64_t)value;
    char what[96];
    if (high == INT64_MAX)
        snprintf(what, sizeof what, "a whole number of at least %lld and below 2^63",
                 (long long)low);
    else
        snprintf(what, sizeof what, "a whole number from %lld to %lld", (long long)low,
                 (long long)high);
    must_be(r, key, text, what);
    return low;
}

static double number(struct reader *r, int key, const char *text, double low, double high)
{
    char *end;
    const double value = strtod(text, &end);
    if (*text && !isspace((unsigned char)*text) && !*end && value >= low && value <= high)
        return value;
    char what[96];
    snprintf(what, sizeof what, "a number from %g to %g", low, high);
    must_be(r, key, text, what);
    return 0;
}

static float factor(struct reader *r, int key, const char *text)
{
    return (float)number(r, key, text, -0x1.fffffep127, 0x1.fffffep127);
}

static void read_type(struct reader *r, int key, const char *text, enum ptxmm_type *type)
{
    const bool is_output = key == KEY_OUT_TYPE;
    if (!type_parse(text, type) || (is_output ? type_is_fp8(*type) : *type == PTXMM_F32))
        must_be(r, key, text, is_output ? "bf16, f16 or f32" : "bf16, f16, e4m3 or e5m2");
}

static void read_accumulate(struct reader *r, int key, const char *text)
{
    if (strcmp(text, "default") && strcmp(text, "fast"))
        must_be(r, key, text, "default or fast");
    r->options->accumulate =
        strcmp(text, "fast") ? PTXMM_ACCUMULATE_DEFAULT : PTXMM_ACCUMULATE_FAST;
}

static void read_constant(struct reader *r, const char *text)
{
    if (!constant_parse(text, &r->options->constant_a, &r->options->constant_b))
        must_be(r, KEY_CONSTANT, text, "a, b or ab");
}

static void read_arch(struct reader *r, const char *text)
{
    if (!strcmp(text, "sm90") || !strcmp(text, "sm100"))
        r->options->arch = text;
    else
        must_be(r, KEY_ARCH, text, "sm90 or sm100");
}

static void read_kernel(struct reader *r, const char *text)
{
    if (ptxmm_kernel_by_name(text))
        r->options->kernel = text;
    else
        must_be(r, KEY_KERNEL, text, "one of the names that `ptxmm kernels` lists");
}

static const char *file_name(struct reader *r, int key, const char *text)
{
    if (!*text)
        must_be(r, key, text, "the name of a file");
    return text;
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct reader *r = state->input;
    struct options *o = r->options;
    const double longest = 1e15;
    switch (key) {
    case KEY_DRIVER: o->driver = file_name(r, key, text); break;
    case KEY_PTX_DIR: o->ptx_dir = file_name(r, key, text); break;
    case KEY_DEVICE: o->device = (int)whole(r, key, text, 0, 1023); break;
    case KEY_JSON: o->json = true; break;
    case KEY_M: o->m = whole(r, key, text, 0, INT64_MAX); break;
    case KEY_N: o->n = whole(r, key, text, 0, INT64_MAX); break;
    case KEY_K: o->k = whole(r, key, text, 0, INT64_MAX); break;
    case KEY_BATCH: o->batch = whole(r, key, text, 0, INT64_MAX); break;
    case KEY_STRIDE_A: o->stride_a = whole(r, key, text, 0, INT64_MAX); break;
    case KEY_STRIDE_B: o->stride_b = whole(r, key, text, 0, INT64_MAX); break;
    case KEY_STRIDE_C: o->stride_c = whole(r, key, text, 0, INT64_MAX); break;
    case KEY_STRIDE_D: o->stride_d = whole(r, key, text, 0, INT64_MAX); break;
    case KEY_LDA: o->lda = whole(r, key, text, 1, INT64_MAX); break;
    case KEY_LDB: o->ldb = whole(r, key, text, 1, INT64_MAX); break;
    case KEY_LDC: o->ldc = whole(r, key, text, 1, INT64_MAX); break;
    case KEY_LDD: o->ldd = whole(r, key, text, 1, INT64_MAX); break;
    case KEY_TYPE: read_type(r, key, text, &o->type); break;
    case KEY_B_TYPE: read_type(r, key, text, &o->b_type); break;
    case KEY_OUT_TYPE: read_type(r, key, text, &o->out_type); break;
    case KEY_ACCUMULATE: read_accumulate(r, key, text); break;
    case KEY_CONSTANT: read_constant(r, text); break;
    case KEY_ARCH: read_arch(r, text); break;
    case KEY_KERNEL: read_kernel(r, text); break;
    case KEY_CHOICES: o->choices = file_name(r, key, text); break;
    case KEY_WORKSPACE: o->workspace = whole(r, key, text, 0, INT64_MAX); break;
    case KEY_SMS: o->sms = whole(r, key, text, 1, 65535); break;
    case KEY_CLUSTER: o->cluster = (int)whole(r, key, text, 1, 8); break;
    case KEY_CLUSTER_ROWS: o->cluster_rows = (int)whole(r, key, text, 1, 8); break;
    case KEY_GROUPS: o->groups = (int)whole(r, key, text, 1, 64); break;
    case KEY_ALPHA: o->alpha = factor(r, key, text); break;
    case KEY_BETA: o->beta = factor(r, key, text); break;
    case KEY_A: o->a = file_name(r, key, text); break;
    case KEY_B: o->b = file_name(r, key, text); break;
    case KEY_C: o->c = file_name(r, key, text); break;
    case KEY_OUT: o->out = file_name(r, key, text); break;
    case KEY_SEED: o->seed = (uint64_t)whole(r, key, text, 0, INT64_MAX); break;
    case KEY_REPEAT: o->repeat = whole(r, key, text, 1, 1000000); break;
    case KEY_QUICK: o->full = false; break;
    case KEY_FULL: o->full = true; break;
    case KEY_FORCE: o->force = true; break;
    case KEY_TILES: o->model.tiles = whole(r, key, text, 1, 1000000); break;
    case KEY_SLICES: o->model.slices = whole(r, key, text, 1, 1000000); break;
    case KEY_STAGES: // of the model, or of a kernel
        if (!strcmp(o->command, "model"))
            o->model.stages = (int)whole(r, key, text, 1, 1000);
        else
            o->stages = (int)whole(r, key, text, PTXMM_LEAST_STAGES, 64);
        o->stages_given = true;
        break;
    case KEY_ACCUMULATORS:
        o->model.accumulators = (int)whole(r, key, text, 1, 1000);
        o->accumulators_given = true;
        break;
    case KEY_ISSUE: o->model.issue = number(r, key, text, 0, longest); break;
    case KEY_LOAD: o->model.load = number(r, key, text, 0, longest); break;
    case KEY_MMA: o->model.mma = number(r, key, text, 0, longest); break;
    case KEY_EPILOGUE: o->model.epilogue = number(r, key, text, 0, longest); break;
    case KEY_SVG: o->svg = file_name(r, key, text); break;
    case KEY_HELP:
    case KEY_VERSION: r->done = true; return ECANCELED;
    case ARGP_KEY_ARG:
        if (!strcmp(o->command, "export") && !o->folder && *text) {
            o->folder = text;
            break;
        }
        if (!strcmp(o->command, "emulate") && !o->file && *text) {
            o->file = text;
            break;
        }
        complain(o, "\"%s\" is one argument too many", text);
        r->wrong = true;
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return r->wrong ? ECANCELED : 0;
}

/* The option that `text` is or abbreviates; how many rows begin like it. */
static const struct argp_option *find_option(const struct argp_option *table, const char *text,
                                             int *matches)
{
    const size_t length = strcspn(text, "=");
    const struct argp_option *found = NULL;
    *matches = 0;
    for (const struct argp_option *row = table; row->name && strncmp(text, "--", 2) == 0; row++)
        if (!strncmp(row->name, text + 2, length - 2)) {
            found = row;
            ++*matches;
            if (strlen(row->name) == length - 2) {
                *matches = 1;
                break;
            }
        }
    return found;
}

/* argp could not make sense of an option and does not tell reliably of which: reads them again. */
static void name_offender(struct reader *r, int argc, char **argv)
{
    const struct argp_option *found = NULL;
    int matches = 0, at = 1;
    const char *text = "";
    for (; at < argc; at++) {
        text = argv[at];
        if (text[0] != '-')
            continue;
        found = find_option(r->table, text, &matches);
        const int with_value = strchr(text, '=') != NULL;
        if (matches != 1 || (found->arg && !with_value && at + 1 == argc) ||
            (!found->arg && with_value))
            break;
        at += found->arg && !with_value;
    }
    const size_t length = strcspn(text, "=");
    if (matches == 1 && found->arg && !text[length])
        complain(r->options, "--%s has no value, must be followed by %s", found->name, found->arg);
    else if (matches == 1 && !found->arg && text[length])
        complain(r->options, "--%s is given \"%s\", but takes no value", found->name,
                 text + length + 1);
    else if (matches > 1)
        complain(r->options, "\"%.*s\" is the beginning of several options", (int)length, text);
    else if (r->options->command)
        complain(r->options, "\"%.*s\" is not an option; `ptxmm %s --help` lists them", (int)length,
                 text, r->options->command);
    else
        complain(r->options,
                 "\"%.*s\" is not an option that may stand before a command; see `ptxmm --help`",
                 (int)length, text);
    r->wrong = true;
}

/* ---- help ---- */

static void overview(void)
{
    printf("ptxmm %d.%d.%d -- matrix multiplication from hand-written PTX, for NVIDIA Hopper and "
           "Blackwell\n\n"
           "usage: ptxmm [--driver PATH|emulator] COMMAND [OPTIONS]\n\n",
           PTXMM_VERSION_MAJOR, PTXMM_VERSION_MINOR, PTXMM_VERSION_PATCH);
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i].command.name, commands[i].command.words);
    printf("\n  ptxmm COMMAND --help    the options of a command\n  ptxmm --version\n\n"
           "Examples:\n"
           "  ptxmm plan --m 4096 --n 4096 --k 4096                what would run, and how fast\n"
           "  ptxmm run --m 4096 --n 4096 --k 4096                 multiply on the GPU and check\n"
           "  ptxmm run --m 200 --n 300 --k 100 --driver emulator  the same without a GPU\n"
           "  ptxmm run --a A.npy --b B.npy --out D.npy            your own matrices\n");
}

const struct command *options_read(int argc, char **argv, struct options *o, int *code)
{
    *o = (struct options){ .m = -1,
                           .n = -1,
                           .k = -1,
                           .batch = -1,
                           .stride_a = -1,
                           .stride_b = -1,
                           .stride_c = -1,
                           .stride_d = -1,
                           .alpha = 1,
                           .beta = NAN,
                           .seed = 1,
                           .workspace = 64 << 20,
                           .model = { .tiles = 3, .slices = 6, .stages = 4, .accumulators = 2,
                                      .issue = 1, .load = 12, .mma = 4, .epilogue = 8 } };
    *code = EXIT_RIGHT;

    /* Options of all commands that may stand before the command's name. */
    static const struct argp_option global_options[] = {
        DRIVER, DEVICE, JSON, HELP, { "version", KEY_VERSION, NULL, 0, "the version", IN_ORDER },
        END
    };
    int first = 1;
    while (first < argc && argv[first][0] == '-') /* options with a separate value take two words */
        first += strchr(argv[first], '=') || !strcmp(argv[first], "--json") ||
                         !strcmp(argv[first], "--help") || !strcmp(argv[first], "--version")
                     ? 1
                     : 2;
    if (first > argc)
        first = argc;

    const struct argp global = { global_options, read_option, NULL, NULL, NULL, NULL, NULL };
    struct reader reader = { .options = o, .table = global_options };
    const unsigned flags = ARGP_NO_ERRS | ARGP_NO_EXIT | ARGP_NO_HELP | ARGP_IN_ORDER;
    o->command = NULL;
    if (first > 1 && argp_parse(&global, first, argv, flags, NULL, &reader)) {
        if (reader.done) {
            bool version = false;
            for (int i = 1; i < first; i++)
                version |= !strcmp(argv[i], "--version");
            if (version)
                printf("ptxmm %d.%d.%d\n", PTXMM_VERSION_MAJOR, PTXMM_VERSION_MINOR,
                       PTXMM_VERSION_PATCH);
            else
                overview();
            return NULL;
        }
        *code = EXIT_USAGE;
        if (!reader.wrong)
            name_offender(&reader, first, argv);
        return NULL;
    }
    if (first == argc) {
        *code = complain(o, "no command is given; `ptxmm --help` lists them");
        return NULL;
    }
    if (!strcmp(argv[first], "help")) {
        overview();
        return NULL;
    }
    size_t c = 0;
    while (c < COMMANDS && strcmp(argv[first], commands[c].command.name))
        c++;
    if (c == COMMANDS) {
        *code = complain(o, "\"%s\" is not a command; `ptxmm --help` lists them", argv[first]);
        return NULL;
    }

    o->command = commands[c].command.name;
    const struct argp argp = {
        commands[c].options, read_option, commands[c].arguments, commands[c].doc, NULL, NULL, NULL
    };
    reader.table = commands[c].options;
    if (argp_parse(&argp, argc - first, argv + first, flags, NULL, &reader)) {
        if (reader.done) {
            char name[64];
            snprintf(name, sizeof name, "ptxmm %s", o->command);
            argp_help(&argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
            return NULL;
        }
        if (!reader.wrong)
            name_offender(&reader, argc - first, argv + first);
        *code = EXIT_USAGE;
        return NULL;
    }
    return &commands[c].command;
}
