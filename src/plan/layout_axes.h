// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The axes of a layout as a list: names, values, and text such as "tp=8,pp=4,recompute=full".
 */
#ifndef MOSAIC_PLAN_LAYOUT_AXES_H
#define MOSAIC_PLAN_LAYOUT_AXES_H

#include "plan/space.h"

enum layout_axis {
    LAYOUT_TP,
    LAYOUT_CP,
    LAYOUT_PP,
    LAYOUT_VPP,
    LAYOUT_EP,
    LAYOUT_ETP,
    LAYOUT_MICRO_BATCH,
    LAYOUT_RECOMPUTE,
    LAYOUT_SCHEDULE,
    LAYOUT_AXES
};

/* As the key of search.layout. */
const char *layout_axis_name(enum layout_axis axis);
int layout_axis_get(const struct mesh *mesh, enum layout_axis axis);
void layout_axis_set(struct mesh *mesh, enum layout_axis axis, int value);
/* The value as text: a number, or the word of a recomputation or schedule. */
const char *layout_axis_text(enum layout_axis axis, int value, char out[STATUS_QUOTE_MAX]);

/* The only value that a space leaves an axis; false where there are none or several. */
bool layout_axis_pinned(const struct layout_space *space, enum layout_axis axis, int *value);
/* Whether the space declares a value; a free axis takes any. */
bool layout_axis_declared(const struct layout_space *space, enum layout_axis axis, int value);

/* Sets the axes that the text names; bit i of `given` is set for axis i.  A text that cannot be
 * read is MOSAIC_USAGE with the list of axes. */
MOSAIC_MUST_USE enum mosaic_status layout_text_read(const char *text, struct mesh *mesh,
                                                    unsigned *given, struct status_error *err);

#endif
