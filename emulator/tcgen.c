/* tcgen05: the list of operations in flight and what orders them, fences, commit, waits. */
#include "tcgen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- units and sides ------------------------------------------------------------------------- */

static struct cta *base_of(const struct cta *cta)
{
    return cta->cluster->ctas[cta->rank & ~1u];
}

struct tcgen_unit *tcgen_unit_of(const struct cta *cta)
{
    return base_of(cta)->async->tcgen;
}

static struct tmem *tmem_of(struct machine *m, unsigned sm)
{
    if (!m->tmem)
        m->tmem = calloc(m->config.sms, sizeof m->tmem[0]);
    if (m->tmem && !m->tmem[sm])
        m->tmem[sm] = tmem_new();
    return m->tmem ? m->tmem[sm] : NULL;
}

static bool side_open(struct tcgen_side *side, struct cta *cta)
{
    if (side->cta)
        return true;
    side->tmem = tmem_of(cta->m, cta->sm);
    side->threads = calloc(cta->warp_count * LANES, sizeof side->threads[0]);
    if (!side->tmem || !side->threads)
        return false;
    side->cta = cta;
    return true;
}

struct tcgen_side *tcgen_side_of(struct warp *w, const struct inst *in, unsigned group)
{
    struct cta *cta = w->cta;
    struct async_cta *base = base_of(cta)->async;
    const unsigned number = tcgen_side_number(cta), peer = cta->rank ^ 1;
    struct tcgen_side *side;

    if (!base->tcgen)
        base->tcgen = calloc(1, sizeof *base->tcgen);
    if (!base->tcgen || !side_open(&base->tcgen->sides[number], cta)) {
        warp_trap(w, in, -1, TRAP_MEMORY, "Tensor Memory");
        return NULL;
    }
    side = &base->tcgen->sides[number];
    if (group == 0)
        return side;
    if (side->group && side->group != group) {
        warp_trap(w, in, -1, TRAP_INSTRUCTION, "the CTA has executed tcgen05 instructions of "
                  ".cta_group::%u before: one kernel uses one", side->group);
        return NULL;
    }
    side->group = group;
    if (group == 1)
        return side;
    if (peer >= cta->cluster->size) {
        warp_trap(w, in, -1, TRAP_INSTRUCTION, ".cta_group::2 in a cluster of %u: CTA rank %u has "
                  "no peer of rank %u", cta->cluster->size, cta->rank, peer);
        return NULL;
    }
    if (cta->cluster->ctas[peer]->sm == cta->sm) {
        warp_trap(w, in, -1, TRAP_RESOURCES, "both CTAs of the pair are on multiprocessor %u: the "
                  "kernel itself must have the .cta_group::2 instructions", cta->sm);
        return NULL;
    }
    if (!side_open(&base->tcgen->sides[number ^ 1], cta->cluster->ctas[peer])) {
        warp_trap(w, in, -1, TRAP_MEMORY, "Tensor Memory");
        return NULL;
    }
    return side;
}

struct tcgen_side *tcgen_live_side(struct warp *w, const struct inst *in, unsigned group)
{
    struct tcgen_side *side = tcgen_side_of(w, in, group);
    const struct cta *cta = w->cta;

    if (!side || group != 2 || !cta->cluster->ctas[cta->rank ^ 1]->exited)
        return side;
    warp_trap(w, in, -1, TRAP_DEAD_TARGET, "the pair's other CTA, rank %u, has exited",
              cta->rank ^ 1);
    return NULL;
}

struct tcgen_thread *tcgen_thread_of(struct tcgen_side *side, const struct warp *w, unsigned lane)
{
    return &side->threads[w->id * LANES + lane];
}

void tcgen_cta_close(struct async_cta *c)
{
    if (!c->tcgen)
        return;
    for (struct tcgen_op *op = c->tcgen->oldest, *newer; op; op = newer) {
        newer = op->newer;
        if (op->unposted)       /* the run has ended in a trap */
            async_job_cancel(op->job.site.cta->m, &op->job);
    }
    free(c->tcgen->sides[0].threads);
    free(c->tcgen->sides[1].threads);
    free(c->tcgen->strict);
    free(c->tcgen);
    c->tcgen = NULL;
}

void tcgen_machine_reset(struct machine *m)
{
    for (unsigned i = 0; m->tmem && i < m->config.sms; i++)
        if (m->tmem[i])
            tmem_reset(m->tmem[i]);
}

void tcgen_machine_close(struct machine *m)
{
    for (unsigned i = 0; m->tmem && i < m->config.sms; i++)
        tmem_free(m->tmem[i]);
    free(m->tmem);
    m->tmem = NULL;
}

/* ---- addresses ------------------------------------------------------------------------------- */

bool tcgen_assume(struct warp *w, const struct inst *in, int lane, const char *format, ...)
{
    char words[320];
    va_list list;

    if (machine_config(w->m)->rules & RULE_ASSUME)
        return true;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    warp_trap(w, in, lane, TRAP_UNVERIFIED, "%s: no source confirms what hardware does "
              "(PTXMM_EMU_RULES=assume goes on with what docs/emulator-sm100.md assumes)", words);
    return false;
}

bool tcgen_reads(struct warp *w, const struct inst *in, unsigned lane, const struct cta *cta,
                 const struct wgmma_visits *visits)
{
    const struct site at = {.cta = w->cta, .inst = in, .warp = (int)w->id, .lane = (int)lane};

    for (unsigned i = 0; i < visits->count; i++)
        if (!proxy_reads(w->m, &at, cta, 1u << w->id, visits->at[i], 16))
            return false;
    return true;
}

bool tcgen_address(struct warp *w, const struct inst *in, unsigned lane, const struct operand *op,
                   const char *what, uint32_t *address)
{
    if (!(warp_address_defined(w, op) >> lane & 1)) {
        warp_trap(w, in, (int)lane, TRAP_UNDEFINED, "%s", what);
        return false;
    }
    *address = (uint32_t)warp_address(w, op, lane);
    if (!(*address & 0xfe00))
        return true;
    warp_trap_at(w, in, (int)lane, TRAP_TENSOR_MEMORY, *address,
                 "%s: column %u, there are 512 (bits 9 to 15 of the address must be zero)", what,
                 *address & 0xffff);
    return false;
}

bool tcgen_owned(struct warp *w, const struct inst *in, unsigned lane, const struct tcgen_unit *unit,
                 unsigned sides, unsigned first, unsigned columns, const char *what)
{
    for (unsigned s = 0; s < 2; s++) {
        const struct tcgen_side *side = &unit->sides[s];
        unsigned bad;

        if (!(sides >> s & 1) || tmem_covers(side->tmem, side->cta, first, columns, &bad))
            continue;
        if (bad >= TMEM_COLUMNS)
            warp_trap(w, in, (int)lane, TRAP_TENSOR_MEMORY,
                      "%s: columns %u to %u, there are 512", what, first, first + columns - 1);
        else
            warp_trap(w, in, (int)lane, TRAP_TENSOR_MEMORY,
                      "%s: columns %u to %u; CTA rank %u has not allocated column %u%s", what,
                      first, first + columns - 1, side->cta->rank, bad,
                      side->tmem->owner[bad / TMEM_UNIT] ? ", another CTA has" : "");
        return false;
    }
    return true;
}

/* ---- the list -------------------------------------------------------------------------------- */

static const char *const names[TCGEN_CLASSES] = {
    [TCGEN_MMA] = "tcgen05.mma", [TCGEN_CP] = "tcgen05.cp", [TCGEN_SHIFT] = "tcgen05.shift",
    [TCGEN_LD] = "tcgen05.ld", [TCGEN_ST] = "tcgen05.st",
};

static void unlink_op(struct tcgen_op *op)
{
    struct tcgen_unit *u = op->unit;

    *(op->older ? &op->older->newer : &u->oldest) = op->newer;
    *(op->newer ? &op->newer->older : &u->newest) = op->older;
    op->done = true;
}

static void drop(struct async_job *job)
{
    struct tcgen_op *op = (struct tcgen_op *)job;

    if (!op->done)
        unlink_op(op);
}

static void fire(struct machine *m, struct async_job *job, unsigned step)
{
    struct tcgen_op *op = (struct tcgen_op *)job;

    (void)step;
    if (!op->done)
        tcgen_perform(m, op);
}

void *tcgen_op_new(struct warp *w, const struct inst *in, unsigned lane, enum tcgen_class class,
                   size_t bytes, void (*effect)(struct machine *m, struct tcgen_op *op))
{
    struct tcgen_unit *u = tcgen_unit_of(w->cta);
    struct tcgen_op *op = async_job_new(w, in, lane, bytes, fire);

    if (!op)
        return NULL;
    op->job.drop = drop;
    op->unit = u;
    op->class = class;
    op->side = tcgen_side_number(w->cta);
    op->effect = effect;
    op->number = ++u->numbers;
    op->after = tcgen_thread_of(&u->sides[op->side], w, lane)->after;
    op->older = u->newest;
    *(u->newest ? &u->newest->newer : &u->oldest) = op;
    u->newest = op;
    if (class == TCGEN_LD)
        u->sides[op->side].loads[w->id]++;
    else if (class == TCGEN_ST)
        u->sides[op->side].stores[w->id]++;
    else
        tcgen_thread_of(&u->sides[op->side], w, lane)->issued = true;
    return op;
}

void tcgen_span_add(struct tcgen_op *op, unsigned sides, unsigned lanes, bool write,
                    unsigned column, unsigned columns)
{
    op->spans[op->span_count++] = (struct tcgen_span){
        .sides = (uint8_t)sides, .lanes = (uint8_t)lanes, .write = write,
        .column = (uint16_t)column, .columns = (uint16_t)columns,
    };
}

static bool same_thread(const struct tcgen_op *a, const struct tcgen_op *b)
{
    return a->side == b->side && a->job.site.warp == b->job.site.warp &&
           a->job.site.lane == b->job.site.lane;
}

/* Whether the manual lists the two as executed in order of issue. */
static bool pipelined(const struct tcgen_op *first, const struct tcgen_op *second)
{
    switch (first->class) {
    case TCGEN_MMA:
        if (second->class == TCGEN_MMA)
            return first->accumulator == second->accumulator && first->m == second->m &&
                   first->n == second->n;
        return second->class == TCGEN_SHIFT;
    case TCGEN_CP:
        return second->class == TCGEN_MMA;
    case TCGEN_SHIFT:
        return second->class == TCGEN_MMA || (second->class == TCGEN_CP && second->rows_of_4);
    default:
        return false;
    }
}

static bool ordered(const struct machine *m, const struct tcgen_op *first,
                    const struct tcgen_op *second)
{
    if (same_thread(first, second))
        return pipelined(first, second) ||
               (first->class == TCGEN_MMA && second->class == TCGEN_CP &&
                !(m->config.rules & RULE_STRICT_CP));
    return first->fenced && first->fenced < second->after && pipelined(first, second);
}

static const struct tcgen_span *meets(const struct tcgen_op *a, const struct tcgen_op *b)
{
    for (unsigned i = 0; i < a->span_count; i++)
        for (unsigned k = 0; k < b->span_count; k++) {
            const struct tcgen_span *x = &a->spans[i], *y = &b->spans[k];

            if ((x->write || y->write) && (x->sides & y->sides) && (x->lanes & y->lanes) &&
                x->column < y->column + y->columns && y->column < x->column + x->columns)
                return y;
        }
    return NULL;
}

static bool no_race(struct machine *m, const struct tcgen_op *op)
{
    for (const struct tcgen_op *q = op->unit->oldest; q != op; q = q->newer) {
        const struct tcgen_span *span = meets(op, q);
        const struct program *p;

        if (!span)
            continue;
        p = q->job.site.cta->grid->program;
        machine_trap(m, &op->job.site, TRAP_PENDING, "the %s of line %u (warp %d), issued before, "
                     "is still in flight and %s columns %u to %u of Tensor Memory that this one "
                     "touches: nothing orders the two", names[q->class],
                     p->where[q->job.site.inst - p->insts].line, q->job.site.warp,
                     span->write ? "writes" : "reads", span->column,
                     span->column + span->columns - 1);
        return false;
    }
    return true;
}

static void count_down(struct tcgen_op *op)
{
    struct tcgen_side *side = &op->unit->sides[op->side];
    const unsigned warp = (unsigned)op->job.site.warp;

    if (op->class == TCGEN_LD && --side->loads[warp] == 0)
        warp_wake(&side->cta->warps[warp], WAIT_TCGEN, TCGEN_WAIT_LD, UINT32_MAX);
    if (op->class == TCGEN_ST && --side->stores[warp] == 0)
        warp_wake(&side->cta->warps[warp], WAIT_TCGEN, TCGEN_WAIT_ST, UINT32_MAX);
}

bool tcgen_perform(struct machine *m, struct tcgen_op *op)
{
    for (struct tcgen_op *q = op->unit->oldest; q != op;) {
        if (!ordered(m, q, op)) {
            q = q->newer;
            continue;
        }
        if (!tcgen_perform(m, q))
            return false;
        q = op->unit->oldest;
    }
    if (!no_race(m, op))
        return false;
    op->effect(m, op);
    if (machine_trapped(m))
        return false;
    unlink_op(op);
    count_down(op);
    machine_observe(m, &op->job.site, EVENT_ASYNC_DONE, 0, op->number, 0);
    machine_progress(m);
    return true;
}

static bool waits_strictly(const struct machine *m)
{
    return machine_config(m)->rules & RULE_STRICT_WAIT;
}

enum flow tcgen_issue(struct warp *w, struct tcgen_op *op)
{
    if (!tcgen_strict_issue(w, op)) {
        async_job_cancel(w->m, &op->job);
        return FLOW_TRAP;
    }
    machine_observe(w->m, &op->job.site, EVENT_ASYNC_ISSUE, 0, op->number, 0);
    if (op->class == TCGEN_LD && waits_strictly(w->m)) {
        op->unposted = true;    /* its wait::ld performs it */
    } else if (async_reads_now(w->m)) {
        tcgen_perform(w->m, op);
        async_job_cancel(w->m, &op->job);
    } else {
        async_post(w->m, &op->job, 0, DELAY_MMA);
    }
    machine_progress(w->m);
    return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
}

/* ---- fences, waits --------------------------------------------------------------------------- */

static void fence_before(struct tcgen_unit *u, const struct tcgen_side *side, const struct warp *w,
                         unsigned lane)
{
    u->ticks++;
    for (struct tcgen_op *op = u->oldest; op; op = op->newer)
        if (!op->fenced && &u->sides[op->side] == side && op->job.site.warp == (int)w->id &&
            op->job.site.lane == (int)lane)
            op->fenced = u->ticks;
}

enum flow op_tcgen_fence(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct tcgen_side *side = tcgen_side_of(w, in, 0);
    struct tcgen_unit *u = tcgen_unit_of(w->cta);
    const struct site at = {.cta = w->cta, .inst = in, .warp = (int)w->id, .lane = -1};

    if (!side)
        return FLOW_TRAP;
    u->ticks++;
    if (!(in->flags & INST_WAIT))
        tcgen_strict_before(u, tcgen_side_number(w->cta), w->id, -1);
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);

        if (in->flags & INST_WAIT)
            tcgen_thread_of(side, w, lane)->after = u->ticks;
        else if (u->oldest)
            fence_before(u, side, w, lane);
    }
    machine_observe(w->m, &at, EVENT_FENCE, mask, 0, in->op);
    return FLOW_NEXT;
}

/* All loads of the warp take effect now. */
static bool perform_loads(struct warp *w)
{
    struct tcgen_unit *u = tcgen_unit_of(w->cta);

    for (struct tcgen_op *op = u->oldest; op;) {
        if (op->class != TCGEN_LD || op->job.site.warp != (int)w->id ||
            op->side != tcgen_side_number(w->cta)) {
            op = op->newer;
            continue;
        }
        if (!tcgen_perform(w->m, op))
            return false;
        if (op->unposted)
            async_job_cancel(w->m, &op->job);
        op = u->oldest;
    }
    return true;
}

enum flow op_tcgen_wait(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct tcgen_side *side;
    const bool loads = in->flags & INST_READ;

    mask = warp_gather(w, in, mask, UINT32_MAX);
    if (!mask)
        return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
    side = tcgen_side_of(w, in, 0);
    if (!side)
        return FLOW_TRAP;
    tcgen_strict_wait(tcgen_unit_of(w->cta), tcgen_side_number(w->cta), w->id, loads);
    if (loads && waits_strictly(w->m) && !perform_loads(w))
        return FLOW_TRAP;
    if (loads ? side->loads[w->id] : side->stores[w->id])
        warp_park(w, in, mask, WAIT_TCGEN, loads ? TCGEN_WAIT_LD : TCGEN_WAIT_ST, 0, true);
    return FLOW_NEXT;
}

bool tcgen_touch(struct warp *w, const struct inst *in)
{
    struct tcgen_unit *u = tcgen_unit_of(w->cta);

    for (struct tcgen_op *op = u ? u->oldest : NULL, *next; op; op = next) {
        next = op->newer;
        if (op->class != TCGEN_LD || op->job.site.warp != (int)w->id ||
            op->side != tcgen_side_number(w->cta) || !tcgen_ld_names(op, w, in))
            continue;
        if (waits_strictly(w->m)) {
            warp_trap(w, in, -1, TRAP_PENDING, "a register of the tcgen05.ld of line %u is touched "
                      "before tcgen05.wait::ld",
                      w->grid->program->where[op->job.site.inst - w->grid->program->insts].line);
            return false;
        }
        if (!tcgen_perform(w->m, op))
            return false;
        next = u->oldest;
    }
    return true;
}

/* ---- commit ---------------------------------------------------------------------------------- */

struct commit_job {
    struct async_job job;
    struct tcgen_unit *unit;
    unsigned side;
    uint64_t upto;              /* operations of the thread up to this number */
    struct cta *to[CLUSTER_CTAS];
    unsigned count;
    uint32_t offset;
};

static bool commit_done(struct machine *m, const struct commit_job *c)
{
    const struct tcgen_unit *u = c->unit;

    for (struct tcgen_op *op = u->oldest; op && op->number <= c->upto;) {
        if (op->class > TCGEN_SHIFT || op->side != c->side ||
            op->job.site.warp != c->job.site.warp || op->job.site.lane != c->job.site.lane) {
            op = op->newer;
            continue;
        }
        if (!tcgen_perform(m, op))
            return false;
        op = u->oldest;
    }
    tcgen_strict_told(c->unit, c->side, (unsigned)c->job.site.warp, c->job.site.lane, c->upto);
    /* An arrival at a CTA that has exited by then vanishes. */
    for (unsigned i = 0; i < c->count; i++)
        if (!c->to[i]->exited &&
            !async_arrive(m, &c->job.site, c->to[i], c->offset, 0, 1, 0, true, NULL))
            return false;
    return true;
}

static void commit_fire(struct machine *m, struct async_job *job, unsigned step)
{
    (void)step;
    commit_done(m, (struct commit_job *)job);
}

static bool commit_target(struct warp *w, const struct inst *in, unsigned lane,
                          struct commit_job *c, struct cta *cta, uint32_t offset)
{
    struct cta *owner;
    uint32_t at;

    if (cta->exited)
        return true;
    if (!async_find_mbar(w, in, lane, cta->rank << SMEM_RANK_SHIFT | offset, &owner, &at))
        return false;
    c->to[c->count++] = owner;
    c->offset = at;
    return true;
}

static bool commit_targets(struct warp *w, const struct inst *in, unsigned lane,
                           struct commit_job *c)
{
    const struct cluster *cluster = w->cta->cluster;
    const uint64_t address = warp_address(w, &in->o[0], lane);
    struct cta *cta;
    uint32_t shared, mask;

    if (!async_shared_address(w, in, lane, address, &shared))
        return false;
    cta = cta_of_shared(w->cta, shared);
    shared &= (1u << SMEM_RANK_SHIFT) - 1;
    if (!cta) {
        warp_trap_at(w, in, (int)lane, TRAP_BOUNDS, address, "shared: the cluster has no such rank");
        return false;
    }
    if (!(in->flags & INST_MULTICAST))
        return commit_target(w, in, lane, c, cta, shared);
    mask = (uint32_t)warp_value(w, &in->o[1], lane) & 0xffff;
    if (mask >> cluster->size) {
        warp_trap(w, in, (int)lane, TRAP_BOUNDS, "multicast mask 0x%x names CTAs that the cluster "
                  "of %u does not have", mask, cluster->size);
        return false;
    }
    for (; mask; mask &= mask - 1)
        if (!commit_target(w, in, lane, c, cluster->ctas[__builtin_ctz(mask)], shared))
            return false;
    return true;
}

static bool commit(struct warp *w, const struct inst *in, unsigned lane, struct tcgen_side *side)
{
    struct tcgen_unit *u = tcgen_unit_of(w->cta);
    struct commit_job *c;

    if (!tcgen_thread_of(side, w, lane)->issued) {
        warp_trap(w, in, (int)lane, TRAP_INSTRUCTION, "this commit tracks nothing: the thread has "
                  "issued no tcgen05.mma, cp or shift (a commit tracks its own thread's only)");
        return false;
    }
    c = async_job_new(w, in, lane, sizeof *c, commit_fire);
    if (!c)
        return false;
    c->unit = u;
    c->side = tcgen_side_number(w->cta);
    c->upto = u->numbers;
    fence_before(u, side, w, lane);
    tcgen_strict_before(u, c->side, w->id, (int)lane);
    if (!commit_targets(w, in, lane, c)) {
        async_job_cancel(w->m, &c->job);
        return false;
    }
    async_post(w->m, &c->job, 0, DELAY_MMA);
    return !machine_trapped(w->m);
}

enum flow op_tcgen_commit(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct tcgen_side *side = tcgen_side_of(w, in, in->cta_group);

    if (!side || !async_need_address(w, in, &in->o[0], mask, "the mbarrier's address") ||
        (in->flags & INST_MULTICAST && !warp_need(w, in, &in->o[1], mask, "the multicast mask")))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!commit(w, in, (unsigned)__builtin_ctz(left), side))
            return FLOW_TRAP;
    machine_progress(w->m);
    return FLOW_NEXT;
}

/* ---- exits and reports ----------------------------------------------------------------------- */

/* Nobody will look at registers of lanes that have exited: their loads are over. */
void tcgen_lanes_exit(struct warp *w, const struct inst *in)
{
    (void)in;
    if (tcgen_unit_of(w->cta) && !machine_trapped(w->m))
        perform_loads(w);
}

/* Work in flight that touches the exiting CTA's memory. */
static bool in_flight(struct tcgen_unit *u, struct cta *cta)
{
    const unsigned bit = 1u << tcgen_side_number(cta);
    const struct site at = {.cta = cta, .warp = -1, .lane = -1};

    for (const struct tcgen_op *op = u->oldest; op; op = op->newer)
        for (unsigned i = 0; i < op->span_count; i++)
            if (op->spans[i].sides & bit) {
                const struct program *p = cta->grid->program;

                machine_trap(cta->m, &at, TRAP_EXIT_PENDING, "the CTA's last thread exits with the "
                             "%s of line %u in flight, which uses the CTA's memory", names[op->class],
                             p->where[op->job.site.inst - p->insts].line);
                return true;
            }
    return false;
}

void tcgen_cta_exit(struct cta *cta)
{
    struct tcgen_unit *u = tcgen_unit_of(cta);
    struct tcgen_side *side = u ? &u->sides[tcgen_side_number(cta)] : NULL;
    const struct site at = {.cta = cta, .warp = -1, .lane = -1};
    unsigned columns;

    if (!side || !side->cta || in_flight(u, cta))
        return;
    columns = tmem_owned(side->tmem, cta);
    if (columns) {
        machine_trap(cta->m, &at, TRAP_TENSOR_MEMORY, "the CTA's last thread exits and %u columns "
                     "of Tensor Memory are still allocated (tcgen05.dealloc is missing)", columns);
        return;
    }
    tcgen_permit_leave(side);
}

size_t tcgen_describe(const struct cta *cta, const struct park *park, char *text, size_t room)
{
    const struct tcgen_unit *u = tcgen_unit_of(cta);
    const struct tcgen_side *side = u ? &u->sides[tcgen_side_number(cta)] : NULL;
    int n = 0;

    switch ((enum tcgen_wait)park->key) {
    case TCGEN_WAIT_LD:
        n = snprintf(text, room, "tcgen05.ld in flight");
        break;
    case TCGEN_WAIT_ST:
        n = snprintf(text, room, "tcgen05.st in flight");
        break;
    case TCGEN_WAIT_PEER:
        n = snprintf(text, room, "the pair's other CTA to deallocate too");
        break;
    case TCGEN_WAIT_ALLOC:
        if (!side)
            break;
        if (side->asks && !u->sides[tcgen_side_number(cta) ^ 1].asks)
            n = snprintf(text, room, "tcgen05.alloc of the pair's other CTA");
        else if (side->tmem->permit && side->tmem->permit != cta)
            n = snprintf(text, room, "the permit to allocate Tensor Memory of multiprocessor %u, "
                         "which CTA %u holds (tcgen05.relinquish_alloc_permit)", cta->sm,
                         ((const struct cta *)side->tmem->permit)->number);
        else
            n = snprintf(text, room, "%u free columns of Tensor Memory of multiprocessor %u",
                         (unsigned)park->want, cta->sm);
        break;
    }
    return n > 0 ? (size_t)n : 0;
}
