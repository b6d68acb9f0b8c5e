/* device.c -- what selection needs to know of a device: asked of the driver, or from a table of
 * known parts. */
#include "device.h"

#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "pack.h"

/* Known parts. SMs, shared memory, L2 and clock as the devices report them; memory from the data
 * sheets: H200 141 GB HBM3e at 4.8 TB/s, B200 180 GB HBM3e at 8 TB/s. */
static const struct {
    const char *names[2];
    struct ptxmm_device device;
} parts[] = {
    { { "h200", "sm90" },
      { .name = "NVIDIA H200",
        .arch = 90,
        .sm_count = 132,
        .shared_bytes = 232448,
        .clock_khz = 1980000,
        .l2_bytes = 60 << 20,
        .memory_bytes_per_second = INT64_C(4800000000000) } },
    { { "b200", "sm100" },
      { .name = "NVIDIA B200",
        .arch = 100,
        .sm_count = 148,
        .shared_bytes = 232448,
        .clock_khz = 1965000,
        .l2_bytes = 126 << 20,
        .memory_bytes_per_second = INT64_C(8000000000000) } },
};

enum ptxmm_status ptxmm_device_known(const char *name, struct ptxmm_device *device,
                                     struct ptxmm_error *error)
{
    if (!device)
        return error_set(error, PTXMM_ERROR_ARGUMENT,
                         "device is NULL, must point to where the result goes");
    memset(device, 0, sizeof *device);
    if (!name)
        return error_set(error, PTXMM_ERROR_ARGUMENT,
                         "name is NULL, must be h200, sm90, b200 or sm100");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!strcmp(name, parts[i].names[0]) || !strcmp(name, parts[i].names[1])) {
            *device = parts[i].device;
            return error_none(error);
        }
    }
    return error_set(error, PTXMM_ERROR_ARGUMENT,
                     "name is \"%.100s\", must be h200, sm90, b200 or sm100", name);
}

enum ptxmm_status device_describe(const struct driver *driver, CUdevice handle,
                                  struct ptxmm_device *device, struct ptxmm_error *error)
{
    memset(device, 0, sizeof *device);
    int major = 0, minor = 0, memory_khz = 0, bus_bits = 0, l2 = 0;
    const struct {
        CUdevice_attribute attribute;
        const char *name;
        int *value;
    } wanted[] = {
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "COMPUTE_CAPABILITY_MAJOR", &major },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "COMPUTE_CAPABILITY_MINOR", &minor },
        { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "MULTIPROCESSOR_COUNT", &device->sm_count },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
          "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", &device->shared_bytes },
        { CU_DEVICE_ATTRIBUTE_CLOCK_RATE, "CLOCK_RATE", &device->clock_khz },
        { CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, "L2_CACHE_SIZE", &l2 },
        { CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, "MEMORY_CLOCK_RATE", &memory_khz },
        { CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, "GLOBAL_MEMORY_BUS_WIDTH", &bus_bits },
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        CUresult result = driver->DeviceGetAttribute(wanted[i].value, wanted[i].attribute, handle);
        if (result)
            return driver_failed(driver, error, result, "cuDeviceGetAttribute(%s)", wanted[i].name);
    }
    CUresult result = driver->DeviceGetName(device->name, sizeof device->name, handle);
    if (result)
        return driver_failed(driver, error, result, "cuDeviceGetName");
    device->name[sizeof device->name - 1] = '\0';
    device->arch = 10 * major + minor;
    device->l2_bytes = l2;
    device->memory_bytes_per_second =
        INT64_C(2000) * memory_khz * (bus_bits / 8); // two transfers a clock

    // Some drivers keep clocks to themselves, and a prediction needs some: then those of a known
    // part, of the same generation if there is one.
    const struct ptxmm_device *known = &parts[0].device;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].device.arch / 10 == major)
            known = &parts[i].device;
    if (device->clock_khz <= 0)
        device->clock_khz = known->clock_khz;
    if (device->memory_bytes_per_second <= 0)
        device->memory_bytes_per_second = known->memory_bytes_per_second;
    return PTXMM_OK;
}

enum ptxmm_status device_check(const struct ptxmm_device *device, struct ptxmm_error *error)
{
    if (!device)
        return error_set(error, PTXMM_ERROR_ARGUMENT,
                         "device is NULL, must point to a description");
    const struct {
        const char *name;
        int64_t value, least;
    } members[] = {
        { "arch", device->arch, 10 },
        { "sm_count", device->sm_count, 1 },
        { "shared_bytes", device->shared_bytes, 0 },
        { "clock_khz", device->clock_khz, 1 },
        { "l2_bytes", device->l2_bytes, 0 },
        { "memory_bytes_per_second", device->memory_bytes_per_second, 1 },
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (members[i].value < members[i].least)
            return error_set(error, PTXMM_ERROR_ARGUMENT,
                             "device.%s is %" PRId64 ", must be at least %" PRId64, members[i].name,
                             members[i].value, members[i].least);
    for (size_t i = 0; i < sizeof device->reserved / sizeof device->reserved[0]; i++)
        if (device->reserved[i])
            return error_set(error, PTXMM_ERROR_ARGUMENT,
                             "device.reserved[%zu] is not 0, must be 0", i);
    return PTXMM_OK;
}

enum ptxmm_status ptxmm_device_count(struct ptxmm *mm, int *count, struct ptxmm_error *error)
{
    if (!mm || !count)
        return error_set(error, PTXMM_ERROR_ARGUMENT, "%s is NULL, must not be",
                         mm ? "count" : "mm");
    *count = 0;
    if (pack_forked(mm))
        return pack_forked_error(error);
    CUresult result = mm->driver.DeviceGetCount(count);
    if (result) {
        *count = 0;
        return driver_failed(&mm->driver, error, result, "cuDeviceGetCount");
    }
    return error_none(error);
}

enum ptxmm_status ptxmm_device_query(struct ptxmm *mm, int ordinal, struct ptxmm_device *device,
                                     struct ptxmm_error *error)
{
    if (!mm || !device)
        return error_set(error, PTXMM_ERROR_ARGUMENT, "%s is NULL, must not be",
                         mm ? "device" : "mm");
    memset(device, 0, sizeof *device);
    int count;
    enum ptxmm_status status = ptxmm_device_count(mm, &count, error);
    if (status)
        return status;
    if (ordinal < 0 || ordinal >= count)
        return error_set(error, PTXMM_ERROR_ARGUMENT, "ordinal is %d, must be from 0 to %d",
                         ordinal, count - 1);
    CUdevice handle;
    CUresult result = mm->driver.DeviceGet(&handle, ordinal);
    if (result)
        return driver_failed(&mm->driver, error, result, "cuDeviceGet(%d)", ordinal);
    struct ptxmm_device found;
    status = device_describe(&mm->driver, handle, &found, error);
    if (status)
        return status;
    *device = found;
    return error_none(error);
}
