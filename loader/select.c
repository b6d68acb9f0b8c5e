/* select.c -- which kernels can serve a problem, and why the others cannot. */
#include "select.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "error.h"
#include "launch.h"
#include "problem.h"

/* TMA wants base addresses and strides in multiples of this, and strides below 2^40 bytes. */
enum { ALIGNMENT = 16 };
static const int64_t most_pitch = (INT64_C(1) << 40) - ALIGNMENT;

/* Kernels count rows, columns and K in 32 bits, coordinates of TMA are signed. */
static const int64_t most_size = INT32_MAX;

/* ---- reasons ------------------------------------------------------------------------------- */

const char *ptxmm_reason_name(enum ptxmm_reason reason)
{
    switch ((int)reason) {
#define NAME(name, value, text) \
    case value: return #name;
        PTXMM_REASON_LIST(NAME)
#undef NAME
    default: return "UNKNOWN";
    }
}

const char *ptxmm_reason_text(enum ptxmm_reason reason)
{
    switch ((int)reason) {
#define TEXT(name, value, text) \
    case value: return text;
        PTXMM_REASON_LIST(TEXT)
#undef TEXT
    default: return "unknown reason";
    }
}

static int is_family(const char *target)
{
    return target[strlen(target) - 1] == 'f';
}

/* One line of a verdict in words: what the field has and needs, in the field's own terms. */
int ptxmm_candidate_describe(const struct ptxmm_candidate *candidate, char *text, size_t size)
{
    if (!candidate || !candidate->kernel)
        return snprintf(text, size, "no kernel: the problem is empty, nothing will be launched");
    const char *name = candidate->kernel->name, *field = candidate->field ? candidate->field : "";
    int64_t has = candidate->has, needs = candidate->needs;
    int is_output = field[0] == 'c' || field[0] == 'd';
    switch (candidate->reason) {
    case PTXMM_REASON_NONE:
        return snprintf(text, size,
                        "%s: %.2f us predicted, %" PRId64 " tiles on %" PRId64
                        " CTAs, tensor cores %.0f %% busy",
                        name, 1e6 * candidate->seconds, candidate->tiles, candidate->ctas,
                        100 * candidate->tensor_busy);
    case PTXMM_REASON_ARCHITECTURE:
        return snprintf(text, size, "%s: the device's %s is %" PRId64 ", must be %" PRId64 "%s (%s)",
                        name, field, has, needs,
                        is_family(candidate->kernel->target) ? " or of its family" : "",
                        candidate->kernel->target);
    case PTXMM_REASON_TYPE:
        return snprintf(text, size, "%s: %s is %s, must be %s", name, field,
                        problem_type_name((enum ptxmm_type)has),
                        problem_type_name((enum ptxmm_type)needs));
    case PTXMM_REASON_LAYOUT:
        return snprintf(text, size, "%s: %s is %s, must be %s", name, field,
                        problem_layout_name((enum ptxmm_layout)has, is_output),
                        problem_layout_name((enum ptxmm_layout)needs, is_output));
    case PTXMM_REASON_ALIGNMENT:
        return snprintf(text, size, "%s: %s is %" PRId64 " bytes, must be a multiple of %" PRId64,
                        name, field, has, needs);
    case PTXMM_REASON_SIZE:
        return snprintf(text, size, "%s: %s is %" PRId64 "%s, must be at most %" PRId64, name,
                        field, has, strchr(field, '.') ? " bytes" : "", needs);
    case PTXMM_REASON_KIND:
        return snprintf(text, size, "%s: %s is %s, must be %s", name, field,
                        problem_kind_name((enum ptxmm_problem_kind)has),
                        problem_kind_name((enum ptxmm_problem_kind)needs));
    case PTXMM_REASON_SCALE:
        return snprintf(text, size, "%s: %s is %s, must be %s", name, field,
                        problem_scale_name((enum ptxmm_scale_mode)has),
                        problem_scale_name((enum ptxmm_scale_mode)needs));
    case PTXMM_REASON_SHARED_MEMORY:
        return snprintf(text, size, "%s: the device's %s is %" PRId64 ", must be at least %" PRId64,
                        name, field, has, needs);
    case PTXMM_REASON_NOT_ASKED:
        return snprintf(text, size, "%s: %s asks for %s", name, field,
                        ptxmm_kernel((size_t)has)->name);
    case PTXMM_REASON_DRIVER:
        return snprintf(text, size,
                        "%s: the driver supports CUDA %" PRId64 ".%" PRId64 ", must be %" PRId64
                        ".%" PRId64 " or newer",
                        name, has / 1000, has % 1000 / 10, needs / 1000, needs % 1000 / 10);
    case PTXMM_REASON_CLUSTER:
        if (!strcmp(field, "sm_count"))
            return snprintf(text, size, "%s: the device's %s is %" PRId64 ", must be at least %" PRId64
                            ", the size of a cluster", name, field, has, needs);
        if (!strcmp(field, "clusters"))
            return snprintf(text, size, "%s: %" PRId64 " clusters run at a time, must be %" PRId64 "%s",
                            name, has, needs, needs > 1 ? ", which wait for one another" : "");
        return snprintf(text, size, "%s: %s is %" PRId64 ", must be at least %" PRId64
                        ", a CTA for each tile", name, field, has, needs);
    case PTXMM_REASON_IMAGE:
        return snprintf(text, size, "%s: its image is missing or damaged", name);
    case PTXMM_REASON_ACCUMULATE:
        return snprintf(text, size, "%s: %s is %s, must be %s", name, field,
                        problem_accumulate_name((enum ptxmm_accumulate)has),
                        problem_accumulate_name((enum ptxmm_accumulate)needs));
    case PTXMM_REASON_WORKSPACE:
        return snprintf(text, size, "%s: %s is %" PRId64 ", must be at least %" PRId64, name, field, has,
                        needs);
    case PTXMM_REASON_LAUNCH:
        if (!strcmp(field, "prefer.stages"))
            return snprintf(text, size, "%s: %s is %" PRId64 ", must be %s%" PRId64, name, field, has,
                            candidate->kernel->algorithm == PTXMM_SPLIT ? "at most " : "", needs);
        if (launch_is_open(candidate->kernel) && has < needs) // 3 is no power of two
            return snprintf(text, size, "%s: %s is %" PRId64 ", must be 1, 2, 4 or 8", name, field, has);
        return snprintf(text, size, "%s: %s is %" PRId64 ", must be %s%" PRId64, name, field, has,
                        launch_is_open(candidate->kernel) && needs > 1 ? "at most " : "", needs);
    case PTXMM_REASON_EPILOGUE:
    case PTXMM_REASON_DETERMINISM: break;
    }
    return snprintf(text, size, "%s: %s is %" PRId64 ", must be %" PRId64 " (%s)", name, field, has,
                    needs, ptxmm_reason_text(candidate->reason));
}

/* ---- judging ------------------------------------------------------------------------------- */

static int reject(struct ptxmm_candidate *candidate, enum ptxmm_reason reason, const char *field,
                  int64_t has, int64_t needs)
{
    candidate->reason = reason;
    candidate->field = field;
    candidate->has = has;
    candidate->needs = needs;
    return 1;
}

/* Each of these returns whether it rejected. The order is that in which a person would look: the
 * device, what is computed, in which types and layouts, and last the numbers. */

static int reject_device(struct ptxmm_candidate *candidate, const struct ptxmm_device *device)
{
    const struct ptxmm_kernel_info *kernel = candidate->kernel;
    if (!kernels_target_runs_on(kernel->target, device->arch))
        return reject(candidate, PTXMM_REASON_ARCHITECTURE, "arch", device->arch,
                      kernels_target_arch(kernel->target));
    if ((int64_t)kernel->shared_bytes > device->shared_bytes)
        return reject(candidate, PTXMM_REASON_SHARED_MEMORY, "shared_bytes", device->shared_bytes,
                      kernel->shared_bytes);
    if ((int64_t)kernel->cluster > device->sm_count)
        return reject(candidate, PTXMM_REASON_CLUSTER, "sm_count", device->sm_count,
                      kernel->cluster);
    return 0;
}

static int reject_preferences(struct ptxmm_candidate *candidate,
                              const struct ptxmm_preferences *prefer)
{
    const struct ptxmm_kernel_info *kernel = candidate->kernel;
    if (prefer->kernel && strcmp(prefer->kernel, kernel->name))
        return reject(candidate, PTXMM_REASON_NOT_ASKED, "prefer.kernel",
                      (int64_t)kernels_index(ptxmm_kernel_by_name(prefer->kernel)),
                      (int64_t)kernels_index(kernel));
    if (prefer->deterministic && !kernel->deterministic)
        return reject(candidate, PTXMM_REASON_DETERMINISM, "prefer.deterministic", 1, 0);
    if (prefer->batch_invariant && !kernel->batch_invariant)
        return reject(candidate, PTXMM_REASON_DETERMINISM, "prefer.batch_invariant", 1, 0);
    return 0;
}

static int reject_kind(struct ptxmm_candidate *candidate, const struct ptxmm_problem *problem)
{
    if (problem->kind != PTXMM_DENSE && problem->kind != PTXMM_BATCH_STRIDED)
        return reject(candidate, PTXMM_REASON_KIND, "kind", problem->kind, PTXMM_DENSE);
    return 0;
}

/* Is `type` what a kernel wants, which may be one type or a class of them? */
static int is_type(enum ptxmm_type type, enum ptxmm_type wanted)
{
    return type == wanted ||
           (wanted == PTXMM_BF16_OR_F16 && (type == PTXMM_BF16 || type == PTXMM_F16));
}

static int reject_types(struct ptxmm_candidate *candidate, const struct ptxmm_problem *problem)
{
    const struct ptxmm_kernel_info *kernel = candidate->kernel;
    const struct {
        const char *field;
        enum ptxmm_type has, needs;
    } types[] = {
        { "a.type", problem->a.type, kernel->a },
        { "b.type", problem->b.type, kernel->b },
        { "d.type", problem->d.type, kernel->d },
        { "c.type", problem->c.type,
          problem->c.type == PTXMM_TYPE_NONE ? PTXMM_TYPE_NONE : problem->d.type },
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!is_type(types[i].has, types[i].needs))
            return reject(candidate, PTXMM_REASON_TYPE, types[i].field, types[i].has,
                          types[i].needs);
    return 0;
}

/* Fast accumulation is allowed, never demanded. */
static int reject_accumulate(struct ptxmm_candidate *candidate, const struct ptxmm_problem *problem)
{
    if (kernels_is_fast(candidate->kernel) && problem->accumulate != PTXMM_ACCUMULATE_FAST)
        return reject(candidate, PTXMM_REASON_ACCUMULATE, "accumulate", problem->accumulate,
                      PTXMM_ACCUMULATE_FAST);
    return 0;
}

static int reject_layouts(struct ptxmm_candidate *candidate, const struct ptxmm_problem *problem)
{
    const struct {
        const char *layout_field, *scale_field;
        const struct ptxmm_operand *operand;
    } operands[] = {
        { "a.layout", "a.scale", &problem->a },
        { "b.layout", "b.scale", &problem->b },
        { "c.layout", "c.scale", &problem->c },
        { "d.layout", "d.scale", &problem->d },
    };
    for (size_t i = 0; i < sizeof operands / sizeof operands[0]; i++)
        if (operands[i].operand->layout != PTXMM_K_MAJOR) // which is PTXMM_ROW_MAJOR too
            return reject(candidate, PTXMM_REASON_LAYOUT, operands[i].layout_field,
                          operands[i].operand->layout, PTXMM_K_MAJOR);
    for (size_t i = 0; i < sizeof operands / sizeof operands[0]; i++)
        if (operands[i].operand->scale != PTXMM_SCALE_NONE)
            return reject(candidate, PTXMM_REASON_SCALE, operands[i].scale_field,
                          operands[i].operand->scale, PTXMM_SCALE_NONE);
    return 0;
}

static int reject_epilogue(struct ptxmm_candidate *candidate, const struct ptxmm_epilogue *epilogue)
{
    const struct {
        const char *field;
        int64_t has;
    } members[] = {
        { "epilogue.bias", epilogue->bias },
        { "epilogue.activation", epilogue->activation },
        { "epilogue.gated", epilogue->gated },
        { "epilogue.row_scale", epilogue->row_scale },
        { "epilogue.column_scale", epilogue->column_scale },
        { "epilogue.aux.type", epilogue->aux.type },
        { "epilogue.amax", epilogue->amax },
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (members[i].has)
            return reject(candidate, PTXMM_REASON_EPILOGUE, members[i].field, members[i].has, 0);
    return 0;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static int reject_sizes(struct ptxmm_candidate *candidate, const struct ptxmm_problem *problem)
{
    const struct ptxmm_kernel_info *kernel = candidate->kernel;
    const struct {
        const char *field;
        int64_t has;
    } sizes[] = {
        { "m", problem->m },
        { "n", problem->n },
        { "k", problem->k },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].has > most_size)
            return reject(candidate, PTXMM_REASON_SIZE, sizes[i].field, sizes[i].has, most_size);
    // The number of tiles is counted in 32 bits too, and with launch control each has CTAs of its own in
    // the grid.
    int64_t most_tiles = most_size;
    if (kernel->schedule == PTXMM_SCHEDULE_LAUNCH_CONTROL)
        most_tiles /= kernel->cluster;
    if (kernel->algorithm == PTXMM_MULTICAST)
        most_tiles /= 8; // they are rounded up to whole clusters
    int64_t tiles_m = ceil_div(problem->m, kernel->tile_m),
            tiles_n = ceil_div(problem->n, kernel->tile_n);
    if (tiles_m > 0 && tiles_n > most_tiles / tiles_m)
        return reject(candidate, PTXMM_REASON_SIZE, "n", problem->n,
                      most_tiles / tiles_m * kernel->tile_n);
    int64_t batch = problem_batch(problem), tiles = tiles_m * tiles_n;
    if (tiles > 0 && batch > most_tiles / tiles)
        return reject(candidate, PTXMM_REASON_SIZE, "batch", batch, most_tiles / tiles);

    const struct {
        const char *pitch, *apart;
        char which;
    } operands[] = { { "a.ld", "a.batch_stride", 'a' },
                     { "b.ld", "b.batch_stride", 'b' },
                     { "c.ld", "c.batch_stride", 'c' },
                     { "d.ld", "d.batch_stride", 'd' } };
    for (size_t i = 0; i < sizeof operands / sizeof operands[0]; i++) {
        struct extent extent = problem_extent(problem, operands[i].which);
        // Where there is one row, the distance to the next is never used, nor where rows are empty;
        // the same with matrices, whose distance is 0 if there is one. (An absent C has no type.)
        if (extent.inner == 0 || extent.type_bits == 0)
            continue;
        int64_t pitch = extent.outer > 1 ? extent.ld * extent.type_bits / 8 : 0;
        int64_t apart = extent.outer > 0 ? extent.apart * extent.type_bits / 8 : 0;
        if (pitch % ALIGNMENT)
            return reject(candidate, PTXMM_REASON_ALIGNMENT, operands[i].pitch, pitch, ALIGNMENT);
        if (pitch > most_pitch)
            return reject(candidate, PTXMM_REASON_SIZE, operands[i].pitch, pitch, most_pitch);
        if (apart % ALIGNMENT)
            return reject(candidate, PTXMM_REASON_ALIGNMENT, operands[i].apart, apart, ALIGNMENT);
        if (apart > most_pitch)
            return reject(candidate, PTXMM_REASON_SIZE, operands[i].apart, apart, most_pitch);
    }
    return 0;
}

/* A CTA of a multicast kernel has one tile, and no tile waits for an SM that the budget allows. */
static void reject_budget(struct ptxmm_candidate *candidate, const struct ptxmm_device *device,
                          int64_t budget)
{
    int64_t ctas = candidate->ctas;
    if (candidate->reason != PTXMM_REASON_NONE ||
        candidate->kernel->algorithm != PTXMM_MULTICAST || budget == 0 ||
        budget >= device->sm_count || ctas <= budget)
        return;
    *candidate = (struct ptxmm_candidate){ .kernel = candidate->kernel };
    reject(candidate, PTXMM_REASON_CLUSTER, "prefer.sm_budget", budget, ctas);
}

static void judge(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                  struct ptxmm_candidate *candidate)
{
    if (!reject_device(candidate, device) && !reject_preferences(candidate, &problem->prefer) &&
        !reject_kind(candidate, problem) && !reject_types(candidate, problem) &&
        !reject_accumulate(candidate, problem) && !reject_layouts(candidate, problem) &&
        !reject_epilogue(candidate, &problem->epilogue) && !reject_sizes(candidate, problem)) {
        launch_choose(timing_of(candidate->kernel), device, problem, candidate);
        reject_budget(candidate, device, problem->prefer.sm_budget);
    }
}

static int is_before(const struct ptxmm_candidate *a, const struct ptxmm_candidate *b)
{
    if ((a->reason == PTXMM_REASON_NONE) != (b->reason == PTXMM_REASON_NONE))
        return a->reason == PTXMM_REASON_NONE;
    return a->reason == PTXMM_REASON_NONE && a->seconds < b->seconds;
}

void select_judge(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                  const struct select_except *except,
                  struct ptxmm_candidate candidates[KERNEL_COUNT])
{
    for (size_t i = 0; i < KERNEL_COUNT; i++) {
        struct ptxmm_candidate candidate = { .kernel = ptxmm_kernel(i) };
        judge(device, problem, &candidate);
        if (except && except[i].reason && candidate.reason == PTXMM_REASON_NONE)
            candidate = (struct ptxmm_candidate){ .kernel = ptxmm_kernel(i),
                                                  .reason = except[i].reason,
                                                  .field = except[i].field,
                                                  .has = except[i].has,
                                                  .needs = except[i].needs };
        size_t at = i; // insertion keeps the pack's order among equals
        for (; at > 0 && is_before(&candidate, &candidates[at - 1]); at--)
            candidates[at] = candidates[at - 1];
        candidates[at] = candidate;
    }
}

enum ptxmm_status ptxmm_select(const struct ptxmm_device *device,
                               const struct ptxmm_problem *problem,
                               struct ptxmm_candidate *candidates, size_t capacity, size_t *count,
                               struct ptxmm_error *error)
{
    if (!count)
        return error_set(error, PTXMM_ERROR_ARGUMENT,
                         "count is NULL, must point to where the number of kernels goes");
    *count = 0;
    if (!candidates && capacity)
        return error_set(error, PTXMM_ERROR_ARGUMENT,
                         "candidates is NULL, must hold %zu candidates", capacity);
    enum ptxmm_status status = device_check(device, error);
    if (!status)
        status = ptxmm_problem_check(problem, error);
    if (status)
        return status;
    struct ptxmm_candidate all[KERNEL_COUNT];
    select_judge(device, problem, NULL, all);
    for (size_t i = 0; i < KERNEL_COUNT && i < capacity; i++)
        candidates[i] = all[i];
    *count = KERNEL_COUNT;
    return error_none(error);
}

/* "sm_90a sm_100a": every target of the pack once. */
static void list_targets(char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < KERNEL_COUNT; i++) {
        const char *target = ptxmm_kernel(i)->target;
        int is_new = 1;
        for (size_t j = 0; j < i; j++)
            is_new = is_new && strcmp(target, ptxmm_kernel(j)->target);
        size_t length = strlen(text);
        if (is_new)
            snprintf(text + length, size - length, "%s%s", length ? " " : "",
                     target + strlen("sm_"));
    }
}

/* How far a kernel came before it was rejected: the order of judge(). */
static int progress(const struct ptxmm_candidate *candidate)
{
    static const enum ptxmm_reason order[] = {
        PTXMM_REASON_ARCHITECTURE, PTXMM_REASON_SHARED_MEMORY, PTXMM_REASON_CLUSTER,
        PTXMM_REASON_NOT_ASKED,    PTXMM_REASON_DETERMINISM,   PTXMM_REASON_KIND,
        PTXMM_REASON_TYPE,         PTXMM_REASON_ACCUMULATE,    PTXMM_REASON_LAYOUT,
        PTXMM_REASON_SCALE,        PTXMM_REASON_EPILOGUE,      PTXMM_REASON_SIZE,
        PTXMM_REASON_ALIGNMENT,    PTXMM_REASON_LAUNCH,        PTXMM_REASON_WORKSPACE,
        PTXMM_REASON_DRIVER,       PTXMM_REASON_IMAGE,
    };
    const int stages = sizeof order / sizeof order[0];
    // That a cluster does not fit at all shows at once, that some of many do not comes last.
    if (candidate->reason == PTXMM_REASON_CLUSTER && strcmp(candidate->field, "sm_count"))
        return stages;
    int stage = 0;
    while (stage < stages && order[stage] != candidate->reason)
        stage++;
    return stage;
}

enum ptxmm_status select_none_usable(const struct ptxmm_device *device,
                                     const struct ptxmm_candidate candidates[KERNEL_COUNT],
                                     struct ptxmm_error *error)
{
    size_t foreign = 0;
    for (size_t i = 0; i < KERNEL_COUNT; i++)
        foreign += candidates[i].reason == PTXMM_REASON_ARCHITECTURE;
    if (foreign == KERNEL_COUNT) {
        char targets[128];
        list_targets(targets, sizeof targets);
        return error_set(error, PTXMM_ERROR_NO_KERNEL,
                         "no kernel for this architecture: the device's arch is %d, have %s",
                         device->arch, targets);
    }
    // Not all fit: those that came furthest first, for they say what would have to be otherwise.
    const struct ptxmm_candidate *order[KERNEL_COUNT];
    for (size_t i = 0; i < KERNEL_COUNT; i++) {
        size_t at = i;
        for (; at > 0 && progress(order[at - 1]) < progress(&candidates[i]); at--)
            order[at] = order[at - 1];
        order[at] = &candidates[i];
    }
    char text[sizeof((struct ptxmm_error *)NULL)->text];
    size_t length = 0, left = KERNEL_COUNT;
    text[0] = '\0';
    for (size_t i = 0; i < KERNEL_COUNT; i++, left--) {
        char line[256];
        ptxmm_candidate_describe(order[i], line, sizeof line);
        // Room is kept for the words that say how many did not fit.
        if (length + strlen(line) + sizeof "no kernel can run this problem: ; and 1000 more" >
            sizeof text)
            break;
        length +=
            (size_t)snprintf(text + length, sizeof text - length, "%s%s", i ? "; " : "", line);
    }
    if (left)
        snprintf(text + length, sizeof text - length, "; and %zu more", left);
    return error_set(error, PTXMM_ERROR_NO_KERNEL, "no kernel can run this problem: %s", text);
}
