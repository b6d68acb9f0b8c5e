/* tcgen05.ld and st: the 32 lanes of Tensor Memory that a warp reaches, and its registers.
 *
 * Thread T, register r, relative to the address (16-lane shapes begin at lane 0 or 16 of the
 * warp's quarter):
 *
 *     32x32b     lane T                      column r
 *     16x64b     lane T/4 + 8 (T%2)          column (T/2)%2 + 2r
 *     16x128b    lane T/4 + 8 (r%2)          column T%4 + 4 (r/2)
 *     16x256b    lane T/4 + 8 ((r/2)%2)      column r%2 + 2 (T%4) + 8 (r/4)
 *     16x32bx2   lane T%16                   column r + (T/16) split
 *
 * With 16-bit packing a register holds the low halves of two columns, and columns count double.
 */
#include "tcgen.h"

enum { MOST_REGISTERS = 128 };

struct transfer {
    struct tcgen_op op;
    struct tmem *tmem;
    enum tcgen_shape shape;
    unsigned lane, column;      /* of the address; lane of the 128 */
    unsigned columns;           /* first to last that is touched, the split not counted */
    uint32_t split;
    bool pack;
    unsigned count;             /* registers */
    struct regs regs;           /* of the call depth that issues */
    uint16_t reg[MOST_REGISTERS];
    uint32_t data[MOST_REGISTERS][LANES];       /* of a store */
    uint32_t defined[MOST_REGISTERS];
};

/* ---- the map --------------------------------------------------------------------------------- */

struct cell {
    unsigned lane, column;      /* relative; column in registers' units */
    uint32_t split;             /* more columns, never doubled */
};

static struct cell cell_of(enum tcgen_shape shape, unsigned t, unsigned r, uint32_t split)
{
    switch (shape) {
    case SHAPE_16X64B:
        return (struct cell){t / 4 + 8 * (t % 2), t / 2 % 2 + 2 * r, 0};
    case SHAPE_16X128B:
        return (struct cell){t / 4 + 8 * (r % 2), t % 4 + 4 * (r / 2), 0};
    case SHAPE_16X256B:
        return (struct cell){t / 4 + 8 * (r / 2 % 2), r % 2 + 2 * (t % 4) + 8 * (r / 4), 0};
    case SHAPE_16X32BX2:
        return (struct cell){t % 16, r, t / 16 * split};
    default:
        return (struct cell){t, r, 0};
    }
}

static unsigned columns_of(enum tcgen_shape shape, unsigned repetitions, bool pack)
{
    const unsigned each = shape == SHAPE_16X64B ? 2 : shape == SHAPE_16X128B ? 4 :
        shape == SHAPE_16X256B ? 8 : 1;

    return each * repetitions * (pack ? 2 : 1);
}

/* ---- taking effect --------------------------------------------------------------------------- */

static void read_rows(const struct transfer *t)
{
    const struct tmem *tm = t->tmem;
    bool all = true;

    for (unsigned l = 0; l < LANES; l++)
        all = all && tmem_all_valid(tm, t->lane + l, t->column, t->columns);
    for (unsigned r = 0; r < t->count; r++) {
        uint32_t *to = t->regs.r32[t->reg[r]];
        uint32_t defined = 0;

        for (unsigned l = 0; l < LANES; l++)
            to[l] = tm->cell[t->lane + l][t->column + r];
        for (unsigned l = 0; !all && l < LANES; l++)
            defined |= (uint32_t)tmem_is_valid(tm, t->lane + l, t->column + r) << l;
        t->regs.def32[t->reg[r]] = all ? UINT32_MAX : defined;
    }
}

static void read_cells(const struct transfer *t)
{
    const struct tmem *tm = t->tmem;

    for (unsigned r = 0; r < t->count; r++) {
        uint32_t defined = 0;

        for (unsigned l = 0; l < LANES; l++) {
            const struct cell c = cell_of(t->shape, l, r, t->split);
            const unsigned lane = t->lane + c.lane;
            unsigned column = t->column + c.split + c.column * (t->pack ? 2 : 1);
            uint32_t value = tm->cell[lane][column];
            bool valid = tmem_is_valid(tm, lane, column);

            if (t->pack) {
                column++;
                value = (value & 0xffff) | tm->cell[lane][column] << 16;
                valid = valid && tmem_is_valid(tm, lane, column);
            }
            t->regs.r32[t->reg[r]][l] = value;
            defined |= (uint32_t)valid << l;
        }
        t->regs.def32[t->reg[r]] = defined;
    }
}

static void ld_effect(struct machine *m, struct tcgen_op *op)
{
    struct transfer *t = (struct transfer *)op;
    struct warp *w = &op->unit->sides[op->side].cta->warps[op->job.site.warp];

    (void)m;
    if (t->shape == SHAPE_32X32B && !t->pack)
        read_rows(t);
    else
        read_cells(t);
    for (unsigned r = 0; r < t->count; r++) {
        uint8_t *busy = &t->regs.busy32[t->reg[r]];

        w->busy -= *busy != 0;
        *busy = 0;
    }
}

static void put(struct transfer *t, unsigned lane, unsigned column, uint32_t value, bool defined)
{
    t->tmem->cell[lane][column] = value;
    tmem_set_valid(t->tmem, lane, column, 1, defined);
}

static void st_effect(struct machine *m, struct tcgen_op *op)
{
    struct transfer *t = (struct transfer *)op;

    (void)m;
    for (unsigned r = 0; r < t->count; r++)
        for (unsigned l = 0; l < LANES; l++) {
            const struct cell c = cell_of(t->shape, l, r, t->split);
            const unsigned lane = t->lane + c.lane;
            const unsigned column = t->column + c.split + c.column * (t->pack ? 2 : 1);
            const uint32_t value = t->data[r][l];
            const bool defined = t->defined[r] >> l & 1;

            if (!t->pack) {
                put(t, lane, column, value, defined);
                continue;
            }
            /* The upper halves of the cells get nothing that anybody may count on. */
            put(t, lane, column, 0x7fff0000 | (value & 0xffff), defined);
            put(t, lane, column + 1, 0x7fff0000 | value >> 16, defined);
        }
}

bool tcgen_ld_names(const struct tcgen_op *op, const struct warp *w, const struct inst *in)
{
    const struct transfer *t = (const struct transfer *)op;
    const struct program *p = w->grid->program;

    if (t->regs.r32 != w->r.r32)
        return false;
    for (unsigned i = 0; i < in->nopnd; i++) {
        const struct operand *o = &in->o[i];
        const unsigned n = o->kind == OPND_VEC ? o->n : 1;

        for (unsigned k = 0; k < n; k++) {
            const struct operand *e = operand_element(p, o, k);

            if (e->bank != BANK_32 || (e->kind != OPND_REG &&
                                       !(e->kind == OPND_ADDR && e->base == ADDR_REG)))
                continue;
            for (unsigned r = 0; r < t->count; r++)
                if (t->reg[r] == e->reg)
                    return true;
        }
    }
    return false;
}

/* ---- issue ----------------------------------------------------------------------------------- */

/* One address for the whole warp. */
static bool address_of(struct warp *w, const struct inst *in, const struct operand *op,
                       uint32_t *address)
{
    if (!async_need_address(w, in, op, UINT32_MAX, "the address in Tensor Memory") ||
        !tcgen_address(w, in, 0, op, "the address", address))
        return false;
    for (unsigned lane = 1; lane < LANES; lane++)
        if ((uint32_t)warp_address(w, op, lane) != *address) {
            warp_trap(w, in, (int)lane, TRAP_MISMATCH, "lane 0 names the address 0x%08x, lane %u "
                      "0x%08x: a warp has one", *address, lane,
                      (unsigned)warp_address(w, op, lane));
            return false;
        }
    return true;
}

/* The first lane: of the warp's own quarter, and where its shape may begin. */
static bool lane_of(struct warp *w, const struct inst *in, uint32_t address, unsigned *lane)
{
    const unsigned named = tmem_lane(address), own = w->id % 4, within = named % 32;

    if (named / 32 != 0 && named / 32 != own) {
        warp_trap_at(w, in, -1, TRAP_TENSOR_MEMORY, address, "lane %u: warp %u reaches lanes %u to "
                     "%u only", named, w->id, 32 * own, 32 * own + 31);
        return false;
    }
    if (in->shape == SHAPE_32X32B ? within != 0 : within % 16 != 0) {
        warp_trap_at(w, in, -1, TRAP_TENSOR_MEMORY, address, "lane %u: the shape begins at lane 0%s "
                     "of a quarter", named, in->shape == SHAPE_32X32B ? "" : " or 16");
        return false;
    }
    *lane = 32 * own + within;
    return true;
}

static struct transfer *transfer_new(struct warp *w, const struct inst *in, enum tcgen_class class,
                                     const struct operand *at, const struct operand *split,
                                     const struct operand *list)
{
    const struct program *p = w->grid->program;
    const bool pack = in->flags & INST_PACK;
    const unsigned columns = columns_of((enum tcgen_shape)in->shape, in->vec, pack);
    struct tcgen_side *side = tcgen_side_of(w, in, 0);
    const unsigned bit = 1u << tcgen_side_number(w->cta);
    struct transfer *t;
    uint32_t address, second = 0;
    unsigned lane, lanes;

    if (!side || !address_of(w, in, at, &address) || !lane_of(w, in, address, &lane))
        return NULL;
    if (in->shape == SHAPE_16X32BX2) {
        second = (uint32_t)split->imm;
        if ((int32_t)second < 0 || second > TMEM_COLUMNS) {
            warp_trap(w, in, -1, TRAP_TENSOR_MEMORY, "the second half is %d columns away",
                      (int32_t)second);
            return NULL;
        }
    }
    if (!tcgen_owned(w, in, 0, tcgen_unit_of(w->cta), bit, tmem_column(address), columns,
                     "the warp's access") ||
        (second && !tcgen_owned(w, in, 0, tcgen_unit_of(w->cta), bit, tmem_column(address) + second,
                                columns, "the second half of the warp's access")))
        return NULL;
    t = tcgen_op_new(w, in, 0, class, class == TCGEN_LD ? offsetof(struct transfer, data)
                                                        : sizeof *t,
                     class == TCGEN_LD ? ld_effect : st_effect);
    if (!t)
        return NULL;
    t->tmem = side->tmem;
    t->shape = (enum tcgen_shape)in->shape;
    t->lane = lane;
    t->column = tmem_column(address);
    t->columns = columns;
    t->split = second;
    t->pack = pack;
    t->count = list->n;
    t->regs = w->r;
    for (unsigned i = 0; i < t->count; i++)
        t->reg[i] = (uint16_t)operand_element(p, list, i)->reg;
    lanes = (in->shape == SHAPE_32X32B ? 3u : 1u) << lane / 16;
    tcgen_span_add(&t->op, bit, lanes, class == TCGEN_ST, t->column, columns);
    if (second)
        tcgen_span_add(&t->op, bit, lanes, class == TCGEN_ST, t->column + second, columns);
    return t;
}

static bool whole_warp(struct warp *w, const struct inst *in, uint32_t mask)
{
    mask = warp_gather(w, in, mask, UINT32_MAX);
    if (mask && mask != UINT32_MAX)
        warp_trap(w, in, -1, TRAP_DIVERGENT, "needs a whole warp, has lanes %08x", mask);
    return mask == UINT32_MAX;
}

enum flow op_tcgen_ld(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct transfer *t;

    if (!whole_warp(w, in, mask))
        return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
    t = transfer_new(w, in, TCGEN_LD, &in->o[1], &in->o[2], &in->o[0]);
    if (!t)
        return FLOW_TRAP;
    for (unsigned i = 0; i < t->count; i++) {
        uint8_t *busy = &t->regs.busy32[t->reg[i]];

        w->busy += *busy == 0;
        *busy = 1;
    }
    return tcgen_issue(w, &t->op);
}

enum flow op_tcgen_st(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct program *p = w->grid->program;
    struct transfer *t;

    if (!whole_warp(w, in, mask))
        return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
    t = transfer_new(w, in, TCGEN_ST, &in->o[0], &in->o[1], &in->o[2]);
    if (!t)
        return FLOW_TRAP;
    for (unsigned i = 0; i < t->count; i++) {
        const struct operand *e = operand_element(p, &in->o[2], i);

        t->defined[i] = warp_defined(w, e);
        for (unsigned l = 0; l < LANES; l++)
            t->data[i][l] = (uint32_t)warp_value(w, e, l);
    }
    return tcgen_issue(w, &t->op);
}

enum flow op_tcgen_ld_red(struct warp *w, const struct inst *in, uint32_t mask)
{
    (void)mask;
    return exec_refuse(w, in, "tcgen05.ld.red (sm_103)");
}
