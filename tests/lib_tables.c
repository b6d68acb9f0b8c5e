/* lib_tables.c -- statuses, reasons, the pack's table, SHA-256: what needs no driver at all. */
#include "lib_case.h"

#include "loader/kernels.h"
#include "loader/sha256.h"
#include "loader/timing.h"
#include "loader/tmap.h"

static void statuses(void **unused)
{
    (void)unused;
    static const int values[] = {
#define VALUE(name, value, text) PTXMM_##name,
        PTXMM_STATUS_LIST(VALUE)
#undef VALUE
    };
    int count = (int)(sizeof values / sizeof values[0]);
    for (int i = 0; i < count; i++) {
        assert_int_equal(values[i], i); // values are stable and without a gap
        assert_memory_equal(ptxmm_status_name((enum ptxmm_status)i), "PTXMM_", 6);
        assert_true(strlen(ptxmm_status_text((enum ptxmm_status)i)) > 6);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(ptxmm_status_text((enum ptxmm_status)i),
                                    ptxmm_status_text((enum ptxmm_status)j));
    }
    assert_string_equal(ptxmm_status_name(PTXMM_OK), "PTXMM_OK");
    assert_string_equal(ptxmm_status_name(PTXMM_ERROR_ARGUMENT), "PTXMM_ERROR_ARGUMENT");
    assert_string_equal(ptxmm_status_text(PTXMM_ERROR_ARGUMENT), "an argument is invalid");
    const int wrong[] = { -1, count, 1000000 };
    for (int i = 0; i < 3; i++) {
        assert_string_equal(ptxmm_status_name((enum ptxmm_status)wrong[i]), "PTXMM_ERROR_UNKNOWN");
        assert_string_equal(ptxmm_status_text((enum ptxmm_status)wrong[i]), "unknown status");
    }
}

static void reasons(void **unused)
{
    (void)unused;
    int next = 0;
#define CHECK(name, value, text)                                        \
    assert_int_equal(PTXMM_REASON_##name, next++);                      \
    assert_string_equal(ptxmm_reason_name(PTXMM_REASON_##name), #name); \
    assert_string_equal(ptxmm_reason_text(PTXMM_REASON_##name), text);
    PTXMM_REASON_LIST(CHECK)
#undef CHECK
    assert_string_equal(ptxmm_reason_name((enum ptxmm_reason)next), "UNKNOWN");
    assert_string_equal(ptxmm_reason_text((enum ptxmm_reason) - 1), "unknown reason");
}

static void version(void **unused)
{
    (void)unused;
    assert_int_equal(ptxmm_version(),
                     10000 * PTXMM_VERSION_MAJOR + 100 * PTXMM_VERSION_MINOR + PTXMM_VERSION_PATCH);
}

static void kernels(void **unused)
{
    (void)unused;
    size_t count = ptxmm_kernel_count();
    assert_true(count > 0 && count == KERNEL_COUNT);
    assert_null(ptxmm_kernel(count));
    assert_null(ptxmm_kernel(SIZE_MAX));
    assert_null(ptxmm_kernel_by_name(NULL));
    assert_null(ptxmm_kernel_by_name(""));
    assert_null(ptxmm_kernel_by_name("sm90_gemm"));
    for (size_t i = 0; i < count; i++) {
        const struct ptxmm_kernel_info *kernel = ptxmm_kernel(i);
        assert_ptr_equal(ptxmm_kernel_by_name(kernel->name), kernel);
        assert_int_equal(kernels_index(kernel), i);
        int arch = kernels_target_arch(kernel->target);
        char prefix[32];
        snprintf(prefix, sizeof prefix, "sm%d_", arch);
        assert_memory_equal(kernel->name, prefix, strlen(prefix));
        assert_true(kernels_target_runs_on(kernel->target, arch));
        assert_true(timing_knows(arch)); // else selection could not compare it
        assert_true(kernel->tile_m && kernel->tile_n && kernel->tile_k && kernel->stages &&
                    kernel->cluster);
        assert_true(kernel->threads % 32 == 0 && kernel->threads <= 1024);
        assert_true(kernel->shared_bytes <= 232448);
        assert_int_equal(kernel->abi_version, PTXMM_ABI_VERSION);
        assert_true((int)kernel->min_driver >= kernels_min_driver());
    }
}

/* A target runs on its own architecture (a), or on its family (f), and nowhere else. */
static void targets(void **unused)
{
    (void)unused;
    static const struct {
        const char *target;
        int runs_on[4];
    } rows[] = {
        { "sm_90a", { 90 } },        { "sm_100a", { 100 } }, { "sm_103a", { 103 } },
        { "sm_100f", { 100, 103 } }, { "sm_103f", { 103 } }, { "sm_110f", { 110 } },
        { "sm_120f", { 120, 121 } }, { "sm_121f", { 121 } }, { "sm_120a", { 120 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int arch = 50; arch <= 121; arch++) {
            int expected = 0;
            for (int j = 0; j < 4; j++)
                expected |= rows[i].runs_on[j] == arch;
            if (kernels_target_runs_on(rows[i].target, arch) != expected)
                fail_msg("%s on %d: must be %d", rows[i].target, arch, expected);
        }
    }
}

/* FIPS 180-4's examples, and lengths around the block. */
static void hashes(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        size_t repeat;
        const char *hex;
    } rows[] = {
        { "", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
          "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
          1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
        { "a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
        { "a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318" },
        { "a", 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a" },
        { "a", 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34" },
        { "a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length = strlen(rows[i].text), size = length * rows[i].repeat;
        char *bytes = malloc(size + 1), hex[65];
        for (size_t j = 0; j < rows[i].repeat; j++)
            memcpy(bytes + j * length, rows[i].text, length);
        sha256(bytes, size, hex);
        free(bytes);
        assert_string_equal(hex, rows[i].hex);
    }
}

/* What the library says of its images is true, and indices past the end are errors. */
static void images(void **unused)
{
    (void)unused;
    struct ptxmm_error error;
    struct ptxmm_image image;
    enum ptxmm_status status = ptxmm_kernel_image(ptxmm_kernel_count(), &image, &error);
    case_check_error(&error, status, PTXMM_ERROR_ARGUMENT, "index is", NULL);
    assert_null(image.bytes);
    status = ptxmm_kernel_image(0, NULL, &error);
    case_check_error(&error, status, PTXMM_ERROR_ARGUMENT, "image is NULL", NULL);
    CASE_NEEDS_CUBINS;
    for (size_t i = 0; i < ptxmm_kernel_count(); i++) {
        assert_int_equal(ptxmm_kernel_image(i, &image, &error), PTXMM_OK);
        assert_memory_equal(image.bytes, "\177ELF", 4);
        char hex[65];
        sha256(image.bytes, image.size, hex);
        assert_string_equal(hex, image.sha256);
    }
}

/* The encoder's wrong bit, 21 of the second word, is cleared for tensors that are small and not
 * dense, and only for those. */
static void small_maps(void **unused)
{
    (void)unused;
    static const struct {
        struct extent extent;
        int cleared;
    } rows[] = {
        { { 64, 64, 72, 16, 1, 0 }, 1 },  // 64 x 64 of f16, ld = 72
        { { 64, 64, 64, 16, 1, 0 }, 0 },  // dense
        { { 64, 1, 72, 16, 1, 0 }, 0 },   // one row is dense
        { { 64, 910, 72, 16, 1, 0 }, 1 }, // 131,040 bytes
        { { 64, 911, 72, 16, 1, 0 }, 0 }, // 131,184 bytes
        { { 8, INT64_C(1) << 31, INT64_C(1) << 31, 32, 1, 0 }, 0 },
        { { 8, 2, INT64_C(1) << 38, 32, 1, 0 }, 0 },
        { { 64, 8, 64, 16, 8, 512 }, 0 }, // dense matrices, one behind the other
        { { 64, 8, 64, 16, 8, 520 }, 1 }, // ... with a gap
        { { 64, 8, 64, 16, 8, 0 }, 1 },   // ... one for all
        { { 64, 8, 72, 16, 128, 520 }, 0 }, // 133,216 bytes
        { { 64, 8, 64, 16, INT64_C(1) << 31, INT64_C(1) << 32 }, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ptxmm_tensor_map map, expected;
        memset(&map, 0xff, sizeof map);
        expected = map;
        if (rows[i].cleared)
            expected.opaque[1] &= ~(UINT64_C(1) << 21);
        tmap_mend_small(&rows[i].extent, &map);
        assert_memory_equal(&map, &expected, sizeof map);
    }
}

static void known_devices(void **unused)
{
    (void)unused;
    struct ptxmm_error error;
    struct ptxmm_device device, same;
    assert_int_equal(ptxmm_device_known("h200", &device, &error), PTXMM_OK);
    assert_int_equal(device.arch, 90);
    assert_int_equal(device.sm_count, 132);
    assert_int_equal(ptxmm_device_known("sm90", &same, NULL), PTXMM_OK);
    assert_memory_equal(&device, &same, sizeof device);
    assert_int_equal(ptxmm_device_known("b200", &device, NULL), PTXMM_OK);
    assert_int_equal(device.arch, 100);
    assert_int_equal(ptxmm_device_known("sm100", &same, NULL), PTXMM_OK);
    assert_memory_equal(&device, &same, sizeof device);
    case_check_error(&error, ptxmm_device_known("a100", &device, &error), PTXMM_ERROR_ARGUMENT,
                     "\"a100\"", "h200", NULL);
    case_check_error(&error, ptxmm_device_known(NULL, &device, &error), PTXMM_ERROR_ARGUMENT,
                     "name is NULL", NULL);
    case_check_error(&error, ptxmm_device_known("h200", NULL, &error), PTXMM_ERROR_ARGUMENT,
                     "device is NULL", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses), cmocka_unit_test(reasons),    cmocka_unit_test(version),
        cmocka_unit_test(kernels),  cmocka_unit_test(targets),    cmocka_unit_test(hashes),
        cmocka_unit_test(images),   cmocka_unit_test(small_maps), cmocka_unit_test(known_devices),
    };
    return cmocka_run_group_tests_name("lib/tables", tests, NULL, NULL);
}
