// SPDX-License-Identifier: GPL-3.0-or-later
/* The report of `sweep`: a line a point with the values of its keys, then what failed and why. */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

enum { FIGURES = 10, WIDE = 128 }; /* columns beside the keys; room for every one */

static size_t count_status(json_t *rows, const char *status) {
    size_t count = 0;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        count += strcmp(text_at(row, "status"), status) == 0;
    }
    return count;
}

static void headline(struct page *page, json_t *root) {
    char keys[LABEL_MAX] = "";
    json_t *const rows = result_at(root, "rows");
    const size_t failed = count_status(rows, "error");
    const size_t none = count_status(rows, "infeasible");
    size_t i;
    json_t *axis;
    json_array_foreach(result_at(root, "vary"), i, axis) {
        const size_t used = strlen(keys);
        (void)snprintf(keys + used, sizeof keys - used, "%s%s (%zu)", used ? " x " : "",
                       text_at(axis, "key"), json_array_size(json_object_get(axis, "values")));
    }
    page_heading(page, "Sweep");
    page_textf(page, "%s: %.0f points; %zu with a plan, %zu infeasible, %zu with an error.", keys,
               real_at(root, "points"), json_array_size(rows) - failed - none, none, failed);
    if (result_at(root, "shard"))
        page_textf(page, "Shard %.0f of %.0f.", real_at(root, "shard.index"),
                   real_at(root, "shard.of"));
    if (result_at(root, "missing"))
        page_textf(page, "Not done: %zu points, the first is %.0f.",
                   json_array_size(result_at(root, "missing")), real_at(root, "missing[0]"));
    if (strcmp(text_at(root, "status"), "interrupted") == 0)
        page_text(page, "", "Interrupted.");
}

/* Where there is no plan its status stands for the model. */
static void model_cell(struct grid *grid, json_t *row) {
    char text[LABEL_MAX];
    const char *const status = text_at(row, "status");
    if (result_at(row, "layers"))
        grid_text(grid, table_geometry_text(row, text));
    else
        grid_text(grid, status);
}

static void list_row(struct grid *grid, json_t *row) {
    const bool shows_memory =
        grid->page->width >= WIDE || strcmp(text_at(row, "status"), "infeasible") == 0;
    char text[LABEL_MAX];
    size_t i;
    json_t *value;
    grid_row(grid);
    json_array_foreach(result_at(row, "values"), i, value) {
        grid_text(grid, json_string_value(value));
    }
    model_cell(grid, row);
    grid_number(grid, row, "tokens", NUMBER_COUNT);
    grid_number(grid, row, "loss", NUMBER_LOSS);
    grid_number(grid, row, "days", NUMBER_PLAIN);
    grid_number(grid, row, "cost_usd", NUMBER_PLAIN);
    grid_number(grid, row, "mfu", NUMBER_SHARE);
    grid_number(grid, row, "step_time_s", NUMBER_TIME);
    grid_number(grid, shows_memory ? row : NULL, "memory_bytes", NUMBER_MEMORY);
    grid_text(grid, shows_memory ? text_at(row, "verdict") : "");
    grid_text(grid, result_at(row, "pp") ? table_layout_short(row, NULL, text) : "");
}

/* "days" of budget.days, where no other key ends so; the headline has them in full. */
static const char *short_key(json_t *vary, size_t axis) {
    const char *const key = text_at(json_array_get(vary, axis), "key");
    const char *const dot = strrchr(key, '.');
    size_t i;
    json_t *other;
    json_array_foreach(vary, i, other) {
        const char *const name = text_at(other, "key");
        const char *const tail = strrchr(name, '.');
        if (i != axis && dot && strcmp(tail ? tail + 1 : name, dot + 1) == 0)
            return key;
    }
    return dot ? dot + 1 : key;
}

static void list(struct page *page, json_t *root) {
    static const struct page_column figures[FIGURES] = {
        {"model", false, true},  {"tokens", true, false}, {"loss", true, false},
        {"days", true, false},   {"USD", true, false},    {"MFU", true, false},
        {"step", true, false},   {"memory", true, false}, {"", false, false},
        {"layout", false, true},
    };
    struct page_column columns[GRID_COLUMNS_MAX];
    json_t *const rows = result_at(root, "rows");
    json_t *const vary = result_at(root, "vary");
    size_t count = 0;
    size_t i;
    json_t *axis;
    if (json_array_size(rows) == 0)
        return;
    json_array_foreach(vary, i, axis) {
        if (count + FIGURES < GRID_COLUMNS_MAX)
            columns[count++] = (struct page_column){short_key(vary, i), true, true};
    }
    memcpy(columns + count, figures, sizeof figures);
    struct grid grid;
    page_heading(page, "Points");
    grid_begin(&grid, page, columns, count + FIGURES, true);
    json_t *row;
    json_array_foreach(rows, i, row) {
        list_row(&grid, row);
    }
    grid_end(&grid);
}

static void add_point(json_t *points_of, json_t *row) {
    const char *const message = result_text(row, "message");
    char number[NUMBER_MAX];
    if (!message)
        return;
    const char *const so_far = json_string_value(json_object_get(points_of, message));
    (void)number_human(real_at(row, "point"), NUMBER_PLAIN, number);
    (void)json_object_set_new(
        points_of, message,
        json_sprintf("%s%s%s", so_far ? so_far : "", so_far ? ", " : "", number));
}

/* Each message once, behind the points that it is of. */
static void reasons(struct page *page, json_t *root) {
    enum { SENTENCE_MAX = 2048 };
    json_t *const points_of = json_object();
    size_t i;
    json_t *row;
    const char *message;
    json_t *points;
    json_array_foreach(result_at(root, "rows"), i, row) {
        add_point(points_of, row);
    }
    if (json_object_size(points_of) > 0)
        page_heading(page, "Points without a plan");
    json_object_foreach(points_of, message, points) {
        char text[SENTENCE_MAX];
        (void)snprintf(text, sizeof text, "%s. %s", json_string_value(points), message);
        page_text(page, "", text);
    }
    json_decref(points_of);
}

void table_sweep(struct page *page, json_t *root) {
    headline(page, root);
    list(page, root);
    reasons(page, root);
    table_provenance(page, root);
}
