// SPDX-License-Identifier: GPL-3.0-or-later
/* CSV tables: columns in any order, quoting, places, and what is refused. */
#include "text/csv_read.h"

#include "close.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

static struct diag_list said;

static struct csv_table *parse(const char *text) {
    struct source *source = NULL;
    struct csv_table *table = NULL;
    diag_init(&said);
    if (source_from_text(NULL, "r.csv", text, strlen(text), &source, &said) != MOSAIC_OK)
        return NULL;
    if (csv_table_parse(NULL, source, &table, &said) != MOSAIC_OK) {
        source_free(source);
        return NULL;
    }
    (void)talloc_reparent(NULL, table, source);
    return table;
}

static void reads_rows_and_places(void **state) {
    (void)state;
    struct csv_table *table = parse("# a comment, with \"quotes\nname, loss ,n\n"
                                    "\"a, \"\"b\"\"\",2.5,1e9\r\n\r\n"
                                    "#1,2,3\n"
                                    "  x  ,\"3\",\n"
                                    "\"two\nlines\",-4,7");
    assert_non_null(table);
    assert_int_equal(table->columns, 3);
    assert_int_equal(table->rows, 3);
    size_t loss = 9;
    assert_true(csv_table_find(table, "loss", &loss));
    assert_int_equal(loss, 1);
    assert_false(csv_table_find(table, "Loss", &loss));
    assert_string_equal(csv_table_text(table, 0, 0), "a, \"b\"");
    assert_string_equal(csv_table_text(table, 1, 0), "x");
    assert_string_equal(csv_table_text(table, 1, 2), "");
    assert_string_equal(csv_table_text(table, 2, 0), "two\nlines");
    double value = 0;
    assert_int_equal(csv_table_number(table, 0, 1, &value, &said), MOSAIC_OK);
    assert_close(value, 2.5, 0);
    assert_int_equal(csv_table_number(table, 1, 1, &value, &said), MOSAIC_OK);
    assert_close(value, 3.0, 0);
    struct place place = csv_table_place(table, 0, 2);
    assert_int_equal(place.line, 3);
    assert_int_equal(place.column, 16);
    place = csv_table_place(table, 1, 0);
    assert_int_equal(place.line, 6);
    assert_int_equal(place.column, 3);
    place = csv_table_place(table, 2, 1);
    assert_int_equal(place.line, 8);
    assert_int_equal(place.column, 8);
    csv_table_free(table);
}

static void columns_by_name(void **state) {
    (void)state;
    static const char *const names[] = {"loss", "tokens", "seed"};
    size_t columns[3];
    struct csv_table *table = parse("tokens,loss,seed\n1,2,3\n");
    assert_non_null(table);
    assert_int_equal(csv_table_columns(table, names, 3, columns, &said), MOSAIC_OK);
    assert_int_equal(columns[0], 1);
    assert_int_equal(columns[1], 0);
    csv_table_free(table);
    table = parse("token,los\n1,2\n");
    assert_int_equal(csv_table_columns(table, names, 3, columns, &said), MOSAIC_BAD_INPUT);
    assert_int_equal(said.errors, 3);
    assert_string_equal(said.items[0].message, "no column 'loss'");
    assert_string_equal(said.items[0].hint, "is it 'los'?");
    assert_string_equal(said.items[2].hint, "");
    csv_table_free(table);
}

static void bad_cells_name_their_column(void **state) {
    (void)state;
    struct csv_table *table = parse("loss,step\n1.5,2 s\n1O,\n");
    double value = 7;
    assert_non_null(table);
    assert_int_equal(csv_table_quantity(table, 0, 1, DIM_TIME, &value, &said), MOSAIC_OK);
    assert_close(value, 2.0, 0);
    assert_int_equal(csv_table_number(table, 1, 0, &value, &said), MOSAIC_BAD_INPUT);
    assert_string_equal(said.items[0].message,
                        "row 2, column 'loss': '1O' is not a decimal number");
    assert_int_equal(said.items[0].line, 3);
    assert_int_equal(said.items[0].column, 1);
    assert_int_equal(csv_table_number(table, 1, 1, &value, &said), MOSAIC_BAD_INPUT);
    assert_string_equal(said.items[1].message, "row 2, column 'step' is empty");
    assert_int_equal(said.items[1].column, 4);
    assert_close(value, 2.0, 0);
    csv_table_free(table);
}

struct refusal {
    const char *text;
    long line, column;
    const char *says;
};

static const struct refusal refusals[] = {
    {"", 1, 1, "no table"},
    {"\n\n# x\n", 1, 1, "no table"},
    {"a,b\n1\n", 2, 1, "row 1 has 1 field, the header has 2"},
    {"a,b\n1,2\n\n1,2,3\n", 4, 1, "row 2 has 3 fields, the header has 2"},
    {"a,b,a\n", 1, 5, "column 'a' is named twice"},
    {"a,,b\n", 1, 3, "column 2 has no name"},
    {"a,b\n1,\"2\n", 2, 3, "the quote is never closed"},
    {"a,b\n1,2\"3\n", 2, 4, "misplaced quote"},
    {"a,b\n\"1\"2,3\n", 2, 4, "misplaced quote"},
    {"a\n\xE9\n", 2, 1, "not UTF-8"},
};

static void refuses_by_place(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        struct csv_table *table = parse(r->text);
        if (table)
            fail_msg("taken: %s", r->text);
        const struct diag *diag = &said.items[0];
        if (diag->line != r->line || diag->column != r->column || !strstr(diag->message, r->says))
            fail_msg("'%s' says %ld:%ld: %s", r->text, diag->line, diag->column, diag->message);
    }
}

static void wide_rows_are_refused(void **state) {
    (void)state;
    const size_t fields = CSV_TABLE_MAX_COLUMNS + 1;
    char *text = malloc(2 * fields + 1);
    assert_non_null(text);
    for (size_t i = 0; i < fields; i++)
        memcpy(text + 2 * i, "x,", 2);
    text[2 * fields - 1] = '\0';
    assert_null(parse(text));
    assert_non_null(strstr(said.items[0].message, "1025 fields"));
    free(text);
}

static void many_rows(void **state) {
    (void)state;
    enum { ROWS = 20000 };
    char *text = malloc(ROWS * 16 + 16);
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "i,twice\n");
    for (int i = 0; i < ROWS; i++)
        used += (size_t)sprintf(text + used, "%d,%d\n", i, 2 * i);
    struct csv_table *table = parse(text);
    assert_non_null(table);
    assert_int_equal(table->rows, ROWS);
    double value = 0;
    assert_int_equal(csv_table_number(table, ROWS - 1, 1, &value, &said), MOSAIC_OK);
    assert_close(value, 2.0 * (ROWS - 1), 0);
    assert_int_equal(csv_table_place(table, ROWS - 1, 0).line, ROWS + 1);
    csv_table_free(table);
    free(text);
}

static void missing_file(void **state) {
    (void)state;
    struct csv_table *table = NULL;
    diag_init(&said);
    assert_int_equal(csv_table_load(NULL, "/nonexistent.csv", NULL, &table, &said), MOSAIC_IO);
    assert_null(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_rows_and_places),
        cmocka_unit_test(columns_by_name),
        cmocka_unit_test(bad_cells_name_their_column),
        cmocka_unit_test(refuses_by_place),
        cmocka_unit_test(wide_rows_are_refused),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
