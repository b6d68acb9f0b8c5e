/* lib_model.c -- the pipeline model: known values, a plain simulation beside it, and runs too long
 * to simulate. */
#include "lib_case.h"

#include <math.h>
#include <time.h>

static struct ptxmm_model_result run(struct ptxmm_model model)
{
    struct ptxmm_model_result result;
    struct ptxmm_error error;
    if (ptxmm_model_run(&model, &result, &error))
        fail_msg("%s", error.text);
    return result;
}

/* 3 tiles of 6 slices, load 12, mma 4, issue 1: values that were worked out by hand from the
 * recurrences. */
static void known_values(void **unused)
{
    (void)unused;
    struct ptxmm_model model = { .tiles = 3,
                                 .slices = 6,
                                 .stages = 4,
                                 .accumulators = 2,
                                 .issue = 1,
                                 .load = 12,
                                 .mma = 4,
                                 .epilogue = 8 };
    static const int busy[] = { 24, 46, 64, 78 };
    for (int stages = 1; stages <= 4; stages++) {
        model.stages = stages;
        assert_int_equal((int)lround(100 * run(model).tensor_busy), busy[stages - 1]);
    }
    assert_true(run(model).time == 92);
    model.accumulators = 1;
    assert_true(run(model).time == 108);
    model.epilogue = 30;
    assert_true(run(model).time == 174);
    model.accumulators = 2;
    assert_true(run(model).time == 126);
}

/* The recurrences as they are written, in full. */
static double simulate(const struct ptxmm_model *m)
{
    size_t slices = (size_t)(m->tiles * m->slices);
    double *load = malloc((slices + 1) * sizeof *load), *done = malloc((slices + 1) * sizeof *done);
    double *drained = malloc((size_t)(m->tiles + 1) * sizeof *drained);
    for (int64_t t = 0, g = 0; t < m->tiles; t++) {
        for (int64_t s = 0; s < m->slices; s++, g++) {
            load[g] =
                fmax(g ? load[g - 1] + m->issue : 0, g >= m->stages ? done[g - m->stages] : 0);
            double multiply = fmax(load[g] + m->load, g ? done[g - 1] : 0);
            if (s == 0 && t >= m->accumulators)
                multiply = fmax(multiply, drained[t - m->accumulators]);
            done[g] = multiply + m->mma;
        }
        drained[t] = fmax(g ? done[g - 1] : 0, t ? drained[t - 1] : 0) + m->epilogue;
    }
    double time = m->tiles ? drained[m->tiles - 1] : 0;
    free(load);
    free(done);
    free(drained);
    return time;
}

static void equals_simulation(void **unused)
{
    (void)unused;
    uint64_t seed = case_seed();
    for (int i = 0; i < 4000; i++) {
        struct ptxmm_model model = {
            .tiles = (int64_t)(case_random(&seed) % (i % 8 ? 40 : 3000)),
            .slices = (int64_t)(case_random(&seed) % 60),
            .stages = 1 + (int)(case_random(&seed) % 9),
            .accumulators = 1 + (int)(case_random(&seed) % 4),
            .issue = (double)(case_random(&seed) % 50),
            .load = (double)(case_random(&seed) % 2000),
            .mma = (double)(case_random(&seed) % 1100),
            .epilogue = (double)(case_random(&seed) % 3000),
        };
        if (i % 5 == 0) { // fractions too: then to rounding
            model.mma += 1 / 3.0;
            model.issue += 0.1;
        }
        double expected = simulate(&model), got = run(model).time;
        if (!(fabs(expected - got) <= (i % 5 ? 0 : 1e-9 * expected)))
            fail_msg(
                "case %d: %lld tiles of %lld slices, %d stages, %d accumulators, issue %.17g "
                     "load %.17g mma %.17g epilogue "
                "%.17g: %.17g, must be %.17g",
                i, (long long)model.tiles, (long long)model.slices, model.stages,
                model.accumulators, model.issue, model.load, model.mma, model.epilogue, got,
                expected);
    }
}

/* Where one resource decides, the answer is known for any length. */
static void long_runs(void **unused)
{
    (void)unused;
    struct ptxmm_model model = { .tiles = INT64_C(1) << 32,
                                 .slices = 128,
                                 .stages = 4,
                                 .accumulators = 2,
                                 .issue = 40,
                                 .load = 1000,
                                 .mma = 1024,
                                 .epilogue = 1000 };
    // The tensor core never waits: one load, all slices, one epilogue.
    assert_true(run(model).time == 1000 + ldexp(128 * 1024.0, 32) + 1000);
    model.accumulators = 1; // and now waits for every epilogue
    assert_true(run(model).time == 1000 + ldexp(128 * 1024.0 + 1000, 32));
    // One tile of very many slices, with one stage: every slice waits for its load.
    model = (struct ptxmm_model){
        .tiles = 1, .slices = INT64_C(1) << 40, .stages = 1, .accumulators = 1, .load = 12, .mma = 4
    };
    assert_true(run(model).time == ldexp(16, 40));
    // As much as numbers hold.
    model = (struct ptxmm_model){ .tiles = INT64_MAX,
                                  .slices = INT64_MAX,
                                  .stages = 3,
                                  .accumulators = 2,
                                  .issue = 1,
                                  .load = 7.5,
                                  .mma = 3.25,
                                  .epilogue = 11 };
    struct ptxmm_model_result result = run(model);
    assert_true(fabs(result.time / (ldexp(10.75 / 3, 126)) - 1) <
                1e-6); // (load + mma) / stages, which is more than mma
}

/* Two loops of almost the same rate settle slowly; the answer must still come soon and be right to
 * a part in a million. */
static void slow_to_settle(void **unused)
{
    (void)unused;
    struct ptxmm_model model = { .tiles = INT64_C(1) << 33,
                                 .slices = INT64_C(1) << 20,
                                 .stages = 4,
                                 .accumulators = 2,
                                 .issue = 1,
                                 .load = 300.00001,
                                 .mma = 100,
                                 .epilogue = 104857600.001 };
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    double time = run(model).time;
    clock_gettime(CLOCK_MONOTONIC, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    assert_true(seconds < 10);
    assert_true(fabs(time / ldexp(104857600.0, 33) - 1) < 1e-6);
}

static void edges(void **unused)
{
    (void)unused;
    struct ptxmm_model model = {
        .tiles = 0, .slices = 6, .stages = 1, .accumulators = 1, .load = 5, .mma = 3, .epilogue = 2
    };
    assert_true(run(model).time == 0 && run(model).tensor_busy == 0);
    model.tiles = 5;
    model.slices = 0;
    assert_true(run(model).time == 10 && run(model).tensor_busy == 0);
    model.slices = 1;
    model.stages = 1024;
    model.accumulators = 1024;
    assert_true(run(model).time == 5 + 15 + 2);
    model.load = model.mma = model.epilogue = 0;
    assert_true(run(model).time == 0 && run(model).tensor_busy == 0);
}

static void offences(void **unused)
{
    (void)unused;
    const struct ptxmm_model good = { .tiles = 1, .slices = 1, .stages = 1, .accumulators = 1 };
    struct ptxmm_model_result result;
    struct ptxmm_error error;
    struct ptxmm_model model;
#define OFFENCE(member, value)                                                               \
    model = good;                                                                            \
    model.member = value;                                                                    \
    case_check_error(&error, ptxmm_model_run(&model, &result, &error), PTXMM_ERROR_ARGUMENT, \
                     "model." #member, NULL);                                                \
    assert_true(result.time == 0);
    OFFENCE(tiles, -1)
    OFFENCE(slices, INT64_MIN)
    OFFENCE(stages, 0)
    OFFENCE(stages, 1025)
    OFFENCE(accumulators, -5)
    OFFENCE(issue, -1)
    OFFENCE(load, NAN)
    OFFENCE(mma, INFINITY)
    OFFENCE(epilogue, -0.5)
    OFFENCE(reserved[3], 1)
    case_check_error(&error, ptxmm_model_run(NULL, &result, &error), PTXMM_ERROR_ARGUMENT,
                     "model is NULL", NULL);
    case_check_error(&error, ptxmm_model_run(&good, NULL, &error), PTXMM_ERROR_ARGUMENT,
                     "result is NULL", NULL);
    assert_int_equal(ptxmm_model_run(&good, &result, NULL), PTXMM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values), cmocka_unit_test(equals_simulation),
        cmocka_unit_test(long_runs),    cmocka_unit_test(slow_to_settle),
        cmocka_unit_test(edges),        cmocka_unit_test(offences),
    };
    return cmocka_run_group_tests_name("lib/model", tests, NULL, NULL);
}
