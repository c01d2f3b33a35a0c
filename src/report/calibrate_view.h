// SPDX-License-Identifier: GPL-3.0-or-later
/* What mosaic.calibrate/1 and mosaic.drift/1 are made of. */
#ifndef MOSAIC_REPORT_CALIBRATE_VIEW_H
#define MOSAIC_REPORT_CALIBRATE_VIEW_H

#include "doc/document.h"
#include "fit/sample_fit.h"
#include "measure/calibrate_run.h"
#include "measure/drift.h"

#include <jansson.h>

struct calibrate_view {
    const struct calibrate_settings *settings;
    const struct calibrate_run *run;
    const char *launcher;           /* "srun", ...; "" for one process */
    const struct document *cluster; /* or NULL */
    const char *sheet;              /* cluster whose data sheet the shares are of, or NULL */
    const struct sample_fit *fit;   /* or NULL: nothing to fit */
    const struct diag_list *diags;
    unsigned long seed;
};
/* "ok", "partial" (something was lost), "interrupted", "failed" (the probe was). */
const char *calibrate_status(const struct calibrate_run *run);
json_t *build_calibrate(const struct calibrate_view *view);

struct drift_view {
    const struct calibrate_settings *settings;
    const struct document *was, *now;
    const struct drift *drift;
    const struct diag_list *diags;
    unsigned long seed;
};
json_t *build_drift(const struct drift_view *view);

#endif
