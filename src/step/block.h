// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One layer under construction: what its parts (attention, FFN, experts, ends) add to, and what
 * they share.  Internal to the layer's cost.
 */
#ifndef MOSAIC_STEP_BLOCK_H
#define MOSAIC_STEP_BLOCK_H

#include "step/expert_schedule.h"
#include "step/kernel.h"

/* One layer under one shape. */
struct block {
    const struct step_context *ctx;
    const struct mesh *shape;
    double tokens;              /* per GPU and micro-batch, before TP */
    double tokens_tp;           /* with sequence parallelism */
    double heads, kv_heads;     /* local */
    double ep_passes, ep_one_s; /* all-to-alls of the layer, forward first two; time of one */
    double kept[OFFLOADS], saved[OFFLOADS]; /* by part; saved by recomputation */
    double chunked_bytes, lent_bytes; /* what chunks take off the interior, borrowed experts add */
    struct expert_schedule routes;    /* of MoE layers */
    double expert_forward_s, expert_backward_s; /* grouped GEMMs and activation */
    double expert_flop;                         /* of their forward */
    bool is_inside; /* a module that runs again as a whole is being built */
    struct layer_work work;
    struct layer_cost cost;
    struct layer_params params;
    struct lookup_count *lookups;
};

/* Forward work so far: the beginning of a module. */
struct module_start {
    double forward_s, flop;
    bool was_inside;
};

struct module_start module_begin(struct block *b, enum module module);
/* The module's forward runs again in backward, and these bytes of it are not kept (NULL: none);
 * what lies inside a module that runs again counts there. */
void module_end(struct block *b, enum module module, struct module_start start,
                const double saved[OFFLOADS]);

double block_collective(const struct block *b, enum collective_kind kind, struct group group,
                        double bytes);
/* Share of a transfer that stays visible, overlapped or not. */
double block_exposed_share(const struct block *b, enum overlap bit, enum scalar plain,
                           enum scalar overlapped);
/* All-gather before and reduce-scatter after a TP-sharded block, forward and backward. */
void block_tp_collectives(struct block *b, struct group group, double bytes, bool with_recompute);
bool block_is_full(const struct block *b);
/* Whether selective recomputation runs the module again. */
bool block_runs_again(const struct block *b, enum module module);
struct group block_tp_group(const struct block *b);

/* ---- parts ---- */

void attention_block(struct block *b);
void dense_block(struct block *b);
/* Takes the bytes of one all-to-all's buffer. */
void moe_block(struct block *b, double *payload_bytes);
/* Exposed all-to-all of a MoE layer whose other work takes so long. */
void expose_all_to_all(struct block *b, double compute_s);

/* Shared by those parts: a norm whose output is kept at so many bytes a number, with its residual;
 * the activation of an FFN; what a number of an FFN's width keeps; a dense or shared FFN. */
void norm_and_residual(struct block *b, double number_bytes);
void ffn_activation(struct block *b, double rows, double width, bool is_routed);
double ffn_number_bytes(const struct block *b);
void ffn(struct block *b, double width, enum module module);

/* Sum of a block's work, exposed transfers and recomputation. */
void block_sum_up(struct block *b);
void embedding_cost(struct block *b, struct layer_table *out);
/* The stage counts an MTP layer; this its head pass and projection. */
void head_cost(struct block *b, const struct layer_cost *mtp_layer,
               const struct layer_params *mtp_params, struct layer_table *out);

#endif
