// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the law's own error means for a plan.  The best step time of a geometry does not depend on
 * the law, so each draw of the law only ranks the solved geometries anew: its own best plan, and
 * what the plan of the point law loses against it (regret).
 */
#ifndef MOSAIC_PLAN_LAW_UNCERTAINTY_H
#define MOSAIC_PLAN_LAW_UNCERTAINTY_H

#include "plan/search.h"

enum { LAW_WINNERS = 10 };

struct draw_interval {
    double low, middle, high; /* 2.5 %, median, 97.5 % */
};

/* A geometry that is the best of some draws. */
struct law_winner {
    size_t index;
    double share;      /* of the draws */
    double sparsity;   /* by n_total_law */
    double above_best; /* score above the plan's under the point law */
    bool is_plan;      /* it is that plan */
    bool is_near_tie;  /* it is not, but within the tie width of it */
};

struct law_uncertainty {
    size_t draws;                                 /* 0: nothing known */
    struct draw_interval sparsity, tokens, score; /* of each draw's best, under that draw */
    struct law_winner winners[LAW_WINNERS];       /* most draws first */
    size_t winner_count;
    size_t geometries;    /* that win any draw */
    size_t planned;       /* draws in which the point law's plan can be planned */
    double regret;        /* of that plan, in the score, mean over those draws */
    double share_of_plan; /* of the draws that the plan wins */
};

/* search: run to its end with open_all. */
MOSAIC_MUST_USE enum mosaic_status law_uncertainty_find(const struct problem *problem,
                                                        const struct search_result *search,
                                                        struct law_uncertainty *out,
                                                        struct status_error *err);

#endif
