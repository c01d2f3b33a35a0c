// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Memory of one GPU of one stage.  Mixed precision: bf16 weights, gradients and optimizer state as
 * the execution shares them out over DP (dense) and expert-DP (routed experts); activations of the
 * micro-batches in flight (1F1B: min(p - i, m); interleaved: min(2(p-i-1) + (v-1)p + 1, m v) / v).
 */
#include "step/memory.h"

#include "step/expert_schedule.h"
#include "step/published.h"

#include <math.h>
#include <stdint.h>

/* FP32 master weight, unless there is none, and two moments, FP32 or bf16; Muon keeps one. */
static double optimizer_bytes(const struct workload *w) {
    const double moment = w->execution.bf16_moments ? 2.0 : 4.0;
    return (w->execution.no_master ? 0.0 : 4.0) +
           (w->optimizer == OPTIMIZER_MUON ? 1.0 : 2.0) * moment;
}

/* How the job shares out weights, gradients and optimizer state.  DualPipe holds two stages, the
 * second a copy of its mirror's. */
static void state_of(const struct step_context *ctx, const struct mesh *mesh,
                     struct state_bytes *out) {
    const struct execution *const e = &ctx->workload->execution;
    const struct shard_groups g = sharding_groups(ctx, mesh);
    const double ranks[] = {(double)g.dense.ranks, (double)g.expert.ranks};
    const double states[] = {g.dense_states, g.expert_states};
    const double copies = mesh_schedule(mesh) == SCHEDULE_DUALPIPE ? 2.0 : 1.0;
    const bool gathers = sharding_gathers(ctx, mesh);
    const bool shards_gradients = e->sharding == SHARD_ZERO2 || gathers;
    const double gradient = execution_gradient_bytes(e), state = optimizer_bytes(ctx->workload);
    const double weight = gathers && ctx->engine.shards_master ? 0.0 : WEIGHT_BYTES;
    out->head_weights = copies * weight * ring_rest_share(ctx, gathers ? ranks[0] : 1.0);
    out->head_gradients =
        copies * gradient * ring_rest_share(ctx, shards_gradients ? ranks[0] : 1.0);
    const double rest = ring_rest_share(ctx, states[0]);
    out->head_optimizer =
        e->bucket_params > 0.0 ? 0.0 : (1.0 - e->offload_optimizer) * state * rest;
    out->head_host =
        (e->bucket_params > 0.0 ? STREAM_STATE_BYTES : e->offload_optimizer * state) * rest;
    for (int i = 0; i < 2; ++i) {
        out->weights[i] = copies * weight / (gathers ? ranks[i] : 1.0);
        out->gradients[i] = copies * gradient / (shards_gradients ? ranks[i] : 1.0);
        out->optimizer[i] =
            e->bucket_params > 0.0 ? 0.0 : (1.0 - e->offload_optimizer) * state / states[i];
        out->device[i] = out->weights[i] + out->gradients[i] + out->optimizer[i];
        out->host[i] = e->bucket_params > 0.0 ? STREAM_STATE_BYTES / states[i]
                                              : e->offload_optimizer * state / states[i];
    }
}

/* FSDP: weights and gradients of two units stand gathered at once: two layers, or one beside the
 * embedding or the head, which are units of their own. */
static double gathered_bytes(const struct step_context *ctx, const struct layer_table *table,
                             const struct mesh *mesh) {
    if (!sharding_gathers(ctx, mesh))
        return 0.0;
    double layer = 0.0;
    for (int kind = 0; kind < LAYER_KINDS; ++kind)
        layer = fmax(layer, table->params[kind].dense + table->params[kind].expert);
    const double beside = fmax(layer, fmax(table->embedding_params, table->head_params));
    return (layer + beside) * (WEIGHT_BYTES + execution_gradient_bytes(&ctx->workload->execution));
}

/* What the runtime takes outside the framework's allocator: its reserve and the communicators. */
static double runtime_bytes(const struct step_context *ctx, const struct mesh *mesh) {
    const double *const scalar = ctx->calibration->scalar;
    const int communicators = (mesh->tp > 1) + (mesh->cp > 1) + (mesh->ep > 1) + (mesh->pp > 1) +
                              (mesh->dp > 1) + (mesh_edp(mesh) > 1);
    return scalar[CAL_RESERVE_BYTES] + (double)communicators * scalar[CAL_COMMUNICATOR_BYTES];
}

static double exchange_guarantee(const struct step_context *ctx, const struct mesh *mesh) {
    const double tokens = (double)mesh->micro_batch * (double)ctx->workload->sequence /
                          ((double)mesh->cp * (double)mesh->tp);
    struct expert_schedule routes;
    expert_schedule_of(ctx, mesh, tokens, &routes);
    return expert_exchange_guarantee(ctx, mesh, &routes);
}

void memory_form_of(const struct step_context *ctx, const struct layer_table *table,
                    const struct mesh *mesh, struct memory_form *out) {
    const double *const scalar = ctx->calibration->scalar;
    *out = (struct memory_form){.ctx = ctx, .table = table, .mesh = mesh};
    state_of(ctx, mesh, &out->state);
    const struct execution *const e = &ctx->workload->execution;
    const bool has_host = e->offload_activations > 0.0 || e->offload_optimizer > 0.0 ||
                          e->checkpoint_host_bytes > 0.0 || e->bucket_params > 0.0;
    const bool is_scheduled = e->dispatch_chunk > 0 || e->vocab_ring > 1 ||
                              e->bucket_params > 0.0 || e->checkpoint_host_bytes > 0.0;
    out->uses_host = has_host && !ctx->estimator.release_memory;
    out->has_guarantee = is_scheduled && !ctx->estimator.release_memory;
    if (out->has_guarantee) {
        out->has_boundaries = mesh->recompute == RECOMPUTE_FULL && e->checkpoint_host_bytes > 0.0;
        out->exchange_guarantee = exchange_guarantee(ctx, mesh);
    }
    out->away_share = e->offload_activations;
    for (int kind = 0; kind < LAYER_KINDS; ++kind) {
        const struct layer_cost *const cost = &table->cost[kind];
        out->kept[kind] = cost->kept_bytes + cost->kept_routed_bytes;
        out->here[kind] = cost->kept_bytes - out->away_share * cost->away_bytes;
        out->here_routed[kind] =
            cost->kept_routed_bytes - out->away_share * cost->away_routed_bytes;
        out->away[kind] = out->kept[kind] - out->here[kind] - out->here_routed[kind];
        out->interior[kind] = cost->interior_bytes - cost->kept_bytes - cost->kept_routed_bytes;
    }
    /* Routed activations are inside CUDA graphs only where the whole step is replayed. */
    const enum graphs graphs = ctx->workload->execution.graphs;
    const double replayed = scalar[CAL_GRAPHS_SHARE];
    out->replayed = graphs == GRAPHS_MODULE || graphs == GRAPHS_FULL ? replayed : 0.0;
    out->replayed_routed = graphs == GRAPHS_FULL ? replayed : 0.0;
    /* A send and a receive buffer of the all-to-all. */
    out->exchange = mesh->ep > 1 ? 2.0 * table->routed_payload_bytes : 0.0;
    out->gathered = gathered_bytes(ctx, table, mesh);
    out->workspace = scalar[CAL_WEIGHT_GRADIENT_BYTES] * table->largest_matrix_params;
    out->runtime = runtime_bytes(ctx, mesh);
}

/* The larger figure of the kinds that a stage has. */
static double largest_of(const double of[LAYER_KINDS], const struct stage_content *c) {
    const double dense = c->has[LAYER_DENSE] ? of[LAYER_DENSE] : 0.0;
    const double moe = c->has[LAYER_MOE] ? of[LAYER_MOE] : 0.0;
    const double most = dense > moe ? dense : moe;
    return most > 0.0 ? most : 0.0;
}

static void released_items(const struct memory_form *f, const struct stage_content *c,
                           struct memory_items *out) {
    const struct layer_table *const table = f->table;
    const struct mesh *const mesh = f->mesh;
    const double params = c->dense_params + c->expert_params, dp = (double)mesh->dp;
    const double state = published_state_bytes(f->ctx->workload->optimizer);
    const double flight = fmin((double)mesh->micro_batches, (double)mesh->pp);
    out->weights = WEIGHT_BYTES * params;
    out->gradients = BYTES_FP32 * params / dp;
    out->optimizer = state * params / dp;
    out->activations = flight * (c->dense_layers * table->cost[LAYER_DENSE].kept_bytes +
                                 c->moe_layers * table->cost[LAYER_MOE].kept_bytes);
    out->routed = flight * c->moe_layers * table->cost[LAYER_MOE].kept_routed_bytes;
    out->workspace = largest_of(f->interior, c);
    out->communication = table->hand_off_bytes * (double)mesh->ep * (mesh->ep > 1 ? 3.0 : 1.0);
}

static double of_params(const double bytes[2], const struct stage_content *c) {
    return bytes[0] * c->dense_params + bytes[1] * c->expert_params;
}

/* Activations of one micro-batch of the stage's layers that wait on the host. */
static double away_bytes(const struct memory_form *f, const struct stage_content *c) {
    return c->dense_layers * f->away[LAYER_DENSE] + c->moe_layers * f->away[LAYER_MOE];
}

/* Whole bytes, so that the items sum to the total exactly; capped far above any machine, where all
 * of them together still are an integer. */
static double whole_bytes(double bytes) {
    const double most = 0x1p58;
    if (!(bytes < most))
        return most;
    const int64_t down = (int64_t)bytes;
    return (double)(down + ((double)down < bytes));
}

/* What changes with the stage, before it is rounded. */
struct stage_bytes {
    double activations, routed, logits, workspace;
};

/* The budget is shared by the micro-batches in flight. */
void memory_boundaries(const struct step_context *ctx, const struct layer_table *table,
                       const struct stage_content *c, double flight, struct boundary_offload *out) {
    const struct execution *const e = &ctx->workload->execution;
    const enum layer_kind kind = c->moe_layers > 0.0 ? LAYER_MOE : LAYER_DENSE;
    const int depth = e->restore_depth > 0 ? e->restore_depth : 1, streams = 1;
    *out = (struct boundary_offload){0};
    const double layers = c->dense_layers + c->moe_layers;
    if (!(layers > 0.0)) /* a stated stage for an end alone */
        return;
    const double bytes = table->cost[kind].kept_bytes;
    if (boundary_offload_of((long)layers, bytes, e->checkpoint_host_bytes / flight, depth, streams,
                            out, NULL) != MOSAIC_OK) /* 2^53 bytes: too large in any case */
        *out = (struct boundary_offload){
            .boundaries = (long)layers, .bytes = bytes, .device_bytes = layers * bytes};
}

/* Buckets of the optimizer stream on the device, in a phase of their own. */
static double staging_bytes(const struct memory_form *f, const struct stage_content *c) {
    if (!(f->ctx->workload->execution.bucket_params > 0.0))
        return 0.0;
    const struct shard_groups g = sharding_groups(f->ctx, f->mesh);
    const double params = c->dense_params / g.dense_states +
                          ring_rest_share(f->ctx, g.dense_states) * c->head_elsewhere +
                          c->expert_params / g.expert_states;
    return optimizer_stream_of(f->ctx, f->table, &g, params).staging_bytes;
}

/* One layer's activations on their way to the host and one's on their way back. */
static double transit_bytes(const struct memory_form *f, const struct stage_content *c,
                            double flight) {
    return f->away_share > 0.0 ? fmin(2.0 * largest_of(f->away, c), flight * away_bytes(f, c))
                               : 0.0;
}

static struct stage_bytes stage_bytes_of(const struct memory_form *f, const struct stage_content *c,
                                         double flight) {
    struct stage_bytes out = {.activations = flight * (c->dense_layers * f->here[LAYER_DENSE] +
                                                       c->moe_layers * f->here[LAYER_MOE]),
                              .routed = flight * c->moe_layers * f->here_routed[LAYER_MOE],
                              .workspace = largest_of(f->interior, c)};
    if (f->has_boundaries) {
        struct boundary_offload boundaries;
        memory_boundaries(f->ctx, f->table, c, flight, &boundaries);
        const double stay = (double)(boundaries.boundaries - boundaries.selected);
        out.activations =
            flight * stay * boundaries.bytes + boundaries.device_bytes - stay * boundaries.bytes;
    }
    /* Part of what is kept beside the loss, unless stated elsewhere. */
    out.activations += c->mtp_moved * f->kept[f->table->mtp_kind];
    if (c->is_last) {
        out.activations += f->table->head_kept_bytes;
        out.logits = f->table->logits_bytes;
        /* Logits are gone before the layers' backward rebuilds an interior: the larger counts. */
        out.workspace = out.workspace > out.logits ? out.workspace - out.logits : 0.0;
    }
    out.workspace += f->workspace + transit_bytes(f, c, flight);
    /* When the optimizer runs, the activations and buffers of the step are gone.  Whole bytes: the
     * stages that its buckets fill most are as full as each other. */
    const double staging = staging_bytes(f, c);
    if (staging > 0.0) {
        const double others = whole_bytes(out.activations) + whole_bytes(out.routed) +
                              whole_bytes(out.logits) + whole_bytes(f->gathered) +
                              (c->has[LAYER_MOE] ? whole_bytes(f->exchange) : 0.0);
        out.workspace = fmax(out.workspace, staging - others);
    }
    return out;
}

static void default_items(const struct memory_form *f, const struct stage_content *c, double flight,
                          struct memory_items *out) {
    const struct stage_bytes bytes = stage_bytes_of(f, c, flight);
    out->weights = of_params(f->state.weights, c) + f->state.head_weights * c->head_elsewhere;
    out->gradients = of_params(f->state.gradients, c) + f->state.head_gradients * c->head_elsewhere;
    out->optimizer = of_params(f->state.optimizer, c) + f->state.head_optimizer * c->head_elsewhere;
    out->activations = bytes.activations;
    out->routed = bytes.routed;
    out->logits = bytes.logits;
    out->workspace = bytes.workspace;
    out->communication = c->has[LAYER_MOE] ? f->exchange : 0.0;
    out->gathered = f->gathered;
    out->graphs = f->replayed * bytes.activations + f->replayed_routed * bytes.routed;
}

/* The sum of default_items, for a first look. */
static double default_sum(const struct memory_form *f, const struct stage_content *c,
                          double flight) {
    const struct stage_bytes bytes = stage_bytes_of(f, c, flight);
    const double head = f->state.head_weights + f->state.head_gradients + f->state.head_optimizer;
    return of_params(f->state.device, c) + head * c->head_elsewhere +
           (1.0 + f->replayed) * bytes.activations + (1.0 + f->replayed_routed) * bytes.routed +
           bytes.logits + bytes.workspace + (c->has[LAYER_MOE] ? f->exchange : 0.0) + f->gathered;
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

void memory_of_stage(const struct memory_form *f, const struct stage_content *c, double flight,
                     struct memory_items *out) {
    *out = (struct memory_items){0};
    if (f->ctx->estimator.release_memory) {
        released_items(f, c, out);
        round_and_sum(out);
        return;
    }
    default_items(f, c, flight, out);
    round_and_sum(out);
    out->reserve = whole_bytes(f->runtime);
    out->fragmentation = whole_bytes(f->ctx->calibration->scalar[CAL_FRAGMENTATION] * out->total);
    out->total += out->reserve + out->fragmentation;
}

/* Only what comes within rounding of the largest sum is itemised. */
int memory_fullest(const struct memory_form *f, const struct stage_run *runs, int count,
                   struct memory_items *out) {
    double sums[LAYOUT_MAX_PP], most = 0.0;
    const bool is_released = f->ctx->estimator.release_memory;
    for (int i = 0; i < count; ++i) {
        sums[i] = is_released ? 0.0 : default_sum(f, &runs[i].content, runs[i].in_flight);
        most = sums[i] > most ? sums[i] : most;
    }
    const double rounding = (double)MEMORY_ITEM_COUNT;
    int fullest = 0;
    out->total = -1.0;
    for (int i = 0; i < count; ++i) {
        if (sums[i] + rounding < most)
            continue;
        struct memory_items items;
        memory_of_stage(f, &runs[i].content, runs[i].in_flight, &items);
        if (items.total > out->total) {
            *out = items;
            fullest = i;
        }
    }
    return fullest;
}

double memory_host_bytes(const struct memory_form *f, const struct stage_content *c,
                         double flight) {
    if (!f->uses_host)
        return 0.0;
    double bytes = of_params(f->state.host, c) + f->state.head_host * c->head_elsewhere +
                   flight * away_bytes(f, c);
    if (f->has_boundaries) {
        struct boundary_offload boundaries;
        memory_boundaries(f->ctx, f->table, c, flight, &boundaries);
        bytes += flight * boundaries.host_pinned_bytes;
    }
    return bytes;
}

int stage_gpus_on_node(const struct step_context *ctx, const struct mesh *mesh, int stage,
                       int node) {
    const int each = mesh->tp * mesh->cp * mesh->dp, per_node = ctx->cluster->gpus_per_node;
    const int begin = stage * each > node * per_node ? stage * each : node * per_node;
    const int stage_end = (stage + 1) * each, node_end = (node + 1) * per_node;
    const int end = stage_end < node_end ? stage_end : node_end;
    return end > begin ? end - begin : 0;
}

int stage_gpus_most(const struct step_context *ctx, const struct mesh *mesh, int stage) {
    const int each = mesh->tp * mesh->cp * mesh->dp, per_node = ctx->cluster->gpus_per_node;
    int most = 0;
    for (int node = stage * each / per_node;
         most < per_node && node * per_node < (stage + 1) * each; ++node) {
        const int here = stage_gpus_on_node(ctx, mesh, stage, node);
        most = here > most ? here : most;
    }
    return most;
}

double memory_host_node_bytes(const struct step_context *ctx, const struct mesh *mesh,
                              const double *stage_bytes) {
    const int each = mesh->tp * mesh->cp * mesh->dp, per_node = ctx->cluster->gpus_per_node;
    double most = 0.0;
    if (each % per_node == 0) { /* no two stages on one node */
        for (int i = 0; i < mesh->pp; ++i)
            most = fmax(most, stage_bytes[i]);
        return most * (double)per_node;
    }
    for (int node = 0; node * per_node < mesh->pp * each; ++node) {
        double bytes = 0.0;
        for (int i = node * per_node / each; i < mesh->pp && i * each < (node + 1) * per_node; ++i)
            bytes += (double)stage_gpus_on_node(ctx, mesh, i, node) * stage_bytes[i];
        most = fmax(most, bytes);
    }
    return most;
}

double memory_guarantee(const struct memory_form *f, const struct stage_content *c, double flight) {
    if (!f->has_guarantee)
        return 0.0;
    struct memory_items items = {0};
    default_items(f, c, flight, &items);
    items.workspace = largest_of(f->interior, c) + f->workspace + transit_bytes(f, c, flight) +
                      staging_bytes(f, c);
    if (c->has[LAYER_MOE])
        items.communication = fmax(f->exchange, f->exchange_guarantee);
    round_and_sum(&items);
    return items.total + whole_bytes(f->runtime) +
           whole_bytes(f->ctx->calibration->scalar[CAL_FRAGMENTATION] * items.total);
}

void stage_memory_of(const struct step_context *ctx, const struct layer_table *table,
                     const struct mesh *mesh, struct stage_range range, struct memory_items *out) {
    struct memory_form form;
    struct stage_content c;
    memory_form_of(ctx, table, mesh, &form);
    stage_content_of(ctx, table, mesh, range, &c);
    memory_of_stage(&form, &c, stage_in_flight(mesh, range.stage), out);
}

bool memory_host_fits(const struct step_context *ctx, double node_bytes) {
    const double capacity = ctx->cluster->host_memory_bytes;
    return !(capacity > 0.0 && node_bytes > capacity);
}

enum verdict memory_verdict(const struct step_context *ctx, double total_bytes) {
    const double capacity = ctx->cluster->device.memory_bytes;
    if (total_bytes > capacity)
        return VERDICT_NO;
    return total_bytes > ctx->calibration->scalar[CAL_TIGHT_SHARE] * capacity ? VERDICT_TIGHT
                                                                              : VERDICT_FITS;
}

enum verdict memory_verdict_of(const struct memory_form *f, double total_bytes) {
    const struct step_context *const ctx = f->ctx;
    const struct execution *const e = &ctx->workload->execution;
    const double capacity = ctx->cluster->device.memory_bytes;
    const struct workload *const w = ctx->workload;
    const bool is_capped = w->has_capacity || e->dropped > 0.0;
    const bool routes = f->mesh->ep > 1 && !is_capped && e->graphs != GRAPHS_FULL;
    const enum verdict verdict = memory_verdict(ctx, total_bytes);
    if (verdict != VERDICT_FITS || ctx->estimator.release_memory || !(f->mesh->vpp > 1 || routes))
        return verdict;
    return total_bytes > ctx->calibration->scalar[CAL_VARIABLE_TIGHT_SHARE] * capacity
               ? VERDICT_TIGHT
               : VERDICT_FITS;
}

double step_memory_bound(const struct step_context *ctx, const struct layer_table *table,
                         const struct mesh *mesh) {
    /* Weights, gradients and state of the whole model over the stages: some stage holds the mean.
     */
    struct memory_form form;
    struct stage_content mean;
    memory_form_of(ctx, table, mesh, &form);
    stage_content_mean(ctx, table, mesh, &mean);
    for (int kind = 0; table->is_mixable && kind < LAYER_KINDS; ++kind) {
        form.here[kind] = fmin(form.here[kind], table->least[kind].here_bytes);
        form.here_routed[kind] = fmin(form.here_routed[kind], table->least[kind].here_routed_bytes);
    }
    struct memory_items items = {0};
    if (ctx->estimator.release_memory)
        released_items(&form, &mean, &items);
    else /* The last stage keeps one micro-batch, every other one at least as many. */
        default_items(&form, &mean, 1.0, &items);
    items.communication = 0.0;
    items.gathered = 0.0;
    items.workspace = 0.0;
    double total = 0.0;
#define ADD_ITEM(name) total += items.name;
    MEMORY_ITEMS(ADD_ITEM)
#undef ADD_ITEM
    return total;
}
