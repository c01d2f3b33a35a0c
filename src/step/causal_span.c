// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A query at position q sees min(q, w) keys.  The mean takes the window as reached from the start:
 * min(s, 2 w).  The last part, of n = s / c queries from a = s - n on, is integrated:
 *   w <= a      2 w
 *   w >= s      (s^2 - a^2) / n = s (2 c - 1) / c
 *   between     (w^2 - a^2 + 2 w (s - w)) / n
 * It is never below the mean.  Terms of one query (the diagonal) are left out in both.
 */
#include "step/causal_span.h"

#include <assert.h>
#include <math.h>

double causal_span(double sequence, double window) {
    return window > 0.0 ? fmin(sequence, 2.0 * window) : sequence;
}

double causal_span_last(double sequence, double window, int ranks) {
    assert(ranks >= 1);
    if (ranks == 1)
        return causal_span(sequence, window);
    const double part = sequence / (double)ranks, before = sequence - part;
    const double most = window > 0.0 ? fmin(window, sequence) : sequence;
    if (most <= before)
        return 2.0 * most;
    /* Divided by `part` term by term, so that squares stay small beside each other. */
    return (most - before) / part * (most + before) + 2.0 * most * (sequence - most) / part;
}
