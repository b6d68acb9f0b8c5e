#include "async.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proxy.h"
#include "state.h"
#include "tcgen.h"
#include "valid.h"

/* ---- the queue: a binary heap by (time, tie) ---- */

/* Small, because the heap moves them about. */
struct event {
    uint64_t time, tie;
    struct action *action;
};

struct action {
    struct async_job *job;
    unsigned step;
    unsigned warps;             /* of the cluster, 0 where there is only one */
    unsigned turned;            /* the first so many of them have had a turn */
    uint32_t steps[];           /* of each when this was posted */
};

struct async {
    struct event *heap;
    size_t count, capacity;
    uint64_t sequence;
    uint64_t given_up_at;       /* machine progress when try_waits last gave up */
    unsigned rounds;            /* of giving up without progress */
    struct async_scratch *scratch;
    struct async_cta *spare;
    struct async_maps edited;
};

enum { FUTILE_ROUNDS = 8, LATE = 4000, TURN = 256 };

static struct async *of(const struct machine *m)
{
    return m->async;
}

static bool before(const struct event *x, const struct event *y)
{
    return x->time != y->time ? x->time < y->time : x->tie < y->tie;
}

static bool push(struct async *a, struct event event)
{
    size_t i;

    if (a->count == a->capacity) {
        const size_t capacity = a->capacity ? 2 * a->capacity : 64;
        struct event *grown = realloc(a->heap, capacity * sizeof *grown);

        if (!grown)
            return false;
        a->heap = grown;
        a->capacity = capacity;
    }
    for (i = a->count++; i && before(&event, &a->heap[(i - 1) / 2]); i = (i - 1) / 2)
        a->heap[i] = a->heap[(i - 1) / 2];
    a->heap[i] = event;
    return true;
}

static struct event pop(struct async *a)
{
    const struct event first = a->heap[0], last = a->heap[--a->count];
    size_t i = 0;

    while (2 * i + 1 < a->count) {
        size_t child = 2 * i + 1;

        if (child + 1 < a->count && before(&a->heap[child + 1], &a->heap[child]))
            child++;
        if (!before(&a->heap[child], &last))
            break;
        a->heap[i] = a->heap[child];
        i = child;
    }
    if (a->count)
        a->heap[i] = last;
    return first;
}

/* ---- jobs ---- */

static void job_over(struct machine *m, struct async_job *job)
{
    if (--job->cluster->outstanding == 0 && !job->cluster->live)
        m->reap = true;
    if (job->drop)
        job->drop(job);
    free(job);
}

void *async_job_new(struct warp *w, const struct inst *in, unsigned lane, size_t bytes,
                    void (*fire)(struct machine *m, struct async_job *job, unsigned step))
{
    struct async_job *job = calloc(1, bytes);

    if (!job) {
        warp_trap(w, in, (int)lane, TRAP_MEMORY, "an asynchronous operation");
        return NULL;
    }
    job->fire = fire;
    job->site = (struct site){.cta = w->cta, .inst = in, .warp = (int)w->id, .lane = (int)lane};
    job->cluster = w->cta->cluster;
    job->cluster->outstanding++;
    return job;
}

void async_job_cancel(struct machine *m, struct async_job *job)
{
    job_over(m, job);
}

static uint64_t below(struct machine *m, uint64_t n)
{
    return machine_random(m) % n;
}

/* Engines take longer than a few instructions of a warp that can run. Warps of a multiprocessor run
 * beside each other there, one after another here: an event waits until the warps of its cluster
 * that can run have had a turn since it was posted. */
static struct action *action_new(struct async_job *job, unsigned step)
{
    const struct cluster *c = job->cluster;
    const unsigned each = c->ctas[0]->warp_count, all = c->size * each, warps = all > 1 ? all : 0;
    struct action *action = malloc(sizeof *action + warps * sizeof action->steps[0]);

    if (!action)
        return NULL;
    *action = (struct action){.job = job, .step = step, .warps = warps};
    for (unsigned i = 0; i < warps; i++)
        action->steps[i] = c->ctas[i / each]->warps[i % each].steps;
    return action;
}

void async_post(struct machine *m, struct async_job *job, unsigned step, enum async_delay delay)
{
    static const uint16_t longest[] = {
        [DELAY_COPY] = 1500, [DELAY_READ] = 300, [DELAY_MMA] = 400, [DELAY_REMOTE] = 200,
    };
    struct async *a = of(m);
    struct event event = {.time = m->now, .tie = a->sequence++, .action = action_new(job, step)};

    switch (m->config.policy) {
    case POLICY_EARLY:
        machine_interrupt(m);
        break;
    case POLICY_LATE:
        event.time += LATE + below(m, LATE / 4);
        event.tie = machine_random(m);
        break;
    case POLICY_RANDOM:
        event.time += 1 + below(m, longest[delay]);
        event.tie = machine_random(m);
        break;
    }
    job->events++;
    if (!event.action || !push(a, event)) {
        free(event.action);
        machine_trap(m, &job->site, TRAP_MEMORY, "an event");
        if (--job->events == 0)
            job_over(m, job);
    }
}

unsigned async_pieces(struct machine *m, unsigned rows)
{
    const unsigned most = rows < 4 ? rows : 4;

    return m->config.policy == POLICY_RANDOM && most > 1 ? 1 + (unsigned)below(m, most) : 1;
}

bool async_reads_now(struct machine *m)
{
    return m->config.policy == POLICY_EARLY ||
           (m->config.policy == POLICY_RANDOM && machine_random(m) & 1);
}

uint64_t async_next(const struct machine *m)
{
    return of(m)->count ? of(m)->heap[0].time : UINT64_MAX;
}

/* The steps that a warp that can run still has to have a turn of since the event was posted; 0: all
 * have had one. A warp that has had its turn, or cannot run when its place comes, is not asked
 * again. */
static unsigned owes_turns(struct action *action)
{
    const struct cluster *c = action->job->cluster;
    const struct site *by = &action->job->site;
    const unsigned each = c->ctas[0]->warp_count;

    for (; action->turned < action->warps; action->turned++) {
        const struct warp *w = &c->ctas[action->turned / each]->warps[action->turned % each];

        const uint32_t had = w->steps - action->steps[action->turned];

        if (w->queued && had < TURN && !(by->cta == w->cta && by->warp == (int)w->id))
            return TURN - had;
    }
    return 0;
}

void async_run(struct machine *m)
{
    struct async *a = of(m);

    while (a->count && a->heap[0].time <= m->now && !m->trapped) {
        struct event event = pop(a);
        const unsigned owed = m->ready_count ? owes_turns(event.action) : 0;

        if (owed) {
            event.time = m->now + 12 * owed; /* other warps' steps come between */
            push(a, event);         /* into the room of what was just popped */
            continue;
        }
        struct async_job *const job = event.action->job;
        const unsigned step = event.action->step;

        free(event.action);
        job->fire(m, job, step);
        if (--job->events == 0)
            job_over(m, job);
    }
}

bool async_open(struct machine *m)
{
    m->async = calloc(1, sizeof *m->async);
    return m->async != NULL;
}

void async_reset(struct machine *m)
{
    struct async *a = of(m);

    for (size_t i = 0; i < a->count; i++) {
        struct async_job *const job = a->heap[i].action->job;

        free(a->heap[i].action);
        if (--job->events == 0)
            job_over(m, job);
    }
    a->count = 0;
    a->edited.count = 0;
    a->rounds = 0;
    a->given_up_at = 0;
}

static void cta_free(struct async_cta *c)
{
    mbar_table_close(&c->bars);
    free(c->acquired.maps);
    free(c);
}

void async_close(struct machine *m)
{
    struct async *a = of(m);

    if (!a)
        return;
    async_reset(m);
    while (a->spare) {
        struct async_cta *c = a->spare;

        a->spare = c->next;
        cta_free(c);
    }
    free(a->heap);
    free(a->edited.maps);
    free(a->scratch);
    free(a);
    m->async = NULL;
}

struct async_scratch *async_scratch(struct machine *m)
{
    struct async *a = of(m);

    if (!a->scratch) {
        const size_t size = (sizeof *a->scratch + 63) / 64 * 64;

        a->scratch = aligned_alloc(64, size);
        if (a->scratch)
            memset(a->scratch, 0, size);
    }
    return a->scratch;
}

struct async_maps *async_edited_maps(struct machine *m)
{
    return &of(m)->edited;
}

/* ---- what a CTA keeps ---- */

bool async_cta_open(struct cta *cta)
{
    struct async *a = of(cta->m);
    struct async_cta *c = a->spare;

    if (c && c->bars.size == cta->smem_end) {
        a->spare = c->next;
        c->next = NULL;
        cta->async = c;
        return true;
    }
    c = calloc(1, sizeof *c);
    if (!c)
        return false;
    if (!mbar_table_open(&c->bars, cta->smem_end)) {
        free(c);
        return false;
    }
    cta->async = c;
    return true;
}

void async_cta_close(struct cta *cta)
{
    struct async *a = of(cta->m);
    struct async_cta *c = cta->async;

    cta->async = NULL;
    for (unsigned i = 0; i < CTA_WARPS / WARPGROUP; i++) {
        wgmma_unit_close(c->units[i]);
        c->units[i] = NULL;
    }
    tcgen_cta_close(c);
    for (unsigned w = 0; w < CTA_WARPS; w++) {
        struct async_thread *const lanes = c->threads[w];

        for (unsigned i = 0; lanes && i < LANES; i++) {
            async_groups_close(&lanes[i].bulk);
            async_groups_close(&lanes[i].copy);
            async_groups_close(&lanes[i].mark);
            free(lanes[i].marks);
        }
        free(lanes);
        c->threads[w] = NULL;
    }
    mbar_table_clear(&c->bars);
    memset(c->gave_up, 0, sizeof c->gave_up);
    memset(c->told, 0, sizeof c->told);
    c->incoming = 0;
    proxy_close(c->proxy);
    c->proxy = NULL;
    c->acquired.count = 0;
    c->next = a->spare;
    a->spare = c;
}

/* Under the rule, the first thread that never waited until its bulk copies had read their sources. */
static bool unread(const struct cta *cta, unsigned *thread)
{
    if (!(cta->m->config.rules & RULE_STRICT_EXIT))
        return false;
    for (*thread = 0; *thread < cta->warp_count * LANES; ++*thread) {
        const struct async_thread *t = async_thread_at(cta->async, *thread);

        if (t && t->bulk.used > t->bulk.waited)
            return true;
    }
    return false;
}

void async_cta_exit(struct cta *cta)
{
    const struct site at = {.cta = cta, .warp = -1, .lane = -1};
    unsigned thread;

    if (unread(cta, &thread))
        machine_trap(cta->m, &at, TRAP_EXIT_PENDING, "the CTA's last thread exits and thread %u has "
                     "not waited until its bulk copies had read shared memory "
                     "(cp.async.bulk.wait_group.read)", thread);
    else if (cta->async->incoming)
        machine_trap(cta->m, &at, TRAP_EXIT_PENDING,
                     "the CTA's last thread exits with %u copies into its shared memory in flight",
                     cta->async->incoming);
    else
        tcgen_cta_exit(cta);
}

void async_lanes_exit(struct warp *w, const struct inst *in, uint32_t lanes)
{
    (void)lanes;
    wgmma_lanes_exit(w, in);
    tcgen_lanes_exit(w, in);
}

struct async_thread *async_thread_of(struct warp *w, const struct inst *in, unsigned lane)
{
    struct async_thread **const lanes = &w->cta->async->threads[w->id];

    if (!*lanes) {
        *lanes = calloc(LANES, sizeof **lanes);
        if (!*lanes) {
            warp_trap(w, in, (int)lane, TRAP_MEMORY, "the groups of a warp's threads");
            return NULL;
        }
    }
    return &(*lanes)[lane];
}

/* ---- mbarriers ---- */

struct mbar_actor async_actor(const struct site *site, bool engine)
{
    return (struct mbar_actor){
        .inst = site->inst, .cta = site->cta->number, .warp = (int16_t)site->warp,
        .lane = engine ? -1 : (int16_t)site->lane,
    };
}

/* Whoever is parked on the barrier waits for the phase that has just completed: the answer is yes,
 * also if more phases have completed by the time they run. */
static void tell_waiters(struct cta *cta, uint32_t offset)
{
    for (unsigned i = 0; i < cta->warp_count; i++)
        for (unsigned k = 0; k < cta->warps[i].park_count; k++) {
            const struct park *park = &cta->warps[i].parks[k];

            if (park->kind == WAIT_MBARRIER && park->key == offset)
                cta->async->told[i] |= park->lanes;
        }
}

static bool settle(struct machine *m, const struct site *at, struct cta *cta, uint32_t offset,
                   enum mbar_result result)
{
    const struct mbar *bar;

    if (!mbar_failed(result)) {
        machine_progress(m);
        if (result == MBAR_COMPLETED) {
            tell_waiters(cta, offset);
            cta_wake(cta, WAIT_MBARRIER, offset);
        }
        return true;
    }
    bar = mbar_find(&cta->async->bars, offset);
    if (bar)
        machine_trap_at(m, at, result == MBAR_TX_RANGE ? TRAP_MBARRIER_TX : TRAP_MBARRIER, offset,
                        "mbarrier of CTA rank %u: %s (phase %" PRIu64 ", %u of %u arrivals "
                        "pending, %d bytes)", cta->rank, mbar_error(result), bar->phase,
                        bar->pending, bar->expected, bar->tx);
    else
        machine_trap_at(m, at, result == MBAR_NO_MEMORY ? TRAP_MEMORY : TRAP_MBARRIER, offset,
                        "shared memory of CTA rank %u: %s", cta->rank, mbar_error(result));
    return false;
}

bool async_complete_tx(struct machine *m, const struct site *at, struct cta *cta, uint32_t offset,
                       uint32_t bytes)
{
    const struct mbar_actor who = async_actor(at, true);

    return settle(m, at, cta, offset, mbar_complete_tx(&cta->async->bars, offset, bytes, &who));
}

bool async_arrive(struct machine *m, const struct site *at, struct cta *cta, uint32_t offset,
                  unsigned flags, uint32_t count, uint32_t bytes, bool engine, uint64_t *state)
{
    const struct mbar_actor who = async_actor(at, engine);

    return settle(m, at, cta, offset, mbar_arrive(&cta->async->bars, offset, flags, count, bytes,
                                                  &who, state));
}

bool async_expect_tx(struct machine *m, const struct site *at, struct cta *cta, uint32_t offset,
                     uint32_t bytes)
{
    const struct mbar_actor who = async_actor(at, false);

    return settle(m, at, cta, offset, mbar_expect_tx(&cta->async->bars, offset, bytes, &who));
}

bool async_find_mbar(struct warp *w, const struct inst *in, unsigned lane, uint32_t address,
                     struct cta **cta, uint32_t *offset)
{
    const struct site at = {.cta = w->cta, .inst = in, .warp = (int)w->id, .lane = (int)lane};
    struct place place;

    if (address % MBAR_BYTES) {
        warp_trap_at(w, in, (int)lane, TRAP_MISALIGNED, address,
                     "an mbarrier is 8 bytes at a multiple of 8");
        return false;
    }
    if (!machine_place_shared(w->m, &at, w->cta, address, MBAR_BYTES, ACCESS_WRITE, &place))
        return false;
    *cta = place.cta;
    *offset = place.offset;
    if (mbar_find(&place.cta->async->bars, place.offset))
        return true;
    warp_trap_at(w, in, (int)lane, TRAP_MBARRIER, address,
                 "no mbarrier has been initialised here");
    return false;
}

bool async_shared_address(struct warp *w, const struct inst *in, unsigned lane, uint64_t address,
                          uint32_t *shared)
{
    if (generic_is_shared(address, shared))
        return true;
    *shared = (uint32_t)address;
    if (!(address >> 32))
        return true;
    warp_trap_at(w, in, (int)lane, TRAP_WRONG_SPACE, address, "shared memory is meant");
    return false;
}

bool async_need_address(struct warp *w, const struct inst *in, const struct operand *op,
                        uint32_t mask, const char *what)
{
    const uint32_t missing = mask & ~warp_address_defined(w, op);

    if (!missing)
        return true;
    warp_trap(w, in, __builtin_ctz(missing), TRAP_UNDEFINED, "%s", what);
    return false;
}

bool async_claim(struct machine *m, const struct site *at, struct cta *cta, uint32_t offset,
                 uint32_t bytes)
{
    const struct mbar *bar = mbar_overlap(&cta->async->bars, offset, bytes);

    if (bar) {
        machine_trap_at(m, at, TRAP_MBARRIER_MEMORY, bar->offset,
                        "a copy of %u bytes to 0x%x in CTA rank %u would overwrite a live mbarrier",
                        bytes, offset, cta->rank);
        return false;
    }
    mbar_overwrite(&cta->async->bars, offset, bytes);
    proxy_claimed(cta, offset, bytes);
    return true;
}

bool async_smem_touch(struct cta *cta, uint32_t offset, uint32_t bytes, bool write)
{
    if (mbar_overlap(&cta->async->bars, offset, bytes))
        return false;
    if (write)
        mbar_overwrite(&cta->async->bars, offset, bytes);
    return true;
}

/* ---- deadlocks ---- */

bool async_timeout(struct machine *m)
{
    struct async *a = of(m);
    bool any = false;

    if (a->given_up_at == m->progress && a->rounds >= FUTILE_ROUNDS)
        return false;
    a->rounds = a->given_up_at == m->progress ? a->rounds + 1 : 0;
    a->given_up_at = m->progress;
    for (unsigned i = 0; i < m->grid_count; i++)
        for (struct cluster *c = m->grids[i].live; c; c = c->next)
            for (unsigned k = 0; k < c->size; k++)
                for (unsigned n = 0; n < c->ctas[k]->warp_count; n++) {
                    struct warp *w = &c->ctas[k]->warps[n];

                    for (unsigned j = 0; j < w->park_count; j++) {
                        const struct park park = w->parks[j];

                        if (park.kind != WAIT_MBARRIER || !(park.inst->flags & INST_TRY))
                            continue;
                        c->ctas[k]->async->gave_up[n] |= park.lanes;
                        warp_wake(w, WAIT_MBARRIER, park.key, park.lanes);
                        any = true;
                        j = UINT32_MAX;     /* the list has changed: from the start */
                    }
                }
    return any;
}
