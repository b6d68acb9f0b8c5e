// The driver API: stream capture and graphs.
#include "emu_cuda.h"

#include <pthread.h>

static void capture(void **state)
{
    const struct cuda *c = *state;
    CUstream s, t;
    CUdeviceptr p;
    CUgraph g;
    CUgraphExec x;
    CUevent e, f;
    CUstreamCaptureStatus status;
    cuuint64_t id;
    size_t n;
    unsigned count = 4, v = 1;
    OK(cuMemAlloc(&p, 64));
    OK(cuMemsetD32(p, 0, 16));
    void *args[] = {&p, &count, &v};
    CUfunction add1 = cuda_function(c, "add1");
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, 0));
    OK(cuEventCreate(&f, 0));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamIsCapturing(s, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuLaunchKernel(add1, 1, 1, 1, 4, 1, 1, 0, s, args, NULL));
    OK(cuEventRecord(e, s));
    OK(cuStreamWaitEvent(t, e, 0));                     // t joins
    OK(cuMemsetD32Async(p + 32, 5, 1, t));
    OK(cuEventRecord(f, t));
    OK(cuLaunchKernel(add1, 1, 1, 1, 4, 1, 1, 0, s, args, NULL));
    OK(cuStreamWaitEvent(s, f, 0));
    OK(cuMemcpyDtoDAsync(p + 36, p + 32, 4, s));
    CUgraph inside;
    const CUgraphNode *tail;
    OK(cuStreamGetCaptureInfo(s, &status, &id, &inside, &tail, NULL, &n));
    assert_int_equal(n, 1);
    assert_true(id != 0);
    OK(cuGraphGetNodes(inside, NULL, &n));
    assert_int_equal(n, 4);
    OK(cuStreamEndCapture(s, &g));
    assert_ptr_equal(g, inside);
    OK(cuStreamIsCapturing(t, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    v = 100;                                            // parameters were taken at capture
    OK(cuCtxSynchronize());
    CUgraphNode nodes[4], from[4], to[4];
    n = 4;
    OK(cuGraphGetNodes(g, nodes, &n));
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(nodes[0], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_KERNEL);
    OK(cuGraphNodeGetType(nodes[1], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEMSET);
    OK(cuGraphNodeGetType(nodes[3], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    OK(cuGraphGetEdges(g, NULL, NULL, NULL, &n));
    assert_int_equal(n, 4);
    OK(cuGraphGetEdges(g, from, to, NULL, &n));
    assert_ptr_equal(from[0], nodes[0]);
    OK(cuGraphGetRootNodes(g, NULL, &n));
    assert_int_equal(n, 1);
    assert_int_equal(cuda_word(p), 0);                  // nothing has run
    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuGraphDestroy(g));
    for (int i = 0; i < 100; i++)
        OK(cuGraphLaunch(x, i & 1 ? s : 0));
    OK(cuCtxSynchronize());
    assert_int_equal(cuda_word(p + 12), 200);
    assert_int_equal(cuda_word(p + 36), 5);
    OK(cuGraphExecDestroy(x));
    BAD(cuGraphLaunch(x, s));
    BAD(cuGraphExecDestroy(x));
}

// What a capture does not survive, and what each call answers, as an H200 did.
static void spoilt(void **state)
{
    (void)state;
    CUstream s, blocking;
    CUdeviceptr p, q;
    CUgraph g = WILD(CUgraph);
    CUevent e;
    CUstreamCaptureStatus status;
    OK(cuMemAlloc(&p, 64));
    OK(cuEventCreate(&e, 0));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&blocking, 0));
#define UNSUPPORTED(call) IS(ERROR_STREAM_CAPTURE_UNSUPPORTED, call)
#define SPOILT(stream)                                                        \
    do {                                                                      \
        IS(ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &g)); \
        assert_null(g);                                                       \
    } while (0)
    UNSUPPORTED(cuStreamBeginCapture(0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    UNSUPPORTED(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL));
    BAD(cuStreamBeginCapture(s, (CUstreamCaptureMode)7));
    NO_HANDLE(cuStreamBeginCapture(WILD(CUstream), CU_STREAM_CAPTURE_MODE_GLOBAL));
    IS(ERROR_ILLEGAL_STATE, cuStreamEndCapture(s, &g));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    IS(ERROR_ILLEGAL_STATE, cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamIsCapturing(0, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuMemsetD32Async(p, 1, 1, s));
    UNSUPPORTED(cuStreamSynchronize(s));
    IS(ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD32Async(p, 1, 1, s));
    SPOILT(s);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    UNSUPPORTED(cuMemAlloc(&q, 64));
    UNSUPPORTED(cuStreamQuery(s));
    SPOILT(s);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAlloc(&q, 64));                             // allowed in a relaxed capture
    OK(cuEventRecord(e, s));
    IS(ERROR_CAPTURED_EVENT, cuEventQuery(e));
    BAD(cuStreamWaitEvent(blocking, e, 0));
    SPOILT(s);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    UNSUPPORTED(cuCtxSynchronize());
    OK(cuStreamIsCapturing(s, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    SPOILT(s);
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32Async(p, 1, 1, 0));
    SPOILT(blocking);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD32Async(p, 1, 1, 0)); // a non-blocking stream is no concern of the default stream
    BAD(cuLaunchHostFunc(s, NULL, NULL));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphDestroy(g));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(e, 0));
    IS(ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(s, e, 0));
    SPOILT(s);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(e, s));
    OK(cuStreamWaitEvent(blocking, e, 0));
    OK(cuMemsetD32Async(p, 1, 1, blocking));
    IS(ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(blocking, &g));
    SPOILT(s);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(e, s));
    OK(cuStreamWaitEvent(blocking, e, 0));
    OK(cuMemsetD32Async(p, 1, 1, blocking));
    IS(ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(s, &g));
    assert_null(g);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(e, s));
    IS(ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(blocking, e, 0));
    SPOILT(s);
    SPOILT(blocking);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    BAD(cuStreamEndCapture(s, NULL));
    OK(cuStreamDestroy(s));                             // ends it
    OK(cuCtxSynchronize());
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAlloc(&q, 64));                             // this thread answers for itself
    OK(cuStreamEndCapture(blocking, &g));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    BAD(cuThreadExchangeStreamCaptureMode(NULL));
}

static void *end_elsewhere(void *arg)
{
    void **a = arg;
    CUgraph g;
    cuCtxSetCurrent(a[1]);
    return (void *)(uintptr_t)cuStreamEndCapture(a[0], &g);
}

static void wrong_thread(void **state)
{
    const struct cuda *c = *state;
    CUstream s;
    CUgraph g;
    pthread_t t;
    void *result;
    OK(cuStreamCreate(&s, 0));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    void *arg[] = {s, c->ctx};
    assert_int_equal(pthread_create(&t, NULL, end_elsewhere, arg), 0);
    pthread_join(t, &result);
    assert_int_equal((CUresult)(uintptr_t)result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphDestroy(g));
}

static void count_up(void *user)
{
    ++*(int *)user;
}

// A graph of every kind of node, built by hand.
static void nodes(void **state)
{
    const struct cuda *c = *state;
    CUgraph g, child, copy;
    CUgraphNode kernel, set, get, host, inner, empty, record, wait, found;
    CUgraphExec x;
    CUdeviceptr p;
    CUevent e;
    unsigned n = 4, v = 3;
    int calls = 0;
    size_t k;
    OK(cuMemAlloc(&p, 64));
    OK(cuMemsetD32(p, 0, 16));
    OK(cuEventCreate(&e, 0));
    BAD(cuGraphCreate(&g, 1));
    BAD(cuGraphCreate(NULL, 0));
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphCreate(&child, 0));

    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = p, .value = 10, .elementSize = 4, .width = 4, .height = 1};
    OK(cuGraphAddMemsetNode(&set, g, NULL, 0, &fill, c->ctx));
    fill.elementSize = 3;
    BAD(cuGraphAddMemsetNode(&empty, g, NULL, 0, &fill, c->ctx));
    fill.elementSize = 4;
    fill.dst = 0x1000;
    BAD(cuGraphAddMemsetNode(&empty, g, NULL, 0, &fill, c->ctx));
    void *args[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS launch = {.func = cuda_function(c, "add1"),
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 4,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = args};
    OK(cuGraphAddKernelNode(&kernel, g, &set, 1, &launch));
    launch.gridDimX = 0;
    BAD(cuGraphAddKernelNode(&empty, g, NULL, 0, &launch));
    launch.gridDimX = 1;
    launch.func = NULL;
    NO_HANDLE(cuGraphAddKernelNode(&empty, g, NULL, 0, &launch));
    launch.func = cuda_function(c, "add1");
    OK(cuGraphAddKernelNode(&inner, child, NULL, 0, &launch));
    CUDA_MEMCPY3D copy3 = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = p,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = p + 32,
                           .WidthInBytes = 4,
                           .Height = 1,
                           .Depth = 1};
    CUgraphNode childnode;
    OK(cuGraphAddChildGraphNode(&childnode, g, &kernel, 1, child));
    OK(cuGraphAddMemcpyNode(&get, g, &childnode, 1, &copy3, c->ctx));
    CUDA_HOST_NODE_PARAMS call = {count_up, &calls};
    OK(cuGraphAddHostNode(&host, g, &get, 1, &call));
    OK(cuGraphAddEmptyNode(&empty, g, (CUgraphNode[]){host, get}, 2));
    OK(cuGraphAddEventRecordNode(&record, g, &empty, 1, e));
    OK(cuGraphAddEventWaitNode(&wait, g, &record, 1, e));
    BAD(cuGraphAddEmptyNode(NULL, g, NULL, 0));
    BAD(cuGraphAddEmptyNode(&found, g, NULL, 1));
    BAD(cuGraphAddEmptyNode(&found, g, (CUgraphNode[]){host, host}, 2));
    BAD(cuGraphAddEmptyNode(&found, g, &inner, 1));     // a node of another graph
    BAD(cuGraphAddEmptyNode(&found, WILD(CUgraph), NULL, 0));
    BAD(cuGraphAddChildGraphNode(&found, g, NULL, 0, WILD(CUgraph)));
    BAD(cuGraphAddEventRecordNode(&found, g, NULL, 0, WILD(CUevent)));
    BAD(cuGraphAddHostNode(&found, g, NULL, 0, &(CUDA_HOST_NODE_PARAMS){0}));

    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuGraphUpload(x, 0));
    OK(cuGraphLaunch(x, 0));
    OK(cuGraphLaunch(x, 0));
    OK(cuCtxSynchronize());
    assert_int_equal(cuda_word(p), 16);
    assert_int_equal(cuda_word(p + 32), 16);
    assert_int_equal(calls, 2);
    OK(cuEventQuery(e));

    // Asking.
    CUDA_KERNEL_NODE_PARAMS lp;
    OK(cuGraphKernelNodeGetParams(kernel, &lp));
    assert_int_equal(*(unsigned *)lp.kernelParams[2], 3);
    assert_ptr_equal(lp.func, launch.func);
    BAD(cuGraphKernelNodeGetParams(set, &lp));
    CUDA_MEMSET_NODE_PARAMS fp;
    OK(cuGraphMemsetNodeGetParams(set, &fp));
    assert_true(fp.width == 4 && fp.value == 10);
    CUDA_MEMCPY3D cp;
    OK(cuGraphMemcpyNodeGetParams(get, &cp));
    assert_int_equal(cp.dstDevice, p + 32);
    CUDA_HOST_NODE_PARAMS hp;
    OK(cuGraphHostNodeGetParams(host, &hp));
    assert_ptr_equal(hp.userData, &calls);
    CUgraph got;
    OK(cuGraphChildGraphNodeGetGraph(childnode, &got));
    OK(cuGraphGetNodes(got, NULL, &k));
    assert_int_equal(k, 1);
    BAD(cuGraphDestroy(got));                           // the node's own
    CUevent ev;
    OK(cuGraphEventRecordNodeGetEvent(record, &ev));
    assert_ptr_equal(ev, e);
    OK(cuGraphEventWaitNodeGetEvent(wait, &ev));
    CUgraphNode deps[4];
    k = 4;
    OK(cuGraphNodeGetDependencies(empty, deps, NULL, &k));
    assert_int_equal(k, 2);
    OK(cuGraphNodeGetDependentNodes(get, NULL, NULL, &k));
    assert_int_equal(k, 2);
    CUkernelNodeAttrValue av = {.clusterDim = {1, 1, 1}};
    OK(cuGraphKernelNodeSetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &av));
    OK(cuGraphKernelNodeGetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &av));
    assert_int_equal(av.clusterDim.x, 1);
    av.clusterDim.x = 3;
    IS(ERROR_INVALID_CLUSTER_SIZE,
       cuGraphKernelNodeSetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &av));

    // Changing an executable graph; the graph itself stays.
    v = 50;
    OK(cuGraphExecKernelNodeSetParams(x, kernel, &launch));
    fill.dst = p;
    fill.value = 1;
    OK(cuGraphExecMemsetNodeSetParams(x, set, &fill, c->ctx));
    copy3.dstDevice = p + 40;
    OK(cuGraphExecMemcpyNodeSetParams(x, get, &copy3, c->ctx));
    OK(cuGraphExecHostNodeSetParams(x, host, &call));
    OK(cuGraphExecEventRecordNodeSetEvent(x, record, e));
    OK(cuGraphExecEventWaitNodeSetEvent(x, wait, e));
    OK(cuGraphExecChildGraphNodeSetParams(x, childnode, child));
    OK(cuGraphLaunch(x, 0));
    OK(cuCtxSynchronize());
    assert_int_equal(cuda_word(p + 40), 1 + 50 + 3);
    unsigned enabled;
    OK(cuGraphNodeSetEnabled(x, kernel, 0));
    OK(cuGraphNodeGetEnabled(x, kernel, &enabled));
    assert_int_equal(enabled, 0);
    OK(cuGraphLaunch(x, 0));
    assert_int_equal(cuda_word(p + 40), 1 + 3);
    BAD(cuGraphNodeSetEnabled(x, host, 0));
    BAD(cuGraphExecKernelNodeSetParams(x, set, &launch));
    BAD(cuGraphExecKernelNodeSetParams(WILD(CUgraphExec), kernel, &launch));
    BAD(cuGraphExecKernelNodeSetParams(x, WILD(CUgraphNode), &launch));
    OK(cuGraphKernelNodeSetParams(kernel, &launch));
    OK(cuGraphKernelNodeGetParams(kernel, &lp));
    assert_int_equal(*(unsigned *)lp.kernelParams[2], 50);
    OK(cuGraphMemsetNodeSetParams(set, &fill));
    OK(cuGraphMemcpyNodeSetParams(get, &copy3));
    OK(cuGraphHostNodeSetParams(host, &call));
    OK(cuGraphEventRecordNodeSetEvent(record, e));
    OK(cuGraphEventWaitNodeSetEvent(wait, e));
    BAD(cuGraphKernelNodeSetParams(set, &launch));

    // Clones and updates.
    OK(cuGraphClone(&copy, g));
    OK(cuGraphNodeFindInClone(&found, kernel, copy));
    assert_ptr_not_equal(found, kernel);
    BAD(cuGraphNodeFindInClone(&found, inner, copy));
    BAD(cuGraphExecKernelNodeSetParams(x, found, &launch));
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphExecUpdate(x, copy, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(cuGraphLaunch(x, 0));
    assert_int_equal(cuda_word(p + 40), 1 + 3);         // the kernel stays switched off
    CUgraphNode extra;
    OK(cuGraphAddEmptyNode(&extra, copy, NULL, 0));
    IS(ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(x, copy, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    BAD(cuGraphExecUpdate(x, WILD(CUgraph), &info));
    OK(cuGraphDestroyNode(extra));
    BAD(cuGraphDestroyNode(extra));
    OK(cuGraphDestroy(copy));
    BAD(cuGraphDestroy(copy));
    BAD(cuGraphDestroyNode(WILD(CUgraphNode)));
    OK(cuGraphDestroy(child));
    OK(cuGraphDestroy(g));
    BAD(cuGraphNodeGetType(kernel, &(CUgraphNodeType){0}));
    OK(cuGraphLaunch(x, 0));                            // lives without its graph
    OK(cuCtxSynchronize());
    OK(cuGraphExecDestroy(x));
}

static void edges(void **state)
{
    (void)state;
    CUgraph g;
    CUgraphNode n[3];
    CUgraphExec x;
    size_t k;
    OK(cuGraphCreate(&g, 0));
    for (int i = 0; i < 3; i++)
        OK(cuGraphAddEmptyNode(&n[i], g, NULL, 0));
    OK(cuGraphAddDependencies(g, &n[2], &n[0], NULL, 1));
    BAD(cuGraphAddDependencies(g, &n[2], &n[0], NULL, 1));          // there already
    BAD(cuGraphAddDependencies(g, &n[0], &n[0], NULL, 1));
    OK(cuGraphAddDependencies(g, &n[0], &n[1], NULL, 1));
    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphAddDependencies(g, &n[1], &n[2], NULL, 1));           // a cycle
    BAD(cuGraphInstantiate(&x, g, 0));
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    BAD(cuGraphInstantiateWithParams(&x, g, &params));
    assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    OK(cuGraphRemoveDependencies(g, &n[1], &n[2], NULL, 1));
    BAD(cuGraphRemoveDependencies(g, &n[1], &n[2], NULL, 1));
    OK(cuGraphInstantiateWithParams(&x, g, &params));
    cuuint64_t flags;
    OK(cuGraphExecGetFlags(x, &flags));
    OK(cuGraphGetEdges(g, NULL, NULL, NULL, &k));
    assert_int_equal(k, 2);
    OK(cuGraphDestroyNode(n[0]));
    OK(cuGraphGetEdges(g, NULL, NULL, NULL, &k));
    assert_int_equal(k, 0);
    BAD(cuGraphInstantiate(&x, g, 77));
    BAD(cuGraphInstantiate(NULL, g, 0));
    BAD(cuGraphInstantiate(&x, NULL, 0));
    BAD(cuGraphGetNodes(WILD(CUgraph), NULL, &k));
    BAD(cuGraphGetNodes(g, NULL, NULL));
    CUgraphNode all[5];
    k = 5;
    OK(cuGraphGetNodes(g, all, &k));
    assert_int_equal(k, 2);
    assert_null(all[4]);
    CUgraphNodeParams np = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    OK(cuGraphAddNode(&n[0], g, &n[1], NULL, 1, &np));
    np.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    IS(ERROR_NOT_SUPPORTED, cuGraphAddNode(&n[0], g, NULL, NULL, 0, &np));
    BAD(cuGraphAddNode(&n[0], g, NULL, NULL, 0, NULL));
    CUuserObject o;
    int freed = 0;
    OK(cuUserObjectCreate(&o, &freed, count_up, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuUserObjectRetain(o, 2));
    OK(cuGraphRetainUserObject(g, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
    OK(cuUserObjectRelease(o, 2));
    assert_int_equal(freed, 0);
    OK(cuGraphDestroy(g));
    assert_int_equal(freed, 1);
    BAD(cuUserObjectRelease(o, 1));
}

// A captured programmatic launch overlaps in every replay; a graph launched into a capture becomes
// a child.
static void nested(void **state)
{
    const struct cuda *c = *state;
    CUstream s;
    CUgraph g, outer;
    CUgraphExec x, y;
    CUdeviceptr p;
    CUgraphNode node;
    CUgraphNodeType type;
    unsigned n = 1, v = 1;
    size_t k = 1;
    void *args[] = {&p, &n, &v};
    OK(cuMemAlloc(&p, 64));
    OK(cuMemsetD32(p, 0, 1));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuLaunchKernel(cuda_function(c, "add1"), 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                           .value = {.programmaticStreamSerializationAllowed = 1}};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, s, &a, 1};
    OK(cuLaunchKernelEx(&config, cuda_function(c, "add1"), args, NULL));
    OK(cuStreamEndCapture(s, &g));
    CUgraphNode from[1], to[1];
    CUgraphEdgeData data[1];
    OK(cuGraphGetEdges(g, from, to, data, &k));
    assert_int_equal(data[0].type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuGraphLaunch(x, s));
    OK(cuStreamEndCapture(s, &outer));
    OK(cuGraphGetNodes(outer, &node, &k));
    OK(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_GRAPH);
    OK(cuGraphInstantiate(&y, outer, 0));
    OK(cuGraphLaunch(y, s));
    OK(cuStreamSynchronize(s));
    assert_int_equal(cuda_word(p), 2);
    OK(cuStreamBeginCaptureToGraph(s, outer, &node, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD32Async(p, 9, 1, s));
    OK(cuStreamUpdateCaptureDependencies(s, &node, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(cuStreamEndCapture(s, &g));
    assert_ptr_equal(g, outer);
    OK(cuGraphGetNodes(outer, NULL, &k));
    assert_int_equal(k, 2);

    // A graph outlives the context of its kernels, and then does not run.
    CUcontext other;
    CUgraphExec z;
    OK(cuCtxCreate(&other, NULL, 0, 0));
    IS(ERROR_INVALID_CONTEXT, cuGraphLaunch(y, 0));
    CUmodule m;
    CUfunction f;
    CUstream t;
    OK(cuModuleLoadData(&m, test_ptx));
    OK(cuModuleGetFunction(&f, m, "nop"));
    OK(cuStreamCreate(&t, 0));
    OK(cuStreamBeginCapture(t, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, t, NULL, NULL));
    OK(cuStreamEndCapture(t, &g));
    OK(cuGraphInstantiate(&z, g, 0));
    OK(cuModuleUnload(m));
    OK(cuGraphLaunch(z, t));                            // the module's code is kept
    OK(cuCtxDestroy(other));
    IS(ERROR_INVALID_CONTEXT, cuGraphLaunch(z, 0));
    OK(cuGraphExecDestroy(z));
    OK(cuGraphDestroy(g));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(capture), CUDA_TEST(spoilt), CUDA_TEST(wrong_thread),
        CUDA_TEST(nodes),   CUDA_TEST(edges),  CUDA_TEST(nested),
    };
    return cmocka_run_group_tests_name("emu/driver_graph", tests, NULL, NULL);
}
