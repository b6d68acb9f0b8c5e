/* measure.h -- the timing protocols. docs/results.md says what each is for.
 *
 *     pair        launch by launch, ours and theirs in turn, an event around each: both see the same clock
 *     cool        0.4 s idle, then 8 launches; their mean: what a short benchmark sees
 *     sustained   bursts of a quarter of a second in turn: each finds its own clock at the power limit
 *
 * In pair and cool the GPU first overwrites some memory, until the host has queued all launches: what is timed is the
 * GPU. Every launch takes the next of several sets of buffers, together larger than the L2 cache.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "cli/gpu.h"
#include "cublaslt.h"
#include "floor.h"
#include "nvml.h"
#include "ptxmm.h"

/* Something that multiplies, one of our plans or one algorithm of cuBLASLt; or that only reads and writes. */
struct contestant {
    const struct ptxmm_plan *plan; /* NULL: cuBLASLt, or the floor */
    const struct cublaslt *lt;
    const struct cublaslt_matmul *matmul;
    struct floor *floor;           /* NULL: cuBLASLt */
    int algorithm;                 /* of cuBLASLt, or the floor's variant */
};

enum { MEASURE_MAX_SETS = 128, MEASURE_MAX_SAMPLES = 64, MEASURE_WORKSPACE = 64 << 20 };

/* Where it runs, and the buffers it takes in turn. */
struct measure {
    struct gpu *gpu;
    const struct nvml *nvml;
    CUstream stream;
    struct ptxmm_arguments sets[MEASURE_MAX_SETS];
    int set_count, next_set;
    CUdeviceptr workspace; /* MEASURE_WORKSPACE bytes */
    bool hold; /* keep the GPU busy until all launches of a measurement are queued (an emulator has no queue) */
    char error[1200]; /* of the last function that returned false */
};

struct times {
    int count;
    double seconds[MEASURE_MAX_SAMPLES]; /* one launch each, or a mean of several */
};

/* Of sorted samples. */
struct summary {
    double median, low, high; /* low and high: quartiles */
};
struct summary times_summary(const struct times *times);

bool measure_launch(struct measure *m, const struct contestant *contestant, const struct ptxmm_arguments *set);

/* `state` is read while the GPU works. */
bool measure_pair(struct measure *m, const struct contestant *ours, const struct contestant *theirs, int pairs,
                  struct times *our_times, struct times *their_times, struct nvml_state *state);
bool measure_cool(struct measure *m, const struct contestant *contestant, int repeats, struct times *times,
                  struct nvml_state *state);
/* `seconds` is what one launch takes, roughly. Appends one sample. */
bool measure_burst(struct measure *m, const struct contestant *contestant, double seconds, struct times *times,
                   struct nvml_state *state);

/* The fastest of cuBLASLt's algorithms by a few launches each; *best is its number, seconds[i] each one's median (-1:
 * it refused). */
bool measure_algorithms(struct measure *m, const struct contestant *first, double seconds[CUBLASLT_MAX_ALGORITHMS],
                        int *best);
/* The same among the floor's variants, by `launches` launches in a row: what is fastest alone need not be when launches overlap. */
bool measure_floors(struct measure *m, struct floor *floor, int launches, double seconds[FLOOR_MAX_VARIANTS], int *best);

/* Host time of one call: of the driver's launch alone, and of ptxmm_plan_run for the same launch. */
struct host_times {
    struct summary bare, run;
    double beyond; /* difference of medians */
};
bool measure_host(struct measure *m, const struct ptxmm_plan *plan, const struct ptxmm_arguments *arguments,
                  struct host_times *times);

#endif
