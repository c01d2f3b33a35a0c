// SPDX-License-Identifier: GPL-3.0-or-later
/* The ways to run the job that an explanation looks at: the plan's, the one asked about, and those
 * that a change may suggest. */
#ifndef MOSAIC_PLAN_EXPLAIN_WAYS_H
#define MOSAIC_PLAN_EXPLAIN_WAYS_H

#include "plan/explain.h"

/* Fills problem, its ways and the way asked about, once the winner is known. */
MOSAIC_MUST_USE enum mosaic_status explain_ways_open(const struct problem *problem,
                                                     const struct layout_request *request,
                                                     struct explanation *out,
                                                     struct status_error *err);

#endif
