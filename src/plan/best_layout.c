// SPDX-License-Identifier: GPL-3.0-or-later
/* Bounding and opening the meshes of one geometry. */
#include "plan/best_layout.h"

#include <math.h>
#include <stdlib.h>

struct mesh_entry {
    struct mesh mesh;
    size_t table;
    double bound_s;
    size_t order; /* of the walk: decides between equal bounds */
};

struct layout_scratch {
    struct split_scratch *split;
    struct step_context *contexts; /* one a way */
    int ways;
    struct mesh_entry *meshes;
    size_t mesh_count, mesh_capacity;
    struct layer_table *tables;
    size_t table_count, table_capacity;
};

struct layout_scratch *layout_scratch_new(void) {
    struct layout_scratch *const s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->split = split_scratch_new();
    if (!s->split) {
        free(s);
        return NULL;
    }
    return s;
}

void layout_scratch_free(struct layout_scratch *s) {
    if (!s)
        return;
    split_scratch_free(s->split);
    free(s->meshes);
    free(s->contexts);
    free(s->tables);
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
    sum->opened += more->opened;
    sum->too_large += more->too_large;
    sum->implausible += more->implausible;
    sum->work.evaluations += more->work.evaluations;
    sum->work.programs += more->work.programs;
}

/* What the walk's callbacks fill. */
struct gathering {
    struct layout_scratch *scratch;
    const struct step_context *ctx;
    struct layout_counts *counts;
    double least_memory_bytes;
    bool out_of_memory;
};

static void *grown(void *items, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity)
        return items;
    const size_t larger = *capacity ? *capacity * 2 : 64;
    void *const moved = realloc(items, larger * size);
    if (moved)
        *capacity = larger;
    return moved;
}

static void gather_shape(void *context, const struct mesh *shape) {
    struct gathering *const g = context;
    struct layout_scratch *const s = g->scratch;
    struct layer_table *const tables =
        grown(s->tables, s->table_count, &s->table_capacity, sizeof *tables);
    if (!tables) {
        g->out_of_memory = true;
        return;
    }
    s->tables = tables;
    layer_table_fill(g->ctx, shape, &s->tables[s->table_count++]);
}

static void gather_mesh(void *context, const struct mesh *mesh) {
    struct gathering *const g = context;
    struct layout_scratch *const s = g->scratch;
    if (g->out_of_memory)
        return;
    g->counts->meshes++;
    const struct layer_table *const table = &s->tables[s->table_count - 1];
    const double memory = step_memory_bound(g->ctx, table, mesh);
    g->least_memory_bytes = fmin(g->least_memory_bytes, memory);
    if (memory_verdict(g->ctx, memory) == VERDICT_NO) {
        g->counts->closed_by_memory++;
        return;
    }
    struct mesh_entry *const meshes =
        grown(s->meshes, s->mesh_count, &s->mesh_capacity, sizeof *meshes);
    if (!meshes) {
        g->out_of_memory = true;
        return;
    }
    s->meshes = meshes;
    s->meshes[s->mesh_count] = (struct mesh_entry){.mesh = *mesh,
                                                   .table = s->table_count - 1,
                                                   .bound_s = best_split_bound(g->ctx, table, mesh),
                                                   .order = s->mesh_count};
    s->mesh_count++;
}

/* A context for each way to run the job. */
static bool open_contexts(struct layout_scratch *s, const struct problem *problem,
                          const struct geometry *geometry) {
    const int ways = problem_ways(problem);
    if (ways > s->ways) {
        free(s->contexts);
        s->contexts = calloc((size_t)ways, sizeof *s->contexts);
        s->ways = s->contexts ? ways : 0;
    }
    for (int way = 0; s->contexts && way < ways; ++way)
        problem_context(problem, geometry, way, &s->contexts[way]);
    return s->contexts != NULL;
}

/* The meshes of every way with their bounds. */
static enum mosaic_status gather(struct layout_scratch *scratch, const struct problem *problem,
                                 const struct geometry *geometry, struct layout_counts *counts,
                                 double *least_memory_bytes, struct status_error *err) {
    scratch->mesh_count = scratch->table_count = 0;
    struct gathering g = {.scratch = scratch, .counts = counts, .least_memory_bytes = INFINITY};
    if (!open_contexts(scratch, problem, geometry))
        return status_no_memory(err);
    for (int way = 0; way < problem_ways(problem); ++way) {
        g.ctx = &scratch->contexts[way];
        mesh_walk(g.ctx, &problem->layouts, gather_shape, gather_mesh, &g, &counts->census);
    }
    *least_memory_bytes = g.least_memory_bytes;
    return g.out_of_memory ? status_no_memory(err) : MOSAIC_OK;
}

enum mosaic_status best_layout_bound(struct layout_scratch *scratch, const struct problem *problem,
                                     const struct geometry *geometry, double *bound_s,
                                     double *least_memory_bytes, struct layout_counts *counts,
                                     struct status_error *err) {
    TRY(gather(scratch, problem, geometry, counts, least_memory_bytes, err));
    *bound_s = INFINITY;
    for (size_t i = 0; i < scratch->mesh_count; ++i)
        *bound_s = fmin(*bound_s, scratch->meshes[i].bound_s);
    return MOSAIC_OK;
}

static int by_bound(const void *left, const void *right) {
    const struct mesh_entry *const a = left, *const b = right;
    if (a->bound_s != b->bound_s)
        return a->bound_s < b->bound_s ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static bool is_better(double time_s, const struct mesh *mesh, const struct best_layout *best) {
    if (!best->found || time_s != best->step_time_s)
        return !best->found || time_s < best->step_time_s;
    return mesh_compare(mesh, &best->layout.mesh) < 0;
}

enum mosaic_status best_layout_find(struct layout_scratch *scratch, const struct problem *problem,
                                    const struct geometry *geometry, struct best_layout *out,
                                    struct layout_counts *counts, struct status_error *err) {
    *out = (struct best_layout){0};
    TRY(gather(scratch, problem, geometry, counts, &out->least_memory_bytes, err));
    if (scratch->mesh_count > 0) /* without any there is no array */
        qsort(scratch->meshes, scratch->mesh_count, sizeof *scratch->meshes, by_bound);
    for (size_t i = 0; i < scratch->mesh_count; ++i) {
        const struct mesh_entry *const entry = &scratch->meshes[i];
        if (out->found && entry->bound_s > out->step_time_s) {
            counts->closed_by_bound += (long)(scratch->mesh_count - i);
            break;
        }
        /* A tie is decided by the order of meshes, so equal times are wanted too. */
        const double cutoff_s =
            out->found ? nextafter(out->step_time_s, (double)INFINITY) : (double)INFINITY;
        const struct split_request request = {&scratch->contexts[entry->mesh.way],
                                              &scratch->tables[entry->table], &entry->mesh,
                                              cutoff_s};
        struct best_split split;
        TRY(best_split_find(scratch->split, &request, &split, &counts->work, err));
        counts->opened++;
        counts->too_large += split.too_large;
        counts->implausible += split.implausible;
        if (split.found && is_better(split.step_time_s, &entry->mesh, out)) {
            out->found = true;
            out->step_time_s = split.step_time_s;
            out->layout.mesh = entry->mesh;
            out->layout.split = split.split;
        }
    }
    return MOSAIC_OK;
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
