/* report.c -- the tables of docs/results.md, from the JSON of a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* "| 170.85 +- 0.29 % | 804.4 | 1.018 | 1.010 | 1980 MHz |", or dashes when the protocol was not run; with `floors`, "| 32.50 | 0.940 |"
 * before the clock. */
static void print_timing(const json_t *result, const char *protocol, bool floors)
{
    const json_t *timing = json_object_get(result, protocol), *ours = json_object_get(timing, "ours");
    if (!ours) {
        printf(" - | - | - | - |%s - |", floors ? " - | - |" : "");
        return;
    }
    const double median = number_at(ours, "median_us");
    const double spread = 50 * (number_at(ours, "high_quartile_us") - number_at(ours, "low_quartile_us")) / median;
    printf(" %.2f +- %.1f %% | %.1f |", median, spread, number_at(ours, "tflops"));
    if (json_object_get(timing, "speed_to_first"))
        printf(" %.3f | %.3f |", number_at(timing, "speed_to_first"), number_at(timing, "speed_to_best"));
    else
        printf(" - | - |");
    const json_t *floor = json_object_get(timing, "floor");
    if (floor)
        printf(" %.2f | %.3f |", number_at(floor, "median_us"), number_at(timing, "of_floor"));
    else if (floors)
        printf(" - | - |");
    const json_t *mhz = json_object_get(json_object_get(timing, "state"), "sm_mhz");
    if (mhz)
        printf(" %lld |", (long long)json_integer_value(mhz));
    else
        printf(" - |");
}

static const char *bits(const json_t *result, char *text, size_t size)
{
    const json_t *unlike = json_object_get(json_object_get(result, "check"), "elements_unlike_cublaslt");
    if (!unlike) return "-";
    if (!json_integer_value(unlike)) return "equal";
    snprintf(text, size, "%lld differ", (long long)json_integer_value(unlike));
    return text;
}

static void print_protocol(const json_t *results, const char *protocol)
{
    size_t index;
    const json_t *result;
    bool any = false, floors = false;
    json_array_foreach(results, index, result) {
        const json_t *timing = json_object_get(result, protocol);
        any = any || timing;
        floors = floors || json_object_get(timing, "floor");
    }
    if (!any) return;
    printf("\n%s:\n\n", protocol);
    printf("| shape | types | kernel | bits | us | TFLOP/s | x first | x best of 8 |%s SM MHz |\n", floors ? " floor us | of floor |" : "");
    printf("|---|---|---|---|---|---|---|---|%s---|\n", floors ? "---|---|" : "");
    json_array_foreach(results, index, result) {
        char text[40];
        if (!json_object_get(result, protocol)) continue;
        char types[80];
        if (json_object_get(result, "b_type"))
            snprintf(types, sizeof types, "%s x %s -> %s", text_at(result, "type"), text_at(result, "b_type"),
                     text_at(result, "out_type"));
        else
            snprintf(types, sizeof types, "%s -> %s", text_at(result, "type"), text_at(result, "out_type"));
        printf("| %s | %s | %s | %s |", text_at(result, "shape"), types, text_at(result, "kernel"),
               bits(result, text, sizeof text));
        print_timing(result, protocol, floors);
        putchar('\n');
    }
}

int bench_markdown(const char *path)
{
    json_t *root = bench_results(path);
    if (!root) return -1;
    const json_t *results = json_object_get(root, "results"), *host = json_object_get(root, "host");
    printf("%s, %lld SMs, power limit %.0f W; driver %s, CUDA %.0f.%.0f; cuBLASLt %s; %.10s:\n\n    %s\n",
           text_at(root, "device"), (long long)number_at(root, "sms"), number_at(root, "power_limit_watts"),
           text_at(root, "driver"), (double)((int)number_at(root, "cuda_driver_version") / 1000),
           (double)((int)number_at(root, "cuda_driver_version") % 1000 / 10), text_at(root, "cublaslt_version"),
           text_at(root, "date"), text_at(root, "command"));
    for (int i = 0; i < PROTOCOLS; i++) print_protocol(results, protocol_names[i]);
    if (json_object_get(host, "beyond_us"))
        printf("\nHost time of one call: `cuLaunchKernelEx` %.2f us, `ptxmm_plan_run` %.2f us, %.2f us beyond the "
               "driver.\n",
               number_at(host, "launch_us"), number_at(host, "run_us"), number_at(host, "beyond_us"));
    json_decref(root);
    return 0;
}
