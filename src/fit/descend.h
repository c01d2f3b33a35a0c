// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * From one starting point down to a minimum of sum_i w_i rho(r_i):
 *   r = ln L^ - ln L, or L^ - L
 *   rho(r) = r^2/2 up to |r| = delta, delta (|r| - delta/2) beyond (Huber); delta infinite is least
 *   squares, delta 1e-6 stands for least absolute deviations.
 * GSL's trust region (lmaccel, QR) minimises f = sign(r) sqrt(2 rho(r)).  Our own loop checks every
 * step's status and numbers, and leaves terms out as they vanish.  A pure function; the
 * process-wide GSL error handler must be off.
 */
#ifndef MOSAIC_FIT_DESCEND_H
#define MOSAIC_FIT_DESCEND_H

#include "fit/fit_model.h"

#define DESCEND_LAD_DELTA 1e-6

struct fit_measure {
    bool is_plain; /* residuals of L, not of ln L */
    double delta;  /* INFINITY for least squares */
};

struct descend_limits {
    double tolerance; /* step in the parameters; 100 times as much for the gradient's cosine */
    size_t max_iterations;
};

enum descend_end {
    DESCEND_CONVERGED,
    DESCEND_STALLED, /* no further step helps, short of the tolerance */
    DESCEND_LIMIT,   /* out of iterations */
    DESCEND_FAILED   /* numbers left a double, or GSL reported an error */
};

struct descend_outcome {
    enum descend_end end;
    double objective;
    double gradient; /* largest cosine between the residuals and a column of the Jacobian */
    size_t iterations;
};

/* The model moves to the best point found; what is left out on the way joins the drops. */
void descend(const struct fit_data *data, const struct fit_measure *measure,
             const struct descend_limits *limits, struct fit_model *model, struct fit_drops *drops,
             struct descend_outcome *outcome);

double fit_objective(const struct fit_data *data, const struct fit_measure *measure,
                     const struct fit_model *model);

#endif
