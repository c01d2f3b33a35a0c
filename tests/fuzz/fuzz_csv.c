// SPDX-License-Identifier: GPL-3.0-or-later
/* Tables from arbitrary texts: every cell has a text and a place inside the source. */
#include "text/csv_read.h"

#include <stdint.h>
#include <stdlib.h>
#include <talloc.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct diag_list said;

static void check(int holds) {
    if (!holds)
        abort();
}

static void check_table(const struct csv_table *table) {
    check(table->columns > 0);
    for (size_t row = 0; row < table->rows; row++) {
        for (size_t column = 0; column < table->columns; column++) {
            double value;
            const struct place place = csv_table_place(table, row, column);
            check(csv_table_text(table, row, column) != NULL);
            check(place.line >= 1 && (size_t)place.line <= table->source->line_count);
            check(csv_table_number(table, row, column, &value, &said) == MOSAIC_OK ||
                  said.errors > 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"loss", "tokens"};
    void *memory = talloc_new(NULL);
    struct source *source = NULL;
    struct csv_table *table = NULL;
    size_t columns[2];
    diag_init(&said);
    const char *text = size > 0 ? (const char *)data : "";
    if (source_from_text(memory, "f.csv", text, size, &source, &said) == MOSAIC_OK &&
        csv_table_parse(memory, source, &table, &said) == MOSAIC_OK) {
        check_table(table);
        check(csv_table_columns(table, names, 2, columns, &said) == MOSAIC_OK || said.errors > 0);
    } else {
        check(said.errors > 0);
    }
    check(diag_text(memory, &said, size % 2 == 0) != NULL);
    talloc_free(memory);
    return 0;
}
