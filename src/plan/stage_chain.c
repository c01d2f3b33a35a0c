// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The stage program where each shared row is of a few stages in a row, as the nodes of a pipeline
 * are: an exact dynamic program.  Between two stages only rows with users on both sides are open.
 * Going from the last stage to the first, every node of the network keeps the partial paths that no
 * other one beats in sum and in the loads of the open rows; ties go to the smaller ends, then
 * policies.  Where nothing is open that is the shortest path's single one.
 */
#include "plan/stage_graph.h"

#include <math.h>
#include <string.h>

enum { OPEN_MAX = 2, CHAIN_LABELS_MAX = 400000, NO_LABEL = -1 };
static const double LOAD_SLACK = 1e-9; /* the path is judged in the caller's units at the end */

struct chain_label {
    double sum, load[OPEN_MAX];
    size_t arc;
    int next; /* label at the arc's head */
};

/* Rows that are open before a stage, and what the stages before it load them with at least. */
struct boundary {
    int count, rows[OPEN_MAX];
    double least[OPEN_MAX];
};

struct chain {
    struct stage_workspace *workspace;
    const struct stage_graph *graph;
    const struct finish_limits *limits;
    const double *forth; /* [node] least sum on the way there */
    int *begin;          /* [node] its labels: begin[node] .. begin[node] + count[node] - 1 */
    int *count;
    int labels;
    struct boundary boundaries[STAGE_MAX + 1];
};

/* The smallest load that any column of a stage puts on a row; *uses: some column does. */
static double least_load(const struct stage_graph *graph, int stage, size_t row, bool *uses) {
    const size_t width = (size_t)graph->width, n = (size_t)graph->resources;
    const size_t first = graph->row_start[(size_t)stage * width],
                 end = graph->row_start[((size_t)stage + 1) * width];
    double least = HUGE_VAL;
    *uses = false;
    for (size_t a = first; a < end; a++) {
        least = fmin(least, graph->load[a * n + row]);
        *uses = *uses || graph->load[a * n + row] > 0;
    }
    return least;
}

/* False when too many rows are open at once. */
static bool find_boundaries(struct chain *chain) {
    const struct stage_graph *graph = chain->graph;
    memset(chain->boundaries, 0, sizeof chain->boundaries);
    for (int r = 0; r < graph->resources; r++) {
        int first = -1, last = -1;
        double before = 0, least[STAGE_MAX + 1];
        for (int i = 0; i < graph->stages; i++) {
            bool uses;
            const double own = least_load(graph, i, (size_t)r, &uses);
            least[i] = before;
            before += own;
            first = first < 0 && uses ? i : first;
            last = uses ? i : last;
        }
        for (int i = first + 1; first >= 0 && i <= last; i++) {
            struct boundary *b = &chain->boundaries[i];
            if (b->count == OPEN_MAX)
                return false;
            b->least[b->count] = least[i];
            b->rows[b->count++] = r;
        }
    }
    return true;
}

static int compare_chains(const struct chain *chain, const struct chain_label *a,
                          const struct chain_label *b) {
    const struct chain_label *labels = chain->workspace->chain_labels;
    const struct stage_graph *graph = chain->graph;
    int policies = 0;
    for (;;) {
        if (graph->last[a->arc] != graph->last[b->arc])
            return graph->last[a->arc] < graph->last[b->arc] ? -1 : 1;
        if (policies == 0 && graph->policy[a->arc] != graph->policy[b->arc])
            policies = graph->policy[a->arc] < graph->policy[b->arc] ? -1 : 1;
        if (a->next == b->next) /* the sink, or the same rest */
            return policies;
        a = &labels[a->next];
        b = &labels[b->next];
    }
}

static bool beats(const struct chain *chain, const struct chain_label *a,
                  const struct chain_label *b, int open) {
    if (a->sum > b->sum)
        return false;
    for (int k = 0; k < open; k++)
        if (a->load[k] > b->load[k])
            return false;
    return a->sum < b->sum || compare_chains(chain, a, b) <= 0;
}

/* Among the labels of a node, which end the list; false when there is no room. */
static bool keep(struct chain *chain, size_t node, const struct chain_label *made, int open) {
    struct chain_label *list = chain->workspace->chain_labels + chain->begin[node];
    const int count = chain->count[node];
    for (int k = 0; k < count; k++)
        if (beats(chain, &list[k], made, open))
            return true;
    int kept = 0;
    for (int k = 0; k < count; k++)
        if (!beats(chain, made, &list[k], open))
            list[kept++] = list[k];
    if (chain->begin[node] + kept == CHAIN_LABELS_MAX)
        return false;
    list[kept++] = *made;
    chain->count[node] = kept;
    chain->labels = chain->begin[node] + kept;
    return true;
}

static double load_at(const struct boundary *b, const struct chain_label *label, int row) {
    for (int k = 0; k < b->count; k++)
        if (b->rows[k] == row)
            return label->load[k];
    return 0;
}

/* The label with the arc in front; false when a row overflows. */
static bool extend(const struct chain *chain, int stage, size_t arc, int next,
                   struct chain_label *made) {
    const struct stage_graph *graph = chain->graph;
    const struct chain_label *rest = &chain->workspace->chain_labels[next];
    const struct boundary *before = &chain->boundaries[stage],
                          *after = &chain->boundaries[stage + 1];
    const double *load = graph->load + arc * (size_t)graph->resources;
    *made = (struct chain_label){.sum = graph->time[arc] + rest->sum, .arc = arc, .next = next};
    for (int k = 0; k < after->count; k++)
        if (load[after->rows[k]] + rest->load[k] > 1 + LOAD_SLACK)
            return false;
    for (int k = 0; k < before->count; k++) {
        made->load[k] = load[before->rows[k]] + load_at(after, rest, before->rows[k]);
        if (made->load[k] + before->least[k] > 1 + LOAD_SLACK)
            return false;
    }
    return true;
}

/* All labels of one node; false when there is no room. */
static bool fill_node(struct chain *chain, size_t node) {
    const struct stage_graph *graph = chain->graph;
    const size_t width = (size_t)graph->width;
    const int stage = (int)(node / width), open = chain->boundaries[stage].count;
    const size_t heads = ((size_t)stage + 1) * width;
    chain->begin[node] = chain->labels;
    chain->count[node] = 0;
    if (isinf(chain->forth[node]))
        return true;
    for (size_t a = graph->row_start[node]; a < graph->row_start[node + 1]; a++) {
        const size_t head = heads + (size_t)graph->last[a];
        if (graph->time[a] > chain->limits->threshold)
            continue;
        for (int k = 0; k < chain->count[head]; k++) {
            struct chain_label made;
            if (extend(chain, stage, a, chain->begin[head] + k, &made) &&
                chain->forth[node] + made.sum <= chain->limits->sum_limit &&
                !keep(chain, node, &made, open))
                return false;
        }
    }
    return true;
}

static bool open_rooms(struct stage_workspace *workspace, size_t nodes) {
    workspace->chain_labels = stage_grow(workspace->chain_labels, &workspace->chain_room,
                                         CHAIN_LABELS_MAX, sizeof *workspace->chain_labels);
    workspace->chain_lists =
        stage_grow(workspace->chain_lists, &workspace->list_room, 2 * nodes, sizeof(int));
    return workspace->chain_labels && workspace->chain_lists;
}

/* The only label of the source. */
static void follow(const struct chain *chain, struct stage_path *path) {
    const struct chain_label *label = chain->workspace->chain_labels + chain->begin[0];
    for (int i = 0; i < chain->graph->stages; i++) {
        path->arc[i] = label->arc;
        label = &chain->workspace->chain_labels[label->next];
    }
}

enum mosaic_status chain_solve(struct stage_workspace *workspace,
                               const struct stage_problem *problem,
                               const struct finish_limits *limits, bool *found, bool *is_done,
                               struct status_error *err) {
    const struct stage_graph *graph = &workspace->graph;
    const size_t nodes = graph_nodes(graph), rows = nodes - (size_t)graph->width;
    struct chain chain = {.workspace = workspace, .graph = graph, .limits = limits};
    *found = *is_done = false;
    if (!find_boundaries(&chain))
        return MOSAIC_OK;
    if (!open_rooms(workspace, nodes))
        return status_no_memory(err);
    chain.forth = workspace->nodes;
    chain.begin = workspace->chain_lists;
    chain.count = workspace->chain_lists + nodes;
    graph_forth(graph, graph->time, workspace->nodes);
    for (size_t node = rows; node < nodes; node++) {
        chain.begin[node] = 0;
        chain.count[node] = node + 1 == nodes;
    }
    workspace->chain_labels[0] = (struct chain_label){.next = NO_LABEL};
    chain.labels = 1;
    for (size_t node = rows; node-- > 0;)
        if (!fill_node(&chain, node))
            return MOSAIC_OK;
    workspace->result->programs++;
    *is_done = true;
    if (chain.count[0] == 0)
        return MOSAIC_OK;
    follow(&chain, &workspace->trial);
    graph_evaluate(graph, problem, &workspace->trial);
    *found = *is_done = graph_fits(problem, &workspace->trial); /* else rounding decides */
    return MOSAIC_OK;
}
