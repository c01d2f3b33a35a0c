// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Step constants of one table of rows and how far they can be trusted: the fit, the rows by it, by
 * constants fitted without their layout and without their model, and the width of intervals that
 * the held-out layouts ask for:
 *   sigma = q90 |ln measured - ln predicted| / 1.645   of one kind and architecture.
 */
#ifndef MOSAIC_FIT_STEP_STUDY_H
#define MOSAIC_FIT_STEP_STUDY_H

#include "fit/step_fit.h"
#include "fit/step_score.h"
#include "fit/step_spread.h"

/* Which constants a row was predicted by. */
enum step_view { STEP_FITTED, STEP_WITHOUT_LAYOUT, STEP_WITHOUT_MODEL, STEP_VIEWS };

/* Fewer layouts than STEP_FEW_LAYOUTS say little of themselves: no interval gets narrower by them.
 */
enum { STEP_FOLDS = 5, STEP_SIGMA_ROWS = 8, STEP_FEW_LAYOUTS = 10, STEP_ARCHITECTURES_MAX = 16 };

/* Of one architecture; a kind with fewer than STEP_SIGMA_ROWS takes all architectures' rows. */
struct step_sigma {
    const char *architecture;
    size_t rows[2];            /* dense, with experts: of this architecture */
    double sigma[2];           /* 0 where there is no row at all */
    struct step_spread spread; /* of unseen models; of all architectures where it has too few */
};

struct step_study {
    const struct measured_steps *steps; /* borrowed */
    struct step_fit fit;
    /* steps->count each, with intervals by the sigmas; NULL where nothing was held out, and without
     * its model where the table has only one. */
    struct step_error *errors[STEP_VIEWS];
    size_t sigmas;
    struct step_sigma sigma[STEP_ARCHITECTURES_MAX];
};

/* A fit that did not converge has no errors at all. */
MOSAIC_MUST_USE enum mosaic_status step_study_run(const struct measured_steps *steps, bool hold_out,
                                                  const struct step_fit_options *options,
                                                  struct step_study **study,
                                                  struct status_error *err);
void step_study_free(struct step_study *study);
const struct step_sigma *step_study_sigma(const struct step_study *study, const char *architecture);

#endif
