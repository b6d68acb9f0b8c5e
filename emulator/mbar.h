/* The mbarrier object: a pure state machine, and the table of the barriers that live in one CTA's shared memory.
 *
 * A phase completes when no arrival is pending and the transaction count is zero; then the pending count reloads and
 * the phase number grows. The limits and what happens beyond them are those of an H200. Nothing here waits or wakes:
 * an operation reports MBAR_COMPLETED and the scheduler wakes whoever it parked on the barrier.
 */
#ifndef EMULATOR_MBAR_H
#define EMULATOR_MBAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MBAR_MAX_COUNT 0xfffffu
#define MBAR_MAX_TX 0xfffff
#define MBAR_BYTES 8u

enum mbar_result {
    MBAR_OK,                /* done, phase goes on */
    MBAR_COMPLETED,         /* done, and a phase completed: wake the waiters */
    MBAR_MISALIGNED,        /* the rest are errors; mbar_error() words them */
    MBAR_OUT_OF_BOUNDS,
    MBAR_NOT_INITIALISED,
    MBAR_BAD_COUNT,         /* outside 1 .. 2^20 - 1 */
    MBAR_TOO_MANY_ARRIVALS, /* more than pending */
    MBAR_TX_RANGE,          /* beyond +-(2^20 - 1) */
    MBAR_WOULD_COMPLETE,    /* noComplete form that completes the phase */
    MBAR_NO_MEMORY,
};

static inline bool mbar_failed(enum mbar_result result)
{
    return result > MBAR_COMPLETED;
}

const char *mbar_error(enum mbar_result result);

/* Who did something to a barrier, for reports. */
struct mbar_actor {
    uint32_t cta;           /* linear index in the grid */
    uint16_t warp;
    uint16_t lane;          /* MBAR_ENGINE: an asynchronous engine, on behalf of that warp */
    uint32_t pc;            /* instruction */
};

#define MBAR_ENGINE 0xffffu

struct mbar {
    uint32_t offset;        /* in the CTA's shared memory */
    uint32_t expected;
    uint32_t pending;
    int32_t tx;
    uint64_t phase;         /* completed phases; bit 0 is the current phase's parity */
    bool live;              /* false after inval: works on, but its bytes are ordinary memory again */
    bool arrived;           /* last_arrival is set */
    bool transacted;        /* last_tx is set */
    struct mbar_actor last_arrival;
    struct mbar_actor last_tx;
};

/* The barriers of one CTA. Zero-initialised and then given a size. */
struct mbar_table {
    uint32_t size;          /* bytes of shared memory */
    uint32_t count, capacity;
    uint32_t live;          /* how many are live */
    struct mbar *bars;      /* in order of init; entries move when the array grows, so keep no pointers */
    uint16_t *index;        /* offset / 8 -> entry + 1 */
};

/* size is the extent of shared memory, from offset 0 of the window. False: no memory. */
bool mbar_table_open(struct mbar_table *table, uint32_t size);
void mbar_table_close(struct mbar_table *table);

/* The barrier at an offset, live or invalidated; NULL if there is none. */
struct mbar *mbar_find(const struct mbar_table *table, uint32_t offset);

/* Whether [offset, offset + bytes) touches a live barrier: an ordinary access there is an error. On a table without
 * live barriers this is one test. */
struct mbar *mbar_overlap_slow(const struct mbar_table *table, uint32_t offset, uint32_t bytes);

static inline struct mbar *mbar_overlap(const struct mbar_table *table, uint32_t offset, uint32_t bytes)
{
    return table->live ? mbar_overlap_slow(table, offset, bytes) : NULL;
}

/* Ordinary bytes were written over [offset, offset + bytes): invalidated barriers there are gone. Needed only where
 * table->count > table->live. */
void mbar_overwrite(struct mbar_table *table, uint32_t offset, uint32_t bytes);

enum mbar_result mbar_init(struct mbar_table *table, uint32_t offset, uint32_t count);
enum mbar_result mbar_inval(struct mbar_table *table, uint32_t offset);

enum mbar_arrive_flags {
    MBAR_EXPECT = 1,        /* tx += bytes before the arrival */
    MBAR_DROP = 2,          /* also lowers the expected count of the phases to come */
    MBAR_NO_COMPLETE = 4,
};

/* count arrivals; *state receives the token of the phase that they belong to (state may be NULL). */
enum mbar_result mbar_arrive(struct mbar_table *table, uint32_t offset, unsigned flags, uint32_t count, uint32_t bytes,
                             const struct mbar_actor *who, uint64_t *state);
enum mbar_result mbar_expect_tx(struct mbar_table *table, uint32_t offset, uint32_t bytes, const struct mbar_actor *who);
enum mbar_result mbar_complete_tx(struct mbar_table *table, uint32_t offset, uint32_t bytes,
                                  const struct mbar_actor *who);

/* cp.async.mbarrier.arrive: pending += 1 at issue (not with .noinc); its arrival comes later by mbar_arrive. */
enum mbar_result mbar_pend(struct mbar_table *table, uint32_t offset);

/* Waiting: *done tells whether the phase named by a parity, or by a state token, has completed. */
enum mbar_result mbar_test_parity(const struct mbar_table *table, uint32_t offset, uint32_t parity, bool *done);
enum mbar_result mbar_test_state(const struct mbar_table *table, uint32_t offset, uint64_t state, bool *done);

/* mbarrier.pending_count: the count before the arrive that made the token. */
uint32_t mbar_pending_count(uint64_t state);

#endif
