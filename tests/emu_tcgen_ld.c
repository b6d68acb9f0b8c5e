/* tcgen05.ld and st of every shape and repetition against the inverse maps: which thread and
 * register hold a cell. */
#include "emu_tcgen.h"

enum { MOST = 128 };

struct shape {
    const char *name;
    unsigned lanes;             /* of the 32 */
    unsigned columns, registers;        /* of one repetition */
    unsigned repetitions;       /* at most */
};

static const struct shape shapes[] = {
    { "32x32b", 32, 1, 1, 128 }, { "16x64b", 16, 2, 1, 128 }, { "16x128b", 16, 4, 2, 64 },
    { "16x256b", 16, 8, 4, 32 }, { "16x32bx2", 16, 1, 1, 128 },
};

/* The thread and register that hold lane l, column c; half: of the two parts of 16x32bx2. */
static void holder(unsigned shape, unsigned l, unsigned c, unsigned half, unsigned *t, unsigned *r)
{
    switch (shape) {
    case 0: *t = l; *r = c; break;
    case 1: *t = 4 * (l % 8) + 2 * (c % 2) + l / 8; *r = c / 2; break;
    case 2: *t = 4 * (l % 8) + c % 4; *r = 2 * (c / 4) + l / 8; break;
    case 3: *t = 4 * (l % 8) + c % 8 / 2; *r = 4 * (c / 8) + 2 * (l / 8) + c % 2; break;
    default: *t = l + 16 * half; *r = c; break;
    }
}

struct text {
    char at[65536];
    size_t used;
};

static void say(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct text *t, const char *format, ...)
{
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf(t->at + t->used, sizeof t->at - t->used, format, list);
    va_end(list);
    assert_true(n >= 0 && (size_t)n < sizeof t->at - t->used);
    t->used += (size_t)n;
}

/* All of Tensor Memory from pin, one ld or st with the registers of pregs, all of it to pout. */
static void program(struct text *t, const char *instruction, bool load, unsigned registers)
{
    t->used = 0;
    say(t, ".version 8.8\n.target sm_100a\n.address_size 64\n.shared .align 8 .b8 sm[16];\n"
        ".visible .entry k(.param .u64 pin, .param .u64 pregs, .param .u64 pout, .param .u32 pa)\n"
        ".reqntid 128\n{\n"
        ".reg .b32 tid, wrp, i, addr, x, v<16>, r<128>;\n.reg .b64 g, h;\n.reg .pred p;\n"
        "mov.u32 tid, %%tid.x;\nshr.u32 wrp, tid, 5;\n"
        "setp.ne.u32 p, wrp, 0;\n@p bra HAVE;\n"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [sm], 512;\n"
        "HAVE: bar.sync 0;\n"
        "ld.param.u64 g, [pin];\nmad.wide.u32 g, tid, 2048, g;\nshl.b32 addr, wrp, 21;\n"
        "mov.u32 i, 0;\n"
        "FILL: ld.global.v4.b32 {v0,v1,v2,v3}, [g];\n"
        "tcgen05.st.sync.aligned.32x32b.x4.b32 [addr], {v0,v1,v2,v3};\n"
        "add.u64 g, g, 16;\nadd.u32 addr, addr, 4;\nadd.u32 i, i, 4;\n"
        "setp.lt.u32 p, i, 512;\n@p bra FILL;\n"
        "tcgen05.wait::st.sync.aligned;\n"
        "ld.param.u64 h, [pregs];\nmad.wide.u32 h, tid, %u, h;\n"
        "ld.param.u32 x, [pa];\nshl.b32 addr, wrp, 21;\nadd.u32 x, x, addr;\n", MOST * 4);
    for (unsigned i = 0; !load && i < registers; i++)
        say(t, "ld.global.b32 r%u, [h+%u];\n", i, 4 * i);
    say(t, "%s\n", instruction);
    if (load)
        say(t, "tcgen05.wait::ld.sync.aligned;\n");
    else
        say(t, "tcgen05.wait::st.sync.aligned;\n");
    for (unsigned i = 0; load && i < registers; i++)
        say(t, "st.global.b32 [h+%u], r%u;\n", 4 * i, i);
    say(t, "ld.param.u64 g, [pout];\nmad.wide.u32 g, tid, 2048, g;\nshl.b32 addr, wrp, 21;\n"
        "mov.u32 i, 0;\n"
        "DUMP: tcgen05.ld.sync.aligned.32x32b.x4.b32 {v0,v1,v2,v3}, [addr];\n"
        "tcgen05.wait::ld.sync.aligned;\n"
        "st.global.v4.b32 [g], {v0,v1,v2,v3};\n"
        "add.u64 g, g, 16;\nadd.u32 addr, addr, 4;\nadd.u32 i, i, 4;\n"
        "setp.lt.u32 p, i, 512;\n@p bra DUMP;\n"
        "bar.sync 0;\n"
        "setp.ne.u32 p, wrp, 0;\n@p bra END;\n"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512;\n"
        "END: ret;\n}\n");
}

static uint32_t image[LANES_ALL][COLUMNS_ALL], out[LANES_ALL][COLUMNS_ALL];
static uint32_t regs[128][MOST], regs_out[128][MOST];

static void run_it(struct emu *e, struct text *t, uint32_t address)
{
    uint64_t values[4];

    emu_load(e, t->at);
    values[0] = emu_put(e, image, sizeof image);
    values[1] = emu_put(e, regs, sizeof regs);
    values[2] = emu_alloc(e, sizeof out);
    values[3] = address;
    emu_must(e, "k", &(struct emu_launch){ .grid = { 1 }, .block = { 128 } }, 4, values);
    memcpy(regs_out, emu_bytes(e, values[1]), sizeof regs_out);
    memcpy(out, emu_bytes(e, values[2]), sizeof out);
    for (unsigned i = 0; i < 3; i++)
        assert_true(mem_free(e->mem, values[i]));
}

static void list(struct text *t, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        say(t, "%s r%u", i ? "," : "", i);
}

static void one(struct emu *e, unsigned s, unsigned repetitions, bool pack, bool load,
                unsigned half_lane, unsigned column, unsigned split)
{
    static struct text text, operands, ins;
    const char *const instruction = ins.at;
    const struct shape *shape = &shapes[s];
    const unsigned registers = shape->registers * repetitions;
    const unsigned wide = shape->columns * repetitions;         /* in registers' units */
    char number[16] = "";

    operands.used = 0;
    list(&operands, registers);
    if (s == 4)
        snprintf(number, sizeof number, ", %u", split);
    ins.used = 0;
    if (load)
        say(&ins, "tcgen05.ld.sync.aligned.%s.x%u%s.b32 {%s}, [x]%s;", shape->name, repetitions,
            pack ? ".pack::16b" : "", operands.at, number);
    else
        say(&ins, "tcgen05.st.sync.aligned.%s.x%u%s.b32 [x]%s, {%s};", shape->name, repetitions,
            pack ? ".unpack::16b" : "", number, operands.at);
    program(&text, instruction, load, registers);
    run_it(e, &text, half_lane * 16 << 16 | column);

    static uint32_t want_regs[128][MOST], want[LANES_ALL][COLUMNS_ALL];
    static bool halves[LANES_ALL][COLUMNS_ALL];

    memcpy(want_regs, regs, sizeof regs);
    memcpy(want, image, sizeof image);
    memset(halves, 0, sizeof halves);
    for (unsigned w = 0; w < 4; w++)
        for (unsigned half = 0; half < (s == 4 ? 2u : 1u); half++)
            for (unsigned l = 0; l < shape->lanes; l++)
                for (unsigned c = 0; c < wide; c++) {
                    const unsigned lane = 32 * w + 16 * half_lane + l;
                    const unsigned at = column + half * split + c * (pack ? 2 : 1);
                    unsigned t, r;

                    holder(s, l, c, half, &t, &r);
                    if (load && pack) {
                        want_regs[32 * w + t][r] = (image[lane][at] & 0xffff) |
                                                   image[lane][at + 1] << 16;
                    } else if (load) {
                        want_regs[32 * w + t][r] = image[lane][at];
                    } else if (pack) {
                        want[lane][at] = regs[32 * w + t][r] & 0xffff;
                        want[lane][at + 1] = regs[32 * w + t][r] >> 16;
                        halves[lane][at] = halves[lane][at + 1] = true;
                    } else {
                        want[lane][at] = regs[32 * w + t][r];
                    }
                }
    if (memcmp(regs_out, want_regs, sizeof regs_out))
        fail_msg("%s: registers", instruction);
    for (unsigned l = 0; l < LANES_ALL; l++)
        for (unsigned c = 0; c < COLUMNS_ALL; c++)
            if ((out[l][c] ^ want[l][c]) & (halves[l][c] ? 0xffffu : UINT32_MAX))
                fail_msg("%s: lane %u column %u is %08x, want %08x", instruction, l, c, out[l][c],
                         want[l][c]);
}

static void all(bool load)
{
    uint64_t state = load;
    struct emu e;

    for (unsigned l = 0; l < LANES_ALL; l++)
        for (unsigned c = 0; c < COLUMNS_ALL; c++)
            image[l][c] = (uint32_t)emu_random(&state);
    for (unsigned t = 0; t < 128; t++)
        for (unsigned r = 0; r < MOST; r++)
            regs[t][r] = (uint32_t)emu_random(&state);
    for (unsigned s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (unsigned x = 1; x <= shapes[s].repetitions; x *= 2)
            for (unsigned pack = 0; pack < 2; pack++) {
                const unsigned wide = shapes[s].columns * x * (pack ? 2 : 1);
                const unsigned split = s == 4 ? wide + (unsigned)emu_random(&state) % 4 : 0;
                const unsigned used = s == 4 && wide + split > COLUMNS_ALL ? 0 : wide + split;
                const unsigned half = s == 0 ? 0 : (unsigned)emu_random(&state) % 2;

                if (s == 4 && !used)
                    continue;
                emu_open_b200(&e, (enum machine_policy)(x % 3), x);
                one(&e, s, x, pack, load, half,
                    (unsigned)emu_random(&state) % (COLUMNS_ALL - used + 1), split);
                emu_close(&e);
            }
}

static void loads(void **state)
{
    (void)state;
    all(true);
}

static void stores(void **state)
{
    (void)state;
    all(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads),
        cmocka_unit_test(stores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
