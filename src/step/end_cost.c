// SPDX-License-Identifier: GPL-3.0-or-later
/* The ends of a model: embedding, and LM head with loss. */
#include "step/block.h"
#include "step/ring_head.h"

/* One collective of a vocabulary-parallel end forward, its opposite backward; returns the exposed
 * forward part. */
static double vocabulary_collectives(struct block *b) {
    const double bytes = BYTES_BF16 * (double)b->ctx->geometry->hidden * b->tokens;
    const double exposed = block_exposed_share(b, OVERLAP_TP, CAL_TP_EXPOSED, CAL_TP_OVERLAPPED);
    const double scatter_s =
        exposed * block_collective(b, COLLECTIVE_REDUCE_SCATTER, block_tp_group(b), bytes);
    const double gather_s =
        exposed * block_collective(b, COLLECTIVE_ALL_GATHER, block_tp_group(b), bytes);
    b->cost.tp_s += scatter_s + gather_s;
    b->cost.forward_s += scatter_s;
    return gather_s;
}

void embedding_cost(struct block *b, struct layer_table *out) {
    const double hidden = (double)b->ctx->geometry->hidden;
    const double vocab = step_padded_vocab(b->ctx, b->shape->tp);
    kernel_stream(b->ctx, 2.0 * BYTES_BF16 * hidden * b->tokens_tp, 2.0, &b->work);
    /* The embedding's sum over TP is scattered forward and gathered backward. */
    vocabulary_collectives(b);
    block_sum_up(b);
    out->embedding = b->cost;
    out->embedding_params = vocab * hidden / (double)b->shape->tp;
}

/* LM head and cross-entropy; an MTP layer brings a head pass of its own and a two-to-one
 * projection, beside its layer, which the stage counts. */
void head_cost(struct block *b, const struct layer_cost *mtp_layer,
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
    out->head_elsewhere = vocab * hidden - out->head_params;
    out->mtp.dense = mtp * (mtp_params->dense + 2.0 * hidden * hidden / (double)b->shape->tp);
    out->mtp.expert = mtp * mtp_params->expert;
    out->logits_bytes =
        ring.logits_share * scalar[CAL_LOGIT_BYTES] * b->tokens * vocab + ring.moving_bytes;
    out->head_kept_bytes = 2.0 * BYTES_BF16 * hidden * b->tokens_tp +
                           mtp * (mtp_layer->kept_bytes + mtp_layer->kept_routed_bytes);
}
