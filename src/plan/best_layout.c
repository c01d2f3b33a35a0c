// SPDX-License-Identifier: GPL-3.0-or-later
/* Bounding and opening the meshes of one geometry. */
#include "plan/best_layout.h"

#include "plan/mesh_queue.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct layout_scratch {
    struct split_scratch *split;
    struct mesh_queue *queue;
};

struct layout_scratch *layout_scratch_new(void) {
    struct layout_scratch *const s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->split = split_scratch_new();
    s->queue = mesh_queue_new();
    if (s->split && s->queue)
        return s;
    layout_scratch_free(s);
    return NULL;
}

void layout_scratch_free(struct layout_scratch *s) {
    if (!s)
        return;
    split_scratch_free(s->split);
    mesh_queue_free(s->queue);
    free(s);
}

void layout_counts_add(struct layout_counts *sum, const struct layout_counts *more) {
    sum->census.legal += more->census.legal;
    sum->census.indivisible += more->census.indivisible;
    sum->census.unmeasured += more->census.unmeasured;
    sum->census.engine_rule += more->census.engine_rule;
    sum->meshes += more->meshes;
    sum->closed_by_memory += more->closed_by_memory;
    sum->closed_by_bound += more->closed_by_bound;
    sum->closed_by_shape += more->closed_by_shape;
    sum->bounded += more->bounded;
    sum->shapes += more->shapes;
    sum->tables += more->tables;
    sum->opened += more->opened;
    sum->too_large += more->too_large;
    sum->implausible += more->implausible;
    sum->work.evaluations += more->work.evaluations;
    sum->work.programs += more->work.programs;
}

void layout_counts_take(struct layout_counts *sum, const struct queue_counts *q) {
    sum->census.legal += q->census.legal;
    sum->census.indivisible += q->census.indivisible;
    sum->census.unmeasured += q->census.unmeasured;
    sum->census.engine_rule += q->census.engine_rule;
    sum->meshes += q->meshes;
    sum->closed_by_memory += q->closed_by_memory;
    sum->closed_by_shape += q->meshes - q->closed_by_memory - (q->bounded - q->closed_late);
    sum->bounded += q->bounded - q->closed_late;
    sum->shapes += q->shapes;
    sum->tables += q->tables;
}

enum mosaic_status best_layout_bound(struct layout_scratch *scratch, const struct problem *problem,
                                     const struct geometry *geometry, struct layout_bound *out,
                                     struct status_error *err) {
    struct queue_counts queue = {0};
    struct queued_mesh first;
    bool found;
    TRY(mesh_queue_open(scratch->queue, problem, geometry, &queue, err));
    TRY(mesh_queue_next(scratch->queue, (double)INFINITY, &first, &found, err));
    *out = (struct layout_bound){.bound_s = found ? first.bound_s : (double)INFINITY,
                                 .least_memory_bytes = mesh_queue_least_memory(scratch->queue),
                                 .start = found ? mesh_queue_keep(scratch->queue) : NULL};
    layout_counts_take(&out->counts, &queue);
    return MOSAIC_OK;
}

static bool is_better(double time_s, const struct mesh *mesh, const struct best_layout *best) {
    if (!best->found || time_s != best->step_time_s)
        return !best->found || time_s < best->step_time_s;
    return mesh_compare(mesh, &best->layout.mesh) < 0;
}

/* Open one mesh; a tie is decided by the order of meshes, so equal times are wanted too. */
static enum mosaic_status open_mesh(struct layout_scratch *scratch, const struct queued_mesh *at,
                                    struct best_layout *out, struct layout_counts *counts,
                                    struct status_error *err) {
    const double cutoff_s =
        out->found ? nextafter(out->step_time_s, (double)INFINITY) : (double)INFINITY;
    const struct split_request request = {at->ctx, at->table, &at->mesh, cutoff_s};
    struct best_split split;
    TRY(best_split_find(scratch->split, &request, &split, &counts->work, err));
    counts->opened++;
    counts->too_large += split.too_large;
    counts->implausible += split.implausible;
    if (split.found && is_better(split.step_time_s, &at->mesh, out)) {
        out->found = true;
        out->step_time_s = split.step_time_s;
        out->layout.mesh = at->mesh;
        out->layout.split =
            (struct split){.stages = split.split.stages, .is_mixed = split.split.is_mixed};
        memcpy(out->layout.split.first, split.split.first,
               ((size_t)split.split.stages + 1) * sizeof split.split.first[0]);
        if (split.split.is_mixed)
            memcpy(out->layout.split.recompute, split.split.recompute,
                   (size_t)split.split.stages * sizeof split.split.recompute[0]);
    }
    return MOSAIC_OK;
}

/* Opens what is left of the queue, in its order. */
static enum mosaic_status open_rest(struct layout_scratch *scratch, struct best_layout *out,
                                    struct layout_counts *counts, struct status_error *err) {
    for (;;) {
        struct queued_mesh next;
        bool found;
        TRY(mesh_queue_next(scratch->queue, out->found ? out->step_time_s : (double)INFINITY, &next,
                            &found, err));
        if (!found)
            return MOSAIC_OK;
        TRY(open_mesh(scratch, &next, out, counts, err));
    }
}

enum mosaic_status best_layout_resume(struct layout_scratch *scratch, const struct problem *problem,
                                      const struct geometry *geometry,
                                      const struct queue_start *start, struct best_layout *out,
                                      struct layout_counts *counts, struct status_error *err) {
    struct queue_counts queue = {0};
    struct queued_mesh first;
    const long opened_before = counts->opened;
    *out = (struct best_layout){0};
    if (start) {
        TRY(mesh_queue_resume(scratch->queue, problem, geometry, start, &queue, &first, err));
        TRY(open_mesh(scratch, &first, out, counts, err));
    } else {
        TRY(mesh_queue_open(scratch->queue, problem, geometry, &queue, err));
    }
    TRY(open_rest(scratch, out, counts, err));
    out->least_memory_bytes = out->found ? 0.0 : mesh_queue_least_memory(scratch->queue);
    counts->closed_by_bound +=
        queue.meshes - queue.closed_by_memory - (counts->opened - opened_before);
    layout_counts_take(counts, &queue);
    return MOSAIC_OK;
}

enum mosaic_status best_layout_find(struct layout_scratch *scratch, const struct problem *problem,
                                    const struct geometry *geometry, struct best_layout *out,
                                    struct layout_counts *counts, struct status_error *err) {
    return best_layout_resume(scratch, problem, geometry, NULL, out, counts, err);
}

void best_layout_predict(const struct problem *problem, const struct geometry *geometry,
                         const struct layout *layout, struct prediction *out,
                         struct memory_items *stages) {
    struct step_context ctx;
    struct layer_table table;
    problem_context(problem, geometry, layout->mesh.way, &ctx);
    layer_table_fill(&ctx, &layout->mesh, &table);
    step_predict(&ctx, &table, &layout->mesh, &layout->split, out, stages);
}

enum mosaic_status best_layout_evaluate(const struct problem *problem, const struct geometry *g,
                                        const struct mesh *mesh, struct layout *layout,
                                        struct prediction *out, struct memory_items *stages,
                                        struct status_error *err) {
    struct step_context ctx;
    struct layer_table table;
    problem_context(problem, g, mesh->way, &ctx);
    layer_table_fill(&ctx, mesh, &table);
    struct split_scratch *const scratch = split_scratch_new();
    if (!scratch)
        return status_no_memory(err);
    struct best_split best = {0};
    struct split_work work = {0};
    const struct split_request request = {&ctx, &table, mesh, (double)INFINITY};
    const enum mosaic_status status = best_split_find(scratch, &request, &best, &work, err);
    split_scratch_free(scratch);
    if (status != MOSAIC_OK)
        return status;
    layout->mesh = *mesh;
    if (best.found)
        layout->split = best.split;
    else
        (void)split_first(ctx.workload, mesh, g->layers, &layout->split);
    step_predict(&ctx, &table, mesh, &layout->split, out, stages);
    return MOSAIC_OK;
}

enum mosaic_status best_layout_check(const struct prediction *p, struct status_error *err) {
    if (p->mfu <= 1.0 && p->mfu_6n <= 1.0)
        return MOSAIC_OK;
    (void)status_set(err, MOSAIC_BAD_INPUT, "the prediction is above 100 %% MFU (%.3g)", p->mfu);
    status_hint(err, "check the device's dense peak, the precision and the calibration");
    return MOSAIC_BAD_INPUT;
}
