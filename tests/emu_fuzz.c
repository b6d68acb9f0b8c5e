/*
 * The PTX front end against the inventory of compiled kernels, and against damaged text.
 *
 * Damage: every truncation, bytes and tokens changed, lines moved, operands shuffled between
 * instructions. Whatever comes out is loaded; it may be accepted or refused, but a refusal has a
 * line, a column and a message, and nothing crashes, hangs or leaks (run it with SAN=1).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "emu_inventory.h"
#include "program.h"

/* ---- text ----------------------------------------------------------------------------------- */

struct text {
    char *s;
    size_t len, cap;
};

static void add(struct text *t, const char *s, size_t len)
{
    if (t->len + len + 1 > t->cap) {
        t->cap = (t->len + len + 1) * 2;
        t->s = realloc(t->s, t->cap);
        assert_non_null(t->s);
    }
    memcpy(t->s + t->len, s, len);
    t->len += len;
    t->s[t->len] = 0;
}

static void add_string(struct text *t, const char *s)
{
    add(t, s, strlen(s));
}

static void add_operands(struct text *t, const char *s)
{
    for (; *s; s++) {
        if (*s != '@' && *s != '#') {
            add(t, s, 1);
            continue;
        }

        const char letter = *s == '@' ? 'f' : 'r';
        char *end;
        const unsigned long n = strtoul(s + 1, &end, 10);

        for (unsigned long i = 0; i < n; i++) {
            char name[16];

            add(t, name, (size_t)snprintf(name, sizeof name, "%s%c%lu", i ? ", " : "", letter, i));
        }
        s = end - 1;
    }
}

static void add_row(struct text *t, const struct inventory *row)
{
    add_string(t, "\t");
    add_string(t, row->opcode);
    add_string(t, " ");
    add_operands(t, row->operands);
    add_string(t, ";\n");
}

/* A module that uses most of the syntax around instructions. */
static const char *const module[] = {
    ".version 9.0\n", ".target sm_90a\n", ".address_size 64\n",
    "# 1 \"fuzz.ptx\"\n",
    ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n",
    ".extern .shared .align 1024 .b8 dyn[];\n",
    ".visible .global .align 4 .b32 table[2][3] = {{1, 2}, {-3, 0x10, 5}};\n",
    ".const .f32 c[3] = {1.0, 0f40000000, -2e-1};\n",
    ".func (.param .b32 o) other(.param .b32 x, .param .align 8 .b8 y[16]);\n",
    ".global .u64 links[2] = {generic(table) + 4, other};\n",
    ".weak .func (.reg .b32 o) inc(.reg .b32 i) { add.u32 o, i, 1; ret; }\n",
    ".visible .entry k(.param .u64 .ptr .global .align 16 a, .param .align 64 .b8 m[128])\n",
    ".reqntid 384, 1, 1 .minnctapersm 1\n{\n",
    "\t.reg .pred %p<4>;\n\t.reg .b32 %r<20>, x;\n\t.reg .b64 %rd<8>;\n\t.reg .f32 %f<8>;\n",
    "\t.shared .align 16 .b8 own[256];\n\t.local .align 8 .b8 stack[32];\n",
    "\t.loc 1 10 3\n", "\tld.param.u64 %rd1, [a];\n", "\tcvta.to.global.u64 %rd2, %rd1;\n",
    "\tmov.u32 %r1, %tid.x; // thread\n", "\tmad.lo.s32 %r2, %r1, 4, (1024 >> 4) + ~0 * -2;\n",
    "/* a comment\n   of two lines */\n", "\tsetp.lt.and.u32 %p1|%p2, %r2, 0x40U, !%p3;\n",
    "@%p1\tbra $L1;\n", "\tld.shared.v4.u32 {%r3, %r4, _, %r5}, [own + 8*(2) + 16];\n",
    "\t{ .reg .pred P; w: mbarrier.try_wait.parity.shared::cta.b64 P, [%r1], 0; @!P bra w; }\n",
    "\t{ .param .b32 a0; .param .align 8 .b8 a1[16]; .param .b32 r0;\n",
    "\t  st.param.b32 [a0], %r1; call.uni (r0), other, (a0, a1); ld.param.b32 x, [r0]; }\n",
    "\tcall (x), inc, (%r1);\n",
    "ts: .branchtargets $L1, $L2;\n", "\tbrx.idx %r1, ts;\n", "$L1:\n",
    "\tmov.b64 %rd3, {%r1, %r2};\n", "\tmov.b64 {%r6, %r7}, %rd3;\n",
    "\tst.local.f32 [stack + 4], 0f3F800000;\n", "\tmov.u64 %rd4, dyn;\n",
    "\tcp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, "
    "{%r2, -1}], [%r3];\n",
    "\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd1, %rd2, %p1, 1, "
    "-1, 0, 1;\n",
    "$L2:\n", "\t.pragma \"nounroll\";\n", "\tret;\n}\n",
    ".func (.param .b32 o) other(.param .b32 x, .param .align 8 .b8 y[16]) {\n",
    "\t.reg .b32 r; ld.param.b32 r, [x]; st.param.b32 [o], r; }\n",
    ".file 1 \"fuzz.cu\"\n", ".section .debug_str { .b8 1, 2 .b32 x }\n",
};

enum { MODULE = sizeof module / sizeof *module };

static struct text module_text(void)
{
    struct text t = {0};

    for (size_t i = 0; i < MODULE; i++)
        add_string(&t, module[i]);
    return t;
}

/* ---- loading -------------------------------------------------------------------------------- */

static bool load_error(const char *s, size_t len, struct load_error *e)
{
    const struct load_options options = {.sm = 90, .file = "fuzz.ptx"};
    char *exact = malloc(len ? len : 1);        /* so that a sanitizer sees one byte too many */
    struct program *p;
    enum load_status status;

    assert_non_null(exact);
    memcpy(exact, s, len);
    status = program_load(exact, len, &options, &p, e);
    free(exact);
    if (status != LOAD_OK) {
        assert_null(p);
        if (!e->message[0] || !e->column)
            fail_msg("an error without words or place, for:\n%.*s", (int)len, s);
        return false;
    }
    for (uint32_t pc = 0; pc < p->ninsts; pc++) {
        char text[80];

        (void)program_text(p, pc, text, sizeof text);
        (void)program_label(p, pc);
    }
    program_free(p);
    return true;
}

static bool load(const char *s, size_t len)
{
    struct load_error e;

    return load_error(s, len, &e);
}

static void must_load(const struct text *t)
{
    struct load_error e;

    if (!load_error(t->s, t->len, &e))
        fail_msg("%s:%u:%u: %s\n    %s", e.file, e.line, e.column, e.message, e.text);
}

static void test_inventory(void **state)
{
    (void)state;
    struct text all = {0};

    add_string(&all, inventory_head);
    for (int i = 0; i < INVENTORY; i++) {
        const struct load_options options = {.sm = 90};
        struct text one = {0};
        struct load_error e;
        struct program *p;

        add_string(&one, inventory_head);
        add_row(&one, &inventory[i]);
        add_row(&all, &inventory[i]);
        add_string(&one, inventory_tail);
        if (program_load(one.s, one.len, &options, &p, &e) != LOAD_OK)
            fail_msg("%s %s: %s", inventory[i].opcode, inventory[i].operands, e.message);
        assert_int_equal(p->ninsts, 2);
        program_free(p);
        free(one.s);
    }
    add_string(&all, inventory_tail);
    must_load(&all);
    free(all.s);
}

/* ---- damage --------------------------------------------------------------------------------- */

static uint64_t seed_of_run(void)
{
    const char *s = getenv("PTXMM_TEST_SEED");

    return s ? strtoull(s, NULL, 0) : 1;
}

static uint32_t next(uint64_t *rng)
{
    *rng ^= *rng << 13;
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return (uint32_t)(*rng >> 16);
}

static double now(void)
{
    struct timespec t;

    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void test_truncations(void **state)
{
    (void)state;
    struct text t = module_text();

    must_load(&t);
    for (size_t n = 0; n < t.len; n++)
        (void)load(t.s, n);
    free(t.s);
}

static const char *const tokens[] = {
    "{", "}", "(", ")", "[", "]", ";", ",", ":", "|", "!", "@", "+", "-", "<", ">", "=", "_", "%",
    "0", "1", "-1", "0x7fffffffffffffff", "18446744073709551615", "99999999999999999999", "0f",
    "0f7FC00000", "0d", "1e999", "08", "0b2", "\"", "\"x\"", "/*", "*/", "//", "#", "# 1 \"f\"\n",
    ".reg", ".b32", ".pred", ".param", ".local", ".global", ".align", ".v4", ".f32", "ret;", "bra",
    "call", "$L1", "%r1", "%r99", "%rd1", "%p1", "%f0", "%tid.x", "%tid", "dyn", "own", "table",
    "other", "k", "WARP_SZ", ".entry e() {", ".func g();", "<1000000>", "<4294967296>",
    "[1000000000]", "((((((((((((((((", "{{{{{{{{{{{{", "generic(", "\n", "\0", "\xff",
    ".s64", ".noreturn",
};

enum { TOKENS = sizeof tokens / sizeof *tokens };

/* A copy of t with `n` pieces replaced. */
static void mutate(struct text *out, const struct text *t, uint64_t *rng, unsigned n)
{
    out->len = 0;
    add(out, t->s, t->len);
    for (unsigned i = 0; i < n; i++) {
        const size_t at = next(rng) % (out->len ? out->len : 1);
        size_t len = next(rng) % 8;
        const char *token = tokens[next(rng) % TOKENS];
        size_t token_len = *token ? strlen(token) : 1;
        struct text fresh = {0};

        if (len > out->len - at)
            len = out->len - at;
        switch (next(rng) % 4) {
        case 0:                                     /* one byte */
            if (out->len)
                out->s[at] = (char)next(rng);
            continue;
        case 1:                                     /* a piece of the text itself */
            token = t->s + next(rng) % t->len;
            token_len = next(rng) % 32;
            if (token_len > (size_t)(t->s + t->len - token))
                token_len = (size_t)(t->s + t->len - token);
            break;
        case 2:
            len = 0;                                /* insert */
            break;
        default:
            break;
        }
        add(&fresh, out->s, at);
        add(&fresh, token, token_len);
        add(&fresh, out->s + at + len, out->len - at - len);
        free(out->s);
        *out = fresh;
    }
}

static void test_mutations(void **state)
{
    (void)state;
    const double end = now() + 3;
    uint64_t rng = seed_of_run() * 0x9e3779b97f4a7c15u + 1;
    struct text t = module_text(), damaged = {0};
    unsigned runs = 0, accepted = 0;

    for (; runs < 40000 && now() < end; runs++) {
        mutate(&damaged, &t, &rng, 1 + next(&rng) % 4);
        accepted += load(damaged.s, damaged.len);
    }
    print_message("seed %llu: %u texts, %u accepted\n", (unsigned long long)seed_of_run(), runs,
                  accepted);
    free(damaged.s);
    free(t.s);
}

/* Lines of the module dropped, doubled and swapped. */
static void test_lines(void **state)
{
    (void)state;
    const double end = now() + 2;
    uint64_t rng = seed_of_run() * 0x9e3779b97f4a7c15u + 2;

    for (unsigned runs = 0; runs < 20000 && now() < end; runs++) {
        struct text t = {0};

        for (size_t i = 0; i < MODULE; i++) {
            const uint32_t what = next(&rng) % 16;

            if (what == 0)
                continue;
            add_string(&t, module[what == 1 ? next(&rng) % MODULE : i]);
            if (what == 2)
                add_string(&t, module[i]);
        }
        (void)load(t.s, t.len);
        free(t.s);
    }
}

/* Opcodes of the inventory with modifiers dropped, moved or borrowed, and operands of others. */
static void test_operands(void **state)
{
    (void)state;
    const double end = now() + 3;
    uint64_t rng = seed_of_run() * 0x9e3779b97f4a7c15u + 3;
    struct text t = {0};
    unsigned accepted = 0, runs = 0;

    for (; runs < 60000 && now() < end; runs++) {
        const struct inventory *a = &inventory[next(&rng) % INVENTORY];
        const struct inventory *b = &inventory[next(&rng) % INVENTORY];
        const char *p = a->opcode;

        t.len = 0;
        add_string(&t, inventory_head);
        add_string(&t, next(&rng) % 4 ? "" : "@!p ");
        while (*p) {
            const size_t n = 1 + strcspn(p + 1, ".");
            const uint32_t what = next(&rng) % 12;

            if (what > 0)
                add(&t, p, n);
            if (what == 1) {
                const char *q = b->opcode + strcspn(b->opcode, ".");

                if (*q)
                    add(&t, q, 1 + strcspn(q + 1, "."));
            }
            p += n;
        }
        add_string(&t, " ");
        add_operands(&t, next(&rng) % 3 ? a->operands : b->operands);
        if (next(&rng) % 4 == 0) {
            add_string(&t, ", ");
            add_operands(&t, b->operands);
        }
        add_string(&t, ";\n");
        add_string(&t, inventory_tail);
        accepted += load(t.s, t.len);
    }
    print_message("%u instructions, %u accepted\n", runs, accepted);
    free(t.s);
}

/* Inputs whose size or depth could run away. */
static void test_extremes(void **state)
{
    (void)state;
    static const char *const heads[] = {"mov.u32 r0, ", "", "mov.b64 d0, {", "{ "};
    static const char *const repeats[] = {"(", "{", "r0, ", "{ .reg .b32 z; "};

    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) {
        struct text t = {0};

        add_string(&t, inventory_head);
        add_string(&t, heads[k]);
        for (int i = 0; i < 50000; i++)
            add_string(&t, repeats[k]);
        (void)load(t.s, t.len);
        free(t.s);
    }

    static const char *const texts[] = {
        ".reg .b32 z<1048577>;", ".reg .pred z<70000>;", ".reg .b64 z<1048576>;",
        ".local .b8 big[4000000000];", ".local .b64 big[1000000][1000000][1000000];",
        ".global .b8 big[300000000] = {1};", ".shared .b8 big[4000000000];",
        ".shared .align 1048576 .b8 a1; .shared .align 1048576 .b8 a2; mov.u32 r0, a1;",
        "mov.u32 r0, -9223372036854775808 / -1;", "mov.u32 r0, -9223372036854775808 % -1;",
        "mov.u32 r0, 1 << 64 >> 100;", "mov.f32 f0, 1e400;", "mov.u64 d0, (.u64)1e300;",
        "mov.u64 d0, (.s64)-1e300;", ".param .b32 z<5000>;",
        "mov.u32 r0, sm + 9223372036854775807;",
        "ld.shared.u32 r0, [sm + 9223372036854775807 + 1];", ".loc 4000000000 1 1", ".loc 1 1 1",
    };

    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        struct text t = {0};

        add_string(&t, inventory_head);
        add_string(&t, texts[k]);
        add_string(&t, "\n}\n");
        (void)load(t.s, t.len);
        free(t.s);
    }
}

/* Many functions in one chain, many labels, many variables: time must grow with the text only. */
static void test_large(void **state)
{
    (void)state;
    struct text t = {0};
    char line[256];

    add_string(&t, ".version 9.0\n.target sm_90a\n.address_size 64\n");
    for (int i = 0; i < 4000; i++)
        add(&t, line, (size_t)snprintf(line, sizeof line,
            ".shared .b8 s%d[4];\n.func f%d() { .reg .b32 r; mov.u32 r, s%d; %s%d; }\n", i, i, i,
            i ? "call f" : "mov.u32 r, ", i - 1));
    add_string(&t, ".entry k() { call f3999; }\n"
                   ".entry big() {\n.reg .b32 r<9999>;\n.reg .pred p;\n");
    for (int i = 0; i < 9990; i++)
        add(&t, line, (size_t)snprintf(line, sizeof line,
            "l%d: add.u32 r%d, r%d, 1;\n@p bra l%d;\n", i, i + 1, i, (i * 7919) % 9990));
    add_string(&t, "}\n");

    const double start = now();

    must_load(&t);
    if (now() - start > 5)
        fail_msg("%.1f s for %zu bytes", now() - start, t.len);
    free(t.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inventory),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
