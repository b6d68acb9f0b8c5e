/* images.h -- the embedded cubins: checked against their hashes and loaded one at a time, when
 * first needed. */
#ifndef LOADER_IMAGES_H
#define LOADER_IMAGES_H

#include "pack.h"

/* The kernel at `index`, loaded if it is not. Any number of threads may ask at once: one loads, the
 * others wait for it. A failure is not remembered, and concerns no other kernel. ERROR_IMAGE: this
 * image cannot serve (missing, damaged, refused by the driver). Other errors would meet every
 * image. */
enum ptxmm_status image_load(struct ptxmm *mm, size_t index, CUkernel *kernel,
                             struct ptxmm_error *error);

/* The kernel as a function of the current context on `device`: loaded into it, its shared memory
 * limit raised. */
enum ptxmm_status image_function(struct ptxmm *mm, size_t index, CUdevice device,
                                 CUfunction *function, struct ptxmm_error *error);

/* Nothing to do for a kernel that is not loaded. */
enum ptxmm_status image_unload(struct ptxmm *mm, size_t index, struct ptxmm_error *error);

#endif
