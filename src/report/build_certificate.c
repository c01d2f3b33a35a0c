// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A mosaic.certificate/1: what a plan claims, geometry by geometry, so that a program that shares
 * nothing with the search can check it.  Each geometry of the declared space stands there once, in
 * the order of the space, with what settles it: a value (its best layout and what that comes to) or
 * a bound of its step time with the score that follows.  The claim: no score below the best one.
 * Where steps were measured, the table with its layouts and the factors that follow for the steps
 * of their models: all step times and bounds hold them.
 */
#include "doc/doc_measured.h"
#include "report/build.h"
#include "report/put.h"
#include "report/score.h"

#include <math.h>
#include <stdlib.h>

/* What tells a geometry from the others of its space. */
static json_t *shape(const struct geometry *g) {
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f}", "layers",
                     g->layers, "first_dense", g->first_dense, "hidden", g->hidden, "heads",
                     g->heads, "kv_heads", g->kv_heads, "head_dim", g->head_dim, "dense_ffn",
                     g->dense_ffn, "experts", g->experts, "top_k", g->top_k, "shared_experts",
                     g->shared_experts, "expert_ffn", g->expert_ffn, "granularity", g->granularity);
}

static bool put_value(json_t *row, const struct problem *problem, size_t index,
                      const struct geometry_memo *memo) {
    const struct geometry *const g = &problem->geometries.items[index];
    struct candidate c;
    if (!memo->best->found)
        return true;
    const bool ok = put_real(row, "step_time_s", memo->best->step_time_s) &&
                    put(row, "layout", build_layout(problem, g, &memo->best->layout));
    if (!ok || !candidate_fill(problem, index, memo->best, &c))
        return ok;
    return put_real(row, "tokens", c.run.tokens) && put_real(row, "loss", c.run.loss) &&
           put_real(row, "score", c.run.score);
}

static json_t *entry(const struct plan_report *r, const struct search_memo *memo, size_t i) {
    const struct problem *const problem = r->problem;
    const struct geometry_fate *const fate = &r->search->fates[i];
    json_t *const row =
        json_pack("{s:I, s:o, s:s}", "index", (json_int_t)i, "geometry",
                  shape(&problem->geometries.items[i]), "end", geometry_end_name(fate->end));
    if (!row || !fate->is_bounded)
        return row;
    const struct geometry_memo *const known = &memo->items[i];
    const bool is_opened = fate->end == END_SOLVED || fate->end == END_FEW_TOKENS;
    const bool ok =
        put_count(row, "meshes", (size_t)known->bound_counts.meshes) &&
        (!isfinite(fate->bound_s) || put_real(row, "bound_s", fate->bound_s)) &&
        (!isfinite(fate->score_bound) || put_real(row, "score_bound", fate->score_bound)) &&
        (!is_opened || put_value(row, problem, i, known));
    return whole_or_null(row, ok);
}

static json_t *entries(const struct plan_report *r, const struct search_memo *memo) {
    json_t *const list = json_array();
    for (size_t i = 0; list && i < r->problem->geometries.count; ++i)
        if (json_array_append_new(list, entry(r, memo, i)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *best(const struct search_result *s) {
    if (s->kept_count == 0)
        return NULL;
    return json_pack("{s:I, s:f}", "index", (json_int_t)s->kept[0].index, "score",
                     s->kept[0].run.score);
}

/* ---- measured steps ---- */

static json_t *measured_layout(const struct problem *problem, const struct measured_layout *m) {
    return json_pack("{s:I, s:i, s:I, s:f, s:o}", "index", (json_int_t)m->index, "nodes", m->nodes,
                     "steps", (json_int_t)m->steps, "step_time_s", measured_layout_s(m), "layout",
                     build_layout(problem, &problem->geometries.items[m->index], &m->layout));
}

static json_t *factor(const struct problem *problem, size_t index) {
    const struct anchor *const a =
        anchor_find(problem->workload.anchors, &problem->geometries.items[index]);
    return a ? json_pack("{s:I, s:I, s:f}", "index", (json_int_t)index, "steps",
                         (json_int_t)a->residual.steps, "log_factor", a->residual.log_factor)
             : NULL;
}

static bool is_first_of_model(const struct measured_layouts *list, size_t i) {
    for (size_t k = 0; k < i; ++k)
        if (list->items[k].index == list->items[i].index)
            return false;
    return true;
}

static json_t *measured(const struct plan_report *r) {
    const struct measured_table *const t = r->measured->table;
    json_t *const layouts = json_array(), *const factors = json_array();
    bool ok = layouts && factors;
    for (size_t i = 0; ok && i < t->layouts.count; ++i) {
        struct problem at;
        problem_on(r->declared, t->layouts.items[i].nodes, &at);
        ok = json_array_append_new(layouts, measured_layout(&at, &t->layouts.items[i])) == 0;
        if (is_first_of_model(&t->layouts, i))
            ok = ok &&
                 json_array_append_new(factors, factor(r->problem, t->layouts.items[i].index)) == 0;
    }
    json_t *const o = json_pack("{s:s, s:s, s:o, s:o}", "path", t->input.path, "sha256",
                                t->input.sha256, "layouts", layouts, "factors", factors);
    return whole_or_null(o, ok);
}

/* ---- the whole ---- */

char *build_certificate(const struct plan_report *r, const struct search_memo *memo,
                        unsigned long seed) {
    const struct search_result *const s = r->search;
    json_t *const root =
        build_head("mosaic.certificate/1", &r->document, 1, seed, build_search_status(s->status));
    json_t *const steps = r->measured ? measured(r) : NULL;
    json_t *const parts = json_pack(
        "{s:s, s:s, s:i, s:o*, s:o*, s:o*, s:o*, s:o}", "objective",
        objective_name(r->problem->objective), "unit", score_unit(r->problem)->unit, "nodes",
        r->problem->cluster.nodes, "target_loss",
        r->problem->budget.target_loss > 0.0 ? json_real(r->problem->budget.target_loss) : NULL,
        "measured", steps, "gap", s->proof.has_gap ? json_real(s->proof.gap) : NULL, "best",
        best(s), "geometries", entries(r, memo));
    json_t *const whole = whole_or_null(build_joined(root, parts), steps || !r->measured);
    char *const text = whole ? json_dumps(whole, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(whole);
    return text;
}
