/* Inside wgmma: what a warpgroup has in flight, and the accumulators that it shares with its warps'
 * registers. */
#ifndef EMULATOR_WGMMA_UNIT_H
#define EMULATOR_WGMMA_UNIT_H

#include "async.h"
#include "sparse.h"
#include "wgmma.h"

enum {
    BUSY_D = 0x80,              /* busy32: an accumulator; below: how many pending A fragments */
    MOST_REGISTERS = 128,       /* of an accumulator, per thread */
};

/* One accumulator that wgmmas in flight, or just retired, share. */
struct accumulator {
    struct accumulator *next;
    const struct operand *list; /* its registers */
    unsigned count;
    struct regs regs[WARPGROUP];        /* where: of the call depth that issues */
    unsigned n;
    enum tensor_result type;
    unsigned owed[WARPGROUP];   /* operations that a warp has not waited for */
    uint64_t fences;            /* the warpgroup's fences when it was last flushed */
    uint32_t *tile;             /* 64 x n */
    bool any_undefined;
    bool *undefined;            /* 64 x n */
};

/* The metadata of A, as they were at issue. */
struct wgmma_sparse {
    struct sparse layout;
    uint8_t numbers[WGMMA_ROWS][SPARSE_MOST];
};

struct operation {
    const struct inst *in;
    struct wgmma_sparse *sparse;        /* NULL: A is dense, or the operation has been executed */
    struct tensor_kind kind;
    struct accumulator *d;
    bool a_in_registers, keep;
    struct wgmma_desc a, b;
    uint32_t a_reg[4];
    struct regs regs[WARPGROUP];        /* where A's lie */
    uint32_t group;
    bool executed;
    bool freed[WARPGROUP];
};

struct wgmma_unit {
    struct cta *cta;
    unsigned index;
    struct operation *ops;      /* a ring in order of issue */
    unsigned first, count, capacity;
    uint32_t open, over;        /* groups [0, over) are over, [over, open) pending */
    uint32_t waited[WARPGROUP]; /* groups [0, waited) a warp has waited for */
    uint64_t fences;
    struct accumulator *accumulators;
};

static inline struct warp *warp_of(const struct wgmma_unit *u, unsigned i)
{
    return &u->cta->warps[u->index * WARPGROUP + i];
}

static inline struct operation *op_at(const struct wgmma_unit *u, unsigned i)
{
    return &u->ops[(u->first + i) & (u->capacity - 1)];
}

/* The accumulator of these registers at the present call depth, new if there is none; NULL without
 * memory. One of another shape comes back if it is still in use: the caller complains. */
struct accumulator *accumulator_of(struct wgmma_unit *u, const struct operand *list,
                                   unsigned count, unsigned n, enum tensor_result type);
void accumulator_free(struct accumulator *d);

/* Warp w's rows from its registers to the tile; false without memory. And back, which frees the
 * registers. */
bool accumulator_load(struct accumulator *d, unsigned w);
void accumulator_flush(struct wgmma_unit *u, struct accumulator *d, unsigned w);

/* Whether warp w's registers are still what the last flush made them. */
bool accumulator_unchanged(const struct accumulator *d, unsigned w);

/* From now on some elements hold nothing: makes room for saying which. */
bool accumulator_mark_undefined(struct accumulator *d);

void busy_set(struct warp *w, uint8_t *busy, unsigned add);
void busy_clear(struct warp *w, uint8_t *busy, unsigned subtract);

#endif
