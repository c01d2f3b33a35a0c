// SPDX-License-Identifier: GPL-3.0-or-later
/* Report of step constants: how well they do, held out too, then each with its meaning. */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

static void summary(struct page *page, json_t *root) {
    page_heading(page, "Step constants");
    page_textf(page, "%zu constants fitted to %.0f of %.0f rows of %s, %.0f layouts, each once.",
               json_array_size(result_at(root, "constants")), real_at(root, "rows.used"),
               real_at(root, "rows.total"), text_at(root, "provenance.inputs[0].path"),
               real_at(root, "rows.layouts"));
    if (strcmp(text_at(root, "status"), "limit") == 0)
        page_text(page, "", "NOT CONVERGED: the numbers below are not a minimum.");
}

static void scores(struct page *page, json_t *root) {
    static const struct page_column columns[] = {{"", false, false},
                                                 {"rows", true, false},
                                                 {"layouts", true, false},
                                                 {"MAPE", true, false},
                                                 {"median", true, false},
                                                 {"p90", true, false},
                                                 {"bias", true, false},
                                                 {"5-fold MAPE", true, false},
                                                 {"median", true, false},
                                                 {"in interval", true, false},
                                                 {"unseen model MAPE", true, false},
                                                 {"median", true, false}};
    json_t *const list = result_at(root, "scores");
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Predicted / measured step time - 1 (bias +: too slow), each layout once");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const s = json_array_get(list, i);
        grid_row(&grid);
        grid_text(&grid, text_at(s, "group"));
        grid_number(&grid, s, "rows", NUMBER_PLAIN);
        grid_number(&grid, s, "layouts", NUMBER_PLAIN);
        grid_number(&grid, s, "fitted.mape", NUMBER_SHARE);
        grid_number(&grid, s, "fitted.median", NUMBER_SHARE);
        grid_number(&grid, s, "fitted.p90", NUMBER_SHARE);
        grid_number(&grid, s, "fitted.bias", NUMBER_SHARE);
        grid_number(&grid, s, "without_layout.mape", NUMBER_SHARE);
        grid_number(&grid, s, "without_layout.median", NUMBER_SHARE);
        grid_number(&grid, s, "without_layout.coverage_90", NUMBER_SHARE);
        grid_number(&grid, s, "without_model.mape", NUMBER_SHARE);
        grid_number(&grid, s, "without_model.median", NUMBER_SHARE);
    }
    grid_end(&grid);
    if (result_at(root, "scores[0].without_model"))
        page_text(page, "",
                  "5-fold: constants fitted without the row's layout; unseen model: without "
                  "any row of its model.");
    else if (result_at(root, "intervals"))
        page_text(page, "", "5-fold: constants fitted without the row's layout.");
}

static void constants(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"", false, false},     {"where", false, false},           {"value", true, false},
        {"unit", false, false}, {"std. error of ln", true, false}, {"rows", true, false},
        {"", false, false},     {"meaning", false, true}};
    json_t *const list = result_at(root, "constants");
    struct grid grid;
    page_heading(page, "Constants");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const c = json_array_get(list, i);
        const char *const where = text_at(c, "where"), *const unit = text_at(c, "unit");
        const bool is_edge = json_is_true(result_at(c, "at_bound"));
        grid_row(&grid);
        grid_text(&grid, text_at(c, "quantity"));
        grid_text(&grid, where[0] ? where : "all");
        grid_cell(&grid, "%.6g", real_at(c, "value"));
        grid_text(&grid, strcmp(unit, "1") == 0 ? "" : unit);
        if (is_edge)
            grid_text(&grid, "");
        else
            grid_number(&grid, c, "standard_error", NUMBER_SHARE);
        grid_number(&grid, c, "rows", NUMBER_PLAIN);
        grid_text(&grid, is_edge ? "at its bound" : "");
        grid_text(&grid, text_at(c, "text"));
    }
    grid_end(&grid);
}

static void excluded(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"row", true, false}, {"id", false, false}, {"reason", false, true}};
    json_t *const list = result_at(root, "excluded");
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Rows left out");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const row = json_array_get(list, i);
        grid_row(&grid);
        grid_number(&grid, row, "row", NUMBER_PLAIN);
        grid_text(&grid, text_at(row, "id"));
        grid_text(&grid, text_at(row, "reason"));
    }
    grid_end(&grid);
}

void table_fit_steps(struct page *page, json_t *root) {
    summary(page, root);
    scores(page, root);
    constants(page, root);
    page_list(page, "Warnings", result_at(root, "warnings"));
    excluded(page, root);
    table_provenance(page, root);
}
