/* tmap.c -- tensor maps. */
#include "tmap.h"

#include <inttypes.h>
#include <string.h>

enum { SWIZZLE_BYTES = 128, ALIGNMENT = 16 };

/* TMA only copies, so a type of the same size that it knows would do; the true one lets a debugger
 * show the matrix. */
static CUtensorMapDataType data_type(enum ptxmm_type type)
{
    switch (type) {
    case PTXMM_BF16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case PTXMM_F16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case PTXMM_F32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    }
}

enum ptxmm_status tmap_encode(const struct driver *driver, const struct extent *extent,
                              enum ptxmm_type type, uint32_t box_rows,
                              CUtensorMapL2promotion promotion, const char *operand,
                              struct ptxmm_tensor_map *map, struct ptxmm_error *error)
{
    uint64_t bytes = (uint64_t)extent->type_bits / 8;
    // K = 0 and so on: a dimension may not be 0, and nothing of it is read.
    cuuint64_t dims[3] = { extent->inner > 0 ? (cuuint64_t)extent->inner : 1,
                           extent->outer > 0 ? (cuuint64_t)extent->outer : 1,
                           (cuuint64_t)extent->matrices };
    // A single row has no next one: its pitch is what the driver accepts and no rows overlap with.
    // Nor has a single matrix.
    cuuint64_t pitch = extent->outer > 1 && extent->inner > 0 ? (cuuint64_t)extent->ld * bytes
                                                              : dims[0] * bytes;
    pitch = (pitch + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    cuuint64_t apart = extent->matrices > 1 && extent->inner > 0
                           ? (cuuint64_t)extent->apart * bytes
                           : pitch;
    cuuint64_t strides[2] = { pitch, apart };
    cuuint32_t box[3] = { (cuuint32_t)(SWIZZLE_BYTES / bytes), box_rows, 1 };
    cuuint32_t element_strides[3] = { 1, 1, 1 };
    _Alignas(128) CUtensorMap encoded;
    CUresult result = driver->TensorMapEncodeTiled(
        &encoded, data_type(type), 3, NULL, dims, strides, box, element_strides,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, promotion,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result)
        return driver_failed(driver, error, result,
                             "cuTensorMapEncodeTiled(%s: dims %" PRIu64 " x %" PRIu64 " x %" PRIu64
                             ", strides %" PRIu64 " and %" PRIu64 " bytes, box %u x %u)",
                             operand, (uint64_t)dims[0], (uint64_t)dims[1], (uint64_t)dims[2],
                             (uint64_t)pitch, (uint64_t)apart, box[0], box[1]);
    memcpy(map, &encoded, sizeof *map);
    return PTXMM_OK;
}

void tmap_mend_small(const struct extent *extent, struct ptxmm_tensor_map *map)
{
    enum { SMALL = 128 * 1024 };
    int64_t rows = extent->outer > 0 ? extent->outer - 1 : 0, others = extent->matrices - 1;
    int dense = (rows == 0 || extent->ld == extent->inner) &&
                (others == 0 || extent->apart == (rows + 1) * extent->inner);
    // More rows or matrices than that, or a longer way between two, cannot be a small tensor, and
    // their product could overflow.
    if (!dense && rows < SMALL && extent->ld < SMALL && extent->inner < SMALL && others < SMALL &&
        extent->apart < SMALL &&
        (others * extent->apart + rows * extent->ld + extent->inner) * extent->type_bits / 8 <
            SMALL)
        map->opaque[1] &= ~(UINT64_C(1) << 21);
}
