// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The number of nodes as one more axis of the space: a search for each, the best score wins, and of
 * equal ones that of fewest nodes.  Step times, goodput and the seconds of a budget in GPU-hours
 * follow from the nodes, so nothing is shared between them.  The proof is over all numbers of
 * nodes: the optimum lies above the least of their bounds.
 */
#ifndef MOSAIC_PLAN_FLEET_H
#define MOSAIC_PLAN_FLEET_H

#include "plan/series.h"

enum fleet_end {
    FLEET_SEARCHED,
    FLEET_NO_WORK, /* failures leave no time for any */
    FLEET_UNTRIED  /* the job was over before */
};

struct fleet_point {
    int nodes;
    enum fleet_end end;
    /* Once searched. */
    enum search_status status;
    bool has_plan;
    struct candidate best;
    bool has_gap;
    double gap; /* of the score on these nodes */
};

struct fleet {
    int count;
    struct fleet_point points[SPACE_AXIS_MAX]; /* nodes rise */
    int best;                 /* that of the plan; without any, the largest that was searched */
    struct search_memo *memo; /* its search's: series_give() it; NULL where there are none */
};

/* How many numbers of nodes there are to search, at least 1. */
int fleet_size(const struct problem *problem);
/* best: a copy of the problem on the nodes of fleet->best; search: its search, with the status and
 * the gap of all of them.  MOSAIC_NO_PLAN where no number of nodes gets any work done. */
MOSAIC_MUST_USE enum mosaic_status fleet_search(const struct problem *problem,
                                                struct series *series, struct problem *best,
                                                struct search_result *search, struct fleet *fleet,
                                                struct status_error *err);

#endif
