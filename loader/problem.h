/* problem.h -- a checked problem in the numbers that selection and plans need. */
#ifndef LOADER_PROBLEM_H
#define LOADER_PROBLEM_H

#include <ptxmm.h>

/* An operand as it lies in memory: `matrices` of them, `apart` elements from one to the next, each
 * `outer` runs of `inner` contiguous elements, `ld` elements apart. */
struct extent {
    int64_t inner, outer;
    int64_t ld; /* never 0 */
    int type_bits;
    int64_t matrices; /* 1 where there is no batch */
    int64_t apart;    /* 0: one matrix serves the whole batch; also where there is one */
};

/* Bits of one stored element; 0 for NONE and unknown values. */
int problem_type_bits(enum ptxmm_type type);
const char *problem_type_name(enum ptxmm_type type); /* "BF16" */
const char *problem_layout_name(enum ptxmm_layout layout,
                                int is_output);              /* "K_MAJOR"; of C and D "ROW_MAJOR" */
const char *problem_kind_name(enum ptxmm_problem_kind kind); /* "BATCH_POINTERS" */
const char *problem_accumulate_name(enum ptxmm_accumulate accumulate); /* "FAST" */
const char *problem_scale_name(enum ptxmm_scale_mode mode);  /* "BLOCK_1X128" */

/* The operand `which` ('a', 'b', 'c', 'd' or 'x' for aux) of a checked problem. */
struct extent problem_extent(const struct ptxmm_problem *problem, char which);

/* Number of matrices: 1 for a dense problem. */
int64_t problem_batch(const struct ptxmm_problem *problem);

/* Is D empty, so that there is nothing to do? */
int problem_is_empty(const struct ptxmm_problem *problem);

#endif
