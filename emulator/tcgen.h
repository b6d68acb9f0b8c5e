/* tcgen05: what its instruction handlers share. Tensor Memory itself is in tmem.h, descriptors in
 * tcgen_desc.h.
 *
 * mma, cp, shift, ld and st are asynchronous. Each becomes an operation in its pair's list, in
 * order of issue, that takes effect all at once: at the issue (early), when its event comes, or
 * when something that it must precede takes effect. What the manual orders is kept:
 *
 *     mma -> mma of the same accumulator and shape      cp -> mma      shift -> mma
 *     shift -> cp.4x256b      mma -> shift              by one thread, or by two with fences between
 *     mma, cp, shift -> commit      ld -> wait::ld      st -> wait::st
 *     mma -> cp               by one thread, unless the strict rule is asked for
 *
 * Nothing else is. If an operation takes effect while an older one in flight touches the same cells
 * of Tensor Memory, and one of them writes, that is a trap: the program has a race.
 *
 * A tcgen05.ld also takes effect when an instruction names one of its registers: the manual
 * promises the right value there; only other accesses to the cells need wait::ld. Under the rule
 * strict-wait it takes effect at wait::ld, and a register named before is a trap.
 */
#ifndef EMULATOR_TCGEN_H
#define EMULATOR_TCGEN_H

#include "async.h"
#include "exec.h"
#include "proxy.h"
#include "tcgen_desc.h"
#include "tmem.h"

enum tcgen_class { TCGEN_MMA, TCGEN_CP, TCGEN_SHIFT, TCGEN_LD, TCGEN_ST, TCGEN_CLASSES };

/* What of Tensor Memory an operation touches. Lanes count in sixteens: bit g is 16g .. 16g + 15. */
struct tcgen_span {
    uint8_t sides;              /* bit s: in the pair's CTA s */
    uint8_t lanes;
    bool write;
    uint16_t column, columns;
};

enum { TCGEN_SPANS = 5 };

struct tcgen_unit;
struct tcgen_strict;

struct tcgen_op {
    struct async_job job;
    struct tcgen_unit *unit;
    struct tcgen_op *older, *newer;
    enum tcgen_class class;
    unsigned side;              /* of the CTA that issued it */
    bool done;
    bool unposted;              /* no event will come: a wait performs it */
    uint64_t number;            /* in order of issue */
    uint64_t fenced;            /* when its thread executed before_thread_sync, 0: not yet */
    uint64_t after;             /* when its thread had last executed after_thread_sync */
    void (*effect)(struct machine *m, struct tcgen_op *op);
    unsigned span_count;
    struct tcgen_span spans[TCGEN_SPANS];
    /* what decides whether two pipelined operations are a pair */
    uint32_t accumulator;       /* mma: D's address */
    unsigned m, n;              /* mma: shape */
    bool rows_of_4;             /* cp.4x256b */
};

struct tcgen_thread {
    uint64_t after;             /* when it last executed after_thread_sync */
    bool issued;                /* an mma, cp or shift, ever */
};

/* One CTA of a pair. */
struct tcgen_side {
    struct cta *cta;            /* NULL: nothing of tcgen05 yet */
    struct tmem *tmem;          /* of its multiprocessor */
    struct tcgen_thread *threads;
    unsigned group;             /* cta_group of all its instructions, 0: none yet */
    bool relinquished;
    uint32_t columns;           /* of the last allocation, 0: none yet */
    /* of A, then b0 to b3 of .ws: descriptor or address of what it holds */
    struct tcgen_collector { bool filled; uint64_t with; } collectors[5];
    /* .cta_group::2: an allocation waits for the other CTA's */
    bool asks, granted;
    uint32_t wanted;
    unsigned first;
    unsigned loads[CTA_WARPS], stores[CTA_WARPS];       /* in flight, by warp */
};

/* The CTAs of ranks 2i and 2i + 1; a CTA alone is side 0. Kept with the CTA of side 0. */
struct tcgen_unit {
    struct tcgen_side sides[2];
    struct tcgen_op *oldest, *newest;
    uint64_t numbers, ticks;
    struct tcgen_strict *strict;        /* NULL without the rule strict-fence */
};

/* What tcgen05 instructions park on: WAIT_TCGEN's key. */
enum tcgen_wait { TCGEN_WAIT_LD, TCGEN_WAIT_ST, TCGEN_WAIT_ALLOC, TCGEN_WAIT_PEER };

/* ---- tcgen.c ---- */

/* The side of the executing CTA, opened at its first tcgen05 instruction; with group 2 its peer's
 * too. Checks that all instructions name one cta_group (0: this one names none). NULL: trapped. */
struct tcgen_side *tcgen_side_of(struct warp *w, const struct inst *in, unsigned group);
/* The same; with group 2 the peer must not have exited. */
struct tcgen_side *tcgen_live_side(struct warp *w, const struct inst *in, unsigned group);
struct tcgen_unit *tcgen_unit_of(const struct cta *cta);        /* NULL: nothing opened */

static inline unsigned tcgen_side_number(const struct cta *cta)
{
    return cta->rank & 1;
}

struct tcgen_thread *tcgen_thread_of(struct tcgen_side *side, const struct warp *w, unsigned lane);

/* An operation of at least sizeof(struct tcgen_op) bytes in the unit's list; NULL: trapped. */
void *tcgen_op_new(struct warp *w, const struct inst *in, unsigned lane, enum tcgen_class class,
                   size_t bytes, void (*effect)(struct machine *m, struct tcgen_op *op));
void tcgen_span_add(struct tcgen_op *op, unsigned sides, unsigned lanes, bool write,
                    unsigned column, unsigned columns);

/* Issues it: at once or by an event, as the policy says. */
enum flow tcgen_issue(struct warp *w, struct tcgen_op *op);

/* Makes it take effect now, and first whatever must precede it; false: trapped. */
bool tcgen_perform(struct machine *m, struct tcgen_op *op);

/* Checks that the columns belong to the CTAs of the sides; else traps. `what` for words. */
bool tcgen_owned(struct warp *w, const struct inst *in, unsigned lane, const struct tcgen_unit *unit,
                 unsigned sides, unsigned first, unsigned columns, const char *what);

/* An operand's address in Tensor Memory; false: trapped, bits 9 to 15 are not zero. */
bool tcgen_address(struct warp *w, const struct inst *in, unsigned lane, const struct operand *op,
                   const char *what, uint32_t *address);

/* Whether ordinary writes of what an operand lies in have passed a proxy fence; false: trapped. */
bool tcgen_reads(struct warp *w, const struct inst *in, unsigned lane, const struct cta *cta,
                 const struct wgmma_visits *visits);

/* Traps UNVERIFIED unless the machine may follow what is assumed; true: go on. */
bool tcgen_assume(struct warp *w, const struct inst *in, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* tcgen_ld.c: whether the instruction names a register that the load will write. */
bool tcgen_ld_names(const struct tcgen_op *op, const struct warp *w, const struct inst *in);

/* tcgen_strict.c: nothing without the rule strict-fence. */
bool tcgen_strict_issue(struct warp *w, struct tcgen_op *op);
void tcgen_strict_before(struct tcgen_unit *u, unsigned side, unsigned warp, int lane);
void tcgen_strict_wait(struct tcgen_unit *u, unsigned side, unsigned warp, bool loads);
void tcgen_strict_told(struct tcgen_unit *u, unsigned side, unsigned warp, int lane, uint64_t upto);
void tcgen_strict_forget(struct tcgen_unit *u, unsigned side, unsigned first, unsigned columns);

/* tcgen_alloc.c: the CTA allocates no more; others may. */
void tcgen_permit_leave(struct tcgen_side *side);

/* ---- hooks of the machine ---- */

void tcgen_machine_reset(struct machine *m);    /* a run begins: all Tensor Memory is free */
void tcgen_machine_close(struct machine *m);

/* Pending loads into a register that the instruction names take effect; false: trapped. */
bool tcgen_touch(struct warp *w, const struct inst *in);
void tcgen_cta_exit(struct cta *cta);
void tcgen_cta_close(struct async_cta *c);
void tcgen_lanes_exit(struct warp *w, const struct inst *in);
size_t tcgen_describe(const struct cta *cta, const struct park *park, char *text, size_t room);

#endif
