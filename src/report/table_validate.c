// SPDX-License-Identifier: GPL-3.0-or-later
/* Report of a validation: the score, its slices, what is behind it, the worst rows. */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

enum { EXCLUDED_SHOWN = 12 };

/* ---- scores ---- */

struct score_cell {
    struct page_column column;
    const char *key;
    enum number_unit unit;
};
static const struct score_cell errors[] = {
    {{"layouts", true, false}, "layouts", NUMBER_PLAIN},
    {{"MAPE", true, false}, "mape", NUMBER_SHARE},
    {{"median", true, false}, "median", NUMBER_SHARE},
    {{"p90", true, false}, "p90", NUMBER_SHARE},
    {{"bias", true, false}, "bias", NUMBER_SHARE},
    {{"data sheet", true, false}, "datasheet_mape", NUMBER_SHARE}};
static const struct score_cell orders[] = {
    {{"pairs", true, false}, "pairs", NUMBER_PLAIN},
    {{"in order", true, false}, "pair_order", NUMBER_SHARE},
    {{"tau", true, false}, "kendall_tau", NUMBER_RATIO},
    {{"regret", true, false}, "regret", NUMBER_SHARE},
    {{"in the 90 %", true, false}, "coverage_90", NUMBER_SHARE}};

/* A grid of scores by some of their numbers. */
struct scores {
    struct grid grid;
    const struct score_cell *cells;
    size_t count;
};

static void scores_begin(struct scores *scores, struct page *page, const struct score_cell *cells,
                         size_t count) {
    struct page_column columns[1 + COUNT_OF(errors)] = {{"", false, true}};
    for (size_t i = 0; i < count; i++)
        columns[1 + i] = cells[i].column;
    scores->cells = cells;
    scores->count = count;
    grid_begin(&scores->grid, page, columns, 1 + count, true);
}

static void scores_row(struct scores *scores, const char *name, json_t *score) {
    if (!score)
        return;
    grid_row(&scores->grid);
    grid_text(&scores->grid, name);
    for (size_t i = 0; i < scores->count; i++)
        grid_number(&scores->grid, score, scores->cells[i].key, scores->cells[i].unit);
}

static bool is_headline(const char *by) {
    return strcmp(by, "all") == 0 || strcmp(by, "slice") == 0;
}

static void slices(struct page *page, json_t *root, const struct score_cell *cells, size_t count) {
    struct scores scores;
    json_t *const groups = result_at(root, "groups");
    scores_begin(&scores, page, cells, count);
    scores_row(&scores, "all rows", root);
    for (size_t i = 0; i < json_array_size(groups); i++) {
        json_t *const group = json_array_get(groups, i);
        if (is_headline(text_at(group, "by")))
            scores_row(&scores, text_at(group, "name"), group);
    }
    scores_row(&scores, "data sheets alone", result_at(root, "datasheet"));
    grid_end(&scores.grid);
}

static void summary(struct page *page, json_t *root) {
    page_heading(page, "Validation");
    page_textf(page, "%.0f of %.0f rows of %s are scored, by %.0f distinct layouts.",
               real_at(root, "rows"), real_at(root, "rows_read"),
               text_at(root, "provenance.inputs[0].path"), real_at(root, "layouts"));
    if (strcmp(text_at(root, "status"), "ok") != 0)
        page_textf(page, "STATUS: %s.", text_at(root, "status"));
    if (real_at(root, "rows") <= 0)
        return;
    page_heading(page, "Error of the step time, predicted / measured - 1 (+: predicted too slow)");
    slices(page, root, errors, COUNT_OF(errors));
    page_heading(page, "Order of layouts, intervals");
    slices(page, root, orders, COUNT_OF(orders));
}

static void one_grouping(struct page *page, json_t *groups, const char *by) {
    struct scores scores;
    char heading[LABEL_MAX];
    (void)snprintf(heading, sizeof heading, "By %s", by);
    page_heading(page, heading);
    scores_begin(&scores, page, errors, COUNT_OF(errors));
    for (size_t i = 0; i < json_array_size(groups); i++) {
        json_t *const group = json_array_get(groups, i);
        if (strcmp(text_at(group, "by"), by) == 0)
            scores_row(&scores, text_at(group, "name"), group);
    }
    grid_end(&scores.grid);
}

/* Beyond the slices only what was asked for by name. */
static bool asks_for_groups(json_t *settings) {
    static const char key[] = "group_by=";
    for (size_t i = 0; i < json_array_size(settings); i++) {
        const char *const pair = json_string_value(json_array_get(settings, i));
        if (pair && strncmp(pair, key, sizeof key - 1) == 0)
            return true;
    }
    return false;
}

static void groupings(struct page *page, json_t *groups) {
    const char *last = "";
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const char *const by = text_at(json_array_get(groups, i), "by");
        if (strcmp(by, last) != 0 && !is_headline(by))
            one_grouping(page, groups, by);
        last = by;
    }
}

static void anchored(struct page *page, json_t *anchored) {
    if (real_at(anchored, "rows") <= 0)
        return;
    page_heading(page, "Anchored");
    char before[NUMBER_MAX], after[NUMBER_MAX], old_median[NUMBER_MAX], median[NUMBER_MAX];
    page_textf(page,
               "By %.0f measured layouts in each of %.0f jobs (cluster, engine, model), the other "
               "%.0f layouts: MAPE %s, before %s; median %s, before %s.",
               real_at(anchored, "anchors"), real_at(anchored, "groups"),
               real_at(anchored, "layouts"),
               number_human(real_at(anchored, "mape"), NUMBER_SHARE, after),
               number_human(real_at(anchored, "before.mape"), NUMBER_SHARE, before),
               number_human(real_at(anchored, "median"), NUMBER_SHARE, median),
               number_human(real_at(anchored, "before.median"), NUMBER_SHARE, old_median));
}

/* ---- rows ---- */

static void memory(struct page *page, json_t *memory) {
    static const struct page_fact facts[] = {
        {"rows", "peaks measured", "", NUMBER_PLAIN},
        {"mape", "error of the peak", "mean |predicted / measured - 1|", NUMBER_SHARE},
        {"bias", "bias", "+: predicted too large", NUMBER_SHARE},
        {"reserved_mape", "error of what is reserved", "", NUMBER_SHARE},
        {"false_refusals", "false refusals", "ran, and predicted not to fit", NUMBER_PLAIN}};
    page_facts(page, "Memory", memory, facts, COUNT_OF(facts));
}

static void unstated(struct page *page, json_t *list) {
    static const struct page_column columns[] = {{"flag", false, false},
                                                 {"rows", true, false},
                                                 {"engine", false, false},
                                                 {"taken as", false, true}};
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Left open by rows");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const entry = json_array_get(list, i);
        grid_row(&grid);
        grid_text(&grid, text_at(entry, "flag"));
        grid_number(&grid, entry, "rows", NUMBER_PLAIN);
        grid_cell(&grid, "%s %s", text_at(entry, "engine.name"), text_at(entry, "engine.version"));
        grid_text(&grid, text_at(entry, "assumed"));
    }
    grid_end(&grid);
}

static void excluded(struct page *page, json_t *list) {
    const size_t count = json_array_size(list);
    if (count == 0)
        return;
    page_heading(page, "Excluded");
    for (size_t i = 0; i < count && i < EXCLUDED_SHOWN; i++) {
        json_t *const entry = json_array_get(list, i);
        page_textf(page, "%s (row %.0f): %s", text_at(entry, "id"), real_at(entry, "row"),
                   text_at(entry, "reason"));
    }
    if (count > EXCLUDED_SHOWN)
        page_textf(page, "and %zu more (--format json lists them)", count - EXCLUDED_SHOWN);
}

static void join(json_t *texts, char out[LABEL_MAX]) {
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(texts) && length < LABEL_MAX - 1; i++) {
        const char *const text = json_string_value(json_array_get(texts, i));
        const int n = snprintf(out + length, LABEL_MAX - length, "%s%s", i > 0 ? "; " : "", text);
        length += n > 0 ? (size_t)n : 0;
    }
}

static void worst(struct page *page, json_t *list) {
    static const struct page_column columns[] = {
        {"id", false, false},       {"job", false, true},   {"measured", true, false},
        {"predicted", true, false}, {"error", true, false}, {"because", false, true}};
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Worst, one row a layout (error +: predicted too slow)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const entry = json_array_get(list, i);
        char why[LABEL_MAX];
        grid_row(&grid);
        grid_text(&grid, text_at(entry, "id"));
        grid_cell(&grid, "%s on %.0f %s, %s", text_at(entry, "model"), real_at(entry, "gpus"),
                  text_at(entry, "gpu"), text_at(entry, "layout"));
        grid_number(&grid, entry, "measured_s", NUMBER_TIME);
        grid_number(&grid, entry, "predicted_s", NUMBER_TIME);
        grid_number(&grid, entry, "error", NUMBER_SHARE);
        join(result_at(entry, "reasons"), why);
        grid_text(&grid, why);
    }
    grid_end(&grid);
}

void table_validate(struct page *page, json_t *root) {
    summary(page, root);
    page_list(page, "Warnings", result_at(root, "warnings"));
    anchored(page, result_at(root, "anchored"));
    worst(page, result_at(root, "worst"));
    if (asks_for_groups(result_at(root, "settings")))
        groupings(page, result_at(root, "groups"));
    memory(page, result_at(root, "memory"));
    unstated(page, result_at(root, "unstated"));
    excluded(page, result_at(root, "excluded"));
    table_provenance(page, root);
}
