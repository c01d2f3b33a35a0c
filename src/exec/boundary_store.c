// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A session walks the boundaries twice.  Forward: a boundary is copied down while its layer runs
 * and leaves the device after both.  Backward: layer l waits for its boundary, and that of layer
 * l - depth sets out.
 */
#include "exec/boundary_store.h"

#include "exec/copy_stream.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct boundary_store {
    struct boundary_offload offload; /* of the longest micro-batch */
    struct boundary_ledgers ledgers;
    struct copy_stream *down, *up;
};

/* One boundary: where it lies, and the last copy of it. */
struct place {
    float *device, *host;
    copy_ticket ticket;
};

struct session {
    struct boundary_store *store;
    const struct boundary_chain *chain;
    const struct boundary_batch *batch;
    struct boundary_offload offload; /* of this micro-batch */
    size_t bytes;
    struct place *places;
    copy_ticket last_down, last_up;
    float *gradient;     /* [rows][width] of what leaves the layer at work */
    float *row, *change; /* [width] s and u of one row */
};

size_t boundary_chain_size(const struct boundary_chain *chain) {
    const size_t width = (size_t)chain->width;
    return (size_t)chain->layers * (width * width + width);
}

/* ---- one layer ---- */

static const float *layer_weights(const struct session *s, int layer) {
    return s->chain->weights +
           boundary_chain_size(s->chain) / (size_t)s->chain->layers * (size_t)layer;
}

static long first_place(const struct session *s, int layer) {
    return layer == 0 ? 0 : boundary_count(layer, s->offload.streams);
}

static long place_end(const struct session *s, int layer) {
    return boundary_count((long)layer + 1, s->offload.streams);
}

/* s and u of one row, from the layer's boundaries. */
static void layer_row(const struct session *s, int layer, size_t row) {
    const size_t width = (size_t)s->chain->width, at = row * width;
    const struct place *const place = &s->places[first_place(s, layer)];
    const float *const hidden = place[0].device;
    const float *const residual =
        place_end(s, layer) - first_place(s, layer) > 1 ? place[1].device : NULL;
    assert(hidden); /* made or restored */
    const float *const weights = layer_weights(s, layer), *const bias = weights + width * width;
    for (size_t i = 0; i < width; ++i)
        s->row[i] = residual ? hidden[at + i] + residual[at + i] : hidden[at + i];
    memcpy(s->change, bias, width * sizeof *bias);
    for (size_t i = 0; i < width; ++i)
        for (size_t j = 0; j < width; ++j)
            s->change[j] += s->row[i] * weights[i * width + j];
    for (size_t j = 0; j < width; ++j)
        s->change[j] = tanhf(s->change[j]);
}

static void layer_forward(const struct session *s, int layer) {
    const size_t width = (size_t)s->chain->width;
    const bool is_last = layer + 1 == s->chain->layers;
    const struct place *const next = is_last ? NULL : &s->places[first_place(s, layer + 1)];
    const bool has_two = s->offload.streams > 1;
    for (size_t row = 0; row < s->batch->rows; ++row) {
        layer_row(s, layer, row);
        for (size_t j = 0, at = row * width; j < width; ++j, ++at) {
            const float sum = s->row[j] + s->change[j];
            if (is_last) {
                s->gradient[at] = sum - s->batch->target[at];
                if (s->batch->output)
                    s->batch->output[at] = sum;
            } else if (has_two) {
                next[0].device[at] = s->change[j];
                next[1].device[at] = s->row[j];
            } else {
                next[0].device[at] = sum;
            }
        }
    }
}

/* s->gradient goes from what leaves the layer to its s. */
static void layer_backward(const struct session *s, int layer, float *gradients) {
    const size_t width = (size_t)s->chain->width;
    const float *const weights = layer_weights(s, layer);
    float *const into = gradients + (weights - s->chain->weights);
    for (size_t row = 0; row < s->batch->rows; ++row) {
        layer_row(s, layer, row);
        float *const outer = s->gradient + row * width, *const inner = s->change;
        for (size_t j = 0; j < width; ++j) {
            inner[j] = outer[j] * (1.0F - s->change[j] * s->change[j]);
            into[width * width + j] += inner[j];
        }
        for (size_t i = 0; i < width; ++i) {
            float sum = 0.0F;
            for (size_t j = 0; j < width; ++j) {
                into[i * width + j] += s->row[i] * inner[j];
                sum += inner[j] * weights[i * width + j];
            }
            outer[i] += sum;
        }
    }
}

/* ---- where boundaries lie ---- */

static bool is_selected(const struct session *s, long i) {
    return i < s->offload.selected;
}

static enum mosaic_status make_layer(struct session *s, int layer, struct status_error *err) {
    for (long i = first_place(s, layer); i < place_end(s, layer); ++i) {
        s->places[i].device = ledger_take(s->store->ledgers.device, s->bytes);
        if (!s->places[i].device)
            return status_no_memory(err);
    }
    return MOSAIC_OK;
}

static void drop_device(struct session *s, long i) {
    ledger_give(s->store->ledgers.device, s->places[i].device);
    s->places[i].device = NULL;
}

static enum mosaic_status send_layer(struct session *s, int layer, struct status_error *err) {
    for (long i = first_place(s, layer); i < place_end(s, layer) && is_selected(s, i); ++i) {
        struct place *const place = &s->places[i];
        place->host = ledger_take(s->store->ledgers.host, s->bytes);
        if (!place->host)
            return status_no_memory(err);
        s->last_down = place->ticket =
            copy_stream_copy(s->store->down, place->host, place->device, s->bytes);
    }
    return MOSAIC_OK;
}

/* Once the copies down are there, the device's are not needed. */
static void settle_layer(struct session *s, int layer) {
    for (long i = first_place(s, layer); i < place_end(s, layer) && is_selected(s, i); ++i) {
        copy_stream_wait(s->store->down, s->places[i].ticket);
        drop_device(s, i);
    }
}

static enum mosaic_status restore_layer(struct session *s, int layer, struct status_error *err) {
    if (layer < 0)
        return MOSAIC_OK;
    for (long i = first_place(s, layer); i < place_end(s, layer) && is_selected(s, i); ++i) {
        struct place *const place = &s->places[i];
        place->device = ledger_take(s->store->ledgers.device, s->bytes);
        if (!place->device)
            return status_no_memory(err);
        s->last_up = place->ticket =
            copy_stream_copy(s->store->up, place->device, place->host, s->bytes);
    }
    return MOSAIC_OK;
}

static void await_layer(struct session *s, int layer) {
    for (long i = first_place(s, layer); i < place_end(s, layer) && is_selected(s, i); ++i)
        copy_stream_wait(s->store->up, s->places[i].ticket);
}

/* ---- the session ---- */

static enum mosaic_status forward(struct session *s, struct status_error *err) {
    float *const first = ledger_take(s->store->ledgers.device, s->bytes);
    if (!first)
        return status_no_memory(err);
    memcpy(first, s->batch->input, s->bytes);
    s->places[0].device = first;
    TRY(send_layer(s, 0, err));
    for (int layer = 0; layer < s->chain->layers; ++layer) {
        const bool is_last = layer + 1 == s->chain->layers;
        if (!is_last)
            TRY(make_layer(s, layer + 1, err));
        layer_forward(s, layer);
        if (!is_last)
            TRY(send_layer(s, layer + 1, err));
        settle_layer(s, layer);
    }
    return MOSAIC_OK;
}

static enum mosaic_status backward(struct session *s, float *gradients, struct status_error *err) {
    const int last = s->chain->layers - 1, depth = s->offload.depth;
    for (int ahead = 0; ahead < depth; ++ahead)
        TRY(restore_layer(s, last - ahead, err));
    for (int layer = last; layer >= 0; --layer) {
        if (depth > 0)
            await_layer(s, layer);
        TRY(restore_layer(s, layer - depth, err));
        if (depth == 0)
            await_layer(s, layer);
        layer_backward(s, layer, gradients);
        for (long i = first_place(s, layer); i < place_end(s, layer); ++i)
            drop_device(s, i);
    }
    return MOSAIC_OK;
}

static enum mosaic_status open_session(struct session *s, struct status_error *err) {
    const size_t width = (size_t)s->chain->width;
    struct ledger *const work = s->store->ledgers.work;
    s->places = calloc((size_t)s->offload.boundaries, sizeof *s->places);
    s->gradient = ledger_take(work, s->bytes);
    s->row = ledger_take(work, width * sizeof *s->row);
    s->change = ledger_take(work, width * sizeof *s->change);
    return s->places && s->gradient && s->row && s->change ? MOSAIC_OK : status_no_memory(err);
}

/* After a failure copies may still run: they are waited for before their blocks go. */
static void close_session(struct session *s) {
    copy_stream_wait(s->store->down, s->last_down);
    copy_stream_wait(s->store->up, s->last_up);
    for (long i = 0; s->places && i < s->offload.boundaries; ++i) {
        ledger_give(s->store->ledgers.device, s->places[i].device);
        ledger_give(s->store->ledgers.host, s->places[i].host);
    }
    free(s->places);
    ledger_give(s->store->ledgers.work, s->gradient);
    ledger_give(s->store->ledgers.work, s->row);
    ledger_give(s->store->ledgers.work, s->change);
}

static enum mosaic_status check(const struct boundary_store *store,
                                const struct boundary_chain *chain,
                                const struct boundary_batch *batch, struct status_error *err) {
    const struct boundary_offload *const most = &store->offload;
    if (chain->layers < 1 || chain->width < 1 ||
        boundary_count(chain->layers, most->streams) != most->boundaries)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "%d layers of width %d do not have the %ld boundaries described",
                          chain->layers, chain->width, most->boundaries);
    const double bytes = (double)batch->rows * (double)chain->width * (double)sizeof(float);
    if (bytes > most->bytes) {
        (void)status_set(err, MOSAIC_BAD_INPUT,
                         "a micro-batch of %zu rows has boundaries of %.0f bytes, above %.0f",
                         batch->rows, bytes, most->bytes);
        status_hint(err, "describe the longest micro-batch of all ranks");
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

enum mosaic_status boundary_store_run(struct boundary_store *store,
                                      const struct boundary_chain *chain,
                                      const struct boundary_batch *batch, float *gradients,
                                      struct status_error *err) {
    TRY(check(store, chain, batch, err));
    if (batch->rows == 0)
        return MOSAIC_OK;
    struct session s = {.store = store,
                        .chain = chain,
                        .batch = batch,
                        .bytes = batch->rows * (size_t)chain->width * sizeof(float)};
    const struct boundary_offload *const most = &store->offload;
    TRY(boundary_offload_of(most->boundaries, (double)s.bytes, most->host_bytes, most->depth,
                            most->streams, &s.offload, err));
    enum mosaic_status status = open_session(&s, err);
    if (status == MOSAIC_OK)
        status = forward(&s, err);
    if (status == MOSAIC_OK)
        status = backward(&s, gradients, err);
    close_session(&s);
    return status;
}

/* ---- the store ---- */

enum mosaic_status boundary_store_create(const struct boundary_offload *offload,
                                         const struct boundary_ledgers *ledgers,
                                         struct boundary_store **out, struct status_error *err) {
    struct boundary_store *const store = calloc(1, sizeof *store);
    if (!store)
        return status_no_memory(err);
    enum mosaic_status status;
    store->offload = *offload;
    store->ledgers = *ledgers;
    TRY_GOTO(copy_stream_create(&store->down, err));
    TRY_GOTO(copy_stream_create(&store->up, err));
    *out = store;
    return MOSAIC_OK;
out:
    boundary_store_free(store);
    return status;
}

void boundary_store_free(struct boundary_store *store) {
    if (!store)
        return;
    copy_stream_free(store->down);
    copy_stream_free(store->up);
    free(store);
}

enum mosaic_status boundary_store_agree(struct rank *rank, const struct boundary_request *mine,
                                        struct boundary_offload *out, struct status_error *err) {
    if (mine->bytes > LONG_MAX || mine->budget_bytes > LONG_MAX)
        return status_set(err, MOSAIC_BAD_INPUT, "boundaries of %zu bytes in a budget of %zu",
                          mine->bytes, mine->budget_bytes);
    long bytes = (long)mine->bytes, budget = -(long)mine->budget_bytes;
    TRY(rank_max(rank, &bytes, err));
    TRY(rank_max(rank, &budget, err));
    return boundary_offload_of(mine->boundaries, (double)bytes, -(double)budget, mine->depth,
                               mine->streams, out, err);
}
