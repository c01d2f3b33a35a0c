// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a plan is to be best at, as a score of each geometry that is to be small and never falls
 * when its step takes longer.  That is all a search asks of it: a lower bound of the step time is
 * then one of the score.
 *
 *   loss    nats per token at the tokens that the budget buys
 *   time    wall-clock seconds until the law's loss is down to target_loss
 *   cost    those seconds on all GPUs at their price; GPU-hours where no price is stated
 *   tokens  minus the tokens that the budget buys
 */
#ifndef MOSAIC_PLAN_OBJECTIVE_H
#define MOSAIC_PLAN_OBJECTIVE_H

#include <stdbool.h>

enum objective_kind {
    OBJECTIVE_LOSS,
    OBJECTIVE_TIME,
    OBJECTIVE_COST,
    OBJECTIVE_TOKENS,
    OBJECTIVES
};

const char *objective_name(enum objective_kind kind);
/* Whether it asks for a loss to reach. */
bool objective_has_target(enum objective_kind kind);
/* How far apart two scores are a near tie: 0.001 nats, by which a training repeated differs; a
 * hundredth of a time, a cost or a number of tokens. */
double objective_tie_width(enum objective_kind kind, double score);

#endif
