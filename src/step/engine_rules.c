// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Features of a layout against the conflicts of an engine; stages to chunks and back.  A schedule
 * in rounds takes m micro-batches where m mod max(1, floor(m / PP)) = 0 (pytorch/pytorch #129597).
 */
#include "step/engine_rules.h"

#include <assert.h>
#include <stdio.h>

enum { WORDS_MAX = 160, REASON_MAX = 256, SOURCE_MAX = 256 };

static_assert(FEATURE_RECOMPUTE_EXPERTS - FEATURE_RECOMPUTE_NORM + 1 == MODULE_COUNT,
              "modules in order");
static_assert(FEATURE_ALLGATHER - FEATURE_NCCL + 1 == DISPATCHERS, "dispatchers in order");
static_assert(FEATURE_HYBRID - FEATURE_ZERO1 + 1 == SHARDINGS, "shardings in order");
static_assert(FEATURE_NVFP4 - FEATURE_BF16 + 1 == PRECISION_COUNT, "precisions in order");
static_assert(FEATURE_RECOMPUTE_FULL - FEATURE_RECOMPUTE_NONE + 1 == RECOMPUTE_MODES,
              "recomputation in order");

static uint64_t when(bool has, int feature) {
    return has ? FEATURE_BIT(feature) : 0;
}

static bool is_uneven(const struct mesh *m, const struct geometry *g, const struct workload *w) {
    const struct stated_stages *const stated = workload_stages(w, m);
    return stated ? !stages_are_even(stated) : g->layers % (m->pp * m->vpp) != 0;
}

static uint64_t of_mesh(const struct mesh *m, const struct geometry *g, const struct workload *w) {
    const enum schedule schedule = mesh_schedule(m);
    return when(m->tp > 1, FEATURE_TP) | when(m->cp > 1, FEATURE_CP) | when(m->pp > 1, FEATURE_PP) |
           when(m->vpp > 1, FEATURE_VPP) | when(m->ep > 1, FEATURE_EP) |
           when(m->etp > 1, FEATURE_ETP) |
           when(m->etp > 1 && m->etp != m->tp, FEATURE_ETP_UNLIKE_TP) |
           when(schedule == SCHEDULE_ZERO_BUBBLE, FEATURE_ZERO_BUBBLE) |
           when(schedule == SCHEDULE_DUALPIPE, FEATURE_DUALPIPE) |
           when(is_uneven(m, g, w), FEATURE_UNEVEN_STAGES) |
           when(g->kv_heads > 0 && g->kv_heads % m->tp != 0, FEATURE_KV_REPLICATION);
}

static uint64_t of_model(const struct geometry *g) {
    const bool is_moe = geometry_moe_layers(g) > 0;
    return when(is_moe, FEATURE_MOE) | when(!is_moe, FEATURE_DENSE) |
           when(g->attention == ATTENTION_MLA, FEATURE_MLA) |
           when(is_moe && g->shared_experts > 0, FEATURE_SHARED_EXPERTS) |
           when(g->mtp_layers > 0, FEATURE_MTP);
}

static unsigned modules_of(const struct geometry *g, uint64_t model) {
    unsigned modules = MODULE_DEFAULT | MODULE_CORE_ATTENTION;
    if (model & FEATURE_BIT(FEATURE_MLA))
        modules |= MODULE_MLA_UP;
    if (g->first_dense > 0)
        modules |= MODULE_MLP;
    if (model & FEATURE_BIT(FEATURE_SHARED_EXPERTS))
        modules |= MODULE_SHARED;
    if (model & FEATURE_BIT(FEATURE_MOE))
        modules |= MODULE_EXPERTS;
    return modules;
}

static uint64_t of_recompute(const struct mesh *m, const struct geometry *g,
                             const struct execution *e, uint64_t model) {
    const uint64_t features = FEATURE_BIT((int)FEATURE_RECOMPUTE_NONE + (int)m->recompute);
    if (m->recompute != RECOMPUTE_SELECTIVE)
        return features;
    const unsigned modules = execution_selective(e) & modules_of(g, model);
    return features | (uint64_t)modules << FEATURE_RECOMPUTE_NORM;
}

static uint64_t of_job(const struct mesh *m, const struct workload *w, bool is_moe) {
    const struct execution *const e = &w->execution;
    const bool is_module = e->graphs == GRAPHS_MODULE;
    return FEATURE_BIT((int)FEATURE_ZERO1 + (int)e->sharding) |
           when(e->sharding == SHARD_HYBRID, FEATURE_FSDP) |
           when(is_moe, (int)FEATURE_NCCL + (int)e->dispatcher) |
           when(is_moe && (is_module || e->graphs == GRAPHS_ROUTER), FEATURE_CUDA_GRAPHS_ROUTER) |
           when(is_module, FEATURE_CUDA_GRAPHS_MODULE) |
           when(e->graphs == GRAPHS_FULL, FEATURE_CUDA_GRAPHS_FULL) |
           when((e->overlap & OVERLAP_TP) && m->tp > 1, FEATURE_OVERLAP_TP) |
           when((e->overlap & OVERLAP_CP) && m->cp > 1, FEATURE_OVERLAP_CP) |
           when((e->overlap & OVERLAP_EP) && is_moe && m->ep > 1, FEATURE_OVERLAP_EP) |
           when((e->overlap & OVERLAP_PP) && m->pp > 1, FEATURE_OVERLAP_PP) |
           FEATURE_BIT((int)FEATURE_BF16 + (int)w->precision) |
           when(e->bf16_gradients, FEATURE_BF16_GRADIENTS) |
           when(e->bf16_moments, FEATURE_BF16_MOMENTS) |
           when(w->optimizer == OPTIMIZER_MUON, FEATURE_MUON) |
           when(e->fp8_attention, FEATURE_FP8_ATTENTION) |
           when(e->unfused_attention, FEATURE_UNFUSED_ATTENTION) |
           when(e->offload_activations > 0.0, FEATURE_OFFLOAD_ACTIVATIONS) |
           when(e->offload_optimizer > 0.0, FEATURE_OFFLOAD_OPTIMIZER) |
           when(is_moe && e->balance == BALANCE_LLEP, FEATURE_LLEP) |
           when(is_moe && e->dispatch_chunk > 0, FEATURE_DISPATCH_CHUNKS) |
           when(e->vocab_ring > 1, FEATURE_VOCAB_RING) |
           when(e->checkpoint_host_bytes > 0.0, FEATURE_CHECKPOINT_OFFLOAD) |
           when(e->bucket_params > 0.0, FEATURE_OPTIMIZER_STREAM) |
           when(e->context_shards == CONTEXT_CONTIGUOUS && m->cp > 1, FEATURE_CONTIGUOUS_CONTEXT);
}

uint64_t engine_features(const struct mesh *m, const struct geometry *g, const struct workload *w) {
    const uint64_t model = of_model(g);
    return model | of_mesh(m, g, w) | of_recompute(m, g, &w->execution, model) |
           of_job(m, w, model & FEATURE_BIT(FEATURE_MOE));
}

const struct engine_rule *engine_rule_broken(const struct engine_rules *rules, uint64_t features,
                                             size_t *from) {
    while (*from < rules->count) {
        const struct engine_rule *const rule = &rules->items[(*from)++];
        if ((features & rule->features) == rule->features && !(features & rule->unless))
            return rule;
    }
    return NULL;
}

/* 0 where a feature is no degree. */
static int degree_of(const struct mesh *m, int feature) {
    const struct {
        enum feature feature;
        int degree;
    } degrees[] = {{FEATURE_TP, m->tp}, {FEATURE_CP, m->cp},   {FEATURE_PP, m->pp},
                   {FEATURE_EP, m->ep}, {FEATURE_VPP, m->vpp}, {FEATURE_ETP, m->etp}};
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; ++i)
        if ((int)degrees[i].feature == feature)
            return degrees[i].degree;
    return 0;
}

/* "overlap_ep + pp 4"; mesh NULL: without degrees. */
static const char *words_of(uint64_t features, const char *between, const struct mesh *m,
                            char words[static WORDS_MAX]) {
    size_t used = 0;
    words[0] = '\0';
    for (int i = 0; i < FEATURES && used < WORDS_MAX; ++i) {
        if (!(features & FEATURE_BIT(i)))
            continue;
        const int degree = m ? degree_of(m, i) : 0;
        char value[16] = "";
        if (degree > 0)
            (void)snprintf(value, sizeof value, " %d", degree);
        const int wrote = snprintf(words + used, WORDS_MAX - used, "%s%s%s", used ? between : "",
                                   feature_words[i], value);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return words;
}

static enum mosaic_status refuse(const struct engine_rule *rule, const struct mesh *m,
                                 const struct engine *e, struct status_error *err) {
    if (!err)
        return MOSAIC_BAD_INPUT;
    char words[WORDS_MAX], lifts[WORDS_MAX], reason[REASON_MAX], source[SOURCE_MAX];
    (void)words_of(rule->features, " + ", m, words);
    (void)words_of(rule->unless, " or ", NULL, lifts);
    (void)status_quote(rule->text, reason, sizeof reason);
    (void)status_quote(rule->source, source, sizeof source);
    (void)status_set(err, MOSAIC_BAD_INPUT, "not launchable on %s %s: %s%s%s: %s", e->name,
                     e->version, words, rule->unless ? " without " : "", lifts, reason);
    if (rule->unless)
        status_hint(err, "add %s, or leave one of them out; rule from %s", lifts, source);
    else
        status_hint(err, "leave %s out; rule from %s",
                    (rule->features & (rule->features - 1)) == 0 ? "it" : "one of them", source);
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status check_rounds(const struct mesh *m, const struct engine *e,
                                       struct status_error *err) {
    const int rounds = m->micro_batches > m->pp ? m->micro_batches / m->pp : 1;
    if (!e->interleaved_rounds_divide || m->vpp == 1 || m->micro_batches % rounds == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "not launchable on %s %s: interleaving runs %d micro-batches over PP %d in "
                      "%d rounds, but %d mod %d = %d",
                      e->name, e->version, m->micro_batches, m->pp, rounds, m->micro_batches,
                      rounds, m->micro_batches % rounds);
}

enum mosaic_status engine_rules_check(const struct mesh *m, const struct geometry *g,
                                      const struct workload *w, const struct engine *e,
                                      struct status_error *err) {
    TRY(check_rounds(m, e, err));
    if (e->rules.count == 0)
        return MOSAIC_OK;
    size_t from = 0;
    const struct engine_rule *const rule =
        engine_rule_broken(&e->rules, engine_features(m, g, w), &from);
    return rule ? refuse(rule, m, e, err) : MOSAIC_OK;
}

/* ---- stages and chunks ---- */

void split_from_pipeline(const struct pipeline_chunk *chunks, size_t count, int pp,
                         struct split *out) {
    out->stages = pp;
    out->is_mixed = false;
    out->first[0] = 0;
    for (int stage = 0; stage < pp; ++stage) {
        unsigned layers = 0;
        for (size_t i = (size_t)stage; i < count; i += (size_t)pp)
            layers += chunks[i].layers;
        out->first[stage + 1] = (uint16_t)(out->first[stage] + layers);
    }
}

static struct pipeline_chunk chunk_of(const struct split *split, int vpp, int mtp, int at) {
    const int stage = at % split->stages, turn = at / split->stages;
    const int layers = split->first[stage + 1] - split->first[stage];
    const bool is_last = at == split->stages * vpp - 1;
    return (struct pipeline_chunk){.layers =
                                       (uint16_t)(layers / vpp + (turn < layers % vpp ? 1 : 0)),
                                   .mtp = (uint16_t)(is_last ? mtp : 0),
                                   .embedding = at == 0,
                                   .loss = is_last};
}

enum mosaic_status pipeline_from_split(const struct split *split, int vpp, int mtp,
                                       struct pipeline_chunk *chunks, size_t capacity,
                                       struct status_error *err) {
    const int count = split->stages * vpp;
    if ((size_t)count > capacity)
        return status_set(err, MOSAIC_BAD_INPUT, "PP %d x VPP %d = %d chunks: more than %zu",
                          split->stages, vpp, count, capacity);
    for (int i = 0; i < count; ++i) {
        const struct pipeline_chunk chunk = chunk_of(split, vpp, mtp, i);
        if (pipeline_is_empty(&chunk))
            return status_set(err, MOSAIC_BAD_INPUT,
                              "chunk %d of PP %d x VPP %d would be empty: stage %d has %d layers",
                              i, split->stages, vpp, i % split->stages,
                              split->first[i % split->stages + 1] -
                                  split->first[i % split->stages]);
    }
    for (int i = 0; i < count; ++i)
        chunks[i] = chunk_of(split, vpp, mtp, i);
    return MOSAIC_OK;
}
