// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Lower bounds of the step time of many meshes at once, from one layer table.
 *
 * Shape (tp, cp, ep, etp, micro-batch, recomputation), any PP, VPP, schedule and split:
 *   step >= batch TP CP / (micro-batch GPUs) (max(sum of GPU times, sum of launches) + head),
 * since m / PP = batch TP CP / (micro-batch GPUs) at every PP, and a step takes m times the mean
 * stage at least.
 *
 * Micro-batches: what a token costs never rises with them.  GEMMs fill up, weights and launches are
 * shared by more rows, attention is linear, latencies stay; only a measured bus bandwidth may dip,
 * at worst by its largest value before over a later one.  So the largest micro-batch over that dip
 * bounds all smaller ones.
 *
 * Recomputation adds to what runs on the GPU; of launches the calibration's factors say what each
 * kind needs.  So the least recomputation bounds the others.
 */
#ifndef MOSAIC_PLAN_SHAPE_BOUND_H
#define MOSAIC_PLAN_SHAPE_BOUND_H

#include "step/step.h"

/* No mesh of the table's shape takes less.  0 for the published composition, which has no such
 * bound. */
double shape_bound_s(const struct step_context *ctx, const struct layer_table *table,
                     const struct mesh *shape);

/* Whether the bounds below hold: not for what is cut into chunks of tokens or goes round a ring,
 * nor for what the published estimator does otherwise. */
bool batches_are_bounded(const struct step_context *ctx);
/* Over all measured collectives: the largest bus bandwidth before any smaller one, over that; >= 1.
 */
double collective_dip(const struct calibration *calibration);
/* No mesh of this shape or of a smaller micro-batch takes less; of one with more recomputation
 * neither where is_any_recompute. */
double batches_bound_s(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *shape, bool is_any_recompute, double dip);

/* Whether the bound of memory never falls with the micro-batch: kept activations are products of
 * its tokens, but for chunks, for boundaries in the room that there is, and for the release's count
 * of micro-batches. */
bool memory_rises(const struct step_context *ctx);

#endif
