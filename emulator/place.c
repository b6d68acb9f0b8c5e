/*
 * Where an address lies: windows, cluster ranks, device memory.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>

#include "valid.h"

const char *space_name(enum space space)
{
    switch (space) {
    case SP_GENERIC: return "generic";
    case SP_GLOBAL: return "global";
    case SP_SHARED: return "shared";
    case SP_SHARED_CLUSTER: return "shared::cluster";
    case SP_LOCAL: return "local";
    case SP_CONST: return "const";
    case SP_PARAM: return "param";
    case SP_TENSOR: return "tensor";
    }
    return "?";
}

struct cta *cta_of_shared(const struct cta *from, uint32_t address)
{
    const uint32_t rank = address >> SMEM_RANK_SHIFT;

    return rank < from->cluster->size ? from->cluster->ctas[rank] : NULL;
}

bool generic_is_shared(uint64_t address, uint32_t *shared)
{
    if (address - WINDOW_SHARED >= WINDOW_SIZE)
        return false;
    *shared = (uint32_t)(address - WINDOW_SHARED);
    return true;
}

bool machine_place_shared(struct machine *m, const struct site *at, struct cta *from,
                          uint32_t address, size_t size, enum access access, struct place *out)
{
    struct cta *cta = cta_of_shared(from, address);
    const uint32_t offset = address & ((1u << SMEM_RANK_SHIFT) - 1);

    (void)access;
    if (!cta) {
        machine_trap_at(m, at, TRAP_BOUNDS, address, "shared: the cluster has no rank %u",
                        address >> SMEM_RANK_SHIFT);
        return false;
    }
    if (offset < SMEM_START || offset > cta->smem_end || size > cta->smem_end - offset) {
        machine_trap_at(m, at, TRAP_BOUNDS, address,
                        "%zu bytes of shared memory, which spans 0x%x to 0x%x in CTA rank %u", size,
                        SMEM_START, cta->smem_end, cta->rank);
        return false;
    }
    if (cta->exited) {
        machine_trap_at(m, at, TRAP_DEAD_TARGET, address, "CTA rank %u of the cluster has exited",
                        cta->rank);
        return false;
    }
    *out = (struct place){
        .space = SP_SHARED, .data = cta->bytes + offset, .valid = cta->valid, .valid_at = offset,
        .room = cta->smem_end - offset, .cta = cta, .offset = offset,
    };
    return true;
}

static bool place_global(struct machine *m, struct mem_cache *cache, const struct site *at,
                         uint64_t address, size_t size, enum access access, struct place *out)
{
    struct mem_ref ref;
    const enum mem_fault fault = mem_translate(m->mem, cache, address, size,
                                               access == ACCESS_WRITE, &ref);

    if (fault == MEM_OK) {
        *out = (struct place){
            .space = SP_GLOBAL, .data = ref.host, .valid = ref.valid, .valid_at = ref.at,
            .room = cache->block ? cache->block->size - ref.at : size,
        };
        return true;
    }
    char words[512];
    uint32_t shared;
    if (generic_is_shared(address, &shared) || address - WINDOW_LOCAL < WINDOW_SIZE) {
        machine_trap_at(m, at, TRAP_WRONG_SPACE, address, "a generic address of %s memory where "
                        "global is meant", address < WINDOW_LOCAL ? "shared" : "local");
        return false;
    }
    mem_explain(m->mem, address, size, access == ACCESS_WRITE, words, sizeof words);
    machine_trap_at(m, at, fault == MEM_READONLY ? TRAP_READ_ONLY : TRAP_BOUNDS, address, "%s",
                    words);
    return false;
}

bool machine_place_global(struct machine *m, const struct site *at, uint64_t address, size_t size,
                          enum access access, struct place *out)
{
    return place_global(m, &m->engine_cache, at, address, size, access, out);
}

/* ---- local memory ---- */

/* Per thread, of kernels whose depth nobody can tell, and as much again for alloca; or what the
 * context's limit says, if that is more. */
enum { STACK_BYTES = 65536, STACK_MOST = 1 << 24 };

bool warp_local(struct warp *w, const struct inst *in)
{
    const struct function *fn = w->grid->fn;
    const size_t wanted = w->grid->launch->stack_bytes;
    const uint32_t stack = wanted < STACK_BYTES ? STACK_BYTES
                         : wanted > STACK_MOST ? STACK_MOST : (uint32_t)wanted;
    const uint32_t frames = fn->recursive ? stack : fn->max_frame;
    const uint32_t size = frames + (w->grid->program->moves_stack ? stack : 0);

    if (w->local)
        return true;

    w->local = calloc(LANES, size + 1);
    w->local_valid = calloc(LANES, valid_bytes(size));
    if (!w->local || !w->local_valid) {
        warp_trap(w, in, -1, TRAP_MEMORY, "%u bytes of local memory per thread", size);
        return false;
    }
    w->local_size = size;
    w->frame_bytes = frames;
    return true;
}

static bool place_local(struct warp *w, const struct inst *in, unsigned lane, uint64_t address,
                        size_t size, struct place *out)
{
    if (!warp_local(w, in))
        return false;
    if (address > w->local_size || size > w->local_size - address) {
        warp_trap_at(w, in, (int)lane, TRAP_BOUNDS, address,
                     "%zu bytes of local memory, of which the thread has 0x%x", size,
                     w->local_size);
        return false;
    }
    const uint32_t pointer = w->local_size - w->taken[lane];
    if (address + size > w->frame_bytes && address < pointer) {
        warp_trap_at(w, in, (int)lane, TRAP_BOUNDS, address,
                     "%zu bytes of local memory between the frames, which end at 0x%x, and the "
                     "stack pointer, 0x%x: alloca has not taken them, or they were given back",
                     size, w->frame_bytes, pointer);
        return false;
    }
    *out = (struct place){
        .space = SP_LOCAL, .data = w->local + (size_t)lane * w->local_size + address,
        .valid = w->local_valid + lane * valid_bytes(w->local_size), .valid_at = address,
        .room = w->local_size - address,
    };
    return true;
}

static bool place_param(struct warp *w, const struct inst *in, unsigned lane, uint64_t address,
                        size_t size, enum access access, struct place *out)
{
    const struct grid *g = w->grid;
    const uint64_t at = address - PARAM_START;

    if (at > g->param_bytes || size > g->param_bytes - at) {
        warp_trap_at(w, in, (int)lane, TRAP_BOUNDS, address,
                     "%zu bytes of the kernel's parameters, which span 0x%x to 0x%x", size,
                     PARAM_START, PARAM_START + g->param_bytes);
        return false;
    }
    if (access == ACCESS_WRITE) {
        warp_trap_at(w, in, (int)lane, TRAP_READ_ONLY, address, "a kernel parameter");
        return false;
    }
    *out = (struct place){
        .space = SP_PARAM, .data = g->params + at, .room = g->param_bytes - at,
    };
    return true;
}

bool warp_place(struct warp *w, const struct inst *in, unsigned lane, enum space space,
                uint64_t address, size_t size, enum access access, struct place *out)
{
    const struct site at = {
        .cta = w->cta, .inst = in, .warp = (int)w->id, .lane = (int)lane,
    };

    if (space == SP_GENERIC && address >= WINDOW_SHARED) {
        if (address - WINDOW_SHARED < WINDOW_SIZE) {
            space = SP_SHARED_CLUSTER;
            address -= WINDOW_SHARED;
        } else if (address - WINDOW_LOCAL < WINDOW_SIZE) {
            space = SP_LOCAL;
            address -= WINDOW_LOCAL;
        } else if (address - WINDOW_PARAM < WINDOW_SIZE) {
            space = SP_PARAM;
            address -= WINDOW_PARAM;
        }
    }
    switch (space) {
    case SP_SHARED:
    case SP_SHARED_CLUSTER:
        if (address >> 32) {
            warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, address,
                         "not a shared address: a generic one?");
            return false;
        }
        if (space == SP_SHARED && address >> SMEM_RANK_SHIFT &&
            address >> SMEM_RANK_SHIFT != w->cta->rank) {
            warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, address,
                         "shared::cta access to the memory of CTA rank %u from rank %u",
                         (unsigned)(address >> SMEM_RANK_SHIFT), w->cta->rank);
            return false;
        }
        return machine_place_shared(w->m, &at, w->cta, (uint32_t)address, size, access, out);
    case SP_LOCAL:
        return place_local(w, in, lane, address, size, out);
    case SP_PARAM:
        return place_param(w, in, lane, address, size, access, out);
    case SP_GENERIC:
    case SP_GLOBAL:
    case SP_CONST:
    case SP_TENSOR:
        break;
    }
    if (space == SP_CONST && access == ACCESS_WRITE) {
        warp_trap_at(w, in, (int)lane, TRAP_READ_ONLY, address, "const space");
        return false;
    }
    return place_global(w->m, &w->m->cache, &at, address, size, access, out);
}
