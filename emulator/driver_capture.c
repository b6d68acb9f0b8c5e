// Stream capture: work becomes graph nodes instead of running.
//
// A capture has an origin stream and those that joined it by waiting for an event recorded in it.
// Each stream keeps the nodes that its next work depends on (tail). What a capture does not survive
// spoils it: everything after answers STREAM_CAPTURE_INVALIDATED until its end.
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

struct capture *capture_by_id(uint64_t id)
{
    for (struct context *ctx = driver.contexts; ctx; ctx = ctx->next)
        for (struct capture *c = ctx->captures; c; c = c->next)
            if (c->id == id)
                return c;
    return NULL;
}

void capture_spoil(struct capture *capture)
{
    if (capture)
        capture->invalid = true;
}

void stream_leave_capture(struct stream *s)
{
    struct capture *c = s->capture;
    s->capture = NULL;
    free(s->tail);
    s->tail = NULL;
    s->tail_count = 0;
    if (c && c->origin == s)
        capture_end(c);
}

void capture_end(struct capture *c)
{
    struct context *ctx = c->context;
    struct graph *graph = c->into_existing ? NULL : handle_find(HANDLE_GRAPH, c->graph);
    c->origin = NULL;
    for (struct stream *s = ctx->streams; s; s = s->next)
        if (s->capture == c)
            stream_leave_capture(s);
    struct capture **at = &ctx->captures;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    free(c);
    if (graph)
        graph_free(graph);
}

// ---- what captures forbid -----------------------------------------------------------------------

CUresult capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return result;
    const uint64_t thread = driver_thread();
    for (struct context *ctx = driver.contexts; ctx; ctx = ctx->next)
        for (struct capture *c = ctx->captures; c; c = c->next) {
            const bool mine = c->thread == thread && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
            if (mine || (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                         thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) {
                capture_spoil(c);
                result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            }
        }
    return result;
}

CUresult capture_in_context(struct context *ctx)
{
    for (struct capture *c = ctx->captures; c; c = c->next)
        capture_spoil(c);
    return ctx->captures ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult capture_touches(struct stream *s)
{
    CUresult result = capture_legacy(s->context, s);
    if (result == CUDA_SUCCESS && s->capture) {
        capture_spoil(s->capture);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

static struct capture *implicit(struct context *ctx, const struct stream *stream)
{
    if (stream == ctx->legacy)
        for (struct stream *s = ctx->streams; s; s = s->next)
            if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING))
                return s->capture;
    return NULL;
}

CUresult capture_legacy(struct context *ctx, const struct stream *stream)
{
    struct capture *c = implicit(ctx, stream);
    capture_spoil(c);
    return c ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult capture_isolation(struct stream *s)
{
    capture_spoil(s->capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

// ---- recording ----------------------------------------------------------------------------------

static bool tail_set(struct stream *s, struct node *const *nodes, size_t count)
{
    struct node **tail = malloc((count + 1) * sizeof *tail);
    if (!tail)
        return false;
    if (count)
        memcpy(tail, nodes, count * sizeof *tail);
    free(s->tail);
    s->tail = tail;
    s->tail_count = count;
    return true;
}

static bool tail_merge(struct stream *s, struct node *const *nodes, size_t count)
{
    struct node **tail = malloc((s->tail_count + count + 1) * sizeof *tail);
    if (!tail)
        return false;
    size_t n = s->tail_count;
    if (n)
        memcpy(tail, s->tail, n * sizeof *tail);
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < n && tail[k] != nodes[i])
            k++;
        if (k == n)
            tail[n++] = nodes[i];
    }
    free(s->tail);
    s->tail = tail;
    s->tail_count = n;
    return true;
}

CUresult capture_add(struct stream *s, struct work *work)
{
    struct capture *c = s->capture;
    struct graph *graph = handle_find(HANDLE_GRAPH, c->graph);
    if (c->invalid || !graph) {
        capture_spoil(c);
        work_drop(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    // A programmatic launch behind exactly one kernel depends on that kernel's trigger only.
    CUgraphEdgeData edge = {0};
    const bool early = work->kind == WORK_LAUNCH && work->launch.programmatic &&
                       s->tail_count == 1 && s->tail[0]->work->kind == WORK_LAUNCH;
    if (early) {
        edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    }
    struct node *node = graph_add(graph, s->tail, early ? &edge : NULL, s->tail_count, work);
    if (node && tail_set(s, &node, 1))
        return CUDA_SUCCESS;
    capture_spoil(c);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult capture_record(struct stream *s, struct event *event)
{
    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct node **nodes = malloc((s->tail_count + 1) * sizeof *nodes);
    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (s->tail_count)
        memcpy(nodes, s->tail, s->tail_count * sizeof *nodes);
    event_forget_capture(event);
    event->captured = nodes;
    event->captured_count = s->tail_count;
    event->capture_id = s->capture->id;
    return CUDA_SUCCESS;
}

CUresult capture_wait(struct stream *s, struct event *event)
{
    struct capture *c = capture_by_id(event->capture_id);
    if (!c || c->invalid || c->context != s->context)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture && s->capture != c) {
        capture_spoil(c);
        capture_spoil(s->capture);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (s->capture)
        return tail_merge(s, event->captured, event->captured_count) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_OUT_OF_MEMORY;
    if (s == s->context->legacy) {
        capture_spoil(c);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!tail_set(s, event->captured, event->captured_count))
        return CUDA_ERROR_OUT_OF_MEMORY;
    s->capture = c;
    return CUDA_SUCCESS;
}

// ---- beginning and ending -----------------------------------------------------------------------

static CUresult begin(struct context *ctx, CUstream stream, struct graph *into,
                      CUstreamCaptureMode mode, struct capture **out)
{
    struct stream *s = stream_find(ctx, stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (s == s->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *c = calloc(1, sizeof *c);
    struct graph *graph = into ? into : graph_new();
    if (!c || !graph) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->id = driver_id();
    c->context = s->context;
    c->origin = s;
    c->graph = graph->handle;
    c->into_existing = into != NULL;
    c->mode = mode;
    c->thread = driver_thread();
    c->next = s->context->captures;
    s->context->captures = c;
    s->capture = c;
    *out = c;
    return CUDA_SUCCESS;
}

static CUresult begin_new(struct context *ctx, CUstream stream, CUstreamCaptureMode mode)
{
    struct capture *c;
    return begin(ctx, stream, NULL, mode, &c);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    IN_HEALTHY(begin_new(ctx, stream, mode));
}

static CUresult begin_into(struct context *ctx, CUstream stream, CUgraph handle,
                           const CUgraphNode *from, size_t count, CUstreamCaptureMode mode)
{
    struct graph *graph = handle_find(HANDLE_GRAPH, handle);
    struct capture *c;
    struct node **nodes;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = nodes_find(graph, from, count, &nodes);
    if (result != CUDA_SUCCESS)
        return result;
    result = begin(ctx, stream, graph, mode, &c);
    if (result == CUDA_SUCCESS && !tail_set(c->origin, nodes, count)) {
        capture_end(c);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    free(nodes);
    return result;
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *from,
                                     const CUgraphEdgeData *edges, size_t count,
                                     CUstreamCaptureMode mode)
{
    (void)edges;
    IN_HEALTHY(begin_into(ctx, stream, graph, from, count, mode));
}

// Does every stream of the capture lead back to the origin's tail?
static bool joined(const struct capture *c, const struct graph *graph)
{
    for (size_t i = 0; i < graph->count; i++)
        graph->nodes[i]->mark = 0;
    for (size_t i = 0; i < c->origin->tail_count; i++)
        c->origin->tail[i]->mark = 1;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = graph->count; i-- > 0;) // dependencies mostly come earlier: one pass does
            for (size_t k = 0; graph->nodes[i]->mark && k < graph->nodes[i]->from_count; k++)
                if (!graph->nodes[i]->from[k]->mark)
                    graph->nodes[i]->from[k]->mark = more = true;
    }
    for (const struct stream *s = c->context->streams; s; s = s->next)
        for (size_t i = 0; s->capture == c && i < s->tail_count; i++)
            if (!s->tail[i]->mark)
                return false;
    return true;
}

void capture_forget_graph(const struct graph *graph)
{
    for (struct context *ctx = driver.contexts; ctx; ctx = ctx->next)
        for (struct capture *c = ctx->captures; c; c = c->next) {
            if (c->graph != graph->handle)
                continue;
            c->invalid = true;
            for (struct stream *s = ctx->streams; s; s = s->next)
                if (s->capture == c)
                    s->tail_count = 0;
        }
}

bool capture_uses_graph(const struct graph *graph)
{
    for (const struct context *ctx = driver.contexts; ctx; ctx = ctx->next)
        for (const struct capture *c = ctx->captures; c; c = c->next)
            if (c->graph == graph->handle)
                return true;
    return false;
}

static CUresult end(struct context *ctx, CUstream stream, CUgraph *out)
{
    struct stream *s = stream_find(ctx, stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    struct capture *c = s->capture;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    if (c->origin != s) {
        capture_spoil(c);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != driver_thread())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    const struct graph *graph = handle_find(HANDLE_GRAPH, c->graph);
    CUresult result = c->invalid || !graph ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : joined(c, graph) ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (result == CUDA_SUCCESS) {
        *out = c->graph;
        c->into_existing = true;                // it is the program's now
    }
    capture_end(c);
    return result;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    IN_HEALTHY(end(ctx, stream, graph));
}

// ---- asking -------------------------------------------------------------------------------------

static CUstreamCaptureStatus status_of(const struct stream *s)
{
    return !s->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
           : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static CUresult is_capturing(struct context *ctx, CUstream stream, CUstreamCaptureStatus *status)
{
    const struct stream *s = stream_find(ctx, stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    if (implicit(s->context, s))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = status_of(s);
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    IN_HEALTHY(is_capturing(ctx, stream, status));
}

static CUresult info(struct context *ctx, CUstream stream, CUstreamCaptureStatus *status,
                     cuuint64_t *id, CUgraph *graph, const CUgraphNode **from,
                     const CUgraphEdgeData **edges, size_t *count)
{
    struct stream *s = stream_find(ctx, stream);
    CUresult result = is_capturing(ctx, stream, status);
    if (result != CUDA_SUCCESS || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return result;
    CUgraphNode *handles = realloc(s->tail_handles, (s->tail_count + 1) * sizeof *handles);
    if (handles)
        s->tail_handles = handles;
    CUgraphEdgeData *data = realloc(s->tail_edges, (s->tail_count + 1) * sizeof *data);
    if (data)
        s->tail_edges = data;
    if (!handles || !data)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(data, 0, (s->tail_count + 1) * sizeof *data);
    for (size_t i = 0; i < s->tail_count; i++)
        handles[i] = s->tail[i]->handle;
    if (id)
        *id = s->capture->id;
    if (graph)
        *graph = s->capture->graph;
    if (from)
        *from = handles;
    if (edges)
        *edges = data;
    if (count)
        *count = s->tail_count;
    return CUDA_SUCCESS;
}

CUresult capture_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                      CUgraph *graph, const CUgraphNode **from, const CUgraphEdgeData **edges,
                      size_t *count)
{
    IN_HEALTHY(info(ctx, stream, status, id, graph, from, edges, count));
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **from,
                                   const CUgraphEdgeData **edges, size_t *count)
{
    return capture_info(stream, status, id, graph, from, edges, count);
}

static CUresult update(struct context *ctx, CUstream stream, CUgraphNode *from, size_t count,
                       unsigned flags)
{
    struct stream *s = stream_find(ctx, stream);
    struct node **nodes;
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    const struct graph *graph = handle_find(HANDLE_GRAPH, s->capture->graph);
    CUresult result =
        graph ? nodes_find(graph, from, count, &nodes) : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (result != CUDA_SUCCESS)
        return result;
    const bool ok = flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES ? tail_set(s, nodes, count)
                                                                : tail_merge(s, nodes, count);
    free(nodes);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *from,
                                              const CUgraphEdgeData *edges, size_t count,
                                              unsigned int flags)
{
    (void)edges;
    IN_HEALTHY(update(ctx, stream, from, count, flags));
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    const CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    IN_DRIVER(exchange(mode));
}
