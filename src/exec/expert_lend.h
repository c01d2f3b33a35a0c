// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Weights of experts that other ranks help with: copied from home once a layer, and their gradients
 * returned and added at home, in rank order.  One collective for each lent expert, which all ranks
 * make in expert order.
 */
#ifndef MOSAIC_EXEC_EXPERT_LEND_H
#define MOSAIC_EXEC_EXPERT_LEND_H

#include "exec/expert_routes.h"

/* away[foreign x weights of an expert] takes what this rank borrows; home: its own experts'. */
MOSAIC_MUST_USE enum mosaic_status expert_lend_weights(const struct expert_routes *routes,
                                                       const struct expert_shape *shape,
                                                       struct rank *rank, const float *home,
                                                       float *away, struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status expert_return_gradients(const struct expert_routes *routes,
                                                           const struct expert_shape *shape,
                                                           struct rank *rank, const float *away,
                                                           float *home, struct status_error *err);

#endif
