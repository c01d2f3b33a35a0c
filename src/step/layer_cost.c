// SPDX-License-Identifier: GPL-3.0-or-later
/* One layer under one mesh shape: operators, collectives, launches, kept bytes. */
#include "step/kernel.h"

#include <math.h>

/* What the blocks below share of one layer under one shape. */
struct block {
    const struct step_context *ctx;
    const struct mesh *shape;
    double tokens;          /* per GPU and micro-batch, before TP */
    double tokens_tp;       /* with sequence parallelism */
    double heads, kv_heads; /* local */
    struct layer_work work;
    struct layer_cost cost;
    struct layer_params params;
    struct lookup_count *lookups;
};

static double collective(const struct block *b, enum collective_kind kind, struct group group,
                         double bytes) {
    return collective_time_s(&b->ctx->network, kind, group, bytes, b->lookups);
}

/* All-gather before and reduce-scatter after a TP-sharded block, forward and backward. */
static void tp_collectives(struct block *b, struct group group, double bytes, bool with_recompute) {
    const double *const scalar = b->ctx->calibration->scalar;
    const double forward_s = collective(b, COLLECTIVE_ALL_GATHER, group, bytes) +
                             collective(b, COLLECTIVE_REDUCE_SCATTER, group, bytes);
    const double passes = 1.0 + scalar[CAL_TP_BACKWARD] + (with_recompute ? 1.0 : 0.0);
    b->cost.tp_s += scalar[CAL_TP_EXPOSED] * passes * forward_s;
    b->cost.forward_s += scalar[CAL_TP_EXPOSED] * forward_s;
}

static bool is_full(const struct block *b) {
    return b->shape->recompute == RECOMPUTE_FULL;
}

static struct group tp_group(const struct block *b) {
    return (struct group){b->shape->tp, 1};
}

static void norm_and_residual(struct block *b) {
    const double hidden = (double)b->ctx->geometry->hidden;
    const double norm_bytes = 2.0 * BYTES_BF16 * hidden;     /* read, write */
    const double residual_bytes = 3.0 * BYTES_BF16 * hidden; /* read two, write one */
    kernel_stream(b->ctx, norm_bytes * b->tokens_tp, 2.0, true, &b->work);
    kernel_stream(b->ctx, residual_bytes * b->tokens_tp, 2.0, false, &b->work);
    b->cost.kept_bytes += 2.0 * BYTES_BF16 * hidden * b->tokens_tp; /* block input, norm output */
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
    double params = hidden * kv_down + (double)g->kv_rank * kv_up;
    kernel_gemm(b->ctx, b->tokens_tp, kv_down, hidden, false, &b->work);
    kernel_gemm(b->ctx, b->tokens, kv_up, (double)g->kv_rank, false, &b->work);
    double kept = 2.0 * (double)g->kv_rank + (double)g->rope_dim + 2.0 * q_width +
                  b->heads * (double)g->v_head_dim;
    if (g->q_rank > 0) {
        const double rank = (double)g->q_rank;
        kernel_gemm(b->ctx, b->tokens_tp, rank, hidden, false, &b->work);
        kernel_gemm(b->ctx, b->tokens, q_width, rank, false, &b->work);
        params += hidden * rank + rank * q_width;
        kept += 2.0 * rank;
    } else {
        kernel_gemm(b->ctx, b->tokens, q_width, hidden, false, &b->work);
        params += hidden * q_width;
    }
    b->cost.kept_bytes += BYTES_BF16 * kept * b->tokens;
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
    const double exposed = b->ctx->calibration->scalar[CAL_CP_EXPOSED];
    b->cost.cp_s += exposed * ((is_full(b) ? 3.0 : 2.0) * gather_s + reduce_s);
    b->cost.forward_s += exposed * gather_s;
}

static void attention_block(struct block *b) {
    const struct geometry *const g = b->ctx->geometry;
    const double hidden = (double)g->hidden;
    norm_and_residual(b);
    const double projections =
        g->attention == ATTENTION_MLA ? mla_projections(b) : gqa_projections(b);
    const double rope = g->attention == ATTENTION_MLA
                            ? b->heads * (double)g->rope_dim
                            : (b->heads + b->kv_heads) * (double)g->head_dim;
    kernel_stream(b->ctx, 2.0 * BYTES_BF16 * rope * b->tokens, 2.0, true, &b->work);
    kernel_attention(b->ctx, b->tokens, b->heads, &b->work);
    const double value_width = b->heads * (double)g->v_head_dim;
    kernel_gemm(b->ctx, b->tokens, hidden, value_width, false, &b->work);
    /* Attention output in bf16 and the log-sum-exp of each head in FP32. */
    b->cost.kept_bytes += (BYTES_BF16 * value_width + BYTES_FP32 * b->heads) * b->tokens;
    b->params.dense += projections + value_width * hidden;
    tp_collectives(b, tp_group(b), BYTES_BF16 * hidden * b->tokens, is_full(b));
    cp_exchange(b);
}

/* A dense or shared FFN of `width`, TP-sharded. */
static void ffn(struct block *b, double width) {
    const struct geometry *const g = b->ctx->geometry;
    const double hidden = (double)g->hidden, local = width / (double)b->shape->tp;
    const double inputs = (double)(g->ffn_matrices - 1);
    kernel_gemm(b->ctx, b->tokens, inputs * local, hidden, false, &b->work);
    kernel_stream(b->ctx, BYTES_BF16 * (inputs + 1.0) * local * b->tokens, 1.7, true, &b->work);
    kernel_gemm(b->ctx, b->tokens, hidden, local, false, &b->work);
    b->cost.kept_bytes += BYTES_BF16 * (inputs + 1.0) * local * b->tokens;
    b->params.dense += (double)g->ffn_matrices * hidden * local;
}

static void dense_block(struct block *b) {
    const struct geometry *const g = b->ctx->geometry;
    norm_and_residual(b);
    ffn(b, (double)g->dense_ffn);
    tp_collectives(b, tp_group(b), BYTES_BF16 * (double)g->hidden * b->tokens, is_full(b));
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
    const double permute_s =
        2.0 * BYTES_BF16 * hidden * (b->tokens_tp + rows) / b->ctx->hbm_bytes_per_s;
    b->work.forward.permute_s += permute_s;
    b->work.backward.permute_s += permute_s;
    b->params.dense += hidden * (double)g->experts;
    const double logit_bytes_kept = 3.0 * BYTES_FP32; /* logits, probabilities, map */
    b->cost.kept_bytes += logit_bytes_kept * logits;
}

/* Dispatch and combine, forward and backward; again when the layer is recomputed. */
static void all_to_all(struct block *b, double payload_bytes) {
    const struct mesh *const s = b->shape;
    const struct group group = {s->ep, s->etp};
    const double one_s = collective(b, COLLECTIVE_ALL_TO_ALL, group, payload_bytes);
    const double exposed = b->ctx->calibration->scalar[CAL_EP_EXPOSED];
    b->cost.all_to_all_s = 4.0 * one_s;
    b->cost.ep_s += exposed * (is_full(b) ? 6.0 : 4.0) * one_s;
    b->cost.forward_s += exposed * 2.0 * one_s;
}

static double imbalance_of(const struct block *b) {
    return b->ctx->estimator.balanced_experts ? 1.0 : b->ctx->workload->imbalance;
}

static void moe_block(struct block *b, double *payload_bytes) {
    const struct geometry *const g = b->ctx->geometry;
    const struct mesh *const s = b->shape;
    const struct estimator *const e = &b->ctx->estimator;
    const double hidden = (double)g->hidden, top_k = (double)g->top_k;
    const double imbalance = imbalance_of(b);
    const double local_experts = (double)g->experts / (double)s->ep;
    const double width = (double)g->expert_ffn / (double)s->etp;
    norm_and_residual(b);
    /* Rows that this GPU sends, and rows that its local experts receive from the EP group. */
    const double sent_rows = b->tokens_tp * top_k * imbalance;
    const double per_expert = e->rows_without_ep ? ceil(b->tokens * top_k / (double)g->experts)
                                                 : sent_rows * (double)s->etp / local_experts;
    route(b, sent_rows);
    kernel_grouped_ffn(b->ctx, per_expert, local_experts, width, &b->work);
    const double rows = sent_rows * (double)s->etp;
    const double inputs = (double)(g->ffn_matrices - 1);
    kernel_stream(b->ctx, BYTES_BF16 * (inputs + 1.0) * width * rows, 1.7, true, &b->work);
    b->cost.kept_routed_bytes += BYTES_BF16 * (hidden + (inputs + 1.0) * width) * rows;
    b->params.expert += (double)g->ffn_matrices * hidden * width * local_experts;
    *payload_bytes = BYTES_BF16 * hidden * sent_rows;
    all_to_all(b, *payload_bytes);
    if (s->etp > 1)
        tp_collectives(b, (struct group){s->etp, 1}, BYTES_BF16 * hidden * rows, is_full(b));
    if (g->shared_experts > 0) {
        ffn(b, (double)g->shared_experts * (double)g->shared_ffn);
        tp_collectives(b, tp_group(b), BYTES_BF16 * hidden * b->tokens, is_full(b));
    }
}

static double host_time(const struct block *b, enum layer_kind kind) {
    const double *const scalar = b->ctx->calibration->scalar;
    const struct mesh *const s = b->shape;
    /* The counts were taken with full recomputation. */
    double factor = 1.0;
    if (!b->ctx->estimator.launches_ignore_recompute && s->recompute != RECOMPUTE_FULL)
        factor =
            (s->recompute == RECOMPUTE_SELECTIVE ? scalar[CAL_HOST_SELECTIVE_RECOMPUTE] : 1.0) /
            scalar[CAL_HOST_FULL_RECOMPUTE];
    if (s->tp > 1)
        factor *= scalar[CAL_HOST_TP_FACTOR];
    if (kind == LAYER_DENSE)
        return scalar[CAL_HOST_KERNELS_DENSE] * factor * scalar[CAL_HOST_GAP];
    const double local_experts = (double)b->ctx->geometry->experts / (double)s->ep;
    const double kernels =
        scalar[CAL_HOST_KERNELS_MOE] + scalar[CAL_HOST_KERNELS_EXPERT] * local_experts;
    return kernels * factor * scalar[CAL_HOST_GAP] + (s->ep > 1 ? scalar[CAL_HOST_EP_SYNC] : 0.0);
}

/* Selective recomputation: norm outputs and activation products are rebuilt from their inputs. */
static void keep_selectively(struct block *b, enum layer_kind kind) {
    const struct geometry *const g = b->ctx->geometry;
    const struct mesh *const s = b->shape;
    const double norm_outputs = 2.0 * BYTES_BF16 * (double)g->hidden * b->tokens_tp;
    const double dense_width = kind == LAYER_DENSE
                                   ? (double)g->dense_ffn
                                   : (double)g->shared_experts * (double)g->shared_ffn;
    b->cost.kept_bytes -= norm_outputs + BYTES_BF16 * dense_width / (double)s->tp * b->tokens;
    if (kind == LAYER_MOE) {
        const double imbalance = imbalance_of(b);
        b->cost.kept_routed_bytes -=
            BYTES_BF16 * (double)g->expert_ffn * (double)g->top_k * imbalance * b->tokens_tp;
    }
}

static void apply_recompute(struct block *b, enum layer_kind kind) {
    struct layer_cost *const cost = &b->cost;
    cost->interior_bytes = cost->kept_bytes + cost->kept_routed_bytes;
    switch (b->shape->recompute) {
    case RECOMPUTE_FULL:
        cost->recompute_s = kernel_times_sum(&b->work.forward);
        cost->recompute_flop = b->work.forward_flop;
        cost->kept_bytes = BYTES_BF16 * (double)b->ctx->geometry->hidden * b->tokens_tp;
        cost->kept_routed_bytes = 0.0;
        break;
    case RECOMPUTE_SELECTIVE:
        cost->recompute_s = b->work.streamed_forward_s;
        keep_selectively(b, kind);
        break;
    case RECOMPUTE_NONE:
    case RECOMPUTE_MODES:
        break;
    }
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
    b->cost.gpu_s =
        kernel_times_sum(total) + b->cost.recompute_s + b->cost.tp_s + b->cost.cp_s + b->cost.ep_s;
}

static void embedding_cost(struct block *b, struct layer_table *out) {
    const double hidden = (double)b->ctx->geometry->hidden;
    const double vocab = step_padded_vocab(b->ctx, b->shape->tp);
    kernel_stream(b->ctx, 2.0 * BYTES_BF16 * hidden * b->tokens_tp, 2.0, false, &b->work);
    sum_up(b);
    out->embedding = b->cost;
    out->embedding_params = vocab * hidden / (double)b->shape->tp;
}

/* LM head and cross-entropy; an MTP layer brings a head pass of its own and its two-to-one
 * projection, whose layer the caller adds. */
static void head_cost(const struct block *b, const struct layer_cost *mtp_layer,
                      const struct layer_params *mtp_params, struct layer_table *out) {
    const struct step_context *const ctx = b->ctx;
    const double *const scalar = ctx->calibration->scalar;
    const double hidden = (double)ctx->geometry->hidden, mtp = (double)ctx->geometry->mtp_layers;
    const double vocab = step_padded_vocab(ctx, b->shape->tp) / (double)b->shape->tp;
    const double flop = 2.0 * b->tokens * hidden * vocab;
    const double forward_s = flop / (ctx->peak16_flop_per_s * scalar[CAL_HEAD_FORWARD_SHARE]);
    const double backward_s =
        2.0 * flop / (ctx->peak16_flop_per_s * scalar[CAL_HEAD_BACKWARD_SHARE]);
    const double loss_s = scalar[CAL_CROSS_ENTROPY_PASSES] * BYTES_FP32 * b->tokens * vocab /
                          ctx->hbm_raw_bytes_per_s;
    struct layer_work projection = {0};
    if (mtp > 0.0)
        kernel_gemm(ctx, b->tokens, hidden, 2.0 * hidden / (double)b->shape->tp, false,
                    &projection);
    const double mtp_s = mtp_layer->gpu_s + kernel_times_sum(&projection.forward) +
                         kernel_times_sum(&projection.backward);
    out->head_s = (1.0 + mtp) * (forward_s + backward_s + loss_s) + mtp * mtp_s;
    out->head_forward_s = (1.0 + mtp) * (forward_s + loss_s / 3.0) + mtp * mtp_layer->forward_s;
    out->head_params = vocab * hidden;
    out->mtp.dense = mtp * (mtp_params->dense + 2.0 * hidden * hidden / (double)b->shape->tp);
    out->mtp.expert = mtp * mtp_params->expert;
    out->logits_bytes = scalar[CAL_LOGIT_BYTES] * b->tokens * vocab;
    out->head_kept_bytes = 2.0 * BYTES_BF16 * hidden * b->tokens_tp +
                           mtp * (mtp_layer->kept_bytes + mtp_layer->kept_routed_bytes);
}

static double largest_matrix(const struct step_context *ctx, const struct mesh *shape) {
    const struct geometry *const g = ctx->geometry;
    const double hidden = (double)g->hidden, tp = (double)shape->tp;
    double largest = step_padded_vocab(ctx, shape->tp) * hidden / tp;
    if (g->first_dense > 0)
        largest = fmax(largest, (double)(g->ffn_matrices - 1) * hidden * (double)g->dense_ffn / tp);
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
    apply_recompute(&b, kind);
    sum_up(&b);
    b.cost.host_s = host_time(&b, kind);
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
    struct block ends = block_begin(ctx, shape, &out->lookups);
    const enum layer_kind mtp_kind = has_moe ? LAYER_MOE : LAYER_DENSE;
    head_cost(&ends, &out->cost[mtp_kind], &out->params[mtp_kind], out);
    embedding_cost(&ends, out);
    out->largest_matrix_params = largest_matrix(ctx, shape);
    out->hand_off_bytes = BYTES_BF16 * hidden * ends.tokens_tp;
    out->optimizer_flop_per_dense = muon_flop_per_parameter(hidden, hidden);
    out->optimizer_flop_per_expert = muon_flop_per_parameter(hidden, (double)g->expert_ffn);
}
