// The runtime API on the emulator, called as nvcc's host code calls it: a fat binary with PTX in it, registered symbols, and
// launches by host address.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef WITH_RUNTIME
static void runtime(void **state)
{
    (void)state;
    print_message("no cuda_runtime_api.h that is whole: the runtime was not built\n");
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runtime)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include <cuda_runtime_api.h>

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device_name, const char *name,
                            int threads, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int external,
                       size_t bytes, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t smem, struct CUstream_st *s);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *smem, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t smem,
                               cudaStream_t stream);

#define OK(call) assert_int_equal(call, cudaSuccess)

// add: out[i] = in[i] + bias + rank in the cluster; i counts the grid's threads.
static const char text[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .global .align 4 .u32 bias = 5;\n"
    ".extern .shared .align 16 .b8 pool[];\n"
    ".visible .entry add(.param .u64 in, .param .u64 out)\n{\n"
    "    .reg .b32 %r<8>;\n    .reg .b64 %d<6>;\n"
    "    ld.param.u64 %d0, [in];\n    ld.param.u64 %d1, [out];\n"
    "    mov.u32 %r0, %ctaid.x;\n    mov.u32 %r1, %ntid.x;\n    mov.u32 %r2, %tid.x;\n"
    "    mad.lo.u32 %r3, %r0, %r1, %r2;\n    mul.wide.u32 %d2, %r3, 4;\n"
    "    add.u64 %d3, %d0, %d2;\n    add.u64 %d4, %d1, %d2;\n"
    "    ld.global.u32 %r4, [%d3];\n    ld.global.u32 %r5, [bias];\n"
    "    add.u32 %r4, %r4, %r5;\n    mov.u32 %r6, %cluster_ctarank;\n    add.u32 %r4, %r4, %r6;\n"
    "    st.global.u32 [%d4], %r4;\n    ret;\n}\n";

// What nvcc puts into a program: a wrapper that points to a head and entries.
static struct {
    struct {
        uint32_t magic;
        uint16_t version, head_bytes;
        uint64_t bytes;
    } head;
    struct {
        uint16_t kind, version;
        uint32_t head_bytes;
        uint64_t bytes;
        uint32_t packed_bytes, options;
        uint16_t minor, major;
        uint32_t arch, name_at, name_bytes;
        uint64_t flags, zero[2];
    } entry;
    char text[(sizeof text + 7) / 8 * 8];
} fatbin;
static struct {
    uint32_t magic, version;
    const void *data, *file;
} wrapper;

static char add, bias, nobody; // host addresses that stand for symbols
static void **handle;

// Before main in a real program.
static int setup(void **state)
{
    (void)state;
    fatbin.head.magic = 0xba55ed50;
    fatbin.head.version = 1;
    fatbin.head.head_bytes = sizeof fatbin.head;
    fatbin.head.bytes = sizeof fatbin - sizeof fatbin.head;
    fatbin.entry.kind = 1;
    fatbin.entry.version = 0x101;
    fatbin.entry.head_bytes = sizeof fatbin.entry;
    fatbin.entry.bytes = sizeof fatbin.text;
    fatbin.entry.arch = 90;
    memcpy(fatbin.text, text, sizeof text);
    wrapper.magic = 0x466243b1;
    wrapper.version = 1;
    wrapper.data = &fatbin;
    handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, &add, NULL, "add", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(handle, &bias, NULL, "bias", 0, 4, 0, 1);
    __cudaRegisterFatBinaryEnd(handle);
    return handle == NULL;
}

static int teardown(void **state)
{
    (void)state;
    __cudaUnregisterFatBinary(handle);
    return 0;
}

enum { N = 256 };

struct buffers {
    uint32_t host[N], back[N];
    uint32_t *in, *out;
};

static int make_buffers(void **state)
{
    struct buffers *b = calloc(1, sizeof *b);
    *state = b;
    for (uint32_t i = 0; i < N; i++)
        b->host[i] = i * 7;
    OK(cudaMalloc((void **)&b->in, sizeof b->host));
    OK(cudaMalloc((void **)&b->out, sizeof b->host));
    OK(cudaMemcpy(b->in, b->host, sizeof b->host, cudaMemcpyHostToDevice));
    OK(cudaMemset(b->out, 0xee, sizeof b->host));
    return 0;
}

static int free_buffers(void **state)
{
    struct buffers *b = *state;
    OK(cudaFree(b->in));
    OK(cudaFree(b->out));
    free(b);
    return 0;
}

static void check(struct buffers *b, uint32_t more, unsigned cluster)
{
    OK(cudaMemcpy(b->back, b->out, sizeof b->back, cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(b->back[i], b->host[i] + more + i / 64 % cluster);
}

// add<<<4, 64>>>(in, out) as nvcc 13 writes it.
static void triple_angle(void **state)
{
    struct buffers *b = *state;
    void *args[] = {&b->in, &b->out};
    cudaKernel_t kernel = NULL;
    dim3 grid, block;
    size_t smem;
    cudaStream_t stream;
    OK(__cudaGetKernel(&kernel, &add));
    assert_int_equal(__cudaPushCallConfiguration((dim3){4, 1, 1}, (dim3){64, 1, 1}, 16, NULL), 0);
    OK(__cudaPopCallConfiguration(&grid, &block, &smem, &stream));
    assert_int_equal(grid.x * 1000 + block.x, 4064);
    assert_int_equal(smem, 16);
    OK(__cudaLaunchKernel(kernel, grid, block, args, smem, stream));
    OK(cudaGetLastError());
    check(b, 5, 1);
    assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &smem, &stream),
                     cudaErrorMissingConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorMissingConfiguration);
    OK(cudaGetLastError());
}

// By host address, in a stream, with events; the variable changed from the host.
static void streams(void **state)
{
    struct buffers *b = *state;
    void *args[] = {&b->in, &b->out};
    uint32_t value = 100, seen = 0;
    size_t bytes = 0;
    cudaStream_t stream;
    cudaEvent_t start, end;
    float ms = -1;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    OK(cudaGetSymbolSize(&bytes, &bias));
    assert_int_equal(bytes, 4);
    OK(cudaMemcpyToSymbolAsync(&bias, &value, 4, 0, cudaMemcpyHostToDevice, stream));
    OK(cudaEventRecord(start, stream));
    OK(cudaLaunchKernel(&add, (dim3){4, 1, 1}, (dim3){64, 1, 1}, args, 0, stream));
    OK(cudaEventRecord(end, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms >= 0);
    check(b, 100, 1);
    OK(cudaMemcpyFromSymbol(&seen, &bias, 4, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(seen, 100);
    value = 5;
    OK(cudaMemcpyToSymbol(&bias, &value, 4, 0, cudaMemcpyHostToDevice));
    assert_int_equal(cudaMemcpyToSymbol(&bias, &value, 4, 1, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyToSymbol(&nobody, &value, 4, 0, cudaMemcpyHostToDevice),
                     cudaErrorInvalidSymbol);
    cudaGetLastError();
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(end));
    OK(cudaStreamDestroy(stream));
}

static void clusters(void **state)
{
    struct buffers *b = *state;
    void *args[] = {&b->in, &b->out};
    cudaLaunchAttribute two = {.id = cudaLaunchAttributeClusterDimension,
                               .val.clusterDim = {2, 1, 1}};
    const cudaLaunchConfig_t config = {
        .gridDim = {4, 1, 1}, .blockDim = {64, 1, 1}, .attrs = &two, .numAttrs = 1};
    int blocks = 0, active = 0;
    struct cudaFuncAttributes attributes;
    OK(cudaLaunchKernelExC(&config, &add, args));
    check(b, 5, 2);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &add, 1024, 0));
    assert_int_equal(blocks, 2);
    OK(cudaOccupancyMaxActiveClusters(&active, &add, &config));
    assert_true(active > 0);
    OK(cudaFuncSetAttribute(&add, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    OK(cudaFuncGetAttributes(&attributes, &add));
    assert_int_equal(attributes.maxDynamicSharedSizeBytes, 200 << 10);
    assert_int_equal(attributes.maxThreadsPerBlock, 1024);
}

static void graphs(void **state)
{
    struct buffers *b = *state;
    void *args[] = {&b->in, &b->out};
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemcpyAsync(b->out, b->in, sizeof b->host, cudaMemcpyDeviceToDevice, stream));
    OK(cudaLaunchKernel(&add, (dim3){4, 1, 1}, (dim3){64, 1, 1}, args, 0, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaMemset(b->out, 0, sizeof b->host));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    check(b, 5, 1);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
}

static void copies(void **state)
{
    struct buffers *b = *state;
    uint32_t *rows;
    size_t pitch;
    struct cudaPointerAttributes where;
    OK(cudaMallocPitch((void **)&rows, &pitch, 64, 4));
    OK(cudaMemset2D(rows, pitch, 0, 64, 4));
    OK(cudaMemcpy2D(rows, pitch, b->host, 64, 64, 4, cudaMemcpyDefault));
    OK(cudaMemcpy2D(b->back, 128, rows, pitch, 64, 4, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 16; x++)
            assert_int_equal(b->back[32 * y + x], b->host[16 * y + x]);
    memset(b->back, 0, sizeof b->back);
    OK(cudaMemcpy(b->back, b->host, sizeof b->back, cudaMemcpyHostToHost));
    assert_memory_equal(b->back, b->host, sizeof b->back);
    OK(cudaPointerGetAttributes(&where, rows));
    assert_int_equal(where.type, cudaMemoryTypeDevice);
    assert_ptr_equal(where.devicePointer, rows);
    OK(cudaPointerGetAttributes(&where, b));
    assert_int_equal(where.type, cudaMemoryTypeUnregistered);
    assert_int_equal(cudaMemcpy2D(b->back, 32, rows, pitch, 64, 4, cudaMemcpyDeviceToHost),
                     cudaErrorInvalidPitchValue);
    assert_int_equal(cudaMemcpy(b->back, rows, 4, (enum cudaMemcpyKind)7),
                     cudaErrorInvalidMemcpyDirection);
    cudaGetLastError();
    OK(cudaFree(rows));
    OK(cudaFree(NULL));
}

static void devices(void **state)
{
    (void)state;
    int count = 0, dev = -1, major = 0, driver = 0, runtime = 0;
    struct cudaDeviceProp p;
    OK(cudaGetDeviceCount(&count));
    assert_true(count >= 1);
    OK(cudaGetDevice(&dev));
    assert_int_equal(dev, 0);
    OK(cudaGetDeviceProperties(&p, 0));
    OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    assert_int_equal(p.major, major);
    assert_int_equal(p.warpSize, 32);
    assert_int_equal(p.sharedMemPerBlockOptin, 232448);
    OK(cudaDriverGetVersion(&driver));
    OK(cudaRuntimeGetVersion(&runtime));
    assert_true(driver >= runtime / 1000 * 1000);
    assert_int_equal(cudaSetDevice(99), cudaErrorInvalidDevice);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    assert_string_equal(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidDevice");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidSymbol), "invalid device symbol");
}

static void refusals(void **state)
{
    struct buffers *b = *state;
    void *args[] = {&b->in, &b->out};
    assert_int_equal(
        cudaLaunchKernel(&nobody, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, NULL),
        cudaErrorInvalidDeviceFunction);
    assert_int_equal(cudaLaunchKernel(&add, (dim3){1, 1, 1}, (dim3){2048, 1, 1}, args, 0, NULL),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

// Last: the context is faulty afterwards, and whole again after a reset.
static void faults(void **state)
{
    (void)state;
    uint32_t *in, *out;
    OK(cudaMalloc((void **)&in, 4));
    OK(cudaMalloc((void **)&out, 4));
    OK(cudaMemset(in, 0, 4));
    void *args[] = {&in, &out};
    int result = cudaLaunchKernel(&add, (dim3){1, 1, 1}, (dim3){64, 1, 1}, args, 0, NULL);
    if (result == cudaSuccess)
        result = cudaDeviceSynchronize();
    assert_int_equal(result, cudaErrorIllegalAddress);
    assert_int_equal(cudaMalloc((void **)&in, 4), cudaErrorIllegalAddress);
    OK(cudaDeviceReset());
    OK(cudaMalloc((void **)&in, 4));
    OK(cudaFree(in));
}

int main(void)
{
#define WITH_BUFFERS(f) cmocka_unit_test_setup_teardown(f, make_buffers, free_buffers)
    const struct CMUnitTest tests[] = {
        WITH_BUFFERS(triple_angle), WITH_BUFFERS(streams), WITH_BUFFERS(clusters),
        WITH_BUFFERS(graphs),       WITH_BUFFERS(copies),  cmocka_unit_test(devices),
        WITH_BUFFERS(refusals),     cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests_name("runtime", tests, setup, teardown);
}
#endif
