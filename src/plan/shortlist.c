// SPDX-License-Identifier: GPL-3.0-or-later
/* Normal errors are conditioned on one measured contender after another, draw by draw. */
#include "plan/shortlist.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORTH_DRAWS = 512 }; /* of the decision's */

/* What is believed after some were measured, in every draw. */
struct posterior {
    const struct decision_draws *draws;
    double noise;
    double covariance[CONTENDERS_MAX][CONTENDERS_MAX];
    double mean[WORTH_DRAWS][CONTENDERS_MAX];
    double score[WORTH_DRAWS][CONTENDERS_MAX]; /* expected */
};

static enum mosaic_status posterior_new(const struct decision_draws *draws, double noise,
                                        struct posterior **out, struct status_error *err) {
    struct posterior *const p = calloc(1, sizeof *p);
    if (!p)
        return status_no_memory(err);
    p->draws = draws;
    p->noise = noise;
    memcpy(p->covariance, draws->covariance, sizeof p->covariance);
    for (size_t i = 0; i < draws->count; ++i) {
        const double score =
            score_curve_mean(&draws->curves[i], draws->mean[i], p->covariance[i][i]);
        for (size_t draw = 0; draw < WORTH_DRAWS; ++draw) {
            p->mean[draw][i] = draws->mean[i];
            p->score[draw][i] = score;
        }
    }
    *out = p;
    return MOSAIC_OK;
}

/* How the beliefs move when contender k is measured. */
struct step_of_belief {
    size_t k;
    double gain[CONTENDERS_MAX], variance[CONTENDERS_MAX];
};

static struct step_of_belief step_of(const struct posterior *p, size_t k) {
    struct step_of_belief step = {.k = k};
    const double total = p->covariance[k][k] + p->noise * p->noise;
    for (size_t i = 0; i < p->draws->count; ++i) {
        step.gain[i] = total > 0.0 ? p->covariance[i][k] / total : 0.0;
        step.variance[i] = p->covariance[i][i] - step.gain[i] * p->covariance[i][k];
    }
    return step;
}

/* By how much the measured step of a draw differs from what was expected. */
static double surprise(const struct posterior *p, size_t draw, size_t k) {
    const size_t at = draw * p->draws->count + k;
    return p->draws->x[at] + p->noise * p->draws->noise[at] - p->mean[draw][k];
}

static double moved_score(const struct posterior *p, const struct step_of_belief *step, size_t draw,
                          double by, size_t i) {
    if (!(step->gain[i] > 0.0))
        return p->score[draw][i];
    return score_curve_mean(&p->draws->curves[i], p->mean[draw][i] + step->gain[i] * by,
                            step->variance[i]);
}

/* What is won over the plan on average; taken[i]: how often i is then chosen. */
static double worth_of(const struct posterior *p, const struct step_of_belief *step,
                       size_t taken[]) {
    double sum = 0.0;
    memset(taken, 0, CONTENDERS_MAX * sizeof *taken);
    for (size_t draw = 0; draw < WORTH_DRAWS; ++draw) {
        const double by = step ? surprise(p, draw, step->k) : 0.0;
        double of_plan = 0.0, least = (double)INFINITY;
        size_t best = 0;
        for (size_t i = 0; i < p->draws->count; ++i) {
            const double score = step ? moved_score(p, step, draw, by, i) : p->score[draw][i];
            of_plan = i == 0 ? score : of_plan;
            if (score < least) {
                least = score;
                best = i;
            }
        }
        sum += of_plan - least;
        taken[best]++;
    }
    return sum / WORTH_DRAWS;
}

static void measure(struct posterior *p, const struct step_of_belief *step) {
    const size_t n = p->draws->count;
    for (size_t draw = 0; draw < WORTH_DRAWS; ++draw) {
        const double by = surprise(p, draw, step->k);
        for (size_t i = 0; i < n; ++i) {
            p->score[draw][i] = moved_score(p, step, draw, by, i);
            p->mean[draw][i] += step->gain[i] * by;
        }
    }
    double of_k[CONTENDERS_MAX];
    memcpy(of_k, p->covariance[step->k], sizeof of_k);
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < n; ++j)
            p->covariance[i][j] -= step->gain[i] * of_k[j];
}

/* The regret in the draws that worth is counted in: what knowing everything is worth. */
static double whole_regret(const struct decision_draws *draws) {
    double sum = 0.0;
    for (size_t draw = 0; draw < WORTH_DRAWS; ++draw) {
        const double *const x = draws->x + draw * draws->count;
        const double of_plan = score_curve_at(&draws->curves[0], x[0]);
        double least = of_plan;
        for (size_t i = 1; i < draws->count; ++i)
            least = fmin(least, score_curve_at(&draws->curves[i], x[i]));
        sum += of_plan - least;
    }
    return sum / WORTH_DRAWS;
}

/* Most often chosen of all but one. */
static size_t most_taken(const size_t taken[], size_t count, size_t except) {
    size_t most = except == 0 ? 1 : 0;
    for (size_t i = 0; i < count; ++i)
        if (i != except && taken[i] > taken[most])
            most = i;
    return most;
}

/* The next one to measure; false when all are. */
static bool next_of(const struct posterior *p, const struct decision *d, const bool is_in[],
                    struct step_of_belief *best, double *worth, size_t best_taken[]) {
    bool found = false;
    for (size_t k = 0; k < d->count; ++k) {
        size_t taken[CONTENDERS_MAX];
        if (is_in[k] || d->items[k].is_measured)
            continue;
        const struct step_of_belief step = step_of(p, k);
        const double one = worth_of(p, &step, taken);
        if (found && !(one > *worth))
            continue;
        found = true;
        *best = step;
        *worth = one;
        memcpy(best_taken, taken, sizeof taken);
    }
    return found;
}

enum mosaic_status shortlist_find(const struct decision_draws *draws, struct decision *d,
                                  struct status_error *err) {
    const double least_drop = 0.05; /* of the regret */
    const double whole = whole_regret(draws);
    bool is_in[CONTENDERS_MAX] = {false};
    struct posterior *p = NULL;
    double before = 0.0;
    d->shortlist_count = 0;
    if (!(whole > 0.0))
        return MOSAIC_OK;
    TRY(posterior_new(draws, d->errors.noise, &p, err));
    assert(p);
    while (d->shortlist_count < SHORTLIST_MAX) {
        struct step_of_belief step;
        double worth = 0.0;
        size_t taken[CONTENDERS_MAX];
        if (!next_of(p, d, is_in, &step, &worth, taken) ||
            (d->shortlist_count >= SHORTLIST_LEAST && worth - before < least_drop * whole))
            break;
        d->shortlist[d->shortlist_count++] =
            (struct shortlisted){.contender = step.k,
                                 .rival = step.k == 0 ? most_taken(taken, d->count, 0) : 0,
                                 .regret_after = d->regret * fmax(1.0 - worth / whole, 0.0)};
        is_in[step.k] = true;
        before = fmax(before, worth);
        measure(p, &step);
    }
    free(p);
    return MOSAIC_OK;
}

enum mosaic_status shortlist_worth(const struct decision_draws *draws, double noise,
                                   const size_t *set, size_t count, double *share,
                                   struct status_error *err) {
    struct posterior *p = NULL;
    size_t taken[CONTENDERS_MAX];
    const double whole = whole_regret(draws);
    TRY(posterior_new(draws, noise, &p, err));
    assert(p);
    for (size_t i = 0; i < count; ++i) {
        const struct step_of_belief step = step_of(p, set[i]);
        measure(p, &step);
    }
    *share = whole > 0.0 ? worth_of(p, NULL, taken) / whole : 0.0;
    free(p);
    return MOSAIC_OK;
}
