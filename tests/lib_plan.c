/* lib_plan.c -- plans: what is launched, byte by byte; what a run refuses; every driver call failing in turn. */
#include "lib_case.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include "loader/kernels.h"

static const char wide[] = "sm90_gemm_bf16_128x256", narrow[] = "sm90_gemm_bf16_128x128";

/* One pack and a context of device 0 for a test; both are gone after it, and so is every library. */
struct fixture {
    struct ptxmm *mm;
    struct stub_state *stub;
    struct ptxmm_error error;
};

static int setup(void **state)
{
    static struct fixture fixture;
    fixture.stub = case_reset();
    fixture.mm = case_open();
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    case_fail(NULL, CUDA_SUCCESS, 0);
    if (ptxmm_close(&f->mm, &f->error))
        print_message("%s\n", f->error.text);
    return f->mm || f->stub->loads != f->stub->unloads ? -1 : 0;
}

static struct ptxmm_plan *make(struct fixture *f, const struct ptxmm_problem *problem)
{
    struct ptxmm_plan *plan;
    if (ptxmm_plan_create(f->mm, problem, NULL, &plan, &f->error))
        fail_msg("ptxmm_plan_create: %s", f->error.text);
    return plan;
}

/* Makes a plan, runs it, destroys it, and gives what was launched. */
static const struct stub_launch *run(struct fixture *f, const struct ptxmm_problem *problem, const struct ptxmm_arguments *arguments)
{
    struct ptxmm_plan *plan = make(f, problem);
    int before = f->stub->launches;
    if (ptxmm_plan_run(plan, arguments, NULL, &f->error))
        fail_msg("ptxmm_plan_run: %s", f->error.text);
    ptxmm_plan_destroy(&plan);
    assert_null(plan);
    assert_int_equal(f->stub->launches, before + 1);
    return &f->stub->launch[before];
}

static void check_map(const unsigned char *bytes, const char *name, uint64_t address, uint64_t inner, uint64_t outer, uint64_t stride,
                      uint32_t box_inner, uint32_t box_outer, int type)
{
    struct stub_map map;
    memcpy(&map, bytes, sizeof map);
    if (map.address != address || map.dims[0] != inner || map.dims[1] != outer || map.stride != stride || map.box[0] != box_inner ||
        map.box[1] != box_outer || map.type != type)
        fail_msg("map %s: address %#llx dims %llu x %llu stride %llu box %u x %u type %u", name, (unsigned long long)map.address,
                 (unsigned long long)map.dims[0], (unsigned long long)map.dims[1], (unsigned long long)map.stride, map.box[0],
                 map.box[1], map.type);
    assert_true(map.rank == 2 && map.element_strides[0] == 1 && map.element_strides[1] == 1);
    assert_true(map.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && map.swizzle == CU_TENSOR_MAP_SWIZZLE_128B);
    assert_int_equal(map.fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* ---- what is launched ------------------------------------------------------------------------------------------------- */

static void launch_of_a_plain_problem(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(1000, 3000, 200); // 8 x 12 tiles of 128 x 256, 4 slices
    problem.a.ld = 208;
    problem.d.ld = 3008;
    problem.prefer.kernel = wide;
    struct ptxmm_arguments arguments = case_arguments();
    arguments.alpha = 0.5f;
    const struct stub_launch *launch = run(f, &problem, &arguments);
    const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(wide);

    assert_string_equal(case_stub()->function_name(launch->function), wide);
    assert_true(launch->grid[0] == 96 && launch->grid[1] == 1 && launch->grid[2] == 1);
    assert_true(launch->block[0] == kernel->threads && launch->block[1] == 1 && launch->block[2] == 1);
    assert_int_equal(launch->shared, kernel->shared_bytes);
    assert_true(launch->cluster == 0 && launch->programmatic == 1 && launch->stream == NULL);

    struct ptxmm_gemm_args args;
    memcpy(&args, launch->arguments, sizeof args);
    check_map((unsigned char *)&args.map_a, "a", arguments.a, 200, 1000, 208 * 2, 64, 128, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    check_map((unsigned char *)&args.map_b, "b", arguments.b, 200, 3000, 200 * 2, 64, 256, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    check_map((unsigned char *)&args.map_d, "d", arguments.d, 3000, 1000, 3008 * 2, 64, 64, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    struct ptxmm_gemm_args expected = {
        .map_a = args.map_a, .map_b = args.map_b, .map_d = args.map_d, .abi_version = PTXMM_ABI_VERSION, .m = 1000, .n = 3000,
        .k_slices = 4, .tiles_m = 8, .tiles_n = 12, .raster = args.raster, .d = arguments.d, .ldd = 3008, .alpha = 0.5f,
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
    assert_true(args.alpha_at == arguments.alpha_at && args.beta_at == arguments.beta_at && args.alpha == 0 && args.beta == 0);
    assert_int_equal(launch->programmatic, 0);
    check_map((unsigned char *)&args.map_d, "d", arguments.d, 256, 256, 1024, 32, 64, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
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

/* Blackwell: clusters, a grid for launch control, an instruction descriptor, kernels that take either 16-bit type. The family's
 * kernels serve its later members too. */
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
        assert_int_equal(args.idesc, kernel->tile_m / 16 << 24 | kernel->tile_n / 8 << 17 | 1u << 10 | 0u << 7 | 1u << 4);
        assert_int_equal(args.flags, problem.d.type == PTXMM_F16 ? PTXMM_FLAG_F16_OUT : 0);
        check_map((unsigned char *)&args.map_a, "a", arguments.a, 1024, 4096, 2048, 64, kernel->tile_m / kernel->cluster,
                  CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
        check_map((unsigned char *)&args.map_b, "b", arguments.b, 1024, 4096, 2048, 64, kernel->tile_n / kernel->cluster,
                  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    }
}

/* K = 0, alpha = 0, one row, one column: what the maps say then. */
static void launch_of_degenerate_problems(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_gemm_args args;
    struct ptxmm_arguments arguments = case_arguments();
    struct ptxmm_problem problem = case_problem(128, 128, 0);
    arguments.a = arguments.b = 0; // nothing is read of them
    memcpy(&args, run(f, &problem, &arguments)->arguments, sizeof args);
    assert_int_equal(args.k_slices, 0);
    check_map((unsigned char *)&args.map_a, "a", arguments.d, 1, 128, 16, 64, 128, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);

    problem = case_problem(128, 128, 64);
    arguments.alpha = 0;
    memcpy(&args, run(f, &problem, &arguments)->arguments, sizeof args);
    assert_true(args.alpha == 0 && args.k_slices == 1);
    check_map((unsigned char *)&args.map_b, "b", arguments.d, 64, 128, 128, 64, args.tiles_n ? 128 : 0,
              CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);

    problem = case_problem(1, 8, 7); // A and D have one row each, of any pitch
    problem.b.ld = 8;
    arguments = case_arguments();
    memcpy(&args, run(f, &problem, &arguments)->arguments, sizeof args);
    check_map((unsigned char *)&args.map_a, "a", arguments.a, 7, 1, 16, 64, 128, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    check_map((unsigned char *)&args.map_b, "b", arguments.b, 7, 8, 16, 64, 128, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    assert_true(args.m == 1 && args.n == 8 && args.k_slices == 1);

    problem = case_problem(256, 64, 64); // a pitch of 2 GiB
    problem.a.ld = INT64_C(1) << 30;
    memcpy(&args, run(f, &problem, &arguments)->arguments, sizeof args);
    check_map((unsigned char *)&args.map_a, "a", arguments.a, 64, 256, UINT64_C(1) << 31, 64, 128, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);

    problem = case_problem((INT64_C(1) << 25) + 1, 64, 64); // more than 2^31 elements of D
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
        { 4096, 4096, 0, 128 },  // 512 tiles: 4 rounds of 128, not of 132 with a last one of 116
        { 8192, 8192, 0, 128 },
        { 128, 256, 0, 1 },
        { 4224, 1024, 0, 132 },  // exactly one round
        { 4352, 1024, 0, 68 },   // 136 tiles: two rounds
        { 4096, 4096, 1, 1 },
        { 4096, 4096, 7, 7 },
        { 4096, 4096, 78, 74 },  // 7 rounds
        { 4096, 4096, 131, 128 },
        { 4096, 4096, 1000, 128 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ptxmm_problem problem = case_problem(rows[i].m, rows[i].n, 64);
        problem.prefer.sm_budget = rows[i].budget;
        problem.prefer.kernel = wide;
        struct ptxmm_arguments arguments = case_arguments();
        const struct stub_launch *launch = run(f, &problem, &arguments);
        if (launch->grid[0] != rows[i].grid)
            fail_msg("%lld x %lld on %d SMs: %u CTAs, must be %u", (long long)rows[i].m, (long long)rows[i].n, rows[i].budget,
                     launch->grid[0], rows[i].grid);
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
    assert_true(info->grid == info->candidate.ctas && info->threads == kernel->threads && info->cluster == kernel->cluster);
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

/* ---- what a run refuses ----------------------------------------------------------------------------------------------- */

static void bad_arguments(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    struct ptxmm_plan *plan = make(f, &problem);
    problem.c.type = PTXMM_BF16;
    struct ptxmm_plan *with_c = make(f, &problem);
    problem.alpha_on_device = problem.beta_on_device = 1;
    struct ptxmm_plan *on_device = make(f, &problem);
    const uint64_t c = case_arguments().d + 0x100000;
    struct ptxmm_arguments arguments;
#define REFUSED(which, change, name, word)                                                               \
    do {                                                                                                 \
        arguments = case_arguments();                                                                    \
        change;                                                                                          \
        enum ptxmm_status status_ = ptxmm_plan_run(which, &arguments, NULL, &f->error);                  \
        case_check_error(&f->error, status_, PTXMM_ERROR_ARGUMENT, "arguments." name, word, NULL);       \
    } while (0)
    REFUSED(plan, arguments.a = 0, "a is null", "device address");
    REFUSED(plan, arguments.b = 0, "b is null", "device address");
    REFUSED(plan, arguments.d = 0, "d is null", "device address");
    REFUSED(plan, arguments.a += 2, "a is 0x10001000002", "multiple of 16");
    REFUSED(plan, arguments.b += 8, "b is 0x10002000008", "multiple of 16");
    REFUSED(plan, arguments.d += 4, "d is 0x10003000004", "multiple of 16");
    REFUSED(plan, arguments.d = 0; arguments.alpha = 0, "d is null", "device address");
    REFUSED(plan, arguments.beta = 1, "beta is 1", "no C");
    REFUSED(plan, arguments.c = c, "c is 0x", "must be 0");
    REFUSED(plan, arguments.alpha_at = c, "alpha_at is 0x", "must be 0");
    REFUSED(plan, arguments.beta_at = c, "beta_at is 0x", "must be 0");
    REFUSED(plan, arguments.a_scale = c, "a_scale is 0x", "must be 0");
    REFUSED(plan, arguments.b_scale = c, "b_scale is 0x", "must be 0");
    REFUSED(plan, arguments.c_scale = c, "c_scale is 0x", "must be 0");
    REFUSED(plan, arguments.d_scale = c, "d_scale is 0x", "must be 0");
    REFUSED(plan, arguments.bias = c, "bias is 0x", "must be 0");
    REFUSED(plan, arguments.row_scale = c, "row_scale is 0x", "must be 0");
    REFUSED(plan, arguments.column_scale = c, "column_scale is 0x", "must be 0");
    REFUSED(plan, arguments.aux = c, "aux is 0x", "must be 0");
    REFUSED(plan, arguments.amax = c, "amax is 0x", "must be 0");
    REFUSED(plan, arguments.a_pointers = c, "a_pointers is 0x", "must be 0");
    REFUSED(plan, arguments.d_pointers = c, "d_pointers is 0x", "must be 0");
    REFUSED(plan, arguments.group_sizes = c, "group_sizes is 0x", "must be 0");
    REFUSED(plan, arguments.reserved[6] = 1, "reserved is not 0", "must be 0");
    REFUSED(with_c, arguments.beta = 1, "c is null", "device address");
    REFUSED(with_c, arguments.beta = 1; arguments.c = c + 8, "c is 0x10003100008", "multiple of 16");
    REFUSED(on_device, arguments.c = c; arguments.beta_at = c, "alpha_at is null", "device address");
    REFUSED(on_device, arguments.c = c; arguments.alpha_at = c, "beta_at is null", "device address");
    REFUSED(on_device, arguments.c = c; arguments.alpha_at = c; arguments.beta_at = c + 2, "beta_at is 0x", "multiple of 4");
    REFUSED(on_device, arguments.alpha_at = c; arguments.beta_at = c, "c is null", "device address");
    REFUSED(on_device, arguments.c = c; arguments.alpha_at = arguments.beta_at = c; arguments.alpha = 0; arguments.a = 0, "a is null",
            "device address");
#undef REFUSED
    assert_int_equal(f->stub->launches, 0);
    arguments = case_arguments();
    arguments.workspace = c; // more than is needed is welcome
    arguments.workspace_bytes = 1 << 20;
    assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, NULL), PTXMM_OK);
    case_check_error(&f->error, ptxmm_plan_run(NULL, &arguments, NULL, &f->error), PTXMM_ERROR_ARGUMENT, "plan is NULL", NULL);
    case_check_error(&f->error, ptxmm_plan_run(plan, NULL, NULL, &f->error), PTXMM_ERROR_ARGUMENT, "arguments is NULL", NULL);
    ptxmm_plan_destroy(&plan);
    ptxmm_plan_destroy(&with_c);
    ptxmm_plan_destroy(&on_device);
}

static void contexts(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    const struct case_stub *stub = case_stub();
    f->stub->device_count = 2;
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    struct ptxmm_arguments arguments = case_arguments();
    struct ptxmm_plan *plan[2] = { make(f, &problem) };
    stub->set_current(NULL);
    enum ptxmm_status status = ptxmm_plan_create(f->mm, &problem, NULL, &plan[1], &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_NO_CONTEXT, "no CUDA context", NULL);
    assert_null(plan[1]);
    case_check_error(&f->error, ptxmm_plan_run(plan[0], &arguments, NULL, &f->error), PTXMM_ERROR_NO_CONTEXT, "no CUDA context", NULL);
    stub->set_current(stub->context(0, 1)); // the same device, another context
    case_check_error(&f->error, ptxmm_plan_run(plan[0], &arguments, NULL, &f->error), PTXMM_ERROR_WRONG_CONTEXT, "must be the plan's",
                     NULL);
    // One thread goes back and forth between two devices: one library, launches where they belong.
    stub->set_current(stub->context(1, 0));
    plan[1] = make(f, &problem);
    assert_int_equal(f->stub->loads, 1);
    assert_true(f->stub->attributes_set == 2 && f->stub->attribute[0].device == 0 && f->stub->attribute[1].device == 1);
    for (int i = 0; i < 20; i++) {
        stub->set_current(stub->context(i % 2, 0));
        assert_int_equal(ptxmm_plan_run(plan[i % 2], &arguments, (void *)(uintptr_t)(16 + i), &f->error), PTXMM_OK);
        assert_ptr_equal(f->stub->launch[i].context, stub->context(i % 2, 0));
        assert_ptr_equal(f->stub->launch[i].stream, (CUstream)(uintptr_t)(16 + i));
    }
    ptxmm_plan_destroy(&plan[0]);
    ptxmm_plan_destroy(&plan[1]);
}

/* Checked mode: memory of another device, or of nobody, is named. */
static void checked(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    case_close(&f->mm);
    struct ptxmm_options options = { .driver = case_stub_path(), .checked = 1 };
    assert_int_equal(ptxmm_open(&f->mm, &options, &f->error), PTXMM_OK);
    f->stub->device_count = 2;
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    problem.c.type = PTXMM_BF16;
    struct ptxmm_plan *plan = make(f, &problem);
    struct ptxmm_arguments arguments = case_arguments();
    assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &f->error), PTXMM_OK);
    arguments.b += UINT64_C(1) << 40;
    enum ptxmm_status status = ptxmm_plan_run(plan, &arguments, NULL, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_ARGUMENT, "arguments.b is memory of device 1", "device 0", NULL);
    arguments = case_arguments();
    arguments.beta = 1;
    arguments.c = 0x1000;
    status = ptxmm_plan_run(plan, &arguments, NULL, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_ARGUMENT, "arguments.c is 0x1000", "knows", NULL);
    case_fail("cuPointerGetAttribute", CUDA_ERROR_UNKNOWN, 1);
    arguments.beta = 0;
    status = ptxmm_plan_run(plan, &arguments, NULL, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_DRIVER, "cuPointerGetAttribute(a)", "CUDA_ERROR_UNKNOWN", NULL);
    assert_int_equal(f->stub->launches, 1);
    ptxmm_plan_destroy(&plan);
}

/* ---- failures of the driver ------------------------------------------------------------------------------------------- */

static void create_fails(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    static const char *const calls[] = {
        "cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetAttribute", "cuDeviceGetName", "cuLibraryLoadData", "cuLibraryGetKernel",
        "cuKernelSetAttribute", "cuKernelGetFunction", "cuFuncLoad", "cuTensorMapEncodeTiled",
    };
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (int after = 0; after < 3; after++) { // the first, the second, the third call of it
            struct ptxmm_plan *plan = (struct ptxmm_plan *)f;
            case_stub()->reset();
            case_stub()->set_current(case_stub()->context(0, 0));
            struct ptxmm *mm = case_open();
            case_fail(calls[i], CUDA_ERROR_UNKNOWN, after);
            enum ptxmm_status status = ptxmm_plan_create(mm, &problem, NULL, &plan, &f->error);
            if (status || after == 0) {
                case_check_error(&f->error, status, PTXMM_ERROR_DRIVER, calls[i], "CUDA_ERROR_UNKNOWN (999)", NULL);
                assert_int_equal(f->error.driver_result, 999);
                assert_null(plan);
            }
            ptxmm_plan_destroy(&plan);
            case_fail(NULL, CUDA_SUCCESS, 0);
            case_close(&mm);
            assert_int_equal(f->stub->loads, f->stub->unloads);
        }
    }
    case_fail("cuTensorMapEncodeTiled", CUDA_ERROR_INVALID_VALUE, 2);
    struct ptxmm_plan *plan;
    enum ptxmm_status status = ptxmm_plan_create(f->mm, &problem, NULL, &plan, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_DRIVER, "cuTensorMapEncodeTiled(d: dims 256 x 256, stride 512 bytes", NULL);
    // What is optional may fail without harm.
    case_fail("cuCtxGetDevResource", CUDA_ERROR_UNKNOWN, 0);
    plan = make(f, &problem);
    ptxmm_plan_destroy(&plan);
    // Every kernel but the failing one is unloaded at closing, and the failure is told.
    case_fail("cuLibraryUnload", CUDA_ERROR_UNKNOWN, 0);
    status = ptxmm_close(&f->mm, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_DRIVER, "cuLibraryUnload", "CUDA_ERROR_UNKNOWN", NULL);
    assert_null(f->mm);
}

static void run_fails(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    problem.prefer.kernel = wide;
    struct ptxmm_plan *plan = make(f, &problem);
    struct ptxmm_arguments arguments = case_arguments();
    static const char *const calls[] = { "cuCtxGetCurrent", "cuTensorMapReplaceAddress", "cuLaunchKernelEx" };
    for (size_t i = 0; i < 3; i++) {
        for (int after = 0; after < (i == 1 ? 3 : 1); after++) {
            struct stub_state *stub = f->stub;
            int launches = stub->launches;
            case_fail(calls[i], CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, after);
            enum ptxmm_status status = ptxmm_plan_run(plan, &arguments, NULL, &f->error);
            case_check_error(&f->error, status, PTXMM_ERROR_DRIVER, calls[i], "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)", NULL);
            assert_int_equal(f->error.driver_result, 701);
            assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, NULL), PTXMM_ERROR_DRIVER);
            case_fail(NULL, CUDA_SUCCESS, 0);
            assert_int_equal(stub->launches, launches);
            assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &f->error), PTXMM_OK); // and the plan is as good as before
        }
    }
    ptxmm_plan_destroy(&plan);
}

/* The context had faulted before: whatever call meets it, that is what is said, not that the call was wrong. */
static void faulted(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    struct ptxmm_plan *plan = make(f, &problem), *other;
    struct ptxmm_arguments arguments = case_arguments();
    // The call itself says so.
    case_fail("cuLaunchKernelEx", CUDA_ERROR_ILLEGAL_ADDRESS, 0);
    enum ptxmm_status status = ptxmm_plan_run(plan, &arguments, NULL, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_CONTEXT_FAULTED, "already faulted", "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
                     "cuLaunchKernelEx", NULL);
    assert_int_equal(f->error.driver_result, 700);
    // The call says something else, and the context when asked.
    f->stub->context_fault = CUDA_ERROR_MISALIGNED_ADDRESS;
    static const char *const calls[] = { "cuTensorMapEncodeTiled", "cuLibraryLoadData", "cuKernelGetFunction", "cuFuncLoad" };
    for (size_t i = 0; i < 4; i++) {
        struct ptxmm *mm = case_open(); // which has loaded nothing yet
        case_fail(calls[i], CUDA_ERROR_INVALID_VALUE, 0);
        status = ptxmm_plan_create(mm, &problem, NULL, &other, &f->error);
        case_check_error(&f->error, status, PTXMM_ERROR_CONTEXT_FAULTED, "already faulted", "CUDA_ERROR_MISALIGNED_ADDRESS (716)",
                         calls[i], NULL);
        assert_int_equal(f->error.driver_result, 716);
        case_fail(NULL, CUDA_SUCCESS, 0);
        case_close(&mm);
    }
    ptxmm_plan_destroy(&plan);
}

/* ---- a plan that cannot be made --------------------------------------------------------------------------------------- */

static void no_kernel(void **state)
{
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(64, 64, 64);
    problem.a.layout = PTXMM_MN_MAJOR;
    struct ptxmm_plan *plan = (struct ptxmm_plan *)f;
    enum ptxmm_status status = ptxmm_plan_create(f->mm, &problem, NULL, &plan, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_NO_KERNEL, "no kernel can run this problem", "a.layout is MN_MAJOR, must be K_MAJOR",
                     wide, narrow, NULL);
    assert_null(plan);
    assert_int_equal(f->stub->loads, 0); // found out before anything was loaded
    problem = case_problem(64, 64, 64);
    problem.m = -1;
    status = ptxmm_plan_create(f->mm, &problem, NULL, &plan, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_ARGUMENT, "problem.m is -1", NULL);
    case_check_error(&f->error, ptxmm_plan_create(f->mm, NULL, NULL, &plan, &f->error), PTXMM_ERROR_ARGUMENT, "problem is NULL", NULL);
    case_check_error(&f->error, ptxmm_plan_create(NULL, &problem, NULL, &plan, &f->error), PTXMM_ERROR_ARGUMENT, "mm is NULL", NULL);
    case_check_error(&f->error, ptxmm_plan_create(f->mm, &problem, NULL, NULL, &f->error), PTXMM_ERROR_ARGUMENT, "plan is NULL", NULL);
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
        case_check_error(&f->error, status, PTXMM_ERROR_NO_KERNEL, "no kernel for this architecture", number, "have", "90a", NULL);
    }
    assert_int_equal(f->stub->loads, 0);
}

/* ---- life ------------------------------------------------------------------------------------------------------------- */

static void close_while_used(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    struct ptxmm_plan *plan = make(f, &problem);
    enum ptxmm_status status = ptxmm_close(&f->mm, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_BUSY, "1 plans exist", NULL);
    assert_non_null(f->mm);
    assert_int_equal(f->stub->unloads, 0);
    struct ptxmm_arguments arguments = case_arguments();
    assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &f->error), PTXMM_OK);
    ptxmm_plan_destroy(&plan);
}

struct runner {
    struct ptxmm_plan *plan;
    atomic_int *failures;
};

static void *run_many(void *argument)
{
    struct runner *runner = argument;
    struct ptxmm_arguments arguments = case_arguments();
    case_stub()->set_current(case_stub()->context(0, 0));
    for (int i = 0; i < 20000; i++)
        if (ptxmm_plan_run(runner->plan, &arguments, NULL, NULL))
            atomic_fetch_add(runner->failures, 1);
    return NULL;
}

/* One plan in many threads, while another thread tries to close. */
static void close_under_launches(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    atomic_int failures = 0;
    struct runner runner = { make(f, &problem), &failures };
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_many, &runner), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(ptxmm_close(&f->mm, NULL), PTXMM_ERROR_BUSY);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(failures, 0);
    assert_int_equal(f->stub->launches, 4 * 20000);
    ptxmm_plan_destroy(&runner.plan);
}

static void forked(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    struct ptxmm_plan *plan = make(f, &problem);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct ptxmm_arguments arguments = case_arguments();
        int wrong = ptxmm_plan_run(plan, &arguments, NULL, &f->error) != PTXMM_ERROR_FORKED || !strstr(f->error.text, "fork");
        ptxmm_plan_destroy(&plan);
        wrong |= (ptxmm_close(&f->mm, &f->error) != PTXMM_OK) << 1;
        wrong |= (f->stub->unloads != 0) << 2;
        _exit(wrong);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct ptxmm_arguments arguments = case_arguments();
    assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &f->error), PTXMM_OK);
    ptxmm_plan_destroy(&plan);
}

/* ---- cost ------------------------------------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

/* Host time of a run, with a driver that does next to nothing: what the loader adds. The bound is loose, for busy machines and
 * sanitizers; the number is printed. */
static void host_time(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(4096, 4096, 4096);
    struct ptxmm_plan *plan = make(f, &problem);
    struct ptxmm_arguments arguments = case_arguments();
    double best = 1e18;
    for (int round = 0; round < 20; round++) {
        double from = now();
        for (int i = 0; i < 5000; i++)
            ptxmm_plan_run(plan, &arguments, NULL, &f->error);
        double ns = (now() - from) / 5000;
        best = ns < best ? ns : best;
    }
    print_message("a run takes %.0f ns on the host, the stub driver's calls included\n", best);
    assert_true(best < 5000);
    ptxmm_plan_destroy(&plan);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(launch_of_a_plain_problem), TEST(launch_with_c), TEST(launch_on_sm100), TEST(launch_of_degenerate_problems), TEST(empty), TEST(grids),
        TEST(information), TEST(bad_arguments), TEST(contexts), TEST(checked), TEST(create_fails), TEST(run_fails), TEST(faulted),
        TEST(no_kernel), TEST(foreign_architecture), TEST(close_while_used), TEST(close_under_launches), TEST(forked), TEST(host_time),
    };
    return cmocka_run_group_tests_name("lib/plan", tests, NULL, NULL);
}
