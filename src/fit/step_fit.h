// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Step constants from measured steps: minimise
 *   sum_i w_i rho(ln predicted_i - ln measured_i) / delta^2 + sum_j ((ln theta_j - ln prior_j) /
 * sd_j)^2 / 2 over constants theta that are shared, or differ by architecture or device, each
 * inside its range; w_i = 1 / rows of the same layout; rho Huber's with the bend at delta, which is
 * also the spread of residuals that priors are weighed against.  Levenberg-Marquardt in a box, on
 * central differences of the logarithms.  A pure function; the process-wide GSL error handler must
 * be off.
 */
#ifndef MOSAIC_FIT_STEP_FIT_H
#define MOSAIC_FIT_STEP_FIT_H

#include "fit/measured_step.h"

#include <stdatomic.h>

enum step_scope { STEP_SHARED, STEP_ARCHITECTURE, STEP_DEVICE, STEP_FABRIC };

/* One kind of constant: a scalar of the calibration, how widely it holds, where it starts. */
struct step_constant {
    enum scalar scalar;
    enum step_scope scope;
    const char *only; /* architecture or device it is fitted for; NULL for each that has rows */
    double start, prior, prior_sd; /* prior_sd of the logarithm; INFINITY: none */
    double least, most;
};

/* The shipped choice, with the reasons (step_constants.c). */
extern const struct step_constant step_constants[];
extern const size_t step_constant_count;

enum { STEP_PARAMETERS_MAX = 64 };

/* One number that is fitted. */
struct step_parameter {
    const struct step_constant *constant;
    const char *where;            /* "" shared, else architecture or device */
    double value, standard_error; /* of the logarithm; 0 at a bound */
    size_t rows;                  /* that it takes part in */
    bool at_bound;
};

struct step_fit {
    size_t parameters;
    struct step_parameter parameter[STEP_PARAMETERS_MAX];
    double covariance[STEP_PARAMETERS_MAX][STEP_PARAMETERS_MAX]; /* of the logarithms */
    double objective, gradient;
    size_t iterations;
    bool converged;
};

struct step_fit_options {
    double huber;     /* delta in ln; 0 takes 0.1 */
    double tolerance; /* cosine between residuals and a column at the end; 0 takes 1e-7 */
    size_t max_iterations;
    int threads;
    const atomic_bool *stop;
};

/* use[i] says whether row i takes part (NULL: all); the constants are those of all rows. */
MOSAIC_MUST_USE enum mosaic_status step_fit_run(const struct measured_steps *steps, const bool *use,
                                                const struct step_constant *constants,
                                                size_t constant_count,
                                                const struct step_fit_options *options,
                                                struct step_fit *out, struct status_error *err);

/* What follows from fitted scalars: the LM head is a large bf16 GEMM like the others. */
void step_constants_follow(struct calibration *calibration);

/* A row's calibration with the fitted constants laid over it. */
void step_fit_apply(const struct step_fit *fit, const struct measured_step *step,
                    struct calibration *out);

/* Errors of rows by constants fitted without them: `folds` sets of whole layouts (a hash of the
 * layout decides), or one set a model when folds is 0; tolerance 0 takes 1e-4.  predicted takes
 * steps->count seconds. */
MOSAIC_MUST_USE enum mosaic_status step_fit_cross(const struct measured_steps *steps, int folds,
                                                  const struct step_constant *constants,
                                                  size_t constant_count,
                                                  const struct step_fit_options *options,
                                                  double *predicted_s, struct status_error *err);

#endif
