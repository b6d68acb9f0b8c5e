/* select.h -- verdicts on kernels. */
#ifndef LOADER_SELECT_H
#define LOADER_SELECT_H

#include "kernels.h"

/* Judges every kernel, usable ones first, fastest first, then the rejected in pack order. `device`
 * and `problem` have been checked. `except` holds reasons that were found otherwise (NONE: none),
 * by position in the pack; it may be NULL. */
void select_judge(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                  const enum ptxmm_reason *except, struct ptxmm_candidate candidates[KERNEL_COUNT]);

/* Says in *error why no candidate is usable: one line with every reason, as far as it fits, of those
 * that came closest first. */
enum ptxmm_status select_none_usable(const struct ptxmm_device *device,
                                     const struct ptxmm_candidate candidates[KERNEL_COUNT],
                                     struct ptxmm_error *error);

#endif
