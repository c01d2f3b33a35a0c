// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How a MoE layer's routes are balanced and cut, as an execution asks for it: what LLEP (arXiv
 * 2601.17111) leaves of an imbalance and what it borrows, and the chunks of a pipelined dispatch
 * (arXiv 2609.14306).  Of plain expert parallelism everything is as it was.
 */
#ifndef MOSAIC_STEP_EXPERT_SCHEDULE_H
#define MOSAIC_STEP_EXPERT_SCHEDULE_H

#include "step/context.h"
#include "step/token_chunks.h"

struct expert_schedule {
    double imbalance;       /* rows of the busiest rank over the mean, as they are computed */
    bool is_balanced;       /* by LLEP: the threshold was passed */
    double foreign_experts; /* that a rank computes away from their home */
    struct token_chunks chunks;
};

/* tokens: of a rank and micro-batch.  Where one rank of Ep is busiest with l times the mean, its M
 * experts each have l T / (Ep M) of the T routes, and a helper's room takes ceil(room / load) + 1
 * of them at most, M in all. */
void expert_schedule_of(const struct step_context *ctx, const struct mesh *shape, double tokens,
                        struct expert_schedule *out);

/* Lending the foreign experts: weights out in forward and again in backward, gradients home. */
double expert_lending_s(const struct step_context *ctx, const struct mesh *shape,
                        const struct expert_schedule *schedule, double expert_params);
/* Weights and gradients of the foreign experts on a rank. */
double expert_lending_bytes(const struct step_context *ctx, const struct expert_schedule *schedule,
                            double expert_params);

/* Two buffers of the all-to-all that hold whatever a router sends to one rank; 0 without EP. */
double expert_exchange_guarantee(const struct step_context *ctx, const struct mesh *shape,
                                 const struct expert_schedule *schedule);

#endif
