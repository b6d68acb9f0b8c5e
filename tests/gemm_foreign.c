/* gemm_foreign.c -- launches a kernel by what ptxmm_abi.h says and nothing else, as a foreign runtime would. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "gemm_case.h"

const char *foreign_name(enum foreign_mistake mistake)
{
    static const char *const names[FOREIGN_MISTAKES] = {
        [FOREIGN_NONE] = "none",
        [FOREIGN_ABI_VERSION] = "abi-version",
        [FOREIGN_SHARED_MEMORY] = "shared-memory",
        [FOREIGN_THREADS] = "threads",
        [FOREIGN_RASTER] = "raster",
        [FOREIGN_CLUSTER] = "cluster",
        [FOREIGN_TALL] = "height",
        [FOREIGN_TILES_M] = "tiles-m",
        [FOREIGN_TILES_N] = "tiles-n",
        [FOREIGN_GRID] = "grid",
    };
    return (unsigned)mistake < FOREIGN_MISTAKES ? names[mistake] : "?";
}

bool foreign_can(enum foreign_mistake mistake, const struct ptxmm_kernel_info *kernel)
{
    return mistake < FOREIGN_RASTER || kernel->algorithm == PTXMM_MULTICAST;
}

static bool failed(struct gemm_run *run, const char *text)
{
    snprintf(run->error, sizeof run->error, "%s", text);
    return false;
}

/* The kernel from its cubin or, where that has no code for the device (an emulator), from its PTX. */
static bool load(struct rig *rig, struct gemm_run *run, CUlibrary *library)
{
    struct gpu *gpu = &rig->gpu;
    const struct ptxmm_kernel_info *kernel = run->c->kernel;
    struct ptxmm_image image;
    struct ptxmm_error error;
    size_t index = 0;
    while (ptxmm_kernel(index) != kernel) index++;
    CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (ptxmm_kernel_image(index, &image, &error) == PTXMM_OK && image.size)
        result = gpu->LibraryLoadData(library, image.bytes, NULL, NULL, 0, NULL, NULL, 0);
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%s.ptx", rig->ptx_dir, kernel->name);
        char *text = text_read(path, NULL);
        if (!text) {
            snprintf(run->error, sizeof run->error, "cannot read %s", path);
            return false;
        }
        result = gpu->LibraryLoadData(library, text, NULL, NULL, 0, NULL, NULL, 0);
        free(text);
    }
    return gpu_ok(gpu, result, "cuLibraryLoadData") || failed(run, gpu->error);
}

/* One row of the header's table of tensor maps. */
static bool encode(struct gpu *gpu, struct ptxmm_tensor_map *map, const struct matrix *x, CUdeviceptr address,
                   uint64_t inner, uint32_t box_rows, uint64_t batch, int64_t apart)
{
    const CUtensorMapDataType type = x->type == PTXMM_BF16    ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                     : x->type == PTXMM_F16   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                     : type_is_fp8(x->type)   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                                              : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    const cuuint64_t dims[3] = { inner, (cuuint64_t)x->rows, batch };
    const cuuint64_t strides[2] = { (cuuint64_t)x->ld * x->size, (cuuint64_t)apart * x->size };
    const cuuint32_t box[3] = { (cuuint32_t)(128 / x->size), box_rows, 1 }, steps[3] = { 1, 1, 1 };
    CUtensorMap made;
    const CUresult result = gpu->TensorMapEncodeTiled(
        &made, type, 3, (void *)(uintptr_t)address, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    memcpy(map, &made, sizeof *map);
    return gpu_ok(gpu, result, "cuTensorMapEncodeTiled");
}

static uint32_t tiles(int64_t size, uint32_t tile)
{
    return (uint32_t)((size + tile - 1) / tile);
}

/* How a launch divides tiles and K. */
struct shape {
    uint32_t cluster, rows, groups, tiles_m, tiles_n;
    bool multicast, grouped; /* `groups` is in the argument block */
};

static struct shape shape_of(const struct ptxmm_kernel_info *kernel, int64_t m, int64_t n,
                             const struct foreign_split *split)
{
    struct shape s = { .cluster = split ? split->cluster : kernel->cluster, .rows = split && split->rows ? split->rows : 1,
                       .groups = split ? split->groups : 1, .tiles_m = tiles(m, kernel->tile_m),
                       .tiles_n = tiles(n, kernel->tile_n), .multicast = kernel->algorithm == PTXMM_MULTICAST };
    s.grouped = s.multicast || kernel->algorithm == PTXMM_SPLIT;
    if (s.multicast) { /* whole clusters */
        const uint32_t columns = s.cluster / s.rows;
        s.tiles_m = tiles(s.tiles_m, s.rows) * s.rows;
        s.tiles_n = tiles(s.tiles_n, columns) * columns;
    }
    return s;
}

int64_t foreign_workspace(const struct ptxmm_kernel_info *kernel, int64_t m, int64_t n, int64_t batch,
                          const struct foreign_split *split)
{
    const struct shape s = shape_of(kernel, m, n, split);
    if (s.groups == 1) return 0;
    return PTXMM_WORKSPACE_COUNTERS + batch * s.tiles_m * s.tiles_n * s.groups * kernel->tile_m * kernel->tile_n *
                                          (int64_t)sizeof(float);
}

/* Spoils the launch of one CTA a tile. */
static void mistake_shape(enum foreign_mistake mistake, struct shape *s)
{
    switch (mistake) {
    case FOREIGN_RASTER: *s = (struct shape){ .cluster = 4, .rows = 3, .groups = 1, .tiles_m = 12, .tiles_n = 4 }; break;
    case FOREIGN_CLUSTER: *s = (struct shape){ .cluster = 3, .rows = 1, .groups = 1, .tiles_m = 1, .tiles_n = 3 }; break;
    case FOREIGN_TALL: *s = (struct shape){ .cluster = 2, .rows = 4, .groups = 1, .tiles_m = 4, .tiles_n = 1 }; break;
    case FOREIGN_TILES_M: *s = (struct shape){ .cluster = 2, .rows = 2, .groups = 1, .tiles_m = 1, .tiles_n = 2 }; break;
    case FOREIGN_TILES_N: *s = (struct shape){ .cluster = 2, .rows = 1, .groups = 1, .tiles_m = 2, .tiles_n = 1 }; break;
    default: return;
    }
    s->multicast = s->grouped = true;
}

/* tcgen05.mma kind::f16, both operands K-major: f32 accumulation at bit 4, types of A and B at 7 and 10 (bf16 is 1), N / 8 at
 * 17, M / 16 at 24. */
static uint32_t instruction_descriptor(const struct gemm_run *run)
{
    const uint32_t a_bf16 = run->a.type == PTXMM_BF16, b_bf16 = run->b.type == PTXMM_BF16;
    const struct ptxmm_kernel_info *kernel = run->c->kernel;
    return 1u << 4 | a_bf16 << 7 | b_bf16 << 10 | kernel->tile_n / 8 << 17 | kernel->tile_m / 16 << 24;
}

bool foreign_launch(struct rig *rig, struct gemm_run *run, enum foreign_mistake mistake,
                    const struct foreign_split *split, CUresult *launched)
{
    struct gpu *gpu = &rig->gpu;
    const struct gemm_case *c = run->c;
    const struct ptxmm_kernel_info *kernel = c->kernel;
    const struct ptxmm_arguments *given = &run->arguments;
    struct shape shape = shape_of(kernel, c->m, c->n, split);
    mistake_shape(mistake, &shape);
    const uint32_t groups = shape.groups, columns = shape.rows < shape.cluster ? shape.cluster / shape.rows : 1;
    const uint32_t shares_a = shape.multicast ? columns : kernel->cluster, /* CTAs that load a part of the rows each */
        shares_b = shape.multicast ? shape.rows : kernel->cluster;
    const uint64_t batch = run->batch ? (uint64_t)run->batch : 1;
    const uint64_t k = c->k ? (uint64_t)c->k : 1; /* a map has no empty side; nothing of it is read */
    *launched = CUDA_SUCCESS;

    struct ptxmm_gemm_args args = {
        .abi_version = PTXMM_ABI_VERSION + (mistake == FOREIGN_ABI_VERSION),
        .m = (uint32_t)c->m,
        .n = (uint32_t)c->n,
        .k_slices = tiles(c->k, kernel->tile_k),
        .tiles_m = shape.tiles_m,
        .tiles_n = shape.tiles_n,
        .raster = shape.multicast ? shape.rows : 3,
        .flags = (kernel->d == PTXMM_BF16_OR_F16 && run->d.type == PTXMM_F16 ? PTXMM_FLAG_F16_OUT : 0) | run->promises,
        .groups = shape.grouped ? groups : 0,
        .workspace = groups > 1 ? run->at_workspace.address : 0,
        .idesc = strncmp(kernel->target, "sm_10", 5) == 0 ? instruction_descriptor(run) : 0,
        .d = given->d,
        .ldd = (uint64_t)run->d.ld,
        .c = given->c,
        .ldc = (uint64_t)run->cm.ld,
        .alpha_at = given->alpha_at,
        .beta_at = given->beta_at,
        .alpha = given->alpha,
        .beta = given->beta,
        .batch = (uint32_t)batch,
        .batch_stride_c = (uint64_t)run->apart_c,
        .batch_stride_d = (uint64_t)run->apart_d,
    };
    if (!encode(gpu, &args.map_a, &run->a, given->a, k, kernel->tile_m / shares_a, batch, run->apart_a) ||
        !encode(gpu, &args.map_b, &run->b, given->b, k, kernel->tile_n / shares_b, batch, run->apart_b) ||
        !encode(gpu, &args.map_d, &run->d, given->d, (uint64_t)c->n, 64, batch, run->apart_d))
        return failed(run, gpu->error);

    CUlibrary library;
    CUkernel entry;
    if (!load(rig, run, &library)) return false;
    const uint32_t slot = (kernel->tile_m + kernel->tile_n) * 128;
    const uint32_t least = kernel->shared_bytes - (kernel->algorithm == PTXMM_SPLIT ? (kernel->stages - PTXMM_LEAST_STAGES) * slot : 0);
    const uint32_t shared = mistake == FOREIGN_SHARED_MEMORY ? least - 1 : kernel->shared_bytes;
    bool ok = gpu_ok(gpu, gpu->LibraryGetKernel(&entry, library, kernel->name), "cuLibraryGetKernel") &&
              gpu_ok(gpu,
                     gpu->KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared, entry,
                                             gpu->device),
                     "cuKernelSetAttribute");
    if (ok) {
        /* One cluster a tile under launch control; one CTA a tile and group of multicast kernels; any number of clusters
         * otherwise, here what fills the device. */
        const uint32_t all = args.batch * args.tiles_m * args.tiles_n * groups;
        const uint32_t fit = (uint32_t)gpu->sm_count / shape.cluster;
        const uint32_t most = kernel->schedule == PTXMM_SCHEDULE_LAUNCH_CONTROL || all < fit ? all : fit;
        const uint32_t clusters = split && split->clusters ? split->clusters : most;
        CUlaunchAttribute attributes[2];
        unsigned count = 0;
        if (shape.cluster > 1) {
            CUlaunchAttribute *cluster = &attributes[count++];
            cluster->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            cluster->value.clusterDim.x = shape.cluster;
            cluster->value.clusterDim.y = cluster->value.clusterDim.z = 1;
        }
        if (shape.multicast && groups > 1) { /* its groups wait for one another */
            attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            attributes[count++].value.cooperative = 1;
        }
        const CUlaunchConfig config = {
            .gridDimX = shape.multicast ? all + (mistake == FOREIGN_GRID) : clusters * shape.cluster,
            .gridDimY = 1, .gridDimZ = 1,
            .blockDimX = kernel->threads - (mistake == FOREIGN_THREADS ? 128 : 0),
            .blockDimY = 1, .blockDimZ = 1,
            .sharedMemBytes = shared,
            .attrs = attributes,
            .numAttrs = count,
        };
        void *parameters[] = { &args };
        *launched = gpu->LaunchKernelEx(&config, (CUfunction)entry, parameters, NULL);
        ok = *launched != CUDA_SUCCESS || mistake != FOREIGN_NONE ||
             gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize");
    }
    if (!ok) failed(run, gpu->error);
    /* After a mistake the kernel may still run or the context be lost: the process ends soon and the image goes with
     * it. */
    if (mistake == FOREIGN_NONE) gpu->LibraryUnload(library);
    return ok;
}
