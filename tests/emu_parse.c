/*
 * The PTX front end: what text decodes to, and what it says of text that is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program.h"

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"

static struct program *load_text(const char *text)
{
    const struct load_options options = {.sm = 90, .file = "test.ptx"};
    struct load_error e;
    struct program *p;

    if (program_load(text, strlen(text), &options, &p, &e) != LOAD_OK)
        fail_msg("%s:%u:%u: %s\n    %s", e.file, e.line, e.column, e.message, e.text);
    return p;
}

static const char registers[] =
    ".reg .pred p, q;\n.reg .b16 h<4>;\n.reg .b32 r<8>;\n.reg .f32 f<8>;\n.reg .b64 d<4>;\n"
    ".reg .f64 e<2>;\n.reg .b128 x;\n";

/* A kernel with the body; its first instruction is number 0. */
static struct program *load_body(const char *body)
{
    char *text = NULL;
    struct program *p;
    const size_t size = strlen(body) + 1024;

    text = malloc(size);
    assert_non_null(text);
    snprintf(text, size, HEAD ".shared .align 16 .b8 sm[64];\n.global .align 8 .b8 gm[64];\n"
             ".visible .entry k(.param .u64 a, .param .align 64 .b8 map[128])\n{\n%s%s\n}\n",
             registers, body);
    p = load_text(text);
    free(text);
    return p;
}

/* The error of a text, which must have one: "line:column: message". */
static const char *error_of(const char *text, enum load_status status)
{
    static char out[900];
    const struct load_options options = {.sm = 90, .file = "test.ptx"};
    struct load_error e;
    struct program *p;
    const enum load_status got = program_load(text, strlen(text), &options, &p, &e);

    if (got == LOAD_OK) {
        program_free(p);
        fail_msg("accepted: %s", text);
    }
    assert_null(p);
    assert_int_equal(got, status);
    assert_int_equal(e.status, status);
    snprintf(out, sizeof out, "%s:%u:%u: %s", e.file, e.line, e.column, e.message);
    return out;
}

static const char *body_error(const char *body)
{
    char text[2048];

    snprintf(text, sizeof text, HEAD ".shared .align 16 .b8 sm[64];\n.global .b8 gm[64];\n"
             ".const .b32 cm = 1;\n"
             ".visible .entry k(.param .u64 a, .param .align 64 .b8 map[128])\n{\n%s\n"
             "# 1 \"body\"\n%s\n}\n", registers, body);
    return error_of(text, LOAD_INVALID);
}

/* ---- a reader's view of an instruction ------------------------------------------------------ */

static void put(char **at, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(char **at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    *at += vsprintf(*at, format, args);
    va_end(args);
}

static void put_operand(char **at, const struct program *p, const struct operand *o)
{
    static const char bank[] = "prd";
    static const char *const bases[] = {"abs", "", "param", "frame", "shared", "symbol"};

    switch (o->kind) {
    case OPND_NONE: put(at, "-"); break;
    case OPND_REG: put(at, "%s%c%u", o->negated ? "!" : "", bank[o->bank], o->reg); break;
    case OPND_IMM: put(at, "%s:%llx", type_name((enum type)o->type), (unsigned long long)o->imm);
        break;
    case OPND_SPECIAL: put(at, "%s", special_name((enum special)o->reg)); break;
    case OPND_SINK: put(at, "_"); break;
    case OPND_LABEL: put(at, "@%llu", (unsigned long long)o->imm); break;
    case OPND_FUNC: put(at, "%s", p->funcs[o->reg].name); break;
    case OPND_ADDR:
        put(at, "[%s", bases[o->base]);
        if (o->base == ADDR_REG)
            put(at, "%c%u", bank[o->bank], o->reg);
        if (o->base == ADDR_SYMBOL)
            put(at, " %s", p->symbols[o->reg].name);
        put(at, "%+lld]", (long long)o->off);
        break;
    case OPND_VEC:
        put(at, "{");
        for (uint32_t i = 0; i < o->n; i++) {
            put_operand(at, p, &p->elems[o->reg + i]);
            put(at, i + 1 < o->n ? " " : "}");
        }
        break;
    default: put(at, "?"); break;
    }
}

/* "@!p0 LD u32 | d r0, [d1+8]"; modifiers are left to the tests */
static const char *describe(const struct program *p, uint32_t pc)
{
    static char text[4096];
    const struct inst *in = &p->insts[pc];
    char *at = text;

    if (in->guard)
        put(&at, "@%sp%u ", in->guard == GUARD_FALSE ? "!" : "", in->guard_reg);
    put(&at, "%s", opcode_name((enum opcode)in->op));
    for (int i = 0; i < 3 && in->type[i]; i++)
        put(&at, " %s", type_name((enum type)in->type[i]));
    put(&at, " |");
    for (unsigned i = 0; i < in->nopnd; i++) {
        put(&at, i ? ", " : " ");
        put_operand(&at, p, &in->o[i]);
    }
    return text;
}

/* ---- decoding ------------------------------------------------------------------------------- */

struct golden {
    const char *text, *decoded;
};

/* Registers are read before they are written or alone, so their numbers are those declared. */
static const struct golden goldens[] = {
    {"add.s32 r1, r0, -1;", "ADD s32 | r1, r0, s32:ffffffff"},
    {"@!p add.u64 d1, d0, d0;", "@!p0 ADD u64 | d1, d0, d0"},
    {"mov.b16 h0, -2;", "MOV b16 | r0, b16:fffe"},
    {"mov.f32 f0, 1.5;", "MOV f32 | r0, f32:3fc00000"},
    {"mov.f32 f0, 0fFF800001;", "MOV f32 | r0, f32:ff800001"},
    {"mov.f64 e0, 0d3FF8000000000000;", "MOV f64 | d0, f64:3ff8000000000000"},
    {"mov.f64 e0, -1.5e1;", "MOV f64 | d0, f64:c02e000000000000"},
    {"mov.b64 d0, (1024 >> 4) << 32;", "MOV b64 | d0, b64:4000000000"},
    {"mov.u32 r0, 0x10 + 0b11 + 010 + 3U;", "MOV u32 | r0, u32:1e"},
    {"mov.u32 r0, (5 > 3 && !0) ? ~0 : WARP_SZ;", "MOV u32 | r0, u32:ffffffff"},
    {"mov.u32 r0, WARP_SZ - 7 % 4;", "MOV u32 | r0, u32:1d"},
    {"mov.s64 d0, (.s64)-8 >> 1;", "MOV s64 | d0, s64:fffffffffffffffc"},
    {"mov.u64 d0, (.u64)-8 >> 60;", "MOV u64 | d0, u64:f"},
    {"mov.u32 r0, %tid.y;", "MOV u32 | r0, %tid.y"},
    {"mov.u32 r0, %cluster_ctarank;", "MOV u32 | r0, %cluster_ctarank"},
    {"mov.u64 d0, %globaltimer;", "MOV u64 | d0, %globaltimer"},
    {"mov.u32 r0, sm;", "MOV u32 | r0, [shared+0]"},
    {"mov.u64 d0, gm + 4 * 2;", "MOV u64 | d0, [symbol gm+8]"},
    {"mov.u64 d0, map;", "MOV u64 | d0, [param+48]"},
    {"mov.b64 {r0, _}, d0;", "MOV b64 | {r0 _}, d0"},
    {"mov.b64 d0, {r0, 7};", "MOV b64 | d0, {r0 b32:7}"},
    {"mov.pred p, !q;", "MOV pred | p0, !p1"},
    {"ld.param.u64 d0, [a];", "LD u64 | d0, [param+0], -"},
    {"ld.shared.u32 r0, [sm + 8*(2) + 4];", "LD u32 | r0, [shared+20], -"},
    {"ld.global.v2.f32 {f1, f2}, [d0 + -8];", "LD f32 | {r0 r1}, [d0-8], -"},
    {"ld.global.L2::cache_hint.b32 r0, [d0], d1;", "LD b32 | r0, [d0+0], d1"},
    {"st.shared.v4.b32 [r0], {r1, 2, r3, 4};", "ST b32 | [r0+0], {r1 b32:2 r2 b32:4}, -"},
    {"setp.lt.s32 p|q, r0, 5;", "SETP s32 | p0, p1, r0, s32:5, -"},
    {"setp.ge.and.u32 p, r0, r1, !q;", "SETP u32 | p0, -, r0, r1, !p1"},
    {"selp.b32 r0, 1, r1, p;", "SELP b32 | r0, b32:1, r1, p0"},
    {"mul.wide.u32 d0, r0, r1;", "MUL u32 | d0, r0, r1"},
    {"mad.wide.s32 d0, r0, 4, d1;", "MAD s32 | d0, r0, s32:4, d1"},
    {"cvt.rn.bf16x2.f32 r0, f0, f1;", "CVT bf16x2 f32 | r0, r1, r2"},
    {"cvt.u64.u32 d0, %laneid;", "CVT u64 u32 | d0, %laneid"},
    {"shfl.sync.idx.b32 r0|p, r1, 0, 0x1f, -1;",
     "SHFL b32 | r0, p0, r1, u32:0, u32:1f, u32:ffffffff"},
    {"elect.sync _|p, -1;", "ELECT | _, p0, u32:ffffffff"},
    {"bar.red.and.pred p, 1, !q;", "BAR_RED pred | p0, u32:1, -, !p1"},
    {"bar.red.popc.u32 r0, 1, 64, q;", "BAR_RED u32 | r0, u32:1, u32:40, p0"},
    {"mbarrier.arrive.expect_tx.shared::cta.b64 _, [sm], 16384;",
     "MBAR_ARRIVE b64 | _, [shared+0], u32:4000"},
    {"mbarrier.try_wait.parity.shared::cta.b64 p, [r0 + 32], 1;",
     "MBAR_WAIT b64 | p0, [r0+32], u32:1, -"},
    {"cp.async.cg.shared.global [r0], [d0], 16, r1;", "CP_ASYNC | [r0+0], [d0+0], b32:10, r1, -"},
    {"cp.async.ca.shared.global [r0], [d0], 4, !p;", "CP_ASYNC | [r0+0], [d0+0], b32:4, !p0, -"},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
     "[r0], [d0], 64, [r1], 3;", "BULK_COPY | [r0+0], [d0+0], u32:40, [r1+0], b16:3, -"},
    {"cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [d0], [r0], r1, d1;",
     "BULK_COPY | [d0+0], [r0+0], r1, -, -, d1"},
    {"cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
     "[r0], [d0, {r1, 2, -3}], [r2 + 8];",
     "TENSOR_LOAD | [r0+0], [d0+0], {r1 b32:2 b32:fffffffd}, [r2+8], -, -"},
    {"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint "
     "[d0, {r0, r1}], [r2], d1;",
     "TENSOR_STORE | [d0+0], {r0 r1}, [r2+0], d1"},
    {"tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [r0], 2, r1;",
     "TENSORMAP_REPLACE b1024 b32 | [r0+0], b32:2, r1"},
    {"tensormap.replace.tile.rank.shared::cta.b1024.b32 [r0], 1;",
     "TENSORMAP_REPLACE b1024 b32 | [r0+0], -, b32:1"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0,f1,f2,f3}, d0, d1, !p, 1, -1, 0, 1;",
     "WGMMA f32 bf16 bf16 | {r0 r1 r2 r3}, d0, d1, !p0"},
    {"wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {r4,r5,r6,r7}, {r0,r1,r2,r3}, d1, 1;",
     "WGMMA s32 s8 u8 | {r4 r5 r6 r7}, {r0 r1 r2 r3}, d0, pred:1"},
    {"atom.global.cas.b32 r0, [d0], 1, r1;", "ATOM_CAS b32 | r0, [d0+0], b32:1, r1, -"},
    {"ld.shared.b128 x, [sm];", "LD b128 | d0, [shared+0], -"},
};

static void test_goldens(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        struct program *p = load_body(goldens[i].text);
        const char *got = describe(p, 0);

        if (strcmp(got, goldens[i].decoded))
            fail_msg("%s\n    decodes to %s\n    expected   %s", goldens[i].text, got,
                     goldens[i].decoded);
        program_free(p);
    }
}

/* The modifiers of a few instructions, field by field. */
static void test_modifiers(void **state)
{
    (void)state;
    struct program *p = load_body(
        "ld.acquire.gpu.global.u32 r0, [d0];\n"                                     /* 0 */
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0,f1,f2,f3}, d0, d1, p, -1, 1, 1, 0;\n"
        "mbarrier.arrive.shared::cta.b64 _, [r0];\n"                                /* 2 */
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [r0], r1;\n"   /* 3 */
        "barrier.cluster.arrive.relaxed.aligned;\n"                                 /* 4 */
        "barrier.cluster.wait;\n"                                                   /* 5 */
        "bar.sync 0;\n"                                                             /* 6 */
        "barrier.sync 0;\n"                                                         /* 7 */
        "membar.gl;\n"                                                              /* 8 */
        "atom.shared.add.u32 r0, [r1], 1;\n"                                        /* 9 */
        "setp.hi.u32 p, r0, r1;\n"                                                  /* 10 */
        "cvt.rzi.ftz.sat.u8.f32 r0, f0;\n"                                          /* 11 */
        "shf.r.clamp.b32 r0, r1, r2, 4;\n"                                          /* 12 */
        "cp.async.bulk.wait_group.read 0;\n"                                        /* 13 */
        "createpolicy.fractional.L2::evict_last.L2::evict_first.b64 d0, 0.5;\n"     /* 14 */
        "setmaxnreg.dec.sync.aligned.u32 40;\n"                                     /* 15 */
        "ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {r0,r1,r2,r3}, [r4];\n"     /* 16 */
        "ld.u32 r0, [sm];\n"                                                        /* 17 */
        "lop3.b32 r0, r1, r2, r3, 0x96;\n"                                          /* 18 */
        "vote.sync.ballot.b32 r0, p, -1;\n");                                       /* 19 */
    const struct inst *in = p->insts;

    assert_int_equal(in[0].sem, SEM_ACQUIRE);
    assert_int_equal(in[0].scope, SCOPE_GPU);
    assert_int_equal(in[0].space, SP_GLOBAL);
    assert_int_equal(in[1].m, 64);
    assert_int_equal(in[1].n, 8);
    assert_int_equal(in[1].k, 16);
    assert_true(in[1].flags & INST_NEG_A);
    assert_false(in[1].flags & INST_NEG_B);
    assert_true(in[1].flags & INST_TRANS_A);
    assert_false(in[1].flags & INST_TRANS_B);
    assert_int_equal(in[2].sem, SEM_RELEASE);
    assert_int_equal(in[2].scope, SCOPE_CTA);
    assert_int_equal(in[3].sem, SEM_ACQUIRE);
    assert_int_equal(in[3].scope, SCOPE_CLUSTER);
    assert_true(in[3].flags & INST_TRY);
    assert_true(in[3].flags & INST_PARITY);
    assert_true(in[4].flags & INST_ARRIVE);
    assert_int_equal(in[4].sem, SEM_RELAXED);
    assert_true(in[5].flags & INST_WAIT);
    assert_int_equal(in[5].sem, SEM_ACQUIRE);
    assert_true(in[6].flags & INST_ALIGNED);
    assert_false(in[7].flags & INST_ALIGNED);
    assert_int_equal(in[8].sem, SEM_SC);
    assert_int_equal(in[8].scope, SCOPE_GPU);
    assert_int_equal(in[9].sub, SUB_ADD);
    assert_int_equal(in[9].sem, SEM_RELAXED);
    assert_int_equal(in[9].scope, SCOPE_GPU);
    assert_int_equal(in[10].cmp, CMP_GT);
    assert_int_equal(in[11].rnd, RND_RZI);
    assert_int_equal(in[11].flags, INST_FTZ | INST_SAT);
    assert_int_equal(in[12].sub, SUB_R);
    assert_int_equal(in[12].sub2, SUB_CLAMP);
    assert_true(in[13].flags & INST_READ);
    assert_int_equal(in[14].sub, SUB_EVICT_LAST);
    assert_int_equal(in[14].sub2, SUB_EVICT_FIRST);
    assert_int_equal(in[15].sub, SUB_DEC);
    assert_int_equal(in[16].vec, 4);
    assert_true(in[16].flags & INST_TRANS);
    assert_int_equal(in[17].space, SP_SHARED);
    assert_int_equal(in[18].o[4].imm, 0x96);
    assert_int_equal(in[19].sub, SUB_BALLOT);
    assert_true(p->funcs[0].uses_setmaxnreg);
    assert_true(p->funcs[0].uses_cluster);
    program_free(p);
}

static void test_scopes_and_labels(void **state)
{
    (void)state;
    struct program *p = load_body(
        "mov.u32 r0, 1;\n"                      /* 0 */
        "bra done;\n"                           /* 1: the outer done */
        "{ .reg .b32 r0; .reg .pred p;\n"
        "  mov.u32 r0, 2;\n"                    /* 2 */
        "  wait: bra done;\n"                   /* 3: its own done */
        "  @p bra wait;\n"                      /* 4 */
        "done: }\n"
        "{ .reg .b32 r0; wait: @q bra wait; mov.u32 r0, r0; bra out; }\n"   /* 5, 6, 7 */
        "out: st.shared.b32 [sm], r0;\n"        /* 8 */
        "done:\n");                             /* 9: the end */
    const struct function *f = &p->funcs[0];

    assert_int_equal(p->insts[1].o[0].imm, 9);
    assert_int_equal(p->insts[3].o[0].imm, 5);
    assert_int_equal(p->insts[4].o[0].imm, 3);
    assert_int_equal(p->insts[5].o[0].imm, 5);
    assert_int_equal(p->insts[7].o[0].imm, 8);
    assert_int_equal(p->insts[9].op, OP_EXIT);
    assert_int_equal(p->insts[0].o[0].reg, p->insts[8].o[1].reg);
    assert_int_not_equal(p->insts[0].o[0].reg, p->insts[2].o[0].reg);
    assert_int_equal(f->end, 10);
    assert_string_equal(program_label(p, 4), "wait");
    assert_string_equal(program_label(p, 0), "");
    program_free(p);
}

static void test_indexed_branch(void **state)
{
    (void)state;
    struct program *p = load_body("list: .branchtargets one, two, one;\n"
                                  "brx.idx r0, list;\none: exit;\ntwo: ret;\n");

    assert_string_equal(describe(p, 0), "BRX | r0, {@1 @2 @1}");
    program_free(p);
}

static void test_positions(void **state)
{
    (void)state;
    struct program *p = load_text(
        "# 1 \"kernel.ptx\"\n"
        HEAD
        ".visible .entry k() {\n.reg .b32 r;\n"                 /* kernel.ptx 4, 5 */
        "# 70 \"ring.inc\" 1\n"
        "mov.u32 r, 1;\n\nmov.u32 r,\n   2;\n"                  /* ring.inc 70, 72 */
        "# 7 \"kernel.ptx\" 2\n"
        "/* one\n two */ mov.u32 r, 3; // three\n"              /* kernel.ptx 8 */
        ".loc 3 41 2\n mov.u32 r, 4;\n"
        ".loc 3 42 2, function_name $L1, inlined_at 3 50 1\n mov.u32 r, 5;\n"
        "}\n.file 3 \"a.cu\", 12, 34\n");
    char text[64];

    assert_string_equal(p->files[p->where[0].file], "ring.inc");
    assert_int_equal(p->where[0].line, 70);
    assert_int_equal(p->where[1].line, 72);
    assert_string_equal(p->files[p->where[2].file], "kernel.ptx");
    assert_int_equal(p->where[2].line, 8);
    assert_string_equal(p->files[p->where[3].file], "a.cu");
    assert_int_equal(p->where[3].line, 41);
    assert_int_equal(p->where[4].line, 42);
    assert_string_equal(program_text(p, 1, text, sizeof text), "mov.u32 r, 2");
    assert_string_equal(program_text(p, 1, text, 9), "mov.u...");
    program_free(p);
}

static void test_kernel_head(void **state)
{
    (void)state;
    struct program *p = load_text(
        HEAD
        ".entry a(.param .u64 x, .param .u64 .ptr .global .align 16 y,\n"
        " .param .align 64 .b8 m[128], .param .u32 u, .param .u8 v, .param .align 16 .b8 s[24])\n"
        ".reqntid 384 .minnctapersm 1 .maxnreg 168 .reqnctapercluster 2, 1, 1 .explicitcluster\n"
        "{ ret; }\n"
        ".entry b() .maxntid 16, 8 .maxclusterrank 8 { griddepcontrol.launch_dependents; }\n");
    static const uint32_t offsets[] = {0, 8, 48, 176, 180, 192};   /* as cuFuncGetParamInfo says */
    const struct function *a = program_find(p, "a"), *b = program_find(p, "b");

    assert_int_equal(a->nparams, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(a->params[i].offset, offsets[i]);
    assert_int_equal(a->param_size, 216);
    assert_true(a->params[1].pointer);
    assert_int_equal(a->params[1].ptr_align, 16);
    assert_int_equal(a->params[1].ptr_space, SP_GLOBAL);
    assert_int_equal(a->reqntid[0], 384);
    assert_int_equal(a->reqntid[2], 1);
    assert_int_equal(a->minnctapersm, 1);
    assert_int_equal(a->maxnreg, 168);
    assert_int_equal(a->reqnctapercluster[0], 2);
    assert_true(a->explicitcluster);
    assert_int_equal(b->maxntid[1], 8);
    assert_int_equal(b->maxclusterrank, 8);
    assert_true(b->uses_launch_dependents);
    assert_null(program_find(p, "c"));
    program_free(p);
}

static void test_variables(void **state)
{
    (void)state;
    struct program *p = load_text(
        HEAD
        ".visible .global .align 4 .b32 a[2][3] = {{1, 2}, {3}};\n"
        ".const .f32 c[] = {1.0, 0f40000000, -3e1};\n"
        ".func f();\n.global .u64 link[3] = {a, generic(a) + 8, f};\n"
        ".extern .global .b8 outside[];\n"
        ".func f() { .global .u16 inner = 7; ret; }\n"
        ".global .b8 tail[4] = {1, 2, 3};\n"
        ".global .align 16 .v4 .f32 v = {1.0, 2.0, 3.0, 4.0};\n");
    const struct symbol *a = program_symbol(p, "a"), *c = program_symbol(p, "c");
    const struct symbol *link = program_symbol(p, "link");
    static const uint32_t want[] = {1, 2, 0, 3, 0, 0};

    assert_int_equal(a->size, 24);
    assert_true(a->visible);
    assert_memory_equal(a->init, want, sizeof want);
    assert_int_equal(c->size, 12);
    assert_int_equal(c->space, SP_CONST);
    assert_memory_equal(c->init, ((float[]){1, 2, -30}), 12);
    assert_int_equal(link->nrelocs, 3);
    assert_int_equal(link->relocs[1].offset, 8);
    assert_int_equal(link->relocs[1].addend, 8);
    assert_true(link->relocs[2].function);
    assert_true(program_symbol(p, "outside")->is_extern);
    assert_null(program_symbol(p, "inner"));
    assert_int_equal(program_symbol(p, "tail")->size, 4);
    assert_int_equal(program_symbol(p, "v")->size, 16);
    assert_memory_equal(program_symbol(p, "v")->init, ((float[]){1, 2, 3, 4}), 16);
    program_free(p);
}

/* Each kernel's shared memory holds what it uses, and a function's operand is right in all. */
static void test_shared_memory(void **state)
{
    (void)state;
    struct program *p = load_text(
        HEAD
        ".shared .align 4 .b8 a[100];\n.shared .align 16 .b8 b[16];\n"
        ".extern .shared .align 128 .b8 dyn[];\n"
        ".func f() { .reg .b32 r; mov.u32 r, b; mov.u32 r, dyn; }\n"
        ".entry k1() { .reg .b32 r; .shared .b64 own; mov.u32 r, a; mov.u32 r, own; call f; }\n"
        ".entry k2() { call f; }\n"
        ".entry k3() { .reg .b32 r; mov.u32 r, dyn; }\n"
        ".entry k4() { ret; }\n");
    const struct function *k1 = program_find(p, "k1"), *k2 = program_find(p, "k2");

    assert_int_equal(k1->static_smem, 136);         /* a at 0, b at 112, own at 128 */
    assert_int_equal(k1->dynamic_smem, 256);
    assert_int_equal(k1->dynamic_align, 128);
    assert_int_equal(k1->nshared, 4);
    assert_int_equal(k2->static_smem, 128);
    assert_int_equal(k2->dynamic_smem, 256);
    assert_int_equal(program_find(p, "k3")->static_smem, 0);
    assert_int_equal(program_find(p, "k3")->dynamic_smem, 0);
    assert_int_equal(program_find(p, "k4")->nshared, 0);
    assert_int_equal(p->insts[0].o[1].off, 112);
    assert_int_equal(p->insts[1].o[1].off, 256);
    program_free(p);
}

static void test_calls(void **state)
{
    (void)state;
    struct program *p = load_text(
        HEAD
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
        ".func (.param .b32 out) twice(.param .b32 x, .param .align 8 .b8 s[16]);\n"
        ".func (.reg .b32 o) inc(.reg .b32 i, .reg .pred c) { add.u32 o, i, 1; ret; }\n"
        ".entry k() {\n .reg .b32 r, t; .reg .b64 d; .reg .pred p;\n .local .align 8 .b8 l[12];\n"
        " { .param .b32 ret0; .param .b32 a0; .param .align 8 .b8 a1[16];\n"
        "   st.param.b32 [a0], r; st.param.b64 [a1 + 8], d;\n"
        "   call.uni (ret0), twice, (a0, a1);\n"
        "   ld.param.b32 t, [ret0]; }\n"
        " { .param .b64 q; call (_), vprintf, (q, q); }\n"
        " call (r), inc, (t, p);\n"
        " mov.u64 d, inc;\n"
        " proto: .callprototype (.reg .b32 _) _ (.reg .b32 _, .reg .pred _);\n"
        " call (r), d, (7, p), proto;\n}\n"
        ".func (.param .b32 out) twice(.param .b32 x, .param .align 8 .b8 s[16]) {\n"
        " .reg .b32 r; ld.param.b32 r, [x]; st.param.b32 [out], r; ret; }\n");
    const struct function *k = program_find(p, "k"), *f = program_find(p, "twice");
    uint32_t at = k->first;

    /* frame of k: l at 0 (12 bytes), ret0 at 12, a0 at 16, a1 at 24; q reuses 16 */
    assert_int_equal(k->frame_size, 48);
    assert_string_equal(describe(p, at++), "ST b32 | [frame+16], r0, -");
    assert_string_equal(describe(p, at++), "ST b64 | [frame+32], d0, -");
    assert_string_equal(describe(p, at++), "CALL | twice, {[frame+12]}, {[frame+16] [frame+24]}");
    at++;
    assert_string_equal(describe(p, at++), "CALL | vprintf, {_}, {[frame+16] [frame+16]}");
    assert_int_equal(p->insts[at].o[2].n, 2);
    at += 2;
    assert_int_equal(p->insts[at].o[0].kind, OPND_REG);
    assert_true(k->recursive);                      /* through a pointer: nobody knows */
    assert_int_equal(p->funcs[0].builtin, BUILTIN_VPRINTF);
    assert_true(p->funcs[0].is_extern);
    assert_false(f->is_extern);
    assert_int_equal(f->rets[0].offset, 0);
    assert_int_equal(f->params[0].offset, 4);
    assert_int_equal(f->params[1].offset, 8);
    assert_int_equal(f->frame_size, 32);
    assert_true(program_find(p, "inc")->params[0].in_reg);
    program_free(p);
}

static void test_call_depth(void **state)
{
    (void)state;
    struct program *p = load_text(
        HEAD
        ".func leaf() { .local .b8 x[40]; ret; }\n"
        ".func mid() { .local .b8 x[16]; call leaf; }\n"
        ".func loop();\n.func back() { call loop; }\n.func loop() { call back; }\n"
        ".entry k() { .local .b8 x[16]; call mid; call leaf; }\n"
        ".entry r() { call loop; }\n"
        ".func same();\n.alias same, leaf;\n");

    assert_int_equal(program_find(p, "k")->max_frame, 16 + 16 + 48);
    assert_false(program_find(p, "k")->recursive);
    assert_true(program_find(p, "r")->recursive);
    program_free(p);
}

static void test_register_sharing(void **state)
{
    (void)state;
    struct program *p = load_body(
        "mov.u32 r0, 1;\nst.shared.b32 [sm], r0;\n"
        "mov.u32 r1, 2;\nst.shared.b32 [sm], r1;\n"         /* r0 is dead: shares */
        "@p mov.u32 r2, 3;\nst.shared.b32 [sm], r2;\n"      /* old value may show: its own */
        "loop: add.u32 r3, r3, 1;\nmov.u32 r4, r3;\n@q bra loop;\n"
        "st.shared.b32 [sm], r4;\n");
    const struct inst *in = p->insts;

    assert_int_equal(in[0].o[0].reg, in[2].o[0].reg);
    assert_int_not_equal(in[4].o[0].reg, in[2].o[0].reg);
    assert_int_not_equal(in[6].o[0].reg, in[7].o[0].reg);   /* r3 lives around the loop */
    assert_int_not_equal(in[6].o[0].reg, in[4].o[0].reg);
    assert_true(p->funcs[0].nregs[BANK_32] <= 4);
    program_free(p);

    /* accumulators are written by an engine, later: nobody shares with them */
    p = load_body("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0,f1,f2,f3}, d0, d1, 0, "
                  "1, 1, 0, 0;\nmov.u32 r0, 1;\nmov.u32 r1, r0;\n");
    for (int i = 0; i < 4; i++)
        assert_true(p->elems[p->insts[0].o[0].reg + (uint32_t)i].reg < 4);
    assert_true(p->insts[1].o[0].reg >= 4);
    program_free(p);
}

/* ---- errors --------------------------------------------------------------------------------- */

static const struct golden errors[] = {
    {"foo.s32 r0, r1;", "body:1:1: unknown instruction 'foo'"},
    {"add.s33 r0, r1, r2;", "body:1:1: modifier '.s33' does not fit 'add' here; the nearest form"},
    {"\n  mul.s32 r0, r1, r2;", "body:2:3: 'mul' needs one of .lo|hi"},
    {"add.f32 f0, f1;", "body:1:15: operand missing"},
    {"add.f32 f0, f1, f2, f3;", "body:1:21: one operand too many"},
    {"add.f32 f0, f1, d0;", "body:1:17: 'd0' is .b64, add.f32 wants .f32 here"},
    {"add.s32 r0, r1, nobody;", "body:1:17: 'nobody' is not declared"},
    {"add.s32 r0, r1, r9;", "body:1:17: 'r9' is not declared"},
    {"add.s32 r0, r1, 1.0;", "body:1:17: '1.0' is no operand of type .s32 for add.s32"},
    {"add.s32 1, r1, r2;", "body:1:9: '1' is no operand of type .s32"},
    {"add.s32 r0, r1, r2", "body:2:1: expected ; after the instruction, found '}'"},
    {"@r0 mov.u32 r0, 1;", "body:1:2: 'r0' is not a predicate register"},
    {"bra nowhere;", "body:1:1: label 'nowhere' is not defined"},
    {"{ here: } bra here;", "body:1:11: label 'here' is not defined"},
    {"here: here: ret;", "body:1:7: 'here' is declared twice in this block"},
    {".reg .b32 r0;", "body:1:11: 'r0' is declared twice"},
    {".reg .b32 z; .reg .f32 z;", "body:1:24: 'z' is declared twice"},
    {".reg .b32 map;", "body:1:11: 'map' is declared twice"},          /* a parameter */
    {"ld.global.u32 r0, [sm];", "body:1:20: 'sm' is in another state space"},
    {"ld.global.u32 r0, [f0];", "body:1:20: 'f0' is .f32; an address is an integer"},
    {"ld.global.u32 r0, [r1];", "body:1:20: an address of 64 bits is expected"},
    {"ld.shared.u32 r0, r1;", "body:1:19: expected an address in []"},
    {"ld.shared.v2.u32 {r0, r1, r2}, [sm];",
     "body:1:18: vector of 3 elements where 2 are expected"},
    {"st.const.u32 [cm], r0;", "body:1:1: .const memory cannot be written"},
    {"st.param.u64 [a], d0;", "body:1:15: an input parameter cannot be written"},
    {"ld.relaxed.u32 r0, [d0];", "body:1:1: 'ld' needs one of .cta|cluster|gpu|sys"},
    {"bar.sync 16;", "body:1:10: a barrier is one of 0..15"},
    {"bar.sync 1, 100;", "body:1:13: threads at a barrier come in multiples of 32"},
    {"setmaxnreg.inc.sync.aligned.u32 241;", "body:1:33: 241 where a multiple of 8 in 24..256"},
    {"setp.eq.s32 p, r0, r1, q;", "body:1:13: .and, .or or .xor is missing"},
    {"setp.lt.b32 p, r0, r1;", "body:1:13: a .b type compares with .eq and .ne only"},
    {"setp.lo.s32 p, r0, r1;", "body:1:1: .lo, .ls, .hi and .hs compare unsigned types"},
    {"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {f0,f1,f2,f3,f4,f5}, d0, d1, p, 1,1,0,0;",
     "body:1:1: N of wgmma is 8 to 256 in steps of 8"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0,f1,f2,f3}, d0, d1, p, 2, 1, 0, 0;",
     "body:1:77: 2 where 1 or -1 is expected"},
    {"wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {f0,f1,f2,f3}, d0, d1, p, 1, 1, 0, 0;",
     "body:1:84: 8 operands, this form with A in shared memory has 6"},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0,f1,f2}, d0, d1, p, 1, 1, 0, 0;",
     "body:1:51: expected a vector of 4 registers"},
    {"mbarrier.arrive.release.shared::cta.b64 _, [r0];", "body:1:1: an order (.release,"},
    {"mbarrier.arrive.shared::cluster.b64 d0, [r0];", "body:1:37: the destination is _"},
    {"mbarrier.test_wait.parity.shared::cluster.b64 p, [r0], r1;",
     "body:1:1: modifier '.shared::cluster' does not fit 'mbarrier' here"},
    {"cp.async.ca.shared.global [r0], [d0], 5;", "body:1:39: a copy has 4, 8 or 16 bytes"},
    {"cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
     "[r0], [d0, {r1}], [r2];",
     "body:1:80: vector of 1 elements where 2 are expected"},
    {"mov.b64 d0, {r0, h1};", "body:1:13: element 1 has 16 bits, 32 are expected"},
    {"mov.u32 r0, %clock64;", "body:1:13: %clock64 does not fit .u32"},
    {"mov.u32 r0, 1 / 0;", "body:1:15: division by zero"},
    {"mov.u32 r0, 08;", "body:1:13: malformed number"},
    {"mov.f32 f0, 0f3f80;", "body:1:13: 0f needs 8 hexadecimal digits"},
    {"mov.u32 r0, `;", "body:1:13: character that PTX does not have"},
    {"/* open", "body:1:1: comment is not closed"},
    {"call k;", "body:1:6: a kernel cannot be called"},
    {"brx.idx r0, here; here: ret;", "body:1:1: brx.idx needs the label of a .branchtargets list"},
    {".maxnreg 3;", "body:1:1: '.maxnreg' does not belong in a function body"},
    {"redux.sync.min.f64 e0, e1, -1;", "body:1:1: modifier '.f64' does not fit 'redux' here"},
    {"max.f32 f0, f1, f2, f3;", "body:1:21: the least or greatest of three takes sm_100"},
    {"max.abs.f32 f0, f1, f2;", "body:1:1: .abs of two operands goes with .xorsign"},
    {"max.abs.f16 h0, h1, h2;", "body:1:1: .abs goes with .xorsign"},
    {"add.u32 {r0}, r1, r2;", "body:1:9: '{' is no operand of type .u32 for add"},
    {"add.u32 r0, {r1}, r2;", "body:1:13: '{' is no operand of type .u32 for add"},
    {"atom.global.add.u32 {r0}, [d0], r1;", "body:1:21: '{' is no operand of type .u32 for atom"},
    {"ld.global.u32 {r0, r1}, [d0];", "body:1:15: '{' is no operand of type .u32 for ld"},
    {"ld.global.u32 {f0}, [d0];", "body:1:15: '{' is .f32"},
    {"st.global.u32 [d0], {h0};", "body:1:21: "},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0}, {r0}, {r1}, {f1};",
     "body:1:51: expected a vector of 4 registers"},
    {"vadd4.u32.u32.u32 r0, r0, r1, r2;", "body:1:1: instruction 'vadd4' is not implemented"},
    {"tcgen05.fence::after_thread_sync;", "body:1:1: tcgen05 needs a target such as sm_100a"},
};

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        const char *got = body_error(errors[i].text);

        if (strncmp(got, errors[i].decoded, strlen(errors[i].decoded)))
            fail_msg("%s\n    says     %s\n    expected %s", errors[i].text, got,
                     errors[i].decoded);
    }
}

static void expect_error(const char *text, enum load_status status, const char *begins)
{
    const char *got = error_of(text, status);

    if (strncmp(got, begins, strlen(begins)))
        fail_msg("%s\n    says     %s\n    expected %s", text, got, begins);
}

static void test_module_errors(void **state)
{
    (void)state;
    expect_error("", LOAD_INVALID, "test.ptx:1:1: a module begins with .version");
    expect_error(".version 9.9\n.target sm_90a\n", LOAD_UNSUPPORTED_VERSION,
                 "test.ptx:1:10: PTX 9.9 is newer than 9.0");
    expect_error(".version 9.0\n.target sm_100a\n", LOAD_WRONG_TARGET,
                 "test.ptx:2:9: the module is for sm_100a, the device is sm_90");
    expect_error(".version 9.0\n.target sm_80a\n", LOAD_WRONG_TARGET, "test.ptx:2:9: the module");
    expect_error(".version 9.0\n.target gpu\n", LOAD_INVALID, "test.ptx:3:1: expected a target");
    expect_error(".version 9.0\n.target sm_90\n.entry k() { wgmma.fence.sync.aligned; }",
                 LOAD_INVALID, "test.ptx:3:14: wgmma needs .target sm_90a, this module has sm_90");
    expect_error(".version 9.0\n.target sm_80\n.entry k() { barrier.cluster.arrive; }",
                 LOAD_INVALID, "test.ptx:3:14: this instruction needs sm_90 or higher");
    expect_error(HEAD ".entry k() { ret;", LOAD_INVALID, "test.ptx:4:18: the body of 'k' is not");
    expect_error(HEAD ".entry k() {} .entry k() {}", LOAD_INVALID,
                 "test.ptx:4:22: 'k' is defined twice");
    expect_error(HEAD ".global .b32 a; .global .b32 a;", LOAD_INVALID,
                 "test.ptx:4:30: 'a' is declared twice");
    expect_error(HEAD ".global .b32 a[2] = {1, 2, 3};", LOAD_INVALID,
                 "test.ptx:4:28: too many initial values");
    expect_error(HEAD ".shared .b8 a[];", LOAD_INVALID, "test.ptx:4:13: only .extern shared");
    expect_error(HEAD ".entry k() .reqntid 32 .maxntid 64 {}", LOAD_INVALID,
                 "test.ptx:4:8: 'k' has .maxntid and .reqntid");
    expect_error(HEAD ".tex .u64 t;", LOAD_INVALID, "test.ptx:4:1: '.tex' is not supported");
    expect_error(HEAD ".entry k(.param .b8 big[32765]) {}", LOAD_INVALID,
                 "test.ptx:4:21: more than 32764 bytes of parameters");
    expect_error(HEAD ".func f(.param .b32 a); .entry k() { call f; }", LOAD_INVALID,
                 "test.ptx:4:43: 'f' has 1 parameters");
    expect_error(HEAD "entry k() {}", LOAD_INVALID, "test.ptx:4:1: expected a directive");
}

/* A plain target runs on any later part; text with trailing NUL, CRLF, no final newline. */
static void test_accepted(void **state)
{
    (void)state;
    static const char text[] = ".version 7.8\r\n.target sm_80, debug\r\n.address_size 64\r\n"
                               ".visible .entry k()\r\n{\r\n\tret;\r\n}";
    const struct load_options options = {.sm = 100};
    struct program *p;

    assert_int_equal(program_load(text, sizeof text, &options, &p, NULL), LOAD_OK);
    assert_int_equal(p->version, 78);
    assert_int_equal(p->sm, 80);
    program_free(p);
    program_free(NULL);
}

/* Forms that only later parts have, and braces around the one element that ld and st move. */
static void test_accepted_forms(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "ld.global.b32 {r0}, [d0];", "ld.global.nc.f32 {f0}, [d0];", "st.global.b32 [d0], {r0};",
        "st.global.f32 [d0], {0f3f800000};", "ld.global.b16 {r0}, [d0];", "@p st.global.u8 [d0], {h0};",
        "max.f32 f0, f1, f2, f3;", "min.ftz.NaN.abs.f32 f0, f1, f2, f3;", "max.f32 f0, f1, 0f3f800000, f3;",
        "max.xorsign.abs.f32 f0, f1, f2;",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[1024];
        struct load_error error;
        const struct load_options options = {.sm = 100};
        struct program *p;

        snprintf(text, sizeof text,
                 ".version 8.8\n.target sm_100\n.address_size 64\n.entry k() { .reg .b32 r<4>; "
                 ".reg .b64 d<4>; .reg .f32 f<4>; .reg .b16 h<4>; .reg .pred p;\n%s\nret; }", texts[i]);
        if (program_load(text, strlen(text), &options, &p, &error) != LOAD_OK)
            fail_msg("%s: %s", texts[i], error.text);
        program_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_modifiers),
        cmocka_unit_test(test_scopes_and_labels),
        cmocka_unit_test(test_indexed_branch),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_kernel_head),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_call_depth),
        cmocka_unit_test(test_register_sharing),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_module_errors),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_accepted_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
