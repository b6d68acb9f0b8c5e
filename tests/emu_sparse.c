/*
 * mma.sp: every form and selector, on random fragments with random metadata. Where an element and
 * its metadata lie is written the other way round than in mma.c: from a matrix to registers. And
 * sparse wgmma, of every type.
 *
 * With PTXMM_DRIVER=libcuda.so.1 the same programs run on a GPU: so the model is held against one.
 */
#include "emu_gpu.h"

#include <math.h>

#include "floats.h"
#include "tensor.h"

enum { WARPS = 8, BANK = 16 };  /* words of a lane: A 4, B 4, C 4, metadata; then D */

struct form {
    const char *name;           /* behind "mma.sp.sync.aligned." */
    unsigned k, bits, selectors;
    enum tensor_format a, b;
    enum { FLOATS, FP8, INTEGERS, FOURS } how;
    bool half, saturate, signed_a, signed_b;
};

#define F16(k, d, ab, format, selectors) \
    {"m16n8k" #k ".row.col." d "." ab "." ab "." d, k, 16, selectors, format, format, FLOATS, \
     sizeof d == 4 && d[1] == '1', false, false, false}
#define TF32(k, selectors) \
    {"m16n8k" #k ".row.col.f32.tf32.tf32.f32", k, 32, selectors, TENSOR_TF32, TENSOR_TF32, FLOATS, \
     false, false, false, false}
#define E8(ab, fa, fb) \
    {"m16n8k64.row.col.f32." ab ".f32", 64, 8, 1, fa, fb, FP8, false, false, false, false}
#define S8(k, sat, x, y, selectors) \
    {"m16n8k" #k ".row.col" sat ".s32." x "." y ".s32", k, 8, selectors, \
     x[0] == 's' ? TENSOR_S8 : TENSOR_U8, y[0] == 's' ? TENSOR_S8 : TENSOR_U8, INTEGERS, false, \
     sizeof sat > 1, false, false}
#define S4(k, sat, x, y, selectors) \
    {"m16n8k" #k ".row.col" sat ".s32." x "." y ".s32", k, 4, selectors, 0, 0, FOURS, false, \
     sizeof sat > 1, x[0] == 's', y[0] == 's'}

static const struct form forms[] = {
    F16(16, "f32", "f16", TENSOR_F16, 4), F16(32, "f32", "f16", TENSOR_F16, 2),
    F16(16, "f16", "f16", TENSOR_F16, 4), F16(32, "f16", "f16", TENSOR_F16, 2),
    F16(16, "f32", "bf16", TENSOR_BF16, 4), F16(32, "f32", "bf16", TENSOR_BF16, 2),
    TF32(8, 4), TF32(16, 2),
    E8("e4m3.e4m3", TENSOR_E4M3, TENSOR_E4M3),
    E8("e5m2.e4m3", TENSOR_E5M2, TENSOR_E4M3),
    E8("e4m3.e5m2", TENSOR_E4M3, TENSOR_E5M2),
    S8(32, "", "s8", "u8", 2), S8(64, "", "u8", "s8", 1),
    S8(32, ".satfinite", "u8", "u8", 2), S8(64, ".satfinite", "s8", "s8", 1),
    S4(64, "", "s4", "u4", 2), S4(128, "", "u4", "s4", 1),
    S4(64, ".satfinite", "u4", "u4", 2), S4(128, ".satfinite", "s4", "s4", 1),
};

/* ---- one warp's matrices ---- */

struct matrices {
    uint32_t a[16][128], b[128][8], c[16][8];   /* A with its zeros; codes */
    bool there[16][128];
};

typedef uint32_t lane_words[32][BANK];

static void set_bits(uint32_t *word, unsigned at, unsigned bits, uint32_t v)
{
    const uint32_t all = bits == 32 ? UINT32_MAX : (1u << bits) - 1;

    *word = (*word & ~(all << at)) | (v & all) << at;
}

/* Element `n` of a row (of A, without its zeros) or column (of B), chunks of 16 bytes. */
static void place(lane_words w, const struct form *f, unsigned first, unsigned row, bool two_rows,
                  unsigned n, uint32_t v)
{
    const unsigned per = 32 / f->bits, chunk = n / (4 * per);
    const unsigned lane = row % 8 * 4 + n % (4 * per) / per;

    set_bits(&w[lane][first + (two_rows ? row / 8 + 2 * chunk : chunk)], n % per * f->bits, f->bits,
             v);
}

static void fill(lane_words w, struct matrices *m, const struct form *f, unsigned selector,
                 bool ordered, unsigned regime, uint64_t *state)
{
    const bool integers = f->how == INTEGERS || f->how == FOURS;
    const unsigned pair = f->bits == 4 ? 2 : 1;         /* elements that come and go together */
    const unsigned of = f->bits == 32 ? 2 : 4, group = of * pair;

    memset(m, 0, sizeof *m);
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned i = 0; i < BANK; i++)     /* metadata of lanes that are not asked: anything */
            w[lane][i] = (uint32_t)emu_random(state);
    for (unsigned k = 0; k < f->k; k++)
        for (unsigned x = 0; x < 24; x++) {
            const uint64_t r = emu_random(state);
            const int power = (int)(r >> 32) % 13 - 6;
            const float v = ldexpf(1 + (float)(r & 0xffffff) / 16777216, power) *
                            (r >> 63 ? -1.0f : 1.0f);
            uint32_t code = (uint32_t)r;
            if (regime && !integers)
                code = f->bits == 32 ? bits_of_float(v)
                     : f->a == TENSOR_F16 ? half_of_f32(bits_of_float(v))
                     : f->a == TENSOR_BF16 ? bf16_of_f32(bits_of_float(v))
                     : (x < 16 ? f->a : f->b) == TENSOR_E4M3 ? e4m3_of(v) : e5m2_of(v);
            if (f->bits < 32)
                code &= (1u << f->bits) - 1;
            *(x < 16 ? &m->a[x][k] : &m->b[k][x - 16]) = code;
        }
    for (unsigned row = 0; row < 16; row++)
        for (unsigned column = 0; column < 8; column++) {
            const uint64_t r = emu_random(state);
            const float small = (float)(r & 1023) / 64;
            m->c[row][column] = f->half ? half_of_f32(bits_of_float(small))
                              : integers || !regime ? (uint32_t)r
                              : bits_of_float((float)(int32_t)r / 16777216);
        }
    for (unsigned row = 0; row < 16; row++)
        for (unsigned j = 0; j < f->k / group; j++) {
            unsigned first = (unsigned)(emu_random(state) % of);
            unsigned second = (first + 1 + (unsigned)(emu_random(state) % 3)) % 4;
            if (of == 4 && ordered && first > second) {
                const unsigned t = first;
                first = second;
                second = t;
            }
            const uint32_t nibble = of == 2 ? (first ? 14 : 4) : first | second << 2;
            const unsigned count = f->k / group, g = row % 8 * 4, h = row / 8;
            unsigned lane, bit;
            if (f->bits >= 16) {                        /* both rows in one word */
                lane = g + (count == 4 ? selector : 2 * selector + j / 4);
                bit = 16 * h + j % 4 * 4;
            } else {                                    /* a word for each */
                lane = g + h + (count == 8 ? 2 * selector : j / 8 * 2);
                bit = j % 8 * 4;
            }
            set_bits(&w[lane][12], bit, 4, nibble);
            for (unsigned i = 0; i < (of == 2 ? 1u : 2u); i++)
                for (unsigned p = 0; p < pair; p++) {
                    const unsigned k = group * j + pair * (i ? second : first) + p;
                    m->there[row][k] = true;
                    place(w, f, 0, row, true, j * group / 2 + i * pair + p, m->a[row][k]);
                }
        }
    for (unsigned k = 0; k < f->k; k++)
        for (unsigned column = 0; column < 8; column++)
            place(w, f, 4, column, false, k, m->b[k][column]);
    for (unsigned row = 0; row < 16; row++)
        for (unsigned column = 0; column < 8; column++) {
            uint32_t *const lane = w[row % 8 * 4 + column / 2] + 8;
            if (f->half)
                set_bits(&lane[row / 8], column % 2 * 16, 16, m->c[row][column]);
            else
                lane[row / 8 * 2 + column % 2] = m->c[row][column];
        }
}

/* ---- the plain model ---- */

static int64_t nibble_value(bool is_signed, uint32_t v)
{
    return is_signed && v > 7 ? (int64_t)v - 16 : (int64_t)v;
}

static uint32_t half_of(enum tensor_format format, uint32_t v)
{
    return format == TENSOR_E4M3 ? half_of_e4m3((uint8_t)v) : half_of_e5m2((uint8_t)v);
}

/* Products in the order of K. Of fp8 those of every other group of four come first, as f16. */
static uint32_t expected(const struct matrices *m, const struct form *f, unsigned row,
                         unsigned column)
{
    uint32_t a[64] = {0}, b[64] = {0}, odd_a[64] = {0}, odd_b[64] = {0};
    const uint32_t c = m->c[row][column];
    unsigned n = 0, odd = 0;
    int64_t sum = (int32_t)c;
    struct tensor_kind kind;

    for (unsigned k = 0; k < f->k; k++) {
        if (!m->there[row][k])
            continue;
        const uint32_t x = m->a[row][k], y = m->b[k][column];
        if (f->how == FOURS)
            sum += nibble_value(f->signed_a, x) * nibble_value(f->signed_b, y);
        if (f->how == FP8 && k / 4 % 2) {
            odd_a[odd] = half_of(f->a, x);
            odd_b[odd++] = half_of(f->b, y);
        } else {
            a[n] = f->how == FP8 ? half_of(f->a, x) : x;
            b[n++] = f->how == FP8 ? half_of(f->b, y) : y;
        }
    }
    if (f->how == FOURS) {
        if (f->saturate)
            sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
        return (uint32_t)sum;
    }
    assert_true(tensor_kind_wgmma(&kind, f->how == FP8 ? TENSOR_F16 : f->a,
                                  f->how == FP8 ? TENSOR_F16 : f->b,
                                  f->how == INTEGERS ? TENSOR_TO_S32
                                                     : f->half ? TENSOR_TO_F16 : TENSOR_TO_F32,
                                  f->saturate));
    if (f->how != FP8)
        return tensor_dot(&kind, a, b, c, NULL, NULL);
    const uint32_t d = tensor_dot(&kind, odd_a, odd_b, tensor_dot(&kind, a, b, 0, NULL, NULL),
                                  NULL, NULL);
    const float r = float_of(d) + float_of(c);
    return r != r ? NAN_F32 : bits_of_float(r);
}

/* ---- running ---- */

static void vector(char *text, size_t size, char name, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const size_t at = strlen(text);
        snprintf(text + at, size - at, "%s%c%u", i ? ", " : "{", name, i);
    }
    strncat(text, "}, ", size - strlen(text) - 1);
}

static void write_program(const struct form *f, bool ordered, unsigned selector, char *text,
                          size_t size)
{
    const unsigned a = f->k * f->bits / 128, b = f->k * f->bits / 128, d = f->half ? 2 : 4;
    const char *const sums = f->how == INTEGERS || f->how == FOURS ? "s32"
                           : f->half ? "b32" : "f32";
    size_t at = 0;
#define ADD(...) at += (size_t)snprintf(text + at, size - at, __VA_ARGS__)
    ADD(".version 8.7\n.target sm_90a\n.address_size 64\n"
        ".visible .entry product(.param .u64 in, .param .u64 out)\n{\n"
        "    .reg .b32 a<4>, b<4>, e, t, n;\n    .reg .%s c<4>, d<4>;\n    .reg .b64 p, q;\n"
        "    ld.param.u64 p, [in];\n    ld.param.u64 q, [out];\n    mov.u32 t, %%tid.x;\n"
        "    mov.u32 n, %%ctaid.x;\n    mad.lo.u32 n, n, 32, t;\n    mad.wide.u32 p, n, %d, p;\n"
        "    mad.wide.u32 q, n, %d, q;\n    ld.global.b32 e, [p + 48];\n", sums, 4 * BANK,
        4 * BANK);
    for (unsigned i = 0; i < a; i++)
        ADD("    ld.global.b32 a%u, [p + %u];\n", i, 4 * i);
    for (unsigned i = 0; i < b; i++)
        ADD("    ld.global.b32 b%u, [p + %u];\n", i, 16 + 4 * i);
    for (unsigned i = 0; i < d; i++)
        ADD("    ld.global.%s c%u, [p + %u];\n", sums, i, 32 + 4 * i);
    ADD("    mma.sp%s.sync.aligned.%s\n        ", ordered ? "::ordered_metadata" : "", f->name);
    vector(text, size, 'd', d);
    vector(text, size, 'a', a);
    vector(text, size, 'b', b);
    vector(text, size, 'c', d);
    at = strlen(text);
    ADD("e, %u;\n", selector);
    for (unsigned i = 0; i < d; i++)
        ADD("    st.global.%s [q + %u], d%u;\n", sums, 4 * i, i);
    ADD("    ret;\n}\n");
    assert_true(at < size);
#undef ADD
}

static void run_form(void **state_of_test)
{
    const struct form *f = *state_of_test;
    static lane_words in[WARPS], out[WARPS];
    static struct matrices m[WARPS];
    static char text[4096];
    uint64_t state = 1;
    unsigned bad = 0;

    for (unsigned selector = 0; selector < f->selectors; selector++)
        for (unsigned ordered = 0; ordered < 2; ordered++) {
            void *params[] = {&gpu.in, &gpu.out};
            CUmodule module;
            CUfunction function;
            write_program(f, ordered, selector, text, sizeof text);
            emu_assemble(text);
            if (gpu.load(&module, text) != CUDA_SUCCESS)
                fail_msg("%s", text);
            assert_int_equal(gpu.function(&function, module, "product"), CUDA_SUCCESS);
            for (unsigned w = 0; w < WARPS; w++)
                fill(in[w], &m[w], f, selector, ordered, w % 2, &state);
            memset(out, 0xee, sizeof out);
            assert_int_equal(gpu.to(gpu.in, in, sizeof in), CUDA_SUCCESS);
            assert_int_equal(gpu.to(gpu.out, out, sizeof out), CUDA_SUCCESS);
            if (gpu.launch(function, WARPS, 1, 1, 32, 1, 1, 0, NULL, params, NULL) !=
                CUDA_SUCCESS || gpu.from(out, gpu.out, sizeof out) != CUDA_SUCCESS)
                fail_msg("%s", text);
            for (unsigned w = 0; w < WARPS; w++)
                for (unsigned row = 0; row < 16; row++)
                    for (unsigned column = 0; column < 8; column++) {
                        const uint32_t *const lane = out[w][row % 8 * 4 + column / 2];
                        const uint32_t got = f->half ? lane[row / 8] >> column % 2 * 16 & 0xffff
                                                     : lane[row / 8 * 2 + column % 2];
                        const uint32_t want = expected(&m[w], f, row, column);
                        if (got != want && bad++ < 4)
                            print_error("%s selector %u warp %u: d[%u][%u] %x, expected %x\n",
                                        f->name, selector, w, row, column, got, want);
                    }
            gpu.unload(module);
        }
    if (bad)
        fail_msg("%s: %u wrong", f->name, bad);
}

/* ---- wgmma ---- */

/* A in registers, a warp's 16 rows as of mma.sp; B in shared memory, 8 columns of 64 bytes. */
static const struct form wgmma_forms[] = {
    {"m64n8k32.f32.f16.f16", 32, 16, 2, TENSOR_F16, TENSOR_F16, FLOATS, 0, 0, 0, 0},
    {"m64n8k32.f32.bf16.bf16", 32, 16, 2, TENSOR_BF16, TENSOR_BF16, FLOATS, 0, 0, 0, 0},
    {"m64n8k16.f32.tf32.tf32", 16, 32, 2, TENSOR_TF32, TENSOR_TF32, FLOATS, 0, 0, 0, 0},
    {"m64n8k64.f32.e4m3.e5m2", 64, 8, 1, TENSOR_E4M3, TENSOR_E5M2, FLOATS, 0, 0, 0, 0},
    {"m64n8k64.s32.s8.u8", 64, 8, 1, TENSOR_S8, TENSOR_U8, INTEGERS, 0, 0, 0, 0},
};

static void write_wgmma(const struct form *f, unsigned selector, unsigned swizzle, char *text,
                        size_t size)
{
    const char *const sums = f->how == INTEGERS ? "s32" : "f32";

    snprintf(text, size,
             ".version 8.7\n.target sm_90a\n.address_size 64\n"
             ".visible .entry product(.param .u64 in, .param .u64 out)\n{\n"
             "    .reg .b32 a<4>, e, t, x;\n    .reg .%s d<4>;\n    .reg .b64 p, q, desc, at, o;\n"
             "    .shared .align 1024 .b8 area[1024];\n"
             "    ld.param.u64 p, [in];\n    ld.param.u64 q, [out];\n    mov.u32 t, %%tid.x;\n"
             /* the picture of B lies behind the words of 128 threads */
             "    mad.wide.u32 o, t, 8, p;\n    mov.u64 at, area;\n    mad.wide.u32 at, t, 8, at;\n"
             "    ld.global.b32 x, [o + %d];\n    st.shared.b32 [at], x;\n"
             "    ld.global.b32 x, [o + %d];\n    st.shared.b32 [at + 4], x;\n"
             "    mad.wide.u32 p, t, %d, p;\n    mad.wide.u32 q, t, %d, q;\n"
             "    ld.global.v4.b32 {a0, a1, a2, a3}, [p];\n    ld.global.b32 e, [p + 48];\n"
             "    ld.global.v4.%s {d0, d1, d2, d3}, [p + 32];\n"
             "    mov.u64 desc, area;\n    shr.u64 desc, desc, 4;\n"
             "    or.b64 desc, desc, 0x%llx;\n"
             "    fence.proxy.async.shared::cta;\n    bar.sync 0;\n"
             "    wgmma.fence.sync.aligned;\n"
             "    wgmma.mma_async.sp.sync.aligned.%s {d0, d1, d2, d3}, "
             "{a0, a1, a2, a3}, desc, e, %u, 1%s;\n"
             "    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned 0;\n"
             "    st.global.v4.%s [q], {d0, d1, d2, d3};\n    ret;\n}\n",
             sums, 128 * 4 * BANK, 128 * 4 * BANK + 4, 4 * BANK, 4 * BANK, sums,
             swizzle == 128 ? 0x4000004000010000ull : swizzle == 64 ? 0x8000002000010000ull
                                                                    : 0xc000001000010000ull,
             f->name, selector,
             f->how == INTEGERS ? "" : f->bits == 16 ? ", 1, 1, 0" : ", 1, 1", sums);
}

static void run_wgmma(void **state_of_test)
{
    const struct form *f = *state_of_test;
    static lane_words in[8], out[4];
    static struct matrices m[4];
    static char text[4096];
    uint64_t state = 1;
    unsigned bad = 0;

    for (unsigned selector = 0; selector < f->selectors; selector++)
        for (unsigned swizzle = 64; swizzle <= 128; swizzle += 64)
            for (unsigned regime = 0; regime < 2; regime++) {
                void *params[] = {&gpu.in, &gpu.out};
                uint8_t *const picture = (uint8_t *)in[4];
                CUmodule module;
                CUfunction function;
                write_wgmma(f, selector, swizzle, text, sizeof text);
                emu_assemble(text);
                if (gpu.load(&module, text) != CUDA_SUCCESS)
                    fail_msg("%s", text);
                assert_int_equal(gpu.function(&function, module, "product"), CUDA_SUCCESS);
                for (unsigned w = 0; w < 4; w++) {
                    fill(in[w], &m[w], f, selector, false, regime, &state);
                    memcpy(m[w].b, m[0].b, sizeof m[w].b);
                }
                for (unsigned column = 0; column < 8; column++)
                    for (unsigned k = 0; k < f->k; k++) {
                        const unsigned byte = column * swizzle + k * f->bits / 8;
                        const unsigned to = byte ^ (byte >> 7 & (swizzle / 16 - 1)) << 4;
                        memcpy(picture + to, &m[0].b[k][column], f->bits / 8);
                    }
                memset(out, 0xee, sizeof out);
                assert_int_equal(gpu.to(gpu.in, in, sizeof in), CUDA_SUCCESS);
                if (gpu.launch(function, 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL) !=
                    CUDA_SUCCESS || gpu.from(out, gpu.out, sizeof out) != CUDA_SUCCESS)
                    fail_msg("%s", text);
                for (unsigned row = 0; row < 64; row++)
                    for (unsigned column = 0; column < 8; column++) {
                        const uint32_t got = out[row / 16][row % 8 * 4 + column / 2]
                                                [row % 16 / 8 * 2 + column % 2];
                        const uint32_t want = expected(&m[row / 16], f, row % 16, column);
                        if (got != want && bad++ < 4)
                            print_error("%s selector %u swizzle %u: d[%u][%u] %x, expected %x\n",
                                        f->name, selector, swizzle, row, column, got, want);
                    }
                gpu.unload(module);
            }
    if (bad)
        fail_msg("%s: %u wrong", f->name, bad);
}

/* ---- what is not a product ---- */

static void misuse(void **state)
{
    (void)state;
    static const struct {
        const char *variant, *line;     /* before the instruction; e is 0x4444 in each half */
        enum trap_kind kind;
        const char *says;
    } rows[] = {
        {"", "", TRAP_NONE, ""},
        {"::ordered_metadata", "", TRAP_NONE, ""},
        {"", "    mov.b32 e, 0x11111111;", TRAP_NONE, ""},
        {"::ordered_metadata", "    mov.b32 e, 0x11111111;", TRAP_DESCRIPTOR, "out of order"},
        {"", "    mov.b32 e, 0x44445444;", TRAP_DESCRIPTOR,
         "metadata 0x5 in bits 12 to 15, row 0: twice the same element"},
        {"", "    mov.b32 e, 0x40444444;", TRAP_DESCRIPTOR, "bits 24 to 27, row 8"},
        {"", "@on mov.b32 e, x;", TRAP_UNDEFINED, "the metadata"},
        {"", "@!on mov.b32 e, x;", TRAP_NONE, ""},      /* lanes 2 and 3 of a group are not asked */
        {"", "@on bra away;", TRAP_DIVERGENT, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct emu e;
        char text[4096];
        emu_open(&e, POLICY_RANDOM, 1);
        snprintf(text, sizeof text, "%s%s%s%s%s%s", HEAD,
                 ".visible .entry k(.param .u64 out)\n{\n    .reg .b32 a<4>, b<4>, e, x, t;\n"
                 "    .reg .f32 d<4>;\n    .reg .pred on;\n    mov.u32 t, %tid.x;\n"
                 "    and.b32 t, t, 3;\n    setp.lt.u32 on, t, 2;\n    mov.b32 e, 0x44444444;\n"
                 "    mov.b32 a0, 0;\n    mov.b32 a1, 0;\n    mov.b32 a2, 0;\n    mov.b32 a3, 0;\n"
                 "    mov.b32 b0, 0;\n    mov.b32 b1, 0;\n    mov.b32 b2, 0;\n    mov.b32 b3, 0;\n"
                 "    mov.f32 d0, 0f00000000;\n    mov.f32 d1, d0;\n    mov.f32 d2, d0;\n"
                 "    mov.f32 d3, d0;\n", rows[i].line, "\n    mma.sp", rows[i].variant,
                 ".sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {d0, d1, d2, d3}, "
                 "{a0, a1, a2, a3}, {b0, b1, b2, b3}, {d0, d1, d2, d3}, e, 0;\n"
                 "away:\n    ret;\n}\n");
        emu_load(&e, text);
        const uint64_t out = emu_alloc(&e, 4);
        const bool ok = emu_run(&e, "k", &(struct emu_launch){.block = {32}}, 1, &out);
        char *report = ok ? NULL : trap_report(&e.trap);
        if (ok != (rows[i].kind == TRAP_NONE) ||
            (!ok && (e.trap.kind != rows[i].kind || !strstr(report, rows[i].says))))
            fail_msg("row %zu: %s", i, report ? report : "no trap");
        free(report);
        emu_close(&e);
    }
}

/* Where the second 32 bytes of a row of B lie with a swizzle of 32 bytes, nothing says. */
static void narrow_swizzle(void **state)
{
    (void)state;
    struct emu e;
    char text[4096];
    emu_open(&e, POLICY_EARLY, 1);
    write_wgmma(&wgmma_forms[0], 0, 32, text, sizeof text);
    emu_load(&e, text);
    static const uint8_t zeros[128 * 4 * BANK + 1024];
    const uint64_t values[] = {emu_put(&e, zeros, sizeof zeros), emu_alloc(&e, 128 * 4 * BANK)};
    assert_false(emu_run(&e, "product", &(struct emu_launch){.block = {128}}, 2, values));
    char *report = trap_report(&e.trap);
    assert_int_equal(e.trap.kind, TRAP_INSTRUCTION);
    assert_non_null(strstr(report, "swizzle of 32 bytes"));
    free(report);
    emu_close(&e);
}

static void refusals(void **state)
{
    (void)state;
    static const struct emu_refusal rows[] = {
        {"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {f0,f1,f2,f3}, {r0,r1,r2,r3}, "
         "{r0,r1,r2,r3}, {f0,f1,f2,f3}, r0, 2;", "0..1"},
        {"mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, "
         "{r0,r1,r2,r3}, {r0,r1,r2,r3}, r0, 1;", "0..0"},
        {"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {f0,f1,f2,f3}, {r0,r1}, "
         "{r0,r1,r2,r3}, {f0,f1,f2,f3}, r0, 0;", "vector of 4"},
        {"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0,f1,f2,f3}, {r0,r1}, {r0,r1}, "
         "{f0,f1,f2,f3}, r0;", "operand missing"},
        {"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0,f1,f2,f3}, {r0,r1}, {r0,r1}, "
         "{f0,f1,f2,f3}, r0, r1;", "integer constant"},
    };
    emu_refusals(HEAD ".visible .entry k()\n{\n    .reg .b32 r<4>;\n"
                 "    .reg .f32 f<4>;\n", rows, sizeof rows / sizeof *rows);
}

static int open_driver(void **state)
{
    (void)state;
    return gpu_open(WARPS * 32 * BANK * 4, WARPS * 32 * BANK * 4) ? 0 : -1;
}

int main(void)
{
    enum { FORMS = sizeof forms / sizeof *forms };
    enum { WGMMA_FORMS = sizeof wgmma_forms / sizeof *wgmma_forms };
    struct CMUnitTest tests[FORMS + WGMMA_FORMS + 3];
    for (size_t i = 0; i < FORMS; i++)
        tests[i] = (struct CMUnitTest){forms[i].name, run_form, NULL, NULL, (void *)&forms[i]};
    for (size_t i = 0; i < WGMMA_FORMS; i++)
        tests[FORMS + i] = (struct CMUnitTest){wgmma_forms[i].name, run_wgmma, NULL, NULL,
                                               (void *)&wgmma_forms[i]};
    tests[FORMS + WGMMA_FORMS] = (struct CMUnitTest)cmocka_unit_test(misuse);
    tests[FORMS + WGMMA_FORMS + 2] = (struct CMUnitTest)cmocka_unit_test(narrow_swizzle);
    tests[FORMS + WGMMA_FORMS + 1] = (struct CMUnitTest)cmocka_unit_test(refusals);
    return cmocka_run_group_tests_name("sparse", tests, open_driver, NULL);
}
