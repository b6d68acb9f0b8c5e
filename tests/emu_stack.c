/*
 * alloca, stacksave, stackrestore: what threads get, what they give back, and what they must not
 * do.
 */
#include "emu_run.h"

#define PROLOGUE \
    "    .reg .b32 tid, n, x, y, s32;\n    .reg .b64 p, q, s, at, size, o;\n    .reg .pred on;\n" \
    "    ld.param.u64 q, [out];\n    mov.u32 tid, %tid.x;\n    mad.wide.u32 q, tid, 4, q;\n" \
    "    add.u32 n, tid, 1;\n    mul.wide.u32 size, n, 4;\n"

#define ENTRY ".visible .entry k(.param .u64 out)\n{\n" PROLOGUE
#define KERNEL(body) ENTRY body "\n    ret;\n}\n"

static const char callee[] =
    /* sum of 0 .. n - 1 through an array, which goes when the function returns */
    ".func (.param .b32 r) sum(.param .b32 a)\n{\n    .reg .b32 n, k, x, sum;\n"
    "    .reg .b64 size, p, at;\n    .reg .pred more;\n    .local .align 8 .b8 frame[8];\n"
    "    ld.param.b32 n, [a];\n    mul.wide.u32 size, n, 4;\n    alloca.u64 p, size;\n"
    "    mov.u64 at, p;\n    mov.u32 k, 0;\n"
    "fill:\n    st.local.b32 [at], k;\n    add.u64 at, at, 4;\n    add.u32 k, k, 1;\n"
    "    setp.lt.u32 more, k, n;\n@more bra fill;\n    mov.u32 sum, 0;\n"
    "add:\n    sub.u64 at, at, 4;\n    ld.local.b32 x, [at];\n    add.u32 sum, sum, x;\n"
    "    setp.ne.u64 more, at, p;\n@more bra add;\n    st.local.b32 [frame], sum;\n"
    "    ld.local.b32 sum, [frame];\n    st.param.b32 [r], sum;\n    ret;\n}\n"
    /* depth 0 .. n, an array of n words at each */
    ".func (.param .b32 r) deep(.param .b32 a)\n{\n    .reg .b32 n, x, y;\n    .reg .b64 size, p;\n"
    "    .reg .pred end;\n    ld.param.b32 n, [a];\n    st.param.b32 [r], 0;\n"
    "    setp.eq.u32 end, n, 0;\n@end ret;\n    mul.wide.u32 size, n, 4;\n"
    "    alloca.u64 p, size, 64;\n    st.local.b32 [p], n;\n    sub.u32 x, n, 1;\n    {\n"
    "        .param .b32 arg, value;\n        st.param.b32 [arg], x;\n"
    "        call (value), deep, (arg);\n        ld.param.b32 y, [value];\n    }\n"
    "    ld.local.b32 x, [p];\n    add.u32 y, y, x;\n    st.param.b32 [r], y;\n    ret;\n}\n";

#define CALL(name, argument, result) \
    "    {\n        .param .b32 arg, value;\n        st.param.b32 [arg], " argument ";\n" \
    "        call (value), " name ", (arg);\n        ld.param.b32 " result ", [value];\n    }\n"

static uint32_t zero(uint32_t i) { (void)i; return 0; }
static uint32_t number(uint32_t i) { return i; }
static uint32_t triangle(uint32_t i) { return i * (i + 1) / 2; }

static const struct {
    const char *name, *body;
    uint32_t (*expected)(uint32_t i);
} programs[] = {
    {"alignment", "    alloca.u64 p, size, 256;\n    and.b64 p, p, 255;\n    cvt.u32.u64 x, p;\n"
     "    alloca.u64 p, 1, 1;\n    and.b64 p, p, 7;\n    cvt.u32.u64 y, p;\n    or.b32 x, x, y;\n"
     "    alloca.u64 p, 3;\n    and.b64 p, p, 7;\n    cvt.u32.u64 y, p;\n    or.b32 x, x, y;\n"
     "    st.global.b32 [q], x;", zero},
    {"the pointer is the stack's", "    alloca.u64 p, size;\n    stacksave.u64 s;\n"
     "    sub.u64 p, p, s;\n    cvt.u32.u64 x, p;\n    st.global.b32 [q], x;", zero},
    {"32 bits", "    stacksave.u32 s32;\n    alloca.u32 x, n, 8;\n    st.local.b8 [x], tid;\n"
     "    ld.local.u8 y, [x];\n    stackrestore.u32 s32;\n    stacksave.u32 x;\n"
     "    sub.u32 x, x, s32;\n    add.u32 x, x, y;\n    st.global.b32 [q], x;", number},
    {"generic", "    alloca.u64 p, size, 16;\n    cvta.local.u64 p, p;\n    st.b32 [p], tid;\n"
     "    cvta.to.local.u64 p, p;\n    ld.local.b32 x, [p];\n    st.global.b32 [q], x;", number},
    {"some lanes", "    mov.u32 x, tid;\n    setp.gt.u32 on, tid, 6;\n@!on bra done;\n"
     "    alloca.u64 p, size, 16;\n    st.local.b32 [p], tid;\n    ld.local.b32 x, [p];\n"
     "done:\n    st.global.b32 [q], x;", number},
    {"in a loop", "    mov.u32 y, 0;\n    mov.u32 n, 0;\n"
     "more:\n    stacksave.u64 s;\n    alloca.u64 p, 30000;\n    st.local.b32 [p], tid;\n"
     "    ld.local.b32 x, [p];\n    add.u32 y, y, x;\n    stackrestore.u64 s;\n"
     "    add.u32 n, n, 1;\n    setp.lt.u32 on, n, 16;\n@on bra more;\n    shr.u32 y, y, 4;\n"
     "    st.global.b32 [q], y;", number},
    {"a call gives back", "    stacksave.u64 s;\n" CALL("sum", "n", "x")
     "    stacksave.u64 p;\n    sub.u64 p, p, s;\n    cvt.u32.u64 y, p;\n    add.u32 x, x, y;\n"
     "    st.global.b32 [q], x;", triangle},
    {"recursion", CALL("deep", "tid", "x") "    st.global.b32 [q], x;", triangle},
    {"beside a frame", "    .local .align 4 .b8 mine[64];\n    st.local.b32 [mine + 60], tid;\n"
     "    alloca.u64 p, size;\n    st.local.b32 [p], n;\n    ld.local.b32 x, [mine + 60];\n"
     "    st.global.b32 [q], x;", number},
};

static void right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (enum machine_policy policy = POLICY_EARLY; policy <= POLICY_RANDOM; policy++) {
            struct emu e;
            char text[8192];
            emu_open(&e, policy, 1);
            snprintf(text, sizeof text, "%s%s%s%s%s", HEAD, callee, ENTRY, programs[i].body,
                     "\n    ret;\n}\n");
            emu_load(&e, text);
            const uint64_t out = emu_alloc(&e, 48 * 4);
            emu_must(&e, "k", &(struct emu_launch){.block = {48}}, 1, &out);
            const uint32_t *got = emu_bytes(&e, out);
            for (uint32_t t = 0; t < 48; t++)
                if (got[t] != programs[i].expected(t))
                    fail_msg("%s: thread %u has %u, not %u", programs[i].name, t, got[t],
                             programs[i].expected(t));
            emu_close(&e);
        }
}

static void wrong(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum trap_kind kind;
        const char *says;
    } rows[] = {
        {"    stacksave.u64 s;\n    alloca.u64 p, size;\n    st.local.b32 [p], n;\n"
         "    stackrestore.u64 s;\n    ld.local.b32 x, [p];", TRAP_BOUNDS, "given back"},
        {"    stacksave.u64 s;\n    alloca.u64 p, size;\n    st.local.b32 [p], n;\n"
         "    stackrestore.u64 s;\n    cvta.local.u64 p, p;\n    st.b32 [p], n;", TRAP_BOUNDS,
         "given back"},
        {"    alloca.u64 p, 16;\n    st.local.b32 [p + -4], n;", TRAP_BOUNDS, "has not taken"},
        {"    alloca.u64 p, 16;\n    st.local.b32 [p + 16], n;", TRAP_BOUNDS,
         "of which the thread"},
        {"    alloca.u64 p, size;\n    ld.local.b32 x, [p];\n    st.global.b32 [q], x;",
         TRAP_UNDEFINED, "lane 0"},
        /* what was there before is not there any more */
        {"    stacksave.u64 s;\n    alloca.u64 p, size;\n    st.local.b32 [p], n;\n"
         "    stackrestore.u64 s;\n    alloca.u64 p, size;\n    ld.local.b32 x, [p];\n"
         "    st.global.b32 [q], x;", TRAP_UNDEFINED, "lane 0"},
        {"    alloca.u64 p, 70000;", TRAP_STACK, "65536 are left"},
        {"    alloca.u64 p, -8;", TRAP_STACK, "18446744073709551608 bytes"},
        {"    alloca.u64 p, 40000;\n    alloca.u64 p, 40000;", TRAP_STACK, "25536 are left"},
        {"    alloca.u64 p, 65530, 16;\n    alloca.u64 p, 8, 8;", TRAP_STACK, "0 are left"},
        {"    alloca.u64 p, o;", TRAP_UNDEFINED, "the size"},
        {"    stackrestore.u64 o;", TRAP_UNDEFINED, "the stack pointer"},
        {"    stacksave.u64 s;\n    sub.u64 s, s, 8;\n    stackrestore.u64 s;", TRAP_STACK,
         "no stack pointer of this function"},
        {"    alloca.u64 p, 64;\n    stacksave.u64 s;\n    add.u64 s, s, 72;\n"
         "    stackrestore.u64 s;",
         TRAP_STACK, "no stack pointer of this function"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct emu e;
        char text[4096];
        emu_open(&e, POLICY_RANDOM, 1);
        snprintf(text, sizeof text, "%s%s%s", HEAD ENTRY, rows[i].body, "\n    ret;\n}\n");
        emu_load(&e, text);
        const uint64_t out = emu_alloc(&e, 48 * 4);
        char *report = NULL;
        if (!emu_run(&e, "k", &(struct emu_launch){.block = {48}}, 1, &out))
            report = trap_report(&e.trap);
        if (!report || e.trap.kind != rows[i].kind || !strstr(report, rows[i].says))
            fail_msg("%s\n%s", rows[i].body, report ? report : "no trap");
        free(report);
        emu_close(&e);
    }
}

/* A caller's stack is not the callee's to give back. */
static void callers(void **state)
{
    (void)state;
    static const char text[] = HEAD
        ".func restore(.param .b64 a)\n{\n    .reg .b64 s;\n    ld.param.b64 s, [a];\n"
        "    stackrestore.u64 s;\n    ret;\n}\n"
        KERNEL("    stacksave.u64 s;\n    alloca.u64 p, size;\n    {\n        .param .b64 arg;\n"
               "        st.param.b64 [arg], s;\n        call restore, (arg);\n    }");
    struct emu e;
    emu_open(&e, POLICY_EARLY, 1);
    emu_load(&e, text);
    const uint64_t out = emu_alloc(&e, 48 * 4);
    assert_false(emu_run(&e, "k", &(struct emu_launch){.block = {48}}, 1, &out));
    assert_int_equal(e.trap.kind, TRAP_STACK);
    emu_close(&e);
}

/* The context's limit makes a larger stack, for recursion too. */
static void limit(void **state)
{
    (void)state;
    for (unsigned large = 0; large < 2; large++) {
        struct emu e;
        uint8_t params[256];
        emu_open(&e, POLICY_EARLY, 1);
        emu_load(&e, HEAD KERNEL("    alloca.u64 p, 1000000;\n    st.local.b32 [p + 999996], tid;\n"
                                 "    ld.local.b32 x, [p + 999996];\n    st.global.b32 [q], x;"));
        const uint64_t out = emu_alloc(&e, 4);
        const struct emu_launch one = {.block = {1}};
        struct launch l = emu_prepare(&e, "k", &one, &out, 1, params);
        l.stack_bytes = large ? 1 << 20 : 0;
        assert_int_equal(machine_run(e.machine, &l, 1, &e.trap), large);
        if (!large)
            assert_int_equal(e.trap.kind, TRAP_STACK);
        emu_close(&e);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const struct emu_refusal rows[] = {
        {"alloca.u64 p, size, 3;", "power of two"},
        {"alloca.u64 p, size, 0;", "1..8388608"},
        {"alloca.u64 p, size, 16777216;", "1..8388608"},
        {"alloca.u64 p, size, n;", "integer constant"},
        {"alloca p, size;", "u32|u64"},
        {"alloca.u64 n, size;", "u64"},
        {"stacksave.b64 s;", "b64"},
        {"stackrestore.u64 5;", "u64"},
    };
    emu_refusals(HEAD ENTRY "\n", rows, sizeof rows / sizeof *rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right),
        cmocka_unit_test(wrong),
        cmocka_unit_test(callers),
        cmocka_unit_test(limit),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("stack", tests, NULL, NULL);
}
