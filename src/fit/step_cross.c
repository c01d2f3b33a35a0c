// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Held-out errors of step constants.  A layout's fold is a hash (FNV-1a, 64 bits, folded once) of
 * its text, so that it does not depend on which rows stand beside it.  Every fit has the constants
 * of all rows: one that the other folds do not determine stays at its prior.
 */
#include "fit/step_residual.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUT_TEXT_MAX = 512 };
/* A hundredth of what errors of 1 % would show: constants of a fold are not reported. */
static const double default_tolerance = 1e-4;

static uint64_t hash_of(const char *text) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++) {
        hash ^= (unsigned char)*text;
        hash *= UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 32;
}

static int fold_of(const struct measured_step *step, int folds) {
    char text[LAYOUT_TEXT_MAX];
    const struct mesh *const m = &step->mesh;
    (void)snprintf(text, sizeof text, "%s|%s|%s|%d|tp%d cp%d pp%d vpp%d ep%d etp%d|%d|%s",
                   step->model, step->gpu, precision_name(step->workload.precision),
                   step->workload.sequence, m->tp, m->cp, m->pp, m->vpp, m->ep, m->etp,
                   m->micro_batch, recompute_name(m->recompute));
    return (int)(hash_of(text) % (uint64_t)folds);
}

/* fold[i] of each row; returns how many folds there are.  Rows of a layout follow its first. */
static int put_layout_folds(const struct measured_steps *steps, int folds, int *fold) {
    for (size_t i = 0; i < steps->count; i++) {
        size_t first = 0;
        while (first < i && steps->items[first].layout != steps->items[i].layout)
            first++;
        fold[i] = first < i ? fold[first] : fold_of(&steps->items[i], folds);
    }
    return folds;
}

static int put_model_folds(const struct measured_steps *steps, int *fold) {
    int models = 0;
    for (size_t i = 0; i < steps->count; i++) {
        size_t first = 0;
        while (first < i && strcmp(steps->items[first].model, steps->items[i].model) != 0)
            first++;
        fold[i] = first < i ? fold[first] : models++;
    }
    return models;
}

struct scratch {
    int *fold;
    bool *use;
    double *predicted;
    struct step_fit fit;
    struct calibration calibration;
};

static void scratch_free(struct scratch *s) {
    if (!s)
        return;
    free(s->fold);
    free(s->use);
    free(s->predicted);
    free(s);
}

static struct scratch *scratch_new(size_t rows) {
    struct scratch *const s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->fold = calloc(rows, sizeof *s->fold);
    s->use = calloc(rows, sizeof *s->use);
    s->predicted = calloc(rows, sizeof *s->predicted);
    if (s->fold && s->use && s->predicted)
        return s;
    scratch_free(s);
    return NULL;
}

/* Fit without one fold, predict it; true when it holds a row. */
static bool choose(struct scratch *s, const struct measured_steps *steps, int fold) {
    bool is_any = false;
    for (size_t i = 0; i < steps->count; i++) {
        s->use[i] = s->fold[i] != fold;
        is_any = is_any || !s->use[i];
    }
    return is_any;
}

static enum mosaic_status predict(struct scratch *s, const struct measured_steps *steps,
                                  struct status_error *err) {
    for (size_t i = 0; i < steps->count; i++) {
        struct prediction prediction;
        if (s->use[i])
            continue;
        step_fit_apply(&s->fit, &steps->items[i], &s->calibration);
        measured_step_predict(&steps->items[i], &s->calibration, &prediction);
        if (!isfinite(prediction.step_time_s) || !(prediction.step_time_s > 0))
            return status_set(err, MOSAIC_NUMERIC,
                              "row %zu (%s) has no prediction by constants fitted without it",
                              steps->items[i].row, steps->items[i].id);
        s->predicted[i] = prediction.step_time_s;
    }
    return MOSAIC_OK;
}

enum mosaic_status step_fit_cross(const struct measured_steps *steps, int folds,
                                  const struct step_constant *constants, size_t constant_count,
                                  const struct step_fit_options *options, double *predicted_s,
                                  struct status_error *err) {
    struct scratch *s = NULL;
    enum mosaic_status status = MOSAIC_OK;
    struct step_fit_options own = options ? *options : (struct step_fit_options){.threads = 1};
    struct step_fit_job job = {
        .constants = constants, .constant_count = constant_count, .options = &own};
    own.tolerance = own.tolerance > 0 ? own.tolerance : default_tolerance;
    if (steps->count == 0)
        return status_set(err, MOSAIC_BAD_INPUT, "no measured step to hold out");
    if (folds < 0 || folds == 1)
        return status_set(err, MOSAIC_USAGE, "%d folds hold nothing out", folds);
    TRY(pool_create(own.threads, NULL, &job.pool, err));
    s = scratch_new(steps->count);
    if (!s) {
        status = status_no_memory(err);
        goto out;
    }
    const int count =
        folds ? put_layout_folds(steps, folds, s->fold) : put_model_folds(steps, s->fold);
    for (int fold = 0; fold < count; fold++) {
        if (!choose(s, steps, fold))
            continue;
        TRY_GOTO(step_fit_on(&job, steps, s->use, &s->fit, err));
        TRY_GOTO(predict(s, steps, err));
    }
    memcpy(predicted_s, s->predicted, steps->count * sizeof *predicted_s);
out:
    scratch_free(s);
    pool_free(job.pool);
    return status;
}
