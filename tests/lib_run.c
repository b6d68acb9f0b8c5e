/* lib_run.c -- running plans: what a run refuses, every driver call failing in turn, contexts,
 * threads, fork, cost. */
#include "lib_fixture.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

/* ---- what a run refuses -------------------------------------------------------------------- */

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
#define REFUSED(which, change, name, word)                                                         \
    do {                                                                                           \
        arguments = case_arguments();                                                              \
        change;                                                                                    \
        enum ptxmm_status status_ = ptxmm_plan_run(which, &arguments, NULL, &f->error);            \
        case_check_error(&f->error, status_, PTXMM_ERROR_ARGUMENT, "arguments." name, word, NULL); \
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
    REFUSED(with_c, arguments.beta = 1;
            arguments.c = c + 8, "c is 0x10003100008", "multiple of 16");
    REFUSED(on_device, arguments.c = c;
            arguments.beta_at = c, "alpha_at is null", "device address");
    REFUSED(on_device, arguments.c = c;
            arguments.alpha_at = c, "beta_at is null", "device address");
    REFUSED(on_device, arguments.c = c; arguments.alpha_at = c;
            arguments.beta_at = c + 2, "beta_at is 0x", "multiple of 4");
    REFUSED(on_device, arguments.alpha_at = c;
            arguments.beta_at = c, "c is null", "device address");
    REFUSED(on_device, arguments.c = c; arguments.alpha_at = arguments.beta_at = c;
            arguments.alpha = 0; arguments.a = 0, "a is null", "device address");
#undef REFUSED
    assert_int_equal(f->stub->launches, 0);
    arguments = case_arguments();
    arguments.workspace = c; // more than is needed is welcome
    arguments.workspace_bytes = 1 << 20;
    assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, NULL), PTXMM_OK);
    case_check_error(&f->error, ptxmm_plan_run(NULL, &arguments, NULL, &f->error),
                     PTXMM_ERROR_ARGUMENT, "plan is NULL", NULL);
    case_check_error(&f->error, ptxmm_plan_run(plan, NULL, NULL, &f->error), PTXMM_ERROR_ARGUMENT,
                     "arguments is NULL", NULL);
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
    case_check_error(&f->error, ptxmm_plan_run(plan[0], &arguments, NULL, &f->error),
                     PTXMM_ERROR_NO_CONTEXT, "no CUDA context", NULL);
    stub->set_current(stub->context(0, 1)); // the same device, another context
    case_check_error(&f->error, ptxmm_plan_run(plan[0], &arguments, NULL, &f->error),
                     PTXMM_ERROR_WRONG_CONTEXT, "must be the plan's", NULL);
    // One thread goes back and forth between two devices: one library, launches where they belong.
    stub->set_current(stub->context(1, 0));
    plan[1] = make(f, &problem);
    assert_int_equal(f->stub->loads, 1);
    assert_true(f->stub->attributes_set == 2 && f->stub->attribute[0].device == 0 &&
                f->stub->attribute[1].device == 1);
    for (int i = 0; i < 20; i++) {
        stub->set_current(stub->context(i % 2, 0));
        assert_int_equal(
            ptxmm_plan_run(plan[i % 2], &arguments, (void *)(uintptr_t)(16 + i), &f->error),
            PTXMM_OK);
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
    case_check_error(&f->error, status, PTXMM_ERROR_ARGUMENT, "arguments.b is memory of device 1",
                     "device 0", NULL);
    arguments = case_arguments();
    arguments.beta = 1;
    arguments.c = 0x1000;
    status = ptxmm_plan_run(plan, &arguments, NULL, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_ARGUMENT, "arguments.c is 0x1000", "knows",
                     NULL);
    case_fail("cuPointerGetAttribute", CUDA_ERROR_UNKNOWN, 1);
    arguments.beta = 0;
    status = ptxmm_plan_run(plan, &arguments, NULL, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_DRIVER, "cuPointerGetAttribute(a)",
                     "CUDA_ERROR_UNKNOWN", NULL);
    assert_int_equal(f->stub->launches, 1);
    ptxmm_plan_destroy(&plan);
    case_fail(NULL, CUDA_SUCCESS, 0);
    problem = case_problem(64, 64, 1 << 17);
    problem.prefer.kernel = "sm90_gemm_bf16_64x64_split";
    problem.prefer.workspace_limit = 1 << 26;
    plan = make(f, &problem);
    arguments.c = 0;
    arguments.workspace = arguments.d + (UINT64_C(1) << 40);
    arguments.workspace_bytes = 1 << 26;
    status = ptxmm_plan_run(plan, &arguments, NULL, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_ARGUMENT,
                     "arguments.workspace is memory of device 1", "device 0", NULL);
    ptxmm_plan_destroy(&plan);
}

/* ---- failures of the driver ---------------------------------------------------------------- */

static void create_fails(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    static const char *const calls[] = {
        "cuCtxGetCurrent",        "cuCtxGetDevice",      "cuDeviceGetAttribute",
        "cuDeviceGetName",        "cuLibraryLoadData",   "cuLibraryGetKernel",
        "cuKernelSetAttribute",   "cuKernelGetFunction", "cuFuncLoad",
        "cuTensorMapEncodeTiled",
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
                case_check_error(&f->error, status, PTXMM_ERROR_DRIVER, calls[i],
                                 "CUDA_ERROR_UNKNOWN (999)", NULL);
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
    case_check_error(&f->error, status, PTXMM_ERROR_DRIVER,
                     "cuTensorMapEncodeTiled(d: dims 256 x 256 x 1, strides 512 and 512 bytes", NULL);
    // What is optional may fail without harm.
    case_fail("cuCtxGetDevResource", CUDA_ERROR_UNKNOWN, 0);
    plan = make(f, &problem);
    ptxmm_plan_destroy(&plan);
    // Every kernel but the failing one is unloaded at closing, and the failure is told.
    case_fail("cuLibraryUnload", CUDA_ERROR_UNKNOWN, 0);
    status = ptxmm_close(&f->mm, &f->error);
    case_check_error(&f->error, status, PTXMM_ERROR_DRIVER, "cuLibraryUnload", "CUDA_ERROR_UNKNOWN",
                     NULL);
    assert_null(f->mm);
}

static void run_fails(void **state)
{
    CASE_NEEDS_CUBINS;
    struct fixture *f = *state;
    struct ptxmm_problem problem = case_problem(256, 256, 256);
    problem.prefer.kernel = "sm90_gemm_bf16_128x256";
    struct ptxmm_plan *plan = make(f, &problem);
    struct ptxmm_arguments arguments = case_arguments();
    static const char *const calls[] = { "cuCtxGetCurrent", "cuTensorMapReplaceAddress",
                                         "cuLaunchKernelEx" };
    for (size_t i = 0; i < 3; i++) {
        for (int after = 0; after < (i == 1 ? 3 : 1); after++) {
            struct stub_state *stub = f->stub;
            int launches = stub->launches;
            case_fail(calls[i], CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, after);
            enum ptxmm_status status = ptxmm_plan_run(plan, &arguments, NULL, &f->error);
            case_check_error(&f->error, status, PTXMM_ERROR_DRIVER, calls[i],
                             "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)", NULL);
            assert_int_equal(f->error.driver_result, 701);
            assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, NULL), PTXMM_ERROR_DRIVER);
            case_fail(NULL, CUDA_SUCCESS, 0);
            assert_int_equal(stub->launches, launches);
            assert_int_equal(ptxmm_plan_run(plan, &arguments, NULL, &f->error),
                             PTXMM_OK); // and the plan is as good as before
        }
    }
    ptxmm_plan_destroy(&plan);
}

/* The context had faulted before: whatever call meets it, that is what is said, not that the call
 * was wrong. */
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
    case_check_error(&f->error, status, PTXMM_ERROR_CONTEXT_FAULTED, "already faulted",
                     "CUDA_ERROR_ILLEGAL_ADDRESS (700)", "cuLaunchKernelEx", NULL);
    assert_int_equal(f->error.driver_result, 700);
    // The call says something else, and the context when asked.
    f->stub->context_fault = CUDA_ERROR_MISALIGNED_ADDRESS;
    static const char *const calls[] = { "cuTensorMapEncodeTiled", "cuLibraryLoadData",
                                         "cuKernelGetFunction", "cuFuncLoad" };
    for (size_t i = 0; i < 4; i++) {
        struct ptxmm *mm = case_open(); // which has loaded nothing yet
        case_fail(calls[i], CUDA_ERROR_INVALID_VALUE, 0);
        status = ptxmm_plan_create(mm, &problem, NULL, &other, &f->error);
        case_check_error(&f->error, status, PTXMM_ERROR_CONTEXT_FAULTED, "already faulted",
                         "CUDA_ERROR_MISALIGNED_ADDRESS (716)", calls[i], NULL);
        assert_int_equal(f->error.driver_result, 716);
        case_fail(NULL, CUDA_SUCCESS, 0);
        case_close(&mm);
    }
    ptxmm_plan_destroy(&plan);
}

/* ---- life ---------------------------------------------------------------------------------- */

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
        int wrong = ptxmm_plan_run(plan, &arguments, NULL, &f->error) != PTXMM_ERROR_FORKED ||
                    !strstr(f->error.text, "fork");
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

/* ---- cost ---------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

/* Host time of a run, with a driver that does next to nothing: what the loader adds. The bound is
 * loose, for busy machines and sanitizers; the number is printed. */
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
    assert_true(best < 50000);
    ptxmm_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bad_arguments), TEST(contexts),  TEST(checked),          TEST(create_fails),
        TEST(run_fails),     TEST(faulted),   TEST(close_while_used), TEST(close_under_launches),
        TEST(forked),        TEST(host_time),
    };
    return cmocka_run_group_tests_name("lib/run", tests, NULL, NULL);
}
