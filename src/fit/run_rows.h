// SPDX-License-Identifier: GPL-3.0-or-later
/* Checks over all rows of a run table, once each is read. */
#ifndef MOSAIC_FIT_RUN_ROWS_H
#define MOSAIC_FIT_RUN_ROWS_H

#include "fit/run_table.h"

/* Copies of an earlier row get their fate; the same name with other values is reported. */
MOSAIC_MUST_USE enum mosaic_status run_rows_mark_copies(struct run_table *table,
                                                        struct diag_list *diags);
/* Counts the fates and names the rows of each but RUN_USED. */
void run_rows_report(struct run_table *table, struct diag_list *diags);
/* FLOPs far from 6 N_active D. */
void run_rows_check_flops(const struct run_table *table, struct diag_list *diags);

/* "rows 2, 5-7" of the rows where is_listed is set. */
void run_rows_list(const struct run_table *table, const bool *is_listed, char *text, size_t size);

#endif
