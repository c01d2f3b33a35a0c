// SPDX-License-Identifier: GPL-3.0-or-later
/* Single kernels: additive roofline with half-size saturation. */
#include "step/kernel.h"

#include "step/causal_span.h"

#include <math.h>

double kernel_times_sum(const struct kernel_times *t) {
    return t->gemm_s + t->grouped_gemm_s + t->attention_s + t->elementwise_s + t->router_s +
           t->permute_s + t->quantise_s;
}

static double saturation(double half, double size) {
    return 1.0 + half / size;
}

void kernel_gemm(const struct step_context *ctx, double m, double n, double k, bool bf16_only,
                 struct layer_work *work) {
    const double half = ctx->calibration->scalar[CAL_GEMM_HALF_SIZE];
    const double rate = bf16_only ? ctx->gemm16_flop_per_s : ctx->gemm_flop_per_s;
    const double flop = 2.0 * m * n * k;
    const double compute_s =
        flop / rate * saturation(half, m) * saturation(half, n) * saturation(half, k);
    const double operands = BYTES_BF16 * (m * k + k * n + m * n);
    work->forward.gemm_s += compute_s + operands / ctx->hbm_bytes_per_s;
    /* dgrad and wgrad each move the three operands; the weight gradient is accumulated in FP32
     * (one read, one write) instead of written once in bf16. */
    const double accumulate = (2.0 * BYTES_FP32 - BYTES_BF16) * k * n;
    work->backward.gemm_s += 2.0 * compute_s + (2.0 * operands + accumulate) / ctx->hbm_bytes_per_s;
    work->forward_flop += flop;
    if (!bf16_only) {
        work->forward.quantise_s += ctx->quantise_bytes * m * k / ctx->hbm_bytes_per_s;
        work->backward.quantise_s += ctx->quantise_bytes * m * n / ctx->hbm_bytes_per_s;
    }
}

/* The published table: share of the peak by rows, flat beyond its ends. */
static void grouped_by_table(const struct step_context *ctx, double rows, double flop,
                             struct layer_work *work) {
    const struct calibration *const cal = ctx->calibration;
    struct lookup_count ignored = {{0}};
    const double forward = curve_at(&cal->curve[CAL_GROUPED_FORWARD_CURVE], rows, &ignored);
    const double backward = curve_at(&cal->curve[CAL_GROUPED_BACKWARD_CURVE], rows, &ignored);
    work->forward.grouped_gemm_s += flop / (ctx->peak16_flop_per_s * forward);
    work->backward.grouped_gemm_s += 2.0 * flop / (ctx->peak16_flop_per_s * backward);
}

void kernel_grouped_ffn(const struct step_context *ctx, double rows, double experts, double width,
                        struct layer_work *work) {
    const struct calibration *const cal = ctx->calibration;
    const double hidden = (double)ctx->geometry->hidden;
    const double matrices = (double)ctx->geometry->ffn_matrices;
    const double all_rows = rows * experts;
    const double flop = 2.0 * matrices * hidden * width * all_rows;
    work->forward_flop += flop;
    if (ctx->estimator.grouped_curve && cal->has_curve[CAL_GROUPED_FORWARD_CURVE] &&
        cal->has_curve[CAL_GROUPED_BACKWARD_CURVE]) {
        grouped_by_table(ctx, rows, flop, work);
        return;
    }
    const double rate = ctx->gemm_flop_per_s * cal->scalar[CAL_GROUPED_SHARE];
    const double exponent = cal->scalar[CAL_GROUPED_EXPONENT];
    const double few = saturation(cal->scalar[CAL_GROUPED_HALF_ROWS], rows);
    const double compute_s =
        flop / rate * (exponent < 1.0 || exponent > 1.0 ? pow(few, exponent) : few);
    const double weights = matrices * hidden * width * experts;
    const double activations = all_rows * (2.0 * hidden + matrices * width);
    const double bytes = BYTES_BF16 * (weights + activations);
    /* 2.2 passes over weights and activations and one FP32 pass over the gradients: the form that
     * agreed with measured steps (mosaic-model(7)). */
    const double backward_passes = 2.2;
    work->forward.grouped_gemm_s += compute_s + bytes / ctx->hbm_bytes_per_s;
    work->backward.grouped_gemm_s +=
        2.0 * compute_s + (backward_passes * bytes + BYTES_FP32 * weights) / ctx->hbm_bytes_per_s;
    const double quantised = all_rows * (hidden + width);
    work->forward.quantise_s += ctx->quantise_bytes * quantised / ctx->hbm_bytes_per_s;
    work->backward.quantise_s += ctx->quantise_bytes * quantised / ctx->hbm_bytes_per_s;
}

/* Keys of a query, times 2, in the layers of a model on average: the window caps those that use it.
 * Over the last of `ranks` parts of the sequence; 1: over all of it. */
static double mean_span(const struct step_context *ctx, int ranks) {
    const struct geometry *const g = ctx->geometry;
    const double sequence = (double)ctx->workload->sequence;
    const double whole = causal_span_last(sequence, 0.0, ranks);
    if (g->window <= 0 || g->window_layers <= 0)
        return whole;
    const double share = (double)g->window_layers / (double)g->layers;
    return (1.0 - share) * whole + share * causal_span_last(sequence, (double)g->window, ranks);
}

void kernel_attention(const struct step_context *ctx, double tokens, double heads, int ranks,
                      struct layer_work *work) {
    const struct geometry *const g = ctx->geometry;
    const double *const scalar = ctx->calibration->scalar;
    const double score_dim = (double)(g->head_dim + g->rope_dim);
    const double flop = tokens * mean_span(ctx, 1) * heads * (score_dim + (double)g->v_head_dim);
    double time_s = flop / ctx->attention_flop_per_s;
    if (ranks > 1)
        time_s *= mean_span(ctx, ranks) / mean_span(ctx, 1);
    work->forward.attention_s += time_s;
    work->backward.attention_s +=
        time_s * scalar[CAL_ATTENTION_BACKWARD_FLOP] / scalar[CAL_ATTENTION_BACKWARD_RATE];
    work->forward_flop += flop;
    if (!ctx->workload->execution.unfused_attention)
        return;
    const double scores = tokens * (double)ctx->workload->sequence * heads;
    const double written_s = scalar[CAL_ATTENTION_SCORE_BYTES] * scores / ctx->hbm_bytes_per_s;
    work->forward.attention_s += written_s / 3.0;
    work->backward.attention_s += written_s * 2.0 / 3.0;
}

void kernel_stream(const struct step_context *ctx, double bytes, double ratio,
                   struct layer_work *work) {
    const double time_s = bytes / ctx->hbm_bytes_per_s;
    work->forward.elementwise_s += time_s;
    work->backward.elementwise_s += ratio * time_s;
}
