// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Rules of an engine beyond divisibility, as data: features that it does not run together.  A
 * feature is a word of engine documents that a layout, its model or its execution has or has not;
 * step/engine_rules.h says when.
 */
#ifndef MOSAIC_ENGINE_RULES_H
#define MOSAIC_ENGINE_RULES_H

#include <stddef.h>
#include <stdint.h>

/* Modules, overlaps, dispatchers, shardings and precisions stand in the order of their enums. */
#define FEATURE_LIST(X)                                                                            \
    X(TP, "tp")                                                                                    \
    X(CP, "cp")                                                                                    \
    X(PP, "pp")                                                                                    \
    X(VPP, "vpp")                                                                                  \
    X(EP, "ep")                                                                                    \
    X(ETP, "etp")                                                                                  \
    X(ETP_UNLIKE_TP, "etp_unlike_tp")                                                              \
    X(ZERO_BUBBLE, "zero_bubble")                                                                  \
    X(DUALPIPE, "dualpipe")                                                                        \
    X(RECOMPUTE_NONE, "recompute_none")                                                            \
    X(RECOMPUTE_SELECTIVE, "recompute_selective")                                                  \
    X(RECOMPUTE_FULL, "recompute_full")                                                            \
    X(RECOMPUTE_NORM, "recompute_norm")                                                            \
    X(RECOMPUTE_ACTIVATION, "recompute_activation")                                                \
    X(RECOMPUTE_ROPE, "recompute_rope")                                                            \
    X(RECOMPUTE_CORE_ATTENTION, "recompute_core_attention")                                        \
    X(RECOMPUTE_MLA_UP, "recompute_mla_up")                                                        \
    X(RECOMPUTE_MLP, "recompute_mlp")                                                              \
    X(RECOMPUTE_SHARED, "recompute_shared")                                                        \
    X(RECOMPUTE_EXPERTS, "recompute_experts")                                                      \
    X(NCCL, "nccl")                                                                                \
    X(DEEPEP, "deepep")                                                                            \
    X(HYBRIDEP, "hybridep")                                                                        \
    X(ALLGATHER, "allgather")                                                                      \
    X(CUDA_GRAPHS_ROUTER, "cuda_graphs_router")                                                    \
    X(CUDA_GRAPHS_MODULE, "cuda_graphs_module")                                                    \
    X(CUDA_GRAPHS_FULL, "cuda_graphs_full")                                                        \
    X(OVERLAP_TP, "overlap_tp")                                                                    \
    X(OVERLAP_CP, "overlap_cp")                                                                    \
    X(OVERLAP_EP, "overlap_ep")                                                                    \
    X(OVERLAP_PP, "overlap_pp")                                                                    \
    X(ZERO1, "zero1")                                                                              \
    X(DDP, "ddp")                                                                                  \
    X(ZERO2, "zero2")                                                                              \
    X(FSDP, "fsdp")                                                                                \
    X(HYBRID, "hybrid")                                                                            \
    X(BF16, "bf16")                                                                                \
    X(FP8, "fp8")                                                                                  \
    X(MXFP8, "mxfp8")                                                                              \
    X(NVFP4, "nvfp4")                                                                              \
    X(BF16_GRADIENTS, "bf16_gradients")                                                            \
    X(BF16_MOMENTS, "bf16_moments")                                                                \
    X(MUON, "muon")                                                                                \
    X(DENSE, "dense")                                                                              \
    X(MOE, "moe")                                                                                  \
    X(MLA, "mla")                                                                                  \
    X(SHARED_EXPERTS, "shared_experts")                                                            \
    X(MTP, "mtp")                                                                                  \
    X(UNEVEN_STAGES, "uneven_stages")                                                              \
    X(KV_REPLICATION, "kv_replication")                                                            \
    X(FP8_ATTENTION, "fp8_attention")                                                              \
    X(UNFUSED_ATTENTION, "unfused_attention")                                                      \
    X(OFFLOAD_ACTIVATIONS, "offload_activations")                                                  \
    X(OFFLOAD_OPTIMIZER, "offload_optimizer")                                                      \
    X(LLEP, "llep")                                                                                \
    X(DISPATCH_CHUNKS, "dispatch_chunks")                                                          \
    X(VOCAB_RING, "vocab_ring")                                                                    \
    X(CHECKPOINT_OFFLOAD, "checkpoint_offload")                                                    \
    X(OPTIMIZER_STREAM, "optimizer_stream")                                                        \
    X(CONTIGUOUS_CONTEXT, "contiguous_context")

enum feature {
#define FEATURE_ENUM(name, word) FEATURE_##name,
    FEATURE_LIST(FEATURE_ENUM)
#undef FEATURE_ENUM
        FEATURES
};

/* A set of features. */
#define FEATURE_BIT(feature) (UINT64_C(1) << (unsigned)(feature))

/* By enum feature, ending in NULL. */
extern const char *const feature_words[];

/* Broken by whatever has all of `features` and none of `unless`. */
struct engine_rule {
    uint64_t features, unless;
    const char *text, *source;
};

/* Of the document that they were read from, which owns them. */
struct engine_rules {
    size_t count;
    const struct engine_rule *items;
};

#endif
