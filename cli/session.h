/* session.h -- the pack and the driver that the options ask for, opened with words for people when
 * they cannot be. */
#ifndef SESSION_H
#define SESSION_H

#include "gpu.h"
#include "options.h"

struct session {
    struct ptxmm *mm;
    struct gpu gpu;            /* open if a device was asked for */
    struct ptxmm_device device;
};

/* Opens the pack, and with `with_device` the device of the options and its context. Returns 0, or
 * EXIT_NO_DEVICE, or EXIT_USAGE for a file of choices, after one line on stderr. */
int session_open(struct session *s, const struct options *options, bool with_device);
void session_close(struct session *s);

/* The folder the executable lies in, without a slash at the end; "." if it cannot be told. */
void executable_folder(char *text, size_t size);
/* Where the kernels' PTX lies: the option, PTXMM_PTX_DIR, or a place beside the executable. False:
 * nowhere. */
bool find_ptx_folder(const struct options *options, char *text, size_t size);

/* "NVIDIA H200, driver 580.65 (CUDA 13.0)": one line about what runs here. */
void session_describe(const struct session *s, char *text, size_t size);

/* Is the kernel made for the device's architecture? The library judges, families included. */
bool device_runs(const struct ptxmm_device *device, const struct ptxmm_kernel_info *kernel);

/* A failed device call in words; the emulator's report follows if it has one. Returns
 * EXIT_NO_DEVICE. */
int device_failed(const struct session *s, const struct options *options, const char *what,
                  const char *why);

#endif
