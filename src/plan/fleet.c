// SPDX-License-Identifier: GPL-3.0-or-later
/* One search a number of nodes, and what they prove together. */
#include "plan/fleet.h"

#include <math.h>
#include <stdlib.h>

int fleet_size(const struct problem *problem) {
    return problem->fleet.nodes.count > 0 ? problem->fleet.nodes.count : 1;
}

/* The job as it goes on. */
struct fleet_job {
    const struct problem *problem;
    struct series *series;
    struct problem *at;         /* on the nodes of the moment */
    struct search_result *next; /* their search */
    bool has_result;            /* the caller's search is filled */
    struct search_result *search;
    struct fleet *fleet;
    enum search_status over; /* why nothing more is tried, once that is so */
};

/* A plan beats none; of two plans the lower score, of equal ones the first. */
static bool is_better(const struct fleet_job *job, const struct search_result *result) {
    if (!job->has_result)
        return true;
    if (result->kept_count == 0)
        return job->search->kept_count == 0;
    return job->search->kept_count == 0 ||
           result->kept[0].run.score < job->search->kept[0].run.score;
}

static void take(struct fleet_job *job, int index, struct search_memo *memo) {
    struct fleet_point *const point = &job->fleet->points[index];
    const struct search_result *const result = job->next;
    point->end = FLEET_SEARCHED;
    point->status = result->status;
    point->has_plan = result->kept_count > 0;
    point->has_gap = result->proof.has_gap;
    point->gap = result->proof.gap;
    if (point->has_plan)
        point->best = result->kept[0];
    if (!is_better(job, result)) {
        search_result_free(job->next);
        series_give(job->series, memo);
        return;
    }
    if (job->has_result)
        search_result_free(job->search);
    series_give(job->series, job->fleet->memo);
    *job->search = *result;
    job->fleet->memo = memo;
    job->has_result = true;
    job->fleet->best = index;
}

static enum mosaic_status search_one(struct fleet_job *job, int index, struct status_error *err) {
    struct fleet_point *const point = &job->fleet->points[index];
    problem_on(job->problem, point->nodes, job->at);
    if (!(job->at->budget.goodput > 0.0)) {
        point->end = FLEET_NO_WORK;
        series_skip(job->series);
        return MOSAIC_OK;
    }
    /* The first one is always searched: it ends by itself, with what it has. */
    if (job->has_result && series_is_over(job->series, &job->over)) {
        point->end = FLEET_UNTRIED;
        series_skip(job->series);
        return MOSAIC_OK;
    }
    struct search_memo *memo = NULL;
    TRY(series_take(job->series, job->at, point->nodes, 1.0, &memo, err));
    const enum mosaic_status status = series_search(job->series, job->at, memo, job->next, err);
    if (status == MOSAIC_OK)
        take(job, index, memo);
    else
        series_give(job->series, memo);
    return status;
}

/* What a point leaves open below its own best is open below the plan as well. */
static void close_proof(const struct fleet *fleet, struct search_result *search) {
    const struct fleet_point *const best = &fleet->points[fleet->best];
    struct search_proof *const proof = &search->proof;
    proof->has_gap = best->has_plan;
    proof->gap = 0.0;
    for (int i = 0; i < fleet->count; ++i) {
        const struct fleet_point *const point = &fleet->points[i];
        if (point->end == FLEET_NO_WORK ||
            (point->end == FLEET_SEARCHED && point->status == SEARCH_INFEASIBLE))
            continue;
        proof->has_gap = proof->has_gap && point->end == FLEET_SEARCHED && point->has_gap;
        if (proof->has_gap)
            proof->gap =
                fmax(proof->gap, best->best.run.score - point->best.run.score + point->gap);
    }
    if (!proof->has_gap)
        proof->gap = 0.0;
}

/* An interruption outweighs a limit, and that what was proved. */
static void close_status(const struct fleet_job *job) {
    const struct fleet *const fleet = job->fleet;
    enum search_status status = job->search->kept_count > 0 ? SEARCH_OPTIMAL : SEARCH_INFEASIBLE;
    for (int i = 0; i < fleet->count; ++i) {
        const struct fleet_point *const point = &fleet->points[i];
        if (point->end == FLEET_NO_WORK)
            continue;
        const enum search_status one = point->end == FLEET_UNTRIED ? job->over : point->status;
        if (one == SEARCH_INTERRUPTED || (one == SEARCH_LIMIT && status != SEARCH_INTERRUPTED))
            status = one;
    }
    job->search->status = status;
}

static void lay_points(const struct problem *problem, struct fleet *fleet) {
    const struct axis *const nodes = &problem->fleet.nodes;
    *fleet = (struct fleet){.count = fleet_size(problem)};
    for (int i = 0; i < fleet->count; ++i)
        fleet->points[i].nodes = nodes->count > 0 ? nodes->values[i] : problem->cluster.nodes;
}

enum mosaic_status fleet_search(const struct problem *problem, struct series *series,
                                struct problem *best, struct search_result *search,
                                struct fleet *fleet, struct status_error *err) {
    enum mosaic_status status = MOSAIC_OK;
    struct fleet_job job = {.problem = problem,
                            .series = series,
                            .at = best,
                            .next = malloc(sizeof *job.next),
                            .search = search,
                            .fleet = fleet};
    if (!job.next)
        return status_no_memory(err);
    lay_points(problem, fleet);
    for (int i = 0; i < fleet->count; ++i)
        TRY_GOTO(search_one(&job, i, err));
    if (!job.has_result) {
        status = status_set(err, MOSAIC_NO_PLAN,
                            "no work gets done on any number of nodes: failures and checkpoints "
                            "take all the time");
        goto out;
    }
    problem_on(problem, fleet->points[fleet->best].nodes, best);
    if (fleet->count > 1) {
        close_proof(fleet, search);
        close_status(&job);
    }
out:
    if (status != MOSAIC_OK && job.has_result) {
        search_result_free(search);
        series_give(series, fleet->memo);
        fleet->memo = NULL;
    }
    free(job.next);
    return status;
}
