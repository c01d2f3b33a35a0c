// SPDX-License-Identifier: GPL-3.0-or-later
/* The report of `layout`: the list and what each loses against the first, then the first in full.
 */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

enum { WIDE = 112 }; /* room for every column */

static void headline(struct page *page, json_t *root) {
    char model[LABEL_MAX];
    char nodes[NUMBER_MAX];
    char gpus[NUMBER_MAX];
    double node_count = 0.0;
    double gpu_count = 0.0;
    const char *const cluster = result_text(root, "cluster.name");
    json_t *const why = result_at(root, "why");
    (void)result_real(root, "cluster.nodes", &node_count);
    (void)result_real(root, "cluster.gpus", &gpu_count);
    page_heading(page, "Layouts");
    page_textf(page, "%s on %s node%s of %s (%s GPUs)",
               table_geometry_text(result_at(root, "geometry"), model),
               number_human(node_count, NUMBER_PLAIN, nodes), node_count < 2.0 ? "" : "s",
               cluster ? cluster : "the cluster", number_human(gpu_count, NUMBER_PLAIN, gpus));
    for (size_t i = 0; i < json_array_size(why); i++)
        page_text(page, "", json_string_value(json_array_get(why, i)));
    const char *const status = result_text(root, "status");
    if (status && strcmp(status, "optimal") == 0)
        page_text(page, "", "Proved: no other declared layout is faster under this model.");
}

static void list_row(struct grid *grid, json_t *rows, json_t *row) {
    const bool wide = grid->page->width == 0 || grid->page->width >= WIDE;
    const bool roomy = wide || !table_choices_vary(rows);
    const char *const verdict = result_text(row, "prediction.memory.verdict");
    char text[LABEL_MAX];
    grid_row(grid);
    grid_number(grid, row, "rank", NUMBER_PLAIN);
    grid_text(grid, table_layout_short(result_at(row, "layout"), rows, text));
    grid_number(grid, wide ? row : NULL, "layout.dp", NUMBER_PLAIN);
    grid_number(grid, roomy ? row : NULL, "layout.micro_batches", NUMBER_PLAIN);
    grid_number(grid, row, "step_time_s", NUMBER_TIME);
    grid_number(grid, roomy ? row : NULL, "share_of_best", NUMBER_SHARE);
    grid_number(grid, row, "prediction.mfu", NUMBER_SHARE);
    grid_number(grid, row, "prediction.memory.reserved_bytes", NUMBER_MEMORY);
    grid_text(grid, verdict ? verdict : "");
    grid_number(grid, wide ? row : NULL, "prediction.tokens_per_s_per_gpu", NUMBER_RATE);
}

static void list(struct page *page, json_t *rows) {
    static const struct page_column columns[] = {
        {"#", true, false},    {"layout", false, true},
        {"DP", true, false},   {"micro-batches", true, false},
        {"step", true, false}, {"speed", true, false},
        {"MFU", true, false},  {"memory", true, false},
        {"", false, false},    {"tokens/s/GPU", true, false},
    };
    struct grid grid;
    if (json_array_size(rows) == 0)
        return;
    page_heading(page, "Best layouts");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(rows); i++)
        list_row(&grid, rows, json_array_get(rows, i));
    grid_end(&grid);
}

static void reasons(struct page *page, json_t *rows) {
    if (json_array_size(rows) < 2)
        return;
    page_heading(page, "Why not the others");
    for (size_t i = 1; i < json_array_size(rows); i++) {
        char bullet[NUMBER_MAX + sizeof ". "];
        char rank[NUMBER_MAX];
        const char *const text = result_text(json_array_get(rows, i), "why_not");
        (void)snprintf(bullet, sizeof bullet, "%s. ",
                       number_human((double)(i + 1), NUMBER_PLAIN, rank));
        if (text)
            page_text(page, bullet, text);
    }
}

static void closest(struct page *page, json_t *root) {
    json_t *const one = result_at(root, "closest");
    char layout[LABEL_MAX];
    if (!one)
        return;
    page_heading(page, "The layout that comes closest");
    page_text(page, "", table_layout_text(result_at(one, "layout"), layout));
    table_memory(page, result_at(one, "prediction"), false);
}

static void fewest(struct page *page, json_t *root) {
    json_t *const found = result_at(root, "fewest_gpus");
    static const struct page_fact facts[] = {
        {"gpus", "GPUs", "", NUMBER_PLAIN},
        {"nodes", "nodes", "", NUMBER_PLAIN},
        {"global_batch", "global batch", "sequences, as in the plan", NUMBER_PLAIN},
        {"step_time_s", "step time there", "", NUMBER_TIME},
    };
    char layout[LABEL_MAX];
    char text[NUMBER_MAX];
    if (!found)
        return;
    page_facts(page, "Fewest GPUs that hold this model", found, facts, COUNT_OF(facts));
    if (result_at(found, "layout"))
        page_textf(page, "as %s", table_layout_text(result_at(found, "layout"), layout));
    else
        page_text(page, "", "none of the counts tried holds it");
    json_t *const tried = result_at(found, "tried");
    for (size_t i = 0; i < json_array_size(tried); i++) {
        json_t *const one = json_array_get(tried, i);
        const char *const outcome = result_text(one, "outcome");
        double gpus;
        if (outcome && strcmp(outcome, "fits") != 0 && result_real(one, "gpus", &gpus))
            page_textf(page, "%s GPUs: %s", number_human(gpus, NUMBER_PLAIN, text),
                       table_words(outcome, layout));
    }
    const char *const basis = result_text(found, "basis");
    if (basis)
        page_textf(page, "tried: %s", basis);
}

static void census(struct page *page, json_t *root) {
    static const struct page_fact facts[] = {
        {"legal", "legal meshes", "", NUMBER_PLAIN},
        {"legal_by_end.memory_bound", "too large by their bound", "", NUMBER_PLAIN},
        {"legal_by_end.too_large", "too large", "in every split", NUMBER_PLAIN},
        {"legal_by_end.mfu_above_one", "MFU above 1", "refused", NUMBER_PLAIN},
        {"legal_by_end.time_bound", "too slow by their bound", "to enter the list", NUMBER_PLAIN},
        {"legal_by_end.solved", "solved", "with their best split", NUMBER_PLAIN},
        {"legal_by_end.open", "not opened", "interrupted", NUMBER_PLAIN},
        {"illegal.indivisible", "illegal: indivisible", "some degree does not divide what it must",
         NUMBER_PLAIN},
        {"illegal.unmeasured_ranks", "illegal: unmeasured ranks",
         "a free axis without a measured collective", NUMBER_PLAIN},
        {"illegal.engine_rules", "illegal: engine's rules", "", NUMBER_PLAIN},
    };
    page_facts(page, "Census of the declared layouts", result_at(root, "census"), facts,
               COUNT_OF(facts));
}

void table_layouts(struct page *page, json_t *root) {
    json_t *const rows = result_at(root, "layouts");
    json_t *const best = json_array_get(rows, 0);
    headline(page, root);
    table_infeasible(page, "No layout fits", root);
    closest(page, root);
    list(page, rows);
    reasons(page, rows);
    page_list(page, "Warnings", result_at(root, "warnings"));
    if (best) {
        table_layout(page, result_at(best, "layout"));
        table_rates(page, result_at(best, "prediction"));
        table_time_split(page, result_at(best, "prediction"));
        table_memory(page, result_at(best, "prediction"), true);
    }
    fewest(page, root);
    table_geometry(page, result_at(root, "geometry"), true);
    census(page, root);
    table_provenance(page, root);
}
