// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Which contenders a short run should measure.  After steps of a set M are measured, each known to
 * the noise of a run, the errors of all have the usual normal posterior, mean m and variance v, and
 * the contender of least expected score is taken; M is worth
 *   E[ S_plan(m_plan) - min_j S_j(m_j) ],   S_j(m) = E[ score_j(x) | x ~ N(m, v_j) ],
 * by which it lowers the expected regret of the plan.  The best next one is added to M, up to five,
 * until it lowers the regret by less than a twentieth; three at least, where there are as many.
 */
#ifndef MOSAIC_PLAN_SHORTLIST_H
#define MOSAIC_PLAN_SHORTLIST_H

#include "plan/decision_draws.h"

/* Fills the shortlist of a decision that was weighed by these draws. */
MOSAIC_MUST_USE enum mosaic_status shortlist_find(const struct decision_draws *draws,
                                                  struct decision *decision,
                                                  struct status_error *err);
/* What measuring a set of contenders is worth, as a share of the expected regret; noise: of a run.
 */
MOSAIC_MUST_USE enum mosaic_status shortlist_worth(const struct decision_draws *draws, double noise,
                                                   const size_t *set, size_t count, double *share,
                                                   struct status_error *err);

#endif
