// SPDX-License-Identifier: GPL-3.0-or-later
/* Steps measured on a plan's shortlist: the plan before them, and the problem that knows them. */
#ifndef MOSAIC_MEASURED_H
#define MOSAIC_MEASURED_H

#include "doc/doc_measured.h"
#include "doc/plan_settings.h"
#include "mosaic_session.h"

struct measured_study {
    struct measured_table table;
    struct anchored_problem anchored;
    /* Without the steps. */
    struct problem on_best;
    struct search_result search;
    struct fleet fleet;
    struct decision decision;
};

/* Reads the table that the settings name and searches without it; NULL where they name none.  What
 * is wrong with the table is reported to the session, and err left alone. */
MOSAIC_MUST_USE enum mosaic_status measured_study_run(struct mosaic *session,
                                                      const struct document *document,
                                                      const struct plan_settings *asked,
                                                      struct measured_study **out,
                                                      struct status_error *err);
void measured_study_free(struct measured_study *study);

#endif
