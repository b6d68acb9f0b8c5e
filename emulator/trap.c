#include "trap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *sentence;
    int code;
} kinds[TRAP_KIND_COUNT] = {
    [TRAP_NONE] = { "NONE", "no trap", 0 },
#define X(name, code, text) [TRAP_##name] = { #name, text, code },
    TRAP_KINDS(X)
#undef X
};

const char *trap_name(enum trap_kind kind)
{
    return kinds[kind].name;
}

const char *trap_sentence(enum trap_kind kind)
{
    return kinds[kind].sentence;
}

int trap_code(enum trap_kind kind)
{
    return kinds[kind].code;
}

char *trap_report(const struct trap *trap)
{
    char place[256] = "", address[48] = "";
    int used = 0;

    if (trap->in_cta) {
        used = snprintf(place, sizeof place, "\n  CTA (%u,%u,%u)", trap->cta[0], trap->cta[1],
                        trap->cta[2]);
        if (trap->warp >= 0)
            used += snprintf(place + used, sizeof place - (size_t)used, " warp %d", trap->warp);
        if (trap->lane >= 0)
            snprintf(place + used, sizeof place - (size_t)used, " lane %d, thread (%u,%u,%u)",
                     trap->lane, trap->thread[0], trap->thread[1], trap->thread[2]);
    }
    if (trap->has_address)
        snprintf(address, sizeof address, "\n  address 0x%" PRIx64, trap->address);

    const char *text = trap->text ? trap->text : "";
    const char *source = trap->source[0] ? trap->source : "";
    const size_t room = strlen(text) + strlen(source) + sizeof trap->kernel + sizeof trap->file +
                        sizeof place + sizeof address + 256;
    char *report = malloc(room);
    if (!report)
        return NULL;
    char *end = report;
    end += sprintf(end, "%s: %s", trap_name(trap->kind), trap_sentence(trap->kind));
    if (trap->line)
        end += sprintf(end, "\n  at %s:%u", trap->file, trap->line);
    if (trap->kernel[0])
        end += sprintf(end, "%s kernel %s", trap->line ? " in" : "\n  in", trap->kernel);
    if (*source)
        end += sprintf(end, "\n  %s", source);
    end += sprintf(end, "%s%s", place, address);
    if (*text)
        sprintf(end, "\n  %s", text);
    return report;
}

void trap_clear(struct trap *trap)
{
    free(trap->text);
    memset(trap, 0, sizeof *trap);
    trap->warp = trap->lane = -1;
}
