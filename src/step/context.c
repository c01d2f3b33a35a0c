// SPDX-License-Identifier: GPL-3.0-or-later
/* Resolving a geometry, a machine and its calibration into rates. */
#include "step/context.h"

#include <math.h>

static double gemm_rate(const struct step_context *ctx, enum precision precision) {
    static const enum scalar share[PRECISION_COUNT] = {CAL_GEMM_SHARE_BF16, CAL_GEMM_SHARE_FP8,
                                                       CAL_GEMM_SHARE_MXFP8, CAL_GEMM_SHARE_NVFP4};
    const double *const scalar = ctx->calibration->scalar;
    const double sustained = ctx->estimator.kernel_rates ? 1.0 : scalar[CAL_GEMM_SUSTAINED];
    const double factor = precision == PRECISION_FP8 && ctx->workload->execution.block_scaling
                              ? scalar[CAL_GEMM_BLOCK_FACTOR]
                              : 1.0;
    return ctx->cluster->device.peak_flop_per_s[precision] * scalar[share[precision]] * sustained *
           factor;
}

static double attention_rate(struct step_context *ctx) {
    const struct calibration *const cal = ctx->calibration;
    const struct workload *const w = ctx->workload;
    const double sequence = (double)w->sequence;
    const double generation = ctx->engine.profile.attention_rate;
    double factor = generation > 0.0 ? generation : 1.0;
    if (w->execution.fp8_attention && w->precision != PRECISION_BF16)
        factor *= cal->scalar[CAL_ATTENTION_FP8_FACTOR];
    if (cal->has_curve[CAL_ATTENTION_CURVE])
        return factor * curve_at(&cal->curve[CAL_ATTENTION_CURVE], sequence, &ctx->lookups);
    return factor * ctx->peak16_flop_per_s * cal->scalar[CAL_ATTENTION_SHARE] /
           (1.0 + cal->scalar[CAL_ATTENTION_HALF_SEQUENCE] / sequence);
}

/* The published estimator stays as published.  A measured step never widens the interval. */
static void resolve_anchor(struct step_context *ctx) {
    const struct anchor *const anchor = anchor_find(ctx->workload->anchors, ctx->geometry);
    ctx->anchor_factor = 1.0;
    ctx->sigma = ctx->calibration->scalar[ctx->geometry->experts > 0 ? CAL_SIGMA_MOE : CAL_SIGMA];
    if (!anchor || anchor->residual.steps == 0 || ctx->estimator.pipeline_fraction)
        return;
    ctx->anchor_steps = anchor->residual.steps;
    ctx->anchor_factor = exp(anchor->residual.log_factor);
    ctx->sigma = fmin(ctx->sigma, anchor->residual.sigma);
}

/* Engines that keep GEMM inputs as they were quantised: a byte in 8 bits, half of one in 4, and the
 * scales of blocks of 32 and 16 numbers (OCP microscaling formats; NVFP4). */
static double gemm_input_bytes(const struct engine *engine, enum precision precision) {
    static const double bytes[PRECISION_COUNT] = {[PRECISION_BF16] = BYTES_BF16,
                                                  [PRECISION_FP8] = 1.0,
                                                  [PRECISION_MXFP8] = 1.0 + 1.0 / 32.0,
                                                  [PRECISION_NVFP4] = 0.5 + 1.0 / 16.0};
    return engine->keeps_quantised ? bytes[precision] : BYTES_BF16;
}

void step_context_init(struct step_context *ctx, const struct geometry *geometry,
                       const struct cluster *cluster, const struct calibration *calibration,
                       const struct workload *workload, const struct engine *engine,
                       struct estimator estimator) {
    *ctx = (struct step_context){.geometry = geometry,
                                 .cluster = cluster,
                                 .calibration = calibration,
                                 .workload = workload,
                                 .engine = *engine,
                                 .estimator = estimator};
    ctx->network = network_of(cluster, calibration);
    if (estimator.link_peak)
        ctx->network.intra_share = ctx->network.inter_share = 1.0;
    count_params(geometry, &ctx->params);
    count_flops(geometry, (double)workload->sequence, &ctx->flops);
    const enum precision precision = workload->precision;
    ctx->peak_flop_per_s = cluster->device.peak_flop_per_s[precision];
    ctx->peak16_flop_per_s = cluster->device.peak_flop_per_s[PRECISION_BF16];
    ctx->gemm16_flop_per_s = gemm_rate(ctx, PRECISION_BF16);
    ctx->gemm_flop_per_s = gemm_rate(ctx, precision);
    ctx->gemm_input_bytes = gemm_input_bytes(engine, precision);
    ctx->quantise_bytes = precision == PRECISION_BF16 ? 0.0
                          : precision == PRECISION_FP8 && workload->execution.block_scaling
                              ? calibration->scalar[CAL_QUANTISE_BLOCK_BYTES]
                              : calibration->scalar[CAL_QUANTISE_BYTES];
    ctx->hbm_raw_bytes_per_s = cluster->device.hbm_bytes_per_s;
    ctx->hbm_bytes_per_s = ctx->hbm_raw_bytes_per_s * calibration->scalar[CAL_HBM_SHARE];
    ctx->attention_flop_per_s = attention_rate(ctx);
    ctx->selective = execution_selective(&workload->execution);
    resolve_anchor(ctx);
}

double step_padded_vocab(const struct step_context *ctx, int tp) {
    const double unit = (double)ctx->engine.vocab_pad_unit * (double)tp;
    return ceil((double)ctx->geometry->vocab / unit) * unit;
}

double step_host_bytes_per_s(const struct step_context *ctx) {
    return ctx->cluster->host_link_bytes_per_s * ctx->calibration->scalar[CAL_HOST_LINK_SHARE];
}

struct group_link step_group_link(const struct step_context *ctx, struct group group) {
    const struct cluster *const c = ctx->cluster;
    const bool crosses = group_domains(c, group) > 1;
    const struct tier *const tier =
        crosses ? cluster_tier_for(c, group.ranks * group.stride) : &c->tiers[0];
    const double share = crosses ? ctx->network.inter_share : ctx->network.intra_share;
    return (struct group_link){tier->bytes_per_s * share, tier->latency_s};
}
