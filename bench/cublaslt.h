/* cublaslt.h -- cuBLASLt found at run time: the yardstick of the bench.
 *
 * Nothing links to it. The few types and entry points that a matrix product needs are declared in cublaslt.c from the
 * published interface (it has been stable since CUDA 11), so the bench builds on machines without the toolkit's math
 * libraries.
 */
#ifndef BENCH_CUBLASLT_H
#define BENCH_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#include "ptxmm.h"

struct cublaslt;        /* the library and one handle, for the current CUDA context */
struct cublaslt_matmul; /* one problem and the algorithms that the heuristic offers for it */

enum { CUBLASLT_MAX_ALGORITHMS = 8 };

/* Looks at `path`, or, when it is NULL or empty: the environment variable PTXMM_CUBLASLT, the dynamic linker's
 * places, the CUDA toolkit's, and those of pip's packages. Returns 0; -1 with one sentence in `why` when there is
 * none that works. */
int cublaslt_open(struct cublaslt **lt, const char *path, char *why, size_t why_size);
void cublaslt_close(struct cublaslt **lt);

/* The file in use, and the version as a number (130100 is 13.1.0). */
const char *cublaslt_path(const struct cublaslt *lt);
size_t cublaslt_version(const struct cublaslt *lt);

/* `one` is the device address of 1.0f, the scale of both operands where they are fp8 (kept until destruction).
 * Asks the heuristic for up to 8 algorithms, best guess first, with at most `workspace_bytes` of workspace. Dense and
 * strided-batch problems; packed or not. -1 with a sentence when cuBLASLt has none. */
int cublaslt_matmul_create(struct cublaslt *lt, const struct ptxmm_problem *problem, uint64_t one, size_t workspace_bytes,
                           struct cublaslt_matmul **matmul, char *why, size_t why_size);
void cublaslt_matmul_destroy(struct cublaslt_matmul **matmul);
int cublaslt_matmul_algorithms(const struct cublaslt_matmul *matmul);

/* D = alpha A B + beta D on `stream`. `workspace` has the bytes given at creation. 0, or cuBLAS's status. */
int cublaslt_matmul_run(const struct cublaslt_matmul *matmul, int algorithm, const struct ptxmm_arguments *arguments,
                        uint64_t workspace, void *stream);

/* "CUBLAS_STATUS_NOT_SUPPORTED" of a status. */
const char *cublaslt_status(const struct cublaslt *lt, int status);

#endif
