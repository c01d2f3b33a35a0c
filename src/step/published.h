// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The step as the paper's released estimator composes it (arXiv 2608.10605, section 5):
 *   t_mb = max(t_cmp, t_disp),  t_block = n_mb t_mb,  bubble = (PP - 1) / (VPP n_mb) of it,
 *   t_last n_mb times that fraction, t_vocab, DP exposed on average, optimizer, times chi.
 */
#ifndef MOSAIC_STEP_PUBLISHED_H
#define MOSAIC_STEP_PUBLISHED_H

#include "step/step.h"

void published_compose(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *mesh, struct prediction *out);

/* Optimizer state per parameter by the release: 16-bit remainder and FP32 moments. */
double published_state_bytes(enum optimizer optimizer);

/* Shared with the default composition (step.c). */
double hand_off_time(const struct step_context *ctx, const struct layer_table *table,
                     const struct mesh *mesh, struct lookup_count *lookups);
void add_layers(struct time_split *t, const struct layer_cost *cost, double times);
double time_split_sum(const struct time_split *t);

#endif
