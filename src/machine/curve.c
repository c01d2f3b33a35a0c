// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Efficiency curves: Steffen interpolation in log2 x, or latency + size / bandwidth, resampled once
 * to a uniform grid.  Outside the samples a Steffen curve is flat; a latency curve keeps its form,
 * which is the physical limit on both sides.  Both are tagged outside.
 */
#include "machine/curve.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_spline.h>
#include <math.h>
#include <string.h>

static enum mosaic_status check_samples(const double *x, const double *y, size_t count,
                                        struct status_error *err) {
    if (count < 1 || count > CURVE_MAX_SAMPLES)
        return status_set(err, MOSAIC_BAD_INPUT, "a curve takes 1 to %d samples, not %zu",
                          CURVE_MAX_SAMPLES, count);
    for (size_t i = 0; i < count; ++i) {
        if (!(x[i] > 0.0) || !isfinite(x[i]) || !(y[i] > 0.0) || !isfinite(y[i]))
            return status_set(err, MOSAIC_BAD_INPUT,
                              "sample %zu (%g, %g) is not positive and finite", i + 1, x[i], y[i]);
        if (i > 0 && !(x[i] > x[i - 1]))
            return status_set(err, MOSAIC_BAD_INPUT, "sample %zu: %g does not rise above %g", i + 1,
                              x[i], x[i - 1]);
    }
    return MOSAIC_OK;
}

/* Least squares of time = latency + x / asymptote with relative weights, so that small and large
 * messages count alike; a single sample leaves no latency. */
static void fit_latency(struct curve *c) {
    double s_w = 0.0, s_x = 0.0, s_t = 0.0, s_xx = 0.0, s_xt = 0.0;
    for (int i = 0; i < c->samples; ++i) {
        const double t = c->x[i] / c->y[i], w = 1.0 / (t * t);
        s_w += w;
        s_x += w * c->x[i];
        s_t += w * t;
        s_xx += w * c->x[i] * c->x[i];
        s_xt += w * c->x[i] * t;
    }
    const double det = s_w * s_xx - s_x * s_x;
    double slope = s_xt / s_xx, latency = 0.0;
    if (c->samples > 1 && det > 0.0) {
        const double free_slope = (s_w * s_xt - s_x * s_t) / det;
        const double free_latency = (s_t - free_slope * s_x) / s_w;
        if (free_slope > 0.0 && free_latency >= 0.0) {
            slope = free_slope;
            latency = free_latency;
        }
    }
    c->latency = latency;
    c->asymptote = 1.0 / slope;
}

/* The finest grid whose nodes include every sample, as in a table of powers of two; the finest of
 * all when there is none. */
static int choose_intervals(const double *log_x, size_t n) {
    for (int k = CURVE_GRID - 1; k >= CURVE_GRID / 2; --k) {
        bool fits = true;
        for (size_t i = 0; fits && i < n; ++i) {
            const double at = (log_x[i] - log_x[0]) / (log_x[n - 1] - log_x[0]) * (double)k;
            fits = fabs(at - round(at)) < 1e-9;
        }
        if (fits)
            return k;
    }
    return CURVE_GRID - 1;
}

static enum mosaic_status resample_steffen(struct curve *c, struct status_error *err) {
    const size_t n = (size_t)c->samples;
    double log_x[CURVE_MAX_SAMPLES], value[CURVE_MAX_SAMPLES];
    const bool is_rate = c->method == CURVE_RATE;
    for (size_t i = 0; i < n; ++i) {
        log_x[i] = log2(c->x[i]);
        value[i] = is_rate ? log2(c->x[i] / c->y[i]) : c->y[i];
    }
    const gsl_interp_type *const type = n >= 3 ? gsl_interp_steffen : gsl_interp_linear;
    gsl_interp *const interp = gsl_interp_alloc(type, n);
    if (!interp)
        return status_no_memory(err);
    int code = gsl_interp_init(interp, log_x, value, n);
    c->intervals = choose_intervals(log_x, n);
    const double step = (log_x[n - 1] - log_x[0]) / (double)c->intervals;
    for (int i = 0; code == GSL_SUCCESS && i <= c->intervals; ++i) {
        const double at = i == c->intervals ? log_x[n - 1] : log_x[0] + step * (double)i;
        code = gsl_interp_eval_e(interp, log_x, value, at, NULL, &c->grid[i]);
        if (is_rate)
            c->grid[i] = exp2(c->grid[i]);
    }
    gsl_interp_free(interp);
    if (code != GSL_SUCCESS)
        return status_set(err, MOSAIC_NUMERIC, "a curve could not be interpolated: %s",
                          gsl_strerror(code));
    c->inv_step = 1.0 / step;
    return MOSAIC_OK;
}

enum mosaic_status curve_build(struct curve *out, enum curve_method method, const double *x,
                               const double *y, size_t count, struct status_error *err) {
    TRY(check_samples(x, y, count, err));
    struct curve c = {.method = method, .samples = (int)count, .log_min = log2(x[0])};
    memcpy(c.x, x, count * sizeof *x);
    memcpy(c.y, y, count * sizeof *y);
    if (method == CURVE_LATENCY)
        fit_latency(&c);
    else if (count > 1)
        TRY(resample_steffen(&c, err));
    for (size_t i = 0; i < count; ++i)
        c.is_exact[i] = fabs(curve_at(&c, x[i], NULL) - y[i]) <= 1e-9 * y[i];
    *out = c;
    return MOSAIC_OK;
}

static void tag(const struct curve *c, double x, struct lookup_count *count) {
    enum lookup_tag found = LOOKUP_INTERPOLATED;
    if (x < c->x[0] * (1.0 - 1e-12) || x > c->x[c->samples - 1] * (1.0 + 1e-12)) {
        found = LOOKUP_OUTSIDE;
    } else {
        for (int i = 0; i < c->samples; ++i)
            if (c->is_exact[i] && fabs(x - c->x[i]) <= 1e-9 * c->x[i])
                found = LOOKUP_EXACT;
    }
    count->tag[found]++;
}

double curve_at(const struct curve *c, double x, struct lookup_count *count) {
    if (count)
        tag(c, x, count);
    if (c->method == CURVE_LATENCY)
        return x / (c->latency + x / c->asymptote);
    if (c->method == CURVE_RATE && x < c->x[0])
        return x * c->y[0] / c->x[0];
    if (c->samples == 1 || x <= c->x[0])
        return c->y[0];
    if (x >= c->x[c->samples - 1])
        return c->y[c->samples - 1];
    const double at = (log2(x) - c->log_min) * c->inv_step;
    const int last = c->intervals - 1, i = (int)at < last ? (int)at : last;
    const double value = c->grid[i] + (at - (double)i) * (c->grid[i + 1] - c->grid[i]);
    return c->method == CURVE_RATE ? x / value : value;
}
