// SPDX-License-Identifier: GPL-3.0-or-later
/* Report of check: every metric with its verdict, then what lies behind the changes of a file. */
#include "report/check_text.h"
#include "report/result.h"
#include "report/table.h"

#include <string.h>

static bool is_word(json_t *object, const char *key, const char *word) {
    return strcmp(text_at(object, key), word) == 0;
}

static void summary(struct page *page, json_t *root) {
    const double files = real_at(root, "counts.files");
    const double metrics = real_at(root, "counts.metrics");
    const double worse = real_at(root, "counts.regressions");
    const double better = real_at(root, "counts.better");
    const char *const path = text_at(root, "baseline.path");
    if (is_word(root, "status", "updated"))
        page_textf(page, "%s now holds the predictions of %.0f file%s.", path, files,
                   files > 1 ? "s" : "");
    page_textf(page, "%.0f metric%s of %.0f file%s against %s: %.0f regression%s, %.0f better.",
               metrics, metrics > 1 ? "s" : "", files, files > 1 ? "s" : "", path, worse,
               worse > 1 || worse < 1 ? "s" : "", better);
}

static void differences(struct page *page, json_t *rows) {
    static const struct page_column columns[] = {
        {"file", false, true},    {"metric", false, false},    {"baseline", true, false},
        {"now", true, false},     {"difference", true, false}, {"tolerance", true, false},
        {"verdict", false, false}};
    struct grid grid;
    char text[NUMBER_MAX];
    page_heading(page, "Differences");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *const row = json_array_get(rows, i);
        json_t *const before = i > 0 ? json_array_get(rows, i - 1) : NULL;
        const bool is_worse = is_word(row, "verdict", "regression");
        const bool is_new_file = !before || !is_word(before, "file", text_at(row, "file"));
        grid_row(&grid);
        grid_text(&grid, is_new_file ? text_at(row, "file") : "");
        grid_text(&grid, text_at(row, "metric"));
        grid_text(&grid, check_figure(row, "baseline", text));
        grid_text(&grid, check_figure(row, "now", text));
        grid_text(&grid, check_difference(row, text));
        grid_text(&grid, check_tolerance_text(row, text));
        grid_text(&grid, is_worse ? "REGRESSION" : text_at(row, "verdict"));
    }
    grid_end(&grid);
}

/* "plan: A as B, was C as D", where the baseline's is another. */
static void plan_change(struct page *page, json_t *file) {
    static const char *const keys[][2] = {{"model", "baseline_model"},
                                          {"layout", "baseline_layout"}};
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (*text_at(file, keys[i][1]))
            page_textf(page, "The %s is %s, it was %s.", keys[i][0], text_at(file, keys[i][0]),
                       text_at(file, keys[i][1]));
}

static void terms(struct page *page, json_t *causes) {
    static const struct page_column columns[] = {{"term", false, false},
                                                 {"baseline", true, false},
                                                 {"now", true, false},
                                                 {"difference", true, false}};
    static const struct {
        const char *kind, *name;
        enum number_unit unit;
    } kinds[] = {{"time", "", NUMBER_TIME},
                 {"memory", "memory: ", NUMBER_MEMORY},
                 {"loss", "loss term: ", NUMBER_LOSS}};
    struct grid grid;
    char text[NUMBER_MAX], words[LABEL_MAX];
    if (json_array_size(causes) == 0)
        return;
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(causes); i++) {
        json_t *const cause = json_array_get(causes, i);
        const double difference = real_at(cause, "difference");
        size_t k = 0;
        while (k + 1 < COUNT_OF(kinds) && !is_word(cause, "kind", kinds[k].kind))
            k++;
        grid_row(&grid);
        grid_cell(&grid, "%s%s", kinds[k].name,
                  k == 0 ? table_term(text_at(cause, "key"), words) : text_at(cause, "key"));
        grid_text(&grid, number_human(real_at(cause, "baseline"), kinds[k].unit, text));
        grid_text(&grid, number_human(real_at(cause, "now"), kinds[k].unit, text));
        grid_cell(&grid, "%s%s", difference < 0 ? "-" : "+",
                  number_human(difference < 0 ? -difference : difference, kinds[k].unit, text));
    }
    grid_end(&grid);
}

static void inputs(struct page *page, json_t *changed) {
    if (json_array_size(changed) == 0)
        page_text(page, "", "No input changed: the program did.");
    for (size_t i = 0; i < json_array_size(changed); i++) {
        json_t *const change = json_array_get(changed, i);
        page_textf(page, "%s %s: %s", is_word(change, "kind", "override") ? "Override" : "Input",
                   text_at(change, "name"), text_at(change, "change"));
    }
}

static void file_causes(struct page *page, json_t *file) {
    char heading[LABEL_MAX];
    json_t *const causes = result_at(file, "causes");
    if (!result_at(file, "baseline_status") || is_word(file, "verdict", "same"))
        return;
    (void)snprintf(heading, sizeof heading, "What changed most in %s", text_at(file, "file"));
    page_heading(page, heading);
    if (is_word(file, "status", "infeasible"))
        page_text(page, "", "It has no feasible plan now; plan, layout or explain says why.");
    plan_change(page, file);
    inputs(page, result_at(file, "changed"));
    terms(page, causes);
}

void table_check(struct page *page, json_t *root) {
    json_t *const files = result_at(root, "files");
    page_heading(page, "Check");
    summary(page, root);
    page_list(page, "Warnings", result_at(root, "warnings"));
    differences(page, result_at(root, "differences"));
    for (size_t i = 0; i < json_array_size(files); i++)
        file_causes(page, json_array_get(files, i));
    table_provenance(page, root);
}
