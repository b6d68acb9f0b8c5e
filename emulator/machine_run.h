// The one call between driver and machine: run a chain of grids of one stream to the end, or to the first trap.
#ifndef EMU_MACHINE_RUN_H
#define EMU_MACHINE_RUN_H

#include <stdbool.h>
#include <stdint.h>

struct machine;
struct mem;
struct program;
struct trap;

struct machine_launch {
    const struct program *program;  // with the addresses of its variables filled in
    uint32_t function;              // index into the program's functions
    uint32_t grid[3], block[3];
    uint32_t cluster[3];            // 1,1,1 without a cluster; already checked to divide the grid
    bool explicit_cluster;          // a cluster size was asked for, by the launch or by the function
    uint32_t dynamic_smem;          // bytes behind the static shared memory
    const void *params;             // laid out at the program's own parameter offsets
    uint32_t param_bytes;
    bool programmatic;              // may start when every CTA of its predecessor has triggered or exited
    uint64_t grid_id;               // %gridid, and the launch's number in reports
};

// Runs launches[0..count) in order; each one after the first is either programmatic or waits for its predecessor's end.
// True: all ran. False: *trap says what stopped the run (nothing after it ran).
bool machine_run(struct machine *machine, struct mem *mem, const struct machine_launch *launches, uint32_t count,
                 struct trap *trap);

#endif
