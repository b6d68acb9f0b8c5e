/* parallel.c -- a loop over all cores of the host: threads take ranges from one counter. */
#define _GNU_SOURCE
#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MAX_THREADS 64

struct loop {
    void (*body)(void *user, int64_t first, int64_t last);
    void *user;
    int64_t count, grain;
    _Atomic int64_t next;
};

static void *work(void *argument)
{
    struct loop *loop = argument;
    for (;;) {
        const int64_t first = atomic_fetch_add(&loop->next, loop->grain);
        if (first >= loop->count)
            return NULL;
        const int64_t last = loop->grain < loop->count - first ? first + loop->grain : loop->count;
        loop->body(loop->user, first, last);
    }
}

/* Cores this process may use: a container's mask counts, not the machine's cores. */
static int cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    const int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
}

void parallel_for(int64_t count, int64_t grain,
                  void (*body)(void *user, int64_t first, int64_t last), void *user)
{
    struct loop loop = { .body = body, .user = user, .count = count, .grain = grain };
    const int64_t pieces = count / grain + (count % grain != 0);
    int extra = cores() - 1;
    if (extra > pieces - 1)
        extra = pieces > 0 ? (int)(pieces - 1) : 0;

    pthread_t threads[MAX_THREADS];
    int started = 0;
    while (started < extra && !pthread_create(&threads[started], NULL, work, &loop))
        started++;
    work(&loop);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
