/* floor.c -- see floor.h. */
#include "floor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"

/* build/gen/floor.ptx, with a 0 behind. */
__asm__(".pushsection .rodata\n"
        ".hidden bench_floor_ptx\n"
        ".globl bench_floor_ptx\n"
        "bench_floor_ptx:\n"
        ".incbin \"gen/floor.ptx\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char bench_floor_ptx[] __attribute__((visibility("hidden")));

/* As in floor.ptx. */
enum { UNIT = 16, RING_THREADS = 256, RING_COPIERS = 4, RING_WRITERS = RING_THREADS - 32 * RING_COPIERS,
       RING_MAX_SLOTS = 32, BARRIERS = 2 * 8 * RING_MAX_SLOTS };
enum entry { ENTRY_LOADS, ENTRY_RING, ENTRIES };
static const char *const entry_names[ENTRIES] = { "floor_loads", "floor_ring" };

/* Where shared memory and registers of an SM hold two CTAs, the next launch begins while this one ends. */
static const struct variant {
    const char *name;
    enum entry entry;
    unsigned per_sm, threads;    /* CTAs of an SM, threads of a CTA */
    unsigned slots, piece_log;   /* of a copier's ring */
    bool claims;
} variants[] = {
    { "loads_1x512",     ENTRY_LOADS, 1, 512,          0, 0,  false },
    { "loads_2x512",     ENTRY_LOADS, 2, 512,          0, 0,  false },
    { "loads_1x1024",    ENTRY_LOADS, 1, 1024,         0, 0,  false },
    { "ring_4x3x8k",     ENTRY_RING,  1, RING_THREADS, 3, 13, false },
    { "ring_4x6x8k",     ENTRY_RING,  1, RING_THREADS, 6, 13, false },
    { "ring_4x3x16k",    ENTRY_RING,  1, RING_THREADS, 3, 14, false },
    { "claimed_4x3x8k",  ENTRY_RING,  1, RING_THREADS, 3, 13, true },
    { "claimed_4x6x8k",  ENTRY_RING,  1, RING_THREADS, 6, 13, true },
    { "claimed_4x3x16k", ENTRY_RING,  1, RING_THREADS, 3, 14, true },
};
enum { VARIANTS = sizeof variants / sizeof *variants };
_Static_assert((int)VARIANTS <= (int)FLOOR_MAX_VARIANTS, "FLOOR_MAX_VARIANTS");

/* Launches that overlap count in states of their own: there are more of these than grids that a GPU runs at a time (128), and
 * each has a line of the cache to itself. */
enum { STATES = 256, STATE_BYTES = 128 };

struct floor {
    struct gpu *gpu;
    CUmodule module;
    CUfunction functions[ENTRIES];
    CUdeviceptr states, sum;
    unsigned next_state;
    size_t a, b, d;
    bool constant_a, constant_b;
    char error[1200];
};

static bool failed(struct floor *f, const char *text)
{
    snprintf(f->error, sizeof f->error, "%s", text);
    return false;
}

static bool check(struct floor *f, CUresult result, const char *call)
{
    return gpu_ok(f->gpu, result, call) || failed(f, f->gpu->error);
}

static unsigned shared_bytes(const struct variant *v)
{
    return v->slots ? (RING_COPIERS * v->slots << v->piece_log) + BARRIERS : 0;
}

static bool load(struct floor *f, const char *text)
{
    struct gpu *gpu = f->gpu;
    unsigned most = 0;
    for (int i = 0; i < VARIANTS; i++)
        if (shared_bytes(&variants[i]) > most) most = shared_bytes(&variants[i]);
    if (!gpu->ModuleLoadData || !gpu->ModuleUnload || !gpu->ModuleGetFunction || !gpu->FuncSetAttribute || !gpu->LaunchKernelEx)
        return failed(f, "the driver lacks cuModuleLoadData or cuLaunchKernelEx");
    if (!check(f, gpu->ModuleLoadData(&f->module, text), "cuModuleLoadData")) return false;
    for (int i = 0; i < ENTRIES; i++)
        if (!check(f, gpu->ModuleGetFunction(&f->functions[i], f->module, entry_names[i]), "cuModuleGetFunction"))
            return false;
    f->states = gpu_alloc(gpu, STATES * STATE_BYTES);
    f->sum = gpu_alloc(gpu, sizeof(uint32_t));
    return (f->states && f->sum) ? check(f, gpu->FuncSetAttribute(f->functions[ENTRY_RING],
                                                                  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                                  (int)most), "cuFuncSetAttribute") &&
                                       check(f, gpu->MemsetD8(f->states, 0, STATES * STATE_BYTES), "cuMemsetD8") &&
                                       check(f, gpu->CtxSynchronize(), "cuCtxSynchronize")
                                 : failed(f, gpu->error);
}

int floor_open(struct floor **floor, struct gpu *gpu, const char *ptx, char *why, size_t why_size)
{
    struct floor *f = *floor = calloc(1, sizeof *f);
    char *text = f && ptx ? text_read(ptx, NULL) : NULL;
    if (!f) {
        snprintf(why, why_size, "host memory is exhausted");
        return -1;
    }
    f->gpu = gpu;
    if (ptx && !text) {
        snprintf(why, why_size, "%s cannot be read", ptx);
    } else if (load(f, text ? text : bench_floor_ptx)) {
        free(text);
        return 0;
    } else {
        const char *report = gpu_report(gpu);
        snprintf(why, why_size, "%s: %s%s%s", ptx ? ptx : "floor.ptx", f->error, *report ? "; " : "", report);
    }
    free(text);
    floor_close(floor);
    return -1;
}

void floor_close(struct floor **floor)
{
    struct floor *f = *floor;
    if (!f) return;
    gpu_free(f->gpu, f->states);
    gpu_free(f->gpu, f->sum);
    if (f->module) f->gpu->ModuleUnload(f->module);
    free(f);
    *floor = NULL;
}

int floor_variants(void)
{
    return VARIANTS;
}

const char *floor_variant_name(int variant)
{
    return variants[variant].name;
}

const char *floor_error(const struct floor *floor)
{
    return floor->error;
}

/* Units and their strides are counted in 32 bits. */
bool floor_product(struct floor *f, size_t a, size_t b, size_t d, bool constant_a, bool constant_b)
{
    const size_t most = (size_t)UINT32_MAX / 2 * UNIT;
    if (a % UNIT || b % UNIT || d % UNIT) return failed(f, "the floor's kernels read and write multiples of 16 bytes");
    if (a > most || b > most || a + b > most || d > most) return failed(f, "the floor's kernels count no more than 32 GB");
    f->a = a;
    f->b = b;
    f->d = d;
    f->constant_a = constant_a;
    f->constant_b = constant_b;
    return true;
}

size_t floor_bytes(const struct floor *f)
{
    return f->a + f->b + f->d;
}

static uint64_t ceiling(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit;
}

/* As many CTAs as an SM is given, and none that would find nothing to do. */
static unsigned grid_of(const struct floor *f, const struct variant *v)
{
    const uint64_t most = (uint64_t)f->gpu->sm_count * v->per_sm, d_units = f->d / UNIT;
    uint64_t reading, writing;
    if (v->entry == ENTRY_LOADS) {
        reading = ceiling((f->a + f->b) / UNIT, v->threads);
        writing = ceiling(d_units, v->threads);
    } else {
        const uint64_t piece = (uint64_t)1 << v->piece_log;
        reading = ceiling(f->a, piece) + ceiling(f->b, piece);
        writing = ceiling(d_units, RING_WRITERS);
    }
    const uint64_t wanted = reading > writing ? reading : writing;
    return (unsigned)(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

static bool launch(struct floor *f, int variant, const struct ptxmm_arguments *set, CUstream stream, uint64_t sum)
{
    const struct variant *v = &variants[variant];
    /* The constant operand is the first, and else B, which is the larger one where it matters. */
    const bool a_first = f->constant_a && !f->constant_b;
    uint64_t first = a_first ? set->a : set->b, second = a_first ? set->b : set->a, d = set->d, state = 0;
    uint64_t first_bytes = a_first ? f->a : f->b, second_bytes = a_first ? f->b : f->a;
    uint32_t d_units = (uint32_t)(f->d / UNIT), early = (uint32_t)f->constant_a + (uint32_t)f->constant_b;
    uint32_t piece_log = v->piece_log, slots = v->slots;
    if (v->claims) state = f->states + f->next_state++ % STATES * STATE_BYTES;
    void *parameters[] = { &first, &second, &d, &state, &sum, &first_bytes, &second_bytes, &d_units, &early, &piece_log, &slots };
    CUlaunchAttribute programmatic = { .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION };
    programmatic.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config = {
        .gridDimX = grid_of(f, v), .gridDimY = 1, .gridDimZ = 1, .blockDimX = v->threads, .blockDimY = 1, .blockDimZ = 1,
        .sharedMemBytes = shared_bytes(v), .hStream = stream, .attrs = &programmatic, .numAttrs = 1,
    };
    return check(f, f->gpu->LaunchKernelEx(&config, f->functions[v->entry], parameters, NULL), "cuLaunchKernelEx");
}

bool floor_launch(struct floor *f, int variant, const struct ptxmm_arguments *set, CUstream stream)
{
    return launch(f, variant, set, stream, 0);
}

/* ---- right? --------------------------------------------------------------------------------------------------- */

static bool compare(struct floor *f, int variant, uint32_t expected, uint32_t sum, const uint32_t *d, const uint32_t *states)
{
    const char *name = variants[variant].name;
    if (sum != expected) {
        snprintf(f->error, sizeof f->error, "%s: the words it read have the xor 0x%08x, those of A and B have 0x%08x", name, sum, expected);
        return false;
    }
    for (size_t i = 0; i < f->d / sizeof *d; i++)
        if (d[i] != i / (UNIT / sizeof *d)) {
            snprintf(f->error, sizeof f->error, "%s: byte %zu of the %zu of D was not written", name, i * sizeof *d, f->d);
            return false;
        }
    for (size_t i = 0; i < STATES * STATE_BYTES / sizeof *states; i++)
        if (states[i]) {
            snprintf(f->error, sizeof f->error, "%s: its counter is left at %u", name, states[i]);
            return false;
        }
    return true;
}

bool floor_check(struct floor *f, int variant, const struct ptxmm_arguments *set, CUstream stream, uint32_t expected)
{
    struct gpu *gpu = f->gpu;
    uint32_t sum = 0, *d = malloc(f->d + 1), *states = malloc(STATES * STATE_BYTES);
    bool ok = (d && states) || failed(f, "host memory is exhausted");
    ok = ok && check(f, gpu->MemsetD8(set->d, 0xff, f->d), "cuMemsetD8") &&
         check(f, gpu->MemsetD8(f->sum, 0, sizeof sum), "cuMemsetD8") && check(f, gpu->CtxSynchronize(), "cuCtxSynchronize") &&
         launch(f, variant, set, stream, f->sum) && check(f, gpu->StreamSynchronize(stream), "cuStreamSynchronize");
    ok = ok && ((gpu_download(gpu, &sum, f->sum, sizeof sum) && gpu_download(gpu, d, set->d, f->d) &&
                 gpu_download(gpu, states, f->states, STATES * STATE_BYTES)) || failed(f, gpu->error));
    ok = ok && compare(f, variant, expected, sum, d, states);
    free(d);
    free(states);
    return ok;
}
