// SPDX-License-Identifier: GPL-3.0-or-later
/* What one pipeline stage holds: layers by kind, the ends, parameters on one GPU. */
#ifndef MOSAIC_STEP_STAGE_CONTENT_H
#define MOSAIC_STEP_STAGE_CONTENT_H

#include "step/layer_cost.h"

struct stage_range {
    int stage, first, last; /* layers first <= layer < last */
};

struct stage_content {
    double dense_layers, moe_layers;
    double dense_params, expert_params; /* embedding and head with the dense ones */
    bool is_first, is_last;
};

/* Leading dense layers inside a range. */
int stage_dense_layers(const struct geometry *g, struct stage_range range);

void stage_content_of(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, struct stage_range range, struct stage_content *out);
/* Activations of one micro-batch that the stage's layers keep for backward. */
double stage_kept_bytes(const struct layer_table *table, const struct stage_content *c);
/* The mean stage of a mesh, whatever the split; the embedding in, the head out (tied ends share).
 */
void stage_content_mean(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh, struct stage_content *out);

#endif
