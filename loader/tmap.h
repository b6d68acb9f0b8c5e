/* tmap.h -- the tensor maps of a kernel's operands, as ptxmm_abi.h describes them. */
#ifndef LOADER_TMAP_H
#define LOADER_TMAP_H

#include "driver.h"
#include "problem.h"

/* Matrices of `extent` with boxes of 128 bytes by `box_rows`, at address 0: a run puts the address
 * in. `promotion`: how much the L2 fetches from memory for a row of a box. */
enum ptxmm_status tmap_encode(const struct driver *driver, const struct extent *extent,
                              enum ptxmm_type type, uint32_t box_rows,
                              CUtensorMapL2promotion promotion, const char *operand,
                              struct ptxmm_tensor_map *map, struct ptxmm_error *error);

/* For Blackwell. Its driver's encoder sets a wrong bit, 21 of the second word, for a tensor that
 * takes less than 128 KiB and whose rows or matrices do not touch; the known remedy clears it. */
void tmap_mend_small(const struct extent *extent, struct ptxmm_tensor_map *map);

#endif
