// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The N fastest layouts of one geometry over all meshes of the declared space, each mesh with its
 * best split.  Meshes are bounded first and opened in the order of their bounds, until the least
 * open bound is above the N-th step time: the list is exact.  Each split is found as if its mesh
 * were alone, so an entry depends neither on N nor on the others.
 */
#ifndef MOSAIC_PLAN_LAYOUT_LIST_H
#define MOSAIC_PLAN_LAYOUT_LIST_H

#include "plan/shortfall.h"

enum { LAYOUT_LIST_MAX = 100, FEWEST_TRIES_MAX = 20 };

struct layout_list_options {
    size_t top;              /* 1 to LAYOUT_LIST_MAX */
    const atomic_bool *stop; /* may be NULL; looked at between meshes */
    void (*progress)(void *context, double done, double total);
    void *progress_context;
};

struct listed_layout {
    struct layout layout;
    double step_time_s;
};

struct layout_list {
    enum search_status status; /* SEARCH_INFEASIBLE: empty */
    size_t count;
    struct listed_layout items[LAYOUT_LIST_MAX]; /* by step time, then mesh_compare */
    struct layout_counts counts;
    long solved;         /* meshes opened with a split that fits */
    long open;           /* interrupted before they were opened */
    double open_bound_s; /* none of those is faster; INFINITY when there is none */
};

MOSAIC_MUST_USE enum mosaic_status layout_list_find(const struct problem *problem,
                                                    const struct geometry *geometry,
                                                    const struct layout_list_options *options,
                                                    struct layout_list *out,
                                                    struct status_error *err);

/* The legal mesh and split that need least memory, of devices or of hosts, whichever takes the
 * larger share of what there is; fitting or not. */
struct leanest_layout {
    bool found; /* some mesh is legal */
    struct layout layout;
    double needed_bytes; /* of its fullest stage, as stage_need_scaled counts them */
    struct stage_need need;
};
void leanest_layout_find(const struct problem *problem, const struct geometry *geometry,
                         struct leanest_layout *out);

enum fewest_outcome { FEWEST_FITS, FEWEST_TOO_LARGE, FEWEST_ILLEGAL, FEWEST_IMPLAUSIBLE };
const char *fewest_outcome_name(enum fewest_outcome outcome);

/* The least number of nodes, a power of two, the problem's own or one more that is asked about, on
 * which some layout fits with the same global batch; counts on which no layout is legal are passed
 * over. */
struct fewest_gpus {
    int nodes; /* 0: none of those tried */
    struct listed_layout best;
    int count;
    struct {
        int nodes;
        enum fewest_outcome outcome;
    } tries[FEWEST_TRIES_MAX]; /* ascending; the last is the answer, if there is one */
    bool is_stopped;
};
/* list: what layout_list_find says of the problem's own number of nodes; also: a number of nodes to
 * try beside the powers of two, 0 for none. */
MOSAIC_MUST_USE enum mosaic_status
fewest_gpus_find(const struct problem *problem, const struct geometry *geometry,
                 const struct layout_list *list, int also, const atomic_bool *stop,
                 struct fewest_gpus *out, struct status_error *err);

/* What there is to say of the problem's one geometry. */
struct layout_study {
    struct layout_list list;
    struct fewest_gpus fewest; /* is_stopped when the list was interrupted */
    /* Where nothing fits: how close the leanest comes, and how many GPUs would do. */
    struct leanest_layout leanest;
    struct shortfall shortfall;
};
/* MOSAIC_BAD_INPUT unless the problem names exactly one geometry. */
MOSAIC_MUST_USE enum mosaic_status layout_study_run(const struct problem *problem,
                                                    const struct layout_list_options *options,
                                                    struct layout_study *out,
                                                    struct status_error *err);

#endif
