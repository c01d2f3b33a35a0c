// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The stage program when resources are shared between stages.
 *
 *   minimise sum t_a x_a + penalty sum_r s_r
 *   subject to  one unit of flow from (0, 0) to (p, L),  sum load_ra x_a - s_r <= 1,
 *               x in [0, 1],  arcs slower than T fixed at 0
 *
 * The rows' multipliers price the resources (load and capacity are divided by the capacity).  For
 * any prices u >= 0, (shortest path under t + u load) - sum u is a lower bound, since the paths
 * are the vertices of the flow polytope.
 */
#include "plan/stage_graph.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PRICE_STEPS = 12, /* each 4 times the last */
    BISECTIONS = 6,
    FLOOR_PROBES = 60,
    QUICK_NODES_MAX = 5000, /* of the finishing search before the linear solver is asked */
    FINISH_NODES_MAX = 500000,
    TREE_WORK_MAX = 200000, /* nodes x arcs */
    ORACLE_TREE_NODES = 20000,
    PENALTY_RAISES = 5
};
static const double PENALTY_START = 16;  /* times the longest path */
static const double PENALTY_FACTOR = 64; /* at each raise */
static const double CUTOFF_SLACK = 1e-9; /* the solver's own tolerance is wider; we re-check */
static const double LOAD_SLACK = 1e-9;
static const double OVERLOAD_SEEN = 1e-9;
static const double DISAGREEMENT = 1e-6;

/* ---- prices and filter ---- */

/* Drop arcs that lie on no path with a value up to the best, judged by cost less offset. */
static void filter(struct stage_workspace *workspace, const struct stage_problem *problem,
                   const double *cost, double offset, double t_low) {
    struct stage_graph *graph = &workspace->graph;
    const double best = workspace->best.objective;
    const bool is_free = problem->method == STAGE_GLPK; /* only what reaches nowhere goes */
    const double limit = is_free || isinf(best) ? HUGE_VAL : best + CUTOFF_SLACK * fabs(best);
    const double sum_limit = is_free ? HUGE_VAL : stage_sum_limit(workspace, problem, t_low);
    const size_t width = (size_t)graph->width, rows = (size_t)graph->stages * width;
    double *forth = workspace->nodes, *back = workspace->nodes + graph_nodes(graph);
    graph_forth(graph, cost, forth);
    (void)graph_back(graph, cost, HUGE_VAL, back, NULL);
    for (size_t row = 0; row < rows; row++) {
        const double *next = back + (row / width + 1) * width;
        for (size_t a = graph->row_start[row]; a < graph->row_start[row + 1]; a++) {
            const double through = forth[row] + cost[a] + next[graph->last[a]];
            workspace->is_shut[a] = /* here: keep */
                isfinite(through) && through - offset <= sum_limit &&
                stage_value(problem, fmax(t_low, graph->time[a]), through - offset) <= limit;
        }
    }
    graph_compact(graph, workspace->is_shut);
}

static double set_prices(struct stage_workspace *workspace, double price) {
    for (int r = 0; r < workspace->graph.resources; r++)
        workspace->prices[r] = price;
    graph_price(&workspace->graph, workspace->prices);
    return price * workspace->graph.resources;
}

/* What trying prices at one threshold found: the best bound on the sum, and its price. */
struct probe {
    double threshold, bound, price;
};

/* Whether the best path under one price for every resource fits; offers it then. */
static bool try_price(struct stage_workspace *workspace, const struct stage_problem *problem,
                      double price, struct probe *probe) {
    struct stage_graph *graph = &workspace->graph;
    const double offset = set_prices(workspace, price);
    workspace->result->programs++;
    const double least =
        graph_back(graph, graph->priced, probe->threshold, graph->back, graph->pick);
    const int roundings = graph->stages + graph->resources + 4;
    const double bound = least - offset - roundings * DBL_EPSILON * (least + offset);
    if (isinf(least) || bound > probe->bound) {
        probe->bound = isinf(least) ? least : bound;
        probe->price = price;
    }
    if (isinf(least))
        return true; /* no path at any price */
    graph_follow(graph, &workspace->trial);
    graph_evaluate(graph, problem, &workspace->trial);
    if (!graph_fits(problem, &workspace->trial))
        return false;
    stage_offer(workspace, problem);
    return true;
}

/* The bound is concave in the price, and highest about where the path begins to fit. */
static struct probe probe_prices(struct stage_workspace *workspace,
                                 const struct stage_problem *problem, double threshold) {
    struct probe probe = {threshold, -HUGE_VAL, 0};
    if (try_price(workspace, problem, 0, &probe))
        return probe;
    double low = 0, high = workspace->sum_max / 64;
    int step = 0;
    while (step < PRICE_STEPS && !try_price(workspace, problem, high, &probe)) {
        low = high;
        high *= 4;
        step++;
    }
    for (int k = 0; k < BISECTIONS && step < PRICE_STEPS; k++) {
        const double middle = low + (high - low) / 2;
        if (try_price(workspace, problem, middle, &probe))
            high = middle;
        else
            low = middle;
    }
    return probe;
}

/* Raise *t_low over the bottlenecks that the probes' bounds close; HUGE_VAL when all are. */
static enum mosaic_status raise_floor(struct stage_workspace *workspace,
                                      const struct stage_problem *problem, double sum_bound,
                                      double *t_low, struct status_error *err) {
    size_t count = 0, begin = 0, step = 1;
    TRY(stage_candidates(workspace, problem, *t_low, HUGE_VAL, sum_bound, &count, err));
    const double *list = workspace->candidates;
    for (int k = 0; k < FLOOR_PROBES && begin < count; k++) {
        const size_t at = begin + step <= count ? begin + step - 1 : count - 1;
        const struct probe probe = probe_prices(workspace, problem, list[at]);
        if (stage_is_hopeless(workspace, problem, list[begin], probe.bound)) {
            begin = at + 1; /* the least sum only falls with the bottleneck */
            step *= 2;
        } else if (step > 1) {
            step /= 2;
        } else {
            break;
        }
    }
    *t_low = begin < count ? list[begin] : HUGE_VAL;
    return MOSAIC_OK;
}

enum mosaic_status rows_prepare(struct stage_workspace *workspace,
                                const struct stage_problem *problem, double *t_low,
                                double *sum_bound, struct status_error *err) {
    struct stage_graph *graph = &workspace->graph;
    workspace->is_shut =
        stage_grow(workspace->is_shut, &workspace->shut_room, graph->arcs + 1, sizeof(bool));
    if (!workspace->is_shut)
        return status_no_memory(err);
    filter(workspace, problem, graph->time, 0, *t_low);
    if (graph->resources == 0 || problem->method == STAGE_GLPK || graph->arcs == 0)
        return MOSAIC_OK;
    (void)probe_prices(workspace, problem, *t_low);
    const struct probe probe = probe_prices(workspace, problem, HUGE_VAL);
    *sum_bound = fmax(*sum_bound, probe.bound);
    filter(workspace, problem, graph->priced, set_prices(workspace, probe.price), *t_low);
    if (!workspace->best.is_set || graph->arcs == 0)
        return MOSAIC_OK;
    TRY(raise_floor(workspace, problem, *sum_bound, t_low, err));
    filter(workspace, problem, graph->priced, set_prices(workspace, probe.price), *t_low);
    const struct probe low = probe_prices(workspace, problem, *t_low);
    filter(workspace, problem, graph->priced, set_prices(workspace, low.price), *t_low);
    return MOSAIC_OK;
}

/* ---- the linear program ---- */

struct layout {
    size_t rows, columns, entries, flow_rows;
    int *row_of; /* [node] or -1 */
    int *entry_row;
    double *row_lower, *row_upper, *column_lower, *column_upper, *cost, *value;
    size_t *start;
};

/* Times enter multiplied by this power of two, so that costs are about 1 and stay exact. */
static double cost_scale(const struct stage_workspace *workspace) {
    int exponent = 0;
    if (workspace->sum_max > 0)
        (void)frexp(workspace->sum_max / workspace->graph.stages, &exponent);
    return ldexp(1, -exponent);
}

/* Number the nodes that an arc leaves or enters, but for the sink: the flow's rows. */
static size_t number_nodes(const struct stage_graph *graph, int *row_of) {
    const size_t width = (size_t)graph->width, rows = (size_t)graph->stages * width;
    for (size_t node = 0; node < rows + width; node++)
        row_of[node] = -1;
    for (size_t row = 0; row < rows; row++)
        for (size_t a = graph->row_start[row]; a < graph->row_start[row + 1]; a++) {
            row_of[row] = 0;
            row_of[(row / width + 1) * width + (size_t)graph->last[a]] = 0;
        }
    row_of[rows + width - 1] = -1;
    int made = 0;
    for (size_t node = 0; node < rows + width; node++)
        if (row_of[node] == 0)
            row_of[node] = made++;
    return (size_t)made;
}

static bool reserve_layout(struct stage_workspace *workspace, struct layout *layout) {
    const struct stage_graph *graph = &workspace->graph;
    const size_t n = (size_t)graph->resources, nodes = graph_nodes(graph);
    layout->columns = graph->arcs + n;
    layout->entries = graph->arcs * (2 + n) + n;
    workspace->lp_rows =
        stage_grow(workspace->lp_rows, &workspace->row_room, nodes + layout->entries, sizeof(int));
    workspace->lp_starts = stage_grow(workspace->lp_starts, &workspace->start_room,
                                      layout->columns + 1, sizeof(size_t));
    if (!workspace->lp_rows || !workspace->lp_starts)
        return false;
    layout->row_of = workspace->lp_rows;
    layout->entry_row = workspace->lp_rows + nodes;
    layout->start = workspace->lp_starts;
    layout->flow_rows = number_nodes(graph, layout->row_of);
    layout->rows = layout->flow_rows + n;
    workspace->lp_numbers =
        stage_grow(workspace->lp_numbers, &workspace->number_room,
                   2 * layout->rows + 3 * layout->columns + layout->entries, sizeof(double));
    if (!workspace->lp_numbers)
        return false;
    layout->row_lower = workspace->lp_numbers;
    layout->row_upper = layout->row_lower + layout->rows;
    layout->column_lower = layout->row_upper + layout->rows;
    layout->column_upper = layout->column_lower + layout->columns;
    layout->cost = layout->column_upper + layout->columns;
    layout->value = layout->cost + layout->columns;
    return true;
}

static void write_entry(struct layout *layout, size_t *at, size_t row, double value) {
    layout->entry_row[*at] = (int)row;
    layout->value[(*at)++] = value;
}

static void write_arcs(const struct stage_graph *graph, double scale, struct layout *layout,
                       size_t *at) {
    const size_t width = (size_t)graph->width, rows = (size_t)graph->stages * width;
    const size_t n = (size_t)graph->resources;
    for (size_t row = 0; row < rows; row++)
        for (size_t a = graph->row_start[row]; a < graph->row_start[row + 1]; a++) {
            const int head = layout->row_of[(row / width + 1) * width + (size_t)graph->last[a]];
            layout->start[a] = *at;
            layout->cost[a] = graph->time[a] * scale;
            layout->column_lower[a] = 0;
            layout->column_upper[a] = 1;
            write_entry(layout, at, (size_t)layout->row_of[row], 1);
            if (head >= 0)
                write_entry(layout, at, (size_t)head, -1);
            for (size_t r = 0; r < n; r++)
                if (graph->load[a * n + r] > 0)
                    write_entry(layout, at, layout->flow_rows + r, graph->load[a * n + r]);
        }
}

static enum mosaic_status build_lp(struct stage_workspace *workspace, struct status_error *err) {
    const struct stage_graph *graph = &workspace->graph;
    const double scale = cost_scale(workspace);
    struct layout layout;
    if (!reserve_layout(workspace, &layout))
        return status_no_memory(err);
    workspace->penalty = fmax(PENALTY_START * workspace->sum_max * scale, 1);
    size_t at = 0;
    write_arcs(graph, scale, &layout, &at);
    for (size_t r = 0; r < (size_t)graph->resources; r++) {
        layout.start[graph->arcs + r] = at;
        layout.cost[graph->arcs + r] = workspace->penalty;
        layout.column_lower[graph->arcs + r] = 0;
        layout.column_upper[graph->arcs + r] = graph->stages; /* every load is at most 1 */
        write_entry(&layout, &at, layout.flow_rows + r, -1);
    }
    layout.start[layout.columns] = at;
    for (size_t i = 0; i < layout.rows; i++) {
        const bool is_flow = i < layout.flow_rows;
        layout.row_upper[i] = is_flow ? (i == 0 ? 1 : 0) : 1 + LOAD_SLACK;
        layout.row_lower[i] = is_flow ? layout.row_upper[i] : -HUGE_VAL;
    }
    memset(workspace->is_shut, 0, graph->arcs * sizeof(bool));
    TRY(lp_new(&workspace->lp, err));
    const struct lp_model model = {(int)layout.rows, (int)layout.columns, layout.row_lower,
                                   layout.row_upper, layout.column_lower, layout.column_upper,
                                   layout.cost,      layout.start,        layout.entry_row,
                                   layout.value};
    return lp_load(workspace->lp, &model, err);
}

static enum mosaic_status shut_slow_arcs(struct stage_workspace *workspace, double threshold,
                                         struct status_error *err) {
    const struct stage_graph *graph = &workspace->graph;
    for (size_t a = 0; a < graph->arcs; a++) {
        const bool is_slow = graph->time[a] > threshold;
        if (is_slow == workspace->is_shut[a])
            continue;
        workspace->is_shut[a] = is_slow;
        TRY(lp_set_column_bounds(workspace->lp, (int)a, 0, is_slow ? 0 : 1, err));
    }
    return MOSAIC_OK;
}

static enum mosaic_status raise_penalty(struct stage_workspace *workspace,
                                        struct status_error *err) {
    workspace->penalty *= PENALTY_FACTOR;
    for (int r = 0; r < workspace->graph.resources; r++)
        TRY(lp_set_cost(workspace->lp, (int)workspace->graph.arcs + r, workspace->penalty, err));
    return MOSAIC_OK;
}

static bool is_overloaded(const struct stage_workspace *workspace) {
    const double *x = lp_primal(workspace->lp) + workspace->graph.arcs;
    for (int r = 0; r < workspace->graph.resources; r++)
        if (x[r] > OVERLOAD_SEEN)
            return true;
    return false;
}

/* Solve the relaxation until its bound decides, or it keeps within the capacities. */
static enum mosaic_status relax(struct stage_workspace *workspace, double sum_limit, double *bound,
                                enum lp_outcome *outcome, struct status_error *err) {
    const double scale = cost_scale(workspace);
    double cutoff = sum_limit * scale * (1 + CUTOFF_SLACK) + CUTOFF_SLACK;
    for (int raises = 0;;) {
        workspace->result->relaxations++;
        *outcome = lp_solve(workspace->lp, cutoff, err);
        if (*outcome == LP_FAILURE)
            return err ? err->status : MOSAIC_NUMERIC;
        if (*outcome == LP_INFEASIBLE || *outcome == LP_LIMIT)
            return MOSAIC_OK;
        *bound = lp_bound(workspace->lp) / scale;
        if (*bound > sum_limit)
            return MOSAIC_OK;
        if (*outcome == LP_CUTOFF && cutoff < HUGE_VAL)
            cutoff = HUGE_VAL; /* stopped by tolerance alone: to the end */
        else if (is_overloaded(workspace) && raises++ < PENALTY_RAISES)
            TRY(raise_penalty(workspace, err));
        else
            return MOSAIC_OK;
    }
}

/* The path that the solver chose, into trial. */
static enum mosaic_status read_path(struct stage_workspace *workspace,
                                    const struct stage_problem *problem, struct status_error *err) {
    const struct stage_graph *graph = &workspace->graph;
    const double *x = lp_primal(workspace->lp);
    size_t first = 0;
    for (int i = 0; i < graph->stages; i++) {
        const size_t row = (size_t)i * (size_t)graph->width + first;
        size_t a = graph->row_start[row];
        while (a < graph->row_start[row + 1] && x[a] < 0.5)
            a++;
        if (a == graph->row_start[row + 1])
            return status_set(err, MOSAIC_NUMERIC, "linear solver's choice is no path");
        workspace->trial.arc[i] = a;
        first = (size_t)graph->last[a];
    }
    graph_evaluate(graph, problem, &workspace->trial);
    return MOSAIC_OK;
}

/* ---- one bottleneck value ---- */

/* Branch and bound: a path that fits into trial (*has_path), or none; *is_done: within the nodes.
 */
static enum mosaic_status branch(struct stage_workspace *workspace,
                                 const struct stage_problem *problem, double sum_limit,
                                 bool *has_path, bool *is_done, struct status_error *err) {
    const double cutoff = sum_limit * cost_scale(workspace) * (1 + CUTOFF_SLACK) + CUTOFF_SLACK;
    workspace->result->trees++;
    const int nodes = problem->method == STAGE_GLPK
                          ? ORACLE_TREE_NODES
                          : (int)(TREE_WORK_MAX / workspace->graph.arcs) + 1;
    const enum lp_outcome outcome = lp_solve_integer(workspace->lp, cutoff, nodes, err);
    if (outcome == LP_FAILURE)
        return err ? err->status : MOSAIC_NUMERIC;
    *has_path = false;
    if (outcome == LP_OPTIMAL) {
        TRY(read_path(workspace, problem, err));
        *has_path = graph_fits(problem, &workspace->trial); /* to the last bit */
    }
    *is_done = *has_path || outcome == LP_CUTOFF || outcome == LP_INFEASIBLE;
    return MOSAIC_OK;
}

/* The relaxation's answer made exact: by the finishing search, from the solver's path if it has
 * one; by the solver's tree where that search gives up.  The oracle asks for the tree always. */
static enum mosaic_status conclude(struct stage_workspace *workspace,
                                   const struct stage_problem *problem, double threshold,
                                   double sum_limit, bool *found, struct status_error *err) {
    const bool is_whole = lp_is_integral(workspace->lp);
    bool has_path = false, is_done = false;
    if (is_whole) {
        TRY(read_path(workspace, problem, err));
        has_path = is_done = graph_fits(problem, &workspace->trial);
    }
    if (!is_whole && problem->method == STAGE_GLPK)
        TRY(branch(workspace, problem, sum_limit, &has_path, &is_done, err));
    const double claimed = has_path ? workspace->trial.sum : is_done ? sum_limit : HUGE_VAL;
    bool is_complete = false;
    *found = has_path;
    const struct finish_limits limits = {threshold, sum_limit, FINISH_NODES_MAX};
    TRY(finish_search(workspace, problem, &limits, found, &is_complete, err));
    if (*found && is_done && workspace->trial.sum < claimed - DISAGREEMENT * workspace->sum_max)
        return status_set(err, MOSAIC_NUMERIC,
                          "linear solver and search disagree: sum %.17g against %.17g", claimed,
                          workspace->trial.sum);
    if (!is_complete && !is_done && problem->method != STAGE_GLPK) {
        const struct stage_path kept = workspace->trial;
        TRY(branch(workspace, problem, sum_limit, &has_path, &is_done, err));
        if (*found && !(has_path && workspace->trial.sum < kept.sum))
            workspace->trial = kept;
        *found = *found || has_path;
    }
    workspace->is_limited = workspace->is_limited || !(is_complete || is_done);
    return MOSAIC_OK;
}

/* Without the linear solver: by the best single price and a short search.  *is_done tells. */
static enum mosaic_status solve_quickly(struct stage_workspace *workspace,
                                        const struct stage_problem *problem,
                                        const struct finish_limits *limits, double *bound,
                                        bool *found, bool *is_done, struct status_error *err) {
    const struct probe probe = probe_prices(workspace, problem, limits->threshold);
    *bound = probe.bound;
    *is_done = probe.bound > limits->sum_limit;
    *found = false;
    if (*is_done)
        return MOSAIC_OK;
    (void)set_prices(workspace, probe.price);
    TRY(finish_search(workspace, problem, limits, found, is_done, err));
    *found = *found && *is_done;
    return MOSAIC_OK;
}

enum mosaic_status rows_solve(struct stage_workspace *workspace,
                              const struct stage_problem *problem, double threshold,
                              double sum_limit, double *bound, bool *found,
                              struct status_error *err) {
    *found = false;
    *bound = HUGE_VAL;
    if (workspace->graph.arcs == 0)
        return MOSAIC_OK;
    if (problem->method != STAGE_GLPK) {
        const struct finish_limits limits = {threshold, sum_limit, QUICK_NODES_MAX};
        bool is_done = false;
        TRY(chain_solve(workspace, problem, &limits, found, &is_done, err));
        *bound = *found ? workspace->trial.sum : sum_limit;
        if (is_done)
            return MOSAIC_OK;
        TRY(solve_quickly(workspace, problem, &limits, bound, found, &is_done, err));
        if (is_done)
            return MOSAIC_OK;
    }
    if (!workspace->lp)
        TRY(build_lp(workspace, err));
    TRY(shut_slow_arcs(workspace, threshold, err));
    enum lp_outcome outcome = LP_FAILURE;
    double least = -HUGE_VAL;
    TRY(relax(workspace, sum_limit, &least, &outcome, err));
    const struct stage_graph *graph = &workspace->graph;
    if (outcome == LP_INFEASIBLE) { /* only the network can be: the capacities are elastic */
        if (isinf(graph_back(graph, graph->time, threshold, workspace->nodes, NULL)))
            return MOSAIC_OK;
        return status_set(err, MOSAIC_NUMERIC, "linear solver finds no path where there is one");
    }
    *bound = least;
    if (least > sum_limit)
        return MOSAIC_OK;
    const double scale = cost_scale(workspace);
    const double *dual = lp_dual(workspace->lp);
    const int flow_rows = lp_rows(workspace->lp) - graph->resources;
    for (int r = 0; r < graph->resources; r++)
        workspace->prices[r] = fmax(0, -dual[flow_rows + r]) / scale;
    return conclude(workspace, problem, threshold, sum_limit, found, err);
}
