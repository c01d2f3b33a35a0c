// SPDX-License-Identifier: GPL-3.0-or-later
/* The result of `plan`: mosaic.plan/1. */
#include "report/build.h"

#include <math.h>
#include <string.h>

json_t *build_candidate(const struct problem *problem, const struct candidate *c, int rank) {
    const struct geometry *const g = &problem->geometries.items[c->index];
    struct param_counts counts;
    struct prediction prediction;
    struct memory_items stages[LAYOUT_MAX_PP];
    count_params(g, &counts);
    best_layout_predict(problem, g, &c->layout, &prediction, stages);
    const struct law_point point = candidate_point(problem, g, c->tokens);
    static const char *const limits[] = {"budget", "tokens_per_active_parameter"};
    json_t *const o = json_object();
    if (rank > 0)
        (void)json_object_set_new(o, "rank", json_integer(rank));
    json_t *const rest = json_pack(
        "{s:o, s:o, s:f, s:f, s:s, s:f, s:f, s:o, s:f, s:o}", "geometry",
        build_geometry(g, problem->workload.sequence), "layout",
        build_layout(problem, g, &c->layout), "tokens", c->tokens, "tokens_per_active",
        c->tokens / counts.n_active_law, "tokens_limited_by", limits[c->limited_by], "spare_days",
        c->spare_seconds / UNITS_SECONDS_PER_DAY, "model_flops", c->model_flops, "loss_terms",
        build_law_terms(&problem->law, &point), "loss", c->loss, "prediction",
        build_prediction(problem, g, &prediction, stages, c->layout.mesh.pp));
    const int failed = rest ? json_object_update(o, rest) : -1;
    json_decref(rest);
    const double epochs = candidate_epochs(problem, c->tokens);
    if (failed || (epochs > 1.0 &&
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
        if (json_array_append_new(list, build_candidate(&r->document->problem, &r->search->kept[i],
                                                        (int)i + 1)) != 0) {
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
    const struct problem *const problem = &r->document->problem;
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
            (void)json_object_set_new(grid, "loss_deliverable", json_real(kept->loss));
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
static json_t *curve(const struct search_result *s) {
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

static json_t *proof(const struct search_result *s) {
    const struct search_proof *const p = &s->proof;
    const struct layout_counts *const b = &p->bound_counts, *const c = &p->counts;
    json_t *const o = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:s}", "geometries", (json_int_t)p->geometries, "meshes",
        (json_int_t)b->meshes, "evaluations", (json_int_t)c->work.evaluations, "stage_programs",
        (json_int_t)c->work.programs, "bounds", (json_int_t)b->meshes + (json_int_t)c->meshes,
        "scope", "in the declared space, under this model and law");
    if (p->has_gap)
        (void)json_object_set_new(o, "gap_nats", json_real(p->gap_nats));
    (void)json_object_set_new(
        o, "closed_by",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "loss_bound",
                  (json_int_t)p->closed_by_bound, "tokens_bound", (json_int_t)p->closed_by_tokens,
                  "memory_bound", (json_int_t)p->closed_by_memory, "no_legal_layout",
                  (json_int_t)p->closed_by_layout, "solved", (json_int_t)p->solved,
                  "solved_few_tokens", (json_int_t)p->solved_few_tokens, "solved_too_large",
                  (json_int_t)p->solved_too_large, "open", (json_int_t)p->bounded_only));
    (void)json_object_set_new(
        o, "meshes_closed_by",
        json_pack("{s:I, s:I, s:I, s:I, s:I}", "memory_bound", (json_int_t)b->closed_by_memory,
                  "time_bound", (json_int_t)c->closed_by_bound, "opened", (json_int_t)c->opened,
                  "opened_too_large", (json_int_t)c->too_large, "mfu_above_one",
                  (json_int_t)c->implausible));
    (void)json_object_set_new(o, "points_excluded",
                              json_pack("{s:I, s:I, s:I}", "indivisible",
                                        (json_int_t)b->census.indivisible, "unmeasured_ranks",
                                        (json_int_t)b->census.unmeasured, "engine_rules",
                                        (json_int_t)b->census.engine_rule));
    return o;
}

static json_t *interval(const struct draw_interval *i) {
    return json_pack("{s:f, s:f, s:f}", "low", i->low, "middle", i->middle, "high", i->high);
}

/* "L48 d6144 E96 K2 G4", as tables name a model. */
static void label_geometry(const struct geometry *g, char *text, size_t size) {
    (void)snprintf(text, size, "L%d d%d", g->layers, g->hidden);
    if (g->experts > 0)
        (void)snprintf(text + strlen(text), size - strlen(text), " E%d K%d G%.3g", g->experts,
                       g->top_k, g->granularity);
}

static json_t *law_winners(const struct problem *problem, const struct law_uncertainty *u) {
    json_t *const list = json_array();
    for (size_t i = 0; list && i < u->winner_count; ++i) {
        const struct law_winner *const w = &u->winners[i];
        char label[96];
        label_geometry(&problem->geometries.items[w->index], label, sizeof label);
        json_t *const one =
            json_pack("{s:f, s:s, s:I, s:f, s:f, s:b, s:b}", "share", w->share, "geometry", label,
                      "index", (json_int_t)w->index, "sparsity", w->sparsity, "loss_above_best",
                      w->above_best, "plan", (int)w->is_plan, "near_tie", (int)w->is_near_tie);
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* What the draws of the law make of the plan. */
static json_t *law_uncertainty(const struct problem *problem, const struct law_uncertainty *u) {
    return json_pack(
        "{s:I, s:s, s:o, s:o, s:o, s:f, s:f, s:I, s:o}", "draws", (json_int_t)u->draws, "basis",
        "2.5 %, median and 97.5 % over the draws, each with its own best plan", "sparsity",
        interval(&u->sparsity), "tokens", interval(&u->tokens), "loss", interval(&u->loss),
        "share_of_plan", u->share_of_plan, "regret_nats", u->regret_nats, "geometries",
        (json_int_t)u->geometries, "winners", law_winners(problem, u));
}

/* The best plan's loss if every step took as long as the interval's ends. */
static json_t *uncertainty(const struct plan_report *r) {
    if (r->search->kept_count == 0)
        return NULL;
    const struct problem *const problem = &r->document->problem;
    const struct candidate *const best = &r->search->kept[0];
    struct prediction prediction;
    best_layout_predict(problem, &problem->geometries.items[best->index], &best->layout,
                        &prediction, NULL);
    const double spread = step_interval_spread(prediction.sigma);
    const struct law_uncertainty *const u = r->law_uncertainty;
    const bool has_law = u && u->draws > 0;
    return json_pack("{s:f, s:f, s:s, s:o*}", "loss_low",
                     candidate_loss(problem, best->index, best->tokens * spread, NULL), "loss_high",
                     candidate_loss(problem, best->index, best->tokens / spread, NULL), "basis",
                     has_law
                         ? "step-time interval of this layout, 90 %; the law's own error is under "
                           "law"
                         : "step-time interval of this layout, 90 %; the law's own error not "
                           "included",
                     "law", has_law ? law_uncertainty(problem, u) : NULL);
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

static const char *status_word(enum search_status status) {
    switch (status) {
    case SEARCH_OPTIMAL:
        return "optimal";
    case SEARCH_INFEASIBLE:
        return "infeasible";
    case SEARCH_INTERRUPTED:
        break;
    }
    return "interrupted";
}

static json_t *most_flops(const struct plan_report *r) {
    const struct search_result *const s = r->search;
    if (!s->has_most_flops)
        return NULL;
    json_t *const o = build_candidate(&r->document->problem, &s->most_flops, 0);
    if (o && s->kept_count > 0)
        (void)json_object_set_new(o, "loss_above_best",
                                  json_real(s->most_flops.loss - s->kept[0].loss));
    return o;
}

json_t *build_plan(const struct plan_report *r, unsigned long seed) {
    const struct search_result *const s = r->search;
    json_t *const root = build_head("mosaic.plan/1", &r->document, 1, seed, status_word(s->status));
    if (!root || !build_setting(root, &r->document->problem)) {
        json_decref(root);
        return NULL;
    }
    json_t *const parts = json_pack(
        "{s:o*, s:o, s:o*, s:o*, s:o*, s:o, s:o, s:o, s:o*, s:o, s:o*, s:o}", "infeasible",
        build_shortfall(r->shortfall), "why", build_why(r), "best",
        s->kept_count > 0 ? build_candidate(&r->document->problem, &s->kept[0], 1) : NULL,
        "compute_optimal", compute_optimal(r), "most_model_flops", most_flops(r), "alternatives",
        candidates(r, 0, SEARCH_TOP), "near_ties", candidates(r, 1, s->tie_count), "sparsity_curve",
        curve(s), "elasticities", elasticities(r), "proof", proof(s), "uncertainty", uncertainty(r),
        "warnings", build_plan_warnings(r));
    return build_joined(root, parts);
}
