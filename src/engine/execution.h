// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How a job runs, beyond the degrees of its layout: sharding, dispatch, overlap, CUDA graphs,
 * number formats of the state.  Given by the plan; a search chooses only
 * among the values that the plan lists (engine/way.h).  All zero is the plainest job:
 * ZeRO-1, NCCL, no graphs, nothing overlapped but data parallelism, FP32 gradients and moments.
 */
#ifndef MOSAIC_ENGINE_EXECUTION_H
#define MOSAIC_ENGINE_EXECUTION_H

#include <stdbool.h>

/* What the data-parallel ranks share out: nothing; optimizer states; and gradients; and weights,
 * gathered layer by layer for each micro-batch; the same inside groups of `shard_ranks` that hold
 * copies of each other. */
enum sharding { SHARD_ZERO1, SHARD_NONE, SHARD_ZERO2, SHARD_FSDP, SHARD_HYBRID, SHARDINGS };

/* Who moves tokens to experts: an all-to-all that sends each copy; kernels that send a token once
 * to a domain and spread it there (DeepEP, HybridEP); gathering every token (all-gather, reduce).
 */
enum dispatcher {
    DISPATCH_NCCL,
    DISPATCH_DEEPEP,
    DISPATCH_HYBRIDEP,
    DISPATCH_ALL_GATHER,
    DISPATCHERS
};

/* Whose GPU computes the rows of busy experts: their owners', or the least loaded ones (LLEP, arXiv
 * 2601.17111), which borrow the weights. */
enum balance { BALANCE_NONE, BALANCE_LLEP, BALANCES };

/* What is replayed from CUDA graphs: nothing; router and
 * preprocessing; attention as well; the step. */
enum graphs { GRAPHS_NONE, GRAPHS_ROUTER, GRAPHS_MODULE, GRAPHS_FULL, GRAPH_SCOPES };

/* Bits: which transfers hide behind compute. */
enum overlap {
    OVERLAP_TP = 1,
    OVERLAP_CP = 2,
    OVERLAP_EP = 4, /* another micro-batch's compute runs beside the all-to-all */
    OVERLAP_PP = 8
};

/* Bits: what `selective` recomputes. */
enum module {
    MODULE_NORM = 1,       /* norm outputs */
    MODULE_ACTIVATION = 2, /* the FFN's and experts' activation products */
    MODULE_ROPE = 4,
    MODULE_CORE_ATTENTION = 8,
    MODULE_MLA_UP = 16,   /* up-projections of latent attention */
    MODULE_MLP = 32,      /* whole FFN of dense layers */
    MODULE_SHARED = 64,   /* whole shared experts */
    MODULE_EXPERTS = 128, /* router, dispatch, routed experts, combine */
    MODULE_DEFAULT = MODULE_NORM | MODULE_ACTIVATION | MODULE_ROPE,
    MODULE_COUNT = 8
};

/* Parts of what a layer keeps for backward, as they may be offloaded. */
enum offload_part {
    PART_NORM,              /* block inputs, norm outputs, router probabilities */
    PART_QKV,               /* queries, keys, values, latents */
    PART_CORE,              /* attention output and scores */
    PART_FFN,               /* interior of dense and shared FFNs */
    PART_EXPERT_INPUT,      /* dispatched rows */
    PART_EXPERT_ACTIVATION, /* interior of routed experts */
    OFFLOADS
};
const char *offload_part_name(enum offload_part part);

/* How context-parallel ranks share a causal sequence: an early and a late piece each (head and
 * tail, zigzag), so that all attend to as many keys; or one piece each, the last of which sees the
 * most. */
enum context_shards { CONTEXT_BALANCED, CONTEXT_CONTIGUOUS, CONTEXT_SHARDS };

enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTE_MODES };
const char *recompute_name(enum recompute recompute);

struct execution {
    enum sharding sharding;
    int shard_ranks; /* SHARD_HYBRID: ranks of a shard group, a divisor of the DP ranks */
    enum dispatcher dispatcher;
    enum graphs graphs;
    unsigned overlap;
    bool serial_dp;         /* gradient and weight collectives wait for the compute */
    unsigned selective;     /* modules of `selective` recomputation; 0: MODULE_DEFAULT */
    bool bf16_gradients;    /* accumulated and reduced in bf16 */
    bool bf16_moments;      /* optimizer moments in bf16 */
    bool no_master;         /* the optimizer steps the bf16 weights themselves */
    bool block_scaling;     /* fp8 with a scale per block, not per tensor */
    bool fp8_attention;     /* attention core in 8 bits */
    bool unfused_attention; /* the score matrix is written to memory */
    enum context_shards context_shards;
    bool uneven_chunks; /* a stated pipeline layout: chunks may differ by a layer */
    double
        offload_activations; /* share of the kept activations that waits in host memory, [0, 1] */
    unsigned offload_parts;  /* bits of enum offload_part that offloading takes; 0: all */
    double
        offload_optimizer; /* share of the optimizer state kept and stepped on the host, [0, 1] */
    /* The memory schedules of arXiv 2609.14306; 0 switches each off. */
    enum balance balance;
    int dispatch_chunk;      /* tokens of a rank that are dispatched at once */
    int dispatch_chunks_max; /* beyond so many chunks they grow */
    int vocab_move;          /* what goes round it: 0 the fewer, 1 tokens, 2 weights */
    int vocab_ring;          /* ranks that share the vocabulary projection in a ring, above 1 */
    double checkpoint_host_bytes; /* host memory of a GPU for layer boundaries */
    int restore_depth;    /* boundaries on their way back ahead of their layer, 0 counts as 1 */
    double bucket_params; /* optimizer state on the host, streamed in buckets of so many */
    int bucket_slots;     /* buckets on the device at once */
    double dropped;       /* share of routed assignments that are dropped, [0, 1) */
};

/* The words of documents and results, in the order of the enums, ending in NULL. */
extern const char *const sharding_words[],
    *const dispatcher_words[], *const graphs_words[], *const balance_words[],
                                                          *const offload_part_words[],
                                                              *const context_shards_words[];
const char *sharding_name(enum sharding sharding);
const char *dispatcher_name(enum dispatcher dispatcher);
const char *graphs_name(enum graphs graphs);
const char *context_shards_name(enum context_shards shards);
/* Name of one bit, or NULL. */
const char *overlap_name(enum overlap overlap);
const char *module_name(enum module module);
/* Modules that `selective` recomputes. */
unsigned execution_selective(const struct execution *e);
/* Bytes of one accumulated gradient. */
double execution_gradient_bytes(const struct execution *e);

#endif
