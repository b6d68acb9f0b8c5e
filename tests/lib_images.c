/* lib_images.c -- images: lazily loaded, checked, one bad one at a time; PTX where the driver takes
 * no cubin. */
#include "lib_case.h"

#include <pthread.h>
#include <sys/stat.h>

#include "loader/kernels.h"

/* ---- a folder of images -------------------------------------------------------------------- */

static char folder[64];

static void file_path(char path[256], size_t index, const char *extension)
{
    snprintf(path, 256, "%s/%s.%s", folder, ptxmm_kernel(index)->name, extension);
}

static void write_file(size_t index, const char *extension, const void *bytes, size_t size)
{
    char path[256];
    file_path(path, index, extension);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static int make_folder(void **unused)
{
    (void)unused;
    strcpy(folder, "/tmp/ptxmm-images-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    for (size_t i = 0; i < ptxmm_kernel_count(); i++) {
        struct ptxmm_image image;
        if (ptxmm_kernel_image(i, &image, NULL) == PTXMM_OK)
            write_file(i, "cubin", image.bytes, image.size);
    }
    return 0;
}

static int remove_folder(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < ptxmm_kernel_count(); i++) {
        char path[256];
        file_path(path, i, "cubin");
        unlink(path);
        file_path(path, i, "ptx");
        unlink(path);
    }
    return rmdir(folder);
}

static void spoil(size_t index, size_t size, size_t flipped)
{
    struct ptxmm_image image;
    assert_int_equal(ptxmm_kernel_image(index, &image, NULL), PTXMM_OK);
    char *bytes = malloc(image.size);
    memcpy(bytes, image.bytes, image.size);
    if (flipped < image.size)
        bytes[flipped] ^= 1;
    write_file(index, "cubin", bytes, size < image.size ? size : image.size);
    free(bytes);
}

static struct ptxmm *open_folder(int images, int ptx)
{
    struct ptxmm *mm;
    struct ptxmm_options options = { .driver = case_stub_path(),
                                     .image_dir = images ? folder : NULL,
                                     .ptx_dir = ptx ? folder : NULL };
    assert_int_equal(ptxmm_open(&mm, &options, NULL), PTXMM_OK);
    return mm;
}

/* A problem for a kernel by name, and for that kernel's types in general. */
static struct ptxmm_problem problem_of(size_t index, int only_this)
{
    const struct ptxmm_kernel_info *kernel = ptxmm_kernel(index);
    struct ptxmm_problem problem = case_problem(4096, 4096, 4096);
    problem.a.type = kernel->a == PTXMM_BF16_OR_F16 ? PTXMM_BF16 : kernel->a;
    problem.b.type = kernel->b == PTXMM_BF16_OR_F16 ? PTXMM_BF16 : kernel->b;
    problem.d.type = kernel->d == PTXMM_BF16_OR_F16 ? PTXMM_BF16 : kernel->d;
    problem.accumulate = PTXMM_ACCUMULATE_FAST; // allows every kernel
    if (only_this)
        problem.prefer.kernel = kernel->name;
    return problem;
}

static int runs_on_90(size_t index)
{
    return kernels_target_runs_on(ptxmm_kernel(index)->target, 90);
}

/* ---- cases --------------------------------------------------------------------------------- */

/* Nothing is loaded before it is needed, and only what is needed. */
static void lazy(void **unused)
{
    (void)unused;
    CASE_NEEDS_CUBINS;
    struct stub_state *stub = case_reset();
    struct ptxmm *mm = case_open();
    assert_int_equal(stub->loads, 0);
    struct ptxmm_plan *plan[2];
    struct ptxmm_problem problem = problem_of(0, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ptxmm_plan_create(mm, &problem, NULL, &plan[i], NULL), PTXMM_OK);
        assert_int_equal(stub->loads, 1); // once for both
    }
    ptxmm_plan_destroy(&plan[0]);
    ptxmm_plan_destroy(&plan[1]);
    assert_int_equal(stub->unloads, 0); // kept for the next plan
    case_close(&mm);
    assert_int_equal(stub->unloads, 1);
}

static void load_all(void **unused)
{
    (void)unused;
    CASE_NEEDS_CUBINS;
    struct stub_state *stub = case_reset();
    struct ptxmm *mm = case_open();
    struct ptxmm_error error;
    int matching = 0;
    for (size_t i = 0; i < ptxmm_kernel_count(); i++)
        matching += runs_on_90(i);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ptxmm_load_all(mm, &error), PTXMM_OK);
        assert_int_equal(stub->loads, matching);
    }
    // Each kernel's shared memory limit was raised, on this device.
    assert_int_equal(stub->attributes_set, 2 * matching);
    for (int i = 0; i < matching; i++)
        assert_true(stub->attribute[i].device == 0 && stub->attribute[i].value > 48 * 1024);
    struct ptxmm_problem problem = problem_of(0, 1);
    struct ptxmm_plan *plan;
    assert_int_equal(ptxmm_plan_create(mm, &problem, NULL, &plan, NULL), PTXMM_OK);
    assert_int_equal(stub->loads, matching);
    ptxmm_plan_destroy(&plan);
    case_stub()->set_current(NULL);
    case_check_error(&error, ptxmm_load_all(mm, &error), PTXMM_ERROR_NO_CONTEXT, "no CUDA context",
                     NULL);
    case_check_error(&error, ptxmm_load_all(NULL, &error), PTXMM_ERROR_ARGUMENT, "mm is NULL",
                     NULL);
    case_close(&mm);
    assert_int_equal(stub->unloads, matching);
}

/* One image with a wrong bit, too short, or not there, each kernel's in one of these ways: that
 * kernel is reported, every other one works. */
static void one_bad_image(void **unused)
{
    (void)unused;
    CASE_NEEDS_CUBINS;
    static const char *const words[] = { "checksum", "checksum", "truncated", "truncated",
                                         "missing" };
    for (size_t bad = 0; bad < ptxmm_kernel_count(); bad++) {
        if (!runs_on_90(bad))
            continue;
        struct ptxmm_image image;
        assert_int_equal(ptxmm_kernel_image(bad, &image, NULL), PTXMM_OK);
        int way = (int)(bad % 5);
        struct stub_state *stub = case_reset();
        char path[256];
        file_path(path, bad, "cubin");
        switch (way) {
        case 0: spoil(bad, SIZE_MAX, 0); break;
        case 1: spoil(bad, SIZE_MAX, image.size - 1); break;
        case 2: spoil(bad, image.size - 1, SIZE_MAX); break;
        case 3: spoil(bad, 0, SIZE_MAX); break;
        case 4: unlink(path); break;
        }
        struct ptxmm *mm = open_folder(1, 0);
        struct ptxmm_error error;
        struct ptxmm_plan *plan;
        struct ptxmm_problem problem = problem_of(bad, 1);
        enum ptxmm_status status = ptxmm_plan_create(mm, &problem, NULL, &plan, &error);
        case_check_error(&error, status, PTXMM_ERROR_IMAGE, words[way], ptxmm_kernel(bad)->name,
                         NULL);
        assert_null(plan);
        assert_int_equal(stub->loads, 0);
        for (size_t i = 0; i < ptxmm_kernel_count(); i++) {
            if (i == bad || !runs_on_90(i))
                continue;
            problem = problem_of(i, 1);
            if (ptxmm_plan_create(mm, &problem, NULL, &plan, &error))
                fail_msg("with a bad %s: %s", ptxmm_kernel(bad)->name, error.text);
            assert_ptr_equal(ptxmm_plan_info(plan)->candidate.kernel, ptxmm_kernel(i));
            ptxmm_plan_destroy(&plan);
        }
        // Nobody asked for it by name: another kernel of these types takes its place.
        problem = problem_of(bad, 0);
        assert_int_equal(ptxmm_plan_create(mm, &problem, NULL, &plan, &error), PTXMM_OK);
        assert_ptr_not_equal(ptxmm_plan_info(plan)->candidate.kernel, ptxmm_kernel(bad));
        ptxmm_plan_destroy(&plan);
        // All others are loaded although one cannot be.
        int loads = stub->loads;
        case_check_error(&error, ptxmm_load_all(mm, &error), PTXMM_ERROR_IMAGE, words[way],
                         NULL);
        assert_int_equal(stub->loads, loads);
        // Put right, it loads: failures are not remembered.
        spoil(bad, SIZE_MAX, SIZE_MAX);
        problem = problem_of(bad, 1);
        assert_int_equal(ptxmm_plan_create(mm, &problem, NULL, &plan, &error), PTXMM_OK);
        ptxmm_plan_destroy(&plan);
        case_close(&mm);
        assert_int_equal(stub->loads, stub->unloads);
    }
}

/* The driver refuses an image: reported with its words, and others serve. Anything else that it
 * says is no fault of the image. */
static void refused_by_driver(void **unused)
{
    (void)unused;
    CASE_NEEDS_CUBINS;
    struct ptxmm_error error;
    struct ptxmm_plan *plan;
    struct ptxmm_problem problem = problem_of(0, 1);
    struct stub_state *stub = case_reset();
    struct ptxmm *mm = case_open();
    case_fail("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 0);
    enum ptxmm_status status = ptxmm_plan_create(mm, &problem, NULL, &plan, &error);
    case_check_error(&error, status, PTXMM_ERROR_IMAGE, "cuLibraryLoadData",
                     "CUDA_ERROR_INVALID_IMAGE (200)", ptxmm_kernel(0)->name, NULL);
    assert_int_equal(error.driver_result, 200);
    case_fail("cuLibraryLoadData", CUDA_ERROR_OUT_OF_MEMORY, 0);
    problem = problem_of(0, 0);
    status = ptxmm_plan_create(mm, &problem, NULL, &plan, &error);
    case_check_error(&error, status, PTXMM_ERROR_DRIVER, "cuLibraryLoadData",
                     "CUDA_ERROR_OUT_OF_MEMORY", NULL);
    case_fail("cuLibraryGetKernel", CUDA_ERROR_NOT_FOUND, 0);
    status = ptxmm_plan_create(mm, &problem, NULL, &plan, &error);
    case_check_error(&error, status, PTXMM_ERROR_DRIVER, "cuLibraryGetKernel",
                     "CUDA_ERROR_NOT_FOUND", NULL);
    assert_int_equal(stub->loads, stub->unloads); // what was loaded for nothing is gone
    case_fail(NULL, CUDA_SUCCESS, 0);
    case_close(&mm);
}

static void ptx(void **unused)
{
    (void)unused;
    static const char text[] = ".version 8.8\n.target sm_90a\n";
    struct stub_state *stub = case_reset();
    stub->refuses_cubins = 1;
    struct ptxmm_error error;
    struct ptxmm_plan *plan;
    struct ptxmm_problem problem = problem_of(0, 1);
    // No folder was named: that is what is said.
    struct ptxmm *mm = open_folder(0, 0);
    enum ptxmm_status status = ptxmm_plan_create(mm, &problem, NULL, &plan, &error);
    case_check_error(&error, status, PTXMM_ERROR_IMAGE, ptxmm_kernel(0)->name, "PTXMM_PTX_DIR",
                     NULL);
    case_close(&mm);
    // A folder without the file.
    mm = open_folder(0, 1);
    status = ptxmm_plan_create(mm, &problem, NULL, &plan, &error);
    case_check_error(&error, status, PTXMM_ERROR_IMAGE, "missing", ptxmm_kernel(0)->name, ".ptx",
                     NULL);
    // A file that is no PTX: what the driver's compiler says is passed on.
    write_file(0, "ptx", "nonsense", 8);
    status = ptxmm_plan_create(mm, &problem, NULL, &plan, &error);
    case_check_error(&error, status, PTXMM_ERROR_IMAGE, "CUDA_ERROR_INVALID_IMAGE",
                     "stub.ptx:1: neither ELF nor PTX", NULL);
    // And a good one.
    write_file(0, "ptx", text, sizeof text - 1);
    assert_int_equal(ptxmm_plan_create(mm, &problem, NULL, &plan, &error), PTXMM_OK);
    assert_int_equal(stub->loads, 1);
    ptxmm_plan_destroy(&plan);
    case_close(&mm);
    // By the environment.
    setenv("PTXMM_PTX_DIR", folder, 1);
    mm = open_folder(0, 0);
    assert_int_equal(ptxmm_plan_create(mm, &problem, NULL, &plan, &error), PTXMM_OK);
    ptxmm_plan_destroy(&plan);
    case_close(&mm);
    unsetenv("PTXMM_PTX_DIR");
    // A driver that takes cubins is never given text.
    if (case_has_cubins()) {
        stub->refuses_cubins = 0;
        write_file(0, "ptx", "nonsense", 8);
        mm = open_folder(0, 1);
        assert_int_equal(ptxmm_plan_create(mm, &problem, NULL, &plan, &error), PTXMM_OK);
        ptxmm_plan_destroy(&plan);
        case_close(&mm);
    }
}

/* ---- threads ------------------------------------------------------------------------------- */

struct first_call {
    struct ptxmm *mm;
    pthread_barrier_t *start;
    int device;
    int failed;
};

static void *first_call(void *argument)
{
    struct first_call *call = argument;
    case_stub()->set_current(case_stub()->context(call->device, 0));
    pthread_barrier_wait(call->start);
    struct ptxmm_problem problem = problem_of(0, 1);
    struct ptxmm_arguments arguments = case_arguments();
    struct ptxmm_plan *plan;
    struct ptxmm_error error;
    call->failed = ptxmm_plan_create(call->mm, &problem, NULL, &plan, &error) ||
                   ptxmm_plan_run(plan, &arguments, NULL, &error);
    ptxmm_plan_destroy(&plan);
    return NULL;
}

/* 32 threads make the first call at once, on two devices: one load, all right. */
static void many_first_calls(void **unused)
{
    (void)unused;
    CASE_NEEDS_CUBINS;
    enum { THREADS = 32 };
    struct stub_state *stub = case_reset();
    stub->device_count = 2;
    stub->load_delay_us = 20000;
    struct ptxmm *mm = case_open();
    pthread_t thread[THREADS];
    pthread_barrier_t start;
    struct first_call call[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        call[i] = (struct first_call){ .mm = mm, .start = &start, .device = i % 2 };
        assert_int_equal(pthread_create(&thread[i], NULL, first_call, &call[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(call[i].failed, 0);
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(stub->loads, 1);
    assert_int_equal(stub->launches, THREADS);
    case_close(&mm);
    assert_int_equal(stub->unloads, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lazy),
        cmocka_unit_test(load_all),
        cmocka_unit_test_setup_teardown(one_bad_image, make_folder, remove_folder),
        cmocka_unit_test(refused_by_driver),
        cmocka_unit_test_setup_teardown(ptx, make_folder, remove_folder),
        cmocka_unit_test(many_first_calls),
    };
    return cmocka_run_group_tests_name("lib/images", tests, NULL, NULL);
}
