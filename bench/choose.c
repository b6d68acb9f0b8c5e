/* choose.c -- the fastest kernel and launch of each product, from what ptxmm-bench --json wrote, in the form that ptxmm run --choices
 * and other readers take (cli/choices.h). Nothing is run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cli/choices.h"
#include "cli/workload.h"
#include "loader/launch.h"

static int complain(const char *path, const char *what)
{
    fprintf(stderr, "ptxmm-bench: %s: %s\n", path, what);
    return -1;
}

static int complain_of(const char *path, size_t result, const char *why)
{
    fprintf(stderr, "ptxmm-bench: %s: results[%zu] makes no choice: %s\n", path, result, why);
    return -1;
}

/* The choices so far, and where in them each product is. */
struct chosen {
    json_t *list, *places;
};

/* What was timed, in the members that a choice has; the caller drops it. NULL: memory is exhausted. */
static json_t *entry_of(const json_t *result, const json_t *device, const json_t *us)
{
    static const char *const names[][2] = { { "m", "m" }, { "n", "n" }, { "k", "k" }, { "batch", "batch" },
                                            { "a", "type" }, { "b", "b_type" }, { "d", "out_type" },
                                            { "accumulate", "accumulate" }, { "kernel", "kernel" } };
    json_t *entry = json_object();
    int failed = !entry || json_object_set(entry, "device", (json_t *)device);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_incref(json_object_get(result, names[i][1]));
        if (!value && !strcmp(names[i][0], "b")) value = json_incref(json_object_get(result, "type"));
        if (!value && !strcmp(names[i][0], "accumulate")) failed = failed || !(value = json_string("default"));
        failed = failed || (value && json_object_set(entry, names[i][0], value));
        json_decref(value);
    }
    /* How it was launched, where another launch would be as possible. */
    static const char *const launch[] = { "cluster", "cluster_rows", "groups", "stages" };
    const char *name = json_string_value(json_object_get(result, "kernel"));
    const struct ptxmm_kernel_info *kernel = name ? ptxmm_kernel_by_name(name) : NULL;
    for (size_t i = 0; kernel && launch_is_open(kernel) && i < sizeof launch / sizeof *launch; i++) {
        json_t *value = json_object_get(result, launch[i]);
        failed = failed || (value && json_object_set(entry, launch[i], value));
    }
    if (!failed && (!us || !json_object_set(entry, "us", (json_t *)us))) return entry;
    json_decref(entry);
    return NULL;
}

/* Keeps the faster one of each product. */
static int offer(struct chosen *chosen, json_t *entry, const struct ptxmm_choice *choice)
{
    char product[256];
    snprintf(product, sizeof product, "%lld %lld %lld %lld %d %d %d %d %s", (long long)choice->m, (long long)choice->n,
             (long long)choice->k, (long long)choice->batch, choice->a, choice->b, choice->d, choice->accumulate,
             choice->device);
    const json_t *place = json_object_get(chosen->places, product);
    if (!place)
        return json_object_set_new(chosen->places, product, json_integer((json_int_t)json_array_size(chosen->list))) ||
               json_array_append(chosen->list, entry);
    const size_t at = (size_t)json_integer_value(place);
    const json_t *there = json_array_get(chosen->list, at);
    return json_number_value(json_object_get(entry, "us")) < json_number_value(json_object_get(there, "us")) &&
           json_array_set(chosen->list, at, entry);
}

/* One result that was timed. */
static int take(struct chosen *chosen, const char *path, size_t index, const json_t *result, const json_t *device)
{
    struct ptxmm_choice choice;
    char why[100];
    const json_t *us = json_object_get(json_object_get(json_object_get(result, "pair"), "ours"), "median_us");
    json_t *entry = entry_of(result, device, us);
    int failed = 0;
    if (!entry)
        failed = complain(path, "memory is exhausted");
    else if (!choice_read(entry, &choice, why, sizeof why))
        failed = complain_of(path, index, why);
    else if (!(json_number_value(us) > 0))
        failed = complain_of(path, index, "median_us must be more than 0");
    if (!failed) {
        /* What means the same is written the same way. */
        if (!type_is_fp8(choice.a) || !type_is_fp8(choice.b)) choice.accumulate = PTXMM_ACCUMULATE_DEFAULT;
        if (!choice.batch) choice.batch = 1;
        if (json_object_set_new(entry, "batch", json_integer((json_int_t)choice.batch)) ||
            json_object_set_new(entry, "accumulate", json_string(choice.accumulate ? "fast" : "default")) ||
            offer(chosen, entry, &choice))
            failed = complain(path, "memory is exhausted");
    }
    json_decref(entry);
    return failed;
}

static int read_file(const char *path, struct chosen *chosen)
{
    json_t *root = bench_results(path);
    if (!root) return -1;
    int failed = 0;
    const json_t *results = json_object_get(root, "results"), *result;
    size_t i;
    if (json_is_true(json_object_get(root, "emulator")))
        failed = complain(path, "the times are an emulator's, must be a GPU's");
    else
        json_array_foreach(results, i, result)
            if (!failed && json_object_get(json_object_get(result, "pair"), "ours"))
                failed = take(chosen, path, i, result, json_object_get(root, "device"));
    json_decref(root);
    return failed;
}

int bench_choose(const char *const *paths, size_t count)
{
    struct chosen chosen = { json_array(), json_object() };
    int failed = chosen.list && chosen.places ? 0 : complain(paths[0], "memory is exhausted");
    for (size_t i = 0; i < count && !failed; i++) failed = read_file(paths[i], &chosen);
    if (!failed && json_array_size(chosen.list) == 0)
        failed = complain(paths[0], "no result of the pair protocol is in it");
    json_t *root = failed ? NULL : json_pack("{s:i, s:O}", "schema", 1, "choices", chosen.list);
    if (!failed && !root) failed = complain(paths[0], "memory is exhausted");
    if (root && json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(8)))
        failed = ferror(stdout) ? -1 : complain(paths[0], "memory is exhausted"); /* main says what became of the output */
    else if (root)
        putchar('\n');
    json_decref(root);
    json_decref(chosen.list);
    json_decref(chosen.places);
    return failed;
}
