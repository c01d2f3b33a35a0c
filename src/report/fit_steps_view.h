// SPDX-License-Identifier: GPL-3.0-or-later
/* What a report of step constants (mosaic.fit_steps/1) is made of. */
#ifndef MOSAIC_REPORT_FIT_STEPS_VIEW_H
#define MOSAIC_REPORT_FIT_STEPS_VIEW_H

#include "doc/doc_steps.h"
#include "fit/step_study.h"

#include <jansson.h>

struct fit_steps_view {
    const struct step_tables *tables;
    const struct step_study *study;
    const char *rows_path;
    const char *const *settings; /* KEY=VALUE, echoed; ends with NULL; may be NULL */
    const struct diag_list *diags;
    unsigned long seed;
};
/* A new reference, or NULL when memory is short or a number is not finite. */
json_t *build_fit_steps(const struct fit_steps_view *view);

#endif
