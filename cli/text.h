/* text.h -- a file as text. */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>

/* The whole file with a 0 behind it, *size bytes before that (size may be NULL); NULL if it cannot
 * be read. The caller frees it. */
char *text_read(const char *path, size_t *size);

#endif
