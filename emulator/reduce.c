#include "reduce.h"

#include <string.h>

#include "floats.h"

enum reduce_type reduce_of_map(enum tmap_type type)
{
    switch (type) {
    case TMAP_U32: return REDUCE_U32;
    case TMAP_S32: return REDUCE_S32;
    case TMAP_U64: return REDUCE_U64;
    case TMAP_S64: return REDUCE_S64;
    case TMAP_F16: return REDUCE_F16;
    case TMAP_BF16: return REDUCE_BF16;
    case TMAP_F32: return REDUCE_F32;
    case TMAP_TF32: return REDUCE_F32;
    case TMAP_F32_FTZ: return REDUCE_F32_FTZ;
    case TMAP_TF32_FTZ: return REDUCE_F32_FTZ;
    case TMAP_F64: return REDUCE_F64;
    default: return REDUCE_NONE;
    }
}

enum reduce_type reduce_of_type(enum type type)
{
    switch (type) {
    case TY_B32: case TY_U32: return REDUCE_U32;
    case TY_S32: return REDUCE_S32;
    case TY_B64: case TY_U64: return REDUCE_U64;
    case TY_S64: return REDUCE_S64;
    case TY_F16: return REDUCE_F16;
    case TY_BF16: return REDUCE_BF16;
    case TY_F32: return REDUCE_F32;
    case TY_F64: return REDUCE_F64;
    default: return REDUCE_NONE;
    }
}

unsigned reduce_bytes(enum reduce_type type)
{
    switch (type) {
    case REDUCE_F16: case REDUCE_BF16: return 2;
    case REDUCE_U64: case REDUCE_S64: case REDUCE_F64: return 8;
    default: return 4;
    }
}

bool reduce_legal(enum suboperation op, enum reduce_type type)
{
    const bool integer = type <= REDUCE_S64;

    switch (op) {
    case SUB_ADD:
        return type != REDUCE_S64 && type != REDUCE_F64 && type != REDUCE_NONE;
    case SUB_MIN: case SUB_MAX:
        return integer || type == REDUCE_F16 || type == REDUCE_BF16;
    case SUB_INC: case SUB_DEC:
        return type == REDUCE_U32;
    case SUB_AND: case SUB_OR: case SUB_XOR:
        return integer;
    default:
        return false;
    }
}

static uint32_t add_f32(uint32_t a, uint32_t b)
{
    const uint32_t sum = bits_of_float(float_of(a) + float_of(b));

    return is_nan32(sum) ? NAN_F32 : sum;
}

/* f32 holds the sum of two 16-bit floats well enough for one more rounding. */
static uint64_t add_16(struct format format, uint64_t a, uint64_t b)
{
    return format_round(format, format_value(format, a) + format_value(format, b), RND_RN);
}

/* Of NaN and a number the number; -0 is less than +0. */
static uint64_t least_16(bool is_bf16, bool most, uint16_t a, uint16_t b)
{
    const bool nan_a = is_bf16 ? is_nan_bf16(a) : is_nan16(a);
    const bool nan_b = is_bf16 ? is_nan_bf16(b) : is_nan16(b);
    const int x = a & 0x8000 ? -(a & 0x7fff) - 1 : a, y = b & 0x8000 ? -(b & 0x7fff) - 1 : b;

    if (nan_a || nan_b)
        return nan_a && nan_b ? NAN_F16 : nan_a ? b : a;
    return (x < y) != most ? a : b;
}

static uint64_t least(enum reduce_type type, bool most, uint64_t a, uint64_t b)
{
    bool less;

    switch (type) {
    case REDUCE_F16: case REDUCE_BF16:
        return least_16(type == REDUCE_BF16, most, (uint16_t)a, (uint16_t)b);
    case REDUCE_S32:
        less = (int32_t)a < (int32_t)b;
        break;
    case REDUCE_S64:
        less = (int64_t)a < (int64_t)b;
        break;
    default:
        less = a < b;
        break;
    }
    return less != most ? a : b;
}

uint64_t reduce_element(enum suboperation op, enum reduce_type type, uint64_t old,
                        uint64_t operand)
{
    switch (op) {
    case SUB_ADD:
        switch (type) {
        case REDUCE_F16:
            return add_16(format_f16, old, operand);
        case REDUCE_BF16:
            return add_16(format_bf16, old, operand);
        case REDUCE_F32:
            return add_f32((uint32_t)old, (uint32_t)operand);
        case REDUCE_F32_FTZ:
            return flush32(add_f32(flush32((uint32_t)old), flush32((uint32_t)operand)));
        case REDUCE_F64:
            return bits_of_double(double_of(old) + double_of(operand));
        default:
            return old + operand;
        }
    case SUB_MIN:
        return least(type, false, old, operand);
    case SUB_MAX:
        return least(type, true, old, operand);
    case SUB_INC:
        return old >= operand ? 0 : old + 1;
    case SUB_DEC:
        return old == 0 || old > operand ? operand : old - 1;
    case SUB_AND:
        return old & operand;
    case SUB_OR:
        return old | operand;
    case SUB_XOR:
        return old ^ operand;
    default:
        return old;
    }
}

void reduce_bytes_at(enum suboperation op, enum reduce_type type, uint8_t *memory,
                     const uint8_t *operand, size_t count)
{
    const unsigned bytes = reduce_bytes(type);

    for (size_t i = 0; i < count; i++) {
        uint64_t old = 0, x = 0, r;

        memcpy(&old, memory + i * bytes, bytes);
        memcpy(&x, operand + i * bytes, bytes);
        r = reduce_element(op, type, old, x);
        memcpy(memory + i * bytes, &r, bytes);
    }
}
