/* wgmma: matrix descriptors, operands in shared memory, fragments in registers.
 *
 * What is here knows nothing of warps: descriptors and bytes in, rows of 32 bytes out (K x element
 * size is 32 bytes for every type), and the maps between a 64 x N tile and the registers of the
 * 128 threads. wgmma.c has the instructions.
 *
 *   63 62 61       52 51 49 48 46 45            32 31 30 29            16 15 14 13             0
 *   swz      0        base    0     SBO >> 4         0     LBO >> 4         0     address >> 4
 */
#ifndef EMULATOR_WGMMA_H
#define EMULATOR_WGMMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor.h"

#define WGMMA_ROWS 64u          /* M */
#define WGMMA_MAX_N 256u

struct wgmma_desc {
    uint32_t start;             /* bytes, as the next two */
    uint32_t leading, stride;   /* LBO, SBO */
    unsigned base;              /* base offset, in lines of 128 bytes */
    unsigned span;              /* of the swizzle: 128, 64, 32, or 0 without one */
    bool deep;                  /* rows of 64 bytes, not 32: B beside a sparse A */
};

/* NULL, or what is wrong: a bit set that must be zero. */
const char *wgmma_desc_decode(uint64_t bits, struct wgmma_desc *desc);

/* Shared memory as a descriptor sees it: address a is bytes[a], its validity bit a. */
/* The 16-byte pieces that an operand was gathered from: at most 256 rows of 64 bytes. */
struct wgmma_visits {
    unsigned count;
    uint32_t at[1024];
};

struct wgmma_memory {
    const uint8_t *bytes, *valid;
    uint32_t first, end;        /* user memory */
    struct wgmma_visits *visits;        /* NULL: nobody asks */
};

static inline void wgmma_visit(const struct wgmma_memory *m, uint32_t at)
{
    if (m->visits)
        m->visits->at[m->visits->count++] = at;
}

/* Collects `rows` rows (of M or N) of 32 bytes, deep ones in two places of out each; defined[r]
 * tells whether all of row r was ever written. mn_major: 16-bit elements whose M or N neighbours
 * are adjacent in memory. False: byte *fault is outside of memory. */
bool wgmma_gather(const struct wgmma_desc *desc, bool mn_major, unsigned rows,
                  const struct wgmma_memory *memory, uint8_t (*out)[TENSOR_ROW_BYTES],
                  bool *defined, uint32_t *fault);

/* Whether everything that wgmma_gather() would read lies in memory. */
bool wgmma_in_bounds(const struct wgmma_desc *desc, bool mn_major, unsigned rows, uint32_t first,
                     uint32_t end, uint32_t *fault);

/* Row of the A fragment (register 0..3) and its first byte within the row's 32. Each register of
 * lane l of warp w holds four adjacent bytes. */
static inline unsigned wgmma_a_row(unsigned w, unsigned lane, unsigned reg)
{
    return 16 * w + lane / 4 + 8 * (reg & 1);
}

static inline unsigned wgmma_a_byte(unsigned lane, unsigned reg)
{
    return 4 * (lane % 4) + 16 * (reg >> 1);
}

/* The 16 rows of warp w between a tile (N words a row) and its accumulator registers: reg[i] is
 * the 32 lanes of register i. half: two f16 columns in one register, low first. */
void wgmma_to_tile(unsigned w, unsigned n, bool half, const uint32_t *const *reg, uint32_t *tile);
void wgmma_from_tile(unsigned w, unsigned n, bool half, const uint32_t *tile, uint32_t **reg);

#endif
