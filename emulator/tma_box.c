#include "tma_box.h"

static uint32_t span_of(enum tmap_swizzle swizzle)
{
    switch (swizzle) {
    case TMAP_SWIZZLE_32B: return 32;
    case TMAP_SWIZZLE_64B: return 64;
    case TMAP_SWIZZLE_128B: case TMAP_SWIZZLE_128B_ATOM_32B: return 128;
    default: return 0;
    }
}

/* Bits of an element in global memory. */
static uint32_t element_bits(const struct tmap *map)
{
    return map->element_bytes ? 8 * map->element_bytes : map->type == TMAP_6X16_P32 ? 6 : 4;
}

/* Sixteen padded narrow elements take 16 bytes of shared memory, whatever they have themselves. */
static uint32_t unit_of(const struct tmap *map)
{
    return map->type == TMAP_4X16_P64 ? 8 : map->type == TMAP_6X16_P32 ? 12 : 16;
}

const char *box_open(struct box *box, const struct tmap *map, const int32_t *coordinates,
                     bool gathers)
{
    *box = (struct box){.map = map, .rows = 1, .unit = unit_of(map), .gathers = gathers};
    if (map->interleave != TMAP_INTERLEAVE_NONE)
        return "interleaved layouts are not implemented";
    if (box->unit < 16 && coordinates[0] % 128)
        return "the first coordinate of a padded packed type is a multiple of 128";
    if (gathers && map->box[1] != 1)
        return "four rows are copied with a box of one row";
    for (uint32_t i = 0; i < map->rank; i++) {
        box->start[i] = coordinates[i];
        box->count[i] = (map->box[i] + map->element_stride[i] - 1) / map->element_stride[i];
        if (i)
            box->rows *= box->count[i];
    }
    for (uint32_t i = 0; gathers && i < BOX_GATHERED; i++)
        box->row_at[i] = coordinates[1 + i];
    if (gathers)
        box->rows = BOX_GATHERED;
    box->inner = map->box[0] * element_bits(map) / 8;
    box->wide = box->inner / box->unit * 16;
    box->span = span_of(map->swizzle);
    box->atoms_of_32 = map->swizzle == TMAP_SWIZZLE_128B_ATOM_32B;
    box->pitch = box->span ? box->span : box->wide;
    return NULL;
}

void box_row(const struct box *box, uint32_t row, bool store, struct box_row *out)
{
    const struct tmap *map = box->map;
    const int64_t bits = element_bits(map);
    int64_t end = (int64_t)map->dim[0] * bits / 8;
    const int64_t first = box->start[0] * bits / 8;
    uint64_t address = map->address;
    int64_t from, to;

    *out = (struct box_row){0};
    for (uint32_t i = 1; i < map->rank; i++) {
        const int64_t at = box->gathers
            ? box->row_at[row]
            : box->start[i] + (int64_t)(row % box->count[i]) * map->element_stride[i];

        row /= box->count[i];
        if (at < 0 || (uint64_t)at >= map->dim[i])
            return;
        address += (uint64_t)at * map->stride[i];
    }
    if (store)
        end = (end + 15) / 16 * 16;
    from = first < 0 ? 0 : first;
    to = first + box->inner < end ? first + box->inner : end;
    if (from >= to)
        return;
    out->global = address + (uint64_t)from;
    out->skip = (uint32_t)(from - first);
    out->bytes = (uint32_t)(to - from);
}
