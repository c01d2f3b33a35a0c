// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Fits a law form to runs: many starts, each descended to its minimum, the best kept.  The same
 * seed gives the same result on any number of threads.  Needs GSL's process-wide error handler
 * turned off (mosaic_new does it).
 */
#ifndef MOSAIC_FIT_FIT_H
#define MOSAIC_FIT_FIT_H

#include "base/pool.h"
#include "fit/descend.h"

#include <stdatomic.h>

enum { FIT_STARTS = 32, FIT_MAX_STARTS = 4096, FIT_MAX_ITERATIONS = 1000, FIT_FEW_REACHED = 3 };
#define FIT_TOLERANCE 1e-10

struct fit_options {
    struct fit_measure measure;
    struct fit_fixed fixed;
    size_t starts;
    unsigned long seed;
    struct descend_limits limits;
    const atomic_bool *stop; /* or NULL; when it turns true, starts but the first are left out */
};

struct fit {
    struct fit_model model;
    double coefficient[FORM_MAX_COEFFICIENTS];
    struct fit_drops drops;
    struct fit_measure measure;
    size_t rows, parameters; /* parameters: free ones */
    /* More different runs than parameters; if not, nothing measures how good the fit is. */
    bool is_determined;

    double objective; /* sum of w rho(r), weights of mean 1 */
    double gradient;  /* cosine, 0 at a minimum */
    bool is_converged;
    size_t starts, reached, converged, iterations; /* starts: those that ran */
};

/* Least squares of ln L, 32 starts, seed 1. */
void fit_options_init(struct fit_options *options);
/* Fixes a coefficient by name. */
MOSAIC_MUST_USE enum mosaic_status fit_options_fix(struct fit_options *options,
                                                   const struct form *form, const char *name,
                                                   double value, struct status_error *err);
/* Warnings say what was dropped and what makes the result doubtful. */
MOSAIC_MUST_USE enum mosaic_status fit_run(const struct fit_data *data,
                                           const struct fit_options *options, struct pool *pool,
                                           struct fit *fit, struct diag_list *diags);
/* Again from where a fit stands, on data with other losses or fewer rows; nothing is reported. */
void fit_again(const struct fit_data *data, const struct fit *from,
               const struct descend_limits *limits, struct fit *fit);
/* ln L of a fitted law at x. */
double fit_log_loss(const struct fit *fit, const double x[FORM_VARIABLES]);

#endif
