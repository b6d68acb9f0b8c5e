/*
 * The function unit: reciprocals, roots, powers, logarithms and angles as an H200 computes them, on
 * encodings of f32. Subnormal operands count as zero and subnormal results become zero.
 *
 * The upper bits of the reduced operand choose an interval, in which a quadratic polynomial is
 * evaluated with a squarer that leaves out its low columns; the sum is cut off, not rounded.
 */
#ifndef EMULATOR_MUFU_H
#define EMULATOR_MUFU_H

#include <stdint.h>

uint32_t mufu_rcp(uint32_t x);
uint32_t mufu_rsq(uint32_t x);
uint32_t mufu_sqrt(uint32_t x);
uint32_t mufu_ex2(uint32_t x);
uint32_t mufu_lg2(uint32_t x);
uint32_t mufu_tanh(uint32_t x);           /* subnormal operands stay as they are */
uint32_t mufu_sin(uint32_t turns);      /* of 2 pi x turns */
uint32_t mufu_cos(uint32_t turns);

/* On the high words of f64, whose low words count as zero. */
uint32_t mufu_rcp64h(uint32_t x);
uint32_t mufu_rsq64h(uint32_t x);

#endif
