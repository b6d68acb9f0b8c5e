/* The step of the block-scaled kinds for whole tiles: the bits of tensor_dot().
 *
 * mxf8f6f4: one scale factor per row and step, a power of two, moves every product's exponent.
 * mxf4, mxf4nvf4: sixteen products at a time are added exactly; each sum, scaled, is a term.
 */
#ifndef EMULATOR_TENSOR_SCALED_H
#define EMULATOR_TENSOR_SCALED_H

#include "tensor.h"

enum { TENSOR_MOST_SCALES = 4 };        /* of a row, in one step */

/* d[m * pitch + n] = step(A row m, B row n, d or 0), with the codes of the rows' scale factors.
 * The tiles are those of tensor_load(). */
void tensor_step_scaled(const struct tensor_kind *kind, struct tensor_tile *a,
                        struct tensor_tile *b,
                        const uint8_t (*scale_a)[TENSOR_MOST_SCALES],
                        const uint8_t (*scale_b)[TENSOR_MOST_SCALES], bool keep, uint32_t *d,
                        unsigned pitch);

#endif
