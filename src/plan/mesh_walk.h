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

/* The values of a free axis: divisors of `limit`, ascending; returns how many. */
int axis_divisors(int limit, int *values, int max_values);

#endif
