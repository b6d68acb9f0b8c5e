/*
 * Registers of disjoint live ranges share an index. Compilers write one register per value, and
 * every register costs a warp 128 or 256 bytes; sharing keeps a warp's state in the cache.
 *
 * Liveness is the usual backward data flow, on the values that cross a block; from it each register
 * gets one interval of instructions, and indices are handed out in order of start. A guarded write
 * keeps the old value of some lanes, so it does not end a range backwards: a register that may be
 * read before it is written is live from the function's first instruction, and nothing that came
 * before is in its index. Registers of asynchronous instructions, of parameters and of b128 pairs
 * keep an index of their own.
 */
#include <stdlib.h>
#include <string.h>

#include "parse.h"

#define NONE UINT32_MAX
#define MAX_BITS ((uint64_t)1 << 26)    /* of one kind of live set; beyond that nothing shares */

struct block_info {
    uint32_t first, end;        /* instructions, from the function's first */
    uint32_t next, jump;        /* successors: block that follows, block of the target; or NONE */
    uint32_t targets, ntargets; /* brx: elements of the program */
};

struct sharing {
    struct program *p;
    struct function *f;
    uint32_t n;                 /* instructions */
    uint32_t base[BANK_COUNT + 1];      /* number of a bank's register 0 */
    uint32_t nvars;
    uint32_t *block_of;         /* by instruction, for leaders */
    struct block_info *blocks;
    uint32_t nblocks;
    uint32_t *start, *end;      /* interval of each register; start NONE: never used */
    uint32_t *global;           /* number among those that cross blocks, or NONE */
    uint32_t nglobals;
    uint32_t *defined_in;       /* last block that surely wrote it, + 1 */
    bool *fixed;
    uint32_t *map;
    uint64_t *use, *def, *in;   /* nblocks sets of `words` words */
    uint32_t words;
};

typedef void visit(struct sharing *s, uint32_t at, uint32_t var, bool write, bool guarded);

static void visit_operand(struct sharing *s, uint32_t at, const struct operand *o, bool write,
                          bool guarded, visit *fn)
{
    if (o->kind == OPND_REG || (o->kind == OPND_ADDR && o->base == ADDR_REG)) {
        const unsigned count = o->kind == OPND_REG && o->type == TY_B128 ? 2 : 1;

        for (unsigned i = 0; i < count; i++)
            fn(s, at, s->base[o->bank] + o->reg + i, write && o->kind == OPND_REG, guarded);
    } else if (o->kind == OPND_VEC) {
        for (uint32_t i = 0; i < o->n; i++)
            visit_operand(s, at, &s->p->elems[o->reg + i], write, guarded, fn);
    }
}

/* Reads first, then writes. */
static void visit_inst(struct sharing *s, uint32_t at, visit *fn)
{
    const struct inst *in = &s->p->insts[s->f->first + at];

    if (in->guard)
        fn(s, at, s->base[BANK_PRED] + in->guard_reg, false, false);
    for (unsigned i = 0; i < in->nopnd; i++)
        if (!(in->dst >> i & 1))
            visit_operand(s, at, &in->o[i], false, false, fn);
    for (unsigned i = 0; i < in->nopnd; i++)
        if (in->dst >> i & 1)
            visit_operand(s, at, &in->o[i], true, in->guard != GUARD_NONE, fn);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static bool ends_block(const struct inst *in)
{
    return in->op == OP_BRA || in->op == OP_BRX || in->op == OP_EXIT || in->op == OP_RET ||
           in->op == OP_TRAP;
}

static void leader(struct sharing *s, uint64_t pc)
{
    if (pc >= s->f->first && pc < s->f->end)
        s->block_of[pc - s->f->first] = 1;
}

static void find_blocks(struct sharing *s)
{
    const struct program *p = s->p;

    leader(s, s->f->first);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct inst *in = &p->insts[s->f->first + i];

        if (ends_block(in))
            leader(s, s->f->first + i + 1);
        if (in->op == OP_BRA)
            leader(s, in->o[0].imm);
        for (uint32_t t = 0; in->op == OP_BRX && t < in->o[1].n; t++)
            leader(s, p->elems[in->o[1].reg + t].imm);
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (s->block_of[i]) {
            s->blocks[s->nblocks].first = i;
            if (s->nblocks)
                s->blocks[s->nblocks - 1].end = i;
            s->block_of[i] = s->nblocks++;
        }
    s->blocks[s->nblocks - 1].end = s->n;
    for (uint32_t b = 0; b < s->nblocks; b++) {
        struct block_info *block = &s->blocks[b];
        const struct inst *last = &p->insts[s->f->first + block->end - 1];
        const bool falls = !ends_block(last) || last->guard != GUARD_NONE;

        block->next = falls && b + 1 < s->nblocks ? b + 1 : NONE;
        block->jump = last->op == OP_BRA && last->o[0].imm < s->f->end
                      ? s->block_of[last->o[0].imm - s->f->first] : NONE;
        if (last->op == OP_BRX) {
            block->targets = last->o[1].reg;
            block->ntargets = last->o[1].n;
        }
    }
}

/* ---- data flow ------------------------------------------------------------------------------ */

static uint32_t current_block(const struct sharing *s, uint32_t at)
{
    uint32_t lo = 0, hi = s->nblocks;

    while (hi - lo > 1) {
        const uint32_t mid = (lo + hi) / 2;

        if (s->blocks[mid].first <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void widen(struct sharing *s, uint32_t var, uint32_t at)
{
    if (s->start[var] == NONE)
        s->start[var] = s->end[var] = at;
    if (at < s->start[var])
        s->start[var] = at;
    if (at > s->end[var])
        s->end[var] = at;
}

/* First pass: intervals inside blocks, and which registers are read before their block's write. */
static void scan(struct sharing *s, uint32_t at, uint32_t var, bool write, bool guarded)
{
    const uint32_t block = s->words;    /* lent for the pass: the block being scanned, + 1 */

    widen(s, var, at);
    if (write && !guarded)
        s->defined_in[var] = block;
    else if (s->defined_in[var] != block && s->global[var] == NONE)
        s->global[var] = s->nglobals++;
}

static void set(uint64_t *row, uint32_t bit)
{
    row[bit / 64] |= UINT64_C(1) << bit % 64;
}

static bool get(const uint64_t *row, uint32_t bit)
{
    return row[bit / 64] >> bit % 64 & 1;
}

static void summarise(struct sharing *s, uint32_t at, uint32_t var, bool write, bool guarded)
{
    const uint32_t g = s->global[var];

    if (g == NONE)
        return;

    const uint32_t b = current_block(s, at);

    if (write && !guarded)
        set(s->def + (size_t)b * s->words, g);
    else if (!get(s->def + (size_t)b * s->words, g))
        set(s->use + (size_t)b * s->words, g);
}

static void live_out(const struct sharing *s, uint32_t b, uint64_t *out)
{
    const struct block_info *block = &s->blocks[b];

    memset(out, 0, s->words * sizeof *out);
    for (uint32_t w = 0; block->next != NONE && w < s->words; w++)
        out[w] |= s->in[(size_t)block->next * s->words + w];
    for (uint32_t w = 0; block->jump != NONE && w < s->words; w++)
        out[w] |= s->in[(size_t)block->jump * s->words + w];
    for (uint32_t t = 0; t < block->ntargets; t++) {
        const uint64_t pc = s->p->elems[block->targets + t].imm;

        if (pc >= s->f->first && pc < s->f->end)
            for (uint32_t w = 0; w < s->words; w++)
                out[w] |= s->in[(size_t)s->block_of[pc - s->f->first] * s->words + w];
    }
}

/* in = use | (out & ~def); true: it grew */
static bool update(struct sharing *s, uint32_t b, uint64_t *out)
{
    const size_t row = (size_t)b * s->words;
    bool grew = false;

    live_out(s, b, out);
    for (uint32_t w = 0; w < s->words; w++) {
        const uint64_t v = s->use[row + w] | (out[w] & ~s->def[row + w]);

        grew |= v != s->in[row + w];
        s->in[row + w] = v;
    }
    return grew;
}

/* Each block is done again only when a block after it grew; dirty[b] says so. */
static void solve(struct sharing *s, uint64_t *out, bool *dirty, const uint32_t *first_pred,
                  const uint32_t *preds)
{
    bool again = true;

    memset(dirty, true, s->nblocks);
    while (again) {
        again = false;
        for (uint32_t b = s->nblocks; b-- > 0;) {
            if (!dirty[b])
                continue;
            dirty[b] = false;
            if (!update(s, b, out))
                continue;
            for (uint32_t i = first_pred[b]; i < first_pred[b + 1]; i++) {
                dirty[preds[i]] = true;
                again |= preds[i] >= b;
            }
        }
    }
}

typedef void edge(uint32_t from, uint32_t to, uint32_t *counts, uint32_t *preds);

static void count_edge(uint32_t from, uint32_t to, uint32_t *counts, uint32_t *preds)
{
    (void)from, (void)preds;
    counts[to + 1]++;
}

static void store_edge(uint32_t from, uint32_t to, uint32_t *counts, uint32_t *preds)
{
    preds[counts[to]++] = from;
}

static void each_edge(const struct sharing *s, edge *fn, uint32_t *counts, uint32_t *preds)
{
    for (uint32_t b = 0; b < s->nblocks; b++) {
        const struct block_info *block = &s->blocks[b];

        if (block->next != NONE)
            fn(b, block->next, counts, preds);
        if (block->jump != NONE)
            fn(b, block->jump, counts, preds);
        for (uint32_t t = 0; t < block->ntargets; t++) {
            const uint64_t pc = s->p->elems[block->targets + t].imm;

            if (pc >= s->f->first && pc < s->f->end)
                fn(b, s->block_of[pc - s->f->first], counts, preds);
        }
    }
}

static void widen_live(struct sharing *s, uint64_t *out, const uint32_t *var_of)
{
    for (uint32_t b = 0; b < s->nblocks; b++) {
        const uint64_t *in = s->in + (size_t)b * s->words;

        live_out(s, b, out);
        for (uint32_t w = 0; w < s->words; w++) {
            for (uint64_t bits = in[w]; bits; bits &= bits - 1)
                widen(s, var_of[w * 64 + (uint32_t)__builtin_ctzll(bits)], s->blocks[b].first);
            for (uint64_t bits = out[w]; bits; bits &= bits - 1)
                widen(s, var_of[w * 64 + (uint32_t)__builtin_ctzll(bits)], s->blocks[b].end - 1);
        }
    }
}

/* ---- handing out ---------------------------------------------------------------------------- */

static void fix_operand(struct sharing *s, const struct operand *o)
{
    if (o->kind == OPND_REG)
        s->fixed[s->base[o->bank] + o->reg] = true;
    for (uint32_t i = 0; o->kind == OPND_VEC && i < o->n; i++)
        fix_operand(s, &s->p->elems[o->reg + i]);
}

static void fix_pairs(struct sharing *s, uint32_t at, uint32_t var, bool write, bool guarded)
{
    (void)at, (void)write, (void)guarded;
    s->fixed[var] = true;
}

static void find_fixed(struct sharing *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct inst *in = &s->p->insts[s->f->first + i];

        if (in->op == OP_WGMMA || in->op == OP_WGMMA_SP) {
            fix_operand(s, &in->o[0]);
            if (in->o[1].kind == OPND_VEC)
                fix_operand(s, &in->o[1]);
        }
        for (unsigned k = 0; k < in->nopnd; k++)
            if (in->o[k].kind == OPND_REG && in->o[k].type == TY_B128)
                visit_operand(s, i, &in->o[k], false, false, fix_pairs);
    }
    for (uint32_t i = 0; i < s->f->nparams; i++)
        if (s->f->params[i].in_reg)
            visit_operand(s, 0, &s->f->params[i].reg, false, false, fix_pairs);
    for (uint32_t i = 0; i < s->f->nrets; i++)
        if (s->f->rets[i].in_reg)
            visit_operand(s, 0, &s->f->rets[i].reg, false, false, fix_pairs);
}

/* heads, links: lists by instruction; free_list: indices given back */
static void hand_out(struct sharing *s, enum bank bank, uint32_t *heads, uint32_t *links,
                     uint32_t *ends, uint32_t *end_links, uint32_t *free_list)
{
    uint32_t count = 0, nfree = 0;

    for (uint32_t v = s->base[bank]; v < s->base[bank + 1]; v++)
        if (s->fixed[v])
            s->map[v] = count++;
    memset(heads, 0xff, s->n * sizeof *heads);
    memset(ends, 0xff, s->n * sizeof *ends);
    for (uint32_t v = s->base[bank + 1]; v-- > s->base[bank];)
        if (!s->fixed[v] && s->start[v] != NONE) {
            links[v] = heads[s->start[v]];
            heads[s->start[v]] = v;
            end_links[v] = ends[s->end[v]];
            ends[s->end[v]] = v;
        }
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t v = heads[i]; v != NONE; v = links[v])
            s->map[v] = nfree ? free_list[--nfree] : count++;
        for (uint32_t v = ends[i]; v != NONE; v = end_links[v])
            free_list[nfree++] = s->map[v];
    }
    s->f->nregs[bank] = count;
}

static void rename_operand(struct sharing *s, struct operand *o)
{
    if (o->kind == OPND_REG || (o->kind == OPND_ADDR && o->base == ADDR_REG))
        o->reg = s->map[s->base[o->bank] + o->reg];
    for (uint32_t i = 0; o->kind == OPND_VEC && i < o->n; i++)
        rename_operand(s, &s->p->elems[o->reg + i]);
}

static void rename_all(struct sharing *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct inst *in = &s->p->insts[s->f->first + i];

        if (in->guard)
            in->guard_reg = (uint16_t)s->map[s->base[BANK_PRED] + in->guard_reg];
        for (unsigned k = 0; k < in->nopnd; k++)
            rename_operand(s, &in->o[k]);
    }
    for (uint32_t i = 0; i < s->f->nparams; i++)
        if (s->f->params[i].in_reg)
            rename_operand(s, &s->f->params[i].reg);
    for (uint32_t i = 0; i < s->f->nrets; i++)
        if (s->f->rets[i].in_reg)
            rename_operand(s, &s->f->rets[i].reg);
}

static void *take(char **at, size_t size)
{
    void *block = *at;

    *at += (size + 15) / 16 * 16;
    return block;
}

static bool live_ranges(struct sharing *s)
{
    uint64_t words, npreds = 0;

    for (uint32_t b = 0; b < s->nblocks; b++) {
        s->words = b + 1;
        for (uint32_t i = s->blocks[b].first; i < s->blocks[b].end; i++)
            visit_inst(s, i, scan);
        npreds += 2 + s->blocks[b].ntargets;
    }
    s->words = (s->nglobals + 63) / 64;
    if (!s->words)
        return true;
    words = (uint64_t)s->words * s->nblocks;
    if (words * 64 > MAX_BITS || npreds > MAX_BITS)
        return false;

    uint64_t *sets = calloc(words * 3 + s->words, sizeof *sets);
    uint32_t *var_of = malloc((s->nglobals + s->nblocks + 2 + npreds) * sizeof *var_of);
    bool *dirty = malloc(s->nblocks);
    const bool enough = sets && var_of && dirty;

    if (enough) {
        uint32_t *counts = var_of + s->nglobals, *preds = counts + s->nblocks + 2;
        uint64_t *out = sets + 3 * words;

        s->use = sets;
        s->def = sets + words;
        s->in = sets + 2 * words;
        memset(counts, 0, (s->nblocks + 2) * sizeof *counts);
        each_edge(s, count_edge, counts, preds);
        for (uint32_t b = 0; b < s->nblocks; b++)
            counts[b + 1] += counts[b];
        each_edge(s, store_edge, counts, preds);
        for (uint32_t b = s->nblocks; b > 0; b--)       /* storing moved each start to its end */
            counts[b] = counts[b - 1];
        counts[0] = 0;
        for (uint32_t v = 0; v < s->nvars; v++)
            if (s->global[v] != NONE)
                var_of[s->global[v]] = v;
        for (uint32_t i = 0; i < s->n; i++)
            visit_inst(s, i, summarise);
        solve(s, out, dirty, counts, preds);
        widen_live(s, out, var_of);
    }
    free(sets);
    free(var_of);
    free(dirty);
    return enough;
}

/* Short of memory, or with a function too large, registers simply stay as declared. */
void regs_share(struct parser *ps, uint32_t func)
{
    struct function *f = &ps->p->funcs[func];
    struct sharing s = {.p = ps->p, .f = f, .n = f->end - f->first};
    char *block, *at;
    size_t size;

    for (unsigned b = 0; b < BANK_COUNT; b++)
        s.base[b + 1] = s.base[b] + f->nregs[b];
    s.nvars = s.base[BANK_COUNT];
    if (!s.n || !s.nvars)
        return;
    size = (size_t)(s.nvars + 4) * (8 * sizeof(uint32_t) + sizeof(bool)) +
           (size_t)(s.n + 4) * (3 * sizeof(uint32_t) + sizeof(struct block_info)) + 1024;
    block = at = calloc(1, size);
    if (!block)
        return;
    s.start = take(&at, s.nvars * sizeof *s.start);
    s.end = take(&at, s.nvars * sizeof *s.end);
    s.global = take(&at, s.nvars * sizeof *s.global);
    s.defined_in = take(&at, s.nvars * sizeof *s.defined_in);
    s.map = take(&at, s.nvars * sizeof *s.map);

    uint32_t *links = take(&at, s.nvars * sizeof *links);
    uint32_t *end_links = take(&at, s.nvars * sizeof *end_links);
    uint32_t *free_list = take(&at, s.nvars * sizeof *free_list);

    s.fixed = take(&at, s.nvars * sizeof *s.fixed);
    s.block_of = take(&at, s.n * sizeof *s.block_of);

    uint32_t *heads = take(&at, s.n * sizeof *heads);
    uint32_t *ends = take(&at, s.n * sizeof *ends);

    s.blocks = take(&at, s.n * sizeof *s.blocks);
    memset(s.start, 0xff, s.nvars * sizeof *s.start);
    memset(s.global, 0xff, s.nvars * sizeof *s.global);
    memset(s.map, 0xff, s.nvars * sizeof *s.map);
    find_blocks(&s);
    if (live_ranges(&s)) {
        find_fixed(&s);
        for (unsigned b = 0; b < BANK_COUNT; b++)
            hand_out(&s, (enum bank)b, heads, links, ends, end_links, free_list);
        rename_all(&s);
    }
    free(block);
}
