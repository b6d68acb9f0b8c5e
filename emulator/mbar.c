#include "mbar.h"

#include <stdlib.h>
#include <string.h>

/* A token: the phase above the 20 bits of the pending count. */
#define COUNT_BITS 20

const char *mbar_error(enum mbar_result result)
{
    switch (result) {
    case MBAR_NOT_INITIALISED:
        return "there is no initialised mbarrier";
    case MBAR_BAD_COUNT:
        return "the count is outside 1 .. 1048575";
    case MBAR_TOO_MANY_ARRIVALS:
        return "more arrivals than are pending";
    case MBAR_TX_RANGE:
        return "the transaction count leaves -1048575 .. 1048575";
    case MBAR_WOULD_COMPLETE:
        return "a .noComplete arrive completes the phase";
    case MBAR_NO_MEMORY:
        return "the host ran out of memory";
    case MBAR_OK:
    case MBAR_COMPLETED:
        break;
    }
    return "no error";
}

/* Barriers lie close together: of a CTA's shared memory one page or two are ever asked for. */
enum { PAGE_BARS = 256, PAGE_SPAN = PAGE_BARS * MBAR_BYTES };

static unsigned page_count(uint32_t size)
{
    return size / PAGE_SPAN + 1;
}

/* Place in bars + 1 of the barrier at this offset, 0: there is none. */
static uint16_t index_of(const struct mbar_table *table, uint32_t offset)
{
    const uint16_t *page = table->pages[offset / PAGE_SPAN];

    return page ? page[offset % PAGE_SPAN / MBAR_BYTES] : 0;
}

/* In a page that is there. */
static void set_index(struct mbar_table *table, uint32_t offset, uint32_t place)
{
    table->pages[offset / PAGE_SPAN][offset % PAGE_SPAN / MBAR_BYTES] = (uint16_t)place;
}

static bool have_page(struct mbar_table *table, uint32_t offset)
{
    uint16_t **page = &table->pages[offset / PAGE_SPAN];

    if (!*page)
        *page = calloc(PAGE_BARS, sizeof **page);
    return *page != NULL;
}

bool mbar_table_open(struct mbar_table *table, uint32_t size)
{
    table->size = size;
    table->pages = calloc(page_count(size), sizeof table->pages[0]);
    return table->pages != NULL;
}

void mbar_table_close(struct mbar_table *table)
{
    for (unsigned i = 0; table->pages && i < page_count(table->size); i++)
        free(table->pages[i]);
    free(table->bars);
    free(table->pages);
    memset(table, 0, sizeof *table);
}

void mbar_table_clear(struct mbar_table *table)
{
    for (uint32_t i = 0; i < table->count; i++)
        set_index(table, table->bars[i].offset, 0);
    table->count = table->live = 0;
}

struct mbar *mbar_find(const struct mbar_table *table, uint32_t offset)
{
    const uint16_t place = offset % MBAR_BYTES || offset >= table->size ? 0
                                                                         : index_of(table, offset);

    return place ? &table->bars[place - 1] : NULL;
}

const struct mbar *mbar_overlap_slow(const struct mbar_table *table, uint32_t offset,
                                     uint32_t bytes)
{
    if (bytes == 0 || offset >= table->size)
        return NULL;
    if (bytes > table->size - offset)
        bytes = table->size - offset;
    for (uint32_t i = offset / MBAR_BYTES; i <= (offset + bytes - 1) / MBAR_BYTES; i++) {
        const uint16_t place = index_of(table, i * MBAR_BYTES);

        if (place && table->bars[place - 1].live)
            return &table->bars[place - 1];
    }
    return NULL;
}

static void forget(struct mbar_table *table, struct mbar *bar)
{
    struct mbar *last = &table->bars[table->count - 1];

    set_index(table, bar->offset, 0);
    if (bar != last) {
        set_index(table, last->offset, (uint32_t)(bar - table->bars + 1));
        *bar = *last;
    }
    table->count--;
}

void mbar_overwrite_slow(struct mbar_table *table, uint32_t offset, uint32_t bytes)
{
    for (uint32_t i = 0; i < table->count;) {
        struct mbar *bar = &table->bars[i];

        if (!bar->live && bar->offset < offset + bytes && offset < bar->offset + MBAR_BYTES)
            forget(table, bar);
        else
            i++;
    }
}

enum mbar_result mbar_init(struct mbar_table *table, uint32_t offset, uint32_t count)
{
    struct mbar *bar = mbar_find(table, offset);

    if (count == 0 || count > MBAR_MAX_COUNT)
        return MBAR_BAD_COUNT;
    if (!bar) {
        if (!have_page(table, offset))
            return MBAR_NO_MEMORY;
        if (table->count == table->capacity) {
            const uint32_t capacity = table->capacity ? 2 * table->capacity : 16;
            struct mbar *grown = realloc(table->bars, capacity * sizeof *grown);

            if (!grown)
                return MBAR_NO_MEMORY;
            table->bars = grown;
            table->capacity = capacity;
        }
        bar = &table->bars[table->count++];
        bar->live = false;
        set_index(table, offset, table->count);
    }
    if (!table->live) {
        table->low = offset;
        table->high = offset + MBAR_BYTES;
    }
    if (offset < table->low)
        table->low = offset;
    if (offset + MBAR_BYTES > table->high)
        table->high = offset + MBAR_BYTES;
    table->live += !bar->live;
    *bar = (struct mbar){.offset = offset, .expected = count, .pending = count, .live = true};
    return MBAR_OK;
}

enum mbar_result mbar_inval(struct mbar_table *table, uint32_t offset)
{
    struct mbar *bar = mbar_find(table, offset);

    if (!bar)
        return MBAR_NOT_INITIALISED;
    table->live -= bar->live;
    bar->live = false;
    return MBAR_OK;
}

/* To be asked after every change of either quantity. */
static enum mbar_result settle(struct mbar *bar)
{
    if (bar->pending != 0 || bar->tx != 0)
        return MBAR_OK;
    bar->pending = bar->expected;
    bar->phase++;
    return MBAR_COMPLETED;
}

/* The limit is checked without overflow: bytes may be anything. */
static bool add_tx(struct mbar *bar, int64_t bytes)
{
    const int64_t tx = bar->tx + bytes;

    if (tx > MBAR_MAX_TX || tx < -MBAR_MAX_TX)
        return false;
    bar->tx = (int32_t)tx;
    return true;
}

enum mbar_result mbar_arrive(struct mbar_table *table, uint32_t offset, unsigned flags,
                             uint32_t count, uint32_t bytes, const struct mbar_actor *who,
                             uint64_t *state)
{
    struct mbar *bar = mbar_find(table, offset);

    if (!bar)
        return MBAR_NOT_INITIALISED;
    if (count == 0 || count > MBAR_MAX_COUNT)
        return MBAR_BAD_COUNT;
    if (count > bar->pending)
        return MBAR_TOO_MANY_ARRIVALS;
    if (flags & MBAR_EXPECT && !add_tx(bar, bytes))
        return MBAR_TX_RANGE;
    if (flags & MBAR_NO_COMPLETE && count == bar->pending && bar->tx == 0)
        return MBAR_WOULD_COMPLETE;
    if (state)
        *state = bar->phase << COUNT_BITS | bar->pending;
    bar->pending -= count;
    if (flags & MBAR_DROP)
        bar->expected -= count;
    bar->last_arrival = *who;
    if (flags & MBAR_EXPECT)
        bar->last_tx = *who;
    return settle(bar);
}

static enum mbar_result change_tx(struct mbar_table *table, uint32_t offset, int64_t by,
                                  const struct mbar_actor *who)
{
    struct mbar *bar = mbar_find(table, offset);

    if (!bar)
        return MBAR_NOT_INITIALISED;
    if (!add_tx(bar, by))
        return MBAR_TX_RANGE;
    bar->last_tx = *who;
    return settle(bar);
}

enum mbar_result mbar_expect_tx(struct mbar_table *table, uint32_t offset, uint32_t bytes,
                                const struct mbar_actor *who)
{
    return change_tx(table, offset, bytes, who);
}

enum mbar_result mbar_complete_tx(struct mbar_table *table, uint32_t offset, uint32_t bytes,
                                  const struct mbar_actor *who)
{
    return change_tx(table, offset, -(int64_t)bytes, who);
}

enum mbar_result mbar_pend(struct mbar_table *table, uint32_t offset)
{
    struct mbar *bar = mbar_find(table, offset);

    if (!bar)
        return MBAR_NOT_INITIALISED;
    if (bar->pending == MBAR_MAX_COUNT)
        return MBAR_BAD_COUNT;
    bar->pending++;
    return MBAR_OK;
}

enum mbar_result mbar_test_parity(const struct mbar_table *table, uint32_t offset,
                                  uint32_t parity, bool *done)
{
    const struct mbar *bar = mbar_find(table, offset);

    if (!bar)
        return MBAR_NOT_INITIALISED;
    *done = (bar->phase & 1) != (parity & 1);
    return MBAR_OK;
}

enum mbar_result mbar_test_state(const struct mbar_table *table, uint32_t offset, uint64_t state,
                                 bool *done)
{
    const struct mbar *bar = mbar_find(table, offset);

    if (!bar)
        return MBAR_NOT_INITIALISED;
    *done = state >> COUNT_BITS != (bar->phase & (UINT64_MAX >> COUNT_BITS));
    return MBAR_OK;
}

uint32_t mbar_pending_count(uint64_t state)
{
    return state & MBAR_MAX_COUNT;
}
