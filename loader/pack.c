/* pack.c -- opening and closing. */
#define _GNU_SOURCE
#include "pack.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "error.h"
#include "images.h"

enum { CLOSING = -1 };

/* getpid is a system call, too dear for every run of a plan; a page that fork wipes costs one load.
 */
static const volatile int *fork_mark_new(size_t size)
{
#ifdef MADV_WIPEONFORK
    int *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, size, MADV_WIPEONFORK)) {
        munmap(page, size);
        return NULL;
    }
    *page = 1;
    return page;
#else
    (void)size;
    return NULL;
#endif
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

int pack_forked(const struct ptxmm *mm)
{
    return mm->fork_mark ? *mm->fork_mark == 0 : getpid() != mm->pid;
}

enum ptxmm_status pack_forked_error(struct ptxmm_error *error)
{
    return error_set(
        error, PTXMM_ERROR_FORKED,
        "the pack was opened by a parent process; after fork() it can only be closed "
        "and opened again");
}

enum ptxmm_status pack_enter(struct ptxmm *mm, struct ptxmm_error *error)
{
    if (pack_forked(mm))
        return pack_forked_error(error);
    long users = atomic_load(&mm->users);
    do {
        if (users == CLOSING)
            return error_set(error, PTXMM_ERROR_BUSY, "the pack is being closed by another thread");
    } while (!atomic_compare_exchange_weak(&mm->users, &users, users + 1));
    return PTXMM_OK;
}

void pack_leave(struct ptxmm *mm)
{
    atomic_fetch_sub(&mm->users, 1);
}

void pack_log(const struct ptxmm *mm, const char *format, ...)
{
    if (!mm->log)
        return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    mm->log(mm->log_user, line);
}

/* Frees what ptxmm_open made; the kernels have been unloaded. */
static void pack_free(struct ptxmm *mm)
{
    for (size_t i = 0; i < KERNEL_COUNT; i++)
        pthread_mutex_destroy(&mm->slots[i].lock);
    if (mm->fork_mark)
        munmap((void *)mm->fork_mark, page_size());
    free(mm->ptx_dir);
    free(mm->image_dir);
    choices_free(&mm->choices);
    free(mm);
}

static enum ptxmm_status check_options(const struct ptxmm_options *options,
                                       struct ptxmm_error *error)
{
    if (options->checked != 0 && options->checked != 1)
        return error_set(error, PTXMM_ERROR_ARGUMENT, "options.checked is %d, must be 0 or 1",
                         options->checked);
    for (size_t i = 0; i < sizeof options->reserved / sizeof options->reserved[0]; i++)
        if (options->reserved[i])
            return error_set(error, PTXMM_ERROR_ARGUMENT,
                             "options.reserved[%zu] is not 0, must be 0", i);
    return PTXMM_OK;
}

enum ptxmm_status ptxmm_open(struct ptxmm **out, const struct ptxmm_options *options,
                             struct ptxmm_error *error)
{
    if (!out)
        return error_set(error, PTXMM_ERROR_ARGUMENT,
                         "mm is NULL, must point to where the handle goes");
    *out = NULL;
    static const struct ptxmm_options defaults;
    if (!options)
        options = &defaults;
    enum ptxmm_status status = check_options(options, error);
    if (status)
        return status;

    struct ptxmm *mm = calloc(1, sizeof *mm);
    if (!mm)
        return error_set(error, PTXMM_ERROR_MEMORY, "no memory for the pack's handle (%zu bytes)",
                         sizeof *mm);
    for (size_t i = 0; i < KERNEL_COUNT; i++)
        pthread_mutex_init(&mm->slots[i].lock, NULL);
    mm->checked = options->checked;
    mm->log = options->log;
    mm->log_user = options->log_user;
    mm->pid = getpid();
    mm->fork_mark = fork_mark_new(page_size());

    const char *ptx_dir = options->ptx_dir ? options->ptx_dir : secure_getenv("PTXMM_PTX_DIR");
    if (ptx_dir && ptx_dir[0])
        mm->ptx_dir = strdup(ptx_dir);
    if (options->image_dir)
        mm->image_dir = strdup(options->image_dir);
    if ((ptx_dir && ptx_dir[0] && !mm->ptx_dir) || (options->image_dir && !mm->image_dir))
        status = error_set(error, PTXMM_ERROR_MEMORY, "no memory for the folders' names");
    size_t skipped = 0;
    if (!status)
        status = choices_copy(options->choices, options->choice_count, &mm->choices, &skipped, error);
    if (!status)
        status = driver_open(&mm->driver, options->driver, error);
    if (status) {
        pack_free(mm);
        return status;
    }
    if (skipped)
        pack_log(mm, "%zu of %zu choices name kernels that this pack has not", skipped,
                 options->choice_count);
    pack_log(mm, "driver %s supports CUDA %d.%d", mm->driver.path, mm->driver.version / 1000,
             mm->driver.version % 1000 / 10);
    *out = mm;
    return error_none(error);
}

enum ptxmm_status ptxmm_close(struct ptxmm **out, struct ptxmm_error *error)
{
    if (!out || !*out)
        return error_none(error);
    struct ptxmm *mm = *out;
    long users = 0;
    if (!atomic_compare_exchange_strong(&mm->users, &users, CLOSING))
        return error_set(error, PTXMM_ERROR_BUSY,
                         "%ld plans exist or are being made; they must be destroyed first", users);

    // In a forked child the driver is dead: its calls would fail or hang, and the parent still has
    // the kernels.
    enum ptxmm_status status = error_none(error);
    for (size_t i = 0; i < KERNEL_COUNT && !pack_forked(mm); i++) {
        enum ptxmm_status unloaded = image_unload(mm, i, status ? NULL : error);
        if (!status)
            status = unloaded;
    }
    pack_free(mm);
    *out = NULL;
    return status;
}

const char *ptxmm_driver_path(const struct ptxmm *mm)
{
    return mm ? mm->driver.path : NULL;
}

int ptxmm_driver_version(const struct ptxmm *mm)
{
    return mm ? mm->driver.version : 0;
}
