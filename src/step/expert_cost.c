// SPDX-License-Identifier: GPL-3.0-or-later
/* Experts of a layer: router, dispatch and combine, grouped GEMMs, and their memory schedules. */
#include "step/block.h"

#include <math.h>

/* Router, top-k, permutation: bytes, not FLOPs. */
static void route(struct block *b, double rows) {
    const struct geometry *const g = b->ctx->geometry;
    const double *const scalar = b->ctx->calibration->scalar;
    const double hidden = (double)g->hidden, logits = b->tokens_tp * (double)g->experts;
    struct layer_work gemm = {0};
    kernel_gemm(b->ctx, b->tokens_tp, (double)g->experts, hidden, true, &gemm);
    const double bytes_s = scalar[CAL_ROUTER_BYTES] * logits / b->ctx->hbm_bytes_per_s;
    const double top_k_s = logits / scalar[CAL_TOP_K_RATE];
    b->work.forward.router_s += gemm.forward.gemm_s + bytes_s / 3.0 + top_k_s;
    b->work.backward.router_s += gemm.backward.gemm_s + bytes_s * 2.0 / 3.0;
    b->work.forward_flop += gemm.forward_flop;
    /* Read the tokens, write the routed rows; the way back is the same. */
    const double permute_s = scalar[CAL_PERMUTE_PASSES] * 2.0 * BYTES_BF16 * hidden *
                             (b->tokens_tp + rows) / b->ctx->hbm_bytes_per_s;
    b->work.forward.permute_s += permute_s;
    b->work.backward.permute_s += permute_s;
    b->params.dense += hidden * (double)g->experts;
    const double logit_bytes_kept = 3.0 * BYTES_FP32; /* logits, probabilities, map */
    b->kept[PART_NORM] += logit_bytes_kept * logits;
}

/* Domains that a token's copies reach when its K experts are drawn evenly over n of them, at most
 * as many as its router may choose from. */
static double domains_reached(const struct geometry *g, double n) {
    const double reached = n * (1.0 - pow(1.0 - 1.0 / n, (double)g->top_k));
    return g->node_limit > 0 ? fmin(reached, (double)g->node_limit) : reached;
}

/* One way of a de-duplicating dispatch: a token crosses to a domain once and is spread there, both
 * at the same time. */
static double deduplicated_s(const struct block *b, struct group group, double payload_bytes) {
    const struct step_context *const ctx = b->ctx;
    const struct cluster *const cluster = ctx->cluster;
    const double ranks = (double)group.ranks;
    const struct tier *const inner = &cluster->tiers[0];
    const double intra_s = inner->latency_s + payload_bytes * (ranks - 1.0) / ranks /
                                                  (ctx->network.intra_share * inner->bytes_per_s);
    const double n = (double)group_domains(cluster, group);
    if (n <= 1.0)
        return intra_s;
    const struct tier *const outer = cluster_tier_for(cluster, group.ranks * group.stride);
    const double once =
        payload_bytes / (double)ctx->geometry->top_k * domains_reached(ctx->geometry, n);
    const double inter_s =
        outer->latency_s +
        once * (n - 1.0) / n /
            (ctx->calibration->scalar[CAL_DISPATCH_INTER_SHARE] * outer->bytes_per_s);
    return fmax(intra_s, inter_s);
}

/* One way between tokens and experts: dispatch or combine. */
static double dispatch_s(const struct block *b, double payload_bytes) {
    const struct mesh *const s = b->shape;
    const struct group group = {s->ep, s->etp};
    if (s->ep <= 1)
        return 0.0;
    switch (b->ctx->workload->execution.dispatcher) {
    case DISPATCH_DEEPEP:
    case DISPATCH_HYBRIDEP:
        return deduplicated_s(b, group, payload_bytes);
    case DISPATCH_ALL_GATHER: {
        const double gathered =
            BYTES_BF16 * (double)b->ctx->geometry->hidden * b->tokens_tp * (double)s->ep;
        return 0.5 * (block_collective(b, COLLECTIVE_ALL_GATHER, group, gathered) +
                      block_collective(b, COLLECTIVE_REDUCE_SCATTER, group, gathered));
    }
    case DISPATCH_NCCL:
    case DISPATCHERS:
        break;
    }
    return block_collective(b, COLLECTIVE_ALL_TO_ALL, group, payload_bytes);
}

/* Dispatch and combine, forward and backward; again when the layer is recomputed. */
static void all_to_all(struct block *b, double payload_bytes) {
    const bool again = block_is_full(b) || block_runs_again(b, MODULE_EXPERTS);
    b->ep_one_s = dispatch_s(b, payload_bytes);
    b->ep_passes = again ? 6.0 : 4.0;
    b->cost.all_to_all_s = 4.0 * b->ep_one_s;
}

/* One dispatch and combine beside a pass of the experts of so many seconds, in chunks. */
static double chunked_pair_s(const struct block *b, double compute_s) {
    const long count = b->routes.chunks.count;
    const double one_s = b->ep_one_s / (double)count;
    const struct chunk_times times = {
        .compute_s = compute_s / (double)count, .dispatch_s = one_s, .combine_s = one_s};
    return chunk_exposed_s(&times, count);
}

/* Exposed all-to-all: all of it, or what another micro-batch's compute, or that of the chunk
 * before, does not hide.  Backward of the experts first rebuilds what a chunk did not keep. */
void expose_all_to_all(struct block *b, double compute_s) {
    const double *const scalar = b->ctx->calibration->scalar;
    const double wire_s = b->ep_passes * b->ep_one_s;
    if (!(wire_s > 0.0))
        return;
    const bool overlaps = (b->ctx->workload->execution.overlap & OVERLAP_EP) != 0;
    double exposed_s = overlaps ? fmax(scalar[CAL_EP_OVERLAPPED] * wire_s, wire_s - compute_s)
                                : scalar[CAL_EP_EXPOSED] * wire_s;
    double forward_s = exposed_s * 2.0 / b->ep_passes;
    if (b->routes.chunks.count > 1) {
        const double pair_s = chunked_pair_s(b, b->expert_forward_s);
        const double chunked_s = (0.5 * b->ep_passes - 1.0) * pair_s +
                                 chunked_pair_s(b, b->expert_forward_s + b->expert_backward_s);
        forward_s = chunked_s < exposed_s ? pair_s : forward_s;
        exposed_s = fmin(exposed_s, chunked_s);
    }
    b->cost.ep_s += exposed_s;
    b->cost.forward_s += forward_s;
}

/* Rows that the busiest GPU sends, and that one of its local experts receives. */
struct routed_rows {
    double sent, per_expert;
};

static struct routed_rows routed_rows_of(const struct block *b) {
    const struct geometry *const g = b->ctx->geometry;
    const double top_k = (double)g->top_k, dropped = b->ctx->workload->execution.dropped;
    const double local_experts = (double)g->experts / (double)b->shape->ep;
    const double sent = b->tokens_tp * top_k * b->routes.imbalance * (1.0 - dropped);
    if (b->ctx->estimator.rows_without_ep)
        return (struct routed_rows){sent, ceil(b->tokens * top_k / (double)g->experts)};
    return (struct routed_rows){sent, sent * (double)b->shape->etp / local_experts};
}

/* Chunks keep what was dispatched and rebuild the experts' interior, one chunk at a time: what the
 * layer holds of routed rows beyond its dispatched ones is that of a chunk. */
static void cut_into_chunks(struct block *b, double dispatched_bytes, double kept_routed_bytes) {
    const double count = (double)b->routes.chunks.count;
    if (!(count > 1.0))
        return;
    b->cost.recompute_s += b->expert_forward_s;
    b->cost.recompute_flop += b->expert_flop;
    b->chunked_bytes = (kept_routed_bytes - dispatched_bytes) * (1.0 - 1.0 / count);
    if (!block_is_full(b) && !block_runs_again(b, MODULE_EXPERTS))
        b->saved[PART_EXPERT_ACTIVATION] = kept_routed_bytes - dispatched_bytes;
}

/* What LLEP adds to a layer: counting and planning in every forward, and lending experts. */
static void balance_experts(struct block *b) {
    const struct step_context *const ctx = b->ctx;
    if (!b->routes.is_balanced)
        return;
    const double params = (double)ctx->geometry->ffn_matrices * (double)ctx->geometry->hidden *
                          (double)ctx->geometry->expert_ffn;
    const double forwards = block_is_full(b) || block_runs_again(b, MODULE_EXPERTS) ? 2.0 : 1.0;
    const double plan_s = ctx->calibration->scalar[CAL_LLEP_LAYER];
    b->cost.ep_s += forwards * plan_s + expert_lending_s(ctx, b->shape, &b->routes, params);
    b->cost.forward_s += plan_s;
    b->lent_bytes = expert_lending_bytes(ctx, &b->routes, params);
}

/* Each chunk brings an expert fewer rows, and reads its weights anew. */
static void grouped_in_chunks(struct block *b, double rows, double experts, double width) {
    const double count = (double)b->routes.chunks.count;
    struct layer_work one = {0};
    if (!(count > 1.0)) {
        kernel_grouped_ffn(b->ctx, rows, experts, width, &b->work);
        return;
    }
    kernel_grouped_ffn(b->ctx, rows / count, experts, width, &one);
    b->work.forward_flop += count * one.forward_flop;
    b->work.forward.grouped_gemm_s += count * one.forward.grouped_gemm_s;
    b->work.forward.quantise_s += count * one.forward.quantise_s;
    b->work.backward.grouped_gemm_s += count * one.backward.grouped_gemm_s;
    b->work.backward.quantise_s += count * one.backward.quantise_s;
}

static void routed_experts(struct block *b, double *payload_bytes) {
    const struct geometry *const g = b->ctx->geometry;
    const struct mesh *const s = b->shape;
    const double hidden = (double)g->hidden;
    const double local_experts = (double)g->experts / (double)s->ep;
    const double width = (double)g->expert_ffn / (double)s->etp;
    expert_schedule_of(b->ctx, s, b->tokens_tp, &b->routes);
    const struct routed_rows routed = routed_rows_of(b);
    const double rows = routed.sent * (double)s->etp;
    const double dispatched = b->ctx->gemm_input_bytes * hidden * rows;
    const double kept_routed = dispatched + ffn_number_bytes(b) * width * rows;
    const double kept_before = b->kept[PART_NORM];
    const struct module_start start = module_begin(b, MODULE_EXPERTS);
    route(b, routed.sent);
    const double before_s = kernel_times_sum(&b->work.forward), before = b->work.forward_flop;
    const double backward_s = kernel_times_sum(&b->work.backward);
    grouped_in_chunks(b, routed.per_expert, local_experts, width);
    ffn_activation(b, rows, width, true);
    b->expert_forward_s = kernel_times_sum(&b->work.forward) - before_s;
    b->expert_backward_s = kernel_times_sum(&b->work.backward) - backward_s;
    b->expert_flop = b->work.forward_flop - before;
    const double logits = b->kept[PART_NORM] - kept_before;
    b->kept[PART_EXPERT_INPUT] += dispatched;
    b->kept[PART_EXPERT_ACTIVATION] += kept_routed - dispatched;
    module_end(b, MODULE_EXPERTS, start,
               (double[OFFLOADS]){[PART_NORM] = logits,
                                  [PART_EXPERT_INPUT] = dispatched,
                                  [PART_EXPERT_ACTIVATION] = kept_routed - dispatched});
    cut_into_chunks(b, dispatched, kept_routed);
    balance_experts(b);
    b->params.expert += (double)g->ffn_matrices * hidden * width * local_experts;
    *payload_bytes = BYTES_BF16 * hidden * routed.sent;
    all_to_all(b, *payload_bytes);
    *payload_bytes /= (double)b->routes.chunks.count;
    if (b->ctx->workload->execution.dispatcher == DISPATCH_ALL_GATHER)
        *payload_bytes = BYTES_BF16 * hidden * b->tokens_tp * (double)s->ep;
    if (s->etp > 1)
        block_tp_collectives(b, (struct group){s->etp, 1}, BYTES_BF16 * hidden * rows,
                             block_is_full(b) || block_runs_again(b, MODULE_EXPERTS));
}

void moe_block(struct block *b, double *payload_bytes) {
    const struct geometry *const g = b->ctx->geometry;
    norm_and_residual(b, BYTES_BF16);
    routed_experts(b, payload_bytes);
    if (g->shared_experts > 0)
        ffn(b, (double)g->shared_experts * (double)g->shared_ffn, MODULE_SHARED);
}
