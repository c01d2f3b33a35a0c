// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Three parties: a stream of copies up, the caller, who updates, and a stream of copies down.  A
 * slot is filled again once the copies down of the bucket before it are done, which the stream up
 * waits for, not the caller.
 */
#include "exec/adamw_stream.h"

#include "exec/copy_stream.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* A bucket's floats on the device, one block, and the last copy into it. */
struct slot {
    float *master, *mean, *square, *gradient;
    copy_ticket filled;
};

struct adamw_stream {
    struct state_stream stream;
    const size_t *starts;
    struct ledger *staging;
    struct copy_stream *up, *down;
    struct slot *slots;
};

/* ---- the update ---- */

uint16_t adamw_bf16(float value) {
    union {
        float value;
        uint32_t bits;
    } const x = {value};
    if (isnan(value))
        return (uint16_t)(x.bits >> 16 | 0x40U); /* quiet, so that cutting leaves no infinity */
    return (uint16_t)((x.bits + 0x7FFFU + (x.bits >> 16 & 1U)) >> 16);
}

/* 1 - beta^step. */
static float correction(float beta, long step) {
    return (float)(1.0 - pow((double)beta, (double)step));
}

static void update(const struct adamw *a, const struct adamw_state *state) {
    const float correct1 = correction(a->beta1, a->step);
    const float correct2 = correction(a->beta2, a->step);
    for (size_t i = 0; i < state->params; ++i) {
        const float g = state->gradient[i] * a->gradient_scale;
        const float mean = a->beta1 * state->mean[i] + (1.0F - a->beta1) * g;
        const float square = a->beta2 * state->square[i] + (1.0F - a->beta2) * g * g;
        const float kept = state->master[i] - a->rate * a->decay * state->master[i];
        const float moved = mean / correct1 / (sqrtf(square / correct2) + a->epsilon);
        const float master = kept - a->rate * moved;
        state->mean[i] = mean;
        state->square[i] = square;
        state->master[i] = master;
        state->weight[i] = adamw_bf16(master);
    }
}

void adamw_resident(const struct adamw *adamw, const struct adamw_state *state) {
    update(adamw, state);
}

/* ---- the stream ---- */

static size_t bucket_params(const struct adamw_stream *s, long bucket) {
    return s->starts[bucket + 1] - s->starts[bucket];
}

static struct slot *slot_of(const struct adamw_stream *s, long bucket) {
    return &s->slots[bucket % s->stream.slots];
}

static void fill(const struct adamw_stream *s, long bucket, const struct adamw_state *state) {
    struct slot *const slot = slot_of(s, bucket);
    const size_t at = s->starts[bucket], bytes = bucket_params(s, bucket) * sizeof(float);
    (void)copy_stream_copy(s->up, slot->master, state->master + at, bytes);
    (void)copy_stream_copy(s->up, slot->mean, state->mean + at, bytes);
    (void)copy_stream_copy(s->up, slot->square, state->square + at, bytes);
    slot->filled = copy_stream_copy(s->up, slot->gradient, state->gradient + at, bytes);
}

static copy_ticket write_back(const struct adamw_stream *s, long bucket,
                              const struct adamw_state *state) {
    const struct slot *const slot = slot_of(s, bucket);
    const size_t at = s->starts[bucket], bytes = bucket_params(s, bucket) * sizeof(float);
    (void)copy_stream_copy(s->down, state->master + at, slot->master, bytes);
    (void)copy_stream_copy(s->down, state->mean + at, slot->mean, bytes);
    return copy_stream_copy(s->down, state->square + at, slot->square, bytes);
}

static enum mosaic_status check(const struct adamw_stream *s, const struct adamw *adamw,
                                const struct adamw_state *state, struct status_error *err) {
    if (state->params != s->starts[s->stream.buckets])
        return status_set(err, MOSAIC_BAD_INPUT, "state of %zu parameters in buckets for %zu",
                          state->params, s->starts[s->stream.buckets]);
    if (adamw->step < 1)
        return status_set(err, MOSAIC_BAD_INPUT, "step %ld; the first is 1", adamw->step);
    return MOSAIC_OK;
}

enum mosaic_status adamw_stream_step(struct adamw_stream *s, const struct adamw *adamw,
                                     const struct adamw_state *state, struct status_error *err) {
    TRY(check(s, adamw, state, err));
    const long buckets = s->stream.buckets, slots = s->stream.slots;
    copy_ticket written = 0;
    for (long i = 0; i < slots && i < buckets; ++i)
        fill(s, i, state);
    for (long i = 0; i < buckets; ++i) {
        const struct slot *const slot = slot_of(s, i);
        copy_stream_wait(s->up, slot->filled);
        update(adamw, &(struct adamw_state){.params = bucket_params(s, i),
                                            .master = slot->master,
                                            .mean = slot->mean,
                                            .square = slot->square,
                                            .gradient = slot->gradient,
                                            .weight = state->weight + s->starts[i]});
        written = write_back(s, i, state);
        if (i + slots < buckets) {
            copy_stream_after(s->up, s->down, written);
            fill(s, i + slots, state);
        }
    }
    copy_stream_wait(s->down, written);
    return MOSAIC_OK;
}

static enum mosaic_status make_slots(struct adamw_stream *s, struct status_error *err) {
    const size_t params = (size_t)s->stream.largest_params;
    s->slots = calloc((size_t)s->stream.slots, sizeof *s->slots);
    if (!s->slots)
        return status_no_memory(err);
    for (int i = 0; i < s->stream.slots; ++i) {
        float *const block = ledger_take(s->staging, STREAM_SLOT_BYTES * params);
        if (!block)
            return status_no_memory(err);
        s->slots[i] = (struct slot){.master = block,
                                    .mean = block + params,
                                    .square = block + 2 * params,
                                    .gradient = block + 3 * params};
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_buckets(const struct state_stream *stream, const size_t *starts,
                                        struct status_error *err) {
    for (long i = 0; i < stream->buckets; ++i)
        if (starts[i + 1] < starts[i] ||
            (double)(starts[i + 1] - starts[i]) > stream->largest_params)
            return status_set(err, MOSAIC_BAD_INPUT,
                              "bucket %ld is not of 0 to %.0f parameters, as described", i,
                              stream->largest_params);
    return MOSAIC_OK;
}

enum mosaic_status adamw_stream_create(const struct state_stream *stream, const size_t *starts,
                                       struct ledger *staging, struct adamw_stream **out,
                                       struct status_error *err) {
    TRY(check_buckets(stream, starts, err));
    struct adamw_stream *const s = calloc(1, sizeof *s);
    if (!s)
        return status_no_memory(err);
    enum mosaic_status status;
    s->stream = *stream;
    s->starts = starts;
    s->staging = staging;
    TRY_GOTO(make_slots(s, err));
    TRY_GOTO(copy_stream_create(&s->up, err));
    TRY_GOTO(copy_stream_create(&s->down, err));
    *out = s;
    return MOSAIC_OK;
out:
    adamw_stream_free(s);
    return status;
}

void adamw_stream_free(struct adamw_stream *s) {
    if (!s)
        return;
    copy_stream_free(s->up);
    copy_stream_free(s->down);
    for (int i = 0; s->slots && i < s->stream.slots; ++i)
        ledger_give(s->staging, s->slots[i].master);
    free(s->slots);
    free(s);
}
