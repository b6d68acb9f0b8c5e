/*
 * Conversions to and from narrow floats, all inputs that differ: every f16 and bf16, and every f32
 * with the low halves that decide a rounding, against a search through the values of all codes.
 */
#include "emu_run.h"

#include <math.h>

/* ---- values, plainly ------------------------------------------------------------------------- */

enum format { E2M1, E2M3, E3M2, E4M3, E5M2 };

static const struct { unsigned exponent, mantissa, bias, most, nan; } formats[] = {
    [E2M1] = { 2, 1, 1, 0x7, 0x7 }, [E2M3] = { 2, 3, 1, 0x1f, 0x1f },
    [E3M2] = { 3, 2, 3, 0x1f, 0x1f }, [E4M3] = { 4, 3, 7, 0x7e, 0x7f },
    [E5M2] = { 5, 2, 15, 0x7b, 0x7f },
};

static unsigned sign_of(enum format f)
{
    return 1u << (formats[f].exponent + formats[f].mantissa);
}

/* Of a code without sign that is no NaN and no infinity. */
static double magnitude_of(enum format f, unsigned code)
{
    const unsigned field = code >> formats[f].mantissa;
    const unsigned low = code & ((1u << formats[f].mantissa) - 1);
    const int least = 1 - (int)formats[f].bias - (int)formats[f].mantissa;

    return field == 0 ? ldexp(low, least)
                      : ldexp(low + (1u << formats[f].mantissa), least + (int)field - 1);
}

static double from_f16(unsigned bits)
{
    const unsigned field = bits >> 10 & 31, low = bits & 0x3ff;
    const double v = field == 31 ? (low ? NAN : HUGE_VAL)
                   : field == 0 ? ldexp(low, -24) : ldexp(low + 1024, (int)field - 25);

    return bits & 0x8000 ? -v : v;
}

static double from_f32(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, 4);
    return (double)f;
}

/* The same, computed once; and each as f16; the powers of two. */
static double values[5][128], powers[256];
static uint16_t halves[5][128];

/* The nearest code, of two the even one; beyond the largest the largest. */
static unsigned nearest(enum format f, double x, bool relu)
{
    const double size = fabs(x);
    unsigned best = 0;

    if (x != x)
        return formats[f].nan;
    if (relu && signbit(x))
        return 0;
    for (unsigned code = 1; code <= formats[f].most; code++) {
        const double d = fabs(values[f][code] - size), e = fabs(values[f][best] - size);

        if (d < e || (d <= e && code % 2 == 0))
            best = code;
    }
    if (size > values[f][formats[f].most])
        best = formats[f].most;
    return best | (signbit(x) ? sign_of(f) : 0);
}

/* ue8m0: the largest power not above |x|, or (up) the least not below. */
static unsigned power(double x, bool up, bool satfinite)
{
    const double size = fabs(x);
    unsigned code = 0;

    if (x != x)
        return 0xff;
    if (up)
        while (code < 255 && powers[code] < size)
            code++;
    else
        while (code < 255 && powers[code + 1] <= size)
            code++;
    return code == 255 && satfinite ? 254 : code;
}

static uint16_t to_f16(double v)
{
    for (uint16_t bits = 0; bits < 0x7c00; bits++)
        if (from_f16(bits) == v)
            return bits;
    fail_msg("%g is no f16", v);
    return 0;
}

static void tables(void)
{
    for (unsigned f = E2M1; f <= E5M2; f++)
        for (unsigned code = 0; code <= formats[f].most; code++) {
            values[f][code] = magnitude_of((enum format)f, code);
            halves[f][code] = to_f16(values[f][code]);
        }
    for (int i = 0; i < 256; i++)
        powers[i] = ldexp(1, i - 127);
}

/* ---- the machine ----------------------------------------------------------------------------- */

struct form {
    const char *instruction;    /* d from x and y */
    enum { FROM_F32, FROM_F16, TO_F16, POWERS_OF_F32, POWERS_OF_BF16, POWERS_TO_BF16 } what;
    enum format format;
    bool relu, up, satfinite;
};

static const struct form forms[] = {
#define NARROW(NAME, name, type) \
    { "cvt.rn.satfinite." #name "x2.f32 " type ", f, g;", FROM_F32, NAME, false, false, true }, \
    { "cvt.rn.satfinite.relu." #name "x2.f32 " type ", f, g;", FROM_F32, NAME, true, false, true }, \
    { "cvt.rn.f16x2." #name "x2 d, " type ";", TO_F16, NAME, false, false, false }, \
    { "cvt.rn.relu.f16x2." #name "x2 d, " type ";", TO_F16, NAME, true, false, false }
    NARROW(E2M1, e2m1, "b"), NARROW(E2M3, e2m3, "h"), NARROW(E3M2, e3m2, "h"),
    NARROW(E4M3, e4m3, "h"), NARROW(E5M2, e5m2, "h"),
    { "cvt.rn.satfinite.e4m3x2.f16x2 h, x;", FROM_F16, E4M3, false, false, true },
    { "cvt.rn.satfinite.relu.e4m3x2.f16x2 h, x;", FROM_F16, E4M3, true, false, true },
    { "cvt.rn.satfinite.e5m2x2.f16x2 h, x;", FROM_F16, E5M2, false, false, true },
    { "cvt.rz.ue8m0x2.f32 h, f, g;", POWERS_OF_F32, 0, false, false, false },
    { "cvt.rp.ue8m0x2.f32 h, f, g;", POWERS_OF_F32, 0, false, true, false },
    { "cvt.rz.satfinite.ue8m0x2.f32 h, f, g;", POWERS_OF_F32, 0, false, false, true },
    { "cvt.rp.satfinite.ue8m0x2.f32 h, f, g;", POWERS_OF_F32, 0, false, true, true },
    { "cvt.rz.ue8m0x2.bf16x2 h, x;", POWERS_OF_BF16, 0, false, false, false },
    { "cvt.rp.ue8m0x2.bf16x2 h, x;", POWERS_OF_BF16, 0, false, true, false },
    { "cvt.rp.satfinite.ue8m0x2.bf16x2 h, x;", POWERS_OF_BF16, 0, false, true, true },
    { "cvt.rn.bf16x2.ue8m0x2 d, h;", POWERS_TO_BF16, 0, false, false, false },
};

/* d = what the instruction makes of words x and y; narrow results come zero-extended. */
static void program(char *text, size_t room, const struct form *form)
{
    const bool byte = strstr(form->instruction, "e2m1") != NULL;
    const bool widens = form->what == TO_F16 || form->what == POWERS_TO_BF16;
    const char *from = byte ? "cvt.u16.u32 h, x;\ncvt.u8.u16 b, h;\n" : "cvt.u16.u32 h, x;\n";
    const char *back = byte ? "cvt.u16.u8 h, b;\ncvt.u32.u16 d, h;\n" : "cvt.u32.u16 d, h;\n";
    const int n = snprintf(text, room,
        ".version 8.6\n.target sm_100a\n.address_size 64\n"
        ".visible .entry k(.param .u64 px, .param .u64 py, .param .u64 pd)\n{\n"
        ".reg .b32 i, x, y, d, t;\n.reg .b16 h;\n.reg .b8 b;\n.reg .f32 f, g;\n.reg .b64 p;\n"
        "mov.u32 i, %%ctaid.x;\nmov.u32 t, %%tid.x;\nmad.lo.u32 i, i, 1024, t;\n"
        "ld.param.u64 p, [px];\nmad.wide.u32 p, i, 4, p;\nld.global.b32 x, [p];\n"
        "ld.param.u64 p, [py];\nmad.wide.u32 p, i, 4, p;\nld.global.b32 y, [p];\n"
        "mov.b32 f, x;\nmov.b32 g, y;\n%s%s\n%s"
        "ld.param.u64 p, [pd];\nmad.wide.u32 p, i, 4, p;\nst.global.b32 [p], d;\nret;\n}\n",
        widens ? from : "", form->instruction, widens ? "" : back);

    assert_true(n > 0 && (size_t)n < room);
}

/* Two 16-bit halves, or two narrow codes, of which x becomes the upper. */
static uint32_t expected(const struct form *form, uint32_t x, uint32_t y)
{
    const enum format f = form->format;
    const unsigned apart = f == E2M1 ? 4 : 8;
    uint32_t d = 0;

    switch (form->what) {
    case FROM_F32:
        return nearest(f, from_f32(x), form->relu) << apart |
               nearest(f, from_f32(y), form->relu);
    case FROM_F16:
        return nearest(f, from_f16(x >> 16), form->relu) << apart |
               nearest(f, from_f16(x & 0xffff), form->relu);
    case POWERS_OF_F32:
        return power(from_f32(x), form->up, form->satfinite) << 8 |
               power(from_f32(y), form->up, form->satfinite);
    case POWERS_OF_BF16:
        return power(from_f32(x & 0xffff0000), form->up, form->satfinite) << 8 |
               power(from_f32(x << 16), form->up, form->satfinite);
    case POWERS_TO_BF16:
        for (unsigned i = 0; i < 2; i++) {
            const unsigned code = x >> 8 * i & 0xff;
            const float v = (float)ldexp(1, (int)code - 127);
            uint32_t bits;

            memcpy(&bits, &v, 4);
            d |= (code == 0xff ? 0x7fff : bits >> 16) << 16 * i;
        }
        return d;
    case TO_F16:
        break;
    }
    for (unsigned i = 0; i < 2; i++) {
        const unsigned all = 2 * sign_of(f) - 1, code = x >> i * apart & all;
        const unsigned size = code & (sign_of(f) - 1);
        const bool negative = code & sign_of(f), fp8 = f >= E4M3;
        const bool infinite = f == E5M2 && size == 0x7c;
        unsigned h;

        if (fp8 && size > formats[f].most && !infinite)
            h = 0x7fff;
        else if (infinite)
            h = form->relu && negative ? 0 : 0x7c00 | (negative ? 0x8000 : 0);
        else
            h = form->relu && negative ? 0 : halves[f][size] | (negative ? 0x8000u : 0);
        d |= h << 16 * i;
    }
    return d;
}

enum { MOST = 6 << 16 };

static uint32_t xs[MOST], ys[MOST];

/* What can make a difference: all 16-bit halves, all pairs of narrow codes, all upper halves of an
 * f32 with the low ones around a half. */
static unsigned inputs(const struct form *form)
{
    static const uint16_t lows[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };
    const bool singles = form->what == FROM_F32 || form->what == POWERS_OF_F32;

    for (uint32_t i = 0; i < 1 << 16; i++) {
        if (!singles) {
            xs[i] = form->what == TO_F16 || form->what == POWERS_TO_BF16 ? i : i << 16 | (i * 77 & 0xffff);
            ys[i] = 0;
        }
        for (unsigned l = 0; singles && l < 6; l++)
            xs[l << 16 | i] = i << 16 | lows[l];
    }
    for (uint32_t i = 0; singles && i < MOST; i++)
        ys[i] = xs[(i * 5 + 12345) % MOST];
    return singles ? MOST : 1 << 16;
}

static void every(void **state)
{
    (void)state;
    tables();
    for (unsigned n = 0; n < sizeof forms / sizeof forms[0]; n++) {
        const struct form *form = &forms[n];
        const unsigned count = inputs(form);
        const uint32_t mask = form->what == TO_F16 && form->format == E2M1 ? 0xff
                            : form->what == TO_F16 && form->format < E4M3 ? 0x3f3f : UINT32_MAX;
        const uint32_t *out;
        char text[2048];
        uint64_t arguments[3];
        struct emu e;

        emu_open_b200(&e, POLICY_EARLY, 1);
        program(text, sizeof text, form);
        emu_load(&e, text);
        arguments[0] = emu_put(&e, xs, count * sizeof xs[0]);
        arguments[1] = emu_put(&e, ys, count * sizeof ys[0]);
        arguments[2] = emu_alloc(&e, count * sizeof xs[0]);
        emu_must(&e, "k", &(struct emu_launch){ .grid = { count / 1024 }, .block = { 1024 } }, 3,
                 arguments);
        out = emu_bytes(&e, arguments[2]);
        for (unsigned i = 0; i < count; i++) {
            const uint32_t want = expected(form, xs[i] & mask, ys[i]);

            if (out[i] != want)
                fail_msg("%s of %08x and %08x is %08x, want %08x", form->instruction, xs[i], ys[i],
                         out[i], want);
        }
        emu_close(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every),
    };

    return cmocka_run_group_tests_name("narrow", tests, NULL, NULL);
}
