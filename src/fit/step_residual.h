// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What step_fit.c and step_cross.c share: the constants laid out over the architectures and devices
 * of a table of rows, and ln predicted - ln measured of each row with its derivatives by the
 * logarithms of the constants.  Rows are evaluated in parallel, each into a slot of its own.
 */
#ifndef MOSAIC_FIT_STEP_RESIDUAL_H
#define MOSAIC_FIT_STEP_RESIDUAL_H

#include "base/pool.h"
#include "fit/step_fit.h"

/* A row that takes part. */
struct step_row {
    const struct measured_step *step;
    size_t group; /* rows of one group share calibration and constants */
    double weight;
    size_t touched; /* constants of its architecture and device */
    unsigned char touch[STEP_PARAMETERS_MAX];
};

struct step_problem {
    size_t parameters;
    struct step_parameter parameter[STEP_PARAMETERS_MAX]; /* value: where the search starts */
    size_t count;
    struct step_row *rows; /* by group */
    double *error;         /* ln predicted - ln measured; NaN where there is no prediction */
    double *slope;         /* count x parameters, zero for what does not touch a row */
    struct step_scratch *scratch;
    struct pool *pool; /* borrowed */
};

/* What is fitted, and how. */
struct step_fit_job {
    struct pool *pool;
    const struct step_constant *constants;
    size_t constant_count;
    const struct step_fit_options *options; /* NULL: defaults */
};

/* The constants of all rows; the residuals of those in use. */
MOSAIC_MUST_USE enum mosaic_status step_problem_init(struct step_problem *p,
                                                     const struct step_fit_job *job,
                                                     const struct measured_steps *steps,
                                                     const bool *use, struct status_error *err);
void step_problem_free(struct step_problem *p);

/* error[] at logarithms u; with_slopes also slope[]. */
void step_problem_evaluate(struct step_problem *p, const double *u, bool with_slopes);

/* exp u, inside the constant's range to the last digit. */
double step_parameter_value(const struct step_parameter *parameter, double u);
bool step_parameter_touches(const struct step_parameter *parameter,
                            const struct measured_step *step);

/* step_fit_run on a pool of the caller's; rows in use may be none: all stays at the priors. */
MOSAIC_MUST_USE enum mosaic_status step_fit_on(const struct step_fit_job *job,
                                               const struct measured_steps *steps, const bool *use,
                                               struct step_fit *out, struct status_error *err);

#endif
