// SPDX-License-Identifier: GPL-3.0-or-later
/* The rules, one function each, and the two ways to go through them. */
#include "step/legality.h"

#include "step/engine_rules.h"
#include "step/schedule_rules.h"

#include <assert.h>
#include <string.h>

/* ---- arithmetic: degrees and shapes ---- */

static enum mosaic_status rule_positive(const struct legality_point *p, struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    if (m->tp > 0 && m->cp > 0 && m->pp > 0 && m->vpp > 0 && m->ep > 0 && m->etp > 0 &&
        m->micro_batch > 0)
        return MOSAIC_OK;
    const int values[] = {m->tp, m->cp, m->pp, m->vpp, m->ep, m->etp, m->micro_batch};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i)
        if (values[i] < 1)
            return status_set(err, MOSAIC_BAD_INPUT, "%s %d is not at least 1",
                              operand_name((enum operand)i), values[i]);
    return MOSAIC_OK;
}

static enum mosaic_status rule_world(const struct legality_point *p, struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    if (m->dp > 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "TP %d x CP %d x PP %d = %.0f does not divide %d GPUs",
                      m->tp, m->cp, m->pp, (double)m->tp * (double)m->cp * (double)m->pp, p->gpus);
}

static enum mosaic_status rule_heads(const struct legality_point *p, struct status_error *err) {
    if (p->geometry->heads % p->mesh.tp == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "TP %d does not divide %d heads", p->mesh.tp,
                      p->geometry->heads);
}

static enum mosaic_status rule_kv_heads(const struct legality_point *p, struct status_error *err) {
    const int kv_heads = p->geometry->kv_heads, tp = p->mesh.tp;
    if (kv_heads <= 0 || kv_heads % tp == 0 || tp % kv_heads == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "TP %d and %d KV heads do not divide each other", tp,
                      kv_heads);
}

static enum mosaic_status rule_dense_width(const struct legality_point *p,
                                           struct status_error *err) {
    const struct geometry *const g = p->geometry;
    if (g->first_dense <= 0 || g->dense_ffn % p->mesh.tp == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "TP %d does not divide the dense FFN width %d",
                      p->mesh.tp, g->dense_ffn);
}

static enum mosaic_status rule_shared_width(const struct legality_point *p,
                                            struct status_error *err) {
    const struct geometry *const g = p->geometry;
    const int width = g->shared_experts * g->shared_ffn;
    if (g->shared_experts <= 0 || width % p->mesh.tp == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "TP %d does not divide the shared experts' width %d",
                      p->mesh.tp, width);
}

static enum mosaic_status rule_experts(const struct legality_point *p, struct status_error *err) {
    const struct geometry *const g = p->geometry;
    if (g->experts <= 0 || g->experts % p->mesh.ep == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "EP %d does not divide %d experts", p->mesh.ep,
                      g->experts);
}

static enum mosaic_status rule_dense_model(const struct legality_point *p,
                                           struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    if (p->geometry->experts != 0 || (m->ep <= 1 && m->etp <= 1))
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "EP %d and ETP %d need a model with experts", m->ep,
                      m->etp);
}

static enum mosaic_status rule_expert_width(const struct legality_point *p,
                                            struct status_error *err) {
    const struct geometry *const g = p->geometry;
    if (g->experts <= 0 || g->expert_ffn % p->mesh.etp == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "ETP %d does not divide the expert width %d",
                      p->mesh.etp, g->expert_ffn);
}

/* Balanced causal context parallelism gives each rank a pair of chunks. */
static bool has_pairs(const struct legality_point *p) {
    return p->mesh.cp > 1 && p->workload->execution.context_shards == CONTEXT_BALANCED;
}

static long sequence_parts(const struct legality_point *p) {
    return (has_pairs(p) ? 2L : 1L) * p->mesh.cp * p->mesh.tp;
}

static enum mosaic_status rule_sequence(const struct legality_point *p, struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    const long parts = sequence_parts(p);
    if (p->workload->sequence % parts == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "sequence %d is not a multiple of %ld (%sCP %d x TP %d)",
                      p->workload->sequence, parts, has_pairs(p) ? "2 x " : "", m->cp, m->tp);
}

static enum mosaic_status rule_stages(const struct legality_point *p, struct status_error *err) {
    const int pp = p->mesh.pp, layers = p->geometry->layers;
    if (pp <= layers && pp <= LAYOUT_MAX_PP)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "PP %d exceeds %d", pp,
                      pp > layers ? layers : LAYOUT_MAX_PP);
}

/* Chunks of the interleaved schedule are equal, or follow a stated pipeline layout, in which the
 * embedding, the loss and each MTP layer may fill one. */
static enum mosaic_status rule_chunks(const struct legality_point *p, struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    const struct geometry *const g = p->geometry;
    const bool is_uneven = p->workload->execution.uneven_chunks;
    if (m->vpp == 1)
        return MOSAIC_OK;
    const long chunks = (long)m->pp * (long)m->vpp, most = (long)g->layers + g->mtp_layers + 2;
    if (m->pp > 1 && is_uneven && chunks > most)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "PP %d x VPP %d = %ld chunks: more than %d layers, %d MTP layers, "
                          "embedding and loss",
                          m->pp, m->vpp, chunks, g->layers, g->mtp_layers);
    if (m->pp == 1)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "PP %d x VPP %d = %ld chunks: needs PP > 1 and a divisor of %d layers",
                          m->pp, m->vpp, chunks, g->layers);
    if (!is_uneven && g->layers % chunks != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "PP %d x VPP %d = %ld chunks: needs PP > 1 and a divisor of %d layers, "
                          "but %d mod %ld = %ld",
                          m->pp, m->vpp, chunks, g->layers, g->layers, chunks, g->layers % chunks);
    return MOSAIC_OK;
}

/* ---- arithmetic: ranks and batches ---- */

static enum mosaic_status rule_expert_ranks(const struct legality_point *p,
                                            struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    const int stage = p->gpus / m->pp;
    const double ranks = (double)m->ep * (double)m->etp;
    if (m->dp == 0 || (ranks <= (double)stage && stage % (m->ep * m->etp) == 0))
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "EP %d x ETP %d = %.0f does not divide TP %d x CP %d x DP %d = %d", m->ep,
                      m->etp, ranks, m->tp, m->cp, m->dp, stage);
}

/* The same where TP, CP and PP leave no DP: the experts' own ranks must tile the GPUs as well. */
static enum mosaic_status rule_expert_world(const struct legality_point *p,
                                            struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    if (m->dp > 0)
        return MOSAIC_OK;
    const double ranks = (double)m->ep * (double)m->etp * (double)m->pp;
    if (ranks <= (double)p->gpus && p->gpus % (m->ep * m->etp * m->pp) == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "EP %d x ETP %d x PP %d = %.0f does not divide %d GPUs", m->ep, m->etp, m->pp,
                      ranks, p->gpus);
}

static enum mosaic_status rule_batch(const struct legality_point *p, struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    if (m->dp == 0 || m->micro_batches > 0)
        return MOSAIC_OK;
    return status_set(
        err, MOSAIC_BAD_INPUT, "micro-batch %d x DP %d = %.0f does not divide the global batch %d",
        m->micro_batch, m->dp, (double)m->micro_batch * (double)m->dp, p->workload->global_batch);
}

static int shard_ranks(const struct workload *w) {
    return w->execution.sharding == SHARD_HYBRID ? w->execution.shard_ranks : 1;
}

/* Ranks that share the vocabulary projection, 1 where none do. */
static int ring_ranks(const struct workload *w) {
    return w && w->execution.vocab_ring > 1 ? w->execution.vocab_ring : 1;
}

static enum mosaic_status rule_vocab_ring(const struct legality_point *p,
                                          struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    const int ranks = ring_ranks(p->workload);
    if (m->dp == 0 || m->dp * m->cp % ranks == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "a vocabulary ring of %d ranks does not divide DP %d x CP %d = %d", ranks,
                      m->dp, m->cp, m->dp * m->cp);
}

/* Boundaries are what full recomputation keeps. */
static enum mosaic_status rule_boundaries(const struct legality_point *p,
                                          struct status_error *err) {
    const struct execution *const e = &p->workload->execution;
    if (!(e->checkpoint_host_bytes > 0.0))
        return MOSAIC_OK;
    if (e->offload_activations > 0.0)
        return status_set(
            err, MOSAIC_BAD_INPUT,
            "checkpoint_offload and offload_activations both move what a layer keeps");
    if (p->mesh.recompute == RECOMPUTE_FULL)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "checkpoint offload takes layer boundaries, which full recomputation keeps, "
                      "not %s",
                      recompute_name(p->mesh.recompute));
}

static enum mosaic_status rule_whole_experts(const struct legality_point *p,
                                             struct status_error *err) {
    const struct execution *const e = &p->workload->execution;
    if (p->mesh.etp == 1 || (e->balance == BALANCE_NONE && e->dispatch_chunk == 0))
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "%s needs whole experts, not ETP %d",
                      e->dispatch_chunk > 0 ? "chunked dispatch" : "LLEP", p->mesh.etp);
}

static enum mosaic_status rule_state_stream(const struct legality_point *p,
                                            struct status_error *err) {
    const struct execution *const e = &p->workload->execution;
    if (!(e->bucket_params > 0.0))
        return MOSAIC_OK;
    if (p->workload->optimizer != OPTIMIZER_ADAMW)
        return status_set(err, MOSAIC_BAD_INPUT, "the optimizer stream steps adamw, not %s",
                          optimizer_name(p->workload->optimizer));
    if (e->offload_optimizer > 0.0 || e->no_master || e->bf16_moments)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "the optimizer stream keeps FP32 states of its own on the host: not "
                          "together with %s",
                          e->offload_optimizer > 0.0 ? "offload_optimizer"
                          : e->no_master             ? "master none"
                                                     : "bf16 moments");
    return MOSAIC_OK;
}

static enum mosaic_status rule_shards(const struct legality_point *p, struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    const int sharded = shard_ranks(p->workload);
    if (m->dp == 0 || (sharded >= 1 && m->dp * m->cp % sharded == 0))
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "shard groups of %d ranks do not divide DP %d x CP %d = %d", sharded, m->dp,
                      m->cp, m->dp * m->cp);
}

/* ---- arithmetic: schedules ---- */

static enum mosaic_status rule_schedule_chunks(const struct legality_point *p,
                                               struct status_error *err) {
    return schedule_one_chunk(&p->mesh, err);
}

static enum mosaic_status rule_schedule_stages(const struct legality_point *p,
                                               struct status_error *err) {
    return schedule_stages(&p->mesh, err);
}

static enum mosaic_status rule_dualpipe_stages(const struct legality_point *p,
                                               struct status_error *err) {
    return schedule_even_stages(&p->mesh, err);
}

static enum mosaic_status rule_dualpipe_batches(const struct legality_point *p,
                                                struct status_error *err) {
    if (p->mesh.micro_batches == 0)
        return MOSAIC_OK;
    return schedule_enough_batches(&p->mesh, err);
}

static enum mosaic_status rule_dualpipe_even_batches(const struct legality_point *p,
                                                     struct status_error *err) {
    if (p->mesh.micro_batches == 0)
        return MOSAIC_OK;
    return schedule_even_batches(&p->mesh, err);
}

/* ---- rules of an engine ---- */

static enum mosaic_status rule_interleaved_batches(const struct legality_point *p,
                                                   struct status_error *err) {
    const struct mesh *const m = &p->mesh;
    const struct engine *const e = p->engine;
    if (m->vpp <= 1 || !e->interleaved_batches_divide || m->micro_batches % m->pp == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "not launchable on %s %s: interleaving needs micro-batches mod PP = 0, but "
                      "%d mod %d = %d",
                      e->name, e->version, m->micro_batches, m->pp, m->micro_batches % m->pp);
}

static enum mosaic_status rule_kv_replication(const struct legality_point *p,
                                              struct status_error *err) {
    const struct engine *const e = p->engine;
    const int kv_heads = p->geometry->kv_heads;
    if (e->kv_replication || kv_heads <= 0 || kv_heads % p->mesh.tp == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "not launchable on %s %s: TP %d does not divide %d KV heads", e->name,
                      e->version, p->mesh.tp, kv_heads);
}

static enum mosaic_status rule_even_stages(const struct legality_point *p,
                                           struct status_error *err) {
    const struct engine *const e = p->engine;
    if (e->uneven_stages || p->geometry->layers % p->mesh.pp == 0)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT,
                      "not launchable on %s %s: PP %d does not divide %d layers", e->name,
                      e->version, p->mesh.pp, p->geometry->layers);
}

/* ---- the tables ---- */

#define READS1(a) (1u << OPERAND_##a)
#define READS2(a, b) (READS1(a) | READS1(b))
#define READS3(a, b, c) (READS2(a, b) | READS1(c))
#define READS4(a, b, c, d) (READS3(a, b, c) | READS1(d))
#define READS5(a, b, c, d, e) (READS4(a, b, c, d) | READS1(e))

/* X(name, operands read), in the order of judging. */
#define SHAPE_RULES(X)                                                                             \
    X(world, READS4(TP, CP, PP, GPUS))                                                             \
    X(heads, READS2(TP, HEADS))                                                                    \
    X(kv_heads, READS2(TP, KV_HEADS))                                                              \
    X(dense_width, READS2(TP, DENSE_WIDTH))                                                        \
    X(shared_width, READS2(TP, SHARED_WIDTH))                                                      \
    X(experts, READS2(EP, EXPERTS))                                                                \
    X(dense_model, READS3(EP, ETP, EXPERTS))                                                       \
    X(expert_width, READS2(ETP, EXPERT_WIDTH))                                                     \
    X(sequence, READS3(SEQUENCE, CP, TP))                                                          \
    X(stages, READS2(PP, LAYERS))                                                                  \
    X(chunks, READS3(PP, VPP, LAYERS))                                                             \
    X(expert_ranks, READS5(EP, ETP, TP, CP, DP) | READS1(GPUS))                                    \
    X(expert_world, READS4(EP, ETP, PP, GPUS))

#define BATCH_RULES(X)                                                                             \
    X(batch, READS3(MICRO_BATCH, DP, GLOBAL_BATCH))                                                \
    X(shards, READS3(DP, CP, SHARD_RANKS))                                                         \
    X(vocab_ring, READS3(DP, CP, VOCAB_RING))                                                      \
    X(boundaries, 0)                                                                               \
    X(whole_experts, READS1(ETP))                                                                  \
    X(state_stream, 0)

#define SCHEDULE_RULES(X)                                                                          \
    X(schedule_chunks, READS1(VPP))                                                                \
    X(schedule_stages, READS1(PP))                                                                 \
    X(dualpipe_stages, READS1(PP))                                                                 \
    X(dualpipe_batches, READS2(PP, MICRO_BATCHES))                                                 \
    X(dualpipe_even_batches, READS1(MICRO_BATCHES))

/* The first memory schedule that an execution asks for, or NULL. */
static const char *memory_schedule(const struct legality_point *p) {
    const struct execution *const e = &p->workload->execution;
    const bool is_moe = p->geometry->experts > 0;
    return is_moe && e->balance == BALANCE_LLEP ? "expert_balance llep"
           : is_moe && e->dispatch_chunk > 0    ? "dispatch_chunk"
           : e->vocab_ring > 1                  ? "vocab_ring"
           : e->checkpoint_host_bytes > 0.0     ? "checkpoint_offload"
           : e->bucket_params > 0.0             ? "optimizer_bucket"
                                                : NULL;
}

static enum mosaic_status rule_memory_schedules(const struct legality_point *p,
                                                struct status_error *err) {
    const struct engine *const e = p->engine;
    const char *const schedule = e->memory_schedules || !p->workload ? NULL : memory_schedule(p);
    if (!schedule)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_BAD_INPUT, "not launchable on %s %s: it has no %s", e->name,
                      e->version, schedule);
}

/* Features that the engine's document says do not go together. */
static enum mosaic_status rule_conflicts(const struct legality_point *p, struct status_error *err) {
    return p->workload ? engine_rules_check(&p->mesh, p->geometry, p->workload, p->engine, err)
                       : MOSAIC_OK;
}

#define ENGINE_RULES(X)                                                                            \
    X(interleaved_batches, READS3(VPP, MICRO_BATCHES, PP))                                         \
    X(kv_replication, READS2(TP, KV_HEADS))                                                        \
    X(even_stages, READS2(PP, LAYERS))                                                             \
    X(memory_schedules, 0)                                                                         \
    X(conflicts, READS2(PP, MICRO_BATCHES))

struct rule {
    const char *name;
    enum legality_kind kind;
    unsigned operands;
    enum mosaic_status (*check)(const struct legality_point *p, struct status_error *err);
};

static const struct rule rules[] = {
#define RULE_ROW(name, reads) {#name, LEGALITY_ARITHMETIC, reads, rule_##name},
    SHAPE_RULES(RULE_ROW) BATCH_RULES(RULE_ROW) SCHEDULE_RULES(RULE_ROW)
#undef RULE_ROW
#define RULE_ROW(name, reads) {#name, LEGALITY_ENGINE, reads, rule_##name},
        ENGINE_RULES(RULE_ROW)
#undef RULE_ROW
};
static_assert(sizeof rules / sizeof rules[0] < VIOLATIONS_MAX, "every rule may be broken at once");

/* 0 where there is no whole number; of a positive mesh. */
static int dp_of(const struct mesh *m, int gpus) {
    const double ranks = (double)m->tp * (double)m->cp * (double)m->pp;
    if (ranks > (double)gpus || gpus % (m->tp * m->cp * m->pp) != 0)
        return 0;
    return gpus / (m->tp * m->cp * m->pp);
}

static int micro_batches_of(const struct mesh *m, int batch) {
    if (m->dp == 0 || (double)m->micro_batch * (double)m->dp > (double)batch ||
        batch % (m->micro_batch * m->dp) != 0)
        return 0;
    return batch / (m->micro_batch * m->dp);
}

/* No table here: the search asks this of every mesh, and calls by name are cheap. */
#define RULE_CALL(name, reads) TRY(rule_##name(p, err));
static enum mosaic_status check_shapes(const struct legality_point *p, struct status_error *err) {
    SHAPE_RULES(RULE_CALL)
    return MOSAIC_OK;
}

static enum mosaic_status check_batches(const struct legality_point *p, struct status_error *err) {
    BATCH_RULES(RULE_CALL)
    if (p->mesh.schedule == SCHEDULE_1F1B) /* takes any */
        return MOSAIC_OK;
    SCHEDULE_RULES(RULE_CALL)
    return MOSAIC_OK;
}

enum mosaic_status mesh_complete(struct mesh *m, const struct geometry *g, const struct workload *w,
                                 int gpus, struct status_error *err) {
    struct legality_point point = {.mesh = *m, .geometry = g, .workload = w, .gpus = gpus};
    TRY(rule_positive(&point, err));
    point.mesh.dp = dp_of(m, gpus);
    TRY(check_shapes(&point, err));
    point.mesh.micro_batches = micro_batches_of(&point.mesh, w->global_batch);
    TRY(check_batches(&point, err));
    *m = point.mesh;
    return MOSAIC_OK;
}

enum mosaic_status mesh_check_engine(const struct mesh *m, const struct geometry *g,
                                     const struct workload *w, const struct engine *engine,
                                     struct status_error *err) {
    const struct legality_point point = {
        .mesh = *m, .geometry = g, .workload = w, .engine = engine};
    const struct legality_point *const p = &point;
    ENGINE_RULES(RULE_CALL)
#undef RULE_CALL
    return MOSAIC_OK;
}

/* ---- all broken rules ---- */

/* What neither the model nor the layout fixes has a nearest value on either side. */
static void hint_multiple(struct violation *v, const char *what, int value, double unit) {
    if (!(unit >= 1.0) || unit > (double)(1 << 30))
        return;
    const long step = (long)unit, below = value / step * step;
    if (below > 0)
        (void)snprintf(v->hint, sizeof v->hint, "the nearest values of the %s are %ld and %ld",
                       what, below, below + step);
    else
        (void)snprintf(v->hint, sizeof v->hint, "the least %s is %ld", what, step);
}

static void hint(const struct legality_point *p, struct violation *v) {
    const struct mesh *const m = &p->mesh;
    v->hint[0] = '\0';
    if (v->operands & READS1(GLOBAL_BATCH))
        hint_multiple(v, "global batch", p->workload->global_batch,
                      (double)m->micro_batch * (double)m->dp);
    else if (v->operands & READS1(SEQUENCE))
        hint_multiple(v, "sequence", p->workload->sequence, (double)sequence_parts(p));
    else if (strcmp(v->rule, "chunks") == 0 && m->pp > 1 && !p->workload->execution.uneven_chunks)
        (void)snprintf(v->hint, sizeof v->hint,
                       "chunks of unequal length need execution.uneven_chunks");
    else if ((v->operands & READS2(EP, GPUS)) == READS2(EP, GPUS) && m->dp > 0)
        (void)snprintf(v->hint, sizeof v->hint, "EP %d x ETP %d x PP %d = %.0f must divide %d GPUs",
                       m->ep, m->etp, m->pp, (double)m->ep * (double)m->etp * (double)m->pp,
                       p->gpus);
}

static unsigned not_positive(const struct legality_point *p) {
    unsigned operands = 0;
    for (int i = OPERAND_TP; i <= OPERAND_MICRO_BATCH; ++i)
        if (operand_value(p, (enum operand)i) < 1)
            operands |= 1u << i;
    return operands;
}

static void violate(const struct legality_point *p, const struct rule *rule,
                    const struct status_error *err, struct violation *out) {
    out->rule = rule->name;
    out->kind = rule->kind;
    out->operands = rule->operands;
    (void)snprintf(out->text, sizeof out->text, "%s", err->message);
    hint(p, out);
}

int legality_find(struct legality_point *p, struct violation *out) {
    struct status_error err;
    p->mesh.dp = p->mesh.micro_batches = 0;
    if (rule_positive(p, &err) != MOSAIC_OK) {
        const struct rule positive = {"positive", LEGALITY_ARITHMETIC, not_positive(p), NULL};
        violate(p, &positive, &err, out);
        return 1;
    }
    p->mesh.dp = dp_of(&p->mesh, p->gpus);
    p->mesh.micro_batches = micro_batches_of(&p->mesh, p->workload->global_batch);
    int count = 0;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; ++i) {
        const struct rule *const rule = &rules[i];
        const bool is_engines = rule->kind == LEGALITY_ENGINE;
        if (is_engines && (!p->engine || (p->mesh.micro_batches == 0 &&
                                          (rule->operands & READS1(MICRO_BATCHES)) != 0)))
            continue;
        if (rule->check(p, &err) != MOSAIC_OK)
            violate(p, rule, &err, &out[count++]);
    }
    return count;
}

/* ---- names ---- */

const char *legality_kind_name(enum legality_kind kind) {
    return kind == LEGALITY_ENGINE ? "engine" : "arithmetic";
}

const char *operand_name(enum operand operand) {
    static const char *const names[OPERANDS] = {
#define OPERAND_NAME(id, name) [id] = (name),
        OPERAND_LIST(OPERAND_NAME)
#undef OPERAND_NAME
    };
    return (unsigned)operand < OPERANDS ? names[operand] : "unknown";
}

int operand_value(const struct legality_point *p, enum operand operand) {
    const struct mesh *const m = &p->mesh;
    const struct geometry *const g = p->geometry;
    const int values[OPERANDS] = {[OPERAND_TP] = m->tp,
                                  [OPERAND_CP] = m->cp,
                                  [OPERAND_PP] = m->pp,
                                  [OPERAND_VPP] = m->vpp,
                                  [OPERAND_EP] = m->ep,
                                  [OPERAND_ETP] = m->etp,
                                  [OPERAND_MICRO_BATCH] = m->micro_batch,
                                  [OPERAND_DP] = m->dp,
                                  [OPERAND_MICRO_BATCHES] = m->micro_batches,
                                  [OPERAND_GPUS] = p->gpus,
                                  [OPERAND_GLOBAL_BATCH] = p->workload->global_batch,
                                  [OPERAND_SEQUENCE] = p->workload->sequence,
                                  [OPERAND_SHARD_RANKS] = shard_ranks(p->workload),
                                  [OPERAND_VOCAB_RING] = ring_ranks(p->workload),
                                  [OPERAND_LAYERS] = g->layers,
                                  [OPERAND_MTP_LAYERS] = g->mtp_layers,
                                  [OPERAND_HEADS] = g->heads,
                                  [OPERAND_KV_HEADS] = g->kv_heads,
                                  [OPERAND_DENSE_WIDTH] = g->dense_ffn,
                                  [OPERAND_SHARED_WIDTH] = g->shared_experts * g->shared_ffn,
                                  [OPERAND_EXPERTS] = g->experts,
                                  [OPERAND_EXPERT_WIDTH] = g->expert_ffn};
    return (unsigned)operand < OPERANDS ? values[operand] : 0;
}
