/* timing.h -- how long a kernel will take: the pipeline model with constants measured per
 * architecture. */
#ifndef LOADER_TIMING_H
#define LOADER_TIMING_H

#include <ptxmm.h>

/* Fills the predictions of a usable candidate: seconds, waves, tiles, ctas, tensor_busy,
 * compute_seconds, memory_seconds. */
void timing_predict(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                    struct ptxmm_candidate *candidate);

/* Rows of tiles that a kernel walks column by column together, so that the tiles in work at one
 * time share as much of A and B as they can. */
uint32_t timing_raster(const struct ptxmm_kernel_info *kernel, int64_t tiles_m, int64_t ctas);

/* Are there constants for kernels made for this architecture? */
int timing_knows(int arch);

#endif
