// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What has been measured or stated of a machine and its software stack: scalar constants and curves
 * by quantity, collectives by kind, ranks and placement.  Every scalar has a value: a calibration
 * document is laid over the generic one, and the origin says which of the two gave it.
 */
#ifndef MOSAIC_MACHINE_CALIBRATION_H
#define MOSAIC_MACHINE_CALIBRATION_H

#include "base/units.h"
#include "machine/curve.h"

/* X(identifier, document key, dimension, smallest, largest, text) */
#define SCALAR_LIST(X)                                                                             \
    X(CAL_GEMM_SHARE_BF16, "gemm.bf16.share", DIM_FRACTION, 1e-3, 1,                               \
      "share of the dense bf16 peak that a large GEMM reaches in a burst")                         \
    X(CAL_GEMM_SHARE_FP8, "gemm.fp8.share", DIM_FRACTION, 1e-3, 1, "the same for fp8 per tensor")  \
    X(CAL_GEMM_BLOCK_FACTOR, "gemm.fp8_block.factor", DIM_NUMBER, 0.1, 10,                         \
      "rate of fp8 GEMMs with a scale per block over those with one per tensor")                   \
    X(CAL_GEMM_SHARE_MXFP8, "gemm.mxfp8.share", DIM_FRACTION, 1e-3, 1, "the same for MXFP8")       \
    X(CAL_GEMM_SHARE_NVFP4, "gemm.nvfp4.share", DIM_FRACTION, 1e-3, 1, "the same for NVFP4")       \
    X(CAL_GEMM_SUSTAINED, "gemm.sustained", DIM_FRACTION, 1e-2, 1.5,                               \
      "rate of GEMMs inside long training steps over their burst rate (clocks, power)")            \
    X(CAL_GEMM_HALF_SIZE, "gemm.half_size", DIM_NUMBER, 0, 1e5,                                    \
      "rows, columns or depth at which a GEMM runs at half rate")                                  \
    X(CAL_GROUPED_SHARE, "grouped_gemm.share", DIM_FRACTION, 1e-2, 2,                              \
      "rate of a grouped GEMM over that of a dense one with many rows per expert")                 \
    X(CAL_GROUPED_HALF_ROWS, "grouped_gemm.half_rows", DIM_NUMBER, 0, 1e5,                         \
      "rows per expert at which a grouped GEMM runs at half rate")                                 \
    X(CAL_GROUPED_EXPONENT, "grouped_gemm.exponent", DIM_NUMBER, 0.1, 2,                           \
      "exponent of a grouped GEMM's slow-down with few rows, (1 + half_rows / rows)^exponent")     \
    X(CAL_QUANTISE_BYTES, "quantise.bytes_per_element", DIM_NUMBER, 0, 64,                         \
      "bytes moved per element to quantise an 8- or 4-bit GEMM input")                             \
    X(CAL_QUANTISE_BLOCK_BYTES, "quantise.block_bytes_per_element", DIM_NUMBER, 0, 64,             \
      "the same with a scale per block")                                                           \
    X(CAL_HBM_SHARE, "hbm.share", DIM_FRACTION, 1e-2, 1,                                           \
      "share of the HBM data-sheet bandwidth that streaming kernels reach")                        \
    X(CAL_ATTENTION_SHARE, "attention.share", DIM_FRACTION, 1e-3, 1,                               \
      "share of the bf16 peak of a long attention core, where no curve is given")                  \
    X(CAL_ATTENTION_HALF_SEQUENCE, "attention.half_sequence", DIM_NUMBER, 0, 1e6,                  \
      "sequence at which the attention core runs at half rate, where no curve is given")           \
    X(CAL_ATTENTION_BACKWARD_FLOP, "attention.backward_flop", DIM_NUMBER, 1, 10,                   \
      "FLOPs of the attention core's backward over its forward")                                   \
    X(CAL_ATTENTION_BACKWARD_RATE, "attention.backward_rate", DIM_FRACTION, 1e-2, 2,               \
      "rate of the attention core's backward over its forward")                                    \
    X(CAL_ATTENTION_FP8_FACTOR, "attention.fp8_factor", DIM_NUMBER, 0.1, 10,                       \
      "rate of the attention core in 8 bits over bf16")                                            \
    X(CAL_ATTENTION_SCORE_BYTES, "attention.unfused_bytes_per_score", DIM_NUMBER, 0, 1000,         \
      "bytes moved per score where attention is not fused, forward and backward")                  \
    X(CAL_ROUTER_BYTES, "router.bytes_per_logit", DIM_NUMBER, 0, 1024,                             \
      "bytes moved per router logit (softmax, losses), forward and backward")                      \
    X(CAL_TOP_K_RATE, "router.top_k_rate", DIM_NUMBER, 1e6, 1e15, "logits per second of top-k")    \
    X(CAL_PERMUTE_PASSES, "permute.passes", DIM_NUMBER, 0.1, 20,                                   \
      "time of permuting routed rows over that of streaming as many bytes")                        \
    X(CAL_HEAD_FORWARD_SHARE, "head.forward_share", DIM_FRACTION, 1e-2, 1,                         \
      "share of the bf16 peak of the LM head's forward GEMM")                                      \
    X(CAL_HEAD_BACKWARD_SHARE, "head.backward_share", DIM_FRACTION, 1e-2, 1,                       \
      "share of the bf16 peak of the LM head's backward GEMMs")                                    \
    X(CAL_CROSS_ENTROPY_PASSES, "head.cross_entropy_passes", DIM_NUMBER, 0, 1000,                  \
      "effective fp32 passes over the logits at HBM data-sheet bandwidth, forward and backward")   \
    X(CAL_HOST_KERNELS_MOE, "host.kernels_per_moe_layer", DIM_NUMBER, 0, 1e6,                      \
      "kernels launched per MoE layer and micro-batch with full recomputation")                    \
    X(CAL_HOST_KERNELS_EXPERT, "host.kernels_per_local_expert", DIM_NUMBER, 0, 1e5,                \
      "further kernels per local expert, MoE layer and micro-batch")                               \
    X(CAL_HOST_KERNELS_DENSE, "host.kernels_per_dense_layer", DIM_NUMBER, 0, 1e6,                  \
      "kernels launched per dense layer and micro-batch with full recomputation")                  \
    X(CAL_HOST_KERNELS_LATENT, "host.kernels_per_latent_attention", DIM_NUMBER, 0, 1e5,            \
      "further kernels per layer of multi-head latent attention: its projections and splits")      \
    X(CAL_HOST_GAP, "host.launch_gap", DIM_TIME, 0, 1, "host time per launched kernel")            \
    X(CAL_HOST_MICRO_BATCH, "host.per_micro_batch", DIM_TIME, 0, 10,                               \
      "host time per micro-batch and stage")                                                       \
    X(CAL_HOST_CHUNK, "host.per_chunk", DIM_TIME, 0, 10,                                           \
      "host time per micro-batch and further chunk of a stage (interleaved schedule)")             \
    X(CAL_HOST_EP_SYNC, "host.ep_sync_per_moe_layer", DIM_TIME, 0, 10,                             \
      "host synchronisation per MoE layer and micro-batch when EP > 1")                            \
    X(CAL_HOST_ROUTER_GRAPHS, "host.router_graphs_factor", DIM_FRACTION, 0, 1,                     \
      "launch time left when the router replays CUDA graphs, but not attention")                   \
    X(CAL_HOST_MODULE_GRAPHS, "host.module_graphs_factor", DIM_FRACTION, 0, 1,                     \
      "launch time left when attention and router replay CUDA graphs")                             \
    X(CAL_HOST_FULL_RECOMPUTE, "host.full_recompute_factor", DIM_NUMBER, 1, 3,                     \
      "launches with full recomputation over launches with none")                                  \
    X(CAL_HOST_SELECTIVE_RECOMPUTE, "host.selective_recompute_factor", DIM_NUMBER, 1, 3,           \
      "launches with selective recomputation over launches with none")                             \
    X(CAL_HOST_TP_FACTOR, "host.tp_factor", DIM_NUMBER, 1, 3, "launches with TP > 1 over TP = 1")  \
    X(CAL_HOST_NORM, "host.norm_exponent", DIM_NUMBER, 1, 64,                                      \
      "n of (gpu^n + host^n)^(1/n); a power of two; 64 stands for the plain maximum")              \
    X(CAL_COLLECTIVE_INTRA_SHARE, "collective.intra_share", DIM_FRACTION, 1e-2, 1.5,               \
      "share of the inner link that a collective reaches, where no curve is given")                \
    X(CAL_COLLECTIVE_INTER_SHARE, "collective.inter_share", DIM_FRACTION, 1e-2, 1.5,               \
      "share of the outer link that a collective reaches, where no curve is given")                \
    X(CAL_TP_EXPOSED, "exposed.tp", DIM_FRACTION, 0, 1, "share of TP collectives not overlapped")  \
    X(CAL_TP_BACKWARD, "tp.backward_ratio", DIM_NUMBER, 0, 10,                                     \
      "TP collectives of backward over those of forward")                                          \
    X(CAL_CP_EXPOSED, "exposed.cp", DIM_FRACTION, 0, 1, "share of CP exchanges not overlapped")    \
    X(CAL_EP_EXPOSED, "exposed.ep", DIM_FRACTION, 0, 1, "share of EP all-to-all not overlapped")   \
    X(CAL_PP_EXPOSED, "exposed.pp", DIM_FRACTION, 0, 1, "share of PP hand-offs not overlapped")    \
    X(CAL_TP_OVERLAPPED, "overlapped.tp", DIM_FRACTION, 0, 1,                                      \
      "share of TP collectives that stays exposed where they overlap")                             \
    X(CAL_CP_OVERLAPPED, "overlapped.cp", DIM_FRACTION, 0, 1, "the same for CP exchanges")         \
    X(CAL_EP_OVERLAPPED, "overlapped.ep", DIM_FRACTION, 0, 1, "the same for EP all-to-all")        \
    X(CAL_PP_OVERLAPPED, "overlapped.pp", DIM_FRACTION, 0, 1, "the same for PP hand-offs")         \
    X(CAL_DISPATCH_INTER_SHARE, "dispatch.inter_share", DIM_FRACTION, 1e-2, 1,                     \
      "share of the outer link that de-duplicating dispatch reaches")                              \
    X(CAL_IMBALANCE_SHARE, "pipeline.imbalance_share", DIM_FRACTION, 0, 1,                         \
      "share of the slowest stage's excess over the mean that a step shows")                       \
    X(CAL_FSDP_EXPOSED, "fsdp.exposed", DIM_FRACTION, 0, 1,                                        \
      "exposed share of gathering sharded weights where it takes as long as the compute beside "   \
      "it")                                                                                        \
    X(CAL_DP_BUCKETS, "dp.buckets", DIM_NUMBER, 1, 4096,                                           \
      "buckets of the gradient and weight collectives; all but one may overlap")                   \
    X(CAL_DP_OVERLAP, "dp.overlap", DIM_FRACTION, 0, 1,                                            \
      "share of a DP bucket's time that hides when its window is open")                            \
    X(CAL_OPTIMIZER_BYTES, "optimizer.bytes_per_parameter", DIM_NUMBER, 1, 1000,                   \
      "bytes moved per sharded parameter by one AdamW step")                                       \
    X(CAL_OPTIMIZER_FIXED, "optimizer.fixed", DIM_TIME, 0, 10, "fixed time of an optimizer step")  \
    X(CAL_MUON_SHARE, "optimizer.muon_share", DIM_FRACTION, 1e-3, 1,                               \
      "share of the bf16 peak that Muon's Newton-Schulz GEMMs reach")                              \
    X(CAL_HOST_LINK_SHARE, "offload.link_share", DIM_FRACTION, 1e-2, 1,                            \
      "share of the host link's data-sheet bandwidth that pinned copies reach")                    \
    X(CAL_HOST_OPTIMIZER_RATE, "offload.optimizer_rate", DIM_NUMBER, 1e6, 1e12,                    \
      "parameters a second that the host steps per GPU")                                           \
    X(CAL_HOST_MEMORY_RATE, "offload.host_memory_rate", DIM_BYTES_PER_S, 1e6, 1e15,                \
      "host memory traffic that copies of one GPU reach, both directions together")                \
    X(CAL_LLEP_THRESHOLD, "llep.threshold", DIM_NUMBER, 1, 1000,                                   \
      "busiest expert rank over the mean below which experts are not balanced")                    \
    X(CAL_LLEP_LAYER, "llep.per_layer", DIM_TIME, 0, 10,                                           \
      "time of counting and planning, per MoE layer and forward pass")                             \
    X(CAL_RING_DENSE_COPIES, "ring.dense_copies", DIM_NUMBER, 0.1, 64,                             \
      "copies of the logits that an unsharded loss holds")                                         \
    X(CAL_RING_STRIP_COPIES, "ring.strip_copies", DIM_NUMBER, 0.1, 64,                             \
      "copies of a strip of logits that the vocabulary ring holds")                                \
    X(CAL_RING_MOVING_HIDDEN, "ring.moving_hidden", DIM_NUMBER, 0, 64,                             \
      "copies of the tokens' activations that the ring holds while they move")                     \
    X(CAL_RING_MOVING_WEIGHTS, "ring.moving_weights", DIM_NUMBER, 0, 64,                           \
      "copies of a weight shard that the ring holds while weights move")                           \
    X(CAL_STRAGGLER, "straggler.per_doubling", DIM_FRACTION, 0, 1,                                 \
      "step-time growth per doubling of the GPUs beyond 8")                                        \
    X(CAL_LOGIT_BYTES, "memory.bytes_per_logit", DIM_NUMBER, 0, 64,                                \
      "bytes held per logit at the loss")                                                          \
    X(CAL_WEIGHT_GRADIENT_BYTES, "memory.weight_gradient_bytes", DIM_NUMBER, 0, 64,                \
      "bytes per parameter of the largest matrix held for its gradient")                           \
    X(CAL_COMMUNICATOR_BYTES, "memory.per_communicator", DIM_BYTES, 0, 1e11,                       \
      "device memory of one communicator")                                                         \
    X(CAL_GRAPHS_SHARE, "memory.graphs_share", DIM_FRACTION, 0, 10,                                \
      "memory of CUDA graphs over the activations that they replay")                               \
    X(CAL_RESERVE_BYTES, "memory.reserve", DIM_BYTES, 0, 1e12,                                     \
      "device memory of the runtime that usable memory does not exclude")                          \
    X(CAL_FRAGMENTATION, "memory.fragmentation", DIM_FRACTION, 0, 1,                               \
      "memory reserved beyond what is allocated, over what is allocated")                          \
    X(CAL_TIGHT_SHARE, "memory.tight_share", DIM_FRACTION, 0.1, 1,                                 \
      "share of the device's memory above which a fit is called tight")                            \
    X(CAL_VARIABLE_TIGHT_SHARE, "memory.variable_tight_share", DIM_FRACTION, 0.1, 1,               \
      "the same where the sizes of what is allocated vary: VPP, routed tokens without a capacity") \
    X(CAL_SIGMA, "interval.sigma", DIM_FRACTION, 0, 2,                                             \
      "standard deviation of ln(measured step time / predicted)")                                  \
    X(CAL_SIGMA_MOE, "interval.sigma_moe", DIM_FRACTION, 0, 2, "the same for models with experts") \
    X(CAL_ANCHOR_BETWEEN, "anchor.between_models", DIM_FRACTION, 0, 2,                             \
      "standard deviation, between models, of a model's mean ln(measured step time / predicted)")  \
    X(CAL_ANCHOR_WITHIN, "anchor.within_model", DIM_FRACTION, 0, 2,                                \
      "standard deviation of ln(measured step time / predicted) within one model")                 \
    X(CAL_ANCHOR_RUN, "anchor.run", DIM_FRACTION, 0, 1,                                            \
      "standard deviation of ln(step time) between two short runs of one job")                     \
    X(CAL_CHI_ALL_TO_ALL, "published.chi_all_to_all", DIM_NUMBER, 0, 10,                           \
      "published estimator: weight of the all-to-all share when EP spans nodes")                   \
    X(CAL_CHI_PIPELINE, "published.chi_pipeline", DIM_NUMBER, 0, 10,                               \
      "published estimator: weight of each further node that PP spans")                            \
    X(CAL_CHI_OVERLAP, "published.chi_overlap", DIM_NUMBER, -1, 1,                                 \
      "published estimator: credit when PP fills one node")                                        \
    X(CAL_CHI_FLOOR, "published.chi_floor", DIM_NUMBER, 0, 1, "published estimator: least chi")

#define SCALAR_ENUM(id, key, dim, min, max, text) id,
enum scalar { SCALAR_LIST(SCALAR_ENUM) SCALAR_COUNT };
#undef SCALAR_ENUM

/* X(identifier, document key, unit of y, axis, text) */
#define CURVE_LIST(X)                                                                              \
    X(CAL_ATTENTION_CURVE, "attention.bf16.forward", DIM_FLOP_PER_S, "sequence",                   \
      "rate of the causal attention core's forward, causal FLOPs, by sequence")                    \
    X(CAL_GROUPED_FORWARD_CURVE, "published.grouped_gemm.forward", DIM_FRACTION, "rows",           \
      "published estimator: share of the peak by rows per expert, forward")                        \
    X(CAL_GROUPED_BACKWARD_CURVE, "published.grouped_gemm.backward", DIM_FRACTION, "rows",         \
      "published estimator: share of the peak by rows per expert, backward")

#define CURVE_ENUM(id, key, unit, axis, text) id,
enum curve_quantity { CURVE_LIST(CURVE_ENUM) CURVE_QUANTITIES };
#undef CURVE_ENUM

enum collective_kind {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_POINT_TO_POINT,
    COLLECTIVE_KINDS
};
const char *collective_name(enum collective_kind kind);

/* One measured collective: bus bandwidth (NCCL's convention, bytes/s per GPU) by bytes, where bytes
 * is the size of the whole buffer on one rank (all-gather, reduce-scatter: the gathered size). */
struct collective_curve {
    enum collective_kind kind;
    int ranks;            /* group size */
    int ranks_per_domain; /* members inside one innermost domain: 8 contiguous, 1 strided */
    struct curve bus;
};

enum { CALIBRATION_MAX_COLLECTIVES = 64 };

enum value_origin { ORIGIN_GENERIC, ORIGIN_CALIBRATED };

struct calibration {
    char name[64];
    char device[64];
    double scalar[SCALAR_COUNT];
    enum value_origin scalar_origin[SCALAR_COUNT];
    bool has_curve[CURVE_QUANTITIES];
    struct curve curve[CURVE_QUANTITIES];
    int collective_count;
    struct collective_curve collective[CALIBRATION_MAX_COLLECTIVES];
};

struct scalar_info {
    const char *key;
    enum dimension dimension;
    double min, max;
    const char *text;
};
struct curve_info {
    const char *key;
    enum dimension dimension;
    const char *axis;
    const char *text;
};
const struct scalar_info *calibration_scalar_info(enum scalar id);
const struct curve_info *calibration_curve_info(enum curve_quantity id);

/* All scalars at NaN, no curves: what a loader starts from. */
void calibration_init(struct calibration *c);
/* Every scalar set, finite and in range; names the first that is not. */
MOSAIC_MUST_USE enum mosaic_status calibration_check(const struct calibration *c,
                                                     struct status_error *err);

#endif
