/*
 * mma.sync: every form, on random fragments. Expected values come from where an element lies,
 * written the other way round than in mma.c, and from the plain model of one output.
 *
 * With PTXMM_DRIVER=libcuda.so.1 the same programs run on a GPU: so the model is held against one.
 */
#include "emu_gpu.h"

#include <math.h>

#include "floats.h"
#include "tensor.h"

enum { WARPS = 32, BANK = 64, WORDS = 16 }; /* words that a lane reads and writes, at most */

static int open_driver(void **state)
{
    (void)state;
    return gpu_open(WARPS * BANK * 32 * 8, WARPS * BANK * 32 * 8) ? 0 : -1;
}

/* ---- forms ---- */

struct form {
    const char *name;           /* behind "mma.sync.aligned." */
    unsigned m, k, bits;        /* of an element of A and B */
    enum tensor_format a, b;    /* of the tensor unit, or: */
    enum { TENSOR, FP8, FOURS, BITS_AND, BITS_XOR, DOUBLES } how;
    enum tensor_result d;
    bool signed_a, signed_b, saturate;
};

#define F16(name, k, d) {name, 16, k, 16, TENSOR_F16, TENSOR_F16, TENSOR, d, 0, 0, 0}
#define E8(ab, k, d, dn, fa, fb) \
    {"m16n8k" #k ".row.col." dn "." ab "." dn, 16, k, 8, fa, fb, FP8, d, 0, 0, 0}
#define S8(shape, m, k, sat, a, b) \
    {shape ".row.col" sat ".s32." a "." b ".s32", m, k, 8, a[0] == 's' ? TENSOR_S8 : TENSOR_U8, \
     b[0] == 's' ? TENSOR_S8 : TENSOR_U8, TENSOR, TENSOR_TO_S32, 0, 0, sizeof sat > 1}
#define S4(shape, m, k, sat, a, b) \
    {shape ".row.col" sat ".s32." a "." b ".s32", m, k, 4, 0, 0, FOURS, TENSOR_TO_S32, \
     a[0] == 's', b[0] == 's', sizeof sat > 1}
#define B1(shape, m, k, op, how) \
    {shape ".row.col.s32.b1.b1.s32." op ".popc", m, k, 1, 0, 0, how, TENSOR_TO_S32, 0, 0, 0}
#define F64(shape, m, k) \
    {shape ".row.col.f64.f64.f64.f64", m, k, 64, 0, 0, DOUBLES, TENSOR_TO_F32, 0, 0, 0}

static const struct form forms[] = {
    F16("m16n8k8.row.col.f32.f16.f16.f32", 8, TENSOR_TO_F32),
    F16("m16n8k16.row.col.f32.f16.f16.f32", 16, TENSOR_TO_F32),
    F16("m16n8k8.row.col.f16.f16.f16.f16", 8, TENSOR_TO_F16),
    F16("m16n8k16.row.col.f16.f16.f16.f16", 16, TENSOR_TO_F16),
    {"m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 16, TENSOR_BF16, TENSOR_BF16, TENSOR,
     TENSOR_TO_F32, 0, 0, 0},
    {"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, 16, TENSOR_BF16, TENSOR_BF16, TENSOR,
     TENSOR_TO_F32, 0, 0, 0},
    {"m16n8k4.row.col.f32.tf32.tf32.f32", 16, 4, 32, TENSOR_TF32, TENSOR_TF32, TENSOR,
     TENSOR_TO_F32, 0, 0, 0},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 32, TENSOR_TF32, TENSOR_TF32, TENSOR,
     TENSOR_TO_F32, 0, 0, 0},
    E8("e4m3.e4m3", 32, TENSOR_TO_F32, "f32", TENSOR_E4M3, TENSOR_E4M3),
    E8("e4m3.e5m2", 32, TENSOR_TO_F32, "f32", TENSOR_E4M3, TENSOR_E5M2),
    E8("e5m2.e4m3", 32, TENSOR_TO_F16, "f16", TENSOR_E5M2, TENSOR_E4M3),
    E8("e5m2.e5m2", 32, TENSOR_TO_F16, "f16", TENSOR_E5M2, TENSOR_E5M2),
    E8("e4m3.e4m3", 32, TENSOR_TO_F16, "f16", TENSOR_E4M3, TENSOR_E4M3),
    E8("e5m2.e4m3", 16, TENSOR_TO_F32, "f32", TENSOR_E5M2, TENSOR_E4M3),
    E8("e4m3.e4m3", 16, TENSOR_TO_F16, "f16", TENSOR_E4M3, TENSOR_E4M3),
    S8("m8n8k16", 8, 16, "", "s8", "u8"),
    S8("m16n8k16", 16, 16, "", "u8", "s8"),
    S8("m16n8k32", 16, 32, "", "s8", "s8"),
    S8("m16n8k32", 16, 32, ".satfinite", "u8", "u8"),
    S8("m16n8k32", 16, 32, ".satfinite", "s8", "u8"),
    S8("m8n8k16", 8, 16, ".satfinite", "s8", "s8"),
    S4("m8n8k32", 8, 32, "", "s4", "u4"),
    S4("m16n8k32", 16, 32, "", "u4", "u4"),
    S4("m16n8k64", 16, 64, "", "s4", "s4"),
    S4("m16n8k64", 16, 64, "", "u4", "s4"),
    B1("m8n8k128", 8, 128, "xor", BITS_XOR),
    B1("m16n8k128", 16, 128, "and", BITS_AND),
    B1("m16n8k256", 16, 256, "xor", BITS_XOR),
    B1("m16n8k256", 16, 256, "and", BITS_AND),
    F64("m8n8k4", 8, 4),
    F64("m16n8k4", 16, 4),
    F64("m16n8k8", 16, 8),
    F64("m16n8k16", 16, 16),
};

struct counts {
    unsigned a, b, d, word;     /* registers of a lane, and their bytes */
};

static struct counts counts_of(const struct form *f)
{
    struct counts n = {.word = f->how == DOUBLES ? 8 : 4};
    const unsigned per = f->how == DOUBLES ? 1 : 32 / f->bits;

    n.a = f->m * f->k / 32 / per;
    n.b = 8 * f->k / 32 / per;
    n.d = f->m * 8 / 32 / (f->d == TENSOR_TO_F16 ? 2 : 1);
    return n;
}

/* Every lane has BANK bytes times WORDS; first A, then B, then C in 8-byte places. */
static void write_program(const struct form *f, char *text, size_t size)
{
    const struct counts n = counts_of(f);
    const char *type = n.word == 8 ? "f64" : "b32";
    const char *sums = n.word == 8 ? "f64" : f->d == TENSOR_TO_F32 ? "f32" : "b32";
    size_t at = 0;
#define ADD(...) at += (size_t)snprintf(text + at, size - at, __VA_ARGS__)
    ADD(".version 8.7\n.target sm_90\n.address_size 64\n"
        ".visible .entry product(.param .u64 in, .param .u64 out)\n{\n"
        "    .reg .%s a<8>, b<8>;\n    .reg .%s c<8>, d<8>;\n    .reg .b32 t, n;\n"
        "    .reg .b64 p, q, o;\n    ld.param.u64 p, [in];\n    ld.param.u64 q, [out];\n"
        "    mov.u32 t, %%tid.x;\n    mov.u32 n, %%ctaid.x;\n    mad.lo.u32 n, n, 32, t;\n"
        "    mul.wide.u32 o, n, %u;\n    add.u64 p, p, o;\n    add.u64 q, q, o;\n",
        type, sums, 8 * BANK);
    for (unsigned i = 0; i < n.a; i++)
        ADD("    ld.global.%s a%u, [p + %u];\n", type, i, 8 * i);
    for (unsigned i = 0; i < n.b; i++)
        ADD("    ld.global.%s b%u, [p + %u];\n", type, i, 8 * (WORDS + i));
    for (unsigned i = 0; i < n.d; i++)
        ADD("    ld.global.%s c%u, [p + %u];\n", sums, i, 8 * (2 * WORDS + i));
    ADD("    mma.sync.aligned.%s\n        ", f->name);
    const struct {
        char name;
        unsigned count;
    } lists[] = {{'d', n.d}, {'a', n.a}, {'b', n.b}, {'c', n.d}};
    for (unsigned l = 0; l < 4; l++) {
        ADD("{");
        for (unsigned i = 0; i < lists[l].count; i++)
            ADD("%s%c%u", i ? ", " : "", lists[l].name, i);
        ADD(l < 3 ? "}, " : "};\n");
    }
    for (unsigned i = 0; i < n.d; i++)
        ADD("    st.global.%s [q + %u], d%u;\n", sums, 8 * i, i);
    ADD("    ret;\n}\n");
    assert_true(at < size);
#undef ADD
}

/* ---- where elements lie ---- */

typedef uint64_t lane_words[32][BANK];

static uint64_t bits_at(uint64_t word, unsigned j, unsigned bits)
{
    return bits == 64 ? word : word >> j * bits & ((UINT64_C(1) << bits) - 1);
}

/* Element k of a row of A, or of a column of B (which has no rows below 8). */
static uint64_t element(lane_words w, const struct form *f, unsigned first, unsigned row,
                        unsigned k)
{
    const unsigned per = f->bits == 64 ? 1 : 32 / f->bits, chunk = 4 * per;
    const unsigned reg = first == 0 && f->m == 16 ? row / 8 + 2 * (k / chunk) : k / chunk;

    return bits_at(w[row % 8 * 4 + k % chunk / per][first + reg], k % per, f->bits);
}

static uint64_t sum_at(lane_words w, const struct form *f, unsigned first, unsigned row,
                       unsigned column)
{
    const uint64_t *const lane = w[row % 8 * 4 + column / 2] + first;

    if (f->d == TENSOR_TO_F16)
        return lane[row / 8] >> column % 2 * 16 & 0xffff;
    return lane[row / 8 * 2 + column % 2];
}

/* ---- the plain model ---- */

static uint32_t dot(const struct form *f, const uint32_t *a, const uint32_t *b, uint32_t c)
{
    struct tensor_kind kind;

    assert_true(tensor_kind_wgmma(&kind, f->a, f->b, f->d, f->saturate));
    return tensor_dot(&kind, a, b, c, NULL, NULL);
}

/* Two f16 instructions, then C: the machine code that ptxas makes. */
static uint32_t fp8(const struct form *f, const uint32_t *a, const uint32_t *b, uint32_t c)
{
    struct tensor_kind kind;
    uint32_t sum = 0;

    assert_true(tensor_kind_wgmma(&kind, TENSOR_F16, TENSOR_F16, f->d, false));
    for (unsigned half = 0; half < 2; half++) {
        uint32_t x[16] = {0}, y[16] = {0};
        unsigned n = 0;
        for (unsigned k = 0; k < f->k; k++)
            if (k % 4 / 2 == half) {
                x[n] = f->a == TENSOR_E4M3 ? half_of_e4m3((uint8_t)a[k])
                                           : half_of_e5m2((uint8_t)a[k]);
                y[n++] = f->b == TENSOR_E4M3 ? half_of_e4m3((uint8_t)b[k])
                                             : half_of_e5m2((uint8_t)b[k]);
            }
        sum = tensor_dot(&kind, x, y, sum, NULL, NULL);
    }
    if (f->d == TENSOR_TO_F16)
        return (uint32_t)format_round(format_f16, half_value((uint16_t)sum) +
                                      half_value((uint16_t)c), RND_RN);
    const float r = float_of(sum) + float_of(c);
    return r != r ? NAN_F32 : bits_of_float(r);
}

static uint64_t expected(lane_words w, const struct form *f, unsigned row, unsigned column)
{
    const uint64_t c = sum_at(w, f, 2 * WORDS, row, column);
    uint32_t a[256] = {0}, b[256] = {0};
    int64_t sum = (int32_t)c;
    double d;
    memcpy(&d, &c, 8);

    for (unsigned k = 0; k < f->k; k++) {
        const uint64_t x = element(w, f, 0, row, k), y = element(w, f, WORDS, column, k);
        a[k] = (uint32_t)x;
        b[k] = (uint32_t)y;
        switch (f->how) {
        case DOUBLES:
            d = fma(double_of(x), double_of(y), d);
            break;
        case FOURS:
            sum += (f->signed_a && x > 7 ? (int64_t)x - 16 : (int64_t)x) *
                   (f->signed_b && y > 7 ? (int64_t)y - 16 : (int64_t)y);
            break;
        case BITS_AND:
            sum += (int64_t)(x & y);
            break;
        case BITS_XOR:
            sum += (int64_t)(x ^ y);
            break;
        default:
            break;
        }
    }
    switch (f->how) {
    case TENSOR: return dot(f, a, b, (uint32_t)c);
    case FP8: return fp8(f, a, b, (uint32_t)c);
    case DOUBLES: return bits_of_double(d);
    default: return (uint32_t)sum;
    }
}

/* ---- values ---- */

enum regime { RAW, MODERATE, TINY, SPARSE, CANCELLING, ZERO_C, REGIMES };

static uint32_t moderate(enum tensor_format format, uint64_t r, int spread)
{
    const int e = (int)(r >> 32) % (2 * spread + 1) - spread;
    const float v = ldexpf(1 + (float)(r & 0xffffff) / 16777216, e) * (r >> 63 ? -1.0f : 1.0f);

    switch (format) {
    case TENSOR_F16: return half_of_f32(bits_of_float(v));
    case TENSOR_BF16: return bf16_of_f32(bits_of_float(v));
    case TENSOR_E4M3: return e4m3_of(v);
    case TENSOR_E5M2: return e5m2_of(v);
    default: return bits_of_float(v);
    }
}

static uint64_t operand(const struct form *f, enum tensor_format format, enum regime regime,
                        uint64_t r)
{
    const bool float_format = f->how == TENSOR ? f->d != TENSOR_TO_S32 : f->how == FP8;
    uint64_t word = 0;

    if (f->how == DOUBLES)
        return bits_of_double(ldexp((double)(int64_t)r, (int)(r % 40) - 80));
    if (!float_format || regime == RAW)
        return r & UINT32_MAX;
    for (unsigned j = 0; j < 32 / f->bits; j++) {
        uint64_t more = r + j;
        const uint64_t x = emu_random(&more);
        uint32_t v = moderate(format, x, regime == CANCELLING ? 1 : 6);
        if (regime == TINY)
            v = (uint32_t)x & (f->bits == 8 ? 0x87 : f->bits == 16 ? 0x83ff : 0x807fffff);
        if (regime == SPARSE && x >> 40 & 3)
            v = x >> 63 ? UINT32_C(1) << (f->bits - 1) : 0;
        word |= (uint64_t)v << j * f->bits;
    }
    return word;
}

static uint64_t accumulator(const struct form *f, enum regime regime, uint64_t r)
{
    if (f->how == DOUBLES)
        return bits_of_double(ldexp((double)(int64_t)r, (int)(r % 40) - 100));
    if (regime == ZERO_C && f->d != TENSOR_TO_S32)
        return f->d == TENSOR_TO_F16 ? r & 0x80008000 : r & 0x80000000;
    if (f->d == TENSOR_TO_S32)
        return regime == MODERATE ? (uint32_t)(r >> 63 ? INT32_MAX - (int32_t)(r & 0xffff)
                                                       : INT32_MIN + (int32_t)(r & 0xffff))
                                  : r & UINT32_MAX;
    if (regime == RAW)
        return r & UINT32_MAX;
    if (f->d == TENSOR_TO_F16)
        return moderate(TENSOR_F16, r, 6) | (uint64_t)moderate(TENSOR_F16, ~r, 6) << 16;
    return moderate(TENSOR_TF32, r, regime == TINY ? 100 : 8);
}

static void run_form(void **state_of_test)
{
    const struct form *f = *state_of_test;
    static lane_words in[WARPS], out[WARPS];
    static char text[8192];
    const struct counts n = counts_of(f);
    CUmodule module;
    CUfunction function;
    uint64_t state = 1, bad = 0;

    write_program(f, text, sizeof text);
    emu_assemble(text);
    assert_int_equal(gpu.load(&module, text), CUDA_SUCCESS);
    assert_int_equal(gpu.function(&function, module, "product"), CUDA_SUCCESS);
    for (enum regime regime = 0; regime < REGIMES; regime++) {
        memset(in, 0, sizeof in);
        for (unsigned w = 0; w < WARPS; w++)
            for (unsigned lane = 0; lane < 32; lane++) {
                for (unsigned i = 0; i < n.a; i++)
                    in[w][lane][i] = operand(f, f->a, regime, emu_random(&state));
                for (unsigned i = 0; i < n.b; i++)
                    in[w][lane][WORDS + i] = operand(f, f->b, regime, emu_random(&state));
                for (unsigned i = 0; i < n.d; i++)
                    in[w][lane][2 * WORDS + i] = accumulator(f, regime, emu_random(&state));
            }
        void *params[] = {&gpu.in, &gpu.out};
        memset(out, 0xee, sizeof out);
        assert_int_equal(gpu.to(gpu.in, in, sizeof in), CUDA_SUCCESS);
        assert_int_equal(gpu.to(gpu.out, out, sizeof out), CUDA_SUCCESS);
        assert_int_equal(gpu.launch(function, WARPS, 1, 1, 32, 1, 1, 0, NULL, params, NULL),
                         CUDA_SUCCESS);
        assert_int_equal(gpu.from(out, gpu.out, sizeof out), CUDA_SUCCESS);
        for (unsigned w = 0; w < WARPS; w++)
            for (unsigned row = 0; row < f->m; row++)
                for (unsigned column = 0; column < 8; column++) {
                    const uint64_t mask = n.word == 8 ? UINT64_MAX : UINT32_MAX;
                    const uint64_t got = sum_at(out[w], f, 0, row, column) & mask;
                    const uint64_t want = expected(in[w], f, row, column);
                    if (got != want && bad++ < 4)
                        print_error("%s regime %d warp %u d[%u][%u]: %llx, expected %llx\n",
                                    f->name, regime, w, row, column, (unsigned long long)got,
                                    (unsigned long long)want);
                }
    }
    gpu.unload(module);
    if (bad)
        fail_msg("%s: %llu wrong", f->name, (unsigned long long)bad);
}

/* ---- what is not a product ---- */

static const char fragment_program[] =
    HEAD ".visible .entry product(.param .u64 in, .param .u64 out, .param .u32 odd)\n{\n"
    "    .reg .b32 a<4>, b<2>, c<4>, d<4>, t;\n    .reg .b64 p, q, o;\n    .reg .pred skip;\n"
    "    ld.param.u64 p, [in];\n    ld.param.u64 q, [out];\n    ld.param.u32 t, [odd];\n"
    "    setp.ne.u32 skip, t, 0;\n    mov.u32 t, %tid.x;\n    mul.wide.u32 o, t, 64;\n"
    "    add.u64 p, p, o;\n    add.u64 q, q, o;\n"
    "    ld.global.b32 a0, [p];\n    ld.global.b32 a1, [p + 4];\n    mov.b32 a2, 0;\n"
    "    mov.b32 a3, 0;\n    mov.b32 b0, 0;\n    mov.b32 b1, 0;\n"
    "    mov.b32 c0, 0;\n    mov.b32 c1, 0;\n    mov.b32 c2, 0;\n    mov.b32 c3, 0;\n"
    "    setp.ne.and.u32 skip, t, 7, skip;\n"
    "@skip mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d0, d1, d2, d3}, {a0, a1, a2, a3},\n"
    "        {b0, b1}, {c0, c1, c2, c3};\n"
    "    st.global.v2.b32 [q], {d0, d1};\n    ret;\n}\n";

/* One lane stays away from an instruction that the whole warp must execute. */
static void divergent(void **state)
{
    (void)state;
    struct emu e;
    emu_open(&e, POLICY_RANDOM, 1);
    emu_load(&e, fragment_program);
    uint8_t zeros[32 * 64] = {0};
    const uint64_t in = emu_put(&e, zeros, sizeof zeros), out = emu_alloc(&e, sizeof zeros);
    const uint64_t values[] = {in, out, 1};
    assert_false(emu_run(&e, "product", &(struct emu_launch){.block = {32}}, 3, values));
    assert_int_equal(e.trap.kind, TRAP_DIVERGENT);
    emu_close(&e);
}

/* An element of A that nobody wrote spoils its row of D, and no other. */
static void undefined(void **state)
{
    (void)state;
    for (unsigned row = 0; row < 16; row += 5) {
        struct emu e;
        char text[sizeof fragment_program + 8];
        emu_open(&e, POLICY_EARLY, 1);
        /* Only lanes of row 2 store, or those of row 3. */
        for (unsigned other = 0; other < 2; other++) {
            strcpy(text, fragment_program);
            memcpy(strstr(text, "@skip mma"), "      mma", 9);
            emu_load(&e, text);
            uint8_t zeros[32 * 64] = {0};
            const uint64_t in = emu_put(&e, zeros, sizeof zeros), out = emu_alloc(&e, sizeof zeros);
            const struct mem_block *b = mem_find(e.mem, in);
            const unsigned lane = 4 * (row % 8) + 3;
            if (other)      /* register 0 is of the upper rows, register 1 of the lower ones */
                valid_fill(b->valid, 64 * lane + (row < 8 ? 0 : 4), 4, false);
            const uint64_t values[] = {in, out, 0};
            const bool ok = emu_run(&e, "product", &(struct emu_launch){.block = {32}}, 3, values);
            /* The program stores the upper rows alone. */
            assert_int_equal(ok, !other || row >= 8);
            if (!ok) {
                assert_int_equal(e.trap.kind, TRAP_UNDEFINED);
                trap_clear(&e.trap);
            }
        }
        emu_close(&e);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const struct emu_refusal rows[] = {
        {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {r0,r1,r2,r3}, {r0,r1}, {r0,r1}, "
         "{r0,r1,r2,r3};", "vector of 4"},
        {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16 {r0,r1,r2,r3}, {r0,r1,r2,r3}, "
         "{r0,r1}, {r0,r1,r2,r3};", "f16"},
        {"mma.sync.aligned.m16n8k16.row.row.f32.bf16.bf16.f32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, "
         "{r0,r1}, {r0,r1,r2,r3};", "row"},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {r0,r1,r2,r3}, {r0,r1,r2,r3}, "
         "{r0,r1};", "four operands"},
        {"mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 {r0,r1,r2,r3}, "
         "{r0,r1,r2,r3}, {r0,r1}, {r0,r1,r2,r3};", "satfinite"},
    };
    emu_refusals(HEAD ".visible .entry k()\n{\n    .reg .b32 r<4>;\n", rows,
                 sizeof rows / sizeof *rows);
}

int main(void)
{
    enum { FORMS = sizeof forms / sizeof *forms };
    struct CMUnitTest tests[FORMS + 3];
    for (size_t i = 0; i < FORMS; i++)
        tests[i] = (struct CMUnitTest){forms[i].name, run_form, NULL, NULL, (void *)&forms[i]};
    tests[FORMS] = (struct CMUnitTest)cmocka_unit_test(divergent);
    tests[FORMS + 1] = (struct CMUnitTest)cmocka_unit_test(undefined);
    tests[FORMS + 2] = (struct CMUnitTest)cmocka_unit_test(refusals);
    return cmocka_run_group_tests_name("mma", tests, open_driver, NULL);
}
