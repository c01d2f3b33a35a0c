// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A starting point: exponents drawn log-uniformly, amplitudes by non-negative least squares given
 * those exponents (variable projection), the best of several draws.  clark draws its two saturation
 * points and solves for the rest.
 */
#ifndef MOSAIC_FIT_SEED_H
#define MOSAIC_FIT_SEED_H

#include "fit/fit_model.h"

/* Draws of one (seed, index) are the same everywhere.  Fails only for want of memory. */
MOSAIC_MUST_USE bool seed_model(const struct fit_data *data, unsigned long seed, size_t index,
                                struct fit_model *model);
/* A seed of its own for each index. */
unsigned long seed_mix(unsigned long seed, size_t index);

#endif
