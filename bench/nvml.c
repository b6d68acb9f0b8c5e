/* nvml.c -- the six NVML calls that a benchmark needs. */
#define _GNU_SOURCE
#include "nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2, NVML_TEMPERATURE_GPU = 0 };

#define NVML_FUNCTIONS(X)                                                     \
    X(Init_v2, (void))                                                        \
    X(Shutdown, (void))                                                       \
    X(DeviceGetHandleByPciBusId_v2, (const char *bus_id, void **device))      \
    X(DeviceGetClockInfo, (void *device, int which, unsigned *mhz))           \
    X(DeviceGetPowerUsage, (void *device, unsigned *milliwatts))              \
    X(DeviceGetEnforcedPowerLimit, (void *device, unsigned *milliwatts))      \
    X(DeviceGetTemperature, (void *device, int which, unsigned *celsius))     \
    X(SystemGetDriverVersion, (char *version, unsigned size))

struct nvml {
    void *library, *device;
#define NVML_MEMBER(name, parameters) int(*name) parameters;
    NVML_FUNCTIONS(NVML_MEMBER)
#undef NVML_MEMBER
};

struct nvml *nvml_open(const char *pci_bus_id)
{
    struct nvml *nvml = calloc(1, sizeof *nvml);
    if (!nvml) return NULL;
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) goto fail;
    const struct {
        const char *name;
        void *slot;
    } rows[] = {
#define NVML_ROW(name, parameters) { "nvml" #name, &nvml->name },
        NVML_FUNCTIONS(NVML_ROW)
#undef NVML_ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(nvml->library, rows[i].name);
        if (!symbol) goto fail;
        memcpy(rows[i].slot, &symbol, sizeof symbol);
    }
    if (nvml->Init_v2() != 0) goto fail;
    if (nvml->DeviceGetHandleByPciBusId_v2(pci_bus_id, &nvml->device) == 0) return nvml;
    nvml->Shutdown();
fail:
    if (nvml->library) dlclose(nvml->library);
    free(nvml);
    return NULL;
}

void nvml_close(struct nvml **nvml)
{
    if (!nvml || !*nvml) return;
    (*nvml)->Shutdown();
    dlclose((*nvml)->library);
    free(*nvml);
    *nvml = NULL;
}

struct nvml_state nvml_read(const struct nvml *nvml)
{
    struct nvml_state state = { -1, -1, -1, -1 };
    unsigned value;
    if (!nvml) return state;
    if (nvml->DeviceGetClockInfo(nvml->device, NVML_CLOCK_SM, &value) == 0) state.sm_mhz = (int)value;
    if (nvml->DeviceGetClockInfo(nvml->device, NVML_CLOCK_MEMORY, &value) == 0) state.memory_mhz = (int)value;
    if (nvml->DeviceGetTemperature(nvml->device, NVML_TEMPERATURE_GPU, &value) == 0) state.celsius = (int)value;
    if (nvml->DeviceGetPowerUsage(nvml->device, &value) == 0) state.watts = value / 1000.0;
    return state;
}

void nvml_facts(const struct nvml *nvml, char *version, size_t size, double *limit_watts)
{
    unsigned value;
    version[0] = 0;
    *limit_watts = -1;
    if (!nvml) return;
    if (nvml->SystemGetDriverVersion(version, (unsigned)size) != 0) version[0] = 0;
    if (nvml->DeviceGetEnforcedPowerLimit(nvml->device, &value) == 0) *limit_watts = value / 1000.0;
}
