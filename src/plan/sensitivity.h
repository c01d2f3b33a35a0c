// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the plan hangs on.
 *   slope   d ln D / d ln f, d ln L / d ln f and d ln score / d ln f of the plan as it is laid out,
 *           by a central difference: at an optimum the layout's own change does not count
 * (envelope) flip    the factor of a figure nearest to 1, within a quarter and four times, from
 * which another model or layout is best; bracketed between two whole searches price   what the
 * score would gain if one axis of the layout were free
 */
#ifndef MOSAIC_PLAN_SENSITIVITY_H
#define MOSAIC_PLAN_SENSITIVITY_H

#include "plan/figures.h"
#include "plan/layout_axes.h"
#include "plan/search.h"

/* A winner other than the plan. */
struct other_plan {
    size_t index;
    struct layout layout;
    double score;
    bool is_other_geometry;
};

struct flip {
    bool is_tried; /* the figure can be scaled that way */
    bool is_found;
    double factor, last_same; /* the first that flips, and the last that does not */
    bool is_infeasible;       /* nothing is left to plan */
    struct other_plan to;
};

struct figure_slope {
    enum figure figure;
    double value;
    bool has_slope;
    double tokens, loss, score; /* d ln / d ln */
    struct flip down, up;
};

struct pin_price {
    enum layout_axis axis;
    double gain; /* of the score, >= 0 */
    struct other_plan to;
};

struct sensitivity {
    int figure_count;
    struct figure_slope figures[FIGURES];
    int pin_count;
    struct pin_price pins[LAYOUT_AXES];
    bool is_stopped; /* before all was looked at: what stands here is whole */
    double farthest; /* flips are looked for between 1 / farthest and farthest */
};

/* search: run to its end, with a plan.  Of the options its limits do not count: a what-if that ends
 * early answers nothing. */
MOSAIC_MUST_USE enum mosaic_status sensitivity_find(const struct problem *problem,
                                                    const struct search_result *search,
                                                    const struct search_options *options,
                                                    struct sensitivity *out,
                                                    struct status_error *err);

#endif
