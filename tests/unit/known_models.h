// SPDX-License-Identifier: GPL-3.0-or-later
//
// Public architectures that the model tests count; the same facts, with sources, are in
// configs/models/.
#ifndef MOSAIC_TESTS_KNOWN_MODELS_H
#define MOSAIC_TESTS_KNOWN_MODELS_H

#include "model/geometry.h"

static const struct geometry mixtral_8x7b = {
    .layers = 32,
    .hidden = 4096,
    .heads = 32,
    .kv_heads = 8,
    .head_dim = 128,
    .v_head_dim = 128,
    .ffn_matrices = 3,
    .expert_ffn = 14336,
    .experts = 8,
    .top_k = 2,
    .granularity = 1,
    .vocab = 32000,
};

static const struct geometry qwen3_30b_a3b = {
    .layers = 48,
    .hidden = 2048,
    .heads = 32,
    .kv_heads = 4,
    .head_dim = 128,
    .v_head_dim = 128,
    .ffn_matrices = 3,
    .expert_ffn = 768,
    .experts = 128,
    .top_k = 8,
    .granularity = 8,
    .vocab = 151936,
};

static const struct geometry deepseek_v3 = {
    .layers = 61,
    .first_dense = 3,
    .hidden = 7168,
    .heads = 128,
    .head_dim = 128,
    .v_head_dim = 128,
    .attention = ATTENTION_MLA,
    .q_rank = 1536,
    .kv_rank = 512,
    .rope_dim = 64,
    .ffn_matrices = 3,
    .dense_ffn = 18432,
    .expert_ffn = 2048,
    .experts = 256,
    .top_k = 8,
    .shared_experts = 1,
    .shared_ffn = 2048,
    .granularity = 9,
    .mtp_layers = 1,
    .vocab = 129280,
};

static const struct geometry llama3_8b = {
    .layers = 32,
    .first_dense = 32,
    .hidden = 4096,
    .heads = 32,
    .kv_heads = 8,
    .head_dim = 128,
    .v_head_dim = 128,
    .ffn_matrices = 3,
    .dense_ffn = 14336,
    .granularity = 1,
    .vocab = 128256,
};

#endif
