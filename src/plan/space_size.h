// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How large a declared space is, told before a search: geometries exactly, legal layouts (without
 * splits) from a few geometries spread evenly over the space.
 */
#ifndef MOSAIC_PLAN_SPACE_SIZE_H
#define MOSAIC_PLAN_SPACE_SIZE_H

#include "plan/problem.h"

struct space_size {
    size_t geometries, searches; /* one a number of nodes, one a point of a Pareto grid */
    double meshes;               /* about how many, over all geometries and numbers of nodes */
};
void space_size_estimate(const struct problem *problem, struct space_size *out);

#endif
