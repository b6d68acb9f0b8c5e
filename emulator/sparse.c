#include "sparse.h"

struct sparse sparse_of(const struct inst *in, unsigned selector)
{
    const unsigned bits = type_bits((enum type)in->type[1]), size = bits < 8 ? 1 : bits / 8;
    const unsigned of = bits == 32 ? 2 : 4;

    return (struct sparse){
        .count = in->k * bits / 8 / size / of, .size = size, .of = of, .there = of / 2,
        .selector = selector, .wide = bits > 8, .ordered = in->flags & INST_ORDERED,
    };
}

static unsigned lane_of(const struct sparse *s, unsigned row, unsigned j)
{
    const unsigned group = row % 8 * 4, half = row / 8;

    if (s->wide)
        return group + (s->count == 4 ? s->selector : 2 * s->selector + j / 4);
    return group + half + 2 * (s->count == 8 ? s->selector : j / 8);
}

uint32_t sparse_lanes(const struct sparse *s)
{
    uint32_t lanes = 0;

    for (unsigned row = 0; row < SPARSE_ROWS; row++)
        for (unsigned j = 0; j < s->count; j++)
            lanes |= 1u << lane_of(s, row, j);
    return lanes;
}

const char *sparse_numbers(const struct sparse *s, const uint32_t words[32], unsigned row,
                           uint8_t numbers[SPARSE_MOST], unsigned *lane, unsigned *bit,
                           unsigned *nibble)
{
    for (unsigned j = 0; j < s->count; j++) {
        *lane = lane_of(s, row, j);
        *bit = s->wide ? row / 8 * 16 + j % 4 * 4 : j % 8 * 4;
        *nibble = words[*lane] >> *bit & 15;
        const unsigned first = *nibble & 3, second = *nibble >> 2;
        if (s->there == 1) {
            if (*nibble != 4 && *nibble != 14)
                return "0x4 or 0xe is expected";
            numbers[j] = (uint8_t)(2 * j + (*nibble == 14));
            continue;
        }
        if (first == second)
            return "twice the same element";
        if (s->ordered && first > second)
            return "elements out of order";
        numbers[2 * j] = (uint8_t)(4 * j + first);
        numbers[2 * j + 1] = (uint8_t)(4 * j + second);
    }
    return NULL;
}
