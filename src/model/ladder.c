// SPDX-License-Identifier: GPL-3.0-or-later
//
// The paper's ladder (arXiv 2608.10605, section 7.1): one seed q scales depth and width together,
// and granularity splits the reference FFN into narrower experts with the same top_k.
#include "model/ladder.h"

enum {
    LAYERS_PER_Q = 4,
    HEADS_PER_Q = 4,
    HEAD_DIM = 128,
    KV_HEADS = 8,
    HIDDEN_PER_Q = 512,
    FFN_PER_Q = 1280, // 2.5 x hidden
    DENSE_LAYERS = 1,
    SHARED_EXPERTS = 1,
    GATED_MATRICES = 3,
    Q_MAX = GEOMETRY_MAX_LAYERS / LAYERS_PER_Q
};

static enum mosaic_status check_seed(int q, int granularity, struct status_error *err) {
    if (q < 1 || q > Q_MAX) {
        return status_set(err, MOSAIC_BAD_INPUT, "ladder q is %d; it must lie in 1 to %d", q,
                          Q_MAX);
    }
    const int d_ff = FFN_PER_Q * q;
    if (granularity < 1 || d_ff % granularity != 0) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "granularity %d does not divide d_ff %d of ladder q %d", granularity,
                          d_ff, q);
    }
    return MOSAIC_OK;
}

// NOLINTNEXTLINE(readability-function-size): the arguments are one flat tuple with no other use.
enum mosaic_status ladder_geometry(int q, int experts, int top_k, int granularity, int vocab,
                                   struct geometry *out, struct status_error *err) {
    TRY(check_seed(q, granularity, err));
    if (experts < 1) {
        return status_set(err, MOSAIC_BAD_INPUT, "ladder experts is %d; it must be 1 or more",
                          experts);
    }
    const int d_ff = FFN_PER_Q * q;
    const struct geometry g = {
        .layers = LAYERS_PER_Q * q,
        .first_dense = DENSE_LAYERS,
        .hidden = HIDDEN_PER_Q * q,
        .heads = HEADS_PER_Q * q,
        .kv_heads = KV_HEADS,
        .head_dim = HEAD_DIM,
        .v_head_dim = HEAD_DIM,
        .attention = ATTENTION_GQA,
        .ffn_matrices = GATED_MATRICES,
        .dense_ffn = d_ff,
        .expert_ffn = d_ff / granularity,
        .experts = experts,
        .top_k = top_k,
        .shared_experts = SHARED_EXPERTS,
        .shared_ffn = d_ff / granularity,
        .granularity = granularity,
        .vocab = vocab,
        .ladder_q = q,
    };
    TRY(geometry_check(&g, err));
    *out = g;
    return MOSAIC_OK;
}
