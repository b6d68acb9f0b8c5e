#include "tmem.h"

#include <stdlib.h>
#include <string.h>

struct tmem *tmem_new(void)
{
    struct tmem *t = aligned_alloc(64, (sizeof *t + 63) / 64 * 64);

    if (t)
        memset(t, 0, sizeof *t);
    return t;
}

void tmem_free(struct tmem *t)
{
    free(t);
}

/* Contents stay behind, as they do in hardware. */
void tmem_reset(struct tmem *t)
{
    memset(t->owner, 0, sizeof t->owner);
    memset(t->size, 0, sizeof t->size);
    t->permit = NULL;
}

const char *tmem_bad_size(uint32_t columns)
{
    if (columns < TMEM_UNIT || columns > TMEM_COLUMNS)
        return "an allocation has 32 to 512 columns";
    return columns & (columns - 1) ? "an allocation's columns are a power of two" : NULL;
}

int tmem_find(const struct tmem *t, const struct tmem *other, unsigned columns)
{
    const unsigned units = columns / TMEM_UNIT;
    unsigned run = 0;

    for (unsigned i = 0; i < TMEM_UNITS; i++) {
        run = t->owner[i] || (other && other->owner[i]) ? 0 : run + 1;
        if (run == units)
            return (int)((i + 1 - units) * TMEM_UNIT);
    }
    return -1;
}

void tmem_take(struct tmem *t, const void *owner, unsigned first, unsigned columns)
{
    for (unsigned i = 0; i < columns / TMEM_UNIT; i++)
        t->owner[first / TMEM_UNIT + i] = owner;
    t->size[first / TMEM_UNIT] = (uint16_t)columns;
    for (unsigned lane = 0; lane < TMEM_LANES; lane++)
        tmem_set_valid(t, lane, first, columns, false);
}

bool tmem_give(struct tmem *t, const void *owner, unsigned first, unsigned columns)
{
    const unsigned unit = first / TMEM_UNIT;

    if (first % TMEM_UNIT || first >= TMEM_COLUMNS || t->owner[unit] != owner ||
        t->size[unit] != columns)
        return false;
    t->size[unit] = 0;
    for (unsigned i = 0; i < columns / TMEM_UNIT; i++)
        t->owner[unit + i] = NULL;
    return true;
}

unsigned tmem_owned(const struct tmem *t, const void *owner)
{
    unsigned columns = 0;

    for (unsigned i = 0; i < TMEM_UNITS; i++)
        columns += t->owner[i] == owner ? TMEM_UNIT : 0;
    return columns;
}

bool tmem_covers(const struct tmem *t, const void *owner, unsigned first, unsigned columns,
                 unsigned *bad)
{
    for (unsigned c = first; c < first + columns; c = (c / TMEM_UNIT + 1) * TMEM_UNIT)
        if (c >= TMEM_COLUMNS || t->owner[c / TMEM_UNIT] != owner) {
            *bad = c;
            return false;
        }
    return true;
}

static uint64_t bits(unsigned from, unsigned to)
{
    const uint64_t all = UINT64_MAX;

    return (to < 64 ? (UINT64_C(1) << to) - 1 : all) & all << from;
}

bool tmem_all_valid(const struct tmem *t, unsigned lane, unsigned first, unsigned n)
{
    const unsigned end = first + n;

    for (unsigned w = first / 64; w * 64 < end; w++) {
        const unsigned from = w * 64 < first ? first % 64 : 0;
        const uint64_t mask = bits(from, end - w * 64 < 64 ? end - w * 64 : 64);

        if ((t->valid[lane][w] & mask) != mask)
            return false;
    }
    return true;
}

void tmem_set_valid(struct tmem *t, unsigned lane, unsigned first, unsigned n, bool on)
{
    const unsigned end = first + n;

    for (unsigned w = first / 64; w * 64 < end; w++) {
        const unsigned from = w * 64 < first ? first % 64 : 0;
        const uint64_t mask = bits(from, end - w * 64 < 64 ? end - w * 64 : 64);

        t->valid[lane][w] = on ? t->valid[lane][w] | mask : t->valid[lane][w] & ~mask;
    }
}
