/*
 * The one call from a driver to the machine.
 */
#ifndef EMULATOR_MACHINE_RUN_H
#define EMULATOR_MACHINE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function's address as a value is this plus its index in the program. */
#define FUNCTION_ADDRESS UINT64_C(0x0002000000000000)

struct function;
struct machine;
struct machine_config;
struct mem;
struct program;
struct trap;

/*
 * One grid. Everything pointed to belongs to the caller and must outlive the call. The driver has
 * set the address of every symbol of the program.
 */
struct launch {
    const struct program *program;
    const struct function *function;
    unsigned grid[3], block[3];
    unsigned cluster[3];        /* 1 1 1 without a cluster; divides the grid */
    bool explicit_cluster;      /* a cluster size was asked for, by the launch or by the function */
    unsigned dynamic_smem;
    const void *params;         /* laid out by the function's parameter offsets */
    size_t param_bytes;
    /*
     * Programmatic launch: may start when every CTA of the launch before it in the array has
     * executed griddepcontrol.launch_dependents or exited; griddepcontrol.wait then waits for
     * all launches before it. Otherwise the grid starts when all before it have completed.
     */
    bool programmatic;
    /* Global memory {size, counter} that the CTAs of a cooperative launch meet at: %envreg1 and 2
     * hold its address, cooperative_groups does the rest. 0: no cooperative launch. */
    uint64_t grid_barrier;
    size_t stack_bytes;         /* what a thread's stack must have room for; 0: what it always has */
    uint64_t grid_id;           /* %gridid, and the launch's number in reports */
};

/* NULL when memory is short. The memory is the context's and outlives the machine. */
struct machine *machine_create(const struct machine_config *config, struct mem *mem);
void machine_destroy(struct machine *machine);

/*
 * Runs the launches, in order, to completion. True: all done. False: *trap says why, nothing of
 * the launches is left behind, and memory has what was written until then.
 */
bool machine_run(struct machine *machine, const struct launch *launches, size_t count,
                 struct trap *trap);

/* What one multiprocessor holds. */
struct machine_limits {
    unsigned threads, warps, ctas, registers;
    unsigned smem;              /* bytes, all CTAs with what each reserves */
    unsigned smem_reserved;     /* per CTA */
    unsigned smem_cta;          /* most that one CTA may use, static and dynamic */
    unsigned smem_granularity;
};
void machine_limits(const struct machine_config *config, struct machine_limits *limits);

/* Registers per thread that the function starts with in CTAs of so many threads. */
unsigned machine_registers(const struct program *program, const struct function *function,
                           unsigned threads);

/* CTAs of this kind that fit one multiprocessor; 0: none. */
unsigned machine_occupancy(const struct machine_config *config, const struct program *program,
                           const struct function *function, unsigned threads,
                           unsigned dynamic_smem);

#endif
