// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Draws have their own generator each, seeded by their number: threads change nothing.
 */
#include "fit/bootstrap.h"

#include "base/clock.h"
#include "fit/seed.h"
#include "law/optimum.h"

#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double low_quantile = 0.025, high_quantile = 0.975;
static const double free_sparsity = 1; /* s_max that means no bound */
enum { SEED_STREAM = 1 << 20 };        /* apart from the seeds of starts */

struct job {
    const struct fit_data *data;
    const struct fit *fit;
    const struct bootstrap_options *options;
    const double *fitted, *residual; /* ln L; scaled and, for the residual kind, centred */
    struct fit *draws;
    bool *is_good;
};

void bootstrap_options_init(struct bootstrap_options *options) {
    *options = (struct bootstrap_options){.kind = BOOTSTRAP_WILD,
                                          .draws = BOOTSTRAP_DRAWS,
                                          .seed = 1,
                                          .limits = {FIT_TOLERANCE, FIT_MAX_ITERATIONS}};
}

/* ---- drawing ---- */

static void draw_losses(const struct job *job, gsl_rng *random, struct fit_data *data) {
    for (size_t i = 0; i < data->count; i++) {
        double r;
        if (job->options->kind == BOOTSTRAP_WILD)
            r = gsl_rng_uniform(random) < 0.5 ? -job->residual[i] : job->residual[i];
        else
            /* Residuals of unit weight, spread again by the run's own weight. */
            r = job->residual[gsl_rng_uniform_int(random, data->count)] / data->rows[i].root_weight;
        data->rows[i].log_loss = job->fitted[i] + r;
    }
}

static void run_draw(void *context, int worker, size_t index) {
    const struct job *job = context;
    struct status_error err;
    struct fit_data *data = NULL;
    (void)worker;
    if (clock_stopped(job->options->stop))
        return;
    gsl_rng *random = gsl_rng_alloc(gsl_rng_mt19937);
    if (random && fit_data_copy(job->data, &data, &err) == MOSAIC_OK) {
        gsl_rng_set(random, seed_mix(job->options->seed, SEED_STREAM + index));
        draw_losses(job, random, data);
        fit_again(data, job->fit, &job->options->limits, &job->draws[index]);
        job->is_good[index] = job->draws[index].is_converged;
    }
    fit_data_free(data);
    if (random)
        gsl_rng_free(random);
}

static void take_residuals(const struct fit_data *data, const struct fit *fit,
                           enum bootstrap_kind kind, double *fitted, double *residual) {
    const double n = (double)data->count;
    const double scale = sqrt(n / (n - (double)fit->parameters));
    double mean = 0;
    for (size_t i = 0; i < data->count; i++) {
        const struct fit_row *row = &data->rows[i];
        fitted[i] = fit_log_loss(fit, row->x);
        residual[i] = scale * (row->log_loss - fitted[i]);
        if (kind == BOOTSTRAP_RESIDUAL)
            residual[i] *= row->root_weight;
        mean += residual[i] / n;
    }
    for (size_t i = 0; i < data->count && kind == BOOTSTRAP_RESIDUAL; i++)
        residual[i] -= mean;
}

static enum mosaic_status check(const struct fit *fit, const struct bootstrap_options *options,
                                struct diag_list *diags) {
    if (options->draws < BOOTSTRAP_DRAWS || options->draws > BOOTSTRAP_MAX_DRAWS)
        return diag_error(diags, NULL, "bootstrap draws must be %d to %d, not %zu",
                          (int)BOOTSTRAP_DRAWS, (int)BOOTSTRAP_MAX_DRAWS, options->draws);
    if (!fit->is_determined || fit->rows <= fit->parameters)
        return diag_error(diags, NULL,
                          "undetermined: %zu coefficients from %zu runs leave no residuals to draw",
                          fit->parameters, fit->rows);
    return MOSAIC_OK;
}

static void keep_good(struct bootstrap *bootstrap, const bool *is_good) {
    for (size_t i = 0; i < bootstrap->asked; i++)
        if (is_good[i])
            bootstrap->draws[bootstrap->count++] = bootstrap->draws[i];
    bootstrap->failed = bootstrap->asked - bootstrap->count;
}

enum mosaic_status bootstrap_run(const struct fit_data *data, const struct fit *fit,
                                 const struct bootstrap_options *options, struct pool *pool,
                                 struct bootstrap **out, struct diag_list *diags) {
    TRY(check(fit, options, diags));
    enum mosaic_status status = MOSAIC_OK;
    struct bootstrap *bootstrap = calloc(1, sizeof *bootstrap);
    double *numbers = calloc(2 * data->count, sizeof *numbers);
    bool *is_good = calloc(options->draws, sizeof *is_good);
    if (bootstrap)
        bootstrap->draws = calloc(options->draws, sizeof *bootstrap->draws);
    if (!bootstrap || !numbers || !is_good || !bootstrap->draws) {
        status = diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
        goto out;
    }
    take_residuals(data, fit, options->kind, numbers, numbers + data->count);
    struct job job = {data,   fit, options, numbers, numbers + data->count, bootstrap->draws,
                      is_good};
    pool_run(pool, options->draws, run_draw, &job);
    if (clock_stopped(options->stop)) {
        status = MOSAIC_INTERRUPTED;
        goto out;
    }
    bootstrap->fit = *fit;
    bootstrap->stop = options->stop;
    bootstrap->asked = options->draws;
    keep_good(bootstrap, is_good);
    if (2 * bootstrap->count < bootstrap->asked) {
        status = diag_status(diags, MOSAIC_NUMERIC, NULL,
                             "undetermined: only %zu of %zu bootstrap refits converged",
                             bootstrap->count, bootstrap->asked);
        goto out;
    }
    if (bootstrap->failed > 0)
        diag_warning(diags, NULL, "%zu of %zu bootstrap refits did not converge and are left out",
                     bootstrap->failed, bootstrap->asked);
    *out = bootstrap;
    bootstrap = NULL;
out:
    bootstrap_free(bootstrap);
    free(numbers);
    free(is_good);
    return status;
}

void bootstrap_free(struct bootstrap *bootstrap) {
    if (!bootstrap)
        return;
    free(bootstrap->draws);
    free(bootstrap);
}

/* ---- intervals ---- */

static void sorted_interval(double *values, size_t count, struct interval *interval) {
    gsl_sort(values, 1, count);
    interval->draws = count;
    interval->low = gsl_stats_quantile_from_sorted_data(values, 1, count, low_quantile);
    interval->middle = gsl_stats_quantile_from_sorted_data(values, 1, count, 0.5);
    interval->high = gsl_stats_quantile_from_sorted_data(values, 1, count, high_quantile);
}

enum mosaic_status bootstrap_interval(const struct bootstrap *bootstrap, bootstrap_value *value,
                                      const void *context, struct interval *interval,
                                      struct status_error *err) {
    double *values = calloc(bootstrap->count + 1, sizeof *values);
    size_t count = 0;
    if (!values)
        return status_no_memory(err);
    for (size_t i = 0; i < bootstrap->count; i++)
        if (value(context, &bootstrap->draws[i], &values[count]) && isfinite(values[count]))
            count++;
    if (2 * count < bootstrap->asked) {
        free(values);
        return status_set(err, MOSAIC_NUMERIC, "undetermined: only %zu of %zu draws have a value",
                          count, bootstrap->asked);
    }
    sorted_interval(values, count, interval);
    free(values);
    return MOSAIC_OK;
}

static bool value_of_coefficient(const void *context, const struct fit *draw, double *value) {
    *value = draw->coefficient[*(const size_t *)context];
    return true;
}

enum mosaic_status bootstrap_coefficient(const struct bootstrap *bootstrap, size_t coefficient,
                                         struct interval *interval, struct status_error *err) {
    return bootstrap_interval(bootstrap, value_of_coefficient, &coefficient, interval, err);
}

struct at_point {
    double x[FORM_VARIABLES];
    int term;
};

static bool value_at_point(const void *context, const struct fit *draw, double *value) {
    const struct at_point *at = context;
    if (at->term < 0) {
        *value = exp(fit_log_loss(draw, at->x));
        return true;
    }
    double terms[FORM_MAX_TERMS];
    form_terms(&draw->model.frame, draw->model.u, at->x, terms);
    *value = terms[at->term];
    return true;
}

enum mosaic_status bootstrap_at_point(const struct bootstrap *bootstrap,
                                      const struct form_point *point, int term,
                                      struct interval *interval, struct status_error *err) {
    const struct form *form = bootstrap->fit.model.frame.form;
    struct at_point at = {.term = term};
    if (term >= (int)form->terms)
        return status_set(err, MOSAIC_USAGE, "the %s form has no term %d", form->name, term);
    TRY(form_variables(form, point, at.x, err));
    return bootstrap_interval(bootstrap, value_at_point, &at, interval, err);
}

/* ---- optimum ---- */

struct optima {
    double *sparsity, *loss, *n_total;
};

static void take_optimum(const struct optima *all, const struct law_optimum *one,
                         struct bootstrap_optimum *optimum) {
    all->sparsity[optimum->draws] = one->point.sparsity;
    all->loss[optimum->draws] = one->loss;
    all->n_total[optimum->draws] = one->point.n_total;
    optimum->draws++;
    optimum->at_bound += one->at_bound;
}

enum mosaic_status bootstrap_at_optimum(const struct fit_data *data,
                                        const struct bootstrap *bootstrap, double model_flops,
                                        double granularity, double s_max,
                                        struct bootstrap_optimum *out, struct status_error *err) {
    struct bootstrap_optimum optimum = {.draws = 0};
    double *values = calloc(3 * (bootstrap->count + 1), sizeof *values);
    if (!values)
        return status_no_memory(err);
    const struct optima all = {values, values + bootstrap->count + 1,
                               values + 2 * (bootstrap->count + 1)};
    for (size_t i = 0; i < bootstrap->count && !clock_stopped(bootstrap->stop); i++) {
        struct law law;
        struct law_optimum one;
        enum mosaic_status status = fit_to_law(data, &bootstrap->draws[i], "draw", &law, err);
        if (status == MOSAIC_OK && s_max < free_sparsity)
            status = law_optimum_bounded(&law, model_flops, granularity, 0, s_max, &one, err);
        else if (status == MOSAIC_OK)
            status = law_optimum_free(&law, model_flops, granularity, &one, err);
        if (status == MOSAIC_OK)
            take_optimum(&all, &one, &optimum);
    }
    if (clock_stopped(bootstrap->stop)) {
        free(values);
        return status_set(err, MOSAIC_INTERRUPTED, "interrupted");
    }
    if (2 * optimum.draws < bootstrap->asked) {
        free(values);
        return status_set(err, MOSAIC_NUMERIC,
                          "undetermined: only %zu of %zu draws have an optimum", optimum.draws,
                          bootstrap->asked);
    }
    sorted_interval(all.sparsity, optimum.draws, &optimum.sparsity);
    sorted_interval(all.loss, optimum.draws, &optimum.loss);
    sorted_interval(all.n_total, optimum.draws, &optimum.n_total);
    free(values);
    *out = optimum;
    return MOSAIC_OK;
}
