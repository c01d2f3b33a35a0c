// SPDX-License-Identifier: GPL-3.0-or-later
/* Reports of calibrate: what was measured and what became of it; and of a comparison. */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

static bool is_word(json_t *object, const char *key, const char *word) {
    return strcmp(text_at(object, key), word) == 0;
}

/* ---- a calibration ---- */

static void summary(struct page *page, json_t *root) {
    const double refused = real_at(root, "counts.refused.unsupported") +
                           real_at(root, "counts.refused.memory") +
                           real_at(root, "counts.refused.failed");
    page_heading(page, "Calibration");
    page_textf(page, "%s by probe %s %s, level %s: %s.", text_at(root, "probe.device"),
               text_at(root, "probe.name"), text_at(root, "probe.version"), text_at(root, "level"),
               is_word(root, "status", "ok")            ? "complete"
               : is_word(root, "status", "partial")     ? "PARTIAL, something was lost"
               : is_word(root, "status", "interrupted") ? "INTERRUPTED"
                                                        : "FAILED, the probe was lost");
    page_textf(page,
               "%.0f samples: %.0f measured now, %.0f from the journal.  %.0f refused, %.0f lost, "
               "%.0f not begun.",
               real_at(root, "counts.samples"), real_at(root, "counts.measured"),
               real_at(root, "counts.resumed"), refused,
               real_at(root, "counts.lost") + real_at(root, "counts.skipped"),
               real_at(root, "counts.not_begun"));
    if (result_at(root, "team"))
        page_textf(page, "%.0f ranks on %.0f nodes, started by %s; %.0f in an innermost domain.",
                   real_at(root, "team.ranks"), real_at(root, "team.nodes"),
                   text_at(root, "team.launcher"), real_at(root, "team.ranks_per_domain"));
    if (*text_at(root, "data_sheet"))
        page_textf(page, "Shares are of the data sheet of %s.", text_at(root, "data_sheet"));
}

static void quantities(struct page *page, json_t *list) {
    static const struct page_column columns[] = {
        {"quantity", false, false}, {"samples", true, false}, {"refused", true, false},
        {"lost", true, false},      {"skipped", true, false}, {"no time", true, false}};
    struct grid grid;
    page_heading(page, "Measured");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const row = json_array_get(list, i);
        grid_row(&grid);
        grid_text(&grid, text_at(row, "quantity"));
        grid_number(&grid, row, "samples", NUMBER_PLAIN);
        grid_number(&grid, row, "refused", NUMBER_PLAIN);
        grid_number(&grid, row, "lost", NUMBER_PLAIN);
        grid_number(&grid, row, "skipped", NUMBER_PLAIN);
        grid_number(&grid, row, "budget", NUMBER_PLAIN);
    }
    grid_end(&grid);
}

static void gaps(struct page *page, json_t *list) {
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Not measured");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const gap = json_array_get(list, i);
        char line[2 * LABEL_MAX];
        const char *const reason = text_at(gap, "reason"), *const text = text_at(gap, "text");
        (void)snprintf(line, sizeof line, "%s, %.0f: %s%s%s%s%s", text_at(gap, "quantity"),
                       real_at(gap, "count"),
                       is_word(gap, "why", "budget") ? "no time left" : text_at(gap, "why"),
                       *reason ? ", " : "", reason, *text ? ": " : "", text);
        page_text(page, "- ", line);
    }
}

static void words(struct page *page, const char *text) {
    if (!*text)
        return;
    page_heading(page, "What the probe said at the end");
    page_text(page, "", text);
}

void table_calibrate(struct page *page, json_t *root) {
    summary(page, root);
    page_list(page, "Warnings", result_at(root, "warnings"));
    quantities(page, result_at(root, "quantities"));
    gaps(page, result_at(root, "gaps"));
    table_entries(page, root);
    words(page, text_at(root, "probe_said"));
    table_provenance(page, root);
}

/* ---- a comparison ---- */

/* Nothing where there is no value. */
static void figure(struct grid *grid, json_t *row, const char *key) {
    if (result_at(row, key))
        grid_cell(grid, "%.5g", real_at(row, key));
    else
        grid_text(grid, "");
}

static void drift_rows(struct page *page, json_t *list) {
    static const struct page_column columns[] = {
        {"entry", false, true},     {"at", true, false},      {"old", true, false},
        {"new", true, false},       {"unit", false, false},   {"difference", true, false},
        {"tolerance", true, false}, {"verdict", false, false}};
    struct grid grid;
    page_heading(page, "Entries");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const row = json_array_get(list, i);
        const bool is_drift =
            is_word(row, "verdict", "changed") || is_word(row, "verdict", "missing");
        grid_row(&grid);
        grid_text(&grid, text_at(row, "entry"));
        grid_number(&grid, row, "at", NUMBER_PLAIN);
        figure(&grid, row, "old");
        figure(&grid, row, "new");
        grid_text(&grid, is_word(row, "unit", "1") ? "" : text_at(row, "unit"));
        if (result_at(row, "relative"))
            grid_cell(&grid, "%+.1f %%", 100.0 * real_at(row, "relative"));
        else
            grid_text(&grid, "");
        grid_cell(&grid, "%.1f %%", 100.0 * real_at(row, "limit"));
        grid_cell(&grid, is_drift ? "DRIFT: %s" : "%s", text_at(row, "verdict"));
    }
    grid_end(&grid);
}

static void drift_samples(struct page *page, json_t *list) {
    static const struct page_column columns[] = {{"samples of", false, false},
                                                 {"in both", true, false},
                                                 {"changed", true, false},
                                                 {"time ratio", true, false},
                                                 {"spread", true, false}};
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Samples");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const row = json_array_get(list, i);
        grid_row(&grid);
        grid_text(&grid, text_at(row, "quantity"));
        grid_number(&grid, row, "both", NUMBER_PLAIN);
        grid_number(&grid, row, "changed", NUMBER_PLAIN);
        grid_number(&grid, row, "time_ratio", NUMBER_RATIO);
        grid_number(&grid, row, "spread", NUMBER_SHARE);
    }
    grid_end(&grid);
}

void table_drift(struct page *page, json_t *root) {
    page_heading(page, "Drift");
    page_textf(page, "%s against %s, both of %s: %.0f of %.0f entries changed, %.0f missing.",
               text_at(root, "new.path"), text_at(root, "old.path"), text_at(root, "old.device"),
               real_at(root, "counts.changed"), real_at(root, "counts.entries"),
               real_at(root, "counts.missing"));
    page_list(page, "Warnings", result_at(root, "warnings"));
    drift_rows(page, result_at(root, "entries"));
    drift_samples(page, result_at(root, "samples"));
    table_provenance(page, root);
}
