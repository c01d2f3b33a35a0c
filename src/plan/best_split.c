// SPDX-License-Identifier: GPL-3.0-or-later
/* Even split, then the stage program where it can still win. */
#include "plan/best_split.h"

#include "plan/stage_need.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static_assert((int)LAYOUT_MAX_PP <= (int)STAGE_MAX, "every mesh fits the stage program");

/* What a stage costs hangs on its place (first, inside, last) and its layers by kind, not on which
 * layers they are: each such content is priced once a mesh. */
enum place { PLACE_FIRST, PLACE_INSIDE, PLACE_LAST, PLACES };

struct price {
    unsigned long mesh; /* number of the mesh that it holds for */
    double busy_s, tail_s;
};

/* Memory hangs on the stage as well: micro-batches in flight. */
struct fit {
    unsigned long mesh;
    bool fits;
};

/* Columns of one mesh, priced once; the program sees those within the tail's limit. */
struct split_scratch {
    struct stage_workspace *workspace;
    struct price *prices; /* [place][content] */
    struct fit *fits;     /* [stage][content] */
    size_t price_room, fit_room;
    unsigned long mesh; /* meshes so far */
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
    free(s->prices);
    free(s->fits);
    free(s->offered);
    free(s->tails);
    free(s);
}

struct pricing {
    const struct step_context *ctx;
    const struct layer_table *table;
    const struct mesh *mesh;
    double cutoff_s;
    struct split_scratch *scratch;
    size_t contents; /* distinct pairs of layer counts */
    struct best_split *best;
    struct split_work *work;
};

/* Place of a range's layer counts among all contents. */
static size_t content_of(const struct pricing *p, const struct stage_range *range) {
    const int dense = stage_dense_layers(p->ctx->geometry, *range),
              moe = range->last - range->first - dense;
    return (size_t)dense * ((size_t)geometry_moe_layers(p->ctx->geometry) + 1) + (size_t)moe;
}

static const struct price *price_of(const struct pricing *p, const struct stage_range *range) {
    const enum place place = range->stage == 0                 ? PLACE_FIRST
                             : range->stage == p->mesh->pp - 1 ? PLACE_LAST
                                                               : PLACE_INSIDE;
    struct price *const price =
        &p->scratch->prices[(size_t)place * p->contents + content_of(p, range)];
    if (price->mesh != p->scratch->mesh) {
        struct stage_cost cost;
        stage_cost_of(p->ctx, p->table, p->mesh, *range, &cost);
        *price = (struct price){p->scratch->mesh, cost.busy_s, cost.tail_s};
    }
    return price;
}

static bool fits(const struct pricing *p, const struct stage_range *range) {
    struct fit *const fit =
        &p->scratch->fits[(size_t)range->stage * p->contents + content_of(p, range)];
    if (fit->mesh != p->scratch->mesh) {
        struct stage_need need;
        stage_need_of(p->ctx, p->table, p->mesh, *range, &need);
        *fit = (struct fit){p->scratch->mesh, stage_need_fits(p->ctx, &need)};
    }
    return fit->fits;
}

static bool price_column(void *context, int stage, int first, int last, int policy,
                         double *time_s) {
    (void)policy;
    const struct pricing *const p = context;
    const struct stage_range range = {stage, first, last};
    if (!fits(p, &range))
        return false;
    *time_s = price_of(p, &range)->busy_s;
    return true;
}

/* Rooms for the prices of one mesh; what earlier meshes left there is marked with their numbers. */
static bool open_prices(struct pricing *p) {
    struct split_scratch *const s = p->scratch;
    const size_t moe = (size_t)geometry_moe_layers(p->ctx->geometry);
    p->contents = ((size_t)p->ctx->geometry->layers - moe + 1) * (moe + 1);
    const size_t prices = PLACES * p->contents, entries = (size_t)p->mesh->pp * p->contents;
    if (prices > s->price_room) {
        free(s->prices);
        s->prices = calloc(prices, sizeof *s->prices);
        s->price_room = s->prices ? prices : 0;
    }
    if (entries > s->fit_room) {
        free(s->fits);
        s->fits = calloc(entries, sizeof *s->fits);
        s->fit_room = s->fits ? entries : 0;
    }
    s->mesh++;
    return s->prices && s->fits;
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

/* What the next split must beat. */
static double goal_of(const struct pricing *p) {
    return p->best->found ? p->best->step_time_s : p->cutoff_s;
}

/* Predict a split and keep it when it fits and is faster. */
static void try_split(const struct pricing *p, const struct split *split) {
    struct prediction prediction;
    step_predict(p->ctx, p->table, p->mesh, split, &prediction, NULL);
    p->work->evaluations++;
    if (prediction.verdict == VERDICT_NO)
        return;
    p->best->too_large = false;
    if (!step_is_plausible(&prediction)) {
        p->best->implausible = true;
        return;
    }
    if (prediction.step_time_s < goal_of(p)) {
        p->best->found = true;
        p->best->step_time_s = prediction.step_time_s;
        p->best->split = *split;
    }
}

static void price_tails(const struct pricing *p, const struct stage_column *columns, size_t count,
                        double *tails) {
    for (size_t i = 0; i < count; ++i) {
        const struct stage_range range = {columns[i].stage, columns[i].first, columns[i].last};
        tails[i] = price_of(p, &range)->tail_s;
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

static double tail_of_split(const struct pricing *p, const struct split *split) {
    double tail_s = 0.0;
    for (int i = 0; i < split->stages; ++i) {
        const struct stage_range range = {i, split->first[i], split->first[i + 1]};
        tail_s = fmax(tail_s, price_of(p, &range)->tail_s);
    }
    return tail_s;
}

/* Offer the columns with a tail below the limit. */
static void offer(struct split_scratch *s, const struct stage_column *columns, size_t count,
                  double tail_limit_s, struct stage_problem *problem) {
    size_t offered = 0;
    for (size_t i = 0; i < count; ++i)
        if (s->tails[i] < tail_limit_s)
            s->offered[offered++] = columns[i];
    problem->columns = s->offered;
    problem->column_count = offered;
}

/* Solve for falling limits of the tail until the rest cannot win. */
static enum mosaic_status solve(const struct pricing *p, struct stage_problem *problem,
                                const struct stage_column *columns, size_t count,
                                struct status_error *err) {
    struct split_scratch *const s = p->scratch;
    const double factor = step_factor(p->ctx);
    const double floor_s = least_tail(columns, s->tails, count, p->mesh->pp);
    problem->constant_s = floor_s;
    for (double tail_limit_s = INFINITY;;) {
        offer(s, columns, count, tail_limit_s, problem);
        problem->cutoff_s = goal_of(p) / factor;
        struct stage_result result;
        TRY(stage_program_solve(s->workspace, problem, &result, err));
        p->work->programs++;
        if (result.outcome != STAGE_OPTIMAL)
            return MOSAIC_OK;
        struct split split;
        split_from(&result, p->mesh->pp, &split);
        try_split(p, &split);
        const double tail_s = tail_of_split(p, &split);
        if (!(tail_s < tail_limit_s) || tail_s <= floor_s)
            return MOSAIC_OK;
        tail_limit_s = tail_s;
    }
}

static enum mosaic_status run_program(const struct pricing *p, struct status_error *err) {
    struct split_scratch *const s = p->scratch;
    const struct pipeline_form form = pipeline_form_of(p->ctx, p->table, p->mesh);
    struct stage_problem problem;
    stage_problem_init(&problem);
    problem.stages = p->mesh->pp;
    problem.layers = p->ctx->geometry->layers;
    problem.bottleneck_weight = form.max_weight;
    problem.sum_weight = form.sum_weight;
    problem.is_pruned = true;
    problem.cutoff_s = goal_of(p) / step_factor(p->ctx);
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
    return solve(p, &problem, columns, count, err);
}

enum mosaic_status best_split_find(struct split_scratch *scratch,
                                   const struct split_request *request, struct best_split *out,
                                   struct split_work *work, struct status_error *err) {
    const struct step_context *const ctx = request->ctx;
    const struct mesh *const mesh = request->mesh;
    struct pricing pricing = {.ctx = ctx,
                              .table = request->table,
                              .mesh = mesh,
                              .cutoff_s = request->cutoff_s,
                              .scratch = scratch,
                              .best = out,
                              .work = work};
    *out = (struct best_split){.too_large = true};
    struct split first;
    const bool is_stated = split_first(ctx->workload, mesh, ctx->geometry->layers, &first);
    try_split(&pricing, &first);
    if (is_stated || mesh->pp == 1 || mesh->vpp > 1 || !ctx->engine.uneven_stages ||
        ctx->estimator.pipeline_fraction)
        return MOSAIC_OK;
    if (step_bound(ctx, request->table, mesh) >= goal_of(&pricing))
        return MOSAIC_OK;
    if (!open_prices(&pricing))
        return status_no_memory(err);
    return run_program(&pricing, err);
}

double best_split_bound(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh) {
    struct split split;
    struct prediction prediction;
    if (!split_first(ctx->workload, mesh, ctx->geometry->layers, &split) &&
        !ctx->estimator.pipeline_fraction)
        return step_bound(ctx, table, mesh);
    step_predict(ctx, table, mesh, &split, &prediction, NULL);
    return prediction.step_time_s;
}
