/* cmd_verify.c -- `ptxmm verify`: every kernel of the device on shapes chosen to break it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "product.h"
#include "report.h"
#include "table.h"

/* One thing to try. Sizes in terms of the kernel's tile and K-slice are made of it by sizes(). */
struct trial {
    int64_t m, n, k;
    /* Added to the least leading dimensions, in units of 16 bytes. */
    int64_t more_a, more_b, more_c, more_d;
    enum matrix_fill fill;
    float alpha, beta;
    bool nan_c;    /* C is NaN everywhere: with beta 0 it must not be read */
    int sms;       /* SM budget; 0: all; multicast kernels, which have a CTA for each tile, are given one only with groups */
    bool groups;   /* with a workspace, if the options leave one */
    int64_t batch; /* 0: none; A is shared if it is even, and there are gaps of 16 bytes if odd */
};

struct trials {
    struct trial *list;
    size_t count, capacity;
    bool failed;   /* out of memory */
};

static void add(struct trials *t, struct trial trial)
{
    if (t->count == t->capacity) {
        const size_t capacity = 2 * t->capacity + 64;
        struct trial *grown = realloc(t->list, capacity * sizeof *grown);
        if (!grown) {
            t->failed = true;
            return;
        }
        t->list = grown;
        t->capacity = capacity;
    }
    t->list[t->count++] = trial;
}

static void add_shape(struct trials *t, int64_t m, int64_t n, int64_t k, enum matrix_fill fill)
{
    add(t, (struct trial){ .m = m, .n = n, .k = k, .fill = fill, .alpha = 1 });
}

/* All that is tried with one kernel. Edges: one tile, one more and one less in each direction,
 * primes, K around a slice and around the ring, thin and flat, more tiles than CTAs and fewer;
 * epilogue: alpha, beta, C that is NaN; pitches; SM budgets. */
static void make_trials(struct trials *t, const struct ptxmm_kernel_info *k, bool full, bool large)
{
    const int64_t m = k->tile_m, n = k->tile_n, s = k->tile_k, ring = k->stages;
    add_shape(t, m, n, s, FILL_SMALL_INT);
    add_shape(t, m, n, s * ring, FILL_NORMAL);
    add_shape(t, m - 1, n - 1, s - 1, FILL_SMALL_INT);
    add_shape(t, m + 1, n + 1, s + 1, FILL_NORMAL);
    add_shape(t, 1, 1, 1, FILL_ONES);
    add_shape(t, 1, n, s * (ring + 1) + 3, FILL_NORMAL);
    add_shape(t, m, 1, s * (ring - 1), FILL_POWERS);
    add_shape(t, 127, 251, 509, FILL_NORMAL);
    add_shape(t, 2 * m + 17, n + 33, 3 * s + 8, FILL_SPECIALS);
    add_shape(t, m + 2, 70, 0, FILL_NORMAL);
    add(t, (struct trial){ .m = 130, .n = 70, .k = 2 * s, .fill = FILL_NORMAL, .alpha = 1,
                           .beta = 0, .nan_c = true });
    add(t, (struct trial){ .m = m + 5, .n = n + 9, .k = s + 40, .fill = FILL_NORMAL,
                           .alpha = -0.75F, .beta = 2.5F });
    add(t, (struct trial){ .m = 60, .n = 90, .k = 100, .more_a = 1, .more_b = 3, .more_c = 2,
                           .more_d = 5, .fill = FILL_SMALL_INT, .alpha = 2, .beta = 1 });
    add(t, (struct trial){
               .m = 3 * m, .n = 2 * n, .k = s, .fill = FILL_SMALL_INT, .alpha = 1, .sms = 1 });
    add(t, (struct trial){ .m = m + 1, .n = n + 3, .k = s + 8, .fill = FILL_SMALL_INT, .alpha = 1,
                           .beta = 1, .batch = 3, .sms = 4 });
    add(t, (struct trial){
               .m = m - 7, .n = n, .k = 2 * s, .fill = FILL_NORMAL, .alpha = 1, .batch = 4 });
    if (k->algorithm == PTXMM_SPLIT) { /* on 3 SMs this K is worth groups that share a tile */
        add(t, (struct trial){ .m = m, .n = n - 1, .k = 48 * s + 8, .fill = FILL_SMALL_INT,
                               .alpha = 1, .beta = 2, .sms = 3, .groups = true });
        add(t, (struct trial){ .m = m - 1, .n = n, .k = 48 * s, .fill = FILL_NORMAL, .alpha = 1,
                               .sms = 3, .groups = true });
    }
    if (k->algorithm == PTXMM_MULTICAST) { /* groups on some SMs, and on all; clusters of 2 and more where tiles are many */
        add(t, (struct trial){ .m = m, .n = n - 1, .k = 48 * s + 16, .fill = FILL_SMALL_INT,
                               .alpha = 1, .beta = 2, .sms = 3, .groups = true });
        add(t, (struct trial){ .m = m + 3, .n = n + 1, .k = 40 * s, .fill = FILL_NORMAL,
                               .alpha = 1, .groups = true });
        add(t, (struct trial){ .m = 17, .n = n, .k = 24 * s, .fill = FILL_NORMAL, .alpha = 1,
                               .beta = 1, .batch = 2, .groups = true });
    }
    if (!full)
        return;

    static const int64_t few[] = { 2, 3, 7, 8, 9, 15, 16, 17, 33, 63, 64, 65, 129, 257 };
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        add_shape(t, few[i], n, 2 * s, FILL_NORMAL);
        add_shape(t, m, few[i], 2 * s, FILL_SMALL_INT);
        add_shape(t, 97, 101, few[i], FILL_WIDE);
    }
    for (int64_t slices = 1; slices <= 2 * ring + 1; slices++) {
        add_shape(t, m, n, slices * s, FILL_ONES);
        add_shape(t, m, n, slices * s - 8, FILL_ALTERNATING);
        add_shape(t, m, n, slices * s + 1, FILL_POWERS);
    }
    for (int sms = 2; sms <= 7; sms += 5)
        add(t, (struct trial){ .m = 5 * m + 3, .n = 3 * n + 5, .k = 200, .fill = FILL_NORMAL,
                               .alpha = 1, .sms = sms });
    add(t,
        (struct trial){ .m = 300, .n = 200, .k = 128, .fill = FILL_NORMAL, .alpha = 0, .beta = 1 });
    add(t,
        (struct trial){ .m = 300, .n = 200, .k = 0, .fill = FILL_NORMAL, .alpha = 1, .beta = -1 });
    add_shape(t, 8 * m, 4 * n, 8 * s, FILL_SMALL_INT);
    if (!large)
        return;
    add_shape(t, 4096, 4096, 4096, FILL_NORMAL);
    add_shape(t, 4095, 4097, 4099, FILL_NORMAL);
    add_shape(t, 8192, 8192, 8192, FILL_NORMAL);
    add_shape(t, 8192, 4096, 7168, FILL_SMALL_INT);
    add_shape(t, 40000, 1024, 512, FILL_NORMAL);
    add_shape(t, 64, 28672, 4096, FILL_NORMAL);
    add_shape(t, 256, 256, 65536, FILL_ONES);
    if (k->algorithm == PTXMM_SPLIT || k->algorithm == PTXMM_MULTICAST) {
        add(t, (struct trial){ .m = 2 * m + 1, .n = 3 * n, .k = 65536, .fill = FILL_NORMAL,
                               .alpha = 1, .groups = true });
        add(t, (struct trial){ .m = 64, .n = 256, .k = 131080, .fill = FILL_ONES, .alpha = 1,
                               .beta = 1, .groups = true });
    }
}

/* ---- one trial ---- */

struct outcome {
    bool right, skipped;
    bool lost;                /* the context is gone: no more trials */
    double units;
    char words[1200];         /* why it failed or was skipped, one line */
    char map[4096];           /* lines */
};

static void spoil(struct matrix *x)
{
    for (int64_t row = 0; row < x->rows; row++)
        memset(x->data + (size_t)(row * x->ld) * x->size, 0xff, (size_t)x->cols * x->size);
}

static void first_line(char *to, size_t size, const char *lines)
{
    const size_t length = strcspn(lines, "\n");
    snprintf(to, size, "%.*s", (int)(length < size ? length : size - 1), lines);
}

/* Types of A, B and D. */
struct types {
    enum ptxmm_type a, b, out;
};

static void try_one(struct session *s, const struct ptxmm_kernel_info *k, const struct types *types,
                    const struct trial *t, int64_t workspace, uint64_t seed,
                    struct outcome *result)
{
    *result = (struct outcome){ .right = false };
    const enum ptxmm_type out = types->out;
    const bool fast = type_is_fp8(k->a) && !k->promotion;
    const struct options o = { .m = t->m, .n = t->n, .k = t->k, .type = types->a,
                               .b_type = types->b, .out_type = out, .kernel = k->name,
                               .accumulate = fast ? PTXMM_ACCUMULATE_FAST : 0, .beta = t->beta,
                               .sms = k->algorithm == PTXMM_MULTICAST && !t->groups ? 0 : t->sms, .batch = -1,
                               .workspace = t->groups ? workspace : 0 };
    struct ptxmm_problem problem;
    product_problem(&o, &problem);
    const int64_t a_unit = 16 / (int64_t)type_bytes(o.type),
                  b_unit = 16 / (int64_t)type_bytes(o.b_type),
                  out_unit = 16 / (int64_t)type_bytes(out);
    problem.a.ld = aligned_ld(o.type, t->k > 0 ? t->k : 1) + t->more_a * a_unit;
    problem.b.ld = aligned_ld(o.b_type, t->k > 0 ? t->k : 1) + t->more_b * b_unit;
    problem.d.ld = aligned_ld(out, t->n) + t->more_d * out_unit;
    if (t->beta != 0 || t->nan_c)
        problem.c = (struct ptxmm_operand){ .type = out,
                                            .ld = aligned_ld(out, t->n) + t->more_c * out_unit };

    if (t->batch) {
        const int64_t gap = t->batch % 2;
        problem.kind = PTXMM_BATCH_STRIDED;
        problem.batch = t->batch;
        problem.a.batch_stride = gap ? t->m * problem.a.ld + a_unit : 0;
        problem.b.batch_stride = t->n * problem.b.ld + gap * b_unit;
        problem.d.batch_stride = t->m * problem.d.ld + gap * out_unit;
        if (problem.c.type)
            problem.c.batch_stride = t->m * problem.c.ld + gap * out_unit;
    }

    struct product p;
    bool fine = product_create(&p, s, &problem, t->alpha, t->beta);
    if (fine) {
        stack_fill(&p.a, t->fill, seed, STREAM_A);
        stack_fill(&p.b, t->fill, seed, STREAM_B);
        if (p.c.whole.base && t->nan_c)
            spoil(&p.c.whole);
        else if (p.c.whole.base)
            stack_fill(&p.c, t->fill, seed, STREAM_C);
        fine = product_plan(&p) && product_upload(&p) && product_launch(&p, NULL) &&
               product_download(&p);
    }
    if (!fine) {
        snprintf(result->words, sizeof result->words, "%s", p.error);
        result->lost = p.faulted;
        const char *report = p.faulted ? gpu_report(&s->gpu) : "";
        snprintf(result->map, sizeof result->map, "%s%s", report, *report ? "\n" : "");
    } else {
        struct check_result check;
        const bool exact = fill_is_exact_in(t->fill, k, t->k) && t->alpha == (float)(int)t->alpha &&
                           t->beta == (float)(int)t->beta;
        result->right = product_check(&p, exact, seed, &check, result->map, sizeof result->map);
        result->units = check.max_units;
        if (!result->right) {
            char where[256];
            if (check.wrong)
                snprintf(result->words, sizeof result->words,
                         "[%lld, %lld] is %.9g, must be %.9g; %lld wrong", (long long)check.row,
                         (long long)check.col, check.got, check.expected, (long long)check.wrong);
            else if (!stack_intact(&p.d, where, sizeof where))
                first_line(result->words, sizeof result->words, where);
            else
                snprintf(result->words, sizeof result->words, "host memory is exhausted");
        }
    }
    product_destroy(&p);
}

/* ---- the sweep ---- */

struct sweep {
    const struct options *options;
    struct session *session;
    int64_t done, total, failed;
    double worst;       /* largest error in tolerances among the right ones */
    bool progress, lost;
    json_t *failures;
    struct table table;
    char first_map[4096];
    int progress_width;
};

static void show_progress(struct sweep *w, const char *kernel, const struct trial *t)
{
    if (!w->progress)
        return;
    char line[160];
    const int n = snprintf(line, sizeof line, "%lld of %lld, %lld failed: %s %lldx%lldx%lld",
                           (long long)w->done, (long long)w->total, (long long)w->failed, kernel,
                           (long long)t->m, (long long)t->n, (long long)t->k);
    fprintf(stderr, "\r%s%*s", line, w->progress_width > n ? w->progress_width - n : 0, "");
    fflush(stderr);
    w->progress_width = n;
}

static void record(struct sweep *w, const struct ptxmm_kernel_info *k, const struct types *types,
                   const struct trial *t, const struct outcome *r)
{
    w->done++;
    if (r->right) {
        w->worst = r->units > w->worst ? r->units : w->worst;
        return;
    }
    if (w->failed++ == 0)
        snprintf(w->first_map, sizeof w->first_map, "%s", r->map);
    table_add(&w->table, "%s", k->name);
    table_add(&w->table, "%lldx%lldx%lld", (long long)t->m, (long long)t->n, (long long)t->k);
    table_add(&w->table, "%s", fill_name(t->fill));
    table_add(&w->table, "%s", r->words);
    json_array_append_new(
        w->failures,
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:f, s:f, s:i, s:s}", "kernel", k->name,
                  "type", type_name(types->a), "b_type", type_name(types->b), "out_type",
                  type_name(types->out), "m", (json_int_t)t->m, "n", (json_int_t)t->n, "k", (json_int_t)t->k, "data", fill_name(t->fill), "alpha",
                  (double)t->alpha, "beta", (double)t->beta, "sms", t->sms, "words", r->words));
}

/* The types that a kernel takes: its own, and where it leaves that open both of the 16-bit types in
 * turn. */
static int types_of(const struct ptxmm_kernel_info *k, struct types types[2])
{
    const enum ptxmm_type open = PTXMM_BF16_OR_F16;
    const int count = k->a == open || k->d == open ? 2 : 1;
    for (int i = 0; i < count; i++) {
        const enum ptxmm_type half = i ? PTXMM_F16 : PTXMM_BF16;
        types[i] = (struct types){ .a = k->a == open ? half : k->a, .b = k->b == open ? half : k->b,
                                   .out = k->d == open ? half : k->d };
    }
    return count;
}

static bool selected(const struct sweep *w, const struct ptxmm_kernel_info *k)
{
    return device_runs(&w->session->device, k) &&
           (!w->options->kernel || !strcmp(k->name, w->options->kernel));
}

static void sweep_kernel(struct sweep *w, const struct ptxmm_kernel_info *k, bool count_only)
{
    struct trials trials = { 0 };
    make_trials(&trials, k, w->options->full, !gpu_is_emulator(&w->session->gpu));
    struct types types[2];
    const int count = types_of(k, types);
    if (count_only)
        w->total += count * (int64_t)trials.count;
    for (int i = 0; !count_only && i < count; i++)
        for (size_t j = 0; j < trials.count && !w->lost; j++) {
            struct outcome outcome;
            show_progress(w, k->name, &trials.list[j]);
            try_one(w->session, k, &types[i], &trials.list[j], w->options->workspace,
                    w->options->seed + j, &outcome);
            record(w, k, &types[i], &trials.list[j], &outcome);
            w->lost = outcome.lost;
        }
    if (trials.failed)
        complain(w->options, "host memory is exhausted");
    free(trials.list);
}

int command_verify(const struct options *o)
{
    struct session s;
    int code = session_open(&s, o, true);
    if (code)
        return code;
    struct sweep w = { .options = o, .session = &s, .progress = isatty(STDERR_FILENO) && !o->json,
                       .failures = json_array(), .table = { .align = "llll" } };
    int64_t kernels = 0;
    for (size_t i = 0; i < ptxmm_kernel_count(); i++)
        if (selected(&w, ptxmm_kernel(i))) {
            kernels++;
            sweep_kernel(&w, ptxmm_kernel(i), true);
        }
    if (!o->json) {
        char words[512];
        session_describe(&s, words, sizeof words);
        printf("device   %s\nsweep    %s, %lld kernels, %lld products, seed %llu\n", words,
               o->full ? "full" : "quick", (long long)kernels, (long long)w.total,
               (unsigned long long)o->seed);
        fflush(stdout);
    }
    for (size_t i = 0; i < ptxmm_kernel_count(); i++)
        if (selected(&w, ptxmm_kernel(i)))
            sweep_kernel(&w, ptxmm_kernel(i), false);
    if (w.progress)
        fprintf(stderr, "\r%*s\r", w.progress_width, "");

    code = w.failed ? EXIT_WRONG : EXIT_RIGHT;
    if (kernels == 0) {
        if (o->kernel)
            complain(o, "%s is made for %s, but the device is sm_%d", o->kernel,
                     ptxmm_kernel_by_name(o->kernel)->target, s.device.arch);
        else
            complain(o, "no kernel of the pack is made for the device, sm_%d", s.device.arch);
        code = EXIT_NO_DEVICE;
    }
    if (o->json) {
        json_t *device = report_device(&s.device);
        json_object_set_new(device, "emulator", json_boolean(gpu_is_emulator(&s.gpu)));
        json_print(json_pack("{s:b, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:O}", "right",
                             code == EXIT_RIGHT, "device", device, "sweep",
                             o->full ? "full" : "quick", "seed", (json_int_t)o->seed, "kernels",
                             (json_int_t)kernels, "products", (json_int_t)w.total, "done",
                             (json_int_t)w.done, "failed", (json_int_t)w.failed,
                             "max_error_in_tolerances", w.worst, "failures", w.failures));
        table_drop(&w.table);
    } else if (kernels) {
        if (w.failed) {
            printf("failures\n");
            table_print(&w.table, 2);
            printf("the first of them\n%s", w.first_map);
        }
        printf("result   %lld of %lld products right, largest error %.3g of what is allowed%s\n",
               (long long)(w.done - w.failed), (long long)w.total, w.worst,
               w.lost ? "; stopped, because the context is lost after a fault" : "");
    }
    json_decref(w.failures);
    session_close(&s);
    return code;
}
