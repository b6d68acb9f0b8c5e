/* Instructions on tensor maps themselves. */
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "exec.h"
#include "tmap.h"
#include "valid.h"

enum { MAP_ALIGNMENT = 64, COPY_ALIGNMENT = 128 };

/* ---- edited maps -----------------------------------------------------------------------------
 * TMA reads maps through a proxy of its own: whoever uses one that the grid has edited in global
 * memory must have acquired it after the last edit. Edits by ordinary stores are not seen here.
 */

static struct async_map *find_map(const struct async_maps *list, const struct grid *grid,
                                  uint64_t address)
{
    for (unsigned i = 0; i < list->count; i++)
        if (list->maps[i].address == address && list->maps[i].grid == grid)
            return &list->maps[i];
    return NULL;
}

static struct async_map *open_map(struct async_maps *list, const struct grid *grid,
                                  uint64_t address)
{
    struct async_map *map = find_map(list, grid, address);

    if (map)
        return map;
    if (list->count == list->capacity) {
        const unsigned capacity = list->capacity ? 2 * list->capacity : 8;
        struct async_map *grown = realloc(list->maps, capacity * sizeof *grown);

        if (!grown)
            return NULL;
        list->maps = grown;
        list->capacity = capacity;
    }
    map = &list->maps[list->count++];
    *map = (struct async_map){.address = address, .grid = grid};
    return map;
}

bool tensormap_edited(struct cta *cta, uint64_t address)
{
    struct async_map *map = open_map(async_edited_maps(cta->m), cta->grid, address);

    if (map)
        map->edits++;
    return map != NULL;
}

bool tensormap_acquired(struct cta *cta, uint64_t address)
{
    const struct async_map *edited = find_map(async_edited_maps(cta->m), cta->grid, address);
    struct async_map *mine;

    if (!edited)
        return true;
    mine = open_map(&cta->async->acquired, cta->grid, address);
    if (mine)
        mine->edits = edited->edits;
    return mine != NULL;
}

bool tensormap_stale(const struct cta *cta, uint64_t address)
{
    const struct async_map *edited = find_map(async_edited_maps(cta->m), cta->grid, address);
    const struct async_map *mine;

    if (!edited)
        return false;
    mine = find_map(&cta->async->acquired, cta->grid, address);
    return !mine || mine->edits != edited->edits;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static enum tmap_field field_of(enum suboperation sub)
{
    switch (sub) {
    case SUB_GLOBAL_ADDRESS: return TMAP_GLOBAL_ADDRESS;
    case SUB_RANK: return TMAP_RANK;
    case SUB_BOX_DIM: return TMAP_BOX_DIM;
    case SUB_GLOBAL_DIM: return TMAP_GLOBAL_DIM;
    case SUB_GLOBAL_STRIDE: return TMAP_GLOBAL_STRIDE;
    case SUB_ELEMENT_STRIDE: return TMAP_ELEMENT_STRIDE;
    case SUB_ELEMTYPE: return TMAP_ELEMTYPE;
    case SUB_INTERLEAVE_LAYOUT: return TMAP_INTERLEAVE_LAYOUT;
    case SUB_SWIZZLE_MODE: return TMAP_SWIZZLE_MODE;
    case SUB_FILL_MODE: return TMAP_FILL_MODE;
    default: return TMAP_SWIZZLE_ATOMICITY;
    }
}

enum flow op_tensormap_replace(struct warp *w, const struct inst *in, uint32_t mask)
{
    const uint32_t ord = in->o[1].kind == OPND_NONE ? 0 : (uint32_t)in->o[1].imm;

    if (!async_need_address(w, in, &in->o[0], mask, "the map's address") ||
        !warp_need(w, in, &in->o[2], mask, "the new value"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t address = warp_address(w, &in->o[0], lane);
        const char *wrong;
        struct place place;

        if (address % MAP_ALIGNMENT)
            return warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address,
                                "a tensor map lies at a multiple of 64");
        if (!warp_place(w, in, lane, (enum space)in->space, address, TMAP_BYTES, ACCESS_WRITE,
                        &place))
            return FLOW_TRAP;
        if (place.cta && !async_smem_touch(place.cta, place.offset, TMAP_BYTES, true))
            return warp_trap_at(w, in, (int)lane, TRAP_MBARRIER_MEMORY, address,
                                "a live mbarrier lies in the 128 bytes of the map");
        wrong = tmap_replace(place.data, field_of((enum suboperation)in->sub), ord,
                             warp_value(w, &in->o[2], lane));
        if (wrong)
            return warp_trap_at(w, in, (int)lane, TRAP_TENSOR_MAP, address, "%s", wrong);
        if (place.space == SP_GLOBAL && !tensormap_edited(w->cta, address))
            return warp_trap(w, in, (int)lane, TRAP_MEMORY, "the list of edited maps");
    }
    machine_progress(w->m);
    return FLOW_NEXT;
}

/* The whole warp copies one map from shared to global memory and releases it. */
enum flow op_tensormap_cp_fenceproxy(struct warp *w, const struct inst *in, uint32_t mask)
{
    uint64_t to, from;
    struct place dst, src;
    unsigned lane;

    mask = warp_gather(w, in, mask, UINT32_MAX);
    if (!mask)
        return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
    if (!async_need_address(w, in, &in->o[0], mask, "the destination") ||
        !async_need_address(w, in, &in->o[1], mask, "the source"))
        return FLOW_TRAP;
    lane = (unsigned)__builtin_ctz(mask);
    to = warp_address(w, &in->o[0], lane);
    from = warp_address(w, &in->o[1], lane);
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned other = (unsigned)__builtin_ctz(left);

        if (warp_address(w, &in->o[0], other) != to || warp_address(w, &in->o[1], other) != from)
            return warp_trap(w, in, (int)other, TRAP_MISMATCH,
                             "lanes %u and %u name different addresses", lane, other);
    }
    if (to % COPY_ALIGNMENT || from % COPY_ALIGNMENT)
        return warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED,
                            to % COPY_ALIGNMENT ? to : from,
                            "tensormap.cp_fenceproxy copies between multiples of 128");
    if (!warp_place(w, in, lane, SP_SHARED, from, TMAP_BYTES, ACCESS_READ, &src) ||
        !warp_place(w, in, lane, SP_GLOBAL, to, TMAP_BYTES, ACCESS_WRITE, &dst))
        return FLOW_TRAP;
    if (!valid_all(src.valid, src.valid_at, TMAP_BYTES))
        return warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, from,
                            "the map has bytes that nobody wrote");
    memcpy(dst.data, src.data, TMAP_BYTES);
    if (dst.valid)
        valid_fill(dst.valid, dst.valid_at, TMAP_BYTES, true);
    if (!tensormap_edited(w->cta, to))
        return warp_trap(w, in, (int)lane, TRAP_MEMORY, "the list of edited maps");
    machine_progress(w->m);
    return FLOW_NEXT;
}

/* Memory is coherent here: what counts is that a CTA acquires what it is going to use. */
enum flow op_fence_proxy_tensormap(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->o[0].kind == OPND_NONE)
        return FLOW_NEXT;
    if (!async_need_address(w, in, &in->o[0], mask, "the map's address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t address = warp_address(w, &in->o[0], lane);
        struct place place;

        if (!address)   /* nothing: warps fence what only one of them has, CUTLASS's for one */
            continue;
        if (address % MAP_ALIGNMENT)
            return warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address,
                                "a tensor map lies at a multiple of 64");
        if (!warp_place(w, in, lane, SP_GENERIC, address, TMAP_BYTES, ACCESS_READ, &place))
            return FLOW_TRAP;
        if (!tensormap_acquired(w->cta, address))
            return warp_trap(w, in, (int)lane, TRAP_MEMORY, "the list of acquired maps");
    }
    return FLOW_NEXT;
}

enum flow op_prefetch_tensormap(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!async_need_address(w, in, &in->o[0], mask, "the map's address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        struct place place;

        if (!warp_place(w, in, lane, (enum space)in->space, warp_address(w, &in->o[0], lane),
                        TMAP_BYTES, ACCESS_READ, &place))
            return FLOW_TRAP;
    }
    return FLOW_NEXT;
}
