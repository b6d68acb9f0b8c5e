// Executable graphs: a private clone in an order that respects the dependencies. A launch enqueues
// its nodes' work in that order on one stream, so waits, callbacks and faults in a graph are those
// of a stream.
#include "driver.h"

#include <stdlib.h>
#include <string.h>

void exec_free(struct exec *e)
{
    handle_drop(e->handle);
    graph_free(e->graph);
    free(e);
}

static bool order_all(struct graph *g)
{
    if (!graph_reorder(g))
        return false;
    for (size_t i = 0; i < g->count; i++)
        if (g->nodes[i]->work->kind == WORK_CHILD && !order_all(g->nodes[i]->work->child.graph))
            return false;
    return true;
}

static CUresult instantiate(struct context *ctx, CUgraphExec *out, CUgraph handle,
                            unsigned long long flags)
{
    const struct graph *g = handle_find(HANDLE_GRAPH, handle);
    const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    if (!out || !g || (flags & ~(known | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct exec *e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->context = ctx;
    e->flags = flags;
    e->graph = graph_clone(g);
    e->handle = e->graph ? handle_new(HANDLE_EXEC, e) : NULL;
    if (!e->handle) {
        graph_free(e->graph);
        free(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!order_all(e->graph)) {
        exec_free(e);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = e->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    IN_HEALTHY(instantiate(ctx, exec, graph, flags));
}

static CUresult instantiate_with(struct context *ctx, CUgraphExec *out, CUgraph graph,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(ctx, out, graph, p->flags);
    p->hErrNode_out = NULL;
    p->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                    : result == CUDA_ERROR_NOT_SUPPORTED
                        ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
                    : handle_find(HANDLE_GRAPH, graph) ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                                                       : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    IN_HEALTHY(instantiate_with(ctx, exec, graph, params));
}

static CUresult destroy(CUgraphExec handle)
{
    struct exec *e = handle_find(HANDLE_EXEC, handle);
    if (!e)
        return CUDA_ERROR_INVALID_VALUE;
    exec_free(e);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    IN_DRIVER(destroy(exec));
}

static CUresult get_flags(CUgraphExec handle, cuuint64_t *flags)
{
    const struct exec *e = handle_find(HANDLE_EXEC, handle);
    if (!e || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = e->flags;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    IN_DRIVER(get_flags(exec, flags));
}

// ---- launching ----------------------------------------------------------------------------------

struct run {                    // the work of one launch, in order, before any of it is enqueued
    struct work **works;
    bool *programmatic;
    size_t count, room;
};

static bool put(struct run *run, struct work *work, bool programmatic)
{
    if (run->count == run->room) {
        const size_t room = run->room ? 2 * run->room : 64;
        struct work **works = realloc(run->works, room * sizeof *works);
        if (works)
            run->works = works;
        bool *flags = realloc(run->programmatic, room * sizeof *flags);
        if (flags)
            run->programmatic = flags;
        if (!works || !flags)
            return false;
        run->room = room;
    }
    run->works[run->count] = work_keep(work);
    run->programmatic[run->count++] = programmatic;
    return true;
}

// A kernel may overlap with the one enqueued right before it if that is all it depends on, by a
// programmatic edge.
static bool overlaps(const struct node *n, const struct node *before)
{
    return n->work->kind == WORK_LAUNCH && n->from_count == 1 && before && n->from[0] == before &&
           n->edges[0].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
}

static bool collect(const struct graph *g, struct run *run)
{
    const struct node *before = NULL;
    for (size_t i = 0; i < g->count; i++) {
        const struct node *n = g->nodes[i];
        if (n->work->kind == WORK_CHILD) {
            if (!collect(n->work->child.graph, run))
                return false;
            before = NULL;
        } else if (!n->disabled) {
            if (!put(run, n->work, overlaps(n, before)))
                return false;
            before = n;
        }
    }
    return true;
}

static CUresult launch(struct context *ctx, CUgraphExec handle, CUstream stream)
{
    const struct exec *e = handle_find(HANDLE_EXEC, handle);
    struct stream *s = stream_find(ctx, stream);
    if (!e)
        return CUDA_ERROR_INVALID_VALUE;
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = capture_legacy(ctx, s);
    if (result != CUDA_SUCCESS)
        return result;
    struct run run = {0};
    if (s->capture) {
        // Captured, an executable graph becomes a child graph of what it is now.
        struct work *work = work_new(WORK_CHILD);
        if (work)
            work->child.graph = graph_clone(e->graph);
        if (!work || !work->child.graph) {
            free(work);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        work->child.graph->child = true;
        return capture_add(s, work);
    }
    s->pins++;                                  // enqueueing runs work with the lock dropped
    if (!collect(e->graph, &run))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < run.count; i++)
        if (run.works[i]->kind == WORK_LAUNCH && run.works[i]->launch.image->context != s->context)
            result =
                CUDA_ERROR_INVALID_CONTEXT; // all kernels of a graph run in the stream's context
    for (size_t i = 0; i < run.count; i++) {
        struct work *work = run.works[i];
        if (result != CUDA_SUCCESS || s->context->fault) {
            work_drop(work);
            continue;
        }
        uint64_t number = 0;
        if (work->kind == WORK_RECORD)
            number = ++work->event.event->issued;
        if (work->kind == WORK_WAIT)
            number = work->event.event->issued;
        result = stream_enqueue(s, work, number, run.programmatic[i]);
    }
    s->pins--;
    free(run.works);
    free(run.programmatic);
    return result;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    IN_HEALTHY(launch(ctx, exec, stream));
}

static CUresult upload(struct context *ctx, CUgraphExec handle, CUstream stream)
{
    if (!handle_find(HANDLE_EXEC, handle))
        return CUDA_ERROR_INVALID_VALUE;
    return stream_find(ctx, stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    IN_HEALTHY(upload(ctx, exec, stream));
}

// ---- changing nodes -----------------------------------------------------------------------------

// The clone of node `id` in an executable graph or one of its children.
static struct node *find(const struct graph *g, uint64_t id)
{
    for (size_t i = 0; i < g->count; i++) {
        struct node *n = g->nodes[i];
        if (n->origin == id)
            return n;
        struct node *inner = n->work->kind == WORK_CHILD ? find(n->work->child.graph, id) : NULL;
        if (inner)
            return inner;
    }
    return NULL;
}

static struct node *exec_node(CUgraphExec exec, CUgraphNode node)
{
    const struct exec *e = handle_find(HANDLE_EXEC, exec);
    const struct node *n = node_find(node);
    return e && n ? find(e->graph, n->id) : NULL;
}

static CUresult set(struct context *ctx, CUgraphExec exec, CUgraphNode node,
                    const CUgraphNodeParams *params)
{
    struct node *n = exec_node(exec, node);
    struct work *work;
    if (!n || !params || params->type != work_node_type(n->work))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = work_from_params(ctx, params, n->work, &work);
    if (result != CUDA_SUCCESS)
        return result;
    if (work->kind == WORK_CHILD && (work->child.graph->count != n->work->child.graph->count ||
                                     !order_all(work->child.graph))) {
        work_drop(work);
        return CUDA_ERROR_INVALID_VALUE;
    }
    work_drop(n->work);
    n->work = work;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    IN_HEALTHY(set(ctx, exec, node, params));
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_KERNEL,
        .kernel = {p->func, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY,
                   p->blockDimZ, p->sharedMemBytes, p->kernelParams, p->extra, p->kern, p->ctx}};
    IN_HEALTHY(set(ctx, exec, node, &params));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p,
                                        CUcontext where)
{
    (void)where;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                      .memcpy = {.copyParams = *p}};
    IN_HEALTHY(set(ctx, exec, node, &params));
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS *p, CUcontext where)
{
    (void)where;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_MEMSET,
        .memset = {p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, NULL}};
    IN_HEALTHY(set(ctx, exec, node, &params));
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_HOST,
                                      .host = {p->fn, p->userData}};
    IN_HEALTHY(set(ctx, exec, node, &params));
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
    IN_HEALTHY(set(ctx, exec, node, &params));
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                                      .eventRecord = {event}};
    IN_HEALTHY(set(ctx, exec, node, &params));
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {event}};
    IN_HEALTHY(set(ctx, exec, node, &params));
}

static bool can_disable(const struct node *n)
{
    return n->work->kind == WORK_LAUNCH || n->work->kind == WORK_COPY || n->work->kind == WORK_FILL;
}

static CUresult set_enabled(CUgraphExec exec, CUgraphNode node, unsigned enabled)
{
    struct node *n = exec_node(exec, node);
    if (!n || !can_disable(n))
        return CUDA_ERROR_INVALID_VALUE;
    n->disabled = !enabled;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled)
{
    IN_DRIVER(set_enabled(exec, node, enabled));
}

static CUresult get_enabled(CUgraphExec exec, CUgraphNode node, unsigned *enabled)
{
    const struct node *n = exec_node(exec, node);
    if (!n || !enabled || !can_disable(n))
        return CUDA_ERROR_INVALID_VALUE;
    *enabled = !n->disabled;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *enabled)
{
    IN_DRIVER(get_enabled(exec, node, enabled));
}

// ---- update -------------------------------------------------------------------------------------

// Do two graphs with nodes in running order have the same shape? Where not, what differs.
static CUgraphExecUpdateResult compare(const struct graph *have, const struct graph *want,
                                       const struct node **at)
{
    *at = NULL;
    if (have->count != want->count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < have->count; i++)
        have->nodes[i]->mark = want->nodes[i]->mark = i;
    for (size_t i = 0; i < have->count; i++) {
        const struct node *a = have->nodes[i], *b = want->nodes[i];
        *at = b;
        if (a->work->kind != b->work->kind)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (a->from_count != b->from_count)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        for (size_t k = 0; k < a->from_count; k++)
            if (a->from[k]->mark != b->from[k]->mark)
                return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (a->work->kind == WORK_LAUNCH &&
            a->work->launch.image->context != b->work->launch.image->context)
            return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    }
    for (size_t i = 0; i < have->count; i++)
        if (have->nodes[i]->work->kind == WORK_CHILD) {
            CUgraphExecUpdateResult r =
                compare(have->nodes[i]->work->child.graph, want->nodes[i]->work->child.graph, at);
            if (r != CU_GRAPH_EXEC_UPDATE_SUCCESS)
                return r;
        }
    *at = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

// The executable graph takes over the work of a clone of the new graph; nodes keep their names.
static void take(struct graph *have, struct graph *want)
{
    for (size_t i = 0; i < have->count; i++) {
        struct node *a = have->nodes[i], *b = want->nodes[i];
        if (a->work->kind == WORK_CHILD) {
            take(a->work->child.graph, b->work->child.graph);
        } else {
            struct work *work = a->work;
            a->work = b->work;
            b->work = work;
        }
    }
}

static uint64_t origin_of(const struct node *n)
{
    return n ? n->origin : 0;
}

CUresult exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    struct exec *e = handle_find(HANDLE_EXEC, exec);
    const struct graph *g = handle_find(HANDLE_GRAPH, graph);
    if (info)
        *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    if (!e || !g || !info)
        return CUDA_ERROR_INVALID_VALUE;
    struct graph *want = graph_clone(g);
    if (!want)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct node *at = NULL;
    info->result = order_all(want) ? compare(e->graph, want, &at)
                                   : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
        take(e->graph, want);
    for (size_t i = 0; at && i < g->count; i++)             // in terms of the caller's graph
        if (g->nodes[i]->id == origin_of(at))
            info->errorNode = g->nodes[i]->handle;
    graph_free(want);
    return info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                        : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    IN_HEALTHY(exec_update(exec, graph, info));
}
