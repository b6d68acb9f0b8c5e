/* ptxmm_abi.h -- what a foreign runtime must know to launch a ptxmm kernel without the ptxmm library.
 *
 * A kernel takes ONE parameter, by value: struct ptxmm_gemm_args (alignment 64). Fill it, raise the kernel's dynamic
 * shared memory limit to ptxmm_kernel_info.shared_bytes, launch `threads` threads per CTA and, for a static schedule, any number
 * of clusters from 1 to `tiles` = batch * tiles_m * tiles_n (the kernels are persistent), with the cluster size of the row (split
 * and multicast kernels: see below). Split kernels take less shared memory too: what is missing are slots of their load ring, of which
 * PTXMM_LEAST_STAGES must be left. `tiles` is below 2^31. Offsets are fixed: the PTX reads the same numbers (ptx/common/args.inc), and
 * both files check each other at build time.
 *
 * Tensor maps (cuTensorMapEncodeTiled; rank 3; no interleave; element strides 1; zero fill; 128-byte swizzle):
 *
 *   map   dims             strides in bytes                           box
 *   a     {K, M, batch}    {lda, batch stride of A} * sizeof(A)       {128 / sizeof(A), tile_m / cluster, 1}
 *   b     {K, N, batch}    {ldb, batch stride of B} * sizeof(B)       {128 / sizeof(B), tile_n / cluster, 1}
 *   d     {N, M, batch}    {ldd, batch_stride_d} * sizeof(D)          {128 / sizeof(D), 64, 1}
 *
 * Boxes of multicast kernels have tile_m / columns rows of A and tile_n / rows rows of B: see below.
 *
 * Every base address and every stride is a multiple of 16 bytes, and strides are below 2^40 bytes. C is read without a map.
 *
 * A batch is `batch` products of one size, in one launch: matrix z of an operand lies z batch strides behind the first. In the maps of A
 * and B the stride may be 0: one matrix for all products; that of C may be 0 too. The matrices of D must not overlap; they may lie
 * between each other's rows. A product by itself has batch 1, and the last stride of its maps is any that the encoder takes.
 *
 * Split kernels (algorithm PTXMM_SPLIT; the head of ptx/sm90/split.ptx has more). The CTAs of a cluster share a tile's K, and the
 * cluster size is the caller's choice at each launch: 1 to 8, 1, 2, 3, 4 and 8 being worth a try, by the launch attribute alone.
 * Boxes are those of the row's cluster, 1, whatever is launched. K needs no multiple of anything: slices that do not divide evenly,
 * or are fewer than the CTAs, are right too. With groups > 1 that many clusters share each tile through the workspace; any number of
 * clusters from 1 to tiles * groups may be launched, and none waits for another. The order of addition follows
 * rank and group, so equal numbers give equal bits. The workspace, 16-byte aligned:
 *
 *   counters   at 0       PTXMM_WORKSPACE_COUNTERS, of which tiles * cluster * 4 are used: more than that, and
 *                         the kernel traps. Zero before the first launch; every launch leaves zeros.
 *   sums       behind     tiles * groups * tile_m * tile_n * 4
 *
 * Launches that follow one another may share a workspace, whatever their shapes and kernels; those that may overlap must not. It
 * may be shared under programmatic stream serialization too. A launch that was stopped by a fault leaves the counters unknown.
 *
 * Multicast kernels (algorithm PTXMM_MULTICAST; the head of ptx/sm90/multicast.ptx has more). A cluster of 1, 2, 4 or 8 CTAs, your
 * choice at each launch by the launch attribute alone, computes a rectangle of tiles, one a CTA: `raster` rows of cluster / raster
 * columns, raster being 1, 2, 4 or 8 and at most the cluster. The CTAs of a row load a part of its rows of A each, those of a column of
 * its rows of B, and send it to one another, so the boxes are smaller. tiles_m is ceil(m / tile_m), rounded up to a multiple of raster,
 * tiles_n is ceil(n / tile_n), rounded up to one of cluster / raster. The grid is exact: tiles * groups CTAs. That many groups of
 * clusters share K through a workspace laid out as above, and wait for one another: with groups > 1 all CTAs must run at a time, so
 * the launch needs the attribute cooperative, with which the driver refuses what does not fit. (Without it, too large a grid never ends.)
 * A group may be left without a slice. The order of addition follows the groups, so equal numbers give equal bits. Of the counters tiles
 * * 8 bytes are used. A cluster, a raster, tiles or a grid that are not so: the kernel traps.
 *
 * sm100 only. idesc is the instruction descriptor of tcgen05.mma, with bf16 = 1 and f16 = 0 for the types of A and B:
 *
 *   idesc = 1 << 4 | bf16(A) << 7 | bf16(B) << 10 | tile_n / 8 << 17 | tile_m / 16 << 24
 *
 * and after encoding a map whose matrix spans less than 128 KiB, rows not packed, bit 21 of the map's second 64-bit word must be
 * cleared: the driver's encoder sets it wrongly.
 *
 * This header is C11 and C++11, and includes nothing of CUDA.
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

/* Version of struct ptxmm_gemm_args and of what lies behind it. A kernel reads only fields that its version has; fields are only ever
 * appended. A flag that is a promise does not raise it: 0 was always allowed and promises nothing. 2: maps have rank 3, and the block has batch, batch_stride_d and batch_stride_c. */
#define PTXMM_ABI_VERSION 2

/* A workspace (split and multicast kernels with groups > 1) begins with this many bytes of counters, zero before its first use and after
 * every launch; behind them lie sums that need no preparation. */
#define PTXMM_WORKSPACE_COUNTERS 65536

/* Bits of ptxmm_gemm_args.flags; all others are 0.
 * CONSTANT_A is a promise: nothing that comes before this launch in its stream, and has not ended when the launch is made, writes A. Under
 * programmatic stream serialization the kernel may then load A before griddepcontrol.wait, while the kernel before it still runs. A kernel
 * may take no notice. CONSTANT_B says the same of B. */
#define PTXMM_FLAG_F16_OUT 1 /* kernels whose d is PTXMM_BF16_OR_F16: D and C are f16; without it bf16 */
#define PTXMM_FLAG_CONSTANT_A 2
#define PTXMM_FLAG_CONSTANT_B 4

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
    uint32_t tiles_m;              /* 400  ceil(m / tile_m); multicast: in whole clusters                     */
    uint32_t tiles_n;              /* 404  ceil(n / tile_n); multicast: in whole clusters                     */
    uint32_t raster;               /* 408  rows of tiles that are walked column by column together, >= 1;     */
                                   /*      multicast: rows of tiles in a cluster                              */
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
    uint32_t groups;               /* 476  split, multicast: clusters that share a tile's K, >= 1; others: 0  */
    uint64_t workspace;            /* 480  where groups > 1: address of the workspace                         */
    uint64_t batch_stride_d;       /* 488  from one matrix of D to the next; read only when batch > 1         */
    uint64_t batch_stride_c;       /* 496  the same of C; 0: all products add the same C                      */
    uint32_t batch;                /* 504  products, >= 1                                                     */
    uint32_t reserved;             /* 508  0                                                                  */
};                                 /* 512                                                                     */

PTXMM_STATIC_ASSERT(sizeof(struct ptxmm_tensor_map) == 128, "a tensor map has 128 bytes");
PTXMM_STATIC_ASSERT(offsetof(struct ptxmm_gemm_args, abi_version) == 384, "abi_version moved");
PTXMM_STATIC_ASSERT(offsetof(struct ptxmm_gemm_args, d) == 416, "d moved");
PTXMM_STATIC_ASSERT(offsetof(struct ptxmm_gemm_args, alpha) == 464, "alpha moved");
PTXMM_STATIC_ASSERT(offsetof(struct ptxmm_gemm_args, batch_stride_d) == 488, "batch_stride_d moved");
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

/* A split kernel's load ring has at least so many slots. */
#define PTXMM_LEAST_STAGES 4

/* How a kernel schedules its warps. */
enum ptxmm_algorithm {
    PTXMM_COOPERATIVE = 1, /* both consumer warpgroups share a tile, half of its rows each */
    PTXMM_PINGPONG = 2,    /* each consumer warpgroup has a tile of its own; they alternate main loop and epilogue */
    PTXMM_ONE_CTA = 3,     /* sm100: one issuing thread, accumulators in Tensor Memory */
    PTXMM_CTA_PAIR = 4,    /* sm100: two CTAs share a tile, B and the issuing thread */
    PTXMM_SPLIT = 5,       /* K is split over the CTAs of a cluster, whose size is chosen at launch: 1 to 8 */
    PTXMM_MULTICAST = 6    /* the CTAs of a cluster, 1, 2, 4 or 8 at launch, share loads; K is split over groups of clusters */
};

/* How a CTA finds its next tile. */
enum ptxmm_schedule {
    PTXMM_SCHEDULE_STATIC = 0, /* every grid-th tile; any grid from one cluster up (multicast kernels: one CTA per tile and group) */
    PTXMM_SCHEDULE_LAUNCH_CONTROL = 1 /* cluster launch control; the grid has exactly one cluster per tile of all products */
};

/* Facts of one kernel, one per row of ptx/kernels.def. Strings are static. */
struct ptxmm_kernel_info {
    const char *name;        /* stable id and entry symbol, e.g. "sm90_gemm_bf16_128x256" */
    const char *target;      /* "sm_90a": runs on exactly this architecture; "sm_100f": on that family */
    enum ptxmm_algorithm algorithm;
    enum ptxmm_schedule schedule;
    enum ptxmm_type a, b, accumulator, d;
    uint32_t tile_m, tile_n, tile_k;
    uint32_t stages;         /* slots of the load ring; split kernels: at most, as many as the launch's shared memory holds, at least PTXMM_LEAST_STAGES */
    uint32_t threads;        /* per CTA, exactly */
    uint32_t cluster;        /* CTAs per cluster, exactly; split kernels: 1, and any from 1 to 8 at launch; multicast: 1, and 1, 2, 4 or 8 */
    uint32_t shared_bytes;   /* dynamic shared memory per CTA; split kernels: for all stages. A slot has (tile_m + tile_n) * 128 bytes */
    uint32_t abi_version;
    uint32_t min_driver;     /* least cuDriverGetVersion, e.g. 13000 */
    uint32_t deterministic;  /* 1: equal inputs give equal bits, every time */
    uint32_t batch_invariant; /* 1: a row of D has the same bits whatever M, the batch, the grid and the SM budget are */
    uint32_t promotion;      /* the tensor core's sum over so many elements of K is added to one in f32; 0: it is the only one */
};

#ifdef __cplusplus
}
#endif
#endif
