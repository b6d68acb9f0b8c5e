/* The plain replay of replay.h against published and worked rows, Hopper's and Blackwell's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "numerics_rows.h"
#include "replay.h"

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

static void check(const struct numerics_row *row)
{
    const struct replay_step step = step_of(row->wgmma, row->a_type, row->b_type, row->d_type,
                                            row->block, row->scale_type);
    const uint32_t got = replay_instruction(&step, row->a, row->b, row->c, row->sa, row->sb);

    if (row->k)
        assert_int_equal(step.k, row->k);
    if (got != row->d)
        fail_msg("%s: got %08x, want %08x", row->what, got, row->d);
}

static void vectors(void **state)
{
    (void)state;
    numerics_vectors(check);
}

static void worked_rows(void **state)
{
    (void)state;
    numerics_worked(check);
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
