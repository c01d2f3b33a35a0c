// SPDX-License-Identifier: GPL-3.0-or-later
/* The report of an explanation: the reason first, then the changes, then the terms. */
#include "report/result.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

static const char *headline(json_t *root) {
    static const struct {
        const char *verdict, *text;
    } words[] = {{"illegal", "The layout is illegal"},
                 {"does_not_fit", "The layout does not fit in memory"},
                 {"loses", "The layout loses"},
                 {"is_best", "The layout is not beaten"}};
    const char *const verdict = result_text(root, "verdict");
    for (size_t i = 0; verdict && i < COUNT_OF(words); i++)
        if (strcmp(words[i].verdict, verdict) == 0)
            return words[i].text;
    return "Layout";
}

static void axis_rows(struct page *page, json_t *axes) {
    static const struct page_column columns[] = {
        {"axis", false, false}, {"value", true, false}, {"from", false, false}, {"", false, false}};
    struct grid grid;
    page_heading(page, "The layout asked about");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(axes); i++) {
        json_t *const row = json_array_get(axes, i);
        json_t *const value = result_at(row, "value");
        const char *const axis = result_text(row, "axis");
        char words[LABEL_MAX];
        grid_row(&grid);
        grid_text(&grid, axis ? table_words(axis, words) : "");
        if (json_is_integer(value))
            grid_cell(&grid, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        else if (json_is_real(value)) /* shares alone are */
            grid_text(&grid, number_human(json_real_value(value), NUMBER_SHARE, words));
        else
            grid_text(&grid, json_string_value(value));
        grid_text(&grid, result_text(row, "origin"));
        grid_text(&grid,
                  json_is_false(result_at(row, "declared")) ? "not in the plan's space" : "");
    }
    grid_end(&grid);
}

static void change_rows(struct page *page, const char *heading, json_t *changes) {
    static const struct page_column columns[] = {{"change", false, true}, {"step", true, false},
                                                 {"MFU", true, false},    {"memory", true, false},
                                                 {"host", true, false},   {"verdict", false, false},
                                                 {"", false, false}};
    struct grid grid;
    if (json_array_size(changes) == 0)
        return;
    page_heading(page, heading);
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(changes); i++) {
        json_t *const row = json_array_get(changes, i);
        grid_row(&grid);
        grid_text(&grid, result_text(row, "text"));
        grid_number(&grid, row, "step_time_s", NUMBER_TIME);
        grid_number(&grid, row, "mfu", NUMBER_SHARE);
        grid_number(&grid, row, "reserved_bytes", NUMBER_MEMORY);
        grid_number(&grid, row, "host_bytes", NUMBER_MEMORY);
        grid_text(&grid, result_text(row, "verdict"));
        grid_text(&grid,
                  json_is_false(result_at(row, "declared")) ? "not in the plan's space" : "");
    }
    grid_end(&grid);
}

static bool is_zero(json_t *term, const char *key) {
    double value;
    return result_real(term, key, &value) && !(fabs(value) > 0.0);
}

static void term_cell(struct grid *grid, json_t *term, const char *key, bool is_bytes) {
    const double gib = 1024.0 * 1024.0 * 1024.0;
    double value;
    char text[NUMBER_MAX];
    if (!result_real(term, key, &value))
        grid_text(grid, "");
    else if (is_bytes)
        grid_text(grid, number_fixed(value / gib, 2, text));
    else
        grid_cell(grid, "%.5g", value);
}

static void term_rows(struct page *page, json_t *terms) {
    static const struct page_column columns[] = {{"term", false, false},
                                                 {"unit", false, false},
                                                 {"layout", true, false},
                                                 {"winner", true, false},
                                                 {"difference", true, false}};
    struct grid grid;
    if (json_array_size(terms) == 0)
        return;
    page_heading(page, "Against the plan's best layout (zero terms left out)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(terms); i++) {
        json_t *const term = json_array_get(terms, i);
        const char *const key = result_text(term, "key");
        const char *const unit = result_text(term, "unit");
        const bool is_bytes = unit && strcmp(unit, "byte") == 0;
        char words[LABEL_MAX];
        if (is_zero(term, "layout") && is_zero(term, "winner"))
            continue;
        grid_row(&grid);
        grid_text(&grid, key ? table_term(key, words) : "");
        grid_text(&grid, is_bytes ? "GiB" : unit && strcmp(unit, "1") != 0 ? unit : "");
        term_cell(&grid, term, "layout", is_bytes);
        term_cell(&grid, term, "winner", is_bytes);
        term_cell(&grid, term, "difference", is_bytes);
    }
    grid_end(&grid);
}

void table_explain(struct page *page, json_t *root) {
    char geometry[LABEL_MAX], layout[LABEL_MAX];
    page_list(page, headline(root), result_at(root, "why"));
    page_list(page, "Warnings", result_at(root, "warnings"));
    axis_rows(page, result_at(root, "axes"));
    table_stages(page, result_at(root, "layout"), true);
    change_rows(page, "Nearest legal layouts", result_at(root, "neighbours"));
    change_rows(page, "Changes that fit, fastest first", result_at(root, "fixes"));
    if (result_at(root, "winner.layout"))
        page_textf(page, "The plan's best layout of %s: %s",
                   table_geometry_text(result_at(root, "geometry"), geometry),
                   table_layout_text(result_at(root, "winner.layout"), layout));
    term_rows(page, result_at(root, "terms"));
    if (strcmp(headline(root), "The layout does not fit in memory") == 0)
        table_memory(page, result_at(root, "prediction"), true);
    table_provenance(page, root);
}
