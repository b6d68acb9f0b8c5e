/* tcgen05.mma.
 *
 * Where row m, column n of D lies in Tensor Memory, relative to D's address (r: CTA of the pair):
 *
 *     layout D  one CTA, M = 128    lane m                        column n
 *     layout F  one CTA, M = 64     lane 32 (m/16) + m%16 + base  column n        base 0 or 16
 *     layout A  pair, M = 256       r = m/128, lane m%128         column n
 *     layout B  pair, M = 128       r = m/64,  lane m%64 + 64h    column n%(N/2)  h = n/(N/2)
 *     layout E  .ws, M = 64         lane m + 64h                  column n%(N/2)  h = n/(N/2)
 *     layout G  .ws, M = 32         lane m + 32h                  column n%(N/4)  h = n/(N/4)
 *
 * .ws, M = 128, is layout D. A in Tensor Memory has D's lanes (layouts B, E, G: all rows once for
 * each h) and eight columns. A pair's CTA supplies its own rows of A, and half of the rows of B.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tcgen.h"
#include "tensor_scaled.h"

enum { A_COLUMNS = 8, MOST_ROWS = 128, MOST_N = 256 };

enum layout { LAYOUT_A, LAYOUT_B, LAYOUT_D, LAYOUT_E, LAYOUT_F, LAYOUT_G };

struct mma {
    struct tcgen_op op;
    struct tcgen_shape_of shape;
    enum layout layout;
    unsigned group, sides;      /* bit s: side s takes part */
    bool keep, a_in_tmem;
    struct tcgen_matrix a, b;
    struct tcgen_access how_a, how_b;
    unsigned d_column, base;    /* base lane of layout F */
    unsigned a_column;
    unsigned sfa, sfb;          /* columns of the scale factors */
    bool masked;
    uint32_t keep_lanes[8];     /* bit i of the whole: D lane i is not written */
    unsigned scale;             /* of the old D: 2^-scale */
};

/* ---- what everything is ---------------------------------------------------------------------- */

static unsigned rows_per_cta(const struct mma *x)
{
    return x->shape.m / x->group;
}

/* Parts of D's columns that lie in lanes of their own. */
static unsigned parts(const struct mma *x)
{
    return x->layout == LAYOUT_G ? 4 : x->layout == LAYOUT_B || x->layout == LAYOUT_E ? 2 : 1;
}

static unsigned d_columns(const struct mma *x)
{
    return x->shape.n / parts(x);
}

static unsigned factors(const struct tensor_kind *kind)
{
    return kind->scale == TENSOR_UNSCALED ? 0 : kind->k / kind->block;
}

/* The lane of row `row` of a CTA's part of D in part h of the columns. */
static unsigned lane_of(const struct mma *x, unsigned row, unsigned h)
{
    return x->layout == LAYOUT_F ? 32 * (row / 16) + row % 16 + x->base
                                 : row + TMEM_LANES / parts(x) * h;
}

static unsigned lane_groups(const struct mma *x)
{
    return x->layout == LAYOUT_F ? 0x55u << x->base / 16 : 0xff;
}

static enum tcgen_pack pack_of(const struct tensor_kind *kind, enum tensor_format format)
{
    if (kind->groups)
        return TCGEN_WHOLE;
    return format == TENSOR_E2M1 ? TCGEN_4_OF_16 :
        format == TENSOR_E2M3 || format == TENSOR_E3M2 ? TCGEN_6_OF_16 : TCGEN_WHOLE;
}

static struct tcgen_access access_of(const struct tensor_kind *kind, enum tensor_format format,
                                     bool mn_major)
{
    const unsigned bits = tensor_element_bits(kind, format);

    return (struct tcgen_access){
        .mn_major = mn_major, .bytes = (uint8_t)(bits < 8 ? 1 : bits / 8), .chunks = 2,
        .pack = pack_of(kind, format),
    };
}

/* ---- operands -------------------------------------------------------------------------------- */

struct operands {
    uint8_t (*rows)[TENSOR_ROW_BYTES];
    bool a_defined[MOST_ROWS], b_defined[MOST_N];
    uint8_t scale_a[MOST_ROWS][TENSOR_MOST_SCALES], scale_b[MOST_N][TENSOR_MOST_SCALES];
};

static bool gather(struct machine *m, const struct mma *x, const struct tcgen_side *side,
                   const struct tcgen_matrix *matrix, const struct tcgen_access *how,
                   unsigned rows, uint8_t (*out)[TENSOR_ROW_BYTES], bool *defined)
{
    const struct cta *cta = side->cta;
    const struct wgmma_memory memory = {cta->bytes, cta->valid, SMEM_START, cta->smem_end, NULL};
    uint32_t fault;

    if (tcgen_gather(matrix, how, rows, &memory, out, defined, &fault))
        return true;
    machine_trap_at(m, &x->op.job.site, TRAP_BOUNDS, fault,
                    "tcgen05.mma reads outside of the shared memory of CTA rank %u", cta->rank);
    return false;
}

/* Narrow elements of A in Tensor Memory: one a byte, e2m1 in bits 2-5, the others in bits 0-5. */
static void narrow_row(enum tensor_format format, uint8_t *row)
{
    const unsigned shift = format == TENSOR_E2M1 ? 2 : 0, mask = format == TENSOR_E2M1 ? 15 : 63;

    for (unsigned i = 0; i < TENSOR_ROW_BYTES; i++)
        row[i] = (uint8_t)(row[i] >> shift & mask);
}

static bool read_a(struct machine *m, const struct mma *x, const struct tcgen_side *side,
                   unsigned h, struct operands *o)
{
    const unsigned rows = rows_per_cta(x);

    if (!x->a_in_tmem)
        return gather(m, x, side, &x->a, &x->how_a, rows, o->rows, o->a_defined);
    for (unsigned r = 0; r < rows; r++) {
        const unsigned lane = lane_of(x, r, h);

        memcpy(o->rows[r], &side->tmem->cell[lane][x->a_column], TENSOR_ROW_BYTES);
        if (x->how_a.pack != TCGEN_WHOLE)
            narrow_row(x->shape.kind.a, o->rows[r]);
        o->a_defined[r] = tmem_all_valid(side->tmem, lane, x->a_column, A_COLUMNS);
    }
    return true;
}

/* Rows of B for part h of D's columns: those of the pair's CTAs in turn where there is but one. */
static bool read_b(struct machine *m, const struct mma *x, unsigned h, struct operands *o)
{
    const struct tcgen_side *sides = x->op.unit->sides;
    const unsigned each = x->shape.n / x->group;

    if (x->group == 1) {
        const unsigned n = d_columns(x);

        if (!gather(m, x, &sides[x->op.side], &x->b, &x->how_b, each, o->rows, o->b_defined))
            return false;
        memmove(o->rows, o->rows + n * h, n * sizeof *o->rows);
        memmove(o->b_defined, o->b_defined + n * h, n * sizeof *o->b_defined);
        return true;
    }
    if (x->layout == LAYOUT_B)
        return gather(m, x, &sides[h], &x->b, &x->how_b, each, o->rows, o->b_defined);
    return gather(m, x, &sides[0], &x->b, &x->how_b, each, o->rows, o->b_defined) &&
           gather(m, x, &sides[1], &x->b, &x->how_b, each, o->rows + each, o->b_defined + each);
}

/* Scale factors of `rows` rows from `column` on: row i in lane i%32 of quarters [first, end), all
 * copies alike, column i/32. */
static bool read_scales(struct machine *m, const struct mma *x, const struct tcgen_side *side,
                        unsigned column, unsigned id, unsigned rows, unsigned first, unsigned end,
                        const char *what, uint8_t (*scales)[TENSOR_MOST_SCALES], bool *defined)
{
    const unsigned n = factors(&x->shape.kind);
    const uint32_t mask = (n == 4 ? UINT32_MAX : (1u << 8 * n) - 1) << 8 * id;
    const struct tmem *t = side->tmem;

    for (unsigned i = 0; i < rows; i++) {
        const unsigned at = column + i / 32;
        const uint32_t cell = t->cell[32 * first + i % 32][at];

        for (unsigned q = first; q < end; q++) {
            const unsigned lane = 32 * q + i % 32;

            if (!tmem_is_valid(t, lane, at)) {
                defined[i] = false;
            } else if (defined[i] && (t->cell[lane][at] ^ cell) & mask) {
                machine_trap(m, &x->op.job.site, TRAP_TENSOR_MEMORY, "scale factors of %s: lanes "
                             "%u and %u of column %u differ (0x%08x, 0x%08x), every quarter needs "
                             "the same", what, 32 * first + i % 32, lane, at, cell,
                             t->cell[lane][at]);
                return false;
            }
        }
        for (unsigned k = 0; k < n; k++)
            scales[i][k] = (uint8_t)(cell >> 8 * (id + k));
    }
    return true;
}

/* ---- D --------------------------------------------------------------------------------------- */

static void step(const struct mma *x, struct async_scratch *s, const struct operands *o, bool keep,
                 uint32_t *d, unsigned pitch)
{
    const struct tensor_kind *kind = &x->shape.kind;

    if (kind->scale == TENSOR_UNSCALED)
        tensor_step(kind, &s->a, &s->b, keep, d, pitch);
    else
        tensor_step_scaled(kind, &s->a, &s->b, o->scale_a, o->scale_b, keep, d, pitch);
}

/* The old D times 2^-scale. False: that needs a rounding, which nobody knows. */
static bool scale_old(const struct mma *x, uint32_t *d)
{
    if (x->shape.kind.d == TENSOR_TO_F16) {
        const uint32_t magnitude = *d & 0x7fff;
        const uint32_t exponent = magnitude >> 10;

        if (magnitude == 0 || exponent == 31)
            return true;
        if (exponent > x->scale) {
            *d = (*d & 0x8000) | (magnitude - (x->scale << 10));
            return true;
        }
        const uint32_t significand = (magnitude & 0x3ff) | (exponent ? 0x400 : 0);
        const uint32_t shift = x->scale - (exponent ? exponent - 1 : 0);

        *d = (*d & 0x8000) | significand >> shift;
        return shift < 32 && (significand & ((1u << shift) - 1)) == 0;
    }
    float f;
    double exact;

    memcpy(&f, d, sizeof f);
    if (f != f)
        return true;
    exact = ldexp((double)f, -(int)x->scale);
    f = (float)exact;
    memcpy(d, &f, sizeof f);
    return (double)f == exact;
}

static bool lane_stays(const struct mma *x, unsigned side, unsigned lane)
{
    const unsigned word = lane / 32 + (x->group == 2 ? 4 * side : 0);

    return x->masked && x->keep_lanes[word] >> lane % 32 & 1;
}

/* D by way of a tile of its own: layout F, lanes that stay, a scaled old D. */
static bool step_aside(struct machine *m, const struct mma *x, struct async_scratch *s,
                       const struct operands *o, unsigned number, struct tmem *t, unsigned h)
{
    const unsigned rows = s->a.rows, n = s->b.rows;
    uint32_t *tile = aligned_alloc(64, (size_t)rows * MOST_N * sizeof *tile);
    bool exact = true;

    if (!tile) {
        machine_trap(m, &x->op.job.site, TRAP_MEMORY, "a tile of D");
        return false;
    }
    for (unsigned r = 0; r < rows; r++) {
        uint32_t *row = tile + (size_t)r * MOST_N;

        memcpy(row, &t->cell[lane_of(x, r, h)][x->d_column], n * sizeof *row);
        for (unsigned c = 0; x->keep && x->scale && c < n; c++)
            if (tmem_is_valid(t, lane_of(x, r, h), x->d_column + c))
                exact = scale_old(x, &row[c]) && exact;
    }
    if (!exact && !(machine_config(m)->rules & RULE_ASSUME)) {
        free(tile);
        machine_trap(m, &x->op.job.site, TRAP_UNVERIFIED, "the scale of D makes a subnormal that "
                     "must be rounded: no source confirms what hardware does");
        return false;
    }
    step(x, s, o, x->keep, tile, MOST_N);
    for (unsigned r = 0; r < rows; r++)
        if (!lane_stays(x, number, lane_of(x, r, h)))
            memcpy(&t->cell[lane_of(x, r, h)][x->d_column], tile + (size_t)r * MOST_N,
                   n * sizeof *tile);
    free(tile);
    return true;
}

/* The upper half of a cell with an f16 is nothing anybody may count on. */
static void spoil_upper(const struct mma *x, unsigned number, struct tmem *t, unsigned rows,
                        unsigned n, unsigned h)
{
    for (unsigned r = 0; r < rows; r++) {
        uint32_t *row = &t->cell[lane_of(x, r, h)][x->d_column];

        if (!lane_stays(x, number, lane_of(x, r, h)))
            for (unsigned c = 0; c < n; c++)
                row[c] = (row[c] & 0xffff) | 0x7fff0000;
    }
}

static bool all_true(const bool *flags, unsigned n)
{
    return memchr(flags, false, n) == NULL;
}

/* Rows of A and of B that nobody has written whole spoil their rows and columns of D. */
static void mark(const struct mma *x, const struct operands *o, unsigned number, struct tmem *t,
                 unsigned rows, unsigned n, unsigned h)
{
    const bool whole_b = all_true(o->b_defined, n);

    for (unsigned r = 0; r < rows; r++) {
        const unsigned lane = lane_of(x, r, h);

        if (lane_stays(x, number, lane))
            continue;
        if (!x->keep)
            tmem_set_valid(t, lane, x->d_column, n, o->a_defined[r]);
        else if (!o->a_defined[r])
            tmem_set_valid(t, lane, x->d_column, n, false);
        for (unsigned c = 0; !whole_b && c < n; c++)
            if (!o->b_defined[c])
                tmem_set_valid(t, lane, x->d_column + c, 1, false);
    }
}

/* ---- taking effect --------------------------------------------------------------------------- */

/* fp4 rows hold two elements a byte, which tensor_load() does not negate. */
static void negate_packed(uint8_t (*rows)[TENSOR_ROW_BYTES], unsigned count)
{
    for (unsigned r = 0; r < count; r++)
        for (unsigned i = 0; i < TENSOR_ROW_BYTES; i++)
            rows[r][i] ^= 0x88;
}

static void load(const struct mma *x, enum tensor_side side, bool negate, unsigned count,
                 struct operands *o, struct tensor_tile *tile)
{
    const struct tensor_kind *kind = &x->shape.kind;

    if (kind->groups && negate)
        negate_packed(o->rows, count);
    tensor_load(kind, side, negate && !kind->groups,
                (const uint8_t (*)[TENSOR_ROW_BYTES])o->rows, count, tile);
}

static bool one_side(struct machine *m, const struct mma *x, struct async_scratch *s,
                     struct operands *o, unsigned number, unsigned h)
{
    const struct tcgen_side *side = &x->op.unit->sides[number];
    const unsigned rows = rows_per_cta(x), n = d_columns(x);
    struct tmem *t = side->tmem;

    if (!read_a(m, x, side, h, o))
        return false;
    load(x, TENSOR_A, x->shape.negate_a, rows, o, &s->a);
    if (factors(&x->shape.kind)) {
        const unsigned first = x->layout == LAYOUT_B ? 2 * h : 0;
        const unsigned end = x->layout == LAYOUT_B ? first + 2 : 4;

        if (!read_scales(m, x, side, x->sfa, x->shape.sfa_id, rows, 0, 4, "A", o->scale_a,
                         o->a_defined) ||
            !read_scales(m, x, side, x->sfb, x->shape.sfb_id, n, first, end, "B", o->scale_b,
                         o->b_defined))
            return false;
    }
    if (x->layout == LAYOUT_F || x->masked || x->scale) {
        if (!step_aside(m, x, s, o, number, t, h))
            return false;
    } else {
        step(x, s, o, x->keep, &t->cell[lane_of(x, 0, h)][x->d_column], TMEM_PITCH);
    }
    if (x->shape.kind.d == TENSOR_TO_F16)
        spoil_upper(x, number, t, rows, n, h);
    mark(x, o, number, t, rows, n, h);
    return true;
}

/* Without arithmetic D is simply written. */
static void pretend(const struct mma *x)
{
    for (unsigned number = 0; number < 2; number++)
        for (unsigned lane = 0; !x->keep && x->sides >> number & 1 && lane < TMEM_LANES; lane++)
            if (lane_groups(x) >> lane / 16 & 1 && !lane_stays(x, number, lane))
                tmem_set_valid(x->op.unit->sides[number].tmem, lane, x->d_column, d_columns(x),
                               true);
}

static void mma_effect(struct machine *m, struct tcgen_op *op)
{
    struct mma *x = (struct mma *)op;
    struct async_scratch *s = async_scratch(m);
    struct operands o;

    machine_observe(m, &op->job.site, EVENT_ASYNC_READ, 0, op->number, 0);
    if (!s) {
        machine_trap(m, &op->job.site, TRAP_MEMORY, "operands of a tcgen05.mma");
        return;
    }
    if (!machine_config(m)->math) {
        pretend(x);
        return;
    }
    o.rows = s->rows;
    for (unsigned h = 0; h < parts(x); h++) {
        bool b_defined[MOST_N];

        if (!read_b(m, x, h, &o))
            return;
        load(x, TENSOR_B, x->shape.negate_b, d_columns(x), &o, &s->b);
        memcpy(b_defined, o.b_defined, sizeof b_defined);
        for (unsigned number = 0; number < 2; number++) {
            memcpy(o.b_defined, b_defined, sizeof b_defined);   /* each side has its own scales */
            if (x->sides >> number & 1 && !one_side(m, x, s, &o, number, h))
                return;
        }
    }
}

/* ---- issue ----------------------------------------------------------------------------------- */

static bool descriptor_of(struct warp *w, const struct inst *in, unsigned lane,
                          const struct operand *op, const char *what,
                          const struct tcgen_access *how, unsigned rows, unsigned sides,
                          struct tcgen_matrix *matrix)
{
    const uint64_t bits = warp_value(w, op, lane);
    const struct tcgen_unit *u = tcgen_unit_of(w->cta);
    const char *wrong = tcgen_matrix_decode(bits, matrix);

    if (!wrong)
        wrong = tcgen_matrix_check(matrix, how);
    if (wrong) {
        warp_trap(w, in, (int)lane, TRAP_DESCRIPTOR, "descriptor of %s 0x%016llx: %s", what,
                  (unsigned long long)bits, wrong);
        return false;
    }
    if (matrix->base && !tcgen_assume(w, in, (int)lane, "descriptor of %s 0x%016llx: base offset "
                                      "%u", what, (unsigned long long)bits, matrix->base))
        return false;
    for (unsigned s = 0; s < 2; s++) {
        const struct cta *cta = u->sides[s].cta;
        struct wgmma_memory memory = {.first = SMEM_START};
        struct wgmma_visits visits = {.count = 0};
        uint32_t fault;

        if (!(sides >> s & 1))
            continue;
        memory.end = cta->smem_end;
        memory.visits = proxy_watched(w->m) ? &visits : NULL;
        if (tcgen_gather(matrix, how, rows, &memory, NULL, NULL, &fault)) {
            if (!tcgen_reads(w, in, lane, cta, &visits))
                return false;
            continue;
        }
        warp_trap_at(w, in, (int)lane, TRAP_BOUNDS, fault,
                     "descriptor of %s 0x%016llx (start 0x%x, LBO %u, SBO %u) leads outside of the "
                     "shared memory of CTA rank %u, 0x%x to 0x%x", what, (unsigned long long)bits,
                     matrix->start, matrix->leading, matrix->stride, cta->rank, SMEM_START,
                     cta->smem_end);
        return false;
    }
    return true;
}

static bool find_d(struct warp *w, const struct inst *in, unsigned lane, struct mma *x)
{
    uint32_t address;
    unsigned first;

    if (!tcgen_address(w, in, lane, &in->o[0], "the address of D", &address))
        return false;
    first = tmem_lane(address);
    if (first != 0 && !(x->layout == LAYOUT_F && first == 16)) {
        warp_trap_at(w, in, (int)lane, TRAP_TENSOR_MEMORY, address, "D begins at lane %u: it must "
                     "be 0%s", first, x->layout == LAYOUT_F ? " or 16" : "");
        return false;
    }
    x->base = first;
    x->d_column = tmem_column(address);
    return tcgen_owned(w, in, lane, tcgen_unit_of(w->cta), x->sides, x->d_column, d_columns(x),
                       "D");
}

static bool find_a(struct warp *w, const struct inst *in, unsigned lane, struct mma *x)
{
    const enum tensor_format format = x->shape.kind.a;
    uint32_t address;

    x->how_a = access_of(&x->shape.kind, format, x->shape.mn_a);
    x->a_in_tmem = in->o[1].kind == OPND_ADDR;
    if (!x->a_in_tmem)
        return descriptor_of(w, in, lane, &in->o[1], "A", &x->how_a, rows_per_cta(x), x->sides,
                             &x->a);
    if (x->shape.mn_a) {
        warp_trap(w, in, (int)lane, TRAP_DESCRIPTOR,
                  "instruction descriptor: A in Tensor Memory is K-major");
        return false;
    }
    if (!tcgen_address(w, in, lane, &in->o[1], "the address of A", &address))
        return false;
    if (tmem_lane(address) != x->base) {
        warp_trap_at(w, in, (int)lane, TRAP_TENSOR_MEMORY, address, "A begins at lane %u, D at "
                     "lane %u", tmem_lane(address), x->base);
        return false;
    }
    if (x->how_a.pack == TCGEN_6_OF_16 &&
        !tcgen_assume(w, in, (int)lane, "6-bit elements of A in Tensor Memory"))
        return false;
    x->a_column = tmem_column(address);
    return tcgen_owned(w, in, lane, tcgen_unit_of(w->cta), x->sides, x->a_column, A_COLUMNS, "A");
}

static bool find_scale(struct warp *w, const struct inst *in, unsigned lane, const struct mma *x,
                       const struct operand *op, const char *what, unsigned rows, unsigned *column)
{
    uint32_t address;

    if (!tcgen_address(w, in, lane, op, what, &address))
        return false;
    if (tmem_lane(address) && !tcgen_assume(w, in, (int)lane, "%s begin at lane %u", what,
                                            tmem_lane(address)))
        return false;
    *column = tmem_column(address);
    return tcgen_owned(w, in, lane, tcgen_unit_of(w->cta), x->sides, *column, (rows + 31) / 32,
                       what);
}

static bool find_mask(struct warp *w, const struct inst *in, unsigned lane, struct mma *x)
{
    const struct operand *list = &in->o[4];

    if (list->kind != OPND_VEC)
        return true;
    x->masked = true;
    for (unsigned i = 0; i < list->n; i++) {
        const struct operand *e = operand_element(w->grid->program, list, i);

        if (!warp_need(w, in, e, 1u << lane, "a word of the lanes that stay"))
            return false;
        x->keep_lanes[i] = (uint32_t)warp_value(w, e, lane);
    }
    if (x->group == 2 && memcmp(x->keep_lanes, x->keep_lanes + 4, 4 * sizeof x->keep_lanes[0]))
        return tcgen_assume(w, in, (int)lane, "lanes that stay, words 4 to 7 other than 0 to 3");
    return true;
}

/* A collector that is used needs an earlier one that filled it, of the same A (.ws: the same B). */
static bool check_collector(struct warp *w, const struct inst *in, unsigned lane,
                            struct tcgen_side *side)
{
    const bool stationary = in->op == OP_TCGEN_MMA_WS;
    const struct operand *kept = &in->o[stationary ? 2 : 1];
    const uint64_t name = kept->kind == OPND_ADDR ? warp_address(w, kept, lane)
                                                  : warp_value(w, kept, lane);
    const bool uses = in->sub == SUB_USE || in->sub == SUB_LASTUSE;
    struct tcgen_collector *c = &side->collectors[stationary ? 1 + in->sub2 : 0];

    if (uses && (!c->filled || c->with != name)) {
        if (stationary)
            warp_trap(w, in, (int)lane, TRAP_INSTRUCTION, "the collector holds no B of this "
                      "descriptor: a .collector::b%u::fill of it must come before", in->sub2);
        else
            warp_trap(w, in, (int)lane, TRAP_INSTRUCTION, "the collector holds no A of this "
                      "descriptor: a .collector::a::fill of it must come before");
        return false;
    }
    c->filled = in->sub == SUB_FILL || in->sub == SUB_USE;
    c->with = name;
    return true;
}

static bool decode(struct warp *w, const struct inst *in, unsigned lane, struct mma *x)
{
    const uint32_t bits = (uint32_t)warp_value(w, &in->o[3], lane);
    const unsigned rules = machine_config(w->m)->rules;
    const bool stationary = in->op == OP_TCGEN_MMA_WS;
    const char *wrong = tcgen_idesc_decode(bits, (enum tcgen_kind)in->kind, in->block,
                                           stationary ? TCGEN_STATIONARY : in->cta_group, &x->shape);

    if (wrong) {
        warp_trap(w, in, (int)lane, TRAP_DESCRIPTOR, "instruction descriptor 0x%08x: %s", bits,
                  wrong);
        return false;
    }
    if (in->kind == KIND_F16 && x->shape.kind.a != x->shape.kind.b && !(rules & RULE_MIXED) &&
        !tcgen_assume(w, in, (int)lane, "a bf16 and an f16 operand in one product"))
        return false;
    x->shape.kind.rules = (struct tensor_rules){
        .zeros_count = rules & RULE_ZEROS_COUNT, .no_floor = rules & RULE_NO_FLOOR,
        .normalise = rules & RULE_NORMALISE, .fp4_zeros_vanish = rules & RULE_FP4_ZEROS_VANISH,
    };
    x->group = in->cta_group;
    x->sides = x->group == 2 ? 3 : 1u << tcgen_side_number(w->cta);
    x->layout = x->group == 2 ? (x->shape.m == 256 ? LAYOUT_A : LAYOUT_B)
        : x->shape.m == 128 ? LAYOUT_D : x->shape.m == 32 ? LAYOUT_G : stationary ? LAYOUT_E : LAYOUT_F;
    return true;
}

/* Bit 39 asks that columns of B count as zeros. */
static bool no_zero_columns(struct warp *w, const struct inst *in, unsigned lane)
{
    const struct operand *mask = &in->o[5];

    if (mask->kind == OPND_NONE)
        return true;
    if (!warp_need(w, in, mask, 1u << lane, "the zero-column mask"))
        return false;
    if (!(warp_value(w, mask, lane) >> 39 & 1))
        return true;
    exec_refuse(w, in, "tcgen05.mma.ws with a zero-column mask");
    return false;
}

/* Where the predicate that keeps D is. */
static const struct operand *keeps(const struct inst *in)
{
    return &in->o[in->op == OP_TCGEN_MMA_WS ? 4 : in->block ? 6 : 5];
}

static bool prepare(struct warp *w, const struct inst *in, unsigned lane, struct tcgen_side *side,
                    struct mma *x)
{
    const bool scaled = in->block != 0, stationary = in->op == OP_TCGEN_MMA_WS;

    x->how_b = (struct tcgen_access){0};
    if (!decode(w, in, lane, x) || !find_d(w, in, lane, x) || !find_a(w, in, lane, x))
        return false;
    x->how_b = access_of(&x->shape.kind, x->shape.kind.b, x->shape.mn_b);
    if (!descriptor_of(w, in, lane, &in->o[2], "B", &x->how_b, x->shape.n / x->group, x->sides,
                       &x->b))
        return false;
    if (scaled && (!find_scale(w, in, lane, x, &in->o[4], "the scale factors of A",
                               rows_per_cta(x), &x->sfa) ||
                   !find_scale(w, in, lane, x, &in->o[5], "the scale factors of B", d_columns(x),
                               &x->sfb)))
        return false;
    if (stationary ? !no_zero_columns(w, in, lane) : !scaled && !find_mask(w, in, lane, x))
        return false;
    if (!scaled && !stationary && in->o[6].kind == OPND_IMM) {
        x->scale = (unsigned)in->o[6].imm;
        if (in->kind == KIND_I8) {
            warp_trap(w, in, (int)lane, TRAP_INSTRUCTION, "kind::i8 takes no scale of D");
            return false;
        }
    }
    x->keep = warp_pred(w, keeps(in)) >> lane & 1;
    return check_collector(w, in, lane, side);
}

static void spans(struct mma *x)
{
    struct tcgen_op *op = &x->op;

    tcgen_span_add(op, x->sides, lane_groups(x), true, x->d_column, d_columns(x));
    if (x->a_in_tmem)
        tcgen_span_add(op, x->sides, lane_groups(x), false, x->a_column, A_COLUMNS);
    if (factors(&x->shape.kind)) {
        tcgen_span_add(op, x->sides, 0xff, false, x->sfa, (rows_per_cta(x) + 31) / 32);
        tcgen_span_add(op, x->sides, 0xff, false, x->sfb, (d_columns(x) + 31) / 32);
    }
}

static enum flow multiply(struct warp *w, const struct inst *in, unsigned lane,
                          struct tcgen_side *side)
{
    struct mma *x = tcgen_op_new(w, in, lane, TCGEN_MMA, sizeof *x, mma_effect);

    if (!x)
        return FLOW_TRAP;
    if (!prepare(w, in, lane, side, x)) {
        async_job_cancel(w->m, &x->op.job);
        return FLOW_TRAP;
    }
    spans(x);
    x->op.accumulator = x->base << 16 | x->d_column;
    x->op.m = x->shape.m;
    x->op.n = x->shape.n;
    return tcgen_issue(w, &x->op);
}

enum flow op_tcgen_mma(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct tcgen_side *side = tcgen_live_side(w, in, in->cta_group);

    if (!side ||
        (in->o[1].kind != OPND_ADDR && !warp_need(w, in, &in->o[1], mask, "the descriptor of A")) ||
        !warp_need(w, in, &in->o[2], mask, "the descriptor of B") ||
        !warp_need(w, in, &in->o[3], mask, "the instruction descriptor") ||
        !warp_need(w, in, keeps(in), mask, "the predicate that keeps D"))
        return FLOW_TRAP;
    if (in->flags & INST_ASHIFT)
        return exec_refuse(w, in, "tcgen05.mma.ashift");
    for (uint32_t left = mask; left; left &= left - 1)
        if (multiply(w, in, (unsigned)__builtin_ctz(left), side) == FLOW_TRAP)
            return FLOW_TRAP;
    return FLOW_NEXT;
}

enum flow op_tcgen_mma_sp(struct warp *w, const struct inst *in, uint32_t mask)
{
    (void)mask;
    return exec_refuse(w, in, "tcgen05.mma.sp");
}

enum flow op_tcgen_mma_ws(struct warp *w, const struct inst *in, uint32_t mask)
{
    return in->nopnd == 7 ? exec_refuse(w, in, "tcgen05.mma.ws.sp") : op_tcgen_mma(w, in, mask);
}
