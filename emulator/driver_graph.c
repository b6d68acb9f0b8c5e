// Graphs: nodes, dependencies, copies, order.
#include "driver.h"

#include <stdlib.h>
#include <string.h>

// ---- making and unmaking ------------------------------------------------------------------------

struct graph *graph_new(void)
{
    struct graph *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->handle = handle_new(HANDLE_GRAPH, g);
    if (!g->handle) {
        free(g);
        return NULL;
    }
    return g;
}

static void node_free(struct node *n)
{
    handle_drop(n->handle);
    work_drop(n->work);
    free(n->from);
    free(n->edges);
    free(n);
}

void graph_free(struct graph *g)
{
    if (!g)
        return;
    capture_forget_graph(g);
    handle_drop(g->handle);
    for (size_t i = 0; i < g->count; i++)
        node_free(g->nodes[i]);
    for (size_t i = 0; i < g->object_count; i++)
        user_object_release(g->objects[i], 1);
    free(g->nodes);
    free(g->objects);
    free(g);
}

static bool link(struct node *n, struct node *from, const CUgraphEdgeData *edge)
{
    if (n->from_count == n->from_room) {
        const size_t room = n->from_room ? 2 * n->from_room : 4;
        struct node **list = realloc(n->from, room * sizeof *list);
        if (list)
            n->from = list;
        CUgraphEdgeData *edges = realloc(n->edges, room * sizeof *edges);
        if (edges)
            n->edges = edges;
        if (!list || !edges)
            return false;
        n->from_room = room;
    }
    n->from[n->from_count] = from;
    n->edges[n->from_count] = edge ? *edge : (CUgraphEdgeData){0};
    n->from_count++;
    return true;
}

struct node *graph_add(struct graph *g, struct node *const *from, const CUgraphEdgeData *edges,
                       size_t count, struct work *work)
{
    if (g->count == g->room) {
        const size_t room = g->room ? 2 * g->room : 16;
        struct node **nodes = realloc(g->nodes, room * sizeof *nodes);
        if (!nodes) {
            work_drop(work);
            return NULL;
        }
        g->nodes = nodes;
        g->room = room;
    }
    struct node *n = calloc(1, sizeof *n);
    if (!n) {
        work_drop(work);
        return NULL;
    }
    n->graph = g;
    n->work = work;
    n->id = n->origin = driver_id();
    n->handle = handle_new(HANDLE_NODE, n);
    bool ok = n->handle != NULL;
    for (size_t i = 0; ok && i < count; i++)
        ok = link(n, from[i], edges ? &edges[i] : NULL);
    if (!ok) {
        node_free(n);
        return NULL;
    }
    g->nodes[g->count++] = n;
    return n;
}

struct graph *graph_clone(const struct graph *from)
{
    struct graph *g = graph_new();
    if (!g)
        return NULL;
    for (size_t i = 0; i < from->count; i++)
        from->nodes[i]->mark = i;
    for (size_t i = 0; i < from->count; i++) {
        struct work *work = work_clone(from->nodes[i]->work);
        struct node *n = work ? graph_add(g, NULL, NULL, 0, work) : NULL;
        if (!n) {
            graph_free(g);
            return NULL;
        }
        n->origin = from->nodes[i]->id;
        n->disabled = from->nodes[i]->disabled;
        if (work->kind == WORK_CHILD)
            work->child.graph->child = true;
    }
    for (size_t i = 0; i < from->count; i++)
        for (size_t k = 0; k < from->nodes[i]->from_count; k++)
            if (!link(g->nodes[i], g->nodes[from->nodes[i]->from[k]->mark],
                      &from->nodes[i]->edges[k])) {
                graph_free(g);
                return NULL;
            }
    return g;
}

// Kahn's: repeatedly takes the first node all of whose dependencies are taken. Keeps the order of
// creation where it can.
bool graph_reorder(struct graph *g)
{
    struct node **order = malloc((g->count + 1) * sizeof *order);
    if (!order)
        return false;
    for (size_t i = 0; i < g->count; i++)
        g->nodes[i]->mark = 0;
    size_t n = 0;
    for (bool more = true; more && n < g->count;) {
        more = false;
        for (size_t i = 0; i < g->count; i++) {
            struct node *node = g->nodes[i];
            bool ready = !node->mark;
            for (size_t k = 0; ready && k < node->from_count; k++)
                ready = node->from[k]->mark;
            if (ready) {
                node->mark = more = true;
                order[n++] = node;
            }
        }
    }
    const bool ok = n == g->count;
    if (ok && n)
        memcpy(g->nodes, order, n * sizeof *order);
    free(order);
    return ok;
}

// ---- handles ------------------------------------------------------------------------------------

struct node *node_find(CUgraphNode handle)
{
    return handle_find(HANDLE_NODE, handle);
}

// All of the handles as nodes of the graph, in a list of the caller's.
CUresult nodes_find(const struct graph *graph, const CUgraphNode *handles, size_t count,
                    struct node ***out)
{
    if ((count && !handles) || count > graph->count)
        return CUDA_ERROR_INVALID_VALUE;
    struct node **nodes = malloc((count + 1) * sizeof *nodes);
    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        nodes[i] = node_find(handles[i]);
        if (!nodes[i] || nodes[i]->graph != graph) {
            free(nodes);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    *out = nodes;
    return CUDA_SUCCESS;
}

// A graph that the program may change and destroy.
static struct graph *graph_find(CUgraph handle)
{
    return handle_find(HANDLE_GRAPH, handle);
}

static CUresult create(CUgraph *out, unsigned flags)
{
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    const struct graph *g = graph_new();
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = g->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    IN_DRIVER(create(graph, flags));
}

static CUresult destroy(CUgraph handle)
{
    struct graph *g = graph_find(handle);
    if (!g || g->child)
        return CUDA_ERROR_INVALID_VALUE;
    graph_free(g);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    IN_DRIVER(destroy(graph));
}

static CUresult clone(CUgraph *out, CUgraph handle)
{
    const struct graph *g = graph_find(handle);
    if (!out || !g)
        return CUDA_ERROR_INVALID_VALUE;
    const struct graph *copy = graph_clone(g);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = copy->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *copy, CUgraph graph)
{
    IN_DRIVER(clone(copy, graph));
}

static CUresult find_in_clone(CUgraphNode *out, CUgraphNode original, CUgraph handle)
{
    const struct node *n = node_find(original);
    const struct graph *g = graph_find(handle);
    if (!out || !n || !g)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < g->count; i++)
        if (g->nodes[i]->origin == n->id && g->nodes[i] != n) {
            *out = g->nodes[i]->handle;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph graph)
{
    IN_DRIVER(find_in_clone(node, original, graph));
}

// ---- asking -------------------------------------------------------------------------------------

static bool any(const struct node *n)
{
    (void)n;
    return true;
}

static bool root(const struct node *n)
{
    return n->from_count == 0;
}

// The usual two calls: without a list the number, with one as many as fit, the rest of the list
// cleared.
static CUresult list(CUgraph handle, bool (*want)(const struct node *), CUgraphNode *nodes,
                     size_t *count)
{
    const struct graph *g = graph_find(handle);
    if (!g || !count)
        return CUDA_ERROR_INVALID_VALUE;
    size_t n = 0;
    for (size_t i = 0; i < g->count; i++) {
        if (!want(g->nodes[i]))
            continue;
        if (nodes && n < *count)
            nodes[n] = g->nodes[i]->handle;
        n++;
    }
    for (size_t i = n; nodes && i < *count; i++)
        nodes[i] = NULL;
    if (!nodes || n < *count)
        *count = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    IN_DRIVER(list(graph, any, nodes, count));
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    IN_DRIVER(list(graph, root, nodes, count));
}

struct edge_list {
    CUgraphNode *from, *to;
    CUgraphEdgeData *data;
    size_t room, count;
};

static void edge_put(struct edge_list *l, const struct node *from, const struct node *to,
                     const CUgraphEdgeData *edge)
{
    if (l->count < l->room) {
        if (l->from)
            l->from[l->count] = from->handle;
        if (l->to)
            l->to[l->count] = to->handle;
        if (l->data)
            l->data[l->count] = *edge;
    }
    l->count++;
}

static CUresult edge_end(const struct edge_list *l, size_t *count)
{
    if (!(l->from || l->to) || l->count < *count)
        *count = l->count;
    return CUDA_SUCCESS;
}

static CUresult edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                      size_t *count)
{
    const struct graph *g = graph_find(handle);
    if (!g || !count || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    struct edge_list l = {from, to, data, *count, 0};
    for (size_t i = 0; i < g->count; i++)
        for (size_t k = 0; k < g->nodes[i]->from_count; k++)
            edge_put(&l, g->nodes[i]->from[k], g->nodes[i], &g->nodes[i]->edges[k]);
    return edge_end(&l, count);
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *data, size_t *count)
{
    IN_DRIVER(edges(graph, from, to, data, count));
}

static CUresult dependencies(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data,
                             size_t *count)
{
    const struct node *n = node_find(handle);
    if (!n || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct edge_list l = {nodes, NULL, data, *count, 0};
    for (size_t k = 0; k < n->from_count; k++)
        edge_put(&l, n->from[k], n, &n->edges[k]);
    return edge_end(&l, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                       size_t *count)
{
    IN_DRIVER(dependencies(node, nodes, data, count));
}

static CUresult dependents(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data,
                           size_t *count)
{
    const struct node *n = node_find(handle);
    if (!n || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct edge_list l = {NULL, nodes, data, *count, 0};
    for (size_t i = 0; i < n->graph->count; i++)
        for (size_t k = 0; k < n->graph->nodes[i]->from_count; k++)
            if (n->graph->nodes[i]->from[k] == n)
                edge_put(&l, n, n->graph->nodes[i], &n->graph->nodes[i]->edges[k]);
    return edge_end(&l, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
                                         CUgraphEdgeData *data, size_t *count)
{
    IN_DRIVER(dependents(node, nodes, data, count));
}

static CUresult node_type(CUgraphNode handle, CUgraphNodeType *type)
{
    const struct node *n = node_find(handle);
    if (!n || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = work_node_type(n->work);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    IN_DRIVER(node_type(node, type));
}

// ---- changing -----------------------------------------------------------------------------------

static size_t edge_at(const struct node *to, const struct node *from, const CUgraphEdgeData *edge)
{
    size_t k = 0;
    while (k < to->from_count &&
           (to->from[k] != from || (edge && memcmp(&to->edges[k], edge, sizeof *edge) != 0)))
        k++;
    return k;
}

static void edge_remove(struct node *to, size_t k)
{
    to->from_count--;
    memmove(to->from + k, to->from + k + 1, (to->from_count - k) * sizeof *to->from);
    memmove(to->edges + k, to->edges + k + 1, (to->from_count - k) * sizeof *to->edges);
}

// Checks all pairs before it changes any.
static CUresult link_all(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                         const CUgraphEdgeData *data, size_t count, bool add)
{
    const struct graph *g = graph_find(handle);
    if (!g || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const struct node *a = node_find(from[i]), *b = node_find(to[i]);
        if (!a || !b || a == b || a->graph != g || b->graph != g)
            return CUDA_ERROR_INVALID_VALUE;
        if ((edge_at(b, a, data ? &data[i] : NULL) < b->from_count) == add)
            return CUDA_ERROR_INVALID_VALUE;        // there already, or not there
    }
    for (size_t i = 0; i < count; i++) {
        struct node *a = node_find(from[i]), *b = node_find(to[i]);
        if (add && !link(b, a, data ? &data[i] : NULL))
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (!add) {
            const size_t k = edge_at(b, a, data ? &data[i] : NULL);
            if (k < b->from_count)
                edge_remove(b, k);
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *data, size_t count)
{
    IN_DRIVER(link_all(graph, from, to, data, count, true));
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *data, size_t count)
{
    IN_DRIVER(link_all(graph, from, to, data, count, false));
}

static CUresult destroy_node(CUgraphNode handle)
{
    struct node *n = node_find(handle);
    if (!n || n->graph->child || capture_uses_graph(n->graph))
        return CUDA_ERROR_INVALID_VALUE;
    struct graph *g = n->graph;
    size_t at = 0;
    for (size_t i = 0; i < g->count; i++) {
        size_t k;
        if (g->nodes[i] == n)
            at = i;
        while ((k = edge_at(g->nodes[i], n, NULL)) < g->nodes[i]->from_count)
            edge_remove(g->nodes[i], k);
    }
    g->count--;
    memmove(g->nodes + at, g->nodes + at + 1, (g->count - at) * sizeof *g->nodes);
    node_free(n);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    IN_DRIVER(destroy_node(node));
}

// ---- user objects -------------------------------------------------------------------------------

void user_object_release(struct user_object *object, unsigned count)
{
    object->refs -= count;
    if (object->refs > 0)
        return;
    handle_drop(object->handle);
    const CUhostFn destroy_it = object->destroy;
    void *user = object->user;
    free(object);
    driver_in_callback = true;                      // it must not call the driver
    destroy_it(user);
    driver_in_callback = false;
}

static CUresult object_create(CUuserObject *out, void *user, CUhostFn destroy_it, unsigned refs,
                              unsigned flags)
{
    if (!out || !destroy_it || refs == 0 || refs > INT32_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    struct user_object *object = calloc(1, sizeof *object);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *object = (struct user_object){handle_new(HANDLE_USER_OBJECT, object), refs, destroy_it, user};
    if (!object->handle) {
        free(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = object->handle;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectCreate(CUuserObject *object, void *user, CUhostFn destroy_it,
                            unsigned int refs, unsigned int flags)
{
    IN_DRIVER(object_create(object, user, destroy_it, refs, flags));
}

static CUresult object_count(CUuserObject handle, unsigned count, bool retain)
{
    struct user_object *object = handle_find(HANDLE_USER_OBJECT, handle);
    if (!object || count == 0 || (retain ? count > INT32_MAX - object->refs : count > object->refs))
        return CUDA_ERROR_INVALID_VALUE;
    if (retain)
        object->refs += count;
    else
        user_object_release(object, count);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    IN_DRIVER(object_count(object, count, true));
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    IN_DRIVER(object_count(object, count, false));
}

static CUresult graph_retain(CUgraph graph, CUuserObject handle, unsigned count, unsigned flags)
{
    struct graph *g = graph_find(graph);
    struct user_object *object = handle_find(HANDLE_USER_OBJECT, handle);
    if (!g || !object || count == 0 || count > 65536 || flags > CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    struct user_object **objects = realloc(g->objects, (g->object_count + count) * sizeof *objects);
    if (!objects)
        return CUDA_ERROR_OUT_OF_MEMORY;
    g->objects = objects;
    for (unsigned i = 0; i < count; i++)
        objects[g->object_count++] = object;
    if (flags != CU_GRAPH_USER_OBJECT_MOVE)
        object->refs += count;
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                 unsigned int flags)
{
    IN_DRIVER(graph_retain(graph, object, count, flags));
}

static CUresult graph_release(CUgraph graph, CUuserObject handle, unsigned count)
{
    struct graph *g = graph_find(graph);
    struct user_object *object = handle_find(HANDLE_USER_OBJECT, handle);
    if (!g || !object || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    size_t left = 0;
    for (size_t i = 0; i < g->object_count; i++)
        if (g->objects[i] == object && count > 0) {
            count--;
            user_object_release(object, 1);
        } else {
            g->objects[left++] = g->objects[i];
        }
    g->object_count = left;
    return count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    IN_DRIVER(graph_release(graph, object, count));
}
