// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How an engine of one version is told what to run, as data: a list of arguments, each with the
 * fact of a layout that is its value and the words under which it is given.  Words are features
 * (rules.h) and conditions, which no rule of an engine needs but its arguments do.
 *
 * What a layout has and no argument says would be launched as something else.  So each argument
 * covers the words that it names and those that its value stands for, and a word that stays
 * uncovered is refused (report/build_launch.c).
 */
#ifndef MOSAIC_ENGINE_LAUNCH_H
#define MOSAIC_ENGINE_LAUNCH_H

#include "engine/rules.h"

#include <stdbool.h>

/* The first of an engine's styles is the one it takes unless asked. */
enum launch_style {
    LAUNCH_FLAGS,     /* --name value */
    LAUNCH_OVERRIDES, /* a.b.c=value */
    LAUNCH_TOML,      /* a file of tables */
    LAUNCH_YAML,      /* a file of nested mappings */
    LAUNCH_STYLES
};
extern const char *const launch_style_words[];

/* What a layout is beyond the features of rules. */
#define LAUNCH_CONDITION_LIST(X)                                                                   \
    X(GROUPED_QUERIES, "grouped_queries") /* fewer key/value heads than heads */                   \
    X(GATED, "gated")                     /* three matrices in an FFN */                           \
    X(UNGATED, "ungated")                                                                          \
    X(TIED, "tied") /* input embedding and head are one matrix */                                  \
    X(UNTIED, "untied")                                                                            \
    X(FREE_HEAD_DIM, "free_head_dim") /* heads x head_dim is not the model width */                \
    X(DENSE_FIRST, "dense_first")     /* dense layers before MoE layers */                         \
    X(WINDOW, "window")               /* a sliding window in some layers */                        \
    X(NODE_LIMIT, "node_limit")       /* experts of a token on few domains */                      \
    X(UNEVEN_SPLIT, "uneven_split")   /* chunks of unequal length, MTP layers not in the last */   \
    X(MIXED_RECOMPUTE, "mixed_recompute") /* stages recompute differently */                       \
    X(ACCUMULATION, "accumulation")       /* several micro-batches on one stage */                 \
    X(DP_OVERLAP, "dp_overlap")           /* data-parallel collectives beside the compute */       \
    X(SERIAL_DP, "serial_dp")                                                                      \
    X(TENSOR_SCALING, "tensor_scaling") /* fp8 with a scale per tensor */                          \
    X(BLOCK_SCALING, "block_scaling")                                                              \
    X(NO_MASTER, "no_master")                                                                      \
    X(DROPPING, "dropping")         /* experts have a capacity */                                  \
    X(OFFLOAD_SOME, "offload_some") /* of the parts that a layer keeps */

enum launch_condition {
#define CONDITION_ENUM(name, word) CONDITION_##name,
    LAUNCH_CONDITION_LIST(CONDITION_ENUM)
#undef CONDITION_ENUM
        LAUNCH_CONDITIONS
};

/* Both kinds of words: index i < FEATURES is a feature, FEATURES + k condition k. */
enum { LAUNCH_WORDS = FEATURES + LAUNCH_CONDITIONS };
extern const char *const launch_words[]; /* ending in NULL */

struct launch_set {
    uint64_t features, conditions;
};
#define CONDITION_BIT(condition) (UINT64_C(1) << (unsigned)(condition))
void launch_set_add(struct launch_set *set, int word);
void launch_set_join(struct launch_set *set, const struct launch_set *more);
/* Of `set` without `less`. */
struct launch_set launch_set_minus(const struct launch_set *set, const struct launch_set *less);
bool launch_set_is_empty(const struct launch_set *set);
/* Whether `set` has all of `all`. */
bool launch_set_has(const struct launch_set *set, const struct launch_set *all);
/* Whether `set` has all of `all` and none of `none`. */
bool launch_set_allows(const struct launch_set *set, const struct launch_set *all,
                       const struct launch_set *none);

/* Facts of a layout, its model and its job that arguments take as values. */
#define LAUNCH_FACT_LIST(X)                                                                        \
    X(TP, "tp")                                                                                    \
    X(CP, "cp")                                                                                    \
    X(PP, "pp")                                                                                    \
    X(VPP, "vpp")                                                                                  \
    X(EP, "ep")                                                                                    \
    X(ETP, "etp")                                                                                  \
    X(DP, "dp")                                                                                    \
    X(DP_SHARDS, "dp_shards")     /* ranks that weights are sharded over, 1 without FSDP */        \
    X(DP_REPLICAS, "dp_replicas") /* copies of them, dp / dp_shards */                             \
    X(GPUS, "gpus")                                                                                \
    X(NODES, "nodes")                                                                              \
    X(GPUS_PER_NODE, "gpus_per_node")                                                              \
    X(MICRO_BATCH, "micro_batch")                                                                  \
    X(MICRO_BATCHES, "micro_batches")                                                              \
    X(LOCAL_BATCH, "local_batch") /* sequences of a step on one data-parallel rank */              \
    X(GLOBAL_BATCH, "global_batch")                                                                \
    X(SEQUENCE, "sequence")                                                                        \
    X(STEPS, "steps") /* of the whole run; absent where the plan has no tokens */                  \
    X(TOKENS, "tokens")                                                                            \
    X(SCHEDULE, "schedule")                                                                        \
    X(RECOMPUTE, "recompute")                                                                      \
    X(SELECTIVE, "selective")   /* list; absent unless recomputation is selective */               \
    X(DISPATCHER, "dispatcher") /* absent without experts */                                       \
    X(SHARDING, "sharding")                                                                        \
    X(CUDA_GRAPHS, "cuda_graphs")                                                                  \
    X(PRECISION, "precision")                                                                      \
    X(OPTIMIZER, "optimizer")                                                                      \
    X(OFFLOAD_OPTIMIZER, "offload_optimizer")                                                      \
    X(OFFLOAD_ACTIVATIONS, "offload_activations")                                                  \
    X(OFFLOAD_MODULES, "offload_modules") /* list */                                               \
    X(PIPELINE_LAYOUT, "pipeline_layout")                                                          \
    X(SPLIT_POINTS, "split_points")         /* list: first layer of each chunk but the first */    \
    X(LAYERS_PER_CHUNK, "layers_per_chunk") /* absent where chunks differ */                       \
    X(LAYERS, "layers")                                                                            \
    X(HIDDEN, "hidden")                                                                            \
    X(HEADS, "heads")                                                                              \
    X(KV_HEADS, "kv_heads") /* absent under latent attention */                                    \
    X(HEAD_DIM, "head_dim")                                                                        \
    X(V_HEAD_DIM, "v_head_dim")                                                                    \
    X(Q_RANK, "q_rank") /* absent where it is full */                                              \
    X(KV_RANK, "kv_rank")                                                                          \
    X(ROPE_DIM, "rope_dim")                                                                        \
    X(DENSE_FFN, "dense_ffn") /* absent without dense layers */                                    \
    X(FFN_RATIO, "ffn_ratio") /* dense_ffn / hidden */                                             \
    X(EXPERTS, "experts")     /* absent in a dense model, as all of these */                       \
    X(EXPERT_FFN, "expert_ffn")                                                                    \
    X(TOP_K, "top_k")                                                                              \
    X(SHARED_FFN, "shared_ffn") /* of all shared experts together */                               \
    X(FIRST_DENSE, "first_dense")                                                                  \
    X(MOE_LAYERS, "moe_layers")                                                                    \
    X(MOE_PATTERN, "moe_pattern") /* list: 0 a dense layer, 1 one of experts */                    \
    X(NODE_LIMIT, "node_limit")                                                                    \
    X(WINDOW, "window")                                                                            \
    X(MTP_LAYERS, "mtp_layers")                                                                    \
    X(VOCAB, "vocab")                                                                              \
    X(VOCAB_PAD_UNIT, "vocab_pad_unit")

enum launch_fact {
#define FACT_ENUM(name, word) FACT_##name,
    LAUNCH_FACT_LIST(FACT_ENUM)
#undef FACT_ENUM
        LAUNCH_FACTS
};
extern const char *const launch_fact_words[];

/* Words that a fact stands for: an argument that gives it covers them. */
struct launch_set launch_fact_covers(enum launch_fact fact);
/* The words that a fact may be, NULL for numbers and free texts. */
const char *const *launch_fact_values(enum launch_fact fact);
/* Words that need no argument of any engine: they ask for nothing, or follow from others. */
struct launch_set launch_set_unsaid(void);

/* One of the engine's own words for one of ours; "" says that there is none to give. */
struct launch_word {
    const char *ours, *theirs;
};

struct launch_argument {
    const char *name; /* "--tensor-model-parallel-size", "training.seq_len" */
    bool has_fact;    /* value is this fact ... */
    enum launch_fact fact;
    size_t word_count; /* ... in these words, 0: as it is */
    const struct launch_word *words;
    size_t text_count; /* or these texts, {fact} in them replaced; neither: a switch */
    const char *const *texts;
    struct launch_set when, unless;
};

/* What a user still has to say. */
struct launch_left {
    const char *text;
    struct launch_set when;
};

/* Of the document that it was read from, which owns it. */
struct launch {
    const char *source;
    size_t style_count;
    const int *styles; /* enum launch_style */
    size_t argument_count;
    const struct launch_argument *arguments;
    struct launch_set silent; /* words that the engine needs no argument for */
    size_t left_count;
    const struct launch_left *left;
};

#endif
