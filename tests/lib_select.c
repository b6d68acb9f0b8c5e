/* lib_select.c -- which kernels are offered, which are rejected and why, and what is predicted. */
#include "lib_case.h"

#include <math.h>

#include "loader/kernels.h"

enum { MOST = 512 };

static struct ptxmm_device h200(void)
{
    struct ptxmm_device device;
    assert_int_equal(ptxmm_device_known("h200", &device, NULL), PTXMM_OK);
    return device;
}

static size_t choose(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                     struct ptxmm_candidate *candidates)
{
    struct ptxmm_error error;
    size_t count;
    if (ptxmm_select(device, problem, candidates, MOST, &count, &error))
        fail_msg("ptxmm_select: %s", error.text);
    assert_true(count == ptxmm_kernel_count() && count <= MOST);
    return count;
}

/* The verdict on one kernel. */
static struct ptxmm_candidate verdict(const struct ptxmm_problem *problem, const char *kernel)
{
    struct ptxmm_device device = h200();
    struct ptxmm_candidate candidates[MOST];
    size_t count = choose(&device, problem, candidates);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(candidates[i].kernel->name, kernel))
            return candidates[i];
    fail_msg("no verdict on %s", kernel);
    return candidates[0];
}

static const char bf16_kernel[] = "sm90_gemm_bf16_128x256";

static void expect(const char *what, const struct ptxmm_problem *problem, enum ptxmm_reason reason,
                   const char *field, int64_t has, int64_t needs)
{
    struct ptxmm_candidate c = verdict(problem, bf16_kernel);
    char text[256];
    int length = ptxmm_candidate_describe(&c, text, sizeof text);
    assert_int_equal(length, strlen(text));
    if (c.reason != reason ||
        (reason && (strcmp(c.field, field) || c.has != has || c.needs != needs)))
        fail_msg("%s: %s %s %lld %lld, must be %s %s %lld %lld; %s", what,
                 ptxmm_reason_name(c.reason), c.field, (long long)c.has, (long long)c.needs,
                 ptxmm_reason_name(reason), field, (long long)has, (long long)needs, text);
    if (reason && !strstr(text, field))
        fail_msg("%s does not name %s", text, field);
    assert_non_null(strstr(text, bf16_kernel));
}
#define EXPECT(change, reason, field, has, needs)                      \
    do {                                                               \
        struct ptxmm_problem p = case_problem(64, 64, 64);             \
        change;                                                        \
        expect(#change, &p, PTXMM_REASON_##reason, field, has, needs); \
    } while (0)

/* Alignment and strides: the operand is named, in bytes. */
static void alignment(void **unused)
{
    (void)unused;
    EXPECT((void)p, NONE, "", 0, 0);
    EXPECT(p.a.ld = 65, ALIGNMENT, "a.ld", 130, 16);
    EXPECT(p.b.ld = 65, ALIGNMENT, "b.ld", 130, 16);
    EXPECT(p.d.ld = 65, ALIGNMENT, "d.ld", 130, 16); // only D: the reason says D
    EXPECT(p.c.type = PTXMM_BF16; p.c.ld = 65, ALIGNMENT, "c.ld", 130, 16);
    EXPECT(p.a.ld = 72, NONE, "", 0, 0);
    EXPECT(p.k = 63, ALIGNMENT, "a.ld", 126, 16); // packed rows count too
    EXPECT(p.n = 63, ALIGNMENT, "d.ld", 126, 16);
    EXPECT(p.m = 63, NONE, "", 0, 0); // rows of a row-major operand may be any number
    EXPECT(p.k = 63; p.a.ld = 64; p.b.ld = 64, NONE, "", 0, 0);
    EXPECT(p.m = 1; p.k = 7; p.b.ld = 8, NONE, "", 0, 0); // one row: its pitch is never used
    EXPECT(p.m = 1; p.k = 7; p.b.ld = 8; p.a.ld = 7; p.d.ld = 65, NONE, "", 0, 0);
    EXPECT(p.m = 1; p.k = 7, ALIGNMENT, "b.ld", 14, 16);
    EXPECT(p.k = 0, NONE, "", 0, 0);
    // A pitch of 2 GiB is fine, of 2^40 bytes it is not.
    EXPECT(p.a.ld = INT64_C(1) << 30, NONE, "", 0, 0);
    EXPECT(p.a.ld = (INT64_C(1) << 39) - 8, NONE, "", 0, 0);
    EXPECT(p.a.ld = INT64_C(1) << 39, SIZE, "a.ld", INT64_C(1) << 40, (INT64_C(1) << 40) - 16);
    EXPECT(p.d.ld = INT64_C(1) << 39, SIZE, "d.ld", INT64_C(1) << 40, (INT64_C(1) << 40) - 16);
    // fp8 with ld = 4104: no kernel of these types yet, and that is what is said.
    EXPECT(p.k = 4096; p.a.type = p.b.type = PTXMM_E4M3;
           p.a.ld = 4104, TYPE, "a.type", PTXMM_E4M3, PTXMM_BF16);
    char text[256];
    struct ptxmm_problem p = case_problem(64, 64, 64);
    p.a.ld = 65;
    struct ptxmm_candidate c = verdict(&p, bf16_kernel);
    ptxmm_candidate_describe(&c, text, sizeof text);
    assert_string_equal(text,
                        "sm90_gemm_bf16_128x256: a.ld is 130 bytes, must be a multiple of 16");
}

/* A grid has at most 2^31 - 1 CTAs: with launch control it has a cluster for every tile. */
static void grids_fit(void **unused)
{
    (void)unused;
    struct ptxmm_device device;
    assert_int_equal(ptxmm_device_known("b200", &device, NULL), PTXMM_OK);
    struct ptxmm_candidate candidates[MOST];
    struct ptxmm_problem problem = case_problem(8, 8, 8);
    problem.kind = PTXMM_BATCH_STRIDED;
    problem.d.batch_stride = 64;
    size_t pairs = 0;
    for (problem.batch = INT32_MAX / 2; problem.batch <= INT32_MAX / 2 + 1; problem.batch++) {
        size_t count = choose(&device, &problem, candidates);
        for (size_t i = 0; i < count; i++) {
            const struct ptxmm_candidate *c = &candidates[i];
            if (c->reason == PTXMM_REASON_NONE)
                assert_in_range(c->ctas, 1, INT32_MAX);
            if (c->kernel->schedule != PTXMM_SCHEDULE_LAUNCH_CONTROL || c->kernel->cluster != 2 ||
                (c->reason != PTXMM_REASON_NONE && c->reason != PTXMM_REASON_SIZE))
                continue;
            pairs++;
            assert_int_equal(c->reason == PTXMM_REASON_SIZE, problem.batch > INT32_MAX / 2);
            if (c->reason) {
                assert_string_equal(c->field, "batch");
                assert_int_equal(c->needs, INT32_MAX / 2);
            }
        }
    }
    assert_true(pairs >= 2);
}

/* Every other reason that a pack of plain kernels has. */
static void reasons(void **unused)
{
    (void)unused;
    EXPECT(p.a.type = PTXMM_F16, TYPE, "a.type", PTXMM_F16, PTXMM_BF16);
    EXPECT(p.b.type = PTXMM_F16, TYPE, "b.type", PTXMM_F16, PTXMM_BF16);
    EXPECT(p.d.type = PTXMM_F32, TYPE, "d.type", PTXMM_F32, PTXMM_BF16);
    EXPECT(p.c.type = PTXMM_F32, TYPE, "c.type", PTXMM_F32, PTXMM_BF16);
    EXPECT(p.a.type = p.b.type = PTXMM_F32, TYPE, "a.type", PTXMM_F32,
           PTXMM_BF16); // f32 is never computed in less
    EXPECT(p.a.layout = PTXMM_MN_MAJOR, LAYOUT, "a.layout", PTXMM_MN_MAJOR, PTXMM_K_MAJOR);
    EXPECT(p.b.layout = PTXMM_MN_MAJOR, LAYOUT, "b.layout", PTXMM_MN_MAJOR, PTXMM_K_MAJOR);
    EXPECT(p.c.type = PTXMM_BF16;
           p.c.layout = PTXMM_COL_MAJOR, LAYOUT, "c.layout", PTXMM_COL_MAJOR, PTXMM_ROW_MAJOR);
    EXPECT(p.d.layout = PTXMM_COL_MAJOR, LAYOUT, "d.layout", PTXMM_COL_MAJOR, PTXMM_ROW_MAJOR);
    EXPECT(p.m = INT64_C(1) << 31, SIZE, "m", INT64_C(1) << 31, INT32_MAX);
    EXPECT(p.n = INT64_C(1) << 31, SIZE, "n", INT64_C(1) << 31, INT32_MAX);
    EXPECT(p.k = INT64_C(1) << 31, SIZE, "k", INT64_C(1) << 31, INT32_MAX);
    EXPECT(p.m = (INT64_C(1) << 25) + 1, NONE, "", 0, 0); // more than 2^31 elements of D
    EXPECT(p.m = INT32_MAX; p.n = 1 << 20, SIZE, "n", 1 << 20, 127 * 256); // more than 2^31 tiles
    EXPECT(p.kind = PTXMM_BATCH_POINTERS; p.batch = 2, KIND, "kind", PTXMM_BATCH_POINTERS,
           PTXMM_DENSE);
    EXPECT(p.kind = PTXMM_GROUPED_K; p.batch = 3, KIND, "kind", PTXMM_GROUPED_K, PTXMM_DENSE);
    EXPECT(p.a.scale = PTXMM_SCALE_VECTOR, SCALE, "a.scale", PTXMM_SCALE_VECTOR, PTXMM_SCALE_NONE);
    EXPECT(p.d.scale = PTXMM_SCALE_TENSOR, SCALE, "d.scale", PTXMM_SCALE_TENSOR, PTXMM_SCALE_NONE);
    EXPECT(p.epilogue.bias = PTXMM_PER_ROW;
           p.epilogue.bias_type = PTXMM_F32, EPILOGUE, "epilogue.bias", PTXMM_PER_ROW, 0);
    EXPECT(p.epilogue.activation = PTXMM_SILU, EPILOGUE, "epilogue.activation", PTXMM_SILU, 0);
    EXPECT(p.epilogue.gated = 1, EPILOGUE, "epilogue.gated", 1, 0);
    EXPECT(p.epilogue.row_scale = PTXMM_PER_ROW, EPILOGUE, "epilogue.row_scale", PTXMM_PER_ROW, 0);
    EXPECT(p.epilogue.column_scale = PTXMM_PER_COLUMN, EPILOGUE, "epilogue.column_scale",
           PTXMM_PER_COLUMN, 0);
    EXPECT(p.epilogue.amax = 1, EPILOGUE, "epilogue.amax", 1, 0);
    EXPECT(p.accumulate = PTXMM_ACCUMULATE_FAST, NONE, "", 0, 0); // allowed, not demanded
    EXPECT(p.prefer.deterministic = 1; p.prefer.batch_invariant = 1, NONE, "", 0, 0);
    const char *other = "sm90_gemm_bf16_128x128";
    EXPECT(p.prefer.kernel = other, NOT_ASKED, "prefer.kernel",
           (int64_t)kernels_index(ptxmm_kernel_by_name(other)),
           (int64_t)kernels_index(ptxmm_kernel_by_name(bf16_kernel)));
    EXPECT(p.prefer.kernel = bf16_kernel, NONE, "", 0, 0);
}

/* Strided batches: the distances that TMA takes, and numbers that 32 bits hold. */
static void batches(void **unused)
{
    (void)unused;
#define BATCH                   \
    p.kind = PTXMM_BATCH_STRIDED; \
    p.batch = 3;                \
    p.a.batch_stride = p.b.batch_stride = p.d.batch_stride = 4096
    const int64_t far = INT64_C(1) << 40, most = far - 16;
    EXPECT(BATCH, NONE, "", 0, 0);
    EXPECT(BATCH; p.a.batch_stride = p.b.batch_stride = 0, NONE, "", 0, 0); // shared
    EXPECT(BATCH; p.a.batch_stride = 64, NONE, "", 0, 0); // overlapping factors are the caller's
    EXPECT(BATCH; p.a.batch_stride = 4100, ALIGNMENT, "a.batch_stride", 8200, 16);
    EXPECT(BATCH; p.b.batch_stride = 4097, ALIGNMENT, "b.batch_stride", 8194, 16);
    EXPECT(BATCH; p.d.batch_stride = 4100, ALIGNMENT, "d.batch_stride", 8200, 16);
    EXPECT(BATCH; p.c.type = PTXMM_BF16;
           p.c.batch_stride = 4, ALIGNMENT, "c.batch_stride", 8, 16);
    EXPECT(BATCH; p.c.type = PTXMM_BF16, NONE, "", 0, 0); // one C for all
    EXPECT(BATCH; p.a.batch_stride = INT64_C(3221225472), NONE, "", 0, 0);
    EXPECT(BATCH; p.a.batch_stride = far / 2, SIZE, "a.batch_stride", far, most);
    EXPECT(BATCH; p.d.batch_stride = far / 2 - 8, NONE, "", 0, 0);
    EXPECT(BATCH; p.d.batch_stride = far / 2, SIZE, "d.batch_stride", far, most);
    EXPECT(BATCH; p.k = 0; p.a.batch_stride = p.b.batch_stride = 4097, NONE, "", 0, 0);
    EXPECT(BATCH; p.batch = 1; p.a.batch_stride = far + 1; p.d.batch_stride = 3, NONE, "", 0, 0);
    EXPECT(BATCH; p.batch = INT32_MAX, NONE, "", 0, 0);
    EXPECT(BATCH; p.batch = INT64_C(1) << 31, SIZE, "batch", INT64_C(1) << 31, INT32_MAX);
    EXPECT(BATCH; p.m = p.n = 4096; p.d.batch_stride = 1 << 24;
           p.batch = 1 << 23, SIZE, "batch", 1 << 23, INT32_MAX / (32 * 16));
#undef BATCH

    // Tiles of all products are counted and dealt out together; shared factors are read once.
    struct ptxmm_problem p = case_problem(512, 512, 512), shared;
    struct ptxmm_candidate one = verdict(&p, bf16_kernel), all, once;
    p.kind = PTXMM_BATCH_STRIDED;
    p.batch = 64;
    p.a.batch_stride = p.b.batch_stride = p.d.batch_stride = 512 * 512;
    all = verdict(&p, bf16_kernel);
    assert_true(one.tiles == 8 && all.tiles == 512 && all.ctas == 128 && all.waves == 4);
    assert_true(all.compute_seconds > 63.9 * one.compute_seconds &&
                all.memory_seconds > 63.9 * one.memory_seconds);
    assert_true(all.seconds > all.memory_seconds && all.seconds < 64 * one.seconds);
    shared = p;
    shared.b.batch_stride = 0;
    once = verdict(&shared, bf16_kernel);
    assert_true(once.memory_seconds < 0.7 * all.memory_seconds && once.seconds <= all.seconds);

    // One product of 512 wants small tiles, to be on many SMs; 64 of them want large ones.
    struct ptxmm_device device = h200();
    struct ptxmm_candidate candidates[MOST];
    struct ptxmm_problem alone = case_problem(512, 512, 512);
    choose(&device, &alone, candidates);
    assert_true(candidates[0].kernel->tile_m * candidates[0].kernel->tile_n <= 128 * 64);
    choose(&device, &p, candidates);
    assert_true(candidates[0].kernel->tile_m * candidates[0].kernel->tile_n >= 128 * 128);

    // A split kernel's counters are one per tile and CTA of a cluster, of all products.
    struct ptxmm_problem thin = case_problem(8, 64, 1 << 17);
    thin.prefer.kernel = "sm90_gemm_bf16_8x64_split";
    thin.prefer.workspace_limit = 1 << 26;
    struct ptxmm_candidate split = verdict(&thin, thin.prefer.kernel);
    assert_true(split.groups > 1);
    thin.kind = PTXMM_BATCH_STRIDED;
    thin.batch = 20000;
    thin.d.batch_stride = 8 * 64;
    split = verdict(&thin, thin.prefer.kernel);
    assert_true(split.tiles == 20000 && split.groups == 1 && split.workspace_bytes == 0);
}

/* What a device lacks. */
static void devices(void **unused)
{
    (void)unused;
    struct ptxmm_problem problem = case_problem(512, 512, 512);
    struct ptxmm_candidate candidates[MOST];
    struct ptxmm_device device = h200();
    device.shared_bytes = 101376;
    size_t count = choose(&device, &problem, candidates);
    for (size_t i = 0; i < count; i++) {
        const struct ptxmm_candidate *c = &candidates[i];
        if (!kernels_target_runs_on(c->kernel->target, 90) || c->kernel->shared_bytes <= 101376)
            continue;
        assert_int_equal(c->reason, PTXMM_REASON_SHARED_MEMORY);
        assert_string_equal(c->field, "shared_bytes");
        assert_true(c->has == 101376 && c->needs == c->kernel->shared_bytes);
    }

    assert_int_equal(ptxmm_device_known("b200", &device, NULL), PTXMM_OK);
    device.sm_count = 1;
    count = choose(&device, &problem, candidates);
    for (size_t i = 0; i < count; i++) {
        const struct ptxmm_candidate *c = &candidates[i];
        if (!kernels_target_runs_on(c->kernel->target, 100) || c->kernel->cluster == 1)
            continue;
        assert_int_equal(c->reason, PTXMM_REASON_CLUSTER);
        assert_string_equal(c->field, "sm_count");
        assert_true(c->has == 1 && c->needs == c->kernel->cluster);
    }
}

/* A kernel is offered only where its exact architecture, or its family, is. */
static void architectures(void **unused)
{
    (void)unused;
    struct ptxmm_candidate candidates[MOST];
    for (int arch = 50; arch <= 121; arch++) {
        struct ptxmm_device device = h200();
        device.arch = arch;
        for (int type = PTXMM_BF16; type <= PTXMM_F16; type++) {
            struct ptxmm_problem problem = case_problem(4096, 4096, 4096);
            problem.a.type = problem.b.type = problem.d.type = (enum ptxmm_type)type;
            size_t count = choose(&device, &problem, candidates);
            for (size_t i = 0; i < count; i++) {
                const struct ptxmm_candidate *c = &candidates[i];
                int matches = kernels_target_runs_on(c->kernel->target, arch);
                assert_int_equal(c->reason == PTXMM_REASON_ARCHITECTURE, !matches);
                if (!matches) {
                    assert_string_equal(c->field, "arch");
                    assert_true(c->has == arch &&
                                c->needs == kernels_target_arch(c->kernel->target));
                }
            }
        }
    }
}

/* ---- properties ---------------------------------------------------------------------------- */

static int64_t random_size(uint64_t *seed)
{
    static const int64_t marks[] = { 0,   1,   2,   8,   63,   64,   65,   127,   128,
                                     129, 255, 256, 257, 1000, 4096, 8192, 65536, 1 << 25 };
    uint64_t r = case_random(seed);
    switch (r % 3) {
    case 0: return marks[(r >> 8) % (sizeof marks / sizeof marks[0])];
    case 1: return (int64_t)((r >> 8) % 4000) * ((r >> 40) % 4 ? 8 : 1);
    default: return (int64_t)((r >> 8) % 200) * 64;
    }
}

static struct ptxmm_problem random_problem(uint64_t *seed)
{
    struct ptxmm_problem p = case_problem(random_size(seed), random_size(seed), random_size(seed));
    uint64_t r = case_random(seed);
    static const enum ptxmm_type types[] = { PTXMM_BF16, PTXMM_F16, PTXMM_E4M3, PTXMM_E5M2 };
    int is_fp8 = (r >> 50) % 3 == 0;
    p.a.type = types[2 * is_fp8 + r % 2];
    p.b.type = is_fp8 ? types[2 + (r >> 52) % 2] : p.a.type;
    p.d.type = !(r & 2) ? PTXMM_F32 : is_fp8 ? types[(r >> 53) % 2] : p.a.type;
    p.accumulate = (r >> 54) % 2 ? PTXMM_ACCUMULATE_FAST : PTXMM_ACCUMULATE_DEFAULT;
    if (r & 4)
        p.c.type = r & 8 ? p.d.type : PTXMM_F32;
    if ((r >> 4) % 4 == 0)
        p.a.layout = (enum ptxmm_layout)(r >> 8 & 1);
    if ((r >> 4) % 4 == 1)
        p.d.ld = p.n + (int64_t)((r >> 8) % 64);
    p.prefer.workspace_limit = (r >> 40) % 8 ? 0 : INT64_C(1) << (r >> 44) % 32;
    p.prefer.sm_budget = (r >> 16) % 3 ? 0 : 1 + (int)((r >> 20) % 200);
    if ((r >> 32) % 8 == 0)
        p.epilogue.activation = PTXMM_RELU;
    return p;
}

static void check_usable(const struct ptxmm_candidate *c, const struct ptxmm_device *device,
                         const struct ptxmm_problem *p)
{
    const struct ptxmm_kernel_info *kernel = c->kernel;
    assert_true(kernels_target_runs_on(kernel->target, device->arch));
    int is_multicast = kernel->algorithm == PTXMM_MULTICAST;
    int64_t tiles_m = (p->m + kernel->tile_m - 1) / kernel->tile_m,
            tiles_n = (p->n + kernel->tile_n - 1) / kernel->tile_n;
    if (is_multicast && tiles_m > 0 && tiles_n > 0) { // a rectangle of powers of two, and whole ones
        int64_t rows = c->cluster_rows, columns = c->cluster / (rows ? rows : 1);
        assert_true(rows >= 1 && columns >= 1 && rows * columns == c->cluster && c->cluster <= 8 &&
                    !(rows & (rows - 1)) && !(columns & (columns - 1)));
        tiles_m = (tiles_m + rows - 1) / rows * rows;
        tiles_n = (tiles_n + columns - 1) / columns * columns;
    }
    int64_t tiles = tiles_m * tiles_n;
    assert_true(c->tiles == tiles);
    if (tiles == 0)
        return;
    int64_t sms = p->prefer.sm_budget && p->prefer.sm_budget < device->sm_count
                      ? p->prefer.sm_budget
                      : device->sm_count;
    int64_t items = tiles * c->groups;
    assert_true(c->groups >= 1 && c->cluster >= 1 && c->ctas % c->cluster == 0);
    assert_true(c->workspace_bytes <= p->prefer.workspace_limit);
    if (c->groups == 1) {
        assert_int_equal(c->workspace_bytes, 0);
    } else {
        assert_int_equal(c->workspace_bytes,
                         PTXMM_WORKSPACE_COUNTERS + items * kernel->tile_m * kernel->tile_n * 4);
        assert_true(c->tiles * (is_multicast ? 8 : c->cluster * 4) <= PTXMM_WORKSPACE_COUNTERS);
    }
    int64_t slices = (p->k + kernel->tile_k - 1) / kernel->tile_k;
    if (kernel->algorithm == PTXMM_SPLIT)
        assert_true(c->cluster <= 8 && c->ctas <= sms &&
                    c->cluster * c->groups <= (slices ? slices : 1));
    else if (is_multicast) // a CTA for every tile and group; of several groups all at a time
        assert_true(c->ctas == items && (c->ctas <= sms || (c->groups == 1 && sms == device->sm_count)) &&
                    c->groups <= (slices ? slices : 1));
    else
        assert_true(c->groups == 1 && c->cluster == kernel->cluster);
    if (kernel->schedule == PTXMM_SCHEDULE_STATIC && c->cluster == 1 && !is_multicast) {
        assert_true(c->ctas >= 1 && c->ctas <= sms && c->ctas <= items);
        // No more rounds than all SMs would take, and no CTA that could be left out.
        int64_t rounds = (items + sms - 1) / sms;
        assert_true((items + c->ctas - 1) / c->ctas == rounds);
        assert_true(c->ctas == 1 || (items + c->ctas - 2) / (c->ctas - 1) > rounds);
        assert_true(fabs(c->waves - (double)items / (double)c->ctas) < 1e-9);
    }
    // The roofline is a bound, and it is what it says.
    assert_true(c->seconds > c->compute_seconds && c->seconds > c->memory_seconds);
    int is_fp8 = p->a.type == PTXMM_E4M3 || p->a.type == PTXMM_E5M2;
    if (is_fp8)
        assert_true(kernel->promotion == 128 || p->accumulate == PTXMM_ACCUMULATE_FAST);
    double bytes =
        (is_fp8 ? 1.0 : 2.0) * ((double)p->m * (double)p->k + (double)p->n * (double)p->k) +
        (double)p->m * (double)p->n * (p->d.type == PTXMM_F32 ? 4 : 2) * (p->c.type ? 2 : 1);
    assert_true(fabs(c->memory_seconds / (bytes / (double)device->memory_bytes_per_second) - 1) <
                1e-9);
    assert_true(c->tensor_busy >= 0 && c->tensor_busy < 1);
    if (p->k > 0)
        assert_true(c->tensor_busy > 0 && c->compute_seconds > 0);
}

static void properties(void **unused)
{
    (void)unused;
    uint64_t seed = case_seed();
    static const char *const names[] = { "h200", "b200" };
    int usable = 0, rejected = 0;
    for (int i = 0; i < 8000; i++) {
        struct ptxmm_device device;
        assert_int_equal(ptxmm_device_known(names[i % 2], &device, NULL), PTXMM_OK);
        struct ptxmm_problem problem = random_problem(&seed);
        struct ptxmm_candidate candidates[MOST];
        size_t count = choose(&device, &problem, candidates);
        unsigned char seen[MOST] = { 0 }; // every kernel once
        for (size_t j = 0; j < count; j++) {
            const struct ptxmm_candidate *c = &candidates[j], *before = j ? c - 1 : NULL;
            assert_false(seen[kernels_index(c->kernel)]++);
            char text[256], name[128];
            assert_true(ptxmm_candidate_describe(c, text, sizeof text) > 10);
            snprintf(name, sizeof name, "%s: ", c->kernel->name);
            assert_memory_equal(text, name, strlen(name));
            if (c->reason == PTXMM_REASON_NONE) {
                check_usable(c, &device, &problem);
                assert_true(!before ||
                            (before->reason == PTXMM_REASON_NONE && before->seconds <= c->seconds));
                usable++;
            } else {
                assert_true(c->field && c->field[0] && c->has != c->needs && c->seconds == 0 &&
                            c->tiles == 0);
                assert_non_null(strstr(text, c->field));
                if (before && before->reason != PTXMM_REASON_NONE)
                    assert_true(kernels_index(before->kernel) < kernels_index(c->kernel));
                rejected++;
            }
        }
        // The same again: a pure function. And short arrays hold the front of it.
        struct ptxmm_candidate again[MOST];
        choose(&device, &problem, again);
        for (size_t j = 0; j < count; j++)
            assert_true(again[j].kernel == candidates[j].kernel &&
                        again[j].seconds == candidates[j].seconds);
        size_t number;
        struct ptxmm_candidate first;
        assert_int_equal(ptxmm_select(&device, &problem, &first, 1, &number, NULL), PTXMM_OK);
        assert_true(number == count && first.kernel == candidates[0].kernel);
        assert_int_equal(ptxmm_select(&device, &problem, NULL, 0, &number, NULL), PTXMM_OK);
        assert_int_equal(number, count);
    }
    print_message("%d verdicts usable, %d rejected\n", usable, rejected);
    assert_true(usable > 5000 && rejected > 10000);
}

/* fp8 is added up in f32 unless the caller allows less, and then only where that is faster. */
static void accumulation(void **unused)
{
    (void)unused;
    const char *fast_kernel = "sm90_gemm_e4m3_e5m2_128x256";
    struct ptxmm_device device = h200();
    struct ptxmm_problem problem = case_problem(8192, 8192, 8192);
    struct ptxmm_candidate candidates[MOST];
    problem.a.type = PTXMM_E4M3;
    problem.b.type = PTXMM_E5M2;
    choose(&device, &problem, candidates);
    size_t promoted = 0, usable = 0;
    for (; candidates[promoted].reason == PTXMM_REASON_NONE; promoted++)
        assert_int_equal(candidates[promoted].kernel->promotion, 128);
    assert_true(promoted > 0);
    char text[256];
    struct ptxmm_candidate c = verdict(&problem, fast_kernel);
    assert_int_equal(c.reason, PTXMM_REASON_ACCUMULATE);
    ptxmm_candidate_describe(&c, text, sizeof text);
    assert_string_equal(text,
                        "sm90_gemm_e4m3_e5m2_128x256: accumulate is DEFAULT, must be FAST");

    double seconds = candidates[0].seconds;
    problem.accumulate = PTXMM_ACCUMULATE_FAST;
    choose(&device, &problem, candidates);
    while (candidates[usable].reason == PTXMM_REASON_NONE)
        usable++;
    assert_true(usable > promoted);
    assert_true(candidates[0].kernel->promotion == 0 && candidates[0].seconds < seconds);
}

static double best_seconds(int64_t m, int64_t n, int64_t k)
{
    struct ptxmm_device device = h200();
    struct ptxmm_problem problem = case_problem(m, n, k);
    struct ptxmm_candidate candidates[MOST];
    choose(&device, &problem, candidates);
    assert_int_equal(candidates[0].reason, PTXMM_REASON_NONE);
    return candidates[0].seconds;
}

/* A larger problem never takes noticeably less time, as long as rows start on 128 bytes. (It may
 * take a little less: another raster, another number of CTAs; and half a tile of rows outside of the
 * matrix, which TMA fills slowly, costs some.) */
static void monotone(void **unused)
{
    (void)unused;
    static const int64_t others[] = { 64, 1024, 4096, 16384 };
    for (size_t i = 0; i < 4; i++) {
        double m_before = 0, n_before = 0, k_before = 0;
        for (int64_t size = 64; size <= 20000; size += 64 * (1 + size / 512)) {
            double m = best_seconds(size, others[i], 4096), n = best_seconds(others[i], size, 4096),
                   k = best_seconds(4096, others[i], size);
            if (m < 0.95 * m_before || n < 0.95 * n_before || k < 0.97 * k_before)
                fail_msg("size %lld, other %lld: m %g after %g, n %g after %g, k %g after %g",
                         (long long)size, (long long)others[i], m, m_before, n, n_before, k,
                         k_before);
            m_before = m, n_before = n, k_before = k;
        }
    }
}

/* Measured on an H200 (cool: 8 launches after a rest), in microseconds; the prediction must be
 * near. */
static void near_measurements(void **unused)
{
    (void)unused;
    static const struct {
        int64_t m, n, k;
        double us;
    } rows[] = {
        { 8192, 8192, 8192, 1325 }, { 4096, 4096, 4096, 168 },  { 16384, 8192, 8192, 2624 },
        { 8192, 4096, 7168, 573 },  { 2048, 2048, 2048, 25.6 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double us = 1e6 * best_seconds(rows[i].m, rows[i].n, rows[i].k);
        if (fabs(us / rows[i].us - 1) > 0.12)
            fail_msg("%lld x %lld x %lld: predicted %.1f us, measured %.1f us",
                     (long long)rows[i].m, (long long)rows[i].n, (long long)rows[i].k, us,
                     rows[i].us);
    }
}

/* On an H200, pairs, in microseconds less 2 for the events: the kernel that was the fastest there, or within 1 % of
 * it, is chosen, and its time is near the prediction. (fp8: fast accumulation allowed.) */
static void measurements(void **unused)
{
    (void)unused;
    static const struct {
        enum ptxmm_type type;
        int64_t m, n, k;
        const char *kernel;
        double us;
    } rows[] = {
        { PTXMM_BF16, 1, 8192, 8192, "8x64_split", 36.11 },
        { PTXMM_BF16, 1, 28672, 4096, "8x64_split", 60.43 },
        { PTXMM_BF16, 4, 2112, 7168, "8x64_split", 13.10 },
        { PTXMM_BF16, 32, 8192, 8192, "32x64_split", 35.38 },
        { PTXMM_BF16, 64, 2112, 7168, "64x64_split", 14.48 },
        { PTXMM_BF16, 64, 6144, 4096, "64x64", 17.01 },
        { PTXMM_BF16, 64, 8192, 8192, "64x64", 35.31 },
        { PTXMM_BF16, 128, 4096, 4096, "64x64", 13.52 },
        { PTXMM_BF16, 128, 6144, 4096, "64x96", 17.68 },
        { PTXMM_BF16, 128, 7168, 16384, "128x64_multicast", 64.91 },
        { PTXMM_BF16, 128, 28672, 4096, "128x256", 64.24 },
        { PTXMM_BF16, 192, 6144, 4096, "64x96", 24.02 },
        { PTXMM_BF16, 256, 256, 65536, "128x64_multicast", 24.30 },
        { PTXMM_BF16, 256, 1024, 1024, "64x64", 5.90 },
        { PTXMM_BF16, 256, 7168, 2048, "128x128", 15.60 },
        { PTXMM_BF16, 512, 256, 8192, "128x64_multicast", 11.70 },
        { PTXMM_BF16, 512, 512, 16384, "128x128_multicast", 21.10 },
        { PTXMM_BF16, 753, 1528, 3264, "128x80_multicast", 14.69 },
        { PTXMM_BF16, 768, 768, 768, "64x96", 5.39 },
        { PTXMM_BF16, 1024, 1024, 1024, "128x64", 7.22 },
        { PTXMM_BF16, 1024, 1024, 4096, "64x128", 18.51 },
        { PTXMM_BF16, 1536, 1536, 1536, "128x176", 14.58 },
        { PTXMM_BF16, 2048, 2048, 2048, "128x256", 25.01 },
        { PTXMM_BF16, 4096, 1024, 1024, "128x256", 15.28 },
        { PTXMM_BF16, 4096, 2112, 7168, "128x176", 157.20 },
        { PTXMM_BF16, 4096, 4096, 256, "128x128", 17.14 },
        { PTXMM_BF16, 4096, 4096, 4096, "128x256", 170.99 },
        { PTXMM_BF16, 4096, 6144, 4096, "128x256", 256.94 },
        { PTXMM_BF16, 4096, 24576, 1536, "128x128", 395.50 },
        { PTXMM_BF16, 4096, 28672, 4096, "128x256", 1193.36 },
        { PTXMM_BF16, 4096, 32768, 512, "128x128", 192.85 },
        { PTXMM_BF16, 8192, 8192, 8192, "128x256", 1346.19 },
        { PTXMM_E4M3, 1, 8192, 8192, "8x64_split_promoted", 20.98 },
        { PTXMM_E4M3, 1, 28672, 4096, "8x64_split_promoted", 32.88 },
        { PTXMM_E4M3, 16, 8192, 8192, "16x64_split_promoted", 21.17 },
        { PTXMM_E4M3, 64, 6144, 4096, "64x64", 11.06 },
        { PTXMM_E4M3, 64, 8192, 8192, "64x64", 20.88 },
        { PTXMM_E4M3, 64, 8192, 28672, "64x64", 58.38 },
        { PTXMM_E4M3, 96, 5120, 5120, "64x128", 11.66 },
        { PTXMM_E4M3, 128, 6144, 4096, "128x64", 10.67 },
        { PTXMM_E4M3, 256, 256, 65536, "128x64_multicast_promoted", 16.29 },
        { PTXMM_E4M3, 3072, 3072, 3072, "128x192", 40.82 },
        { PTXMM_E4M3, 4096, 2112, 7168, "128x176", 83.02 },
        { PTXMM_E4M3, 4096, 4096, 4096, "128x256", 91.47 },
        { PTXMM_E4M3, 4096, 8192, 8192, "128x256", 350.93 },
        { PTXMM_E4M3, 4096, 24576, 1536, "128x128", 214.26 },
        { PTXMM_E4M3, 4096, 28672, 4096, "128x128", 626.99 },
        { PTXMM_E4M3, 8192, 8192, 8192, "128x256", 700.91 },
    };
    struct ptxmm_device device = h200();
    struct ptxmm_candidate candidates[MOST];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ptxmm_problem problem = case_problem(rows[i].m, rows[i].n, rows[i].k);
        int is_fp8 = rows[i].type == PTXMM_E4M3;
        problem.a.type = problem.b.type = rows[i].type;
        problem.accumulate = PTXMM_ACCUMULATE_FAST;
        problem.prefer.workspace_limit = 256 << 20;
        choose(&device, &problem, candidates);
        const char *name = candidates[0].kernel->name;
        double us = 1e6 * candidates[0].seconds;
        if (strcmp(name + strlen(is_fp8 ? "sm90_gemm_e4m3_e4m3_" : "sm90_gemm_bf16_"), rows[i].kernel) ||
            fabs(us / rows[i].us - 1) > 0.12)
            fail_msg("%lld x %lld x %lld: %s, %.1f us; measured %s, %.1f us", (long long)rows[i].m,
                     (long long)rows[i].n, (long long)rows[i].k, name, us, rows[i].kernel,
                     rows[i].us);
    }
}

/* Small problems want small tiles: more of the SMs work. */
static void small_problems(void **unused)
{
    (void)unused;
    struct ptxmm_device device = h200();
    struct ptxmm_candidate candidates[MOST];
    struct ptxmm_problem problem = case_problem(1024, 1024, 1024);
    choose(&device, &problem, candidates);
    assert_string_equal(candidates[0].kernel->name, "sm90_gemm_bf16_128x64");
    problem.prefer.kernel = bf16_kernel;
    choose(&device, &problem, candidates);
    assert_string_equal(candidates[0].kernel->name, bf16_kernel);
    assert_int_equal(candidates[1].reason, candidates[1].kernel->target[3] == '9'
                                               ? PTXMM_REASON_NOT_ASKED
                                               : PTXMM_REASON_ARCHITECTURE);
}

/* More workspace is never a worse promise, is taken where it helps, and a byte less than what was
 * taken is another choice. */
static void workspace_limits(void **unused)
{
    (void)unused;
    static const char *const names[] = { "sm90_gemm_bf16_8x64_split", "sm90_gemm_bf16_64x64_split",
                                         "sm90_gemm_bf16_128x128_split",
                                         "sm90_gemm_bf16_128x64_multicast",
                                         "sm90_gemm_bf16_128x128_multicast" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(names[i]);
        struct ptxmm_problem problem = case_problem(kernel->tile_m, kernel->tile_n, 1 << 17);
        struct ptxmm_candidate without = verdict(&problem, names[i]), before = without;
        assert_true(without.groups == 1 &&
                    (without.cluster > 1) == (kernel->algorithm == PTXMM_SPLIT)); // one tile
        for (int bit = 10; bit < 30; bit++) {
            problem.prefer.workspace_limit = INT64_C(1) << bit;
            struct ptxmm_candidate c = verdict(&problem, names[i]);
            assert_true(c.workspace_bytes <= problem.prefer.workspace_limit);
            assert_true(c.seconds <= before.seconds);
            before = c;
        }
        assert_true(before.groups > 1 && before.seconds < 0.8 * without.seconds);
        problem.prefer.workspace_limit = before.workspace_bytes - 1;
        struct ptxmm_candidate fewer = verdict(&problem, names[i]);
        assert_true(fewer.workspace_bytes < before.workspace_bytes &&
                    fewer.seconds >= before.seconds);
    }
}

static void offences(void **unused)
{
    (void)unused;
    struct ptxmm_problem problem = case_problem(64, 64, 64);
    struct ptxmm_candidate candidate;
    struct ptxmm_error error;
    size_t count;
    struct ptxmm_device device = h200();
    case_check_error(&error, ptxmm_select(&device, &problem, &candidate, 1, NULL, &error),
                     PTXMM_ERROR_ARGUMENT, "count is NULL", NULL);
    case_check_error(&error, ptxmm_select(NULL, &problem, &candidate, 1, &count, &error),
                     PTXMM_ERROR_ARGUMENT, "device is NULL", NULL);
    case_check_error(&error, ptxmm_select(&device, NULL, &candidate, 1, &count, &error),
                     PTXMM_ERROR_ARGUMENT, "problem is NULL", NULL);
    case_check_error(&error, ptxmm_select(&device, &problem, NULL, 1, &count, &error),
                     PTXMM_ERROR_ARGUMENT, "candidates is NULL", NULL);
#define OFFENCE(member, value)                                                               \
    device = h200();                                                                         \
    device.member = value;                                                                   \
    case_check_error(&error, ptxmm_select(&device, &problem, &candidate, 1, &count, &error), \
                     PTXMM_ERROR_ARGUMENT, "device." #member, NULL);                         \
    assert_int_equal(count, 0);
    OFFENCE(arch, 0)
    OFFENCE(sm_count, 0)
    OFFENCE(shared_bytes, -1)
    OFFENCE(clock_khz, 0)
    OFFENCE(l2_bytes, -5)
    OFFENCE(memory_bytes_per_second, 0)
    OFFENCE(reserved[1], 1)
    char text[64];
    assert_true(ptxmm_candidate_describe(NULL, text, sizeof text) > 0);
    struct ptxmm_candidate none = { 0 };
    assert_true(ptxmm_candidate_describe(&none, text, sizeof text) > 0);
    struct ptxmm_candidate rejected = { .kernel = ptxmm_kernel(0),
                                        .reason = PTXMM_REASON_ALIGNMENT,
                                        .field = "a.ld",
                                        .has = 130,
                                        .needs = 16 };
    int full = ptxmm_candidate_describe(&rejected, NULL, 0);
    assert_true(full > 20 && ptxmm_candidate_describe(&rejected, text, 10) == full &&
                strlen(text) == 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alignment),         cmocka_unit_test(reasons),
        cmocka_unit_test(grids_fit),         cmocka_unit_test(batches),
        cmocka_unit_test(devices),           cmocka_unit_test(architectures),
        cmocka_unit_test(accumulation),      cmocka_unit_test(properties),
        cmocka_unit_test(monotone),          cmocka_unit_test(near_measurements),
        cmocka_unit_test(measurements),
        cmocka_unit_test(small_problems),    cmocka_unit_test(workspace_limits),
        cmocka_unit_test(offences),
    };
    return cmocka_run_group_tests_name("lib/select", tests, NULL, NULL);
}
