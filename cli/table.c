/* table.c -- aligned columns of text. */
#define _GNU_SOURCE
#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void table_add(struct table *t, const char *format, ...)
{
    if (t->cells == t->capacity) {
        const size_t capacity = 2 * t->capacity + 64;
        char **grown = realloc(t->cell, capacity * sizeof *grown);
        if (!grown)
            return;
        t->cell = grown;
        t->capacity = capacity;
    }
    va_list list;
    va_start(list, format);
    char *text;
    t->cell[t->cells++] = vasprintf(&text, format, list) < 0 ? NULL : text;
    va_end(list);
}

static const char *text_of(const struct table *t, size_t i)
{
    return i < t->cells && t->cell[i] ? t->cell[i] : "?";
}

void table_print(struct table *t, int indent)
{
    const size_t columns = strlen(t->align), rows = (t->cells + columns - 1) / columns;
    int width[TABLE_COLUMNS] = { 0 };
    for (size_t i = 0; i < t->cells; i++) {
        const int length = (int)strlen(text_of(t, i));
        if (length > width[i % columns])
            width[i % columns] = length;
    }
    for (size_t row = 0; row < rows; row++) {
        printf("%*s", indent, "");
        for (size_t c = 0; c < columns; c++) {
            const char *text = text_of(t, row * columns + c), *gap = c ? "  " : "";
            if (t->align[c] == 'r')
                printf("%s%*s", gap, width[c], text);
            else
                printf("%s%-*s", gap, c + 1 < columns ? width[c] : 0, text);
        }
        putchar('\n');
    }
    table_drop(t);
}

void table_drop(struct table *t)
{
    for (size_t i = 0; i < t->cells; i++)
        free(t->cell[i]);
    free(t->cell);
    t->cell = NULL;
    t->cells = t->capacity = 0;
}
