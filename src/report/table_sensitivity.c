// SPDX-License-Identifier: GPL-3.0-or-later
/* What a plan hangs on: a row a figure, a row a pin. */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

/* "at 0.71x: L48 d6144 E96 K2 G4, PP8 EP8", "not down to 0.25x". */
static void flip_cell(struct grid *grid, json_t *flip, const char *direction) {
    char model[LABEL_MAX], layout[LABEL_MAX];
    json_t *const to = result_at(flip, "to");
    if (!flip)
        grid_text(grid, "");
    else if (!json_is_true(result_at(flip, "flips")))
        grid_cell(grid, "not %s to %.3gx", direction, real_at(flip, "to_factor"));
    else if (!to)
        grid_cell(grid, "at %.3gx: %s", real_at(flip, "factor"), text_at(flip, "change"));
    else if (strcmp(text_at(to, "change"), "layout") == 0)
        grid_cell(grid, "at %.3gx: %s", real_at(flip, "factor"),
                  table_layout_short(result_at(to, "layout"), NULL, layout));
    else
        grid_cell(grid, "at %.3gx: %s, %s", real_at(flip, "factor"),
                  table_geometry_text(result_at(to, "geometry"), model),
                  table_layout_short(result_at(to, "layout"), NULL, layout));
}

static void slope_cell(struct grid *grid, json_t *row, const char *key) {
    double value;
    if (result_real(row, key, &value))
        grid_cell(grid, "%+.3f", value);
    else
        grid_text(grid, "");
}

static void figures(struct page *page, json_t *list) {
    static const struct page_column columns[] = {
        {"figure", false, false},    {"tokens", true, false}, {"loss", true, false},
        {"days", true, false},       {"cost", true, false},   {"flips below", false, true},
        {"flips above", false, true}};
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "What the plan hangs on: d ln / d ln of each figure, and where it flips");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const row = json_array_get(list, i);
        grid_row(&grid);
        grid_text(&grid, text_at(row, "text"));
        slope_cell(&grid, row, "tokens");
        slope_cell(&grid, row, "loss");
        slope_cell(&grid, row, "days");
        slope_cell(&grid, row, result_at(row, "cost_usd") ? "cost_usd" : "gpu_hours");
        flip_cell(&grid, result_at(row, "below"), "down");
        flip_cell(&grid, result_at(row, "above"), "up");
    }
    grid_end(&grid);
}

/* "gain_nats" of any objective. */
static const char *gain_key(json_t *row) {
    const char *key;
    json_t *value;
    json_object_foreach(row, key, value) {
        if (strncmp(key, "gain_", strlen("gain_")) == 0)
            return key;
    }
    return "";
}

static void pins(struct page *page, json_t *list) {
    static const struct page_column columns[] = {{"axis", false, false},
                                                 {"gain if free", true, false},
                                                 {"", false, false},
                                                 {"then", false, true}};
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "What each pin of the layout costs");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const row = json_array_get(list, i);
        json_t *const to = result_at(row, "to");
        char model[LABEL_MAX], layout[LABEL_MAX], words[LABEL_MAX];
        const char *const key = gain_key(row);
        grid_row(&grid);
        grid_text(&grid, table_words(text_at(row, "axis"), words));
        grid_cell(&grid, "%.3g", real_at(row, key));
        grid_text(&grid, table_words(key + (*key ? strlen("gain_") : 0), words));
        if (to)
            grid_cell(&grid, "%s, %s", table_geometry_text(result_at(to, "geometry"), model),
                      table_layout_short(result_at(to, "layout"), NULL, layout));
        else
            grid_text(&grid, "the plan stays");
    }
    grid_end(&grid);
}

void table_sensitivity(struct page *page, json_t *root) {
    json_t *const all = result_at(root, "sensitivity");
    figures(page, result_at(all, "figures"));
    pins(page, result_at(all, "pins"));
}
