/* parallel.h -- a loop over all cores of the host. */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <stdint.h>

/* Calls body(user, first, last) for ranges that cover [0, count) once, each at most `grain` long
 * (>= 1), from as many threads as there are cores; returns when all are done. If threads cannot be
 * had, the caller's thread does the work. */
void parallel_for(int64_t count, int64_t grain,
                  void (*body)(void *user, int64_t first, int64_t last), void *user);

#endif
