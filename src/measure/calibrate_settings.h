// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The options of a calibration as KEY=VALUE texts, as the command line and the library's users give
 * them:
 *   probe     NAME or a path                  option    TEXT for the probe, as often as needed
 *   beside    the directory of the program    level     quick, default or full
 *   cluster   FILE of the machine             samples   FILE, the journal
 *   restart   on: begin the journal anew      name      of the calibration document
 *   timeout   TIME of one job                 budget    TIME of all
 *   output    FILE that the document will be written to: whether it can be is seen before
 * and of a comparison of two calibrations:
 *   old, new  FILE                            tolerance.KEY  of an entry, or of `all`: "5 %"
 */
#ifndef MOSAIC_MEASURE_CALIBRATE_SETTINGS_H
#define MOSAIC_MEASURE_CALIBRATE_SETTINGS_H

#include "measure/job_list.h"

enum { CALIBRATE_OPTIONS_MAX = 64, CALIBRATE_TOLERANCES_MAX = 64 };

/* What differs by less is no drift: clocks and neighbours move a machine by some per cent. */
#define CALIBRATE_TOLERANCE 0.05
#define CALIBRATE_TIMEOUT_S 60.0

struct calibrate_tolerance {
    const char *key; /* text up to the equals sign */
    size_t length;
    double share;
};

struct calibrate_settings {
    const char *probe, *beside, *cluster, *samples, *name, *output; /* NULL when not given */
    const char *options[CALIBRATE_OPTIONS_MAX + 1];                 /* ends with NULL */
    size_t option_count;
    enum job_level level;
    bool restart;
    double timeout_s, budget_s; /* budget 0: that of the level */
    const char *old_path, *new_path;
    double tolerance; /* of all */
    struct calibrate_tolerance tolerances[CALIBRATE_TOLERANCES_MAX];
    size_t tolerance_count;
};

void calibrate_settings_init(struct calibrate_settings *settings);
/* Points into `pair`; MOSAIC_USAGE for a key or a value that is not known. */
MOSAIC_MUST_USE enum mosaic_status calibrate_settings_put(struct calibrate_settings *settings,
                                                          const char *pair,
                                                          struct status_error *err);
/* What is asked has to be whole: a probe, or two documents. */
MOSAIC_MUST_USE enum mosaic_status calibrate_settings_check(const struct calibrate_settings *s,
                                                            struct status_error *err);
/* The tolerance of an entry; *is_own tells one that names it. */
double calibrate_tolerance_of(const struct calibrate_settings *settings, const char *key,
                              bool *is_own);

#endif
