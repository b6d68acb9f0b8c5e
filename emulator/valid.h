/*
 * One bit per byte of memory: set once somebody has written the byte.
 * A bitmap starts at its region's first byte; `at` is the offset in the region.
 */
#ifndef EMULATOR_VALID_H
#define EMULATOR_VALID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline size_t valid_bytes(size_t size)
{
    return (size + 7) / 8 + 8;      /* the slack lets the helpers below touch a whole word */
}

/* The bits of n <= 32 bytes at `at`, lowest first. */
static inline uint32_t valid_get(const uint8_t *map, size_t at, unsigned n)
{
    uint64_t word;

    memcpy(&word, map + at / 8, sizeof word);
    word >>= at % 8;
    return (uint32_t)(word & ((UINT64_C(1) << n) - 1));
}

/* Replaces the bits of n <= 32 bytes at `at`. */
static inline void valid_put(uint8_t *map, size_t at, unsigned n, uint32_t bits)
{
    const unsigned shift = at % 8;
    const uint64_t field = ((UINT64_C(1) << n) - 1) << shift;
    uint64_t word;

    memcpy(&word, map + at / 8, sizeof word);
    word = (word & ~field) | (((uint64_t)bits << shift) & field);
    memcpy(map + at / 8, &word, sizeof word);
}

static inline void valid_fill(uint8_t *map, size_t at, size_t n, bool on)
{
    for (; n && at % 8; at++, n--)
        valid_put(map, at, 1, on);
    memset(map + at / 8, on ? 0xff : 0, n / 8);
    for (at += n / 8 * 8, n %= 8; n; at++, n--)
        valid_put(map, at, 1, on);
}

static inline bool valid_all(const uint8_t *map, size_t at, size_t n)
{
    for (; n > 32; at += 32, n -= 32)
        if (valid_get(map, at, 32) != UINT32_MAX)
            return false;
    return valid_get(map, at, (unsigned)n) == (uint32_t)((UINT64_C(1) << n) - 1);
}

static inline void valid_copy(uint8_t *to, size_t to_at, const uint8_t *from, size_t from_at,
                              size_t n)
{
    for (; n > 32; to_at += 32, from_at += 32, n -= 32)
        valid_put(to, to_at, 32, valid_get(from, from_at, 32));
    valid_put(to, to_at, (unsigned)n, valid_get(from, from_at, (unsigned)n));
}

#endif
