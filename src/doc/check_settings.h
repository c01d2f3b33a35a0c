// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The options of a check as KEY=VALUE texts, as the command line and the library's users give them:
 *   baseline       FILE, a mosaic.baseline/1 document
 *   update         on: make it anew
 *   tolerance.KEY  of a metric (doc_baseline.h) or of `all` of them: a share of the baseline's
 *                  value below 1, as "1 %"; or absolute, with its unit: "0.001 nat" of the loss,
 *                  "5 ms" of the step time, "1 GiB" of the memory, "6 h" of the days
 */
#ifndef MOSAIC_DOC_CHECK_SETTINGS_H
#define MOSAIC_DOC_CHECK_SETTINGS_H

#include "doc/doc_baseline.h"

/* Predictions are exact: a thousandth tells a change from the last digits of another build. */
#define CHECK_TOLERANCE 1e-3

struct check_tolerance {
    bool is_absolute;
    double value; /* share of the baseline's value, or in the metric's unit */
};

struct check_settings {
    const char *baseline; /* NULL when not given */
    bool update;
    struct check_tolerance tolerances[BASELINE_METRICS];
};

void check_settings_init(struct check_settings *settings);
/* Points into `pair`; MOSAIC_USAGE for a key or a value that is not known. */
MOSAIC_MUST_USE enum mosaic_status check_settings_put(struct check_settings *settings,
                                                      const char *pair, struct status_error *err);

#endif
