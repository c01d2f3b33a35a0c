// SPDX-License-Identifier: GPL-3.0-or-later
/* What mosaic.schedules/1 is made of. */
#ifndef MOSAIC_REPORT_SCHEDULES_VIEW_H
#define MOSAIC_REPORT_SCHEDULES_VIEW_H

#include "report/build.h"
#include "step/live_timeline.h"

struct schedules_view {
    const struct report_point *point;
    const struct live_sets *sets;
    const struct live_timeline *timeline;
    unsigned long seed;
};
/* A new reference, or NULL when memory is short or a number is not finite. */
json_t *build_schedules(const struct schedules_view *view);

#endif
