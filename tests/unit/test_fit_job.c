// SPDX-License-Identifier: GPL-3.0-or-later
/* Fits from a file: outcomes, groups, settings, the written law, and the result tree. */
#include "doc/document.h"
#include "doc/save_law.h"
#include "fit/fit_settings.h"
#include "fit_case.h"
#include "report/build.h"
#include "report/result.h"
#include "schema_check.h"

#include <math.h>
#include <unistd.h>

static const char noisy[] = "configs/runs/mosaic_synth_s0078.csv";
static const char gadre[] = "configs/runs/gadre_c4val.csv";

static struct fit_job *job_of(const char *path, const struct fit_job_options *options) {
    struct fit_job *job = NULL;
    diag_init(&said);
    must(fit_job_run(path, NULL, options, pool, &job, &said));
    return job;
}

/* Neither held out nor drawn. */
static struct fit_job_options quick(enum form_kind form) {
    struct fit_job_options options;
    fit_job_options_init(&options);
    options.form = form;
    options.has_cross_validation = options.has_bootstrap = false;
    return options;
}

/* A table of its own in a file that the caller unlinks. */
static const char *file_of(const char *text) {
    static char path[64];
    (void)snprintf(path, sizeof path, "/tmp/mosaic-test-fit-job-%ld.csv", (long)getpid());
    FILE *const out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    return path;
}

static void test_whole_job(void **state) {
    (void)state;
    struct fit_job_options options;
    fit_job_options_init(&options);
    options.model_flops = 3.3e21;
    options.has_comparison = true;
    struct fit_job *const job = job_of(noisy, &options);
    assert_int_equal(job->outcome, FIT_DONE);
    assert_close(job->ssr_log, .0020882285, 1e-6);
    assert_int_equal(strlen(job->sha256), FIT_JOB_HASH_MAX - 1);
    assert_true(job->has_largest && job->largest.is_fitted);
    assert_string_equal(job->grouped_by, "granularity");
    size_t held = 0;
    for (size_t g = 0; g < job->group_count; g++) {
        held += job->groups[g].held.held;
        assert_int_equal(job->groups[g].held.held + job->groups[g].held.fitted, job->data->count);
    }
    assert_int_equal(held, job->data->count);
    assert_int_equal(job->form_count, FORM_KINDS);
    assert_true(job->forms[FORM_MOSAIC].is_fitted);
    assert_close_abs(job->forms[FORM_MOSAIC].delta_aic, 0, 1e-9);
    assert_true(job->forms[FORM_CHINCHILLA].delta_aic > 100);
    assert_close(job->granularity, 8.0, 1e-12);
    assert_true(job->bounded.is_found && job->free.is_found && job->free.has_draws);
    assert_true(job->free.best.loss < job->bounded.best.loss);
    assert_true(job->free.draws.sparsity.low < job->free.best.point.sparsity);
    fit_job_free(job);
}

static void test_groups(void **state) {
    (void)state;
    struct fit_job_options options = quick(FORM_CHINCHILLA);
    options.has_cross_validation = true;
    char text[4096] = "name,group,n_total,tokens,loss\n";
    for (int i = 0; i < 18; i++) {
        const double n = 1e8 * (1 + i % 6), d = 2e9 * (1 + (double)(i / 6));
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "r%d,%s,%g,%g,%.9f\n", i,
                       i < 6    ? "first"
                       : i < 12 ? "second"
                                : "third",
                       n, d, 1.7 + 406 / pow(n, .34) + 411 / pow(d, .28) + 1e-4 * (i % 5));
    }
    const char *const path = file_of(text);
    struct fit_job *const job = job_of(path, &options);
    (void)remove(path);
    assert_string_equal(job->grouped_by, "group");
    assert_int_equal(job->group_count, 3);
    assert_string_equal(job->groups[1].name, "second");
    assert_int_equal(job->groups[1].held.held, 6);
    fit_job_free(job);
}

static void test_undetermined(void **state) {
    (void)state;
    const struct fit_job_options options = quick(FORM_CHINCHILLA);
    const char *path = file_of("n_total,tokens,loss\n1e8,1e9,3.1\n2e8,2e9,2.9\n3e8,9e9,2.6\n");
    struct fit_job *job = job_of(path, &options);
    assert_int_equal(job->outcome, FIT_UNKNOWABLE);
    assert_false(job->has_fit);
    assert_true(has_said("3 different runs for the 5 coefficients"));
    struct status_error err;
    char *text = NULL;
    assert_int_equal(save_law(job, 1, &text, &err), MOSAIC_NUMERIC);
    assert_null(text);
    fit_job_free(job);
    /* Copies bring nothing: five different runs however often. */
    path = file_of("n_total,tokens,loss\n1e8,1e9,3.1\n2e8,1e9,2.9\n3e8,9e9,2.6\n1e8,4e9,2.8\n"
                   "5e8,2e9,2.7\n");
    job = job_of(path, &options);
    (void)remove(path);
    assert_int_equal(job->outcome, FIT_UNKNOWABLE);
    assert_true(!job->has_fit || !job->report.has_quality);
    fit_job_free(job);
}

static void test_stopped(void **state) {
    (void)state;
    atomic_bool stop = true;
    struct fit_job_options options;
    fit_job_options_init(&options);
    options.form = FORM_CHINCHILLA;
    options.stop = &stop;
    struct fit_job *const job = job_of(gadre, &options);
    assert_int_equal(job->outcome, FIT_STOPPED);
    assert_true(job->has_fit);
    assert_null(job->bootstrap);
    assert_false(job->has_largest);
    fit_job_free(job);
}

static void test_settings(void **state) {
    (void)state;
    static const char *const good[] = {
        "form=chinchilla", "loss=huber:1e-3", "count=all",      "fix=E=1.7",
        "filter=name=a|b", "starts=8",        "draws=300",      "bootstrap=residual",
        "comparison=on",   "at=3.3e21,4",     "filter=group=x", "cross_validation=off"};
    static const char *const bad[] = {
        "form",     "fomr=mosaic", "form=x",     "loss=huber:", "fix=E",      "fix==1",
        "fix=E=1e", "starts=0",    "draws=10",   "at=0",        "at=1e21,-1", "bootstrap=yes",
        "=",        "filter==a",   "starts=1.5", "comparison=1"};
    struct fit_settings s;
    struct status_error err;
    fit_settings_init(&s);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(fit_settings_put(&s, good[i], &err), MOSAIC_OK);
    assert_int_equal(s.job.form, FORM_CHINCHILLA);
    assert_close(s.job.fit.measure.delta, 1e-3, 1e-15);
    assert_int_equal(s.job.runs.count, RUN_COUNT_ALL);
    assert_int_equal(s.job.fix_count, 1);
    assert_string_equal(s.job.fixes[0].name, "E");
    assert_int_equal(s.job.runs.filter_count, 2);
    assert_string_equal(s.job.runs.filters[0].value, "a|b");
    assert_int_equal(s.job.fit.starts, 8);
    assert_int_equal(s.job.bootstrap.draws, 300);
    assert_int_equal(s.job.bootstrap.kind, BOOTSTRAP_RESIDUAL);
    assert_true(s.job.has_comparison && !s.job.has_cross_validation);
    assert_close(s.job.granularity, 4.0, 1e-15);
    assert_int_equal(fit_settings_check(&s, &err), MOSAIC_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (fit_settings_put(&s, bad[i], &err) != MOSAIC_USAGE)
            fail_msg("'%s' was taken", bad[i]);
    assert_int_equal(s.job.fix_count, 1);
    assert_int_equal(fit_settings_put(&s, "form=clark", &err), MOSAIC_OK);
    assert_int_equal(fit_settings_check(&s, &err), MOSAIC_USAGE);
    fit_settings_free(&s);
}

/* Written, read again: the same law to the last digit. */
static void check_written(enum form_kind form, const char *path, const struct run_filter *filter) {
    struct fit_job_options options = quick(form);
    struct status_error err;
    struct law law;
    char *text = NULL;
    options.runs.count = RUN_COUNT_NO_EMBEDDING;
    options.runs.filters = filter;
    options.runs.filter_count = filter ? 1 : 0;
    struct fit_job *const job = job_of(path, &options);
    assert_int_equal(save_law(job, 1, &text, &err), MOSAIC_OK);
    struct document *document = NULL;
    diag_init(&said);
    must(document_parse("law.yaml", text, strlen(text), NULL, 0, &said, &document));
    assert_int_equal(document->kind, DOCUMENT_LAW);
    assert_int_equal(fit_to_law(job->data, &job->fit, "fit", &law, &err), MOSAIC_OK);
    for (size_t i = 0; i < job->form->coefficients; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "coefficients.%s", job->form->coefficient[i].name);
        const struct document_value *const value = document_value(document, key);
        assert_non_null(value);
        assert_close(strtod(value->text, NULL), job->fit.coefficient[i], 1e-15);
    }
    document_free(document);
    free(text);
    fit_job_free(job);
}

static void test_law(void **state) {
    (void)state;
    const struct run_filter c4 = {"source", "trained c4_original"};
    check_written(FORM_MOSAIC, noisy, NULL);
    check_written(FORM_MOSAIC_NO_G, noisy, NULL);
    check_written(FORM_CHINCHILLA, gadre, &c4);
}

static void test_result(void **state) {
    (void)state;
    const char *const settings[] = {"form=mosaic", NULL};
    const struct fit_measure squares = {.delta = (double)INFINITY};
    const struct fit_job_options options = quick(FORM_MOSAIC);
    struct fit_job *const job = job_of(noisy, &options);
    const struct fit_view view = {job, &squares, BOOTSTRAP_WILD, settings, &said, 1};
    json_t *const root = build_fit(&view);
    char message[SCHEMA_MESSAGE_MAX] = "";
    double value;
    assert_non_null(root);
    if (!schema_check_file("src/report/schema/mosaic.fit-1.json", root, message))
        fail_msg("%s", message);
    assert_true(result_real(root, "coefficients.beta.value", &value));
    assert_close(value, coefficient(&job->fit, "beta"), 1e-15);
    assert_int_equal(json_array_size(result_at(root, "residuals")), job->data->count);
    assert_int_equal(json_array_size(result_at(root, "singular_values")), 11);
    assert_null(result_at(root, "bootstrap"));
    assert_null(result_at(root, "optimum"));
    assert_string_equal(result_text(root, "settings[0]"), "form=mosaic");
    json_decref(root);
    fit_job_free(job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_job),    cmocka_unit_test(test_groups),
        cmocka_unit_test(test_undetermined), cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_settings),     cmocka_unit_test(test_law),
        cmocka_unit_test(test_result),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
