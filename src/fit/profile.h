// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Profile of the objective: each identified coefficient held at values around its optimum, the
 * others fitted again.  Steps are half a standard error, or 2.5 % where there is none.
 */
#ifndef MOSAIC_FIT_PROFILE_H
#define MOSAIC_FIT_PROFILE_H

#include "fit/fit_report.h"

enum { PROFILE_SIDE = 4, PROFILE_POINTS = 2 * PROFILE_SIDE + 1 };

struct profile {
    size_t coefficient;
    double value[PROFILE_POINTS], objective[PROFILE_POINTS];
    bool is_known[PROFILE_POINTS]; /* the refit converged */
};

/* Returns how many profiles there are; any number of threads gives the same. */
size_t profile_run(const struct fit_data *data, const struct fit *fit,
                   const struct fit_report *report, const struct descend_limits *limits,
                   struct pool *pool, struct profile profiles[FORM_MAX_COEFFICIENTS]);

#endif
