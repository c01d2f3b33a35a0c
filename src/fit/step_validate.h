// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Predictions for measured steps: under each row's own calibration, under the generic one (what
 * data sheets alone give), and anchored, that is scaled by the residual of a few measured rows of
 * the same cluster, engine and model.  A row whose own numbers are impossible (measured MFU above
 * 1), or whose prediction is, is refused with the reason and takes part in nothing.
 */
#ifndef MOSAIC_FIT_STEP_VALIDATE_H
#define MOSAIC_FIT_STEP_VALIDATE_H

#include "fit/step_score.h"

#include <stdatomic.h>

enum { VALIDATE_ANCHORS_MAX = 16, VALIDATE_REASON_MAX = 320 };

struct validate_options {
    const struct calibration *generic; /* NULL: no figure from data sheets alone */
    size_t anchors;                    /* distinct layouts a group; 0: none */
    const atomic_bool *stop;           /* may be NULL: the rows so far are scored */
};

struct refused_step {
    const struct measured_step *step;
    char reason[VALIDATE_REASON_MAX];
};

/* Of the rows that are no anchors, in groups that have such. */
struct anchored_score {
    size_t groups, anchor_rows;
    struct step_score before, after; /* rows 0: no group has more layouts than anchors */
};

struct step_validation {
    size_t count; /* rows that can be scored, in their order */
    struct step_error *errors;
    struct memory_error *memory;
    unsigned *outside; /* look-ups beyond what is calibrated */
    size_t datasheet_count;
    struct step_error *datasheet;
    size_t refused_count;
    struct refused_step *refused;
    struct anchored_score anchored;
    bool stopped;
};

/* `steps` and the calibrations must outlive the outcome, which step_validation_free frees. */
MOSAIC_MUST_USE enum mosaic_status step_validation_run(const struct measured_steps *steps,
                                                       const struct validate_options *options,
                                                       struct step_validation **out,
                                                       struct status_error *err);
void step_validation_free(struct step_validation *validation);

/* Model FLOPs over step time x GPUs x dense peak; 0 where the device states no peak. */
double measured_step_mfu(const struct measured_step *step);

#endif
