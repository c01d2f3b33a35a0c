// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The report of a plan, in the order a reader decides: what to train and how, why, what it costs
 * in time and memory, what the loss is made of, how it compares with the ideal machine, what comes
 * next best, and what proves it.
 */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

enum { ALTERNATIVES_SHOWN = 10, WIDE = 112, NARROW = 90 };

static const char *human(json_t *object, const char *key, enum number_unit unit,
                         char out[NUMBER_MAX]) {
    double value;
    if (!result_real(object, key, &value))
        return "?";
    return number_human(value, unit, out);
}

static void headline_setting(struct page *page, json_t *root) {
    char nodes[NUMBER_MAX];
    char gpus[NUMBER_MAX];
    char days[NUMBER_MAX];
    const char *const cluster = result_text(root, "cluster.name");
    const char *const estimator = result_text(root, "estimator");
    if (!result_at(root, "cluster.nodes"))
        return;
    double count = 0.0;
    const bool is_one = result_real(root, "cluster.nodes", &count) && count < 2.0;
    page_textf(page, "For %s node%s of %s (%s GPUs)%s%s; estimator %s.",
               human(root, "cluster.nodes", NUMBER_PLAIN, nodes), is_one ? "" : "s",
               cluster ? cluster : "the cluster", human(root, "cluster.gpus", NUMBER_PLAIN, gpus),
               result_at(root, "budget.days") ? " over " : "",
               result_at(root, "budget.days") ? human(root, "budget.days", NUMBER_DAYS, days) : "",
               estimator ? estimator : "default");
}

/* What an objective is measured in. */
struct outcome {
    const char *objective, *name, *label, *unit, *gap;
    enum number_unit number;
};

static const struct outcome *outcome_of(json_t *root) {
    static const struct outcome outcomes[] = {
        {"loss", "loss", "Loss", "nats", "gap_nats", NUMBER_LOSS},
        {"time", "days", "Days to the target", "days", "gap_days", NUMBER_PLAIN},
        {"cost", "cost_usd", "USD to the target", "USD", "gap_usd", NUMBER_PLAIN},
        {"cost", "gpu_hours", "GPU-hours to the target", "GPU-hours", "gap_gpu_hours",
         NUMBER_PLAIN},
        {"tokens", "tokens", "Tokens", "tokens", "gap_tokens", NUMBER_COUNT},
    };
    const char *const objective = result_text(root, "objective");
    json_t *const best = result_at(root, "best");
    for (size_t i = 0; objective && i < COUNT_OF(outcomes); i++)
        if (strcmp(outcomes[i].objective, objective) == 0 &&
            json_object_get(best, outcomes[i].name))
            return &outcomes[i];
    return &outcomes[0];
}

static bool is_loss(const struct outcome *outcome) {
    return strcmp(outcome->name, "loss") == 0;
}

static void headline_spent(struct page *page, json_t *best) {
    char days[NUMBER_MAX], hours[NUMBER_MAX], cost[NUMBER_MAX];
    double spent_hours, spent_usd = 0.0;
    const bool has_cost = result_real(best, "cost_usd", &spent_usd);
    if (result_real(best, "gpu_hours", &spent_hours))
        page_textf(page, "It takes %s: %s GPU-hours%s%s%s.", human(best, "days", NUMBER_DAYS, days),
                   number_fixed(spent_hours, 0, hours), has_cost ? ", " : "",
                   has_cost ? number_fixed(spent_usd, 0, cost) : "", has_cost ? " USD" : "");
}

static void headline_model(struct page *page, json_t *best) {
    char total[NUMBER_MAX];
    char active[NUMBER_MAX];
    char sparsity[NUMBER_MAX];
    char tokens[NUMBER_MAX];
    char loss[NUMBER_MAX];
    char shape[LABEL_MAX];
    page_textf(page,
               "Train %s with %s total and %s active parameters (law's count; sparsity %s) on %s "
               "tokens: predicted loss %s nats per token.",
               table_geometry_text(result_at(best, "geometry"), shape),
               human(best, "geometry.n_total_law", NUMBER_COUNT, total),
               human(best, "geometry.n_active_law", NUMBER_COUNT, active),
               human(best, "geometry.sparsity", NUMBER_RATIO, sparsity),
               human(best, "tokens", NUMBER_COUNT, tokens), human(best, "loss", NUMBER_LOSS, loss));
}

static void headline_layout(struct page *page, json_t *best) {
    char step[NUMBER_MAX];
    char mfu[NUMBER_MAX];
    char layout[LABEL_MAX];
    const char *const precision = result_text(best, "layout.precision");
    page_textf(page, "Lay it out as %s: %s a step at MFU %s (causal, no recompute, dense %s peak).",
               table_layout_text(result_at(best, "layout"), layout),
               human(best, "prediction.step_time_s", NUMBER_TIME, step),
               human(best, "prediction.mfu", NUMBER_SHARE, mfu), precision ? precision : "stated");
}

static void headline_status(struct page *page, json_t *root) {
    const char *const status = result_text(root, "status");
    char gap[NUMBER_MAX];
    if (!status)
        return;
    if (strcmp(status, "optimal") == 0)
        page_text(page, "",
                  "Proved: nothing in the declared space is better under this model and law.");
    else if (strcmp(status, "limit") == 0 || strcmp(status, "interrupted") == 0) {
        const struct outcome *const outcome = outcome_of(root);
        json_t *const proof = result_at(root, "proof");
        if (result_at(proof, outcome->gap))
            page_textf(page,
                       "Not proved (%s): the best found so far, within %s of the optimum: %s.",
                       status, outcome->unit, human(proof, outcome->gap, outcome->number, gap));
        else
            page_textf(page,
                       "Not proved (%s): the best found so far, at an unknown distance from the "
                       "optimum.",
                       status);
    }
}

static void headline(struct page *page, json_t *root) {
    json_t *const best = result_at(root, "best");
    if (!best)
        return;
    page_heading(page, "Plan");
    headline_model(page, best);
    headline_layout(page, best);
    headline_spent(page, best);
    headline_setting(page, root);
    json_t *const why = result_at(root, "why");
    for (size_t i = 0; i < json_array_size(why); i++)
        page_text(page, "", json_string_value(json_array_get(why, i)));
    headline_status(page, root);
}

void table_infeasible(struct page *page, const char *heading, json_t *root) {
    json_t *const reason = result_at(root, "infeasible");
    static const struct page_fact facts[] = {
        {"limit", "binding limit", "", NUMBER_PLAIN},
        {"minimum_gpus", "minimum GPUs", "", NUMBER_PLAIN},
        {"minimum_nodes", "minimum nodes", "", NUMBER_PLAIN},
        {"gpus_tried", "GPUs tried", "and up to this count none fits", NUMBER_PLAIN},
        {"days_needed", "days needed", "", NUMBER_DAYS},
        {"needed_bytes", "memory needed", "per GPU, smallest layout", NUMBER_MEMORY},
        {"capacity_bytes", "memory usable", "per GPU", NUMBER_MEMORY},
        {"host_needed_bytes", "host memory needed", "per node", NUMBER_MEMORY},
        {"host_capacity_bytes", "host memory", "per node", NUMBER_MEMORY},
    };
    if (!reason)
        return;
    page_heading(page, heading);
    const char *const message = result_text(reason, "message");
    if (message)
        page_text(page, "", message);
    page_facts(page, NULL, reason, facts, COUNT_OF(facts));
    page_list(page, "What would help", result_at(reason, "changes"));
}

/* Room for every column. */
static bool is_wide(const struct page *page) {
    return page->width == 0 || page->width >= WIDE;
}

/* One row: a model with its own count keys, whether nested in `geometry` or not. */
static void optimum_row(struct grid *grid, const char *name, json_t *point) {
    const bool wide = is_wide(grid->page);
    json_t *const geometry = result_at(point, "geometry");
    json_t *const shape = geometry ? geometry : point;
    if (!point)
        return;
    grid_row(grid);
    grid_text(grid, name);
    grid_number(grid, wide ? shape : NULL, geometry ? "n_total_law" : "n_total", NUMBER_COUNT);
    grid_number(grid, shape, geometry ? "n_active_law" : "n_active", NUMBER_COUNT);
    grid_number(grid, shape, "sparsity", NUMBER_RATIO);
    grid_number(grid, shape, "granularity", NUMBER_PLAIN);
    grid_number(grid, point, "tokens", NUMBER_COUNT);
    grid_number(grid, wide ? point : NULL, "model_flops", NUMBER_FLOP);
    grid_number(grid, point, "prediction.mfu", NUMBER_SHARE);
    grid_number(grid, point, "loss", NUMBER_LOSS);
    grid_number(grid, point, "loss_deliverable", NUMBER_LOSS);
}

static void optima(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"", false, false},           {"N", true, false},   {"N active", true, false},
        {"S", true, false},           {"G", true, false},   {"tokens", true, false},
        {"model FLOPs", true, false}, {"MFU", true, false}, {"loss", true, false},
        {"loss here", true, false},
    };
    struct grid grid;
    if (!result_at(root, "compute_optimal") && !result_at(root, "most_model_flops"))
        return;
    page_heading(page, "This cluster's optimum beside the ideal machine's (law's count)");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    optimum_row(&grid, "this plan", result_at(root, "best"));
    optimum_row(&grid, "most model FLOPs here", result_at(root, "most_model_flops"));
    optimum_row(&grid, "ideal, declared grid", result_at(root, "compute_optimal.grid"));
    optimum_row(&grid, "ideal, S bounded", result_at(root, "compute_optimal.continuous.bounded"));
    optimum_row(&grid, "ideal, S free", result_at(root, "compute_optimal.continuous.free"));
    grid_end(&grid);
}

/* The best of a list by a key: the least, of tokens the most. */
static bool best_of(json_t *list, const char *key, bool is_most, double *best) {
    bool known = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        double value;
        if (result_real(json_array_get(list, i), key, &value) &&
            (!known || (is_most ? value > *best : value < *best))) {
            *best = value;
            known = true;
        }
    }
    return known;
}

static void sparsity_curve(struct page *page, json_t *root) {
    static const struct page_column columns[] = {{"S", true, false},
                                                 {"ideal machine", true, false},
                                                 {"this cluster", true, false},
                                                 {"MFU", true, false},
                                                 {"", false, false}};
    json_t *const curve = result_at(root, "sparsity_curve");
    const struct outcome *const outcome = outcome_of(root);
    const bool is_most = strcmp(outcome->name, "tokens") == 0;
    char key[LABEL_MAX], heading[LABEL_MAX];
    if (json_array_size(curve) == 0)
        return;
    (void)snprintf(key, sizeof key, "%s_deliverable", outcome->name);
    (void)snprintf(heading, sizeof heading,
                   is_loss(outcome)
                       ? "%s by sparsity: at equal model FLOPs, and delivered in the budget"
                       : "%s by sparsity, beside the loss at equal model FLOPs",
                   outcome->label);
    double best = 0;
    const bool known = best_of(curve, key, is_most, &best);
    struct grid grid;
    page_heading(page, heading);
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(curve); i++) {
        json_t *const point = json_array_get(curve, i);
        double value;
        grid_row(&grid);
        grid_number(&grid, point, "sparsity", NUMBER_RATIO);
        grid_number(&grid, point, "loss_model_flops", NUMBER_LOSS);
        grid_number(&grid, point, key, outcome->number);
        grid_number(&grid, point, "mfu", NUMBER_SHARE);
        const bool has =
            known && result_real(point, key, &value) && (is_most ? value >= best : value <= best);
        grid_text(&grid, !has ? "" : is_most ? "<- most" : "<- least");
    }
    grid_end(&grid);
}

/* How far a row is behind the best, in what is asked for. */
static void behind_cell(struct grid *grid, json_t *row, const struct outcome *outcome,
                        json_t *root) {
    char number[NUMBER_MAX];
    double value, best = 0;
    const bool is_most = strcmp(outcome->name, "tokens") == 0;
    (void)result_real(result_at(root, "best"), outcome->name, &best);
    if (result_real(row, outcome->name, &value))
        grid_text(grid,
                  number_human(is_most ? best - value : value - best, outcome->number, number));
    else
        grid_text(grid, "");
}

static void ranking(struct page *page, const char *heading, json_t *list, json_t *root) {
    const struct outcome *const outcome = outcome_of(root);
    char behind[LABEL_MAX];
    (void)snprintf(behind, sizeof behind, "%s%s", strcmp(outcome->name, "tokens") == 0 ? "-" : "+",
                   outcome->unit);
    const struct page_column columns[] = {
        {"#", true, false},       {"model", false, false}, {"N", true, false},
        {"active", true, false},  {"S", true, false},      {"tokens", true, false},
        {"epochs", true, false},  {"loss", true, false},   {outcome->unit, true, false},
        {behind, true, false},    {"MFU", true, false},    {"step", true, false},
        {"layout", false, false},
    };
    const bool has_own = !is_loss(outcome) && strcmp(outcome->name, "tokens") != 0;
    struct grid grid;
    const bool wide = is_wide(page);
    const bool narrow = page->width > 0 && page->width < NARROW;
    if (json_array_size(list) == 0)
        return;
    page_heading(page, heading);
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list) && i < ALTERNATIVES_SHOWN; i++) {
        json_t *const row = json_array_get(list, i);
        char text[LABEL_MAX];
        grid_row(&grid);
        grid_number(&grid, row, "rank", NUMBER_PLAIN);
        grid_text(&grid, table_geometry_text(result_at(row, "geometry"), text));
        grid_number(&grid, wide ? row : NULL, "geometry.n_total_law", NUMBER_COUNT);
        grid_number(&grid, row, "geometry.n_active_law", NUMBER_COUNT);
        grid_number(&grid, row, "geometry.sparsity", NUMBER_RATIO);
        grid_number(&grid, wide ? row : NULL, "tokens", NUMBER_COUNT);
        grid_number(&grid, row, "epochs", NUMBER_PLAIN);
        grid_number(&grid, row, "loss", NUMBER_LOSS);
        grid_number(&grid, has_own && !narrow ? row : NULL, outcome->name, outcome->number);
        behind_cell(&grid, row, outcome, root);
        grid_number(&grid, narrow ? NULL : row, "prediction.mfu", NUMBER_SHARE);
        grid_number(&grid, wide ? row : NULL, "prediction.step_time_s", NUMBER_TIME);
        grid_text(&grid, table_layout_short(result_at(row, "layout"), list, text));
    }
    grid_end(&grid);
}

/* elasticities.mfu.n_total: d ln MFU / d ln N, fitted to the plans around the best. */
static void elasticity_rows(struct grid *grid, const char *quantity, json_t *by) {
    static const struct {
        const char *key, *label;
    } variables[] = {{"n_total", "total parameters N"},
                     {"one_minus_sparsity", "active share 1 - S"},
                     {"granularity", "granularity G"}};
    char of[LABEL_MAX];
    for (size_t i = 0; i < COUNT_OF(variables); i++) {
        double value;
        if (!result_real(by, variables[i].key, &value))
            continue;
        grid_row(grid);
        grid_text(grid, table_words(quantity, of));
        grid_text(grid, variables[i].label);
        grid_cell(grid, "%+.3f", value);
    }
}

static void elasticities(struct page *page, json_t *root) {
    static const struct page_column columns[] = {
        {"of", false, false}, {"in", false, false}, {"d ln / d ln", true, false}};
    json_t *const all = result_at(root, "elasticities");
    const char *quantity;
    json_t *by;
    struct grid grid;
    if (json_object_size(all) == 0)
        return;
    page_heading(page, "Elasticities at the plan");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    json_object_foreach(all, quantity, by) {
        elasticity_rows(&grid, quantity, by);
    }
    grid_end(&grid);
    char count[NUMBER_MAX];
    char rms[NUMBER_MAX];
    if (result_at(all, "mfu.neighbours"))
        page_textf(page, "fitted to the %s nearest plans, rms %s in ln",
                   human(all, "mfu.neighbours", NUMBER_PLAIN, count),
                   human(all, "mfu.rms", NUMBER_RATIO, rms));
}

static void interval_row(struct grid *grid, const char *name, json_t *interval,
                         enum number_unit unit) {
    grid_row(grid);
    grid_text(grid, name);
    grid_number(grid, interval, "low", unit);
    grid_number(grid, interval, "middle", unit);
    grid_number(grid, interval, "high", unit);
}

static void law_winners(struct page *page, json_t *list, const struct outcome *outcome) {
    char key[LABEL_MAX], behind[LABEL_MAX];
    (void)snprintf(key, sizeof key, "%s_above_best", outcome->name);
    (void)snprintf(behind, sizeof behind, "+%s", outcome->unit);
    const struct page_column columns[] = {{"model", false, false},
                                          {"draws won", true, false},
                                          {"S", true, false},
                                          {behind, true, false},
                                          {"", false, false}};
    struct grid grid;
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const row = json_array_get(list, i);
        const char *const model = result_text(row, "geometry");
        grid_row(&grid);
        grid_text(&grid, model ? model : "");
        grid_number(&grid, row, "share", NUMBER_SHARE);
        grid_number(&grid, row, "sparsity", NUMBER_RATIO);
        grid_number(&grid, row, key, outcome->number);
        grid_text(&grid, json_is_true(result_at(row, "near_tie")) ? "near tie"
                         : json_is_true(result_at(row, "plan"))   ? "this plan"
                                                                  : "");
    }
    grid_end(&grid);
}

/* The best plan of each draw of the law. */
static void law_uncertainty(struct page *page, json_t *law, const struct outcome *outcome) {
    static const struct page_column columns[] = {{"", false, false},
                                                 {"2.5 %", true, false},
                                                 {"median", true, false},
                                                 {"97.5 %", true, false}};
    struct grid grid;
    char share[NUMBER_MAX];
    double regret = 0;
    if (!law)
        return;
    page_heading(page, "The best plan under other laws that the runs allow");
    grid_begin(&grid, page, columns, COUNT_OF(columns), true);
    interval_row(&grid, "sparsity", result_at(law, "sparsity"), NUMBER_RATIO);
    interval_row(&grid, "tokens", result_at(law, "tokens"), NUMBER_COUNT);
    if (strcmp(outcome->name, "tokens") != 0)
        interval_row(&grid, is_loss(outcome) ? "loss" : outcome->unit,
                     result_at(law, outcome->name), outcome->number);
    grid_end(&grid);
    char key[LABEL_MAX];
    (void)snprintf(key, sizeof key, "regret%s", outcome->gap + strlen("gap"));
    if (result_real(law, key, &regret))
        page_textf(page, "This plan wins %s of the draws; its expected regret is %.2g %s.",
                   human(law, "share_of_plan", NUMBER_SHARE, share), regret, outcome->unit);
    law_winners(page, result_at(law, "winners"), outcome);
}

void table_plan(struct page *page, json_t *root) {
    json_t *const best = result_at(root, "best");
    json_t *const prediction = result_at(best, "prediction");
    headline(page, root);
    table_infeasible(page, "No feasible plan", root);
    page_list(page, "Warnings", result_at(root, "warnings"));
    table_geometry(page, result_at(best, "geometry"), true);
    table_layout(page, result_at(best, "layout"));
    table_rates(page, prediction);
    table_time_split(page, prediction);
    table_memory(page, prediction, false);
    table_loss_terms(page, result_text(root, "law.name"), result_at(best, "loss_terms"));
    optima(page, root);
    sparsity_curve(page, root);
    ranking(page, "Best models, each with its best layout", result_at(root, "alternatives"), root);
    ranking(page, "Near ties", result_at(root, "near_ties"), root);
    table_fleet(page, root);
    elasticities(page, root);
    table_sensitivity(page, root);
    table_any(page, "Uncertainty", result_at(root, "uncertainty"));
    law_uncertainty(page, result_at(root, "uncertainty.law"), outcome_of(root));
    table_decision(page, root);
    table_any(page, "Proof", result_at(root, "proof"));
    table_lookups(page, prediction);
    table_provenance(page, root);
}
