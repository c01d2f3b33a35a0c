// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Every legal mesh of one geometry in the declared layout space, in a fixed order: shapes
 * (tp, cp, ep, etp, micro-batch, recompute) outside, (pp, vpp, schedule) inside, so that one layer
 * table serves all meshes of a shape.  A free axis takes every legal value; rank counts whose
 * collective has not been measured are left out of it unless extrapolation is allowed.  One walk
 * goes through one way to run the job, the context's.
 */
#ifndef MOSAIC_PLAN_MESH_WALK_H
#define MOSAIC_PLAN_MESH_WALK_H

#include "plan/space.h"
#include "step/context.h"

/* Why a point of the space is no layout; counted, not listed. */
struct mesh_census {
    long legal;
    long indivisible; /* some degree does not divide what it must, or what the schedule asks */
    long unmeasured;  /* a free axis at a rank count without a measured collective */
    long engine_rule; /* outside the engine's rules */
};

/* Called once a shape (vpp, pp, dp, schedule unset), before its meshes. */
typedef void mesh_shape_call(void *context, const struct mesh *shape);
typedef void mesh_call(void *context, const struct mesh *mesh);

void mesh_walk(const struct step_context *ctx, const struct layout_space *space,
               mesh_shape_call *on_shape, mesh_call *on_mesh, void *context,
               struct mesh_census *census);

/* The same in steps: what the axes allow is found first; then, once or more often, the walk. */
struct mesh_walker;
MOSAIC_MUST_USE struct mesh_walker *mesh_walker_new(void);
void mesh_walker_free(struct mesh_walker *walker);
/* Borrows both. */
void mesh_walker_open(struct mesh_walker *walker, const struct step_context *ctx,
                      const struct layout_space *space);
/* Bytes of all that the walk hangs on beside the job and the engine (way_classes.h): the same for
 * the same meshes. */
typedef void mesh_tell_call(void *context, const void *bytes, size_t size);
void mesh_walker_tell(const struct mesh_walker *walker, mesh_tell_call *tell, void *context);
/* A shape may be told to have the meshes of the shape before, but for the recomputation. */
typedef void mesh_again_call(void *context);
struct mesh_calls {
    mesh_shape_call *on_shape;
    mesh_call *on_mesh;
    mesh_again_call *on_again; /* NULL: meshes one by one */
};
void mesh_walker_run(struct mesh_walker *walker, const struct mesh_calls *calls, void *context,
                     struct mesh_census *census);

/* The values of a free axis: divisors of `limit`, ascending; returns how many. */
int axis_divisors(int limit, int *values, int max_values);
/* Whether a free axis may never take it. */
bool axis_forbids(const struct axis *axis, int value);

#endif
