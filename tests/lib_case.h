/* lib_case.h -- what the loader's tests share: the stub driver beside the test program, problems,
 * checks of errors. */
#ifndef LIB_CASE_H
#define LIB_CASE_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <ptxmm.h>

#include "stub_driver.h"

/* The folder of the test program, without a slash at the end. */
static inline const char *case_folder(void)
{
    static char folder[4096];
    if (!folder[0]) {
        ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 64);
        assert_true(length > 0);
        folder[length] = '\0';
        *strrchr(folder, '/') = '\0';
    }
    return folder;
}

static inline const char *case_stub_path(void)
{
    static char path[4200]; // the first call is made before there are threads
    if (!path[0])
        snprintf(path, sizeof path, "%s/libstub_driver.so", case_folder());
    return path;
}

/* The stub's own functions. It stays loaded, so the loader's dlopen finds the same state. */
struct case_stub {
    struct stub_state *state;
    void (*reset)(void);
    CUcontext (*context)(int device, int number);
    const char *(*function_name)(CUfunction function);
    CUresult (*set_current)(CUcontext context);
};

static inline void *case_symbol(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol)
        fail_msg("%s", dlerror());
    return symbol;
}

static inline const struct case_stub *case_stub(void)
{
    static struct case_stub stub;
    if (!stub.state) {
        void *library = dlopen(case_stub_path(), RTLD_NOW);
        if (!library)
            fail_msg("%s", dlerror());
        struct stub_state *(*state)(void);
        *(void **)&state = case_symbol(library, "stub_state");
        *(void **)&stub.reset = case_symbol(library, "stub_reset");
        *(void **)&stub.context = case_symbol(library, "stub_context");
        *(void **)&stub.function_name = case_symbol(library, "stub_function_name");
        *(void **)&stub.set_current = case_symbol(library, "cuCtxSetCurrent");
        stub.state = state();
    }
    return &stub;
}

/* A fresh stub with a context of device 0 current in this thread. */
static inline struct stub_state *case_reset(void)
{
    const struct case_stub *stub = case_stub();
    stub->reset();
    stub->set_current(stub->context(0, 0));
    return stub->state;
}

static inline void case_fail(const char *call, CUresult result, int after)
{
    struct stub_state *state = case_stub()->state;
    state->fail_call = call;
    state->fail_result = result;
    state->fail_after = after;
    state->fail_calls = 0;
}

static inline struct ptxmm *case_open(void)
{
    struct ptxmm *mm;
    struct ptxmm_error error;
    struct ptxmm_options options = { .driver = case_stub_path() };
    if (ptxmm_open(&mm, &options, &error))
        fail_msg("ptxmm_open: %s", error.text);
    return mm;
}

static inline void case_close(struct ptxmm **mm)
{
    struct ptxmm_error error;
    if (ptxmm_close(mm, &error))
        fail_msg("ptxmm_close: %s", error.text);
    assert_null(*mm);
}

/* Plain dense bf16. */
static inline struct ptxmm_problem case_problem(int64_t m, int64_t n, int64_t k)
{
    return (struct ptxmm_problem){
        .m = m, .n = n, .k = k, .a.type = PTXMM_BF16, .b.type = PTXMM_BF16, .d.type = PTXMM_BF16
    };
}

/* Addresses in the memory of the stub's device 0. */
static inline struct ptxmm_arguments case_arguments(void)
{
    uint64_t base = UINT64_C(1) << 40;
    return (struct ptxmm_arguments){
        .a = base + 0x1000000, .b = base + 0x2000000, .d = base + 0x3000000, .alpha = 1
    };
}

/* The stubs's cubins are those of the library, which has none where it was built without ptxas. */
static inline int case_has_cubins(void)
{
    struct ptxmm_image image;
    return ptxmm_kernel_image(0, &image, NULL) == PTXMM_OK;
}
#define CASE_NEEDS_CUBINS                                                    \
    do {                                                                     \
        if (!case_has_cubins()) {                                            \
            print_message("skipped: the library was built without ptxas\n"); \
            skip();                                                          \
        }                                                                    \
    } while (0)

/* The status, and every given word (up to NULL) in the text, which is one line. */
static inline void case_check_error(const struct ptxmm_error *error, enum ptxmm_status returned,
                                    enum ptxmm_status status, ...)
{
    if (returned != status || error->status != status)
        fail_msg("returned %s, error says %s, must be %s: %s", ptxmm_status_name(returned),
                 ptxmm_status_name(error->status), ptxmm_status_name(status), error->text);
    assert_non_null(memchr(error->text, '\0', sizeof error->text));
    assert_null(strchr(error->text, '\n'));
    va_list words;
    va_start(words, status);
    for (const char *word; (word = va_arg(words, const char *)) != NULL;)
        if (!strstr(error->text, word))
            fail_msg("\"%s\" is not in: %s", word, error->text);
    va_end(words);
}

/* Deterministic random numbers: the seed is printed, and PTXMM_SEED sets it. */
static inline uint64_t case_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15); // splitmix64
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline uint64_t case_seed(void)
{
    const char *text = getenv("PTXMM_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    print_message("seed %llu (PTXMM_SEED sets it)\n", (unsigned long long)seed);
    return seed;
}

#endif
