/*
 * Who runs next: warps of the machine, and lane groups of a warp.
 *
 * A lane group is the set of lanes that share call depth and program counter. The deepest call
 * runs first and in it the lowest program counter, which brings diverged lanes together again
 * without knowing where branches join. A group that goes round a loop while other lanes could run
 * lets all of them have a turn.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "tcgen.h"

enum {
    SLICE_EARLY = 2048,         /* instructions: until it waits, nearly */
    SLICE_LATE = 16,
    SLICE_RANDOM = 64,          /* at most */
    LOOP_TURNS = 64,            /* backward jumps of a group before other lanes get a turn */
    START_EARLY = 16,           /* slices between starts of clusters while others run */
    START_RANDOM = 16384,       /* instructions between them, at most */
    IDLE_WATCH = 100000,        /* instructions without effect before a livelock is thought of */
};

/* ---- warps that can run ---- */

bool ready_reserve(struct machine *m, unsigned warps)
{
    /* Everything resident could be ready at once. */
    uint64_t need = warps;

    for (unsigned i = 0; i < m->config.sms; i++)
        need += m->sms[i].warps;
    if (need <= m->ready_room)
        return true;
    unsigned room = m->ready_room ? m->ready_room : 64;
    while (room < need)
        room *= 2;
    struct warp **ring = malloc(room * sizeof *ring);
    if (!ring)
        return false;
    for (unsigned i = 0; i < m->ready_count; i++)
        ring[i] = m->ready[(m->ready_first + i) & (m->ready_room - 1)];
    free(m->ready);
    m->ready = ring;
    m->ready_room = room;
    m->ready_first = 0;
    return true;
}

void warp_ready(struct warp *w)
{
    struct machine *m = w->m;

    if (w->queued)
        return;
    w->queued = true;
    m->ready[(m->ready_first + m->ready_count++) & (m->ready_room - 1)] = w;
}

static struct warp *ready_take(struct machine *m)
{
    const unsigned last = m->ready_room - 1;

    if (m->config.policy == POLICY_RANDOM && m->ready_count > 1) {
        const unsigned pick = (unsigned)(machine_random(m) % m->ready_count);
        struct warp **a = &m->ready[m->ready_first];
        struct warp **b = &m->ready[(m->ready_first + pick) & last];
        struct warp *const t = *a;
        *a = *b;
        *b = t;
    }
    struct warp *w = m->ready[m->ready_first];
    m->ready_first = (m->ready_first + 1) & last;
    m->ready_count--;
    return w;
}

/* ---- lane groups ---- */

/* Whether all lanes stand at one pc, by the same calls: most often so. */
static bool together(const struct warp *w)
{
    uint32_t differ = 0;

    if ((w->alive & ~w->parked) != UINT32_MAX)
        return false;
    for (unsigned l = 1; l < LANES; l++)
        differ |= (w->pc[l] ^ w->pc[0]) | (w->lane_frame[l] ^ w->lane_frame[0]) |
                  (uint32_t)(w->lane_depth[l] ^ w->lane_depth[0]);
    return !differ;
}

static void enter(struct warp *w, uint32_t group, uint32_t pc, unsigned depth)
{
    const unsigned first = (unsigned)__builtin_ctz(group);

    w->group = group;
    w->at = pc;
    if (depth != w->depth) {
        w->depth = depth;
        w->r = *w->levels[depth];
    }
    w->fn = w->lane_fn[first];
    w->frame = w->lane_frame[first];
}

/* Chooses the group that runs; gives the pc at which another group waits to be joined. */
static uint32_t choose(struct warp *w)
{
    if (together(w)) {
        w->skip = 0;
        enter(w, UINT32_MAX, w->pc[0], w->lane_depth[0]);
        return UINT32_MAX;
    }

    const uint32_t runnable = w->alive & ~w->parked;
    uint32_t among = runnable & ~w->skip;
    unsigned depth = 0;
    uint32_t pc = UINT32_MAX, limit = UINT32_MAX, group = 0;

    if (!among) {
        among = runnable;
        w->skip = 0;
        w->dealt++;
    }
    for (uint32_t left = among; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        if (w->lane_depth[l] > depth) {
            depth = w->lane_depth[l];
            pc = UINT32_MAX;
        }
        if (w->lane_depth[l] == depth && w->pc[l] < pc)
            pc = w->pc[l];
    }
    for (uint32_t left = runnable; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        if (w->lane_depth[l] != depth)
            continue;
        if (w->pc[l] == pc)
            group |= 1u << l;
        else if (w->pc[l] > pc && w->pc[l] < limit)
            limit = w->pc[l];
    }
    const unsigned first = (unsigned)__builtin_ctz(group);
    /* Lanes of one pc may have come by different calls: their frames decide. */
    for (uint32_t left = group; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        if (w->lane_frame[l] != w->lane_frame[first])
            group &= ~(1u << l);
    }
    enter(w, group, pc, depth);
    return limit;
}

/* The group has gone round often enough: all others of the warp come first. */
static void pass_turn(struct warp *w)
{
    w->skip |= w->group;
    w->turns = 0;
}

/* Whether the instruction names a register that an asynchronous instruction owns. */
static const struct operand *busy_operand(const struct warp *w, const struct inst *in)
{
    const struct program *p = w->grid->program;

    for (unsigned i = 0; i < in->nopnd; i++) {
        const struct operand *op = &in->o[i];
        const unsigned n = op->kind == OPND_VEC ? op->n : 1;
        for (unsigned k = 0; k < n; k++) {
            const struct operand *e = operand_element(p, op, k);
            const bool reg = e->kind == OPND_REG ||
                             (e->kind == OPND_ADDR && e->base == ADDR_REG);
            if (reg && e->bank == BANK_32 && w->r.busy32[e->reg])
                return e;
        }
    }
    return NULL;
}

static bool busy_trap(struct warp *w, const struct inst *in)
{
    if (in->op == OP_WGMMA || in->op == OP_WGMMA_SP || !busy_operand(w, in))
        return false;
    if (!tcgen_touch(w, in))
        return true;
    if (!busy_operand(w, in))
        return false;
    warp_trap(w, in, -1, TRAP_PENDING,
              "a register here belongs to a wgmma whose group has not been waited for");
    return true;
}

/* ---- livelock: a warp that comes to the same jump in the same state goes round for ever ---- */

static uint64_t mix(uint64_t h, const void *data, size_t bytes)
{
    const uint8_t *at = data;

    for (; bytes >= 8; at += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    for (; bytes; at++, bytes--)
        h = (h ^ *at) * UINT64_C(0x100000001b3);
    return h;
}

/* Everything the warp's next instructions depend on, but for memory. */
static uint64_t warp_state(const struct warp *w, uint32_t pc)
{
    const uint32_t *n = w->fn->nregs;
    const uint32_t masks[] = { pc, w->group, w->alive, w->parked, w->carry, w->depth };
    uint64_t h = mix(1, masks, sizeof masks);

    h = mix(h, w->r.r32, n[BANK_32] * sizeof *w->r.r32);
    h = mix(h, w->r.r64, n[BANK_64] * sizeof *w->r.r64);
    h = mix(h, w->r.pred, n[BANK_PRED] * sizeof *w->r.pred);
    return mix(h, w->pc, sizeof w->pc);
}

/* Lanes of it wait for a time: they will go on, and not in the state they are in now. */
static bool sleeps(const struct warp *w)
{
    for (unsigned i = 0; i < w->park_count; i++)
        if (w->parks[i].kind == WAIT_TIME)
            return true;
    return false;
}

/* A jump backwards while nothing has happened for long: look whether the state is an old one. */
static void watch(struct machine *m, struct warp *w, uint32_t pc)
{
    if (w->watch.progress == m->progress && w->watch.pc != pc)
        return;
    /* While other lanes wait for their turn they stay as they are: that says nothing. */
    if (w->watch.progress == m->progress && w->watch.dealt == w->dealt &&
        w->group != (w->alive & ~w->parked))
        return;
    const uint64_t state = warp_state(w, pc);
    w->watch.round = w->watch.progress == m->progress && w->watch.state == state && !sleeps(w);
    w->watch.progress = m->progress;
    w->watch.pc = pc;
    w->watch.dealt = w->dealt;
    w->watch.state = state;
}

static bool goes_round(const struct machine *m, const struct warp *w)
{
    return w->watch.progress == m->progress && w->watch.round;
}

/* Those that sleep on their way round, of clusters that are live. */
static bool sleepers_round(const struct machine *m)
{
    for (unsigned i = 0; i < m->grid_count; i++)
        for (const struct cluster *c = m->grids[i].live; c; c = c->next)
            for (unsigned k = 0; k < c->size; k++)
                for (unsigned n = 0; n < c->ctas[k]->warp_count; n++) {
                    const struct warp *w = &c->ctas[k]->warps[n];
                    if (w->wake_at != UINT64_MAX && !goes_round(m, w))
                        return false;
                }
    return true;
}

/* Every warp that can run, or will without being woken, goes round, and nothing is under way that could
 * change that. */
static bool all_round(const struct machine *m)
{
    if (async_next(m) != UINT64_MAX)
        return false;
    for (unsigned i = 0; i < m->ready_count; i++)
        if (!goes_round(m, m->ready[(m->ready_first + i) & (m->ready_room - 1)]))
            return false;
    return m->next_timer == UINT64_MAX || sleepers_round(m);
}

/* Runs one warp for at most `budget` instructions, or until it waits. */
static void run(struct machine *m, struct warp *w, unsigned budget)
{
    const struct inst *const insts = w->grid->program->insts;

    while (budget && !m->trapped && !m->interrupt && (w->alive & ~w->parked)) {
        const uint32_t limit = choose(w);
        const uint32_t group = w->group;
        const bool alone = limit == UINT32_MAX && group == (w->alive & ~w->parked);
        uint32_t pc = w->at;

        w->regroup = false;
        w->settled = 0;
        do {
            const struct inst *in = &insts[pc];
            uint32_t mask = group;

            budget--;
            m->now++;
            w->at = pc;
            if (in->guard) {
                const uint32_t values = w->r.pred[in->guard_reg];
                const uint32_t unknown = group & ~w->r.defp[in->guard_reg];
                mask &= in->guard == GUARD_TRUE ? values : ~values;
                if (unknown) {
                    if (!skip_undefined(w, pc, unknown)) {
                        warp_trap(w, in, __builtin_ctz(unknown), TRAP_UNDEFINED,
                                  "the guard predicate");
                        return;
                    }
                    mask = in->op == OP_BRA ? mask | unknown : mask & ~unknown;
                }
            }
            pc++;
            if (!mask)
                continue;
            if (w->busy && busy_trap(w, in))
                return;
            if (in->op == OP_BRA) {
                const uint32_t target = (uint32_t)in->o[0].imm;
                if (m->idle && target < pc)
                    watch(m, w, pc);
                if (mask != group) {
                    warp_put_pc(w, mask, target);
                    warp_put_pc(w, group & ~mask, pc);
                    w->settled = group;
                    if (target < pc && ++w->turns >= LOOP_TURNS)
                        pass_turn(w);
                    break;
                }
                if (target < pc && !alone && ++w->turns >= LOOP_TURNS) {
                    pass_turn(w);
                    pc = target;
                    break;
                }
                pc = target;
                continue;
            }
            if (machine_ops[in->op](w, in, mask) == FLOW_TRAP)
                return;
            if (w->regroup || m->interrupt)
                break;
        } while (budget && pc < limit);
        warp_put_pc(w, group & ~w->settled, pc);
    }
}

/* ---- the machine ---- */

/* All lanes of a warp wait for lanes of the same warp: that never ends. */
static bool stuck(struct warp *w)
{
    for (unsigned i = 0; i < w->park_count; i++)
        if (w->parks[i].kind != WAIT_WARP)
            return false;
    const struct park *p = &w->parks[0];
    const bool aligned = p->inst->flags & INST_ALIGNED;
    const uint32_t missing = (uint32_t)p->key & w->alive & ~p->lanes;
    warp_trap(w, p->inst, __builtin_ctz(p->lanes), TRAP_DIVERGENT,
              "lanes %08x wait here%s for lanes %08x, which wait elsewhere", p->lanes,
              aligned ? " (aligned: the whole warp must come)" : "", missing);
    return true;
}

static unsigned slice(struct machine *m)
{
    switch (m->config.policy) {
    case POLICY_EARLY:
        return SLICE_EARLY;
    case POLICY_LATE:
        return SLICE_LATE;
    case POLICY_RANDOM:
        break;
    }
    return 1 + (unsigned)(machine_random(m) % SLICE_RANDOM);
}

/* Starts clusters of the grids whose turn it is: as many as fit, or one. Gives the grid of the last
 * one; NULL: none. */
static const struct grid *start_clusters(struct machine *m, bool one)
{
    const struct grid *last = NULL;

    for (unsigned i = 0; i < m->grid_count && !m->trapped; i++) {
        struct grid *g = &m->grids[i];
        if (g->started == g->clusters || !grid_may_start(m, g))
            continue;
        while (g->started < g->clusters && cluster_start(m, g)) {
            last = g;
            if (one)
                return last;
        }
    }
    return last;
}

/*
 * When clusters start, by policy:
 *   early   when the ones before have nothing to do, or every so many slices
 *   late    all at once
 *   random  every second one with the one before it, others up to START_RANDOM later: then some run
 *           side by side, and short ones are over before the last start and leave it their memory
 */
static void start_due(struct machine *m)
{
    const struct grid *g;

    switch (m->config.policy) {
    case POLICY_EARLY:
        if (!m->ready_count || ++m->start_slices >= START_EARLY) {
            m->start_slices = 0;
            start_clusters(m, true);
        }
        break;
    case POLICY_LATE:
        start_clusters(m, false);
        break;
    case POLICY_RANDOM:
        g = m->next_start <= m->now ? start_clusters(m, true) : NULL;
        if (g && g->started < g->clusters && machine_random(m) & 1)
            m->next_start = m->now + machine_random(m) % START_RANDOM;
        break;
    }
}

/* When something happens though no warp can run. */
static uint64_t next_event(const struct machine *m)
{
    const uint64_t event = async_next(m);
    const uint64_t next = event < m->next_timer ? event : m->next_timer;

    return m->next_start > m->now && m->next_start < next ? m->next_start : next;
}

static bool all_done(const struct machine *m)
{
    for (unsigned i = 0; i < m->grid_count; i++)
        if (!m->grids[i].done)
            return false;
    return true;
}

void machine_loop(struct machine *m)
{
    while (!m->trapped) {
        m->interrupt = false;
        if (async_next(m) <= m->now) {
            async_run(m);
            machine_progress(m);
        }
        if (m->next_timer <= m->now)
            timers_run(m);
        if (m->reap)
            cluster_reap(m);
        if (m->trapped)
            break;
        start_due(m);
        if (m->ready_count) {
            struct warp *w = ready_take(m);
            const uint64_t before = m->now;
            run(m, w, slice(m));
            w->steps += (uint32_t)(m->now - before);
            w->queued = false;
            if (m->trapped)
                break;
            if (w->alive & ~w->parked)
                warp_ready(w);
            else if (w->alive && stuck(w))
                break;
            m->idle = idle_for(m) > IDLE_WATCH;
            if (m->idle && ((w->watch.round && all_round(m)) ||
                            idle_for(m) > m->config.idle_steps))
                report_livelock(m);
            continue;
        }
        const uint64_t next = next_event(m);
        if (next != UINT64_MAX) {
            m->slept += next > m->now ? next - m->now : 0;
            m->now = next > m->now ? next : m->now;
        } else if (all_done(m))
            break;
        else if (!async_timeout(m))
            report_deadlock(m);
    }
}
