// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the step model's own error means for a plan.  Of a contender, a model in one of its layouts,
 *   ln(measured step / predicted) = a + b(model) + w(model, layout),
 * three independent normal parts: one that all share and that moves no rank by itself, one by
 * model, one by layout.  Their variances are those of the calibration's anchors; what
 * interval.sigma^2 is more than both is the shared part.  Measured
 * models tell of the shared part.  A model anchored by measured steps has
 * what its anchor leaves of the model's part (step/anchor.h) and no shared one; a contender that
 * was measured itself differs from that by the noise of a run.  Each draw of the errors has its own
 * best contender; what the plan loses against it is its regret.  Only contenders compete: the plan,
 * its near ties and the next best models, each in its best layout, the next best layouts of the
 * plan's model, and what was measured.  Limits that only choose among plans, the least tokens a
 * parameter and the seconds to a target, are lifted in the draws.  One thread, one sequence of
 * numbers by seed: the same bytes anywhere.
 */
#ifndef MOSAIC_PLAN_DECISION_H
#define MOSAIC_PLAN_DECISION_H

#include "plan/search.h"

enum {
    CONTENDERS_MAX = 32,
    CONTENDERS_MODELS = 22, /* of them models, the rest is the plan's layouts and measured ones */
    CONTENDERS_LAYOUTS = 8,
    DECISION_DRAWS = 4096,
    SHORTLIST_MAX = 5,
    SHORTLIST_LEAST = 3
};

/* A layout of a model whose step somebody measured. */
struct measured_pair {
    size_t index; /* of the model, into the space */
    struct layout layout;
    double measured_s;
};
struct measured_pairs {
    size_t count;
    const struct measured_pair *items; /* no pair twice */
};

/* Standard deviations of ln(measured step / predicted). */
struct step_errors {
    double shared, model, layout;
    double noise; /* between two runs of one job */
};

struct contender {
    size_t index;
    struct layout layout;
    double step_time_s;     /* predicted */
    struct step_errors own; /* shared, model, layout: of this contender; noise: once measured */
    bool is_measured;
    double expected_s;   /* measured, or predicted, by what is known of the shared part */
    bool can_be_planned; /* at that step, on which it trains: */
    struct training run;
    bool is_near_tie; /* of the plan, which is none itself */
    double share;     /* of the draws that it wins */
    double regret;    /* expected, of the score, had it been chosen */
};

/* A run that is worth its time. */
struct shortlisted {
    size_t contender;
    size_t rival;        /* the contender that it is decided against */
    double regret_after; /* of the plan once this and the ones before it are measured */
};

/* Draws of the law and of the step model together. */
struct joint_decision {
    size_t draws; /* 0: the law has none */
    double share_of_plan, regret;
};

struct decision {
    size_t draws; /* 0: nothing to decide */
    size_t count;
    struct contender items[CONTENDERS_MAX]; /* the plan first */
    struct step_errors errors;              /* of a model that was not measured */
    double shared_mean;                     /* of the shared part, by what was measured */
    double share_of_near_ties;
    double regret; /* expected, of the plan */
    size_t best;   /* the contender of least expected regret */
    struct joint_decision joint;
    size_t shortlist_count;
    struct shortlisted shortlist[SHORTLIST_MAX];
};

/* The problem as draws see it. */
void decision_lift_limits(struct problem *problem);
/* The contenders of a search that was run to its end; none where it has no plan.  measured may be
 * NULL. */
MOSAIC_MUST_USE enum mosaic_status decision_gather(const struct problem *problem,
                                                   const struct search_result *search,
                                                   const struct measured_pairs *measured,
                                                   struct decision *out, struct status_error *err);
/* Shares, regrets and the shortlist of what was gathered, of at least two. */
MOSAIC_MUST_USE enum mosaic_status decision_weigh(const struct problem *problem, unsigned long seed,
                                                  struct decision *decision,
                                                  struct status_error *err);
/* Both; no draws unless the search was run to its end and has two contenders. */
MOSAIC_MUST_USE enum mosaic_status decision_find(const struct problem *problem,
                                                 const struct search_result *search,
                                                 const struct measured_pairs *measured,
                                                 unsigned long seed, struct decision *out,
                                                 struct status_error *err);

#endif
