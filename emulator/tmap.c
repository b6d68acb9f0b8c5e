// Tensor maps: the driver's checks, the 128 bytes, and the fields that tensormap.replace rewrites
// in place.
#include "tmap.h"

#include <string.h>

// ---- the bytes ----------------------------------------------------------------------------------
//
//   word 8, bit  19..31  17 18      16         15    13 14    11 12       7..10    4..6      0..3
//                0       L2         tf32       fill  swizzle  interleave  element  rank - 1  0
//                        promotion  conversion                            type
//
// TFLOAT32 is stored as F32 plus bit 16, TFLOAT32_FTZ as F32_FTZ plus bit 16.
enum {
    AT_ADDRESS = 0,
    AT_WORD = 8,
    AT_STRIDE = 12,
    AT_STRIDE_HIGH = 28,
    AT_DIM = 32,
    AT_ELEMENT_STRIDE = 52,
    AT_BOX = 55,
    AT_BOX_BYTES = 64,
    AT_PERIOD = 72,
    RANK_BIT = 4,
    TYPE_BIT = 7,
    INTERLEAVE_BIT = 11,
    SWIZZLE_BIT = 13,
    FILL_BIT = 15,
    TF32_BIT = 16,
    L2_BIT = 17,
};

static uint32_t get32(const uint8_t *map, size_t at)
{
    uint32_t v;
    memcpy(&v, map + at, sizeof v);
    return v;
}

static void put32(uint8_t *map, size_t at, uint32_t v)
{
    memcpy(map + at, &v, sizeof v);
}

static void put_field(uint8_t *map, unsigned bit, unsigned width, uint32_t v)
{
    const uint32_t mask = ((1u << width) - 1) << bit;
    put32(map, AT_WORD, (get32(map, AT_WORD) & ~mask) | (v << bit & mask));
}

static uint32_t get_field(const uint8_t *map, unsigned bit, unsigned width)
{
    return get32(map, AT_WORD) >> bit & ((1u << width) - 1);
}

// Stride of dimension i + 1 in bytes: 32 bits of a word each, 4 more bits each in one half word.
static void put_stride(uint8_t *map, unsigned i, uint64_t bytes)
{
    const uint64_t units = bytes >> 4;
    uint32_t high = get32(map, AT_STRIDE_HIGH);
    high = (high & ~(0xfu << 4 * i)) | (uint32_t)(units >> 32 & 0xf) << 4 * i;
    put32(map, AT_STRIDE + 4 * i, (uint32_t)units);
    put32(map, AT_STRIDE_HIGH, high);
}

static uint64_t get_stride(const uint8_t *map, unsigned i)
{
    const uint64_t high = get32(map, AT_STRIDE_HIGH) >> 4 * i & 0xf;
    return (high << 32 | get32(map, AT_STRIDE + 4 * i)) << 4;
}

static void put_element_stride(uint8_t *map, unsigned i, uint32_t stride)
{
    uint32_t v = get32(map, AT_ELEMENT_STRIDE);                     // the top byte is box[0]
    v = (v & ~(7u << 3 * i)) | ((stride - 1) & 7) << 3 * i;
    put32(map, AT_ELEMENT_STRIDE, v);
}

static void put_type(uint8_t *map, enum tmap_type type)
{
    const bool tf32 = type == TMAP_TF32 || type == TMAP_TF32_FTZ;
    const enum tmap_type stored = type == TMAP_TF32       ? TMAP_F32
                                  : type == TMAP_TF32_FTZ ? TMAP_F32_FTZ
                                                          : type;
    put_field(map, TYPE_BIT, 4, stored);
    put_field(map, TF32_BIT, 1, tf32);
}

enum { SMEM_OF_SM = 233472 };

// ---- types --------------------------------------------------------------------------------------

static const struct {
    const char *name;
    uint8_t bytes;
    bool floating;
} types[TMAP_TYPES] = {
    [TMAP_U8] = {"u8", 1, false},
    [TMAP_U16] = {"u16", 2, false},
    [TMAP_U32] = {"u32", 4, false},
    [TMAP_S32] = {"s32", 4, false},
    [TMAP_U64] = {"u64", 8, false},
    [TMAP_S64] = {"s64", 8, false},
    [TMAP_F16] = {"f16", 2, true},
    [TMAP_F32] = {"f32", 4, true},
    [TMAP_F32_FTZ] = {"f32.ftz", 4, true},
    [TMAP_F64] = {"f64", 8, true},
    [TMAP_BF16] = {"bf16", 2, true},
    [TMAP_TF32] = {"tf32", 4, true},
    [TMAP_TF32_FTZ] = {"tf32.ftz", 4, true},
    [TMAP_4X16] = {"b4x16", 0, false},
    [TMAP_4X16_P64] = {"b4x16_p64", 0, false},
    [TMAP_6X16_P32] = {"b6x16_p32", 0, false},
};

// CUtensorMapDataType to the device's numbering.
static const uint8_t api_types[] = {
    TMAP_U8,       TMAP_U16,  TMAP_U32,      TMAP_S32,      TMAP_U64,     TMAP_S64,
    TMAP_F16,      TMAP_F32,  TMAP_F64,      TMAP_BF16,     TMAP_F32_FTZ, TMAP_TF32,
    TMAP_TF32_FTZ, TMAP_4X16, TMAP_4X16_P64, TMAP_6X16_P32,
};

uint32_t tmap_type_bytes(enum tmap_type type)
{
    return types[type].bytes;
}

const char *tmap_type_name(enum tmap_type type)
{
    return types[type].name;
}

static uint32_t type_bits_of(enum tmap_type type)
{
    return type == TMAP_6X16_P32 ? 6 : types[type].bytes ? 8u * types[type].bytes : 4;
}

static uint32_t swizzle_span(uint32_t swizzle)
{
    return swizzle == TMAP_SWIZZLE_32B ? 32 : swizzle == TMAP_SWIZZLE_64B ? 64 : 128;
}

// ---- encoding -----------------------------------------------------------------------------------

static const char *check_packed(const struct tmap_request *r, enum tmap_type type)
{
    if (r->fill)
        return "NaN fill needs a floating-point type";
    if (type == TMAP_4X16) {
        if (r->dim[0] % 2)
            return "globalDim[0] of a packed 4-bit type must be even";
        return NULL;
    }
    if (r->address % 32)
        return "globalAddress of a padded packed type must be 32-byte aligned";
    if (r->dim[0] % 128)
        return "globalDim[0] of a padded packed type must be a multiple of 128";
    if (r->box[0] != 128)
        return "boxDim[0] of a padded packed type must be 128";
    for (uint32_t i = 0; i + 1 < r->rank; i++)
        if (r->stride[i] % 32)
            return "globalStrides of a padded packed type must be multiples of 32";
    if (type == TMAP_6X16_P32 && r->interleave)
        return "the 6-bit type takes no interleave";
    switch (r->swizzle) {
    case TMAP_SWIZZLE_NONE:
    case TMAP_SWIZZLE_128B:
    case TMAP_SWIZZLE_128B_ATOM_32B:
        return NULL;
    case TMAP_SWIZZLE_128B_ATOM_64B:
        return type == TMAP_6X16_P32 ? NULL : "swizzle mode not for this packed type";
    default:
        return "swizzle mode not for this packed type";
    }
}

const char *tmap_check(const struct tmap_request *r, unsigned part)
{
    if (r->type >= sizeof api_types)
        return "tensorDataType is not a type";
    const enum tmap_type type = api_types[r->type];
    if (part < 100 && type >= TMAP_4X16)
        return "packed 4- and 6-bit types need a newer part";
    if (r->rank < 1 || r->rank > TMAP_RANKS)
        return "tensorRank must be 1 to 5";
    if (r->interleave > TMAP_INTERLEAVE_32B)
        return "interleave is not a mode";
    if (r->interleave && r->rank < 3)
        return "an interleaved layout needs rank 3 or more";
    if (!r->dim || !r->box || !r->element_stride || !r->stride)
        return "a null array";
    if (r->address % 16)
        return "globalAddress must be 16-byte aligned";
    if (r->address >> 57)
        return "globalAddress must be below 2^57";
    if (r->interleave == TMAP_INTERLEAVE_32B && r->address % 32)
        return "globalAddress must be 32-byte aligned with 32-byte interleave";

    for (uint32_t i = 0; i < r->rank; i++) {
        if (r->dim[i] < 1 || r->dim[i] > UINT64_C(1) << 32)
            return "globalDim must be 1 to 2^32";
        if (r->box[i] < 1 || r->box[i] > 256)
            return "boxDim must be 1 to 256";
        // Without interleave TMA ignores the entry of dimension 0, but its range counts.
        if (r->element_stride[i] < 1 || r->element_stride[i] > 8)
            return "elementStrides must be 1 to 8";
    }
    for (uint32_t i = 0; i + 1 < r->rank; i++) {
        if (r->stride[i] % 16)
            return "globalStrides must be multiples of 16 bytes";
        if (r->stride[i] >> 40)
            return "globalStrides must be below 2^40 bytes";
        if (r->interleave == TMAP_INTERLEAVE_32B && r->stride[i] % 32)
            return "globalStrides must be multiples of 32 bytes with 32-byte interleave";
    }

    if (r->swizzle > (part < 100 ? TMAP_SWIZZLE_128B : TMAP_SWIZZLE_128B_ATOM_64B))
        return "swizzle is not a mode of this part";
    if (r->l2_promotion > 3)
        return "l2Promotion is not a mode";
    if (r->fill > TMAP_FILL_NAN)
        return "oobFill is not a mode";
    if (type >= TMAP_4X16) {
        const char *why = check_packed(r, type);
        if (why)
            return why;
    } else if (r->fill && !types[type].floating) {
        return "NaN fill needs a floating-point type";
    }

    // In bytes of shared memory: the padded packed types take 16 bytes for 16 elements.
    const uint32_t bits = type == TMAP_4X16_P64 || type == TMAP_6X16_P32 ? 8 : type_bits_of(type);
    const uint32_t inner = r->box[0] * bits / 8;
    if (inner % 16 || r->box[0] * bits % 8)
        return "boxDim[0] times the element size must be a multiple of 16 bytes";
    if (!r->interleave && r->swizzle && inner > swizzle_span(r->swizzle))
        return "boxDim[0] times the element size must not exceed the swizzle span";
    uint64_t box = inner;
    for (uint32_t i = 1; i < r->rank; i++)
        box *= (r->box[i] + r->element_stride[i] - 1) / r->element_stride[i];
    if (box > SMEM_OF_SM)
        return "the box must not exceed a multiprocessor's shared memory";
    return NULL;
}

const char *tmap_encode(const struct tmap_request *r, unsigned part, void *map)
{
    const char *why = tmap_check(r, part);
    if (why)
        return why;
    const enum tmap_type type = api_types[r->type];
    uint8_t b[TMAP_BYTES] = {0};

    memcpy(b + AT_ADDRESS, &r->address, 8);
    put_field(b, RANK_BIT, 3, r->rank - 1);
    put_type(b, type);
    put_field(b, INTERLEAVE_BIT, 2, r->interleave);
    put_field(b, SWIZZLE_BIT, 2, r->swizzle > TMAP_SWIZZLE_128B ? TMAP_SWIZZLE_128B : r->swizzle);
    put_field(b, FILL_BIT, 1, r->fill);
    put_field(b, L2_BIT, 2, r->l2_promotion);
    if (r->swizzle > TMAP_SWIZZLE_128B)
        put_field(b, 19, 2, r->swizzle - TMAP_SWIZZLE_128B);    // the atom, numbered as there

    uint32_t box = type_bits_of(type);
    for (uint32_t i = 0; i < r->rank; i++) {
        put32(b, AT_DIM + 4 * i, (uint32_t)(r->dim[i] - 1));
        b[AT_BOX + i] = (uint8_t)(r->box[i] - 1);
        put_element_stride(b, i, r->element_stride[i]);
        // Rounds down, though the copy rounds up: nobody reads it.
        box *= r->box[i] / r->element_stride[i];
        if (i + 1 < r->rank)
            put_stride(b, i, r->stride[i]);
    }
    put32(b, AT_BOX_BYTES, box / 8);
    put32(b, AT_PERIOD, r->swizzle ? 8 * swizzle_span(r->swizzle) : 16);
    memcpy(map, b, sizeof b);
    return NULL;
}

// ---- decoding -----------------------------------------------------------------------------------

const char *tmap_decode(const void *map, unsigned part, struct tmap *t)
{
    const uint8_t *b = map;
    memset(t, 0, sizeof *t);
    memcpy(&t->address, b + AT_ADDRESS, 8);
    t->rank = get_field(b, RANK_BIT, 3) + 1;
    if (t->rank > TMAP_RANKS)
        return "tensor map of rank above 5";
    uint32_t type = get_field(b, TYPE_BIT, 4);
    if (get_field(b, TF32_BIT, 1)) {
        if (type != TMAP_F32 && type != TMAP_F32_FTZ)
            return "tensor map converts to tf32 from a type that is not f32";
        type += TMAP_TF32 - TMAP_F32;
    }
    t->type = (enum tmap_type)type;
    if (part < 100 && t->type >= TMAP_4X16)
        return "tensor map of a packed type, which this part lacks";
    t->element_bytes = types[t->type].bytes;
    const uint32_t interleave = get_field(b, INTERLEAVE_BIT, 2);
    if (interleave > TMAP_INTERLEAVE_32B)
        return "tensor map with an unknown interleave";
    t->interleave = (enum tmap_interleave)interleave;
    if (interleave && t->rank < 3)
        return "interleaved tensor map of rank below 3";
    t->swizzle = (enum tmap_swizzle)get_field(b, SWIZZLE_BIT, 2);
    if (t->swizzle == TMAP_SWIZZLE_128B && part >= 100)
        t->swizzle += get_field(b, 19, 2);
    t->fill = (enum tmap_fill)get_field(b, FILL_BIT, 1);
    t->l2_promotion = get_field(b, L2_BIT, 2);

    const uint32_t steps = get32(b, AT_ELEMENT_STRIDE);
    for (unsigned i = 0; i < TMAP_RANKS; i++) {
        const bool in = i < t->rank;
        t->dim[i] = in ? (uint64_t)get32(b, AT_DIM + 4 * i) + 1 : 1;
        t->box[i] = in ? b[AT_BOX + i] + 1u : 1;
        t->element_stride[i] = in && (i > 0 || interleave) ? (steps >> 3 * i & 7) + 1 : 1;
        t->stride[i] = i == 0 ? t->element_bytes : in ? get_stride(b, i - 1) : 0;
    }
    if (t->address % (interleave == TMAP_INTERLEAVE_32B ? 32 : 16))
        return "tensor map whose global address is not aligned";
    if (t->element_bytes) {
        const uint32_t inner = t->box[0] * t->element_bytes;
        if (inner % 16)                                     // an all-zero map ends here
            return "tensor map whose inner box is not a multiple of 16 bytes";
        if (!interleave && t->swizzle && inner > swizzle_span(t->swizzle))
            return "tensor map whose inner box exceeds the swizzle span";
    }
    return NULL;
}

// ---- tensormap.replace --------------------------------------------------------------------------

const char *tmap_replace(void *map, enum tmap_field field, uint32_t ord, uint64_t value)
{
    uint8_t *b = map;
    const uint32_t word = (uint32_t)value;
    switch (field) {
    case TMAP_GLOBAL_ADDRESS:
        memcpy(b + AT_ADDRESS, &value, 8);
        return NULL;
    case TMAP_RANK:
        if (word >= TMAP_RANKS)
            return "rank - 1 must be 0 to 4";
        put_field(b, RANK_BIT, 3, word);
        return NULL;
    case TMAP_BOX_DIM:
        if (ord >= TMAP_RANKS || word < 1 || word > 256)
            return "box_dim must be 1 to 256, of dimension 0 to 4";
        b[AT_BOX + ord] = (uint8_t)(word - 1);
        return NULL;
    case TMAP_GLOBAL_DIM:
        if (ord >= TMAP_RANKS)
            return "global_dim is of dimension 0 to 4";
        put32(b, AT_DIM + 4 * ord, word - 1);
        return NULL;
    case TMAP_GLOBAL_STRIDE:
        if (ord >= TMAP_RANKS - 1)
            return NULL; // assembles, has no place in the map
        if (value % 16 || value >> 40)
            return "global_stride must be a multiple of 16 below 2^40";
        put_stride(b, ord, value);
        return NULL;
    case TMAP_ELEMENT_STRIDE:
        if (ord >= TMAP_RANKS || word < 1 || word > 8)
            return "element_stride must be 1 to 8, of dimension 0 to 4";
        put_element_stride(b, ord, word);
        return NULL;
    case TMAP_ELEMTYPE:
        if (word >= TMAP_TYPES)
            return "elemtype is not a type";
        put_type(b, (enum tmap_type)word);
        return NULL;
    case TMAP_INTERLEAVE_LAYOUT:
        if (word > TMAP_INTERLEAVE_32B)
            return "interleave_layout must be 0 to 2";
        put_field(b, INTERLEAVE_BIT, 2, word);
        return NULL;
    case TMAP_SWIZZLE_MODE:
        if (word > TMAP_SWIZZLE_128B)
            return "swizzle_mode must be 0 to 3";
        put_field(b, SWIZZLE_BIT, 2, word);
        return NULL;
    case TMAP_FILL_MODE:
        if (word > TMAP_FILL_NAN)
            return "fill_mode must be 0 or 1";
        put_field(b, FILL_BIT, 1, word);
        return NULL;
    case TMAP_SWIZZLE_ATOMICITY:
        if (word > 3)
            return "swizzle_atomicity must be 0 to 3";
        put_field(b, 19, 2, word);
        return NULL;
    }
    return "unknown field";
}
