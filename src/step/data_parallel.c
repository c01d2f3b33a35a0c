// SPDX-License-Identifier: GPL-3.0-or-later
/* Gradient and weight collectives over DP and expert-DP, and the optimizer step. */
#include "step/data_parallel.h"

#include "step/published.h"

#include <math.h>

static double optimizer_time(const struct step_context *ctx, const struct layer_table *table,
                             double dense, double expert) {
    const double *const scalar = ctx->calibration->scalar;
    const enum optimizer optimizer = ctx->workload->optimizer;
    const bool is_muon = optimizer == OPTIMIZER_MUON;
    const double flop = is_muon ? dense * table->optimizer_flop_per_dense +
                                      expert * table->optimizer_flop_per_expert
                                : 0.0;
    if (ctx->estimator.release_memory)
        return 2.0 * published_state_bytes(optimizer) * (dense + expert) /
                   ctx->hbm_raw_bytes_per_s +
               flop / ctx->peak16_flop_per_s;
    return scalar[CAL_OPTIMIZER_FIXED] +
           scalar[CAL_OPTIMIZER_BYTES] * (dense + expert) / ctx->hbm_raw_bytes_per_s +
           flop / (ctx->peak16_flop_per_s * scalar[CAL_MUON_SHARE]);
}

/* What stays visible of `time_s` when all but one of the buckets may hide in the window. */
static double exposed(const double *scalar, double time_s, double window_s) {
    const double hideable_s = time_s * (1.0 - 1.0 / scalar[CAL_DP_BUCKETS]);
    return time_s - scalar[CAL_DP_OVERLAP] * fmin(hideable_s, fmax(window_s, 0.0));
}

void data_parallel_of(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, const struct stage_cost *stage,
                      struct lookup_count *lookups, struct data_parallel *out) {
    const double *const scalar = ctx->calibration->scalar;
    const struct group dense = {mesh->dp * mesh->cp, mesh->tp};
    const struct group expert = {mesh_edp(mesh), mesh->ep * mesh->etp};
    const struct network *const network = &ctx->network;
    out->reduce_s = collective_time_s(network, COLLECTIVE_REDUCE_SCATTER, dense,
                                      GRADIENT_BYTES * stage->dense_params, lookups) +
                    collective_time_s(network, COLLECTIVE_REDUCE_SCATTER, expert,
                                      GRADIENT_BYTES * stage->expert_params, lookups);
    out->gather_s = collective_time_s(network, COLLECTIVE_ALL_GATHER, dense,
                                      WEIGHT_BYTES * stage->dense_params, lookups) +
                    collective_time_s(network, COLLECTIVE_ALL_GATHER, expert,
                                      WEIGHT_BYTES * stage->expert_params, lookups);
    out->reduce_exposed_s = exposed(scalar, out->reduce_s, stage->busy_s - stage->forward_s);
    out->gather_exposed_s = exposed(scalar, out->gather_s, stage->forward_s);
    out->optimizer_s = optimizer_time(ctx, table, stage->dense_params / (double)dense.ranks,
                                      stage->expert_params / (double)expert.ranks);
}
