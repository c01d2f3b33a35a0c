// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What may be spent: wall-clock days on the cluster, or GPU-hours that its size turns into days.
 *   goodput(i) = (1 - c / i) (1 - (i / 2 + R) n / M)
 * with i from checkpoint to checkpoint, c a checkpoint's time, R a restart's, n nodes that fail
 * every M on average.  With A = 1 - R n / M its derivative c A / i^2 - n / (2 M) is 0 at
 *   i* = sqrt(2 c M A / n),
 * the only maximum where c < 2 M A / n; elsewhere no interval leaves time for work.
 */
#ifndef MOSAIC_PLAN_BUDGET_H
#define MOSAIC_PLAN_BUDGET_H

#include "base/status.h"

#include <stdbool.h>

/* What failures and checkpoints take, all in seconds. */
struct checkpointing {
    bool is_stated; /* else the goodput is a figure of its own */
    double mtbf_per_node_s;
    double interval_s; /* 0: the best one for the nodes */
    double checkpoint_s, restart_s;
};

struct budget {
    double seconds;     /* wall clock; > 0; infinity where only a loss is asked for */
    double goodput;     /* 0 < goodput <= 1; 0 where failures leave no time for work */
    double model_flops; /* for the compute optimum; 0 = 6 N D of the best plan */
    double target_loss; /* nats per token to reach; 0 = none */
    double gpu_hours;   /* what the seconds follow from; 0: they stand for themselves */
    double cost_usd;    /* what the GPU-hours follow from; 0: they stand for themselves */
    struct checkpointing checkpoints;
};

/* Goodput from failure and checkpoint figures, all in seconds. */
MOSAIC_MUST_USE enum mosaic_status budget_goodput(double mtbf_per_node_s, double interval_s,
                                                  double checkpoint_s, double restart_s, int nodes,
                                                  double *goodput, struct status_error *err);

struct goodput {
    double interval_s, value;
    double best_interval_s, best_value; /* 0 where a checkpoint takes no time: none is the best */
};
/* Goodput at the stated interval and at the best one. */
MOSAIC_MUST_USE enum mosaic_status budget_checkpoints(const struct checkpointing *c, int nodes,
                                                      struct goodput *out,
                                                      struct status_error *err);
/* GPU-hours, where the budget is so stated, as seconds on so many GPUs. */
void budget_spread(struct budget *budget, int gpus);
/* The same budget on another number of nodes. */
void budget_resize(struct budget *budget, int nodes, int gpus);

#endif
