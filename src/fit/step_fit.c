// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Levenberg-Marquardt in u = ln theta inside a box.  With f = sign(r) sqrt(2 rho(r)) the sum of
 * squares is Huber's objective; each step minimises the damped quadratic model
 *   g' s + s' (N + lambda D) s / 2,   N = J' J + priors,   D the largest diagonal of N so far,
 * over the box: what leaves it is put on its edge, worst first, and the rest solved again.  Steps
 * that do not pay, or that the evaluator refuses, raise lambda (Nielsen 1999).
 *
 * Covariance: (M / s^2 + P)^-1 with M the data's matrix under Huber's weights u_i = min(1, d /
 * |r|), s^2 = sum w u r^2 / (sum w - p_eff), p_eff = tr (M + P)^-1 M, and P the priors; a constant
 * without one gets the width of its range, so that what no row determines says so.
 */
#include "fit/step_residual.h"

#include "base/clock.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = STEP_PARAMETERS_MAX, DEFAULT_ITERATIONS = 100 };

static const double default_huber = 0.1;
static const double first_lambda = 1e-3, least_lambda = 1e-12, most_lambda = 1e12;
static const double least_gain = 1e-4;     /* of a step: actual over predicted */
static const double default_cosine = 1e-7; /* between residuals and a column */
static const double small_step = 1e-9;     /* of a logarithm */
static const double small_promise = 1e-5;  /* of the objective: what a kink leaves undone */
static const double exact_error = 1e-12;   /* residuals below it are rounding */
static const double least_diagonal = 1e-9; /* of D */
static const double bound_width = 1e-9;    /* of a logarithm */
static const double seen_slope = 1e-7;     /* below it a constant does not enter a row */
static const double least_spread = 1e-3;   /* of residuals over delta, for the covariance */

struct square {
    size_t size;
    double of[MAX][MAX];
};

struct search {
    struct step_problem problem;
    double delta;
    double u[MAX], trial[MAX], step[MAX];
    double gradient[MAX], diagonal[MAX];
    struct square normal, damped;
    double objective, lambda, raise;
};

/* ---- objective ---- */

static double rho(double r, double delta) {
    const double size = fabs(r);
    return size <= delta ? 0.5 * r * r : delta * (size - 0.5 * delta);
}

static bool has_prior(const struct step_parameter *parameter) {
    return isfinite(parameter->constant->prior_sd);
}

/* Distance from the prior in its standard deviations. */
static double prior_pull(const struct step_parameter *parameter, double u) {
    return has_prior(parameter)
               ? (u - log(parameter->constant->prior)) / parameter->constant->prior_sd
               : 0;
}

/* By the errors just evaluated; infinite where a row has no prediction. */
static double objective_at(const struct search *s, const double *u) {
    const struct step_problem *const p = &s->problem;
    double sum = 0;
    for (size_t i = 0; i < p->count; i++)
        sum += p->rows[i].weight * rho(p->error[i], s->delta);
    sum /= s->delta * s->delta;
    for (size_t j = 0; j < p->parameters; j++) {
        const double pull = prior_pull(&p->parameter[j], u[j]);
        sum += 0.5 * pull * pull;
    }
    return isfinite(sum) ? sum : (double)INFINITY;
}

/* Gradient and Gauss-Newton matrix at u, by the slopes just evaluated. */
static void linearise(struct search *s) {
    const struct step_problem *const p = &s->problem;
    const double scale = 1 / (s->delta * s->delta);
    memset(s->gradient, 0, sizeof s->gradient);
    memset(s->normal.of, 0, sizeof s->normal.of);
    s->normal.size = p->parameters;
    for (size_t i = 0; i < p->count; i++) {
        const struct step_row *const row = &p->rows[i];
        const double r = p->error[i], size = fabs(r), *const slope = &p->slope[i * p->parameters];
        const double pull = row->weight * scale * fmax(-s->delta, fmin(s->delta, r));
        const double bend = size <= s->delta ? 1 : s->delta / (2 * size - s->delta);
        for (size_t a = 0; a < row->touched; a++) {
            const size_t j = row->touch[a];
            s->gradient[j] += pull * slope[j];
            for (size_t b = 0; b < row->touched; b++)
                s->normal.of[j][row->touch[b]] +=
                    row->weight * scale * bend * slope[j] * slope[row->touch[b]];
        }
    }
    for (size_t j = 0; j < p->parameters; j++) {
        const struct step_parameter *const parameter = &p->parameter[j];
        if (has_prior(parameter)) {
            const double sd = parameter->constant->prior_sd;
            s->gradient[j] += prior_pull(parameter, s->u[j]) / sd;
            s->normal.of[j][j] += 1 / (sd * sd);
        }
        s->diagonal[j] = fmax(s->diagonal[j], fmax(s->normal.of[j][j], least_diagonal));
    }
}

/* ---- linear algebra on a subset of the constants ---- */

/* Cholesky of the rows and columns in `at`, scaled to a unit diagonal; false: not definite. */
static bool factorise(const struct square *matrix, const size_t *at, size_t count,
                      struct square *factor, double *scale) {
    if (count == 0)
        return true;
    for (size_t a = 0; a < count; a++) {
        const double d = matrix->of[at[a]][at[a]];
        if (!(d > 0) || !isfinite(d))
            return false;
        scale[a] = 1 / sqrt(d);
    }
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++)
            factor->of[a][b] = matrix->of[at[a]][at[b]] * scale[a] * scale[b];
    gsl_matrix_view m = gsl_matrix_view_array_with_tda(&factor->of[0][0], count, count, MAX);
    return gsl_linalg_cholesky_decomp1(&m.matrix) == GSL_SUCCESS;
}

static bool solve(const struct square *matrix, const size_t *at, size_t count, double *right) {
    struct square factor;
    double scale[MAX], y[MAX] = {0};
    if (!factorise(matrix, at, count, &factor, scale))
        return false;
    if (count == 0)
        return true;
    for (size_t a = 0; a < count; a++)
        y[a] = right[a] * scale[a];
    gsl_matrix_view m = gsl_matrix_view_array_with_tda(&factor.of[0][0], count, count, MAX);
    gsl_vector_view v = gsl_vector_view_array(y, count);
    if (gsl_linalg_cholesky_svx(&m.matrix, &v.vector) != GSL_SUCCESS)
        return false;
    for (size_t a = 0; a < count; a++)
        right[a] = y[a] * scale[a];
    return true;
}

/* The inverse over `at`, zero elsewhere. */
static bool invert(const struct square *matrix, const size_t *at, size_t count,
                   struct square *inverse) {
    struct square factor;
    double scale[MAX];
    memset(inverse, 0, sizeof *inverse);
    if (!factorise(matrix, at, count, &factor, scale))
        return false;
    if (count == 0)
        return true;
    gsl_matrix_view m = gsl_matrix_view_array_with_tda(&factor.of[0][0], count, count, MAX);
    if (gsl_linalg_cholesky_invert(&m.matrix) != GSL_SUCCESS)
        return false;
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++)
            inverse->of[at[a]][at[b]] =
                factor.of[a > b ? a : b][a > b ? b : a] * (scale[a] * scale[b]);
    return true;
}

/* ---- one step inside the box ---- */

static double lowest(const struct search *s, size_t j) {
    return log(s->problem.parameter[j].constant->least);
}
static double highest(const struct search *s, size_t j) {
    return log(s->problem.parameter[j].constant->most);
}

/* On an edge, and the objective would fall beyond it. */
static bool is_held(const struct search *s, size_t j) {
    return (s->u[j] <= lowest(s, j) && s->gradient[j] >= 0) ||
           (s->u[j] >= highest(s, j) && s->gradient[j] <= 0);
}

/* How far u + step lies outside. */
static double excess(const struct search *s, size_t j, double step) {
    return fmax(lowest(s, j) - (s->u[j] + step), s->u[j] + step - highest(s, j));
}

/* Steps of what is not fixed, given the others'; false when the matrix is not definite. */
static bool solve_free(struct search *s, const bool *is_fixed) {
    const size_t n = s->problem.parameters;
    size_t at[MAX] = {0}, count = 0;
    double right[MAX];
    for (size_t j = 0; j < n; j++)
        if (!is_fixed[j])
            at[count++] = j;
    for (size_t a = 0; a < count; a++) {
        right[a] = -s->gradient[at[a]];
        for (size_t j = 0; j < n; j++)
            if (is_fixed[j])
                right[a] -= s->damped.of[at[a]][j] * s->step[j];
    }
    if (!solve(&s->damped, at, count, right))
        return false;
    for (size_t a = 0; a < count; a++)
        s->step[at[a]] = right[a];
    return true;
}

/* What leaves the box furthest; the number of constants when nothing does. */
static size_t furthest_out(const struct search *s, const bool *is_fixed) {
    const size_t n = s->problem.parameters;
    size_t worst = n;
    double most = 0;
    for (size_t j = 0; j < n; j++)
        if (!is_fixed[j] && excess(s, j, s->step[j]) > most) {
            most = excess(s, j, s->step[j]);
            worst = j;
        }
    return worst;
}

/* step[] of the damped model over the box; false when the matrix is not definite. */
static bool find_step(struct search *s) {
    const size_t n = s->problem.parameters;
    bool is_fixed[MAX] = {false};
    s->damped = s->normal;
    for (size_t j = 0; j < n; j++) {
        s->damped.of[j][j] += s->lambda * s->diagonal[j];
        is_fixed[j] = is_held(s, j);
        s->step[j] = 0;
    }
    for (;;) {
        if (!solve_free(s, is_fixed))
            return false;
        const size_t worst = furthest_out(s, is_fixed);
        if (worst == n)
            return true;
        is_fixed[worst] = true;
        s->step[worst] = (s->step[worst] > 0 ? highest(s, worst) : lowest(s, worst)) - s->u[worst];
    }
}

/* Fall of the objective that the quadratic model promises. */
static double promised(const struct search *s) {
    double fall = 0;
    for (size_t j = 0; j < s->problem.parameters; j++) {
        fall -= s->gradient[j] * s->step[j];
        for (size_t k = 0; k < s->problem.parameters; k++)
            fall -= 0.5 * s->step[j] * s->normal.of[j][k] * s->step[k];
    }
    return fall;
}

/* ---- the loop ---- */

/* Largest cosine between the residuals and the column of a constant that may move. */
static double flatness(const struct search *s) {
    double largest = 0;
    for (size_t j = 0; j < s->problem.parameters; j++)
        if (!is_held(s, j) && s->normal.of[j][j] > 0 && s->objective > 0)
            largest =
                fmax(largest, fabs(s->gradient[j]) / sqrt(2 * s->objective * s->normal.of[j][j]));
    return largest;
}

static void accept(struct search *s, double objective, double gain) {
    const double turn = 2 * gain - 1;
    memcpy(s->u, s->trial, sizeof s->u);
    s->objective = objective;
    s->lambda = fmax(least_lambda, s->lambda * fmax(1.0 / 3, 1 - turn * turn * turn));
    s->raise = 2;
}

enum attempt { ATTEMPT_MOVED, ATTEMPT_DONE, ATTEMPT_STUCK };

/* trial[] by the step just found; returns its longest part. */
static double set_trial(struct search *s) {
    double length = 0;
    for (size_t j = 0; j < s->problem.parameters; j++) {
        s->trial[j] = fmin(fmax(s->u[j] + s->step[j], lowest(s, j)), highest(s, j));
        length = fmax(length, fabs(s->trial[j] - s->u[j]));
    }
    return length;
}

/* Whether the trial pays; then it is where the search stands. */
static bool try_trial(struct search *s) {
    const double fall = promised(s);
    step_problem_evaluate(&s->problem, s->trial, false);
    const double objective = objective_at(s, s->trial);
    const double gain = (s->objective - objective) / fall;
    if (!isfinite(objective) || !(fall > 0) || !(gain > least_gain))
        return false;
    accept(s, objective, gain);
    return true;
}

/* Raise lambda until a step pays. */
static enum attempt attempt(struct search *s) {
    double promise = -1; /* of the first step: what there is to gain */
    while (s->lambda <= most_lambda) {
        if (find_step(s)) {
            promise = promise < 0 ? fmax(promised(s), 0) : promise;
            if (set_trial(s) <= small_step)
                break;
            if (try_trial(s))
                return ATTEMPT_MOVED;
        }
        s->lambda *= s->raise;
        s->raise *= 2;
    }
    return promise <= small_promise * s->objective ? ATTEMPT_DONE : ATTEMPT_STUCK;
}

static bool is_exact(const struct search *s) {
    double total = 0;
    for (size_t i = 0; i < s->problem.count; i++)
        total += s->problem.rows[i].weight;
    const double error = exact_error / s->delta;
    return s->objective <= 0.5 * error * error * total;
}

static enum mosaic_status descend(struct search *s, const struct step_fit_options *options,
                                  struct step_fit *out, struct status_error *err) {
    const size_t limit =
        options->max_iterations ? options->max_iterations : (size_t)DEFAULT_ITERATIONS;
    const double flat = options->tolerance > 0 ? options->tolerance : default_cosine;
    s->lambda = first_lambda;
    s->raise = 2;
    for (;;) {
        if (clock_stopped(options->stop))
            return status_set(err, MOSAIC_INTERRUPTED, "interrupted while fitting step constants");
        step_problem_evaluate(&s->problem, s->u, true);
        s->objective = objective_at(s, s->u);
        linearise(s);
        out->gradient = flatness(s);
        out->converged = is_exact(s) || out->gradient <= flat;
        if (out->converged || out->iterations == limit)
            return MOSAIC_OK;
        out->iterations++;
        const enum attempt end = attempt(s);
        if (end != ATTEMPT_MOVED) {
            out->converged = end == ATTEMPT_DONE;
            step_problem_evaluate(&s->problem, s->u, true);
            return MOSAIC_OK;
        }
    }
}

/* ---- what comes out ---- */

static void add_prior_widths(const struct step_problem *p, struct square *matrix) {
    for (size_t j = 0; j < p->parameters; j++) {
        const struct step_constant *const c = p->parameter[j].constant;
        const double width = fmax(log(c->most / c->least), bound_width);
        const double sd = isfinite(c->prior_sd) ? c->prior_sd : width;
        matrix->of[j][j] += 1 / (sd * sd);
    }
}

/* M, and sum w u r^2; both over delta^2. */
static double weighted_squares(const struct search *s, struct square *matrix) {
    const struct step_problem *const p = &s->problem;
    const double scale = 1 / (s->delta * s->delta);
    double sum = 0;
    memset(matrix, 0, sizeof *matrix);
    matrix->size = p->parameters;
    for (size_t i = 0; i < p->count; i++) {
        const struct step_row *const row = &p->rows[i];
        const double size = fabs(p->error[i]), *const slope = &p->slope[i * p->parameters];
        const double weight = row->weight * scale * (size <= s->delta ? 1 : s->delta / size);
        sum += weight * size * size;
        for (size_t a = 0; a < row->touched; a++)
            for (size_t b = 0; b < row->touched; b++)
                matrix->of[row->touch[a]][row->touch[b]] +=
                    weight * slope[row->touch[a]] * slope[row->touch[b]];
    }
    return sum;
}

/* s^2 over delta^2: 1 where too few rows are left to tell. */
static double spread_of(const struct search *s, const struct square *data, double squares,
                        const size_t *at, size_t count) {
    struct square sum = *data, inverse;
    double rows = 0, effective = 0;
    for (size_t i = 0; i < s->problem.count; i++)
        rows += s->problem.rows[i].weight;
    add_prior_widths(&s->problem, &sum);
    if (!invert(&sum, at, count, &inverse))
        return 1;
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++)
            effective += inverse.of[at[a]][at[b]] * data->of[at[b]][at[a]];
    const double left = rows - effective;
    return left >= 1 ? fmax(squares / left, least_spread * least_spread) : 1;
}

static enum mosaic_status put_covariance(const struct search *s, struct step_fit *out,
                                         struct status_error *err) {
    struct square data, sum, inverse;
    size_t at[MAX] = {0}, count = 0;
    const double squares = weighted_squares(s, &data);
    for (size_t j = 0; j < out->parameters; j++)
        if (!out->parameter[j].at_bound)
            at[count++] = j;
    const double spread = spread_of(s, &data, squares, at, count);
    sum = data;
    for (size_t j = 0; j < out->parameters; j++)
        for (size_t k = 0; k < out->parameters; k++)
            sum.of[j][k] /= spread;
    add_prior_widths(&s->problem, &sum);
    if (!invert(&sum, at, count, &inverse))
        return status_set(err, MOSAIC_NUMERIC, "the step constants have no covariance");
    memcpy(out->covariance, inverse.of, sizeof out->covariance);
    for (size_t a = 0; a < count; a++)
        out->parameter[at[a]].standard_error = sqrt(inverse.of[at[a]][at[a]]);
    return MOSAIC_OK;
}

static size_t rows_with(const struct step_problem *p, size_t j) {
    size_t rows = 0;
    for (size_t i = 0; i < p->count; i++)
        rows += fabs(p->slope[i * p->parameters + j]) > seen_slope;
    return rows;
}

static enum mosaic_status finish(const struct search *s, struct step_fit *out,
                                 struct status_error *err) {
    out->parameters = s->problem.parameters;
    out->objective = s->objective;
    for (size_t j = 0; j < out->parameters; j++) {
        struct step_parameter *const parameter = &out->parameter[j];
        *parameter = s->problem.parameter[j];
        parameter->value = step_parameter_value(parameter, s->u[j]);
        parameter->rows = rows_with(&s->problem, j);
        parameter->at_bound = parameter->rows > 0 && (s->u[j] <= lowest(s, j) + bound_width ||
                                                      s->u[j] >= highest(s, j) - bound_width);
    }
    return put_covariance(s, out, err);
}

static void set_start(struct search *s) {
    for (size_t j = 0; j < s->problem.parameters; j++) {
        const struct step_constant *const c = s->problem.parameter[j].constant;
        s->u[j] = fmin(fmax(log(c->start), lowest(s, j)), highest(s, j));
    }
}

static enum mosaic_status check_start(struct search *s, struct status_error *err) {
    step_problem_evaluate(&s->problem, s->u, false);
    for (size_t i = 0; i < s->problem.count; i++)
        if (!isfinite(s->problem.error[i]))
            return status_set(err, MOSAIC_NUMERIC,
                              "row %zu (%s) has no prediction at the first constants",
                              s->problem.rows[i].step->row, s->problem.rows[i].step->id);
    return MOSAIC_OK;
}

enum mosaic_status step_fit_on(const struct step_fit_job *job, const struct measured_steps *steps,
                               const bool *use, struct step_fit *out, struct status_error *err) {
    const struct step_fit_options none = {.huber = 0};
    const struct step_fit_options *const chosen = job->options ? job->options : &none;
    enum mosaic_status status;
    struct search *const s = calloc(1, sizeof *s);
    struct step_fit *const made = calloc(1, sizeof *made);
    if (!s || !made) {
        status = status_no_memory(err);
        goto out;
    }
    s->delta = chosen->huber > 0 ? chosen->huber : default_huber;
    TRY_GOTO(step_problem_init(&s->problem, job, steps, use, err));
    set_start(s);
    TRY_GOTO(check_start(s, err));
    TRY_GOTO(descend(s, chosen, made, err));
    TRY_GOTO(finish(s, made, err));
    *out = *made;
out:
    if (s)
        step_problem_free(&s->problem);
    free(s);
    free(made);
    return status;
}

enum mosaic_status step_fit_run(const struct measured_steps *steps, const bool *use,
                                const struct step_constant *constants, size_t constant_count,
                                const struct step_fit_options *options, struct step_fit *out,
                                struct status_error *err) {
    struct step_fit_job job = {
        .constants = constants, .constant_count = constant_count, .options = options};
    bool is_any = false;
    for (size_t i = 0; i < steps->count && !is_any; i++)
        is_any = !use || use[i];
    if (!is_any && !use && steps->excluded_count > 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "no measured step to fit constants to: each of %zu rows is left out, "
                          "row %zu because %s",
                          steps->rows, steps->excluded[0].row, steps->excluded[0].reason);
    if (!is_any)
        return status_set(err, MOSAIC_BAD_INPUT, "no measured step to fit constants to");
    TRY(pool_create(options ? options->threads : 1, NULL, &job.pool, err));
    const enum mosaic_status status = step_fit_on(&job, steps, use, out, err);
    pool_free(job.pool);
    return status;
}

void step_fit_apply(const struct step_fit *fit, const struct measured_step *step,
                    struct calibration *out) {
    *out = *step->calibration;
    for (size_t j = 0; j < fit->parameters; j++) {
        const struct step_parameter *const parameter = &fit->parameter[j];
        if (!step_parameter_touches(parameter, step))
            continue;
        out->scalar[parameter->constant->scalar] = parameter->value;
        out->scalar_origin[parameter->constant->scalar] = ORIGIN_CALIBRATED;
    }
    step_constants_follow(out);
}
