// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Fitted step constants as mosaic-calibration/1 documents, one a device, which load again
 * (doc_calibration.c): the constants that hold for the device, the width of its intervals, and the
 * covariance of the logarithms.  The same study gives the same bytes.
 */
#ifndef MOSAIC_DOC_SAVE_STEPS_H
#define MOSAIC_DOC_SAVE_STEPS_H

#include "fit/step_study.h"

/* Where a document holds: a device; on one fabric only, where that has constants of its own. */
struct save_steps_target {
    const char *device, *fabric; /* fabric "" for all others */
};
enum { SAVE_STEPS_MAX = 64, SAVE_STEPS_NAME_MAX = 128 };

/* What the rows were measured on, sorted; returns how many. */
size_t save_steps_targets(const struct step_study *study,
                          struct save_steps_target targets[SAVE_STEPS_MAX]);
/* "b200-steps", "h100-efa-steps": the document's name, of which file names are made. */
void save_steps_name(const struct save_steps_target *target, char name[SAVE_STEPS_NAME_MAX]);
/* free() the text.  `table` is the path of the rows.  MOSAIC_NUMERIC for a fit that did not
 * converge: there is nothing to write. */
MOSAIC_MUST_USE enum mosaic_status save_steps(const struct step_study *study,
                                              const struct save_steps_target *target,
                                              const char *table, char **text,
                                              struct status_error *err);

#endif
