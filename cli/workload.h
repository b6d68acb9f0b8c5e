/* workload.h -- seeded matrices with guard bands, for the command, the tests and the bench.
 *
 *     struct matrix a;
 *     if (!matrix_create(&a, PTXMM_BF16, m, k, lda, MATRIX_INPUT)) ...
 *     matrix_fill(&a, FILL_NORMAL, seed, STREAM_A);
 *     copy a.bytes bytes from a.base to device memory `p`; the matrix begins at p + a.guard
 *     copy them back, then:  matrix_intact(&a, text, sizeof text)
 *     matrix_destroy(&a);
 *
 * The same seed gives the same numbers on every machine, whatever the leading dimension and the
 * number of threads: element (row, column) is a function of (seed, stream, row * columns + column)
 * that uses integers and exactly rounded operations only.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptxmm.h"

/* ---- random numbers: a function of a key and a counter, no state ---- */

uint64_t random_key(uint64_t seed, uint64_t stream);
uint64_t random_u64(uint64_t key, uint64_t counter);  /* 64 uniform bits */
double random_normal(uint64_t key, uint64_t counter); /* mean 0, variance 1, |x| < 8.3 */
/* low..high, both included. */
int64_t random_range(uint64_t key, uint64_t counter, int64_t low, int64_t high);

/* ---- element types: bf16, f16, f32, e4m3, e5m2 ---- */

size_t type_bytes(enum ptxmm_type type);       /* 0 for a type that has no conversion here */
const char *type_name(enum ptxmm_type type);   /* "bf16"; "?" for values out of range */
/* "bf16", "f16", "f32", "e4m3", "e5m2"; false for others. */
bool type_parse(const char *text, enum ptxmm_type *type);

bool type_is_fp8(enum ptxmm_type type);

/* Which of A and B are promised to be constant: "a", "b" or "ab"; false for other texts. */
bool constant_parse(const char *text, int *a, int *b);
const char *constant_name(int a, int b); /* "" if neither is */

/* Round to nearest even, once, from the double; overflow gives infinity; a NaN becomes 7fff
 * (7fffffff, 7f), as cvt.rn does. A number that overflows in fp8 becomes the largest one, as
 * cvt.rn.satfinite does, and so does infinity in e4m3, which has none. */
uint16_t bf16_from_double(double x);
uint16_t f16_from_double(double x);
uint32_t f32_from_double(double x);
uint8_t e4m3_from_double(double x);
uint8_t e5m2_from_double(double x);
double bf16_to_double(uint16_t bits);
double f16_to_double(uint16_t bits);
double f32_to_double(uint32_t bits);
double e4m3_to_double(uint8_t bits);
double e5m2_to_double(uint8_t bits);
void type_store(enum ptxmm_type type, void *at, double x);
double type_load(enum ptxmm_type type, const void *at);
double type_round(enum ptxmm_type type, double x); /* the value after one rounding into the type */

/* ---- matrices ---- */

enum matrix_role {
    MATRIX_INPUT, /* guards and padding are NaN: a kernel that reads them spoils its result */
    MATRIX_OUTPUT /* guards and padding are a pattern that no kernel writes; elements begin as NaN
                   */
};

struct matrix {
    enum ptxmm_type type;
    enum matrix_role role;
    int64_t rows, cols, ld; /* row r begins at data + r * ld * size */
    size_t size;            /* bytes of an element */
    size_t guard; /* bytes of guard before the matrix; at least as many follow its last row */
    size_t bytes;           /* everything from base: guard, rows * ld elements, guard */
    unsigned char *base, *data;
};

#define MATRIX_GUARD 4096 /* a multiple of every alignment that a kernel asks for */

/* Allocates and poisons everything. ld 0: packed (cols). False: more than host memory has, or ld <
 * cols, or an unknown type. Zero rows or columns are fine. B of a product is created as N x K: row
 * n is column n of B, contiguous along K. */
bool matrix_create(struct matrix *x, enum ptxmm_type type, int64_t rows, int64_t cols, int64_t ld,
                   enum matrix_role role);
void matrix_destroy(struct matrix *x); /* accepts a zeroed struct */
void matrix_poison(struct matrix *x);  /* back to the state after matrix_create */

double matrix_get(const struct matrix *x, int64_t row, int64_t col);
void matrix_set(struct matrix *x, int64_t row, int64_t col, double value);
/* Elements [row, first .. first + count - 1], or the whole row, as doubles. */
void matrix_span(const struct matrix *x, int64_t row, int64_t first, int64_t count, double *out);
void matrix_row(const struct matrix *x, int64_t row, double *out);

/* Are guards and padding as matrix_create left them? If not, says where, to follow "was written:".
 * Guards are looked at first, then padding row by row, then what lies behind. */
bool matrix_intact(const struct matrix *x, char *text, size_t size);

/* ---- batches: matrices of one size in one buffer ----
 *
 * They lie behind one another, `apart` elements from one to the next, or beside one another within
 * the rows (apart < ld). What is between them is guarded like padding. */
struct stack {
    struct matrix whole; /* what is copied: base and bytes; with one matrix it is that matrix */
    int64_t count;
    int64_t rows, cols, ld; /* of each */
    int64_t apart;          /* 0 if there is one */
};

/* As matrix_create. False also where matrices would overlap. apart 0, or count 1: one matrix. */
bool stack_create(struct stack *x, enum ptxmm_type type, int64_t count, int64_t rows, int64_t cols,
                  int64_t ld, int64_t apart, enum matrix_role role);
void stack_destroy(struct stack *x);
void stack_poison(struct stack *x);
/* Matrix z; the only one where there is one. A view: it has no guards and owns nothing. */
struct matrix stack_at(const struct stack *x, int64_t z);
bool stack_intact(const struct stack *x, char *text, size_t size);

enum matrix_fill {
    FILL_NORMAL, /* N(0,1), rounded to the type */
    FILL_ZEROS,
    FILL_ONES,        /* the product is K exactly */
    FILL_SMALL_INT,   /* integers -3..3: products and sums are exact up to K = 1.8 million */
    FILL_POWERS,      /* +-2^e, e in -3..3: exact up to K = 4096; fp8: e in -1..1 */
    FILL_ALTERNATING, /* +1, -1 along a row */
    FILL_WIDE,        /* N(0,1) * 2^e, e in -12..12 (f16: -6..6, fp8: -4..4) */
    FILL_SPECIALS, /* N(0,1) with one element in 64 zero, minus zero, subnormal, largest or smallest
                      normal */
    FILL_COUNT
};
const char *fill_name(enum matrix_fill fill);
/* Sums of products need no rounding in f32, within the K above. */
bool fill_is_exact(enum matrix_fill fill);
/* Does this kernel add up k of them without rounding? Fast fp8 sums have 14 significant bits. */
bool fill_is_exact_in(enum matrix_fill fill, const struct ptxmm_kernel_info *kernel, int64_t k);

enum {
    STREAM_A = 1,
    STREAM_B = 2,
    STREAM_C = 3,
    STREAM_SAMPLE = 4,
    STREAM_SIGN = 5,
    STREAM_SHAPE = 6
};
void matrix_fill(struct matrix *x, enum matrix_fill fill, uint64_t seed, uint64_t stream);
/* Each of another seed, the first of this one. */
void stack_fill(struct stack *x, enum matrix_fill fill, uint64_t seed, uint64_t stream);

#endif
