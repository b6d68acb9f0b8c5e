/* Memory that is short: allocations are counted, and the one that a test asks for fails. For one file of a program; where a sanitizer
 * has the allocators, or the C library is not glibc, FAILING_MEMORY is not defined. */
#ifndef TESTS_FAILING_MEMORY_H
#define TESTS_FAILING_MEMORY_H

#include <errno.h>
#include <stddef.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FAILING_MEMORY

/* The C library's own allocators under other names, so that the usual names can count and fail. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* Visible, so that the C library's calls of them come here too. */
#define VISIBLE __attribute__((visibility("default")))
VISIBLE void *malloc(size_t size);
VISIBLE void *calloc(size_t count, size_t size);
VISIBLE void *realloc(void *old, size_t size);
VISIBLE void *aligned_alloc(size_t alignment, size_t size);

/* fails_at: how many succeed before it; below 0, none fails (any more). */
static _Thread_local long allocations, fails_at = -1;

static int fails(void)
{
    allocations++;
    if (fails_at < 0 || fails_at-- > 0)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

#endif
#endif
