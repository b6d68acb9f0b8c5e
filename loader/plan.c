/* plan.c -- a problem made ready to run: kernel, tensor maps, arguments, grid. A run copies the
 * argument block to its own stack, puts addresses and scalars in, and launches; the plan itself
 * never changes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "error.h"
#include "images.h"
#include "problem.h"
#include "select.h"
#include "timing.h"
#include "tmap.h"

enum { ADDRESS_ALIGNMENT = 16 };

struct ptxmm_plan {
    struct ptxmm_gemm_args block; /* everything but addresses and scalars */
    struct ptxmm *mm;
    CUcontext context;
    CUfunction function; /* NULL: the problem is empty */
    CUlaunchAttribute attributes[3];
    unsigned attribute_count;
    int ordinal; /* of the context's device */
    int has_c, has_k, alpha_on_device, beta_on_device;
    struct ptxmm_plan_info info;
};

/* ---- making -------------------------------------------------------------------------------- */

static enum ptxmm_status current_context(const struct driver *driver, CUcontext *context,
                                         CUdevice *device, struct ptxmm_error *error)
{
    CUresult result = driver->CtxGetCurrent(context);
    if (result)
        return driver_failed(driver, error, result, "cuCtxGetCurrent");
    if (!*context)
        return error_set(
            error, PTXMM_ERROR_NO_CONTEXT,
            "no CUDA context is current in this thread (cuCtxSetCurrent makes one current)");
    result = driver->CtxGetDevice(device);
    if (result)
        return driver_failed(driver, error, result, "cuCtxGetDevice");
    return PTXMM_OK;
}

/* The current context's device, with the SMs that this context may use: a green context has fewer
 * than its device. */
static enum ptxmm_status describe_context(const struct driver *driver, CUcontext context,
                                          CUdevice handle, struct ptxmm_device *device,
                                          struct ptxmm_error *error)
{
    enum ptxmm_status status = device_describe(driver, handle, device, error);
    CUdevResource resource;
    if (!status && driver->CtxGetDevResource &&
        driver->CtxGetDevResource(context, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS &&
        resource.sm.smCount > 0 && (int)resource.sm.smCount < device->sm_count)
        device->sm_count = (int)resource.sm.smCount;
    return status;
}

/* Judges the kernels; returns the first of the usable ones, or the caller's choice if it is one of them.
 * `measured` is the problem with that kernel, launched as it was measured, as preference; NULL: there is no
 * choice. */
static const struct ptxmm_candidate *best_of(const struct ptxmm_device *device,
                                             const struct ptxmm_problem *problem,
                                             const struct ptxmm_problem *measured,
                                             const struct select_except *except,
                                             struct ptxmm_candidate *candidates)
{
    if (measured) {
        select_judge(device, measured, except, candidates);
        if (candidates[0].reason == PTXMM_REASON_NONE)
            return &candidates[0];
    }
    select_judge(device, problem, except, candidates);
    for (size_t i = 0; measured && i < KERNEL_COUNT; i++)
        if (candidates[i].reason == PTXMM_REASON_NONE &&
            !strcmp(candidates[i].kernel->name, measured->prefer.kernel))
            return &candidates[i];
    return &candidates[0];
}

static int has_launch(const struct ptxmm_preferences *prefer)
{
    return prefer->cluster || prefer->cluster_rows || prefer->groups || prefer->stages;
}

/* Do the groups of this candidate's clusters wait for one another? Then all must run at a time. */
static int waits_for_others(const struct ptxmm_candidate *candidate)
{
    return candidate->kernel->algorithm == PTXMM_MULTICAST && candidate->groups > 1;
}

/* Clusters of this candidate that the current context holds at a time. A driver that cannot say lets
 * all of them pass: it will refuse the launch. */
static int64_t clusters_that_fit(const struct ptxmm *mm, CUfunction function,
                                 const struct ptxmm_candidate *candidate)
{
    CUlaunchAttribute cluster = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
    cluster.value.clusterDim.x = (unsigned)candidate->cluster;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    const CUlaunchConfig config = {
        .gridDimX = (unsigned)candidate->ctas,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = candidate->kernel->threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = (unsigned)candidate->shared_bytes,
        .attrs = &cluster,
        .numAttrs = 1,
    };
    int count;
    if (!mm->driver.OccupancyMaxActiveClusters ||
        mm->driver.OccupancyMaxActiveClusters(&count, function, &config))
        return INT64_MAX;
    return count;
}

/* The caller's choice, or the fastest kernel, that can be loaded. One that cannot, because of its
 * image, is passed over; what was wrong with it goes to the log, and to *error if there is no
 * other. So is one of whose clusters too few run at a time. */
static enum ptxmm_status choose(struct ptxmm_plan *plan, const struct ptxmm_problem *problem,
                                const struct ptxmm_device *device, CUdevice handle,
                                struct ptxmm_error *error)
{
    struct ptxmm *mm = plan->mm;
    struct ptxmm_candidate candidates[KERNEL_COUNT];
    struct select_except except[KERNEL_COUNT] = { { .reason = PTXMM_REASON_NONE } };
    struct ptxmm_error first = { .status = PTXMM_OK };
    struct ptxmm_problem copy = *problem;
    const struct ptxmm_kernel_info *choice =
        problem->prefer.kernel ? NULL : choices_find(&mm->choices, device, problem, &copy.prefer);
    copy.prefer.kernel = choice ? choice->name : NULL;
    const struct ptxmm_problem *measured = choice ? &copy : NULL;
    for (;;) {
        const struct ptxmm_candidate *best =
            best_of(device, problem, measured, except, candidates);
        if (best->reason != PTXMM_REASON_NONE)
            break;
        size_t index = kernels_index(best->kernel);
        struct ptxmm_error why;
        enum ptxmm_status status = (int)best->kernel->min_driver > mm->driver.version
                                       ? PTXMM_ERROR_DRIVER_TOO_OLD
                                       : image_function(mm, index, handle, &plan->function, &why);
        if (status == PTXMM_OK) {
            // One cluster must fit in any case; a part of a device may have SMs and no place for it.
            int64_t needs = waits_for_others(best) ? best->ctas / best->cluster : 1;
            int64_t has = best->cluster > 1 || waits_for_others(best)
                              ? clusters_that_fit(mm, plan->function, best)
                              : needs;
            if (has >= needs) {
                plan->info.candidate = *best;
                return PTXMM_OK;
            }
            if (measured && !has_launch(&problem->prefer) && has_launch(&copy.prefer)) {
                // Launched otherwise it may fit.
                copy.prefer.cluster = copy.prefer.cluster_rows = copy.prefer.groups = copy.prefer.stages = 0;
                continue;
            }
            except[index] = (struct select_except){ PTXMM_REASON_CLUSTER, "clusters", has, needs };
            continue;
        }
        if (status == PTXMM_ERROR_DRIVER_TOO_OLD) {
            except[index] = (struct select_except){ PTXMM_REASON_DRIVER, "driver", mm->driver.version,
                                                    best->kernel->min_driver };
            continue;
        }
        if (status != PTXMM_ERROR_IMAGE) {
            if (error)
                *error = why;
            return status;
        }
        pack_log(mm, "passed over: %s", why.text);
        except[index] = (struct select_except){ PTXMM_REASON_IMAGE, "image", 0, 1 };
        if (first.status == PTXMM_OK)
            first = why;
    }
    if (first.status == PTXMM_OK)
        return select_none_usable(device, candidates, error);
    if (error)
        *error = first;
    return first.status;
}

static enum ptxmm_status encode_maps(struct ptxmm_plan *plan, const struct ptxmm_problem *problem,
                                     int arch, struct ptxmm_error *error)
{
    const struct driver *driver = &plan->mm->driver;
    const struct ptxmm_kernel_info *kernel = plan->info.candidate.kernel;
    // Where many SMs read the same rows, fetching the next 128 bytes of them along pays (2 % at
    // 128x7168x16384). Where one streams its own, as split kernels do, it costs 4 %: more lines cross
    // from one half of the L2 to the other.
    CUtensorMapL2promotion promotion = kernel->algorithm == PTXMM_SPLIT
                                           ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B
                                           : CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    // CTAs that load a part of the tile's rows each.
    const struct ptxmm_candidate *candidate = &plan->info.candidate;
    uint32_t shares_a = kernel->cluster, shares_b = kernel->cluster;
    if (kernel->algorithm == PTXMM_MULTICAST) {
        shares_a = (uint32_t)(candidate->cluster / candidate->cluster_rows);
        shares_b = (uint32_t)candidate->cluster_rows;
    }
    const struct {
        const char *name;
        char which;
        enum ptxmm_type type;
        uint32_t box_rows;
        struct ptxmm_tensor_map *map;
    } maps[] = {
        { "a", 'a', problem->a.type, kernel->tile_m / shares_a, &plan->block.map_a },
        { "b", 'b', problem->b.type, kernel->tile_n / shares_b, &plan->block.map_b },
        { "d", 'd', problem->d.type, 64, &plan->block.map_d },
    };
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        struct extent extent = problem_extent(problem, maps[i].which);
        enum ptxmm_status status = tmap_encode(driver, &extent, maps[i].type, maps[i].box_rows,
                                               promotion, maps[i].name, maps[i].map, error);
        if (status)
            return status;
        if (arch / 10 == 10)
            tmap_mend_small(&extent, maps[i].map);
    }
    return PTXMM_OK;
}

static uint32_t ceil_div(int64_t a, uint32_t b)
{
    return (uint32_t)(a / b + (a % b != 0));
}

/* The instruction descriptor of tcgen05.mma, kind::f16 (PTX ISA, "Instruction descriptor"): D in
 * f32, both operands K-major. Types of A and B: 0 = f16, 1 = bf16.
 *
 *      28 .. 24 | 22 .. 17 | 12 .. 10  | 9 .. 7    | 5 .. 4
 *      M / 16   | N / 8    | type of B | type of A | type of D: 1 = f32
 */
static uint32_t instruction_descriptor(const struct ptxmm_problem *problem,
                                       const struct ptxmm_kernel_info *kernel)
{
    uint32_t a = problem->a.type == PTXMM_BF16, b = problem->b.type == PTXMM_BF16;
    return kernel->tile_m / 16 << 24 | kernel->tile_n / 8 << 17 | b << 10 | a << 7 | 1u << 4;
}

static void fill_block(struct ptxmm_plan *plan, const struct ptxmm_problem *problem)
{
    const struct ptxmm_kernel_info *kernel = plan->info.candidate.kernel;
    struct ptxmm_gemm_args *block = &plan->block;
    block->abi_version = kernel->abi_version;
    block->m = (uint32_t)problem->m;
    block->n = (uint32_t)problem->n;
    block->k_slices = ceil_div(problem->k, kernel->tile_k);
    const struct ptxmm_candidate *candidate = &plan->info.candidate;
    if (kernel->algorithm == PTXMM_MULTICAST) {
        int64_t rows = candidate->cluster_rows;
        block->tiles_m = (uint32_t)timing_tiles(problem->m, kernel->tile_m, rows);
        block->tiles_n =
            (uint32_t)timing_tiles(problem->n, kernel->tile_n, candidate->cluster / rows);
        block->raster = (uint32_t)rows;
    } else {
        block->tiles_m = ceil_div(problem->m, kernel->tile_m);
        block->tiles_n = ceil_div(problem->n, kernel->tile_n);
        // Tiles that are all in work at one time need no order, and one band needs no division.
        block->raster = candidate->waves <= 1
                            ? block->tiles_m
                            : timing_raster(kernel, block->tiles_m,
                                            (int64_t)((double)candidate->tiles / candidate->waves + 0.5));
    }
    if (kernel->algorithm == PTXMM_SPLIT || kernel->algorithm == PTXMM_MULTICAST)
        block->groups = (uint32_t)candidate->groups;
    if (kernels_target_arch(kernel->target) >= 100)
        block->idesc = instruction_descriptor(problem, kernel);
    if (kernel->d == PTXMM_BF16_OR_F16 && problem->d.type == PTXMM_F16)
        block->flags |= PTXMM_FLAG_F16_OUT;
    // Also where programmatic launch is not allowed: nothing runs beside the kernel then, and the
    // promises change nothing.
    if (problem->a.constant)
        block->flags |= PTXMM_FLAG_CONSTANT_A;
    if (problem->b.constant)
        block->flags |= PTXMM_FLAG_CONSTANT_B;
    struct extent d = problem_extent(problem, 'd'), c = problem_extent(problem, 'c');
    block->ldd = (uint64_t)d.ld;
    block->batch = (uint32_t)d.matrices;
    block->batch_stride_d = (uint64_t)d.apart;
    if (plan->has_c) {
        block->ldc = (uint64_t)c.ld;
        block->batch_stride_c = (uint64_t)c.apart;
    }
}

static void fill_launch(struct ptxmm_plan *plan, const struct ptxmm_problem *problem)
{
    const struct ptxmm_candidate *candidate = &plan->info.candidate;
    const struct ptxmm_kernel_info *kernel = candidate->kernel;
    uint32_t cluster = (uint32_t)candidate->cluster;
    plan->info.workspace_bytes = candidate->workspace_bytes;
    plan->info.grid = (uint32_t)candidate->ctas;
    plan->info.threads = kernel->threads;
    plan->info.cluster = cluster;
    plan->info.shared_bytes = (uint32_t)plan->info.candidate.shared_bytes;

    CUlaunchAttribute *attribute = plan->attributes;
    if (cluster > 1) {
        attribute->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute->value.clusterDim.x = cluster;
        attribute->value.clusterDim.y = 1;
        attribute->value.clusterDim.z = 1;
        attribute++;
    }
    if (waits_for_others(candidate)) {
        attribute->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE; // its CTAs wait for one another
        attribute->value.cooperative = 1;
        attribute++;
    }
    if (!problem->prefer.no_programmatic_launch) {
        attribute->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute->value.programmaticStreamSerializationAllowed = 1;
        attribute++;
    }
    plan->attribute_count = (unsigned)(attribute - plan->attributes);
}

static enum ptxmm_status prepare(struct ptxmm_plan *plan, const struct ptxmm_problem *problem,
                                 const struct ptxmm_device *device, struct ptxmm_error *error)
{
    const struct driver *driver = &plan->mm->driver;
    CUdevice handle;
    enum ptxmm_status status = current_context(driver, &plan->context, &handle, error);
    if (status)
        return status;
    plan->ordinal = handle;
    plan->has_c = problem->c.type != PTXMM_TYPE_NONE;
    plan->has_k = problem->k > 0;
    plan->alpha_on_device = problem->alpha_on_device;
    plan->beta_on_device = problem->beta_on_device;
    if (problem_is_empty(problem))
        return PTXMM_OK;

    struct ptxmm_device described;
    if (!device) {
        status = describe_context(driver, plan->context, handle, &described, error);
        device = &described;
    }
    if (!status)
        status = device_check(device, error);
    if (!status)
        status = choose(plan, problem, device, handle, error);
    if (!status)
        status = encode_maps(plan, problem, device->arch, error);
    if (status)
        return status;
    fill_block(plan, problem);
    fill_launch(plan, problem);
    return PTXMM_OK;
}

enum ptxmm_status ptxmm_plan_create(struct ptxmm *mm, const struct ptxmm_problem *problem,
                                    const struct ptxmm_device *device, struct ptxmm_plan **out,
                                    struct ptxmm_error *error)
{
    if (!out)
        return error_set(error, PTXMM_ERROR_ARGUMENT,
                         "plan is NULL, must point to where the plan goes");
    *out = NULL;
    if (!mm)
        return error_set(error, PTXMM_ERROR_ARGUMENT, "mm is NULL, must be an opened pack");
    enum ptxmm_status status = pack_enter(mm, error);
    if (status)
        return status;
    status = ptxmm_problem_check(problem, error);
    struct ptxmm_plan *plan = NULL;
    if (!status) {
        plan = aligned_alloc(_Alignof(struct ptxmm_plan), sizeof *plan);
        if (plan) {
            memset(plan, 0, sizeof *plan);
            plan->mm = mm;
            status = prepare(plan, problem, device, error);
        } else {
            status = error_set(error, PTXMM_ERROR_MEMORY, "no memory for the plan (%zu bytes)",
                               sizeof *plan);
        }
    }
    if (status) {
        free(plan);
        pack_leave(mm);
        return status;
    }
    *out = plan; // and stays entered until it is destroyed
    return error_none(error);
}

void ptxmm_plan_destroy(struct ptxmm_plan **plan)
{
    if (!plan || !*plan)
        return;
    pack_leave((*plan)->mm);
    free(*plan);
    *plan = NULL;
}

const struct ptxmm_plan_info *ptxmm_plan_info(const struct ptxmm_plan *plan)
{
    return plan ? &plan->info : NULL;
}

/* Loads what the current context's device can run, and makes it ready there. */
enum ptxmm_status ptxmm_load_all(struct ptxmm *mm, struct ptxmm_error *error)
{
    if (!mm)
        return error_set(error, PTXMM_ERROR_ARGUMENT, "mm is NULL, must be an opened pack");
    enum ptxmm_status status = pack_enter(mm, error);
    if (status)
        return status;
    CUcontext context;
    CUdevice handle;
    struct ptxmm_device device;
    status = current_context(&mm->driver, &context, &handle, error);
    if (!status)
        status = device_describe(&mm->driver, handle, &device, error);
    if (!status) {
        status = error_none(error);
        for (size_t i = 0; i < KERNEL_COUNT; i++) {
            if (!kernels_target_runs_on(ptxmm_kernel(i)->target, device.arch))
                continue;
            CUfunction function;
            enum ptxmm_status loaded =
                image_function(mm, i, handle, &function, status ? NULL : error);
            if (!status)
                status = loaded;
        }
    }
    pack_leave(mm);
    return status;
}

/* ---- running ------------------------------------------------------------------------------- */

#define REFUSE(...) return error_set(error, PTXMM_ERROR_ARGUMENT, __VA_ARGS__)

static enum ptxmm_status bad_address(const char *name, uint64_t address, unsigned alignment,
                                     struct ptxmm_error *error)
{
    if (!address)
        REFUSE("arguments.%s is null, must be a device address", name);
    REFUSE("arguments.%s is 0x%" PRIx64 ", must be a multiple of %u", name, address, alignment);
}

#define CHECK_ADDRESS(name, alignment)                                    \
    do {                                                                  \
        if (!arguments->name || arguments->name % (alignment))            \
            return bad_address(#name, arguments->name, alignment, error); \
    } while (0)

/* Every member that the problem has no use for must be 0: an address that is silently not used
 * would be a wrong result. */
static enum ptxmm_status check_unused(const struct ptxmm_plan *plan,
                                      const struct ptxmm_arguments *a, struct ptxmm_error *error)
{
    uint64_t any = a->a_scale | a->b_scale | a->c_scale | a->d_scale | a->bias | a->row_scale |
                   a->column_scale | a->aux | a->amax | a->a_pointers | a->b_pointers |
                   a->c_pointers | a->d_pointers | a->group_sizes;
    for (size_t i = 0; i < sizeof a->reserved / sizeof a->reserved[0]; i++)
        any |= a->reserved[i];
    if (!plan->has_c)
        any |= a->c;
    if (!plan->alpha_on_device)
        any |= a->alpha_at;
    if (!plan->beta_on_device)
        any |= a->beta_at;
    if (!any)
        return PTXMM_OK;

    const struct {
        const char *name;
        uint64_t value;
    } members[] = {
        { "c", plan->has_c ? 0 : a->c },
        { "alpha_at", plan->alpha_on_device ? 0 : a->alpha_at },
        { "beta_at", plan->beta_on_device ? 0 : a->beta_at },
        { "a_scale", a->a_scale },
        { "b_scale", a->b_scale },
        { "c_scale", a->c_scale },
        { "d_scale", a->d_scale },
        { "bias", a->bias },
        { "row_scale", a->row_scale },
        { "column_scale", a->column_scale },
        { "aux", a->aux },
        { "amax", a->amax },
        { "a_pointers", a->a_pointers },
        { "b_pointers", a->b_pointers },
        { "c_pointers", a->c_pointers },
        { "d_pointers", a->d_pointers },
        { "group_sizes", a->group_sizes },
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (members[i].value)
            REFUSE("arguments.%s is 0x%" PRIx64
                   ", must be 0: the plan's problem has no such operand",
                   members[i].name, members[i].value);
    REFUSE("arguments.reserved is not 0, must be 0");
}

/* Is the address memory that the plan's device may use by itself? Host memory and managed memory
 * are everyone's. */
static enum ptxmm_status check_owner(const struct ptxmm_plan *plan, const char *name,
                                     uint64_t address, struct ptxmm_error *error)
{
    const struct driver *driver = &plan->mm->driver;
    unsigned type = 0, managed = 0;
    int ordinal = 0;
    CUresult result = driver->PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    if (result == CUDA_ERROR_INVALID_VALUE)
        REFUSE("arguments.%s is 0x%" PRIx64 ", must be an address that the CUDA driver knows", name,
               address);
    if (!result)
        result = driver->PointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
    if (!result)
        result =
            driver->PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    if (result)
        return driver_failed(driver, error, result, "cuPointerGetAttribute(%s)", name);
    if (type == CU_MEMORYTYPE_DEVICE && !managed && ordinal != plan->ordinal)
        REFUSE("arguments.%s is memory of device %d, must be of device %d like the plan", name,
               ordinal, plan->ordinal);
    return PTXMM_OK;
}

static enum ptxmm_status check_owners(const struct ptxmm_plan *plan,
                                      const struct ptxmm_gemm_args *block, uint64_t a, uint64_t b,
                                      struct ptxmm_error *error)
{
    const struct {
        const char *name;
        uint64_t address;
    } used[] = { { "a", a },
                 { "b", b },
                 { "c", block->c },
                 { "d", block->d },
                 { "alpha_at", block->alpha_at },
                 { "beta_at", block->beta_at },
                 { "workspace", block->workspace } };
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) {
        enum ptxmm_status status =
            used[i].address ? check_owner(plan, used[i].name, used[i].address, error) : PTXMM_OK;
        if (status)
            return status;
    }
    return PTXMM_OK;
}

static CUresult set_address(const struct driver *driver, struct ptxmm_tensor_map *map,
                            uint64_t address)
{
    // The block lies on a boundary of 128 bytes, which is what a CUtensorMap wants in C11.
    return driver->TensorMapReplaceAddress((CUtensorMap *)(void *)map, (void *)(uintptr_t)address);
}

static enum ptxmm_status launch(const struct ptxmm_plan *plan,
                                const struct ptxmm_arguments *arguments, void *stream,
                                struct ptxmm_error *error)
{
    // Which operands the kernel will read: null is allowed for the others.
    int reads_ab = plan->has_k && (plan->alpha_on_device || arguments->alpha != 0);
    int reads_c = plan->beta_on_device || arguments->beta != 0;
    enum ptxmm_status status = check_unused(plan, arguments, error);
    if (status)
        return status;
    if (reads_ab) {
        CHECK_ADDRESS(a, ADDRESS_ALIGNMENT);
        CHECK_ADDRESS(b, ADDRESS_ALIGNMENT);
    }
    if (reads_c && !plan->has_c)
        REFUSE("arguments.beta is %g, must be 0: the plan's problem has no C",
               (double)arguments->beta);
    if (reads_c)
        CHECK_ADDRESS(c, ADDRESS_ALIGNMENT);
    CHECK_ADDRESS(d, ADDRESS_ALIGNMENT);
    if (plan->info.workspace_bytes) {
        CHECK_ADDRESS(workspace, ADDRESS_ALIGNMENT);
        if (arguments->workspace_bytes < plan->info.workspace_bytes)
            REFUSE("arguments.workspace_bytes is %" PRId64 ", must be at least %" PRId64,
                   arguments->workspace_bytes, plan->info.workspace_bytes);
    }
    if (plan->alpha_on_device)
        CHECK_ADDRESS(alpha_at, 4);
    if (plan->beta_on_device)
        CHECK_ADDRESS(beta_at, 4);

    _Alignas(128) struct ptxmm_gemm_args block = plan->block;
    block.d = arguments->d;
    block.c = reads_c ? arguments->c : 0;
    block.alpha = plan->alpha_on_device ? 0 : arguments->alpha;
    block.beta = plan->beta_on_device ? 0 : arguments->beta;
    block.alpha_at = arguments->alpha_at;
    block.beta_at = arguments->beta_at;
    block.workspace = plan->info.workspace_bytes ? arguments->workspace : 0;
    if (plan->mm->checked) {
        status = check_owners(plan, &block, reads_ab ? arguments->a : 0,
                              reads_ab ? arguments->b : 0, error);
        if (status)
            return status;
    }

    // Maps that are not read still need an address in which TMA finds no fault: D's will do.
    const struct driver *driver = &plan->mm->driver;
    const char *call = "cuTensorMapReplaceAddress";
    CUresult result = set_address(driver, &block.map_a, reads_ab ? arguments->a : arguments->d);
    if (!result)
        result = set_address(driver, &block.map_b, reads_ab ? arguments->b : arguments->d);
    if (!result)
        result = set_address(driver, &block.map_d, arguments->d);
    if (!result) {
        CUlaunchConfig config = {
            .gridDimX = plan->info.grid,
            .gridDimY = 1,
            .gridDimZ = 1,
            .blockDimX = plan->info.threads,
            .blockDimY = 1,
            .blockDimZ = 1,
            .sharedMemBytes = plan->info.shared_bytes,
            .hStream = stream,
            .attrs = (CUlaunchAttribute *)plan->attributes, // which the driver only reads
            .numAttrs = plan->attribute_count,
        };
        void *parameters[] = { &block };
        call = "cuLaunchKernelEx";
        result = driver->LaunchKernelEx(&config, plan->function, parameters, NULL);
    }
    if (result)
        return driver_failed(driver, error, result, "%s(%s)", call,
                             plan->info.candidate.kernel->name);
    return error_none(error);
}

enum ptxmm_status ptxmm_plan_run(const struct ptxmm_plan *plan,
                                 const struct ptxmm_arguments *arguments, void *stream,
                                 struct ptxmm_error *error)
{
    if (!plan || !arguments)
        REFUSE("%s is NULL, must not be", plan ? "arguments" : "plan");
    if (pack_forked(plan->mm))
        return pack_forked_error(error);
    const struct driver *driver = &plan->mm->driver;
    CUcontext context;
    CUresult result = driver->CtxGetCurrent(&context);
    if (result)
        return driver_failed(driver, error, result, "cuCtxGetCurrent");
    if (context != plan->context) {
        if (!context)
            return error_set(error, PTXMM_ERROR_NO_CONTEXT,
                             "no CUDA context is current in this thread, must be the plan's");
        return error_set(error, PTXMM_ERROR_WRONG_CONTEXT,
                         "the current CUDA context is %p, must be the plan's, %p", (void *)context,
                         (void *)plan->context);
    }
    if (!plan->function)
        return error_none(error); // M or N is 0
    return launch(plan, arguments, stream, error);
}
