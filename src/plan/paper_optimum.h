// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The optimum on paper: the law alone under a budget of model FLOPs C = 6 n_active_law D, on the
 * declared geometries and tokens, and with N continuous.  The cluster does not enter.
 */
#ifndef MOSAIC_PLAN_PAPER_OPTIMUM_H
#define MOSAIC_PLAN_PAPER_OPTIMUM_H

#include "law/optimum.h"
#include "plan/search.h"

struct paper_optimum {
    double model_flops;
    bool has_grid; /* some geometry takes a token count within the limits */
    size_t index;  /* of the best geometry */
    double tokens, loss, sparsity;
    double granularity;  /* of the continuous optima: the grid optimum's, or the law's widest */
    double sparsity_max; /* bound of the bounded one */
    bool has_continuous;
    struct law_optimum bounded, free;
};

/* Also fills the model-FLOPs side of the bins. */
MOSAIC_MUST_USE enum mosaic_status
paper_optimum_find(const struct problem *problem, double model_flops, struct search_result *search,
                   struct paper_optimum *out, struct status_error *err);

#endif
