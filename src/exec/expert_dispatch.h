// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A MoE layer forward and backward over ranks, each with its own tokens and its own experts: plain
 * expert parallelism, LLEP, and PipelinedLLEP (arXiv 2609.14306), which are one schedule with a
 * plan at home or balanced, in one chunk or several.
 *
 * Forward, chunk by chunk: the next chunk's rows land while this one's are computed, in place, and
 * sent back; a token sums its top-k rows in slot order.  Nothing of a chunk is kept: backward
 * dispatches it again, recomputes the experts' interior, and turns rows into their gradients, in
 * place; every chunk adds to the one block of weight gradients.  Borrowed weights stay for both
 * passes.  Outputs and gradients of inputs and of the router's weights are those of the undivided
 * layer to the bit; sums of weight gradients run in another order.
 */
#ifndef MOSAIC_EXEC_EXPERT_DISPATCH_H
#define MOSAIC_EXEC_EXPERT_DISPATCH_H

#include "exec/expert_routes.h"

/* What the run held and did on a rank. */
struct dispatch_trace {
    long chunks, chunk_tokens; /* K, c_eff of the rank with most tokens */
    long most_landed;          /* rows of one chunk */
    int foreign;               /* experts borrowed */
    long exchanges;            /* all-to-alls of chunks */
    size_t landed_bytes;       /* peak of hidden-wide rows here for the experts */
    size_t staging_bytes;      /* peak of rows packed or returned */
    size_t interior_bytes;     /* peak of the experts' interior */
};

/* The caller's blocks, overwritten; the gradients only with a dy. */
struct moe_result {
    float *y;                /* [tokens x hidden] */
    float *dx;               /* [tokens x hidden] */
    float *gate_gradients;   /* [tokens x top_k] */
    float *expert_gradients; /* like the batch's weights */
    struct dispatch_trace trace;
};

/* Every rank of the group calls it with the same shape and rules; all of them or none have a dy. */
MOSAIC_MUST_USE enum mosaic_status expert_dispatch_run(const struct moe_job *job, struct rank *rank,
                                                       struct moe_result *result,
                                                       struct status_error *err);

#endif
