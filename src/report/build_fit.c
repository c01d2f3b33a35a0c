// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Result of a fit.  What would look like a good fit where there is none (quality, objective,
 * residuals) is left out of an undetermined one.
 */
#include "report/build.h"
#include "report/put.h"

#include "fit/fit_settings.h"

#include <math.h>
#include <string.h>

enum { LIST_TEXT = 256, LOSS_TEXT = 48 };
static const double least_component = 0.1; /* of a unit vector, to be named */

static json_t *interval_json(const struct interval *interval) {
    return json_pack("{s:f, s:f, s:f}", "low", interval->low, "median", interval->middle, "high",
                     interval->high);
}

/* ---- provenance ---- */

static bool put_provenance(json_t *root, const struct fit_job *job) {
    json_t *const inputs = json_object_get(json_object_get(root, "provenance"), "inputs");
    return json_array_append_new(inputs, json_pack("{s:s, s:s}", "path", job->table->file, "sha256",
                                                   job->sha256)) == 0;
}

/* As they were given. */
static bool put_settings(json_t *root, const char *const *settings) {
    json_t *const list = json_array();
    bool ok = true;
    for (size_t i = 0; settings && settings[i]; i++)
        ok = json_array_append_new(list, json_string(settings[i])) == 0 && ok;
    return put(root, "settings", list) && ok;
}

static bool put_rows(json_t *root, const struct fit_job *job) {
    static const char *const counts[] = {[RUN_COUNT_UNSTATED] = "unstated",
                                         [RUN_COUNT_ALL] = "all",
                                         [RUN_COUNT_NO_EMBEDDING] = "no_embedding"};
    const struct run_table *const table = job->table;
    json_t *const excluded = json_array();
    bool ok = put(root, "rows",
                  json_pack("{s:I, s:I, s:s}", "total", (json_int_t)table->rows, "used",
                            (json_int_t)table->of_fate[RUN_USED], "count", counts[table->count]));
    for (size_t i = 0; i < table->rows; i++) {
        const struct run *const run = &table->runs[i];
        if (run->fate == RUN_USED)
            continue;
        json_t *const row = json_pack("{s:I, s:s}", "row", (json_int_t)run->row, "reason",
                                      run_fate_text(run->fate));
        if (row && run->name[0])
            ok = put(row, "name", json_string(run->name)) && ok;
        ok = json_array_append_new(excluded, row) == 0 && ok;
    }
    return put(root, "excluded", excluded) && ok;
}

/* ---- coefficients ---- */

static json_t *coefficient_json(const struct fit_job *job, size_t i) {
    const struct fit_coefficient *const c = &job->report.coefficient[i];
    struct status_error err;
    struct interval interval;
    json_t *const o = json_pack("{s:f}", "value", c->value);
    bool ok = true;
    if (o && c->has_error)
        ok = put_real(o, "se", c->error);
    ok = put(o, "label", json_string(fit_label_text(c->label))) && ok;
    if (o && job->bootstrap && job->fit.model.is_free[i] &&
        bootstrap_coefficient(job->bootstrap, i, &interval, &err) == MOSAIC_OK)
        ok = put(o, "interval", interval_json(&interval)) && ok;
    return whole_or_null(o, ok);
}

static bool put_coefficients(json_t *root, const struct fit_job *job) {
    json_t *const o = json_object();
    bool ok = o != NULL;
    for (size_t i = 0; ok && i < job->form->coefficients; i++)
        ok = put(o, job->form->coefficient[i].name, coefficient_json(job, i));
    return put(root, "coefficients", o) && ok;
}

static bool put_dropped(json_t *root, const struct fit_job *job) {
    static const char *const reasons[] = {[FIT_DROP_CONSTANT] = "constant",
                                          [FIT_DROP_ALIAS] = "follows another variable",
                                          [FIT_DROP_SAME] = "same shape as another term",
                                          [FIT_DROP_VANISHED] = "vanished",
                                          [FIT_DROP_FLAT] = "flat"};
    json_t *const list = json_array();
    bool ok = true;
    for (size_t i = 0; i < job->fit.drops.count; i++) {
        const struct fit_drop *const drop = &job->fit.drops.items[i];
        ok = json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name",
                                                   job->form->coefficient[drop->coefficient].name,
                                                   "kind", drop->is_term ? "term" : "exponent",
                                                   "reason", reasons[drop->reason])) == 0 &&
             ok;
    }
    return put(root, "dropped", list) && ok;
}

/* "a, b, c" of the coefficients with a label; how many there are. */
static size_t list_labelled(const struct fit_job *job, enum fit_label label, char text[LIST_TEXT]) {
    size_t count = 0, used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < job->form->coefficients; i++) {
        if (job->report.coefficient[i].label != label)
            continue;
        const int n = snprintf(text + used, LIST_TEXT - used, "%s%s", count ? ", " : "",
                               job->form->coefficient[i].name);
        used += n > 0 && (size_t)n < LIST_TEXT - used ? (size_t)n : 0;
        count++;
    }
    return count;
}

static bool put_confidence(json_t *root, const struct fit_job *job) {
    char identified[LIST_TEXT], weak[LIST_TEXT], ridge[LIST_TEXT];
    if (job->outcome == FIT_UNKNOWABLE)
        return put(root, "confidence",
                   json_pack("{s:s, s:s}", "verdict", "undetermined", "text",
                             "These runs do not determine a law of this form: do not plan with "
                             "it."));
    const size_t good = list_labelled(job, FIT_IDENTIFIED, identified);
    const size_t fair = list_labelled(job, FIT_WEAK, weak);
    const size_t poor = list_labelled(job, FIT_RIDGE, ridge);
    char text[4 * LIST_TEXT];
    (void)snprintf(text, sizeof text, "%zu of %zu free coefficients identified%s%s.%s%s%s%s%s%s",
                   good, job->fit.parameters, good ? ": " : "", identified,
                   fair ? " Weak, 15 to 40 % relative error: " : "", weak, fair ? "." : "",
                   poor ? " Known in combination with others only: " : "", ridge,
                   poor ? "; trust what the law predicts within the runs, not these numbers." : "");
    return put(root, "confidence",
               json_pack("{s:s, s:s}", "verdict",
                         poor + fair > 0 ? "partly identified" : "identified", "text", text));
}

/* ---- quality ---- */

static bool put_quality(json_t *root, const struct fit_job *job) {
    const struct fit_report *const r = &job->report;
    if (job->outcome == FIT_UNKNOWABLE)
        return true;
    bool ok = put_real(root, "ssr_log", job->ssr_log) && put_real(root, "rms_log", r->rms_log) &&
              put_real(root, "rms_loss", r->rms_loss) && put_real(root, "sigma_log", r->sigma) &&
              put_real(root, "r2", r->r2) && put_real(root, "objective", job->fit.objective);
    /* Both suppose least squares of ln L. */
    if (!isfinite(job->fit.measure.delta) && !job->fit.measure.is_plain)
        ok = put_real(root, "aic", r->aic) && put_real(root, "aicc", r->aicc) && ok;
    return ok;
}

static bool put_search(json_t *root, const struct fit_job *job) {
    return put(root, "starts",
               json_pack("{s:I, s:I, s:I}", "tried", (json_int_t)job->fit.starts, "reached",
                         (json_int_t)job->fit.reached, "converged",
                         (json_int_t)job->fit.converged)) &&
           put(root, "converged", json_boolean(job->fit.is_converged)) &&
           put_count(root, "iterations", job->fit.iterations) &&
           put_real(root, "gradient_norm", job->fit.gradient);
}

static json_t *direction_json(const struct fit_job *job, size_t w) {
    json_t *const parts = json_object();
    bool ok = true;
    for (size_t i = 0; i < job->form->coefficients; i++)
        if (fabs(job->report.weakest[w][i]) >= least_component)
            ok = put_real(parts, job->form->coefficient[i].name, job->report.weakest[w][i]) && ok;
    json_t *const o =
        json_pack("{s:f, s:o}", "singular_value", job->report.singular[job->fit.parameters - 1 - w],
                  "direction", parts);
    return whole_or_null(o, ok);
}

static bool put_singular(json_t *root, const struct fit_job *job) {
    json_t *const values = json_array(), *const weak = json_array();
    bool ok = true;
    for (size_t k = 0; k < job->fit.parameters; k++)
        ok = json_array_append_new(values, json_real(job->report.singular[k])) == 0 && ok;
    for (size_t w = 0; w < job->report.weakest_count; w++)
        ok = json_array_append_new(weak, direction_json(job, w)) == 0 && ok;
    ok = put(root, "singular_values", values) && ok;
    ok = put(root, "weak_directions", weak) && ok;
    if (job->report.condition > 0 && isfinite(job->report.condition))
        ok = put_real(root, "condition", job->report.condition) && ok;
    return ok;
}

/* ---- terms ---- */

static json_t *term_json(const struct fit_job *job, const struct form_point *centre, size_t k) {
    const struct fit_share *const share = &job->report.share[k];
    struct status_error err;
    struct interval interval;
    json_t *const o = json_pack("{s:s, s:f, s:{s:f, s:f, s:f}}", "name", job->form->term[k].name,
                                "nats", share->nats, "share", "low", share->low, "mean",
                                share->mean, "high", share->high);
    bool ok = true;
    if (o && job->bootstrap &&
        bootstrap_at_point(job->bootstrap, centre, (int)k, &interval, &err) == MOSAIC_OK)
        ok = put(o, "interval_at_centre", interval_json(&interval));
    return whole_or_null(o, ok);
}

static bool put_centre(json_t *root, const struct fit_job *job, const struct form_point *p) {
    double x[FORM_VARIABLES];
    struct status_error err;
    struct interval interval;
    if (form_variables(job->form, p, x, &err) != MOSAIC_OK)
        return true;
    json_t *const o =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "n_total", p->n_total, "n_active", p->n_active,
                  "tokens", p->tokens, "sparsity", p->sparsity, "granularity", p->granularity,
                  "loss", exp(fit_log_loss(&job->fit, x)));
    bool ok = true;
    if (o && job->bootstrap &&
        bootstrap_at_point(job->bootstrap, p, -1, &interval, &err) == MOSAIC_OK)
        ok = put(o, "interval", interval_json(&interval));
    return put(root, "centre", o) && ok;
}

static bool put_terms(json_t *root, const struct fit_job *job) {
    const struct form_point centre = fit_job_centre(job);
    json_t *const list = json_array();
    bool ok = true;
    for (size_t k = 0; k < job->form->terms; k++)
        if (!job->fit.model.frame.is_gone[k])
            ok = json_array_append_new(list, term_json(job, &centre, k)) == 0 && ok;
    ok = put(root, "terms", list) && ok;
    return job->outcome == FIT_UNKNOWABLE ? ok : put_centre(root, job, &centre) && ok;
}

static bool put_residuals(json_t *root, const struct fit_job *job) {
    json_t *const list = json_array();
    bool ok = true;
    for (size_t i = 0; i < job->data->count; i++) {
        const struct fit_row *const row = &job->data->rows[i];
        const double observed = exp(row->log_loss), fitted = exp(fit_log_loss(&job->fit, row->x));
        json_t *const o = json_pack("{s:I, s:f, s:f, s:f}", "row", (json_int_t)row->row, "observed",
                                    observed, "fitted", fitted, "difference", fitted - observed);
        const struct run *const run = fit_job_run_of(job, i);
        if (o && run->name[0])
            ok = put(o, "name", json_string(run->name)) && ok;
        if (o && run->group[0])
            ok = put(o, "group", json_string(run->group)) && ok;
        ok = json_array_append_new(list, o) == 0 && ok;
    }
    return put(root, "residuals", list) && ok;
}

/* ---- judged on other runs, against other forms ---- */

static json_t *held_json(const struct held_out *held) {
    json_t *const o =
        json_pack("{s:I, s:I}", "fitted", (json_int_t)held->fitted, "held", (json_int_t)held->held);
    if (!o || !held->is_fitted)
        return o;
    const bool ok =
        put_real(o, "rms_log", held->rms_log) && put_real(o, "mean_log", held->mean_log) &&
        put_real(o, "worst_log", held->worst_log) && put_count(o, "worst_row", held->worst_row);
    return whole_or_null(o, ok);
}

static bool put_cross_validation(json_t *root, const struct fit_job *job) {
    if (!job->has_largest && job->group_count == 0)
        return true;
    json_t *const o = json_object();
    bool ok = o != NULL;
    if (job->has_largest)
        ok = put(o, "largest", held_json(&job->largest)) && ok;
    if (job->group_count > 0) {
        json_t *const list = json_array();
        for (size_t g = 0; g < job->group_count; g++) {
            json_t *const group = held_json(&job->groups[g].held);
            if (group && job->groups[g].name[0])
                ok = put(group, "name", json_string(job->groups[g].name)) && ok;
            else if (group)
                ok = put_real(group, "value", job->groups[g].value) && ok;
            ok = json_array_append_new(list, group) == 0 && ok;
        }
        ok = put(o, "left_out_by", json_string(job->grouped_by)) && ok;
        ok = put(o, "groups", list) && ok;
    }
    return put(root, "cross_validation", o) && ok;
}

static json_t *form_json(const struct contestant *one) {
    if (!one->is_fitted)
        return json_pack("{s:s, s:s}", "form", form_of(one->kind)->name, "why_not",
                         one->why_not[0] ? one->why_not : "no fit");
    json_t *const o = json_pack("{s:s, s:I, s:f, s:f, s:f, s:f}", "form", form_of(one->kind)->name,
                                "parameters", (json_int_t)one->parameters, "aic", one->aic, "aicc",
                                one->aicc, "delta_aic", one->delta_aic, "rms_log", one->rms_log);
    bool ok = true;
    if (o && one->held.held > 0)
        ok = put(o, "held_out", held_json(&one->held));
    return whole_or_null(o, ok);
}

static bool put_forms(json_t *root, const struct fit_job *job) {
    json_t *const list = job->form_count > 0 ? json_array() : NULL;
    bool ok = true;
    for (size_t k = 0; k < job->form_count; k++)
        ok = json_array_append_new(list, form_json(&job->forms[k])) == 0 && ok;
    return (job->form_count == 0 || put(root, "forms", list)) && ok;
}

/* ---- bootstrap ---- */

static bool put_bootstrap(json_t *root, const struct fit_job *job, enum bootstrap_kind kind) {
    static const char *const kinds[] = {
        [BOOTSTRAP_WILD] = "wild", [BOOTSTRAP_RESIDUAL] = "residual"};
    if (!job->bootstrap)
        return true;
    return put(root, "bootstrap",
               json_pack("{s:s, s:I, s:I, s:I, s:f}", "kind", kinds[kind], "draws",
                         (json_int_t)job->bootstrap->asked, "converged",
                         (json_int_t)job->bootstrap->count, "failed",
                         (json_int_t)job->bootstrap->failed, "level", BUILD_FIT_LEVEL));
}

static json_t *optimum_json(const struct fit_job_optimum *optimum) {
    const struct law_optimum *const best = &optimum->best;
    json_t *const o =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:b}", "n_total", best->point.n_total, "n_active",
                  best->n_active, "tokens", best->point.tokens, "sparsity", best->point.sparsity,
                  "loss", best->loss, "at_bound", (int)best->at_bound);
    bool ok = true;
    if (o && optimum->has_draws)
        ok = put(o, "intervals",
                 json_pack(
                     "{s:o, s:o, s:o, s:I, s:I}", "n_total", interval_json(&optimum->draws.n_total),
                     "sparsity", interval_json(&optimum->draws.sparsity), "loss",
                     interval_json(&optimum->draws.loss), "draws", (json_int_t)optimum->draws.draws,
                     "draws_at_bound", (json_int_t)optimum->draws.at_bound));
    return whole_or_null(o, ok);
}

static bool put_optimum(json_t *root, const struct fit_job *job) {
    if (!job->bounded.is_found && !job->free.is_found)
        return true;
    json_t *const o = json_pack("{s:f, s:f, s:f}", "model_flops", job->model_flops, "granularity",
                                job->granularity, "max_sparsity", job->bounded.max_sparsity);
    bool ok = o != NULL;
    if (job->bounded.is_found)
        ok = put(o, "bounded", optimum_json(&job->bounded)) && ok;
    if (job->free.is_found)
        ok = put(o, "free", optimum_json(&job->free)) && ok;
    return put(root, "optimum", o) && ok;
}

/* ---- all ---- */

static bool put_fit(json_t *root, const struct fit_view *view) {
    const struct fit_job *const job = view->job;
    bool ok = put_coefficients(root, job) && put_confidence(root, job) && put_quality(root, job) &&
              put_search(root, job) && put_singular(root, job) && put_terms(root, job) &&
              put_cross_validation(root, job) && put_forms(root, job) &&
              put_bootstrap(root, job, view->bootstrap) && put_optimum(root, job);
    if (job->outcome != FIT_UNKNOWABLE)
        ok = ok && put_residuals(root, job);
    if (job->has_plots && job->outcome != FIT_UNKNOWABLE)
        ok = ok && put(root, "plots", build_fit_plots(job));
    return ok;
}

json_t *build_fit(const struct fit_view *view) {
    const struct fit_job *const job = view->job;
    char loss[LOSS_TEXT];
    json_t *const root =
        build_head("mosaic.fit/1", NULL, 0, view->seed, fit_outcome_text(job->outcome));
    json_t *const warnings = json_array();
    bool ok = root && put_provenance(root, job) && put_settings(root, view->settings) &&
              put(root, "form", json_string(job->form->name)) &&
              put(root, "form_source", json_string(job->form->source)) &&
              put(root, "loss", json_string(fit_settings_loss(view->measure, loss, sizeof loss))) &&
              put_rows(root, job);
    if (ok && job->has_fit)
        ok = put_fit(root, view);
    else if (ok)
        ok = put_confidence(root, job);
    ok = ok && put_dropped(root, job);
    ok = append_diagnostics(warnings, view->diags) && ok;
    if (!root) {
        json_decref(warnings);
        return NULL;
    }
    return whole_or_null(root, put(root, "warnings", warnings) && ok);
}
