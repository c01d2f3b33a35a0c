// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The stage program's columns of one mesh: every interval of layers that a stage may hold under
 * every recomputation that it may have, priced by the evaluator.  Where stages share a node, what
 * their GPUs keep in its host memory is a row of the program.
 */
#ifndef MOSAIC_PLAN_SPLIT_COLUMNS_H
#define MOSAIC_PLAN_SPLIT_COLUMNS_H

#include "plan/stage_program.h"
#include "step/memory.h"

/* What to make columns of; borrowed until the last call on them. */
struct split_space {
    const struct step_context *ctx;
    const struct layer_table *table;
    const struct mesh *mesh;
    const struct policy_views *views; /* stages may differ, one at least is as the mesh says; NULL:
                                         all are */
    const struct split *fixed;        /* the layers of each stage; NULL: they are free */
    double bottleneck_limit_s;        /* slower columns are left out */
};

struct split_columns; /* of one worker */
MOSAIC_MUST_USE struct split_columns *split_columns_new(void);
void split_columns_free(struct split_columns *columns);

/* Prices the columns and fills the problem's layers, resources and capacities. */
MOSAIC_MUST_USE enum mosaic_status split_columns_build(struct split_columns *columns,
                                                       struct stage_workspace *workspace,
                                                       const struct split_space *space,
                                                       struct stage_problem *problem,
                                                       struct status_error *err);
/* Every choice has a tail of at least the largest, over the stages, of the smallest one. */
double split_columns_least_tail(const struct split_columns *columns);
/* Gives the problem the columns with a tail below the limit. */
void split_columns_offer(struct split_columns *columns, double tail_limit_s,
                         struct stage_problem *problem);
/* What a result for the offered columns chose, and its largest tail. */
void split_columns_split(const struct split_columns *columns, const struct stage_result *result,
                         struct split *out);
double split_columns_tail(struct split_columns *columns, const struct stage_result *result);

#endif
