/* timing.h -- how long a kernel will take: the pipeline model with constants measured per
 * architecture. */
#ifndef LOADER_TIMING_H
#define LOADER_TIMING_H

#include <ptxmm.h>

#include <stddef.h>

/* The constants of an architecture and of a size of elements. Cycles are of the SM clock; timing.c says
 * where each comes from. */
struct timing {
    int arch, bits;           /* of an element of A */
    double slice_overhead;    /* [fit]    added to every slice's tensor time */
    double issue;             /* [guess]  between two slices' loads */
    double second;            /* [fit]    ... more where two warpgroups have to let go of a slot */
    double load;              /* [tma]    from issue to data present */
    double epilogue;          /* [fit]    of a tile, fixed, ... */
    double epilogue_per_byte; /* [fit]    ... and per byte of D that one thread stores */
    double sm_bytes;          /* [sm]     bytes a cycle that an SM loads when all do, ... */
    double sm_alone;          /* [sm]     ... and by what share more it would load by itself */
    double fabric;            /* [fabric] bytes a second from the L2 to all SMs, ... */
    double scatter;           /* [fabric] ... less by this share for each part of K beside the first */
    double off_sector;        /* [fabric] the share of it that is left to rows that start between sectors, ... */
    double off_line;          /* [fabric] ... to those that start between lines, ... */
    double split_off_sector;  /* [rows]   split kernels: the share of an SM's rate that is left to rows between sectors */
    double scattered;         /* [fabric] ... and at least to loads from many parts of K at a time */
    double ramp;              /* [ramp]   seconds until the memory is busy, and after */
    double split_start;       /* [split]  split kernels: once, ... */
    double split_element;     /* [split]  ... and per element of a tile, beyond the epilogue */
    double exchange;          /* [split]  adding a cluster's parts, beyond one part's epilogue */
    double group;             /* [split]  one more group: its sums written and read back */
    double meet;              /* [meet]   multicast kernels: groups wait for one another, ... */
    double meet_element;      /* [meet]   ... and per element of a tile, whose sums are written and read */
    double multicast_start;   /* [meet]   once: their clusters start and meet, ... */
    double multicast_slice;   /* [meet]   ... added to a slice's tensor time: wgmma and TMA share a port, ... */
    double next_cta;          /* [meet]   ... and until the next CTA loads on an SM that one has left */
    double pair_in_row;       /* [meet]   by what share an SM of a pair loads less where all do, if its CTAs */
    double pair_in_column;    /* [meet]   have rows of A in common, if rows of B, ... */
    double larger_cluster;    /* [meet]   ... and in larger clusters */
    double promote;           /* [fp8]    more tensor time of a slice whose sum is promoted, ... */
    double split_promote;     /* [fp8]    ... of split kernels, whose consumers wait for it */
    double outside;           /* [fit]    to load a slice's row that lies outside of the matrix */
    double launch;            /* [fit]    once per CTA: start, barriers, first map, end */
    double light_clock;       /* [power]  share of the highest clock at light load, ... */
    double busy_clock;        /* [power]  ... with busy tensor cores and 256 columns, ... */
    double narrow_clock;      /* [power]  ... and so much less for each column that is missing */
    double dram;              /* [dram]   share of the peak bandwidth that is reached */
    double l2;                /* [guess]  share of the L2 that operands can hold on to */
};

/* How a kernel is launched that leaves it open. */
struct launch_shape {
    int64_t cluster; /* CTAs a cluster, ... */
    int64_t rows;    /* ... in so many rows of tiles */
    int64_t groups;  /* clusters that share K */
    int64_t stages;  /* slots of the ring */
};

/* The pipeline that was run last, for those who predict the same again with other constants: it is not
 * run again if it is the same. Zeros: none was. */
struct timing_memory {
    struct ptxmm_model model;
    double cycles;
};

/* Fills the predictions of a usable candidate, launched like this: seconds, waves, tiles, ctas,
 * tensor_busy, compute_seconds, memory_seconds. Kernels that are neither split nor multicast have their
 * own cluster, 1 and 1, all but split ones their own stages; the rest is chosen in launch.c. The problem must not be empty.
 * `remembered` may be NULL. */
void timing_predict_as(const struct timing *timing, const struct ptxmm_device *device,
                       const struct ptxmm_problem *problem, const struct launch_shape *shape,
                       struct timing_memory *remembered, struct ptxmm_candidate *candidate);

/* SMs that the problem may use, and clusters of so many CTAs that run on them at a time. */
int64_t timing_sms(const struct ptxmm_device *device, const struct ptxmm_problem *problem);
int64_t timing_clusters(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                        int64_t cluster);

/* Bytes of a slot of a CTA's load ring: a K-slice of A and one of B. */
double timing_slot_bytes(const struct ptxmm_kernel_info *kernel);

/* The dynamic shared memory of a CTA whose ring has so many slots. */
int64_t timing_shared_bytes(const struct ptxmm_kernel_info *kernel, int64_t stages);

/* Tiles of an operand's rows in whole clusters: a multiple of this many. */
int64_t timing_tiles(int64_t rows, uint32_t tile, int64_t multiple);

/* All constants, and those that a kernel is judged by; NULL: there are none. */
const struct timing *timing_table(size_t *count);
const struct timing *timing_of(const struct ptxmm_kernel_info *kernel);

/* Rows of tiles that a kernel walks column by column together, so that the tiles in work at one
 * time share as much of A and B as they can. */
uint32_t timing_raster(const struct ptxmm_kernel_info *kernel, int64_t tiles_m, int64_t ctas);

/* Are there constants for kernels made for this architecture? */
int timing_knows(int arch);

#endif
