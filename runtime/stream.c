// Streams, events, capture, graphs: the driver's, by other names.
#include "runtime.h"

PASS(cudaStreamCreate, (cudaStream_t *stream), cuStreamCreate(stream, CU_STREAM_DEFAULT))
PASS(cudaStreamCreateWithFlags, (cudaStream_t *stream, unsigned int flags),
     cuStreamCreate(stream, flags))
PASS(cudaStreamCreateWithPriority, (cudaStream_t *stream, unsigned int flags, int priority),
     cuStreamCreateWithPriority(stream, flags, priority))
PASS(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy(stream))
PASS(cudaStreamGetPriority, (cudaStream_t stream, int *priority),
     cuStreamGetPriority(stream, priority))
PASS(cudaStreamGetFlags, (cudaStream_t stream, unsigned int *flags),
     cuStreamGetFlags(stream, flags))
PASS(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id), cuStreamGetId(stream, id))
PASS(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize(stream))
PASS(cudaStreamQuery, (cudaStream_t stream), cuStreamQuery(stream))
PASS(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
     cuStreamWaitEvent(stream, event, flags))
// The callback's error argument has the same numbers in both APIs.
PASS(cudaStreamAddCallback,
     (cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned int flags),
     cuStreamAddCallback(stream, (CUstreamCallback)callback, data, flags))

PASS(cudaEventCreate, (cudaEvent_t *event), cuEventCreate(event, CU_EVENT_DEFAULT))
PASS(cudaEventCreateWithFlags, (cudaEvent_t *event, unsigned int flags),
     cuEventCreate(event, flags))
PASS(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord(event, stream))
PASS(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
     cuEventRecordWithFlags(event, stream, flags))
PASS(cudaEventQuery, (cudaEvent_t event), cuEventQuery(event))
PASS(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize(event))
PASS(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy(event))
PASS(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
     cuEventElapsedTime(ms, start, end))

// ---- capture and graphs -------------------------------------------------------------------------

PASS(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
     cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode))
PASS(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
     cuStreamEndCapture(stream, graph))
PASS(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
     cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status))
PASS(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode *mode),
     cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))
PASS(cudaGraphCreate, (cudaGraph_t *graph, unsigned int flags), cuGraphCreate(graph, flags))
PASS(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
PASS(cudaGraphClone, (cudaGraph_t *clone, cudaGraph_t graph), cuGraphClone(clone, graph))
PASS(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
     cuGraphGetNodes(graph, nodes, count))
PASS(cudaGraphInstantiate, (cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags),
     cuGraphInstantiateWithFlags(exec, graph, flags))
PASS(cudaGraphInstantiateWithFlags,
     (cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags),
     cuGraphInstantiateWithFlags(exec, graph, flags))
PASS(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), cuGraphUpload(exec, stream))
PASS(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), cuGraphLaunch(exec, stream))
PASS(cudaGraphExecDestroy, (cudaGraphExec_t exec), cuGraphExecDestroy(exec))
