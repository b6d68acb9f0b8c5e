/* choices.c -- see choices.h. */
#include "choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_file.h"
#include "workload.h"

/* Where the words go that say what is wrong. */
struct words {
    char *text;
    size_t size;
};

static bool wrong(const struct words *w, const char *member, const char *what)
{
    snprintf(w->text, w->size, "%s must be %s", member, what);
    return false;
}

/* Of a device, and so of all: no longer than struct ptxmm_device has room for. */
static bool read_name(const struct words *w, const json_t *entry, const char *member,
                      const char **name)
{
    *name = json_string_value(json_object_get(entry, member));
    return (*name && **name && strlen(*name) < sizeof ((struct ptxmm_device *)NULL)->name) ||
           wrong(w, member, "a name of 1 to 63 characters");
}

/* `missing`: what a member that is not there is worth; -1: it must be there. */
static bool read_size(const struct words *w, const json_t *entry, const char *member,
                      int64_t missing, int least, int64_t *value)
{
    const json_t *number = json_object_get(entry, member);
    *value = number ? json_integer_value(number) : missing;
    return ((!number || json_is_integer(number)) && *value >= least) ||
           wrong(w, member, least ? "a whole number of at least 1" : "a whole number of at least 0");
}

static bool read_type(const struct words *w, const json_t *entry, const char *member,
                      enum ptxmm_type *type)
{
    const char *name = json_string_value(json_object_get(entry, member));
    return (name && type_parse(name, type)) || wrong(w, member, "bf16, f16, f32, e4m3 or e5m2");
}

/* How the kernel is launched: what ptxmm_open would take. */
static bool read_launch(const struct words *w, const json_t *entry, struct ptxmm_choice *c)
{
    int64_t cluster, rows, groups, stages;
    if (!read_size(w, entry, "cluster", 0, 0, &cluster) ||
        !read_size(w, entry, "cluster_rows", 0, 0, &rows) ||
        !read_size(w, entry, "groups", 0, 0, &groups) ||
        !read_size(w, entry, "stages", 0, 0, &stages))
        return false;
    if (cluster > 8 || (cluster > 4 && cluster < 8))
        return wrong(w, "cluster", "0, 1, 2, 3, 4 or 8");
    if (rows > 8 || (rows & (rows - 1)) || (rows && cluster % rows))
        return wrong(w, "cluster_rows", "0, 1, 2, 4 or 8, and divide the cluster");
    if (groups > 64)
        return wrong(w, "groups", "from 0 to 64");
    if (stages > 64 || (stages && stages < PTXMM_LEAST_STAGES))
        return wrong(w, "stages", "0 or from 4 to 64");
    c->cluster = (int)cluster;
    c->cluster_rows = (int)rows;
    c->groups = (int)groups;
    c->stages = (int)stages;
    return true;
}

bool choice_read(const json_t *entry, struct ptxmm_choice *c, char *error, size_t size)
{
    const struct words words = { error, size }, *const w = &words;
    const json_t *accumulate = json_object_get(entry, "accumulate");
    const char *how = accumulate ? json_string_value(accumulate) : "default";
    if (!how || (strcmp(how, "default") && strcmp(how, "fast")))
        return wrong(w, "accumulate", "default or fast");
    c->accumulate = strcmp(how, "fast") ? PTXMM_ACCUMULATE_DEFAULT : PTXMM_ACCUMULATE_FAST;
    return read_name(w, entry, "device", &c->device) && read_name(w, entry, "kernel", &c->kernel) &&
           read_size(w, entry, "m", -1, 1, &c->m) && read_size(w, entry, "n", -1, 1, &c->n) &&
           read_size(w, entry, "k", -1, 0, &c->k) && read_size(w, entry, "batch", 1, 0, &c->batch) &&
           read_type(w, entry, "a", &c->a) && read_type(w, entry, "b", &c->b) &&
           read_type(w, entry, "d", &c->d) && read_launch(w, entry, c);
}

static bool read_all(const char *file, struct choice_list *choices, char *error, size_t size)
{
    choices->root = json_file_read(file, error, size);
    if (!choices->root)
        return false;
    const json_t *list = json_object_get(choices->root, "choices");
    if (json_integer_value(json_object_get(choices->root, "schema")) != 1 || !json_is_array(list)) {
        snprintf(error, size, "%s: \"schema\" must be 1, with an array \"choices\": what ptxmm-bench "
                              "--choose writes", file);
        return false;
    }
    const size_t count = json_array_size(list);
    choices->list = calloc(count ? count : 1, sizeof *choices->list);
    if (!choices->list) {
        snprintf(error, size, "%s: memory is exhausted", file);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        char why[100];
        if (!choice_read(json_array_get(list, i), &choices->list[i], why, sizeof why)) {
            snprintf(error, size, "%s: choices[%zu].%s", file, i, why);
            return false;
        }
    }
    choices->count = count;
    return true;
}

bool choices_read(const char *file, struct choice_list *choices, char *error, size_t size)
{
    *choices = (struct choice_list){ NULL, 0, NULL };
    if (read_all(file, choices, error, size))
        return true;
    choices_drop(choices);
    return false;
}

void choices_drop(struct choice_list *choices)
{
    free(choices->list);
    json_decref(choices->root);
    *choices = (struct choice_list){ NULL, 0, NULL };
}
