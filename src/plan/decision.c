// SPDX-License-Identifier: GPL-3.0-or-later
/* Who competes, and what the draws make of them. */
#include "plan/decision.h"

#include "plan/decision_draws.h"
#include "plan/layout_list.h"
#include "plan/shortlist.h"

#include <math.h>
#include <stdlib.h>

/* ---- contenders ---- */

/* Variances of the parts by the calibration, for models with experts or without. */
static struct step_errors errors_of(const struct problem *p, const struct geometry *g) {
    const double *const s = p->calibration.scalar;
    const double model = s[CAL_ANCHOR_BETWEEN], layout = s[CAL_ANCHOR_WITHIN];
    const double sigma = s[g->experts > 0 ? CAL_SIGMA_MOE : CAL_SIGMA];
    const double rest = sigma * sigma - model * model - layout * layout;
    return (struct step_errors){.shared = rest > 0.0 ? sqrt(rest) : 0.0,
                                .model = model,
                                .layout = layout,
                                .noise = s[CAL_ANCHOR_RUN]};
}

static struct step_errors own_errors(const struct problem *p, const struct decision *d,
                                     const struct contender *c) {
    if (c->is_measured)
        return (struct step_errors){.noise = d->errors.noise};
    struct step_errors own = d->errors;
    const struct anchor *const anchor =
        anchor_find(p->workload.anchors, &p->geometries.items[c->index]);
    own.noise = 0.0;
    if (!anchor || anchor->residual.steps == 0 || p->estimator.pipeline_fraction)
        return own;
    const double left = anchor->residual.sigma * anchor->residual.sigma - own.layout * own.layout;
    own.shared = 0.0;
    own.model = left > 0.0 ? sqrt(left) : 0.0;
    return own;
}

/* What the measured layouts say of the part that all share, model by model: with residuals of mean
 * r over n layouts of a model, r is normal about that part with variance b^2 + w^2 / n. */
static void learn_shared(const struct problem *p, const struct measured_pairs *measured,
                         struct decision *d) {
    const double variance = d->errors.shared * d->errors.shared;
    double precision = 1.0, sum = 0.0; /* both times the prior variance */
    for (size_t i = 0; measured && variance > 0.0 && i < measured->count; ++i) {
        const size_t index = measured->items[i].index;
        double residual = 0.0, count = 0.0;
        bool is_first = true;
        for (size_t k = 0; k < measured->count; ++k) {
            const struct measured_pair *const m = &measured->items[k];
            struct prediction now;
            is_first = is_first && (m->index != index || k >= i);
            if (m->index != index || !is_first)
                continue;
            best_layout_predict(p, &p->geometries.items[index], &m->layout, &now, NULL);
            residual += log(m->measured_s * now.anchor_factor / now.step_time_s);
            count += 1.0;
        }
        const double scatter = d->errors.model * d->errors.model +
                               d->errors.layout * d->errors.layout / fmax(count, 1.0);
        if (!is_first || !(scatter > 0.0))
            continue;
        precision += variance / scatter;
        sum += variance / scatter * residual / count;
    }
    d->shared_mean = sum / precision;
    d->errors.shared = sqrt(variance / precision);
}

static bool is_at(const struct contender *c, size_t index, const struct mesh *mesh) {
    return c->index == index && mesh_compare(&c->layout.mesh, mesh) == 0;
}

static double measured_step(const struct measured_pairs *measured, const struct contender *c) {
    for (size_t i = 0; measured && i < measured->count; ++i)
        if (is_at(c, measured->items[i].index, &measured->items[i].layout.mesh))
            return measured->items[i].measured_s;
    return 0.0;
}

void decision_lift_limits(struct problem *problem) {
    if (objective_has_target(problem->objective))
        problem->budget.seconds = (double)INFINITY;
    else
        problem->limits.tokens_per_active_min = 0.0;
}

/* Once, and only while there is room. */
static void add(const struct problem *p, const struct measured_pairs *measured, struct decision *d,
                size_t room, size_t index, const struct layout *layout) {
    for (size_t i = 0; i < d->count; ++i)
        if (is_at(&d->items[i], index, &layout->mesh))
            return;
    if (d->count >= room)
        return;
    const struct geometry *const g = &p->geometries.items[index];
    struct contender *const c = &d->items[d->count];
    struct prediction prediction;
    best_layout_predict(p, g, layout, &prediction, NULL);
    *c = (struct contender){
        .index = index, .layout = *layout, .step_time_s = prediction.step_time_s};
    const double measured_s = measured_step(measured, c);
    c->is_measured = measured_s > 0.0;
    c->own = own_errors(p, d, c);
    c->expected_s = c->is_measured        ? measured_s
                    : c->own.shared > 0.0 ? c->step_time_s * exp(d->shared_mean)
                                          : c->step_time_s;
    c->can_be_planned = candidate_train(p, &p->law, g, c->expected_s, &c->run);
    if (c->can_be_planned || d->count == 0)
        d->count++;
}

static enum mosaic_status add_layouts(const struct problem *p,
                                      const struct measured_pairs *measured, struct decision *d,
                                      struct status_error *err) {
    const size_t index = d->items[0].index;
    const struct layout_list_options options = {.top = CONTENDERS_LAYOUTS};
    struct layout_list *const list = malloc(sizeof *list);
    if (!list)
        return status_no_memory(err);
    const enum mosaic_status status =
        layout_list_find(p, &p->geometries.items[index], &options, list, err);
    for (size_t i = 0; status == MOSAIC_OK && i < list->count; ++i)
        add(p, measured, d, CONTENDERS_MAX, index, &list->items[i].layout);
    free(list);
    return status;
}

enum mosaic_status decision_gather(const struct problem *declared,
                                   const struct search_result *search,
                                   const struct measured_pairs *measured, struct decision *out,
                                   struct status_error *err) {
    *out = (struct decision){.draws = 0};
    if (search->kept_count == 0)
        return MOSAIC_OK;
    struct problem lifted = *declared;
    const struct problem *const problem = &lifted;
    decision_lift_limits(&lifted);
    const double best = search->kept[0].run.score;
    const double tie = best + objective_tie_width(problem->objective, best);
    out->errors = errors_of(problem, &problem->geometries.items[search->kept[0].index]);
    learn_shared(problem, measured, out);
    add(problem, measured, out, 1, search->kept[0].index, &search->kept[0].layout);
    for (size_t i = 0; measured && i < measured->count; ++i)
        add(problem, measured, out, CONTENDERS_MODELS / 2, measured->items[i].index,
            &measured->items[i].layout);
    for (size_t i = 1; i < search->kept_count; ++i)
        add(problem, measured, out, CONTENDERS_MODELS, search->kept[i].index,
            &search->kept[i].layout);
    TRY(add_layouts(problem, measured, out, err));
    for (size_t i = 1; i < out->count; ++i) {
        struct contender *const c = &out->items[i];
        struct training as_predicted;
        c->is_near_tie =
            candidate_train(problem, &problem->law, &problem->geometries.items[c->index],
                            c->step_time_s, &as_predicted) &&
            as_predicted.score <= tie;
    }
    return MOSAIC_OK;
}

/* ---- draws ---- */

static void weigh_draws(const struct decision_draws *draws, struct decision *d) {
    double sum[CONTENDERS_MAX] = {0.0}, least = 0.0;
    size_t wins[CONTENDERS_MAX] = {0}, of_ties = 0;
    for (size_t draw = 0; draw < draws->draws; ++draw) {
        const double *const x = draws->x + draw * draws->count;
        double lowest = (double)INFINITY;
        size_t winner = 0;
        for (size_t i = 0; i < d->count; ++i) {
            const double score = score_curve_at(&draws->curves[i], x[i]);
            sum[i] += score;
            if (score < lowest) {
                lowest = score;
                winner = i;
            }
        }
        least += lowest;
        wins[winner]++;
    }
    const double total = (double)draws->draws;
    d->draws = draws->draws;
    d->best = 0;
    for (size_t i = 0; i < d->count; ++i) {
        struct contender *const c = &d->items[i];
        c->share = (double)wins[i] / total;
        c->regret = fmax((sum[i] - least) / total, 0.0);
        of_ties += c->is_near_tie ? wins[i] : 0;
        if (c->regret < d->items[d->best].regret)
            d->best = i;
    }
    d->regret = d->items[0].regret;
    d->share_of_near_ties = (double)of_ties / total;
}

/* Each draw of the errors under a draw of the law; where either leaves the plan without its target
 * there is no regret to count. */
static void weigh_joint(const struct problem *p, const struct decision_draws *draws,
                        struct decision *d) {
    enum { JOINT_DRAWS = 1024 };
    size_t drawn = 0, planned = 0, won = 0;
    double regret = 0.0;
    for (size_t draw = 0; draw < JOINT_DRAWS && p->law_draws.count > 0; ++draw) {
        const struct law *const law = &p->law_draws.items[draw % p->law_draws.count];
        const double *const x = draws->x + draw * draws->count;
        double lowest = (double)INFINITY, of_plan = (double)INFINITY;
        for (size_t i = 0; i < d->count; ++i) {
            const struct contender *const c = &d->items[i];
            struct training run;
            if (!candidate_train(p, law, &p->geometries.items[c->index], c->step_time_s * exp(x[i]),
                                 &run))
                continue;
            of_plan = i == 0 ? run.score : of_plan;
            lowest = fmin(lowest, run.score);
        }
        drawn += isfinite(lowest) ? 1 : 0;
        won += isfinite(of_plan) && of_plan <= lowest ? 1 : 0;
        planned += isfinite(of_plan) ? 1 : 0;
        regret += isfinite(of_plan) ? of_plan - lowest : 0.0;
    }
    d->joint = (struct joint_decision){.draws = drawn};
    if (drawn > 0)
        d->joint.share_of_plan = (double)won / (double)drawn;
    if (planned > 0)
        d->joint.regret = regret / (double)planned;
}

enum mosaic_status decision_weigh(const struct problem *declared, unsigned long seed,
                                  struct decision *decision, struct status_error *err) {
    struct decision_draws *draws = NULL;
    struct problem lifted = *declared;
    const struct problem *const problem = &lifted;
    decision_lift_limits(&lifted);
    TRY(decision_draws_new(problem, decision, seed, &draws, err));
    weigh_draws(draws, decision);
    weigh_joint(problem, draws, decision);
    const enum mosaic_status status = shortlist_find(draws, decision, err);
    decision_draws_free(draws);
    return status;
}

enum mosaic_status decision_find(const struct problem *problem, const struct search_result *search,
                                 const struct measured_pairs *measured, unsigned long seed,
                                 struct decision *out, struct status_error *err) {
    *out = (struct decision){.draws = 0};
    if (search->status != SEARCH_OPTIMAL)
        return MOSAIC_OK;
    TRY(decision_gather(problem, search, measured, out, err));
    return out->count >= 2 ? decision_weigh(problem, seed, out, err) : MOSAIC_OK;
}
