// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One model: the shape of a decoder-only transformer, dense or Mixture-of-Experts.  Plain data; the
 * counts that follow from it are in model/count.h, the paper's ladder in model/ladder.h.
 */
#ifndef MOSAIC_MODEL_GEOMETRY_H
#define MOSAIC_MODEL_GEOMETRY_H

#include "base/status.h"

#include <stdbool.h>

enum attention_kind { ATTENTION_GQA, ATTENTION_MLA };

struct geometry {
    int layers;      /* decoder layers, all kinds, without MTP layers */
    int first_dense; /* leading layers with a dense FFN; == layers for a dense model */
    int hidden;      /* model width d */
    int heads;       /* query heads */
    int kv_heads;    /* key/value heads (GQA); 0 for MLA */
    int head_dim;    /* width of one query/key head (MLA: without the RoPE part) */
    int v_head_dim;  /* width of one value head */
    enum attention_kind attention;
    int q_rank;         /* MLA: rank of the query projection, 0 = full */
    int kv_rank;        /* MLA: rank of the joint key/value projection */
    int rope_dim;       /* MLA: width of the decoupled RoPE part of a head */
    int ffn_matrices;   /* 3 for gated (SwiGLU), 2 for plain */
    int dense_ffn;      /* width of a dense layer's FFN */
    int expert_ffn;     /* width of one routed expert */
    int experts;        /* routed experts per MoE layer; 0 for a dense model */
    int top_k;          /* routed experts used per token */
    int node_limit;     /* domains that the experts of a token may lie on, 0 = any */
    int shared_experts; /* always-active experts per MoE layer */
    int shared_ffn;     /* width of one shared expert */
    double granularity; /* law's G: reference dense FFN width / expert_ffn */
    int window;         /* sliding window in tokens, 0 = none */
    int window_layers;  /* layers that use it */
    int mtp_layers;     /* multi-token-prediction layers, each with a head pass of its own */
    int vocab;          /* rows of the embedding, unpadded */
    bool tied;          /* input embedding and LM head share one matrix */
    int ladder_q;       /* seed of the paper's ladder, 0 when not from it */
};

/* Largest values accepted anywhere; they keep every product inside a double's 2^53. */
enum {
    GEOMETRY_MAX_LAYERS = 1024,
    GEOMETRY_MAX_HIDDEN = 262144,
    GEOMETRY_MAX_FFN = 4194304,
    GEOMETRY_MAX_HEADS = 65536,
    GEOMETRY_MAX_EXPERTS = 65536,
    GEOMETRY_MAX_VOCAB = 16777216
};

/* Checks ranges and divisibility (K <= E, heads mod kv_heads, ...); the message has the numbers.
 * A dense_ffn that no layer uses passes: public configurations carry one. */
MOSAIC_MUST_USE enum mosaic_status geometry_check(const struct geometry *g,
                                                  struct status_error *err);

/* The law's G where a document states none: dense_ffn / expert_ffn, or 2.5 hidden / expert_ffn (the
 * ladder's d_ff) without a dense width; 1 for a dense model. */
double geometry_reference_granularity(const struct geometry *g);

/* Number of MoE layers. */
int geometry_moe_layers(const struct geometry *g);

/* Total order used to break ties, all fields ascending: ladder_q, hidden, layers, experts, top_k,
 * granularity, then the rest; 0 means equal in every field. */
int geometry_compare(const struct geometry *a, const struct geometry *b);

#endif
