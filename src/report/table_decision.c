// SPDX-License-Identifier: GPL-3.0-or-later
/* How sure a plan is of its step times, what would settle it, what measured steps changed. */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

/* The first key that begins so: "regret_after_nats" of any objective; "" for none. */
static const char *key_of(json_t *object, const char *start) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (strncmp(key, start, strlen(start)) == 0)
            return key;
    }
    return "";
}

/* "+nats": what is left of the key, as words. */
static const char *unit_of(const char *key, const char *start, char out[LABEL_MAX]) {
    return table_words(key + (*key ? strlen(start) : 0), out);
}

static void winners(struct page *page, json_t *list) {
    const char *const regret = key_of(json_array_get(list, 0), "regret_");
    char unit[LABEL_MAX], heading[LABEL_MAX];
    (void)snprintf(heading, sizeof heading, "regret, %s", unit_of(regret, "regret_", unit));
    const struct page_column columns[] = {{"model", false, false}, {"layout", false, true},
                                          {"step", true, false},   {"draws won", true, false},
                                          {heading, true, false},  {"", false, false}};
    struct grid grid;
    size_t i;
    json_t *row;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "The best plan under other step times that the model allows");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    json_array_foreach(list, i, row) {
        grid_row(&grid);
        grid_text(&grid, text_at(row, "geometry"));
        grid_text(&grid, text_at(row, "layout"));
        grid_number(&grid, row, "step_time_s", NUMBER_TIME);
        grid_number(&grid, row, "share", NUMBER_SHARE);
        grid_cell(&grid, "%.2g", real_at(row, regret));
        grid_text(&grid, json_is_true(result_at(row, "plan"))       ? "this plan"
                         : json_is_true(result_at(row, "near_tie")) ? "near tie"
                         : json_is_true(result_at(row, "measured")) ? "measured"
                                                                    : "");
    }
    grid_end(&grid);
}

/* Line by line as it is to be written to a file: nothing is folded. */
static void template_lines(struct page *page, const char *text) {
    if (!text)
        return;
    page_text(page, "", "To fill in with the median step of 20 in seconds, for --measured FILE:");
    while (*text) {
        const size_t length = strcspn(text, "\n");
        (void)fprintf(page->stream, "    %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

static void short_runs(struct page *page, json_t *root) {
    json_t *const list = result_at(root, "shortlist");
    const char *const after = key_of(json_array_get(list, 0), "regret_after_");
    char unit[LABEL_MAX], heading[LABEL_MAX];
    (void)snprintf(heading, sizeof heading, "regret then, %s",
                   unit_of(after, "regret_after_", unit));
    const struct page_column columns[] = {{"#", true, false},      {"model", false, false},
                                          {"layout", false, true}, {"step", true, false},
                                          {"90 %", true, false},   {heading, true, false},
                                          {"", false, true}};
    struct grid grid;
    size_t i;
    json_t *row;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Short runs that would settle it");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    json_array_foreach(list, i, row) {
        char low[NUMBER_MAX], high[NUMBER_MAX];
        grid_row(&grid);
        grid_cell(&grid, "%zu", i + 1);
        grid_text(&grid, text_at(row, "geometry"));
        grid_text(&grid, text_at(row, "layout"));
        grid_number(&grid, row, "step_time_s", NUMBER_TIME);
        grid_cell(&grid, "%s - %s", number_human(real_at(row, "low_s"), NUMBER_TIME, low),
                  number_human(real_at(row, "high_s"), NUMBER_TIME, high));
        grid_cell(&grid, "%.2g", real_at(row, after));
        grid_text(&grid, text_at(row, "decides"));
    }
    grid_end(&grid);
    template_lines(page, result_text(root, "shortlist_template"));
}

static void plan_row(struct grid *grid, const char *name, json_t *plan) {
    const char *const regret = key_of(plan, "regret_");
    grid_row(grid);
    grid_text(grid, name);
    grid_text(grid, text_at(plan, "geometry"));
    grid_text(grid, text_at(plan, "layout"));
    grid_number(grid, plan, "step_time_s", NUMBER_TIME);
    grid_number(grid, plan, "loss", NUMBER_LOSS);
    grid_number(grid, plan, "days", NUMBER_PLAIN);
    grid_number(grid, plan, "share_of_plan", NUMBER_SHARE);
    if (*regret)
        grid_cell(grid, "%.2g", real_at(plan, regret));
    else
        grid_text(grid, "");
}

static void measured_layouts(struct page *page, json_t *list) {
    static const struct page_column columns[] = {
        {"model", false, false},   {"layout", false, true},    {"steps", true, false},
        {"measured", true, false}, {"predicted", true, false}, {"ratio", true, false}};
    struct grid grid;
    size_t i;
    json_t *row;
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    json_array_foreach(list, i, row) {
        grid_row(&grid);
        grid_text(&grid, text_at(row, "geometry"));
        grid_text(&grid, text_at(row, "layout"));
        grid_number(&grid, row, "steps", NUMBER_PLAIN);
        grid_number(&grid, row, "step_time_s", NUMBER_TIME);
        grid_number(&grid, row, "predicted_s", NUMBER_TIME);
        grid_cell(&grid, "%.3f", real_at(row, "ratio"));
    }
    grid_end(&grid);
}

static void measured(struct page *page, json_t *all) {
    const char *const regret = key_of(result_at(all, "after"), "regret_");
    char unit[LABEL_MAX], heading[LABEL_MAX];
    (void)snprintf(heading, sizeof heading, "regret, %s", unit_of(regret, "regret_", unit));
    const struct page_column columns[] = {{"", false, false},      {"model", false, false},
                                          {"layout", false, true}, {"step", true, false},
                                          {"loss", true, false},   {"days", true, false},
                                          {"wins", true, false},   {heading, true, false}};
    struct grid grid;
    if (!all)
        return;
    page_heading(page, "What the measured steps change");
    measured_layouts(page, result_at(all, "layouts"));
    if (!result_at(all, "before"))
        return;
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    plan_row(&grid, "before", result_at(all, "before"));
    plan_row(&grid, "now", result_at(all, "after"));
    grid_end(&grid);
}

void table_decision(struct page *page, json_t *root) {
    measured(page, result_at(root, "measured"));
    winners(page, result_at(root, "decision.winners"));
    short_runs(page, root);
}
