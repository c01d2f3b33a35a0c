// SPDX-License-Identifier: GPL-3.0-or-later
/* Report of a fit: what was found, how far to trust it, then the details. */
#include "report/result.h"
#include "report/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_RESIDUALS = 8, DIRECTION_TEXT = 256, ROWS_SHOWN = 20 };

static bool is_undetermined(json_t *root) {
    return strcmp(text_at(root, "status"), "undetermined") == 0;
}

/* ---- summary ---- */

static void summary(struct page *page, json_t *root) {
    double r2;
    page_heading(page, "Fit");
    page_textf(page, "%s form, %s, on %.0f of %.0f runs of %s.", text_at(root, "form"),
               text_at(root, "loss"), real_at(root, "rows.used"), real_at(root, "rows.total"),
               text_at(root, "provenance.inputs[0].path"));
    if (is_undetermined(root))
        page_text(page, "", "UNDETERMINED: these runs do not hold a law of this form.");
    else if (strcmp(text_at(root, "status"), "limit") == 0)
        page_text(page, "", "NOT CONVERGED: the numbers below are not a minimum.");
    if (result_real(root, "r2", &r2))
        page_textf(page, "R2 %.6f; rms %.5f of ln L, %.4f nats.", r2, real_at(root, "rms_log"),
                   real_at(root, "rms_loss"));
    page_text(page, "", text_at(root, "confidence.text"));
}

/* ---- coefficients ---- */

static void interval_cell(struct grid *grid, json_t *object, const char *key,
                          enum number_unit unit) {
    json_t *const interval = result_at(object, key);
    char low[NUMBER_MAX], high[NUMBER_MAX];
    if (interval)
        grid_cell(grid, "%s .. %s", number_human(real_at(interval, "low"), unit, low),
                  number_human(real_at(interval, "high"), unit, high));
    else
        grid_text(grid, "");
}

static void coefficients(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"", false, false},        {"value", true, false},          {"std. error", true, false},
        {"relative", true, false}, {"95 % of refits", true, false}, {"", false, false}};
    struct grid grid;
    const char *name;
    json_t *c;
    if (!result_at(root, "coefficients"))
        return;
    page_heading(page, "Coefficients");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    json_object_foreach(result_at(root, "coefficients"), name, c) {
        const double value = real_at(c, "value");
        double error;
        grid_row(&grid);
        grid_text(&grid, name);
        grid_cell(&grid, "%.6g", value);
        if (result_real(c, "se", &error)) {
            grid_cell(&grid, "%.2g", error);
            grid_cell(&grid, "%.0f %%", 100 * fabs(error / value));
        } else {
            grid_text(&grid, "");
            grid_text(&grid, "");
        }
        interval_cell(&grid, c, "interval", NUMBER_PLAIN);
        grid_text(&grid, text_at(c, "label"));
    }
    grid_end(&grid);
}

static void terms(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"term", false, false}, {"mean nats", true, false},
        {"share", true, false}, {"least", true, false},
        {"most", true, false},  {"nats in the middle, 95 %", true, false}};
    json_t *const list = result_at(root, "terms");
    struct grid grid;
    if (json_array_size(list) == 0 || is_undetermined(root))
        return;
    page_heading(page, "Terms of the loss over the runs");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const term = json_array_get(list, i);
        grid_row(&grid);
        grid_text(&grid, text_at(term, "name"));
        grid_number(&grid, term, "nats", NUMBER_LOSS);
        grid_number(&grid, term, "share.mean", NUMBER_SHARE);
        grid_number(&grid, term, "share.low", NUMBER_SHARE);
        grid_number(&grid, term, "share.high", NUMBER_SHARE);
        interval_cell(&grid, term, "interval_at_centre", NUMBER_LOSS);
    }
    grid_end(&grid);
    json_t *const centre = result_at(root, "centre");
    char n[NUMBER_MAX], d[NUMBER_MAX];
    if (!centre)
        return;
    page_textf(page, "In the middle (N %s, D %s, S %.4f, G %.3g) the loss is %.4f nats%s",
               number_human(real_at(centre, "n_total"), NUMBER_COUNT, n),
               number_human(real_at(centre, "tokens"), NUMBER_COUNT, d),
               real_at(centre, "sparsity"), real_at(centre, "granularity"), real_at(centre, "loss"),
               result_at(centre, "interval") ? "," : ".");
    if (result_at(centre, "interval"))
        page_textf(page, "95 %% of refits %.4f to %.4f.", real_at(centre, "interval.low"),
                   real_at(centre, "interval.high"));
}

/* ---- the optimum ---- */

static void optimum_row(struct grid *grid, json_t *one, const char *name) {
    if (!one)
        return;
    grid_row(grid);
    grid_text(grid, name);
    grid_number(grid, one, "n_total", NUMBER_COUNT);
    grid_number(grid, one, "n_active", NUMBER_COUNT);
    grid_number(grid, one, "tokens", NUMBER_COUNT);
    grid_number(grid, one, "sparsity", NUMBER_RATIO);
    interval_cell(grid, one, "intervals.sparsity", NUMBER_RATIO);
    grid_number(grid, one, "loss", NUMBER_LOSS);
    interval_cell(grid, one, "intervals.loss", NUMBER_LOSS);
    grid_text(grid, json_is_true(result_at(one, "at_bound")) ? "at the bound" : "");
}

static void optimum(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"sparsity", false, false}, {"N", true, false},    {"active", true, false},
        {"tokens", true, false},    {"S", true, false},    {"95 %", true, false},
        {"loss", true, false},      {"95 %", true, false}, {"", false, false},
    };
    json_t *const found = result_at(root, "optimum");
    struct grid grid;
    if (!found)
        return;
    page_heading(page, "Compute optimum on an ideal machine");
    page_textf(page,
               "%.4g model FLOPs at granularity %.4g; any machine shifts it: see mosaic plan.",
               real_at(found, "model_flops"), real_at(found, "granularity"));
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    optimum_row(&grid, result_at(found, "bounded"), "within the runs");
    optimum_row(&grid, result_at(found, "free"), "free");
    grid_end(&grid);
}

/* ---- judged by other runs and forms ---- */

static void held_cells(struct grid *grid, json_t *held) {
    grid_number(grid, held, "fitted", NUMBER_PLAIN);
    grid_number(grid, held, "held", NUMBER_PLAIN);
    if (!result_at(held, "rms_log")) {
        grid_text(grid, "not determined");
        return;
    }
    grid_cell(grid, "%.5f", real_at(held, "rms_log"));
    grid_cell(grid, "%+.5f", real_at(held, "mean_log"));
    grid_cell(grid, "%.5f", real_at(held, "worst_log"));
    grid_number(grid, held, "worst_row", NUMBER_PLAIN);
}

static void cross_validation(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"held out", false, false}, {"fitted on", true, false}, {"held", true, false},
        {"rms", true, false},       {"mean", true, false},      {"worst", true, false},
        {"row", true, false},
    };
    json_t *const all = result_at(root, "cross_validation");
    json_t *const groups = result_at(all, "groups");
    char words[LABEL_MAX], value[NUMBER_MAX];
    struct grid grid;
    if (!all)
        return;
    (void)table_words(text_at(all, "left_out_by"), words);
    page_heading(page, "Runs that the fit has not seen (ln L, fitted minus observed)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    if (result_at(all, "largest")) {
        grid_row(&grid);
        grid_text(&grid, "largest of each granularity");
        held_cells(&grid, result_at(all, "largest"));
    }
    for (size_t i = 0; i < json_array_size(groups); i++) {
        json_t *const group = json_array_get(groups, i);
        grid_row(&grid);
        if (result_at(group, "name"))
            grid_cell(&grid, "%s %s", words, text_at(group, "name"));
        else
            grid_cell(&grid, "%s %s", words,
                      number_human(real_at(group, "value"), NUMBER_COUNT, value));
        held_cells(&grid, group);
    }
    grid_end(&grid);
}

static void forms(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"form", false, false}, {"parameters", true, false},   {"delta AIC", true, false},
        {"rms", true, false},   {"rms held out", true, false}, {"", false, true},
    };
    json_t *const list = result_at(root, "forms");
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Forms on the same runs (least squares of ln L)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const one = json_array_get(list, i);
        grid_row(&grid);
        grid_text(&grid, text_at(one, "form"));
        grid_number(&grid, one, "parameters", NUMBER_PLAIN);
        if (result_at(one, "delta_aic")) {
            grid_cell(&grid, "%.1f", real_at(one, "delta_aic"));
            grid_cell(&grid, "%.5f", real_at(one, "rms_log"));
        } else {
            grid_text(&grid, "");
            grid_text(&grid, "");
        }
        if (result_at(one, "held_out.rms_log"))
            grid_cell(&grid, "%.5f", real_at(one, "held_out.rms_log"));
        else
            grid_text(&grid, "");
        grid_text(&grid, text_at(one, "why_not"));
    }
    grid_end(&grid);
}

/* ---- details ---- */

static void search(struct page *page, json_t *root) {
    static const struct page_fact facts[] = {
        {"starts.tried", "starts", "", NUMBER_PLAIN},
        {"starts.reached", "reached the minimum", "to 1e-6 of the objective", NUMBER_PLAIN},
        {"objective", "objective", "sum of w rho(r)", NUMBER_PLAIN},
        {"ssr_log", "sum of squares", "of ln L, weighted", NUMBER_PLAIN},
        {"aic", "AIC", "", NUMBER_PLAIN},
        {"gradient_norm", "gradient", "largest cosine, 0 at a minimum", NUMBER_PLAIN},
        {"iterations", "iterations", "of all starts", NUMBER_PLAIN},
        {"condition", "condition", "largest over smallest singular value", NUMBER_PLAIN},
        {"bootstrap.kind", "bootstrap", "", NUMBER_PLAIN},
        {"bootstrap.draws", "refits", "", NUMBER_PLAIN},
        {"bootstrap.failed", "refits left out", "not converged", NUMBER_PLAIN},
    };
    page_facts(page, "Search", root, facts, COUNT_OF(facts));
}

/* "+0.86 ln e -0.38 ln c": what moves together. */
static void direction_text(json_t *parts, char text[DIRECTION_TEXT]) {
    size_t used = 0;
    const char *name;
    json_t *value;
    text[0] = '\0';
    json_object_foreach(parts, name, value) {
        const int n = snprintf(text + used, DIRECTION_TEXT - used, "%s%+.2f %s", used ? "  " : "",
                               json_number_value(value), name);
        if (n > 0 && (size_t)n < DIRECTION_TEXT - used)
            used += (size_t)n;
    }
}

static void directions(struct page *page, json_t *root) {
    static const struct page_column columns[] = {{"singular value", true, false},
                                                 {"direction (of ln)", false, false}};
    json_t *const list = result_at(root, "weak_directions");
    struct grid grid;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, "Weakest directions: moving along them hardly changes a loss");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const one = json_array_get(list, i);
        char text[DIRECTION_TEXT];
        direction_text(result_at(one, "direction"), text);
        grid_row(&grid);
        grid_cell(&grid, "%.3g", real_at(one, "singular_value"));
        grid_text(&grid, text);
    }
    grid_end(&grid);
}

/* What the user's own filter left out is no news: a warning counts it. */
static void excluded(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"row", true, false}, {"name", false, true}, {"reason", false, false}};
    json_t *const list = result_at(root, "excluded");
    size_t count = 0;
    struct grid grid;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const row = json_array_get(list, i);
        if (strcmp(text_at(row, "reason"), "filtered") == 0 || count++ >= ROWS_SHOWN)
            continue;
        if (count == 1) {
            page_heading(page, "Rows left out");
            grid_begin(&grid, page, columns, COUNT_OF(columns), true);
        }
        grid_row(&grid);
        grid_number(&grid, row, "row", NUMBER_PLAIN);
        grid_text(&grid, text_at(row, "name"));
        grid_text(&grid, text_at(row, "reason"));
    }
    if (count > 0)
        grid_end(&grid);
    if (count > ROWS_SHOWN)
        page_textf(page, "and %zu more; --format json lists all", count - (size_t)ROWS_SHOWN);
}

static int by_size(const void *a, const void *b) {
    json_t *const *const x = a, *const *const y = b;
    const double p = fabs(real_at(*x, "difference")), q = fabs(real_at(*y, "difference"));
    if (p > q || p < q)
        return p < q ? 1 : -1;
    return real_at(*x, "row") < real_at(*y, "row") ? -1 : 1;
}

static void residuals(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"row", true, false},    {"name", false, true},       {"observed", true, false},
        {"fitted", true, false}, {"difference", true, false},
    };
    json_t *const list = result_at(root, "residuals");
    const size_t count = json_array_size(list);
    json_t **const sorted = count > 0 ? calloc(count, sizeof(json_t *)) : NULL;
    struct grid grid;
    if (!sorted)
        return;
    for (size_t i = 0; i < count; i++)
        sorted[i] = json_array_get(list, i);
    qsort(sorted, count, sizeof(json_t *), by_size);
    page_heading(page, "Largest residuals (nats)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < count && i < LARGEST_RESIDUALS; i++) {
        grid_row(&grid);
        grid_number(&grid, sorted[i], "row", NUMBER_PLAIN);
        grid_text(&grid, text_at(sorted[i], "name"));
        grid_number(&grid, sorted[i], "observed", NUMBER_LOSS);
        grid_number(&grid, sorted[i], "fitted", NUMBER_LOSS);
        grid_cell(&grid, "%+.4f", real_at(sorted[i], "difference"));
    }
    grid_end(&grid);
    free(sorted);
}

static void settings(struct page *page, json_t *root) {
    json_t *const list = result_at(root, "settings");
    for (size_t i = 0; i < json_array_size(list); i++)
        page_textf(page, "%s", json_string_value(json_array_get(list, i)));
}

void table_fit(struct page *page, json_t *root) {
    summary(page, root);
    page_list(page, "Warnings", result_at(root, "warnings"));
    coefficients(page, root);
    terms(page, root);
    optimum(page, root);
    cross_validation(page, root);
    forms(page, root);
    excluded(page, root);
    residuals(page, root);
    directions(page, root);
    search(page, root);
    table_provenance(page, root);
    settings(page, root);
}
