// SPDX-License-Identifier: GPL-3.0-or-later
/* The result of `plan`: mosaic.plan/1. */
#include "report/build.h"
#include "report/score.h"

#include <math.h>
#include <string.h>

json_t *build_candidate(const struct problem *problem, const struct candidate *c, int rank) {
    const struct geometry *const g = &problem->geometries.items[c->index];
    struct param_counts counts;
    struct prediction prediction;
    struct memory_items stages[LAYOUT_MAX_PP];
    count_params(g, &counts);
    best_layout_predict(problem, g, &c->layout, &prediction, stages);
    const struct law_point point = candidate_point(problem, g, c->run.tokens);
    static const char *const limits[] = {"budget", "tokens_per_active_parameter", "target_loss",
                                         "least_tokens_per_active_parameter"};
    json_t *const o = json_object();
    if (rank > 0)
        (void)json_object_set_new(o, "rank", json_integer(rank));
    json_t *const rest = json_pack(
        "{s:o, s:o, s:f, s:f, s:s, s:f, s:f, s:o, s:f, s:o}", "geometry",
        build_geometry(g, problem->workload.sequence), "layout",
        build_layout(problem, g, &c->layout), "tokens", c->run.tokens, "tokens_per_active",
        c->run.tokens / counts.n_active_law, "tokens_limited_by", limits[c->run.limited_by],
        "spare_days", c->run.spare_seconds / UNITS_SECONDS_PER_DAY, "model_flops", c->model_flops,
        "loss_terms", build_law_terms(&problem->law, &point), "loss", c->run.loss, "prediction",
        build_prediction(problem, g, &prediction, stages, c->layout.mesh.pp));
    const int failed = rest ? json_object_update(o, rest) : -1;
    json_decref(rest);
    const double epochs = candidate_epochs(problem, c->run.tokens);
    const bool shows_spent = problem->objective != OBJECTIVE_LOSS;
    if (failed || (shows_spent && !build_put_spent(o, problem, c->run.seconds)) ||
        (epochs > 1.0 &&
         (json_object_set_new(o, "epochs", json_real(epochs)) != 0 ||
          json_object_set_new(o, "tokens_effective", json_real(point.tokens)) != 0))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* Kept candidates from `first` to before `last`, ranked. */
static json_t *candidates(const struct plan_report *r, size_t first, size_t last) {
    json_t *const list = json_array();
    for (size_t i = first; i < last && i < r->search->kept_count; ++i)
        if (json_array_append_new(
                list, build_candidate(r->problem, &r->search->kept[i], (int)i + 1)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *continuous(const struct law_optimum *o) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "n_total", o->point.n_total, "n_active",
                     o->n_active, "tokens", o->point.tokens, "sparsity", o->point.sparsity,
                     "granularity", o->point.granularity, "loss", o->loss, "at_bound",
                     (int)o->at_bound);
}

/* What the geometry that wins on paper would really reach here; absent when it was not opened. */
static const struct candidate *kept_by_index(const struct search_result *s, size_t index) {
    for (size_t i = 0; i < s->kept_count; ++i)
        if (s->kept[i].index == index)
            return &s->kept[i];
    return NULL;
}

static json_t *compute_optimal(const struct plan_report *r) {
    const struct paper_optimum *const p = r->paper;
    if (!p)
        return NULL;
    const struct problem *const problem = r->problem;
    json_t *const o = json_pack("{s:f}", "model_flops", p->model_flops);
    if (!o)
        return NULL;
    if (p->has_grid) {
        json_t *const grid = json_pack(
            "{s:o, s:f, s:f}", "geometry",
            build_geometry(&problem->geometries.items[p->index], problem->workload.sequence),
            "tokens", p->tokens, "loss", p->loss);
        const struct candidate *const kept = kept_by_index(r->search, p->index);
        if (kept)
            (void)json_object_set_new(grid, "loss_deliverable", json_real(kept->run.loss));
        (void)json_object_set_new(o, "grid", grid);
    }
    if (p->has_continuous)
        (void)json_object_set_new(o, "continuous",
                                  json_pack("{s:f, s:o, s:o}", "sparsity_max", p->sparsity_max,
                                            "bounded", continuous(&p->bounded), "free",
                                            continuous(&p->free)));
    return o;
}

/* One point a bin; its sparsity is the bin's middle in ln(1 - S). */
static json_t *curve(const struct plan_report *r) {
    const struct search_result *const s = r->search;
    const struct score_unit *const unit = score_unit(r->problem);
    char key[SCORE_TEXT_MAX];
    (void)snprintf(key, sizeof key, "%s_deliverable", unit->name);
    json_t *const list = json_array();
    for (int b = 0; b < s->bin_count; ++b) {
        const struct sparsity_bin *const bin = &s->bins[b];
        if (!bin->has_deliverable && !bin->has_model_flops)
            continue;
        const double middle = 1.0 - sqrt((1.0 - bin->low) * (1.0 - bin->high));
        json_t *const point =
            json_pack("{s:f, s:f, s:f}", "sparsity", middle, "low", bin->low, "high", bin->high);
        if (bin->has_model_flops) {
            (void)json_object_set_new(point, "loss_model_flops", json_real(bin->loss_model_flops));
            (void)json_object_set_new(point, "sparsity_model_flops",
                                      json_real(bin->model_flops_sparsity));
        }
        if (bin->has_deliverable) {
            (void)json_object_set_new(point, "loss_deliverable", json_real(bin->loss_deliverable));
            (void)json_object_set_new(point, "sparsity_deliverable",
                                      json_real(bin->deliverable_sparsity));
            if (r->problem->objective != OBJECTIVE_LOSS)
                (void)json_object_set_new(point, key, json_real(bin->score * unit->scale));
        }
        (void)json_array_append_new(list, point);
    }
    return list;
}

static json_t *elasticities(const struct plan_report *r) {
    const struct mfu_elasticities *const e = r->elasticities;
    if (!e || !e->is_known)
        return NULL;
    return json_pack("{s:{s:f, s:f, s:f, s:f, s:i}}", "mfu", "n_total", e->n, "one_minus_sparsity",
                     e->sparsity, "granularity", -e->granularity, "rms", e->rms, "neighbours",
                     e->neighbours);
}

static json_t *proof(const struct plan_report *r) {
    const struct search_result *const s = r->search;
    const struct search_proof *const p = &s->proof;
    const struct layout_counts *const b = &p->bound_counts, *const c = &p->counts;
    json_t *const o = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:s}", "geometries", (json_int_t)p->geometries, "meshes",
        (json_int_t)b->meshes, "evaluations", (json_int_t)c->work.evaluations, "stage_programs",
        (json_int_t)c->work.programs, "bounds", (json_int_t)b->bounded + (json_int_t)c->bounded,
        "scope", "in the declared space, under this model and law");
    if (p->has_gap) {
        const struct score_unit *const unit = score_unit(r->problem);
        char key[SCORE_TEXT_MAX];
        (void)snprintf(key, sizeof key, "gap_%s", unit->unit);
        (void)json_object_set_new(o, key, json_real(p->gap * fabs(unit->scale)));
    }
    static const enum geometry_end order[] = {END_BY_BOUND,  END_BY_TOKENS, END_BY_MEMORY,
                                              END_BY_LAYOUT, END_SOLVED,    END_FEW_TOKENS,
                                              END_TOO_LARGE, END_OPEN};
    json_t *const closed_by = json_object();
    for (size_t i = 0; i < sizeof order / sizeof *order; ++i)
        (void)json_object_set_new(closed_by, geometry_end_name(order[i]),
                                  json_integer((json_int_t)p->ended[order[i]]));
    (void)json_object_set_new(o, "closed_by", closed_by);
    (void)json_object_set_new(
        o, "meshes_closed_by",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "memory_bound", (json_int_t)b->closed_by_memory,
                  "shape_bound", (json_int_t)b->closed_by_shape, "time_bound",
                  (json_int_t)c->closed_by_bound, "opened", (json_int_t)c->opened,
                  "opened_too_large", (json_int_t)c->too_large, "mfu_above_one",
                  (json_int_t)c->implausible));
    (void)json_object_set_new(o, "points_excluded",
                              json_pack("{s:I, s:I, s:I}", "indivisible",
                                        (json_int_t)b->census.indivisible, "unmeasured_ranks",
                                        (json_int_t)b->census.unmeasured, "engine_rules",
                                        (json_int_t)b->census.engine_rule));
    return o;
}

/* A loss out of reach; days_needed: of the model that would be there first, at its best speed. */
static void target_shortfall(json_t *o, const struct shortfall *s, char *text, size_t size) {
    const int used = snprintf(text, size, "target_loss: %.4f nats asked for, ", s->target_loss);
    if (isfinite(s->least_loss))
        (void)snprintf(text + used, size - (size_t)used,
                       "and no model of the space reaches less than %.4f within the tokens that "
                       "the budget and search.tokens.per_active_parameter allow",
                       s->least_loss);
    else
        (void)snprintf(text + used, size - (size_t)used,
                       "and the budget buys no model of the space the tokens that "
                       "search.tokens.per_active_parameter asks for");
    (void)json_object_set_new(o, "target_loss", json_real(s->target_loss));
    if (isfinite(s->least_loss))
        (void)json_object_set_new(o, "least_loss", json_real(s->least_loss));
    if (s->days_needed > 0.0)
        (void)json_object_set_new(o, "days_needed", json_real(s->days_needed));
}

json_t *build_shortfall(const struct shortfall *s) {
    if (!s)
        return NULL;
    json_t *const o = json_pack("{s:s}", "limit", shortfall_name(s->limit));
    const double gib = UNITS_BYTES_PER_GIB;
    char text[1024];
    switch (s->limit) {
    case SHORTFALL_MEMORY:
        (void)snprintf(text, sizeof text,
                       "device memory: the leanest layout on %d GPUs needs %.1f GiB on its fullest "
                       "one, which has %.1f GiB",
                       s->gpus, s->needed_bytes / gib, s->capacity_bytes / gib);
        if (isfinite(s->needed_bytes))
            (void)json_object_set_new(o, "needed_bytes", json_real(ceil(s->needed_bytes)));
        else
            (void)snprintf(text, sizeof text, "device memory: no layout on %d GPUs holds a model",
                           s->gpus);
        (void)json_object_set_new(o, "capacity_bytes", json_real(s->capacity_bytes));
        if (s->host_needed_bytes > 0.0) {
            (void)snprintf(text, sizeof text,
                           "host memory: the leanest layout on %d GPUs keeps %.1f GiB on its "
                           "fullest node's host, which has %.1f GiB",
                           s->gpus, s->host_needed_bytes / gib, s->host_capacity_bytes / gib);
            (void)json_object_set_new(o, "host_needed_bytes",
                                      json_real(ceil(s->host_needed_bytes)));
            (void)json_object_set_new(o, "host_capacity_bytes", json_real(s->host_capacity_bytes));
        }
        if (s->gpus_needed > 0)
            (void)json_object_set_new(o, "minimum_gpus", json_integer(s->gpus_needed));
        else
            (void)json_object_set_new(o, "gpus_tried", json_integer(s->gpus_tried));
        break;
    case SHORTFALL_TOKENS:
        (void)snprintf(text, sizeof text,
                       "tokens: the budget buys at most %.3g tokens per active parameter, the "
                       "declared least is %.3g",
                       s->tokens_per_active, s->tokens_per_active_min);
        if (s->days_needed > 0.0)
            (void)json_object_set_new(o, "days_needed", json_real(s->days_needed));
        break;
    case SHORTFALL_TARGET:
        target_shortfall(o, s, text, sizeof text);
        break;
    case SHORTFALL_MFU:
        (void)snprintf(
            text, sizeof text,
            "every layout that fits is predicted above 100 %% MFU: a peak, a calibration "
            "or a FLOPs convention must be wrong");
        break;
    case SHORTFALL_LAYOUT:
        (void)snprintf(text, sizeof text, "no legal layout on %d GPUs: %s", s->gpus, s->first_rule);
        break;
    }
    (void)json_object_set_new(o, "message", json_string(text));
    return o;
}

const char *build_search_status(enum search_status status) {
    switch (status) {
    case SEARCH_OPTIMAL:
        return "optimal";
    case SEARCH_INFEASIBLE:
        return "infeasible";
    case SEARCH_LIMIT:
        return "limit";
    case SEARCH_INTERRUPTED:
        break;
    }
    return "interrupted";
}

static json_t *most_flops(const struct plan_report *r) {
    const struct search_result *const s = r->search;
    if (!s->has_most_flops)
        return NULL;
    json_t *const o = build_candidate(r->problem, &s->most_flops, 0);
    if (o && s->kept_count > 0 && r->problem->objective == OBJECTIVE_LOSS)
        (void)json_object_set_new(o, "loss_above_best",
                                  json_real(s->most_flops.run.loss - s->kept[0].run.loss));
    return o;
}

json_t *build_plan(const struct plan_report *r, unsigned long seed) {
    const struct search_result *const s = r->search;
    json_t *const root =
        build_head("mosaic.plan/1", &r->document, 1, seed, build_search_status(s->status));
    if (!root || !build_setting(root, r->problem)) {
        json_decref(root);
        return NULL;
    }
    json_t *const parts = json_pack(
        "{s:o*, s:o, s:o*, s:o*, s:o*, s:o, s:o, s:o*, s:o*, s:o*, s:o, s:o*, s:o, s:o*, s:o*, "
        "s:o, s:o*, s:o*, s:o*, s:o*}",
        "infeasible", build_shortfall(r->shortfall), "why", build_why(r), "best",
        s->kept_count > 0 ? build_candidate(r->problem, &s->kept[0], 1) : NULL, "compute_optimal",
        compute_optimal(r), "most_model_flops", most_flops(r), "alternatives",
        candidates(r, 0, SEARCH_TOP), "near_ties", candidates(r, 1, s->tie_count), "by_nodes",
        build_by_nodes(r), "pareto", build_pareto(r), "goodput", build_goodput(r->problem),
        "sparsity_curve", curve(r), "elasticities", elasticities(r), "proof", proof(r),
        "uncertainty", build_uncertainty(r), "sensitivity",
        build_sensitivity(r->problem, r->sensitivity), "warnings", build_plan_warnings(r),
        "decision", build_decision(r), "shortlist", build_shortlist(r), "shortlist_template",
        build_shortlist_template(r), "measured", build_measured(r));
    return build_joined(root, parts);
}
