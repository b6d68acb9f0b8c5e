/*
 * Loads, stores, atomics, and the address instructions.
 */
#include "exec.h"

#include "async.h"
#include "floats.h"
#include "valid.h"

/* ---- one lane's place ---- */

/* The space an operand really means: parameters of device functions lie in the thread's frame. */
static enum space space_of(const struct inst *in, const struct operand *address)
{
    if (in->space == SP_PARAM && address->base == ADDR_FRAME)
        return SP_LOCAL;
    return (enum space)in->space;
}

static bool misaligned(struct warp *w, const struct inst *in, unsigned lane, uint64_t address,
                       unsigned size)
{
    if (!(address & (size - 1)))
        return false;
    warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address, "must be a multiple of %u", size);
    return true;
}

static bool meets_mbarrier(struct warp *w, const struct inst *in, unsigned lane,
                           const struct place *p, unsigned size, bool write)
{
    if (async_smem_touch(p->cta, p->offset, size, write))
        return false;
    warp_trap_at(w, in, (int)lane, TRAP_MBARRIER_MEMORY, p->offset, "%u bytes of shared memory",
                 size);
    return true;
}

/* Address of the lane, checked for definition and alignment, and what lies there. */
static inline bool reach(struct warp *w, const struct inst *in, const struct operand *address,
                         enum space space, unsigned lane, unsigned size, enum access access,
                         struct place *p)
{
    const uint64_t at = warp_address(w, address, lane);

    if (misaligned(w, in, lane, at, size))
        return false;
    if (space == SP_SHARED) {
        const struct cta *cta = w->cta;
        const uint64_t offset = at - ((uint64_t)cta->rank << SMEM_RANK_SHIFT);
        if (offset >= SMEM_START && offset + size <= cta->smem_end) {
            *p = (struct place){
                .space = SP_SHARED, .data = cta->bytes + offset, .valid = cta->valid,
                .valid_at = offset, .room = size, .cta = w->cta, .offset = (uint32_t)offset,
            };
            return !meets_mbarrier(w, in, lane, p, size, access == ACCESS_WRITE);
        }
    } else if (space == SP_GLOBAL || (space == SP_GENERIC && at < WINDOW_SHARED)) {
        struct mem_ref ref;
        if (mem_translate(w->m->mem, &w->m->cache, at, size, access == ACCESS_WRITE, &ref) ==
            MEM_OK) {
            *p = (struct place){ .space = SP_GLOBAL, .data = ref.host, .valid = ref.valid,
                                 .valid_at = ref.at, .room = size };
            return true;
        }
    }
    if (!warp_place(w, in, lane, space, at, size, access, p))
        return false;
    return p->space != SP_SHARED ||
           !meets_mbarrier(w, in, lane, p, size, access == ACCESS_WRITE);
}

static inline uint32_t valid_bits(const struct place *p, unsigned at, unsigned n)
{
    return p->valid ? valid_get(p->valid, p->valid_at + at, n)
                    : (uint32_t)((UINT64_C(1) << n) - 1);
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

static inline uint64_t fetch(const uint8_t *from, unsigned size)
{
    uint64_t v = 0;

    memcpy(&v, from, size);
    return v;
}

/* Puts the bytes of all elements, as read for one lane, into the destination. */
static inline void deliver(struct warp *w, const struct inst *in, const struct operand *to,
                           unsigned lane, const struct place *p, unsigned size)
{
    const struct program *program = w->grid->program;
    const uint32_t all = size < 32 ? (1u << size) - 1 : UINT32_MAX;

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
        uint64_t v = extend((enum type)in->type[0], fetch(p->data + i * size, size));
        if (e->kind == OPND_REG && e->bank == BANK_32 && type_bits((enum type)e->type) == 16)
            v &= 0xffff;
        warp_set(w, e, lane, v, defined);
    }
}

static enum flow load(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct operand *to = &in->o[0], *address = &in->o[1];
    const enum space space = space_of(in, address);
    const unsigned size = type_bits((enum type)in->type[0]) / 8, all = size * in->vec;
    struct place p;

    if (!warp_need(w, in, address, mask, "the address"))
        return FLOW_TRAP;
    if (space == SP_PARAM && address->base == ADDR_PARAM) {
        if (!reach(w, in, address, space, (unsigned)__builtin_ctz(mask), all, ACCESS_READ, &p))
            return FLOW_TRAP;
        for (uint32_t left = mask; left; left &= left - 1)
            deliver(w, in, to, (unsigned)__builtin_ctz(left), &p, size);
        return FLOW_NEXT;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (!reach(w, in, address, space, lane, all, ACCESS_READ, &p))
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

/* Writes bytes of which the low `defined` bits say whether anybody made them. */
static inline void put(struct warp *w, const struct place *p, unsigned at, const void *bytes,
                       unsigned size, bool defined)
{
    const uint32_t all = (uint32_t)((UINT64_C(1) << size) - 1);
    const uint32_t valid = defined ? all : 0;

    if (!memcmp(p->data + at, bytes, size) && valid_bits(p, at, size) == valid)
        return;
    memcpy(p->data + at, bytes, size);
    valid_put(p->valid, p->valid_at + at, size, valid);
    machine_progress(w->m);
}

static enum flow undefined_store(struct warp *w, const struct inst *in, unsigned lane,
                                 uint64_t address, unsigned element)
{
    if (in->vec > 1)
        return warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, address,
                            "element %u of the stored vector", element);
    return warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, address, "the stored value");
}

enum flow op_st(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct program *program = w->grid->program;
    const struct operand *address = &in->o[0], *from = &in->o[1];
    const enum space space = space_of(in, address);
    const unsigned size = type_bits((enum type)in->type[0]) / 8, all = size * in->vec;
    const struct operand *part[8];
    uint32_t defined[8];
    struct operand high = *from;
    const unsigned parts = size == 16 ? 2 : in->vec, step = size == 16 ? 8 : size;
    struct place p;

    if (!warp_need(w, in, address, mask, "the address"))
        return FLOW_TRAP;
    for (unsigned i = 0; i < parts; i++) {
        part[i] = operand_element(program, from, i);
        if (size == 16 && i) {
            high.reg++;
            part[i] = &high;
        }
        defined[i] = warp_defined(w, part[i]);
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (!reach(w, in, address, space, lane, all, ACCESS_WRITE, &p))
            return FLOW_TRAP;
        for (unsigned i = 0; i < parts; i++) {
            const uint64_t v = warp_value(w, part[i], lane);
            const bool known = defined[i] >> lane & 1;
            if (!known && p.space == SP_GLOBAL)
                return undefined_store(w, in, lane, warp_address(w, address, lane), i);
            put(w, &p, i * step, &v, step, known);
        }
    }
    return FLOW_NEXT;
}

/* ---- atomics ---- */

static uint32_t atomic_half(const struct inst *in, uint32_t old, uint32_t b)
{
    const enum type type = (enum type)in->type[0];
    const bool brain = type == TY_BF16 || type == TY_BF16X2;
    const struct format f = brain ? format_bf16 : format_f16;
    const double x = format_value(f, old & 0xffff), y = format_value(f, b & 0xffff);

    if (in->sub == SUB_ADD)
        return (uint32_t)format_round(f, odd_add(x, y), RND_RN);
    if (x != x || y != y)
        return x == x ? old & 0xffff : y == y ? b & 0xffff : NAN_F16;
    if (x == y)                 /* zeros of different sign */
        return in->sub == SUB_MIN ? (old | b) & 0xffff : old & b & 0xffff;
    return ((x < y) == (in->sub == SUB_MIN) ? old : b) & 0xffff;
}

static uint64_t atomic_float(const struct inst *in, uint64_t old, uint64_t b)
{
    if (in->type[0] == TY_F64)
        return bits_of_double(double_of(old) + double_of(b));
    const uint32_t sum = bits_of_float(float_of((uint32_t)old) + float_of((uint32_t)b));
    return is_nan32(sum) ? NAN_F32 : sum;
}

static uint64_t atomic_result(const struct inst *in, uint64_t old, uint64_t b)
{
    const enum type type = (enum type)in->type[0];
    const bool less = type_signed(type)
        ? (type == TY_S32 ? (int32_t)(uint32_t)old < (int32_t)(uint32_t)b
                          : (int64_t)old < (int64_t)b)
        : old < b;

    switch (type) {
    case TY_F16: case TY_BF16:
        if (in->sub != SUB_EXCH)
            return atomic_half(in, (uint32_t)old, (uint32_t)b);
        break;
    case TY_F16X2: case TY_BF16X2:
        if (in->sub != SUB_EXCH)
            return atomic_half(in, (uint32_t)old, (uint32_t)b) |
                   atomic_half(in, (uint32_t)old >> 16, (uint32_t)b >> 16) << 16;
        break;
    case TY_F32: case TY_F64:
        if (in->sub == SUB_ADD)
            return atomic_float(in, old, b);
        break;
    default:
        break;
    }
    switch (in->sub) {
    case SUB_ADD: return old + b;
    case SUB_MIN: return less ? old : b;
    case SUB_MAX: return less ? b : old;
    case SUB_AND: return old & b;
    case SUB_OR: return old | b;
    case SUB_XOR: return old ^ b;
    case SUB_INC: return old >= b ? 0 : old + 1;
    case SUB_DEC: return old == 0 || old > b ? b : old - 1;
    default: return b;          /* exch */
    }
}

/* One element of one lane: memory op= b. */
static bool atomic_element(struct warp *w, const struct inst *in, unsigned lane,
                           const struct place *p, unsigned at, unsigned size,
                           const struct operand *to, const struct operand *b, uint64_t address)
{
    const uint32_t full = (uint32_t)((UINT64_C(1) << size) - 1);
    const bool known = warp_defined(w, b) >> lane & 1;
    const bool valid = valid_bits(p, at, size) == full;
    const bool defined = known && (valid || in->sub == SUB_EXCH);
    const uint64_t old = fetch(p->data + at, size);

    if (!defined && p->space == SP_GLOBAL) {
        warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, address,
                     known ? "memory that nobody wrote" : "the operand");
        return false;
    }
    const uint64_t next = atomic_result(in, old, warp_value(w, b, lane));
    put(w, p, at, &next, size, defined);
    if (to)
        warp_set(w, to, lane, old, valid);
    return true;
}

static enum flow atomic(struct warp *w, const struct inst *in, uint32_t mask,
                        const struct operand *to, const struct operand *address,
                        const struct operand *b)
{
    const struct program *program = w->grid->program;
    const enum type type = (enum type)in->type[0];
    const unsigned size = type_bits(type) / 8, all = size * in->vec;
    const unsigned parts = size == 16 ? 2 : in->vec, step = size == 16 ? 8 : size;
    struct place p;

    if (!warp_need(w, in, address, mask, "the address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        if (!reach(w, in, address, (enum space)in->space, lane, all, ACCESS_WRITE, &p))
            return FLOW_TRAP;
        if (p.space == SP_LOCAL || p.space == SP_PARAM)
            return warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, warp_address(w, address, lane),
                                "atomics work on global and shared memory");
        for (unsigned i = 0; i < parts; i++) {
            struct operand d = { 0 }, v;
            if (size == 16) {
                v = *b;
                v.reg += i;
                if (to) {
                    d = *to;
                    d.reg += i;
                }
            } else {
                v = *operand_element(program, b, i);
                if (to)
                    d = *operand_element(program, to, i);
            }
            if (!atomic_element(w, in, lane, &p, i * step, step, to ? &d : NULL, &v,
                                warp_address(w, address, lane)))
                return FLOW_TRAP;
        }
    }
    return FLOW_NEXT;
}

enum flow op_atom(struct warp *w, const struct inst *in, uint32_t mask)
{
    return atomic(w, in, mask, &in->o[0], &in->o[1], &in->o[2]);
}

enum flow op_red(struct warp *w, const struct inst *in, uint32_t mask)
{
    return atomic(w, in, mask, NULL, &in->o[0], &in->o[1]);
}

enum flow op_atom_cas(struct warp *w, const struct inst *in, uint32_t mask)
{
    const unsigned size = type_bits((enum type)in->type[0]) / 8;
    const unsigned parts = size == 16 ? 2 : 1, step = size == 16 ? 8 : size;
    struct place p;

    if (!warp_need(w, in, &in->o[1], mask, "the address"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t at = warp_address(w, &in->o[1], lane);
        if (!reach(w, in, &in->o[1], (enum space)in->space, lane, size, ACCESS_WRITE, &p))
            return FLOW_TRAP;
        uint64_t old[2] = { 0, 0 }, next[2] = { 0, 0 };
        bool equal = true, known = true, valid = true, next_known = true;
        for (unsigned i = 0; i < parts; i++) {
            struct operand b = in->o[2], c = in->o[3];
            b.reg += i;
            c.reg += i;
            old[i] = fetch(p.data + i * step, step);
            next[i] = warp_value(w, &c, lane);
            const uint64_t expected = warp_value(w, &b, lane);
            equal = equal && old[i] == (step == 8 ? expected
                                                  : expected & ((UINT64_C(1) << 8 * step) - 1));
            known = known && (warp_defined(w, &b) >> lane & 1);
            next_known = next_known && (warp_defined(w, &c) >> lane & 1);
            valid = valid && valid_bits(&p, i * step, step) == (1u << step) - 1;
        }
        if (p.space == SP_GLOBAL && (!known || !valid || (equal && !next_known)))
            return warp_trap_at(w, in, (int)lane, TRAP_UNDEFINED, at, "%s",
                                valid ? "an operand" : "memory that nobody wrote");
        for (unsigned i = 0; i < parts; i++) {
            struct operand d = in->o[0];
            d.reg += i;
            if (equal)
                put(w, &p, i * step, &next[i], step, known && valid && next_known);
            warp_set(w, &d, lane, old[i], valid);
        }
    }
    return FLOW_NEXT;
}

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
        if (!reach(w, in, &in->o[0], (enum space)in->space, lane, 128, ACCESS_WRITE, &p))
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
