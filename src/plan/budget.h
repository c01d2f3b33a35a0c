// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What may be spent: wall-clock days on the cluster, or model FLOPs, or a loss to reach.
 * Goodput = (1 - t_ckpt / interval) (1 - (interval / 2 + restart) nodes / mtbf_per_node).
 */
#ifndef MOSAIC_PLAN_BUDGET_H
#define MOSAIC_PLAN_BUDGET_H

#include "base/status.h"

struct budget {
    double seconds;     /* wall clock; > 0 */
    double goodput;     /* 0 < goodput <= 1 */
    double model_flops; /* for the compute optimum; 0 = 6 N D of the best plan */
};

/* Goodput from failure and checkpoint figures, all in seconds. */
MOSAIC_MUST_USE enum mosaic_status budget_goodput(double mtbf_per_node_s, double interval_s,
                                                  double checkpoint_s, double restart_s, int nodes,
                                                  double *goodput, struct status_error *err);

#endif
