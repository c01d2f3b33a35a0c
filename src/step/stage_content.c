// SPDX-License-Identifier: GPL-3.0-or-later
/* Layers and parameters of one stage. */
#include "step/stage_content.h"

#include <math.h>

static void add_params(const struct layer_table *table, struct stage_content *c) {
    c->dense_params = c->dense_layers * table->params[LAYER_DENSE].dense +
                      c->moe_layers * table->params[LAYER_MOE].dense;
    c->expert_params = c->moe_layers * table->params[LAYER_MOE].expert;
}

double stage_in_flight(const struct mesh *mesh, int stage) {
    const double p = (double)mesh->pp, v = (double)mesh->vpp, m = (double)mesh->micro_batches;
    const double after = p - (double)stage;
    if (mesh_schedule(mesh) == SCHEDULE_DUALPIPE)
        return fmin(p + 1.0, m); /* both directions, at every device */
    if (mesh->vpp == 1)
        return fmin(after, m);
    return fmin(2.0 * (after - 1.0) + (v - 1.0) * p + 1.0, m * v) / v;
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

/* Inner stages with as many layers of one kind as the stage before cost the same and hold no more
 * micro-batches in flight. */
static bool repeats_previous(const struct step_context *ctx, const struct mesh *mesh,
                             const struct split *split, int i) {
    const int first_dense = ctx->geometry->first_dense;
    return i > 1 && i < mesh->pp - 1 && split->first[i - 1] >= first_dense &&
           split->first[i + 1] - split->first[i] == split->first[i] - split->first[i - 1];
}

int stage_runs_find(const struct step_context *ctx, const struct layer_table *table,
                    const struct mesh *mesh, const struct split *split, struct stage_run *runs) {
    int count = 0;
    for (int i = 0; i < mesh->pp; ++i) {
        if (repeats_previous(ctx, mesh, split, i)) {
            runs[count - 1].count++;
            continue;
        }
        const struct stage_range range = {i, split->first[i], split->first[i + 1]};
        runs[count].stage = i;
        runs[count].count = 1;
        runs[count].in_flight = stage_in_flight(mesh, i);
        stage_content_of(ctx, table, mesh, range, &runs[count++].content);
    }
    return count;
}
