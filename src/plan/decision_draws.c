// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The draws come in pairs of opposite signs, which leaves the means of linear scores without error.
 */
#include "plan/decision_draws.h"

#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <stdlib.h>

static bool is_same_model(const struct decision *d, size_t a, size_t b) {
    return d->items[a].index == d->items[b].index;
}

static void fill_beliefs(const struct decision *d, struct decision_draws *out) {
    for (size_t i = 0; i < d->count; ++i) {
        const struct contender *const a = &d->items[i];
        out->mean[i] = log(a->expected_s / a->step_time_s);
        for (size_t k = 0; k < d->count; ++k) {
            const struct step_errors *const left = &a->own, *const right = &d->items[k].own;
            out->covariance[i][k] =
                left->shared * right->shared +
                (is_same_model(d, i, k) ? left->model * right->model : 0.0) +
                (i == k ? left->layout * left->layout + left->noise * left->noise : 0.0);
        }
    }
}

/* INFINITY where a step so long leaves nothing to plan. */
static double score_at(const struct problem *problem, const struct contender *c, double x) {
    struct training run;
    return candidate_train(problem, &problem->law, &problem->geometries.items[c->index],
                           c->step_time_s * exp(x), &run)
               ? run.score
               : (double)INFINITY;
}

static void fill_curves(const struct problem *problem, const struct decision *d,
                        struct decision_draws *out) {
    const double reach = 5.0; /* standard deviations */
    double worst = -(double)INFINITY;
    for (size_t i = 0; i < d->count; ++i) {
        struct score_curve *const c = &out->curves[i];
        const double half = reach * sqrt(out->covariance[i][i]);
        c->low = out->mean[i] - half;
        c->per_unit = half > 0.0 ? (SCORE_NODES - 1) / (2.0 * half) : 0.0;
        for (int n = 0; n < SCORE_NODES; ++n) {
            const double x = c->low + 2.0 * half * n / (SCORE_NODES - 1);
            c->score[n] = score_at(problem, &d->items[i], x);
            if (isfinite(c->score[n]))
                worst = fmax(worst, c->score[n]);
        }
    }
    for (size_t i = 0; i < d->count; ++i)
        for (int n = 0; n < SCORE_NODES; ++n)
            if (!isfinite(out->curves[i].score[n]))
                out->curves[i].score[n] = worst;
}

/* One vector of errors: the shared part, a model's where it first appears, the layouts'. */
static void draw_errors(const struct decision *d, gsl_rng *random, const double mean[],
                        double x[]) {
    double of_model[CONTENDERS_MAX];
    const double shared = gsl_ran_gaussian_ziggurat(random, 1.0);
    for (size_t i = 0; i < d->count; ++i) {
        const struct step_errors *const own = &d->items[i].own;
        size_t first = 0;
        while (!is_same_model(d, first, i))
            first++;
        of_model[i] = first == i ? gsl_ran_gaussian_ziggurat(random, 1.0) : of_model[first];
        x[i] = mean[i] + own->shared * shared + own->model * of_model[i] +
               hypot(own->layout, own->noise) * gsl_ran_gaussian_ziggurat(random, 1.0);
    }
}

static void draw_all(const struct decision *d, gsl_rng *random, struct decision_draws *out) {
    const size_t n = d->count;
    for (size_t draw = 0; draw < out->draws; draw += 2) {
        double *const x = out->x + draw * n, *const noise = out->noise + draw * n;
        draw_errors(d, random, out->mean, x);
        for (size_t i = 0; i < n; ++i) {
            noise[i] = gsl_ran_gaussian_ziggurat(random, 1.0);
            noise[n + i] = -noise[i];
            x[n + i] = 2.0 * out->mean[i] - x[i];
        }
    }
}

enum mosaic_status decision_draws_new(const struct problem *problem,
                                      const struct decision *decision, unsigned long seed,
                                      struct decision_draws **out, struct status_error *err) {
    struct decision_draws *const made = calloc(1, sizeof *made);
    if (!made)
        return status_no_memory(err);
    const size_t cells = (size_t)DECISION_DRAWS * decision->count;
    made->count = decision->count;
    made->draws = DECISION_DRAWS;
    made->x = calloc(cells, sizeof *made->x);
    made->noise = calloc(cells, sizeof *made->noise);
    gsl_rng *const random = gsl_rng_alloc(gsl_rng_mt19937);
    if (!made->x || !made->noise || !random) {
        if (random)
            gsl_rng_free(random);
        decision_draws_free(made);
        return status_no_memory(err);
    }
    gsl_rng_set(random, seed);
    fill_beliefs(decision, made);
    fill_curves(problem, decision, made);
    draw_all(decision, random, made);
    gsl_rng_free(random);
    *out = made;
    return MOSAIC_OK;
}

void decision_draws_free(struct decision_draws *draws) {
    if (!draws)
        return;
    free(draws->x);
    free(draws->noise);
    free(draws);
}

double score_curve_at(const struct score_curve *c, double x) {
    const double at = (x - c->low) * c->per_unit;
    if (!(at > 0.0))
        return c->score[0];
    const int node = at < SCORE_NODES - 1 ? (int)at : SCORE_NODES - 2;
    const double share = fmin(at - node, 1.0);
    return c->score[node] + share * (c->score[node + 1] - c->score[node]);
}

double score_curve_mean(const struct score_curve *c, double mean, double variance) {
    /* Gauss-Hermite: nodes 0 and +-sqrt(3), weights 2/3 and 1/6. */
    const double away = sqrt(3.0 * fmax(variance, 0.0));
    return 2.0 / 3.0 * score_curve_at(c, mean) +
           (score_curve_at(c, mean - away) + score_curve_at(c, mean + away)) / 6.0;
}
