// SPDX-License-Identifier: GPL-3.0-or-later
/* The fit, its cross-validations and the quantiles of what they miss. */
#include "fit/step_study.h"

#include "model/geometry.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double covered = 0.9;      /* of the rows by an interval */
static const double deviations = 1.645; /* of a normal distribution that hold as many */

static bool is_moe(const struct measured_step *step) {
    return geometry_moe_layers(&step->geometry) > 0;
}

void step_study_free(struct step_study *study) {
    if (!study)
        return;
    for (size_t v = 0; v < STEP_VIEWS; v++)
        free(study->errors[v]);
    free(study);
}

const struct step_sigma *step_study_sigma(const struct step_study *study,
                                          const char *architecture) {
    for (size_t i = 0; i < study->sigmas; i++)
        if (strcmp(study->sigma[i].architecture, architecture) == 0)
            return &study->sigma[i];
    return NULL;
}

/* ---- intervals ---- */

/* Sizes of the held-out errors of one kind; architecture NULL: of all. */
static size_t gather(const struct step_study *study, const char *architecture, bool moe,
                     double *sizes) {
    size_t count = 0;
    const struct step_error *const errors = study->errors[STEP_WITHOUT_LAYOUT];
    for (size_t i = 0; errors && i < study->steps->count; i++) {
        const struct step_error *const e = &errors[i];
        if (is_moe(e->step) == moe &&
            (!architecture || strcmp(architecture, e->step->architecture) == 0))
            sizes[count++] = fabs(log(e->step->step_time_s) - log(e->predicted_s));
    }
    return count;
}

/* Of the calibration that the fit starts from. */
static double base_sigma(const struct step_study *study, const char *architecture, bool moe) {
    for (size_t i = 0; i < study->steps->count; i++)
        if (strcmp(study->steps->items[i].architecture, architecture) == 0)
            return study->steps->items[i].calibration->scalar[moe ? CAL_SIGMA_MOE : CAL_SIGMA];
    return 0;
}

static void put_sigma(const struct step_study *study, struct step_sigma *out, bool moe,
                      double *sizes) {
    size_t count = gather(study, out->architecture, moe, sizes);
    out->rows[moe] = count;
    if (count < STEP_SIGMA_ROWS)
        count = gather(study, NULL, moe, sizes);
    if (count == 0)
        return;
    gsl_sort(sizes, 1, count);
    out->sigma[moe] = gsl_stats_quantile_from_sorted_data(sizes, 1, count, covered) / deviations;
    if (study->steps->layouts < STEP_FEW_LAYOUTS)
        out->sigma[moe] = fmax(out->sigma[moe], base_sigma(study, out->architecture, moe));
}

static enum mosaic_status put_spread(const struct step_study *study, struct step_sigma *out,
                                     struct status_error *err) {
    const struct step_error *const errors = study->errors[STEP_WITHOUT_MODEL];
    if (!errors)
        return MOSAIC_OK;
    TRY(step_spread_of(errors, study->steps->count, out->architecture, &out->spread, err));
    return out->spread.within > 0
               ? MOSAIC_OK
               : step_spread_of(errors, study->steps->count, NULL, &out->spread, err);
}

static enum mosaic_status put_sigmas(struct step_study *study, struct status_error *err) {
    const struct measured_steps *const steps = study->steps;
    double *const sizes = calloc(steps->count, sizeof *sizes);
    if (!sizes)
        return status_no_memory(err);
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < steps->count && study->sigmas < STEP_ARCHITECTURES_MAX; i++) {
        const char *const architecture = steps->items[i].architecture;
        if (status != MOSAIC_OK || step_study_sigma(study, architecture))
            continue;
        struct step_sigma *const next = &study->sigma[study->sigmas++];
        next->architecture = architecture;
        put_sigma(study, next, false, sizes);
        put_sigma(study, next, true, sizes);
        status = put_spread(study, next, err);
    }
    free(sizes);
    return status;
}

static void put_intervals(struct step_study *study) {
    for (size_t v = 0; v < STEP_VIEWS; v++)
        for (size_t i = 0; study->errors[v] && i < study->steps->count; i++) {
            struct step_error *const e = &study->errors[v][i];
            const struct step_sigma *const s = step_study_sigma(study, e->step->architecture);
            const double spread = exp(deviations * (s ? s->sigma[is_moe(e->step)] : 0));
            e->low_s = e->predicted_s / spread;
            e->high_s = e->predicted_s * spread;
        }
}

/* ---- predictions ---- */

static enum mosaic_status predict_fitted(const struct step_study *study, double *predicted,
                                         struct status_error *err) {
    struct calibration *const calibration = malloc(sizeof *calibration);
    if (!calibration)
        return status_no_memory(err);
    for (size_t i = 0; i < study->steps->count; i++) {
        struct prediction prediction;
        const struct measured_step *const step = &study->steps->items[i];
        step_fit_apply(&study->fit, step, calibration);
        measured_step_predict(step, calibration, &prediction);
        predicted[i] = prediction.step_time_s; /* the fit ended on finite ones */
    }
    free(calibration);
    return MOSAIC_OK;
}

static enum mosaic_status predict_view(const struct step_study *study, enum step_view view,
                                       const struct step_fit_options *options, double *predicted,
                                       struct status_error *err) {
    return view == STEP_FITTED
               ? predict_fitted(study, predicted, err)
               : step_fit_cross(study->steps, view == STEP_WITHOUT_LAYOUT ? STEP_FOLDS : 0,
                                step_constants, step_constant_count, options, predicted, err);
}

static enum mosaic_status put_views(struct step_study *study, int views,
                                    const struct step_fit_options *options,
                                    struct status_error *err) {
    const size_t count = study->steps->count;
    enum mosaic_status status = MOSAIC_OK;
    double *const predicted = calloc(count, sizeof *predicted);
    if (!predicted)
        return status_no_memory(err);
    for (int v = 0; v < views && status == MOSAIC_OK; v++) {
        struct step_error *const errors = calloc(count, sizeof *errors);
        study->errors[v] = errors;
        status = errors ? predict_view(study, (enum step_view)v, options, predicted, err)
                        : status_no_memory(err);
        for (size_t i = 0; errors && i < count && status == MOSAIC_OK; i++)
            errors[i] =
                (struct step_error){.step = &study->steps->items[i], .predicted_s = predicted[i]};
    }
    free(predicted);
    return status;
}

/* A single one cannot be left out. */
static bool has_several_models(const struct measured_steps *steps) {
    for (size_t i = 1; i < steps->count; i++)
        if (strcmp(steps->items[i].model, steps->items[0].model) != 0)
            return true;
    return false;
}

enum mosaic_status step_study_run(const struct measured_steps *steps, bool hold_out,
                                  const struct step_fit_options *options, struct step_study **study,
                                  struct status_error *err) {
    enum mosaic_status status;
    struct step_study *const made = calloc(1, sizeof *made);
    if (!made)
        return status_no_memory(err);
    made->steps = steps;
    TRY_GOTO(
        step_fit_run(steps, NULL, step_constants, step_constant_count, options, &made->fit, err));
    if (made->fit.converged) {
        const int views = !hold_out                   ? STEP_WITHOUT_LAYOUT
                          : has_several_models(steps) ? STEP_VIEWS
                                                      : STEP_WITHOUT_MODEL;
        TRY_GOTO(put_views(made, views, options, err));
        TRY_GOTO(put_sigmas(made, err));
        put_intervals(made);
    }
    *study = made;
    return MOSAIC_OK;
out:
    step_study_free(made);
    return status;
}
