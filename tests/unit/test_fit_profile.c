// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Profile of the objective.  Least squares near its minimum is quadratic: at d standard errors the
 * sum of squares is (1 + d^2 / (n - p)) times the least one.
 */
#include "fit/profile.h"
#include "fit_case.h"

static void is_quadratic_near_the_minimum(enum form_kind kind, struct run_table *table) {
    struct profile profiles[FORM_MAX_COEFFICIENTS];
    struct fit_options options;
    struct status_error err;
    struct fit_report report;
    struct fit_data *data = data_of(kind, table);
    const struct fit fit = fit_squares(data);
    fit_options_init(&options);
    if (fit_report_make(data, &fit, &report, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    const size_t count = profile_run(data, &fit, &report, &options.limits, pool, profiles);
    const double freedom = (double)(fit.rows - fit.parameters);
    assert_true(count >= 3);
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at < PROFILE_POINTS; at++) {
            assert_true(profiles[i].is_known[at]);
            assert_true(profiles[i].objective[at] >= fit.objective * (1 - 1e-9));
        }
        for (int k = -1; k <= 1; k++) /* half a standard error to each side */
            assert_close_abs(profiles[i].objective[PROFILE_SIDE + k] / fit.objective - 1,
                             .25 * k * k / freedom, .05 / freedom);
    }
    fit_data_free(data);
    run_table_free(table);
}

static void sum_of_terms(void **state) {
    (void)state;
    is_quadratic_near_the_minimum(FORM_MOSAIC, load("mosaic_synth_s0078.csv", NULL, NULL));
}

/* Its coefficients share one frame; held one at a time they are those of the plain law. */
static void clark(void **state) {
    (void)state;
    is_quadratic_near_the_minimum(FORM_CLARK,
                                  load("clark2022_final.csv", "_K1_rf0.5", "S-Base|Dense"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_of_terms),
        cmocka_unit_test(clark),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
