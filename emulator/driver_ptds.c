// The entry points of programs compiled for per-thread default streams: stream 0 means the thread's
// own.
#define __CUDA_API_VERSION_INTERNAL             // cuda.h then declares them
#include "driver.h"

static CUstream own(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}

#define ASYNC(name, params, args)       \
    CUresult name##_ptsz params         \
    {                                   \
        return name args;               \
    }

// The synchronous form is the asynchronous one on the thread's stream, and a wait for it.
#define SYNC(name, async, params, args)                                                         \
    CUresult name##_ptds params                                                                 \
    {                                                                                           \
        const CUstream s = CU_STREAM_PER_THREAD;                                                \
        CUresult result = async args;                                                           \
        return result == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : result;     \
    }

// ---- copies and fills ---------------------------------------------------------------------------

ASYNC(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
      (to, from, n, own(s)))
ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n, CUstream s),
      (to, from, n, own(s)))
ASYNC(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n, CUstream s),
      (to, from, n, own(s)))
ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
      (to, from, n, own(s)))
ASYNC(cuMemcpyPeerAsync,
      (CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t n,
       CUstream s),
      (to, to_ctx, from, from_ctx, n, own(s)))
ASYNC(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *p, CUstream s), (p, own(s)))
ASYNC(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *p, CUstream s), (p, own(s)))
ASYNC(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *p, CUstream s), (p, own(s)))
ASYNC(cuMemsetD8Async, (CUdeviceptr to, unsigned char v, size_t n, CUstream s), (to, v, n, own(s)))
ASYNC(cuMemsetD16Async, (CUdeviceptr to, unsigned short v, size_t n, CUstream s),
      (to, v, n, own(s)))
ASYNC(cuMemsetD32Async, (CUdeviceptr to, unsigned int v, size_t n, CUstream s), (to, v, n, own(s)))
ASYNC(cuMemsetD2D8Async,
      (CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h, CUstream s),
      (to, pitch, v, w, h, own(s)))
ASYNC(cuMemsetD2D16Async,
      (CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h, CUstream s),
      (to, pitch, v, w, h, own(s)))
ASYNC(cuMemsetD2D32Async,
      (CUdeviceptr to, size_t pitch, unsigned int v, size_t w, size_t h, CUstream s),
      (to, pitch, v, w, h, own(s)))

SYNC(cuMemcpy, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t n), (to, from, n, s))
SYNC(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n),
     (to, from, n, s))
SYNC(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n),
     (to, from, n, s))
SYNC(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n),
     (to, from, n, s))
SYNC(cuMemcpyPeer, cuMemcpyPeerAsync,
     (CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx, size_t n),
     (to, to_ctx, from, from_ctx, n, s))
SYNC(cuMemcpy2D_v2, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *p), (p, s))
SYNC(cuMemcpy2DUnaligned_v2, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *p), (p, s))
SYNC(cuMemcpy3D_v2, cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *p), (p, s))
SYNC(cuMemcpy3DPeer, cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *p), (p, s))
SYNC(cuMemsetD8_v2, cuMemsetD8Async, (CUdeviceptr to, unsigned char v, size_t n), (to, v, n, s))
SYNC(cuMemsetD16_v2, cuMemsetD16Async, (CUdeviceptr to, unsigned short v, size_t n), (to, v, n, s))
SYNC(cuMemsetD32_v2, cuMemsetD32Async, (CUdeviceptr to, unsigned int v, size_t n), (to, v, n, s))
SYNC(cuMemsetD2D8_v2, cuMemsetD2D8Async,
     (CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h), (to, pitch, v, w, h, s))
SYNC(cuMemsetD2D16_v2, cuMemsetD2D16Async,
     (CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h), (to, pitch, v, w, h, s))
SYNC(cuMemsetD2D32_v2, cuMemsetD2D32Async,
     (CUdeviceptr to, size_t pitch, unsigned int v, size_t w, size_t h), (to, pitch, v, w, h, s))

// ---- memory -------------------------------------------------------------------------------------

ASYNC(cuMemAllocAsync, (CUdeviceptr *out, size_t n, CUstream s), (out, n, own(s)))
ASYNC(cuMemAllocFromPoolAsync, (CUdeviceptr * out, size_t n, CUmemoryPool pool, CUstream s),
      (out, n, pool, own(s)))
ASYNC(cuMemFreeAsync, (CUdeviceptr address, CUstream s), (address, own(s)))

// ---- streams and events -------------------------------------------------------------------------

ASYNC(cuStreamGetPriority, (CUstream s, int *out), (own(s), out))
ASYNC(cuStreamGetDevice, (CUstream s, CUdevice *out), (own(s), out))
ASYNC(cuStreamGetFlags, (CUstream s, unsigned int *out), (own(s), out))
ASYNC(cuStreamGetId, (CUstream s, unsigned long long *out), (own(s), out))
ASYNC(cuStreamGetCtx, (CUstream s, CUcontext *out), (own(s), out))
ASYNC(cuStreamGetCtx_v2, (CUstream s, CUcontext *out, CUgreenCtx *green), (own(s), out, green))
ASYNC(cuStreamWaitEvent, (CUstream s, CUevent event, unsigned int flags), (own(s), event, flags))
ASYNC(cuStreamAddCallback, (CUstream s, CUstreamCallback fn, void *user, unsigned int flags),
      (own(s), fn, user, flags))
ASYNC(cuStreamQuery, (CUstream s), (own(s)))
ASYNC(cuStreamSynchronize, (CUstream s), (own(s)))
ASYNC(cuStreamCopyAttributes, (CUstream to, CUstream from), (own(to), own(from)))
ASYNC(cuStreamGetAttribute, (CUstream s, CUstreamAttrID id, CUstreamAttrValue *value),
      (own(s), id, value))
ASYNC(cuStreamSetAttribute, (CUstream s, CUstreamAttrID id, const CUstreamAttrValue *value),
      (own(s), id, value))
ASYNC(cuStreamWaitValue32_v2, (CUstream s, CUdeviceptr at, cuuint32_t value, unsigned int flags),
      (own(s), at, value, flags))
ASYNC(cuStreamWaitValue64_v2, (CUstream s, CUdeviceptr at, cuuint64_t value, unsigned int flags),
      (own(s), at, value, flags))
ASYNC(cuStreamWriteValue32_v2, (CUstream s, CUdeviceptr at, cuuint32_t value, unsigned int flags),
      (own(s), at, value, flags))
ASYNC(cuStreamWriteValue64_v2, (CUstream s, CUdeviceptr at, cuuint64_t value, unsigned int flags),
      (own(s), at, value, flags))
ASYNC(cuStreamBatchMemOp_v2,
      (CUstream s, unsigned int n, CUstreamBatchMemOpParams *ops, unsigned int flags),
      (own(s), n, ops, flags))
ASYNC(cuEventRecord, (CUevent event, CUstream s), (event, own(s)))
ASYNC(cuEventRecordWithFlags, (CUevent event, CUstream s, unsigned int flags),
      (event, own(s), flags))

// ---- launches -----------------------------------------------------------------------------------

ASYNC(cuLaunchKernel,
      (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
       unsigned int by, unsigned int bz, unsigned int smem, CUstream s, void **params,
       void **extra),
      (f, gx, gy, gz, bx, by, bz, smem, own(s), params, extra))
ASYNC(cuLaunchCooperativeKernel,
      (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
       unsigned int by, unsigned int bz, unsigned int smem, CUstream s, void **params),
      (f, gx, gy, gz, bx, by, bz, smem, own(s), params))
ASYNC(cuLaunchHostFunc, (CUstream s, CUhostFn fn, void *user), (own(s), fn, user))

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params,
                               void **extra)
{
    if (!config)
        return cuLaunchKernelEx(config, f, params, extra);
    CUlaunchConfig c = *config;
    c.hStream = own(c.hStream);
    return cuLaunchKernelEx(&c, f, params, extra);
}

// ---- capture and graphs -------------------------------------------------------------------------

ASYNC(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode mode), (own(s), mode))
ASYNC(cuStreamBeginCaptureToGraph,
      (CUstream s, CUgraph graph, const CUgraphNode *from, const CUgraphEdgeData *edges, size_t n,
       CUstreamCaptureMode mode),
      (own(s), graph, from, edges, n, mode))
ASYNC(cuStreamEndCapture, (CUstream s, CUgraph *graph), (own(s), graph))
ASYNC(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus *status), (own(s), status))
ASYNC(cuStreamGetCaptureInfo, (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id),
      (own(s), status, id))
ASYNC(cuStreamGetCaptureInfo_v2,
      (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
       const CUgraphNode **from, size_t *n),
      (own(s), status, id, graph, from, n))
ASYNC(cuStreamGetCaptureInfo_v3,
      (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
       const CUgraphNode **from, const CUgraphEdgeData **edges, size_t *n),
      (own(s), status, id, graph, from, edges, n))
ASYNC(cuStreamUpdateCaptureDependencies,
      (CUstream s, CUgraphNode *from, size_t n, unsigned int flags), (own(s), from, n, flags))
ASYNC(cuStreamUpdateCaptureDependencies_v2,
      (CUstream s, CUgraphNode *from, const CUgraphEdgeData *edges, size_t n, unsigned int flags),
      (own(s), from, edges, n, flags))
ASYNC(cuGraphInstantiateWithParams,
      (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p), (exec, graph, p))
ASYNC(cuGraphLaunch, (CUgraphExec exec, CUstream s), (exec, own(s)))
ASYNC(cuGraphUpload, (CUgraphExec exec, CUstream s), (exec, own(s)))
