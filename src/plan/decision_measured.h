// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Steps that were measured on the layouts of a shortlist, taken into the step model: their models
 * are anchored (step/anchor.h), by one residual a layout beside those of the anchors that they
 * have, and the layouts themselves compete at what was measured.
 */
#ifndef MOSAIC_PLAN_DECISION_MEASURED_H
#define MOSAIC_PLAN_DECISION_MEASURED_H

#include "plan/decision.h"

enum { MEASURED_LAYOUTS_MAX = 256 };

/* One layout, its steps together. */
struct measured_layout {
    size_t index; /* of the model */
    int nodes;
    struct layout layout;
    size_t steps;
    double sum_log_s;   /* of ln(measured step) */
    double predicted_s; /* before */
    double anchor_factor;
};
double measured_layout_s(const struct measured_layout *layout);

struct measured_layouts {
    size_t count;
    struct measured_layout items[MEASURED_LAYOUTS_MAX];
};
/* One more step of it; false when there is no room. */
bool measured_layouts_add(struct measured_layouts *layouts, const struct measured_layout *one);

/* A problem whose step model knows the steps; it borrows every list of the other one. */
struct anchored_problem {
    struct problem problem;
    struct anchors anchors;
    struct workload *ways; /* owned */
};
MOSAIC_MUST_USE enum mosaic_status anchored_problem_init(const struct problem *problem,
                                                         const struct measured_layouts *layouts,
                                                         struct anchored_problem *out,
                                                         struct status_error *err);
void anchored_problem_free(struct anchored_problem *anchored);

/* The layouts of a number of nodes as contenders; pairs: MEASURED_LAYOUTS_MAX entries. */
struct measured_pairs measured_pairs_on(const struct measured_layouts *layouts, int nodes,
                                        struct measured_pair *pairs);

#endif
