// SPDX-License-Identifier: GPL-3.0-or-later
/* Sums of one layer table against every mesh that it serves. */
#include "plan/shape_bound.h"

#include <math.h>
#include <string.h>

/* Of one micro-batch over the whole model; where stages may recompute differently, the least. */
struct model_sums {
    double gpu_s, collectives_s; /* the second: what of the first may be transfers */
    double embedding_s, host_s;
};

static struct model_sums sums_of(const struct step_context *ctx, const struct layer_table *table) {
    const struct geometry *const g = ctx->geometry;
    struct model_sums out = {.embedding_s = table->embedding.gpu_s};
    double layers[LAYER_KINDS];
    layers[LAYER_MOE] = (double)geometry_moe_layers(g);
    layers[LAYER_DENSE] = (double)g->layers - layers[LAYER_MOE];
    layers[table->mtp_kind] += (double)g->mtp_layers;
    for (int kind = 0; kind < LAYER_KINDS; ++kind) {
        if (!(layers[kind] > 0.0))
            continue;
        const struct layer_cost *const cost = &table->cost[kind];
        const struct layer_least *const least = &table->least[kind];
        const double gpu_s = table->is_mixable ? least->gpu_s : cost->gpu_s;
        const double collectives_s =
            table->is_mixable ? gpu_s : cost->tp_s + cost->cp_s + cost->ep_s;
        out.gpu_s += layers[kind] * gpu_s;
        out.collectives_s += layers[kind] * collectives_s;
        out.host_s += layers[kind] * (table->is_mixable ? least->host_s : cost->host_s);
    }
    return out;
}

/* Micro-batches that pass each stage, over the stages. */
static double passes_of(const struct step_context *ctx, const struct mesh *shape) {
    return (double)ctx->workload->global_batch * (double)shape->tp * (double)shape->cp /
           ((double)shape->micro_batch * (double)cluster_gpus(ctx->cluster));
}

double shape_bound_s(const struct step_context *ctx, const struct layer_table *table,
                     const struct mesh *shape) {
    if (ctx->estimator.pipeline_fraction)
        return 0.0;
    const struct model_sums sums = sums_of(ctx, table);
    const double rounding = 1.0 - 1e-11;
    return passes_of(ctx, shape) *
           (fmax(sums.gpu_s + sums.embedding_s, sums.host_s) + table->head_s) * step_factor(ctx) *
           rounding;
}

static bool is_default(const struct estimator *e) {
    const struct estimator plain = estimator_default();
    for (int i = 0; i < ESTIMATOR_SWITCH_COUNT; ++i) {
        const char *text;
        bool is_on, is_plain;
        (void)estimator_switch(e, i, &text, &is_on);
        (void)estimator_switch(&plain, i, &text, &is_plain);
        if (is_on != is_plain)
            return false;
    }
    return true;
}

bool batches_are_bounded(const struct step_context *ctx) {
    const struct execution *const e = &ctx->workload->execution;
    return is_default(&ctx->estimator) && e->dispatch_chunk == 0 && e->vocab_ring <= 1;
}

/* The largest value so far, and the largest share of it that a later one has lost. */
struct dip {
    double most, worst;
};

static void dip_at(struct dip *d, double rate) {
    d->most = fmax(d->most, rate);
    d->worst = fmax(d->worst, d->most / rate);
}

/* Between two nodes the time is linear in log2 x: the rate has one minimum, if any, where the time
 * is its own slope in ln x. */
static void dip_inside(struct dip *d, const struct curve *c, int i) {
    const double rise = c->grid[i + 1] - c->grid[i];
    const double slope = rise * c->inv_step / log(2.0);
    if (!(rise > 0.0) || !(slope > c->grid[i]) || !(slope < c->grid[i + 1]))
        return;
    const double at = (double)i + (slope - c->grid[i]) / rise;
    dip_at(d, exp2(c->log_min + at / c->inv_step) / slope);
}

static double curve_dip(const struct curve *c) {
    struct dip d = {0.0, 1.0};
    if (c->method == CURVE_LATENCY)
        return 1.0;
    dip_at(&d, c->y[0]);
    for (int i = 0; c->samples > 1 && i <= c->intervals; ++i) {
        const bool is_rate = c->method == CURVE_RATE;
        dip_at(&d, is_rate ? exp2(c->log_min + (double)i / c->inv_step) / c->grid[i] : c->grid[i]);
        if (is_rate && i < c->intervals)
            dip_inside(&d, c, i);
    }
    dip_at(&d, c->y[c->samples - 1]);
    return d.worst;
}

double collective_dip(const struct calibration *calibration) {
    double worst = 1.0;
    for (int i = 0; i < calibration->collective_count; ++i)
        worst = fmax(worst, curve_dip(&calibration->collective[i].bus));
    return worst;
}

/* Launches of the least recomputation over those of this one. */
static double least_launches(const struct step_context *ctx, enum recompute recompute) {
    const double *const scalar = ctx->calibration->scalar;
    const double factors[RECOMPUTE_MODES] = {
        [RECOMPUTE_NONE] = 1.0 / scalar[CAL_HOST_FULL_RECOMPUTE],
        [RECOMPUTE_SELECTIVE] =
            scalar[CAL_HOST_SELECTIVE_RECOMPUTE] / scalar[CAL_HOST_FULL_RECOMPUTE],
        [RECOMPUTE_FULL] = 1.0};
    double least = factors[recompute];
    for (int i = 0; i < RECOMPUTE_MODES; ++i)
        least = fmin(least, factors[i]);
    return least / factors[recompute];
}

double batches_bound_s(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *shape, bool is_any_recompute, double dip) {
    struct model_sums sums = sums_of(ctx, table);
    if (is_any_recompute)
        sums.host_s *= least_launches(ctx, shape->recompute);
    /* Hidden transfers stand under compute: then all may shrink with a transfer. */
    const double stays_s =
        ctx->workload->execution.overlap == 0 ? sums.gpu_s - sums.collectives_s : 0.0;
    const double gpu_s = stays_s + (sums.gpu_s + sums.embedding_s - stays_s) / dip;
    const double rounding = 1.0 - 2e-11;
    return passes_of(ctx, shape) * (fmax(gpu_s, sums.host_s) + table->head_s / dip) *
           step_factor(ctx) * rounding;
}

bool memory_rises(const struct step_context *ctx) {
    const struct execution *const e = &ctx->workload->execution;
    return e->dispatch_chunk == 0 && !(e->checkpoint_host_bytes > 0.0) &&
           !ctx->estimator.release_memory;
}
