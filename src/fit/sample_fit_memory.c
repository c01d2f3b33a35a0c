// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What memory and links bound: streams, copies to and from the host, AdamW.  Short transfers are
 * those of a cache or of a launch: only sizes within a factor of the largest count.
 */
#include "fit/sample_fit_parts.h"

#include <math.h>
#include <stdio.h>

static const long long long_transfers = 8; /* largest over least size that counts */
static const double least_breadth = 4.0;
static const double start_share = 0.7, start_bytes = 60.0, start_fixed = 1e-4;

static bool is_copy(const struct sample *s, bool is_both) {
    const char *const *const words = sample_kind(SAMPLE_HOST_COPY)->keys[0].words;
    return s->quantity == SAMPLE_HOST_COPY && sample_value(s, "load") == 0 &&
           (words[s->value[0]][0] == 'b') == is_both;
}

static bool takes_stream(const struct fitting *f, const struct sample *s, long long least) {
    (void)f;
    return s->quantity == SAMPLE_STREAM && sample_value(s, "bytes") >= least;
}

static bool takes_one_way(const struct fitting *f, const struct sample *s, long long least) {
    (void)f;
    return is_copy(s, false) && sample_value(s, "bytes") >= least;
}

static bool takes_both_ways(const struct fitting *f, const struct sample *s, long long least) {
    (void)f;
    return is_copy(s, true) && sample_value(s, "bytes") >= least;
}

static size_t pick_long(struct fitting *f, fitting_takes *takes) {
    if (fitting_pick(f, takes, 0) == 0)
        return 0;
    return fitting_pick(f, takes, (long long)fitting_most(f, "bytes") / long_transfers);
}

static double stream_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return (double)sample_value(s, "bytes") / (p[0] * f->facts->hbm_bytes_per_s);
}

static double link_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return (double)sample_value(s, "bytes") / (p[0] * f->facts->host_link_bytes_per_s);
}

/* Each direction passes through the host's memory once. */
static double both_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    (void)f;
    return 2.0 * (double)sample_value(s, "bytes") / p[0];
}

static enum mosaic_status fit_stream(struct fitting *f, struct status_error *err) {
    if (pick_long(f, takes_stream) == 0 || !(f->facts->hbm_bytes_per_s > 0.0))
        return MOSAIC_OK;
    struct fitting_outcome o = {.p = {start_share}};
    TRY(fitting_solve(f, stream_seconds, 1, &o, err));
    struct sample_entry *const entry = fitting_scalar(f, CAL_HBM_SHARE, o.p[0], &o);
    if (entry)
        (void)snprintf(entry->method, sizeof entry->method,
                       "bytes read and written over the data sheet's %.4g GB/s",
                       f->facts->hbm_bytes_per_s / 1e9);
    return MOSAIC_OK;
}

static enum mosaic_status fit_copies(struct fitting *f, struct status_error *err) {
    if (f->facts->host_link_bytes_per_s > 0.0 && pick_long(f, takes_one_way) > 0) {
        struct fitting_outcome o = {.p = {start_share}};
        TRY(fitting_solve(f, link_seconds, 1, &o, err));
        struct sample_entry *const entry = fitting_scalar(f, CAL_HOST_LINK_SHARE, o.p[0], &o);
        if (entry)
            (void)snprintf(entry->method, sizeof entry->method,
                           "one direction at a time over the link's %.4g GB/s",
                           f->facts->host_link_bytes_per_s / 1e9);
    }
    if (pick_long(f, takes_both_ways) > 0) {
        const struct sample *const s = &f->sample[f->pick[0]];
        struct fitting_outcome o = {.p = {2.0 * (double)sample_value(s, "bytes") / s->median_s}};
        TRY(fitting_solve(f, both_seconds, 1, &o, err));
        struct sample_entry *const entry = fitting_scalar(f, CAL_HOST_MEMORY_RATE, o.p[0], &o);
        if (entry)
            (void)snprintf(entry->method, sizeof entry->method,
                           "bytes of both directions at once over their time");
    }
    return MOSAIC_OK;
}

/* ---- AdamW ---- */

static bool takes_adamw(const struct fitting *f, const struct sample *s, long long ignored) {
    (void)ignored;
    return s->quantity == SAMPLE_ADAMW && f->facts->hbm_bytes_per_s > 0.0;
}

static double adamw_of_2(const struct fitting *f, const struct sample *s, const double *p) {
    return p[1] + p[0] * (double)sample_value(s, "parameters") / f->facts->hbm_bytes_per_s;
}

static double adamw_of_1(const struct fitting *f, const struct sample *s, const double *p) {
    return p[0] * (double)sample_value(s, "parameters") / f->facts->hbm_bytes_per_s;
}

static enum mosaic_status fit_adamw(struct fitting *f, struct status_error *err) {
    if (fitting_pick(f, takes_adamw, 0) == 0)
        return MOSAIC_OK;
    const bool has_fixed = f->picked >= 3 && fitting_breadth(f, "parameters") >= least_breadth;
    struct fitting_outcome o = {.p = {start_bytes, start_fixed}};
    TRY(fitting_solve(f, has_fixed ? adamw_of_2 : adamw_of_1, has_fixed ? 2 : 1, &o, err));
    struct sample_entry *const bytes = fitting_scalar(f, CAL_OPTIMIZER_BYTES, o.p[0], &o);
    if (bytes)
        (void)snprintf(bytes->method, sizeof bytes->method,
                       "t = %sbytes per parameter over the data sheet's %.4g GB/s",
                       has_fixed ? "fixed + " : "", f->facts->hbm_bytes_per_s / 1e9);
    if (!has_fixed)
        return MOSAIC_OK;
    struct sample_entry *const fixed = fitting_scalar(f, CAL_OPTIMIZER_FIXED, o.p[1], &o);
    if (fixed)
        (void)snprintf(fixed->method, sizeof fixed->method,
                       "fixed time of the same fit; of the kernels alone");
    return MOSAIC_OK;
}

enum mosaic_status fitting_memory(struct fitting *f, struct status_error *err) {
    TRY(fit_stream(f, err));
    TRY(fit_copies(f, err));
    return fit_adamw(f, err);
}
