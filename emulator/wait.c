/*
 * Lanes that wait: parking them, waking them, and the meetings of lanes and of warps.
 */
#include "state.h"

#include <string.h>

static void settle(struct warp *w, uint32_t lanes, uint32_t pc)
{
    warp_put_pc(w, lanes, pc);
    w->settled |= lanes;
    w->regroup = true;
}

void warp_jump(struct warp *w, uint32_t lanes, uint32_t pc)
{
    settle(w, lanes, pc);
}

void warp_park(struct warp *w, const struct inst *in, uint32_t lanes, enum wait_kind kind,
               uint64_t key, uint64_t want, bool again)
{
    const uint32_t pc = inst_pc(w, in);

    w->parks[w->park_count++] = (struct park){
        .kind = kind, .lanes = lanes, .again = again, .key = key, .want = want, .inst = in,
    };
    w->parked |= lanes;
    settle(w, lanes, again ? pc : pc + 1);
    if (kind == WAIT_TIME) {
        if (key < w->wake_at)
            w->wake_at = key;
        if (key < w->m->next_timer)
            w->m->next_timer = key;
    }
}

void warp_wake(struct warp *w, enum wait_kind kind, uint64_t key, uint32_t lanes)
{
    uint32_t woken = 0;
    unsigned kept = 0;

    for (unsigned i = 0; i < w->park_count; i++) {
        struct park *p = &w->parks[i];
        if (p->kind == kind && p->key == key) {
            woken |= p->lanes & lanes;
            p->lanes &= ~lanes;
        }
        if (p->lanes)
            w->parks[kept++] = *p;
    }
    w->park_count = kept;
    if (woken) {
        w->parked &= ~woken;
        warp_ready(w);
    }
}

void cta_wake(struct cta *cta, enum wait_kind kind, uint64_t key)
{
    for (unsigned i = 0; i < cta->warp_count; i++)
        if (cta->warps[i].park_count)
            warp_wake(&cta->warps[i], kind, key, UINT32_MAX);
}

/* ---- lanes of a warp ---- */

/* Lanes that wait at the instruction for the same lanes. */
static uint32_t waiting_at(const struct warp *w, const struct inst *in, uint32_t member)
{
    uint32_t lanes = 0;

    for (unsigned i = 0; i < w->park_count; i++) {
        const struct park *p = &w->parks[i];
        if (p->kind == WAIT_WARP && p->key == member &&
            (p->inst == in || (in->op == OP_BAR_WARP && p->inst->op == OP_BAR_WARP)))
            lanes |= p->lanes;
    }
    return lanes;
}

uint32_t warp_gather(struct warp *w, const struct inst *in, uint32_t mask, uint32_t member)
{
    const uint32_t needed = member & w->alive;
    const bool aligned = in->flags & INST_ALIGNED;

    if (needed == mask)
        return mask;
    if (aligned && (w->group & ~mask)) {
        warp_trap(w, in, __builtin_ctz(w->group & ~mask), TRAP_DIVERGENT,
                  "the guard holds for lanes %08x of %08x", mask, w->group);
        return 0;
    }
    const uint32_t others = waiting_at(w, in, member);
    if (needed & ~(mask | others)) {
        warp_park(w, in, mask, WAIT_WARP, member, 0, true);
        return 0;
    }
    /* The last ones have come. The others go on together with this group. */
    for (uint32_t left = others; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        w->pc[lane]++;
    }
    warp_wake(w, WAIT_WARP, member, others);
    w->regroup = true;
    return mask | others;
}

/* Lanes have exited: who waited for them looks again. */
void warp_recheck(struct warp *w)
{
    for (unsigned i = 0; i < w->park_count; i++) {
        const struct park p = w->parks[i];
        if (p.kind != WAIT_WARP)
            continue;
        if (p.inst->flags & INST_ALIGNED) {
            warp_trap(w, p.inst, __builtin_ctz(p.lanes), TRAP_DIVERGENT,
                      "lanes %08x wait here while others of the warp have exited without coming",
                      p.lanes);
            return;
        }
        const uint32_t here = waiting_at(w, p.inst, (uint32_t)p.key);
        if (!((uint32_t)p.key & w->alive & ~here)) {
            warp_wake(w, WAIT_WARP, p.key, here);
            i = UINT32_MAX;     /* the list has changed: from the start */
        }
    }
}

/* ---- warps of a warpgroup ---- */

bool warpgroup_meet(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct cta *cta = w->cta;
    const unsigned group = w->id / WARPGROUP;

    if (w->launched != UINT32_MAX || group * WARPGROUP + WARPGROUP > cta->warp_count) {
        warp_trap(w, in, -1, TRAP_INSTRUCTION,
                  "the warpgroup is not complete: the CTA has %u threads",
                  cta->threads);
        return false;
    }
    mask = warp_gather(w, in, mask, UINT32_MAX);
    if (!mask)
        return false;
    if (mask != UINT32_MAX) {
        warp_trap(w, in, -1, TRAP_DIVERGENT, "lanes %08x of the warp have exited", ~mask);
        return false;
    }
    if (!cta->met[group])
        cta->meeting[group] = in;
    if (cta->meeting[group] != in) {
        const struct program *p = w->grid->program;
        const uint32_t there = inst_pc(w, cta->meeting[group]);
        warp_trap(w, in, -1, TRAP_MISMATCH, "other warps of the warpgroup are at line %u",
                  p->where[there].line);
        return false;
    }
    cta->met[group] |= 1u << w->id % WARPGROUP;
    if (cta->met[group] != (1u << WARPGROUP) - 1) {
        warp_park(w, in, UINT32_MAX, WAIT_WARPGROUP, group, 0, false);
        return false;
    }
    cta->met[group] = 0;
    cta->meeting[group] = NULL;
    for (unsigned i = 0; i < WARPGROUP; i++)
        warp_wake(&cta->warps[group * WARPGROUP + i], WAIT_WARPGROUP, group, UINT32_MAX);
    return true;
}

/* ---- time ---- */

void timers_run(struct machine *m)
{
    uint64_t next = UINT64_MAX;

    for (unsigned i = 0; i < m->grid_count; i++)
        for (struct cluster *c = m->grids[i].live; c; c = c->next)
            for (unsigned k = 0; k < c->size; k++)
                for (unsigned n = 0; n < c->ctas[k]->warp_count; n++) {
                    struct warp *w = &c->ctas[k]->warps[n];
                    if (w->wake_at == UINT64_MAX)
                        continue;
                    w->wake_at = UINT64_MAX;
                    for (unsigned j = 0; j < w->park_count; j++) {
                        const struct park *p = &w->parks[j];
                        if (p->kind != WAIT_TIME)
                            continue;
                        if (p->key <= m->now) {
                            warp_wake(w, WAIT_TIME, p->key, UINT32_MAX);
                            j = UINT32_MAX;
                        } else if (p->key < w->wake_at) {
                            w->wake_at = p->key;
                        }
                    }
                    if (w->wake_at < next)
                        next = w->wake_at;
                }
    m->next_timer = next;
}
