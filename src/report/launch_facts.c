// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Steps of a run: tokens / (global batch x sequence), rounded up.  Data-parallel shards: the ranks
 * that FSDP shards weights over, inside which nothing is copied; shards x replicas = DP.
 */
#include "report/launch_facts.h"

#include "step/engine_rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t when(bool has, int condition) {
    return has ? CONDITION_BIT(condition) : 0;
}

static bool is_moe(const struct launch_point *p) {
    return geometry_moe_layers(p->geometry) > 0;
}

static bool is_latent(const struct launch_point *p) {
    return p->geometry->attention == ATTENTION_MLA;
}

static const struct stated_stages *stages_of(const struct launch_point *p) {
    return workload_stages(p->workload, p->mesh);
}

/* ---- words ---- */

static bool is_uneven(const struct stated_stages *s) {
    bool is_odd = s && !stages_are_even(s);
    for (size_t i = 0; s && i + 1 < s->count; ++i)
        is_odd = is_odd || s->chunks[i].mtp > 0;
    return is_odd;
}

static uint64_t of_model(const struct launch_point *p) {
    const struct geometry *const g = p->geometry;
    const bool has_groups = !is_latent(p) && g->kv_heads > 0 && g->kv_heads != g->heads;
    return when(has_groups, CONDITION_GROUPED_QUERIES) |
           when(!is_latent(p) && (long)g->heads * g->head_dim != g->hidden,
                CONDITION_FREE_HEAD_DIM) |
           when(g->ffn_matrices == 3, CONDITION_GATED) |
           when(g->ffn_matrices == 2, CONDITION_UNGATED) | when(g->tied, CONDITION_TIED) |
           when(!g->tied, CONDITION_UNTIED) |
           when(is_moe(p) && g->first_dense > 0, CONDITION_DENSE_FIRST) |
           when(g->window > 0 && g->window_layers > 0, CONDITION_WINDOW) |
           when(is_moe(p) && g->node_limit > 0, CONDITION_NODE_LIMIT);
}

static uint64_t of_job(const struct launch_point *p) {
    const struct mesh *const m = p->mesh;
    const struct workload *const w = p->workload;
    const struct execution *const e = &w->execution;
    const struct stated_stages *const stages = stages_of(p);
    const bool has_copies = m->dp * m->cp > 1, is_fp8 = w->precision == PRECISION_FP8;
    return when(m->pp > 1 && is_uneven(stages), CONDITION_UNEVEN_SPLIT) |
           when(stages && stages->split.is_mixed, CONDITION_MIXED_RECOMPUTE) |
           when(m->pp == 1 && m->micro_batches > 1, CONDITION_ACCUMULATION) |
           when(has_copies && !e->serial_dp, CONDITION_DP_OVERLAP) |
           when(has_copies && e->serial_dp, CONDITION_SERIAL_DP) |
           when(is_fp8 && !e->block_scaling, CONDITION_TENSOR_SCALING) |
           when(is_fp8 && e->block_scaling, CONDITION_BLOCK_SCALING) |
           when(e->no_master, CONDITION_NO_MASTER) |
           when(is_moe(p) && (w->has_capacity || e->dropped > 0.0), CONDITION_DROPPING) |
           when(e->offload_activations > 0.0 && e->offload_parts != 0, CONDITION_OFFLOAD_SOME);
}

struct launch_set launch_facts_words(const struct launch_point *p) {
    return (struct launch_set){engine_features(p->mesh, p->geometry, p->workload),
                               of_model(p) | of_job(p)};
}

/* ---- values ---- */

static json_t *whole(double value) {
    return json_integer((json_int_t)value);
}

/* NULL for 0: what there is none of. */
static json_t *some(int value) {
    return value > 0 ? whole(value) : NULL;
}

static json_t *some_real(double value) {
    return value > 0.0 ? json_real(value) : NULL;
}

static json_t *text(const char *value) {
    return json_string(value);
}

static int shards(const struct launch_point *p) {
    const struct execution *const e = &p->workload->execution;
    if (e->sharding == SHARD_FSDP)
        return p->mesh->dp;
    return e->sharding == SHARD_HYBRID && e->shard_ranks > 0 ? e->shard_ranks : 1;
}

static json_t *selective(const struct launch_point *p) {
    const uint64_t features = engine_features(p->mesh, p->geometry, p->workload);
    if (p->mesh->recompute != RECOMPUTE_SELECTIVE)
        return NULL;
    json_t *const list = json_array();
    for (int i = 0; i < MODULE_COUNT; ++i)
        if (features & FEATURE_BIT((int)FEATURE_RECOMPUTE_NORM + i))
            (void)json_array_append_new(list, text(module_name((enum module)(1U << (unsigned)i))));
    return list;
}

static json_t *offload_modules(const struct execution *e) {
    if (!(e->offload_activations > 0.0))
        return NULL;
    json_t *const list = json_array();
    for (int i = 0; i < OFFLOADS; ++i)
        if (e->offload_parts == 0 || (e->offload_parts & (1U << (unsigned)i)))
            (void)json_array_append_new(list, text(offload_part_name((enum offload_part)i)));
    return list;
}

static json_t *pipeline_layout(const struct launch_point *p) {
    const struct stated_stages *const s = stages_of(p);
    char *const buffer = malloc(PIPELINE_MAX_LENGTH + 1);
    json_t *value = NULL;
    if (buffer && s && s->pp > 1 &&
        pipeline_print(s->chunks, s->count, buffer, PIPELINE_MAX_LENGTH + 1, NULL) == MOSAIC_OK)
        value = text(buffer);
    free(buffer);
    return value;
}

static json_t *split_points(const struct launch_point *p) {
    const struct stated_stages *const s = stages_of(p);
    if (!s || s->count < 2)
        return NULL;
    json_t *const list = json_array();
    int first = 0;
    for (size_t i = 0; i + 1 < s->count; ++i) {
        first += s->chunks[i].layers;
        (void)json_array_append_new(list, whole(first));
    }
    return list;
}

static json_t *layers_per_chunk(const struct launch_point *p) {
    const struct stated_stages *const s = stages_of(p);
    return s && stages_are_even(s) ? some(s->chunks[0].layers) : NULL;
}

static json_t *moe_pattern(const struct geometry *g) {
    if (geometry_moe_layers(g) == 0)
        return NULL;
    json_t *const list = json_array();
    for (int i = 0; i < g->layers; ++i)
        (void)json_array_append_new(list, whole(i >= g->first_dense));
    return list;
}

static json_t *steps(const struct launch_point *p) {
    const struct workload *const w = p->workload;
    const double each = (double)w->global_batch * (double)w->sequence;
    return p->tokens > 0.0 ? whole(ceil(p->tokens / each)) : NULL;
}

static json_t *of_layout(const struct launch_point *p, enum launch_fact fact) {
    const struct mesh *const m = p->mesh;
    const struct cluster *const c = p->cluster;
    const int values[LAUNCH_FACTS] = {[FACT_TP] = m->tp,
                                      [FACT_CP] = m->cp,
                                      [FACT_PP] = m->pp,
                                      [FACT_VPP] = m->vpp,
                                      [FACT_EP] = m->ep,
                                      [FACT_ETP] = m->etp,
                                      [FACT_DP] = m->dp,
                                      [FACT_DP_SHARDS] = shards(p),
                                      [FACT_DP_REPLICAS] = m->dp / shards(p),
                                      [FACT_GPUS] = cluster_gpus(c),
                                      [FACT_NODES] = c->nodes,
                                      [FACT_GPUS_PER_NODE] = c->gpus_per_node,
                                      [FACT_MICRO_BATCH] = m->micro_batch,
                                      [FACT_MICRO_BATCHES] = m->micro_batches,
                                      [FACT_LOCAL_BATCH] = m->micro_batch * m->micro_batches,
                                      [FACT_GLOBAL_BATCH] = p->workload->global_batch,
                                      [FACT_SEQUENCE] = p->workload->sequence};
    return some(values[fact]);
}

static json_t *of_execution(const struct launch_point *p, enum launch_fact fact) {
    const struct mesh *const m = p->mesh;
    const struct workload *const w = p->workload;
    const struct execution *const e = &w->execution;
    const char *const words[LAUNCH_FACTS] = {[FACT_SCHEDULE] = schedule_name(mesh_schedule(m)),
                                             [FACT_RECOMPUTE] = recompute_name(m->recompute),
                                             [FACT_DISPATCHER] =
                                                 is_moe(p) ? dispatcher_name(e->dispatcher) : NULL,
                                             [FACT_SHARDING] = sharding_name(e->sharding),
                                             [FACT_CUDA_GRAPHS] = graphs_name(e->graphs),
                                             [FACT_PRECISION] = precision_name(w->precision),
                                             [FACT_OPTIMIZER] = optimizer_name(w->optimizer)};
    return words[fact] ? text(words[fact]) : NULL;
}

static json_t *of_geometry(const struct launch_point *p, enum launch_fact fact) {
    const struct geometry *const g = p->geometry;
    const bool moe = is_moe(p), latent = is_latent(p), dense = !moe || g->first_dense > 0;
    const int values[LAUNCH_FACTS] = {[FACT_LAYERS] = g->layers,
                                      [FACT_HIDDEN] = g->hidden,
                                      [FACT_HEADS] = g->heads,
                                      [FACT_KV_HEADS] = latent ? 0 : g->kv_heads,
                                      [FACT_HEAD_DIM] = g->head_dim,
                                      [FACT_V_HEAD_DIM] = latent ? g->v_head_dim : 0,
                                      [FACT_Q_RANK] = latent ? g->q_rank : 0,
                                      [FACT_KV_RANK] = latent ? g->kv_rank : 0,
                                      [FACT_ROPE_DIM] = latent ? g->rope_dim : 0,
                                      [FACT_DENSE_FFN] = dense ? g->dense_ffn : 0,
                                      [FACT_EXPERTS] = moe ? g->experts : 0,
                                      [FACT_EXPERT_FFN] = moe ? g->expert_ffn : 0,
                                      [FACT_TOP_K] = moe ? g->top_k : 0,
                                      [FACT_FIRST_DENSE] = moe ? g->first_dense : 0,
                                      [FACT_MOE_LAYERS] = geometry_moe_layers(g),
                                      [FACT_NODE_LIMIT] = moe ? g->node_limit : 0,
                                      [FACT_WINDOW] = g->window_layers > 0 ? g->window : 0,
                                      [FACT_MTP_LAYERS] = g->mtp_layers,
                                      [FACT_VOCAB] =
                                          p->workload->vocab > 0 ? p->workload->vocab : g->vocab,
                                      [FACT_VOCAB_PAD_UNIT] = p->engine->vocab_pad_unit};
    return some(values[fact]);
}

static json_t *of_rest(const struct launch_point *p, enum launch_fact fact) {
    const struct geometry *const g = p->geometry;
    const struct execution *const e = &p->workload->execution;
    if (fact == FACT_STEPS)
        return steps(p);
    if (fact == FACT_TOKENS)
        return p->tokens > 0.0 ? whole(p->tokens) : NULL;
    if (fact == FACT_SHARED_FFN)
        return is_moe(p) && g->shared_experts > 0
                   ? whole((double)g->shared_experts * (double)g->shared_ffn)
                   : NULL;
    if (fact == FACT_SELECTIVE)
        return selective(p);
    if (fact == FACT_OFFLOAD_OPTIMIZER)
        return some_real(e->offload_optimizer);
    if (fact == FACT_OFFLOAD_ACTIVATIONS)
        return some_real(e->offload_activations);
    if (fact == FACT_MOE_PATTERN)
        return moe_pattern(g);
    if (fact == FACT_OFFLOAD_MODULES)
        return offload_modules(e);
    if (fact == FACT_PIPELINE_LAYOUT)
        return pipeline_layout(p);
    if (fact == FACT_SPLIT_POINTS)
        return split_points(p);
    if (fact == FACT_LAYERS_PER_CHUNK)
        return layers_per_chunk(p);
    const bool has_dense = geometry_moe_layers(g) < g->layers;
    return fact == FACT_FFN_RATIO && has_dense ? some_real((double)g->dense_ffn / (double)g->hidden)
                                               : NULL;
}

json_t *launch_facts_value(const struct launch_point *p, enum launch_fact fact) {
    json_t *value = of_layout(p, fact);
    value = value ? value : of_execution(p, fact);
    value = value ? value : of_geometry(p, fact);
    return value ? value : of_rest(p, fact);
}
