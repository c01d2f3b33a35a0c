// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A variable is constant when it spans less than 2 % (no exponent shows over so little), and
 * follows others when a least-squares line through them leaves less than a millionth of its
 * variance.
 */
#include "fit/fit_data.h"

#include "fit/normal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double constant_span = 0.02;
static const double unexplained_share = 1e-6;

static enum mosaic_status no_memory(struct diag_list *diags) {
    return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

static struct fit_data *alloc_data(const struct form *form, size_t count) {
    struct fit_data *data = calloc(1, sizeof *data);
    if (!data)
        return NULL;
    data->form = form;
    data->rows = calloc(count + 1, sizeof *data->rows);
    data->points = calloc(count + 1, sizeof *data->points);
    if (!data->rows || !data->points) {
        fit_data_free(data);
        return NULL;
    }
    return data;
}

void fit_data_free(struct fit_data *data) {
    if (!data)
        return;
    free(data->rows);
    free(data->points);
    free(data);
}

/* ---- what varies ---- */

static int compare_x(const void *a, const void *b) {
    const struct fit_row *p = a, *q = b;
    for (size_t v = 0; v < FORM_VARIABLES; v++) {
        if (p->x[v] < q->x[v])
            return -1;
        if (p->x[v] > q->x[v])
            return 1;
    }
    return 0;
}

static bool count_distinct(struct fit_data *data) {
    struct fit_row *sorted = calloc(data->count + 1, sizeof *sorted);
    if (!sorted)
        return false;
    memcpy(sorted, data->rows, data->count * sizeof *sorted);
    qsort(sorted, data->count, sizeof *sorted, compare_x);
    data->distinct = data->count > 0;
    for (size_t i = 1; i < data->count; i++)
        data->distinct += compare_x(&sorted[i - 1], &sorted[i]) != 0;
    free(sorted);
    return true;
}

static void find_ranges(struct fit_data *data) {
    double weights = 0;
    for (size_t i = 0; i < data->count; i++)
        weights += data->rows[i].weight;
    for (size_t i = 0; i < data->count; i++) {
        struct fit_row *row = &data->rows[i];
        row->weight *= (double)data->count / weights;
        row->root_weight = sqrt(row->weight);
        data->mean_log_loss += row->log_loss / (double)data->count;
    }
    for (size_t v = 0; v < FORM_VARIABLES; v++) {
        double sum = 0;
        data->low[v] = data->high[v] = data->rows[0].x[v];
        for (size_t i = 0; i < data->count; i++) {
            sum += data->rows[i].x[v];
            data->low[v] = fmin(data->low[v], data->rows[i].x[v]);
            data->high[v] = fmax(data->high[v], data->rows[i].x[v]);
        }
        data->centre[v] = sum / (double)data->count;
        data->is_constant[v] = data->high[v] - data->low[v] <= constant_span;
    }
}

/* Share of the variance of v that a line through `others` leaves. */
static double unexplained(const struct fit_data *data, size_t v, const size_t *others,
                          size_t count) {
    struct normal normal;
    normal_init(&normal, count);
    for (size_t i = 0; i < data->count; i++) {
        double column[NORMAL_MAX];
        for (size_t k = 0; k < count; k++)
            column[k] = data->rows[i].x[others[k]] - data->centre[others[k]];
        normal_add(&normal, column, data->rows[i].x[v] - data->centre[v], 1);
    }
    double solution[NORMAL_MAX];
    if (!normal_solve(&normal, (1U << count) - 1, solution))
        return 1;
    return normal_residual(&normal, solution) / normal.target_square;
}

static void find_dependence(struct fit_data *data) {
    for (size_t v = 0; v < FORM_VARIABLES; v++) {
        size_t others[FORM_VARIABLES], count = 0;
        data->alias[v] = (enum form_variable)v;
        if (!data->form->variable[v] || data->is_constant[v])
            continue;
        for (size_t w = 0; w < v; w++) {
            if (!data->form->variable[w] || data->is_constant[w] || data->alias[w] != w)
                continue;
            if (data->alias[v] == v && unexplained(data, v, &w, 1) < unexplained_share)
                data->alias[v] = (enum form_variable)w;
            others[count++] = w;
        }
        data->is_dependent[v] = data->alias[v] == v && count > 1 &&
                                unexplained(data, v, others, count) < unexplained_share;
    }
}

static enum mosaic_status finish(struct fit_data *data, struct fit_data **out,
                                 struct diag_list *diags) {
    if (data->count == 0) {
        fit_data_free(data);
        return diag_error(diags, NULL, "no run to fit");
    }
    if (!count_distinct(data)) {
        fit_data_free(data);
        return no_memory(diags);
    }
    find_ranges(data);
    find_dependence(data);
    *out = data;
    return MOSAIC_OK;
}

/* ---- making ---- */

enum mosaic_status fit_data_create(const struct form *form, const struct run *runs, size_t count,
                                   struct fit_data **out, struct diag_list *diags) {
    struct fit_data *data = alloc_data(form, count);
    enum mosaic_status status = MOSAIC_OK;
    if (!data)
        return no_memory(diags);
    for (size_t i = 0; i < count; i++) {
        struct fit_row *row = &data->rows[data->count];
        struct status_error err;
        if (runs[i].fate != RUN_USED)
            continue;
        status = form_variables(form, &runs[i].point, row->x, &err);
        if (status == MOSAIC_OK && !(runs[i].loss > 0 && isfinite(runs[i].loss)))
            status = status_set(&err, MOSAIC_BAD_INPUT, "loss is %g", runs[i].loss);
        if (status == MOSAIC_OK && !(runs[i].weight > 0 && isfinite(runs[i].weight)))
            status = status_set(&err, MOSAIC_BAD_INPUT, "weight is %g", runs[i].weight);
        if (status != MOSAIC_OK) {
            status_wrap(&err, "row %zu", runs[i].row);
            (void)diag_from_error(diags, NULL, &err);
            fit_data_free(data);
            return status;
        }
        row->log_loss = log(runs[i].loss);
        row->weight = runs[i].weight;
        row->row = runs[i].row;
        data->points[data->count++] = runs[i].point;
    }
    return finish(data, out, diags);
}

enum mosaic_status fit_data_subset(const struct fit_data *data, const bool *is_in,
                                   struct fit_data **out, struct diag_list *diags) {
    struct fit_data *subset = alloc_data(data->form, data->count);
    if (!subset)
        return no_memory(diags);
    for (size_t i = 0; i < data->count; i++) {
        if (!is_in[i])
            continue;
        subset->rows[subset->count] = data->rows[i];
        subset->points[subset->count++] = data->points[i];
    }
    return finish(subset, out, diags);
}

enum mosaic_status fit_data_copy(const struct fit_data *data, struct fit_data **out,
                                 struct status_error *err) {
    struct fit_data *copy = alloc_data(data->form, data->count);
    if (!copy)
        return status_no_memory(err);
    struct fit_row *rows = copy->rows;
    struct form_point *points = copy->points;
    memcpy(rows, data->rows, data->count * sizeof *rows);
    memcpy(points, data->points, data->count * sizeof *points);
    *copy = *data;
    copy->rows = rows;
    copy->points = points;
    *out = copy;
    return MOSAIC_OK;
}
