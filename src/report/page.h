// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A page of text for a person: headings, wrapped sentences, facts (label, value, note) and grids by
 * libsmartcols.  Plain ASCII apart from the caller's own strings; bold headings when colour is on.
 * The first failure sticks in `status` and turns the rest into no-ops.
 */
#ifndef MOSAIC_REPORT_PAGE_H
#define MOSAIC_REPORT_PAGE_H

#include "report/emit.h"
#include "report/number.h"

#include <libsmartcols/libsmartcols.h>

struct page {
    FILE *stream;
    size_t width; /* 0: no limit */
    bool color;
    bool started; /* something was written: a heading needs a blank line before it */
    enum mosaic_status status;
};

enum { GRID_COLUMNS_MAX = 20 };

struct page_column {
    const char *name;
    bool right;
    bool wrap; /* may be folded when the page is too narrow */
};

struct grid {
    struct page *page;
    struct libscols_table *table;
    struct libscols_line *line;
    size_t columns, at;
    bool used[GRID_COLUMNS_MAX]; /* a column without content is left out */
};

/* One line of a list of facts, left out when the key is absent or no number. */
struct page_fact {
    const char *key;
    const char *label;
    const char *note; /* convention or meaning, "" for none */
    enum number_unit unit;
};

void page_init(struct page *page, FILE *stream, const struct emit_options *options);
void page_heading(struct page *page, const char *text);
/* A paragraph, wrapped, indented by two; `bullet` begins its first line and may be "". */
void page_text(struct page *page, const char *bullet, const char *text);
void page_textf(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The facts of `object` under `heading`; nothing at all when none is there. */
void page_facts(struct page *page, const char *heading, json_t *object,
                const struct page_fact *facts, size_t count);
/* The texts of a list under `heading`, one bullet each. */
void page_list(struct page *page, const char *heading, json_t *texts);

void grid_begin(struct grid *grid, struct page *page, const struct page_column *columns,
                size_t count, bool headings);
void grid_row(struct grid *grid);
/* The next cell of the row. */
void grid_text(struct grid *grid, const char *text);
void grid_cell(struct grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The number at `key` of `object`, or an empty cell. */
void grid_number(struct grid *grid, json_t *object, const char *key, enum number_unit unit);
/* Prints and frees; an empty grid prints nothing. */
void grid_end(struct grid *grid);

#endif
