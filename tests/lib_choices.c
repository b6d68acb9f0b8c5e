/* lib_choices.c -- choices that the caller measured: which plans take them, which do not, and lists that are wrong. */
#include "lib_fixture.h"

#include "loader/choices.h"
#include "loader/kernels.h"

static const char wide[] = "sm90_gemm_bf16_128x256", narrow[] = "sm90_gemm_bf16_128x64", device[] = "Stub H200";

static struct ptxmm_choice choice(int64_t m, const char *kernel)
{
    return (struct ptxmm_choice){ .device = device, .m = m, .n = 512, .k = 512, .a = PTXMM_BF16, .b = PTXMM_BF16,
                                  .d = PTXMM_BF16, .kernel = kernel };
}

static struct ptxmm_device of_name(const char *name)
{
    struct ptxmm_device d;
    assert_int_equal(ptxmm_device_known("h200", &d, NULL), PTXMM_OK);
    snprintf(d.name, sizeof d.name, "%s", name);
    return d;
}

/* ---- finding ------------------------------------------------------------------------------- */

static struct choices copied(const struct ptxmm_choice *list, size_t count, size_t skipped)
{
    struct choices c;
    struct ptxmm_error error;
    size_t left_out;
    if (choices_copy(list, count, &c, &left_out, &error))
        fail_msg("%s", error.text);
    assert_int_equal(left_out, skipped);
    return c;
}

/* Of the kernel alone. */
static const struct ptxmm_kernel_info *find(const struct choices *c, const struct ptxmm_device *d,
                                            const struct ptxmm_problem *problem)
{
    struct ptxmm_preferences prefer = { 0 };
    return choices_find(c, d, problem, &prefer);
}

static void each_member_counts(void **state)
{
    (void)state;
    const struct ptxmm_choice base = choice(512, wide);
    struct choices c = copied(&base, 1, 0);
    const struct ptxmm_device here = of_name(device), elsewhere = of_name("Stub H20"), longer = of_name("Stub H200 2");
    const struct ptxmm_problem fits = case_problem(512, 512, 512);
    assert_string_equal(find(&c, &here, &fits)->name, wide);
    assert_null(find(&c, &elsewhere, &fits));
    assert_null(find(&c, &longer, &fits));
#define OTHER(change)                                 \
    do {                                              \
        struct ptxmm_problem p = fits;                \
        change;                                       \
        assert_null(find(&c, &here, &p));     \
    } while (0)
#define SAME(change)                                  \
    do {                                              \
        struct ptxmm_problem p = fits;                \
        change;                                       \
        assert_non_null(find(&c, &here, &p)); \
    } while (0)
    OTHER(p.m = 511);
    OTHER(p.n = 513);
    OTHER(p.k = 0);
    OTHER(p.a.type = PTXMM_F16);
    OTHER(p.b.type = PTXMM_F16);
    OTHER(p.d.type = PTXMM_F32);
    OTHER(p.kind = PTXMM_BATCH_STRIDED; p.batch = 2);
    SAME(p.kind = PTXMM_BATCH_STRIDED; p.batch = 1);
    SAME(p.accumulate = PTXMM_ACCUMULATE_FAST); // 16-bit types know no difference
    SAME(p.a.ld = 1024; p.c.type = PTXMM_BF16; p.alpha_on_device = 1);
    choices_free(&c);

    struct ptxmm_choice fp8 = choice(512, "sm90_gemm_e4m3_e5m2_128x256");
    fp8.a = PTXMM_E4M3;
    fp8.b = PTXMM_E5M2;
    fp8.batch = 3;
    fp8.accumulate = PTXMM_ACCUMULATE_FAST;
    c = copied(&fp8, 1, 0);
    struct ptxmm_problem p = fits;
    p.a.type = PTXMM_E4M3;
    p.b.type = PTXMM_E5M2;
    p.kind = PTXMM_BATCH_STRIDED;
    p.batch = 3;
    assert_null(find(&c, &here, &p)); // fast accumulation is not allowed
    p.accumulate = PTXMM_ACCUMULATE_FAST;
    assert_non_null(find(&c, &here, &p));
    choices_free(&c);
}

/* Each of many is found, the later of two counts, and what the pack has not is left out. */
static void many(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static struct ptxmm_choice list[COUNT];
    uint64_t seed = case_seed();
    size_t gone = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const uint64_t r = case_random(&seed) % 3;
        list[i] = choice(1 + (int64_t)(case_random(&seed) % 300), r == 0 ? "sm90_gone" : r == 1 ? wide : narrow);
        gone += r == 0;
    }
    struct choices c = copied(list, COUNT, gone);
    const struct ptxmm_device here = of_name(device);
    for (int64_t m = 1; m <= 301; m++) {
        const char *expected = NULL;
        for (size_t i = 0; i < COUNT; i++)
            if (list[i].m == m && strcmp(list[i].kernel, "sm90_gone"))
                expected = list[i].kernel;
        const struct ptxmm_problem p = case_problem(m, 512, 512);
        const struct ptxmm_kernel_info *found = find(&c, &here, &p);
        assert_true(expected ? found && !strcmp(found->name, expected) : !found);
    }
    choices_free(&c);
    assert_null(c.list);
}

/* ---- plans --------------------------------------------------------------------------------- */

static struct ptxmm *open_with(const struct ptxmm_choice *list, size_t count)
{
    struct ptxmm *mm;
    struct ptxmm_error error;
    const struct ptxmm_options options = { .driver = case_stub_path(), .choices = list, .choice_count = count };
    if (ptxmm_open(&mm, &options, &error))
        fail_msg("ptxmm_open: %s", error.text);
    return mm;
}

static const char *planned(struct ptxmm *mm, const struct ptxmm_problem *problem)
{
    static char name[128];
    struct ptxmm_plan *plan;
    struct ptxmm_error error;
    const struct ptxmm_device here = of_name(device);
    if (ptxmm_plan_create(mm, problem, &here, &plan, &error))
        fail_msg("ptxmm_plan_create: %s", error.text);
    snprintf(name, sizeof name, "%s", ptxmm_plan_info(plan)->candidate.kernel->name);
    ptxmm_plan_destroy(&plan);
    return name;
}

static void plans_take_them(void **state)
{
    CASE_NEEDS_CUBINS;
    (void)state;
    case_reset();
    struct ptxmm *none = case_open();
    struct ptxmm_problem problem = case_problem(512, 512, 512);
    char predicted[128];
    snprintf(predicted, sizeof predicted, "%s", planned(none, &problem));
    case_close(&none);
    assert_string_not_equal(predicted, wide);

    struct ptxmm_choice list[] = { choice(512, wide), choice(64, "sm90_gemm_f16_128x64"), choice(8, "sm90_gemm_bf16_8x64_split") };
    struct ptxmm *mm = open_with(list, 3);
    memset(list, 0xff, sizeof list); // it was copied
    assert_string_equal(planned(mm, &problem), wide);
    problem.prefer.kernel = narrow; // the problem's own word is the last
    assert_string_equal(planned(mm, &problem), narrow);
    problem.prefer.kernel = NULL;
    problem.m = 513;
    assert_string_not_equal(planned(mm, &problem), wide);
    problem.m = 64; // a choice that cannot serve: the fastest that can
    assert_non_null(strstr(planned(mm, &problem), "sm90_gemm_bf16_"));
    problem.m = 8;
    assert_string_equal(planned(mm, &problem), "sm90_gemm_bf16_8x64_split");
    problem.prefer.batch_invariant = 1; // which split kernels are not
    assert_null(strstr(planned(mm, &problem), "split"));
    case_close(&mm);
}

static struct ptxmm_candidate launched(struct ptxmm *mm, const struct ptxmm_problem *problem)
{
    struct ptxmm_plan *plan;
    struct ptxmm_error error;
    const struct ptxmm_device here = of_name(device);
    if (ptxmm_plan_create(mm, problem, &here, &plan, &error))
        fail_msg("ptxmm_plan_create: %s", error.text);
    const struct ptxmm_candidate candidate = ptxmm_plan_info(plan)->candidate;
    ptxmm_plan_destroy(&plan);
    return candidate;
}

/* How a kernel was launched when it was measured counts too, as far as it can be. */
static void plans_launch_as_measured(void **state)
{
    CASE_NEEDS_CUBINS;
    (void)state;
    struct stub_state *stub = case_reset();
    struct ptxmm_choice list[] = { choice(512, "sm90_gemm_bf16_128x64_multicast"), choice(64, "sm90_gemm_bf16_64x64_split"),
                                   choice(1024, wide) };
    list[0].cluster = 8;
    list[0].cluster_rows = 4;
    list[0].groups = 2;
    list[1].cluster = 3; // the rest is open, but for
    list[1].stages = 6;
    list[2].cluster = 2; // which the kernel cannot be launched in
    struct ptxmm *mm = open_with(list, 3);
    struct ptxmm_problem problem = case_problem(512, 512, 512);
    problem.prefer.workspace_limit = 1 << 26;
    struct ptxmm_candidate c = launched(mm, &problem);
    assert_true(!strcmp(c.kernel->name, list[0].kernel) && c.cluster == 8 && c.cluster_rows == 4 && c.groups == 2);
    problem.prefer.workspace_limit = 0; // not like that, but that kernel
    c = launched(mm, &problem);
    assert_true(!strcmp(c.kernel->name, list[0].kernel) && c.groups == 1);
    problem.prefer.workspace_limit = 1 << 26;
    problem.prefer.groups = 1; // the problem's own word is the last
    c = launched(mm, &problem);
    assert_true(!strcmp(c.kernel->name, list[0].kernel) && c.groups == 1);
    problem.prefer.groups = 0;
    problem.prefer.kernel = narrow;
    assert_string_equal(launched(mm, &problem).kernel->name, narrow);
    problem.prefer.kernel = NULL;
    stub->clusters = 1; // of the groups' clusters too few run at a time, of others too, as long as there are several groups
    c = launched(mm, &problem);
    assert_true(c.groups == 1 || c.kernel->algorithm != PTXMM_MULTICAST);
    stub->clusters = 0;
    problem.m = 64;
    c = launched(mm, &problem);
    assert_true(!strcmp(c.kernel->name, list[1].kernel) && c.cluster == 3 && c.stages == 6);
    problem.m = 1024;
    assert_string_equal(launched(mm, &problem).kernel->name, wide);
    case_close(&mm);
}

/* ---- lists that are wrong ------------------------------------------------------------------ */

static void wrong_lists(void **state)
{
    (void)state;
    case_reset();
#define WRONG(change, text)                                                                             \
    do {                                                                                                \
        struct ptxmm_choice two[2] = { choice(512, wide), choice(512, wide) }, *c = &two[1];            \
        struct ptxmm_options options = { .driver = case_stub_path(), .choices = two, .choice_count = 2 }; \
        struct ptxmm *mm;                                                                               \
        struct ptxmm_error error;                                                                       \
        change;                                                                                         \
        case_check_error(&error, ptxmm_open(&mm, &options, &error), PTXMM_ERROR_ARGUMENT, text, NULL);  \
        assert_null(mm);                                                                                \
    } while (0)
    WRONG((void)c; options.choices = NULL, "options.choices is NULL, must have options.choice_count entries, 2");
    WRONG(c->device = NULL, "options.choices[1].device is NULL, must be a device's name");
    WRONG(c->device = "", "options.choices[1].device is empty");
    WRONG(c->device = "0123456789012345678901234567890123456789012345678901234567890123",
          "options.choices[1].device is 64 characters long, must be at most 63");
    WRONG(c->kernel = NULL, "options.choices[1].kernel is NULL");
    WRONG(c->kernel = "", "options.choices[1].kernel is empty");
    WRONG(c->m = 0, "options.choices[1].m is 0, must be at least 1");
    WRONG(c->n = -5, "options.choices[1].n is -5, must be at least 1");
    WRONG(c->k = -1, "options.choices[1].k is -1, must be at least 0");
    WRONG(c->batch = -1, "options.choices[1].batch is -1, must be at least 0");
    WRONG(c->a = PTXMM_TYPE_NONE, "options.choices[1].a is 0, must be an element type");
    WRONG(c->b = (enum ptxmm_type)99, "options.choices[1].b is 99");
    WRONG(c->d = (enum ptxmm_type)-1, "options.choices[1].d is -1");
    WRONG(c->accumulate = (enum ptxmm_accumulate)2, "options.choices[1].accumulate is 2, must be 0 or 1");
    WRONG(c->cluster = 6, "options.choices[1].cluster is 6, must be 0, 1, 2, 3, 4 or 8");
    WRONG(c->cluster_rows = 5, "options.choices[1].cluster_rows is 5, must be 0, 1, 2, 4 or 8");
    WRONG(c->cluster = 4; c->cluster_rows = 8, "options.choices[1].cluster_rows is 8, must be 0 or divide cluster, 4");
    WRONG(c->groups = 100, "options.choices[1].groups is 100, must be from 0 to 64");
    WRONG(c->reserved[1] = 1, "options.choices[1].reserved is not 0");

    // A name from another version of the pack is no error; the log has a line about it.
    struct ptxmm_choice gone = choice(512, "sm90_gone");
    struct ptxmm *mm = open_with(&gone, 1);
    case_close(&mm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_member_counts),
        cmocka_unit_test(many),
        cmocka_unit_test(plans_take_them),
        cmocka_unit_test(plans_launch_as_measured),
        cmocka_unit_test(wrong_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
