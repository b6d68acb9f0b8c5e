/* The mbarrier object: a pure state machine, and the table of those in one CTA's shared memory.
 *
 * A phase completes when no arrival is pending and the transaction count is zero; then the pending
 * count reloads and the phase number grows. The limits, and what lies beyond them, are those of an
 * H200. Nothing here waits or wakes: an operation reports MBAR_COMPLETED, and whoever schedules
 * wakes what it has parked on the barrier.
 */
#ifndef EMULATOR_MBAR_H
#define EMULATOR_MBAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MBAR_BYTES 8u
#define MBAR_MAX_COUNT 0xfffffu
#define MBAR_MAX_TX 0xfffff

enum mbar_result {
    MBAR_OK,                /* done, the phase goes on */
    MBAR_COMPLETED,         /* done, and a phase completed */
    MBAR_NOT_INITIALISED,   /* the rest are errors */
    MBAR_BAD_COUNT,         /* outside 1 .. 2^20 - 1 */
    MBAR_TOO_MANY_ARRIVALS, /* more than are pending */
    MBAR_TX_RANGE,          /* beyond +-(2^20 - 1) */
    MBAR_WOULD_COMPLETE,    /* a noComplete form that completes the phase */
    MBAR_NO_MEMORY,
};

static inline bool mbar_failed(enum mbar_result result)
{
    return result > MBAR_COMPLETED;
}

const char *mbar_error(enum mbar_result result);

struct inst;

/* Who did something to a barrier, for reports. */
struct mbar_actor {
    const struct inst *inst;    /* NULL: nobody yet */
    uint32_t cta;           /* linear index in the grid */
    int16_t warp;
    int16_t lane;           /* -1: an asynchronous engine, for that warp's instruction */
};

struct mbar {
    uint32_t offset;        /* in the CTA's shared window */
    uint32_t expected;
    uint32_t pending;
    int32_t tx;
    uint64_t phase;         /* phases completed; bit 0 is the current phase's parity */
    bool live;              /* false after inval: works on, but its bytes are ordinary memory */
    struct mbar_actor last_arrival;
    struct mbar_actor last_tx;
};

/* The barriers of one CTA. */
struct mbar_table {
    uint32_t size;          /* of the shared window, in bytes from address 0 */
    uint32_t live;          /* barriers that are live */
    uint32_t low, high;     /* all of those lie in [low, high) */
    uint32_t count, capacity;
    struct mbar *bars;      /* in order of init; they move when the array grows */
    uint16_t **pages;       /* offset / 8 -> place in bars + 1, in pages made when one is needed */
};

/* On a zeroed table; false when memory is short. */
bool mbar_table_open(struct mbar_table *table, uint32_t size);
void mbar_table_close(struct mbar_table *table);
void mbar_table_clear(struct mbar_table *table);        /* as just opened */

/* The barrier at an offset, live or invalidated, or NULL. Any offset is safe. */
struct mbar *mbar_find(const struct mbar_table *table, uint32_t offset);

/* The live barrier, if any, that bytes [offset, offset + bytes) touch: an ordinary access there is
 * an error. Away from barriers this is a comparison or two. */
const struct mbar *mbar_overlap_slow(const struct mbar_table *table, uint32_t offset,
                                     uint32_t bytes);

static inline const struct mbar *mbar_overlap(const struct mbar_table *table, uint32_t offset,
                                              uint32_t bytes)
{
    if (!table->live || offset >= table->high || offset + (uint64_t)bytes <= table->low)
        return NULL;
    return mbar_overlap_slow(table, offset, bytes);
}

/* Ordinary data was written over [offset, offset + bytes): invalidated barriers there are gone. */
void mbar_overwrite_slow(struct mbar_table *table, uint32_t offset, uint32_t bytes);

static inline void mbar_overwrite(struct mbar_table *table, uint32_t offset, uint32_t bytes)
{
    if (table->count > table->live)
        mbar_overwrite_slow(table, offset, bytes);
}

/* offset is aligned to 8 and the 8 bytes lie within the window, here and below. */
enum mbar_result mbar_init(struct mbar_table *table, uint32_t offset, uint32_t count);
enum mbar_result mbar_inval(struct mbar_table *table, uint32_t offset);

enum mbar_arrive_flags {
    MBAR_EXPECT = 1,        /* tx += bytes, before the arrival */
    MBAR_DROP = 2,          /* the phases to come expect count arrivals less */
    MBAR_NO_COMPLETE = 4,
};

/* count arrivals. *state (may be NULL) receives the token of the phase that they belong to. */
enum mbar_result mbar_arrive(struct mbar_table *table, uint32_t offset, unsigned flags,
                             uint32_t count, uint32_t bytes, const struct mbar_actor *who,
                             uint64_t *state);
enum mbar_result mbar_expect_tx(struct mbar_table *table, uint32_t offset, uint32_t bytes,
                                const struct mbar_actor *who);
enum mbar_result mbar_complete_tx(struct mbar_table *table, uint32_t offset, uint32_t bytes,
                                  const struct mbar_actor *who);

/* cp.async.mbarrier.arrive without .noinc: one more arrival is pending from the issue on. */
enum mbar_result mbar_pend(struct mbar_table *table, uint32_t offset);

/* *done tells whether the phase that a parity (bit 0) or a token names has completed. */
enum mbar_result mbar_test_parity(const struct mbar_table *table, uint32_t offset,
                                  uint32_t parity, bool *done);
enum mbar_result mbar_test_state(const struct mbar_table *table, uint32_t offset, uint64_t state,
                                 bool *done);

/* mbarrier.pending_count: what was pending before the arrive that made the token. */
uint32_t mbar_pending_count(uint64_t state);

#endif
