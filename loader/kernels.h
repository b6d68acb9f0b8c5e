/* kernels.h -- what the loader alone asks about the rows of ptx/kernels.def. */
#ifndef LOADER_KERNELS_H
#define LOADER_KERNELS_H

#include <ptxmm.h>

/* Number of rows, as a constant expression. */
enum {
#define KERNEL(sm, suffix, source, name, ...) KERNEL_INDEX_##sm##_##name,
#include "ptx/kernels.def"
#undef KERNEL
    KERNEL_COUNT
};

/* Does a kernel made for `target` ("sm_90a", "sm_100f") run on compute capability `arch` (90, 103)?
 * Suffix a: on exactly its own. Suffix f: on its own and on the later members of its family. */
int kernels_target_runs_on(const char *target, int arch);

/* 90 of "sm_90a". */
int kernels_target_arch(const char *target);

/* Does the tensor core's sum of this kernel have fewer bits than f32, with nothing done about it?
 * Hopper adds up fp8 products with 13 fraction bits. */
int kernels_is_fast(const struct ptxmm_kernel_info *kernel);

/* The least driver version that any kernel of the pack asks for. */
int kernels_min_driver(void);

/* Position of a kernel in the pack. */
size_t kernels_index(const struct ptxmm_kernel_info *kernel);

#endif
