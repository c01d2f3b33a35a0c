// SPDX-License-Identifier: GPL-3.0-or-later
/* Goodput against figures worked by hand, and input that makes no sense. */
#include "plan/budget.h"

#include "close.h"

#include <string.h>

enum { HOUR = 3600, DAY = 24 * HOUR };

static double goodput(double mtbf_s, double interval_s, double checkpoint_s, double restart_s,
                      int nodes) {
    struct status_error err;
    double result = -1.0;
    if (budget_goodput(mtbf_s, interval_s, checkpoint_s, restart_s, nodes, &result, &err) !=
        MOSAIC_OK)
        fail_msg("%s", err.message);
    return result;
}

static void by_hand(void **state) {
    (void)state;
    /* Nothing stops: 60 s of every hour go into checkpoints. */
    assert_close(goodput(1e18, HOUR, 60.0, 0.0, 1), 1.0 - 1.0 / 60.0, 1e-12);
    assert_close(goodput(1e18, HOUR, 0.0, 0.0, 1), 1.0, 1e-12);
    /* 100 nodes that fail every 100 days: one failure a day, half an hour lost and half an hour of
     * restart: 23/24. */
    assert_close(goodput(100.0 * DAY, HOUR, 0.0, 1800.0, 100), 23.0 / 24.0, 1e-12);
    /* Both: (1 - 1/20) (1 - (15 min + 15 min) x 32 / (64 h)). */
    assert_close(goodput(64.0 * HOUR, 1800.0, 90.0, 900.0, 32), 0.95 * 0.75, 1e-12);
    /* One failure more costs more. */
    assert_true(goodput(50.0 * DAY, HOUR, 0.0, 1800.0, 100) <
                goodput(100.0 * DAY, HOUR, 0.0, 1800.0, 100));
}

static void refused(double mtbf_s, double interval_s, double checkpoint_s, double restart_s,
                    int nodes, const char *word) {
    struct status_error err;
    double result = 0.25;
    assert_int_equal(
        budget_goodput(mtbf_s, interval_s, checkpoint_s, restart_s, nodes, &result, &err),
        MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, word));
    assert_close_abs(result, 0.25, 0.0); /* untouched */
}

static void nonsense(void **state) {
    (void)state;
    const double bad[] = {0.0, -1.0, (double)NAN};
    for (size_t i = 0; i < 3; ++i) {
        refused(bad[i], HOUR, 60.0, 60.0, 1, "mtbf_per_node");
        refused(DAY, bad[i], 60.0, 60.0, 1, "checkpoint_interval");
        if (i > 0) {
            refused(DAY, HOUR, bad[i], 60.0, 1, "checkpoint_time");
            refused(DAY, HOUR, 60.0, bad[i], 1, "restart_time");
        }
    }
    refused(DAY, HOUR, 60.0, 60.0, 0, "mtbf_per_node");
    refused(DAY, HOUR, HOUR, 60.0, 1, "no work gets done");
    refused(DAY, HOUR, 2.0 * HOUR, 60.0, 1, "no work gets done");
    refused(DAY, HOUR, 60.0, 60.0, 48, "no work gets done"); /* 1860 s lost 48 times a day */
    refused(DAY, HOUR, 60.0, (double)INFINITY, 1, "no work gets done");
    refused(DAY, HOUR, (double)INFINITY, 60.0, 1, "no work gets done");
    refused(DAY, (double)INFINITY, 60.0, 60.0, 1, "no work gets done");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
