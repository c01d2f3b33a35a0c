// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The declared search space: geometries x layouts, in a fixed total order.
 */
#ifndef MOSAIC_PLAN_SPACE_H
#define MOSAIC_PLAN_SPACE_H

#include "step/layout.h"

enum { SPACE_AXIS_MAX = 64 };

/* One axis: the values it may take, ascending; count 0 = free (every legal value). */
struct axis {
    int count;
    int values[SPACE_AXIS_MAX];
    int forbidden_count; /* a free one never takes these */
    int forbidden[SPACE_AXIS_MAX];
};

struct layout_space {
    struct axis tp, cp, pp, vpp, ep, etp, micro_batch;
    bool recompute[RECOMPUTE_MODES];
    bool schedule[SCHEDULES]; /* none: 1F1B */
    bool allow_extrapolation; /* free axes may leave the measured rank counts */
};

/* The same of real numbers. */
struct number_axis {
    int count;
    double values[SPACE_AXIS_MAX];
};

/* How much of the cluster there is to choose; count 0: as it stands. */
struct fleet_space {
    struct axis nodes;
    bool has_pareto; /* over the nodes and these: */
    struct number_axis seconds;
    struct number_axis memory; /* shares of the device's memory that may be used */
};

/* Candidates in order; owned by whoever made the space. */
struct geometry_space {
    size_t count;
    struct geometry *items;
};

struct space_limits {
    double n_total_max, n_active_max;  /* infinity = none; by n_total, n_active */
    double sparsity_min, sparsity_max; /* by the law's count; closed, with 1e-9 slack */
    double tokens_per_active_min, tokens_per_active_max; /* D / n_active_law; infinity = none */
    double unique_tokens; /* beyond them data repeat; infinity = never */
};

#endif
