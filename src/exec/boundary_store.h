// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Reference executor of selective checkpoint offload (step/boundary_offload.h): a chain of layers
 * that keeps only what enters each, sends the selected boundaries to the host by copies beside the
 * compute, and brings them back ahead of a backward pass that makes each layer anew.
 *   s = hidden (+ residual),  u = tanh(s W + b),  out: hidden + residual = s + u
 * With one stream a layer hands s + u on, with two u and s; the loss is |out - target|^2 / 2.
 * Every run does the same arithmetic in the same order, so that budget, depth and streams change no
 * bit.
 */
#ifndef MOSAIC_EXEC_BOUNDARY_STORE_H
#define MOSAIC_EXEC_BOUNDARY_STORE_H

#include "exec/ranks.h"
#include "step/boundary_offload.h"

struct boundary_chain {
    int layers, width;
    const float *weights; /* [layers] of W [width from][width to], then b [width] */
};

/* Floats of a chain's weights. */
size_t boundary_chain_size(const struct boundary_chain *chain);

/* A micro-batch, [rows][width] each. */
struct boundary_batch {
    size_t rows;
    const float *input, *target;
    float *output; /* or NULL */
};

/* Where blocks are counted: boundaries on the device and the host, the rest of a layer's work. */
struct boundary_ledgers {
    struct ledger *device, *host, *work;
};

struct boundary_request {
    long boundaries;
    size_t bytes, budget_bytes; /* of the longest micro-batch's boundary; of the host */
    int depth, streams;
};

/* The descriptor that all ranks of a run share: for the longest micro-batch and the smallest budget
 * of any rank.  A rank with less room than it has boundaries selected would raise while the others
 * wait in a collective; here all select alike, and what is asked for is known before the first
 * session. */
MOSAIC_MUST_USE enum mosaic_status boundary_store_agree(struct rank *rank,
                                                        const struct boundary_request *mine,
                                                        struct boundary_offload *out,
                                                        struct status_error *err);

struct boundary_store;

MOSAIC_MUST_USE enum mosaic_status boundary_store_create(const struct boundary_offload *offload,
                                                         const struct boundary_ledgers *ledgers,
                                                         struct boundary_store **out,
                                                         struct status_error *err);
/* NULL is accepted. */
void boundary_store_free(struct boundary_store *store);

/* One session, that is forward and backward of one micro-batch: adds to the gradients of the
 * weights.  A micro-batch may be shorter than the longest, or empty; it selects within the
 * descriptor's host_bytes.  No block outlives the session, also when it fails. */
MOSAIC_MUST_USE enum mosaic_status boundary_store_run(struct boundary_store *store,
                                                      const struct boundary_chain *chain,
                                                      const struct boundary_batch *batch,
                                                      float *gradients, struct status_error *err);

#endif
