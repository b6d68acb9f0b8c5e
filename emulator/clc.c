/* Cluster launch control: a cluster asks for the work of one that has not started.
 *
 * The answer, 16 bytes in shared memory that only query_cancel understands:
 *     word 0: ANSWER, plus 1 if a cluster was cancelled      words 1-3: its first CTA
 */
#include <string.h>

#include "async.h"
#include "exec.h"
#include "proxy.h"
#include "valid.h"

enum { ANSWER_BYTES = 16, ANSWER = 0x0c1c0000 };

struct cancel_job {
    struct async_job job;
    struct cta *to[CLUSTER_CTAS];
    unsigned count;
    uint32_t offset, barrier;   /* the same in every CTA */
};

/* A request may fail though clusters are left: they start by themselves then. */
static bool refused(struct machine *m)
{
    return machine_config(m)->policy == POLICY_RANDOM && machine_random(m) % 16 == 0;
}

static bool cancel_done(struct machine *m, const struct cancel_job *c)
{
    unsigned first[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    uint32_t answer[4] = {ANSWER};

    if (!refused(m) && grid_cancel(c->job.site.cta->grid, first))
        answer[0]++;
    memcpy(answer + 1, first, sizeof first);
    for (unsigned i = 0; i < c->count; i++) {
        struct cta *cta = c->to[i];

        cta->async->incoming--;
        memcpy(cta->bytes + c->offset, answer, sizeof answer);
        valid_put(cta->valid, c->offset, ANSWER_BYTES, 0xffff);
        if (!async_complete_tx(m, &c->job.site, cta, c->barrier, ANSWER_BYTES))
            return false;
    }
    return true;
}

static void cancel_fire(struct machine *m, struct async_job *job, unsigned step)
{
    (void)step;
    cancel_done(m, (struct cancel_job *)job);
}

/* The CTA's own shared memory that an operand names. */
static bool own_shared(struct warp *w, const struct inst *in, unsigned lane,
                       const struct operand *op, unsigned alignment, uint32_t *offset)
{
    const uint64_t address = warp_address(w, op, lane);
    struct place place;

    if (address % alignment) {
        warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address, "must be a multiple of %u",
                     alignment);
        return false;
    }
    if (!warp_place(w, in, lane, (enum space)in->space, address, alignment, ACCESS_WRITE, &place))
        return false;
    *offset = place.offset;
    if (place.space == SP_SHARED && place.cta == w->cta)
        return true;
    warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, address, "the CTA's own shared memory is meant");
    return false;
}

static bool cancel_into(struct warp *w, const struct inst *in, unsigned lane, struct cancel_job *c,
                        struct cta *cta)
{
    struct cta *owner;
    uint32_t barrier;

    if (cta->exited) {
        warp_trap(w, in, (int)lane, TRAP_DEAD_TARGET, "CTA rank %u of the cluster has exited",
                  cta->rank);
        return false;
    }
    if (!async_find_mbar(w, in, lane, cta->rank << SMEM_RANK_SHIFT | c->barrier, &owner, &barrier) ||
        !proxy_overwrites(w->m, &c->job.site, cta, c->offset, ANSWER_BYTES) ||
        !async_claim(w->m, &c->job.site, cta, c->offset, ANSWER_BYTES))
        return false;
    valid_put(cta->valid, c->offset, ANSWER_BYTES, 0);
    c->to[c->count++] = cta;
    return true;
}

static bool cancel_issue(struct warp *w, const struct inst *in, unsigned lane, struct cancel_job *c)
{
    struct cluster *cluster = w->cta->cluster;

    if (cluster->last_one) {
        warp_trap(w, in, (int)lane, TRAP_INSTRUCTION, "a thread of the cluster has already seen "
                  "that a request failed: none may follow");
        return false;
    }
    if (!own_shared(w, in, lane, &in->o[0], ANSWER_BYTES, &c->offset) ||
        !own_shared(w, in, lane, &in->o[1], MBAR_BYTES, &c->barrier))
        return false;
    if (!(in->flags & INST_MULTICAST))
        return cancel_into(w, in, lane, c, w->cta);
    for (unsigned i = 0; i < cluster->size; i++)
        if (!cancel_into(w, in, lane, c, cluster->ctas[i]))
            return false;
    return true;
}

enum flow op_clc_try_cancel(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!async_need_address(w, in, &in->o[0], mask, "the place of the answer") ||
        !async_need_address(w, in, &in->o[1], mask, "the mbarrier's address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        struct cancel_job *c = async_job_new(w, in, lane, sizeof *c, cancel_fire);

        if (!c)
            return FLOW_TRAP;
        if (!cancel_issue(w, in, lane, c)) {
            async_job_cancel(w->m, &c->job);
            return FLOW_TRAP;
        }
        for (unsigned i = 0; i < c->count; i++)
            c->to[i]->async->incoming++;
        async_post(w->m, &c->job, 0, DELAY_REMOTE);
    }
    machine_progress(w->m);
    return FLOW_NEXT;
}

enum flow op_clc_query(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct program *p = w->grid->program;
    const struct operand *from = &in->o[1];
    struct operand high = *from;
    uint32_t defined;

    high.reg++;
    defined = warp_defined(w, from) & warp_defined(w, &high);
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t value[2] = {warp_value(w, from, lane), warp_value(w, &high, lane)};
        const bool known = defined >> lane & 1;
        uint32_t answer[4];
        bool yes;

        memcpy(answer, value, sizeof answer);
        yes = answer[0] == ANSWER + 1;
        if (known && !yes && answer[0] != ANSWER)
            return warp_trap(w, in, (int)lane, TRAP_INSTRUCTION,
                             "0x%016llx%016llx is no answer of try_cancel",
                             (unsigned long long)value[1], (unsigned long long)value[0]);
        if (in->type[0] == TY_PRED) {
            warp_set_pred(w, &in->o[0], 1u << lane, yes ? UINT32_MAX : 0, known ? UINT32_MAX : 0);
            w->cta->cluster->last_one |= known && !yes;
            continue;
        }
        /* Nobody may read the CTA of a request that failed, nor a fourth coordinate. */
        if (in->dim)
            warp_set(w, &in->o[0], lane, answer[in->dim], known && yes);
        for (unsigned i = 0; !in->dim && i < 4; i++)
            warp_set(w, operand_element(p, &in->o[0], i), lane, i < 3 ? answer[i + 1] : UINT32_MAX,
                     known && yes && i < 3);
    }
    return FLOW_NEXT;
}
