// SPDX-License-Identifier: GPL-3.0-or-later
//
// Parameters and FLOPs (DESIGN 6).  Attention projections:
//   GQA  d H d_qk + d K d_qk + d K d_v + H d_v d
//   MLA  queries d r_q + r_q H (d_h + d_r), or d H (d_h + d_r) without a rank; keys and values
//        d (r_kv + d_r) + r_kv H (d_h + d_v); output H d_v d   (DeepSeek-V2, arXiv 2405.04434)
// FFN: ffn_matrices x d x width; router d E.
// Training FLOPs per token: 6 per matmul parameter used (2 forward, 4 backward) and 12 H (d_qk +
// d_v)/2 s per layer for the full square of scores and values, half of it for the causal triangle.
#include "model/count.h"

#include <math.h>

static const double FLOPS_PER_PARAMETER = 6;
static const double FLOPS_PER_SCORE_CAUSAL = 6;
static const double FLOPS_PER_SCORE_FULL = 12;
// The triangle halves what it holds, and a window lies below the diagonal whole.
static const double KEYS_PER_WINDOW_CAUSAL = 2;
static const double MTP_PROJECTION_INPUTS = 2; // hidden state and next token's embedding, joined

static double attention_params(const struct geometry *g) {
    const double d = g->hidden, heads = g->heads;
    const double output = heads * g->v_head_dim * d;

    if (g->attention == ATTENTION_GQA) {
        const double kv_heads = g->kv_heads;
        return d * heads * g->head_dim + d * kv_heads * g->head_dim + d * kv_heads * g->v_head_dim +
               output;
    }
    const double query_width = heads * ((double)g->head_dim + g->rope_dim);
    const double query = g->q_rank > 0 ? d * g->q_rank + g->q_rank * query_width : d * query_width;
    const double down = d * ((double)g->kv_rank + g->rope_dim);
    const double up = g->kv_rank * heads * ((double)g->head_dim + g->v_head_dim);
    return query + down + up + output;
}

static double ffn_params(const struct geometry *g, int width) {
    return (double)g->ffn_matrices * g->hidden * width;
}

// FFN and router of one layer of the last kind; `active` counts top_k routed experts, not all.
static double last_layer_ffn(const struct geometry *g, const struct param_counts *n, bool active) {
    if (geometry_moe_layers(g) == 0) {
        return n->dense_ffn_layer;
    }
    return n->router_layer + n->shared_layer + n->expert * (active ? g->top_k : g->experts);
}

void count_params(const struct geometry *g, struct param_counts *out) {
    struct param_counts n = {
        .embedding = (double)g->vocab * g->hidden,
        .attention_layer = attention_params(g),
        .dense_ffn_layer = ffn_params(g, g->dense_ffn),
        .expert = ffn_params(g, g->expert_ffn),
        .shared_layer = g->shared_experts * ffn_params(g, g->shared_ffn),
        .router_layer = (double)g->hidden * g->experts,
    };
    n.head = g->tied ? 0 : n.embedding;

    const double moe_layers = geometry_moe_layers(g);
    const double in_every_token =
        g->layers * n.attention_layer + g->first_dense * n.dense_ffn_layer;
    n.n_total_law = in_every_token + moe_layers * (n.shared_layer + g->experts * n.expert);
    n.n_active_law = in_every_token + moe_layers * (n.shared_layer + g->top_k * n.expert);
    n.sparsity = 1 - n.n_active_law / n.n_total_law;

    const double routers = moe_layers * n.router_layer;
    n.n_total = n.n_total_law + routers + n.embedding + n.head;
    n.n_active_no_embedding = n.n_active_law + routers;
    n.n_active = n.n_active_no_embedding + n.embedding + n.head;

    const double projection = MTP_PROJECTION_INPUTS * g->hidden * g->hidden;
    n.mtp_layer = n.attention_layer + projection + last_layer_ffn(g, &n, false);
    n.mtp_layer_active = n.attention_layer + projection + last_layer_ffn(g, &n, true);
    n.n_mtp = g->mtp_layers * n.mtp_layer;
    *out = n;
}

// Tokens that the layers span: the sequence, or up to so many windows.
static double span(const struct geometry *g, double whole_layers, double sequence, double windows) {
    return whole_layers * sequence + g->window_layers * fmin(sequence, windows * g->window);
}

void count_flops(const struct geometry *g, double sequence, struct flop_counts *out) {
    struct param_counts n;
    count_params(g, &n);

    const double head_passes = 1 + (double)g->mtp_layers;
    const double used = n.n_active_no_embedding + g->mtp_layers * n.mtp_layer_active +
                        head_passes * n.embedding; // the head is as large, tied or not
    const double whole_layers = (double)g->layers - g->window_layers + g->mtp_layers;
    const double causal_span = span(g, whole_layers, sequence, KEYS_PER_WINDOW_CAUSAL);
    const double full_span = span(g, whole_layers, sequence, 1);
    const double score_width = g->heads * ((double)g->head_dim + g->rope_dim + g->v_head_dim) / 2;

    out->matmul = FLOPS_PER_PARAMETER * used;
    out->attention_causal = FLOPS_PER_SCORE_CAUSAL * score_width * causal_span;
    out->attention_full = FLOPS_PER_SCORE_FULL * score_width * full_span;
    out->causal = out->matmul + out->attention_causal;
    out->full = out->matmul + out->attention_full;
    out->six_n = FLOPS_PER_PARAMETER * n.n_active_law;
}

long count_padded_vocab(int vocab, int unit, int tp) {
    const long block = (long)unit * tp;
    return (vocab + block - 1) / block * block;
}
