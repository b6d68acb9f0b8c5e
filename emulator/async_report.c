/* What parked lanes wait for, in words. */
#include "async.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "tcgen.h"

struct words {
    char *text;
    size_t room, used;
};

static void say(struct words *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct words *s, const char *format, ...)
{
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf(s->used < s->room ? s->text + s->used : NULL,
                  s->used < s->room ? s->room - s->used : 0, format, list);
    va_end(list);
    if (n > 0)
        s->used += (size_t)n;
}

static void say_actor(struct words *s, const struct cta *cta, const char *what,
                      const struct mbar_actor *who)
{
    const struct program *p = cta->grid->program;

    if (!who->inst)
        return;
    say(s, "; last %s by %sCTA %u warp %d", what, who->lane < 0 ? "an engine for " : "", who->cta,
        who->warp);
    if (who->lane >= 0)
        say(s, " lane %d", who->lane);
    say(s, ", line %u", p->where[who->inst - p->insts].line);
}

static void describe_mbar(struct words *s, const struct cta *cta, const struct park *park)
{
    const struct mbar *bar = mbar_find(&cta->async->bars, (uint32_t)park->key);

    say(s, "the mbarrier at 0x%x", (unsigned)park->key);
    if (!bar) {
        say(s, ", which is no more");
        return;
    }
    if (park->inst->flags & INST_PARITY)
        say(s, ", parity %u", (unsigned)park->want & 1);
    else
        say(s, ", a state");
    say(s, ": phase %" PRIu64 " (parity %u), %u of %u arrivals pending, %d bytes outstanding",
        bar->phase, (unsigned)bar->phase & 1, bar->pending, bar->expected, bar->tx);
    say_actor(s, cta, "arrival", &bar->last_arrival);
    say_actor(s, cta, "byte count", &bar->last_tx);
}

static void describe_groups(struct words *s, const struct cta *cta, const struct park *park)
{
    const struct async_thread *t = async_thread_at(cta->async, (unsigned)park->key);
    const bool bulk = park->kind == WAIT_BULK;

    say(s, "%s groups of thread %u, at most %u pending%s", bulk ? "bulk" : "cp.async",
        (unsigned)park->key, (unsigned)park->want,
        bulk && park->inst->flags & INST_READ ? " reads" : "");
    if (t) {
        const struct async_groups *g = bulk ? &t->bulk : &t->copy;

        say(s, "; %u committed are not over", g->open - g->oldest);
    }
}

size_t async_describe(const struct cta *cta, const struct park *park, char *text, size_t room)
{
    struct words s = {text, room, 0};

    switch (park->kind) {
    case WAIT_MBARRIER:
        describe_mbar(&s, cta, park);
        break;
    case WAIT_BULK:
    case WAIT_COPY:
        describe_groups(&s, cta, park);
        break;
    case WAIT_WGMMA:
        return wgmma_describe(cta->async->units[park->key], park, text, room);
    case WAIT_TCGEN:
        return tcgen_describe(cta, park, text, room);
    default:
        say(&s, "something unknown");
        break;
    }
    return s.used;
}
