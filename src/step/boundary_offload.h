// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Selective checkpoint offload (arXiv 2609.14306): the activations kept at layer boundaries go to
 * pinned host memory in forward order until the budget is used, and come back `depth` layers ahead
 * of the backward pass.  One descriptor serves pricing and execution (exec/boundary_store.h):
 *   selected = min(n_b, floor(B / bytes))
 *   device   = (n_b - selected) + min(selected, w x) boundaries, w = max(2, 1 + depth) layers
 *   host     = selected boundaries, each pinned in a block of a power of two
 *   link     = selected boundaries down in forward and up in backward, a micro-batch
 * A layer has x boundaries: the hidden stream, or that and the residual one (x = 2), except the
 * first, which has one.  w layers are on the device at a time: one copied out while the next is
 * made, one used while `depth` come back.
 */
#ifndef MOSAIC_STEP_BOUNDARY_OFFLOAD_H
#define MOSAIC_STEP_BOUNDARY_OFFLOAD_H

#include "base/status.h"

struct boundary_offload {
    long boundaries, selected;
    double bytes, pinned_bytes; /* of one boundary; its host block */
    int depth, streams;
    /* Never exceeded.  It is what measured runs hold as well, within a third of a boundary:
     * kept and moving boundaries add up there though the schedule could do with less. */
    double device_bytes;
    /* The largest of the phases: the end of forward (unselected ones) and the w layers at work.
     * The reference executor holds just that. */
    double device_phase_bytes;
    double host_bytes, host_pinned_bytes;
    double link_bytes; /* a micro-batch, each way */
};

/* Boundaries of so many layers (>= 1) with x streams: L, or 2 L - 1. */
long boundary_count(long layers, int streams);

/* boundary_bytes is that of the longest micro-batch, N_max H b, and rounds up to a whole byte;
 * budget_bytes counts payload (the pinned blocks may take twice that) and may be infinite; no
 * boundaries are fine. */
MOSAIC_MUST_USE enum mosaic_status boundary_offload_of(long boundaries, double boundary_bytes,
                                                       double budget_bytes, int depth, int streams,
                                                       struct boundary_offload *out,
                                                       struct status_error *err);

struct boundary_exposed {
    double forward_s, backward_s;
};

/* Copy time of a micro-batch that its layers' times (> 0; backward with recomputation) do not
 * hide, at the rate that copies reach (> 0), whoever else uses link and host memory.  A layer's
 * copies down run beside its own forward, those up beside the backward of the layer after it.  A
 * selection that reaches the last layer has nothing to hide its first restore behind.  Exact at
 * depth 1; a deeper window can only hide more, which is not credited. */
struct boundary_exposed boundary_offload_exposed(const struct boundary_offload *offload,
                                                 double layer_forward_s, double layer_backward_s,
                                                 double link_bytes_per_s);

#endif
