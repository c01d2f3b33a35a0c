// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The least step time of one mesh over all splits of the layers, by labels: for each bottleneck T
 * among the stages' times, in rising order, the least sums and tails of stages no slower than T
 * that tile the layers; the least of A T + B sum + tail.  A lower bound: only each stage's own
 * device memory is asked of it.
 */
#ifndef MOSAIC_TESTS_LEAST_STEP_H
#define MOSAIC_TESTS_LEAST_STEP_H

#include "step/step.h"

struct least_step;
struct least_step *least_step_new(void); /* NULL: memory is short */
void least_step_free(struct least_step *scratch);

/* What no split of the mesh goes below; the step of its only split where it has one. */
double least_step_bound(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh);
/* Whether the stages' device memory holds all layers: first by how many each may have at most, then
 * by every tiling. */
bool least_step_fits(struct least_step *scratch, const struct step_context *ctx,
                     const struct layer_table *table, const struct mesh *mesh);
/* Seconds; `enough` or more when none is below that. */
double least_step_find(struct least_step *scratch, const struct step_context *ctx,
                       const struct layer_table *table, const struct mesh *mesh, double enough);

#endif
