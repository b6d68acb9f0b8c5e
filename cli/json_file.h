/* json_file.h -- a file of JSON that somebody names on the command line. */
#ifndef CLI_JSON_FILE_H
#define CLI_JSON_FILE_H

#include <jansson.h>
#include <stddef.h>

/* What is in it. NULL: `error` has one line that names the file and, where it is not JSON, the line. An object has no name twice. */
json_t *json_file_read(const char *file, char *error, size_t size);

#endif
