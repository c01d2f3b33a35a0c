// SPDX-License-Identifier: GPL-3.0-or-later
/* One layer under one mesh shape: operators, collectives, launches, kept bytes. */
#include "step/expert_schedule.h"
#include "step/kernel.h"
#include "step/ring_head.h"

#include <math.h>

/* What the blocks below share of one layer under one shape. */
struct block {
    const struct step_context *ctx;
    const struct mesh *shape;
    double tokens;              /* per GPU and micro-batch, before TP */
    double tokens_tp;           /* with sequence parallelism */
    double heads, kv_heads;     /* local */
    double ep_passes, ep_one_s; /* all-to-alls of the layer, forward first two; time of one */
    double saved_bytes, saved_routed_bytes; /* by selective recomputation */
    double chunked_bytes, lent_bytes; /* what chunks take off the interior, borrowed experts add */
    struct expert_schedule routes;    /* of MoE layers */
    double expert_forward_s, expert_flop; /* grouped GEMMs and activation, forward */
    bool is_inside;                       /* a module that runs again as a whole is being built */
    struct layer_work work;
    struct layer_cost cost;
    struct layer_params params;
    struct lookup_count *lookups;
};

static double collective(const struct block *b, enum collective_kind kind, struct group group,
                         double bytes) {
    return collective_time_s(&b->ctx->network, kind, group, bytes, b->lookups);
}

/* Share of a transfer that stays visible, overlapped or not. */
static double exposed_share(const struct block *b, enum overlap bit, enum scalar plain,
                            enum scalar overlapped) {
    const bool overlaps = (b->ctx->workload->execution.overlap & (unsigned)bit) != 0;
    return b->ctx->calibration->scalar[overlaps ? overlapped : plain];
}

/* All-gather before and reduce-scatter after a TP-sharded block, forward and backward. */
static void tp_collectives(struct block *b, struct group group, double bytes, bool with_recompute) {
    const double exposed = exposed_share(b, OVERLAP_TP, CAL_TP_EXPOSED, CAL_TP_OVERLAPPED);
    const double forward_s = collective(b, COLLECTIVE_ALL_GATHER, group, bytes) +
                             collective(b, COLLECTIVE_REDUCE_SCATTER, group, bytes);
    const double passes =
        1.0 + b->ctx->calibration->scalar[CAL_TP_BACKWARD] + (with_recompute ? 1.0 : 0.0);
    b->cost.tp_s += exposed * passes * forward_s;
    b->cost.forward_s += exposed * forward_s;
}

static bool is_full(const struct block *b) {
    return b->shape->recompute == RECOMPUTE_FULL;
}

/* Whether selective recomputation runs the module again. */
static bool runs_again(const struct block *b, enum module module) {
    return b->shape->recompute == RECOMPUTE_SELECTIVE &&
           (b->ctx->selective & (unsigned)module) != 0;
}

/* Forward work so far: the beginning of a module. */
struct module_start {
    double forward_s, flop;
    bool was_inside;
};

static struct module_start module_begin(struct block *b, enum module module) {
    const struct module_start start = {kernel_times_sum(&b->work.forward), b->work.forward_flop,
                                       b->is_inside};
    b->is_inside = b->is_inside || runs_again(b, module);
    return start;
}

/* The module's forward runs again in backward, and its bytes are not kept; what lies inside a
 * module that runs again counts there. */
static void module_end(struct block *b, enum module module, struct module_start start,
                       double saved_bytes, double saved_routed_bytes) {
    b->is_inside = start.was_inside;
    if (start.was_inside || !runs_again(b, module))
        return;
    b->cost.recompute_s += kernel_times_sum(&b->work.forward) - start.forward_s;
    b->cost.recompute_flop += b->work.forward_flop - start.flop;
    b->saved_bytes += saved_bytes;
    b->saved_routed_bytes += saved_routed_bytes;
}

static struct group tp_group(const struct block *b) {
    return (struct group){b->shape->tp, 1};
}

/* number_bytes: of a norm's output as it is kept, the input of a GEMM. */
static void norm_and_residual(struct block *b, double number_bytes) {
    const double hidden = (double)b->ctx->geometry->hidden;
    const double norm_bytes = 2.0 * BYTES_BF16 * hidden;     /* read, write */
    const double residual_bytes = 3.0 * BYTES_BF16 * hidden; /* read two, write one */
    const double output_bytes = number_bytes * hidden * b->tokens_tp;
    const struct module_start start = module_begin(b, MODULE_NORM);
    kernel_stream(b->ctx, norm_bytes * b->tokens_tp, 2.0, &b->work);
    module_end(b, MODULE_NORM, start, output_bytes, 0.0);
    kernel_stream(b->ctx, residual_bytes * b->tokens_tp, 2.0, &b->work);
    b->cost.kept_bytes += BYTES_BF16 * hidden * b->tokens_tp + output_bytes; /* block input too */
}

/* Projections of grouped-query attention; returns parameters on this GPU. */
static double gqa_projections(struct block *b) {
    const struct geometry *const g = b->ctx->geometry;
    const double hidden = (double)g->hidden;
    const double qkv =
        b->heads * (double)g->head_dim + b->kv_heads * (double)(g->head_dim + g->v_head_dim);
    kernel_gemm(b->ctx, b->tokens, qkv, hidden, false, &b->work);
    b->cost.kept_bytes += BYTES_BF16 * qkv * b->tokens;
    return qkv * hidden;
}

/* Projections of multi-head latent attention: down, then up by heads. */
static double mla_projections(struct block *b) {
    const struct geometry *const g = b->ctx->geometry;
    const double hidden = (double)g->hidden;
    const double q_width = b->heads * (double)(g->head_dim + g->rope_dim);
    const double kv_down = (double)(g->kv_rank + g->rope_dim);
    const double kv_up = b->heads * (double)(g->head_dim + g->v_head_dim);
    const double rank = (double)g->q_rank;
    const double up_width = 2.0 * q_width + b->heads * (double)g->v_head_dim; /* q, k, v */
    double params = hidden * kv_down + (double)g->kv_rank * kv_up;
    /* Latents before and after their norm, the latter the input of a GEMM. */
    const double latent_bytes = BYTES_BF16 + b->ctx->gemm_input_bytes;
    double kept_bytes =
        latent_bytes * (double)g->kv_rank + BYTES_BF16 * ((double)g->rope_dim + up_width);
    kernel_gemm(b->ctx, b->tokens_tp, kv_down, hidden, false, &b->work);
    if (g->q_rank > 0)
        kernel_gemm(b->ctx, b->tokens_tp, rank, hidden, false, &b->work);
    const struct module_start start = module_begin(b, MODULE_MLA_UP);
    kernel_gemm(b->ctx, b->tokens, kv_up, (double)g->kv_rank, false, &b->work);
    kernel_gemm(b->ctx, b->tokens, q_width, g->q_rank > 0 ? rank : hidden, false, &b->work);
    module_end(b, MODULE_MLA_UP, start, BYTES_BF16 * up_width * b->tokens, 0.0);
    if (g->q_rank > 0) {
        params += hidden * rank + rank * q_width;
        kept_bytes += latent_bytes * rank;
    } else {
        params += hidden * q_width;
    }
    b->cost.kept_bytes += kept_bytes * b->tokens;
    return params;
}

/* K and V travel round the CP ring: gathered forward, gathered and reduced backward. */
static void cp_exchange(struct block *b) {
    const struct mesh *const s = b->shape;
    if (s->cp <= 1)
        return;
    const struct geometry *const g = b->ctx->geometry;
    const double width = g->attention == ATTENTION_MLA
                             ? b->heads * (double)(g->head_dim + g->rope_dim + g->v_head_dim)
                             : b->kv_heads * (double)(g->head_dim + g->v_head_dim);
    const double bytes = BYTES_BF16 * width * b->tokens * (double)s->cp;
    const struct group group = {s->cp, s->tp};
    const double gather_s = collective(b, COLLECTIVE_ALL_GATHER, group, bytes);
    const double reduce_s = collective(b, COLLECTIVE_REDUCE_SCATTER, group, bytes);
    const double wire_s = (is_full(b) ? 3.0 : 2.0) * gather_s + reduce_s;
    const double share = exposed_share(b, OVERLAP_CP, CAL_CP_EXPOSED, CAL_CP_OVERLAPPED);
    const bool overlaps = (b->ctx->workload->execution.overlap & OVERLAP_CP) != 0;
    /* A ring hides behind the attention of the blocks that have arrived. */
    const double hidden_s =
        overlaps ? b->work.forward.attention_s + b->work.backward.attention_s : 0.0;
    const double exposed_s = fmax(share * wire_s, overlaps ? wire_s - hidden_s : 0.0);
    b->cost.cp_s += exposed_s;
    b->cost.forward_s += wire_s > 0.0 ? exposed_s * gather_s / wire_s : 0.0;
}

static void attention_block(struct block *b) {
    const struct geometry *const g = b->ctx->geometry;
    const double hidden = (double)g->hidden;
    norm_and_residual(b, b->ctx->gemm_input_bytes);
    const double projections =
        g->attention == ATTENTION_MLA ? mla_projections(b) : gqa_projections(b);
    const double rope = g->attention == ATTENTION_MLA
                            ? b->heads * (double)g->rope_dim
                            : (b->heads + b->kv_heads) * (double)g->head_dim;
    const struct module_start rotation = module_begin(b, MODULE_ROPE);
    kernel_stream(b->ctx, 2.0 * BYTES_BF16 * rope * b->tokens, 2.0, &b->work);
    module_end(b, MODULE_ROPE, rotation, 0.0, 0.0);
    /* Unfused, the scores before and after softmax and the dropout mask are kept. */
    const double score_bytes = b->ctx->workload->execution.unfused_attention
                                   ? 5.0 * b->heads * (double)b->ctx->workload->sequence * b->tokens
                                   : 0.0;
    const struct module_start core = module_begin(b, MODULE_CORE_ATTENTION);
    kernel_attention(b->ctx, b->tokens, b->heads, &b->work);
    module_end(b, MODULE_CORE_ATTENTION, core, score_bytes, 0.0);
    b->cost.kept_bytes += score_bytes;
    const double value_width = b->heads * (double)g->v_head_dim;
    kernel_gemm(b->ctx, b->tokens, hidden, value_width, false, &b->work);
    /* Attention output in bf16, once more where the projection keeps its own, and the log-sum-exp
     * of each head in FP32. */
    const double input_bytes = b->ctx->gemm_input_bytes;
    const double output_bytes = BYTES_BF16 + (input_bytes < BYTES_BF16 ? input_bytes : 0.0);
    b->cost.kept_bytes += (output_bytes * value_width + BYTES_FP32 * b->heads) * b->tokens;
    b->params.dense += projections + value_width * hidden;
    tp_collectives(b, tp_group(b), BYTES_BF16 * hidden * b->tokens, is_full(b));
    cp_exchange(b);
}

/* The activation between the matrices of an FFN: (inputs + 1) numbers of `rows` x `width`. */
static void activation(struct block *b, double rows, double width, bool is_routed) {
    const double inputs = (double)(b->ctx->geometry->ffn_matrices - 1);
    const double streamed_bytes = BYTES_BF16 * (inputs + 1.0) * width * rows;
    const double kept_bytes = b->ctx->gemm_input_bytes * width * rows;
    const struct module_start start = module_begin(b, MODULE_ACTIVATION);
    kernel_stream(b->ctx, streamed_bytes, 1.7, &b->work);
    module_end(b, MODULE_ACTIVATION, start, is_routed ? 0.0 : kept_bytes,
               is_routed ? kept_bytes : 0.0);
}

/* Kept of one number of an FFN's width: the activation's inputs and its product, a GEMM's input. */
static double ffn_number_bytes(const struct block *b) {
    return BYTES_BF16 * (double)(b->ctx->geometry->ffn_matrices - 1) + b->ctx->gemm_input_bytes;
}

/* A dense or shared FFN of `width`, TP-sharded. */
static void ffn(struct block *b, double width, enum module module) {
    const struct geometry *const g = b->ctx->geometry;
    const double hidden = (double)g->hidden, local = width / (double)b->shape->tp;
    const double inputs = (double)(g->ffn_matrices - 1);
    const double kept = ffn_number_bytes(b) * local * b->tokens;
    const struct module_start start = module_begin(b, module);
    kernel_gemm(b->ctx, b->tokens, inputs * local, hidden, false, &b->work);
    activation(b, b->tokens, local, false);
    kernel_gemm(b->ctx, b->tokens, hidden, local, false, &b->work);
    module_end(b, module, start, kept, 0.0);
    b->cost.kept_bytes += kept;
    b->params.dense += (double)g->ffn_matrices * hidden * local;
    tp_collectives(b, tp_group(b), BYTES_BF16 * hidden * b->tokens,
                   is_full(b) || runs_again(b, module));
}

static void dense_block(struct block *b) {
    norm_and_residual(b, b->ctx->gemm_input_bytes);
    ffn(b, (double)b->ctx->geometry->dense_ffn, MODULE_MLP);
}

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
    b->cost.kept_bytes += logit_bytes_kept * logits;
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
        return 0.5 * (collective(b, COLLECTIVE_ALL_GATHER, group, gathered) +
                      collective(b, COLLECTIVE_REDUCE_SCATTER, group, gathered));
    }
    case DISPATCH_NCCL:
    case DISPATCHERS:
        break;
    }
    return collective(b, COLLECTIVE_ALL_TO_ALL, group, payload_bytes);
}

/* Dispatch and combine, forward and backward; again when the layer is recomputed. */
static void all_to_all(struct block *b, double payload_bytes) {
    const bool again = is_full(b) || runs_again(b, MODULE_EXPERTS);
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
 * before, does not hide.  Backward of the experts takes two forwards, and one more to rebuild what
 * a chunk did not keep. */
static void expose_all_to_all(struct block *b, double compute_s) {
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
        const double chunked_s =
            (0.5 * b->ep_passes - 1.0) * pair_s + chunked_pair_s(b, 3.0 * b->expert_forward_s);
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
    if (is_full(b)) /* the layer is rebuilt: nothing of it waits */
        b->chunked_bytes = kept_routed_bytes * (1.0 - 1.0 / count);
    else if (!runs_again(b, MODULE_EXPERTS))
        b->saved_routed_bytes = kept_routed_bytes - dispatched_bytes;
}

/* What LLEP adds to a layer: counting and planning in every forward, and lending experts. */
static void balance_experts(struct block *b) {
    const struct step_context *const ctx = b->ctx;
    if (!b->routes.is_balanced)
        return;
    const double params = (double)ctx->geometry->ffn_matrices * (double)ctx->geometry->hidden *
                          (double)ctx->geometry->expert_ffn;
    const double forwards = is_full(b) || runs_again(b, MODULE_EXPERTS) ? 2.0 : 1.0;
    const double plan_s = ctx->calibration->scalar[CAL_LLEP_LAYER];
    b->cost.ep_s += forwards * plan_s + expert_lending_s(ctx, b->shape, &b->routes, params);
    b->cost.forward_s += plan_s;
    b->lent_bytes = expert_lending_bytes(ctx, &b->routes, params);
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
    const double kept_before = b->cost.kept_bytes;
    const struct module_start start = module_begin(b, MODULE_EXPERTS);
    route(b, routed.sent);
    const double before_s = kernel_times_sum(&b->work.forward), before = b->work.forward_flop;
    kernel_grouped_ffn(b->ctx, routed.per_expert, local_experts, width, &b->work);
    activation(b, rows, width, true);
    b->expert_forward_s = kernel_times_sum(&b->work.forward) - before_s;
    b->expert_flop = b->work.forward_flop - before;
    module_end(b, MODULE_EXPERTS, start, b->cost.kept_bytes - kept_before, kept_routed);
    cut_into_chunks(b, dispatched, kept_routed);
    balance_experts(b);
    b->cost.kept_routed_bytes += kept_routed;
    b->params.expert += (double)g->ffn_matrices * hidden * width * local_experts;
    *payload_bytes = BYTES_BF16 * hidden * routed.sent;
    all_to_all(b, *payload_bytes);
    *payload_bytes /= (double)b->routes.chunks.count;
    if (b->ctx->workload->execution.dispatcher == DISPATCH_ALL_GATHER)
        *payload_bytes = BYTES_BF16 * hidden * b->tokens_tp * (double)s->ep;
    if (s->etp > 1)
        tp_collectives(b, (struct group){s->etp, 1}, BYTES_BF16 * hidden * rows,
                       is_full(b) || runs_again(b, MODULE_EXPERTS));
}

static void moe_block(struct block *b, double *payload_bytes) {
    const struct geometry *const g = b->ctx->geometry;
    norm_and_residual(b, BYTES_BF16);
    routed_experts(b, payload_bytes);
    if (g->shared_experts > 0)
        ffn(b, (double)g->shared_experts * (double)g->shared_ffn, MODULE_SHARED);
}

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
    const int forwards = is_full(b) ? 2 : 1;
    return b->ctx->calibration->scalar[CAL_HOST_GAP] *
           (chunk_launches(count, forwards) - chunk_launches(1, forwards));
}

static void apply_recompute(struct block *b) {
    struct layer_cost *const cost = &b->cost;
    cost->interior_bytes =
        cost->kept_bytes + cost->kept_routed_bytes - b->chunked_bytes + b->lent_bytes;
    if (is_full(b)) {
        cost->recompute_s += kernel_times_sum(&b->work.forward);
        cost->recompute_flop += b->work.forward_flop;
        cost->kept_bytes = BYTES_BF16 * (double)b->ctx->geometry->hidden * b->tokens_tp;
        cost->kept_routed_bytes = 0.0;
        return;
    }
    cost->kept_bytes -= b->saved_bytes;
    cost->kept_routed_bytes -= b->saved_routed_bytes;
}

static void sum_up(struct block *b) {
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

/* One collective of a vocabulary-parallel end forward, its opposite backward; returns the exposed
 * forward part. */
static double vocabulary_collectives(struct block *b) {
    const double bytes = BYTES_BF16 * (double)b->ctx->geometry->hidden * b->tokens;
    const double exposed = exposed_share(b, OVERLAP_TP, CAL_TP_EXPOSED, CAL_TP_OVERLAPPED);
    const double scatter_s = exposed * collective(b, COLLECTIVE_REDUCE_SCATTER, tp_group(b), bytes);
    const double gather_s = exposed * collective(b, COLLECTIVE_ALL_GATHER, tp_group(b), bytes);
    b->cost.tp_s += scatter_s + gather_s;
    b->cost.forward_s += scatter_s;
    return gather_s;
}

static void embedding_cost(struct block *b, struct layer_table *out) {
    const double hidden = (double)b->ctx->geometry->hidden;
    const double vocab = step_padded_vocab(b->ctx, b->shape->tp);
    kernel_stream(b->ctx, 2.0 * BYTES_BF16 * hidden * b->tokens_tp, 2.0, &b->work);
    /* The embedding's sum over TP is scattered forward and gathered backward. */
    vocabulary_collectives(b);
    sum_up(b);
    out->embedding = b->cost;
    out->embedding_params = vocab * hidden / (double)b->shape->tp;
}

/* LM head and cross-entropy; an MTP layer brings a head pass of its own and a two-to-one
 * projection, beside its layer, which the stage counts. */
static void head_cost(struct block *b, const struct layer_cost *mtp_layer,
                      const struct layer_params *mtp_params, struct layer_table *out) {
    const struct step_context *const ctx = b->ctx;
    const double *const scalar = ctx->calibration->scalar;
    const double hidden = (double)ctx->geometry->hidden, mtp = (double)ctx->geometry->mtp_layers;
    const double vocab = step_padded_vocab(ctx, b->shape->tp) / (double)b->shape->tp;
    const double flop = 2.0 * b->tokens * hidden * vocab;
    struct ring_head ring;
    ring_head_of(ctx, b->shape, b->tokens, vocab, &ring);
    /* Around a ring backward forms every strip again. */
    const double backward_flop = ring.is_on ? ring.ring.backward_flop : 2.0 * flop;
    const double forward_s =
        flop / (ctx->peak16_flop_per_s * scalar[CAL_HEAD_FORWARD_SHARE]) + ring.forward_s;
    const double backward_s =
        backward_flop / (ctx->peak16_flop_per_s * scalar[CAL_HEAD_BACKWARD_SHARE]) +
        ring.backward_s;
    const double loss_s = scalar[CAL_CROSS_ENTROPY_PASSES] * BYTES_FP32 * b->tokens * vocab /
                          ctx->hbm_raw_bytes_per_s;
    struct layer_work projection = {0};
    if (mtp > 0.0)
        kernel_gemm(ctx, b->tokens, hidden, 2.0 * hidden / (double)b->shape->tp, false,
                    &projection);
    const double gather_s = vocabulary_collectives(b), collectives_s = b->cost.tp_s;
    out->head_s =
        (1.0 + mtp) * (forward_s + backward_s + loss_s + collectives_s) +
        mtp * (kernel_times_sum(&projection.forward) + kernel_times_sum(&projection.backward));
    out->head_forward_s = (1.0 + mtp) * (forward_s + loss_s / 3.0 + gather_s) +
                          mtp * kernel_times_sum(&projection.forward);
    out->head_params = vocab * hidden / (ring.is_on ? (double)ring.ring.ranks : 1.0);
    out->mtp.dense = mtp * (mtp_params->dense + 2.0 * hidden * hidden / (double)b->shape->tp);
    out->mtp.expert = mtp * mtp_params->expert;
    out->logits_bytes =
        ring.logits_share * scalar[CAL_LOGIT_BYTES] * b->tokens * vocab + ring.moving_bytes;
    out->head_kept_bytes = 2.0 * BYTES_BF16 * hidden * b->tokens_tp +
                           mtp * (mtp_layer->kept_bytes + mtp_layer->kept_routed_bytes);
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
    sum_up(&b);
    b.cost.host_s = host_time(&b, kind) + chunk_launches_s(&b);
    out->cost[kind] = b.cost;
    out->params[kind] = b.params;
}

void layer_table_fill(const struct step_context *ctx, const struct mesh *shape,
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
