/*
 * Sparse A: of every four neighbours in a row two are there, and metadata say which.
 *
 * A nibble a group: the lower two bits are the first's number, the upper two the second's. In
 * four-bit types neighbours are pairs; in tf32 one of two is there, 4 the first, e the second.
 * Nibble j of row g + 8 h lies in group g of four lanes:
 *
 *   f16, bf16, tf32   bit 16 h + 4 (j % 4), lane 2 selector + j / 4; with 4 of them lane selector
 *   others            bit 4 (j % 8), lane h + 2 (j / 8); with 8 of them lane 2 selector + h
 */
#ifndef EMULATOR_SPARSE_H
#define EMULATOR_SPARSE_H

#include <string.h>

#include "program.h"

enum { SPARSE_ROWS = 16, SPARSE_MOST = 32 };    /* of a warp; numbers of a row */

struct sparse {
    unsigned count;             /* nibbles of a row */
    unsigned size;              /* bytes of what one number counts */
    unsigned of, there;         /* so many, and so many of them there */
    unsigned selector;
    bool wide;                  /* 16-bit types and tf32 */
    bool ordered;
};

struct sparse sparse_of(const struct inst *in, unsigned selector);

/* Lanes whose word sparse_numbers() looks at. */
uint32_t sparse_lanes(const struct sparse *s);

/* For row 0 .. 15: the numbers of what is there, counted from the row's start. NULL, or what is
 * wrong with *nibble, which begins at *bit of *lane's word. */
const char *sparse_numbers(const struct sparse *s, const uint32_t words[32], unsigned row,
                           uint8_t numbers[SPARSE_MOST], unsigned *lane, unsigned *bit,
                           unsigned *nibble);

/* What the row wants of a column of B. */
static inline void sparse_pick(const struct sparse *s, const uint8_t numbers[SPARSE_MOST],
                               const uint8_t *from, uint8_t *to)
{
    for (unsigned i = 0; i < s->count * s->there; i++)
        memcpy(to + i * s->size, from + numbers[i] * s->size, s->size);
}

#endif
