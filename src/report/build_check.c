// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The result of `check`: a row a metric with its verdict; for each file that changed, the terms
 * that changed most and the inputs whose hashes did.
 */
#include "report/check_view.h"
#include "report/put.h"

#include <math.h>
#include <string.h>

enum verdict_of_row { ROW_SAME, ROW_NEW, ROW_BETTER, ROW_REGRESSION };
static const char *const row_words[] = {[ROW_SAME] = "same",
                                        [ROW_BETTER] = "better",
                                        [ROW_NEW] = "new",
                                        [ROW_REGRESSION] = "regression"};
static const char *const status_words[] = {"ok", "infeasible"};

enum { CAUSES = 3 };

/* One file while its rows are made. */
struct pair {
    const struct baseline_entry *was, *now; /* was NULL: a new file */
    const struct check_settings *settings;
    enum verdict_of_row verdict;                /* the worst of its rows */
    enum verdict_of_row rows[BASELINE_METRICS]; /* by metric */
};

/* Worse by more than the tolerance, better by more than it, or neither. */
static enum verdict_of_row judge(double was, double now, bool more_is_better, double limit) {
    const double worse = more_is_better ? was - now : now - was;
    return worse > limit ? ROW_REGRESSION : -worse > limit ? ROW_BETTER : ROW_SAME;
}

/* The columns of CSV are in the order of a row's keys: the verdict is in all of them. */
static json_t *row_head(struct pair *p, const char *metric, const char *unit,
                        enum verdict_of_row verdict) {
    if (verdict > p->verdict)
        p->verdict = verdict;
    return json_pack("{s:s, s:s, s:s, s:s}", "file", p->now->file, "metric", metric, "unit", unit,
                     "verdict", row_words[verdict]);
}

static bool add_row(json_t *rows, json_t *row, bool ok) {
    return json_array_append_new(rows, whole_or_null(row, ok)) == 0;
}

/* Feasible or not, as 1 and 0, where either is not. */
static bool add_feasible(json_t *rows, struct pair *p) {
    const int now = !p->now->is_infeasible, was = p->was ? !p->was->is_infeasible : now;
    if (was && now)
        return true;
    json_t *const row =
        row_head(p, "feasible", "1", p->was ? judge((double)was, (double)now, true, 0.0) : ROW_NEW);
    bool ok = row != NULL;
    if (p->was)
        ok = ok && put(row, "baseline", json_integer(was));
    ok = ok && put(row, "now", json_integer(now));
    if (p->was)
        ok = ok && put(row, "difference", json_integer(now - was));
    return add_row(rows, row, ok);
}

static bool put_difference(json_t *row, double was, double now) {
    const bool has_ratio = fabs(was) > 0.0;
    return put_real(row, "difference", now - was) &&
           (!has_ratio || put_real(row, "relative", (now - was) / fabs(was)));
}

static bool add_metric(json_t *rows, struct pair *p, enum baseline_metric metric) {
    const struct baseline_metric_info *const info = baseline_metric_info(metric);
    const struct check_tolerance *const t = &p->settings->tolerances[metric];
    const struct baseline_number *const now = baseline_number(&p->now->metrics, info->key);
    const struct baseline_number *const was =
        p->was ? baseline_number(&p->was->metrics, info->key) : NULL;
    /* What an infeasible plan lacks is said once; tokens are no merit where a target is reached. */
    const bool is_target =
        baseline_number(&p->now->metrics, baseline_metric_info(BASELINE_DAYS)->key) != NULL;
    if ((!was && !now) ||
        (!now && (p->now->is_infeasible || (metric == BASELINE_TOKENS && is_target))))
        return true;
    enum verdict_of_row verdict = !was ? ROW_NEW : ROW_REGRESSION;
    if (was && now)
        verdict = judge(was->value, now->value, info->more_is_better,
                        t->is_absolute ? t->value : t->value * fabs(was->value));
    p->rows[metric] = verdict;
    json_t *const row = row_head(p, info->key, info->unit, verdict);
    bool ok = row != NULL;
    if (was)
        ok = ok && put_real(row, "baseline", was->value);
    if (now)
        ok = ok && put_real(row, "now", now->value);
    if (was && now)
        ok = ok && put_difference(row, was->value, now->value);
    ok = ok && put_real(row, "tolerance", t->value) &&
         put(row, "basis", json_string(t->is_absolute ? "absolute" : "relative"));
    return add_row(rows, row, ok);
}

/* ---- causes ---- */

struct cause {
    const char *key;
    double was, now;
};

static double size_of(const struct cause *c) {
    return fabs(c->now - c->was);
}

/* Keeps the list in order, largest change first; the first of equals stays first. */
static size_t keep(struct cause list[CAUSES], size_t count, struct cause cause) {
    size_t at = count < CAUSES ? count : CAUSES;
    while (at > 0 && size_of(&cause) > size_of(&list[at - 1])) {
        if (at < CAUSES)
            list[at] = list[at - 1];
        at--;
    }
    if (at < CAUSES)
        list[at] = cause;
    return count < CAUSES ? count + 1 : CAUSES;
}

/* A term that one side lacks was or is zero. */
static size_t largest(const struct baseline_numbers *was, const struct baseline_numbers *now,
                      struct cause list[CAUSES]) {
    size_t count = 0;
    for (size_t i = 0; i < now->count; ++i) {
        const struct baseline_number *const old = baseline_number(was, now->items[i].key);
        const struct cause cause = {now->items[i].key, old ? old->value : 0.0, now->items[i].value};
        if (size_of(&cause) > 0.0)
            count = keep(list, count, cause);
    }
    for (size_t i = 0; i < was->count; ++i) {
        const struct cause cause = {was->items[i].key, was->items[i].value, 0.0};
        if (!baseline_number(now, cause.key) && size_of(&cause) > 0.0)
            count = keep(list, count, cause);
    }
    return count;
}

static bool add_causes(json_t *list, const char *kind, const char *unit,
                       const struct baseline_numbers *was, const struct baseline_numbers *now) {
    struct cause causes[CAUSES];
    const size_t count = largest(was, now, causes);
    bool ok = true;
    for (size_t i = 0; ok && i < count; ++i) {
        json_t *const row = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f}", "kind", kind, "key",
                                      causes[i].key, "unit", unit, "baseline", causes[i].was, "now",
                                      causes[i].now, "difference", causes[i].now - causes[i].was);
        ok = json_array_append_new(list, row) == 0;
    }
    return ok;
}

static json_t *causes_of(const struct pair *p) {
    json_t *const list = json_array();
    bool ok = list != NULL, has_time = false;
    for (int i = 0; i < BASELINE_METRICS; ++i)
        has_time = has_time || (i != BASELINE_MEMORY && p->rows[i] != ROW_SAME);
    const bool was_lost = p->now->is_infeasible != p->was->is_infeasible;
    if (has_time)
        ok = ok && add_causes(list, "time", "s", &p->was->time_split, &p->now->time_split);
    if (p->rows[BASELINE_MEMORY] != ROW_SAME || (was_lost && p->now->memory.count > 0))
        ok = ok && add_causes(list, "memory", "byte", &p->was->memory, &p->now->memory);
    if (p->rows[BASELINE_LOSS] != ROW_SAME || p->rows[BASELINE_DAYS] != ROW_SAME)
        ok = ok && add_causes(list, "loss", "nat", &p->was->loss_terms, &p->now->loss_terms);
    return whole_or_null(list, ok);
}

/* ---- inputs ---- */

static bool add_change(json_t *list, const char *what, const char *name, const char *change) {
    return json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "kind", what, "name", name,
                                                 "change", change)) == 0;
}

static bool add_changes(json_t *list, const char *what, const struct record_list *was,
                        const struct record_list *now) {
    bool ok = true;
    for (size_t i = 0; i < now->count; ++i) {
        const struct baseline_pair *const n = baseline_pair(now, i);
        const struct baseline_pair *const w = baseline_pair_of(was, n->name);
        if (!w)
            ok = ok && add_change(list, what, n->name, "added");
        else if (strcmp(w->value, n->value) != 0)
            ok = ok && add_change(list, what, n->name, "changed");
    }
    for (size_t i = 0; i < was->count; ++i)
        if (!baseline_pair_of(now, baseline_pair(was, i)->name))
            ok = ok && add_change(list, what, baseline_pair(was, i)->name, "removed");
    return ok;
}

static json_t *changes_of(const struct pair *p) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    if (strcmp(p->was->sha256, p->now->sha256) != 0)
        ok = ok && add_changes(list, "input", &p->was->inputs, &p->now->inputs) &&
             add_changes(list, "override", &p->was->overrides, &p->now->overrides);
    return whole_or_null(list, ok);
}

/* ---- files ---- */

static bool put_text(json_t *o, const char *key, const char *text) {
    return !text || put(o, key, json_string(text));
}

static bool differ(const char *was, const char *now) {
    return was && now && strcmp(was, now) != 0;
}

static json_t *file_of(const struct pair *p) {
    const struct baseline_entry *const now = p->now, *const was = p->was;
    json_t *const o =
        json_pack("{s:s, s:s, s:s, s:s}", "file", now->file, "verdict", row_words[p->verdict],
                  "status", status_words[now->is_infeasible], "sha256", now->sha256);
    bool ok = o && put_text(o, "model", now->model) && put_text(o, "layout", now->layout);
    if (ok && was) {
        ok = put(o, "baseline_status", json_string(status_words[was->is_infeasible])) &&
             put(o, "changed", changes_of(p)) && put(o, "causes", causes_of(p));
        if (differ(was->model, now->model))
            ok = ok && put_text(o, "baseline_model", was->model);
        if (differ(was->layout, now->layout))
            ok = ok && put_text(o, "baseline_layout", was->layout);
    }
    return whole_or_null(o, ok);
}

static bool add_file(json_t *rows, json_t *files, struct pair *p) {
    bool ok = add_feasible(rows, p);
    for (int i = 0; i < BASELINE_METRICS; ++i)
        ok = ok && add_metric(rows, p, (enum baseline_metric)i);
    return ok && json_array_append_new(files, file_of(p)) == 0;
}

static bool add_warnings(json_t *warnings, const struct check_view *v) {
    bool ok = append_diagnostics(warnings, v->diags);
    if (!v->was || v->settings->update)
        return ok;
    if (strcmp(v->was->version, v->now->version) != 0)
        ok = append_text(warnings, "the baseline was made by mosaic %s, this is %s",
                         v->was->version, v->now->version) &&
             ok;
    for (size_t i = 0; i < v->was->files.count; ++i) {
        const char *const file = baseline_entry(v->was, i)->file;
        if (!baseline_find(v->now, file))
            ok = append_text(warnings, "%s stands in the baseline and is not checked", file) && ok;
    }
    return ok;
}

static json_t *counts_json(const json_t *rows, const json_t *files) {
    size_t counts[ROW_REGRESSION + 1] = {0}, i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        const char *const verdict = json_string_value(json_object_get(row, "verdict"));
        for (size_t k = 0; k <= ROW_REGRESSION; ++k)
            counts[k] += strcmp(verdict, row_words[k]) == 0;
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "files", (json_int_t)json_array_size(files),
                     "metrics", (json_int_t)json_array_size(rows), "same",
                     (json_int_t)counts[ROW_SAME], "better", (json_int_t)counts[ROW_BETTER], "new",
                     (json_int_t)counts[ROW_NEW], "regressions",
                     (json_int_t)counts[ROW_REGRESSION]);
}

/* Rows and files; false where memory is short. */
static bool compare_all(const struct check_view *v, json_t *rows, json_t *files,
                        struct check_counts *counts) {
    bool ok = rows && files;
    *counts = (struct check_counts){0};
    for (size_t i = 0; ok && i < v->now->files.count; ++i) {
        const struct baseline_entry *const now = baseline_entry(v->now, i);
        struct pair p = {.was = v->was ? baseline_find(v->was, now->file) : NULL,
                         .now = now,
                         .settings = v->settings};
        ok = add_file(rows, files, &p);
        counts->files += p.verdict == ROW_REGRESSION;
    }
    return ok;
}

json_t *build_check(const struct check_view *view, struct check_counts *counts) {
    json_t *const rows = json_array(), *const files = json_array(), *const warnings = json_array();
    const bool ok = compare_all(view, rows, files, counts) && add_warnings(warnings, view);
    json_t *const summary = ok ? counts_json(rows, files) : NULL;
    const char *const made_by = view->was ? view->was->version : NULL;
    if (summary)
        counts->regressions = (size_t)json_integer_value(json_object_get(summary, "regressions"));
    const char *const status = view->settings->update    ? "updated"
                               : counts->regressions > 0 ? "regression"
                                                         : "ok";
    json_t *const root =
        build_head("mosaic.check/1", view->documents, view->document_count, view->seed, status);
    json_t *const parts = json_pack("{s:{s:s, s:s*}, s:o, s:o, s:o, s:o}", "baseline", "path",
                                    view->settings->baseline, "version", made_by, "counts", summary,
                                    "differences", rows, "files", files, "warnings", warnings);
    if (!parts)
        json_decref(root);
    return parts ? build_joined(root, parts) : NULL;
}
