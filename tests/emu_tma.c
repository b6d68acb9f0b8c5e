/* Boxes of tensor copies against a copy that goes element by element; element-wise reductions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reduce.h"
#include "tma_box.h"

enum { SMEM = 1 << 18, GLOBAL = 1 << 20 };

static uint8_t smem[SMEM], want[SMEM], global[GLOBAL], expected[GLOBAL];
static uint64_t random_state = 11;

static uint32_t below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static const unsigned spans[] = {0, 32, 64, 128};

/* Chunk number within the span XOR the low bits of the 128-byte line's number. */
static uint32_t place(uint32_t address, unsigned span)
{
    if (!span)
        return address;
    return address - address % span +
           ((address % span / 16) ^ (address / 128) % (span / 16)) * 16 + address % 16;
}

static void random_map(struct tmap *m, uint32_t rank)
{
    static const enum tmap_type types[] = {TMAP_U8, TMAP_U16, TMAP_F32, TMAP_F64, TMAP_BF16};
    uint64_t stride;
    unsigned span;

    memset(m, 0, sizeof *m);
    m->rank = rank;
    m->type = types[below(5)];
    m->element_bytes = m->type == TMAP_U8 ? 1 : m->type == TMAP_F32 ? 4 :
        m->type == TMAP_F64 ? 8 : 2;
    m->swizzle = (enum tmap_swizzle)below(4);
    span = spans[m->swizzle];
    m->address = 4096;
    m->stride[0] = stride = m->element_bytes;
    for (unsigned i = 0; i < TMAP_RANKS; i++) {
        m->dim[i] = 1;
        m->box[i] = m->element_stride[i] = 1;
    }
    for (unsigned i = 0; i < rank; i++) {
        m->dim[i] = 1 + below(i ? 6 : 70);
        m->box[i] = 1 + below(i > 2 ? 3 : 8);
        m->element_stride[i] = i && below(3) == 0 ? 1 + below(3) : 1;
        if (i) {
            stride = (stride * m->dim[i - 1] + 15) / 16 * 16 + 16 * below(3);
            m->stride[i] = stride;
        }
    }
    m->box[0] = 16 * (1 + below(span ? span / 16 : 8)) / m->element_bytes;
}

/* The byte of shared memory of element (i0, j), j counting rows. */
static uint32_t shared_byte(const struct tmap *m, uint32_t base, uint64_t row, uint32_t i0,
                            uint32_t byte)
{
    const unsigned span = spans[m->swizzle];
    const uint32_t inner = m->box[0] * m->element_bytes;

    return place(base + (uint32_t)row * (span ? span : inner) + i0 * m->element_bytes + byte, span);
}

struct element {
    uint64_t row;
    uint32_t i0;
    bool inside, padding;       /* padding: beyond dim 0, but within its last 16 bytes */
    uint64_t global;
};

static bool next_element(const struct tmap *m, const int32_t *start, uint32_t index[5],
                         struct element *e)
{
    e->row = 0;
    e->inside = e->padding = true;
    e->global = m->address;
    for (int i = (int)m->rank - 1; i > 0; i--) {
        const uint32_t count = (m->box[i] + m->element_stride[i] - 1) / m->element_stride[i];
        const int64_t at = start[i] + (int64_t)index[i] * m->element_stride[i];

        e->row = e->row * count + index[i];
        if (at < 0 || (uint64_t)at >= m->dim[i])
            e->inside = e->padding = false;
        e->global += (uint64_t)at * m->stride[i];
    }
    e->i0 = index[0];
    {
        const int64_t at = start[0] + (int64_t)index[0];
        const uint64_t end = m->dim[0] * m->element_bytes;

        if (at < 0 || (uint64_t)at >= m->dim[0])
            e->inside = false;
        if (at < 0 || (uint64_t)at * m->element_bytes >= (end + 15) / 16 * 16)
            e->padding = false;
        e->global += (uint64_t)at * m->element_bytes;
    }
    for (uint32_t i = 0; i < m->rank; i++) {
        const uint32_t count = i ? (m->box[i] + m->element_stride[i] - 1) / m->element_stride[i]
                                 : m->box[0];

        if (++index[i] < count)
            return true;
        index[i] = 0;
    }
    return false;
}

static void random_start(const struct tmap *m, int32_t *start, bool negative)
{
    for (unsigned i = 0; i < m->rank; i++)
        start[i] = (int32_t)below((uint32_t)m->dim[i] + 4) - (negative ? 4 : 0);
    start[0] = (int32_t)(below(8) * 16 / m->element_bytes) -
               (negative ? (int32_t)(32 / m->element_bytes) : 0);
}

static void loads(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 1500; round++) {
        const uint32_t base = 0x400 + 128 * below(32);
        int32_t start[5] = {0};
        uint32_t index[5] = {0};
        struct element e;
        struct tmap m;
        struct box box;
        bool more;

        random_map(&m, 1 + round % 5);
        random_start(&m, start, true);
        for (unsigned i = 0; i < GLOBAL; i += 1 + GLOBAL / 512 * (round % 64 != 0))
            global[i] = (uint8_t)below(256);
        memset(smem, 0xcc, sizeof smem);
        memset(want, 0xcc, sizeof want);
        assert_null(box_open(&box, &m, start, false));
        if (base + box_extent(&box) > SMEM)
            continue;
        do {
            more = next_element(&m, start, index, &e);
            for (uint32_t b = 0; b < m.element_bytes; b++)
                want[shared_byte(&m, base, e.row, e.i0, b)] = e.inside ? global[e.global + b] : 0;
        } while (more);
        for (uint32_t row = 0; row < box.rows; row++) {
            uint8_t bytes[4096] = {0};
            struct box_row r;

            box_row(&box, row, false, &r);
            if (r.bytes)
                memcpy(bytes + r.skip, global + r.global, r.bytes);
            for (uint32_t b = 0; b < box.inner; b += 16)
                memcpy(smem + box_shared(&box, base, row, b), bytes + b, 16);
        }
        assert_memory_equal(smem, want, SMEM);
    }
}

static void stores(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SMEM; i++)
        smem[i] = (uint8_t)below(256);
    for (unsigned round = 0; round < 1000; round++) {
        const uint32_t base = 0x400 + 128 * below(32);
        int32_t start[5] = {0};
        uint32_t index[5] = {0};
        struct element e;
        struct tmap m;
        struct box box;
        bool more;

        random_map(&m, 1 + round % 5);
        random_start(&m, start, false);
        memset(global, 0xaa, GLOBAL);
        memset(expected, 0xaa, GLOBAL);
        assert_null(box_open(&box, &m, start, false));
        if (base + box_extent(&box) > SMEM)
            continue;
        do {
            more = next_element(&m, start, index, &e);
            for (uint32_t b = 0; e.padding && b < m.element_bytes; b++)
                expected[e.global + b] = smem[shared_byte(&m, base, e.row, e.i0, b)];
        } while (more);
        for (uint32_t row = 0; row < box.rows; row++) {
            uint8_t bytes[4096];
            struct box_row r;

            for (uint32_t b = 0; b < box.inner; b += 16)
                memcpy(bytes + b, smem + box_shared(&box, base, row, b), 16);
            box_row(&box, row, true, &r);
            if (r.bytes)
                memcpy(global + r.global, bytes + r.skip, r.bytes);
        }
        assert_memory_equal(global, expected, GLOBAL);
    }
}

static void credits(void **state)
{
    const int32_t start[5] = {0, INT32_MIN, 0, 0, INT32_MAX};
    struct tmap m = {.rank = 5, .type = TMAP_BF16, .element_bytes = 2, .dim = {100, 9, 9, 9, 9},
                     .stride = {2, 208, 2000, 20000, 200000}, .box = {40, 6, 5, 1, 2},
                     .element_stride = {3, 2, 4, 1, 1}, .swizzle = TMAP_SWIZZLE_128B};
    struct box_row r;
    struct box box;

    (void)state;
    assert_null(box_open(&box, &m, start, false));
    assert_int_equal(box.rows, 3 * 2 * 1 * 2);
    assert_int_equal(box_bytes(&box), 12 * 80);
    assert_int_equal(box_extent(&box), 12 * 128);
    for (uint32_t i = 0; i < box.rows; i++) {
        box_row(&box, i, false, &r);
        assert_int_equal(r.bytes, 0);
    }
    m.interleave = TMAP_INTERLEAVE_16B;
    assert_non_null(box_open(&box, &m, start, false));
}

static uint64_t f32(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    return bits;
}

static void reductions(void **state)
{
    (void)state;
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_U32, 0xffffffff, 2) & 0xffffffff, 1);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_U64, 0xffffffff, 2), 0x100000001);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F32, f32(1.5f), f32(2.25f)), f32(3.75f));
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F32, 1, 1), 2);         /* subnormals live */
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F32_FTZ, 1, 1), 0);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F32_FTZ, 0x80000001, 0x80000001), 0x80000000);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F32_FTZ, 0x00800001, 0x80800000), 0);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F32, 0xffc12345, f32(1)), 0x7fffffff);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F32, f32(INFINITY), f32(-INFINITY)),
                     0x7fffffff);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F32, 0x80000000, 0x80000000), 0x80000000);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F16, 0x3c00, 0x1000), 0x3c00);  /* tie, even */
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F16, 0x3c01, 0x1000), 0x3c02);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F16, 0x7bff, 0x7bff), 0x7c00);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F16, 0xfe00, 0x3c00), 0x7fff);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F16, 0x0001, 0x0001), 0x0002);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_F16, 0x8000, 0x8000), 0x8000);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_BF16, 0x3f80, 0x3b80), 0x3f80);
    assert_int_equal(reduce_element(SUB_ADD, REDUCE_BF16, 0x3f81, 0x3b80), 0x3f82);
    assert_int_equal(reduce_element(SUB_MAX, REDUCE_F16, 0x7e00, 0x3c00), 0x3c00);
    assert_int_equal(reduce_element(SUB_MIN, REDUCE_BF16, 0x3f80, 0x7fc0), 0x3f80);
    assert_int_equal(reduce_element(SUB_MAX, REDUCE_BF16, 0xbf80, 0x3f80), 0x3f80);
    assert_int_equal(reduce_element(SUB_MIN, REDUCE_BF16, 0xbf80, 0xc000), 0xc000);
    assert_int_equal(reduce_element(SUB_MIN, REDUCE_F16, 0x0000, 0x8000), 0x8000);
    assert_int_equal(reduce_element(SUB_MAX, REDUCE_S32, 0xffffffff, 1), 1);
    assert_int_equal(reduce_element(SUB_MAX, REDUCE_U32, 0xffffffff, 1), 0xffffffff);
    assert_int_equal(reduce_element(SUB_MIN, REDUCE_S64, UINT64_MAX, 1), UINT64_MAX);
    assert_int_equal(reduce_element(SUB_INC, REDUCE_U32, 4, 5), 5);
    assert_int_equal(reduce_element(SUB_INC, REDUCE_U32, 5, 5), 0);
    assert_int_equal(reduce_element(SUB_DEC, REDUCE_U32, 0, 5), 5);
    assert_int_equal(reduce_element(SUB_DEC, REDUCE_U32, 6, 5), 5);
    assert_int_equal(reduce_element(SUB_DEC, REDUCE_U32, 5, 5), 4);
    assert_int_equal(reduce_element(SUB_XOR, REDUCE_U32, 6, 5), 3);
    assert_true(reduce_legal(SUB_MIN, REDUCE_S64));
    assert_false(reduce_legal(SUB_ADD, REDUCE_S64));
    assert_false(reduce_legal(SUB_MIN, REDUCE_F32));
    assert_false(reduce_legal(SUB_INC, REDUCE_S32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads),
        cmocka_unit_test(stores),
        cmocka_unit_test(credits),
        cmocka_unit_test(reductions),
    };

    return cmocka_run_group_tests_name("emu/tma", tests, NULL, NULL);
}
