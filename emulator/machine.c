#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "async.h"
#include "tcgen.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

enum { IDLE_STEPS = 400000000 };

struct machine *machine_create(const struct machine_config *config, struct mem *mem)
{
    struct machine *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->config = *config;
    if (!m->config.idle_steps)
        m->config.idle_steps = IDLE_STEPS;
    m->mem = mem;
    machine_limits(config, &m->limits);
    m->sms = calloc(config->sms, sizeof *m->sms);
    if (!m->sms || !async_open(m)) {
        free(m->sms);
        free(m);
        return NULL;
    }
    return m;
}

void machine_destroy(struct machine *m)
{
    if (!m)
        return;
    pool_clear(m);
    async_close(m);
    tcgen_machine_close(m);
    trap_clear(&m->trap);
    free(m->ready);
    free(m->sms);
    free(m);
}

void machine_limits(const struct machine_config *config, struct machine_limits *limits)
{
    (void)config;               /* both parts have the same */
    *limits = (struct machine_limits){
        .threads = 2048, .warps = 64, .ctas = 32, .registers = 65536, .smem = 233472,
        .smem_reserved = 1024, .smem_cta = 232448, .smem_granularity = 128,
    };
}

/* ---- registers and occupancy ---- */

static unsigned round_up(unsigned n, unsigned to)
{
    return (n + to - 1) / to * to;
}

/*
 * Nobody has allocated registers for PTX text. With setmaxnreg the assembler takes the most that
 * the declared CTA may have, but not more than the largest increase asks for; otherwise the
 * virtual registers of the decoder, which share by life time, are the estimate.
 */
unsigned machine_registers(const struct program *program, const struct function *fn,
                           unsigned threads)
{
    unsigned declared = 1, cap = 255;

    for (unsigned i = 0; i < 3; i++) {
        const unsigned n = fn->reqntid[i] ? fn->reqntid[i] : fn->maxntid[i];
        declared *= n ? n : 1;
    }
    if (fn->reqntid[0] || fn->maxntid[0])
        threads = declared;
    if (!threads)
        threads = 1;
    threads = round_up(threads, LANES) * (fn->minnctapersm ? fn->minnctapersm : 1);
    if (65536 / threads < 256)
        cap = 65536 / threads / 8 * 8;
    if (fn->maxnreg)            /* may be more than the CTA's threads can have: no launch then */
        cap = fn->maxnreg;

    unsigned want = round_up(fn->nregs[BANK_32] + 2 * fn->nregs[BANK_64] + 8, 8);
    if (fn->uses_setmaxnreg) {
        unsigned most = 0;

        for (uint32_t pc = fn->first; pc < fn->end; pc++) {
            const struct inst *in = &program->insts[pc];
            if (in->op == OP_SETMAXNREG && in->sub == SUB_INC && in->o[0].imm > most)
                most = (unsigned)in->o[0].imm;
        }
        want = most ? most : cap;
    }
    return want < cap ? want < 16 ? 16 : want : cap;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned machine_occupancy(const struct machine_config *config, const struct program *program,
                           const struct function *fn, unsigned threads, unsigned dynamic_smem)
{
    struct machine_limits have;
    const unsigned warps = (threads + LANES - 1) / LANES;
    const unsigned base = fn->dynamic_align ? fn->dynamic_smem : fn->static_smem;
    const unsigned registers = round_up(machine_registers(program, fn, threads) * LANES, 256);

    machine_limits(config, &have);
    const unsigned user = base + dynamic_smem;
    if (!warps || user > have.smem_cta || user < dynamic_smem || warps > CTA_WARPS)
        return 0;
    const unsigned smem = round_up(user + have.smem_reserved, have.smem_granularity);
    unsigned n = least(have.ctas, have.warps / warps);
    n = least(n, have.registers / (registers * warps));
    return least(n, have.smem / smem);
}

/* ---- a run ---- */

static bool grid_prepare(struct machine *m, struct grid *g, const struct launch *l, unsigned index)
{
    memset(g, 0, sizeof *g);
    g->m = m;
    g->launch = l;
    g->program = l->program;
    g->fn = l->function;
    g->index = index;
    g->threads = g->ctas = g->cluster_size = g->clusters = 1;
    for (unsigned i = 0; i < 3; i++) {
        g->dims[i] = l->grid[i];
        g->block[i] = l->block[i];
        g->cluster[i] = l->cluster[i] ? l->cluster[i] : 1;
        g->threads *= l->block[i];
        g->ctas *= l->grid[i];
        g->cluster_size *= g->cluster[i];
        g->clusters *= l->grid[i] / g->cluster[i];
    }
    g->warps = (g->threads + LANES - 1) / LANES;
    g->registers = machine_registers(g->program, g->fn, g->threads);
    g->smem = g->fn->static_smem;
    if (l->dynamic_smem || g->fn->dynamic_align)
        g->smem = (g->fn->dynamic_align ? g->fn->dynamic_smem : g->fn->static_smem) +
                  l->dynamic_smem;

    if (!g->ctas || !g->threads || g->warps > CTA_WARPS || g->cluster_size > CLUSTER_CTAS)
        return machine_fail(m, TRAP_RESOURCES,
                            "%s: %u threads in a CTA, %u CTAs in a cluster", g->fn->name,
                            g->threads, g->cluster_size);
    const unsigned fit = machine_occupancy(&m->config, g->program, g->fn, g->threads,
                                           l->dynamic_smem);
    if (g->fn->cta_groups >> 2 & 1 && (m->config.sms < 2 || g->cluster_size % 2))
        return machine_fail(m, TRAP_RESOURCES, m->config.sms < 2
                            ? "%s: a CTA pair needs two multiprocessors"
                            : "%s: its clusters of an odd size are no CTA pairs", g->fn->name);
    if ((uint64_t)fit * m->config.sms < g->cluster_size)
        return machine_fail(m, TRAP_RESOURCES,
                            "%s: %u of its CTAs (%u threads, %u registers each, %u bytes of shared "
                            "memory) fit a multiprocessor, a cluster has %u", g->fn->name, fit,
                            g->threads, g->registers, g->smem, g->cluster_size);

    g->param_bytes = (uint32_t)l->param_bytes;
    g->params = calloc(1, l->param_bytes + 64);
    if (!g->params)
        return machine_fail(m, TRAP_MEMORY, "parameters of %s", g->fn->name);
    if (l->param_bytes)
        memcpy(g->params, l->params, l->param_bytes);
    return true;
}

bool machine_run(struct machine *m, const struct launch *launches, size_t count, struct trap *trap)
{
    trap_clear(trap);
    trap_clear(&m->trap);
    m->trapped = m->idle = false;
    m->now = m->progress = m->slept = 0;
    m->next_timer = UINT64_MAX;
    m->next_start = m->start_slices = 0;
    m->ready_first = m->ready_count = 0;
    m->random = m->config.seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x243f6a8885a308d3);
    m->cache = m->engine_cache = (struct mem_cache){ 0 };
    memset(m->sms, 0, m->config.sms * sizeof *m->sms);
    tcgen_machine_reset(m);
    if (!count)
        return true;

    m->grids = calloc(count, sizeof *m->grids);
    m->grid_count = 0;
    if (!m->grids)
        machine_fail(m, TRAP_MEMORY, "%zu grids", count);
    while (!m->trapped && m->grid_count < count) {
        const unsigned i = m->grid_count++;
        grid_prepare(m, &m->grids[i], &launches[i], i);
    }

#ifdef __SSE2__
    /* The caller may flush subnormals or round another way; the instructions say it themselves. */
    const unsigned caller = _mm_getcsr();
    _mm_setcsr(0x1f80);
#endif
    if (!m->trapped)
        machine_loop(m);
#ifdef __SSE2__
    _mm_setcsr(caller);
#endif

    async_reset(m);
    for (unsigned i = 0; i < m->grid_count; i++) {
        while (m->grids[i].live) {
            struct cluster *c = m->grids[i].live;
            m->grids[i].live = c->next;
            cluster_forget(m, c);
        }
        free(m->grids[i].params);
    }
    free(m->grids);
    m->grids = NULL;
    m->grid_count = 0;
    if (!m->trapped)
        return true;
    *trap = m->trap;
    memset(&m->trap, 0, sizeof m->trap);
    return false;
}

/* ---- small things ---- */

uint64_t machine_now(const struct machine *m)
{
    return m->now;
}

uint64_t machine_random(struct machine *m)
{
    uint64_t x = m->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

const struct machine_config *machine_config(const struct machine *m)
{
    return &m->config;
}

struct mem *machine_memory(struct machine *m)
{
    return m->mem;
}

struct async **machine_async(struct machine *m)
{
    return &m->async;
}

void machine_progress(struct machine *m)
{
    m->progress = m->now;
    m->slept = 0;
}

void machine_interrupt(struct machine *m)
{
    m->interrupt = true;
}

bool machine_trapped(const struct machine *m)
{
    return m->trapped;
}

void machine_observe(struct machine *m, const struct site *at, enum machine_event_kind kind,
                     uint32_t lanes, uint64_t object, uint64_t value)
{
    if (!m->config.observe)
        return;
    const struct machine_event event = {
        .id = m->events++, .time = m->now, .kind = kind, .lanes = lanes,
        .sm = at->cta->sm, .cta = at->cta->number, .warp = at->warp, .inst = at->inst,
        .object = object, .value = value,
    };
    m->config.observe(m->config.user, &event);
}

/* ---- traps ---- */

static void record(struct machine *m, const struct site *at, enum trap_kind kind,
                   const uint64_t *address, const char *format, va_list arguments)
{
    if (m->trapped)
        return;
    struct trap *t = &m->trap;
    trap_clear(t);
    m->trapped = true;
    t->kind = kind;
    t->level = TRAP_ERROR;
    if (address) {
        t->has_address = true;
        t->address = *address;
    }
    if (at && at->cta) {
        const struct grid *g = at->cta->grid;
        const struct program *p = g->program;
        snprintf(t->kernel, sizeof t->kernel, "%s", g->fn->name);
        t->in_cta = true;
        memcpy(t->cta, at->cta->id, sizeof t->cta);
        t->warp = at->warp;
        t->lane = at->lane;
        if (at->lane >= 0 && at->warp >= 0) {
            const unsigned n = (unsigned)at->warp * LANES + (unsigned)at->lane;
            t->thread[0] = n % g->block[0];
            t->thread[1] = n / g->block[0] % g->block[1];
            t->thread[2] = n / g->block[0] / g->block[1];
        }
        if (at->inst) {
            const uint32_t pc = (uint32_t)(at->inst - p->insts);
            snprintf(t->file, sizeof t->file, "%s", p->files[p->where[pc].file]);
            t->line = p->where[pc].line;
            program_text(p, pc, t->source, sizeof t->source);
        }
    }
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    t->text = length >= 0 ? malloc((size_t)length + 1) : NULL;
    if (t->text)
        vsnprintf(t->text, (size_t)length + 1, format, arguments);
}

bool machine_fail(struct machine *m, enum trap_kind kind, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    record(m, NULL, kind, NULL, format, arguments);
    va_end(arguments);
    return false;
}

void machine_trap(struct machine *m, const struct site *at, enum trap_kind kind,
                  const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    record(m, at, kind, NULL, format, arguments);
    va_end(arguments);
}

void machine_trap_at(struct machine *m, const struct site *at, enum trap_kind kind,
                     uint64_t address, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    record(m, at, kind, &address, format, arguments);
    va_end(arguments);
}

enum flow warp_trap(struct warp *w, const struct inst *in, int lane, enum trap_kind kind,
                    const char *format, ...)
{
    const struct site at = { .cta = w->cta, .inst = in, .warp = (int)w->id, .lane = lane };
    va_list arguments;

    va_start(arguments, format);
    record(w->m, &at, kind, NULL, format, arguments);
    va_end(arguments);
    return FLOW_TRAP;
}

enum flow warp_trap_at(struct warp *w, const struct inst *in, int lane, enum trap_kind kind,
                       uint64_t address, const char *format, ...)
{
    const struct site at = { .cta = w->cta, .inst = in, .warp = (int)w->id, .lane = lane };
    va_list arguments;

    va_start(arguments, format);
    record(w->m, &at, kind, &address, format, arguments);
    va_end(arguments);
    return FLOW_TRAP;
}
