/* product.c -- one product: data, check, protocols, rows of the table. Nothing is timed whose result is wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cli/check.h"
#include "loader/launch.h"

/* A D that was found right. */
struct known {
    unsigned char *d;
    int64_t promotion;
    struct check_result result;
};
enum { MOST_KNOWN = 4 };

/* The data of one product, on the host and in every set. */
struct data {
    struct stack a, b, d, theirs; /* theirs: D of cuBLASLt's first heuristic */
    bool have_theirs;
    struct known known[MOST_KNOWN];
    int known_count;
};

struct contest {
    struct contestant ours, first, best, floor[PROTOCOLS];
    double floor_trial[PROTOCOLS][FLOOR_MAX_VARIANTS]; /* seconds by which each was chosen */
    bool lt;      /* there is a first */
    bool another; /* best is not first */
    bool floored; /* there is a floor */
    double flops;
};

/* What one protocol gave. Best and the floor alternate with ours in loops of their own, so they have their own times of ours. */
struct protocol_times {
    struct times ours, first, ours_beside_best, best, ours_beside_floor, floor;
    struct nvml_state state;
};

/* ---- data ----------------------------------------------------------------------------------------------------- */

static int64_t aligned(enum ptxmm_type type, int64_t columns)
{
    const int64_t unit = 16 / (int64_t)type_bytes(type);
    return (columns + unit - 1) / unit * unit;
}

static size_t held_bytes(const struct stack *x)
{
    const struct matrix *whole = &x->whole;
    return (size_t)whole->rows * (size_t)whole->ld * whole->size;
}

static void sets_free(struct bench *bench)
{
    struct measure *m = &bench->measure;
    for (int i = 0; i < m->set_count; i++) {
        gpu_free(&bench->gpu, m->sets[i].a);
        gpu_free(&bench->gpu, m->sets[i].b);
        gpu_free(&bench->gpu, m->sets[i].d);
        gpu_free(&bench->gpu, m->sets[i].workspace);
    }
    m->set_count = m->next_set = 0;
}

static void data_free(struct bench *bench, struct data *data)
{
    sets_free(bench);
    stack_destroy(&data->a);
    stack_destroy(&data->b);
    stack_destroy(&data->d);
    stack_destroy(&data->theirs);
    while (data->known_count) free(data->known[--data->known_count].d);
}

static bool operand_make(struct stack *x, const struct ptxmm_problem *p,
                         const struct ptxmm_operand *operand, int64_t rows, int64_t cols, enum matrix_role role)
{
    return stack_create(x, operand->type, p->batch, rows, cols, operand->ld, operand->batch_stride, role);
}

/* Enough sets to be three times the L2 cache, so that no launch finds its operands there. */
static bool data_make(struct bench *bench, const struct ptxmm_problem *p, struct data *data)
{
    struct measure *m = &bench->measure;
    struct gpu *gpu = &bench->gpu;
    if (!operand_make(&data->a, p, &p->a, p->m, p->k, MATRIX_INPUT) ||
        !operand_make(&data->b, p, &p->b, p->n, p->k, MATRIX_INPUT) ||
        !operand_make(&data->d, p, &p->d, p->m, p->n, MATRIX_OUTPUT) ||
        !operand_make(&data->theirs, p, &p->d, p->m, p->n, MATRIX_OUTPUT)) {
        snprintf(m->error, sizeof m->error, "host memory is exhausted");
        return false;
    }
    stack_fill(&data->a, FILL_NORMAL, bench->seed, STREAM_A);
    stack_fill(&data->b, FILL_NORMAL, bench->seed, STREAM_B);
    const size_t a = held_bytes(&data->a), b = held_bytes(&data->b), d = held_bytes(&data->d);
    const double wanted = 3.0 * (double)bench->device.l2_bytes / (double)(a + b + d);
    const int count = wanted < 2 ? 2 : wanted > MEASURE_MAX_SETS ? MEASURE_MAX_SETS : (int)ceil(wanted);
    for (m->set_count = 0; m->set_count < count;) {
        struct ptxmm_arguments *set = &m->sets[m->set_count++];
        *set = (struct ptxmm_arguments){
            .a = gpu_alloc(gpu, a), .b = gpu_alloc(gpu, b), .d = gpu_alloc(gpu, d), .alpha = 1
        };
        bool ok = set->a && set->b && set->d;
        if (ok && m->set_count == 1)
            ok = gpu_upload(gpu, set->a, data->a.whole.data, a) && gpu_upload(gpu, set->b, data->b.whole.data, b);
        else
            ok = ok && gpu_ok(gpu, gpu->MemcpyDtoD(set->a, m->sets[0].a, a), "cuMemcpyDtoD") &&
                 gpu_ok(gpu, gpu->MemcpyDtoD(set->b, m->sets[0].b, b), "cuMemcpyDtoD");
        if (!ok) {
            snprintf(m->error, sizeof m->error, "%s", gpu->error);
            return false;
        }
    }
    /* From here on A and B are constant, as bench->constant_a and constant_b may promise. */
    return gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize");
}

/* A workspace for every set, as large as this plan needs; kernels one after another may share it. */
static bool workspaces_make(struct bench *bench, int64_t bytes)
{
    struct measure *m = &bench->measure;
    struct gpu *gpu = &bench->gpu;
    for (int i = 0; bytes && i < m->set_count; i++) {
        struct ptxmm_arguments *set = &m->sets[i];
        if (set->workspace_bytes >= bytes) continue;
        gpu_free(gpu, set->workspace);
        set->workspace_bytes = 0;
        set->workspace = gpu_alloc(gpu, (size_t)bytes);
        if (!set->workspace || !gpu_ok(gpu, gpu->MemsetD8(set->workspace, 0, (size_t)bytes), "cuMemsetD8")) {
            snprintf(m->error, sizeof m->error, "%s", gpu->error);
            return false;
        }
        set->workspace_bytes = bytes;
    }
    return true;
}

/* ---- right? --------------------------------------------------------------------------------------------------- */

static bool result_of(struct bench *bench, const struct contestant *contestant, struct stack *d)
{
    struct gpu *gpu = &bench->gpu;
    struct measure *m = &bench->measure;
    const size_t bytes = held_bytes(d);
    if (!gpu_ok(gpu, gpu->MemsetD8(m->sets[0].d, 0xff, bytes), "cuMemsetD8") ||
        !gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize")) {
        snprintf(m->error, sizeof m->error, "%s", gpu->error);
        return false;
    }
    if (!measure_launch(m, contestant, &m->sets[0])) return false;
    if (gpu_ok(gpu, gpu->StreamSynchronize(m->stream), "cuStreamSynchronize") &&
        gpu_download(gpu, d->whole.data, m->sets[0].d, bytes))
        return true;
    snprintf(m->error, sizeof m->error, "%s", gpu->error);
    return false;
}

/* `promotion`: of fp8, see struct check_problem. Kernels and launches that add in the same order give the same bits, so that
 * with many of them few need a check of their own. */
static bool right(struct bench *bench, struct data *data, const struct stack *d, int64_t promotion,
                  struct check_result *result)
{
    const size_t bytes = held_bytes(d);
    for (int i = 0; i < data->known_count; i++) {
        const struct known *known = &data->known[i];
        if (known->promotion != promotion || memcmp(known->d, d->whole.data, bytes) != 0) continue;
        *result = known->result;
        result->method = "bits equal to a right result";
        return true;
    }
    const struct check_batch problem = {
        .a = &data->a, .b = &data->b, .d = d, .alpha = 1, .promotion = promotion, .seed = bench->seed,
        .samples = 1024, .element_work = 1 << 24, .block_work = (int64_t)1 << 31,
    };
    check_all(&problem, result);
    unsigned char *copy = result->ok && data->known_count < MOST_KNOWN ? malloc(bytes) : NULL;
    if (copy) {
        memcpy(copy, d->whole.data, bytes);
        data->known[data->known_count++] = (struct known){ copy, promotion, *result };
    }
    return result->ok;
}

static int64_t different_elements(const struct matrix *x, const struct matrix *y)
{
    int64_t count = 0;
    for (int64_t r = 0; r < x->rows; r++) {
        const unsigned char *p = x->data + (size_t)r * (size_t)x->ld * x->size;
        const unsigned char *q = y->data + (size_t)r * (size_t)y->ld * y->size;
        if (memcmp(p, q, (size_t)x->cols * x->size) == 0) continue;
        for (int64_t c = 0; c < x->cols; c++)
            count += memcmp(p + (size_t)c * x->size, q + (size_t)c * x->size, x->size) != 0;
    }
    return count;
}

static int64_t different(const struct stack *all_x, const struct stack *all_y)
{
    int64_t count = 0;
    for (int64_t z = 0; z < all_x->count; z++) {
        const struct matrix x = stack_at(all_x, z), y = stack_at(all_y, z);
        count += different_elements(&x, &y);
    }
    return count;
}

/* ---- words and numbers ---------------------------------------------------------------------------------------- */

/* `rate` names what `amount` is in each second. */
static json_t *json_times_of(const struct times *times, const char *rate, double amount)
{
    const struct summary s = times_summary(times);
    json_t *samples = json_array();
    for (int i = 0; i < times->count; i++) json_array_append_new(samples, json_real(times->seconds[i] * 1e6));
    return json_pack("{s:f, s:f, s:f, s:f, s:o}", "median_us", s.median * 1e6, "low_quartile_us", s.low * 1e6,
                     "high_quartile_us", s.high * 1e6, rate, amount / s.median, "samples_us", samples);
}

static json_t *json_times(const struct times *times, double flops)
{
    return json_times_of(times, "tflops", flops / 1e12);
}

/* The floor of protocol i, what it was chosen among, and how much of our time it is. */
static json_t *json_floor(const struct contest *c, int i, const struct protocol_times *t)
{
    const struct contestant *floor = &c->floor[i];
    const size_t bytes = floor_bytes(floor->floor);
    json_t *object = json_times_of(&t->floor, "gb_per_s", (double)bytes / 1e9), *trial = json_object();
    for (int v = 0; v < floor_variants(); v++)
        if (c->floor_trial[i][v] >= 0)
            json_object_set_new(trial, floor_variant_name(v), json_real(c->floor_trial[i][v] * 1e6));
    json_object_set_new(object, "bytes", json_integer((json_int_t)bytes));
    json_object_set_new(object, "variant", json_string(floor_variant_name(floor->algorithm)));
    json_object_set_new(object, "trial_us", trial);
    return object;
}

static json_t *json_state(const struct nvml_state *state)
{
    json_t *object = json_object();
    if (state->sm_mhz >= 0) json_object_set_new(object, "sm_mhz", json_integer(state->sm_mhz));
    if (state->memory_mhz >= 0) json_object_set_new(object, "memory_mhz", json_integer(state->memory_mhz));
    if (state->watts >= 0) json_object_set_new(object, "watts", json_real(state->watts));
    if (state->celsius >= 0) json_object_set_new(object, "celsius", json_integer(state->celsius));
    return object;
}

void bench_table_head(const struct bench *bench)
{
    printf("\nmedian of launches in us, +- half the distance of the quartiles; x: how many times as fast as "
           "cuBLASLt;\nsplit: CTAs of a cluster x groups of clusters that share a tile's K; multicast: rows x columns of tiles that share "
           "loads x groups\n%s\n",
           bench->floor ? "floor: A and B read once and D written, no more; of floor: its time over ours\n" : "");
    printf("%-18s %-40s %-5s %-9s | %9s %6s %8s | %9s %6s %6s | %9s %6s |", "shape", "kernel", "split", "protocol", "ours us",
           "+-%", "TFLOP/s", "first us", "+-%", "x", "best us", "x");
    if (bench->floor) printf(" %9s %8s |", "floor us", "of floor");
    printf(" %5s %4s %3s\n", "MHz", "W", "C");
}

static double spread(const struct summary *s)
{
    return s->median > 0 ? 50 * (s->high - s->low) / s->median : 0;
}

/* Theirs over ours, of the same alternation: how many times as fast we are. */
static double speed(const struct times *ours, const struct times *theirs)
{
    return times_summary(theirs).median / times_summary(ours).median;
}

static void print_row(const struct bench *bench, const char *shape, const char *kernel, const char *split,
                      const char *protocol, const struct protocol_times *t, double flops)
{
    const struct times *first = &t->first, *best = &t->best;
    const struct nvml_state *state = &t->state;
    const struct summary o = times_summary(&t->ours), f = times_summary(first), b = times_summary(best);
    printf("%-18s %-40s %-5s %-9s | %9.2f %6.2f %8.1f |", shape, kernel, split, protocol, o.median * 1e6, spread(&o),
           flops / o.median / 1e12);
    if (first->count)
        printf(" %9.2f %6.2f %6.3f |", f.median * 1e6, spread(&f), speed(&t->ours, first));
    else
        printf(" %9s %6s %6s |", "-", "-", "-");
    if (best->count)
        printf(" %9.2f %6.3f |", b.median * 1e6, speed(&t->ours_beside_best, best));
    else
        printf(" %9s %6s |", "-", "-");
    if (t->floor.count)
        printf(" %9.2f %8.3f |", times_summary(&t->floor).median * 1e6, speed(&t->ours_beside_floor, &t->floor));
    else if (bench->floor)
        printf(" %9s %8s |", "-", "-");
    if (state->sm_mhz >= 0)
        printf(" %5d", state->sm_mhz);
    else
        printf(" %5s", "-");
    if (state->watts >= 0)
        printf(" %4.0f", state->watts);
    else
        printf(" %4s", "-");
    if (state->celsius >= 0)
        printf(" %3d\n", state->celsius);
    else
        printf(" %3s\n", "-");
    fflush(stdout);
}

static void add_ratio(struct ratio *ratio, double speed_)
{
    ratio->log_sum += log(speed_);
    ratio->count++;
}

/* ---- timing --------------------------------------------------------------------------------------------------- */

static bool time_pair(struct bench *bench, const struct contest *c, struct protocol_times *t)
{
    struct measure *m = &bench->measure;
    struct nvml_state ignored;
    /* Alone, ours alternates with itself: the same protocol, the same gaps. */
    if (!measure_pair(m, &c->ours, c->lt ? &c->first : &c->ours, bench->pairs, &t->ours, &t->first, &t->state))
        return false;
    if (!c->lt) t->first.count = 0;
    if (c->floored && !measure_pair(m, &c->ours, &c->floor[0], bench->pairs, &t->ours_beside_floor, &t->floor, &ignored))
        return false;
    if (c->another) return measure_pair(m, &c->ours, &c->best, bench->pairs, &t->ours_beside_best, &t->best, &ignored);
    t->ours_beside_best = t->ours;
    t->best = t->first;
    return true;
}

static bool time_cool(struct bench *bench, const struct contest *c, struct protocol_times *t)
{
    struct measure *m = &bench->measure;
    struct nvml_state ignored;
    if (!measure_cool(m, &c->ours, bench->cool_repeats, &t->ours, &t->state)) return false;
    t->ours_beside_best = t->ours_beside_floor = t->ours;
    if (c->floored && !measure_cool(m, &c->floor[1], bench->cool_repeats, &t->floor, &ignored)) return false;
    if (c->lt && !measure_cool(m, &c->first, bench->cool_repeats, &t->first, &ignored)) return false;
    if (c->another) return measure_cool(m, &c->best, bench->cool_repeats, &t->best, &ignored);
    t->best = t->first;
    return true;
}

static bool time_sustained(struct bench *bench, const struct contest *c, struct protocol_times *t)
{
    struct measure *m = &bench->measure;
    struct nvml_state ignored;
    struct times rough = { 0 };
    if (!measure_pair(m, &c->ours, &c->ours, 4, &rough, &t->first, &ignored)) return false;
    t->first.count = 0;
    const double seconds = times_summary(&rough).median;
    for (int i = 0; i < bench->bursts; i++) {
        if (!measure_burst(m, &c->ours, seconds, &t->ours, &t->state)) return false;
        if (c->lt && !measure_burst(m, &c->first, seconds, &t->first, &ignored)) return false;
        if (c->another && !measure_burst(m, &c->best, seconds, &t->best, &ignored)) return false;
        if (c->floored && !measure_burst(m, &c->floor[2], seconds, &t->floor, &ignored)) return false;
    }
    t->ours_beside_best = t->ours_beside_floor = t->ours;
    if (!c->another) t->best = t->first;
    return true;
}

static bool time_all(struct bench *bench, const struct shape *shape, const char *kernel, const char *split,
                     const char *place, const struct contest *c, json_t *object)
{
    static bool (*const protocols[PROTOCOLS])(struct bench *, const struct contest *,
                                              struct protocol_times *) = { time_pair, time_cool, time_sustained };
    for (int i = 0; i < PROTOCOLS; i++) {
        if (!(bench->protocols >> i & 1)) continue;
        struct protocol_times t;
        memset(&t, 0, sizeof t);
        bench_progress("[%s] %s %s: %s", place, shape->name, kernel, protocol_names[i]);
        if (!protocols[i](bench, c, &t)) return false;
        bench_progress(NULL);
        print_row(bench, shape->name, kernel, split, protocol_names[i], &t, c->flops);
        json_t *timing = json_pack("{s:o, s:o}", "ours", json_times(&t.ours, c->flops), "state", json_state(&t.state));
        if (t.first.count) {
            const double first = speed(&t.ours, &t.first), best = speed(&t.ours_beside_best, &t.best);
            add_ratio(&bench->first[i], first);
            add_ratio(&bench->best[i], best);
            json_object_set_new(timing, "cublaslt_first", json_times(&t.first, c->flops));
            json_object_set_new(timing, "speed_to_first", json_real(first));
            json_object_set_new(timing, "ours_beside_best", json_times(&t.ours_beside_best, c->flops));
            json_object_set_new(timing, "cublaslt_best", json_times(&t.best, c->flops));
            json_object_set_new(timing, "speed_to_best", json_real(best));
            json_object_set_new(timing, "best_algorithm", json_integer(c->best.algorithm));
        }
        if (t.floor.count) {
            json_object_set_new(timing, "floor", json_floor(c, i, &t));
            json_object_set_new(timing, "ours_beside_floor", json_times(&t.ours_beside_floor, c->flops));
            json_object_set_new(timing, "of_floor", json_real(speed(&t.ours_beside_floor, &t.floor)));
        }
        json_object_set_new(object, protocol_names[i], timing);
    }
    return true;
}

/* ---- one kernel, one product ---------------------------------------------------------------------------------- */

static void give_up(struct bench *bench, const struct shape *shape, const char *kernel, json_t *object,
                    const char *what, const char *why)
{
    bench_progress(NULL);
    printf("%-18s %-39s %s: %s\n", shape->name, kernel, what, why);
    fflush(stdout);
    json_object_set_new(object, what, json_string(why));
    if (strcmp(what, "skipped")) bench->wrong++;
}

static void one_kernel(struct bench *bench, const struct shape *shape, const struct ptxmm_problem *problem,
                       struct contest *c, struct data *data, const char *place)
{
    struct ptxmm_plan *plan;
    struct ptxmm_error error;
    json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:s}", "shape", shape->name, "m", (json_int_t)shape->m, "n",
                               (json_int_t)shape->n, "k", (json_int_t)shape->k, "batch", (json_int_t)shape->batch,
                               "type", type_name(problem->a.type),
                               "out_type", type_name(problem->d.type));
    if (type_is_fp8(problem->a.type)) {
        json_object_set_new(object, "b_type", json_string(type_name(problem->b.type)));
        json_object_set_new(object, "accumulate",
                            json_string(problem->accumulate == PTXMM_ACCUMULATE_FAST ? "fast" : "default"));
    }
    const char *constant = constant_name(problem->a.constant, problem->b.constant);
    if (*constant) json_object_set_new(object, "constant", json_string(constant));
    json_array_append_new(bench->results, object);
    const char *asked = problem->prefer.kernel ? problem->prefer.kernel : "-";
    if (ptxmm_plan_create(bench->mm, problem, NULL, &plan, &error)) {
        give_up(bench, shape, asked, object, error.status == PTXMM_ERROR_NO_KERNEL ? "skipped" : "failed", error.text);
        return;
    }
    const struct ptxmm_plan_info *info = ptxmm_plan_info(plan);
    const char *kernel = info->candidate.kernel->name;
    json_object_set_new(object, "kernel", json_string(kernel));
    json_object_set_new(object, "predicted_us", json_real(info->candidate.seconds * 1e6));
    json_object_set_new(object, "ctas", json_integer(info->grid));
    json_object_set_new(object, "cluster", json_integer(info->cluster));
    json_object_set_new(object, "cluster_rows", json_integer(info->candidate.cluster_rows));
    json_object_set_new(object, "groups", json_integer(info->candidate.groups));
    json_object_set_new(object, "stages", json_integer(info->candidate.stages));
    json_object_set_new(object, "workspace_bytes", json_integer(info->workspace_bytes));
    char split[32] = "-";
    if (info->candidate.kernel->algorithm == PTXMM_SPLIT)
        snprintf(split, sizeof split, "%ux%lld", info->cluster, (long long)info->candidate.groups);
    if (info->candidate.kernel->algorithm == PTXMM_MULTICAST)
        snprintf(split, sizeof split, "%lldx%lldx%lld", (long long)info->candidate.cluster_rows,
                 (long long)(info->cluster / info->candidate.cluster_rows), (long long)info->candidate.groups);

    bench_progress("[%s] %s %s: checking", place, shape->name, kernel);
    c->ours = (struct contestant){ .plan = plan };
    struct check_result result;
    char text[1400];
    if (!workspaces_make(bench, info->workspace_bytes) || !result_of(bench, &c->ours, &data->d)) {
        give_up(bench, shape, kernel, object, "failed", bench->measure.error);
    } else if (!right(bench, data, &data->d, info->candidate.kernel->promotion, &result)) {
        give_up(bench, shape, kernel, object, "wrong", check_describe(&result, text, sizeof text));
    } else {
        json_t *checked = json_pack("{s:s, s:I, s:f}", "method", result.method, "elements", (json_int_t)result.elements,
                                    "error_in_tolerances", isfinite(result.max_units) ? result.max_units : -1.0);
        if (data->have_theirs)
            json_object_set_new(checked, "elements_unlike_cublaslt", json_integer(different(&data->d, &data->theirs)));
        json_object_set_new(object, "check", checked);
        if (!time_all(bench, shape, kernel, split, place, c, object))
            give_up(bench, shape, kernel, object, "failed", bench->measure.error);
        else if (data->have_theirs) {
            const int64_t count = different(&data->d, &data->theirs);
            if (count)
                printf("%-18s %-39s %lld of %lld elements differ in bits from cuBLASLt's first\n", "", "",
                       (long long)count, (long long)(shape->m * shape->n * shape->batch));
            else
                printf("%-18s %-39s bits equal to cuBLASLt's first\n", "", "");
        }
    }
    ptxmm_plan_destroy(&plan);
}

/* One kernel in the launches that the model thinks fastest, the others as they are. */
static void all_launches(struct bench *bench, const struct shape *shape, const struct ptxmm_problem *problem,
                         const struct ptxmm_kernel_info *kernel, struct contest *c, struct data *data, const char *place)
{
    struct ptxmm_problem launched = *problem;
    struct ptxmm_candidate list[MOST_LAUNCHES];
    if (!bench->all_launches || !launch_is_open(kernel)) {
        one_kernel(bench, shape, problem, c, data, place);
        return;
    }
    const size_t count = launch_list(&bench->device, problem, kernel, list, bench->all_launches);
    for (size_t i = 0; i < count; i++) {
        launched.prefer.cluster = (int)list[i].cluster;
        launched.prefer.cluster_rows = (int)list[i].cluster_rows;
        launched.prefer.groups = (int)list[i].groups;
        one_kernel(bench, shape, &launched, c, data, place);
    }
}

/* The heuristic's first, checked like ours; then the fastest of what it offers. */
static void prepare_cublaslt(struct bench *bench, const struct shape *shape, struct cublaslt_matmul *matmul,
                             struct data *data, struct contest *c)
{
    struct check_result result;
    char text[1400];
    double seconds[CUBLASLT_MAX_ALGORITHMS];
    int best = 0;
    c->first = c->best = (struct contestant){ .lt = bench->lt, .matmul = matmul };
    if (!result_of(bench, &c->first, &data->theirs)) {
        printf("%-18s cuBLASLt: %s\n", shape->name, bench->measure.error);
        return;
    }
    if (!right(bench, data, &data->theirs, 0, &result)) { /* how often theirs promotes is not known */
        printf("%-18s cuBLASLt is wrong: %s\n", shape->name, check_describe(&result, text, sizeof text));
        return;
    }
    data->have_theirs = true;
    if (!measure_algorithms(&bench->measure, &c->first, seconds, &best)) {
        printf("%-18s cuBLASLt: %s\n", shape->name, bench->measure.error);
        return;
    }
    c->lt = true;
    c->best.algorithm = best;
    c->another = best != 0;
}

static uint32_t xor_of_words(const struct stack *x)
{
    uint32_t sum = 0, word;
    const size_t bytes = held_bytes(x);
    for (size_t at = 0; at < bytes; at += sizeof word) {
        memcpy(&word, x->whole.data + at, sizeof word);
        sum ^= word;
    }
    return sum;
}

/* Every variant of the floor is checked, then each protocol gets the one that is fastest in it. */
static bool prepare_floor(struct bench *bench, const struct data *data, struct contest *c)
{
    struct measure *m = &bench->measure;
    const uint32_t words = xor_of_words(&data->a) ^ xor_of_words(&data->b);
    bool ok = floor_product(bench->floor, held_bytes(&data->a), held_bytes(&data->b), held_bytes(&data->d),
                            bench->constant_a, bench->constant_b);
    for (int i = 0; ok && i < floor_variants(); i++) ok = floor_check(bench->floor, i, &m->sets[0], m->stream, words);
    if (!ok) snprintf(m->error, sizeof m->error, "%s", floor_error(bench->floor));
    for (int i = 0; ok && i < PROTOCOLS; i++) {
        if (!(bench->protocols >> i & 1)) continue;
        c->floor[i] = (struct contestant){ .floor = bench->floor };
        ok = measure_floors(m, bench->floor, 1 << i == PROTOCOL_PAIR ? 1 : 8, c->floor_trial[i], &c->floor[i].algorithm);
    }
    return ok;
}

void bench_product(struct bench *bench, const struct shape *shape, const char *place)
{
    struct ptxmm_problem problem = {
        .m = shape->m, .n = shape->n, .k = shape->k,
        .kind = shape->batch > 1 ? PTXMM_BATCH_STRIDED : PTXMM_DENSE,
        .batch = shape->batch,
        .a = { .type = bench->type, .layout = shape->layout[0] == 'k' ? PTXMM_K_MAJOR : PTXMM_MN_MAJOR,
               .constant = bench->constant_a },
        .b = { .type = bench->b_type, .layout = shape->layout[1] == 'k' ? PTXMM_K_MAJOR : PTXMM_MN_MAJOR,
               .constant = bench->constant_b },
        .d = { .type = bench->out_type },
        .accumulate = bench->accumulate,
        .prefer = { .kernel = bench->kernel, .workspace_limit = bench->workspace, .cluster = bench->cluster,
                    .cluster_rows = bench->cluster_rows, .groups = bench->groups, .stages = bench->stages },
    };
    const bool a_k = problem.a.layout == PTXMM_K_MAJOR, b_k = problem.b.layout == PTXMM_K_MAJOR;
    problem.a.ld = aligned(bench->type, a_k ? shape->k : shape->m);
    problem.b.ld = aligned(bench->b_type, b_k ? shape->k : shape->n);
    problem.d.ld = aligned(bench->out_type, shape->n);
    if (shape->batch > 1) {
        problem.a.batch_stride = problem.a.ld * (a_k ? shape->m : shape->k);
        problem.b.batch_stride = problem.b.ld * (b_k ? shape->n : shape->k);
        problem.d.batch_stride = problem.d.ld * shape->m;
    }
    /* Nothing is prepared for a product that no kernel of the pack serves. */
    struct ptxmm_candidate *candidates = calloc(ptxmm_kernel_count(), sizeof *candidates);
    struct contest contest = { .flops = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k *
                                        (double)shape->batch };
    struct data data = { 0 };
    struct cublaslt_matmul *matmul = NULL;
    struct ptxmm_error error;
    char why[600];
    size_t count = 0, usable = 0;
    if (!candidates || ptxmm_select(&bench->device, &problem, candidates, ptxmm_kernel_count(), &count, &error)) {
        printf("%-18s failed: %s\n", shape->name, candidates ? error.text : "host memory is exhausted");
        bench->wrong++;
        goto done;
    }
    while (usable < count && candidates[usable].reason == PTXMM_REASON_NONE) usable++;
    if (usable == 0 || !a_k || !b_k) {
        /* The reason of the kernels that come closest: those of the right type. */
        size_t close = 0;
        while (close + 1 < count && (candidates[close].reason == PTXMM_REASON_TYPE ||
                                     candidates[close].reason == PTXMM_REASON_ARCHITECTURE ||
                                     candidates[close].reason == PTXMM_REASON_NOT_ASKED))
            close++;
        if (usable)
            snprintf(why, sizeof why, "this program makes data for layout kk only");
        else
            ptxmm_candidate_describe(&candidates[close], why, sizeof why);
        json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:I}", "shape", shape->name, "m", (json_int_t)shape->m, "n",
                                   (json_int_t)shape->n, "k", (json_int_t)shape->k, "batch",
                                   (json_int_t)shape->batch);
        json_array_append_new(bench->results, object);
        give_up(bench, shape, "-", object, "skipped", why);
        goto done;
    }

    bench_progress("[%s] %s: data", place, shape->name);
    if (!data_make(bench, &problem, &data)) {
        bench_progress(NULL);
        printf("%-18s failed: %s\n", shape->name, bench->measure.error);
        bench->wrong++;
        goto done;
    }
    if (bench->lt) {
        bench_progress("[%s] %s: cuBLASLt", place, shape->name);
        if (cublaslt_matmul_create(bench->lt, &problem, bench->one, MEASURE_WORKSPACE, &matmul, why, sizeof why))
            printf("%-18s cuBLASLt: %s\n", shape->name, why);
        else
            prepare_cublaslt(bench, shape, matmul, &data, &contest);
    }
    if (bench->floor) {
        bench_progress("[%s] %s: floor", place, shape->name);
        contest.floored = prepare_floor(bench, &data, &contest);
        if (!contest.floored) {
            bench_progress(NULL);
            printf("%-18s floor: %s\n", shape->name, bench->measure.error);
            bench->wrong++;
        }
    }
    for (size_t i = 0; i < (bench->all_kernels ? usable : 1); i++) {
        if (bench->all_kernels) problem.prefer.kernel = candidates[i].kernel->name;
        all_launches(bench, shape, &problem, candidates[i].kernel, &contest, &data, place);
    }
done:
    cublaslt_matmul_destroy(&matmul);
    data_free(bench, &data);
    free(candidates);
}
