// SPDX-License-Identifier: GPL-3.0-or-later
/* An expert layer of the executors, set up for a job of quantity moe_layer, and timed as a whole.
 */
#ifndef MOSAIC_CALIBRATION_HOST_LAYER_H
#define MOSAIC_CALIBRATION_HOST_LAYER_H

#include "host.h"

#include "exec/expert_dispatch.h"

/* Three blocks of a job each. */
enum { HOST_LAYER_RANKS = JOB_BLOCKS_MAX / 3 };

struct host_layer_part {
    struct moe_batch batch;
    const float *dy;
    struct moe_result result;
};

struct host_layer {
    int ranks;
    size_t tokens; /* of a rank */
    struct moe_shape shape;
    struct host_layer_part parts[HOST_LAYER_RANKS];
    double begin_s, end_s;
};

/* The layer of a job's keys; its blocks are the job's.  False and refused otherwise. */
bool host_layer_take(struct host_job *job, struct host_layer *layer);
/* One run, forward or forward and backward; 0 when it failed. */
double host_layer_time_s(struct host_layer *layer, bool with_backward);
bool host_layer_is_right(const struct host_layer *layer, bool with_backward);

#endif
