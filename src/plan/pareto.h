// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What loss, days, GPUs, memory and price buy of each other: the best plan at every point of a grid
 * of nodes x share of the device's memory x days, each found and proved by a search, and of them
 * those that no other one beats.  A plan beats another when it is no worse in any of the five and
 * better in one; of plans equal in all five the first of the grid stays.  Days are those that the
 * plan trains for, which may be fewer than the budget's.
 */
#ifndef MOSAIC_PLAN_PARETO_H
#define MOSAIC_PLAN_PARETO_H

#include "plan/series.h"

enum { PARETO_GRID_MAX = 4096 };

enum pareto_goal {
    PARETO_LOSS,
    PARETO_DAYS,
    PARETO_GPUS,
    PARETO_MEMORY,
    PARETO_COST,
    PARETO_GOALS
};

struct pareto_point {
    int nodes;
    double memory_share;
    double budget_s; /* wall clock that the grid allows */
    enum search_status status;
    struct candidate best;
    double goals[PARETO_GOALS]; /* all of them better when smaller; cost in USD, or GPU-hours */
};

struct pareto {
    size_t grid, searched, infeasible; /* points of the grid; without a plan */
    size_t count;
    struct pareto_point *items; /* owned: free with pareto_free; in the order of the grid */
};

/* How many searches it takes; 0 where none is asked for. */
size_t pareto_size(const struct problem *problem);
/* The problem at one point of the grid; borrows every list. */
void pareto_problem(const struct problem *problem, int nodes, double memory_share, double seconds,
                    struct problem *out);
bool pareto_beats(const double a[PARETO_GOALS], const double b[PARETO_GOALS]);
/* What a stop or a limit leaves of the grid is not searched; what there is stays. */
MOSAIC_MUST_USE enum mosaic_status pareto_find(const struct problem *problem, struct series *series,
                                               struct pareto *out, struct status_error *err);
void pareto_free(struct pareto *pareto);

#endif
