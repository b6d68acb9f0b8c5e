/* Tensor Memory of one multiprocessor: 128 lanes x 512 columns of 32 bits, shared by its CTAs.
 *
 *   address   31 30 29 .... 23 22 ....... 16 15 ...... 9 8 ........ 0
 *             ignored          lane          0            column
 *
 * Columns are allocated by whole multiples of 32, always with all lanes. Every cell has a bit that
 * says whether somebody has written it since the allocation. Nothing here knows warps or waits.
 */
#ifndef EMULATOR_TMEM_H
#define EMULATOR_TMEM_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TMEM_LANES = 128,
    TMEM_COLUMNS = 512,
    TMEM_UNIT = 32,             /* columns: the smallest allocation, and what all are multiples of */
    TMEM_UNITS = TMEM_COLUMNS / TMEM_UNIT,
    TMEM_PITCH = TMEM_COLUMNS + 16,     /* cells: consecutive lanes fall into different cache sets */
    TMEM_WORDS = TMEM_COLUMNS / 64,
};

struct tmem {
    const void *owner[TMEM_UNITS];      /* of each unit of columns, NULL: free */
    uint16_t size[TMEM_UNITS];  /* columns of the allocation that begins here, 0: none does */
    const void *permit;         /* who may allocate now, NULL: whoever asks first */
    uint64_t valid[TMEM_LANES][TMEM_WORDS];
    _Alignas(64) uint32_t cell[TMEM_LANES][TMEM_PITCH];
};

static inline unsigned tmem_lane(uint32_t address)
{
    return address >> 16 & 127;
}

static inline unsigned tmem_column(uint32_t address)
{
    return address & 511;
}

struct tmem *tmem_new(void);            /* all free; NULL without memory */
void tmem_free(struct tmem *t);
void tmem_reset(struct tmem *t);

/* NULL, or why nobody can allocate so many columns. */
const char *tmem_bad_size(uint32_t columns);

/* The first columns that are free in t (and, unless NULL, in `other`), or -1. */
int tmem_find(const struct tmem *t, const struct tmem *other, unsigned columns);
void tmem_take(struct tmem *t, const void *owner, unsigned first, unsigned columns);
/* False: no allocation of this owner begins there with this size. */
bool tmem_give(struct tmem *t, const void *owner, unsigned first, unsigned columns);
/* Columns that the owner has, in all. */
unsigned tmem_owned(const struct tmem *t, const void *owner);
/* Whether all the columns are the owner's; *bad is the first that is not. */
bool tmem_covers(const struct tmem *t, const void *owner, unsigned first, unsigned columns,
                 unsigned *bad);

/* ---- valid bits, columns [first, first + n) of one lane ---- */
bool tmem_all_valid(const struct tmem *t, unsigned lane, unsigned first, unsigned n);
void tmem_set_valid(struct tmem *t, unsigned lane, unsigned first, unsigned n, bool on);

static inline bool tmem_is_valid(const struct tmem *t, unsigned lane, unsigned column)
{
    return t->valid[lane][column / 64] >> column % 64 & 1;
}

#endif
