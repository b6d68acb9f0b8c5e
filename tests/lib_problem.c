/* lib_problem.c -- every member of a problem, wrong one at a time, and structures of random bytes.
 */
#include "lib_case.h"

static void refused(const char *what, const struct ptxmm_problem *problem, const char *field,
                    const char *word)
{
    struct ptxmm_error error;
    enum ptxmm_status status = ptxmm_problem_check(problem, &error);
    if (status == PTXMM_OK)
        fail_msg("%s was accepted", what);
    case_check_error(&error, status, PTXMM_ERROR_ARGUMENT, field, word, NULL);
}

static void accepted(const char *what, const struct ptxmm_problem *problem)
{
    struct ptxmm_error error;
    if (ptxmm_problem_check(problem, &error))
        fail_msg("%s was refused: %s", what, error.text);
    assert_string_equal(error.text, "");
}

/* A good problem, changed by one or two statements, and the member that the error must name. */
#define REFUSED(change, field, word)                        \
    do {                                                    \
        struct ptxmm_problem p = case_problem(64, 32, 128); \
        change;                                             \
        refused(#change, &p, "problem." field, word);       \
    } while (0)
#define ACCEPTED(change)                                    \
    do {                                                    \
        struct ptxmm_problem p = case_problem(64, 32, 128); \
        change;                                             \
        accepted(#change, &p);                              \
    } while (0)

static void sizes(void **unused)
{
    (void)unused;
    struct ptxmm_error error;
    case_check_error(&error, ptxmm_problem_check(NULL, &error), PTXMM_ERROR_ARGUMENT,
                     "problem is NULL", NULL);
    assert_int_equal(ptxmm_problem_check(NULL, NULL), PTXMM_ERROR_ARGUMENT);
    ACCEPTED((void)p);
    ACCEPTED(p.m = 0);
    ACCEPTED(p.n = 0);
    ACCEPTED(p.k = 0);
    ACCEPTED(p.batch = 1);
    REFUSED(p.m = -1, "m is -1", "at least 0");
    REFUSED(p.n = INT64_MIN, "n is -9223372036854775808", "at least 0");
    REFUSED(p.k = -7, "k is -7", "at least 0");
    REFUSED(p.batch = -1, "batch is -1", "at least 0");
    REFUSED(p.batch = 2, "batch is 2", "0 or 1");
    REFUSED(p.kind = (enum ptxmm_problem_kind)7, "kind is 7", "0 to 6");
    REFUSED(p.kind = (enum ptxmm_problem_kind) - 1, "kind is -1", "0 to 6");
    REFUSED(p.accumulate = (enum ptxmm_accumulate)2, "accumulate is 2", "0 to 1");
    REFUSED(p.alpha_on_device = 2, "alpha_on_device is 2", "0 to 1");
    REFUSED(p.beta_on_device = -1, "beta_on_device is -1", "0 to 1");
    REFUSED(p.beta_on_device = 1, "c.type is NONE", "beta_on_device is 1");
    ACCEPTED(p.beta_on_device = 1; p.c.type = PTXMM_BF16);
    REFUSED(p.reserved[5] = 9, "reserved[5] is 9", "0");
}

static void operands(void **unused)
{
    (void)unused;
    // Types.
    REFUSED(p.a.type = PTXMM_TYPE_NONE, "a.type is NONE", "factors");
    REFUSED(p.b.type = PTXMM_S32, "b.type is S32", "factors");
    REFUSED(p.b.type = PTXMM_UE8M0, "b.type is UE8M0", "factors");
    REFUSED(p.d.type = PTXMM_TYPE_NONE, "d.type is NONE", "results");
    REFUSED(p.d.type = PTXMM_TF32, "d.type is TF32", "results");
    REFUSED(p.c.type = PTXMM_S4, "c.type is S4", "results");
    REFUSED(p.d.type = (enum ptxmm_type)16, "d.type is 16", "0 to 15");
    REFUSED(p.a.type = PTXMM_BF16_OR_F16, "a.type is 64", "0 to 15");
    REFUSED(p.a.type = (enum ptxmm_type) - 3, "a.type is -3", "0 to 15");
    REFUSED(p.b.type = PTXMM_S8, "b.type is S8", "BF16");
    REFUSED(p.a.type = PTXMM_TF32, "b.type is BF16", "TF32");
    REFUSED(p.b.type = PTXMM_F32, "b.type is F32", "BF16");
    REFUSED(p.a.type = p.b.type = PTXMM_S4, "b.type is S4", "16");
    ACCEPTED(p.b.type = PTXMM_S4);
    ACCEPTED(p.b.type = PTXMM_E4M3);
    ACCEPTED(p.a.type = PTXMM_S8; p.b.type = PTXMM_U8; p.d.type = PTXMM_S32);
    ACCEPTED(p.a.type = p.b.type = PTXMM_TF32; p.d.type = PTXMM_F32);
    // Layouts and strides; ld is the distance of rows or of columns, so what it must cover depends
    // on the layout.
    REFUSED(p.a.layout = (enum ptxmm_layout)2, "a.layout is 2", "0 to 1");
    REFUSED(p.a.ld = -1, "a.ld is -1", "at least 0");
    REFUSED(p.a.ld = 127, "a.ld is 127", "128");
    ACCEPTED(p.a.ld = 128);
    REFUSED(p.a.ld = 63; p.a.layout = PTXMM_MN_MAJOR, "a.ld is 63", "column of 64");
    ACCEPTED(p.a.ld = 64; p.a.layout = PTXMM_MN_MAJOR);
    REFUSED(p.b.ld = 127, "b.ld is 127", "128");
    REFUSED(p.b.ld = 31; p.b.layout = PTXMM_MN_MAJOR, "b.ld is 31", "32");
    REFUSED(p.d.ld = 31, "d.ld is 31", "32");
    REFUSED(p.d.ld = 63; p.d.layout = PTXMM_COL_MAJOR, "d.ld is 63", "64");
    REFUSED(p.c.type = PTXMM_BF16; p.c.ld = 31, "c.ld is 31", "32");
    REFUSED(p.b.batch_stride = -1, "b.batch_stride is -1", "at least 0");
    ACCEPTED(p.b.batch_stride = INT64_C(1) << 33); // and is ignored: there is one
    REFUSED(p.d.reserved[1] = 1, "d.reserved[1] is 1", "0");
    // Only what a kernel reads from its start on can be promised to be constant.
    ACCEPTED(p.a.constant = 1);
    ACCEPTED(p.a.constant = p.b.constant = 1);
    REFUSED(p.a.constant = 2, "a.constant is 2", "0 to 1");
    REFUSED(p.b.constant = -1, "b.constant is -1", "0 to 1");
    REFUSED(p.c.type = PTXMM_BF16; p.c.constant = 1, "c.constant is 1", "must be 0");
    REFUSED(p.c.constant = 1, "c.constant is 1", "must be 0");
    REFUSED(p.d.constant = 3, "d.constant is 3", "must be 0");
    REFUSED(p.epilogue.activation = PTXMM_GELU; p.epilogue.aux.type = PTXMM_BF16;
            p.epilogue.aux.constant = 1, "epilogue.aux.constant is 1", "must be 0");
    assert_int_equal(sizeof(struct ptxmm_operand), 64); // it lies where padding was
    // An absent C has nothing.
    REFUSED(p.c.ld = 32, "c.ld is not 0", "c.type is NONE");
    REFUSED(p.c.layout = PTXMM_COL_MAJOR, "c.layout is not 0", "NONE");
    REFUSED(p.c.scale = PTXMM_SCALE_TENSOR, "c.scale is not 0", "NONE");
}

static void spans(void **unused)
{
    (void)unused;
    const int64_t big = INT64_C(1) << 58;
    REFUSED(p.m = INT64_MAX, "a spans more than", "63 bits");
    REFUSED(p.a.ld = INT64_MAX, "a spans more than", "ld 9223372036854775807");
    REFUSED(p.m = 1; p.k = INT64_MAX, "a spans", "bits");
    REFUSED(p.b.ld = big, "b spans", "bits");
    ACCEPTED(p.m = 2; p.a.ld = big);       // 2^58 elements of 16 bits and a row: 2^62 bits
    ACCEPTED(p.m = 1; p.a.ld = INT64_MAX); // one row: the distance does not matter
    REFUSED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 3; p.d.batch_stride = 2048;
            p.a.batch_stride = big, "a spans", "3 matrices");
    REFUSED(p.kind = PTXMM_BATCH_STRIDED; p.batch = INT64_MAX;
            p.d.batch_stride = 2048, "d spans", "bits");
    // More than 2^31 elements, strides past 2^32: all 64-bit.
    ACCEPTED(p.m = (INT64_C(1) << 25) + 1; p.n = 64);
    ACCEPTED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 4; p.d.batch_stride = INT64_C(3221225472));
    // No extent at all.
    ACCEPTED(p.m = p.n = p.k = 0);
    ACCEPTED(p.m = 0; p.a.ld = INT64_MAX);
}

static void batches(void **unused)
{
    (void)unused;
    ACCEPTED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 8;
             p.d.batch_stride = 64 * 32); // A and B shared by all
    REFUSED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 8, "d.batch_stride is 0", "8 results");
    // 64 x 32 results: one after the other, or within the rows; anything else overlaps.
    REFUSED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 2; p.d.batch_stride = 64 * 32 - 1,
            "d.batch_stride is 2047, must be at least 2048", "overlap");
    ACCEPTED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 2; p.d.ld = 40;
             p.d.batch_stride = 63 * 40 + 32); // up to the last element, not to its row's end
    REFUSED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 2; p.d.ld = 40;
            p.d.batch_stride = 63 * 40 + 31, "d.batch_stride is 2551", "at least 2552");
    ACCEPTED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 4; p.d.ld = 4 * 32; p.d.batch_stride = 32);
    ACCEPTED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 4; p.d.ld = 4 * 40 - 8;
             p.d.batch_stride = 40);
    REFUSED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 5; p.d.ld = 4 * 32; p.d.batch_stride = 32,
            "d.batch_stride is 32", "all 5 results beside each other within the ld of 128");
    REFUSED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 4; p.d.ld = 4 * 32; p.d.batch_stride = 31,
            "d.batch_stride is 31", "at least 32 with");
    ACCEPTED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 9; p.m = 1; p.d.ld = 40;
             p.d.batch_stride = 32); // one row each
    ACCEPTED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 9; p.m = 0); // nothing overlaps
    ACCEPTED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 1; p.d.batch_stride = INT64_C(1) << 33);
    ACCEPTED(p.kind = PTXMM_BATCH_STRIDED; p.batch = 0);
    ACCEPTED(p.kind = PTXMM_GROUPED_M_MASKED; p.batch = 8);
}

static void scales(void **unused)
{
    (void)unused;
    REFUSED(p.a.scale = (enum ptxmm_scale_mode)7, "a.scale is 7", "0 to 6");
    REFUSED(p.a.scale_type = PTXMM_F32, "a.scale_type is F32", "NONE for scale NONE");
    REFUSED(p.a.scale_type = (enum ptxmm_type)99, "a.scale_type is 99", "0 to 15");
    REFUSED(p.a.scale_layout = (enum ptxmm_layout)1, "a.scale_layout is 1", "0");
    REFUSED(p.a.scale_ld = 1, "a.scale_ld is 1", "0");
    REFUSED(p.a.scale_ld = -1, "a.scale_ld is -1", "0");
    ACCEPTED(p.a.scale = PTXMM_SCALE_TENSOR);
    ACCEPTED(p.a.scale = PTXMM_SCALE_VECTOR; p.a.scale_type = PTXMM_F32);
    REFUSED(p.a.scale = PTXMM_SCALE_VECTOR;
            p.a.scale_type = PTXMM_BF16, "a.scale_type is BF16", "F32");
    REFUSED(p.a.scale = PTXMM_SCALE_VECTOR; p.a.scale_ld = 64, "a.scale_ld is 64", "VECTOR");
    ACCEPTED(p.a.scale = PTXMM_SCALE_BLOCK_1X32; p.a.scale_type = PTXMM_UE8M0);
    REFUSED(p.a.scale = PTXMM_SCALE_BLOCK_1X16;
            p.a.scale_type = PTXMM_UE8M0, "a.scale_type is UE8M0", "UE4M3");
    // 1x128 over 64 rows of K = 384: rows of 3 factors, or columns of 64. 128x128: rows of 3, or
    // columns of 1.
    ACCEPTED(p.k = 384; p.a.scale = PTXMM_SCALE_BLOCK_1X128; p.a.scale_ld = 3);
    REFUSED(p.k = 384; p.a.scale = PTXMM_SCALE_BLOCK_1X128;
            p.a.scale_ld = 2, "a.scale_ld is 2", "3 factors");
    REFUSED(p.a.scale = PTXMM_SCALE_BLOCK_1X128; p.a.scale_layout = PTXMM_MN_MAJOR;
            p.a.scale_ld = 63, "a.scale_ld is 63", "64");
    ACCEPTED(p.b.scale = PTXMM_SCALE_BLOCK_128X128; p.b.scale_layout = PTXMM_MN_MAJOR;
             p.b.scale_ld = 1);
    REFUSED(p.k = 300; p.b.scale = PTXMM_SCALE_BLOCK_128X128;
            p.b.scale_ld = 2, "b.scale_ld is 2", "3 factors");
    // The layout of the operand does not change its scales.
    REFUSED(p.k = 384; p.a.layout = PTXMM_MN_MAJOR; p.a.scale = PTXMM_SCALE_BLOCK_1X128;
            p.a.scale_ld = 2, "a.scale_ld is 2", "3");
}

static void epilogues(void **unused)
{
    (void)unused;
    REFUSED(p.epilogue.bias = (enum ptxmm_vector)3, "epilogue.bias is 3", "0 to 2");
    REFUSED(p.epilogue.bias = PTXMM_PER_ROW, "epilogue.bias_type is NONE", "there is a bias");
    REFUSED(p.epilogue.bias_type = PTXMM_F32, "epilogue.bias_type is F32", "no bias");
    ACCEPTED(p.epilogue.bias = PTXMM_PER_COLUMN; p.epilogue.bias_type = PTXMM_BF16);
    REFUSED(p.epilogue.activation = (enum ptxmm_activation)9, "epilogue.activation is 9", "0 to 8");
    ACCEPTED(p.epilogue.activation = PTXMM_GELU);
    ACCEPTED(p.epilogue.activation = PTXMM_GELU; p.epilogue.aux.type = PTXMM_BF16);
    REFUSED(p.epilogue.aux.type = PTXMM_BF16, "epilogue.aux.type is BF16", "NONE");
    REFUSED(p.epilogue.aux.ld = 32, "epilogue.aux.ld is not 0", "NONE");
    REFUSED(p.epilogue.activation = PTXMM_RELU_GRADIENT, "epilogue.aux.type is NONE", "gradient");
    ACCEPTED(p.epilogue.activation = PTXMM_RELU_GRADIENT; p.epilogue.aux.type = PTXMM_F32);
    REFUSED(p.epilogue.activation = PTXMM_GELU; p.epilogue.aux.type = PTXMM_BF16;
            p.epilogue.aux.ld = 31, "epilogue.aux.ld is 31", "32");
    REFUSED(p.epilogue.gated = 2, "epilogue.gated is 2", "0 to 1");
    REFUSED(p.epilogue.gated = 1; p.n = 33, "n is 33", "even");
    ACCEPTED(p.epilogue.gated = 1; p.d.ld = 16); // D has half of the columns
    REFUSED(p.epilogue.gated = 1; p.d.ld = 15, "d.ld is 15", "16");
    REFUSED(p.epilogue.gated = 1; p.epilogue.activation = PTXMM_SILU_GRADIENT;
            p.epilogue.aux.type = PTXMM_F32, "epilogue.gated is 1", "gradient");
    REFUSED(p.epilogue.row_scale = PTXMM_PER_COLUMN, "epilogue.row_scale is PER_COLUMN", "PER_ROW");
    REFUSED(p.epilogue.column_scale = PTXMM_PER_ROW, "epilogue.column_scale is PER_ROW",
            "PER_COLUMN");
    ACCEPTED(p.epilogue.row_scale = PTXMM_PER_ROW; p.epilogue.column_scale = PTXMM_PER_COLUMN;
             p.epilogue.amax = 1);
    REFUSED(p.epilogue.amax = -1, "epilogue.amax is -1", "0 to 1");
    REFUSED(p.epilogue.reserved[0] = 1, "epilogue.reserved[0] is 1", "0");
}

static void preferences(void **unused)
{
    (void)unused;
    REFUSED(p.prefer.deterministic = 2, "prefer.deterministic is 2", "0 to 1");
    REFUSED(p.prefer.batch_invariant = -1, "prefer.batch_invariant is -1", "0 to 1");
    REFUSED(p.prefer.sm_budget = -1, "prefer.sm_budget is -1", "at least 0");
    REFUSED(p.prefer.workspace_limit = -1, "prefer.workspace_limit is -1", "at least 0");
    REFUSED(p.prefer.no_programmatic_launch = 3, "prefer.no_programmatic_launch is 3", "0 to 1");
    REFUSED(p.prefer.cluster = 5, "prefer.cluster is 5", "0, 1, 2, 3, 4 or 8");
    REFUSED(p.prefer.cluster = -1, "prefer.cluster is -1", "0, 1, 2, 3, 4 or 8");
    REFUSED(p.prefer.cluster = 16, "prefer.cluster is 16", "0, 1, 2, 3, 4 or 8");
    REFUSED(p.prefer.cluster_rows = 3, "prefer.cluster_rows is 3", "0, 1, 2, 4 or 8");
    REFUSED(p.prefer.cluster_rows = 16, "prefer.cluster_rows is 16", "0, 1, 2, 4 or 8");
    REFUSED(p.prefer.cluster_rows = INT32_MIN, "prefer.cluster_rows is -2147483648", "0, 1, 2, 4 or 8");
    REFUSED(p.prefer.cluster = 2; p.prefer.cluster_rows = 4, "prefer.cluster_rows is 4", "divide cluster, 2");
    REFUSED(p.prefer.cluster = 3; p.prefer.cluster_rows = 2, "prefer.cluster_rows is 2", "divide cluster, 3");
    REFUSED(p.prefer.groups = 65, "prefer.groups is 65", "from 0 to 64");
    REFUSED(p.prefer.groups = -1, "prefer.groups is -1", "from 0 to 64");
    REFUSED(p.prefer.stages = 3, "prefer.stages is 3", "0 or from 4 to 64");
    REFUSED(p.prefer.stages = 65, "prefer.stages is 65", "0 or from 4 to 64");
    REFUSED(p.prefer.stages = -4, "prefer.stages is -4", "0 or from 4 to 64");
    ACCEPTED(p.prefer.stages = 64);
    ACCEPTED(p.prefer.cluster = 8; p.prefer.cluster_rows = 8; p.prefer.groups = 64);
    ACCEPTED(p.prefer.cluster = 3; p.prefer.cluster_rows = 1);
    ACCEPTED(p.prefer.cluster_rows = 4);
    REFUSED(p.prefer.reserved[1] = 1, "prefer.reserved[1] is 1", "0");
    REFUSED(p.prefer.kernel = "sm90_gemm_nothing", "prefer.kernel is \"sm90_gemm_nothing\"",
            "name of a kernel");
    REFUSED(p.prefer.kernel = "", "prefer.kernel is \"\"", "name of a kernel");
    ACCEPTED(p.prefer.kernel = ptxmm_kernel(0)->name);
}

/* Random structures: never a crash, always a status that agrees with the error, and what is
 * accepted can be selected for. */
static void fuzz(void **unused)
{
    (void)unused;
    uint64_t seed = case_seed();
    struct ptxmm_device device;
    assert_int_equal(ptxmm_device_known("h200", &device, NULL), PTXMM_OK);
    int good = 0;
    for (int i = 0; i < 200000; i++) {
        struct ptxmm_problem problem = case_problem(64, 32, 128);
        uint64_t *words = (uint64_t *)(void *)&problem;
        size_t count = sizeof problem / sizeof *words,
               changes = i % 10 ? 1 + case_random(&seed) % 3 : count;
        size_t kernel_at = offsetof(struct ptxmm_problem, prefer.kernel) / sizeof *words;
        for (size_t j = 0; j < changes; j++) {
            size_t at = changes == count ? j : case_random(&seed) % count;
            if (at == kernel_at)
                continue; // a pointer may not be random
            uint64_t bits = case_random(&seed);
            switch (case_random(&seed) % 5) {
            case 0: words[at] = bits; break;
            case 1: words[at] = bits % 8; break;
            case 2: words[at] = (bits % 8) << 32; break;
            case 3: words[at] = bits % 2 << (bits >> 8) % 64; break;
            case 4: words[at] ^= UINT64_C(1) << bits % 64; break;
            }
        }
        struct ptxmm_error error;
        enum ptxmm_status status = ptxmm_problem_check(&problem, &error);
        assert_int_equal(status, error.status);
        assert_true(status == PTXMM_OK ||
                    (status == PTXMM_ERROR_ARGUMENT && strlen(error.text) > 10));
        struct ptxmm_candidate candidates[2];
        size_t number;
        assert_int_equal(ptxmm_select(&device, &problem, candidates, 2, &number, &error), status);
        good += status == PTXMM_OK;
    }
    print_message("%d of 200000 were well formed\n", good);
    assert_true(good > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),       cmocka_unit_test(operands), cmocka_unit_test(spans),
        cmocka_unit_test(batches),     cmocka_unit_test(scales),   cmocka_unit_test(epilogues),
        cmocka_unit_test(preferences), cmocka_unit_test(fuzz),
    };
    return cmocka_run_group_tests_name("lib/problem", tests, NULL, NULL);
}
