// SPDX-License-Identifier: GPL-3.0-or-later
/* Sizes, memory and time of the ring; formulas and source in the header. */
#include "step/vocab_ring.h"

#include <assert.h>
#include <math.h>

/* A strip is made by one GEMM; backward makes it again and multiplies it twice. */
enum { FORWARD_GEMMS = 1, BACKWARD_GEMMS = 3 };

static double strip_rows(const struct vocab_head *head) {
    const double rows = fmax(floor(head->strip_rows), 1.0);
    return head->strip_rows > 0.0 ? fmin(rows, head->tokens) : head->tokens;
}

static enum vocab_move choose(const struct vocab_head *head, int ranks, enum vocab_move move) {
    if (move != VOCAB_MOVE_AUTO)
        return move;
    return head->tokens * (double)ranks > head->vocab ? VOCAB_MOVE_WEIGHTS : VOCAB_MOVE_ACTIVATIONS;
}

static void set_hops(struct vocab_ring *ring) {
    const struct vocab_head *const head = &ring->head;
    ring->hops = ring->ranks - 1;
    if (ring->move == VOCAB_MOVE_WEIGHTS) {
        ring->hop_forward_bytes = ring->weight_bytes;
        ring->hop_backward_bytes = ring->weight_bytes + ring->gradient_bytes;
        ring->return_backward_bytes = ring->gradient_bytes;
    } else {
        const double scalars_bytes = head->tokens * VOCAB_SCALAR_BYTES;
        const double elements = head->tokens * head->hidden;
        ring->hop_forward_bytes =
            elements * head->scalar_bytes + VOCAB_TOKEN_SCALARS * scalars_bytes;
        ring->hop_backward_bytes = ring->hop_forward_bytes + elements * head->gradient_bytes;
        ring->return_forward_bytes = VOCAB_STATE_SCALARS * scalars_bytes;
        ring->return_backward_bytes = elements * head->gradient_bytes;
    }
    if (ring->ranks == 1) /* nobody to send to */
        ring->hop_forward_bytes = ring->hop_backward_bytes = ring->return_forward_bytes =
            ring->return_backward_bytes = 0.0;
}

void vocab_ring_of(const struct vocab_head *head, int ranks, enum vocab_move move,
                   struct vocab_ring *out) {
    assert(ranks >= 1 && head->tokens >= 0.0 && head->hidden >= 1.0 && head->vocab >= 1.0);
    const double columns = ceil(head->vocab / (double)ranks), rows = strip_rows(head);
    const double projection_flop = 2.0 * head->tokens * head->hidden * head->vocab;
    *out = (struct vocab_ring){.head = *head,
                               .ranks = ranks,
                               .move = choose(head, ranks, move),
                               .columns = columns,
                               .strip_rows = rows,
                               .pieces = rows > 0.0 ? ceil(head->tokens / rows) : 0.0,
                               .strip_bytes = rows * columns * head->scalar_bytes,
                               .weight_bytes = head->hidden * columns * head->scalar_bytes,
                               .gradient_bytes = head->hidden * columns * head->gradient_bytes,
                               .forward_flop = FORWARD_GEMMS * projection_flop,
                               .backward_flop = BACKWARD_GEMMS * projection_flop,
                               .extra_flop = projection_flop};
    set_hops(out);
}

int vocab_ring_smallest(const struct vocab_head *head, int world, double strips,
                        double budget_bytes) {
    const double row_bytes = strips * strip_rows(head) * head->scalar_bytes;
    for (int ranks = 1; ranks <= world; ++ranks)
        if (world % ranks == 0 && row_bytes * ceil(head->vocab / (double)ranks) <= budget_bytes)
            return ranks;
    return 0;
}

struct vocab_shard vocab_ring_shard(const struct vocab_ring *ring, int place) {
    assert(place >= 0 && place < ring->ranks);
    const long vocab = (long)ring->head.vocab, even = vocab / ring->ranks,
               wider = vocab % ring->ranks; /* as many first shards have one column more */
    return (struct vocab_shard){.first = place * even + (place < wider ? place : wider),
                                .columns = even + (place < wider)};
}

static void sum_memory(struct vocab_memory *m) {
    m->peak_bytes =
        m->weight_bytes + m->input_bytes + m->workspace_bytes + m->logits_bytes + m->moving_bytes;
}

static double input_bytes(const struct vocab_head *head) {
    return head->tokens * head->hidden * head->scalar_bytes;
}

void vocab_ring_memory(const struct vocab_ring *ring, const struct vocab_copies *copies,
                       struct vocab_memory *out) {
    const double inputs = input_bytes(&ring->head);
    double moving = copies->still_hidden * inputs;
    if (ring->ranks > 1)
        moving = ring->move == VOCAB_MOVE_WEIGHTS
                     ? moving + copies->moving_weights * ring->weight_bytes
                     : copies->moving_hidden * inputs;
    *out = (struct vocab_memory){.weight_bytes = ring->weight_bytes,
                                 .gradient_bytes = ring->gradient_bytes,
                                 .input_bytes = inputs,
                                 .workspace_bytes = copies->workspace_bytes,
                                 .logits_bytes = copies->ring_strips * ring->strip_bytes,
                                 .moving_bytes = moving};
    sum_memory(out);
}

/* A loss that a rank computes alone, `rows` tokens at a time. */
static void alone(const struct vocab_head *head, const struct vocab_copies *copies, double rows,
                  struct vocab_memory *out) {
    const double weights = head->hidden * head->vocab;
    *out = (struct vocab_memory){.weight_bytes = weights * head->scalar_bytes,
                                 .gradient_bytes = weights * head->gradient_bytes,
                                 .input_bytes = input_bytes(head),
                                 .workspace_bytes = copies->workspace_bytes,
                                 .logits_bytes = copies->dense_strips * rows * head->vocab *
                                                 head->scalar_bytes};
}

void vocab_dense_memory(const struct vocab_head *head, const struct vocab_copies *copies,
                        struct vocab_memory *out) {
    alone(head, copies, head->tokens, out);
    sum_memory(out);
}

void vocab_chunked_memory(const struct vocab_head *head, const struct vocab_copies *copies,
                          struct vocab_memory *out) {
    alone(head, copies, strip_rows(head), out);
    out->moving_bytes = copies->still_hidden * out->input_bytes; /* dX gathers chunk by chunk */
    sum_memory(out);
}

void vocab_ring_blocks(const struct vocab_ring *ring, struct vocab_blocks *out) {
    const struct vocab_head *const head = &ring->head;
    const double scalars_bytes = head->tokens * VOCAB_SCALAR_BYTES;
    *out = (struct vocab_blocks){
        .resident_bytes = ring->weight_bytes + input_bytes(head) + scalars_bytes,
        .results_bytes = ring->gradient_bytes + head->tokens * head->hidden * head->gradient_bytes +
                         (VOCAB_STATE_SCALARS + 2) * scalars_bytes, /* loss, upstream gradient */
        .moving_bytes = 2.0 * ring->hop_backward_bytes,
        .strip_bytes = ring->strip_bytes};
    out->total_bytes =
        out->resident_bytes + out->results_bytes + out->moving_bytes + out->strip_bytes;
}

static double hop_time(const struct vocab_rates *rates, double bytes) {
    return bytes > 0.0 ? bytes / rates->link_bytes_per_s + rates->hop_latency_s : 0.0;
}

void vocab_ring_pass_time(const struct vocab_ring *ring, const struct vocab_rates *rates,
                          bool is_backward, struct vocab_pass_time *out) {
    const double gemms = is_backward ? BACKWARD_GEMMS : FORWARD_GEMMS;
    const double meetings = ring->ranks, hops = ring->hops, tokens = ring->head.tokens;
    const double back = is_backward ? ring->return_backward_bytes : ring->return_forward_bytes;
    const double meeting_s =
        gemms * 2.0 * tokens * ring->head.hidden * ring->columns / rates->gemm_flop_per_s;
    *out = (struct vocab_pass_time){
        .gemm_s = meetings * meeting_s,
        .fold_s = meetings * rates->fold_passes * tokens * ring->columns * ring->head.scalar_bytes /
                  rates->hbm_bytes_per_s,
        .hop_s = hop_time(rates, is_backward ? ring->hop_backward_bytes : ring->hop_forward_bytes),
        /* Each strip: its GEMMs and its fold. */
        .launches = meetings * ring->pieces * (gemms + 1.0) + hops + (back > 0.0)};
    out->is_hidden = out->hop_s <= meeting_s;
    out->exposed_s = hops * fmax(out->hop_s - meeting_s, 0.0) + hop_time(rates, back);
    out->launch_s = out->launches * rates->launch_s;
    out->total_s = out->gemm_s + out->fold_s + out->exposed_s + out->launch_s;
}
