// SPDX-License-Identifier: GPL-3.0-or-later
/* Workloads cut down to what the layer table or legality reads. */
#include "plan/way_classes.h"

#include "step/engine_rules.h"

#include <string.h>

bool way_key_equal(const struct way_key *a, const struct way_key *b) {
    return memcmp(a->workload, b->workload, sizeof a->workload) == 0 &&
           memcmp(a->conflicts, b->conflicts, sizeof a->conflicts) == 0;
}

static double whether(double value) {
    return value > 0.0 ? 1.0 : 0.0;
}

void way_table_key(const struct step_context *ctx, struct way_key *key) {
    struct workload cut;
    memcpy(&cut, ctx->workload, sizeof cut);
    struct execution *const e = &cut.execution;
    /* States and gradients of a stage, and what of it waits on the host, come after the table. */
    e->sharding = SHARD_ZERO1;
    e->shard_ranks = 0;
    e->serial_dp = e->bf16_moments = e->no_master = false;
    e->offload_optimizer = 0.0;
    e->bucket_params = 0.0;
    e->restore_depth = e->bucket_slots = 0;
    /* What stages that recompute differently keep at least. */
    e->checkpoint_host_bytes = whether(e->checkpoint_host_bytes);
    e->offload_activations = ctx->stage_policies != 0 ? e->offload_activations : 0.0;
    memset(key, 0, sizeof *key);
    memcpy(key->workload, &cut, sizeof key->workload);
}

/* Features of one mesh with every degree so large, whatever its recomputation: of any, and of all.
 */
static void features_of(const struct step_context *ctx, int degree, uint64_t *any, uint64_t *all) {
    for (int r = 0; r < RECOMPUTE_MODES; ++r) {
        const struct mesh m = {.tp = degree,
                               .cp = degree,
                               .pp = degree,
                               .vpp = degree,
                               .ep = degree,
                               .etp = degree,
                               .dp = degree,
                               .micro_batch = 1,
                               .micro_batches = 1,
                               .recompute = (enum recompute)r};
        const uint64_t features = engine_features(&m, ctx->geometry, ctx->workload);
        *any |= features;
        *all &= features;
    }
}

size_t way_conflicts(const struct step_context *ctx, struct engine_rule out[WAY_CONFLICTS_MAX]) {
    const struct engine_rules *const rules = &ctx->engine.rules;
    /* What a mesh may have or not beside its degrees. */
    const uint64_t open = FEATURE_BIT(FEATURE_ETP_UNLIKE_TP) | FEATURE_BIT(FEATURE_UNEVEN_STAGES) |
                          FEATURE_BIT(FEATURE_KV_REPLICATION) | FEATURE_BIT(FEATURE_ZERO_BUBBLE) |
                          FEATURE_BIT(FEATURE_DUALPIPE);
    uint64_t any = open, all = ~UINT64_C(0);
    if (rules->count > WAY_CONFLICTS_MAX)
        return SIZE_MAX;
    features_of(ctx, 1, &any, &all);
    features_of(ctx, 2, &any, &all);
    all &= ~open;
    size_t count = 0;
    for (size_t i = 0; i < rules->count; ++i) {
        const struct engine_rule *const rule = &rules->items[i];
        if ((rule->features & ~any) != 0 || (rule->unless & all) != 0)
            continue;
        out[count] = *rule;
        out[count].features &= ~all;
        out[count++].unless &= any;
    }
    return count;
}

static void fill_conflicts(const struct step_context *ctx, struct way_key *key) {
    struct engine_rule rules[WAY_CONFLICTS_MAX];
    const size_t count = way_conflicts(ctx, rules);
    if (count == SIZE_MAX) { /* each job by itself: all that it reads stands in the workload */
        memcpy(key->workload, ctx->workload, sizeof key->workload);
        return;
    }
    uint64_t sets[1 + 2 * WAY_CONFLICTS_MAX] = {count};
    for (size_t i = 0; i < count; ++i) {
        sets[1 + 2 * i] = rules[i].features;
        sets[2 + 2 * i] = rules[i].unless;
    }
    memcpy(key->conflicts, sets, sizeof sets);
}

void way_rules_key(const struct step_context *ctx, struct way_key *key) {
    struct workload cut;
    memcpy(&cut, ctx->workload, sizeof cut);
    struct execution *const e = &cut.execution;
    /* Read as features alone, but for the groups of hybrid sharding. */
    if (e->sharding != SHARD_HYBRID)
        e->sharding = SHARD_ZERO1;
    e->dispatcher = DISPATCH_NCCL;
    e->graphs = GRAPHS_NONE;
    /* Read as whether they are on. */
    e->offload_activations = whether(e->offload_activations);
    e->offload_optimizer = whether(e->offload_optimizer);
    e->checkpoint_host_bytes = whether(e->checkpoint_host_bytes);
    e->bucket_params = whether(e->bucket_params);
    e->dispatch_chunk = e->dispatch_chunk > 0;
    e->dispatch_chunks_max = e->restore_depth = e->bucket_slots = e->vocab_move = 0;
    memset(key, 0, sizeof *key);
    memcpy(key->workload, &cut, sizeof key->workload);
    fill_conflicts(ctx, key);
}
