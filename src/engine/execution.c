// SPDX-License-Identifier: GPL-3.0-or-later
/* Names of the ways a job runs, as documents and results write them. */
#include "engine/execution.h"

#include <stddef.h>

const char *const sharding_words[] = {"zero1", "ddp", "zero2", "fsdp", "hybrid", NULL};
const char *const dispatcher_words[] = {"nccl", "deepep", "hybridep", "allgather", NULL};
const char *const graphs_words[] = {"none", "router", "module", "full", NULL};
const char *const context_shards_words[] = {"balanced", "contiguous", NULL};
const char *const balance_words[] = {"none", "llep", NULL};
const char *const offload_part_words[] = {
    "norm", "qkv", "core_attention", "ffn", "expert_input", "expert_activation", NULL};

const char *sharding_name(enum sharding sharding) {
    return (unsigned)sharding < SHARDINGS ? sharding_words[sharding] : "unknown";
}

const char *dispatcher_name(enum dispatcher dispatcher) {
    return (unsigned)dispatcher < DISPATCHERS ? dispatcher_words[dispatcher] : "unknown";
}

const char *graphs_name(enum graphs graphs) {
    return (unsigned)graphs < GRAPH_SCOPES ? graphs_words[graphs] : "unknown";
}

const char *context_shards_name(enum context_shards shards) {
    return (unsigned)shards < CONTEXT_SHARDS ? context_shards_words[shards] : "unknown";
}

const char *overlap_name(enum overlap overlap) {
    switch (overlap) {
    case OVERLAP_TP:
        return "tp";
    case OVERLAP_CP:
        return "cp";
    case OVERLAP_EP:
        return "ep";
    case OVERLAP_PP:
        return "pp";
    }
    return NULL;
}

const char *module_name(enum module module) {
    static const char *const names[MODULE_COUNT] = {
        "norm", "activation", "rope", "core_attention", "mla_up", "mlp", "shared", "experts"};
    for (unsigned i = 0; i < MODULE_COUNT; ++i)
        if ((unsigned)module == 1U << i)
            return names[i];
    return NULL;
}

const char *recompute_name(enum recompute recompute) {
    static const char *const names[RECOMPUTE_MODES] = {"none", "selective", "full"};
    return (unsigned)recompute < RECOMPUTE_MODES ? names[recompute] : "unknown";
}

const char *offload_part_name(enum offload_part part) {
    return (unsigned)part < OFFLOADS ? offload_part_words[part] : "unknown";
}

unsigned execution_selective(const struct execution *e) {
    return e->selective ? e->selective : (unsigned)MODULE_DEFAULT;
}

double execution_gradient_bytes(const struct execution *e) {
    return e->bf16_gradients ? 2.0 : 4.0;
}
