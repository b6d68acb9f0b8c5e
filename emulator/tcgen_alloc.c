/* tcgen05.alloc, dealloc, relinquish_alloc_permit.
 *
 * The permit of a multiprocessor's Tensor Memory works like a lock: a CTA that asks takes it, and
 * keeps it until it relinquishes it or exits. An allocation of a pair takes the same columns in
 * both multiprocessors, once both CTAs have asked.
 */
#include "tcgen.h"
#include "valid.h"

/* ---- waking ---------------------------------------------------------------------------------- */

/* Everybody who waits for Tensor Memory of this multiprocessor looks again. */
static void wake_all(struct machine *m, unsigned sm)
{
    for (unsigned i = 0; i < m->grid_count; i++)
        for (struct cluster *c = m->grids[i].live; c; c = c->next) {
            bool near = false;

            for (unsigned k = 0; k < c->size; k++)
                near |= c->ctas[k]->sm == sm;
            for (unsigned k = 0; near && k < c->size; k++)
                cta_wake(c->ctas[k], WAIT_TCGEN, TCGEN_WAIT_ALLOC);
        }
}

void tcgen_permit_leave(struct tcgen_side *side)
{
    if (side->tmem->permit == side->cta)
        side->tmem->permit = NULL;
    wake_all(side->cta->m, side->cta->sm);
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool whole_warp(struct warp *w, const struct inst *in, uint32_t mask)
{
    mask = warp_gather(w, in, mask, UINT32_MAX);
    if (mask && mask != UINT32_MAX)
        warp_trap(w, in, -1, TRAP_DIVERGENT, "needs a whole warp, has lanes %08x", mask);
    return mask == UINT32_MAX;
}

static enum flow outcome(const struct warp *w)
{
    return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
}

static bool columns_of(struct warp *w, const struct inst *in, uint32_t *columns)
{
    uint64_t value;
    const char *wrong;

    if (!warp_uniform(w, in, &in->o[1], UINT32_MAX, "the number of columns", &value))
        return false;
    *columns = (uint32_t)value;
    wrong = tmem_bad_size(*columns);
    if (wrong)
        warp_trap(w, in, -1, TRAP_TENSOR_MEMORY, "%u columns: %s", *columns, wrong);
    return !wrong;
}

/* Where the address of the columns goes: 4 bytes of the CTA's own shared memory. */
static bool result_place(struct warp *w, const struct inst *in, struct place *place)
{
    uint64_t address = warp_address(w, &in->o[0], 0);
    uint32_t shared;

    if (!async_need_address(w, in, &in->o[0], UINT32_MAX, "the address of the result"))
        return false;
    for (unsigned lane = 1; lane < LANES; lane++)
        if (warp_address(w, &in->o[0], lane) != address) {
            warp_trap(w, in, (int)lane, TRAP_MISMATCH, "lanes 0 and %u name different places for "
                      "the result", lane);
            return false;
        }
    /* Published kernels give the pointer that C++ has, a generic address. ptxas takes its low word,
     * which is the address in shared memory. */
    if (in->space == SP_SHARED && generic_is_shared(address, &shared))
        address = shared;
    if (address % 4) {
        warp_trap_at(w, in, 0, TRAP_MISALIGNED, address, "must be a multiple of 4");
        return false;
    }
    if (!warp_place(w, in, 0, (enum space)in->space, address, 4, ACCESS_WRITE, place))
        return false;
    if (place->space != SP_SHARED || place->cta != w->cta) {
        warp_trap_at(w, in, 0, TRAP_WRONG_SPACE, address,
                     "the result goes to the CTA's own shared memory");
        return false;
    }
    if (async_smem_touch(w->cta, place->offset, 4, true))
        return true;
    warp_trap_at(w, in, 0, TRAP_MBARRIER_MEMORY, place->offset, "4 bytes of shared memory");
    return false;
}

/* ---- alloc ----------------------------------------------------------------------------------- */

static bool rules(struct warp *w, const struct inst *in, const struct tcgen_side *side,
                  uint32_t columns)
{
    if (side->relinquished)
        warp_trap(w, in, -1, TRAP_TENSOR_MEMORY,
                  "the CTA has relinquished its permit to allocate");
    else if (side->columns && columns > side->columns)
        warp_trap(w, in, -1, TRAP_TENSOR_MEMORY, "%u columns after an allocation of %u: a CTA's "
                  "allocations may not grow", columns, side->columns);
    return !machine_trapped(w->m);
}

static bool may_hold(const struct tcgen_side *side)
{
    return !side->tmem->permit || side->tmem->permit == side->cta;
}

/* The first column of what the CTA may have now, -1: not yet. */
static int allocate_one(struct tcgen_side *side, uint32_t columns)
{
    int first;

    if (!may_hold(side))
        return -1;
    side->tmem->permit = side->cta;
    first = tmem_find(side->tmem, NULL, columns);
    if (first >= 0)
        tmem_take(side->tmem, side->cta, (unsigned)first, columns);
    return first;
}

/* The same for both CTAs of a pair, of which this one has come and the other perhaps. */
static int allocate_pair(struct warp *w, const struct inst *in, struct tcgen_unit *u,
                         struct tcgen_side *side, uint32_t columns)
{
    struct tcgen_side *peer = &u->sides[tcgen_side_number(w->cta) ^ 1];
    int first;

    if (side->granted) {
        side->asks = side->granted = false;
        return (int)side->first;
    }
    side->asks = true;
    side->wanted = columns;
    if (!peer->asks)
        return -1;
    if (peer->wanted != columns) {
        warp_trap(w, in, -1, TRAP_MISMATCH, "%u columns here, %u in the pair's other CTA", columns,
                  peer->wanted);
        return -1;
    }
    if (!may_hold(side) || !may_hold(peer))
        return -1;
    side->tmem->permit = side->cta;
    peer->tmem->permit = peer->cta;
    first = tmem_find(side->tmem, peer->tmem, columns);
    if (first < 0)
        return -1;
    tmem_take(side->tmem, side->cta, (unsigned)first, columns);
    tmem_take(peer->tmem, peer->cta, (unsigned)first, columns);
    side->asks = false;
    peer->granted = true;
    peer->first = (unsigned)first;
    cta_wake(peer->cta, WAIT_TCGEN, TCGEN_WAIT_ALLOC);
    return first;
}

enum flow op_tcgen_alloc(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct tcgen_side *side;
    struct place place;
    uint32_t columns, address;
    int first;

    if (!whole_warp(w, in, mask))
        return outcome(w);
    side = tcgen_side_of(w, in, in->cta_group);
    if (!side || !columns_of(w, in, &columns) || !result_place(w, in, &place) ||
        (!side->granted &&
         (!tcgen_live_side(w, in, in->cta_group) || !rules(w, in, side, columns))))
        return FLOW_TRAP;
    first = in->cta_group == 1 ? allocate_one(side, columns)
                               : allocate_pair(w, in, tcgen_unit_of(w->cta), side, columns);
    if (machine_trapped(w->m))
        return FLOW_TRAP;
    if (first < 0) {
        warp_park(w, in, UINT32_MAX, WAIT_TCGEN, TCGEN_WAIT_ALLOC, columns, true);
        return FLOW_NEXT;
    }
    side->columns = columns;
    tcgen_strict_forget(tcgen_unit_of(w->cta), tcgen_side_number(w->cta), (unsigned)first, columns);
    address = (uint32_t)first;
    memcpy(place.data, &address, sizeof address);
    valid_put(place.valid, place.valid_at, 4, 0xf);
    machine_progress(w->m);
    return FLOW_NEXT;
}

/* ---- dealloc, relinquish --------------------------------------------------------------------- */

/* Nothing in flight may still use the columns. */
static bool quiet(struct warp *w, const struct inst *in, const struct tcgen_unit *u,
                  unsigned first, uint32_t columns)
{
    const unsigned bit = 1u << tcgen_side_number(w->cta);
    const struct program *p = w->grid->program;

    for (const struct tcgen_op *op = u->oldest; op; op = op->newer)
        for (unsigned i = 0; i < op->span_count; i++) {
            const struct tcgen_span *s = &op->spans[i];

            if (!(s->sides & bit) || s->column >= first + columns ||
                first >= s->column + s->columns)
                continue;
            warp_trap(w, in, -1, TRAP_PENDING, "the tcgen05 instruction of line %u, still in "
                      "flight, uses columns %u to %u, which are freed here",
                      p->where[op->job.site.inst - p->insts].line, s->column,
                      s->column + s->columns - 1);
            return false;
        }
    return true;
}

/* A pair's dealloc may wait for the other CTA's, but need not. */
static bool waits_for_peer(struct machine *m)
{
    switch (machine_config(m)->policy) {
    case POLICY_EARLY: break;
    case POLICY_LATE: return true;
    case POLICY_RANDOM: return machine_random(m) & 1;
    }
    return false;
}

enum flow op_tcgen_dealloc(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct tcgen_side *side, *peer;
    struct tcgen_unit *u;
    uint64_t address;
    uint32_t columns;
    unsigned first;

    if (!whole_warp(w, in, mask))
        return outcome(w);
    side = tcgen_side_of(w, in, in->cta_group);
    if (!side || !columns_of(w, in, &columns) ||
        !warp_uniform(w, in, &in->o[0], UINT32_MAX, "the address", &address))
        return FLOW_TRAP;
    u = tcgen_unit_of(w->cta);
    first = (unsigned)address & 0xffff;
    if (address >> 16 || !tmem_give(side->tmem, w->cta, first, columns))
        return warp_trap_at(w, in, -1, TRAP_TENSOR_MEMORY, address, "the CTA has no allocation of "
                            "%u columns at this address", columns);
    if (!quiet(w, in, u, first, columns))
        return FLOW_TRAP;
    wake_all(w->m, w->cta->sm);
    machine_progress(w->m);
    if (in->cta_group == 1)
        return FLOW_NEXT;
    peer = &u->sides[tcgen_side_number(w->cta) ^ 1];
    if (tmem_covers(peer->tmem, peer->cta, first, columns, &first)) {
        if (waits_for_peer(w->m))
            warp_park(w, in, UINT32_MAX, WAIT_TCGEN, TCGEN_WAIT_PEER, 0, false);
    } else {
        cta_wake(peer->cta, WAIT_TCGEN, TCGEN_WAIT_PEER);
    }
    return FLOW_NEXT;
}

enum flow op_tcgen_relinquish(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct tcgen_side *side;

    if (!whole_warp(w, in, mask))
        return outcome(w);
    side = tcgen_side_of(w, in, in->cta_group);
    if (!side)
        return FLOW_TRAP;
    side->relinquished = true;
    tcgen_permit_leave(side);
    machine_progress(w->m);
    return FLOW_NEXT;
}
