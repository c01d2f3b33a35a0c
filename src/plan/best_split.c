// SPDX-License-Identifier: GPL-3.0-or-later
/* Even split, then the stage program where it can still win. */
#include "plan/best_split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Columns of one mesh, priced once; the program sees those within the tail's limit. */
struct split_scratch {
    struct stage_workspace *workspace;
    struct stage_column *offered;
    double *tails; /* of every column, in the order of the build */
    size_t capacity;
};

struct split_scratch *split_scratch_new(void) {
    struct split_scratch *const s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->workspace = stage_workspace_new();
    if (!s->workspace) {
        free(s);
        return NULL;
    }
    return s;
}

void split_scratch_free(struct split_scratch *s) {
    if (!s)
        return;
    stage_workspace_free(s->workspace);
    free(s->offered);
    free(s->tails);
    free(s);
}

struct pricing {
    const struct step_context *ctx;
    const struct layer_table *table;
    const struct mesh *mesh;
};

static bool price_column(void *context, int stage, int first, int last, int policy,
                         double *time_s) {
    (void)policy;
    const struct pricing *const p = context;
    const struct stage_range range = {stage, first, last};
    struct memory_items memory;
    stage_memory_of(p->ctx, p->table, p->mesh, range, &memory);
    if (memory_verdict(p->ctx, memory.total) == VERDICT_NO)
        return false;
    struct stage_cost cost;
    stage_cost_of(p->ctx, p->table, p->mesh, range, &cost);
    *time_s = cost.busy_s;
    return true;
}

static bool grow(struct split_scratch *s, size_t count) {
    if (count <= s->capacity)
        return true;
    struct stage_column *const offered = realloc(s->offered, count * sizeof *offered);
    if (!offered)
        return false;
    s->offered = offered;
    double *const tails = realloc(s->tails, count * sizeof *tails);
    if (!tails)
        return false;
    s->tails = tails;
    s->capacity = count;
    return true;
}

/* Predict a split and keep it when it fits and is faster. */
static void try_split(const struct pricing *p, const struct split *split, double cutoff_s,
                      struct best_split *best, struct split_work *work) {
    struct prediction prediction;
    step_predict(p->ctx, p->table, p->mesh, split, &prediction, NULL);
    work->evaluations++;
    if (prediction.verdict == VERDICT_NO)
        return;
    best->too_large = false;
    if (!step_is_plausible(&prediction)) {
        best->implausible = true;
        return;
    }
    const double limit_s = best->found ? best->step_time_s : cutoff_s;
    if (prediction.step_time_s < limit_s) {
        best->found = true;
        best->step_time_s = prediction.step_time_s;
        best->split = *split;
    }
}

static void price_tails(const struct pricing *p, const struct stage_column *columns, size_t count,
                        double *tails) {
    for (size_t i = 0; i < count; ++i) {
        struct stage_cost cost;
        const struct stage_range range = {columns[i].stage, columns[i].first, columns[i].last};
        stage_cost_of(p->ctx, p->table, p->mesh, range, &cost);
        tails[i] = cost.tail_s;
    }
}

/* Every choice has a tail of at least the largest, over the stages, of the smallest one. */
static double least_tail(const struct stage_column *columns, const double *tails, size_t count,
                         int stages) {
    double least[LAYOUT_MAX_PP];
    for (int i = 0; i < stages; ++i)
        least[i] = INFINITY;
    for (size_t i = 0; i < count; ++i)
        least[columns[i].stage] = fmin(least[columns[i].stage], tails[i]);
    double tail = 0.0;
    for (int i = 0; i < stages; ++i)
        if (isfinite(least[i]))
            tail = fmax(tail, least[i]);
    return tail;
}

static void split_from(const struct stage_result *result, int stages, struct split *out) {
    out->stages = stages;
    out->first[0] = 0;
    for (int i = 0; i < stages; ++i)
        out->first[i + 1] = (uint16_t)result->ends[i];
}

/* Solve for falling limits of the tail until the rest cannot win. */
static enum mosaic_status solve(struct split_scratch *s, const struct pricing *p,
                                struct stage_problem *problem, const struct stage_column *columns,
                                size_t count, double cutoff_s, struct best_split *best,
                                struct split_work *work, struct status_error *err) {
    const int stages = p->mesh->pp;
    const double factor = step_straggler_factor(p->ctx);
    const double floor_s = least_tail(columns, s->tails, count, stages);
    double tail_limit_s = INFINITY;
    for (;;) {
        size_t offered = 0;
        for (size_t i = 0; i < count; ++i)
            if (s->tails[i] < tail_limit_s)
                s->offered[offered++] = columns[i];
        const double goal_s = best->found ? best->step_time_s : cutoff_s;
        problem->columns = s->offered;
        problem->column_count = offered;
        problem->constant_s = floor_s;
        problem->cutoff_s = goal_s / factor;
        struct stage_result result;
        TRY(stage_program_solve(s->workspace, problem, &result, err));
        work->programs++;
        if (result.outcome != STAGE_OPTIMAL)
            return MOSAIC_OK;
        struct split split;
        split_from(&result, stages, &split);
        try_split(p, &split, cutoff_s, best, work);
        double tail_s = 0.0;
        for (int i = 0; i < stages; ++i) {
            struct stage_cost cost;
            const struct stage_range range = {i, split.first[i], split.first[i + 1]};
            stage_cost_of(p->ctx, p->table, p->mesh, range, &cost);
            tail_s = fmax(tail_s, cost.tail_s);
        }
        if (!(tail_s < tail_limit_s) || tail_s <= floor_s)
            return MOSAIC_OK;
        tail_limit_s = tail_s;
    }
}

static enum mosaic_status run_program(struct split_scratch *s, const struct pricing *p,
                                      double cutoff_s, struct best_split *best,
                                      struct split_work *work, struct status_error *err) {
    const struct pipeline_form form = pipeline_form_of(p->mesh);
    struct stage_problem problem;
    stage_problem_init(&problem);
    problem.stages = p->mesh->pp;
    problem.layers = p->ctx->geometry->layers;
    problem.bottleneck_weight = form.max_weight;
    problem.sum_weight = form.sum_weight;
    problem.is_pruned = true;
    const double goal_s = best->found ? best->step_time_s : cutoff_s;
    problem.cutoff_s = goal_s / step_straggler_factor(p->ctx);
    const struct stage_space space = {.stages = problem.stages,
                                      .layers = problem.layers,
                                      .policies = 1,
                                      .is_monotone = true,
                                      .bottleneck_limit_s = stage_bottleneck_limit(&problem),
                                      .column = price_column,
                                      .context = (void *)(uintptr_t)p};
    const struct stage_column *columns;
    size_t count;
    TRY(stage_columns_build(s->workspace, &space, &columns, &count, err));
    if (!grow(s, count))
        return status_no_memory(err);
    price_tails(p, columns, count, s->tails);
    return solve(s, p, &problem, columns, count, cutoff_s, best, work, err);
}

enum mosaic_status best_split_find(struct split_scratch *scratch, const struct step_context *ctx,
                                   const struct layer_table *table, const struct mesh *mesh,
                                   double cutoff_s, struct best_split *out, struct split_work *work,
                                   struct status_error *err) {
    const struct pricing pricing = {ctx, table, mesh};
    *out = (struct best_split){.too_large = true};
    struct split even;
    split_even(ctx->geometry->layers, mesh->pp, &even);
    try_split(&pricing, &even, cutoff_s, out, work);
    if (mesh->pp == 1 || mesh->pp > STAGE_MAX || mesh->vpp > 1 || !ctx->engine.uneven_stages ||
        ctx->estimator.pipeline_fraction)
        return MOSAIC_OK;
    const double goal_s = out->found ? out->step_time_s : cutoff_s;
    if (step_bound(ctx, table, mesh) >= goal_s)
        return MOSAIC_OK;
    return run_program(scratch, &pricing, cutoff_s, out, work, err);
}
