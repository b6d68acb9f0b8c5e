/* problem.c -- is a problem well formed? The first offence is named, with what it was and what it
 * must be. */
#include "problem.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "error.h"
#include "launch.h"

/* ---- names --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int bits;
} types[] = {
    [PTXMM_TYPE_NONE] = { "NONE", 0 }, [PTXMM_BF16] = { "BF16", 16 },
    [PTXMM_F16] = { "F16", 16 },       [PTXMM_F32] = { "F32", 32 },
    [PTXMM_TF32] = { "TF32", 32 },     [PTXMM_E4M3] = { "E4M3", 8 },
    [PTXMM_E5M2] = { "E5M2", 8 },      [PTXMM_E2M3] = { "E2M3", 6 },
    [PTXMM_E3M2] = { "E3M2", 6 },      [PTXMM_E2M1] = { "E2M1", 4 },
    [PTXMM_S8] = { "S8", 8 },          [PTXMM_U8] = { "U8", 8 },
    [PTXMM_S4] = { "S4", 4 },          [PTXMM_S32] = { "S32", 32 },
    [PTXMM_UE8M0] = { "UE8M0", 8 },    [PTXMM_UE4M3] = { "UE4M3", 8 },
};
static const char *const kinds[] = {
    "DENSE",     "BATCH_STRIDED",   "BATCH_POINTERS", "GROUPED_M_CONTIGUOUS", "GROUPED_M_MASKED",
    "GROUPED_K", "GROUPED_POINTERS"
};
static const char *const scales[] = { "NONE",          "TENSOR",     "VECTOR",    "BLOCK_1X128",
                                      "BLOCK_128X128", "BLOCK_1X32", "BLOCK_1X16" };
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

int problem_type_bits(enum ptxmm_type type)
{
    return (size_t)type < COUNT(types) ? types[type].bits : 0;
}

const char *problem_type_name(enum ptxmm_type type)
{
    if (type == PTXMM_BF16_OR_F16)
        return "BF16_OR_F16";
    return (size_t)type < COUNT(types) ? types[type].name : "unknown";
}

const char *problem_layout_name(enum ptxmm_layout layout, int is_output)
{
    switch ((int)layout) {
    case 0: return is_output ? "ROW_MAJOR" : "K_MAJOR";
    case 1: return is_output ? "COL_MAJOR" : "MN_MAJOR";
    default: return "unknown";
    }
}

const char *problem_kind_name(enum ptxmm_problem_kind kind)
{
    return (size_t)kind < COUNT(kinds) ? kinds[kind] : "unknown";
}

const char *problem_accumulate_name(enum ptxmm_accumulate accumulate)
{
    return accumulate == PTXMM_ACCUMULATE_FAST ? "FAST" : "DEFAULT";
}

const char *problem_scale_name(enum ptxmm_scale_mode mode)
{
    return (size_t)mode < COUNT(scales) ? scales[mode] : "unknown";
}

/* ---- extents ------------------------------------------------------------------------------- */

int64_t problem_batch(const struct ptxmm_problem *problem)
{
    return problem->kind == PTXMM_DENSE ? 1 : problem->batch;
}

int problem_is_empty(const struct ptxmm_problem *problem)
{
    return problem->m == 0 || problem->n == 0 || problem_batch(problem) == 0;
}

static const struct ptxmm_operand *operand(const struct ptxmm_problem *problem, char which)
{
    switch (which) {
    case 'a': return &problem->a;
    case 'b': return &problem->b;
    case 'c': return &problem->c;
    case 'd': return &problem->d;
    default: return &problem->epilogue.aux;
    }
}

struct extent problem_extent(const struct ptxmm_problem *problem, char which)
{
    const struct ptxmm_operand *op = operand(problem, which);
    int64_t n = problem->n;
    if (which == 'd' && problem->epilogue.gated)
        n /= 2;
    int64_t mn = which == 'b' ? n : problem->m; // rows of A, columns of B, rows of C and D
    int64_t other = which == 'a' || which == 'b' ? problem->k : n;
    struct extent extent = { .inner = op->layout ? mn : other,
                             .outer = op->layout ? other : mn,
                             .ld = op->ld,
                             .type_bits = problem_type_bits(op->type),
                             .matrices = 1 };
    if (problem->kind == PTXMM_BATCH_STRIDED && problem->batch > 1) {
        extent.matrices = problem->batch;
        extent.apart = op->batch_stride;
    }
    if (extent.ld == 0)
        extent.ld = extent.inner ? extent.inner : 1;
    return extent;
}

/* ---- the check ----------------------------------------------------------------------------- */

#define REFUSE(...) return error_set(error, PTXMM_ERROR_ARGUMENT, __VA_ARGS__)

static enum ptxmm_status check_at_least(const char *field, int64_t value, int64_t least,
                                        struct ptxmm_error *error)
{
    if (value < least)
        REFUSE("problem.%s is %" PRId64 ", must be at least %" PRId64, field, value, least);
    return PTXMM_OK;
}

/* Enumerations and flags: 0 .. count - 1. The value comes as int64_t because a caller's memory may
 * hold anything. */
static enum ptxmm_status check_choice(const char *field, int64_t value, int64_t count,
                                      struct ptxmm_error *error)
{
    if (value < 0 || value >= count)
        REFUSE("problem.%s is %" PRId64 ", must be from 0 to %" PRId64, field, value, count - 1);
    return PTXMM_OK;
}

static enum ptxmm_status check_zero(const char *field, const uint64_t *words, size_t count,
                                    struct ptxmm_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (words[i])
            REFUSE("problem.%s[%zu] is %" PRIu64 ", must be 0", field, i, words[i]);
    return PTXMM_OK;
}

#define TRY(check)                           \
    do {                                     \
        enum ptxmm_status status_ = (check); \
        if (status_)                         \
            return status_;                  \
    } while (0)

/* An enum member through its bytes: reading an out-of-range enumerator is allowed in C, but
 * compilers may assume it away. */
#define VALUE(enumerator) ((int64_t)(int)(enumerator))

/* What A, B, C and D may hold. Scale types are not elements; sums are not factors. */
static int is_factor(enum ptxmm_type type)
{
    return type >= PTXMM_BF16 && type <= PTXMM_S4;
}

static int is_output(enum ptxmm_type type)
{
    return type >= PTXMM_BF16 && type <= PTXMM_S32 && type != PTXMM_TF32 && type != PTXMM_S4;
}

static int is_integer(enum ptxmm_type type)
{
    return type == PTXMM_S8 || type == PTXMM_U8 || type == PTXMM_S4;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* The scale factors of an operand: type, layout and leading dimension that fit the mode. */
static enum ptxmm_status check_scale(const struct ptxmm_problem *problem, char which,
                                     const char *name, struct ptxmm_error *error)
{
    const struct ptxmm_operand *op = operand(problem, which);
    char field[40];
#define FIELD(member) (snprintf(field, sizeof field, "%s." member, name), field)
    TRY(check_choice(FIELD("scale"), VALUE(op->scale), COUNT(scales), error));
    TRY(check_choice(FIELD("scale_type"), VALUE(op->scale_type), COUNT(types), error));
    TRY(check_choice(FIELD("scale_layout"), VALUE(op->scale_layout), 2, error));
    enum ptxmm_type needed = op->scale == PTXMM_SCALE_BLOCK_1X32   ? PTXMM_UE8M0
                             : op->scale == PTXMM_SCALE_BLOCK_1X16 ? PTXMM_UE4M3
                             : op->scale                           ? PTXMM_F32
                                                                   : PTXMM_TYPE_NONE;
    if (op->scale_type != PTXMM_TYPE_NONE && op->scale_type != needed)
        REFUSE("problem.%s.scale_type is %s, must be %s%s for scale %s", name,
               problem_type_name(op->scale_type), needed ? "NONE or " : "",
               problem_type_name(needed), problem_scale_name(op->scale));

    struct extent extent = problem_extent(problem, which);
    int64_t row = 0; // contiguous factors; 0: the mode has no leading dimension
    if (op->scale == PTXMM_SCALE_BLOCK_1X128 || op->scale == PTXMM_SCALE_BLOCK_128X128) {
        int64_t k = op->layout ? extent.outer : extent.inner,
                mn = op->layout ? extent.inner : extent.outer;
        if (op->scale == PTXMM_SCALE_BLOCK_128X128)
            mn = ceil_div(mn, 128);
        row = op->scale_layout ? mn : ceil_div(k, 128);
    } else {
        if (op->scale_layout)
            REFUSE("problem.%s.scale_layout is 1, must be 0 for scale %s", name,
                   problem_scale_name(op->scale));
        if (op->scale_ld)
            REFUSE("problem.%s.scale_ld is %" PRId64 ", must be 0 for scale %s", name, op->scale_ld,
                   problem_scale_name(op->scale));
    }
    if (op->scale_ld && op->scale_ld < row)
        REFUSE("problem.%s.scale_ld is %" PRId64 ", must be 0 or at least the row of %" PRId64
               " factors",
               name, op->scale_ld, row);
#undef FIELD
    return PTXMM_OK;
}

/* Does (outer - 1) * ld + inner elements, and the last matrix of the batch behind it, stay below
 * 2^63 bits? */
static enum ptxmm_status check_span(const struct extent *extent, const char *name,
                                    struct ptxmm_error *error)
{
    int64_t span, batches = 0, bits;
    int overflow =
        extent->outer > 0 && __builtin_mul_overflow(extent->outer - 1, extent->ld, &span);
    if (!overflow && extent->outer <= 0)
        span = 0;
    overflow = overflow || __builtin_add_overflow(span, extent->inner, &span);
    overflow = overflow || __builtin_mul_overflow(extent->matrices - 1, extent->apart, &batches);
    overflow = overflow || __builtin_add_overflow(span, batches, &span) ||
               __builtin_mul_overflow(span, (int64_t)extent->type_bits, &bits);
    if (overflow)
        REFUSE("problem.%s spans more than 2^63 bits: %" PRId64 " runs of %" PRId64
               " elements, ld %" PRId64 ", %" PRId64 " matrices %" PRId64 " apart",
               name, extent->outer, extent->inner, extent->ld, extent->matrices, extent->apart);
    return PTXMM_OK;
}

/* Results of a batch that overlap would be whatever was written last. They may follow one another,
 * or lie beside each other within the rows. */
static enum ptxmm_status check_apart(const struct extent *d, struct ptxmm_error *error)
{
    if (d->matrices <= 1 || d->inner == 0 || d->outer == 0)
        return PTXMM_OK;
    // check_span has shown that none of these overflows.
    int64_t span = (d->outer - 1) * d->ld + d->inner;
    int64_t beside = (d->matrices - 1) * d->apart + d->inner;
    if (d->apart >= span || (d->apart >= d->inner && beside <= d->ld))
        return PTXMM_OK;
    REFUSE("problem.d.batch_stride is %" PRId64 ", must be at least %" PRId64
           ", what one result spans, or at least %" PRId64 " with all %" PRId64
           " results beside each other within the ld of %" PRId64 ": results must not overlap",
           d->apart, span, d->inner, d->matrices, d->ld);
}

static enum ptxmm_status check_operand(const struct ptxmm_problem *problem, char which,
                                       const char *name, struct ptxmm_error *error)
{
    const struct ptxmm_operand *op = operand(problem, which);
    char field[40];
#define FIELD(member) (snprintf(field, sizeof field, "%s." member, name), field)
    TRY(check_choice(FIELD("type"), VALUE(op->type), COUNT(types), error));
    TRY(check_choice(FIELD("layout"), VALUE(op->layout), 2, error));
    int may_be_absent = which == 'c' || which == 'x';
    int fits = which == 'a' || which == 'b' ? is_factor(op->type) : is_output(op->type);
    if (!fits && !(may_be_absent && op->type == PTXMM_TYPE_NONE))
        REFUSE("problem.%s.type is %s, must be a type of %s", name, problem_type_name(op->type),
               which == 'a' || which == 'b' ? "factors (BF16 to S4)"
                                            : "results (BF16 to S32, not TF32, not S4)");
    TRY(check_at_least(FIELD("ld"), op->ld, 0, error));
    TRY(check_at_least(FIELD("batch_stride"), op->batch_stride, 0, error));
    TRY(check_at_least(FIELD("scale_ld"), op->scale_ld, 0, error));
    if (which == 'a' || which == 'b')
        TRY(check_choice(FIELD("constant"), op->constant, 2, error));
    else if (op->constant)
        REFUSE("problem.%s.constant is %d, must be 0: it is a promise about A and B", name,
               op->constant);
    TRY(check_zero(FIELD("reserved"), op->reserved, COUNT(op->reserved), error));
    TRY(check_scale(problem, which, name, error));
    if (op->type == PTXMM_TYPE_NONE) {
        const char *member = op->layout         ? "layout"
                             : op->ld           ? "ld"
                             : op->batch_stride ? "batch_stride"
                             : op->scale        ? "scale"
                                                : NULL;
        if (member)
            REFUSE("problem.%s.%s is not 0, must be 0 because problem.%s.type is NONE", name,
                   member, name);
        return PTXMM_OK;
    }
    struct extent extent = problem_extent(problem, which);
    if (op->ld && op->ld < extent.inner)
        REFUSE("problem.%s.ld is %" PRId64 ", must be 0 or at least the %s of %" PRId64 " elements",
               name, op->ld, op->layout ? "column" : "row", extent.inner);
    TRY(check_span(&extent, name, error));
    if (which == 'd')
        TRY(check_apart(&extent, error));
#undef FIELD
    return PTXMM_OK;
}

static enum ptxmm_status check_types(const struct ptxmm_problem *problem, struct ptxmm_error *error)
{
    enum ptxmm_type a = problem->a.type, b = problem->b.type;
    int a_wide = a == PTXMM_BF16 || a == PTXMM_F16, b_wide = b == PTXMM_BF16 || b == PTXMM_F16;
    // Integers go with integers, but int4 weights are widened to the 16-bit type of the other side.
    if (a == PTXMM_S4 ? !b_wide : b == PTXMM_S4 ? !a_wide : is_integer(a) != is_integer(b))
        REFUSE(
            "problem.b.type is %s, must fit problem.a.type %s: integers go with integers, S4 with "
            "BF16 or F16",
            problem_type_name(b), problem_type_name(a));
    // tf32 is never put in place of f32, nor mixed with it.
    const enum ptxmm_type alone[] = { PTXMM_TF32, PTXMM_F32 };
    for (size_t i = 0; i < COUNT(alone); i++)
        if ((a == alone[i]) != (b == alone[i]))
            REFUSE("problem.b.type is %s, must be %s%s like problem.a.type, which is %s",
                   problem_type_name(b), a == alone[i] ? "" : "other than ",
                   problem_type_name(alone[i]), problem_type_name(a));
    return PTXMM_OK;
}

static enum ptxmm_status check_epilogue(const struct ptxmm_problem *problem,
                                        struct ptxmm_error *error)
{
    const struct ptxmm_epilogue *epilogue = &problem->epilogue;
    TRY(check_choice("epilogue.bias", VALUE(epilogue->bias), 3, error));
    TRY(check_choice("epilogue.bias_type", VALUE(epilogue->bias_type), COUNT(types), error));
    TRY(check_choice("epilogue.activation", VALUE(epilogue->activation), PTXMM_SILU_GRADIENT + 1,
                     error));
    TRY(check_choice("epilogue.gated", epilogue->gated, 2, error));
    TRY(check_choice("epilogue.row_scale", VALUE(epilogue->row_scale), 3, error));
    TRY(check_choice("epilogue.column_scale", VALUE(epilogue->column_scale), 3, error));
    TRY(check_choice("epilogue.amax", epilogue->amax, 2, error));
    TRY(check_zero("epilogue.reserved", epilogue->reserved, COUNT(epilogue->reserved), error));

    if (epilogue->bias == PTXMM_VECTOR_NONE ? epilogue->bias_type != PTXMM_TYPE_NONE
                                            : !is_output(epilogue->bias_type))
        REFUSE("problem.epilogue.bias_type is %s, must be %s",
               problem_type_name(epilogue->bias_type),
               epilogue->bias ? "a type of results because there is a bias"
                              : "NONE because there is no bias");
    if (epilogue->row_scale == PTXMM_PER_COLUMN)
        REFUSE("problem.epilogue.row_scale is PER_COLUMN, must be NONE or PER_ROW");
    if (epilogue->column_scale == PTXMM_PER_ROW)
        REFUSE("problem.epilogue.column_scale is PER_ROW, must be NONE or PER_COLUMN");
    int gradient = epilogue->activation >= PTXMM_RELU_GRADIENT;
    if (epilogue->gated && problem->n % 2)
        REFUSE("problem.n is %" PRId64 ", must be even because the epilogue is gated", problem->n);
    if (epilogue->gated && gradient)
        REFUSE("problem.epilogue.gated is 1, must be 0 for a gradient");
    enum ptxmm_type aux = epilogue->aux.type;
    if (gradient && aux == PTXMM_TYPE_NONE)
        REFUSE("problem.epilogue.aux.type is NONE, must be given: a gradient is taken at aux");
    if (epilogue->activation == PTXMM_ACTIVATION_NONE && aux != PTXMM_TYPE_NONE)
        REFUSE("problem.epilogue.aux.type is %s, must be NONE without an activation",
               problem_type_name(aux));
    return PTXMM_OK;
}

static enum ptxmm_status check_preferences(const struct ptxmm_preferences *prefer,
                                           struct ptxmm_error *error)
{
    TRY(check_choice("prefer.deterministic", prefer->deterministic, 2, error));
    TRY(check_choice("prefer.batch_invariant", prefer->batch_invariant, 2, error));
    TRY(check_at_least("prefer.sm_budget", prefer->sm_budget, 0, error));
    TRY(check_at_least("prefer.workspace_limit", prefer->workspace_limit, 0, error));
    TRY(check_choice("prefer.no_programmatic_launch", prefer->no_programmatic_launch, 2, error));
    TRY(launch_check("problem.prefer", prefer->cluster, prefer->cluster_rows, prefer->groups,
                     prefer->stages, error));
    TRY(check_zero("prefer.reserved", prefer->reserved, COUNT(prefer->reserved), error));
    if (prefer->kernel && !ptxmm_kernel_by_name(prefer->kernel))
        REFUSE(
            "problem.prefer.kernel is \"%.100s\", must be NULL or the name of a kernel of the pack",
            prefer->kernel);
    return PTXMM_OK;
}

enum ptxmm_status ptxmm_problem_check(const struct ptxmm_problem *problem,
                                      struct ptxmm_error *error)
{
    if (!problem)
        REFUSE("problem is NULL, must point to a problem");
    TRY(check_choice("kind", VALUE(problem->kind), COUNT(kinds), error));
    TRY(check_at_least("m", problem->m, 0, error));
    TRY(check_at_least("n", problem->n, 0, error));
    TRY(check_at_least("k", problem->k, 0, error));
    TRY(check_at_least("batch", problem->batch, 0, error));
    if (problem->kind == PTXMM_DENSE && problem->batch > 1)
        REFUSE("problem.batch is %" PRId64 ", must be 0 or 1 for kind DENSE", problem->batch);
    TRY(check_choice("accumulate", VALUE(problem->accumulate), 2, error));
    TRY(check_choice("alpha_on_device", problem->alpha_on_device, 2, error));
    TRY(check_choice("beta_on_device", problem->beta_on_device, 2, error));
    TRY(check_zero("reserved", problem->reserved, COUNT(problem->reserved), error));
    TRY(check_epilogue(problem, error)); // before the operands: a gated D has half the columns
    TRY(check_operand(problem, 'a', "a", error));
    TRY(check_operand(problem, 'b', "b", error));
    TRY(check_operand(problem, 'c', "c", error));
    TRY(check_operand(problem, 'd', "d", error));
    TRY(check_operand(problem, 'x', "epilogue.aux", error));
    TRY(check_types(problem, error));
    if (problem->beta_on_device && problem->c.type == PTXMM_TYPE_NONE)
        REFUSE("problem.c.type is NONE, must be given because beta_on_device is 1");
    TRY(check_preferences(&problem->prefer, error));
    return error_none(error);
}
