// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The Jacobian is taken in a frame centred on x = 0, where the parameters are the logarithms of the
 * coefficients themselves; its SVD carries the condition that the coefficients have.
 */
#include "fit/fit_report.h"

#include <gsl/gsl_linalg.h>
#include <math.h>
#include <string.h>

static const double identified_below = 0.15, weak_below = 0.40; /* relative standard error */
static const double lost_singular = 1e-9; /* of the largest: nothing holds that direction */

const char *fit_label_text(enum fit_label label) {
    static const char *const texts[] = {
        [FIT_IDENTIFIED] = "identified",     [FIT_WEAK] = "weak",   [FIT_RIDGE] = "ridge",
        [FIT_UNDETERMINED] = "undetermined", [FIT_GIVEN] = "fixed", [FIT_DROPPED] = "dropped"};
    return texts[label];
}

double fit_residual_of(const struct fit_data *data, const struct fit *fit, size_t i) {
    return fit_log_loss(fit, data->rows[i].x) - data->rows[i].log_loss;
}

/* ---- shares and quality ---- */

static void take_shares(const struct fit_data *data, const struct fit *fit,
                        struct fit_report *report) {
    const size_t terms = fit->model.frame.form->terms;
    for (size_t i = 0; i < data->count; i++) {
        double nats[FORM_MAX_TERMS], sum = 0;
        form_terms(&fit->model.frame, fit->model.u, data->rows[i].x, nats);
        for (size_t k = 0; k < terms; k++)
            sum += nats[k];
        for (size_t k = 0; k < terms; k++) {
            struct fit_share *share = &report->share[k];
            const double part = nats[k] / sum;
            share->low = i == 0 ? part : fmin(share->low, part);
            share->high = fmax(share->high, part);
            share->mean += part / (double)data->count;
            share->nats += nats[k] / (double)data->count;
        }
    }
}

static void take_quality(const struct fit_data *data, const struct fit *fit,
                         struct fit_report *report) {
    const double n = (double)data->count, p = (double)fit->parameters;
    double mean = 0, squares = 0, log_squares = 0, spread = 0;
    for (size_t i = 0; i < data->count; i++)
        mean += data->rows[i].weight * exp(data->rows[i].log_loss) / n;
    for (size_t i = 0; i < data->count; i++) {
        const struct fit_row *row = &data->rows[i];
        const double loss = exp(row->log_loss), fitted = fit_log_loss(fit, row->x);
        log_squares += row->weight * (fitted - row->log_loss) * (fitted - row->log_loss);
        squares += row->weight * (exp(fitted) - loss) * (exp(fitted) - loss);
        spread += row->weight * (loss - mean) * (loss - mean);
    }
    report->has_quality = fit->is_determined && data->count > fit->parameters + 2 && spread > 0 &&
                          log_squares > 0 && isfinite(spread) && isfinite(squares) &&
                          isfinite(log_squares);
    if (!report->has_quality)
        return;
    report->r2 = 1 - squares / spread;
    report->rms_log = sqrt(log_squares / n);
    report->rms_loss = sqrt(squares / n);
    report->sigma = sqrt(log_squares / (n - p));
    /* sigma is a parameter as well */
    report->aic = n * log(log_squares / n) + 2 * (p + 1);
    report->aicc = report->aic + 2 * (p + 1) * (p + 2) / (n - p - 2);
}

/* ---- singular values ---- */

struct basis {
    struct form_frame frame; /* centred on x = 0 */
    double u[FORM_MAX_COEFFICIENTS];
    size_t at[FORM_MAX_COEFFICIENTS], count;
    gsl_matrix *jacobian, *v;
    gsl_vector *singular, *work;
};

static void basis_free(struct basis *basis) {
    gsl_matrix_free(basis->jacobian);
    gsl_matrix_free(basis->v);
    gsl_vector_free(basis->singular);
    gsl_vector_free(basis->work);
}

static bool basis_init(struct basis *basis, const struct fit_data *data, const struct fit *fit) {
    memset(basis, 0, sizeof *basis);
    basis->frame = fit->model.frame;
    memset(basis->frame.centre, 0, sizeof basis->frame.centre);
    form_to_parameters(&basis->frame, fit->coefficient, basis->u);
    for (size_t i = 0; i < fit->model.frame.form->coefficients; i++)
        if (fit->model.is_free[i])
            basis->at[basis->count++] = i;
    if (basis->count == 0)
        return true;
    basis->jacobian = gsl_matrix_alloc(data->count, basis->count);
    basis->v = gsl_matrix_alloc(basis->count, basis->count);
    basis->singular = gsl_vector_alloc(basis->count);
    basis->work = gsl_vector_alloc(basis->count);
    return basis->jacobian && basis->v && basis->singular && basis->work;
}

static bool decompose(struct basis *basis, const struct fit_data *data,
                      const struct fit_measure *measure) {
    struct form_at at;
    form_at_init(&at, &basis->frame, basis->u);
    for (size_t i = 0; i < data->count; i++) {
        double gradient[FORM_MAX_COEFFICIENTS];
        const double log_fit = form_at_log_loss(&at, data->rows[i].x, gradient);
        const double scale = data->rows[i].root_weight * (measure->is_plain ? exp(log_fit) : 1);
        for (size_t j = 0; j < basis->count; j++) {
            const double value = scale * gradient[basis->at[j]];
            if (!isfinite(value))
                return false;
            gsl_matrix_set(basis->jacobian, i, j, value);
        }
    }
    return gsl_linalg_SV_decomp(basis->jacobian, basis->v, basis->singular, basis->work) ==
           GSL_SUCCESS;
}

static void take_directions(const struct basis *basis, struct fit_report *report) {
    const size_t count = basis->count;
    for (size_t k = 0; k < count; k++)
        report->singular[k] = gsl_vector_get(basis->singular, k);
    if (count > 0 && report->singular[count - 1] > 0)
        report->condition = report->singular[0] / report->singular[count - 1];
    report->weakest_count = count < FIT_WEAKEST ? count : FIT_WEAKEST;
    for (size_t w = 0; w < report->weakest_count; w++)
        for (size_t j = 0; j < count; j++)
            report->weakest[w][basis->at[j]] = gsl_matrix_get(basis->v, j, count - 1 - w);
}

static void take_covariance(const struct basis *basis, double variance, struct fit_report *report) {
    for (size_t k = 0; k < basis->count; k++) {
        const double inverse = 1 / gsl_vector_get(basis->singular, k);
        for (size_t i = 0; i < basis->count; i++)
            for (size_t j = 0; j < basis->count; j++)
                report->covariance[basis->at[i]][basis->at[j]] += variance * inverse * inverse *
                                                                  gsl_matrix_get(basis->v, i, k) *
                                                                  gsl_matrix_get(basis->v, j, k);
    }
}

/* ---- coefficients ---- */

static double error_of(const struct basis *basis, const struct fit_report *report, size_t which) {
    double gradient[FORM_MAX_COEFFICIENTS], sum = 0;
    const size_t count = basis->frame.form->coefficients;
    form_coefficient_gradient(&basis->frame, basis->u, which, gradient);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (fabs(report->covariance[i][j]) > 0)
                sum += gradient[i] * report->covariance[i][j] * gradient[j];
    return sqrt(fmax(sum, 0));
}

/* clark's E_start is made of two parameters; by its own it is as free as the first. */
static bool is_dropped(const struct fit *fit, size_t i) {
    for (size_t d = 0; d < fit->drops.count; d++)
        if (fit->drops.items[d].coefficient == i)
            return true;
    return !(fabs(fit->coefficient[i]) > 0);
}

static void label_coefficients(const struct basis *basis, const struct fit *fit, bool is_held,
                               struct fit_report *report) {
    const struct form *form = fit->model.frame.form;
    const bool has_errors = is_held && !isfinite(fit->measure.delta);
    for (size_t i = 0; i < form->coefficients; i++) {
        struct fit_coefficient *c = &report->coefficient[i];
        c->value = fit->coefficient[i];
        c->label = FIT_UNDETERMINED;
        if (!fit->model.is_free[i]) {
            c->label = is_dropped(fit, i) ? FIT_DROPPED : FIT_GIVEN;
            continue;
        }
        if (!is_held)
            continue;
        const double error = error_of(basis, report, i);
        const double relative = error / fabs(c->value);
        if (!isfinite(relative))
            continue;
        c->has_error = has_errors;
        c->error = has_errors ? error : 0;
        c->label = relative < identified_below ? FIT_IDENTIFIED
                   : relative < weak_below     ? FIT_WEAK
                                               : FIT_RIDGE;
    }
}

enum mosaic_status fit_report_make(const struct fit_data *data, const struct fit *fit,
                                   struct fit_report *out, struct status_error *err) {
    struct fit_report report;
    struct basis basis;
    memset(&report, 0, sizeof report);
    if (!basis_init(&basis, data, fit)) {
        basis_free(&basis);
        return status_no_memory(err);
    }
    if (basis.count > 0 && !decompose(&basis, data, &fit->measure)) {
        basis_free(&basis);
        return status_set(err, MOSAIC_NUMERIC, "the fit's sensitivities are not finite");
    }
    if (fit->model.frame.form->terms > 0)
        take_shares(data, fit, &report);
    take_quality(data, fit, &report);
    take_directions(&basis, &report);
    const bool is_held = report.has_quality && basis.count > 0 &&
                         report.singular[basis.count - 1] > lost_singular * report.singular[0];
    if (is_held)
        take_covariance(
            &basis,
            2 *
                fit_objective(data, &(struct fit_measure){fit->measure.is_plain, (double)INFINITY},
                              &fit->model) /
                (double)(data->count - fit->parameters),
            &report);
    label_coefficients(&basis, fit, is_held, &report);
    basis_free(&basis);
    *out = report;
    return MOSAIC_OK;
}

/* ---- as a law ---- */

static double coefficient_named(const struct fit *fit, const char *name) {
    const int i = form_coefficient_index(fit->model.frame.form, name);
    return i < 0 ? 0 : fit->coefficient[i];
}

static void widen(struct law_range *range, double value, bool is_first) {
    range->min = is_first ? value : fmin(range->min, value);
    range->max = is_first ? value : fmax(range->max, value);
}

enum mosaic_status fit_to_law(const struct fit_data *data, const struct fit *fit, const char *name,
                              struct law *out, struct status_error *err) {
    const struct form *form = fit->model.frame.form;
    const bool is_chinchilla = form->kind == FORM_CHINCHILLA;
    if (form->kind == FORM_KRAJEWSKI || form->kind == FORM_CLARK)
        return status_set(err, MOSAIC_BAD_INPUT, "a law of the %s form cannot plan", form->name);
    struct law law = {
        .a = coefficient_named(fit, is_chinchilla ? "A" : "a"),
        .b = coefficient_named(fit, is_chinchilla ? "B" : "b"),
        .c = coefficient_named(fit, "c"),
        .j = coefficient_named(fit, "j"),
        .e = coefficient_named(fit, is_chinchilla ? "E" : "e"),
        .alpha = coefficient_named(fit, "alpha"),
        .beta = coefficient_named(fit, "beta"),
        .lambda = coefficient_named(fit, "lambda"),
        .delta = coefficient_named(fit, "delta"),
        .gamma = coefficient_named(fit, "gamma"),
        .eta = coefficient_named(fit, "eta"),
    };
    (void)snprintf(law.name, sizeof law.name, "%s", name);
    (void)snprintf(law.source, sizeof law.source, "%s form fitted to %zu runs", form->name,
                   data->count);
    for (size_t i = 0; i < data->count; i++) {
        const struct form_point *p = &data->points[i];
        const double sparsity = form->kind == FORM_ABNAR ? 1 - p->top_k / p->experts : p->sparsity;
        widen(&law.n_total, p->n_total, i == 0);
        widen(&law.n_active, p->n_active, i == 0);
        widen(&law.tokens, p->tokens, i == 0);
        widen(&law.sparsity, sparsity, i == 0);
        widen(&law.granularity, p->granularity, i == 0);
        widen(&law.tokens_per_active, p->tokens / p->n_active, i == 0);
    }
    TRY(law_check(&law, err));
    *out = law;
    return MOSAIC_OK;
}
