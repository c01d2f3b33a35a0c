// SPDX-License-Identifier: GPL-3.0-or-later
/* Dealing out the time and the progress of a job. */
#include "plan/series.h"

#include "base/clock.h"

#include <math.h>

void series_begin(struct series *series, const struct search_options *options, size_t count) {
    *series =
        (struct series){.options = options,
                        .end_s = options->time_limit_s > 0.0 ? clock_now_s() + options->time_limit_s
                                                             : (double)INFINITY,
                        .count = count};
}

bool series_is_over(const struct series *series, enum search_status *why) {
    const bool is_stopped = clock_stopped(series->options->stop);
    const bool is_late = isfinite(series->end_s) && clock_now_s() >= series->end_s;
    if (is_stopped || is_late)
        *why = is_stopped ? SEARCH_INTERRUPTED : SEARCH_LIMIT;
    return is_stopped || is_late;
}

static void show(void *context, double done, double total) {
    const struct series *const series = context;
    const double share = total > 0.0 ? done / total : 0.0;
    series->options->progress(series->options->progress_context,
                              ((double)series->done + share) * total,
                              (double)series->count * total);
}

enum mosaic_status series_search(struct series *series, const struct problem *problem,
                                 struct search_memo *memo, struct search_result *out,
                                 struct status_error *err) {
    const double shortest_s = 1e-9; /* 0 would be no limit */
    struct search_options options = *series->options;
    options.memo = memo;
    options.open_all = options.open_all && !series->only_best;
    if (options.progress) {
        options.progress = show;
        options.progress_context = series;
    }
    if (isfinite(series->end_s))
        options.time_limit_s = fmax(
            (series->end_s - clock_now_s()) / (double)(series->count - series->done), shortest_s);
    TRY(search_run(problem, &options, out, err));
    series->done++;
    return MOSAIC_OK;
}

void series_skip(struct series *series) {
    series->done++;
}

enum mosaic_status series_take(const struct series *series, const struct problem *problem,
                               int nodes, double memory_share, struct search_memo **memo,
                               struct status_error *err) {
    *memo = NULL;
    return series->memos ? memo_store_take(series->memos, nodes, memory_share, &problem->geometries,
                                           memo, err)
                         : MOSAIC_OK;
}

void series_give(const struct series *series, const struct search_memo *memo) {
    if (series->memos)
        memo_store_give(series->memos->store, memo);
}
