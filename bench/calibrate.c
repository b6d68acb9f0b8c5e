/* calibrate.c -- the model's constants from measured times.
 *
 * Reads what ptxmm-bench --json wrote (best with --all-kernels), fits each row of loader/timing.c that kernels were
 * measured for, and prints it as source, with what the choice loses by it. Nothing is run.
 *
 * What is minimised: the squares of ln(predicted / measured), kernels near the fastest of their shape counting most,
 * and what is lost where the model would choose another than the fastest; and a little of the squares of
 * ln(constant / constant before), so that what the times say nothing about stays as it is. Each constant in turn is
 * moved by 12, 4 and 1.2 % as long as that helps, until a round brings nothing; and that from several places.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cli/workload.h"
#include "loader/timing.h"

/* What events around a launch add to its time. */
#define EVENTS_US 2.0

enum { MOST_CLUSTER = 16, MOST_GROUPS = 64 };

struct point {
    struct ptxmm_problem problem;
    const struct ptxmm_kernel_info *kernel;
    const struct timing *row;
    int64_t cluster, rows, groups; /* as it was measured */
    char shape[64];
    double us, best_us;   /* without events; best of its shape and row */
};

struct points {
    struct point *list;
    size_t count;
    struct ptxmm_device device;
    char date[16];
};

/* The constants that are fitted, and the largest they may become (0: no bound). What was read with clock(), or off the GPU's own
 * sensors, stays. */
static const struct constant {
    const char *name;
    size_t at;
    double most;
} constants[] = {
#define CONSTANT(name, most) { #name, offsetof(struct timing, name), most }
    CONSTANT(epilogue, 0),    CONSTANT(epilogue_per_byte, 0), CONSTANT(sm_bytes, 128),    CONSTANT(fabric, 0),
    CONSTANT(sm_alone, 0),    CONSTANT(scatter, 1),
    CONSTANT(second, 0),
    CONSTANT(ramp, 0),        CONSTANT(split_start, 0),       CONSTANT(split_element, 0), CONSTANT(exchange, 0),
    CONSTANT(group, 0),       CONSTANT(meet, 0),              CONSTANT(meet_element, 0),  CONSTANT(promote, 0),           CONSTANT(split_promote, 0), CONSTANT(outside, 0),
    CONSTANT(launch, 0),      CONSTANT(busy_clock, 0.9),      CONSTANT(dram, 0.93),
#undef CONSTANT
};
enum { CONSTANTS = sizeof constants / sizeof constants[0] };

static double *constant_of(struct timing *row, int i)
{
    return (double *)((char *)row + constants[i].at);
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

static int complain(const char *path, const char *what)
{
    fprintf(stderr, "ptxmm-bench: %s: %s\n", path, what);
    return -1;
}

/* Longer than any product takes; within the model's range whatever the fit makes of it. */
#define LONGEST_US 1e9

/* A leading dimension as ptxmm-bench makes it for the selection: rows begin at multiples of 16 bytes. */
static int64_t aligned(enum ptxmm_type type, int64_t row)
{
    const int64_t step = type == PTXMM_F32 ? 4 : type_is_fp8(type) ? 16 : 8;
    return row / step * step + (row % step ? step : 0);
}

/* Can the kernel have multiplied this? What the model is asked about must be a product that it is made for. */
static bool is_served(const struct points *points, const struct point *point)
{
    struct ptxmm_problem problem = point->problem;
    struct ptxmm_candidate first;
    size_t count;
    const int64_t sizes[] = { problem.m, problem.n, problem.k, problem.batch };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < (i < 2) || sizes[i] > INT32_MAX) return false;
    problem.prefer.kernel = point->kernel->name;
    problem.a.ld = aligned(problem.a.type, problem.k);
    problem.b.ld = aligned(problem.b.type, problem.k);
    problem.d.ld = aligned(problem.d.type, problem.n);
    if (problem.batch > 1) problem.d.batch_stride = problem.d.ld * problem.m;
    return !ptxmm_select(&points->device, &problem, &first, 1, &count, NULL) && !first.reason;
}

/* 0: taken, or of no use here; -1 after one line. */
static int take(struct points *points, const char *path, const json_t *result)
{
    const char *name = json_string_value(json_object_get(result, "kernel"));
    const char *out = json_string_value(json_object_get(result, "out_type"));
    const json_t *ours = json_object_get(json_object_get(result, "pair"), "ours");
    const struct ptxmm_kernel_info *kernel = name ? ptxmm_kernel_by_name(name) : NULL;
    struct point point = { .kernel = kernel };
    if (!ours) return 0; /* failed, or another protocol */
    if (!kernel) return name ? 0 : complain(path, "a result has no \"kernel\""); /* a kernel that is gone */
    point.row = timing_of(kernel);
    if (!point.row || !out || !type_parse(out, &point.problem.d.type)) return complain(path, "a result has no \"out_type\"");
    point.problem.m = json_integer_value(json_object_get(result, "m"));
    point.problem.n = json_integer_value(json_object_get(result, "n"));
    point.problem.k = json_integer_value(json_object_get(result, "k"));
    point.problem.batch = json_integer_value(json_object_get(result, "batch"));
    if (point.problem.batch > 1) point.problem.kind = PTXMM_BATCH_STRIDED;
    point.problem.a.type = kernel->a == PTXMM_BF16_OR_F16 ? PTXMM_BF16 : kernel->a;
    point.problem.b.type = kernel->b == PTXMM_BF16_OR_F16 ? PTXMM_BF16 : kernel->b;
    point.problem.accumulate = kernel->promotion ? PTXMM_ACCUMULATE_DEFAULT : PTXMM_ACCUMULATE_FAST;
    point.cluster = json_integer_value(json_object_get(result, "cluster"));
    point.rows = json_integer_value(json_object_get(result, "cluster_rows"));
    if (point.rows < 1) point.rows = 1; /* measured before there were kernels with more */
    point.groups = json_integer_value(json_object_get(result, "groups"));
    if (point.cluster < 1 || point.groups < 1) return complain(path, "a result has no \"cluster\" or no \"groups\"");
    if (point.cluster > MOST_CLUSTER || point.groups > MOST_GROUPS)
        return complain(path, "a result has a \"cluster\" of more than 16 CTAs, or more than 64 \"groups\"");
    if (point.rows > point.cluster || point.cluster % point.rows)
        return complain(path, "a result has \"cluster_rows\" that are not those of its \"cluster\"");
    if (!is_served(points, &point)) return complain(path, "a result is of a product that its kernel cannot multiply");
    point.us = json_number_value(json_object_get(ours, "median_us")) - EVENTS_US;
    if (!(point.us > 0)) return complain(path, "a median is not longer than the events around it");
    if (!(point.us < LONGEST_US)) return complain(path, "a median is longer than 1000 s");
    snprintf(point.shape, sizeof point.shape, "%lldx%lldx%lld", (long long)point.problem.m,
             (long long)point.problem.n, (long long)point.problem.k);
    if (point.problem.batch > 1)
        snprintf(point.shape + strlen(point.shape), sizeof point.shape - strlen(point.shape), "x%lld",
                 (long long)point.problem.batch);
    struct point *grown = realloc(points->list, (points->count + 1) * sizeof *grown);
    if (!grown) return complain(path, "memory is exhausted");
    points->list = grown;
    grown[points->count++] = point;
    return 0;
}

static int read_points(struct points *points, const char *path)
{
    json_t *root = bench_results(path);
    if (!root) return -1;
    int failed = 0;
    const json_t *results = json_object_get(root, "results"), *result;
    const char *device = json_string_value(json_object_get(root, "device"));
    const char *date = json_string_value(json_object_get(root, "date"));
    size_t i;
    if (!strstr(device, "H200") || json_is_true(json_object_get(root, "emulator")))
        failed = complain(path, "the times must be an H200's: the table has no other GPU's");
    else
        json_array_foreach(results, i, result) failed = failed ? failed : take(points, path, result);
    if (!failed && date) snprintf(points->date, sizeof points->date, "%.10s", date);
    json_decref(root);
    return failed;
}

static int by_shape(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    const int order = strcmp(x->shape, y->shape);
    return order ? order : (x->us > y->us) - (x->us < y->us);
}

/* Sorts by row, shape and time; a kernel that was measured more than once keeps its fastest. */
static void arrange(struct points *points)
{
    qsort(points->list, points->count, sizeof *points->list, by_shape);
    size_t kept = 0, first = 0;
    for (size_t i = 0; i < points->count; i++) {
        struct point *p = &points->list[i];
        bool again = false;
        if (!kept || points->list[kept - 1].row != p->row || strcmp(points->list[kept - 1].shape, p->shape)) first = kept;
        for (size_t k = first; k < kept; k++) again = again || points->list[k].kernel == p->kernel;
        if (again) continue;
        p->best_us = first < kept ? points->list[first].us : p->us;
        points->list[kept++] = *p;
    }
    points->count = kept;
}

/* ---- the fit -------------------------------------------------------------------------------------------------- */

static double predict_us(const struct points *points, const struct timing *row, const struct point *p)
{
    struct ptxmm_candidate candidate = { .kernel = p->kernel };
    const struct launch_shape shape = { p->cluster, p->rows, p->groups };
    timing_predict_as(row, &points->device, &p->problem, &shape, NULL, &candidate);
    return candidate.seconds * 1e6;
}

/* The end of the shape that begins at i. */
static size_t shape_end(const struct points *points, size_t i)
{
    size_t end = i;
    while (end < points->count && points->list[end].row == points->list[i].row &&
           !strcmp(points->list[end].shape, points->list[i].shape))
        end++;
    return end;
}

static double misfit(const struct points *points, size_t from, size_t to, const struct timing *row,
                     const struct timing *before)
{
    double sum = 0;
    for (size_t i = from; i < to; i = shape_end(points, i)) {
        double least = INFINITY, chosen = 0;
        for (size_t k = i; k < shape_end(points, i); k++) {
            const struct point *p = &points->list[k];
            const double us = predict_us(points, row, p), slower = p->us / p->best_us, e = log(us / p->us);
            /* A kernel that is far behind may be thought even slower: nobody will choose it. */
            sum += (slower < 1.05 ? 2 : slower < 1.3 ? 0.6 : e > 0 ? 0.02 : 0.1) * e * e;
            if (us < least) least = us, chosen = p->us;
        }
        const double lost = log(chosen / points->list[i].best_us);
        sum += 0.5 * lost + 20 * lost * lost;
    }
    for (int i = 0; i < CONSTANTS; i++) {
        const double was = *constant_of((struct timing *)before, i), is = *constant_of((struct timing *)row, i);
        if (was > 0) sum += 0.05 * log(is / was) * log(is / was);
    }
    return sum;
}

/* Downhill from *row to the bottom of the valley that it stands in; the misfit there. */
static double descend(const struct points *points, size_t from, size_t to, struct timing *row,
                      const struct timing *before)
{
    static const double steps[] = { 1.12, 1 / 1.12, 1.04, 1 / 1.04, 1.012, 1 / 1.012 };
    double best = misfit(points, from, to, row, before);
    for (;;) {
        const double start = best;
        for (int i = 0; i < CONSTANTS; i++) {
            double *const constant = constant_of(row, i);
            for (size_t s = 0; *constant > 0 && s < sizeof steps / sizeof *steps; s++)
                for (;;) {
                    const double old = *constant;
                    *constant *= steps[s];
                    const bool far = constants[i].most > 0 && *constant > constants[i].most;
                    const double now = far ? INFINITY : misfit(points, from, to, row, before);
                    if (now < best - 1e-6) {
                        best = now;
                    } else {
                        *constant = old;
                        break;
                    }
                }
        }
        if (start - best < 0.001) return best;
    }
}

/* There are many valleys: after the first descent others start from the best place so far with every constant moved by
 * up to a quarter. The same numbers each time, so that a fit can be repeated. */
static void fit(const struct points *points, size_t from, size_t to, struct timing *row)
{
    enum { DESCENTS = 24 };
    const struct timing before = *row;
    double least = descend(points, from, to, row, &before);
    unsigned short seed[3] = { 1, 2, 3 };
    for (int i = 1; i < DESCENTS; i++) {
        struct timing moved = *row;
        bench_progress("fitting, descent %d of %d: misfit %.4f", i + 1, DESCENTS, least);
        for (int k = 0; k < CONSTANTS; k++) {
            double *const constant = constant_of(&moved, k), there = *constant * (0.75 + 0.5 * erand48(seed));
            if (!constants[k].most || there <= constants[k].most) *constant = there;
        }
        const double misfit_there = descend(points, from, to, &moved, &before);
        if (misfit_there < least) {
            least = misfit_there;
            *row = moved;
        }
    }
    bench_progress(NULL);
}

/* ---- what came out -------------------------------------------------------------------------------------------- */

/* Pairs of kernels of a shape that the model puts in the measured order, of all that differ by more than 3 %. */
static void order(const struct points *points, size_t from, size_t to, const struct timing *row, int *right, int *all)
{
    for (size_t i = from; i < to; i++)
        for (size_t k = i + 1; k < to; k++) {
            const struct point *x = &points->list[i], *y = &points->list[k];
            if (y->us < 1.03 * x->us) continue;
            ++*all;
            *right += predict_us(points, row, x) < predict_us(points, row, y);
        }
}

static void report(const struct points *points, size_t from, size_t to, const struct timing *row)
{
    double logs = 0, worst = 0;
    int shapes = 0, right = 0, all = 0;
    printf("%-20s %-44s %9s %9s  %-44s %9s  %6s\n", "shape", "chosen", "predicted", "measured", "fastest", "measured",
           "loss");
    for (size_t i = from; i < to; i = shape_end(points, i)) {
        const size_t end = shape_end(points, i);
        const struct point *best = &points->list[i], *chosen = best;
        double least = INFINITY;
        for (size_t k = i; k < end; k++) {
            const double us = predict_us(points, row, &points->list[k]);
            if (us < least) least = us, chosen = &points->list[k];
        }
        const double loss = chosen->us / best->us - 1;
        printf("%-22s %-34s %9.2f %9.2f  %-34s %9.2f  %5.1f %%\n", best->shape, chosen->kernel->name, least, chosen->us,
               best->kernel->name, best->us, 100 * loss);
        logs += log1p(loss);
        worst = loss > worst ? loss : worst;
        shapes++;
        order(points, i, end, row, &right, &all);
    }
    printf("%d shapes: the choice loses %.2f %% on average, %.1f %% at most; %d of %d pairs of kernels that differ by more "
           "than 3 %% in the measured order\n",
           shapes, 100 * expm1(logs / shapes), 100 * worst, right, all);
}

static void print_row(const struct timing *row, const char *date)
{
    printf("\n    /* fitted to times of %s */\n    { .arch = %d,\n      .bits = %d,\n", date, row->arch, row->bits);
#define LINE(name) printf("      ." #name " = %.4g,\n", row->name)
    LINE(slice_overhead); LINE(issue); LINE(second); LINE(load); LINE(epilogue); LINE(epilogue_per_byte); LINE(sm_bytes); LINE(sm_alone); LINE(fabric); LINE(scatter);
    LINE(ramp); LINE(split_start); LINE(split_element); LINE(exchange); LINE(group); LINE(meet); LINE(meet_element); LINE(promote); LINE(split_promote);
    LINE(outside); LINE(launch); LINE(light_clock); LINE(busy_clock); LINE(narrow_clock); LINE(dram);
#undef LINE
    printf("      .l2 = %.4g },\n\n", row->l2);
}

int bench_calibrate(const char *const *paths, size_t count)
{
    struct points points = { .list = NULL };
    int failed = 0;
    ptxmm_device_known("h200", &points.device, NULL);
    for (size_t i = 0; i < count && !failed; i++) failed = read_points(&points, paths[i]);
    if (!failed && !points.count) failed = complain(paths[0], "no result of the pair protocol is in it");
    if (!failed) arrange(&points);
    for (size_t from = 0, to; !failed && from < points.count; from = to) {
        struct timing row = *points.list[from].row;
        for (to = from; to < points.count && points.list[to].row == points.list[from].row;) to++;
        printf("sm_%d, %d bits: %zu times\n\nwith the constants that stand:\n", row.arch, row.bits, to - from);
        report(&points, from, to, &row);
        fit(&points, from, to, &row);
        printf("\nfitted:\n");
        report(&points, from, to, &row);
        print_row(&row, points.date);
    }
    free(points.list);
    return failed;
}
