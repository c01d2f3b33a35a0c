// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A refit starts from the optimum and keeps what that left out.  A held amplitude needs a frame at
 * x = 0, where the term is the amplitude itself; clark has one frame for all coefficients.
 */
#include "fit/profile.h"

#include <math.h>
#include <string.h>

static const double step_of_error = .5;
static const double step_of_value = .025;
static const double least_step = 1e-3; /* of the value: errors of noiseless runs are rounding */

struct profiling {
    const struct fit_data *data;
    const struct fit *fit;
    const struct descend_limits *limits;
    struct profile *profiles;
};

static void hold(struct fit_model *model, const struct fit *fit, size_t i, double value) {
    const struct form *form = model->frame.form;
    double coefficient[FORM_MAX_COEFFICIENTS], u[FORM_MAX_COEFFICIENTS];
    memcpy(coefficient, fit->coefficient, sizeof coefficient);
    coefficient[i] = value;
    model->is_free[i] = false;
    for (size_t k = 0; k < form->terms; k++)
        if ((size_t)form->term[k].amplitude == i)
            memset(model->frame.centre[k], 0, sizeof model->frame.centre[k]);
    if (form->terms == 0)
        memset(model->frame.centre, 0, sizeof model->frame.centre);
    form_to_parameters(&model->frame, coefficient, u);
    if (form->terms == 0)
        memcpy(model->u, u, sizeof u);
    else
        model->u[i] = u[i];
}

static void refit(void *context, int worker, size_t index) {
    const struct profiling *p = context;
    struct profile *profile = &p->profiles[index / PROFILE_POINTS];
    const size_t k = index % PROFILE_POINTS;
    struct fit from = *p->fit, fit;
    (void)worker;
    if (k == PROFILE_SIDE) {
        profile->objective[k] = from.objective;
        profile->is_known[k] = true;
        return;
    }
    hold(&from.model, p->fit, profile->coefficient, profile->value[k]);
    fit_again(p->data, &from, p->limits, &fit);
    profile->objective[k] = fit.objective;
    profile->is_known[k] = fit.is_converged && isfinite(fit.objective);
}

size_t profile_run(const struct fit_data *data, const struct fit *fit,
                   const struct fit_report *report, const struct descend_limits *limits,
                   struct pool *pool, struct profile profiles[FORM_MAX_COEFFICIENTS]) {
    struct profiling profiling = {data, fit, limits, profiles};
    size_t count = 0;
    for (size_t i = 0; i < data->form->coefficients; i++) {
        const struct fit_coefficient *c = &report->coefficient[i];
        if (c->label != FIT_IDENTIFIED)
            continue;
        const double step = c->has_error
                                ? fmax(step_of_error * c->error, least_step * fabs(c->value))
                                : step_of_value * fabs(c->value);
        struct profile *profile = &profiles[count++];
        memset(profile, 0, sizeof *profile);
        profile->coefficient = i;
        for (int k = -PROFILE_SIDE; k <= PROFILE_SIDE; k++)
            profile->value[k + PROFILE_SIDE] = c->value + k * step;
    }
    pool_run(pool, count * PROFILE_POINTS, refit, &profiling);
    return count;
}
