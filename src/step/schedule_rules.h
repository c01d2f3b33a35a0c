// SPDX-License-Identifier: GPL-3.0-or-later
/* What the stated pipeline schedule asks of the degrees. */
#ifndef MOSAIC_STEP_SCHEDULE_RULES_H
#define MOSAIC_STEP_SCHEDULE_RULES_H

#include "step/layout.h"

/* Of a completed mesh; 1F1B takes any.  The message prints the arithmetic. */
MOSAIC_MUST_USE enum mosaic_status mesh_check_schedule(const struct mesh *m,
                                                       struct status_error *err);

#endif
