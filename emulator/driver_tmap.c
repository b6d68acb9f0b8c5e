// cuTensorMap*: tensor maps on the host. The rules are in tmap.c.
#include "driver.h"

#include <stdio.h>

#include "tmap.h"

static CUresult refuse(struct context *ctx, const char *call, const char *why)
{
    char report[256];
    snprintf(report, sizeof report, "%s: %s", call, why);
    driver_report(ctx, report);
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult encode(struct context *ctx, CUtensorMap *map, const struct tmap_request *request)
{
    if (!map) // the driver does not look at its alignment: only a kernel's copy counts
        return refuse(ctx, "cuTensorMapEncodeTiled", "the map is null");
    const char *why = tmap_encode(request, driver_part_is_b200() ? 100 : 90, map);
    return why ? refuse(ctx, "cuTensorMapEncodeTiled", why) : CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *dim, const cuuint64_t *stride,
                                const cuuint32_t *box, const cuuint32_t *element_stride,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    const struct tmap_request request = {
        .type = (uint32_t)type,
        .rank = rank,
        .address = (uintptr_t)address,
        .dim = dim,
        .stride = stride,
        .box = box,
        .element_stride = element_stride,
        .interleave = (uint32_t)interleave,
        .swizzle = (uint32_t)swizzle,
        .l2_promotion = (uint32_t)promotion,
        .fill = (uint32_t)fill,
    };
    IN_HEALTHY(encode(ctx, map, &request));
}

static CUresult unsupported(struct context *ctx, const char *call)
{
    char report[128];
    snprintf(report, sizeof report, "%s is not implemented: the machine has tiled copies only",
             call);
    driver_report(ctx, report);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                 void *address, const cuuint64_t *dim, const cuuint64_t *stride,
                                 const int *lower, const int *upper, cuuint32_t channels,
                                 cuuint32_t pixels, const cuuint32_t *element_stride,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    (void)map, (void)type, (void)rank, (void)address, (void)dim, (void)stride, (void)lower,
        (void)upper, (void)channels;
    (void)pixels, (void)element_stride, (void)interleave, (void)swizzle, (void)promotion,
        (void)fill;
    IN_HEALTHY(unsupported(ctx, "cuTensorMapEncodeIm2col"));
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                     void *address, const cuuint64_t *dim, const cuuint64_t *stride,
                                     int lower, int upper, cuuint32_t channels, cuuint32_t pixels,
                                     const cuuint32_t *element_stride,
                                     CUtensorMapInterleave interleave,
                                     CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    (void)map, (void)type, (void)rank, (void)address, (void)dim, (void)stride, (void)lower,
        (void)upper, (void)channels;
    (void)pixels, (void)element_stride, (void)interleave, (void)mode, (void)swizzle,
        (void)promotion, (void)fill;
    IN_HEALTHY(unsupported(ctx, "cuTensorMapEncodeIm2colWide"));
}

static CUresult replace(struct context *ctx, CUtensorMap *map, uint64_t address)
{
    if (!map)
        return refuse(ctx, "cuTensorMapReplaceAddress", "the map is null");
    if (address % 16 || address >> 57)
        return refuse(ctx, "cuTensorMapReplaceAddress",
                      "the address is not 16-byte aligned and below 2^57");
    tmap_replace(map, TMAP_GLOBAL_ADDRESS, 0, address);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    IN_HEALTHY(replace(ctx, map, (uintptr_t)address));
}
