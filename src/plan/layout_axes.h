// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The axes of a layout as a list: names, values, and text such as "tp=8,pp=4,recompute=full", which
 * may go on with keys of the execution: "dispatcher=deepep,offload_optimizer=1".
 */
#ifndef MOSAIC_PLAN_LAYOUT_AXES_H
#define MOSAIC_PLAN_LAYOUT_AXES_H

#include "engine/way.h"
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
    LAYOUT_AXES,             /* those with a name */
    LAYOUT_WAY = LAYOUT_AXES /* of the problem's ways to run the job; named by the keys it sets */
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

/* Keys of the execution by which two ways to run the job differ: bit i for key i. */
unsigned layout_way_difference(const struct execution *a, const struct execution *b);

/* What a text says; the rest is 0. */
struct layout_request {
    struct mesh mesh;
    double ways[WAY_AXES];
    unsigned given, given_ways; /* bit i: axis i */
};
/* A text that cannot be read is MOSAIC_USAGE with the list of axes. */
MOSAIC_MUST_USE enum mosaic_status layout_text_read(const char *text, struct layout_request *out,
                                                    struct status_error *err);

#endif
