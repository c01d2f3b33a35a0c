// SPDX-License-Identifier: GPL-3.0-or-later
/* How far a plan's outcome can be trusted: the interval of its step time, the draws of its law. */
#include "report/build.h"
#include "report/score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static json_t *interval(const struct draw_interval *i, double scale) {
    const double a = i->low * scale, b = i->high * scale;
    return json_pack("{s:f, s:f, s:f}", "low", fmin(a, b), "middle", i->middle * scale, "high",
                     fmax(a, b));
}

/* "L48 d6144 E96 K2 G4", as tables name a model. */
static void label_geometry(const struct geometry *g, char *text, size_t size) {
    (void)snprintf(text, size, "L%d d%d", g->layers, g->hidden);
    if (g->experts > 0)
        (void)snprintf(text + strlen(text), size - strlen(text), " E%d K%d G%.3g", g->experts,
                       g->top_k, g->granularity);
}

/* "loss_above_best" of a loss, "days_above_best", ... */
static void above_best_key(const struct problem *problem, char key[SCORE_TEXT_MAX]) {
    (void)snprintf(key, SCORE_TEXT_MAX, "%s_above_best", score_unit(problem)->name);
}

static json_t *law_winners(const struct problem *problem, const struct law_uncertainty *u) {
    const double scale = fabs(score_unit(problem)->scale);
    char key[SCORE_TEXT_MAX];
    above_best_key(problem, key);
    json_t *const list = json_array();
    for (size_t i = 0; list && i < u->winner_count; ++i) {
        const struct law_winner *const w = &u->winners[i];
        char label[96];
        label_geometry(&problem->geometries.items[w->index], label, sizeof label);
        json_t *const one = json_pack("{s:f, s:s, s:I, s:f, s:f, s:b, s:b}", "share", w->share,
                                      "geometry", label, "index", (json_int_t)w->index, "sparsity",
                                      w->sparsity, key, w->above_best * scale, "plan",
                                      (int)w->is_plan, "near_tie", (int)w->is_near_tie);
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* What the draws of the law make of the plan. */
static json_t *law_uncertainty(const struct problem *problem, const struct law_uncertainty *u) {
    const struct score_unit *const unit = score_unit(problem);
    char regret[SCORE_TEXT_MAX];
    (void)snprintf(regret, sizeof regret, "regret_%s", unit->unit);
    const bool is_tokens = problem->objective == OBJECTIVE_TOKENS; /* has its own */
    return json_pack(
        "{s:I, s:s, s:o, s:o, s:o*, s:f, s:f, s:I, s:o}", "draws", (json_int_t)u->draws, "basis",
        "2.5 %, median and 97.5 % over the draws, each with its own best plan", "sparsity",
        interval(&u->sparsity, 1.0), "tokens", interval(&u->tokens, 1.0),
        is_tokens ? "score" : unit->name, is_tokens ? NULL : interval(&u->score, unit->scale),
        "share_of_plan", u->share_of_plan, regret, u->regret * fabs(unit->scale), "geometries",
        (json_int_t)u->geometries, "winners", law_winners(problem, u));
}

/* "cost_usd_low" and "_high", of GPU-hours where there is no price. */
static void put_cost(json_t *o, const struct problem *problem, double score, double spread) {
    char low[SCORE_TEXT_MAX], high[SCORE_TEXT_MAX];
    const struct score_unit *const unit = score_unit(problem);
    (void)snprintf(low, sizeof low, "%s_low", unit->name);
    (void)snprintf(high, sizeof high, "%s_high", unit->name);
    (void)json_object_set_new(o, low, json_real(score * unit->scale / spread));
    (void)json_object_set_new(o, high, json_real(score * unit->scale * spread));
}

/* The best plan's outcome if every step took as long as the interval's ends. */
json_t *build_uncertainty(const struct plan_report *r) {
    if (r->search->kept_count == 0)
        return NULL;
    const struct problem *const problem = r->problem;
    const struct candidate *const best = &r->search->kept[0];
    const struct geometry *const g = &problem->geometries.items[best->index];
    struct prediction prediction;
    best_layout_predict(problem, g, &best->layout, &prediction, NULL);
    const double spread = step_interval_spread(prediction.sigma);
    const struct law_uncertainty *const u = r->law_uncertainty;
    const bool has_law = u && u->draws > 0;
    json_t *const o = json_object();
    if (objective_has_target(problem->objective)) {
        const double days = best->run.seconds / UNITS_SECONDS_PER_DAY;
        (void)json_object_set_new(o, "days_low", json_real(days / spread));
        (void)json_object_set_new(o, "days_high", json_real(days * spread));
        if (problem->objective == OBJECTIVE_COST)
            put_cost(o, problem, best->run.score, spread);
    } else {
        (void)json_object_set_new(
            o, "loss_low",
            json_real(candidate_loss(problem, best->index, best->run.tokens * spread, NULL)));
        (void)json_object_set_new(
            o, "loss_high",
            json_real(candidate_loss(problem, best->index, best->run.tokens / spread, NULL)));
    }
    (void)json_object_set_new(
        o, "basis",
        json_string(has_law ? "step-time interval of this layout, 90 %; the law's own error is "
                              "under law"
                            : "step-time interval of this layout, 90 %; the law's own error not "
                              "included"));
    if (has_law)
        (void)json_object_set_new(o, "law", law_uncertainty(problem, u));
    return o;
}
