/*
 * wmma: every form, by rows and columns, from global, shared and generic addresses, with and
 * without a stride. A product is held against the plain model of one output, from matrices in
 * memory to a matrix in memory: what registers hold shows in one test only, because the manual
 * leaves it open.
 *
 * With PTXMM_DRIVER=libcuda.so.1 the same programs run on a GPU: so the model is held against one.
 */
#include "emu_gpu.h"

#include <fenv.h>
#include <math.h>

#include "floats.h"
#include "tensor.h"

enum { WARPS = 9, AREA = 4096 };            /* a matrix of one warp, with its gaps */

enum element { F16, BF16, TF32, S8, U8, S4, U4, B1, F32, S32, F64 };

static const struct {
    const char *name;
    unsigned bits;
} element[] = {
    [F16] = {"f16", 16}, [BF16] = {"bf16", 16}, [TF32] = {"tf32", 32}, [S8] = {"s8", 8},
    [U8] = {"u8", 8}, [S4] = {"s4", 4}, [U4] = {"u4", 4}, [B1] = {"b1", 1}, [F32] = {"f32", 32},
    [S32] = {"s32", 32}, [F64] = {"f64", 64},
};

struct form {
    const char *name, *op, *end;    /* wmma.mma OP, END of its modifiers */
    unsigned m, n, k;
    enum element a, c, d;           /* A and B; C; D */
    int rounding;
    bool saturate, exclusive;       /* b1: xor */
};

#define FORM(m, n, k, a, c, d, end, rounding, saturate) \
    {"m" #m "n" #n "k" #k " " #a " " #c " " #d " " end, "", end, m, n, k, a, c, d, rounding, \
     saturate, false}
#define ALL(a, c, d, end, saturate) \
    FORM(16, 16, 16, a, c, d, end, FE_TONEAREST, saturate), \
    FORM(8, 32, 16, a, c, d, end, FE_TONEAREST, saturate), \
    FORM(32, 8, 16, a, c, d, end, FE_TONEAREST, saturate)
#define BITS(op, xor) \
    {"m8n8k128 " op, "." op ".popc", "", 8, 8, 128, B1, S32, S32, FE_TONEAREST, false, xor}

static const struct form forms[] = {
    ALL(F16, F32, F32, "", false),
    ALL(F16, F16, F16, "", false),
    ALL(F16, F32, F16, "", false),
    ALL(F16, F16, F32, "", false),
    ALL(BF16, F32, F32, "", false),
    ALL(S8, S32, S32, "", false),
    ALL(U8, S32, S32, "", false),
    ALL(S8, S32, S32, ".satfinite", true),
    ALL(U8, S32, S32, ".satfinite", true),
    FORM(16, 16, 8, TF32, F32, F32, "", FE_TONEAREST, false),
    FORM(8, 8, 4, F64, F64, F64, "", FE_TONEAREST, false),
    FORM(8, 8, 4, F64, F64, F64, ".rn", FE_TONEAREST, false),
    FORM(8, 8, 4, F64, F64, F64, ".rz", FE_TOWARDZERO, false),
    FORM(8, 8, 4, F64, F64, F64, ".rm", FE_DOWNWARD, false),
    FORM(8, 8, 4, F64, F64, F64, ".rp", FE_UPWARD, false),
    FORM(8, 8, 32, S4, S32, S32, "", FE_TONEAREST, false),
    FORM(8, 8, 32, U4, S32, S32, ".satfinite", FE_TONEAREST, true),
    BITS("xor", true),
    BITS("and", false),
};

static enum element element_of(const struct form *f, char matrix)
{
    return matrix == 'c' ? f->c : matrix == 'd' ? f->d : f->a;
}

/* The manual's counts. */
static unsigned registers(const struct form *f, char matrix)
{
    const enum element e = element_of(f, matrix);
    const unsigned elements = matrix == 'a' ? f->m * f->k
                            : matrix == 'b' ? f->n * f->k : f->m * f->n;

    if (e == F16 && matrix < 'c')
        return 8;
    return elements * element[e].bits / 32 / (e == F64 ? 64 : 32);
}

static const char *class_of(enum element e, char matrix)
{
    return e == F64 ? "f64" : matrix < 'c' || e == F16 ? "b32" : e == S32 ? "s32" : "f32";
}

/* ---- matrices in memory ---- */

struct matrix {
    unsigned rows, columns, bits;
    bool by_columns, padded;
};

static struct matrix matrix_of(const struct form *f, char which, bool by_columns, bool padded)
{
    return (struct matrix){which == 'b' ? f->k : f->m, which == 'a' ? f->k : f->n,
                           element[element_of(f, which)].bits, by_columns, padded};
}

/* In elements: lines touch, or are 16 bytes apart. */
static unsigned stride_of(const struct matrix *m)
{
    return (m->by_columns ? m->rows : m->columns) + (m->padded ? 128 / m->bits : 0);
}

static uint64_t get(const struct matrix *m, const uint8_t *bytes, unsigned row, unsigned column)
{
    const unsigned at = m->by_columns ? column * stride_of(m) + row : row * stride_of(m) + column;
    uint64_t v = 0;

    if (m->bits < 8)
        return bytes[at * m->bits / 8] >> at * m->bits % 8 & ((1u << m->bits) - 1);
    memcpy(&v, bytes + at * m->bits / 8, m->bits / 8);
    return v;
}

/* ---- programs ---- */

enum window { GENERIC, GLOBAL, SHARED, SPACES };

struct variant {
    const struct form *f;
    bool by_columns[3];         /* A, B, C and D */
    enum window space;
    bool padded;
};

struct text {
    char bytes[8192];
    size_t used;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    t->used += (size_t)vsnprintf(t->bytes + t->used, sizeof t->bytes - t->used, format, list);
    va_end(list);
    assert_true(t->used < sizeof t->bytes);
}

static void vector(struct text *t, char name, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        add(t, "%s%c%u", i ? ", " : "{", name, i);
    add(t, "}");
}

static const char *way(bool by_columns)
{
    return by_columns ? "col" : "row";
}

static void shape(struct text *t, const struct form *f)
{
    add(t, ".m%un%uk%u", f->m, f->n, f->k);
}

static void memory_op(struct text *t, const struct variant *v, char which)
{
    static const char *const spaces[] = {"", ".global", ".shared::cta"};
    const struct form *f = v->f;
    const unsigned i = which > 'b' ? 2 : (unsigned)(which - 'a');
    const struct matrix m = matrix_of(f, which, v->by_columns[i], v->padded);

    if (v->padded && which == 'b')
        add(t, "    mov.u32 i, %u;\n", stride_of(&m));
    add(t, "    wmma.%s.%c.sync.aligned.%s", which == 'd' ? "store" : "load", which,
        way(m.by_columns));
    shape(t, f);
    add(t, "%s.%s ", spaces[v->space], element[element_of(f, which)].name);
    if (which != 'd')
        vector(t, which, registers(f, which));
    add(t, "%s[%c + %u]", which == 'd' ? "" : ", ", which == 'd' ? 'q' : 'p',
        which == 'd' ? 0 : i * AREA);
    if (which == 'd') {
        add(t, ", ");
        vector(t, which, registers(f, which));
    }
    if (v->padded && which == 'b')
        add(t, ", i");
    else if (v->padded)
        add(t, ", %u", stride_of(&m));
    add(t, ";\n");
}

static void write_program(const struct variant *v, struct text *t)
{
    const struct form *f = v->f;

    *t = (struct text){.used = 0};
    add(t, ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry product(.param .u64 in, .param .u64 out)\n{\n"
        "    .shared .align 128 .b8 area[%d];\n    .reg .b32 t, n, i;\n    .reg .b64 p, q, g, o;\n"
        "    .reg .pred more;\n", 4 * AREA);
    for (char which = 'a'; which <= 'd'; which++)
        add(t, "    .reg .%s %c<8>;\n", class_of(element_of(f, which), which), which);
    add(t, "    ld.param.u64 p, [in];\n    ld.param.u64 g, [out];\n    mov.u32 t, %%tid.x;\n"
        "    mov.u32 n, %%ctaid.x;\n    mad.wide.u32 p, n, %d, p;\n    mad.wide.u32 g, n, %d, g;\n"
        "    mov.u64 q, g;\n", 3 * AREA, AREA);
    if (v->space == SHARED)         /* A, B, C and what D lies in */
        add(t, "    mov.u64 o, area;\n    mad.wide.u32 o, t, 4, o;\n    mad.wide.u32 p, t, 4, p;\n"
            "    mad.wide.u32 q, t, 4, q;\n    mov.u32 i, 0;\n"
            "fill:\n    ld.global.b32 n, [p];\n    st.shared.b32 [o], n;\n    add.u64 p, p, 128;\n"
            "    add.u64 o, o, 128;\n    add.u32 i, i, 1;\n    setp.lt.u32 more, i, %d;\n"
            "@more bra fill;\n    mov.u32 i, 0;\n"
            "more_fill:\n    ld.global.b32 n, [q];\n    st.shared.b32 [o], n;\n"
            "    add.u64 q, q, 128;\n    add.u64 o, o, 128;\n    add.u32 i, i, 1;\n"
            "    setp.lt.u32 more, i, %d;\n"
            "@more bra more_fill;\n    bar.warp.sync -1;\n    mov.u64 p, area;\n"
            "    add.u64 q, p, %d;\n", 3 * AREA / 128, AREA / 128, 3 * AREA);
    for (char which = 'a'; which <= 'c'; which++)
        memory_op(t, v, which);
    add(t, "    wmma.mma%s.sync.aligned.%s.%s", f->op, way(v->by_columns[0]),
        way(v->by_columns[1]));
    shape(t, f);
    if (f->a == F64)
        add(t, "%s", f->end);
    if (f->a == F16)
        add(t, ".%s.%s ", element[f->d].name, element[f->c].name);
    else
        add(t, ".%s.%s.%s.%s%s ", element[f->d].name, element[f->a].name, element[f->a].name,
            element[f->c].name, f->a == F64 ? "" : f->end);
    for (unsigned i = 0; i < 4; i++) {
        add(t, i ? ", " : "");
        vector(t, "dabc"[i], registers(f, "dabc"[i]));
    }
    add(t, ";\n");
    memory_op(t, v, 'd');
    if (v->space == SHARED)
        add(t, "    bar.warp.sync -1;\n    mov.u64 o, area;\n    mad.wide.u32 o, t, 4, o;\n"
            "    mad.wide.u32 g, t, 4, g;\n    mov.u32 i, 0;\n"
            "drain:\n    ld.shared.b32 n, [o + %d];\n    st.global.b32 [g], n;\n"
            "    add.u64 g, g, 128;\n    add.u64 o, o, 128;\n    add.u32 i, i, 1;\n"
            "    setp.lt.u32 more, i, %d;\n"
            "@more bra drain;\n", 3 * AREA, AREA / 128);
    add(t, "    ret;\n}\n");
}

/* ---- the plain model ---- */

static int64_t integer(enum element e, uint64_t v)
{
    return e == S4 && v > 7 ? (int64_t)v - 16 : (int64_t)v;
}

static uint32_t tensor(const struct form *f, const uint32_t *a, const uint32_t *b, uint32_t c)
{
    static const enum tensor_format formats[] = {
        [F16] = TENSOR_F16, [BF16] = TENSOR_BF16, [TF32] = TENSOR_TF32, [S8] = TENSOR_S8,
        [U8] = TENSOR_U8,
    };
    const enum tensor_result d = f->d == S32 ? TENSOR_TO_S32
                               : f->c == F16 && f->d == F16 ? TENSOR_TO_F16 : TENSOR_TO_F32;
    struct tensor_kind kind;

    assert_true(tensor_kind_wgmma(&kind, formats[f->a], formats[f->a], d, f->saturate));
    if (f->a == TF32) {             /* two instructions of K = 4 */
        const uint32_t low[2][8] = {{a[0], a[1], a[2], a[3]}, {b[0], b[1], b[2], b[3]}};
        const uint32_t high[2][8] = {{a[4], a[5], a[6], a[7]}, {b[4], b[5], b[6], b[7]}};
        return tensor_dot(&kind, high[0], high[1], tensor_dot(&kind, low[0], low[1], c, NULL, NULL),
                          NULL, NULL);
    }
    if (f->c == F16 && f->d == F32)
        c = bits_of_float((float)half_value((uint16_t)c));
    const uint32_t sum = tensor_dot(&kind, a, b, c, NULL, NULL);
    return f->c == F32 && f->d == F16 ? half_of_f32(sum) : sum;
}

static uint64_t expected(const struct variant *v, const uint8_t *in, unsigned row, unsigned column)
{
    const struct form *f = v->f;
    const struct matrix ma = matrix_of(f, 'a', v->by_columns[0], v->padded);
    const struct matrix mb = matrix_of(f, 'b', v->by_columns[1], v->padded);
    const struct matrix mc = matrix_of(f, 'c', v->by_columns[2], v->padded);
    const uint64_t c = get(&mc, in + 2 * AREA, row, column);
    uint32_t a[128] = {0}, b[128] = {0};
    int64_t sum = (int32_t)c;
    volatile double d = double_of(c);

    fesetround(f->rounding);
    for (unsigned k = 0; k < f->k; k++) {
        const uint64_t x = get(&ma, in, row, k), y = get(&mb, in + AREA, k, column);
        a[k] = (uint32_t)x;
        b[k] = (uint32_t)y;
        if (f->a == F64) {
            volatile double p = double_of(x), q = double_of(y);
            d = fma(p, q, d);
        }
        if (f->a == S4 || f->a == U4)
            sum += integer(f->a, x) * integer(f->a, y);
        if (f->a == B1)
            sum += (int64_t)(f->exclusive ? x ^ y : x & y);
    }
    fesetround(FE_TONEAREST);
    if (f->a == F64)
        return bits_of_double(d);
    if (element[f->a].bits >= 8)
        return tensor(f, a, b, (uint32_t)c);
    if (f->saturate)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

/* ---- values ---- */

static void fill(enum element e, unsigned regime, uint8_t *bytes, size_t size, uint64_t *state)
{
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t word = emu_random(state);
        const unsigned bits = element[e].bits;
        for (unsigned j = 0; regime && bits >= 16 && e != S32 && j < 64 / bits; j++) {
            const uint64_t r = emu_random(state);
            const int power = (int)(r >> 32) % (regime == 1 ? 13 : 3) - (regime == 1 ? 6 : 1);
            const double v = ldexp(1 + (double)(r & 0xffffff) / 16777216, power) *
                             (r >> 63 ? -1 : 1);
            const uint32_t single = bits_of_float((float)v);
            const uint64_t code = e == F64 ? bits_of_double(v) : e == F16 ? half_of_f32(single)
                                : e == BF16 ? bf16_of_f32(single) : single;
            word = j ? word | code << j * bits : code;
        }
        if (regime == 1 && e == S32)    /* where sums wrap or saturate */
            word = (word & UINT64_C(0x00000fff00000fff)) | UINT64_C(0x7ffff00080000000);
        memcpy(bytes + 8 * i, &word, 8);
    }
}

/* ---- products ---- */

static void run_variant(const struct variant *v, unsigned *bad)
{
    static uint8_t in[WARPS][3 * AREA], out[WARPS][AREA], before[WARPS][AREA];
    static struct text text;
    const struct form *f = v->f;
    const struct matrix md = matrix_of(f, 'd', v->by_columns[2], v->padded);
    void *params[] = {&gpu.in, &gpu.out};
    uint64_t state = 1;
    CUmodule module;
    CUfunction function;

    write_program(v, &text);
    emu_assemble(text.bytes);
    if (gpu.load(&module, text.bytes) != CUDA_SUCCESS)
        fail_msg("%s", text.bytes);
    assert_int_equal(gpu.function(&function, module, "product"), CUDA_SUCCESS);
    for (unsigned w = 0; w < WARPS; w++) {
        fill(f->a, w % 3, in[w], AREA, &state);
        fill(f->a, w % 3, in[w] + AREA, AREA, &state);
        fill(f->c, w % 3, in[w] + 2 * AREA, AREA, &state);
    }
    memset(out, 0xee, sizeof out);
    memcpy(before, out, sizeof out);
    assert_int_equal(gpu.to(gpu.in, in, sizeof in), CUDA_SUCCESS);
    assert_int_equal(gpu.to(gpu.out, out, sizeof out), CUDA_SUCCESS);
    if (gpu.launch(function, WARPS, 1, 1, 32, 1, 1, 0, NULL, params, NULL) != CUDA_SUCCESS ||
        gpu.from(out, gpu.out, sizeof out) != CUDA_SUCCESS)
        fail_msg("%s", text.bytes);
    for (unsigned w = 0; w < WARPS; w++)
        for (unsigned row = 0; row < f->m; row++)
            for (unsigned column = 0; column < f->n; column++) {
                const uint64_t got = get(&md, out[w], row, column);
                const uint64_t want = expected(v, in[w], row, column);
                if (got != want && (*bad)++ < 4)
                    print_error("%s, %s %s %s, space %d, %s, warp %u: d[%u][%u] %llx, "
                                "expected %llx\n",
                                f->name, way(v->by_columns[0]), way(v->by_columns[1]),
                                way(v->by_columns[2]), v->space, v->padded ? "padded" : "packed", w,
                                row, column, (unsigned long long)got, (unsigned long long)want);
            }
    /* Nothing else was written. */
    for (unsigned w = 0; w < WARPS; w++) {
        for (unsigned row = 0; row < f->m; row++)
            for (unsigned column = 0; column < f->n; column++) {
                const unsigned at = md.by_columns ? column * stride_of(&md) + row
                                                  : row * stride_of(&md) + column;
                memset(out[w] + at * md.bits / 8, 0xee, md.bits / 8);
            }
        assert_memory_equal(out[w], before[w], AREA);
    }
    gpu.unload(module);
}

static void products(void **state)
{
    const struct form *f = *state;
    const bool narrow = element[f->a].bits < 8;
    unsigned bad = 0;

    for (unsigned i = 0; i < 8; i++)
        for (enum window space = 0; space < SPACES; space++) {
            const struct variant v = {f, {i & 1, i >> 1 & 1, i >> 2}, space,
                                      (i ^ i >> 1 ^ i >> 2 ^ (unsigned)space) & 1};
            if (!narrow || (!v.by_columns[0] && v.by_columns[1]))
                run_variant(&v, &bad);
        }
    if (bad)
        fail_msg("%s: %u wrong", f->name, bad);
}

/* ---- registers ---- */

/* Every element lies in as many registers as every other, all of them, and the same for rows and
 * columns; C and D, on which programs work element by element, have each once. */
static void registers_of(const struct form *f, char matrix)
{
    static uint8_t in[AREA], out[2][32 * 64];
    const enum element e = matrix == 'c' ? f->c : f->a;
    const unsigned bits = element[e].bits, n = registers(f, matrix), word = e == F64 ? 8 : 4;
    const char *const type = class_of(e, matrix);
    unsigned copies = 0;

    for (unsigned by_columns = 0; by_columns < 2; by_columns++) {
        const struct matrix m = matrix_of(f, matrix, by_columns, false);
        struct text t = {.used = 0};
        CUmodule module;
        CUfunction function;

        add(&t, ".version 8.0\n.target sm_90\n.address_size 64\n"
            ".visible .entry registers(.param .u64 in, .param .u64 out)\n{\n    .reg .b64 p, q;\n"
            "    .reg .b32 t;\n    .reg .%s x<8>;\n    ld.param.u64 p, [in];\n"
            "    ld.param.u64 q, [out];\n    mov.u32 t, %%tid.x;\n    mad.wide.u32 q, t, 64, q;\n"
            "    wmma.load.%c.sync.aligned.%s", type, matrix, way(by_columns));
        shape(&t, f);
        add(&t, ".%s ", element[e].name);
        vector(&t, 'x', n);
        add(&t, ", [p];\n");
        for (unsigned i = 0; i < n; i++)
            add(&t, "    st.global.%s [q + %u], x%u;\n", type, word * i, i);
        add(&t, "    ret;\n}\n");
        emu_assemble(t.bytes);
        /* An element is its number, in 8 bits what fits of it. */
        memset(in, 0, sizeof in);
        memset(out[by_columns], 0, sizeof out[by_columns]);
        for (unsigned row = 0; row < m.rows; row++)
            for (unsigned column = 0; column < m.columns; column++) {
                const uint64_t v = row * m.columns + column;
                const unsigned at = by_columns ? column * m.rows + row : row * m.columns + column;
                memcpy(in + at * bits / 8, &v, bits / 8);
            }
        void *params[] = {&gpu.in, &gpu.out};
        assert_int_equal(gpu.load(&module, t.bytes), CUDA_SUCCESS);
        assert_int_equal(gpu.function(&function, module, "registers"), CUDA_SUCCESS);
        assert_int_equal(gpu.to(gpu.in, in, sizeof in), CUDA_SUCCESS);
        assert_int_equal(gpu.to(gpu.out, out[by_columns], sizeof out[by_columns]), CUDA_SUCCESS);
        assert_int_equal(gpu.launch(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL),
                         CUDA_SUCCESS);
        assert_int_equal(gpu.from(out[by_columns], gpu.out, sizeof out[by_columns]), CUDA_SUCCESS);
        gpu.unload(module);

        static unsigned seen[1024];
        const unsigned elements = m.rows * m.columns;
        const unsigned values = bits == 8 && elements > 256 ? 256 : elements;
        memset(seen, 0, sizeof seen);
        for (unsigned lane = 0; lane < 32; lane++)
            for (unsigned i = 0; i < n * word * 8 / bits; i++) {
                uint64_t v = 0;
                memcpy(&v, out[by_columns] + 64 * lane + i * bits / 8, bits / 8);
                assert_in_range(v, 0, values - 1);
                seen[v]++;
            }
        copies = n * word * 8 * 32 / bits / elements;
        for (unsigned i = 0; i < values; i++)
            assert_int_equal(seen[i], copies * (elements > values ? elements / values : 1));
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    if (matrix == 'c')
        assert_int_equal(copies, 1);
}

static void fragments(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (char matrix = 'a'; matrix <= 'c'; matrix++)
            if (matrix == 'c' || element[forms[i].a].bits >= 8)
                registers_of(&forms[i], matrix);
}

/* ---- what is not a product ---- */

#define LOAD_A "wmma.load.a.sync.aligned.row.m16n16k16.f16 {r0,r1,r2,r3,r4,r5,r6,r7}, "
#define STORE_D "wmma.store.d.sync.aligned.row.m16n16k16.f32 [q], {f0,f1,f2,f3,f4,f5,f6,f7}"

static const char head[] =
    HEAD ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n    .reg .b32 r<8>, t, n;\n"
    "    .reg .f32 f<8>;\n    .reg .b64 p, q, o;\n    .reg .pred on;\n"
    "    .local .align 16 .b8 mine[1024];\n    ld.param.u64 p, [in];\n    ld.param.u64 q, [out];\n"
    "    mov.u32 t, %tid.x;\n    setp.ne.u32 on, t, 31;\n    cvt.u64.u32 o, t;\n";

/* `in` has 512 bytes of which the last 32 were never written, `out` 1024. */
static void misuse(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        enum trap_kind kind;
        const char *says;
    } rows[] = {
        {LOAD_A "[p];", TRAP_NONE, ""},
        {LOAD_A "[p], 8;", TRAP_NONE, ""},
        {LOAD_A "[p + 32];", TRAP_BOUNDS, "lane 28"},
        {LOAD_A "[p], 24;", TRAP_BOUNDS, "read of 32 bytes"},
        {LOAD_A "[p + 8];", TRAP_MISALIGNED, "row 0 of the matrix must be at a multiple of 16"},
        {LOAD_A "[p], 12;", TRAP_MISALIGNED, "row 1 of the matrix must be at a multiple of 16"},
        {"wmma.load.b.sync.aligned.row.m16n16k16.f16 {r0,r1,r2,r3,r4,r5,r6,r7}, [p + 32];",
         TRAP_BOUNDS, "lane 3,"},
        {"@on " LOAD_A "[p];", TRAP_DIVERGENT, "7fffffff"},
        {"@!on exit;\n" LOAD_A "[p];", TRAP_DIVERGENT, "7fffffff"},
        {"shl.b64 o, o, 4;\nadd.u64 p, p, o;\n" LOAD_A "[p];", TRAP_MISMATCH, "the address"},
        {"add.u32 n, t, 16;\n" LOAD_A "[p], n;", TRAP_MISMATCH, "the stride"},
        {LOAD_A "[p], n;", TRAP_UNDEFINED, "the stride"},
        {"mov.u64 o, mine;\ncvta.local.u64 o, o;\n" LOAD_A "[o];", TRAP_WRONG_SPACE,
         "global or shared"},
        {LOAD_A "[p];\nst.global.b32 [q], r0;", TRAP_NONE, ""},
        {LOAD_A "[p];\nst.global.b32 [q], r1;", TRAP_UNDEFINED, "lane 28"},
        {STORE_D ";", TRAP_UNDEFINED, "register 0 of the fragment: lanes ffffffff"},
        {"mov.f32 f0, 0f00000000;\nmov.f32 f1, f0;\nmov.f32 f2, f0;\nmov.f32 f3, f0;\n"
         "mov.f32 f4, f0;\nmov.f32 f5, f0;\nmov.f32 f6, f0;\nmov.f32 f7, f0;\n" STORE_D ";\n"
         STORE_D ", 20;", TRAP_BOUNDS, "write of 64 bytes"},
        {"mov.f32 f0, 0f00000000;\nmov.f32 f1, f0;\nmov.f32 f2, f0;\nmov.f32 f3, f0;\n"
         "mov.f32 f4, f0;\nmov.f32 f5, f0;\nmov.f32 f6, f0;\nmov.f32 f7, f0;\n"
         "@on " STORE_D ";", TRAP_DIVERGENT, "7fffffff"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct emu e;
        char text[4096];
        uint8_t zeros[512] = {0};
        emu_open(&e, POLICY_RANDOM, 1);
        snprintf(text, sizeof text, "%s%s\n    ret;\n}\n", head, rows[i].lines);
        emu_load(&e, text);
        const uint64_t in = emu_put(&e, zeros, sizeof zeros), out = emu_alloc(&e, 1024);
        const struct mem_block *b = mem_find(e.mem, in);
        valid_fill(b->valid, 480, 32, false);
        const uint64_t values[] = {in, out};
        const bool ok = emu_run(&e, "k", &(struct emu_launch){.block = {32}}, 2, values);
        char *report = ok ? NULL : trap_report(&e.trap);
        if (ok != (rows[i].kind == TRAP_NONE) || (!ok && (e.trap.kind != rows[i].kind ||
                                                          !strstr(report, rows[i].says))))
            fail_msg("%s\n%s", rows[i].lines, report ? report : "no trap");
        free(report);
        emu_close(&e);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const struct emu_refusal rows[] = {
        {"wmma.load.a.sync.aligned.row.m16n16k16.f16 {r0,r1,r2,r3}, [p];", "vector of 8"},
        {"wmma.load.a.sync.aligned.row.m16n16k16.bf16 {r0,r1,r2,r3,r4,r5,r6,r7}, [p];",
         "vector of 4"},
        {"wmma.load.a.sync.aligned.row.m16n16k16.local.bf16 {r0,r1,r2,r3}, [p];", "'.local'"},
        {"wmma.load.a.sync.aligned.m16n16k16.bf16 {r0,r1,r2,r3}, [p];", "row|col"},
        {"wmma.load.a.sync.row.m16n16k16.bf16 {r0,r1,r2,r3}, [p];", "aligned"},
        {"wmma.load.a.sync.aligned.col.m8n8k32.s4 {r0}, [p];", "col"},
        {"wmma.load.a.sync.aligned.row.m16n16k8.f16 {r0,r1,r2,r3,r4,r5,r6,r7}, [p];", "m16n16k8"},
        {"wmma.load.a.sync.aligned.row.m16n16k16.s8 {r0,r1}, [p], 16, 16;", "too many"},
        {"wmma.load.c.sync.aligned.row.m16n16k16.s32 {f0,f1,f2,f3,f4,f5,f6,f7}, [p];", "s32"},
        {"wmma.store.d.sync.aligned.row.m16n16k16.f16 [p], {r0,r1};", "vector of 4"},
        {"wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16.satfinite {r0,r1,r2,r3}, "
         "{r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1,r2,r3};", "satfinite"},
        {"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16 {r0,r1,r2,r3}, "
         "{r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1,r2,r3,r4,r5,r6,r7}, {r0,r1,r2,r3};", "vector of 8"},
        {"wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.u4.s32 {r0,r1}, {r0}, {r0}, {r0,r1};", "u4"},
    };
    emu_refusals(HEAD ".visible .entry k()\n{\n    .reg .b32 r<8>;\n    .reg .f32 f<8>;\n"
                 "    .reg .b64 p;\n", rows, sizeof rows / sizeof *rows);
}

static int open_driver(void **state)
{
    (void)state;
    return gpu_open(WARPS * 3 * AREA, WARPS * AREA) ? 0 : -1;
}

int main(void)
{
    enum { FORMS = sizeof forms / sizeof *forms };
    struct CMUnitTest tests[FORMS + 3];
    for (size_t i = 0; i < FORMS; i++)
        tests[i] = (struct CMUnitTest){forms[i].name, products, NULL, NULL, (void *)&forms[i]};
    tests[FORMS] = (struct CMUnitTest)cmocka_unit_test(fragments);
    tests[FORMS + 1] = (struct CMUnitTest)cmocka_unit_test(misuse);
    tests[FORMS + 2] = (struct CMUnitTest)cmocka_unit_test(refusals);
    return cmocka_run_group_tests_name("wmma", tests, open_driver, NULL);
}
