// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Reference executor of the streamed optimizer step (step/state_stream.h): AdamW with decoupled
 * decay (arXiv 1711.05101) on FP32 state that lies on the host, over buckets that pass through
 * slots on the device by copies beside the update.
 *   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
 *   w = w - r d w - r (m / c1) / (sqrt(v / c2) + e),  c = 1 - b^step,  bf16 weight = round(w)
 * The update is elementwise, so buckets and slots change no bit.
 */
#ifndef MOSAIC_EXEC_ADAMW_STREAM_H
#define MOSAIC_EXEC_ADAMW_STREAM_H

#include "exec/ledger.h"
#include "step/state_stream.h"

#include <stdint.h>

struct adamw {
    float rate, beta1, beta2, epsilon, decay;
    long step; /* from 1 */
    /* What gradients are multiplied by: clipping by the global norm, which must be known before
     * the first bucket; 1 for none. */
    float gradient_scale;
};

struct adamw_state {
    size_t params;
    float *master, *mean, *square; /* on the host */
    const float *gradient;         /* on the host */
    uint16_t *weight;              /* bf16, on the device */
};

/* Nearest bf16, ties to even; a NaN stays one. */
uint16_t adamw_bf16(float value);

/* The step with all state in place. */
void adamw_resident(const struct adamw *adamw, const struct adamw_state *state);

struct adamw_stream;

/* starts as state_stream_form gave them with the descriptor; borrowed.  The staging, s slots of the
 * largest bucket, is taken from the ledger until adamw_stream_free. */
MOSAIC_MUST_USE enum mosaic_status adamw_stream_create(const struct state_stream *stream,
                                                       const size_t *starts, struct ledger *staging,
                                                       struct adamw_stream **out,
                                                       struct status_error *err);
/* NULL is accepted. */
void adamw_stream_free(struct adamw_stream *stream);

/* The step through the slots; all is written back when it returns. */
MOSAIC_MUST_USE enum mosaic_status adamw_stream_step(struct adamw_stream *stream,
                                                     const struct adamw *adamw,
                                                     const struct adamw_state *state,
                                                     struct status_error *err);

#endif
