// SPDX-License-Identifier: GPL-3.0-or-later
/* What the stated pipeline schedule asks of the degrees. */
#ifndef MOSAIC_STEP_SCHEDULE_RULES_H
#define MOSAIC_STEP_SCHEDULE_RULES_H

#include "step/layout.h"

/* Of a completed mesh; 1F1B takes any.  The messages print the arithmetic; the last two rules read
 * micro_batches.  legality.c asks them in this order. */
MOSAIC_MUST_USE enum mosaic_status schedule_one_chunk(const struct mesh *m,
                                                      struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status schedule_stages(const struct mesh *m, struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status schedule_even_stages(const struct mesh *m,
                                                        struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status schedule_enough_batches(const struct mesh *m,
                                                           struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status schedule_even_batches(const struct mesh *m,
                                                         struct status_error *err);

#endif
