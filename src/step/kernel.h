// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Time of single kernels: a GEMM forward and backward, grouped GEMMs, streaming passes, the
 * attention core.  Additive roofline: FLOPs / rate x saturation + bytes / HBM.
 */
#ifndef MOSAIC_STEP_KERNEL_H
#define MOSAIC_STEP_KERNEL_H

#include "step/layer_cost.h"

/* Forward and backward of one operator class, accumulated over a layer. */
struct layer_work {
    struct kernel_times forward, backward;
    double forward_flop; /* GEMM and attention FLOPs of forward */
};

/* y[m, n] = x[m, k] w[k, n]; bf16_only keeps it out of the workload's low precision. */
void kernel_gemm(const struct step_context *ctx, double m, double n, double k, bool bf16_only,
                 struct layer_work *work);
/* One expert FFN over `experts` local experts with `rows` rows each. */
void kernel_grouped_ffn(const struct step_context *ctx, double rows, double experts, double width,
                        struct layer_work *work);
/* The attention core over `tokens` query tokens and `heads` local heads: FLOPs of the mean query,
 * time of the last of `ranks` parts of the sequence, the busiest one. */
void kernel_attention(const struct step_context *ctx, double tokens, double heads, int ranks,
                      struct layer_work *work);
/* `bytes` moved forward, `ratio` times that backward. */
void kernel_stream(const struct step_context *ctx, double bytes, double ratio,
                   struct layer_work *work);

#endif
