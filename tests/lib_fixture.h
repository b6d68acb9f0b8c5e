/* lib_fixture.h -- a pack opened on the stub driver, for tests of plans. */
#ifndef LIB_FIXTURE_H
#define LIB_FIXTURE_H

#include "lib_case.h"

/* One pack and a context of device 0 for a test; both are gone after it, and so is every library.
 */
struct fixture {
    struct ptxmm *mm;
    struct stub_state *stub;
    struct ptxmm_error error;
};

static inline int setup(void **state)
{
    static struct fixture fixture;
    fixture.stub = case_reset();
    fixture.mm = case_open();
    *state = &fixture;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    case_fail(NULL, CUDA_SUCCESS, 0);
    if (ptxmm_close(&f->mm, &f->error))
        print_message("%s\n", f->error.text);
    return f->mm || f->stub->loads != f->stub->unloads ? -1 : 0;
}

static inline struct ptxmm_plan *make(struct fixture *f, const struct ptxmm_problem *problem)
{
    struct ptxmm_plan *plan;
    if (ptxmm_plan_create(f->mm, problem, NULL, &plan, &f->error))
        fail_msg("ptxmm_plan_create: %s", f->error.text);
    return plan;
}

/* Makes a plan, runs it, destroys it, and gives what was launched. */
static inline const struct stub_launch *run(struct fixture *f, const struct ptxmm_problem *problem,
                                            const struct ptxmm_arguments *arguments)
{
    struct ptxmm_plan *plan = make(f, problem);
    int before = f->stub->launches;
    if (ptxmm_plan_run(plan, arguments, NULL, &f->error))
        fail_msg("ptxmm_plan_run: %s", f->error.text);
    ptxmm_plan_destroy(&plan);
    assert_null(plan);
    assert_int_equal(f->stub->launches, before + 1);
    return &f->stub->launch[before];
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
