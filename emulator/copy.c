/* Small asynchronous copies: cp.async with its groups, st.async and red.async. */
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "exec.h"
#include "reduce.h"
#include "valid.h"

/* ---- cp.async -------------------------------------------------------------------------------- */

struct copy_job {
    struct async_job job;
    struct warp *warp;
    struct async_thread *thread;
    uint32_t group, mark;
    uint64_t global;
    uint32_t offset;
    unsigned bytes, read;       /* the rest is zeros */
};

/* What happens when all copies that a thread had issued before it are done. */
struct async_mark {
    struct site site;
    struct cta *cta;
    uint32_t offset;
};

static struct async_mark *mark_at(struct async_thread *t, uint32_t group)
{
    return &t->marks[group % t->mark_room];
}

static bool marks_fire(struct machine *m, struct async_thread *t, uint32_t from)
{
    for (; from != t->mark.oldest; from++) {
        const struct async_mark *mark = mark_at(t, from);

        if (!async_arrive(m, &mark->site, mark->cta, mark->offset, 0, 1, 0, true, NULL))
            return false;
    }
    return true;
}

static void copy_fire(struct machine *m, struct async_job *job, unsigned step)
{
    struct copy_job *c = (struct copy_job *)job;
    struct cta *cta = c->warp->cta;
    const uint32_t oldest = c->thread->mark.oldest;
    struct place place;

    (void)step;
    if (c->read) {
        if (!machine_place_global(m, &job->site, c->global, c->read, ACCESS_READ, &place))
            return;
        memcpy(cta->bytes + c->offset, place.data, c->read);
        valid_put(cta->valid, c->offset, c->read,
                  place.valid ? valid_get(place.valid, place.valid_at, c->read) : UINT32_MAX);
    }
    memset(cta->bytes + c->offset + c->read, 0, c->bytes - c->read);
    valid_put(cta->valid, c->offset + c->read, c->bytes - c->read, UINT32_MAX);
    async_groups_read(&c->thread->copy, c->group);
    async_groups_done(&c->thread->copy, c->group);
    async_groups_read(&c->thread->mark, c->mark);
    async_groups_done(&c->thread->mark, c->mark);
    cta->async->incoming--;
    warp_wake(c->warp, WAIT_COPY, c->warp->id * LANES + (unsigned)job->site.lane,
              1u << job->site.lane);
    marks_fire(m, c->thread, oldest);
}

/* Bytes to read: all, what slot 3 says, or none if slot 3 is a true predicate. */
static bool copy_size(struct warp *w, const struct inst *in, unsigned lane, unsigned bytes,
                      unsigned *read)
{
    const struct operand *op = &in->o[3];
    uint64_t value;

    *read = bytes;
    if (op->kind == OPND_NONE)
        return true;
    if (op->kind == OPND_REG && op->bank == BANK_PRED) {
        *read = warp_pred(w, op) >> lane & 1 ? 0 : bytes;
        return true;
    }
    value = warp_value(w, op, lane);
    if (value <= bytes) {
        *read = (unsigned)value;
        return true;
    }
    warp_trap(w, in, (int)lane, TRAP_TENSOR_ACCESS, "source size %u of a copy of %u bytes",
              (unsigned)value, bytes);
    return false;
}

static bool copy_issue(struct warp *w, const struct inst *in, unsigned lane)
{
    const unsigned bytes = (unsigned)in->o[2].imm;
    const uint64_t to = warp_address(w, &in->o[0], lane), from = warp_address(w, &in->o[1], lane);
    const struct site at = {.cta = w->cta, .inst = in, .warp = (int)w->id, .lane = (int)lane};
    struct async_thread *t = async_thread_of(w, in, lane);
    struct place src, dst;
    struct copy_job *c;
    unsigned read;

    if (!t || !copy_size(w, in, lane, bytes, &read))
        return false;
    if (to % bytes || (read && from % bytes)) {
        warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, to % bytes ? to : from,
                     "a cp.async of %u bytes", bytes);
        return false;
    }
    if (!warp_place(w, in, lane, SP_SHARED, to, bytes, ACCESS_WRITE, &dst) ||
        (read && !warp_place(w, in, lane, SP_GLOBAL, from, read, ACCESS_READ, &src)) ||
        !async_claim(w->m, &at, dst.cta, dst.offset, bytes))
        return false;
    c = async_job_new(w, in, lane, sizeof *c, copy_fire);
    if (!c)
        return false;
    c->warp = w;
    c->thread = t;
    c->group = t->copy.open;
    c->mark = t->mark.open;
    c->global = from;
    c->offset = dst.offset;
    c->bytes = bytes;
    c->read = read;
    if (!async_groups_issue(&t->copy) || !async_groups_issue(&t->mark)) {
        warp_trap(w, in, (int)lane, TRAP_MEMORY, "a cp.async group");
        async_job_cancel(w->m, &c->job);
        return false;
    }
    valid_put(dst.cta->valid, dst.offset, bytes, 0);
    w->cta->async->incoming++;
    async_post(w->m, &c->job, 0, DELAY_COPY);
    return true;
}

enum flow op_cp_async(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!async_need_address(w, in, &in->o[0], mask, "the destination") ||
        !async_need_address(w, in, &in->o[1], mask, "the source") ||
        (in->o[3].kind != OPND_NONE && !warp_need(w, in, &in->o[3], mask, "the source size")))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!copy_issue(w, in, (unsigned)__builtin_ctz(left)))
            return FLOW_TRAP;
    machine_progress(w->m);
    return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
}

enum flow op_cp_async_commit(struct warp *w, const struct inst *in, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        struct async_thread *t = async_thread_of(w, in, lane);

        if (!t)
            return FLOW_TRAP;
        if (!async_groups_commit(&t->copy))
            return warp_trap(w, in, (int)lane, TRAP_MEMORY, "a cp.async group");
    }
    return FLOW_NEXT;
}

/* wait_all also covers copies that no group has been made of. */
enum flow op_cp_async_wait(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool all = in->o[0].kind == OPND_NONE;

    if (all && op_cp_async_commit(w, in, mask) == FLOW_TRAP)
        return FLOW_TRAP;
    if (!w->cta->async->threads[w->id])
        return FLOW_NEXT;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const unsigned thread = w->id * LANES + lane;
        const uint32_t newest = all ? 0 : (uint32_t)in->o[0].imm;

        if (!async_groups_passed(&async_thread_at(w->cta->async, thread)->copy, newest, false))
            warp_park(w, in, 1u << lane, WAIT_COPY, thread, newest, true);
    }
    return FLOW_NEXT;
}

/* The group numbers run on, so marks are a ring of their own size. */
static bool mark_room(struct async_thread *t)
{
    const uint32_t used = t->mark.open - t->mark.oldest;
    const uint32_t room = t->mark_room ? 2 * t->mark_room : 4;
    struct async_mark *marks;

    if (used < t->mark_room)
        return true;
    marks = malloc(room * sizeof *marks);
    if (!marks)
        return false;
    for (uint32_t i = t->mark.oldest; i != t->mark.open; i++)
        marks[i % room] = *mark_at(t, i);
    free(t->marks);
    t->marks = marks;
    t->mark_room = room;
    return true;
}

enum flow op_cp_async_mbar(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!async_need_address(w, in, &in->o[0], mask, "the mbarrier's address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t address = warp_address(w, &in->o[0], lane);
        struct async_thread *t = async_thread_of(w, in, lane);
        struct async_mark mark = {.site = {.cta = w->cta, .inst = in, .warp = (int)w->id,
                                           .lane = (int)lane}};
        uint32_t shared, oldest;

        if (!t || !async_shared_address(w, in, lane, address, &shared) ||
            !async_find_mbar(w, in, lane, shared, &mark.cta, &mark.offset))
            return FLOW_TRAP;
        if (!(in->flags & INST_NOINC) && mbar_failed(mbar_pend(&mark.cta->async->bars,
                                                               mark.offset)))
            return warp_trap_at(w, in, (int)lane, TRAP_MBARRIER, address,
                                "the pending count exceeds 1048575");
        if (!mark_room(t))
            return warp_trap(w, in, (int)lane, TRAP_MEMORY, "a cp.async.mbarrier.arrive");
        *mark_at(t, t->mark.open) = mark;
        oldest = t->mark.oldest;
        if (!async_groups_commit(&t->mark))
            return warp_trap(w, in, (int)lane, TRAP_MEMORY, "a cp.async.mbarrier.arrive");
        if (!marks_fire(w->m, t, oldest))
            return FLOW_TRAP;
    }
    return FLOW_NEXT;
}

/* ---- st.async and red.async ------------------------------------------------------------------ */

struct far_store {
    struct async_job job;
    struct cta *cta;
    uint32_t offset, barrier;
    unsigned bytes;
    enum reduce_type reduce;    /* REDUCE_NONE: a store */
    uint8_t data[32];
};

static void far_fire(struct machine *m, struct async_job *job, unsigned step)
{
    struct far_store *f = (struct far_store *)job;
    struct cta *cta = f->cta;

    (void)step;
    if (f->reduce == REDUCE_NONE) {
        memcpy(cta->bytes + f->offset, f->data, f->bytes);
        valid_put(cta->valid, f->offset, f->bytes, UINT32_MAX);
    } else {
        reduce_bytes_at((enum suboperation)job->site.inst->sub, f->reduce, cta->bytes + f->offset,
                        f->data, 1);
    }
    cta->async->incoming--;
    async_complete_tx(m, &job->site, cta, f->barrier, f->bytes);
}

static bool far_issue(struct warp *w, const struct inst *in, unsigned lane, bool reduces)
{
    const unsigned size = type_bits((enum type)in->type[0]) / 8;
    const unsigned count = reduces || in->o[1].kind != OPND_VEC ? 1 : in->o[1].n;
    const uint64_t address = warp_address(w, &in->o[0], lane);
    const struct site at = {.cta = w->cta, .inst = in, .warp = (int)w->id, .lane = (int)lane};
    struct far_store *f;
    struct place dst;
    struct cta *owner;
    uint32_t bar, offset;

    if (address % (size * count)) {
        warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address, "%u bytes", size * count);
        return false;
    }
    if (!warp_place(w, in, lane, SP_SHARED_CLUSTER, address, size * count, ACCESS_WRITE, &dst) ||
        !async_shared_address(w, in, lane, warp_address(w, &in->o[2], lane), &bar) ||
        !async_find_mbar(w, in, lane, bar, &owner, &offset) ||
        !async_claim(w->m, &at, dst.cta, dst.offset, size * count))
        return false;
    if (owner != dst.cta) {
        warp_trap_at(w, in, (int)lane, TRAP_TENSOR_ACCESS, bar,
                     "the mbarrier is CTA rank %u's, the destination rank %u's", owner->rank,
                     dst.cta->rank);
        return false;
    }
    f = async_job_new(w, in, lane, sizeof *f, far_fire);
    if (!f)
        return false;
    f->cta = dst.cta;
    f->offset = dst.offset;
    f->barrier = offset;
    f->bytes = size * count;
    f->reduce = reduces ? reduce_of_type((enum type)in->type[0]) : REDUCE_NONE;
    for (unsigned i = 0; i < count; i++) {
        const uint64_t value = warp_value(w, operand_element(w->grid->program, &in->o[1], i), lane);

        memcpy(f->data + i * size, &value, size);
    }
    if (!reduces)
        valid_put(dst.cta->valid, dst.offset, f->bytes, 0);
    dst.cta->async->incoming++;
    async_post(w->m, &f->job, 0, DELAY_REMOTE);
    return true;
}

static enum flow far_lanes(struct warp *w, const struct inst *in, uint32_t mask, bool reduces)
{
    const unsigned count = in->o[1].kind == OPND_VEC ? in->o[1].n : 1;

    if (!async_need_address(w, in, &in->o[0], mask, "the destination") ||
        !async_need_address(w, in, &in->o[2], mask, "the mbarrier's address"))
        return FLOW_TRAP;
    for (unsigned i = 0; i < count; i++)
        if (!warp_need(w, in, operand_element(w->grid->program, &in->o[1], i), mask, "the value"))
            return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!far_issue(w, in, (unsigned)__builtin_ctz(left), reduces))
            return FLOW_TRAP;
    machine_progress(w->m);
    return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
}

enum flow op_st_async(struct warp *w, const struct inst *in, uint32_t mask)
{
    return far_lanes(w, in, mask, false);
}

enum flow op_red_async(struct warp *w, const struct inst *in, uint32_t mask)
{
    return far_lanes(w, in, mask, true);
}

/* ---- the same in global memory: released when it happens, and nobody is told ------------------- */

struct late_store {
    struct async_job job;
    uint64_t address;
    unsigned bytes;
    enum reduce_type reduce;    /* REDUCE_NONE: a store */
    uint64_t value;
};

static void late_fire(struct machine *m, struct async_job *job, unsigned step)
{
    struct late_store *l = (struct late_store *)job;
    struct place place;

    (void)step;
    if (!machine_place_global(m, &job->site, l->address, l->bytes, ACCESS_WRITE, &place))
        return;
    if (l->reduce == REDUCE_NONE) {
        memcpy(place.data, &l->value, l->bytes);
        if (place.valid)
            valid_put(place.valid, place.valid_at, l->bytes, UINT32_MAX);
    } else if (place.valid && !valid_all(place.valid, place.valid_at, l->bytes)) {
        machine_trap_at(m, &job->site, TRAP_UNDEFINED, l->address,
                        "a reduction of memory that nobody wrote");
        return;
    } else {
        reduce_bytes_at((enum suboperation)job->site.inst->sub, l->reduce, place.data,
                        (const uint8_t *)&l->value, 1);
    }
    machine_progress(m);
}

static bool late_issue(struct warp *w, const struct inst *in, unsigned lane, bool reduces)
{
    const unsigned size = type_bits((enum type)in->type[0]) / 8;
    const uint64_t address = warp_address(w, &in->o[0], lane);
    struct late_store *l;
    struct place dst;

    if (address % size) {
        warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address, "must be a multiple of %u", size);
        return false;
    }
    if (!warp_place(w, in, lane, (enum space)in->space, address, size, ACCESS_WRITE, &dst))
        return false;
    if (dst.space != SP_GLOBAL) {
        warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, address, "global memory is meant");
        return false;
    }
    l = async_job_new(w, in, lane, sizeof *l, late_fire);
    if (!l)
        return false;
    l->address = address;
    l->bytes = size;
    l->reduce = reduces ? reduce_of_type((enum type)in->type[0]) : REDUCE_NONE;
    l->value = warp_value(w, &in->o[1], lane);
    async_post(w->m, &l->job, 0, DELAY_REMOTE);
    return true;
}

static enum flow late_lanes(struct warp *w, const struct inst *in, uint32_t mask, bool reduces)
{
    if (!async_need_address(w, in, &in->o[0], mask, "the destination") ||
        !warp_need(w, in, &in->o[1], mask, "the value"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!late_issue(w, in, (unsigned)__builtin_ctz(left), reduces))
            return FLOW_TRAP;
    machine_progress(w->m);
    return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
}

enum flow op_st_async_global(struct warp *w, const struct inst *in, uint32_t mask)
{
    return late_lanes(w, in, mask, false);
}

enum flow op_red_async_global(struct warp *w, const struct inst *in, uint32_t mask)
{
    return late_lanes(w, in, mask, true);
}
