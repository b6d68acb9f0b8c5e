/*
 * mma.sync: D = A * B + C by one warp, all operands in its registers.
 *
 * A fragment is the same for every type: seen as rows of bytes, chunks of 16 bytes go to groups of
 * four lanes, four bytes each. Lane l holds row l / 4 (of A, and of 8 below it in the next
 * register; of B's transpose) and word l % 4; C and D hold two neighbours of row l / 4.
 *
 *   A register r   row l / 4 + 8 (r % 2), bytes 16 (r / 2) + 4 (l % 4)     M = 16
 *   B register r   column l / 4, bytes 16 r + 4 (l % 4)
 *   D register r   row l / 4 + 8 (r / 2), column 2 (l % 4) + r % 2; f16: register r has both
 *
 * wmma.mma is one of these or two, on registers that wmma.c tells apart. In tf32 each is two steps
 * of K = 4. Where types of C and D differ, the step is one of f32: C of f16 is widened before, D of
 * f16 rounded after. This is read in the machine code of ptxas 13.0 for sm_90, and not measured.
 *
 * fp8 has no unit of its own on these parts: ptxas makes two f16 instructions of it, first for the
 * lower two elements of each register, then for the upper two on top, and adds C in the end.
 */
#include "exec.h"

#include <fenv.h>
#include <math.h>

#include "async.h"
#include "floats.h"
#include "sparse.h"
#include "wmma.h"

enum { ROWS = 16, COLUMNS = 8, CHUNK = 16 };

struct fragments {
    uint8_t (*a)[TENSOR_ROW_BYTES], (*b)[TENSOR_ROW_BYTES];     /* rows of A, columns of B */
    unsigned b_rows;                            /* that a column of B takes: 1, or 2 */
    uint32_t d[ROWS * COLUMNS];                 /* C, then D */
    bool a_defined[ROWS], b_defined[COLUMNS], c_defined[ROWS * COLUMNS];
};

static unsigned a_row(const struct inst *in, unsigned reg, unsigned lane)
{
    return in->m == 8 ? lane / 4 : lane / 4 + 8 * (reg & 1);
}

static unsigned a_chunk(const struct inst *in, unsigned reg)
{
    return in->m == 8 ? reg : reg / 2;
}

static unsigned elements(const struct operand *op)
{
    return op->kind == OPND_VEC ? op->n : 1;
}

/* C or D in f16: a register has two. */
static bool halves(const struct inst *in, const struct operand *op)
{
    return elements(op) * 8 == in->m;
}

/* ---- registers to rows and back ---- */

static void read_fragments(struct warp *w, const struct inst *in, struct fragments *f)
{
    const struct program *p = w->grid->program;

    memset(f->a, 0, ROWS * sizeof *f->a);
    memset(f->b, 0, COLUMNS * f->b_rows * sizeof *f->b);
    memset(f->a_defined, true, sizeof f->a_defined);
    memset(f->b_defined, true, sizeof f->b_defined);
    for (unsigned r = 0; r < elements(&in->o[1]); r++) {
        const struct operand *op = operand_element(p, &in->o[1], r);
        const uint32_t defined = warp_defined(w, op);
        for (unsigned lane = 0; lane < LANES; lane++) {
            const uint32_t v = (uint32_t)warp_value(w, op, lane);
            const unsigned row = a_row(in, r, lane);
            memcpy(&f->a[row][CHUNK * a_chunk(in, r) + 4 * (lane % 4)], &v, 4);
            f->a_defined[row] = f->a_defined[row] && defined >> lane & 1;
        }
    }
    for (unsigned r = 0; r < elements(&in->o[2]); r++) {
        const struct operand *op = operand_element(p, &in->o[2], r);
        const uint32_t defined = warp_defined(w, op);
        for (unsigned lane = 0; lane < LANES; lane++) {
            const uint32_t v = (uint32_t)warp_value(w, op, lane);
            memcpy(f->b[lane / 4 * f->b_rows] + CHUNK * r + 4 * (lane % 4), &v, 4);
            f->b_defined[lane / 4] = f->b_defined[lane / 4] && defined >> lane & 1;
        }
    }
    for (unsigned r = 0; r < elements(&in->o[3]); r++) {
        const struct operand *op = operand_element(p, &in->o[3], r);
        const uint32_t defined = warp_defined(w, op);
        const bool half = halves(in, &in->o[3]);
        for (unsigned lane = 0; lane < LANES; lane++) {
            const uint32_t v = (uint32_t)warp_value(w, op, lane);
            const unsigned row = lane / 4 + 8 * (half ? r : r / 2);
            const unsigned at = row * COLUMNS + 2 * (lane % 4);
            if (half) {
                f->d[at] = v & 0xffff;
                f->d[at + 1] = v >> 16;
                f->c_defined[at] = f->c_defined[at + 1] = defined >> lane & 1;
            } else {
                f->d[at + r % 2] = v;
                f->c_defined[at + r % 2] = defined >> lane & 1;
            }
        }
    }
}

static void write_result(struct warp *w, const struct inst *in, const struct fragments *f)
{
    const struct program *p = w->grid->program;
    const bool half = halves(in, &in->o[0]);

    for (unsigned r = 0; r < elements(&in->o[0]); r++)
        for (unsigned lane = 0; lane < LANES; lane++) {
            const unsigned row = lane / 4 + 8 * (half ? r : r / 2), column = 2 * (lane % 4);
            const unsigned at = row * COLUMNS + column;
            bool defined = f->a_defined[row];
            uint32_t v;
            if (half) {
                v = f->d[at] | f->d[at + 1] << 16;
                defined = defined && f->b_defined[column] && f->b_defined[column + 1] &&
                          f->c_defined[at] && f->c_defined[at + 1];
            } else {
                v = f->d[at + r % 2];
                defined = defined && f->b_defined[column + r % 2] && f->c_defined[at + r % 2];
            }
            warp_set(w, operand_element(p, &in->o[0], r), lane, v, defined);
        }
}

/* ---- what the tensor unit does ---- */

static enum tensor_format format_of(enum type t)
{
    switch (t) {
    case TY_F16: return TENSOR_F16;
    case TY_BF16: return TENSOR_BF16;
    case TY_TF32: return TENSOR_TF32;
    case TY_S8: return TENSOR_S8;
    default: return TENSOR_U8;
    }
}

static enum tensor_result result_of(enum type t)
{
    return t == TY_F16 ? TENSOR_TO_F16 : t == TY_F32 ? TENSOR_TO_F32 : TENSOR_TO_S32;
}

/* One step. Elements beyond the instruction's K are zeros, which take no part. */
static void step(const struct inst *in, struct async_scratch *s, enum tensor_format a,
                 enum tensor_format b, const uint8_t (*rows)[TENSOR_ROW_BYTES],
                 const uint8_t (*columns)[TENSOR_ROW_BYTES], bool keep, uint32_t *d)
{
    struct tensor_kind kind;

    tensor_kind_wgmma(&kind, a, b, result_of(in->type[0]), in->flags & INST_SATFINITE);
    tensor_load(&kind, TENSOR_A, false, rows, in->m, &s->a);
    tensor_load(&kind, TENSOR_B, false, columns, COLUMNS, &s->b);
    tensor_step(&kind, &s->a, &s->b, keep, d, COLUMNS);
}

/* The lower (or upper) two fp8 of every four bytes, as two f16 in their place. */
static void widen(enum type t, bool upper, const uint8_t from[TENSOR_ROW_BYTES],
                  uint8_t to[TENSOR_ROW_BYTES])
{
    for (unsigned i = 0; i < TENSOR_ROW_BYTES / 2; i++) {
        const uint8_t code = from[i / 2 * 4 + 2 * upper + i % 2];
        const uint16_t half = t == TY_E4M3 ? half_of_e4m3(code) : half_of_e5m2(code);
        memcpy(&to[2 * i], &half, 2);
    }
}

/* C + sum, rounded to nearest as FADD and HADD2 do. */
static uint32_t plus(enum type t, uint32_t c, uint32_t sum)
{
    if (t == TY_F16)
        return (uint32_t)format_round(format_f16, half_value((uint16_t)c) +
                                      half_value((uint16_t)sum), RND_RN);
    const uint32_t v = bits_of_float(float_of(c) + float_of(sum));
    return is_nan32(v) ? NAN_F32 : v;
}

static void fp8_steps(const struct inst *in, struct async_scratch *s, struct fragments *f)
{
    uint32_t sum[ROWS * COLUMNS];
    uint8_t a[ROWS][TENSOR_ROW_BYTES], b[COLUMNS][TENSOR_ROW_BYTES];

    for (unsigned upper = 0; upper < 2; upper++) {
        for (unsigned r = 0; r < in->m; r++)
            widen((enum type)in->type[1], upper, f->a[r], a[r]);
        for (unsigned c = 0; c < COLUMNS; c++)
            widen((enum type)in->type[2], upper, f->b[c], b[c]);
        step(in, s, TENSOR_F16, TENSOR_F16, (const uint8_t (*)[TENSOR_ROW_BYTES])a,
             (const uint8_t (*)[TENSOR_ROW_BYTES])b, upper, sum);
    }
    for (unsigned i = 0; i < in->m * COLUMNS; i++)
        f->d[i] = plus((enum type)in->type[0], f->d[i], sum[i]);
}

/* ---- bits and four-bit integers: exact ---- */

static int64_t nibble(enum type t, const uint8_t *row, unsigned k)
{
    const int v = row[k / 2] >> k % 2 * 4 & 15;
    return t == TY_S4 && v > 7 ? v - 16 : v;
}

static void narrow_step(const struct inst *in, struct fragments *f)
{
    const enum type ta = (enum type)in->type[1], tb = (enum type)in->type[2];

    for (unsigned i = 0; i < (unsigned)in->m * COLUMNS; i++) {
        const uint8_t *a = f->a[i / COLUMNS], *b = f->b[i % COLUMNS];
        int64_t sum = (int32_t)f->d[i];
        for (unsigned k = 0; ta == TY_B1 && k < TENSOR_ROW_BYTES; k++)
            sum += __builtin_popcount(in->sub == SUB_XOR ? a[k] ^ b[k] : a[k] & b[k]);
        for (unsigned k = 0; ta != TY_B1 && k < in->k; k++)
            sum += nibble(ta, a, k) * nibble(tb, b, k);
        if (in->flags & INST_SATFINITE)
            sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
        f->d[i] = (uint32_t)sum;
    }
}

/* ---- double precision: a chain of fused multiply-adds ---- */

/* Chunks of four lanes are chunks of four elements here. */
static void doubles(struct warp *w, const struct inst *in)
{
    const struct program *p = w->grid->program;
    double a[ROWS][CHUNK], b[COLUMNS][CHUNK], c[ROWS][COLUMNS];
    bool a_defined[ROWS], b_defined[COLUMNS], c_defined[ROWS][COLUMNS];

    memset(a_defined, true, sizeof a_defined);
    memset(b_defined, true, sizeof b_defined);
    for (unsigned lane = 0; lane < LANES; lane++) {
        for (unsigned r = 0; r < elements(&in->o[1]); r++) {
            const struct operand *op = operand_element(p, &in->o[1], r);
            const unsigned row = a_row(in, r, lane);
            a[row][4 * a_chunk(in, r) + lane % 4] = double_of(warp_value(w, op, lane));
            a_defined[row] = a_defined[row] && warp_defined(w, op) >> lane & 1;
        }
        for (unsigned r = 0; r < elements(&in->o[2]); r++) {
            const struct operand *op = operand_element(p, &in->o[2], r);
            b[lane / 4][4 * r + lane % 4] = double_of(warp_value(w, op, lane));
            b_defined[lane / 4] = b_defined[lane / 4] && warp_defined(w, op) >> lane & 1;
        }
        for (unsigned r = 0; r < elements(&in->o[3]); r++) {
            const struct operand *op = operand_element(p, &in->o[3], r);
            const unsigned row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + r % 2;
            c[row][column] = double_of(warp_value(w, op, lane));
            c_defined[row][column] = warp_defined(w, op) >> lane & 1;
        }
    }
    fesetround(exec_direction(in));
    for (unsigned r = 0; r < elements(&in->o[0]); r++)
        for (unsigned lane = 0; lane < LANES; lane++) {
            const unsigned row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + r % 2;
            volatile double d = c[row][column];
            for (unsigned k = 0; machine_config(w->m)->math && k < in->k; k++)
                d = fma(a[row][k], b[column][k], d);
            warp_set(w, operand_element(p, &in->o[0], r), lane, bits_of_double(d),
                     a_defined[row] && b_defined[column] && c_defined[row][column]);
        }
    fesetround(FE_TONEAREST);
}

/* ---- one instruction ---- */

static void multiply(const struct inst *in, struct async_scratch *s, struct fragments *f)
{
    const enum type a = (enum type)in->type[1], b = (enum type)in->type[2];

    if (a == TY_E4M3 || a == TY_E5M2)
        fp8_steps(in, s, f);
    else if (type_bits(a) < 8)
        narrow_step(in, f);
    else
        step(in, s, format_of(a), format_of(b), (const uint8_t (*)[TENSOR_ROW_BYTES])f->a,
             (const uint8_t (*)[TENSOR_ROW_BYTES])f->b, true, f->d);
}

enum flow op_mma(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct async_scratch *const s = async_scratch(w->m);
    struct fragments f;

    if (!warp_whole(w, in, mask))
        return w->m->trapped ? FLOW_TRAP : FLOW_NEXT;
    if (!s)
        return warp_trap(w, in, -1, TRAP_MEMORY, "operands of an mma");
    if (in->type[1] == TY_F64) {
        doubles(w, in);
        return FLOW_NEXT;
    }
    f.a = s->rows;
    f.b = s->rows + ROWS;
    f.b_rows = 1;
    read_fragments(w, in, &f);
    if (machine_config(w->m)->math)
        multiply(in, s, &f);
    write_result(w, in, &f);
    return FLOW_NEXT;
}

/* ---- mma.sp ---- */

/* Row by row a dense product of half the K, with what the row wants of B. The machine code has one
 * instruction, with the dense one's registers for A; that it sums in one step too is inferred. */
enum flow op_mma_sp(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct async_scratch *const s = async_scratch(w->m);
    const struct sparse sparse = sparse_of(in, (unsigned)in->o[5].imm);
    uint8_t numbers[SPARSE_MOST];
    uint32_t words[LANES];
    struct inst one = *in;
    struct fragments f, part;

    if (!warp_whole(w, in, mask))
        return w->m->trapped ? FLOW_TRAP : FLOW_NEXT;
    if (!s)
        return warp_trap(w, in, -1, TRAP_MEMORY, "operands of an mma");
    if (!warp_need(w, in, &in->o[4], sparse_lanes(&sparse), "the metadata"))
        return FLOW_TRAP;
    for (unsigned lane = 0; lane < LANES; lane++)
        words[lane] = (uint32_t)warp_value(w, &in->o[4], lane);
    f.a = s->rows;
    f.b = s->rows + ROWS;
    f.b_rows = 2;
    read_fragments(w, in, &f);
    part.b = s->rows + ROWS + 2 * COLUMNS;
    memset(part.b, 0, COLUMNS * sizeof *part.b);
    one.m = 1;
    one.k = in->k / 2;
    for (unsigned row = 0; row < ROWS; row++) {
        unsigned lane, bit, nibble;
        const char *const wrong = sparse_numbers(&sparse, words, row, numbers, &lane, &bit,
                                                 &nibble);
        if (wrong)
            return warp_trap(w, in, (int)lane, TRAP_DESCRIPTOR, "metadata 0x%x in bits %u to %u, "
                             "row %u: %s", nibble, bit, bit + 3, row, wrong);
        for (unsigned c = 0; c < COLUMNS; c++)
            sparse_pick(&sparse, numbers, f.b[2 * c], part.b[c]);
        part.a = f.a + row;
        memcpy(part.d, f.d + row * COLUMNS, COLUMNS * sizeof *f.d);
        if (machine_config(w->m)->math)
            multiply(&one, s, &part);
        memcpy(f.d + row * COLUMNS, part.d, COLUMNS * sizeof *f.d);
    }
    write_result(w, in, &f);
    return FLOW_NEXT;
}

/* ---- wmma.mma ---- */

static struct operand slice(const struct operand *op, unsigned first, unsigned n)
{
    struct operand o = *op;

    if (op->kind == OPND_VEC) {
        o.reg += first;
        o.n = (uint16_t)n;
    }
    return o;
}

static unsigned wmma_parts(const struct inst *in)
{
    return in->m * in->n / (ROWS * COLUMNS) > 1 ? 2 : 1;
}

/* The mma that the part is. */
static struct inst wmma_part(const struct inst *in, unsigned part)
{
    const bool turned = wmma_turned(in), tall = in->m == 32 || turned;
    const unsigned parts = wmma_parts(in), bits = type_bits((enum type)in->type[1]);
    const unsigned word = bits == 64 ? 64 : 32, sums = elements(&in->o[0]) / parts;
    const unsigned c = elements(&in->o[3]) / parts;
    struct inst one = *in;

    one.m = parts == 2 ? ROWS : COLUMNS;
    one.n = COLUMNS;
    const unsigned a = one.m * in->k * bits / 32 / word, b = COLUMNS * in->k * bits / 32 / word;
    one.o[0] = slice(&in->o[0], part * sums, sums);
    one.o[1] = slice(&in->o[turned ? 2 : 1], tall ? part * a : 0, a);
    one.o[2] = slice(&in->o[turned ? 1 : 2], tall ? 0 : part * b, b);
    one.o[3] = slice(&in->o[3], part * c, c);
    return one;
}

/* K = 8 of tf32 in two steps; the second finds its elements where the first had them. */
static void tf32_steps(const struct inst *in, struct async_scratch *s, struct fragments *f)
{
    uint8_t a[ROWS][TENSOR_ROW_BYTES] = {0}, b[COLUMNS][TENSOR_ROW_BYTES] = {0};

    for (unsigned chunk = 0; chunk < 2; chunk++) {
        for (unsigned r = 0; r < ROWS; r++)
            memcpy(a[r], &f->a[r][CHUNK * chunk], CHUNK);
        for (unsigned c = 0; c < COLUMNS; c++)
            memcpy(b[c], &f->b[c][CHUNK * chunk], CHUNK);
        step(in, s, TENSOR_TF32, TENSOR_TF32, (const uint8_t (*)[TENSOR_ROW_BYTES])a,
             (const uint8_t (*)[TENSOR_ROW_BYTES])b, true, f->d);
    }
}

static void wmma_multiply(const struct inst *in, struct async_scratch *s, struct fragments *f,
                          bool math)
{
    struct inst one = *in;
    const bool half_c = halves(in, &in->o[3]), half_d = halves(in, &in->o[0]);

    if (half_c && !half_d)
        for (unsigned i = 0; i < ROWS * COLUMNS; i++)
            f->d[i] = bits_of_float((float)half_value((uint16_t)f->d[i]));
    if (half_d && !half_c)
        one.type[0] = TY_F32;
    if (!math)
        ;
    else if (in->type[1] == TY_TF32)
        tf32_steps(&one, s, f);
    else
        multiply(&one, s, f);
    if (half_d && !half_c)
        for (unsigned i = 0; i < ROWS * COLUMNS; i++)
            f->d[i] = half_of_f32(f->d[i]);
}

enum flow op_wmma_mma(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct async_scratch *const s = async_scratch(w->m);
    const unsigned parts = wmma_parts(in);
    struct inst part[2];
    struct fragments f[2];

    if (!warp_whole(w, in, mask))
        return w->m->trapped ? FLOW_TRAP : FLOW_NEXT;
    if (!s)
        return warp_trap(w, in, -1, TRAP_MEMORY, "operands of an mma");
    for (unsigned i = 0; i < parts; i++) {
        part[i] = wmma_part(in, i);
        if (in->type[1] == TY_F64) {
            doubles(w, &part[i]);
            return FLOW_NEXT;
        }
        f[i].a = s->rows;
        f[i].b = s->rows + ROWS;
        f[i].b_rows = 1;
        read_fragments(w, &part[i], &f[i]);
        wmma_multiply(&part[i], s, &f[i], machine_config(w->m)->math);
    }
    /* D may be A, B or C. */
    for (unsigned i = 0; i < parts; i++)
        write_result(w, &part[i], &f[i]);
    return FLOW_NEXT;
}
