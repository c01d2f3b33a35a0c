// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Memory of one GPU of one stage.  Mixed precision: bf16 weights, gradients and optimizer state as
 * the execution shares them out over DP (dense) and expert-DP (routed experts); activations of the
 * micro-batches in flight (1F1B: min(p - i, m); interleaved: min(2(p-i-1) + (v-1)p + 1, m v) / v).
 */
#include "step/data_parallel.h"
#include "step/published.h"

#include <math.h>
#include <stdint.h>

/* FP32 master weight and two moments, FP32 or bf16; Muon keeps one momentum. */
static double optimizer_bytes(const struct workload *w) {
    const double moment = w->execution.bf16_moments ? 2.0 : 4.0;
    return 4.0 + (w->optimizer == OPTIMIZER_MUON ? 1.0 : 2.0) * moment;
}

/* Optimizer state of a stage on one GPU, wherever it is kept. */
static double state_bytes_of(const struct step_context *ctx, const struct shard_groups *groups,
                             const struct stage_content *c) {
    return optimizer_bytes(ctx->workload) *
           (c->dense_params / groups->dense_states + c->expert_params / groups->expert_states);
}

/* Weights, gradients and optimizer state of a stage, as the job shares them out.  DualPipe holds
 * two stages, the second a copy of its mirror's. */
static void state_items(const struct step_context *ctx, const struct mesh *mesh,
                        const struct stage_content *c, struct memory_items *out) {
    const struct execution *const e = &ctx->workload->execution;
    const struct shard_groups g = sharding_groups(ctx, mesh);
    const double params = c->dense_params + c->expert_params;
    const double sharded =
        c->dense_params / (double)g.dense.ranks + c->expert_params / (double)g.expert.ranks;
    const double copies = mesh_schedule(mesh) == SCHEDULE_DUALPIPE ? 2.0 : 1.0;
    const bool gathers = sharding_gathers(ctx, mesh);
    const bool shards_gradients = e->sharding == SHARD_ZERO2 || gathers;
    out->weights = copies * WEIGHT_BYTES * (gathers ? sharded : params);
    out->gradients = copies * execution_gradient_bytes(e) * (shards_gradients ? sharded : params);
    out->optimizer = (1.0 - e->offload_optimizer) * state_bytes_of(ctx, &g, c);
}

/* FSDP: weights and gradients of two layers stand gathered at once. */
static double gathered_bytes(const struct step_context *ctx, const struct layer_table *table,
                             const struct mesh *mesh) {
    if (!sharding_gathers(ctx, mesh))
        return 0.0;
    double largest = 0.0;
    for (int kind = 0; kind < LAYER_KINDS; ++kind)
        largest = fmax(largest, table->params[kind].dense + table->params[kind].expert);
    const double layers = 2.0;
    return layers * largest * (WEIGHT_BYTES + execution_gradient_bytes(&ctx->workload->execution));
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

/* One layer's interior beyond what is kept, while it is recomputed. */
static double recompute_workspace(const struct layer_table *table, const struct stage_content *c) {
    double largest = 0.0;
    const double layers[LAYER_KINDS] = {c->dense_layers, c->moe_layers};
    for (int kind = 0; kind < LAYER_KINDS; ++kind) {
        const struct layer_cost *const cost = &table->cost[kind];
        if (layers[kind] > 0.0)
            largest =
                fmax(largest, cost->interior_bytes - cost->kept_bytes - cost->kept_routed_bytes);
    }
    return largest;
}

static void released_items(const struct step_context *ctx, const struct layer_table *table,
                           const struct mesh *mesh, const struct stage_content *c,
                           struct memory_items *out) {
    const double params = c->dense_params + c->expert_params, dp = (double)mesh->dp;
    const double state = published_state_bytes(ctx->workload->optimizer);
    const double flight = fmin((double)mesh->micro_batches, (double)mesh->pp);
    out->weights = WEIGHT_BYTES * params;
    out->gradients = BYTES_FP32 * params / dp;
    out->optimizer = state * params / dp;
    out->activations = flight * (c->dense_layers * table->cost[LAYER_DENSE].kept_bytes +
                                 c->moe_layers * table->cost[LAYER_MOE].kept_bytes);
    out->routed = flight * c->moe_layers * table->cost[LAYER_MOE].kept_routed_bytes;
    out->workspace = recompute_workspace(table, c);
    out->communication = table->hand_off_bytes * (double)mesh->ep * (mesh->ep > 1 ? 3.0 : 1.0);
}

/* One layer's activations on their way to the host and one's on their way back. */
static double in_transit_bytes(const struct layer_table *table, const struct stage_content *c) {
    double largest = 0.0;
    const double layers[LAYER_KINDS] = {c->dense_layers, c->moe_layers};
    for (int kind = 0; kind < LAYER_KINDS; ++kind)
        if (layers[kind] > 0.0)
            largest =
                fmax(largest, table->cost[kind].kept_bytes + table->cost[kind].kept_routed_bytes);
    return 2.0 * largest;
}

/* Activations inside CUDA graphs: routed ones only where the whole step is replayed, none where the
 * router alone is. */
static double replayed_bytes(const struct step_context *ctx, const struct memory_items *items) {
    switch (ctx->workload->execution.graphs) {
    case GRAPHS_MODULE:
        return items->activations;
    case GRAPHS_FULL:
        return items->activations + items->routed;
    case GRAPHS_NONE:
    case GRAPHS_ROUTER:
    case GRAPH_SCOPES:
        break;
    }
    return 0.0;
}

static void default_items(const struct step_context *ctx, const struct layer_table *table,
                          const struct mesh *mesh, const struct stage_content *c, double flight,
                          struct memory_items *out) {
    const double *const scalar = ctx->calibration->scalar;
    state_items(ctx, mesh, c, out);
    const double away = ctx->workload->execution.offload_activations, here = flight * (1.0 - away);
    out->activations = here * (c->dense_layers * table->cost[LAYER_DENSE].kept_bytes +
                               c->moe_layers * table->cost[LAYER_MOE].kept_bytes);
    out->routed = here * c->moe_layers * table->cost[LAYER_MOE].kept_routed_bytes;
    if (c->is_last) {
        out->activations += table->head_kept_bytes;
        out->logits = table->logits_bytes;
    }
    /* Logits are gone before the layers' backward rebuilds an interior: the larger one counts. */
    out->workspace = fmax(0.0, recompute_workspace(table, c) - out->logits) +
                     scalar[CAL_WEIGHT_GRADIENT_BYTES] * table->largest_matrix_params +
                     away * fmin(in_transit_bytes(table, c), flight * stage_kept_bytes(table, c));
    /* A send and a receive buffer of the all-to-all. */
    out->communication =
        (mesh->ep > 1 && c->moe_layers > 0.0 ? 2.0 * table->routed_payload_bytes : 0.0) +
        gathered_bytes(ctx, table, mesh);
    out->graphs = scalar[CAL_GRAPHS_SHARE] * replayed_bytes(ctx, out);
}

/* What the runtime takes outside the framework's allocator: its reserve and the communicators. */
static double runtime_bytes(const struct step_context *ctx, const struct mesh *mesh) {
    const double *const scalar = ctx->calibration->scalar;
    const int communicators = (mesh->tp > 1) + (mesh->cp > 1) + (mesh->ep > 1) + (mesh->pp > 1) +
                              (mesh->dp > 1) + (mesh_edp(mesh) > 1);
    return scalar[CAL_RESERVE_BYTES] + (double)communicators * scalar[CAL_COMMUNICATOR_BYTES];
}

/* Whole bytes, so that the items sum to the total exactly; none comes near 2^62. */
static double whole_bytes(double bytes) {
    const int64_t down = (int64_t)bytes;
    return (double)(down + ((double)down < bytes));
}

static void round_and_sum(struct memory_items *items) {
    double total = 0.0;
#define ROUND_ITEM(name)                                                                           \
    items->name = whole_bytes(items->name);                                                        \
    total += items->name;
    MEMORY_ITEMS(ROUND_ITEM)
#undef ROUND_ITEM
    items->total = total;
}

double memory_allocated(const struct memory_items *items) {
    return items->total - items->reserve - items->fragmentation;
}

void stage_memory_of(const struct step_context *ctx, const struct layer_table *table,
                     const struct mesh *mesh, struct stage_range range, struct memory_items *out) {
    struct stage_content c;
    stage_content_of(ctx, table, mesh, range, &c);
    const double *const scalar = ctx->calibration->scalar;
    *out = (struct memory_items){0};
    if (ctx->estimator.release_memory)
        released_items(ctx, table, mesh, &c, out);
    else
        default_items(ctx, table, mesh, &c, stage_in_flight(mesh, range.stage), out);
    round_and_sum(out);
    if (!ctx->estimator.release_memory) {
        out->reserve = whole_bytes(runtime_bytes(ctx, mesh));
        out->fragmentation = whole_bytes(scalar[CAL_FRAGMENTATION] * out->total);
        out->total += out->reserve + out->fragmentation;
    }
}

double stage_host_bytes(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh, struct stage_range range) {
    const struct execution *const e = &ctx->workload->execution;
    if (ctx->estimator.release_memory ||
        !(e->offload_activations > 0.0 || e->offload_optimizer > 0.0))
        return 0.0;
    struct stage_content c;
    stage_content_of(ctx, table, mesh, range, &c);
    const struct shard_groups g = sharding_groups(ctx, mesh);
    return e->offload_optimizer * state_bytes_of(ctx, &g, &c) +
           e->offload_activations * stage_in_flight(mesh, range.stage) *
               stage_kept_bytes(table, &c);
}

enum verdict memory_verdict(const struct step_context *ctx, double total_bytes) {
    const double capacity = ctx->cluster->device.memory_bytes;
    if (total_bytes > capacity)
        return VERDICT_NO;
    return total_bytes > ctx->calibration->scalar[CAL_TIGHT_SHARE] * capacity ? VERDICT_TIGHT
                                                                              : VERDICT_FITS;
}

double step_memory_bound(const struct step_context *ctx, const struct layer_table *table,
                         const struct mesh *mesh) {
    /* Weights, gradients and state of the whole model over the stages: some stage holds the mean.
     */
    struct stage_content mean;
    stage_content_mean(ctx, table, mesh, &mean);
    struct memory_items items = {0};
    if (ctx->estimator.release_memory)
        released_items(ctx, table, mesh, &mean, &items);
    else /* The last stage keeps one micro-batch, every other one at least as many. */
        default_items(ctx, table, mesh, &mean, 1.0, &items);
    items.communication = 0.0;
    items.workspace = 0.0;
    double total = 0.0;
#define ADD_ITEM(name) total += items.name;
    MEMORY_ITEMS(ADD_ITEM)
#undef ADD_ITEM
    return total;
}
