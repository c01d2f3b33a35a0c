// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A measurement, and the lines of JSON of `schedule`.
 *
 * Method: untimed rounds first; then in each round a kernel holds the stream until all is queued,
 * so that the time between the two events is the device's; queue_s is what the host took to queue
 * it.  The holder lets go by itself after a while, because a full queue would wait for it: a round
 * with more launches than the queue takes is timed with the host in it, as it runs in life.
 * Median, least and most of the rounds.
 */
#ifndef MOSAIC_CALIBRATION_TIMING_H
#define MOSAIC_CALIBRATION_TIMING_H

#include "probe.h"

/* As many calls as last a while, and untimed ones until clocks are up. */
enum { CALLS_FILL = 0 };

struct work {
    const char *quantity;
    /* Queues the work on probe->stream or, with lanes, on probe->lane[0 to lanes - 1]. */
    void (*queue)(struct probe *probe, void *context);
    void *context;
    double flop, bytes; /* 0: no rate is told */
    int lanes;
    /* What the time of a lane is called in the line; NULL leaves it out. */
    const char *lane_names[PROBE_LANES];
    /* Queued before the clock starts, such as a barrier of the ranks. */
    void (*prepare)(struct probe *probe, void *context) = nullptr;
    /* Times that a round queues it in a row; its time is divided.  Ranks must agree on them. */
    int calls = 1;
    /* The host's pace counts: nothing is held. */
    bool is_free = false;
};

struct spread {
    double median, least, most;
};

struct timing {
    struct spread time_s, queue_s, lane_s[PROBE_LANES];
};

void timing_measure(struct probe *probe, const struct work *work, struct timing *out);
void timing_print(const struct probe *probe, const struct work *work, const struct timing *timing);
/* Both. */
void timing_take(struct probe *probe, const struct work *work);

/* Of `count` seconds, which it sorts. */
struct spread timing_spread(double *seconds, int count);

/* A line {quantity, unit, value, ...} for what was not timed on the device. */
struct figure {
    const char *name; /* ends in its unit */
    double value;
};
void timing_print_figures(const struct probe *probe, const char *quantity,
                          const struct figure *figures, int count);

/* Largest difference over the largest of `want`; a line with the verdict. */
void timing_compare(struct probe *probe, const char *quantity, const float *got, const float *want,
                    size_t count, double tolerance);

double timing_clock_s(void);

#endif
