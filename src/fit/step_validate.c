// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One prediction a row; anchors are the rows of the first layouts of a group in the table's order,
 * so the same table gives the same anchors.
 */
#include "fit/step_validate.h"

#include "base/clock.h"
#include "fit/step_fit.h"
#include "fit/step_group.h"
#include "model/count.h"
#include "step/anchor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double measured_step_mfu(const struct measured_step *step) {
    const double peak = step->cluster.device.peak_flop_per_s[step->workload.precision];
    struct flop_counts flops;
    if (!(peak > 0.0) || !(step->step_time_s > 0.0))
        return 0.0;
    count_flops(&step->geometry, (double)step->workload.sequence, &flops);
    const double tokens = (double)step->workload.global_batch * (double)step->workload.sequence;
    return flops.causal * tokens / (step->step_time_s * (double)measured_step_gpus(step) * peak);
}

/* ---- rows ---- */

static struct refused_step *refuse(struct step_validation *v, const struct measured_step *step) {
    struct refused_step *const refused = &v->refused[v->refused_count++];
    refused->step = step;
    return refused;
}

/* Whether the row's own numbers are possible. */
static bool check_measured(struct step_validation *v, const struct measured_step *step) {
    const double mfu = measured_step_mfu(step);
    if (!(step->step_time_s > 0.0)) {
        (void)snprintf(refuse(v, step)->reason, VALIDATE_REASON_MAX,
                       "step_time_s is no positive time");
        return false;
    }
    if (!(mfu > 1.0))
        return true;
    (void)snprintf(refuse(v, step)->reason, VALIDATE_REASON_MAX,
                   "measured MFU %.3g is above 1; likely causes: gpu names a device with a lower "
                   "peak, precision is below what ran, n_gpus or step_time_s of part of the job, "
                   "tokens counted twice, a model of another architecture",
                   mfu);
    return false;
}

static void predict_row(struct step_validation *v, const struct measured_step *step,
                        const struct calibration *generic) {
    struct prediction p;
    if (!check_measured(v, step))
        return;
    measured_step_predict(step, NULL, &p);
    if (!step_is_plausible(&p)) {
        (void)snprintf(refuse(v, step)->reason, VALIDATE_REASON_MAX,
                       "prediction implausible: MFU %.3g, step %.3g s", p.mfu, p.step_time_s);
        return;
    }
    v->errors[v->count] =
        (struct step_error){step, p.step_time_s, p.interval_low_s, p.interval_high_s};
    v->memory[v->count] = (struct memory_error){step, p.allocated_bytes,
                                                p.memory.total - p.memory.reserve, p.memory.total};
    v->outside[v->count++] = p.lookups.tag[LOOKUP_OUTSIDE];
    if (!generic)
        return;
    measured_step_predict(step, generic, &p);
    if (step_is_plausible(&p))
        v->datasheet[v->datasheet_count++] =
            (struct step_error){step, p.step_time_s, p.interval_low_s, p.interval_high_s};
}

/* ---- anchors ---- */

static int compare_job(const struct measured_step *a, const struct measured_step *b) {
    int order = strcmp(a->cluster_name, b->cluster_name);
    if (order == 0)
        order = strcmp(a->engine->name, b->engine->name);
    if (order == 0)
        order = strcmp(a->engine->version, b->engine->version);
    return order != 0 ? order : strcmp(a->model, b->model);
}

static int by_job(const void *a, const void *b) {
    const struct step_error *const x = *(const struct step_error *const *)a;
    const struct step_error *const y = *(const struct step_error *const *)b;
    const int order = compare_job(x->step, y->step);
    return order != 0 ? order : x < y ? -1 : x > y; /* one array: its order */
}

struct anchoring {
    size_t wanted;
    const struct step_error **rows; /* all, by job */
    double *measured_s, *predicted_s;
    struct step_error *before, *after;
    size_t count; /* of before and after */
};

static bool is_among(const size_t *layouts, size_t count, size_t layout) {
    for (size_t i = 0; i < count; ++i)
        if (layouts[i] == layout)
            return true;
    return false;
}

/* Rows [first, last) are one job's. */
static void anchor_job(struct anchoring *a, size_t first, size_t last,
                       struct anchored_score *score) {
    size_t layouts[VALIDATE_ANCHORS_MAX], layout_count = 0, anchors = 0;
    for (size_t i = first; i < last; ++i) {
        const size_t layout = a->rows[i]->step->layout;
        if (!is_among(layouts, layout_count, layout)) {
            if (layout_count == a->wanted)
                continue;
            layouts[layout_count++] = layout;
        }
        a->measured_s[anchors] = a->rows[i]->step->step_time_s;
        a->predicted_s[anchors++] = a->rows[i]->predicted_s;
    }
    if (anchors == last - first)
        return;
    const double *const scalar = a->rows[first]->step->calibration->scalar;
    struct anchor_residual residual;
    anchor_fit(a->measured_s, a->predicted_s, anchors, scalar[CAL_ANCHOR_BETWEEN],
               scalar[CAL_ANCHOR_WITHIN], &residual);
    const double factor = exp(residual.log_factor);
    for (size_t i = first; i < last; ++i) {
        const struct step_error *const row = a->rows[i];
        if (is_among(layouts, layout_count, row->step->layout))
            continue;
        a->before[a->count] = *row;
        const double after_s = factor * row->predicted_s;
        /* A measured step never widens the interval. */
        const double spread =
            fmin(step_interval_spread(residual.sigma), row->high_s / row->predicted_s);
        a->after[a->count++] =
            (struct step_error){row->step, after_s, after_s / spread, after_s * spread};
    }
    ++score->groups;
    score->anchor_rows += anchors;
}

static void anchor_jobs(const struct step_validation *v, struct anchoring *a,
                        struct anchored_score *score) {
    for (size_t i = 0; i < v->count; ++i)
        a->rows[i] = &v->errors[i];
    qsort(a->rows, v->count, sizeof(*a->rows), by_job);
    for (size_t i = 0, next; i < v->count; i = next) {
        for (next = i + 1;
             next < v->count && compare_job(a->rows[i]->step, a->rows[next]->step) == 0; ++next)
            ;
        anchor_job(a, i, next, score);
    }
    if (!step_score_of(a->before, a->count, NULL, NULL, &score->before) ||
        !step_score_of(a->after, a->count, NULL, NULL, &score->after))
        score->before.rows = score->after.rows = 0;
}

static enum mosaic_status anchor(struct step_validation *v, size_t wanted,
                                 struct status_error *err) {
    struct anchoring a = {
        .wanted = wanted < VALIDATE_ANCHORS_MAX ? wanted : VALIDATE_ANCHORS_MAX,
        .rows = calloc(v->count, sizeof(*a.rows)),
        .measured_s = calloc(v->count, sizeof *a.measured_s),
        .predicted_s = calloc(v->count, sizeof *a.predicted_s),
        .before = calloc(v->count, sizeof *a.before),
        .after = calloc(v->count, sizeof *a.after),
    };
    const bool ok = a.rows && a.measured_s && a.predicted_s && a.before && a.after;
    if (ok)
        anchor_jobs(v, &a, &v->anchored);
    free(a.rows);
    free(a.measured_s);
    free(a.predicted_s);
    free(a.before);
    free(a.after);
    return ok ? MOSAIC_OK : status_no_memory(err);
}

/* ---- the whole ---- */

static struct step_validation *validation_new(size_t count) {
    struct step_validation *const v = calloc(1, sizeof *v);
    if (!v)
        return NULL;
    const size_t room = count > 0 ? count : 1;
    v->errors = calloc(room, sizeof *v->errors);
    v->memory = calloc(room, sizeof *v->memory);
    v->outside = calloc(room, sizeof *v->outside);
    v->datasheet = calloc(room, sizeof *v->datasheet);
    v->refused = calloc(room, sizeof *v->refused);
    if (v->errors && v->memory && v->outside && v->datasheet && v->refused)
        return v;
    step_validation_free(v);
    return NULL;
}

enum mosaic_status step_validation_run(const struct measured_steps *steps,
                                       const struct validate_options *options,
                                       struct step_validation **out, struct status_error *err) {
    struct step_validation *const v = validation_new(steps->count);
    enum mosaic_status status = MOSAIC_OK;
    if (!v)
        return status_no_memory(err);
    for (size_t i = 0; i < steps->count && !v->stopped; ++i) {
        v->stopped = clock_stopped(options->stop);
        if (!v->stopped)
            predict_row(v, &steps->items[i], options->generic);
    }
    if (options->anchors > 0 && v->count > 0)
        status = anchor(v, options->anchors, err);
    if (status != MOSAIC_OK) {
        step_validation_free(v);
        return status;
    }
    *out = v;
    return MOSAIC_OK;
}

void step_validation_free(struct step_validation *validation) {
    if (!validation)
        return;
    free(validation->errors);
    free(validation->memory);
    free(validation->outside);
    free(validation->datasheet);
    free(validation->refused);
    free(validation);
}
