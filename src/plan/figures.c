// SPDX-License-Identifier: GPL-3.0-or-later
/* Copies of a problem with one figure scaled. */
#include "plan/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *text;
} words[FIGURES] = {
    [FIGURE_PEAK] = {"peak_flop_per_s", "FLOP/s of the device"},
    [FIGURE_HBM] = {"hbm_bytes_per_s", "device memory bandwidth"},
    [FIGURE_MEMORY] = {"memory_bytes", "usable device memory"},
    [FIGURE_INNER_LINK] = {"inner_link_bytes_per_s", "link inside a domain"},
    [FIGURE_OUTER_LINK] = {"outer_link_bytes_per_s", "network between domains"},
    [FIGURE_ALL_TO_ALL] = {"all_to_all_bytes_per_s", "measured all-to-all"},
    [FIGURE_LAUNCH_GAP] = {"launch_gap_s", "host time per kernel"},
    [FIGURE_IMBALANCE] = {"imbalance", "busiest expert rank over the mean"},
    [FIGURE_STRAGGLERS] = {"stragglers", "growth per doubling of the GPUs"},
    [FIGURE_GOODPUT] = {"goodput", "share of the time in which training advances"},
};

const char *figure_name(enum figure figure) {
    return words[figure].name;
}

const char *figure_text(enum figure figure) {
    return words[figure].text;
}

static bool has_all_to_all(const struct calibration *c) {
    for (int i = 0; i < c->collective_count; ++i)
        if (c->collective[i].kind == COLLECTIVE_ALL_TO_ALL)
            return true;
    return false;
}

double figure_value(const struct problem *problem, enum figure figure) {
    const struct cluster *const c = &problem->cluster;
    const double *const scalar = problem->calibration.scalar;
    switch (figure) {
    case FIGURE_PEAK:
        return c->device.peak_flop_per_s[problem->workload.precision];
    case FIGURE_HBM:
        return c->device.hbm_bytes_per_s;
    case FIGURE_MEMORY:
        return c->device.memory_bytes;
    case FIGURE_INNER_LINK:
        return c->tiers[0].bytes_per_s;
    case FIGURE_OUTER_LINK:
        return c->tier_count > 1 ? c->tiers[c->tier_count - 1].bytes_per_s : 0.0;
    case FIGURE_LAUNCH_GAP:
        return scalar[CAL_HOST_GAP];
    case FIGURE_IMBALANCE:
        return problem->workload.expert_tokens ? 0.0 : problem->workload.imbalance;
    case FIGURE_STRAGGLERS:
        return scalar[CAL_STRAGGLER];
    case FIGURE_GOODPUT:
        return problem->budget.goodput;
    case FIGURE_ALL_TO_ALL:
    case FIGURES:
        break;
    }
    return 0.0;
}

bool figure_exists(const struct problem *problem, enum figure figure) {
    if (figure == FIGURE_ALL_TO_ALL)
        return has_all_to_all(&problem->calibration);
    if (figure == FIGURE_OUTER_LINK &&
        cluster_domain_in_use(&problem->cluster) >= cluster_gpus(&problem->cluster))
        return false;
    return figure_value(problem, figure) > 0.0;
}

bool figure_moves_steps(enum figure figure) {
    return figure != FIGURE_GOODPUT;
}

double figure_most(const struct problem *problem, enum figure figure) {
    return figure == FIGURE_GOODPUT ? 1.0 / problem->budget.goodput : (double)INFINITY;
}

double figure_least(const struct problem *problem, enum figure figure) {
    return figure == FIGURE_IMBALANCE ? 1.0 / problem->workload.imbalance : 0.0;
}

/* The curve that the scaled samples give. */
static enum mosaic_status scale_curve(struct curve *c, double factor, struct status_error *err) {
    double y[CURVE_MAX_SAMPLES];
    struct curve scaled;
    for (int i = 0; i < c->samples; ++i)
        y[i] = c->y[i] * factor;
    TRY(curve_build(&scaled, c->method, c->x, y, (size_t)c->samples, err));
    *c = scaled;
    return MOSAIC_OK;
}

/* Members of one domain alone, or of several. */
static bool is_inner(const struct collective_curve *c) {
    return c->ranks_per_domain >= c->ranks;
}

static enum mosaic_status scale_collectives(struct calibration *c, enum figure figure,
                                            double factor, struct status_error *err) {
    for (int i = 0; i < c->collective_count; ++i) {
        struct collective_curve *const one = &c->collective[i];
        const bool is_meant = figure == FIGURE_ALL_TO_ALL
                                  ? one->kind == COLLECTIVE_ALL_TO_ALL
                                  : is_inner(one) == (figure == FIGURE_INNER_LINK);
        if (is_meant)
            TRY(scale_curve(&one->bus, factor, err));
    }
    return MOSAIC_OK;
}

static void scale_tiers(struct cluster *c, enum figure figure, double factor) {
    const int first = figure == FIGURE_INNER_LINK ? 0 : 1,
              last = figure == FIGURE_INNER_LINK ? 1 : c->tier_count;
    for (int i = first; i < last; ++i)
        c->tiers[i].bytes_per_s *= factor;
}

static void scale_imbalance(struct problem *p, double factor) {
    p->workload.imbalance = fmax(1.0, p->workload.imbalance * factor);
    for (int i = 0; p->ways.items && i < p->ways.count; ++i)
        p->ways.items[i].imbalance = p->workload.imbalance;
}

static enum mosaic_status scale(struct problem *p, enum figure figure, double factor,
                                struct status_error *err) {
    struct device *const device = &p->cluster.device;
    double *const scalar = p->calibration.scalar;
    switch (figure) {
    case FIGURE_PEAK:
        for (int i = 0; i < PRECISION_COUNT; ++i)
            device->peak_flop_per_s[i] *= factor;
        for (int i = 0; i < CURVE_QUANTITIES; ++i)
            if (p->calibration.has_curve[i] &&
                calibration_curve_info((enum curve_quantity)i)->dimension == DIM_FLOP_PER_S)
                TRY(scale_curve(&p->calibration.curve[i], factor, err));
        return MOSAIC_OK;
    case FIGURE_HBM:
        device->hbm_bytes_per_s *= factor;
        return MOSAIC_OK;
    case FIGURE_MEMORY:
        device->memory_bytes *= factor;
        return MOSAIC_OK;
    case FIGURE_INNER_LINK:
    case FIGURE_OUTER_LINK:
        scale_tiers(&p->cluster, figure, factor);
        return scale_collectives(&p->calibration, figure, factor, err);
    case FIGURE_ALL_TO_ALL:
        scalar[CAL_DISPATCH_INTER_SHARE] *= factor;
        return scale_collectives(&p->calibration, figure, factor, err);
    case FIGURE_LAUNCH_GAP:
        scalar[CAL_HOST_GAP] *= factor;
        return MOSAIC_OK;
    case FIGURE_IMBALANCE:
        scale_imbalance(p, factor);
        return MOSAIC_OK;
    case FIGURE_STRAGGLERS:
        scalar[CAL_STRAGGLER] *= factor;
        return MOSAIC_OK;
    case FIGURE_GOODPUT:
        p->budget.goodput = fmin(1.0, p->budget.goodput * factor);
        return MOSAIC_OK;
    case FIGURES:
        break;
    }
    return MOSAIC_OK;
}

enum mosaic_status figure_scaled(const struct problem *problem, enum figure figure, double factor,
                                 struct problem **out, struct status_error *err) {
    struct problem *const p = malloc(sizeof *p);
    struct workload *const ways =
        problem->ways.count > 0 ? malloc((size_t)problem->ways.count * sizeof *ways) : NULL;
    if (!p || (problem->ways.count > 0 && !ways)) {
        free(p);
        free(ways);
        return status_no_memory(err);
    }
    *p = *problem;
    p->ways.items = ways;
    if (ways)
        memcpy(ways, problem->ways.items, (size_t)problem->ways.count * sizeof *ways);
    const enum mosaic_status status = scale(p, figure, factor, err);
    if (status != MOSAIC_OK) {
        figure_free(p);
        return status;
    }
    *out = p;
    return MOSAIC_OK;
}

void figure_free(struct problem *scaled) {
    if (!scaled)
        return;
    free(scaled->ways.items);
    free(scaled);
}
