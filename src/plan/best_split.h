// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The best split of the layers over the stages of one mesh.  A stated split is the only one.  Else
 * the even split is tried first; where the engine may launch uneven stages and the bound leaves
 * room, the stage program decides
 *   minimise  A max t_i + B sum t_i + max tail_i
 * by solving it for falling limits of the tail: no column with a larger tail is offered.
 */
#ifndef MOSAIC_PLAN_BEST_SPLIT_H
#define MOSAIC_PLAN_BEST_SPLIT_H

#include "plan/stage_program.h"
#include "step/step.h"

struct split_work {
    long evaluations; /* full predictions */
    long programs;    /* stage programs solved */
};

struct best_split {
    bool found;       /* some split fits and beats the cut-off */
    bool too_large;   /* no split tried fits the memory of device and host */
    bool implausible; /* a split was refused for an MFU above 1 */
    double step_time_s;
    struct split split;
};

/* Scratch of one worker. */
struct split_scratch;
MOSAIC_MUST_USE struct split_scratch *split_scratch_new(void);
void split_scratch_free(struct split_scratch *scratch);

/* Which mesh, and what a split must beat: cutoff_s INFINITY takes any. */
struct split_request {
    const struct step_context *ctx;
    const struct layer_table *table;
    const struct mesh *mesh;
    double cutoff_s;
};

MOSAIC_MUST_USE enum mosaic_status best_split_find(struct split_scratch *scratch,
                                                   const struct split_request *request,
                                                   struct best_split *out, struct split_work *work,
                                                   struct status_error *err);

/* No split of the mesh takes less: step_bound, but where the mesh has one split (a stated one; the
 * published composition knows no other) its own time. */
double best_split_bound(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh);

#endif
