/* measure.c -- see measure.h. */
#define _GNU_SOURCE
#include "measure.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool failed(struct measure *m, const char *text)
{
    snprintf(m->error, sizeof m->error, "%s", text);
    return false;
}

static bool check(struct measure *m, CUresult result, const char *call)
{
    return gpu_ok(m->gpu, result, call) || failed(m, m->gpu->error);
}

static int ascending(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

struct summary times_summary(const struct times *times)
{
    double sorted[MEASURE_MAX_SAMPLES];
    const int n = times->count;
    if (n == 0) return (struct summary){ 0, 0, 0 };
    memcpy(sorted, times->seconds, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    return (struct summary){
        .median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2,
        .low = sorted[(n - 1) / 4],
        .high = sorted[n - 1 - (n - 1) / 4],
    };
}

/* ---- launching ------------------------------------------------------------------------------------------------ */

bool measure_launch(struct measure *m, const struct contestant *c, const struct ptxmm_arguments *set)
{
    if (c->plan) {
        struct ptxmm_error error;
        return ptxmm_plan_run(c->plan, set, m->stream, &error) == PTXMM_OK || failed(m, error.text);
    }
    if (c->floor) return floor_launch(c->floor, c->algorithm, set, m->stream) || failed(m, floor_error(c->floor));
    const int status = cublaslt_matmul_run(c->matmul, c->algorithm, set, m->workspace, m->stream);
    if (!status) return true;
    snprintf(m->error, sizeof m->error, "cublasLtMatmul: %s", cublaslt_status(c->lt, status));
    return false;
}

static bool launch_next(struct measure *m, const struct contestant *c)
{
    const struct ptxmm_arguments *set = &m->sets[m->next_set];
    m->next_set = (m->next_set + 1) % m->set_count;
    return measure_launch(m, c, set);
}

static bool wait_for(struct measure *m)
{
    return check(m, m->gpu->StreamSynchronize(m->stream), "cuStreamSynchronize");
}

static void idle(double seconds)
{
    const struct timespec pause = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&pause, NULL);
}

/* ---- events --------------------------------------------------------------------------------------------------- */

struct events {
    int count;
    CUevent list[2 * MEASURE_MAX_SAMPLES + 1];
};

static void events_destroy(struct measure *m, struct events *events)
{
    for (int i = 0; i < events->count; i++) m->gpu->EventDestroy(events->list[i]);
    events->count = 0;
}

static bool events_create(struct measure *m, struct events *events, int count)
{
    for (events->count = 0; events->count < count; events->count++)
        if (!check(m, m->gpu->EventCreate(&events->list[events->count], CU_EVENT_DEFAULT), "cuEventCreate")) {
            events_destroy(m, events);
            return false;
        }
    return true;
}

static bool record(struct measure *m, const struct events *events, int index)
{
    return check(m, m->gpu->EventRecord(events->list[index], m->stream), "cuEventRecord");
}

static bool between(struct measure *m, const struct events *events, int from, int to, double *seconds)
{
    float milliseconds = 0;
    const bool ok = check(m, m->gpu->EventElapsedTime(&milliseconds, events->list[from], events->list[to]),
                          "cuEventElapsedTime");
    *seconds = milliseconds / 1e3;
    return ok;
}

/* Keeps the GPU busy while the host puts `calls` launches and events behind, by overwriting the workspace. Without it
 * the first event passes at once, and what is timed is how fast the host can call: a call of cuBLASLt takes longer
 * than one of ours, and longer than a small product. */
static bool hold(struct measure *m, int calls)
{
    if (!m->hold || !m->gpu->MemsetD8Async) return true;
    /* 64 MiB take at least 14 us; a call 10 us, or several times that in a process that has just slept. */
    const int count = 16 + calls;
    for (int i = 0; i < count; i++)
        if (!check(m, m->gpu->MemsetD8Async(m->workspace, 0, MEASURE_WORKSPACE, m->stream), "cuMemsetD8Async"))
            return false;
    return true;
}

/* `launches` launches between two events; their mean is one sample. */
static bool timed(struct measure *m, const struct contestant *c, int launches, double *mean, struct nvml_state *state)
{
    struct events events;
    if (!events_create(m, &events, 2)) return false;
    /* Of many launches the first does not matter. */
    bool ok = (launches > 64 || hold(m, launches)) && record(m, &events, 0);
    for (int i = 0; ok && i < launches; i++) ok = launch_next(m, c);
    ok = ok && record(m, &events, 1);
    if (state) *state = nvml_read(m->nvml);
    ok = ok && wait_for(m) && between(m, &events, 0, 1, mean);
    *mean /= launches;
    events_destroy(m, &events);
    return ok;
}

/* ---- protocols ------------------------------------------------------------------------------------------------ */

bool measure_pair(struct measure *m, const struct contestant *ours, const struct contestant *theirs, int pairs,
                  struct times *our_times, struct times *their_times, struct nvml_state *state)
{
    struct events events;
    our_times->count = their_times->count = 0;
    /* Warm instruction caches and a clock that both have already felt. */
    for (int i = 0; i < 2; i++)
        if (!launch_next(m, ours) || !launch_next(m, theirs)) return false;
    if (!wait_for(m) || !events_create(m, &events, 2 * pairs + 1)) return false;
    bool ok = hold(m, 2 * pairs) && record(m, &events, 0);
    for (int i = 0; ok && i < pairs; i++)
        ok = launch_next(m, ours) && record(m, &events, 2 * i + 1) && launch_next(m, theirs) &&
             record(m, &events, 2 * i + 2);
    *state = nvml_read(m->nvml);
    ok = ok && wait_for(m);
    for (int i = 0; ok && i < pairs; i++)
        ok = between(m, &events, 2 * i, 2 * i + 1, &our_times->seconds[our_times->count++]) &&
             between(m, &events, 2 * i + 1, 2 * i + 2, &their_times->seconds[their_times->count++]);
    events_destroy(m, &events);
    return ok;
}

bool measure_cool(struct measure *m, const struct contestant *c, int repeats, struct times *times,
                  struct nvml_state *state)
{
    times->count = 0;
    for (int i = 0; i < repeats; i++) {
        if (!wait_for(m)) return false;
        idle(0.4);
        if (!timed(m, c, 8, &times->seconds[i], state)) return false;
        times->count++;
    }
    return true;
}

bool measure_burst(struct measure *m, const struct contestant *c, double seconds, struct times *times,
                   struct nvml_state *state)
{
    const double wanted = 0.25 / seconds;
    const int launches = wanted < 8 ? 8 : wanted > 100000 ? 100000 : (int)wanted;
    if (times->count == MEASURE_MAX_SAMPLES) return failed(m, "too many bursts");
    return timed(m, c, launches, &times->seconds[times->count++], state);
}

enum { MAX_ALGORITHMS = CUBLASLT_MAX_ALGORITHMS > (int)FLOOR_MAX_VARIANTS ? CUBLASLT_MAX_ALGORITHMS : (int)FLOOR_MAX_VARIANTS };

/* The fastest of `count` algorithms of this contestant, each timed `rounds` times; *best is -1 when all refused. */
static bool fastest(struct measure *m, const struct contestant *contestant, int count, int launches, int rounds,
                    double *seconds, int *best)
{
    struct times times[MAX_ALGORITHMS] = { 0 };
    struct contestant c = *contestant;
    /* They take turns, so that a clock that sinks meanwhile is fair to all. What the heuristic offers and the call then
     * refuses is left out. */
    for (int round = -1; round < rounds; round++)
        for (c.algorithm = 0; c.algorithm < count; c.algorithm++) {
            struct times *t = &times[c.algorithm];
            if (round < 0)
                seconds[c.algorithm] = launch_next(m, &c) ? 0 : -1;
            else if (seconds[c.algorithm] >= 0 && !timed(m, &c, launches, &t->seconds[t->count++], NULL))
                return false;
        }
    *best = -1;
    for (int i = 0; i < count; i++) {
        if (seconds[i] < 0) continue;
        seconds[i] = times_summary(&times[i]).median;
        if (*best < 0 || seconds[i] < seconds[*best]) *best = i;
    }
    return true;
}

bool measure_algorithms(struct measure *m, const struct contestant *first, double seconds[CUBLASLT_MAX_ALGORITHMS],
                        int *best)
{
    return fastest(m, first, cublaslt_matmul_algorithms(first->matmul), 1, 9, seconds, best) &&
           (*best >= 0 || failed(m, "every algorithm of cuBLASLt refused to run"));
}

bool measure_floors(struct measure *m, struct floor *floor, int launches, double seconds[FLOOR_MAX_VARIANTS], int *best)
{
    const struct contestant c = { .floor = floor };
    const int rounds = m->hold ? 9 : 1; /* an emulator's times choose nothing */
    return fastest(m, &c, floor_variants(), launches, rounds, seconds, best) && (*best >= 0 || failed(m, floor_error(floor)));
}

/* ---- host time ------------------------------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* dlsym gives an object pointer, as POSIX wants it: its bits are the function's address. */
#define LOOK_UP(m, member, name)                                                                              \
    do {                                                                                                      \
        void *symbol_ = dlsym((m)->gpu->library, name);                                                       \
        memcpy(&(member), &symbol_, sizeof symbol_);                                                          \
    } while (0)

/* What ptxmm_plan_run hands to the driver, read back from a captured graph: the same function, grid and argument
 * block. */
struct bare_launch {
    CUgraph graph; /* owns the argument block */
    CUlaunchConfig config;
    CUlaunchAttribute attributes[2];
    CUfunction function;
    void **parameters;
};

static bool bare_create(struct measure *m, const struct ptxmm_plan *plan, const struct ptxmm_arguments *arguments,
                        struct bare_launch *bare)
{
    struct gpu *gpu = m->gpu;
    CUresult (*get_params)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2 *);
    LOOK_UP(m, get_params, "cuGraphKernelNodeGetParams_v2");
    memset(bare, 0, sizeof *bare);
    if (!get_params || !gpu->StreamBeginCapture || !gpu->GraphGetNodes || !gpu->LaunchKernelEx || !gpu->GraphDestroy)
        return failed(m, "the driver has no graphs, which the host-time measurement needs");
    struct ptxmm_error error;
    CUgraphNode node;
    size_t count = 1;
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    memset(&params, 0, sizeof params);
    if (!check(m, gpu->StreamBeginCapture(m->stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture"))
        return false;
    const bool launched = ptxmm_plan_run(plan, arguments, m->stream, &error) == PTXMM_OK;
    if (!check(m, gpu->StreamEndCapture(m->stream, &bare->graph), "cuStreamEndCapture")) return false;
    if (!launched) return failed(m, error.text);
    if (!check(m, gpu->GraphGetNodes(bare->graph, &node, &count), "cuGraphGetNodes") ||
        !check(m, get_params(node, &params), "cuGraphKernelNodeGetParams"))
        return false;
    const struct ptxmm_plan_info *info = ptxmm_plan_info(plan);
    bare->function = params.func ? params.func : (CUfunction)params.kern;
    bare->parameters = params.kernelParams;
    bare->attributes[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    bare->attributes[0].value.programmaticStreamSerializationAllowed = 1;
    bare->attributes[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    bare->attributes[1].value.clusterDim.x = info->cluster;
    bare->attributes[1].value.clusterDim.y = bare->attributes[1].value.clusterDim.z = 1;
    bare->config = (CUlaunchConfig){
        .gridDimX = params.gridDimX, .gridDimY = params.gridDimY, .gridDimZ = params.gridDimZ,
        .blockDimX = params.blockDimX, .blockDimY = params.blockDimY, .blockDimZ = params.blockDimZ,
        .sharedMemBytes = params.sharedMemBytes, .hStream = m->stream,
        .attrs = bare->attributes, .numAttrs = info->cluster > 1 ? 2 : 1,
    };
    return true;
}

bool measure_host(struct measure *m, const struct ptxmm_plan *plan, const struct ptxmm_arguments *arguments,
                  struct host_times *times)
{
    enum { CALLS = 20 }; /* few enough that the queue never fills and no call waits for the GPU */
    struct bare_launch bare;
    struct times bare_times = { 0 }, run_times = { 0 };
    bool ok = bare_create(m, plan, arguments, &bare);
    for (int i = -8; ok && i < MEASURE_MAX_SAMPLES; i++) { /* the first eight warm caches and branch predictors */
        ok = wait_for(m);
        double start = now();
        for (int j = 0; ok && j < CALLS; j++)
            ok = check(m, m->gpu->LaunchKernelEx(&bare.config, bare.function, bare.parameters, NULL),
                       "cuLaunchKernelEx");
        const double bare_seconds = (now() - start) / CALLS;
        ok = ok && wait_for(m);
        struct ptxmm_error error;
        start = now();
        for (int j = 0; ok && j < CALLS; j++)
            ok = ptxmm_plan_run(plan, arguments, m->stream, &error) == PTXMM_OK || failed(m, error.text);
        const double run_seconds = (now() - start) / CALLS;
        if (i < 0) continue;
        bare_times.seconds[bare_times.count++] = bare_seconds;
        run_times.seconds[run_times.count++] = run_seconds;
    }
    ok = ok && wait_for(m);
    if (bare.graph) m->gpu->GraphDestroy(bare.graph);
    times->bare = times_summary(&bare_times);
    times->run = times_summary(&run_times);
    times->beyond = times->run.median - times->bare.median;
    return ok;
}
