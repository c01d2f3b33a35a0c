// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * When the schedules of live_sets.h do what: one MoE layer's forward in chunks, the head's meetings
 * around the ring, a boundary's way to the host and back, the optimizer's buckets.  Each set has a
 * clock of its own that starts at 0 and ends at what the step is priced at:
 *   dispatch    chunk_time_s
 *   vocabulary  vocab_ring_pass_time, forward and backward
 *   boundaries  a layer's forward and backward, or the copy beside it where that takes longer
 *   optimizer   state_stream_time and the fixed part of an optimizer step
 */
#ifndef MOSAIC_STEP_LIVE_TIMELINE_H
#define MOSAIC_STEP_LIVE_TIMELINE_H

#include "step/live_sets.h"

enum live_lane { LIVE_COMPUTE, LIVE_EXCHANGE, LIVE_HOST_COPY, LIVE_RING, LIVE_LANES };

struct live_row {
    enum live_set_kind set;
    enum live_lane lane;
    const char *what;
    long first, last; /* which, from 0; last > first: left out together; -1: there is only one */
    bool is_left_out;
    double start_s, end_s;
};

/* More pieces than `all` are cut to the first and the last few. */
enum {
    LIVE_CHUNKS_ALL = 16,
    LIVE_CHUNKS_FIRST = 8,
    LIVE_CHUNKS_LAST = 4,
    LIVE_MEETINGS_ALL = 16,
    LIVE_MEETINGS_FIRST = 8,
    LIVE_MEETINGS_LAST = 4,
    LIVE_BUCKETS_ALL = 7,
    LIVE_BUCKETS_FIRST = 4,
    LIVE_BUCKETS_LAST = 2,
    LIVE_ROWS_MAX = 160
};

struct live_timeline {
    int count;
    struct live_row rows[LIVE_ROWS_MAX];
    double end_s[LIVE_SETS]; /* of each clock; 0: the stage has no such set, or it is off */
    struct chunk_times chunk;
    double copy_s, layer_forward_s, layer_backward_s; /* of a boundary and a layer */
    struct state_stream_time bucket;
};

void live_timeline_of(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, const struct split *split,
                      const struct live_sets *sets, struct live_timeline *out);

/* "compute", "dispatch", "host copy", "ring". */
const char *live_lane_name(enum live_lane lane);

#endif
