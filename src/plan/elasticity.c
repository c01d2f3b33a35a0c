// SPDX-License-Identifier: GPL-3.0-or-later
/* A plane of ln MFU over the neighbours of a plan. */
#include "plan/elasticity.h"

#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdlib.h>

enum { PLANE = 4, NEIGHBOURS_MAX = 64 };

struct sample {
    double log_n, log_dense, log_g, log_mfu;
};

/* Neighbours: within a factor 2.1 in experts, top-k and granularity and one ladder step in size.
 * Far enough for a slope, near enough for a plane. */
static bool is_neighbour(const struct geometry *a, const struct geometry *b) {
    const double reach = 2.1, size_reach = 1.3;
    const double pairs[][3] = {{(double)a->hidden, (double)b->hidden, size_reach},
                               {(double)a->experts, (double)b->experts, reach},
                               {(double)a->top_k, (double)b->top_k, reach},
                               {a->granularity, b->granularity, reach}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i) {
        const double small = fmin(pairs[i][0], pairs[i][1]), large = fmax(pairs[i][0], pairs[i][1]);
        if (!(large <= small * pairs[i][2]))
            return false;
    }
    return true;
}

/* Differences along one or two axes: a full neighbourhood would only cost time. */
static int axes_apart(const struct geometry *a, const struct geometry *b) {
    return (a->hidden != b->hidden) + (a->experts != b->experts) + (a->top_k != b->top_k) +
           (a->granularity < b->granularity || a->granularity > b->granularity);
}

static struct sample sample_of(const struct problem *problem, const struct geometry *g,
                               double step_time_s) {
    struct param_counts counts;
    count_params(g, &counts);
    const struct workload *const w = &problem->workload;
    const double tokens_per_s = (double)w->global_batch * (double)w->sequence / step_time_s;
    /* A constant factor (peak, GPUs) drops out of every slope. */
    return (struct sample){log(counts.n_total_law), log1p(-counts.sparsity), log(g->granularity),
                           log(counts.n_active_law * tokens_per_s)};
}

static enum mosaic_status collect(const struct problem *problem, const struct candidate *plan,
                                  struct sample *samples, int *count, struct status_error *err) {
    const struct geometry *const centre = &problem->geometries.items[plan->index];
    struct layout_scratch *const scratch = layout_scratch_new();
    if (!scratch)
        return status_no_memory(err);
    enum mosaic_status status = MOSAIC_OK;
    *count = 0;
    for (size_t i = 0; i < problem->geometries.count && *count < NEIGHBOURS_MAX; ++i) {
        const struct geometry *const g = &problem->geometries.items[i];
        if (axes_apart(g, centre) > 1 || !is_neighbour(g, centre))
            continue;
        struct best_layout best = {.found = true, .step_time_s = plan->step_time_s};
        struct layout_counts counts = {0};
        if (i != plan->index)
            TRY_GOTO(best_layout_find(scratch, problem, g, &best, &counts, err));
        if (best.found)
            samples[(*count)++] = sample_of(problem, g, best.step_time_s);
    }
out:
    layout_scratch_free(scratch);
    return status;
}

static void regressors(const struct sample *s, const struct sample *centre, double *x) {
    x[0] = 1.0;
    x[1] = s->log_n - centre->log_n;
    x[2] = s->log_dense - centre->log_dense;
    x[3] = s->log_g - centre->log_g;
}

/* QR least squares; false when the neighbours do not span the three directions. */
static bool fit_plane(const struct sample *samples, int count, const struct sample *centre,
                      double *slope, double *rms) {
    double a[NEIGHBOURS_MAX * PLANE], b[NEIGHBOURS_MAX], tau[PLANE], rest[NEIGHBOURS_MAX];
    for (int i = 0; i < count; ++i) {
        regressors(&samples[i], centre, &a[(size_t)i * PLANE]);
        b[i] = samples[i].log_mfu - centre->log_mfu;
    }
    gsl_matrix_view m = gsl_matrix_view_array(a, (size_t)count, PLANE);
    gsl_vector_view t = gsl_vector_view_array(tau, PLANE);
    gsl_vector_view y = gsl_vector_view_array(b, (size_t)count);
    gsl_vector_view x = gsl_vector_view_array(slope, PLANE);
    gsl_vector_view r = gsl_vector_view_array(rest, (size_t)count);
    if (gsl_linalg_QR_decomp(&m.matrix, &t.vector) != 0)
        return false;
    const double flattest = 1e-6;
    for (int k = 0; k < PLANE; ++k)
        if (!(fabs(a[k * PLANE + k]) > flattest * fabs(a[0])))
            return false;
    if (gsl_linalg_QR_lssolve(&m.matrix, &t.vector, &y.vector, &x.vector, &r.vector) != 0)
        return false;
    double squares = 0.0;
    for (int i = 0; i < count; ++i)
        squares += rest[i] * rest[i];
    *rms = sqrt(squares / (double)count);
    return isfinite(*rms) && isfinite(slope[1]) && isfinite(slope[2]) && isfinite(slope[3]);
}

enum mosaic_status mfu_elasticities_find(const struct problem *problem,
                                         const struct candidate *plan, struct mfu_elasticities *out,
                                         struct status_error *err) {
    struct sample samples[NEIGHBOURS_MAX] = {{0}};
    *out = (struct mfu_elasticities){0};
    TRY(collect(problem, plan, samples, &out->neighbours, err));
    if (out->neighbours <= PLANE)
        return MOSAIC_OK;
    const struct sample centre =
        sample_of(problem, &problem->geometries.items[plan->index], plan->step_time_s);
    double slope[PLANE];
    if (!fit_plane(samples, out->neighbours, &centre, slope, &out->rms))
        return MOSAIC_OK;
    out->is_known = true;
    out->n = slope[1];
    out->sparsity = slope[2];
    out->granularity = -slope[3];
    return MOSAIC_OK;
}
