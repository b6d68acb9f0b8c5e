/*
 * Tensor loads, stores and reductions of random maps as a program would issue them, against a copy
 * that goes element by element.
 */
#include "emu_run.h"

#include "tmap.h"

enum { SMEM = 16384, GLOBAL = 1 << 16, ROUNDS = 60 };

#define ENTRY(name) \
    ".visible .entry " name "(.param .u64 map, .param .u32 c0, .param .u32 c1, .param .u32 c2, " \
    ".param .u32 c3, .param .u32 c4, .param .u32 at, .param .u32 bytes, .param .u64 image)\n{\n" \
    ".reg .b32 tid, base, box, bar, n, v, x<5>; .reg .b64 m, p, off; .reg .pred ok, more;\n" \
    "ld.param.u64 m, [map]; ld.param.u32 x0, [c0]; ld.param.u32 x1, [c1]; " \
    "ld.param.u32 x2, [c2]; ld.param.u32 x3, [c3]; ld.param.u32 x4, [c4]; " \
    "ld.param.u32 box, [at]; ld.param.u64 p, [image];\n" \
    "mov.u32 tid, %%tid.x; mov.u32 base, sm; add.u32 box, box, base; add.u32 bar, base, 16384;\n" \
    "shl.b32 n, tid, 2;\n" \
    "FILL: cvt.u64.u32 off, n; add.u64 off, off, p; ld.global.u32 v, [off]; " \
    "{ .reg .b32 to_; add.u32 to_, base, n; st.shared.u32 [to_], v; }\n" \
    "add.u32 n, n, 128; setp.lt.u32 more, n, 16384; @more bra FILL;\n" \
    "fence.proxy.async.shared::cta; bar.warp.sync -1;\n" \
    "setp.ne.u32 ok, tid, 0; @ok bra OUT;\n"

static const char *const coordinates[] = {
    "{x0}", "{x0, x1}", "{x0, x1, x2}", "{x0, x1, x2, x3}", "{x0, x1, x2, x3, x4}",
};

static char *program(unsigned rank, const char *reduce)
{
    char *const text = malloc(8192);

    assert_non_null(text);
    snprintf(text, 8192, HEAD ".extern .shared .align 1024 .b8 sm[];\n" ENTRY("load")
             "ld.param.u32 n, [bytes]; mbarrier.init.shared::cta.b64 [bar], 1;\n"
             "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], n;\n"
             "cp.async.bulk.tensor.%ud.shared::cta.global.tile.mbarrier::complete_tx::bytes "
             "[box], [m, %s], [bar];\n"
             "W: mbarrier.try_wait.parity.shared::cta.b64 ok, [bar], 0; @!ok bra W;\n"
             "cp.async.bulk.global.shared::cta.bulk_group [p], [base], 16384;\n"
             "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
             "OUT: ret; }\n" ENTRY("store")
             "%s.%ud.global.shared::cta%s%s.tile.bulk_group [m, %s], [box];\n"
             "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
             "OUT: ret; }\n", rank, coordinates[rank - 1],
             reduce ? "cp.reduce.async.bulk.tensor" : "cp.async.bulk.tensor", rank,
             reduce ? "." : "", reduce ? reduce : "", coordinates[rank - 1]);
    return text;
}

/* API numbers of the types, their sizes. */
static const struct { unsigned type, bytes; } types[] = {
    { 0, 1 }, { 1, 2 }, { 2, 4 }, { 3, 4 }, { 4, 8 }, { 5, 8 }, { 6, 2 }, { 7, 4 }, { 8, 8 },
    { 9, 2 }, { 10, 4 }, { 11, 4 }, { 12, 4 },
};

static const unsigned spans[] = { 0, 32, 64, 128 };

struct box_case {
    unsigned rank, type, bytes, span;
    bool nan, tf32;
    uint64_t dim[5], stride[5];
    uint32_t box[5], step[5], at;
    int32_t start[5];
    uint32_t rows;
    uint64_t map;
};

static uint32_t below(uint64_t *random, uint32_t n)
{
    return (uint32_t)(emu_random(random) >> 33) % n;
}

/* False: the box is too large for the image. */
static bool draw(struct box_case *c, struct emu *e, uint64_t *random, uint64_t global, bool store)
{
    const unsigned swizzle = below(random, 4), t = below(random, 13);
    uint8_t map[TMAP_BYTES];

    *c = (struct box_case){ .rank = 1 + below(random, 5), .type = types[t].type,
                            .bytes = types[t].bytes, .span = spans[swizzle], .rows = 1 };
    c->nan = c->type >= 6 && below(random, 3) == 0;
    c->tf32 = c->type >= 11;
    for (unsigned i = 0; i < 5; i++)
        c->dim[i] = c->box[i] = c->step[i] = 1;
    c->stride[0] = c->bytes;
    for (unsigned i = 0; i < c->rank; i++) {
        c->dim[i] = 1 + below(random, i ? 5 : 40);
        c->box[i] = 1 + below(random, i ? 6 : 1);
        c->step[i] = i && below(random, 3) == 0 ? 1 + below(random, 3) : 1;
        if (i)
            c->stride[i] = (c->stride[i - 1] * c->dim[i - 1] + 15) / 16 * 16 +
                           16 * below(random, 3);
        if (i)
            c->rows *= (c->box[i] + c->step[i] - 1) / c->step[i];
        c->start[i] = (int32_t)below(random, (uint32_t)c->dim[i] + 3) - (store ? 0 : 3);
    }
    c->box[0] = 16 * (1 + below(random, c->span ? c->span / 16 : 6)) / c->bytes;
    c->start[0] = (int32_t)(below(random, 5) * 16 / c->bytes) - (store ? 0 : 32 / (int)c->bytes);
    c->at = 128 * below(random, 8);
    if (c->rows * (c->span ? c->span : c->box[0] * c->bytes) + c->at > SMEM - 128 ||
        c->stride[c->rank - 1] * c->dim[c->rank - 1] > GLOBAL - 16)
        return false;
    const struct tmap_request request = {
        .type = c->type, .rank = c->rank, .address = global, .dim = c->dim, .stride = c->stride + 1,
        .box = c->box, .element_stride = c->step, .swizzle = swizzle, .fill = c->nan,
    };
    const char *wrong = tmap_encode(&request, 90, map);
    if (wrong)
        fail_msg("%s", wrong);
    c->map = emu_put(e, map, sizeof map);
    return true;
}

/* Where byte b of element i of a row lies in the image; chunks XOR the 128-byte line's number. */
static uint32_t shared_byte(const struct box_case *c, uint32_t row, uint32_t i, uint32_t b)
{
    const uint32_t inner = c->box[0] * c->bytes, span = c->span;
    /* the image starts at a multiple of 1024 */
    const uint32_t a = c->at + row * (span ? span : inner) + i * c->bytes + b;

    return span ? a - a % span + (((a % span / 16) ^ (a / 128 % (span / 16))) * 16) + a % 16 : a;
}

/* The element that (row, i) of the box is: its offset from the tensor, or whether it is outside. */
static bool inside(const struct box_case *c, uint32_t row, uint32_t i, bool padding,
                   uint64_t *offset)
{
    int64_t at = c->start[0] + (int64_t)i;
    uint64_t end = c->dim[0];

    if (padding)
        end = (end * c->bytes + 15) / 16 * 16 / c->bytes;
    if (at < 0 || (uint64_t)at >= end)
        return false;
    *offset = (uint64_t)at * c->bytes;
    for (unsigned d = 1; d < c->rank; d++) {
        const uint32_t count = (c->box[d] + c->step[d] - 1) / c->step[d];

        at = c->start[d] + (int64_t)(row % count) * c->step[d];
        row /= count;
        if (at < 0 || (uint64_t)at >= c->dim[d])
            return false;
        *offset += (uint64_t)at * c->stride[d];
    }
    return true;
}

static uint32_t to_tf32(uint32_t v)
{
    const uint32_t low = v & 0x1fff, kept = v - low;

    if ((v & 0x7fffffff) > 0x7f800000)
        return 0x7fffe000;
    return low > 0x1000 || (low == 0x1000 && kept & 0x2000) ? kept + 0x2000 : kept;
}

static void launch(struct emu *e, const struct box_case *c, const char *kernel, uint64_t image)
{
    const uint32_t bytes = c->rows * c->box[0] * c->bytes;

    const struct emu_launch one = { .grid = { 1 }, .block = { 32 }, .smem = SMEM + 64 };

    emu_must(e, kernel, &one, 9,
             (uint64_t[]){ c->map, (uint32_t)c->start[0], (uint32_t)c->start[1],
                           (uint32_t)c->start[2], (uint32_t)c->start[3], (uint32_t)c->start[4],
                           c->at, bytes, image });
}

static uint8_t noise[GLOBAL], image[SMEM], want[GLOBAL];

static void fill(uint8_t *bytes, size_t n, uint64_t *random)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)emu_random(random);
}

static void compare(const struct box_case *c, const uint8_t *got, uint32_t bytes, unsigned policy,
                    unsigned round)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (got[i] != want[i])
            fail_msg("policy %u round %u rank %u type %u span %u: byte %u is %02x, want %02x",
                     policy, round, c->rank, c->type, c->span, i, got[i], want[i]);
}

static void loads(void **state)
{
    uint64_t random = 3;
    unsigned boxes = 0;

    (void)state;
    for (unsigned policy = 0; policy < 3; policy++)
        for (unsigned round = 0; round < ROUNDS; round++) {
            struct box_case c;
            struct emu e;

            emu_open(&e, policy, round);
            fill(noise, GLOBAL, &random);
            fill(image, SMEM, &random);
            const uint64_t global = emu_put(&e, noise, GLOBAL);
            const uint64_t out = emu_put(&e, image, SMEM);
            if (!draw(&c, &e, &random, global, false)) {
                emu_close(&e);
                continue;
            }
            memcpy(want, image, SMEM);
            for (uint32_t row = 0; row < c.rows; row++)
                for (uint32_t i = 0; i < c.box[0]; i++) {
                    uint8_t element[8] = { 0 };
                    uint64_t offset;

                    if (inside(&c, row, i, false, &offset)) {
                        uint32_t v;

                        memcpy(element, noise + offset, c.bytes);
                        memcpy(&v, element, 4);
                        v = to_tf32(v);
                        if (c.tf32)
                            memcpy(element, &v, 4);
                    } else if (c.nan) {
                        for (unsigned b = 0; b < c.bytes; b++)
                            element[b] = b & 1 ? 0x7f : 0xf7;
                    }
                    for (unsigned b = 0; b < c.bytes; b++)
                        want[shared_byte(&c, row, i, b)] = element[b];
                }
            char *const text = program(c.rank, NULL);
            emu_load(&e, text);
            free(text);
            launch(&e, &c, "load", out);
            boxes++;
            compare(&c, emu_bytes(&e, out), SMEM, policy, round);
            emu_close(&e);
        }
    assert_true(boxes > 2 * ROUNDS);
}

static uint64_t add(unsigned type, uint64_t a, uint64_t b)
{
    return type == 2 || type == 3 ? (uint32_t)(a + b) : a + b;
}

static void stores(void **state)
{
    uint64_t random = 4;
    unsigned boxes = 0;

    (void)state;
    for (unsigned policy = 0; policy < 3; policy++)
        for (unsigned round = 0; round < ROUNDS; round++) {
            struct box_case c;
            struct emu e;

            emu_open(&e, policy, round);
            fill(noise, GLOBAL, &random);
            fill(image, SMEM, &random);
            const uint64_t global = emu_put(&e, noise, GLOBAL);
            const uint64_t in = emu_put(&e, image, SMEM);
            if (!draw(&c, &e, &random, global, true)) {
                emu_close(&e);
                continue;
            }
            const bool adds = c.type >= 2 && c.type <= 4 && below(&random, 2);
            memcpy(want, noise, GLOBAL);
            for (uint32_t row = 0; row < c.rows; row++)
                for (uint32_t i = 0; i < c.box[0]; i++) {
                    uint64_t offset, element = 0, old = 0;

                    if (!inside(&c, row, i, true, &offset))
                        continue;
                    for (unsigned b = 0; b < c.bytes; b++)
                        element |= (uint64_t)image[shared_byte(&c, row, i, b)] << 8 * b;
                    memcpy(&old, want + offset, c.bytes);
                    if (adds)
                        element = add(c.type, old, element);
                    memcpy(want + offset, &element, c.bytes);
                }
            char *const text = program(c.rank, adds ? "add" : NULL);
            emu_load(&e, text);
            free(text);
            launch(&e, &c, "store", in);
            boxes++;
            compare(&c, emu_bytes(&e, global), GLOBAL, policy, round);
            emu_close(&e);
        }
    assert_true(boxes > 2 * ROUNDS);
}

/* Bytes nobody wrote travel with a load, and stop at a store into the tensor. */
static void undefined(void **state)
{
    const uint64_t dim[] = { 16, 8 }, stride[] = { 64 };
    const uint32_t box[] = { 16, 8 }, ones[] = { 1, 1 };
    static const char text[] =
        HEAD ".extern .shared .align 1024 .b8 sm[];\n"
        ".visible .entry k(.param .u64 map, .param .u64 out, .param .u32 skip)\n{\n"
        ".reg .b32 tid, base, bar, v, s; .reg .b64 m, p, off; .reg .pred ok, skips;\n"
        "ld.param.u64 m, [map]; ld.param.u64 p, [out]; ld.param.u32 s, [skip];\n"
        "mov.u32 tid, %tid.x; mov.u32 base, sm; add.u32 bar, base, 1024;\n"
        "setp.ne.u32 ok, tid, 0; @ok bra WAIT;\n"
        "mbarrier.init.shared::cta.b64 [bar], 1;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;\n"
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
        "[base], [m, {0, 0}], [bar];\n"
        "WAIT: bar.sync 0;\n"
        "W: mbarrier.try_wait.parity.shared::cta.b64 ok, [bar], 0; @!ok bra W;\n"
        "setp.eq.u32 skips, tid, s; @skips bra OUT;\n"
        "shl.b32 v, tid, 2; add.u32 v, v, base; ld.shared.u32 v, [v];\n"
        "mul.wide.u32 off, tid, 4; add.u64 off, off, p; st.global.u32 [off], v;\n"
        "OUT: ret; }\n";

    (void)state;
    for (unsigned policy = 0; policy < 3; policy++)
        for (uint32_t skip = 76; skip < 78; skip++) {
            uint8_t map[TMAP_BYTES];
            struct emu e;

            emu_open(&e, policy, 1);
            const uint64_t global = emu_alloc(&e, 512), out = emu_alloc(&e, 512);
            const struct mem_block *b = mem_find(e.mem, global);
            const struct tmap_request request = {
                .type = 2, .rank = 2, .address = global, .dim = dim, .stride = stride, .box = box,
                .element_stride = ones, .swizzle = 2,
            };
            assert_null(tmap_encode(&request, 90, map));
            valid_fill(b->valid, 0, 512, true);
            /* element (12, 4): 64-byte swizzle moves chunk 3 of row 4 to 3 ^ 2 = 1: word 68 */
            valid_put(b->valid, 4 * (16 * 4 + 12) + 2, 1, 0);
            emu_load(&e, text);
            const uint64_t values[] = { emu_put(&e, map, sizeof map), out, skip == 76 ? 68 : skip };
            const bool ran = emu_run(&e, "k", &(struct emu_launch){ .grid = { 1 },
                                     .block = { 128 }, .smem = 2048 }, 3, values);
            assert_int_equal(ran, skip == 76);
            assert_int_equal(e.trap.kind, ran ? TRAP_NONE : TRAP_UNDEFINED);
            emu_close(&e);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads),
        cmocka_unit_test(stores),
        cmocka_unit_test(undefined),
    };

    return cmocka_run_group_tests_name("emu/box", tests, NULL, NULL);
}
