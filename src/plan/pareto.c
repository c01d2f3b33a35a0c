// SPDX-License-Identifier: GPL-3.0-or-later
/* Searches over a grid, and what is not dominated among their plans. */
#include "plan/pareto.h"

#include "plan/fleet.h"

#include <stdlib.h>

static size_t axis_size(const struct number_axis *axis) {
    return axis->count > 0 ? (size_t)axis->count : 1;
}

size_t pareto_size(const struct problem *problem) {
    const struct fleet_space *const f = &problem->fleet;
    return f->has_pareto
               ? (size_t)fleet_size(problem) * axis_size(&f->memory) * axis_size(&f->seconds)
               : 0;
}

void pareto_problem(const struct problem *problem, int nodes, double memory_share, double seconds,
                    struct problem *out) {
    problem_on(problem, nodes, out);
    out->cluster.device.memory_bytes *= memory_share;
    if (seconds > 0.0)
        out->budget.seconds = seconds;
}

bool pareto_beats(const double a[PARETO_GOALS], const double b[PARETO_GOALS]) {
    bool is_better = false;
    for (int i = 0; i < PARETO_GOALS; ++i) {
        if (a[i] > b[i])
            return false;
        is_better = is_better || a[i] < b[i];
    }
    return is_better;
}

static bool are_equal(const double a[PARETO_GOALS], const double b[PARETO_GOALS]) {
    for (int i = 0; i < PARETO_GOALS; ++i)
        if (a[i] < b[i] || a[i] > b[i])
            return false;
    return true;
}

static void set_goals(const struct problem *at, struct pareto_point *point) {
    const double seconds = point->best.run.seconds;
    point->goals[PARETO_LOSS] = point->best.run.loss;
    point->goals[PARETO_DAYS] = seconds / UNITS_SECONDS_PER_DAY;
    point->goals[PARETO_GPUS] = (double)cluster_gpus(&at->cluster);
    point->goals[PARETO_MEMORY] = point->memory_share;
    point->goals[PARETO_COST] = problem_cost(at, seconds);
}

struct pareto_job {
    const struct problem *problem;
    struct series *series;
    struct problem at;
    struct search_result search;
    struct pareto *out;
    bool is_over;
};

/* One budget on one machine, whose steps the memo keeps. */
static enum mosaic_status search_point(struct pareto_job *job, struct pareto_point point,
                                       struct search_memo *memo, struct status_error *err) {
    enum search_status unused;
    if (job->is_over || series_is_over(job->series, &unused)) {
        job->is_over = true;
        series_skip(job->series);
        return MOSAIC_OK;
    }
    pareto_problem(job->problem, point.nodes, point.memory_share, point.budget_s, &job->at);
    if (!(job->at.budget.goodput > 0.0)) {
        series_skip(job->series);
        job->out->searched++;
        job->out->infeasible++;
        return MOSAIC_OK;
    }
    point.budget_s = job->at.budget.seconds;
    TRY(series_search(job->series, &job->at, memo, &job->search, err));
    job->out->searched++;
    if (job->search.kept_count > 0) {
        point.status = job->search.status;
        point.best = job->search.kept[0];
        set_goals(&job->at, &point);
        job->out->items[job->out->count++] = point;
    } else if (job->search.status == SEARCH_INFEASIBLE) {
        job->out->infeasible++;
    }
    search_result_free(&job->search);
    return MOSAIC_OK;
}

/* Every budget of one machine. */
static enum mosaic_status search_machine(struct pareto_job *job, int nodes, double memory_share,
                                         struct status_error *err) {
    const struct number_axis *const seconds = &job->problem->fleet.seconds;
    enum mosaic_status status = MOSAIC_OK;
    struct search_memo *memo = NULL;
    TRY(series_take(job->series, job->problem, nodes, memory_share, &memo, err));
    for (size_t i = 0; i < axis_size(seconds); ++i) {
        const struct pareto_point point = {.nodes = nodes,
                                           .memory_share = memory_share,
                                           .budget_s =
                                               seconds->count > 0 ? seconds->values[i] : 0.0};
        TRY_GOTO(search_point(job, point, memo, err));
    }
out:
    series_give(job->series, memo);
    return status;
}

/* In place, first come first: of equal ones the first stays. */
static void keep_unbeaten(struct pareto *p) {
    bool is_beaten[PARETO_GRID_MAX] = {false};
    for (size_t i = 0; i < p->count; ++i)
        for (size_t k = 0; k < p->count && !is_beaten[i]; ++k)
            is_beaten[i] = pareto_beats(p->items[k].goals, p->items[i].goals) ||
                           (k < i && are_equal(p->items[k].goals, p->items[i].goals));
    size_t kept = 0;
    for (size_t i = 0; i < p->count; ++i)
        if (!is_beaten[i])
            p->items[kept++] = p->items[i];
    p->count = kept;
}

static enum mosaic_status search_grid(struct pareto_job *job, struct status_error *err) {
    const struct problem *const p = job->problem;
    const struct number_axis *const memory = &p->fleet.memory;
    const struct axis *const nodes = &p->fleet.nodes;
    for (int n = 0; n < fleet_size(p); ++n)
        for (size_t m = 0; m < axis_size(memory); ++m)
            TRY(search_machine(job, nodes->count > 0 ? nodes->values[n] : p->cluster.nodes,
                               memory->count > 0 ? memory->values[m] : 1.0, err));
    return MOSAIC_OK;
}

enum mosaic_status pareto_find(const struct problem *problem, struct series *series,
                               struct pareto *out, struct status_error *err) {
    *out = (struct pareto){.grid = pareto_size(problem)};
    if (out->grid == 0)
        return MOSAIC_OK;
    if (out->grid > PARETO_GRID_MAX)
        return status_set(err, MOSAIC_BAD_INPUT, "a Pareto grid of %zu points; at most %d",
                          out->grid, (int)PARETO_GRID_MAX);
    struct pareto_job *const job = calloc(1, sizeof *job);
    out->items = calloc(out->grid, sizeof *out->items);
    if (!job || !out->items) {
        free(job);
        pareto_free(out);
        return status_no_memory(err);
    }
    job->problem = problem;
    job->series = series;
    job->out = out;
    series->only_best = true;
    const enum mosaic_status status = search_grid(job, err);
    free(job);
    if (status == MOSAIC_OK)
        keep_unbeaten(out);
    else
        pareto_free(out);
    return status;
}

void pareto_free(struct pareto *pareto) {
    free(pareto->items);
    pareto->items = NULL;
    pareto->count = 0;
}
