// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Result of a fit of step constants: each constant with its unit and meaning, errors of the rows by
 * the fit and held out, the calibration documents as texts.  A fit that did not converge has its
 * constants and no more.
 */
#include "report/fit_steps_view.h"

#include "doc/save_steps.h"
#include "report/build.h"
#include "report/put.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool append(json_t *list, json_t *value) {
    return json_array_append_new(list, value) == 0;
}

static bool put_inputs(json_t *root, const struct fit_steps_view *view) {
    json_t *const inputs = json_object_get(json_object_get(root, "provenance"), "inputs");
    bool ok = inputs != NULL;
    for (size_t i = 0; ok && i < view->tables->input_count; i++)
        ok = append(inputs, json_pack("{s:s, s:s}", "path", view->tables->inputs[i].path, "sha256",
                                      view->tables->inputs[i].sha256));
    return ok;
}

static bool put_settings(json_t *root, const char *const *settings) {
    json_t *const list = json_array();
    bool ok = true;
    for (size_t i = 0; settings && settings[i]; i++)
        ok = append(list, json_string(settings[i])) && ok;
    return put(root, "settings", list) && ok;
}

static bool put_rows(json_t *root, const struct measured_steps *steps) {
    json_t *const excluded = json_array();
    bool ok = put(root, "rows",
                  json_pack("{s:I, s:I, s:I}", "total", (json_int_t)steps->rows, "used",
                            (json_int_t)steps->count, "layouts", (json_int_t)steps->layouts));
    for (size_t i = 0; i < steps->excluded_count; i++)
        ok = append(excluded,
                    json_pack("{s:I, s:s, s:s}", "row", (json_int_t)steps->excluded[i].row, "id",
                              steps->excluded[i].id, "reason", steps->excluded[i].reason)) &&
             ok;
    return put(root, "excluded", excluded) && ok;
}

/* ---- constants ---- */

static json_t *constant_json(const struct step_parameter *parameter) {
    static const char *const scopes[] = {[STEP_SHARED] = "shared",
                                         [STEP_ARCHITECTURE] = "architecture",
                                         [STEP_DEVICE] = "device",
                                         [STEP_FABRIC] = "fabric"};
    const struct step_constant *const c = parameter->constant;
    const struct scalar_info *const info = calibration_scalar_info(c->scalar);
    json_t *const o =
        json_pack("{s:s, s:s, s:f, s:s, s:s, s:f, s:I, s:b}", "quantity", info->key, "scope",
                  scopes[c->scope], "value", parameter->value, "unit", units_base(info->dimension),
                  "text", info->text, "standard_error", parameter->standard_error, "rows",
                  (json_int_t)parameter->rows, "at_bound", (int)parameter->at_bound);
    bool ok = o && (!parameter->where[0] || put(o, "where", json_string(parameter->where)));
    if (ok && isfinite(c->prior_sd))
        ok = put(o, "prior", json_pack("{s:f, s:f}", "value", c->prior, "sd", c->prior_sd));
    if (ok)
        return o;
    json_decref(o);
    return NULL;
}

static bool put_constants(json_t *root, const struct step_fit *fit) {
    json_t *const list = json_array();
    bool ok = true;
    for (size_t j = 0; j < fit->parameters; j++)
        ok = append(list, constant_json(&fit->parameter[j])) && ok;
    return put(root, "constants", list) && ok &&
           put(root, "search",
               json_pack("{s:b, s:I, s:f, s:f}", "converged", (int)fit->converged, "iterations",
                         (json_int_t)fit->iterations, "objective", fit->objective, "gradient_norm",
                         fit->gradient));
}

/* ---- scores ---- */

struct score_group {
    const char *architecture; /* NULL: any */
    int moe;                  /* -1: either */
};

static bool is_in(const struct measured_step *step, const void *context) {
    const struct score_group *const group = context;
    const bool is_moe = geometry_moe_layers(&step->geometry) > 0;
    return (group->moe < 0 || is_moe == (group->moe > 0)) &&
           (!group->architecture || strcmp(group->architecture, step->architecture) == 0);
}

static bool is_held_out(const struct step_study *study) {
    return study->errors[STEP_WITHOUT_LAYOUT] != NULL;
}

/* Nothing where the group is empty. */
static bool append_score(json_t *list, const struct step_study *study, const char *name,
                         const struct score_group *group) {
    static const char *const views[STEP_VIEWS] = {"fitted", "without_layout", "without_model"};
    struct step_score s;
    json_t *o = NULL;
    bool ok = true;
    for (int v = 0; v < STEP_VIEWS && ok; v++) {
        if (!study->errors[v])
            continue;
        if (!step_score_of(study->errors[v], study->steps->count, is_in, group, &s))
            return true;
        if (!o)
            o = json_pack("{s:s, s:I, s:I}", "group", name, "rows", (json_int_t)s.rows, "layouts",
                          (json_int_t)s.layouts);
        json_t *const score = json_pack("{s:f, s:f, s:f, s:f}", "mape", s.mape, "median", s.median,
                                        "p90", s.p90, "bias", s.bias);
        ok = put(o, views[v], score);
        if (ok && is_held_out(study)) /* intervals come from there */
            ok = put(score, "coverage_90", json_real(s.coverage));
    }
    return append(list, o) && ok;
}

static bool put_scores(json_t *root, const struct step_study *study) {
    static const struct score_group all = {NULL, -1}, dense = {NULL, 0}, moe = {NULL, 1};
    json_t *const list = json_array();
    bool ok = append_score(list, study, "all", &all) &&
              append_score(list, study, "dense", &dense) && append_score(list, study, "moe", &moe);
    for (size_t i = 0; i < study->sigmas; i++) {
        const struct step_sigma *const s = &study->sigma[i];
        const struct score_group group = {s->architecture, -1};
        ok = append_score(list, study, s->architecture, &group) && ok;
    }
    return put(root, "scores", list) && ok;
}

static bool put_intervals(json_t *root, const struct step_study *study) {
    json_t *const list = json_array();
    bool ok = true;
    for (size_t i = 0; i < study->sigmas; i++) {
        const struct step_sigma *const s = &study->sigma[i];
        ok = append(list,
                    json_pack("{s:s, s:{s:f, s:I}, s:{s:f, s:I}}", "architecture", s->architecture,
                              "dense", "sigma", s->sigma[0], "rows", (json_int_t)s->rows[0], "moe",
                              "sigma", s->sigma[1], "rows", (json_int_t)s->rows[1])) &&
             ok;
    }
    return put(root, "intervals", list) && ok;
}

/* ---- documents ---- */

static bool append_document(json_t *list, const struct fit_steps_view *view,
                            const struct save_steps_target *target) {
    char name[SAVE_STEPS_NAME_MAX], *text = NULL;
    struct status_error err;
    save_steps_name(target, name);
    if (save_steps(view->study, target, view->rows_path, &text, &err) != MOSAIC_OK)
        return false;
    json_t *const o = json_pack("{s:s, s:s}", "name", name, "device", target->device);
    bool ok = !target->fabric[0] || put(o, "fabric", json_string(target->fabric));
    ok = put(o, "text", json_string(text)) && ok;
    free(text);
    return append(list, o) && ok;
}

static bool put_documents(json_t *root, const struct fit_steps_view *view) {
    struct save_steps_target targets[SAVE_STEPS_MAX];
    json_t *const list = json_array();
    const size_t count = save_steps_targets(view->study, targets);
    bool ok = true;
    for (size_t i = 0; i < count; i++)
        ok = append_document(list, view, &targets[i]) && ok;
    return put(root, "documents", list) && ok;
}

static bool put_warnings(json_t *root, const struct fit_steps_view *view) {
    const struct step_fit *const fit = &view->study->fit;
    json_t *const list = json_array();
    bool ok = list && append_diagnostics(list, view->diags);
    if (!fit->converged)
        ok = append_text(list,
                         "the search ended after %zu steps without a minimum: these are no "
                         "constants to use",
                         fit->iterations) &&
             ok;
    const size_t layouts = view->study->steps->layouts;
    if (layouts < STEP_FEW_LAYOUTS)
        ok = append_text(list,
                         "%zu layout%s: the priors decide; one to three steps of a model are "
                         "better used as measured_steps (mosaic-calibration(5))",
                         layouts, layouts == 1 ? "" : "s") &&
             ok;
    for (size_t j = 0; j < fit->parameters; j++) {
        const struct step_parameter *const p = &fit->parameter[j];
        const char *const key = calibration_scalar_info(p->constant->scalar)->key;
        const char *const in = p->where[0] ? " of " : "";
        if (p->at_bound)
            ok = append_text(list, "%s%s%s ends at its range, %g to %g", key, in, p->where,
                             p->constant->least, p->constant->most) &&
                 ok;
        if (p->rows == 0)
            ok = append_text(list, "no row moves %s%s%s: it is left out of the documents", key, in,
                             p->where) &&
                 ok;
    }
    return put(root, "warnings", list) && ok;
}

json_t *build_fit_steps(const struct fit_steps_view *view) {
    const struct step_fit *const fit = &view->study->fit;
    json_t *const root =
        build_head("mosaic.fit_steps/1", NULL, 0, view->seed, fit->converged ? "ok" : "limit");
    bool ok = root && put_inputs(root, view) && put_settings(root, view->settings) &&
              put_rows(root, view->study->steps) && put_constants(root, fit);
    if (ok && fit->converged)
        ok = put_scores(root, view->study) &&
             (!is_held_out(view->study) || put_intervals(root, view->study)) &&
             put_documents(root, view);
    if (ok && put_warnings(root, view))
        return root;
    json_decref(root);
    return NULL;
}
