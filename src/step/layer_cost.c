// SPDX-License-Identifier: GPL-3.0-or-later
/* One layer under one mesh shape: operators, collectives, launches, kept bytes. */
#include "step/block.h"
#include "step/stage_policies.h"

#include <math.h>

/* Launches left by CUDA graphs, and what this generation of the stack needs for each. */
static double host_share(const struct block *b) {
    const double generation = b->ctx->engine.profile.host_factor;
    const double factor = generation > 0.0 ? generation : 1.0;
    switch (b->ctx->workload->execution.graphs) {
    case GRAPHS_ROUTER:
        return factor * b->ctx->calibration->scalar[CAL_HOST_ROUTER_GRAPHS];
    case GRAPHS_MODULE:
        return factor * b->ctx->calibration->scalar[CAL_HOST_MODULE_GRAPHS];
    case GRAPHS_FULL:
        return 0.0;
    case GRAPHS_NONE:
    case GRAPH_SCOPES:
        break;
    }
    return factor;
}

static double host_time(const struct block *b, enum layer_kind kind) {
    const double *const scalar = b->ctx->calibration->scalar;
    const struct mesh *const s = b->shape;
    /* The counts were taken with full recomputation. */
    double factor = host_share(b);
    if (!b->ctx->estimator.launches_ignore_recompute && s->recompute != RECOMPUTE_FULL)
        factor *=
            (s->recompute == RECOMPUTE_SELECTIVE ? scalar[CAL_HOST_SELECTIVE_RECOMPUTE] : 1.0) /
            scalar[CAL_HOST_FULL_RECOMPUTE];
    if (s->tp > 1)
        factor *= scalar[CAL_HOST_TP_FACTOR];
    const double attention =
        b->ctx->geometry->attention == ATTENTION_MLA ? scalar[CAL_HOST_KERNELS_LATENT] : 0.0;
    if (kind == LAYER_DENSE)
        return (scalar[CAL_HOST_KERNELS_DENSE] + attention) * factor * scalar[CAL_HOST_GAP];
    const double local_experts = (double)b->ctx->geometry->experts / (double)s->ep;
    const double kernels =
        scalar[CAL_HOST_KERNELS_MOE] + attention + scalar[CAL_HOST_KERNELS_EXPERT] * local_experts;
    const bool waits = s->ep > 1 && b->ctx->workload->execution.graphs != GRAPHS_FULL;
    return kernels * factor * scalar[CAL_HOST_GAP] + (waits ? scalar[CAL_HOST_EP_SYNC] : 0.0);
}

/* Launches of the collectives of every chunk but the first. */
static double chunk_launches_s(const struct block *b) {
    const long count = b->routes.chunks.count;
    if (count <= 1)
        return 0.0;
    const int forwards = block_is_full(b) ? 2 : 1;
    return host_share(b) * b->ctx->calibration->scalar[CAL_HOST_GAP] *
           (chunk_launches(count, forwards) - chunk_launches(1, forwards));
}

/* Kept for backward, and of it what may wait in host memory. */
static void sum_kept(struct block *b) {
    struct layer_cost *const cost = &b->cost;
    const unsigned execution = b->ctx->workload->execution.offload_parts;
    const unsigned parts = execution ? execution : ~0U;
    const bool is_full = block_is_full(b);
    double all = 0.0;
    for (int i = 0; i < OFFLOADS; ++i) {
        const double left = is_full ? 0.0 : b->kept[i] - b->saved[i];
        const double away = parts & 1U << (unsigned)i ? left : 0.0;
        const bool is_routed = i == PART_EXPERT_INPUT || i == PART_EXPERT_ACTIVATION;
        all += b->kept[i];
        *(is_routed ? &cost->kept_routed_bytes : &cost->kept_bytes) += left;
        *(is_routed ? &cost->away_routed_bytes : &cost->away_bytes) += away;
    }
    cost->interior_bytes = all - b->chunked_bytes + b->lent_bytes;
    if (!is_full)
        return;
    cost->kept_bytes = BYTES_BF16 * (double)b->ctx->geometry->hidden * b->tokens_tp;
    cost->away_bytes = parts & 1U << (unsigned)PART_NORM ? cost->kept_bytes : 0.0;
}

static void apply_recompute(struct block *b) {
    sum_kept(b);
    if (!block_is_full(b))
        return;
    b->cost.recompute_s += kernel_times_sum(&b->work.forward);
    b->cost.recompute_flop += b->work.forward_flop;
}

void block_sum_up(struct block *b) {
    struct kernel_times *const total = &b->cost.kernels;
    const struct kernel_times *const f = &b->work.forward, *const r = &b->work.backward;
    *total = (struct kernel_times){.gemm_s = f->gemm_s + r->gemm_s,
                                   .grouped_gemm_s = f->grouped_gemm_s + r->grouped_gemm_s,
                                   .attention_s = f->attention_s + r->attention_s,
                                   .elementwise_s = f->elementwise_s + r->elementwise_s,
                                   .router_s = f->router_s + r->router_s,
                                   .permute_s = f->permute_s + r->permute_s,
                                   .quantise_s = f->quantise_s + r->quantise_s};
    b->cost.forward_s += kernel_times_sum(f);
    /* Half of the GEMMs' backward is for the weights. */
    b->cost.weight_gradient_s = 0.5 * (r->gemm_s + r->grouped_gemm_s);
    const double compute_s = kernel_times_sum(total) + b->cost.recompute_s;
    expose_all_to_all(b, compute_s + b->cost.cp_s);
    b->cost.gpu_s = compute_s + b->cost.tp_s + b->cost.cp_s + b->cost.ep_s;
}

static double largest_matrix(const struct step_context *ctx, const struct mesh *shape) {
    const struct geometry *const g = ctx->geometry;
    const double hidden = (double)g->hidden, tp = (double)shape->tp;
    /* The vocabulary's matrix is not among them: measured peaks hold no temporary of its size. */
    double largest = 0.0;
    if (g->first_dense > 0)
        largest = (double)(g->ffn_matrices - 1) * hidden * (double)g->dense_ffn / tp;
    return fmax(largest, (double)(g->heads + 2 * g->kv_heads) * (double)g->head_dim * hidden / tp);
}

/* Newton-Schulz of one m x n matrix, m <= n: 11 m n + 20 m^2 n + 10 m^3 FLOPs (arXiv 2608.10605's
 * release); per parameter that is 11 + 20 m + 10 m^2 / n. */
static double muon_flop_per_parameter(double a, double b) {
    const double m = fmin(a, b), n = fmax(a, b);
    return 11.0 + 20.0 * m + 10.0 * m * m / n;
}

static struct block block_begin(const struct step_context *ctx, const struct mesh *shape,
                                struct lookup_count *lookups) {
    const struct geometry *const g = ctx->geometry;
    const double tokens =
        (double)shape->micro_batch * (double)ctx->workload->sequence / (double)shape->cp;
    const double tp = (double)shape->tp;
    return (struct block){.ctx = ctx,
                          .shape = shape,
                          .tokens = tokens,
                          .tokens_tp = tokens / tp,
                          .heads = (double)g->heads / tp,
                          .kv_heads = fmax((double)g->kv_heads / tp, g->kv_heads > 0 ? 1.0 : 0.0),
                          .lookups = lookups};
}

static void layer_fill(const struct step_context *ctx, const struct mesh *shape,
                       enum layer_kind kind, struct layer_table *out) {
    struct block b = block_begin(ctx, shape, &out->lookups);
    attention_block(&b);
    if (kind == LAYER_DENSE)
        dense_block(&b);
    else
        moe_block(&b, &out->routed_payload_bytes);
    apply_recompute(&b);
    block_sum_up(&b);
    b.cost.host_s = host_time(&b, kind) + chunk_launches_s(&b);
    out->cost[kind] = b.cost;
    out->params[kind] = b.params;
}

static void table_fill(const struct step_context *ctx, const struct mesh *shape,
                       struct layer_table *out) {
    const struct geometry *const g = ctx->geometry;
    const double hidden = (double)g->hidden;
    *out = (struct layer_table){.lookups = ctx->lookups};
    if (g->first_dense > 0)
        layer_fill(ctx, shape, LAYER_DENSE, out);
    const bool has_moe = geometry_moe_layers(g) > 0;
    if (has_moe)
        layer_fill(ctx, shape, LAYER_MOE, out);
    struct block ends = block_begin(ctx, shape, &out->lookups), head = ends;
    out->mtp_kind = has_moe ? LAYER_MOE : LAYER_DENSE;
    head_cost(&head, &out->cost[out->mtp_kind], &out->params[out->mtp_kind], out);
    embedding_cost(&ends, out);
    out->largest_matrix_params = largest_matrix(ctx, shape);
    out->hand_off_bytes = BYTES_BF16 * hidden * ends.tokens_tp;
    out->optimizer_flop_per_dense = muon_flop_per_parameter(hidden, hidden);
    out->optimizer_flop_per_expert = muon_flop_per_parameter(hidden, (double)g->expert_ffn);
}

static void add_least(const struct step_context *ctx, const struct layer_cost *cost,
                      struct layer_least *least) {
    const double away = ctx->workload->execution.offload_activations;
    least->gpu_s = fmin(least->gpu_s, cost->gpu_s);
    least->host_s = fmin(least->host_s, cost->host_s);
    least->here_bytes = fmin(least->here_bytes, cost->kept_bytes - away * cost->away_bytes);
    least->here_routed_bytes =
        fmin(least->here_routed_bytes, cost->kept_routed_bytes - away * cost->away_routed_bytes);
}

static void fill_least(const struct step_context *ctx, const struct mesh *shape, unsigned policies,
                       struct layer_table *out) {
    const struct layer_least none = {INFINITY, INFINITY, INFINITY, INFINITY};
    out->is_mixable = true;
    for (int kind = 0; kind < LAYER_KINDS; ++kind)
        out->least[kind] = none;
    for (int r = 0; r < RECOMPUTE_MODES; ++r) {
        struct layer_table other;
        const struct layer_table *table = out;
        if (!(policies & 1U << r))
            continue;
        if (r != (int)shape->recompute) {
            struct mesh like = *shape;
            like.recompute = (enum recompute)r;
            table_fill(ctx, &like, &other);
            table = &other;
        }
        for (int kind = 0; kind < LAYER_KINDS; ++kind)
            add_least(ctx, &table->cost[kind], &out->least[kind]);
    }
}

void layer_table_fill(const struct step_context *ctx, const struct mesh *shape,
                      struct layer_table *out) {
    table_fill(ctx, shape, out);
    const unsigned policies = shape_policies(ctx, shape);
    if (policies & (policies - 1))
        fill_least(ctx, shape, policies, out);
}
