// SPDX-License-Identifier: GPL-3.0-or-later
/* What samples were fitted to: a row a scalar, a row a curve, notes on the fits. */
#include "base/units.h"
#include "report/result.h"
#include "report/table.h"

#include <string.h>

static void scalars(struct page *page, json_t *list) {
    static const struct page_column columns[] = {
        {"quantity", false, false}, {"value", true, false},   {"unit", false, false},
        {"samples", true, false},   {"far off", true, false}, {"spread", true, false},
        {"", false, false},         {"range", false, true}};
    struct grid grid;
    page_heading(page, "Entries");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const e = json_array_get(list, i);
        if (!result_at(e, "value"))
            continue;
        grid_row(&grid);
        grid_text(&grid, text_at(e, "quantity"));
        grid_cell(&grid, "%.4g", real_at(e, "value"));
        grid_text(&grid, strcmp(text_at(e, "unit"), "1") == 0 ? "" : text_at(e, "unit"));
        grid_number(&grid, e, "samples", NUMBER_PLAIN);
        grid_number(&grid, e, "outliers", NUMBER_PLAIN);
        grid_number(&grid, e, "spread", NUMBER_SHARE);
        grid_text(&grid, json_is_true(result_at(e, "extrapolated")) ? "extrapolated" : "");
        grid_text(&grid, text_at(e, "range"));
    }
    grid_end(&grid);
}

/* Nothing where there is none. */
static void quantity(struct grid *grid, const json_t *value, enum dimension dimension) {
    char text[UNITS_TEXT_MAX] = "";
    const double number = json_number_value(value);
    if (json_is_number(value) && dimension == DIM_BYTES)
        units_format_memory(number, text, sizeof text);
    else if (json_is_number(value))
        units_format(number, dimension, text, sizeof text);
    grid_text(grid, text);
}

static void curves(struct page *page, json_t *list) {
    static const struct page_column columns[] = {
        {"curve", false, true},     {"points", true, false},  {"from", true, false},
        {"to", true, false},        {"reaches", true, false}, {"latency", true, false},
        {"asymptote", true, false}, {"", false, false}};
    struct grid grid;
    page_heading(page, "Curves");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const e = json_array_get(list, i);
        json_t *const points = result_at(e, "points");
        const size_t count = json_array_size(points);
        if (count == 0)
            continue;
        json_t *const first = json_array_get(points, 0);
        json_t *const last = json_array_get(points, count - 1);
        grid_row(&grid);
        grid_text(&grid, text_at(e, "quantity"));
        grid_cell(&grid, "%zu", count);
        const bool is_bytes = strcmp(text_at(e, "axis"), "bytes") == 0;
        const enum dimension x = is_bytes ? DIM_BYTES : DIM_NUMBER;
        const enum dimension y = is_bytes ? DIM_BYTES_PER_S : DIM_FLOP_PER_S;
        quantity(&grid, json_array_get(first, 0), x);
        quantity(&grid, json_array_get(last, 0), x);
        quantity(&grid, json_array_get(last, 1), y);
        quantity(&grid, result_at(e, "latency_s"), DIM_TIME);
        quantity(&grid, result_at(e, "bandwidth_bytes_per_s"), y);
        grid_text(&grid, json_is_true(result_at(e, "extrapolated")) ? "extrapolated" : "");
    }
    grid_end(&grid);
}

static void checks(struct page *page, json_t *list) {
    static const struct page_column columns[] = {
        {"check", false, true},    {"samples", true, false}, {"predicted", true, false},
        {"measured", true, false}, {"median", true, false},  {"worst", true, false},
        {"", false, true}};
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Checks: what feeds no entry, as the entries predict it");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const check = json_array_get(list, i);
        grid_row(&grid);
        grid_text(&grid, text_at(check, "check"));
        grid_number(&grid, check, "samples", NUMBER_PLAIN);
        quantity(&grid, result_at(check, "predicted_s"), DIM_TIME);
        quantity(&grid, result_at(check, "measured_s"), DIM_TIME);
        grid_cell(&grid, "%+.0f %%", 100.0 * real_at(check, "error"));
        grid_cell(&grid, "%+.0f %%", 100.0 * real_at(check, "worst_error"));
        grid_text(&grid, text_at(check, "text"));
    }
    grid_end(&grid);
}

static void notes(struct page *page, json_t *root) {
    json_t *const list = result_at(root, "notes");
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Notes");
    for (size_t i = 0; i < json_array_size(list); i++)
        page_text(page, "- ", text_at(json_array_get(list, i), "text"));
}

void table_entries(struct page *page, json_t *root) {
    json_t *const list = result_at(root, "entries");
    bool has_scalar = false, has_curve = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const e = json_array_get(list, i);
        has_scalar = has_scalar || result_at(e, "value");
        has_curve = has_curve || result_at(e, "points");
    }
    if (has_scalar)
        scalars(page, list);
    if (has_curve)
        curves(page, list);
    checks(page, result_at(root, "checks"));
    notes(page, root);
}
