/* results.c -- what --json wrote, read again. */
#include <stdio.h>

#include "bench.h"

json_t *bench_results(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root && error.line > 0)
        fprintf(stderr, "ptxmm-bench: %s: line %d: %s\n", path, error.line, error.text);
    else if (!root)
        fprintf(stderr, "ptxmm-bench: %s\n", error.text); /* it names the file */
    if (!root) return NULL;
    if (json_integer_value(json_object_get(root, "schema")) == 1 && json_is_array(json_object_get(root, "results")) &&
        json_is_string(json_object_get(root, "device")))
        return root;
    fprintf(stderr, "ptxmm-bench: %s: \"schema\" must be 1, with a \"device\" and an array \"results\": what ptxmm-bench "
                    "--json writes\n", path);
    json_decref(root);
    return NULL;
}
