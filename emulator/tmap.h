// Tensor maps: the 128 opaque bytes that cuTensorMapEncodeTiled writes and TMA reads.
//
//   byte  0        8       12 16 20 24  28        32 .. 48  52..54     55..59   64     72
//         address  word 8  strides >> 4 strides,  dims - 1  element    box - 1  box    period of
//         64 bit   below   low 32 bits  high 4    5 x 32    strides    5 x 8    bytes  the swizzle
//                                       bits each           - 1, 3 bits each
//
//   word 8:  31 ..... 19|18 17| 16 | 15 |14 13|12 11|10 ... 7|6 5 4|3 ... 0
//                       | L2  |tf32|fill|swizz|inter| element|rank |
//                       |promo|    |    |     |     | type   | - 1 |
//
// The element type is the device's numbering (tensormap.replace), not the API's: bf16 is 10 here
// and 9 there.
#ifndef EMU_TMAP_H
#define EMU_TMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TMAP_BYTES = 128, TMAP_RANKS = 5 };

// Element types, device numbering.
enum tmap_type {
    TMAP_U8,
    TMAP_U16,
    TMAP_U32,
    TMAP_S32,
    TMAP_U64,
    TMAP_S64,
    TMAP_F16,
    TMAP_F32,
    TMAP_F32_FTZ,
    TMAP_F64,
    TMAP_BF16,
    TMAP_TF32,
    TMAP_TF32_FTZ,
    TMAP_4X16,
    TMAP_4X16_P64,
    TMAP_6X16_P32, // packed 4- and 6-bit types of sm_100
    TMAP_TYPES
};

enum tmap_swizzle {
    TMAP_SWIZZLE_NONE, TMAP_SWIZZLE_32B, TMAP_SWIZZLE_64B, TMAP_SWIZZLE_128B,
    TMAP_SWIZZLE_128B_ATOM_32B, TMAP_SWIZZLE_128B_ATOM_32B_FLIP_8B, TMAP_SWIZZLE_128B_ATOM_64B,
};

enum tmap_interleave { TMAP_INTERLEAVE_NONE, TMAP_INTERLEAVE_16B, TMAP_INTERLEAVE_32B };
enum tmap_fill { TMAP_FILL_ZERO, TMAP_FILL_NAN };

struct tmap {
    uint64_t address;                       // global address of element 0
    uint32_t rank;                          // 1..5
    enum tmap_type type;
    uint32_t element_bytes;                 // 1, 2, 4, 8; 0 for the packed types
    uint64_t dim[TMAP_RANKS];               // elements, dimension 0 contiguous; 1 beyond the rank
    uint64_t stride[TMAP_RANKS]; // bytes; stride[0] is the element's, stride[i] that of dimension i
    uint32_t box[TMAP_RANKS];               // elements; 1 beyond the rank
    uint32_t element_stride[TMAP_RANKS];
    enum tmap_interleave interleave;
    enum tmap_swizzle swizzle;
    uint32_t l2_promotion; // 0 none, 1 64 B, 2 128 B, 3 256 B: no effect on results
    enum tmap_fill fill;
};

// Arguments of cuTensorMapEncodeTiled, in the API's numbering.
struct tmap_request {
    uint32_t type;                          // CUtensorMapDataType
    uint32_t rank;
    uint64_t address;
    const uint64_t *dim;                    // [rank]
    const uint64_t *stride;                 // [rank - 1], bytes
    const uint32_t *box;                    // [rank]
    const uint32_t *element_stride;         // [rank]
    uint32_t interleave, swizzle, l2_promotion, fill;
};

// Builds the 128 bytes. NULL on success, else the broken rule in words (the driver answers
// INVALID_VALUE). `part` is 90 or 100: the newer part takes the packed types and the wide-atom
// swizzles.
const char *tmap_encode(const struct tmap_request *request, unsigned part, void *map);
// The same checks without the map.
const char *tmap_check(const struct tmap_request *request, unsigned part);

// Reads the bytes. NULL on success, else what is wrong (the TMA unit answers ILLEGAL_INSTRUCTION).
const char *tmap_decode(const void *map, unsigned part, struct tmap *t);

// tensormap.replace: writes one field of the bytes. NULL on success, else why the value cannot be.
enum tmap_field {
    TMAP_GLOBAL_ADDRESS,
    TMAP_RANK,
    TMAP_BOX_DIM,
    TMAP_GLOBAL_DIM,
    TMAP_GLOBAL_STRIDE,
    TMAP_ELEMENT_STRIDE,
    TMAP_ELEMTYPE,
    TMAP_INTERLEAVE_LAYOUT,
    TMAP_SWIZZLE_MODE,
    TMAP_FILL_MODE,
    TMAP_SWIZZLE_ATOMICITY,
};
const char *tmap_replace(void *map, enum tmap_field field, uint32_t ord, uint64_t value);

uint32_t tmap_type_bytes(enum tmap_type type);              // 0 for the packed types
const char *tmap_type_name(enum tmap_type type);            // "bf16"

#endif
