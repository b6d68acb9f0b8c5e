/* Bulk copies and reductions of plain bytes between global and shared memory and within a
 * cluster, and the bulk groups of a thread. */
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "exec.h"
#include "proxy.h"
#include "reduce.h"
#include "valid.h"

enum { ALIGNMENT = 16, MOST_GROUPS = 63 };

struct bulk_job {
    struct async_job job;
    uint64_t global;            /* the side that is global */
    struct cta *from;           /* shared source, NULL: global */
    uint32_t source;
    struct cta *to[CLUSTER_CTAS];       /* shared destinations */
    unsigned count;             /* 0: global */
    uint32_t offset, barrier;
    uint32_t bytes;
    enum reduce_type reduce;    /* REDUCE_NONE: a copy */
    struct async_ticket ticket;
    unsigned pieces, left;
    uint8_t *data, *valid;
};

static void bulk_drop(struct async_job *job)
{
    struct bulk_job *b = (struct bulk_job *)job;

    free(b->data);
    free(b->valid);
}

static bool read_source(struct machine *m, struct bulk_job *b)
{
    struct place place;

    b->data = malloc(b->bytes + 1);
    b->valid = malloc(valid_bytes(b->bytes));
    if (!b->data || !b->valid) {
        machine_trap(m, &b->job.site, TRAP_MEMORY, "a bulk copy");
        return false;
    }
    memset(b->valid, 0xff, valid_bytes(b->bytes));
    if (b->from) {
        memcpy(b->data, b->from->bytes + b->source, b->bytes);
        valid_copy(b->valid, 0, b->from->valid, b->source, b->bytes);
        return true;
    }
    if (!machine_place_global(m, &b->job.site, b->global, b->bytes, ACCESS_READ, &place))
        return false;
    memcpy(b->data, place.data, b->bytes);
    if (place.valid)
        valid_copy(b->valid, 0, place.valid, place.valid_at, b->bytes);
    return true;
}

/* Bytes [first, end) of what has been read to memory at data, its validity at valid + at. */
static void put_bytes(struct bulk_job *b, uint8_t *data, uint8_t *valid, size_t at, uint32_t first,
                      uint32_t end)
{
    const enum suboperation op = (enum suboperation)b->job.site.inst->sub;
    const unsigned size = b->reduce == REDUCE_NONE ? 1 : reduce_bytes(b->reduce);

    if (b->reduce == REDUCE_NONE) {
        memcpy(data + first, b->data + first, end - first);
        if (valid)
            valid_copy(valid, at + first, b->valid, first, end - first);
        return;
    }
    reduce_bytes_at(op, b->reduce, data + first, b->data + first, (end - first) / size);
    for (uint32_t i = first; valid && i < end; i += size) {
        const bool defined = valid_all(valid, at + i, size) && valid_all(b->valid, i, size);

        valid_put(valid, at + i, size, defined ? UINT32_MAX : 0);
    }
}

static bool check_defined(struct machine *m, struct bulk_job *b)
{
    for (uint32_t i = 0; i < b->bytes; i++)
        if (!valid_get(b->valid, i, 1)) {
            machine_trap_at(m, &b->job.site, TRAP_UNDEFINED, b->source + i,
                            "a bulk copy to global memory reads a byte that nobody wrote");
            return false;
        }
    return true;
}

static void to_shared(struct machine *m, struct bulk_job *b, uint32_t first, uint32_t end)
{
    for (unsigned i = 0; i < b->count; i++)
        put_bytes(b, b->to[i]->bytes + b->offset, b->to[i]->valid, b->offset, first, end);
    if (--b->left)
        return;
    for (unsigned i = 0; i < b->count; i++) {
        b->to[i]->async->incoming--;
        if (!async_complete_tx(m, &b->job.site, b->to[i], b->barrier, b->bytes))
            return;
    }
}

static void to_global(struct machine *m, struct bulk_job *b, uint32_t first, uint32_t end)
{
    struct place place;

    if (!machine_place_global(m, &b->job.site, b->global, b->bytes, ACCESS_WRITE, &place))
        return;
    put_bytes(b, place.data, place.valid, place.valid_at, first, end);
    if (--b->left == 0)
        async_ticket_done(&b->ticket);
}

static void bulk_fire(struct machine *m, struct async_job *job, unsigned step)
{
    struct bulk_job *b = (struct bulk_job *)job;
    const uint64_t units = b->bytes / ALIGNMENT;

    if (step == 0) {
        if (!read_source(m, b) || (!b->count && !check_defined(m, b)))
            return;
        if (!b->count)
            async_ticket_read(&b->ticket);
        for (unsigned i = 0; i < b->pieces; i++)
            async_post(m, job, i + 1, DELAY_COPY);
        return;
    }
    (b->count ? to_shared : to_global)(m, b, (uint32_t)(units * (step - 1) / b->pieces) * ALIGNMENT,
                                       (uint32_t)(units * step / b->pieces) * ALIGNMENT);
    if (b->left == 0)
        machine_observe(m, &job->site, EVENT_ASYNC_DONE, 0, b->offset, b->bytes);
}

/* ---- issue ----------------------------------------------------------------------------------- */

static bool aligned(struct warp *w, const struct inst *in, unsigned lane, uint64_t address,
                    const char *what)
{
    if (address % ALIGNMENT == 0)
        return true;
    warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address,
                 "the %s of a bulk copy lies at a multiple of 16", what);
    return false;
}

static bool bulk_size(struct warp *w, const struct inst *in, unsigned lane,
                      const struct operand *operand, uint32_t *bytes)
{
    *bytes = (uint32_t)warp_value(w, operand, lane);
    if (*bytes % ALIGNMENT == 0)
        return true;
    warp_trap(w, in, (int)lane, TRAP_TENSOR_ACCESS, "%u bytes: a bulk copy moves a multiple of 16",
              *bytes);
    return false;
}

static bool into(struct warp *w, struct bulk_job *b, unsigned lane, struct cta *cta)
{
    const uint32_t rank = cta->rank << SMEM_RANK_SHIFT;
    struct place place;
    struct cta *owner;
    uint32_t offset;

    if (!machine_place_shared(w->m, &b->job.site, cta, rank | b->offset, b->bytes, ACCESS_WRITE,
                              &place) ||
        !async_find_mbar(w, b->job.site.inst, lane, rank | b->barrier, &owner, &offset) ||
        !proxy_overwrites(w->m, &b->job.site, cta, b->offset, b->bytes) ||
        !async_claim(w->m, &b->job.site, cta, b->offset, b->bytes))
        return false;
    if (b->reduce == REDUCE_NONE)
        valid_fill(cta->valid, b->offset, b->bytes, false);
    b->to[b->count++] = cta;
    return true;
}

/* Destinations in shared memory: slots 0 address, 3 mbarrier, 4 multicast mask. */
static bool destinations(struct warp *w, const struct inst *in, unsigned lane, struct bulk_job *b)
{
    const uint64_t address = warp_address(w, &in->o[0], lane);
    struct cta *owner;
    struct place dst;
    uint32_t bar, mask;

    if (!aligned(w, in, lane, address, "destination") ||
        !warp_place(w, in, lane, (enum space)in->space, address, b->bytes, ACCESS_WRITE, &dst) ||
        !async_shared_address(w, in, lane, warp_address(w, &in->o[3], lane), &bar) ||
        !async_find_mbar(w, in, lane, bar, &owner, &b->barrier))
        return false;
    b->offset = dst.offset;
    if (!(in->flags & INST_MULTICAST)) {
        if (owner == dst.cta)
            return into(w, b, lane, dst.cta);
        warp_trap_at(w, in, (int)lane, TRAP_TENSOR_ACCESS, bar,
                     "the mbarrier is CTA rank %u's, the destination rank %u's", owner->rank,
                     dst.cta->rank);
        return false;
    }
    mask = (uint32_t)warp_value(w, &in->o[4], lane) & 0xffff;
    if (mask >> w->cta->cluster->size) {
        warp_trap(w, in, (int)lane, TRAP_BOUNDS,
                  "multicast mask 0x%x names CTAs that the cluster of %u does not have", mask,
                  w->cta->cluster->size);
        return false;
    }
    for (; mask; mask &= mask - 1)
        if (!into(w, b, lane, w->cta->cluster->ctas[__builtin_ctz(mask)]))
            return false;
    return true;
}

static bool source(struct warp *w, const struct inst *in, unsigned lane, struct bulk_job *b)
{
    const uint64_t address = warp_address(w, &in->o[1], lane);
    struct place src;

    if (!aligned(w, in, lane, address, "source") ||
        !warp_place(w, in, lane, (enum space)in->space2, address, b->bytes, ACCESS_READ, &src))
        return false;
    if (in->space2 == SP_GLOBAL) {
        b->global = address;
        return true;
    }
    b->from = src.cta;
    b->source = src.offset;
    return proxy_reads(w->m, &b->job.site, b->from, 1u << w->id, b->source, b->bytes);
}

static bool global_destination(struct warp *w, const struct inst *in, unsigned lane,
                               struct bulk_job *b)
{
    struct place dst;

    b->global = warp_address(w, &in->o[0], lane);
    return aligned(w, in, lane, b->global, "destination") &&
           warp_place(w, in, lane, SP_GLOBAL, b->global, b->bytes, ACCESS_WRITE, &dst) &&
           async_ticket_take(w, in, lane, &b->ticket);
}

static bool bulk_issue(struct warp *w, const struct inst *in, unsigned lane, bool reduces)
{
    const bool shared = in->space != SP_GLOBAL;
    struct bulk_job *b;
    uint32_t bytes;

    if (!bulk_size(w, in, lane, &in->o[2], &bytes))
        return false;
    b = async_job_new(w, in, lane, sizeof *b, bulk_fire);
    if (!b)
        return false;
    b->job.drop = bulk_drop;
    b->bytes = bytes;
    b->reduce = reduces ? reduce_of_type((enum type)in->type[0]) : REDUCE_NONE;
    b->pieces = b->left = async_pieces(w->m, bytes / ALIGNMENT ? bytes / ALIGNMENT : 1);
    if (!source(w, in, lane, b) ||
        !(shared ? destinations(w, in, lane, b) : global_destination(w, in, lane, b))) {
        async_job_cancel(w->m, &b->job);
        return false;
    }
    machine_observe(w->m, &b->job.site, EVENT_ASYNC_ISSUE, 1u << lane, b->offset, b->barrier);
    if (shared && b->count == 0) {
        async_job_cancel(w->m, &b->job);        /* an empty multicast mask */
        return true;
    }
    for (unsigned i = 0; i < b->count; i++)
        b->to[i]->async->incoming++;
    async_post(w->m, &b->job, 0, DELAY_READ);
    return true;
}

static enum flow bulk_lanes(struct warp *w, const struct inst *in, uint32_t mask, bool reduces)
{
    if (!async_need_address(w, in, &in->o[0], mask, "the destination") ||
        !async_need_address(w, in, &in->o[1], mask, "the source") ||
        !warp_need(w, in, &in->o[2], mask, "the size") ||
        (in->space != SP_GLOBAL &&
         !async_need_address(w, in, &in->o[3], mask, "the mbarrier's address")) ||
        (in->flags & INST_MULTICAST && !warp_need(w, in, &in->o[4], mask, "the multicast mask")))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!bulk_issue(w, in, (unsigned)__builtin_ctz(left), reduces))
            return FLOW_TRAP;
    machine_progress(w->m);
    return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
}

enum flow op_bulk_copy(struct warp *w, const struct inst *in, uint32_t mask)
{
    return bulk_lanes(w, in, mask, false);
}

enum flow op_bulk_reduce(struct warp *w, const struct inst *in, uint32_t mask)
{
    return bulk_lanes(w, in, mask, true);
}

/* A hint, but one that must name memory. */
enum flow op_bulk_prefetch(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!async_need_address(w, in, &in->o[0], mask, "the source") ||
        !warp_need(w, in, &in->o[1], mask, "the size"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t address = warp_address(w, &in->o[0], lane);
        struct place place;
        uint32_t bytes;

        if (!bulk_size(w, in, lane, &in->o[1], &bytes) ||
            !aligned(w, in, lane, address, "source") ||
            !warp_place(w, in, lane, SP_GLOBAL, address, bytes, ACCESS_READ, &place))
            return FLOW_TRAP;
    }
    return FLOW_NEXT;
}

/* ---- groups ---------------------------------------------------------------------------------- */

enum flow op_bulk_commit(struct warp *w, const struct inst *in, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        struct async_thread *t = async_thread_of(w, in, lane);

        if (!t)
            return FLOW_TRAP;
        if (!async_groups_commit(&t->bulk))
            return warp_trap(w, in, (int)lane, TRAP_MEMORY, "a bulk group");
    }
    return FLOW_NEXT;
}

enum flow op_bulk_wait(struct warp *w, const struct inst *in, uint32_t mask)
{
    const uint32_t newest = in->o[0].imm < MOST_GROUPS ? (uint32_t)in->o[0].imm : MOST_GROUPS;

    if (!w->cta->async->threads[w->id])
        return FLOW_NEXT;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const unsigned thread = w->id * LANES + lane;
        struct async_groups *groups = &async_thread_at(w->cta->async, thread)->bulk;

        if (groups->open >= newest && groups->open - newest > groups->waited)
            groups->waited = groups->open - newest;
        if (!async_groups_passed(groups, newest, in->flags & INST_READ))
            warp_park(w, in, 1u << lane, WAIT_BULK, thread, newest, true);
    }
    return FLOW_NEXT;
}
