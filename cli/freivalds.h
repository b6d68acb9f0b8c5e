/* freivalds.h -- D r = alpha * A (B r) + beta * C r in double, over blocks of columns: finds the
 * blocks worth a closer look. Used by check.c, which makes the final judgement. */
#ifndef FREIVALDS_H
#define FREIVALDS_H

#include "check.h"

struct freivalds;

/* Chooses the signs and multiplies B by them. NULL: out of memory. */
struct freivalds *freivalds_create(const struct check_problem *problem);
void freivalds_destroy(struct freivalds *f); /* accepts NULL */

/* |a| * |b|: euclidean lengths of a row of A, given as doubles, and of column `col` of B. */
double freivalds_norms(const struct freivalds *f, const double *a_row, int64_t col);

/* Marks the block of an element for a closer look. */
void freivalds_suspect(struct freivalds *f, int64_t row, int64_t col);

/* Compares both sides of every block. `ratio`: the largest tolerance of sampled elements, as a
 * share of |a| * |b|; twice that is taken for every element. It only decides what is looked at
 * again, never what is right. False: out of memory. */
bool freivalds_run(struct freivalds *f, double ratio);

struct freivalds_block {
    int64_t row, col, cols; /* elements [row, col .. col + cols - 1] of D */
};
/* The number of blocks, their columns, and how many are flagged. */
int64_t freivalds_blocks(const struct freivalds *f, int *columns, int64_t *flagged);
struct freivalds_block freivalds_flagged(const struct freivalds *f, int64_t index);

/* Half a unit in the last place of `type` at x >= 0 (check.c). */
double half_ulp(enum ptxmm_type type, double x);

#endif
