// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The runs of a fit as numbers: the form's x, ln L and a weight for each, the weights scaled to a
 * mean of 1 so that their unit does not matter.  Which variables are constant, or follow another
 * one, is found here.
 */
#ifndef MOSAIC_FIT_FIT_DATA_H
#define MOSAIC_FIT_FIT_DATA_H

#include "fit/run_table.h"

struct fit_row {
    double x[FORM_VARIABLES];
    double log_loss, weight, root_weight;
    size_t row; /* of the run table, from 1 */
};

struct fit_data {
    const struct form *form;
    struct fit_row *rows;
    struct form_point *points; /* as given, for groups and hold-out */
    size_t count;
    double centre[FORM_VARIABLES], low[FORM_VARIABLES], high[FORM_VARIABLES];
    double mean_log_loss;
    size_t distinct; /* different x */
    bool is_constant[FORM_VARIABLES];
    /* The variable that this one follows (ln v = const + slope ln alias); itself when none. */
    enum form_variable alias[FORM_VARIABLES];
    /* Follows from two or more others together. */
    bool is_dependent[FORM_VARIABLES];
};

/* The runs with fate RUN_USED; a point that the form cannot take is reported with its row. */
MOSAIC_MUST_USE enum mosaic_status fit_data_create(const struct form *form, const struct run *runs,
                                                   size_t count, struct fit_data **data,
                                                   struct diag_list *diags);
/* The rows where is_in is set; fails when there are none. */
MOSAIC_MUST_USE enum mosaic_status fit_data_subset(const struct fit_data *data, const bool *is_in,
                                                   struct fit_data **subset,
                                                   struct diag_list *diags);
/* The same rows with other losses (a bootstrap draw). */
MOSAIC_MUST_USE enum mosaic_status fit_data_copy(const struct fit_data *data,
                                                 struct fit_data **copy, struct status_error *err);
void fit_data_free(struct fit_data *data);

#endif
