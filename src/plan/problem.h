// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Everything one planning call depends on, by reference to what the documents own.
 */
#ifndef MOSAIC_PLAN_PROBLEM_H
#define MOSAIC_PLAN_PROBLEM_H

#include "engine/engine.h"
#include "law/law.h"
#include "machine/calibration.h"
#include "machine/cluster.h"
#include "plan/budget.h"
#include "plan/space.h"
#include "step/estimator.h"

struct problem {
    struct cluster cluster;
    struct calibration calibration;
    struct law law;
    struct engine engine;
    struct estimator estimator;
    bool is_published; /* estimator by name */
    struct workload workload;
    struct budget budget;
    struct geometry_space geometries; /* owned: free with problem_free */
    struct space_limits limits;
    struct layout_space layouts;
};

void problem_free(struct problem *p);

#endif
