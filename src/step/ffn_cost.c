// SPDX-License-Identifier: GPL-3.0-or-later
/* Dense and shared feed-forward networks of a layer. */
#include "step/block.h"

/* The activation between the matrices of an FFN: (inputs + 1) numbers of `rows` x `width`. */
void ffn_activation(struct block *b, double rows, double width, bool is_routed) {
    const double inputs = (double)(b->ctx->geometry->ffn_matrices - 1);
    const double streamed_bytes = BYTES_BF16 * (inputs + 1.0) * width * rows;
    const double kept_bytes = b->ctx->gemm_input_bytes * width * rows;
    const struct module_start start = module_begin(b, MODULE_ACTIVATION);
    kernel_stream(b->ctx, streamed_bytes, 1.7, &b->work);
    module_end(b, MODULE_ACTIVATION, start,
               (double[OFFLOADS]){[PART_FFN] = is_routed ? 0.0 : kept_bytes,
                                  [PART_EXPERT_ACTIVATION] = is_routed ? kept_bytes : 0.0});
}

/* Kept of one number of an FFN's width: the activation's inputs and its product, a GEMM's input. */
double ffn_number_bytes(const struct block *b) {
    return BYTES_BF16 * (double)(b->ctx->geometry->ffn_matrices - 1) + b->ctx->gemm_input_bytes;
}

/* A dense or shared FFN of `width`, TP-sharded. */
void ffn(struct block *b, double width, enum module module) {
    const struct geometry *const g = b->ctx->geometry;
    const double hidden = (double)g->hidden, local = width / (double)b->shape->tp;
    const double inputs = (double)(g->ffn_matrices - 1);
    const double kept = ffn_number_bytes(b) * local * b->tokens;
    const struct module_start start = module_begin(b, module);
    kernel_gemm(b->ctx, b->tokens, inputs * local, hidden, false, &b->work);
    ffn_activation(b, b->tokens, local, false);
    kernel_gemm(b->ctx, b->tokens, hidden, local, false, &b->work);
    module_end(b, module, start, (double[OFFLOADS]){[PART_FFN] = kept});
    b->kept[PART_FFN] += kept;
    b->params.dense += (double)g->ffn_matrices * hidden * local;
    block_tp_collectives(b, block_tp_group(b), BYTES_BF16 * hidden * b->tokens,
                         block_is_full(b) || block_runs_again(b, module));
}

void dense_block(struct block *b) {
    norm_and_residual(b, b->ctx->gemm_input_bytes);
    ffn(b, (double)b->ctx->geometry->dense_ffn, MODULE_MLP);
}
