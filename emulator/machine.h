/*
 * The machine: grids, clusters, CTAs and warps, and what their instructions may do to them.
 *
 * One machine belongs to one context and is used by one thread at a time. A warp executes one
 * instruction for a set of lanes that share a program counter (a lane group). A handler that has
 * to wait parks lanes on a condition; whoever changes the condition wakes them. Asynchronous
 * engines (async.h) complete at times of the machine's own clock, which advances with every
 * instruction and jumps when nothing can run.
 *
 * NOT IMPLEMENTED: textures and surfaces, dynamic parallelism, device-side malloc.
 */
#ifndef EMULATOR_MACHINE_H
#define EMULATOR_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program.h"
#include "trap.h"

struct async;
struct async_cta;
struct mem;
struct machine;
struct launch;
struct cluster;
struct cta;
struct warp;

enum {
    LANES = 32,
    WARPGROUP = 4,              /* warps of a warpgroup */
    CTA_WARPS = 32,
    CTA_BARRIERS = 16,
    CLUSTER_CTAS = 16,
    SMEM_START = 0x400,         /* first user byte of a CTA's shared window */
    SMEM_RANK_SHIFT = 24,       /* cluster rank in a shared address */
    PARAM_START = 0x210,        /* where the kernel parameters begin in param space */
};

/* Generic addresses. What lies in none of the windows is global memory. */
#define WINDOW_SIZE   UINT64_C(0x100000000)
#define WINDOW_SHARED UINT64_C(0x0001000000000000)
#define WINDOW_LOCAL  UINT64_C(0x0001000100000000)
#define WINDOW_PARAM  UINT64_C(0x0001000200000000)

enum machine_part { PART_H200, PART_B200 };

/* When asynchronous engines act within the freedom they have. */
enum machine_policy { POLICY_EARLY, POLICY_LATE, POLICY_RANDOM };

/* Where sources are silent or disagree, one reading is the default and a bit asks for the other. */
enum machine_rule {
    RULE_ASSUME = 1,            /* do what is assumed instead of an UNVERIFIED trap */
    RULE_STRICT_CP = 2,         /* a tcgen05.cp is not ordered behind its thread's earlier mma */
    RULE_PADDED_BYTES = 4,      /* padded 4- and 6-bit tensor copies count bytes with their gaps */
    RULE_MIXED = 8,             /* one 16-bit product may have a bf16 and an f16 operand */
    RULE_STRICT_PROXY = 16,     /* engines read ordinary writes behind fence.proxy.async only */
    RULE_STRICT_FENCE = 32,     /* tcgen05's own fences are asked for between threads */
    RULE_STRICT_WAIT = 64,      /* a register of a tcgen05.ld is nothing before wait::ld */
    RULE_ZEROS_COUNT = 128,     /* switches of struct tensor_rules, for tcgen05 */
    RULE_NO_FLOOR = 256,
    RULE_NORMALISE = 512,
    RULE_FP4_ZEROS_VANISH = 1024,
    RULE_STRICT_EXIT = 2048,    /* bulk copies out of a CTA, and arrivals at it, have come to an end when it exits */
    RULE_STRICT = RULE_STRICT_PROXY | RULE_STRICT_FENCE | RULE_STRICT_WAIT | RULE_STRICT_EXIT,
};

/* What an observer is told. Every event has an id that grows by one. */
enum machine_event_kind {
    EVENT_FENCE,                /* value: the opcode */
    EVENT_ARRIVE,               /* object: barrier address or number */
    EVENT_WAIT_DONE,
    EVENT_ASYNC_ISSUE,          /* object: the operation's number */
    EVENT_ASYNC_READ,           /* its operands have been read */
    EVENT_ASYNC_DONE,
    EVENT_CTA_START,
    EVENT_CTA_EXIT,
};

struct machine_event {
    uint64_t id, time;
    enum machine_event_kind kind;
    unsigned sm, cta;
    int warp;
    uint32_t lanes;
    const struct inst *inst;
    uint64_t object, value;
};

struct machine_config {
    enum machine_part part;
    unsigned sms;
    uint64_t seed;
    enum machine_policy policy;
    bool math;                  /* false: matrix instructions move no values */
    unsigned rules;             /* enum machine_rule, a set */
    uint64_t idle_steps;        /* instructions without any effect before LIVELOCK; 0: default */
    void (*print)(void *user, const char *text, size_t length);     /* the kernel's printf */
    void (*observe)(void *user, const struct machine_event *event);
    void *user;
};

/* What a lane group waits for. `key` and `want` mean what the kind says. */
enum wait_kind {
    WAIT_NONE,
    WAIT_MBARRIER,              /* key: offset in the CTA's shared window, want: phase or parity */
    WAIT_BARRIER,               /* key: number */
    WAIT_CLUSTER,               /* key: phase */
    WAIT_WARP,                  /* lanes of the warp at a .sync instruction */
    WAIT_WARPGROUP,             /* the other warps of the warpgroup; key: its number */
    WAIT_WGMMA,                 /* key: warpgroup, want: groups that may stay pending */
    WAIT_BULK,                  /* key: thread, want: groups; reads and completions alike */
    WAIT_COPY,                  /* cp.async groups; key: thread */
    WAIT_REGISTERS,             /* key: sub-partition, want: registers per thread */
    WAIT_TCGEN,                 /* key: enum tcgen_wait, want: columns of an allocation */
    WAIT_GRID,                  /* griddepcontrol.wait */
    WAIT_TIME,                  /* key: machine time */
};

struct park {
    enum wait_kind kind;
    uint32_t lanes;
    bool again;                 /* woken lanes execute the instruction again, else the next one */
    uint64_t key, want;
    const struct inst *inst;
};

/* Registers of one call depth of a warp. Bit l of a mask belongs to lane l. */
struct regs {
    uint32_t (*r32)[LANES];     /* also 16-bit and 8-bit registers, zero-extended */
    uint64_t (*r64)[LANES];
    uint32_t *pred;
    uint32_t *def32, *def64, *defp;     /* lanes whose value is defined */
    uint8_t *busy32;            /* asynchronous instructions that own the register, or NULL */
};

/* What a lane returns to. */
struct lane_frame {
    uint32_t ret;               /* instruction behind the call */
    uint32_t call;              /* the call itself */
    uint32_t frame;             /* caller's frame in local memory */
    uint32_t taken;             /* by alloca, when it called */
    const struct function *fn;  /* caller */
};

enum { CALL_DEPTH = 64 };

struct warp {
    /* Of the group that executes now: registers of its call depth. Handlers use these. */
    struct regs r;
    const struct function *fn;
    uint32_t frame;             /* offset of the function's frame in every lane's local memory */
    unsigned depth;
    uint32_t group;             /* lanes that share the program counter, before the guard */
    uint32_t at;                /* the program counter */
    uint32_t settled;           /* lanes of the group whose next pc is already set */
    bool regroup;               /* the group changed: look at all lanes again */

    struct machine *m;
    struct grid *grid;
    struct cta *cta;
    unsigned id;                /* rank in the CTA */

    uint32_t launched;          /* lanes that exist */
    uint32_t alive;             /* lanes that have not exited */
    uint32_t parked;
    uint32_t skip;              /* lanes that have had their turn in a loop, */
    unsigned turns;             /* which lasts so many rounds */
    uint32_t dealt;             /* times that every group has had its turn */
    struct {                    /* of the livelock watch: where it was in which state */
        uint64_t progress, state;
        uint32_t pc, dealt;
        bool round;             /* it has been there before */
    } watch;
    uint32_t busy;              /* number of registers owned by asynchronous instructions */
    bool queued;                /* in the scheduler's hands */
    uint32_t steps;             /* instructions that it has executed */
    unsigned registers;         /* per thread, what setmaxnreg changes */
    uint32_t carry, def_carry;  /* the carry flag of each lane */

    uint32_t cluster_arrived;   /* lanes that have arrived at the cluster barrier, not yet waited */
    uint32_t cluster_phase;     /* and the low bit of the phase they arrived in */
    uint64_t wake_at;           /* earliest WAIT_TIME, UINT64_MAX: none */

    uint32_t pc[LANES];
    uint8_t lane_depth[LANES];
    uint32_t lane_frame[LANES];
    const struct function *lane_fn[LANES];
    struct lane_frame *stack[LANES];    /* by depth, NULL without calls */
    struct regs *levels[CALL_DEPTH];    /* registers by call depth */

    struct park parks[LANES];
    unsigned park_count;
    /* Local memory: functions' frames go up from 0, what alloca takes goes down from its end, which
     * programs without alloca have at frame_bytes. */
    uint32_t local_size;        /* bytes of it per lane */
    uint32_t frame_bytes;
    uint32_t taken[LANES];      /* by alloca: the stack pointer is local_size less this */
    uint8_t *local, *local_valid;   /* lane after lane, NULL until used */
};

struct named_barrier {
    unsigned expected;          /* threads that the phase was opened for; 0: all of the CTA */
    unsigned arrived;           /* threads; a warp counts 32 once all its live lanes have come */
    unsigned before;            /* of them, arrivals by lanes that have come again since */
    bool open;
    const struct inst *first;   /* instruction that opened this phase */
    unsigned votes;             /* barrier.red: lanes with a true predicate, and with any */
    unsigned voters;
    bool result_or, result_and; /* of the last phase completed */
    unsigned result_popc;
    uint32_t lanes[CTA_WARPS];  /* that have arrived in this phase */
};

struct cta {
    struct machine *m;
    struct grid *grid;
    struct cluster *cluster;
    unsigned rank;              /* in the cluster */
    unsigned id[3];
    uint32_t number;            /* linear index in the grid */
    unsigned sm;

    /* Shared memory: address a (below 1 << SMEM_RANK_SHIFT) is bytes[a], valid bit a. */
    uint32_t smem_end;
    uint8_t *bytes, *valid;

    unsigned threads;
    unsigned warp_count;
    unsigned live_warps;
    const struct inst *meeting[CTA_WARPS / WARPGROUP];  /* where warps of a warpgroup wait */
    unsigned met[CTA_WARPS / WARPGROUP];                /* and which, a bit each */
    struct warp *warps;
    struct named_barrier barriers[CTA_BARRIERS];
    unsigned pool[4];           /* free registers of each sub-partition, in registers x lanes */
    struct async_cta *async;    /* mbarriers, groups and whatever else the engines keep */
    bool triggered;             /* griddepcontrol.launch_dependents */
    bool exited;
};

struct cluster {
    struct grid *grid;
    unsigned size;
    unsigned live;              /* CTAs that have not exited */
    struct cta *ctas[CLUSTER_CTAS];     /* valid until the whole cluster is done */
    uint64_t barrier_phase;
    unsigned barrier_arrived;   /* threads */
    unsigned threads;           /* threads of the cluster that have not exited */
    unsigned outstanding;       /* asynchronous operations that will still touch its memory */
    bool last_one;              /* a thread has seen that no cluster is left to cancel */
    struct piece *piece;        /* of memory, that it lies in */
    struct cluster *next;
};

struct grid {
    struct machine *m;
    const struct launch *launch;
    const struct program *program;
    const struct function *fn;
    unsigned index;             /* in the chain of launches */
    unsigned dims[3], block[3], cluster[3];     /* CTAs, threads, CTAs of a cluster */
    unsigned threads, warps;    /* of a CTA */
    unsigned cluster_size;
    unsigned registers;         /* per thread at the start */
    uint32_t smem;              /* user bytes of a CTA */
    uint64_t clusters, started; /* in all, and brought to life */
    uint64_t ctas, triggered, exited;
    uint64_t finished;          /* clusters that are gone with all their asynchronous work */
    struct cluster *live;
    bool done;
    uint8_t *params;            /* the parameter bank, with slack behind */
    uint32_t param_bytes;
};

/* Where something happened: enough for a trap, also long after the instruction. */
struct site {
    const struct cta *cta;      /* NULL: no place */
    const struct inst *inst;
    int warp, lane;             /* -1: none */
};

/* ---- what handlers get and give ---- */

enum flow {
    FLOW_NEXT,                  /* lanes that are not settled go on behind the instruction */
    FLOW_TRAP,                  /* a trap has been recorded */
};

/* One executed instruction of a warp for the lanes in mask (guard already applied, never 0). */
typedef enum flow (*machine_op)(struct warp *w, const struct inst *in, uint32_t mask);

/* Records a trap unless there is one; always returns FLOW_TRAP. lane -1 means the whole warp. */
enum flow warp_trap(struct warp *w, const struct inst *in, int lane, enum trap_kind kind,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));
enum flow warp_trap_at(struct warp *w, const struct inst *in, int lane, enum trap_kind kind,
                       uint64_t address, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* The same from an asynchronous event. */
void machine_trap(struct machine *m, const struct site *at, enum trap_kind kind,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));
void machine_trap_at(struct machine *m, const struct site *at, enum trap_kind kind,
                     uint64_t address, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
bool machine_trapped(const struct machine *m);

/* ---- waiting ----
 * A handler parks lanes of its mask and returns FLOW_NEXT. With `again` the woken lanes execute
 * the instruction once more and look themselves; without, the waker has done everything and they
 * go on behind it. Waking what is not parked does nothing.
 */
void warp_park(struct warp *w, const struct inst *in, uint32_t lanes, enum wait_kind kind,
               uint64_t key, uint64_t want, bool again);
void warp_wake(struct warp *w, enum wait_kind kind, uint64_t key, uint32_t lanes);
void cta_wake(struct cta *cta, enum wait_kind kind, uint64_t key);

/*
 * Rendezvous of the four warps of a warpgroup at one aligned instruction. Each calls it; the first
 * three are parked (and go on behind the instruction when the last has come) and get false, the
 * last gets true and executes for all. Traps, and gives false, if a warp is not converged or the
 * four differ in the instruction.
 */
bool warpgroup_meet(struct warp *w, const struct inst *in, uint32_t mask);

/*
 * Rendezvous of lanes at a .sync instruction. member: the lanes that must come, alive or exited;
 * UINT32_MAX for an .aligned instruction, which every live lane must execute. Gives the lanes to
 * execute it for (all of member that live), or 0 when mask was parked until the others come or
 * when it trapped.
 */
uint32_t warp_gather(struct warp *w, const struct inst *in, uint32_t mask, uint32_t member);

/* Cluster launch control: the next cluster of the grid will never start; *first is its first CTA.
 * False: none is left. */
bool grid_cancel(struct grid *g, unsigned first[3]);

/* Lanes go on at another instruction than the next. */
void warp_jump(struct warp *w, uint32_t lanes, uint32_t pc);

/* ---- time, chance, events ---- */
uint64_t machine_now(const struct machine *m);
uint64_t machine_random(struct machine *m);             /* of the seed */
const struct machine_config *machine_config(const struct machine *m);
struct mem *machine_memory(struct machine *m);
struct async **machine_async(struct machine *m);

/* Something happened that another thread could notice: keeps the livelock watch quiet. */
void machine_progress(struct machine *m);

/* An event is due at once: the running warp stops behind its present instruction. */
void machine_interrupt(struct machine *m);

void machine_observe(struct machine *m, const struct site *at, enum machine_event_kind kind,
                     uint32_t lanes, uint64_t object, uint64_t value);

/* ---- memory ---- */
enum access { ACCESS_READ, ACCESS_WRITE };

/* Bytes of some memory with their valid bits: data[0] is the byte asked for, its bit valid_at. */
struct place {
    enum space space;           /* never generic; SP_SHARED for all shared memory */
    uint8_t *data;
    uint8_t *valid;             /* NULL: always valid (parameters) */
    size_t valid_at;
    size_t room;                /* bytes from data to the end of the allocation or window */
    struct cta *cta;            /* of shared memory */
    uint32_t offset;            /* of shared memory: address without the rank */
};

/*
 * Resolves `size` bytes at `address` of a space for one lane and checks bounds, life of the target
 * CTA, and writability; not alignment and not validity. Traps and gives false otherwise.
 * Shared addresses may carry a cluster rank.
 */
bool warp_place(struct warp *w, const struct inst *in, unsigned lane, enum space space,
                uint64_t address, size_t size, enum access access, struct place *out);

/* The lanes' local memory is there; else a trap. */
bool warp_local(struct warp *w, const struct inst *in);

/* The same from an asynchronous event: global, and shared addresses of a cluster. */
bool machine_place_global(struct machine *m, const struct site *at, uint64_t address, size_t size,
                          enum access access, struct place *out);
bool machine_place_shared(struct machine *m, const struct site *at, struct cta *from,
                          uint32_t address, size_t size, enum access access, struct place *out);

/* The CTA that a shared address means for `from`, NULL if the rank does not exist. */
struct cta *cta_of_shared(const struct cta *from, uint32_t address);

/* A generic address that means shared memory becomes a shared address; others give false. */
bool generic_is_shared(uint64_t address, uint32_t *shared);

/* ---- operands ----
 * Values are zero-extended bits of the operand's register class, or the immediate, or the address
 * of a symbol. *_lanes forms give what `lanes` lanes have; a lane outside keeps its place unset.
 */
uint64_t warp_value(const struct warp *w, const struct operand *op, unsigned lane);
uint32_t warp_defined(const struct warp *w, const struct operand *op);
void warp_set(struct warp *w, const struct operand *op, unsigned lane, uint64_t value,
              bool defined);
void warp_set_pred(struct warp *w, const struct operand *op, uint32_t lanes, uint32_t values,
                   uint32_t defined);

/* Predicate operand (negation applied) of all lanes as a mask. */
uint32_t warp_pred(const struct warp *w, const struct operand *op);

/* Lanes of mask for which the operand is worth what it is for `lane`. */
uint32_t warp_same(const struct warp *w, const struct operand *op, uint32_t mask, unsigned lane);

/* Traps UNDEFINED, naming `what`, unless the operand is defined in all of mask. */
bool warp_need(struct warp *w, const struct inst *in, const struct operand *op, uint32_t mask,
               const char *what);

/* One value for all lanes of mask, else a trap MISMATCH that names `what`. */
bool warp_uniform(struct warp *w, const struct inst *in, const struct operand *op, uint32_t mask,
                  const char *what, uint64_t *value);

/* Address operand [register or symbol + offset] of one lane. */
uint64_t warp_address(const struct warp *w, const struct operand *op, unsigned lane);

/* Lanes for which the address is defined. */
uint32_t warp_address_defined(const struct warp *w, const struct operand *op);

/* Element i of a vector operand; a scalar is its own element 0. */
static inline const struct operand *operand_element(const struct program *p,
                                                    const struct operand *op, unsigned i)
{
    return op->kind == OPND_VEC ? &p->elems[op->reg + i] : op;
}

/* ---- hooks that async.h provides and the machine calls ----
 *   bool     async_open(struct machine *m)              sets *machine_async(m)
 *   void     async_close(struct machine *m)
 *   uint64_t async_next(const struct machine *m)        time of the next event, UINT64_MAX: none
 *   void     async_reset(struct machine *m)             a run is over, perhaps by a trap: drop all
 *   void     async_run(struct machine *m)               everything due at machine_now
 *   bool     async_cta_open(struct cta *cta)            sets cta->async
 *   void     async_cta_close(struct cta *cta)           its cluster is done and forgotten
 *   void     async_cta_exit(struct cta *cta)            its last thread has exited: may trap
 *   void     async_lanes_exit(struct warp *w, const struct inst *in, uint32_t lanes)  may trap
 *   bool     async_smem_touch(struct cta *cta, uint32_t offset, uint32_t bytes, bool write)
 *                an ordinary access; false: a live mbarrier lies there (the machine traps)
 *   size_t   async_describe(const struct cta *cta, const struct park *park, char *text,
 *                           size_t room)
 *                what a parked lane waits for, in words, for deadlock reports (like snprintf)
 * An operation in flight that will touch a cluster's shared memory or registers counts in
 * cluster->outstanding: the machine keeps the cluster's storage until that is 0 again.
 */

#endif
