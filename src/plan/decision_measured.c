// SPDX-License-Identifier: GPL-3.0-or-later
/* Anchors of a model: those it has, as that many equal residuals, and one a measured layout. */
#include "plan/decision_measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double measured_layout_s(const struct measured_layout *m) {
    return exp(m->sum_log_s / (double)m->steps);
}

static bool is_same(const struct measured_layout *a, const struct measured_layout *b) {
    return a->index == b->index && a->nodes == b->nodes &&
           mesh_compare(&a->layout.mesh, &b->layout.mesh) == 0;
}

bool measured_layouts_add(struct measured_layouts *layouts, const struct measured_layout *one) {
    for (size_t i = 0; i < layouts->count; ++i)
        if (is_same(&layouts->items[i], one)) {
            layouts->items[i].steps += one->steps;
            layouts->items[i].sum_log_s += one->sum_log_s;
            return true;
        }
    if (layouts->count == MEASURED_LAYOUTS_MAX)
        return false;
    layouts->items[layouts->count++] = *one;
    return true;
}

/* Of one model, residuals as quotients of times. */
struct residuals {
    size_t count;
    double measured_s[MEASURED_LAYOUTS_MAX + ANCHORS_MAX];
    double predicted_s[MEASURED_LAYOUTS_MAX + ANCHORS_MAX];
};

static void add_residual(struct residuals *r, double measured_s, double predicted_s) {
    if (r->count == sizeof r->measured_s / sizeof r->measured_s[0])
        return;
    r->measured_s[r->count] = measured_s;
    r->predicted_s[r->count++] = predicted_s;
}

/* The residual that an anchor's steps have together: its factor without the shrinkage. */
static double middle_of(const struct anchor_residual *r, double between, double within) {
    const double said = (double)r->steps * between * between;
    return said > 0.0 ? r->log_factor * (said + within * within) / said : 0.0;
}

static enum mosaic_status anchor_model(const struct problem *p,
                                       const struct measured_layouts *layouts, size_t index,
                                       struct residuals *r, struct anchors *anchors,
                                       struct status_error *err) {
    const double *const scalar = p->calibration.scalar;
    const double between = scalar[CAL_ANCHOR_BETWEEN], within = scalar[CAL_ANCHOR_WITHIN];
    const struct geometry *const g = &p->geometries.items[index];
    const struct anchor *const had = anchor_find(p->workload.anchors, g);
    r->count = 0;
    for (size_t i = 0; had && i < had->residual.steps; ++i)
        add_residual(r, exp(middle_of(&had->residual, between, within)), 1.0);
    for (size_t i = 0; i < layouts->count; ++i) {
        const struct measured_layout *const m = &layouts->items[i];
        if (m->index == index)
            add_residual(r, measured_layout_s(m), m->predicted_s / m->anchor_factor);
    }
    struct anchor *at = NULL;
    for (size_t i = 0; i < anchors->count; ++i)
        if (geometry_compare(&anchors->items[i].geometry, g) == 0)
            at = &anchors->items[i];
    if (!at && anchors->count == ANCHORS_MAX)
        return status_set(err, MOSAIC_BAD_INPUT, "measured steps of more than %d models",
                          (int)ANCHORS_MAX);
    at = at ? at : &anchors->items[anchors->count++];
    at->geometry = *g;
    anchor_fit(r->measured_s, r->predicted_s, r->count, between, within, &at->residual);
    return MOSAIC_OK;
}

static bool is_first_of_model(const struct measured_layouts *layouts, size_t i) {
    for (size_t k = 0; k < i; ++k)
        if (layouts->items[k].index == layouts->items[i].index)
            return false;
    return true;
}

enum mosaic_status anchored_problem_init(const struct problem *problem,
                                         const struct measured_layouts *layouts,
                                         struct anchored_problem *out, struct status_error *err) {
    enum mosaic_status status = MOSAIC_OK;
    const size_t ways = (size_t)problem->ways.count;
    struct residuals *const residuals = malloc(sizeof *residuals);
    out->problem = *problem;
    out->anchors = (struct anchors){0};
    out->ways = calloc(ways > 0 ? ways : 1, sizeof *out->ways);
    if (!residuals || !out->ways) {
        status = status_no_memory(err);
        goto out;
    }
    if (problem->workload.anchors)
        out->anchors = *problem->workload.anchors;
    for (size_t i = 0; i < layouts->count; ++i)
        if (is_first_of_model(layouts, i))
            TRY_GOTO(anchor_model(problem, layouts, layouts->items[i].index, residuals,
                                  &out->anchors, err));
    out->problem.workload.anchors = &out->anchors;
    for (size_t i = 0; i < ways; ++i) {
        out->ways[i] = problem->ways.items[i];
        out->ways[i].anchors = &out->anchors;
    }
    out->problem.ways.items = ways > 0 ? out->ways : NULL;
out:
    free(residuals);
    if (status != MOSAIC_OK)
        anchored_problem_free(out);
    return status;
}

void anchored_problem_free(struct anchored_problem *anchored) {
    if (!anchored)
        return;
    free(anchored->ways);
    anchored->ways = NULL;
}

struct measured_pairs measured_pairs_on(const struct measured_layouts *layouts, int nodes,
                                        struct measured_pair *pairs) {
    size_t count = 0;
    for (size_t i = 0; i < layouts->count; ++i) {
        const struct measured_layout *const m = &layouts->items[i];
        if (m->nodes == nodes)
            pairs[count++] = (struct measured_pair){m->index, m->layout, measured_layout_s(m)};
    }
    return (struct measured_pairs){count, pairs};
}
