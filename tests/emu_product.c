/*
 * wgmma as an instruction: random types, shapes, layouts, operand sources and immediates, every
 * element of D against the plain model of a fused step.
 */
#include "emu_run.h"

#include "tensor.h"

enum { IMAGE = 65536, ROUNDS = 70 };

struct product {
    const char *d, *a, *b;      /* type names */
    enum tensor_format fa, fb;
    enum tensor_result fd;
    unsigned n, k;
    bool saturate, registers, trans_a, trans_b, neg_a, neg_b, keep;
    unsigned span_a, span_b;    /* swizzles */
    uint32_t start[2], leading[2], stride[2];
};

static const struct {
    const char *d, *a, *b;
    enum tensor_format fa, fb;
    enum tensor_result fd;
    unsigned k;
} types[] = {
    { "f32", "bf16", "bf16", TENSOR_BF16, TENSOR_BF16, TENSOR_TO_F32, 16 },
    { "f32", "f16", "f16", TENSOR_F16, TENSOR_F16, TENSOR_TO_F32, 16 },
    { "f16", "f16", "f16", TENSOR_F16, TENSOR_F16, TENSOR_TO_F16, 16 },
    { "f32", "tf32", "tf32", TENSOR_TF32, TENSOR_TF32, TENSOR_TO_F32, 8 },
    { "f32", "e4m3", "e4m3", TENSOR_E4M3, TENSOR_E4M3, TENSOR_TO_F32, 32 },
    { "f32", "e4m3", "e5m2", TENSOR_E4M3, TENSOR_E5M2, TENSOR_TO_F32, 32 },
    { "f16", "e5m2", "e4m3", TENSOR_E5M2, TENSOR_E4M3, TENSOR_TO_F16, 32 },
    { "f32", "e5m2", "e5m2", TENSOR_E5M2, TENSOR_E5M2, TENSOR_TO_F32, 32 },
    { "s32", "s8", "s8", TENSOR_S8, TENSOR_S8, TENSOR_TO_S32, 32 },
    { "s32", "s8", "u8", TENSOR_S8, TENSOR_U8, TENSOR_TO_S32, 32 },
    { "s32", "u8", "u8", TENSOR_U8, TENSOR_U8, TENSOR_TO_S32, 32 },
    { "s32", "b1", "b1", TENSOR_B1, TENSOR_B1, TENSOR_TO_S32, 256 },
};

static uint32_t below(uint64_t *random, uint32_t n)
{
    return (uint32_t)(emu_random(random) >> 33) % n;
}

static void draw(struct product *p, uint64_t *random)
{
    static const unsigned spans[] = { 0, 128, 64, 32 };
    const unsigned t = below(random, 12);
    const bool integer = types[t].fd == TENSOR_TO_S32, half = types[t].fa <= TENSOR_F16;

    *p = (struct product){ .d = types[t].d, .a = types[t].a, .b = types[t].b, .fa = types[t].fa,
                           .fb = types[t].fb, .fd = types[t].fd, .k = types[t].k };
    p->n = integer ? (below(random, 3) ? 48 + 16 * below(random, 14) : 8 + 8 * below(random, 4))
                   : 8 + 8 * below(random, 32);
    p->saturate = integer && p->fa != TENSOR_B1 && below(random, 2);
    p->registers = below(random, 3) == 0;
    p->trans_a = half && !p->registers && below(random, 2);
    p->trans_b = half && below(random, 2);
    p->neg_a = !integer && below(random, 4) == 0;
    p->neg_b = !integer && below(random, 4) == 0;
    p->keep = below(random, 4) != 0;
    p->span_a = spans[below(random, 4)];
    p->span_b = spans[below(random, 4)];
    for (unsigned side = 0; side < 2; side++) {
        p->start[side] = 0x400 + 16 * below(random, 200);
        p->leading[side] = 16 * below(random, 40);
        p->stride[side] = 16 * below(random, 90);
    }
}

static uint64_t descriptor(const struct product *p, unsigned side)
{
    const unsigned span = side ? p->span_b : p->span_a;
    const uint64_t mode = span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;

    return p->start[side] >> 4 | (uint64_t)p->leading[side] << 12 |
           (uint64_t)p->stride[side] << 28 | mode << 62;
}

/* Address of byte b (0 .. 31 along K) of row r of an operand. */
static uint32_t operand_byte(const struct product *p, unsigned side, unsigned r, unsigned b)
{
    const unsigned span = side ? p->span_b : p->span_a;
    const uint32_t start = p->start[side], lbo = p->leading[side], sbo = p->stride[side];
    uint32_t at;

    if (!(side ? p->trans_b : p->trans_a)) {
        if (!span)
            return start + b / 16 * lbo + r / 8 * sbo + r % 8 * 16 + b % 16;
        at = start + r / 8 * sbo + r % 8 * span + b;
    } else {
        const unsigned k = b / 2;

        if (!span)
            return start + k / 8 * lbo + r / 8 * sbo + k % 8 * 16 + r % 8 * 2 + b % 2;
        at = start + r / (span / 2) * lbo + k / 8 * sbo + k % 8 * span + r % (span / 2) * 2 + b % 2;
    }
    return at ^ (at >> 7 & (span / 16 - 1)) << 4;
}

static char *program(const struct product *p)
{
    const unsigned regs = p->fd == TENSOR_TO_F16 ? p->n / 4 : p->n / 2;
    char *const text = malloc(65536), *at = text;
    char *const end = text + 65536;

    assert_non_null(text);
#define SAY(...) (at += snprintf(at, (size_t)(end - at), __VA_ARGS__))
    SAY(HEAD ".extern .shared .align 1024 .b8 sm[];\n"
        ".visible .entry k(.param .u64 image, .param .u64 a, .param .u64 c, .param .u64 out, "
        ".param .u64 pda, .param .u64 pdb, .param .u32 keep)\n{\n"
        ".reg .b32 tid, n, v, base, a<4>, d<128>; .reg .b64 p, off, da, db; .reg .pred ok;\n"
        "mov.u32 tid, %%tid.x; mov.u32 base, sm; shl.b32 n, tid, 2; ld.param.u64 p, [image];\n"
        "FILL: cvt.u64.u32 off, n; add.u64 off, off, p; ld.global.u32 v, [off]; "
        "{ .reg .b32 to_; add.u32 to_, base, n; st.shared.u32 [to_], v; }\n"
        "add.u32 n, n, 512; setp.lt.u32 ok, n, %u; @ok bra FILL;\n"
        "fence.proxy.async.shared::cta; bar.sync 0;\n"
        "ld.param.u64 p, [a]; mul.wide.u32 off, tid, 16; add.u64 p, p, off;\n"
        "ld.global.v4.u32 {a0, a1, a2, a3}, [p];\n"
        "ld.param.u64 p, [c]; mul.wide.u32 off, tid, %u; add.u64 p, p, off;\n", IMAGE, 4 * regs);
    for (unsigned i = 0; i < regs; i++)
        SAY("ld.global.b32 d%u, [p+%u];\n", i, 4 * i);
    SAY("ld.param.u64 da, [pda]; ld.param.u64 db, [pdb]; ld.param.u32 v, [keep]; "
        "setp.ne.u32 ok, v, 0;\nwgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n%uk%u.%s.%s.%s%s%s {", p->n, p->k, p->d, p->a, p->b,
        p->fa == TENSOR_B1 ? ".and.popc" : "", p->saturate ? ".satfinite" : "");
    for (unsigned i = 0; i < regs; i++)
        SAY("%sd%u", i ? ", " : "", i);
    SAY("}, %s, db, ok", p->registers ? "{a0, a1, a2, a3}" : "da");
    if (p->fd != TENSOR_TO_S32)
        SAY(", %d, %d", p->neg_a ? -1 : 1, p->neg_b ? -1 : 1);
    if (p->fa <= TENSOR_F16 && !p->registers)
        SAY(", %d", p->trans_a);
    if (p->fa <= TENSOR_F16)
        SAY(", %d", p->trans_b);
    SAY(";\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"
        "ld.param.u64 p, [out]; add.u64 p, p, off;\n");
    SAY("mul.wide.u32 off, tid, %u; ld.param.u64 p, [out]; add.u64 p, p, off;\n", 4 * regs);
    for (unsigned i = 0; i < regs; i++)
        SAY("st.global.b32 [p+%u], d%u;\n", 4 * i, i);
    SAY("ret; }\n");
#undef SAY
    return text;
}

static uint8_t image[IMAGE];
static uint32_t fragment[128][4], c[128 * 128];

/* Encodings that are mostly ordinary numbers, sometimes anything. */
static void fill(const struct product *p, uint64_t *random)
{
    const bool wild = below(random, 4) == 0;

    for (unsigned i = 0; i < IMAGE; i++)
        image[i] = (uint8_t)emu_random(random);
    for (unsigned i = 0; i < 128 * 4; i++)
        fragment[i / 4][i % 4] = (uint32_t)emu_random(random);
    if (p->fd != TENSOR_TO_S32 && !wild) {
        const uint32_t keep = p->fa == TENSOR_TF32 ? 0x81ffffff : p->fa == TENSOR_BF16 ? 0x81ff81ff
            : p->fa == TENSOR_F16 ? 0x8bff8bff : 0x9f9f9f9f;
        const uint32_t set = p->fa == TENSOR_TF32 ? 0x3e000000 : p->fa == TENSOR_BF16 ? 0x3e003e00
            : p->fa == TENSOR_F16 ? 0x34003400 : 0x20202020;

        for (unsigned i = 0; i < IMAGE; i += 4) {
            uint32_t v;

            memcpy(&v, image + i, 4);
            v = (v & keep) | set;
            memcpy(image + i, &v, 4);
        }
        for (unsigned i = 0; i < 128 * 4; i++)
            fragment[i / 4][i % 4] = (fragment[i / 4][i % 4] & keep) | set;
    }
    for (unsigned i = 0; i < 128 * 128; i++) {
        c[i] = (uint32_t)emu_random(random);
        if (!wild && p->fd == TENSOR_TO_F32)
            c[i] = (c[i] & 0x83ffffff) | 0x3c000000;
        if (!wild && p->fd == TENSOR_TO_F16)
            c[i] = (c[i] & 0x8fff8fff) | 0x30003000;
    }
}

static void codes(const struct product *p, unsigned side, unsigned row, uint32_t *out)
{
    const bool negate = side ? p->neg_b : p->neg_a;
    const unsigned bytes = 32 / (p->k > 32 ? 32 : p->k);
    uint8_t raw[32];

    for (unsigned b = 0; b < 32; b++)
        raw[b] = image[operand_byte(p, side, row, b) - 0x400];
    if (side == 0 && p->registers)
        for (unsigned b = 0; b < 32; b++) {
            const unsigned lane = 4 * (row % 8) + b % 16 / 4, reg = row / 8 % 2 + 2 * (b / 16);

            raw[b] = (uint8_t)(fragment[32 * (row / 16) + lane][reg] >> 8 * (b % 4));
        }
    for (unsigned i = 0; i < p->k; i++) {
        if (p->k == 256) {
            out[i] = raw[i / 8] >> i % 8 & 1;
            continue;
        }
        out[i] = 0;
        memcpy(&out[i], raw + i * bytes, bytes);
        if (negate)
            out[i] ^= 1u << (8 * bytes - 1);
    }
}

static void random_products(void **state)
{
    uint64_t random = 8;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const enum machine_policy policy = round % 3;
        struct tensor_kind kind;
        struct product p;
        struct emu e;

        draw(&p, &random);
        fill(&p, &random);
        assert_true(tensor_kind_wgmma(&kind, p.fa, p.fb, p.fd, p.saturate));
        emu_open(&e, policy, round);
        char *const text = program(&p);
        emu_load(&e, text);
        free(text);
        const unsigned regs = p.fd == TENSOR_TO_F16 ? p.n / 4 : p.n / 2;
        const uint64_t out = emu_alloc(&e, 128 * regs * 4);
        const uint64_t values[] = {
            emu_put(&e, image, IMAGE), emu_put(&e, fragment, sizeof fragment),
            emu_put(&e, c, 128 * regs * 4), out, descriptor(&p, 0), descriptor(&p, 1), p.keep,
        };
        emu_must(&e, "k", &(struct emu_launch){ .grid = { 1 }, .block = { 128 }, .smem = IMAGE }, 7,
                 values);
        const uint32_t *got = emu_bytes(&e, out);
        for (unsigned m = 0; m < 64; m++)
            for (unsigned n = 0; n < p.n; n += 1 + (round % 2) * 2) {
                const unsigned t = 32 * (m / 16) + 4 * (m % 8) + n % 8 / 2;
                const unsigned i = p.fd == TENSOR_TO_F16 ? 2 * (n / 8) + m / 8 % 2
                                                         : 4 * (n / 8) + 2 * (m / 8 % 2) + n % 2;
                uint32_t x[256], y[256], old = c[t * regs + i], is = got[t * regs + i], want;

                if (p.fd == TENSOR_TO_F16) {
                    old = old >> 16 * (n % 2) & 0xffff;
                    is = is >> 16 * (n % 2) & 0xffff;
                }
                codes(&p, 0, m, x);
                codes(&p, 1, n, y);
                want = tensor_dot(&kind, x, y, p.keep ? old : 0, NULL, NULL);
                if (is != want)
                    fail_msg("round %u m64n%u %s.%s.%s registers %d trans %d %d neg %d %d keep %d "
                             "span %u %u: (%u,%u) is %08x, want %08x", round, p.n, p.d, p.a, p.b,
                             p.registers, p.trans_a, p.trans_b, p.neg_a, p.neg_b, p.keep, p.span_a,
                             p.span_b, m, n, is, want);
            }
        emu_close(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_products),
    };

    return cmocka_run_group_tests_name("emu/product", tests, NULL, NULL);
}
