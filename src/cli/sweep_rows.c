// SPDX-License-Identifier: GPL-3.0-or-later
/* point, points, a column a key, then the fixed columns of report/sweep_view.h. */
#include "cli/sweep_rows.h"

#include "cli/sweep_grid.h"
#include "report/sweep_view.h"
#include "text/csv_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_KEY = 2, DECIMAL = 10 };

/* The whole lines of a file; free() them. */
static enum mosaic_status read_lines(const char *path, char **text, size_t *size,
                                     struct status_error *err) {
    FILE *const file = fopen(path, "r");
    char *const buffer = malloc(CSV_TABLE_MAX_BYTES);
    size_t length = file && buffer ? fread(buffer, 1, CSV_TABLE_MAX_BYTES, file) : 0;
    const bool bad = !file || ferror(file);
    const int why = errno;
    if (file)
        (void)fclose(file);
    if (!bad && buffer && length < CSV_TABLE_MAX_BYTES) {
        while (length > 0 && buffer[length - 1] != '\n')
            length--;
        *text = buffer;
        *size = length;
        return MOSAIC_OK;
    }
    free(buffer);
    if (bad)
        return status_set(err, MOSAIC_IO, "cannot read '%s': %s", path, strerror(why));
    return buffer ? status_set(err, MOSAIC_BAD_INPUT, "%s is larger than %d bytes", path,
                               (int)CSV_TABLE_MAX_BYTES)
                  : status_no_memory(err);
}

static const char *cell(const struct csv_table *csv, size_t row, size_t column) {
    return csv_table_text(csv, row, column);
}

static enum mosaic_status check_name(const struct csv_table *csv, size_t column, const char *name,
                                     struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    if (strcmp(csv->header[column].text, name) == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "no table of a sweep: column %zu is '%s', '%s' is due",
                      column + 1, status_quote(csv->header[column].text, shown, sizeof shown),
                      name);
}

static enum mosaic_status read_keys(const struct csv_table *csv, struct sweep_table *table,
                                    struct status_error *err) {
    const size_t least = FIRST_KEY + 1 + sweep_column_count;
    if (csv->columns < least || csv->columns >= least + SWEEP_KEYS_MAX)
        return status_set(err, MOSAIC_BAD_INPUT, "no table of a sweep: %zu columns", csv->columns);
    TRY(check_name(csv, 0, "point", err));
    TRY(check_name(csv, 1, "points", err));
    const size_t fixed = csv->columns - sweep_column_count;
    for (size_t i = 0; i < sweep_column_count; i++)
        TRY(check_name(csv, fixed + i, sweep_columns[i].name, err));
    for (size_t i = FIRST_KEY; i < fixed; i++)
        if (json_array_append_new(table->keys, json_string(csv->header[i].text)) != 0)
            return status_no_memory(err);
    return MOSAIC_OK;
}

static enum mosaic_status spoiled(const struct csv_table *csv, size_t row, size_t column,
                                  struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    return status_set(err, MOSAIC_BAD_INPUT, "line %ld: '%s' cannot be the row's %s",
                      csv_table_place(csv, row, column).line,
                      status_quote(cell(csv, row, column), shown, sizeof shown),
                      csv->header[column].text);
}

static json_t *number_of(const char *text) {
    double value;
    char *end = NULL;
    if (units_parse_number(text, &value, NULL) != MOSAIC_OK)
        return NULL;
    if (strpbrk(text, ".eE"))
        return json_real(value);
    errno = 0;
    const long long whole = strtoll(text, &end, DECIMAL);
    return errno == 0 && end && *end == '\0' ? json_integer(whole) : NULL;
}

static enum mosaic_status read_counts(const struct csv_table *csv, size_t at, json_t *row,
                                      struct sweep_table *table, struct status_error *err) {
    json_t *const point = number_of(cell(csv, at, 0));
    json_t *const points = number_of(cell(csv, at, 1));
    const json_int_t one = json_integer_value(point), all = json_integer_value(points);
    json_decref(points);
    if (one < 1 || all < one || all > SWEEP_POINTS_MAX) {
        json_decref(point);
        return spoiled(csv, at, all < 1 || all > SWEEP_POINTS_MAX ? 1 : 0, err);
    }
    if (json_object_set_new(row, "point", point) != 0)
        return status_no_memory(err);
    if (table->points == 0)
        table->points = (size_t)all;
    return table->points == (size_t)all ? MOSAIC_OK : spoiled(csv, at, 1, err);
}

static enum mosaic_status read_row(const struct csv_table *csv, size_t at, json_t *row,
                                   struct sweep_table *table, struct status_error *err) {
    const size_t fixed = csv->columns - sweep_column_count;
    TRY(read_counts(csv, at, row, table, err));
    json_t *const values = json_array();
    if (json_object_set_new(row, "values", values) != 0)
        return status_no_memory(err);
    for (size_t i = FIRST_KEY; i < fixed; i++)
        if (json_array_append_new(values, json_string(cell(csv, at, i))) != 0)
            return status_no_memory(err);
    for (size_t i = 0; i < sweep_column_count; i++) {
        const char *const text = cell(csv, at, fixed + i);
        if (*text == '\0')
            continue;
        json_t *const value = sweep_columns[i].is_text ? json_string(text) : number_of(text);
        if (!value)
            return spoiled(csv, at, fixed + i, err);
        if (json_object_set_new(row, sweep_columns[i].name, value) != 0)
            return status_no_memory(err);
    }
    return json_object_get(row, "status") ? MOSAIC_OK : spoiled(csv, at, fixed, err);
}

static enum mosaic_status read_table(const struct csv_table *csv, struct sweep_table *table,
                                     struct status_error *err) {
    TRY(read_keys(csv, table, err));
    for (size_t at = 0; at < csv->rows; at++) {
        json_t *const row = json_object();
        if (json_array_append_new(table->rows, row) != 0)
            return status_no_memory(err);
        TRY(read_row(csv, at, row, table, err));
    }
    return MOSAIC_OK;
}

static enum mosaic_status parse(const char *path, const char *text, size_t size,
                                struct sweep_table *table, struct status_error *err) {
    struct diag_list diags;
    struct source *source = NULL;
    struct csv_table *csv = NULL;
    diag_init(&diags);
    enum mosaic_status status = source_from_text(NULL, path, text, size, &source, &diags);
    if (status == MOSAIC_OK)
        status = csv_table_parse(NULL, source, &csv, &diags);
    if (status != MOSAIC_OK)
        (void)diag_to_error(&diags, err);
    else if ((status = read_table(csv, table, err)) != MOSAIC_OK)
        status_wrap(err, "%s", path);
    csv_table_free(csv);
    source_free(source);
    return status;
}

enum mosaic_status sweep_rows_read(const char *path, struct sweep_table *table,
                                   struct status_error *err) {
    char *text = NULL;
    size_t size = 0;
    TRY(read_lines(path, &text, &size, err));
    *table = (struct sweep_table){json_array(), json_array(), 0};
    enum mosaic_status status = table->keys && table->rows ? MOSAIC_OK : status_no_memory(err);
    if (status == MOSAIC_OK && size > 0)
        status = parse(path, text, size, table, err);
    free(text);
    if (status != MOSAIC_OK)
        sweep_rows_free(table);
    return status;
}

void sweep_rows_free(struct sweep_table *table) {
    json_decref(table->keys);
    json_decref(table->rows);
    *table = (struct sweep_table){NULL, NULL, 0};
}
