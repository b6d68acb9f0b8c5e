/* The wgmma instructions.
 *
 * A warpgroup's wgmmas form one stream. An instruction is issued when all four warps have come; it
 * reads shared memory at some moment between then and the end of its group (policy), and always
 * after the instructions before it. Its results live in a 64 x N tile until a warp's wait_group
 * covers it: then, warp by warp, the tile goes to the registers, which until then are busy and
 * must not be touched. So a missing wait is found whatever the timing.
 *
 *     issue            read, multiply               group over         wait_group (each warp)
 *     registers busy   tile += A * B, in order      oldest grows       tile -> registers, free
 */
#include "wgmma_unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "proxy.h"

enum {
    MOST_PENDING = 120,         /* operations of a warpgroup in flight */
    MOST_GROUPS = 7,            /* wait_group N counts no higher */
};

struct group_job {
    struct async_job job;
    struct wgmma_unit *unit;
    uint32_t group;
};

static struct wgmma_unit *unit_of(struct warp *w, const struct inst *in)
{
    struct wgmma_unit **unit = &w->cta->async->units[w->id / WARPGROUP];

    if (!*unit) {
        *unit = calloc(1, sizeof **unit);
        if (!*unit) {
            warp_trap(w, in, -1, TRAP_MEMORY, "a warpgroup");
            return NULL;
        }
        (*unit)->cta = w->cta;
        (*unit)->index = w->id / WARPGROUP;
    }
    return *unit;
}

void wgmma_unit_close(struct wgmma_unit *unit)
{
    if (!unit)
        return;
    while (unit->accumulators) {
        struct accumulator *d = unit->accumulators;

        unit->accumulators = d->next;
        accumulator_free(d);
    }
    for (unsigned i = 0; i < unit->count; i++)
        free(op_at(unit, i)->sparse);
    free(unit->ops);
    free(unit);
}

/* ---- execution ------------------------------------------------------------------------------- */

static struct site site_of(const struct wgmma_unit *u, const struct inst *in)
{
    return (struct site){.cta = u->cta, .inst = in, .warp = (int)(u->index * WARPGROUP),
                         .lane = -1};
}

static void fragment_rows(const struct operation *op, uint8_t (*rows)[TENSOR_ROW_BYTES],
                          bool *defined)
{
    memset(defined, true, WGMMA_ROWS);
    for (unsigned w = 0; w < WARPGROUP; w++)
        for (unsigned i = 0; i < 4; i++)
            for (unsigned lane = 0; lane < LANES; lane++) {
                const unsigned row = wgmma_a_row(w, lane, i);

                memcpy(rows[row] + wgmma_a_byte(lane, i), &op->regs[w].r32[op->a_reg[i]][lane], 4);
                if (!(op->regs[w].def32[op->a_reg[i]] >> lane & 1))
                    defined[row] = false;
            }
}

static bool gather(struct wgmma_unit *u, const struct operation *op, const struct wgmma_desc *desc,
                   bool mn_major, unsigned rows, uint8_t (*out)[TENSOR_ROW_BYTES], bool *defined)
{
    struct wgmma_visits visits = {.count = 0};
    const struct wgmma_memory memory = {u->cta->bytes, u->cta->valid, SMEM_START,
                                        u->cta->smem_end,
                                        proxy_watched(u->cta->m) ? &visits : NULL};
    const struct site at = site_of(u, op->in);
    uint32_t fault;

    if (wgmma_gather(desc, mn_major, rows, &memory, out, defined, &fault)) {
        for (unsigned i = 0; i < visits.count; i++)
            if (!proxy_reads(u->cta->m, &at, u->cta, 15u << u->index * WARPGROUP, visits.at[i], 16))
                return false;
        return true;
    }
    machine_trap_at(u->cta->m, &at, TRAP_BOUNDS, fault,
                    "wgmma reads outside of the CTA's shared memory, 0x%x to 0x%x", SMEM_START,
                    u->cta->smem_end);
    return false;
}

/* Rows of A and columns of B that hold bytes nobody wrote spoil their rows and columns of D. */
static bool spoil(struct operation *op, const bool *a_defined, const bool *b_defined)
{
    struct accumulator *d = op->d;

    if (!op->keep && d->any_undefined) {
        memset(d->undefined, 0, WGMMA_ROWS * (size_t)d->n);
        d->any_undefined = false;
    }
    for (unsigned r = 0; r < WGMMA_ROWS; r++)
        for (unsigned c = 0; c < d->n; c++) {
            if (a_defined[r] && b_defined[c])
                continue;
            if (!d->any_undefined && !accumulator_mark_undefined(d))
                return false;
            d->undefined[(size_t)r * d->n + c] = true;
        }
    return true;
}

static bool all_true(const bool *flags, unsigned n)
{
    return memchr(flags, false, n) == NULL;
}

/* Row by row of A a dense step, on what the row's metadata pick of B. That a step sums as many
 * products as a dense one is inferred. */
static void sparse_steps(struct operation *op, struct async_scratch *s,
                         const uint8_t (*a)[TENSOR_ROW_BYTES])
{
    const uint8_t (*const picked)[TENSOR_ROW_BYTES] = (const uint8_t (*)[TENSOR_ROW_BYTES])s->rows;
    const struct accumulator *d = op->d;
    const uint32_t flags = op->in->flags;

    for (unsigned r = 0; r < WGMMA_ROWS; r++) {
        for (unsigned c = 0; c < d->n; c++)
            sparse_pick(&op->sparse->layout, op->sparse->numbers[r], s->deep[2 * c], s->rows[c]);
        tensor_load(&op->kind, TENSOR_A, flags & INST_NEG_A, a + r, 1, &s->a);
        tensor_load(&op->kind, TENSOR_B, flags & INST_NEG_B, picked, d->n, &s->b);
        tensor_step(&op->kind, &s->a, &s->b, op->keep, d->tile + (size_t)r * d->n, d->n);
    }
}

static void execute(struct wgmma_unit *u, struct operation *op)
{
    struct machine *m = u->cta->m;
    struct async_scratch *s = async_scratch(m);
    const uint32_t flags = op->in->flags;
    struct accumulator *d = op->d;
    const struct site at = site_of(u, op->in);
    bool a_defined[WGMMA_ROWS], b_defined[WGMMA_MAX_N];
    uint8_t (*const rows)[TENSOR_ROW_BYTES] = s ? s->rows : NULL;
    const uint8_t (*const read)[TENSOR_ROW_BYTES] = (const uint8_t (*)[TENSOR_ROW_BYTES])rows;

    op->executed = true;
    if (!s) {
        machine_trap(m, &at, TRAP_MEMORY, "operands of a wgmma");
        return;
    }
    machine_observe(m, &at, EVENT_ASYNC_READ, UINT32_MAX, op->group, 0);
    if (!machine_config(m)->math) {
        if (!op->keep)
            d->any_undefined = false;
        free(op->sparse);
        op->sparse = NULL;
        return;
    }
    if (op->a_in_registers)
        fragment_rows(op, rows, a_defined);
    else if (!gather(u, op, &op->a, flags & INST_TRANS_A, WGMMA_ROWS, rows, a_defined))
        return;
    if (op->sparse) {
        uint8_t a[WGMMA_ROWS][TENSOR_ROW_BYTES];

        memcpy(a, rows, sizeof a);
        if (!gather(u, op, &op->b, flags & INST_TRANS_B, d->n, s->deep, b_defined))
            return;
        sparse_steps(op, s, (const uint8_t (*)[TENSOR_ROW_BYTES])a);
        free(op->sparse);
        op->sparse = NULL;
    } else {
        tensor_load(&op->kind, TENSOR_A, flags & INST_NEG_A, read, WGMMA_ROWS, &s->a);
        if (!gather(u, op, &op->b, flags & INST_TRANS_B, d->n, rows, b_defined))
            return;
        tensor_load(&op->kind, TENSOR_B, flags & INST_NEG_B, read, d->n, &s->b);
        tensor_step(&op->kind, &s->a, &s->b, op->keep, d->tile, d->n);
    }
    if ((!op->keep && d->any_undefined) || !all_true(a_defined, WGMMA_ROWS) ||
        !all_true(b_defined, d->n))
        if (!spoil(op, a_defined, b_defined))
            machine_trap(m, &at, TRAP_MEMORY, "an accumulator");
}

static void execute_to(struct wgmma_unit *u, unsigned end)
{
    for (unsigned i = 0; i < end && !machine_trapped(u->cta->m); i++)
        if (!op_at(u, i)->executed)
            execute(u, op_at(u, i));
}

/* A warp has waited for groups below `waited`: their registers are its own again. */
static void release(struct wgmma_unit *u, unsigned w, uint32_t waited)
{
    u->waited[w] = waited;
    for (unsigned i = 0; i < u->count; i++) {
        struct operation *op = op_at(u, i);

        if (op->group >= waited)
            break;
        if (op->freed[w])
            continue;
        op->freed[w] = true;
        for (unsigned k = 0; op->a_in_registers && k < 4; k++)
            busy_clear(warp_of(u, w), &op->regs[w].busy32[op->a_reg[k]], 1);
        if (--op->d->owed[w] == 0)
            accumulator_flush(u, op->d, w);
    }
    while (u->count && op_at(u, 0)->freed[0] && op_at(u, 0)->freed[1] && op_at(u, 0)->freed[2] &&
           op_at(u, 0)->freed[3]) {
        u->first = (u->first + 1) & (u->capacity - 1);
        u->count--;
    }
}

static void group_fire(struct machine *m, struct async_job *job, unsigned step)
{
    struct group_job *g = (struct group_job *)job;
    struct wgmma_unit *u = g->unit;
    unsigned end = 0;

    (void)step;
    while (end < u->count && op_at(u, end)->group <= g->group)
        end++;
    execute_to(u, end);
    if (machine_trapped(m) || g->group < u->over)
        return;
    u->over = g->group + 1;
    machine_observe(m, &job->site, EVENT_ASYNC_DONE, UINT32_MAX, g->group, 0);
    for (unsigned w = 0; w < WARPGROUP; w++)
        warp_wake(warp_of(u, w), WAIT_WGMMA, u->index, UINT32_MAX);
}

/* ---- issue ----------------------------------------------------------------------------------- */

static enum tensor_format format_of(enum type type)
{
    switch (type) {
    case TY_BF16: return TENSOR_BF16;
    case TY_F16: return TENSOR_F16;
    case TY_TF32: return TENSOR_TF32;
    case TY_E4M3: return TENSOR_E4M3;
    case TY_E5M2: return TENSOR_E5M2;
    case TY_S8: return TENSOR_S8;
    case TY_U8: return TENSOR_U8;
    default: return TENSOR_B1;
    }
}

/* A value that all lanes of all four warps must agree on. */
static bool agreed(struct wgmma_unit *u, const struct inst *in, const struct operand *op,
                   const char *what, uint64_t *value)
{
    for (unsigned w = 0; w < WARPGROUP; w++) {
        uint64_t v;

        if (!warp_uniform(warp_of(u, w), in, op, UINT32_MAX, what, &v))
            return false;
        if (w && v != *value) {
            warp_trap(warp_of(u, w), in, -1, TRAP_MISMATCH,
                      "%s is 0x%llx here and 0x%llx in the warpgroup's first warp", what,
                      (unsigned long long)v, (unsigned long long)*value);
            return false;
        }
        *value = v;
    }
    return true;
}

static bool describe(struct wgmma_unit *u, const struct inst *in, const struct operand *operand,
                     const char *what, bool mn_major, bool deep, unsigned rows,
                     struct wgmma_desc *desc)
{
    struct warp *w = warp_of(u, 0);
    const char *wrong;
    uint64_t bits = 0;
    uint32_t fault;

    if (!agreed(u, in, operand, what, &bits))
        return false;
    wrong = wgmma_desc_decode(bits, desc);
    if (wrong) {
        warp_trap(w, in, -1, TRAP_DESCRIPTOR, "%s 0x%016llx: %s", what, (unsigned long long)bits,
                  wrong);
        return false;
    }
    desc->deep = deep;
    if (deep && !mn_major && desc->span < 64) {
        warp_trap(w, in, -1, TRAP_INSTRUCTION, "not implemented: %s of 64 bytes along K with a "
                  "swizzle of %u bytes; nothing says where its second half lies", what, desc->span);
        return false;
    }
    if (wgmma_in_bounds(desc, mn_major, rows, SMEM_START, u->cta->smem_end, &fault))
        return true;
    warp_trap_at(w, in, -1, TRAP_BOUNDS, fault,
                 "%s 0x%016llx (start 0x%x, LBO %u, SBO %u, swizzle %u) leads outside of the "
                 "CTA's shared memory, 0x%x to 0x%x", what, (unsigned long long)bits, desc->start,
                 desc->leading, desc->stride, desc->span, SMEM_START, u->cta->smem_end);
    return false;
}

/* Registers that something else in flight owns, or that two operands name. Nothing else is in
 * flight where the warp has no more busy registers than those that d has taken already. */
static bool free_for_d(struct wgmma_unit *u, const struct inst *in, const struct accumulator *d)
{
    for (unsigned w = 0; w < WARPGROUP; w++) {
        if (warp_of(u, w)->busy == (d->owed[w] ? d->count : 0))
            continue;
        for (unsigned i = 0; i < d->count; i++) {
            const uint8_t busy = warp_of(u, w)->r.busy32[d->list[i].reg];

            if (busy & ~BUSY_D || (busy && !d->owed[w])) {
                warp_trap(warp_of(u, w), in, -1, TRAP_PENDING,
                          "accumulator register %u belongs to another wgmma whose group has not "
                          "been waited for", i);
                return false;
            }
        }
    }
    return true;
}

static bool take_a(struct wgmma_unit *u, const struct inst *in, struct operation *op)
{
    for (unsigned i = 0; i < 4; i++)
        op->a_reg[i] = operand_element(u->cta->grid->program, &in->o[1], i)->reg;
    for (unsigned w = 0; w < WARPGROUP; w++) {
        op->regs[w] = warp_of(u, w)->r;
        for (unsigned i = 0; i < 4; i++)
            if (op->regs[w].busy32[op->a_reg[i]] & BUSY_D) {
                warp_trap(warp_of(u, w), in, -1, TRAP_PENDING,
                          "A fragment register %u is an accumulator of a wgmma whose group has "
                          "not been waited for", i);
                return false;
            }
    }
    return true;
}

/* Reads the metadata at issue; that nobody writes their register before the wait is not checked. */
static bool take_metadata(struct wgmma_unit *u, const struct inst *in, struct operation *op)
{
    struct wgmma_sparse *s = malloc(sizeof *s);

    op->sparse = s;
    if (!s) {
        warp_trap(warp_of(u, 0), in, -1, TRAP_MEMORY, "a wgmma");
        return false;
    }
    s->layout = sparse_of(in, (unsigned)in->o[4].imm);
    for (unsigned i = 0; i < WARPGROUP; i++) {
        struct warp *w = warp_of(u, i);
        uint32_t words[LANES];

        if (!warp_need(w, in, &in->o[3], sparse_lanes(&s->layout), "the metadata"))
            return false;
        for (unsigned lane = 0; lane < LANES; lane++)
            words[lane] = (uint32_t)warp_value(w, &in->o[3], lane);
        for (unsigned r = 0; r < SPARSE_ROWS; r++) {
            unsigned lane, bit, nibble;
            const char *const wrong = sparse_numbers(&s->layout, words, r,
                                                     s->numbers[SPARSE_ROWS * i + r], &lane, &bit,
                                                     &nibble);
            if (wrong) {
                warp_trap(w, in, (int)lane, TRAP_DESCRIPTOR, "metadata 0x%x in bits %u to %u, row "
                          "%u: %s", nibble, bit, bit + 3, SPARSE_ROWS * i + r, wrong);
                return false;
            }
        }
    }
    return true;
}

static bool grow(struct wgmma_unit *u)
{
    const unsigned capacity = u->capacity ? 2 * u->capacity : 16;
    struct operation *ops;

    if (u->count < u->capacity)
        return true;
    ops = malloc(capacity * sizeof *ops);
    if (!ops)
        return false;
    for (unsigned i = 0; i < u->count; i++)
        ops[i] = *op_at(u, i);
    free(u->ops);
    u->ops = ops;
    u->first = 0;
    u->capacity = capacity;
    return true;
}

/* Makes the registers of all four warps busy and the tile hold what they held. */
static bool take_d(struct wgmma_unit *u, const struct inst *in, struct operation *op)
{
    struct accumulator *d = op->d;

    for (unsigned w = 0; w < WARPGROUP; w++) {
        struct warp *warp = warp_of(u, w);

        if (d->owed[w]++)
            continue;
        if (op->keep) {
            if (d->fences == u->fences && !accumulator_unchanged(d, w)) {
                warp_trap(warp, in, -1, TRAP_PENDING, "accumulator registers have been written "
                          "since the last wgmma on them without a wgmma.fence");
                return false;
            }
            if (!accumulator_load(d, w)) {
                warp_trap(warp, in, -1, TRAP_MEMORY, "an accumulator");
                return false;
            }
        }
        for (unsigned i = 0; i < d->count; i++)
            busy_set(warp, &d->regs[w].busy32[d->list[i].reg], BUSY_D);
    }
    return true;
}

enum flow op_wgmma(struct warp *w, const struct inst *in, uint32_t mask)
{
    const struct program *p = w->grid->program;
    const bool sparse = in->op == OP_WGMMA_SP;
    struct operation op = {.in = in};
    struct wgmma_unit *u;
    enum tensor_result type;
    uint64_t keep = 0;

    if (!warpgroup_meet(w, in, mask))
        return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
    u = unit_of(w, in);
    if (!u)
        return FLOW_TRAP;
    if (u->fences == 0)
        return warp_trap(w, in, -1, TRAP_INSTRUCTION,
                         "no wgmma.fence has come before the warpgroup's first wgmma");
    type = in->type[0] == TY_F32 ? TENSOR_TO_F32 : in->type[0] == TY_F16 ? TENSOR_TO_F16 :
        TENSOR_TO_S32;
    if (!tensor_kind_wgmma(&op.kind, format_of(in->type[1]), format_of(in->type[2]), type,
                           in->flags & INST_SATFINITE))
        return warp_trap(w, in, -1, TRAP_INSTRUCTION, "no such wgmma");
    if (u->count >= MOST_PENDING)
        return warp_trap(w, in, -1, TRAP_PENDING, "%u wgmmas of the warpgroup are in flight",
                         u->count);

    op.a_in_registers = in->o[1].kind == OPND_VEC;
    op.group = u->open;
    if (!agreed(u, in, &in->o[sparse ? 5 : 3], "scale-d", &keep))
        return FLOW_TRAP;
    op.keep = keep;
    if (!op.a_in_registers && !describe(u, in, &in->o[1], "descriptor of A",
                                        in->flags & INST_TRANS_A, false, WGMMA_ROWS, &op.a))
        return FLOW_TRAP;
    if (!describe(u, in, &in->o[2], "descriptor of B", in->flags & INST_TRANS_B, sparse, in->n,
                  &op.b))
        return FLOW_TRAP;
    if (op.a_in_registers && !take_a(u, in, &op))
        return FLOW_TRAP;
    op.d = accumulator_of(u, operand_element(p, &in->o[0], 0), in->o[0].n, in->n, type);
    if (!op.d || !grow(u))
        return warp_trap(w, in, -1, TRAP_MEMORY, "a wgmma");
    if (op.d->n != in->n || op.d->type != type)
        return warp_trap(w, in, -1, TRAP_PENDING, "a wgmma of another shape on the same "
                         "accumulator has not been waited for");
    if (!free_for_d(u, in, op.d) || !take_d(u, in, &op))
        return FLOW_TRAP;
    if (sparse && !take_metadata(u, in, &op)) {
        free(op.sparse);
        return FLOW_TRAP;
    }
    for (unsigned i = 0; op.a_in_registers && i < WARPGROUP; i++)
        for (unsigned k = 0; k < 4; k++)
            busy_set(warp_of(u, i), &op.regs[i].busy32[op.a_reg[k]], 1);
    u->ops[(u->first + u->count++) & (u->capacity - 1)] = op;
    {
        const struct site at = site_of(u, in);

        machine_observe(w->m, &at, EVENT_ASYNC_ISSUE, UINT32_MAX, op.group, 0);
    }
    if (async_reads_now(w->m))
        execute_to(u, u->count);
    machine_progress(w->m);
    return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
}

enum flow op_wgmma_sp(struct warp *w, const struct inst *in, uint32_t mask)
{
    return op_wgmma(w, in, mask);
}

enum flow op_wgmma_fence(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct wgmma_unit *u;

    if (!warpgroup_meet(w, in, mask))
        return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
    u = unit_of(w, in);
    if (!u)
        return FLOW_TRAP;
    u->fences++;
    return FLOW_NEXT;
}

enum flow op_wgmma_commit(struct warp *w, const struct inst *in, uint32_t mask)
{
    struct wgmma_unit *u;
    struct group_job *g;

    if (!warpgroup_meet(w, in, mask))
        return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
    u = unit_of(w, in);
    if (!u)
        return FLOW_TRAP;
    g = async_job_new(w, in, 0, sizeof *g, group_fire);
    if (!g)
        return FLOW_TRAP;
    g->unit = u;
    g->group = u->open++;
    async_post(w->m, &g->job, 0, DELAY_MMA);
    return FLOW_NEXT;
}

enum flow op_wgmma_wait(struct warp *w, const struct inst *in, uint32_t mask)
{
    const uint64_t n = in->o[0].imm < MOST_GROUPS ? in->o[0].imm : MOST_GROUPS;
    struct wgmma_unit *u;

    mask = warp_gather(w, in, mask, UINT32_MAX);
    if (!mask)
        return machine_trapped(w->m) ? FLOW_TRAP : FLOW_NEXT;
    u = unit_of(w, in);
    if (!u)
        return FLOW_TRAP;
    if (u->open > n && u->over < u->open - n) {
        warp_park(w, in, mask, WAIT_WGMMA, u->index, n, true);
        return FLOW_NEXT;
    }
    if (u->open > n && u->waited[w->id % WARPGROUP] < u->open - n)
        release(u, w->id % WARPGROUP, (uint32_t)(u->open - n));
    return FLOW_NEXT;
}

/* ---- exits and reports ----------------------------------------------------------------------- */

void wgmma_lanes_exit(struct warp *w, const struct inst *in)
{
    const struct wgmma_unit *u = w->cta->async->units[w->id / WARPGROUP];

    for (unsigned i = 0; u && i < u->count; i++) {
        const struct operation *op = op_at(u, i);

        if (op->group < u->open && !op->freed[w->id % WARPGROUP]) {
            warp_trap(w, in, -1, TRAP_EXIT_PENDING,
                      "a wgmma group has not been waited for (wgmma.wait_group)");
            return;
        }
    }
}

size_t wgmma_describe(const struct wgmma_unit *unit, const struct park *park, char *text,
                      size_t room)
{
    const int n = snprintf(text, room, "wgmma groups of warpgroup %u, at most %u pending; %u are",
                           unit->index, (unsigned)park->want, unit->open - unit->over);

    return n > 0 ? (size_t)n : 0;
}
