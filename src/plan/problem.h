// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Everything one planning call depends on, by reference to what the documents own.
 */
#ifndef MOSAIC_PLAN_PROBLEM_H
#define MOSAIC_PLAN_PROBLEM_H

#include "engine/engine.h"
#include "law/law.h"
#include "machine/calibration.h"
#include "machine/cluster.h"
#include "plan/budget.h"
#include "plan/objective.h"
#include "plan/space.h"
#include "step/context.h"

/* Laws that the runs allow as well, each as likely as the others; none for a law without error. */
struct law_draws {
    size_t count;
    struct law *items;
};

enum { PROBLEM_WAYS_MAX = 256 };

/* Several ways to run the job, the plan's own first; they differ in the execution alone. */
struct way_list {
    int count; /* 0: the workload as it stands is the only way */
    struct workload *items;
};

struct problem {
    struct cluster cluster;
    struct calibration calibration;
    struct law law;
    bool law_counts_all;        /* the law's N is every matrix, not n_total_law */
    bool law_counts_experts;    /* its S is 1 - top_k / experts */
    struct law_draws law_draws; /* owned: free with problem_free */
    struct engine engine;
    struct estimator estimator;
    bool is_published; /* estimator by name */
    struct workload workload;
    struct way_list ways; /* owned: free with problem_free */
    struct budget budget;
    enum objective_kind objective;    /* time and cost: until budget.target_loss */
    struct geometry_space geometries; /* owned: free with problem_free */
    struct space_limits limits;
    struct layout_space layouts;
    struct fleet_space fleet; /* the problem itself is of cluster.nodes */
};

void problem_free(struct problem *p);

/* GPU-hours of so many wall-clock seconds on the whole cluster; what they cost in USD, the hours
 * themselves where no price is stated. */
double problem_gpu_hours(const struct problem *p, double seconds);
double problem_cost(const struct problem *p, double seconds);

/* How many ways there are, at least 1, and the job run in one of them. */
int problem_ways(const struct problem *p);
const struct workload *problem_workload(const struct problem *p, int way);
/* The same on another number of nodes: the outermost tier grows with it, the budget follows. */
void problem_resize(struct problem *p, int nodes);
/* A copy on so many nodes, which borrows every list; not to be freed. */
void problem_on(const struct problem *p, int nodes, struct problem *out);
/* One geometry on the problem's machine, run in one of its ways. */
void problem_context(const struct problem *p, const struct geometry *g, int way,
                     struct step_context *out);

#endif
