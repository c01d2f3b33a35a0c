// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Why a layout is not the plan: the rules that it breaks, the bytes that it lacks, or the terms by
 * which its step is longer than the best one's; and the least changes that would help, each
 * evaluated anew with its best split.
 */
#ifndef MOSAIC_PLAN_EXPLAIN_H
#define MOSAIC_PLAN_EXPLAIN_H

#include "plan/layout_axes.h"
#include "plan/shortfall.h"
#include "step/legality.h"

enum explain_verdict { EXPLAIN_ILLEGAL, EXPLAIN_DOES_NOT_FIT, EXPLAIN_LOSES, EXPLAIN_IS_BEST };
const char *explain_verdict_name(enum explain_verdict verdict);

/* Where an axis has its value from. */
enum explain_origin {
    EXPLAIN_GIVEN,  /* the text */
    EXPLAIN_PLAN,   /* the only value that the plan allows */
    EXPLAIN_WINNER, /* the plan's best layout */
    EXPLAIN_DEFAULT /* nothing says: 1, no recomputation, 1f1b, the plan's first way */
};
const char *explain_origin_name(enum explain_origin origin);

/* One evaluated layout. */
struct explain_side {
    struct layout layout;
    struct prediction prediction;
    struct memory_items stages[LAYOUT_MAX_PP];
    bool has_tokens; /* it fits, and the budget buys tokens within the limits */
    struct training run;
};

/* A layout that differs in few axes. */
struct explain_change {
    struct layout layout;
    unsigned axes;    /* bit i: axis i differs; LAYOUT_WAY: the way to run the job */
    double distance;  /* sum over them of |log2(new / old)|, 1 for a word or key of the way */
    bool is_declared; /* in the plan's search.layout and search.execution */
    double step_time_s, mfu;
    double memory_bytes; /* of the fullest stage */
    double host_bytes;   /* per GPU */
    enum verdict verdict;
};

enum { EXPLAIN_CHANGES = 5, EXPLAIN_WAYS_MAX = 2 * PROBLEM_WAYS_MAX };

/* Points into itself: not to be copied. */
struct explanation {
    struct problem problem;                 /* the plan's, with these ways; owns nothing */
    struct workload ways[EXPLAIN_WAYS_MAX]; /* the plan's first; meshes name them */
    int declared_ways;                      /* how many are the plan's */
    struct geometry geometry;
    bool is_searched; /* the geometry is that of the plan's best candidate of several */
    struct legality_point point;
    enum explain_origin origins[LAYOUT_AXES];
    unsigned undeclared; /* axes whose value the plan's search.layout leaves out */
    /* The same of the keys of the execution; shown: those given or with several values. */
    enum explain_origin way_origins[WAY_AXES];
    unsigned undeclared_ways, shown_ways;
    enum explain_verdict verdict;
    int violation_count;
    struct violation violations[VIOLATIONS_MAX];
    struct explain_side side; /* unless illegal */
    bool has_winner;
    struct explain_side winner;
    int neighbour_count; /* of an illegal one: legal, the fewest axes first, then the nearest */
    struct explain_change neighbours[EXPLAIN_CHANGES];
    int fix_count; /* they are legal and fit, fastest first; none of one that fits itself */
    struct explain_change fixes[EXPLAIN_CHANGES];
    bool has_fewest;
    bool fewest_is_free; /* no declared layout holds the model: over all layouts */
    struct shortfall fewest;
};

/* options: of the search that picks one of several geometries.  A text that cannot be read is
 * MOSAIC_USAGE, one that the machine cannot do (offloading without a host link) MOSAIC_BAD_INPUT,
 * several geometries without a feasible plan MOSAIC_NO_PLAN.  problem must outlive *out. */
MOSAIC_MUST_USE enum mosaic_status explain_layout(const struct problem *problem, const char *text,
                                                  const struct search_options *options,
                                                  struct explanation *out,
                                                  struct status_error *err);

#endif
