// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the plots of a fit show: for each variable that changes, the runs and the fitted loss with
 * the other variables at the runs' medians; the objective around each identified coefficient.
 */
#include "report/build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CURVE_STEPS = 60 };

static bool add_point(json_t *list, double x, double y) {
    return json_array_append_new(list, json_pack("{s:f, s:f}", "x", x, "y", y)) == 0;
}

static int compare_reals(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The lower one of an even number. */
static bool medians_of(const struct fit_data *data, double median[FORM_VARIABLES]) {
    double *const values = calloc(data->count + 1, sizeof *values);
    if (!values)
        return false;
    for (size_t v = 0; v < FORM_VARIABLES; v++) {
        for (size_t i = 0; i < data->count; i++)
            values[i] = data->rows[i].x[v];
        qsort(values, data->count, sizeof *values, compare_reals);
        median[v] = values[(data->count - 1) / 2];
    }
    free(values);
    return true;
}

static bool add_curve(json_t *list, const struct fit_job *job, size_t v, const double *median) {
    static const char *const names[] = {
        [FORM_N] = "n_total", [FORM_D] = "tokens", [FORM_U] = "sparsity", [FORM_G] = "granularity"};
    const struct fit_data *const data = job->data;
    json_t *const fitted = json_array(), *const observed = json_array();
    double x[FORM_VARIABLES];
    bool ok = true;
    memcpy(x, median, sizeof x);
    for (int k = 0; k <= CURVE_STEPS; k++) {
        x[v] = data->low[v] + (data->high[v] - data->low[v]) * k / CURVE_STEPS;
        ok = add_point(fitted, exp(x[v]), exp(fit_log_loss(&job->fit, x))) && ok;
    }
    for (size_t i = 0; i < data->count; i++)
        ok = add_point(observed, exp(data->rows[i].x[v]), exp(data->rows[i].log_loss)) && ok;
    json_t *const curve = json_pack("{s:s, s:s, s:o, s:o}", "variable", names[v], "label",
                                    job->form->variable[v], "fitted", fitted, "observed", observed);
    return json_array_append_new(list, curve) == 0 && ok;
}

static bool add_profile(json_t *list, const struct fit_job *job, const struct profile *profile) {
    json_t *const points = json_array();
    bool ok = true;
    for (size_t k = 0; k < PROFILE_POINTS; k++)
        if (profile->is_known[k])
            ok = add_point(points, profile->value[k], profile->objective[k]) && ok;
    json_t *const one = json_pack("{s:s, s:f, s:o}", "coefficient",
                                  job->form->coefficient[profile->coefficient].name, "value",
                                  profile->value[PROFILE_SIDE], "points", points);
    return json_array_append_new(list, one) == 0 && ok;
}

json_t *build_fit_plots(const struct fit_job *job) {
    json_t *const curves = json_array(), *const profile = json_array();
    double median[FORM_VARIABLES];
    bool ok = medians_of(job->data, median);
    for (size_t v = 0; ok && v < FORM_VARIABLES; v++)
        if (job->form->variable[v] && !job->data->is_constant[v])
            ok = add_curve(curves, job, v, median);
    for (size_t k = 0; ok && k < job->profile_count; k++)
        ok = add_profile(profile, job, &job->profiles[k]);
    json_t *const plots = json_pack("{s:o, s:o}", "curves", curves, "profile", profile);
    if (ok)
        return plots;
    json_decref(plots);
    return NULL;
}
