// Pieces of work: made once, shared by queues and graphs, executed here.
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "valid.h"

struct work *work_new(enum work_kind kind)
{
    struct work *work = calloc(1, sizeof *work);
    if (work) {
        work->kind = kind;
        work->refs = 1;
    }
    return work;
}

struct work *work_keep(struct work *work)
{
    work->refs++;
    return work;
}

void work_drop(struct work *work)
{
    if (!work || --work->refs > 0)
        return;
    switch (work->kind) {
    case WORK_LAUNCH:
        if (work->launch.event)
            event_drop(work->launch.event);
        if (work->launch.image)
            image_drop(work->launch.image);
        free(work->launch.params);
        free(work->launch.list);
        break;
    case WORK_COPY:
        free(work->copy.staged);
        break;
    case WORK_RECORD:
    case WORK_WAIT:
        event_drop(work->event.event);
        break;
    case WORK_CHILD:
        graph_free(work->child.graph);
        break;
    default:
        break;
    }
    free(work);
}

struct work *work_clone(const struct work *from)
{
    struct work *work = work_new(from->kind);
    if (!work)
        return NULL;
    *work = *from;
    work->refs = 1;
    switch (work->kind) {
    case WORK_LAUNCH:
        work->launch.params = malloc(work->launch.param_bytes + 1);
        if (!work->launch.params) {
            free(work);
            return NULL;
        }
        memcpy(work->launch.params, from->launch.params, work->launch.param_bytes);
        work->launch.list = NULL;
        work->launch.image->refs++;
        if (work->launch.event)
            event_keep(work->launch.event);
        break;
    case WORK_COPY:
        work->copy.staged = NULL;
        break;
    case WORK_RECORD:
    case WORK_WAIT:
        event_keep(work->event.event);
        break;
    case WORK_CHILD:
        work->child.graph = graph_clone(from->child.graph);
        if (!work->child.graph) {
            free(work);
            return NULL;
        }
        break;
    default:
        break;
    }
    return work;
}

// ---- memory values ------------------------------------------------------------------------------

static bool value_place(struct context *ctx, const struct work *work, bool write,
                        struct mem_ref *ref)
{
    struct mem_cache cache = {0};
    return mem_translate(ctx->mem, &cache, work->value.address, work->value.bytes, write, ref) ==
           MEM_OK;
}

// The word may be page-locked host memory that another thread of the program is writing.
static uint64_t value_read(const struct mem_ref *ref, unsigned bytes)
{
    if (bytes == 4)
        return __atomic_load_n((const uint32_t *)(const void *)ref->host, __ATOMIC_ACQUIRE);
    return __atomic_load_n((const uint64_t *)(const void *)ref->host, __ATOMIC_ACQUIRE);
}

static void value_write(const struct mem_ref *ref, unsigned bytes, uint64_t value)
{
    if (bytes == 4)
        __atomic_store_n((uint32_t *)(void *)ref->host, (uint32_t)value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)(void *)ref->host, value, __ATOMIC_RELEASE);
    valid_fill(ref->valid, ref->at, bytes, true);
}

static bool value_reached(struct context *ctx, const struct work *work)
{
    struct mem_ref ref;
    if (!value_place(ctx, work, false, &ref))
        return true;                            // freed meanwhile: nothing will ever write it
    const uint64_t mask = work->value.bytes == 4 ? UINT32_MAX : UINT64_MAX;
    const uint64_t have = value_read(&ref, work->value.bytes), want = work->value.value & mask;
    switch (work->value.flags & 0x3) {
    case CU_STREAM_WAIT_VALUE_GEQ:              // cyclic: the difference is not negative
        return work->value.bytes == 4 ? (int32_t)(uint32_t)(have - want) >= 0
                                      : (int64_t)(have - want) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return have == want;
    case CU_STREAM_WAIT_VALUE_AND:
        return (have & want) != 0;
    default:                                    // CU_STREAM_WAIT_VALUE_NOR
        return (~(have | want) & mask) != 0;
    }
}

bool work_ready(struct context *ctx, const struct item *item)
{
    switch (item->work->kind) {
    case WORK_WAIT:
        return item->work->event.event->done >= item->event_number;
    case WORK_WAIT_VALUE:
        // A running kernel owns the context's memory.
        return !ctx->executing && value_reached(ctx, item->work);
    default:
        return true;
    }
}

// ---- running ------------------------------------------------------------------------------------

static CUresult run_launches(struct context *ctx, struct work *const *works, size_t count,
                             struct trap *trap)
{
    if (!ctx->machine) {
        struct machine_config config = driver.config.machine;       // does not change after cuInit
        config.sms = ctx->device->sms;
        ctx->machine = machine_create(&config, ctx->mem);
        if (!ctx->machine)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct launch launches[32];
    for (size_t i = 0; i < count; i++) {
        const struct launch_work *w = &works[i]->launch;
        struct launch *l = &launches[i];
        *l = (struct launch){
            .program = w->image->program,
            .function = w->func->function,
            .explicit_cluster = w->explicit_cluster,
            .dynamic_smem = w->smem,
            .params = w->params,
            .param_bytes = w->param_bytes,
            .programmatic = i > 0,
            .stack_bytes = ctx->limits.stack,
            .grid_id = ++ctx->grids,
        };
        const struct mem_block *barrier =
            w->cooperative ? mem_find(ctx->mem, ctx->grid_barrier) : NULL;
        if (barrier) {
            memcpy(barrier->bytes, (const uint32_t[]){GRID_BARRIER_BYTES, 0}, GRID_BARRIER_BYTES);
            valid_fill(barrier->valid, 0, GRID_BARRIER_BYTES, true);
            l->grid_barrier = barrier->base;
        }
        memcpy(l->grid, w->grid, sizeof l->grid);
        memcpy(l->block, w->block, sizeof l->block);
        memcpy(l->cluster, w->cluster, sizeof l->cluster);
    }
    if (machine_run(ctx->machine, launches, count, trap))
        return CUDA_SUCCESS;
    const int code = trap_code(trap->kind);
    return code ? (CUresult)code : CUDA_ERROR_LAUNCH_FAILED;
}

CUresult work_run(struct context *ctx, struct work *const *works, size_t count, struct trap *trap)
{
    const struct work *work = works[0];
    struct mem_ref ref;
    switch (work->kind) {
    case WORK_LAUNCH:
        return run_launches(ctx, works, count, trap);
    case WORK_COPY:
        return copy_run(ctx, &work->copy);
    case WORK_FILL:
        return fill_run(ctx, work);
    case WORK_WRITE_VALUE:
        if (!value_place(ctx, work, true, &ref))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        value_write(&ref, work->value.bytes, work->value.value);
        return CUDA_SUCCESS;
    case WORK_FREE:
        mem_free(ctx->mem, work->free.address);
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}
