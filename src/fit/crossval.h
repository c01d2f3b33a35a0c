// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Fits judged on runs that they have not seen: the largest ones of each granularity, or each group
 * in turn; and law forms against each other on the same runs.
 */
#ifndef MOSAIC_FIT_CROSSVAL_H
#define MOSAIC_FIT_CROSSVAL_H

#include "fit/fit_report.h"

#define CROSSVAL_SHARE 0.1 /* of the runs of each granularity */

struct held_out {
    size_t fitted, held; /* rows */
    bool is_fitted;      /* the rest of the table determines the form */
    double rms_log;      /* of ln L over the held rows */
    double mean_log;     /* fitted minus observed: the bias */
    double worst_log;    /* largest absolute one */
    size_t worst_row;    /* of the run table */
};

/* Marks the runs with the most active parameters of each granularity, `share` of them and one at
 * least where a granularity has more than one; returns how many. */
size_t hold_largest(const struct fit_data *data, double share, bool *is_held);
/* Fits without the held rows and predicts them. */
MOSAIC_MUST_USE enum mosaic_status hold_out(const struct fit_data *data,
                                            const struct fit_options *options, struct pool *pool,
                                            const bool *is_held, struct held_out *result,
                                            struct diag_list *diags);
/* Numbers the different values of a variable of the form in group[0 .. rows - 1], from 0 upwards in
 * the order of the rows; returns how many there are. */
size_t groups_by_variable(const struct fit_data *data, enum form_variable variable, size_t *group);
/* One result for each group. */
MOSAIC_MUST_USE enum mosaic_status leave_groups_out(const struct fit_data *data,
                                                    const struct fit_options *options,
                                                    struct pool *pool, const size_t *group,
                                                    size_t groups, struct held_out *results,
                                                    struct diag_list *diags);

struct contestant {
    enum form_kind kind;
    bool is_fitted;
    char why_not[STATUS_TEXT_MAX];
    size_t parameters;
    double aic, aicc, delta_aic; /* least squares of ln L; delta to the best contestant */
    double rms_log;
    struct held_out held;
};
/* Each form in kinds[] on the same runs; what a form lacks in the table keeps it out. */
MOSAIC_MUST_USE enum mosaic_status compare_forms(const struct run_table *table,
                                                 const enum form_kind *kinds, size_t count,
                                                 const struct fit_options *options,
                                                 struct pool *pool, struct contestant *results,
                                                 struct diag_list *diags);

#endif
