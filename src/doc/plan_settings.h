// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The options of a plan as KEY=VALUE texts, as the command line and the library's users give them:
 *   certificate      on: the result's document is a mosaic.certificate/1
 *   sensitivity      on: elasticities to the cluster's figures, flip points, prices of pins
 *   measured         FILE, a CSV of steps measured on the shortlist, taken into the model
 *   time_limit       as "60 s": the search ends with what it has
 *   geometry_limit   whole number: as many geometries are opened at most
 */
#ifndef MOSAIC_DOC_PLAN_SETTINGS_H
#define MOSAIC_DOC_PLAN_SETTINGS_H

#include "base/status.h"

#include <stdbool.h>

struct plan_settings {
    bool certificate, sensitivity;
    const char *measured; /* NULL when not given */
    double time_limit_s;  /* 0: none */
    long geometry_limit;  /* 0: none */
};

/* settings ends with NULL, and may be NULL itself; texts are pointed into.  MOSAIC_USAGE for a key
 * or a value that is not known. */
MOSAIC_MUST_USE enum mosaic_status plan_settings_read(const char *const *settings,
                                                      struct plan_settings *out,
                                                      struct status_error *err);

#endif
