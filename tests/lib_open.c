/* lib_open.c -- finding and opening the driver, and every way in which that fails; devices;
 * closing; fork. */
#include "lib_case.h"

#include <pthread.h>
#include <sys/wait.h>

#include "loader/driver.h"

/* ---- copies of the stub that lack an entry point ------------------------------------------- */

/* Writes a copy of the stub to `path` in which the name of one symbol begins with another letter:
 * dlsym no longer finds it. */
static void copy_without(const char *symbol, const char *path)
{
    FILE *file = fopen(case_stub_path(), "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file), length = strlen(symbol);
    rewind(file);
    char *bytes = malloc(size);
    assert_int_equal(fread(bytes, 1, size, file), size);
    fclose(file);
    int found = 0;
    for (size_t i = 1; i + length < size; i++)
        if (!bytes[i - 1] &&
            !memcmp(bytes + i, symbol,
                    length + 1)) { // whole names, in the symbol and the debug strings
            bytes[i] = 'x';
            found++;
        }
    assert_true(found);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    free(bytes);
}

static void missing_entry_points(void **unused)
{
    (void)unused;
    static const char *const symbols[] = {
#define NAME(member, symbol) #symbol,
        DRIVER_CALLS(NAME)
#undef NAME
    };
    char folder[] = "/tmp/ptxmm-open-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        snprintf(path, sizeof path, "%s/libcuda-%zu.so", folder, i);
        copy_without(symbols[i], path);
        struct ptxmm *mm = (struct ptxmm *)path;
        struct ptxmm_error error;
        struct ptxmm_options options = { .driver = path };
        enum ptxmm_status status = ptxmm_open(&mm, &options, &error);
        case_check_error(&error, status, PTXMM_ERROR_DRIVER_SYMBOL, symbols[i], path, NULL);
        assert_null(mm);
        assert_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD)); // it was closed again
        unlink(path);
    }
    // What is optional may be missing.
    static const char *const optional[] = {
#define NAME(member, symbol) #symbol,
        DRIVER_OPTIONAL_CALLS(NAME)
#undef NAME
    };
    for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++) {
        snprintf(path, sizeof path, "%s/libcuda-less-%zu.so", folder, i);
        copy_without(optional[i], path);
        struct ptxmm *mm;
        struct ptxmm_options options = { .driver = path };
        assert_int_equal(ptxmm_open(&mm, &options, NULL), PTXMM_OK);
        assert_string_equal(ptxmm_driver_path(mm), path);
        case_close(&mm);
        unlink(path);
    }
    rmdir(folder);
}

/* ---- no driver, an old driver -------------------------------------------------------------- */

static void no_driver(void **unused)
{
    (void)unused;
    struct ptxmm *mm = (struct ptxmm *)&mm;
    struct ptxmm_error error;
    struct ptxmm_options options = { .driver = "/nowhere/libcuda.so.9" };
    enum ptxmm_status status = ptxmm_open(&mm, &options, &error);
    case_check_error(&error, status, PTXMM_ERROR_NO_DRIVER, "/nowhere/libcuda.so.9",
                     "options.driver", "cannot open", NULL);
    assert_null(mm);
    options.driver = "/etc/passwd"; // a file, but no library
    status = ptxmm_open(&mm, &options, &error);
    case_check_error(&error, status, PTXMM_ERROR_NO_DRIVER, "/etc/passwd", NULL);
    options.driver = "";
    status = ptxmm_open(&mm, &options, &error);
    case_check_error(&error, status, PTXMM_ERROR_ARGUMENT, "options.driver is an empty string",
                     NULL);

    setenv("PTXMM_DRIVER", "/nowhere/else.so", 1);
    status = ptxmm_open(&mm, NULL, &error);
    case_check_error(&error, status, PTXMM_ERROR_NO_DRIVER, "/nowhere/else.so", "PTXMM_DRIVER",
                     NULL);
    setenv("PTXMM_DRIVER", case_stub_path(), 1);
    assert_int_equal(ptxmm_open(&mm, NULL, &error), PTXMM_OK);
    assert_string_equal(ptxmm_driver_path(mm), case_stub_path());
    case_close(&mm);
    options.driver = "/nowhere/libcuda.so.9"; // the option goes before the environment
    status = ptxmm_open(&mm, &options, &error);
    case_check_error(&error, status, PTXMM_ERROR_NO_DRIVER, "/nowhere/libcuda.so.9", NULL);
    setenv("PTXMM_DRIVER", "",
           1); // empty is like unset: the system's driver, which may be there or not
    status = ptxmm_open(&mm, NULL, &error);
    if (status == PTXMM_ERROR_NO_DRIVER)
        case_check_error(&error, status, PTXMM_ERROR_NO_DRIVER, "libcuda.so.1", "the default",
                         NULL);
    ptxmm_close(&mm, NULL);
    unsetenv("PTXMM_DRIVER");
}

static void old_driver(void **unused)
{
    (void)unused;
    struct stub_state *stub = case_reset();
    stub->driver_version = 12040;
    struct ptxmm *mm;
    struct ptxmm_error error;
    struct ptxmm_options options = { .driver = case_stub_path() };
    enum ptxmm_status status = ptxmm_open(&mm, &options, &error);
    case_check_error(&error, status, PTXMM_ERROR_DRIVER_TOO_OLD, "CUDA 12.4", "needs ",
                     case_stub_path(), NULL);
    assert_null(mm);
    assert_int_equal(stub->init_calls, 0);
    stub->driver_version = 14020; // newer ones are welcome
    mm = case_open();
    assert_int_equal(ptxmm_driver_version(mm), 14020);
    case_close(&mm);
}

/* The three are told apart, and each names what was looked for. (The texts are checked above.) */
static void three_failures(void **unused)
{
    (void)unused;
    assert_string_not_equal(ptxmm_status_text(PTXMM_ERROR_NO_DRIVER),
                            ptxmm_status_text(PTXMM_ERROR_DRIVER_SYMBOL));
    assert_string_not_equal(ptxmm_status_text(PTXMM_ERROR_DRIVER_SYMBOL),
                            ptxmm_status_text(PTXMM_ERROR_DRIVER_TOO_OLD));
    assert_string_not_equal(ptxmm_status_text(PTXMM_ERROR_NO_DRIVER),
                            ptxmm_status_text(PTXMM_ERROR_DRIVER_TOO_OLD));
}

/* ---- failing calls ------------------------------------------------------------------------- */

static void failing_calls(void **unused)
{
    (void)unused;
    static const char *const calls[] = { "cuDriverGetVersion", "cuInit" };
    for (size_t i = 0; i < 2; i++) {
        case_reset();
        case_fail(calls[i], CUDA_ERROR_NO_DEVICE, 0);
        struct ptxmm *mm;
        struct ptxmm_error error;
        struct ptxmm_options options = { .driver = case_stub_path() };
        enum ptxmm_status status = ptxmm_open(&mm, &options, &error);
        case_check_error(&error, status, PTXMM_ERROR_DRIVER, calls[i], "CUDA_ERROR_NO_DEVICE (100)",
                         NULL);
        assert_int_equal(error.driver_result, 100);
        assert_null(mm);
        assert_int_equal(ptxmm_open(&mm, &options, NULL),
                         PTXMM_ERROR_DRIVER); // without a place for the text too
    }
    // Not even the names of errors can be had.
    case_reset();
    struct ptxmm *mm = case_open();
    struct ptxmm_error error;
    int count;
    case_fail("cuDeviceGetCount", (CUresult)12345, 0);
    case_check_error(&error, ptxmm_device_count(mm, &count, &error), PTXMM_ERROR_DRIVER,
                     "cuDeviceGetCount", "an unknown error (12345)", NULL);
    case_reset();
    case_close(&mm);
}

static void devices(void **unused)
{
    (void)unused;
    struct stub_state *stub = case_reset();
    stub->device_count = 3;
    stub->devices[1].major = 10;
    stub->devices[1].minor = 3;
    stub->devices[1].sms = 148;
    stub->devices[2].clock_khz = 0; // some drivers do not tell
    stub->devices[2].memory_khz = 0;
    struct ptxmm *mm = case_open();
    struct ptxmm_error error;
    int count = 0;
    assert_int_equal(ptxmm_device_count(mm, &count, &error), PTXMM_OK);
    assert_int_equal(count, 3);
    struct ptxmm_device device, known;
    assert_int_equal(ptxmm_device_known("h200", &known, &error), PTXMM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ptxmm_device_query(mm, i, &device, &error), PTXMM_OK);
        char name[] = "stub 0";
        name[5] = (char)('0' + i);
        assert_string_equal(device.name, name);
        assert_int_equal(device.arch, i == 1 ? 103 : 90);
        assert_int_equal(device.sm_count, i == 1 ? 148 : 132);
        assert_int_equal(device.shared_bytes, 232448);
        assert_int_equal(device.clock_khz, 1980000);
        assert_true(device.l2_bytes == known.l2_bytes);
        assert_true(device.memory_bytes_per_second == known.memory_bytes_per_second);
    }
    case_check_error(&error, ptxmm_device_query(mm, 3, &device, &error), PTXMM_ERROR_ARGUMENT,
                     "ordinal is 3", "0 to 2", NULL);
    case_check_error(&error, ptxmm_device_query(mm, -1, &device, &error), PTXMM_ERROR_ARGUMENT,
                     "ordinal is -1", NULL);
    case_check_error(&error, ptxmm_device_query(NULL, 0, &device, &error), PTXMM_ERROR_ARGUMENT,
                     "mm is NULL", NULL);
    case_check_error(&error, ptxmm_device_query(mm, 0, NULL, &error), PTXMM_ERROR_ARGUMENT,
                     "device is NULL", NULL);
    case_check_error(&error, ptxmm_device_count(mm, NULL, &error), PTXMM_ERROR_ARGUMENT,
                     "count is NULL", NULL);
    static const char *const calls[] = { "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute",
                                         "cuDeviceGetName" };
    for (size_t i = 0; i < 4; i++) {
        case_fail(calls[i], CUDA_ERROR_UNKNOWN, 0);
        memset(&device, 1, sizeof device);
        case_check_error(&error, ptxmm_device_query(mm, 0, &device, &error), PTXMM_ERROR_DRIVER,
                         calls[i], "CUDA_ERROR_UNKNOWN", NULL);
        assert_int_equal(device.arch, 0); // nothing is left half filled
    }
    case_reset();
    case_close(&mm);
}

/* ---- options, handles ---------------------------------------------------------------------- */

static void note_line(void *user, const char *line)
{
    char *lines = user;
    assert_null(strchr(line, '\n'));
    strncat(lines, line, 4000 - strlen(lines));
    strcat(lines, "\n");
}

static void options_and_handles(void **unused)
{
    (void)unused;
    case_reset();
    struct ptxmm_error error;
    struct ptxmm_options options = { .driver = case_stub_path() };
    struct ptxmm *mm = NULL, *other = NULL;
    case_check_error(&error, ptxmm_open(NULL, &options, &error), PTXMM_ERROR_ARGUMENT, "mm is NULL",
                     NULL);
    options.reserved[5] = 1;
    case_check_error(&error, ptxmm_open(&mm, &options, &error), PTXMM_ERROR_ARGUMENT,
                     "options.reserved[5]", NULL);
    options.reserved[5] = 0;
    options.checked = 2;
    case_check_error(&error, ptxmm_open(&mm, &options, &error), PTXMM_ERROR_ARGUMENT,
                     "options.checked is 2", NULL);
    options.checked = 0;

    // The strings are copied, and the log tells of the driver.
    char lines[4096] = "", path[4200];
    snprintf(path, sizeof path, "%s", case_stub_path());
    options.driver = path;
    options.log = note_line;
    options.log_user = lines;
    assert_int_equal(ptxmm_open(&mm, &options, &error), PTXMM_OK);
    assert_int_equal(error.status, PTXMM_OK);
    assert_string_equal(error.text, "");
    memset(path, 'x', sizeof path - 1);
    assert_non_null(strstr(lines, "libstub_driver.so"));
    assert_string_equal(ptxmm_driver_path(mm), case_stub_path());
    assert_int_equal(ptxmm_driver_version(mm), 13000);

    // Two at once; closing twice, closing NULL.
    other = case_open();
    assert_ptr_not_equal(mm, other);
    case_close(&mm);
    assert_int_equal(ptxmm_close(&mm, &error), PTXMM_OK);
    assert_int_equal(ptxmm_close(NULL, &error), PTXMM_OK);
    assert_int_equal(ptxmm_driver_version(other), 13000);
    case_close(&other);
    assert_null(ptxmm_driver_path(NULL));
    assert_int_equal(ptxmm_driver_version(NULL), 0);
}

static void *open_and_close(void *failures)
{
    for (int i = 0; i < 20; i++) {
        struct ptxmm *mm;
        struct ptxmm_options options = { .driver = case_stub_path() };
        int count;
        if (ptxmm_open(&mm, &options, NULL) || ptxmm_device_count(mm, &count, NULL) ||
            ptxmm_close(&mm, NULL))
            atomic_fetch_add((atomic_int *)failures, 1);
    }
    return NULL;
}

static void threads(void **unused)
{
    (void)unused;
    case_reset();
    pthread_t thread[8];
    atomic_int failures = 0;
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, open_and_close, &failures), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(failures, 0);
}

/* After fork the child may only close. */
static void forked(void **unused)
{
    (void)unused;
    struct stub_state *stub = case_reset();
    struct ptxmm *mm = case_open();
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct ptxmm_error error;
        int count, wrong = 0;
        struct ptxmm_device device;
        struct ptxmm_plan *plan;
        struct ptxmm_problem problem = case_problem(64, 64, 64);
        wrong |= ptxmm_device_count(mm, &count, &error) != PTXMM_ERROR_FORKED ||
                 !strstr(error.text, "fork");
        wrong |= (ptxmm_device_query(mm, 0, &device, &error) != PTXMM_ERROR_FORKED) << 1;
        wrong |= (ptxmm_load_all(mm, &error) != PTXMM_ERROR_FORKED) << 2;
        wrong |= (ptxmm_plan_create(mm, &problem, NULL, &plan, &error) != PTXMM_ERROR_FORKED) << 3;
        wrong |= (ptxmm_close(&mm, &error) != PTXMM_OK || mm) << 4;
        wrong |= (stub->unloads != 0) << 5; // the driver was not touched
        _exit(wrong);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    int count;
    assert_int_equal(ptxmm_device_count(mm, &count, NULL), PTXMM_OK); // the parent goes on
    case_close(&mm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_entry_points),
        cmocka_unit_test(no_driver),
        cmocka_unit_test(old_driver),
        cmocka_unit_test(three_failures),
        cmocka_unit_test(failing_calls),
        cmocka_unit_test(devices),
        cmocka_unit_test(options_and_handles),
        cmocka_unit_test(threads),
        cmocka_unit_test(forked),
    };
    return cmocka_run_group_tests_name("lib/open", tests, NULL, NULL);
}
