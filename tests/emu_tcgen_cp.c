/* tcgen05.cp of every shape against its table, through descriptors of every layout; the formats that
 * are unpacked on the way; tcgen05.shift. */
#include "emu_tcgen.h"

struct shape {
    const char *name;
    unsigned rows, chunks;      /* 16-byte chunks of a row */
};

static const struct shape shapes[] = {
    { "128x256b", 128, 2 }, { "128x128b", 128, 1 }, { "4x256b", 4, 2 },
    { "64x128b.warpx2::02_13", 64, 1 }, { "64x128b.warpx2::01_23", 64, 1 },
    { "32x128b.warpx4", 32, 1 },
};

/* Whether row i arrives in a lane. */
static bool arrives(unsigned shape, unsigned i, unsigned lane, unsigned base)
{
    switch (shape) {
    case 0: case 1: return lane == i;
    case 2: return lane == 32 * i + base;
    case 3: return lane % 64 == i;
    case 4: return lane / 64 == i / 32 && lane % 32 == i % 32;
    default: return lane % 32 == i;
    }
}

/* Layouts 0 none, 2 128 bytes, 4 64, 6 32: where chunk c of row r lies for a packed tile. */
static uint32_t chunk_at(unsigned layout, uint32_t start, unsigned rows, unsigned r, unsigned c)
{
    const unsigned span = layout == 2 ? 128 : layout == 4 ? 64 : 32;
    const uint32_t at = start + r * span + 16 * c;

    if (layout == 0)
        return start + c * rows * 16 + r * 16;
    return at - at % span + (at % span / 16 ^ at / 128 % (span / 16)) * 16;
}

static uint64_t descriptor(unsigned layout, uint32_t start, unsigned rows)
{
    const unsigned span = layout == 2 ? 128 : layout == 4 ? 64 : 32;
    const uint32_t lbo = layout ? 0 : rows * 16, sbo = layout ? 8 * span : 128;

    return start >> 4 | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 |
           UINT64_C(1) << 46 | (uint64_t)layout << 61;
}

static void unpack(unsigned width, const uint8_t from[16], uint8_t to[16])
{
    for (unsigned i = 0; i < 16; i++) {
        unsigned code = 0;

        for (unsigned b = 0; b < width; b++)
            code |= (unsigned)(from[(i * width + b) / 8] >> (i * width + b) % 8 & 1) << b;
        to[i] = (uint8_t)(width == 4 ? code << 2 : code);
    }
}

/* format: 0 as it is, 4 or 6 bits */
static void one(unsigned s, unsigned layout, unsigned ctas, unsigned format, uint64_t seed)
{
    static const char *const formats[] = { [0] = "", [4] = ".b8x16.b4x16_p64",
                                           [6] = ".b8x16.b6x16_p32" };
    const struct shape *shape = &shapes[s];
    const unsigned base = s == 2 ? (unsigned)seed % 32 : 0, column = 4 * (unsigned)(seed % 100);
    const uint32_t start = SMEM_AT + 0x1000;
    struct tcgen_bench b;
    char text[160];

    bench_open(&b, ctas, (enum machine_policy)(seed % 3), seed, format ? RULE_ASSUME : 0);
    bench_fill(&b, seed);
    b.steps[0] = (struct tcgen_step){ .a = descriptor(layout, start, shape->rows),
                                      .d = base << 16 | column };
    b.count = 1;
    snprintf(text, sizeof text, "tcgen05.cp.cta_group::%u.%s%s [dt], ad;", ctas, shape->name,
             formats[format]);
    bench_must(&b, text);
    for (unsigned cta = 0; cta < ctas; cta++)
        for (unsigned lane = 0; lane < LANES_ALL; lane++)
            for (unsigned c = 0; c < COLUMNS_ALL; c++) {
                const unsigned from = c - column;
                uint32_t want = b.in[cta][lane][c];

                for (unsigned i = 0; from < 4 * shape->chunks && i < shape->rows; i++) {
                    uint8_t bytes[16];
                    const uint8_t *chunk = b.smem[cta] - SMEM_AT +
                                           chunk_at(layout, start, shape->rows, i, from / 4);

                    if (!arrives(s, i, lane, base))
                        continue;
                    if (format)
                        unpack(format, chunk, bytes);
                    else
                        memcpy(bytes, chunk, 16);
                    memcpy(&want, bytes + from % 4 * 4, 4);
                }
                if (b.out[cta][lane][c] != want)
                    fail_msg("%s layout %u: CTA %u lane %u column %u is %08x, want %08x", text,
                             layout, cta, lane, c, b.out[cta][lane][c], want);
            }
    bench_close(&b);
}

static void shapes_and_layouts(void **state)
{
    (void)state;
    for (unsigned s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (unsigned layout = 0; layout <= 6; layout += 2)
            for (unsigned ctas = 1; ctas <= 2; ctas++)
                one(s, layout, ctas, 0, 7 * s + 3 * layout + ctas);
}

static void formats(void **state)
{
    (void)state;
    for (unsigned s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (unsigned format = 4; format <= 6; format += 2)
            one(s, 0, 1, format, 11 * s + format);
}

static void shift(void **state)
{
    struct tcgen_bench b;

    (void)state;
    bench_open(&b, 1, POLICY_LATE, 1, RULE_ASSUME);
    bench_fill(&b, 5);
    b.steps[0] = (struct tcgen_step){ .d = 64 << 16 | 40 };
    b.count = 1;
    bench_must(&b, "tcgen05.shift.cta_group::1.down [dt];");
    for (unsigned lane = 0; lane < LANES_ALL; lane++)
        for (unsigned c = 0; c < COLUMNS_ALL; c++) {
            const bool moved = lane >= 64 && lane < 95 && c >= 40 && c < 48;

            assert_int_equal(b.out[0][lane][c], b.in[0][lane + moved][c]);
        }
    bench_close(&b);
}

/* What no source confirms is a trap unless it is asked for. */
static void unverified(void **state)
{
    static const char *const instructions[] = {
        "tcgen05.shift.cta_group::1.down [dt];",
        "tcgen05.cp.cta_group::1.128x128b.b8x16.b4x16_p64 [dt], ad;",
        "tcgen05.cp.cta_group::1.128x128b [dt], bd;",           /* a base offset */
    };

    (void)state;
    for (unsigned i = 0; i < sizeof instructions / sizeof instructions[0]; i++) {
        struct tcgen_bench b;

        bench_open(&b, 1, POLICY_EARLY, 1, 0);
        bench_fill(&b, 5);
        b.steps[0] = (struct tcgen_step){
            .a = descriptor(0, SMEM_AT, 128),
            .b = descriptor(0, SMEM_AT, 128) | UINT64_C(1) << 49,
        };
        b.count = 1;
        assert_false(bench_run(&b, instructions[i]));
        assert_string_equal(trap_name(b.emu.trap.kind), "UNVERIFIED");
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_and_layouts),
        cmocka_unit_test(formats),
        cmocka_unit_test(shift),
        cmocka_unit_test(unverified),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
