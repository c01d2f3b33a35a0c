// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The network behind the stage program, private to it.  Node (i, l): stages 0 .. i-1 hold layers
 * 0 .. l-1.  An arc is a column from (stage, first) to (stage + 1, last); a choice is a path from
 * (0, 0) to (p, L).  Arcs are sorted by stage, first, last, policy, so the first of equal values
 * is the lexicographically smallest.
 */
#ifndef MOSAIC_PLAN_STAGE_GRAPH_H
#define MOSAIC_PLAN_STAGE_GRAPH_H

#include "plan/lp.h"
#include "plan/stage_program.h"

enum { NO_POLICY = -1 };

struct stage_graph {
    int stages, width; /* width = layers + 1 */
    int resources;
    size_t arcs;
    double *time, *priced; /* [arc]; priced = time + prices x load */
    double *load;          /* [arc * resources + r], use / capacity */
    int *last, *policy;
    size_t *column;    /* [arc] index into the problem's columns */
    size_t *row_start; /* [stage * width + first], stages * width + 1 of them */
    double *back;      /* [node] least cost from the node to the end */
    size_t *pick;      /* [stage * width + first] the arc of back */
    size_t arc_room, load_room, node_room;
};

/* One path and its value. */
struct stage_path {
    bool is_set;
    double objective, bottleneck, sum;
    size_t arc[STAGE_MAX];
    size_t column[STAGE_MAX];
    int ends[STAGE_MAX], policies[STAGE_MAX];
};

struct stage_key { /* to sort columns that do not come in order */
    struct stage_column column;
    size_t index;
};

struct stage_label;
struct chain_label;

struct stage_workspace {
    struct stage_graph graph;
    struct stage_path best, trial;
    struct stage_column *built;
    struct stage_key *keys;
    double *nodes, *candidates;
    bool *is_shut;      /* [arc] its column is fixed at 0 in lp */
    struct lp *lp;      /* built for the present arcs, or NULL */
    double *lp_numbers; /* the model's arrays of doubles */
    int *lp_rows;
    size_t *lp_starts;
    size_t built_room, key_room, nodes_room, candidate_room, shut_room;
    size_t number_room, row_room, start_room;
    struct stage_label *labels;       /* the finishing search's memory */
    double *label_loads;              /* [label * resources + r] */
    double *level_loads;              /* [depth * resources + r] */
    int *label_heads;                 /* [node] newest label or -1 */
    struct chain_label *chain_labels; /* the labelled dynamic program's memory */
    int *chain_lists;
    size_t chain_room, list_room, label_room, label_load_room, level_load_room, head_room;
    bool is_cut, is_limited;
    double bound;   /* least over policies of the certified bound */
    double sum_max; /* no path is longer */
    double penalty; /* of a unit of overload in lp */
    double prices[STAGE_RESOURCES_MAX];
    struct stage_result *result;
};

/* old with room for count elements of size bytes, or a larger block without its contents; NULL
 * when memory is short (old is gone then). */
void *stage_grow(void *old, size_t *room, size_t count, size_t size);
static inline size_t graph_nodes(const struct stage_graph *graph) {
    return (size_t)(graph->stages + 1) * (size_t)graph->width;
}

void graph_free(struct stage_graph *graph);
/* Arcs of the columns in order (keys NULL: their own), of one policy or NO_POLICY for all, without
 * dominated ones and those that alone exceed a capacity. */
enum mosaic_status graph_build(struct stage_graph *graph, const struct stage_problem *problem,
                               const struct stage_key *keys, int policy, struct status_error *err);
/* Least cost from every node to the end over arcs with time <= threshold, into back (and pick
 * unless NULL); returns that of the source. */
double graph_back(const struct stage_graph *graph, const double *cost, double threshold,
                  double *back, size_t *pick);
/* Same from the source to every node. */
void graph_forth(const struct stage_graph *graph, const double *cost, double *forth);
/* The smallest maximum time over all paths. */
double graph_bottleneck(const struct stage_graph *graph, double *scratch);
/* Keep the arcs with keep[arc]. */
void graph_compact(struct stage_graph *graph, const bool *keep);
/* priced = time + prices x load. */
void graph_price(struct stage_graph *graph, const double *prices);
/* The path of graph->pick, or of the arcs already in path. */
void graph_follow(const struct stage_graph *graph, struct stage_path *path);
void graph_evaluate(const struct stage_graph *graph, const struct stage_problem *problem,
                    struct stage_path *path);
/* Whether the path keeps within every capacity, summed in stage order in the caller's units. */
bool graph_fits(const struct stage_problem *problem, const struct stage_path *path);

double stage_value(const struct stage_problem *problem, double bottleneck, double sum);
/* The largest sum that could still beat (or tie with) the best at this bottleneck. */
double stage_sum_limit(const struct stage_workspace *workspace, const struct stage_problem *problem,
                       double bottleneck);

/* stage_rows.c: the shared rows. */

/* Try prices on the rows; offer every path that fits; raise *t_low and *sum_bound (on the sum at
 * any bottleneck) as far as the best found so far allows; drop arcs on no path worth having. */
enum mosaic_status rows_prepare(struct stage_workspace *workspace,
                                const struct stage_problem *problem, double *t_low,
                                double *sum_bound, struct status_error *err);
/* The least sum with times <= threshold by GLPK, into workspace->trial; *found false when none has
 * a sum <= sum_limit; *bound is certified for every such path. */
enum mosaic_status rows_solve(struct stage_workspace *workspace,
                              const struct stage_problem *problem, double threshold,
                              double sum_limit, double *bound, bool *found,
                              struct status_error *err);

/* stage_finish.c */
struct finish_limits {
    double threshold, sum_limit;
    long nodes;
};
/* The path within the limits of least sum, in exact terms and earliest among its ties, under
 * workspace->prices.  *found on entry: trial holds a path to start from; on return: trial holds
 * the answer.  *is_complete false when the nodes ran out. */
enum mosaic_status finish_search(struct stage_workspace *workspace,
                                 const struct stage_problem *problem,
                                 const struct finish_limits *limits, bool *found, bool *is_complete,
                                 struct status_error *err);

/* stage_chain.c: the same without a path to start from or a limit of nodes.  *is_done false where
 * too many rows are open at once, too many partial paths stand or rounding decides. */
enum mosaic_status chain_solve(struct stage_workspace *workspace,
                               const struct stage_problem *problem,
                               const struct finish_limits *limits, bool *found, bool *is_done,
                               struct status_error *err);

/* stage_program.c: nothing with this bottleneck or more and this sum or more beats the best. */
bool stage_is_hopeless(const struct stage_workspace *workspace, const struct stage_problem *problem,
                       double bottleneck, double sum);
/* Distinct arc times in [t_low, t_high) that are not hopeless with this sum, rising, into
 * workspace->candidates. */
enum mosaic_status stage_candidates(struct stage_workspace *workspace,
                                    const struct stage_problem *problem, double t_low,
                                    double t_high, double sum, size_t *count,
                                    struct status_error *err);
/* Take the trial as best if it is better; needs graph_evaluate() before. */
void stage_offer(struct stage_workspace *workspace, const struct stage_problem *problem);

#endif
