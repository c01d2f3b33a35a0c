// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A CSV table with a header line: columns in any order, quoted fields, every cell with its place.
 * Quoting is libcsv's; the positions are ours.  Blank lines and lines that start with # are
 * skipped.
 */
#ifndef MOSAIC_TEXT_CSV_READ_H
#define MOSAIC_TEXT_CSV_READ_H

#include "base/units.h"
#include "text/diag.h"
#include "text/source.h"

enum {
    CSV_TABLE_MAX_BYTES = 16 * 1024 * 1024,
    CSV_TABLE_MAX_COLUMNS = 1024,
    CSV_TABLE_MAX_CELLS = 4 * 1024 * 1024
};

struct csv_cell {
    const char *text; /* unquoted, never NULL */
    size_t offset;    /* of the field in the source */
};

struct csv_table {
    struct source *source;
    size_t rows, columns; /* data rows, the header apart */
    struct csv_cell *header;
    struct csv_cell *cells; /* row by row */
};

/* Read a file ("-" is standard input); `from` is where its name was written, or NULL. */
MOSAIC_MUST_USE enum mosaic_status csv_table_load(void *memory, const char *path,
                                                  const struct place *from,
                                                  struct csv_table **table,
                                                  struct diag_list *diags);
/* Parse a text in memory; the source must outlive the table. */
MOSAIC_MUST_USE enum mosaic_status csv_table_parse(void *memory, struct source *source,
                                                   struct csv_table **table,
                                                   struct diag_list *diags);
void csv_table_free(struct csv_table *table);

/* Index of a column; false when the header does not have it. */
bool csv_table_find(const struct csv_table *table, const char *name, size_t *column);
/* Indices of the named columns; every one that is missing is reported with a suggestion. */
MOSAIC_MUST_USE enum mosaic_status csv_table_columns(const struct csv_table *table,
                                                     const char *const *names, size_t count,
                                                     size_t *columns, struct diag_list *diags);
/* Cell's text; row and column from 0. */
const char *csv_table_text(const struct csv_table *table, size_t row, size_t column);
/* Cell as a number, or as a quantity with its unit; errors name the column. */
MOSAIC_MUST_USE enum mosaic_status csv_table_number(const struct csv_table *table, size_t row,
                                                    size_t column, double *value,
                                                    struct diag_list *diags);
MOSAIC_MUST_USE enum mosaic_status csv_table_quantity(const struct csv_table *table, size_t row,
                                                      size_t column, enum dimension dim,
                                                      double *value, struct diag_list *diags);
struct place csv_table_place(const struct csv_table *table, size_t row, size_t column);

#endif
