/*
 * Bits: logic, shifts, fields, permutations.
 */
#include "exec_loop.h"

static bool is64(const struct inst *in)
{
    return type_bits((enum type)in->type[0]) == 64;
}

static uint32_t low_mask(const struct inst *in)
{
    return type_bits((enum type)in->type[0]) == 16 ? 0xffff : UINT32_MAX;
}

static enum flow pred_logic(struct warp *w, const struct inst *in, uint32_t mask,
                            enum suboperation operation)
{
    const uint32_t a = warp_pred(w, &in->o[1]), b = warp_pred(w, &in->o[2]);
    const uint32_t a_known = warp_defined(w, &in->o[1]), b_known = warp_defined(w, &in->o[2]);

    warp_set_pred(w, &in->o[0], mask,
                  operation == SUB_AND ? a & b : operation == SUB_OR ? a | b : a ^ b,
                  logic_defined(operation, a, a_known, b, b_known));
    return FLOW_NEXT;
}

/* `and` and `or` where a source is undefined in some lanes: the other one may decide by itself. */
static enum flow mask_logic(struct warp *w, const struct inst *in, uint32_t mask, bool both)
{
    const uint32_t a_known = warp_defined(w, &in->o[1]), b_known = warp_defined(w, &in->o[2]);
    const uint64_t ones = is64(in) ? UINT64_MAX : low_mask(in), decides = both ? 0 : ones;

    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        const uint64_t a = warp_value(w, &in->o[1], l) & ones, b = warp_value(w, &in->o[2], l) & ones;
        const bool known = (a_known & b_known) >> l & 1 || (a_known >> l & 1 && a == decides) ||
                           (b_known >> l & 1 && b == decides);
        warp_set(w, &in->o[0], l, both ? a & b : a | b, known);
    }
    return FLOW_NEXT;
}

static bool some_undefined(const struct warp *w, const struct inst *in, uint32_t mask)
{
    return mask & ~(warp_defined(w, &in->o[1]) & warp_defined(w, &in->o[2]));
}

enum flow op_and(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->type[0] == TY_PRED)
        return pred_logic(w, in, mask, SUB_AND);
    if (some_undefined(w, in, mask))
        return mask_logic(w, in, mask, true);
    if (is64(in))
        BINARY64(a[l] & b[l]);
    BINARY32(a[l] & b[l]);
}

enum flow op_or(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->type[0] == TY_PRED)
        return pred_logic(w, in, mask, SUB_OR);
    if (some_undefined(w, in, mask))
        return mask_logic(w, in, mask, false);
    if (is64(in))
        BINARY64(a[l] | b[l]);
    BINARY32(a[l] | b[l]);
}

enum flow op_xor(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (in->type[0] == TY_PRED)
        return pred_logic(w, in, mask, SUB_XOR);
    if (is64(in))
        BINARY64(a[l] ^ b[l]);
    BINARY32(a[l] ^ b[l]);
}

enum flow op_not(struct warp *w, const struct inst *in, uint32_t mask)
{
    const uint32_t low = low_mask(in);

    if (in->type[0] == TY_PRED) {
        warp_set_pred(w, &in->o[0], mask, ~warp_pred(w, &in->o[1]), warp_defined(w, &in->o[1]));
        return FLOW_NEXT;
    }
    if (is64(in))
        UNARY64(~a[l]);
    UNARY32(~a[l] & low);
}

enum flow op_cnot(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (is64(in))
        UNARY64(a[l] == 0);
    UNARY32(a[l] == 0);
}

static uint32_t lut3(uint32_t a, uint32_t b, uint32_t c, unsigned lut)
{
    uint32_t d = 0;

    for (unsigned i = 0; i < 8; i++)
        if (lut >> i & 1)
            d |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return d;
}

enum flow op_lop3(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool predicate = in->sub == SUB_AND || in->sub == SUB_OR;
    const struct operand *o = &in->o[predicate ? 2 : 1];
    const struct span s = span_of(mask);
    const unsigned lut = (unsigned)o[3].imm;
    uint32_t ta[LANES], tb[LANES], tc[LANES], d[LANES], defined = UINT32_MAX, set = 0;
    const uint32_t *a = row32(w, &o[0], ta, s, &defined);
    const uint32_t *b = row32(w, &o[1], tb, s, &defined);
    const uint32_t *c = row32(w, &o[2], tc, s, &defined);

    for (unsigned l = s.lo; l < s.hi; l++) {
        d[l] = lut3(a[l], b[l], c[l], lut);
        set |= (uint32_t)(d[l] != 0) << l;
    }
    put32(w, &in->o[0], s, d, defined);
    if (predicate) {
        const uint32_t q = warp_pred(w, &o[4]);
        warp_set_pred(w, &in->o[1], mask, in->sub == SUB_AND ? set & q : set | q,
                      defined & warp_defined(w, &o[4]));
    }
    return FLOW_NEXT;
}

/* ---- shifts ---- */

enum flow op_shl(struct warp *w, const struct inst *in, uint32_t mask)
{
    const uint32_t low = low_mask(in);

    if (is64(in))
        SHIFT64(b[l] < 64 ? a[l] << b[l] : 0);
    BINARY32((b[l] < 32 ? a[l] << b[l] : 0) & low);
}

enum flow op_shr(struct warp *w, const struct inst *in, uint32_t mask)
{
    switch (in->type[0]) {
    case TY_S64: SHIFT64((int64_t)a[l] >> (b[l] < 64 ? b[l] : 63));
    case TY_U64: case TY_B64: SHIFT64(b[l] < 64 ? a[l] >> b[l] : 0);
    case TY_S32: BINARY32((int32_t)a[l] >> (b[l] < 32 ? b[l] : 31));
    case TY_S16: BINARY32(((int32_t)(int16_t)(uint16_t)a[l] >> (b[l] < 16 ? b[l] : 15)) & 0xffff);
    default: BINARY32(b[l] < 32 ? a[l] >> b[l] : 0);
    }
}

static uint32_t funnel(uint32_t a, uint32_t b, uint32_t c, bool left, bool clamp)
{
    const uint64_t pair = (uint64_t)b << 32 | a;
    const unsigned n = clamp ? c < 32 ? c : 32 : c & 31;

    return (uint32_t)(left ? pair >> (32 - n) : pair >> n);
}

enum flow op_shf(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool left = in->sub == SUB_L, clamp = in->sub2 == SUB_CLAMP;

    TERNARY32(funnel(a[l], b[l], c[l], left, clamp));
}

/* ---- counting and finding ---- */

enum flow op_popc(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (is64(in))
        NARROW(__builtin_popcountll(a[l]));
    UNARY32(__builtin_popcount(a[l]));
}

enum flow op_clz(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (is64(in))
        NARROW(a[l] ? __builtin_clzll(a[l]) : 64);
    UNARY32(a[l] ? __builtin_clz(a[l]) : 32);
}

static uint32_t highest(uint64_t v, unsigned width, bool is_signed, bool amount)
{
    if (is_signed && v >> (width - 1) & 1)
        v = ~v & (UINT64_MAX >> (64 - width));
    if (!v)
        return UINT32_MAX;
    const unsigned p = 63u - (unsigned)__builtin_clzll(v);
    return amount ? width - 1 - p : p;
}

enum flow op_bfind(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool is_signed = type_signed((enum type)in->type[0]), amount = in->flags & INST_SHIFTAMT;

    if (is64(in))
        NARROW(highest(a[l], 64, is_signed, amount));
    UNARY32(highest(a[l], 32, is_signed, amount));
}

static uint32_t find_nth(uint32_t mask, uint32_t base, int32_t offset)
{
    if (!offset)
        return base < 32 && (mask >> base & 1) ? base : UINT32_MAX;
    const int step = offset > 0 ? 1 : -1;
    uint32_t count = (offset > 0 ? (uint32_t)offset : 0u - (uint32_t)offset) - 1;
    for (int64_t pos = base; pos >= 0 && pos < 32; pos += step)
        if (mask >> pos & 1 && !count--)
            return (uint32_t)pos;
    return UINT32_MAX;
}

enum flow op_fns(struct warp *w, const struct inst *in, uint32_t mask)
{
    TERNARY32(find_nth(a[l], b[l], (int32_t)c[l]));
}

static uint64_t reverse(uint64_t v, unsigned width)
{
    uint64_t d = 0;

    for (unsigned i = 0; i < width; i++)
        d |= (v >> i & 1) << (width - 1 - i);
    return d;
}

enum flow op_brev(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (is64(in))
        UNARY64(reverse(a[l], 64));
    UNARY32(reverse(a[l], 32));
}

/* ---- fields: of 32 bits position and length count modulo 256, of 64 bits they do not ---- */

static uint64_t extract(uint64_t v, unsigned width, uint32_t pos, uint32_t len, bool is_signed)
{
    if (width == 32) {
        pos &= 0xff;
        len &= 0xff;
    }
    if (len > 64)
        len = 64;
    if (pos > 64)
        pos = 64;
    const unsigned last = pos + len - 1 < width - 1 ? pos + len - 1 : width - 1;
    const bool fill = is_signed && len && v >> last & 1;
    uint64_t d = pos < width ? v >> pos : 0;
    const unsigned have = pos < width ? (len < width - pos ? len : width - pos) : 0;
    if (have < 64)
        d &= (UINT64_C(1) << have) - 1;
    if (fill && have < 64)
        d |= UINT64_MAX << have;
    return d & (UINT64_MAX >> (64 - width));
}

enum flow op_bfe(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool is_signed = type_signed((enum type)in->type[0]);

    if (is64(in)) {
        const struct span s = span_of(mask);
        uint64_t ta[LANES], d[LANES];
        uint32_t tb[LANES], tc[LANES], defined = UINT32_MAX;
        const uint64_t *a = row64(w, &in->o[1], ta, s, &defined);
        const uint32_t *b = row32(w, &in->o[2], tb, s, &defined);
        const uint32_t *c = row32(w, &in->o[3], tc, s, &defined);
        EACH_LANE(s, d[l] = extract(a[l], 64, b[l], c[l], is_signed));
        put64(w, &in->o[0], s, d, defined);
        return FLOW_NEXT;
    }
    TERNARY32(extract(a[l], 32, b[l], c[l], is_signed));
}

static uint64_t insert(uint64_t v, uint64_t into, unsigned width, uint32_t pos, uint32_t len)
{
    if (width == 32) {
        pos &= 0xff;
        len &= 0xff;
    }
    if (pos >= width || !len)
        return into;
    if (len > width - pos)
        len = width - pos;
    const uint64_t field = (len < 64 ? (UINT64_C(1) << len) - 1 : UINT64_MAX) << pos;
    return (into & ~field) | (v << pos & field);
}

enum flow op_bfi(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct span s = span_of(mask);
    const unsigned width = is64(in) ? 64 : 32;
    uint64_t ta[LANES], tb[LANES], d[LANES];
    uint32_t tc[LANES], te[LANES], defined = UINT32_MAX;
    const uint64_t *a = row64(w, &in->o[1], ta, s, &defined);
    const uint64_t *b = row64(w, &in->o[2], tb, s, &defined);
    const uint32_t *c = row32(w, &in->o[3], tc, s, &defined);
    const uint32_t *e = row32(w, &in->o[4], te, s, &defined);

    EACH_LANE(s, d[l] = insert(a[l], b[l], width, c[l], e[l]));
    put64(w, &in->o[0], s, d, defined);
    return FLOW_NEXT;
}

static uint32_t bit_mask(uint32_t pos, uint32_t len, bool clamp)
{
    const uint32_t p = pos & 31, n = len & 31;
    uint32_t from = UINT32_MAX << p, to = p + n < 32 ? UINT32_MAX << (p + n) : 0;

    if (clamp && (pos >= 32 || len >= 32))
        to = 0;
    if (clamp && pos >= 32)
        from = 0;
    return from & ~to;
}

enum flow op_bmsk(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool clamp = in->sub == SUB_CLAMP;

    BINARY32(bit_mask(a[l], b[l], clamp));
}

static uint32_t extend(uint32_t v, uint32_t width, bool clamp, bool is_signed)
{
    const uint32_t n = width & 31;
    const bool all = width >= 32 && clamp;
    const uint32_t above = all ? 0 : UINT32_MAX << n;
    const bool sign = n && !all && is_signed && v >> (n - 1) & 1;

    return (v & ~above) | (sign ? above : 0);
}

enum flow op_szext(struct warp *w, const struct inst *in, uint32_t mask)
{
    const bool clamp = in->sub == SUB_CLAMP, is_signed = in->type[0] == TY_S32;

    BINARY32(extend(a[l], b[l], clamp, is_signed));
}

static uint32_t permute(uint32_t a, uint32_t b, uint32_t c, unsigned mode)
{
    const uint64_t pair = (uint64_t)b << 32 | a;
    const unsigned k = c & 3;
    uint32_t d = 0;

    for (unsigned i = 0; i < 4; i++) {
        unsigned from = 0;
        bool sign = false;
        switch (mode) {
        case SUB_F4E: from = k + i; break;
        case SUB_B4E: from = (k - i) & 7; break;
        case SUB_RC8: from = k; break;
        case SUB_ECL: from = i > k ? i : k; break;
        case SUB_ECR: from = i < k ? i : k; break;
        case SUB_RC16: from = (k & 1) * 2 + (i & 1); break;
        default:
            from = c >> 4 * i & 7;
            sign = c >> 4 * i & 8;
            break;
        }
        uint32_t byte = (uint32_t)(pair >> 8 * from) & 0xff;
        if (sign)
            byte = byte & 0x80 ? 0xff : 0;
        d |= byte << 8 * i;
    }
    return d;
}

enum flow op_prmt(struct warp *w, const struct inst *in, uint32_t mask)
{
    const unsigned mode = in->sub;

    TERNARY32(permute(a[l], b[l], c[l], mode));
}
