/* gemm_case.c -- see gemm_case.h. */
#define _GNU_SOURCE
#include "gemm_case.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the rig -------------------------------------------------------------------------------------------------- */

/* <folder of this program>/relative */
static bool beside(const char *relative, char *path, size_t size)
{
    char self[900];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return false;
    self[length] = 0;
    *strrchr(self, '/') = 0;
    snprintf(path, size, "%s/%s", self, relative);
    return access(path, R_OK) == 0;
}

bool rig_emulator_path(char *path, size_t size)
{
    return beside("../lib/libptxmm_emulator.so", path, size);
}

static bool open_pack(struct rig *rig, const char *driver)
{
    struct ptxmm_error error;
    const struct ptxmm_options options = {
        .driver = driver,
        .ptx_dir =
            beside("../ptx", rig->ptx_dir, sizeof rig->ptx_dir) && !getenv("PTXMM_PTX_DIR") ? rig->ptx_dir : NULL,
    };
    if (getenv("PTXMM_PTX_DIR")) snprintf(rig->ptx_dir, sizeof rig->ptx_dir, "%s", getenv("PTXMM_PTX_DIR"));
    if (ptxmm_open(&rig->mm, &options, &error) == PTXMM_OK) return true;
    snprintf(rig->error, sizeof rig->error, "%s", error.text);
    return false;
}

bool rig_open(struct rig *rig, const char *driver)
{
    memset(rig, 0, sizeof *rig);
    const char *seed = getenv("PTXMM_SEED"), *extent = getenv("PTXMM_TEST"), *chosen = getenv("PTXMM_DRIVER");
    char *end = NULL;
    rig->asked = true;
    errno = 0;
    rig->seed = seed && *seed ? strtoull(seed, &end, 0) : 1;
    if (errno || (end && *end)) {
        snprintf(rig->error, sizeof rig->error, "PTXMM_SEED is \"%s\", must be an integer", seed);
        return false;
    }
    if (extent && *extent && strcmp(extent, "quick") && strcmp(extent, "full")) {
        snprintf(rig->error, sizeof rig->error, "PTXMM_TEST is \"%s\", must be quick or full", extent);
        return false;
    }
    rig->asked = driver || (chosen && *chosen);
    if (!open_pack(rig, driver)) {
        char path[1000];
        if (rig->asked || !rig_emulator_path(path, sizeof path) || !open_pack(rig, path)) return false;
    }
    struct ptxmm_error error;
    if (!gpu_open(&rig->gpu, ptxmm_driver_path(rig->mm), 0)) {
        snprintf(rig->error, sizeof rig->error, "%s", rig->gpu.error);
        goto fail;
    }
    if (ptxmm_device_query(rig->mm, 0, &rig->device, &error)) {
        snprintf(rig->error, sizeof rig->error, "%s", error.text);
        goto fail;
    }
    rig->full = extent && *extent ? strcmp(extent, "full") == 0 : !gpu_is_emulator(&rig->gpu);
    return true;
fail:
    gpu_close(&rig->gpu);
    ptxmm_close(&rig->mm, NULL);
    return false;
}

void rig_close(struct rig *rig)
{
    ptxmm_close(&rig->mm, NULL);
    gpu_close(&rig->gpu);
}

bool rig_revive(struct rig *rig)
{
    struct gpu *gpu = &rig->gpu;
    if (gpu->CtxSynchronize() == CUDA_SUCCESS) return true;
    if (!gpu->DevicePrimaryCtxReset) return false;
    if (gpu->DevicePrimaryCtxReset(gpu->device) != CUDA_SUCCESS) return false;
    if (gpu->DevicePrimaryCtxRetain(&gpu->context, gpu->device) != CUDA_SUCCESS) return false;
    return gpu->CtxSetCurrent(gpu->context) == CUDA_SUCCESS && gpu->CtxSynchronize() == CUDA_SUCCESS;
}

bool rig_runs(const struct rig *rig, const struct ptxmm_kernel_info *kernel, char *why, size_t size)
{
    int target = 0;
    char suffix = 0;
    sscanf(kernel->target, "sm_%d%c", &target, &suffix);
    const bool family = suffix == 'f' && rig->device.arch / 10 == target / 10 && rig->device.arch >= target;
    if (rig->device.arch != target && !family) {
        snprintf(why, size, "%s is sm_%d, the kernel needs %s", rig->device.name, rig->device.arch, kernel->target);
        return false;
    }
    if ((int)kernel->cluster > rig->device.sm_count) {
        snprintf(why, size, "%s has %d SM, the kernel's clusters have %u", rig->device.name, rig->device.sm_count,
                 kernel->cluster);
        return false;
    }
    return true;
}

/* ---- a case --------------------------------------------------------------------------------------------------- */

static enum ptxmm_type concrete(enum ptxmm_type of_kernel, enum ptxmm_type wanted)
{
    if (of_kernel != PTXMM_BF16_OR_F16) return of_kernel;
    return wanted ? wanted : PTXMM_BF16;
}

enum ptxmm_type gemm_type_a(const struct gemm_case *c)
{
    return concrete(c->kernel->a, c->a);
}

enum ptxmm_type gemm_type_b(const struct gemm_case *c)
{
    return concrete(c->kernel->b, c->b);
}

enum ptxmm_type gemm_type_d(const struct gemm_case *c)
{
    return concrete(c->kernel->d, c->d);
}

enum ptxmm_accumulate gemm_accumulate(const struct ptxmm_kernel_info *kernel)
{
    return type_is_fp8(kernel->a) && !kernel->promotion ? PTXMM_ACCUMULATE_FAST : PTXMM_ACCUMULATE_DEFAULT;
}

/* Elements between rows of a matrix with `cols` columns: 16-byte aligned, with `pad` more units. */
static int64_t leading(enum ptxmm_type type, int64_t cols, int64_t pad)
{
    const int64_t unit = 16 / (int64_t)type_bytes(type);
    return ((cols > 0 ? cols : 1) + unit - 1) / unit * unit + pad * unit;
}

const char *gemm_describe(const struct gemm_case *c, char *text, size_t size)
{
    static const char *const contents[] = { "normal", "NaN", "D" };
    const enum ptxmm_type a = gemm_type_a(c), b = gemm_type_b(c), d = gemm_type_d(c);
    int at = snprintf(
        text, size,
        "%s %s x %s -> %s M=%lld N=%lld K=%lld lda=%lld ldb=%lld ldd=%lld fill=%s seed=%llu alpha=%g beta=%g%s",
        c->kernel->name, type_name(a), type_name(b), type_name(d), (long long)c->m, (long long)c->n, (long long)c->k,
        (long long)leading(a, c->k, c->pad_a), (long long)leading(b, c->k, c->pad_b),
        (long long)leading(d, c->n, c->pad_d), fill_name(c->fill), (unsigned long long)c->seed, (double)c->alpha,
        (double)c->beta, c->scalars == SCALARS_ON_DEVICE ? " on device" : "");
#define MORE(condition, ...) \
    if ((condition) && at > 0 && (size_t)at < size) at += snprintf(text + at, size - (size_t)at, __VA_ARGS__)
    MORE(c->with_c, " C=%s ldc=%lld", contents[c->c], (long long)leading(d, c->n, c->pad_c));
    MORE(c->nan_row, " A row %lld NaN", (long long)c->nan_row - 1);
    MORE(c->inf_at, " A[%lld][%lld] infinite", (long long)((c->inf_at - 1) / c->k),
         (long long)((c->inf_at - 1) % c->k));
    MORE(c->nan_a, " A all NaN");
    MORE(c->sm_budget, " sm_budget=%d", c->sm_budget);
    MORE(c->exact_allocations, " exact allocations");
    MORE(c->no_programmatic_launch, " no programmatic launch");
    MORE(c->constant_a || c->constant_b, " constant=%s", constant_name(c->constant_a, c->constant_b));
    MORE(c->workspace_limit, " workspace limit %lld", (long long)c->workspace_limit);
    MORE(c->cluster, " clusters of %d", c->cluster);
    MORE(c->cluster_rows, " in %d rows", c->cluster_rows);
    MORE(c->groups, " %d groups", c->groups);
    MORE(c->stages, " %d stages", c->stages);
#undef MORE
    return text;
}

int gemm_budget(const struct ptxmm_kernel_info *kernel, int budget)
{
    return kernel->algorithm == PTXMM_MULTICAST ? 0 : budget;
}

static int64_t choose(uint64_t key, uint64_t counter, const int64_t *list, size_t count)
{
    return list[random_range(key, counter, 0, (int64_t)count - 1)];
}
#define CHOOSE(key, counter, list) choose(key, counter, list, sizeof(list) / sizeof *(list))

/* The kernels that the device runs take turns. */
static const struct ptxmm_kernel_info *take_turns(const struct rig *rig, uint64_t index)
{
    char why[256];
    size_t usable = 0, i;
    for (i = 0; i < ptxmm_kernel_count(); i++) usable += rig_runs(rig, ptxmm_kernel(i), why, sizeof why);
    uint64_t turn = usable ? index % usable : 0;
    for (i = 0; i + 1 < ptxmm_kernel_count(); i++)
        if (rig_runs(rig, ptxmm_kernel(i), why, sizeof why) && turn-- == 0) break;
    return ptxmm_kernel(i);
}

void gemm_random(const struct rig *rig, uint64_t index, struct gemm_case *c)
{
    static const float alphas[] = { 1, 1, 1, 2, -0.5f, 0.3f, 0 };
    static const float betas[] = { 0, 0, 1, -1.5f, 0.7f };
    static const enum ptxmm_type halves[] = { PTXMM_BF16, PTXMM_F16 };
    const uint64_t seed = rig->seed, key = random_key(seed + index, STREAM_SHAPE);
    const struct ptxmm_kernel_info *kernel = take_turns(rig, index);
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k, ring = tk * kernel->stages;
    /* Half of each size is an edge, half is anything: a list of edges alone would never meet the rest. */
    const int64_t ms[] = { 1, 2, 17, 33, tm - 1, tm, tm + 1, 2 * tm + 5 };
    const int64_t ns[] = { 1, 2, 8, 15, 70, tn - 1, tn, tn + 1, tn + 8 };
    const int64_t ks[] = { 0, 1, 7, 8, tk - 1, tk, tk + 1, 2 * tk + 3, ring - 8, ring, ring + 8 };
    *c = (struct gemm_case){
        .kernel = kernel,
        .m = random_range(key, 0, 0, 1) ? CHOOSE(key, 1, ms) : random_range(key, 1, 1, 2 * tm),
        .n = random_range(key, 2, 0, 1) ? CHOOSE(key, 3, ns) : random_range(key, 3, 1, tn + tn / 2),
        .k = random_range(key, 4, 0, 1) ? CHOOSE(key, 5, ks) : random_range(key, 5, 1, ring + tk),
        .pad_a = random_range(key, 6, 0, 2),
        .pad_b = random_range(key, 7, 0, 2),
        .pad_c = random_range(key, 8, 0, 2),
        .pad_d = random_range(key, 9, 0, 2),
        .fill = (enum matrix_fill)random_range(key, 10, 0, FILL_COUNT - 1),
        .seed = seed + index,
        .alpha = alphas[random_range(key, 11, 0, sizeof alphas / sizeof *alphas - 1)],
        .beta = betas[random_range(key, 12, 0, sizeof betas / sizeof *betas - 1)],
        .c = random_range(key, 13, 0, 3) ? C_NORMAL : C_IS_D,
        .scalars = random_range(key, 14, 0, 3) ? SCALARS_ON_HOST : SCALARS_ON_DEVICE,
        .sm_budget = gemm_budget(kernel, (int)random_range(key, 15, 0, 3)),
        .a = halves[random_range(key, 20, 0, 1)],
        .b = halves[random_range(key, 21, 0, 1)],
        .d = halves[random_range(key, 22, 0, 1)],
        .constant_a = (int)random_range(key, 23, 0, 1),
        .constant_b = (int)random_range(key, 24, 0, 1),
    };
    c->with_c = c->beta != 0;
    /* Groups, from a K that is worth them. */
    if ((kernel->algorithm == PTXMM_SPLIT || kernel->algorithm == PTXMM_MULTICAST) && random_range(key, 23, 0, 1)) {
        c->workspace_limit = 64 << 20;
        if (random_range(key, 24, 0, 1)) c->k = random_range(key, 25, ring, 8 * ring);
    }
    if (c->k && random_range(key, 16, 0, 7) == 0) c->nan_row = random_range(key, 17, 1, c->m);
    if (c->k && random_range(key, 18, 0, 7) == 0) c->inf_at = random_range(key, 19, 1, c->m * c->k);
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* `bytes` that end (up to 15 bytes) where the mapped memory ends, with an unmapped page behind them. */
static bool map_block(struct gpu *gpu, struct device_block *block, size_t bytes)
{
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->device },
    };
    const CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    size_t page = 0;
    if (!gpu_ok(gpu, gpu->MemGetAllocationGranularity(&page, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                "cuMemGetAllocationGranularity"))
        return false;
    const size_t mapped = round_up(bytes, page);
    if (!gpu_ok(gpu, gpu->MemAddressReserve(&block->base, mapped + page, 0, 0, 0), "cuMemAddressReserve")) return false;
    block->mapped = mapped;
    block->reserved = mapped + page;
    if (!gpu_ok(gpu, gpu->MemCreate(&block->handle, mapped, &prop, 0), "cuMemCreate")) return false;
    if (!gpu_ok(gpu, gpu->MemMap(block->base, mapped, 0, block->handle, 0), "cuMemMap")) return false;
    if (!gpu_ok(gpu, gpu->MemSetAccess(block->base, mapped, &access, 1), "cuMemSetAccess")) return false;
    block->address = block->base + mapped - round_up(bytes, 16);
    return true;
}

/* Pages need a few calls that a driver may lack; an ordinary allocation of exactly `bytes` is the next best (an
 * emulator ends it where it was asked to). */
static bool block_create(struct gpu *gpu, struct device_block *block, size_t bytes, bool exact)
{
    const bool pages = gpu->MemGetAllocationGranularity && gpu->MemAddressReserve && gpu->MemCreate && gpu->MemMap &&
                       gpu->MemSetAccess && gpu->MemUnmap && gpu->MemRelease && gpu->MemAddressFree;
    if (exact && pages && !gpu_is_emulator(gpu)) return map_block(gpu, block, bytes);
    block->base = block->address = gpu_alloc(gpu, bytes ? bytes : 1);
    return block->base != 0;
}

static void block_release(struct gpu *gpu, struct device_block *block)
{
    if (block->mapped) {
        gpu->MemUnmap(block->base, block->mapped);
        if (block->handle) gpu->MemRelease(block->handle);
        gpu->MemAddressFree(block->base, block->reserved);
    } else {
        gpu_free(gpu, block->base);
    }
    memset(block, 0, sizeof *block);
}

/* What of a matrix the device holds: all with its guards, or from the first element to the last. */
static size_t held_bytes(const struct matrix *x, bool exact)
{
    if (!exact) return x->bytes;
    return x->rows && x->cols ? ((size_t)(x->rows - 1) * (size_t)x->ld + (size_t)x->cols) * x->size : 0;
}

static bool upload(struct rig *rig, struct device_block *block, const struct matrix *x, bool exact)
{
    const size_t bytes = held_bytes(x, exact);
    if (!block->base) {
        if (!block_create(&rig->gpu, block, bytes, exact)) return false;
        if (!exact) block->address += x->guard;
    }
    if (!bytes) return true;
    return exact ? gpu_upload(&rig->gpu, block->address, x->data, bytes)
                 : gpu_upload(&rig->gpu, block->base, x->base, bytes);
}

/* ---- a run ---------------------------------------------------------------------------------------------------- */

static bool failed(struct gemm_run *run, const char *text)
{
    snprintf(run->error, sizeof run->error, "%s", text);
    return false;
}

static bool make_matrices(struct gemm_run *run)
{
    const struct gemm_case *c = run->c;
    const enum ptxmm_type a = gemm_type_a(c), b = gemm_type_b(c), d = gemm_type_d(c);
    const enum matrix_role c_role = c->c == C_IS_D ? MATRIX_OUTPUT : MATRIX_INPUT;
    const int64_t ldd = leading(d, c->n, c->pad_d);
    const int64_t ldc = c->c == C_IS_D ? ldd : leading(d, c->n, c->pad_c);
    if (!matrix_create(&run->a, a, c->m, c->k, leading(a, c->k, c->pad_a), MATRIX_INPUT) ||
        !matrix_create(&run->b, b, c->n, c->k, leading(b, c->k, c->pad_b), MATRIX_INPUT) ||
        !matrix_create(&run->d, d, c->m, c->n, ldd, MATRIX_OUTPUT))
        return failed(run, "host memory is exhausted");
    if (!c->nan_a) matrix_fill(&run->a, c->fill, c->seed, STREAM_A); /* else as created: NaN everywhere */
    matrix_fill(&run->b, c->fill, c->seed, STREAM_B);
    if (c->nan_row)
        for (int64_t k = 0; k < c->k; k++) matrix_set(&run->a, c->nan_row - 1, k, NAN);
    if (c->inf_at) matrix_set(&run->a, (c->inf_at - 1) / c->k, (c->inf_at - 1) % c->k, INFINITY);
    if (!c->with_c) return true;
    if (!matrix_create(&run->cm, d, c->m, c->n, ldc, c_role)) return failed(run, "host memory is exhausted");
    if (c->c == C_NAN)
        for (int64_t m = 0; m < c->m; m++)
            for (int64_t n = 0; n < c->n; n++) matrix_set(&run->cm, m, n, NAN);
    else
        matrix_fill(&run->cm, fill_is_exact(c->fill) ? FILL_SMALL_INT : FILL_NORMAL, c->seed, STREAM_C);
    return true;
}

static bool make_plan(struct rig *rig, struct gemm_run *run)
{
    const struct gemm_case *c = run->c;
    const bool alpha_there = c->scalars == SCALARS_ON_DEVICE;
    const bool beta_there = alpha_there && c->with_c; /* the library wants a C where beta is on the device */
    const struct ptxmm_problem problem = {
        .m = c->m, .n = c->n, .k = c->k,
        .a = { .type = run->a.type, .ld = run->a.ld, .constant = c->constant_a },
        .b = { .type = run->b.type, .ld = run->b.ld, .constant = c->constant_b },
        .c = { .type = c->with_c ? run->cm.type : PTXMM_TYPE_NONE, .ld = run->cm.ld },
        .d = { .type = run->d.type, .ld = run->d.ld },
        .accumulate = gemm_accumulate(c->kernel),
        .alpha_on_device = alpha_there,
        .beta_on_device = beta_there,
        .prefer = { .kernel = c->kernel->name, .sm_budget = gemm_budget(c->kernel, c->sm_budget),
                    .no_programmatic_launch = c->no_programmatic_launch, .workspace_limit = c->workspace_limit,
                    .cluster = c->cluster, .cluster_rows = c->cluster_rows, .groups = c->groups,
                    .stages = c->stages },
    };
    struct ptxmm_error error;
    if (ptxmm_plan_create(rig->mm, &problem, NULL, &run->plan, &error)) return failed(run, error.text);
    run->arguments = (struct ptxmm_arguments){
        .a = run->at_a.address, .b = run->at_b.address, .d = run->at_d.address,
        .c = !c->with_c ? 0 : c->c == C_IS_D ? run->at_d.address : run->at_c.address,
        /* With the scalars on the device, what the host says must not matter. */
        .alpha = alpha_there ? NAN : c->alpha,
        .beta = beta_there ? NAN : c->beta,
        .alpha_at = alpha_there ? run->at_scalars.address : 0,
        .beta_at = beta_there ? run->at_scalars.address + sizeof(float) : 0,
    };
    return true;
}

/* ---- the workspace ---- */

enum { BAND = 256, BAND_BYTE = 0xa5 };

/* Zero where it must be, NaN where it need not: behind the counters. */
static bool make_workspace(struct rig *rig, struct gemm_run *run)
{
    struct gpu *gpu = &rig->gpu;
    const int64_t needed = ptxmm_plan_info(run->plan)->workspace_bytes;
    const int64_t bytes = needed > run->c->workspace_bytes ? needed : run->c->workspace_bytes;
    if (!bytes) return true;
    if (bytes <= PTXMM_WORKSPACE_COUNTERS) return failed(run, "a workspace must be larger than its counters");
    run->workspace_bytes = (size_t)bytes;
    if (!block_create(gpu, &run->at_workspace, (size_t)bytes + 2 * BAND, false)) return failed(run, gpu->error);
    const CUdeviceptr at = run->at_workspace.address += BAND, behind = at + (size_t)bytes;
    if (!gpu_ok(gpu, gpu->MemsetD8(at - BAND, BAND_BYTE, BAND), "cuMemsetD8") ||
        !gpu_ok(gpu, gpu->MemsetD8(at, 0, PTXMM_WORKSPACE_COUNTERS), "cuMemsetD8") ||
        !gpu_ok(gpu, gpu->MemsetD8(at + PTXMM_WORKSPACE_COUNTERS, 0xff, (size_t)bytes - PTXMM_WORKSPACE_COUNTERS),
                "cuMemsetD8") ||
        !gpu_ok(gpu, gpu->MemsetD8(behind, BAND_BYTE, BAND), "cuMemsetD8") ||
        !gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize"))
        return failed(run, gpu->error);
    if (needed) {
        run->arguments.workspace = at;
        run->arguments.workspace_bytes = needed;
    }
    return true;
}

bool gemm_workspace_intact(struct rig *rig, struct gemm_run *run)
{
    struct gpu *gpu = &rig->gpu;
    const CUdeviceptr at = run->at_workspace.address;
    static const char *const names[] = { "before the workspace", "of the workspace's counters", "behind the workspace" };
    const struct {
        CUdeviceptr from;
        size_t bytes;
        unsigned char must;
    } ranges[] = { { at - BAND, BAND, BAND_BYTE },
                   { at, PTXMM_WORKSPACE_COUNTERS, 0 },
                   { at + run->workspace_bytes, BAND, BAND_BYTE } };
    if (!run->workspace_bytes) return true;
    unsigned char *held = malloc(PTXMM_WORKSPACE_COUNTERS);
    bool ok = held || failed(run, "host memory is exhausted");
    for (int i = 0; ok && i < 3; i++) {
        ok = gpu_download(gpu, held, ranges[i].from, ranges[i].bytes) || failed(run, gpu->error);
        for (size_t j = 0; ok && j < ranges[i].bytes; j++)
            if (held[j] != ranges[i].must) {
                snprintf(run->error, sizeof run->error, "byte %zu %s is 0x%02x, must be 0x%02x", j, names[i], held[j],
                         ranges[i].must);
                ok = false;
            }
    }
    free(held);
    return ok;
}

bool gemm_prepare(struct rig *rig, const struct gemm_case *c, struct gemm_run *run)
{
    memset(run, 0, sizeof *run);
    run->c = c;
    if (!make_matrices(run)) return false;
    const bool exact = c->exact_allocations;
    const float scalars[2] = { c->alpha, c->beta };
    if (!upload(rig, &run->at_a, &run->a, exact) || !upload(rig, &run->at_b, &run->b, exact) ||
        (c->with_c && c->c != C_IS_D && !upload(rig, &run->at_c, &run->cm, exact)) || !gemm_rewind(rig, run))
        return failed(run, rig->gpu.error);
    if (c->scalars == SCALARS_ON_DEVICE &&
        (!block_create(&rig->gpu, &run->at_scalars, sizeof scalars, false) ||
         !gpu_upload(&rig->gpu, run->at_scalars.address, scalars, sizeof scalars)))
        return failed(run, rig->gpu.error);
    return make_plan(rig, run) && make_workspace(rig, run);
}

bool gemm_rewind(struct rig *rig, struct gemm_run *run)
{
    const struct gemm_case *c = run->c;
    return upload(rig, &run->at_d, c->with_c && c->c == C_IS_D ? &run->cm : &run->d, c->exact_allocations) ||
           failed(run, rig->gpu.error);
}

bool gemm_launch(struct rig *rig, struct gemm_run *run, CUstream stream)
{
    (void)rig;
    struct ptxmm_error error;
    return ptxmm_plan_run(run->plan, &run->arguments, stream, &error) == PTXMM_OK || failed(run, error.text);
}

bool gemm_fetch(struct rig *rig, struct gemm_run *run)
{
    struct gpu *gpu = &rig->gpu;
    const bool exact = run->c->exact_allocations;
    const size_t bytes = held_bytes(&run->d, exact);
    if (gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize") &&
        (!bytes || (exact ? gpu_download(gpu, run->d.data, run->at_d.address, bytes)
                          : gpu_download(gpu, run->d.base, run->at_d.base, bytes))))
        return true;
    const char *report = gpu_report(gpu);
    snprintf(run->error, sizeof run->error, "%s%s%s", gpu->error, *report ? "\n" : "", report);
    return false;
}

bool gemm_judge(struct rig *rig, struct gemm_run *run)
{
    const struct gemm_case *c = run->c;
    char text[1200];
    if (!matrix_intact(&run->d, text, sizeof text)) {
        snprintf(run->error, sizeof run->error, "written outside D: %s", text);
        return false;
    }
    if (!gemm_workspace_intact(rig, run)) return false;
    const struct check_problem problem = {
        .a = &run->a, .b = &run->b, .c = c->beta != 0 && c->with_c ? &run->cm : NULL, .d = &run->d,
        .alpha = c->alpha, .beta = c->beta,
        .promotion = c->kernel->promotion,
        .exact = fill_is_exact_in(c->fill, c->kernel, c->k) && c->alpha == rintf(c->alpha * 2) / 2 && c->beta == rintf(c->beta * 2) / 2,
        .seed = c->seed, .block_work = (int64_t)1 << 31,
    };
    struct check_result result;
    check_product(&problem, &result);
    return result.ok || failed(run, check_describe(&result, text, sizeof text));
}

void gemm_release(struct rig *rig, struct gemm_run *run)
{
    ptxmm_plan_destroy(&run->plan);
    struct device_block *const blocks[] = { &run->at_a, &run->at_b,       &run->at_c,
                                            &run->at_d, &run->at_scalars, &run->at_workspace };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) block_release(&rig->gpu, blocks[i]);
    struct matrix *const matrices[] = { &run->a, &run->b, &run->cm, &run->d };
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) matrix_destroy(matrices[i]);
}

static bool say(const struct gemm_run *run)
{
    char text[600];
    printf("    %s\n        %s\n", gemm_describe(run->c, text, sizeof text), run->error);
    return false;
}

bool gemm_result(struct rig *rig, const struct gemm_case *c, struct gemm_run *run)
{
    return (gemm_prepare(rig, c, run) && gemm_launch(rig, run, NULL) && gemm_fetch(rig, run)) || say(run);
}

bool gemm_check(struct rig *rig, const struct gemm_case *c)
{
    struct gemm_run run;
    const bool ok = gemm_result(rig, c, &run) && (gemm_judge(rig, &run) || say(&run));
    gemm_release(rig, &run);
    return ok;
}

bool gemm_same(const struct gemm_run *x, const struct gemm_run *y, char *text, size_t size)
{
    const struct matrix *p = &x->d, *q = &y->d;
    const int64_t rows = p->rows < q->rows ? p->rows : q->rows;
    for (int64_t m = 0; m < rows; m++) {
        const unsigned char *left = p->data + (size_t)m * (size_t)p->ld * p->size;
        const unsigned char *right = q->data + (size_t)m * (size_t)q->ld * q->size;
        for (int64_t n = 0; n < p->cols; n++) {
            if (memcmp(left + (size_t)n * p->size, right + (size_t)n * q->size, p->size) == 0) continue;
            snprintf(text, size, "D[%lld][%lld] is %.9g and %.9g", (long long)m, (long long)n, matrix_get(p, m, n),
                     matrix_get(q, m, n));
            return false;
        }
    }
    return true;
}

uint64_t gemm_digest(const struct gemm_run *run)
{
    const struct matrix *d = &run->d;
    uint64_t digest = 0xcbf29ce484222325;
    for (int64_t m = 0; m < d->rows; m++) {
        const unsigned char *row = d->data + (size_t)m * (size_t)d->ld * d->size;
        for (size_t i = 0; i < (size_t)d->cols * d->size; i++) digest = (digest ^ row[i]) * 0x100000001b3;
    }
    return digest;
}
