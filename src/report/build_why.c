// SPDX-License-Identifier: GPL-3.0-or-later
/* Why the best plan is the best, and what to mind about it, in sentences. */
#include "report/build.h"
#include "report/score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TERM_NAME_MAX = 96 };

const char *build_term_name(const char *term) {
    static const struct {
        const char *term, *name;
    } names[] = {{"gemm_s", "dense GEMMs"},
                 {"grouped_gemm_s", "expert GEMMs"},
                 {"attention_s", "the attention core"},
                 {"elementwise_s", "element-wise passes"},
                 {"router_s", "routing"},
                 {"permute_s", "permutation"},
                 {"head_loss_s", "head and loss"},
                 {"quantise_s", "quantisation"},
                 {"recompute_s", "recomputation"},
                 {"dispatch_exposed_s", "waiting for kernel launches"},
                 {"tp_exposed_s", "TP collectives"},
                 {"cp_exposed_s", "CP exchanges"},
                 {"ep_exposed_s", "EP all-to-all"},
                 {"pp_exposed_s", "PP hand-offs"},
                 {"bubble_s", "the pipeline bubble"},
                 {"stage_imbalance_s", "stage imbalance"},
                 {"dp_exposed_s", "exposed DP collectives"},
                 {"optimizer_s", "the optimizer"},
                 {"offload_exposed_s", "offload"},
                 {"straggler_s", "stragglers"},
                 {"correction_s", "the correction"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
        if (strcmp(names[i].term, term) == 0)
            return names[i].name;
    return term;
}

/* A correction is no part of a step that one could shorten: it does not rank among the terms. */
static bool is_correction(const char *term) {
    return strcmp(term, "correction_s") == 0;
}

enum { BINDING_TERMS = 3 };

/* The largest terms, largest first, by index. */
static void largest_terms(const struct time_split *split, int order[BINDING_TERMS]) {
    double seconds[BINDING_TERMS];
    for (int k = 0; k < BINDING_TERMS; ++k) {
        order[k] = -1;
        seconds[k] = -1.0;
    }
    for (int i = 0; i < TIME_TERM_COUNT; ++i) {
        double at;
        if (is_correction(time_term(split, i, &at)))
            continue;
        for (int k = 0; k < BINDING_TERMS; ++k) {
            if (!(at > seconds[k]))
                continue;
            for (int j = BINDING_TERMS - 1; j > k; --j) {
                order[j] = order[j - 1];
                seconds[j] = seconds[j - 1];
            }
            order[k] = i;
            seconds[k] = at;
            break;
        }
    }
}

bool append_binding(json_t *list, const struct prediction *p) {
    int order[BINDING_TERMS];
    double share[BINDING_TERMS];
    const char *name[BINDING_TERMS];
    char correction[TERM_NAME_MAX] = "";
    largest_terms(&p->split, order);
    for (int k = 0; k < BINDING_TERMS; ++k) {
        double seconds;
        name[k] = build_term_name(time_term(&p->split, order[k], &seconds));
        share[k] = 100.0 * seconds / p->step_time_s;
    }
    const double corrected = 100.0 * p->split.correction_s / p->step_time_s;
    if (corrected > share[0])
        (void)snprintf(correction, sizeof correction,
                       "is %.0f %% %s, which no term explains; the rest ", corrected,
                       p->anchor_steps > 0 ? "the correction by measured steps"
                                           : "the published correction");
    return append_text(list,
                       "A step of %.3g s %sgoes mostly to %s (%.0f %%), then %s (%.0f %%) and %s "
                       "(%.0f %%).",
                       p->step_time_s, correction, name[0], share[0], name[1], share[1], name[2],
                       share[2]);
}

static double sparsity_of(const struct problem *problem, size_t index) {
    struct param_counts counts;
    count_params(&problem->geometries.items[index], &counts);
    return counts.sparsity;
}

/* On paper the sparse end wins; here it does not, and by how much. */
static bool against_paper(json_t *list, const struct plan_report *r) {
    const struct problem *const problem = r->problem;
    const struct search_result *const s = r->search;
    if (!r->paper || !r->paper->has_grid)
        return true;
    const double here = sparsity_of(problem, s->kept[0].index);
    bool ok = append_text(list,
                          "At %.3g model FLOPs the law alone would pick S %.4f (loss %.4f); the "
                          "best plan that this cluster delivers has S %.4f.",
                          r->paper->model_flops, r->paper->sparsity, r->paper->loss, here);
    const struct sparsity_bin *const end = &s->bins[s->bin_count - 1];
    if (!end->has_deliverable || !(end->deliverable_sparsity > here))
        return ok;
    if (problem->objective == OBJECTIVE_LOSS)
        return append_text(list,
                           "The best deliverable plan at the sparse end, S %.4f, reaches %.4f: "
                           "%.4f nats worse, because it runs at fewer useful FLOPs.",
                           end->deliverable_sparsity, end->loss_deliverable,
                           end->loss_deliverable - s->kept[0].run.loss) &&
               ok;
    char text[SCORE_TEXT_MAX];
    return append_text(list,
                       "The best deliverable plan at the sparse end, S %.4f, is %s behind, because "
                       "it runs at fewer useful FLOPs.",
                       end->deliverable_sparsity,
                       score_difference(problem, end->score - s->kept[0].run.score, text)) &&
           ok;
}

static bool against_runner_up(json_t *list, const struct plan_report *r) {
    const struct problem *const problem = r->problem;
    const struct search_result *const s = r->search;
    if (s->kept_count < 2)
        return true;
    const struct candidate *const second = &s->kept[1];
    const struct geometry *const g = &problem->geometries.items[second->index];
    const double best = s->kept[0].run.score, behind = second->run.score - best;
    char text[SCORE_TEXT_MAX];
    return append_text(list,
                       "The runner-up (%d layers, width %d, %d experts, top-%d, S %.4f) is %s "
                       "behind%s.",
                       g->layers, g->hidden, g->experts, g->top_k,
                       sparsity_of(problem, second->index), score_difference(problem, behind, text),
                       behind <= objective_tie_width(problem->objective, best) ? ": a near tie"
                                                                               : "");
}

static bool against_most_flops(json_t *list, const struct plan_report *r) {
    const struct search_result *const s = r->search;
    if (!s->has_most_flops || s->most_flops.index == s->kept[0].index ||
        r->problem->objective != OBJECTIVE_LOSS)
        return true;
    return append_text(list,
                       "The plan with most model FLOPs (%.3g, S %.4f) is %.4f nats worse: it "
                       "spends them on a denser model.",
                       s->most_flops.model_flops, sparsity_of(r->problem, s->most_flops.index),
                       s->most_flops.run.loss - s->kept[0].run.loss);
}

json_t *build_why(const struct plan_report *r) {
    json_t *const list = json_array();
    if (!list || r->search->kept_count == 0)
        return list;
    const struct problem *const problem = r->problem;
    const struct candidate *const best = &r->search->kept[0];
    struct prediction p;
    best_layout_predict(problem, &problem->geometries.items[best->index], &best->layout, &p, NULL);
    if (!append_binding(list, &p) ||
        !append_choices(list, problem, &problem->geometries.items[best->index], &best->layout,
                        &p) ||
        !against_paper(list, r) || !against_runner_up(list, r) || !against_most_flops(list, r) ||
        !append_decision(list, r)) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static bool law_warning(json_t *list, const struct problem *problem, const struct candidate *c) {
    static const struct {
        unsigned flag;
        const char *name;
    } variables[] = {{LAW_OUTSIDE_N_TOTAL, "total parameters"},
                     {LAW_OUTSIDE_N_ACTIVE, "active parameters"},
                     {LAW_OUTSIDE_TOKENS, "tokens"},
                     {LAW_OUTSIDE_SPARSITY, "sparsity"},
                     {LAW_OUTSIDE_GRANULARITY, "granularity"},
                     {LAW_OUTSIDE_TOKENS_PER_ACTIVE, "tokens per active parameter"}};
    char text[256] = "";
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; ++i)
        if (c->run.outside & variables[i].flag)
            (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
                           text[0] ? ", " : "", variables[i].name);
    return !text[0] || append_text(list, "the law %s is used beyond the range it was fitted on: %s",
                                   problem->law.name, text);
}

/* A winner at the rim of the declared space may be there because of the rim. */
static bool rim_warnings(json_t *list, const struct problem *problem, const struct candidate *c) {
    struct param_counts counts;
    count_params(&problem->geometries.items[c->index], &counts);
    const double ratio = c->run.tokens / counts.n_active_law, near = 1.05;
    bool ok = true;
    if (c->run.limited_by == TOKENS_BY_LEAST_RATIO)
        ok = append_text(list,
                         "the target is reached below the declared least of %.3g tokens per active "
                         "parameter: the plan trains on, to a loss of %.4f",
                         problem->limits.tokens_per_active_min, c->run.loss);
    else if (ratio < problem->limits.tokens_per_active_min * near)
        ok =
            append_text(list,
                        "the best plan trains on %.3g tokens per active parameter, at the declared "
                        "least of %.3g",
                        ratio, problem->limits.tokens_per_active_min);
    const double epochs = candidate_epochs(problem, c->run.tokens);
    if (epochs > 1.0)
        ok = append_text(list,
                         "the best plan trains %.3g epochs of the unique tokens; what repeats are "
                         "worth was fitted on dense models (arXiv 2305.16264)",
                         epochs) &&
             ok;
    const struct workload *const w = &problem->workload;
    if (c->run.tokens < (double)w->global_batch * (double)w->sequence)
        ok = append_text(list, objective_has_target(problem->objective)
                                   ? "the target takes less than one step"
                                   : "the budget does not last for one step") &&
             ok;
    if (c->run.limited_by == TOKENS_BY_RATIO)
        ok = append_text(list, "tokens are capped: %.3g of the days stay spare",
                         c->run.spare_seconds / UNITS_SECONDS_PER_DAY) &&
             ok;
    double sparsest = 0.0;
    for (size_t i = 0; i < problem->geometries.count; ++i)
        sparsest = fmax(sparsest, sparsity_of(problem, i));
    if (problem->geometries.count > 1 && counts.sparsity >= sparsest)
        ok = append_text(list, "the best plan has the largest declared sparsity") && ok;
    return ok;
}

json_t *build_plan_warnings(const struct plan_report *r) {
    json_t *const list = json_array();
    const struct problem *const problem = r->problem;
    const struct search_result *const s = r->search;
    bool ok = list && append_diagnostics(list, r->diags);
    char gap[SCORE_TEXT_MAX];
    if (ok && (s->status == SEARCH_INTERRUPTED || s->status == SEARCH_LIMIT)) {
        const char *const why = s->status == SEARCH_LIMIT ? "stopped at its limit" : "interrupted";
        ok = s->proof.has_gap
                 ? append_text(list, "%s: within %s of the optimum", why,
                               score_difference(problem, s->proof.gap, gap))
                 : append_text(list, "%s early: how far from the optimum is not known", why);
    }
    ok = ok && append_fleet_warnings(list, r);
    if (ok && r->sensitivity && r->sensitivity->is_stopped)
        ok = append_text(list, "interrupted among the what-ifs: the sensitivity is not whole");
    if (ok && problem->is_published)
        ok = append_text(list,
                         "estimator `published` repeats the paper's own terms: routed rows leave "
                         "out EP peers, so active parameters are nearly free under its launch "
                         "floor; see mosaic-model(7)");
    if (ok && s->kept_count > 0) {
        const struct candidate *const best = &s->kept[0];
        struct prediction p;
        best_layout_predict(problem, &problem->geometries.items[best->index], &best->layout, &p,
                            NULL);
        ok = append_prediction_warnings(list, problem, &p) && law_warning(list, problem, best) &&
             rim_warnings(list, problem, best);
    }
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}
