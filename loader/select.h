/* select.h -- verdicts on kernels. */
#ifndef LOADER_SELECT_H
#define LOADER_SELECT_H

#include "kernels.h"

/* Why a kernel that select_judge would take cannot be, found otherwise; NONE: it can. */
struct select_except {
    enum ptxmm_reason reason;
    const char *field;
    int64_t has, needs;
};

/* Judges every kernel, usable ones first, fastest first, then the rejected in pack order. `device`
 * and `problem` have been checked. `except` goes by position in the pack, and may be NULL. */
void select_judge(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                  const struct select_except *except,
                  struct ptxmm_candidate candidates[KERNEL_COUNT]);

/* Says in *error why no candidate is usable: one line with every reason, as far as it fits, of those
 * that came closest first. */
enum ptxmm_status select_none_usable(const struct ptxmm_device *device,
                                     const struct ptxmm_candidate candidates[KERNEL_COUNT],
                                     struct ptxmm_error *error);

#endif
