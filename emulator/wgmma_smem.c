/* Matrix descriptors and where they send the tensor core in shared memory. */
#include "wgmma.h"

#include <string.h>

#include "valid.h"

#define MUST_BE_ZERO \
    (UINT64_C(3) << 14 | UINT64_C(3) << 30 | UINT64_C(7) << 46 | UINT64_C(0x3ff) << 52)

const char *wgmma_desc_decode(uint64_t bits, struct wgmma_desc *desc)
{
    static const uint8_t spans[] = {0, 128, 64, 32};

    desc->start = (uint32_t)(bits & 0x3fff) << 4;
    desc->leading = (uint32_t)(bits >> 16 & 0x3fff) << 4;
    desc->stride = (uint32_t)(bits >> 32 & 0x3fff) << 4;
    desc->base = (unsigned)(bits >> 49 & 7);
    desc->span = spans[bits >> 62];
    desc->deep = false;
    if (bits & MUST_BE_ZERO)
        return "bits 14-15, 30-31, 46-48 and 52-61 must be zero";
    return NULL;
}

/* The swizzle moves 16-byte chunks within the span by the number of the 128-byte line, counted
 * from absolute address 0 (or from the base offset). */
static uint32_t swizzled(const struct wgmma_desc *d, uint32_t address)
{
    const uint32_t line = (address >> 7) - d->base;

    return d->span ? address ^ ((line & (d->span / 16 - 1)) << 4) : address;
}

/* K-major: where 16-byte chunk `chunk` (0, 1; deep: to 3) of a row lies. Rows come in groups of
 * eight, packed at the span's pitch; without swizzle chunks are in different core matrices. */
static uint32_t k_chunk(const struct wgmma_desc *d, unsigned row, unsigned chunk)
{
    const uint32_t group = d->start + row / 8 * d->stride;

    if (!d->span)
        return group + row % 8 * 16 + chunk * d->leading;
    return swizzled(d, group + row % 8 * d->span + chunk * 16);
}

/* MN-major, 16-bit elements: where the chunk of rows 8 * octet .. 8 * octet + 7 lies for index k.
 * LBO and SBO change roles between the layouts. */
static uint32_t mn_chunk(const struct wgmma_desc *d, unsigned octet, unsigned k)
{
    if (!d->span)
        return d->start + octet * d->stride + k / 8 * d->leading + k % 8 * 16;

    const unsigned per_block = d->span / 16;

    return swizzled(d, d->start + octet / per_block * d->leading + k / 8 * d->stride +
                       k % 8 * d->span + octet % per_block * 16);
}

static bool outside(uint32_t address, uint32_t first, uint32_t end)
{
    return address < first || address > end || end - address < 16;
}

/* A bound from the corners. The swizzle stays within a line of 128 bytes. */
static bool surely_inside(const struct wgmma_desc *d, bool mn_major, unsigned rows, uint32_t first,
                          uint32_t end)
{
    const uint32_t groups = rows / 8 - 1;
    uint32_t reach;

    if (d->deep)
        return false;
    if (!mn_major)
        reach = groups * d->stride + 8 * (d->span ? d->span : 16) + (d->span ? 0 : d->leading);
    else if (!d->span)
        reach = groups * d->stride + d->leading + 128;
    else
        reach = groups / (d->span / 16) * d->leading + d->stride + 8 * d->span;
    return d->start >= first + 128 && d->start + reach + 128 <= end;
}

bool wgmma_in_bounds(const struct wgmma_desc *desc, bool mn_major, unsigned rows, uint32_t first,
                     uint32_t end, uint32_t *fault)
{
    const unsigned chunks = (mn_major ? 16u : 2u) << desc->deep;

    if (surely_inside(desc, mn_major, rows, first, end))
        return true;
    for (unsigned r = 0; r < (mn_major ? rows / 8 : rows); r++)
        for (unsigned c = 0; c < chunks; c++) {
            *fault = mn_major ? mn_chunk(desc, r, c) : k_chunk(desc, r, c);
            if (outside(*fault, first, end))
                return false;
        }
    return true;
}

static bool gather_k(const struct wgmma_desc *d, unsigned rows, const struct wgmma_memory *m,
                     uint8_t (*out)[TENSOR_ROW_BYTES], bool *defined, uint32_t *fault)
{
    for (unsigned r = 0; r < rows; r++) {
        bool all = true;

        for (unsigned c = 0; c < 2u << d->deep; c++) {
            const uint32_t at = k_chunk(d, r, c);

            *fault = at;
            if (outside(at, m->first, m->end))
                return false;
            wgmma_visit(m, at);
            memcpy((uint8_t *)out[r << d->deep] + 16 * c, m->bytes + at, 16);
            all &= valid_get(m->valid, at, 16) == 0xffff;
        }
        defined[r] = all;
    }
    return true;
}

static bool gather_mn(const struct wgmma_desc *d, unsigned rows, const struct wgmma_memory *m,
                      uint8_t (*out)[TENSOR_ROW_BYTES], bool *defined, uint32_t *fault)
{
    for (unsigned octet = 0; octet < rows / 8; octet++) {
        uint32_t valid = 0xffff;

        for (unsigned k = 0; k < 16u << d->deep; k++) {
            const uint32_t at = mn_chunk(d, octet, k);
            uint16_t element[8];

            *fault = at;
            if (outside(at, m->first, m->end))
                return false;
            wgmma_visit(m, at);
            memcpy(element, m->bytes + at, 16);
            valid &= valid_get(m->valid, at, 16);
            for (unsigned i = 0; i < 8; i++)
                memcpy((uint8_t *)out[(8 * octet + i) << d->deep] + 2 * k, &element[i], 2);
        }
        for (unsigned i = 0; i < 8; i++)
            defined[8 * octet + i] = (valid >> 2 * i & 3) == 3;
    }
    return true;
}

bool wgmma_gather(const struct wgmma_desc *desc, bool mn_major, unsigned rows,
                  const struct wgmma_memory *memory, uint8_t (*out)[TENSOR_ROW_BYTES],
                  bool *defined, uint32_t *fault)
{
    return mn_major ? gather_mn(desc, rows, memory, out, defined, fault)
                    : gather_k(desc, rows, memory, out, defined, fault);
}

/* ---- fragments -------------------------------------------------------------------------------
 * Register i of lane 4 * g + q in warp w, 32-bit elements:
 *     row 16 w + g + 8 (i / 2 % 2), column 8 (i / 4) + 2 q + i % 2
 * f16: register i holds columns 8 (i / 2) + 2 q and the one after it, row 16 w + g + 8 (i % 2).
 */

void wgmma_to_tile(unsigned w, unsigned n, bool half, const uint32_t *const *reg, uint32_t *tile)
{
    for (unsigned g = 0; g < 16; g++) {
        uint32_t *const row = tile + (size_t)(16 * w + g) * n;
        const unsigned lane = 4 * (g % 8);

        for (unsigned block = 0; block < n / 8; block++) {
            uint32_t *const to = row + 8 * block;

            if (half) {
                const uint32_t *r = reg[2 * block + g / 8] + lane;

                for (unsigned q = 0; q < 4; q++) {
                    to[2 * q] = r[q] & 0xffff;
                    to[2 * q + 1] = r[q] >> 16;
                }
            } else {
                const uint32_t *even = reg[4 * block + 2 * (g / 8)] + lane;
                const uint32_t *odd = reg[4 * block + 2 * (g / 8) + 1] + lane;

                for (unsigned q = 0; q < 4; q++) {
                    to[2 * q] = even[q];
                    to[2 * q + 1] = odd[q];
                }
            }
        }
    }
}

void wgmma_from_tile(unsigned w, unsigned n, bool half, const uint32_t *tile, uint32_t **reg)
{
    for (unsigned g = 0; g < 16; g++) {
        const uint32_t *const row = tile + (size_t)(16 * w + g) * n;
        const unsigned lane = 4 * (g % 8);

        for (unsigned block = 0; block < n / 8; block++) {
            const uint32_t *const from = row + 8 * block;

            if (half) {
                uint32_t *r = reg[2 * block + g / 8] + lane;

                for (unsigned q = 0; q < 4; q++)
                    r[q] = (from[2 * q] & 0xffff) | from[2 * q + 1] << 16;
            } else {
                uint32_t *even = reg[4 * block + 2 * (g / 8)] + lane;
                uint32_t *odd = reg[4 * block + 2 * (g / 8) + 1] + lane;

                for (unsigned q = 0; q < 4; q++) {
                    even[q] = from[2 * q];
                    odd[q] = from[2 * q + 1];
                }
            }
        }
    }
}
