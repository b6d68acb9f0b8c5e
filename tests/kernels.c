/* kernels.c -- every kernel of the pack against a reference, on whatever driver there is.
 *
 *     build/tests/kernels ['*gemm_bf16_128x256*']
 *
 * The driver is PTXMM_DRIVER's, else libcuda.so.1, else this build's emulator; without one every test is skipped with the reason.
 * PTXMM_TEST=quick (an emulator's default: seconds) or full (a GPU's default), PTXMM_SEED=n (printed). A failure prints the case,
 * the first wrong element, what was expected, and a map. compute-sanitizer may run it: compute-sanitizer build/tests/kernels '*edges*'
 *
 * One test is one topic of one row of kernels.def. Inputs are chosen by regime first: where sums are exact the bits must be, so an
 * index that is wrong anywhere shows.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gemm_case.h"

extern char **environ;

/* The one driver of this program: cmocka hands each test a kernel's name and nothing else. */
static struct rig rig;

static const struct ptxmm_kernel_info *begin(void **state)
{
    char why[256];
    const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(*state);
    assert_non_null(kernel);
    if (!rig.mm) {
        print_message("    skipped: %s\n", rig.error);
        skip();
    }
    if (!rig_runs(&rig, kernel, why, sizeof why)) {
        print_message("    skipped: %s\n", why);
        skip();
    }
    if (!rig_revive(&rig)) fail_msg("the context is lost to an earlier test's fault and could not be made anew");
    return kernel;
}

static void skip_because(const char *why)
{
    print_message("    skipped: %s\n", why);
    skip();
}

/* Counts failures; after a few the rest of a topic says nothing new. */
struct tally {
    int cases, wrong;
};

/* Where a kernel takes bf16 or f16, odd cases are f16. */
static void try_case(struct tally *tally, const struct gemm_case *c)
{
    struct gemm_case typed = *c;
    if (tally->wrong >= 4) return;
    if (!typed.a && tally->cases % 2) typed.a = typed.b = typed.d = PTXMM_F16;
    tally->cases++;
    if (gemm_check(&rig, &typed)) return;
    tally->wrong++;
    if (!rig_revive(&rig)) tally->wrong = 4;
}

static void finish(const struct tally *tally)
{
    if (tally->wrong) fail_msg("%d of %d cases wrong", tally->wrong, tally->cases);
}

static struct gemm_case plain(const struct ptxmm_kernel_info *kernel, int64_t m, int64_t n, int64_t k, enum matrix_fill fill)
{
    return (struct gemm_case){ .kernel = kernel, .m = m, .n = n, .k = k, .fill = fill, .seed = rig.seed, .alpha = 1 };
}

#define LENGTH(list) (sizeof(list) / sizeof *(list))

/* ---- sizes ---------------------------------------------------------------------------------------------------- */

/* One tile, one less and one more in each dimension, primes, K around one slice and one ring. */
static void edges(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k, ring = tk * kernel->stages;
    const struct {
        int64_t m, n, k;
        bool quick;
    } shapes[] = {
        { tm, tn, tk, true },           { tm - 1, tn, tk, false },      { tm + 1, tn, tk, true },
        { tm, tn - 1, tk, true },       { tm, tn + 1, tk, false },      { tm, tn, tk - 1, true },
        { tm, tn, tk + 1, false },      { tm - 1, tn - 1, tk - 1, false }, { tm + 1, tn + 1, tk + 1, false },
        { 1, 1, 1, true },              { 127, 251, 61, true },         { 131, 257, 67, false },
        { 67, 523, 331, false },        { 257, 263, 1009, false },      { 509, 1021, 2053, false },
        { 17, 8, 2, false },            { 17, 8, 7, true },             { 17, 8, 8, false },
        { 17, 8, tk - 8, false },       { 17, 8, tk + 8, true },        { 17, 8, ring - 8, true },
        { 17, 8, ring - 1, false },     { 17, 8, ring, true },          { 17, 8, ring + 1, false },
        { 17, 8, ring + 8, true },      { tm, tn, ring, false },        { tm, tn, ring + tk, false },
        { tm, tn, 2 * ring + 17, false }, { tm + 1, tn + 1, 3 * ring, false },
    };
    struct tally tally = { 0 };
    for (size_t i = 0; i < LENGTH(shapes); i++) {
        if (!rig.full && !shapes[i].quick) continue;
        struct gemm_case c = plain(kernel, shapes[i].m, shapes[i].n, shapes[i].k, FILL_SMALL_INT);
        try_case(&tally, &c);
        c.fill = FILL_NORMAL;
        if (rig.full) try_case(&tally, &c);
    }
    finish(&tally);
}

/* Thin matrices, then every width up to a tile and a bit: no two ragged ends are stored by the same lanes. */
static void widths(void **state)
{
    static const int64_t ms[] = { 1, 2, 17, 33, 129 }, ns[] = { 1, 2, 8, 15, 31 };
    const struct ptxmm_kernel_info *kernel = begin(state);
    const int64_t tn = kernel->tile_n, tk = kernel->tile_k;
    struct tally tally = { 0 };
    for (size_t i = 0; i < LENGTH(ms); i++)
        for (size_t j = 0; j < LENGTH(ns); j++) {
            if (!rig.full && i != j) continue;
            const struct gemm_case c = plain(kernel, ms[i], ns[j], tk + 8, FILL_SMALL_INT);
            try_case(&tally, &c);
        }
    for (int64_t n = 3; n < tn + 18; n += rig.full ? 1 : 61) {
        struct gemm_case c = plain(kernel, 19, n, 24, FILL_SMALL_INT);
        c.pad_d = n % 3;
        c.with_c = n % 2;
        c.beta = (float)(n % 2);
        try_case(&tally, &c);
    }
    finish(&tally);
}

/* Leading dimensions beyond the row, each operand by itself and all together. */
static void padding(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    const int64_t tn = kernel->tile_n, widths_[] = { 70, tn, tn + 6 };
    struct tally tally = { 0 };
    for (size_t i = 0; i < LENGTH(widths_); i++) {
        if (!rig.full && i == 1) continue;
        for (int which = 1; which < 16; which++) {
            if (!rig.full && which != 8 && which != 15) continue;
            struct gemm_case c = plain(kernel, 37, widths_[i], 75, FILL_SMALL_INT);
            c.pad_a = which & 1;
            c.pad_b = which & 2;
            c.pad_c = which & 4;
            c.pad_d = which & 8 ? 3 : 0;
            c.with_c = true;
            c.beta = 2;
            try_case(&tally, &c);
        }
    }
    finish(&tally);
}

/* More tiles than CTAs: rings and accumulators carry over from tile to tile. */
static void many_tiles(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k;
    struct tally tally = { 0 };
    struct gemm_case c = plain(kernel, 2 * tm + 1, tn + 9, tk + 8, FILL_SMALL_INT);
    for (c.sm_budget = 1; c.sm_budget <= 3; c.sm_budget++) try_case(&tally, &c);
    if (rig.full) {
        const struct {
            int64_t m, n, k;
        } shapes[] = {
            { 20 * tm + 3, 10 * tn + 5, 2 * tk + 8 }, { 16391, 72, 200 }, { 72, 16391, 200 }, { 43000, 1024, 72 },
            { 12 * tm, 11 * tn, 10 * tk },
        };
        for (size_t i = 0; i < LENGTH(shapes); i++) {
            c = plain(kernel, shapes[i].m, shapes[i].n, shapes[i].k, FILL_SMALL_INT);
            try_case(&tally, &c);
            c.fill = FILL_NORMAL;
            try_case(&tally, &c);
        }
    }
    finish(&tally);
}

static void large(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    if (!rig.full) skip_because("4096^3 and 8192^3 are for PTXMM_TEST=full");
    struct tally tally = { 0 };
    const struct gemm_case cases[] = {
        plain(kernel, 4096, 4096, 4096, FILL_SMALL_INT),
        plain(kernel, 4096, 4096, 4096, FILL_NORMAL),
        plain(kernel, 8192, 8192, 8192, FILL_NORMAL),
    };
    for (size_t i = 0; i < LENGTH(cases); i++) try_case(&tally, &cases[i]);
    finish(&tally);
}

/* D has 2^31 + 64 elements: windows of rows around the places where 32-bit indices and byte offsets overflow. */
static void beyond_32_bits(void **state)
{
    enum { COLS = 64, WINDOW = 256, BEHIND = 4096 };
    const struct ptxmm_kernel_info *kernel = begin(state);
    if (!rig.full) skip_because("13 GB of device memory are for PTXMM_TEST=full");
    struct gpu *gpu = &rig.gpu;
    const int64_t rows = ((int64_t)1 << 25) + 1;
    const int64_t windows[] = { 0, ((int64_t)1 << 23) - WINDOW / 2, ((int64_t)1 << 24) - WINDOW / 2, rows - WINDOW };
    const struct gemm_case types = { .kernel = kernel };
    const enum ptxmm_type a_type = gemm_type_a(&types), b_type = gemm_type_b(&types), d_type = gemm_type_d(&types);
    const size_t a_bytes = (size_t)rows * COLS * type_bytes(a_type), d_bytes = (size_t)rows * COLS * type_bytes(d_type);
    const CUdeviceptr a = gpu_alloc(gpu, a_bytes), d = gpu_alloc(gpu, d_bytes + BEHIND);
    const CUdeviceptr b = gpu_alloc(gpu, COLS * COLS * type_bytes(b_type));
    if (!a || !b || !d) {
        gpu_free(gpu, a);
        gpu_free(gpu, b);
        gpu_free(gpu, d);
        skip_because(gpu->error);
    }
    uint16_t one;
    type_store(a_type, &one, 1);
    bool ok = gpu_ok(gpu, gpu->MemsetD32(a, (uint32_t)one << 16 | one, a_bytes / 4), "cuMemsetD32") &&
              gpu_ok(gpu, gpu->MemsetD8(d, 0xff, d_bytes + BEHIND), "cuMemsetD8");
    struct matrix as[LENGTH(windows)] = { 0 }, bm, out;
    assert_true(matrix_create(&bm, b_type, COLS, COLS, COLS, MATRIX_INPUT));
    assert_true(matrix_create(&out, d_type, WINDOW, COLS, COLS, MATRIX_OUTPUT));
    matrix_fill(&bm, FILL_SMALL_INT, rig.seed, STREAM_B);
    ok = ok && gpu_upload(gpu, b, bm.data, COLS * COLS * bm.size);
    for (size_t i = 0; i < LENGTH(windows); i++) {
        assert_true(matrix_create(&as[i], a_type, WINDOW, COLS, COLS, MATRIX_INPUT));
        matrix_fill(&as[i], FILL_SMALL_INT, rig.seed + i, STREAM_A);
        ok = ok && gpu_upload(gpu, a + (size_t)windows[i] * COLS * as[i].size, as[i].data, WINDOW * COLS * as[i].size);
    }

    const struct ptxmm_problem problem = { .m = rows, .n = COLS, .k = COLS, .a.type = a_type, .b.type = b_type,
                                           .d.type = d_type, .prefer.kernel = kernel->name };
    const struct ptxmm_arguments arguments = { .a = a, .b = b, .d = d, .alpha = 1 };
    struct ptxmm_plan *plan = NULL;
    struct ptxmm_error error = { .text = "" };
    ok = ok && ptxmm_plan_create(rig.mm, &problem, NULL, &plan, &error) == PTXMM_OK &&
         ptxmm_plan_run(plan, &arguments, NULL, &error) == PTXMM_OK;
    ok = ok && gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize");
    char text[1200];
    if (!ok) print_message("    %s%s\n", error.text, gpu->error);
    for (size_t i = 0; ok && i < LENGTH(windows); i++) {
        struct check_result result;
        const struct check_problem check = { .a = &as[i], .b = &bm, .d = &out, .alpha = 1, .exact = true };
        ok = gpu_download(gpu, out.data, d + (size_t)windows[i] * COLS * out.size, WINDOW * COLS * out.size);
        check_product(&check, &result);
        ok = ok && result.ok;
        if (!ok) print_message("    rows from %lld: %s\n", (long long)windows[i], check_describe(&result, text, sizeof text));
    }
    unsigned char behind[BEHIND] = { 0 };
    ok = ok && gpu_download(gpu, behind, d + d_bytes, BEHIND);
    for (size_t i = 0; ok && i < BEHIND; i++) {
        ok = behind[i] == 0xff;
        if (!ok) print_message("    byte %zu behind D was written\n", i);
    }
    ptxmm_plan_destroy(&plan);
    for (size_t i = 0; i < LENGTH(windows); i++) matrix_destroy(&as[i]);
    matrix_destroy(&bm);
    matrix_destroy(&out);
    gpu_free(gpu, a);
    gpu_free(gpu, b);
    gpu_free(gpu, d);
    assert_true(ok);
}

/* Device memory that ends with the last element of each operand, with nothing mapped behind where the driver can do that. */
static void exact_end(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k;
    const struct {
        int64_t m, n, k;
    } shapes[] = { { 33, 70, 72 }, { tm + 1, tn + 5, tk + 3 }, { tm, tn, tk }, { 1, 1, 8 }, { 3 * tm - 1, 2 * tn - 1, 5 * tk + 8 } };
    struct tally tally = { 0 };
    for (size_t i = 0; i < (rig.full ? LENGTH(shapes) : 2); i++) {
        struct gemm_case c = plain(kernel, shapes[i].m, shapes[i].n, shapes[i].k, FILL_SMALL_INT);
        c.exact_allocations = true;
        c.pad_a = c.pad_d = 1;
        try_case(&tally, &c);
        c.with_c = true;
        c.beta = 1;
        try_case(&tally, &c);
    }
    finish(&tally);
}

/* ---- values --------------------------------------------------------------------------------------------------- */

static void fills(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    struct tally tally = { 0 };
    for (int fill = 0; fill < FILL_COUNT; fill++) {
        const struct gemm_case c = plain(kernel, rig.full ? kernel->tile_m + 1 : 33, kernel->tile_n + 9,
                                         rig.full ? 5 * kernel->tile_k + 8 : kernel->tile_k + 8, (enum matrix_fill)fill);
        try_case(&tally, &c);
    }
    finish(&tally);
}

/* All ones: D is K, exactly, for K around every multiple of a slice. */
static void counts(void **state)
{
    static const int64_t offsets[] = { -8, -1, 0, 1, 8 }, primes[] = { 3, 61, 331, 1009, 4099 };
    const struct ptxmm_kernel_info *kernel = begin(state);
    const int slices = rig.full ? 2 * (int)kernel->stages + 2 : 2;
    struct tally tally = { 0 };
    for (int slice = 1; slice <= slices; slice++)
        for (size_t i = 0; i < LENGTH(offsets); i++) {
            const struct gemm_case c = plain(kernel, 9, 9, slice * (int64_t)kernel->tile_k + offsets[i], FILL_ONES);
            if (rig.full || i % 2 == 0) try_case(&tally, &c);
        }
    for (size_t i = 0; i < (rig.full ? LENGTH(primes) : 3); i++) {
        const struct gemm_case c = plain(kernel, kernel->tile_m + 1, 9, primes[i], FILL_ONES);
        try_case(&tally, &c);
    }
    finish(&tally);
}

/* A row of NaN makes that row NaN and no other; an infinity behaves as IEEE says, also against zero. */
static void nan_and_infinity(void **state)
{
    static const enum matrix_fill kinds[] = { FILL_NORMAL, FILL_SMALL_INT, FILL_ZEROS };
    const struct ptxmm_kernel_info *kernel = begin(state);
    const int64_t m = kernel->tile_m + 5, n = rig.full ? kernel->tile_n + 11 : 43, k = kernel->tile_k + 9;
    const int64_t rows[] = { 4, kernel->tile_m + 2 };
    struct tally tally = { 0 };
    for (size_t i = 0; i < LENGTH(kinds); i++)
        for (size_t j = 0; j < LENGTH(rows); j++) {
            struct gemm_case c = plain(kernel, m, n, k, kinds[i]);
            if (!rig.full && i != j) continue;
            c.nan_row = rows[j];
            c.inf_at = (rows[j] + 1) * k + kernel->tile_k + 3;
            try_case(&tally, &c);
        }
    finish(&tally);
}

/* alpha and beta from both places; values that must not be read are NaN. */
static void scalars(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    const struct {
        float alpha, beta;
        bool with_c;
        enum c_content c;
        bool nan_a;
        enum matrix_fill fill;
    } kinds[] = {
        { 2, 0, false, C_NORMAL, false, FILL_SMALL_INT },      { 1, 1, true, C_NORMAL, false, FILL_SMALL_INT },
        { -0.5f, 1.5f, true, C_IS_D, false, FILL_SMALL_INT },  { 0.3f, 0.7f, true, C_NORMAL, false, FILL_NORMAL },
        { 1, 0, true, C_NAN, false, FILL_NORMAL },             { 1, -1, true, C_NAN, false, FILL_NORMAL },
        { 0, 0, false, C_NORMAL, true, FILL_NORMAL },          { 0, 0.5f, true, C_NORMAL, true, FILL_SMALL_INT },
        { 0, 1, true, C_IS_D, true, FILL_NORMAL },             { 0, 0, true, C_NAN, true, FILL_NORMAL },
    };
    const struct {
        int64_t m, n, k;
    } shapes[] = { { 130, 70, kernel->tile_k + 8 }, { kernel->tile_m, kernel->tile_n, kernel->tile_k },
                   { 2 * kernel->tile_m + 3, 2 * kernel->tile_n + 5, 6 * kernel->tile_k } };
    struct tally tally = { 0 };
    for (size_t i = 0; i < (rig.full ? LENGTH(shapes) : 1); i++)
        for (size_t j = 0; j < LENGTH(kinds); j++)
            for (int place = 0; place < 2; place++) {
                if (!rig.full && place != (int)j % 2) continue;
                struct gemm_case c = plain(kernel, shapes[i].m, shapes[i].n, shapes[i].k, kinds[j].fill);
                c.alpha = kinds[j].alpha;
                c.beta = kinds[j].beta;
                c.with_c = kinds[j].with_c;
                c.c = kinds[j].c;
                c.nan_a = kinds[j].nan_a;
                c.scalars = place ? SCALARS_ON_DEVICE : SCALARS_ON_HOST;
                try_case(&tally, &c);
            }
    finish(&tally);
}

/* Where each operand may be bf16 or f16: every mixture. */
static void mixed_types(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    if (kernel->a != PTXMM_BF16_OR_F16) skip_because("the kernel's types are fixed");
    struct tally tally = { 0 };
    for (int mixture = 0; mixture < 8; mixture++)
        for (int exact = 0; exact < 2; exact++) {
            struct gemm_case c = plain(kernel, 19, rig.full ? kernel->tile_n + 9 : 43, kernel->tile_k + 9,
                                       exact ? FILL_SMALL_INT : FILL_NORMAL);
            c.a = mixture & 1 ? PTXMM_F16 : PTXMM_BF16;
            c.b = mixture & 2 ? PTXMM_F16 : PTXMM_BF16;
            c.d = mixture & 4 ? PTXMM_F16 : PTXMM_BF16;
            c.with_c = true;
            c.beta = 1;
            try_case(&tally, &c);
        }
    finish(&tally);
}

/* K = 0 is beta * C, or exactly 0; no rows or no columns is success and nothing is launched. */
static void nothing(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    struct tally tally = { 0 };
    for (int beta = 0; beta < 3; beta++) {
        struct gemm_case c = plain(kernel, kernel->tile_m + 2, 70, 0, FILL_NORMAL);
        c.with_c = beta > 0;
        c.beta = beta == 2 ? 0 : (float)beta;
        c.c = beta == 2 ? C_NAN : C_NORMAL;
        try_case(&tally, &c);
    }
    finish(&tally);
    for (int which = 0; which < 2; which++) {
        const struct gemm_case types = { .kernel = kernel };
        const struct ptxmm_problem problem = {
            .m = which ? 64 : 0, .n = which ? 0 : 64, .k = 64, .a.type = gemm_type_a(&types), .b.type = gemm_type_b(&types),
            .d.type = gemm_type_d(&types), .prefer.kernel = kernel->name,
        };
        const struct ptxmm_arguments arguments = { .alpha = 1 };
        struct ptxmm_plan *plan;
        struct ptxmm_error error;
        if (ptxmm_plan_create(rig.mm, &problem, NULL, &plan, &error)) fail_msg("%s", error.text);
        const enum ptxmm_status status = ptxmm_plan_run(plan, &arguments, NULL, &error);
        const struct ptxmm_kernel_info *chosen = ptxmm_plan_info(plan)->candidate.kernel;
        ptxmm_plan_destroy(&plan);
        if (status) fail_msg("%s", error.text);
        assert_null(chosen);
    }
}

/* ---- the same bits -------------------------------------------------------------------------------------------- */

/* Two cases must give one result; prints both when they do not. */
static bool equal_results(const struct gemm_case *x, const struct gemm_case *y)
{
    char text[600], where[200];
    struct gemm_run p = { 0 }, q = { 0 };
    bool ok = gemm_result(&rig, x, &p) && gemm_result(&rig, y, &q);
    if (ok && !gemm_same(&p, &q, where, sizeof where)) {
        print_message("    %s\n", gemm_describe(x, text, sizeof text));
        print_message("    %s\n        differ: %s\n", gemm_describe(y, text, sizeof text), where);
        ok = false;
    }
    gemm_release(&rig, &p);
    gemm_release(&rig, &q);
    return ok;
}

static void repeats(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    const int count = rig.full ? 200 : 3;
    const struct gemm_case c = plain(kernel, 2 * kernel->tile_m + 1, (rig.full ? 3 : 0) * kernel->tile_n + 9,
                                     (rig.full ? 12 : 1) * kernel->tile_k + 9, FILL_NORMAL);
    char where[200];
    struct gemm_run first = { 0 }, again = { 0 };
    bool ok = gemm_result(&rig, &c, &first) && gemm_prepare(&rig, &c, &again);
    for (int i = 0; ok && i < count; i++) {
        matrix_poison(&again.d);
        ok = gemm_rewind(&rig, &again) && gemm_launch(&rig, &again, NULL) && gemm_fetch(&rig, &again);
        if (!ok) print_message("    %s\n", again.error);
        if (ok && !gemm_same(&first, &again, where, sizeof where)) {
            print_message("    run %d differs: %s\n", i, where);
            ok = false;
        }
    }
    gemm_release(&rig, &first);
    gemm_release(&rig, &again);
    assert_true(ok);
}

static void budgets(void **state)
{
    static const int list[] = { 1, 2, 7, 78, 131 };
    const struct ptxmm_kernel_info *kernel = begin(state);
    const struct gemm_case all = plain(kernel, (rig.full ? 5 : 2) * kernel->tile_m + 3, (rig.full ? 3 : 1) * kernel->tile_n + 7,
                                       (rig.full ? 9 : 1) * kernel->tile_k + 9, FILL_NORMAL);
    bool ok = true;
    for (size_t i = 0; ok && i < (rig.full ? LENGTH(list) : 3); i++) {
        struct gemm_case some = all;
        some.sm_budget = list[i];
        ok = equal_results(&all, &some);
    }
    assert_true(ok);
}

/* A row's bits do not depend on how many rows there are. */
static void batch_invariance(void **state)
{
    static const int64_t ms[] = { 1, 17, 33, 128, 257, 2, 1024 };
    const struct ptxmm_kernel_info *kernel = begin(state);
    if (!kernel->batch_invariant) skip_because("the kernel does not promise it");
    const int64_t size = rig.full ? 2048 : 136;
    bool ok = true;
    const size_t count = rig.full ? LENGTH(ms) : 4;
    const struct gemm_case most = plain(kernel, ms[count - 1], size, size, FILL_NORMAL);
    for (size_t i = 0; ok && i + 1 < count; i++) {
        struct gemm_case fewer = most;
        fewer.m = ms[i];
        ok = equal_results(&most, &fewer);
    }
    assert_true(ok);
}

/* ---- streams, graphs, chains ---------------------------------------------------------------------------------- */

/* Everything that a capture made; *kernels counts its kernel nodes. */
static bool capture(struct gemm_run *run, CUstream stream, CUgraphExec *exec, size_t *kernels)
{
    struct gpu *gpu = &rig.gpu;
    CUgraph graph = NULL;
    CUgraphNode nodes[16];
    size_t count = LENGTH(nodes);
    bool ok = gpu_ok(gpu, gpu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    const bool launched = ok && gemm_launch(&rig, run, stream);
    if (ok) ok = gpu_ok(gpu, gpu->StreamEndCapture(stream, &graph), "cuStreamEndCapture") && launched;
    ok = ok && gpu_ok(gpu, gpu->GraphGetNodes(graph, nodes, &count), "cuGraphGetNodes");
    *kernels = 0;
    for (size_t i = 0; ok && i < count; i++) {
        CUgraphNodeType type;
        ok = gpu_ok(gpu, gpu->GraphNodeGetType(nodes[i], &type), "cuGraphNodeGetType");
        *kernels += ok && type == CU_GRAPH_NODE_TYPE_KERNEL;
    }
    ok = ok && gpu_ok(gpu, gpu->GraphInstantiateWithFlags(exec, graph, 0), "cuGraphInstantiateWithFlags");
    if (graph) gpu->GraphDestroy(graph);
    if (!ok) print_message("    %s%s\n", run->error, gpu->error);
    return ok;
}

/* A plan's first run is a capture: one kernel node, replayed with contents that change, equal to eager runs. */
static void graphs(void **state)
{
    enum { VARIANTS = 4 };
    const struct ptxmm_kernel_info *kernel = begin(state);
    struct gpu *gpu = &rig.gpu;
    if (!gpu->StreamBeginCapture || !gpu->StreamEndCapture || !gpu->GraphGetNodes || !gpu->GraphNodeGetType ||
        !gpu->GraphInstantiateWithFlags || !gpu->GraphLaunch || !gpu->GraphExecDestroy || !gpu->GraphDestroy)
        skip_because("the driver has no graphs");
    struct gemm_case cases[VARIANTS];
    struct gemm_run eager[VARIANTS] = { 0 }, run = { 0 };
    for (int i = 0; i < VARIANTS; i++) {
        cases[i] = plain(kernel, kernel->tile_m + 1, 72, 2 * kernel->tile_k + 8, FILL_NORMAL);
        cases[i].seed += (uint64_t)i;
    }
    CUstream stream = NULL;
    CUgraphExec exec = NULL;
    size_t kernels = 0;
    bool ok = gpu_ok(gpu, gpu->StreamCreate(&stream, 0), "cuStreamCreate");
    ok = ok && gemm_prepare(&rig, &cases[0], &run) && capture(&run, stream, &exec, &kernels) && kernels == 1;
    if (ok || kernels > 1) assert_int_equal(kernels, 1);
    for (int i = 0; ok && i < VARIANTS; i++) ok = gemm_result(&rig, &cases[i], &eager[i]);
    for (int i = 0; ok && i < (rig.full ? 1000 : 6); i++) {
        char where[200];
        const struct gemm_run *want = &eager[i % VARIANTS];
        matrix_poison(&run.d);
        ok = gemm_rewind(&rig, &run) &&
             gpu_ok(gpu, gpu->MemcpyDtoD(run.at_a.base, want->at_a.base, run.a.bytes), "cuMemcpyDtoD") &&
             gpu_ok(gpu, gpu->MemcpyDtoD(run.at_b.base, want->at_b.base, run.b.bytes), "cuMemcpyDtoD") &&
             gpu_ok(gpu, gpu->GraphLaunch(exec, stream), "cuGraphLaunch") && gemm_fetch(&rig, &run);
        if (!ok) print_message("    replay %d: %s\n", i, gpu->error);
        if (ok && !gemm_same(&run, want, where, sizeof where)) {
            print_message("    replay %d differs from the eager run: %s\n", i, where);
            ok = false;
        }
    }
    if (exec) gpu->GraphExecDestroy(exec);
    if (stream) gpu->StreamDestroy(stream);
    for (int i = 0; i < VARIANTS; i++) gemm_release(&rig, &eager[i]);
    gemm_release(&rig, &run);
    assert_true(ok);
}

static void two_streams(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    struct gpu *gpu = &rig.gpu;
    struct gemm_case cases[2];
    struct gemm_run eager[2] = { 0 }, run[2] = { 0 };
    CUstream streams[2] = { 0 };
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        cases[i] = plain(kernel, (rig.full ? 4 : 1) * kernel->tile_m + i, 72 + i, 3 * kernel->tile_k + 8 * i, FILL_NORMAL);
        cases[i].sm_budget = rig.full ? 60 : 1;
        ok = ok && gpu_ok(gpu, gpu->StreamCreate(&streams[i], 1 /* not ordered with the default stream */), "cuStreamCreate") &&
             gemm_result(&rig, &cases[i], &eager[i]) && gemm_prepare(&rig, &cases[i], &run[i]);
    }
    for (int i = 0; ok && i < (rig.full ? 1000 : 4); i++) ok = gemm_launch(&rig, &run[i % 2], streams[i % 2]);
    for (int i = 0; ok && i < 2; i++) {
        char where[200];
        ok = gemm_fetch(&rig, &run[i]);
        if (ok && !gemm_same(&run[i], &eager[i], where, sizeof where)) {
            print_message("    stream %d differs: %s\n", i, where);
            ok = false;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (streams[i]) gpu->StreamDestroy(streams[i]);
        gemm_release(&rig, &eager[i]);
        gemm_release(&rig, &run[i]);
    }
    assert_true(ok);
}

/* D of each launch is C, or A, of the next; two buffers take turns, so a launch that starts too early reads or overwrites what its
 * predecessor still needs. */
static bool run_chain(struct gemm_run *run, int length, bool through_a, bool wait)
{
    struct gpu *gpu = &rig.gpu;
    const CUdeviceptr other = gpu_alloc(gpu, run->d.bytes);
    bool ok = other && gemm_rewind(&rig, run) && gpu_upload(gpu, other, run->d.base, run->d.bytes);
    const struct ptxmm_arguments first = run->arguments;
    uint64_t from = through_a ? first.a : first.c;
    for (int i = 0; ok && i < length; i++) { /* an odd length ends in D */
        *(through_a ? &run->arguments.a : &run->arguments.c) = from;
        run->arguments.d = i % 2 ? other + run->d.guard : first.d;
        from = run->arguments.d;
        ok = gemm_launch(&rig, run, NULL) && (!wait || gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize"));
    }
    run->arguments = first;
    ok = ok && gemm_fetch(&rig, run);
    if (!ok) print_message("    %s%s\n", run->error, gpu->error);
    gpu_free(gpu, other);
    return ok;
}

static void chains(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    const int length = rig.full ? 101 : 3;
    for (int through_a = 0; through_a < 2; through_a++) {
        const struct gemm_case types = { .kernel = kernel };
        if (through_a && gemm_type_a(&types) != gemm_type_d(&types)) continue;
        const int64_t size = rig.full ? 8 * kernel->tile_k : kernel->tile_k + 8;
        struct gemm_case c = plain(kernel, (rig.full ? 9 : 1) * kernel->tile_m + 1, size, size, FILL_NORMAL);
        c.alpha = through_a ? 1 / sqrtf((float)size) : 0.01f; /* keeps values near 1 */
        c.with_c = !through_a;
        c.beta = through_a ? 0 : 1;
        struct gemm_run overlapped = { 0 }, waited = { 0 };
        char where[200], text[600];
        bool ok = gemm_prepare(&rig, &c, &overlapped) && gemm_prepare(&rig, &c, &waited) &&
                  run_chain(&overlapped, length, through_a, false) && run_chain(&waited, length, through_a, true);
        if (ok && !(gemm_same(&overlapped, &waited, where, sizeof where) && matrix_intact(&overlapped.d, where, sizeof where))) {
            print_message("    %s\n        chain through %s: %s\n", gemm_describe(&c, text, sizeof text), through_a ? "A" : "C",
                          where);
            ok = false;
        }
        gemm_release(&rig, &overlapped);
        gemm_release(&rig, &waited);
        assert_true(ok);
    }
}

/* ---- launches by the ABI alone -------------------------------------------------------------------------------- */

/* In a process of its own, because a fault takes the context: 0 the mistake was reported, 1 it was not, 2 it was not tried. */
static int foreign_child(const char *mistake_name, const char *kernel_name)
{
    alarm(120);
    if (!rig_open(&rig, NULL)) {
        printf("    %s\n", rig.error);
        return 2;
    }
    for (int mistake = 0; mistake < FOREIGN_MISTAKES; mistake++) {
        if (strcmp(mistake_name, foreign_name((enum foreign_mistake)mistake))) continue;
        const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(kernel_name);
        struct gemm_run run;
        CUresult result;
        if (!kernel) return 2;
        const struct gemm_case c = plain(kernel, 17, 8, kernel->tile_k + 8, FILL_SMALL_INT);
        if (!gemm_prepare(&rig, &c, &run) || !foreign_launch(&rig, &run, (enum foreign_mistake)mistake, &result)) {
            printf("    %s\n", run.error);
            return 2;
        }
        if (result == CUDA_SUCCESS) result = rig.gpu.CtxSynchronize();
        return result == CUDA_SUCCESS;
    }
    return 2;
}

static void foreign(void **state)
{
    const struct ptxmm_kernel_info *kernel = begin(state);
    struct gemm_case c = plain(kernel, kernel->tile_m + 1, 70, kernel->tile_k + 8, FILL_SMALL_INT);
    struct gemm_run run;
    CUresult launched = CUDA_SUCCESS;
    c.with_c = true;
    c.beta = 2;
    bool ok = gemm_prepare(&rig, &c, &run) && foreign_launch(&rig, &run, FOREIGN_NONE, &launched) &&
              gpu_ok(&rig.gpu, launched, "cuLaunchKernelEx") && gemm_fetch(&rig, &run) && gemm_judge(&rig, &run);
    if (!ok) print_message("    by the ABI: %s%s\n", run.error, rig.gpu.error);
    gemm_release(&rig, &run);
    assert_true(ok);

    pid_t children[FOREIGN_MISTAKES] = { 0 };
    fflush(stdout);
    for (int i = 1; i < FOREIGN_MISTAKES; i++) {
        char self[] = "kernels", option[] = "--foreign", mistake[32], name[128];
        char *const arguments[] = { self, option, mistake, name, NULL };
        snprintf(mistake, sizeof mistake, "%s", foreign_name((enum foreign_mistake)i));
        snprintf(name, sizeof name, "%s", kernel->name);
        if (posix_spawn(&children[i], "/proc/self/exe", NULL, NULL, arguments, environ)) children[i] = 0;
    }
    for (int i = 1; i < FOREIGN_MISTAKES; i++) {
        static const char *const verdicts[] = { "", "went unnoticed", "could not be tried" };
        int status = 0;
        const bool ended = children[i] && waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status);
        const int code = ended ? WEXITSTATUS(status) : -1;
        if (code == 0) continue;
        print_message("    wrong %s %s\n", foreign_name((enum foreign_mistake)i),
                      code == 1 || code == 2 ? verdicts[code] : "ended the process");
        ok = false;
    }
    assert_true(ok);
}

/* ---- one test per row and topic ------------------------------------------------------------------------------- */

#define TEST(label, id, topic) { label " " #topic, topic, NULL, NULL, (void *)(uintptr_t)id }
#define TOPICS(label, id)                                                                                        \
    TEST(label, id, edges), TEST(label, id, widths), TEST(label, id, padding), TEST(label, id, many_tiles),      \
    TEST(label, id, exact_end), TEST(label, id, fills), TEST(label, id, counts), TEST(label, id, nan_and_infinity), \
    TEST(label, id, scalars), TEST(label, id, nothing), TEST(label, id, repeats), TEST(label, id, budgets),      \
    TEST(label, id, batch_invariance), TEST(label, id, graphs), TEST(label, id, two_streams), TEST(label, id, chains), \
    TEST(label, id, foreign), TEST(label, id, mixed_types), TEST(label, id, large), TEST(label, id, beyond_32_bits),

int main(int argc, char **argv)
{
    static const struct CMUnitTest kernels[] = {
#define KERNEL(sm, suffix, source, name, ...) TOPICS("sm" #sm "/" #name, "sm" #sm "_" #name)
#include "ptx/kernels.def"
#undef KERNEL
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4 && strcmp(argv[1], "--foreign") == 0) {
        const int code = foreign_child(argv[2], argv[3]);
        fflush(stdout);
        _exit(code); /* the context may be lost: nothing to take down */
    }
    if (argc > 2) {
        fprintf(stderr, "usage: %s [PATTERN]\n", argv[0]);
        return 2;
    }
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    if (rig_open(&rig, NULL))
        printf("driver %s, device %s, %s tests, PTXMM_SEED=%llu\n", ptxmm_driver_path(rig.mm), rig.device.name,
               rig.full ? "full" : "quick", (unsigned long long)rig.seed);
    const int failures = cmocka_run_group_tests(kernels, NULL, NULL);
    if (rig.mm) rig_close(&rig);
    return failures != 0;
}
