/*
 * Deadlock and livelock in words: who waits, where, and for what.
 */
#include "state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "async.h"

enum { REPORT_BYTES = 16384, REPORT_WAITERS = 48 };

struct text {
    char *at;
    size_t room;
};

static void say(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct text *t, const char *format, ...)
{
    va_list arguments;

    if (!t->room)
        return;
    va_start(arguments, format);
    const int n = vsnprintf(t->at, t->room, format, arguments);
    va_end(arguments);
    if (n < 0)
        return;
    const size_t used = (size_t)n < t->room ? (size_t)n : t->room - 1;
    t->at += used;
    t->room -= used;
}

static void say_place(struct text *t, const struct warp *w, const struct inst *in)
{
    const struct program *p = w->grid->program;
    const uint32_t pc = inst_pc(w, in);
    char source[96];

    say(t, " at %s:%u: %s", p->files[p->where[pc].file], p->where[pc].line,
        program_text(p, pc, source, sizeof source));
}

static void say_barrier(struct text *t, const struct cta *cta, const struct park *p)
{
    const struct named_barrier *b = &cta->barriers[p->key % CTA_BARRIERS];
    const unsigned expected = b->expected ? b->expected : cta->live_warps * LANES;

    say(t, "named barrier %" PRIu64 ": %u of %u threads have arrived, missing warps", p->key,
        b->arrived, expected);
    unsigned named = 0;
    for (unsigned i = 0; i < cta->warp_count; i++)
        if (cta->warps[i].alive & ~b->lanes[i])
            say(t, "%s%u", named++ ? "," : " ", i);
    if (!named)
        say(t, " none: too few threads are left");
}

static void say_wait(struct text *t, const struct warp *w, const struct park *p)
{
    const struct cta *cta = w->cta;
    const struct cluster *c = cta->cluster;
    char words[512];

    switch (p->kind) {
    case WAIT_BARRIER:
        say_barrier(t, cta, p);
        break;
    case WAIT_CLUSTER:
        say(t, "cluster barrier, phase %" PRIu64 ": %u of %u threads have arrived",
            c->barrier_phase, c->barrier_arrived, c->threads);
        break;
    case WAIT_WARP:
        say(t, "lanes %08x of the warp, still missing %08x", (uint32_t)p->key,
            (uint32_t)p->key & w->alive & ~p->lanes);
        break;
    case WAIT_WARPGROUP:
        say(t, "the warpgroup: of its four warps only those with bits %x have come",
            cta->met[p->key]);
        break;
    case WAIT_REGISTERS:
        say(t, "registers: asks for %" PRIu64 " per thread, has %u, sub-partition %" PRIu64
            " has %u x 32 free", p->want, w->registers, p->key, cta->pool[p->key] / LANES);
        break;
    case WAIT_GRID:
        say(t, "the grids before this one");
        break;
    case WAIT_TIME:
        say(t, "time %" PRIu64, p->key);
        break;
    default:
        words[0] = 0;
        async_describe(cta, p, words, sizeof words);
        say(t, "%s", words);
        break;
    }
}

static void say_warp(struct text *t, const struct warp *w, unsigned *told, unsigned *hidden)
{
    const unsigned *id = w->cta->id;

    for (unsigned i = 0; i < w->park_count; i++) {
        const struct park *p = &w->parks[i];
        if (*told == REPORT_WAITERS) {
            ++*hidden;
            continue;
        }
        ++*told;
        say(t, "\n  CTA (%u,%u,%u) warp %u lanes %08x", id[0], id[1], id[2], w->id, p->lanes);
        say_place(t, w, p->inst);
        say(t, "\n      waits for ");
        say_wait(t, w, p);
    }
    const uint32_t running = w->alive & ~w->parked;
    if (!running)
        return;
    if (*told == REPORT_WAITERS) {
        ++*hidden;
        return;
    }
    ++*told;
    say(t, "\n  CTA (%u,%u,%u) warp %u lanes %08x run", id[0], id[1], id[2], w->id, running);
    say_place(t, w, warp_inst(w, w->pc[__builtin_ctz(running)]));
}

/* The first lane that waits in the usual sense gives the trap its place. */
static void report(struct machine *m, enum trap_kind kind, const char *headline)
{
    struct site at = { .warp = -1, .lane = -1 };
    unsigned told = 0, hidden = 0;
    char *const words = malloc(REPORT_BYTES);
    struct text t = { words, words ? REPORT_BYTES : 0 };

    say(&t, "%s", headline);
    for (unsigned i = 0; i < m->grid_count; i++) {
        const struct grid *g = &m->grids[i];
        for (struct cluster *c = g->live; c; c = c->next) {
            for (unsigned k = 0; k < c->size; k++) {
                const struct cta *cta = c->ctas[k];
                for (unsigned n = 0; n < cta->warp_count; n++) {
                    const struct warp *w = &cta->warps[n];
                    if (!w->alive)
                        continue;
                    say_warp(&t, w, &told, &hidden);
                    if (!at.cta) {
                        at.cta = cta;
                        at.warp = (int)n;
                        const uint32_t lanes = w->park_count ? w->parks[0].lanes : w->alive;
                        at.lane = __builtin_ctz(lanes);
                        at.inst = w->park_count ? w->parks[0].inst
                                                : warp_inst(w, w->pc[at.lane]);
                    }
                }
            }
            if (!c->live && c->outstanding)
                say(&t, "\n  a cluster that has exited: %u asynchronous operations outstanding",
                    c->outstanding);
        }
        if (g->started < g->clusters)
            say(&t, "\n  %s: %" PRIu64 " of %" PRIu64 " clusters of CTAs have not started",
                g->fn->name, g->clusters - g->started, g->clusters);
    }
    if (hidden)
        say(&t, "\n  and %u more", hidden);
    machine_trap(m, &at, kind, "%s", words ? words : headline);
    free(words);
}

void report_deadlock(struct machine *m)
{
    report(m, TRAP_DEADLOCK, "nothing can run and nothing is under way");
}

void report_livelock(struct machine *m)
{
    char headline[128] = "every warp that can run is back in a state it was in before, and nothing "
                         "is under way";

    if (idle_for(m) > m->config.idle_steps)
        snprintf(headline, sizeof headline,
                 "%" PRIu64 " instructions without any change of memory or synchronisation",
                 m->config.idle_steps);
    report(m, TRAP_LIVELOCK, headline);
}
