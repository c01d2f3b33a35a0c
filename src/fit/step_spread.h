// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How the errors of unseen models split: with r = ln measured - ln predicted of each layout, by
 * constants fitted without its model, in groups of one cluster, engine and model of n_g layouts,
 *   within^2  = sum_g sum_i (r_gi - mean_g)^2 / sum_g (n_g - 1),
 *   between^2 = mean_g (mean_g^2 - within^2 / n_g), not below 0.
 * What a few measured steps of a model say of the others hangs on their ratio (step/anchor.h).
 */
#ifndef MOSAIC_FIT_STEP_SPREAD_H
#define MOSAIC_FIT_STEP_SPREAD_H

#include "fit/step_score.h"

struct step_spread {
    size_t groups, layouts;
    double between, within; /* 0 where too few layouts say */
};

enum { STEP_SPREAD_GROUPS = 3, STEP_SPREAD_DEGREES = 6 }; /* least that are enough */

/* architecture NULL: all rows. */
MOSAIC_MUST_USE enum mosaic_status step_spread_of(const struct step_error *errors, size_t count,
                                                  const char *architecture, struct step_spread *out,
                                                  struct status_error *err);

#endif
