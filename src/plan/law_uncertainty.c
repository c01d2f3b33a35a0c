// SPDX-License-Identifier: GPL-3.0-or-later
/* Every draw over every solved geometry, in order: draws and threads change nothing. */
#include "plan/law_uncertainty.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

static const double low_quantile = 0.025, high_quantile = 0.975;

/* A solved geometry with the point at which any law judges it. */
struct entrant {
    size_t index;
    double step_time_s;
    struct training run; /* under the point law */
    size_t wins;
};

struct contest {
    struct entrant *entrants;
    size_t count, plan; /* plan: the point law's winner */
    double *sparsity, *tokens, *score;
    size_t drawn, planned; /* draws with a winner, and in which the plan can be planned */
    double regret;
};

static bool is_better(const struct problem *problem, const struct entrant *a, double score_a,
                      const struct entrant *b, double score_b) {
    const struct candidate left = {
        .index = a->index, .run.score = score_a, .step_time_s = a->step_time_s};
    const struct candidate right = {
        .index = b->index, .run.score = score_b, .step_time_s = b->step_time_s};
    return candidate_compare(problem, &left, &right) < 0;
}

static void gather(const struct problem *problem, const struct search_result *search,
                   struct contest *c) {
    const struct geometry_space *const space = &problem->geometries;
    for (size_t i = 0; i < space->count; ++i) {
        struct entrant *const e = &c->entrants[c->count];
        *e = (struct entrant){.index = i, .step_time_s = search->step_time_s[i]};
        if (!(e->step_time_s > 0.0) ||
            !candidate_train(problem, &problem->law, &space->items[i], e->step_time_s, &e->run))
            continue;
        if (i == search->kept[0].index)
            c->plan = c->count;
        c->count++;
    }
}

static double sparsity_of(const struct problem *problem, size_t index) {
    struct param_counts counts;
    count_params(&problem->geometries.items[index], &counts);
    return counts.sparsity;
}

/* A geometry that this law does not let reach the target is out of the draw. */
static void run_draw(const struct problem *problem, struct contest *c, size_t draw) {
    const struct law *const law = &problem->law_draws.items[draw];
    struct entrant *best = NULL;
    struct training least = {.score = (double)INFINITY};
    double of_plan = (double)INFINITY;
    for (size_t i = 0; i < c->count; ++i) {
        struct entrant *const e = &c->entrants[i];
        struct training run;
        if (!candidate_train(problem, law, &problem->geometries.items[e->index], e->step_time_s,
                             &run))
            continue;
        if (i == c->plan)
            of_plan = run.score;
        if (!best ||
            (run.score <= least.score && is_better(problem, e, run.score, best, least.score))) {
            best = e;
            least = run;
        }
    }
    if (!best)
        return;
    best->wins++;
    c->sparsity[c->drawn] = sparsity_of(problem, best->index);
    c->tokens[c->drawn] = least.tokens;
    c->score[c->drawn] = least.score;
    c->drawn++;
    if (isfinite(of_plan)) {
        c->regret += of_plan - least.score;
        c->planned++;
    }
}

static struct draw_interval interval_of(double *values, size_t count) {
    gsl_sort(values, 1, count);
    return (struct draw_interval){
        gsl_stats_quantile_from_sorted_data(values, 1, count, low_quantile),
        gsl_stats_quantile_from_sorted_data(values, 1, count, 0.5),
        gsl_stats_quantile_from_sorted_data(values, 1, count, high_quantile)};
}

static int by_wins(const void *left, const void *right) {
    const struct entrant *const a = left, *const b = right;
    if (a->wins != b->wins)
        return a->wins > b->wins ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Sorts the entrants. */
static void take_winners(const struct problem *problem, struct contest *c,
                         struct law_uncertainty *out) {
    const double draws = (double)c->drawn;
    const double best = c->entrants[c->plan].run.score;
    const double tie = objective_tie_width(problem->objective, best);
    const size_t plan = c->entrants[c->plan].index;
    out->share_of_plan = (double)c->entrants[c->plan].wins / draws;
    qsort(c->entrants, c->count, sizeof *c->entrants, by_wins);
    for (size_t i = 0; i < c->count && c->entrants[i].wins > 0; ++i) {
        const struct entrant *const e = &c->entrants[i];
        out->geometries++;
        if (out->winner_count == LAW_WINNERS)
            continue;
        out->winners[out->winner_count++] =
            (struct law_winner){.index = e->index,
                                .share = (double)e->wins / draws,
                                .sparsity = sparsity_of(problem, e->index),
                                .above_best = e->run.score - best,
                                .is_plan = e->index == plan,
                                .is_near_tie = e->index != plan && e->run.score - best <= tie};
    }
}

enum mosaic_status law_uncertainty_find(const struct problem *problem,
                                        const struct search_result *search,
                                        struct law_uncertainty *out, struct status_error *err) {
    const size_t draws = problem->law_draws.count;
    *out = (struct law_uncertainty){0};
    if (draws == 0 || search->kept_count == 0 || !search->step_time_s)
        return MOSAIC_OK;
    struct contest c = {.entrants = calloc(problem->geometries.count, sizeof *c.entrants)};
    double *const values = calloc(3 * draws, sizeof *values);
    if (!c.entrants || !values) {
        free(c.entrants);
        free(values);
        return status_no_memory(err);
    }
    c.sparsity = values;
    c.tokens = values + draws;
    c.score = values + 2 * draws;
    gather(problem, search, &c);
    for (size_t i = 0; i < draws; ++i)
        run_draw(problem, &c, i);
    if (c.drawn > 0) {
        out->draws = c.drawn;
        out->sparsity = interval_of(c.sparsity, c.drawn);
        out->tokens = interval_of(c.tokens, c.drawn);
        out->score = interval_of(c.score, c.drawn);
        out->planned = c.planned;
        out->regret = c.planned > 0 ? fmax(c.regret / (double)c.planned, 0.0) : 0.0;
        take_winners(problem, &c, out);
    }
    free(c.entrants);
    free(values);
    return MOSAIC_OK;
}
