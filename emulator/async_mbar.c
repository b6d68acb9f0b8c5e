/* The mbarrier instructions. */
#include <inttypes.h>

#include "async.h"
#include "exec.h"
#include "valid.h"

static struct site site_of(const struct warp *w, const struct inst *in, unsigned lane)
{
    return (struct site){.cta = w->cta, .inst = in, .warp = (int)w->id, .lane = (int)lane};
}

/* Where the 8 bytes lie that an operand names; they need not be an mbarrier yet. */
static bool locate(struct warp *w, const struct inst *in, unsigned lane, const struct operand *op,
                   struct cta **cta, uint32_t *offset)
{
    const uint64_t address = warp_address(w, op, lane);
    struct place place;

    if (address % MBAR_BYTES) {
        warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address,
                     "an mbarrier is 8 bytes at a multiple of 8");
        return false;
    }
    if (!warp_place(w, in, lane, (enum space)in->space, address, MBAR_BYTES, ACCESS_WRITE, &place))
        return false;
    if (place.space != SP_SHARED) {
        warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, address,
                     "an mbarrier lies in shared memory");
        return false;
    }
    *cta = place.cta;
    *offset = place.offset;
    return true;
}

static bool locate_own(struct warp *w, const struct inst *in, unsigned lane,
                       const struct operand *op, uint32_t *offset)
{
    struct cta *cta;

    if (!locate(w, in, lane, op, &cta, offset))
        return false;
    if (cta == w->cta)
        return true;
    warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, warp_address(w, op, lane),
                 "the mbarrier is CTA rank %u's; this operation works on one's own only",
                 cta->rank);
    return false;
}

static enum flow none_here(struct warp *w, const struct inst *in, unsigned lane, uint32_t offset)
{
    return warp_trap_at(w, in, (int)lane, TRAP_MBARRIER, offset,
                        "no mbarrier has been initialised here");
}

enum flow op_mbar_init(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!async_need_address(w, in, &in->o[0], mask, "the address") ||
        !warp_need(w, in, &in->o[1], mask, "the count"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint32_t count = (uint32_t)warp_value(w, &in->o[1], lane);
        uint32_t offset;
        enum mbar_result result;

        if (!locate_own(w, in, lane, &in->o[0], &offset))
            return FLOW_TRAP;
        result = mbar_init(&w->cta->async->bars, offset, count);
        if (mbar_failed(result))
            return warp_trap_at(w, in, (int)lane, result == MBAR_NO_MEMORY ? TRAP_MEMORY :
                                TRAP_MBARRIER, offset, "%s: %u", mbar_error(result), count);
        valid_fill(w->cta->valid, offset, MBAR_BYTES, false);
        cta_wake(w->cta, WAIT_MBARRIER, offset);
    }
    machine_progress(w->m);
    return FLOW_NEXT;
}

enum flow op_mbar_inval(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!async_need_address(w, in, &in->o[0], mask, "the address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        uint32_t offset;

        if (!locate_own(w, in, lane, &in->o[0], &offset))
            return FLOW_TRAP;
        if (mbar_failed(mbar_inval(&w->cta->async->bars, offset)))
            return none_here(w, in, lane, offset);
    }
    machine_progress(w->m);
    return FLOW_NEXT;
}

/* ---- arrivals and byte counts, near and far ---- */

enum far_kind { FAR_ARRIVE, FAR_EXPECT, FAR_COMPLETE };

struct request {
    enum far_kind kind;
    unsigned flags;
    uint32_t count, bytes;
};

struct far_job {
    struct async_job job;
    struct cta *cta;
    uint32_t offset;
    uint64_t phase;             /* of the cluster barrier, when it was sent */
    struct request request;
};

static bool perform(struct machine *m, const struct site *at, struct cta *cta, uint32_t offset,
                    const struct request *r, uint64_t *state)
{
    machine_observe(m, at, EVENT_ARRIVE, 1u << at->lane, offset, r->bytes);
    switch (r->kind) {
    case FAR_ARRIVE:
        return async_arrive(m, at, cta, offset, r->flags, r->count, r->bytes, false, state);
    case FAR_EXPECT:
        return async_expect_tx(m, at, cta, offset, r->bytes);
    case FAR_COMPLETE:
        break;
    }
    return async_complete_tx(m, at, cta, offset, r->bytes);
}

/* What is sent to a CTA that has exited by then vanishes, as on hardware. Under strict-exit it is a
 * trap: whoever sends it does not know that it is in time. */
static bool vanishes(struct machine *m, const struct site *at, const struct cta *cta)
{
    if (m->config.rules & RULE_STRICT_EXIT)
        machine_trap(m, at, TRAP_DEAD_TARGET,
                     "an arrival at a barrier of CTA rank %u, which has exited", cta->rank);
    return !(m->config.rules & RULE_STRICT_EXIT);
}

static void far_fire(struct machine *m, struct async_job *job, unsigned step)
{
    struct far_job *far = (struct far_job *)job;

    (void)step;
    if (!far->cta->exited)
        perform(m, &job->site, far->cta, far->offset, &far->request, NULL);
    else if (far->phase == far->cta->cluster->barrier_phase)
        vanishes(m, &job->site, far->cta);  /* a cluster barrier behind it would have let it arrive */
}

static enum flow send(struct warp *w, const struct inst *in, unsigned lane,
                      const struct operand *address, const struct request *r, uint64_t *state)
{
    const struct site at = site_of(w, in, lane);
    const uint64_t value = warp_address(w, address, lane);
    struct cta *cta = NULL;
    struct far_job *far;
    uint32_t offset;

    if (in->space == SP_SHARED_CLUSTER && !(value >> 32))
        cta = cta_of_shared(w->cta, (uint32_t)value);
    if (cta && cta->exited)
        return vanishes(w->m, &at, cta) ? FLOW_NEXT : FLOW_TRAP;
    if (!locate(w, in, lane, address, &cta, &offset))
        return FLOW_TRAP;
    if (cta == w->cta)
        return perform(w->m, &at, cta, offset, r, state) ? FLOW_NEXT : FLOW_TRAP;
    if (state)
        return warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, value,
                            "the mbarrier is CTA rank %u's: only one's own gives a state",
                            cta->rank);
    if (!mbar_find(&cta->async->bars, offset))
        return none_here(w, in, lane, offset);
    far = async_job_new(w, in, lane, sizeof *far, far_fire);
    if (!far)
        return FLOW_TRAP;
    far->cta = cta;
    far->offset = offset;
    far->phase = cta->cluster->barrier_phase;
    far->request = *r;
    async_post(w->m, &far->job, 0, DELAY_REMOTE);
    return FLOW_NEXT;
}

enum flow op_mbar_arrive(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct operand *number = &in->o[2];
    const bool wants_state = in->o[0].kind == OPND_REG;

    if (!async_need_address(w, in, &in->o[1], mask, "the address") ||
        (number->kind != OPND_NONE && !warp_need(w, in, number, mask, "the count")))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint32_t value = number->kind == OPND_NONE ? 1
                                                         : (uint32_t)warp_value(w, number, lane);
        struct request r = {.kind = FAR_ARRIVE, .count = value};
        uint64_t state = 0;

        if (in->flags & INST_EXPECT_TX) {
            r.flags |= MBAR_EXPECT;
            r.count = 1;
            r.bytes = value;
        }
        if (in->flags & INST_DROP)
            r.flags |= MBAR_DROP;
        if (in->flags & INST_NOCOMPLETE)
            r.flags |= MBAR_NO_COMPLETE;
        if (send(w, in, lane, &in->o[1], &r, wants_state ? &state : NULL) == FLOW_TRAP)
            return FLOW_TRAP;
        if (wants_state)
            warp_set(w, &in->o[0], lane, state, true);
    }
    return FLOW_NEXT;
}

static enum flow send_bytes(struct warp *w, const struct inst *in, uint32_t mask,
                            enum far_kind kind)
{
    if (!async_need_address(w, in, &in->o[0], mask, "the address") ||
        !warp_need(w, in, &in->o[1], mask, "the byte count"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const struct request r = {.kind = kind, .bytes = (uint32_t)warp_value(w, &in->o[1], lane)};

        if (send(w, in, lane, &in->o[0], &r, NULL) == FLOW_TRAP)
            return FLOW_TRAP;
    }
    return FLOW_NEXT;
}

enum flow op_mbar_expect_tx(struct warp *w, const struct inst *in, uint32_t mask)
{
    return send_bytes(w, in, mask, FAR_EXPECT);
}

enum flow op_mbar_complete_tx(struct warp *w, const struct inst *in, uint32_t mask)
{
    return send_bytes(w, in, mask, FAR_COMPLETE);
}

/* ---- waiting ---- */

/* A try_wait may come back false at any time: now and then it does. */
static bool spurious(struct machine *m)
{
    return machine_config(m)->policy == POLICY_RANDOM && machine_random(m) % 16 == 0;
}

/* Lanes of mask that wait for the same phase of the same barrier as its lowest one. */
static uint32_t same_wait(const struct warp *w, const struct inst *in, uint32_t mask)
{
    const unsigned first = (unsigned)__builtin_ctz(mask);

    return warp_same(w, &in->o[1], mask, first) & warp_same(w, &in->o[2], mask, first);
}

enum flow op_mbar_wait(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct async_cta *async = w->cta->async;
    const bool parity = in->flags & INST_PARITY, may_block = in->flags & INST_TRY;
    uint32_t passed = async->told[w->id] & mask, answered = passed;

    if (!async_need_address(w, in, &in->o[1], mask, "the address") ||
        !warp_need(w, in, &in->o[2], mask, parity ? "the parity" : "the state"))
        return FLOW_TRAP;
    async->told[w->id] &= ~mask;
    if (passed) {
        const struct site at = site_of(w, in, (unsigned)__builtin_ctz(passed));

        machine_observe(w->m, &at, EVENT_WAIT_DONE, passed,
                        warp_address(w, &in->o[1], (unsigned)at.lane), 0);
    }
    for (uint32_t left = mask & ~passed, lanes; left; left &= ~lanes) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t want = warp_value(w, &in->o[2], lane);
        enum mbar_result result;
        uint32_t offset;
        bool done;

        lanes = same_wait(w, in, left);
        if (!locate_own(w, in, lane, &in->o[1], &offset))
            return FLOW_TRAP;
        result = parity ? mbar_test_parity(&async->bars, offset, (uint32_t)want, &done)
                        : mbar_test_state(&async->bars, offset, want, &done);
        if (mbar_failed(result))
            return none_here(w, in, lane, offset);
        if (done) {
            const struct site at = site_of(w, in, lane);

            machine_observe(w->m, &at, EVENT_WAIT_DONE, lanes, offset, want);
            passed |= lanes;
            answered |= lanes;
        } else if (!may_block || spurious(w->m)) {
            answered |= lanes;
        } else {
            const uint32_t stay = lanes & ~async->gave_up[w->id];

            answered |= lanes & ~stay;
            if (stay)
                warp_park(w, in, stay, WAIT_MBARRIER, offset, want, true);
        }
    }
    async->gave_up[w->id] &= ~mask;
    if (answered)
        warp_set_pred(w, &in->o[0], answered, passed, UINT32_MAX);
    return FLOW_NEXT;
}

enum flow op_mbar_pending_count(struct warp *w, const struct inst *in, uint32_t mask)
{
    const uint32_t defined = warp_defined(w, &in->o[1]);

    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);

        warp_set(w, &in->o[0], lane, mbar_pending_count(warp_value(w, &in->o[1], lane)),
                 defined >> lane & 1);
    }
    return FLOW_NEXT;
}
