// SPDX-License-Identifier: GPL-3.0-or-later
/* Attention of a layer: norm, projections (grouped-query, latent), core, exchange over CP. */
#include "step/block.h"

#include <math.h>

void norm_and_residual(struct block *b, double number_bytes) {
    const double hidden = (double)b->ctx->geometry->hidden;
    const double norm_bytes = 2.0 * BYTES_BF16 * hidden;     /* read, write */
    const double residual_bytes = 3.0 * BYTES_BF16 * hidden; /* read two, write one */
    const double output_bytes = number_bytes * hidden * b->tokens_tp;
    const struct module_start start = module_begin(b, MODULE_NORM);
    kernel_stream(b->ctx, norm_bytes * b->tokens_tp, 2.0, &b->work);
    module_end(b, MODULE_NORM, start, (double[OFFLOADS]){[PART_NORM] = output_bytes});
    kernel_stream(b->ctx, residual_bytes * b->tokens_tp, 2.0, &b->work);
    b->kept[PART_NORM] += BYTES_BF16 * hidden * b->tokens_tp + output_bytes; /* block input too */
}

/* Projections of grouped-query attention; returns parameters on this GPU. */
static double gqa_projections(struct block *b) {
    const struct geometry *const g = b->ctx->geometry;
    const double hidden = (double)g->hidden;
    const double qkv =
        b->heads * (double)g->head_dim + b->kv_heads * (double)(g->head_dim + g->v_head_dim);
    kernel_gemm(b->ctx, b->tokens, qkv, hidden, false, &b->work);
    b->kept[PART_QKV] += BYTES_BF16 * qkv * b->tokens;
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
    module_end(b, MODULE_MLA_UP, start,
               (double[OFFLOADS]){[PART_QKV] = BYTES_BF16 * up_width * b->tokens});
    if (g->q_rank > 0) {
        params += hidden * rank + rank * q_width;
        kept_bytes += latent_bytes * rank;
    } else {
        params += hidden * q_width;
    }
    b->kept[PART_QKV] += kept_bytes * b->tokens;
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
    const double gather_s = block_collective(b, COLLECTIVE_ALL_GATHER, group, bytes);
    const double reduce_s = block_collective(b, COLLECTIVE_REDUCE_SCATTER, group, bytes);
    const double wire_s = (block_is_full(b) ? 3.0 : 2.0) * gather_s + reduce_s;
    const double share = block_exposed_share(b, OVERLAP_CP, CAL_CP_EXPOSED, CAL_CP_OVERLAPPED);
    const bool overlaps = (b->ctx->workload->execution.overlap & OVERLAP_CP) != 0;
    /* A ring hides behind the attention of the blocks that have arrived. */
    const double hidden_s =
        overlaps ? b->work.forward.attention_s + b->work.backward.attention_s : 0.0;
    const double exposed_s = fmax(share * wire_s, overlaps ? wire_s - hidden_s : 0.0);
    b->cost.cp_s += exposed_s;
    b->cost.forward_s += wire_s > 0.0 ? exposed_s * gather_s / wire_s : 0.0;
}

/* Parts of the sequence that differ in their keys.  Ranks meet in every layer, so that the busiest
 * one sets its time.  A ring whose steps wait for one another takes as long: in each the last rank
 * has a whole block, and none has more.  Unfused, the core computes the masked half as well, which
 * no cut makes uneven. */
static int uneven_shards(const struct block *b) {
    const struct execution *const e = &b->ctx->workload->execution;
    return e->context_shards == CONTEXT_CONTIGUOUS && !e->unfused_attention ? b->shape->cp : 1;
}

void attention_block(struct block *b) {
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
    module_end(b, MODULE_ROPE, rotation, NULL);
    /* Unfused, the scores before and after softmax and the dropout mask are kept. */
    const double score_bytes = b->ctx->workload->execution.unfused_attention
                                   ? 5.0 * b->heads * (double)b->ctx->workload->sequence * b->tokens
                                   : 0.0;
    const struct module_start core = module_begin(b, MODULE_CORE_ATTENTION);
    kernel_attention(b->ctx, b->tokens, b->heads, uneven_shards(b), &b->work);
    module_end(b, MODULE_CORE_ATTENTION, core, (double[OFFLOADS]){[PART_CORE] = score_bytes});
    b->kept[PART_CORE] += score_bytes;
    const double value_width = b->heads * (double)g->v_head_dim;
    kernel_gemm(b->ctx, b->tokens, hidden, value_width, false, &b->work);
    /* Attention output in bf16, once more where the projection keeps its own, and the log-sum-exp
     * of each head in FP32. */
    const double input_bytes = b->ctx->gemm_input_bytes;
    const double output_bytes = BYTES_BF16 + (input_bytes < BYTES_BF16 ? input_bytes : 0.0);
    b->kept[PART_CORE] += (output_bytes * value_width + BYTES_FP32 * b->heads) * b->tokens;
    b->params.dense += projections + value_width * hidden;
    block_tp_collectives(b, block_tp_group(b), BYTES_BF16 * hidden * b->tokens, block_is_full(b));
    cp_exchange(b);
}
