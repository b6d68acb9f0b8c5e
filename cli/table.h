/* table.h -- aligned columns of text. */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>

#define TABLE_COLUMNS 16

struct table {
    const char *align;          /* one letter a column: 'l' or 'r' */
    size_t cells, capacity;     /* a row is strlen(align) cells; the first row is the heading */
    char **cell;
};

/* Adds one cell, row after row. Out of memory: the cell is lost and shows as "?". */
__attribute__((format(printf, 2, 3))) void table_add(struct table *t, const char *format, ...);
/* Prints all, each line after `indent` spaces, and frees the cells. */
void table_print(struct table *t, int indent);
/* Frees the cells. */
void table_drop(struct table *t);

#endif
