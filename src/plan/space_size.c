// SPDX-License-Identifier: GPL-3.0-or-later
/* Counting meshes without looking at them. */
#include "plan/space_size.h"

#include "plan/fleet.h"
#include "plan/mesh_walk.h"
#include "plan/pareto.h"

enum { SAMPLES = 4 };

static void pass_shape(void *context, const struct mesh *shape) {
    (void)context;
    (void)shape;
}

static void pass_mesh(void *context, const struct mesh *mesh) {
    (void)context;
    (void)mesh;
}

/* Legal meshes of the sampled geometries on one number of nodes, as if of all. */
static double meshes_on(const struct problem *at) {
    const struct geometry_space *const space = &at->geometries;
    const size_t samples = space->count < SAMPLES ? space->count : SAMPLES;
    struct mesh_census census = {0};
    for (size_t i = 0; i < samples; ++i) {
        const struct geometry *const g = &space->items[(2 * i + 1) * space->count / (2 * samples)];
        for (int way = 0; way < problem_ways(at); ++way) {
            struct step_context ctx;
            problem_context(at, g, way, &ctx);
            mesh_walk(&ctx, &at->layouts, pass_shape, pass_mesh, NULL, &census);
        }
    }
    return samples > 0 ? (double)census.legal * (double)space->count / (double)samples : 0.0;
}

void space_size_estimate(const struct problem *problem, struct space_size *out) {
    const struct axis *const nodes = &problem->fleet.nodes;
    *out = (struct space_size){.geometries = problem->geometries.count,
                               .searches = (size_t)fleet_size(problem) + pareto_size(problem)};
    for (int i = 0; i < fleet_size(problem); ++i) {
        struct problem at;
        problem_on(problem, nodes->count > 0 ? nodes->values[i] : problem->cluster.nodes, &at);
        out->meshes += meshes_on(&at);
    }
}
