// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Anchoring: what a few measured steps of one model say of the predictions for it.  With residuals
 * r_i = ln measured_i - ln predicted_i of n steps, b the standard deviation of such residuals
 * between models and w within one,
 *   ln factor = median(r) n b^2 / (n b^2 + w^2),   sigma^2 = w^2 + b^2 w^2 / (n b^2 + w^2):
 * the usual shrinkage of a group's mean, with the median in its place so that one odd step among
 * three does not count.  sigma is what a prediction for the model is left uncertain by.
 */
#ifndef MOSAIC_STEP_ANCHOR_H
#define MOSAIC_STEP_ANCHOR_H

#include "model/geometry.h"

#include <stddef.h>

struct anchor_residual {
    size_t steps; /* that count: both times positive and finite */
    double log_factor, sigma;
};

/* Of one (cluster, engine, model), in any order; without a usable step the factor is 1. */
void anchor_fit(const double *measured_s, const double *predicted_s, size_t count, double between,
                double within, struct anchor_residual *out);

struct anchor {
    struct geometry geometry;
    struct anchor_residual residual;
};

enum { ANCHORS_MAX = 64 };

/* Of one cluster and engine, a model each. */
struct anchors {
    size_t count;
    struct anchor items[ANCHORS_MAX];
};

/* The anchor of a geometry that is equal in every field, or NULL; anchors may be NULL. */
const struct anchor *anchor_find(const struct anchors *anchors, const struct geometry *geometry);

#endif
