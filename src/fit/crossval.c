// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Fits inside are quiet: their own diagnostics go into a list that nobody reads but for its first
 * error.
 */
#include "fit/crossval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double same_value = 1e-9; /* of logarithms */

static enum mosaic_status no_memory(struct diag_list *diags) {
    return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

/* ---- groups ---- */

size_t groups_by_variable(const struct fit_data *data, enum form_variable variable, size_t *group) {
    size_t groups = 0;
    for (size_t i = 0; i < data->count; i++) {
        group[i] = groups;
        for (size_t k = 0; k < i && group[i] == groups; k++)
            if (fabs(data->rows[k].x[variable] - data->rows[i].x[variable]) <= same_value)
                group[i] = group[k];
        groups += group[i] == groups;
    }
    return groups;
}

/* How many runs of the same granularity are larger, earlier rows first among equals. */
static size_t rank_of(const struct fit_data *data, size_t which, size_t *members) {
    size_t rank = 0;
    *members = 0;
    for (size_t i = 0; i < data->count; i++) {
        const struct form_point *p = &data->points[i], *q = &data->points[which];
        if (fabs(p->granularity - q->granularity) > same_value * q->granularity)
            continue;
        ++*members;
        rank += p->n_active > q->n_active || (i < which && p->n_active >= q->n_active);
    }
    return rank;
}

size_t hold_largest(const struct fit_data *data, double share, bool *is_held) {
    size_t count = 0;
    for (size_t i = 0; i < data->count; i++) {
        size_t members;
        const size_t rank = rank_of(data, i, &members);
        const double wanted = fmax(1, floor(share * (double)members));
        is_held[i] = members > 1 && (double)rank < wanted;
        count += is_held[i];
    }
    return count;
}

/* ---- hold-out ---- */

static void judge(const struct fit_data *data, const struct fit *fit, const bool *is_held,
                  struct held_out *result) {
    double squares = 0, sum = 0;
    result->is_fitted = true;
    for (size_t i = 0; i < data->count; i++) {
        if (!is_held[i])
            continue;
        const double r = fit_residual_of(data, fit, i);
        squares += r * r;
        sum += r;
        if (fabs(r) >= result->worst_log) {
            result->worst_log = fabs(r);
            result->worst_row = data->rows[i].row;
        }
    }
    result->rms_log = sqrt(squares / (double)result->held);
    result->mean_log = sum / (double)result->held;
}

enum mosaic_status hold_out(const struct fit_data *data, const struct fit_options *options,
                            struct pool *pool, const bool *is_held, struct held_out *out,
                            struct diag_list *diags) {
    enum mosaic_status status = MOSAIC_OK;
    struct held_out result = {.held = 0};
    struct fit_data *rest = NULL;
    bool *is_in = calloc(data->count + 1, sizeof *is_in);
    struct diag_list *quiet = calloc(1, sizeof *quiet);
    if (!is_in || !quiet) {
        status = no_memory(diags);
        goto out;
    }
    for (size_t i = 0; i < data->count; i++) {
        is_in[i] = !is_held[i];
        result.held += is_held[i];
    }
    result.fitted = data->count - result.held;
    if (result.held == 0 || result.fitted == 0) {
        status = diag_error(diags, NULL, "nothing to hold out, or nothing left: %zu of %zu runs",
                            result.held, data->count);
        goto out;
    }
    struct fit fit;
    TRY_GOTO(fit_data_subset(data, is_in, &rest, diags));
    if (fit_run(rest, options, pool, &fit, quiet) == MOSAIC_OK && fit.is_determined)
        judge(data, &fit, is_held, &result);
    *out = result;
out:
    fit_data_free(rest);
    free(is_in);
    free(quiet);
    return status;
}

enum mosaic_status leave_groups_out(const struct fit_data *data, const struct fit_options *options,
                                    struct pool *pool, const size_t *group, size_t groups,
                                    struct held_out *results, struct diag_list *diags) {
    enum mosaic_status status = MOSAIC_OK;
    bool *is_held = calloc(data->count + 1, sizeof *is_held);
    if (!is_held)
        return no_memory(diags);
    for (size_t g = 0; g < groups && status == MOSAIC_OK; g++) {
        for (size_t i = 0; i < data->count; i++)
            is_held[i] = group[i] == g;
        status = hold_out(data, options, pool, is_held, &results[g], diags);
    }
    free(is_held);
    return status;
}

/* ---- forms against each other ---- */

static void take_reason(const struct diag_list *quiet, struct contestant *one) {
    struct status_error err;
    if (diag_to_error(quiet, &err) != MOSAIC_OK)
        (void)snprintf(one->why_not, sizeof one->why_not, "%s", err.message);
}

static enum mosaic_status fit_contestant(const struct run_table *table,
                                         const struct fit_options *options, struct pool *pool,
                                         struct contestant *one, struct diag_list *diags) {
    enum mosaic_status status = MOSAIC_OK;
    struct diag_list *quiet = calloc(1, sizeof *quiet);
    bool *is_held = calloc(table->rows + 1, sizeof *is_held);
    struct fit_data *data = NULL;
    struct fit fit;
    struct fit_report report;
    struct status_error err;
    if (!quiet || !is_held) {
        status = no_memory(diags);
        goto out;
    }
    if (fit_data_create(form_of(one->kind), table->runs, table->rows, &data, quiet) != MOSAIC_OK ||
        fit_run(data, options, pool, &fit, quiet) != MOSAIC_OK) {
        take_reason(quiet, one);
        goto out;
    }
    one->parameters = fit.parameters;
    if (fit_report_make(data, &fit, &report, &err) != MOSAIC_OK || !report.has_quality) {
        (void)snprintf(one->why_not, sizeof one->why_not,
                       "undetermined: %zu runs, %zu coefficients", fit.rows, fit.parameters);
        goto out;
    }
    one->is_fitted = true;
    one->aic = report.aic;
    one->aicc = report.aicc;
    one->rms_log = report.rms_log;
    if (hold_largest(data, CROSSVAL_SHARE, is_held) > 0)
        status = hold_out(data, options, pool, is_held, &one->held, diags);
out:
    fit_data_free(data);
    free(quiet);
    free(is_held);
    return status;
}

enum mosaic_status compare_forms(const struct run_table *table, const enum form_kind *kinds,
                                 size_t count, const struct fit_options *options, struct pool *pool,
                                 struct contestant *results, struct diag_list *diags) {
    struct fit_options squares = *options;
    double best = (double)INFINITY;
    /* AIC compares likelihoods: one measure for all, and no coefficient by another form's index. */
    squares.measure = (struct fit_measure){.delta = (double)INFINITY};
    memset(&squares.fixed, 0, sizeof squares.fixed);
    for (size_t k = 0; k < count; k++) {
        memset(&results[k], 0, sizeof results[k]);
        results[k].kind = kinds[k];
        TRY(fit_contestant(table, &squares, pool, &results[k], diags));
        if (results[k].is_fitted)
            best = fmin(best, results[k].aic);
    }
    for (size_t k = 0; k < count; k++)
        if (results[k].is_fitted)
            results[k].delta_aic = results[k].aic - best;
    return MOSAIC_OK;
}
