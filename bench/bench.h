/* bench.h -- the run: what was asked for, what is open, what came out. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <jansson.h>

#include "measure.h"
#include "shapes.h"

enum { PROTOCOL_PAIR = 1, PROTOCOL_COOL = 2, PROTOCOL_SUSTAINED = 4, PROTOCOLS = 3 };

static const char *const protocol_names[PROTOCOLS] = { "pair", "cool", "sustained" };   /* by bit */

enum { MOST_LAUNCHES = 640 };   /* of a kernel: 10 clusters in 64 groups */

struct bench {
    /* asked for */
    enum ptxmm_type type, b_type, out_type;
    enum ptxmm_accumulate accumulate;
    int constant_a, constant_b;   /* promised: every set of buffers is filled once, before anything is launched */
    const char *kernel;   /* NULL: the one the library selects */
    bool all_kernels;
    size_t all_launches;  /* ... split and multicast kernels launched in up to so many ways; 0: as the library launches them */
    int cluster, cluster_rows, groups, stages;   /* 0: as the library likes */
    int protocols;
    int pairs, cool_repeats, bursts;
    uint64_t seed;
    int64_t workspace;    /* bytes that a plan of ours may ask for; every set of buffers has as many as one needs */
    /* open */
    struct ptxmm *mm;
    struct gpu gpu;
    struct ptxmm_device device;
    struct nvml *nvml;     /* NULL: clocks are unknown */
    struct cublaslt *lt;   /* NULL: ours is timed alone */
    struct floor *floor;   /* NULL: not asked for */
    struct measure measure;
    CUdeviceptr one;       /* 1.0f: the scale of A and of B, for cuBLASLt's fp8 */
    /* came out */
    json_t *results;
    int wrong;             /* products or measurements that failed */
    struct ratio {
        double log_sum;
        int count;
    } first[PROTOCOLS], best[PROTOCOLS];   /* speed against cuBLASLt's first heuristic and best of eight, by protocol */
};

/* One line on stderr that says what is going on; NULL ends it. */
void bench_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Checks and times one product, prints its rows of the table and appends to bench->results. `place` is "2/3". */
void bench_product(struct bench *bench, const struct shape *shape, const char *place);
void bench_table_head(const struct bench *bench);

/* The object that --json wrote, with "schema" 1, a "device" and an array "results"; NULL after one line on stderr. */
json_t *bench_results(const char *path);

/* A member of it; 0 and "-" where it is missing. */
static inline double number_at(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static inline const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

/* Prints the tables of docs/results.md from what --json wrote. -1 after one line on stderr. */
int bench_markdown(const char *path);

/* Draws the first protocol of a run that was timed beside cuBLASLt, a bar for each shape. -1 likewise. */
int bench_chart(const char *path, const char *svg);

/* Prints the fastest kernel of each product in what --json wrote, from several files, as cli/choices.h reads it. -1 likewise. */
int bench_choose(const char *const *paths, size_t count);

/* Fits the model's constants to what --json wrote, from several files, in so many descents, and prints them; and what the choice
 * loses by them, there and on `judged`, which is not fitted to. Without a file to fit to, what it loses on `judged`. -1 likewise. */
int bench_calibrate(const char *const *paths, size_t count, const char *const *judged, size_t judged_count, int descents);

#endif
