// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * GSL's own driver throws the status of a step away and its gradient test depends on the scale of
 * the residuals; hence the loop here, with tests that do not: a relative step, and the cosine
 *   max_j |J_j . f| / (|J_j| |f|).
 */
#include "fit/descend.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <string.h>

static const double cosine_per_tolerance = 100;
static const double delta_step = 0.1;  /* towards a small delta, one decade at a time */
static const double exact_rms = 1e-13; /* below it residuals are rounding */
static const size_t crawl_steps = 40;
static const double crawl_fall = 0.05;     /* of a logarithm over that many steps */
static const double farthest_log = 60;     /* of a term at the centre */
static const double largest_exponent = 50; /* beyond it a step is refused */
static const double refusal = 1e3;         /* residual of a refused step */

struct problem {
    const struct fit_data *data;
    struct fit_measure measure;
    struct fit_model model; /* its free parameters are overwritten */
    size_t at[FORM_MAX_COEFFICIENTS], count;
};

/* ---- residuals ---- */

static double residual_at(const struct form_at *at, const struct fit_row *row, bool is_plain) {
    const double log_fit = form_at_log_loss(at, row->x, NULL);
    return is_plain ? exp(log_fit) - exp(row->log_loss) : log_fit - row->log_loss;
}

static double rho(double r, double delta) {
    const double size = fabs(r);
    return size <= delta ? 0.5 * r * r : delta * (size - 0.5 * delta);
}

double fit_objective(const struct fit_data *data, const struct fit_measure *measure,
                     const struct fit_model *model) {
    double sum = 0;
    struct form_at at;
    form_at_init(&at, &model->frame, model->u);
    for (size_t i = 0; i < data->count; i++) {
        const struct fit_row *row = &data->rows[i];
        sum += row->weight * rho(residual_at(&at, row, measure->is_plain), measure->delta);
    }
    return sum;
}

/* f = sign(r) sqrt(2 rho) with its first two derivatives in r. */
struct bent {
    double f, first, second;
};

static struct bent bend(double r, double delta) {
    if (fabs(r) <= delta)
        return (struct bent){r, 1, 0};
    const double size = sqrt(2 * rho(r, delta));
    return (struct bent){copysign(size, r), delta / size,
                         copysign(delta * delta / (size * size * size), -r)};
}

static bool take_parameters(struct problem *p, const gsl_vector *v) {
    const struct form *form = p->model.frame.form;
    bool is_near = true;
    for (size_t j = 0; j < p->count; j++) {
        const size_t i = p->at[j];
        const double u = gsl_vector_get(v, j);
        p->model.u[i] = u;
        if (form->coefficient[i].role != FORM_EXPONENT)
            is_near = is_near && fabs(u) < farthest_log;
        else if (p->model.frame.is_signed[i])
            is_near = is_near && fabs(u) < largest_exponent;
        else
            is_near = is_near && u < log(largest_exponent);
    }
    return is_near;
}

static int evaluate(const gsl_vector *v, void *context, gsl_vector *f) {
    struct problem *p = context;
    const bool is_near = take_parameters(p, v);
    struct form_at at;
    form_at_init(&at, &p->model.frame, p->model.u);
    for (size_t i = 0; i < p->data->count; i++) {
        const struct fit_row *row = &p->data->rows[i];
        const double r = is_near ? residual_at(&at, row, p->measure.is_plain) : refusal;
        const double value = row->root_weight * bend(r, p->measure.delta).f;
        gsl_vector_set(f, i, isfinite(value) ? value : refusal);
    }
    return GSL_SUCCESS;
}

static int differentiate(const gsl_vector *v, void *context, gsl_matrix *jacobian) {
    struct problem *p = context;
    struct form_at at;
    (void)take_parameters(p, v);
    form_at_init(&at, &p->model.frame, p->model.u);
    for (size_t i = 0; i < p->data->count; i++) {
        const struct fit_row *row = &p->data->rows[i];
        double gradient[FORM_MAX_COEFFICIENTS];
        const double log_fit = form_at_log_loss(&at, row->x, gradient);
        const double fit = p->measure.is_plain ? exp(log_fit) : 1;
        const double r = p->measure.is_plain ? fit - exp(row->log_loss) : log_fit - row->log_loss;
        const double scale = row->root_weight * fit * bend(r, p->measure.delta).first;
        for (size_t j = 0; j < p->count; j++) {
            const double value = scale * gradient[p->at[j]];
            if (!isfinite(value))
                return GSL_EBADFUNC;
            gsl_matrix_set(jacobian, i, j, value);
        }
    }
    return GSL_SUCCESS;
}

/* Second derivative of f along w. */
static int curve(const gsl_vector *v, const gsl_vector *w, void *context, gsl_vector *second) {
    struct problem *p = context;
    struct form_at at;
    double along[FORM_MAX_COEFFICIENTS] = {0};
    (void)take_parameters(p, v);
    for (size_t j = 0; j < p->count; j++)
        along[p->at[j]] = gsl_vector_get(w, j);
    form_at_init(&at, &p->model.frame, p->model.u);
    for (size_t i = 0; i < p->data->count; i++) {
        const struct fit_row *row = &p->data->rows[i];
        const struct form_bend log_bend = form_at_bend(&at, row->x, along);
        double r = log_bend.log_loss - row->log_loss;
        double r1 = log_bend.first, r2 = log_bend.second;
        if (p->measure.is_plain) {
            const double fit = exp(log_bend.log_loss);
            r = fit - exp(row->log_loss);
            r2 = fit * (r2 + r1 * r1);
            r1 *= fit;
        }
        const struct bent bent = bend(r, p->measure.delta);
        const double value = row->root_weight * (bent.first * r2 + bent.second * r1 * r1);
        if (!isfinite(value))
            return GSL_EBADFUNC;
        gsl_vector_set(second, i, value);
    }
    return GSL_SUCCESS;
}

/* ---- the loop ---- */

static double cosine_of(const gsl_multifit_nlinear_workspace *w) {
    const double size = gsl_blas_dnrm2(w->f);
    double largest = 0;
    for (size_t j = 0; j < w->g->size && size > 0; j++) {
        gsl_vector_const_view column = gsl_matrix_const_column(w->J, j);
        const double length = gsl_blas_dnrm2(&column.vector);
        if (length > 0)
            largest = fmax(largest, fabs(gsl_vector_get(w->g, j)) / (length * size));
    }
    return largest;
}

static bool is_small_step(const gsl_multifit_nlinear_workspace *w, double tolerance) {
    for (size_t j = 0; j < w->x->size; j++)
        if (!(fabs(gsl_vector_get(w->dx, j)) <= tolerance * (fabs(gsl_vector_get(w->x, j)) + 1)))
            return false;
    return true;
}

static bool is_finite_state(const gsl_multifit_nlinear_workspace *w) {
    for (size_t j = 0; j < w->x->size; j++)
        if (!isfinite(gsl_vector_get(w->x, j)))
            return false;
    return isfinite(gsl_blas_dnrm2(w->f)) && isfinite(gsl_blas_dnrm2(w->g));
}

enum pause {
    PAUSE_NONE,
    PAUSE_PRUNE, /* something has vanished */
    PAUSE_CRAWL  /* many steps without an end: perhaps towards a term of 0 */
};

struct walk {
    const struct descend_limits *limits;
    struct descend_outcome *outcome;
    enum pause pause;
};

static void walk(gsl_multifit_nlinear_workspace *w, struct problem *p, struct walk *state) {
    const double exact = exact_rms * sqrt((double)p->data->count);
    const double tolerance = state->limits->tolerance;
    struct descend_outcome *outcome = state->outcome;
    for (size_t step = 1;; step++) {
        if (outcome->iterations >= state->limits->max_iterations) {
            outcome->end = DESCEND_LIMIT;
            return;
        }
        outcome->iterations++;
        const int status = gsl_multifit_nlinear_iterate(w);
        if (!is_finite_state(w) || (status != GSL_SUCCESS && status != GSL_ENOPROG)) {
            outcome->end = DESCEND_FAILED;
            return;
        }
        outcome->gradient = cosine_of(w);
        struct fit_drops ignored = {.count = 0};
        struct fit_model trial = p->model;
        for (size_t j = 0; j < p->count; j++)
            trial.u[p->at[j]] = gsl_vector_get(w->x, j);
        if (fit_model_prune(&trial, p->data, &ignored)) {
            state->pause = PAUSE_PRUNE;
            return;
        }
        const bool is_flat =
            outcome->gradient <= cosine_per_tolerance * tolerance || gsl_blas_dnrm2(w->f) <= exact;
        if (is_flat || (status == GSL_SUCCESS && is_small_step(w, tolerance))) {
            outcome->end = DESCEND_CONVERGED;
            return;
        }
        if (status == GSL_ENOPROG) {
            outcome->end = DESCEND_STALLED;
            return;
        }
        if (step == crawl_steps) {
            outcome->end = DESCEND_LIMIT;
            state->pause = PAUSE_CRAWL;
            return;
        }
    }
}

static void set_problem(struct problem *p, const struct fit_data *data,
                        const struct fit_measure *measure, const struct fit_model *model) {
    p->data = data;
    p->measure = *measure;
    p->model = *model;
    p->count = 0;
    for (size_t i = 0; i < model->frame.form->coefficients; i++)
        if (model->is_free[i])
            p->at[p->count++] = i;
}

/* One stretch with the same terms. */
static enum pause descend_once(const struct fit_data *data, const struct fit_measure *measure,
                               const struct descend_limits *limits, struct fit_model *model,
                               struct descend_outcome *outcome) {
    struct problem p;
    struct walk state = {.limits = limits, .outcome = outcome, .pause = PAUSE_NONE};
    set_problem(&p, data, measure, model);
    outcome->end = DESCEND_FAILED;
    if (p.count == 0) {
        outcome->end = DESCEND_CONVERGED;
        return PAUSE_NONE;
    }
    if (data->count < p.count)
        return PAUSE_NONE;
    gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    parameters.trs = gsl_multifit_nlinear_trs_lmaccel;
    parameters.scale = gsl_multifit_nlinear_scale_more;
    parameters.solver = gsl_multifit_nlinear_solver_qr;
    gsl_multifit_nlinear_fdf fdf = {.f = evaluate,
                                    .df = differentiate,
                                    .fvv = curve,
                                    .n = data->count,
                                    .p = p.count,
                                    .params = &p};
    gsl_multifit_nlinear_workspace *w =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, data->count, p.count);
    gsl_vector *start = gsl_vector_alloc(p.count);
    if (w && start) {
        for (size_t j = 0; j < p.count; j++)
            gsl_vector_set(start, j, model->u[p.at[j]]);
        if (gsl_multifit_nlinear_init(start, &fdf, w) == GSL_SUCCESS && is_finite_state(w)) {
            walk(w, &p, &state);
            for (size_t j = 0; j < p.count; j++)
                model->u[p.at[j]] = gsl_vector_get(w->x, j);
        }
    }
    gsl_vector_free(start);
    gsl_multifit_nlinear_free(w);
    return state.pause;
}

/* ---- towards the edge ---- */

/* The logarithm that fell most; -1 when none fell much. */
static int fastest_fall(const struct fit_model *before, const struct fit_model *now) {
    const struct form *form = now->frame.form;
    double most = crawl_fall;
    int which = -1;
    for (size_t i = 0; i < form->coefficients; i++) {
        if (!now->is_free[i] || now->frame.is_signed[i] ||
            form->coefficient[i].role == FORM_LINEAR ||
            form->coefficient[i].role == FORM_SATURATION)
            continue;
        if (before->u[i] - now->u[i] > most) {
            most = before->u[i] - now->u[i];
            which = (int)i;
        }
    }
    return which;
}

/* Would the objective fall if what was left out came back a little?  `with` still has it. */
static bool wants_back(const struct fit_data *data, const struct fit_measure *measure,
                       const struct fit_model *with, const struct fit_model *without, size_t i) {
    const struct form *form = with->frame.form;
    struct fit_model back = *without;
    struct form_at at;
    double slope = 0;
    size_t term = 0;
    const bool is_exponent = form->coefficient[i].role == FORM_EXPONENT;
    if (is_exponent) {
        back.frame.is_signed[i] = true;
        back.u[i] = 0;
    } else {
        while ((size_t)form->term[term].amplitude != i)
            term++;
        back.frame.is_gone[term] = false;
        for (size_t v = 0; v < FORM_VARIABLES; v++)
            if (form->term[term].exponent[v] >= 0 && !back.is_free[form->term[term].exponent[v]])
                back.u[form->term[term].exponent[v]] = with->u[form->term[term].exponent[v]];
        back.u[i] = 0;
    }
    form_at_init(&at, &without->frame, without->u);
    for (size_t k = 0; k < data->count; k++) {
        const struct fit_row *row = &data->rows[k];
        const double log_fit = form_at_log_loss(&at, row->x, NULL);
        const double r = residual_at(&at, row, measure->is_plain);
        const double pull = row->weight * fmax(-measure->delta, fmin(measure->delta, r)) *
                            (measure->is_plain ? exp(log_fit) : 1);
        double gradient[FORM_MAX_COEFFICIENTS], shape[FORM_MAX_TERMS];
        if (is_exponent) {
            (void)form_log_loss(&back.frame, back.u, row->x, gradient);
            slope += pull * gradient[i];
        } else {
            form_shapes(&back.frame, back.u, row->x, shape);
            slope += pull * exp(shape[term] - log_fit);
        }
    }
    return slope < 0;
}

/* A minimum at 0 is never reached by logarithms, only approached ever more slowly: look at the
 * model without what is falling, and take that when it is no worse and nothing pulls back. */
static bool step_to_edge(const struct fit_data *data, const struct fit_measure *measure,
                         const struct descend_limits *limits, const struct fit_model *before,
                         struct fit_model *model, struct fit_drops *drops) {
    const int which = fastest_fall(before, model);
    struct fit_model trial = *model;
    struct fit_drops trial_drops = *drops;
    struct descend_outcome outcome = {.iterations = 0};
    if (which < 0)
        return false;
    fit_model_leave_out(&trial, data, (size_t)which, &trial_drops);
    while (outcome.iterations < 2 * crawl_steps) {
        const enum pause pause = descend_once(data, measure, limits, &trial, &outcome);
        if (pause == PAUSE_NONE)
            break;
        if (pause == PAUSE_PRUNE)
            (void)fit_model_prune(&trial, data, &trial_drops);
    }
    if (outcome.end == DESCEND_FAILED ||
        !(fit_objective(data, measure, &trial) <= fit_objective(data, measure, model)) ||
        wants_back(data, measure, model, &trial, (size_t)which))
        return false;
    *model = trial;
    *drops = trial_drops;
    return true;
}

static void descend_to_edge(const struct fit_data *data, const struct fit_measure *measure,
                            const struct descend_limits *limits, struct fit_model *model,
                            struct fit_drops *drops, struct descend_outcome *outcome) {
    for (;;) {
        const struct fit_model before = *model;
        const enum pause pause = descend_once(data, measure, limits, model, outcome);
        if (pause == PAUSE_NONE)
            return;
        if (pause == PAUSE_PRUNE)
            (void)fit_model_prune(model, data, drops);
        else
            (void)step_to_edge(data, measure, limits, &before, model, drops);
    }
}

void descend(const struct fit_data *data, const struct fit_measure *measure,
             const struct descend_limits *limits, struct fit_model *model, struct fit_drops *drops,
             struct descend_outcome *outcome) {
    const struct fit_measure squares = {measure->is_plain, (double)INFINITY};
    struct fit_measure step = squares;
    memset(outcome, 0, sizeof *outcome);
    for (;;) {
        descend_to_edge(data, &step, limits, model, drops, outcome);
        if (outcome->end == DESCEND_FAILED || !(step.delta > measure->delta))
            break;
        const double spread = sqrt(2 * fit_objective(data, &squares, model) / (double)data->count);
        step.delta = fmax(measure->delta, fmin(step.delta, spread) * delta_step);
    }
    outcome->objective = fit_objective(data, measure, model);
    if (!isfinite(outcome->objective))
        outcome->end = DESCEND_FAILED;
}
