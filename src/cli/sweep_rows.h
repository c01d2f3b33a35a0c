// SPDX-License-Identifier: GPL-3.0-or-later
/* Rows of a sweep read back from its CSV. */
#ifndef MOSAIC_CLI_SWEEP_ROWS_H
#define MOSAIC_CLI_SWEEP_ROWS_H

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

struct sweep_table {
    json_t *keys;  /* texts */
    json_t *rows;  /* as sweep_row() makes them, with `point` and `values` */
    size_t points; /* of the whole grid; 0 without a row */
};

/* A last line without its end, which a stopped sweep leaves, does not count. */
MOSAIC_MUST_USE enum mosaic_status sweep_rows_read(const char *path, struct sweep_table *table,
                                                   struct status_error *err);
void sweep_rows_free(struct sweep_table *table);

#endif
