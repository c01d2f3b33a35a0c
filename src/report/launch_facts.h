// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a layout, its model and its job are in the words of launch sections (engine/launch.h): the
 * words that hold, and each fact as a value.
 */
#ifndef MOSAIC_REPORT_LAUNCH_FACTS_H
#define MOSAIC_REPORT_LAUNCH_FACTS_H

#include "machine/cluster.h"
#include "step/layout.h"

#include <jansson.h>

struct launch_point {
    const struct geometry *geometry;
    const struct mesh *mesh;
    const struct workload *workload; /* with the stages, for PP of 1 as well */
    const struct cluster *cluster;
    const struct engine *engine; /* that is launched */
    double tokens;               /* of the run, 0: not known */
    bool is_foreign;             /* it was planned for another engine */
};

struct launch_set launch_facts_words(const struct launch_point *p);
/* A new reference: a number, a text or a list of them; NULL where there is nothing to say, or when
 * memory is short. */
json_t *launch_facts_value(const struct launch_point *p, enum launch_fact fact);

#endif
