/* Groups of asynchronous operations: what a thread has issued, committed, and may wait for. */
#include "async.h"

#include <stdlib.h>
#include <string.h>

void async_groups_close(struct async_groups *groups)
{
    free(groups->slots);
    memset(groups, 0, sizeof *groups);
}

static struct async_group *slot(const struct async_groups *g, uint32_t group)
{
    return &g->slots[group & (g->capacity - 1)];
}

static bool reserve(struct async_groups *g)
{
    const uint32_t used = g->open - g->oldest + 1;
    struct async_groups grown = *g;

    if (used < g->capacity)
        return true;
    grown.capacity = g->capacity ? 2 * g->capacity : 4;
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    if (g->capacity)
        for (uint32_t i = g->oldest; i != g->open + 1; i++)
            *slot(&grown, i) = *slot(g, i);
    free(g->slots);
    *g = grown;
    return true;
}

bool async_groups_issue(struct async_groups *groups)
{
    if (!reserve(groups))
        return false;
    slot(groups, groups->open)->unread++;
    slot(groups, groups->open)->undone++;
    groups->used = groups->open + 1;
    return true;
}

static void retire(struct async_groups *groups)
{
    while (groups->oldest != groups->open && slot(groups, groups->oldest)->undone == 0)
        groups->oldest++;
}

void async_groups_read(struct async_groups *groups, uint32_t group)
{
    slot(groups, group)->unread--;
}

void async_groups_done(struct async_groups *groups, uint32_t group)
{
    slot(groups, group)->undone--;
    retire(groups);
}

bool async_groups_commit(struct async_groups *groups)
{
    if (!reserve(groups))
        return false;
    groups->open++;
    *slot(groups, groups->open) = (struct async_group){0};
    retire(groups);
    return true;
}

bool async_groups_passed(const struct async_groups *groups, uint32_t newest, bool read)
{
    const uint32_t pending = groups->open - groups->oldest;

    for (uint32_t i = 0; pending > newest && i < pending - newest; i++) {
        const struct async_group *g = slot(groups, groups->oldest + i);

        if (read ? g->unread : g->undone)
            return false;
    }
    return true;
}

bool async_ticket_take(struct warp *w, const struct inst *in, unsigned lane,
                       struct async_ticket *ticket)
{
    struct async_thread *thread = async_thread_of(w, in, lane);

    if (!thread)
        return false;
    if (!async_groups_issue(&thread->bulk)) {
        warp_trap(w, in, (int)lane, TRAP_MEMORY, "a bulk group");
        return false;
    }
    *ticket = (struct async_ticket){w, thread, lane, thread->bulk.open};
    return true;
}

static void ticket_wake(const struct async_ticket *t)
{
    warp_wake(t->warp, WAIT_BULK, t->warp->id * LANES + t->lane, 1u << t->lane);
}

void async_ticket_read(struct async_ticket *ticket)
{
    async_groups_read(&ticket->thread->bulk, ticket->group);
    ticket_wake(ticket);
}

void async_ticket_done(struct async_ticket *ticket)
{
    async_groups_done(&ticket->thread->bulk, ticket->group);
    ticket_wake(ticket);
}
