// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Step constants on rows that they were not fitted to, from the shipped table: layouts and models
 * left out, a third of the layouts left out, anchors on models left out; how many constants there
 * are, and that none hangs on a model's name.  A limit is the aim, or what is reached today where
 * that is worse (printed as MISSED).
 */
#include "accuracy.h"

#include "fit/step_study.h"
#include "step/anchor.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLICES = 4, LINE_MAX_TEXT = 4096, MODERN_YEAR = 2024 };
static const char *const slices[SLICES] = {"moe", "dense_2025", "a100", "other"};
static const char without_efa[] = "without efa";

static struct step_tables *tables;
static struct step_study *study;

static int fit_all(void **state) {
    (void)state;
    (void)gsl_set_error_handler_off();
    struct status_error err = {0};
    const struct step_fit_options options = {.threads = 2};
    tables = accuracy_load(ACCURACY_STEPS, ACCURACY_MODELS, "generic");
    if (step_study_run(&tables->steps, true, &options, &study, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    assert_true(study->fit.converged);
    return 0;
}

static int free_all(void **state) {
    (void)state;
    step_study_free(study);
    doc_steps_free(tables);
    return 0;
}

static struct step_score score(enum step_view view, enum step_grouping by, const char *name) {
    return score_of_group(study->errors[view], study->steps->count, by, name);
}

/* ---- held out ---- */

static void test_layouts_left_out(void **state) {
    (void)state;
    const struct step_score in = score(STEP_FITTED, GROUP_BY_ALL, without_efa);
    const struct step_score out = score(STEP_WITHOUT_LAYOUT, GROUP_BY_ALL, without_efa);
    AT_MOST(without_efa, "five-fold less fitted", out.mape - in.mape, 0.015);
    AT_MOST(without_efa, "five-fold mean error", out.mape, 0.095);
    AT_MOST(without_efa, "five-fold bias", fabs(out.bias), 0.03);
    for (size_t i = 0; i < SLICES; ++i) {
        const struct step_score fitted = score(STEP_FITTED, GROUP_BY_SLICE, slices[i]);
        const struct step_score held = score(STEP_WITHOUT_LAYOUT, GROUP_BY_SLICE, slices[i]);
        print_message("%-14s fitted %.4f (median %.4f), five-fold %.4f (median %.4f), bias %+.4f\n",
                      slices[i], fitted.mape, fitted.median, held.mape, held.median, held.bias);
        /* The rows with experts are few for the constants that only they see. */
        AT_MOST_SO_FAR(slices[i], "five-fold less fitted", held.mape - fitted.mape, 0.015, 0.03);
    }
}

/* The widths come from these errors, over the rows of an architecture. */
static void test_intervals_cover_layouts_left_out(void **state) {
    (void)state;
    for (size_t i = 0; i < SLICES; ++i) {
        const struct step_score s = score(STEP_WITHOUT_LAYOUT, GROUP_BY_SLICE, slices[i]);
        AT_LEAST(slices[i], "five-fold rows in their interval", s.coverage, 0.85);
        AT_MOST(slices[i], "five-fold rows in their interval", s.coverage, 0.95);
    }
}

/* Every third layout in the order of the table, as if it were not there. */
static void test_a_third_left_out(void **state) {
    (void)state;
    const struct measured_steps *const steps = &tables->steps;
    bool *const use = calloc(steps->count, sizeof *use);
    struct step_fit *const fit = calloc(1, sizeof *fit);
    struct calibration *const calibration = calloc(1, sizeof *calibration);
    struct step_error *const errors = calloc(steps->count, sizeof *errors);
    assert_true(use && fit && calibration && errors);
    for (size_t i = 0; i < steps->count; ++i)
        use[i] = steps->items[i].layout % 3 != 2;
    const struct step_fit_options options = {.threads = 2};
    struct status_error err = {0};
    if (step_fit_run(steps, use, step_constants, step_constant_count, &options, fit, &err) !=
        MOSAIC_OK)
        fail_msg("%s", err.message);
    size_t count = 0;
    for (size_t i = 0; i < steps->count; ++i) {
        struct prediction p;
        if (use[i])
            continue;
        step_fit_apply(fit, &steps->items[i], calibration);
        measured_step_predict(&steps->items[i], calibration, &p);
        errors[count++] =
            (struct step_error){.step = &steps->items[i], .predicted_s = p.step_time_s};
    }
    const struct step_score all = score_of_group(errors, count, GROUP_BY_ALL, without_efa);
    AT_LEAST("a third", "layouts left out", (double)all.layouts, 100);
    AT_MOST("a third", "mean error", all.mape, 0.1);
    AT_MOST("a third", "bias", fabs(all.bias), 0.03);
    print_message("a third left out: %.4f of %zu pairs in order\n", all.pair_order, all.pairs);
    for (size_t i = 0; i < SLICES; ++i) {
        const struct step_score s = score_of_group(errors, count, GROUP_BY_SLICE, slices[i]);
        print_message("a third left out, %-10s %3zu layouts: mean error %.4f, median %.4f\n",
                      slices[i], s.layouts, s.mape, s.median);
    }
    free(use);
    free(fit);
    free(calibration);
    free(errors);
}

/* ---- unseen models ---- */

static bool is_megatron(const struct measured_step *step) {
    return strcmp(step->engine->name, "megatron") == 0 && step->year >= MODERN_YEAR;
}

static bool is_moe_without_efa(const struct measured_step *step, const void *context) {
    (void)context;
    return measured_step_is_moe(step) && strcmp(step->fabric, "efa") != 0;
}

static bool is_modern(const struct measured_step *step, const void *context) {
    (void)context;
    return is_megatron(step);
}

static void test_models_left_out(void **state) {
    (void)state;
    struct step_score modern, moe;
    const struct step_score all = score(STEP_WITHOUT_MODEL, GROUP_BY_ALL, without_efa);
    assert_true(step_score_of(study->errors[STEP_WITHOUT_MODEL], study->steps->count, is_modern,
                              NULL, &modern));
    AT_MOST("unseen model", "mean error", all.mape, 0.1);
    AT_MOST_SO_FAR("unseen model", "mean error, Megatron since 2024", modern.mape, 0.1, 0.105);
    /* The rows on EFA are one model: without it nothing tells what that fabric costs. */
    assert_true(step_score_of(study->errors[STEP_WITHOUT_MODEL], study->steps->count,
                              is_moe_without_efa, NULL, &moe));
    AT_MOST("unseen model", "mean error, experts without efa", moe.mape, 0.12);
    AT_MOST("unseen model", "bias", fabs(all.bias), 0.03);
    for (size_t i = 0; i < SLICES; ++i) {
        const struct step_score s = score(STEP_WITHOUT_MODEL, GROUP_BY_SLICE, slices[i]);
        print_message("unseen model, %-10s mean error %.4f, median %.4f, bias %+.4f\n", slices[i],
                      s.mape, s.median, s.bias);
    }
}

/* ---- anchors ---- */

/* A row of one job, that is of a cluster, engine and model. */
struct member {
    const struct step_error *row;
    double before, after; /* |e| on the mean over the choices of anchors */
    size_t choices;
};

struct anchored {
    size_t jobs, count;
    double before, after; /* means over the members that some anchors leave */
};

static bool same_job(const struct measured_step *a, const struct measured_step *b) {
    return strcmp(a->cluster_name, b->cluster_name) == 0 && a->engine == b->engine &&
           strcmp(a->model, b->model) == 0;
}

/* The members that follow `first` around the circle measure, the others are predicted. */
static void anchor_from(struct member *members, size_t count, size_t first, size_t anchors) {
    enum { MOST = 8 };
    double measured_s[MOST], predicted_s[MOST];
    assert_true(anchors <= MOST);
    for (size_t k = 0; k < anchors; ++k) {
        const struct step_error *const row = members[(first + k) % count].row;
        measured_s[k] = row->step->step_time_s;
        predicted_s[k] = row->predicted_s;
    }
    struct anchor_residual residual;
    const double *const scalar = members[first].row->step->calibration->scalar;
    anchor_fit(measured_s, predicted_s, anchors, scalar[CAL_ANCHOR_BETWEEN],
               scalar[CAL_ANCHOR_WITHIN], &residual);
    for (size_t k = anchors; k < count; ++k) {
        struct member *const m = &members[(first + k) % count];
        const double ratio = m->row->predicted_s / m->row->step->step_time_s;
        m->before += fabs(ratio - 1.0);
        m->after += fabs(ratio * exp(residual.log_factor) - 1.0);
        ++m->choices;
    }
}

static void anchor_job(struct member *members, size_t count, size_t anchors,
                       struct anchored *total) {
    if (count <= anchors)
        return;
    for (size_t first = 0; first < count; ++first)
        anchor_from(members, count, first, anchors);
    ++total->jobs;
    for (size_t i = 0; i < count; ++i) {
        total->before += members[i].before / (double)members[i].choices;
        total->after += members[i].after / (double)members[i].choices;
        ++total->count;
    }
}

static bool is_first_of_layout(const struct step_error *errors, size_t at) {
    for (size_t i = 0; i < at; ++i)
        if (errors[i].step->layout == errors[at].step->layout)
            return false;
    return true;
}

/* Every choice of neighbouring anchors of each job, on predictions by constants that never saw the
 * model. */
static struct anchored anchor_all(size_t anchors, bool modern_only, bool by_layout) {
    struct anchored total = {0, 0, 0.0, 0.0};
    const size_t count = study->steps->count;
    const struct step_error *const errors = study->errors[STEP_WITHOUT_MODEL];
    struct member *const members = calloc(count, sizeof *members);
    bool *const done = calloc(count, sizeof *done);
    assert_true(members && done);
    for (size_t i = 0; i < count; ++i) {
        size_t held = 0;
        if (done[i])
            continue;
        for (size_t k = i; k < count; ++k)
            if (!done[k] && same_job(errors[i].step, errors[k].step)) {
                done[k] = true;
                if (!by_layout || is_first_of_layout(errors, k))
                    members[held++] = (struct member){&errors[k], 0.0, 0.0, 0};
            }
        if (!modern_only || is_megatron(errors[i].step))
            anchor_job(members, held, anchors, &total);
    }
    free(members);
    free(done);
    assert_true(total.count > 0);
    total.before /= (double)total.count;
    total.after /= (double)total.count;
    return total;
}

static void expect_anchored(size_t anchors, bool modern_only, bool by_layout, double aim,
                            double reached) {
    const char *const group = modern_only ? "Megatron" : "all rows";
    const struct anchored a = anchor_all(anchors, modern_only, by_layout);
    char what[64];
    (void)snprintf(what, sizeof what, "%s, anchored by %zu", by_layout ? "layouts" : "rows",
                   anchors);
    print_message("%-14s %zu %s of %zu jobs: %.4f before, %.4f anchored by %zu\n", group, a.count,
                  by_layout ? "layouts" : "rows", a.jobs, a.before, a.after, anchors);
    AT_MOST_SO_FAR(group, what, a.after, aim, reached);
    assert_true(a.after < a.before);
}

static void test_anchored(void **state) {
    (void)state;
    expect_anchored(1, true, false, 0.06, 0.07);
    expect_anchored(3, true, false, 0.05, 0.06);
    expect_anchored(1, false, false, 0.06, 0.079);
    expect_anchored(3, false, false, 0.05, 0.07);
}

/* Harder than what is asked for: rows of the layouts that were measured do not count. */
static void test_anchored_by_other_layouts(void **state) {
    (void)state;
    expect_anchored(1, true, true, 0.06, 0.075);
    expect_anchored(3, true, true, 0.05, 0.068);
    expect_anchored(1, false, true, 0.06, 0.094);
    expect_anchored(3, false, true, 0.05, 0.086);
}

/* ---- constants ---- */

static void test_constants_are_few_and_named(void **state) {
    (void)state;
    AT_MOST("constants", "fitted", (double)study->fit.parameters, 30);
    for (size_t j = 0; j < study->fit.parameters; ++j) {
        const struct step_parameter *const p = &study->fit.parameter[j];
        const struct scalar_info *const info = calibration_scalar_info(p->constant->scalar);
        assert_true(strlen(info->key) > 0 && strlen(info->text) > 0);
        assert_false(p->at_bound);
        /* Rows in hand determine it better than the prior does, or it would not be here. */
        assert_true(p->rows >= 5);
        assert_true(p->standard_error > 0.0 && p->standard_error < p->constant->prior_sd);
    }
}

static const char *renamed(const char *name) {
    static char text[32];
    unsigned hash = 2166136261U; /* FNV-1a */
    for (; *name; ++name)
        hash = (hash ^ (unsigned char)*name) * 16777619U;
    (void)snprintf(text, sizeof text, "m%08x", hash);
    return text;
}

/* A copy of a table with the names of its column `at` (from 0) exchanged; path is a template. */
static void write_renamed(const char *from, int at, char *path) {
    char line[LINE_MAX_TEXT];
    bool is_header = true;
    FILE *const in = fopen(from, "r");
    const int file = mkstemp(path);
    FILE *const out = file >= 0 ? fdopen(file, "w") : NULL;
    assert_true(in && out);
    while (fgets(line, sizeof line, in)) {
        char *const name = at == 0 ? line : strchr(line, ',') ? strchr(line, ',') + 1 : NULL;
        char *const end = name ? strchr(name, ',') : NULL;
        if (line[0] == '#' || !end || is_header) {
            is_header = is_header && line[0] == '#';
            assert_true(fputs(line, out) >= 0);
            continue;
        }
        *end = '\0';
        const char *const other = renamed(name);
        assert_true(fprintf(out, "%.*s%s,%s", (int)(name - line), line, other, end + 1) > 0);
    }
    assert_int_equal(fclose(in), 0);
    assert_int_equal(fclose(out), 0);
}

static void test_no_constant_hangs_on_a_name(void **state) {
    (void)state;
    char steps_path[] = "/tmp/test_step_cross_XXXXXX",
         models_path[] = "/tmp/test_step_cross_XXXXXX";
    write_renamed(ACCURACY_STEPS, 1, steps_path);
    write_renamed(ACCURACY_MODELS, 0, models_path);
    struct step_tables *const other = accuracy_load(steps_path, models_path, "generic");
    assert_int_equal(unlink(steps_path), 0);
    assert_int_equal(unlink(models_path), 0);
    assert_int_equal(other->steps.count, tables->steps.count);
    assert_string_not_equal(other->steps.items[0].model, tables->steps.items[0].model);
    struct step_fit *const fit = calloc(1, sizeof *fit);
    assert_non_null(fit);
    const struct step_fit_options options = {.threads = 2};
    struct status_error err = {0};
    if (step_fit_run(&other->steps, NULL, step_constants, step_constant_count, &options, fit,
                     &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    assert_int_equal(fit->parameters, study->fit.parameters);
    for (size_t j = 0; j < fit->parameters; ++j) {
        const double value = fit->parameter[j].value, want = study->fit.parameter[j].value;
        assert_memory_equal(&value, &want, sizeof value);
    }
    free(fit);
    doc_steps_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts_left_out),
        cmocka_unit_test(test_intervals_cover_layouts_left_out),
        cmocka_unit_test(test_a_third_left_out),
        cmocka_unit_test(test_models_left_out),
        cmocka_unit_test(test_anchored),
        cmocka_unit_test(test_anchored_by_other_layouts),
        cmocka_unit_test(test_constants_are_few_and_named),
        cmocka_unit_test(test_no_constant_hangs_on_a_name),
    };
    return cmocka_run_group_tests(tests, fit_all, free_all);
}
