// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Tables of measured steps: a row a run (columns of calibration/data/steps.csv), a row a model
 * (calibration/data/step-models.csv).  `gpu` and `fabric` choose the cluster document, whose device
 * and outermost tier bear these names; `software` chooses the engine document that lists it among
 * its releases.  What a row calls `unstated` becomes what that release's recipes do (the engine's
 * `defaults`), and is marked; a token that nothing defines excludes the row, by name.
 */
#ifndef MOSAIC_DOC_DOC_STEPS_H
#define MOSAIC_DOC_DOC_STEPS_H

#include "doc/document.h"
#include "fit/measured_step.h"

struct step_tables {
    struct measured_steps steps;
    const struct document_input *inputs; /* the two tables, and the calibration file */
    size_t input_count;
    void *memory; /* talloc context of it all */
};

struct step_table_options {
    /* In place of every cluster's own: a file, a calibration of the library, or "generic"; or NULL.
     */
    const char *calibration;
    /* Leave out rows whose time is far off the prediction by it. */
    bool is_screened;
};

MOSAIC_MUST_USE enum mosaic_status doc_steps_load(const char *rows_path, const char *models_path,
                                                  const struct step_table_options *options,
                                                  struct diag_list *diags,
                                                  struct step_tables **tables);
void doc_steps_free(struct step_tables *tables);

#endif
