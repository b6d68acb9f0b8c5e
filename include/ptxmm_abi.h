/* ptxmm_abi.h -- what a foreign runtime must know to launch a ptxmm kernel without the ptxmm library.
 *
 * A kernel takes ONE parameter, by value: struct ptxmm_gemm_args (alignment 64). Fill it, raise the kernel's dynamic
 * shared memory limit to ptxmm_kernel_info.shared_bytes, launch `threads` threads per CTA and, for a static schedule, any number
 * of clusters from 1 to tiles_m * tiles_n (the kernels are persistent), with the cluster size of the row. Offsets are fixed: the PTX reads the
 * same numbers (ptx/common/args.inc), and both files check each other at build time.
 *
 * Tensor maps (cuTensorMapEncodeTiled; rank 2; no interleave; element strides 1; zero fill; 128-byte swizzle):
 *
 *   map   dims {inner, outer}   stride of outer        box {inner, outer}
 *   a     {K, M}                lda * sizeof(A)        {128 / sizeof(A), tile_m / cluster}
 *   b     {K, N}                ldb * sizeof(B)        {128 / sizeof(B), tile_n / cluster}
 *   d     {N, M}                ldd * sizeof(D)        {128 / sizeof(D), 64}
 *
 * Every base address and every stride is a multiple of 16 bytes. This header is C11 and C++11, and includes nothing of CUDA.
 */
#ifndef PTXMM_ABI_H
#define PTXMM_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define PTXMM_ALIGNAS(n) alignas(n)
#define PTXMM_STATIC_ASSERT(e, text) static_assert(e, text)
#else
#define PTXMM_ALIGNAS(n) _Alignas(n)
#define PTXMM_STATIC_ASSERT(e, text) _Static_assert(e, text)
#endif

/* Version of struct ptxmm_gemm_args. A kernel reads only fields that its version has; fields are only ever appended. */
#define PTXMM_ABI_VERSION 1

/* Bits of ptxmm_gemm_args.flags. */
#define PTXMM_FLAG_F16_OUT 1 /* kernels whose d is PTXMM_BF16_OR_F16: D and C are f16; without it bf16 */

/* The 128 bytes of a CUtensorMap. */
struct ptxmm_tensor_map {
    PTXMM_ALIGNAS(64) uint64_t opaque[16];
};

/* The one kernel argument. Sizes are elements, not bytes, unless the name says bytes. */
struct ptxmm_gemm_args {
    struct ptxmm_tensor_map map_a; /*   0                                                                     */
    struct ptxmm_tensor_map map_b; /* 128                                                                     */
    struct ptxmm_tensor_map map_d; /* 256                                                                     */
    uint32_t abi_version;          /* 384  PTXMM_ABI_VERSION; another value: the kernel traps                 */
    uint32_t m;                    /* 388  rows of D, >= 1                                                    */
    uint32_t n;                    /* 392  columns of D, >= 1                                                 */
    uint32_t k_slices;             /* 396  ceil(K / tile_k); 0: the product is 0 and A, B are not read        */
    uint32_t tiles_m;              /* 400  ceil(m / tile_m)                                                   */
    uint32_t tiles_n;              /* 404  ceil(n / tile_n)                                                   */
    uint32_t raster;               /* 408  rows of tiles that are walked column by column together, >= 1      */
    uint32_t flags;                /* 412  PTXMM_FLAG_...                                                     */
    uint64_t d;                    /* 416  address of D, for tiles that TMA cannot store exactly              */
    uint64_t ldd;                  /* 424  leading dimension of D                                             */
    uint64_t c;                    /* 432  address of C (the type of D, row-major); not read when beta is 0   */
    uint64_t ldc;                  /* 440  leading dimension of C                                             */
    uint64_t alpha_at;             /* 448  device address of a float that replaces alpha, or 0                */
    uint64_t beta_at;              /* 456  device address of a float that replaces beta, or 0                 */
    float alpha;                   /* 464                                                                     */
    float beta;                    /* 468                                                                     */
    uint32_t idesc;                /* 472  sm100: instruction descriptor of tcgen05.mma; sm90: 0              */
    uint32_t groups;               /* 476  split kernels: clusters that share a tile's K, >= 1; others: 0     */
    uint64_t workspace;            /* 480  split kernels with groups > 1: address of the workspace            */
    uint64_t reserved[3];          /* 488  0                                                                  */
};                                 /* 512                                                                     */

PTXMM_STATIC_ASSERT(sizeof(struct ptxmm_tensor_map) == 128, "a tensor map has 128 bytes");
PTXMM_STATIC_ASSERT(offsetof(struct ptxmm_gemm_args, abi_version) == 384, "abi_version moved");
PTXMM_STATIC_ASSERT(offsetof(struct ptxmm_gemm_args, d) == 416, "d moved");
PTXMM_STATIC_ASSERT(offsetof(struct ptxmm_gemm_args, alpha) == 464, "alpha moved");
PTXMM_STATIC_ASSERT(sizeof(struct ptxmm_gemm_args) == 512, "the argument block has 512 bytes");

/* Element types of the whole mission; a pack has kernels for some. Values are stable: they may be stored. */
enum ptxmm_type {
    PTXMM_TYPE_NONE = 0, /* operand absent */
    PTXMM_BF16 = 1,
    PTXMM_F16 = 2,
    PTXMM_F32 = 3,
    PTXMM_TF32 = 4, /* stored as f32, multiplied as tf32: asked for by name, never substituted for f32 */
    PTXMM_E4M3 = 5,
    PTXMM_E5M2 = 6,
    PTXMM_E2M3 = 7,  /* 6-bit, packed as the tensor map types say */
    PTXMM_E3M2 = 8,
    PTXMM_E2M1 = 9,  /* 4-bit, two to a byte, low nibble first */
    PTXMM_S8 = 10,
    PTXMM_U8 = 11,
    PTXMM_S4 = 12,   /* weights only, with 16-bit activations */
    PTXMM_S32 = 13,
    PTXMM_UE8M0 = 14, /* scale factor */
    PTXMM_UE4M3 = 15, /* scale factor */
    PTXMM_BF16_OR_F16 = 64 /* only in struct ptxmm_kernel_info: each such operand may be either */
};

/* How a kernel schedules its warps. */
enum ptxmm_algorithm {
    PTXMM_COOPERATIVE = 1, /* both consumer warpgroups share a tile, half of its rows each */
    PTXMM_PINGPONG = 2,    /* each consumer warpgroup has a tile of its own; they alternate main loop and epilogue */
    PTXMM_ONE_CTA = 3,     /* sm100: one issuing thread, accumulators in Tensor Memory */
    PTXMM_CTA_PAIR = 4,    /* sm100: two CTAs share a tile, B and the issuing thread */
    PTXMM_SPLIT = 5        /* K is split over the CTAs of a cluster, whose size is chosen at launch: 1 to 8 */
};

/* How a CTA finds its next tile. */
enum ptxmm_schedule {
    PTXMM_SCHEDULE_STATIC = 0, /* every grid-th tile; any grid from one cluster up */
    PTXMM_SCHEDULE_LAUNCH_CONTROL = 1 /* cluster launch control; the grid has exactly one cluster per tile */
};

/* Facts of one kernel, one per row of ptx/kernels.def. Strings are static. */
struct ptxmm_kernel_info {
    const char *name;        /* stable id and entry symbol, e.g. "sm90_gemm_bf16_128x256" */
    const char *target;      /* "sm_90a": runs on exactly this architecture; "sm_100f": on that family */
    enum ptxmm_algorithm algorithm;
    enum ptxmm_schedule schedule;
    enum ptxmm_type a, b, accumulator, d;
    uint32_t tile_m, tile_n, tile_k;
    uint32_t stages;         /* slots of the load ring */
    uint32_t threads;        /* per CTA, exactly */
    uint32_t cluster;        /* CTAs per cluster, exactly */
    uint32_t shared_bytes;   /* dynamic shared memory per CTA */
    uint32_t abi_version;
    uint32_t min_driver;     /* least cuDriverGetVersion, e.g. 13000 */
    uint32_t deterministic;  /* 1: equal inputs give equal bits, every time */
    uint32_t batch_invariant; /* 1: a row of D has the same bits whatever M, the grid and the SM budget are */
};

#ifdef __cplusplus
}
#endif
#endif
