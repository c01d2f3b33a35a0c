// SPDX-License-Identifier: GPL-3.0-or-later
/* What a report of imported measurements (mosaic.import/1) is made of. */
#ifndef MOSAIC_REPORT_IMPORT_VIEW_H
#define MOSAIC_REPORT_IMPORT_VIEW_H

#include "doc/import_set.h"
#include "fit/sample_fit.h"

#include <jansson.h>

struct import_view {
    enum import_kind kind;
    const struct import_set *set;
    const struct sample_fit *fit;
    const char *document;        /* the calibration's text */
    const char *journal;         /* of the samples, where asked for; or NULL */
    const char *const *settings; /* KEY=VALUE, echoed; ends with NULL; may be NULL */
    const struct diag_list *diags;
    unsigned long seed;
};
/* New references, or NULL when memory is short or a number is not finite. */
json_t *build_import(const struct import_view *view);
/* Entries of a fit and what is doubted about it, as lists. */
json_t *build_sample_entries(const struct sample_fit *fit);
json_t *build_sample_notes(const struct sample_fit *fit);
/* What feeds none of them, measured and predicted. */
json_t *build_sample_checks(const struct sample_fit *fit);

#endif
