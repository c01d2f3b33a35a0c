// SPDX-License-Identifier: GPL-3.0-or-later
/* Results of predict, count, compare and lint. */
#include "plan/space_size.h"
#include "report/build.h"

#include <math.h>
#include <string.h>

static json_t *prediction_of(const struct report_point *point) {
    return build_prediction(point->problem, &point->geometry, &point->prediction, point->stages,
                            point->layout.mesh.pp);
}

static json_t *flops_per_token(const struct geometry *g, double sequence) {
    struct flop_counts f;
    count_flops(g, sequence, &f);
    return json_pack("{s:f, s:f, s:f}", "causal", f.causal, "full", f.full, "six_n", f.six_n);
}

/* What the budget buys at this speed. */
static void add_budget(json_t *o, const struct report_point *p) {
    if (!p->has_tokens)
        return;
    struct param_counts counts;
    count_params(&p->geometry, &counts);
    const struct problem *const problem = p->problem;
    const struct law_point at = candidate_point(problem, &p->geometry, p->run.tokens);
    const double epochs = candidate_epochs(problem, p->run.tokens);
    (void)json_object_set_new(o, "tokens", json_real(p->run.tokens));
    (void)json_object_set_new(o, "model_flops",
                              json_real(6.0 * counts.n_active_law * p->run.tokens));
    (void)json_object_set_new(o, "loss", json_real(p->run.loss));
    (void)json_object_set_new(o, "loss_terms", build_law_terms(&problem->law, &at));
    if (problem->objective != OBJECTIVE_LOSS)
        (void)build_put_spent(o, problem, p->run.seconds);
    if (epochs > 1.0) {
        (void)json_object_set_new(o, "epochs", json_real(epochs));
        (void)json_object_set_new(o, "tokens_effective", json_real(at.tokens));
    }
}

json_t *build_predict(const struct report_point *point, unsigned long seed) {
    const struct problem *const problem = point->problem;
    const char *const status = point->prediction.verdict == VERDICT_NO ? "infeasible" : "ok";
    json_t *const root = build_head("mosaic.predict/1", &point->document, 1, seed, status);
    json_t *const warnings = json_array(), *const why = json_array();
    if (!root || !build_setting(root, problem) || !append_diagnostics(warnings, point->diags) ||
        !append_prediction_warnings(warnings, problem, &point->prediction) ||
        !append_binding(why, &point->prediction)) {
        json_decref(root);
        json_decref(warnings);
        json_decref(why);
        return NULL;
    }
    json_t *const parts =
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "why", why, "geometry",
                  build_geometry(&point->geometry, problem->workload.sequence), "layout",
                  build_layout(problem, &point->geometry, &point->layout), "prediction",
                  prediction_of(point), "warnings", warnings);
    if (parts)
        add_budget(parts, point);
    return build_joined(root, parts);
}

json_t *build_count(const struct document *document, const struct diag_list *diags,
                    const struct geometry *g, long sequence, unsigned long seed) {
    struct param_counts c;
    count_params(g, &c);
    json_t *const root = build_head("mosaic.count/1", &document, 1, seed, "ok");
    json_t *const warnings = json_array();
    if (!append_diagnostics(warnings, diags)) {
        json_decref(root);
        json_decref(warnings);
        return NULL;
    }
    json_t *const parts = json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I}, "
        "s:o, s:o}",
        "geometry", build_geometry(g, (int)sequence), "sequence", (json_int_t)sequence, "n_total",
        (json_int_t)c.n_total, "n_active", (json_int_t)c.n_active, "n_active_no_embedding",
        (json_int_t)c.n_active_no_embedding, "n_total_law", (json_int_t)c.n_total_law,
        "n_active_law", (json_int_t)c.n_active_law, "sparsity", c.sparsity, "parts", "embedding",
        (json_int_t)c.embedding, "head", (json_int_t)c.head, "attention_layer",
        (json_int_t)c.attention_layer, "dense_ffn_layer", (json_int_t)c.dense_ffn_layer, "expert",
        (json_int_t)c.expert, "shared_layer", (json_int_t)c.shared_layer, "router_layer",
        (json_int_t)c.router_layer, "flops_per_token", flops_per_token(g, (double)sequence),
        "warnings", warnings);
    if (parts && g->mtp_layers > 0)
        (void)json_object_set_new(parts, "n_mtp", json_integer((json_int_t)c.n_mtp));
    return build_joined(root, parts);
}

static json_t *side(const struct report_point *p) {
    const struct problem *const problem = p->problem;
    json_t *const o =
        json_pack("{s:s, s:o, s:o, s:o}", "path", p->document->path, "geometry",
                  build_geometry(&p->geometry, problem->workload.sequence), "layout",
                  build_layout(problem, &p->geometry, &p->layout), "prediction", prediction_of(p));
    if (o)
        add_budget(o, p);
    return o;
}

static bool add_term(json_t *list, const char *key, const char *unit, double a, double b) {
    json_t *const row = json_pack("{s:s, s:s, s:f, s:f, s:f}", "key", key, "unit", unit, "a", a,
                                  "b", b, "difference", b - a);
    if (row && a != 0.0 && isfinite(b / a))
        (void)json_object_set_new(row, "ratio", json_real(b / a));
    return json_array_append_new(list, row) == 0;
}

/* What a target takes, where both ask for one. */
static bool add_spent(json_t *list, const struct report_point *a, const struct report_point *b) {
    const struct problem *const p = a->problem, *const q = b->problem;
    if (!objective_has_target(p->objective) || !objective_has_target(q->objective))
        return true;
    json_t *const of_a = json_object(), *const of_b = json_object();
    bool ok = build_put_spent(of_a, p, a->run.seconds) && build_put_spent(of_b, q, b->run.seconds);
    const char *key;
    json_t *value;
    json_object_foreach(of_a, key, value) {
        json_t *const other = json_object_get(of_b, key);
        const char *const unit = strcmp(key, "days") == 0       ? "day"
                                 : strcmp(key, "cost_usd") == 0 ? "USD"
                                                                : "h";
        ok = ok &&
             (!other || add_term(list, key, unit, json_real_value(value), json_real_value(other)));
    }
    json_decref(of_a);
    json_decref(of_b);
    return ok;
}

static json_t *terms(const struct report_point *a, const struct report_point *b) {
    json_t *const list = json_array();
    const struct prediction *const p = &a->prediction, *const q = &b->prediction;
    bool ok = list && append_times(list, add_term, p, q);
    ok = ok && add_term(list, "mfu", "1", p->mfu, q->mfu) &&
         add_term(list, "mfu_6n", "1", p->mfu_6n, q->mfu_6n) &&
         add_term(list, "tokens_per_s_per_gpu", "1/s", p->tokens_per_s_per_gpu,
                  q->tokens_per_s_per_gpu);
    ok = ok && append_memory(list, add_term, p, q);
    if (ok && a->has_tokens && b->has_tokens)
        ok = add_term(list, "tokens", "1", a->run.tokens, b->run.tokens) &&
             add_term(list, "loss", "nat", a->run.loss, b->run.loss) && add_spent(list, a, b);
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static double loss_at(const struct report_point *p, double tokens) {
    const struct problem *const problem = p->problem;
    const struct law_point point = candidate_point(problem, &p->geometry, tokens);
    return law_loss(&problem->law, &point);
}

/* Tokens that C model FLOPs pay, or that a peak budget does at the predicted MFU. */
static double tokens_at(const struct report_point *p, double flops, bool is_peak) {
    struct param_counts counts;
    count_params(&p->geometry, &counts);
    return flops * (is_peak ? p->prediction.mfu_6n : 1.0) / (6.0 * counts.n_active_law);
}

static json_t *at_equal_row(const struct report_point *a, const struct report_point *b,
                            double flops, bool is_peak) {
    const double tokens_a = tokens_at(a, flops, is_peak), tokens_b = tokens_at(b, flops, is_peak);
    const double loss_a = loss_at(a, tokens_a), loss_b = loss_at(b, tokens_b);
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:s}", "basis",
                     is_peak ? "peak_flops" : "model_flops", "flops", flops, "tokens_a", tokens_a,
                     "tokens_b", tokens_b, "loss_a", loss_a, "loss_b", loss_b, "leader",
                     loss_a < loss_b   ? "a"
                     : loss_b < loss_a ? "b"
                                       : "none");
}

/* Model FLOPs: the first document's comparison budget, or what its own plan spends; peak: its
 * cluster's peak over its days. */
static json_t *at_equal(const struct report_point *a, const struct report_point *b) {
    const struct problem *const problem = a->problem;
    const double seconds = isfinite(problem->budget.seconds) ? problem->budget.seconds
                                                             : a->run.seconds; /* to the target */
    const double peak = problem->cluster.device.peak_flop_per_s[problem->workload.precision] *
                        (double)cluster_gpus(&problem->cluster) * seconds * problem->budget.goodput;
    const double model = problem->budget.model_flops > 0.0 ? problem->budget.model_flops
                                                           : peak * a->prediction.mfu_6n;
    if (!(peak > 0.0)) /* a target that the first of them does not reach */
        return json_array();
    return json_pack("[o, o]", at_equal_row(a, b, model, false), at_equal_row(a, b, peak, true));
}

json_t *build_compare(const struct report_point *a, const struct report_point *b,
                      unsigned long seed) {
    const struct document *const documents[] = {a->document, b->document};
    const bool fits = a->prediction.verdict != VERDICT_NO && b->prediction.verdict != VERDICT_NO;
    json_t *const root =
        build_head("mosaic.compare/1", documents, 2, seed, fits ? "ok" : "infeasible");
    json_t *const warnings = json_array();
    const struct report_point *const points[] = {a, b};
    bool ok = true;
    for (int i = 0; i < 2; ++i)
        ok = append_prediction_warnings(warnings, points[i]->problem, &points[i]->prediction) && ok;
    json_t *const parts =
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "a", side(a), "b", side(b), "terms", terms(a, b),
                  "at_equal", at_equal(a, b), "warnings", warnings);
    if (!ok) {
        json_decref(root);
        json_decref(parts);
        return NULL;
    }
    return build_joined(root, parts);
}

/* How much a plan would look at. */
static json_t *space_of(const struct document *document) {
    struct space_size size;
    if (!document->has_problem)
        return NULL;
    space_size_estimate(&document->problem, &size);
    return json_pack("{s:I, s:f, s:I}", "geometries", (json_int_t)size.geometries, "meshes",
                     size.meshes, "searches", (json_int_t)size.searches);
}

json_t *build_lint(const struct document *document, const struct diag_list *diags,
                   unsigned long seed) {
    json_t *const root = build_head("mosaic.lint/1", &document, 1, seed, "ok");
    json_t *const values = json_array(), *const warnings = json_array();
    for (size_t i = 0; i < document->value_count; ++i) {
        const struct document_value *const v = &document->values[i];
        json_t *const row = json_pack("{s:s, s:s, s:s}", "key", v->path, "value", v->text, "origin",
                                      document_origin_name(v->origin));
        if (row && v->place.line > 0)
            (void)json_object_set_new(row, "line", json_integer(v->place.line));
        if (row && v->help && v->help[0])
            (void)json_object_set_new(row, "help", json_string(v->help));
        (void)json_array_append_new(values, row);
    }
    if (!append_diagnostics(warnings, diags)) {
        json_decref(root);
        json_decref(values);
        json_decref(warnings);
        return NULL;
    }
    return build_joined(
        root, json_pack("{s:{s:s, s:s}, s:o*, s:o, s:o}", "document", "path", document->path,
                        "kind", document_schema_name(document->kind), "space", space_of(document),
                        "values", values, "warnings", warnings));
}
