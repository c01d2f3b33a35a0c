// SPDX-License-Identifier: GPL-3.0-or-later
/* What a mosaic.launch/1 is made of: a layout of a result, and the engine that it is to run on. */
#ifndef MOSAIC_REPORT_LAUNCH_VIEW_H
#define MOSAIC_REPORT_LAUNCH_VIEW_H

#include "doc/launch_plan.h"
#include "report/launch_facts.h"

struct launch_view {
    const struct launch_plan *plan;
    const struct engine *engine;     /* the target, with its launch section */
    const struct document *document; /* that the engine came from, or NULL: the plan's own */
    enum launch_style style;
};

/* Every argument as {name, value, fact}, in order; what the engine cannot be told goes to `diags`,
 * all of it.  MOSAIC_BAD_INPUT where there is any. */
MOSAIC_MUST_USE enum mosaic_status launch_arguments(const struct launch_point *point,
                                                    struct diag_list *diags, json_t **arguments);
/* What the engine leaves to the user of this layout, as texts. */
json_t *launch_left(const struct launch_point *point);
/* The arguments as the engine takes them; comments above.  free() it. */
char *launch_text(json_t *root, enum launch_style style);

/* A new reference; takes `arguments`. */
json_t *build_launch(const struct launch_view *view, const struct launch_point *point,
                     json_t *arguments);

#endif
