// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Selection, bounds and exposed copies of selective checkpoint offload.  The paper's bound of two
 * boundaries on the device is w x at depth 1 and one stream; its runs (two streams, 47 boundaries)
 * save (selected - 4) boundaries, which is w x at two.
 */
#include "step/boundary_offload.h"

#include <assert.h>
#include <math.h>

/* Counts and bytes stay whole in a double. */
static const double largest_whole = 9007199254740992.0;

enum { MOST_STREAMS = 2, MOST_DEPTH = 1024 };

long boundary_count(long layers, int streams) {
    return layers * streams - (streams - 1);
}

static double power_of_two_above(double bytes) {
    int exponent;
    const double fraction = frexp(bytes, &exponent);
    return fraction > 0.5 ? ldexp(1.0, exponent) : bytes;
}

static long selection(long boundaries, double bytes, double budget_bytes) {
    if (budget_bytes >= (double)boundaries * bytes)
        return boundaries;
    return (long)floor(budget_bytes / bytes); /* exact: no quotient below a whole rounds up to it */
}

static enum mosaic_status check(long boundaries, double bytes, double budget_bytes,
                                struct status_error *err) {
    if (boundaries < 0)
        return status_set(err, MOSAIC_BAD_INPUT, "%ld boundaries", boundaries);
    if (!(bytes > 0.0 && bytes * fmax(1.0, (double)boundaries) < largest_whole))
        return status_set(err, MOSAIC_BAD_INPUT,
                          "%ld boundaries of %g bytes: a size above 0 and a sum below 2^53 is due",
                          boundaries, bytes);
    if (!(budget_bytes >= 0.0))
        return status_set(err, MOSAIC_BAD_INPUT, "host budget of %g bytes is negative",
                          budget_bytes);
    return MOSAIC_OK;
}

enum mosaic_status boundary_offload_of(long boundaries, double boundary_bytes, double budget_bytes,
                                       int depth, int streams, struct boundary_offload *out,
                                       struct status_error *err) {
    TRY(check(boundaries, boundary_bytes, budget_bytes, err));
    if (depth < 0 || depth > MOST_DEPTH)
        return status_set(err, MOSAIC_BAD_INPUT, "restore depth %d is not 0 to %d", depth,
                          MOST_DEPTH);
    if (streams < 1 || streams > MOST_STREAMS)
        return status_set(err, MOSAIC_BAD_INPUT, "%d streams a layer, not 1 to %d", streams,
                          MOST_STREAMS);
    const double bytes = ceil(boundary_bytes), all = (double)boundaries;
    const double selected = (double)selection(boundaries, bytes, budget_bytes);
    const double kept = all - selected;
    const double window = (double)streams * fmax(2.0, 1.0 + (double)depth);
    const double pinned = power_of_two_above(bytes);
    *out = (struct boundary_offload){
        .boundaries = boundaries,
        .selected = (long)selected,
        .bytes = bytes,
        .pinned_bytes = pinned,
        .depth = depth,
        .streams = streams,
        .device_bytes = bytes * (kept + fmin(selected, window)),
        .device_phase_bytes = bytes * fmax(kept, fmin(all, window)),
        .host_bytes = bytes * selected,
        .host_pinned_bytes = pinned * selected,
        .link_bytes = bytes * selected,
    };
    return MOSAIC_OK;
}

/* Sum over the selected layers of what a layer's copies take beyond `hidden_s`. */
static double beyond(const struct boundary_offload *o, double copy_s, double hidden_s) {
    if (o->selected == 0)
        return 0.0;
    const long rest = o->selected - 1; /* the first layer has one boundary */
    const long whole = rest / o->streams, odd = rest % o->streams;
    return fmax(0.0, copy_s - hidden_s) +
           (double)whole * fmax(0.0, copy_s * (double)o->streams - hidden_s) +
           fmax(0.0, copy_s * (double)odd - hidden_s);
}

struct boundary_exposed boundary_offload_exposed(const struct boundary_offload *o,
                                                 double layer_forward_s, double layer_backward_s,
                                                 double link_bytes_per_s) {
    assert(layer_forward_s > 0.0 && layer_backward_s > 0.0 && link_bytes_per_s > 0.0);
    const double copy_s = o->bytes / link_bytes_per_s;
    struct boundary_exposed out = {
        .forward_s = beyond(o, copy_s, layer_forward_s),
        .backward_s = beyond(o, copy_s, o->depth > 0 ? layer_backward_s : 0.0),
    };
    const long in_last = o->selected - (o->boundaries - o->streams);
    if (o->depth > 0 && in_last > 0) {
        const double first_s = copy_s * fmin((double)in_last, (double)o->selected);
        out.backward_s += fmin(first_s, layer_backward_s);
    }
    return out;
}
