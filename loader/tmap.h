/* tmap.h -- the tensor maps of a kernel's operands, as ptxmm_abi.h describes them. */
#ifndef LOADER_TMAP_H
#define LOADER_TMAP_H

#include "driver.h"
#include "problem.h"

/* A matrix of `extent` with boxes of 128 bytes by `box_rows`, at address 0: a run puts the address in. */
enum ptxmm_status tmap_encode(const struct driver *driver, const struct extent *extent, enum ptxmm_type type, uint32_t box_rows,
                              const char *operand, struct ptxmm_tensor_map *map, struct ptxmm_error *error);

#endif
