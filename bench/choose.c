/* choose.c -- the fastest kernel of each product, from what ptxmm-bench --json wrote, in the form that ptxmm run --choices
 * and other readers take (cli/choices.h). Nothing is run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static int complain(const char *path, const char *what)
{
    fprintf(stderr, "ptxmm-bench: %s: %s\n", path, what);
    return -1;
}

static const char *text_or(const json_t *object, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : otherwise;
}

/* What was timed, as a choice; NULL: it was not, or memory is exhausted. */
static json_t *choice_of(const json_t *result, const char *device)
{
    const json_t *ours = json_object_get(json_object_get(result, "pair"), "ours");
    const char *kernel = json_string_value(json_object_get(result, "kernel"));
    const char *type = text_or(result, "type", "?");
    if (!ours || !kernel) return NULL;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:f}", "device", device, "m",
                     json_integer_value(json_object_get(result, "m")), "n",
                     json_integer_value(json_object_get(result, "n")), "k",
                     json_integer_value(json_object_get(result, "k")), "batch",
                     json_integer_value(json_object_get(result, "batch")), "a", type, "b",
                     text_or(result, "b_type", type), "d", text_or(result, "out_type", "?"), "accumulate",
                     text_or(result, "accumulate", "default"), "kernel", kernel, "us",
                     json_number_value(json_object_get(ours, "median_us")));
}

/* Are two choices for the same product on the same device? */
static bool same_product(const json_t *x, const json_t *y)
{
    static const char *const key[] = { "device", "m", "n", "k", "batch", "a", "b", "d", "accumulate" };
    for (size_t i = 0; i < sizeof key / sizeof *key; i++)
        if (!json_equal(json_object_get(x, key[i]), json_object_get(y, key[i]))) return false;
    return true;
}

/* Keeps the faster one of each product. */
static int offer(json_t *choices, json_t *choice)
{
    size_t i;
    json_t *there;
    json_array_foreach(choices, i, there) {
        if (!same_product(there, choice)) continue;
        if (json_number_value(json_object_get(choice, "us")) < json_number_value(json_object_get(there, "us")))
            return json_array_set_new(choices, i, choice);
        json_decref(choice);
        return 0;
    }
    return json_array_append_new(choices, choice);
}

static int read_file(const char *path, json_t *choices)
{
    json_t *root = bench_results(path);
    if (!root) return -1;
    int failed = 0;
    const json_t *results = json_object_get(root, "results"), *result;
    const char *device = json_string_value(json_object_get(root, "device"));
    size_t i;
    if (json_is_true(json_object_get(root, "emulator")))
        failed = complain(path, "the times are an emulator's, must be a GPU's");
    else
        json_array_foreach(results, i, result) {
            json_t *choice = choice_of(result, device);
            if (choice && !failed && offer(choices, choice)) failed = complain(path, "memory is exhausted");
        }
    json_decref(root);
    return failed;
}

int bench_choose(const char *const *paths, size_t count)
{
    json_t *choices = json_array();
    int failed = choices ? 0 : complain(paths[0], "memory is exhausted");
    for (size_t i = 0; i < count && !failed; i++) failed = read_file(paths[i], choices);
    if (!failed && json_array_size(choices) == 0)
        failed = complain(paths[0], "no result of the pair protocol is in it");
    json_t *root = failed ? NULL : json_pack("{s:i, s:O}", "schema", 1, "choices", choices);
    if (root && (json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) || putchar('\n') == EOF || fflush(stdout)))
        failed = complain("standard output", "cannot be written");
    json_decref(root);
    json_decref(choices);
    return failed;
}
