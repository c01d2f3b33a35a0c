// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Residuals are relative, (sum of terms) / L - 1, so the linear problem weighs runs as the fit of
 * ln L does.
 */
#include "fit/seed.h"

#include "fit/normal.h"

#include <gsl/gsl_rng.h>
#include <math.h>
#include <string.h>

enum { DRAWS = 20 };
static const double exponent_low = 0.02, exponent_high = 1.6;
static const double smallest_share = 1e-3; /* of an amplitude that came out 0 */
static const double q_low = 0.3, q_high = 10, max_low = 30, max_high = 10000;

unsigned long seed_mix(unsigned long seed, size_t index) {
    /* SplitMix64. */
    unsigned long long z = seed + 0x9E3779B97F4A7C15ULL * (index + 1ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (unsigned long)((z ^ (z >> 31)) & 0xFFFFFFFFULL);
}

static double log_uniform(gsl_rng *random, double low, double high) {
    return log(low) + gsl_rng_uniform(random) * (log(high) - log(low));
}

/* Every draw uses the generator alike, whatever is free. */
static void draw_exponents(gsl_rng *random, struct fit_model *model) {
    const struct form *form = model->frame.form;
    for (size_t i = 0; i < form->coefficients; i++) {
        if (form->coefficient[i].role != FORM_EXPONENT)
            continue;
        const double value = log_uniform(random, exponent_low, exponent_high);
        const double sign = gsl_rng_uniform(random) < 0.5 ? -1 : 1;
        if (model->is_free[i])
            model->u[i] = model->frame.is_signed[i] ? sign * exp(value) : value;
    }
}

static double solve_amplitudes(const struct fit_data *data, struct fit_model *model) {
    const struct form *form = model->frame.form;
    int amplitude[NORMAL_MAX];
    size_t count = 0, column_of[FORM_MAX_TERMS] = {0};
    struct normal normal;
    double solution[NORMAL_MAX];
    for (size_t k = 0; k < form->terms; k++) {
        column_of[k] = count;
        if (!model->frame.is_gone[k] && model->is_free[form->term[k].amplitude])
            amplitude[count++] = form->term[k].amplitude;
    }
    normal_init(&normal, count);
    for (size_t i = 0; i < data->count; i++) {
        const struct fit_row *row = &data->rows[i];
        double shape[FORM_MAX_TERMS], column[NORMAL_MAX] = {0}, target = 1;
        form_shapes(&model->frame, model->u, row->x, shape);
        for (size_t k = 0; k < form->terms; k++) {
            if (model->frame.is_gone[k])
                continue;
            const int a = form->term[k].amplitude;
            const double known = model->is_free[a] ? 0 : model->u[a];
            const double value = exp(shape[k] + known - row->log_loss);
            if (model->is_free[a])
                column[column_of[k]] = value;
            else
                target -= value;
        }
        normal_add(&normal, column, target, row->weight);
    }
    const double left = normal_solve_nonnegative(&normal, solution);
    const double floor = smallest_share * exp(data->mean_log_loss);
    for (size_t c = 0; c < count; c++)
        model->u[amplitude[c]] = log(fmax(solution[c], floor));
    return left;
}

static double solve_clark(const struct fit_data *data, gsl_rng *random, struct fit_model *model) {
    enum { LINEAR = 4 };
    struct normal normal;
    double solution[NORMAL_MAX];
    size_t at[LINEAR], count = 0;
    const double q = log_uniform(random, q_low, q_high);
    const double max = log_uniform(random, max_low, max_high);
    if (model->is_free[4])
        model->u[4] = q;
    if (model->is_free[5])
        model->u[5] = max;
    for (size_t i = 0; i < LINEAR; i++) {
        if (!model->is_free[i])
            continue;
        at[count++] = i;
        model->u[i] = 0; /* what is fixed stays in the residual */
    }
    normal_init(&normal, count);
    for (size_t i = 0; i < data->count; i++) {
        const struct fit_row *row = &data->rows[i];
        double gradient[FORM_MAX_COEFFICIENTS], column[NORMAL_MAX];
        const double rest = form_log_loss(&model->frame, model->u, row->x, gradient);
        for (size_t c = 0; c < count; c++)
            column[c] = gradient[at[c]];
        normal_add(&normal, column, row->log_loss - rest, row->weight);
    }
    if (!normal_solve(&normal, (1U << count) - 1, solution))
        return normal.target_square;
    for (size_t c = 0; c < count; c++)
        model->u[at[c]] = solution[c];
    return normal_residual(&normal, solution);
}

bool seed_model(const struct fit_data *data, unsigned long seed, size_t index,
                struct fit_model *model) {
    gsl_rng *random = gsl_rng_alloc(gsl_rng_mt19937);
    struct fit_model best = *model;
    double least = (double)INFINITY;
    if (!random)
        return false;
    gsl_rng_set(random, seed_mix(seed, index));
    for (int draw = 0; draw < DRAWS; draw++) {
        struct fit_model trial = *model;
        double left;
        if (model->frame.form->kind == FORM_CLARK) {
            left = solve_clark(data, random, &trial);
        } else {
            draw_exponents(random, &trial);
            left = solve_amplitudes(data, &trial);
        }
        if (left < least || draw == 0) {
            least = left;
            best = trial;
        }
    }
    gsl_rng_free(random);
    *model = best;
    return true;
}
