// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Cost of one layer for one micro-batch on one GPU: every operator forward and backward, the
 * collectives inside the layer, the host's launches, and the bytes kept for backward.
 *
 * Forms (arXiv 2608.10605 section 5, and measured-step analysis): additive roofline
 *   t = FLOPs / rate (1 + h/M)(1 + h/N)(1 + h/K) + bytes / HBM;
 * grouped GEMM with rows per local expert r = tokens K EP / E: FLOPs / rate (1 + r0 / r) + bytes,
 * where the bytes hold the weights of the local experts.  Backward doubles the FLOPs.
 */
#ifndef MOSAIC_STEP_LAYER_COST_H
#define MOSAIC_STEP_LAYER_COST_H

#include "step/context.h"

enum layer_kind { LAYER_DENSE, LAYER_MOE, LAYER_KINDS };

/* Seconds by operator class. */
struct kernel_times {
    double gemm_s, grouped_gemm_s, attention_s, elementwise_s, router_s, permute_s, quantise_s;
};
double kernel_times_sum(const struct kernel_times *t);

struct layer_cost {
    struct kernel_times kernels; /* forward + backward, without recomputation */
    double recompute_s;          /* forward kernels run again */
    double tp_s, cp_s, ep_s;     /* exposed collectives */
    double gpu_s;                /* all of the above */
    double forward_s;            /* the part of gpu_s before backward starts */
    double host_s;               /* launches and synchronisation */
    double all_to_all_s;         /* wire time of the four all-to-alls, exposed or not */
    double weight_gradient_s;    /* part of backward that may run later */
    double recompute_flop;       /* FLOPs run again on this GPU */
    double kept_bytes;           /* activations kept for backward, routed ones apart */
    double kept_routed_bytes;
    double away_bytes, away_routed_bytes; /* of these, what offloading may move */
    double interior_bytes;                /* everything a layer holds while its backward runs */
};

/* Parameters on one GPU of one layer, by how they are sharded. */
struct layer_params {
    double dense;  /* TP-sharded and replicated: data parallel over DP x CP */
    double expert; /* routed: data parallel over expert-DP */
};

/* The least of a layer under every recomputation that a stage of the mesh may have. */
struct layer_least {
    double gpu_s, host_s;
    double here_bytes, here_routed_bytes; /* kept on the device */
};

/* Both kinds under one mesh shape (tp, cp, ep, etp, micro_batch, recompute); pp, vpp and dp do not
 * enter, so one table serves all of them. */
struct layer_table {
    struct layer_cost cost[LAYER_KINDS];
    struct layer_params params[LAYER_KINDS];
    struct layer_cost embedding;          /* first stage */
    double head_s, head_forward_s;        /* last stage: LM heads, losses, projections of MTP */
    enum layer_kind mtp_kind;             /* of the MTP layers */
    double embedding_params, head_params; /* on one GPU */
    double head_elsewhere;                /* of the head: on the other ranks of its ring */
    struct layer_params mtp;              /* all MTP layers with their projections */
    double logits_bytes, head_kept_bytes;
    double largest_matrix_params; /* on one GPU */
    double hand_off_bytes;        /* activations of one micro-batch between stages */
    double routed_payload_bytes;  /* one all-to-all's buffer */
    double optimizer_flop_per_dense, optimizer_flop_per_expert; /* Muon: per parameter */
    struct lookup_count lookups;
    bool is_mixable; /* stages may differ: `least` is filled */
    struct layer_least least[LAYER_KINDS];
};

void layer_table_fill(const struct step_context *ctx, const struct mesh *shape,
                      struct layer_table *out);

#endif
