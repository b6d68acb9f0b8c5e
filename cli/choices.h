/* choices.h -- files of measured choices, which ptxmm-bench --choose writes:
 *
 *     { "schema": 1, "choices": [
 *       { "device": "NVIDIA H200", "m": 64, "n": 2112, "k": 7168, "batch": 1, "a": "bf16", "b": "bf16", "d": "bf16",
 *         "accumulate": "default", "kernel": "sm90_gemm_bf16_64x64_split", "cluster": 4, "cluster_rows": 1, "groups": 1,
 *         "us": 16.3 }, ... ] }
 *
 * "cluster", "cluster_rows" and "groups" are how a split or multicast kernel is launched; each may be missing, or 0, which is
 * as predicted. "batch" and "accumulate" may be missing too; "us" and members of other names are not read. */
#ifndef CHOICES_H
#define CHOICES_H

#include <jansson.h>
#include <stdbool.h>

#include "ptxmm.h"

struct choice_list {
    struct ptxmm_choice *list;
    size_t count;
    json_t *root; /* owns the strings */
};

/* False: `error` has one line that names the file and what in it is wrong, and the list is empty. */
bool choices_read(const char *file, struct choice_list *choices, char *error, size_t size);
/* One entry of the array, which owns the strings of *choice. False: `error` says which member is wrong, as
 * "m must be a whole number of at least 1". */
bool choice_read(const json_t *entry, struct ptxmm_choice *choice, char *error, size_t size);
void choices_drop(struct choice_list *choices);

#endif
