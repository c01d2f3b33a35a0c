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
    double host_bytes;   /* of a node: whose GPUs all hold such a stage, or of a split's fullest */
};

void stage_need_of(const struct step_context *ctx, const struct layer_table *table,
                   const struct mesh *mesh, struct stage_range range, struct stage_need *out);
/* Whether GPU and host hold it: what step_predict's verdict asks of every stage. */
bool stage_need_fits(const struct step_context *ctx, const struct stage_need *need);
/* The larger need, in bytes of the device: host bytes count by the share of the host that they
 * take.  At most the device's memory exactly when the stage fits. */
double stage_need_scaled(const struct step_context *ctx, const struct stage_need *need);
/* Whether the host is what is too small, the device not. */
bool stage_need_is_host(const struct step_context *ctx, const struct stage_need *need);
/* Of the fullest stage of a split, and of the fullest node. */
void split_need_of(const struct step_context *ctx, const struct layer_table *table,
                   const struct mesh *mesh, const struct split *split, struct stage_need *out);

#endif
