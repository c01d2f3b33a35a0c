// SPDX-License-Identifier: GPL-3.0-or-later
/* Even split, then the stage program where it can still win. */
#include "plan/best_split.h"

#include "plan/split_columns.h"

#include <math.h>
#include <stdlib.h>

/* Columns of one mesh, priced once; the program sees those within the tail's limit. */
struct split_scratch {
    struct stage_workspace *workspace;
    struct split_columns *columns;
    struct layer_table *tables; /* of what the mesh's stages may recompute beside its own */
};

struct split_scratch *split_scratch_new(void) {
    struct split_scratch *const s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->workspace = stage_workspace_new();
    s->columns = split_columns_new();
    s->tables = calloc(RECOMPUTE_MODES, sizeof *s->tables);
    if (s->workspace && s->columns && s->tables)
        return s;
    split_scratch_free(s);
    return NULL;
}

void split_scratch_free(struct split_scratch *s) {
    if (!s)
        return;
    stage_workspace_free(s->workspace);
    split_columns_free(s->columns);
    free(s->tables);
    free(s);
}

struct finding {
    const struct step_context *ctx;
    const struct layer_table *table;
    const struct mesh *mesh;
    double cutoff_s;
    const struct policy_views *views; /* NULL: every stage recomputes what the mesh says */
    struct best_split *best;
    struct split_work *work;
};

/* What the next split must beat. */
static double goal_of(const struct finding *f) {
    return f->best->found ? f->best->step_time_s : f->cutoff_s;
}

/* Predict a split and keep it when it fits and is faster. */
static void try_split(const struct finding *f, const struct split *split) {
    struct prediction prediction;
    if (f->views)
        step_predict_of(f->ctx, &(struct stage_pricing){f->table, f->mesh, f->views}, split,
                        &prediction, NULL);
    else
        step_predict(f->ctx, f->table, f->mesh, split, &prediction, NULL);
    f->work->evaluations++;
    if (prediction.verdict == VERDICT_NO)
        return;
    f->best->too_large = false;
    if (!step_is_plausible(&prediction)) {
        f->best->implausible = true;
        return;
    }
    if (prediction.step_time_s < goal_of(f)) {
        f->best->found = true;
        f->best->step_time_s = prediction.step_time_s;
        f->best->split = *split;
    }
}

/* Solve for falling limits of the tail until the rest cannot win. */
static enum mosaic_status solve(const struct finding *f, struct split_scratch *s,
                                struct stage_problem *problem, struct status_error *err) {
    const double factor = step_factor(f->ctx);
    const double floor_s = split_columns_least_tail(s->columns);
    problem->constant_s = floor_s;
    for (double tail_limit_s = INFINITY;;) {
        split_columns_offer(s->columns, tail_limit_s, problem);
        problem->cutoff_s = goal_of(f) / factor;
        struct stage_result result;
        TRY(stage_program_solve(s->workspace, problem, &result, err));
        f->work->programs++;
        if (result.outcome != STAGE_OPTIMAL)
            return MOSAIC_OK;
        struct split split;
        split_columns_split(s->columns, &result, &split);
        try_split(f, &split);
        const double tail_s = split_columns_tail(s->columns, &result);
        if (!(tail_s < tail_limit_s) || tail_s <= floor_s)
            return MOSAIC_OK;
        tail_limit_s = tail_s;
    }
}

/* fixed: the only layers that stages may have, or NULL. */
static enum mosaic_status run_program(const struct finding *f, struct split_scratch *s,
                                      const struct split *fixed, struct status_error *err) {
    const struct pipeline_form form = pipeline_form_of(f->ctx, f->table, f->mesh);
    struct stage_problem problem;
    stage_problem_init(&problem);
    problem.stages = f->mesh->pp;
    problem.bottleneck_weight = form.max_weight;
    problem.sum_weight = form.sum_weight;
    problem.is_pruned = true;
    problem.policy_per_stage = f->views != NULL;
    problem.cutoff_s = goal_of(f) / step_factor(f->ctx);
    const struct split_space space = {.ctx = f->ctx,
                                      .table = f->table,
                                      .mesh = f->mesh,
                                      .views = f->views,
                                      .fixed = fixed,
                                      .bottleneck_limit_s = stage_bottleneck_limit(&problem)};
    TRY(split_columns_build(s->columns, s->workspace, &space, &problem, err));
    return solve(f, s, &problem, err);
}

/* Whether the layers of each stage are settled, by the plan, the schedule or the engine. */
static bool layers_are_fixed(const struct step_context *ctx, const struct mesh *mesh,
                             bool is_stated) {
    return is_stated || mesh->pp == 1 || mesh->vpp > 1 || !ctx->engine.uneven_stages ||
           ctx->estimator.pipeline_fraction;
}

enum mosaic_status best_split_find(struct split_scratch *scratch,
                                   const struct split_request *request, struct best_split *out,
                                   struct split_work *work, struct status_error *err) {
    const struct step_context *const ctx = request->ctx;
    const struct mesh *const mesh = request->mesh;
    struct finding f = {.ctx = ctx,
                        .table = request->table,
                        .mesh = mesh,
                        .cutoff_s = request->cutoff_s,
                        .best = out,
                        .work = work};
    *out = (struct best_split){.too_large = true};
    struct split first;
    const bool is_stated = split_first(ctx->workload, mesh, ctx->geometry->layers, &first);
    try_split(&f, &first);
    const bool is_fixed = layers_are_fixed(ctx, mesh, is_stated);
    const unsigned policies = mesh_policies(ctx, mesh);
    const bool is_mixable = (policies & (policies - 1)) != 0;
    if ((is_fixed && !is_mixable) || step_bound(ctx, request->table, mesh) >= goal_of(&f))
        return MOSAIC_OK;
    struct policy_views views;
    if (is_mixable) {
        policy_views_of(ctx, request->table, mesh, policies, scratch->tables, &views);
        f.views = &views;
    }
    return run_program(&f, scratch, is_fixed ? &first : NULL, err);
}

double best_split_bound(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh) {
    struct split split;
    struct prediction prediction;
    const bool is_stated = split_first(ctx->workload, mesh, ctx->geometry->layers, &split);
    const bool is_one = is_stated && (split.is_mixed || !table->is_mixable);
    if (!is_one && !ctx->estimator.pipeline_fraction)
        return step_bound(ctx, table, mesh);
    step_predict(ctx, table, mesh, &split, &prediction, NULL);
    return prediction.step_time_s;
}
