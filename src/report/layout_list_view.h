// SPDX-License-Identifier: GPL-3.0-or-later
/* What a list of layouts (mosaic.layout/1) is made of. */
#ifndef MOSAIC_REPORT_LAYOUT_LIST_VIEW_H
#define MOSAIC_REPORT_LAYOUT_LIST_VIEW_H

#include "doc/document.h"
#include "plan/layout_list.h"

#include <jansson.h>

struct layout_list_view {
    const struct document *document; /* has one geometry */
    const struct layout_study *study;
    const struct diag_list *diags; /* of loading */
    unsigned long seed;
};
/* A new reference, or NULL when memory is short or a number is not finite. */
json_t *build_layout_list(const struct layout_list_view *view);

#endif
