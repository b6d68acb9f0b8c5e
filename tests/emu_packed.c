/*
 * Tensor copies of packed 4- and 6-bit elements through the whole machine: every byte of shared
 * memory, gaps included, against a copy group by group; the bytes that the barrier counts.
 */
#include "emu_run.h"
#include "tmap.h"

enum { U4_ALIGN8 = 13, U4_ALIGN16 = 14, U6_ALIGN16 = 15 };      /* CUtensorMapDataType */
enum { SWIZZLE_NONE, SWIZZLE_32, SWIZZLE_64, SWIZZLE_128, SWIZZLE_128_ATOM_32 };
enum { SMEM = 64 * 1024, GLOBAL = 1 << 16, POISON = 0xa5 };

static uint64_t state;

static unsigned below(unsigned n)
{
    return (unsigned)(emu_random(&state) >> 20) % n;
}

/* ---- a map and a box ------------------------------------------------------------------------- */

struct trial {
    unsigned type, rank, swizzle, bits, unit;   /* unit: bytes that 16 elements have */
    bool gathers;
    uint64_t dim[5], stride[4];
    uint32_t box[5], step[5];
    int32_t at[5];
    unsigned rows, inner;       /* of the box; bytes of a row in global memory */
};

static void choose(struct trial *t)
{
    uint64_t stride;

    memset(t, 0, sizeof *t);
    t->type = U4_ALIGN8 + below(3);
    t->bits = t->type == U6_ALIGN16 ? 6 : 4;
    t->unit = t->type == U4_ALIGN8 ? 16 : t->type == U4_ALIGN16 ? 8 : 12;
    t->gathers = below(5) == 0;
    t->rank = t->gathers ? 2 : 1 + below(5);
    t->swizzle = t->type == U4_ALIGN8 ? below(5) : (unsigned[]){ SWIZZLE_NONE, SWIZZLE_128,
                                                                 SWIZZLE_128_ATOM_32 }[below(3)];
    if (t->type == U4_ALIGN8) {
        static const unsigned spans[] = { 256, 64, 128, 256, 256 };

        t->dim[0] = 2 * (1 + below(300));
        t->box[0] = 32 * (1 + below(spans[t->swizzle] / 32));   /* whole 16 bytes */
    } else {
        t->dim[0] = 128 * (1 + below(3));
        t->box[0] = 128;
    }
    t->step[0] = 1;
    t->at[0] = t->type == U4_ALIGN8 ? 32 * ((int)below(12) - 2) : 128 * ((int)below(5) - 1);
    stride = (t->dim[0] * t->bits / 8 + 31) / 32 * 32 + 32 * below(3);
    t->rows = 1;
    for (unsigned i = 1; i < t->rank; i++) {
        t->dim[i] = 1 + below(5);
        t->box[i] = t->gathers ? 1 : 1 + below(i == 1 ? 8 : 3);
        t->step[i] = 1;
        t->at[i] = (int)below((unsigned)t->dim[i] + 3) - 2;
        t->stride[i - 1] = stride;
        stride *= t->dim[i];
        t->rows *= t->box[i];
    }
    if (t->gathers) {
        t->dim[1] = 9;
        t->rows = 4;
        for (unsigned i = 1; i < 5; i++)
            t->at[i] = (int)below(11) - 1;
    }
    t->inner = t->box[0] * t->bits / 8;
}

/* Offset of box row `row` in global memory, or false where it is outside. */
static bool row_at(const struct trial *t, unsigned row, uint64_t *offset)
{
    *offset = 0;
    if (t->gathers) {
        *offset = (uint64_t)t->at[1 + row] * t->stride[0];
        return t->at[1 + row] >= 0 && t->at[1 + row] < (int)t->dim[1];
    }
    for (unsigned i = 1; i < t->rank; i++) {
        const int at = t->at[i] + (int)(row % t->box[i]);

        row /= t->box[i];
        if (at < 0 || at >= (int)t->dim[i])
            return false;
        *offset += (uint64_t)at * t->stride[i - 1];
    }
    return true;
}

static unsigned span_of(const struct trial *t)
{
    return t->swizzle == SWIZZLE_NONE ? 0 : t->swizzle == SWIZZLE_32 ? 32
         : t->swizzle == SWIZZLE_64 ? 64 : 128;
}

/* Where group g of 16 (a dense type: 32) elements of a row begins, from the box's first byte on,
 * which lies at a multiple of 1024. */
static unsigned place(const struct trial *t, unsigned row, unsigned g)
{
    const unsigned span = span_of(t), wide = t->inner / t->unit * 16;
    const unsigned at = row * (span ? span : wide) + 16 * g, line = at / 128;

    if (t->swizzle == SWIZZLE_128_ATOM_32)
        return at - at % 128 + ((at % 128 / 32 ^ line % 4) * 32) + at % 32;
    if (span)
        return at - at % span + ((at % span / 16 ^ line % (span / 16)) * 16);
    return at;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void program(char *text, size_t room, const struct trial *t, unsigned bytes, bool prefill,
                    unsigned read)
{
    char coordinates[128] = "";

    for (unsigned i = 0, n = 0; i < (t->gathers ? 5 : t->rank); i++)
        n += (unsigned)snprintf(coordinates + n, sizeof coordinates - n, "%s%d", i ? "," : "",
                                t->at[i]);

    const int n = snprintf(text, room,
        ".version 8.6\n.target sm_100a\n.address_size 64\n"
        ".extern .shared .align 1024 .b8 sm[];\n"
        ".visible .entry k(.param .u64 map, .param .u64 out)\n{\n"
        ".shared .align 8 .b64 bar;\n"
        ".reg .b32 tid, base, at, i, v, bars;\n.reg .b64 p, g;\n.reg .pred q, other;\n"
        "mov.u32 tid, %%tid.x;\nmov.u32 base, sm;\nadd.u32 base, base, 1023;\n"
        "and.b32 base, base, 0xfffffc00;\nmov.u32 bars, bar;\n"
        "ld.param.u64 p, [map];\n"
        "mov.u32 i, tid;\nmov.u32 v, 0xa5a5a5a5;\n"
        "F: setp.ge.u32 q, i, %u;\n@q bra G;\n"
        "mad.lo.u32 at, i, 4, base;\nst.shared.b32 [at], v;\nadd.u32 i, i, 128;\nbra F;\n"
        "G: fence.proxy.async.shared::cta;\n"
        "bar.sync 0;\n"
        "setp.ne.u32 other, tid, 0;\n@other bra W;\n"
        "mbarrier.init.shared::cta.b64 [bars], 1;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], %u;\n"
        "cp.async.bulk.tensor.%ud.shared::cta.global.%s.mbarrier::complete_tx::bytes [base], "
        "[p, {%s}], [bars];\n"
        "W: bar.sync 0;\n"
        "L: mbarrier.try_wait.parity.shared::cta.b64 q, [bars], 0;\n@!q bra L;\n"
        "ld.param.u64 g, [out];\n"
        "mov.u32 i, tid;\n"
        "C: setp.ge.u32 q, i, %u;\n@q bra E;\n"
        "mad.lo.u32 at, i, 4, base;\nld.shared.b32 v, [at];\n"
        "mad.wide.u32 p, i, 4, g;\nst.global.b32 [p], v;\nadd.u32 i, i, 128;\nbra C;\n"
        "E: ret;\n}\n",
        prefill ? (SMEM - 2048) / 4 : 0, bytes, t->rank, t->gathers ? "tile::gather4" : "tile",
        coordinates, read / 4);

    assert_true(n > 0 && (size_t)n < room);
}

static uint8_t global[GLOBAL];

/* Runs the copy; out gets shared memory from the box's first byte on. */
static bool run(struct emu *e, const struct trial *t, unsigned bytes, bool prefill, unsigned read,
                unsigned rules, uint8_t *out)
{
    const struct emu_launch l = { .grid = { 1 }, .block = { 128 }, .smem = SMEM };
    struct tmap_request request = { .type = t->type, .rank = t->rank, .dim = t->dim,
                                    .stride = t->stride, .box = t->box,
                                    .element_stride = t->step, .swizzle = t->swizzle };
    uint8_t map[TMAP_BYTES];
    uint64_t values[2];
    const char *wrong;
    char text[4096];
    bool ok;

    emu_open_b200(e, (enum machine_policy)(state % 3), state);
    e->config.rules = rules;
    emu_renew(e);
    program(text, sizeof text, t, bytes, prefill, read);
    emu_load(e, text);
    request.address = emu_put(e, global, sizeof global);
    wrong = tmap_encode(&request, 100, map);
    if (wrong)
        fail_msg("%s", wrong);

    const struct mem_block *b = mem_alloc(e->mem, sizeof map, 256, MEM_DEVICE, "map");

    assert_non_null(b);
    memcpy(b->bytes, map, sizeof map);
    valid_fill(b->valid, 0, sizeof map, true);
    values[0] = b->base;
    values[1] = emu_alloc(e, SMEM);
    ok = emu_run(e, "k", &l, 2, values);
    if (ok && out)
        memcpy(out, emu_bytes(e, values[1]), read);
    return ok;
}

static void must(struct emu *e, bool ok, const struct trial *t)
{
    char *report = ok ? NULL : trap_report(&e->trap);

    if (!ok)
        fail_msg("type %u rank %u swizzle %u box %u rows %u: %s", t->type, t->rank, t->swizzle,
                 t->box[0], t->rows, report);
}

static void every_byte(void **unused)
{
    static uint8_t got[SMEM], want[SMEM];
    unsigned boxes[3] = { 0 };

    (void)unused;
    state = 5;
    for (unsigned i = 0; i < GLOBAL; i++)
        global[i] = (uint8_t)emu_random(&state);
    for (unsigned n = 0; n < 400; n++) {
        const unsigned read = SMEM - 2048;
        struct trial t;
        struct emu e;

        choose(&t);
        if (t.rows * (span_of(&t) ? span_of(&t) : t.inner / t.unit * 16) > read)
            continue;
        boxes[t.type - U4_ALIGN8]++;
        memset(want, POISON, sizeof want);
        for (unsigned row = 0; row < t.rows; row++) {
            const int64_t first = (int64_t)t.at[0] * t.bits / 8;
            uint64_t offset;
            const bool inside = row_at(&t, row, &offset);

            for (unsigned b = 0; b < t.inner; b++) {
                const int64_t x = first + b;
                const bool there = inside && x >= 0 && x < (int64_t)(t.dim[0] * t.bits / 8);

                want[place(&t, row, b / t.unit) + b % t.unit] =
                    there ? global[offset + (uint64_t)x] : 0;
            }
        }
        must(&e, run(&e, &t, t.rows * t.inner, true, read, 0, got), &t);
        for (unsigned i = 0; i < read; i++)
            if (got[i] != want[i])
                fail_msg("trial %u, type %u rank %u swizzle %u box %u rows %u: byte %u is %02x, "
                         "want %02x", n, t.type, t.rank, t.swizzle, t.box[0], t.rows, i, got[i],
                         want[i]);
        emu_close(&e);
    }
    for (unsigned i = 0; i < 3; i++)
        assert_true(boxes[i] > 60);
}

/* A box of 8 rows of each padded type. */
static void simple(struct trial *t, unsigned type)
{
    *t = (struct trial){ .type = type, .rank = 2, .bits = type == U6_ALIGN16 ? 6 : 4,
                         .unit = type == U6_ALIGN16 ? 12 : 8, .dim = { 128, 8 }, .box = { 128, 8 },
                         .step = { 1, 1 }, .rows = 8 };
    t->stride[0] = t->inner = 128 * t->bits / 8;
}

/* The barrier counts packed bytes, or all of them under the rule: any other count never ends. */
static void counted_bytes(void **unused)
{
    (void)unused;
    for (unsigned type = U4_ALIGN16; type <= U6_ALIGN16; type++)
        for (unsigned rule = 0; rule < 2; rule++)
            for (int off = -16; off <= 16; off += 16) {
                const unsigned rules = rule ? RULE_PADDED_BYTES : 0;
                struct trial t;
                struct emu e;

                simple(&t, type);
                const unsigned bytes = rule ? 8 * 128 : 8 * t.inner;
                const bool ok = run(&e, &t, bytes + (unsigned)off, true, 1024, rules, NULL);

                if (off == 0)
                    must(&e, ok, &t);
                else
                    assert_true(!ok && (e.trap.kind == TRAP_DEADLOCK ||
                                        e.trap.kind == TRAP_MBARRIER_TX));
                emu_close(&e);
            }
}

/* Nobody writes the gaps: what reads one has read nothing. */
static void gaps(void **unused)
{
    (void)unused;
    for (unsigned type = U4_ALIGN16; type <= U6_ALIGN16; type++) {
        struct trial t;
        struct emu e;

        simple(&t, type);
        assert_true(run(&e, &t, 8 * t.inner, false, 4, 0, NULL));
        emu_close(&e);
        assert_false(run(&e, &t, 8 * t.inner, false, 16, 0, NULL));
        assert_int_equal(e.trap.kind, TRAP_UNDEFINED);
        emu_close(&e);
    }
}

/* The driver's refusals of packed types, one rule at a time. */
static void refusals(void **unused)
{
    uint64_t dim[2] = { 256, 8 }, stride[1] = { 128 };
    uint32_t box[2] = { 128, 8 }, step[2] = { 1, 1 };
    uint8_t map[TMAP_BYTES];
    struct tmap_request good = { .type = U4_ALIGN16, .rank = 2, .address = 1 << 20, .dim = dim,
                                 .stride = stride, .box = box, .element_stride = step }, r = good;

    (void)unused;
    assert_null(tmap_encode(&good, 100, map));
    assert_non_null(tmap_encode(&good, 90, map));       /* a Hopper has no such types */
    r.address += 16;
    assert_non_null(tmap_encode(&r, 100, map));
    r.type = U4_ALIGN8;                                 /* 16 bytes are enough there */
    assert_null(tmap_encode(&r, 100, map));
    r = good;
    dim[0] = 192;
    assert_non_null(tmap_encode(&r, 100, map));
    dim[0] = 256;
    box[0] = 64;
    assert_non_null(tmap_encode(&r, 100, map));
    box[0] = 128;
    stride[0] = 144;
    assert_non_null(tmap_encode(&r, 100, map));
    stride[0] = 160;
    assert_null(tmap_encode(&r, 100, map));
    r.fill = 1;
    assert_non_null(tmap_encode(&r, 100, map));
    r = good;
    for (unsigned swizzle = 0; swizzle < 7; swizzle++) {
        const bool fine = swizzle == SWIZZLE_NONE || swizzle == SWIZZLE_128 ||
                          swizzle == SWIZZLE_128_ATOM_32;

        r.swizzle = swizzle;
        r.type = U4_ALIGN16;
        assert_true(!tmap_encode(&r, 100, map) == fine);
        r.type = U6_ALIGN16;
        stride[0] = 192;
        assert_true(!tmap_encode(&r, 100, map) == (fine || swizzle == 6));
        stride[0] = 160;
    }
    r = good;
    r.type = U4_ALIGN8;
    dim[0] = 255;
    assert_non_null(tmap_encode(&r, 100, map));
}

/* Padded elements are loaded; what a store of them does no source says or it does not exist. */
static void stores(void **unused)
{
    static const enum trap_kind kinds[] = { TRAP_NONE, TRAP_TENSOR_ACCESS, TRAP_UNVERIFIED };

    (void)unused;
    for (unsigned type = U4_ALIGN8; type <= U6_ALIGN16; type++) {
        struct trial t;
        struct emu e;
        uint8_t map[TMAP_BYTES];
        uint64_t value;
        struct tmap_request request;

        simple(&t, type);
        request = (struct tmap_request){ .type = t.type, .rank = 2, .dim = t.dim,
                                         .stride = t.stride, .box = t.box,
                                         .element_stride = t.step };
        emu_open_b200(&e, POLICY_LATE, 1);
        emu_load(&e,
                 ".version 8.6\n.target sm_100a\n.address_size 64\n"
                 ".visible .entry k(.param .u64 map)\n{\n.shared .align 1024 .b8 box[1024];\n"
                 ".reg .b32 at;\n.reg .b64 p;\n"
                 "mov.u32 at, box;\nst.bulk.weak.shared::cta [at], 1024, 0;\n"
                 "fence.proxy.async.shared::cta;\nld.param.u64 p, [map];\n"
                 "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [p, {0, 0}], [at];\n"
                 "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;\n}\n");
        request.address = emu_alloc(&e, 4096);
        assert_null(tmap_encode(&request, 100, map));
        value = emu_put(&e, map, sizeof map);
        const bool ok = emu_run(&e, "k", &(struct emu_launch){ .grid = { 1 }, .block = { 1 } }, 1,
                                &value);

        assert_int_equal(ok ? TRAP_NONE : e.trap.kind, kinds[type - U4_ALIGN8]);
        for (unsigned i = 0; ok && i < 512; i++)
            assert_int_equal(((uint8_t *)emu_bytes(&e, request.address))[i], 0);
        emu_close(&e);
    }
}

/* Swizzles that no source describes: the driver takes the map, a copy is a trap. */
static void unknown_swizzles(void **unused)
{
    (void)unused;
    for (unsigned swizzle = 5; swizzle <= 6; swizzle++) {
        struct trial t;
        struct emu e;

        simple(&t, U4_ALIGN8);
        t.unit = 16;
        t.swizzle = swizzle;
        assert_false(run(&e, &t, 8 * t.inner, true, 1024, RULE_ASSUME, NULL));
        assert_int_equal(e.trap.kind, TRAP_UNVERIFIED);
        emu_close(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte),
        cmocka_unit_test(counted_bytes),
        cmocka_unit_test(gaps),
        cmocka_unit_test(refusals),
        cmocka_unit_test(stores),
        cmocka_unit_test(unknown_swizzles),
    };

    return cmocka_run_group_tests_name("packed", tests, NULL, NULL);
}
