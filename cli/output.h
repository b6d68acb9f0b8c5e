/* output.h -- standard output: what was printed was written, or it is said. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>

/* Before anything is opened. A standard file that was closed would give its number to the next file, which would then get what is
 * printed; here it becomes one that cannot be written. */
void output_begin(void);

/* Writes what is left. False: after one line on standard error. */
bool output_end(const char *program);

#endif
