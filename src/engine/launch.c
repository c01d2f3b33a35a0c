// SPDX-License-Identifier: GPL-3.0-or-later
/* Words of launch sections, and which of them a value stands for. */
#include "engine/launch.h"

#include "engine/execution.h"

#include <assert.h>

static_assert(LAUNCH_CONDITIONS <= 64, "a set of conditions is one word");

const char *const launch_style_words[] = {"flags", "overrides", "toml", "yaml", NULL};

const char *const launch_words[] = {
#define WORD_OF(name, word) word,
    FEATURE_LIST(WORD_OF) LAUNCH_CONDITION_LIST(WORD_OF)
#undef WORD_OF
        NULL};

const char *const launch_fact_words[] = {
#define FACT_WORD(name, word) word,
    LAUNCH_FACT_LIST(FACT_WORD)
#undef FACT_WORD
        NULL};

/* ---- sets ---- */

void launch_set_add(struct launch_set *set, int word) {
    if (word < FEATURES)
        set->features |= FEATURE_BIT(word);
    else
        set->conditions |= CONDITION_BIT(word - (int)FEATURES);
}

void launch_set_join(struct launch_set *set, const struct launch_set *more) {
    set->features |= more->features;
    set->conditions |= more->conditions;
}

struct launch_set launch_set_minus(const struct launch_set *set, const struct launch_set *less) {
    return (struct launch_set){set->features & ~less->features,
                               set->conditions & ~less->conditions};
}

bool launch_set_is_empty(const struct launch_set *set) {
    return set->features == 0 && set->conditions == 0;
}

bool launch_set_has(const struct launch_set *set, const struct launch_set *all) {
    const struct launch_set lacking = launch_set_minus(all, set);
    return launch_set_is_empty(&lacking);
}

bool launch_set_allows(const struct launch_set *set, const struct launch_set *all,
                       const struct launch_set *none) {
    return launch_set_has(set, all) && (set->features & none->features) == 0 &&
           (set->conditions & none->conditions) == 0;
}

/* ---- facts ---- */

#define F(name) FEATURE_BIT(FEATURE_##name)
#define C(name) CONDITION_BIT(CONDITION_##name)

/* What is not listed covers nothing. */
static const struct {
    enum launch_fact fact;
    struct launch_set covers;
} covers[] = {
    {FACT_TP, {F(TP), 0}},
    {FACT_CP, {F(CP), 0}},
    {FACT_PP, {F(PP), 0}},
    {FACT_VPP, {F(VPP), 0}},
    {FACT_EP, {F(EP), 0}},
    {FACT_ETP, {F(ETP), 0}},
    {FACT_DP_SHARDS, {F(FSDP) | F(HYBRID) | F(DDP), 0}},
    {FACT_MICRO_BATCHES, {0, C(ACCUMULATION)}},
    {FACT_GLOBAL_BATCH, {0, C(ACCUMULATION)}},
    {FACT_SCHEDULE, {F(ZERO_BUBBLE) | F(DUALPIPE), 0}},
    {FACT_RECOMPUTE, {F(RECOMPUTE_SELECTIVE) | F(RECOMPUTE_FULL), 0}},
    {FACT_SELECTIVE,
     {F(RECOMPUTE_NORM) | F(RECOMPUTE_ACTIVATION) | F(RECOMPUTE_ROPE) |
          F(RECOMPUTE_CORE_ATTENTION) | F(RECOMPUTE_MLA_UP) | F(RECOMPUTE_MLP) |
          F(RECOMPUTE_SHARED) | F(RECOMPUTE_EXPERTS),
      0}},
    {FACT_DISPATCHER, {F(NCCL) | F(DEEPEP) | F(HYBRIDEP) | F(ALLGATHER), 0}},
    {FACT_SHARDING, {F(ZERO1) | F(DDP) | F(ZERO2) | F(FSDP) | F(HYBRID), 0}},
    {FACT_CUDA_GRAPHS, {F(CUDA_GRAPHS_ROUTER) | F(CUDA_GRAPHS_MODULE) | F(CUDA_GRAPHS_FULL), 0}},
    {FACT_PRECISION, {F(BF16) | F(FP8) | F(MXFP8) | F(NVFP4), 0}},
    {FACT_OPTIMIZER, {F(MUON), 0}},
    {FACT_OFFLOAD_OPTIMIZER, {F(OFFLOAD_OPTIMIZER), 0}},
    {FACT_OFFLOAD_ACTIVATIONS, {F(OFFLOAD_ACTIVATIONS), 0}},
    {FACT_OFFLOAD_MODULES, {0, C(OFFLOAD_SOME)}},
    {FACT_PIPELINE_LAYOUT, {F(VPP), C(UNEVEN_SPLIT)}},
    {FACT_SPLIT_POINTS, {F(VPP), C(UNEVEN_SPLIT)}},
    {FACT_LAYERS_PER_CHUNK, {F(VPP), 0}},
    {FACT_KV_HEADS, {0, C(GROUPED_QUERIES)}},
    {FACT_KV_RANK, {F(MLA), 0}},
    {FACT_EXPERTS, {F(MOE), 0}},
    {FACT_SHARED_FFN, {F(SHARED_EXPERTS), 0}},
    {FACT_FIRST_DENSE, {0, C(DENSE_FIRST)}},
    {FACT_MOE_PATTERN, {0, C(DENSE_FIRST)}},
    {FACT_HEAD_DIM, {0, C(FREE_HEAD_DIM)}},
    {FACT_NODE_LIMIT, {0, C(NODE_LIMIT)}},
    {FACT_WINDOW, {0, C(WINDOW)}},
    {FACT_MTP_LAYERS, {F(MTP), 0}},
};

struct launch_set launch_fact_covers(enum launch_fact fact) {
    for (size_t i = 0; i < sizeof covers / sizeof *covers; ++i)
        if (covers[i].fact == fact)
            return covers[i].covers;
    return (struct launch_set){0, 0};
}

struct launch_set launch_set_unsaid(void) {
    /* Uneven stages are an uneven split. */
    return (struct launch_set){
        F(DENSE) | F(UNEVEN_STAGES) | F(RECOMPUTE_NONE) | F(ETP_UNLIKE_TP) | F(KV_REPLICATION), 0};
}

#undef F
#undef C

const char *const *launch_fact_values(enum launch_fact fact) {
    static const char *const schedules[] = {"1f1b", "interleaved", "zero_bubble", "dualpipe", NULL};
    static const char *const recomputes[] = {"none", "selective", "full", NULL};
    static const char *const modules[] = {
        "norm", "activation", "rope", "core_attention", "mla_up", "mlp", "shared", "experts", NULL};
    static const char *const precisions[] = {"bf16", "fp8", "mxfp8", "nvfp4", NULL};
    static const char *const optimizers[] = {"adamw", "muon", NULL};
    const struct {
        enum launch_fact fact;
        const char *const *words;
    } lists[] = {{FACT_SCHEDULE, schedules},
                 {FACT_RECOMPUTE, recomputes},
                 {FACT_SELECTIVE, modules},
                 {FACT_DISPATCHER, dispatcher_words},
                 {FACT_SHARDING, sharding_words},
                 {FACT_CUDA_GRAPHS, graphs_words},
                 {FACT_PRECISION, precisions},
                 {FACT_OPTIMIZER, optimizers},
                 {FACT_OFFLOAD_MODULES, offload_part_words}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; ++i)
        if (lists[i].fact == fact)
            return lists[i].words;
    return NULL;
}
