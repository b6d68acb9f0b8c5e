// The driver API: order of work in and between streams, events, callbacks, memory values,
// programmatic launches.
#include "emu_cuda.h"

#include <pthread.h>
#include <unistd.h>

static void streams(void **state)
{
    const struct cuda *c = *state;
    CUstream s, t;
    CUdevice dev;
    CUcontext ctx;
    unsigned flags;
    unsigned long long a, b;
    int priority;
    CUstreamAttrValue v;
    BAD(cuStreamCreate(NULL, 0));
    BAD(cuStreamCreate(&s, 7));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreateWithPriority(&t, 0, -100));
    OK(cuStreamGetPriority(t, &priority));
    assert_int_equal(priority, -5);
    OK(cuStreamGetFlags(s, &flags));
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetFlags(0, &flags));
    OK(cuStreamGetId(s, &a));
    OK(cuStreamGetId(t, &b));
    assert_int_not_equal(a, b);
    OK(cuStreamGetCtx(s, &ctx));
    assert_ptr_equal(ctx, c->ctx);
    OK(cuStreamGetDevice(s, &dev));
    BAD(cuStreamGetPriority(s, NULL));
    BAD(cuStreamGetFlags(s, NULL));
    BAD(cuStreamGetId(s, NULL));
    NO_HANDLE(cuStreamGetId(WILD(CUstream), &a));
    OK(cuStreamQuery(s));
    OK(cuStreamSynchronize(s));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    OK(cuStreamGetAttribute(t, CU_STREAM_ATTRIBUTE_PRIORITY, &v));
    assert_int_equal(v.priority, -5);
    OK(cuStreamCopyAttributes(s, t));
    v.priority = -2;
    OK(cuStreamSetAttribute(s, CU_STREAM_ATTRIBUTE_PRIORITY, &v));
    v.priority = 3;
    BAD(cuStreamSetAttribute(s, CU_STREAM_ATTRIBUTE_PRIORITY, &v));
    NO_HANDLE(cuStreamDestroy(NULL));
    NO_HANDLE(cuStreamDestroy(CU_STREAM_LEGACY));
    NO_HANDLE(cuStreamDestroy(CU_STREAM_PER_THREAD));
    OK(cuStreamDestroy(s));
    NO_HANDLE(cuStreamDestroy(s));
    NO_HANDLE(cuStreamQuery(s));
    NO_HANDLE(cuStreamSynchronize(s));
    NO_HANDLE(cuStreamWaitEvent(s, NULL, 0));
    OK(cuStreamDestroy(t));
}

static void events(void **state)
{
    (void)state;
    CUevent e, f, quiet;
    CUstream s;
    float ms;
    OK(cuStreamCreate(&s, 0));
    OK(cuEventCreate(&e, 0));
    OK(cuEventCreate(&f, CU_EVENT_BLOCKING_SYNC));
    OK(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
    BAD(cuEventCreate(&e, 99));
    BAD(cuEventCreate(NULL, 0));
    OK(cuEventQuery(e));                                // nothing recorded: complete
    OK(cuEventSynchronize(e));
    NO_HANDLE(cuEventElapsedTime(&ms, e, f));
    OK(cuEventRecord(e, s));
    OK(cuEventRecordWithFlags(f, s, 0));
    OK(cuEventSynchronize(f));
    OK(cuEventElapsedTime(&ms, e, f));
    assert_true(ms >= 0 && ms < 10000);
    OK(cuEventRecord(quiet, s));
    NO_HANDLE(cuEventElapsedTime(&ms, e, quiet));
    BAD(cuEventElapsedTime(NULL, e, f));
    NO_HANDLE(cuEventRecord(NULL, s));
    NO_HANDLE(cuEventRecord(WILD(CUevent), s));
    NO_HANDLE(cuEventRecord(e, WILD(CUstream)));
    OK(cuStreamWaitEvent(s, e, 0));
    BAD(cuStreamWaitEvent(s, e, 5));
    NO_HANDLE(cuStreamWaitEvent(s, NULL, 0));
    OK(cuEventDestroy(e));
    NO_HANDLE(cuEventDestroy(e));
    NO_HANDLE(cuEventQuery(e));
    NO_HANDLE(cuEventSynchronize(e));
    NO_HANDLE(cuEventElapsedTime(&ms, e, f));
    NO_HANDLE(cuEventDestroy(NULL));
}

// A stream that waits for a word holds back what is behind it, and nothing else.
static void values(void **state)
{
    const struct cuda *c = *state;
    CUstream s, t;
    CUdeviceptr p;
    CUevent e;
    unsigned n = 1, v = 10;
    OK(cuMemAlloc(&p, 64));
    OK(cuMemsetD32(p, 0, 16));
    CUdeviceptr q = p + 32;
    void *args[] = {&q, &n, &v};
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, 0));
    OK(cuStreamWaitValue32(s, p, 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuLaunchKernel(cuda_function(c, "add1"), 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
    OK(cuEventRecord(e, s));
    IS(ERROR_NOT_READY, cuStreamQuery(s));
    IS(ERROR_NOT_READY, cuEventQuery(e));
    assert_int_equal(cuda_word(q), 0);
    OK(cuStreamWriteValue32(t, p, 4, 0));
    OK(cuStreamSynchronize(t));
    IS(ERROR_NOT_READY, cuStreamQuery(s));
    OK(cuStreamWriteValue32(t, p, 6, 0));
    OK(cuEventSynchronize(e));
    OK(cuStreamSynchronize(s));
    assert_int_equal(cuda_word(q), 10);

    OK(cuStreamWriteValue64(s, p + 8, UINT64_C(0x100000002), 0));
    OK(cuStreamWaitValue64(s, p + 8, UINT64_C(0x100000002), CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWaitValue64(s, p + 8, 2, CU_STREAM_WAIT_VALUE_AND));
    OK(cuStreamWaitValue32(s, p, 0, CU_STREAM_WAIT_VALUE_NOR));
    OK(cuStreamWaitValue32(s, p, 0xfffffff0u, CU_STREAM_WAIT_VALUE_GEQ));       // cyclic
    OK(cuStreamSynchronize(s));
    CUstreamBatchMemOpParams ops[2];
    memset(ops, 0, sizeof ops);
    ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = p;
    ops[0].writeValue.value = 99;
    ops[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[1].waitValue.address = p;
    ops[1].waitValue.value = 99;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    OK(cuStreamBatchMemOp(s, 2, ops, 0));
    OK(cuStreamSynchronize(s));
    assert_int_equal(cuda_word(p), 99);
    BAD(cuStreamWriteValue32(s, p + 2, 7, 0));
    BAD(cuStreamWriteValue32(s, 0x1234, 7, 0));
    BAD(cuStreamWriteValue64(s, p + 60, 7, 0));
    BAD(cuStreamWaitValue32(s, p, 7, 8));
    NO_HANDLE(cuStreamWriteValue32(WILD(CUstream), p, 7, 0));
}

// The host writes the word, in page-locked memory, while the program waits.
static void *poke(void *at)
{
    usleep(20000);
    __atomic_store_n((uint32_t *)at, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void host_value(void **state)
{
    (void)state;
    void *h;
    CUstream s;
    CUdeviceptr p;
    pthread_t t;
    OK(cuMemAllocHost(&h, 64));
    memset(h, 0, 64);
    OK(cuMemAlloc(&p, 4));
    OK(cuMemsetD32(p, 0, 1));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32(s, (CUdeviceptr)(uintptr_t)h, 1, CU_STREAM_WAIT_VALUE_EQ));
    uint32_t from = 42;
    OK(cuMemcpyHtoDAsync(p, &from, 4, s));              // takes the value now, writes it later
    from = 0;
    assert_int_equal(cuda_word(p), 0);
    assert_int_equal(pthread_create(&t, NULL, poke, h), 0);
    OK(cuStreamSynchronize(s));
    pthread_join(t, NULL);
    assert_int_equal(cuda_word(p), 42);
    OK(cuMemFreeHost(h));
}

// The legacy default stream waits for blocking streams and they for it; non-blocking streams do not
// care.
static void default_stream(void **state)
{
    (void)state;
    CUstream s, t, free_one;
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 64));
    OK(cuMemsetD32(p, 0, 16));
    OK(cuStreamCreate(&s, 0));
    OK(cuStreamCreate(&t, 0));
    OK(cuStreamCreate(&free_one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32(s, p, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemsetD32Async(p + 4, 1, 1, s));
    OK(cuMemsetD32Async(p + 4, 2, 1, 0));               // after s
    OK(cuMemsetD32Async(p + 4, 3, 1, t));               // after the default stream
    OK(cuMemsetD32Async(p + 8, 4, 1, free_one));        // at once
    OK(cuStreamSynchronize(free_one));
    IS(ERROR_NOT_READY, cuStreamQuery(s));
    IS(ERROR_NOT_READY, cuStreamQuery(0));
    IS(ERROR_NOT_READY, cuStreamQuery(t));
    OK(cuStreamWriteValue32(free_one, p, 1, 0));
    OK(cuStreamSynchronize(t));
    assert_int_equal(cuda_word(p + 4), 3);
    assert_int_equal(cuda_word(p + 8), 4);
}

static void waits_for_events(void **state)
{
    const struct cuda *c = *state;
    CUstream s, t;
    CUevent e;
    CUdeviceptr p;
    CUcontext other;
    OK(cuMemAlloc(&p, 64));
    OK(cuMemsetD32(p, 0, 16));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, 0));
    OK(cuStreamWaitValue32(s, p, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuEventRecord(e, s));
    OK(cuStreamWaitEvent(t, e, 0));
    OK(cuMemsetD32Async(p + 4, 7, 1, t));
    IS(ERROR_NOT_READY, cuStreamQuery(t));
    OK(cuStreamDestroy(t));                             // its work still gets done
    OK(cuEventDestroy(e));
    OK(cuMemsetD32(p, 1, 1));
    OK(cuCtxSynchronize());
    assert_int_equal(cuda_word(p + 4), 7);

    // A stream of another context waits for this one's event.
    OK(cuMemsetD32(p, 0, 1));
    OK(cuEventCreate(&e, 0));
    OK(cuStreamWaitValue32(s, p, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuEventRecord(e, s));
    OK(cuCtxCreate(&other, NULL, 0, 0));
    CUdeviceptr q;
    OK(cuMemAlloc(&q, 4));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitEvent(t, e, 0));
    OK(cuMemsetD32Async(q, 5, 1, t));
    IS(ERROR_NOT_READY, cuStreamQuery(t));
    OK(cuMemsetD32(p, 1, 1)); // releases it, in the first context's memory
    OK(cuStreamSynchronize(t));
    assert_int_equal(cuda_word(q), 5);
    NO_HANDLE(cuEventRecord(e, t));                     // an event records in its own context
    OK(cuCtxDestroy(other));
    OK(cuCtxSetCurrent(c->ctx));
}

struct trace {
    pthread_mutex_t lock;
    int at[8], count;
    CUresult inside;
};

static void note(void *user)
{
    struct trace *t = user;
    CUdeviceptr p;
    usleep(2000);
    t->inside = cuMemAlloc(&p, 4);                      // not permitted
    pthread_mutex_lock(&t->lock);
    t->at[t->count] = t->count;
    t->count++;
    pthread_mutex_unlock(&t->lock);
}

static void note_stream(CUstream stream, CUresult status, void *user)
{
    (void)stream;
    if (status == CUDA_SUCCESS)
        note(user);
}

// Callbacks run in order, after what is before them, on a thread of their own: the caller may hold
// its lock.
static void callbacks(void **state)
{
    (void)state;
    struct trace t = {PTHREAD_MUTEX_INITIALIZER, {0}, 0, CUDA_SUCCESS};
    CUstream s;
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4));
    OK(cuStreamCreate(&s, 0));
    pthread_mutex_lock(&t.lock);
    OK(cuLaunchHostFunc(s, note, &t));
    OK(cuStreamAddCallback(s, note_stream, &t, 0));
    OK(cuMemsetD32Async(p, 5, 1, s));
    IS(ERROR_NOT_READY, cuStreamQuery(s));
    assert_int_equal(t.count, 0);
    pthread_mutex_unlock(&t.lock);
    OK(cuStreamSynchronize(s));
    assert_int_equal(t.count, 2);
    assert_int_equal(t.inside, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(cuda_word(p), 5);
    for (int i = 0; i < 4; i++)
        OK(cuLaunchHostFunc(0, note, &t));
    OK(cuCtxSynchronize());
    assert_int_equal(t.count, 6);
    BAD(cuLaunchHostFunc(s, NULL, NULL));
    BAD(cuStreamAddCallback(s, NULL, NULL, 0));
    BAD(cuStreamAddCallback(s, note_stream, &t, 1));
    NO_HANDLE(cuLaunchHostFunc(WILD(CUstream), note, &t));
}

// A context goes away with work waiting in it that nothing will ever release.
static void abandoned(void **state)
{
    (void)state;
    CUcontext ctx;
    CUstream s;
    CUdeviceptr p;
    CUevent e;
    OK(cuCtxCreate(&ctx, NULL, 0, 0));
    OK(cuMemAlloc(&p, 4));
    OK(cuMemsetD32(p, 0, 1));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, 0));
    OK(cuStreamWaitValue32(s, p, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuEventRecord(e, s));
    OK(cuMemsetD32Async(p, 5, 1, s));
    OK(cuCtxDestroy(ctx));
    NO_HANDLE(cuEventQuery(e));
    NO_HANDLE(cuStreamQuery(s));
}

// first: writes 1 after a while, having let its dependents go early. second: waits for it or not,
// then copies.
static const char *const chain_ptx =
    PTX_HEAD
    ".visible .entry first(.param .u64 p) {\n"
    "  .reg .b64 a; .reg .b32 i; .reg .pred q; ld.param.u64 a, [p];\n"
    "  griddepcontrol.launch_dependents; mov.u32 i, 0;\n"
    "again: add.u32 i, i, 1; setp.lt.u32 q, i, 3000; @q bra again;\n"
    "  st.global.u32 [a], 1; ret; }\n"
    ".visible .entry second(.param .u64 p, .param .u32 k) {\n"
    "  .reg .b64 a; .reg .b32 x, w; .reg .pred q; ld.param.u64 a, [p]; ld.param.u32 w, [k];\n"
    "  setp.eq.u32 q, w, 0; @q bra on; griddepcontrol.wait;\n"
    "on: ld.global.u32 x, [a]; st.global.u32 [a+4], x; ret; }\n";

static void programmatic(void **state)
{
    (void)state;
    CUmodule m;
    CUfunction first, second;
    CUdeviceptr p;
    unsigned w;
    OK(cuModuleLoadData(&m, chain_ptx));
    OK(cuModuleGetFunction(&first, m, "first"));
    OK(cuModuleGetFunction(&second, m, "second"));
    OK(cuMemAlloc(&p, 64));
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    CUlaunchConfig k = {1, 1, 1, 1, 1, 1, 0, 0, &a, 1};
    void *args[] = {&p, &w};
    // With the attribute and without a wait the second reads before the first has written.
    for (int overlap = 0; overlap < 2; overlap++)
        for (w = 0; w < 2; w++) {
            OK(cuMemsetD32(p, 0, 2));
            OK(cuCtxSynchronize());
            a.value.programmaticStreamSerializationAllowed = overlap;
            OK(cuLaunchKernel(first, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
            OK(cuLaunchKernelEx(&k, second, args, NULL));
            assert_int_equal(cuda_word(p + 4), !overlap || w);
        }
    // A launch held for a successor that never comes runs all the same.
    void *h;
    OK(cuMemAllocHost(&h, 64));
    memset(h, 0, 64);
    CUdeviceptr hp = (uintptr_t)h;
    args[0] = &hp;
    OK(cuLaunchKernel(first, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    CUdevice dev;
    usleep(500000);
    OK(cuCtxGetDevice(&dev));                           // makes nothing run
    assert_int_equal(*(uint32_t *)h, 1);
    OK(cuCtxSynchronize());
    OK(cuMemFreeHost(h));
}

// The forms with the thread's own default stream.
static void per_thread(void **state)
{
    (void)state;
    CUresult (*memset32)(CUdeviceptr, unsigned, size_t) = NULL;
    CUresult (*get_id)(CUstream, unsigned long long *) = NULL;
    CUresult (*sync)(CUstream) = NULL;
    unsigned long long a, b;
    CUdeviceptr p;
    const cuuint64_t flag = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    OK(cuGetProcAddress("cuMemsetD32", (void **)&memset32, 13000, flag, NULL));
    OK(cuGetProcAddress("cuStreamGetId", (void **)&get_id, 13000, flag, NULL));
    OK(cuGetProcAddress("cuStreamSynchronize", (void **)&sync, 13000, flag, NULL));
    OK(cuMemAlloc(&p, 4));
    OK(memset32(p, 9, 1));
    assert_int_equal(cuda_word(p), 9);
    OK(get_id(0, &a));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &b));
    assert_int_equal(a, b);
    OK(cuStreamGetId(0, &b));
    assert_int_not_equal(a, b);
    OK(sync(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(streams),    CUDA_TEST(events),         CUDA_TEST(values),
        CUDA_TEST(host_value), CUDA_TEST(default_stream), CUDA_TEST(waits_for_events),
        CUDA_TEST(callbacks),  CUDA_TEST(abandoned),      CUDA_TEST(programmatic),
        CUDA_TEST(per_thread),
    };
    return cmocka_run_group_tests_name("emu/driver_stream", tests, NULL, NULL);
}
