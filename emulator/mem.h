// Device memory of one context: allocations in an address space of its own, each with wide gaps on
// both sides, so that every access outside an allocation is found and named. Each byte has a bit
// "somebody wrote me".
//
//   address space     0x700000000000 .. 0x780000000000 for device memory, shared by all contexts
//                     of the process, so that an address names its owner; page-locked host memory
//                     appears at its own host address.
//   block             base and size in the device's space, the host bytes behind it, the validity
//                     bitmap
//
//       gap      base                  base + size     gap
//   . . . . . . .|#####################|. . . . . . . . . . .|######
//
// Locking: mem_alloc, mem_free and mem_find may be called from any thread. mem_translate may run
// beside mem_alloc; the caller keeps mem_free away from a running grid of the same context (the
// driver frees between grids). Every user of mem_translate brings its own struct mem_cache.
#ifndef EMU_MEM_H
#define EMU_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEM_BASE 0x700000000000u
#define MEM_LIMIT 0x780000000000u

enum mem_kind {
    MEM_DEVICE,                 // cuMemAlloc and its relatives
    MEM_HOST,                   // page-locked host memory, seen at the host address; always valid
    MEM_GLOBAL,                 // a module's .global variable
    MEM_CONST,                  // a module's .const variable: kernels may not write it
};

enum mem_fault {
    MEM_OK,
    MEM_NULL,                   // address below the first page
    MEM_UNMAPPED,               // nothing near
    MEM_BEYOND,                 // starts or ends behind an allocation, within its gap
    MEM_BEFORE,                 // starts before an allocation, within its gap
    MEM_FREED,                  // was an allocation once
    MEM_READONLY,               // a write to constant memory
};

struct mem_block {
    uint64_t base;              // device address
    uint64_t size;              // bytes asked for: the bound that is checked
    uint8_t *bytes;             // host memory behind it
    uint8_t *valid;             // bit i % 8 of valid[i / 8]: byte i was written (helpers: valid.h)
    enum mem_kind kind;
    uint64_t serial;            // number of the allocation in the process, for reports
    char name[40];              // variable's name, or the call that allocated
    struct mem *owner;
    uint64_t mapped;            // bytes taken by mmap for .bytes; 0: from calloc, or not ours
    uint64_t mapped_valid;
};

struct mem;                     // one context's allocations
struct mem_space;               // the process: the address allocator and the list of all struct mem

// The last block a caller met. Zero-initialise; never share between threads.
struct mem_cache {
    const struct mem_block *block;
    uint64_t generation;
};

// Where an address is: the host byte, and the bit that says whether it was written.
struct mem_ref {
    uint8_t *host;
    uint8_t *valid;             // the block's bitmap, and
    uint64_t at;                // the index of the first byte's bit in it
};

// ---- spaces and allocations ---------------------------------------------------------------------
struct mem_space *mem_space_new(void);
void mem_space_free(struct mem_space *space);                       // after all its mems
struct mem *mem_new(struct mem_space *space, uint64_t capacity);
void mem_delete(struct mem *mem);                                   // frees every block

// A new block of `size` > 0 bytes at a multiple of `align` (power of two; at least 512), all bytes
// invalid. NULL: no memory.
const struct mem_block *mem_alloc(struct mem *mem, uint64_t size, uint64_t align,
                                  enum mem_kind kind, const char *name);
// Makes host memory [host, host+size) visible at its own address. NULL: overlaps something, or no
// memory.
const struct mem_block *mem_map_host(struct mem *mem, void *host, uint64_t size, const char *name);
// Frees the block whose base is `base`; false when there is none.
bool mem_free(struct mem *mem, uint64_t base);
uint64_t mem_used(struct mem *mem);                                 // bytes of device memory in use
uint64_t mem_capacity(const struct mem *mem);

// Which block holds `addr`: in this context (mem_find), in any context of the process
// (mem_space_find). NULL: none.
const struct mem_block *mem_find(struct mem *mem, uint64_t addr);
const struct mem_block *mem_space_find(struct mem_space *space, uint64_t addr);

// Lets `mem` reach the blocks of `other` too (page-locked host memory, peer access). False:
// already, or no memory.
bool mem_attach(struct mem *mem, struct mem *other);
bool mem_detach(struct mem *mem, struct mem *other);
bool mem_attached(struct mem *mem, struct mem *other);

// ---- translation --------------------------------------------------------------------------------
struct mem_head {               // first member of struct mem: what the inline path needs
    _Atomic uint64_t generation; // steps whenever a block goes away
};

enum mem_fault mem_translate_slow(struct mem *mem, struct mem_cache *cache, uint64_t addr,
                                  uint64_t len, bool write, struct mem_ref *ref);
// The bytes [addr, addr+len) for a grid: MEM_OK and *ref, or what is wrong with them.
static inline enum mem_fault mem_translate(struct mem *mem, struct mem_cache *cache, uint64_t addr,
                                           uint64_t len, bool write, struct mem_ref *ref)
{
    const struct mem_block *b = cache->block;
    struct mem_head *head = (struct mem_head *)(void *)mem;
    if (b && cache->generation == atomic_load_explicit(&head->generation, memory_order_acquire)) {
        uint64_t at = addr - b->base;
        if (at < b->size && len <= b->size - at && !(write && b->kind == MEM_CONST)) {
            ref->host = b->bytes + at;
            ref->valid = b->valid;
            ref->at = at;
            return MEM_OK;
        }
    }
    return mem_translate_slow(mem, cache, addr, len, write, ref);
}

// One sentence for a report: "16 bytes at 0x700000100200: starts 0 bytes past the end of allocation
// #3 (cuMemAlloc, ...)".
void mem_explain(struct mem *mem, uint64_t addr, uint64_t len, bool write, char *text, size_t room);

#endif
