/* The tensor copies: loads (also multicast), stores, reductions, prefetches.
 *
 *     load     issue: check, destination bytes become undefined
 *              event(s): global rows -> shared memory of each destination
 *              last:     complete_tx of the whole box on each destination's own mbarrier
 *     store    event 0:  shared rows -> staging                     the group counts it as read
 *              event(s): staging -> global                          last: as done
 */
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "exec.h"
#include "proxy.h"
#include "reduce.h"
#include "tma_box.h"
#include "valid.h"

enum {
    MOST_ROW_BYTES = 256 * 8,
    SHARED_ALIGNMENT = 128, GLOBAL_ALIGNMENT = 16, MAP_ALIGNMENT = 64,
};

/* ---- maps and coordinates -------------------------------------------------------------------- */

/* What an instruction says about a box: for one lane. */
struct access_box {
    struct tmap map;
    struct box box;
};

static bool read_map(struct warp *w, const struct inst *in, unsigned lane,
                     const struct operand *operand, struct tmap *map)
{
    const uint64_t address = warp_address(w, operand, lane);
    const unsigned part = machine_config(w->m)->part == PART_B200 ? 100 : 90;
    uint8_t bytes[TMAP_BYTES];
    const char *wrong;
    struct place place;

    if (address % MAP_ALIGNMENT) {
        warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address,
                     "a tensor map lies at a multiple of 64 (for a parameter: is cvta.param "
                     "missing?)");
        return false;
    }
    if (!warp_place(w, in, lane, SP_GENERIC, address, TMAP_BYTES, ACCESS_READ, &place))
        return false;
    if (place.space == SP_SHARED || place.space == SP_LOCAL) {
        warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, address,
                     "a tensor map lies in param, const or global memory");
        return false;
    }
    if (place.valid && !valid_all(place.valid, place.valid_at, TMAP_BYTES)) {
        warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, address,
                     "the tensor map has bytes that nobody wrote");
        return false;
    }
    if (tensormap_stale(w->cta, address)) {
        warp_trap_at(w, in, (int)lane, TRAP_TENSOR_MAP, address, "the map has been edited and this "
                     "CTA has not acquired it since (fence.proxy.tensormap::generic.acquire)");
        return false;
    }
    memcpy(bytes, place.data, sizeof bytes);
    wrong = tmap_decode(bytes, part, map);
    if (!wrong)
        return true;
    warp_trap_at(w, in, (int)lane, TRAP_TENSOR_MAP, address, "%s", wrong);
    return false;
}

static bool read_box(struct warp *w, const struct inst *in, unsigned lane,
                     const struct operand *map, const struct operand *coordinates, bool store,
                     struct access_box *out)
{
    int32_t at[BOX_COORDINATES] = {0};
    const bool gathers = in->sub == SUB_GATHER4 || in->sub == SUB_SCATTER4;
    const unsigned count = gathers ? BOX_COORDINATES : in->dim;
    const char *wrong;
    unsigned bits;

    if (!read_map(w, in, lane, map, &out->map))
        return false;
    if (out->map.rank != in->dim) {
        warp_trap(w, in, (int)lane, TRAP_TENSOR_MAP, "the map has rank %u, the instruction %u",
                  out->map.rank, in->dim);
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        at[i] = (int32_t)warp_value(w, operand_element(w->grid->program, coordinates, i), lane);
        if (store && at[i] < 0) {
            warp_trap(w, in, (int)lane, TRAP_TENSOR_ACCESS,
                      "coordinate %u is %d; stores and reductions take none below 0", i, at[i]);
            return false;
        }
    }
    if (out->map.swizzle > TMAP_SWIZZLE_128B_ATOM_32B) {
        warp_trap(w, in, (int)lane, TRAP_UNVERIFIED, "the map swizzles 128 bytes by %s: no source "
                  "says how", out->map.swizzle == TMAP_SWIZZLE_128B_ATOM_64B
                  ? "atoms of 64 bytes" : "atoms of 32 bytes with 8-byte flips");
        return false;
    }
    bits = out->map.element_bytes ? 8 * out->map.element_bytes : 4;
    if (out->map.type != TMAP_6X16_P32 && (int64_t)at[0] * bits % (8 * GLOBAL_ALIGNMENT)) {
        warp_trap(w, in, (int)lane, TRAP_TENSOR_ACCESS,
                  "coordinate 0 is %d: the box must start at a multiple of 16 bytes (elements "
                  "have %u bits)", at[0], bits);
        return false;
    }
    wrong = box_open(&out->box, &out->map, at, gathers);
    if (!wrong)
        return true;
    warp_trap(w, in, (int)lane, TRAP_TENSOR_MAP, "%s", wrong);
    return false;
}

static bool need_box(struct warp *w, const struct inst *in, uint32_t mask,
                     const struct operand *map, const struct operand *coordinates)
{
    if (!async_need_address(w, in, map, mask, "the tensor map's address"))
        return false;
    for (unsigned i = 0; i < coordinates->n; i++)
        if (!warp_need(w, in, operand_element(w->grid->program, coordinates, i), mask,
                       "a coordinate"))
            return false;
    return true;
}

/* The box's place in shared memory: aligned, and all of it within the window. */
static bool place_box(struct warp *w, const struct inst *in, unsigned lane,
                      const struct operand *operand, const struct box *box, enum access access,
                      struct place *place)
{
    const enum space space = (enum space)(access == ACCESS_WRITE ? in->space : in->space2);
    const uint64_t address = warp_address(w, operand, lane);

    if (address % SHARED_ALIGNMENT) {
        warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address,
                     "a tensor copy's shared memory lies at a multiple of 128");
        return false;
    }
    return warp_place(w, in, lane, space, address, box_extent(box), access, place);
}

/* ---- rows in shared memory ------------------------------------------------------------------- */

/* A row of bytes to shared memory. Their validity is set here only where it is not whole rows
 * that become valid: load_fire() does those together. */
static void put_row(const struct box *box, struct cta *cta, uint32_t base, uint32_t row,
                    const uint8_t *data, bool valid)
{
    const uint32_t start = base + row * box->pitch;
    const uint32_t key = box->span ? start >> 3 & (box->span - 16) : 0;
    uint8_t *const to = cta->bytes;

    if (box->inner == 128 && box->span == 128 && !box->atoms_of_32) {
        for (uint32_t b = 0; b < 128; b += 16)
            memcpy(to + start + (b ^ key), data + b, 16);
        return;
    }
    for (uint32_t b = 0; b < box->inner; b += box->unit)
        memcpy(to + box_shared(box, base, row, b), data + b, box->unit);
    if (box->inner != box->pitch && valid)
        for (uint32_t b = 0; b < box->inner; b += box->unit)
            valid_put(cta->valid, box_shared(box, base, row, b), box->unit, UINT32_MAX);
}

static void put_validity(const struct box *box, struct cta *cta, uint32_t base, uint32_t row,
                         const uint8_t *valid)
{
    for (uint32_t b = 0; b < box->inner; b += box->unit)
        valid_put(cta->valid, box_shared(box, base, row, b), box->unit,
                  valid_get(valid, b, box->unit));
}

static void forget_box(const struct box *box, struct cta *cta, uint32_t base)
{
    if (box->inner == box->pitch) {
        valid_fill(cta->valid, base, box->rows * box->pitch, false);
        return;
    }
    for (uint32_t row = 0; row < box->rows; row++)
        for (uint32_t b = 0; b < box->inner; b += box->unit)
            valid_put(cta->valid, box_shared(box, base, row, b), box->unit, 0);
}

/* ---- loads ----------------------------------------------------------------------------------- */

struct load_job {
    struct async_job job;
    struct access_box access;
    struct cta *to[CLUSTER_CTAS];
    struct cta *signals[CLUSTER_CTAS];  /* whose mbarrier is told of it */
    unsigned count;
    uint32_t offset, barrier;   /* the same in every destination */
    unsigned pieces, left;
};

static void round_to_tf32(uint8_t *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 4) {
        uint32_t v;

        memcpy(&v, bytes + i, 4);
        v = (v & 0x7fffffff) > 0x7f800000 ? 0x7fffe000 : (v + 0xfff + (v >> 13 & 1)) & ~0x1fffu;
        memcpy(bytes + i, &v, 4);
    }
}

/* What is outside of the tensor: zeros, or in every 16 bits the special NaN. */
static void fill(const struct tmap *map, uint8_t *bytes, uint32_t n)
{
    static const uint8_t nan[2] = {0xf7, 0x7f};

    if (map->fill == TMAP_FILL_ZERO) {
        memset(bytes, 0, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        bytes[i] = nan[i & 1];
}

static bool load_row(struct machine *m, struct load_job *l, uint32_t row, bool *all_valid)
{
    const struct box *box = &l->access.box;
    const struct tmap *map = &l->access.map;
    const bool tf32 = map->type == TMAP_TF32 || map->type == TMAP_TF32_FTZ;
    uint8_t bytes[MOST_ROW_BYTES];
    struct box_row r;
    struct place place;
    bool valid;

    box_row(box, row, false, &r);
    if (r.bytes && !machine_place_global(m, &l->job.site, r.global, r.bytes, ACCESS_READ, &place))
        return false;
    valid = !r.bytes || !place.valid || valid_all(place.valid, place.valid_at, r.bytes);
    *all_valid &= valid;
    if (r.bytes == box->inner && !tf32) {
        for (unsigned i = 0; i < l->count; i++)
            put_row(box, l->to[i], l->offset, row, place.data, valid);
        return true;
    }
    fill(map, bytes, box->inner);
    if (r.bytes) {
        memcpy(bytes + r.skip, place.data, r.bytes);
        if (tf32)
            round_to_tf32(bytes + r.skip, r.bytes);
    }
    for (unsigned i = 0; i < l->count; i++)
        put_row(box, l->to[i], l->offset, row, bytes, valid);
    return true;
}

/* The usual box, 128 bytes wide and swizzled likewise: from this row on as many as follow each other
 * inside the matrix and in one piece of memory. How many; 0: load_row() has to do it. */
static uint32_t load_run(struct machine *m, struct load_job *l, uint32_t row, uint32_t end,
                         bool *all_valid)
{
    const struct box *box = &l->access.box;
    const struct tmap *map = &l->access.map;
    struct box_row r;
    struct place place;

    if (box->inner != 128 || box->span != 128 || box->atoms_of_32 || box->gathers ||
        map->rank < 2 || map->type == TMAP_TF32 || map->type == TMAP_TF32_FTZ)
        return 0;
    box_row(box, row, false, &r);
    if (r.bytes != 128 ||
        !machine_place_global(m, &l->job.site, r.global, r.bytes, ACCESS_READ, &place))
        return 0;
    const uint32_t along = row % box->count[1];
    const uint64_t apart = map->stride[1] * map->element_stride[1];
    const int64_t at = box->start[1] + (int64_t)along * map->element_stride[1];
    const uint64_t inside = (map->dim[1] - (uint64_t)at - 1) / map->element_stride[1] + 1;
    const uint64_t room = apart ? (place.room - 128) / apart + 1 : 1;
    uint64_t rows = box->count[1] - along;
    rows = rows < end - row ? rows : end - row;
    rows = rows < inside ? rows : inside;
    rows = rows < room ? rows : room;
    for (uint64_t i = 0; i < rows; i++) {
        const bool valid = !place.valid || valid_all(place.valid, place.valid_at + i * apart, 128);

        *all_valid &= valid;
        for (unsigned k = 0; k < l->count; k++)
            put_row(box, l->to[k], l->offset, row + (uint32_t)i, place.data + i * apart, valid);
    }
    return (uint32_t)rows;
}

/* Rows some of whose bytes nobody wrote, after the rows around them have been made valid. */
static bool load_invalid(struct machine *m, struct load_job *l, uint32_t row)
{
    const struct box *box = &l->access.box;
    uint8_t valid[MOST_ROW_BYTES / 8 + 8];
    struct box_row r;
    struct place place;

    box_row(box, row, false, &r);
    if (!r.bytes)
        return true;
    if (!machine_place_global(m, &l->job.site, r.global, r.bytes, ACCESS_READ, &place))
        return false;
    if (!place.valid || valid_all(place.valid, place.valid_at, r.bytes))
        return true;
    memset(valid, 0xff, sizeof valid);
    valid_copy(valid, r.skip, place.valid, place.valid_at, r.bytes);
    for (unsigned i = 0; i < l->count; i++)
        put_validity(box, l->to[i], l->offset, row, valid);
    return true;
}

/* The bytes that an mbarrier is told of: gaps between narrow elements do not count. */
static uint32_t credit(const struct machine *m, const struct box *box)
{
    return (uint32_t)(machine_config(m)->rules & RULE_PADDED_BYTES ? box->rows * box->wide
                                                                   : box_bytes(box));
}

static void load_fire(struct machine *m, struct async_job *job, unsigned step)
{
    struct load_job *l = (struct load_job *)job;
    const struct box *box = &l->access.box;
    const uint32_t first = (uint32_t)(box->rows * step / l->pieces);
    const uint32_t end = (uint32_t)(box->rows * (step + 1) / l->pieces);
    bool all_valid = true;

    for (uint32_t row = first, run; row < end && !m->trapped; row += run ? run : 1) {
        run = load_run(m, l, row, end, &all_valid);
        if (!run && !m->trapped && !load_row(m, l, row, &all_valid))
            return;
    }
    if (m->trapped)
        return;
    for (unsigned i = 0; i < l->count && box->inner == box->pitch; i++)
        valid_fill(l->to[i]->valid, l->offset + first * box->pitch, (end - first) * box->pitch,
                   true);
    for (uint32_t row = first; row < end && !all_valid; row++)
        if (!load_invalid(m, l, row))
            return;
    if (--l->left)
        return;
    for (unsigned i = 0; i < l->count; i++) {
        l->to[i]->async->incoming--;
        if (l->signals[i]->exited) {
            machine_trap(m, &job->site, TRAP_DEAD_TARGET, "the copy is complete, and CTA rank %u, "
                         "whose mbarrier is to be told, has exited", l->signals[i]->rank);
            return;
        }
        if (!async_complete_tx(m, &job->site, l->signals[i], l->barrier, credit(m, box)))
            return;
    }
    machine_observe(m, &job->site, EVENT_ASYNC_DONE, 0, l->offset, box_bytes(box));
}

/* One destination: its bytes, and the barrier in the CTA that is told. */
static bool load_into(struct warp *w, struct load_job *l, unsigned lane, struct cta *cta,
                      uint32_t dst, struct cta *told, uint32_t barrier)
{
    const struct site *at = &l->job.site;
    const struct box *box = &l->access.box;
    const uint32_t rank = cta->rank << SMEM_RANK_SHIFT;
    struct place place;
    struct cta *owner;
    uint32_t offset;

    if (!machine_place_shared(w->m, at, cta, rank | dst, box_extent(box), ACCESS_WRITE, &place) ||
        !async_find_mbar(w, at->inst, lane, told->rank << SMEM_RANK_SHIFT | barrier, &owner,
                         &offset) ||
        !proxy_overwrites(w->m, at, cta, dst, (uint32_t)box_extent(box)) ||
        !async_claim(w->m, at, cta, dst, (uint32_t)box_extent(box)))
        return false;
    forget_box(box, cta, dst);
    l->signals[l->count] = told;
    l->to[l->count++] = cta;
    return true;
}

/* With .cta_group::2 the barrier may be in either CTA of the destination's pair: the one whose rank
 * is as even or odd as that of the barrier's owner. */
static struct cta *told_for(const struct inst *in, struct cta *dst, const struct cta *owner)
{
    const unsigned rank = (dst->rank & ~1u) | (owner->rank & 1);

    return in->cta_group == 2 && rank < dst->cluster->size ? dst->cluster->ctas[rank] : dst;
}

static bool load_all(struct warp *w, const struct inst *in, unsigned lane, struct load_job *l,
                     const struct place *dst)
{
    const uint64_t barrier = warp_address(w, &in->o[3], lane);
    struct cta *owner;
    uint32_t offset, mask;

    if (!async_shared_address(w, in, lane, barrier, &offset))
        return false;
    if (!async_find_mbar(w, in, lane, offset, &owner, &offset))
        return false;
    l->offset = dst->offset;
    l->barrier = offset;
    if (!(in->flags & INST_MULTICAST)) {
        if (owner == told_for(in, dst->cta, owner))
            return load_into(w, l, lane, dst->cta, dst->offset, owner, offset);
        warp_trap_at(w, in, (int)lane, TRAP_TENSOR_ACCESS, barrier,
                     "the mbarrier is CTA rank %u's, the destination rank %u's%s", owner->rank,
                     dst->cta->rank, in->cta_group == 2 ? ": no pair" : "");
        return false;
    }
    mask = (uint32_t)warp_value(w, &in->o[4], lane) & 0xffff;
    if (mask >> w->cta->cluster->size) {
        warp_trap(w, in, (int)lane, TRAP_BOUNDS,
                  "multicast mask 0x%x names CTAs that the cluster of %u does not have", mask,
                  w->cta->cluster->size);
        return false;
    }
    for (; mask; mask &= mask - 1) {
        struct cta *cta = w->cta->cluster->ctas[__builtin_ctz(mask)];

        if (!load_into(w, l, lane, cta, dst->offset, told_for(in, cta, owner), offset))
            return false;
    }
    return true;
}

static bool load_issue(struct warp *w, const struct inst *in, unsigned lane)
{
    struct access_box access;
    struct place dst;
    struct load_job *l;

    if (!read_box(w, in, lane, &in->o[1], &in->o[2], false, &access) ||
        !place_box(w, in, lane, &in->o[0], &access.box, ACCESS_WRITE, &dst))
        return false;
    l = async_job_new(w, in, lane, sizeof *l, load_fire);
    if (!l)
        return false;
    l->access = access;
    l->access.box.map = &l->access.map;
    l->pieces = l->left = async_pieces(w->m, access.box.rows);
    if (!load_all(w, in, lane, l, &dst)) {
        async_job_cancel(w->m, &l->job);
        return false;
    }
    for (unsigned i = 0; i < l->count; i++)
        l->to[i]->async->incoming++;
    machine_observe(w->m, &l->job.site, EVENT_ASYNC_ISSUE, 1u << lane, l->offset, l->barrier);
    const unsigned pieces = l->count ? l->pieces : 0;

    if (!pieces)
        async_job_cancel(w->m, &l->job);        /* an empty multicast mask */
    for (unsigned i = 0; i < pieces && !machine_trapped(w->m); i++)
        async_post(w->m, &l->job, i, DELAY_COPY);
    return true;
}

enum flow op_tensor_load(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!need_box(w, in, mask, &in->o[1], &in->o[2]) ||
        !async_need_address(w, in, &in->o[0], mask, "the destination") ||
        !async_need_address(w, in, &in->o[3], mask, "the mbarrier's address") ||
        (in->flags & INST_MULTICAST && !warp_need(w, in, &in->o[4], mask, "the multicast mask")))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!load_issue(w, in, (unsigned)__builtin_ctz(left)))
            return FLOW_TRAP;
    machine_progress(w->m);
    return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
}

/* ---- stores and reductions ------------------------------------------------------------------- */

struct store_job {
    struct async_job job;
    struct access_box access;
    struct cta *cta;
    uint32_t offset;
    struct async_ticket ticket;
    enum reduce_type reduce;    /* REDUCE_NONE: a plain store */
    unsigned pieces, left;
    uint8_t *data, *valid;      /* what has been read */
};

static void store_drop(struct async_job *job)
{
    struct store_job *s = (struct store_job *)job;

    free(s->data);
    free(s->valid);
}

/* The bytes of the row that the tensor really has must have been written. */
static bool check_row(struct machine *m, struct store_job *s, uint32_t row)
{
    const struct box *box = &s->access.box;
    struct box_row r;

    box_row(box, row, false, &r);
    for (uint32_t b = r.skip; b < r.skip + r.bytes; b++)
        if (!valid_get(s->valid, (size_t)row * box->inner + b, 1)) {
            const uint32_t at = box_shared(box, s->offset, row, b & ~15u) + b % 16;

            machine_trap_at(m, &s->job.site, TRAP_UNDEFINED, at,
                            "a tensor store reads a byte of shared memory that nobody wrote (row "
                            "%u, byte %u of the box)", row, b);
            return false;
        }
    return true;
}

static bool store_read(struct machine *m, struct store_job *s)
{
    const struct box *box = &s->access.box;
    const size_t bytes = box_bytes(box);

    s->data = malloc(bytes);
    s->valid = malloc(valid_bytes(bytes));
    if (!s->data || !s->valid) {
        machine_trap(m, &s->job.site, TRAP_MEMORY, "a tensor store");
        return false;
    }
    memset(s->valid, 0xff, valid_bytes(bytes));
    for (uint32_t row = 0; row < box->rows; row++) {
        const size_t base = (size_t)row * box->inner;
        const uint32_t start = s->offset + row * box->pitch;
        bool all = box->inner == box->pitch && valid_all(s->cta->valid, start, box->inner);

        if (all) {
            for (uint32_t b = 0; b < box->inner; b += 16)
                memcpy(s->data + base + b, s->cta->bytes + box_shared(box, s->offset, row, b), 16);
            continue;
        }
        all = true;
        for (uint32_t b = 0; b < box->inner; b += 16) {
            const uint32_t at = box_shared(box, s->offset, row, b);
            const uint32_t valid = valid_get(s->cta->valid, at, 16);

            memcpy(s->data + base + b, s->cta->bytes + at, 16);
            valid_put(s->valid, base + b, 16, valid);
            all &= valid == 0xffff;
        }
        if (!all && !check_row(m, s, row))
            return false;
    }
    async_ticket_read(&s->ticket);
    return true;
}

static void reduce_row(struct store_job *s, const struct place *place, const uint8_t *from,
                       size_t from_bit, uint32_t bytes)
{
    const unsigned size = reduce_bytes(s->reduce);

    reduce_bytes_at((enum suboperation)s->job.site.inst->sub, s->reduce, place->data, from,
                    bytes / size);
    if (!place->valid)
        return;
    for (uint32_t b = 0; b < bytes; b += size) {
        const bool defined = valid_all(place->valid, place->valid_at + b, size) &&
                             valid_all(s->valid, from_bit + b, size);

        valid_put(place->valid, place->valid_at + b, size, defined ? UINT32_MAX : 0);
    }
}

static bool store_row(struct machine *m, struct store_job *s, uint32_t row)
{
    const struct box *box = &s->access.box;
    struct place place;
    struct box_row r;
    size_t from;

    box_row(box, row, true, &r);
    if (!r.bytes)
        return true;
    if (!machine_place_global(m, &s->job.site, r.global, r.bytes, ACCESS_WRITE, &place))
        return false;
    from = (size_t)row * box->inner + r.skip;
    if (s->reduce != REDUCE_NONE) {
        reduce_row(s, &place, s->data + from, from, r.bytes);
        return true;
    }
    memcpy(place.data, s->data + from, r.bytes);
    if (place.valid)
        valid_copy(place.valid, place.valid_at, s->valid, from, r.bytes);
    return true;
}

static void store_fire(struct machine *m, struct async_job *job, unsigned step)
{
    struct store_job *s = (struct store_job *)job;
    const uint64_t rows = s->access.box.rows;

    if (step == 0) {
        if (!store_read(m, s))
            return;
        for (unsigned i = 0; i < s->pieces; i++)
            async_post(m, job, i + 1, DELAY_COPY);
        return;
    }
    for (uint64_t row = rows * (step - 1) / s->pieces; row < rows * step / s->pieces; row++)
        if (!store_row(m, s, (uint32_t)row))
            return;
    if (--s->left == 0) {
        async_ticket_done(&s->ticket);
        machine_observe(m, &job->site, EVENT_ASYNC_DONE, 0, s->offset, box_bytes(&s->access.box));
    }
}

/* Nothing that the store reads waits for a proxy fence. */
static bool store_fenced(struct machine *m, const struct store_job *s)
{
    const struct box *box = &s->access.box;

    for (uint32_t row = 0; proxy_watched(m) && row < box->rows; row++)
        for (uint32_t b = 0; b < box->inner; b += 16)
            if (!proxy_reads(m, &s->job.site, s->cta, 1u << s->job.site.warp,
                             box_shared(box, s->offset, row, b), 16))
                return false;
    return true;
}

static bool store_issue(struct warp *w, const struct inst *in, unsigned lane,
                        enum reduce_type *reduce)
{
    struct access_box access;
    struct place src;
    struct store_job *s;

    if (!read_box(w, in, lane, &in->o[0], &in->o[1], true, &access) ||
        !place_box(w, in, lane, &in->o[2], &access.box, ACCESS_READ, &src))
        return false;
    if (access.map.type == TMAP_6X16_P32) {
        warp_trap(w, in, (int)lane, TRAP_UNVERIFIED, "a store or reduction of elements of type %s: "
                  "no source says which swizzles and gaps", tmap_type_name(access.map.type));
        return false;
    }
    if (access.box.unit < 16) {
        warp_trap(w, in, (int)lane, TRAP_TENSOR_ACCESS, "elements of type %s are loaded only",
                  tmap_type_name(access.map.type));
        return false;
    }
    if (reduce) {
        *reduce = reduce_of_map(access.map.type);
        if (!reduce_legal((enum suboperation)in->sub, *reduce)) {
            warp_trap(w, in, (int)lane, TRAP_TENSOR_ACCESS,
                      "elements of type %s take no such reduction",
                      tmap_type_name(access.map.type));
            return false;
        }
    }
    s = async_job_new(w, in, lane, sizeof *s, store_fire);
    if (!s)
        return false;
    s->job.drop = store_drop;
    s->access = access;
    s->access.box.map = &s->access.map;
    s->cta = src.cta;
    s->offset = src.offset;
    s->reduce = reduce ? *reduce : REDUCE_NONE;
    s->pieces = s->left = async_pieces(w->m, access.box.rows);
    if (!store_fenced(w->m, s) || !async_ticket_take(w, in, lane, &s->ticket)) {
        async_job_cancel(w->m, &s->job);
        return false;
    }
    machine_observe(w->m, &s->job.site, EVENT_ASYNC_ISSUE, 1u << lane, s->offset, 0);
    async_post(w->m, &s->job, 0, DELAY_READ);
    return true;
}

static enum flow store_lanes(struct warp *w, const struct inst *in, uint32_t mask, bool reduces)
{
    enum reduce_type reduce;

    if (!need_box(w, in, mask, &in->o[0], &in->o[1]) ||
        !async_need_address(w, in, &in->o[2], mask, "the source"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!store_issue(w, in, (unsigned)__builtin_ctz(left), reduces ? &reduce : NULL))
            return FLOW_TRAP;
    machine_progress(w->m);
    return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
}

enum flow op_tensor_store(struct warp *w, const struct inst *in, uint32_t mask)
{
    return store_lanes(w, in, mask, false);
}

enum flow op_tensor_reduce(struct warp *w, const struct inst *in, uint32_t mask)
{
    return store_lanes(w, in, mask, true);
}

/* A hint: only what would be wrong with a load of the box is looked for. */
enum flow op_tensor_prefetch(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!need_box(w, in, mask, &in->o[0], &in->o[1]))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        struct access_box access;

        if (!read_box(w, in, (unsigned)__builtin_ctz(left), &in->o[0], &in->o[1], false, &access))
            return FLOW_TRAP;
    }
    return FLOW_NEXT;
}
