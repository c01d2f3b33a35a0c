// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What one geometry on one machine costs per unit of work, resolved once: peaks times shares,
 * counts of parameters and FLOPs.  The context borrows; it lives as long as what it points to.
 */
#ifndef MOSAIC_STEP_CONTEXT_H
#define MOSAIC_STEP_CONTEXT_H

#include "engine/engine.h"
#include "machine/calibration.h"
#include "machine/collective.h"
#include "model/count.h"
#include "step/anchor.h"
#include "step/estimator.h"
#include "step/layout.h"

/* Bytes of one number: activations and weights travel and rest in bf16, softmax statistics in
 * FP32; gradients as the execution says. */
enum { BYTES_BF16 = 2, BYTES_FP32 = 4, WEIGHT_BYTES = BYTES_BF16 };

struct step_context {
    const struct geometry *geometry;
    const struct cluster *cluster;
    const struct calibration *calibration;
    const struct workload *workload;
    int way; /* of the problem's ways, for who lists them; the evaluator does not look */
    struct network network;
    struct engine engine;
    struct estimator estimator;
    struct param_counts params;
    struct flop_counts flops;
    double peak_flop_per_s;      /* dense, of the workload's precision: what MFU divides by */
    double peak16_flop_per_s;    /* dense bf16 */
    double gemm16_flop_per_s;    /* large bf16 GEMM inside a step */
    double gemm_flop_per_s;      /* the same in the workload's precision */
    double gemm_input_bytes;     /* of a number that is kept as the input of a GEMM */
    double quantise_bytes;       /* per GEMM input element; 0 in bf16 */
    double hbm_bytes_per_s;      /* what streaming kernels reach */
    double hbm_raw_bytes_per_s;  /* data sheet */
    double attention_flop_per_s; /* forward, at the workload's sequence */
    unsigned selective;          /* modules that selective recomputation runs again */
    unsigned stage_policies; /* bits of enum recompute that one pipeline's stages may mix, or 0 */
    size_t anchor_steps;     /* measured steps of this model, 0 for no anchor */
    double anchor_factor;    /* what they multiply the step by, else 1 */
    double sigma;            /* of ln(measured step time / predicted) */
    struct lookup_count lookups; /* of resolving the above */
};

void step_context_init(struct step_context *ctx, const struct geometry *geometry,
                       const struct cluster *cluster, const struct calibration *calibration,
                       const struct workload *workload, const struct engine *engine,
                       struct estimator estimator);

/* The slowest link that members of a group reach each other through, as collectives use it. */
struct group_link {
    double bytes_per_s, latency_s;
};
struct group_link step_group_link(const struct step_context *ctx, struct group group);

/* What copies between one GPU and its host reach, bytes/s and direction; the cluster states a link
 * where a job offloads. */
double step_host_bytes_per_s(const struct step_context *ctx);

/* Vocabulary padded to a multiple of the engine's unit x TP. */
double step_padded_vocab(const struct step_context *ctx, int tp);

#endif
