/*
 * One lane's memory access: its address checked, the place found, bytes fetched and put.
 */
#ifndef EMULATOR_REACH_H
#define EMULATOR_REACH_H

#include "async.h"
#include "exec.h"
#include "proxy.h"
#include "valid.h"

/* The space an operand really means: parameters of device functions lie in the thread's frame. */
static inline enum space space_of(const struct inst *in, const struct operand *address)
{
    if (in->space == SP_PARAM && address->base == ADDR_FRAME)
        return SP_LOCAL;
    return (enum space)in->space;
}

static inline bool misaligned(struct warp *w, const struct inst *in, unsigned lane,
                              uint64_t address, unsigned size)
{
    if (!(address & (size - 1)))
        return false;
    warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address, "must be a multiple of %u", size);
    return true;
}

static inline bool meets_mbarrier(struct warp *w, const struct inst *in, unsigned lane,
                                  const struct place *p, unsigned size, bool write)
{
    if (async_smem_touch(p->cta, p->offset, size, write)) {
        if (write)
            proxy_wrote(w, p->cta, p->offset, size);
        else
            proxy_read(w, p->cta, p->offset, size);
        return false;
    }
    warp_trap_at(w, in, (int)lane, TRAP_MBARRIER_MEMORY, p->offset, "%u bytes of shared memory",
                 size);
    return true;
}

/* What lies at the lane's address, which is checked for alignment, bounds and mbarriers. */
static inline bool reach(struct warp *w, const struct inst *in, uint64_t at, enum space space,
                         unsigned lane, unsigned size, enum access access, struct place *p)
{
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

static inline uint64_t fetch(const uint8_t *from, unsigned size)
{
    uint64_t v = 0;

    memcpy(&v, from, size);
    return v;
}

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

#endif
