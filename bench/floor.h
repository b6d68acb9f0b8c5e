/* floor.h -- kernels that read A and B once, write D and do nothing else (floor.ptx): the floor under a product's time.
 *
 *     floor_open(&floor, gpu, NULL, why, sizeof why);
 *     floor_product(floor, a_bytes, b_bytes, d_bytes, constant_a, constant_b);
 *     for (int i = 0; i < floor_variants(); i++) floor_check(floor, i, set, stream, xor_of_words);
 *     floor_launch(floor, variant, set, stream);
 *     floor_close(&floor);
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include "cli/gpu.h"
#include "ptxmm.h"

struct floor; /* the kernels in the current CUDA context, and the product they are for */

enum { FLOOR_MAX_VARIANTS = 16 };

/* `ptx` is a file to take the kernels from; NULL: bench/floor.ptx as it was built in. -1 with one sentence in `why`. */
int floor_open(struct floor **floor, struct gpu *gpu, const char *ptx, char *why, size_t why_size);
void floor_close(struct floor **floor); /* accepts NULL inside; nothing may be running */

/* The ways in which it can be read; no one is the fastest for every product. */
int floor_variants(void);
const char *floor_variant_name(int variant);

/* What the next calls are about: whole buffers, in bytes, multiples of 16, the padding of rows included. An operand is constant when
 * no kernel that may still be running writes it. False, as below, when there is more of it than the kernels can count. */
bool floor_product(struct floor *floor, size_t a, size_t b, size_t d, bool constant_a, bool constant_b);
size_t floor_bytes(const struct floor *floor); /* read and written by a launch */

/* Asynchronous, with the attribute of programmatic dependent launch. Of `set` it takes a, b and d. False: floor_error() has a line. */
bool floor_launch(struct floor *floor, int variant, const struct ptxmm_arguments *set, CUstream stream);
/* One launch that also tells the xor of all 32-bit words it has read: it must be `expected`, every byte of D must have been written, and
 * nothing may be left over. */
bool floor_check(struct floor *floor, int variant, const struct ptxmm_arguments *set, CUstream stream, uint32_t expected);
const char *floor_error(const struct floor *floor);

#endif
