// Occupancy: how many CTAs and clusters of a kernel are resident at once.
#include "driver.h"

#include "program.h"

unsigned occupancy_blocks(const struct func *f, unsigned threads, size_t smem)
{
    if (threads == 0 || threads > 1024 || smem > func_smem_most())
        return 0;
    return machine_occupancy(&driver.config.machine, f->image->program, f->function, threads,
                             (unsigned)smem);
}

// Clusters that fit a 132-SM H200 at once, by cluster size, for 1, 2, 4 and 8 CTAs per
// multiprocessor. GPCs differ in their numbers of multiprocessors, so this is not a plain division.
// Read from the device, except for the row of 4 at sizes that are no power of two. More than 8 CTAs
// per multiprocessor are not used for clusters; other numbers add up (5 is 4 and 1).
static const uint16_t h200[4][CLUSTER_CTAS + 1] = {
    {0, 132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7},
    {0, 264, 132, 79, 62, 47, 39, 32, 30, 23, 21, 16, 16, 14, 14, 14, 14},
    {0, 528, 264, 163, 124, 96, 81, 69, 62, 51, 44, 40, 37, 33, 32, 29, 28},
    {0, 1056, 528, 327, 248, 193, 163, 139, 124, 102, 88, 81, 74, 67, 65, 58, 58},
};

unsigned occupancy_clusters(const struct context *ctx, const struct func *f, unsigned threads,
                            size_t smem, unsigned size)
{
    unsigned per_sm = occupancy_blocks(f, threads, smem);
    const unsigned sms = ctx->device->sms;
    if (size == 0 || size > CLUSTER_CTAS)
        return 0;
    if (per_sm > 8)
        per_sm = 8;
    if (sms != 132) // other parts: groups of 16 multiprocessors, the last one what is left
        return sms / 16 * (16 * per_sm / size) + sms % 16 * per_sm / size;
    unsigned n = 0;
    for (unsigned bit = 0; bit < 4; bit++)
        if (per_sm >> bit & 1)
            n += h200[bit][size];
    return n;
}

// ---- entry points -------------------------------------------------------------------------------

static CUresult blocks(struct context *ctx, int *count, CUfunction handle, int threads, size_t smem,
                       unsigned flags)
{
    CUresult result;
    const struct func *f = func_find(ctx, handle, &result);
    if (!f)
        return result;
    if (!count || threads < 1 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)occupancy_blocks(f, (unsigned)threads, smem);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction f, int threads,
                                                     size_t smem)
{
    IN_HEALTHY(blocks(ctx, count, f, threads, smem, 0));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, CUfunction f, int threads,
                                                              size_t smem, unsigned int flags)
{
    IN_HEALTHY(blocks(ctx, count, f, threads, smem, flags));
}

// The largest CTA among those with the most threads resident.
static CUresult block_size(struct context *ctx, int *grid, int *block, CUfunction handle,
                           CUoccupancyB2DSize dynamic, size_t smem, int limit, unsigned flags)
{
    CUresult result;
    const struct func *f = func_find(ctx, handle, &result);
    if (!f)
        return result;
    if (!grid || !block || limit < 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned most = func_threads_most(f), best = 0, best_blocks = 0;
    if (limit && (unsigned)limit < most)
        most = (unsigned)limit;
    for (unsigned threads = (most + 31) / 32 * 32; threads >= 32; threads -= 32) {
        const unsigned n = threads < most ? threads : most;
        const unsigned resident = occupancy_blocks(f, n, dynamic ? dynamic((int)n) : smem);
        if (resident * n > best_blocks * best) {
            best = n;
            best_blocks = resident;
        }
    }
    if (best == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *block = (int)best;
    *grid = (int)(best_blocks * ctx->device->sms);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f,
                                          CUoccupancyB2DSize dynamic, size_t smem, int limit)
{
    IN_HEALTHY(block_size(ctx, grid, block, f, dynamic, smem, limit, 0));
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
                                                   CUoccupancyB2DSize dynamic, size_t smem,
                                                   int limit, unsigned int flags)
{
    IN_HEALTHY(block_size(ctx, grid, block, f, dynamic, smem, limit, flags));
}

static CUresult available_smem(struct context *ctx, size_t *bytes, CUfunction handle, int count,
                               int threads)
{
    CUresult result;
    const struct func *f = func_find(ctx, handle, &result);
    if (!f)
        return result;
    if (!bytes || count < 1 || threads < 1)
        return CUDA_ERROR_INVALID_VALUE;
    struct machine_limits limits;
    machine_limits(&driver.config.machine, &limits);
    const unsigned fixed = f->function->static_smem; // the driver leaves out what each CTA reserves
    const unsigned share =
        limits.smem / (unsigned)count / limits.smem_granularity * limits.smem_granularity;
    size_t room = share > fixed ? share - fixed : 0;
    if (room + f->function->static_smem > limits.smem_cta)
        room = limits.smem_cta - f->function->static_smem;
    if (occupancy_blocks(f, (unsigned)threads, 0) < (unsigned)count)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = room;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction f, int count,
                                                 int threads)
{
    IN_HEALTHY(available_smem(ctx, bytes, f, count, threads));
}

// The cluster a configuration asks for, its size in *size; 0 without one.
static CUresult cluster_of(const CUlaunchConfig *c, const struct func *f, unsigned *size)
{
    const unsigned *k = f->cluster;
    unsigned v[3] = {k[0], k[1], k[2]};
    if (c->numAttrs && !c->attrs)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++)
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            v[0] = c->attrs[i].value.clusterDim.x;
            v[1] = c->attrs[i].value.clusterDim.y;
            v[2] = c->attrs[i].value.clusterDim.z;
            if (k[0] && (v[0] != k[0] || v[1] != k[1] || v[2] != k[2]))
                return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        }
    *size = 0;
    if (v[0] == 0 && v[1] == 0 && v[2] == 0)
        return CUDA_SUCCESS;
    if (v[0] == 0 || v[1] == 0 || v[2] == 0 || c->gridDimX % v[0] || c->gridDimY % v[1] ||
        c->gridDimZ % v[2])
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    const uint64_t volume = (uint64_t)v[0] * v[1] * v[2];
    if (volume > (f->nonportable_cluster ? CLUSTER_CTAS : 8u))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    *size = (unsigned)volume;
    return CUDA_SUCCESS;
}

static unsigned threads_of(const CUlaunchConfig *c)
{
    const uint64_t n = (uint64_t)c->blockDimX * c->blockDimY;
    return n > 1024 || n * c->blockDimZ > 1024 ? 0 : (unsigned)(n * c->blockDimZ);
}

static CUresult active_clusters(struct context *ctx, int *count, CUfunction handle,
                                const CUlaunchConfig *c)
{
    CUresult result;
    unsigned size;
    const struct func *f = func_find(ctx, handle, &result);
    if (!f)
        return result;
    if (!count || !c || threads_of(c) == 0 || (int64_t)c->sharedMemBytes > f->max_dynamic_smem)
        return CUDA_ERROR_INVALID_VALUE;
    result = cluster_of(c, f, &size);
    if (result == CUDA_SUCCESS)
        *count = (int)occupancy_clusters(ctx, f, threads_of(c), c->sharedMemBytes, size);
    return result;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction f, const CUlaunchConfig *config)
{
    IN_HEALTHY(active_clusters(ctx, count, f, config));
}

static CUresult cluster_size(struct context *ctx, int *size, CUfunction handle,
                             const CUlaunchConfig *c)
{
    CUresult result;
    const struct func *f = func_find(ctx, handle, &result);
    if (!f)
        return result;
    if (!size || !c || threads_of(c) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned n;
    result = cluster_of(c, f, &n);
    if (result != CUDA_SUCCESS)
        return result;
    n = f->nonportable_cluster ? CLUSTER_CTAS : 8;
    if (f->function->maxclusterrank && f->function->maxclusterrank < n)
        n = f->function->maxclusterrank;
    while (n > 1 && occupancy_clusters(ctx, f, threads_of(c), c->sharedMemBytes, n) == 0)
        n--;
    *size = (int)n;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f, const CUlaunchConfig *config)
{
    IN_HEALTHY(cluster_size(ctx, size, f, config));
}
