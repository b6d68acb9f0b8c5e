/* Descriptors of tcgen05, and where they send the tensor core in shared memory.
 *
 * Instruction descriptor, kinds f16, tf32, f8f6f4, i8:
 *   31 30 29 28 .. 24 23 22 .. 17 16 15 14 13 12 .. 10 9 .. 7 6 5 4 3   2  1  0
 *   shift  0  M >> 4   0  N >> 3  tB tA nB nA    B       A    0  D  sat sp selector
 * Block-scaled kinds:
 *   31  30 29 28 27   26 .. 24 23    22 .. 17 16 15 14 13 12 .. 10 9 .. 7 6 5 4    3 2  1 0
 *   K96 SFA   M >> 7  0        ue8m0 N >> 3   tB tA nB nA    B       A    0 SFB id 0 sp 0
 *
 * Shared-memory descriptor:
 *   63 .. 61 60 .. 53 52  51 .. 49 48 .. 46 45 ...... 32 31 30 29 ...... 16 15 14 13 ....... 0
 *   layout   0        abs base     0 0 1    SBO >> 4     0     LBO >> 4     0     address >> 4
 *
 * Nothing here knows warps: bits and bytes in, rows of 32 bytes out (16 for half a row of a copy).
 */
#ifndef EMULATOR_TCGEN_DESC_H
#define EMULATOR_TCGEN_DESC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program.h"
#include "tensor.h"
#include "wgmma.h"

/* What one tcgen05.mma multiplies. m and n are those of the whole pair. */
struct tcgen_shape_of {
    struct tensor_kind kind;
    unsigned m, n;
    bool negate_a, negate_b;
    bool mn_a, mn_b;            /* MN-major */
    unsigned sfa_id, sfb_id;    /* byte of the cell where the scale factors start */
};

enum { TCGEN_STATIONARY = 0 };  /* in place of a group: .ws */

/* NULL, or what is wrong. `block` is the instruction's elements per scale factor, 0 without. */
const char *tcgen_idesc_decode(uint32_t bits, enum tcgen_kind kind, unsigned block, unsigned group,
                               struct tcgen_shape_of *out);

enum tcgen_swizzle { TCGEN_NONE, TCGEN_BASE32B, TCGEN_128B, TCGEN_64B, TCGEN_32B };

struct tcgen_matrix {
    uint32_t start, leading, stride;    /* bytes: address, LBO, SBO */
    unsigned base;              /* base offset, in lines of 128 bytes */
    enum tcgen_swizzle swizzle;
};

const char *tcgen_matrix_decode(uint64_t bits, struct tcgen_matrix *out);

/* How elements lie in the 16 bytes that hold sixteen of them. */
enum tcgen_pack { TCGEN_WHOLE, TCGEN_4_OF_16, TCGEN_6_OF_16 };

struct tcgen_access {
    bool mn_major;
    uint8_t bytes;              /* of an element, 1, 2 or 4: matters if mn_major */
    uint8_t chunks;             /* 16-byte chunks of a row that are wanted: 2, or 1 */
    enum tcgen_pack pack;       /* narrow elements come out one a byte, in the low bits */
};

/* NULL, or why a matrix of this layout cannot be read so. */
const char *tcgen_matrix_check(const struct tcgen_matrix *matrix, const struct tcgen_access *how);

/* Collects rows of M or N. defined[r]: all of the row's data has been written. False: the byte at
 * *fault is outside of memory. With out NULL only that is looked for. */
bool tcgen_gather(const struct tcgen_matrix *matrix, const struct tcgen_access *how, unsigned rows,
                  const struct wgmma_memory *memory, uint8_t (*out)[TENSOR_ROW_BYTES],
                  bool *defined, uint32_t *fault);

/* K-major: where 16-byte chunk 0 or 1 of a row lies. */
uint32_t tcgen_chunk(const struct tcgen_matrix *matrix, unsigned row, unsigned chunk);

/* Sixteen narrow elements of 16 bytes, one to a byte. */
void tcgen_unpack(enum tcgen_pack pack, const uint8_t *from, uint8_t *to);

#endif
