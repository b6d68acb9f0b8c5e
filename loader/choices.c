/* choices.c -- see choices.h. Sorted once, so that a plan costs a search in halves. */
#include "choices.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kernels.h"
#include "launch.h"
#include "problem.h"

struct choice {
    char device[sizeof ((struct ptxmm_device *)NULL)->name];
    int64_t key[8]; /* m, n, k, batch, types of a, b and d, accumulate */
    size_t place;   /* in the caller's list: of two for the same product the later one counts */
    const struct ptxmm_kernel_info *kernel;
    int cluster, cluster_rows, groups, stages; /* 0: as promises most */
};

/* Of 16-bit types there is one accumulation. */
static int64_t accumulation(enum ptxmm_type a, enum ptxmm_type b, enum ptxmm_accumulate accumulate)
{
    return problem_type_bits(a) <= 8 && problem_type_bits(b) <= 8 ? accumulate
                                                                  : PTXMM_ACCUMULATE_DEFAULT;
}

static int compare(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    int order = strcmp(x->device, y->device);
    for (size_t i = 0; !order && i < sizeof x->key / sizeof x->key[0]; i++)
        order = (x->key[i] > y->key[i]) - (x->key[i] < y->key[i]);
    return order;
}

static int compare_all(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    int order = compare(x, y);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

#define REFUSE(index, member, format, ...)                                                      \
    return error_set(error, PTXMM_ERROR_ARGUMENT, "options.choices[%zu]." member " is " format, \
                     index, __VA_ARGS__)

static enum ptxmm_status check(const struct ptxmm_choice *c, size_t index,
                               struct ptxmm_error *error)
{
    struct choice taken;
    if (!c->device || !c->device[0])
        REFUSE(index, "device", "%s, must be a device's name", c->device ? "empty" : "NULL");
    if (strlen(c->device) >= sizeof taken.device)
        REFUSE(index, "device", "%zu characters long, must be at most %zu", strlen(c->device),
               sizeof taken.device - 1);
    if (!c->kernel || !c->kernel[0])
        REFUSE(index, "kernel", "%s, must be a kernel's name", c->kernel ? "empty" : "NULL");
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = { { "m", c->m, 1 }, { "n", c->n, 1 }, { "k", c->k, 0 }, { "batch", c->batch, 0 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value < sizes[i].least)
            return error_set(error, PTXMM_ERROR_ARGUMENT,
                             "options.choices[%zu].%s is %" PRId64 ", must be at least %" PRId64,
                             index, sizes[i].name, sizes[i].value, sizes[i].least);
    const struct {
        const char *name;
        enum ptxmm_type type;
    } types[] = { { "a", c->a }, { "b", c->b }, { "d", c->d } };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!problem_type_bits(types[i].type))
            return error_set(error, PTXMM_ERROR_ARGUMENT,
                             "options.choices[%zu].%s is %d, must be an element type", index,
                             types[i].name, (int)types[i].type);
    if (c->accumulate != PTXMM_ACCUMULATE_DEFAULT && c->accumulate != PTXMM_ACCUMULATE_FAST)
        REFUSE(index, "accumulate", "%d, must be %d or %d", (int)c->accumulate,
               PTXMM_ACCUMULATE_DEFAULT, PTXMM_ACCUMULATE_FAST);
    char where[64];
    snprintf(where, sizeof where, "options.choices[%zu]", index);
    enum ptxmm_status status =
        launch_check(where, c->cluster, c->cluster_rows, c->groups, c->stages, error);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof c->reserved / sizeof c->reserved[0]; i++)
        if (c->reserved[i])
            REFUSE(index, "reserved", "%s, must be 0", "not 0");
    return PTXMM_OK;
}

static void put_key(struct choice *choice, const char *device, int64_t m, int64_t n, int64_t k,
                    int64_t batch, enum ptxmm_type a, enum ptxmm_type b, enum ptxmm_type d,
                    enum ptxmm_accumulate accumulate)
{
    const int64_t key[] = { m, n, k, batch > 0 ? batch : 1, a, b, d, accumulation(a, b, accumulate) };
    memset(choice, 0, sizeof *choice);
    strncpy(choice->device, device, sizeof choice->device - 1);
    memcpy(choice->key, key, sizeof choice->key);
}

enum ptxmm_status choices_copy(const struct ptxmm_choice *given, size_t count,
                               struct choices *choices, size_t *skipped, struct ptxmm_error *error)
{
    *choices = (struct choices){ NULL, 0 };
    *skipped = 0;
    if (count == 0)
        return PTXMM_OK;
    if (!given)
        return error_set(error, PTXMM_ERROR_ARGUMENT,
                         "options.choices is NULL, must have options.choice_count entries, %zu",
                         count);
    for (size_t i = 0; i < count; i++) {
        enum ptxmm_status status = check(&given[i], i, error);
        if (status)
            return status;
    }
    struct choice *list = calloc(count, sizeof *list);
    if (!list)
        return error_set(error, PTXMM_ERROR_MEMORY, "no memory for %zu choices", count);
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ptxmm_choice *c = &given[i];
        const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(c->kernel);
        if (!kernel) {
            ++*skipped;
            continue;
        }
        put_key(&list[taken], c->device, c->m, c->n, c->k, c->batch, c->a, c->b, c->d,
                c->accumulate);
        list[taken].kernel = kernel;
        list[taken].cluster = c->cluster;
        list[taken].cluster_rows = c->cluster_rows;
        list[taken].groups = c->groups;
        list[taken].stages = c->stages;
        list[taken++].place = i;
    }
    qsort(list, taken, sizeof *list, compare_all);
    size_t kept = 0;
    for (size_t i = 0; i < taken; i++) {
        if (kept && !compare(&list[kept - 1], &list[i]))
            kept--;
        list[kept++] = list[i];
    }
    *choices = (struct choices){ list, kept };
    return PTXMM_OK;
}

void choices_free(struct choices *choices)
{
    free(choices->list);
    *choices = (struct choices){ NULL, 0 };
}

const struct ptxmm_kernel_info *choices_find(const struct choices *choices,
                                             const struct ptxmm_device *device,
                                             const struct ptxmm_problem *problem,
                                             struct ptxmm_preferences *prefer)
{
    if (!choices->count)
        return NULL;
    struct choice wanted;
    put_key(&wanted, device->name, problem->m, problem->n, problem->k, problem_batch(problem),
            problem->a.type, problem->b.type, problem->d.type, problem->accumulate);
    const struct choice *found =
        bsearch(&wanted, choices->list, choices->count, sizeof wanted, compare);
    if (!found)
        return NULL;
    if (!prefer->cluster && !prefer->cluster_rows && !prefer->groups && !prefer->stages) {
        prefer->cluster = found->cluster;
        prefer->cluster_rows = found->cluster_rows;
        prefer->groups = found->groups;
        prefer->stages = found->stages;
    }
    return found->kernel;
}
