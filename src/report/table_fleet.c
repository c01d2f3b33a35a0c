// SPDX-License-Identifier: GPL-3.0-or-later
/* Tables of a plan that chose the size of the cluster: by nodes, the Pareto set, the goodput. */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

enum { WIDE = 112 };

/* GPU-hours and USD, of which a part matters to nobody. */
static void whole_cell(struct grid *grid, json_t *row, const char *key) {
    char text[NUMBER_MAX];
    double value;
    grid_text(grid, result_real(row, key, &value) ? number_fixed(value, 0, text) : "");
}

/* The columns that both lists share. */
static void plan_cells(struct grid *grid, json_t *row) {
    const bool wide = grid->page->width == 0 || grid->page->width >= WIDE;
    grid_number(grid, row, "loss", NUMBER_LOSS);
    grid_number(grid, row, "days", NUMBER_PLAIN);
    whole_cell(grid, wide || !result_at(row, "cost_usd") ? row : NULL, "gpu_hours");
    whole_cell(grid, row, "cost_usd");
    grid_number(grid, wide ? row : NULL, "tokens", NUMBER_COUNT);
    grid_number(grid, row, "peak_memory_share", NUMBER_SHARE);
    grid_number(grid, wide ? row : NULL, "mfu", NUMBER_SHARE);
    grid_text(grid, text_at(row, "geometry"));
    grid_text(grid, wide ? text_at(row, "layout") : "");
}

static void by_nodes(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"nodes", true, false},  {"GPUs", true, false},      {"loss", true, false},
        {"days", true, false},   {"GPU-hours", true, false}, {"USD", true, false},
        {"tokens", true, false}, {"memory", true, false},    {"MFU", true, false},
        {"model", false, false}, {"layout", false, true},    {"", false, false},
    };
    json_t *const list = result_at(root, "by_nodes");
    struct grid grid;
    size_t i;
    json_t *row;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "The best plan by number of nodes");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    json_array_foreach(list, i, row) {
        const char *const status = text_at(row, "status");
        grid_row(&grid);
        grid_number(&grid, row, "nodes", NUMBER_PLAIN);
        grid_number(&grid, row, "gpus", NUMBER_PLAIN);
        plan_cells(&grid, row);
        grid_text(&grid, json_is_true(result_at(row, "best")) ? "<- this plan"
                         : strcmp(status, "optimal") == 0     ? ""
                                                              : status);
    }
    grid_end(&grid);
}

static void pareto(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"nodes", true, false}, {"GPUs", true, false},   {"allowed", true, false},
        {"loss", true, false},  {"days", true, false},   {"GPU-hours", true, false},
        {"USD", true, false},   {"tokens", true, false}, {"memory", true, false},
        {"MFU", true, false},   {"model", false, false}, {"layout", false, true},
        {"", false, false},
    };
    json_t *const list = result_at(root, "pareto");
    struct grid grid;
    size_t i;
    json_t *row;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "What no other plan beats in loss, days, GPUs, memory and price");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    json_array_foreach(list, i, row) {
        const char *const status = text_at(row, "status");
        grid_row(&grid);
        grid_number(&grid, row, "nodes", NUMBER_PLAIN);
        grid_number(&grid, row, "gpus", NUMBER_PLAIN);
        grid_number(&grid, row, "memory_share", NUMBER_SHARE);
        plan_cells(&grid, row);
        grid_text(&grid, strcmp(status, "optimal") == 0 ? "" : status);
    }
    grid_end(&grid);
}

void table_fleet(struct page *page, json_t *root) {
    static const struct page_fact facts[] = {
        {"value", "goodput", "share of the time in which training advances", NUMBER_SHARE},
        {"interval_s", "checkpoint every", "", NUMBER_TIME},
        {"best_interval_s", "best interval", "", NUMBER_TIME},
        {"best_value", "goodput at it", "", NUMBER_SHARE},
    };
    by_nodes(page, root);
    pareto(page, root);
    page_facts(page, "Goodput", result_at(root, "goodput"), facts, COUNT_OF(facts));
}
