/*
 * Barriers of a CTA and of a cluster, fences, register counts, dependent grids, time.
 */
#include "exec.h"
#include "proxy.h"

/* ---- named barriers ----
 * A barrier counts threads. A warp adds its lanes as they come; when all that live have come it is
 * credited with the rest of its 32 as well.
 */

static unsigned expected_of(const struct cta *cta, const struct named_barrier *b)
{
    return b->expected ? b->expected : cta->live_warps * LANES;
}

/* Results of barrier.red for the lanes that wait. */
static void deliver(struct warp *w, const struct park *p, const struct named_barrier *b)
{
    const struct inst *in = p->inst;
    const struct regs now = w->r;

    for (uint32_t left = p->lanes; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        w->r = *w->levels[w->lane_depth[lane]];
        switch (in->sub) {
        case SUB_POPC:
            warp_set(w, &in->o[0], lane, b->votes, true);
            break;
        case SUB_AND:
            warp_set(w, &in->o[0], lane, b->votes == b->voters, true);
            break;
        default:
            warp_set(w, &in->o[0], lane, b->votes != 0, true);
            break;
        }
    }
    w->r = now;
}

static void complete(struct cta *cta, unsigned number)
{
    struct named_barrier *b = &cta->barriers[number];

    for (unsigned i = 0; i < cta->warp_count; i++) {
        struct warp *w = &cta->warps[i];
        for (unsigned k = 0; k < w->park_count; k++) {
            const struct park *p = &w->parks[k];
            if (p->kind == WAIT_BARRIER && p->key == number && p->inst->op == OP_BAR_RED)
                deliver(w, p, b);
        }
    }
    memset(b, 0, sizeof *b);
    machine_progress(cta->m);
    cta_wake(cta, WAIT_BARRIER, number);
}

/* A warp whose live lanes have all come counts as 32. */
static unsigned counted(const struct warp *w, uint32_t lanes)
{
    return lanes & w->alive && !(w->alive & ~lanes) ? LANES : (unsigned)__builtin_popcount(lanes);
}

static void credit(struct cta *cta, struct named_barrier *b)
{
    b->arrived = b->before;
    for (unsigned i = 0; i < cta->warp_count; i++)
        b->arrived += counted(&cta->warps[i], b->lanes[i]);
}

/*
 * Lanes that arrived without waiting may arrive again in the same phase, and count again:
 * warpgroups that take turns start so, the first of them arriving at its own barrier.
 */
static void come(struct named_barrier *b, const struct warp *w, uint32_t mask)
{
    const uint32_t again = b->lanes[w->id] & mask;

    if (again) {
        b->before += counted(w, again);
        b->lanes[w->id] &= ~again;
    }
    b->lanes[w->id] |= mask;
}

static bool barrier_operands(struct warp *w, const struct inst *in, uint32_t lanes,
                             const struct operand *id, const struct operand *count,
                             unsigned *number, unsigned *threads)
{
    uint64_t v;

    if (!warp_uniform(w, in, id, lanes, "the barrier number", &v))
        return false;
    if (v >= CTA_BARRIERS) {
        warp_trap(w, in, -1, TRAP_BARRIER, "there is no barrier %llu", (unsigned long long)v);
        return false;
    }
    *number = (unsigned)v;
    *threads = 0;
    if (count->kind == OPND_NONE)
        return true;
    if (!warp_uniform(w, in, count, lanes, "the thread count", &v))
        return false;
    if (!v || v % LANES || v > CTA_WARPS * LANES) {
        warp_trap(w, in, -1, TRAP_BARRIER, "%llu threads: must be a multiple of 32",
                  (unsigned long long)v);
        return false;
    }
    *threads = (unsigned)v;
    return true;
}

/* Lanes arrive; waits says whether they stay. p: predicate of barrier.red, or NULL. */
static enum flow arrive(struct warp *w, const struct inst *in, uint32_t mask,
                        const struct operand *id, const struct operand *count,
                        const struct operand *p, bool waits)
{
    struct cta *cta = w->cta;
    const struct site at = { .cta = cta, .inst = in, .warp = (int)w->id, .lane = -1 };
    unsigned number, threads;

    if (in->flags & INST_ALIGNED) {
        mask = warp_gather(w, in, mask, UINT32_MAX);
        if (!mask)
            return w->m->trapped ? FLOW_TRAP : FLOW_NEXT;
    }
    if (!barrier_operands(w, in, mask, id, count, &number, &threads))
        return FLOW_TRAP;
    if (p && !warp_need(w, in, p, mask, "the barrier's predicate"))
        return FLOW_TRAP;

    struct named_barrier *b = &cta->barriers[number];
    if (!b->open) {
        b->open = true;
        b->first = in;
        b->expected = threads;
    } else if (b->expected != threads) {
        return warp_trap(w, in, -1, TRAP_BARRIER,
                         "barrier %u is open for %u threads (line %u), here it is for %u", number,
                         b->expected ? b->expected : cta->threads,
                         w->grid->program->where[inst_pc(w, b->first)].line,
                         threads ? threads : cta->threads);
    }
    come(b, w, mask);
    if (p) {
        b->votes += (unsigned)__builtin_popcount(warp_pred(w, p) & mask);
        b->voters += (unsigned)__builtin_popcount(mask);
    }
    credit(cta, b);
    machine_progress(w->m);
    machine_observe(w->m, &at, EVENT_ARRIVE, mask, number, b->arrived);
    const unsigned expected = expected_of(cta, b);
    if (b->arrived > expected)
        return warp_trap(w, in, -1, TRAP_BARRIER, "%u threads arrive at barrier %u of %u",
                         b->arrived, number, expected);
    if (waits)
        warp_park(w, in, mask, WAIT_BARRIER, number, 0, false);
    if (b->arrived == expected) {
        complete(cta, number);
        machine_observe(w->m, &at, EVENT_WAIT_DONE, mask, number, 0);
    }
    return FLOW_NEXT;
}

enum flow op_bar(struct warp *w, const struct inst *in, uint32_t mask)
{
    return arrive(w, in, mask, &in->o[0], &in->o[1], NULL, !(in->flags & INST_ARRIVE));
}

enum flow op_bar_red(struct warp *w, const struct inst *in, uint32_t mask)
{
    return arrive(w, in, mask, &in->o[1], &in->o[2], &in->o[3], true);
}

/* Lanes have left: barriers for the whole CTA, and warps that are now complete, count anew. */
void barrier_exit(struct warp *w, uint32_t lanes)
{
    struct cta *cta = w->cta;

    (void)lanes;
    const unsigned live = cta->live_warps - !w->alive;
    for (unsigned i = 0; i < CTA_BARRIERS; i++) {
        struct named_barrier *b = &cta->barriers[i];
        if (!b->open)
            continue;
        credit(cta, b);
        if (b->arrived && b->arrived >= (b->expected ? b->expected : live * LANES))
            complete(cta, i);
    }
}

/* ---- the cluster barrier ---- */

static void cluster_advance(struct cluster *c)
{
    if (!c->threads || c->barrier_arrived < c->threads)
        return;
    c->barrier_phase++;
    c->barrier_arrived = 0;
    machine_progress(c->grid->m);
    for (unsigned i = 0; i < c->size; i++)
        if (!c->ctas[i]->exited)
            cta_wake(c->ctas[i], WAIT_CLUSTER, 0);
}

static enum flow cluster_arrive(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct cluster *c = w->cta->cluster;
    const uint32_t parity = c->barrier_phase & 1 ? UINT32_MAX : 0;

    if (w->cluster_arrived & mask)
        return warp_trap(w, in, __builtin_ctz(w->cluster_arrived & mask), TRAP_CLUSTER_BARRIER,
                         "a second arrive without a wait between");
    w->cluster_arrived |= mask;
    w->cluster_phase = (w->cluster_phase & ~mask) | (parity & mask);
    c->barrier_arrived += (unsigned)__builtin_popcount(mask);
    machine_progress(w->m);
    cluster_advance(c);
    return FLOW_NEXT;
}

static enum flow cluster_wait(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct cluster *c = w->cta->cluster;
    const uint32_t parity = c->barrier_phase & 1 ? UINT32_MAX : 0;

    if (mask & ~w->cluster_arrived)
        return warp_trap(w, in, __builtin_ctz(mask & ~w->cluster_arrived), TRAP_CLUSTER_BARRIER,
                         "a wait without an arrive");
    const uint32_t passed = mask & (w->cluster_phase ^ parity);
    w->cluster_arrived &= ~passed;
    if (mask & ~passed)
        warp_park(w, in, mask & ~passed, WAIT_CLUSTER, 0, c->barrier_phase, true);
    return FLOW_NEXT;
}

enum flow op_barrier_cluster(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct site at = { .cta = w->cta, .inst = in, .warp = (int)w->id, .lane = -1 };
    const bool arrives = in->flags & INST_ARRIVE;

    if (in->flags & INST_ALIGNED) {
        mask = warp_gather(w, in, mask, UINT32_MAX);
        if (!mask)
            return w->m->trapped ? FLOW_TRAP : FLOW_NEXT;
    }
    machine_observe(w->m, &at, arrives ? EVENT_ARRIVE : EVENT_WAIT_DONE, mask, 0,
                    w->cta->cluster->barrier_phase);
    return arrives ? cluster_arrive(w, in, mask) : cluster_wait(w, in, mask);
}

/* Exited threads are not waited for, whether they have arrived or not. */
void cluster_exit(struct warp *w, const struct inst *in, uint32_t lanes)
{
    struct cluster *c = w->cta->cluster;
    const uint32_t parity = c->barrier_phase & 1 ? UINT32_MAX : 0;
    const uint32_t counted = lanes & w->cluster_arrived & ~(w->cluster_phase ^ parity);

    (void)in;
    c->threads -= (unsigned)__builtin_popcount(lanes);
    c->barrier_arrived -= (unsigned)__builtin_popcount(counted);
    w->cluster_arrived &= ~lanes;
    cluster_advance(c);
}

/* ---- fences: memory here is always coherent; an observer learns where they stand ---- */

static enum flow fence(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct site at = { .cta = w->cta, .inst = in, .warp = (int)w->id, .lane = -1 };

    machine_observe(w->m, &at, EVENT_FENCE, mask, in->op, in->scope);
    return FLOW_NEXT;
}

enum flow op_fence(struct warp *w, const struct inst *in, uint32_t mask)
{
    return fence(w, in, mask);
}

enum flow op_fence_mbarrier_init(struct warp *w, const struct inst *in, uint32_t mask)
{
    return fence(w, in, mask);
}

enum flow op_fence_proxy_async(struct warp *w, const struct inst *in, uint32_t mask)
{
    proxy_fenced(w, in);
    return fence(w, in, mask);
}

enum flow op_fence_proxy_alias(struct warp *w, const struct inst *in, uint32_t mask)
{
    return fence(w, in, mask);
}

/* ---- registers of a warpgroup ----
 * Each sub-partition of the multiprocessor serves its own warps: warp w draws on what the warps
 * of the CTA with the same w mod 4 have given back, and on nothing else.
 */
enum flow op_setmaxnreg(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct cta *cta = w->cta;
    unsigned *pool = &cta->pool[w->id % WARPGROUP];
    const unsigned want = (unsigned)in->o[0].imm;

    mask = warp_gather(w, in, mask, UINT32_MAX);
    if (!mask)
        return w->m->trapped ? FLOW_TRAP : FLOW_NEXT;
    if (cta->warp_count % WARPGROUP)
        return warp_trap(w, in, -1, TRAP_REGISTERS, "the CTA's %u warps are no whole warpgroups",
                         cta->warp_count);
    if (in->sub == SUB_DEC) {
        if (want > w->registers)
            return warp_trap(w, in, -1, TRAP_REGISTERS, "decrease to %u, the thread has %u", want,
                             w->registers);
        *pool += (w->registers - want) * LANES;
        w->registers = want;
        machine_progress(w->m);
        cta_wake(cta, WAIT_REGISTERS, w->id % WARPGROUP);
        return FLOW_NEXT;
    }
    if (want < w->registers)
        return warp_trap(w, in, -1, TRAP_REGISTERS, "increase to %u, the thread has %u", want,
                         w->registers);
    const unsigned more = (want - w->registers) * LANES;
    if (more > *pool) {
        warp_park(w, in, mask, WAIT_REGISTERS, w->id % WARPGROUP, want, true);
        return FLOW_NEXT;
    }
    *pool -= more;
    w->registers = want;
    machine_progress(w->m);
    return FLOW_NEXT;
}

/* ---- dependent grids ---- */

enum flow op_griddep(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct machine *m = w->m;
    struct cta *cta = w->cta;

    if (!(in->flags & INST_WAIT)) {
        if (!cta->triggered) {
            cta->triggered = true;
            cta->grid->triggered++;
            machine_progress(m);
        }
        return FLOW_NEXT;
    }
    for (unsigned i = 0; i < w->grid->index; i++)
        if (!m->grids[i].done) {
            warp_park(w, in, mask, WAIT_GRID, 0, 0, true);
            break;
        }
    return FLOW_NEXT;
}

/* ---- time ---- */

enum flow op_nanosleep(struct warp *w, const struct inst *in, uint32_t mask)
{
    enum { LONGEST = 100000 };
    uint64_t longest = 0;

    if (!warp_need(w, in, &in->o[0], mask, "the time"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t t = 2 * (warp_value(w, &in->o[0], lane) & 0xffffffff);
        if (t > longest)
            longest = t;
    }
    if (longest > LONGEST)
        longest = LONGEST;
    switch (w->m->config.policy) {
    case POLICY_EARLY: longest = longest ? 1 : 0; break;
    case POLICY_LATE: break;
    case POLICY_RANDOM: longest = machine_random(w->m) % (longest + 1); break;
    }
    if (longest)
        warp_park(w, in, mask, WAIT_TIME, w->m->now + longest, 0, false);
    return FLOW_NEXT;
}
