/* npy.h -- two-dimensional float32 and float16 arrays in NumPy's file format. */
#ifndef NPY_H
#define NPY_H

#include "workload.h"

struct npy {
    enum ptxmm_type type; /* PTXMM_F32 or PTXMM_F16 */
    int64_t rows, cols;
    unsigned char *data;  /* row-major, packed; the caller frees with npy_free */
};

/* False: `error` has one line that begins with the file's name and says what it is and what it must
 * be. */
bool npy_read(const char *file, struct npy *array, char *error, size_t size);
void npy_free(struct npy *array);
double npy_get(const struct npy *array, int64_t row, int64_t col);

/* Writes a matrix as float16 if it is f16, else as float32. The file appears whole or not at all.
 */
bool npy_write(const char *file, const struct matrix *x, char *error, size_t size);

#endif
