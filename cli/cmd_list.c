/* cmd_list.c -- `ptxmm devices` and `ptxmm kernels`. */
#include <stdio.h>
#include <stdlib.h>

#include "manifest.h"
#include "report.h"
#include "session.h"
#include "table.h"

/* How many kernels of the pack the device can run. */
static size_t kernels_for(const struct ptxmm_device *device)
{
    size_t count = 0;
    for (size_t i = 0; i < ptxmm_kernel_count(); i++)
        count += device_runs(device, ptxmm_kernel(i));
    return count;
}

int command_devices(const struct options *o)
{
    struct session s;
    const int code = session_open(&s, o, false);
    if (code)
        return code;
    struct ptxmm_error error;
    int count;
    if (ptxmm_device_count(s.mm, &count, &error)) {
        complain(o, "%s", error.text);
        session_close(&s);
        return EXIT_NO_DEVICE;
    }
    const int version = ptxmm_driver_version(s.mm);
    json_t *list = json_array();
    struct table t = { .align = "rllrrrrr" };
    table_add(&t, "device");
    table_add(&t, "name");
    table_add(&t, "arch");
    table_add(&t, "SMs");
    table_add(&t, "MHz");
    table_add(&t, "L2 MB");
    table_add(&t, "GB/s");
    table_add(&t, "kernels");
    for (int i = 0; i < count; i++) {
        struct ptxmm_device d;
        if (ptxmm_device_query(s.mm, i, &d, &error)) {
            complain(o, "device %d: %s", i, error.text);
            continue;
        }
        json_t *entry = report_device(&d);
        json_object_set_new(entry, "ordinal", json_integer(i));
        json_object_set_new(entry, "kernels", json_integer((json_int_t)kernels_for(&d)));
        json_array_append_new(list, entry);
        table_add(&t, "%d", i);
        table_add(&t, "%s", d.name);
        table_add(&t, "sm_%d", d.arch);
        table_add(&t, "%d", d.sm_count);
        table_add(&t, "%d", d.clock_khz / 1000);
        table_add(&t, "%.0f", (double)d.l2_bytes / 1048576);
        table_add(&t, "%.0f", (double)d.memory_bytes_per_second * 1e-9);
        table_add(&t, "%zu", kernels_for(&d));
    }
    if (o->json) {
        json_print(json_pack("{s:s, s:i, s:o}", "driver", ptxmm_driver_path(s.mm), "driver_version",
                             version, "devices", list));
        list = NULL;
        table_drop(&t);
    } else {
        printf("driver %s, for CUDA %d.%d\n", ptxmm_driver_path(s.mm), version / 1000,
               version % 1000 / 10);
        table_print(&t, 0);
    }
    json_decref(list);
    session_close(&s);
    return count ? EXIT_RIGHT : EXIT_NO_DEVICE;
}

int command_kernels(const struct options *o)
{
    json_t *list = json_array();
    struct table t = { .align = "lllllrrrrr" };
    static const char *const headings[] = { "kernel", "target", "algorithm", "A x B",  "D",
                                            "tile",   "stages", "threads",   "shared", "cubin" };
    for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
        table_add(&t, "%s", headings[i]);

    size_t total = 0, listed = 0;
    for (size_t i = 0; i < ptxmm_kernel_count(); i++) {
        const struct ptxmm_kernel_info *k = ptxmm_kernel(i);
        if (o->arch && !manifest_is_for(k, o->arch))
            continue;
        struct ptxmm_image image;
        struct ptxmm_error error;
        const bool present = !ptxmm_kernel_image(i, &image, &error);
        listed++;
        total += present ? image.size : 0;

        json_t *entry = report_kernel(k);
        json_object_set_new(entry, "cubin_bytes",
                            present ? json_integer((json_int_t)image.size) : json_null());
        json_object_set_new(entry, "cubin_sha256",
                            present ? json_string(image.sha256) : json_null());
        json_array_append_new(list, entry);
        table_add(&t, "%s", k->name);
        table_add(&t, "%s", k->target);
        table_add(&t, "%s", algorithm_name(k->algorithm));
        table_add(&t, "%s x %s", type_name(k->a), type_name(k->b));
        table_add(&t, "%s", type_name(k->d));
        table_add(&t, "%ux%ux%u", k->tile_m, k->tile_n, k->tile_k);
        table_add(&t, "%u", k->stages);
        table_add(&t, "%u", k->threads);
        table_add(&t, "%u", k->shared_bytes);
        if (present)
            table_add(&t, "%zu", image.size);
        else
            table_add(&t, "missing");
    }
    if (o->json) {
        json_print(json_pack("{s:o, s:I}", "kernels", list, "cubin_bytes", (json_int_t)total));
        table_drop(&t);
        return EXIT_RIGHT;
    }
    json_decref(list);
    table_print(&t, 0);
    printf("%zu kernel%s, %.1f KB of cubins\n", listed, listed == 1 ? "" : "s",
           (double)total / 1024);
    return EXIT_RIGHT;
}
