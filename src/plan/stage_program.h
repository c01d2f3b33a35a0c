// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The stage program: which layers go to which pipeline stage, under which policy.
 *
 *   minimise  A max_i t_i + B sum_i t_i + C      (1F1B with m micro-batches: A = m - 1, B = 1)
 *
 * over one column a stage such that the columns' intervals tile the layers 0 .. L in stage order
 * and every shared resource suffices.  A column is one stage's interval under one policy, priced
 * by the caller; what does not fit in memory is not a column.  For a fixed bottleneck T the
 * columns with t <= T span a network from layer 0 to layer L, so the least sum is a shortest path:
 * by dynamic programming, or, when rows are shared between stages, by GLPK on the same network.
 * The values T are the columns' own times; an interval of them is closed when A T + B (least sum
 * at its upper end) cannot beat the best.
 *
 * Ties: smaller objective, bottleneck, sum; then the lexicographically smallest list of ends, then
 * of policies.  Sums run from the last stage to the first.
 */
#ifndef MOSAIC_PLAN_STAGE_PROGRAM_H
#define MOSAIC_PLAN_STAGE_PROGRAM_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    STAGE_MAX = 128,
    STAGE_LAYERS_MAX = 2 * 1024 + 1, /* twice, for a needed policy */
    STAGE_POLICIES_MAX = 256,
    STAGE_RESOURCES_MAX = 128
};

struct stage_column {
    double time_s;          /* forward and backward of one micro-batch, >= 0 */
    int stage, first, last; /* layers first .. last - 1; first == last is a stage without layers */
    int policy;             /* 0 .. STAGE_POLICIES_MAX - 1 */
};

enum stage_method {
    STAGE_AUTO,    /* dynamic program; GLPK where shared rows bind */
    STAGE_DYNAMIC, /* refuses shared rows */
    STAGE_GLPK     /* every bottleneck value by GLPK: the oracle of the other */
};

/* Fill with stage_problem_init(), then set what differs. */
struct stage_problem {
    int stages, layers;
    double bottleneck_weight, sum_weight, constant_s; /* A, B >= 0; C */
    double cutoff_s;       /* only an objective below it is of interest; INFINITY: all */
    bool policy_per_stage; /* false: all stages share one policy */
    bool is_pruned;        /* columns that cannot beat cutoff_s were left out */
    enum stage_method method;
    const struct stage_column *columns; /* fastest when sorted by stage, first, last, policy */
    size_t column_count;
    int resources;
    const double *use;      /* [column * resources + resource], >= 0 */
    const double *capacity; /* [resource], >= 0 */
};

enum stage_outcome {
    STAGE_OPTIMAL,
    STAGE_INFEASIBLE, /* no choice of columns tiles the layers within the resources */
    STAGE_CUTOFF,     /* nothing is better than cutoff_s */
    STAGE_LIMIT       /* a work limit was hit: has_choice tells whether anything was found */
};

struct stage_result {
    enum stage_outcome outcome;
    bool has_choice; /* the fields below hold a choice */
    double objective_s, bottleneck_s, sum_s;
    double bound_s; /* certified before the bottleneck was searched; <= every objective; 0 if
                       infeasible */
    int ends[STAGE_MAX], policies[STAGE_MAX];
    size_t columns[STAGE_MAX];                /* indices into the caller's columns */
    long programs, relaxations, trees, nodes; /* dynamic programs, linear programs, integer trees,
                                                 nodes of the finishing search */
};

/* Which columns to make.  The callback returns false when a column does not fit.  With a needed
 * policy at least one stage must take it: the columns then lie on layers counted twice, 0 .. L
 * before the first such stage and L + 1 .. 2 L + 1 after it, and their problem has 2 L + 1. */
struct stage_space {
    int stages, layers, policies;
    bool needs_policy;
    int needed_policy;
    bool has_empty_stages;     /* also offer stages without layers */
    bool is_monotone;          /* time and memory grow with the interval: stop at the first miss */
    double bottleneck_limit_s; /* drop slower columns; INFINITY: keep all */
    bool (*column)(void *context, int stage, int first, int last, int policy, double *time_s);
    void *context;
};

/* Scratch for any number of problems in turn; one thread at a time. */
struct stage_workspace;

struct stage_workspace *stage_workspace_new(void) MOSAIC_MUST_USE; /* NULL: memory is short */
void stage_workspace_free(struct stage_workspace *workspace);

void stage_problem_init(struct stage_problem *problem);

/* Layers of the problem that belongs to the columns of a space. */
int stage_space_layers(const struct stage_space *space);
/* The layer that a column's or result's first or last stands for. */
static inline int stage_space_end(const struct stage_space *space, int end) {
    return end > space->layers ? end - space->layers - 1 : end;
}

/* The slowest stage that a choice better than cutoff_s can have: A T + B T + C < cutoff_s. */
double stage_bottleneck_limit(const struct stage_problem *problem);

/* Make every reachable column.  They belong to the workspace until its next build. */
enum mosaic_status stage_columns_build(struct stage_workspace *workspace,
                                       const struct stage_space *space,
                                       const struct stage_column **columns, size_t *column_count,
                                       struct status_error *err) MOSAIC_MUST_USE;

/* MOSAIC_OK with any outcome; MOSAIC_BAD_INPUT for numbers that are not finite or out of range;
 * MOSAIC_NUMERIC when the linear solver fails or disagrees with the finishing search. */
enum mosaic_status stage_program_solve(struct stage_workspace *workspace,
                                       const struct stage_problem *problem,
                                       struct stage_result *result,
                                       struct status_error *err) MOSAIC_MUST_USE;

#endif
