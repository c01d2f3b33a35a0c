// SPDX-License-Identifier: GPL-3.0-or-later
/* Which recomputations stages may mix, and the tables that price them. */
#include "step/stage_policies.h"

void context_mix_policies(struct step_context *ctx, const bool recompute[static RECOMPUTE_MODES]) {
    unsigned set = 0;
    for (int r = 0; r < RECOMPUTE_MODES; ++r)
        set |= recompute[r] ? 1U << r : 0U;
    /* The published estimator knows one recomputation. */
    const bool may = ctx->engine.recompute_per_stage && !ctx->estimator.pipeline_fraction &&
                     !ctx->estimator.release_memory;
    ctx->stage_policies = may && set & (set - 1) ? set : 0;
}

unsigned shape_policies(const struct step_context *ctx, const struct mesh *shape) {
    const unsigned own = 1U << shape->recompute;
    /* What waits on the host as a layer's boundary is what full recomputation keeps. */
    if (!(ctx->stage_policies & own) || ctx->workload->execution.checkpoint_host_bytes > 0.0)
        return own;
    return ctx->stage_policies & (own | (own - 1));
}

bool mesh_takes_policies(const struct mesh *mesh) {
    const enum schedule schedule = mesh_schedule(mesh);
    return mesh->pp > 1 && (schedule == SCHEDULE_1F1B || schedule == SCHEDULE_INTERLEAVED);
}

unsigned mesh_policies(const struct step_context *ctx, const struct mesh *mesh) {
    const unsigned own = 1U << mesh->recompute;
    const struct stated_stages *const stated = workload_stages(ctx->workload, mesh);
    if (ctx->stage_policies == 0 || !mesh_takes_policies(mesh) ||
        (stated && stated->split.is_mixed))
        return own;
    unsigned set = shape_policies(ctx, mesh);
    for (int r = 0; r < (int)mesh->recompute; ++r) {
        struct mesh like = *mesh;
        like.recompute = (enum recompute)r;
        if (mesh_check_engine(&like, ctx->geometry, ctx->workload, &ctx->engine, NULL) != MOSAIC_OK)
            set &= ~(1U << r);
    }
    return set;
}

unsigned split_policies(const struct split *split, const struct mesh *mesh) {
    unsigned set = 1U << mesh->recompute;
    for (int i = 0; i < mesh->pp; ++i)
        set |= 1U << split_recompute(split, mesh, i);
    return set;
}

void policy_views_of(const struct step_context *ctx, const struct layer_table *table,
                     const struct mesh *mesh, unsigned policies, struct layer_table *rooms,
                     struct policy_views *out) {
    *out = (struct policy_views){0};
    for (int r = 0; r < RECOMPUTE_MODES; ++r) {
        if (!(policies & 1U << r))
            continue;
        out->meshes[r] = *mesh;
        out->meshes[r].recompute = (enum recompute)r;
        out->tables[r] = table;
        if (r != (int)mesh->recompute) {
            layer_table_fill(ctx, &out->meshes[r], &rooms[r]);
            out->tables[r] = &rooms[r];
        }
    }
}
