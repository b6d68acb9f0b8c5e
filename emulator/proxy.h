/*
 * The rule strict-proxy: engines (tcgen05, wgmma, bulk and tensor copies) reach shared memory
 * through the async proxy. What an ordinary instruction wrote there they may read only behind a
 * fence.proxy.async, by the warp that wrote or, as practice has it, by the one that issues; what
 * one has read they may overwrite only behind one, too.
 *
 * Every 16 bytes remember the last warp that wrote them by an ordinary instruction, and when, and
 * which of the CTA's warps have read them since their last fence; a write by an engine forgets it
 * all. Without the rule nothing is kept and nothing is asked.
 */
#ifndef EMULATOR_PROXY_H
#define EMULATOR_PROXY_H

#include "exec.h"

struct proxy_cta;

static inline bool proxy_watched(const struct machine *m)
{
    return machine_config(m)->rules & RULE_STRICT_PROXY;
}

/* A warp has written bytes of the CTA's shared memory; has read some of its own CTA's; has executed
 * fence.proxy.async. */
void proxy_wrote(struct warp *w, struct cta *cta, uint32_t offset, uint32_t bytes);
void proxy_read(struct warp *w, const struct cta *cta, uint32_t offset, uint32_t bytes);
void proxy_fenced(struct warp *w, const struct inst *in);

/* An engine will write there. */
void proxy_claimed(struct cta *cta, uint32_t offset, uint32_t bytes);

/* An engine will overwrite bytes for an instruction of the warp at `at`. False: trapped. */
bool proxy_overwrites(struct machine *m, const struct site *at, const struct cta *cta,
                      uint32_t offset, uint32_t bytes);

/* An engine reads for an instruction of the warps of a mask. False: trapped. */
bool proxy_reads(struct machine *m, const struct site *at, const struct cta *cta, uint32_t warps,
                 uint32_t offset, uint32_t bytes);

void proxy_close(struct proxy_cta *p);

#endif
