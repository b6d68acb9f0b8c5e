/* Every allocation of a run fails in turn: it says that memory is short, and nothing is used that was given back. Copies that have
 * nothing to do give back at once what they have. */
#include "emu_run.h"

#include "failing_memory.h"
#include "tmap.h"

/* Thread 0 loads a box of 32 x 8 words, into the CTAs of the mask, in up to four pieces; if there are any, its CTA stores it. */
static const char text[] = HEAD
    ".visible .entry k(.param .u64 map, .param .u64 mask, .param .u64 out) {\n"
    ".shared .align 128 .b8 box[1024]; .shared .align 8 .b64 bar;\n"
    ".reg .b16 to; .reg .b32 t, b, s, v; .reg .b64 m, o, w; .reg .pred p, q;\n"
    "mov.u32 t, %tid.x; mov.u32 b, bar; mov.u32 s, box; ld.param.u64 m, [map]; ld.param.u64 o, [out]; ld.param.u64 w, [mask];\n"
    "cvt.u16.u64 to, w; setp.ne.u32 p, t, 0; @p bra loaded;\n"
    "mbarrier.init.shared::cta.b64 [b], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 1024;\n"
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [s], [m, {0, 0}], [b], to;\n"
    "loaded: bar.sync 0; setp.eq.u64 p, w, 0; @p bra done;\n"
    "wait: mbarrier.try_wait.parity.shared::cta.b64 q, [b], 0; @!q bra wait;\n"
    "mul.lo.u32 b, t, 4; add.u32 s, s, b; ld.shared.u32 v, [s]; cvt.u64.u32 w, b; add.u64 o, o, w; st.global.u32 [o], v;\n"
    "done: ret; }\n";

struct load {
    struct emu e;
    uint64_t values[3];
    uint64_t out;
};

static void load_open(struct load *l, enum machine_policy policy, unsigned seed, uint64_t mask)
{
    const uint64_t dim[] = { 32, 8 }, stride[] = { 128 };
    const uint32_t box[] = { 32, 8 }, ones[] = { 1, 1 };
    static uint32_t words[32 * 8];
    uint8_t map[TMAP_BYTES];

    emu_open(&l->e, policy, seed);
    emu_load(&l->e, text);
    for (unsigned i = 0; i < 32 * 8; i++)
        words[i] = 3 * i;
    const struct tmap_request request = {
        .type = 2, .rank = 2, .address = emu_put(&l->e, words, sizeof words), .dim = dim, .stride = stride,
        .box = box, .element_stride = ones,
    };
    assert_null(tmap_encode(&request, 90, map));
    l->values[0] = emu_put(&l->e, map, sizeof map);
    l->values[1] = mask;
    l->values[2] = l->out = emu_alloc(&l->e, 1024);
}

static const struct emu_launch launch = { .grid = { 1 }, .block = { 256 }, .cluster = { 1 } };

static void nobody_to_load_for(void **state)
{
    (void)state;
    for (unsigned policy = 0; policy < 3; policy++)
        for (unsigned seed = 0; seed < 4; seed++) {
            struct load l;
            load_open(&l, policy, seed, 0);
            emu_must(&l.e, "k", &launch, 3, l.values);
            emu_close(&l.e);
        }
}

#ifdef FAILING_MEMORY

static void each_fails(void **state)
{
    (void)state;
    for (unsigned policy = 0; policy < 3; policy++)
        for (unsigned seed = 0; seed < 8; seed++) {
            bool done = false;
            unsigned traps = 0;
            for (long at = 0; !done; at++) {
                struct load l;
                assert_true(at < 1000);
                load_open(&l, policy, seed, 1);
                fails_at = at;
                const bool right = emu_run(&l.e, "k", &launch, 3, l.values);
                done = fails_at >= 0; /* there were not so many */
                fails_at = -1;
                if (!right)
                    assert_int_equal(l.e.trap.kind, TRAP_MEMORY);
                else
                    for (uint32_t i = 0; i < 256; i++)
                        assert_int_equal(((uint32_t *)emu_bytes(&l.e, l.out))[i], 3 * i);
                traps += !right;
                emu_close(&l.e);
            }
            assert_true(traps >= 5);
        }
}

#else
static void each_fails(void **state)
{
    (void)state;
    print_message("skipped: the allocator is not ours to replace\n");
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_to_load_for),
        cmocka_unit_test(each_fails),
    };

    return cmocka_run_group_tests_name("shortage", tests, NULL, NULL);
}
