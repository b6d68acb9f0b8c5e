#include "tcgen_desc.h"

#include <string.h>

#include "valid.h"

/* ---- instruction descriptor ------------------------------------------------------------------ */

static unsigned field(uint32_t bits, unsigned at, unsigned width)
{
    return bits >> at & ((1u << width) - 1);
}

/* The formats that a type code means for a kind, -1: none. */
static int format_of(enum tcgen_kind kind, unsigned code)
{
    static const int8_t narrow[8] = {
        TENSOR_E4M3, TENSOR_E5M2, -1, TENSOR_E2M3, TENSOR_E3M2, TENSOR_E2M1, -1, -1,
    };

    switch (kind) {
    case KIND_F16:
        return code == 0 ? (int)TENSOR_F16 : code == 1 ? (int)TENSOR_BF16 : -1;
    case KIND_TF32:
        return code == 2 ? (int)TENSOR_TF32 : -1;
    case KIND_F8F6F4:
    case KIND_MXF8F6F4:
        return narrow[code & 7];
    case KIND_I8:
        return code == 0 ? (int)TENSOR_U8 : code == 1 ? (int)TENSOR_S8 : -1;
    case KIND_MXF4:
    case KIND_MXF4NVF4:
        return code == 1 ? (int)TENSOR_E2M1 : -1;
    case KIND_NONE:
        break;
    }
    return -1;
}

static enum tensor_family family_of(enum tcgen_kind kind)
{
    switch (kind) {
    case KIND_F16: case KIND_NONE: break;
    case KIND_TF32: return TENSOR_KIND_TF32;
    case KIND_F8F6F4: return TENSOR_KIND_F8F6F4;
    case KIND_I8: return TENSOR_KIND_I8;
    case KIND_MXF8F6F4: return TENSOR_KIND_MXF8F6F4;
    case KIND_MXF4: return TENSOR_KIND_MXF4;
    case KIND_MXF4NVF4: return TENSOR_KIND_MXF4NVF4;
    }
    return TENSOR_KIND_F16;
}

static const char *check_sizes(const struct tcgen_shape_of *s, enum tcgen_kind kind, unsigned group)
{
    const bool scaled = kind >= KIND_MXF8F6F4;

    if (group == TCGEN_STATIONARY) {
        if (s->m != 32 && s->m != 64 && s->m != 128)
            return "M of .ws is 32, 64 or 128";
        if (s->n != 64 && s->n != 128 && s->n != 256)
            return "N of .ws is 64, 128 or 256";
    } else if (group == 1) {
        if (s->m != 128 && (scaled || s->m != 64))
            return scaled ? "M of a block-scaled kind is 128 with .cta_group::1"
                          : "M is 64 or 128 with .cta_group::1";
        if (s->n < 8 || s->n > 256)
            return "N is 8 to 256";
        if (kind == KIND_I8 && s->n != 8 && s->n != 24 && s->n % 16)
            return "N of kind::i8 is 8, 16, 24, 32, then a multiple of 16";
    } else {
        if (s->m != 128 && s->m != 256)
            return "M is 128 or 256 with .cta_group::2";
        if (s->n < 16 || s->n > 256 || s->n % 16)
            return "N is a multiple of 16, 16 to 256, with .cta_group::2";
        if (kind == KIND_I8 && s->n % 32)
            return "N of kind::i8 is a multiple of 32 with .cta_group::2";
    }
    if (s->mn_b && tensor_element_bits(&s->kind, s->kind.b) == 8 && group && s->n % (16 * group))
        return group == 1 ? "N is a multiple of 16 where B has 8-bit elements and is MN-major"
                          : "N is a multiple of 32 where B has 8-bit elements and is MN-major";
    return NULL;
}

static bool below_a_byte(enum tensor_format f)
{
    return f == TENSOR_E2M1 || f == TENSOR_E2M3 || f == TENSOR_E3M2;
}

static const char *decode_scaled(uint32_t bits, enum tcgen_kind kind, unsigned block,
                                 struct tcgen_shape_of *s, enum tensor_scale *scale)
{
    const bool packed = kind != KIND_MXF8F6F4;

    if (bits & (3u | 1u << 3 | 1u << 6 | 7u << 24))
        return "bits 0-1, 3, 6 and 24-26 must be zero for a block-scaled kind";
    if (packed && bits >> 31)
        return "bit 31 asks for K = 96, which needs sm_103a";
    if (!packed && bits >> 31)
        return "bit 31 must be zero";
    if (packed && bits & 1u << 12)
        return "bit 12 must be zero for a packed 4-bit kind";
    if (packed && bits & 3u << 15)
        return "bits 15-16 must be zero: packed 4-bit operands are K-major";
    s->m = 128 * field(bits, 27, 2);
    s->sfa_id = field(bits, 29, 2);
    s->sfb_id = field(bits, 4, 2);
    *scale = field(bits, 23, 1) ? TENSOR_UE8M0 : TENSOR_UE4M3;
    if (*scale == TENSOR_UE4M3 && (kind != KIND_MXF4NVF4 || block != 16))
        return "bit 23 must be one: scale factors of this kind and block are ue8m0";
    if (packed && (block == 16 ? s->sfa_id | s->sfb_id : (s->sfa_id | s->sfb_id) & 1))
        return block == 16 ? "the scale factor ids must be 0 with blocks of 16"
                           : "the scale factor ids must be 0 or 2 with blocks of 32";
    return NULL;
}

const char *tcgen_idesc_decode(uint32_t bits, enum tcgen_kind kind, unsigned block, unsigned group,
                               struct tcgen_shape_of *out)
{
    const bool scaled = kind >= KIND_MXF8F6F4;
    const unsigned code_b = kind == KIND_MXF4 || kind == KIND_MXF4NVF4 ? field(bits, 10, 2)
                                                                       : field(bits, 10, 3);
    const int a = format_of(kind, field(bits, 7, 3)), b = format_of(kind, code_b);
    enum tensor_scale scale = TENSOR_UNSCALED;
    enum tensor_result d = TENSOR_TO_F32;
    const char *wrong = NULL;
    bool saturate = false;

    *out = (struct tcgen_shape_of){
        .n = 8 * field(bits, 17, 6), .negate_a = field(bits, 13, 1), .negate_b = field(bits, 14, 1),
        .mn_a = field(bits, 15, 1), .mn_b = field(bits, 16, 1),
    };
    if (bits & 4)
        return "bit 2 says sparse, the instruction is not";
    if (scaled) {
        wrong = decode_scaled(bits, kind, block, out, &scale);
    } else {
        if (bits & 3)
            wrong = "bits 0-1, the sparsity selector, must be zero";
        else if (bits & (1u << 6 | 1u << 23 | 1u << 29))
            wrong = "bits 6, 23 and 29 must be zero";
        else if (bits >> 30)
            wrong = "bits 30-31, the shift of .ws, must be zero";
        out->m = 16 * field(bits, 24, 5);
        saturate = field(bits, 3, 1);
        if (!wrong && saturate && kind != KIND_I8)
            wrong = "bit 3, saturation, is for kind::i8";
        switch (field(bits, 4, 2)) {
        case 0: d = TENSOR_TO_F16; break;
        case 1: d = TENSOR_TO_F32; break;
        case 2: d = TENSOR_TO_S32; break;
        default: wrong = wrong ? wrong : "bits 4-5 name no type of D"; break;
        }
    }
    if (wrong)
        return wrong;
    if (a < 0)
        return "bits 7-9 name no type of A for this kind";
    if (b < 0)
        return "bits 10-12 name no type of B for this kind";
    if (!tensor_kind_tcgen05(&out->kind, family_of(kind), (enum tensor_format)a,
                             (enum tensor_format)b, d, scale, scaled ? block : 0, saturate))
        return "this kind has no such types of A, B and D";
    if (kind == KIND_I8 && (out->negate_a || out->negate_b))
        return "bits 13-14, negation, are not for kind::i8";
    if ((out->mn_a && below_a_byte(out->kind.a)) || (out->mn_b && below_a_byte(out->kind.b)))
        return "operands of 4 and 6 bits are K-major";
    return check_sizes(out, kind, group);
}

/* ---- shared-memory descriptor ---------------------------------------------------------------- */

const char *tcgen_matrix_decode(uint64_t bits, struct tcgen_matrix *out)
{
    static const int8_t layouts[8] = {
        TCGEN_NONE, TCGEN_BASE32B, TCGEN_128B, -1, TCGEN_64B, -1, TCGEN_32B, -1,
    };
    const int layout = layouts[bits >> 61];

    *out = (struct tcgen_matrix){
        .start = (uint32_t)(bits & 0x3fff) << 4, .leading = (uint32_t)(bits >> 16 & 0x3fff) << 4,
        .stride = (uint32_t)(bits >> 32 & 0x3fff) << 4, .base = (unsigned)(bits >> 49 & 7),
    };
    if ((bits >> 46 & 7) != 1)
        return "bits 46-48 must be 001";
    if (layout < 0)
        return "bits 61-63 name no layout (3, 5 and 7 do not exist; wgmma's codes are others)";
    if (bits >> 52 & 1)
        return "bit 52, an absolute LBO, needs sm_103a";
    if (bits & (UINT64_C(3) << 14 | UINT64_C(3) << 30 | UINT64_C(0xff) << 53))
        return "bits 14-15, 30-31 and 53-60 must be zero";
    out->swizzle = (enum tcgen_swizzle)layout;
    return NULL;
}

const char *tcgen_matrix_check(const struct tcgen_matrix *matrix, const struct tcgen_access *how)
{
    if (!how->mn_major)
        return matrix->swizzle == TCGEN_BASE32B ? "the layout with 32-byte atoms is MN-major only"
                                                : NULL;
    if (how->bytes == 4)
        return matrix->swizzle == TCGEN_BASE32B
               ? NULL : "an MN-major tf32 operand needs the layout with 32-byte atoms (1)";
    return matrix->swizzle == TCGEN_BASE32B ? "the layout with 32-byte atoms is for tf32" : NULL;
}

/* Bytes of a line of the swizzled layout. */
static unsigned span_of(enum tcgen_swizzle swizzle)
{
    switch (swizzle) {
    case TCGEN_NONE: break;
    case TCGEN_BASE32B: case TCGEN_128B: return 128;
    case TCGEN_64B: return 64;
    case TCGEN_32B: return 32;
    }
    return 16;
}

/* The swizzle works on absolute address bits, counted from the base offset's line. */
static uint32_t swizzled(const struct tcgen_matrix *m, uint32_t address)
{
    const uint32_t line = address - 128 * m->base;

    switch (m->swizzle) {
    case TCGEN_NONE: break;
    case TCGEN_BASE32B: return address ^ (line >> 2 & 0x60);
    case TCGEN_128B: return address ^ (line >> 3 & 0x70);
    case TCGEN_64B: return address ^ (line >> 3 & 0x30);
    case TCGEN_32B: return address ^ (line >> 3 & 0x10);
    }
    return address;
}

uint32_t tcgen_chunk(const struct tcgen_matrix *m, unsigned row, unsigned chunk)
{
    const uint32_t group = m->start + row / 8 * m->stride;

    if (m->swizzle == TCGEN_NONE)
        return group + row % 8 * 16 + chunk * m->leading;
    return swizzled(m, group + row % 8 * span_of(m->swizzle) + chunk * 16);
}

/* MN-major: the 16 bytes with neighbours of M or N number i = 16 / bytes * which, for index k.
 * LBO and SBO change roles between the layouts. */
static uint32_t mn_chunk(const struct tcgen_matrix *m, unsigned which, unsigned k)
{
    const unsigned span = span_of(m->swizzle), per_line = span / 16;

    if (m->swizzle == TCGEN_NONE)
        return m->start + which * m->stride + k % 8 * 16 + k / 8 * m->leading;
    if (m->swizzle == TCGEN_BASE32B)
        return swizzled(m, m->start + which % per_line * 16 + which / per_line * m->leading +
                           k % 4 * span + k / 4 * m->stride);
    return swizzled(m, m->start + which % per_line * 16 + which / per_line * m->leading +
                       k % 8 * span + k / 8 * m->stride);
}

static bool outside(uint32_t address, const struct wgmma_memory *memory)
{
    return address < memory->first || address > memory->end || memory->end - address < 16;
}

void tcgen_unpack(enum tcgen_pack pack, const uint8_t *from, uint8_t *to)
{
    const unsigned width = pack == TCGEN_4_OF_16 ? 4 : 6;

    if (pack == TCGEN_WHOLE) {
        memcpy(to, from, 16);
        return;
    }
    for (unsigned i = 0; i < 16; i++) {
        const unsigned bit = i * width;
        uint16_t pair;

        memcpy(&pair, from + bit / 8, 2);
        to[i] = (uint8_t)(pair >> bit % 8 & ((1u << width) - 1));
    }
}

static bool gather_k(const struct tcgen_matrix *m, const struct tcgen_access *how, unsigned rows,
                     const struct wgmma_memory *memory, uint8_t (*out)[TENSOR_ROW_BYTES],
                     bool *defined, uint32_t *fault)
{
    static const uint32_t data[] = {
        [TCGEN_WHOLE] = 0xffff, [TCGEN_4_OF_16] = 0xff, [TCGEN_6_OF_16] = 0xfff,
    };

    for (unsigned r = 0; r < rows; r++) {
        bool all = true;

        for (unsigned c = 0; c < how->chunks; c++) {
            const uint32_t at = tcgen_chunk(m, r, c);

            if (outside(at, memory)) {
                *fault = at;
                return false;
            }
            wgmma_visit(memory, at);
            if (!out)
                continue;
            if (how->pack == TCGEN_WHOLE)
                memcpy(out[r] + 16 * c, memory->bytes + at, 16);
            else
                tcgen_unpack(how->pack, memory->bytes + at, out[r] + 16 * c);
            all &= (~valid_get(memory->valid, at, 16) & data[how->pack]) == 0;
        }
        if (out)
            defined[r] = all;
    }
    return true;
}

static inline void spread(unsigned bytes, const uint8_t *from, uint8_t (*out)[TENSOR_ROW_BYTES],
                          unsigned k)
{
    for (unsigned i = 0; i < 16 / bytes; i++)
        memcpy(out[i] + k * bytes, from + i * bytes, bytes);
}

static bool gather_mn(const struct tcgen_matrix *m, const struct tcgen_access *how, unsigned rows,
                      const struct wgmma_memory *memory, uint8_t (*out)[TENSOR_ROW_BYTES],
                      bool *defined, uint32_t *fault)
{
    const unsigned bytes = how->bytes, each = 16 / bytes, ks = TENSOR_ROW_BYTES / bytes;

    for (unsigned which = 0; which < rows / each; which++) {
        uint32_t valid = 0xffff;

        for (unsigned k = 0; k < ks; k++) {
            const uint32_t at = mn_chunk(m, which, k);

            if (outside(at, memory)) {
                *fault = at;
                return false;
            }
            wgmma_visit(memory, at);
            if (!out)
                continue;
            switch (bytes) {
            case 1: spread(1, memory->bytes + at, out + which * each, k); break;
            case 2: spread(2, memory->bytes + at, out + which * each, k); break;
            default: spread(4, memory->bytes + at, out + which * each, k); break;
            }
            valid &= valid_get(memory->valid, at, 16);
        }
        for (unsigned i = 0; out && i < each; i++)
            defined[which * each + i] = (~valid >> bytes * i & ((1u << bytes) - 1)) == 0;
    }
    return true;
}

bool tcgen_gather(const struct tcgen_matrix *matrix, const struct tcgen_access *how, unsigned rows,
                  const struct wgmma_memory *memory, uint8_t (*out)[TENSOR_ROW_BYTES],
                  bool *defined, uint32_t *fault)
{
    return how->mn_major ? gather_mn(matrix, how, rows, memory, out, defined, fault)
                         : gather_k(matrix, how, rows, memory, out, defined, fault);
}
