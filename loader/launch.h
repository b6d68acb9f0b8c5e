/* launch.h -- in which launches split and multicast kernels can multiply: those that a problem's preferences leave,
 * and the one of them that promises the least time. */
#ifndef LOADER_LAUNCH_H
#define LOADER_LAUNCH_H

#include "timing.h"

/* Can any kernel be launched like this, 0 standing for anything? `where` is what the four are members of, in words. */
enum ptxmm_status launch_check(const char *where, int cluster, int cluster_rows, int groups, int stages,
                               struct ptxmm_error *error);

/* Is the launch open? Other kernels have a cluster of their own, in 1 row, and 1 group. */
int launch_is_open(const struct ptxmm_kernel_info *kernel);

/* Fills the predictions of a candidate whose problem the kernel can multiply, launched as promises the least time of
 * what the preferences leave; or rejects it if they leave nothing. `timing` is timing_of the kernel, or constants that
 * are tried instead. */
void launch_choose(const struct timing *timing, const struct ptxmm_device *device,
                   const struct ptxmm_problem *problem, struct ptxmm_candidate *candidate);

/* The launches of such a kernel that the preferences leave, fastest predicted first; returns how many of them it wrote,
 * up to `capacity`. No two are the same. */
size_t launch_list(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                   const struct ptxmm_kernel_info *kernel, struct ptxmm_candidate *list, size_t capacity);

#endif
