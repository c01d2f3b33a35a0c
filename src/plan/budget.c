// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Goodput of a long run: what checkpoints and failures leave of the wall clock,
 *   (1 - t_ckpt / interval) (1 - (interval / 2 + restart) nodes / mtbf_per_node).
 */
#include "plan/budget.h"

#include <math.h>

enum mosaic_status budget_goodput(double mtbf_per_node_s, double interval_s, double checkpoint_s,
                                  double restart_s, int nodes, double *goodput,
                                  struct status_error *err) {
    if (!(mtbf_per_node_s > 0.0) || !(interval_s > 0.0) || !(checkpoint_s >= 0.0) ||
        !(restart_s >= 0.0) || nodes < 1)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "goodput needs a positive mtbf_per_node and checkpoint_interval, and "
                          "checkpoint_time and restart_time of 0 or more");
    const double saving = 1.0 - checkpoint_s / interval_s;
    const double lost = (interval_s / 2.0 + restart_s) * (double)nodes / mtbf_per_node_s;
    const double result = saving * (1.0 - lost);
    if (!(saving > 0.0) || !(lost < 1.0) || !isfinite(result))
        return status_set(err, MOSAIC_BAD_INPUT,
                          "no work gets done: checkpoints take %.3g of the time, failures %.3g of "
                          "the rest",
                          checkpoint_s / interval_s, lost);
    *goodput = result;
    return MOSAIC_OK;
}
