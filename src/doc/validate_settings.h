// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The options of a validation as KEY=VALUE texts, as the command line and the library's users give
 * them:
 *   models       FILE, the table of models; else the file beside ROWS.csv that is named like it:
 *                X.csv or X_rows.csv and X-models.csv or X_models.csv, with or without the last s
 *   calibration  FILE, or generic
 *   anchor       0 to 16, distinct layouts of each cluster, engine and model
 *   group_by     names of groupings (fit/step_group.h) or none, separated by commas; all of them
 *   worst        0 to 1000, rows that are listed
 */
#ifndef MOSAIC_DOC_VALIDATE_SETTINGS_H
#define MOSAIC_DOC_VALIDATE_SETTINGS_H

#include "fit/step_group.h"
#include "text/diag.h"

struct validate_settings {
    const char *models, *calibration; /* NULL when not given */
    size_t anchors, worst;
    bool groupings[STEP_GROUPING_COUNT];
};

void validate_settings_init(struct validate_settings *settings);
/* Points into `pair`; MOSAIC_USAGE for a key or a value that is not known. */
MOSAIC_MUST_USE enum mosaic_status validate_settings_put(struct validate_settings *settings,
                                                         const char *pair,
                                                         struct status_error *err);
/* The table of models that lies beside the rows; free() it. */
MOSAIC_MUST_USE enum mosaic_status validate_models_beside(const char *rows_path, char **models_path,
                                                          struct status_error *err);
/* What is assumed where nothing has been measured; talloc below `memory`. */
MOSAIC_MUST_USE enum mosaic_status validate_generic(void *memory, struct diag_list *diags,
                                                    const struct calibration **generic);

#endif
