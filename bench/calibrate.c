/* calibrate.c -- the model's constants from measured times.
 *
 * Reads what ptxmm-bench --json wrote (best with --all-kernels), fits each row of loader/timing.c that kernels were
 * measured for, and prints it as source, with what the choice loses by it; also on times that were not fitted to
 * (--judge). Nothing is run. A kernel in another launch is a point of its own.
 *
 * What is minimised: the squares of ln(predicted / measured), kernels near the fastest of their shape counting most,
 * and what is lost where the model would choose another than the fastest; and a little of the squares of
 * ln(constant / constant before), so that what the times say nothing about stays as it is. Each constant in turn is
 * moved by 12, 4 and 1.2 % as long as that helps, until a round brings nothing; and that from several places. A move
 * asks the model again only for the points whose kernels and launches know the constant, and the model runs only
 * pipelines that have become others.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cli/workload.h"
#include "loader/launch.h"

/* What events around a launch add to its time. */
#define EVENTS_US 2.0

enum { MOST_CLUSTER = 16, MOST_GROUPS = 64 };

/* What the model says of a point. */
struct guess {
    double us;
    double cost;   /* of being off, in the sum that is minimised */
    struct timing_memory remembered;
};

struct point {
    struct ptxmm_problem problem; /* as it was measured, leading dimensions and distances too */
    const struct ptxmm_kernel_info *kernel;
    const struct timing *row;
    struct launch_shape launch;
    char shape[64];
    double us, best_us;   /* without events; best of its shape and row */
    size_t shape_end;     /* where the points of its shape end */
    struct guess guess;   /* by the constants that the fit has come to, ... */
    struct guess trial;   /* ... and by those that it tries */
};

struct points {
    struct point *list;
    size_t count;
    struct ptxmm_device device;
    char date[16];
};

/* Which points know a constant. */
enum knows { ALL, SPLIT, CLUSTERED_SPLIT, GROUPED_SPLIT, PROMOTED, PROMOTED_SPLIT, MULTICAST, GROUPED_MULTICAST,
             ROW_PAIR, COLUMN_PAIR, LARGER_MULTICAST, PARTS };

/* The constants that are fitted, and the largest they may become (0: no bound). What was read with clock(), or off the GPU's own
 * sensors, stays. */
static const struct constant {
    const char *name;
    size_t at;
    double most;
    enum knows knows;
} constants[] = {
#define CONSTANT(name, most, knows) { #name, offsetof(struct timing, name), most, knows }
    CONSTANT(epilogue, 0, ALL),
    CONSTANT(epilogue_per_byte, 0, ALL),
    CONSTANT(sm_bytes, 128, ALL),
    CONSTANT(fabric, 0, ALL),
    CONSTANT(sm_alone, 0, ALL),
    CONSTANT(scatter, 1, PARTS),
    CONSTANT(off_sector, 1, ALL),
    CONSTANT(off_line, 1, ALL),
    CONSTANT(split_off_sector, 1, SPLIT),
    CONSTANT(scattered, 1, ALL),
    CONSTANT(second, 0, ALL),
    CONSTANT(ramp, 0, ALL),
    CONSTANT(split_start, 0, SPLIT),
    CONSTANT(split_element, 0, SPLIT),
    CONSTANT(exchange, 0, CLUSTERED_SPLIT),
    CONSTANT(group, 0, GROUPED_SPLIT),
    CONSTANT(meet, 0, GROUPED_MULTICAST),
    CONSTANT(meet_element, 0, GROUPED_MULTICAST),
    CONSTANT(multicast_start, 0, MULTICAST),
    CONSTANT(multicast_slice, 0, MULTICAST),
    CONSTANT(next_cta, 0, MULTICAST),
    CONSTANT(pair_in_row, 0.6, ROW_PAIR),
    CONSTANT(pair_in_column, 0.6, COLUMN_PAIR),
    CONSTANT(larger_cluster, 0.6, LARGER_MULTICAST),
    CONSTANT(promote, 0, PROMOTED),
    CONSTANT(split_promote, 0, PROMOTED_SPLIT),
    CONSTANT(outside, 0, ALL),
    CONSTANT(launch, 0, ALL),
    CONSTANT(busy_clock, 0.9, ALL),
    CONSTANT(dram, 0.93, ALL),
#undef CONSTANT
};
enum { CONSTANTS = sizeof constants / sizeof constants[0], EVERY = -1 };

static double *constant_of(struct timing *row, int i)
{
    return (double *)((char *)row + constants[i].at);
}

/* Does the prediction of a point depend on this constant? */
static bool knows(const struct point *p, int constant)
{
    const struct launch_shape *launch = &p->launch;
    const bool split = p->kernel->algorithm == PTXMM_SPLIT, multicast = p->kernel->algorithm == PTXMM_MULTICAST;
    const bool pair = multicast && launch->cluster == 2;
    if (constant == EVERY) return true;
    switch (constants[constant].knows) {
    case ALL: return true;
    case SPLIT: return split;
    case CLUSTERED_SPLIT: return split && launch->cluster > 1;
    case GROUPED_SPLIT: return split && launch->groups > 1;
    case PROMOTED: return p->kernel->promotion && !split;
    case PROMOTED_SPLIT: return p->kernel->promotion && split;
    case MULTICAST: return multicast;
    case GROUPED_MULTICAST: return multicast && launch->groups > 1;
    case ROW_PAIR: return pair && launch->rows == 1;
    case COLUMN_PAIR: return pair && launch->rows == 2;
    case LARGER_MULTICAST: return multicast && launch->cluster > 2;
    case PARTS: return launch->groups > 1 || (split && launch->cluster > 1);
    }
    return true;
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

/* Where the matrices lie in memory when ptxmm-bench multiplies them. */
static void lay_out(struct ptxmm_problem *p)
{
    p->a.ld = aligned(p->a.type, p->k);
    p->b.ld = aligned(p->b.type, p->k);
    p->d.ld = aligned(p->d.type, p->n);
    if (p->batch <= 1) return;
    p->a.batch_stride = p->a.ld * p->m;
    p->b.batch_stride = p->b.ld * p->n;
    p->d.batch_stride = p->d.ld * p->m;
}

/* Can the kernel have multiplied this? What the model is asked about must be a product that it is made for. */
static bool is_served(const struct points *points, struct point *point)
{
    struct ptxmm_candidate first;
    size_t count;
    const int64_t sizes[] = { point->problem.m, point->problem.n, point->problem.k, point->problem.batch };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < (i < 2) || sizes[i] > INT32_MAX) return false;
    lay_out(&point->problem);
    struct ptxmm_problem problem = point->problem;
    problem.prefer.kernel = point->kernel->name;
    return !ptxmm_select(&points->device, &problem, &first, 1, &count, NULL) && !first.reason;
}

/* 0: taken, or of no use here; -1 after one line. */
static int take(struct points *points, const char *path, const json_t *result, int64_t workspace)
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
    point.problem.prefer.workspace_limit = workspace;
    struct launch_shape *launch = &point.launch;
    launch->cluster = json_integer_value(json_object_get(result, "cluster"));
    launch->rows = json_integer_value(json_object_get(result, "cluster_rows"));
    if (launch->rows < 1) launch->rows = 1; /* measured before there were kernels with more */
    launch->groups = json_integer_value(json_object_get(result, "groups"));
    if (launch->cluster < 1 || launch->groups < 1) return complain(path, "a result has no \"cluster\" or no \"groups\"");
    if (launch->cluster > MOST_CLUSTER || launch->groups > MOST_GROUPS)
        return complain(path, "a result has a \"cluster\" of more than 16 CTAs, or more than 64 \"groups\"");
    const json_t *stages = json_object_get(result, "stages"); /* missing: measured before the ring's length was open */
    const int64_t slots = stages ? json_integer_value(stages) : kernel->stages;
    if (slots < PTXMM_LEAST_STAGES || slots > 64) return complain(path, "a result has \"stages\" that are not from 4 to 64");
    launch->stages = kernel->algorithm == PTXMM_SPLIT && slots < kernel->stages ? slots : kernel->stages;
    if (launch->rows > launch->cluster || launch->cluster % launch->rows)
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
    const json_t *workspace = json_object_get(root, "workspace_limit");
    const int64_t limit = json_is_integer(workspace) && json_integer_value(workspace) >= 0 ? json_integer_value(workspace) : 256 << 20;
    size_t i;
    if (!strstr(device, "H200") || json_is_true(json_object_get(root, "emulator")))
        failed = complain(path, "the times must be an H200's: the table has no other GPU's");
    else
        json_array_foreach(results, i, result) failed = failed ? failed : take(points, path, result, limit);
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

/* In one launch? Whatever the length of the ring: a rule chooses that, not the model. */
static bool is_same(const struct point *x, const struct point *y)
{
    return x->kernel == y->kernel && x->launch.cluster == y->launch.cluster && x->launch.rows == y->launch.rows &&
           x->launch.groups == y->launch.groups;
}

/* Sorts by row, shape and time; a kernel that was measured more than once in one launch keeps its fastest. */
static void arrange(struct points *points)
{
    if (points->count) qsort(points->list, points->count, sizeof *points->list, by_shape);
    size_t kept = 0, first = 0;
    for (size_t i = 0; i < points->count; i++) {
        struct point *p = &points->list[i];
        bool again = false;
        if (!kept || points->list[kept - 1].row != p->row || strcmp(points->list[kept - 1].shape, p->shape)) first = kept;
        for (size_t k = first; k < kept; k++) again = again || is_same(&points->list[k], p);
        if (again) continue;
        p->best_us = first < kept ? points->list[first].us : p->us;
        points->list[kept++] = *p;
    }
    points->count = kept;
    for (size_t i = kept; i-- > 0;) {
        struct point *p = &points->list[i];
        p->shape_end = i + 1 < kept && p[1].row == p->row && !strcmp(p[1].shape, p->shape) ? p[1].shape_end : i + 1;
    }
}

/* ---- the fit -------------------------------------------------------------------------------------------------- */

/* `remembered`: see loader/timing.h. */
static double predict_us(const struct points *points, const struct timing *row, const struct point *p,
                         struct timing_memory *remembered)
{
    struct ptxmm_candidate candidate = { .kernel = p->kernel };
    timing_predict_as(row, &points->device, &p->problem, &p->launch, remembered, &candidate);
    return candidate.seconds * 1e6;
}

/* What it costs that the model is so far off. A kernel that is far behind may be thought even slower: nobody will choose it. */
static double cost_of(const struct point *p, double us)
{
    const double slower = p->us / p->best_us, e = log(us / p->us);
    return (slower < 1.05 ? 2 : slower < 1.3 ? 0.6 : e > 0 ? 0.02 : 0.1) * e * e;
}

/* With the constants of *row, of which `moved` is not as it was in the points' guesses (EVERY: all may be others). The trials
 * of the points that know it are what came out. */
static double misfit(struct points *points, size_t from, size_t to, const struct timing *row,
                     const struct timing *before, int moved)
{
    double sum = 0;
    for (size_t i = from, end; i < to; i = end) {
        double least = INFINITY, chosen = 0;
        end = points->list[i].shape_end;
        for (size_t k = i; k < end; k++) {
            struct point *p = &points->list[k];
            const struct guess *guess = &p->guess;
            if (knows(p, moved)) {
                p->trial.remembered = p->guess.remembered;
                p->trial.us = predict_us(points, row, p, &p->trial.remembered);
                p->trial.cost = moved != EVERY && p->trial.us == p->guess.us ? p->guess.cost : cost_of(p, p->trial.us);
                guess = &p->trial;
            }
            sum += guess->cost;
            if (guess->us < least) least = guess->us, chosen = p->us;
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

/* The trials are what the points think from now on. */
static void keep(struct points *points, size_t from, size_t to, int moved)
{
    for (size_t k = from; k < to; k++)
        if (knows(&points->list[k], moved)) points->list[k].guess = points->list[k].trial;
}

/* Downhill from *row to the bottom of the valley that it stands in; the misfit there. */
static double descend(struct points *points, size_t from, size_t to, struct timing *row, const struct timing *before)
{
    static const double steps[] = { 1.12, 1 / 1.12, 1.04, 1 / 1.04, 1.012, 1 / 1.012 };
    double best = misfit(points, from, to, row, before, EVERY);
    keep(points, from, to, EVERY);
    for (;;) {
        const double start = best;
        for (int i = 0; i < CONSTANTS; i++) {
            double *const constant = constant_of(row, i);
            for (size_t s = 0; *constant > 0 && s < sizeof steps / sizeof *steps; s++)
                for (;;) {
                    const double old = *constant;
                    *constant *= steps[s];
                    const bool far = constants[i].most > 0 && *constant > constants[i].most;
                    const double now = far ? INFINITY : misfit(points, from, to, row, before, i);
                    if (now < best - 1e-6) {
                        best = now;
                        keep(points, from, to, i);
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
static void fit(struct points *points, size_t from, size_t to, struct timing *row, int descents)
{
    const struct timing before = *row;
    double least = descend(points, from, to, row, &before);
    unsigned short seed[3] = { 1, 2, 3 };
    for (int i = 1; i < descents; i++) {
        struct timing moved = *row;
        bench_progress("fitting, descent %d of %d: misfit %.4f", i + 1, descents, least);
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

/* "sm90_gemm_bf16_64x64_split:4x1", as the bench's table has it: clusters and groups, rows and columns before them. */
static const char *name_of(const struct point *p, char *text, size_t size)
{
    const struct launch_shape *l = &p->launch;
    int at = snprintf(text, size, "%s", p->kernel->name);
    if (p->kernel->algorithm == PTXMM_SPLIT)
        snprintf(text + at, size - (size_t)at, ":%lldx%lld", (long long)l->cluster, (long long)l->groups);
    if (p->kernel->algorithm == PTXMM_MULTICAST)
        snprintf(text + at, size - (size_t)at, ":%lldx%lldx%lld", (long long)l->rows, (long long)(l->cluster / l->rows),
                 (long long)l->groups);
    return text;
}

/* Pairs of kernels of a shape that the model puts in the measured order, of all that differ by more than 3 %. */
static void order(const struct points *points, size_t from, size_t to, int *right, int *all)
{
    for (size_t i = from; i < to; i++)
        for (size_t k = i + 1; k < to; k++) {
            const struct point *x = &points->list[i], *y = &points->list[k];
            if (y->us < 1.03 * x->us) continue;
            ++*all;
            *right += x->guess.us < y->guess.us;
        }
}

/* Would the model launch one of the kernels faster than any of the points in [from, to) is predicted to be? */
static bool is_unmeasured(const struct points *points, size_t from, size_t to, const struct timing *row, double least)
{
    for (size_t i = from; i < to; i++) {
        const struct point *p = &points->list[i];
        struct ptxmm_candidate best = { .kernel = p->kernel };
        bool again = !launch_is_open(p->kernel);
        for (size_t k = from; k < i; k++) again = again || points->list[k].kernel == p->kernel;
        if (again) continue;
        launch_choose(row, &points->device, &p->problem, &best);
        if (best.seconds * 1e6 < least * (1 - 1e-9)) return true;
    }
    return false;
}

static void report(struct points *points, size_t from, size_t to, const struct timing *row)
{
    double logs = 0, worst = 0;
    int shapes = 0, right = 0, all = 0, unmeasured = 0;
    printf("%-20s %-48s %9s %9s  %-48s %9s  %6s\n", "shape", "chosen", "predicted", "measured", "fastest", "measured",
           "loss");
    for (size_t i = from, end; i < to; i = end) {
        const struct point *best = &points->list[i], *chosen = best;
        char name[2][160];
        end = best->shape_end;
        for (size_t k = i; k < end; k++) {
            struct point *p = &points->list[k];
            p->guess.us = predict_us(points, row, p, NULL);
            if (p->guess.us < chosen->guess.us) chosen = p;
        }
        const double loss = chosen->us / best->us - 1;
        printf("%-20s %-48s %9.2f %9.2f  %-48s %9.2f  %5.1f %%\n", best->shape, name_of(chosen, name[0], sizeof name[0]),
               chosen->guess.us, chosen->us, name_of(best, name[1], sizeof name[1]), best->us, 100 * loss);
        logs += log1p(loss);
        worst = loss > worst ? loss : worst;
        shapes++;
        unmeasured += is_unmeasured(points, i, end, row, chosen->guess.us);
        order(points, i, end, &right, &all);
    }
    printf("%d shapes: the choice loses %.2f %% on average, %.1f %% at most; %d of %d pairs of kernels that differ by more "
           "than 3 %% in the measured order\n",
           shapes, 100 * expm1(logs / shapes), 100 * worst, right, all);
    if (unmeasured) printf("%d shapes: the model would choose a launch that was not measured\n", unmeasured);
}

static void print_row(const struct timing *row, const char *date)
{
    printf("\n    /* fitted to times of %s */\n    { .arch = %d,\n      .bits = %d,\n", date, row->arch, row->bits);
#define LINE(name) printf("      ." #name " = %.4g,\n", row->name)
    LINE(slice_overhead); LINE(issue); LINE(second); LINE(load); LINE(epilogue); LINE(epilogue_per_byte);
    LINE(sm_bytes); LINE(sm_alone); LINE(fabric); LINE(scatter); LINE(off_sector); LINE(off_line); LINE(split_off_sector); LINE(scattered);
    LINE(ramp); LINE(split_start); LINE(split_element); LINE(exchange); LINE(group); LINE(meet); LINE(meet_element);
    LINE(multicast_start); LINE(multicast_slice); LINE(next_cta); LINE(pair_in_row); LINE(pair_in_column);
    LINE(larger_cluster); LINE(promote); LINE(split_promote); LINE(outside); LINE(launch); LINE(light_clock);
    LINE(busy_clock); LINE(narrow_clock); LINE(dram);
#undef LINE
    printf("      .l2 = %.4g },\n\n", row->l2);
}

static int read_all(struct points *points, const char *const *paths, size_t count)
{
    int failed = 0;
    ptxmm_device_known("h200", &points->device, NULL);
    for (size_t i = 0; i < count && !failed; i++) failed = read_points(points, paths[i]);
    if (!failed && count && !points->count) failed = complain(paths[0], "no result of the pair protocol is in it");
    if (!failed) arrange(points);
    return failed;
}

/* The end of the points of one row of the table. */
static size_t row_end(const struct points *points, size_t from)
{
    size_t to = from;
    while (to < points->count && points->list[to].row == points->list[from].row) to++;
    return to;
}

/* What is lost on times of the same row; says so if there are none. */
static void judge(struct points *held_out, const struct timing *of, const struct timing *row)
{
    size_t from = 0;
    while (from < held_out->count && held_out->list[from].row != of) from = row_end(held_out, from);
    if (from < held_out->count)
        report(held_out, from, row_end(held_out, from), row);
    else
        printf("no times\n");
}

int bench_calibrate(const char *const *paths, size_t count, const char *const *judged, size_t judged_count, int descents)
{
    struct points points = { .list = NULL }, held_out = { .list = NULL };
    int failed = read_all(&points, paths, count);
    if (!failed) failed = read_all(&held_out, judged, judged_count);
    for (size_t from = 0, to; !failed && from < points.count; from = to) {
        const struct timing *of = points.list[from].row;
        struct timing row = *of;
        to = row_end(&points, from);
        printf("sm_%d, %d bits: %zu times\n\nwith the constants that stand:\n", row.arch, row.bits, to - from);
        report(&points, from, to, &row);
        if (judged_count) {
            printf("\njudged by other times:\n");
            judge(&held_out, of, &row);
        }
        fit(&points, from, to, &row, descents);
        printf("\nfitted:\n");
        report(&points, from, to, &row);
        if (judged_count) {
            printf("\nfitted, judged by other times:\n");
            judge(&held_out, of, &row);
        }
        print_row(&row, points.date);
    }
    for (size_t from = 0; !failed && !count && from < held_out.count; from = row_end(&held_out, from)) {
        const struct timing *of = held_out.list[from].row;
        printf("%ssm_%d, %d bits: %zu times\n\nwith the constants that stand:\n", from ? "\n" : "", of->arch, of->bits,
               row_end(&held_out, from) - from);
        judge(&held_out, of, of);
    }
    free(points.list);
    free(held_out.list);
    return failed;
}
