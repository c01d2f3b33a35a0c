// SPDX-License-Identifier: GPL-3.0-or-later
/* What the report of an explanation is made from. */
#ifndef MOSAIC_REPORT_EXPLAIN_VIEW_H
#define MOSAIC_REPORT_EXPLAIN_VIEW_H

#include "doc/document.h"
#include "plan/explain.h"

#include <jansson.h>

struct explain_view {
    const struct document *document;
    const struct diag_list *diags; /* of its loading */
    const struct explanation *explanation;
};

/* As build.h says of all builders. */
json_t *build_explain(const struct explain_view *view, unsigned long seed);

#endif
