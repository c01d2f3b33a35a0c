// SPDX-License-Identifier: GPL-3.0-or-later
/* Bounds and best layouts, each found once. */
#include "plan/search_memo.h"

#include <stdlib.h>

enum mosaic_status search_memo_new(size_t count, struct search_memo **out,
                                   struct status_error *err) {
    struct search_memo *const memo = calloc(1, sizeof *memo);
    if (!memo)
        return status_no_memory(err);
    memo->items = calloc(count > 0 ? count : 1, sizeof *memo->items);
    if (!memo->items) {
        free(memo);
        return status_no_memory(err);
    }
    memo->count = count;
    *out = memo;
    return MOSAIC_OK;
}

void search_memo_free(struct search_memo *memo) {
    if (!memo)
        return;
    search_memo_drop_starts(memo);
    for (size_t i = 0; i < memo->count; ++i)
        free(memo->items[i].best);
    free(memo->items);
    free(memo);
}

void search_memo_drop_starts(struct search_memo *memo) {
    for (size_t i = 0; i < memo->count; ++i) {
        free(memo->items[i].start);
        memo->items[i].start = NULL;
    }
}

enum mosaic_status search_memo_bound(struct geometry_memo *memo, struct layout_scratch *scratch,
                                     const struct problem *problem, const struct geometry *geometry,
                                     struct status_error *err) {
    if (memo->is_bounded)
        return MOSAIC_OK;
    struct layout_bound bound;
    TRY(best_layout_bound(scratch, problem, geometry, &bound, err));
    memo->bound_s = bound.bound_s;
    memo->least_memory_bytes = bound.least_memory_bytes;
    memo->bound_counts = bound.counts;
    memo->start = bound.start;
    memo->is_bounded = true;
    return MOSAIC_OK;
}

enum mosaic_status search_memo_solve(struct geometry_memo *memo, struct layout_scratch *scratch,
                                     const struct problem *problem, const struct geometry *geometry,
                                     struct status_error *err) {
    if (memo->is_solved)
        return MOSAIC_OK;
    struct best_layout *const best = malloc(sizeof *best);
    if (!best)
        return status_no_memory(err);
    memo->counts = (struct layout_counts){0};
    const enum mosaic_status status =
        best_layout_resume(scratch, problem, geometry, memo->start, best, &memo->counts, err);
    free(memo->start);
    memo->start = NULL;
    if (status != MOSAIC_OK) {
        free(best);
        return status;
    }
    memo->best = best;
    memo->is_solved = true;
    return MOSAIC_OK;
}
