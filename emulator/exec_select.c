/*
 * Moves, comparisons, selections.
 */
#include "exec_loop.h"

#include "floats.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- mov ---- */

static enum flow move_pred(struct warp *w, const struct inst *in, uint32_t mask)
{
    warp_set_pred(w, &in->o[0], mask, warp_pred(w, &in->o[1]), warp_defined(w, &in->o[1]));
    return FLOW_NEXT;
}

/* Packs: the vector's low element first. */
static enum flow move_pack(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct operand *to = &in->o[0], *from = &in->o[1];
    const unsigned bits = type_bits((enum type)in->type[0]), width = bits / from->n;
    const struct span s = span_of(mask);
    uint32_t defined = UINT32_MAX;

    if (bits <= 64 && from->n == 2 && bits >= 32) {     /* by far the most frequent */
        const struct program *program = w->grid->program;
        uint32_t ta[LANES], tb[LANES];
        const uint32_t *const a = row32(w, operand_element(program, from, 0), ta, s, &defined);
        const uint32_t *const b = row32(w, operand_element(program, from, 1), tb, s, &defined);
        if (bits == 32) {
            uint32_t d[LANES];
            EACH_LANE(s, d[l] = (a[l] & 0xffff) | b[l] << 16);
            put32(w, to, s, d, defined);
        } else {
            uint64_t d[LANES];
            EACH_LANE(s, d[l] = a[l] | (uint64_t)b[l] << 32);
            put64(w, to, s, d, defined);
        }
        return FLOW_NEXT;
    }
    uint64_t value[2][LANES] = { { 0 } };
    for (unsigned i = 0; i < from->n; i++) {
        const struct operand *e = operand_element(w->grid->program, from, i);
        uint64_t *const d = value[i * width / 64];
        const unsigned shift = i * width % 64;
        if (width == 64) {
            uint64_t t[LANES];
            const uint64_t *const a = row64(w, e, t, s, &defined);
            EACH_LANE(s, d[l] = a[l]);
        } else {
            uint32_t t[LANES];
            const uint32_t *const a = row32(w, e, t, s, &defined);
            const uint32_t keep = UINT32_MAX >> (32 - width);
            EACH_LANE(s, d[l] |= (uint64_t)(a[l] & keep) << shift);
        }
    }
    if (bits <= 32) {
        uint32_t d[LANES];
        EACH_LANE(s, d[l] = (uint32_t)value[0][l]);
        put32(w, to, s, d, defined);
        return FLOW_NEXT;
    }
    put64(w, to, s, value[0], defined);
    if (bits == 128) {
        struct operand high = *to;
        high.reg++;
        put64(w, &high, s, value[1], defined);
    }
    return FLOW_NEXT;
}

/* Unpacks, likewise. */
static enum flow move_unpack(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct operand *to = &in->o[0], *from = &in->o[1];
    const unsigned bits = type_bits((enum type)in->type[0]), width = bits / to->n;
    const struct span s = span_of(mask);
    uint64_t value[2][LANES];
    uint32_t defined = UINT32_MAX;

    if (bits <= 32) {
        uint32_t t[LANES];
        const uint32_t *const a = row32(w, from, t, s, &defined);
        EACH_LANE(s, value[0][l] = a[l]);
    } else {
        for (unsigned half = 0; half < bits / 64; half++) {
            struct operand part = *from;
            uint64_t t[LANES];
            part.reg += half;
            const uint64_t *const a = row64(w, &part, t, s, &defined);
            EACH_LANE(s, value[half][l] = a[l]);
        }
    }
    for (unsigned i = 0; i < to->n; i++) {
        const struct operand *e = operand_element(w->grid->program, to, i);
        const uint64_t *const a = value[i * width / 64];
        const unsigned shift = i * width % 64;
        if (width == 64) {
            put64(w, e, s, a, defined);
        } else {
            uint32_t d[LANES];
            const uint32_t keep = UINT32_MAX >> (32 - width);
            EACH_LANE(s, d[l] = (uint32_t)(a[l] >> shift) & keep);
            put32(w, e, s, d, defined);
        }
    }
    return FLOW_NEXT;
}

static enum flow move_b128(struct warp *w, const struct inst *in, uint32_t mask)
{
    for (unsigned half = 0; half < 2; half++) {
        struct operand to = in->o[0], from = in->o[1];
        if (from.kind == OPND_REG)
            from.reg += half;
        to.reg += half;
        for (uint32_t left = mask; left; left &= left - 1) {
            const unsigned l = (unsigned)__builtin_ctz(left);
            const uint64_t v = from.kind == OPND_REG || !half ? warp_value(w, &from, l) : 0;
            warp_set(w, &to, l, v, warp_defined(w, &from) >> l & 1);
        }
    }
    return FLOW_NEXT;
}

enum flow op_mov(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->type[0] == TY_PRED)
        return move_pred(w, in, mask);
    if (in->o[0].kind == OPND_VEC)
        return move_unpack(w, in, mask);
    if (in->o[1].kind == OPND_VEC)
        return move_pack(w, in, mask);
    switch (type_bits((enum type)in->type[0])) {
    case 128: return move_b128(w, in, mask);
    case 64: UNARY64(a[l]);
    case 16: UNARY32(a[l] & 0xffff);
    default: UNARY32(a[l]);
    }
}

/* ---- selections: only the source that is taken need be defined ---- */

static enum flow choose(struct warp *w, const struct inst *in, uint32_t mask, uint32_t first,
                        uint32_t defined)
{
    const struct span s = span_of(mask);
    uint32_t da = UINT32_MAX, db = UINT32_MAX;

    if (type_bits((enum type)in->type[0]) == 64) {
        uint64_t ta[LANES], tb[LANES], d[LANES];
        const uint64_t *a = row64(w, &in->o[1], ta, s, &da), *b = row64(w, &in->o[2], tb, s, &db);
        EACH_LANE(s, d[l] = first >> l & 1 ? a[l] : b[l]);
        put64(w, &in->o[0], s, d, defined & ((first & da) | (~first & db)));
    } else {
        uint32_t ta[LANES], tb[LANES], d[LANES];
        const uint32_t *a = row32(w, &in->o[1], ta, s, &da), *b = row32(w, &in->o[2], tb, s, &db);
        EACH_LANE(s, d[l] = first >> l & 1 ? a[l] : b[l]);
        put32(w, &in->o[0], s, d, defined & ((first & da) | (~first & db)));
    }
    return FLOW_NEXT;
}

enum flow op_selp(struct warp *w, const struct inst *in, uint32_t mask)
{
    return choose(w, in, mask, warp_pred(w, &in->o[3]), warp_defined(w, &in->o[3]));
}

enum flow op_slct(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool is_float = in->type[1] == TY_F32;
    uint32_t first = 0;

    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        const uint32_t c = (uint32_t)warp_value(w, &in->o[3], l);
        const bool take = is_float ? float_of(in->flags & INST_FTZ ? flush32(c) : c) >= 0
                                   : (int32_t)c >= 0;
        first |= (uint32_t)take << l;
    }
    return choose(w, in, mask, first, warp_defined(w, &in->o[3]));
}

/* ---- comparisons ---- */

/* Bit l: is row[l], all ones or 0, all ones? */
static uint32_t bits_of(const uint32_t row[LANES])
{
    uint32_t bits = 0;

#ifdef __SSE2__
    for (unsigned l = 0; l < LANES; l += 4)
        bits |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(
                    _mm_loadu_si128((const __m128i *)&row[l]))) << l;
#else
    for (unsigned l = 0; l < LANES; l++)
        bits |= (row[l] & 1) << l;
#endif
    return bits;
}

#define COMPARE_ROWS(type) do { \
        switch (cmp) { \
        case CMP_EQ: EACH_LANE(s, holds[l] = -(uint32_t)((type)a[l] == (type)b[l])); break; \
        case CMP_NE: EACH_LANE(s, holds[l] = -(uint32_t)((type)a[l] != (type)b[l])); break; \
        case CMP_LT: EACH_LANE(s, holds[l] = -(uint32_t)((type)a[l] < (type)b[l])); break; \
        case CMP_LE: EACH_LANE(s, holds[l] = -(uint32_t)((type)a[l] <= (type)b[l])); break; \
        case CMP_GT: EACH_LANE(s, holds[l] = -(uint32_t)((type)a[l] > (type)b[l])); break; \
        default:     EACH_LANE(s, holds[l] = -(uint32_t)((type)a[l] >= (type)b[l])); break; \
        } \
        hit = bits_of(holds); \
    } while (0)

static bool compare_double(enum compare cmp, double a, double b)
{
    const bool unordered = a != a || b != b;

    switch (cmp) {
    case CMP_EQ: return a == b;
    case CMP_NE: return a != b && !unordered;
    case CMP_LT: return a < b;
    case CMP_LE: return a <= b;
    case CMP_GT: return a > b;
    case CMP_GE: return a >= b;
    case CMP_EQU: return a == b || unordered;
    case CMP_NEU: return a != b;
    case CMP_LTU: return a < b || unordered;
    case CMP_LEU: return a <= b || unordered;
    case CMP_GTU: return a > b || unordered;
    case CMP_GEU: return a >= b || unordered;
    case CMP_NUM: return !unordered;
    case CMP_NAN: return unordered;
    case CMP_NONE: break;
    }
    return false;
}

/* The value of a floating-point encoding; every format is exact in double. */
static double value_of(enum type type, uint64_t bits, bool ftz)
{
    switch (type) {
    case TY_F64: return double_of(bits);
    case TY_F32: return float_of(ftz ? flush32((uint32_t)bits) : (uint32_t)bits);
    case TY_F16: case TY_F16X2: return half_value(ftz ? flush16((uint16_t)bits) : (uint16_t)bits);
    default: return float_of((uint32_t)bits << 16);
    }
}

/* Lanes where a cmp b holds; of packed types in the half that starts at bit `shift`. */
static uint32_t compare(struct warp *w, const struct inst *in, uint32_t mask, enum type type,
                        const struct operand *oa, const struct operand *ob, unsigned shift)
{
    const struct span s = span_of(mask);
    const enum compare cmp = (enum compare)in->cmp;
    uint32_t hit = 0, ignored = 0, holds[LANES] = { 0 };

    if (type_float(type)) {
        const bool ftz = in->flags & INST_FTZ;
        for (uint32_t left = mask; left; left &= left - 1) {
            const unsigned l = (unsigned)__builtin_ctz(left);
            const double x = value_of(type, warp_value(w, oa, l) >> shift, ftz);
            const double y = value_of(type, warp_value(w, ob, l) >> shift, ftz);
            hit |= (uint32_t)compare_double(cmp, x, y) << l;
        }
    } else if (type_bits(type) == 64) {
        uint64_t ta[LANES], tb[LANES];
        const uint64_t *a = row64(w, oa, ta, s, &ignored), *b = row64(w, ob, tb, s, &ignored);
        if (type_signed(type))
            COMPARE_ROWS(int64_t);
        else
            COMPARE_ROWS(uint64_t);
    } else {
        uint32_t ta[LANES], tb[LANES];
        const uint32_t *a = row32(w, oa, ta, s, &ignored), *b = row32(w, ob, tb, s, &ignored);
        if (type == TY_S32)
            COMPARE_ROWS(int32_t);
        else if (type == TY_S16)
            COMPARE_ROWS(int16_t);
        else if (type_bits(type) == 16)
            COMPARE_ROWS(uint16_t);
        else
            COMPARE_ROWS(uint32_t);
    }
    return hit;
}

static uint32_t combine(const struct inst *in, uint32_t hit, uint32_t with)
{
    switch (in->sub) {
    case SUB_AND: return hit & with;
    case SUB_OR: return hit | with;
    case SUB_XOR: return hit ^ with;
    default: return hit;
    }
}

enum flow op_setp(struct warp *w, const struct inst *in, uint32_t mask)
{
    const enum type type = (enum type)in->type[0];
    const bool packed = type == TY_F16X2 || type == TY_BF16X2;
    const uint32_t known = warp_defined(w, &in->o[2]) & warp_defined(w, &in->o[3]);
    uint32_t with = 0, with_known = UINT32_MAX;

    if (in->sub != SUB_NONE) {
        with = warp_pred(w, &in->o[4]);
        with_known = warp_defined(w, &in->o[4]);
    }
    const uint32_t hit = compare(w, in, mask, type, &in->o[2], &in->o[3], 0);
    const uint32_t other = packed ? compare(w, in, mask, type, &in->o[2], &in->o[3], 16) : ~hit;
    const enum suboperation op = (enum suboperation)in->sub;
    warp_set_pred(w, &in->o[0], mask, combine(in, hit, with),
                  logic_defined(op, hit, known, with, with_known));
    warp_set_pred(w, &in->o[1], mask, combine(in, other, with),
                  logic_defined(op, other, known, with, with_known));
    return FLOW_NEXT;
}

enum flow op_set(struct warp *w, const struct inst *in, uint32_t mask)
{
    const enum type to = (enum type)in->type[0], type = (enum type)in->type[1];
    const bool packed = to == TY_F16X2 || to == TY_BF16X2;
    uint32_t defined = warp_defined(w, &in->o[1]) & warp_defined(w, &in->o[2]);
    uint32_t with = 0;
    uint32_t one;

    switch (to) {
    case TY_F32: one = 0x3f800000; break;
    case TY_F16: case TY_F16X2: one = 0x3c00; break;
    case TY_BF16: case TY_BF16X2: one = 0x3f80; break;
    case TY_U16: case TY_S16: one = 0xffff; break;
    default: one = UINT32_MAX; break;
    }
    if (in->sub != SUB_NONE) {
        with = warp_pred(w, &in->o[3]);
        defined &= warp_defined(w, &in->o[3]);
    }
    const uint32_t hit = combine(in, compare(w, in, mask, type, &in->o[1], &in->o[2], 0), with);
    const uint32_t high = packed
        ? combine(in, compare(w, in, mask, type, &in->o[1], &in->o[2], 16), with) : 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        const uint32_t d = (hit >> l & 1 ? one : 0) | (high >> l & 1 ? one << 16 : 0);
        warp_set(w, &in->o[0], l, d, defined >> l & 1);
    }
    return FLOW_NEXT;
}
