/* gemm_case.h -- one product on one driver, from parameters to a verdict: what the kernel tests and the driver
 * comparison share.
 *
 *     struct rig rig;                               // a driver, a device, a pack
 *     struct gemm_case c = { .kernel = kernel, .m = 129, .n = 70, .k = 200, .seed = 1, .alpha = 1 };
 *     if (!gemm_check(&rig, &c)) failed++;          // prints what was wrong
 *
 * or step by step: gemm_prepare, gemm_launch, gemm_fetch, gemm_judge, gemm_release. Every run is guarded: D begins as
 * NaN, it and its padding lie between bands that must survive, and the inputs' padding is NaN.
 */
#ifndef GEMM_CASE_H
#define GEMM_CASE_H

#include "cli/check.h"
#include "cli/gpu.h"
#include "cli/workload.h"

/* ---- where it runs ---- */

struct rig {
    struct ptxmm *mm;
    struct gpu gpu;
    struct ptxmm_device device;
    bool full;            /* PTXMM_TEST: quick or full; unset: full on a GPU, quick on an emulator */
    uint64_t seed;        /* PTXMM_SEED; unset: 1 */
    char ptx_dir[1024];   /* where an emulator's texts are */
    char error[1400];     /* why rig_open failed, one line */
    bool asked;           /* ... over PTXMM_DRIVER, PTXMM_TEST or PTXMM_SEED, so it is no reason to skip */
};

/* Opens `driver`; NULL: PTXMM_DRIVER if set, else libcuda.so.1, else the emulator of this build. False: rig->error
 * says why. */
bool rig_open(struct rig *rig, const char *driver);
void rig_close(struct rig *rig);

/* The emulator of this build: ../lib/libptxmm_emulator.so seen from this program. False if there is none. */
bool rig_emulator_path(char *path, size_t size);

/* After a fault no work runs in the context: makes a new one. True if the context works. */
bool rig_revive(struct rig *rig);

/* Can this device run the kernel? False: `why` says what it has and what is needed. */
bool rig_runs(const struct rig *rig, const struct ptxmm_kernel_info *kernel, char *why, size_t size);

/* ---- what runs ---- */

enum scalar_place { SCALARS_ON_HOST, SCALARS_ON_DEVICE };
enum c_content { C_NORMAL, C_NAN, C_IS_D }; /* IS_D: C and D are one buffer, filled like C_NORMAL */

struct gemm_case {
    const struct ptxmm_kernel_info *kernel;
    int64_t m, n, k;
    enum ptxmm_type a, b, d; /* where the kernel takes bf16 or f16; NONE: bf16. Elsewhere it has its own type */
    int64_t pad_a, pad_b, pad_c, pad_d; /* 16-byte units between rows beyond what alignment asks for */
    enum matrix_fill fill;
    uint64_t seed;
    float alpha, beta;
    bool with_c;
    enum c_content c;
    enum scalar_place scalars;
    int64_t nan_row;  /* this row of A is NaN, if not 0: 1 is row 0 */
    int64_t inf_at;   /* A at (inf_at - 1) / k, (inf_at - 1) % k is infinite, if not 0 */
    bool nan_a;       /* all of A is NaN */
    int sm_budget;
    bool no_programmatic_launch;
    int constant_a, constant_b; /* promised */
    bool exact_allocations; /* device memory of every operand ends with its last element */
    int64_t workspace_limit; /* what the plan may ask for */
    int cluster, cluster_rows, groups; /* asked for, of split and multicast kernels; 0: as the library likes */
    int stages;                        /* ... and of split kernels */
    int64_t workspace_bytes; /* so many are there even if the plan asks for fewer: for foreign_launch */
};

/* The types of the operands of this case. */
enum ptxmm_type gemm_type_a(const struct gemm_case *c);
enum ptxmm_type gemm_type_b(const struct gemm_case *c);
enum ptxmm_type gemm_type_d(const struct gemm_case *c);

/* The budget of SMs for this kernel: multicast kernels, whose CTAs have a tile each, are not taken for more tiles than SMs, and have
 * none. */
int gemm_budget(const struct ptxmm_kernel_info *kernel, int budget);

/* What a problem must ask for to get this kernel. */
enum ptxmm_accumulate gemm_accumulate(const struct ptxmm_kernel_info *kernel);

/* "sm90_gemm_bf16_128x256 M=129 N=70 K=200 lda=200 ... seed=1": enough to run it again. Returns text. */
const char *gemm_describe(const struct gemm_case *c, char *text, size_t size);

/* Product number `index` of an endless list that `seed` decides, over all kernels that the rig's device runs, edge
 * shapes, types, fills, scalars and strides. */
void gemm_random(const struct rig *rig, uint64_t index, struct gemm_case *c);

struct device_block {
    CUdeviceptr address; /* of the matrix's first byte, guards not counted */
    CUdeviceptr base;    /* what to free */
    size_t mapped;       /* bytes mapped page by page; 0: an ordinary allocation */
    size_t reserved;     /* the mapped pages and one behind them that is not */
    CUmemGenericAllocationHandle handle;
};

struct gemm_run {
    const struct gemm_case *c;
    struct matrix a, b, cm, d;            /* cm: C; for C_IS_D what D held before */
    struct device_block at_a, at_b, at_c, at_d, at_scalars;
    struct device_block at_workspace;     /* between bands that must survive; its counters are zero, its sums NaN */
    size_t workspace_bytes;
    uint32_t promises; /* for foreign_launch: more flags of the argument block */
    int64_t batch; /* for foreign_launch: so many products, their matrices so many elements apart; 0: one product */
    int64_t apart_a, apart_b, apart_c, apart_d;
    struct ptxmm_plan *plan;
    struct ptxmm_arguments arguments;
    char error[1400];                     /* of the last step that returned false */
};

/* Fills the matrices, copies them to the device, makes the plan. False: run->error. Release in both cases. */
bool gemm_prepare(struct rig *rig, const struct gemm_case *c, struct gemm_run *run);
/* Device D as it was after gemm_prepare. */
bool gemm_rewind(struct rig *rig, struct gemm_run *run);
bool gemm_launch(struct rig *rig, struct gemm_run *run, CUstream stream);
/* Waits and copies D, with its guards, back into run->d. */
bool gemm_fetch(struct rig *rig, struct gemm_run *run);
/* The workspace: are its counters zero again, and the bands around it as they were? */
bool gemm_workspace_intact(struct rig *rig, struct gemm_run *run);
/* Is run->d right, and all around it and the workspace untouched? False: run->error, several lines. */
bool gemm_judge(struct rig *rig, struct gemm_run *run);
void gemm_release(struct rig *rig, struct gemm_run *run);

/* All of it; prints the case and what was wrong. */
bool gemm_check(struct rig *rig, const struct gemm_case *c);

/* Prepares, launches and fetches; prints on failure. For tests that compare run->d themselves. */
bool gemm_result(struct rig *rig, const struct gemm_case *c, struct gemm_run *run);

/* Are the M x N elements of both D the same bits? Rows beyond the shorter one are not compared. */
bool gemm_same(const struct gemm_run *x, const struct gemm_run *y, char *text, size_t size);

/* FNV-1a over the M x N elements of D, padding left out. */
uint64_t gemm_digest(const struct gemm_run *run);

/* ---- gemm_foreign.c: a launch by the ABI alone ---- */

/* What a foreign runtime may do wrong. */
enum foreign_mistake {
    FOREIGN_NONE,
    FOREIGN_ABI_VERSION,
    FOREIGN_SHARED_MEMORY,
    FOREIGN_THREADS,
    /* with multicast kernels alone: */
    FOREIGN_RASTER,       /* clusters of 3 rows, ... */
    FOREIGN_CLUSTER,      /* ... of 3 CTAs, ... */
    FOREIGN_TALL,         /* ... of fewer CTAs than rows */
    FOREIGN_TILES_M,      /* rows of tiles that are no whole clusters, ... */
    FOREIGN_TILES_N,      /* ... columns */
    FOREIGN_GRID,         /* more CTAs than tiles */
    FOREIGN_MISTAKES
};
const char *foreign_name(enum foreign_mistake mistake);
bool foreign_can(enum foreign_mistake mistake, const struct ptxmm_kernel_info *kernel);

/* What a launch of a split or multicast kernel is free to choose. */
struct foreign_split {
    uint32_t cluster, groups;
    uint32_t clusters; /* split: in the grid; 0: one for every part of a tile, as far as they fit */
    uint32_t rows;     /* multicast: of tiles in a cluster */
};

/* Bytes of workspace that such a launch needs; 0: none. */
int64_t foreign_workspace(const struct ptxmm_kernel_info *kernel, int64_t m, int64_t n, int64_t batch,
                          const struct foreign_split *split);

/* Launches the prepared run's kernel as ptxmm_abi.h describes, without the library: image, tensor maps, argument
 * block and launch are made here. `split` is for split and multicast kernels, NULL: one CTA a tile. *launched is the launch call's
 * result; what the kernel reports comes with the next synchronisation. */
bool foreign_launch(struct rig *rig, struct gemm_run *run, enum foreign_mistake mistake,
                    const struct foreign_split *split, CUresult *launched);

#endif
