/* model.c -- the pipeline model: max-plus recurrences of one persistent CTA.
 *
 *     L[g] = max(L[g-1] + issue, D[g-S])
 *     M[g] = max(L[g] + load, D[g-1], E[t-A] if g starts tile t)
 *     D[g] = M[g] + mma
 *     E[t] = max(D[last slice of t], E[t-1]) + epilogue
 *
 * Slice g loads when the issue port and its slot are free; it is multiplied when its data are in,
 * the tensor core is free and, for a tile's first slice, an accumulator is drained.
 * What has not happened lies in the past: D, E and L of negative index do not hold anything back.
 *
 * A slice costs a few operations, but a run may have 10^15 of them. Such recurrences repeat
 * themselves: once the state (how far each remembered time lies behind the newest) is one that was
 * seen before, every later period adds the same time, and whole periods are jumped over. That is
 * exact: adding a constant to all times commutes with max and plus. Slices of a tile repeat with
 * period S at the latest; tiles with a period that is found by comparing with a remembered state,
 * remembered anew at every power of two. */
#include <ptxmm.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "error.h"

enum { MOST_STAGES = 1024, MOST_ACCUMULATORS = 1024 };

/* Slices, and tiles, that are run one by one in search of a repetition. After that the rest grows
 * at the mean rate of the last period: two loops of almost equal rate can take that long to settle,
 * and then the rate of either is as good. */
enum { MOST_SLICES = 1 << 21, MOST_TILES = 1 << 15 };

/* The state between two slices. Times count from an origin that moves along, so that they stay
 * small and exact however long the run is. Rings hold the newest time at [0]. */
struct state {
    double load;                       /* L[g-1] */
    double done[MOST_STAGES];          /* D[g-1], D[g-2], ... */
    double drained[MOST_ACCUMULATORS]; /* E[t-1], E[t-2], ... */
};

struct pipeline {
    const struct ptxmm_model *model;
    double origin, seen_origin;
    double scale; /* the largest time that was computed with; rounding errors are relative to it */
    int64_t patience; /* slices that may still be run one by one in search of a repetition */
    struct state now, seen;
};

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void push(double *ring, int size, double time)
{
    memmove(ring + 1, ring, (size_t)(size - 1) * sizeof *ring);
    ring[0] = time;
}

static void shift(double *times, int size, double by)
{
    for (int i = 0; i < size; i++)
        times[i] += by; // the infinite past stays where it is
}

/* One slice; `ready` is the earliest time at which its accumulator is free. */
static void slice(struct pipeline *p, double ready)
{
    const struct ptxmm_model *model = p->model;
    struct state *now = &p->now;
    now->load = later(now->load + model->issue, now->done[model->stages - 1]);
    double multiply = later(later(now->load + model->load, now->done[0]), ready);
    push(now->done, model->stages, multiply + model->mma);
    p->patience--;
}

/* Are times the same but for rounding? Those of whole numbers are computed exactly. */
static int same(const struct pipeline *p, const double *a, double a0, const double *b, double b0,
                int size)
{
    for (int i = 0; i < size; i++) {
        double x = a[i] - a0, y = b[i] - b0;
        if (isinf(x) || isinf(y)) {
            if (isinf(x) != isinf(y))
                return 0;
        } else if (fabs(x - y) > 16 * DBL_EPSILON * later(p->scale, fabs(x))) {
            return 0;
        }
    }
    return 1;
}

/* The slices of one tile after its first. */
static void rest_of_tile(struct pipeline *p, int64_t left)
{
    const struct ptxmm_model *model = p->model;
    struct state *now = &p->now;
    int stages = model->stages;
    double before[MOST_STAGES];
    while (left > 0) {
        // A period of S slices, and what the state was before it.
        memcpy(before, now->done, (size_t)stages * sizeof *before);
        double load = now->load;
        int64_t period = left < stages ? left : stages;
        for (int64_t i = 0; i < period; i++)
            slice(p, -INFINITY);
        left -= period;
        p->scale = later(p->scale, now->done[0]);
        int repeats = same(p, now->done, now->done[0], before, before[0], stages) &&
                      same(p, &now->load, now->done[0], &load, before[0], 1);
        if (left < stages || !(repeats || p->patience <= 0))
            continue;
        double by = (double)(left / stages) * (now->done[0] - before[0]);
        p->origin += by;
        shift(now->drained, model->accumulators, -by);
        left %= stages;
    }
}

/* One tile; the origin is its end. */
static void tile(struct pipeline *p)
{
    const struct ptxmm_model *model = p->model;
    struct state *now = &p->now;
    if (model->slices > 0) {
        slice(p, now->drained[model->accumulators - 1]);
        rest_of_tile(p, model->slices - 1);
    }
    double last =
        model->slices > 0 ? later(now->done[0], now->drained[0]) : later(now->drained[0], 0);
    double end = last + model->epilogue;
    push(now->drained, model->accumulators, end);
    p->scale = later(p->scale, end);
    p->origin += end;
    now->load -= end;
    shift(now->done, model->stages, -end);
    shift(now->drained, model->accumulators, -end);
}

/* Is the state the one that was remembered? */
static int repeats_seen(const struct pipeline *p)
{
    const struct state *now = &p->now, *seen = &p->seen;
    return same(p, now->drained, 0, seen->drained, 0, p->model->accumulators) &&
           (p->model->slices == 0 || (same(p, now->done, 0, seen->done, 0, p->model->stages) &&
                                      same(p, &now->load, 0, &seen->load, 0, 1)));
}

static void run(struct pipeline *p)
{
    const struct ptxmm_model *model = p->model;
    int64_t seen_at = 0, remember_at = 1;
    for (int64_t t = 0; t < model->tiles;) {
        tile(p);
        t++;
        int64_t left = model->tiles - t;
        if (seen_at > 0 && left > 0 && (repeats_seen(p) || t >= MOST_TILES || p->patience <= 0)) {
            int64_t period = t - seen_at;
            p->origin += (double)(left / period) * (p->origin - p->seen_origin);
            t += left / period * period;
            seen_at = 0; // at most period - 1 tiles are left; they are simply run
            remember_at = INT64_MAX;
        } else if (t == remember_at) {
            p->seen = p->now;
            p->seen_origin = p->origin;
            seen_at = t;
            remember_at *= 2;
        }
    }
}

static enum ptxmm_status check(const struct ptxmm_model *model, struct ptxmm_error *error)
{
    const struct {
        const char *name;
        int64_t value, least, most;
    } counts[] = {
        { "tiles", model->tiles, 0, INT64_MAX },
        { "slices", model->slices, 0, INT64_MAX },
        { "stages", model->stages, 1, MOST_STAGES },
        { "accumulators", model->accumulators, 1, MOST_ACCUMULATORS },
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].value < counts[i].least || counts[i].value > counts[i].most)
            return error_set(error, PTXMM_ERROR_ARGUMENT,
                             "model.%s is %" PRId64 ", must be from %" PRId64 " to %" PRId64,
                             counts[i].name, counts[i].value, counts[i].least, counts[i].most);
    const struct {
        const char *name;
        double value;
    } times[] = { { "issue", model->issue },
                  { "load", model->load },
                  { "mma", model->mma },
                  { "epilogue", model->epilogue } };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (!(times[i].value >= 0 && times[i].value <= 1e15))
            return error_set(error, PTXMM_ERROR_ARGUMENT, "model.%s is %g, must be from 0 to 1e15",
                             times[i].name, times[i].value);
    for (size_t i = 0; i < sizeof model->reserved / sizeof model->reserved[0]; i++)
        if (model->reserved[i])
            return error_set(error, PTXMM_ERROR_ARGUMENT, "model.reserved[%zu] is not 0, must be 0",
                             i);
    return PTXMM_OK;
}

enum ptxmm_status ptxmm_model_run(const struct ptxmm_model *model,
                                  struct ptxmm_model_result *result, struct ptxmm_error *error)
{
    if (!model || !result)
        return error_set(error, PTXMM_ERROR_ARGUMENT, "%s is NULL, must not be",
                         model ? "result" : "model");
    *result = (struct ptxmm_model_result){ 0 };
    enum ptxmm_status status = check(model, error);
    if (status)
        return status;
    if (model->tiles == 0)
        return error_none(error);

    struct pipeline p; // 32 KB: only what is used is set
    p.model = model;
    p.origin = p.scale = 0;
    p.patience = MOST_SLICES;
    p.now.load = -model->issue;
    for (int i = 0; i < model->stages; i++)
        p.now.done[i] = -INFINITY;
    for (int i = 0; i < model->accumulators; i++)
        p.now.drained[i] = -INFINITY;
    run(&p);
    result->time = p.origin; // where the last epilogue ended
    if (result->time > 0) {
        double busy = (double)model->tiles * (double)model->slices * model->mma / result->time;
        result->tensor_busy = busy < 1 ? busy : 1; // rounding
    }
    return error_none(error);
}
