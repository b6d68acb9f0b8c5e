/* ptxmm.h -- tensor-core matrix multiplication from hand-written PTX, for NVIDIA Hopper and datacenter Blackwell.
 *
 *     D[m,n] = epilogue(alpha * sum over k of A[m,k] * B[k,n] + beta * C[m,n])
 *
 * The library holds compiled kernels ("cubins") and a thin loader on the CUDA driver API, which it finds at run time.
 * Nothing is compiled, downloaded or executed when it runs. The usual order of calls:
 *
 *     struct ptxmm *mm;  struct ptxmm_plan *plan;  struct ptxmm_error error;
 *     if (ptxmm_open(&mm, NULL, &error)) return fail(error.text);          // finds libcuda
 *     struct ptxmm_problem problem = {
 *         .m = 4096, .n = 4096, .k = 4096,
 *         .a.type = PTXMM_BF16, .b.type = PTXMM_BF16, .d.type = PTXMM_BF16 }; // dense, K-major A and B, row-major D
 *     if (ptxmm_plan_create(mm, &problem, NULL, &plan, &error)) return fail(error.text);   // in the current CUDA context
 *     struct ptxmm_arguments args = { .a = a, .b = b, .d = d, .alpha = 1 };  // device addresses
 *     if (ptxmm_plan_run(plan, &args, stream, &error)) return fail(error.text);            // asynchronous, about 1 us
 *     cuStreamSynchronize(stream);                                           // D is there; the plan is no longer in use
 *     ptxmm_plan_destroy(&plan);
 *     ptxmm_close(&mm, NULL);
 *
 * Conventions. Every function that can fail returns a status, 0 for success, and describes the first offence in *error
 * (which may be NULL): the argument, what it was, what it must be. On failure nothing is left half done and out-pointers are
 * set to NULL. The library never prints, exits or aborts. Sizes, strides and counts are 64-bit and in elements unless a name
 * says bytes. A structure of zeros means defaults. Reserved fields must be 0.
 *
 * Threads. Any number of threads may use one struct ptxmm and one plan at the same time; a plan never changes after it is
 * made. Contexts and devices: a plan belongs to the CUDA context that was current when it was made. After fork() the child
 * gets PTXMM_ERROR_FORKED from every call but ptxmm_close.
 */
#ifndef PTXMM_H
#define PTXMM_H

#include "ptxmm_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(PTXMM_BUILD) && defined(__GNUC__)
#define PTXMM_API __attribute__((visibility("default")))
#else
#define PTXMM_API
#endif

#define PTXMM_VERSION_MAJOR 0
#define PTXMM_VERSION_MINOR 1
#define PTXMM_VERSION_PATCH 0

/* ---- status ------------------------------------------------------------------------------------------------------- */

#define PTXMM_STATUS_LIST(X)                                                                                     \
    X(OK, 0, "success")                                                                                          \
    X(ERROR_ARGUMENT, 1, "an argument is invalid")                                                               \
    X(ERROR_NO_DRIVER, 2, "no CUDA driver library was found")                                                    \
    X(ERROR_DRIVER_SYMBOL, 3, "the CUDA driver library lacks an entry point")                                    \
    X(ERROR_DRIVER_TOO_OLD, 4, "the CUDA driver is older than the pack needs")                                   \
    X(ERROR_DRIVER, 5, "a CUDA driver call failed")                                                              \
    X(ERROR_CONTEXT_FAULTED, 6, "the CUDA context had already faulted before this call")                         \
    X(ERROR_NO_CONTEXT, 7, "no CUDA context is current in this thread")                                          \
    X(ERROR_NO_KERNEL, 8, "no kernel of the pack can run this problem on this device")                           \
    X(ERROR_IMAGE, 9, "a kernel image is missing, truncated or damaged")                                         \
    X(ERROR_MEMORY, 10, "host memory is exhausted")                                                              \
    X(ERROR_BUSY, 11, "the object is still in use")                                                              \
    X(ERROR_FORKED, 12, "the handle was opened by a parent process")                                             \
    X(ERROR_WRONG_CONTEXT, 13, "the plan belongs to another CUDA context")

enum ptxmm_status {
#define PTXMM_STATUS_ENUM(name, value, text) PTXMM_##name = value,
    PTXMM_STATUS_LIST(PTXMM_STATUS_ENUM)
#undef PTXMM_STATUS_ENUM
};

/* What went wrong, in the caller's memory. `text` is one line, always terminated, naming the argument, what it was and what
 * it must be, or the driver call and the error name it returned. */
struct ptxmm_error {
    enum ptxmm_status status;
    int driver_result; /* the CUresult, 0 if no driver call failed */
    char text[1016];
};

/* "PTXMM_ERROR_ARGUMENT" and "an argument is invalid"; "PTXMM_ERROR_UNKNOWN" and "unknown status" for other values. */
PTXMM_API const char *ptxmm_status_name(enum ptxmm_status status);
PTXMM_API const char *ptxmm_status_text(enum ptxmm_status status);

/* 10000 * major + 100 * minor + patch of the library that is linked. */
PTXMM_API int ptxmm_version(void);

/* ---- open, close -------------------------------------------------------------------------------------------------- */

struct ptxmm;      /* an opened pack: driver table and images. One per process is enough; several do not disturb each other */
struct ptxmm_plan; /* one problem, one kernel, one context */

struct ptxmm_choice; /* a kernel that somebody chose for a product: below, with selection */

struct ptxmm_options {
    /* The driver library: a path, or a name for the dynamic linker. NULL: the environment variable PTXMM_DRIVER if it is set
     * and not empty, else "libcuda.so.1". The string is copied. */
    const char *driver;
    /* A folder with <kernel name>.ptx, offered when the driver answers NO_BINARY_FOR_GPU to a cubin: how the emulator gets
     * its text. NULL: the environment variable PTXMM_PTX_DIR, else none. */
    const char *ptx_dir;
    /* A folder with <kernel name>.cubin to use instead of the embedded images; they must have the same hashes. NULL: embedded. */
    const char *image_dir;
    /* Extra checks at every run: pointers belong to the plan's device. Costs about a microsecond a pointer. */
    int checked;
    /* Progress of rare, slow steps (driver found, image loaded), one line each, possibly from several threads. NULL: silent. */
    void (*log)(void *log_user, const char *line);
    void *log_user;
    /* Plans whose problem has no prefer.kernel take the kernel of the choice that fits, if it can serve them; of two that fit the
     * later one. Others take the fastest predicted. The list is copied; NULL and 0: none. */
    const struct ptxmm_choice *choices;
    size_t choice_count;
    uint64_t reserved[6];
};

/* Finds and initialises the driver. No kernel is loaded yet and no context is made. `options` may be NULL.
 * Errors: ARGUMENT, NO_DRIVER, DRIVER_SYMBOL, DRIVER_TOO_OLD, DRIVER, MEMORY. */
PTXMM_API enum ptxmm_status ptxmm_open(struct ptxmm **mm, const struct ptxmm_options *options, struct ptxmm_error *error);

/* Unloads every kernel and sets *mm to NULL. Accepts NULL and pointers to NULL. ERROR_BUSY, and nothing is done, while a plan
 * exists. Launched work must have finished. */
PTXMM_API enum ptxmm_status ptxmm_close(struct ptxmm **mm, struct ptxmm_error *error);

/* The path of the driver library in use, as the dynamic linker knows it, and cuDriverGetVersion's number. Owned by mm. */
PTXMM_API const char *ptxmm_driver_path(const struct ptxmm *mm);
PTXMM_API int ptxmm_driver_version(const struct ptxmm *mm);

/* Loads every kernel that the current context's device can run, for those who want no load later. Otherwise a kernel is
 * loaded when the first plan needs it. Errors: NO_CONTEXT, IMAGE, DRIVER: all others are still loaded. */
PTXMM_API enum ptxmm_status ptxmm_load_all(struct ptxmm *mm, struct ptxmm_error *error);

/* ---- the pack ----------------------------------------------------------------------------------------------------- */

/* Number of kernels, and facts of kernel `index` (NULL past the end). Indices follow ptx/kernels.def; names are the stable
 * ids. Needs no driver. */
PTXMM_API size_t ptxmm_kernel_count(void);
PTXMM_API const struct ptxmm_kernel_info *ptxmm_kernel(size_t index);
PTXMM_API const struct ptxmm_kernel_info *ptxmm_kernel_by_name(const char *name); /* NULL if there is none */

/* The embedded cubin of a kernel and its SHA-256 (64 hex digits). Valid for the life of the process. */
struct ptxmm_image {
    const void *bytes;
    size_t size;
    const char *sha256;
};
PTXMM_API enum ptxmm_status ptxmm_kernel_image(size_t index, struct ptxmm_image *image, struct ptxmm_error *error);

/* ---- devices ------------------------------------------------------------------------------------------------------ */

/* What selection needs to know of a device. Filled by ptxmm_device_query, ptxmm_device_known, or by hand. */
struct ptxmm_device {
    char name[64];
    int arch;             /* 10 * major + minor of the compute capability: 90, 100, 103 */
    int sm_count;
    int shared_bytes;     /* most dynamic shared memory of a CTA */
    int clock_khz;        /* highest SM clock */
    int64_t l2_bytes;
    int64_t memory_bytes_per_second; /* peak, read plus write */
    uint64_t reserved[4];
};

PTXMM_API enum ptxmm_status ptxmm_device_count(struct ptxmm *mm, int *count, struct ptxmm_error *error);
PTXMM_API enum ptxmm_status ptxmm_device_query(struct ptxmm *mm, int ordinal, struct ptxmm_device *device,
                                               struct ptxmm_error *error);

/* A description of a known part, without a GPU: "h200" or "sm90", "b200" or "sm100". ERROR_ARGUMENT for others. */
PTXMM_API enum ptxmm_status ptxmm_device_known(const char *name, struct ptxmm_device *device, struct ptxmm_error *error);

/* ---- the problem -------------------------------------------------------------------------------------------------- */

/* Which index of an operand is contiguous in memory. 0 is the common case of each. */
enum ptxmm_layout {
    PTXMM_K_MAJOR = 0,   /* A and B: k is contiguous: A is stored [M][K], B is stored [N][K] */
    PTXMM_MN_MAJOR = 1,  /* A and B: m or n is contiguous: A is stored [K][M], B is stored [K][N] */
    PTXMM_ROW_MAJOR = 0, /* C and D: n is contiguous: stored [M][N] */
    PTXMM_COL_MAJOR = 1  /* C and D: m is contiguous: stored [N][M] */
};

/* Which elements share a scale factor. */
enum ptxmm_scale_mode {
    PTXMM_SCALE_NONE = 0,
    PTXMM_SCALE_TENSOR = 1,      /* one factor */
    PTXMM_SCALE_VECTOR = 2,      /* one per row of A, one per column of B */
    PTXMM_SCALE_BLOCK_1X128 = 3, /* one per 128 of K in each row of A or column of B */
    PTXMM_SCALE_BLOCK_128X128 = 4,
    PTXMM_SCALE_BLOCK_1X32 = 5, /* ue8m0, multiplied in the tensor core */
    PTXMM_SCALE_BLOCK_1X16 = 6  /* ue4m3, multiplied in the tensor core */
};

/* One matrix. */
struct ptxmm_operand {
    enum ptxmm_type type;     /* PTXMM_TYPE_NONE: absent (only C may be) */
    enum ptxmm_layout layout;
    int64_t ld;               /* distance between rows (or columns) in elements; 0: packed */
    int64_t batch_stride;     /* distance between the matrices of a strided batch; 0: all share one (not D) */
    enum ptxmm_scale_mode scale;
    enum ptxmm_type scale_type;   /* NONE: f32, or what the mode says */
    enum ptxmm_layout scale_layout;
    int constant;             /* A and B: 1 promises that nothing which has not ended when a run is launched (in a graph: when its node
                               * is, at each replay), such as the previous kernel of the stream, writes this operand: its first slices
                               * may be loaded while that kernel is at its end. Weights usually are constant. What is not sure: 0 */
    int64_t scale_ld;
    uint64_t reserved[2];
};

enum ptxmm_problem_kind {
    PTXMM_DENSE = 0,
    PTXMM_BATCH_STRIDED = 1,        /* `batch` products of one size, each operand's matrices batch_stride apart */
    PTXMM_BATCH_POINTERS = 2,
    PTXMM_GROUPED_M_CONTIGUOUS = 3, /* groups are ranges of rows of A and D */
    PTXMM_GROUPED_M_MASKED = 4,     /* each group has its own number of valid rows */
    PTXMM_GROUPED_K = 5,            /* groups are ranges of K, one D each */
    PTXMM_GROUPED_POINTERS = 6
};

enum ptxmm_accumulate {
    PTXMM_ACCUMULATE_DEFAULT = 0, /* f32 for floating types, s32 for integers */
    PTXMM_ACCUMULATE_FAST = 1     /* fp8 on sm90: the tensor core's own sum is precise enough */
};
/* Hopper's tensor cores keep 13 fraction bits of a sum of fp8 products. By default that sum runs over 128 elements of K and is then
 * added to one in f32. FAST allows kernels that let it run over all of K: faster for large products, and D's error grows with K (docs/
 * numerics.md). It allows and does not demand: kernels that add in f32 remain candidates. Other types know no difference. It is what
 * CUBLASLT_MATMUL_DESC_FAST_ACCUM = 1 asks of cuBLASLt, whose default is 0 too. */

enum ptxmm_vector { PTXMM_VECTOR_NONE = 0, PTXMM_PER_ROW = 1, PTXMM_PER_COLUMN = 2 };

enum ptxmm_activation {
    PTXMM_ACTIVATION_NONE = 0,
    PTXMM_RELU = 1,
    PTXMM_GELU = 2,      /* erf form */
    PTXMM_GELU_TANH = 3,
    PTXMM_SILU = 4,
    PTXMM_RELU_GRADIENT = 5, /* multiplies by the derivative at `aux` */
    PTXMM_GELU_GRADIENT = 6,
    PTXMM_GELU_TANH_GRADIENT = 7,
    PTXMM_SILU_GRADIENT = 8
};

/* What follows alpha * A B + beta * C, in this order. */
struct ptxmm_epilogue {
    enum ptxmm_vector bias;
    enum ptxmm_type bias_type;
    enum ptxmm_activation activation;
    int gated;                   /* columns 2j and 2j+1 are gate and value of one output column */
    enum ptxmm_vector row_scale; /* PER_ROW: f32 factors per row after the activation */
    enum ptxmm_vector column_scale;
    struct ptxmm_operand aux;    /* value before the activation, written (activations) or read (gradients) */
    int amax;                    /* the largest |D| goes to an f32 */
    uint64_t reserved[4];
};

struct ptxmm_preferences {
    int deterministic;        /* 1: only kernels that give equal bits for equal inputs */
    int batch_invariant;      /* 1: a row's bits must not depend on M */
    int sm_budget;            /* use at most this many SMs, but at least one cluster; 0: all */
    int64_t workspace_limit;  /* bytes of workspace the caller will provide; 0: none */
    const char *kernel;       /* only this kernel, by name; NULL: the fastest predicted */
    int no_programmatic_launch; /* 1: do not overlap the start with the previous kernel of the stream */
    int : 32;
    /* How split and multicast kernels are launched, each 0: the fastest predicted. Kernels that cannot be launched so are rejected; all
     * others have a cluster and a number of stages of their own, 1 row and 1 group. */
    int cluster;              /* CTAs a cluster: 1, 2, 4, 8; split kernels also 3 */
    int cluster_rows;         /* ... in so many rows of tiles: 1, 2, 4, 8, a divisor of it; split kernels 1 */
    int groups;               /* clusters that share a tile's K, through the workspace: 1 to 64 */
    int stages;               /* slots of the load ring: split kernels 4 to their own number, others their own number */
    uint64_t reserved[2];
};

/* The whole problem. Zero in every optional field gives a plain dense product. */
struct ptxmm_problem {
    enum ptxmm_problem_kind kind;
    int64_t m, n, k;    /* >= 0 */
    int64_t batch;      /* products or groups; 0 counts as 1 for PTXMM_DENSE, and is an empty problem for others */
    struct ptxmm_operand a, b, c, d;
    enum ptxmm_accumulate accumulate;
    int alpha_on_device; /* alpha is read from arguments.alpha_at when the kernel runs */
    int beta_on_device;
    struct ptxmm_epilogue epilogue;
    struct ptxmm_preferences prefer;
    uint64_t reserved[8];
};

/* Is the problem well formed? Says nothing about whether a kernel exists. Needs no driver. */
PTXMM_API enum ptxmm_status ptxmm_problem_check(const struct ptxmm_problem *problem, struct ptxmm_error *error);

/* ---- selection ---------------------------------------------------------------------------------------------------- */

/* Why a kernel cannot serve a problem, as data. */
#define PTXMM_REASON_LIST(X)                                                                                     \
    X(NONE, 0, "usable")                                                                                         \
    X(ARCHITECTURE, 1, "the device has another architecture")                                                    \
    X(TYPE, 2, "the operand has another type")                                                                   \
    X(LAYOUT, 3, "the operand has another layout")                                                               \
    X(ALIGNMENT, 4, "the leading dimension or batch stride in bytes must be a multiple")                         \
    X(SIZE, 5, "the size is out of the kernel's range")                                                          \
    X(KIND, 6, "the kind of problem is not served")                                                              \
    X(SCALE, 7, "the scale mode is not served")                                                                  \
    X(EPILOGUE, 8, "the epilogue is not served")                                                                 \
    X(ACCUMULATE, 9, "the accumulation is not served")                                                           \
    X(SHARED_MEMORY, 10, "the device has too little shared memory")                                              \
    X(DETERMINISM, 11, "the kernel does not promise this")                                                       \
    X(WORKSPACE, 12, "more workspace is needed")                                                                 \
    X(NOT_ASKED, 13, "another kernel was asked for by name")                                                     \
    X(DRIVER, 14, "the driver is too old for the kernel")                                                        \
    X(IMAGE, 15, "the kernel's image is missing or damaged")                                                     \
    X(CLUSTER, 16, "too few SMs for the CTAs that must run at a time")                                           \
    X(LAUNCH, 17, "the kernel cannot be launched like this")

enum ptxmm_reason {
#define PTXMM_REASON_ENUM(name, value, text) PTXMM_REASON_##name = value,
    PTXMM_REASON_LIST(PTXMM_REASON_ENUM)
#undef PTXMM_REASON_ENUM
};

PTXMM_API const char *ptxmm_reason_name(enum ptxmm_reason reason); /* "ALIGNMENT" */
PTXMM_API const char *ptxmm_reason_text(enum ptxmm_reason reason);

/* One kernel's verdict. `field` names the member of struct ptxmm_problem or struct ptxmm_device ("a.ld", "arch"); "clusters" are
 * those that run at a time and those that must. `has` and `needs` are numbers; for types, layouts and modes they are the enum values. For ALIGNMENT `has` is in bytes and `needs` is the
 * multiple. */
struct ptxmm_candidate {
    const struct ptxmm_kernel_info *kernel;
    enum ptxmm_reason reason; /* NONE: usable */
    const char *field;
    int64_t has, needs;
    double seconds;           /* predicted time on the device; 0 if rejected */
    double waves;             /* tiles per CTA, not rounded */
    int64_t tiles;
    int64_t ctas;             /* persistent CTAs launched */
    int64_t cluster;          /* CTAs per cluster as launched ... */
    int64_t cluster_rows;     /* ... in so many rows of tiles, for kernels whose clusters have several tiles; else 1 */
    int64_t groups;           /* clusters that share a tile's K, through the workspace; 1: none */
    int64_t stages;           /* slots of the load ring as launched, and ... */
    int64_t shared_bytes;     /* ... the dynamic shared memory of a CTA that holds them */
    int64_t workspace_bytes;  /* what a run needs */
    double tensor_busy;       /* predicted share of the time in which the tensor cores work */
    double compute_seconds;   /* roofline: flops over peak rate ... */
    double memory_seconds;    /* ... and compulsory bytes over peak bandwidth */
};

/* Judges every kernel of the pack: usable ones first, fastest predicted first, then the rejected in pack order. Writes up to
 * `capacity` candidates and sets *count to the number of kernels in the pack. A pure function; needs no driver. Returns OK also
 * when no kernel is usable; errors are those of ptxmm_problem_check. */
PTXMM_API enum ptxmm_status ptxmm_select(const struct ptxmm_device *device, const struct ptxmm_problem *problem,
                                         struct ptxmm_candidate *candidates, size_t capacity, size_t *count,
                                         struct ptxmm_error *error);

/* One line for people: "sm90_gemm_bf16_128x256: a.ld is 130 bytes, must be a multiple of 16". Returns snprintf's count. */
PTXMM_API int ptxmm_candidate_describe(const struct ptxmm_candidate *candidate, char *text, size_t size);

/* What somebody measured to be the best: for this product on this device, that kernel, launched like that (ptxmm-bench --choose makes
 * such a list). What else a problem has, leading dimensions and C among it, does not count. */
struct ptxmm_choice {
    const char *device;          /* its name, as in struct ptxmm_device */
    int64_t m, n, k, batch;      /* batch 0 counts as 1 */
    enum ptxmm_type a, b, d;
    enum ptxmm_accumulate accumulate;
    const char *kernel;          /* a name that this pack has not is passed over: the list may be of another version */
    /* As in struct ptxmm_preferences, whose own count more if the problem has any. If the kernel cannot be launched like this, because the
     * workspace is less than was measured with, say, it is launched as the fastest predicted. */
    int cluster, cluster_rows, groups, stages;
    uint64_t reserved[2];
};

/* The pipeline model of a persistent kernel with `stages` load slots and `accumulators` accumulator buffers (docs/model.md has
 * the recurrences). Times are in any one unit. */
struct ptxmm_model {
    int64_t tiles;            /* tiles that one CTA computes, >= 0 */
    int64_t slices;           /* K-slices per tile, >= 0 */
    int stages;               /* >= 1 */
    int accumulators;         /* >= 1 */
    double issue;             /* between two loads */
    double load;              /* from issue to data present */
    double mma;               /* tensor core time of one slice */
    double epilogue;          /* of one tile */
    uint64_t reserved[4];
};
struct ptxmm_model_result {
    double time;        /* end of the last epilogue */
    double tensor_busy; /* tiles * slices * mma / time */
};
PTXMM_API enum ptxmm_status ptxmm_model_run(const struct ptxmm_model *model, struct ptxmm_model_result *result,
                                            struct ptxmm_error *error);

/* ---- plans -------------------------------------------------------------------------------------------------------- */

/* Chooses a kernel, loads it if need be, encodes its tensor maps. Belongs to the calling thread's current CUDA context. `device`
 * overrides the description of that context's device for selection; NULL: it is queried. The problem is copied. The caller owns
 * *plan. When no kernel is usable: ERROR_NO_KERNEL, and the text gives the kernels' reasons, of those that came closest first, as
 * far as they fit; ptxmm_select gives them all as data. */
PTXMM_API enum ptxmm_status ptxmm_plan_create(struct ptxmm *mm, const struct ptxmm_problem *problem,
                                              const struct ptxmm_device *device, struct ptxmm_plan **plan,
                                              struct ptxmm_error *error);

/* Frees the plan and sets *plan to NULL; accepts NULL and pointers to NULL. Work already launched is not disturbed. */
PTXMM_API void ptxmm_plan_destroy(struct ptxmm_plan **plan);

/* The chosen kernel and its numbers, the grid, and the workspace bytes a run needs. Owned by the plan. For an empty problem (M, N or
 * the batch is 0) the kernel is NULL and a run does nothing. */
struct ptxmm_plan_info {
    struct ptxmm_candidate candidate;
    uint32_t grid, threads, cluster, shared_bytes;
    int64_t workspace_bytes;
};
PTXMM_API const struct ptxmm_plan_info *ptxmm_plan_info(const struct ptxmm_plan *plan);

/* Buffers of one run: device addresses, 0 where the problem has no such operand. */
struct ptxmm_arguments {
    uint64_t a, b, c, d;
    float alpha, beta;           /* used unless the problem says they are on the device */
    uint64_t alpha_at, beta_at;  /* device addresses of one float each */
    uint64_t a_scale, b_scale, c_scale, d_scale;
    uint64_t bias, row_scale, column_scale, aux, amax;
    uint64_t a_pointers, b_pointers, c_pointers, d_pointers; /* arrays of addresses, for BATCH_POINTERS and GROUPED_POINTERS */
    uint64_t group_sizes;        /* int32 per group, for the grouped kinds */
    /* At least plan_info.workspace_bytes, 16-byte aligned, its first PTXMM_WORKSPACE_COUNTERS bytes ZERO before its first use; every
     * run leaves the zeros that the next one needs, of this plan or another. Runs that may overlap need a workspace each. */
    uint64_t workspace;
    int64_t workspace_bytes;
    uint64_t reserved[8];
};

/* Launches on `stream` (a CUstream, as void *; NULL is the default stream) and returns. Takes no lock, allocates nothing,
 * synchronises nothing, and may be captured into a graph. A and B are not read when K is 0 or alpha is 0; C is not read when beta
 * is 0. Everything but the elements of D is left as it was, what lies between its rows and between the matrices of a batch too.
 * Errors: ARGUMENT (a null or misaligned address, too small a workspace), WRONG_CONTEXT, FORKED, DRIVER, CONTEXT_FAULTED. */
PTXMM_API enum ptxmm_status ptxmm_plan_run(const struct ptxmm_plan *plan, const struct ptxmm_arguments *arguments,
                                           void *stream, struct ptxmm_error *error);

#ifdef __cplusplus
}
#endif
#endif
