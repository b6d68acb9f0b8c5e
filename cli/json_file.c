/* json_file.c -- see json_file.h. */
#include "json_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What the file holds is quoted: that must not end the line, nor steer a terminal. */
static void keep_on_a_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            *text = '?';
}

json_t *json_file_read(const char *file, char *error, size_t size)
{
    json_error_t why;
    errno = 0;
    FILE *stream = fopen(file, "r");
    json_t *root = stream ? json_loadf(stream, JSON_REJECT_DUPLICATES, &why) : NULL;
    const int number = errno;
    if (!stream || ferror(stream)) { /* a folder can be opened, and not be read */
        snprintf(error, size, "%s cannot be read: %s", file, strerror(number));
        json_decref(root);
        root = NULL;
    } else if (!root && why.line < 0) {
        snprintf(error, size, "%s: memory is exhausted", file);
    } else if (!root) {
        snprintf(error, size, "%s: line %d: %s", file, why.line, why.text);
    }
    if (!root)
        keep_on_a_line(error);
    if (stream)
        fclose(stream);
    return root;
}
