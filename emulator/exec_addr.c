/*
 * Instructions about addresses: hints, cache policies, spaces, ranks.
 */
#include "floats.h"
#include "reach.h"

/* ---- hints ---- */

/* A hint does nothing, but its address is looked at: a wrong one is a mistake worth knowing. */
static enum flow hint(struct warp *w, const struct inst *in, uint32_t mask, unsigned size)
{
    if (!warp_need(w, in, &in->o[0], mask, "the address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; size > 1 && left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (misaligned(w, in, lane, warp_address(w, &in->o[0], lane), size))
            return FLOW_TRAP;
    }
    return FLOW_NEXT;
}

enum flow op_prefetch(struct warp *w, const struct inst *in, uint32_t mask)
{
    return hint(w, in, mask, 1);
}

enum flow op_applypriority(struct warp *w, const struct inst *in, uint32_t mask)
{
    return hint(w, in, mask, 128);
}

enum flow op_discard(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct place p;

    if (!warp_need(w, in, &in->o[0], mask, "the address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (!reach(w, in, warp_address(w, &in->o[0], lane), (enum space)in->space, lane, 128,
                   ACCESS_WRITE, &p))
            return FLOW_TRAP;
        valid_fill(p.valid, p.valid_at, 128, false);
    }
    return FLOW_NEXT;
}

/* The policy word, as the assembler folds it. */
static uint64_t policy_word(unsigned primary, unsigned secondary, double fraction)
{
    static const uint8_t code[] = {
        [SUB_EVICT_UNCHANGED] = 0, [SUB_EVICT_FIRST] = 1, [SUB_EVICT_LAST] = 2,
        [SUB_EVICT_NORMAL] = 3,
    };
    const double sixteenths = fraction * 16;
    const unsigned n = sixteenths < 1 ? 1 : sixteenths > 16 ? 16 : (unsigned)sixteenths;

    return UINT64_C(1) << 60 | (uint64_t)code[primary] << 57 |
           (uint64_t)(secondary == SUB_EVICT_FIRST) << 56 | (uint64_t)(n - 1) << 52;
}

enum flow op_createpolicy(struct warp *w, const struct inst *in, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        uint64_t d;
        if (in->flags & INST_TO) {
            d = warp_value(w, &in->o[1], lane);
        } else {
            const bool whole = in->space2 == SP_GLOBAL || in->o[1].kind == OPND_NONE;
            const double fraction = whole ? 1 : float_of((uint32_t)warp_value(w, &in->o[1], lane));
            d = policy_word(in->sub, in->sub2, fraction);
        }
        warp_set(w, &in->o[0], lane, d, true);
    }
    return FLOW_NEXT;
}

/* ---- addresses ---- */

static uint64_t window(const struct inst *in)
{
    switch ((enum space)in->space) {
    case SP_SHARED: case SP_SHARED_CLUSTER: return WINDOW_SHARED;
    case SP_LOCAL: return WINDOW_LOCAL;
    case SP_PARAM: return WINDOW_PARAM;
    default: return 0;
    }
}

enum flow op_cvta(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct operand *from = &in->o[1];
    const uint32_t defined = warp_defined(w, from);
    /* Parameters of device functions are in local memory, where their addresses work too. */
    const uint64_t base = from->kind == OPND_ADDR && from->base == ADDR_FRAME ? WINDOW_LOCAL
                                                                               : window(in);

    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t a = warp_value(w, from, lane);
        warp_set(w, &in->o[0], lane, in->flags & INST_TO ? a - base : a + base,
                 defined >> lane & 1);
    }
    return FLOW_NEXT;
}

enum flow op_isspacep(struct warp *w, const struct inst *in, uint32_t mask)
{
    uint32_t hit = 0;

    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t a = warp_value(w, &in->o[1], lane), base = window(in);
        bool is = base ? a - base < WINDOW_SIZE : a < WINDOW_SHARED;
        if (is && in->space == SP_SHARED && w->grid->cluster_size > 1)
            is = (uint32_t)(a - base) >> SMEM_RANK_SHIFT == w->cta->rank;
        if (is && in->space == SP_CONST) {
            const struct mem_block *block = mem_find(w->m->mem, a);
            is = block && block->kind == MEM_CONST;
        }
        hit |= (uint32_t)is << lane;
    }
    warp_set_pred(w, &in->o[0], mask, hit, warp_defined(w, &in->o[1]));
    return FLOW_NEXT;
}

enum flow op_mapa(struct warp *w, const struct inst *in, uint32_t mask)
{
    const uint32_t defined = warp_defined(w, &in->o[1]) & warp_defined(w, &in->o[2]);
    const uint64_t rank_bits = UINT64_C(0xff) << SMEM_RANK_SHIFT;

    if (!warp_need(w, in, &in->o[2], mask, "the CTA rank"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t a = warp_value(w, &in->o[1], lane);
        const uint64_t rank = (uint32_t)warp_value(w, &in->o[2], lane);
        if (rank >= w->grid->cluster_size)
            return warp_trap(w, in, (int)lane, TRAP_BOUNDS, "rank %u in a cluster of %u CTAs",
                             (unsigned)rank, w->grid->cluster_size);
        warp_set(w, &in->o[0], lane, (a & ~rank_bits) | rank << SMEM_RANK_SHIFT,
                 defined >> lane & 1);
    }
    return FLOW_NEXT;
}

enum flow op_getctarank(struct warp *w, const struct inst *in, uint32_t mask)
{
    const uint32_t defined = warp_defined(w, &in->o[1]);

    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t a = warp_value(w, &in->o[1], lane);
        warp_set(w, &in->o[0], lane, a >> SMEM_RANK_SHIFT & 0xff, defined >> lane & 1);
    }
    return FLOW_NEXT;
}
