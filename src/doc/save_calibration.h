// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Fitted samples as a mosaic-calibration/1 document (doc_calibration.c reads it), with the samples
 * themselves under `measurements`, so that the fit can be done again.  The same input gives the
 * same bytes; the document loads as the very calibration of the fit.
 */
#ifndef MOSAIC_DOC_SAVE_CALIBRATION_H
#define MOSAIC_DOC_SAVE_CALIBRATION_H

#include "doc/record.h"
#include "fit/sample_fit.h"

struct save_calibration {
    const char *name;             /* of the document */
    const char *device;           /* the cluster's name of it */
    const char *over;             /* what it is laid over, or NULL: the generic calibration */
    const char *source;           /* of the document and each entry: who measured it, with what */
    const char *licence;          /* NULL: "measured by the user" */
    const char *software;         /* versions measured: "cuda 12.9, nccl 2.27"; NULL: not stated */
    const char *method;           /* of all entries, before the entry's own; NULL: none */
    const char *writer;           /* "mosaic calibrate" */
    const struct sample_fit *fit; /* NULL: measured steps alone */
    const struct sample *samples;
    size_t sample_count;
    const char *measured_steps; /* lines of a `measured_steps:` section, or NULL */
    /* Where each quantity comes from, in place of source, licence, software and method, and the
     * name that its device has there; or NULL. */
    const struct record *record;
    const char *record_device;
};

/* free() the text. */
MOSAIC_MUST_USE enum mosaic_status save_calibration(const struct save_calibration *what,
                                                    char **text, struct status_error *err);

#endif
