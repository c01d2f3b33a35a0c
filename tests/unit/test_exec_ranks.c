// SPDX-License-Identifier: GPL-3.0-or-later
/* Threads as ranks, their collectives, the counted memory and the stream of copies. */
#include "exec/copy_stream.h"
#include "exec/ranks.h"

#include "close.h"

#include <string.h>

static enum mosaic_status collectives(void *context, struct rank *rank, struct status_error *err) {
    (void)context;
    const int n = rank->count, me = rank->index;
    long most = (me * 7) % n;
    TRY(rank_max(rank, &most, err));
    long largest = 0;
    for (int i = 0; i < n; ++i)
        largest = (i * 7) % n > largest ? (i * 7) % n : largest;
    assert_int_equal(most, largest);
    long longs[3] = {me, 1, -me};
    TRY(rank_sum_longs(rank, longs, 3, err));
    assert_int_equal(longs[0], n * (n - 1) / 2);
    assert_int_equal(longs[1], n);
    assert_int_equal(longs[2], -longs[0]);
    float floats[2] = {0.1F * (float)me, 1.0F}, expected = 0.0F;
    for (int i = 0; i < n; ++i)
        expected += 0.1F * (float)i;
    TRY(rank_sum_floats(rank, floats, 2, err));
    assert_memory_equal(&floats[0], &expected, sizeof expected);
    int all[RANKS_MAX];
    TRY(rank_all_gather(rank, &me, sizeof me, all, err));
    for (int i = 0; i < n; ++i)
        assert_int_equal(all[i], i);
    int behind = -1;
    TRY(rank_shift(rank, n, &me, &behind, sizeof me, err));
    assert_int_equal(behind, (me + n - 1) % n);
    if (n % 2 == 0) {
        TRY(rank_shift(rank, 2, &me, &behind, sizeof me, err));
        assert_int_equal(behind, me ^ 1);
    }
    return rank_barrier(rank, err);
}

/* Rank i sends i + j bytes to rank j, in one buffer back to back. */
static enum mosaic_status exchanges(void *context, struct rank *rank, struct status_error *err) {
    (void)context;
    unsigned char send[RANKS_MAX * RANKS_MAX], receive[RANKS_MAX * RANKS_MAX];
    size_t bytes[RANKS_MAX], offsets[RANKS_MAX], used = 0;
    for (int j = 0; j < rank->count; ++j) {
        bytes[j] = (size_t)(rank->index + j);
        offsets[j] = used;
        memset(send + used, rank->index * 16 + j, bytes[j]);
        used += bytes[j];
    }
    const struct exchange exchange = {send, bytes, offsets, receive, bytes, offsets};
    for (int round = 0; round < 20; ++round) {
        memset(receive, 0xEE, sizeof receive);
        TRY(rank_all_to_all(rank, &exchange, err));
        for (int j = 0; j < rank->count; ++j)
            for (size_t k = 0; k < bytes[j]; ++k)
                assert_int_equal(receive[offsets[j] + k], j * 16 + rank->index);
    }
    return MOSAIC_OK;
}

static void every_collective(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 8};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
        assert_int_equal(ranks_run(counts[i], collectives, NULL, NULL, NULL, NULL), MOSAIC_OK);
        assert_int_equal(ranks_run(counts[i], exchanges, NULL, NULL, NULL, NULL), MOSAIC_OK);
    }
}

static enum mosaic_status one_fails(void *context, struct rank *rank, struct status_error *err) {
    const int failing = *(const int *)context;
    TRY(rank_barrier(rank, err));
    if (rank->index == failing)
        return status_set(err, MOSAIC_NUMERIC, "rank %d has had enough", rank->index);
    for (;;)
        TRY(rank_barrier(rank, err));
}

static void a_failure_ends_all(void **state) {
    (void)state;
    for (int failing = 0; failing < 4; ++failing) {
        struct status_error err = {0};
        assert_int_equal(ranks_run(4, one_fails, &failing, NULL, NULL, &err), MOSAIC_NUMERIC);
        char expected[64];
        (void)snprintf(expected, sizeof expected, "rank %d has had enough", failing);
        assert_string_equal(err.message, expected);
    }
    struct status_error err = {0};
    assert_int_equal(ranks_run(RANKS_MAX + 1, collectives, NULL, NULL, NULL, &err),
                     MOSAIC_BAD_INPUT);
}

static enum mosaic_status takes(void *context, struct rank *rank, struct status_error *err) {
    (void)err;
    void *const a = ledger_take(&rank->device, 100);
    void *const b = ledger_take(&rank->device, 50 * (size_t)rank->index);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(rank->device.live_bytes, 100 + 50 * (size_t)rank->index);
    ledger_give(&rank->device, a);
    void *const c = ledger_take(&rank->host, 7);
    ledger_give(&rank->host, c);
    ledger_give(&rank->host, NULL);
    ledger_give(&rank->device, b);
    (void)context;
    return MOSAIC_OK;
}

static void memory_is_counted(void **state) {
    (void)state;
    struct ledger devices[3], hosts[3];
    assert_int_equal(ranks_run(3, takes, NULL, devices, hosts, NULL), MOSAIC_OK);
    for (size_t i = 0; i < 3; ++i) {
        assert_int_equal(devices[i].live_bytes, 0);
        assert_int_equal(devices[i].peak_bytes, 100 + 50 * i);
        assert_int_equal(hosts[i].peak_bytes, 7);
    }
    struct ledger ledger = {0};
    assert_null(ledger_take(&ledger, SIZE_MAX - 8));
    assert_int_equal(ledger.peak_bytes, 0);
}

static void copies_run_in_order(void **state) {
    (void)state;
    enum { BLOCKS = 300 };
    static int from[BLOCKS], middle, to[BLOCKS];
    struct copy_stream *out = NULL, *back = NULL;
    assert_int_equal(copy_stream_create(&out, NULL), MOSAIC_OK);
    assert_int_equal(copy_stream_create(&back, NULL), MOSAIC_OK);
    copy_ticket written = 0;
    for (int i = 0; i < BLOCKS; ++i) {
        from[i] = i * i + 1;
        copy_stream_after(out, back, written);
        const copy_ticket sent = copy_stream_copy(out, &middle, &from[i], sizeof from[i]);
        copy_stream_after(back, out, sent);
        written = copy_stream_copy(back, &to[i], &middle, sizeof middle);
    }
    copy_stream_wait(back, written);
    assert_memory_equal(from, to, sizeof from);
    copy_stream_free(out);
    copy_stream_free(back);
    copy_stream_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective),
        cmocka_unit_test(a_failure_ends_all),
        cmocka_unit_test(memory_is_counted),
        cmocka_unit_test(copies_run_in_order),
    };
    return cmocka_run_group_tests_name("exec_ranks", tests, NULL, NULL);
}
