// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * src/fit/step_fit.c, step_cross.c, step_constants.c on rows that the evaluator itself made with
 * known constants: found again without noise, in spite of gross outliers, inside their ranges, and
 * no further than the rows tell.
 */
#include "fit/step_fit.h"
#include "p6.h"

#include <gsl/gsl_errno.h>

enum { ROWS = 160, MODELS = 8 };

static const char *const models[MODELS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
static struct measured_step rows[ROWS];
static struct calibration truth[2]; /* by architecture */
static struct step_fit fit, other;

/* The truth that rows are made with; a search starts elsewhere. */
static const struct step_constant known[] = {
    {CAL_GEMM_SHARE_BF16, STEP_ARCHITECTURE, NULL, 0.5, 0.5, (double)INFINITY, 0.1, 0.99},
    {CAL_ATTENTION_SHARE, STEP_ARCHITECTURE, NULL, 0.3, 0.3, (double)INFINITY, 0.05, 0.95},
    {CAL_HBM_SHARE, STEP_ARCHITECTURE, NULL, 0.5, 0.5, (double)INFINITY, 0.1, 0.99},
    {CAL_EP_EXPOSED, STEP_SHARED, NULL, 0.5, 0.5, (double)INFINITY, 0.05, 1},
    {CAL_GEMM_SUSTAINED, STEP_DEVICE, "two-b", 1, 1, (double)INFINITY, 0.3, 1.5},
};
enum { KNOWN = sizeof known / sizeof *known, FITTED = 3 * 2 + 1 + 1 };
static const double values[KNOWN][2] = {
    {0.62, 0.71}, {0.44, 0.58}, {0.71, 0.83}, {0.83, 0.83}, {0.9, 0.9}};

static void set_truth(struct calibration *c, const struct measured_step *step) {
    *c = *step->calibration;
    const size_t side = strcmp(step->architecture, "two") == 0;
    for (size_t k = 0; k < KNOWN; k++)
        if (!known[k].only || strcmp(known[k].only, step->cluster.device.name) == 0)
            c->scalar[known[k].scalar] = values[k][side];
    step_constants_follow(c);
}

static void measure(struct measured_step *step, const struct calibration *c) {
    struct prediction p;
    measured_step_predict(step, c, &p);
    step->step_time_s = p.step_time_s;
}

static void make_row(size_t i) {
    static const char *const devices[2][2] = {{"one-a", "one-b"}, {"two-a", "two-b"}};
    struct measured_step *const step = &rows[i];
    struct sample s;
    do
        random_sample(&s, estimator_default());
    while (s.at.mesh.pp > 16);
    *step = (struct measured_step){.id = "row",
                                   .model = models[i % MODELS],
                                   .gpu = "gpu",
                                   .fabric = "ib",
                                   .row = i + 1,
                                   .architecture = i % 2 ? "two" : "one",
                                   .geometry = s.geometry,
                                   .cluster = s.cluster,
                                   .calibration = &p6.calibration,
                                   .engine = &p6.engine,
                                   .workload = s.workload,
                                   .mesh = s.at.mesh,
                                   .split = s.at.split,
                                   .layout = i,
                                   .layout_rows = 1};
    step->workload.precision = PRECISION_BF16;
    (void)strcpy(step->cluster.device.name, devices[i % 2][i / 2 % 2]);
    set_truth(&truth[i % 2], step);
    measure(step, &truth[i % 2]);
}

static int make_rows(void **state) {
    (void)gsl_set_error_handler_off();
    if (p6_load(state) != 0)
        return -1;
    /* No curve and no graph hides the constants. */
    p6.calibration.has_curve[CAL_ATTENTION_CURVE] = false;
    p6.calibration.collective_count = 0;
    for (size_t i = 0; i < ROWS; i++)
        make_row(i);
    return 0;
}

static struct measured_steps all(size_t count) {
    return (struct measured_steps){.count = count, .rows = count, .layouts = count, .items = rows};
}

static void run(const struct measured_steps *steps, const struct step_constant *constants,
                size_t count, int threads, struct step_fit *out) {
    struct status_error err = {0};
    const struct step_fit_options options = {.threads = threads};
    if (step_fit_run(steps, NULL, constants, count, &options, out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

static const struct step_parameter *find(const struct step_fit *f, enum scalar scalar,
                                         const char *where) {
    for (size_t j = 0; j < f->parameters; j++)
        if (f->parameter[j].constant->scalar == scalar && strcmp(f->parameter[j].where, where) == 0)
            return &f->parameter[j];
    fail_msg("no constant %d at '%s'", (int)scalar, where);
    return NULL;
}

static void expect_truth(const struct step_fit *f, double tolerance) {
    for (size_t k = 0; k < KNOWN; k++) {
        const bool is_shared = known[k].scope == STEP_SHARED;
        for (size_t side = 0; side < 2; side++) {
            const char *const where = is_shared       ? ""
                                      : known[k].only ? known[k].only
                                      : side          ? "two"
                                                      : "one";
            assert_close(find(f, known[k].scalar, where)->value, values[k][side], tolerance);
        }
    }
}

static void test_known_constants_come_back(void **state) {
    (void)state;
    const struct measured_steps steps = all(ROWS);
    run(&steps, known, KNOWN, 1, &fit);
    assert_int_equal(fit.parameters, FITTED);
    assert_true(fit.converged);
    expect_truth(&fit, 1e-3);
    assert_string_equal(fit.parameter[0].where, "one");
    assert_string_equal(fit.parameter[1].where, "two");
    for (size_t j = 0; j < fit.parameters; j++) {
        assert_false(fit.parameter[j].at_bound);
        assert_true(fit.parameter[j].rows > 0);
        assert_true(fit.parameter[j].standard_error > 0 && fit.parameter[j].standard_error < 0.02);
        for (size_t k = 0; k < fit.parameters; k++)
            assert_true(fit.covariance[j][k] == fit.covariance[k][j]);
    }
}

/* One row in twenty is two to four times off. */
static void test_outliers_do_not_pull(void **state) {
    (void)state;
    double kept[ROWS];
    const struct measured_steps steps = all(ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        kept[i] = rows[i].step_time_s;
        if (i % 20 == 7)
            rows[i].step_time_s *= i % 40 == 7 ? 3 : 0.4;
        else
            rows[i].step_time_s *= 1 + 0.01 * ((double)random_below(201) / 100 - 1);
    }
    run(&steps, known, KNOWN, 1, &fit);
    for (size_t i = 0; i < ROWS; i++)
        rows[i].step_time_s = kept[i];
    assert_true(fit.converged);
    expect_truth(&fit, 0.08);
    for (size_t j = 0; j < 2; j++)
        assert_close(fit.parameter[j].value, values[0][j], 0.03);
}

static void test_threads_change_nothing(void **state) {
    (void)state;
    const struct measured_steps steps = all(ROWS);
    memset(&fit, 0, sizeof fit);
    memset(&other, 0, sizeof other);
    run(&steps, known, KNOWN, 1, &fit);
    run(&steps, known, KNOWN, 5, &other);
    assert_int_equal(fit.iterations, other.iterations);
    assert_memory_equal(&fit.objective, &other.objective, sizeof fit.objective);
    assert_memory_equal(fit.covariance, other.covariance, sizeof fit.covariance);
    for (size_t j = 0; j < fit.parameters; j++)
        assert_memory_equal(&fit.parameter[j].value, &other.parameter[j].value, sizeof(double));
}

static void test_ranges_hold(void **state) {
    (void)state;
    struct step_constant bounded[KNOWN];
    const struct measured_steps steps = all(ROWS);
    memcpy(bounded, known, sizeof bounded);
    bounded[0].most = 0.65; /* below the truth of "two" only */
    run(&steps, bounded, KNOWN, 1, &fit);
    assert_false(find(&fit, CAL_GEMM_SHARE_BF16, "one")->at_bound);
    const struct step_parameter *const edge = find(&fit, CAL_GEMM_SHARE_BF16, "two");
    assert_true(edge->at_bound && edge->value == 0.65 && edge->standard_error == 0);
    for (size_t k = 0; k < fit.parameters; k++)
        assert_true(fit.covariance[1][k] == 0);
    assert_true(fit.converged);
    for (size_t j = 0; j < fit.parameters; j++)
        assert_true(fit.parameter[j].value >= fit.parameter[j].constant->least &&
                    fit.parameter[j].value <= fit.parameter[j].constant->most);
}

static void test_prior_holds_what_no_row_tells(void **state) {
    (void)state;
    struct step_constant wanted[KNOWN + 2];
    const struct measured_steps steps = all(ROWS);
    memcpy(wanted, known, sizeof known);
    wanted[KNOWN] = (struct step_constant){
        CAL_GEMM_SHARE_NVFP4, STEP_ARCHITECTURE, "two", 0.6, 0.5, 0.2, 0.1, 0.99};
    wanted[KNOWN + 1] = (struct step_constant){CAL_GEMM_SHARE_FP8, STEP_SHARED, NULL, 0.6, 0.5,
                                               (double)INFINITY,   0.1,         0.9};
    run(&steps, wanted, KNOWN + 2, 1, &fit);
    const struct step_parameter *const unseen = find(&fit, CAL_GEMM_SHARE_NVFP4, "two");
    assert_close(unseen->value, 0.5, 1e-6);
    assert_close(unseen->standard_error, 0.2, 1e-9);
    assert_int_equal(unseen->rows, 0);
    assert_false(unseen->at_bound);
    /* Without a prior: where it started, as uncertain as its range is wide. */
    const struct step_parameter *const free = find(&fit, CAL_GEMM_SHARE_FP8, "");
    assert_close(free->value, 0.6, 1e-12);
    assert_close(free->standard_error, log(9), 1e-9);
    expect_truth(&fit, 1e-3);
}

static void test_strong_prior_wins(void **state) {
    (void)state;
    struct step_constant held[KNOWN];
    const struct measured_steps steps = all(ROWS);
    memcpy(held, known, sizeof held);
    held[0].prior = 0.5;
    held[0].prior_sd = 1e-5;
    run(&steps, held, KNOWN, 1, &fit);
    assert_close(find(&fit, CAL_GEMM_SHARE_BF16, "one")->value, 0.5, 1e-3);
    held[0].prior_sd = 10;
    run(&steps, held, KNOWN, 1, &fit);
    assert_close(find(&fit, CAL_GEMM_SHARE_BF16, "one")->value, 0.62, 1e-3);
}

static void test_no_rows_and_one_row(void **state) {
    (void)state;
    struct status_error err = {0};
    const struct measured_steps none = all(0), one = all(1), steps = all(ROWS);
    const bool unused[ROWS] = {false};
    struct step_constant held[KNOWN];
    double predicted[1];
    assert_int_equal(step_fit_run(&none, NULL, known, KNOWN, NULL, &fit, &err), MOSAIC_BAD_INPUT);
    assert_int_equal(step_fit_run(&steps, unused, known, KNOWN, NULL, &fit, &err),
                     MOSAIC_BAD_INPUT);
    assert_int_equal(step_fit_cross(&none, 5, known, KNOWN, NULL, predicted, &err),
                     MOSAIC_BAD_INPUT);
    assert_int_equal(step_fit_cross(&one, 1, known, KNOWN, NULL, predicted, &err), MOSAIC_USAGE);
    memcpy(held, known, sizeof held);
    for (size_t k = 0; k < KNOWN; k++)
        held[k].prior_sd = 0.2;
    run(&one, held, KNOWN, 1, &fit);
    assert_true(fit.converged);
    for (size_t j = 0; j < fit.parameters; j++)
        assert_true(isfinite(fit.parameter[j].value) &&
                    fit.parameter[j].standard_error <= 0.2 * (1 + 1e-9));
    /* Held out, it is predicted by the priors. */
    assert_int_equal(step_fit_cross(&one, 0, held, KNOWN, NULL, predicted, &err), MOSAIC_OK);
    assert_true(predicted[0] > 0);
}

static void test_unusable_rows_are_named(void **state) {
    (void)state;
    struct status_error err = {0};
    const struct measured_steps steps = all(3);
    const double kept = rows[1].step_time_s;
    rows[1].step_time_s = 0;
    assert_int_equal(step_fit_run(&steps, NULL, known, KNOWN, NULL, &fit, &err), MOSAIC_BAD_INPUT);
    rows[1].step_time_s = kept;
    assert_non_null(strstr(err.message, "row 2"));
}

static void test_stop_ends_it(void **state) {
    (void)state;
    struct status_error err = {0};
    const struct measured_steps steps = all(ROWS);
    const atomic_bool stop = true;
    const struct step_fit_options options = {.threads = 1, .stop = &stop};
    assert_int_equal(step_fit_run(&steps, NULL, known, KNOWN, &options, &fit, &err),
                     MOSAIC_INTERRUPTED);
}

static void test_apply_lays_over(void **state) {
    (void)state;
    static struct calibration c;
    const struct measured_steps steps = all(ROWS);
    run(&steps, known, KNOWN, 1, &fit);
    step_fit_apply(&fit, &rows[3], &c); /* two-b */
    assert_string_equal(rows[3].cluster.device.name, "two-b");
    assert_true(c.scalar[CAL_GEMM_SUSTAINED] == find(&fit, CAL_GEMM_SUSTAINED, "two-b")->value);
    assert_true(c.scalar_origin[CAL_GEMM_SUSTAINED] == ORIGIN_CALIBRATED);
    assert_true(c.scalar[CAL_HBM_SHARE] == find(&fit, CAL_HBM_SHARE, "two")->value);
    step_fit_apply(&fit, &rows[1], &c); /* two-a */
    assert_true(c.scalar[CAL_GEMM_SUSTAINED] == p6.calibration.scalar[CAL_GEMM_SUSTAINED]);
}

/* A layout's rows leave together, and a constant of a model left out comes from the others. */
static void test_held_out_rows_are_predicted(void **state) {
    (void)state;
    static double predicted[ROWS], again[ROWS];
    struct status_error err = {0};
    const struct measured_steps steps = all(ROWS);
    const struct step_fit_options options = {.threads = 2};
    const int folds[] = {5, 0};
    for (size_t f = 0; f < 2; f++) {
        assert_int_equal(step_fit_cross(&steps, folds[f], known, KNOWN, &options, predicted, &err),
                         MOSAIC_OK);
        for (size_t i = 0; i < ROWS; i++)
            assert_close(predicted[i], rows[i].step_time_s, 5e-3);
    }
    assert_int_equal(step_fit_cross(&steps, 0, known, KNOWN, NULL, again, &err), MOSAIC_OK);
    assert_memory_equal(predicted, again, sizeof again);
}

static void test_cross_uses_nothing_of_the_fold(void **state) {
    (void)state;
    static double clean[ROWS], bent[ROWS];
    struct status_error err = {0};
    const struct measured_steps steps = all(ROWS);
    assert_int_equal(step_fit_cross(&steps, 0, known, KNOWN, NULL, clean, &err), MOSAIC_OK);
    for (size_t i = 0; i < ROWS; i += MODELS)
        rows[i].step_time_s *= 2; /* the first model */
    assert_int_equal(step_fit_cross(&steps, 0, known, KNOWN, NULL, bent, &err), MOSAIC_OK);
    for (size_t i = 0; i < ROWS; i += MODELS)
        rows[i].step_time_s /= 2;
    for (size_t i = 0; i < ROWS; i += MODELS)
        assert_true(clean[i] == bent[i]);
}

static void test_shipped_choice_is_sound(void **state) {
    (void)state;
    assert_true(step_constant_count > 0 && step_constant_count <= 32);
    for (size_t k = 0; k < step_constant_count; k++) {
        const struct step_constant *const c = &step_constants[k];
        const struct scalar_info *const info = calibration_scalar_info(c->scalar);
        assert_true(c->least > 0 && c->least >= info->min && c->most <= info->max);
        assert_true(c->start >= c->least && c->start <= c->most);
        assert_true(c->prior_sd > 0);
        for (size_t j = 0; j < k; j++)
            assert_false(step_constants[j].scalar == c->scalar &&
                         (!step_constants[j].only || !c->only ||
                          strcmp(step_constants[j].only, c->only) == 0));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_constants_come_back),
        cmocka_unit_test(test_outliers_do_not_pull),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_ranges_hold),
        cmocka_unit_test(test_prior_holds_what_no_row_tells),
        cmocka_unit_test(test_strong_prior_wins),
        cmocka_unit_test(test_no_rows_and_one_row),
        cmocka_unit_test(test_unusable_rows_are_named),
        cmocka_unit_test(test_stop_ends_it),
        cmocka_unit_test(test_apply_lays_over),
        cmocka_unit_test(test_held_out_rows_are_predicted),
        cmocka_unit_test(test_cross_uses_nothing_of_the_fold),
        cmocka_unit_test(test_shipped_choice_is_sound),
    };
    return cmocka_run_group_tests(tests, make_rows, NULL);
}
