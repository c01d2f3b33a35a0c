// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Launches, and what a collective under a GEMM still costs:
 *   both together = GEMM alone + exposed share x collective alone
 * where the GEMM lasts as long as the collective, so that all of it could hide; what the model does
 * with a longer one is its own affair (sample_fit_check.c).  Of an all-reduce the rest is the share
 * of a gradient bucket that hides in an open window.
 */
#include "fit/sample_fit_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double least_share = 1e-6;

static bool takes_launch(const struct fitting *f, const struct sample *s, long long ignored) {
    (void)f;
    (void)ignored;
    return s->quantity == SAMPLE_LAUNCH && sample_value(s, "graph") == 0;
}

static double launch_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    (void)f;
    (void)s;
    return p[0];
}

static enum mosaic_status fit_launch(struct fitting *f, struct status_error *err) {
    if (fitting_pick(f, takes_launch, 0) == 0)
        return MOSAIC_OK;
    struct fitting_outcome o = {.p = {f->sample[f->pick[0]].median_s}};
    TRY(fitting_solve(f, launch_seconds, 1, &o, err));
    struct sample_entry *const entry = fitting_scalar(f, CAL_HOST_GAP, o.p[0], &o);
    if (entry)
        (void)snprintf(entry->method, sizeof entry->method,
                       "an empty kernel in a row of them; a framework's own host time comes on "
                       "top");
    return MOSAIC_OK;
}

/* ---- overlap ---- */

/* Collectives whose exposed share a scalar is (dp.overlap: what it leaves of 1); two kinds may feed
 * one. */
struct overlap {
    enum scalar scalar;
    const char *kinds[2];
};
static const struct overlap overlaps[] = {
    {CAL_TP_OVERLAPPED, {"all_gather", "reduce_scatter"}},
    {CAL_EP_OVERLAPPED, {"all_to_all", NULL}},
    {CAL_PP_OVERLAPPED, {"point_to_point", NULL}},
    {CAL_DP_OVERLAP, {"all_reduce", NULL}},
};

static const struct sample *part(const struct fitting *f, const struct sample *s,
                                 const char *word) {
    return fitting_partner(f, s, "part", fitting_word(SAMPLE_OVERLAP, "part", word));
}

static bool takes_both(const struct fitting *f, const struct sample *s, long long which) {
    if (s->quantity != SAMPLE_OVERLAP ||
        sample_value(s, "part") != fitting_word(SAMPLE_OVERLAP, "part", "both") ||
        !part(f, s, "gemm") || !part(f, s, "collective") ||
        part(f, s, "gemm")->median_s < part(f, s, "collective")->median_s)
        return false;
    for (size_t i = 0; i < 2; i++) {
        const char *const kind = overlaps[which].kinds[i];
        if (kind && sample_value(s, "kind") == fitting_word(SAMPLE_OVERLAP, "kind", kind))
            return true;
    }
    return false;
}

static double both_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return part(f, s, "gemm")->median_s + p[0] * part(f, s, "collective")->median_s;
}

static enum mosaic_status fit_overlap(struct fitting *f, size_t which, struct status_error *err) {
    if (fitting_pick(f, takes_both, (long long)which) == 0)
        return MOSAIC_OK;
    struct fitting_outcome o = {.p = {0.3}};
    TRY(fitting_solve(f, both_seconds, 1, &o, err));
    const double exposed = o.p[0] < least_share ? 0.0 : fmin(o.p[0], 1.0);
    const bool is_hidden = overlaps[which].scalar == CAL_DP_OVERLAP;
    if (o.p[0] > 1.0)
        fitting_note(
            f, SAMPLE_NOTE_RANGE,
            "%s: both together take longer than one after the other (%.2f): exposed is all",
            calibration_scalar_info(overlaps[which].scalar)->key, o.p[0]);
    struct sample_entry *const entry =
        fitting_scalar(f, overlaps[which].scalar, is_hidden ? 1.0 - exposed : exposed, &o);
    if (entry)
        (void)snprintf(entry->method, sizeof entry->method,
                       "%s(both together - GEMM alone) / collective alone, GEMMs as long as it",
                       is_hidden ? "1 - " : "");
    return MOSAIC_OK;
}

/* The two alone belong to the entry as well. */
static void use_parts(struct fitting *f) {
    for (size_t i = 0; i < f->count; i++) {
        const struct sample *const s = &f->sample[i];
        if (s->quantity != SAMPLE_OVERLAP)
            continue;
        const struct sample *const both = part(f, s, "both");
        if (both && f->is_used[both - f->sample])
            f->is_used[i] = true;
    }
}

enum mosaic_status fitting_host(struct fitting *f, struct status_error *err) {
    TRY(fit_launch(f, err));
    for (size_t i = 0; i < sizeof overlaps / sizeof *overlaps; i++)
        TRY(fit_overlap(f, i, err));
    use_parts(f);
    return MOSAIC_OK;
}
