// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Pipelines whose stages recompute differently.  A mesh states the most that any of its stages
 * does, so the meshes of one shape part all such pipelines among them: under `full` some stage
 * recomputes whole layers and each of the others does that or less.  Only schedules whose bubble
 * does not hang on the stages' times take part: plain and interleaved 1F1B.
 */
#ifndef MOSAIC_STEP_STAGE_POLICIES_H
#define MOSAIC_STEP_STAGE_POLICIES_H

#include "step/layer_cost.h"

/* Lets stages of ctx differ among the listed recomputations where its engine can. */
void context_mix_policies(struct step_context *ctx, const bool recompute[static RECOMPUTE_MODES]);

/* Bits of what stages may recompute, whatever the pipeline: more than the shape's own bit only
 * where they may differ. */
unsigned shape_policies(const struct step_context *ctx, const struct mesh *shape);
/* The same of a mesh: its degrees, schedule and stated stages are looked at, and the engine's rules
 * of each. */
unsigned mesh_policies(const struct step_context *ctx, const struct mesh *mesh);

/* Whether the schedule of a mesh takes stages that differ. */
bool mesh_takes_policies(const struct mesh *mesh);

/* What stages are priced with, by recomputation; a table is NULL where no stage needs it. */
struct policy_views {
    const struct layer_table *tables[RECOMPUTE_MODES];
    struct mesh meshes[RECOMPUTE_MODES];
};
/* Tables of the policies in the set: the mesh's own borrowed, the others filled in rooms[]. */
void policy_views_of(const struct step_context *ctx, const struct layer_table *table,
                     const struct mesh *mesh, unsigned policies, struct layer_table *rooms,
                     struct policy_views *out);
/* Bits of what the stages of a split recompute. */
unsigned split_policies(const struct split *split, const struct mesh *mesh);

#endif
