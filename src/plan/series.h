// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Several searches that are one job: they share its time limit, its stop and its progress.  What is
 * left of the time is dealt out evenly over what is left of the searches.
 */
#ifndef MOSAIC_PLAN_SERIES_H
#define MOSAIC_PLAN_SERIES_H

#include "plan/search.h"

struct series {
    const struct search_options *options; /* of the whole job */
    double end_s;                         /* on the clock; INFINITY without a limit */
    size_t count, done;
    bool only_best; /* no search opens more than it must */
};

/* options must outlive the series. */
void series_begin(struct series *series, const struct search_options *options, size_t count);
/* Whether the job was stopped, or has no time left. */
bool series_is_over(const struct series *series, enum search_status *why);
/* The next search; memo may be NULL. */
MOSAIC_MUST_USE enum mosaic_status
series_search(struct series *series, const struct problem *problem, struct search_memo *memo,
              struct search_result *out, struct status_error *err);
/* One of the searches is not needed. */
void series_skip(struct series *series);

#endif
