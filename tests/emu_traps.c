/*
 * One program per mistake: the trap's kind, line, warp, lane and address.
 */
#include "emu_run.h"

enum { ANY = -2 };

struct mistake {
    const char *name;
    const char *text;           /* whole kernel k(out,
    bad); the instruction at fault is marked //! */
    enum trap_kind kind;
    int warp, lane;             /* -1: the whole warp, ANY: not checked */
    enum { NO_ADDRESS, IN_OUT, ADDRESS } where;     /* of the address: relative to out, or itself */
    uint64_t address;
    const char *says;           /* part of the text, or NULL */
    unsigned threads, cluster;
};

#define START ".visible .entry k(.param .u64 out, .param .u64 raw)\n"
#define REGISTERS "{\n.reg .b32 r<20>; .reg .b64 a, b, c; .reg .pred p, q;\n" \
    "ld.param.u64 a, [out]; ld.param.u64 b, [raw]; mov.u32 r0, %tid.x;\n"
#define K(body) HEAD START REGISTERS body "\nret;\n}\n"

static const struct mistake mistakes[] = {
    { "past the end", K("mul.wide.u32 c, r0, 8; add.u64 c, c, a;\nst.global.u32 [c], r0; //!"),
      TRAP_BOUNDS, 0, 16, IN_OUT, 128, "past the end", 32, 1 },
    { "before the start", K("ld.global.u32 r1, [a+-4]; //!"), TRAP_BOUNDS, 0, 0, IN_OUT,
      (uint64_t)-4, NULL, 32, 1 },
    { "null", K("mov.u64 c, 0;\nst.u32 [c], r0; //!"), TRAP_BOUNDS, 0, 0, ADDRESS, 0, NULL, 32, 1 },
    { "misaligned", K("mul.wide.u32 c, r0, 2; add.u64 c, c, a;\nst.global.u32 [c], r0; //!"),
      TRAP_MISALIGNED, 0, 1, IN_OUT, 2, "multiple of 4", 32, 1 },
    { "misaligned vector", K("ld.global.v4.u32 {r1, r2, r3, r4}, [a+8]; //!"), TRAP_MISALIGNED, 0,
      0, IN_OUT, 8, "multiple of 16", 32, 1 },
    { "shared past the end",
      K(".shared .align 4 .b32 s[16]; mov.u32 r1, s; mad.lo.u32 r1, r0, 4, r1;\n"
        "st.shared.u32 [r1], r0; //!"), TRAP_BOUNDS, 0, 16, ADDRESS, 0x440, "0x400 to 0x440", 32,
        1 },
    { "shared below its start", K("mov.u32 r1, 16;\nld.shared.u32 r2, [r1]; //!"), TRAP_BOUNDS, 0,
      0, ADDRESS, 16, NULL, 32, 1 },
    { "local past the end", K(".local .align 4 .b8 l[16]; mov.u32 r1, l; add.u32 r1, r1, 4096;\n"
        "st.local.u32 [r1], r0; //!"), TRAP_BOUNDS, 0, 0, ADDRESS, 4096, "local", 32, 1 },
    { "parameters past the end", K("mov.b64 c, raw; add.u64 c, c, 8;\nld.param.u32 r1, [c]; //!"),
      TRAP_BOUNDS, 0, 0, ADDRESS, 0x220, "parameters", 32, 1 },
    { "write to a parameter", K("mov.b64 c, raw; cvta.param.u64 c, c;\nst.u32 [c], r0; //!"),
      TRAP_READ_ONLY, 0, 0, ADDRESS, 0x218, NULL, 32, 1 },
    { "write to a constant",
      HEAD ".const .u32 k0 = 5;\n" START REGISTERS "mov.u64 c, k0; "
      "cvta.const.u64 c, c;\nst.u32 [c], r0; //!\nret; }\n",
      TRAP_READ_ONLY, 0, 0, NO_ADDRESS, 0, "constant", 32, 1 },
    { "generic address of shared memory in global",
      K(".shared .align 4 .b32 s[16]; mov.u64 c, s; "
      "cvta.shared.u64 c, c;\nst.global.u32 [c], r0; //!"),
      TRAP_WRONG_SPACE, 0, 0, NO_ADDRESS, 0, "shared", 32, 1 },
    { "generic address in shared", K(".shared .align 4 .b32 s[16]; mov.u64 c, s; "
      "cvta.shared.u64 c, c;\n"
        "st.shared.u32 [c], r0; //!"), TRAP_WRONG_SPACE, 0, 0, NO_ADDRESS, 0, NULL, 32, 1 },
    { "undefined value stored",
      K("setp.lt.u32 p, r0, 5; @p mov.u32 r1, 3; add.u32 r2, r1, 1; mul.wide.u32 c, r0, 4; "
      "add.u64 c, c, a;\n"
        "st.global.u32 [c], r2; //!"), TRAP_UNDEFINED, 0, 5, IN_OUT, 20, NULL, 32, 1 },
    { "undefined memory stored", K("ld.global.u32 r1, [a+64];\nst.global.u32 [a], r1; //!"),
      TRAP_UNDEFINED, 0, 0, IN_OUT, 0, NULL, 32, 1 },
    { "undefined shared memory stored",
      K(".shared .align 4 .b32 s[64]; mov.u32 r1, s; setp.gt.u32 p, r0, 3; "
      "@p st.shared.u32 [r1+32], r0;\n"
        "ld.shared.v2.u32 {r2, r3}, [r1+32]; st.global.u32 [a], r2;\nst.global.u32 [a+4], r3; //!"),
      TRAP_UNDEFINED, 0, 0, IN_OUT, 4, NULL, 32, 1 },
    { "a byte that nobody wrote, stored with three others",
      K("prmt.b32 r2, r0, r1, 0x4210; mov.b32 r3, r2;\nst.global.u32 [a], r3; //!"), TRAP_UNDEFINED, 0,
      0, IN_OUT, 0, NULL, 32, 1 },
    { "a byte that nobody wrote, in an address",
      K(".shared .align 4 .b32 s[16]; prmt.b32 r2, r0, r1, 0x4210;\nld.shared.u32 r3, [r2]; //!"),
      TRAP_UNDEFINED, 0, 0, NO_ADDRESS, 0, NULL, 32, 1 },
    { "undefined address", K("ld.global.u64 c, [a];\nld.global.u32 r1, [c]; //!"), TRAP_UNDEFINED,
      0, 0, NO_ADDRESS, 0, "address", 32, 1 },
    { "undefined guard", K("@p st.global.u32 [a], r0; //!"), TRAP_UNDEFINED, 0, 0, NO_ADDRESS, 0, "guard",
      32, 1 },
    { "undefined branch", K("setp.eq.and.u32 p, r0, 1, q;\n@p bra L; //!\nst.global.u32 [a], r0; L:"), TRAP_UNDEFINED, 0,
      1, NO_ADDRESS, 0, NULL, 32, 1 },
    { "atomic on undefined memory", K("red.global.add.u32 [a], 1; //!"), TRAP_UNDEFINED, 0, 0,
      IN_OUT, 0, NULL, 32, 1 },
    { "lane outside its mask", K("bar.warp.sync 0x0000ffff; //!"), TRAP_MEMBERMASK, 0, 16,
      NO_ADDRESS, 0, NULL, 32, 1 },
    { "guarded aligned barrier", K("setp.lt.u32 p, r0, 7;\n@p bar.sync 0; //!"), TRAP_DIVERGENT,
      0, 7, NO_ADDRESS, 0, "guard", 32, 1 },
    { "aligned barrier on one side of a branch",
      K("setp.lt.u32 p, r0, 7; @p bra L;\nbar.sync 0; //!\nL:"), TRAP_DIVERGENT, 0, ANY,
      NO_ADDRESS, 0, NULL, 32, 1 },
    { "two aligned instructions",
      K("setp.lt.u32 p, r0, 7; @p bra L;\nbar.sync 0; //!\nbra M;\nL: bar.sync 0;\nM:"),
      TRAP_DIVERGENT, 0,
      ANY, NO_ADDRESS, 0, NULL, 32, 1 },
    { "barrier that does not exist", K("add.u32 r1, r0, 0; mov.u32 r2, 17;\nbar.sync r2; //!"),
      TRAP_BARRIER, 0, -1, NO_ADDRESS, 0, "17", 32, 1 },
    { "barrier of half a warp", K("mov.u32 r2, 40;\nbar.sync 1, r2; //!"), TRAP_BARRIER, ANY, -1,
      NO_ADDRESS, 0, "multiple of 32", 64, 1 },
    { "barrier of two counts",
      K("setp.lt.u32 p, r0, 32; @p bra L;\nbar.sync 1, 96; //!\nbra M;\nL: bar.sync 1, 64;\nM:"),
      TRAP_BARRIER, ANY, ANY, NO_ADDRESS, 0, "96", 64, 1 },
    { "second cluster arrive", K("barrier.cluster.arrive;\nbarrier.cluster.arrive; //!"),
      TRAP_CLUSTER_BARRIER,
      ANY, 0, NO_ADDRESS, 0, NULL, 64, 2 },
    { "cluster wait alone", K("barrier.cluster.wait; //!"), TRAP_CLUSTER_BARRIER, ANY, 0,
      NO_ADDRESS, 0, NULL,
      64, 2 },
    { "remote rank that is not there",
      K(".shared .align 4 .b32 s[4]; mov.u32 r1, s;\nmapa.shared::cluster.u32 r1, r1, 2; //!"),
      TRAP_BOUNDS, 0, 0, NO_ADDRESS, 0, "rank 2", 32, 2 },
    { "peer that has exited",
      K(".shared .align 4 .b32 s[4]; mov.u32 r1, s; st.shared.u32 [r1], r0; "
      "mov.u32 r2, %cluster_ctarank;\n"
        "barrier.cluster.arrive; barrier.cluster.wait; setp.eq.u32 p, r2, 1; @p exit;\n"
        "mov.u32 r4, 1000; w: sub.u32 r4, r4, 1; setp.ne.u32 q, r4, 0; @q bra w;\n"
        "mov.u32 r5, %clock; mapa.shared::cluster.u32 r1, r1, 1;\n"
        "ld.shared::cluster.u32 r3, [r1]; //!"), TRAP_DEAD_TARGET, 0, 0, ADDRESS, 0x1000400,
        "exited", 32, 2 },
    { "shared::cta access to a peer",
      K(".shared .align 4 .b32 s[4]; mov.u32 r1, s; mov.u32 r2, %cluster_ctarank; "
      "xor.b32 r2, r2, 1;\n"
        "mapa.shared::cluster.u32 r1, r1, r2; barrier.cluster.arrive; barrier.cluster.wait;\n"
        "st.shared.u32 [r1], r0; //!"), TRAP_WRONG_SPACE, ANY, 0, NO_ADDRESS, 0, "shared::cta",
        32, 2 },
    { "decrease above", HEAD START ".reqntid 128 .minnctapersm 1" REGISTERS
      "setmaxnreg.dec.sync.aligned.u32 40;\nsetmaxnreg.dec.sync.aligned.u32 72; //!\nret; }\n",
      TRAP_REGISTERS, ANY, -1, NO_ADDRESS, 0, "72", 128, 1 },
    { "setmaxnreg of a part of the warp", HEAD START ".reqntid 128 .minnctapersm 1" REGISTERS
      "setp.eq.u32 p, r0, 0;\n@p setmaxnreg.dec.sync.aligned.u32 24; //!\nret; }\n",
      TRAP_DIVERGENT, 0, ANY,
      NO_ADDRESS, 0, NULL, 128, 1 },
    { "trap", K("setp.eq.u32 p, r0, 9;\n@p trap; //!"), TRAP_TRAP, 0, 9, NO_ADDRESS, 0, NULL, 32,
      1 },
    { "barrier deadlock", K("setp.ge.u32 p, r0, 32; @p bra L;\nbar.sync 1, 64; //!\nL:"),
      TRAP_DEADLOCK, 0, 0,
      NO_ADDRESS, 0, "named barrier 1: 32 of 64 threads have arrived", 64, 1 },
    { "register deadlock", HEAD START ".reqntid 256 .minnctapersm 1 .maxnreg 128" REGISTERS
      "setp.lt.u32 p, r0, 128; @p exit;\nsetmaxnreg.inc.sync.aligned.u32 160; //!\nret; }\n",
      TRAP_DEADLOCK, 4,
      0, NO_ADDRESS, 0, "sub-partition 0", 256, 1 },
    { "cluster deadlock", K("mov.u32 r1, %cluster_ctarank; setp.ne.u32 p, r1, 0; @p bra L;\n"
        "barrier.cluster.arrive;\nbarrier.cluster.wait; //!\nbra M;\nL: bar.sync 3, 64;\nM:"),
        TRAP_DEADLOCK, ANY, 0,
      NO_ADDRESS, 0, "cluster barrier, phase 0: 32 of 64", 32, 2 },
    { "livelock", K("mov.u32 r1, 0; st.global.u32 [a], r1;\n"
        "L: ld.volatile.global.u32 r1, [a]; setp.eq.u32 p, r1, 0; @p bra L; //!"), TRAP_LIVELOCK,
        0, 0, NO_ADDRESS,
      0, "back in a state", 32, 1 },
    { "livelock with a counter", K("mov.u32 r1, 0; st.global.u32 [a], r1; mov.u64 c, 0;\n"
        "L: add.u64 c, c, 1; ld.volatile.global.u32 r1, [a]; setp.eq.u32 p, r1, 0; @p bra L; //!"),
      TRAP_LIVELOCK, 0, ANY, NO_ADDRESS, 0, "2000000 instructions", 32, 1 },
    { "endless recursion",
      HEAD ".func f(.param .b32 n);\n.func f(.param .b32 n) {\n{ .param .b32 x; .reg .b32 r; "
      "ld.param.b32 r, [n];"
      " st.param.b32 [x], r;\ncall f, (x); //!\n}\nret; }\n" START REGISTERS
      "{ .param .b32 x; st.param.b32 [x], r0; call f, (x); }\nret; }\n", TRAP_STACK, 0, ANY,
      NO_ADDRESS, 0, NULL,
      32, 1 },
    { "pointer to no function",
      K("{ .param .b32 x; st.param.b32 [x], r0; "
      "mov.u64 c, 64;\nproto: .callprototype _ (.param .b32 _);\n"
        "call c, (x), proto; //!\n}"), TRAP_CALL, 0, 0, NO_ADDRESS, 0, NULL, 32, 1 },
    { "assertion",
      HEAD ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l,"
      " .param .b64 n, .param .b64 s);\n"
      ".global .align 1 .b8 what[] = {120,62,48,0};\n"
      ".global .align 1 .b8 file[] = {97,46,99,0};\n" START REGISTERS
      "{ .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;\n"
      "mov.u64 c, what; cvta.global.u64 c, c; st.param.b64 [m], c; st.param.b64 [n], c;\n"
      "mov.u64 c, file; cvta.global.u64 c, c; st.param.b64 [f], c; mov.u32 r1, 42; "
      "st.param.b32 [l], r1;\n"
      "mov.u64 c, 1; st.param.b64 [s], c;\n"
      "call.uni __assertfail, (m, f, l, n, s); //!\n}\nret; }\n", TRAP_ASSERT, 0, 0, NO_ADDRESS,
      0, "a.c:42: x>0",
      32, 1 },
    { "false or undefined", K("setp.lt.u32 p, r1, 5; setp.lt.u32 q, r0, 9; or.pred p, p, q;\n"
        "@p bra L; //!\nst.global.u32 [a], r0; L:"), TRAP_UNDEFINED, 0, 9, NO_ADDRESS, 0, NULL, 32, 1 },
    { "true and undefined", K("setp.lt.u32 p, r0, 9; setp.lt.and.u32 q, r1, 5, p;\n@q bra L; //!\nst.global.u32 [a], r0; L:"),
      TRAP_UNDEFINED, 0, 0, NO_ADDRESS, 0, NULL, 32, 1 },
    { "some ones and undefined", K("and.b32 r2, r1, 255;\nst.global.u32 [a], r2; //!"), TRAP_UNDEFINED,
      0, 0, IN_OUT, 0, NULL, 32, 1 },
    { "what an undefined guard left out", K("@p mov.u32 r1, 0;\nst.global.u32 [a], r1; //!"),
      TRAP_UNDEFINED, 0, 0, IN_OUT, 0, NULL, 32, 1 },
    { "what an undefined branch went round", K("mov.u32 r1, 1;\n@p bra L;\nmov.u32 r1, 2;\n"
      "L: st.global.u32 [a], r1; //!"), TRAP_UNDEFINED, 0, 0, IN_OUT, 0, NULL, 32, 1 },
    { "an undefined loop", K("L: add.u32 r1, r0, 1;\n@p bra L; //!"), TRAP_UNDEFINED, 0, 0,
      NO_ADDRESS, 0, "guard", 32, 1 },
};

static unsigned marked_line(const char *text)
{
    const char *mark = strstr(text, "//!");
    unsigned line = 1;

    for (const char *c = text; mark && c < mark; c++)
        line += *c == '\n';
    return mark ? line : 0;
}

static unsigned look(const struct mistake *m, const struct trap *t, uint64_t out)
{
    unsigned bad = 0;

    bad += t->kind != m->kind;
    bad += t->line != marked_line(m->text) || strcmp(t->file, "test.ptx");
    bad += strcmp(t->kernel, "k") != 0;
    bad += m->warp != ANY && t->warp != m->warp;
    bad += m->lane != ANY && t->lane != m->lane;
    bad += m->lane >= 0 && t->thread[0] != (unsigned)(t->warp * 32 + t->lane);
    bad += m->where == IN_OUT && (!t->has_address || t->address - out != m->address);
    bad += m->where == ADDRESS && (!t->has_address || t->address != m->address);
    bad += m->says && !strstr(t->text, m->says);
    return bad;
}

static void test_mistakes(void **state)
{
    unsigned bad = 0;

    (void)state;
    for (unsigned i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const struct mistake *m = &mistakes[i];
        for (unsigned policy = 0; policy < 3; policy++) {
            struct emu e;
            emu_open(&e, (enum machine_policy)policy, i + 1);
            emu_load(&e, m->text);
            const uint64_t out = emu_alloc(&e, 128);
            const struct emu_launch l = {
                .grid = { m->cluster }, .block = { m->threads }, .cluster = { m->cluster },
            };
            const bool ok = emu_run(&e, "k", &l, 2, (uint64_t[]){ out, 0 });
            if (ok || look(m, &e.trap, out)) {
                char *report = ok ? NULL : trap_report(&e.trap);
                print_error("%s, policy %u: expected %s at line %u, warp %d, lane %d; got\n%s\n",
                m->name, policy, trap_name(m->kind), marked_line(m->text), m->warp, m->lane,
                            report ? report : "no trap");
                free(report);
                bad++;
            }
            assert_true(ok || trap_code(e.trap.kind) > 0);
            emu_close(&e);
        }
    }
    assert_int_equal(bad, 0);
}

/* A machine goes on after a trap, and its memory keeps what was written before. */
static void test_after_a_trap(void **state)
{
    struct emu e;

    (void)state;
    emu_open(&e, POLICY_EARLY, 1);
    emu_load(&e, K("setp.eq.u64 p, b, 0; @p trap; st.global.u32 [a], r0;"));
    const uint64_t out = emu_alloc(&e, 4);
    const struct emu_launch l = { .grid = { 1 }, .block = { 1 } };
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(emu_run(&e, "k", &l, 2, (uint64_t[]){ out, i % 2 }), i % 2);
        assert_int_equal(e.trap.kind, i % 2 ? TRAP_NONE : TRAP_TRAP);
    }
    emu_close(&e);
}

/* What no multiprocessor can hold is refused before anything runs. */
static void test_resources(void **state)
{
    struct emu e;

    (void)state;
    emu_open(&e, POLICY_EARLY, 1);
    emu_load(&e, HEAD ".extern .shared .align 16 .b8 d[];\n" START REGISTERS "mov.u32 r1, d; "
    "ret; }\n");
    const struct emu_launch l = { .grid = { 1 }, .block = { 32 }, .smem = 300000 };
    assert_false(emu_run(&e, "k", &l, 2, (uint64_t[]){ 0, 0 }));
    assert_int_equal(e.trap.kind, TRAP_RESOURCES);
    emu_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_after_a_trap),
        cmocka_unit_test(test_resources),
    };

    return cmocka_run_group_tests_name("traps", tests, NULL, NULL);
}
