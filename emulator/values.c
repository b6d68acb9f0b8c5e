/*
 * What operands are worth: registers, immediates, special registers, addresses.
 */
#include "exec.h"

#include <string.h>

static void tid(const struct warp *w, unsigned lane, unsigned out[3])
{
    const unsigned *block = w->grid->block;
    const unsigned n = w->id * LANES + lane;

    out[0] = n % block[0];
    out[1] = n / block[0] % block[1];
    out[2] = n / block[0] / block[1];
}

static uint64_t special(const struct warp *w, enum special s, unsigned lane)
{
    const struct grid *g = w->grid;
    const struct cta *cta = w->cta;
    const struct machine *m = w->m;
    const uint32_t bit = 1u << lane;
    unsigned t[3];

    switch (s) {
    case SR_TID_X: case SR_TID_Y: case SR_TID_Z:
        tid(w, lane, t);
        return t[s - SR_TID_X];
    case SR_NTID_X: case SR_NTID_Y: case SR_NTID_Z:
        return g->block[s - SR_NTID_X];
    case SR_CTAID_X: case SR_CTAID_Y: case SR_CTAID_Z:
        return cta->id[s - SR_CTAID_X];
    case SR_NCTAID_X: case SR_NCTAID_Y: case SR_NCTAID_Z:
        return g->dims[s - SR_NCTAID_X];
    case SR_CLUSTERID_X: case SR_CLUSTERID_Y: case SR_CLUSTERID_Z:
        return cta->id[s - SR_CLUSTERID_X] / g->cluster[s - SR_CLUSTERID_X];
    case SR_NCLUSTERID_X: case SR_NCLUSTERID_Y: case SR_NCLUSTERID_Z:
        return g->dims[s - SR_NCLUSTERID_X] / g->cluster[s - SR_NCLUSTERID_X];
    case SR_CLUSTER_CTAID_X: case SR_CLUSTER_CTAID_Y: case SR_CLUSTER_CTAID_Z:
        return cta->id[s - SR_CLUSTER_CTAID_X] % g->cluster[s - SR_CLUSTER_CTAID_X];
    case SR_CLUSTER_NCTAID_X: case SR_CLUSTER_NCTAID_Y: case SR_CLUSTER_NCTAID_Z:
        return g->cluster[s - SR_CLUSTER_NCTAID_X];
    case SR_CLUSTER_CTARANK:
        return cta->rank;
    case SR_CLUSTER_NCTARANK:
        return g->cluster_size;
    case SR_IS_EXPLICIT_CLUSTER:
        return g->launch->explicit_cluster;
    case SR_LANEID:
        return lane;
    case SR_WARPID:
        return w->id;
    case SR_NWARPID:
        return m->limits.warps;
    case SR_SMID:
        return cta->sm;
    case SR_NSMID:
        return m->config.sms;
    case SR_GRIDID:
        return g->launch->grid_id;
    case SR_LANEMASK_EQ:
        return bit;
    case SR_LANEMASK_LT:
        return bit - 1;
    case SR_LANEMASK_LE:
        return bit | (bit - 1);
    case SR_LANEMASK_GT:
        return ~(bit | (bit - 1));
    case SR_LANEMASK_GE:
        return ~(bit - 1);
    case SR_CLOCK: case SR_GLOBALTIMER_LO:
        return (uint32_t)m->now;
    case SR_CLOCK_HI: case SR_GLOBALTIMER_HI:
        return m->now >> 32;
    case SR_CLOCK64: case SR_GLOBALTIMER:
        return m->now;
    case SR_DYNAMIC_SMEM_SIZE:
        return g->launch->dynamic_smem;
    case SR_TOTAL_SMEM_SIZE:
        return g->smem;
    case SR_AGGR_SMEM_SIZE:
        return g->smem + m->limits.smem_reserved;
    case SR_RESERVED_SMEM_END: case SR_RESERVED_SMEM_CAP:
        return SMEM_START;
    case SR_ENVREG1:
        return g->launch->grid_barrier >> 32;
    case SR_ENVREG2:
        return (uint32_t)g->launch->grid_barrier;
    case SR_RESERVED_SMEM_BEGIN: case SR_RESERVED_SMEM_0: case SR_RESERVED_SMEM_1:
    case SR_CURRENT_GRAPH_EXEC: case SR_PM0: case SR_COUNT:
        break;
    }
    return 0;
}

uint64_t warp_address(const struct warp *w, const struct operand *op, unsigned lane)
{
    uint64_t base = 0;

    switch ((enum addr_base)op->base) {
    case ADDR_ABS:
        break;
    case ADDR_REG:
        if (op->bank == BANK_32)
            return (uint32_t)(w->r.r32[op->reg][lane] + (uint64_t)op->off);
        base = w->r.r64[op->reg][lane];
        break;
    case ADDR_PARAM:
        base = PARAM_START;
        break;
    case ADDR_FRAME:
        base = w->frame;
        break;
    case ADDR_SHARED:
        base = (uint64_t)w->cta->rank << SMEM_RANK_SHIFT | SMEM_START;
        break;
    case ADDR_SYMBOL:
        base = w->grid->program->symbols[op->reg].address;
        break;
    }
    return base + (uint64_t)op->off;
}

uint32_t warp_address_defined(const struct warp *w, const struct operand *op)
{
    if (op->kind != OPND_ADDR || op->base != ADDR_REG)
        return UINT32_MAX;
    return op->bank == BANK_32 ? w->r.def32[op->reg] : w->r.def64[op->reg];
}

uint64_t warp_value(const struct warp *w, const struct operand *op, unsigned lane)
{
    switch ((enum operand_kind)op->kind) {
    case OPND_REG:
        if (op->bank == BANK_32)
            return w->r.r32[op->reg][lane];
        if (op->bank == BANK_64)
            return w->r.r64[op->reg][lane];
        return ((w->r.pred[op->reg] >> lane) & 1) ^ op->negated;
    case OPND_IMM:
    case OPND_LABEL:
        return op->imm;
    case OPND_SPECIAL:
        return special(w, (enum special)op->reg, lane) ^ (op->negated ? 1 : 0);
    case OPND_ADDR:
        return warp_address(w, op, lane);
    case OPND_FUNC:
        return FUNCTION_ADDRESS + op->reg;
    case OPND_NONE:
    case OPND_SINK:
    case OPND_VEC:
        break;
    }
    return 0;
}

uint32_t warp_defined(const struct warp *w, const struct operand *op)
{
    if (op->kind == OPND_REG) {
        if (op->bank == BANK_32)
            return w->r.def32[op->reg];
        return op->bank == BANK_64 ? w->r.def64[op->reg] : w->r.defp[op->reg];
    }
    return op->kind == OPND_ADDR ? warp_address_defined(w, op) : UINT32_MAX;
}

void warp_set(struct warp *w, const struct operand *op, unsigned lane, uint64_t value, bool defined)
{
    const uint32_t bit = 1u << lane;
    uint32_t *def;

    if (op->kind != OPND_REG)
        return;
    switch ((enum bank)op->bank) {
    case BANK_32:
        w->r.r32[op->reg][lane] = (uint32_t)value;
        def = &w->r.def32[op->reg];
        break;
    case BANK_64:
        w->r.r64[op->reg][lane] = value;
        def = &w->r.def64[op->reg];
        break;
    default:
        w->r.pred[op->reg] = (w->r.pred[op->reg] & ~bit) | (value & 1 ? bit : 0);
        def = &w->r.defp[op->reg];
        break;
    }
    *def = defined ? *def | bit : *def & ~bit;
}

uint32_t warp_pred(const struct warp *w, const struct operand *op)
{
    uint32_t values = 0;

    if (op->kind == OPND_REG)
        values = w->r.pred[op->reg];
    else if (op->kind == OPND_IMM)
        values = op->imm ? UINT32_MAX : 0;
    else if (op->kind == OPND_SPECIAL)
        values = special(w, (enum special)op->reg, 0) ? UINT32_MAX : 0;
    return op->negated ? ~values : values;
}

void warp_set_pred(struct warp *w, const struct operand *op, uint32_t lanes, uint32_t values,
                   uint32_t defined)
{
    if (op->kind != OPND_REG)
        return;
    w->r.pred[op->reg] = (w->r.pred[op->reg] & ~lanes) | (values & lanes);
    w->r.defp[op->reg] = (w->r.defp[op->reg] & ~lanes) | (defined & lanes);
}

bool warp_need(struct warp *w, const struct inst *in, const struct operand *op, uint32_t mask,
               const char *what)
{
    const uint32_t missing = mask & ~warp_defined(w, op);

    if (!missing)
        return true;
    warp_trap(w, in, __builtin_ctz(missing), TRAP_UNDEFINED, "%s: lanes %08x", what, missing);
    return false;
}

/* Lanes whose element of a row is that of `lane`: most often all, which the first loop finds. */
#define SAME_IN_ROW(row) do { \
        for (unsigned l = 0; l < LANES; l++) \
            differ |= (row)[l] ^ (row)[lane]; \
        for (unsigned l = 0; differ && l < LANES; l++) \
            same |= (uint32_t)((row)[l] == (row)[lane]) << l; \
        return differ ? same : UINT32_MAX; \
    } while (0)

static uint32_t same_in_row32(const uint32_t row[LANES], unsigned lane)
{
    uint32_t differ = 0, same = 0;

    SAME_IN_ROW(row);
}

static uint32_t same_in_row64(const uint64_t row[LANES], unsigned lane)
{
    uint64_t differ = 0;
    uint32_t same = 0;

    SAME_IN_ROW(row);
}

uint32_t warp_same(const struct warp *w, const struct operand *op, uint32_t mask, unsigned lane)
{
    uint32_t same = 0;

    if (op->kind == OPND_REG || (op->kind == OPND_ADDR && op->base == ADDR_REG))
        switch ((enum bank)op->bank) {
        case BANK_32: return mask & same_in_row32(w->r.r32[op->reg], lane);
        case BANK_64: return mask & same_in_row64(w->r.r64[op->reg], lane);
        default: return mask & (w->r.pred[op->reg] >> lane & 1 ? w->r.pred[op->reg]
                                                               : ~w->r.pred[op->reg]);
        }
    if (op->kind != OPND_SPECIAL)
        return mask;
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        same |= (uint32_t)(warp_value(w, op, l) == warp_value(w, op, lane)) << l;
    }
    return same;
}

bool warp_uniform(struct warp *w, const struct inst *in, const struct operand *op, uint32_t mask,
                  const char *what, uint64_t *value)
{
    if (!warp_need(w, in, op, mask, what))
        return false;
    const unsigned first = (unsigned)__builtin_ctz(mask);
    const uint32_t others = mask & ~warp_same(w, op, mask, first);
    *value = warp_value(w, op, first);
    if (!others)
        return true;
    const unsigned lane = (unsigned)__builtin_ctz(others);
    warp_trap(w, in, (int)lane, TRAP_MISMATCH, "%s: this lane has 0x%llx, lane %u has 0x%llx", what,
              (unsigned long long)warp_value(w, op, lane), first, (unsigned long long)*value);
    return false;
}

/* ---- whole rows for arithmetic ---- */

/* Special registers that differ from lane to lane. */
static bool is_per_lane(const struct operand *op)
{
    return op->kind == OPND_SPECIAL &&
           (op->reg <= SR_TID_Z || op->reg == SR_LANEID ||
            (op->reg >= SR_LANEMASK_EQ && op->reg <= SR_LANEMASK_GT));
}

const uint32_t *row32_slow(const struct warp *w, const struct operand *op, uint32_t *tmp,
                           struct span s)
{
    if (op->kind == OPND_REG || is_per_lane(op) ||
        (op->kind == OPND_ADDR && op->base == ADDR_REG)) {
        const bool line = op->kind == OPND_SPECIAL && op->reg == SR_TID_X &&
                          w->grid->block[0] >= w->grid->threads;
        for (unsigned l = s.lo; l < s.hi; l++)
            tmp[l] = line ? w->id * LANES + l : (uint32_t)warp_value(w, op, l);
        return tmp;
    }
    const uint32_t v = op->kind == OPND_IMM ? (uint32_t)op->imm : (uint32_t)warp_value(w, op, s.lo);
    for (unsigned l = s.lo; l < s.hi; l++)
        tmp[l] = v;
    return tmp;
}

const uint64_t *row64_slow(const struct warp *w, const struct operand *op, uint64_t *tmp,
                           struct span s)
{
    if (op->kind == OPND_REG || is_per_lane(op) ||
        (op->kind == OPND_ADDR && op->base == ADDR_REG)) {
        for (unsigned l = s.lo; l < s.hi; l++)
            tmp[l] = warp_value(w, op, l);
        return tmp;
    }
    const uint64_t v = op->kind == OPND_IMM ? op->imm : warp_value(w, op, s.lo);
    for (unsigned l = s.lo; l < s.hi; l++)
        tmp[l] = v;
    return tmp;
}

void put32_slow(struct warp *w, const struct operand *op, uint32_t mask, const uint32_t *row,
                uint32_t defined)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        warp_set(w, op, l, row[l], (defined >> l) & 1);
    }
}

void put64_slow(struct warp *w, const struct operand *op, uint32_t mask, const uint64_t *row,
                uint32_t defined)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        warp_set(w, op, l, row[l], (defined >> l) & 1);
    }
}
