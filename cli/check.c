/* check.c -- is D = alpha * A B + beta * C? The reference, its tolerance, and the search for wrong
 * elements. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "freivalds.h"
#include "parallel.h"

/* ---- one element ---- */

#define STEP 16 /* elements of K that one tensor-core instruction adds up */

/* The accumulator of 16-bit types on a tensor core with f32 results: each step aligns its 16
 * products and the accumulator to the largest exponent among them, cuts every one of the 17 terms
 * 25 bits below it, adds exactly, and cuts the sum to 24 significant bits. So one step errs by less
 * than
 *
 *     17 * 2^-25 * largest + 2^-23 * |sum|
 *
 * (largest: the power of two of the largest exponent, at most the largest |term|)
 * and the errors of all steps add up. A zero or subnormal factor counts with its type's smallest
 * exponent. |sum| is the exact one plus the error so far. 2^-149 a step covers sums below the
 * normal numbers. */
static double step_error(double largest, double sum, double so_far)
{
    return 17 * 0x1p-25 * largest + 0x1p-23 * (fabs(sum) + so_far) + 0x1p-149;
}

static double smallest_normal(enum ptxmm_type type)
{
    switch ((int)type) {
    case PTXMM_F16:
    case PTXMM_E5M2: return 0x1p-14;
    case PTXMM_E4M3: return 0x1p-6;
    default: return 0x1p-126;
    }
}

/* alpha and beta are applied in f32: a rounding each for both products and their sum. */
static struct reference finish(const struct check_problem *p, double sum, double error, int64_t row,
                               int64_t col)
{
    struct reference r;
    const double product = p->alpha != 0 ? p->alpha * sum : 0;
    const double addend = p->beta != 0 ? p->beta * matrix_get(p->c, row, col) : 0;
    r.value = product + addend;
    r.tolerance = fabs(p->alpha) * error;
    if (p->alpha != 1 || p->beta != 0)
        r.tolerance += 3 * 0x1p-24 * (fabs(product) + fabs(addend)) + 0x1p-149;
    if (p->exact || !isfinite(r.value))
        r.tolerance = 0;
    return r;
}

/* a_row: row `row` of A as doubles. */
static struct reference reference(const struct check_problem *p, const double *a_row, int64_t row,
                                  int64_t col)
{
    double sum = 0, error = 0;
    const int64_t k = p->alpha != 0 ? p->a->cols : 0;
    const double least_a = smallest_normal(p->a->type), least_b = smallest_normal(p->b->type);
    bool overflow = false;
    for (int64_t first = 0; first < k; first += STEP) {
        const int64_t count = k - first < STEP ? k - first : STEP;
        double b[STEP], products = 0, largest = fabs(sum) + error;
        matrix_span(p->b, col, first, count, b);
        for (int64_t i = 0; i < count; i++) {
            const double a = a_row[first + i], x = fabs(a), y = fabs(b[i]);
            products += a * b[i];
            const double size = (x > least_a ? x : least_a) * (y > least_b ? y : least_b);
            largest = size > largest ? size : largest;
        }
        sum += products;
        error += step_error(largest, sum, error);
        overflow |= isfinite(sum) && fabs(sum) + error > FLT_MAX;
    }
    struct reference r = finish(p, sum, error, row, col);
    /* f32 may or may not have become infinite on the way: nothing can be said. */
    if (overflow && isfinite(r.value))
        r.tolerance = HUGE_VAL;
    return r;
}

#define FP8_STEP 32

/* The same for fp8 on Hopper, where 32 products and the accumulator are cut 13 bits below the largest
 * exponent and the sum to 14 significant bits. That is coarse enough to look at each product: what is
 * a multiple of the place that is cut off stays whole, and of a smaller one no more than itself is
 * lost. If the largest exponent was less than it is taken to be here, less was cut.
 *
 * With a promotion interval each interval's sum starts anew, and all of them are added in f32, in
 * some order: no intermediate sum exceeds the sum of their sizes. */
static struct reference reference_fp8(const struct check_problem *p, const double *a_row,
                                      int64_t row, int64_t col)
{
    const int64_t k = p->alpha != 0 ? p->a->cols : 0, interval = p->promotion ? p->promotion : k;
    const double least_a = smallest_normal(p->a->type), least_b = smallest_normal(p->b->type);
    double total = 0, total_error = 0, sizes = 0, additions = 0;
    for (int64_t start = 0; start < k; start += interval, additions++) {
        const int64_t end = k - start < interval ? k : start + interval;
        double sum = 0, error = 0;
        for (int64_t first = start; first < end; first += FP8_STEP) {
            const int64_t count = end - first < FP8_STEP ? end - first : FP8_STEP;
            double product[FP8_STEP], largest = fabs(sum) + error;
            matrix_span(p->b, col, first, count, product);
            for (int64_t i = 0; i < count; i++) {
                const double a = a_row[first + i], x = fabs(a), y = fabs(product[i]);
                product[i] *= a;
                const double size = (x > least_a ? x : least_a) * (y > least_b ? y : least_b);
                largest = product[i] != 0 && size > largest ? size : largest;
            }
            int exponent;
            frexp(largest, &exponent); /* largest is below 2^exponent: E is at most exponent - 1 */
            const double place = ldexp(1, exponent - 1 - 13), places = ldexp(1, 1 + 13 - exponent);
            if (first > start)
                error += place;
            for (int64_t i = 0; i < count; i++) {
                const double size = fabs(product[i]), in_places = size * places;
                sum += product[i];
                if (in_places != rint(in_places))
                    error += size < place ? size : place;
            }
            error += 0x1p-13 * (fabs(sum) + error);
        }
        total += sum;
        total_error += error;
        sizes += fabs(sum) + error;
    }
    if (p->promotion)
        total_error += additions * 0x1p-24 * sizes;
    return finish(p, total, total_error, row, col);
}

static struct reference reference_of(const struct check_problem *p, const double *a_row,
                                     int64_t row, int64_t col)
{
    return type_is_fp8(p->a->type) ? reference_fp8(p, a_row, row, col)
                                   : reference(p, a_row, row, col);
}

struct reference check_reference(const struct check_problem *p, int64_t row, int64_t col)
{
    double *a_row = malloc((size_t)(p->a->cols + 1) * sizeof *a_row);
    if (!a_row)
        return (struct reference){ NAN, 0 };
    if (p->alpha != 0)
        matrix_row(p->a, row, a_row);
    const struct reference r = reference_of(p, a_row, row, col);
    free(a_row);
    return r;
}

bool check_element(enum ptxmm_type type, struct reference expected, double got)
{
    if (isnan(expected.value))
        return isnan(got);
    return got >= type_round(type, expected.value - expected.tolerance) &&
           got <= type_round(type, expected.value + expected.tolerance);
}

double half_ulp(enum ptxmm_type type, double x)
{
    const bool half = type == PTXMM_F16;
    const int fraction = type == PTXMM_F32 ? 23 : half ? 10 : 7, least = half ? -14 : -126;
    int e;
    frexp(x, &e); /* x = f * 2^e with f in [0.5, 1) */
    if (x == 0 || e - 1 < least)
        e = least + 1;
    return ldexp(1, e - 1 - fraction - 1);
}

double check_units(enum ptxmm_type type, struct reference expected, double got)
{
    if (isnan(expected.value) || isnan(got))
        return isnan(expected.value) && isnan(got) ? 0 : HUGE_VAL;
    const double error = fabs(got - expected.value);
    if (got == expected.value || isinf(expected.tolerance))
        return 0;
    if (isinf(got) || isinf(expected.value))
        return check_element(type, expected, got) ? 0 : HUGE_VAL;
    return error / (expected.tolerance + half_ulp(type, fabs(expected.value) + expected.tolerance));
}

/* ---- the search ---- */

#define MANY_WRONG 100000

struct judge {
    const struct check_problem *problem;
    struct check_result *result;
    struct freivalds *freivalds;
    uint64_t sample_key;
    double worst_ratio;     /* largest tolerance of a sample's sum by |a| * |b| */
    pthread_mutex_t lock;
};

/* What one thread found in its part, merged under the lock. */
struct findings {
    int64_t elements, wrong, row, col;   /* row, col: first wrong one, or the one with max_units */
    double max_abs, max_units;
    struct reference expected;
    double got;
    double worst_ratio;
};

static void mark(struct check_result *r, const struct matrix *d, int64_t row, int64_t col)
{
    /* Scaled by doubles: row * map_rows may exceed 64 bits in theory only, but the map is no place
     * for an overflow. */
    const int y = (int)((double)row / (double)d->rows * r->map_rows),
              x = (int)((double)col / (double)d->cols * r->map_cols);
    r->map[y < r->map_rows ? y : r->map_rows - 1][x < r->map_cols ? x : r->map_cols - 1] = '#';
}

static void look_at(struct judge *judge, struct findings *f, struct reference expected, int64_t row,
                    int64_t col)
{
    const struct check_problem *p = judge->problem;
    const double got = matrix_get(p->d, row, col);
    const double units = check_units(p->d->type, expected, got), error = fabs(got - expected.value);
    const bool wrong = !check_element(p->d->type, expected, got);
    if (wrong) {
        pthread_mutex_lock(&judge->lock);
        mark(judge->result, p->d, row, col);
        pthread_mutex_unlock(&judge->lock);
    }
    const bool before = row < f->row || (row == f->row && col < f->col);
    if (wrong ? f->wrong == 0 || before
              : f->wrong == 0 && (f->elements == 0 || units > f->max_units)) {
        f->row = row;
        f->col = col;
        f->expected = expected;
        f->got = got;
    }
    if (isfinite(error) && error > f->max_abs)
        f->max_abs = error;
    if (units > f->max_units)
        f->max_units = units;
    f->elements++;
    f->wrong += wrong;
}

static void merge(struct judge *judge, const struct findings *f)
{
    struct check_result *r = judge->result;
    if (f->elements == 0)
        return;
    pthread_mutex_lock(&judge->lock);
    const bool before = f->row < r->row || (f->row == r->row && f->col < r->col);
    if (f->wrong ? r->wrong == 0 || before
                 : r->wrong == 0 && (r->elements == 0 || f->max_units > r->max_units)) {
        r->row = f->row;
        r->col = f->col;
        r->expected = f->expected.value;
        r->tolerance = f->expected.tolerance;
        r->got = f->got;
    }
    r->elements += f->elements;
    r->wrong += f->wrong;
    r->max_abs = fmax(r->max_abs, f->max_abs);
    r->max_units = fmax(r->max_units, f->max_units);
    judge->worst_ratio = fmax(judge->worst_ratio, f->worst_ratio);
    pthread_mutex_unlock(&judge->lock);
}

static bool enough(struct judge *judge)
{
    pthread_mutex_lock(&judge->lock);
    const bool stop = judge->result->wrong >= MANY_WRONG || judge->result->out_of_memory;
    judge->result->more |= judge->result->wrong >= MANY_WRONG;
    pthread_mutex_unlock(&judge->lock);
    return stop;
}

static double *a_row_buffer(struct judge *judge)
{
    double *row = malloc((size_t)(judge->problem->a->cols + 1) * sizeof *row);
    if (!row) {
        pthread_mutex_lock(&judge->lock);
        judge->result->out_of_memory = true;
        pthread_mutex_unlock(&judge->lock);
    }
    return row;
}

static void load_a_row(const struct check_problem *p, int64_t row, double *out)
{
    if (p->alpha != 0)
        matrix_row(p->a, row, out);
}

/* Every element of rows first..last. */
static void every_element(void *user, int64_t first, int64_t last)
{
    struct judge *judge = user;
    double *a_row = a_row_buffer(judge);
    for (int64_t row = first; a_row && row < last; row++) {
        struct findings f = { 0 };
        load_a_row(judge->problem, row, a_row);
        for (int64_t col = 0; col < judge->problem->d->cols; col++)
            look_at(judge, &f, reference_of(judge->problem, a_row, row, col), row, col);
        merge(judge, &f);
    }
    free(a_row);
}

/* Samples: the four corners, then random places. */
static void samples(void *user, int64_t first, int64_t last)
{
    struct judge *judge = user;
    const struct check_problem *p = judge->problem;
    double *a_row = a_row_buffer(judge);
    struct findings f = { 0 };
    for (int64_t i = first; a_row && i < last; i++) {
        const uint64_t counter = 2 * (uint64_t)i;
        const int64_t row = i < 4 ? (i & 1) * (p->d->rows - 1)
                                  : random_range(judge->sample_key, counter, 0, p->d->rows - 1);
        const int64_t col = i < 4 ? (i >> 1) * (p->d->cols - 1)
                                  : random_range(judge->sample_key, counter + 1, 0, p->d->cols - 1);
        load_a_row(p, row, a_row);
        const struct reference expected = reference_of(p, a_row, row, col);
        if (check_element(p->d->type, expected, matrix_get(p->d, row, col)))
            look_at(judge, &f, expected, row, col);
        else /* counted when its whole block is looked at */
            freivalds_suspect(judge->freivalds, row, col);
        const double ratio = expected.tolerance / freivalds_norms(judge->freivalds, a_row, col);
        if (isfinite(ratio))
            f.worst_ratio = fmax(f.worst_ratio, ratio);
    }
    merge(judge, &f);
    free(a_row);
}

/* The blocks first..last of the suspicious ones, element by element. */
static void suspects(void *user, int64_t first, int64_t last)
{
    struct judge *judge = user;
    double *a_row = a_row_buffer(judge);
    for (int64_t i = first; a_row && i < last && !enough(judge); i++) {
        struct freivalds_block block = freivalds_flagged(judge->freivalds, i);
        struct findings f = { 0 };
        load_a_row(judge->problem, block.row, a_row);
        for (int64_t col = block.col; col < block.col + block.cols; col++)
            look_at(judge, &f, reference_of(judge->problem, a_row, block.row, col), block.row, col);
        merge(judge, &f);
    }
    free(a_row);
}

static void large(struct judge *judge)
{
    const struct check_problem *p = judge->problem;
    struct check_result *r = judge->result;
    r->method = "Freivalds";
    judge->freivalds = freivalds_create(p);
    if (!judge->freivalds) {
        r->out_of_memory = true;
        return;
    }
    parallel_for(p->samples ? p->samples : 4096, 16, samples, judge);
    if (!r->out_of_memory && !freivalds_run(judge->freivalds, judge->worst_ratio))
        r->out_of_memory = true;
    if (!r->out_of_memory) {
        r->blocks = freivalds_blocks(judge->freivalds, &r->block_columns, &r->flagged);
        parallel_for(r->flagged, 4, suspects, judge);
    }
    freivalds_destroy(judge->freivalds);
}

void check_product(const struct check_problem *p, struct check_result *result)
{
    *result = (struct check_result){ .method = "every element" };
    result->map_rows = p->d->rows < CHECK_MAP_ROWS ? (int)p->d->rows : CHECK_MAP_ROWS;
    result->map_cols = p->d->cols < CHECK_MAP_COLS ? (int)p->d->cols : CHECK_MAP_COLS;
    for (int row = 0; row < result->map_rows; row++)
        memset(result->map[row], '.', (size_t)result->map_cols);

    struct judge judge = { .problem = p, .result = result,
                           .sample_key = random_key(p->seed, STREAM_SAMPLE) };
    pthread_mutex_init(&judge.lock, NULL);
    const double work = (double)p->d->rows * (double)p->d->cols * (double)p->a->cols;
    if (p->d->rows == 0 || p->d->cols == 0)
        ;
    else if (work <= (p->element_work ? (double)p->element_work : 0x1p24))
        parallel_for(p->d->rows, 1, every_element, &judge);
    else
        large(&judge);
    pthread_mutex_destroy(&judge.lock);
    result->ok = result->wrong == 0 && !result->out_of_memory;
}

void check_all(const struct check_batch *p, struct check_result *result)
{
    *result = (struct check_result){ .ok = true, .method = "every element" }; /* of no product */
    for (int64_t z = 0; z < p->d->count; z++) {
        const struct matrix a = stack_at(p->a, z), b = stack_at(p->b, z), d = stack_at(p->d, z),
                            c = p->c ? stack_at(p->c, z) : (struct matrix){ 0 };
        const struct check_problem problem = {
            .a = &a, .b = &b, .c = p->c ? &c : NULL, .d = &d, .alpha = p->alpha, .beta = p->beta,
            .promotion = p->promotion, .exact = p->exact, .seed = p->seed, .samples = p->samples,
            .element_work = p->element_work, .block_work = p->block_work
        };
        struct check_result one;
        check_product(&problem, &one);
        one.matrix = z;
        if (z == 0) {
            *result = one;
            continue;
        }
        /* The first that is wrong, or the worst of the right ones, says where. */
        const bool further = result->ok && (!one.ok || one.max_units > result->max_units);
        const struct check_result other = further ? *result : one;
        if (further)
            *result = one;
        result->elements += other.elements;
        result->blocks += other.blocks;
        result->flagged += other.flagged;
        result->wrong += other.wrong;
        result->more |= other.more;
        result->max_abs = fmax(result->max_abs, other.max_abs);
        result->out_of_memory |= other.out_of_memory;
        result->ok = result->ok && other.ok;
    }
    result->matrices = p->d->count;
}

/* ---- words ---- */

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(t->at, t->left, format, list);
    va_end(list);
    const size_t used = n < 0 ? 0 : (size_t)n < t->left ? (size_t)n : t->left ? t->left - 1 : 0;
    t->at += used;
    t->left -= used;
}

const char *check_describe(const struct check_result *r, char *text, size_t size)
{
    struct text t = { text, size };
    if (size)
        *text = 0;
    if (r->out_of_memory) {
        add(&t, "not checked: host memory is exhausted\n");
        return text;
    }
    const char *verdict = r->ok ? "right" : "WRONG";
    if (r->blocks && r->block_columns > 1)
        add(&t,
            "%s: Freivalds over all blocks of %d columns (%lld, of which %lld looked at again), and "
            "%lld elements",
            verdict, r->block_columns, (long long)r->blocks, (long long)r->flagged,
            (long long)r->elements);
    else
        add(&t, "%s: all %lld elements computed in double", verdict,
            (long long)(r->blocks ? r->blocks : r->elements));
    add(&t, "\nlargest error %.3g absolute, %.3g of what is allowed\n", r->max_abs, r->max_units);
    if (r->ok)
        return text;
    const char *verb = r->more ? " and more are" : r->wrong == 1 ? " is" : " are";
    add(&t, "%lld%s wrong; first at ", (long long)r->wrong, verb);
    if (r->matrices > 1)
        add(&t, "matrix %lld ", (long long)r->matrix);
    add(&t, "[%lld, %lld]: ", (long long)r->row, (long long)r->col);
    add(&t, "expected %.9g (within %.3g before rounding), got %.9g\n", r->expected, r->tolerance,
        isnan(r->got) ? NAN : r->got);
    for (int row = 0; row < r->map_rows; row++)
        add(&t, "  %s\n", r->map[row]);
    return text;
}
