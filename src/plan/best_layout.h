// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * T*(Z): the fastest step of one geometry over all meshes and splits.  Meshes are bounded first and
 * opened in the order of their bounds, until no open one can beat the best.  It does not depend on
 * the law or the budget.
 */
#ifndef MOSAIC_PLAN_BEST_LAYOUT_H
#define MOSAIC_PLAN_BEST_LAYOUT_H

#include "plan/best_split.h"
#include "plan/mesh_queue.h"
#include "plan/mesh_walk.h"
#include "plan/problem.h"

struct layout_counts {
    struct mesh_census census;
    long meshes;           /* legal ones */
    long closed_by_memory; /* no split of them can hold the model */
    long closed_by_bound;
    long closed_by_shape; /* of those that memory did not close: no bound of their own was needed */
    long bounded;         /* had one */
    long shapes, tables;  /* layer tables that all meshes share; filled, some twice */
    long opened;          /* at least one split evaluated */
    long too_large;       /* opened, but no split fits */
    long implausible;     /* MFU above 1 refused */
    struct split_work work;
};
void layout_counts_add(struct layout_counts *sum, const struct layout_counts *more);
/* What a queue of meshes took. */
void layout_counts_take(struct layout_counts *sum, const struct queue_counts *queue);

struct best_layout {
    bool found;
    struct layout layout;
    double step_time_s;
    double least_memory_bytes; /* where none is found: a bound, of the emptiest fullest stage */
};

struct layout_scratch; /* of one worker */
MOSAIC_MUST_USE struct layout_scratch *layout_scratch_new(void);
void layout_scratch_free(struct layout_scratch *scratch);

struct layout_bound {
    double bound_s; /* the least of the meshes, INFINITY when none can hold the model */
    double least_memory_bytes;
    struct layout_counts counts;
    struct queue_start *start; /* free() it; may be NULL */
};
MOSAIC_MUST_USE enum mosaic_status best_layout_bound(struct layout_scratch *scratch,
                                                     const struct problem *problem,
                                                     const struct geometry *geometry,
                                                     struct layout_bound *out,
                                                     struct status_error *err);
/* The best layout itself. */
MOSAIC_MUST_USE enum mosaic_status
best_layout_find(struct layout_scratch *scratch, const struct problem *problem,
                 const struct geometry *geometry, struct best_layout *out,
                 struct layout_counts *counts, struct status_error *err);
/* The same, from where the bound of this geometry left off; start may be NULL. */
MOSAIC_MUST_USE enum mosaic_status
best_layout_resume(struct layout_scratch *scratch, const struct problem *problem,
                   const struct geometry *geometry, const struct queue_start *start,
                   struct best_layout *out, struct layout_counts *counts, struct status_error *err);
/* The full prediction of a layout; stages as in step_predict. */
void best_layout_predict(const struct problem *problem, const struct geometry *geometry,
                         const struct layout *layout, struct prediction *out,
                         struct memory_items *stages);

/* A layout by its mesh: evaluated with its best split, with the even one where none fits. */
MOSAIC_MUST_USE enum mosaic_status
best_layout_evaluate(const struct problem *problem, const struct geometry *g,
                     const struct mesh *mesh, struct layout *layout, struct prediction *out,
                     struct memory_items *stages, struct status_error *err);
/* MOSAIC_BAD_INPUT where it says more than the device can do: an MFU above 1. */
MOSAIC_MUST_USE enum mosaic_status best_layout_check(const struct prediction *p,
                                                     struct status_error *err);

#endif
