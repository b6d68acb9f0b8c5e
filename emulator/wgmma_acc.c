/* Accumulators of wgmma: tiles that stand for registers while products are in flight. */
#include "wgmma_unit.h"

#include <stdlib.h>
#include <string.h>

void accumulator_free(struct accumulator *d)
{
    free(d->tile);
    free(d->undefined);
    free(d);
}

static void registers_of(const struct accumulator *d, unsigned w, uint32_t **reg)
{
    for (unsigned i = 0; i < d->count; i++)
        reg[i] = d->regs[w].r32[d->list[i].reg];
}

static unsigned element_row(const struct accumulator *d, unsigned i)
{
    return 8 * (d->type == TENSOR_TO_F16 ? i & 1 : i >> 1 & 1);
}

/* The columns of register i in lane quarter q: *first, and how many. */
static unsigned element_columns(const struct accumulator *d, unsigned i, unsigned q,
                                unsigned *first)
{
    if (d->type == TENSOR_TO_F16) {
        *first = 8 * (i >> 1) + 2 * q;
        return 2;
    }
    *first = 8 * (i >> 2) + 2 * q + (i & 1);
    return 1;
}

bool accumulator_mark_undefined(struct accumulator *d)
{
    if (!d->undefined)
        d->undefined = calloc(WGMMA_ROWS * (size_t)d->n, sizeof d->undefined[0]);
    d->any_undefined = d->undefined != NULL;
    return d->any_undefined;
}

/* Takes over which of a warp's register lanes hold nothing. */
static bool load_undefined(struct accumulator *d, unsigned w)
{
    if (d->any_undefined)
        memset(d->undefined + (size_t)16 * w * d->n, 0, (size_t)16 * d->n);
    for (unsigned i = 0; i < d->count; i++)
        for (uint32_t left = ~d->regs[w].def32[d->list[i].reg]; left; left &= left - 1) {
            const unsigned lane = (unsigned)__builtin_ctz(left);
            const unsigned row = 16 * w + lane / 4 + element_row(d, i);
            unsigned column;
            const unsigned n = element_columns(d, i, lane % 4, &column);

            if (!d->any_undefined && !accumulator_mark_undefined(d))
                return false;
            for (unsigned k = 0; k < n; k++)
                d->undefined[(size_t)row * d->n + column + k] = true;
        }
    return true;
}

bool accumulator_load(struct accumulator *d, unsigned w)
{
    uint32_t *reg[MOST_REGISTERS];

    registers_of(d, w, reg);
    wgmma_to_tile(w, d->n, d->type == TENSOR_TO_F16, (const uint32_t *const *)reg, d->tile);
    return load_undefined(d, w);
}

static void store_defined(const struct accumulator *d, unsigned w)
{
    for (unsigned i = 0; i < d->count; i++) {
        uint32_t defined = UINT32_MAX;

        for (unsigned lane = 0; d->any_undefined && lane < LANES; lane++) {
            const unsigned row = 16 * w + lane / 4 + element_row(d, i);
            unsigned column;
            const unsigned n = element_columns(d, i, lane % 4, &column);

            for (unsigned k = 0; k < n; k++)
                if (d->undefined[(size_t)row * d->n + column + k])
                    defined &= ~(1u << lane);
        }
        d->regs[w].def32[d->list[i].reg] = defined;
    }
}

void busy_set(struct warp *w, uint8_t *busy, unsigned add)
{
    w->busy += *busy == 0;
    *busy = (uint8_t)(*busy + add);
}

void busy_clear(struct warp *w, uint8_t *busy, unsigned subtract)
{
    *busy = (uint8_t)(*busy - subtract);
    w->busy -= *busy == 0;
}

void accumulator_flush(struct wgmma_unit *u, struct accumulator *d, unsigned w)
{
    uint32_t *reg[MOST_REGISTERS];

    registers_of(d, w, reg);
    wgmma_from_tile(w, d->n, d->type == TENSOR_TO_F16, d->tile, reg);
    store_defined(d, w);
    for (unsigned i = 0; i < d->count; i++)
        busy_clear(warp_of(u, w), &d->regs[w].busy32[d->list[i].reg], BUSY_D);
    d->fences = u->fences;
}

/* The registers must be what the tile's rows became, if no fence has come since. */
bool accumulator_unchanged(const struct accumulator *d, unsigned w)
{
    uint32_t *reg[MOST_REGISTERS];

    registers_of(d, w, reg);
    for (unsigned i = 0; i < d->count; i++)
        for (unsigned lane = 0; lane < LANES; lane++) {
            const unsigned row = 16 * w + lane / 4 + element_row(d, i);
            unsigned column;
            const unsigned n = element_columns(d, i, lane % 4, &column);
            const uint32_t *at = d->tile + (size_t)row * d->n + column;

            if (reg[i][lane] != (n == 1 ? at[0] : (at[0] & 0xffff) | at[1] << 16))
                return false;
        }
    return true;
}

static bool same_list(const struct accumulator *d, const struct wgmma_unit *u,
                      const struct operand *list, unsigned count)
{
    if (d->count != count)
        return false;
    for (unsigned w = 0; w < WARPGROUP; w++)
        if (d->regs[w].r32 != warp_of(u, w)->r.r32)
            return false;
    for (unsigned i = 0; d->list != list && i < count; i++)
        if (d->list[i].reg != list[i].reg)
            return false;
    return true;
}

static bool anybody_owes(const struct accumulator *d)
{
    return d->owed[0] || d->owed[1] || d->owed[2] || d->owed[3];
}

/* Drops accumulators that nothing in flight uses, but keeps the most recent few: their tiles spare
 * an allocation, and remember what the registers were. */
static void forget_old(struct wgmma_unit *u)
{
    struct accumulator **link = &u->accumulators;

    for (unsigned i = 0; *link; i++) {
        struct accumulator *d = *link;

        if (i >= 4 && !anybody_owes(d)) {
            *link = d->next;
            accumulator_free(d);
        } else {
            link = &d->next;
        }
    }
}

struct accumulator *accumulator_of(struct wgmma_unit *u, const struct operand *list,
                                   unsigned count, unsigned n, enum tensor_result type)
{
    struct accumulator **link = &u->accumulators, *d;

    for (; *link; link = &(*link)->next) {
        d = *link;
        if (!same_list(d, u, list, count))
            continue;
        if (d->n == n && d->type == type)
            return d;
        if (anybody_owes(d))
            return d;           /* the caller complains */
        *link = d->next;
        accumulator_free(d);
        break;
    }
    forget_old(u);
    d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->tile = aligned_alloc(64, WGMMA_ROWS * (size_t)n * sizeof d->tile[0]);
    if (!d->tile) {
        free(d);
        return NULL;
    }
    memset(d->tile, 0, WGMMA_ROWS * (size_t)n * sizeof d->tile[0]);
    *d = (struct accumulator){.next = u->accumulators, .list = list, .count = count, .n = n,
                              .type = type, .tile = d->tile, .fences = UINT64_MAX};
    for (unsigned w = 0; w < WARPGROUP; w++)
        d->regs[w] = warp_of(u, w)->r;
    u->accumulators = d;
    return d;
}
