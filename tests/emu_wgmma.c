/* Matrix descriptors and fragments against index formulas, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "valid.h"
#include "wgmma.h"

enum { SMEM = 0x20000, FIRST = 0x400 };

static uint8_t bytes[SMEM], valid[SMEM / 8 + 8];
static uint64_t random_state = 7;

static uint32_t next_random(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static uint64_t descriptor(uint32_t start, uint32_t lbo, uint32_t sbo, unsigned base, unsigned mode)
{
    return start >> 4 | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 |
           (uint64_t)base << 49 | (uint64_t)mode << 62;
}

/* Descriptor modes: 0 none, 1 128 bytes, 2 64, 3 32. */
static const unsigned spans[] = {0, 128, 64, 32};

/* Chunk bits 4.. take the line number's low bits: 3 of them for 128 bytes, 2, 1. */
static uint32_t swizzle(uint32_t address, unsigned span, unsigned base)
{
    const uint32_t line = address / 128 - base;
    const unsigned chunks = span / 16;

    return span ? address - address % span + ((address % span / 16) ^ line % chunks) * 16 +
                      address % 16
                : address;
}

/* Where byte b of row r lies, K-major; and element (r, k) of 2 bytes, MN-major. */
static uint32_t k_major(uint32_t start, uint32_t lbo, uint32_t sbo, unsigned base, unsigned span,
                        unsigned r, unsigned b)
{
    if (!span)
        return start + b / 16 * lbo + r / 8 * sbo + r % 8 * 16 + b % 16;
    return swizzle(start + r / 8 * sbo + r % 8 * span + b, span, base);
}

static uint32_t mn_major(uint32_t start, uint32_t lbo, uint32_t sbo, unsigned base, unsigned span,
                         unsigned r, unsigned k)
{
    const unsigned wide = span / 2;

    if (!span)
        return start + k / 8 * lbo + r / 8 * sbo + k % 8 * 16 + r % 8 * 2;
    return swizzle(start + r / wide * lbo + k / 8 * sbo + k % 8 * span + r % wide * 2, span, base);
}

static void check(uint32_t start, uint32_t lbo, uint32_t sbo, unsigned base, unsigned mode,
                  bool mn, unsigned rows)
{
    static uint8_t out[TENSOR_MAX_ROWS][TENSOR_ROW_BYTES];
    bool defined[TENSOR_MAX_ROWS];
    const struct wgmma_memory memory = {bytes, valid, FIRST, SMEM, NULL};
    struct wgmma_desc desc;
    uint32_t fault;

    assert_null(wgmma_desc_decode(descriptor(start, lbo, sbo, base, mode), &desc));
    assert_true(wgmma_in_bounds(&desc, mn, rows, FIRST, SMEM, &fault));
    assert_true(wgmma_gather(&desc, mn, rows, &memory, out, defined, &fault));
    for (unsigned r = 0; r < rows; r++) {
        bool all = true;

        for (unsigned b = 0; b < 32; b++) {
            const uint32_t at = mn ? mn_major(start, lbo, sbo, base, spans[mode], r, b / 2) + b % 2
                                   : k_major(start, lbo, sbo, base, spans[mode], r, b);

            all &= valid_get(valid, at, 1);
            if (out[r][b] != bytes[at])
                fail_msg("mode %u %s start %x lbo %u sbo %u base %u: row %u byte %u is not that of "
                         "0x%x", mode, mn ? "MN" : "K", start, lbo, sbo, base, r, b, at);
        }
        assert_int_equal(defined[r], all);
    }
}

static void fill_memory(void)
{
    for (unsigned i = 0; i < SMEM; i++)
        bytes[i] = (uint8_t)next_random();
    valid_fill(valid, 0, SMEM, true);
    for (unsigned i = 0; i < 40; i++)
        valid_put(valid, FIRST + next_random() % (SMEM - FIRST - 8), 1, 0);
}

static void maps(void **state)
{
    (void)state;
    fill_memory();
    for (unsigned mode = 0; mode < 4; mode++)
        for (unsigned mn = 0; mn < 2; mn++)
            for (unsigned rows = 8; rows <= 256; rows += 8) {
                const unsigned span = spans[mode] ? spans[mode] : 16;

                /* packed tiles at aligned starts, every k step */
                for (unsigned step = 0; step < 4; step++) {
                    if (!mn && mode)
                        check(0x2000 + 32 * step % span, 16, 8 * span, 0, mode, false, rows);
                    else if (!mn)
                        check(0x2000 + 2 * 16 * rows * step, 16 * rows, 128, 0, mode, false, rows);
                    else if (mode)
                        check(0x2000 + 16 * span * step, 64 * span, 8 * span, 0, mode, true, rows);
                    else
                        check(0x2000 + 256 * step, 128, 1024, 0, mode, true, rows);
                }
                /* anything */
                for (unsigned i = 0; i < 4; i++)
                    check(FIRST + 16 * (next_random() % 64), 16 * (next_random() % 60),
                          16 * (next_random() % 90), next_random() % 8, mode, mn, rows);
            }
}

/* The formula that kernels use for a 128-byte-swizzled tile at a multiple of 1024. */
static void swizzle_128(void **state)
{
    const struct wgmma_memory memory = {bytes, valid, FIRST, SMEM, NULL};
    uint8_t out[64][TENSOR_ROW_BYTES];
    struct wgmma_desc desc;
    bool defined[64];
    uint32_t fault;

    (void)state;
    fill_memory();
    for (unsigned step = 0; step < 4; step++) {
        assert_null(wgmma_desc_decode(UINT64_C(0x4000004000010000) | (0x4000 + 32 * step) >> 4,
                                      &desc));
        assert_true(wgmma_gather(&desc, false, 64, &memory, out, defined, &fault));
        for (unsigned r = 0; r < 64; r++)
            for (unsigned i = 0; i < 32; i++) {
                const unsigned b = 32 * step + i;

                assert_int_equal(out[r][i], bytes[0x4000 + r * 128 + (((b >> 4) ^ (r & 7)) << 4) +
                                                  (b & 15)]);
            }
    }
}

static void bounds(void **state)
{
    const struct wgmma_memory memory = {bytes, valid, FIRST, SMEM, NULL};
    uint8_t out[64][TENSOR_ROW_BYTES];
    struct wgmma_desc desc;
    bool defined[64];
    uint32_t fault;

    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        const bool reserved = bit == 14 || bit == 15 || bit == 30 || bit == 31 ||
                              (bit >= 46 && bit <= 48) || (bit >= 52 && bit <= 61);

        assert_int_equal(wgmma_desc_decode(UINT64_C(1) << bit, &desc) != NULL, reserved);
    }
    assert_null(wgmma_desc_decode(descriptor(SMEM - 63 * 128, 0, 1024, 0, 1), &desc));
    assert_false(wgmma_in_bounds(&desc, false, 64, FIRST, SMEM, &fault));
    assert_false(wgmma_gather(&desc, false, 64, &memory, out, defined, &fault));
    assert_true(fault >= SMEM - 16);
    assert_null(wgmma_desc_decode(descriptor(SMEM - 64 * 128, 0, 1024, 0, 1), &desc));
    assert_true(wgmma_in_bounds(&desc, false, 64, FIRST, SMEM, &fault));
    assert_null(wgmma_desc_decode(descriptor(FIRST - 16, 0, 1024, 0, 0), &desc));
    assert_false(wgmma_in_bounds(&desc, false, 64, FIRST, SMEM, &fault));
    assert_int_equal(fault, FIRST - 16);
}

/* A tile goes to the registers of the four warps and comes back. */
static void there_and_back(unsigned n, bool half, const uint32_t *tile,
                           uint32_t storage[4][128][32])
{
    static uint32_t back[64 * 256];

    memset(back, 0, sizeof back);
    for (unsigned w = 0; w < 4; w++) {
        uint32_t *reg[128];
        const uint32_t *read[128];

        for (unsigned i = 0; i < n / (half ? 4 : 2); i++)
            read[i] = reg[i] = storage[w][i];
        wgmma_from_tile(w, n, half, tile, reg);
        wgmma_to_tile(w, n, half, read, back);
    }
    assert_memory_equal(back, tile, 64 * n * 4);
}

static void accumulators(void **state)
{
    static uint32_t tile[64 * 256], storage[4][128][32];

    (void)state;
    for (unsigned n = 8; n <= 256; n += 8) {
        for (unsigned i = 0; i < 64 * n; i++)
            tile[i] = next_random();
        there_and_back(n, false, tile, storage);
        for (unsigned row = 0; row < 64; row++)
            for (unsigned col = 0; col < n; col++) {
                const unsigned t = 32 * (row / 16) + 4 * (row % 8) + col % 8 / 2;
                const unsigned i = 4 * (col / 8) + 2 * (row / 8 % 2) + col % 2;

                assert_int_equal(storage[t / 32][i][t % 32], tile[row * n + col]);
            }
    }
}

static void half_accumulators(void **state)
{
    static uint32_t tile[64 * 256], storage[4][128][32];

    (void)state;
    for (unsigned n = 8; n <= 256; n += 8) {
        for (unsigned i = 0; i < 64 * n; i++)
            tile[i] = next_random() & 0xffff;
        there_and_back(n, true, tile, storage);
        for (unsigned t = 0; t < 128; t++)
            for (unsigned j = 0; j < n / 4; j++) {
                const unsigned l = t % 32, row = 16 * (t / 32) + l / 4 + 8 * (j & 1);
                const unsigned c = 8 * (j >> 1) + 2 * (l % 4);

                assert_int_equal(storage[t / 32][j][l],
                                 tile[row * n + c] | tile[row * n + c + 1] << 16);
            }
    }
}

/* Fragment A: element e of the four registers, for 2-, 1- and 4-byte elements. */
static void fragments_a(void **state)
{
    (void)state;
    for (unsigned t = 0; t < 128; t++)
        for (unsigned e = 0; e < 16; e++) {
            const unsigned w = t / 32, l = t % 32, g = l / 4, q = l % 4;

            if (e < 8) {
                assert_int_equal(wgmma_a_row(w, l, e / 2), 16 * w + g + 8 * (e >> 1 & 1));
                assert_int_equal(wgmma_a_byte(l, e / 2) + 2 * (e & 1),
                                 2 * (2 * q + (e & 1) + 8 * (e >> 2)));
            }
            assert_int_equal(wgmma_a_row(w, l, e / 4), 16 * w + g + 8 * (e >> 2 & 1));
            assert_int_equal(wgmma_a_byte(l, e / 4) + (e & 3), 4 * q + (e & 3) + 16 * (e >> 3));
            if (e < 4) {
                assert_int_equal(wgmma_a_row(w, l, e), 16 * w + g + 8 * (e & 1));
                assert_int_equal(wgmma_a_byte(l, e), 4 * (q + 4 * (e >> 1)));
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps),
        cmocka_unit_test(swizzle_128),
        cmocka_unit_test(bounds),
        cmocka_unit_test(accumulators),
        cmocka_unit_test(half_accumulators),
        cmocka_unit_test(fragments_a),
    };

    return cmocka_run_group_tests_name("emu/wgmma", tests, NULL, NULL);
}
