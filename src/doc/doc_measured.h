// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A table of steps measured on the layouts of a plan's shortlist (CSV): `id`, as the plan printed
 * it, and `step_time_s`, the median of a short run in seconds.  Further columns are for people.  A
 * row without a time is a run not made yet; several rows of one layout count by their geometric
 * mean. A row of another id may lay the plan's job out in the columns of a table of steps
 * (step_row.h): model, tp, pp, mbs, recompute, ...
 */
#ifndef MOSAIC_DOC_DOC_MEASURED_H
#define MOSAIC_DOC_DOC_MEASURED_H

#include "doc/document.h"
#include "plan/decision_measured.h"

/* What was read of it. */
struct measured_table {
    struct document_input input;
    size_t rows, empty; /* data rows; of them without a time */
    struct measured_layouts layouts;
};

/* The header of a table to be filled in, without the line's end. */
extern const char doc_measured_header[];

/* Every row is looked at, and what is wrong with it reported at its place.  path must outlive the
 * table. */
MOSAIC_MUST_USE enum mosaic_status doc_measured_read(const struct document *document,
                                                     const char *path, struct diag_list *diags,
                                                     struct measured_table *out);

#endif
