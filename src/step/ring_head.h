// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The vocabulary projection of the last stage as a ring over data-parallel ranks (Ring-DTP, arXiv
 * 2609.14306): each keeps 1/P of the head, tokens or weights go round, and no rank ever holds the
 * logits of all its tokens.
 */
#ifndef MOSAIC_STEP_RING_HEAD_H
#define MOSAIC_STEP_RING_HEAD_H

#include "step/context.h"
#include "step/vocab_ring.h"

struct ring_head {
    bool is_on;
    struct vocab_ring ring;
    double forward_s, backward_s; /* what it adds to the head's passes: hops that show, launches */
    double logits_share;          /* of the bytes that the whole logits take */
    double moving_bytes;          /* copies of what goes round */
};

/* What the ring of an execution runs at. */
struct vocab_rates ring_head_rates(const struct step_context *ctx, const struct mesh *shape);
/* columns: of the head on this GPU's TP rank. */
void ring_head_of(const struct step_context *ctx, const struct mesh *shape, double tokens,
                  double columns, struct ring_head *out);

#endif
