#include "text.h"

#include <stdio.h>
#include <stdlib.h>

char *text_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long end;
    if (!file)
        return NULL;
    if (!fseek(file, 0, SEEK_END) && (end = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET) &&
        (text = malloc((size_t)end + 1)) != NULL) {
        const size_t n = fread(text, 1, (size_t)end, file);
        text[n] = 0;
        if (size)
            *size = n;
        if (n != (size_t)end) {
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}
