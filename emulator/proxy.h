/*
 * The rule strict-proxy: engines that read shared memory (tcgen05, wgmma, bulk and tensor copies) do
 * so through the async proxy. What an ordinary instruction wrote there reaches them only behind a
 * fence.proxy.async, by the warp that wrote or, as practice has it, by the one that issues.
 *
 * Every 16 bytes remember the last warp that wrote them by an ordinary instruction, and when; a
 * write by an engine forgets it. Without the rule nothing is kept and nothing is asked.
 */
#ifndef EMULATOR_PROXY_H
#define EMULATOR_PROXY_H

#include "exec.h"

struct proxy_cta;

static inline bool proxy_watched(const struct machine *m)
{
    return machine_config(m)->rules & RULE_STRICT_PROXY;
}

/* A warp has written bytes of the CTA's shared memory; has executed fence.proxy.async. */
void proxy_wrote(struct warp *w, struct cta *cta, uint32_t offset, uint32_t bytes);
void proxy_fenced(struct warp *w, const struct inst *in);

/* An engine will write there. */
void proxy_claimed(struct cta *cta, uint32_t offset, uint32_t bytes);

/* An engine reads for an instruction of the warps of a mask. False: trapped. */
bool proxy_reads(struct machine *m, const struct site *at, const struct cta *cta, uint32_t warps,
                 uint32_t offset, uint32_t bytes);

void proxy_close(struct proxy_cta *p);

#endif
