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
    double mtp_layers; /* on the last stage unless stated */
    /* Layers times micro-batches that stated MTP layers keep away from the loss; on the last stage
     * less than 0: what is not there. */
    double mtp_moved;
    double dense_params, expert_params; /* embedding and head with the dense ones */
    double
        head_elsewhere; /* of a head in a ring: what all data-parallel ranks share out counts it */
    bool is_first, is_last;
    bool has[LAYER_KINDS]; /* layers of a kind, MTP ones among them */
};

/* Micro-batches whose activations a stage holds at most, in stage equivalents (1F1B: min(p - i, m);
 * interleaved: min(2(p-i-1) + (v-1)p + 1, m v) / v). */
double stage_in_flight(const struct mesh *mesh, int stage);
/* Leading dense layers inside a range. */
int stage_dense_layers(const struct geometry *g, struct stage_range range);

void stage_content_of(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, struct stage_range range, struct stage_content *out);
/* Stages of one split that differ, each with how many in a row are like it. */
struct stage_run {
    int stage, count;
    enum recompute recompute;
    double in_flight; /* of the first, which has most */
    struct stage_content content;
};
/* In the order of the stages; runs[] takes mesh->pp entries. Returns how many there are. */
int stage_runs_find(const struct step_context *ctx, const struct layer_table *table,
                    const struct mesh *mesh, const struct split *split, struct stage_run *runs);
/* Activations of one micro-batch that the stage's layers keep and offloading may move. */
double stage_away_bytes(const struct layer_table *table, const struct stage_content *c);
/* The mean stage of a mesh, whatever the split; the embedding in, the head out (tied ends share).
 */
void stage_content_mean(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh, struct stage_content *out);

#endif
