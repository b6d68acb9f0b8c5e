/*
 * What only the machine's own files know of each other.
 */
#ifndef EMULATOR_STATE_H
#define EMULATOR_STATE_H

#include "machine.h"
#include "machine_run.h"
#include "mem.h"

struct sm {
    unsigned threads, warps, ctas, registers, smem;     /* in use */
};

struct machine {
    struct machine_config config;
    struct machine_limits limits;
    struct mem *mem;
    struct mem_cache cache;     /* of ordinary accesses */
    struct mem_cache engine_cache;
    struct async *async;
    struct tmem **tmem;         /* by multiprocessor, NULL until used */

    uint64_t now;
    uint64_t progress;          /* time of the last effect anybody could notice */
    uint64_t slept;             /* of the time since then: when no warp ran */
    bool idle;                  /* which was long ago */
    uint64_t random;
    uint64_t events;            /* ids given to the observer */
    bool interrupt;             /* an event is due: end the slice */
    uint64_t proxy_ticks;       /* proxy.c's time */
    bool reap;                  /* perhaps a cluster is over */
    bool trapped;
    struct trap trap;

    struct grid *grids;         /* the chain that runs */
    unsigned grid_count;
    struct sm *sms;

    /* Warps that can run: a ring. A warp is in it at most once. */
    struct warp **ready;
    unsigned ready_first, ready_count, ready_room;      /* room is a power of two */

    uint64_t next_timer;        /* earliest wake_at of any warp */
    uint64_t next_start;        /* of a cluster, under the policy random */
    unsigned start_slices;      /* since the last one, under the policy early */

    /* Storage of finished clusters, all of one shape, to be used again. */
    struct cluster *pool;
    struct piece *piece;        /* of memory, which new clusters of the shape are cut from */
    struct shape {
        unsigned warps, cluster, registers[BANK_COUNT];
        uint32_t smem;
    } shape;
};

/* Instructions since the last effect. */
static inline uint64_t idle_for(const struct machine *m)
{
    return m->now - m->progress - m->slept;
}

/* machine.c */
bool machine_fail(struct machine *m, enum trap_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* cta.c */
bool cluster_start(struct machine *m, struct grid *g);  /* false: no room now, or trapped */
void cluster_forget(struct machine *m, struct cluster *c);  /* at the end of a run */
void cluster_reap(struct machine *m);                   /* clusters that are over and done */
void pool_clear(struct machine *m);
bool grid_may_start(const struct machine *m, const struct grid *g);
void lanes_exit(struct warp *w, const struct inst *in, uint32_t lanes);
struct regs *regs_new(const uint32_t counts[BANK_COUNT]);
void regs_reset(struct regs *r, const uint32_t counts[BANK_COUNT]);

/* sched.c */
bool ready_reserve(struct machine *m, unsigned warps);
void warp_ready(struct warp *w);
void machine_loop(struct machine *m);

/* wait.c */
void warp_recheck(struct warp *w);      /* lanes that wait for lanes, after others have exited */
void timers_run(struct machine *m);

/* exec_sync.c: what exits mean for barriers */
void barrier_exit(struct warp *w, uint32_t lanes);
void cluster_exit(struct warp *w, const struct inst *in, uint32_t lanes);

/* report.c */
void report_deadlock(struct machine *m);
void report_livelock(struct machine *m);

/* skip.c: lanes leave out what the guard at pc guards, if that only writes registers; else false. */
bool skip_undefined(struct warp *w, uint32_t pc, uint32_t lanes);

/* place.c */
const char *space_name(enum space space);

/* exec.c */
extern const machine_op machine_ops[OP_COUNT];

static inline const struct inst *warp_inst(const struct warp *w, uint32_t pc)
{
    return &w->grid->program->insts[pc];
}

static inline uint32_t inst_pc(const struct warp *w, const struct inst *in)
{
    return (uint32_t)(in - w->grid->program->insts);
}

/* Whole warps, the usual case, in a loop without questions. */
static inline void warp_put_pc(struct warp *w, uint32_t lanes, uint32_t pc)
{
    if (lanes == UINT32_MAX) {
        for (unsigned l = 0; l < LANES; l++)
            w->pc[l] = pc;
        return;
    }
    for (uint32_t left = lanes; left; left &= left - 1)
        w->pc[__builtin_ctz(left)] = pc;
}

#endif
