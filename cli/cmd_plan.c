/* cmd_plan.c -- `ptxmm plan`: which kernel would run, and why; a pure function of its arguments. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "product.h"
#include "report.h"
#include "table.h"

/* CTAs of a cluster and groups that share a tile's K: "4", "4x3"; groups alone: "3"; "1" where K is not split. */
static const char *split_of(const struct ptxmm_candidate *c, char *text, size_t size)
{
    const int split = c->kernel->algorithm == PTXMM_SPLIT;
    if (split && c->groups > 1)
        snprintf(text, size, "%lldx%lld", (long long)c->cluster, (long long)c->groups);
    else
        snprintf(text, size, "%lld", (long long)(split ? c->cluster : c->groups));
    return text;
}

/* CTAs of a cluster; of one whose tiles share loads, "2x4" is its rows and columns of them. */
static const char *cluster_of(const struct ptxmm_candidate *c, char *text, size_t size)
{
    if (c->kernel->algorithm == PTXMM_MULTICAST && c->cluster > 1)
        snprintf(text, size, "%lldx%lld", (long long)c->cluster_rows,
                 (long long)(c->cluster / c->cluster_rows));
    else
        snprintf(text, size, "%lld", (long long)c->cluster);
    return text;
}

static void print_text(const struct options *o, const struct ptxmm_device *device,
                       const struct ptxmm_problem *p, const struct ptxmm_candidate *all,
                       size_t count)
{
    char words[512], time[32], roof[2][32];
    product_words(p, words, sizeof words);
    printf("%s\non %s: sm_%d, %d SMs at %d MHz, %.0f GB/s%s", words, device->name, device->arch,
           device->sm_count, device->clock_khz / 1000,
           (double)device->memory_bytes_per_second * 1e-9, o->sms ? "" : "\n");
    if (o->sms)
        printf("; at most %lld SMs are used\n", (long long)o->sms);

    size_t usable = 0;
    while (usable < count && all[usable].reason == PTXMM_REASON_NONE)
        usable++;
    const double flops = product_flops(p);
    if (usable) {
        printf("%.4g GFLOP; at peak %s of tensor cores, %s of memory: %s bound\n\n", flops * 1e-9,
               time_text(all->compute_seconds, roof[0], sizeof roof[0]),
               time_text(all->memory_seconds, roof[1], sizeof roof[1]), bound_name(all));
        struct table t = { .align = "lrrrrrrrrr" };
        static const char *const headings[] = { "kernel", "predicted", "TFLOP/s", "busy",
                                                "tiles",  "K over",    "cluster", "CTAs",
                                                "waves",  "stages" };
        for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
            table_add(&t, "%s", headings[i]);
        for (size_t i = 0; i < usable; i++) {
            const struct ptxmm_candidate *c = &all[i];
            table_add(&t, "%s", c->kernel->name);
            table_add(&t, "%s", time_text(c->seconds, time, sizeof time));
            table_add(&t, "%.1f", c->seconds > 0 ? flops / c->seconds * 1e-12 : 0);
            table_add(&t, "%.1f %%", 100 * c->tensor_busy);
            table_add(&t, "%lld", (long long)c->tiles);
            table_add(&t, "%s", split_of(c, words, sizeof words));
            table_add(&t, "%s", cluster_of(c, words, sizeof words));
            table_add(&t, "%lld", (long long)c->ctas);
            table_add(&t, "%.2f", c->waves);
            table_add(&t, "%lld", (long long)c->stages);
        }
        table_print(&t, 0);
    } else
        printf("no kernel of the pack can run this\n");
    if (usable < count)
        printf("\nrejected\n");
    for (size_t i = usable; i < count; i++) {
        ptxmm_candidate_describe(&all[i], words, sizeof words);
        printf("  %s\n", words);
    }
}

int command_plan(const struct options *given)
{
    struct options options = *given, *o = &options;
    struct ptxmm_device device;
    struct ptxmm_error error;
    struct ptxmm_problem problem;
    if (o->m < 0 || o->n < 0 || o->k < 0)
        return complain(o, "--%s is missing: --m, --n and --k must all be given",
                        o->m < 0   ? "m"
                        : o->n < 0 ? "n"
                                   : "k");
    if (product_leading(o))
        return EXIT_USAGE;
    product_problem(o, &problem);
    if (ptxmm_device_known(o->arch ? o->arch : "sm90", &device, &error))
        return complain(o, "%s", error.text);

    const size_t capacity = ptxmm_kernel_count();
    size_t count = 0;
    struct ptxmm_candidate *all = calloc(capacity + 1, sizeof *all);
    if (!all)
        return complain(o, "host memory is exhausted");
    if (ptxmm_select(&device, &problem, all, capacity, &count, &error)) {
        free(all);
        return complain(o, "%s", error.text);
    }
    const bool usable = count && all->reason == PTXMM_REASON_NONE;
    if (o->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(list, report_candidate(&all[i]));
        json_print(json_pack("{s:o, s:o, s:b, s:o}", "device", report_device(&device), "problem",
                             report_problem(&problem), "usable", usable, "candidates", list));
    } else
        print_text(o, &device, &problem, all, count);
    free(all);
    return usable ? EXIT_RIGHT : EXIT_WRONG;
}
