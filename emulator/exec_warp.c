/*
 * Instructions of a whole warp: shuffles, votes, elections, 8x8 matrices.
 */
#include "exec.h"
#include "proxy.h"

#include "async.h"
#include "valid.h"

/*
 * Runs `body` for each set of lanes that name the same member mask, once all of the set have come.
 * A lane outside its own mask is an error.
 */
enum flow warp_by_member(struct warp *w, const struct inst *in, uint32_t mask,
                         const struct operand *members,
                         void (*body)(struct warp *w, const struct inst *in, uint32_t lanes,
                                      uint32_t member))
{
    if (!warp_need(w, in, members, mask, "the member mask"))
        return FLOW_TRAP;
    while (mask) {
        const unsigned first = (unsigned)__builtin_ctz(mask);
        const uint32_t member = (uint32_t)warp_value(w, members, first);
        uint32_t same = mask;
        if (members->kind != OPND_IMM)
            for (uint32_t left = mask; left; left &= left - 1) {
                const unsigned lane = (unsigned)__builtin_ctz(left);
                if ((uint32_t)warp_value(w, members, lane) != member)
                    same &= ~(1u << lane);
            }
        if (same & ~member)
            return warp_trap(w, in, __builtin_ctz(same & ~member), TRAP_MEMBERMASK,
                             "the mask is %08x", member);
        const uint32_t lanes = warp_gather(w, in, same, member);
        if (w->m->trapped)
            return FLOW_TRAP;
        if (lanes)
            body(w, in, lanes, member);
        mask &= ~same;
    }
    return FLOW_NEXT;
}

/* ---- shuffle ---- */

static void shuffle(struct warp *w, const struct inst *in, uint32_t lanes, uint32_t member)
{
    const uint32_t def_a = warp_defined(w, &in->o[2]);
    const uint32_t def_control = warp_defined(w, &in->o[3]) & warp_defined(w, &in->o[4]);
    const struct span s = span_of(lanes);
    uint32_t ignored = 0, ta[LANES], tb[LANES], tc[LANES], d[LANES];
    const struct span all = { UINT32_MAX, 0, LANES };
    const uint32_t *a = row32(w, &in->o[2], ta, all, &ignored);
    const uint32_t *b = row32(w, &in->o[3], tb, s, &ignored);
    const uint32_t *c = row32(w, &in->o[4], tc, s, &ignored);
    uint32_t defined = 0, in_range = 0;

    (void)member;
    for (uint32_t left = lanes; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const int value = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
        const int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
        int from;
        bool ok;
        switch (in->sub) {
        case SUB_UP:
            from = lane - value;
            ok = from >= most;
            break;
        case SUB_DOWN:
            from = lane + value;
            ok = from <= most;
            break;
        case SUB_BFLY:
            from = lane ^ value;
            ok = from <= most;
            break;
        default:
            from = least | (value & ~segment);
            ok = from <= most;
            break;
        }
        if (!ok)
            from = lane;
        d[lane] = a[from];
        in_range |= (uint32_t)ok << lane;
        /* What a lane that does not take part holds, nobody knows. */
        if (lanes >> from & 1 && def_a >> from & 1)
            defined |= 1u << lane;
    }
    put32(w, &in->o[0], s, d, defined & def_control);
    warp_set_pred(w, &in->o[1], lanes, in_range, def_control);
}

enum flow op_shfl(struct warp *w, const struct inst *in, uint32_t mask)
{
    return warp_by_member(w, in, mask, &in->o[5], shuffle);
}

/* ---- votes ---- */

static void vote(struct warp *w, const struct inst *in, uint32_t lanes, uint32_t member)
{
    const uint32_t values = warp_pred(w, &in->o[1]) & lanes;
    const uint32_t defined = lanes & ~warp_defined(w, &in->o[1]) ? 0 : UINT32_MAX;
    bool d = false;

    (void)member;
    switch (in->sub) {
    case SUB_BALLOT:
        for (uint32_t left = lanes; left; left &= left - 1)
            warp_set(w, &in->o[0], (unsigned)__builtin_ctz(left), values, defined);
        return;
    case SUB_ALL:
        d = values == lanes;
        break;
    case SUB_ANY:
        d = values != 0;
        break;
    default:
        d = values == lanes || !values;
        break;
    }
    warp_set_pred(w, &in->o[0], lanes, d ? UINT32_MAX : 0, defined);
}

enum flow op_vote(struct warp *w, const struct inst *in, uint32_t mask)
{
    return warp_by_member(w, in, mask, &in->o[2], vote);
}

static void match_any(struct warp *w, const struct inst *in, uint32_t lanes, uint32_t member)
{
    const uint32_t defined = lanes & ~warp_defined(w, &in->o[1]) ? 0 : UINT32_MAX;
    uint32_t result[LANES];

    (void)member;
    for (uint32_t left = lanes; left; left &= left - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(left);
        const uint64_t mine = warp_value(w, &in->o[1], lane);
        result[lane] = 0;
        for (uint32_t others = lanes; others; others &= others - 1) {
            const unsigned other = (unsigned)__builtin_ctz(others);
            if (warp_value(w, &in->o[1], other) == mine)
                result[lane] |= 1u << other;
        }
    }
    put32(w, &in->o[0], span_of(lanes), result, defined);
}

static void match_all(struct warp *w, const struct inst *in, uint32_t lanes, uint32_t member)
{
    const uint32_t defined = lanes & ~warp_defined(w, &in->o[2]) ? 0 : UINT32_MAX;
    const uint64_t first = warp_value(w, &in->o[2], (unsigned)__builtin_ctz(lanes));
    bool same = true;

    for (uint32_t left = lanes; left; left &= left - 1)
        same = same && warp_value(w, &in->o[2], (unsigned)__builtin_ctz(left)) == first;
    for (uint32_t left = lanes; left; left &= left - 1)
        warp_set(w, &in->o[0], (unsigned)__builtin_ctz(left), same ? member : 0, defined);
    warp_set_pred(w, &in->o[1], lanes, same ? UINT32_MAX : 0, defined);
}

enum flow op_match(struct warp *w, const struct inst *in, uint32_t mask)
{
    return warp_by_member(w, in, mask, &in->o[in->sub == SUB_ALL ? 3 : 2],
                     in->sub == SUB_ALL ? match_all : match_any);
}

static void reduce(struct warp *w, const struct inst *in, uint32_t lanes, uint32_t member)
{
    const uint32_t defined = lanes & ~warp_defined(w, &in->o[1]) ? 0 : UINT32_MAX;
    const bool is_signed = in->type[0] == TY_S32;
    uint32_t d = (uint32_t)warp_value(w, &in->o[1], (unsigned)__builtin_ctz(lanes));

    (void)member;
    for (uint32_t left = lanes & (lanes - 1); left; left &= left - 1) {
        const uint32_t v = (uint32_t)warp_value(w, &in->o[1], (unsigned)__builtin_ctz(left));
        const bool less = is_signed ? (int32_t)v < (int32_t)d : v < d;
        switch (in->sub) {
        case SUB_ADD: d += v; break;
        case SUB_MIN: d = less ? v : d; break;
        case SUB_MAX: d = less ? d : v; break;
        case SUB_AND: d &= v; break;
        case SUB_OR: d |= v; break;
        default: d ^= v; break;
        }
    }
    for (uint32_t left = lanes; left; left &= left - 1)
        warp_set(w, &in->o[0], (unsigned)__builtin_ctz(left), d, defined);
}

enum flow op_redux(struct warp *w, const struct inst *in, uint32_t mask)
{
    return warp_by_member(w, in, mask, &in->o[2], reduce);
}

/* The lowest lane of the mask, as hardware does. */
static void elect(struct warp *w, const struct inst *in, uint32_t lanes, uint32_t member)
{
    const unsigned leader = (unsigned)__builtin_ctz(lanes);

    (void)member;
    for (uint32_t left = lanes; left; left &= left - 1)
        warp_set(w, &in->o[0], (unsigned)__builtin_ctz(left), leader, true);
    warp_set_pred(w, &in->o[1], lanes, 1u << leader, UINT32_MAX);
}

enum flow op_elect(struct warp *w, const struct inst *in, uint32_t mask)
{
    return warp_by_member(w, in, mask, &in->o[2], elect);
}

static void nothing(struct warp *w, const struct inst *in, uint32_t lanes, uint32_t member)
{
    (void)w;
    (void)in;
    (void)lanes;
    (void)member;
}

enum flow op_bar_warp(struct warp *w, const struct inst *in, uint32_t mask)
{
    return warp_by_member(w, in, mask, &in->o[0], nothing);
}

enum flow op_activemask(struct warp *w, const struct inst *in, uint32_t mask)
{
    for (uint32_t left = mask; left; left &= left - 1)
        warp_set(w, &in->o[0], (unsigned)__builtin_ctz(left), mask, true);
    return FLOW_NEXT;
}

/* ---- 8x8 matrices of 16-bit elements ---- */

/*
 * Lane 8m + r gives the address of row r of matrix m. Register m of lane l holds the columns
 * 2 (l % 4) and the next of row l / 4, or of column l / 4 when transposed.
 */

/* 16 bytes of the same CTA's shared memory as those at `first`, which lane 0 has found. */
static bool beside(const struct place *found, uint64_t first, uint64_t at, unsigned lane,
                   struct place *out)
{
    const int64_t apart = (int64_t)(at - first), offset = (int64_t)found->offset + apart;

    if (lane == 0 || (at ^ first) >> SMEM_RANK_SHIFT || found->space != SP_SHARED ||
        offset < SMEM_START || offset + 16 > (int64_t)found->cta->smem_end)
        return false;
    *out = *found;
    out->data += apart;
    out->valid_at = (size_t)((int64_t)out->valid_at + apart);
    out->room = (size_t)((int64_t)out->room - apart);
    out->offset = (uint32_t)offset;
    return true;
}

static bool matrix_rows(struct warp *w, const struct inst *in, const struct operand *address,
                        enum access access, struct place rows[LANES])
{
    const unsigned count = in->vec * 8u;
    const uint32_t used = count == LANES ? UINT32_MAX : (1u << count) - 1;
    uint64_t first = 0;

    if (!warp_need(w, in, address, used, "the address"))
        return false;
    for (unsigned lane = 0; lane < count; lane++) {
        const uint64_t at = warp_address(w, address, lane);
        if (at & 15) {
            warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, at, "rows are multiples of 16 bytes");
            return false;
        }
        if (!beside(&rows[0], first, at, lane, &rows[lane]) &&
            !warp_place(w, in, lane, (enum space)in->space, at, 16, access, &rows[lane]))
            return false;
        if (lane == 0)
            first = at;
        if (rows[lane].space != SP_SHARED) {
            warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, at, "matrices lie in shared memory");
            return false;
        }
        if (!async_smem_touch(rows[lane].cta, rows[lane].offset, 16, access == ACCESS_WRITE)) {
            warp_trap_at(w, in, (int)lane, TRAP_MBARRIER_MEMORY, at, "a row of a matrix");
            return false;
        }
        if (access == ACCESS_WRITE)
            proxy_wrote(w, rows[lane].cta, rows[lane].offset, 16);
        else
            proxy_read(w, rows[lane].cta, rows[lane].offset, 16);
    }
    return true;
}

uint32_t warp_whole(struct warp *w, const struct inst *in, uint32_t mask)
{
    const uint32_t lanes = warp_gather(w, in, mask, UINT32_MAX);

    if (lanes && lanes != UINT32_MAX) {
        warp_trap(w, in, -1, TRAP_DIVERGENT, "needs a whole warp, has lanes %08x", lanes);
        return 0;
    }
    return lanes;
}

static enum flow outcome(const struct warp *w)
{
    return w->m->trapped ? FLOW_TRAP : FLOW_NEXT;
}

enum flow op_ldmatrix(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct program *program = w->grid->program;
    struct place rows[LANES];

    if (!warp_whole(w, in, mask))
        return outcome(w);
    if (!matrix_rows(w, in, &in->o[1], ACCESS_READ, rows))
        return FLOW_TRAP;
    for (unsigned m = 0; m < in->vec; m++) {
        const struct operand *to = operand_element(program, &in->o[0], m);
        const struct place *row = &rows[8 * m];
        for (unsigned lane = 0; lane < LANES; lane++) {
            uint32_t d = 0;
            bool defined = true;
            for (unsigned i = 0; i < 2; i++) {
                const unsigned j = 2 * (lane % 4) + i, k = lane / 4;
                const struct place *p = &row[in->flags & INST_TRANS ? j : k];
                const unsigned column = in->flags & INST_TRANS ? k : j;
                uint16_t e;
                memcpy(&e, p->data + 2 * column, 2);
                d |= (uint32_t)e << 16 * i;
                defined = defined && valid_get(p->valid, p->valid_at + 2 * column, 2) == 3;
            }
            warp_set(w, to, lane, d, defined);
        }
    }
    return FLOW_NEXT;
}

enum flow op_stmatrix(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct program *program = w->grid->program;
    struct place rows[LANES];

    if (!warp_whole(w, in, mask))
        return outcome(w);
    if (!matrix_rows(w, in, &in->o[0], ACCESS_WRITE, rows))
        return FLOW_TRAP;
    for (unsigned m = 0; m < in->vec; m++) {
        const struct operand *from = operand_element(program, &in->o[1], m);
        uint32_t t[LANES], defined = UINT32_MAX;
        const uint32_t *const v = row32(w, from, t, span_of(UINT32_MAX), &defined);
        const bool trans = in->flags & INST_TRANS;
        /* Lane 4 k + j holds columns 2 j and 2 j + 1 of row k, or with .trans rows of column k. */
        for (unsigned k = 0; k < 8; k++) {
            const struct place *p = &rows[8 * m + k];
            uint16_t row[8], valid = UINT16_MAX;
            if (trans)
                for (unsigned i = 0; i < 8; i++)
                    row[i] = (uint16_t)(v[4 * i + k / 2] >> k % 2 * 16);
            else
                memcpy(row, &v[4 * k], sizeof row);
            for (unsigned i = 0; defined != UINT32_MAX && i < 8; i++)
                if (!(defined >> (trans ? 4 * i + k / 2 : 4 * k + i / 2) & 1))
                    valid &= (uint16_t)~(3 << 2 * i);
            memcpy(p->data, row, sizeof row);
            valid_put(p->valid, p->valid_at, sizeof row, valid);
        }
    }
    machine_progress(w->m);
    return FLOW_NEXT;
}

enum flow op_movmatrix(struct warp *w, const struct inst *in, uint32_t mask)
{
    uint16_t element[8][8];
    uint32_t d[LANES], all = UINT32_MAX;

    if (!warp_whole(w, in, mask))
        return outcome(w);
    const uint32_t from = warp_defined(w, &in->o[1]);
    for (unsigned lane = 0; lane < LANES; lane++) {
        const uint32_t v = (uint32_t)warp_value(w, &in->o[1], lane);
        element[lane / 4][2 * (lane % 4)] = (uint16_t)v;
        element[lane / 4][2 * (lane % 4) + 1] = (uint16_t)(v >> 16);
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        const unsigned j = 2 * (lane % 4), k = lane / 4;
        d[lane] = element[j][k] | (uint32_t)element[j + 1][k] << 16;
        if (!(from >> (4 * j + k / 2) & 1) || !(from >> (4 * (j + 1) + k / 2) & 1))
            all &= ~(1u << lane);
    }
    put32(w, &in->o[0], span_of(UINT32_MAX), d, all);
    return FLOW_NEXT;
}
