#include "tma_box.h"

static uint32_t span_of(enum tmap_swizzle swizzle)
{
    switch (swizzle) {
    case TMAP_SWIZZLE_32B: return 32;
    case TMAP_SWIZZLE_64B: return 64;
    case TMAP_SWIZZLE_128B: return 128;
    default: return 0;
    }
}

const char *box_open(struct box *box, const struct tmap *map, const int32_t *coordinates)
{
    *box = (struct box){.map = map, .rows = 1};
    if (map->interleave != TMAP_INTERLEAVE_NONE)
        return "interleaved layouts are not implemented";
    if (map->element_bytes == 0 || map->swizzle > TMAP_SWIZZLE_128B)
        return "packed types and wide swizzle atoms are not implemented";
    for (uint32_t i = 0; i < map->rank; i++) {
        box->start[i] = coordinates[i];
        box->count[i] = (map->box[i] + map->element_stride[i] - 1) / map->element_stride[i];
        if (i)
            box->rows *= box->count[i];
    }
    box->inner = map->box[0] * map->element_bytes;
    box->span = span_of(map->swizzle);
    box->pitch = box->span ? box->span : box->inner;
    return NULL;
}

void box_row(const struct box *box, uint32_t row, bool store, struct box_row *out)
{
    const struct tmap *map = box->map;
    const int64_t size = map->element_bytes;
    int64_t end = (int64_t)map->dim[0] * size;
    const int64_t first = box->start[0] * size;
    uint64_t address = map->address;
    int64_t from, to;

    *out = (struct box_row){0};
    for (uint32_t i = 1; i < map->rank; i++) {
        const int64_t at = box->start[i] + (int64_t)(row % box->count[i]) * map->element_stride[i];

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
