/* check.h -- is D = alpha * A B + beta * C? Reference in double, tolerances derived from types and
 * K.
 *
 * Every element is covered. Small products: each element against its own dot product in double.
 * Large ones: Freivalds in double over blocks of columns, D r = alpha * A (B r) + beta * C r with r
 * of random signs; a block whose two sides differ by more than its elements' rounding explains is
 * computed again element by element, and only that decides. Beside that, whole dot products at
 * random places, and all elements of rows and columns that hold NaN or infinity.
 */
#ifndef CHECK_H
#define CHECK_H

#include "workload.h"

struct check_problem {
    const struct matrix *a;    /* M x K */
    const struct matrix *b;    /* N x K: row n is column n of B */
    const struct matrix *c;    /* M x N, or NULL */
    const struct matrix *d;    /* M x N: what is to be judged */
    double alpha, beta;        /* beta 0: C is not read; alpha 0: A and B are not */
    int64_t promotion; /* fp8: the tensor core's sum over so many of K is added in f32; 0: it runs over
                          all of K */
    bool exact; /* the inputs make every sum exact: no tolerance but D's one rounding */
    uint64_t seed;             /* of signs and samples */
    int64_t samples;           /* whole dot products beside Freivalds; 0: 4096 */
    int64_t element_work;      /* up to this M*N*K every element has its own dot product; 0: 2^24 */
    int64_t block_work; /* Freivalds' blocks are as narrow as this many multiplications allow; 0:
                           2^34 */
};

/* The value of one element and how far an f32-accumulating tensor core may be from it before D's
 * rounding. */
struct reference {
    double value, tolerance;
};
struct reference check_reference(const struct check_problem *problem, int64_t row, int64_t col);

/* got is right if round(value - tolerance) <= got <= round(value + tolerance), rounded to D's type;
 * NaN only for NaN. */
bool check_element(enum ptxmm_type type, struct reference expected, double got);
/* |got - value| in units of the tolerance plus half an ulp of D's type: <= 1 is right. NaN and
 * infinity give 0 or HUGE_VAL. */
double check_units(enum ptxmm_type type, struct reference expected, double got);

#define CHECK_MAP_ROWS 16
#define CHECK_MAP_COLS 48

struct check_result {
    bool ok;
    const char *method;      /* "every element" or "Freivalds" */
    int64_t elements;        /* that had a dot product of their own */
    int64_t blocks, flagged; /* Freivalds blocks, and those computed again */
    int block_columns;
    int64_t wrong; /* elements known to be wrong; the search stops after many, then `more` is set */
    bool more;
    double max_abs;          /* largest |got - expected| among `elements` (finite ones) */
    double max_units;        /* the same in units of tolerance + half an ulp */
    int64_t matrix, matrices; /* of a batch: which one row, col and the map are of; how many */
    int64_t row, col;        /* first wrong element (row-major), or the one with max_units */
    double expected, got, tolerance;
    char map[CHECK_MAP_ROWS]
            [CHECK_MAP_COLS + 1]; /* '.' right, '#' wrong elements there; scaled to M x N */
    int map_rows, map_cols;
    bool out_of_memory;      /* then ok is false and nothing else is said */
};
void check_product(const struct check_problem *problem, struct check_result *result);

/* A batch, or one product: the same members. Numbers are those of all products together. */
struct check_batch {
    const struct stack *a, *b, *c, *d; /* all but D may be one matrix for all */
    double alpha, beta;
    int64_t promotion;
    bool exact;
    uint64_t seed;
    int64_t samples, element_work, block_work; /* per product */
};
void check_all(const struct check_batch *batch, struct check_result *result);

/* Several lines for people: verdict, first wrong element, map. Returns text. */
const char *check_describe(const struct check_result *result, char *text, size_t size);

#endif
