// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Whether any split of the layers over the stages of a mesh holds the model, without pricing one.
 * Memory rises with the layers of a stage, so that stages that take, in order, as many as they can
 * hold leave the fewest to those behind: if some are left over, no split fits.
 */
#ifndef MOSAIC_PLAN_SPLIT_ROOM_H
#define MOSAIC_PLAN_SPLIT_ROOM_H

#include "step/step.h"

/* False: no split fits, on the device or in host memory.  True: one may; so too where the mesh has
 * one split only, stages choose their own recomputation, or what waits on the host is cut into
 * pieces, which may shrink as a stage grows. */
bool split_has_room(const struct step_context *ctx, const struct layer_table *table,
                    const struct mesh *mesh);

#endif
