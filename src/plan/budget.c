// SPDX-License-Identifier: GPL-3.0-or-later
/* Goodput of a long run, and the seconds that a sum of GPU-hours lasts. */
#include "plan/budget.h"

#include "base/units.h"

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

/* i*; 0 where none is the best. */
static double best_interval(const struct checkpointing *c, int nodes) {
    const double failing_s = c->mtbf_per_node_s / (double)nodes; /* of the whole cluster */
    const double alive = 1.0 - c->restart_s / failing_s;
    return alive > 0.0 ? sqrt(2.0 * c->checkpoint_s * failing_s * alive) : 0.0;
}

enum mosaic_status budget_checkpoints(const struct checkpointing *c, int nodes, struct goodput *out,
                                      struct status_error *err) {
    struct goodput found = {.interval_s = c->interval_s};
    const double best_s = c->mtbf_per_node_s > 0.0 && nodes > 0 ? best_interval(c, nodes) : 0.0;
    if (!(c->interval_s > 0.0)) {
        if (c->checkpoint_s <= 0.0)
            return status_set(err, MOSAIC_BAD_INPUT,
                              "checkpoints that take no time have no best interval");
        if (!(best_s > 0.0))
            return status_set(err, MOSAIC_BAD_INPUT,
                              "no work gets done: %d nodes fail before a restart is over", nodes);
        found.interval_s = best_s;
    }
    TRY(budget_goodput(c->mtbf_per_node_s, found.interval_s, c->checkpoint_s, c->restart_s, nodes,
                       &found.value, err));
    struct status_error unused;
    if (best_s > 0.0 && budget_goodput(c->mtbf_per_node_s, best_s, c->checkpoint_s, c->restart_s,
                                       nodes, &found.best_value, &unused) == MOSAIC_OK)
        found.best_interval_s = best_s;
    *out = found;
    return MOSAIC_OK;
}

void budget_spread(struct budget *budget, int gpus) {
    if (budget->gpu_hours > 0.0)
        budget->seconds = budget->gpu_hours * UNITS_SECONDS_PER_HOUR / (double)gpus;
}

void budget_resize(struct budget *budget, int nodes, int gpus) {
    budget_spread(budget, gpus);
    if (!budget->checkpoints.is_stated)
        return;
    struct goodput found = {.value = 0.0};
    struct status_error unused;
    budget->goodput = budget_checkpoints(&budget->checkpoints, nodes, &found, &unused) == MOSAIC_OK
                          ? found.value
                          : 0.0;
}
