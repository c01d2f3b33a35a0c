// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The meshes of one geometry in the order of their bounds, best first, bounded as late as can be.
 *
 * All meshes of a shape (tp, cp, ep, etp, micro-batch, recomputation) share one layer table, and so
 * do the ways to run the job that differ in nothing a table reads.  Of such a shape no mesh is
 * faster than its layers, spread evenly and without bubble:
 *   step >= batch TP CP / (micro-batch GPUs) (max(sum of GPU times, of launches) + head),
 * since m / PP = batch TP CP / (micro-batch GPUs) at every PP.  A shape none of whose meshes can
 * hold the model is closed; the others wait under that bound, and their meshes are bounded one by
 * one when it comes up.  So the order is that of bounding every mesh and sorting.
 */
#ifndef MOSAIC_PLAN_MESH_QUEUE_H
#define MOSAIC_PLAN_MESH_QUEUE_H

#include "plan/mesh_catalog.h"
#include "plan/problem.h"
#include "step/step.h"

/* What opening and emptying the queue took; added to. */
struct queue_counts {
    struct mesh_census census;
    long meshes;           /* legal ones */
    long closed_by_memory; /* no split of them can hold the model */
    long closed_late;      /* of those, bounded before that was known */
    long shapes;           /* of all groups of ways */
    long tables;           /* layer tables filled, few more than once */
    long bounded;          /* meshes with a bound of their own */
};

struct queued_mesh {
    struct mesh mesh;
    double bound_s;
    const struct step_context *ctx; /* both until the next call */
    const struct layer_table *table;
};

struct mesh_queue; /* of one worker */
MOSAIC_MUST_USE struct mesh_queue *mesh_queue_new(void);
void mesh_queue_free(struct mesh_queue *queue);

/* The meshes of every way of the problem; counts are added to until the last call. */
MOSAIC_MUST_USE enum mosaic_status mesh_queue_open(struct mesh_queue *queue,
                                                   const struct problem *problem,
                                                   const struct geometry *geometry,
                                                   struct queue_counts *counts,
                                                   struct status_error *err);
/* The next one; false in `found` where none is left with a bound up to cutoff_s. */
MOSAIC_MUST_USE enum mosaic_status mesh_queue_next(struct mesh_queue *queue, double cutoff_s,
                                                   struct queued_mesh *out, bool *found,
                                                   struct status_error *err);
/* The least bound of memory met so far: that of all meshes where none can hold the model. */
double mesh_queue_least_memory(const struct mesh_queue *queue);

/* What stands in the queue after its first mesh, kept (free() it) so that the same queue can go on
 * from there: about 1 KiB.  NULL where it is much more, or memory is short. */
struct queue_start;
struct queue_start *mesh_queue_keep(const struct mesh_queue *queue);
/* Instead of opening the queue, of this worker or of another, and asking for its first mesh; counts
 * are what those would have made of them. */
MOSAIC_MUST_USE enum mosaic_status
mesh_queue_resume(struct mesh_queue *queue, const struct problem *problem,
                  const struct geometry *geometry, const struct queue_start *start,
                  struct queue_counts *counts, struct queued_mesh *first, struct status_error *err);

#endif
