// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Fits of real tables against reference minima found elsewhere: Epoch's reading of Chinchilla,
 * Clark et al., Gadre et al., OLMo, Porian et al., StepLaw.
 */
#include "fit_case.h"

/* ---- T4 ---- */

static int compare_losses(const void *a, const void *b) {
    const struct run *const *p = a, *const *q = b;
    return ((*p)->loss < (*q)->loss) - ((*p)->loss > (*q)->loss);
}

/* Leaves out the highest losses, as the published fit does. */
static void exclude_highest(struct run_table *table, size_t count) {
    struct run **order = calloc(table->rows, sizeof *order);
    assert_non_null(order);
    for (size_t i = 0; i < table->rows; i++)
        order[i] = &table->runs[i];
    qsort(order, table->rows, sizeof *order, compare_losses);
    for (size_t i = 0; i < count; i++)
        order[i]->fate = RUN_EXCLUDED;
    free(order);
}

static void is_law(const struct fit *fit, double a, double b, double e, double alpha, double beta) {
    assert_close(coefficient(fit, "A"), a, .005);
    assert_close(coefficient(fit, "B"), b, .01);
    assert_close_abs(coefficient(fit, "E"), e, 1e-4);
    assert_close_abs(coefficient(fit, "alpha"), alpha, 1e-4);
    assert_close_abs(coefficient(fit, "beta"), beta, 1e-4);
    assert_true(fit->is_converged);
    assert_true(fit->reached * 10 >= fit->starts * 8);
}

static void epoch_without_the_five_highest(void **state) {
    (void)state;
    struct run_table *table =
        load_private("epoch_without_the_five_highest", "epoch_chinchilla.csv", NULL, NULL);
    exclude_highest(table, 5);
    struct fit_data *data = data_of(FORM_CHINCHILLA, table);
    assert_int_equal(data->count, 240);

    struct fit fit = fit_huber(data, 1e-3);
    is_law(&fit, 477.826, 2143.42, 1.81722, .34731, .36717);
    assert_close(fit.objective, 1.018274e-3, 1e-6);
    fit = fit_huber(data, 1e-2);
    is_law(&fit, 538.75, 2905.6, 1.83808, .35442, .38154);
    assert_close(fit.objective, 4.696225e-3, 1e-6);

    /* Least absolute deviations: the published coefficients. */
    fit = fit_huber(data, DESCEND_LAD_DELTA);
    is_law(&fit, 481.93, 2085.0, 1.81684, .34780, .36584);
    is_law(&fit, 482.01, 2085.43, 1.81686, .34781, .36585);
    double sum = 0;
    for (size_t i = 0; i < data->count; i++)
        sum += fabs(fit_residual_of(data, &fit, i));
    assert_close(sum / (double)data->count, .00470623, 1e-6);

    fit = fit_squares(data);
    is_law(&fit, 593.32, 4875.6, 1.86455, .36025, .40588);
    assert_close(ssr(&fit), .01146189, 1e-6);

    struct fit_options options;
    fit_options_init(&options);
    options.measure.is_plain = true;
    fit = fit_with(data, &options);
    is_law(&fit, 567.81, 7581.7, 1.88281, .35762, .42762);
    assert_close(ssr(&fit), .0832038, 2e-6);
    fit_data_free(data);
    run_table_free(table);
}

static void epoch_with_all_points(void **state) {
    (void)state;
    struct run_table *table =
        load_private("epoch_with_all_points", "epoch_chinchilla.csv", NULL, NULL);
    struct fit_data *data = data_of(FORM_CHINCHILLA, table);
    assert_int_equal(data->count, 245);
    struct fit fit = fit_huber(data, 1e-3);
    is_law(&fit, 495.73, 12845.6, 1.89134, .34931, .45305);
    assert_close(fit.objective, 1.826011e-3, 1e-6);
    fit = fit_squares(data);
    is_law(&fit, 749.5, 3.705e5, 1.99183, .37210, .61205);
    assert_close(ssr(&fit), .0709904, 1e-6);
    fit_data_free(data);
    run_table_free(table);
}

/* ---- T5 ---- */

static void clark_bilinear(void **state) {
    static const struct {
        const char *source;
        double a, b, c, d, max, rms_log10;
    } want[] = {{"S-Base|Dense", -.0830, -.1180, .0099, 1.1136, 238.7, .00323},
                {"RL-R|Dense", -.0827, -.1234, .0112, 1.1070, 470.05, .00323},
                {"Hash|Dense", -.0874, -.1384, .0126, 1.1595, 427.3, .00298}};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct run_table *table = load("clark2022_final.csv", "_K1_rf0.5", want[k].source);
        struct fit_data *data = data_of(FORM_CLARK, table);
        const struct fit fit = fit_squares(data);
        assert_close_abs(coefficient(&fit, "a"), want[k].a, .002);
        assert_close_abs(coefficient(&fit, "b"), want[k].b, .02);
        assert_close_abs(coefficient(&fit, "c"), want[k].c, .002);
        assert_close_abs(coefficient(&fit, "d"), want[k].d, .02);
        assert_close(coefficient(&fit, "E_max"), want[k].max, .3);
        assert_close(sqrt(ssr(&fit) / (double)fit.rows) / log(10), want[k].rms_log10, .01);
        assert_true(fit.reached >= 30);
        fit_data_free(data);
        run_table_free(table);
    }
}

static void is_fit_of_clark(struct run_table *table, enum form_kind kind, double want) {
    struct fit_data *data = data_of(kind, table);
    const struct fit fit = fit_squares(data);
    assert_close(ssr(&fit), want, 1e-4);
    assert_true(has_said("the floor term vanished: e = 0 fits best"));
    assert_close_abs(coefficient(&fit, "e"), 0, 0);
    assert_true(fit.is_converged);
    fit_data_free(data);
    run_table_free(table);
}

static void mosaic_form_on_clark(void **state) {
    static const struct {
        const char *source;
        double ssr;
    } want[] = {{"S-Base|Dense", 4.4513e-4}, {"RL-R|Dense", 6.9269e-4}, {"Hash|Dense", 1.17574e-3}};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct run_table *table = load("clark2022_final.csv", "_K1_rf0.5", want[k].source);
        is_fit_of_clark(table, FORM_MOSAIC_NO_G, want[k].ssr);
        assert_true(has_said("the data term is dropped: D is 1.3"));
        assert_true(has_said("e holds it"));
        assert_false(has_said("beta"));
    }
    struct run_table *table = load("clark2022_final.csv", "_K1_rf0.5", want[0].source);
    is_fit_of_clark(table, FORM_MOSAIC, want[0].ssr);
    assert_true(has_said("eta is dropped: G is 1 in all runs"));
}

static void mosaic_form_on_clarks_curves(void **state) {
    static const struct {
        const char *source;
        double ssr;
        size_t rows;
    } want[] = {{"S-Base|Dense", 9.98410e-3, 245},
                {"RL-R|Dense", .0102531, 248},
                {"Hash|Dense", .0104836, 236}};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct run_table *table = load_private(
            "mosaic_form_on_clarks_curves", "clark2022_curves50k.csv", "_K1_rf0.5", want[k].source);
        assert_int_equal(table->of_fate[RUN_USED], want[k].rows);
        is_fit_of_clark(table, FORM_MOSAIC_NO_G, want[k].ssr);
        assert_int_equal(has_said("the size term vanished: a = 0 fits best"), k == 2);
    }
}

/* ---- T6 ---- */

static void is_chinchilla(struct run_table *table, double want_ssr, double want_huber) {
    struct fit_data *data = data_of(FORM_CHINCHILLA, table);
    struct fit fit = fit_squares(data);
    assert_close(ssr(&fit), want_ssr, 1e-5);
    assert_true(fit.reached >= 30 && fit.is_converged);
    if (want_huber > 0) {
        fit = fit_huber(data, 1e-3);
        assert_close(fit.objective, want_huber, 1e-5);
        assert_true(fit.reached >= 30 && fit.is_converged);
    }
    fit_data_free(data);
    run_table_free(table);
}

static void gadre_on_three_corpora(void **state) {
    (void)state;
    is_chinchilla(load("gadre_c4val.csv", NULL, "trained c4_original"), .0243509, 5.29954e-4);
    is_chinchilla(load("gadre_c4val.csv", NULL, "trained rpj"), .0239212, 4.26511e-4);
    is_chinchilla(load("gadre_c4val.csv", NULL, "trained rw_original"), .0192844, 4.75726e-4);
}

static void olmo_ladder(void **state) {
    (void)state;
    is_chinchilla(load("olmo_ladder_c4.csv", NULL, NULL), 8.16831e-4, 0);
}

/* The 16 runs of 190M to 1B at 1 to 10 times compute-optimal tokens predict those of 3B. */
static void olmo_ladder_predicts_3b(void **state) {
    static const char *const names[] = {"3B-1xC", "3B-5xC", "3B-10xC"};
    static const double off[] = {-.009, -.001, -.006};
    (void)state;
    struct run_table *table = load("olmo_ladder_c4.csv", NULL, NULL);
    for (size_t i = 0; i < table->rows; i++) {
        struct run *run = &table->runs[i];
        if (strstr(run->name, "3B") || strstr(run->name, "0.5xC") || strstr(run->name, "rerun"))
            run->fate = RUN_EXCLUDED;
    }
    struct fit_data *data = data_of(FORM_CHINCHILLA, table);
    const struct fit fit = fit_squares(data);
    assert_int_equal(fit.rows, 16);
    assert_close(ssr(&fit), 1.501596e-4, 1e-5);
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < table->rows; i++) {
            double x[FORM_VARIABLES];
            struct status_error err;
            if (strcmp(table->runs[i].name, names[k]) != 0)
                continue;
            assert_int_equal(form_variables(data->form, &table->runs[i].point, x, &err), MOSAIC_OK);
            assert_close_abs(exp(fit_log_loss(&fit, x)) / table->runs[i].loss - 1, off[k], 1e-3);
        }
    fit_data_free(data);
    run_table_free(table);
}

/* Under-trained points do not follow the form: the fit must still find its minimum. */
static void porian_below_5(void **state) {
    (void)state;
    struct run_table *table = load("porian_rw_tuned.csv", NULL, NULL);
    for (size_t i = 0; i < table->rows; i++)
        if (table->runs[i].loss >= 5)
            table->runs[i].fate = RUN_EXCLUDED;
    is_chinchilla(table, .172947, 0);
}

static void steplaw_dense(void **state) {
    (void)state;
    is_chinchilla(load_private("steplaw_dense", "steplaw_dense_best.csv", NULL, NULL), 2.28814e-4,
                  0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epoch_without_the_five_highest),
        cmocka_unit_test(epoch_with_all_points),
        cmocka_unit_test(clark_bilinear),
        cmocka_unit_test(mosaic_form_on_clark),
        cmocka_unit_test(mosaic_form_on_clarks_curves),
        cmocka_unit_test(gadre_on_three_corpora),
        cmocka_unit_test(olmo_ladder),
        cmocka_unit_test(olmo_ladder_predicts_3b),
        cmocka_unit_test(porian_below_5),
        cmocka_unit_test(steplaw_dense),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
