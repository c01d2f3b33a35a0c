// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Derivatives are central differences of the logarithms, narrowed where a range ends.  A worker
 * keeps one copy of a calibration and writes the constants into it; rows are ordered by calibration
 * and constants, so that the copy is seldom replaced.
 */
#include "fit/step_residual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double difference_step = 1e-3; /* of a logarithm */
static const size_t no_group = (size_t)-1;

struct step_scratch {
    size_t group;
    struct calibration calibration;
};

/* ---- the constants of a table of rows ---- */

static const char *where_of(const struct step_constant *constant,
                            const struct measured_step *step) {
    switch (constant->scope) {
    case STEP_ARCHITECTURE:
        return step->architecture;
    case STEP_DEVICE:
        return step->cluster.device.name;
    case STEP_FABRIC:
        return step->fabric;
    case STEP_SHARED:
        break;
    }
    return "";
}

bool step_parameter_touches(const struct step_parameter *parameter,
                            const struct measured_step *step) {
    return strcmp(parameter->where, where_of(parameter->constant, step)) == 0;
}

double step_parameter_value(const struct step_parameter *parameter, double u) {
    return fmin(fmax(exp(u), parameter->constant->least), parameter->constant->most);
}

static bool is_usable(const struct step_constant *c) {
    const bool is_range = c->least > 0 && c->most >= c->least && isfinite(c->most);
    const bool is_start = c->start >= c->least && c->start <= c->most;
    return is_range && is_start && c->prior_sd > 0 && (isinf(c->prior_sd) || c->prior > 0);
}

static enum mosaic_status add_parameter(struct step_problem *p,
                                        const struct step_constant *constant, const char *where,
                                        struct status_error *err) {
    if (p->parameters == STEP_PARAMETERS_MAX)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "more than %d step constants over the architectures and devices",
                          (int)STEP_PARAMETERS_MAX);
    p->parameter[p->parameters++] =
        (struct step_parameter){.constant = constant, .where = where, .value = constant->start};
    return MOSAIC_OK;
}

/* One parameter a place, by name. */
static enum mosaic_status expand(struct step_problem *p, const struct measured_steps *steps,
                                 const struct step_constant *constant, struct status_error *err) {
    const char *last = NULL;
    if (!is_usable(constant))
        return status_set(err, MOSAIC_INTERNAL, "step constant %s: range, start or prior",
                          calibration_scalar_info(constant->scalar)->key);
    if (constant->scope == STEP_SHARED)
        return add_parameter(p, constant, "", err);
    for (;;) {
        const char *next = NULL;
        for (size_t i = 0; i < steps->count; i++) {
            const char *const where = where_of(constant, &steps->items[i]);
            if ((!constant->only || strcmp(constant->only, where) == 0) &&
                (!last || strcmp(where, last) > 0) && (!next || strcmp(where, next) < 0))
                next = where;
        }
        if (!next)
            return MOSAIC_OK;
        TRY(add_parameter(p, constant, next, err));
        last = next;
    }
}

/* ---- rows ---- */

static bool is_same_group(const struct step_row *a, const struct step_row *b) {
    return a->step->calibration == b->step->calibration && a->touched == b->touched &&
           memcmp(a->touch, b->touch, a->touched) == 0;
}

static int by_group(const void *a, const void *b) {
    const struct step_row *const one = a, *const other = b;
    if (one->group != other->group)
        return one->group < other->group ? -1 : 1;
    return one->step < other->step ? -1 : one->step > other->step;
}

/* Of two constants for one scalar the later holds. */
static void touch(const struct step_problem *p, struct step_row *row, size_t j) {
    size_t k = 0;
    while (k < row->touched &&
           p->parameter[row->touch[k]].constant->scalar != p->parameter[j].constant->scalar)
        k++;
    row->touch[k] = (unsigned char)j;
    if (k == row->touched)
        row->touched++;
}

static enum mosaic_status add_row(struct step_problem *p, const struct measured_step *step,
                                  size_t *groups, struct status_error *err) {
    struct step_row *const row = &p->rows[p->count];
    *row = (struct step_row){.step = step, .group = no_group};
    if (!(step->step_time_s > 0) || !isfinite(step->step_time_s) || step->layout_rows == 0)
        return status_set(err, MOSAIC_BAD_INPUT, "row %zu (%s) has no measured step time",
                          step->row, step->id);
    row->weight = 1 / (double)step->layout_rows;
    for (size_t j = 0; j < p->parameters; j++)
        if (step_parameter_touches(&p->parameter[j], step))
            touch(p, row, j);
    for (size_t i = 0; i < p->count && row->group == no_group; i++)
        if (is_same_group(&p->rows[i], row))
            row->group = p->rows[i].group;
    if (row->group == no_group)
        row->group = (*groups)++;
    p->count++;
    return MOSAIC_OK;
}

static size_t at_least_one(size_t n) {
    return n ? n : 1;
}

static enum mosaic_status add_rows(struct step_problem *p, const struct measured_steps *steps,
                                   const bool *use, struct status_error *err) {
    size_t groups = 0;
    const size_t slots = at_least_one(steps->count);
    const size_t workers = (size_t)pool_threads(p->pool);
    p->rows = calloc(slots, sizeof *p->rows);
    p->error = calloc(slots, sizeof *p->error);
    p->slope = calloc(slots * at_least_one(p->parameters), sizeof *p->slope);
    p->scratch = calloc(workers, sizeof *p->scratch);
    if (!p->rows || !p->error || !p->slope || !p->scratch)
        return status_no_memory(err);
    for (size_t w = 0; w < workers; w++)
        p->scratch[w].group = no_group;
    for (size_t i = 0; i < steps->count; i++)
        if (!use || use[i])
            TRY(add_row(p, &steps->items[i], &groups, err));
    qsort(p->rows, p->count, sizeof *p->rows, by_group);
    return MOSAIC_OK;
}

enum mosaic_status step_problem_init(struct step_problem *p, const struct step_fit_job *job,
                                     const struct measured_steps *steps, const bool *use,
                                     struct status_error *err) {
    enum mosaic_status status = MOSAIC_OK;
    memset(p, 0, sizeof *p);
    p->pool = job->pool;
    for (size_t i = 0; i < job->constant_count && status == MOSAIC_OK; i++)
        status = expand(p, steps, &job->constants[i], err);
    if (status == MOSAIC_OK)
        status = add_rows(p, steps, use, err);
    if (status != MOSAIC_OK)
        step_problem_free(p);
    return status;
}

void step_problem_free(struct step_problem *p) {
    free(p->rows);
    free(p->error);
    free(p->slope);
    free(p->scratch);
    p->rows = NULL;
    p->error = p->slope = NULL;
    p->scratch = NULL;
}

/* ---- evaluation ---- */

struct evaluation {
    struct step_problem *problem;
    const double *u;
    bool with_slopes;
};

static double error_of(const struct measured_step *step, const struct calibration *calibration) {
    struct prediction prediction;
    measured_step_predict(step, calibration, &prediction);
    const double e = log(prediction.step_time_s) - log(step->step_time_s);
    return prediction.step_time_s > 0 && isfinite(e) ? e : (double)NAN;
}

static void put(const struct step_problem *p, struct calibration *calibration, size_t j, double u) {
    calibration->scalar[p->parameter[j].constant->scalar] =
        step_parameter_value(&p->parameter[j], u);
    step_constants_follow(calibration);
}

/* A row that cannot be predicted on one side takes the difference of the other. */
static double slope_of(const struct evaluation *e, const struct step_row *row,
                       struct calibration *calibration, size_t j, double error) {
    const struct step_problem *const p = e->problem;
    double u[2] = {fmax(e->u[j] - difference_step, log(p->parameter[j].constant->least)),
                   fmin(e->u[j] + difference_step, log(p->parameter[j].constant->most))};
    double at[2];
    for (int side = 0; side < 2; side++) {
        put(p, calibration, j, u[side]);
        at[side] = error_of(row->step, calibration);
        if (isnan(at[side])) {
            at[side] = error;
            u[side] = e->u[j];
        }
    }
    put(p, calibration, j, e->u[j]);
    const double slope = (at[1] - at[0]) / (u[1] - u[0]);
    return u[1] > u[0] && isfinite(slope) ? slope : 0;
}

static void evaluate_row(void *context, int worker, size_t index) {
    const struct evaluation *const e = context;
    struct step_problem *const p = e->problem;
    const struct step_row *const row = &p->rows[index];
    struct step_scratch *const scratch = &p->scratch[worker];
    if (scratch->group != row->group) {
        scratch->calibration = *row->step->calibration;
        scratch->group = row->group;
    }
    for (size_t k = 0; k < row->touched; k++)
        put(p, &scratch->calibration, row->touch[k], e->u[row->touch[k]]);
    p->error[index] = error_of(row->step, &scratch->calibration);
    if (!e->with_slopes)
        return;
    for (size_t k = 0; k < row->touched; k++) {
        const size_t j = row->touch[k];
        p->slope[index * p->parameters + j] =
            slope_of(e, row, &scratch->calibration, j, p->error[index]);
    }
}

void step_problem_evaluate(struct step_problem *p, const double *u, bool with_slopes) {
    struct evaluation e = {.problem = p, .u = u, .with_slopes = with_slopes};
    pool_run(p->pool, p->count, evaluate_row, &e);
}
