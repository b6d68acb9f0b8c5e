#include "arena.h"

#include <stdint.h>
#include <stdlib.h>

enum { CHUNK = 64 * 1024, BIG = CHUNK / 4, ALIGN = 16 };

struct chunk {
    struct chunk *next;
    size_t used, size;          /* of the bytes behind the header */
};

enum { HEADER = (sizeof(struct chunk) + ALIGN - 1) / ALIGN * ALIGN };

struct arena {
    struct chunk *chunks;       /* the first is the one being filled */
};

/* calloc, so that large blocks are untouched zero pages until they are used */
static struct chunk *chunk_new(size_t size)
{
    struct chunk *c = size > SIZE_MAX - HEADER ? NULL : calloc(1, HEADER + size);

    if (c)
        c->size = size;
    return c;
}

struct arena *arena_new(void)
{
    struct arena *arena = calloc(1, sizeof *arena);

    if (arena && !(arena->chunks = chunk_new(CHUNK))) {
        free(arena);
        arena = NULL;
    }
    return arena;
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    for (struct chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(arena);
}

void *arena_alloc(struct arena *arena, size_t size)
{
    struct chunk *c = arena->chunks;

    if (size > SIZE_MAX - ALIGN)
        return NULL;
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (size >= BIG) {
        struct chunk *big = chunk_new(size);

        if (!big)
            return NULL;
        big->used = size;
        big->next = c->next;    /* behind the one being filled */
        c->next = big;
        return (char *)big + HEADER;
    }
    if (size > c->size - c->used) {
        struct chunk *fresh = chunk_new(CHUNK);

        if (!fresh)
            return NULL;
        fresh->next = c;
        arena->chunks = c = fresh;
    }
    c->used += size;
    return (char *)c + HEADER + c->used - size;
}
