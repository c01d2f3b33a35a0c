// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Robust least squares of ln(measured / seconds(p)) over u = ln p with GSL: Huber's rho as
 * f = sqrt(2 rho), its width 1.345 robust sd (1.4826 median |r|) of the residuals so far, found
 * again until it stands.  At most a handful of parameters, so the Jacobian is by differences.
 */
#include "fit/sample_fit_parts.h"

#include <gsl/gsl_multifit_nlinear.h>
#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>

static const double huber = 1.345, mad_to_sd = 1.4826;
static const double least_sd = 0.01; /* of a timer and clocks; below it noise is not told apart */
static const double first_width = 0.05;            /* before there is a spread */
static const double far_sds = 5.0, far_log = 0.08; /* of an outlier, both */
static const double difference = 1e-6, widest_log = 80.0, refusal = 1e3;
enum { ROUNDS = 8, ITERATIONS = 200 };

struct system {
    const struct fitting *f;
    fitting_seconds *seconds;
    size_t parameters;
    double width;
};

static double residual(const struct system *s, size_t row, const double *u) {
    double p[FITTING_PARAMETERS] = {0};
    const struct sample *const sample = &s->f->sample[s->f->pick[row]];
    for (size_t j = 0; j < s->parameters; j++) {
        if (!(fabs(u[j]) < widest_log))
            return refusal;
        p[j] = exp(u[j]);
    }
    const double r = log(sample->median_s / s->seconds(s->f, sample, p));
    return isfinite(r) ? r : refusal;
}

static double bend(double r, double width) {
    const double size = fabs(r);
    return size <= width ? r : copysign(sqrt(2.0 * width * (size - 0.5 * width)), r);
}

static void read(const gsl_vector *v, size_t count, double *u) {
    for (size_t j = 0; j < count; j++)
        u[j] = gsl_vector_get(v, j);
}

static int evaluate(const gsl_vector *v, void *context, gsl_vector *out) {
    const struct system *const s = context;
    double u[FITTING_PARAMETERS];
    read(v, s->parameters, u);
    for (size_t i = 0; i < s->f->picked; i++)
        gsl_vector_set(out, i, bend(residual(s, i, u), s->width));
    return GSL_SUCCESS;
}

static int differentiate(const gsl_vector *v, void *context, gsl_matrix *out) {
    const struct system *const s = context;
    double u[FITTING_PARAMETERS];
    read(v, s->parameters, u);
    for (size_t j = 0; j < s->parameters; j++) {
        const double at = u[j];
        for (size_t i = 0; i < s->f->picked; i++) {
            u[j] = at + difference;
            const double above = bend(residual(s, i, u), s->width);
            u[j] = at - difference;
            const double below = bend(residual(s, i, u), s->width);
            u[j] = at;
            gsl_matrix_set(out, i, j, (above - below) / (2.0 * difference));
        }
    }
    return GSL_SUCCESS;
}

static enum mosaic_status descend_once(struct system *s, double *u, struct status_error *err) {
    gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_fdf fdf = {
        .f = evaluate, .df = differentiate, .n = s->f->picked, .p = s->parameters, .params = s};
    gsl_multifit_nlinear_workspace *const w = gsl_multifit_nlinear_alloc(
        gsl_multifit_nlinear_trust, &parameters, s->f->picked, s->parameters);
    if (!w)
        return status_no_memory(err);
    const gsl_vector_view start = gsl_vector_view_array(u, s->parameters);
    if (gsl_multifit_nlinear_init(&start.vector, &fdf, w) == GSL_SUCCESS) {
        for (int i = 0; i < ITERATIONS; i++) {
            if (gsl_multifit_nlinear_iterate(w) != GSL_SUCCESS)
                break; /* no further progress: at the minimum to rounding */
            double step = 0.0;
            for (size_t j = 0; j < s->parameters; j++)
                step = fmax(step, fabs(gsl_vector_get(w->dx, j)));
            if (step < 1e-12)
                break;
        }
        read(w->x, s->parameters, u);
    }
    gsl_multifit_nlinear_free(w);
    return MOSAIC_OK;
}

static double robust_sd(const struct system *s, const double *u, double *scratch) {
    for (size_t i = 0; i < s->f->picked; i++)
        scratch[i] = fabs(residual(s, i, u));
    gsl_sort(scratch, 1, s->f->picked);
    const size_t half = s->f->picked / 2;
    const double middle =
        s->f->picked % 2 ? scratch[half] : 0.5 * (scratch[half - 1] + scratch[half]);
    return mad_to_sd * middle;
}

static void name_outliers(struct fitting *f, const struct system *s, const double *u,
                          struct fitting_outcome *outcome) {
    const double limit = fmax(far_sds * outcome->spread, far_log);
    outcome->outliers = 0;
    for (size_t i = 0; i < f->picked; i++) {
        const double r = residual(s, i, u);
        char name[SAMPLE_FIT_TEXT / 2];
        if (fabs(r) <= limit)
            continue;
        outcome->outliers++;
        if (f->is_outlier[f->pick[i]])
            continue;
        f->is_outlier[f->pick[i]] = true;
        (void)sample_print_name(&f->sample[f->pick[i]], name, sizeof name);
        fitting_note(f, SAMPLE_NOTE_OUTLIER, "%s: %.3g s, %.2f of what the other samples say", name,
                     f->sample[f->pick[i]].median_s, exp(r));
    }
}

enum mosaic_status fitting_solve(struct fitting *f, fitting_seconds *seconds, size_t parameters,
                                 struct fitting_outcome *outcome, struct status_error *err) {
    struct system s = {f, seconds, parameters, first_width};
    double u[FITTING_PARAMETERS] = {0}, sd = 0.0;
    enum mosaic_status status = MOSAIC_OK;
    double *const scratch = calloc(f->picked + 1, sizeof *scratch);
    if (!scratch)
        return status_no_memory(err);
    for (size_t j = 0; j < parameters; j++)
        u[j] = log(outcome->p[j]);
    for (int round = 0; status == MOSAIC_OK && round < ROUNDS; round++) {
        status = descend_once(&s, u, err);
        if (status != MOSAIC_OK)
            break;
        sd = robust_sd(&s, u, scratch);
        const double width = huber * fmax(sd, least_sd);
        if (fabs(width - s.width) <= 1e-9 * width)
            break;
        s.width = width;
    }
    free(scratch);
    if (status != MOSAIC_OK)
        return status;
    for (size_t j = 0; j < parameters; j++)
        outcome->p[j] = exp(u[j]);
    outcome->spread = f->picked > parameters ? sd : 0.0;
    if (f->picked > parameters + 1)
        name_outliers(f, &s, u, outcome);
    return MOSAIC_OK;
}
