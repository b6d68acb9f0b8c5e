/*
 * Two threads, each with a machine and memory of its own, in one address space: nothing is shared
 * that either writes. Meant for TSAN=1 too.
 */
#include "emu_run.h"

#include <pthread.h>

enum { THREADS = 2, ROUNDS = 10, VALUES = 512 };

static const char text[] = HEAD
    ".visible .entry k(.param .u64 in, .param .u64 out) {\n"
    ".reg .b32 x, y, i; .reg .b64 a, b, c; .reg .pred p; .shared .align 16 .b32 s[256];\n"
    "ld.param.u64 a, [in]; ld.param.u64 b, [out]; mov.u32 x, %tid.x; mov.u32 y, %ctaid.x;\n"
    "mad.lo.u32 y, y, 256, x; mul.wide.u32 c, y, 4; add.u64 a, a, c; add.u64 b, b, c;\n"
    "ld.global.u32 i, [a]; mov.u32 y, s; mad.lo.u32 y, x, 4, y; st.shared.u32 [y], i; bar.sync 0;\n"
    "xor.b32 y, x, 255; mov.u32 x, s; mad.lo.u32 y, y, 4, x; ld.shared.u32 y, [y];\n"
    "mad.lo.u32 i, i, 3, y; st.global.u32 [b], i; ret; }\n";

struct job {
    pthread_t thread;
    struct mem_space *space;
    unsigned seed, bad;
};

static void *work(void *data)
{
    struct job *job = data;
    struct mem *mem = mem_new(job->space, UINT64_C(1) << 30);
    struct program *program = NULL;
    const struct load_options options = { .sm = 90 };

    job->bad = !mem || program_load(text, strlen(text), &options, &program, NULL) != LOAD_OK;
    for (unsigned round = 0; !job->bad && round < ROUNDS; round++) {
        const struct machine_config config = {
            .sms = 3, .seed = job->seed + round, .policy = (enum machine_policy)(round % 3),
            .math = true,
        };
        struct machine *machine = machine_create(&config, mem);
        const struct mem_block *in = mem_alloc(mem, VALUES * 4, 256, MEM_DEVICE, "in");
        const struct mem_block *out = mem_alloc(mem, VALUES * 4, 256, MEM_DEVICE, "out");
        struct trap trap = { 0 };
        uint32_t *a = (uint32_t *)(void *)in->bytes, *b = (uint32_t *)(void *)out->bytes;
        for (unsigned i = 0; i < VALUES; i++)
            a[i] = i * 7 + job->seed;
        valid_fill(in->valid, 0, VALUES * 4, true);
        const uint64_t params[] = { in->base, out->base };
        const struct launch launch = {
            .program = program, .function = program_find(program, "k"), .grid = { 2, 1, 1 },
            .block = { 256, 1, 1 }, .cluster = { 1, 1, 1 }, .params = params,
            .param_bytes = sizeof params,
        };
        job->bad += !machine_run(machine, &launch, 1, &trap);
        for (unsigned i = 0; i < VALUES; i++)
            job->bad += b[i] != a[i] * 3 + a[i / 256 * 256 + (i % 256 ^ 255)];
        trap_clear(&trap);
        machine_destroy(machine);
        mem_free(mem, in->base);
        mem_free(mem, out->base);
    }
    program_free(program);
    mem_delete(mem);
    return NULL;
}

static void test_two_machines(void **state)
{
    struct mem_space *space = mem_space_new();
    struct job jobs[THREADS];

    (void)state;
    assert_non_null(space);
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){ .space = space, .seed = i * 100 + 1 };
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(jobs[i].thread, NULL);
        assert_int_equal(jobs[i].bad, 0);
    }
    mem_space_free(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_machines),
    };

    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
