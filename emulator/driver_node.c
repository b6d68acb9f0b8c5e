// Graph nodes: adding them, and asking for and changing what they do.
//
// Every entry point fills the one parameter struct there is for all node types; work_from_params
// checks it and makes the work. A changed node gets new work, so whoever still holds the old one is
// not disturbed.
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "program.h"

// ---- work from parameters -----------------------------------------------------------------------

static CUresult kernel_work(struct context *ctx, const CUDA_KERNEL_NODE_PARAMS_v3 *p,
                            const struct launch_work *old, struct work **work)
{
    CUlaunchAttribute attributes[3];
    unsigned count = 0;
    memset(attributes, 0, sizeof attributes);
    if (old && old->explicit_cluster && !old->func->cluster[0]) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attributes[count].value.clusterDim.x = old->cluster[0];
        attributes[count].value.clusterDim.y = old->cluster[1];
        attributes[count++].value.clusterDim.z = old->cluster[2];
    }
    if (old && old->cooperative) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[count++].value.cooperative = 1;
    }
    if (old && old->programmatic) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    const CUlaunchConfig config = {
        p->gridDimX,  p->gridDimY,       p->gridDimZ, p->blockDimX, p->blockDimY,
        p->blockDimZ, p->sharedMemBytes, NULL,        attributes,   count,
    };
    struct context *target = ctx;
    if (!p->func && p->ctx)
        target = context_find(p->ctx);
    if (!target)
        return CUDA_ERROR_INVALID_CONTEXT;
    const struct func *f = handle_find(HANDLE_FUNCTION, p->func);
    if (f)
        target = f->image->context;
    return launch_build(target, &config, p->func ? p->func : (CUfunction)(void *)p->kern,
                        p->kernelParams, p->extra, work);
}

static CUresult copy_work(struct context *ctx, const CUDA_MEMCPY3D *p, struct work **work)
{
    struct copy copy;
    CUresult result = copy_from_3d(p, &copy);
    if (result == CUDA_SUCCESS)
        result = copy_check(ctx, &copy);
    if (result != CUDA_SUCCESS)
        return result;
    *work = work_new(WORK_COPY);
    if (!*work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*work)->copy = copy;
    return CUDA_SUCCESS;
}

static CUresult fill_work(struct context *ctx, const CUDA_MEMSET_NODE_PARAMS_v2 *p,
                          struct work **out)
{
    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || p->width == 0 ||
        p->height == 0 || p->width > SIZE_MAX / 4)
        return CUDA_ERROR_INVALID_VALUE;
    struct work *work = work_new(WORK_FILL);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->fill.address = p->dst;
    work->fill.pitch = p->pitch;
    work->fill.element = p->elementSize;
    work->fill.value = p->value;
    work->fill.width = p->width * p->elementSize;
    work->fill.rows = p->height;
    CUresult result = fill_check(ctx, work);
    if (result == CUDA_SUCCESS)
        *out = work;
    else
        work_drop(work);
    return result;
}

static CUresult event_work(enum work_kind kind, CUevent handle, struct work **work)
{
    struct event *event = event_find(handle);
    if (!event)
        return CUDA_ERROR_INVALID_VALUE;
    *work = work_new(kind);
    if (!*work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*work)->event.event = event_keep(event);
    return CUDA_SUCCESS;
}

static CUresult child_work(CUgraph handle, struct work **work)
{
    const struct graph *g = handle_find(HANDLE_GRAPH, handle);
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    *work = work_new(WORK_CHILD);
    struct graph *copy = *work ? graph_clone(g) : NULL;
    if (!copy) {
        free(*work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    copy->child = true;
    (*work)->child.graph = copy;
    return CUDA_SUCCESS;
}

CUresult work_from_params(struct context *ctx, const CUgraphNodeParams *p, const struct work *old,
                          struct work **work)
{
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_work(ctx, &p->kernel, old && old->kind == WORK_LAUNCH ? &old->launch : NULL,
                           work);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_work(ctx, &p->memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return fill_work(ctx, &p->memset, work);
    case CU_GRAPH_NODE_TYPE_HOST:
        if (!p->host.fn)
            return CUDA_ERROR_INVALID_VALUE;
        *work = work_new(WORK_HOST);
        if (!*work)
            return CUDA_ERROR_OUT_OF_MEMORY;
        (*work)->host.fn = p->host.fn;
        (*work)->host.user = p->host.userData;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return child_work(p->graph.graph, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *work = work_new(WORK_EMPTY);
        return *work ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return event_work(WORK_RECORD, p->eventRecord.event, work);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return event_work(WORK_WAIT, p->eventWait.event, work);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUgraphNodeType work_node_type(const struct work *work)
{
    switch (work->kind) {
    case WORK_LAUNCH:       return CU_GRAPH_NODE_TYPE_KERNEL;
    case WORK_COPY:         return CU_GRAPH_NODE_TYPE_MEMCPY;
    case WORK_FILL:         return CU_GRAPH_NODE_TYPE_MEMSET;
    case WORK_HOST:         return CU_GRAPH_NODE_TYPE_HOST;
    case WORK_RECORD:       return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case WORK_WAIT:         return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case WORK_CHILD:        return CU_GRAPH_NODE_TYPE_GRAPH;
    case WORK_WRITE_VALUE:
    case WORK_WAIT_VALUE:   return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    case WORK_FREE:         return CU_GRAPH_NODE_TYPE_MEM_FREE;
    case WORK_EMPTY:        break;
    }
    return CU_GRAPH_NODE_TYPE_EMPTY;
}

// ---- adding -------------------------------------------------------------------------------------

static CUresult add(struct context *ctx, CUgraphNode *out, CUgraph handle, const CUgraphNode *from,
                    const CUgraphEdgeData *edges, size_t count, const CUgraphNodeParams *params)
{
    struct graph *g = handle_find(HANDLE_GRAPH, handle);
    struct node **nodes;
    struct work *work;
    if (!out || !g || !params || g->child)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = nodes_find(g, from, count, &nodes);
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (nodes[i] == nodes[k])
                result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = work_from_params(ctx, params, NULL, &work);
    if (result == CUDA_SUCCESS) {
        const struct node *n = graph_add(g, nodes, edges, count, work);
        if (n)
            *out = n->handle;
        else
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    free(nodes);
    return result;
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *from,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    IN_HEALTHY(add(ctx, node, graph, from, edges, count, params));
}

static CUgraphNodeParams kernel_params(const CUDA_KERNEL_NODE_PARAMS *p)
{
    return (CUgraphNodeParams){
        .type = CU_GRAPH_NODE_TYPE_KERNEL,
        .kernel = {p->func, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY,
                   p->blockDimZ, p->sharedMemBytes, p->kernelParams, p->extra, p->kern, p->ctx}};
}

static CUgraphNodeParams copy_params(const CUDA_MEMCPY3D *p)
{
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyParams = *p}};
}

static CUgraphNodeParams fill_params(const CUDA_MEMSET_NODE_PARAMS *p)
{
    return (CUgraphNodeParams){
        .type = CU_GRAPH_NODE_TYPE_MEMSET,
        .memset = {p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, NULL}};
}

static CUgraphNodeParams host_params(const CUDA_HOST_NODE_PARAMS *p)
{
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_HOST, .host = {p->fn, p->userData}};
}

static CUgraphNodeParams event_params(CUgraphNodeType type, CUevent event)
{
    CUgraphNodeParams params = {.type = type};
    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        params.eventRecord.event = event;
    else
        params.eventWait.event = event;
    return params;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *from,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = kernel_params(p);
    IN_HEALTHY(add(ctx, node, graph, from, NULL, count, &params));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *from,
                              size_t count, const CUDA_MEMCPY3D *p, CUcontext where)
{
    (void)where;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = copy_params(p);
    IN_HEALTHY(add(ctx, node, graph, from, NULL, count, &params));
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *from,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext where)
{
    (void)where;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = fill_params(p);
    IN_HEALTHY(add(ctx, node, graph, from, NULL, count, &params));
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *from, size_t count,
                            const CUDA_HOST_NODE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = host_params(p);
    IN_HEALTHY(add(ctx, node, graph, from, NULL, count, &params));
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *from,
                                  size_t count, CUgraph child)
{
    const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
    IN_HEALTHY(add(ctx, node, graph, from, NULL, count, &params));
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *from,
                             size_t count)
{
    const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    IN_HEALTHY(add(ctx, node, graph, from, NULL, count, &params));
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *from,
                                   size_t count, CUevent event)
{
    const CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
    IN_HEALTHY(add(ctx, node, graph, from, NULL, count, &params));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *from,
                                 size_t count, CUevent event)
{
    const CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
    IN_HEALTHY(add(ctx, node, graph, from, NULL, count, &params));
}

// ---- changing -----------------------------------------------------------------------------------

static CUresult set(struct context *ctx, CUgraphNode handle, const CUgraphNodeParams *params)
{
    struct node *n = node_find(handle);
    struct work *work;
    if (!n || !params || params->type != work_node_type(n->work) ||
        params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = work_from_params(ctx, params, n->work, &work);
    if (result == CUDA_SUCCESS) {
        work_drop(n->work);
        n->work = work;
    }
    return result;
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    IN_HEALTHY(set(ctx, node, params));
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = kernel_params(p);
    IN_HEALTHY(set(ctx, node, &params));
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = copy_params(p);
    IN_HEALTHY(set(ctx, node, &params));
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = fill_params(p);
    IN_HEALTHY(set(ctx, node, &params));
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams params = host_params(p);
    IN_HEALTHY(set(ctx, node, &params));
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    const CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
    IN_HEALTHY(set(ctx, node, &params));
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    const CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
    IN_HEALTHY(set(ctx, node, &params));
}

// ---- asking -------------------------------------------------------------------------------------

static struct work *work_of(CUgraphNode handle, enum work_kind kind)
{
    const struct node *n = node_find(handle);
    return n && n->work->kind == kind ? n->work : NULL;
}

static CUresult get_kernel(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS *p)
{
    struct work *work = work_of(handle, WORK_LAUNCH);
    if (!work || !p)
        return CUDA_ERROR_INVALID_VALUE;
    struct launch_work *l = &work->launch;
    const struct function *fn = l->func->function;
    if (!l->list)
        l->list = calloc(fn->nparams + 1, sizeof *l->list);
    if (!l->list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < fn->nparams; i++)
        l->list[i] = l->params + fn->params[i].offset;
    if (!l->func->handle)
        l->func->handle = handle_new(HANDLE_FUNCTION, l->func);
    *p = (CUDA_KERNEL_NODE_PARAMS){
        .func = l->func->handle,
        .gridDimX = l->grid[0],
        .gridDimY = l->grid[1],
        .gridDimZ = l->grid[2],
        .blockDimX = l->block[0],
        .blockDimY = l->block[1],
        .blockDimZ = l->block[2],
        .sharedMemBytes = l->smem,
        .kernelParams = l->list,
        .ctx = l->image->context ? l->image->context->handle : NULL,
    };
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
    IN_DRIVER(get_kernel(node, p));
}

static CUresult get_copy(CUgraphNode handle, CUDA_MEMCPY3D *p)
{
    const struct work *work = work_of(handle, WORK_COPY);
    if (!work || !p)
        return CUDA_ERROR_INVALID_VALUE;
    const struct copy *c = &work->copy;
    *p = (CUDA_MEMCPY3D){
        .srcMemoryType = c->from.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .srcHost = c->from.host ? (const void *)(uintptr_t)c->from.address : NULL,
        .srcDevice = c->from.host ? 0 : c->from.address,
        .srcPitch = c->from.pitch, .srcHeight = c->from.height,
        .dstMemoryType = c->to.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .dstHost = c->to.host ? (void *)(uintptr_t)c->to.address : NULL,
        .dstDevice = c->to.host ? 0 : c->to.address,
        .dstPitch = c->to.pitch, .dstHeight = c->to.height,
        .WidthInBytes = c->width, .Height = c->rows, .Depth = c->slices,
    };
    return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *p)
{
    IN_DRIVER(get_copy(node, p));
}

static CUresult get_fill(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS *p)
{
    const struct work *work = work_of(handle, WORK_FILL);
    if (!work || !p)
        return CUDA_ERROR_INVALID_VALUE;
    *p = (CUDA_MEMSET_NODE_PARAMS){work->fill.address,
                                   work->fill.pitch,
                                   work->fill.value,
                                   work->fill.element,
                                   work->fill.width / work->fill.element,
                                   work->fill.rows};
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p)
{
    IN_DRIVER(get_fill(node, p));
}

static CUresult get_host(CUgraphNode handle, CUDA_HOST_NODE_PARAMS *p)
{
    const struct work *work = work_of(handle, WORK_HOST);
    if (!work || !p)
        return CUDA_ERROR_INVALID_VALUE;
    *p = (CUDA_HOST_NODE_PARAMS){work->host.fn, work->host.user};
    return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *p)
{
    IN_DRIVER(get_host(node, p));
}

static CUresult get_child(CUgraphNode handle, CUgraph *graph)
{
    const struct work *work = work_of(handle, WORK_CHILD);
    if (!work || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = work->child.graph->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
    IN_DRIVER(get_child(node, graph));
}

static CUresult get_event(CUgraphNode handle, enum work_kind kind, CUevent *event)
{
    const struct work *work = work_of(handle, kind);
    if (!work || !event)
        return CUDA_ERROR_INVALID_VALUE;
    *event = work->event.event->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
    IN_DRIVER(get_event(node, WORK_RECORD, event));
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
    IN_DRIVER(get_event(node, WORK_WAIT, event));
}

// ---- attributes of kernel nodes -----------------------------------------------------------------

static CUresult get_attribute(CUgraphNode handle, CUkernelNodeAttrID id,
                              CUkernelNodeAttrValue *value)
{
    const struct work *work = work_of(handle, WORK_LAUNCH);
    if (!work || !value)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof *value);
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (work->launch.explicit_cluster) {
            value->clusterDim.x = work->launch.cluster[0];
            value->clusterDim.y = work->launch.cluster[1];
            value->clusterDim.z = work->launch.cluster[2];
        }
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        value->cooperative = work->launch.cooperative;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        value->priority = work->launch.priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       CUkernelNodeAttrValue *value)
{
    IN_DRIVER(get_attribute(node, id, value));
}

static CUresult set_attribute(CUgraphNode handle, CUkernelNodeAttrID id,
                              const CUkernelNodeAttrValue *value)
{
    struct work *work = work_of(handle, WORK_LAUNCH);
    if (!work || !value)
        return CUDA_ERROR_INVALID_VALUE;
    struct launch_work *l = &work->launch;
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
        const unsigned c[3] = {value->clusterDim.x, value->clusterDim.y, value->clusterDim.z};
        const uint64_t size = (uint64_t)c[0] * c[1] * c[2];
        if (l->func->cluster[0] && memcmp(c, l->func->cluster, sizeof c) != 0)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        if (c[0] > CLUSTER_CTAS || c[1] > CLUSTER_CTAS || c[2] > CLUSTER_CTAS || size == 0 ||
            size > (l->func->nonportable_cluster ? CLUSTER_CTAS : 8u))
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        for (int i = 0; i < 3; i++)
            if (l->grid[i] % c[i])
                return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        memcpy(l->cluster, c, sizeof c);
        l->explicit_cluster = true;
        return CUDA_SUCCESS;
    }
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        l->cooperative = value->cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        l->priority = value->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       const CUkernelNodeAttrValue *value)
{
    IN_HEALTHY(set_attribute(node, id, value));
}

static CUresult copy_attributes(CUgraphNode to, CUgraphNode from)
{
    struct work *t = work_of(to, WORK_LAUNCH);
    const struct work *f = work_of(from, WORK_LAUNCH);
    if (!t || !f)
        return CUDA_ERROR_INVALID_VALUE;
    if (f->launch.explicit_cluster) {
        const unsigned *c = f->launch.cluster;
        const CUkernelNodeAttrValue value = {.clusterDim = {c[0], c[1], c[2]}};
        CUresult result = set_attribute(to, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value);
        if (result != CUDA_SUCCESS)
            return result;
    }
    t->launch.cooperative = f->launch.cooperative;
    t->launch.priority = f->launch.priority;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    IN_HEALTHY(copy_attributes(to, from));
}
