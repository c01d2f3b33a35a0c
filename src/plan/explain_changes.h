// SPDX-License-Identifier: GPL-3.0-or-later
/* The layouts around one: every legal change of few axes, whatever the plan declares. */
#ifndef MOSAIC_PLAN_EXPLAIN_CHANGES_H
#define MOSAIC_PLAN_EXPLAIN_CHANGES_H

#include "plan/explain.h"

/* Fills neighbours: the legal meshes that change the fewest axes.  The way to run the job changes,
 * within those of the plan, only where a conflict of features is what is broken. */
MOSAIC_MUST_USE enum mosaic_status explain_neighbours(struct explanation *out,
                                                      struct status_error *err);
/* Fills fixes, fastest first: of a legal layout one or two axes changed so that it fits, the
 * fastest change of one among them; of an illegal one, once neighbours are filled, the fewest axes
 * with which it is legal and fits.  The way is one more axis. */
MOSAIC_MUST_USE enum mosaic_status explain_fixes(struct explanation *out, struct status_error *err);

#endif
