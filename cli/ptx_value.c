/*
 * The element types of a PTX case: bytes to numbers and back.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ptx_case.h"

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [PTX_U8] = {"u8", 1}, [PTX_S8] = {"s8", 1}, [PTX_U16] = {"u16", 2}, [PTX_S16] = {"s16", 2},
    [PTX_U32] = {"u32", 4}, [PTX_S32] = {"s32", 4}, [PTX_U64] = {"u64", 8}, [PTX_S64] = {"s64", 8},
    [PTX_F16] = {"f16", 2}, [PTX_BF16] = {"bf16", 2}, [PTX_F32] = {"f32", 4},
    [PTX_F64] = {"f64", 8},
};

enum { TYPES = sizeof types / sizeof *types };

size_t ptx_type_size(enum ptx_type type)
{
    return types[type].size;
}

const char *ptx_type_name(enum ptx_type type)
{
    return types[type].name;
}

bool ptx_type_find(const char *name, enum ptx_type *type)
{
    for (unsigned t = 0; t < TYPES; t++)
        if (!strcmp(types[t].name, name)) {
            *type = (enum ptx_type)t;
            return true;
        }
    return false;
}

/* A 16-bit format with `fraction` bits below the leading one: 10 for f16, 7 for bf16. */
static double expand16(unsigned bits, int fraction)
{
    const int exponents = 15 - fraction, bias = (1 << (exponents - 1)) - 1;
    const int exponent = (int)(bits >> fraction) & ((1 << exponents) - 1);
    const unsigned m = bits & ((1u << fraction) - 1);
    double d;

    if (exponent == (1 << exponents) - 1)
        d = m ? (double)NAN : (double)INFINITY;
    else if (exponent)
        d = ldexp((double)(m | 1u << fraction), exponent - bias - fraction);
    else
        d = ldexp((double)m, 1 - bias - fraction);
    return bits & 0x8000 ? -d : d;
}

static unsigned round16(double d, int fraction)
{
    const int exponents = 15 - fraction, bias = (1 << (exponents - 1)) - 1;
    const unsigned sign = signbit(d) ? 0x8000 : 0;
    const unsigned infinity = ((1u << exponents) - 1) << fraction;
    int e;

    if (isnan(d))
        return 0x7fff;
    if (d == 0)
        return sign;
    (void)frexp(d, &e);                 /* |d| in [2^(e-1), 2^e) */
    if (e - 1 < 1 - bias)
        e = 2 - bias;                   /* subnormals have the smallest normal's steps */

    /* in units of the last place, ties to even; a carry moves into the exponent by itself */
    const double units = nearbyint(ldexp(fabs(d), fraction - (e - 1)));
    const double code = units + (double)((e - 1 + bias - 1) * (1 << fraction));

    return sign | (code >= infinity ? infinity : (unsigned)code);
}

struct ptx_number ptx_element(enum ptx_type type, const void *bytes, size_t index)
{
    const unsigned char *p = (const unsigned char *)bytes + index * types[type].size;
    uint64_t u = 0;
    float f;
    double d;

    switch (type) {
    case PTX_F32:
        memcpy(&f, p, sizeof f);
        return (struct ptx_number){.real = true, .d = (double)f};
    case PTX_F64:
        memcpy(&d, p, sizeof d);
        return (struct ptx_number){.real = true, .d = d};
    default:
        memcpy(&u, p, types[type].size);
        break;
    }
    switch (type) {
    case PTX_F16: return (struct ptx_number){.real = true, .d = expand16((unsigned)u, 10)};
    case PTX_BF16: return (struct ptx_number){.real = true, .d = expand16((unsigned)u, 7)};
    case PTX_S8: return (struct ptx_number){.i = (int8_t)u};
    case PTX_S16: return (struct ptx_number){.i = (int16_t)u};
    case PTX_S32: return (struct ptx_number){.i = (int32_t)u};
    default: return (struct ptx_number){.i = (int64_t)u};
    }
}

void ptx_element_store(enum ptx_type type, struct ptx_number n, void *bytes, size_t index)
{
    unsigned char *p = (unsigned char *)bytes + index * types[type].size;
    const double limit = 9223372036854775808.0;
    const double d = n.real ? n.d : (double)n.i;
    const float f = (float)d;
    uint64_t u = (uint64_t)(!n.real ? n.i : d >= -limit && d < limit ? (int64_t)d : 0);

    switch (type) {
    case PTX_F32: memcpy(p, &f, sizeof f); return;
    case PTX_F64: memcpy(p, &d, sizeof d); return;
    case PTX_F16: u = round16(d, 10); break;
    case PTX_BF16: u = round16(d, 7); break;
    default: break;
    }
    memcpy(p, &u, types[type].size);
}

void ptx_case_print(enum ptx_type type, const void *bytes, size_t index, char *out, size_t size)
{
    const struct ptx_number n = ptx_element(type, bytes, index);

    if (n.real)
        snprintf(out, size, "%.9g", n.d);
    else if (type == PTX_U64)
        snprintf(out, size, "%" PRIu64, (uint64_t)n.i);
    else
        snprintf(out, size, "%" PRId64, n.i);
}
