/* choices.h -- kernels that somebody measured to be the best for a product on a device. */
#ifndef LOADER_CHOICES_H
#define LOADER_CHOICES_H

#include <ptxmm.h>

struct choices {
    struct choice *list; /* sorted; NULL: none */
    size_t count;
};

/* Takes over what can be used of the caller's list; a kernel that the pack has not, perhaps of
 * another version, is left out, and `skipped` counts it. Errors: ARGUMENT, MEMORY. */
enum ptxmm_status choices_copy(const struct ptxmm_choice *given, size_t count,
                               struct choices *choices, size_t *skipped, struct ptxmm_error *error);
void choices_free(struct choices *choices);

/* The kernel for this problem on this device, or NULL. Writes how it is to be launched into the
 * preferences, which are the problem's own, if those say nothing about it. */
const struct ptxmm_kernel_info *choices_find(const struct choices *choices,
                                             const struct ptxmm_device *device,
                                             const struct ptxmm_problem *problem,
                                             struct ptxmm_preferences *prefer);

#endif
