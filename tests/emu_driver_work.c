// The driver API: modules, libraries, functions, launches and what they refuse, faults, occupancy.
#include "emu_cuda.h"

#include <dlfcn.h>
#include <unistd.h>

static void modules(void **state)
{
    const struct cuda *c = *state;
    CUmodule m;
    CUfunction f, g;
    CUdeviceptr p;
    size_t n;
    unsigned count;
    const char *name;
    CUfunctionLoadingState loaded;
    CUmoduleLoadingMode mode;
    OK(cuModuleGetFunction(&f, c->mod, "store"));
    OK(cuModuleGetFunction(&g, c->mod, "store"));
    assert_ptr_equal(f, g);
    IS(ERROR_NOT_FOUND, cuModuleGetFunction(&f, c->mod, "zip"));
    IS(ERROR_NOT_FOUND, cuModuleGetFunction(&f, c->mod, "counter"));
    BAD(cuModuleGetFunction(NULL, c->mod, "nop"));
    BAD(cuModuleGetFunction(&f, c->mod, NULL));
    NO_HANDLE(cuModuleGetFunction(&f, NULL, "nop"));
    NO_HANDLE(cuModuleGetFunction(&f, WILD(CUmodule), "nop"));
    NO_HANDLE(cuModuleGetFunction(&f, (CUmodule)g, "nop"));
    OK(cuModuleGetGlobal(&p, &n, c->mod, "counter"));
    assert_int_equal(n, 16);
    assert_int_equal(cuda_word(p + 8), 3);              // initialised
    OK(cuModuleGetGlobal(&p, NULL, c->mod, "table"));
    assert_int_equal(cuda_word(p + 4), 71);
    IS(ERROR_NOT_FOUND, cuModuleGetGlobal(&p, &n, c->mod, "zip"));
    BAD(cuModuleGetGlobal(NULL, NULL, c->mod, "counter"));
    NO_HANDLE(cuModuleGetGlobal(&p, &n, WILD(CUmodule), "counter"));
    OK(cuModuleGetFunctionCount(&count, c->mod));
    assert_int_equal(count, 13);
    CUfunction all[13] = {0};
    OK(cuModuleEnumerateFunctions(all, 13, c->mod));
    OK(cuFuncGetName(&name, all[12]));
    assert_string_equal(name, "shared");
    NO_HANDLE(cuModuleGetFunctionCount(&count, WILD(CUmodule)));
    NO_HANDLE(cuModuleEnumerateFunctions(all, 13, WILD(CUmodule)));
    OK(cuModuleGetLoadingMode(&mode));
    OK(cuFuncGetModule(&m, g));
    assert_ptr_equal(m, c->mod);
    OK(cuFuncLoad(g));
    OK(cuFuncIsLoaded(&loaded, g));
    NO_HANDLE(cuFuncLoad(WILD(CUfunction)));

    // Two loads of one text are two modules with variables of their own.
    OK(cuModuleLoadData(&m, test_ptx));
    OK(cuModuleGetFunction(&f, m, "bump"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
    CUdeviceptr q;
    OK(cuModuleGetGlobal(&q, NULL, m, "counter"));
    OK(cuModuleGetGlobal(&p, NULL, c->mod, "counter"));
    assert_int_equal(cuda_word(q), 2);
    assert_int_equal(cuda_word(p), 1);
    OK(cuModuleUnload(m));
    NO_HANDLE(cuModuleUnload(m));
    NO_HANDLE(cuModuleGetFunction(&f, m, "bump"));
    NO_HANDLE(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
    NO_HANDLE(cuModuleUnload(NULL));
    BAD(cuMemcpyHtoD(q, &n, 4));                        // its variables are gone
}

static void load_errors(void **state)
{
    (void)state;
    CUmodule m;
    char error[512] = "", info[512] = "x";
    CUjit_option o[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                        CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                        CU_JIT_LOG_VERBOSE};
    void *v[] = {error, (void *)512, info, (void *)512, (void *)1};
    IS(ERROR_INVALID_PTX,
       cuModuleLoadDataEx(&m, PTX_HEAD "\n.visible .entry x() { foo.u32 %r1; ret; }\n", 5, o, v));
    assert_non_null(strstr(error, "5"));                // the line
    assert_non_null(strstr(error, "foo"));
    assert_non_null(strstr(ptxmmEmulatorReport(), "foo"));
    assert_int_equal((size_t)v[1], strlen(error));
    assert_int_equal((size_t)v[3], 0);
    v[1] = (void *)8;                                   // a short buffer stays within its bounds
    memset(error, 'z', 16);
    IS(ERROR_INVALID_PTX,
       cuModuleLoadDataEx(&m, PTX_HEAD "\n.visible .entry x() { foo.u32 %r1; ret; }\n", 5, o, v));
    assert_int_equal(strlen(error), 7);
    assert_int_equal(error[8], 'z');
    OK(cuModuleLoadDataEx(&m, test_ptx, 5, o, v));
    assert_int_equal((size_t)v[1], 0);
    BAD(cuModuleLoadDataEx(&m, test_ptx, 1, NULL, NULL));
    CUjit_option odd = (CUjit_option)999;
    BAD(cuModuleLoadDataEx(&m, test_ptx, 1, &odd, v));
    IS(ERROR_INVALID_PTX,
       cuModuleLoadData(
           &m, ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry x(){ ret; }\n"));
    IS(ERROR_UNSUPPORTED_PTX_VERSION,
       cuModuleLoadData(
           &m, ".version 9.9\n.target sm_90\n.address_size 64\n.visible .entry x(){ ret; }\n"));
    IS(ERROR_INVALID_PTX,
       cuModuleLoadData(&m,
                        PTX_HEAD ".extern .func foo;\n.visible .entry x(){ call foo; ret; }\n"));
    IS(ERROR_INVALID_PTX,
       cuModuleLoadData(&m, PTX_HEAD ".extern .global .u32 far;\n.visible .entry x(){ ret; }\n"));
    OK(cuModuleLoadData(
        &m, ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry x(){ ret; }\n"));
    OK(cuModuleLoadData(&m, "// words\n# 1 \"file.ptx\"\n/* more */ " PTX_HEAD
                            ".visible .entry x(){ ret; }\n"));
    IS(ERROR_INVALID_IMAGE, cuModuleLoadData(&m, "garbage"));
    IS(ERROR_INVALID_IMAGE, cuModuleLoadData(&m, ""));
    IS(ERROR_INVALID_IMAGE, cuModuleLoadData(&m, "/* never ends"));
    IS(ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&m, "\177ELF\2\1\1"));
    assert_non_null(strstr(ptxmmEmulatorReport(), "cubin"));
    BAD(cuModuleLoadData(&m, NULL));
    BAD(cuModuleLoadData(NULL, test_ptx));
    BAD(cuModuleLoad(NULL, "x"));
    BAD(cuModuleLoad(&m, NULL));
    IS(ERROR_FILE_NOT_FOUND, cuModuleLoad(&m, "/nonexistent/file"));
    char path[] = "/tmp/emu_driver_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, test_ptx, strlen(test_ptx)), (ssize_t)strlen(test_ptx));
    close(fd);
    OK(cuModuleLoad(&m, path));
    CUlibrary lib;
    OK(cuLibraryLoadFromFile(&lib, path, NULL, NULL, 0, NULL, NULL, 0));
    unlink(path);
    OK(cuLibraryUnload(lib));
    IS(ERROR_FILE_NOT_FOUND, cuLibraryLoadFromFile(&lib, path, NULL, NULL, 0, NULL, NULL, 0));
}

enum packing { PLAIN, LZ4, ZSTD, DAMAGED_LZ4, DAMAGED_ZSTD, PACKINGS };

// Packs a text as nvcc would; 0: the library for it is not on this machine.
static size_t pack(enum packing packing, const char *text, uint8_t *to, size_t room)
{
    const bool zstd = packing == ZSTD || packing == DAMAGED_ZSTD;
    void *library = dlopen(zstd ? "libzstd.so.1" : "liblz4.so.1", RTLD_NOW);
    void *symbol = library ? dlsym(library, zstd ? "ZSTD_compress" : "LZ4_compress_default") : NULL;
    size_t (*by_zstd)(void *, size_t, const void *, size_t, int);
    int (*by_lz4)(const char *, char *, int, int);
    size_t bytes = 0;
    memcpy(&by_zstd, &symbol, sizeof symbol);
    memcpy(&by_lz4, &symbol, sizeof symbol);
    if (symbol)
        bytes = zstd ? by_zstd(to, room, text, strlen(text) + 1, 3)
                     : (size_t)by_lz4(text, (char *)to, (int)strlen(text) + 1, (int)room);
    if (packing == DAMAGED_LZ4 || packing == DAMAGED_ZSTD)
        memset(to, 0xff, 8);
    return bytes;
}

// A fat binary: a head, and entries of machine code (kind 2) or of PTX. 0: it cannot be packed here.
static size_t make_fat(uint8_t *fat, size_t room, uint16_t kind, enum packing packing)
{
    const char *texts[] = {
        PTX_HEAD ".visible .entry newer(){ ret; }\n",
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry older(){ ret; }\n"};
    const uint64_t flags[PACKINGS] = {0, 0x2000, 0x8000, 0x2000, 0x8000};
    size_t at = 16;
    memset(fat, 0, room);
    for (int i = 0; i < 2; i++) {
        const uint32_t arch = i ? 80 : 90, head = 64;
        const uint64_t plain = strlen(texts[i]) + 1;
        size_t packed = plain;
        if (packing)
            packed = pack(packing, texts[i], fat + at + head, room - at - head);
        else
            memcpy(fat + at + head, texts[i], plain);
        if (!packed)
            return 0;
        const uint32_t packed_bytes = packing ? (uint32_t)packed : 0;
        const uint64_t bytes = (packed + 7) / 8 * 8;
        memcpy(fat + at, &kind, 2);
        memcpy(fat + at + 4, &head, 4);
        memcpy(fat + at + 8, &bytes, 8);
        memcpy(fat + at + 16, &packed_bytes, 4);
        memcpy(fat + at + 28, &arch, 4);
        memcpy(fat + at + 40, &flags[packing], 8);
        memcpy(fat + at + 56, packing ? &plain : &(uint64_t){0}, 8);
        at += head + bytes;
    }
    const uint32_t magic = 0xba55ed50;
    const uint16_t head = 16;
    const uint64_t bytes = at - 16;
    memcpy(fat, &magic, 4);
    memcpy(fat + 6, &head, 2);
    memcpy(fat + 8, &bytes, 8);
    return at;
}

static void fat_binaries(void **state)
{
    (void)state;
    static _Alignas(8) uint8_t fat[8192];
    const struct {
        uint32_t magic, version;
        const void *data;
        void *extra;
    } wrapper = {0x466243b1, 1, fat, NULL};
    CUmodule m;
    CUfunction f;
    CUlibrary lib;
    CUkernel k;
    for (int packing = PLAIN; packing < PACKINGS; packing++) {
        if (!make_fat(fat, sizeof fat, 1, (enum packing)packing)) {
            print_message("nothing here packs by LZ4 or zstd, number %d\n", packing);
            continue;
        }
        if (packing < DAMAGED_LZ4) {
            OK(cuModuleLoadData(&m, fat));
            OK(cuModuleGetFunction(&f, m, "newer"));
            OK(cuModuleLoadFatBinary(&m, &wrapper));
            OK(cuModuleGetFunction(&f, m, "newer"));
            OK(cuLibraryLoadData(&lib, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
            OK(cuLibraryGetKernel(&k, lib, "newer"));
            OK(cuLibraryUnload(lib));
        } else {
            IS(ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&m, fat));
            assert_non_null(strstr(ptxmmEmulatorReport(), "damaged"));
            IS(ERROR_NO_BINARY_FOR_GPU, cuLibraryLoadData(&lib, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
        }
    }
    make_fat(fat, sizeof fat, 2, PLAIN);
    IS(ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&m, fat));
    IS(ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&m, &wrapper));
    assert_non_null(strstr(ptxmmEmulatorReport(), "no PTX"));
}

static void libraries(void **state)
{
    (void)state;
    CUlibrary lib, bad, back;
    CUkernel k, all[13];
    CUfunction f;
    CUmodule m;
    CUdeviceptr p;
    const char *name;
    unsigned count;
    int v;
    size_t offset, size;
    OK(cuLibraryLoadData(&lib, test_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernelCount(&count, lib));
    assert_int_equal(count, 13);
    OK(cuLibraryEnumerateKernels(all, 13, lib));
    OK(cuLibraryGetKernel(&k, lib, "store"));
    IS(ERROR_NOT_FOUND, cuLibraryGetKernel(&k, lib, "zip"));
    BAD(cuLibraryGetKernel(NULL, lib, "store"));
    NO_HANDLE(cuLibraryGetKernel(&k, WILD(CUlibrary), "store"));
    OK(cuKernelGetName(&name, k));
    assert_string_equal(name, "store");
    OK(cuKernelGetLibrary(&back, k));
    assert_ptr_equal(back, lib);
    OK(cuKernelGetParamInfo(k, 1, &offset, &size));
    assert_true(offset == 8 && size == 4);
    OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000, k, 0));
    OK(cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k, 0));
    assert_int_equal(v, 100000);
    BAD(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000, k, 0));
    IS(ERROR_INVALID_DEVICE, cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, k, 3));
    OK(cuKernelSetCacheConfig(k, CU_FUNC_CACHE_PREFER_SHARED, 0));
    OK(cuKernelGetFunction(&f, k));
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
    assert_int_equal(v, 100000);
    OK(cuLibraryGetModule(&m, lib));
    NO_HANDLE(cuModuleUnload(m));                       // the library's own
    OK(cuLibraryGetGlobal(&p, &size, lib, "counter"));
    assert_int_equal(size, 16);
    IS(ERROR_NOT_FOUND, cuLibraryGetManaged(&p, &size, lib, "counter"));

    // A kernel handle launches in whatever context is current.
    uint32_t word = 9;
    OK(cuMemAlloc(&p, 4));
    void *args[] = {&p, &word};
    OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 90000, 0, args, NULL));
    assert_int_equal(cuda_word(p), 9);
    CUcontext other;
    CUdeviceptr q;
    OK(cuCtxCreate(&other, NULL, 0, 0));
    OK(cuMemAlloc(&q, 4));
    args[0] = &q;
    NO_HANDLE(
        cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL)); // a function of the other context
    OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 90000, 0, args, NULL));
    assert_int_equal(cuda_word(q), 9);
    OK(cuCtxDestroy(other));
    OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, 0, (void *[]){&p, &word}, NULL));

    // What is wrong with a text shows when a kernel is asked for.
    OK(cuLibraryLoadData(&bad, "garbage", NULL, NULL, 0, NULL, NULL, 0));
    IS(ERROR_INVALID_IMAGE, cuLibraryGetKernel(&k, bad, "x"));
    OK(cuLibraryUnload(bad));
    OK(cuLibraryLoadData(&bad, PTX_HEAD ".visible .entry x(){ foo; ret; }", NULL, NULL, 0, NULL,
                         NULL, 0));
    IS(ERROR_INVALID_PTX, cuLibraryGetKernel(&k, bad, "x"));
    IS(ERROR_NO_BINARY_FOR_GPU, cuLibraryLoadData(&bad, "\177ELF", NULL, NULL, 0, NULL, NULL, 0));
    BAD(cuLibraryLoadData(NULL, test_ptx, NULL, NULL, 0, NULL, NULL, 0));
    BAD(cuLibraryLoadData(&bad, NULL, NULL, NULL, 0, NULL, NULL, 0));
    k = all[1];
    OK(cuLibraryUnload(lib));
    NO_HANDLE(cuLibraryUnload(lib));
    NO_HANDLE(cuKernelGetName(&name, k));
    NO_HANDLE(cuKernelGetFunction(&f, k));
    NO_HANDLE(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
}

static void functions(void **state)
{
    const struct cuda *c = *state;
    CUfunction f = cuda_function(c, "shapes");
    size_t o, n;
    int v;
    static const struct { size_t offset, size; } want[] = {{0, 8}, {48, 128}, {176, 1}, {192, 24}};
    for (size_t i = 0; i < 4; i++) {
        OK(cuFuncGetParamInfo(f, i, &o, &n));
        assert_int_equal(o, want[i].offset);
        assert_int_equal(n, want[i].size);
    }
    BAD(cuFuncGetParamInfo(f, 4, &o, &n));
    BAD(cuFuncGetParamInfo(f, 0, NULL, &n));
    OK(cuFuncGetParamInfo(f, 0, &o, NULL));
    f = cuda_function(c, "shared");
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
    assert_int_equal(v, 4096);
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
    assert_int_equal(v, 45056);
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_BINARY_VERSION, f));
    assert_int_equal(v, 90);
    for (int a = 0; a < CU_FUNC_ATTRIBUTE_MAX; a++)
        OK(cuFuncGetAttribute(&v, (CUfunction_attribute)a, f));
    BAD(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX, f));
    BAD(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    NO_HANDLE(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, NULL));
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448 - 4096));
    BAD(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448 - 4095));
    BAD(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1));
    BAD(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 64));
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    BAD(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101));
    BAD(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -2));
    BAD(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, 1));
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    NO_HANDLE(cuFuncSetAttribute(NULL, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1));
    OK(cuFuncSetCacheConfig(f, CU_FUNC_CACHE_PREFER_EQUAL));
    BAD(cuFuncSetCacheConfig(f, (CUfunc_cache)7));
    NO_HANDLE(cuFuncSetCacheConfig(WILD(CUfunction), CU_FUNC_CACHE_PREFER_NONE));
    OK(cuFuncSetSharedMemConfig(f, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, cuda_function(c, "pair")));
    assert_int_equal(v, 2);
    BAD(cuFuncSetAttribute(cuda_function(c, "pair"), CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4));
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET,
                          cuda_function(c, "explicit")));
    assert_int_equal(v, 1);
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, cuda_function(c, "most")));
    assert_int_equal(v, 128);
}

static void launch_shapes(void **state)
{
    const struct cuda *c = *state;
    CUfunction f = cuda_function(c, "nop");
#define GO(gx, gy, gz, bx, by, bz, smem) \
    cuLaunchKernel(f, gx, gy, gz, bx, by, bz, smem, 0, NULL, NULL)
    OK(GO(1, 1, 1, 32, 1, 1, 0));
    BAD(GO(0, 1, 1, 32, 1, 1, 0));
    BAD(GO(1, 1, 0, 32, 1, 1, 0));
    BAD(GO(1, 1, 1, 0, 1, 1, 0));
    BAD(GO(1, 1, 1, 1025, 1, 1, 0));
    BAD(GO(1, 1, 1, 33, 32, 1, 0));
    BAD(GO(1, 1, 1, 1, 1, 65, 0));
    OK(GO(1, 1, 1, 1, 1, 64, 0));
    BAD(GO(1, 65536, 1, 1, 1, 1, 0));
    BAD(GO(0x80000000u, 1, 1, 1, 1, 1, 0));
    OK(GO(1, 1, 1, 32, 1, 1, 49152));
    BAD(GO(1, 1, 1, 32, 1, 1, 49153));
    BAD(GO(1, 1, 1, 32, 1, 1, 300000));
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    OK(GO(1, 1, 1, 32, 1, 1, 100000));
    BAD(GO(1, 1, 1, 32, 1, 1, 100001));
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1000));
    BAD(GO(1, 1, 1, 32, 1, 1, 2000));
    f = cuda_function(c, "required");
    BAD(GO(1, 1, 1, 64, 1, 1, 0));
    BAD(GO(1, 1, 1, 128, 1, 1, 0));
    OK(GO(1, 1, 1, 64, 2, 1, 0));
    f = cuda_function(c, "most");
    OK(GO(1, 1, 1, 64, 2, 1, 0));
    BAD(GO(1, 1, 1, 129, 1, 1, 0));
    f = cuda_function(c, "greedy");                     // 160 registers x 512 threads
    IS(ERROR_LAUNCH_OUT_OF_RESOURCES, GO(1, 1, 1, 512, 1, 1, 0));
    OK(GO(1, 1, 1, 256, 1, 1, 0));
    f = WILD(CUfunction);
    NO_HANDLE(GO(1, 1, 1, 1, 1, 1, 0));
    f = NULL;
    NO_HANDLE(GO(1, 1, 1, 1, 1, 1, 0));
    f = (CUfunction)c->mod;
    NO_HANDLE(GO(1, 1, 1, 1, 1, 1, 0));
    f = cuda_function(c, "nop");
    NO_HANDLE(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, WILD(CUstream), NULL, NULL));
    OK(cuCtxSynchronize());                             // none of it was sticky
}

static void launch_params(void **state)
{
    const struct cuda *c = *state;
    CUfunction f = cuda_function(c, "store");
    CUdeviceptr p;
    uint32_t x = 3;
    uint8_t buffer[64];
    size_t n = 12;
    OK(cuMemAlloc(&p, 64));
    void *args[] = {&p, &x};
#define WITH(params, extra) cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, extra)
    OK(WITH(args, NULL));
    assert_int_equal(cuda_word(p), 3);
    BAD(WITH(NULL, NULL));
    BAD(WITH(((void *[]){&p, NULL}), NULL));
    x = 4;
    memcpy(buffer, &p, 8);
    memcpy(buffer + 8, &x, 4);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &n,
                     CU_LAUNCH_PARAM_END};
    OK(WITH(NULL, extra));
    assert_int_equal(cuda_word(p), 4);
    n = 11;
    OK(WITH(NULL, extra));                              // whole words
    n = 16;
    IS(ERROR_LAUNCH_OUT_OF_RESOURCES, WITH(NULL, extra));
    n = 4;
    BAD(WITH(NULL, extra));
    n = 0;
    BAD(WITH(NULL, extra));
    n = 12;
    BAD(WITH(args, extra));
    BAD(WITH(NULL, ((void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_END})));
    BAD(WITH(NULL, ((void *[]){(void *)77, buffer, CU_LAUNCH_PARAM_END})));
    OK(WITH(args, ((void *[]){CU_LAUNCH_PARAM_END})));
}

static void launch_attributes(void **state)
{
    const struct cuda *c = *state;
    CUlaunchAttribute a[3];
    memset(a, 0, sizeof a);
    CUlaunchConfig k = {4, 1, 1, 64, 1, 1, 0, 0, a, 1};
#define CLUSTER(x_, y_, z_)                                                         \
    (a[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, a[0].value.clusterDim.x = x_, \
     a[0].value.clusterDim.y = y_, a[0].value.clusterDim.z = z_)
#define EX(f) cuLaunchKernelEx(&k, f, NULL, NULL)
#define SIZE(call) IS(ERROR_INVALID_CLUSTER_SIZE, call)
    CUfunction f = cuda_function(c, "pair");
    OK(cuLaunchKernel(f, 4, 1, 1, 64, 1, 1, 0, 0, NULL, NULL));
    SIZE(cuLaunchKernel(f, 3, 1, 1, 64, 1, 1, 0, 0, NULL, NULL));
    CLUSTER(2, 1, 1);
    OK(EX(f));
    CLUSTER(4, 1, 1);
    SIZE(EX(f));
    CLUSTER(1, 1, 1);
    SIZE(EX(f));
    f = cuda_function(c, "explicit");
    SIZE(cuLaunchKernel(f, 4, 1, 1, 64, 1, 1, 0, 0, NULL, NULL));
    OK(EX(f));
    f = cuda_function(c, "nop");
    CLUSTER(0, 1, 1);
    SIZE(EX(f));
    CLUSTER(0, 0, 0);
    OK(EX(f));
    CLUSTER(3, 1, 1);
    SIZE(EX(f));
    CLUSTER(16, 1, 1);
    k.gridDimX = 32;
    SIZE(EX(f));
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    OK(EX(f));
    CLUSTER(32, 1, 1);
    SIZE(EX(f));
    CLUSTER(17, 1, 1);
    k.gridDimX = 34;
    SIZE(EX(f));
    k.gridDimX = 32;
    CLUSTER(2, 1, 1);
    k.numAttrs = 2;
    a[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a[1].value.programmaticStreamSerializationAllowed = 1;
    OK(EX(f));
    a[1].id = (CUlaunchAttributeID)99;
    BAD(EX(f));
    a[1].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
    OK(EX(f));
    a[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    a[1].value.priority = -99;
    OK(EX(f));
    a[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
    a[1].value.clusterSchedulingPolicyPreference = (CUclusterSchedulingPolicy)7;
    BAD(EX(f));
    a[1].value.clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
    OK(EX(f));
    a[1].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    a[1].value.cooperative = 1;
    OK(EX(f));
    k.gridDimX = 100000;
    IS(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, EX(f));
    IS(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
       cuLaunchCooperativeKernel(f, 100000, 1, 1, 128, 1, 1, 0, 0, NULL));
    OK(cuLaunchCooperativeKernel(f, 4, 1, 1, 128, 1, 1, 0, 0, NULL));
    k.gridDimX = 32;
    CUevent e;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    a[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
    a[1].value.programmaticEvent.event = e;
    OK(EX(f));
    OK(cuEventQuery(e));
    a[1].value.programmaticEvent.event = WILD(CUevent);
    NO_HANDLE(EX(f));
    k.attrs = NULL;
    BAD(EX(f));
    BAD(cuLaunchKernelEx(NULL, f, NULL, NULL));
    OK(cuCtxSynchronize());
}

// A fault stays with the context, every call that uses it says so, and a fresh context is healthy.
static void faults(void **state)
{
    struct cuda *c = *state;
    static const struct {
        const char *kernel;
        CUdeviceptr at;
        CUresult error;
        const char *word;
    } rows[] = {
        {"fault", 0x10000000, CUDA_ERROR_ILLEGAL_ADDRESS, "fault"},
        {"fault", 0, CUDA_ERROR_ILLEGAL_ADDRESS, "null"},
        {"fault", 1, CUDA_ERROR_MISALIGNED_ADDRESS, "fault"},
        {"trapped", 0, CUDA_ERROR_LAUNCH_FAILED, "trapped"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CUdeviceptr p, at = rows[i].at;
        CUstream s;
        CUevent e;
        CUfunction f = cuda_function(c, rows[i].kernel);
        int n;
        char host[8];
        void *args[] = {&at};
        OK(cuMemAlloc(&p, 64));
        if (at == 1)
            at = p + 1;
        OK(cuStreamCreate(&s, 0));
        OK(cuEventCreate(&e, 0));
        OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL)); // asynchronous: says nothing yet
        const CUresult want = rows[i].error;
#define STICKY(call) cuda_want(want, call, #call, __FILE__, __LINE__)
        STICKY(cuCtxSynchronize());
        assert_non_null(strstr(ptxmmEmulatorReport(), rows[i].kernel));
        STICKY(cuCtxSynchronize());
        STICKY(cuMemAlloc(&p, 4));
        STICKY(cuMemcpyHtoD(p, host, 4));
        STICKY(cuMemcpyDtoH(host, p, 4));
        STICKY(cuMemsetD8(p, 0, 4));
        STICKY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
        STICKY(cuStreamSynchronize(s));
        STICKY(cuStreamQuery(s));
        STICKY(cuEventRecord(e, s));
        STICKY(cuEventQuery(e));
        STICKY(cuModuleGetFunction(&f, c->mod, "nop"));
        STICKY(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
        STICKY(cuMemFree(p));
        OK(cuCtxGetDevice(&n));
        OK(cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
        OK(cuDevicePrimaryCtxReset(c->dev));
        IS(ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
        OK(cuDevicePrimaryCtxRelease(c->dev));
        OK(cuDevicePrimaryCtxRetain(&c->ctx, c->dev));
        OK(cuCtxSetCurrent(c->ctx));
        OK(cuModuleLoadData(&c->mod, test_ptx));
        OK(cuCtxSynchronize());
    }
}

// A report names the kernel, the line of the PTX, the address and what is there.
static void reports(void **state)
{
    const struct cuda *c = *state;
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 64));
    CUdeviceptr end = p + 64;
    void *args[] = {&end};
    OK(cuLaunchKernel(cuda_function(c, "fault"), 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    IS(ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    const char *report = ptxmmEmulatorReport();
    char address[32];
    snprintf(address, sizeof address, "%llx", end);
    assert_non_null(strstr(report, address));
    assert_non_null(strstr(report, "past the end of"));
    assert_non_null(strstr(report, "cuMemAlloc"));
    assert_non_null(strstr(report, ":17 "));            // the line of the store in test_ptx
    OK(cuDevicePrimaryCtxReset(c->dev));
}

static size_t smem_of(int threads)
{
    return threads > 256 ? 100000 : 0;
}

static void occupancy(void **state)
{
    const struct cuda *c = *state;
    CUfunction f = cuda_function(c, "nop");
    int n, grid, block;
    size_t bytes;
    CUlaunchAttribute a[1];
    memset(a, 0, sizeof a);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448));
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    static const struct { int threads; size_t smem; int want;
    } rows[] = {
        {32, 0, 32},     {64, 0, 32},      {128, 0, 16},     {256, 0, 8},
        {1024, 0, 2},    {128, 20000, 11}, {128, 40000, 5},  {128, 60000, 3},
        {128, 80000, 2}, {128, 100000, 2}, {128, 120000, 1}, {128, 220000, 1},
        {32, 14000, 15}, {32, 28000, 8},   {2048, 0, 0},     {32, 300000, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, rows[i].threads, rows[i].smem));
        assert_int_equal(n, rows[i].want);
    }
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, f, 128, 0,
                                                            CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE));
    BAD(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 0, 0));
    BAD(cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, f, 32, 0));
    NO_HANDLE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, NULL, 32, 0));
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, NULL, 0, 0));
    assert_int_equal(grid, 264);
    assert_int_equal(block, 1024);
    OK(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, f, smem_of, 0, 512, 0));
    assert_int_equal(block, 256);
    BAD(cuOccupancyMaxPotentialBlockSize(NULL, &block, f, NULL, 0, 0));
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f, 2, 128));
    assert_int_equal(bytes, 116736);

    // One CTA per multiprocessor, two, four, five, eight and more: clusters read from an H200.
    static const struct { unsigned threads, smem; int size[5];
    } table[] = {
        {128, 200000, {132, 66, 30, 15, 7}},  {128, 100000, {264, 132, 62, 30, 14}},
        {128, 70000, {396, 198, 92, 45, 21}}, {512, 0, {528, 264, 124, 62, 28}},
        {32, 42000, {660, 330, 154, 77, 35}}, {256, 0, {1056, 528, 248, 124, 58}},
        {32, 0, {1056, 528, 248, 124, 58}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (unsigned k = 0; k < 5; k++) {
            const CUlaunchConfig config = {132u << k, 1, 1, table[i].threads, 1, 1, table[i].smem,
                                           0,         a, 1};
            CLUSTER(1u << k, 1, 1);
            OK(cuOccupancyMaxActiveClusters(&n, f, &config));
            assert_int_equal(n, table[i].size[k]);
        }
    CUlaunchConfig config = {128, 1, 1, 128, 1, 1, 0, 0, a, 0};
    OK(cuOccupancyMaxPotentialClusterSize(&n, f, &config));
    assert_int_equal(n, 16);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0));
    OK(cuOccupancyMaxPotentialClusterSize(&n, f, &config));
    assert_int_equal(n, 8);
    config.numAttrs = 1;
    CLUSTER(16, 1, 1);
    SIZE(cuOccupancyMaxActiveClusters(&n, f, &config));
    CLUSTER(3, 1, 1);
    SIZE(cuOccupancyMaxActiveClusters(&n, f, &config));
    BAD(cuOccupancyMaxActiveClusters(&n, f, NULL));
    NO_HANDLE(cuOccupancyMaxActiveClusters(&n, WILD(CUfunction), &config));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(modules),       CUDA_TEST(load_errors),       CUDA_TEST(fat_binaries),
        CUDA_TEST(libraries),     CUDA_TEST(functions),         CUDA_TEST(launch_shapes),
        CUDA_TEST(launch_params), CUDA_TEST(launch_attributes), CUDA_TEST(faults),
        CUDA_TEST(reports),       CUDA_TEST(occupancy),
    };
    return cmocka_run_group_tests_name("emu/driver_work", tests, NULL, NULL);
}
