/* Bit-exact tensor-core arithmetic.
 *
 * One instruction is one fused step per output element: every product and the old accumulator are
 * aligned to a common exponent, cut toward zero to F fraction bits, added exactly, and converted
 * once. docs/numerics.md tells the model.
 *
 * tensor_dot() is the model written down plainly: one output element from raw encodings, 64-bit
 * integers, any kind. tensor_load() and tensor_step() are the same model for whole tiles: operands
 * are decoded once, then M x N x K products run over decoded data. Their two implementations
 * (portable, AVX2) give the bits of tensor_dot().
 *
 * Nothing here knows about threads, registers or memory.
 */
#ifndef EMULATOR_TENSOR_H
#define EMULATOR_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

enum tensor_format {
    TENSOR_BF16, TENSOR_F16, TENSOR_TF32,
    TENSOR_E4M3, TENSOR_E5M2, TENSOR_E3M2, TENSOR_E2M3, TENSOR_E2M1,
    TENSOR_S8, TENSOR_U8, TENSOR_B1,
};

enum tensor_result { TENSOR_TO_F32, TENSOR_TO_F16, TENSOR_TO_S32 };

enum tensor_scale { TENSOR_UNSCALED, TENSOR_UE8M0, TENSOR_UE4M3 };

enum tensor_side { TENSOR_A, TENSOR_B };

/* What the public models of the hardware disagree on, or what nobody has measured. wgmma was
 * measured on an H200 and needs no switch: its kinds always carry tensor_rules_measured. The
 * tcgen05 kinds carry the same rules by assumption; whoever measures them sets what is true. */
struct tensor_rules {
    bool zeros_count;       /* a zero product or accumulator joins the maximum, exponent -126 */
    bool no_floor;          /* the maximum exponent may fall below -133 (f32), -21 (f16 result) */
    bool normalise;         /* subnormal e2m1, e2m3, e3m2 are normalised before the maximum */
    bool fp4_zeros_vanish;  /* fp4 block-scaled: zero groups and a zero accumulator do not count */
};

extern const struct tensor_rules tensor_rules_measured;

struct tensor_kind {
    enum tensor_format a, b;
    enum tensor_result d;
    enum tensor_scale scale;
    uint8_t k;              /* products of one step; K x element size is 32 bytes */
    uint8_t fraction;       /* F */
    uint8_t mantissa;       /* fraction bits that an f32 result keeps */
    uint8_t block;          /* elements per scale factor */
    bool groups;            /* exact groups of 16 products, each scaled (fp4 kinds) */
    bool saturate;          /* s32: clamp the exact sum instead of wrapping */
    struct tensor_rules rules;
};

/* The kind of a wgmma instruction. False if the hardware has no such combination. */
bool tensor_kind_wgmma(struct tensor_kind *kind, enum tensor_format a, enum tensor_format b,
                       enum tensor_result d, bool saturate);

/* tcgen05.mma names its kind; wgmma's follows from the types. */
enum tensor_family {
    TENSOR_KIND_F16, TENSOR_KIND_TF32, TENSOR_KIND_F8F6F4, TENSOR_KIND_MXF8F6F4, TENSOR_KIND_MXF4,
    TENSOR_KIND_MXF4NVF4, TENSOR_KIND_I8,
};

/* The kind of a tcgen05.mma instruction; block is 0 without scales, else 32 or 16. False if the
 * hardware has no such combination. */
bool tensor_kind_tcgen05(struct tensor_kind *kind, enum tensor_family family,
                         enum tensor_format a, enum tensor_format b, enum tensor_result d,
                         enum tensor_scale scale, unsigned block, bool saturate);

/* Bits of one element as it lies in a 32-byte operand row: fp4 kinds pack two e2m1 into a byte,
 * elsewhere narrow floats take a byte each. */
unsigned tensor_element_bits(const struct tensor_kind *kind, enum tensor_format format);

/* One output element. a and b hold k raw encodings each (b1: 256 bits); scale_a and scale_b hold
 * k / block scale codes, or are NULL. c is the old accumulator's encoding (low 16 bits if d is
 * f16), so is the result. */
uint32_t tensor_dot(const struct tensor_kind *kind, const uint32_t *a, const uint32_t *b,
                    uint32_t c, const uint32_t *scale_a, const uint32_t *scale_b);

#define TENSOR_ROW_BYTES 32
#define TENSOR_MAX_ROWS 256
#define TENSOR_MAX_K 32             /* of the kinds that tiles are decoded for */

/* A decoded operand, in up to two forms. Rows with a NaN or an infinity are marked, hold zeros
 * there, and go through tensor_dot().
 *
 * Integers, for any exponents: a product of two significands is already shifted by F, so that
 * aligning it is one right shift. Filled when first needed.
 * Floats (AVX2): the values themselves, whose products are exact in f32 as long as exponents stay
 * within what low and high allow; power holds the exponents as 16-bit integers. */
struct tensor_tile {
    enum tensor_side side;
    unsigned rows;
    bool any_special;
    bool integers, floats;      /* which forms are filled */
    int low, high;              /* exponents of non-zero elements; low > high: all zero */
    bool special[TENSOR_MAX_ROWS];
    _Alignas(32) uint8_t raw[TENSOR_MAX_ROWS][TENSOR_ROW_BYTES];    /* negation applied */
    /* A: index row * k + i. B: index (row / 8 * k + i) * 8 + row % 8. */
    _Alignas(32) uint32_t sig[TENSOR_MAX_ROWS * TENSOR_MAX_K];      /* signed, in the low half */
    _Alignas(32) int32_t exp[TENSOR_MAX_ROWS * TENSOR_MAX_K];
    /* A: index row * k + i, powers twice in a word. B: index (row / 16 * k + i) * 16 + row % 16. */
    _Alignas(32) float value[TENSOR_MAX_ROWS * TENSOR_MAX_K];
    _Alignas(32) uint32_t power[TENSOR_MAX_ROWS * TENSOR_MAX_K];
};

/* Decodes rows of 32 bytes, K-major, lowest K first. negate flips every sign. B tiles need a
 * multiple of 8 rows. */
void tensor_load(const struct tensor_kind *kind, enum tensor_side side, bool negate,
                 const uint8_t (*rows)[TENSOR_ROW_BYTES], unsigned count,
                 struct tensor_tile *tile);

/* d[m * pitch + n] = step(A row m, B row n, d or 0), for unscaled kinds. f16 results lie in the low
 * half of a word. With keep false the old d is not read. */
void tensor_step(const struct tensor_kind *kind, struct tensor_tile *a, struct tensor_tile *b,
                 bool keep, uint32_t *d, unsigned pitch);

/* One element of a step, by the plain model. */
uint32_t tensor_element(const struct tensor_kind *kind, const struct tensor_tile *a, unsigned m,
                        const struct tensor_tile *b, unsigned n, uint32_t c);

/* The implementations that tensor_step() chooses from, for tests. The AVX2 ones return false,
 * having done nothing, on a machine without AVX2 and for kinds and tiles that they do not serve. */
void tensor_step_portable(const struct tensor_kind *kind, struct tensor_tile *a,
                          struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch);
bool tensor_step_avx2(const struct tensor_kind *kind, struct tensor_tile *a,
                      struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch);
bool tensor_step_floats(const struct tensor_kind *kind, const struct tensor_tile *a,
                        const struct tensor_tile *b, bool keep, uint32_t *d, unsigned pitch);

/* Fills a tile's integers, if they are not; its floats, if the machine has AVX2. */
void tensor_decode_integers(const struct tensor_kind *kind, struct tensor_tile *tile);
void tensor_decode_floats(const struct tensor_kind *kind, struct tensor_tile *tile);

/* Exponent of a decoded zero: never the maximum, and aligning it shifts everything out. */
#define TENSOR_NO_EXPONENT (-20000)

#endif
