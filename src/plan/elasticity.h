// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How the best MFU changes near a plan: d ln MFU / d ln N, / d ln(1 - S) and - d ln MFU / d ln G
 * (omega_N, omega_S, omega_G of arXiv 2608.10605, section 2), as a least-squares plane of ln MFU
 * over the plan's neighbours on the declared grid, each with its own best layout.
 */
#ifndef MOSAIC_PLAN_ELASTICITY_H
#define MOSAIC_PLAN_ELASTICITY_H

#include "plan/candidate.h"

struct mfu_elasticities {
    bool is_known;                   /* enough neighbours in general position */
    double n, sparsity, granularity; /* omega_N, omega_S, omega_G */
    double rms;                      /* of the plane, in ln MFU */
    int neighbours;                  /* the plan itself included */
};

MOSAIC_MUST_USE enum mosaic_status mfu_elasticities_find(const struct problem *problem,
                                                         const struct candidate *plan,
                                                         struct mfu_elasticities *out,
                                                         struct status_error *err);

#endif
