/*
 * For tests of the machine without a driver: load PTX text, put data into device memory, run a
 * kernel, look at the trap.
 */
#ifndef TESTS_EMU_RUN_H
#define TESTS_EMU_RUN_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE         /* mkstemp */
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "machine.h"
#include "machine_run.h"
#include "mem.h"
#include "program.h"
#include "trap.h"
#include "valid.h"

struct emu {
    struct mem_space *space;
    struct mem *mem;
    struct machine_config config;
    struct machine *machine;
    struct program *program;
    struct trap trap;
    char printed[4096];
};

#define HEAD ".version 8.8\n.target sm_90a\n.address_size 64\n"

static inline void emu_print(void *user, const char *text, size_t length)
{
    struct emu *e = user;
    const size_t have = strlen(e->printed);

    if (have + length < sizeof e->printed) {
        memcpy(e->printed + have, text, length);
        e->printed[have + length] = 0;
    }
}

static inline void emu_open(struct emu *e, enum machine_policy policy, uint64_t seed)
{
    memset(e, 0, sizeof *e);
    e->space = mem_space_new();
    assert_non_null(e->space);
    e->mem = mem_new(e->space, UINT64_C(1) << 34);
    assert_non_null(e->mem);
    e->config = (struct machine_config){
        .part = PART_H200, .sms = 4, .seed = seed, .policy = policy, .math = true,
        .idle_steps = 2000000, .print = emu_print, .user = e,
    };
    e->machine = machine_create(&e->config, e->mem);
    assert_non_null(e->machine);
}

/* The machine again, as e->config now says. */
static inline void emu_renew(struct emu *e)
{
    machine_destroy(e->machine);
    e->machine = machine_create(&e->config, e->mem);
    assert_non_null(e->machine);
}

static inline void emu_open_b200(struct emu *e, enum machine_policy policy, uint64_t seed)
{
    emu_open(e, policy, seed);
    e->config.part = PART_B200;
    emu_renew(e);
}

static inline void emu_close(struct emu *e)
{
    trap_clear(&e->trap);
    program_free(e->program);
    machine_destroy(e->machine);
    mem_delete(e->mem);
    mem_space_free(e->space);
}

/* Device memory of `size` bytes, nobody has written it. */
static inline uint64_t emu_alloc(struct emu *e, size_t size)
{
    const struct mem_block *b = mem_alloc(e->mem, size, 256, MEM_DEVICE, "test");

    assert_non_null(b);
    return b->base;
}

static inline void *emu_bytes(struct emu *e, uint64_t address)
{
    const struct mem_block *b = mem_find(e->mem, address);

    assert_non_null(b);
    return b->bytes + (address - b->base);
}

static inline uint64_t emu_put(struct emu *e, const void *data, size_t size)
{
    const uint64_t at = emu_alloc(e, size);
    const struct mem_block *b = mem_find(e->mem, at);

    memcpy(b->bytes, data, size);
    valid_fill(b->valid, 0, size, true);
    return at;
}

/* With EMU_PTXAS=ptxas in the environment, every program of the tests is also assembled by it. */
static inline void emu_assemble(const char *text)
{
    const char *assembler = getenv("EMU_PTXAS");
    char path[] = "/tmp/emu-test-XXXXXX", command[512];

    if (!assembler)
        return;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_true(write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    snprintf(command, sizeof command, "%s -arch=%s -o /dev/null %s", assembler,
             strstr(text, ".target sm_100") ? "sm_100a" : "sm_90a", path);
    const int status = system(command);
    unlink(path);
    if (status)
        fail_msg("%s\n%s", command, text);
}

/* Loads a program; the text's own lines count from 1. Module variables get memory. */
static inline void emu_load(struct emu *e, const char *text)
{
    struct load_error error;
    const struct load_options options = { .sm = e->config.part == PART_B200 ? 100 : 90,
                                          .file = "test.ptx" };

    emu_assemble(text);
    program_free(e->program);
    e->program = NULL;
    if (program_load(text, strlen(text), &options, &e->program, &error) != LOAD_OK)
        fail_msg("%s:%u: %s\n%s", error.file, error.line, error.message, error.text);
    for (uint32_t i = 0; i < e->program->nsymbols; i++) {
        struct symbol *s = &e->program->symbols[i];
        const struct mem_block *b = mem_alloc(e->mem, s->size ? s->size : 1, s->align,
                                              s->space == SP_CONST ? MEM_CONST : MEM_GLOBAL,
                                              s->name);
        assert_non_null(b);
        if (s->init)
            memcpy(b->bytes, s->init, s->size);
        valid_fill(b->valid, 0, s->size, true);
        s->address = b->base;
    }
}

/* The text is refused, in words that hold `says`. The line of it that is named. */
static inline unsigned emu_refused(const char *text, unsigned sm, const char *says)
{
    const struct load_options options = { .sm = sm, .file = "test.ptx" };
    struct program *program = NULL;
    struct load_error error;

    assert_int_equal(program_load(text, strlen(text), &options, &program, &error), LOAD_INVALID);
    if (!strstr(error.message, says))
        fail_msg("\"%s\" does not say \"%s\"", error.message, says);
    return error.line;
}

struct emu_refusal {
    const char *line, *says;
};

/* Each line, behind `before` and at the end of a kernel, is refused, and is the one named. */
static inline void emu_refusals(const char *before, const struct emu_refusal *rows, size_t count)
{
    unsigned at = 1;

    for (const char *c = before; *c; c++)
        at += *c == '\n';
    for (size_t i = 0; i < count; i++) {
        char text[2048];

        snprintf(text, sizeof text, "%s    %s\n    ret;\n}\n", before, rows[i].line);
        assert_int_equal(emu_refused(text, 90, rows[i].says), at);
    }
}

struct emu_launch {
    unsigned grid[3], block[3], cluster[3];
    unsigned smem;
    bool programmatic;
};

/* Fills a launch; the parameters are 8-byte values, in order. params has room for 256 bytes. */
static inline struct launch emu_prepare(struct emu *e, const char *kernel,
                                        const struct emu_launch *l, const uint64_t *values,
                                        unsigned count, uint8_t *params)
{
    const struct function *fn = program_find(e->program, kernel);
    struct launch out = { .program = e->program, .function = fn, .params = params,
                          .dynamic_smem = l->smem, .programmatic = l->programmatic };

    assert_non_null(fn);
    assert_int_equal(fn->nparams, count);
    memset(params, 0, 256);
    for (unsigned i = 0; i < count; i++)
        memcpy(params + fn->params[i].offset, &values[i],
               fn->params[i].size < 8 ? fn->params[i].size : 8);
    out.param_bytes = fn->param_size;
    for (unsigned i = 0; i < 3; i++) {
        out.grid[i] = l->grid[i] ? l->grid[i] : 1;
        out.block[i] = l->block[i] ? l->block[i] : 1;
        const unsigned wanted = l->cluster[i] ? l->cluster[i] : fn->reqnctapercluster[i];
        out.cluster[i] = wanted ? wanted : 1;
        out.explicit_cluster |= wanted != 0;
    }
    return out;
}

static inline bool emu_run(struct emu *e, const char *kernel, const struct emu_launch *l,
                           unsigned count, const uint64_t *values)
{
    uint8_t params[256];
    const struct launch launch = emu_prepare(e, kernel, l, values, count, params);

    e->printed[0] = 0;
    return machine_run(e->machine, &launch, 1, &e->trap);
}

/* Runs and must succeed. */
static inline void emu_must(struct emu *e, const char *kernel, const struct emu_launch *l,
                            unsigned count, const uint64_t *values)
{
    if (!emu_run(e, kernel, l, count, values)) {
        char *report = trap_report(&e->trap);
        print_error("%s\n", report);
        free(report);
        fail();
    }
}

#define RUN(e, kernel, blocks, threads, ...) \
    emu_must(e, kernel, &(struct emu_launch){ .grid = { blocks }, .block = { threads } }, \
             sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, (uint64_t[]){ __VA_ARGS__ })

static inline uint64_t emu_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#endif
