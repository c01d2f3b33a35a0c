// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The stage program: checks, the making of columns, and the search over bottleneck values.
 *
 * S(T), the least sum with every t_i <= T, falls in steps as T rises.  With S known at the right
 * end of an interval of values, A T_left + B S_right + C bounds everything inside; an interval on
 * which S does not fall holds nothing new.
 */
#include "plan/stage_program.h"

#include "plan/stage_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct stage_workspace *stage_workspace_new(void) {
    return calloc(1, sizeof(struct stage_workspace));
}

void stage_workspace_free(struct stage_workspace *workspace) {
    if (!workspace)
        return;
    graph_free(&workspace->graph);
    free(workspace->built);
    free(workspace->keys);
    free(workspace->nodes);
    free(workspace->candidates);
    free(workspace->is_shut);
    free(workspace->lp_numbers);
    free(workspace->lp_rows);
    free(workspace->lp_starts);
    free(workspace->labels);
    free(workspace->label_loads);
    free(workspace->chain_labels);
    free(workspace->chain_lists);
    free(workspace->level_loads);
    free(workspace->label_heads);
    free(workspace);
}

void stage_problem_init(struct stage_problem *problem) {
    const struct stage_problem initial = {.sum_weight = 1, .cutoff_s = HUGE_VAL};
    *problem = initial;
}

double stage_bottleneck_limit(const struct stage_problem *problem) {
    const double weight = problem->bottleneck_weight + problem->sum_weight;
    if (!(weight > 0))
        return HUGE_VAL;
    const double limit = (problem->cutoff_s - problem->constant_s) / weight;
    return isnan(limit) ? HUGE_VAL : limit;
}

/* ---- making columns ---- */

static bool append(struct stage_workspace *workspace, size_t *count,
                   const struct stage_column *column) {
    if (*count == workspace->built_room) {
        const size_t room = *count + *count / 2 + 1024;
        struct stage_column *made = realloc(workspace->built, room * sizeof *made);
        if (!made)
            return false;
        workspace->built = made;
        workspace->built_room = room;
    }
    workspace->built[(*count)++] = *column;
    return true;
}

int stage_space_layers(const struct stage_space *space) {
    return space->needs_policy ? 2 * space->layers + 1 : space->layers;
}

/* One pass over the columns of a stage and first layer. */
struct row {
    int stage, first;
    int shift_first, shift_last; /* to the second count of the layers */
    bool takes_needed, takes_others;
};

static bool takes(const struct stage_space *space, const struct row *row, int policy) {
    if (!space->needs_policy)
        return true;
    return policy == space->needed_policy ? row->takes_needed : row->takes_others;
}

/* Columns ordered by last, then policy. */
static enum mosaic_status build_row(struct stage_workspace *workspace,
                                    const struct stage_space *space, const struct row *row,
                                    size_t *count, struct status_error *err) {
    const int least = space->has_empty_stages ? 0 : 1;
    const int stage = row->stage, first = row->first;
    const bool is_final = stage == space->stages - 1;
    const int end = space->layers - least * (space->stages - 1 - stage);
    bool is_over[STAGE_POLICIES_MAX] = {false};
    int open = 0;
    for (int policy = 0; policy < space->policies; policy++) {
        is_over[policy] = !takes(space, row, policy);
        open += !is_over[policy];
    }
    for (int last = is_final ? end : first + least; last <= end && open > 0; last++)
        for (int policy = 0; policy < space->policies; policy++) {
            struct stage_column column = {.stage = stage,
                                          .first = first + row->shift_first,
                                          .last = last + row->shift_last,
                                          .policy = policy};
            if (is_over[policy])
                continue;
            const bool fits =
                space->column(space->context, stage, first, last, policy, &column.time_s);
            if (fits && !(isfinite(column.time_s) && column.time_s >= 0))
                return status_set(err, MOSAIC_BAD_INPUT,
                                  "stage %d, layers %d to %d: time is not a finite number >= 0",
                                  stage, first, last);
            if (fits && column.time_s <= space->bottleneck_limit_s) {
                if (!append(workspace, count, &column))
                    return status_no_memory(err);
            } else if (space->is_monotone) {
                is_over[policy] = true;
                open--;
            }
        }
    return MOSAIC_OK;
}

/* All columns of one stage, ordered by first, last, policy. */
static enum mosaic_status build_stage(struct stage_workspace *workspace,
                                      const struct stage_space *space, int stage, size_t *count,
                                      struct status_error *err) {
    const int least = space->has_empty_stages ? 0 : 1;
    const int rest = least * (space->stages - stage);
    const int final = stage == 0 ? 0 : space->layers - rest;
    const int shift = space->layers + 1;
    for (int first = least * stage; first <= final && rest <= space->layers - first; first++) {
        const struct row before = {.stage = stage, .first = first, .takes_others = true};
        const struct row turn = {
            .stage = stage, .first = first, .shift_last = shift, .takes_needed = true};
        if (!(space->needs_policy && stage == space->stages - 1)) /* too late then */
            TRY(build_row(workspace, space, &before, count, err));
        if (space->needs_policy)
            TRY(build_row(workspace, space, &turn, count, err));
    }
    if (!space->needs_policy || stage == 0)
        return MOSAIC_OK;
    for (int first = least * stage; first <= final && rest <= space->layers - first; first++) {
        const struct row after = {stage, first, shift, shift, true, true};
        TRY(build_row(workspace, space, &after, count, err));
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_size(int stages, int layers, struct status_error *err) {
    if (stages < 1 || stages > STAGE_MAX)
        return status_set(err, MOSAIC_BAD_INPUT, "%d stages: 1 to %d are possible", stages,
                          (int)STAGE_MAX);
    if (layers < 1 || layers > STAGE_LAYERS_MAX)
        return status_set(err, MOSAIC_BAD_INPUT, "%d layers: 1 to %d are possible", layers,
                          (int)STAGE_LAYERS_MAX);
    return MOSAIC_OK;
}

enum mosaic_status stage_columns_build(struct stage_workspace *workspace,
                                       const struct stage_space *space,
                                       const struct stage_column **columns, size_t *column_count,
                                       struct status_error *err) {
    TRY(check_size(space->stages, stage_space_layers(space), err));
    if (space->policies < 1 || space->policies > STAGE_POLICIES_MAX ||
        isnan(space->bottleneck_limit_s))
        return status_set(err, MOSAIC_BAD_INPUT, "stage columns: bad policy count or limit");
    size_t count = 0;
    for (int stage = 0; stage < space->stages; stage++)
        TRY(build_stage(workspace, space, stage, &count, err));
    *columns = workspace->built;
    *column_count = count;
    return MOSAIC_OK;
}

/* ---- checks and order ---- */

static enum mosaic_status check_column(const struct stage_problem *problem, size_t index,
                                       struct status_error *err) {
    const struct stage_column *column = &problem->columns[index];
    if (!isfinite(column->time_s) || column->time_s < 0)
        return status_set(err, MOSAIC_BAD_INPUT, "column %zu: time is not a finite number >= 0",
                          index);
    if (column->stage < 0 || column->stage >= problem->stages || column->first < 0 ||
        column->first > column->last || column->last > problem->layers || column->policy < 0 ||
        column->policy >= STAGE_POLICIES_MAX)
        return status_set(err, MOSAIC_BAD_INPUT, "column %zu: stage, layers or policy out of range",
                          index);
    for (int r = 0; r < problem->resources; r++) {
        const double use = problem->use[index * (size_t)problem->resources + (size_t)r];
        if (!isfinite(use) || use < 0)
            return status_set(err, MOSAIC_BAD_INPUT,
                              "column %zu: use of resource %d is not a finite number >= 0", index,
                              r);
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_problem(const struct stage_problem *problem,
                                        struct status_error *err) {
    TRY(check_size(problem->stages, problem->layers, err));
    const double a = problem->bottleneck_weight, b = problem->sum_weight;
    if (!isfinite(a) || a < 0 || !isfinite(b) || b < 0 || !isfinite(problem->constant_s) ||
        isnan(problem->cutoff_s))
        return status_set(err, MOSAIC_BAD_INPUT, "stage program: bad weights or cut-off");
    if (problem->resources < 0 || problem->resources > STAGE_RESOURCES_MAX ||
        (problem->resources > 0 && problem->method == STAGE_DYNAMIC))
        return status_set(err, MOSAIC_BAD_INPUT, "stage program: %d resources", problem->resources);
    for (int r = 0; r < problem->resources; r++)
        if (!isfinite(problem->capacity[r]) || problem->capacity[r] < 0)
            return status_set(err, MOSAIC_BAD_INPUT,
                              "capacity of resource %d is not a finite number >= 0", r);
    double slowest = 0;
    for (size_t k = 0; k < problem->column_count; k++) {
        TRY(check_column(problem, k, err));
        slowest = fmax(slowest, problem->columns[k].time_s);
    }
    if (!isfinite(stage_value(problem, slowest, slowest * problem->stages)))
        return status_set(err, MOSAIC_BAD_INPUT, "stage program: times too large");
    return MOSAIC_OK;
}

static int compare_columns(const struct stage_column *a, const struct stage_column *b) {
    if (a->stage != b->stage)
        return a->stage < b->stage ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->last != b->last)
        return a->last < b->last ? -1 : 1;
    return a->policy == b->policy ? 0 : a->policy < b->policy ? -1 : 1;
}

static int compare_keys(const void *left, const void *right) {
    const struct stage_key *a = left, *b = right;
    const int order = compare_columns(&a->column, &b->column);
    return order ? order : a->index < b->index ? -1 : 1;
}

/* *keys: the columns in order, or NULL when they are so already. */
static enum mosaic_status sort_columns(struct stage_workspace *workspace,
                                       const struct stage_problem *problem,
                                       const struct stage_key **keys, struct status_error *err) {
    const size_t n = problem->column_count;
    size_t k = 1;
    while (k < n && compare_columns(&problem->columns[k - 1], &problem->columns[k]) <= 0)
        k++;
    *keys = NULL;
    if (k >= n)
        return MOSAIC_OK;
    workspace->keys = stage_grow(workspace->keys, &workspace->key_room, n, sizeof *workspace->keys);
    if (!workspace->keys)
        return status_no_memory(err);
    for (k = 0; k < n; k++) {
        workspace->keys[k].column = problem->columns[k];
        workspace->keys[k].index = k;
    }
    qsort(workspace->keys, n, sizeof *workspace->keys, compare_keys);
    *keys = workspace->keys;
    return MOSAIC_OK;
}

/* ---- the best so far ---- */

static int compare_doubles(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static bool is_better(const struct stage_path *a, const struct stage_path *b, int stages) {
    int order = compare_doubles(&a->objective, &b->objective);
    if (order == 0 && !b->is_set)
        return false; /* b is the cut-off */
    if (order == 0)
        order = compare_doubles(&a->bottleneck, &b->bottleneck);
    if (order == 0)
        order = compare_doubles(&a->sum, &b->sum);
    if (order != 0)
        return order < 0;
    for (int i = 0; i < stages; i++)
        if (a->ends[i] != b->ends[i])
            return a->ends[i] < b->ends[i];
    for (int i = 0; i < stages; i++)
        if (a->policies[i] != b->policies[i])
            return a->policies[i] < b->policies[i];
    return false;
}

void stage_offer(struct stage_workspace *workspace, const struct stage_problem *problem) {
    if (is_better(&workspace->trial, &workspace->best, problem->stages))
        workspace->best = workspace->trial;
}

bool stage_is_hopeless(const struct stage_workspace *workspace, const struct stage_problem *problem,
                       double bottleneck, double sum) {
    const struct stage_path *best = &workspace->best;
    const double value = stage_value(problem, bottleneck, sum);
    const bool is_tie_won = best->is_set && bottleneck <= best->bottleneck;
    return value > best->objective || (value >= best->objective && !is_tie_won);
}

double stage_sum_limit(const struct stage_workspace *workspace, const struct stage_problem *problem,
                       double bottleneck) {
    static const double slack = 1e-9; /* generous: a limit only saves work */
    if (!(problem->sum_weight > 0))
        return workspace->sum_max;
    const double best = workspace->best.objective;
    const double fixed = problem->constant_s + problem->bottleneck_weight * bottleneck;
    const double rest = best - fixed + slack * (fabs(best) + fabs(fixed));
    const double limit = rest / problem->sum_weight;
    return limit < workspace->sum_max ? limit : workspace->sum_max;
}

/* ---- the search over bottleneck values ---- */

/* The least sum with times <= threshold.  *sum: exact and offered when *found, else a bound. */
static enum mosaic_status solve_at(struct stage_workspace *workspace,
                                   const struct stage_problem *problem, double threshold,
                                   double sum_limit, double *sum, bool *found,
                                   struct status_error *err) {
    struct stage_graph *graph = &workspace->graph;
    *found = false;
    if (problem->method != STAGE_GLPK) {
        workspace->result->programs++;
        *sum = graph_back(graph, graph->time, threshold, graph->back, graph->pick);
        if (isinf(*sum) || *sum > sum_limit)
            return MOSAIC_OK;
        graph_follow(graph, &workspace->trial);
        graph_evaluate(graph, problem, &workspace->trial);
        *found = graph_fits(problem, &workspace->trial);
    }
    if (!*found)
        TRY(rows_solve(workspace, problem, threshold, sum_limit, sum, found, err));
    if (*found) {
        *sum = workspace->trial.sum;
        stage_offer(workspace, problem);
    }
    return MOSAIC_OK;
}

enum mosaic_status stage_candidates(struct stage_workspace *workspace,
                                    const struct stage_problem *problem, double t_low,
                                    double t_high, double sum, size_t *count,
                                    struct status_error *err) {
    const struct stage_graph *graph = &workspace->graph;
    workspace->candidates = stage_grow(workspace->candidates, &workspace->candidate_room,
                                       graph->arcs + 1, sizeof(double));
    if (!workspace->candidates)
        return status_no_memory(err);
    double *list = workspace->candidates;
    size_t n = 0, kept = 0;
    for (size_t a = 0; a < graph->arcs; a++)
        if (graph->time[a] >= t_low && graph->time[a] < t_high &&
            !stage_is_hopeless(workspace, problem, graph->time[a], sum))
            list[n++] = graph->time[a];
    qsort(list, n, sizeof *list, compare_doubles);
    for (size_t k = 0; k < n; k++)
        if (k == 0 || list[k] > list[k - 1])
            list[kept++] = list[k];
    *count = kept;
    return MOSAIC_OK;
}

/* Candidates begin .. end - 1; the sum is known (or bounded) just outside. */
struct interval {
    size_t begin, end;
    double sum_left, sum_right;
};

enum { INTERVALS_MAX = 130 }; /* halving: at most two for each bit of a size_t */

/* Cut off the hopeless right part; false when nothing is left. */
static bool trim(const struct stage_workspace *workspace, const struct stage_problem *problem,
                 struct interval *part) {
    const double *list = workspace->candidates;
    if (part->begin >= part->end || part->sum_left <= part->sum_right)
        return false;
    while (part->end > part->begin &&
           stage_is_hopeless(workspace, problem, list[part->end - 1], part->sum_right))
        part->end--;
    return part->end > part->begin;
}

static enum mosaic_status search_intervals(struct stage_workspace *workspace,
                                           const struct stage_problem *problem, size_t count,
                                           double sum_right, struct status_error *err) {
    const double *list = workspace->candidates;
    struct interval stack[INTERVALS_MAX] = {{0, count, HUGE_VAL, sum_right}};
    int depth = 1;
    bool is_first = true; /* the smallest value first: it is often the best */
    while (depth > 0) {
        struct interval part = stack[--depth];
        if (!trim(workspace, problem, &part))
            continue;
        const size_t at = is_first ? part.begin : part.begin + (part.end - part.begin) / 2;
        is_first = false;
        const double limit = stage_sum_limit(workspace, problem, list[part.begin]);
        double sum = 0;
        bool found = false;
        TRY(solve_at(workspace, problem, list[at], limit, &sum, &found, err));
        struct interval left = {part.begin, at, part.sum_left, sum};
        struct interval right = {at + 1, part.end, found ? sum : HUGE_VAL, part.sum_right};
        while (found && left.end > left.begin && list[left.end - 1] >= workspace->trial.bottleneck)
            left.end--; /* the same choice is the answer there */
        stack[depth++] = right;
        if (found)
            stack[depth++] = left;
    }
    return MOSAIC_OK;
}

static double longest_sum(const struct stage_graph *graph) {
    double sum = 0;
    for (int i = 0; i < graph->stages; i++) {
        const size_t row = (size_t)i * (size_t)graph->width;
        double longest = 0;
        for (size_t a = graph->row_start[row]; a < graph->row_start[row + (size_t)graph->width];
             a++)
            longest = fmax(longest, graph->time[a]);
        sum += longest;
    }
    return sum * (1 + 1e-9); /* above every rounding */
}

/* Offer the paths at both ends of the bottleneck's range, then drop the arcs that no path worth
 * having uses. */
static enum mosaic_status seed(struct stage_workspace *workspace,
                               const struct stage_problem *problem, double *t_low,
                               double *sum_bound, struct status_error *err) {
    struct stage_graph *graph = &workspace->graph;
    const double thresholds[2] = {*t_low, HUGE_VAL};
    /* By GLPK alone the answer must stay independent of the dynamic program. */
    for (int k = 0; k < 2 && problem->method != STAGE_GLPK; k++) {
        workspace->result->programs++;
        (void)graph_back(graph, graph->time, thresholds[k], graph->back, graph->pick);
        graph_follow(graph, &workspace->trial);
        graph_evaluate(graph, problem, &workspace->trial);
        if (graph_fits(problem, &workspace->trial))
            stage_offer(workspace, problem);
    }
    return rows_prepare(workspace, problem, t_low, sum_bound, err);
}

static enum mosaic_status solve_policy(struct stage_workspace *workspace,
                                       const struct stage_problem *problem,
                                       const struct stage_key *keys, int policy,
                                       struct status_error *err) {
    struct stage_graph *graph = &workspace->graph;
    TRY(graph_build(graph, problem, keys, policy, err));
    workspace->nodes =
        stage_grow(workspace->nodes, &workspace->nodes_room,
                   graph_nodes(graph) * (size_t)(2 + problem->resources), sizeof *workspace->nodes);
    if (!workspace->nodes)
        return status_no_memory(err);
    workspace->result->programs++;
    double sum = graph_back(graph, graph->time, HUGE_VAL, graph->back, graph->pick);
    if (isinf(sum))
        return MOSAIC_OK;
    double t_low = graph_bottleneck(graph, workspace->nodes);
    const double bound = stage_value(problem, t_low, sum);
    workspace->sum_max = longest_sum(graph);
    workspace->bound = fmin(workspace->bound, bound);
    if (stage_is_hopeless(workspace, problem, t_low, sum)) {
        workspace->is_cut = true;
        return MOSAIC_OK;
    }
    TRY(seed(workspace, problem, &t_low, &sum, err));
    const bool is_free = isinf(workspace->best.objective);
    double t_high = HUGE_VAL;
    if (!(workspace->best.is_set && graph->resources > 0)) { /* else the bound will do */
        const double limit = stage_sum_limit(workspace, problem, t_low);
        bool found = false;
        TRY(solve_at(workspace, problem, HUGE_VAL, limit, &sum, &found, err));
        workspace->is_cut = workspace->is_cut || found || !is_free;
        if (!found)
            return MOSAIC_OK;
        t_high = workspace->trial.bottleneck;
    }
    size_t count = 0;
    TRY(stage_candidates(workspace, problem, t_low, t_high, sum, &count, err));
    return search_intervals(workspace, problem, count, sum, err);
}

static void write_result(const struct stage_workspace *workspace,
                         const struct stage_problem *problem, struct stage_result *result) {
    const struct stage_path *best = &workspace->best;
    result->has_choice = best->is_set;
    result->bound_s = isinf(workspace->bound) ? 0 : workspace->bound;
    if (workspace->is_limited)
        result->outcome = STAGE_LIMIT;
    else if (best->is_set)
        result->outcome = STAGE_OPTIMAL;
    else
        result->outcome = workspace->is_cut || problem->is_pruned ? STAGE_CUTOFF : STAGE_INFEASIBLE;
    if (!best->is_set)
        return;
    result->objective_s = best->objective;
    result->bottleneck_s = best->bottleneck;
    result->sum_s = best->sum;
    for (int i = 0; i < problem->stages; i++) {
        result->ends[i] = best->ends[i];
        result->policies[i] = best->policies[i];
        result->columns[i] = best->column[i];
    }
}

static enum mosaic_status solve_all(struct stage_workspace *workspace,
                                    const struct stage_problem *problem, struct status_error *err) {
    const struct stage_key *keys = NULL;
    TRY(sort_columns(workspace, problem, &keys, err));
    bool is_present[STAGE_POLICIES_MAX] = {false};
    for (size_t k = 0; k < problem->column_count; k++)
        is_present[problem->columns[k].policy] = true;
    for (int policy = 0; policy < STAGE_POLICIES_MAX; policy++) {
        if (!problem->policy_per_stage && !is_present[policy])
            continue;
        const enum mosaic_status status = solve_policy(
            workspace, problem, keys, problem->policy_per_stage ? NO_POLICY : policy, err);
        lp_free(workspace->lp);
        workspace->lp = NULL;
        TRY(status);
        if (problem->policy_per_stage)
            break;
    }
    return MOSAIC_OK;
}

enum mosaic_status stage_program_solve(struct stage_workspace *workspace,
                                       const struct stage_problem *problem,
                                       struct stage_result *result, struct status_error *err) {
    TRY(check_problem(problem, err));
    struct stage_result made;
    memset(&made, 0, sizeof made);
    workspace->result = &made;
    workspace->best.is_set = false;
    workspace->best.objective = problem->cutoff_s;
    workspace->is_cut = workspace->is_limited = false;
    workspace->bound = HUGE_VAL;
    const enum mosaic_status status = solve_all(workspace, problem, err);
    workspace->result = NULL;
    TRY(status);
    write_result(workspace, problem, &made);
    *result = made;
    return MOSAIC_OK;
}
