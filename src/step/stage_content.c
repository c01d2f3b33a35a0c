// SPDX-License-Identifier: GPL-3.0-or-later
/* Layers and parameters of one stage. */
#include "step/stage_content.h"

static void add_params(const struct layer_table *table, struct stage_content *c) {
    c->dense_params = c->dense_layers * table->params[LAYER_DENSE].dense +
                      c->moe_layers * table->params[LAYER_MOE].dense;
    c->expert_params = c->moe_layers * table->params[LAYER_MOE].expert;
}

int stage_dense_layers(const struct geometry *g, struct stage_range range) {
    const int end = range.last < g->first_dense ? range.last : g->first_dense;
    return end > range.first ? end - range.first : 0;
}

void stage_content_of(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, struct stage_range range,
                      struct stage_content *out) {
    const int dense = stage_dense_layers(ctx->geometry, range);
    *out = (struct stage_content){.dense_layers = (double)dense,
                                  .moe_layers = (double)(range.last - range.first - dense),
                                  .is_first = range.stage == 0,
                                  .is_last = range.stage == mesh->pp - 1};
    add_params(table, out);
    if (out->is_first)
        out->dense_params += table->embedding_params;
    if (!out->is_last)
        return;
    out->dense_params += table->mtp.dense;
    out->expert_params += table->mtp.expert;
    /* Tied ends share one matrix only where they share a stage. */
    if (!(out->is_first && ctx->geometry->tied))
        out->dense_params += table->head_params;
}

void stage_content_mean(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh, struct stage_content *out) {
    const double moe = (double)geometry_moe_layers(ctx->geometry), stages = (double)mesh->pp;
    *out = (struct stage_content){.dense_layers = ((double)ctx->geometry->layers - moe) / stages,
                                  .moe_layers = moe / stages};
    add_params(table, out);
    out->dense_params += table->embedding_params / stages;
}

double stage_kept_bytes(const struct layer_table *table, const struct stage_content *c) {
    const struct layer_cost *const dense = &table->cost[LAYER_DENSE];
    const struct layer_cost *const moe = &table->cost[LAYER_MOE];
    return c->dense_layers * dense->kept_bytes +
           c->moe_layers * (moe->kept_bytes + moe->kept_routed_bytes);
}
