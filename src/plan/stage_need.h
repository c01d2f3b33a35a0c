// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What one stage of a mesh needs of its GPU and of the host: both must suffice.  Where the cluster
 * does not state its host memory nothing there binds.
 */
#ifndef MOSAIC_PLAN_STAGE_NEED_H
#define MOSAIC_PLAN_STAGE_NEED_H

#include "step/step.h"

struct stage_need {
    double device_bytes; /* of a GPU */
    double host_bytes;   /* of a node: of those of its GPUs that hold the stage, or of all */
};

void stage_need_of(const struct step_context *ctx, const struct layer_table *table,
                   const struct mesh *mesh, struct stage_range range, struct stage_need *out);
/* Whether some node has GPUs of two stages: then what these need of the host together is not what
 * each needs, and that each fits is no more than necessary. */
bool stage_need_is_shared(const struct step_context *ctx, const struct mesh *mesh);
/* Whether GPU and host hold it: what step_predict's verdict asks of every stage, and of the stages
 * of a node together. */
bool stage_need_fits(const struct step_context *ctx, const struct stage_need *need);
/* The larger need, in bytes of the device: host bytes count by the share of the host that they
 * take.  At most the device's memory exactly when the stage fits. */
double stage_need_scaled(const struct step_context *ctx, const struct stage_need *need);
/* Of the fullest stage of a split, and of the fullest node. */
void split_need_of(const struct step_context *ctx, const struct layer_table *table,
                   const struct mesh *mesh, const struct split *split, struct stage_need *out);

#endif
