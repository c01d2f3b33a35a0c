// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * CSV through libcsv, fed byte by byte: its callbacks carry no place, so the offset of the byte
 * that ended a field gives it.
 */
#include "text/csv_read.h"

#include "base/suggest.h"

#include <csv.h>
#include <string.h>
#include <talloc.h>

/* A field of megabytes is copied once in a while, not every 128 bytes. */
enum { FIELD_BLOCK = 64 * 1024 };

struct reader {
    struct csv_table *table;
    struct diag_list *diags;
    size_t at;          /* byte being parsed */
    size_t field_start; /* of the field being read */
    size_t row_start;   /* of the row being read */

    struct csv_cell row[CSV_TABLE_MAX_COLUMNS];
    size_t row_count; /* fields of the row, also those beyond the array */
    size_t capacity;  /* of the table's cells */
    bool has_header, is_full, no_memory;
};

static struct place place_at(const struct csv_table *table, size_t offset, size_t length) {
    while (offset < table->source->size && table->source->text[offset] == ' ')
        offset++;
    return source_place(table->source, offset, length > 0 ? (long)length : 1);
}

static void on_field(void *text, size_t size, void *context) {
    struct reader *r = context;
    if (r->row_count < CSV_TABLE_MAX_COLUMNS && !r->no_memory) {
        const char *copy = talloc_strndup(r->table, text ? text : "", size);
        r->no_memory = !copy;
        r->row[r->row_count] = (struct csv_cell){copy, r->field_start};
    }
    r->row_count++;
    r->field_start = r->at + 1;
}

static void take_header(struct reader *r) {
    struct csv_table *table = r->table;
    r->has_header = true;
    table->columns = r->row_count;
    table->header = talloc_memdup(table, r->row, r->row_count * sizeof *r->row);
    r->no_memory = !table->header;
    for (size_t i = 0; i < r->row_count && !r->no_memory; i++) {
        const struct place place = place_at(table, r->row[i].offset, strlen(r->row[i].text));
        if (r->row[i].text[0] == '\0')
            (void)diag_error(r->diags, &place, "column %zu has no name", i + 1);
        for (size_t j = 0; j < i; j++) {
            char shown[STATUS_QUOTE_MAX];
            if (strcmp(r->row[i].text, r->row[j].text) == 0 && r->row[i].text[0])
                (void)diag_error(r->diags, &place, "column '%s' is named twice",
                                 status_quote(r->row[i].text, shown, sizeof shown));
        }
    }
}

static void take_row(struct reader *r) {
    struct csv_table *table = r->table;
    const size_t used = table->rows * table->columns;
    if (used + r->row_count > CSV_TABLE_MAX_CELLS) {
        r->is_full = true;
        return;
    }
    if (used + r->row_count > r->capacity) {
        const size_t capacity = 2 * (used + r->row_count);
        struct csv_cell *more =
            talloc_realloc(table, table->cells, struct csv_cell, (unsigned)capacity);
        r->no_memory = !more;
        if (!more)
            return;
        table->cells = more;
        r->capacity = capacity;
    }
    memcpy(table->cells + used, r->row, r->row_count * sizeof *r->row);
    table->rows++;
}

static void on_row(int terminator, void *context) {
    struct reader *r = context;
    const struct place place = place_at(r->table, r->row_start, 1);
    (void)terminator;
    if (r->row_count > CSV_TABLE_MAX_COLUMNS)
        (void)diag_error(r->diags, &place, "%zu fields in a row, at most %d are taken",
                         r->row_count, (int)CSV_TABLE_MAX_COLUMNS);
    else if (!r->no_memory && !r->has_header)
        take_header(r);
    else if (!r->no_memory && r->row_count != r->table->columns)
        (void)diag_error(r->diags, &place, "row %zu has %zu field%s, the header has %zu",
                         r->table->rows + 1, r->row_count, r->row_count == 1 ? "" : "s",
                         r->table->columns);
    else if (!r->no_memory)
        take_row(r);
    r->row_count = 0;
    r->row_start = r->field_start = r->at + 1;
}

static bool is_break(char c) {
    return c == '\n' || c == '\r';
}

/* Feed the text; stops at the first thing that spoils all that follows. */
static enum mosaic_status feed(struct reader *r, struct csv_parser *parser) {
    const struct source *source = r->table->source;
    for (r->at = 0; r->at < source->size; r->at++) {
        const char c = source->text[r->at];
        if (r->at == r->row_start && c == '#') {
            while (r->at + 1 < source->size && !is_break(source->text[r->at + 1]))
                r->at++;
            r->row_start = r->field_start = r->at + 1;
            continue;
        }
        if (csv_parse(parser, &c, 1, on_field, on_row, r) != 1) {
            const struct place place = source_place(source, r->at, 1);
            if (csv_error(parser) != CSV_EPARSE)
                return diag_status(r->diags, MOSAIC_INTERNAL, NULL, "out of memory");
            (void)diag_error(r->diags, &place, "misplaced quote");
            diag_hint(r->diags, "a field with quotes in it is quoted, and they are doubled");
            return MOSAIC_BAD_INPUT;
        }
        /* A break between rows (blank line, LF of CRLF) ends no row. */
        if (r->row_count == 0 && is_break(c) && r->field_start == r->row_start &&
            parser->pstate == 0)
            r->row_start = r->field_start = r->at + 1;
        if (r->no_memory)
            return diag_status(r->diags, MOSAIC_INTERNAL, NULL, "out of memory");
        if (r->is_full) {
            const struct place place = source_place(source, r->at, 1);
            return diag_error(r->diags, &place, "more than %d values", (int)CSV_TABLE_MAX_CELLS);
        }
    }
    if (csv_fini(parser, on_field, on_row, r) != 0) {
        const struct place place = place_at(r->table, r->field_start, 1);
        (void)diag_error(r->diags, &place, "the quote is never closed");
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

static enum mosaic_status read_table(struct csv_table *table, struct diag_list *diags) {
    const size_t errors_before = diags->errors;
    struct csv_parser parser;
    struct reader *reader = talloc_zero(table, struct reader);
    if (!reader || csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL) != 0)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    csv_set_blk_size(&parser, FIELD_BLOCK);
    reader->table = table;
    reader->diags = diags;
    const enum mosaic_status status = feed(reader, &parser);
    const bool has_header = reader->has_header;
    csv_free(&parser);
    talloc_free(reader);
    TRY(status);
    if (diags->errors > errors_before)
        return MOSAIC_BAD_INPUT;
    if (!has_header) {
        const struct place start = {table->source, 1, 1, 1};
        (void)diag_error(diags, &start, "no table: the file is empty");
        diag_hint(diags, "the first line names the columns");
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

enum mosaic_status csv_table_parse(void *memory, struct source *source, struct csv_table **out,
                                   struct diag_list *diags) {
    struct csv_table *table = talloc_zero(memory, struct csv_table);
    if (!table)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    table->source = source;
    const enum mosaic_status status = read_table(table, diags);
    if (status != MOSAIC_OK) {
        talloc_free(table);
        return status;
    }
    *out = table;
    return MOSAIC_OK;
}

enum mosaic_status csv_table_load(void *memory, const char *path, const struct place *from,
                                  struct csv_table **out, struct diag_list *diags) {
    struct source *source = NULL;
    struct csv_table *table = NULL;
    TRY(source_read(memory, path, CSV_TABLE_MAX_BYTES, from, &source, diags));
    const enum mosaic_status status = csv_table_parse(memory, source, &table, diags);
    if (status != MOSAIC_OK) {
        source_free(source);
        return status;
    }
    (void)talloc_reparent(memory, table, source);
    *out = table;
    return MOSAIC_OK;
}

void csv_table_free(struct csv_table *table) {
    talloc_free(table);
}

bool csv_table_find(const struct csv_table *table, const char *name, size_t *column) {
    for (size_t i = 0; i < table->columns; i++) {
        if (strcmp(table->header[i].text, name) == 0) {
            *column = i;
            return true;
        }
    }
    return false;
}

static const char *column_at(const void *context, size_t index) {
    const struct csv_table *table = context;
    return table->header[index].text;
}

enum mosaic_status csv_table_columns(const struct csv_table *table, const char *const *names,
                                     size_t count, size_t *columns, struct diag_list *diags) {
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < count; i++) {
        if (csv_table_find(table, names[i], &columns[i]))
            continue;
        const struct place place = place_at(table, table->header[0].offset, 1);
        const char *near = suggest_from(names[i], column_at, table, table->columns);
        status = diag_error(diags, &place, "no column '%s'", names[i]);
        if (near)
            diag_hint(diags, "is it '%s'?", near);
    }
    return status;
}

const char *csv_table_text(const struct csv_table *table, size_t row, size_t column) {
    return table->cells[row * table->columns + column].text;
}

struct place csv_table_place(const struct csv_table *table, size_t row, size_t column) {
    const struct csv_cell *cell = &table->cells[row * table->columns + column];
    return place_at(table, cell->offset, strlen(cell->text));
}

enum mosaic_status csv_table_quantity(const struct csv_table *table, size_t row, size_t column,
                                      enum dimension dim, double *value, struct diag_list *diags) {
    const char *text = csv_table_text(table, row, column);
    struct status_error err;
    if (units_parse(text, dim, value, &err) == MOSAIC_OK)
        return MOSAIC_OK;
    const struct place place = csv_table_place(table, row, column);
    const char *name = table->header[column].text;
    char shown[STATUS_QUOTE_MAX];
    (void)status_quote(name, shown, sizeof shown);
    if (text[0] == '\0')
        return diag_error(diags, &place, "row %zu, column '%s' is empty", row + 1, shown);
    (void)diag_error(diags, &place, "row %zu, column '%s': %s", row + 1, shown, err.message);
    if (err.hint[0])
        diag_hint(diags, "%s", err.hint);
    return MOSAIC_BAD_INPUT;
}

enum mosaic_status csv_table_number(const struct csv_table *table, size_t row, size_t column,
                                    double *value, struct diag_list *diags) {
    return csv_table_quantity(table, row, column, DIM_NUMBER, value, diags);
}
