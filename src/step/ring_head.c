// SPDX-License-Identifier: GPL-3.0-or-later
/* A vocabulary ring on the links and rates of one context. */
#include "step/ring_head.h"

static double pass_s(const struct vocab_ring *ring, const struct vocab_rates *rates,
                     bool is_backward) {
    struct vocab_pass_time time;
    vocab_ring_pass_time(ring, rates, is_backward, &time);
    return time.exposed_s + time.launch_s;
}

struct vocab_rates ring_head_rates(const struct step_context *ctx, const struct mesh *shape) {
    const double *const scalar = ctx->calibration->scalar;
    const struct group group = {ctx->workload->execution.vocab_ring, shape->tp};
    const struct group_link link = step_group_link(ctx, group);
    /* The loss's own passes over the logits are counted with the head. */
    return (struct vocab_rates){.gemm_flop_per_s =
                                    ctx->peak16_flop_per_s * scalar[CAL_HEAD_FORWARD_SHARE],
                                .hbm_bytes_per_s = ctx->hbm_bytes_per_s,
                                .link_bytes_per_s = link.bytes_per_s,
                                .hop_latency_s = link.latency_s,
                                .launch_s = scalar[CAL_HOST_GAP],
                                .fold_passes = 0.0};
}

void ring_head_of(const struct step_context *ctx, const struct mesh *shape, double tokens,
                  double columns, struct ring_head *out) {
    const double *const scalar = ctx->calibration->scalar;
    const struct execution *const e = &ctx->workload->execution;
    *out = (struct ring_head){.is_on = e->vocab_ring > 1, .logits_share = 1.0};
    if (!out->is_on)
        return;
    const struct vocab_head head = {.tokens = tokens,
                                    .hidden = (double)ctx->geometry->hidden,
                                    .vocab = columns,
                                    .scalar_bytes = BYTES_BF16,
                                    .gradient_bytes = execution_gradient_bytes(e)};
    vocab_ring_of(&head, e->vocab_ring, (enum vocab_move)e->vocab_move, &out->ring);
    struct vocab_rates rates = ring_head_rates(ctx, shape);
    out->forward_s = pass_s(&out->ring, &rates, false);
    rates.gemm_flop_per_s = ctx->peak16_flop_per_s * scalar[CAL_HEAD_BACKWARD_SHARE];
    out->backward_s = pass_s(&out->ring, &rates, true);
    const struct vocab_copies copies = {.dense_strips = scalar[CAL_RING_DENSE_COPIES],
                                        .ring_strips = scalar[CAL_RING_STRIP_COPIES],
                                        .moving_hidden = scalar[CAL_RING_MOVING_HIDDEN],
                                        .still_hidden = 1.0,
                                        .moving_weights = scalar[CAL_RING_MOVING_WEIGHTS]};
    struct vocab_memory ring, dense;
    vocab_ring_memory(&out->ring, &copies, &ring);
    vocab_dense_memory(&head, &copies, &dense);
    out->logits_share = dense.logits_bytes > 0.0 ? ring.logits_bytes / dense.logits_bytes : 1.0;
    out->moving_bytes = ring.moving_bytes;
}
