/* gemm_values.c -- topics about values, and about getting the same bits again. */
#include <stdio.h>
#include <string.h>

#include "gemm_topics.h"

/* ---- values --------------------------------------------------------------------------------------------------- */

void topic_fills(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
    struct tally tally = { 0 };
    for (int fill = 0; fill < FILL_COUNT; fill++) {
        const struct gemm_case c =
            topic_case(kernel, topic_rig.full ? kernel->tile_m + 1 : 33, kernel->tile_n + 9,
                       topic_rig.full ? 5 * kernel->tile_k + 8 : kernel->tile_k + 8, (enum matrix_fill)fill);
        topic_try(&tally, &c);
    }
    topic_finish(&tally);
}

/* All ones: D is K, exactly, for K around every multiple of a slice. */
void topic_counts(void **state)
{
    static const int64_t offsets[] = { -8, -1, 0, 1, 8 }, primes[] = { 3, 61, 331, 1009, 4099 };
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
    const int slices = topic_rig.full ? 2 * (int)kernel->stages + 2 : 2;
    struct tally tally = { 0 };
    for (int slice = 1; slice <= slices; slice++)
        for (size_t i = 0; i < LENGTH(offsets); i++) {
            const struct gemm_case c =
                topic_case(kernel, 9, 9, slice * (int64_t)kernel->tile_k + offsets[i], FILL_ONES);
            if (topic_rig.full || i % 2 == 0) topic_try(&tally, &c);
        }
    for (size_t i = 0; i < (topic_rig.full ? LENGTH(primes) : 3); i++) {
        const struct gemm_case c = topic_case(kernel, kernel->tile_m + 1, 9, primes[i], FILL_ONES);
        topic_try(&tally, &c);
    }
    topic_finish(&tally);
}

/* A row of NaN makes that row NaN and no other; an infinity behaves as IEEE says, also against zero. */
void topic_nan_and_infinity(void **state)
{
    static const enum matrix_fill kinds[] = { FILL_NORMAL, FILL_SMALL_INT, FILL_ZEROS };
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
    const int64_t m = kernel->tile_m + 5, n = topic_rig.full ? kernel->tile_n + 11 : 43, k = kernel->tile_k + 9;
    const int64_t rows[] = { 4, kernel->tile_m + 2 };
    struct tally tally = { 0 };
    for (size_t i = 0; i < LENGTH(kinds); i++)
        for (size_t j = 0; j < LENGTH(rows); j++) {
            struct gemm_case c = topic_case(kernel, m, n, k, kinds[i]);
            if (!topic_rig.full && i != j) continue;
            c.nan_row = rows[j];
            c.inf_at = (rows[j] + 1) * k + kernel->tile_k + 3;
            topic_try(&tally, &c);
        }
    topic_finish(&tally);
}

/* alpha and beta from both places; values that must not be read are NaN. */
void topic_scalars(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
    const struct {
        float alpha, beta;
        bool with_c;
        enum c_content c;
        bool nan_a;
        enum matrix_fill fill;
    } kinds[] = {
        { 2, 0, false, C_NORMAL, false, FILL_SMALL_INT },      { 1, 1, true, C_NORMAL, false, FILL_SMALL_INT },
        { -0.5f, 1.5f, true, C_IS_D, false, FILL_SMALL_INT },  { 0.3f, 0.7f, true, C_NORMAL, false, FILL_NORMAL },
        { 1, 0, true, C_NAN, false, FILL_NORMAL },             { 1, -1, true, C_NAN, false, FILL_NORMAL },
        { 0, 0, false, C_NORMAL, true, FILL_NORMAL },          { 0, 0.5f, true, C_NORMAL, true, FILL_SMALL_INT },
        { 0, 1, true, C_IS_D, true, FILL_NORMAL },             { 0, 0, true, C_NAN, true, FILL_NORMAL },
    };
    const struct {
        int64_t m, n, k;
    } shapes[] = { { 130, 70, kernel->tile_k + 8 }, { kernel->tile_m, kernel->tile_n, kernel->tile_k },
                   { 2 * kernel->tile_m + 3, 2 * kernel->tile_n + 5, 6 * kernel->tile_k } };
    struct tally tally = { 0 };
    for (size_t i = 0; i < (topic_rig.full ? LENGTH(shapes) : 1); i++)
        for (size_t j = 0; j < LENGTH(kinds); j++)
            for (int place = 0; place < 2; place++) {
                if (!topic_rig.full && place != (int)j % 2) continue;
                struct gemm_case c = topic_case(kernel, shapes[i].m, shapes[i].n, shapes[i].k, kinds[j].fill);
                c.alpha = kinds[j].alpha;
                c.beta = kinds[j].beta;
                c.with_c = kinds[j].with_c;
                c.c = kinds[j].c;
                c.nan_a = kinds[j].nan_a;
                c.scalars = place ? SCALARS_ON_DEVICE : SCALARS_ON_HOST;
                topic_try(&tally, &c);
            }
    topic_finish(&tally);
}

/* Where each operand may be bf16 or f16: every mixture. */
void topic_mixed_types(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
    if (kernel->a != PTXMM_BF16_OR_F16) topic_skip("the kernel's types are fixed");
    struct tally tally = { 0 };
    for (int mixture = 0; mixture < 8; mixture++)
        for (int exact = 0; exact < 2; exact++) {
            struct gemm_case c = topic_case(kernel, 19, topic_rig.full ? kernel->tile_n + 9 : 43, kernel->tile_k + 9,
                                       exact ? FILL_SMALL_INT : FILL_NORMAL);
            c.a = mixture & 1 ? PTXMM_F16 : PTXMM_BF16;
            c.b = mixture & 2 ? PTXMM_F16 : PTXMM_BF16;
            c.d = mixture & 4 ? PTXMM_F16 : PTXMM_BF16;
            c.with_c = true;
            c.beta = 1;
            topic_try(&tally, &c);
        }
    topic_finish(&tally);
}

/* K = 0 is beta * C, or exactly 0; no rows or no columns is success and nothing is launched. */
void topic_nothing(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    struct tally tally = { 0 };
    for (int beta = 0; beta < 3; beta++) {
        struct gemm_case c = topic_case(kernel, kernel->tile_m + 2, 70, 0, FILL_NORMAL);
        c.with_c = beta > 0;
        c.beta = beta == 2 ? 0 : (float)beta;
        c.c = beta == 2 ? C_NAN : C_NORMAL;
        topic_try(&tally, &c);
    }
    topic_finish(&tally);
    for (int which = 0; which < 2; which++) {
        const struct gemm_case types = { .kernel = kernel };
        const struct ptxmm_problem problem = {
            .m = which ? 64 : 0,
            .n = which ? 0 : 64,
            .k = 64,
            .a.type = gemm_type_a(&types),
            .b.type = gemm_type_b(&types),
            .d.type = gemm_type_d(&types),
            .accumulate = gemm_accumulate(kernel),
            .prefer.kernel = kernel->name,
        };
        const struct ptxmm_arguments arguments = { .alpha = 1 };
        struct ptxmm_plan *plan;
        struct ptxmm_error error;
        if (ptxmm_plan_create(topic_rig.mm, &problem, NULL, &plan, &error)) fail_msg("%s", error.text);
        const enum ptxmm_status status = ptxmm_plan_run(plan, &arguments, NULL, &error);
        const struct ptxmm_kernel_info *chosen = ptxmm_plan_info(plan)->candidate.kernel;
        ptxmm_plan_destroy(&plan);
        if (status) fail_msg("%s", error.text);
        assert_null(chosen);
    }
}

/* ---- the same bits -------------------------------------------------------------------------------------------- */

/* Two cases must give one result; prints both when they do not. */
static bool topic_equal(const struct gemm_case *x, const struct gemm_case *y)
{
    char text[600], where[200];
    struct gemm_run p = { 0 }, q = { 0 };
    bool ok = gemm_result(&topic_rig, x, &p) && gemm_result(&topic_rig, y, &q);
    if (ok && !gemm_same(&p, &q, where, sizeof where)) {
        print_message("    %s\n", gemm_describe(x, text, sizeof text));
        print_message("    %s\n        differ: %s\n", gemm_describe(y, text, sizeof text), where);
        ok = false;
    }
    gemm_release(&topic_rig, &p);
    gemm_release(&topic_rig, &q);
    return ok;
}

void topic_repeats(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    const int count = topic_rig.full ? 200 : 3;
    const struct gemm_case c = topic_case(kernel, 2 * kernel->tile_m + 1, (topic_rig.full ? 3 : 0) * kernel->tile_n + 9,
                                     (topic_rig.full ? 12 : 1) * kernel->tile_k + 9, FILL_NORMAL);
    char where[200];
    struct gemm_run first = { 0 }, again = { 0 };
    bool ok = gemm_result(&topic_rig, &c, &first) && gemm_prepare(&topic_rig, &c, &again);
    for (int i = 0; ok && i < count; i++) {
        matrix_poison(&again.d);
        ok = gemm_rewind(&topic_rig, &again) && gemm_launch(&topic_rig, &again, NULL) && gemm_fetch(&topic_rig, &again);
        if (!ok) print_message("    %s\n", again.error);
        if (ok && !gemm_same(&first, &again, where, sizeof where)) {
            print_message("    run %d differs: %s\n", i, where);
            ok = false;
        }
    }
    gemm_release(&topic_rig, &first);
    gemm_release(&topic_rig, &again);
    assert_true(ok);
}

void topic_budgets(void **state)
{
    static const int list[] = { 1, 2, 7, 78, 131 };
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    const struct gemm_case all = topic_case(kernel, (topic_rig.full ? 5 : 2) * kernel->tile_m + 3,
                                            (topic_rig.full ? 3 : 1) * kernel->tile_n + 7,
                                            (topic_rig.full ? 9 : 1) * kernel->tile_k + 9, FILL_NORMAL);
    bool ok = true;
    for (size_t i = 0; ok && i < (topic_rig.full ? LENGTH(list) : 3); i++) {
        struct gemm_case some = all;
        some.sm_budget = list[i];
        /* A budget may change how K is split, and with it the bits, where the kernel does not promise otherwise. */
        ok = kernel->batch_invariant ? topic_equal(&all, &some) : gemm_check(&topic_rig, &some);
    }
    assert_true(ok);
}

/* A row's bits do not depend on how many rows there are. */
void topic_batch_invariance(void **state)
{
    static const int64_t ms[] = { 1, 17, 33, 128, 257, 2, 1024 };
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    if (!kernel->batch_invariant) topic_skip("the kernel does not promise it");
    const int64_t size = topic_rig.full ? 2048 : 136;
    bool ok = true;
    const size_t count = topic_rig.full ? LENGTH(ms) : 4;
    const struct gemm_case most = topic_case(kernel, ms[count - 1], size, size, FILL_NORMAL);
    for (size_t i = 0; ok && i + 1 < count; i++) {
        struct gemm_case fewer = most;
        fewer.m = ms[i];
        ok = topic_equal(&most, &fewer);
    }
    assert_true(ok);
}
