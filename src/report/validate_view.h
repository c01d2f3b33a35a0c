// SPDX-License-Identifier: GPL-3.0-or-later
/* A validation and what it was asked for, for build_validate; NULL as in build.h. */
#ifndef MOSAIC_REPORT_VALIDATE_VIEW_H
#define MOSAIC_REPORT_VALIDATE_VIEW_H

#include "doc/doc_steps.h"
#include "doc/validate_settings.h"
#include "fit/step_validate.h"

#include <jansson.h>

struct validate_view {
    const struct step_tables *tables;
    const struct step_validation *validation;
    const struct validate_settings *asked;
    const char *const *settings; /* KEY=VALUE, echoed; ends with NULL; may be NULL */
    const struct diag_list *diags;
    unsigned long seed;
};

json_t *build_validate(const struct validate_view *view);

/* Lists about rows. */
json_t *build_validate_excluded(const struct validate_view *view);
json_t *build_validate_unstated(const struct step_validation *validation);
json_t *build_validate_clusters(const struct step_validation *validation);
json_t *build_validate_worst(const struct step_validation *validation, size_t most);
json_t *build_validate_predictions(const struct step_validation *validation);

#endif
