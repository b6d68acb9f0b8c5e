// Device memory. Blocks of one context live in a sorted array; the space of the process hands out
// addresses by moving a cursor upward, so that an address freed long ago still answers "freed" and
// not somebody else's bytes.
#define _GNU_SOURCE
#include "mem.h"
#include "valid.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GAP_LEAST (UINT64_C(1) << 20)
#define GAP_MOST (UINT64_C(1) << 36)
#define ALIGN_LEAST 512u
#define PAGE_LEAST (UINT64_C(128) << 10)        // blocks from this size on are pages of their own
enum { FREED_KEPT = 256, ATTACH_MOST = 64 };

struct freed {
    uint64_t base, size, serial;
};

struct mem {
    struct mem_head head;
    struct mem_space *space;
    struct mem *next;                           // in the space's list
    pthread_rwlock_t lock;                      // blocks, freed, attached
    struct mem_block **blocks;                  // sorted by base
    size_t count, room;
    uint64_t capacity, used;
    struct freed freed[FREED_KEPT];             // a ring
    uint64_t freed_count;
    struct mem *attached[ATTACH_MOST];
    size_t attached_count;
};

struct mem_space {
    pthread_mutex_t lock;
    struct mem *first;
    uint64_t cursor;
    _Atomic uint64_t serial;
};

struct mem_space *mem_space_new(void)
{
    struct mem_space *space = calloc(1, sizeof *space);
    if (!space)
        return NULL;
    pthread_mutex_init(&space->lock, NULL);
    space->cursor = MEM_BASE;
    return space;
}

void mem_space_free(struct mem_space *space)
{
    if (!space)
        return;
    assert(!space->first);
    pthread_mutex_destroy(&space->lock);
    free(space);
}

struct mem *mem_new(struct mem_space *space, uint64_t capacity)
{
    struct mem *mem = calloc(1, sizeof *mem);
    if (!mem)
        return NULL;
    mem->space = space;
    mem->capacity = capacity;
    pthread_rwlock_init(&mem->lock, NULL);
    pthread_mutex_lock(&space->lock);
    mem->next = space->first;
    space->first = mem;
    pthread_mutex_unlock(&space->lock);
    return mem;
}

static void block_free(struct mem_block *b)
{
    if (b->mapped)
        munmap(b->bytes, b->mapped);
    else if (b->kind != MEM_HOST)
        free(b->bytes);
    if (b->mapped_valid)
        munmap(b->valid, b->mapped_valid);
    else
        free(b->valid);
    free(b);
}

void mem_delete(struct mem *mem)
{
    if (!mem)
        return;
    pthread_mutex_lock(&mem->space->lock);
    struct mem **at = &mem->space->first;
    while (*at != mem)
        at = &(*at)->next;
    *at = mem->next;
    for (struct mem *m = mem->space->first; m; m = m->next)
        mem_detach(m, mem);
    pthread_mutex_unlock(&mem->space->lock);
    for (size_t i = 0; i < mem->count; i++)
        block_free(mem->blocks[i]);
    free(mem->blocks);
    pthread_rwlock_destroy(&mem->lock);
    free(mem);
}

// ---- lookup: all under mem->lock ----------------------------------------------------------------

// Number of blocks whose base is at or below addr.
static size_t upto(const struct mem *mem, uint64_t addr)
{
    size_t lo = 0, hi = mem->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (mem->blocks[mid]->base <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct mem_block *holder(const struct mem *mem, uint64_t addr)
{
    size_t i = upto(mem, addr);
    if (i == 0 || addr - mem->blocks[i - 1]->base >= mem->blocks[i - 1]->size)
        return NULL;
    return mem->blocks[i - 1];
}

static bool insert(struct mem *mem, struct mem_block *b)
{
    if (mem->count == mem->room) {
        size_t room = mem->room ? 2 * mem->room : 64;
        struct mem_block **blocks = realloc(mem->blocks, room * sizeof *blocks);
        if (!blocks)
            return false;
        mem->blocks = blocks;
        mem->room = room;
    }
    size_t at = upto(mem, b->base);
    memmove(mem->blocks + at + 1, mem->blocks + at, (mem->count - at) * sizeof *mem->blocks);
    mem->blocks[at] = b;
    mem->count++;
    return true;
}

// ---- address space ------------------------------------------------------------------------------

// Is [base - gap, end + gap) free of every block of the process? Under space->lock. If not, *after
// says where to go on.
static bool range_free(struct mem_space *space, uint64_t base, uint64_t size, uint64_t gap,
                       uint64_t *after)
{
    bool ok = true;
    for (struct mem *m = space->first; m && ok; m = m->next) {
        pthread_rwlock_rdlock(&m->lock);
        size_t i = upto(m, base + size + gap);
        if (i > 0) {
            const struct mem_block *b = m->blocks[i - 1];
            if (b->base + b->size + gap > base) {
                ok = false;
                *after = b->base + b->size;
            }
        }
        pthread_rwlock_unlock(&m->lock);
    }
    return ok;
}

// An address range with a gap before and behind; 0: the address space is full.
static uint64_t range_take(struct mem_space *space, uint64_t size, uint64_t align)
{
    uint64_t gap = size < GAP_LEAST ? GAP_LEAST : size > GAP_MOST ? GAP_MOST : size;
    if (size > (MEM_LIMIT - MEM_BASE) / 4)
        return 0;
    pthread_mutex_lock(&space->lock);
    uint64_t base = 0;
    // Twice around: the first lap may start in the middle.
    for (int laps = 0; laps < 2 && !base;) {
        uint64_t at = (space->cursor + gap + align - 1) & ~(align - 1);
        if (at + size + gap > MEM_LIMIT) {
            space->cursor = MEM_BASE;
            laps++;
            continue;
        }
        uint64_t after = 0;
        if (range_free(space, at, size, gap, &after)) {
            base = at;
            space->cursor = at + size;
        } else {
            space->cursor = after;
        }
    }
    pthread_mutex_unlock(&space->lock);
    return base;
}

// Zeroed memory nobody has touched; large pieces are pages that cost nothing until used.
static void *host_take(uint64_t size, uint64_t *mapped)
{
    *mapped = 0;
    if (size < PAGE_LEAST)
        return calloc(1, size);
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    *mapped = size;
    return p;
}

static struct mem_block *block_new(struct mem *mem, uint64_t size, enum mem_kind kind,
                                   const char *name)
{
    struct mem_block *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->size = size;
    b->kind = kind;
    b->owner = mem;
    b->serial = atomic_fetch_add_explicit(&mem->space->serial, 1, memory_order_relaxed) + 1;
    snprintf(b->name, sizeof b->name, "%s", name ? name : "");
    return b;
}

const struct mem_block *mem_alloc(struct mem *mem, uint64_t size, uint64_t align,
                                  enum mem_kind kind, const char *name)
{
    assert(size > 0 && kind != MEM_HOST && (align & (align - 1)) == 0);
    pthread_rwlock_wrlock(&mem->lock);
    bool fits = size <= mem->capacity - mem->used;
    if (fits)
        mem->used += size;
    pthread_rwlock_unlock(&mem->lock);
    if (!fits)
        return NULL;

    struct mem_block *b = block_new(mem, size, kind, name);
    if (!b)
        goto fail;
    b->bytes = host_take((size + 15) & ~UINT64_C(15), &b->mapped);
    b->valid = host_take(valid_bytes(size), &b->mapped_valid);
    b->base = range_take(mem->space, size, align < ALIGN_LEAST ? ALIGN_LEAST : align);
    if (!b->bytes || !b->valid || !b->base)
        goto fail;
    pthread_rwlock_wrlock(&mem->lock);
    bool in = insert(mem, b);
    pthread_rwlock_unlock(&mem->lock);
    if (!in)
        goto fail;
    return b;

fail:
    if (b)
        block_free(b);
    pthread_rwlock_wrlock(&mem->lock);
    mem->used -= size;
    pthread_rwlock_unlock(&mem->lock);
    return NULL;
}

const struct mem_block *mem_map_host(struct mem *mem, void *host, uint64_t size, const char *name)
{
    uint64_t base = (uintptr_t)host;
    if (size == 0 || base + size < base)
        return NULL;
    struct mem_block *b = block_new(mem, size, MEM_HOST, name);
    if (!b)
        return NULL;
    b->base = base;
    b->bytes = host;
    b->valid = host_take(valid_bytes(size), &b->mapped_valid);
    if (!b->valid) {
        free(b);
        return NULL;
    }
    valid_fill(b->valid, 0, size, true);
    pthread_rwlock_wrlock(&mem->lock);
    size_t i = upto(mem, base + size - 1);
    bool clear = i == 0 || mem->blocks[i - 1]->base + mem->blocks[i - 1]->size <= base;
    bool in = clear && insert(mem, b);
    pthread_rwlock_unlock(&mem->lock);
    if (in)
        return b;
    block_free(b);
    return NULL;
}

bool mem_free(struct mem *mem, uint64_t base)
{
    pthread_rwlock_wrlock(&mem->lock);
    size_t i = upto(mem, base);
    struct mem_block *b = i > 0 && mem->blocks[i - 1]->base == base ? mem->blocks[i - 1] : NULL;
    if (b) {
        mem->count--;
        memmove(mem->blocks + i - 1, mem->blocks + i, (mem->count - (i - 1)) * sizeof *mem->blocks);
        if (b->kind != MEM_HOST)
            mem->used -= b->size;
        mem->freed[mem->freed_count++ % FREED_KEPT] = (struct freed){b->base, b->size, b->serial};
    }
    pthread_rwlock_unlock(&mem->lock);
    if (!b)
        return false;

    // Whoever reaches this memory from another context holds caches too.
    atomic_fetch_add_explicit(&mem->head.generation, 1, memory_order_release);
    pthread_mutex_lock(&mem->space->lock);
    for (struct mem *m = mem->space->first; m; m = m->next)
        if (m != mem)
            atomic_fetch_add_explicit(&m->head.generation, 1, memory_order_release);
    pthread_mutex_unlock(&mem->space->lock);
    block_free(b);
    return true;
}

uint64_t mem_used(struct mem *mem)
{
    pthread_rwlock_rdlock(&mem->lock);
    uint64_t used = mem->used;
    pthread_rwlock_unlock(&mem->lock);
    return used;
}

uint64_t mem_capacity(const struct mem *mem)
{
    return mem->capacity;
}

const struct mem_block *mem_find(struct mem *mem, uint64_t addr)
{
    pthread_rwlock_rdlock(&mem->lock);
    const struct mem_block *b = holder(mem, addr);
    pthread_rwlock_unlock(&mem->lock);
    return b;
}

const struct mem_block *mem_space_find(struct mem_space *space, uint64_t addr)
{
    const struct mem_block *b = NULL;
    pthread_mutex_lock(&space->lock);
    for (struct mem *m = space->first; m && !b; m = m->next)
        b = mem_find(m, addr);
    pthread_mutex_unlock(&space->lock);
    return b;
}

// ---- other contexts' memory ---------------------------------------------------------------------

static size_t attached_at(const struct mem *mem, const struct mem *other)
{
    size_t i = 0;
    while (i < mem->attached_count && mem->attached[i] != other)
        i++;
    return i;
}

bool mem_attach(struct mem *mem, struct mem *other)
{
    pthread_rwlock_wrlock(&mem->lock);
    bool fresh = mem != other && attached_at(mem, other) == mem->attached_count &&
                 mem->attached_count < ATTACH_MOST;
    if (fresh)
        mem->attached[mem->attached_count++] = other;
    pthread_rwlock_unlock(&mem->lock);
    return fresh;
}

bool mem_detach(struct mem *mem, struct mem *other)
{
    pthread_rwlock_wrlock(&mem->lock);
    size_t i = attached_at(mem, other);
    bool had = i < mem->attached_count;
    if (had) {
        mem->attached[i] = mem->attached[--mem->attached_count];
        atomic_fetch_add_explicit(&mem->head.generation, 1, memory_order_release);
    }
    pthread_rwlock_unlock(&mem->lock);
    return had;
}

bool mem_attached(struct mem *mem, struct mem *other)
{
    pthread_rwlock_rdlock(&mem->lock);
    bool in = attached_at(mem, other) < mem->attached_count;
    pthread_rwlock_unlock(&mem->lock);
    return in;
}

// ---- translation --------------------------------------------------------------------------------

enum mem_fault mem_translate_slow(struct mem *mem, struct mem_cache *cache, uint64_t addr,
                                  uint64_t len, bool write, struct mem_ref *ref)
{
    // Read before the lookup: a block that goes away meanwhile makes the cache entry stale, not
    // wrong.
    uint64_t generation = atomic_load_explicit(&mem->head.generation, memory_order_acquire);
    const struct mem_block *b = mem_find(mem, addr);
    if (!b) {
        struct mem *attached[ATTACH_MOST];
        pthread_rwlock_rdlock(&mem->lock);
        size_t count = mem->attached_count;
        memcpy(attached, mem->attached, count * sizeof *attached);
        pthread_rwlock_unlock(&mem->lock);
        for (size_t i = 0; i < count && !b; i++)
            b = mem_find(attached[i], addr);
    }
    if (b) {
        uint64_t at = addr - b->base;
        if (len > b->size - at)
            return MEM_BEYOND;
        if (write && b->kind == MEM_CONST)
            return MEM_READONLY;
        cache->block = b;
        cache->generation = generation;
        *ref = (struct mem_ref){b->bytes + at, b->valid, at};
        return MEM_OK;
    }

    if (addr < 4096)
        return MEM_NULL;
    enum mem_fault fault = MEM_UNMAPPED;
    pthread_rwlock_rdlock(&mem->lock);
    size_t i = upto(mem, addr);
    for (uint64_t k = 0; k < mem->freed_count && k < FREED_KEPT && fault == MEM_UNMAPPED; k++)
        if (addr - mem->freed[k].base < mem->freed[k].size)
            fault = MEM_FREED;
    if (fault == MEM_UNMAPPED && i > 0 &&
        addr - (mem->blocks[i - 1]->base + mem->blocks[i - 1]->size) < GAP_LEAST)
        fault = MEM_BEYOND;
    if (fault == MEM_UNMAPPED && i < mem->count && mem->blocks[i]->base - addr < GAP_LEAST)
        fault = MEM_BEFORE;
    pthread_rwlock_unlock(&mem->lock);
    return fault;
}

static int block_words(const struct mem_block *b, char *text, size_t room)
{
    static const char *const kind[] = {"allocation", "page-locked host memory", "global variable",
                                       "constant variable"};
    return snprintf(text, room, "%s %s%s#%llu of %llu bytes at 0x%llx", kind[b->kind], b->name,
                    b->name[0] ? " " : "", (unsigned long long)b->serial,
                    (unsigned long long)b->size, (unsigned long long)b->base);
}

void mem_explain(struct mem *mem, uint64_t addr, uint64_t len, bool write, char *text, size_t room)
{
    struct mem_cache cache = {0};
    struct mem_ref ref;
    enum mem_fault fault = mem_translate_slow(mem, &cache, addr, len, write, &ref);
    int n = snprintf(text, room, "%s of %llu bytes at 0x%llx", write ? "write" : "read",
                     (unsigned long long)len, (unsigned long long)addr);
    if (n < 0 || (size_t)n >= room)
        return;
    text += n;
    room -= (size_t)n;

    pthread_rwlock_rdlock(&mem->lock);
    size_t i = upto(mem, addr);
    const struct mem_block *below = i > 0 ? mem->blocks[i - 1] : NULL;
    const struct mem_block *above = i < mem->count ? mem->blocks[i] : NULL;
    char words[160] = "";
    if (fault == MEM_BEYOND && below)
        block_words(below, words, sizeof words);
    else if (fault == MEM_BEFORE)
        block_words(above, words, sizeof words);
    switch (fault) {
    case MEM_OK:
        snprintf(text, room, ": within its allocation");
        break;
    case MEM_NULL:
        snprintf(text, room, ": a null pointer");
        break;
    case MEM_UNMAPPED:
        snprintf(text, room, ": no allocation anywhere near");
        break;
    case MEM_BEYOND:
        if (!below)
            snprintf(text, room, ": past the end of a peer's allocation");
        else if (addr - below->base < below->size)
            snprintf(text, room, ": runs %llu bytes past the end of %s",
                     (unsigned long long)(addr - below->base + len - below->size), words);
        else
            snprintf(text, room, ": starts %llu bytes past the end of %s",
                     (unsigned long long)(addr - below->base - below->size), words);
        break;
    case MEM_BEFORE:
        snprintf(text, room, ": starts %llu bytes before %s",
                 (unsigned long long)(above->base - addr), words);
        break;
    case MEM_FREED:
        for (uint64_t k = 0; k < mem->freed_count && k < FREED_KEPT; k++)
            if (addr - mem->freed[k].base < mem->freed[k].size)
                snprintf(words, sizeof words, "allocation #%llu of %llu bytes at 0x%llx",
                         (unsigned long long)mem->freed[k].serial,
                         (unsigned long long)mem->freed[k].size,
                         (unsigned long long)mem->freed[k].base);
        snprintf(text, room, ": in %s, which was freed", words);
        break;
    case MEM_READONLY:
        snprintf(text, room, ": constant memory is not writable by a kernel");
        break;
    }
    pthread_rwlock_unlock(&mem->lock);
}
