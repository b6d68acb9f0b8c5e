/* Asynchronous engines: an event queue on the machine's clock, and what a CTA keeps for them.
 *
 * Every asynchronous instruction becomes a job with one or more events. Policy and seed give each
 * event a delay within the freedom that the instruction set leaves; a correct program computes the
 * same whatever they are.
 *
 *            delay of an event
 *   early    none: done before the issuing thread's next instruction
 *   late     long: as a rule everything that can run has run before
 *   random   drawn for each event; big copies land in pieces
 */
#ifndef EMULATOR_ASYNC_H
#define EMULATOR_ASYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "machine.h"
#include "mbar.h"
#include "tensor.h"

/* ---- hooks of the machine; machine.h says when it calls them ---- */
bool async_open(struct machine *m);
void async_close(struct machine *m);
void async_reset(struct machine *m);
uint64_t async_next(const struct machine *m);
void async_run(struct machine *m);
bool async_cta_open(struct cta *cta);
void async_cta_close(struct cta *cta);
void async_cta_exit(struct cta *cta);
void async_lanes_exit(struct warp *w, const struct inst *in, uint32_t lanes);
bool async_smem_touch(struct cta *cta, uint32_t offset, uint32_t bytes, bool write);
size_t async_describe(const struct cta *cta, const struct park *park, char *text, size_t room);

/* Nothing can run and no event is left: parked try_waits give up, as they do on hardware after
 * some microseconds. False if that has been tried without any effect: it is a deadlock. */
bool async_timeout(struct machine *m);

/* ---- jobs ---- */

enum async_delay { DELAY_COPY, DELAY_READ, DELAY_MMA, DELAY_REMOTE };

/* First member of every asynchronous operation in flight. */
struct async_job {
    void (*fire)(struct machine *m, struct async_job *job, unsigned step);
    void (*drop)(struct async_job *job);    /* frees what it owns beside itself; may be NULL */
    struct site site;           /* the instruction that issued it */
    struct cluster *cluster;    /* whose memory it touches */
    unsigned events;            /* posted, not yet fired */
};

/* A zeroed job of at least sizeof(struct async_job) bytes; traps and gives NULL without memory.
 * It frees itself when its last event has fired. */
void *async_job_new(struct warp *w, const struct inst *in, unsigned lane, size_t bytes,
                    void (*fire)(struct machine *m, struct async_job *job, unsigned step));
void async_post(struct machine *m, struct async_job *job, unsigned step, enum async_delay delay);

/* Takes back a job of which no event has been posted. */
void async_job_cancel(struct machine *m, struct async_job *job);

/* Into how many pieces a copy of so many rows falls under the machine's policy. */
unsigned async_pieces(struct machine *m, unsigned rows);

/* True by policy: operands are read now (early) or when the operation completes (late). */
bool async_reads_now(struct machine *m);

struct mbar_actor async_actor(const struct site *site, bool engine);

/* ---- what a thread has issued ---- */

/* Groups retire in order: group g is over when it and all before it are. Group numbers grow; the
 * open group is `open`. */
struct async_groups {
    uint32_t oldest, open;      /* groups [oldest, open) are committed and not over */
    uint32_t used, waited;      /* no operation is in group `used` or later; groups before `waited`
                                 * have been waited for, if only until their sources were read */
    uint32_t capacity;          /* a power of two; slot g % capacity */
    struct async_group {
        uint32_t unread, undone;
    } *slots;
};

void async_groups_close(struct async_groups *groups);

/* The place for one more operation in the open group; false without memory. */
bool async_groups_issue(struct async_groups *groups);
void async_groups_read(struct async_groups *groups, uint32_t group);
void async_groups_done(struct async_groups *groups, uint32_t group);
bool async_groups_commit(struct async_groups *groups);
/* Whether at most `newest` committed groups are pending; read: only their reads matter. */
bool async_groups_passed(const struct async_groups *groups, uint32_t newest, bool read);

struct async_thread {
    struct async_groups bulk;   /* cp.async.bulk to global memory */
    struct async_groups copy;   /* cp.async */
    struct async_groups mark;   /* the same copies, a group for each cp.async.mbarrier.arrive */
    struct async_mark *marks;   /* what to do when such a group is over: slot as in mark */
    uint32_t mark_room;
};

/* Tensor maps in global memory that the running grids have edited, or that a CTA has acquired by
 * fence.proxy.tensormap since: each with the number of its last edit. */
struct async_maps {
    struct async_map {
        uint64_t address;
        const struct grid *grid;
        uint32_t edits;
    } *maps;
    unsigned count, capacity;
};

struct proxy_cta;
struct wgmma_unit;
struct tcgen_unit;

struct async_cta {
    struct mbar_table bars;
    struct async_thread *threads[CTA_WARPS];    /* a warp's 32, NULL until one is needed */
    struct wgmma_unit *units[CTA_WARPS / WARPGROUP];
    struct tcgen_unit *tcgen;   /* of the pair, with its CTA of even rank; NULL until used */
    uint32_t gave_up[CTA_WARPS];    /* lanes whose try_wait returns false next */
    uint32_t told[CTA_WARPS];       /* and true: their phase completed while they were parked */
    unsigned incoming;              /* copies in flight into this CTA's memory */
    struct proxy_cta *proxy;        /* NULL without the rule strict-proxy */
    struct async_maps acquired;
    struct async_cta *next;         /* in the list of spare ones */
};

struct async_thread *async_thread_of(struct warp *w, const struct inst *in, unsigned lane);

/* The same thread by its number in the CTA; NULL: its warp has issued nothing. */
static inline struct async_thread *async_thread_at(const struct async_cta *c, unsigned thread)
{
    struct async_thread *const lanes = c->threads[thread / LANES];

    return lanes ? &lanes[thread % LANES] : NULL;
}

/* One operation's place in the open bulk group of the thread that issues it. */
struct async_ticket {
    struct warp *warp;
    struct async_thread *thread;
    unsigned lane;
    uint32_t group;
};
bool async_ticket_take(struct warp *w, const struct inst *in, unsigned lane,
                       struct async_ticket *ticket);            /* false: trapped */
void async_ticket_read(struct async_ticket *ticket);            /* both wake the thread */
void async_ticket_done(struct async_ticket *ticket);

/* ---- shared services ---- */

struct async_scratch {              /* one operation's operands, used and forgotten */
    struct tensor_tile a, b;
    _Alignas(32) uint8_t rows[TENSOR_MAX_ROWS][TENSOR_ROW_BYTES];
    _Alignas(32) uint8_t deep[2 * TENSOR_MAX_ROWS][TENSOR_ROW_BYTES];   /* B beside a sparse A */
};
struct async_scratch *async_scratch(struct machine *m);     /* NULL without memory */

/* An operation on the mbarrier at `offset` of a CTA's window; wakes waiters, traps what is illegal.
 * False: trapped. */
bool async_complete_tx(struct machine *m, const struct site *at, struct cta *cta, uint32_t offset,
                       uint32_t bytes);
bool async_arrive(struct machine *m, const struct site *at, struct cta *cta, uint32_t offset,
                  unsigned flags, uint32_t count, uint32_t bytes, bool engine, uint64_t *state);
bool async_expect_tx(struct machine *m, const struct site *at, struct cta *cta, uint32_t offset,
                     uint32_t bytes);

/* Traps unless a live or invalidated mbarrier lies at the shared address; *cta and *offset say
 * where. For issuing instructions, so that a bad barrier is found at once. */
bool async_find_mbar(struct warp *w, const struct inst *in, unsigned lane, uint32_t address,
                     struct cta **cta, uint32_t *offset);

/* The shared address (with its rank) that a shared::cluster or generic address means, or a trap. */
bool async_shared_address(struct warp *w, const struct inst *in, unsigned lane, uint64_t address,
                          uint32_t *shared);

/* Traps UNDEFINED, naming `what`, unless the address is defined in all lanes of mask. */
bool async_need_address(struct warp *w, const struct inst *in, const struct operand *op,
                        uint32_t mask, const char *what);

/* tensormap.c: a map at a global address has been edited; the CTA has acquired it (false: no
 * memory); whether the CTA would use an edited map that it has not acquired. */
struct async_maps *async_edited_maps(struct machine *m);
bool tensormap_edited(struct cta *cta, uint64_t address);
bool tensormap_acquired(struct cta *cta, uint64_t address);
bool tensormap_stale(const struct cta *cta, uint64_t address);

/* An engine is about to write the bytes: traps if a live mbarrier is there. */
bool async_claim(struct machine *m, const struct site *at, struct cta *cta, uint32_t offset,
                 uint32_t bytes);

/* wgmma.c: the warpgroup's side of exits, storage and reports. */
void wgmma_unit_close(struct wgmma_unit *unit);
void wgmma_lanes_exit(struct warp *w, const struct inst *in);
size_t wgmma_describe(const struct wgmma_unit *unit, const struct park *park, char *text,
                      size_t room);

#endif
