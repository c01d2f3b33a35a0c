// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What moves is one packet:
 *   activations   X [N x H], target, m, z [N], y or g [N], and dX [N x H] in backward
 *   weights       W [columns x H], and dW in backward
 */
#include "exec/ring_loss.h"

#include "exec/ring_strip.h"

#include <math.h>
#include <string.h>

struct pass {
    const struct vocab_ring *ring;
    struct rank *rank;
    struct ring_meeting own; /* this rank's tokens and shard */
    bool is_backward;
    size_t tokens, columns, hop_bytes; /* as padded */
    float *now, *next;                 /* packets; NULL when nothing moves */
    float *strip;
    size_t sent_bytes;
};

static bool moves_weights(const struct pass *p) {
    return p->ring->move == VOCAB_MOVE_WEIGHTS;
}

static int place(const struct pass *p) {
    return p->rank->index % p->ring->ranks;
}

static bool is_whole(double value) {
    return value == floor(value) && value < 0x1p31;
}

static enum mosaic_status check(const struct vocab_ring *ring, const struct rank *rank,
                                const struct ring_part *part, struct status_error *err) {
    if (rank->count % ring->ranks != 0) {
        status_set(err, MOSAIC_BAD_INPUT, "rings of %d ranks do not divide %d ranks", ring->ranks,
                   rank->count);
        status_hint(err, "the vocabulary group is a divisor of the ranks");
        return MOSAIC_BAD_INPUT;
    }
    if (ring->head.scalar_bytes != sizeof(float) || ring->head.gradient_bytes != sizeof(float)) {
        status_set(err, MOSAIC_BAD_INPUT, "the ring runs in 4-byte floats, not %g and %g",
                   ring->head.scalar_bytes, ring->head.gradient_bytes);
        status_hint(err, "describe it with scalar_bytes and gradient_bytes of 4");
        return MOSAIC_BAD_INPUT;
    }
    if (!is_whole(ring->head.tokens) || !is_whole(ring->head.hidden) || !is_whole(ring->head.vocab))
        return status_set(err, MOSAIC_BAD_INPUT,
                          "a ring of %g tokens, %g wide, %g words cannot run", ring->head.tokens,
                          ring->head.hidden, ring->head.vocab);
    if ((double)part->tokens > ring->head.tokens) {
        status_set(err, MOSAIC_BAD_INPUT, "rank %d has %zu tokens, more than the ring's %g",
                   rank->index, part->tokens, ring->head.tokens);
        status_hint(err, "describe the ring for the rank with most tokens");
        return MOSAIC_BAD_INPUT;
    }
    for (size_t i = 0; i < part->tokens; ++i)
        if ((double)part->targets[i] >= ring->head.vocab)
            return status_set(err, MOSAIC_BAD_INPUT,
                              "target %ld of token %zu of rank %d is past the vocabulary's %g",
                              (long)part->targets[i], i, rank->index, ring->head.vocab);
    return MOSAIC_OK;
}

/* ---- packets ------------------------------------------------------------------------------ */

struct sections {
    float *x, *targets, *top, *sum, *last, *dx; /* last: y or g */
};

static struct sections sections_of(const struct pass *p, float *packet) {
    float *const targets = packet + p->tokens * p->own.hidden;
    return (struct sections){.x = packet,
                             .targets = targets,
                             .top = targets + p->tokens,
                             .sum = targets + 2 * p->tokens,
                             .last = targets + 3 * p->tokens,
                             .dx = targets + VOCAB_TOKEN_SCALARS * p->tokens};
}

static void copy(float *to, const void *from, size_t count) {
    if (count > 0) /* an empty rank may have no block */
        memcpy(to, from, count * sizeof *to);
}

/* Padding is tokens without a target. */
static void pack(struct pass *p) {
    const struct ring_meeting *const own = &p->own;
    if (moves_weights(p)) {
        copy(p->now, own->w, own->columns * own->hidden);
        return;
    }
    const struct sections to = sections_of(p, p->now);
    copy(to.x, own->x, own->rows * own->hidden);
    copy(to.targets, own->targets, own->rows);
    const int32_t ignored = -1;
    for (size_t i = own->rows; i < p->tokens; ++i)
        memcpy(to.targets + i, &ignored, sizeof ignored);
    copy(to.top, own->top, own->rows);
    copy(to.sum, own->sum, own->rows);
    copy(to.last, p->is_backward ? own->upstream : own->picked, own->rows);
}

static void unpack(const struct pass *p) {
    const struct ring_meeting *const own = &p->own;
    if (moves_weights(p)) {
        if (p->is_backward)
            copy(own->dw, p->now + p->columns * own->hidden, own->columns * own->hidden);
        return;
    }
    const struct sections from = sections_of(p, p->now);
    if (p->is_backward) {
        copy(own->dx, from.dx, own->rows * own->hidden);
        return;
    }
    copy(own->top, from.top, own->rows);
    copy(own->sum, from.sum, own->rows);
    copy(own->picked, from.last, own->rows);
}

/* Who meets here after so many hops. */
static struct ring_meeting meeting_of(const struct pass *p, int hops) {
    struct ring_meeting m = p->own;
    if (!p->now)
        return m;
    if (moves_weights(p)) {
        const int ranks = p->ring->ranks;
        const struct vocab_shard shard =
            vocab_ring_shard(p->ring, (place(p) - hops + ranks) % ranks);
        m.first = (size_t)shard.first;
        m.columns = (size_t)shard.columns;
        m.w = p->now;
        m.dw = p->now + p->columns * m.hidden;
        return m;
    }
    const struct sections s = sections_of(p, p->now);
    m.rows = p->tokens;
    m.x = s.x;
    m.targets = (const int32_t *)(const void *)s.targets;
    m.top = s.top;
    m.sum = s.sum;
    m.picked = m.dx = NULL;
    m.upstream = NULL;
    if (p->is_backward) {
        m.upstream = s.last;
        m.dx = s.dx;
    } else {
        m.picked = s.last;
    }
    return m;
}

/* ---- a pass ------------------------------------------------------------------------------- */

static enum mosaic_status hop(struct pass *p, size_t offset, size_t bytes,
                              struct status_error *err) {
    TRY(rank_shift(p->rank, p->ring->ranks, p->now + offset, p->next + offset, bytes, err));
    p->sent_bytes += bytes;
    float *const arrived = p->next;
    p->next = p->now;
    p->now = arrived;
    return MOSAIC_OK;
}

/* After P - 1 hops everything is one rank short of home, and only what was gathered goes on. */
static enum mosaic_status bring_home(struct pass *p, struct status_error *err) {
    const double bytes =
        p->is_backward ? p->ring->return_backward_bytes : p->ring->return_forward_bytes;
    size_t offset = p->columns * p->own.hidden;
    if (!moves_weights(p)) {
        const struct sections s = sections_of(p, p->now);
        offset = (size_t)((p->is_backward ? s.dx : s.top) - p->now);
    }
    if (bytes > 0.0)
        TRY(hop(p, offset, (size_t)bytes, err));
    unpack(p);
    return MOSAIC_OK;
}

static enum mosaic_status meet_all(struct pass *p, struct status_error *err) {
    if (p->now)
        pack(p);
    for (int hops = 0; hops < p->ring->ranks; ++hops) {
        if (hops > 0)
            TRY(hop(p, 0, p->hop_bytes, err));
        const struct ring_meeting meeting = meeting_of(p, hops);
        (p->is_backward ? ring_strip_replay : ring_strip_fold)(&meeting, p->strip,
                                                               (size_t)p->ring->strip_rows);
    }
    return p->now ? bring_home(p, err) : MOSAIC_OK;
}

/* Every shard in turn: its copies bring their gradient, the other ranks zeros, so that all may take
 * part; in slices that a strip has room for. */
static enum mosaic_status sum_copies(struct pass *p, struct status_error *err) {
    const size_t slice = (size_t)p->ring->strip_rows * p->columns;
    if (p->rank->count == p->ring->ranks || slice == 0)
        return MOSAIC_OK;
    for (int shard = 0; shard < p->ring->ranks; ++shard) {
        const size_t total = (size_t)vocab_ring_shard(p->ring, shard).columns * p->own.hidden;
        for (size_t from = 0; from < total; from += slice) {
            const size_t count = total - from < slice ? total - from : slice;
            float *values = p->strip;
            if (shard == place(p))
                values = p->own.dw + from;
            else
                memset(values, 0, count * sizeof *values);
            TRY(rank_sum_floats(p->rank, values, count, err));
        }
    }
    return MOSAIC_OK;
}

static enum mosaic_status run(struct pass *p, struct status_error *err) {
    const struct vocab_ring *const ring = p->ring;
    struct ledger *const device = &p->rank->device;
    enum mosaic_status status = MOSAIC_OK;
    p->strip = ledger_take(device, (size_t)ring->strip_bytes);
    if (ring->ranks > 1) {
        p->now = ledger_take(device, p->hop_bytes);
        p->next = ledger_take(device, p->hop_bytes);
    }
    if (!p->strip || (ring->ranks > 1 && (!p->now || !p->next))) {
        status = status_no_memory(err);
        goto out;
    }
    TRY_GOTO(meet_all(p, err));
    if (p->is_backward)
        TRY_GOTO(sum_copies(p, err));
out:
    ledger_give(device, p->next);
    ledger_give(device, p->now);
    ledger_give(device, p->strip);
    return status;
}

static struct pass pass_of(const struct vocab_ring *ring, struct rank *rank,
                           const struct ring_part *part, const struct ring_loss *loss,
                           bool is_backward) {
    const struct vocab_shard shard = vocab_ring_shard(ring, rank->index % ring->ranks);
    return (struct pass){
        .ring = ring,
        .rank = rank,
        .own = {.rows = part->tokens,
                .hidden = (size_t)ring->head.hidden,
                .first = (size_t)shard.first,
                .columns = (size_t)shard.columns,
                .x = part->x,
                .w = part->weight,
                .targets = part->targets,
                .top = loss->state,
                .sum = loss->state + part->tokens,
                .picked = loss->state + 2 * part->tokens},
        .is_backward = is_backward,
        .tokens = (size_t)ring->head.tokens,
        .columns = (size_t)ring->columns,
        .hop_bytes = (size_t)(is_backward ? ring->hop_backward_bytes : ring->hop_forward_bytes)};
}

static enum mosaic_status finish_loss(const struct pass *p, float *loss, struct status_error *err) {
    const struct ring_meeting *const own = &p->own;
    for (size_t i = 0; i < own->rows; ++i) {
        if (own->targets[i] < 0)
            continue;
        loss[i] = (float)((double)own->top[i] + log((double)own->sum[i]) - (double)own->picked[i]);
        if (!isfinite(loss[i])) {
            status_set(err, MOSAIC_NUMERIC, "the loss of token %zu of rank %d is not finite", i,
                       p->rank->index);
            status_hint(err, "its logits leave the range of a float");
            return MOSAIC_NUMERIC;
        }
    }
    return MOSAIC_OK;
}

enum mosaic_status ring_loss_forward(const struct vocab_ring *ring, struct rank *rank,
                                     const struct ring_part *part, struct ring_loss *out,
                                     struct status_error *err) {
    TRY(check(ring, rank, part, err));
    struct ring_loss loss = {
        .loss = ledger_take(&rank->device, part->tokens * sizeof *loss.loss),
        .state =
            ledger_take(&rank->device, VOCAB_STATE_SCALARS * part->tokens * sizeof *loss.state)};
    enum mosaic_status status = MOSAIC_OK;
    if (!loss.loss || !loss.state) {
        status = status_no_memory(err);
        goto out;
    }
    for (size_t i = 0; i < part->tokens; ++i)
        loss.state[i] = -INFINITY;
    struct pass pass = pass_of(ring, rank, part, &loss, false);
    TRY_GOTO(run(&pass, err));
    TRY_GOTO(finish_loss(&pass, loss.loss, err));
    loss.sent_bytes = pass.sent_bytes;
    *out = loss;
    return MOSAIC_OK;
out:
    ring_loss_free(&loss, rank);
    return status;
}

void ring_loss_free(struct ring_loss *loss, struct rank *rank) {
    ledger_give(&rank->device, loss->loss);
    ledger_give(&rank->device, loss->state);
    *loss = (struct ring_loss){0};
}

static enum mosaic_status check_finite(const float *values, size_t count, const struct rank *rank,
                                       struct status_error *err) {
    for (size_t i = 0; i < count; ++i)
        if (!isfinite(values[i]))
            return status_set(err, MOSAIC_NUMERIC, "a gradient of rank %d is not finite",
                              rank->index);
    return MOSAIC_OK;
}

enum mosaic_status ring_loss_backward(const struct vocab_ring *ring, struct rank *rank,
                                      const struct ring_part *part, const struct ring_loss *loss,
                                      const float *upstream, struct ring_gradients *out,
                                      struct status_error *err) {
    TRY(check(ring, rank, part, err));
    struct pass pass = pass_of(ring, rank, part, loss, true);
    const struct ring_meeting *const own = &pass.own;
    const size_t dx_count = own->rows * own->hidden, dw_count = own->columns * own->hidden;
    if (dx_count > 0)
        memset(out->x, 0, dx_count * sizeof *out->x);
    if (dw_count > 0)
        memset(out->weight, 0, dw_count * sizeof *out->weight);
    pass.own.upstream = upstream;
    pass.own.dx = out->x;
    pass.own.dw = out->weight;
    TRY(run(&pass, err));
    TRY(check_finite(out->x, dx_count, rank, err));
    TRY(check_finite(out->weight, dw_count, rank, err));
    out->sent_bytes = pass.sent_bytes;
    return MOSAIC_OK;
}
