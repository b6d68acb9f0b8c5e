/* results.c -- what --json wrote, read again. */
#include <stdio.h>

#include "bench.h"
#include "cli/json_file.h"

json_t *bench_results(const char *path)
{
    char why[700];
    json_t *root = json_file_read(path, why, sizeof why);
    if (!root) {
        fprintf(stderr, "ptxmm-bench: %s\n", why);
        return NULL;
    }
    if (json_integer_value(json_object_get(root, "schema")) == 1 && json_is_array(json_object_get(root, "results")) &&
        json_is_string(json_object_get(root, "device")))
        return root;
    fprintf(stderr, "ptxmm-bench: %s: \"schema\" must be 1, with a \"device\" and an array \"results\": what ptxmm-bench "
                    "--json writes\n", path);
    json_decref(root);
    return NULL;
}
