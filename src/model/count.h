// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Parameters and training FLOPs under every convention (DESIGN 6): one truth, many names.
 * All counts are exact integers held in doubles below 2^53 (checked by geometry_check).
 *
 * Matrices only: norm weights and biases are no matmul parameters and are not counted (about 1e-5
 * of a model).  n_total and n_active are the main model's, as its makers quote them; the MTP
 * modules, which train beside it and are dropped afterwards, stand apart in n_mtp.  Their FLOPs are
 * in flop_counts.
 */
#ifndef MOSAIC_MODEL_COUNT_H
#define MOSAIC_MODEL_COUNT_H

#include "model/geometry.h"

struct param_counts {
    double embedding;       /* vocab x hidden, once; the head counts apart unless tied */
    double head;            /* LM head matrix, 0 when tied */
    double attention_layer; /* one layer's attention projections */
    double dense_ffn_layer; /* one dense layer's FFN */
    double expert;          /* one routed expert */
    double shared_layer;    /* all shared experts of one MoE layer */
    double router_layer;    /* hidden x experts */
    double mtp_layer;       /* one MTP module: a layer of the last kind and its 2 hidden x hidden
                               projection; embedding and head are the main model's */
    double mtp_layer_active;
    double n_mtp; /* mtp_layers x mtp_layer: trained and stored, not in n_total */
    double n_total,
        n_active; /* every matrix; active: top_k routed experts, embedding and head in */
    double n_active_no_embedding;     /* n_active without the input embedding and the head */
    double n_total_law, n_active_law; /* the law's own count: no embedding, no head, no router */
    double sparsity;                  /* 1 - n_active_law / n_total_law */
};

/* Training FLOPs (forward + backward) per token without recomputation.  A sliding window w
 * caps the sequence s of its layers.  Full convention: the band of the square, min(s, w) keys a
 * query.  Causal: the triangle has s/2 keys a query and the band below the diagonal w, so the layer
 * spans min(s, 2 w), of which half counts; at s = w and for s far above w that is exact. */
struct flop_counts {
    double matmul;              /* 6 x matmul parameters used per token (head in, embedding out) */
    double attention_causal;    /* 6 L H (d_qk + d_v)/2 s, windows capped */
    double attention_full;      /* 12 ...; twice that without a window below s */
    double causal, full, six_n; /* matmul + causal; matmul + full; 6 n_active_law */
};

/* Counts of a geometry that passed geometry_check. */
void count_params(const struct geometry *g, struct param_counts *out);
/* sequence in tokens, >= 1. */
void count_flops(const struct geometry *g, double sequence, struct flop_counts *out);

/* Rows of an embedding padded to a multiple of unit x tp (engines pad; model FLOPs do not). */
long count_padded_vocab(int vocab, int unit, int tp);

#endif
