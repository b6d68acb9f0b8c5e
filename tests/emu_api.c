// The driver API: start-up, devices, contexts, errors, entry points by name.
#include "emu_cuda.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

// Runs first: nothing is initialised yet.
static void before_init(void **state)
{
    (void)state;
    int n;
    CUdevice d;
    CUdeviceptr p;
    CUcontext c;
    const char *s;
    OK(cuDriverGetVersion(&n));
    assert_int_equal(n, 13000);
    BAD(cuDriverGetVersion(NULL));
    IS(ERROR_NOT_INITIALIZED, cuDeviceGet(&d, 0));
    IS(ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
    IS(ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&c));
    IS(ERROR_NOT_INITIALIZED, cuMemAlloc(&p, 4));
    IS(ERROR_NOT_INITIALIZED, cuCtxSynchronize());
    OK(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &s));
    BAD(cuInit(5));
}

// A child with a wrong variable: cuInit fails and the report says which and why.
static void bad_environment(void **state)
{
    (void)state;
    static const struct { const char *name, *value;
    } rows[] = {
        {"PTXMM_EMU_PART", "h300"},   {"PTXMM_EMU_SMS", "0"},    {"PTXMM_EMU_SMS", "many"},
        {"PTXMM_EMU_DEVICES", "17"},  {"PTXMM_EMU_SEED", "-1"},  {"PTXMM_EMU_SEED", "1x"},
        {"PTXMM_EMU_POLICY", "lazy"}, {"PTXMM_EMU_MATH", "yes"}, {"PTXMM_EMU_RULES", "all"},
        {"PTXMM_EMU_RULES", "strict,none"}, {"PTXMM_EMU_RULES", "assume strict"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            setenv(rows[i].name, rows[i].value, 1);
            bool ok = cuInit(0) == CUDA_ERROR_INVALID_VALUE &&
                      strstr(ptxmmEmulatorReport(), rows[i].name) &&
                      strstr(ptxmmEmulatorReport(), rows[i].value);
            _exit(ok ? 0 : 1);
        }
        int status = -1;
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
    }
}

static void environment(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("PTXMM_EMU_PART", "b200", 1);
        setenv("PTXMM_EMU_SMS", "20", 1);
        setenv("PTXMM_EMU_DEVICES", "3", 1);
        int n = 0, major = 0, sms = 0;
        char name[64] = "";
        bool ok = cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&n) == CUDA_SUCCESS && n == 3;
        ok = ok &&
             cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 2) ==
                 CUDA_SUCCESS &&
             major == 10;
        ok = ok &&
             cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1) ==
                 CUDA_SUCCESS &&
             sms == 20;
        ok = ok && cuDeviceGetName(name, sizeof name, 0) == CUDA_SUCCESS && strstr(name, "B200");
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

// Every word is taken, and reaches the machine: this store without a proxy fence is a trap then.
static void rules(void **state)
{
    static const char text[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
        ".shared .align 16 .b8 s[16];\n.reg .b32 a, z;\n.reg .b64 g;\n"
        "mov.u32 a, s;\nmov.u32 z, 0;\nst.shared.v4.b32 [a], {z, z, z, z};\n"
        "ld.param.u64 g, [out];\n"
        "cp.async.bulk.global.shared::cta.bulk_group [g], [a], 16;\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;\n}\n";
    static const char *const words[] = {
        "", "assume,mixed-16bit,padded-bytes,strict-cp,strict-fence,strict-wait,strict-exit,"
        "zeros-count,"
        "no-floor,normalise,fp4-zeros-vanish", "assume,strict-proxy", "strict",
    };

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            CUcontext c;
            CUmodule m;
            CUfunction f;
            CUdeviceptr p;
            void *args[] = {&p};
            setenv("PTXMM_EMU_RULES", words[i], 1);
            bool ok = !cuInit(0) && !cuDevicePrimaryCtxRetain(&c, 0) && !cuCtxSetCurrent(c) &&
                      !cuModuleLoadData(&m, text) && !cuModuleGetFunction(&f, m, "k") &&
                      !cuMemAlloc(&p, 16) &&
                      !cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
            const CUresult result = cuCtxSynchronize();
            const bool strict = strstr(ptxmmEmulatorReport(), "PROXY") != NULL;
            ok = ok && (i < 2 ? !result && !strict : result && strict);
            _exit(ok ? 0 : 1);
        }
        int status = -1;
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
    }
}

static void no_context(void **state)
{
    (void)state;
    CUcontext c = WILD(CUcontext);
    CUdeviceptr p;
    CUmodule m;
    OK(cuInit(0));
    OK(cuInit(0));
    OK(cuCtxGetCurrent(&c));
    assert_null(c);
    IS(ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 4));
    IS(ERROR_INVALID_CONTEXT, cuCtxSynchronize());
    IS(ERROR_INVALID_CONTEXT, cuStreamSynchronize(0));
    IS(ERROR_INVALID_CONTEXT, cuModuleLoadData(&m, test_ptx));
    IS(ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
    IS(ERROR_INVALID_CONTEXT, cuCtxPopCurrent(NULL));
    BAD(cuCtxPushCurrent(NULL));
    IS(ERROR_INVALID_CONTEXT, cuCtxPushCurrent(WILD(CUcontext)));
    IS(ERROR_INVALID_CONTEXT, cuCtxSetCurrent(WILD(CUcontext)));
    IS(ERROR_INVALID_CONTEXT, cuCtxDestroy(NULL));
    IS(ERROR_INVALID_CONTEXT, cuCtxDestroy(WILD(CUcontext)));
    OK(cuDevicePrimaryCtxReset(0));
    assert_string_equal(ptxmmEmulatorReport(), "");
}

static void devices(void **state)
{
    (void)state;
    int n, major, minor;
    CUdevice d;
    char text[64];
    CUuuid uuid;
    size_t bytes;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&n));
    assert_int_equal(n, 1);
    BAD(cuDeviceGetCount(NULL));
    OK(cuDeviceGet(&d, 0));
    BAD(cuDeviceGet(NULL, 0));
    IS(ERROR_INVALID_DEVICE, cuDeviceGet(&d, 1));
    IS(ERROR_INVALID_DEVICE, cuDeviceGet(&d, -1));
    OK(cuDeviceGetName(text, sizeof text, 0));
    assert_non_null(strstr(text, "H200"));
    OK(cuDeviceGetName(text, 3, 0));
    assert_int_equal(strlen(text), 2);
    BAD(cuDeviceGetName(NULL, 3, 0));
    BAD(cuDeviceGetName(text, 0, 0));
    IS(ERROR_INVALID_DEVICE, cuDeviceGetName(text, 3, 77));
    OK(cuDeviceGetUuid(&uuid, 0));
    BAD(cuDeviceGetUuid(NULL, 0));
    IS(ERROR_INVALID_DEVICE, cuDeviceGetUuid(&uuid, 5));
    OK(cuDeviceTotalMem(&bytes, 0));
    assert_int_equal(bytes, UINT64_C(150109880320));
    BAD(cuDeviceTotalMem(NULL, 0));
    IS(ERROR_INVALID_DEVICE, cuDeviceTotalMem(&bytes, -2));
    OK(cuDeviceComputeCapability(&major, &minor, 0));
    assert_int_equal(major * 10 + minor, 90);
    BAD(cuDeviceComputeCapability(NULL, &minor, 0));
    static const struct { CUdevice_attribute a; int v;
    } rows[] = {
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
        {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
        {CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        OK(cuDeviceGetAttribute(&n, rows[i].a, 0));
        assert_int_equal(n, rows[i].v);
    }
    for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++)
        OK(cuDeviceGetAttribute(&n, (CUdevice_attribute)a, 0));
    BAD(cuDeviceGetAttribute(&n, (CUdevice_attribute)0, 0));
    BAD(cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_MAX, 0));
    BAD(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    IS(ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 9));
    OK(cuDeviceGetPCIBusId(text, sizeof text, 0));
    OK(cuDeviceGetByPCIBusId(&d, text));
    assert_int_equal(d, 0);
    BAD(cuDeviceGetByPCIBusId(&d, "nonsense"));
    IS(ERROR_INVALID_DEVICE, cuDeviceGetByPCIBusId(&d, "0000:55:00.0"));
    OK(cuDeviceCanAccessPeer(&n, 0, 0));
    assert_int_equal(n, 0);
    IS(ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&n, 0, 1));
    IS(ERROR_INVALID_DEVICE,
       cuDeviceGetP2PAttribute(&n, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
    OK(cuDeviceGetExecAffinitySupport(&n, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
    CUdevprop prop;
    OK(cuDeviceGetProperties(&prop, 0));
    assert_int_equal(prop.SIMDWidth, 32);
}

static void primary_context(void **state)
{
    (void)state;
    CUcontext a, b;
    CUdeviceptr p;
    unsigned flags;
    int active;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN));
    BAD(cuDevicePrimaryCtxSetFlags(0, 0x4000));
    OK(cuDevicePrimaryCtxRetain(&a, 0));
    OK(cuDevicePrimaryCtxRetain(&b, 0));
    assert_ptr_equal(a, b);
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 1);
    assert_int_equal(flags, CU_CTX_SCHED_SPIN);
    OK(cuDevicePrimaryCtxSetFlags(0, 0));
    OK(cuCtxSetCurrent(a));
    OK(cuMemAlloc(&p, 64));
    IS(ERROR_INVALID_CONTEXT, cuCtxDestroy(a));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuMemFree(p));
    OK(cuDevicePrimaryCtxRelease(0));
    IS(ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&p, 64));
    IS(ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
    IS(ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxRetain(&b, 0));
    assert_ptr_not_equal(a, b);
    OK(cuCtxSetCurrent(b));
    OK(cuMemAlloc(&p, 64));
    OK(cuDevicePrimaryCtxReset(0));
    IS(ERROR_CONTEXT_IS_DESTROYED, cuMemFree(p));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuCtxSetCurrent(NULL));
    BAD(cuDevicePrimaryCtxRetain(NULL, 0));
    IS(ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&a, 4));
    IS(ERROR_INVALID_DEVICE, cuDevicePrimaryCtxReset(4));
}

static void created_contexts(void **state)
{
    (void)state;
    CUcontext a, b, c;
    CUdevice d;
    CUdeviceptr p;
    unsigned u;
    unsigned long long id, other;
    OK(cuInit(0));
    OK(cuCtxCreate(&a, NULL, CU_CTX_SCHED_YIELD, 0));
    OK(cuCtxGetFlags(&u));
    assert_int_equal(u, CU_CTX_SCHED_YIELD);
    OK(cuCtxSetFlags(CU_CTX_SCHED_SPIN));
    BAD(cuCtxSetFlags(0x8000));
    OK(cuCtxGetApiVersion(a, &u));
    assert_int_equal(u, 3020);
    OK(cuCtxGetApiVersion(NULL, &u));
    IS(ERROR_INVALID_CONTEXT, cuCtxGetApiVersion(WILD(CUcontext), &u));
    OK(cuCtxCreate(&b, NULL, 0, 0));
    OK(cuCtxGetCurrent(&c));
    assert_ptr_equal(c, b);
    OK(cuCtxGetId(a, &id));
    OK(cuCtxGetId(b, &other));
    assert_int_not_equal(id, other);
    OK(cuMemAlloc(&p, 64));
    OK(cuCtxPopCurrent(&c));
    assert_ptr_equal(c, b);
    OK(cuCtxGetDevice(&d));
    assert_int_equal(d, 0);
    BAD(cuCtxGetDevice(NULL));
    OK(cuMemcpyHtoD(p, &id, 8));                        // memory of another context of the process
    OK(cuCtxPushCurrent(b));
    OK(cuCtxDestroy(b));                                // pops it too
    OK(cuCtxGetCurrent(&c));
    assert_ptr_equal(c, a);
    BAD(cuMemcpyHtoD(p, &id, 8));
    IS(ERROR_INVALID_CONTEXT, cuCtxDestroy(b));
    IS(ERROR_INVALID_CONTEXT, cuCtxPushCurrent(b));
    OK(cuCtxDestroy(a));
    OK(cuCtxGetCurrent(&c));
    assert_null(c);
    BAD(cuCtxCreate(NULL, NULL, 0, 0));
    BAD(cuCtxCreate(&a, NULL, 0x100000, 0));
    IS(ERROR_INVALID_DEVICE, cuCtxCreate(&a, NULL, 0, 9));
}

static void limits(void **state)
{
    (void)state;
    size_t v;
    int lo, hi;
    CUfunc_cache cache;
    CUsharedconfig banks;
    OK(cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE));
    assert_int_equal(v, 1024);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 5000));
    OK(cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE));
    assert_int_equal(v, 5008);
    IS(ERROR_UNSUPPORTED_LIMIT, cuCtxGetLimit(&v, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH));
    IS(ERROR_UNSUPPORTED_LIMIT, cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 3));
    BAD(cuCtxGetLimit(&v, CU_LIMIT_MAX));
    BAD(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
    OK(cuCtxGetStreamPriorityRange(&lo, &hi));
    assert_int_equal(lo, 0);
    assert_int_equal(hi, -5);
    OK(cuCtxGetStreamPriorityRange(NULL, NULL));
    OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    OK(cuCtxGetCacheConfig(&cache));
    assert_int_equal(cache, CU_FUNC_CACHE_PREFER_L1);
    BAD(cuCtxSetCacheConfig((CUfunc_cache)9));
    OK(cuCtxGetSharedMemConfig(&banks));
    OK(cuCtxSetSharedMemConfig(banks));
    OK(cuCtxResetPersistingL2Cache());
    OK(cuProfilerStart());
    OK(cuProfilerStop());
}

static void error_words(void **state)
{
    (void)state;
    const char *s = NULL;
    OK(cuGetErrorName(CUDA_ERROR_INVALID_CLUSTER_SIZE, &s));
    assert_string_equal(s, "CUDA_ERROR_INVALID_CLUSTER_SIZE");
    OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &s));
    assert_string_equal(s, "an illegal memory access was encountered");
    OK(cuGetErrorString(CUDA_SUCCESS, &s));
    assert_string_equal(s, "no error");
    BAD(cuGetErrorName((CUresult)12345, &s));
    assert_null(s);
    BAD(cuGetErrorString((CUresult)-1, &s));
    BAD(cuGetErrorName(CUDA_SUCCESS, NULL));
    BAD(cuGetErrorString(CUDA_SUCCESS, NULL));
}

static void by_name(void **state)
{
    (void)state;
    void *p;
    CUdriverProcAddressQueryResult q;
    OK(cuGetProcAddress("cuMemAlloc", &p, 13000, 0, &q));
    assert_ptr_equal(p, (void *)(uintptr_t)cuMemAlloc);
    assert_int_equal(q, CU_GET_PROC_ADDRESS_SUCCESS);
    OK(cuGetProcAddress("cuCtxCreate", &p, 13000, 0, NULL));
    assert_ptr_equal(p, (void *)(uintptr_t)cuCtxCreate);
    void *older;
    OK(cuGetProcAddress("cuCtxCreate", &older, 11000, 0, &q));
    assert_non_null(older);
    assert_ptr_not_equal(p, older);
    OK(cuGetProcAddress("cuNope", &p, 13000, 0, &q));
    assert_null(p);
    assert_int_equal(q, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    OK(cuGetProcAddress("cuLaunchKernelEx", &p, 11000, 0, &q));
    assert_null(p);
    assert_int_equal(q, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(cuGetProcAddress("cuMemAlloc_v2", &p, 13000, 0, &q));
    assert_null(p);
    OK(cuGetProcAddress("cuStreamSynchronize", &p, 13000,
                        CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &q));
    assert_non_null(p);
    assert_ptr_not_equal(p, (void *)(uintptr_t)cuStreamSynchronize);
    OK(cuGetProcAddress("cuGraphInstantiate", &p, 12000, 0, &q));
    assert_ptr_equal(p, (void *)(uintptr_t)cuGraphInstantiateWithFlags);
    BAD(cuGetProcAddress(NULL, &p, 13000, 0, &q));
    BAD(cuGetProcAddress("cuInit", NULL, 13000, 0, &q));
    BAD(cuGetProcAddress("cuInit", &p, 99000, 0, &q));
    BAD(cuGetProcAddress("cuInit", &p, 13000, 8, &q));
}

static void not_implemented(void **state)
{
    (void)state;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR d = {0};
    IS(ERROR_NOT_SUPPORTED, cuArrayCreate(&array, &d));
    assert_non_null(strstr(ptxmmEmulatorReport(), "cuArrayCreate"));
    CUmemGenericAllocationHandle h;
    IS(ERROR_NOT_SUPPORTED, cuMemCreate(&h, 1, NULL, 0));
    CUlinkState link;
    IS(ERROR_NOT_SUPPORTED, cuLinkCreate(0, NULL, NULL, &link));
}

// What a child of fork may not do.
static void forked(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        CUdeviceptr p;
        bool ok = cuMemAlloc(&p, 4) == CUDA_ERROR_NOT_INITIALIZED &&
                  cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                  cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4));
    OK(cuMemFree(p));
}

// Kernels and copies on two contexts from two threads, with contexts made and unmade meanwhile.
static void *worker(void *arg)
{
    const unsigned seed = *(const unsigned *)arg;
    for (unsigned round = 0; round < 3; round++) {
        CUcontext ctx;
        CUmodule mod;
        CUfunction f;
        CUdeviceptr p;
        uint32_t data[300];
        unsigned n = 300, v = seed + round;
        void *args[] = {&p, &n, &v};
        if (cuCtxCreate(&ctx, NULL, 0, 0) || cuModuleLoadData(&mod, test_ptx) ||
            cuModuleGetFunction(&f, mod, "add1") || cuMemAlloc(&p, sizeof data) ||
            cuMemsetD32(p, 7, 300))
            return NULL;
        for (int i = 0; i < 10; i++)
            if (cuLaunchKernel(f, 3, 1, 1, 128, 1, 1, 0, 0, args, NULL))
                return NULL;
        if (cuMemcpyDtoH(data, p, sizeof data))
            return NULL;
        for (unsigned i = 0; i < 300; i++)
            if (data[i] != 7 + 10 * v)
                return NULL;
        if (cuCtxDestroy(ctx))
            return NULL;
    }
    return arg;
}

static void two_threads(void **state)
{
    (void)state;
    pthread_t t[2];
    unsigned seeds[2] = {3, 50};
    void *result;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, worker, &seeds[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], &result);
        assert_non_null(result);
    }
}

// Two threads that share one context: launches, copies and module loads of both.
struct share {
    struct cuda *c;
    unsigned n;
};

static void *sharer(void *arg)
{
    const struct share *s = arg;
    CUstream stream;
    CUdeviceptr p;
    CUfunction f;
    CUmodule mod;
    unsigned n = 64, v = 1;
    void *args[] = {&p, &n, &v};
    uint32_t data[64];
    if (cuCtxSetCurrent(s->c->ctx) || cuStreamCreate(&stream, s->n) ||
        cuMemAlloc(&p, sizeof data) || cuModuleLoadData(&mod, test_ptx) ||
        cuModuleGetFunction(&f, mod, "add1") || cuMemsetD32Async(p, 0, 64, stream))
        return NULL;
    for (int i = 0; i < 50; i++)
        if (cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, stream, args, NULL) ||
            (i % 10 == 0 && cuStreamSynchronize(stream)))
            return NULL;
    if (cuMemcpyDtoHAsync(data, p, sizeof data, stream) || cuStreamSynchronize(stream) ||
        cuModuleUnload(mod) || cuMemFree(p) || cuStreamDestroy(stream))
        return NULL;
    for (unsigned i = 0; i < 64; i++)
        if (data[i] != 50)
            return NULL;
    return arg;
}

static void one_context_two_threads(void **state)
{
    pthread_t t[2];
    struct share shares[2] = {{*state, 0}, {*state, CU_STREAM_NON_BLOCKING}};
    void *result;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, sharer, &shares[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], &result);
        assert_non_null(result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_init),      cmocka_unit_test(bad_environment),
        cmocka_unit_test(environment),      cmocka_unit_test(rules),
        cmocka_unit_test(no_context),
        cmocka_unit_test(devices),          cmocka_unit_test(primary_context),
        cmocka_unit_test(created_contexts), CUDA_TEST(limits),
        cmocka_unit_test(error_words),      cmocka_unit_test(by_name),
        CUDA_TEST(not_implemented),         CUDA_TEST(forked),
        cmocka_unit_test(two_threads),      CUDA_TEST(one_context_two_threads),
    };
    return cmocka_run_group_tests_name("emu/driver", tests, NULL, NULL);
}
