/* timing.c -- how long a kernel will take. docs/model.md tells the reasoning; the numbers are here
 * and nowhere else. */
#include "timing.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels.h"
#include "problem.h"

/* Cycles are of the SM clock. Sources:
 *
 *   [peak]   a wgmma m64nNk(32 bytes) takes max(N/2, 16 + N/4) cycles, whatever the type; read with
 *            clock() on an H200.
 *   [fit]    a fit to timings of a 128x256x64 bf16 kernel on an H200: about 6 cycles per slice,
 *            1100 per tile, 4000 per CTA and launch, of which the first load is one part here.
 *   [tma]    arm to observed completion of 32 KB from L2 takes 620 cycles alone, about 1000 with
 *            all SMs loading.
 *   [power]  the SM clock under load against the highest: 830 TFLOP/s at 8192^3 with 95.6 % of the
 *            cycles used is 1.61 of 1.98 GHz. Instructions of 128 columns need about 2 % more power
 *            than those of 256. What is bound by memory keeps nearly the highest clock.
 *   [dram]   a device-to-device copy runs at 4265 of 4800 GB/s.
 *   [sm]     16 CTAs of 64x64 tiles (256 x 256 x 65536) load 90 bytes a cycle each, 64 of them (512 x
 *            512 x 8192) 80; with all SMs loading between 58 and 70 were seen.
 *   [fabric] large products with tiles of 128x128 move about 14 TB/s from the L2 to the SMs; rows
 *            that start between sectors of 32 bytes (1000^3: 6.4 TB/s, whatever the kernel), and K in
 *            many parts (256 x 256 x 65536 by split kernels), not half of that; those that start
 *            between lines of 128 bytes a sixth (1000 x 1000 x 4000) to a third less (6064 x 7608 x 1120
 *            and 5272 x 4992 x 912 by 128x128): 0.74 is where selection loses least.
 *   [rows]   split kernels, few CTAs with long rows each, are slowed by rows between sectors before the
 *            fabric is: 8 x 2272 x 10504 takes 22.7 us on 36 SMs, 17 were predicted. At 0.6
 *            selection loses 0.1 to 0.3 % less than at 1, on 71 shapes and on 100 others; 2026-12-01.
 *            With fp8 not measured.
 *   [split]  fits like [bf16], and stamps of %globaltimer in the kernel: the part goes through shared
 *            memory as f32.
 *   [bf16]   of the first row all but [peak], [tma] and [power]'s light clock: one fit by ptxmm-bench
 *            --calibrate to 742 times, of 14 kernels on 53 shapes, 2026-11-30, less 2 us of events.
 *   [meet]   multicast kernels: set by hand to 170 times of theirs, on 9 shapes launched in many ways,
 *            2026-11-30.
 *   [ramp]   what small, memory-bound products take beyond their bytes.
 *   [fp8]    of the fp8 row likewise: a fit to the times of all kernels on 43 shapes, 2026-11-30.
 *   [b200]   SemiAnalysis's published microbenchmarks of a B200: a tcgen05.mma K-step takes
 *            max(N/2, 32 + N/4) cycles in one CTA with 128 rows, max(N/2, 32 + N/8) in a pair with
 *            256; issue to commit observed 136 + N/2. Copies reach 7.3 of 8 TB/s.
 *   [guess]  an estimate.
 *
 * Of arch 100 everything but [b200] is a guess: nothing of it was measured by us. The epilogue
 * moves a thread's share of the tile through shared memory; [fit] gives one point (256 bytes a
 * thread), the split in a fixed and a proportional part is a guess. */
static const struct timing timings[] = {
    { .arch = 90,
      .bits = 16,
      .slice_overhead = 6,
      .issue = 40,
      .second = 23,
      .load = 1000,
      .epilogue = 710,
      .epilogue_per_byte = 8.3,
      .sm_bytes = 67.5,
      .sm_alone = 0.39,
      .fabric = 15.2e12,
      .scatter = 0.3,
      .off_sector = 0.42,
      .off_line = 0.74,
      .split_off_sector = 0.6,
      .scattered = 0.42,
      .ramp = 1.6e-6,
      .split_start = 590,
      .split_element = 0.3,
      .exchange = 1160,
      .group = 1720,
      .meet = 2200,
      .meet_element = 0.4,
      .multicast_start = 1300,
      .multicast_slice = 26,
      .next_cta = 2500,
      .pair_in_row = 0.15,
      .pair_in_column = 0.3,
      .larger_cluster = 0.05,
      .outside = 6.2,
      .launch = 4600,
      .light_clock = 0.97,
      .busy_clock = 0.836,
      .narrow_clock = 0.02 / 128,
      .dram = 0.88,
      .l2 = 0.75 },
    { .arch = 90,
      .bits = 8,
      .slice_overhead = 6,
      .issue = 40,
      .second = 26,
      .load = 1000,
      .epilogue = 590,
      .epilogue_per_byte = 8.8,
      .sm_bytes = 84.8,
      .sm_alone = 0.25,
      .fabric = 17.1e12,
      .scatter = 0.25,
      .off_sector = 0.42,
      .off_line = 0.74,
      .split_off_sector = 0.6,
      .scattered = 0.42,
      .ramp = 1.02e-6,
      .split_start = 820,
      .split_element = 0.31,
      .exchange = 1110,
      .group = 4170,
      .meet = 2200,
      .meet_element = 0.4,
      .multicast_start = 1300,
      .multicast_slice = 26,
      .next_cta = 2500,
      .pair_in_row = 0.15,
      .pair_in_column = 0.3,
      .larger_cluster = 0.05,
      .promote = 110,
      .split_promote = 190,
      .outside = 6,
      .launch = 5040,
      .light_clock = 0.96,
      .busy_clock = 0.83,
      .narrow_clock = 0.03 / 128,
      .dram = 0.877,
      .l2 = 0.75 },
    { .arch = 100,
      .bits = 16,
      .slice_overhead = 2,
      .issue = 40,
      .second = 0,
      .load = 1100,
      .epilogue = 400,
      .epilogue_per_byte = 3,
      .sm_bytes = 64,
      .sm_alone = 0,
      .fabric = 40e12,
      .scatter = 0,
      .off_sector = 0.42,
      .off_line = 0.74,
      .split_off_sector = 1,
      .scattered = 0.42,
      .ramp = 1.5e-6,
      .split_start = 0,
      .split_element = 0,
      .exchange = 0,
      .group = 0,
      .meet = 0,
      .meet_element = 0,
      .multicast_start = 0,
      .multicast_slice = 0,
      .next_cta = 0,
      .pair_in_row = 0,
      .pair_in_column = 0,
      .larger_cluster = 0,
      .launch = 4000,
      .light_clock = 0.9,
      .busy_clock = 0.9,
      .narrow_clock = 0,
      .dram = 0.91,
      .l2 = 0.75 },
};

/* Bits of an element of A; a class of types has those of its members. */
static int element_bits(enum ptxmm_type type)
{
    return problem_type_bits(type == PTXMM_BF16_OR_F16 ? PTXMM_F16 : type);
}

const struct timing *timing_table(size_t *count)
{
    *count = sizeof timings / sizeof timings[0];
    return timings;
}

int timing_knows(int arch)
{
    for (size_t i = 0; i < sizeof timings / sizeof timings[0]; i++)
        if (timings[i].arch == arch)
            return 1;
    return 0;
}

const struct timing *timing_of(const struct ptxmm_kernel_info *kernel)
{
    for (size_t i = 0; i < sizeof timings / sizeof timings[0]; i++)
        if (timings[i].arch == kernels_target_arch(kernel->target) &&
            timings[i].bits == element_bits(kernel->a))
            return &timings[i];
    return NULL;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t timing_tiles(int64_t rows, uint32_t tile, int64_t multiple)
{
    return ceil_div(ceil_div(rows, tile), multiple) * multiple;
}

static double lesser(double a, double b) // libm is not linked: no fmin
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Parts of the time that tensor cores are busy, between which the clock falls. [power] */
#define LIGHT_LOAD 0.55
#define FULL_LOAD 0.85

/* Share of B that split kernels with a thin tile of A bring from memory again for each further row of
 * tiles: they tell the L2 to let go of it first. [split] */
#define FETCHED_AGAIN 0.2

/* Bytes of a cache line, and of its parts: rows that do not start on one touch one more. */
enum { LINE = 128, SECTOR = 32 };

/* Bytes of a slice's operands that the tensor core takes per step of its K: 32 for every type. */
enum { STEP_BYTES = 32 };

/* Rows of A that an SM multiplies in one step: of a wgmma, or of a tcgen05.mma. */
static int step_rows(const struct ptxmm_kernel_info *kernel)
{
    return kernel->algorithm == PTXMM_ONE_CTA || kernel->algorithm == PTXMM_CTA_PAIR ? 128 : 64;
}

/* Split kernels whose tile is thin put the rows of B on the instruction's long side, see
 * ptx/sm90/split.ptx. */
static int is_swapped(const struct ptxmm_kernel_info *kernel)
{
    return kernel->algorithm == PTXMM_SPLIT &&
           (kernel->tile_m < kernel->tile_n || kernel->tile_n == 64);
}

/* Tensor-core cycles of one K-slice of one tile, on each SM that shares it. [peak] [b200] */
static double slice_cycles(const struct ptxmm_kernel_info *kernel)
{
    // The step is bound by the products or by reading A and this SM's share of B from shared
    // memory, 128 bytes a cycle.
    int swapped = is_swapped(kernel);
    double n = swapped ? kernel->tile_m : kernel->tile_n;
    double m = swapped ? kernel->tile_n : kernel->tile_m, rows = step_rows(kernel);
    double step = larger(n / 2, (rows + n / kernel->cluster) * STEP_BYTES / 128);
    double steps = kernel->tile_k * element_bits(kernel->a) / 8.0 / STEP_BYTES;
    return m / kernel->cluster / rows * steps * step;
}

/* Bytes of one slot of the ring. */
double timing_slot_bytes(const struct ptxmm_kernel_info *kernel)
{
    double rows = (double)(kernel->tile_m + kernel->tile_n) / kernel->cluster;
    return rows * kernel->tile_k * element_bits(kernel->a) / 8.0;
}

int64_t timing_shared_bytes(const struct ptxmm_kernel_info *kernel, int64_t stages)
{
    return kernel->shared_bytes - (kernel->stages - stages) * (int64_t)timing_slot_bytes(kernel);
}

/* Floating-point operations per SM and cycle: 2 * rows * N * (32 bytes of K) in N/2 cycles. [peak]
 * [b200] */
static double peak_flops(const struct ptxmm_kernel_info *kernel)
{
    return 4.0 * step_rows(kernel) * STEP_BYTES * 8 / element_bits(kernel->a);
}

/* Bytes of a slot that a CTA of a multicast kernel loads itself: its share of the rows of A, which the
 * CTAs in its row of the cluster have in common, and of B. */
static double multicast_bytes(const struct ptxmm_kernel_info *kernel,
                              const struct launch_shape *shape)
{
    double rows = (double)(kernel->tile_m * shape->rows) / (double)shape->cluster +
                  (double)kernel->tile_n / (double)shape->rows;
    return rows * kernel->tile_k * element_bits(kernel->a) / 8.0;
}

/* Do all consumers work on one tile, and then store it? */
static int has_one_tile(const struct ptxmm_kernel_info *kernel)
{
    return kernel->algorithm == PTXMM_COOPERATIVE || kernel->algorithm == PTXMM_SPLIT ||
           kernel->algorithm == PTXMM_MULTICAST;
}

/* Warpgroups of a CTA that store one tile together. */
static double storing_warpgroups(const struct ptxmm_kernel_info *kernel)
{
    return has_one_tile(kernel) ? kernel->threads / 128.0 - 1 : 1;
}

/* The part of the machine's time that is the same for every CTA: those with the most tiles decide.
 * *last = the end of it, in which nothing is loaded any more. */
static double pipeline_cycles(const struct timing *timing, const struct ptxmm_kernel_info *kernel,
                              int64_t tiles, int64_t slices, double outside, double rows_start,
                              const struct launch_shape *shape, double idle,
                              struct timing_memory *remembered, double *last)
{
    int64_t ranks = kernel->algorithm == PTXMM_SPLIT ? shape->cluster : 1; // that add up a tile's parts
    int64_t groups = shape->groups;
    // What an SM loads a cycle is more where others have nothing to load.
    double rate = timing->sm_bytes * (1 + timing->sm_alone * idle) * rows_start;
    if (kernel->algorithm == PTXMM_MULTICAST && shape->cluster > 1)
        rate *= 1 - (1 - idle) * (shape->cluster > 2 ? timing->larger_cluster
                                  : shape->rows == 1 ? timing->pair_in_row
                                                     : timing->pair_in_column);
    double thread_elements =
        kernel->tile_m / kernel->cluster * kernel->tile_n / (128 * storing_warpgroups(kernel));
    struct ptxmm_model model = {
        .tiles = tiles,
        .slices = slices,
        .stages = (int)shape->stages,
        .accumulators = has_one_tile(kernel) ? 1 : 2,
        .issue = larger(timing->issue, timing_slot_bytes(kernel) / rate) +
                 timing->second * (storing_warpgroups(kernel) - 1) +
                 timing->outside * outside,
        .load = timing->load,
        .mma = slice_cycles(kernel) + timing->slice_overhead +
               (kernel->algorithm == PTXMM_MULTICAST ? timing->multicast_slice : 0) +
               (!kernel->promotion                       ? 0
                : kernel->algorithm == PTXMM_SPLIT ? timing->split_promote
                                                   : timing->promote),
        .epilogue = timing->epilogue +
                    timing->epilogue_per_byte * thread_elements * element_bits(kernel->d) / 8 +
                    (kernel->algorithm == PTXMM_SPLIT
                         ? timing->split_element * kernel->tile_m * kernel->tile_n *
                               (ranks > 1 ? 2 : 1)
                         : 0) +
                    (ranks > 1 ? timing->exchange : 0) +
                    (groups == 1 ? 0
                     : kernel->algorithm == PTXMM_SPLIT
                         ? timing->group * (double)groups
                         : timing->meet + timing->meet_element * kernel->tile_m * kernel->tile_n),
    };
    *last = model.epilogue;
    if (remembered && !memcmp(&remembered->model, &model, sizeof model))
        return remembered->cycles;
    struct ptxmm_model_result result;
    enum ptxmm_status status = ptxmm_model_run(&model, &result, NULL);
    assert(status == PTXMM_OK);
    (void)status;
    if (remembered)
        *remembered = (struct timing_memory){ model, result.time };
    return result.time;
}

uint32_t timing_raster(const struct ptxmm_kernel_info *kernel, int64_t tiles_m, int64_t ctas)
{
    // R rows by ctas / R columns of tiles read R * tile_m + ctas / R * tile_n lines of K: least at
    // R^2 = ctas * tile_n / tile_m.
    uint32_t raster = 1;
    while (4 * (int64_t)raster * raster * kernel->tile_m <=
           2 * ctas * kernel->tile_n) // nearest power of two
        raster *= 2;
    return (uint32_t)smaller(raster, tiles_m);
}

/* Bytes of all matrices of an operand. */
static double operand_bytes(const struct ptxmm_problem *problem, char which)
{
    struct extent extent = problem_extent(problem, which);
    return (double)extent.inner * (double)extent.outer * extent.type_bits / 8 *
           (extent.apart ? (double)extent.matrices : 1);
}

/* Tiles that are in work at one time, as rows and columns. */
struct work {
    int64_t rows, columns;
};

static struct work work_at_a_time(const struct ptxmm_problem *problem,
                                  const struct ptxmm_kernel_info *kernel,
                                  const struct launch_shape *shape, int64_t clusters)
{
    int64_t tiles_m = ceil_div(problem->m, kernel->tile_m),
            tiles_n = ceil_div(problem->n, kernel->tile_n);
    struct work work;
    if (kernel->algorithm == PTXMM_MULTICAST) {
        // Clusters follow one another along the shorter side of D.
        int64_t columns = shape->cluster / shape->rows;
        int64_t down = ceil_div(tiles_m, shape->rows), across = ceil_div(tiles_n, columns);
        int64_t side = smaller(smaller(down, across), clusters);
        int64_t other = ceil_div(clusters, side);
        work.rows = smaller((down <= across ? side : other) * shape->rows, tiles_m);
        work.columns = smaller((down <= across ? other : side) * columns, tiles_n);
    } else {
        work.rows = timing_raster(kernel, tiles_m, clusters);
        work.columns = smaller(ceil_div(clusters, work.rows), tiles_n);
    }
    return work;
}

/* Bytes that must come from memory: A and B once if the L2 holds on to one product's, else once for
 * every wave of tiles. */
static double dram_bytes(const struct timing *timing, const struct ptxmm_device *device,
                         const struct ptxmm_problem *problem,
                         const struct ptxmm_kernel_info *kernel, const struct work *work,
                         double waves, double inputs, double outputs)
{
    double k_bytes = (double)problem->k * element_bits(kernel->a) / 8;
    double of_one = ((double)problem->m + (double)problem->n) * k_bytes;
    if (of_one <= timing->l2 * (double)device->l2_bytes)
        return inputs + outputs;
    double wave =
        ((double)work->rows * kernel->tile_m + (double)work->columns * kernel->tile_n) * k_bytes;
    return larger(inputs, wave * waves) + outputs;
}

/* Two bounds that overlap, but not perfectly: the larger, and up to a twelfth more where they are
 * close. */
static double together(double a, double b)
{
    double most = larger(a, b), least = a + b - most, share = least / most;
    return most * (1 + share * share * share * share / 12);
}

int64_t timing_sms(const struct ptxmm_device *device, const struct ptxmm_problem *problem)
{
    int budget = problem->prefer.sm_budget;
    return budget > 0 ? smaller(budget, device->sm_count) : device->sm_count;
}

/* One CTA an SM. The parts of the chip from which a cluster may be made do not all have a multiple of 4
 * SMs: an H200 runs 66 clusters of 2, but 30 of 4 and 15 of 8 on 132 SMs
 * (cuOccupancyMaxActiveClusters). */
int64_t timing_clusters(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                        int64_t cluster)
{
    int64_t sms = timing_sms(device, problem);
    int64_t clusters = cluster <= 2 ? sms / cluster : sms * 10 / 11 / cluster;
    return clusters > 0 ? clusters : 1;
}

/* Rows of a slice of A or B that lie outside of the matrix, on average: the last tile is moved back to
 * end with the matrix, unless it is the only one, or C is added. */
static double rows_outside(int64_t rows, uint32_t tile, int moves)
{
    int64_t tiles = ceil_div(rows, tile);
    return tiles && (tiles == 1 || !moves) ? (double)(tiles * tile - rows) / (double)tiles : 0;
}

/* The share of the highest clock, with tensor cores busy for this part of the time: power limits it
 * only where they are. */
static double clock_share(const struct timing *timing, const struct ptxmm_kernel_info *kernel,
                          double busy)
{
    double full = timing->busy_clock - timing->narrow_clock * (256 - (double)kernel->tile_n);
    double load = (busy - LIGHT_LOAD) / (FULL_LOAD - LIGHT_LOAD);
    load = load < 0 ? 0 : load > 1 ? 1 : load;
    return timing->light_clock + (full - timing->light_clock) * load;
}

/* What is left of a rate by where A's and B's rows start: `off_sector` if any are between sectors, `off_line`
 * between lines. Leading dimensions may be as large as can be. */
static double row_share(const struct ptxmm_kernel_info *kernel, const struct ptxmm_problem *problem,
                        double off_sector, double off_line)
{
    double least = 1;
    for (int i = 0; i < 2; i++) {
        int64_t ld = problem_extent(problem, i ? 'b' : 'a').ld % (8 * LINE);
        int64_t bytes = ld * element_bits(kernel->a) / 8;
        least = lesser(least, bytes % SECTOR ? off_sector : bytes % LINE ? off_line : 1);
    }
    return least;
}

void timing_predict_as(const struct timing *timing, const struct ptxmm_device *device,
                       const struct ptxmm_problem *problem, const struct launch_shape *shape,
                       struct timing_memory *remembered, struct ptxmm_candidate *candidate)
{
    const struct ptxmm_kernel_info *kernel = candidate->kernel;
    int is_split = kernel->algorithm == PTXMM_SPLIT;
    int is_multicast = kernel->algorithm == PTXMM_MULTICAST;
    int64_t cluster = shape->cluster, groups = shape->groups;
    int64_t columns = is_multicast ? cluster / shape->rows : 1;
    int64_t slices = ceil_div(problem->k, kernel->tile_k);
    int64_t batch = problem_batch(problem);
    int64_t tiles = batch * timing_tiles(problem->m, kernel->tile_m, shape->rows) *
                    timing_tiles(problem->n, kernel->tile_n, columns);
    candidate->tiles = tiles;
    candidate->cluster = cluster;
    candidate->cluster_rows = shape->rows;
    candidate->groups = groups;
    candidate->stages = shape->stages;
    candidate->shared_bytes = timing_shared_bytes(kernel, shape->stages);
    // Counters, then the sums of all groups of all tiles in f32.
    candidate->workspace_bytes =
        groups > 1 ? PTXMM_WORKSPACE_COUNTERS + tiles * 4 * groups * kernel->tile_m * kernel->tile_n
                   : 0;

    // As many clusters as fit take ceil(tiles / clusters) rounds; no more clusters than fill those
    // rounds evenly. Idle SMs leave power and bandwidth to the others: 128 CTAs beat 132 by 0.5 to
    // 1 % where the tiles are a power of two.
    int64_t items = is_multicast ? tiles / cluster * groups : tiles * groups;
    int64_t clusters = timing_clusters(device, problem, cluster);
    int64_t rounds = ceil_div(items, clusters);
    clusters = ceil_div(items, rounds);
    candidate->waves = (double)items / (double)clusters;
    // With launch control the grid has a cluster for every tile, and the hardware runs as many at a
    // time as fit; in multicast kernels a CTA has one tile.
    candidate->ctas = kernel->schedule == PTXMM_SCHEDULE_LAUNCH_CONTROL ? cluster * tiles
                      : is_multicast                                    ? cluster * items
                                                                        : cluster * clusters;

    double m = (double)problem->m, n = (double)problem->n, k = (double)problem->k;
    double inputs = operand_bytes(problem, 'a') + operand_bytes(problem, 'b');
    double again = is_swapped(kernel) ? FETCHED_AGAIN * operand_bytes(problem, 'b') *
                                            (double)(ceil_div(problem->m, kernel->tile_m) - 1)
                                      : 0;
    double outputs = operand_bytes(problem, 'c') + operand_bytes(problem, 'd');
    double highest = 1000.0 * device->clock_khz,
           bandwidth = (double)device->memory_bytes_per_second;

    int64_t part = ceil_div(slices, is_split ? cluster * groups : groups);
    int moves = kernels_target_arch(kernel->target) == 90 && problem->c.type == PTXMM_TYPE_NONE;
    double outside =
        rows_outside(problem->m, kernel->tile_m, moves) + rows_outside(problem->n, kernel->tile_n, moves);
    double idle = 1 - (double)(clusters * cluster) / device->sm_count, last;
    double of_sm = is_split ? row_share(kernel, problem, timing->split_off_sector, 1) : 1;
    // A CTA of a multicast kernel has one tile: nothing of the next one is loaded meanwhile.
    double cycles = pipeline_cycles(timing, kernel, is_multicast ? 1 : rounds, part, outside, of_sm,
                                    shape, idle, remembered, &last);
    if (is_multicast)
        cycles = (double)rounds * cycles + (double)(rounds - 1) * timing->next_cta;
    double busy = (double)(rounds * part) * slice_cycles(kernel) / cycles *
                  (double)(clusters * cluster) / device->sm_count;
    double clock = highest * clock_share(timing, kernel, busy);
    double compute = (cycles - last) / clock;
    struct work work = work_at_a_time(problem, kernel, shape, clusters);
    double memory = dram_bytes(timing, device, problem, kernel, &work, candidate->waves,
                               inputs + again, outputs) /
                    (timing->dram * bandwidth);
    double loaded = (double)tiles * (double)cluster * (double)slices * timing_slot_bytes(kernel);
    if (is_split)
        loaded /= (double)cluster;
    if (is_multicast)
        loaded = (double)tiles * (double)slices * multicast_bytes(kernel, shape);
    double rows_start = row_share(kernel, problem, timing->off_sector, timing->off_line);
    // CTAs that load the same lines at the same time are served together; parts of K have nothing in
    // common.
    double parts = (double)(is_split ? cluster * groups : groups);
    double shared = 1 / (1 + timing->scatter * (parts - 1));
    double fabric = loaded / (timing->fabric * larger(timing->scattered, shared * rows_start));
    double start = timing->launch + (is_split       ? timing->split_start
                                     : is_multicast ? timing->multicast_start
                                                    : 0);
    candidate->seconds =
        (start + last) / clock + together(compute, together(memory + timing->ramp, fabric));
    int64_t sharing = is_split || is_multicast ? 1 : cluster; // SMs that multiply a slice together
    candidate->tensor_busy = (double)tiles * (double)sharing * (double)slices *
                             slice_cycles(kernel) / (device->sm_count * candidate->seconds * clock);
    candidate->compute_seconds = 2 * m * n * k * (double)batch /
                                 (peak_flops(kernel) * device->sm_count * highest);
    candidate->memory_seconds = (inputs + outputs) / bandwidth;
}
