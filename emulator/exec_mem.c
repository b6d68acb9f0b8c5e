/*
 * Loads and stores.
 *
 * As a rule all lanes of a warp reach into one area: their CTA's shared memory, one allocation,
 * their local memories. Then bounds, alignment and mbarriers are looked at once for all of them.
 * Where the rule fails, or a check does, each lane goes its own way and the trap finds its lane.
 */
#include "proxy.h"
#include "reach.h"

/* ---- one area for all lanes ---- */

/* The byte of lane l at address a is data[a - origin + l * stride], its bit in valid likewise. */
struct area {
    enum space space;
    uint8_t *data, *valid;      /* valid NULL: always */
    uint64_t origin;
    size_t stride, valid_stride;
};

static void addresses(const struct warp *w, const struct operand *op, struct span s, uint64_t *at)
{
    if (op->base != ADDR_REG) {
        const uint64_t a = warp_address(w, op, s.lo);
        for (unsigned l = s.lo; l < s.hi; l++)
            at[l] = a;
    } else if (op->bank == BANK_32) {
        const uint32_t *row = w->r.r32[op->reg], off = (uint32_t)op->off;
        for (unsigned l = s.lo; l < s.hi; l++)
            at[l] = row[l] + off;
    } else {
        const uint64_t *row = w->r.r64[op->reg], off = (uint64_t)op->off;
        for (unsigned l = s.lo; l < s.hi; l++)
            at[l] = row[l] + off;
    }
}

/* False: look at the lanes one by one. */
static bool common_area(struct warp *w, enum space space, const uint64_t *at, struct span s,
                        unsigned size, bool write, struct area *area)
{
    uint64_t least = UINT64_MAX, most = 0, low = 0;
    struct mem_ref ref;

    for (uint32_t left = s.mask; left; left &= left - 1) {
        const uint64_t a = at[__builtin_ctz(left)];
        least = a < least ? a : least;
        most = a > most ? a : most;
        low |= a;
    }
    if (low & (size - 1))
        return false;
    uint64_t window = 0;
    if (space == SP_GENERIC) {
        if (most < WINDOW_SHARED) {
            space = SP_GLOBAL;
        } else if (least >= WINDOW_SHARED && most < WINDOW_LOCAL) {
            space = SP_SHARED;
            window = WINDOW_SHARED;
        } else {
            return false;
        }
    }
    *area = (struct area){ .space = space };
    switch (space) {
    case SP_SHARED: {
        struct cta *cta = w->cta;
        const uint64_t base = window + ((uint64_t)cta->rank << SMEM_RANK_SHIFT);
        if (least < base + SMEM_START || most - base + size > cta->smem_end)
            return false;
        const uint32_t first = (uint32_t)(least - base);
        if (!async_smem_touch(cta, first, (uint32_t)(most - least) + size, write))
            return false;
        for (uint32_t left = proxy_watched(w->m) ? s.mask : 0; left; left &= left - 1) {
            const uint32_t offset = (uint32_t)(at[__builtin_ctz(left)] - base);

            if (write)
                proxy_wrote(w, cta, offset, size);
            else
                proxy_read(w, cta, offset, size);
        }
        area->data = cta->bytes;
        area->valid = cta->valid;
        area->origin = base;
        return true;
    }
    case SP_GLOBAL:
        if (mem_translate(w->m->mem, &w->m->cache, least, most - least + size, write, &ref) !=
            MEM_OK)
            return false;
        area->data = ref.host - ref.at;
        area->valid = ref.valid;
        area->origin = least - ref.at;
        return true;
    case SP_LOCAL:
        if (!w->local || most > w->frame_bytes || size > w->frame_bytes - most)
            return false;
        area->data = w->local;
        area->valid = w->local_valid;
        area->stride = w->local_size;
        area->valid_stride = valid_bytes(w->local_size);
        return true;
    case SP_PARAM:
        if (write || least < PARAM_START || most - PARAM_START + size > w->grid->param_bytes)
            return false;
        area->data = w->grid->params;
        area->origin = PARAM_START;
        return true;
    default:
        return false;
    }
}

/* Whether all of `size` bytes (a power of two up to 8) at an aligned place are valid. */
static inline bool whole(const uint8_t *valid, uint64_t at, unsigned size)
{
    if (size == 8)
        return valid[at / 8] == 0xff;
    const unsigned all = (1u << size) - 1;
    return (valid[at / 8] >> at % 8 & all) == all;
}

static inline void mark(uint8_t *valid, uint64_t at, unsigned size, bool on)
{
    if (size == 8) {
        valid[at / 8] = on ? 0xff : 0;
        return;
    }
    const unsigned bits = ((1u << size) - 1) << at % 8;
    valid[at / 8] = (uint8_t)(on ? valid[at / 8] | bits : valid[at / 8] & ~bits);
}

/* ---- loads ---- */

static inline uint64_t extend(enum type type, uint64_t v)
{
    switch (type) {
    case TY_S8: return (uint64_t)(int64_t)(int8_t)(uint8_t)v;
    case TY_S16: return (uint64_t)(int64_t)(int16_t)(uint16_t)v;
    case TY_S32: return (uint64_t)(int64_t)(int32_t)(uint32_t)v;
    default: return v;
    }
}

/* What the destination register holds of an element. */
static inline uint64_t shape(const struct inst *in, const struct operand *to, uint64_t v)
{
    v = extend((enum type)in->type[0], v);
    return type_bits((enum type)to->type) == 16 ? v & 0xffff : v;
}

/* Puts the bytes of all elements, as read for one lane, into the destination. */
static inline void deliver(struct warp *w, const struct inst *in, const struct operand *to,
                           unsigned lane, const struct place *p, unsigned size)
{
    const struct program *program = w->grid->program;
    const uint32_t all = (1u << size) - 1;

    if (size == 16) {
        for (unsigned half = 0; half < 2; half++) {
            struct operand part = *to;
            part.reg += half;
            warp_set(w, &part, lane, fetch(p->data + 8 * half, 8),
                     valid_bits(p, 8 * half, 8) == 0xff);
        }
        return;
    }
    for (unsigned i = 0; i < in->vec; i++) {
        const struct operand *e = operand_element(program, to, i);
        const bool defined = valid_bits(p, i * size, size) == all;
        warp_set(w, e, lane, shape(in, e, fetch(p->data + i * size, size)), defined);
    }
}

#define LOAD_ROW(ctype, dtype) do { \
        dtype *const row = d; \
        for (unsigned l = s.lo; l < s.hi; l++) { \
            if (!(s.mask >> l & 1)) \
                continue; \
            const uint64_t at_ = at[l] - area->origin + skip; \
            ctype v; \
            memcpy(&v, area->data + at_ + l * area->stride, sizeof v); \
            row[l] = (dtype)v; \
            if (!area->valid || whole(area->valid + l * area->valid_stride, at_, sizeof v)) \
                defined |= 1u << l; \
        } \
    } while (0)

/* One element for all lanes, zero-extended, into d. */
static uint32_t load_row(const struct area *area, const uint64_t *at, struct span s, unsigned skip,
                         unsigned size, bool wide, void *d)
{
    uint32_t defined = 0;

    if (wide) {
        switch (size) {
        case 1: LOAD_ROW(uint8_t, uint64_t); break;
        case 2: LOAD_ROW(uint16_t, uint64_t); break;
        case 4: LOAD_ROW(uint32_t, uint64_t); break;
        default: LOAD_ROW(uint64_t, uint64_t); break;
        }
    } else {
        switch (size) {
        case 1: LOAD_ROW(uint8_t, uint32_t); break;
        case 2: LOAD_ROW(uint16_t, uint32_t); break;
        default: LOAD_ROW(uint32_t, uint32_t); break;
        }
    }
    return defined;
}

static void load_area(struct warp *w, const struct inst *in, struct span s, const struct area *area,
                      const uint64_t *at, unsigned size)
{
    const struct program *program = w->grid->program;
    const enum type type = (enum type)in->type[0];
    const bool narrow = size < 4;

    for (unsigned i = 0; i < in->vec; i++) {
        const struct operand *e = operand_element(program, &in->o[0], i);
        if (e->kind != OPND_REG)
            continue;
        if (e->bank == BANK_64) {
            uint64_t *row = w->r.r64[e->reg];
            const uint32_t defined = load_row(area, at, s, i * size, size, true, row);
            if (size < 8 && type_signed(type))
                for (uint32_t left = s.mask; left; left &= left - 1) {
                    const unsigned l = (unsigned)__builtin_ctz(left);
                    row[l] = extend(type, row[l]);
                }
            w->r.def64[e->reg] = (w->r.def64[e->reg] & ~s.mask) | defined;
            continue;
        }
        uint32_t *row = w->r.r32[e->reg];
        const uint32_t defined = load_row(area, at, s, i * size, size, false, row);
        if (narrow)
            for (uint32_t left = s.mask; left; left &= left - 1) {
                const unsigned l = (unsigned)__builtin_ctz(left);
                row[l] = (uint32_t)shape(in, e, row[l]);
            }
        w->r.def32[e->reg] = (w->r.def32[e->reg] & ~s.mask) | defined;
    }
}

/* A kernel's argument is the same for all lanes: what the first was given, the others get. */
static void spread(struct warp *w, const struct inst *in, struct span s)
{
    for (unsigned i = 0; i < in->vec; i++) {
        const struct operand *e = operand_element(w->grid->program, &in->o[0], i);
        if (e->kind != OPND_REG)
            continue;
        if (e->bank == BANK_64) {
            uint64_t row[LANES];
            const uint64_t v = w->r.r64[e->reg][s.lo];
            for (unsigned l = 0; l < LANES; l++)
                row[l] = v;
            put64(w, e, s, row, w->r.def64[e->reg] >> s.lo & 1 ? UINT32_MAX : 0);
        } else {
            uint32_t row[LANES];
            const uint32_t v = w->r.r32[e->reg][s.lo];
            for (unsigned l = 0; l < LANES; l++)
                row[l] = v;
            put32(w, e, s, row, w->r.def32[e->reg] >> s.lo & 1 ? UINT32_MAX : 0);
        }
    }
}

static enum flow load(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct operand *to = &in->o[0], *address = &in->o[1];
    const enum space space = space_of(in, address);
    const unsigned size = type_bits((enum type)in->type[0]) / 8, all = size * in->vec;
    const struct span s = span_of(mask);
    uint64_t at[LANES];
    struct area area;
    struct place p;

    if (space == SP_PARAM && address->kind == OPND_ADDR && address->base == ADDR_PARAM && size <= 8) {
        if (!reach(w, in, warp_address(w, address, s.lo), space, s.lo, all, ACCESS_READ, &p))
            return FLOW_TRAP;
        deliver(w, in, to, s.lo, &p, size);
        spread(w, in, s);
        return FLOW_NEXT;
    }
    if (!warp_need(w, in, address, mask, "the address"))
        return FLOW_TRAP;
    addresses(w, address, s, at);
    if (size <= 8 && common_area(w, space, at, s, all, false, &area)) {
        load_area(w, in, s, &area, at, size);
        return FLOW_NEXT;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (!reach(w, in, at[lane], space, lane, all, ACCESS_READ, &p))
            return FLOW_TRAP;
        deliver(w, in, to, lane, &p, size);
    }
    return FLOW_NEXT;
}

enum flow op_ld(struct warp *w, const struct inst *in, uint32_t mask)
{
    return load(w, in, mask);
}

enum flow op_ldu(struct warp *w, const struct inst *in, uint32_t mask)
{
    return load(w, in, mask);
}

/* ---- stores ---- */

static enum flow undefined_store(struct warp *w, const struct inst *in, unsigned lane,
                                 uint64_t address, unsigned element)
{
    if (in->vec > 1)
        return warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, address,
                            "element %u of the stored vector", element);
    return warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, address, "the stored value");
}

#define STORE_ROW(ctype, stype) do { \
        const stype *const row = d; \
        for (unsigned l = s.lo; l < s.hi; l++) { \
            if (!(s.mask >> l & 1)) \
                continue; \
            const uint64_t at_ = at[l] - area->origin + skip; \
            uint8_t *const to = area->data + at_ + l * area->stride; \
            uint8_t *const valid = area->valid + l * area->valid_stride; \
            const bool on = defined >> l & 1; \
            const ctype v = (ctype)row[l]; \
            ctype old; \
            memcpy(&old, to, sizeof old); \
            changed |= old != v || whole(valid, at_, sizeof v) != on; \
            memcpy(to, &v, sizeof v); \
            mark(valid, at_, sizeof v, on); \
        } \
    } while (0)

/* One element of all lanes; whether memory is different afterwards. */
static bool store_row(const struct area *area, const uint64_t *at, struct span s, unsigned skip,
                      unsigned size, bool wide, const void *d, uint32_t defined)
{
    bool changed = false;

    if (wide) {
        switch (size) {
        case 1: STORE_ROW(uint8_t, uint64_t); break;
        case 2: STORE_ROW(uint16_t, uint64_t); break;
        case 4: STORE_ROW(uint32_t, uint64_t); break;
        default: STORE_ROW(uint64_t, uint64_t); break;
        }
    } else {
        switch (size) {
        case 1: STORE_ROW(uint8_t, uint32_t); break;
        case 2: STORE_ROW(uint16_t, uint32_t); break;
        default: STORE_ROW(uint32_t, uint32_t); break;
        }
    }
    return changed;
}

static enum flow store_area(struct warp *w, const struct inst *in, struct span s,
                            const struct area *area, const uint64_t *at, unsigned size)
{
    const struct program *program = w->grid->program;
    bool changed = false;

    for (unsigned i = 0; i < in->vec; i++) {
        const struct operand *e = operand_element(program, &in->o[1], i);
        const uint32_t missing = s.mask & ~warp_defined(w, e);
        if (missing && area->space == SP_GLOBAL) {
            const unsigned lane = (unsigned)__builtin_ctz(missing);
            return undefined_store(w, in, lane, at[lane], i);
        }
        uint32_t t32[LANES], defined = UINT32_MAX;
        uint64_t t64[LANES];
        const bool wide = size == 8 || (e->kind == OPND_REG && e->bank == BANK_64);
        const void *row = wide ? (const void *)row64(w, e, t64, s, &defined)
                               : (const void *)row32(w, e, t32, s, &defined);
        changed |= store_row(area, at, s, i * size, size, wide, row, defined);
    }
    if (changed)
        machine_progress(w->m);
    return FLOW_NEXT;
}

enum flow op_st(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct program *program = w->grid->program;
    const struct operand *address = &in->o[0], *from = &in->o[1];
    const enum space space = space_of(in, address);
    const unsigned size = type_bits((enum type)in->type[0]) / 8, all = size * in->vec;
    const unsigned parts = size == 16 ? 2 : in->vec, step = size == 16 ? 8 : size;
    const struct span s = span_of(mask);
    uint64_t at[LANES];
    struct area area;
    struct place p;

    if (!warp_need(w, in, address, mask, "the address"))
        return FLOW_TRAP;
    addresses(w, address, s, at);
    if (size <= 8 && common_area(w, space, at, s, all, true, &area))
        return store_area(w, in, s, &area, at, size);
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (!reach(w, in, at[lane], space, lane, all, ACCESS_WRITE, &p))
            return FLOW_TRAP;
        for (unsigned i = 0; i < parts; i++) {
            struct operand part = *operand_element(program, from, size == 16 ? 0 : i);
            if (size == 16)
                part.reg += i;
            const uint64_t v = warp_value(w, &part, lane);
            const bool known = warp_defined(w, &part) >> lane & 1;
            if (!known && p.space == SP_GLOBAL)
                return undefined_store(w, in, lane, at[lane], i);
            put(w, &p, i * step, &v, step, known);
        }
    }
    return FLOW_NEXT;
}
