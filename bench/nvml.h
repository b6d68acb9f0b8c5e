/* nvml.h -- clocks, power and temperature of a GPU, by NVML found at run time. Reads only. */
#ifndef BENCH_NVML_H
#define BENCH_NVML_H

#include <stddef.h>

struct nvml;

/* What the card does at this moment; -1: unknown. */
struct nvml_state {
    int sm_mhz, memory_mhz, celsius;
    double watts;
};

/* Finds libnvidia-ml.so.1 and the device with this PCI bus id. NULL when there is none: then all is unknown. */
struct nvml *nvml_open(const char *pci_bus_id);
void nvml_close(struct nvml **nvml);
struct nvml_state nvml_read(const struct nvml *nvml); /* accepts NULL */
/* The display driver's version ("580.159.04") and the power limit in watts; "" and -1 when unknown. */
void nvml_facts(const struct nvml *nvml, char *version, size_t size, double *limit_watts);

#endif
