// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Data-parallel collectives and the optimizer step of one stage: FP32 gradients reduce-scattered,
 * bf16 weights all-gathered (ZeRO-1), in buckets that may hide behind the last micro-batch's
 * backward and the first one's forward; all but one bucket can.  Each
 * stage counts as if it ended last: the slack that a pipeline's drain gives the later ones is not
 * taken, since it hangs on the other stages' loads.
 */
#ifndef MOSAIC_STEP_DATA_PARALLEL_H
#define MOSAIC_STEP_DATA_PARALLEL_H

#include "step/step.h"

struct data_parallel {
    double reduce_s, gather_s;                 /* wire time */
    double reduce_exposed_s, gather_exposed_s; /* after the stage's own windows */
    double optimizer_s;
};

/* lookups may be NULL. */
void data_parallel_of(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, const struct stage_cost *stage,
                      struct lookup_count *lookups, struct data_parallel *out);

#endif
