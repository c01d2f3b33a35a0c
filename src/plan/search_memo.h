// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a search has learnt of each geometry's steps: the bound of its step time and, where it was
 * opened, its best layout.  Neither depends on law, budget or objective, so a search of the same
 * space on the same machine that is given the memo of an earlier one takes them from there; its
 * result is as if it had found them itself, and so are its counts, but for the layer tables filled:
 * what a bound leaves for opening its geometry lasts as long as its search.
 */
#ifndef MOSAIC_PLAN_SEARCH_MEMO_H
#define MOSAIC_PLAN_SEARCH_MEMO_H

#include "plan/best_layout.h"

struct geometry_memo {
    bool is_bounded, is_solved;
    double bound_s; /* INFINITY when no mesh can hold it */
    double least_memory_bytes;
    struct layout_counts bound_counts;
    struct queue_start *start; /* owned; from the bound to its solving, or NULL */
    /* Once solved. */
    struct best_layout *best; /* owned; found may be false */
    struct layout_counts counts;
};

struct search_memo {
    size_t count; /* as many as the space has geometries */
    struct geometry_memo *items;
};

MOSAIC_MUST_USE enum mosaic_status search_memo_new(size_t count, struct search_memo **out,
                                                   struct status_error *err);
void search_memo_free(struct search_memo *memo);
/* Once no geometry will be opened: what only makes that faster. */
void search_memo_drop_starts(struct search_memo *memo);

/* Bound and best layout of one geometry, from the memo where it has them. */
MOSAIC_MUST_USE enum mosaic_status search_memo_bound(struct geometry_memo *memo,
                                                     struct layout_scratch *scratch,
                                                     const struct problem *problem,
                                                     const struct geometry *geometry,
                                                     struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status search_memo_solve(struct geometry_memo *memo,
                                                     struct layout_scratch *scratch,
                                                     const struct problem *problem,
                                                     const struct geometry *geometry,
                                                     struct status_error *err);

#endif
