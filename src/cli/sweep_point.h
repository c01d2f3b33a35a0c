// SPDX-License-Identifier: GPL-3.0-or-later
/* One point of a sweep: the file with --set and then the values of the point, predicted where it
 * pins a model and a layout, planned otherwise. */
#ifndef MOSAIC_CLI_SWEEP_POINT_H
#define MOSAIC_CLI_SWEEP_POINT_H

#include "cli/session.h"

#include <jansson.h>

struct sweep_point {
    struct mosaic *mosaic;
    const struct option_set *options;
    json_t *vary, *overrides;
    struct progress *bar;
    double done, total;       /* points */
    char *complaint;          /* of the first point in error: its diagnostics, or NULL */
    enum mosaic_status fault; /* its status */
};

/* SIGINT asks the point at work to end, and every later one; a second one kills. */
void sweep_catch_interrupt(void);
bool sweep_is_interrupted(void);

/* Starts the session of all points, with the other members in place; false when memory is short. */
bool sweep_point_begin(struct sweep_point *point);
void sweep_point_end(struct sweep_point *point);

/* The point's row, with `provenance` for sweep_add_inputs(); what fails makes a row that says so.
 * MOSAIC_INTERRUPTED and MOSAIC_INTERNAL come without one. */
MOSAIC_MUST_USE enum mosaic_status sweep_point_run(struct sweep_point *point, json_t *values,
                                                   json_t **row);
/* Whether a row that was read back is of the same inputs; gives it its `provenance`. */
MOSAIC_MUST_USE enum mosaic_status sweep_point_check(struct sweep_point *point, json_t *row,
                                                     bool *is_same);

#endif
