/* pack.h -- what struct ptxmm is: the driver table, the options, and one slot per kernel for what
 * has been loaded. */
#ifndef LOADER_PACK_H
#define LOADER_PACK_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "choices.h"
#include "driver.h"
#include "kernels.h"

/* A kernel's place in the pack. A library is loaded once and serves every context and device. */
struct slot {
    pthread_mutex_t lock;
    CUlibrary library; /* NULL: not loaded */
    CUkernel kernel;
};

struct ptxmm {
    struct driver driver;
    char *ptx_dir, *image_dir; /* NULL: none */
    int checked;
    struct choices choices;
    void (*log)(void *log_user, const char *line);
    void *log_user;
    atomic_long users; /* plans, and calls that load; CLOSING while it is closed */
    struct slot slots[KERNEL_COUNT];
    const volatile int *fork_mark; /* a page that reads 0 in a forked child; NULL where the kernel
                                      has no such pages */
    pid_t pid;
};

/* Is this another process than the one that opened the pack? Without a system call where the kernel
 * wipes the mark on fork. */
int pack_forked(const struct ptxmm *mm);

/* Counts a plan or a loading call, so that ptxmm_close refuses. Fails, with a status, after fork
 * and while the pack closes. */
enum ptxmm_status pack_enter(struct ptxmm *mm, struct ptxmm_error *error);
void pack_leave(struct ptxmm *mm);

/* The error of a call in a forked child. */
enum ptxmm_status pack_forked_error(struct ptxmm_error *error);

/* One line to the caller's log, if there is one. */
void pack_log(const struct ptxmm *mm, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
