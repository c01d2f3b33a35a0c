// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a fit says about itself: singular values, standard errors, labels, shares, quality;
 * hold-out, groups and forms against each other; the fit as a law that plans.
 */
#include "fit/crossval.h"
#include "fit_case.h"
#include "law/optimum.h"

static struct fit_report report_of(const struct fit_data *data, const struct fit *fit) {
    struct fit_report report;
    struct status_error err;
    if (fit_report_make(data, fit, &report, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return report;
}

/* Singular values of d ln L / d ln theta and bounds on the errors, as computed elsewhere for this
 * design at the published law. */
static void sensitivities_of_the_published_design(void **state) {
    static const double singular[] = {23.8, 1.15, .61,  .36,  .095, .041,
                                      .026, .015, .015, .005, .004};
    static const double error_at_0078[] = {.124, .22, .66,  .72, .40, .101,
                                           .058, .52, .109, .22, .136};
    (void)state;
    struct run_table *table = load("mosaic_synth_noiseless.csv", NULL, NULL);
    struct fit_data *data = data_of(FORM_MOSAIC, table);
    const struct fit fit = fit_squares(data);
    const struct fit_report report = report_of(data, &fit);
    for (size_t k = 0; k < 11; k++)
        assert_close(report.singular[k], singular[k], k < 7 ? .03 : .1);
    assert_close(report.condition, 6e3, .1);
    /* .0078 nats at a mean loss of 2.2 nats */
    double mean_loss = 0;
    for (size_t i = 0; i < data->count; i++)
        mean_loss += exp(data->rows[i].log_loss) / (double)data->count;
    for (size_t i = 0; i < 11; i++) {
        const double relative = report.coefficient[i].error / report.coefficient[i].value;
        assert_close(relative * (.0078 / mean_loss) / report.sigma, error_at_0078[i], .08);
    }
    /* The weakest direction: c and lambda against each other, e with them. */
    const double *w = report.weakest[0];
    assert_true(w[2] * w[7] < 0);
    assert_true(fabs(w[2]) > .2);
    fit_data_free(data);
    run_table_free(table);
}

static void quality_of_the_noisy_table(void **state) {
    (void)state;
    struct run_table *table = load("mosaic_synth_s0078.csv", NULL, NULL);
    struct fit_data *data = data_of(FORM_MOSAIC, table);
    const struct fit fit = fit_squares(data);
    const struct fit_report report = report_of(data, &fit);
    assert_true(report.has_quality);
    assert_close_abs(report.r2, .99877, 3e-4);
    assert_close(report.rms_log, sqrt(.0020882285 / 151), 1e-6);
    assert_close(report.sigma, sqrt(.0020882285 / 140), 1e-6);
    assert_close(report.rms_loss, .0078, .1);
    assert_close(report.aic, 151 * log(.0020882285 / 151) + 24, 1e-6);
    double sum = 0, nats = 0;
    for (size_t k = 0; k < 5; k++) {
        const struct fit_share *share = &report.share[k];
        assert_true(share->low > 0 && share->low <= share->mean && share->mean <= share->high);
        sum += share->mean;
        nats += share->nats;
    }
    assert_close(sum, 1.0, 1e-12);
    assert_close_abs(nats, 2.2, .3);
    /* Which coefficients can be used. */
    static const enum fit_label want[] = {
        [0] = FIT_IDENTIFIED, [2] = FIT_RIDGE, [3] = FIT_RIDGE,     [5] = FIT_IDENTIFIED,
        [6] = FIT_IDENTIFIED, [7] = FIT_RIDGE, [8] = FIT_IDENTIFIED};
    static const size_t sure[] = {0, 2, 3, 5, 6, 7, 8};
    for (size_t i = 0; i < sizeof sure / sizeof sure[0]; i++)
        assert_int_equal(report.coefficient[sure[i]].label, want[sure[i]]);
    assert_string_equal(fit_label_text(report.coefficient[2].label), "ridge");
    fit_data_free(data);
    run_table_free(table);
}

/* Covariance of a fit that is linear in ln theta: standard errors of a straight line. */
static void errors_equal_linear_regression(void **state) {
    enum { N = 40 };
    static struct run runs[N];
    struct fit_options options;
    struct status_error err;
    double mean = 0, spread = 0, squares = 0;
    (void)state;
    for (size_t i = 0; i < N; i++) {
        const double x = (double)i / N;
        runs[i] =
            (struct run){.row = i + 1,
                         .weight = 1,
                         .point = {.n_total = 1e8 * exp(5 * x), .n_active = 1e8, .tokens = 1e9},
                         .loss = 8 * exp(-.2 * 5 * x) * exp(.01 * sin(37 * x))};
        mean += log(runs[i].point.n_total) / N;
    }
    struct fit_data *data = data_of_runs(FORM_CHINCHILLA, runs, N);
    fit_options_init(&options);
    assert_int_equal(fit_options_fix(&options, data->form, "E", 0, &err), MOSAIC_OK);
    assert_int_equal(fit_options_fix(&options, data->form, "B", 0, &err), MOSAIC_OK);
    const struct fit fit = fit_with(data, &options);
    const struct fit_report report = report_of(data, &fit);
    assert_int_equal(fit.parameters, 2);
    for (size_t i = 0; i < N; i++) {
        const double away = log(runs[i].point.n_total) - mean;
        const double r = log(runs[i].loss) - log(fit.coefficient[0]) +
                         fit.coefficient[3] * log(runs[i].point.n_total);
        spread += away * away;
        squares += r * r;
    }
    const double sigma = sqrt(squares / (N - 2));
    assert_close(report.sigma, sigma, 1e-9);
    assert_close(report.coefficient[3].error, sigma / sqrt(spread), 1e-7);
    assert_close(report.coefficient[0].error,
                 fit.coefficient[0] * sigma * sqrt(1.0 / N + mean * mean / spread), 1e-7);
    assert_int_equal(report.coefficient[1].label, FIT_DROPPED);
    fit_data_free(data);
}

/* Errors of a robust fit would be wrong: none are given. */
static void robust_fits_have_no_errors(void **state) {
    (void)state;
    struct run_table *table = load("olmo_ladder_c4.csv", NULL, NULL);
    struct fit_data *data = data_of(FORM_CHINCHILLA, table);
    const struct fit fit = fit_huber(data, 1e-3);
    const struct fit_report report = report_of(data, &fit);
    for (size_t i = 0; i < 5; i++)
        assert_false(report.coefficient[i].has_error);
    fit_data_free(data);
    run_table_free(table);
}

static void clark_has_errors_too(void **state) {
    (void)state;
    struct run_table *table = load("clark2022_final.csv", "_K1_rf0.5", "S-Base|Dense");
    struct fit_data *data = data_of(FORM_CLARK, table);
    const struct fit fit = fit_squares(data);
    const struct fit_report report = report_of(data, &fit);
    for (size_t i = 0; i < 6; i++) {
        assert_true(report.coefficient[i].has_error);
        assert_true(report.coefficient[i].error > 0);
    }
    assert_int_equal(report.coefficient[0].label, FIT_IDENTIFIED);
    assert_true(report.r2 > .99);
    fit_data_free(data);
    run_table_free(table);
}

/* ---- hold-out ---- */

static void largest_runs_of_each_granularity_are_held(void **state) {
    (void)state;
    struct run_table *table = load("mosaic_synth_s0078.csv", NULL, NULL);
    struct fit_data *data = data_of(FORM_MOSAIC, table);
    bool is_held[200];
    struct fit_options options;
    struct held_out result;
    const size_t count = hold_largest(data, CROSSVAL_SHARE, is_held);
    assert_in_range(count, 12, 15);
    for (size_t i = 0; i < data->count; i++)
        for (size_t k = 0; k < data->count; k++)
            if (is_held[i] && !is_held[k] &&
                fabs(data->points[i].granularity - data->points[k].granularity) < 1e-9)
                assert_true(data->points[i].n_active >= data->points[k].n_active);
    fit_options_init(&options);
    options.starts = 16;
    must(hold_out(data, &options, pool, is_held, &result, &said));
    assert_true(result.is_fitted);
    assert_int_equal(result.fitted + result.held, 151);
    /* .0102 nats held out against .0078 in sample, at losses of about 2 nats */
    assert_in_range((int)(result.rms_log * 1e5), 250, 800);
    assert_true(result.worst_log >= result.rms_log && fabs(result.mean_log) <= result.rms_log);
    assert_true(is_held[result.worst_row - 1]);
    memset(is_held, 0, sizeof is_held);
    assert_int_equal(hold_out(data, &options, pool, is_held, &result, &said), MOSAIC_BAD_INPUT);
    fit_data_free(data);
    run_table_free(table);
}

static void each_granularity_is_predicted_by_the_others(void **state) {
    (void)state;
    struct run_table *table = load("mosaic_synth_noiseless.csv", NULL, NULL);
    struct fit_data *data = data_of(FORM_MOSAIC, table);
    struct fit_options options;
    struct held_out results[8];
    size_t group[200];
    const size_t groups = groups_by_variable(data, FORM_G, group);
    assert_in_range(groups, 3, 8);
    fit_options_init(&options);
    options.starts = 12;
    must(leave_groups_out(data, &options, pool, group, groups, results, &said));
    size_t held = 0;
    for (size_t g = 0; g < groups; g++) {
        assert_true(results[g].is_fitted);
        assert_true(results[g].worst_log < 1e-6);
        held += results[g].held;
    }
    assert_int_equal(held, 151);
    fit_data_free(data);
    run_table_free(table);
}

/* ---- forms ---- */

static void the_true_form_wins(void **state) {
    static const enum form_kind kinds[] = {FORM_CHINCHILLA, FORM_MOSAIC_NO_G, FORM_MOSAIC,
                                           FORM_KRAJEWSKI};
    (void)state;
    struct run_table *table = load("mosaic_synth_s0078.csv", NULL, NULL);
    struct fit_options options;
    struct contestant results[4];
    fit_options_init(&options);
    options.starts = 12;
    must(compare_forms(table, kinds, 4, &options, pool, results, &said));
    for (size_t k = 0; k < 4; k++)
        assert_true(results[k].is_fitted);
    assert_close_abs(results[2].delta_aic, 0, 0);
    for (size_t k = 0; k < 4; k++)
        if (k != 2) {
            assert_true(results[k].delta_aic > 20);
            assert_true(results[k].rms_log > results[2].rms_log);
            assert_true(results[k].held.rms_log > results[2].held.rms_log);
        }
    run_table_free(table);

    /* A dense table has no experts for Abnar's form, and three rows are too few for any. */
    struct run_table *dense = load("olmo_ladder_c4.csv", NULL, NULL);
    for (size_t i = 0; i < dense->rows; i++) {
        dense->runs[i].point.experts = 0;
        if (i > 2)
            dense->runs[i].fate = RUN_EXCLUDED;
    }
    static const enum form_kind two[] = {FORM_ABNAR, FORM_CHINCHILLA};
    must(compare_forms(dense, two, 2, &options, pool, results, &said));
    assert_false(results[0].is_fitted);
    assert_non_null(strstr(results[0].why_not, "K/E"));
    assert_false(results[1].is_fitted);
    assert_non_null(strstr(results[1].why_not, "undetermined"));
    run_table_free(dense);
}

/* ---- laws ---- */

/* T7 through the fit: boundary and interior of the law given back by the noiseless table. */
static void the_fit_plans_as_the_law(void **state) {
    (void)state;
    struct run_table *table = load("mosaic_synth_noiseless.csv", NULL, NULL);
    struct fit_data *data = data_of(FORM_MOSAIC, table);
    const struct fit fit = fit_squares(data);
    struct law law;
    struct law_optimum best;
    struct status_error err;
    assert_int_equal(fit_to_law(data, &fit, "mine", &law, &err), MOSAIC_OK);
    assert_string_equal(law.name, "mine");
    assert_close_abs(law.sparsity.max, .981, 2e-3);
    assert_close(law.granularity.max, 8.0, 0);
    assert_int_equal(law_optimum_bounded(&law, 3.3e21, 4, .5, .985, &best, &err), MOSAIC_OK);
    assert_true(best.at_bound);
    assert_close_abs(best.loss, 1.5991, 5e-5);
    assert_int_equal(law_optimum_free(&law, 3.3e21, 4, &best, &err), MOSAIC_OK);
    assert_close_abs(best.point.sparsity, .9942, 5e-4);
    assert_int_equal(law_optimum_free(&law, 3.3e21, 1, &best, &err), MOSAIC_OK);
    assert_close_abs(best.point.sparsity, .9725, 5e-4);
    fit_data_free(data);
    run_table_free(table);
}

/* T9: lambda < 0 is taken, and has no interior optimum. */
static void abnars_law_has_no_interior_optimum(void **state) {
    enum { N = 120 };
    static struct run runs[N];
    struct law law;
    struct law_optimum best;
    struct status_error err;
    (void)state;
    for (size_t i = 0; i < N; i++) {
        struct form_point *p = &runs[i].point;
        *p = (struct form_point){.n_total = 2e8 * pow(1.7, (double)(i * 7 % 11)),
                                 .tokens = 2e9 * pow(1.6, (double)(i * 5 % 9)),
                                 .granularity = 1,
                                 .experts = 2 << i % 7,
                                 .top_k = 1};
        p->n_active = p->n_total / p->experts;
    }
    make_losses(FORM_ABNAR, published_abnar, runs, N);
    struct fit_data *data = data_of_runs(FORM_ABNAR, runs, N);
    const struct fit fit = fit_squares(data);
    assert_close(coefficient(&fit, "lambda"), -.1666, 1e-4);
    assert_int_equal(fit_to_law(data, &fit, "abnar", &law, &err), MOSAIC_OK);
    assert_int_equal(law_optimum_free(&law, 3.3e21, 1, &best, &err), MOSAIC_OK);
    assert_true(best.at_bound);
    assert_close_abs(best.point.sparsity, LAW_OPTIMUM_SPARSEST, 1e-9);
    fit_data_free(data);
}

static void some_forms_do_not_plan(void **state) {
    (void)state;
    struct run_table *table = load("clark2022_final.csv", "_K1_rf0.5", "Hash|Dense");
    struct fit_data *data = data_of(FORM_CLARK, table);
    const struct fit fit = fit_squares(data);
    struct law law;
    struct status_error err;
    assert_int_equal(fit_to_law(data, &fit, "x", &law, &err), MOSAIC_BAD_INPUT);
    fit_data_free(data);
    /* Without a data term there is no best number of tokens. */
    data = data_of(FORM_MOSAIC_NO_G, table);
    const struct fit other = fit_squares(data);
    assert_int_equal(fit_to_law(data, &other, "x", &law, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "does not fall with tokens"));
    fit_data_free(data);
    run_table_free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sensitivities_of_the_published_design),
        cmocka_unit_test(quality_of_the_noisy_table),
        cmocka_unit_test(errors_equal_linear_regression),
        cmocka_unit_test(robust_fits_have_no_errors),
        cmocka_unit_test(clark_has_errors_too),
        cmocka_unit_test(largest_runs_of_each_granularity_are_held),
        cmocka_unit_test(each_granularity_is_predicted_by_the_others),
        cmocka_unit_test(the_true_form_wins),
        cmocka_unit_test(the_fit_plans_as_the_law),
        cmocka_unit_test(abnars_law_has_no_interior_optimum),
        cmocka_unit_test(some_forms_do_not_plan),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
