/* shapes.h -- which products are timed: lists of "name M N K batch layout" (bench/shapes.txt), or one by hand. */
#ifndef BENCH_SHAPES_H
#define BENCH_SHAPES_H

#include <stddef.h>
#include <stdint.h>

struct shape {
    char name[40];
    int64_t m, n, k, batch;
    char layout[3]; /* A then B: k is K-major; m (A) and n (B) are MN-major */
};

struct shapes {
    struct shape *list;
    size_t count;
};

/* All that return something return 0, or -1 with one line in `why` naming the file, the line and what is wrong. Shapes are appended. */
int shapes_read(struct shapes *shapes, const char *path, char *why, size_t why_size);
int shapes_parse(struct shapes *shapes, const char *text, char *why, size_t why_size); /* "4096x4096x4096", with "x64" a batch of 64, or "4096" */
int shapes_default(struct shapes *shapes, char *why, size_t why_size);                 /* three large ones */
/* So many different products, the same for every call with a seed: a third with sizes that are all multiples of 64, a third
 * of 8, a third where M is any number. Log-uniform, M 1 to 8192, N and K 64 to 16384, at most 2e12 multiplications. */
int shapes_random(struct shapes *shapes, size_t count, uint64_t seed, char *why, size_t why_size);
void shapes_print(const struct shapes *shapes);   /* as shapes_read reads them */
void shapes_free(struct shapes *shapes);

#endif
