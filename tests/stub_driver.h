/* stub_driver.h -- a library that stands in for libcuda in tests of the loader. It runs nothing: it
 * checks what it is given as the driver would, notes it down, and fails where it is told to. A test
 * reaches this state through stub_state(). */
#ifndef STUB_DRIVER_H
#define STUB_DRIVER_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdint.h>

enum { STUB_DEVICES = 4, STUB_LAUNCHES = 64, STUB_BLOCK_BYTES = 512 };

/* What the stub's encoder leaves in the 128 bytes of a tensor map, so that a test reads back what
 * was asked for. */
struct stub_map {
    uint64_t address;
    uint64_t dims[3];
    uint64_t strides[2];
    uint32_t box[3];
    uint32_t element_strides[3];
    uint8_t type, rank, interleave, swizzle, l2, fill;
    uint8_t zero[128 - 8 * 6 - 4 * 6 - 6];
};

struct stub_launch {
    CUfunction function;
    CUcontext context;
    CUstream stream;
    unsigned grid[3], block[3], shared, cluster; /* cluster 0: no attribute */
    int programmatic, cooperative;
    unsigned char arguments[STUB_BLOCK_BYTES];
};

struct stub_device {
    int major, minor, sms, shared_bytes, clock_khz, l2_bytes, memory_khz, bus_bits;
    uint64_t memory_from, memory_to; /* addresses that belong to it */
};

struct stub_state {
    /* Set by tests. */
    int driver_version;
    int device_count;
    struct stub_device devices[STUB_DEVICES];
    int refuses_cubins;     /* NO_BINARY_FOR_GPU for everything that is not text */
    int load_delay_us;      /* every library load takes so long */
    unsigned context_sms;   /* SMs of the current context, as a green context has; 0: all */
    int clusters;           /* that run at a time, whatever their size; 0: as many as there are SMs for; -1: none */
    CUresult context_fault; /* what cuMemGetInfo answers, as after a fault */
    const char *fail_call;  /* the entry point that fails, ... */
    CUresult fail_result;   /* ... with this, ... */
    int fail_after;         /* ... after so many calls of it that succeed */

    /* Noted down. */
    atomic_int fail_calls; /* calls of fail_call so far */
    atomic_int init_calls, loads, unloads, attributes_set, function_loads, encodes;
    atomic_int launches; /* the first STUB_LAUNCHES are kept */
    struct stub_launch launch[STUB_LAUNCHES];
    struct {
        CUkernel kernel;
        CUdevice device;
        int value;
    } attribute[256];
};

/* Exported by the library, besides the driver API: */
struct stub_state *stub_state(void);
void stub_reset(void);                          /* everything back to one H200 that never fails */
CUcontext stub_context(int device, int number); /* contexts exist; two numbers are two contexts */
const char *stub_function_name(CUfunction function);

#endif
