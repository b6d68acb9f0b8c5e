/* The plain replay of replay.h against published and worked rows, Hopper's and Blackwell's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "replay.h"

#define DATA "tests/data/"

static const char *const names[] = {
    [REPLAY_BF16] = "bf16", [REPLAY_F16] = "f16", [REPLAY_TF32] = "tf32", [REPLAY_F32] = "f32",
    [REPLAY_E4M3] = "e4m3", [REPLAY_E5M2] = "e5m2", [REPLAY_E3M2] = "e3m2", [REPLAY_E2M3] = "e2m3",
    [REPLAY_E2M1] = "e2m1", [REPLAY_UE8M0] = "ue8m0", [REPLAY_UE4M3] = "ue4m3",
};

static enum replay_format format_of(const char *name)
{
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return (enum replay_format)i;
    fail_msg("no format %s", name);
    return REPLAY_F32;
}

static struct replay_step step_of(bool wgmma, const char *a, const char *b, const char *d,
                                  unsigned block, const char *scale)
{
    struct replay_step step = replay_step_of(format_of(a), format_of(b), !strcmp(d, "f16"), wgmma);

    step.block = block;
    if (block)
        step.scale = format_of(scale);
    if (block && step.a == REPLAY_E2M1) {
        step.packed = true;
        step.k = 64;
        step.fraction = 35;
    }
    return step;
}

static unsigned numbers(char *text, uint32_t *out, unsigned room)
{
    unsigned n = 0;

    for (char *t = strtok(text, " \n"); t; t = strtok(NULL, " \n")) {
        assert_true(n < room);
        out[n++] = (uint32_t)strtoul(t, NULL, 16);
    }
    return n;
}

static void check(const struct replay_step *step, const uint32_t *a, const uint32_t *b, uint32_t c,
                  const uint32_t *sa, const uint32_t *sb, uint32_t want, const char *what)
{
    const uint32_t got = replay_instruction(step, a, b, c, sa, sb);

    if (got != want)
        fail_msg("%s: got %08x, want %08x", what, got, want);
}

/* arch shape.[block.]d.a.b[.scale] K nscales a.. b.. c scaleA.. scaleB.. d */
static void vectors(void **state)
{
    FILE *f = fopen(DATA "numerics_vectors.txt", "r");
    char line[4096];
    unsigned rows = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char arch[16], qualifier[64], what[128], *part[8];
        uint32_t v[256];
        unsigned k, scales, parts = 0, block = 0, at = 1, n;
        int used;

        assert_int_equal(sscanf(line, "%15s %63s %u %u %n", arch, qualifier, &k, &scales, &used),
                         4);
        snprintf(what, sizeof what, "row %u, %s %s", rows + 1, arch, qualifier);
        for (char *t = strtok(qualifier, "."); t; t = strtok(NULL, "."))
            part[parts++] = t;
        if (!strncmp(part[1], "block", 5))
            block = (unsigned)atoi(part[at++] + 5);

        const struct replay_step step = step_of(arch[0] == 'H', part[at + 1], part[at + 2],
                                                part[at], block, block ? part[at + 3] : NULL);

        assert_int_equal(step.k, k);
        n = numbers(line + used, v, 256);
        assert_int_equal(n, 2 * k + 2 * scales + 2);
        check(&step, v, v + k, v[2 * k], v + 2 * k + 1, v + 2 * k + 1 + scales, v[n - 1], what);
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, 744);
}

static char *field(char **rest)
{
    char *start = *rest, *bar = strchr(start, '|');

    if (bar) {
        *bar = 0;
        *rest = bar + 1;
    }
    return start;
}

/* unit types | a | b | c | scales of A | scales of B | d | what */
static void worked_rows(void **state)
{
    FILE *f = fopen(DATA "numerics_rows.txt", "r");
    char line[4096];
    unsigned rows = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char unit[16], a[8], b[8], d[8], what[160], scale[8] = "", *rest = line, *types;
        uint32_t x[64] = {0}, y[64] = {0}, c[1], sa[4], sb[4], want[1];
        unsigned block = 0;

        if (line[0] == '#')
            continue;
        types = field(&rest);
        assert_true(sscanf(types, "%15s %7[a-z0-9]*%7[a-z0-9]->%7[a-z0-9].block%u.%7[a-z0-9]", unit,
                           a, b, d, &block, scale) >= 4);
        numbers(field(&rest), x, 64);
        numbers(field(&rest), y, 64);
        numbers(field(&rest), c, 1);
        numbers(field(&rest), sa, 4);
        numbers(field(&rest), sb, 4);
        numbers(field(&rest), want, 1);
        snprintf(what, sizeof what, "%s %s %.100s", unit, a, rest);
        for (unsigned wgmma = 0; wgmma < 2; wgmma++) {
            const char *const other = wgmma ? "tcgen05" : "wgmma";
            const char *const gpu = wgmma ? "B200" : "H200";

            if (!strcmp(unit, other) || !strcmp(unit, gpu))
                continue;

            const struct replay_step step = step_of(wgmma, a, b, d, block, scale);

            check(&step, x, y, c[0], sa, sb, want[0], what);
        }
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, 110);
}

/* Every code of a narrow format times one is its value: each format's table against ldexp's. */
static void values(void **state)
{
    static const struct { enum replay_format format; unsigned codes; float most; } all[] = {
        { REPLAY_E4M3, 256, 448 }, { REPLAY_E5M2, 256, 57344 }, { REPLAY_E3M2, 64, 28 },
        { REPLAY_E2M3, 64, 7.5f }, { REPLAY_E2M1, 16, 6 },
    };
    static const float e2m1[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };

    (void)state;
    for (unsigned f = 0; f < sizeof all / sizeof all[0]; f++) {
        const struct replay_step step = replay_step_of(all[f].format, REPLAY_E4M3, false, false);
        float most = 0, before = -1;

        for (uint32_t code = 0; code < all[f].codes / 2; code++) {
            uint32_t a[32] = { code }, b[32] = { 0x38 }, minus[32] = { code | all[f].codes / 2 };
            const uint32_t bits = replay_instruction(&step, a, b, 0, NULL, NULL);
            const uint32_t negative = replay_instruction(&step, minus, b, 0, NULL, NULL);
            float value;

            memcpy(&value, &bits, 4);
            if (value != value || value > 1e6f)
                continue;
            assert_true(value > before);        /* codes ascend */
            assert_true(negative == (value > 0 ? bits | UINT32_C(1) << 31 : 0));
            assert_true(all[f].format != REPLAY_E2M1 || value == e2m1[code]);
            most = before = value;
        }
        assert_true(most == all[f].most);
    }
}

/* Integers wrap, or stop once at the exact sum. */
static void integers(void **state)
{
    uint32_t a[32], b[32];

    (void)state;
    for (unsigned i = 0; i < 32; i++) {
        a[i] = 0x80;
        b[i] = 0xff;
    }
    assert_int_equal(replay_integers(REPLAY_S8, REPLAY_S8, 32, false, a, b, 5), 4101);
    assert_int_equal(replay_integers(REPLAY_U8, REPLAY_U8, 32, false, a, b, 5), 1044485);
    assert_int_equal(replay_integers(REPLAY_S8, REPLAY_U8, 32, true, a, b, 0x80000000u),
                     0x80000000u);
    assert_int_equal(replay_integers(REPLAY_S8, REPLAY_S8, 32, true, a, b, 0x7fffffff), 0x7fffffff);
    assert_int_equal(replay_integers(REPLAY_S8, REPLAY_S8, 32, false, a, b, 0x7fffffff),
                     0x80000fffu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(worked_rows),
        cmocka_unit_test(values),
        cmocka_unit_test(integers),
    };

    return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
