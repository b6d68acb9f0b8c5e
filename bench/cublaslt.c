/* cublaslt.c -- finds cuBLASLt and calls it.
 *
 * cuBLASLt thinks column-major. Our row-major D[M,N] is its column-major N x M matrix, so it is asked for
 * D' = B' A' with B as the first operand:
 *
 *     ours                     in column-major words       needed as    so
 *     B K-major   [N][K]       K x N, ld                   N x K        transposed
 *     B MN-major  [K][N]       N x K, ld                   N x K        plain
 *     A K-major   [M][K]       K x M, ld                   K x M        plain
 *     A MN-major  [K][M]       M x K, ld                   K x M        transposed
 */
#define _GNU_SOURCE
#include "cublaslt.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of the published interface. */
enum {
    LT_OP_N = 0,
    LT_OP_T = 1,
    LT_COMPUTE_32F = 68,
    LT_R_32F = 0,
    LT_R_16F = 2,
    LT_R_16BF = 14,
    LT_R_8F_E4M3 = 28,
    LT_R_8F_E5M2 = 29,
    LT_DESC_TRANSA = 3,
    LT_DESC_TRANSB = 4,
    LT_DESC_A_SCALE_POINTER = 17,
    LT_DESC_B_SCALE_POINTER = 18,
    LT_DESC_FAST_ACCUM = 25,
    LT_LAYOUT_BATCH_COUNT = 5,
    LT_LAYOUT_BATCH_STRIDE = 6,
    LT_PREFERENCE_MAX_WORKSPACE = 1
};

struct lt_algorithm {
    uint64_t data[8];
};

struct lt_heuristic {
    struct lt_algorithm algorithm;
    size_t workspace_bytes;
    int status;
    float waves;
    int reserved[4];
};

/* One row per entry point: result, name without prefix, parameters. */
#define LT_FUNCTIONS(X)                                                                             \
    X(int, Create, (void **handle))                                                                 \
    X(int, Destroy, (void *handle))                                                                 \
    X(size_t, GetVersion, (void))                                                                   \
    X(const char *, GetStatusName, (int status))                                                    \
    X(int, MatmulDescCreate, (void **desc, int compute, int scale_type))                            \
    X(int, MatmulDescDestroy, (void *desc))                                                         \
    X(int, MatmulDescSetAttribute, (void *desc, int attribute, const void *value, size_t size))     \
    X(int, MatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld)) \
    X(int, MatrixLayoutDestroy, (void *layout))                                                     \
    X(int, MatrixLayoutSetAttribute, (void *layout, int attribute, const void *value, size_t size)) \
    X(int, MatmulPreferenceCreate, (void **preference))                                             \
    X(int, MatmulPreferenceDestroy, (void *preference))                                             \
    X(int, MatmulPreferenceSetAttribute, (void *preference, int attribute, const void *value, size_t size)) \
    X(int, MatmulAlgoGetHeuristic,                                                                  \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,  \
       struct lt_heuristic *results, int *found))                                                   \
    X(int, Matmul,                                                                                  \
      (void *handle, void *desc, const void *alpha, uint64_t a, void *a_layout, uint64_t b,         \
       void *b_layout, const void *beta, uint64_t c, void *c_layout, uint64_t d, void *d_layout,    \
       const struct lt_algorithm *algorithm, uint64_t workspace, size_t workspace_bytes, void *stream))

struct cublaslt {
    void *library;
    void *handle;
    char path[512];
#define LT_MEMBER(result, name, parameters) result(*name) parameters;
    LT_FUNCTIONS(LT_MEMBER)
#undef LT_MEMBER
};

struct cublaslt_matmul {
    struct cublaslt *lt;
    void *desc, *a, *b, *d;
    size_t workspace_bytes;
    int count;
    struct lt_heuristic algorithms[CUBLASLT_MAX_ALGORITHMS];
};

/* ---- finding it ----------------------------------------------------------------------------------------------- */

/* Where the toolkit and pip put it, as glob patterns; the newest major version first. A leading ~ is $HOME, $ the named
 * environment variable. */
static const char *const places[] = {
    "$CUDA_HOME/lib64/libcublasLt.so.1[23]",
    "$CUDA_HOME/lib/libcublasLt.so.1[23]",
    "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib/libcublasLt.so.1[23]",
    "/usr/local/cuda/lib64/libcublasLt.so.1[23]",
    "/usr/local/cuda*/lib*/libcublasLt.so.1[23]",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1[23]",
    "/usr/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1[23]",
    "/opt/*/lib/python3*/site-packages/nvidia/*/lib/libcublasLt.so.1[23]",
    "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib/libcublasLt.so.1[23]",
    "$HOME/.local/lib/python3*/site-packages/nvidia/*/lib/libcublasLt.so.1[23]",
};

/* Replaces a leading $NAME. 0 when the variable is not set. */
static int expand(const char *pattern, char *out, size_t size)
{
    if (pattern[0] != '$') {
        snprintf(out, size, "%s", pattern);
        return 1;
    }
    const char *rest = strchr(pattern, '/');
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(rest - pattern - 1), pattern + 1);
    const char *value = getenv(name);
    if (!value || !*value) return 0;
    snprintf(out, size, "%s%s", value, rest);
    return 1;
}

static void *open_anywhere(void)
{
    static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char pattern[512];
        if (!expand(places[i], pattern, sizeof pattern)) continue;
        glob_t found;
        void *library = NULL;
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t j = found.gl_pathc; j-- > 0 && !library;) /* .13 sorts after .12 */
                library = dlopen(found.gl_pathv[j], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
        if (library) return library;
    }
    return NULL;
}

/* dlsym returns an object pointer; copying its bits is what POSIX asks for. Status names live in cublas, which need
 * not be there: cublasLtGetStatusName is the one of this library. */
static int bind(struct cublaslt *lt, char *why, size_t why_size)
{
    const struct {
        const char *name;
        void *slot;
    } rows[] = {
#define LT_ROW(result, name, parameters) { "cublasLt" #name, &lt->name },
        LT_FUNCTIONS(LT_ROW)
#undef LT_ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(lt->library, rows[i].name);
        if (!symbol) {
            snprintf(why, why_size, "%s lacks %s", lt->path, rows[i].name);
            return -1;
        }
        memcpy(rows[i].slot, &symbol, sizeof symbol);
    }
    return 0;
}

int cublaslt_open(struct cublaslt **out, const char *path, char *why, size_t why_size)
{
    *out = NULL;
    struct cublaslt *lt = calloc(1, sizeof *lt);
    if (!lt) {
        snprintf(why, why_size, "host memory is exhausted");
        return -1;
    }
    if (!path || !*path) path = getenv("PTXMM_CUBLASLT");
    const int named = path && *path;
    lt->library = named ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : open_anywhere();
    if (!lt->library) {
        if (named)
            snprintf(why, why_size, "cannot load %s: %s", path, dlerror());
        else
            snprintf(why, why_size,
                     "no libcublasLt.so.13 or .12 in the dynamic linker's places, $CUDA_HOME, /usr/local/cuda* or "
                     "Python's packages; name it in PTXMM_CUBLASLT or --cublaslt");
        goto fail;
    }
    Dl_info info;
    void *any = dlsym(lt->library, "cublasLtCreate");
    if (any && dladdr(any, &info) && info.dli_fname) snprintf(lt->path, sizeof lt->path, "%s", info.dli_fname);
    if (bind(lt, why, why_size)) goto fail;
    const int status = lt->Create(&lt->handle);
    if (status) {
        snprintf(why, why_size, "cublasLtCreate of %s failed: %s", lt->path, lt->GetStatusName(status));
        goto fail;
    }
    *out = lt;
    return 0;
fail:
    cublaslt_close(&lt);
    return -1;
}

void cublaslt_close(struct cublaslt **lt)
{
    if (!lt || !*lt) return;
    if ((*lt)->handle) (*lt)->Destroy((*lt)->handle);
    if ((*lt)->library) dlclose((*lt)->library);
    free(*lt);
    *lt = NULL;
}

const char *cublaslt_path(const struct cublaslt *lt)
{
    return lt->path;
}

size_t cublaslt_version(const struct cublaslt *lt)
{
    return lt->GetVersion();
}

const char *cublaslt_status(const struct cublaslt *lt, int status)
{
    return lt->GetStatusName(status);
}

/* ---- one problem ---------------------------------------------------------------------------------------------- */

static int lt_type(enum ptxmm_type type)
{
    switch (type) {
    case PTXMM_BF16: return LT_R_16BF;
    case PTXMM_F16: return LT_R_16F;
    case PTXMM_F32: return LT_R_32F;
    case PTXMM_E4M3: return LT_R_8F_E4M3;
    case PTXMM_E5M2: return LT_R_8F_E5M2;
    default: return -1;
    }
}

/* A matrix of `rows` x `cols` as column-major sees it, with its batch. */
static int layout_create(struct cublaslt *lt, const struct ptxmm_operand *operand, int64_t rows, int64_t cols,
                         int32_t batch, void **layout)
{
    int status = lt->MatrixLayoutCreate(layout, lt_type(operand->type), (uint64_t)rows, (uint64_t)cols,
                                        operand->ld ? operand->ld : rows);
    if (!status && batch > 1) {
        status = lt->MatrixLayoutSetAttribute(*layout, LT_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
        if (!status)
            status = lt->MatrixLayoutSetAttribute(*layout, LT_LAYOUT_BATCH_STRIDE, &operand->batch_stride,
                                                  sizeof operand->batch_stride);
    }
    return status;
}

/* What fp8 adds: scales of A and B, and how it is added up. */
static int describe_fp8(struct cublaslt *lt, void *desc, const struct ptxmm_problem *p, uint64_t one)
{
    const int8_t fast = p->accumulate == PTXMM_ACCUMULATE_FAST;
    int status = lt->MatmulDescSetAttribute(desc, LT_DESC_FAST_ACCUM, &fast, sizeof fast);
    if (!status) status = lt->MatmulDescSetAttribute(desc, LT_DESC_A_SCALE_POINTER, &one, sizeof one);
    if (!status) status = lt->MatmulDescSetAttribute(desc, LT_DESC_B_SCALE_POINTER, &one, sizeof one);
    return status;
}

int cublaslt_matmul_create(struct cublaslt *lt, const struct ptxmm_problem *p, uint64_t one, size_t workspace_bytes,
                           struct cublaslt_matmul **out, char *why, size_t why_size)
{
    *out = NULL;
    if (lt_type(p->a.type) < 0 || lt_type(p->b.type) < 0 || lt_type(p->d.type) < 0 || p->kind > PTXMM_BATCH_STRIDED ||
        p->d.layout != PTXMM_ROW_MAJOR) {
        snprintf(why, why_size, "the bench compares only bf16, f16, f32 and fp8, dense or strided, with D row-major");
        return -1;
    }
    struct cublaslt_matmul *mm = calloc(1, sizeof *mm);
    void *preference = NULL;
    if (!mm) {
        snprintf(why, why_size, "host memory is exhausted");
        return -1;
    }
    mm->lt = lt;
    mm->workspace_bytes = workspace_bytes;
    const int a_k = p->a.layout == PTXMM_K_MAJOR, b_k = p->b.layout == PTXMM_K_MAJOR;
    const int32_t first = b_k ? LT_OP_T : LT_OP_N, second = a_k ? LT_OP_N : LT_OP_T;
    const int32_t batch = p->kind == PTXMM_BATCH_STRIDED ? (int32_t)p->batch : 1;

    const char *call = "cublasLtMatmulDescCreate";
    int status = lt->MatmulDescCreate(&mm->desc, LT_COMPUTE_32F, LT_R_32F);
    if (status) goto fail;
    call = "cublasLtMatmulDescSetAttribute";
    status = lt->MatmulDescSetAttribute(mm->desc, LT_DESC_TRANSA, &first, sizeof first);
    if (status) goto fail;
    status = lt->MatmulDescSetAttribute(mm->desc, LT_DESC_TRANSB, &second, sizeof second);
    if (status) goto fail;

    if (p->a.type == PTXMM_E4M3 || p->a.type == PTXMM_E5M2) status = describe_fp8(lt, mm->desc, p, one);
    if (status) goto fail;

    call = "cublasLtMatrixLayoutCreate";
    status = layout_create(lt, &p->a, a_k ? p->k : p->m, a_k ? p->m : p->k, batch, &mm->a);
    if (status) goto fail;
    status = layout_create(lt, &p->b, b_k ? p->k : p->n, b_k ? p->n : p->k, batch, &mm->b);
    if (status) goto fail;
    status = layout_create(lt, &p->d, p->n, p->m, batch, &mm->d);
    if (status) goto fail;

    call = "cublasLtMatmulPreferenceCreate";
    status = lt->MatmulPreferenceCreate(&preference);
    if (status) goto fail;
    call = "cublasLtMatmulPreferenceSetAttribute";
    status = lt->MatmulPreferenceSetAttribute(preference, LT_PREFERENCE_MAX_WORKSPACE, &workspace_bytes,
                                              sizeof workspace_bytes);
    if (status) goto fail;
    call = "cublasLtMatmulAlgoGetHeuristic";
    status = lt->MatmulAlgoGetHeuristic(lt->handle, mm->desc, mm->b, mm->a, mm->d, mm->d, preference,
                                        CUBLASLT_MAX_ALGORITHMS, mm->algorithms, &mm->count);
    if (status) goto fail;
    int kept = 0;
    for (int i = 0; i < mm->count; i++)
        if (mm->algorithms[i].status == 0) mm->algorithms[kept++] = mm->algorithms[i];
    mm->count = kept;
    if (!kept) goto fail;

    lt->MatmulPreferenceDestroy(preference);
    *out = mm;
    return 0;
fail:
    if (status)
        snprintf(why, why_size, "%s: %s", call, lt->GetStatusName(status));
    else
        snprintf(why, why_size, "cuBLASLt offers no algorithm for this problem");
    if (preference) lt->MatmulPreferenceDestroy(preference);
    cublaslt_matmul_destroy(&mm);
    return -1;
}

void cublaslt_matmul_destroy(struct cublaslt_matmul **matmul)
{
    if (!matmul || !*matmul) return;
    struct cublaslt_matmul *mm = *matmul;
    if (mm->a) mm->lt->MatrixLayoutDestroy(mm->a);
    if (mm->b) mm->lt->MatrixLayoutDestroy(mm->b);
    if (mm->d) mm->lt->MatrixLayoutDestroy(mm->d);
    if (mm->desc) mm->lt->MatmulDescDestroy(mm->desc);
    free(mm);
    *matmul = NULL;
}

int cublaslt_matmul_algorithms(const struct cublaslt_matmul *matmul)
{
    return matmul->count;
}

int cublaslt_matmul_run(const struct cublaslt_matmul *mm, int algorithm, const struct ptxmm_arguments *arguments,
                        uint64_t workspace, void *stream)
{
    return mm->lt->Matmul(mm->lt->handle, mm->desc, &arguments->alpha, arguments->b, mm->b, arguments->a, mm->a,
                          &arguments->beta, arguments->d, mm->d, arguments->d, mm->d,
                          &mm->algorithms[algorithm].algorithm, workspace, mm->workspace_bytes, stream);
}
