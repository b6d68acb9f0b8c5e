// Streams: queues of work, and who runs it when.
//
// An item runs at once, in the call that enqueues it, if it is at the head of its stream and
// nothing has to be waited for. What cannot run yet stays queued: behind a wait for an event or a
// memory value, behind a host callback (callbacks run on a helper thread, never inside the caller),
// behind the default stream. A launch whose kernel triggers its dependents early is held until its
// successor is known, so that a programmatic successor overlaps with it; every call that waits, and
// the helper after a moment, lets it go.
//
// Order between streams: the legacy default stream waits for all earlier items of blocking streams
// and they for its earlier items, by the number each item got when enqueued.
#define _GNU_SOURCE
#include "driver.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "program.h"

enum { CHAIN_MOST = 32, POLL_MS = 1, HOLD_MS = 20 };

// ---- streams ------------------------------------------------------------------------------------

struct stream *stream_new(struct context *ctx, unsigned flags, int priority)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->context = ctx;
    s->flags = flags;
    s->priority = priority;
    s->id = driver_id();
    struct stream **at = &ctx->streams;
    while (*at)
        at = &(*at)->next;
    *at = s;
    return s;
}

struct stream *stream_find(struct context *ctx, CUstream handle)
{
    if (!handle || handle == CU_STREAM_LEGACY)
        return ctx->legacy;
    if (handle != CU_STREAM_PER_THREAD)
        return handle_find(HANDLE_STREAM, handle);
    const uint64_t thread = driver_thread();
    for (struct stream *s = ctx->streams; s; s = s->next)
        if (s->thread == thread)
            return s;
    struct stream *s = stream_new(ctx, 0, 0);
    if (s)
        s->thread = thread;
    return s;
}

static void pop(struct stream *s)
{
    struct item *item = s->first;
    s->first = item->next;
    if (!s->first)
        s->last = NULL;
    work_drop(item->work);
    free(item);
}

// Drops an item that will never run; whoever waits for its event goes on.
static void cancel(struct stream *s)
{
    if (s->first->work->kind == WORK_RECORD)
        s->first->work->event.event->done = s->first->event_number;
    pop(s);
}

void stream_free(struct stream *s)
{
    struct context *ctx = s->context;
    while (s->first)
        cancel(s);
    stream_leave_capture(s);
    struct stream **at = &ctx->streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    if (s->handle)
        handle_drop(s->handle);
    free(s->tail_handles);
    free(s->tail_edges);
    free(s);
}

// Frees destroyed streams that have nothing left to do.
static void sweep(struct context *ctx)
{
    for (struct stream *s = ctx->streams, *next; s; s = next) {
        next = s->next;
        if (s->gone && !s->first && s->pins == 0)
            stream_free(s);
    }
}

// ---- choosing -----------------------------------------------------------------------------------

static bool blocking(const struct stream *s)
{
    return !(s->flags & CU_STREAM_NON_BLOCKING);
}

static bool in_order(const struct context *ctx, const struct stream *s)
{
    const uint64_t order = s->first->order;
    if (s != ctx->legacy)
        return !blocking(s) || !ctx->legacy->first || ctx->legacy->first->order > order;
    for (const struct stream *t = ctx->streams; t; t = t->next)
        if (t != s && blocking(t) && t->first && t->first->order < order)
            return false;
    return true;
}

// The stream whose head may run and was enqueued first; of callbacks if `callbacks`, else of
// everything but them.
static struct stream *choose(struct context *ctx, bool all, bool callbacks)
{
    struct stream *best = NULL;
    for (struct stream *s = ctx->streams; s; s = s->next) {
        struct item *item = s->first;
        if (!item || item->running || (item->work->kind == WORK_HOST) != callbacks)
            continue;
        if (item->held && !all && !item->next)
            continue;
        if ((!best || item->order < best->first->order) && in_order(ctx, s) &&
            work_ready(ctx, item))
            best = s;
    }
    return best;
}

// ---- running ------------------------------------------------------------------------------------

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fault(struct context *ctx, CUresult result, struct trap *trap)
{
    ctx->fault = result;
    char *text = trap->kind != TRAP_NONE ? trap_report(trap) : NULL;
    if (text)
        driver_report(ctx, text);
    free(text);
    trap_clear(trap);
    for (struct stream *s = ctx->streams; s; s = s->next)
        while (s->first && !s->first->running)
            cancel(s);
}

// Another context whose memory the work touches, or NULL.
static struct context *other_context(struct context *ctx, const struct work *work)
{
    if (work->kind != WORK_COPY)
        return NULL;
    const uint64_t ends[] = {work->copy.to.address, work->copy.from.address};
    for (int i = 0; i < 2; i++) {
        const struct mem_block *block = memory_block(ctx, ends[i]);
        if (!block || block->owner == ctx->mem || block->owner == driver.host)
            continue;
        for (struct context *other = driver.contexts; other; other = other->next)
            if (other->mem == block->owner)
                return other;
    }
    return NULL;
}

// Runs the head of a stream, and the programmatic launches that follow it.
static void execute(struct context *ctx, struct stream *s)
{
    struct item *item = s->first;
    switch (item->work->kind) {
    case WORK_RECORD:
        item->work->event.event->done = item->event_number;
        item->work->event.event->nanoseconds = now_ns();
        pop(s);
        pthread_cond_broadcast(&driver.changed);
        return;
    case WORK_WAIT:
    case WORK_WAIT_VALUE:
    case WORK_EMPTY:
        pop(s);
        pthread_cond_broadcast(&driver.changed);
        return;
    default:
        break;
    }

    struct context *other = other_context(ctx, item->work);
    if (other && other->executing) {
        pthread_cond_wait(&driver.changed, &driver.lock);           // the caller looks again
        return;
    }
    struct work *chain[CHAIN_MOST];
    size_t count = 0;
    do {
        chain[count++] = item->work;
        item->running = true;
        item = item->next;
    } while (item && count < CHAIN_MOST && chain[0]->kind == WORK_LAUNCH && item->programmatic);

    struct trap trap = {.kind = TRAP_NONE};
    ctx->executing = true;
    s->pins++;
    if (other) {
        other->executing = true;
        other->pins++;
    }
    pthread_mutex_unlock(&driver.lock);
    CUresult result = work_run(ctx, chain, count, &trap);
    pthread_mutex_lock(&driver.lock);
    ctx->executing = false;
    s->pins--;
    if (other) {
        other->executing = false;
        other->pins--;
    }
    for (size_t i = 0; i < count; i++) {
        if (chain[i]->kind == WORK_LAUNCH && chain[i]->launch.event) {
            chain[i]->launch.event->done = chain[i]->launch.event_number;
            chain[i]->launch.event->nanoseconds = now_ns();
        }
        pop(s);
    }
    if (result != CUDA_SUCCESS)
        fault(ctx, result, &trap);
    pthread_cond_broadcast(&driver.changed);
}

void stream_pump(struct context *ctx, bool all)
{
    ctx->pins++;
    while (!ctx->executing) {
        struct stream *s = choose(ctx, all, false);
        if (!s)
            break;
        execute(ctx, s);
    }
    sweep(ctx);
    ctx->pins--;
}

static void wait_ms(unsigned ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&driver.changed, &driver.lock, &until);
}

void stream_rest(void)
{
    wait_ms(POLL_MS);
}

// ---- the helper ---------------------------------------------------------------------------------

static void callback(struct context *ctx, struct stream *s)
{
    struct item *item = s->first;
    item->running = true;
    const struct work *work = item->work;
    const CUresult status = ctx->fault;
    s->pins++;
    pthread_mutex_unlock(&driver.lock);
    driver_in_callback = true;
    if (work->host.callback)
        work->host.callback(work->host.stream, status, work->host.user);
    else
        work->host.fn(work->host.user);
    driver_in_callback = false;
    pthread_mutex_lock(&driver.lock);
    s->pins--;
    pop(s);
    pthread_cond_broadcast(&driver.changed);
}

static bool pending(const struct context *ctx)
{
    for (const struct stream *s = ctx->streams; s; s = s->next)
        if (s->first)
            return true;
    return false;
}

static void *helper(void *arg)
{
    struct context *ctx = arg;
    uint64_t release = 0;               // when held launches are let go
    pthread_mutex_lock(&driver.lock);
    while (!ctx->helper_stop) {
        struct stream *s = choose(ctx, true, true);
        if (s) {
            callback(ctx, s);
            stream_pump(ctx, false);
        } else if (!pending(ctx)) {
            release = 0;
            pthread_cond_wait(&driver.changed, &driver.lock);
        } else {
            const uint64_t now = now_ns();
            if (!release)
                release = now + HOLD_MS * UINT64_C(1000000);
            stream_pump(ctx, now >= release);
            if (now >= release)
                release = 0;
            if (!ctx->helper_stop && !choose(ctx, true, true))
                wait_ms(POLL_MS);
        }
    }
    pthread_mutex_unlock(&driver.lock);
    return NULL;
}

bool stream_helper(struct context *ctx)
{
    if (!ctx->has_helper)
        ctx->has_helper = pthread_create(&ctx->helper, NULL, helper, ctx) == 0;
    return ctx->has_helper;
}

// ---- enqueueing and waiting ---------------------------------------------------------------------

CUresult stream_enqueue(struct stream *s, struct work *work, uint64_t event_number,
                        bool programmatic)
{
    struct context *ctx = s->context;
    struct item *item = calloc(1, sizeof *item);
    if (!item) {
        work_drop(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    item->work = work;
    item->order = ++ctx->order;
    item->event_number = event_number;
    item->programmatic = programmatic;
    item->held = work->kind == WORK_LAUNCH && work->launch.func->function->uses_launch_dependents;
    if (s->last)
        s->last->next = item;
    else
        s->first = item;
    s->last = item;
    stream_pump(ctx, false);
    if (pending(ctx) && !stream_helper(ctx))
        return CUDA_ERROR_OPERATING_SYSTEM;
    return CUDA_SUCCESS;
}

CUresult stream_submit(struct stream *s, struct work *work)
{
    if (s->capture)
        return capture_add(s, work);
    return stream_enqueue(s, work, 0, work->kind == WORK_LAUNCH && work->launch.programmatic);
}

CUresult stream_drain(struct stream *s)
{
    struct context *ctx = s->context;
    ctx->pins++;
    s->pins++;
    stream_pump(ctx, true);
    while (s->first && ctx->fault == CUDA_SUCCESS) {
        wait_ms(POLL_MS);
        stream_pump(ctx, true);
    }
    CUresult result = ctx->fault;
    s->pins--;
    if (--ctx->pins == 0)
        pthread_cond_broadcast(&driver.changed);
    return result;
}

CUresult context_drain(struct context *ctx)
{
    CUresult result = capture_in_context(ctx);
    if (result != CUDA_SUCCESS)
        return result;
    ctx->pins++;
    stream_pump(ctx, true);
    while (pending(ctx) && ctx->fault == CUDA_SUCCESS) {
        wait_ms(POLL_MS);
        stream_pump(ctx, true);
    }
    result = ctx->fault;
    if (--ctx->pins == 0)
        pthread_cond_broadcast(&driver.changed);
    return result;
}

// ---- entry points -------------------------------------------------------------------------------

static CUresult create(struct context *ctx, CUstream *handle, unsigned flags, int priority)
{
    if (!handle || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (priority < STREAM_PRIORITY_GREATEST)
        priority = STREAM_PRIORITY_GREATEST;
    if (priority > STREAM_PRIORITY_LEAST)
        priority = STREAM_PRIORITY_LEAST;
    struct stream *s = stream_new(ctx, flags, priority);
    if (s)
        s->handle = handle_new(HANDLE_STREAM, s);
    if (s && s->handle) {
        *handle = s->handle;
        return CUDA_SUCCESS;
    }
    if (s)
        stream_free(s);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    IN_HEALTHY(create(ctx, stream, flags, 0));
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    IN_HEALTHY(create(ctx, stream, flags, priority));
}

static CUresult destroy(struct context *ctx, CUstream handle)
{
    struct stream *s = handle_find(HANDLE_STREAM, handle);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    stream_leave_capture(s);
    handle_drop(s->handle);
    s->handle = NULL;
    s->gone = true;
    stream_pump(s->context, true);
    return ctx->fault;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    IN_CONTEXT(destroy(ctx, stream));
}

// The stream a call names, or what to answer instead.
static CUresult named(struct context *ctx, CUstream handle, struct stream **s)
{
    *s = stream_find(ctx, handle);
    if (!*s)
        return CUDA_ERROR_INVALID_HANDLE;
    return (*s)->context->fault;
}

static CUresult synchronize(struct context *ctx, CUstream handle)
{
    struct stream *s;
    CUresult result = named(ctx, handle, &s);
    if (result == CUDA_SUCCESS)
        result = capture_touches(s);
    return result == CUDA_SUCCESS ? stream_drain(s) : result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    IN_CONTEXT(synchronize(ctx, stream));
}

static CUresult query(struct context *ctx, CUstream handle)
{
    struct stream *s;
    CUresult result = named(ctx, handle, &s);
    if (result == CUDA_SUCCESS)
        result = capture_touches(s);
    if (result != CUDA_SUCCESS)
        return result;
    s->pins++;
    stream_pump(s->context, true);
    s->pins--;
    return s->context->fault ? s->context->fault : s->first ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream)
{
    IN_CONTEXT(query(ctx, stream));
}

static CUresult get_priority(struct context *ctx, CUstream handle, int *priority)
{
    struct stream *s;
    CUresult result = named(ctx, handle, &s);
    if (result == CUDA_SUCCESS && !priority)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *priority = s->priority;
    return result;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    IN_CONTEXT(get_priority(ctx, stream, priority));
}

static CUresult get_flags(struct context *ctx, CUstream handle, unsigned *flags)
{
    struct stream *s;
    CUresult result = named(ctx, handle, &s);
    if (result == CUDA_SUCCESS && !flags)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *flags = s->flags;
    return result;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    IN_CONTEXT(get_flags(ctx, stream, flags));
}

static CUresult get_id(struct context *ctx, CUstream handle, unsigned long long *id)
{
    struct stream *s;
    CUresult result = named(ctx, handle, &s);
    if (result == CUDA_SUCCESS && !id)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *id = s->id;
    return result;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    IN_CONTEXT(get_id(ctx, stream, id));
}

static CUresult get_context(struct context *ctx, CUstream handle, CUcontext *out)
{
    struct stream *s;
    CUresult result = named(ctx, handle, &s);
    if (result == CUDA_SUCCESS && !out)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = s->context->handle;
    return result;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *out)
{
    IN_CONTEXT(get_context(ctx, stream, out));
}

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *out, CUgreenCtx *green)
{
    if (green)
        *green = NULL;
    IN_CONTEXT(get_context(ctx, stream, out));
}

static CUresult get_device(struct context *ctx, CUstream handle, CUdevice *dev)
{
    struct stream *s;
    CUresult result = named(ctx, handle, &s);
    if (result == CUDA_SUCCESS && !dev)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *dev = s->context->device->ordinal;
    return result;
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice *dev)
{
    IN_CONTEXT(get_device(ctx, stream, dev));
}
