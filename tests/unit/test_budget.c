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

/* ---- the best interval ---- */

static struct goodput checkpoints(const struct checkpointing *c, int nodes) {
    struct status_error err;
    struct goodput found = {0};
    if (budget_checkpoints(c, nodes, &found, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return found;
}

/* 100 nodes of 100 days, 2 min a checkpoint, no restart: sqrt(2 x 120 s x 1 day); then A = 1/2. */
static void best_by_hand(void **state) {
    (void)state;
    struct checkpointing c = {true, 100.0 * DAY, HOUR, 120.0, 0.0};
    assert_close(checkpoints(&c, 100).best_interval_s, sqrt(240.0 * DAY), 1e-12);
    assert_close(checkpoints(&c, 100).interval_s, (double)HOUR, 0.0);
    assert_close(checkpoints(&c, 100).value, goodput(100.0 * DAY, HOUR, 120.0, 0.0, 100), 0.0);
    c.restart_s = 0.5 * DAY;
    assert_close(checkpoints(&c, 100).best_interval_s, sqrt(120.0 * DAY), 1e-12);
    c.interval_s = 0.0; /* the best one */
    assert_close(checkpoints(&c, 100).interval_s, sqrt(120.0 * DAY), 1e-12);
    assert_close(checkpoints(&c, 100).value, checkpoints(&c, 100).best_value, 0.0);
}

/* No interval of a fine grid beats it; and it falls on both sides. */
static void nothing_beats_the_best(void **state) {
    (void)state;
    for (int nodes = 1; nodes <= 4096; nodes *= 8)
        for (double mtbf_s = 10.0 * DAY; mtbf_s < 1e4 * DAY; mtbf_s *= 10.0)
            for (double checkpoint_s = 0.1; checkpoint_s < 1000.0; checkpoint_s *= 10.0) {
                const struct checkpointing c = {true, mtbf_s, 0.0, checkpoint_s, 300.0};
                struct status_error err;
                struct goodput best;
                double other;
                if (budget_checkpoints(&c, nodes, &best, &err) != MOSAIC_OK)
                    continue;
                for (double i = 0.01; i < 100.0; i *= 1.01)
                    if (budget_goodput(mtbf_s, best.interval_s * i, checkpoint_s, 300.0, nodes,
                                       &other, &err) == MOSAIC_OK)
                        assert_true(other <= best.value * (1.0 + 1e-15));
                assert_close(best.value, best.best_value, 0.0);
            }
}

static void no_best(void **state) {
    (void)state;
    struct status_error err;
    struct goodput found = {.value = 0.25};
    struct checkpointing c = {true, DAY, 0.0, 0.0, 60.0}; /* the more often, the better */
    assert_int_equal(budget_checkpoints(&c, 1, &found, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "no best interval"));
    c.checkpoint_s = 60.0;
    c.restart_s = DAY; /* fails before it is up again */
    assert_int_equal(budget_checkpoints(&c, 1, &found, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "before a restart is over"));
    c.restart_s = 0.0;
    c.checkpoint_s = 3.0 * DAY; /* fails before it has saved anything */
    assert_int_equal(budget_checkpoints(&c, 1, &found, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "no work gets done"));
    assert_close_abs(found.value, 0.25, 0.0); /* untouched */
    c = (struct checkpointing){true, DAY, HOUR, 0.0, 60.0};
    assert_int_equal(budget_checkpoints(&c, 1, &found, &err), MOSAIC_OK);
    assert_close_abs(found.best_interval_s, 0.0, 0.0);
    assert_close_abs(found.best_value, 0.0, 0.0);
}

/* Days follow from GPU-hours, goodput from failures; 0 where none is left. */
static void resizing(void **state) {
    (void)state;
    struct budget b = {.seconds = 10.0 * DAY, .goodput = 0.9};
    budget_resize(&b, 7, 56);
    assert_close(b.seconds, 10.0 * DAY, 0.0);
    assert_close(b.goodput, 0.9, 0.0);
    b.gpu_hours = 24.0 * 64.0;
    b.checkpoints = (struct checkpointing){true, 64.0 * HOUR, 1800.0, 90.0, 900.0};
    budget_resize(&b, 32, 256);
    assert_close(b.seconds, 0.25 * DAY, 1e-15);
    assert_close(b.goodput, 0.95 * 0.75, 1e-12);
    budget_resize(&b, 128, 1024);
    assert_close_abs(b.goodput, 0.0, 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),      cmocka_unit_test(nonsense),
        cmocka_unit_test(best_by_hand), cmocka_unit_test(nothing_beats_the_best),
        cmocka_unit_test(no_best),      cmocka_unit_test(resizing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
