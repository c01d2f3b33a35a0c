// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Vocabulary projection and loss over a ring of P ranks (Ring-DTP, arXiv 2609.14306): each rank
 * keeps its own N tokens and V/P columns of the head; in P meetings every block of tokens meets
 * every shard, the strip of logits N x V/P is folded into (max, sum, target logit) of each token
 * and forgotten.  Backward replays the meetings, and the gradient of what moves travels with it.
 * One descriptor prices the schedule and drives its executor (exec/ring_loss.h). weights move iff N
 * > V/P          a hop forward: N H b + state, or H (V/P) b; backward adds dX, dW FLOPs: 2 N H V
 * forward, 6 N H V backward, of which 2 are the strips' second making A shard is as even as can be;
 * sizes and times are those of the widest.  strip_rows cuts a strip further, into as many tokens at
 * a time.
 */
#ifndef MOSAIC_STEP_VOCAB_RING_H
#define MOSAIC_STEP_VOCAB_RING_H

#include <stdbool.h>

/* A token's max, sum and target logit; with its target id, what travels beside its activations.
 * Backward the upstream gradient takes the place of the target logit. */
enum { VOCAB_SCALAR_BYTES = 4, VOCAB_STATE_SCALARS = 3, VOCAB_TOKEN_SCALARS = 4 };

enum vocab_move { VOCAB_MOVE_AUTO, VOCAB_MOVE_ACTIVATIONS, VOCAB_MOVE_WEIGHTS };

struct vocab_head {
    double tokens; /* of a rank; the most, where ranks differ */
    double hidden, vocab;
    double scalar_bytes;   /* of an activation, a weight, a logit */
    double gradient_bytes; /* of an element of dX, dW */
    double strip_rows;     /* tokens of a strip; 0: all */
};

struct vocab_ring {
    struct vocab_head head;
    int ranks;            /* P, and the meetings of a pass */
    enum vocab_move move; /* never auto */
    double columns;       /* of the widest shard */
    double strip_rows;
    double pieces;      /* strips of a meeting */
    double strip_bytes; /* one strip of logits */
    /* P - 1 hops a pass, then one that brings home what was gathered on the way (0: nothing). */
    int hops;
    double hop_forward_bytes, hop_backward_bytes;
    double return_forward_bytes, return_backward_bytes;
    double weight_bytes, gradient_bytes; /* the head's, kept by a rank */
    double forward_flop, backward_flop;  /* of a rank */
    double extra_flop;                   /* of these, above a dense loss */
};

/* ranks >= 1; tokens may be 0. */
void vocab_ring_of(const struct vocab_head *head, int ranks, enum vocab_move move,
                   struct vocab_ring *out);
/* Smallest divisor of `world` whose strips, `strips` of them alive, fit in a budget; 0: none. */
int vocab_ring_smallest(const struct vocab_head *head, int world, double strips,
                        double budget_bytes);

/* Columns of the rank at a place of the ring; shards follow each other. */
struct vocab_shard {
    long first, columns;
};
struct vocab_shard vocab_ring_shard(const struct vocab_ring *ring, int place);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Copies that an implementation holds at its peak, as calibrated. */
struct vocab_copies {
    double workspace_bytes;
    double dense_strips;   /* of N x V, or of a chunk's logits, in a loss without a ring */
    double ring_strips;    /* of a strip */
    double moving_hidden;  /* of N x H while activations move */
    double still_hidden;   /* of N x H while they do not */
    double moving_weights; /* of H x V/P while weights move */
};

struct vocab_memory {
    double weight_bytes, gradient_bytes; /* persistent */
    double input_bytes;                  /* N x H */
    double workspace_bytes;
    double logits_bytes, moving_bytes; /* the increment: strips, and copies of N x H or H x V/P */
    double peak_bytes;                 /* all but gradient_bytes, which the source does not count */
};
void vocab_ring_memory(const struct vocab_ring *ring, const struct vocab_copies *copies,
                       struct vocab_memory *out);
/* The whole N x V at once; head->strip_rows is not looked at. */
void vocab_dense_memory(const struct vocab_head *head, const struct vocab_copies *copies,
                        struct vocab_memory *out);
/* A fused or chunked loss on one GPU: logits of head->strip_rows tokens at a time. */
void vocab_chunked_memory(const struct vocab_head *head, const struct vocab_copies *copies,
                          struct vocab_memory *out);

/* Every block that the executor of exec/ring_loss.h and its caller hold at most, in backward. */
struct vocab_blocks {
    double resident_bytes; /* weight, activations, targets */
    double results_bytes;  /* loss, state, upstream gradient, dX, dW */
    double moving_bytes;   /* what is here and what arrives */
    double strip_bytes;
    double total_bytes;
};
void vocab_ring_blocks(const struct vocab_ring *ring, struct vocab_blocks *out);

/* ---- time ------------------------------------------------------------------------------------ */

struct vocab_rates {
    double gemm_flop_per_s, hbm_bytes_per_s;
    double link_bytes_per_s, hop_latency_s; /* one direction */
    double launch_s;
    double fold_passes; /* reads and writes of a strip beside its GEMMs */
};

struct vocab_pass_time {
    double gemm_s, fold_s; /* of all meetings */
    double hop_s;          /* of one hop */
    bool is_hidden;        /* behind a meeting's GEMMs */
    double exposed_s;      /* of all hops and the last, which nothing can hide */
    double launches, launch_s;
    double total_s;
};
/* A gradient travels one meeting behind what it belongs to, so that its hop may hide as well. */
void vocab_ring_pass_time(const struct vocab_ring *ring, const struct vocab_rates *rates,
                          bool is_backward, struct vocab_pass_time *out);

#endif
