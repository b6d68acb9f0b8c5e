/*
 * An arena: everything that lives as long as one program is carved from it and freed at once.
 */
#ifndef EMULATOR_ARENA_H
#define EMULATOR_ARENA_H

#include <stddef.h>

struct arena;

struct arena *arena_new(void);                          /* NULL: no memory */
void arena_free(struct arena *arena);                   /* NULL is fine */
void *arena_alloc(struct arena *arena, size_t size);    /* 16-byte aligned, zeroed; NULL: no memory */

#endif
