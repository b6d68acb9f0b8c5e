/*
 * wmma.load and wmma.store: fragments of matrices in memory. wmma.mma is in mma.c.
 *
 * The manual leaves open which lane holds what. This is read in the machine code that ptxas 13.0
 * makes for sm_90, and not measured: fragments of the m16n8 mma, two of which a wmma.mma is. M of
 * mma is the longer side: with m8n32k16 the columns of B are its rows, and D lies transposed. With
 * g = lane / 4, t = lane % 4, and K in chunks of 16 bytes (f64: 32):
 *
 *   K has one chunk    register r    row g + 8 r, bytes 4 t .. 4 t + 3
 *   two, mma's A       register r    row g + 8 (r % 2) + 16 (r / 4), chunk r / 2 % 2
 *   two, mma's B       register r    column g + 8 (r / 2), chunk r % 2
 *   D and C            tile r / 4    of 16 x 8, beside or below the other; in it r % 4 as of mma
 *
 * A and B of f16 always have eight registers; when fewer would do, they repeat. Whether a matrix
 * lies by rows or by columns makes no difference to its fragment.
 *
 * The manual wants every line of a matrix aligned to the size of a fragment, up to 32 bytes. But
 * CUDA's load_matrix_sync asks for strides of 16 bytes, programs pad by as much, and the machine
 * code reads 4 to 16 bytes a lane: 16 are asked for here, or the fragment's size if that is less.
 */
#include "wmma.h"

#include "reach.h"

enum { LINES = 32, GROUP = 4 };

/* One matrix in memory and how registers share it. Four-bit elements and bits go by words. */
struct layout {
    enum suboperation matrix;
    unsigned rows, columns;
    unsigned size, per;         /* bytes of an element; elements of a register, neighbours in it */
    unsigned registers, distinct;
    unsigned lines, length;     /* in memory, in elements: consecutive, then a stride on */
    bool by_columns, turned;
    unsigned align;             /* of the address and of every line */
    uint64_t stride;            /* bytes */
};

static struct layout layout_of(const struct inst *in, enum suboperation matrix)
{
    const enum type t = (enum type)in->type[0];
    const unsigned bits = type_bits(t), pack = bits < 8 ? 32 / bits : 1, k = in->k / pack;
    struct layout l = {
        .matrix = matrix, .rows = matrix == SUB_B ? k : in->m,
        .columns = matrix == SUB_A ? k : in->n, .size = bits * pack / 8,
        .registers = wmma_registers(in, matrix, t), .distinct = wmma_distinct(in, matrix, t),
        .by_columns = in->flags & INST_COL, .turned = wmma_turned(in),
    };

    l.per = l.size < 4 ? 4 / l.size : 1;
    l.lines = l.by_columns ? l.columns : l.rows;
    l.length = l.by_columns ? l.rows : l.columns;
    l.align = l.registers * (t == TY_F64 ? 8 : 4);
    l.align = l.align < 16 ? l.align : 16;
    l.stride = (uint64_t)l.length * l.size;
    return l;
}

/* ---- which element ---- */

/* Element e of register r: its line in memory and its place in the line. */
static void element_at(const struct layout *l, unsigned r, unsigned lane, unsigned e,
                       unsigned *line, unsigned *at)
{
    const unsigned g = lane / 4, t = lane % 4;
    unsigned row, column;

    if (l->matrix == SUB_C) {
        const unsigned tile = r / (GROUP / l->per), in_tile = r % (GROUP / l->per);
        const bool below = l->turned || l->rows == 32;
        const unsigned i = l->per == 2 ? 2 * in_tile + e : in_tile;
        row = g + 8 * (i / 2) + (below ? 16 * tile : 0);
        column = 2 * t + i % 2 + (below ? 0 : 8 * tile);
        if (l->turned) {
            const unsigned m = column;
            column = row;
            row = m;
        }
    } else {
        const unsigned chunk = GROUP * l->per, k = l->matrix == SUB_A ? l->columns : l->rows;
        const bool tall = (l->matrix == SUB_B) == l->turned;
        r %= l->distinct;
        const unsigned vector = k == chunk ? g + 8 * r
                              : tall ? g + 8 * (r % 2) + 16 * (r / 4) : g + 8 * (r / 2);
        const unsigned part = k == chunk ? 0 : tall ? r / 2 % 2 : r % 2;
        const unsigned along = chunk * part + l->per * t + e;
        row = l->matrix == SUB_A ? vector : along;
        column = l->matrix == SUB_A ? along : vector;
    }
    *line = l->by_columns ? column : row;
    *at = l->by_columns ? row : column;
}

/* The lane that holds the first element of a line: traps name it. */
static unsigned holder(const struct layout *l, unsigned line)
{
    const bool sums = l->matrix == SUB_C;
    const bool across = l->by_columns == (sums ? !l->turned : l->matrix == SUB_A);
    const unsigned per = sums ? 2 : l->per;

    return across ? line % (GROUP * per) / per : 4 * (line % 8);
}

/* ---- memory ---- */

static bool place_line(struct warp *w, const struct inst *in, const struct layout *l,
                       unsigned line, uint64_t at, enum access access, struct place *p)
{
    const unsigned bytes = l->length * l->size, lane = holder(l, line);

    if (at % l->align) {
        warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, at,
                     "%s %u of the matrix must be at a multiple of %u; lines are %llu bytes apart",
                     l->by_columns ? "column" : "row", line, l->align,
                     (unsigned long long)l->stride);
        return false;
    }
    if (!warp_place(w, in, lane, (enum space)in->space, at, bytes, access, p))
        return false;
    if (p->space != SP_GLOBAL && p->space != SP_SHARED) {
        warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, at,
                     "matrices lie in global or shared memory");
        return false;
    }
    return p->space != SP_SHARED ||
           !meets_mbarrier(w, in, lane, p, bytes, access == ACCESS_WRITE);
}

/* All lines of the matrix at the address, which is the same for all lanes, as is the stride. */
static bool place_lines(struct warp *w, const struct inst *in, const struct operand *address,
                        struct layout *l, enum access access, struct place lines[LINES])
{
    const unsigned bits = type_bits((enum type)in->type[0]);
    uint64_t base, stride;

    if (!warp_uniform(w, in, address, UINT32_MAX, "the address", &base))
        return false;
    if (in->o[2].kind != OPND_NONE) {
        if (!warp_uniform(w, in, &in->o[2], UINT32_MAX, "the stride", &stride))
            return false;
        if (stride * bits % 8) {
            warp_trap(w, in, -1, TRAP_MISALIGNED, "a stride of %llu elements of %u bits",
                      (unsigned long long)stride, bits);
            return false;
        }
        l->stride = stride * bits / 8;
    }
    for (unsigned i = 0; i < l->lines; i++)
        if (!place_line(w, in, l, i, base + i * l->stride, access, &lines[i]))
            return false;
    return true;
}

static enum flow outcome(const struct warp *w)
{
    return w->m->trapped ? FLOW_TRAP : FLOW_NEXT;
}

enum flow op_wmma_load(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct layout l = layout_of(in, (enum suboperation)in->sub);
    const uint32_t all = (1u << l.size) - 1;
    struct place lines[LINES];

    if (!warp_whole(w, in, mask))
        return outcome(w);
    if (!place_lines(w, in, &in->o[1], &l, ACCESS_READ, lines))
        return FLOW_TRAP;
    for (unsigned r = 0; r < l.registers; r++) {
        const struct operand *to = operand_element(w->grid->program, &in->o[0], r);
        for (unsigned lane = 0; lane < LANES; lane++) {
            uint64_t v = 0;
            bool defined = true;
            for (unsigned e = 0; e < l.per; e++) {
                unsigned line, at;
                element_at(&l, r, lane, e, &line, &at);
                v |= fetch(lines[line].data + at * l.size, l.size) << 8 * l.size * e;
                defined = defined && valid_bits(&lines[line], at * l.size, l.size) == all;
            }
            warp_set(w, to, lane, v, defined);
        }
    }
    return FLOW_NEXT;
}

enum flow op_wmma_store(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct layout l = layout_of(in, SUB_C);
    struct place lines[LINES];

    if (!warp_whole(w, in, mask))
        return outcome(w);
    if (!place_lines(w, in, &in->o[0], &l, ACCESS_WRITE, lines))
        return FLOW_TRAP;
    for (unsigned r = 0; r < l.registers; r++) {
        const struct operand *from = operand_element(w->grid->program, &in->o[1], r);
        const uint32_t known = warp_defined(w, from);
        if (known != UINT32_MAX && lines[0].space == SP_GLOBAL)
            return warp_trap(w, in, __builtin_ctz(~known), TRAP_UNDEFINED,
                             "register %u of the fragment: lanes %08x", r, ~known);
        for (unsigned lane = 0; lane < LANES; lane++)
            for (unsigned e = 0; e < l.per; e++) {
                const uint64_t v = warp_value(w, from, lane) >> 8 * l.size * e;
                unsigned line, at;
                element_at(&l, r, lane, e, &line, &at);
                put(w, &lines[line], at * l.size, &v, l.size, known >> lane & 1);
            }
    }
    return FLOW_NEXT;
}
