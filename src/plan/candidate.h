// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One solved geometry: its best layout, the tokens D that the budget buys, the loss of the law.
 * Beyond U unique tokens the law is given what repeated ones are worth (arXiv 2305.16264),
 *   U + U R* (1 - exp(-(D/U - 1) / R*)), R* = 15.39,
 * which rises with D: so does everything that follows from D as a bound.
 */
#ifndef MOSAIC_PLAN_CANDIDATE_H
#define MOSAIC_PLAN_CANDIDATE_H

#include "plan/best_layout.h"

/* What decides how many there are: the time, the most or the least a parameter, the loss asked for.
 */
enum token_limit { TOKENS_BY_BUDGET, TOKENS_BY_RATIO, TOKENS_BY_TARGET, TOKENS_BY_LEAST_RATIO };

/* A geometry trained at one step time. */
struct training {
    double tokens; /* repeats included */
    double loss;
    double seconds;       /* wall clock: all of the budget, or until the target is reached */
    double spare_seconds; /* of the budget; 0 where there is none */
    double score;         /* of the problem's objective: small is good */
    enum token_limit limited_by;
    unsigned outside; /* LAW_OUTSIDE_*: variables beyond the fitted range */
};

struct candidate {
    size_t index; /* into the space's geometries */
    struct layout layout;
    double step_time_s;
    double model_flops; /* 6 n_active_law tokens */
    struct training run;
};

/* By the objective of the problem, under its law or another; false when it cannot be planned: too
 * few tokens, a loss out of reach.  With a target, tokens are as many as the target asks for, and
 * no fewer than the least ratio. */
bool candidate_train(const struct problem *problem, const struct law *law, const struct geometry *g,
                     double step_time_s, struct training *out);
/* Tokens that a step time buys within the limits; 0 when below the least ratio. */
double candidate_tokens(const struct problem *problem, double n_active_law, double step_time_s,
                        double *spare_seconds, enum token_limit *limited_by);
/* Passes over the unique tokens; 0 where there is no limit. */
double candidate_epochs(const struct problem *problem, double tokens);
/* Where the law is evaluated for a geometry trained on so many tokens: its own count of
 * parameters, repeated tokens at their worth. */
struct law_point candidate_point(const struct problem *problem, const struct geometry *g,
                                 double tokens);
/* Loss of a geometry at so many tokens. */
double candidate_loss(const struct problem *problem, size_t index, double tokens,
                      unsigned *outside);
/* false when it cannot be planned. */
bool candidate_fill(const struct problem *problem, size_t index, const struct best_layout *layout,
                    struct candidate *out);
/* Total order: score, step time (GPU-hours per token), geometry, mesh. */
int candidate_compare(const struct problem *problem, const struct candidate *a,
                      const struct candidate *b);

#endif
