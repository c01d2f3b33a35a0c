// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The legal meshes of a geometry kept as a list, and used again for every geometry and every way to
 * run the job that the rules cannot tell from it: widths that the same degrees divide, as many
 * layers, the same features.  Lists are found by all that legality reads, so a list is never that
 * of another problem.
 */
#ifndef MOSAIC_PLAN_MESH_CATALOG_H
#define MOSAIC_PLAN_MESH_CATALOG_H

#include "plan/mesh_walk.h"

/* A mesh of a shape. */
struct catalog_mesh {
    uint16_t pp, vpp, schedule;
    uint16_t stages; /* place among those of its shape */
};

/* What of the pipeline a bound of memory reads; of the schedules, which hold two stages or may
 * recompute differently. */
struct catalog_stages {
    uint16_t pp;
    uint16_t schedule; /* interleaving needs what 1F1B does */
};

/* tp, cp, ep, etp, micro-batch, recomputation with its meshes, pp ascending. */
struct catalog_shape {
    int tp, cp, ep, etp, micro_batch;
    enum recompute recompute;
    uint32_t first, count; /* of its meshes */
    uint32_t first_stages, stages_count;
};

/* Shapes in a row that differ in micro-batch and recomputation alone. */
struct catalog_degrees {
    uint32_t first, count;
};

struct mesh_catalog {
    struct mesh_census census;
    size_t degrees_count, shape_count, mesh_count, stages_count;
    const struct catalog_degrees *degrees;
    const struct catalog_shape *shapes; /* in the order of the walk */
    const struct catalog_mesh *meshes;
    const struct catalog_stages *stages;
};

struct catalog_cache;
MOSAIC_MUST_USE struct catalog_cache *catalog_cache_new(void);
void catalog_cache_free(struct catalog_cache *cache);

/* The meshes that mesh_walk gives, borrowed until catalog_cache_trim. */
MOSAIC_MUST_USE enum mosaic_status catalog_find(struct catalog_cache *cache,
                                                const struct step_context *ctx,
                                                const struct layout_space *space,
                                                const struct mesh_catalog **out,
                                                struct status_error *err);
/* Forgets all lists when there are many. */
void catalog_cache_trim(struct catalog_cache *cache);

/* The mesh as the evaluator takes it. */
void catalog_mesh_fill(const struct catalog_shape *shape, const struct catalog_mesh *mesh,
                       const struct step_context *ctx, struct mesh *out);
/* Its shape, with what the walk leaves unset. */
void catalog_shape_fill(const struct catalog_shape *shape, int way, struct mesh *out);

#endif
