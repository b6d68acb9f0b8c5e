/* manifest.h -- the pack as JSON for foreign runtimes: every field that include/ptxmm_abi.h has
 * words for. */
#ifndef MANIFEST_H
#define MANIFEST_H

#include <jansson.h>
#include <stdbool.h>

#include "ptxmm.h"

/* Is the kernel made for "sm90" or "sm100"? */
bool manifest_is_for(const struct ptxmm_kernel_info *kernel, const char *arch);

json_t *manifest_kernel(const struct ptxmm_kernel_info *kernel);
/* Takes over `kernels`. */
json_t *manifest_create(json_t *kernels);

#endif
