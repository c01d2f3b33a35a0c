// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Several searches that are one job: they share its time limit, its stop, its progress, and what is
 * known of the steps.  What is left of the time is dealt out evenly over what is left of the
 * searches.
 */
#ifndef MOSAIC_PLAN_SERIES_H
#define MOSAIC_PLAN_SERIES_H

#include "plan/memo_store.h"
#include "plan/search.h"

struct series {
    const struct search_options *options; /* of the whole job */
    double end_s;                         /* on the clock; INFINITY without a limit */
    size_t count, done;
    bool only_best;                  /* no search opens more than it must */
    const struct memo_source *memos; /* what is known of the steps; may be NULL */
};

/* options must outlive the series; it begins without memos. */
void series_begin(struct series *series, const struct search_options *options, size_t count);
/* Whether the job was stopped, or has no time left. */
bool series_is_over(const struct series *series, enum search_status *why);
/* The memo of the problem on so many nodes, to be given back; NULL where the job has none. */
MOSAIC_MUST_USE enum mosaic_status series_take(const struct series *series,
                                               const struct problem *problem, int nodes,
                                               double memory_share, struct search_memo **memo,
                                               struct status_error *err);
void series_give(const struct series *series, const struct search_memo *memo);
/* The next search; memo may be NULL. */
MOSAIC_MUST_USE enum mosaic_status
series_search(struct series *series, const struct problem *problem, struct search_memo *memo,
              struct search_result *out, struct status_error *err);
/* One of the searches is not needed. */
void series_skip(struct series *series);

#endif
