// Device memory: gaps, bounds, validity, life and death of allocations.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "mem.h"
#include "valid.h"

struct world {
    struct mem_space *space;
    struct mem *mem;
};

static int open_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    w->space = mem_space_new();
    w->mem = mem_new(w->space, UINT64_C(1) << 40);
    *state = w;
    return w->mem ? 0 : -1;
}

static int close_world(void **state)
{
    struct world *w = *state;
    mem_delete(w->mem);
    mem_space_free(w->space);
    free(w);
    return 0;
}

static enum mem_fault look(struct mem *mem, uint64_t addr, uint64_t len, bool write)
{
    struct mem_cache cache = {0};
    struct mem_ref ref;
    return mem_translate(mem, &cache, addr, len, write, &ref);
}

static void bounds(void **state)
{
    struct world *w = *state;
    const struct mem_block *b = mem_alloc(w->mem, 100, 1, MEM_DEVICE, "b");
    assert_non_null(b);
    assert_int_equal(b->base % 512, 0);
    assert_int_equal(look(w->mem, b->base, 100, true), MEM_OK);
    assert_int_equal(look(w->mem, b->base + 99, 1, false), MEM_OK);
    assert_int_equal(look(w->mem, b->base, 101, false), MEM_BEYOND);
    assert_int_equal(look(w->mem, b->base + 99, 2, false), MEM_BEYOND);
    assert_int_equal(look(w->mem, b->base + 100, 1, false), MEM_BEYOND);
    assert_int_equal(look(w->mem, b->base + 5000, 1, false), MEM_BEYOND);
    assert_int_equal(look(w->mem, b->base - 1, 1, false), MEM_BEFORE);
    assert_int_equal(look(w->mem, b->base - 4, 16, false), MEM_BEFORE);
    assert_int_equal(look(w->mem, 0, 4, false), MEM_NULL);
    assert_int_equal(look(w->mem, 100, 4, false), MEM_NULL);
    assert_int_equal(look(w->mem, UINT64_MAX, 4, false), MEM_UNMAPPED);
    assert_int_equal(look(w->mem, b->base, UINT64_MAX, false), MEM_BEYOND);
}

// Whatever two neighbours there are, an access off the end of one by less than the gap never lands
// in the other.
static void gaps(void **state)
{
    struct world *w = *state;
    uint64_t end = 0;
    for (unsigned i = 1; i < 60; i++) {
        const uint64_t size = (uint64_t)i * i * 977 + i;
        const struct mem_block *b = mem_alloc(w->mem, size, 256, MEM_DEVICE, "n");
        assert_non_null(b);
        if (end)
            assert_true(b->base >= end + (1 << 20));
        end = b->base + b->size;
    }
    const struct mem_block *big = mem_alloc(w->mem, UINT64_C(1) << 33, 512, MEM_DEVICE, "big");
    assert_non_null(big);                               // untouched pages cost nothing
    const struct mem_block *next = mem_alloc(w->mem, 16, 512, MEM_DEVICE, "next");
    assert_true(next->base >= big->base + big->size + (1 << 20));
}

static void explain(void **state)
{
    struct world *w = *state;
    char text[300];
    const struct mem_block *b = mem_alloc(w->mem, 64, 512, MEM_DEVICE, "weights");
    const uint64_t base = b->base;
    mem_explain(w->mem, base + 72, 4, true, text, sizeof text);
    assert_non_null(strstr(text, "write of 4 bytes"));
    assert_non_null(strstr(text, "starts 8 bytes past the end of"));
    assert_non_null(strstr(text, "weights"));
    mem_explain(w->mem, base + 60, 16, false, text, sizeof text);
    assert_non_null(strstr(text, "runs 12 bytes past the end of"));
    mem_explain(w->mem, base - 3, 1, false, text, sizeof text);
    assert_non_null(strstr(text, "starts 3 bytes before"));
    assert_true(mem_free(w->mem, base));
    mem_explain(w->mem, base, 4, false, text, sizeof text);
    assert_non_null(strstr(text, "which was freed"));
    mem_explain(w->mem, 8, 4, false, text, sizeof text);
    assert_non_null(strstr(text, "null pointer"));
    mem_explain(w->mem, 0x123456789abc, 4, false, text, sizeof text);
    assert_non_null(strstr(text, "no allocation"));
    mem_explain(w->mem, 0x123456789abc, 4, false, text, 10);        // short buffers are safe
}

static void freeing(void **state)
{
    struct world *w = *state;
    const uint64_t a = mem_alloc(w->mem, 4096, 512, MEM_DEVICE, "a")->base;
    struct mem_cache cache = {0};
    struct mem_ref ref;
    assert_int_equal(mem_translate(w->mem, &cache, a, 4, true, &ref), MEM_OK);
    assert_int_equal(mem_translate(w->mem, &cache, a + 4, 4, true, &ref), MEM_OK); // from the cache
    assert_false(mem_free(w->mem, a + 4));
    assert_true(mem_free(w->mem, a));
    assert_false(mem_free(w->mem, a));
    assert_int_equal(mem_translate(w->mem, &cache, a, 4, true, &ref),
                     MEM_FREED); // the cache does not hide it
    assert_int_equal(mem_used(w->mem), 0);
    for (int i = 0; i < 100; i++) {
        const struct mem_block *b = mem_alloc(w->mem, 4096, 512, MEM_DEVICE, "b");
        assert_int_not_equal(b->base, a);               // addresses are not reused soon
        assert_true(mem_free(w->mem, b->base));
    }
    assert_int_equal(look(w->mem, a, 4, false), MEM_FREED);
}

// More address space than there is goes by: the allocator starts over, beside what lives.
static void wraps(void **state)
{
    struct world *w = *state;
    const struct mem_block *stay = mem_alloc(w->mem, 1 << 20, 512, MEM_DEVICE, "stay");
    for (int i = 0; i < 600; i++) {
        const struct mem_block *b = mem_alloc(w->mem, UINT64_C(1) << 35, 512, MEM_DEVICE, "go");
        assert_non_null(b);
        assert_true(b->base + b->size <= MEM_LIMIT);
        assert_true(b->base > stay->base + stay->size || b->base + b->size < stay->base);
        assert_true(mem_free(w->mem, b->base));
    }
}

static void capacity(void **state)
{
    struct world *w = *state;
    struct mem *small = mem_new(w->space, 1000);
    assert_null(mem_alloc(small, 1001, 512, MEM_DEVICE, "x"));
    const struct mem_block *b = mem_alloc(small, 900, 512, MEM_DEVICE, "x");
    assert_non_null(b);
    assert_null(mem_alloc(small, 101, 512, MEM_DEVICE, "x"));
    assert_true(mem_free(small, b->base));
    assert_non_null(mem_alloc(small, 1000, 512, MEM_DEVICE, "x"));
    mem_delete(small);
}

static void read_only(void **state)
{
    struct world *w = *state;
    const struct mem_block *c = mem_alloc(w->mem, 64, 64, MEM_CONST, "table");
    struct mem_cache cache = {0};
    struct mem_ref ref;
    assert_int_equal(mem_translate(w->mem, &cache, c->base, 4, false, &ref), MEM_OK);
    assert_int_equal(mem_translate(w->mem, &cache, c->base, 4, true, &ref), MEM_READONLY);
    assert_int_equal(mem_translate(w->mem, &cache, c->base, 4, false, &ref), MEM_OK);
}

static void validity(void **state)
{
    struct world *w = *state;
    const struct mem_block *b = mem_alloc(w->mem, 1000, 512, MEM_DEVICE, "v");
    struct mem_cache cache = {0};
    struct mem_ref ref;
    assert_int_equal(mem_translate(w->mem, &cache, b->base + 13, 100, true, &ref), MEM_OK);
    assert_int_equal(ref.at, 13);
    assert_false(valid_all(ref.valid, ref.at, 1));
    valid_fill(ref.valid, ref.at, 100, true);
    assert_true(valid_all(b->valid, 13, 100));
    assert_false(valid_all(b->valid, 12, 1));
    assert_false(valid_all(b->valid, 113, 1));
    assert_int_equal(valid_get(b->valid, 10, 8), 0xf8);
}

static void host_memory(void **state)
{
    struct world *w = *state;
    struct mem *host = mem_new(w->space, UINT64_MAX);
    uint8_t *bytes = malloc(4096);
    const struct mem_block *b = mem_map_host(host, bytes, 4096, "pinned");
    assert_non_null(b);
    assert_int_equal(b->base, (uintptr_t)bytes);
    assert_null(mem_map_host(host, bytes + 100, 10, "overlap"));
    assert_null(mem_map_host(host, bytes - 10, 11, "overlap"));
    assert_int_equal(look(w->mem, b->base, 4, true), MEM_UNMAPPED);
    assert_true(mem_attach(w->mem, host));
    assert_false(mem_attach(w->mem, host));
    assert_int_equal(look(w->mem, b->base + 4092, 4, true), MEM_OK);
    assert_int_not_equal(look(w->mem, b->base + 4093, 4, true), MEM_OK);
    assert_true(valid_all(b->valid, 0, 4096));          // the host may write at any time
    assert_ptr_equal(mem_space_find(w->space, b->base + 7), b);
    assert_true(mem_detach(w->mem, host));
    assert_int_equal(look(w->mem, b->base, 4, true), MEM_UNMAPPED);
    assert_true(mem_attach(w->mem, host));
    mem_delete(host);                                   // detaches itself
    assert_int_equal(look(w->mem, (uintptr_t)bytes, 4, true), MEM_UNMAPPED);
    free(bytes);
}

static void two_contexts(void **state)
{
    struct world *w = *state;
    struct mem *other = mem_new(w->space, 1 << 20);
    const struct mem_block *a = mem_alloc(w->mem, 64, 512, MEM_DEVICE, "a");
    const struct mem_block *b = mem_alloc(other, 64, 512, MEM_DEVICE, "b");
    assert_true(b->base >= a->base + a->size + (1 << 20) ||
                a->base >= b->base + b->size + (1 << 20));
    assert_int_not_equal(look(w->mem, b->base, 4, false), MEM_OK);
    assert_true(mem_attach(w->mem, other));
    assert_int_equal(look(w->mem, b->base, 4, false), MEM_OK);
    assert_int_not_equal(look(other, a->base, 4, false), MEM_OK);       // one way only
    assert_true(mem_attached(w->mem, other));
    const uint64_t gone = b->base;
    mem_delete(other);
    assert_int_not_equal(look(w->mem, gone, 4, false), MEM_OK);
}

static void *churn(void *arg)
{
    struct world *w = arg;
    struct mem *mem = mem_new(w->space, 1 << 30);
    struct mem_cache cache = {0};
    struct mem_ref ref;
    uint64_t bases[16] = {0};
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t *base = &bases[i % 16];
        if (*base)
            mem_free(mem, *base);
        const struct mem_block *b = mem_alloc(mem, 64 + i % 1000, 512, MEM_DEVICE, "t");
        *base = b ? b->base : 0;
        if (!b || mem_translate(mem, &cache, *base, 64, true, &ref) != MEM_OK)
            return NULL;
        memset(ref.host, (int)i, 64);
        valid_fill(ref.valid, ref.at, 64, true);
    }
    mem_delete(mem);
    return arg;
}

static void threads(void **state)
{
    pthread_t t[2];
    void *result;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, churn, *state), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], &result);
        assert_non_null(result);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(bounds),      TEST(gaps),         TEST(explain),   TEST(freeing),
        TEST(wraps),       TEST(capacity),     TEST(read_only), TEST(validity),
        TEST(host_memory), TEST(two_contexts), TEST(threads),
    };
    return cmocka_run_group_tests_name("emu/mem", tests, NULL, NULL);
}
