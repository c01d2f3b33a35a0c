// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Result of a validation: one score of all rows, the same of data sheets alone, of each group, of
 * the memory, and with anchors.  What has no number (no pair to order, no peak measured) is absent.
 */
#include "report/validate_view.h"

#include "report/build.h"
#include "report/put.h"

#include <stdlib.h>

static bool put_score(json_t *object, const struct step_score *score) {
    bool ok = put_count(object, "rows", score->rows);
    ok = put_count(object, "layouts", score->layouts) && ok;
    ok = put_real(object, "mape", score->mape) && ok;
    ok = put_real(object, "median", score->median) && ok;
    ok = put_real(object, "p90", score->p90) && ok;
    ok = put_real(object, "bias", score->bias) && ok;
    ok = put_count(object, "pairs", score->pairs) && ok;
    if (score->pairs > 0)
        ok = put_real(object, "pair_order", score->pair_order) && ok;
    ok = put_count(object, "ranked_groups", score->ranked_groups) && ok;
    if (score->ranked_groups > 0) {
        ok = put_real(object, "kendall_tau", score->kendall_tau) && ok;
        ok = put_real(object, "regret", score->regret) && ok;
    }
    return put_real(object, "coverage_90", score->coverage) && ok;
}

static json_t *datasheet(const struct step_validation *v) {
    struct step_score score;
    json_t *const object = json_object();
    const bool scored = step_score_of(v->datasheet, v->datasheet_count, NULL, NULL, &score);
    return whole_or_null(object, !scored || put_score(object, &score));
}

/* ---- groups ---- */

static bool append_group(json_t *list, const struct step_validation *v,
                         const struct step_group *group) {
    struct step_score score;
    if (!step_score_of(v->errors, v->count, step_group_holds, group, &score))
        return true;
    json_t *const object =
        json_pack("{s:s, s:s}", "by", step_grouping_name(group->by), "name", group->name);
    bool ok = put_score(object, &score);
    if (step_score_of(v->datasheet, v->datasheet_count, step_group_holds, group, &score))
        ok = put_real(object, "datasheet_mape", score.mape) && ok;
    return json_array_append_new(list, whole_or_null(object, ok)) == 0;
}

static json_t *groups(const struct validate_view *view) {
    json_t *const list = json_array();
    bool ok = true;
    for (size_t by = 0; by < STEP_GROUPING_COUNT; ++by) {
        struct step_group *found = NULL;
        size_t count = 0;
        if (!view->asked->groupings[by])
            continue;
        ok = step_groups_of(view->validation->errors, view->validation->count,
                            (enum step_grouping)by, &found, &count) &&
             ok;
        for (size_t i = 0; i < count; ++i)
            ok = append_group(list, view->validation, &found[i]) && ok;
        free(found);
    }
    return whole_or_null(list, ok);
}

/* ---- memory, anchors ---- */

static json_t *memory(const struct step_validation *v) {
    struct memory_score score;
    json_t *const object = json_object();
    memory_score_of(v->memory, v->count, &score);
    bool ok = put_count(object, "rows", score.allocated_rows);
    if (score.allocated_rows > 0) {
        ok = put_real(object, "mape", score.allocated_mape) && ok;
        ok = put_real(object, "bias", score.allocated_bias) && ok;
    }
    ok = put_count(object, "reserved_rows", score.reserved_rows) && ok;
    if (score.reserved_rows > 0)
        ok = put_real(object, "reserved_mape", score.reserved_mape) && ok;
    return whole_or_null(object, put_count(object, "false_refusals", score.false_refusals) && ok);
}

static json_t *anchored(const struct validate_view *view) {
    const struct anchored_score *const score = &view->validation->anchored;
    json_t *const object = json_object();
    bool ok = put_count(object, "anchors", view->asked->anchors);
    ok = put_count(object, "groups", score->groups) && ok;
    ok = put_count(object, "anchor_rows", score->anchor_rows) && ok;
    ok = put_count(object, "rows", score->after.rows) && ok;
    if (score->after.rows == 0)
        return whole_or_null(object, ok);
    ok = put_count(object, "layouts", score->after.layouts) && ok;
    ok = put_real(object, "mape", score->after.mape) && ok;
    ok = put_real(object, "median", score->after.median) && ok;
    ok = put_real(object, "p90", score->after.p90) && ok;
    ok = put_real(object, "bias", score->after.bias) && ok;
    ok = put(object, "before",
             json_pack("{s:f, s:f, s:f, s:f}", "mape", score->before.mape, "median",
                       score->before.median, "p90", score->before.p90, "bias",
                       score->before.bias)) &&
         ok;
    return whole_or_null(object, ok);
}

/* ---- the whole ---- */

static bool put_inputs(json_t *root, const struct step_tables *tables) {
    json_t *const inputs = json_object_get(json_object_get(root, "provenance"), "inputs");
    bool ok = true;
    for (size_t i = 0; i < tables->input_count; ++i)
        ok = json_array_append_new(inputs, json_pack("{s:s, s:s}", "path", tables->inputs[i].path,
                                                     "sha256", tables->inputs[i].sha256)) == 0 &&
             ok;
    return ok;
}

static json_t *settings(const char *const *pairs) {
    json_t *const list = json_array();
    bool ok = true;
    for (size_t i = 0; pairs && pairs[i]; ++i)
        ok = json_array_append_new(list, json_string(pairs[i])) == 0 && ok;
    return whole_or_null(list, ok);
}

static json_t *warnings(const struct validate_view *view) {
    const struct step_validation *const v = view->validation;
    json_t *const list = json_array();
    bool ok = append_diagnostics(list, view->diags);
    if (v->stopped)
        ok = append_text(list, "interrupted: %zu of %zu rows are scored", v->count,
                         view->tables->steps.count) &&
             ok;
    if (view->asked->anchors > 0 && v->count > 0 && v->anchored.after.rows == 0)
        ok = append_text(list,
                         "no cluster, engine and model has more layouts than the %zu that anchor: "
                         "nothing is left to score",
                         view->asked->anchors) &&
             ok;
    return whole_or_null(list, ok);
}

json_t *build_validate(const struct validate_view *view) {
    const struct step_validation *const v = view->validation;
    const char *const status = v->stopped ? "interrupted" : v->count > 0 ? "ok" : "error";
    json_t *const root = build_head("mosaic.validate/1", NULL, 0, view->seed, status);
    struct step_score score;
    if (!root)
        return NULL;
    bool ok = put_inputs(root, view->tables);
    ok = put(root, "settings", settings(view->settings)) && ok;
    ok = put_count(root, "rows_read", view->tables->steps.rows) && ok;
    if (step_score_of(v->errors, v->count, NULL, NULL, &score)) {
        ok = put_score(root, &score) && ok;
        ok = put(root, "datasheet", datasheet(v)) && ok;
        ok = put(root, "groups", groups(view)) && ok;
        ok = put(root, "memory", memory(v)) && ok;
        if (view->asked->anchors > 0)
            ok = put(root, "anchored", anchored(view)) && ok;
    } else {
        ok = v->count == 0 && put_count(root, "rows", 0) && ok;
    }
    ok = put(root, "clusters", build_validate_clusters(v)) && ok;
    ok = put(root, "unstated", build_validate_unstated(v)) && ok;
    ok = put(root, "excluded", build_validate_excluded(view)) && ok;
    ok = put(root, "worst", build_validate_worst(v, view->asked->worst)) && ok;
    ok = put(root, "predictions", build_validate_predictions(v)) && ok;
    return whole_or_null(root, put(root, "warnings", warnings(view)) && ok);
}
