// Devices: names, memory, attributes. The H200-like numbers were read from an H200 (driver 580,
// CUDA 13.0).
#define _POSIX_C_SOURCE 200809L
#include "driver.h"

#include <stdio.h>
#include <string.h>

#define AT(name, value) [CU_DEVICE_ATTRIBUTE_##name] = value

// What is absent here, or was read as 0, is 0: textures, surfaces, managed memory, virtual memory
// management, sharing between processes.
static const int attributes[CU_DEVICE_ATTRIBUTE_MAX] = {
    AT(MAX_THREADS_PER_BLOCK, 1024),
    AT(MAX_BLOCK_DIM_X, 1024),
    AT(MAX_BLOCK_DIM_Y, 1024),
    AT(MAX_BLOCK_DIM_Z, 64),
    AT(MAX_GRID_DIM_X, 2147483647),
    AT(MAX_GRID_DIM_Y, 65535),
    AT(MAX_GRID_DIM_Z, 65535),
    AT(MAX_SHARED_MEMORY_PER_BLOCK, 49152),
    AT(TOTAL_CONSTANT_MEMORY, 65536),
    AT(WARP_SIZE, 32),
    AT(MAX_PITCH, 2147483647),
    AT(MAX_REGISTERS_PER_BLOCK, 65536),
    AT(CLOCK_RATE, 1980000),
    AT(TEXTURE_ALIGNMENT, 512),
    AT(GPU_OVERLAP, 1),
    AT(MULTIPROCESSOR_COUNT, 132),
    AT(CAN_MAP_HOST_MEMORY, 1),
    AT(SURFACE_ALIGNMENT, 512),
    AT(CONCURRENT_KERNELS, 1),
    AT(MEMORY_CLOCK_RATE, 3201000),
    AT(GLOBAL_MEMORY_BUS_WIDTH, 6016),
    AT(L2_CACHE_SIZE, 62914560),
    AT(MAX_THREADS_PER_MULTIPROCESSOR, 2048),
    AT(ASYNC_ENGINE_COUNT, 3),
    AT(UNIFIED_ADDRESSING, 1),
    AT(MANAGED_MEMORY, 1),
    AT(CONCURRENT_MANAGED_ACCESS, 1),
    AT(TEXTURE_PITCH_ALIGNMENT, 32),
    AT(COMPUTE_CAPABILITY_MAJOR, 9),
    AT(STREAM_PRIORITIES_SUPPORTED, 1),
    AT(GLOBAL_L1_CACHE_SUPPORTED, 1),
    AT(LOCAL_L1_CACHE_SUPPORTED, 1),
    AT(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472),
    AT(MAX_REGISTERS_PER_MULTIPROCESSOR, 65536),
    AT(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2),
    AT(COMPUTE_PREEMPTION_SUPPORTED, 1),
    AT(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1),
    AT(COOPERATIVE_LAUNCH, 1),
    AT(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448),
    AT(HOST_REGISTER_SUPPORTED, 1),
    AT(MAX_BLOCKS_PER_MULTIPROCESSOR, 32),
    AT(MAX_PERSISTING_L2_CACHE_SIZE, 39321600),
    AT(MAX_ACCESS_POLICY_WINDOW_SIZE, 134217728),
    AT(RESERVED_SHARED_MEMORY_PER_BLOCK, 1024),
    AT(MEMORY_POOLS_SUPPORTED, 1),
    AT(CLUSTER_LAUNCH, 1),
    AT(CAN_USE_64_BIT_STREAM_MEM_OPS, 1),
    AT(CAN_USE_STREAM_WAIT_VALUE_NOR, 1),
    AT(MEM_SYNC_DOMAIN_COUNT, 4),
    AT(TENSOR_MAP_ACCESS_SUPPORTED, 1),
    AT(UNIFIED_FUNCTION_POINTERS, 1),
    AT(NUMA_ID, -1),
};

// Where the B200-like part differs. Its memory, cache and clocks are those of published data
// sheets.
static const struct {
    CUdevice_attribute attribute;
    int value;
} b200[] = {
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 10},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1965000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3996000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 7680},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 132644864},
    {CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 82903040},
};

#define H200_MEMORY UINT64_C(150109880320)
#define B200_MEMORY UINT64_C(191503482880)

uint64_t device_memory(void)
{
    return driver_part_is_b200() ? B200_MEMORY : H200_MEMORY;
}

struct device *device_find(CUdevice ordinal)
{
    return ordinal >= 0 && (unsigned)ordinal < driver.config.devices ? &driver.devices[ordinal]
                                                                     : NULL;
}

int device_attribute(const struct device *device, CUdevice_attribute attribute)
{
    if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        return (int)device->sms;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        return device->ordinal + 1;
    if (driver_part_is_b200())
        for (size_t i = 0; i < sizeof b200 / sizeof *b200; i++)
            if (b200[i].attribute == attribute)
                return b200[i].value;
    return attributes[attribute];
}

static CUresult get(CUdevice *dev, int ordinal)
{
    if (!dev)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_find(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *dev, int ordinal)
{
    IN_DRIVER(get(dev, ordinal));
}

static CUresult get_count(int *count)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)driver.config.devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    IN_DRIVER(get_count(count));
}

static CUresult get_name(char *name, int room, CUdevice dev)
{
    if (!name || room < 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_find(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)room, "%s (ptxmm emulator)",
             driver_part_is_b200() ? "NVIDIA B200" : "NVIDIA H200");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    IN_DRIVER(get_name(name, len, dev));
}

static CUresult get_uuid(CUuuid *uuid, CUdevice dev)
{
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_find(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "ptxmm-emulator--", sizeof uuid->bytes);
    uuid->bytes[15] = (char)('0' + dev);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    IN_DRIVER(get_uuid(uuid, dev));
}

static CUresult total_memory(size_t *bytes, CUdevice dev)
{
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_find(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = device_memory();
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    IN_DRIVER(total_memory(bytes, dev));
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice dev)
{
    const struct device *device = device_find(dev);
    if (!value || attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = device_attribute(device, attribute);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev)
{
    IN_DRIVER(get_attribute(value, attribute, dev));
}

static CUresult capability(int *major, int *minor, CUdevice dev)
{
    const struct device *device = device_find(dev);
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    *major = device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    IN_DRIVER(capability(major, minor, dev));
}

static CUresult properties(CUdevprop *prop, CUdevice dev)
{
    const struct device *device = device_find(dev);
    if (!prop)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    *prop = (CUdevprop){
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {2147483647, 65535, 65535},
        .sharedMemPerBlock = 49152,
        .totalConstantMemory = 65536,
        .SIMDWidth = 32,
        .memPitch = 2147483647,
        .regsPerBlock = 65536,
        .clockRate = device_attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        .textureAlign = 512,
    };
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    IN_DRIVER(properties(prop, dev));
}

// ---- bus addresses ------------------------------------------------------------------------------

static CUresult bus_id(char *text, int room, CUdevice dev)
{
    if (!text || room < 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_find(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(text, (size_t)room, "0000:%02x:00.0", (unsigned)dev + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int len, CUdevice dev)
{
    IN_DRIVER(bus_id(text, len, dev));
}

static CUresult by_bus_id(CUdevice *dev, const char *text)
{
    unsigned domain = 0, bus, slot, function;
    if (!dev || !text)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4 &&
        (domain = 0, sscanf(text, "%x:%x.%x", &bus, &slot, &function)) != 3)
        return CUDA_ERROR_INVALID_VALUE;
    if (domain || slot || function || bus < 1 || bus > driver.config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = (CUdevice)bus - 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *text)
{
    IN_DRIVER(by_bus_id(dev, text));
}

// ---- peers --------------------------------------------------------------------------------------

static CUresult can_access(int *can, CUdevice dev, CUdevice peer)
{
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_find(dev) || !device_find(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = dev != peer;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
    IN_DRIVER(can_access(can, dev, peer));
}

static CUresult p2p_attribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from,
                              CUdevice to)
{
    if (!value || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
        attribute > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_find(from) || !device_find(to) || from == to)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
             attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from,
                                 CUdevice to)
{
    IN_DRIVER(p2p_attribute(value, attribute, from, to));
}

static CUresult affinity(int *supported, CUexecAffinityType type, CUdevice dev)
{
    if (!supported || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_find(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *supported = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice dev)
{
    IN_DRIVER(affinity(supported, type, dev));
}
