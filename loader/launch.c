/* launch.c -- see launch.h. What a launch costs is timing.c's; here is what is possible. */
#include "launch.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "error.h"
#include "kernels.h"
#include "problem.h"

enum { MOST_GROUPS = 64, MOST_STAGES = 64 };

/* Clusters that are tried. One of 8 rows has not been seen to be the best, and must be asked for. */
#define CLUSTER(ctas, in_rows) { .cluster = (ctas), .rows = (in_rows) }
static const struct launch_shape split_shapes[] = { CLUSTER(1, 1), CLUSTER(2, 1), CLUSTER(3, 1), CLUSTER(4, 1),
                                                    CLUSTER(8, 1) },
                                 multicast_shapes[] = { CLUSTER(1, 1), CLUSTER(2, 1), CLUSTER(2, 2), CLUSTER(4, 1),
                                                        CLUSTER(4, 2), CLUSTER(4, 4), CLUSTER(8, 1), CLUSTER(8, 2),
                                                        CLUSTER(8, 4), CLUSTER(8, 8) };
#undef CLUSTER
enum { ROWS_IF_ASKED = 8 };

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

int launch_is_open(const struct ptxmm_kernel_info *kernel)
{
    return kernel->algorithm == PTXMM_SPLIT || kernel->algorithm == PTXMM_MULTICAST;
}

/* ---- what may be asked for ----------------------------------------------------------------- */

#define REFUSE(member, value, must)                                                                        \
    return error_set(error, PTXMM_ERROR_ARGUMENT, "%s." member " is %d, must be " must, where, value)

enum ptxmm_status launch_check(const char *where, int cluster, int cluster_rows, int groups,
                               int stages, struct ptxmm_error *error)
{
    if (cluster < 0 || cluster > 8 || (cluster > 4 && cluster < 8))
        REFUSE("cluster", cluster, "0, 1, 2, 3, 4 or 8");
    if (cluster_rows < 0 || cluster_rows > 8 || (cluster_rows & (cluster_rows - 1)))
        REFUSE("cluster_rows", cluster_rows, "0, 1, 2, 4 or 8");
    if (cluster && cluster_rows && cluster % cluster_rows)
        return error_set(error, PTXMM_ERROR_ARGUMENT, "%s.cluster_rows is %d, must be 0 or divide cluster, %d",
                         where, cluster_rows, cluster);
    if (groups < 0 || groups > MOST_GROUPS)
        REFUSE("groups", groups, "from 0 to 64");
    if (stages && (stages < PTXMM_LEAST_STAGES || stages > MOST_STAGES))
        REFUSE("stages", stages, "0 or from 4 to 64");
    return PTXMM_OK;
}

/* ---- what is possible ---------------------------------------------------------------------- */

/* What keeps a kernel from a launch, that of the least help first. */
enum obstacle {
    IT_IS_FIXED,   /* the kernel has a cluster, rows, groups and stages of its own */
    TOO_FEW_SMS,   /* for a cluster */
    SHORT_CLUSTER, /* a CTA of the cluster would have no slice of K */
    SHORT_GROUPS,  /* a group would have none */
    COUNTERS,      /* the workspace has too few */
    TOGETHER,      /* groups that wait for one another must all run at a time */
    WORKSPACE,
    NOTHING
};

struct verdict {
    enum obstacle obstacle;
    const char *field;
    int64_t has, needs;
};

/* With 8 and 16 rows of A a ring of 100 KB is enough, and the next kernel's CTAs find a place beside this one's. A
 * longer one pays where hardly an SM is left for the next kernel to begin on anyway, or so few load that each must
 * have more under way (docs/results.md, "The length of the ring"). */
enum { SHORT_RING = 100 * 1024 };
static int is_better_short(const struct ptxmm_device *device, const struct ptxmm_candidate *launched)
{
    const struct ptxmm_kernel_info *kernel = launched->kernel;
    int64_t sms = device->sm_count, ctas = launched->ctas;
    int is_long = 16 * ctas > 15 * sms || 2 * ctas <= sms;
    return kernel->algorithm == PTXMM_SPLIT && kernel->tile_m <= 16 && !is_long;
}

static int has_rows(const struct ptxmm_kernel_info *kernel)
{
    return kernel->algorithm == PTXMM_MULTICAST;
}

/* Slots of the ring: those asked for, or all. */
static int64_t asked_stages(const struct ptxmm_kernel_info *kernel, const struct ptxmm_preferences *prefer)
{
    return prefer->stages ? prefer->stages : (int64_t)kernel->stages;
}

/* Judges one launch, with the ring that the preferences or the cluster ask for; *candidate gets its prediction, but
 * where a cluster or a part of K is already too much. */
static struct verdict judge(const struct timing *timing, const struct ptxmm_device *device,
                            const struct ptxmm_problem *problem, const struct launch_shape *shape,
                            struct ptxmm_candidate *candidate)
{
    const struct ptxmm_kernel_info *kernel = candidate->kernel;
    const struct ptxmm_preferences *prefer = &problem->prefer;
    const char *cluster_field = prefer->cluster ? "prefer.cluster" : "prefer.cluster_rows";
    int64_t cluster_has = prefer->cluster ? prefer->cluster : prefer->cluster_rows;
    int64_t sms = timing_sms(device, problem), slices = ceil_div(problem->k, kernel->tile_k);
    int64_t groups = shape->groups, split = has_rows(kernel) ? 1 : shape->cluster;
    if (slices == 0)
        slices = 1;
    if (shape->cluster > sms)
        return (struct verdict){ TOO_FEW_SMS, cluster_field, cluster_has, sms };
    if (split > slices)
        return (struct verdict){ SHORT_CLUSTER, cluster_field, cluster_has, slices };
    if (split * groups > slices)
        return (struct verdict){ SHORT_GROUPS, "prefer.groups", groups, slices / split };
    struct launch_shape launched = *shape;
    launched.stages = asked_stages(kernel, prefer);
    timing_predict_as(timing, device, problem, &launched, NULL, candidate);
    if (!prefer->stages && is_better_short(device, candidate)) {
        launched.stages = (int64_t)(SHORT_RING / timing_slot_bytes(kernel));
        timing_predict_as(timing, device, problem, &launched, NULL, candidate);
    }
    if (groups == 1)
        return (struct verdict){ .obstacle = NOTHING };
    if (candidate->tiles * (has_rows(kernel) ? 2 : shape->cluster) > PTXMM_WORKSPACE_COUNTERS / 4)
        return (struct verdict){ COUNTERS, "prefer.groups", groups, 1 };
    int64_t clusters = candidate->tiles / shape->cluster, fit = timing_clusters(device, problem, shape->cluster);
    if (has_rows(kernel) && clusters * groups > fit)
        return (struct verdict){ TOGETHER, "prefer.groups", groups, fit > clusters ? fit / clusters : 1 };
    if (candidate->workspace_bytes > prefer->workspace_limit)
        return (struct verdict){ WORKSPACE, "prefer.workspace_limit", prefer->workspace_limit,
                                 candidate->workspace_bytes };
    return (struct verdict){ .obstacle = NOTHING };
}

/* Does the kernel have what is asked for, whatever the problem? */
static struct verdict judge_kernel(const struct ptxmm_kernel_info *kernel, const struct ptxmm_preferences *prefer)
{
    int is_open = launch_is_open(kernel);
    if (!is_open && prefer->cluster && prefer->cluster != (int)kernel->cluster)
        return (struct verdict){ IT_IS_FIXED, "prefer.cluster", prefer->cluster, kernel->cluster };
    if (has_rows(kernel) && prefer->cluster == 3)
        return (struct verdict){ IT_IS_FIXED, "prefer.cluster", prefer->cluster, 4 };
    if (!has_rows(kernel) && prefer->cluster_rows > 1)
        return (struct verdict){ IT_IS_FIXED, "prefer.cluster_rows", prefer->cluster_rows, 1 };
    if (!is_open && prefer->groups > 1)
        return (struct verdict){ IT_IS_FIXED, "prefer.groups", prefer->groups, 1 };
    int64_t stages = kernel->stages;
    if (prefer->stages && (kernel->algorithm == PTXMM_SPLIT ? prefer->stages > stages : prefer->stages != stages))
        return (struct verdict){ IT_IS_FIXED, "prefer.stages", prefer->stages, stages };
    return (struct verdict){ .obstacle = NOTHING };
}

static void reject(struct ptxmm_candidate *candidate, const struct verdict *verdict)
{
    *candidate = (struct ptxmm_candidate){
        .kernel = candidate->kernel,
        .reason = verdict->obstacle == WORKSPACE ? PTXMM_REASON_WORKSPACE : PTXMM_REASON_LAUNCH,
        .field = verdict->field,
        .has = verdict->has,
        .needs = verdict->needs
    };
}

/* Of two launches that cannot be, the one that less has to change for. */
static int is_closer(const struct verdict *a, const struct verdict *b)
{
    if (a->obstacle != b->obstacle)
        return a->obstacle > b->obstacle;
    return a->obstacle == WORKSPACE ? a->needs < b->needs : a->needs > b->needs;
}

/* The clusters that a kernel may be launched in, and which of them are asked for. */
static const struct launch_shape *shapes_of(const struct ptxmm_kernel_info *kernel, size_t *count)
{
    *count = has_rows(kernel) ? sizeof multicast_shapes / sizeof multicast_shapes[0]
                              : sizeof split_shapes / sizeof split_shapes[0];
    return has_rows(kernel) ? multicast_shapes : split_shapes;
}

static int is_asked(const struct launch_shape *shape, const struct ptxmm_preferences *prefer)
{
    if (shape->rows == ROWS_IF_ASKED && prefer->cluster_rows != ROWS_IF_ASKED)
        return 0;
    return (!prefer->cluster || shape->cluster == prefer->cluster) &&
           (!prefer->cluster_rows || shape->rows == prefer->cluster_rows);
}

/* ---- choosing ------------------------------------------------------------------------------ */

void launch_choose(const struct timing *timing, const struct ptxmm_device *device,
                   const struct ptxmm_problem *problem, struct ptxmm_candidate *candidate)
{
    const struct ptxmm_kernel_info *kernel = candidate->kernel;
    const struct ptxmm_preferences *prefer = &problem->prefer;
    assert(timing);
    struct verdict closest = judge_kernel(kernel, prefer);
    if (closest.obstacle != NOTHING) {
        reject(candidate, &closest);
        return;
    }
    if (problem_is_empty(problem)) {
        candidate->stages = asked_stages(kernel, prefer);
        candidate->shared_bytes = timing_shared_bytes(kernel, candidate->stages);
        return;
    }
    struct launch_shape shape = { kernel->cluster, 1, 1, kernel->stages };
    if (!launch_is_open(kernel)) {
        timing_predict_as(timing, device, problem, &shape, NULL, candidate);
        return;
    }
    size_t count;
    const struct launch_shape *shapes = shapes_of(kernel, &count);
    struct ptxmm_candidate best = { .seconds = INFINITY };
    closest = (struct verdict){ .obstacle = IT_IS_FIXED };
    for (size_t i = 0; i < count; i++) {
        if (!is_asked(&shapes[i], prefer))
            continue;
        // More groups soon cost more than they bring: after a few that were no better, none is.
        int64_t first = prefer->groups ? prefer->groups : 1, last = prefer->groups ? first : MOST_GROUPS;
        int64_t best_groups = first;
        double least = INFINITY;
        shape = shapes[i];
        for (shape.groups = first; shape.groups <= last && shape.groups <= best_groups + 4; shape.groups++) {
            struct verdict verdict = judge(timing, device, problem, &shape, candidate);
            if (verdict.obstacle != NOTHING) {
                if (is_closer(&verdict, &closest))
                    closest = verdict;
                break; // with more groups it is no other
            }
            if (candidate->seconds < least) {
                least = candidate->seconds;
                best_groups = shape.groups;
            }
            if (candidate->seconds < best.seconds)
                best = *candidate;
        }
    }
    if (best.kernel)
        *candidate = best;
    else
        reject(candidate, &closest);
}

size_t launch_list(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                   const struct ptxmm_kernel_info *kernel, struct ptxmm_candidate *list, size_t capacity)
{
    const struct ptxmm_preferences *prefer = &problem->prefer;
    const struct timing *timing = timing_of(kernel);
    size_t count, written = 0;
    const struct launch_shape *shapes = shapes_of(kernel, &count);
    assert(timing && launch_is_open(kernel));
    if (problem_is_empty(problem) || judge_kernel(kernel, prefer).obstacle != NOTHING)
        return 0;
    for (size_t i = 0; i < count; i++) {
        struct launch_shape shape = shapes[i];
        int64_t first = prefer->groups ? prefer->groups : 1, last = prefer->groups ? first : MOST_GROUPS;
        for (shape.groups = first; is_asked(&shape, prefer) && shape.groups <= last; shape.groups++) {
            struct ptxmm_candidate next = { .kernel = kernel };
            if (judge(timing, device, problem, &shape, &next).obstacle != NOTHING)
                break;
            size_t at = written < capacity ? written++ : capacity; // of many only the fastest stay
            for (; at > 0 && next.seconds < list[at - 1].seconds; at--)
                if (at < capacity)
                    list[at] = list[at - 1];
            if (at < capacity)
                list[at] = next;
        }
    }
    return written;
}
