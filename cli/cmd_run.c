/* cmd_run.c -- `ptxmm run`: multiply, check all of it, time it. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "npy.h"
#include "parallel.h"
#include "product.h"
#include "report.h"

/* What the files and sizes come to. */
struct inputs {
    struct npy a, b, c;
};

struct timing {
    double median, least, most; /* seconds */
    int64_t count;
    bool repeats_equal;         /* D had the same bits after all launches */
};

/* ---- operands ---- */

static int read_inputs(const struct options *o, struct inputs *in)
{
    char error[512];
    const char *const files[3] = { o->a, o->b, o->c };
    struct npy *const arrays[3] = { &in->a, &in->b, &in->c };
    for (int i = 0; i < 3 && o->batch >= 0; i++)
        if (files[i])
            return complain(o, "--batch is given with --%c, must be left away: a file has one matrix",
                            "abc"[i]);
    if (o->out && o->batch >= 0)
        return complain(o, "--batch is given with --out, must be left away: a file has one matrix");
    if (!o->a != !o->b)
        return complain(o, "--%s is given without --%s, must come with it", o->a ? "a" : "b",
                        o->a ? "b" : "a");
    for (int i = 0; i < 3; i++)
        if (files[i] && !npy_read(files[i], arrays[i], error, sizeof error))
            return complain(o, "%s", error);
    return 0;
}

/* Sizes from files or options; both at once must agree. */
static int find_sizes(struct options *o, const struct inputs *in)
{
    if (!o->a) {
        if (o->m < 0 || o->n < 0 || o->k < 0)
            return complain(o, "--%s is missing: --m, --n and --k, or --a and --b, must be given",
                            o->m < 0 ? "m" : o->n < 0 ? "n" : "k");
    } else {
        if (in->a.cols != in->b.rows)
            return complain(o,
                            "%s is %lld x %lld and %s is %lld x %lld: the %lld columns of A must "
                            "equal the %lld rows of B",
                            o->a, (long long)in->a.rows, (long long)in->a.cols, o->b,
                            (long long)in->b.rows, (long long)in->b.cols, (long long)in->a.cols,
                            (long long)in->b.rows);
        const struct {
            const char *name, *file;
            int64_t *option, size;
        } sizes[3] = { { "m", o->a, &o->m, in->a.rows },
                       { "n", o->b, &o->n, in->b.cols },
                       { "k", o->a, &o->k, in->a.cols } };
        for (int i = 0; i < 3; i++) {
            if (*sizes[i].option >= 0 && *sizes[i].option != sizes[i].size)
                return complain(o, "--%s is %lld, must be %lld as in %s, or left away",
                                sizes[i].name, (long long)*sizes[i].option,
                                (long long)sizes[i].size, sizes[i].file);
            *sizes[i].option = sizes[i].size;
        }
    }
    if (o->c && (in->c.rows != o->m || in->c.cols != o->n))
        return complain(o, "%s is %lld x %lld, must be %lld x %lld like D", o->c,
                        (long long)in->c.rows, (long long)in->c.cols, (long long)o->m,
                        (long long)o->n);
    return 0;
}

struct conversion {
    struct matrix *to;
    const struct npy *from;
    bool transposed;
};

static void convert_rows(void *user, int64_t first, int64_t last)
{
    const struct conversion *c = user;
    for (int64_t row = first; row < last; row++)
        for (int64_t col = 0; col < c->to->cols; col++)
            matrix_set(c->to, row, col,
                       c->transposed ? npy_get(c->from, col, row) : npy_get(c->from, row, col));
}

static void fill_from(struct matrix *x, const struct npy *from, bool transposed)
{
    struct conversion conversion = { x, from, transposed };
    parallel_for(x->rows, 16, convert_rows, &conversion);
}

static void fill(struct product *p, const struct options *o, const struct inputs *in)
{
    if (o->a) {
        fill_from(&p->a.whole, &in->a, false);
        fill_from(&p->b.whole, &in->b, true);
    } else {
        stack_fill(&p->a, FILL_NORMAL, o->seed, STREAM_A);
        stack_fill(&p->b, FILL_NORMAL, o->seed, STREAM_B);
    }
    if (o->c)
        fill_from(&p->c.whole, &in->c, false);
    else if (p->c.whole.base)
        stack_fill(&p->c, FILL_NORMAL, o->seed, STREAM_C);
}

/* ---- timing ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One launch, and how long it took: by the host's clock, or between two events where they are
 * given. */
static bool time_one(struct product *p, CUstream stream, CUevent begin, CUevent end,
                     double *seconds)
{
    struct gpu *gpu = &p->session->gpu;
    const double start = now();
    float ms = 0;
    if (begin && !gpu_ok(gpu, gpu->EventRecord(begin, stream), "cuEventRecord"))
        return false;
    if (!product_launch(p, stream)) {
        snprintf(gpu->error, sizeof gpu->error, "%.1000s", p->error);
        return false;
    }
    if (end && !gpu_ok(gpu, gpu->EventRecord(end, stream), "cuEventRecord"))
        return false;
    if (!gpu_ok(gpu, gpu->StreamSynchronize(stream), "waiting for the kernel"))
        return false;
    if (end && !gpu_ok(gpu, gpu->EventElapsedTime(&ms, begin, end), "cuEventElapsedTime"))
        return false;
    *seconds = end ? (double)ms * 1e-3 : now() - start;
    return true;
}

static bool time_all(struct product *p, CUstream stream, int64_t count, struct timing *t)
{
    struct gpu *gpu = &p->session->gpu;
    CUevent begin = NULL, end = NULL;
    double *seconds = malloc((size_t)count * sizeof *seconds), warm;
    bool fine = seconds != NULL;
    if (!fine)
        snprintf(gpu->error, sizeof gpu->error, "host memory is exhausted");
    if (fine && !gpu_is_emulator(gpu)) /* whose events know nothing of time that means anything */
        fine = gpu_ok(gpu, gpu->EventCreate(&begin, CU_EVENT_DEFAULT), "cuEventCreate") &&
               gpu_ok(gpu, gpu->EventCreate(&end, CU_EVENT_DEFAULT), "cuEventCreate");
    for (int i = 0; fine && i < 3 && begin; i++) /* clocks rise, caches fill */
        fine = time_one(p, stream, begin, end, &warm);
    for (int64_t i = 0; fine && i < count; i++)
        fine = time_one(p, stream, begin, end, &seconds[i]);
    if (fine) {
        qsort(seconds, (size_t)count, sizeof *seconds, ascending);
        *t = (struct timing){ .median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2,
                              .least = seconds[0], .most = seconds[count - 1], .count = count,
                              .repeats_equal = true };
    }
    if (begin)
        gpu->EventDestroy(begin);
    if (end)
        gpu->EventDestroy(end);
    free(seconds);
    return fine;
}

/* Fetches D again: the launches that were timed must have given the same bits. */
static bool compare_repeats(struct product *p, struct timing *t)
{
    struct matrix first = p->d.whole, *again = &p->d.whole;
    again->base = malloc(first.bytes);
    const bool fine = again->base && product_download(p);
    if (fine)
        t->repeats_equal = !memcmp(first.base, again->base, first.bytes);
    else if (!again->base)
        snprintf(p->error, sizeof p->error, "host memory is exhausted");
    free(again->base);
    *again = first;
    return fine;
}

/* ---- words ---- */

static void print_text(const struct options *o, const struct product *p, const struct timing *t,
                       const char *check)
{
    char words[512], time[4][32];
    session_describe(p->session, words, sizeof words);
    printf("device   %s\n", words);
    product_words(&p->problem, words, sizeof words);
    printf("product  %s; ", words);
    if (o->a)
        printf("A from %s, B from %s, rounded to %s%s%s\n", o->a, o->b, type_name(o->type),
               o->b_type != o->type ? " and " : "",
               o->b_type != o->type ? type_name(o->b_type) : "");
    else
        printf("normal data, seed %llu\n", (unsigned long long)o->seed);
    const struct ptxmm_plan_info *info = ptxmm_plan_info(p->plan);
    if (info->candidate.kernel)
        printf("kernel   %s: %lld tile%s on %u CTA%s%s, predicted %s\n",
               info->candidate.kernel->name, (long long)info->candidate.tiles,
               info->candidate.tiles == 1 ? "" : "s", info->grid, info->grid == 1 ? "" : "s",
               split_text(&info->candidate, words, sizeof words),
               time_text(info->candidate.seconds, time[0], sizeof time[0]));
    else
        printf("kernel   none: D has no elements\n");
    if (t->count) {
        const double flops = product_flops(&p->problem);
        printf("time     %s, ", time_text(t->median, time[1], sizeof time[1]));
        if (gpu_is_emulator(&p->session->gpu))
            printf("the emulator's on this CPU: says nothing about a GPU\n");
        else
            printf("%.1f TFLOP/s; median of %lld, %s to %s\n", flops / t->median * 1e-12,
                   (long long)t->count, time_text(t->least, time[2], sizeof time[2]),
                   time_text(t->most, time[3], sizeof time[3]));
        if (!t->repeats_equal)
            printf("repeats  WRONG: the launches gave different bits\n");
    }
    printf("check    ");
    for (const char *at = check; *at; at++) {
        putchar(*at);
        if (*at == '\n' && at[1])
            printf("         ");
    }
}

static void print_json(const struct options *o, const struct product *p, const struct timing *t,
                       const struct check_result *check, bool right)
{
    const struct ptxmm_plan_info *info = ptxmm_plan_info(p->plan);
    const bool emulated = gpu_is_emulator(&p->session->gpu);
    json_t *device = report_device(&p->session->device), *problem = report_problem(&p->problem),
           *time = json_null();
    json_object_set_new(device, "driver", json_string(ptxmm_driver_path(p->session->mm)));
    json_object_set_new(device, "driver_version", json_integer(p->session->gpu.driver_version));
    json_object_set_new(device, "emulator", json_boolean(emulated));
    json_object_set_new(problem, "alpha", json_number(p->alpha));
    json_object_set_new(problem, "beta", json_number(p->beta));
    json_object_set_new(problem, "seed", o->a ? json_null() : json_integer((json_int_t)o->seed));
    if (t->count) {
        const double flops = product_flops(&p->problem);
        time = json_pack("{s:f, s:f, s:f, s:I, s:b, s:b}", "median_seconds", t->median,
                         "least_seconds", t->least, "most_seconds", t->most, "launches",
                         (json_int_t)t->count, "of_the_emulator", emulated, "repeats_equal",
                         t->repeats_equal);
        json_object_set_new(time, "tflops",
                            emulated ? json_null() : json_number(flops / t->median * 1e-12));
    }
    json_print(json_pack("{s:b, s:o, s:o, s:o, s:o, s:o}", "right", right, "device", device,
                         "problem", problem, "plan",
                         info->candidate.kernel ? report_candidate(&info->candidate) : json_null(),
                         "time", time, "check", report_check(check)));
}

/* ---- all of it ---- */

static int multiply(const struct options *o, struct session *s, const struct inputs *in)
{
    struct ptxmm_problem problem;
    product_problem(o, &problem);
    struct product p;
    char text[4096], error[512];
    struct check_result check;
    struct timing timing = { 0 };
    struct gpu *gpu = &s->gpu;
    CUstream stream = NULL;
    int code;
    if (!product_create(&p, s, &problem, o->alpha, o->beta)) {
        code = complain(o, "%s", p.error);
        goto done;
    }
    fill(&p, o, in);
    /* The plan first: what no kernel can do is refused before memory is moved. */
    if (!product_plan(&p)) {
        code = p.device_is_cause ? device_failed(s, o, "making a plan", p.error)
                                 : complain(o, "%s", p.error);
        goto done;
    }
    double first = 0;
    if (!product_upload(&p)) {
        code = device_failed(s, o, "copying to the device", p.error);
        goto done;
    }
    if (!gpu_ok(gpu, gpu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate") ||
        !time_one(&p, stream, NULL, NULL, &first)) {
        code = device_failed(s, o, "multiplying", gpu->error);
        goto done;
    }
    if (!product_download(&p)) {
        code = device_failed(s, o, "fetching D", p.error);
        goto done;
    }
    bool right = product_check(&p, false, o->seed, &check, text, sizeof text);

    /* Timed launches come after the check, in a row. An emulated one is not worth repeating for its
     * time. */
    const bool empty = !ptxmm_plan_info(p.plan)->candidate.kernel,
               once = gpu_is_emulator(gpu) && !o->repeat;
    if (!empty && once)
        timing = (struct timing){ first, first, first, 1, true };
    if (!empty && !once) {
        if (!time_all(&p, stream, o->repeat ? o->repeat : 20, &timing)) {
            code = device_failed(s, o, "timing", gpu->error);
            goto done;
        }
        if (!compare_repeats(&p, &timing)) {
            code = device_failed(s, o, "comparing the repeats", p.error);
            goto done;
        }
        right = right && timing.repeats_equal;
    }
    if (o->json)
        print_json(o, &p, &timing, &check, right);
    else
        print_text(o, &p, &timing, text);
    code = right ? EXIT_RIGHT : EXIT_WRONG;
    if (o->out && !npy_write(o->out, &p.d.whole, error, sizeof error))
        code = complain(o, "%s", error);
done:
    if (stream)
        gpu->StreamDestroy(stream);
    product_destroy(&p);
    return code;
}

int command_run(const struct options *given)
{
    struct options options = *given, *o = &options;
    struct inputs in = { 0 };
    struct session s;
    int code = read_inputs(o, &in);
    if (!o->type && in.a.type == PTXMM_F16 &&
        in.b.type == PTXMM_F16) /* else bf16, whose range float32 has */
        o->type = PTXMM_F16;
    if (isnan(o->beta))
        o->beta = o->c ? 1 : 0;
    if (!code)
        code = find_sizes(o, &in);
    if (!code)
        code = product_leading(o);
    if (!code)
        code = session_open(&s, o, true);
    if (!code) {
        code = multiply(o, &s, &in);
        session_close(&s);
    }
    npy_free(&in.a);
    npy_free(&in.b);
    npy_free(&in.c);
    return code;
}
