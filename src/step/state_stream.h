// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * AdamW on state that lives on the host (OffloadStreamAdamW, arXiv 2609.14306): buckets of whole
 * tensors pass through s slots on the device, each bucket copied up, updated, copied back.  One
 * descriptor serves pricing and execution (exec/adamw_stream.h).
 *   staging  = s x largest bucket x 16 B (FP32 master, two moments and gradient)
 *   period   = max(T_up, T_update, T_down, T_host, (T_up + T_update + T_down) / s)
 *   T        = (G - 1) period + T_up + T_update + T_down
 * Up travel 12 B a parameter and the gradient where it lies on the host, down 12 B.  The last term
 * of the period is a slot's own round: with a quick update two slots reach the link's rate and more
 * gain nothing.  T_host is the host memory's, which both directions share.  Clipping by the global
 * norm needs all gradients first, so nothing of this hides behind backward.
 */
#ifndef MOSAIC_STEP_STATE_STREAM_H
#define MOSAIC_STEP_STATE_STREAM_H

#include "base/status.h"

#include <stddef.h>

/* A parameter's bytes: FP32 master and two moments; with its FP32 gradient; bf16 weight and
 * gradient. */
enum { STREAM_STATE_BYTES = 12, STREAM_SLOT_BYTES = 16, STREAM_RESIDENT_BYTES = 4 };

struct state_stream_request {
    double bucket_params; /* a bucket closes when it has reached this */
    int slots;            /* >= 1 */
    /* A parameter's gradient on the host, which travels up: 4, or 0 with it on the device.  Its way
     * down, beside backward, is not counted here. */
    double gradient_bytes;
};

struct state_stream {
    double params; /* of this rank */
    long buckets;
    double largest_params; /* of a bucket */
    int slots;
    double staging_bytes;
    double device_bytes, host_bytes; /* what stays: bf16 weights and gradients; state, gradient */
    double up_bytes, down_bytes;     /* a step */
};

/* Buckets of tensors in their order, none split.  starts (may be NULL) takes the first parameter of
 * each bucket and the sum at the end: room for count + 1.  Tensors may be empty, or none. */
MOSAIC_MUST_USE enum mosaic_status state_stream_form(const struct state_stream_request *request,
                                                     const size_t *tensor_params, size_t count,
                                                     size_t *starts, struct state_stream *out,
                                                     struct status_error *err);
/* The same where only the sum and the largest tensor are known: never fewer buckets nor a smaller
 * largest one than any order of tensors gives (ceil(params / bucket); a bucket one short of closing
 * takes the largest tensor in). */
MOSAIC_MUST_USE enum mosaic_status state_stream_of(const struct state_stream_request *request,
                                                   double params, double largest_tensor_params,
                                                   struct state_stream *out,
                                                   struct status_error *err);

/* What copies and the update reach; each > 0, infinite for no limit. */
struct state_stream_rates {
    double up_bytes_per_s, down_bytes_per_s;
    double host_bytes_per_s; /* this GPU's share of host memory, both directions together */
    double update_params_per_s;
};

struct state_stream_time {
    double up_s, update_s, down_s; /* of a mean bucket */
    double period_s, total_s;
};

/* The other way: the host updates its own state, at a rate that counts its copies. */
double state_stream_host_s(const struct state_stream *stream, double host_params_per_s);

MOSAIC_MUST_USE enum mosaic_status state_stream_time(const struct state_stream *stream,
                                                     const struct state_stream_rates *rates,
                                                     struct state_stream_time *out,
                                                     struct status_error *err);

#endif
