/* lib_plan.c -- plans: what is launched, byte by byte, and plans that cannot be made. */
#include "lib_fixture.h"

#include "loader/kernels.h"

static const char wide[] = "sm90_gemm_bf16_128x256", narrow[] = "sm90_gemm_bf16_128x128";

static void check_batch_map(const unsigned char *bytes, const char *name, uint64_t address,
                            uint64_t inner, uint64_t outer, uint64_t matrices, uint64_t pitch,
                            uint64_t apart, uint32_t box_inner, uint32_t box_outer, int type)
{
    struct stub_map map;
    memcpy(&map, bytes, sizeof map);
    if (map.address != address || map.dims[0] != inner || map.dims[1] != outer ||
        map.dims[2] != matrices || map.strides[0] != pitch || map.strides[1] != apart ||
        map.box[0] != box_inner || map.box[1] != box_outer || map.box[2] != 1 || map.type != type)
        fail_msg("map %s: address %#llx dims %llu x %llu x %llu strides %llu, %llu box %u x %u x %u "
                 "type %u",
                 name, (unsigned long long)map.address, (unsigned long long)map.dims[0],
                 (unsigned long long)map.dims[1], (unsigned long long)map.dims[2],
                 (unsigned long long)map.strides[0], (unsigned long long)map.strides[1],
                 map.box[0], map.box[1], map.box[2], map.type);
    assert_true(map.rank == 3 && map.element_strides[0] == 1 && map.element_strides[1] == 1 &&
                map.element_strides[2] == 1);
    assert_true(map.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
                map.swizzle == CU_TENSOR_MAP_SWIZZLE_128B);
    assert_int_equal(map.fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Of a product by itself. Nothing follows its one matrix, so the way to the next is any. */
static void check_map(const unsigned char *bytes, const char *name, uint64_t address,
                      uint64_t inner, uint64_t outer, uint64_t pitch, uint32_t box_inner,
                      uint32_t box_outer, int type)
{
    check_batch_map(bytes, name, address, inner, outer, 1, pitch, pitch, box_inner, box_outer,
                    type);
}

/* ---- what is launched ---------------------------------------------------------------------- */

static void launch_of_a_plain_problem(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem =
        case_problem(1000, 3000, 200); // 8 x 12 tiles of 128 x 256, 4 slices
    problem.a.ld = 208;
    problem.d.ld = 3008;
    problem.prefer.kernel = wide;
    struct ptxmm_arguments arguments = case_arguments();
    arguments.alpha = 0.5f;
    const struct stub_launch *launch = run(f, &problem, &arguments);
    const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(wide);

    assert_string_equal(case_stub()->function_name(launch->function), wide);
    assert_true(launch->grid[0] == 96 && launch->grid[1] == 1 && launch->grid[2] == 1);
    assert_true(launch->block[0] == kernel->threads && launch->block[1] == 1 &&
                launch->block[2] == 1);
    assert_int_equal(launch->shared, kernel->shared_bytes);
    assert_true(launch->cluster == 0 && launch->programmatic == 1 && launch->stream == NULL);

    struct ptxmm_gemm_args args;
    memcpy(&args, launch->arguments, sizeof args);
    check_map((unsigned char *)&args.map_a, "a", arguments.a, 200, 1000, 208 * 2, 64, 128,
              CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    check_map((unsigned char *)&args.map_b, "b", arguments.b, 200, 3000, 200 * 2, 64, 256,
              CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    check_map((unsigned char *)&args.map_d, "d", arguments.d, 3000, 1000, 3008 * 2, 64, 64,
              CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    struct ptxmm_gemm_args expected = {
        .map_a = args.map_a,
        .map_b = args.map_b,
        .map_d = args.map_d,
        .abi_version = PTXMM_ABI_VERSION,
        .m = 1000,
        .n = 3000,
        .k_slices = 4,
        .tiles_m = 8,
        .tiles_n = 12,
        .raster = args.raster,
        .d = arguments.d,
        .ldd = 3008,
        .alpha = 0.5f,
        .batch = 1,
    };
    assert_memory_equal(&args, &expected, sizeof args); // everything else is 0
    assert_true(args.raster >= 1 && args.raster <= 8);
}

static void launch_with_c(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    problem.a.type = problem.b.type = PTXMM_F16;
    problem.c.type = problem.d.type = PTXMM_F32;
    problem.c.ld = 260;
    problem.alpha_on_device = problem.beta_on_device = 1;
    problem.prefer.no_programmatic_launch = 1;
    struct ptxmm_arguments arguments = case_arguments();
    arguments.c = arguments.d + 0x100000;
    arguments.alpha = 7; // not used
    arguments.alpha_at = arguments.d + 0x200004;
    arguments.beta_at = arguments.d + 0x200008;
    const struct stub_launch *launch = run(f, &problem, &arguments);
    struct ptxmm_gemm_args args;
    memcpy(&args, launch->arguments, sizeof args);
    assert_true(args.c == arguments.c && args.ldc == 260 && args.ldd == 256);
    assert_true(args.alpha_at == arguments.alpha_at && args.beta_at == arguments.beta_at &&
                args.alpha == 0 && args.beta == 0);
    assert_int_equal(launch->programmatic, 0);
    check_map((unsigned char *)&args.map_d, "d", arguments.d, 256, 256, 1024, 32, 64,
              CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
    // beta = 0 on the host: C is not read, and may be anything.
    problem.alpha_on_device = problem.beta_on_device = 0;
    arguments.alpha_at = arguments.beta_at = 0;
    arguments.c = 0;
    launch = run(f, &problem, &arguments);
    memcpy(&args, launch->arguments, sizeof args);
    assert_true(args.c == 0 && args.beta == 0 && args.alpha == 7);
    arguments.c = arguments.d; // in place
    arguments.beta = -2;
    launch = run(f, &problem, &arguments);
    memcpy(&args, launch->arguments, sizeof args);
    assert_true(args.c == arguments.d && args.beta == -2);
}

/* A batch: a third dimension in the maps, two strides in the block, a grid for all tiles. */
static void launch_of_a_batch(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(300, 520, 200); // 3 x 3 tiles of 128 x 256
    problem.kind = PTXMM_BATCH_STRIDED;
    problem.batch = 5;
    problem.a.batch_stride = 300 * 200 + 64;
    problem.c.type = PTXMM_BF16;
    problem.c.batch_stride = INT64_C(3221225472);
    problem.d.ld = 5 * 528; // beside each other
    problem.d.batch_stride = 528;
    problem.prefer.kernel = wide;
    problem.prefer.sm_budget = 8;
    struct ptxmm_arguments arguments = case_arguments();
    arguments.c = arguments.d + 0x100000;
    arguments.beta = 1;
    const struct stub_launch *launch = run(f, &problem, &arguments);
    struct ptxmm_gemm_args args;
    memcpy(&args, launch->arguments, sizeof args);
    const int bf16 = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    check_batch_map((unsigned char *)&args.map_a, "a", arguments.a, 200, 300, 5, 400,
                    2 * (300 * 200 + 64), 64, 128, bf16);
    check_batch_map((unsigned char *)&args.map_b, "b", arguments.b, 200, 520, 5, 400, 0, 64, 256,
                    bf16); // one for all
    check_batch_map((unsigned char *)&args.map_d, "d", arguments.d, 520, 300, 5, 5 * 528 * 2,
                    528 * 2, 64, 64, bf16);
    assert_true(args.batch == 5 && args.tiles_m == 3 && args.tiles_n == 3);
    assert_true(args.batch_stride_d == 528 && args.batch_stride_c == 3221225472 && args.ldd == 2640);
    assert_int_equal(launch->grid[0], 8); // 45 tiles in 6 rounds

    // One product is one, whatever is said of the next.
    problem.batch = 1;
    problem.a.batch_stride = INT64_C(1) << 33;
    problem.d.batch_stride = 1;
    launch = run(f, &problem, &arguments);
    memcpy(&args, launch->arguments, sizeof args);
    check_map((unsigned char *)&args.map_a, "a", arguments.a, 200, 300, 400, 64, 128, bf16);
    check_map((unsigned char *)&args.map_d, "d", arguments.d, 520, 300, 5280, 64, 64, bf16);
    assert_true(args.batch == 1 && args.batch_stride_d == 0 && args.batch_stride_c == 0);

    // Neither A nor B is read where K is 0, and their strides may be anything.
    problem.batch = 2;
    problem.k = 0;
    problem.a.batch_stride = 7;
    problem.d.batch_stride = 528;
    launch = run(f, &problem, &arguments);
    memcpy(&args, launch->arguments, sizeof args);
    check_batch_map((unsigned char *)&args.map_a, "a", arguments.d, 1, 300, 2, 16, 16, 64, 128,
                    bf16);
}

/* Blackwell: clusters, a grid for launch control, an instruction descriptor, kernels that take
 * either 16-bit type. The family's kernels serve its later members too. */
static void launch_on_sm100(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_arguments arguments = case_arguments();
    for (size_t i = 0; i < ptxmm_kernel_count(); i++) {
        const struct ptxmm_kernel_info *kernel = ptxmm_kernel(i);
        if (kernels_target_arch(kernel->target) != 100)
            continue;
        f->stub->devices[0].major = 10;
        f->stub->devices[0].minor = i % 2 ? 3 : 0;
        f->stub->devices[0].sms = 148;
        f->stub->launches = 0;
        struct ptxmm_problem problem = case_problem(4096, 4096, 1024);
        problem.a.type = PTXMM_F16;
        problem.d.type = kernel->d == PTXMM_BF16_OR_F16 ? PTXMM_F16 : kernel->d;
        problem.prefer.kernel = kernel->name;
        const struct stub_launch *launch = run(f, &problem, &arguments);
        struct ptxmm_gemm_args args;
        memcpy(&args, launch->arguments, sizeof args);
        int64_t tiles = 4096 / kernel->tile_m * (4096 / kernel->tile_n);
        assert_int_equal(launch->cluster, kernel->cluster > 1 ? kernel->cluster : 0);
        assert_int_equal(launch->grid[0] % kernel->cluster, 0);
        if (kernel->schedule == PTXMM_SCHEDULE_LAUNCH_CONTROL)
            assert_int_equal(launch->grid[0], tiles * kernel->cluster);
        else
            assert_true(launch->grid[0] <= 148);
        // M / 16, N / 8, B is bf16, A is f16, D is f32.
        assert_int_equal(args.idesc, kernel->tile_m / 16 << 24 | kernel->tile_n / 8 << 17 |
                                         1u << 10 | 0u << 7 | 1u << 4);
        assert_int_equal(args.flags, problem.d.type == PTXMM_F16 ? PTXMM_FLAG_F16_OUT : 0);
        check_map((unsigned char *)&args.map_a, "a", arguments.a, 1024, 4096, 2048, 64,
                  kernel->tile_m / kernel->cluster, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
        check_map((unsigned char *)&args.map_b, "b", arguments.b, 1024, 4096, 2048, 64,
                  kernel->tile_n / kernel->cluster, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    }
}

/* What the caller promises is in the flags, and changes nothing else. */
static void launch_with_constants(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_arguments arguments = case_arguments();
    struct ptxmm_gemm_args plain, args;
    for (int promised = 0; promised < 4; promised++) {
        struct ptxmm_problem problem = case_problem(300, 520, 200);
        problem.a.constant = promised & 1;
        problem.b.constant = promised >> 1;
        const uint32_t flags = (problem.a.constant ? PTXMM_FLAG_CONSTANT_A : 0) |
                               (problem.b.constant ? PTXMM_FLAG_CONSTANT_B : 0);
        const struct stub_launch *launch = run(f, &problem, &arguments);
        memcpy(&args, launch->arguments, sizeof args);
        assert_int_equal(args.flags, flags);
        assert_int_equal(launch->programmatic, 1);
        if (!promised)
            plain = args;
        args.flags = 0;
        assert_memory_equal(&args, &plain, sizeof args);

        problem.prefer.no_programmatic_launch = 1;
        launch = run(f, &problem, &arguments);
        memcpy(&args, launch->arguments, sizeof args);
        assert_int_equal(args.flags, flags);
        assert_int_equal(launch->programmatic, 0);
    }

    // Beside the flag that says what D is.
    f->stub->devices[0].major = 10;
    f->stub->devices[0].sms = 148;
    struct ptxmm_problem problem = case_problem(300, 520, 200);
    problem.b.constant = 1;
    problem.d.type = PTXMM_F16;
    memcpy(&args, run(f, &problem, &arguments)->arguments, sizeof args);
    assert_int_equal(args.flags, PTXMM_FLAG_F16_OUT | PTXMM_FLAG_CONSTANT_B);
}

/* K = 0, alpha = 0, one row, one column: what the maps say then. */
static void launch_of_degenerate_problems(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_gemm_args args;
    struct ptxmm_arguments arguments = case_arguments();
    const char *square = "sm90_gemm_bf16_128x128";
    struct ptxmm_problem problem = case_problem(128, 128, 0);
    problem.prefer.kernel = square;
    arguments.a = arguments.b = 0; // nothing is read of them
    memcpy(&args, run(f, &problem, &arguments)->arguments, sizeof args);
    assert_int_equal(args.k_slices, 0);
    check_map((unsigned char *)&args.map_a, "a", arguments.d, 1, 128, 16, 64, 128,
              CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);

    problem = case_problem(128, 128, 64);
    problem.prefer.kernel = square;
    arguments.alpha = 0;
    memcpy(&args, run(f, &problem, &arguments)->arguments, sizeof args);
    assert_true(args.alpha == 0 && args.k_slices == 1);
    check_map((unsigned char *)&args.map_b, "b", arguments.d, 64, 128, 128, 64,
              args.tiles_n ? 128 : 0, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);

    problem = case_problem(1, 8, 7); // A and D have one row each, of any pitch
    problem.prefer.kernel = square;
    problem.b.ld = 8;
    arguments = case_arguments();
    memcpy(&args, run(f, &problem, &arguments)->arguments, sizeof args);
    check_map((unsigned char *)&args.map_a, "a", arguments.a, 7, 1, 16, 64, 128,
              CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    check_map((unsigned char *)&args.map_b, "b", arguments.b, 7, 8, 16, 64, 128,
              CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    assert_true(args.m == 1 && args.n == 8 && args.k_slices == 1);

    problem = case_problem(256, 64, 64); // a pitch of 2 GiB
    problem.prefer.kernel = square;
    problem.a.ld = INT64_C(1) << 30;
    memcpy(&args, run(f, &problem, &arguments)->arguments, sizeof args);
    check_map((unsigned char *)&args.map_a, "a", arguments.a, 64, 256, UINT64_C(1) << 31, 64, 128,
              CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);

    problem = case_problem((INT64_C(1) << 25) + 1, 64, 64); // more than 2^31 elements of D
    problem.prefer.kernel = square;
    memcpy(&args, run(f, &problem, &arguments)->arguments, sizeof args);
    assert_true(args.m == (1 << 25) + 1 && args.tiles_m == (1 << 18) + 1);
}

/* M = 0 or N = 0: success, and nothing is launched, whatever the addresses are. */
static void empty(void **state)
{
    struct fixture *f = *state;
    static const int64_t sizes[][3] = { { 0, 64, 64 }, { 64, 0, 64 }, { 0, 0, 0 }, { 0, 63, 63 } };
    for (int i = 0; i < 4; i++) {
        struct ptxmm_problem problem = case_problem(sizes[i][0], sizes[i][1], sizes[i][2]);
        struct ptxmm_arguments arguments = { 0 };
        struct ptxmm_plan *plan = make(f, &problem);
        assert_null(ptxmm_plan_info(plan)->candidate.kernel);
        assert_int_equal(ptxmm_plan_info(plan)->grid, 0);
        assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &f->error), PTXMM_OK);
        ptxmm_plan_destroy(&plan);
    }
    struct ptxmm_problem none = case_problem(64, 64, 64); // a batch of no products
    none.kind = PTXMM_BATCH_STRIDED;
    struct ptxmm_plan *nothing = make(f, &none);
    assert_null(ptxmm_plan_info(nothing)->candidate.kernel);
    ptxmm_plan_destroy(&nothing);
    assert_int_equal(f->stub->launches, 0);
    assert_int_equal(f->stub->loads, 0);
}

static void grids(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    static const struct {
        int64_t m, n;
        int budget;
        unsigned grid;
    } rows[] = {
        { 4096, 4096, 0, 128 }, // 512 tiles: 4 rounds of 128, not of 132 with a last one of 116
        { 8192, 8192, 0, 128 },   { 128, 256, 0, 1 },
        { 4224, 1024, 0, 132 }, // exactly one round
        { 4352, 1024, 0, 68 },  // 136 tiles: two rounds
        { 4096, 4096, 1, 1 },     { 4096, 4096, 7, 7 },
        { 4096, 4096, 78, 74 }, // 7 rounds
        { 4096, 4096, 131, 128 }, { 4096, 4096, 1000, 128 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ptxmm_problem problem = case_problem(rows[i].m, rows[i].n, 64);
        problem.prefer.sm_budget = rows[i].budget;
        problem.prefer.kernel = wide;
        struct ptxmm_arguments arguments = case_arguments();
        const struct stub_launch *launch = run(f, &problem, &arguments);
        if (launch->grid[0] != rows[i].grid)
            fail_msg("%lld x %lld on %d SMs: %u CTAs, must be %u", (long long)rows[i].m,
                     (long long)rows[i].n, rows[i].budget, launch->grid[0], rows[i].grid);
    }
    // A green context has fewer SMs than its device.
    f->stub->context_sms = 16;
    struct ptxmm_problem problem = case_problem(4096, 4096, 64);
    problem.prefer.kernel = wide;
    struct ptxmm_arguments arguments = case_arguments();
    assert_int_equal(run(f, &problem, &arguments)->grid[0], 16);
    // The caller's own description goes before what the driver says.
    struct ptxmm_device device;
    assert_int_equal(ptxmm_device_known("h200", &device, NULL), PTXMM_OK);
    device.sm_count = 4;
    struct ptxmm_plan *plan;
    assert_int_equal(ptxmm_plan_create(f->mm, &problem, &device, &plan, &f->error), PTXMM_OK);
    assert_int_equal(ptxmm_plan_info(plan)->grid, 4);
    ptxmm_plan_destroy(&plan);
    device.sm_count = 0;
    enum ptxmm_status status = ptxmm_plan_create(f->mm, &problem, &device, &plan, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_ARGUMENT, "device.sm_count is 0", NULL);
}

/* A product for this kernel, with room for all groups it may want. */
static struct ptxmm_problem workspace_problem(const char *kernel, int64_t m, int64_t n, int64_t k)
{
    struct ptxmm_problem problem = case_problem(m, n, k);
    problem.prefer.kernel = kernel;
    problem.prefer.workspace_limit = 1 << 26;
    return problem;
}

/* Split kernels: the cluster is the plan's choice, groups and workspace are in the block. */
static void launch_with_workspace(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    const char *split = "sm90_gemm_bf16_64x64_split";
    struct ptxmm_problem problem = workspace_problem(split, 64, 64, 1 << 17);
    struct ptxmm_plan *plan = make(f, &problem);
    const struct ptxmm_plan_info *info = ptxmm_plan_info(plan);
    assert_true(info->candidate.groups > 1);
    assert_true(info->workspace_bytes == info->candidate.workspace_bytes &&
                info->workspace_bytes ==
                    PTXMM_WORKSPACE_COUNTERS + info->candidate.groups * 64 * 64 * 4);
    assert_true(info->cluster == info->candidate.cluster && info->grid % info->cluster == 0);

    struct ptxmm_arguments arguments = case_arguments();
    const uint64_t at = arguments.d + 0x100000;
#define REFUSED(where, size, name, word)                                                \
    do {                                                                                \
        arguments.workspace = where;                                                    \
        arguments.workspace_bytes = size;                                               \
        enum ptxmm_status status_ = ptxmm_plan_run(plan, &arguments, NULL, &f->error);  \
        case_check_error(&f->error, status_, PTXMM_ERROR_ARGUMENT, "arguments." name,   \
                         word, NULL);                                                   \
    } while (0)
    char needed[32];
    snprintf(needed, sizeof needed, "at least %lld", (long long)info->workspace_bytes);
    REFUSED(0, info->workspace_bytes, "workspace is null", "device address");
    REFUSED(at + 8, info->workspace_bytes, "workspace is 0x10003100008", "multiple of 16");
    REFUSED(at, info->workspace_bytes - 1, "workspace_bytes is ", needed);
    REFUSED(at, 0, "workspace_bytes is 0", needed);
    REFUSED(at, -1, "workspace_bytes is -1", needed);
#undef REFUSED
    assert_int_equal(f->stub->launches, 0);
    arguments.workspace = at;
    arguments.workspace_bytes = info->workspace_bytes;
    assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &f->error), PTXMM_OK);
    struct ptxmm_gemm_args args;
    const struct stub_launch *launch = &f->stub->launch[0];
    memcpy(&args, launch->arguments, sizeof args);
    assert_true(args.groups == info->candidate.groups && args.workspace == at);
    assert_true(launch->cluster == (info->cluster > 1 ? info->cluster : 0) &&
                launch->grid[0] == info->grid && launch->programmatic == 1);
    check_map((unsigned char *)&args.map_b, "b", arguments.b, 1 << 17, 64, 1 << 18, 64, 64,
              CU_TENSOR_MAP_DATA_TYPE_BFLOAT16); // boxes know nothing of the cluster
    ptxmm_plan_destroy(&plan);

    // Without a limit nothing is asked for, and what is given is not used.
    problem.prefer.workspace_limit = 0;
    plan = make(f, &problem);
    info = ptxmm_plan_info(plan);
    assert_true(info->workspace_bytes == 0 && info->candidate.groups == 1 && info->cluster > 1);
    assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &f->error), PTXMM_OK);
    launch = &f->stub->launch[1];
    memcpy(&args, launch->arguments, sizeof args);
    assert_true(args.groups == 1 && args.workspace == 0 && launch->cluster == info->cluster);
    ptxmm_plan_destroy(&plan);

    // Other kernels have no groups.
    problem.prefer.kernel = wide;
    problem.prefer.workspace_limit = 1 << 26;
    launch = run(f, &problem, &arguments);
    memcpy(&args, launch->arguments, sizeof args);
    assert_true(args.groups == 0 && args.workspace == 0 && launch->cluster == 0);
}

/* Multicast kernels: boxes and tiles follow the cluster, and a launch with groups is cooperative. */
static void launch_of_multicast(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    const char *name = "sm90_gemm_bf16_128x64_multicast";
    const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(name);
    static const struct {
        int64_t m, n, k, workspace;
        int no_programmatic_launch;
    } rows[] = {
        { 128, 64, 1 << 14, 1 << 26, 0 },    { 100, 60, 1 << 14, 1 << 26, 1 },
        { 128, 64, 1 << 14, 0, 0 },          { 512, 512, 1 << 14, 1 << 26, 0 },
        { 500, 1000, 1 << 14, 1 << 26, 0 },  { 2048, 300, 4096, 1 << 26, 0 },
        { 1100, 1100, 4096, 0, 0 },          { 4096, 4096, 4096, 1 << 26, 1 },
    };
    int grouped = 0, clustered = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ptxmm_problem problem = case_problem(rows[i].m, rows[i].n, rows[i].k);
        problem.prefer.kernel = name;
        problem.d.ld = 4096;
        problem.prefer.workspace_limit = rows[i].workspace;
        problem.prefer.no_programmatic_launch = rows[i].no_programmatic_launch;
        struct ptxmm_plan *plan = make(f, &problem);
        struct ptxmm_plan_info info = *ptxmm_plan_info(plan);
        ptxmm_plan_destroy(&plan);
        struct ptxmm_arguments arguments = case_arguments();
        arguments.workspace = arguments.d + 0x100000;
        arguments.workspace_bytes = info.workspace_bytes;
        const struct stub_launch *launch = run(f, &problem, &arguments);
        struct ptxmm_gemm_args args;
        memcpy(&args, launch->arguments, sizeof args);
        int64_t cluster = info.candidate.cluster, high = info.candidate.cluster_rows,
                wide_ = cluster / high, groups = info.candidate.groups;
        assert_true(high >= 1 && wide_ >= 1 && high * wide_ == cluster && groups >= 1);
        assert_true(args.raster == high && args.groups == groups);
        assert_true(args.tiles_m % high == 0 && args.tiles_m * 128 >= problem.m &&
                    (args.tiles_m - high) * 128 < problem.m);
        assert_true(args.tiles_n % wide_ == 0 && args.tiles_n * 64 >= problem.n &&
                    (args.tiles_n - wide_) * 64 < problem.n);
        assert_int_equal(launch->grid[0], args.tiles_m * args.tiles_n * groups);
        assert_true(launch->grid[0] == info.grid && launch->cluster == (cluster > 1 ? cluster : 0));
        assert_int_equal(launch->cooperative, groups > 1);
        assert_int_equal(launch->programmatic, !rows[i].no_programmatic_launch);
        assert_int_equal(info.workspace_bytes,
                         groups > 1 ? PTXMM_WORKSPACE_COUNTERS + launch->grid[0] * 128 * 64 * 4 : 0);
        assert_true(args.workspace == (groups > 1 ? arguments.workspace : 0));
        check_map((unsigned char *)&args.map_a, "a", arguments.a, (uint64_t)rows[i].k,
                  (uint64_t)rows[i].m, (uint64_t)rows[i].k * 2, 64, (uint32_t)(128 / wide_),
                  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
        check_map((unsigned char *)&args.map_b, "b", arguments.b, (uint64_t)rows[i].k,
                  (uint64_t)rows[i].n, (uint64_t)rows[i].k * 2, 64, (uint32_t)(64 / high),
                  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
        grouped += groups > 1;
        clustered += cluster > 1;
        assert_int_equal(kernel->cluster, 1); // the row's, whatever is launched
    }
    assert_true(grouped >= 2 && clustered >= 2);
}

/* Groups wait for one another, so all their clusters must fit the context at a time: the driver is
 * asked, and where they do not, another kernel is taken. */
static void groups_that_do_not_fit(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    const char *name = "sm90_gemm_bf16_128x64_multicast";
    struct ptxmm_problem problem = workspace_problem(name, 128, 64, 1 << 14);
    struct ptxmm_plan *plan = make(f, &problem);
    struct ptxmm_candidate wanted = ptxmm_plan_info(plan)->candidate;
    ptxmm_plan_destroy(&plan);
    assert_true(wanted.groups > 1);
    int clusters = (int)(wanted.ctas / wanted.cluster);

    f->stub->clusters = clusters;
    plan = make(f, &problem);
    assert_int_equal(ptxmm_plan_info(plan)->candidate.groups, wanted.groups);
    ptxmm_plan_destroy(&plan);
    f->stub->clusters = clusters - 1;
    enum ptxmm_status status = ptxmm_plan_create(f->mm, &problem, NULL, &plan, &f->error);
    char words[64];
    snprintf(words, sizeof words, "%d clusters run at a time, must be %d", clusters - 1, clusters);
    case_check_error(&f->error, status, PTXMM_ERROR_NO_KERNEL, name, words, NULL);
    // Without groups nobody waits, and nobody asks.
    problem.prefer.workspace_limit = 0;
    case_fail("cuOccupancyMaxActiveClusters", CUDA_ERROR_UNKNOWN, 0);
    plan = make(f, &problem);
    assert_int_equal(ptxmm_plan_info(plan)->candidate.groups, 1);
    ptxmm_plan_destroy(&plan);
    assert_int_equal(f->stub->fail_calls, 0);
    // A driver that does not answer will refuse the launch itself.
    problem.prefer.workspace_limit = 1 << 26;
    plan = make(f, &problem);
    assert_int_equal(ptxmm_plan_info(plan)->candidate.groups, wanted.groups);
    ptxmm_plan_destroy(&plan);
    assert_true(f->stub->fail_calls > 0);
    case_fail(NULL, CUDA_SUCCESS, 0);

    // Any kernel: the next one on the list is no multicast kernel with groups.
    f->stub->clusters = 1;
    problem.prefer.kernel = NULL;
    plan = make(f, &problem);
    const struct ptxmm_candidate *taken = &ptxmm_plan_info(plan)->candidate;
    assert_true(taken->kernel->algorithm != PTXMM_MULTICAST || taken->groups == 1);
    struct ptxmm_arguments arguments = case_arguments();
    arguments.workspace = arguments.d + 0x100000;
    arguments.workspace_bytes = taken->workspace_bytes;
    assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &f->error), PTXMM_OK);
    assert_int_equal(f->stub->launch[f->stub->launches - 1].cooperative, 0);
    ptxmm_plan_destroy(&plan);

    // A cluster that fits nowhere, though its CTAs do not wait for others' clusters.
    f->stub->clusters = -1;
    problem = case_problem(64, 2112, 7168);
    problem.prefer.kernel = "sm90_gemm_bf16_64x64_split";
    status = ptxmm_plan_create(f->mm, &problem, NULL, &plan, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_NO_KERNEL, problem.prefer.kernel,
                     "0 clusters run at a time, must be 1", NULL);
    problem.prefer.kernel = NULL;
    plan = make(f, &problem);
    assert_int_equal(ptxmm_plan_info(plan)->cluster, 1);
    ptxmm_plan_destroy(&plan);

    // The budget bounds the CTAs, of which each has one tile: fewer groups, or none of these kernels.
    problem = case_problem(128, 64, 1 << 14);
    problem.prefer.workspace_limit = 1 << 26;
    f->stub->clusters = 0;
    problem.prefer.kernel = name;
    for (int budget = 1; budget <= 40; budget += 3) {
        problem.prefer.sm_budget = budget;
        plan = make(f, &problem);
        assert_true((int)ptxmm_plan_info(plan)->grid <= budget);
        ptxmm_plan_destroy(&plan);
    }
    problem = case_problem(1280, 640, 1 << 14);
    problem.prefer.kernel = name;
    problem.prefer.sm_budget = 99;
    status = ptxmm_plan_create(f->mm, &problem, NULL, &plan, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_NO_KERNEL, name, "prefer.sm_budget is 99",
                     "must be at least 100", NULL);
    problem.prefer.sm_budget = 100;
    plan = make(f, &problem);
    assert_int_equal(ptxmm_plan_info(plan)->grid, 100);
    ptxmm_plan_destroy(&plan);
}

static void information(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(4096, 4096, 4096);
    problem.prefer.kernel = narrow;
    struct ptxmm_plan *plan = make(f, &problem);
    const struct ptxmm_plan_info *info = ptxmm_plan_info(plan);
    const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(narrow);
    assert_ptr_equal(info->candidate.kernel, kernel);
    assert_int_equal(info->candidate.reason, PTXMM_REASON_NONE);
    assert_true(info->grid == info->candidate.ctas && info->threads == kernel->threads &&
                info->cluster == kernel->cluster);
    assert_true(info->shared_bytes == kernel->shared_bytes && info->workspace_bytes == 0);
    // The problem was copied.
    memset(&problem, 0xee, sizeof problem);
    struct ptxmm_arguments arguments = case_arguments();
    assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &f->error), PTXMM_OK);
    assert_int_equal(f->error.status, PTXMM_OK);
    ptxmm_plan_destroy(&plan);
    ptxmm_plan_destroy(&plan);
    ptxmm_plan_destroy(NULL);
    assert_null(ptxmm_plan_info(NULL));
}

/* ---- a plan that cannot be made ------------------------------------------------------------ */

static void no_kernel(void **state)
{
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(64, 64, 64);
    problem.a.layout = PTXMM_MN_MAJOR;
    struct ptxmm_plan *plan = (struct ptxmm_plan *)f;
    enum ptxmm_status status = ptxmm_plan_create(f->mm, &problem, NULL, &plan, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_NO_KERNEL, "no kernel can run this problem",
                     "a.layout is MN_MAJOR, must be K_MAJOR", wide, narrow, NULL);
    assert_null(plan);
    assert_int_equal(f->stub->loads, 0); // found out before anything was loaded
    problem = case_problem(64, 64, 64);
    problem.m = -1;
    status = ptxmm_plan_create(f->mm, &problem, NULL, &plan, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_ARGUMENT, "problem.m is -1", NULL);
    case_check_error(&f->error, ptxmm_plan_create(f->mm, NULL, NULL, &plan, &f->error),
                     PTXMM_ERROR_ARGUMENT, "problem is NULL", NULL);
    case_check_error(&f->error, ptxmm_plan_create(NULL, &problem, NULL, &plan, &f->error),
                     PTXMM_ERROR_ARGUMENT, "mm is NULL", NULL);
    case_check_error(&f->error, ptxmm_plan_create(f->mm, &problem, NULL, NULL, &f->error),
                     PTXMM_ERROR_ARGUMENT, "plan is NULL", NULL);
}

/* A device of an architecture that the pack has nothing for. */
static void foreign_architecture(void **state)
{
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(64, 64, 64);
    for (int arch = 50; arch <= 121; arch++) {
        int served = 0;
        for (size_t i = 0; i < ptxmm_kernel_count(); i++)
            served |= kernels_target_runs_on(ptxmm_kernel(i)->target, arch);
        if (served)
            continue;
        f->stub->devices[0].major = arch / 10;
        f->stub->devices[0].minor = arch % 10;
        struct ptxmm_plan *plan;
        char number[32];
        snprintf(number, sizeof number, "arch is %d", arch);
        enum ptxmm_status status = ptxmm_plan_create(f->mm, &problem, NULL, &plan, &f->error);
        case_check_error(&f->error, status, PTXMM_ERROR_NO_KERNEL,
                         "no kernel for this architecture", number, "have", "90a", NULL);
    }
    assert_int_equal(f->stub->loads, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(launch_of_a_plain_problem),
        TEST(launch_of_a_batch),
        TEST(launch_with_c),
        TEST(launch_on_sm100),
        TEST(launch_with_constants),
        TEST(launch_of_degenerate_problems),
        TEST(empty),
        TEST(grids),
        TEST(launch_with_workspace),
        TEST(launch_of_multicast),
        TEST(groups_that_do_not_fit),
        TEST(information),
        TEST(no_kernel),
        TEST(foreign_architecture),
    };
    return cmocka_run_group_tests_name("lib/plan", tests, NULL, NULL);
}
