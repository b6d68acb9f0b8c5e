/*
 * The types that PTX names.
 */
#include <string.h>

#include "form.h"

static const struct {
    const char *name;
    uint16_t bits;
} types[TY_COUNT] = {
    [TY_NONE] = {"", 0}, [TY_PRED] = {"pred", 1}, [TY_B1] = {"b1", 1},
    [TY_B4] = {"b4", 4}, [TY_U4] = {"u4", 4}, [TY_S4] = {"s4", 4},
    [TY_B8] = {"b8", 8}, [TY_U8] = {"u8", 8}, [TY_S8] = {"s8", 8},
    [TY_E4M3] = {"e4m3", 8}, [TY_E5M2] = {"e5m2", 8}, [TY_E2M1] = {"e2m1", 4},
    [TY_E2M3] = {"e2m3", 6}, [TY_E3M2] = {"e3m2", 6}, [TY_UE8M0] = {"ue8m0", 8},
    [TY_UE4M3] = {"ue4m3", 8},
    [TY_B16] = {"b16", 16}, [TY_U16] = {"u16", 16}, [TY_S16] = {"s16", 16},
    [TY_F16] = {"f16", 16}, [TY_BF16] = {"bf16", 16}, [TY_E4M3X2] = {"e4m3x2", 16},
    [TY_E5M2X2] = {"e5m2x2", 16}, [TY_E2M3X2] = {"e2m3x2", 16}, [TY_E3M2X2] = {"e3m2x2", 16},
    [TY_UE8M0X2] = {"ue8m0x2", 16}, [TY_E2M1X2] = {"e2m1x2", 8},
    [TY_B32] = {"b32", 32}, [TY_U32] = {"u32", 32}, [TY_S32] = {"s32", 32},
    [TY_F32] = {"f32", 32}, [TY_TF32] = {"tf32", 32}, [TY_F16X2] = {"f16x2", 32},
    [TY_BF16X2] = {"bf16x2", 32}, [TY_U16X2] = {"u16x2", 32}, [TY_S16X2] = {"s16x2", 32},
    [TY_E4M3X4] = {"e4m3x4", 32}, [TY_E5M2X4] = {"e5m2x4", 32}, [TY_E2M3X4] = {"e2m3x4", 32},
    [TY_E3M2X4] = {"e3m2x4", 32}, [TY_E2M1X4] = {"e2m1x4", 16},
    [TY_B64] = {"b64", 64}, [TY_U64] = {"u64", 64}, [TY_S64] = {"s64", 64},
    [TY_F64] = {"f64", 64}, [TY_F32X2] = {"f32x2", 64},
    [TY_B128] = {"b128", 128}, [TY_B1024] = {"b1024", 1024},
};

unsigned type_bits(enum type t)
{
    return t < TY_COUNT ? types[t].bits : 0;
}

const char *type_name(enum type t)
{
    return t < TY_COUNT ? types[t].name : "?";
}

bool type_signed(enum type t)
{
    return t == TY_S4 || t == TY_S8 || t == TY_S16 || t == TY_S32 || t == TY_S64 || t == TY_S16X2;
}

bool type_float(enum type t)
{
    return t == TY_F16 || t == TY_BF16 || t == TY_F32 || t == TY_TF32 || t == TY_F64 ||
           t == TY_F16X2 || t == TY_BF16X2 || t == TY_F32X2;
}

enum type type_find(const char *name, size_t len)
{
    for (unsigned t = 1; t < TY_COUNT; t++)
        if (types[t].name[0] == name[0] && !strncmp(types[t].name, name, len) &&
            !types[t].name[len])
            return (enum type)t;
    return TY_NONE;
}
