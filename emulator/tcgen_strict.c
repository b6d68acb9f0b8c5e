/* tcgen05 under the rule strict-fence: what the manual's waits and fences order, and nothing else,
 * whatever the engines have finished by chance.
 *
 *     before                        after, by another thread        asked for
 *     mma, cp, shift (engine)       ld, st, engine                  commit arrived; after_thread_sync
 *     cp, shift -> mma and the like engine                          or both fences without completion
 *     st                            ld, st, engine                  wait::st, before; after
 *     ld                            st, engine that overwrites      wait::ld, before; after
 *
 * Within one warp the waits alone are asked for; engines of one thread follow the pipelined pairs.
 * Each quarter of a column remembers its last writer and its last readers since.
 */
#include <stdlib.h>
#include <string.h>

#include "tcgen.h"

enum { QUARTERS = 4 };

struct user {
    bool set, engine, waited;
    uint8_t side;
    uint16_t warp, lane;
    enum tcgen_class class;
    uint64_t number;
    uint64_t told;              /* engine: when a commit told of it; else when before came behind wait */
    uint64_t before;            /* engine: when its thread executed before_thread_sync */
    uint32_t accumulator;       /* mma: with its shape, what makes two of them a pair */
    uint16_t m, n;
    unsigned line;
};

struct cell {
    struct user writer, loader, engine_reader;
};

struct tcgen_strict {
    struct cell cells[2][TMEM_COLUMNS][QUARTERS];
};

static bool strict(const struct machine *m)
{
    return machine_config(m)->rules & RULE_STRICT_FENCE;
}

void tcgen_strict_forget(struct tcgen_unit *u, unsigned side, unsigned first, unsigned columns)
{
    if (u->strict)
        memset(u->strict->cells[side][first], 0, columns * sizeof u->strict->cells[0][0]);
}

/* ---- what has been learnt -------------------------------------------------------------------- */

static void learn(struct user *x, const struct tcgen_unit *u, unsigned side, unsigned warp,
                  int lane, bool before)
{
    if (!x->set || x->side != side || x->warp != warp || (x->engine && lane >= 0 && x->lane != lane))
        return;
    if (x->engine && before && !x->before)
        x->before = u->ticks;
    else if (!x->engine && x->waited && before && !x->told)
        x->told = u->ticks;
}

static void each(struct tcgen_unit *u, void (*visit)(struct user *x, const void *what),
                 const void *what)
{
    for (unsigned s = 0; s < 2; s++)
        for (unsigned c = 0; c < TMEM_COLUMNS; c++)
            for (unsigned q = 0; q < QUARTERS; q++) {
                struct cell *cell = &u->strict->cells[s][c][q];

                visit(&cell->writer, what);
                visit(&cell->loader, what);
                visit(&cell->engine_reader, what);
            }
}

struct learner {
    const struct tcgen_unit *unit;
    unsigned side, warp;
    int lane;
    uint64_t upto;
    bool loads;
};

static void visit_before(struct user *x, const void *what)
{
    const struct learner *l = what;

    learn(x, l->unit, l->side, l->warp, l->lane, true);
}

/* A warp, or one lane of it, has executed before_thread_sync. */
void tcgen_strict_before(struct tcgen_unit *u, unsigned side, unsigned warp, int lane)
{
    if (u->strict)
        each(u, visit_before, &(struct learner){.unit = u, .side = side, .warp = warp, .lane = lane});
}

static void visit_wait(struct user *x, const void *what)
{
    const struct learner *l = what;

    if (x->set && !x->engine && x->side == l->side && x->warp == l->warp &&
        (x->class == TCGEN_LD) == l->loads)
        x->waited = true;
}

void tcgen_strict_wait(struct tcgen_unit *u, unsigned side, unsigned warp, bool loads)
{
    if (u->strict)
        each(u, visit_wait, &(struct learner){.side = side, .warp = warp, .loads = loads});
}

static void visit_commit(struct user *x, const void *what)
{
    const struct learner *l = what;

    if (x->set && x->engine && x->side == l->side && x->warp == l->warp && x->lane == l->lane &&
        x->number <= l->upto && !x->told)
        x->told = l->unit->ticks;
}

/* A commit of the thread has arrived, for its operations up to a number. */
void tcgen_strict_told(struct tcgen_unit *u, unsigned side, unsigned warp, int lane, uint64_t upto)
{
    if (!u->strict)
        return;
    u->ticks++;
    each(u, visit_commit, &(struct learner){.unit = u, .side = side, .warp = warp, .lane = lane,
                                            .upto = upto});
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static bool pipelined(const struct user *x, const struct tcgen_op *op)
{
    switch (x->class) {
    case TCGEN_MMA:
        return op->class == TCGEN_SHIFT ||
               (op->class == TCGEN_MMA && op->accumulator == x->accumulator && op->m == x->m &&
                op->n == x->n);
    case TCGEN_CP: return op->class == TCGEN_MMA;
    case TCGEN_SHIFT:
        return op->class == TCGEN_MMA || (op->class == TCGEN_CP && op->rows_of_4);
    default: return false;
    }
}

/* The least time of after_thread_sync among the lanes that issue. */
static uint64_t after_of(struct tcgen_unit *u, const struct tcgen_op *op)
{
    const struct tcgen_side *side = &u->sides[op->side];
    const struct tcgen_thread *t = &side->threads[op->job.site.warp * LANES];
    uint64_t least = UINT64_MAX;

    if (op->class < TCGEN_LD)
        return t[op->job.site.lane].after;
    for (unsigned l = 0; l < LANES; l++)
        least = t[l].after < least ? t[l].after : least;
    return least;
}

/* NULL, or what is missing between x and the operation. */
static const char *missing(struct tcgen_unit *u, const struct user *x, const struct tcgen_op *op)
{
    const bool engine = op->class < TCGEN_LD;
    const bool warp = x->side == op->side && x->warp == op->job.site.warp;
    const uint64_t after = after_of(u, op);

    if (x->engine && engine && warp && x->lane == op->job.site.lane) {
        const bool cp_behind = x->class == TCGEN_MMA && op->class == TCGEN_CP;

        return pipelined(x, op) || cp_behind || x->told ? NULL : "a commit, and a wait for it";
    }
    if (x->engine) {
        if (engine && pipelined(x, op) && x->before && after > x->before)
            return NULL;
        if (!x->told)
            return "a commit, and a wait for it";
        return after > x->told ? NULL : "tcgen05.fence::after_thread_sync behind the wait";
    }
    if (!x->waited)
        return x->class == TCGEN_LD ? "tcgen05.wait::ld" : "tcgen05.wait::st";
    if (warp)
        return NULL;
    if (!x->told)
        return "tcgen05.fence::before_thread_sync behind the wait";
    return after > x->told ? NULL : "tcgen05.fence::after_thread_sync";
}

static bool behind(struct warp *w, struct tcgen_unit *u, const struct user *x,
                   const struct tcgen_op *op, unsigned column)
{
    static const char *const names[TCGEN_CLASSES] = {
        [TCGEN_MMA] = "tcgen05.mma", [TCGEN_CP] = "tcgen05.cp", [TCGEN_SHIFT] = "tcgen05.shift",
        [TCGEN_LD] = "tcgen05.ld", [TCGEN_ST] = "tcgen05.st",
    };
    const char *what = x->set ? missing(u, x, op) : NULL;

    if (!what)
        return true;
    machine_trap(w->m, &op->job.site, TRAP_FENCE, "the %s of line %u (CTA rank %u, warp %u) used "
                 "column %u of Tensor Memory before; between the two is no %s", names[x->class],
                 x->line, u->sides[x->side].cta->rank, x->warp, column, what);
    return false;
}

static void remember(struct cell *cell, const struct user *me, bool write)
{
    if (write)
        *cell = (struct cell){.writer = *me};
    else if (me->engine)
        cell->engine_reader = *me;
    else
        cell->loader = *me;
}

/* Before an operation is issued. False: trapped. */
bool tcgen_strict_issue(struct warp *w, struct tcgen_op *op)
{
    struct tcgen_unit *u = op->unit;
    const struct user me = {
        .set = true, .engine = op->class < TCGEN_LD, .side = (uint8_t)op->side,
        .warp = (uint16_t)w->id, .lane = (uint16_t)op->job.site.lane, .class = op->class,
        .number = op->number, .accumulator = op->accumulator, .m = (uint16_t)op->m,
        .n = (uint16_t)op->n,
        .line = w->grid->program->where[op->job.site.inst - w->grid->program->insts].line,
    };

    if (!strict(w->m))
        return true;
    if (!u->strict)
        u->strict = calloc(1, sizeof *u->strict);
    for (unsigned i = 0; u->strict && i < op->span_count; i++) {
        const struct tcgen_span *s = &op->spans[i];

        for (unsigned side = 0; side < 2; side++)
            for (unsigned c = s->column; s->sides >> side & 1 && c < s->column + s->columns; c++)
                for (unsigned q = 0; q < QUARTERS; q++) {
                    struct cell *cell = &u->strict->cells[side][c][q];

                    if (!(s->lanes >> 2 * q & 3))
                        continue;
                    if (!behind(w, u, &cell->writer, op, c) ||
                        (s->write && (!behind(w, u, &cell->loader, op, c) ||
                                      !behind(w, u, &cell->engine_reader, op, c))))
                        return false;
                    remember(cell, &me, s->write);
                }
    }
    return true;
}
