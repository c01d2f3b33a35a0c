// SPDX-License-Identifier: GPL-3.0-or-later
/* Headings, paragraphs, facts, grids. */
#include "report/page.h"
#include "report/result.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 2, TEXT_MAX = 1024, WIDTH_LEAST = 40, WIDTH_TEXT = 96 };

void page_init(struct page *page, FILE *stream, const struct emit_options *options) {
    *page = (struct page){.stream = stream, .status = MOSAIC_OK};
    if (!options)
        return;
    page->color = options->color;
    if (options->width > 0)
        page->width = options->width < WIDTH_LEAST ? WIDTH_LEAST : (size_t)options->width;
}

void page_heading(struct page *page, const char *text) {
    (void)fprintf(page->stream, "%s%s%s%s\n", page->started ? "\n" : "",
                  page->color ? "\033[1m" : "", text, page->color ? "\033[0m" : "");
    page->started = true;
}

void page_text(struct page *page, const char *bullet, const char *text) {
    const size_t indent = MARGIN + strlen(bullet);
    const size_t limit = page->width ? page->width : WIDTH_TEXT;
    size_t at = indent;
    bool first = true;
    (void)fprintf(page->stream, "%*s%s", MARGIN, "", bullet);
    while (*(text += strspn(text, " \n"))) {
        const size_t word = strcspn(text, " \n");
        if (!first && at + 1 + word > limit) {
            (void)fprintf(page->stream, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            (void)fputc(' ', page->stream);
            at++;
        }
        (void)fwrite(text, 1, word, page->stream);
        at += word;
        text += word;
        first = false;
    }
    (void)fputc('\n', page->stream);
    page->started = true;
}

void page_textf(struct page *page, const char *format, ...) {
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    page_text(page, "", text);
}

void page_facts(struct page *page, const char *heading, json_t *object,
                const struct page_fact *facts, size_t count) {
    static const struct page_column columns[] = {
        {"", false, false}, {"", true, false}, {"", false, false}};
    struct grid grid;
    bool begun = false;
    for (size_t i = 0; i < count; i++) {
        json_t *const node = result_at(object, facts[i].key);
        char text[NUMBER_MAX];
        if (!json_is_number(node) && !json_is_string(node))
            continue;
        if (!begun) {
            if (heading)
                page_heading(page, heading);
            grid_begin(&grid, page, columns, 3, false);
            begun = true;
        }
        grid_row(&grid);
        grid_text(&grid, facts[i].label);
        grid_text(&grid, json_is_string(node)
                             ? json_string_value(node)
                             : number_human(json_number_value(node), facts[i].unit, text));
        grid_text(&grid, facts[i].note);
    }
    if (begun)
        grid_end(&grid);
}

void page_list(struct page *page, const char *heading, json_t *texts) {
    if (json_array_size(texts) == 0)
        return;
    page_heading(page, heading);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *const text = json_string_value(json_array_get(texts, i));
        if (text)
            page_text(page, "- ", text);
    }
}

static void fail(struct page *page) {
    if (page->status == MOSAIC_OK)
        page->status = MOSAIC_INTERNAL;
}

void grid_begin(struct grid *grid, struct page *page, const struct page_column *columns,
                size_t count, bool headings) {
    *grid = (struct grid){.page = page, .columns = count};
    grid->table = page->status == MOSAIC_OK ? scols_new_table() : NULL;
    if (!grid->table) {
        fail(page);
        return;
    }
    (void)scols_table_enable_noheadings(grid->table, !headings);
    (void)scols_table_set_column_separator(grid->table, "  ");
    const bool limited = page->width > MARGIN;
    (void)scols_table_set_termforce(grid->table,
                                    limited ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER);
    if (limited)
        (void)scols_table_set_termwidth(grid->table, page->width - MARGIN);
    for (size_t i = 0; i < count; i++) {
        const int flags =
            (columns[i].right ? SCOLS_FL_RIGHT : 0) | (columns[i].wrap ? SCOLS_FL_WRAP : 0);
        if (!scols_table_new_column(grid->table, columns[i].name, 0, flags))
            fail(page);
    }
}

void grid_row(struct grid *grid) {
    if (!grid->table || grid->page->status != MOSAIC_OK)
        return;
    grid->line = scols_table_new_line(grid->table, NULL);
    grid->at = 0;
    if (!grid->line)
        fail(grid->page);
}

void grid_text(struct grid *grid, const char *text) {
    const size_t at = grid->at++;
    if (!grid->line || grid->page->status != MOSAIC_OK || at >= grid->columns || !text || !*text)
        return;
    grid->used[at] = true;
    if (scols_line_set_data(grid->line, at, text) != 0)
        fail(grid->page);
}

void grid_cell(struct grid *grid, const char *format, ...) {
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    grid_text(grid, text);
}

void grid_number(struct grid *grid, json_t *object, const char *key, enum number_unit unit) {
    char text[NUMBER_MAX];
    double value;
    grid_text(grid, result_real(object, key, &value) ? number_human(value, unit, text) : "");
}

/* libsmartcols pads the last column and knows no margin. */
static void print_indented(struct page *page, const char *text) {
    while (*text) {
        const size_t length = strcspn(text, "\n");
        size_t shown = length;
        while (shown > 0 && text[shown - 1] == ' ')
            shown--;
        if (shown > 0)
            (void)fprintf(page->stream, "%*s%.*s", MARGIN, "", (int)shown, text);
        (void)fputc('\n', page->stream);
        text += length;
        text += *text == '\n';
    }
    page->started = true;
}

void grid_end(struct grid *grid) {
    if (!grid->table)
        return;
    for (size_t i = 0; i < grid->columns; i++) {
        struct libscols_column *const column = scols_table_get_column(grid->table, i);
        if (column && !grid->used[i])
            (void)scols_column_set_flags(column, scols_column_get_flags(column) | SCOLS_FL_HIDDEN);
    }
    char *text = NULL;
    if (grid->page->status == MOSAIC_OK && scols_table_get_nlines(grid->table) > 0) {
        if (scols_print_table_to_string(grid->table, &text) != 0)
            fail(grid->page);
        else if (text)
            print_indented(grid->page, text);
    }
    free(text);
    scols_unref_table(grid->table);
    grid->table = NULL;
}
