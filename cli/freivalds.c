/* freivalds.c -- Freivalds' check over blocks of columns.
 *
 * With r of random signs, a block of w columns of row i is one number on each side:
 *
 *     y[i]  =  sum over j in block of r[j] * D[i,j]
 *     y'[i] =  alpha * sum over k of A[i,k] * V[k]  +  beta * sum over j of r[j] * C[i,j],     V[k]
 * = sum over j of r[j] * B[k,j]
 *
 * so the right side costs M*K for each block, a w-th of the whole product. Narrow blocks matter: a
 * wrong element must stand out from the rounding of its w neighbours. With w = 1 every element is
 * computed.
 */
#include "freivalds.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "parallel.h"

#define MAX_COLUMNS 64
#define ROWS 16    /* rows of A that a thread holds as doubles */
#define SLICE 1024 /* of K: 4 blocks of V are 32 KB, ROWS rows of A are 128 KB */

typedef double pair __attribute__((vector_size(16))); /* two doubles, one SSE register */

struct freivalds {
    const struct check_problem *problem;
    uint64_t sign_key;
    int64_t k;          /* 0 when alpha is 0 */
    int64_t pitch;      /* of V: k rounded up to an even number, zero filled */
    int64_t columns, blocks; /* columns of a block, blocks of a row */
    double *v;          /* [blocks rounded up to 4][pitch] */
    double *norm;       /* of the columns of B: [N] */
    double *block_norm; /* sum of norm over a block */
    double ratio;
    pthread_mutex_t lock;
    struct freivalds_block *flagged;
    int64_t flagged_count, flagged_capacity;
    bool failed;
};

static double sign(const struct freivalds *f, int64_t col)
{
    return random_u64(f->sign_key, (uint64_t)col) >> 63 ? -1 : 1;
}

static double length(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void fail(struct freivalds *f)
{
    pthread_mutex_lock(&f->lock);
    f->failed = true;
    pthread_mutex_unlock(&f->lock);
}

static int64_t block_end(const struct freivalds *f, int64_t block)
{
    const int64_t end = (block + 1) * f->columns, n = f->problem->d->cols;
    return end < n ? end : n;
}

static void multiply_b(void *user, int64_t first, int64_t last)
{
    struct freivalds *f = user;
    double *row = malloc((size_t)(f->k + 1) * sizeof *row);
    if (!row) {
        fail(f);
        return;
    }
    for (int64_t block = first; block < last; block++) {
        double *v = f->v + block * f->pitch;
        for (int64_t col = block * f->columns; col < block_end(f, block); col++) {
            if (f->k)
                matrix_row(f->problem->b, col, row);
            const double r = sign(f, col);
            for (int64_t i = 0; i < f->k; i++)
                v[i] += r * row[i];
            f->norm[col] = length(row, f->k);
            f->block_norm[block] += f->norm[col];
        }
    }
    free(row);
}

struct freivalds *freivalds_create(const struct check_problem *p)
{
    struct freivalds *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->problem = p;
    f->sign_key = random_key(p->seed, STREAM_SIGN);
    f->k = p->alpha != 0 ? p->a->cols : 0;
    f->pitch = (f->k + 1) / 2 * 2;
    pthread_mutex_init(&f->lock, NULL);

    const double work = (double)p->d->rows * (double)p->d->cols * (double)f->k;
    const double allowed = p->block_work ? (double)p->block_work : 0x1p34;
    f->columns = 1;
    while (f->columns < MAX_COLUMNS && work / (double)f->columns > allowed)
        f->columns *= 2;
    f->blocks = (p->d->cols + f->columns - 1) / f->columns;

    const size_t padded = (size_t)(f->blocks + 3) / 4 * 4;
    f->v = calloc(padded * (size_t)f->pitch + 1, sizeof *f->v);
    f->norm = calloc((size_t)p->d->cols + 1, sizeof *f->norm);
    f->block_norm = calloc((size_t)f->blocks + 1, sizeof *f->block_norm);
    if (f->v && f->norm && f->block_norm)
        parallel_for(f->blocks, 4, multiply_b, f);
    if (f->v && f->norm && f->block_norm && !f->failed)
        return f;
    freivalds_destroy(f);
    return NULL;
}

void freivalds_destroy(struct freivalds *f)
{
    if (!f)
        return;
    pthread_mutex_destroy(&f->lock);
    free(f->v);
    free(f->norm);
    free(f->block_norm);
    free(f->flagged);
    free(f);
}

double freivalds_norms(const struct freivalds *f, const double *a_row, int64_t col)
{
    return length(a_row, f->k) * f->norm[col];
}

static pair load(const double *at)
{
    pair x;
    memcpy(&x, at, sizeof x);
    return x;
}

/* y[row][block .. block+3] += a[row][0 .. n-1] . V[block .. block+3][0 .. n-1] for two rows; n is
 * even. */
static void two_by_four(const double *a0, const double *a1, const double *v, int64_t pitch,
                        int64_t n, double *y0, double *y1)
{
    pair s[2][4] = { { { 0 } } };
    for (int64_t i = 0; i < n; i += 2) {
        const pair x0 = load(a0 + i), x1 = load(a1 + i);
        for (int b = 0; b < 4; b++) {
            const pair w = load(v + b * pitch + i);
            s[0][b] += x0 * w;
            s[1][b] += x1 * w;
        }
    }
    for (int b = 0; b < 4; b++) {
        y0[b] += s[0][b][0] + s[0][b][1];
        y1[b] += s[1][b][0] + s[1][b][1];
    }
}

static void flag(struct freivalds *f, int64_t row, int64_t block)
{
    pthread_mutex_lock(&f->lock);
    if (f->flagged_count == f->flagged_capacity) {
        const int64_t capacity = 2 * f->flagged_capacity + 64;
        struct freivalds_block *grown = realloc(f->flagged, (size_t)capacity * sizeof *grown);
        if (grown) {
            f->flagged = grown;
            f->flagged_capacity = capacity;
        } else
            f->failed = true;
    }
    if (f->flagged_count < f->flagged_capacity)
        f->flagged[f->flagged_count++] =
            (struct freivalds_block){ row, block * f->columns,
                                      block_end(f, block) - block * f->columns };
    pthread_mutex_unlock(&f->lock);
}

void freivalds_suspect(struct freivalds *f, int64_t row, int64_t col)
{
    flag(f, row, col / f->columns);
}

/* Both sides of a row's blocks. `product` is A V of the row, `a_norm` the row's length. */
static void compare_row(struct freivalds *f, int64_t row, const double *product, double a_norm)
{
    const struct check_problem *p = f->problem;
    for (int64_t block = 0; block < f->blocks; block++) {
        double left = 0, right = p->alpha != 0 ? p->alpha * product[block] : 0, linear = 0,
               square = 0, size = 0;
        for (int64_t col = block * f->columns; col < block_end(f, block); col++) {
            const double r = sign(f, col), d = matrix_get(p->d, row, col),
                         half = half_ulp(p->d->type, fabs(d));
            left += r * d;
            linear += half;
            square += half * half;
            size += fabs(d);
            if (p->beta != 0) {
                const double c = p->beta * matrix_get(p->c, row, col);
                right += r * c;
                size += fabs(c);
            }
        }
        /* D's rounding errors are independent, uniform within half an ulp: six standard deviations,
         * or all of them at their worst where that is less. The sums' errors may agree in sign:
         * twice the sampled share, added up. The last term is the double arithmetic of this very
         * check. */
        const double norms = a_norm * f->block_norm[block];
        const double allowed = fmin(linear, 6 * sqrt(square / 3)) + 2 * f->ratio * norms +
                               0x1p-44 * (fabs(p->alpha) * norms + size);
        const double difference = fabs(left - right);
        if (!(difference <= allowed) ||
            !isfinite(allowed)) /* a NaN or an infinity in sight: no sum says anything */
            flag(f, row, block);
    }
}

static void compare(void *user, int64_t first, int64_t last)
{
    struct freivalds *f = user;
    const int64_t groups = (f->blocks + 3) / 4;
    double *a = calloc((size_t)(ROWS * f->pitch) + 1, sizeof *a),
           *y = malloc((size_t)(ROWS * groups * 4) * sizeof *y);
    if (!a || !y)
        fail(f);
    for (int64_t top = first; a && y && top < last; top += ROWS) {
        const int64_t rows = last - top < ROWS ? last - top : ROWS;
        for (int64_t i = 0; i < rows && f->k; i++)
            matrix_row(f->problem->a, top + i, a + i * f->pitch);
        memset(y, 0, (size_t)(ROWS * groups * 4) * sizeof *y);
        for (int64_t k = 0; k < f->pitch; k += SLICE) {
            const int64_t n = f->pitch - k < SLICE ? f->pitch - k : SLICE;
            for (int64_t g = 0; g < groups; g++)
                for (int64_t i = 0; i < rows;
                     i += 2) /* an odd last row is paired with an unused one */
                    two_by_four(a + i * f->pitch + k, a + (i + 1) * f->pitch + k,
                                f->v + 4 * g * f->pitch + k, f->pitch, n, y + (i * groups + g) * 4,
                                y + ((i + 1) * groups + g) * 4);
        }
        for (int64_t i = 0; i < rows; i++)
            compare_row(f, top + i, y + i * groups * 4, length(a + i * f->pitch, f->k));
    }
    free(a);
    free(y);
}

static int by_place(const void *x, const void *y)
{
    const struct freivalds_block *a = x, *b = y;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return a->col < b->col ? -1 : a->col > b->col;
}

bool freivalds_run(struct freivalds *f, double ratio)
{
    f->ratio = ratio;
    parallel_for(f->problem->d->rows, ROWS, compare, f);
    if (f->flagged_count)
        qsort(f->flagged, (size_t)f->flagged_count, sizeof *f->flagged, by_place);
    int64_t kept = 0; /* a sample and the comparison may both have named a block */
    for (int64_t i = 0; i < f->flagged_count; i++)
        if (i == 0 || by_place(&f->flagged[i], &f->flagged[kept - 1]))
            f->flagged[kept++] = f->flagged[i];
    f->flagged_count = kept;
    return !f->failed;
}

int64_t freivalds_blocks(const struct freivalds *f, int *columns, int64_t *flagged)
{
    *columns = (int)f->columns;
    *flagged = f->flagged_count;
    return f->blocks * f->problem->d->rows;
}

struct freivalds_block freivalds_flagged(const struct freivalds *f, int64_t index)
{
    return f->flagged[index];
}
