// SPDX-License-Identifier: GPL-3.0-or-later
/* Reports of predict, count, compare and lint. */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

static const double tera = 1e12;

static const char *text_or_empty(json_t *root, const char *path) {
    const char *const text = result_text(root, path);
    return text ? text : "";
}

static void flops(struct page *page, json_t *object) {
    static const struct page_fact facts[] = {
        {"causal", "causal", "head in, embedding out, half the attention square", NUMBER_FLOP},
        {"full", "full", "the whole attention square", NUMBER_FLOP},
        {"six_n", "6 N", "6 x active parameters, law's count; no attention", NUMBER_FLOP},
    };
    page_facts(page, "Training FLOPs a token (forward and backward, no recompute)",
               result_at(object, "flops_per_token"), facts, COUNT_OF(facts));
}

/* "On 32 nodes of p6-b200 (256 B200): ...; dense bf16 peak, 2250 TFLOP/s." */
static void predicted_on(struct page *page, json_t *root) {
    const char *const cluster = result_text(root, "cluster.name");
    const char *const device = result_text(root, "cluster.device");
    const char *const precision = result_text(root, "workload.precision");
    double nodes, gpus, peak, sequence, batch;
    if (!cluster || !device || !precision || !result_real(root, "cluster.nodes", &nodes) ||
        !result_real(root, "cluster.gpus", &gpus) ||
        !result_real(root, "cluster.peak_flop_per_s", &peak) ||
        !result_real(root, "workload.sequence", &sequence) ||
        !result_real(root, "workload.global_batch", &batch))
        return;
    page_textf(page,
               "On %.0f node%s of %s (%.0f GPUs, %s), %.0f sequences of %.0f tokens a step, in %s "
               "(dense %s peak, %.0f TFLOP/s); calibration %s.",
               nodes, nodes > 1 ? "s" : "", cluster, gpus, device, batch, sequence, precision,
               precision, peak / tera, text_or_empty(root, "calibration.name"));
}

void table_predict(struct page *page, json_t *root) {
    json_t *const prediction = result_at(root, "prediction");
    static const struct page_fact run[] = {
        {"tokens", "tokens", "in the budget", NUMBER_COUNT},
        {"model_flops", "model FLOPs", "6 x active (law's count) x tokens", NUMBER_FLOP},
        {"loss", "loss", "nats per token", NUMBER_LOSS},
        {"days", "days", "", NUMBER_PLAIN},
        {"gpu_hours", "GPU-hours", "", NUMBER_PLAIN},
        {"cost_usd", "cost", "USD", NUMBER_PLAIN},
    };
    char model[LABEL_MAX];
    char layout[LABEL_MAX];
    page_heading(page, "Prediction");
    page_textf(page, "%s as %s", table_geometry_text(result_at(root, "geometry"), model),
               table_layout_text(result_at(root, "layout"), layout));
    predicted_on(page, root);
    if (strcmp(text_or_empty(root, "status"), "infeasible") == 0)
        page_text(page, "",
                  "THE LAYOUT DOES NOT FIT IN MEMORY: the figures are of a step that cannot run.");
    const char *const why = result_text(root, "why[0]");
    if (why)
        page_text(page, "", why);
    page_list(page, "Warnings", result_at(root, "warnings"));
    table_rates(page, prediction);
    table_time_split(page, prediction);
    table_memory(page, prediction, true);
    table_geometry(page, result_at(root, "geometry"), true);
    table_layout(page, result_at(root, "layout"));
    flops(page, root);
    page_facts(page, "Run", root, run, COUNT_OF(run));
    table_loss_terms(page, result_text(root, "law.name"), result_at(root, "loss_terms"));
    table_lookups(page, prediction);
    table_provenance(page, root);
}

void table_count(struct page *page, json_t *root) {
    static const struct page_fact facts[] = {
        {"n_total", "total", "every matrix", NUMBER_COUNT},
        {"n_active", "active", "every matrix, routed experts used", NUMBER_COUNT},
        {"n_active_no_embedding", "active, no embeddings", "neither input embedding nor head",
         NUMBER_COUNT},
        {"n_total_law", "total, law's count", "no embedding, head, router", NUMBER_COUNT},
        {"n_active_law", "active, law's count", "no embedding, head, router", NUMBER_COUNT},
        {"n_mtp", "MTP modules", "trained and stored, not in the total", NUMBER_COUNT},
        {"sparsity", "sparsity S", "1 - active/total, law's count", NUMBER_RATIO},
        {"sequence", "sequence", "tokens, for the attention core", NUMBER_PLAIN},
    };
    page_facts(page, "Parameters", root, facts, COUNT_OF(facts));
    table_any(page, "Parameters by part", result_at(root, "parts"));
    flops(page, root);
    table_geometry(page, result_at(root, "geometry"), false);
    page_list(page, "Warnings", result_at(root, "warnings"));
    table_provenance(page, root);
}

/* Exact enough for a difference, short enough for a column; bytes as GiB. */
static void difference_cell(struct grid *grid, json_t *term, const char *key, bool is_bytes) {
    const double gib = 1024.0 * 1024 * 1024;
    char text[NUMBER_MAX];
    double value;
    if (!result_real(term, key, &value))
        grid_text(grid, "");
    else if (is_bytes)
        grid_text(grid, number_fixed(value / gib, 3, text));
    else
        grid_cell(grid, "%.5g", value);
}

static bool is_zero(json_t *term, const char *key) {
    double value;
    return result_real(term, key, &value) && !(value > 0 || value < 0);
}

static void compare_row(struct grid *grid, json_t *term, bool is_anchored) {
    char words[LABEL_MAX];
    const char *const key = result_text(term, "key");
    const char *const unit = result_text(term, "unit");
    const bool is_bytes = unit && strcmp(unit, "byte") == 0;
    grid_row(grid);
    grid_text(grid, key ? table_corrected_term(key, is_anchored, words) : "");
    grid_text(grid, is_bytes ? "GiB" : unit && strcmp(unit, "1") != 0 ? unit : "");
    difference_cell(grid, term, "a", is_bytes);
    difference_cell(grid, term, "b", is_bytes);
    difference_cell(grid, term, "difference", is_bytes);
    grid_number(grid, term, "ratio", NUMBER_RATIO);
}

static void compare_terms(struct page *page, json_t *terms, bool is_anchored) {
    static const struct page_column columns[] = {
        {"term", false, false}, {"unit", false, false}, {"A", true, false},
        {"B", true, false},     {"B - A", true, false}, {"B / A", true, false},
    };
    struct grid grid;
    if (json_array_size(terms) == 0)
        return;
    page_heading(page, "Term by term (zero terms left out)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(terms); i++) {
        json_t *const term = json_array_get(terms, i);
        if (!is_zero(term, "a") || !is_zero(term, "b"))
            compare_row(&grid, term, is_anchored);
    }
    grid_end(&grid);
}

static void compare_equal(struct page *page, json_t *list) {
    static const struct page_column columns[] = {
        {"at equal", false, false}, {"FLOPs", true, false},  {"tokens A", true, false},
        {"tokens B", true, false},  {"loss A", true, false}, {"loss B", true, false},
        {"leads", false, false},
    };
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Loss at equal compute (nats per token)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const row = json_array_get(list, i);
        const char *const leader = result_text(row, "leader");
        char words[LABEL_MAX];
        const char *const basis = result_text(row, "basis");
        grid_row(&grid);
        grid_text(&grid, basis ? table_words(basis, words) : "");
        grid_number(&grid, row, "flops", NUMBER_FLOP);
        grid_number(&grid, row, "tokens_a", NUMBER_COUNT);
        grid_number(&grid, row, "tokens_b", NUMBER_COUNT);
        grid_number(&grid, row, "loss_a", NUMBER_LOSS);
        grid_number(&grid, row, "loss_b", NUMBER_LOSS);
        grid_text(&grid, !leader                    ? ""
                         : strcmp(leader, "a") == 0 ? "A"
                         : strcmp(leader, "b") == 0 ? "B"
                                                    : "neither");
    }
    grid_end(&grid);
}

static void compare_side(struct page *page, const char *name, json_t *side) {
    char model[LABEL_MAX];
    char layout[LABEL_MAX];
    const char *const path = result_text(side, "path");
    if (side)
        page_textf(page, "%s: %s  %s as %s", name, path ? path : "",
                   table_geometry_text(result_at(side, "geometry"), model),
                   table_layout_text(result_at(side, "layout"), layout));
}

void table_compare(struct page *page, json_t *root) {
    page_heading(page, "Comparison");
    compare_side(page, "A", result_at(root, "a"));
    compare_side(page, "B", result_at(root, "b"));
    page_list(page, "Warnings", result_at(root, "warnings"));
    compare_equal(page, result_at(root, "at_equal"));
    compare_terms(page, result_at(root, "terms"),
                  result_at(root, "a.prediction.anchored") ||
                      result_at(root, "b.prediction.anchored"));
    table_provenance(page, root);
}

static size_t count_origin(json_t *values, const char *origin) {
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(values); i++) {
        const char *const text = result_text(json_array_get(values, i), "origin");
        count += text && strcmp(text, origin) == 0;
    }
    return count;
}

static void lint_values(struct page *page, json_t *values) {
    static const struct page_column columns[] = {{"key", false, false},
                                                 {"value", false, true},
                                                 {"unit", false, false},
                                                 {"origin", false, false},
                                                 {"meaning", false, true}};
    struct grid grid;
    page_heading(page, "Values");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(values); i++) {
        json_t *const row = json_array_get(values, i);
        json_t *const value = result_at(row, "value");
        grid_row(&grid);
        grid_text(&grid, result_text(row, "key"));
        if (json_is_number(value))
            grid_cell(&grid, "%.10g", json_number_value(value));
        else if (json_is_boolean(value))
            grid_text(&grid, json_is_true(value) ? "true" : "false");
        else
            grid_text(&grid, json_string_value(value));
        grid_text(&grid, result_text(row, "unit"));
        grid_text(&grid, result_text(row, "origin"));
        grid_text(&grid, result_text(row, "help"));
    }
    grid_end(&grid);
}

void table_lint(struct page *page, json_t *root, bool show_values) {
    json_t *const values = result_at(root, "values");
    json_t *const warnings = result_at(root, "warnings");
    const char *const path = result_text(root, "document.path");
    const char *const kind = result_text(root, "document.kind");
    const size_t count = json_array_size(warnings);
    page_heading(page, "Document");
    page_textf(page, "%s%s%s: %s", path ? path : "-", kind ? ", " : "", kind ? kind : "",
               count ? "valid, with warnings" : "valid");
    page_textf(page, "%zu values given, %zu overridden, %zu built in, %zu defaults, %zu derived",
               count_origin(values, "given"), count_origin(values, "override"),
               count_origin(values, "built in"), count_origin(values, "default"),
               count_origin(values, "derived"));
    page_list(page, "Warnings", warnings);
    if (show_values && json_array_size(values) > 0)
        lint_values(page, values);
}
