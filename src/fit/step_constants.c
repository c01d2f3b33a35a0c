// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Which constants of the step model are estimated from measured steps, and why.  A constant is
 * here when (1) no data sheet or kernel table gives it, or training does not reach what kernels
 * alone do, and (2) published steps move with it.  What tuned recipes hide (hand-offs, optimizer,
 * stragglers, context parallelism, shape of GEMMs) stays at its first-principles value: a fit would
 * learn that it costs nothing, and a search would then visit layouts where it does.
 *
 * Units are those of the scalars, and so are their meanings (machine/calibration.h).  Priors hold
 * what independent kernel tables or earlier fits say, and keep constants that few rows see in
 * their place; sd is of the logarithm.
 */
#include "fit/step_fit.h"

#include <math.h>

static const char ampere[] = "ampere", hopper[] = "hopper", blackwell[] = "blackwell";

#define SHARED(id, start, sd, least, most)                                                         \
    { id, STEP_SHARED, NULL, start, start, sd, least, most }
#define ARCHITECTURE(id, only, start, sd, least, most)                                             \
    { id, STEP_ARCHITECTURE, only, start, start, sd, least, most }
#define DEVICE(id, only, start, sd, least, most)                                                   \
    { id, STEP_DEVICE, only, start, start, sd, least, most }
#define FABRIC(id, only, start, sd, least, most)                                                   \
    { id, STEP_FABRIC, only, start, start, sd, least, most }

const struct step_constant step_constants[] = {
    /* Reach of large GEMMs: the first term of every step.  Kernel tables give 0.83, 0.80 and 0.69
     * of the peak; inside training less of it is left on Blackwell. */
    ARCHITECTURE(CAL_GEMM_SHARE_BF16, ampere, 0.85, 0.1, 0.2, 0.99),
    ARCHITECTURE(CAL_GEMM_SHARE_BF16, hopper, 0.75, 0.1, 0.2, 0.99),
    ARCHITECTURE(CAL_GEMM_SHARE_BF16, blackwell, 0.555, 0.15, 0.2, 0.99),
    /* Narrow formats have their own kernels; the quantisation pass is priced apart. */
    ARCHITECTURE(CAL_GEMM_SHARE_FP8, hopper, 0.74, 0.1, 0.2, 0.99),
    ARCHITECTURE(CAL_GEMM_SHARE_FP8, blackwell, 0.57, 0.15, 0.2, 0.99),
    ARCHITECTURE(CAL_GEMM_SHARE_MXFP8, blackwell, 0.625, 0.15, 0.2, 0.99),
    ARCHITECTURE(CAL_GEMM_SHARE_NVFP4, blackwell, 0.53, 0.15, 0.2, 0.99),
    /* Parts of one generation that differ by power and clocks, in no data sheet; over that of the
     * generation's reference (GB200, H100, A100), which stays at 1. */
    DEVICE(CAL_GEMM_SUSTAINED, "B200", 1, 0.3, 0.3, 1.5),
    DEVICE(CAL_GEMM_SUSTAINED, "GB300", 1, 0.3, 0.3, 1.5),
    DEVICE(CAL_GEMM_SUSTAINED, "H100-96G500W", 1, 0.3, 0.3, 1.5),
    /* Attention kernels by generation: the term that long sequences rest on. */
    ARCHITECTURE(CAL_ATTENTION_SHARE, ampere, 0.6, 0.15, 0.1, 0.95),
    ARCHITECTURE(CAL_ATTENTION_SHARE, hopper, 0.47, 0.2, 0.1, 0.95),
    ARCHITECTURE(CAL_ATTENTION_SHARE, blackwell, 0.59, 0.2, 0.1, 0.95),
    DEVICE(CAL_ATTENTION_SHARE, "GB300", 0.8, 0.2, 0.1, 0.99),
    ARCHITECTURE(CAL_ATTENTION_HALF_SEQUENCE, hopper, 800, 0.7, 50, 8000),
    /* Streaming kernels between GEMMs: short ones reach less than tables of copies say. */
    ARCHITECTURE(CAL_HBM_SHARE, NULL, 0.75, 0.2, 0.2, 0.99),
    /* Launches cannot be seen on the GPU: steps without CUDA graphs tell them. */
    ARCHITECTURE(CAL_HOST_KERNELS_DENSE, ampere, 285, 0.5, 10, 2000),
    ARCHITECTURE(CAL_HOST_KERNELS_MOE, hopper, 1070, 0.4, 100, 8000),
    ARCHITECTURE(CAL_HOST_KERNELS_MOE, blackwell, 1170, 0.4, 100, 8000),
    SHARED(CAL_HOST_KERNELS_LATENT, 200, 0.7, 1, 2000),
    /* What overlap leaves exposed is the recipe's doing: no microbenchmark has it. */
    SHARED(CAL_TP_OVERLAPPED, 0.15, 0.5, 0.02, 1),
    SHARED(CAL_EP_OVERLAPPED, 0.15, 0.5, 0.02, 1),
    SHARED(CAL_CP_OVERLAPPED, 0.2, 0.5, 0.02, 1),
    SHARED(CAL_DP_OVERLAP, 0.6, 0.3, 0.05, 1),
    /* Embedding, head and loss are rebalanced by hand in most recipes. */
    SHARED(CAL_IMBALANCE_SHARE, 0.45, 0.5, 0.02, 1),
    /* Instances with EFA: other host processors, and a dispatch that goes through host threads. */
    FABRIC(CAL_HOST_GAP, "efa", 10e-6, 0.3, 1e-6, 1e-4),
    FABRIC(CAL_DISPATCH_INTER_SHARE, "efa", 0.1, 1, 0.01, 1),
};
const size_t step_constant_count = sizeof step_constants / sizeof *step_constants;

void step_constants_follow(struct calibration *calibration) {
    double *const scalar = calibration->scalar;
    const double share = fmin(scalar[CAL_GEMM_SHARE_BF16] * scalar[CAL_GEMM_SUSTAINED], 1);
    const enum scalar head[] = {CAL_HEAD_FORWARD_SHARE, CAL_HEAD_BACKWARD_SHARE};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) {
        scalar[head[i]] = share;
        calibration->scalar_origin[head[i]] = ORIGIN_CALIBRATED;
    }
}
