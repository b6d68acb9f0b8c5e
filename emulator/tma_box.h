/* The geometry of a tensor copy: which global bytes and which shared bytes make up each row of a
 *
 * A box row runs along dimension 0. In shared memory rows follow each other at `pitch`: the
 * swizzle's span, or the row's own bytes without a swizzle. The swizzle moves 16-byte chunks by
 * the absolute address.
 */
#ifndef EMULATOR_TMA_BOX_H
#define EMULATOR_TMA_BOX_H

#include <stdbool.h>
#include <stdint.h>

#include "tmap.h"

struct box {
    const struct tmap *map;
    int64_t start[TMAP_RANKS];  /* coordinates */
    uint32_t count[TMAP_RANKS]; /* rows along dimension 1 .. ; [0] is unused */
    uint64_t rows;
    uint32_t inner;             /* bytes of a row that move */
    uint32_t unit;              /* how many of them share 16 bytes of shared memory: 16, or less */
    uint32_t wide;              /* bytes of a row in shared memory, gaps counted */
    uint32_t pitch;             /* bytes between rows in shared memory */
    uint32_t span;              /* of the swizzle, 0 without */
    bool atoms_of_32;           /* the swizzle moves 32-byte chunks */
    bool gathers;               /* four rows at coordinates of their own */
    int64_t row_at[4];
};

enum { BOX_GATHERED = 4, BOX_COORDINATES = 5 };

/* NULL, or why the map cannot be copied so. gathers: coordinates are a column and four rows. */
const char *box_open(struct box *box, const struct tmap *map, const int32_t *coordinates,
                     bool gathers);

/* The bytes that move; the extent in shared memory from the first byte. */
static inline uint64_t box_bytes(const struct box *box)
{
    return box->rows * box->inner;
}

static inline uint64_t box_extent(const struct box *box)
{
    return (box->rows - 1) * box->pitch + (box->span ? box->span : box->wide);
}

struct box_row {
    uint64_t global;            /* address of the first byte inside */
    uint32_t skip;              /* bytes of the row before it: outside */
    uint32_t bytes;             /* inside; the rest of `inner` is outside. 0: all outside */
};

/* Row 0 <= row < rows. Dimension 0 of a store ends at the next multiple of 16 bytes. */
void box_row(const struct box *box, uint32_t row, bool store, struct box_row *out);

/* Where byte `byte` (a multiple of the unit) of a row lies, for a box at shared address `base`. */
static inline uint32_t box_shared(const struct box *box, uint32_t base, uint32_t row, uint32_t byte)
{
    const uint32_t address = base + row * box->pitch + byte / box->unit * 16;

    if (box->atoms_of_32)
        return address ^ (address >> 2 & 0x60);
    return box->span ? address ^ (address >> 3 & (box->span - 16)) : address;
}

#endif
