// The driver's state: configuration from the environment, the lock, handles, reports.
#define _POSIX_C_SOURCE 200809L
#include "driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_extra.h"
#include "driver_proc.h"

struct driver driver = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
};

// ---- configuration ------------------------------------------------------------------------------

static bool bad(const char *name, const char *value, const char *want)
{
    snprintf(driver.init_report, sizeof driver.init_report, "%s=%.100s: must be %s", name, value,
             want);
    return false;
}

// Value of variable `name` as one of the words, its index in *out. Unset or empty leaves *out.
static bool read_word(const char *name, const char *const *words, unsigned count, const char *want,
                      unsigned *out)
{
    const char *value = getenv(name);
    if (!value || !*value)
        return true;
    for (unsigned i = 0; i < count; i++)
        if (strcmp(value, words[i]) == 0) {
            *out = i;
            return true;
        }
    return bad(name, value, want);
}

static bool read_number(const char *name, uint64_t least, uint64_t most, const char *want,
                        uint64_t *out)
{
    const char *value = getenv(name);
    if (!value || !*value)
        return true;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 0);
    if (errno || *end || value[0] == '-' || n < least || n > most)
        return bad(name, value, want);
    *out = n;
    return true;
}

// A list of words with commas between; *out gets the bit of each.
static bool read_rules(unsigned *out)
{
    static const struct {
        const char *word;
        unsigned bit;
    } rules[] = {
        {"assume", RULE_ASSUME}, {"mixed-16bit", RULE_MIXED}, {"padded-bytes", RULE_PADDED_BYTES},
        {"strict", RULE_STRICT}, {"strict-cp", RULE_STRICT_CP},
        {"strict-proxy", RULE_STRICT_PROXY}, {"strict-fence", RULE_STRICT_FENCE},
        {"strict-wait", RULE_STRICT_WAIT}, {"strict-exit", RULE_STRICT_EXIT},
        {"zeros-count", RULE_ZEROS_COUNT},
        {"no-floor", RULE_NO_FLOOR}, {"normalise", RULE_NORMALISE},
        {"fp4-zeros-vanish", RULE_FP4_ZEROS_VANISH},
    };
    const char *const all = getenv("PTXMM_EMU_RULES");

    for (const char *at = all; at && *at;) {
        const size_t length = strcspn(at, ",");
        unsigned bit = 0;

        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
            if (strlen(rules[i].word) == length && !memcmp(rules[i].word, at, length))
                bit = rules[i].bit;
        if (!bit)
            return bad("PTXMM_EMU_RULES", all, "words, with commas between, of assume, mixed-16bit, "
                       "padded-bytes, strict, strict-cp, strict-proxy, strict-fence, strict-wait, "
                       "strict-exit, zeros-count, no-floor, normalise, fp4-zeros-vanish");
        *out |= bit;
        at += length + (at[length] == ',');
    }
    return true;
}

static bool read_config(struct config *config)
{
    static const char *const parts[] = {"h200", "b200"};
    static const char *const policies[] = {"early", "late", "random"};
    static const char *const bits[] = {"0", "1"};
    unsigned part = 0, policy = POLICY_RANDOM, math = 1, rules = 0;
    uint64_t sms, devices = 1, seed = 1;

    if (!read_word("PTXMM_EMU_PART", parts, 2, "h200 or b200", &part))
        return false;
    sms = part ? 148 : 132;
    if (!read_number("PTXMM_EMU_SMS", 1, 1024, "a number of multiprocessors from 1 to 1024",
                     &sms) ||
        !read_number("PTXMM_EMU_DEVICES", 1, DEVICES_MOST, "a number of devices from 1 to 16",
                     &devices) ||
        !read_number("PTXMM_EMU_SEED", 0, UINT64_MAX, "a number", &seed) ||
        !read_word("PTXMM_EMU_POLICY", policies, 3, "early, late or random", &policy) ||
        !read_word("PTXMM_EMU_MATH", bits, 2, "0 or 1", &math) || !read_rules(&rules))
        return false;
    const char *path = getenv("PTXMM_EMU_REPORT");
    if (path && strlen(path) >= sizeof config->report_path)
        return bad("PTXMM_EMU_REPORT", path, "a path of less than 4096 characters, or -");

    config->machine.part = part ? PART_B200 : PART_H200;
    config->machine.sms = (unsigned)sms;
    config->machine.seed = seed;
    config->machine.policy = (enum machine_policy)policy;
    config->machine.math = math;
    config->machine.rules = rules;
    config->devices = (unsigned)devices;
    snprintf(config->report_path, sizeof config->report_path, "%s", path ? path : "");
    return true;
}

// What a kernel prints goes where a program's output goes, as with a real device.
static void print(void *user, const char *text, size_t length)
{
    (void)user;
    while (length > 0) {
        ssize_t n = write(STDOUT_FILENO, text, length);
        if (n <= 0)
            return;
        text += n;
        length -= (size_t)n;
    }
}

bool driver_part_is_b200(void)
{
    return driver.config.machine.part == PART_B200;
}

// A forked child has no contexts of its own and may not use its parent's: every call there is
// NOT_INITIALIZED.
static void fork_prepare(void)
{
    pthread_mutex_lock(&driver.lock);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&driver.lock);
}

static void fork_child(void)
{
    driver.ready = false;
    driver.init_result = CUDA_ERROR_NOT_INITIALIZED;
    snprintf(driver.init_report, sizeof driver.init_report, "this process was forked after cuInit");
    pthread_mutex_unlock(&driver.lock);
}

CUresult cuInit(unsigned int flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver.lock);
    if (!driver.ready && driver.init_result != CUDA_ERROR_NOT_INITIALIZED) {
        if (!read_config(&driver.config)) {
            driver.init_result = CUDA_ERROR_INVALID_VALUE;
        } else {
            driver.config.machine.print = print;
            driver.space = mem_space_new();
            driver.host = driver.space ? mem_new(driver.space, UINT64_MAX) : NULL;
            driver.init_result = driver.host ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        }
        for (unsigned i = 0; i < driver.config.devices; i++) {
            driver.devices[i].ordinal = (CUdevice)i;
            driver.devices[i].sms = driver.config.machine.sms;
        }
        driver.ready = driver.init_result == CUDA_SUCCESS;
        if (driver.ready)
            pthread_atfork(fork_prepare, fork_parent, fork_child);
        else
            driver_report(NULL, driver.init_report);
    }
    CUresult result = driver.init_result;
    pthread_mutex_unlock(&driver.lock);
    return result;
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

// ---- entering and leaving -----------------------------------------------------------------------

_Thread_local bool driver_in_callback;

CUresult driver_enter(enum enter level, struct context **context)
{
    *context = NULL;
    if (driver_in_callback)
        return CUDA_ERROR_NOT_PERMITTED;
    pthread_mutex_lock(&driver.lock);
    CUresult result = driver.ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    if (result == CUDA_SUCCESS && level != ENTER_PLAIN) {
        CUcontext handle = context_stack_top();
        struct context *ctx = context_find(handle);
        if (!handle)
            result = CUDA_ERROR_INVALID_CONTEXT;
        else if (!ctx)
            result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        else if (level == ENTER_HEALTHY && ctx->fault)
            result = ctx->fault;
        if (result == CUDA_SUCCESS) {
            ctx->pins++;
            *context = ctx;
        }
    }
    if (result != CUDA_SUCCESS)
        pthread_mutex_unlock(&driver.lock);
    return result;
}

void driver_leave(struct context *context)
{
    if (context && --context->pins == 0)
        pthread_cond_broadcast(&driver.changed);
    pthread_mutex_unlock(&driver.lock);
}

uint64_t driver_id(void)
{
    return ++driver.ids;
}

uint64_t driver_thread(void)
{
    static _Thread_local uint64_t number;
    if (!number)
        number = driver_id();
    return number;
}

// ---- handles ------------------------------------------------------------------------------------
//
//   63 ......... 32 | 31 ....... 8 | 7 ..... 0
//   generation      | slot         | kind
//
// The generation steps with every reuse of a slot, so a stale handle never finds the slot's next
// object.
struct slot {
    void *object;                   // NULL: free
    uint32_t generation, next_free;
    uint8_t kind;
};

void *handle_new(enum handle_kind kind, void *object)
{
    if (driver.slot_free == 0) {    // slot 0 is never used: it ends the free list
        uint32_t count = driver.slot_count ? 2 * driver.slot_count : 256;
        if (count > 1u << 23)
            return NULL;
        struct slot *slots = realloc(driver.slots, count * sizeof *slots);
        if (!slots)
            return NULL;
        driver.slots = slots;
        uint32_t first = driver.slot_count ? driver.slot_count : 1;
        for (uint32_t i = first; i < count; i++)
            slots[i] = (struct slot){.generation = 1, .next_free = i + 1 < count ? i + 1 : 0};
        driver.slot_free = first;
        driver.slot_count = count;
    }
    uint32_t index = driver.slot_free;
    struct slot *slot = &driver.slots[index];
    driver.slot_free = slot->next_free;
    slot->object = object;
    slot->kind = (uint8_t)kind;
    return (void *)(uintptr_t)((uint64_t)slot->generation << 32 | index << 8 | (unsigned)kind);
}

static struct slot *slot_of(const void *handle)
{
    uint64_t value = (uintptr_t)handle;
    uint32_t index = (uint32_t)value >> 8;
    if (index == 0 || index >= driver.slot_count)
        return NULL;
    struct slot *slot = &driver.slots[index];
    return slot->object && slot->generation == value >> 32 && slot->kind == (value & 0xff) ? slot
                                                                                           : NULL;
}

void *handle_find(enum handle_kind kind, const void *handle)
{
    struct slot *slot = slot_of(handle);
    return slot && slot->kind == kind ? slot->object : NULL;
}

void handle_drop(const void *handle)
{
    struct slot *slot = slot_of(handle);
    if (!slot)
        return;
    slot->object = NULL;
    slot->generation++;
    slot->next_free = driver.slot_free;
    driver.slot_free = (uint32_t)(slot - driver.slots);
}

// ---- reports ------------------------------------------------------------------------------------

void driver_report(struct context *ctx, const char *text)
{
    if (ctx) {
        char *copy = strdup(text);
        if (copy) {
            free(ctx->report);
            ctx->report = copy;
        }
    }
    const char *path = driver.ready || driver.init_result == CUDA_SUCCESS
                           ? driver.config.report_path
                           : getenv("PTXMM_EMU_REPORT");
    if (!path || !*path)
        return;
    FILE *stream = strcmp(path, "-") == 0 ? stderr : fopen(path, "a");
    if (!stream)
        return;
    fprintf(stream, "%s\n", text);
    if (stream == stderr)
        fflush(stream);
    else
        fclose(stream);
}

void driver_missing(const char *symbol)
{
    char text[160];
    snprintf(text, sizeof text, "%s is not implemented by the emulator", symbol);
    if (driver_in_callback)
        return;
    pthread_mutex_lock(&driver.lock);
    driver_report(context_current(), text);
    pthread_mutex_unlock(&driver.lock);
}

// ---- entry points by name -----------------------------------------------------------------------

CUresult cuGetProcAddress_v2(const char *name, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    if (!name || !pfn || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ||
        version > DRIVER_VERSION)
        return CUDA_ERROR_INVALID_VALUE;
    int (*symbol)(void);
    const int found = driver_entry(name, version,
                                   flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &symbol);
    memcpy(pfn, &symbol, sizeof *pfn);
    if (status)
        *status = (CUdriverProcAddressQueryResult)found;
    return CUDA_SUCCESS;
}

// ---- the report of the calling thread's context -------------------------------------------------

// Each thread reads its own copy, which the next call of the same thread replaces.
static void report_free(void *text)
{
    free(text);
}

static pthread_key_t report_key;
static pthread_once_t report_once = PTHREAD_ONCE_INIT;

static void report_make_key(void)
{
    pthread_key_create(&report_key, report_free);
}

const char *ptxmmEmulatorReport(void)
{
    pthread_once(&report_once, report_make_key);
    pthread_mutex_lock(&driver.lock);
    struct context *ctx = context_find(context_stack_top());
    const char *text = ctx ? ctx->report : driver.init_report;
    char *copy = text ? strdup(text) : NULL;
    pthread_mutex_unlock(&driver.lock);
    free(pthread_getspecific(report_key));
    pthread_setspecific(report_key, copy);
    return copy ? copy : "";
}
