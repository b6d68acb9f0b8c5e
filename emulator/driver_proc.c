// Entry points by name, and those that only say they are missing. cuda.h is not included here: the
// table needs the symbols' addresses, whatever their parameters.
#include <stddef.h>
#include <string.h>

#include "driver_proc.h"

#define EXPORT __attribute__((visibility("default")))

enum { NOT_SUPPORTED = 801 };

// ---- what is missing ----------------------------------------------------------------------------

#define CALL(name, symbol, since)
#define THREAD(name, symbol, since)
#define ALIAS(name, symbol, since)
#define NO_CALL(name, symbol, since)    \
    EXPORT int symbol(void);            \
    int symbol(void)                    \
    {                                   \
        driver_missing(#symbol);        \
        return NOT_SUPPORTED;           \
    }
#define NO_THREAD NO_CALL
#include "driver_api.def"
#undef CALL
#undef THREAD
#undef NO_CALL
#undef NO_THREAD

// ---- the table ----------------------------------------------------------------------------------

#define CALL(name, symbol, since) int symbol(void);
#define THREAD CALL
#define NO_CALL(name, symbol, since)
#define NO_THREAD NO_CALL
#include "driver_api.def"
#undef CALL
#undef THREAD
#undef ALIAS
#undef NO_CALL
#undef NO_THREAD

static const struct entry {
    const char *name;
    int (*symbol)(void);
    int since;
    int thread;
} entries[] = {
#define CALL(name, symbol, since) {#name, symbol, since, 0},
#define THREAD(name, symbol, since) {#name, symbol, since, 1},
#define NO_CALL CALL
#define NO_THREAD THREAD
#define ALIAS CALL
#include "driver_api.def"
};

// The newest variant not newer than `version`; per-thread variants only if asked for, and then
// preferred.
static const struct entry *find(const char *name, int version, int thread, int *known)
{
    const struct entry *best = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const struct entry *e = &entries[i];
        if (strcmp(e->name, name) != 0 || (e->thread && !thread))
            continue;
        *known = 1;
        if (e->since <= version && (!best || e->thread > best->thread ||
                                    (e->thread == best->thread && e->since > best->since)))
            best = e;
    }
    return best;
}

int driver_entry(const char *name, int version, int thread, int (**symbol)(void))
{
    int known = 0;
    const struct entry *e = find(name, version, thread, &known);
    *symbol = e ? e->symbol : NULL;
    return e ? ENTRY_FOUND : known ? ENTRY_TOO_NEW : ENTRY_UNKNOWN;
}
