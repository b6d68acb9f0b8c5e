// Events. A record is numbered when it is enqueued; the event is complete when its last number is
// done.
#include "driver.h"

#include <stdlib.h>

struct event *event_keep(struct event *event)
{
    event->refs++;
    return event;
}

void event_drop(struct event *event)
{
    if (--event->refs > 0)
        return;
    free(event->captured);
    free(event);
}

struct event *event_find(CUevent handle)
{
    return handle_find(HANDLE_EVENT, handle);
}

void event_forget_capture(struct event *event)
{
    free(event->captured);
    event->captured = NULL;
    event->captured_count = 0;
    event->capture_id = 0;
}

static CUresult create(struct context *ctx, CUevent *handle, unsigned flags)
{
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (!handle || (flags & ~known) ||
        ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->refs = 1;
    event->context = ctx;
    event->flags = flags;
    event->next = ctx->events;
    event->handle = handle_new(HANDLE_EVENT, event);
    if (!event->handle) {
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    ctx->events = event;
    *handle = event->handle;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    IN_HEALTHY(create(ctx, event, flags));
}

static void unlist(struct event *event)
{
    struct event **at = &event->context->events;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    event->context = NULL;
    handle_drop(event->handle);
    event_drop(event);
}

void event_forget_context(struct context *ctx)
{
    while (ctx->events)
        unlist(ctx->events);
}

static CUresult destroy(CUevent handle)
{
    struct event *event = event_find(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    unlist(event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    IN_HEALTHY(destroy(event));
}

static CUresult record(struct context *ctx, CUevent handle, CUstream stream, unsigned flags)
{
    struct event *event = event_find(handle);
    struct stream *s = stream_find(ctx, stream);
    if (!event || !s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->context != s->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->context->fault)
        return s->context->fault;
    CUresult result = capture_legacy(ctx, s);
    if (result != CUDA_SUCCESS)
        return result;
    if (s->capture && !(flags & CU_EVENT_RECORD_EXTERNAL))
        return capture_record(s, event);
    if (!s->capture && (flags & CU_EVENT_RECORD_EXTERNAL))
        return CUDA_ERROR_INVALID_VALUE;
    struct work *work = work_new(WORK_RECORD);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->event.event = event_keep(event);
    if (s->capture)
        return capture_add(s, work);
    event_forget_capture(event);
    return stream_enqueue(s, work, ++event->issued, false);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    IN_HEALTHY(record(ctx, event, stream, 0));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    IN_HEALTHY(record(ctx, event, stream, flags));
}

static CUresult wait(struct context *ctx, CUstream stream, CUevent handle, unsigned flags)
{
    struct event *event = event_find(handle);
    struct stream *s = stream_find(ctx, stream);
    if (!event || !s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->context->fault)
        return s->context->fault;
    CUresult result = capture_legacy(ctx, s);
    if (result != CUDA_SUCCESS)
        return result;
    if (event->capture_id && !(flags & CU_EVENT_WAIT_EXTERNAL))
        return capture_wait(s, event);
    struct work *work = work_new(WORK_WAIT);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->event.event = event_keep(event);
    if (s->capture) {
        if (flags & CU_EVENT_WAIT_EXTERNAL)
            return capture_add(s, work);
        work_drop(work);                        // an event from outside the capture
        return capture_isolation(s);
    }
    if (event->context && event->done < event->issued)
        stream_pump(event->context, true);
    return stream_enqueue(s, work, event->issued, false);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    IN_HEALTHY(wait(ctx, stream, event, flags));
}

static CUresult query(CUevent handle)
{
    struct event *event = event_find(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture_id) {
        capture_spoil(capture_by_id(event->capture_id));
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    if (event->context && event->done < event->issued)
        stream_pump(event->context, true);
    if (event->context && event->context->fault)
        return event->context->fault;
    return event->done < event->issued ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    IN_HEALTHY(query(event));
}

static CUresult synchronize(CUevent handle)
{
    struct event *event = event_find(handle);
    CUresult result = query(handle);
    if (result != CUDA_ERROR_NOT_READY)
        return result;
    const uint64_t number = event->issued;
    event_keep(event);
    while (event->done < number && event->context && event->context->fault == CUDA_SUCCESS) {
        stream_rest();
        if (event->context)
            stream_pump(event->context, true);
    }
    result = event->context ? event->context->fault : CUDA_SUCCESS;
    event_drop(event);
    return result;
}

CUresult cuEventSynchronize(CUevent event)
{
    IN_HEALTHY(synchronize(event));
}

static CUresult elapsed(float *ms, CUevent start_handle, CUevent end_handle)
{
    const struct event *start = event_find(start_handle), *end = event_find(end_handle);
    if (!start || !end)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (start->capture_id || end->capture_id)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (start->issued == 0 || end->issued == 0 ||
        ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) || start->context != end->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->context)
        stream_pump(start->context, true);
    if (start->done < start->issued || end->done < end->issued)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(int64_t)(end->nanoseconds - start->nanoseconds) * 1e-6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    IN_HEALTHY(elapsed(ms, start, end));
}
