// SPDX-License-Identifier: GPL-3.0-or-later
/* Report of schedules: the live sets, the phases, and a chart of each schedule's clock. */
#include "report/result.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

enum {
    CHART_MAX = 100,
    CHART_LEAST = 20,
    LANE_WIDTH = 13,
    LINES_MAX = 12,
    CUTS_MAX = 2,
    CUT_WIDTH = 4
};

static const double mib = 1024.0 * 1024, gib = 1024.0 * 1024 * 1024;

/* The number at `key` in GiB; empty for less than a MiB. */
static void gib_cell(struct grid *grid, json_t *object, const char *key) {
    char text[NUMBER_MAX];
    double bytes;
    const bool has = result_real(object, key, &bytes) && bytes >= mib;
    grid_text(grid, has ? number_fixed(bytes / gib, 2, text) : "");
}

static void live_sets(struct page *page, json_t *sets) {
    static const struct page_column columns[] = {
        {"live set", false, false}, {"schedule", false, true},  {"without", true, false},
        {"with", true, false},      {"guarantee", true, false}, {"host", true, false}};
    struct grid grid;
    page_heading(page, "Live sets of a GPU of the fullest stage (GiB)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(sets); i++) {
        json_t *const row = json_array_get(sets, i);
        const bool is_on = json_is_true(result_at(row, "on"));
        grid_row(&grid);
        grid_text(&grid, text_at(row, "set"));
        grid_text(&grid, is_on ? text_at(row, "schedule") : "off");
        gib_cell(&grid, row, "before_bytes");
        gib_cell(&grid, row, "bytes");
        gib_cell(&grid, row, "guarantee_bytes");
        gib_cell(&grid, row, "host_bytes");
    }
    grid_end(&grid);
    page_text(page, "",
              "Guarantee: whatever the router does to the buffers of the all-to-all.  The sets are "
              "not alive at the same time.");
}

static void costs(struct page *page, json_t *sets) {
    static const struct page_column columns[] = {{"schedule", false, false},
                                                 {"streams", false, true},
                                                 {"GiB sent", true, false},
                                                 {"time", true, false},
                                                 {"FLOPs", true, false}};
    struct grid grid;
    bool begun = false;
    for (size_t i = 0; i < json_array_size(sets); i++) {
        json_t *const row = json_array_get(sets, i);
        double seconds;
        char text[NUMBER_MAX];
        if (!json_is_true(result_at(row, "on")) || !result_real(row, "extra_time_s", &seconds))
            continue;
        if (!begun) {
            page_heading(page, "What the schedules do, and what they add to a step on a GPU");
            grid_begin(&grid, page, columns, COUNT_OF(columns), true);
            begun = true;
        }
        grid_row(&grid);
        grid_text(&grid, text_at(row, "schedule"));
        grid_text(&grid, text_at(row, "stream.text"));
        gib_cell(&grid, row, "link_bytes");
        grid_cell(&grid, "%s%s", seconds < 0 ? "-" : "+",
                  number_human(fabs(seconds), NUMBER_TIME, text));
        if (real_at(row, "extra_flop") > 0)
            grid_cell(&grid, "%.3g", real_at(row, "extra_flop"));
    }
    if (begun)
        grid_end(&grid);
}

static void phases(struct page *page, json_t *root) {
    static const struct {
        const char *key, *name;
    } parts[] = {{"parts.resident", "resident"},
                 {"parts.kept", "kept"},
                 {"parts.interior", "interior"},
                 {"parts.exchange", "exchange"},
                 {"parts.logits", "logits"},
                 {"parts.gathered", "gathered"},
                 {"parts.workspace", "work"},
                 {"parts.staging", "buckets"},
                 {"bytes", "sum"},
                 {"held_bytes", "held"}};
    struct page_column columns[COUNT_OF(parts) + 1] = {{"phase", false, false}};
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        columns[i + 1] = (struct page_column){parts[i].name, true, false};
    json_t *const list = result_at(root, "phases");
    struct grid grid;
    page_heading(page, "Phases of a step (GiB)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const row = json_array_get(list, i);
        grid_row(&grid);
        grid_text(&grid, text_at(row, "phase"));
        for (size_t k = 0; k < COUNT_OF(parts); k++)
            gib_cell(&grid, row, parts[k].key);
    }
    grid_end(&grid);
    page_text(page, "", "Held: with fragmentation and what the runtime takes.");
}

/* ---- charts ---- */

/* A line of a chart: rows of one lane that do not overlap. */
struct chart_line {
    const char *lane;
    double end_s;
    char cells[CHART_MAX + 1];
};

/* What was left out takes a few columns, however long it is. */
struct chart_cut {
    double start_s, end_s;
};

struct chart {
    size_t width, count, cuts;
    double end_s;
    struct chart_line lines[LINES_MAX];
    struct chart_cut cut[CUTS_MAX];
};

static void find_cuts(struct chart *chart, json_t *rows) {
    for (size_t i = 0; i < json_array_size(rows) && chart->cuts < CUTS_MAX; i++) {
        json_t *const row = json_array_get(rows, i);
        if (real_at(row, "left_out") > 0)
            chart->cut[chart->cuts++] =
                (struct chart_cut){real_at(row, "start_s"), real_at(row, "end_s")};
    }
}

static size_t column_at(const struct chart *chart, double at_s) {
    double cut_s = 0, before_s = 0, columns = 0;
    for (size_t i = 0; i < chart->cuts; i++) {
        const struct chart_cut *const cut = &chart->cut[i];
        const double length_s = cut->end_s - cut->start_s;
        const double passed_s = fmin(fmax(at_s - cut->start_s, 0), length_s);
        cut_s += length_s;
        before_s += passed_s;
        columns += length_s > 0 ? CUT_WIDTH * passed_s / length_s : 0;
    }
    const double rest = (double)(chart->width - CUT_WIDTH * chart->cuts);
    return (size_t)lround(columns + rest * (at_s - before_s) / (chart->end_s - cut_s));
}

/* The first line of the lane that is free; the last one there may be is shared. */
static struct chart_line *line_for(struct chart *chart, const char *lane, double start_s) {
    const double slack_s = 1e-9 * chart->end_s;
    struct chart_line *found = NULL;
    for (size_t i = 0; i < chart->count; i++) {
        if (strcmp(chart->lines[i].lane, lane) != 0)
            continue;
        found = &chart->lines[i];
        if (found->end_s <= start_s + slack_s)
            return found;
    }
    if (chart->count == LINES_MAX)
        return found;
    found = &chart->lines[chart->count++];
    *found = (struct chart_line){.lane = lane};
    memset(found->cells, '.', chart->width);
    for (size_t i = 0; i < chart->cuts; i++) {
        const size_t first = column_at(chart, chart->cut[i].start_s);
        memset(found->cells + first, '~', column_at(chart, chart->cut[i].end_s) - first);
    }
    return found;
}

/* Computed pieces by their number's last digit, all else by its first letter. */
static char mark_of(json_t *row) {
    const double number = real_at(row, "number"), digits = 10;
    if (number > 0 && strcmp(text_at(row, "lane"), "compute") == 0)
        return (char)('0' + (int)fmod(number, digits));
    return text_at(row, "what")[0];
}

static void draw(struct chart *chart, json_t *row) {
    const double start_s = real_at(row, "start_s"), end_s = real_at(row, "end_s");
    struct chart_line *const line = line_for(chart, text_at(row, "lane"), start_s);
    if (!line || real_at(row, "left_out") > 0)
        return;
    size_t first = column_at(chart, start_s), last = column_at(chart, end_s);
    first = first < chart->width ? first : chart->width - 1;
    last = last > first ? last : first + 1;
    for (size_t i = first; i < last && i < chart->width; i++)
        line->cells[i] = mark_of(row);
    line->end_s = fmax(line->end_s, end_s);
}

/* Lines of a lane together, in the order of their first rows. */
static void print_lines(struct page *page, const struct chart *chart) {
    bool is_printed[LINES_MAX] = {false};
    for (size_t i = 0; i < chart->count; i++)
        for (size_t k = i; k < chart->count; k++) {
            if (is_printed[k] || strcmp(chart->lines[k].lane, chart->lines[i].lane) != 0)
                continue;
            is_printed[k] = true;
            (void)fprintf(page->stream, "  %-9s  %s\n", chart->lines[k].lane,
                          chart->lines[k].cells);
        }
}

static bool is_first_of_its_sort(json_t *rows, size_t at) {
    const char *const what = text_at(json_array_get(rows, at), "what");
    for (size_t i = 0; i < at; i++)
        if (strcmp(text_at(json_array_get(rows, i), "what"), what) == 0)
            return false;
    return true;
}

/* What a mark is and how long one of its sort takes. */
static void legend(struct page *page, json_t *rows) {
    char text[4 * LABEL_MAX] = "", time[NUMBER_MAX];
    size_t used = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *const row = json_array_get(rows, i);
        const bool is_left_out = real_at(row, "left_out") > 0;
        if (!is_left_out && !is_first_of_its_sort(rows, i))
            continue;
        const char mark = is_left_out ? '~' : mark_of(row);
        const double length_s = real_at(row, "end_s") - real_at(row, "start_s");
        const int wrote =
            snprintf(text + used, sizeof text - used, "%s%c%s: %s, %s", used ? "; " : "", mark,
                     mark == '1' ? ", 2, ..." : "", text_at(row, is_left_out ? "label" : "what"),
                     number_human(length_s, NUMBER_TIME, time));
        if (wrote > 0 && used + (size_t)wrote < sizeof text)
            used += (size_t)wrote;
    }
    page_text(page, "", text);
}

static void clock_chart(struct page *page, json_t *timeline) {
    json_t *const rows = result_at(timeline, "rows");
    struct chart chart = {.end_s = real_at(timeline, "end_s")};
    const size_t most = page->width > 0 && page->width < CHART_MAX ? page->width : CHART_MAX;
    chart.width = most > LANE_WIDTH + CHART_LEAST ? most - LANE_WIDTH : CHART_LEAST;
    char heading[LABEL_MAX], time[NUMBER_MAX];
    if (!(chart.end_s > 0))
        return;
    (void)snprintf(heading, sizeof heading, "Timeline of the %s: %s, %s", text_at(timeline, "set"),
                   text_at(timeline, "of"), number_human(chart.end_s, NUMBER_TIME, time));
    page_heading(page, heading);
    find_cuts(&chart, rows);
    for (size_t i = 0; i < json_array_size(rows); i++)
        draw(&chart, json_array_get(rows, i));
    print_lines(page, &chart);
    legend(page, rows);
}

void table_schedules(struct page *page, json_t *root) {
    json_t *const sets = result_at(root, "live_sets"), *const clocks = result_at(root, "timeline");
    char model[LABEL_MAX], layout[LABEL_MAX];
    page_heading(page, "Memory schedules");
    page_textf(page, "%s as %s", table_geometry_text(result_at(root, "geometry"), model),
               table_layout_text(result_at(root, "layout"), layout));
    if (strcmp(text_at(root, "status"), "infeasible") == 0)
        page_text(page, "",
                  "THE LAYOUT DOES NOT FIT IN MEMORY: the figures are of a step that cannot run.");
    page_list(page, "Which peaks they flatten", result_at(root, "why"));
    page_list(page, "Warnings", result_at(root, "warnings"));
    live_sets(page, sets);
    costs(page, sets);
    phases(page, root);
    for (size_t i = 0; i < json_array_size(clocks); i++)
        clock_chart(page, json_array_get(clocks, i));
    table_memory(page, result_at(root, "prediction"), false);
    table_provenance(page, root);
}
