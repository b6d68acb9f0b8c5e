// For tests of the driver API: a context, PTX text, and checks that name the call that failed.
#ifndef TESTS_EMU_CUDA_H
#define TESTS_EMU_CUDA_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#define CUDA_ENABLE_DEPRECATED                  // old entry points are tested too
#include <cuda.h>
/* From cudaProfiler.h, which does not come with every cuda.h (pip's has none). */
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);

#include "driver_extra.h"

static inline void cuda_want(CUresult want, CUresult got, const char *call, const char *file,
                             int line)
{
    if (want != got) {
        const char *a = "?", *b = "?";
        cuGetErrorName(want, &a);
        cuGetErrorName(got, &b);
        print_error("%s:%d: %s answered %s, wanted %s\n%s\n", file, line, call, b, a,
                    ptxmmEmulatorReport());
        _fail(file, line);
    }
}

#define IS(error, call) cuda_want(CUDA_##error, call, #call, __FILE__, __LINE__)
#define OK(call) IS(SUCCESS, call)
#define BAD(call) IS(ERROR_INVALID_VALUE, call)
#define NO_HANDLE(call) IS(ERROR_INVALID_HANDLE, call)

// A number that no handle ever has.
#define WILD(type) ((type)(uintptr_t)0xdeadbeefcafeu)

#define PTX_HEAD ".version 8.8\n.target sm_90a\n.address_size 64\n"

// add1: p[i] += v for i < n, one thread each. store: *p = v. fault: stores to no address. chain
// kernels: see where used.
static const char *const test_ptx =
    PTX_HEAD ".visible .global .align 8 .u32 counter[4] = {1, 2, 3, 4};\n"
             ".visible .const .align 4 .u32 table[2] = {70, 71};\n"
             ".visible .entry nop() { ret; }\n"
             ".visible .entry store(.param .u64 p, .param .u32 v) {\n"
             "  .reg .b64 a; .reg .b32 b; ld.param.u64 a, [p]; ld.param.u32 b, [v]; st.global.u32 "
             "[a], b; ret; }\n"
             ".visible .entry add1(.param .u64 p, .param .u32 n, .param .u32 v) {\n"
             "  .reg .b64 a, o; .reg .b32 i, b, c, x; .reg .pred q;\n"
             "  ld.param.u64 a, [p]; ld.param.u32 b, [n]; ld.param.u32 c, [v];\n"
             "  mov.u32 i, %ctaid.x; mov.u32 x, %ntid.x; mul.lo.u32 i, i, x; mov.u32 x, %tid.x; "
             "add.u32 i, i, x;\n"
             "  setp.ge.u32 q, i, b; @q bra done; mul.wide.u32 o, i, 4; add.u64 a, a, o;\n"
             "  ld.global.u32 x, [a]; add.u32 x, x, c; st.global.u32 [a], x;\n"
             "done: ret; }\n"
             ".visible .entry fault(.param .u64 p) {\n"
             "  .reg .b64 a; ld.param.u64 a, [p]; st.global.u32 [a], 5; ret; }\n"
             ".visible .entry trapped() { trap; }\n"
             ".visible .entry bump() {\n"
             "  .reg .b32 x; .reg .b64 a; mov.u64 a, counter; ld.global.u32 x, [a]; add.u32 x, x, "
             "1; st.global.u32 [a], x; ret; }\n"
             ".visible .entry shapes(.param .u64 p, .param .align 64 .b8 m[128], .param .u8 c, "
             ".param .align 16 .b8 s[24]) { ret; }\n"
             ".visible .entry required() .reqntid 64, 2, 1 { ret; }\n"
             ".visible .entry most() .maxntid 128, 1, 1 { ret; }\n"
             ".visible .entry pair() .reqnctapercluster 2, 1, 1 { ret; }\n"
             ".visible .entry explicit() .explicitcluster { ret; }\n"
             ".visible .entry greedy() .maxntid 512, 1, 1 .maxnreg 160 {\n  "
             "setmaxnreg.dec.sync.aligned.u32 40; ret; }\n"
             ".extern .shared .align 16 .b8 dyn[];\n"
             ".visible .entry shared(.param .u64 p) {\n"
             "  .shared .align 16 .b8 fixed[4096]; .reg .b32 t; mov.u32 t, dyn; st.shared.u32 [t], "
             "t; mov.u32 t, fixed; st.shared.u32 [t], t; ret; }\n";

struct cuda {
    CUdevice dev;
    CUcontext ctx;
    CUmodule mod;
};

// Primary context of device 0, current, with test_ptx loaded.
static inline int cuda_open(void **state)
{
    struct cuda *c = calloc(1, sizeof *c);
    OK(cuInit(0));
    OK(cuDeviceGet(&c->dev, 0));
    OK(cuDevicePrimaryCtxRetain(&c->ctx, c->dev));
    OK(cuCtxSetCurrent(c->ctx));
    OK(cuModuleLoadData(&c->mod, test_ptx));
    *state = c;
    return 0;
}

static inline int cuda_close(void **state)
{
    struct cuda *c = *state;
    cuDevicePrimaryCtxRelease(c->dev);
    cuCtxSetCurrent(NULL);
    free(c);
    return 0;
}

static inline CUfunction cuda_function(const struct cuda *c, const char *name)
{
    CUfunction f = NULL;
    OK(cuModuleGetFunction(&f, c->mod, name));
    return f;
}

static inline uint32_t cuda_word(CUdeviceptr at)
{
    uint32_t word = 0;
    OK(cuMemcpyDtoH(&word, at, 4));
    return word;
}

#define CUDA_TEST(f) cmocka_unit_test_setup_teardown(f, cuda_open, cuda_close)

#endif
