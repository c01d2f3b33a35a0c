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

/* Layers of one stage by kind. */
struct stage_layers {
    int dense, moe, mtp;
};

/* A stated pipeline says which chunk has what; else the dense layers lead and MTP layers are on the
 * last stage. */
static struct stage_layers stage_layers_of(const struct step_context *ctx, const struct mesh *mesh,
                                           struct stage_range range) {
    const struct geometry *const g = ctx->geometry;
    const struct stated_stages *const stated = workload_stages(ctx->workload, mesh);
    struct stage_layers out = {0};
    if (!stated) {
        out.dense = stage_dense_layers(g, range);
        out.moe = range.last - range.first - out.dense;
        out.mtp = range.stage == mesh->pp - 1 ? g->mtp_layers : 0;
        return out;
    }
    int first = 0;
    for (int i = 0; i < (int)stated->count; ++i) {
        const struct pipeline_chunk *const chunk = &stated->chunks[i];
        const int last = first + chunk->layers;
        if (i % mesh->pp == range.stage) {
            const int dense = stage_dense_layers(g, (struct stage_range){i, first, last});
            out.dense += dense;
            out.moe += chunk->layers - dense;
            out.mtp += chunk->mtp;
        }
        first = last;
    }
    return out;
}

/* Micro-batches of a chunk of the last turn. */
static double last_turn_in_flight(const struct mesh *mesh, int stage) {
    if (mesh->vpp == 1)
        return stage_in_flight(mesh, stage);
    const double p = (double)mesh->pp, after = p - (double)stage;
    return fmin(fmin(2.0 * (after - 1.0) + 1.0, p), (double)mesh->micro_batches);
}

static void add_mtp(const struct step_context *ctx, const struct layer_table *table,
                    const struct mesh *mesh, int stage, struct stage_content *c) {
    const double all = (double)ctx->geometry->mtp_layers;
    c->mtp_moved =
        c->is_last ? c->mtp_layers - all : c->mtp_layers * last_turn_in_flight(mesh, stage);
    if (!(c->mtp_layers > 0.0))
        return;
    const double share = c->mtp_layers / all;
    c->dense_params += share * table->mtp.dense;
    c->expert_params += share * table->mtp.expert;
    c->has[table->mtp_kind] = true;
}

void stage_content_of(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, struct stage_range range,
                      struct stage_content *out) {
    const struct stage_layers layers = stage_layers_of(ctx, mesh, range);
    *out = (struct stage_content){
        .dense_layers = (double)layers.dense,
        .moe_layers = (double)layers.moe,
        .mtp_layers = (double)layers.mtp,
        .is_first = range.stage == 0,
        .is_last = range.stage == mesh->pp - 1,
        .has = {[LAYER_DENSE] = layers.dense > 0, [LAYER_MOE] = layers.moe > 0}};
    add_params(table, out);
    if (out->is_first)
        out->dense_params += table->embedding_params;
    add_mtp(ctx, table, mesh, range.stage, out);
    /* Tied ends share one matrix only where they share a stage. */
    if (out->is_last && !(out->is_first && ctx->geometry->tied)) {
        out->dense_params += table->head_params;
        out->head_elsewhere = table->head_elsewhere;
    }
}

void stage_content_mean(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh, struct stage_content *out) {
    const double moe = (double)geometry_moe_layers(ctx->geometry), stages = (double)mesh->pp;
    *out = (struct stage_content){
        .dense_layers = ((double)ctx->geometry->layers - moe) / stages,
        .moe_layers = moe / stages,
        .has = {[LAYER_DENSE] = (double)ctx->geometry->layers > moe, [LAYER_MOE] = moe > 0.0}};
    add_params(table, out);
    out->dense_params += table->embedding_params / stages;
}

double stage_away_bytes(const struct layer_table *table, const struct stage_content *c) {
    const struct layer_cost *const dense = &table->cost[LAYER_DENSE];
    const struct layer_cost *const moe = &table->cost[LAYER_MOE];
    return c->dense_layers * dense->away_bytes +
           c->moe_layers * (moe->away_bytes + moe->away_routed_bytes);
}

static bool is_like_previous(const struct step_context *ctx, const struct mesh *mesh,
                             const struct split *split, int i) {
    const struct stage_layers before = stage_layers_of(
        ctx, mesh, (struct stage_range){i - 1, split->first[i - 1], split->first[i]});
    const struct stage_layers here =
        stage_layers_of(ctx, mesh, (struct stage_range){i, split->first[i], split->first[i + 1]});
    return here.dense == before.dense && here.moe == before.moe && here.mtp == before.mtp;
}

/* Inner stages with as many layers of one kind as the stage before cost the same and hold no more
 * micro-batches in flight; fewer may use more of a budget for boundaries. */
int stage_runs_find(const struct step_context *ctx, const struct layer_table *table,
                    const struct mesh *mesh, const struct split *split, struct stage_run *runs) {
    const bool is_stated = workload_stages(ctx->workload, mesh) != NULL;
    const bool may_repeat = !(ctx->workload->execution.checkpoint_host_bytes > 0.0);
    const int first_dense = ctx->geometry->first_dense, last_inner = may_repeat ? mesh->pp - 2 : -1;
    const uint16_t *const first = split->first;
    int count = 0;
    for (int i = 0; i < mesh->pp; ++i) {
        const bool repeats = i >= 2 && i <= last_inner &&
                             (is_stated ? is_like_previous(ctx, mesh, split, i)
                                        : first[i - 1] >= first_dense &&
                                              first[i + 1] - first[i] == first[i] - first[i - 1]) &&
                             (!split->is_mixed || split->recompute[i] == split->recompute[i - 1]);
        if (repeats) {
            runs[count - 1].count++;
            continue;
        }
        runs[count].stage = i;
        runs[count].count = 1;
        runs[count].recompute = split_recompute(split, mesh, i);
        runs[count].in_flight = stage_in_flight(mesh, i);
        stage_content_of(ctx, table, mesh, (struct stage_range){i, first[i], first[i + 1]},
                         &runs[count++].content);
    }
    return count;
}
