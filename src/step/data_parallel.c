// SPDX-License-Identifier: GPL-3.0-or-later
/* Gradient and weight collectives over DP and expert-DP, and the optimizer step. */
#include "step/data_parallel.h"

#include "step/published.h"

#include <assert.h>
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
static double exposed(const struct step_context *ctx, double time_s, double window_s) {
    const double *const scalar = ctx->calibration->scalar;
    if (ctx->workload->execution.serial_dp)
        return time_s;
    const double hideable_s = time_s * (1.0 - 1.0 / scalar[CAL_DP_BUCKETS]);
    return time_s - scalar[CAL_DP_OVERLAP] * fmin(hideable_s, fmax(window_s, 0.0));
}

struct shard_groups sharding_groups(const struct step_context *ctx, const struct mesh *mesh) {
    const struct execution *const e = &ctx->workload->execution;
    struct shard_groups out = {.dense = {mesh->dp * mesh->cp, mesh->tp},
                               .expert = {mesh_edp(mesh), mesh->ep * mesh->etp},
                               .dense_copies = {1, 1},
                               .expert_copies = {1, 1}};
    if (e->sharding == SHARD_HYBRID) {
        /* A shard group holds shard_ranks x TP GPUs; experts share out what EP leaves of them. */
        const int dense = e->shard_ranks; /* divides DP x CP: mesh_complete */
        int expert = dense * mesh->tp / (mesh->ep * mesh->etp);
        expert = expert < 1 ? 1 : expert;
        while (out.expert.ranks % expert != 0)
            --expert;
        out.dense_copies = (struct group){out.dense.ranks / dense, out.dense.stride * dense};
        out.expert_copies = (struct group){out.expert.ranks / expert, out.expert.stride * expert};
        out.dense.ranks = dense;
        out.expert.ranks = expert;
    }
    const bool is_whole = e->sharding == SHARD_NONE;
    out.dense_states = is_whole ? 1.0 : (double)out.dense.ranks;
    out.expert_states = is_whole ? 1.0 : (double)out.expert.ranks;
    return out;
}

bool sharding_gathers(const struct step_context *ctx, const struct mesh *mesh) {
    const enum sharding sharding = ctx->workload->execution.sharding;
    return (sharding == SHARD_FSDP || sharding == SHARD_HYBRID) && mesh->pp == 1;
}

double ring_rest_share(const struct step_context *ctx, double ranks) {
    const double ring = (double)ctx->workload->execution.vocab_ring;
    if (!(ring > 1.0))
        return 0.0;
    return ranks >= ring ? 1.0 / ranks : (1.0 - 1.0 / ranks) / (ring - 1.0);
}

void shard_links_of(const struct step_context *ctx, const struct mesh *mesh,
                    struct shard_links *out) {
    *out = (struct shard_links){.groups = sharding_groups(ctx, mesh),
                                .gathers = sharding_gathers(ctx, mesh)};
    const struct shard_groups *const g = &out->groups;
    const struct group shards[] = {g->dense, g->expert};
    const struct group copies[] = {g->dense_copies, g->expert_copies};
    static const enum collective_kind kinds[] = {COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALL_GATHER},
                                      copying = COLLECTIVE_ALL_REDUCE;
    for (int i = 0; i < 2; ++i) {
        collective_paths_of(&ctx->network, shards[i], kinds, 2, out->shards[i]);
        collective_paths_of(&ctx->network, copies[i], &copying, 1, &out->copies[i]);
    }
}

/* A collective over the dense and the expert groups, `bytes` a parameter. */
static double both(const struct collective_path *dense, const struct collective_path *expert,
                   const struct stage_cost *stage, double bytes, struct lookup_count *lookups) {
    return collective_path_s(dense, bytes * stage->dense_params, lookups) +
           collective_path_s(expert, bytes * stage->expert_params, lookups);
}

double gathering_exposed_s(const struct step_context *ctx, const struct shard_links *links,
                           const struct stage_cost *stage) {
    if (!links->gathers)
        return 0.0;
    const double gradient = execution_gradient_bytes(&ctx->workload->execution);
    const double transfer_s =
        2.0 * both(&links->shards[0][1], &links->shards[1][1], stage, WEIGHT_BYTES, NULL) +
        both(&links->shards[0][0], &links->shards[1][0], stage, gradient, NULL);
    if (ctx->workload->execution.serial_dp)
        return transfer_s;
    const double compute_s = stage->busy_s, share = ctx->calibration->scalar[CAL_FSDP_EXPOSED];
    const double longer_s = fmax(transfer_s, compute_s), shorter_s = fmin(transfer_s, compute_s);
    return longer_s - compute_s + share * shorter_s * shorter_s / longer_s;
}

/* Times a step that gradients are reduced. */
static double reductions(const struct step_context *ctx, const struct mesh *mesh) {
    return ctx->workload->execution.sharding == SHARD_ZERO2 ? (double)mesh->micro_batches : 1.0;
}

/* Once a step, after all micro-batches: what the shards, and their copies, exchange. */
static void once_a_step(const struct step_context *ctx, const struct mesh *mesh,
                        const struct shard_links *links, const struct stage_cost *stage,
                        struct lookup_count *lookups, struct data_parallel *out) {
    const struct execution *const e = &ctx->workload->execution;
    const double gradient = execution_gradient_bytes(e);
    if (!links->gathers) {
        const double back = e->sharding == SHARD_NONE ? gradient : (double)WEIGHT_BYTES;
        out->reduce_s = reductions(ctx, mesh) *
                        both(&links->shards[0][0], &links->shards[1][0], stage, gradient, lookups);
        out->gather_s = both(&links->shards[0][1], &links->shards[1][1], stage, back, lookups);
    }
    const struct shard_groups *const g = &links->groups;
    const struct stage_cost shard = {.dense_params = stage->dense_params / (double)g->dense.ranks,
                                     .expert_params =
                                         stage->expert_params / (double)g->expert.ranks};
    out->reduce_s += both(&links->copies[0], &links->copies[1], &shard, gradient, lookups);
}

/* The largest tensor's part on one rank; a rank's experts stand stacked, matrix by matrix. */
static double largest_shard(const struct step_context *ctx, const struct layer_table *table,
                            const struct shard_groups *groups) {
    const double dense =
        fmax(table->largest_matrix_params, fmax(table->embedding_params, table->head_params));
    const double stacked = table->params[LAYER_MOE].expert / (double)ctx->geometry->ffn_matrices;
    return fmax(dense / groups->dense_states, stacked / groups->expert_states);
}

struct state_stream optimizer_stream_of(const struct step_context *ctx,
                                        const struct layer_table *table,
                                        const struct shard_groups *groups, double params) {
    const struct execution *const e = &ctx->workload->execution;
    /* One bucket needs one slot. */
    const bool is_single = e->bucket_params >= params || e->bucket_slots < 1;
    const struct state_stream_request request = {.bucket_params = e->bucket_params,
                                                 .slots = is_single ? 1 : e->bucket_slots};
    struct state_stream out = {0};
    const double largest = fmin(largest_shard(ctx, table, groups), params);
    if (state_stream_of(&request, params, largest, &out, NULL) != MOSAIC_OK)
        out = (struct state_stream){.params = params, /* 2^53 bytes and more: never fit */
                                    .buckets = 1,
                                    .largest_params = params,
                                    .slots = 1,
                                    .staging_bytes = STREAM_SLOT_BYTES * params,
                                    .device_bytes = STREAM_RESIDENT_BYTES * params,
                                    .host_bytes = STREAM_STATE_BYTES * params,
                                    .up_bytes = STREAM_STATE_BYTES * params,
                                    .down_bytes = STREAM_STATE_BYTES * params};
    return out;
}

struct state_stream_time optimizer_stream_time(const struct step_context *ctx,
                                               const struct state_stream *stream) {
    const double *const scalar = ctx->calibration->scalar;
    const struct state_stream_rates rates = {.up_bytes_per_s = step_host_bytes_per_s(ctx),
                                             .down_bytes_per_s = step_host_bytes_per_s(ctx),
                                             .host_bytes_per_s = scalar[CAL_HOST_MEMORY_RATE],
                                             .update_params_per_s = ctx->hbm_raw_bytes_per_s /
                                                                    scalar[CAL_OPTIMIZER_BYTES]};
    struct state_stream_time out = {0};
    const enum mosaic_status status = state_stream_time(stream, &rates, &out, NULL);
    assert(status == MOSAIC_OK);
    (void)status;
    return out;
}

/* One bucket more makes all of them smaller, so fill and drain get shorter, and a second one takes
 * the slots that a single one leaves: as many parameters or more take at least what they do in
 * P / b + 1 with all slots. */
static void stream_exposed(const struct step_context *ctx, const struct state_stream *stream,
                           struct data_parallel *out) {
    const struct execution *const e = &ctx->workload->execution;
    struct state_stream open = *stream;
    if (e->bucket_slots > open.slots)
        open.slots = e->bucket_slots;
    const struct state_stream_time time = optimizer_stream_time(ctx, &open);
    const double fixed_s = ctx->calibration->scalar[CAL_OPTIMIZER_FIXED];
    const double buckets = (double)stream->buckets;
    const double most = 1.0 + stream->params / e->bucket_params;
    const double ends_s = time.up_s + time.update_s + time.down_s - time.period_s;
    out->offload_s = optimizer_stream_time(ctx, stream).total_s + fixed_s;
    out->offload_least_s = buckets * time.period_s + ends_s * fmin(buckets / most, 1.0) + fixed_s;
}

void data_parallel_of(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, const struct shard_links *links,
                      const struct stage_cost *stage, struct lookup_count *lookups,
                      struct data_parallel *out) {
    const struct execution *const e = &ctx->workload->execution;
    const struct shard_groups *const g = &links->groups;
    *out = (struct data_parallel){0};
    once_a_step(ctx, mesh, links, stage, lookups, out);
    const double compute_s = stage->busy_s - stage->gather_s;
    out->reduce_exposed_s =
        exposed(ctx, out->reduce_s, reductions(ctx, mesh) * (compute_s - stage->forward_s));
    out->gather_exposed_s = exposed(ctx, out->gather_s, stage->forward_s);
    const double dense = stage->dense_params / g->dense_states +
                         ring_rest_share(ctx, g->dense_states) * stage->head_elsewhere;
    const double expert = stage->expert_params / g->expert_states;
    if (e->bucket_params > 0.0) {
        const struct state_stream stream = optimizer_stream_of(ctx, table, g, dense + expert);
        stream_exposed(ctx, &stream, out);
        return;
    }
    const double away = e->offload_optimizer;
    out->optimizer_s = optimizer_time(ctx, table, (1.0 - away) * dense, (1.0 - away) * expert);
    if (away > 0.0)
        out->offload_s =
            away * (dense + expert) *
            ((execution_gradient_bytes(e) + WEIGHT_BYTES) / step_host_bytes_per_s(ctx) +
             1.0 / ctx->calibration->scalar[CAL_HOST_OPTIMIZER_RATE]);
    out->offload_least_s = out->offload_s;
}
