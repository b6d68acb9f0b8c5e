// Work that is neither a kernel nor a copy: callbacks, memory values, stream attributes, and the
// profiler's switches.
#include "driver.h"

#include <string.h>

// ---- callbacks ----------------------------------------------------------------------------------

static CUresult submit(struct context *ctx, CUstream stream, struct work *work)
{
    struct stream *s = stream_find(ctx, stream);
    CUresult result = !work ? CUDA_ERROR_OUT_OF_MEMORY
                      : !s  ? CUDA_ERROR_INVALID_HANDLE
                            : capture_legacy(ctx, s);
    if (result == CUDA_SUCCESS && s->context->fault)
        result = s->context->fault;
    if (result == CUDA_SUCCESS)
        return stream_submit(s, work);
    work_drop(work);
    return result;
}

static CUresult host_func(struct context *ctx, CUstream stream, CUhostFn fn, void *user)
{
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    struct work *work = work_new(WORK_HOST);
    if (work) {
        work->host.fn = fn;
        work->host.user = user;
    }
    return submit(ctx, stream, work);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *user)
{
    IN_HEALTHY(host_func(ctx, stream, fn, user));
}

static CUresult add_callback(struct context *ctx, CUstream stream, CUstreamCallback callback,
                             void *user, unsigned flags)
{
    const struct stream *s = stream_find(ctx, stream);
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (s && s->capture) {
        capture_spoil(s->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    struct work *work = work_new(WORK_HOST);
    if (work) {
        work->host.callback = callback;
        work->host.stream = stream;
        work->host.user = user;
    }
    return submit(ctx, stream, work);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *user,
                             unsigned int flags)
{
    IN_HEALTHY(add_callback(ctx, stream, callback, user, flags));
}

// ---- memory values ------------------------------------------------------------------------------

static CUresult value_work(struct context *ctx, enum work_kind kind, CUdeviceptr address,
                           uint64_t value, unsigned bytes, unsigned flags, struct work **work)
{
    const unsigned known = kind == WORK_WRITE_VALUE
                               ? CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER
                               : CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH;
    const struct mem_block *block = mem_find(ctx->mem, address);
    if (!block)
        block = mem_find(driver.host, address);
    if ((flags & ~known) || address % bytes || !block ||
        bytes > block->size - (address - block->base))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_STREAM_WAIT_VALUE_FLUSH && kind == WORK_WAIT_VALUE)
        return CUDA_ERROR_NOT_SUPPORTED;
    *work = work_new(kind);
    if (!*work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*work)->value.address = address;
    (*work)->value.value = value;
    (*work)->value.bytes = bytes;
    (*work)->value.flags = flags;
    return CUDA_SUCCESS;
}

static CUresult value_op(struct context *ctx, CUstream stream, enum work_kind kind,
                         CUdeviceptr address, uint64_t value, unsigned bytes, unsigned flags)
{
    struct work *work;
    CUresult result = value_work(ctx, kind, address, value, bytes, flags, &work);
    return result == CUDA_SUCCESS ? submit(ctx, stream, work) : result;
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned int flags)
{
    IN_HEALTHY(value_op(ctx, stream, WORK_WRITE_VALUE, address, value, 4, flags));
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned int flags)
{
    IN_HEALTHY(value_op(ctx, stream, WORK_WRITE_VALUE, address, value, 8, flags));
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned int flags)
{
    IN_HEALTHY(value_op(ctx, stream, WORK_WAIT_VALUE, address, value, 4, flags));
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned int flags)
{
    IN_HEALTHY(value_op(ctx, stream, WORK_WAIT_VALUE, address, value, 8, flags));
}

static CUresult batch(struct context *ctx, CUstream stream, unsigned count,
                      const CUstreamBatchMemOpParams *ops, unsigned flags)
{
    if (flags || count > 256 || (count && !ops))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        const CUstreamBatchMemOpParams *op = &ops[i];
        CUresult result = CUDA_SUCCESS;
        switch (op->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            result = value_op(ctx, stream, WORK_WAIT_VALUE, op->waitValue.address,
                              op->waitValue.value, 4, op->waitValue.flags);
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            result = value_op(ctx, stream, WORK_WAIT_VALUE, op->waitValue.address,
                              op->waitValue.value64, 8, op->waitValue.flags);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            result = value_op(ctx, stream, WORK_WRITE_VALUE, op->writeValue.address,
                              op->writeValue.value, 4, op->writeValue.flags);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            result = value_op(ctx, stream, WORK_WRITE_VALUE, op->writeValue.address,
                              op->writeValue.value64, 8, op->writeValue.flags);
            break;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        case CU_STREAM_MEM_OP_BARRIER:
            break;
        default:
            result = CUDA_ERROR_INVALID_VALUE;
        }
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops,
                               unsigned int flags)
{
    IN_HEALTHY(batch(ctx, stream, count, ops, flags));
}

// ---- stream attributes --------------------------------------------------------------------------

static CUresult get_attribute(struct context *ctx, CUstream stream, CUstreamAttrID id,
                              CUstreamAttrValue *value)
{
    const struct stream *s = stream_find(ctx, stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof *value);
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        value->priority = s->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        value->syncPolicy = CU_SYNC_POLICY_AUTO;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID id, CUstreamAttrValue *value)
{
    IN_HEALTHY(get_attribute(ctx, stream, id, value));
}

// Where results cannot tell the difference, an attribute is taken and forgotten.
static CUresult set_attribute(struct context *ctx, CUstream stream, CUstreamAttrID id,
                              const CUstreamAttrValue *value)
{
    struct stream *s = stream_find(ctx, stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        if (value->priority > STREAM_PRIORITY_LEAST || value->priority < STREAM_PRIORITY_GREATEST)
            return CUDA_ERROR_INVALID_VALUE;
        s->priority = value->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID id, const CUstreamAttrValue *value)
{
    IN_HEALTHY(set_attribute(ctx, stream, id, value));
}

static CUresult copy_attributes(struct context *ctx, CUstream to, CUstream from)
{
    struct stream *t = stream_find(ctx, to);
    const struct stream *f = stream_find(ctx, from);
    if (!t || !f)
        return CUDA_ERROR_INVALID_HANDLE;
    t->priority = f->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
    IN_HEALTHY(copy_attributes(ctx, to, from));
}

// ---- profiler -----------------------------------------------------------------------------------
// There is none: switching it on and off succeeds, as it does under a driver that nobody profiles.

CUresult cuProfilerStart(void)
{
    IN_CONTEXT(CUDA_SUCCESS);
}

CUresult cuProfilerStop(void)
{
    IN_CONTEXT(CUDA_SUCCESS);
}
