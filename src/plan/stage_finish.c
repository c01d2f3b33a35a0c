// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The stage program's finishing search: depth first over the stages, ends and policies rising.
 *
 * A partial path is left when even the cheapest rest is too long: sum + back(node), or with prices
 * u on the loads, priced sum + priced back(node) - sum u (weak duality); when some load cannot
 * stay within its capacity; or when an earlier partial path reached the same node with no larger
 * sum and no larger load of what later stages still use, since all that can follow followed there.
 * Sums closer than TIE_WIDTH (relative) are ties, which go to the lexicographically smallest ends,
 * then policies.
 */
#include "plan/stage_graph.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABELS_MAX = 50000, LABEL_WORK = 8 /* labels looked at for a node */ };
static const double LOAD_SLACK = 1e-9; /* leaves are judged in the caller's units */
static const double TIE_WIDTH = 1e-12;

struct stage_label {
    double sum, *load;
    int end, parent, next; /* next: of the same node; -1: none */
};

struct level {
    size_t row, arc; /* node (depth, first) and the arc tried there */
    double sum, priced, *load;
    int order; /* of the ends so far against those of the best: -1, 0, 1 */
    int label;
};

struct finish {
    struct stage_workspace *workspace;
    const struct stage_problem *problem;
    double threshold, limit, tie, offset;
    long nodes_max;
    long work; /* in nodes x LABEL_WORK */
    int labels;
    struct stage_path best;
    struct level levels[STAGE_MAX + 1];
    int last_user[STAGE_RESOURCES_MAX]; /* the last stage that uses a resource, -1 for none */
};

static int order_after(const struct finish *finish, int depth, size_t arc) {
    const int order = finish->levels[depth].order;
    if (order != 0 || !finish->best.is_set)
        return order;
    const int end = finish->workspace->graph.last[arc], best = finish->best.ends[depth];
    return end < best ? -1 : end > best;
}

static bool is_promising(const struct finish *finish, int depth, size_t arc) {
    const struct stage_graph *graph = &finish->workspace->graph;
    const struct level *level = &finish->levels[depth];
    const size_t nodes = graph_nodes(graph), n = (size_t)graph->resources;
    const double *rest = finish->workspace->nodes + (size_t)(depth + 1) * (size_t)graph->width +
                         (size_t)graph->last[arc];
    double limit = finish->limit;
    if (finish->best.is_set)
        limit = finish->best.sum + (order_after(finish, depth, arc) > 0 ? -1 : 1) * finish->tie;
    if (graph->time[arc] > finish->threshold || level->sum + graph->time[arc] + rest[0] > limit ||
        level->priced + graph->priced[arc] + rest[nodes] - finish->offset > limit)
        return false;
    for (size_t r = 0; r < n; r++)
        if (level->load[r] + graph->load[arc * n + r] + rest[(2 + r) * nodes] > 1 + LOAD_SLACK)
            return false;
    return true;
}

static bool is_earlier(const struct stage_path *a, const struct stage_path *b, int stages) {
    for (int i = 0; i < stages; i++)
        if (a->ends[i] != b->ends[i])
            return a->ends[i] < b->ends[i];
    for (int i = 0; i < stages; i++)
        if (a->policies[i] != b->policies[i])
            return a->policies[i] < b->policies[i];
    return false;
}

static void take_leaf(struct finish *finish) {
    struct stage_path *trial = &finish->workspace->trial;
    const int stages = finish->problem->stages;
    for (int i = 0; i < stages; i++)
        trial->arc[i] = finish->levels[i].arc;
    graph_evaluate(&finish->workspace->graph, finish->problem, trial);
    if (trial->sum > finish->limit || !graph_fits(finish->problem, trial))
        return;
    if (finish->best.is_set && trial->sum >= finish->best.sum - finish->tie &&
        !(trial->sum <= finish->best.sum + finish->tie && is_earlier(trial, &finish->best, stages)))
        return;
    finish->best = *trial;
    for (int i = 0; i < stages; i++)
        finish->levels[i].order = 0; /* this path is the best now */
}

/* Whether the ends on the way to label a come no later than those to b, both at one depth. */
static bool is_no_later(const struct stage_label *labels, int a, int b) {
    int order = 0; /* of the outermost stage that differs */
    for (; a != b && a >= 0 && b >= 0; a = labels[a].parent, b = labels[b].parent)
        if (labels[a].end != labels[b].end)
            order = labels[a].end < labels[b].end ? -1 : 1;
    return order <= 0;
}

/* Note the partial path at levels[depth]; false when an earlier one makes it needless. */
static bool enter(struct finish *finish, int depth) {
    struct stage_workspace *workspace = finish->workspace;
    struct level *level = &finish->levels[depth];
    struct stage_label *labels = workspace->labels;
    const size_t n = (size_t)workspace->graph.resources;
    if (finish->labels == LABELS_MAX) {
        level->label = -1;
        return true;
    }
    const int made = finish->labels;
    struct stage_label *label = &labels[made];
    label->sum = level->sum;
    label->load = workspace->label_loads + (size_t)made * n;
    assert(level->load && label->load);
    memcpy(label->load, level->load, n * sizeof *label->load);
    label->end = depth > 0 ? (int)(level->row % (size_t)workspace->graph.width) : 0;
    label->parent = depth > 0 ? finish->levels[depth - 1].label : -1;
    label->next = workspace->label_heads[level->row];
    for (int k = label->next; k >= 0; k = labels[k].next) {
        bool is_less = labels[k].sum <= label->sum + finish->tie;
        finish->work++;
        for (size_t r = 0; r < n && is_less; r++)
            is_less = labels[k].load[r] <= label->load[r] ||
                      (finish->last_user[r] < depth && labels[k].load[r] <= 1 - LOAD_SLACK);
        if (is_less && (labels[k].sum < label->sum - finish->tie || is_no_later(labels, k, made)))
            return false;
    }
    level->label = made;
    workspace->label_heads[level->row] = made;
    finish->labels++;
    return true;
}

static void descend(struct finish *finish, int depth) {
    const struct stage_graph *graph = &finish->workspace->graph;
    const struct level *from = &finish->levels[depth];
    struct level *to = &finish->levels[depth + 1];
    const size_t n = (size_t)graph->resources, arc = from->arc;
    to->sum = from->sum + graph->time[arc];
    to->priced = from->priced + graph->priced[arc];
    for (size_t r = 0; r < n; r++)
        to->load[r] = from->load[r] + graph->load[arc * n + r];
    to->order = order_after(finish, depth, arc);
    to->row = (size_t)(depth + 1) * (size_t)graph->width + (size_t)graph->last[arc];
    to->arc = graph->row_start[to->row];
}

/* False when the nodes ran out. */
static bool search_paths(struct finish *finish) {
    const struct stage_graph *graph = &finish->workspace->graph;
    int depth = 0;
    const size_t n = (size_t)graph->resources;
    for (int i = 0; i <= graph->stages; i++)
        finish->levels[i] = (struct level){.load = finish->workspace->level_loads + (size_t)i * n};
    assert(finish->levels[0].load); /* there are resources */
    memset(finish->levels[0].load, 0, n * sizeof *finish->levels[0].load);
    finish->levels[0].arc = graph->row_start[0];
    (void)enter(finish, 0);
    while (depth >= 0) {
        struct level *level = &finish->levels[depth];
        if (level->arc >= graph->row_start[level->row + 1]) {
            depth--;
            if (depth >= 0)
                finish->levels[depth].arc++;
            continue;
        }
        finish->work += LABEL_WORK;
        if (finish->work / LABEL_WORK > finish->nodes_max)
            return false;
        if (!is_promising(finish, depth, level->arc)) {
            level->arc++;
        } else if (depth == graph->stages - 1) {
            take_leaf(finish);
            level->arc++;
        } else {
            descend(finish, depth);
            if (enter(finish, depth + 1))
                depth++;
            else
                level->arc++;
        }
    }
    return true;
}

/* Least rests in time, in priced time and in every load. */
static void prepare(struct finish *finish) {
    struct stage_workspace *workspace = finish->workspace;
    struct stage_graph *graph = &workspace->graph;
    const size_t nodes = graph_nodes(graph), n = (size_t)graph->resources;
    const double threshold = finish->threshold;
    double *back = workspace->nodes;
    for (size_t r = 0; r < n; r++) {
        finish->offset += workspace->prices[r];
        finish->last_user[r] = -1;
        for (size_t a = 0; a < graph->arcs; a++)
            graph->priced[a] = graph->load[a * n + r];
        for (size_t row = nodes - (size_t)graph->width; row-- > 0 && finish->last_user[r] < 0;)
            for (size_t a = graph->row_start[row]; a < graph->row_start[row + 1]; a++)
                if (graph->priced[a] > 0)
                    finish->last_user[r] = (int)(row / (size_t)graph->width);
        (void)graph_back(graph, graph->priced, threshold, back + (2 + r) * nodes, NULL);
    }
    finish->tie = TIE_WIDTH * (workspace->sum_max + finish->offset);
    graph_price(graph, workspace->prices);
    (void)graph_back(graph, graph->time, threshold, back, NULL);
    (void)graph_back(graph, graph->priced, threshold, back + nodes, NULL);
    workspace->result->programs += 2 + graph->resources;
    for (size_t node = 0; node < nodes; node++)
        workspace->label_heads[node] = -1;
}

enum mosaic_status finish_search(struct stage_workspace *workspace,
                                 const struct stage_problem *problem,
                                 const struct finish_limits *limits, bool *found, bool *is_complete,
                                 struct status_error *err) {
    struct finish finish = {.workspace = workspace,
                            .problem = problem,
                            .threshold = limits->threshold,
                            .limit = limits->sum_limit,
                            .nodes_max = limits->nodes};
    workspace->labels = stage_grow(workspace->labels, &workspace->label_room, LABELS_MAX,
                                   sizeof *workspace->labels);
    workspace->label_heads = stage_grow(workspace->label_heads, &workspace->head_room,
                                        graph_nodes(&workspace->graph), sizeof(int));
    const size_t n = (size_t)workspace->graph.resources + 1; /* not without any */
    workspace->label_loads = stage_grow(workspace->label_loads, &workspace->label_load_room,
                                        LABELS_MAX * n, sizeof(double));
    workspace->level_loads = stage_grow(workspace->level_loads, &workspace->level_load_room,
                                        (STAGE_MAX + 1) * n, sizeof(double));
    if (!workspace->labels || !workspace->label_heads || !workspace->label_loads ||
        !workspace->level_loads)
        return status_no_memory(err);
    if (*found && workspace->trial.sum <= limits->sum_limit)
        finish.best = workspace->trial;
    prepare(&finish);
    *is_complete = search_paths(&finish);
    workspace->result->nodes += finish.work / LABEL_WORK;
    *found = finish.best.is_set;
    if (*found)
        workspace->trial = finish.best;
    return MOSAIC_OK;
}
