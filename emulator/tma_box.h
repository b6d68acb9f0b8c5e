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
    uint32_t pitch;             /* bytes between rows in shared memory */
    uint32_t span;              /* of the swizzle, 0 without */
};

/* NULL, or why the map cannot be copied so. */
const char *box_open(struct box *box, const struct tmap *map, const int32_t *coordinates);

/* The bytes that an mbarrier is credited with; the extent in shared memory from the first byte. */
static inline uint64_t box_bytes(const struct box *box)
{
    return box->rows * box->inner;
}

static inline uint64_t box_extent(const struct box *box)
{
    return (box->rows - 1) * box->pitch + (box->span ? box->span : box->inner);
}

struct box_row {
    uint64_t global;            /* address of the first byte inside */
    uint32_t skip;              /* bytes of the row before it: outside */
    uint32_t bytes;             /* inside; the rest of `inner` is outside. 0: all outside */
};

/* Row 0 <= row < rows. Dimension 0 of a store ends at the next multiple of 16 bytes. */
void box_row(const struct box *box, uint32_t row, bool store, struct box_row *out);

/* Where byte `byte` (a multiple of 16) of a row lies, for a box at shared address `base`. */
static inline uint32_t box_shared(const struct box *box, uint32_t base, uint32_t row, uint32_t byte)
{
    const uint32_t address = base + row * box->pitch + byte;

    return box->span ? address ^ (address >> 3 & (box->span - 16)) : address;
}

#endif
