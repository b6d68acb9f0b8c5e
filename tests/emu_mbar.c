/* The mbarrier state machine: phases, limits, and what lies beyond them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mbar.h"

static const struct mbar_actor who = {.cta = 1, .warp = 2, .lane = 3};

static int open_table(void **state)
{
    struct mbar_table *table = calloc(1, sizeof *table);

    *state = table;
    return table && mbar_table_open(table, 0x10000) ? 0 : -1;
}

static int close_table(void **state)
{
    mbar_table_close(*state);
    free(*state);
    return 0;
}

static enum mbar_result arrive(struct mbar_table *table, uint32_t count)
{
    return mbar_arrive(table, 0x400, 0, count, 0, &who, NULL);
}

static enum mbar_result arrive_expect(struct mbar_table *table, uint32_t bytes)
{
    return mbar_arrive(table, 0x400, MBAR_EXPECT, 1, bytes, &who, NULL);
}

static enum mbar_result expect(struct mbar_table *table, uint32_t bytes)
{
    return mbar_expect_tx(table, 0x400, bytes, &who);
}

static enum mbar_result complete(struct mbar_table *table, uint32_t bytes)
{
    return mbar_complete_tx(table, 0x400, bytes, &who);
}

static bool parity(struct mbar_table *table, uint32_t p)
{
    bool done = false;

    assert_int_equal(mbar_test_parity(table, 0x400, p, &done), MBAR_OK);
    return done;
}

static void phases(void **state)
{
    struct mbar_table *t = *state;

    assert_int_equal(mbar_init(t, 0x400, 2), MBAR_OK);
    assert_false(parity(t, 0));
    assert_true(parity(t, 1));          /* the producer's first lap */
    assert_true(parity(t, 3));          /* only bit 0 counts */
    assert_int_equal(arrive(t, 1), MBAR_OK);
    assert_false(parity(t, 0));
    assert_int_equal(arrive(t, 1), MBAR_COMPLETED);
    assert_true(parity(t, 0));
    assert_false(parity(t, 1));
    assert_int_equal(arrive(t, 2), MBAR_COMPLETED);
    assert_false(parity(t, 0));
    assert_int_equal(mbar_find(t, 0x400)->phase, 2);
    assert_int_equal(mbar_find(t, 0x400)->last_arrival.lane, 3);
}

static void transactions(void **state)
{
    struct mbar_table *t = *state;

    assert_int_equal(mbar_init(t, 0x400, 1), MBAR_OK);
    assert_int_equal(arrive_expect(t, 48), MBAR_OK);
    assert_int_equal(complete(t, 16), MBAR_OK);
    assert_int_equal(complete(t, 32), MBAR_COMPLETED);
    /* bytes before they are armed */
    assert_int_equal(complete(t, 100), MBAR_OK);
    assert_int_equal(mbar_find(t, 0x400)->tx, -100);
    assert_int_equal(arrive_expect(t, 100), MBAR_COMPLETED);
    /* arming without an arrival, then the arrival */
    assert_int_equal(expect(t, 8), MBAR_OK);
    assert_int_equal(complete(t, 8), MBAR_OK);
    assert_false(parity(t, 0));
    assert_int_equal(arrive(t, 1), MBAR_COMPLETED);
    /* more armed while no arrival is pending */
    assert_int_equal(arrive_expect(t, 8), MBAR_OK);
    assert_int_equal(expect(t, 8), MBAR_OK);
    assert_int_equal(complete(t, 16), MBAR_COMPLETED);
    /* more delivered than armed: no error, no completion */
    assert_int_equal(arrive_expect(t, 8), MBAR_OK);
    assert_int_equal(complete(t, 16), MBAR_OK);
    assert_int_equal(mbar_find(t, 0x400)->tx, -8);
    assert_int_equal(mbar_find(t, 0x400)->phase, 4);
}

static void limits(void **state)
{
    struct mbar_table *t = *state;

    assert_int_equal(mbar_init(t, 0x400, 0), MBAR_BAD_COUNT);
    assert_int_equal(mbar_init(t, 0x400, 1u << 20), MBAR_BAD_COUNT);
    assert_int_equal(arrive(t, 1), MBAR_NOT_INITIALISED);
    assert_int_equal(expect(t, 1), MBAR_NOT_INITIALISED);
    assert_int_equal(complete(t, 1), MBAR_NOT_INITIALISED);
    assert_int_equal(mbar_inval(t, 0x400), MBAR_NOT_INITIALISED);
    assert_int_equal(mbar_init(t, 0x400, MBAR_MAX_COUNT), MBAR_OK);
    assert_int_equal(arrive(t, 1u << 20), MBAR_BAD_COUNT);
    assert_int_equal(arrive(t, 0), MBAR_BAD_COUNT);
    assert_int_equal(arrive(t, MBAR_MAX_COUNT), MBAR_COMPLETED);
    assert_int_equal(expect(t, MBAR_MAX_TX), MBAR_OK);
    assert_int_equal(expect(t, 1), MBAR_TX_RANGE);
    assert_int_equal(complete(t, MBAR_MAX_TX), MBAR_OK);
    assert_int_equal(complete(t, MBAR_MAX_TX), MBAR_OK);
    assert_int_equal(complete(t, 1), MBAR_TX_RANGE);
    assert_int_equal(complete(t, UINT32_MAX), MBAR_TX_RANGE);
    assert_int_equal(expect(t, UINT32_MAX), MBAR_TX_RANGE);

    assert_int_equal(mbar_init(t, 0x400, 1), MBAR_OK);
    assert_int_equal(arrive(t, 2), MBAR_TOO_MANY_ARRIVALS);
    assert_int_equal(arrive_expect(t, 16), MBAR_OK);
    assert_int_equal(arrive(t, 1), MBAR_TOO_MANY_ARRIVALS);
    assert_int_equal(arrive_expect(t, 16), MBAR_TOO_MANY_ARRIVALS);
    assert_int_equal(mbar_find(t, 0x400)->tx, 16);
}

static void drop_and_no_complete(void **state)
{
    struct mbar_table *t = *state;
    uint64_t token = 0;

    assert_int_equal(mbar_init(t, 0x400, 3), MBAR_OK);
    assert_int_equal(mbar_arrive(t, 0x400, MBAR_DROP, 1, 0, &who, NULL), MBAR_OK);
    assert_int_equal(arrive(t, 2), MBAR_COMPLETED);
    assert_int_equal(arrive(t, 2), MBAR_COMPLETED);
    assert_int_equal(mbar_arrive(t, 0x400, MBAR_NO_COMPLETE, 2, 0, &who, &token),
                     MBAR_WOULD_COMPLETE);
    assert_int_equal(mbar_arrive(t, 0x400, MBAR_NO_COMPLETE, 1, 0, &who, &token), MBAR_OK);
    assert_int_equal(mbar_pending_count(token), 2);
    assert_int_equal(mbar_arrive(t, 0x400, MBAR_DROP, 1, 0, &who, &token), MBAR_COMPLETED);
    assert_int_equal(mbar_pending_count(token), 1);
    /* once more is fine and completes, a second time is too often */
    assert_int_equal(mbar_arrive(t, 0x400, MBAR_DROP, 1, 0, &who, NULL), MBAR_COMPLETED);
    assert_int_equal(mbar_arrive(t, 0x400, MBAR_DROP, 1, 0, &who, NULL), MBAR_TOO_MANY_ARRIVALS);
}

static void tokens(void **state)
{
    struct mbar_table *t = *state;
    uint64_t first = 0, second = 0;
    bool done = true;

    assert_int_equal(mbar_init(t, 0x400, 1), MBAR_OK);
    assert_int_equal(mbar_arrive(t, 0x400, MBAR_EXPECT, 1, 4, &who, &first), MBAR_OK);
    assert_int_equal(mbar_test_state(t, 0x400, first, &done), MBAR_OK);
    assert_false(done);
    assert_int_equal(complete(t, 4), MBAR_COMPLETED);
    assert_int_equal(mbar_test_state(t, 0x400, first, &done), MBAR_OK);
    assert_true(done);
    assert_int_equal(mbar_arrive(t, 0x400, MBAR_EXPECT, 1, 4, &who, &second), MBAR_OK);
    assert_int_equal(mbar_test_state(t, 0x400, second, &done), MBAR_OK);
    assert_false(done);
    assert_true(first != second);
}

static void pending_copies(void **state)
{
    struct mbar_table *t = *state;

    assert_int_equal(mbar_init(t, 0x400, 1), MBAR_OK);
    assert_int_equal(mbar_pend(t, 0x400), MBAR_OK);
    assert_int_equal(arrive(t, 1), MBAR_OK);
    assert_int_equal(arrive(t, 1), MBAR_COMPLETED);
    assert_int_equal(mbar_find(t, 0x400)->pending, 1);
    assert_int_equal(mbar_init(t, 0x400, MBAR_MAX_COUNT), MBAR_OK);
    assert_int_equal(mbar_pend(t, 0x400), MBAR_BAD_COUNT);
}

static void memory(void **state)
{
    struct mbar_table *t = *state;

    assert_null(mbar_overlap(t, 0, 0x10000));
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(mbar_init(t, 0x1000 + 16 * i, i + 1), MBAR_OK);
    assert_null(mbar_overlap(t, 0x1008, 8));
    assert_null(mbar_overlap(t, 0xff8, 8));
    assert_null(mbar_overlap(t, 0x1008, 0));
    assert_non_null(mbar_overlap(t, 0xff8, 9));
    assert_non_null(mbar_overlap(t, 0x1007, 1));
    assert_non_null(mbar_overlap(t, 0, UINT32_MAX));
    assert_null(mbar_overlap(t, UINT32_MAX, UINT32_MAX));
    assert_null(mbar_find(t, 0x1004));
    assert_null(mbar_find(t, UINT32_MAX & ~7u));
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(mbar_find(t, 0x1000 + 16 * i)->expected, i + 1);

    /* Invalidated: ordinary memory, but still a barrier until somebody writes there. */
    for (uint32_t i = 0; i < 100; i += 2)
        assert_int_equal(mbar_inval(t, 0x1000 + 16 * i), MBAR_OK);
    assert_int_equal(t->live, 50);
    assert_null(mbar_overlap(t, 0x1000, 8));
    assert_non_null(mbar_overlap(t, 0x1010, 8));
    assert_int_equal(mbar_arrive(t, 0x1000, 0, 1, 0, &who, NULL), MBAR_COMPLETED);
    assert_int_equal(mbar_inval(t, 0x1000), MBAR_OK);
    mbar_overwrite(t, 0x1007, 2);
    assert_int_equal(mbar_arrive(t, 0x1000, 0, 1, 0, &who, NULL), MBAR_NOT_INITIALISED);
    for (uint32_t i = 1; i < 100; i++)
        assert_int_equal(mbar_find(t, 0x1000 + 16 * i)->expected, i + 1);
    mbar_overwrite(t, 0, 0x10000);
    assert_int_equal(t->count, 50);
    for (uint32_t i = 1; i < 100; i += 2)
        assert_int_equal(mbar_find(t, 0x1000 + 16 * i)->expected, i + 1);
    /* init over a live barrier starts it anew */
    assert_int_equal(mbar_init(t, 0x1010, 7), MBAR_OK);
    assert_int_equal(t->live, 50);
    assert_int_equal(mbar_find(t, 0x1010)->pending, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(phases, open_table, close_table),
        cmocka_unit_test_setup_teardown(transactions, open_table, close_table),
        cmocka_unit_test_setup_teardown(limits, open_table, close_table),
        cmocka_unit_test_setup_teardown(drop_and_no_complete, open_table, close_table),
        cmocka_unit_test_setup_teardown(tokens, open_table, close_table),
        cmocka_unit_test_setup_teardown(pending_copies, open_table, close_table),
        cmocka_unit_test_setup_teardown(memory, open_table, close_table),
    };

    return cmocka_run_group_tests_name("emu/mbar", tests, NULL, NULL);
}
