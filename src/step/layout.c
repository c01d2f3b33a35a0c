// SPDX-License-Identifier: GPL-3.0-or-later
/* Degrees, their arithmetic, and the even split of layers over stages. */
#include "step/layout.h"

#include "step/schedule_rules.h"

const char *schedule_name(enum schedule schedule) {
    static const char *const names[SCHEDULES] = {"1f1b", "interleaved", "zero_bubble", "dualpipe"};
    return (unsigned)schedule < SCHEDULES ? names[schedule] : "unknown";
}

const char *optimizer_name(enum optimizer optimizer) {
    static const char *const names[OPTIMIZERS] = {"adamw", "muon"};
    return (unsigned)optimizer < OPTIMIZERS ? names[optimizer] : "unknown";
}

int mesh_edp(const struct mesh *m) {
    return m->tp * m->cp * m->dp / (m->ep * m->etp);
}

enum schedule mesh_schedule(const struct mesh *m) {
    return m->vpp > 1 ? SCHEDULE_INTERLEAVED : m->schedule;
}

double workload_imbalance(const struct workload *w, int ep) {
    if (ep <= 1)
        return 1.0; /* every row stays on the GPU that routed it */
    if (!w->expert_tokens || w->expert_count < 1 || w->expert_count % ep != 0)
        return w->imbalance;
    const int each = w->expert_count / ep;
    double total = 0.0, busiest = 0.0;
    for (int rank = 0; rank < ep; ++rank) {
        double sum = 0.0;
        for (int i = 0; i < each; ++i)
            sum += w->expert_tokens[rank * each + i];
        total += sum;
        busiest = sum > busiest ? sum : busiest;
    }
    return total > 0.0 ? busiest * (double)ep / total : w->imbalance;
}

int mesh_compare(const struct mesh *a, const struct mesh *b) {
    const int left[] = {a->tp,           a->cp,  a->pp,          a->vpp,
                        a->ep,           a->etp, a->micro_batch, (int)a->recompute,
                        (int)a->schedule};
    const int right[] = {b->tp,           b->cp,  b->pp,          b->vpp,
                         b->ep,           b->etp, b->micro_batch, (int)b->recompute,
                         (int)b->schedule};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; ++i)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

static enum mosaic_status check_positive(const struct mesh *m, struct status_error *err) {
    const int values[] = {m->tp, m->cp, m->pp, m->vpp, m->ep, m->etp, m->micro_batch};
    static const char *const names[] = {"TP", "CP", "PP", "VPP", "EP", "ETP", "micro-batch"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i)
        if (values[i] < 1)
            return status_set(err, MOSAIC_BAD_INPUT, "%s %d is not at least 1", names[i],
                              values[i]);
    return MOSAIC_OK;
}

/* Chunks of the interleaved schedule are equal, or follow a stated pipeline layout, in which the
 * embedding, the loss and each MTP layer may fill one. */
static enum mosaic_status check_chunks(const struct mesh *m, const struct geometry *g,
                                       const struct workload *w, struct status_error *err) {
    const long chunks = (long)m->pp * (long)m->vpp;
    if (m->vpp == 1)
        return MOSAIC_OK;
    const long most = (long)g->layers + g->mtp_layers + 2;
    if (m->pp > 1 && w->execution.uneven_chunks && chunks > most)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "PP %d x VPP %d = %ld chunks: more than %d layers, %d MTP layers, "
                          "embedding and loss",
                          m->pp, m->vpp, chunks, g->layers, g->mtp_layers);
    if (m->pp == 1 || (!w->execution.uneven_chunks && g->layers % chunks != 0))
        return status_set(err, MOSAIC_BAD_INPUT,
                          "PP %d x VPP %d = %ld chunks: needs PP > 1 and a divisor of %d layers",
                          m->pp, m->vpp, chunks, g->layers);
    return MOSAIC_OK;
}

static enum mosaic_status check_shapes(const struct mesh *m, const struct geometry *g,
                                       const struct workload *w, struct status_error *err) {
    if (g->heads % m->tp != 0)
        return status_set(err, MOSAIC_BAD_INPUT, "TP %d does not divide %d heads", m->tp, g->heads);
    if (g->kv_heads > 0 && g->kv_heads % m->tp != 0 && m->tp % g->kv_heads != 0)
        return status_set(err, MOSAIC_BAD_INPUT, "TP %d and %d KV heads do not divide each other",
                          m->tp, g->kv_heads);
    if (g->first_dense > 0 && g->dense_ffn % m->tp != 0)
        return status_set(err, MOSAIC_BAD_INPUT, "TP %d does not divide the dense FFN width %d",
                          m->tp, g->dense_ffn);
    if (g->shared_experts > 0 && (g->shared_experts * g->shared_ffn) % m->tp != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "TP %d does not divide the shared experts' width %d", m->tp,
                          g->shared_experts * g->shared_ffn);
    if (g->experts > 0 && g->experts % m->ep != 0)
        return status_set(err, MOSAIC_BAD_INPUT, "EP %d does not divide %d experts", m->ep,
                          g->experts);
    if (g->experts == 0 && (m->ep > 1 || m->etp > 1))
        return status_set(err, MOSAIC_BAD_INPUT, "EP %d and ETP %d need a model with experts",
                          m->ep, m->etp);
    if (g->experts > 0 && g->expert_ffn % m->etp != 0)
        return status_set(err, MOSAIC_BAD_INPUT, "ETP %d does not divide the expert width %d",
                          m->etp, g->expert_ffn);
    /* Balanced causal context parallelism gives each rank a pair of chunks. */
    const int parts = m->cp > 1 ? 2 * m->cp * m->tp : m->tp;
    if (w->sequence % parts != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "sequence %d is not a multiple of %d (%sCP %d x TP %d)", w->sequence,
                          parts, m->cp > 1 ? "2 x " : "", m->cp, m->tp);
    if (m->pp > g->layers || m->pp > LAYOUT_MAX_PP)
        return status_set(err, MOSAIC_BAD_INPUT, "PP %d exceeds %d", m->pp,
                          m->pp > g->layers ? g->layers : LAYOUT_MAX_PP);
    return check_chunks(m, g, w, err);
}

enum mosaic_status mesh_complete(struct mesh *m, const struct geometry *g, const struct workload *w,
                                 int gpus, struct status_error *err) {
    TRY(check_positive(m, err));
    const double model_parallel = (double)m->tp * (double)m->cp * (double)m->pp;
    if (model_parallel > (double)gpus || gpus % (m->tp * m->cp * m->pp) != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "TP %d x CP %d x PP %d = %.0f does not divide %d GPUs", m->tp, m->cp,
                          m->pp, model_parallel, gpus);
    TRY(check_shapes(m, g, w, err));
    const int dp = gpus / (m->tp * m->cp * m->pp), stage = gpus / m->pp;
    if ((double)m->ep * (double)m->etp > (double)stage || stage % (m->ep * m->etp) != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "EP %d x ETP %d = %.0f does not divide TP %d x CP %d x DP %d = %d", m->ep,
                          m->etp, (double)m->ep * (double)m->etp, m->tp, m->cp, dp, stage);
    const double rows = (double)m->micro_batch * (double)dp;
    if (rows > (double)w->global_batch || w->global_batch % (m->micro_batch * dp) != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "micro-batch %d x DP %d = %.0f does not divide the global batch %d",
                          m->micro_batch, dp, rows, w->global_batch);
    const int sharded = w->execution.sharding == SHARD_HYBRID ? w->execution.shard_ranks : 1;
    if (sharded < 1 || dp * m->cp % sharded != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "shard groups of %d ranks do not divide DP %d x CP %d = %d", sharded, dp,
                          m->cp, dp * m->cp);
    m->dp = dp;
    m->micro_batches = w->global_batch / (m->micro_batch * dp);
    return mesh_check_schedule(m, err);
}

enum mosaic_status mesh_check_engine(const struct mesh *m, const struct geometry *g,
                                     const struct engine *e, struct status_error *err) {
    if (m->vpp > 1 && e->interleaved_batches_divide && m->micro_batches % m->pp != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "not launchable on %s %s: interleaving needs micro-batches mod PP = 0, "
                          "but %d mod %d = %d",
                          e->name, e->version, m->micro_batches, m->pp, m->micro_batches % m->pp);
    if (!e->kv_replication && g->kv_heads > 0 && g->kv_heads % m->tp != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "not launchable on %s %s: TP %d does not divide %d KV heads", e->name,
                          e->version, m->tp, g->kv_heads);
    if (!e->uneven_stages && g->layers % m->pp != 0)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "not launchable on %s %s: PP %d does not divide %d layers", e->name,
                          e->version, m->pp, g->layers);
    return MOSAIC_OK;
}

void split_even(int layers, int stages, struct split *out) {
    const int floor_layers = layers / stages, longer = layers % stages;
    /* The ends carry embedding and head: the longer stages go to the middle. */
    const int lead = (stages - longer) / 2;
    out->stages = stages;
    out->first[0] = 0;
    for (int i = 0; i < stages; ++i) {
        const int extra = i >= lead && i < lead + longer ? 1 : 0;
        out->first[i + 1] = (uint16_t)(out->first[i] + floor_layers + extra);
    }
}
