/* gemm_topics.h -- what is asked of every kernel: one cmocka test per topic and row of kernels.def. */
#ifndef GEMM_TOPICS_H
#define GEMM_TOPICS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gemm_case.h"

/* In the order of a run. Each is void topic_NAME(void **state), *state being the kernel's name. `label` and `id` are
 * handed through to X. */
#define TOPIC_LIST(X, label, id)                                                                  \
    /* gemm_sizes.c */                                                                            \
    X(edges, label, id) X(widths, label, id) X(padding, label, id) X(many_tiles, label, id)       \
    X(exact_end, label, id)                                                                       \
    /* gemm_values.c */                                                                           \
    X(fills, label, id) X(counts, label, id) X(nan_and_infinity, label, id) X(scalars, label, id) \
    X(mixed_types, label, id) X(nothing, label, id) X(repeats, label, id) X(budgets, label, id)   \
    X(batch_invariance, label, id)                                                                \
    /* gemm_order.c */                                                                            \
    X(graphs, label, id) X(two_streams, label, id) X(chains, label, id) X(foreign, label, id)     \
    /* gemm_constants.c */                                                                        \
    X(constants, label, id)                                                                       \
    /* gemm_split.c */                                                                            \
    X(clusters, label, id) X(rings, label, id) X(groups, label, id)                               \
    /* gemm_batch.c */                                                                            \
    X(batches, label, id) X(far_batches, label, id)                                               \
    /* gemm_replay.c */                                                                           \
    X(replay, label, id)                                                                          \
    /* gemm_sizes.c */                                                                            \
    X(large, label, id) X(beyond_32_bits, label, id)
#define TOPIC_DECLARE(name, label, id) void topic_##name(void **state);
TOPIC_LIST(TOPIC_DECLARE, , )
#undef TOPIC_DECLARE

/* The one driver of the program, because cmocka hands a test its kernel's name and nothing else. topic_rig.mm is NULL
 * without one. */
extern struct rig topic_rig;

/* The test's kernel. Skips, with the reason, where it cannot run; fails when an earlier fault cannot be undone. */
const struct ptxmm_kernel_info *topic_begin(void **state);
/* The same, for topics that do not look at how numbers are multiplied: of kernels that differ in the types of A and B alone, quick
 * tests run the first, and skip the others. */
const struct ptxmm_kernel_info *topic_begin_once(void **state);
void topic_skip(const char *why);

/* Counts failures; after a few the rest of a topic says nothing new. */
struct tally {
    int cases, wrong;
};
/* Where a kernel takes bf16 or f16, odd cases are f16. */
void topic_try(struct tally *tally, const struct gemm_case *c);
void topic_finish(const struct tally *tally);

/* alpha 1, no C, packed. */
struct gemm_case topic_case(const struct ptxmm_kernel_info *kernel, int64_t m, int64_t n, int64_t k,
                            enum matrix_fill fill);

/* gemm_split.c: a product of one tile for which the library takes several groups of clusters, and so a workspace. */
struct gemm_case topic_grouped_case(const struct ptxmm_kernel_info *kernel);

/* In a process of its own, because a fault takes the context: 0 the mistake was reported, 1 it was not, 2 it was not
 * tried. */
int topic_foreign_child(const char *mistake, const char *kernel);

#define LENGTH(list) (sizeof(list) / sizeof *(list))

#endif
