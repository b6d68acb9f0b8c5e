/*
 * The life of clusters and CTAs: placing them on multiprocessors, threads leaving, storage reused.
 */
#define _GNU_SOURCE
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "async.h"
#include "valid.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON(at, bytes)       __asan_poison_memory_region(at, bytes)
#define UNPOISON(at, bytes)     __asan_unpoison_memory_region(at, bytes)
#else
#define POISON(at, bytes)       ((void)(at))
#define UNPOISON(at, bytes)     ((void)(at))
#endif

/* ---- registers of one call depth ---- */

static size_t registers_bytes(const uint32_t counts[BANK_COUNT])
{
    const size_t n32 = counts[BANK_32] + 1u, n64 = counts[BANK_64] + 2u;
    const size_t np = counts[BANK_PRED] + 1u;
    const struct regs *r = NULL;

    return sizeof *r + n64 * sizeof *r->r64 + n32 * sizeof *r->r32 +
           (np * 2 + n32 + n64) * sizeof *r->pred + n32;
}

/* In zeroed memory of registers_bytes(): the widest rows first, so that all are aligned. */
static struct regs *registers_place(void *at, const uint32_t counts[BANK_COUNT])
{
    const size_t n32 = counts[BANK_32] + 1u, n64 = counts[BANK_64] + 2u;
    const size_t np = counts[BANK_PRED] + 1u;
    struct regs *r = at;

    r->r64 = (uint64_t (*)[LANES])(r + 1);
    r->r32 = (uint32_t (*)[LANES])(r->r64 + n64);
    r->pred = (uint32_t *)(r->r32 + n32);
    r->defp = r->pred + np;
    r->def32 = r->defp + np;
    r->def64 = r->def32 + n32;
    r->busy32 = (uint8_t *)(r->def64 + n64);
    return r;
}

struct regs *regs_new(const uint32_t counts[BANK_COUNT])
{
    void *at = calloc(1, registers_bytes(counts));

    return at ? registers_place(at, counts) : NULL;
}

/* Values stay behind, as they do in hardware; nobody is told that they are defined. */
void regs_reset(struct regs *r, const uint32_t counts[BANK_COUNT])
{
    const size_t n32 = counts[BANK_32] + 1u, n64 = counts[BANK_64] + 2u;
    const size_t np = counts[BANK_PRED] + 1u;

    memset(r->defp, 0, (np + n32 + n64) * sizeof *r->defp);
    memset(r->busy32, 0, n32);
}

/* ---- storage: clusters of one shape, one behind another in large pieces ---- */

/*
 * Most of the time of a short launch would go into the first touch of each page: a CTA has 230 KB of
 * shared memory and as much again of registers. Pages of 2 MB make that a tenth.
 */
enum { PIECE_BYTES = 4 << 20, HUGE_PAGE = 2 << 20, GAP = 64 };

struct piece {
    void *base;                 /* of the mapping */
    size_t mapped;
    size_t bytes, used;         /* from this header on */
    unsigned clusters;          /* that live in it, or wait in the pool */
};

static struct piece *piece_new(size_t bytes)
{
    size_t mapped = sizeof(struct piece) + bytes;
    const bool huge = mapped >= HUGE_PAGE / 2;

    if (huge)
        mapped = (mapped + 2 * HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    char *start = base;
    if (huge) {
        start += -(uintptr_t)base % HUGE_PAGE;
        madvise(start, mapped - HUGE_PAGE, MADV_HUGEPAGE); /* without them it is only slower */
    }
    struct piece *p = (struct piece *)start;
    *p = (struct piece){ .base = base, .mapped = mapped, .used = sizeof *p,
                         .bytes = sizeof *p + bytes };
    return p;
}

static void piece_unmap(struct piece *p)
{
    void *const base = p->base;
    const size_t mapped = p->mapped;

    UNPOISON(base, mapped);
    munmap(base, mapped);
}

/* What an array of so many bytes takes of a piece. */
static size_t room_of(size_t bytes)
{
    return (bytes + 63) / 64 * 64 + GAP;
}

static void *carve(struct piece *p, size_t bytes)
{
    char *at = (char *)p + p->used;

    at += -(uintptr_t)at % 64;
    p->used += room_of(bytes);
    POISON(at + bytes, room_of(bytes) - bytes);
    return at;
}

static void warp_free(struct warp *w)
{
    for (unsigned d = 1; d < CALL_DEPTH && w->levels[d]; d++)
        free(w->levels[d]);
    for (unsigned l = 0; l < LANES; l++)
        free(w->stack[l]);
    free(w->local);
    free(w->local_valid);
}

static void cluster_free(struct machine *m, struct cluster *c)
{
    struct piece *const p = c->piece;

    for (unsigned i = 0; i < c->size; i++)
        for (unsigned k = 0; k < c->ctas[i]->warp_count; k++)
            warp_free(&c->ctas[i]->warps[k]);
    if (--p->clusters == 0 && p != m->piece)
        piece_unmap(p);
}

static size_t cluster_room(const struct grid *g)
{
    const size_t smem = (size_t)SMEM_START + g->smem;
    const struct cta *cta = NULL;

    return room_of(sizeof(struct cluster)) +
           g->cluster_size * (room_of(sizeof *cta) + room_of(g->warps * sizeof *cta->warps) +
                              room_of(smem + 64) + room_of(valid_bytes(smem)) +
                              g->warps * room_of(registers_bytes(g->fn->nregs)));
}

static struct cta *cta_place(struct piece *p, const struct grid *g)
{
    const size_t smem = (size_t)SMEM_START + g->smem;
    struct cta *cta = carve(p, sizeof *cta);

    cta->warp_count = g->warps;
    cta->warps = carve(p, g->warps * sizeof *cta->warps);
    cta->bytes = carve(p, smem + 64);
    cta->valid = carve(p, valid_bytes(smem));
    for (unsigned i = 0; i < g->warps; i++)
        cta->warps[i].levels[0] = registers_place(carve(p, registers_bytes(g->fn->nregs)),
                                                  g->fn->nregs);
    return cta;
}

static void piece_leave(struct machine *m)
{
    if (m->piece && !m->piece->clusters)
        piece_unmap(m->piece);
    m->piece = NULL;
}

void pool_clear(struct machine *m)
{
    while (m->pool) {
        struct cluster *c = m->pool;
        m->pool = c->next;
        cluster_free(m, c);
    }
    piece_leave(m);
}

/* Storage for a cluster of the grid, from the pool if that has the right shape. */
static struct cluster *cluster_new(struct machine *m, const struct grid *g)
{
    struct shape shape;

    memset(&shape, 0, sizeof shape);
    shape.warps = g->warps;
    shape.cluster = g->cluster_size;
    shape.smem = g->smem;
    memcpy(shape.registers, g->fn->nregs, sizeof shape.registers);
    if (memcmp(&shape, &m->shape, sizeof shape)) {
        pool_clear(m);
        m->shape = shape;
    }
    struct cluster *c = m->pool;
    if (c) {
        m->pool = c->next;
        return c;
    }

    const size_t room = cluster_room(g);
    if (!m->piece || m->piece->bytes - m->piece->used < room) {
        const uint64_t left = g->clusters - g->started;
        const uint64_t most = PIECE_BYTES / room ? PIECE_BYTES / room : 1;

        piece_leave(m);
        m->piece = piece_new((left < most ? left : most) * room + 64);
        if (!m->piece)
            return NULL;
    }
    c = carve(m->piece, sizeof *c);
    c->piece = m->piece;
    c->piece->clusters++;
    c->size = g->cluster_size;
    for (unsigned i = 0; i < c->size; i++)
        c->ctas[i] = cta_place(c->piece, g);
    return c;
}

static void cluster_recycle(struct machine *m, struct cluster *c)
{
    const struct grid *g = c->grid;

    if (g->warps == m->shape.warps && g->cluster_size == m->shape.cluster &&
        g->smem == m->shape.smem &&
        !memcmp(g->fn->nregs, m->shape.registers, sizeof m->shape.registers)) {
        c->next = m->pool;
        m->pool = c;
    } else {
        cluster_free(m, c);
    }
}

/* ---- start ---- */

static void warp_reset(struct warp *w, struct cta *cta, unsigned id)
{
    struct grid *g = cta->grid;
    const unsigned first = id * LANES;
    const unsigned lanes = g->threads - first < LANES ? g->threads - first : LANES;

    for (unsigned d = 1; d < CALL_DEPTH && w->levels[d]; d++) {
        free(w->levels[d]);
        w->levels[d] = NULL;
    }
    for (unsigned l = 0; l < LANES; l++) {
        free(w->stack[l]);
        w->stack[l] = NULL;
    }
    free(w->local);
    free(w->local_valid);
    w->local = w->local_valid = NULL;
    regs_reset(w->levels[0], g->fn->nregs);

    w->r = *w->levels[0];
    w->fn = g->fn;
    w->frame = 0;
    w->depth = 0;
    w->group = w->at = w->settled = 0;
    w->regroup = false;
    w->m = cta->m;
    w->grid = g;
    w->cta = cta;
    w->id = id;
    w->launched = w->alive = lanes == LANES ? UINT32_MAX : (1u << lanes) - 1;
    w->parked = w->skip = 0;
    w->turns = w->dealt = 0;
    memset(&w->watch, 0, sizeof w->watch);
    w->watch.progress = UINT64_MAX;
    w->busy = 0;
    w->queued = false;
    w->steps = 0;
    w->registers = g->registers;
    w->carry = w->def_carry = 0;
    w->cluster_arrived = w->cluster_phase = 0;
    w->wake_at = UINT64_MAX;
    w->park_count = 0;
    w->local_size = w->frame_bytes = 0;
    memset(w->taken, 0, sizeof w->taken);
    for (unsigned l = 0; l < LANES; l++) {
        w->pc[l] = g->fn->first;
        w->lane_depth[l] = 0;
        w->lane_frame[l] = 0;
        w->lane_fn[l] = g->fn;
    }
}

static void cta_reset(struct cta *cta, struct cluster *c, unsigned rank, const unsigned id[3],
                      unsigned sm)
{
    struct grid *g = c->grid;

    cta->m = g->m;
    cta->grid = g;
    cta->cluster = c;
    cta->rank = rank;
    memcpy(cta->id, id, sizeof cta->id);
    cta->number = (id[2] * g->dims[1] + id[1]) * g->dims[0] + id[0];
    cta->sm = sm;
    cta->smem_end = SMEM_START + g->smem;
    memset(cta->valid, 0, valid_bytes(cta->smem_end));
    cta->threads = g->threads;
    cta->live_warps = g->warps;
    memset(cta->meeting, 0, sizeof cta->meeting);
    memset(cta->met, 0, sizeof cta->met);
    memset(cta->barriers, 0, sizeof cta->barriers);
    memset(cta->pool, 0, sizeof cta->pool);
    cta->triggered = cta->exited = false;
    for (unsigned i = 0; i < g->warps; i++)
        warp_reset(&cta->warps[i], cta, i);
}

static unsigned warp_registers(const struct grid *g)
{
    return (g->registers * LANES + 255) / 256 * 256;
}

static unsigned cta_smem(const struct machine *m, const struct grid *g)
{
    const unsigned unit = m->limits.smem_granularity;

    return (g->smem + m->limits.smem_reserved + unit - 1) / unit * unit;
}

static void sm_take(struct machine *m, const struct grid *g, unsigned sm, int sign)
{
    struct sm *s = &m->sms[sm];

    s->threads += (unsigned)sign * g->warps * LANES;
    s->warps += (unsigned)sign * g->warps;
    s->ctas += (unsigned)sign;
    s->registers += (unsigned)sign * warp_registers(g) * g->warps;
    s->smem += (unsigned)sign * cta_smem(m, g);
}

static bool sm_has_room(const struct machine *m, const struct grid *g, unsigned i)
{
    const struct sm *s = &m->sms[i];

    return s->threads + g->warps * LANES <= m->limits.threads &&
           s->warps + g->warps <= m->limits.warps && s->ctas < m->limits.ctas &&
           s->registers + warp_registers(g) * g->warps <= m->limits.registers &&
           s->smem + cta_smem(m, g) <= m->limits.smem;
}

/* The emptiest multiprocessor with room for one CTA of the grid, or -1. */
static int sm_find(const struct machine *m, const struct grid *g)
{
    int best = -1;

    for (unsigned i = 0; i < m->config.sms; i++) {
        const struct sm *s = &m->sms[i];
        if (!sm_has_room(m, g, i))
            continue;
        if (best < 0 || s->ctas < m->sms[best].ctas)
            best = (int)i;
        if (!s->ctas)
            break;
    }
    return best;
}

/* Whether the CTAs 2i and 2i + 1 of a cluster work as a pair: on multiprocessors 2j and 2j + 1. */
static bool pairs(const struct grid *g)
{
    return g->fn->cta_groups >> 2 & 1;
}

/* Where a CTA of a pair goes: beside the one of even rank, or, for that one (-1), where both find
 * room. -1: nowhere. */
static int sm_find_for_pair(const struct machine *m, const struct grid *g, int first)
{
    int best = -1;

    if (first >= 0)
        return first + 1;
    for (unsigned i = 0; i + 1 < m->config.sms; i += 2) {
        if (!sm_has_room(m, g, i) || !sm_has_room(m, g, i + 1))
            continue;
        if (best < 0 || m->sms[i].ctas < m->sms[best].ctas)
            best = (int)i;
        if (!m->sms[i].ctas)
            break;
    }
    return best;
}

bool grid_may_start(const struct machine *m, const struct grid *g)
{
    if (g->index && g->launch->programmatic) {
        const struct grid *before = g - 1;
        return before->done || (before->started == before->clusters &&
                                before->triggered + before->exited >= before->ctas);
    }
    for (unsigned i = 0; i < g->index; i++)
        if (!m->grids[i].done)
            return false;
    return true;
}

/* Clusters in order, x first; CTAs within a cluster likewise. */
static void next_cluster(struct grid *g, unsigned first[3])
{
    const uint64_t n = g->started++;
    const uint64_t nx = g->dims[0] / g->cluster[0], ny = g->dims[1] / g->cluster[1];
    const uint64_t place[3] = { n % nx, n / nx % ny, n / nx / ny };

    for (unsigned d = 0; d < 3; d++)
        first[d] = (unsigned)place[d] * g->cluster[d];
}

bool grid_cancel(struct grid *g, unsigned first[3])
{
    if (g->started == g->clusters)
        return false;
    next_cluster(g, first);
    g->finished++;
    g->exited += g->cluster_size;       /* nobody waits for them: they count as exited */
    g->m->reap = true;
    return true;
}

bool cluster_start(struct machine *m, struct grid *g)
{
    int sms[CLUSTER_CTAS];
    unsigned taken = 0;

    while (taken < g->cluster_size) {
        const int sm = pairs(g) ? sm_find_for_pair(m, g, taken % 2 ? sms[taken - 1] : -1)
                                : sm_find(m, g);
        if (sm < 0)
            break;
        sms[taken++] = sm;
        sm_take(m, g, (unsigned)sm, 1);
    }
    if (taken < g->cluster_size) {
        while (taken)
            sm_take(m, g, (unsigned)sms[--taken], -1);
        return false;
    }

    struct cluster *c = cluster_new(m, g);
    if (!c || !ready_reserve(m, g->warps * g->cluster_size)) {
        if (c)
            cluster_free(m, c);
        return machine_fail(m, TRAP_MEMORY, "a cluster of %s", g->fn->name);
    }
    c->grid = g;
    c->live = c->size;
    c->barrier_phase = 0;
    c->barrier_arrived = 0;
    c->threads = c->size * g->threads;
    c->outstanding = 0;
    c->last_one = false;
    c->next = g->live;
    g->live = c;

    unsigned first[3];
    next_cluster(g, first);
    for (unsigned i = 0; i < c->size; i++) {
        const unsigned in[3] = { i % g->cluster[0], i / g->cluster[0] % g->cluster[1],
                                 i / g->cluster[0] / g->cluster[1] };
        unsigned id[3];
        for (unsigned d = 0; d < 3; d++)
            id[d] = first[d] + in[d];
        struct cta *cta = c->ctas[i];
        cta_reset(cta, c, i, id, (unsigned)sms[i]);
        if (!async_cta_open(cta))
            return machine_fail(m, TRAP_MEMORY, "a CTA of %s", g->fn->name);
    }
    for (unsigned i = 0; i < c->size; i++) {
        struct cta *cta = c->ctas[i];
        const struct site at = { .cta = cta, .warp = -1, .lane = -1 };
        machine_observe(m, &at, EVENT_CTA_START, 0, cta->number, 0);
        for (unsigned k = 0; k < cta->warp_count; k++)
            warp_ready(&cta->warps[k]);
    }
    machine_progress(m);
    return true;
}

/* ---- end ---- */

static void cta_exit(struct cta *cta)
{
    struct machine *m = cta->m;
    struct grid *g = cta->grid;
    const struct site at = { .cta = cta, .warp = -1, .lane = -1 };

    async_cta_exit(cta);
    cta->exited = true;
    cta->cluster->live--;
    m->reap = true;
    if (cta->triggered)
        g->triggered--;         /* counted as exited from here on */
    g->exited++;
    sm_take(m, g, cta->sm, -1);
    machine_observe(m, &at, EVENT_CTA_EXIT, 0, cta->number, 0);
}

void lanes_exit(struct warp *w, const struct inst *in, uint32_t lanes)
{
    struct cta *cta = w->cta;

    async_lanes_exit(w, in, lanes);
    w->alive &= ~lanes;
    w->regroup = true;
    machine_progress(w->m);
    cluster_exit(w, in, lanes);
    barrier_exit(w, lanes);
    if (w->park_count)
        warp_recheck(w);
    if (!w->alive && !--cta->live_warps)
        cta_exit(cta);
}

void cluster_forget(struct machine *m, struct cluster *c)
{
    for (unsigned i = 0; i < c->size; i++)
        if (c->ctas[i]->async)
            async_cta_close(c->ctas[i]);
    cluster_recycle(m, c);
}

static void grid_done(struct machine *m, struct grid *g)
{
    g->done = true;
    machine_progress(m);
    for (unsigned i = g->index + 1; i < m->grid_count; i++)
        for (struct cluster *c = m->grids[i].live; c; c = c->next)
            for (unsigned k = 0; k < c->size; k++)
                cta_wake(c->ctas[k], WAIT_GRID, 0);
}

void cluster_reap(struct machine *m)
{
    m->reap = false;
    for (unsigned i = 0; i < m->grid_count; i++) {
        struct grid *g = &m->grids[i];
        for (struct cluster **link = &g->live; *link; ) {
            struct cluster *c = *link;
            if (c->live || c->outstanding) {
                m->reap |= !c->live;
                link = &c->next;
                continue;
            }
            *link = c->next;
            g->finished++;
            cluster_forget(m, c);
        }
        if (!g->done && g->finished == g->clusters)
            grid_done(m, g);
    }
}
