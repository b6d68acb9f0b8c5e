/* gemm_sizes.c -- topics about sizes, strides and where memory ends. */
#include <stdio.h>
#include <string.h>

#include "gemm_topics.h"

/* One tile, one less and one more in each dimension, primes, K around one slice and one ring. */
void topic_edges(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
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
        if (!topic_rig.full && !shapes[i].quick) continue;
        struct gemm_case c = topic_case(kernel, shapes[i].m, shapes[i].n, shapes[i].k, FILL_SMALL_INT);
        topic_try(&tally, &c);
        c.fill = FILL_NORMAL;
        if (topic_rig.full) topic_try(&tally, &c);
    }
    topic_finish(&tally);
}

/* Thin matrices, then every width up to a tile and a bit: no two ragged ends are stored by the same lanes. */
void topic_widths(void **state)
{
    static const int64_t ms[] = { 1, 2, 17, 33, 129 }, ns[] = { 1, 2, 8, 15, 31 };
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
    const int64_t tn = kernel->tile_n, tk = kernel->tile_k;
    struct tally tally = { 0 };
    for (size_t i = 0; i < LENGTH(ms); i++)
        for (size_t j = 0; j < LENGTH(ns); j++) {
            if (!topic_rig.full && i != j) continue;
            const struct gemm_case c = topic_case(kernel, ms[i], ns[j], tk + 8, FILL_SMALL_INT);
            topic_try(&tally, &c);
        }
    for (int64_t n = 3; n < tn + 18; n += topic_rig.full ? 1 : 61) {
        struct gemm_case c = topic_case(kernel, 19, n, 24, FILL_SMALL_INT);
        c.pad_d = n % 3;
        c.with_c = n % 2;
        c.beta = (float)(n % 2);
        topic_try(&tally, &c);
    }
    topic_finish(&tally);
}

/* Leading dimensions beyond the row, each operand by itself and all together. */
void topic_padding(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    const int64_t tn = kernel->tile_n, widths_[] = { 70, tn, tn + 6 };
    struct tally tally = { 0 };
    for (size_t i = 0; i < LENGTH(widths_); i++) {
        if (!topic_rig.full && i == 1) continue;
        for (int which = 1; which < 16; which++) {
            if (!topic_rig.full && which != 8 && which != 15) continue;
            struct gemm_case c = topic_case(kernel, 37, widths_[i], 75, FILL_SMALL_INT);
            c.pad_a = which & 1;
            c.pad_b = which & 2;
            c.pad_c = which & 4;
            c.pad_d = which & 8 ? 3 : 0;
            c.with_c = true;
            c.beta = 2;
            topic_try(&tally, &c);
        }
    }
    topic_finish(&tally);
}

/* More tiles than CTAs: rings and accumulators carry over from tile to tile. */
void topic_many_tiles(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k;
    struct tally tally = { 0 };
    struct gemm_case c = topic_case(kernel, 2 * tm + 1, tn + 9, tk + 8, FILL_SMALL_INT);
    for (c.sm_budget = 1; c.sm_budget <= 3; c.sm_budget++) topic_try(&tally, &c);
    if (topic_rig.full) {
        const struct {
            int64_t m, n, k;
        } shapes[] = {
            { 20 * tm + 3, 10 * tn + 5, 2 * tk + 8 }, { 16391, 72, 200 }, { 72, 16391, 200 }, { 43000, 1024, 72 },
            { 12 * tm, 11 * tn, 10 * tk },
        };
        for (size_t i = 0; i < LENGTH(shapes); i++) {
            c = topic_case(kernel, shapes[i].m, shapes[i].n, shapes[i].k, FILL_SMALL_INT);
            topic_try(&tally, &c);
            c.fill = FILL_NORMAL;
            topic_try(&tally, &c);
        }
    }
    topic_finish(&tally);
}

void topic_large(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
    if (!topic_rig.full) topic_skip("4096^3 and 8192^3 are for PTXMM_TEST=full");
    struct tally tally = { 0 };
    const struct gemm_case cases[] = {
        topic_case(kernel, 4096, 4096, 4096, FILL_SMALL_INT),
        topic_case(kernel, 4096, 4096, 4096, FILL_NORMAL),
        topic_case(kernel, 8192, 8192, 8192, FILL_NORMAL),
    };
    for (size_t i = 0; i < LENGTH(cases); i++) topic_try(&tally, &cases[i]);
    topic_finish(&tally);
}

/* D has 2^31 + 64 elements: windows of rows around the places where 32-bit indices and byte offsets overflow. */
void topic_beyond_32_bits(void **state)
{
    enum { COLS = 64, WINDOW = 256, BEHIND = 4096 };
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
    if (!topic_rig.full) topic_skip("13 GB of device memory are for PTXMM_TEST=full");
    struct gpu *gpu = &topic_rig.gpu;
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
        topic_skip(gpu->error);
    }
    uint32_t ones;
    for (size_t i = 0; i < sizeof ones; i += type_bytes(a_type)) type_store(a_type, (unsigned char *)&ones + i, 1);
    bool ok = gpu_ok(gpu, gpu->MemsetD32(a, ones, a_bytes / 4), "cuMemsetD32") &&
              gpu_ok(gpu, gpu->MemsetD8(d, 0xff, d_bytes + BEHIND), "cuMemsetD8");
    struct matrix as[LENGTH(windows)] = { 0 }, bm, out;
    assert_true(matrix_create(&bm, b_type, COLS, COLS, COLS, MATRIX_INPUT));
    assert_true(matrix_create(&out, d_type, WINDOW, COLS, COLS, MATRIX_OUTPUT));
    matrix_fill(&bm, FILL_SMALL_INT, topic_rig.seed, STREAM_B);
    ok = ok && gpu_upload(gpu, b, bm.data, COLS * COLS * bm.size);
    for (size_t i = 0; i < LENGTH(windows); i++) {
        assert_true(matrix_create(&as[i], a_type, WINDOW, COLS, COLS, MATRIX_INPUT));
        matrix_fill(&as[i], FILL_SMALL_INT, topic_rig.seed + i, STREAM_A);
        ok = ok && gpu_upload(gpu, a + (size_t)windows[i] * COLS * as[i].size, as[i].data, WINDOW * COLS * as[i].size);
    }

    const struct ptxmm_problem problem = { .m = rows, .n = COLS, .k = COLS, .a.type = a_type, .b.type = b_type,
                                           .d.type = d_type, .accumulate = gemm_accumulate(kernel),
                                           .prefer.kernel = kernel->name };
    const struct ptxmm_arguments arguments = { .a = a, .b = b, .d = d, .alpha = 1 };
    struct ptxmm_plan *plan = NULL;
    struct ptxmm_error error = { .text = "" };
    ok = ok && ptxmm_plan_create(topic_rig.mm, &problem, NULL, &plan, &error) == PTXMM_OK &&
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
        if (!ok)
            print_message("    rows from %lld: %s\n", (long long)windows[i],
                          check_describe(&result, text, sizeof text));
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

/* Device memory that ends with the last element of each operand, with nothing mapped behind where the driver can do
 * that. */
void topic_exact_end(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k;
    const struct {
        int64_t m, n, k;
    } shapes[] = { { 33, 70, 72 },
                   { tm + 1, tn + 5, tk + 3 },
                   { tm, tn, tk },
                   { 1, 1, 8 },
                   { 3 * tm - 1, 2 * tn - 1, 5 * tk + 8 } };
    struct tally tally = { 0 };
    for (size_t i = 0; i < (topic_rig.full ? LENGTH(shapes) : 2); i++) {
        struct gemm_case c = topic_case(kernel, shapes[i].m, shapes[i].n, shapes[i].k, FILL_SMALL_INT);
        c.exact_allocations = true;
        c.pad_a = c.pad_d = 1;
        topic_try(&tally, &c);
        c.with_c = true;
        c.beta = 1;
        topic_try(&tally, &c);
    }
    topic_finish(&tally);
}
