/* tcgen05.cp, from shared memory to Tensor Memory, and tcgen05.shift.
 *
 *     shape      source rows   row i goes to lane
 *     128x256b   128 of 32 B   i
 *     128x128b   128 of 16 B   i
 *     4x256b       4 of 32 B   32i + the address's lane
 *     64x128b     64 of 16 B   02_13: i, i + 64      01_23: i%32 + 64 (i/32) and + 32
 *     32x128b     32 of 16 B   i, i + 32, i + 64, i + 96
 */
#include <string.h>

#include "tcgen.h"
#include "valid.h"

enum { SHIFT_COLUMNS = 8 };

struct copy {
    struct tcgen_op op;
    struct tcgen_matrix from;
    unsigned sides, rows, chunks;       /* chunks of 16 bytes in a row */
    unsigned lane, column;
    enum tcgen_shape shape;
    enum suboperation spread;   /* of 64x128b */
    enum tcgen_pack pack;
};

static void put_chunk(const struct copy *c, const struct tcgen_side *side, unsigned lane,
                      unsigned column, const uint8_t bytes[16], uint32_t valid)
{
    struct tmem *t = side->tmem;

    (void)c;
    memcpy(&t->cell[lane][column], bytes, 16);
    for (unsigned i = 0; i < 4; i++)
        tmem_set_valid(t, lane, column + i, 1, (valid >> 4 * i & 15) == 15);
}

/* What arrives of the 16 bytes at an address: as they are, or sixteen narrow elements one to a
 * byte, e2m1 in bits 2-5 and 6-bit ones in bits 0-5. */
static uint32_t take(const struct copy *c, const struct cta *cta, uint32_t at, uint8_t bytes[16])
{
    const uint32_t valid = valid_get(cta->valid, at, 16);
    const uint32_t data = c->pack == TCGEN_4_OF_16 ? 0xff : c->pack == TCGEN_6_OF_16 ? 0xfff : 0xffff;

    tcgen_unpack(c->pack, cta->bytes + at, bytes);
    for (unsigned i = 0; c->pack == TCGEN_4_OF_16 && i < 16; i++)
        bytes[i] = (uint8_t)(bytes[i] << 2);
    if (c->pack == TCGEN_WHOLE)
        return valid;
    return (valid & data) == data ? 0xffff : 0;
}

static void copy_row(const struct copy *c, const struct tcgen_side *side, unsigned row,
                     unsigned lane)
{
    for (unsigned chunk = 0; chunk < c->chunks; chunk++) {
        uint8_t bytes[16];
        const uint32_t valid = take(c, side->cta, tcgen_chunk(&c->from, row, chunk), bytes);

        put_chunk(c, side, lane, c->column + 4 * chunk, bytes, valid);
    }
}

static void cp_effect(struct machine *m, struct tcgen_op *op)
{
    const struct copy *c = (const struct copy *)op;

    (void)m;
    for (unsigned s = 0; s < 2; s++) {
        const struct tcgen_side *side = &op->unit->sides[s];

        for (unsigned i = 0; c->sides >> s & 1 && i < c->rows; i++)
            switch (c->shape) {
            case SHAPE_4X256B:
                copy_row(c, side, i, 32 * i + c->lane);
                break;
            case SHAPE_64X128B: {
                const bool pairs = c->spread == SUB_WARPX2_02_13;
                const unsigned lane = pairs ? i : i % 32 + 64 * (i / 32);

                copy_row(c, side, i, lane);
                copy_row(c, side, i, lane + (pairs ? 64 : 32));
                break;
            }
            case SHAPE_32X128B:
                for (unsigned q = 0; q < 4; q++)
                    copy_row(c, side, i, i + 32 * q);
                break;
            default:
                copy_row(c, side, i, i);
                break;
            }
    }
}

static bool source(struct warp *w, const struct inst *in, unsigned lane, struct copy *c)
{
    const uint64_t bits = warp_value(w, &in->o[1], lane);
    const struct tcgen_access how = {.chunks = (uint8_t)c->chunks, .bytes = 1};
    const char *wrong = tcgen_matrix_decode(bits, &c->from);

    if (!wrong)
        wrong = tcgen_matrix_check(&c->from, &how);
    if (wrong) {
        warp_trap(w, in, (int)lane, TRAP_DESCRIPTOR, "descriptor of the source 0x%016llx: %s",
                  (unsigned long long)bits, wrong);
        return false;
    }
    if (c->from.base && !tcgen_assume(w, in, (int)lane, "descriptor of the source 0x%016llx: base "
                                      "offset %u", (unsigned long long)bits, c->from.base))
        return false;
    for (unsigned s = 0; s < 2; s++) {
        const struct cta *cta = tcgen_unit_of(w->cta)->sides[s].cta;
        struct wgmma_memory memory = {.first = SMEM_START};
        struct wgmma_visits visits = {.count = 0};
        uint32_t fault;

        if (!(c->sides >> s & 1))
            continue;
        memory.end = cta->smem_end;
        memory.visits = proxy_watched(w->m) ? &visits : NULL;
        if (tcgen_gather(&c->from, &how, c->rows, &memory, NULL, NULL, &fault)) {
            if (!tcgen_reads(w, in, lane, cta, &visits))
                return false;
            continue;
        }
        warp_trap_at(w, in, (int)lane, TRAP_BOUNDS, fault, "descriptor of the source 0x%016llx "
                     "leads outside of the shared memory of CTA rank %u, 0x%x to 0x%x",
                     (unsigned long long)bits, cta->rank, SMEM_START, cta->smem_end);
        return false;
    }
    return true;
}

static bool prepare(struct warp *w, const struct inst *in, unsigned lane, struct copy *c)
{
    uint32_t address;

    c->sides = in->cta_group == 2 ? 3 : 1u << tcgen_side_number(w->cta);
    c->shape = (enum tcgen_shape)in->shape;
    c->spread = (enum suboperation)in->sub;
    c->chunks = c->shape == SHAPE_128X256B || c->shape == SHAPE_4X256B ? 2 : 1;
    c->rows = c->shape == SHAPE_4X256B ? 4 : c->shape == SHAPE_64X128B ? 64 :
        c->shape == SHAPE_32X128B ? 32 : 128;
    c->pack = in->sub2 == SUB_B4X16_P64 ? TCGEN_4_OF_16 :
        in->sub2 == SUB_B6X16_P32 ? TCGEN_6_OF_16 : TCGEN_WHOLE;
    if (c->pack != TCGEN_WHOLE &&
        !tcgen_assume(w, in, (int)lane, "where narrow elements lie in their bytes after a copy"))
        return false;
    if (!tcgen_address(w, in, lane, &in->o[0], "the destination", &address) ||
        !source(w, in, lane, c))
        return false;
    c->lane = tmem_lane(address);
    c->column = tmem_column(address);
    if (c->lane && (c->shape != SHAPE_4X256B || c->lane >= 32)) {
        warp_trap_at(w, in, (int)lane, TRAP_TENSOR_MEMORY, address, "the copy begins at lane %u: "
                     "it must be %s", c->lane, c->shape == SHAPE_4X256B ? "below 32" : "0");
        return false;
    }
    return tcgen_owned(w, in, lane, tcgen_unit_of(w->cta), c->sides, c->column, 4 * c->chunks,
                       "the destination");
}

static bool copy(struct warp *w, const struct inst *in, unsigned lane)
{
    struct copy *c = tcgen_op_new(w, in, lane, TCGEN_CP, sizeof *c, cp_effect);

    if (!c)
        return false;
    if (!prepare(w, in, lane, c)) {
        async_job_cancel(w->m, &c->op.job);
        return false;
    }
    c->op.rows_of_4 = c->shape == SHAPE_4X256B;
    tcgen_span_add(&c->op, c->sides, c->shape == SHAPE_4X256B ? 0x55u << c->lane / 16 : 0xff, true,
                   c->column, 4 * c->chunks);
    return tcgen_issue(w, &c->op) != FLOW_TRAP;
}

enum flow op_tcgen_cp(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!tcgen_live_side(w, in, in->cta_group) ||
        !warp_need(w, in, &in->o[1], mask, "the descriptor of the source"))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!copy(w, in, (unsigned)__builtin_ctz(left)))
            return FLOW_TRAP;
    return FLOW_NEXT;
}

/* ---- shift ----------------------------------------------------------------------------------- */

struct shift {
    struct tcgen_op op;
    unsigned sides, lane, column;
};

/* Lane i of the 32 receives what lane i + 1 had; the last keeps its own. */
static void shift_effect(struct machine *m, struct tcgen_op *op)
{
    const struct shift *x = (const struct shift *)op;

    (void)m;
    for (unsigned s = 0; s < 2; s++) {
        struct tmem *t = op->unit->sides[s].tmem;

        for (unsigned lane = x->lane; x->sides >> s & 1 && lane < x->lane + 31; lane++) {
            memcpy(&t->cell[lane][x->column], &t->cell[lane + 1][x->column],
                   SHIFT_COLUMNS * sizeof t->cell[0][0]);
            for (unsigned c = x->column; c < x->column + SHIFT_COLUMNS; c++)
                tmem_set_valid(t, lane, c, 1, tmem_is_valid(t, lane + 1, c));
        }
    }
}

static bool shift(struct warp *w, const struct inst *in, unsigned lane)
{
    const unsigned sides = in->cta_group == 2 ? 3 : 1u << tcgen_side_number(w->cta);
    struct shift *x;
    uint32_t address;

    if (!tcgen_address(w, in, lane, &in->o[0], "the address", &address))
        return false;
    if (tmem_lane(address) % 32) {
        warp_trap_at(w, in, (int)lane, TRAP_TENSOR_MEMORY, address,
                     "lane %u: a shift begins at a multiple of 32", tmem_lane(address));
        return false;
    }
    if (!tcgen_assume(w, in, (int)lane, "the direction of tcgen05.shift") ||
        !tcgen_owned(w, in, lane, tcgen_unit_of(w->cta), sides, tmem_column(address),
                     SHIFT_COLUMNS, "the shift"))
        return false;
    x = tcgen_op_new(w, in, lane, TCGEN_SHIFT, sizeof *x, shift_effect);
    if (!x)
        return false;
    x->sides = sides;
    x->lane = tmem_lane(address);
    x->column = tmem_column(address);
    tcgen_span_add(&x->op, sides, 3u << x->lane / 16, true, x->column, SHIFT_COLUMNS);
    return tcgen_issue(w, &x->op) != FLOW_TRAP;
}

enum flow op_tcgen_shift(struct warp *w, const struct inst *in, uint32_t mask)
{
    if (!tcgen_live_side(w, in, in->cta_group))
        return FLOW_TRAP;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!shift(w, in, (unsigned)__builtin_ctz(left)))
            return FLOW_TRAP;
    return FLOW_NEXT;
}
