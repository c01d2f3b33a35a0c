// SPDX-License-Identifier: GPL-3.0-or-later
/* What counts as drift: by value, by place, by spread, by tolerance; curves of other abscissae. */
#include "close.h"

#include "measure/drift.h"

#include <stdlib.h>
#include <string.h>

static struct calibration *was, *now;
static struct calibrate_settings settings;

static int set_up(void **state) {
    (void)state;
    was = calloc(1, sizeof *was);
    now = calloc(1, sizeof *now);
    if (!was || !now)
        return -1;
    calibration_init(was);
    calibration_init(now);
    calibrate_settings_init(&settings);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(was);
    free(now);
    return 0;
}

static void scalar(struct calibration *c, enum scalar id, double value) {
    c->scalar[id] = value;
    c->scalar_origin[id] = ORIGIN_CALIBRATED;
}

static void curve(struct calibration *c, const double *x, const double *y, size_t count) {
    struct status_error err = {0};
    assert_int_equal(curve_build(&c->curve[0], CURVE_STEFFEN, x, y, count, &err), MOSAIC_OK);
    c->has_curve[0] = true;
}

static struct drift find(const struct sample *old, size_t old_count, const struct sample *new,
                         size_t new_count) {
    const struct drift_side sides[] = {{was, old, old_count}, {now, new, new_count}};
    struct status_error err = {0};
    struct drift drift;
    if (drift_find(&sides[0], &sides[1], &settings, &drift, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return drift;
}

/* The verdict on the only entry. */
static enum drift_verdict verdict(double *at) {
    struct drift drift = find(NULL, 0, NULL, 0);
    assert_int_equal(drift.count, 1);
    const enum drift_verdict found = drift.rows[0].verdict;
    assert_int_equal(drift.drifted, found == DRIFT_CHANGED || found == DRIFT_MISSING);
    if (at)
        *at = drift.rows[0].at;
    drift_free(&drift);
    return found;
}

static void test_scalars(void **state) {
    (void)state;
    scalar(was, CAL_HBM_SHARE, 0.8);
    assert_int_equal(verdict(NULL), DRIFT_MISSING);
    scalar(now, CAL_HBM_SHARE, 0.8);
    assert_int_equal(verdict(NULL), DRIFT_SAME);
    now->scalar[CAL_HBM_SHARE] = 0.8 * 1.04;
    assert_int_equal(verdict(NULL), DRIFT_SAME);
    now->scalar[CAL_HBM_SHARE] = 0.8 * 0.94;
    assert_int_equal(verdict(NULL), DRIFT_CHANGED);
    was->scalar_origin[CAL_HBM_SHARE] = ORIGIN_GENERIC;
    assert_int_equal(verdict(NULL), DRIFT_NEW);
}

/* A constant that was nought has no share to change by. */
static void test_nought(void **state) {
    (void)state;
    scalar(was, CAL_GEMM_HALF_SIZE, 0.0);
    scalar(now, CAL_GEMM_HALF_SIZE, 0.0);
    assert_int_equal(verdict(NULL), DRIFT_SAME);
    now->scalar[CAL_GEMM_HALF_SIZE] = 100.0;
    assert_int_equal(verdict(NULL), DRIFT_CHANGED);
}

static void test_same_curve(void **state) {
    /* The resampled curve does not give back what turns so fast; the samples are the same. */
    static const double x[] = {1, 1.5, 2, 3, 1e6}, y[] = {1, 9, 1, 9, 2};
    (void)state;
    curve(was, x, y, 5);
    curve(now, x, y, 5);
    settings.tolerance = 0.0;
    assert_int_equal(verdict(NULL), DRIFT_SAME);
}

static void test_other_places(void **state) {
    static const double x[] = {1, 100, 10000}, y[] = {1, 10, 20};
    /* Finer, and between the old samples: the same machine. */
    static const double x_fine[] = {1, 3, 10, 30, 100, 1000, 10000};
    static const double fine[] = {1, 2, 8, 9.9, 10, 19, 20};
    /* A dip where the old one has no sample, and a rise. */
    static const double dip[] = {1, 2, 0.5, 9.9, 10, 19, 20};
    static const double rise[] = {1, 2, 8, 9.9, 10, 30, 30};
    double at = 0.0;
    (void)state;
    curve(was, x, y, 3);
    curve(now, x_fine, fine, 7);
    assert_int_equal(verdict(NULL), DRIFT_SAME);
    curve(now, x_fine, dip, 7);
    assert_int_equal(verdict(&at), DRIFT_CHANGED);
    assert_close(at, 10.0, 1e-12);
    curve(now, x_fine, rise, 7);
    assert_int_equal(verdict(&at), DRIFT_CHANGED);
    /* And the other way round. */
    curve(was, x_fine, dip, 7);
    curve(now, x, y, 3);
    assert_int_equal(verdict(&at), DRIFT_CHANGED);
    assert_close(at, 10.0, 1e-12);
}

static void test_other_ranges(void **state) {
    static const double low[] = {1, 10}, high[] = {20, 40}, wide[] = {0.1, 1, 10, 1000};
    static const double y[] = {1, 2}, y_wide[] = {9, 1, 2, 50};
    (void)state;
    /* Flat ends are no measurement: only what both measured counts. */
    curve(was, low, y, 2);
    curve(now, wide, y_wide, 4);
    assert_int_equal(verdict(NULL), DRIFT_SAME);
    curve(was, wide, y_wide, 4);
    curve(now, low, y, 2);
    assert_int_equal(verdict(NULL), DRIFT_SAME);
    /* Nothing of the old one was measured again. */
    curve(was, low, y, 2);
    curve(now, high, y, 2);
    assert_int_equal(verdict(NULL), DRIFT_MISSING);
}

static struct sample stream(long long bytes, double median, double half_range) {
    return (struct sample){.quantity = SAMPLE_STREAM,
                           .value = {0, bytes},
                           .median_s = median,
                           .least_s = median * (1.0 - half_range),
                           .most_s = median * (1.0 + half_range),
                           .rounds = 5};
}

static void test_spread(void **state) {
    const struct sample quiet[] = {stream(1, 1, 0), stream(2, 2, 0), stream(3, 3, 0)};
    const struct sample loud[] = {stream(1, 1, 0.2), stream(2, 2, 0.2), stream(4, 4, 0.2)};
    (void)state;
    scalar(was, CAL_HBM_SHARE, 0.8);
    scalar(now, CAL_HBM_SHARE, 0.8 * 0.9);
    /* Rounds without a spread leave the tolerance. */
    struct drift drift = find(quiet, 3, quiet, 3);
    assert_int_equal(drift.rows[0].verdict, DRIFT_CHANGED);
    assert_close(drift.rows[0].limit, settings.tolerance, 1e-12);
    assert_int_equal(drift.samples[SAMPLE_STREAM].both, 3);
    drift_free(&drift);
    drift = find(quiet, 3, loud, 3);
    assert_int_equal(drift.rows[0].verdict, DRIFT_SAME);
    assert_close(drift.rows[0].limit, 0.2, 1e-9);
    assert_int_equal(drift.samples[SAMPLE_STREAM].both, 2);
    drift_free(&drift);
    /* No sample in common says nothing of noise. */
    drift = find(quiet + 2, 1, loud, 3);
    assert_int_equal(drift.rows[0].verdict, DRIFT_CHANGED);
    assert_int_equal(drift.samples[SAMPLE_STREAM].both, 0);
    drift_free(&drift);
    /* A tolerance of its own goes before the spread. */
    struct status_error err = {0};
    assert_int_equal(calibrate_settings_put(&settings, "tolerance.hbm.share=1 %", &err), MOSAIC_OK);
    drift = find(quiet, 3, loud, 3);
    assert_int_equal(drift.rows[0].verdict, DRIFT_CHANGED);
    drift_free(&drift);
}

static void test_unknown_tolerance(void **state) {
    const struct drift_side sides[] = {{was, NULL, 0}, {now, NULL, 0}};
    struct drift drift;
    struct status_error err = {0};
    (void)state;
    scalar(was, CAL_HBM_SHARE, 0.8);
    scalar(now, CAL_HBM_SHARE, 0.8);
    /* Known, though neither has it. */
    assert_int_equal(calibrate_settings_put(&settings, "tolerance.gemm.bf16.share=1 %", &err),
                     MOSAIC_OK);
    assert_int_equal(calibrate_settings_put(
                         &settings, "tolerance.all_reduce over 16 ranks, 8 in a domain=1 %", &err),
                     MOSAIC_OK);
    assert_int_equal(verdict(NULL), DRIFT_SAME);
    static const char *const bad[] = {"all_reduse over 16 ranks, 8 in a domain",
                                      "all_reduce over 16 ranks, 8 a domain",
                                      "all_reduce over some ranks, 8 in a domain"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        struct calibrate_settings other = settings;
        char text[96];
        (void)snprintf(text, sizeof text, "tolerance.%s=1 %%", bad[i]);
        assert_int_equal(calibrate_settings_put(&other, text, &err), MOSAIC_OK);
        assert_int_equal(drift_find(&sides[0], &sides[1], &other, &drift, &err), MOSAIC_USAGE);
    }
    assert_int_equal(calibrate_settings_put(&settings, "tolerance.hbm.shar=1 %", &err), MOSAIC_OK);
    assert_int_equal(drift_find(&sides[0], &sides[1], &settings, &drift, &err), MOSAIC_USAGE);
    assert_non_null(strstr(err.message, "'hbm.shar'"));
    assert_non_null(strstr(err.hint, "'hbm.share'"));
}

static void test_nothing(void **state) {
    (void)state;
    struct drift drift = find(NULL, 0, NULL, 0);
    assert_int_equal(drift.count, 0);
    assert_int_equal(drift.drifted, 0);
    drift_free(&drift);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scalars, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nought, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_curve, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_ranges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_spread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_tolerance, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
