#include "proxy.h"

#include <stdlib.h>

#include "async.h"
#include "state.h"

enum { GRANULE = 16 };

struct granule {
    uint64_t tick;              /* when it was written, 0: by no ordinary instruction */
    uint16_t rank, warp;        /* by whom */
    uint32_t readers;           /* warps of this CTA that have read and not fenced since */
    uint64_t read;              /* when the last did */
};

struct proxy_cta {
    uint64_t fenced[CTA_WARPS]; /* when the warps of this CTA last executed the fence */
    struct granule granules[];
};

static struct proxy_cta *open(struct cta *cta)
{
    struct async_cta *c = cta->async;

    if (!c->proxy)
        c->proxy = calloc(1, sizeof *c->proxy +
                             (cta->smem_end / GRANULE + 1) * sizeof(struct granule));
    return c->proxy;
}

void proxy_close(struct proxy_cta *p)
{
    free(p);
}

void proxy_wrote(struct warp *w, struct cta *cta, uint32_t offset, uint32_t bytes)
{
    struct proxy_cta *p;

    if (!proxy_watched(w->m) || bytes == 0)
        return;
    p = open(cta);
    for (uint32_t g = offset / GRANULE; p && g <= (offset + bytes - 1) / GRANULE; g++) {
        p->granules[g].tick = ++w->m->proxy_ticks;
        p->granules[g].rank = (uint16_t)w->cta->rank;
        p->granules[g].warp = (uint16_t)w->id;
    }
}

void proxy_read(struct warp *w, const struct cta *cta, uint32_t offset, uint32_t bytes)
{
    struct proxy_cta *p;

    if (!proxy_watched(w->m) || cta != w->cta || bytes == 0)
        return;
    p = open(w->cta);
    for (uint32_t g = offset / GRANULE; p && g <= (offset + bytes - 1) / GRANULE; g++) {
        p->granules[g].readers |= 1u << w->id;
        p->granules[g].read = ++w->m->proxy_ticks;
    }
}

void proxy_fenced(struct warp *w, const struct inst *in)
{
    struct proxy_cta *p;

    if (!proxy_watched(w->m) || in->space == SP_GLOBAL)
        return;
    p = open(w->cta);
    if (!p)
        return;
    p->fenced[w->id] = ++w->m->proxy_ticks;
    for (uint32_t g = 0; g <= w->cta->smem_end / GRANULE; g++)
        p->granules[g].readers &= ~(1u << w->id);
}

void proxy_claimed(struct cta *cta, uint32_t offset, uint32_t bytes)
{
    struct proxy_cta *p = cta->async->proxy;

    for (uint32_t g = offset / GRANULE; p && bytes && g <= (offset + bytes - 1) / GRANULE; g++)
        p->granules[g] = (struct granule){0};
}

static uint64_t fence_of(const struct cta *cta, unsigned warp)
{
    return cta->async && cta->async->proxy ? cta->async->proxy->fenced[warp] : 0;
}

bool proxy_overwrites(struct machine *m, const struct site *at, const struct cta *cta,
                      uint32_t offset, uint32_t bytes)
{
    const struct proxy_cta *p = cta->async->proxy;

    for (uint32_t g = offset / GRANULE; p && bytes && g <= (offset + bytes - 1) / GRANULE; g++) {
        const struct granule *x = &p->granules[g];

        if (!x->readers || fence_of(at->cta, (unsigned)at->warp) > x->read)
            continue;
        machine_trap_at(m, at, TRAP_PROXY, g * GRANULE, "warp %d of CTA rank %u has read these "
                        "bytes by an ordinary instruction, and neither it nor the warp that issues "
                        "this, which overwrites them, has executed fence.proxy.async since",
                        __builtin_ctz(x->readers), cta->rank);
        return false;
    }
    return true;
}

bool proxy_reads(struct machine *m, const struct site *at, const struct cta *cta, uint32_t warps,
                 uint32_t offset, uint32_t bytes)
{
    const struct proxy_cta *p = cta->async->proxy;

    for (uint32_t g = offset / GRANULE; p && bytes && g <= (offset + bytes - 1) / GRANULE; g++) {
        const struct granule *x = &p->granules[g];
        bool fenced = x->tick == 0 || fence_of(cta->cluster->ctas[x->rank], x->warp) > x->tick;

        for (unsigned w = 0; !fenced && w < CTA_WARPS; w++)
            fenced = warps >> w & 1 && fence_of(at->cta, w) > x->tick;
        if (fenced)
            continue;
        machine_trap_at(m, at, TRAP_PROXY, g * GRANULE, "warp %u of CTA rank %u wrote these bytes "
                        "of CTA rank %u's shared memory by an ordinary instruction, and neither it "
                        "nor the warp that issues this has executed fence.proxy.async since",
                        x->warp, x->rank, cta->rank);
        return false;
    }
    return true;
}
