// SPDX-License-Identifier: GPL-3.0-or-later
/* What mosaic.check/1 is made of. */
#ifndef MOSAIC_REPORT_CHECK_VIEW_H
#define MOSAIC_REPORT_CHECK_VIEW_H

#include "doc/check_settings.h"
#include "report/build.h"

struct check_view {
    const struct document *const *documents; /* of every file */
    size_t document_count;
    const struct baseline *was; /* NULL when a first baseline is made */
    const struct baseline *now;
    const struct check_settings *settings;
    const struct diag_list *diags;
    unsigned long seed;
};

struct check_counts {
    size_t regressions, files; /* metrics that are worse, files that have some */
};

/* The point's metrics and terms into an entry that has its file; one that does not fit has no
 * metrics.  point NULL: a file without a feasible plan. */
MOSAIC_MUST_USE enum mosaic_status check_entry(void *memory, const struct document *document,
                                               const struct report_point *point,
                                               struct baseline_entry *entry,
                                               struct status_error *err);
json_t *build_check(const struct check_view *view, struct check_counts *counts);

#endif
