// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A measured curve y(x): samples on a positive axis, resampled once to a uniform grid in log2 x, so
 * that a look-up is one logarithm and one fused multiply-add.  Monotone between samples (Steffen,
 * Astron. Astrophys. 239, 1990); flat outside the measured range, and tagged so
 * (CURVE_RATE below its first sample: the time is flat).
 */
#ifndef MOSAIC_MACHINE_CURVE_H
#define MOSAIC_MACHINE_CURVE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { CURVE_GRID = 96, CURVE_MAX_SAMPLES = 64 };

/* How the values between samples are found. */
enum curve_method {
    CURVE_STEFFEN, /* monotone cubic in (log2 x, y) */
    CURVE_RATE,    /* y is a rate: monotone cubic in (log2 x, log2 of the time x / y) */
    CURVE_LATENCY, /* y is a rate: x / y = latency + x / asymptote, fitted to the samples */
};

/* Where a look-up fell; every prediction counts them. */
enum lookup_tag { LOOKUP_EXACT, LOOKUP_INTERPOLATED, LOOKUP_OUTSIDE, LOOKUP_TAGS };

struct lookup_count {
    unsigned tag[LOOKUP_TAGS];
};

struct curve {
    enum curve_method method;
    int samples;
    double x[CURVE_MAX_SAMPLES], y[CURVE_MAX_SAMPLES];
    bool is_exact[CURVE_MAX_SAMPLES]; /* the resampled curve gives this sample back */
    int intervals;                    /* of the grid, less than CURVE_GRID */
    double log_min, inv_step;         /* grid: log2 x = log_min + i / inv_step */
    double grid[CURVE_GRID];
    double latency, asymptote; /* CURVE_LATENCY: units of x / y, and of y */
};

/* x and y positive and finite, x strictly rising, 1 <= count <= CURVE_MAX_SAMPLES. */
MOSAIC_MUST_USE enum mosaic_status curve_build(struct curve *out, enum curve_method method,
                                               const double *x, const double *y, size_t count,
                                               struct status_error *err);
/* The value at x > 0; `count` (may be NULL) learns how it was found. */
double curve_at(const struct curve *c, double x, struct lookup_count *count);

#endif
