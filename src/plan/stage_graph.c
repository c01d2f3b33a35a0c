// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Shortest paths through the stage network, backwards and forwards:
 *   back(i, f) = min over arcs (i, f) -> e with t <= T of cost + back(i + 1, e).
 * Rounding is monotone, so back(0, 0) is the exact least of the sums taken from the end.
 */
#include "plan/stage_graph.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *stage_grow(void *old, size_t *room, size_t count, size_t size) {
    if (old && count <= *room)
        return old;
    free(old);
    *room = 0;
    const size_t wanted = count + count / 4 + 16; /* grows seldom */
    void *made = wanted < count || wanted > SIZE_MAX / size ? NULL : malloc(wanted * size);
    if (made)
        *room = wanted;
    return made;
}

static void free_arcs(struct stage_graph *graph) {
    free(graph->time);
    free(graph->priced);
    free(graph->last);
    free(graph->policy);
    free(graph->column);
    graph->time = graph->priced = NULL;
    graph->last = graph->policy = NULL;
    graph->column = NULL;
    graph->arc_room = 0;
}

static void free_nodes(struct stage_graph *graph) {
    free(graph->row_start);
    free(graph->back);
    free(graph->pick);
    graph->row_start = graph->pick = NULL;
    graph->back = NULL;
    graph->node_room = 0;
}

void graph_free(struct stage_graph *graph) {
    free_arcs(graph);
    free_nodes(graph);
    free(graph->load);
    graph->load = NULL;
    graph->load_room = 0;
}

static bool reserve(struct stage_graph *graph, size_t arcs) {
    if (arcs > graph->arc_room) {
        free_arcs(graph);
        graph->time = malloc(arcs * sizeof *graph->time);
        graph->priced = malloc(arcs * sizeof *graph->priced);
        graph->last = malloc(arcs * sizeof *graph->last);
        graph->policy = malloc(arcs * sizeof *graph->policy);
        graph->column = malloc(arcs * sizeof *graph->column);
        if (!graph->time || !graph->priced || !graph->last || !graph->policy || !graph->column)
            return false;
        graph->arc_room = arcs;
    }
    const size_t nodes = graph_nodes(graph) + 1;
    if (nodes > graph->node_room) {
        free_nodes(graph);
        graph->row_start = malloc(nodes * sizeof *graph->row_start);
        graph->back = malloc(nodes * sizeof *graph->back);
        graph->pick = malloc(nodes * sizeof *graph->pick);
        if (!graph->row_start || !graph->back || !graph->pick)
            return false;
        graph->node_room = nodes;
    }
    graph->load = stage_grow(graph->load, &graph->load_room, arcs * (size_t)graph->resources,
                             sizeof *graph->load);
    return graph->load != NULL;
}

/* Whether arc a can replace arc b in every best path. */
static bool dominates(const struct stage_graph *graph, size_t a, size_t b) {
    const double time_a = graph->time[a], time_b = graph->time[b];
    if (time_a > time_b || (time_a >= time_b && a > b))
        return false;
    const size_t n = (size_t)graph->resources;
    for (size_t r = 0; r < n; r++)
        if (graph->load[a * n + r] > graph->load[b * n + r])
            return false;
    return true;
}

static void move_arc(struct stage_graph *graph, size_t from, size_t to) {
    const size_t n = (size_t)graph->resources;
    graph->time[to] = graph->time[from];
    graph->last[to] = graph->last[from];
    graph->policy[to] = graph->policy[from];
    graph->column[to] = graph->column[from];
    if (from != to)
        memcpy(graph->load + to * n, graph->load + from * n, n * sizeof *graph->load);
}

/* The newest arc against those of the same stage and interval, which start at group. */
static void settle(struct stage_graph *graph, size_t group) {
    const size_t made = graph->arcs;
    for (size_t a = group; a < made; a++)
        if (dominates(graph, a, made))
            return;
    size_t kept = group;
    for (size_t a = group; a < made; a++)
        if (!dominates(graph, made, a))
            move_arc(graph, a, kept++);
    move_arc(graph, made, kept++);
    graph->arcs = kept;
}

static bool write_arc(struct stage_graph *graph, const struct stage_problem *problem,
                      const struct stage_column *column, size_t index) {
    const size_t n = (size_t)graph->resources, at = graph->arcs;
    for (size_t r = 0; r < n; r++) {
        const double use = problem->use[index * n + r], capacity = problem->capacity[r];
        if (use > capacity)
            return false;
        graph->load[at * n + r] = use > 0 ? use / capacity : 0;
    }
    graph->time[at] = column->time_s;
    graph->last[at] = column->last;
    graph->policy[at] = column->policy;
    graph->column[at] = index;
    return true;
}

enum mosaic_status graph_build(struct stage_graph *graph, const struct stage_problem *problem,
                               const struct stage_key *keys, int policy, struct status_error *err) {
    graph->stages = problem->stages;
    graph->width = problem->layers + 1;
    graph->resources = problem->resources;
    graph->arcs = 0;
    if (!reserve(graph, problem->column_count + 1))
        return status_no_memory(err);
    const size_t rows = (size_t)graph->stages * (size_t)graph->width;
    size_t row = 0, group = 0;
    graph->row_start[0] = 0;
    for (size_t k = 0; k < problem->column_count; k++) {
        const struct stage_column *column = keys ? &keys[k].column : &problem->columns[k];
        const size_t index = keys ? keys[k].index : k;
        if (policy != NO_POLICY && column->policy != policy)
            continue;
        const size_t at = (size_t)column->stage * (size_t)graph->width + (size_t)column->first;
        while (row < at)
            graph->row_start[++row] = graph->arcs;
        if (graph->arcs == graph->row_start[row] || graph->last[graph->arcs - 1] != column->last)
            group = graph->arcs;
        if (write_arc(graph, problem, column, index))
            settle(graph, group);
    }
    while (row < rows)
        graph->row_start[++row] = graph->arcs;
    return MOSAIC_OK;
}

double graph_back(const struct stage_graph *graph, const double *cost, double threshold,
                  double *back, size_t *pick) {
    const size_t width = (size_t)graph->width;
    const double *next = back + (size_t)graph->stages * width;
    for (size_t l = 0; l < width; l++)
        back[(size_t)graph->stages * width + l] = l + 1 == width ? 0 : HUGE_VAL;
    for (size_t row = (size_t)graph->stages * width; row-- > 0;) {
        double least = HUGE_VAL;
        size_t chosen = 0;
        if ((row + 1) % width == 0)
            next = back + row + 1;
        for (size_t a = graph->row_start[row]; a < graph->row_start[row + 1]; a++) {
            const double value = cost[a] + next[graph->last[a]];
            if (value < least && graph->time[a] <= threshold) {
                least = value;
                chosen = a;
            }
        }
        back[row] = least;
        if (pick)
            pick[row] = chosen;
    }
    return back[0];
}

void graph_forth(const struct stage_graph *graph, const double *cost, double *forth) {
    const size_t width = (size_t)graph->width, rows = (size_t)graph->stages * width;
    for (size_t node = 0; node < rows + width; node++)
        forth[node] = node == 0 ? 0 : HUGE_VAL;
    for (size_t row = 0; row < rows; row++) {
        if (isinf(forth[row]))
            continue;
        double *next = forth + (row / width + 1) * width;
        for (size_t a = graph->row_start[row]; a < graph->row_start[row + 1]; a++)
            if (forth[row] + cost[a] < next[graph->last[a]])
                next[graph->last[a]] = forth[row] + cost[a];
    }
}

double graph_bottleneck(const struct stage_graph *graph, double *scratch) {
    const size_t width = (size_t)graph->width, rows = (size_t)graph->stages * width;
    for (size_t l = 0; l < width; l++)
        scratch[rows + l] = l + 1 == width ? 0 : HUGE_VAL;
    for (size_t row = rows; row-- > 0;) {
        const double *next = scratch + (row / width + 1) * width;
        double least = HUGE_VAL;
        for (size_t a = graph->row_start[row]; a < graph->row_start[row + 1]; a++) {
            const double value = fmax(graph->time[a], next[graph->last[a]]);
            least = value < least ? value : least;
        }
        scratch[row] = least;
    }
    return scratch[0];
}

void graph_compact(struct stage_graph *graph, const bool *keep) {
    const size_t rows = (size_t)graph->stages * (size_t)graph->width;
    size_t kept = 0, a = 0;
    for (size_t row = 0; row < rows; row++) {
        const size_t end = graph->row_start[row + 1];
        graph->row_start[row] = kept;
        for (; a < end; a++)
            if (keep[a])
                move_arc(graph, a, kept++);
    }
    graph->row_start[rows] = kept;
    graph->arcs = kept;
}

void graph_price(struct stage_graph *graph, const double *prices) {
    const size_t n = (size_t)graph->resources;
    for (size_t a = 0; a < graph->arcs; a++) {
        double cost = graph->time[a];
        for (size_t r = 0; r < n; r++)
            cost += prices[r] * graph->load[a * n + r];
        graph->priced[a] = cost;
    }
}

void graph_follow(const struct stage_graph *graph, struct stage_path *path) {
    size_t first = 0;
    for (int i = 0; i < graph->stages; i++) {
        path->arc[i] = graph->pick[(size_t)i * (size_t)graph->width + first];
        first = (size_t)graph->last[path->arc[i]];
    }
}

void graph_evaluate(const struct stage_graph *graph, const struct stage_problem *problem,
                    struct stage_path *path) {
    path->sum = path->bottleneck = 0;
    for (int i = graph->stages - 1; i >= 0; i--) {
        const size_t a = path->arc[i];
        path->sum = graph->time[a] + path->sum;
        path->bottleneck = fmax(path->bottleneck, graph->time[a]);
        path->column[i] = graph->column[a];
        path->ends[i] = graph->last[a];
        path->policies[i] = graph->policy[a];
    }
    path->objective = stage_value(problem, path->bottleneck, path->sum);
    path->is_set = true;
}

bool graph_fits(const struct stage_problem *problem, const struct stage_path *path) {
    const size_t n = (size_t)problem->resources;
    for (size_t r = 0; r < n; r++) {
        double used = 0;
        for (int i = 0; i < problem->stages; i++)
            used += problem->use[path->column[i] * n + r];
        if (used > problem->capacity[r])
            return false;
    }
    return true;
}

double stage_value(const struct stage_problem *problem, double bottleneck, double sum) {
    return problem->bottleneck_weight * bottleneck + problem->sum_weight * sum +
           problem->constant_s;
}
