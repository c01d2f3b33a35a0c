// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * src/fit/step_validate.c on rows that the evaluator itself made: anchors take most of a constant
 * factor out and score none of their own rows, impossible rows are refused by name, and an
 * interrupt leaves what is done.
 */
#include "fit/step_validate.h"
#include "p6.h"

enum { ROWS = 12 };

static struct measured_step rows[ROWS];
static struct geometry geometry;

/* Layouts by pipeline; measured `factor` times as long as predicted. */
static void make_row(size_t i, const char *model, double factor) {
    static const int stages[] = {1, 2, 4, 8};
    struct point p;
    p6_predict(&p, &geometry, estimator_default(),
               (struct mesh){.tp = 1,
                             .cp = 1,
                             .pp = stages[i % 4],
                             .vpp = 1,
                             .ep = 8,
                             .etp = 1,
                             .micro_batch = 1,
                             .recompute = RECOMPUTE_FULL});
    rows[i] = (struct measured_step){.id = "row",
                                     .model = model,
                                     .gpu = "gpu",
                                     .cluster_name = "cluster",
                                     .row = i + 1,
                                     .geometry = geometry,
                                     .cluster = p6.cluster,
                                     .calibration = &p6.calibration,
                                     .engine = &p6.engine,
                                     .workload = p6.workload,
                                     .mesh = p.mesh,
                                     .split = p.split,
                                     .layout = i,
                                     .layout_rows = 1,
                                     .step_time_s = factor * p.out.step_time_s};
}

static int make_rows(void **state) {
    if (p6_load(state) != 0)
        return -1;
    geometry = ladder(8, 32, 2, 4);
    return 0;
}

static struct step_validation *validate(size_t count, const struct validate_options *options) {
    const struct measured_steps steps = {
        .count = count, .rows = count, .layouts = count, .items = rows};
    struct step_validation *v = NULL;
    struct status_error err = {0};
    if (step_validation_run(&steps, options, &v, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return v;
}

static void test_anchors(void **state) {
    (void)state;
    const struct validate_options options = {.generic = &p6.calibration, .anchors = 1};
    for (size_t i = 0; i < ROWS; i++)
        make_row(i, i < 4 ? "a" : i < 8 ? "b" : "c", i < 4 ? 1.25 : i < 8 ? 0.8 : 1.0);
    rows[6].layout = rows[4].layout; /* another row of the anchor */
    struct step_validation *const v = validate(11, &options);
    assert_int_equal(v->count, 11);
    assert_int_equal(v->datasheet_count, 11);
    assert_int_equal(v->refused_count, 0);
    assert_int_equal(v->anchored.groups, 3);
    assert_int_equal(v->anchored.anchor_rows, 1 + 2 + 1);
    assert_int_equal(v->anchored.after.rows, 3 + 2 + 2);
    /* n steps leave w^2 / (n b^2 + w^2) of ln(measured / predicted). */
    const double b2 = 0.12 * 0.12, w2 = 0.11 * 0.11;
    const double left_a = 1.0 - pow(1.25, -w2 / (b2 + w2));
    const double left_b = pow(0.8, -w2 / (2 * b2 + w2)) - 1.0;
    assert_close(p6.calibration.scalar[CAL_ANCHOR_BETWEEN], 0.12, 1e-12);
    assert_close(p6.calibration.scalar[CAL_ANCHOR_WITHIN], 0.11, 1e-12);
    assert_close(v->anchored.after.mape, (3 * left_a + 2 * left_b) / 7, 1e-9);
    assert_close(v->anchored.before.mape, (3 * 0.2 + 2 * 0.25) / 7, 1e-12);
    step_validation_free(v);
}

/* A job with no more layouts than anchors scores nothing. */
static void test_all_are_anchors(void **state) {
    (void)state;
    const struct validate_options options = {.anchors = 4};
    for (size_t i = 0; i < 4; i++)
        make_row(i, "a", 1.25);
    struct step_validation *const v = validate(4, &options);
    assert_int_equal(v->anchored.groups, 0);
    assert_int_equal(v->anchored.after.rows, 0);
    assert_int_equal(v->datasheet_count, 0);
    step_validation_free(v);
}

static void test_impossible(void **state) {
    (void)state;
    const struct validate_options options = {.generic = NULL};
    for (size_t i = 0; i < 3; i++)
        make_row(i, "a", 1.0);
    rows[0].step_time_s *= measured_step_mfu(&rows[0]) * 1.001;
    rows[1].step_time_s *= measured_step_mfu(&rows[1]) / 1.01;
    rows[2].step_time_s = 0;
    assert_close(measured_step_mfu(&rows[0]), 1 / 1.001, 1e-9);
    struct step_validation *const v = validate(3, &options);
    assert_int_equal(v->count, 1);
    assert_int_equal(v->refused_count, 2);
    assert_ptr_equal(v->refused[0].step, &rows[1]);
    assert_non_null(strstr(v->refused[0].reason, "MFU 1.01 is above 1"));
    assert_non_null(strstr(v->refused[0].reason, "likely causes"));
    assert_non_null(strstr(v->refused[1].reason, "step_time_s"));
    step_validation_free(v);
}

static void test_implausible_prediction(void **state) {
    (void)state;
    const struct validate_options options = {.generic = &p6.calibration};
    static struct calibration broken;
    broken = p6.calibration;
    make_row(0, "a", 1.0);
    rows[0].calibration = &broken;
    broken.scalar[CAL_STRAGGLER] = (double)NAN;
    struct step_validation *const v = validate(1, &options);
    assert_int_equal(v->count, 0);
    assert_int_equal(v->refused_count, 1);
    assert_non_null(strstr(v->refused[0].reason, "prediction implausible: MFU"));
    step_validation_free(v);
}

static void test_interrupt(void **state) {
    (void)state;
    atomic_bool stop;
    atomic_init(&stop, true);
    const struct validate_options options = {.anchors = 1, .stop = &stop};
    make_row(0, "a", 1.0);
    struct step_validation *const v = validate(1, &options);
    assert_true(v->stopped);
    assert_int_equal(v->count, 0);
    step_validation_free(v);
    step_validation_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anchors),    cmocka_unit_test(test_all_are_anchors),
        cmocka_unit_test(test_impossible), cmocka_unit_test(test_implausible_prediction),
        cmocka_unit_test(test_interrupt),
    };
    return cmocka_run_group_tests(tests, make_rows, NULL);
}
