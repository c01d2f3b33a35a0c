// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Reference executor of the vocabulary ring (step/vocab_ring.h): threads as ranks, float32.  Ranks
 * [k P, (k + 1) P) are one ring; several rings stand side by side and hold copies of the head,
 * whose weight gradients are summed in rank order.  Each rank has tokens of its own, any number up
 * to the descriptor's; what travels is padded to that with ignored tokens.  A pass holds one strip
 * and two blocks of what moves, never N x V: vocab_ring_blocks counts them. All ranks call with the
 * same descriptor, of 4-byte scalars and gradients.
 */
#ifndef MOSAIC_EXEC_RING_LOSS_H
#define MOSAIC_EXEC_RING_LOSS_H

#include "exec/ranks.h"
#include "step/vocab_ring.h"

#include <stdint.h>

/* What a rank brings: borrowed, and the same in both passes. */
struct ring_part {
    size_t tokens;
    const float *x;         /* [tokens x hidden] */
    const int32_t *targets; /* [tokens]; negative: ignored, without loss and gradient */
    const float *weight;    /* [columns of its shard x hidden] */
};

/* All zero is none. */
struct ring_loss {
    float *loss;       /* -log p of each token */
    float *state;      /* max, sum and target logit, [3 x tokens] */
    size_t sent_bytes; /* around the ring */
};
MOSAIC_MUST_USE enum mosaic_status
ring_loss_forward(const struct vocab_ring *ring, struct rank *rank, const struct ring_part *part,
                  struct ring_loss *out, struct status_error *err);
void ring_loss_free(struct ring_loss *loss, struct rank *rank);

/* The caller's blocks, overwritten. */
struct ring_gradients {
    float *x;          /* [tokens x hidden] */
    float *weight;     /* [columns of its shard x hidden] */
    size_t sent_bytes; /* around the ring */
};
/* upstream[tokens]: derivative of whatever is minimised with respect to each token's loss. */
MOSAIC_MUST_USE enum mosaic_status
ring_loss_backward(const struct vocab_ring *ring, struct rank *rank, const struct ring_part *part,
                   const struct ring_loss *loss, const float *upstream, struct ring_gradients *out,
                   struct status_error *err);

#endif
