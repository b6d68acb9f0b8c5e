/* error.h -- one line of text about the first offence, written into the caller's struct
 * ptxmm_error. */
#ifndef LOADER_ERROR_H
#define LOADER_ERROR_H

#include <ptxmm.h>

/* Says that nothing went wrong: returns PTXMM_OK. `error` may be NULL here and below. */
enum ptxmm_status error_none(struct ptxmm_error *error);

/* Returns `status`, so that `return error_set(...)` reads well. */
enum ptxmm_status error_set(struct ptxmm_error *error, enum ptxmm_status status, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));

#endif
