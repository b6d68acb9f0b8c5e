/*
 * What is known only after the last line: the call graph, each kernel's shared memory, and depths.
 */
#include <string.h>

#include "parse.h"

struct graph {
    uint32_t *first;            /* edges of f are to[first[f]] .. to[first[f + 1] - 1] */
    uint32_t *to;
    uint32_t *stack, *seen;     /* seen[f] == stamp: visited in this walk */
    uint32_t stamp;
};

static struct graph graph_of(struct parser *ps)
{
    const uint32_t n = ps->p->nfuncs;
    struct graph g = {
        .first = parse_alloc(ps, (n + 2) * sizeof *g.first),
        .to = parse_alloc(ps, (ps->nedges + 1) * sizeof *g.to),
        .stack = parse_alloc(ps, (n + 1) * sizeof *g.stack),
        .seen = parse_alloc(ps, (n + 1) * sizeof *g.seen),
    };

    for (uint32_t i = 0; i < ps->nedges; i++)
        g.first[ps->edges[i].from + 1]++;
    for (uint32_t f = 0; f < n; f++)
        g.first[f + 1] += g.first[f];
    for (uint32_t i = 0; i < ps->nedges; i++)
        g.to[g.first[ps->edges[i].from]++] = ps->edges[i].to;
    for (uint32_t f = n; f > 0; f--)                /* the filling moved each start to its end */
        g.first[f] = g.first[f - 1];
    g.first[0] = 0;
    return g;
}

/* Marks what `from` reaches, itself included. */
static void walk(struct graph *g, uint32_t from)
{
    uint32_t n = 0;

    g->stamp++;
    g->stack[n++] = from;
    g->seen[from] = g->stamp;
    while (n) {
        const uint32_t f = g->stack[--n];

        for (uint32_t i = g->first[f]; i < g->first[f + 1]; i++)
            if (g->seen[g->to[i]] != g->stamp) {
                g->seen[g->to[i]] = g->stamp;
                g->stack[n++] = g->to[i];
            }
    }
}

/* Deepest sum of frames from each function down; cycles and calls by pointer are `recursive`. */
static void depths(struct parser *ps, struct graph *g)
{
    struct program *p = ps->p;
    uint32_t *next = parse_alloc(ps, (p->nfuncs + 1) * sizeof *next);
    uint8_t *state = parse_alloc(ps, p->nfuncs + 1);        /* 0 new, 1 on the stack, 2 done */
    uint64_t *sum = parse_alloc(ps, (p->nfuncs + 1) * sizeof *sum);

    for (uint32_t root = 0; root < p->nfuncs; root++) {
        uint32_t n = 0;

        if (state[root])
            continue;
        g->stack[n++] = root;
        state[root] = 1;
        next[root] = g->first[root];
        while (n) {
            const uint32_t f = g->stack[n - 1];

            if (next[f] < g->first[f + 1]) {
                const uint32_t callee = g->to[next[f]++];

                if (state[callee] == 0) {
                    state[callee] = 1;
                    next[callee] = g->first[callee];
                    g->stack[n++] = callee;
                } else if (state[callee] == 1) {
                    p->funcs[callee].recursive = true;
                    p->funcs[f].recursive = true;
                }
                continue;
            }

            uint64_t deepest = 0;

            for (uint32_t i = g->first[f]; i < g->first[f + 1]; i++) {
                const struct function *callee = &p->funcs[g->to[i]];

                if (sum[g->to[i]] > deepest)
                    deepest = sum[g->to[i]];
                p->funcs[f].recursive |= callee->recursive;
            }
            sum[f] = deepest + p->funcs[f].frame_size;
            state[f] = 2;
            n--;
        }
    }
    for (uint32_t f = 0; f < p->nfuncs; f++)
        if (p->funcs[f].entry && !p->funcs[f].recursive)
            p->funcs[f].max_frame = sum[f] > UINT32_MAX ? UINT32_MAX : (uint32_t)sum[f];
}

static uint32_t align_up(uint64_t v, uint32_t a)
{
    v = (v + a - 1) / a * a;
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

/*
 * A variable has one offset, good in every kernel that uses it: operands hold offsets, and device
 * functions are shared between kernels. Variables are placed in order of declaration at the lowest
 * offset that is free in all their kernels; with one kernel per variable, the rule in practice,
 * that packs each kernel's variables from 0.
 */
static void shared_memory(struct parser *ps, struct graph *g)
{
    struct program *p = ps->p;
    const uint32_t n = p->nfuncs;
    uint32_t *first = parse_alloc(ps, (n + 2) * sizeof *first);     /* uses by function */
    uint32_t *uses = parse_alloc(ps, (ps->nuses + 1) * sizeof *uses);
    uint32_t *dynamic = parse_alloc(ps, (n + 1) * sizeof *dynamic);
    uint32_t *last = parse_alloc(ps, (ps->nshared + 1) * sizeof *last);
    uint32_t ngroup = 0, group_offset = 0, npairs = 0, cap = 0;
    struct pair { uint32_t var, kernel; } *pairs = NULL;

    if (!ps->nuses)
        return;
    for (uint32_t i = 0; i < ps->nuses; i++)
        first[ps->uses[i].func + 1]++;
    for (uint32_t f = 0; f < n; f++)
        first[f + 1] += first[f];
    for (uint32_t i = 0; i < ps->nuses; i++)
        uses[first[ps->uses[i].func]++] = ps->uses[i].var;
    for (uint32_t f = n; f > 0; f--)                /* the filling moved each start to its end */
        first[f] = first[f - 1];
    first[0] = 0;

    /* which kernels use which variables */
    for (uint32_t k = 0; k < n; k++) {
        if (!p->funcs[k].entry || p->funcs[k].is_extern)
            continue;
        walk(g, k);
        for (uint32_t f = 0; f < n; f++)
            for (uint32_t i = first[f]; g->seen[f] == g->stamp && i < first[f + 1]; i++)
                if (last[uses[i]] != k + 1) {
                    last[uses[i]] = k + 1;
                    if (npairs == cap)
                        pairs = parse_grow(ps, pairs, &cap, npairs, sizeof *pairs);
                    pairs[npairs++] = (struct pair){uses[i], k};
                }
    }

    /* kernels of a variable, in lists */
    uint32_t *head = parse_alloc(ps, (ps->nshared + 1) * sizeof *head);
    uint32_t *link = parse_alloc(ps, (npairs + 1) * sizeof *link);

    for (uint32_t i = npairs; i-- > 0;) {
        link[i] = head[pairs[i].var];
        head[pairs[i].var] = i + 1;
    }
    for (uint32_t v = 0; v < ps->nshared; v++) {
        struct shared_var *var = &ps->shared[v];

        for (uint32_t i = head[v]; i; i = link[i - 1]) {
            struct function *k = &p->funcs[pairs[i - 1].kernel];

            if (var->dynamic) {
                if (var->align > k->dynamic_align)
                    k->dynamic_align = var->align;
            } else if (align_up(k->static_smem, var->align) > var->offset) {
                var->offset = align_up(k->static_smem, var->align);
            }
        }
        for (uint32_t i = head[v]; i && !var->dynamic; i = link[i - 1]) {
            const uint64_t end = (uint64_t)var->offset + var->size;

            p->funcs[pairs[i - 1].kernel].static_smem = end > UINT32_MAX ? UINT32_MAX
                                                                         : (uint32_t)end;
        }
    }

    /* dynamic memory starts behind the statics; kernels whose device functions name it agree */
    for (uint32_t k = 0; k < n; k++) {
        struct function *f = &p->funcs[k];
        bool shares = false;

        if (!f->entry || f->is_extern)
            continue;
        f->dynamic_smem = align_up(f->static_smem, f->dynamic_align ? f->dynamic_align : 16);
        if (!f->dynamic_align)
            continue;
        walk(g, k);
        for (uint32_t d = 0; d < n && !shares; d++)
            for (uint32_t i = first[d]; g->seen[d] == g->stamp && d != k && i < first[d + 1]; i++)
                shares |= ps->shared[uses[i]].dynamic;
        if (shares) {
            dynamic[ngroup++] = k;
            if (f->dynamic_smem > group_offset)
                group_offset = f->dynamic_smem;
        }
    }
    for (uint32_t i = 0; i < ngroup; i++)
        group_offset = align_up(group_offset, p->funcs[dynamic[i]].dynamic_align);
    for (uint32_t i = 0; i < ngroup; i++)
        p->funcs[dynamic[i]].dynamic_smem = group_offset;

    /* operands */
    for (uint32_t i = 0; i < ps->nuses; i++) {
        const struct shared_use *u = &ps->uses[i];
        const struct shared_var *var = &ps->shared[u->var];
        const struct function *f = &p->funcs[u->func];
        struct operand *o = &p->insts[u->pc].o[u->slot];

        o->off += !var->dynamic ? var->offset : f->entry ? f->dynamic_smem : group_offset;
        o->reg = 0;
    }

    /* the kernels' lists */
    for (uint32_t i = 0; i < npairs; i++)
        p->funcs[pairs[i].kernel].nshared++;
    for (uint32_t i = 0; i < npairs; i++) {
        struct function *k = &p->funcs[pairs[i].kernel];

        if (!k->shared) {
            k->shared = parse_alloc(ps, k->nshared * sizeof *k->shared);
            k->nshared = 0;
        }

        const struct shared_var *var = &ps->shared[pairs[i].var];
        struct shared_symbol *list = (struct shared_symbol *)k->shared;

        list[k->nshared++] = (struct shared_symbol){
            .name = var->name, .align = var->align, .size = (uint32_t)var->size,
            .dynamic = var->dynamic, .offset = var->dynamic ? k->dynamic_smem : var->offset,
        };
    }
}

/* .loc names files by number; a number without .file stays with the text. */
static void locations(struct parser *ps)
{
    struct program *p = ps->p;
    uint32_t number = UINT32_MAX, file = 0;

    for (uint32_t pc = 0; pc < p->ninsts; pc++) {
        struct where *w = &p->where[pc];

        if (!(w->file & WHERE_NUMBERED))
            continue;
        if (w->file != number) {
            number = w->file;
            file = 0;
            for (uint32_t i = ps->nnumbered; i-- > 0 && !file;)
                if ((ps->numbered[i].number | WHERE_NUMBERED) == number)
                    file = ps->numbered[i].file;
        }
        w->file = file;
        if (!file)
            w->line = w->ptx_line;
    }
}

void link_program(struct parser *ps)
{
    locations(ps);

    struct graph g = graph_of(ps);

    depths(ps, &g);
    shared_memory(ps, &g);
    for (uint32_t f = 0; f < ps->p->nfuncs; f++)
        if (!ps->p->funcs[f].is_extern && !ps->p->funcs[f].is_alias) {
            bytes_settle(ps, f);
            regs_share(ps, f);
        }
}
