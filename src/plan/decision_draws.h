// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Draws of the contenders' errors x = ln(step / predicted), and the score of each contender as a
 * curve of x: sampled once over five standard deviations, read by linear interpolation.
 */
#ifndef MOSAIC_PLAN_DECISION_DRAWS_H
#define MOSAIC_PLAN_DECISION_DRAWS_H

#include "plan/decision.h"

enum { SCORE_NODES = 65 };

struct score_curve {
    double low, per_unit; /* node of x: (x - low) per_unit */
    double score[SCORE_NODES];
};

struct decision_draws {
    size_t count, draws;
    double mean[CONTENDERS_MAX]; /* of x: what a measured step says */
    double covariance[CONTENDERS_MAX][CONTENDERS_MAX];
    struct score_curve curves[CONTENDERS_MAX];
    double *x;     /* draw by draw, a contender each */
    double *noise; /* the same of one more run, in standard deviations */
};

MOSAIC_MUST_USE enum mosaic_status
decision_draws_new(const struct problem *problem, const struct decision *decision,
                   unsigned long seed, struct decision_draws **out, struct status_error *err);
void decision_draws_free(struct decision_draws *draws);

/* The score at x; at the curve's ends beyond them. */
double score_curve_at(const struct score_curve *curve, double x);
/* Its expectation over x of a normal distribution, by three points. */
double score_curve_mean(const struct score_curve *curve, double mean, double variance);

#endif
