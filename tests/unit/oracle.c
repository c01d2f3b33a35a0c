// SPDX-License-Identifier: GPL-3.0-or-later
/* Brute force over layouts, splits and geometries. */
#include "oracle.h"

#include "step/memory.h"

#include <math.h>
#include <stdlib.h>

/* ---- counting, tokens, loss ---- */

/* Grouped-query attention only. */
void oracle_count(const struct geometry *g, struct oracle_counts *out) {
    const double d = g->hidden, moe = g->layers - g->first_dense;
    const double attention = d * g->heads * g->head_dim        /* Q */
                             + d * g->kv_heads * g->head_dim   /* K */
                             + d * g->kv_heads * g->v_head_dim /* V */
                             + d * g->heads * g->v_head_dim;   /* O */
    const double m = g->ffn_matrices;
    const double always = g->layers * attention + g->first_dense * m * d * g->dense_ffn +
                          moe * g->shared_experts * m * d * g->shared_ffn;
    out->total = always + moe * g->experts * m * d * g->expert_ffn;
    out->active = always + moe * g->top_k * m * d * g->expert_ffn;
    out->sparsity = 1.0 - out->active / out->total;
}

double oracle_loss(const struct law *law, double total, double tokens, double sparsity,
                   double granularity) {
    const double dense = 1.0 - sparsity;
    return law->e + law->a / pow(total, law->alpha) + law->b / pow(tokens, law->beta) +
           law->c / pow(dense, law->lambda) +
           law->j / (pow(dense, law->delta) * pow(total, law->gamma) * pow(granularity, law->eta));
}

/* The sum of what every pass adds: exp(-r / R*) of the unique tokens after r repeats. */
double oracle_worth(const struct problem *p, double tokens) {
    const double unique = p->limits.unique_tokens, decay = 15.387756;
    if (!(tokens > unique))
        return tokens;
    return unique * (1.0 + decay - decay * exp((1.0 - tokens / unique) / decay));
}

double oracle_tokens(const struct problem *p, double active, double step_time_s) {
    const double steps = p->budget.seconds * p->budget.goodput / step_time_s;
    double tokens = steps * p->workload.global_batch * p->workload.sequence;
    tokens = fmin(tokens, p->limits.tokens_per_active_max * active);
    return tokens / active >= p->limits.tokens_per_active_min ? tokens : 0.0;
}

/* ---- rules ---- */

static bool divides(int a, int b) {
    return a >= 1 && b % a == 0;
}

static bool heads_are_legal(const struct problem *p, const struct geometry *g, int tp) {
    if (!divides(tp, g->heads))
        return false;
    if (g->kv_heads == 0 || divides(tp, g->kv_heads))
        return true;
    return p->engine.kv_replication && divides(g->kv_heads, tp);
}

static bool experts_are_legal(const struct geometry *g, int ep, int etp) {
    if (g->experts == 0)
        return ep == 1 && etp == 1;
    return divides(ep, g->experts) && divides(etp, g->expert_ffn);
}

static bool stages_are_legal(const struct problem *p, const struct geometry *g, int pp, int vpp) {
    if (pp > g->layers || (vpp > 1 && pp == 1))
        return false;
    if (vpp > 1 || !p->engine.uneven_stages)
        return divides(pp * vpp, g->layers);
    return true;
}

static bool batch_is_legal(const struct problem *p, const struct mesh *m, int dp) {
    if (!divides(m->micro_batch * dp, p->workload.global_batch))
        return false;
    const int micro_batches = p->workload.global_batch / (m->micro_batch * dp);
    return m->vpp == 1 || !p->engine.interleaved_batches_divide || divides(m->pp, micro_batches);
}

bool oracle_is_legal(const struct problem *p, const struct geometry *g, const struct mesh *m) {
    const int world = p->cluster.nodes * p->cluster.gpus_per_node;
    const int chunk = m->cp > 1 ? 2 * m->cp * m->tp : m->tp;
    return divides(m->tp * m->cp * m->pp, world) && divides(m->ep * m->etp * m->pp, world) &&
           heads_are_legal(p, g, m->tp) && experts_are_legal(g, m->ep, m->etp) &&
           divides(chunk, p->workload.sequence) && stages_are_legal(p, g, m->pp, m->vpp) &&
           batch_is_legal(p, m, world / (m->tp * m->cp * m->pp));
}

static bool has(const struct axis *axis, int value) {
    for (int i = 0; i < axis->count; ++i)
        if (axis->values[i] == value)
            return true;
    return axis->count == 0;
}

/* Members that the groups of one kind have in a node, counted rank by rank over all groups: the
 * fewest that any group leaves in any node it touches. */
static int fewest_inside(const struct problem *p, int ranks, int stride) {
    const int gpus = p->cluster.nodes * p->cluster.gpus_per_node;
    const int domain = p->cluster.tiers[0].domain;
    int fewest = ranks;
    for (int start = 0; start + (ranks - 1) * stride < gpus;
         start += (start + 1) % stride == 0 ? (ranks - 1) * stride + 1 : 1)
        for (int i = 0, here = 0; i < ranks; ++i) {
            const int gpu = start + i * stride;
            ++here;
            if (i + 1 == ranks || (gpu + stride) / domain != gpu / domain) {
                fewest = here < fewest ? here : fewest;
                here = 0;
            }
        }
    return fewest;
}

/* A free axis may not leave what has been measured, if any of that kind has. */
static bool is_known(const struct problem *p, const struct axis *axis, enum collective_kind kind,
                     int ranks, int stride) {
    if (axis->count > 0 || p->layouts.allow_extrapolation || ranks == 1)
        return true;
    const int inside = fewest_inside(p, ranks, stride);
    bool has_kind = false;
    for (int i = 0; i < p->calibration.collective_count; ++i) {
        const struct collective_curve *const c = &p->calibration.collective[i];
        has_kind = has_kind || c->kind == kind;
        if (c->kind == kind && c->ranks == ranks && c->ranks_per_domain == inside)
            return true;
    }
    return !has_kind;
}

bool oracle_is_declared(const struct problem *p, const struct mesh *m) {
    const struct layout_space *const s = &p->layouts;
    return has(&s->tp, m->tp) && has(&s->cp, m->cp) && has(&s->pp, m->pp) && has(&s->vpp, m->vpp) &&
           has(&s->ep, m->ep) && has(&s->etp, m->etp) && has(&s->micro_batch, m->micro_batch) &&
           s->recompute[m->recompute] && is_known(p, &s->tp, COLLECTIVE_ALL_GATHER, m->tp, 1) &&
           is_known(p, &s->cp, COLLECTIVE_ALL_GATHER, m->cp, m->tp) &&
           is_known(p, &s->ep, COLLECTIVE_ALL_TO_ALL, m->ep, m->etp) &&
           is_known(p, &s->etp, COLLECTIVE_ALL_GATHER, m->etp, 1);
}

/* ---- splits ---- */

struct cutting {
    const struct step_context *ctx;
    const struct layer_table *table;
    const struct mesh *mesh;
    struct layer_table tables[RECOMPUTE_MODES];
    struct policy_views views; /* where stages may recompute differently */
    bool may[RECOMPUTE_MODES];
    struct split split;
    struct oracle_split *out;
    double peak_bytes;
};

/* Whether every node's host holds what its GPUs keep there, rank by rank: the stage is the
 * outermost of a rank's places. */
static bool host_holds(const struct cutting *c) {
    const struct cluster *const cluster = c->ctx->cluster;
    const int gpus = cluster->nodes * cluster->gpus_per_node, each = gpus / c->mesh->pp;
    double held = 0.0;
    if (!(cluster->host_memory_bytes > 0.0))
        return true;
    for (int gpu = 0; gpu < gpus; ++gpu) {
        const int i = gpu / each;
        const enum recompute r =
            c->split.is_mixed ? (enum recompute)c->split.recompute[i] : c->mesh->recompute;
        struct mesh mesh = *c->mesh;
        struct memory_form form;
        struct stage_content content;
        mesh.recompute = r;
        const struct layer_table *const table = c->split.is_mixed ? &c->tables[r] : c->table;
        memory_form_of(c->ctx, table, &mesh, &form);
        stage_content_of(c->ctx, table, &mesh,
                         (struct stage_range){i, c->split.first[i], c->split.first[i + 1]},
                         &content);
        held = gpu % cluster->gpus_per_node == 0 ? 0.0 : held;
        held += memory_host_bytes(&form, &content, stage_in_flight(&mesh, i));
        if (held > cluster->host_memory_bytes * (1.0 + 1e-12))
            return false;
    }
    return true;
}

static void judge(struct cutting *c) {
    struct prediction p;
    step_predict_of(c->ctx, &(struct stage_pricing){c->table, c->mesh, &c->views}, &c->split, &p,
                    NULL);
    struct oracle_split *const out = c->out;
    out->tried++;
    out->least_time_s = fmin(out->least_time_s, p.step_time_s);
    out->least_bytes = fmin(out->least_bytes, p.memory.total);
    const struct cluster *const cluster = c->ctx->cluster;
    if (p.memory.total > cluster->device.memory_bytes || p.mfu > 1.0 || p.mfu_6n > 1.0 ||
        !host_holds(c))
        return;
    if (!out->found || p.step_time_s < out->step_time_s) {
        out->found = true;
        out->step_time_s = p.step_time_s;
        out->split = c->split;
        c->peak_bytes = p.memory.total;
    }
}

/* Every list of recomputations, one a stage, of which none does more than the mesh says and some
 * does as much. */
static void judge_policies(struct cutting *c, int stage) {
    if (stage < c->mesh->pp) {
        for (int r = 0; r <= (int)c->mesh->recompute; ++r)
            if (c->may[r]) {
                c->split.recompute[stage] = (uint8_t)r;
                judge_policies(c, stage + 1);
            }
        return;
    }
    int most = 0, least = RECOMPUTE_MODES;
    for (int i = 0; i < c->mesh->pp; ++i) {
        most = c->split.recompute[i] > most ? c->split.recompute[i] : most;
        least = c->split.recompute[i] < least ? c->split.recompute[i] : least;
    }
    c->split.is_mixed = least < most;
    if (most == (int)c->mesh->recompute)
        judge(c);
}

static void cut(struct cutting *c, int stage, int layers) {
    if (stage == c->mesh->pp - 1) {
        c->split.first[stage + 1] = (uint16_t)layers;
        judge_policies(c, 0);
        return;
    }
    const int left = c->mesh->pp - 1 - stage;
    for (int end = c->split.first[stage] + 1; end <= layers - left; ++end) {
        c->split.first[stage + 1] = (uint16_t)end;
        cut(c, stage + 1, layers);
    }
}

/* Equal stages; where they cannot be, the longer ones in the middle. */
static void cut_evenly(struct cutting *c, int layers) {
    const int pp = c->mesh->pp, longer = layers % pp, lead = (pp - longer) / 2;
    for (int i = 0; i < pp; ++i)
        c->split.first[i + 1] =
            (uint16_t)(c->split.first[i] + layers / pp + (i >= lead && i < lead + longer));
    judge_policies(c, 0);
}

/* What stages may recompute: the listed ones where the engine lets stages differ. */
static void open_policies(struct cutting *c, const bool *listed) {
    const struct step_context *const ctx = c->ctx;
    const bool differ = listed && ctx->engine.recompute_per_stage && c->mesh->pp > 1 &&
                        !ctx->estimator.pipeline_fraction;
    for (int r = 0; r < RECOMPUTE_MODES; ++r) {
        c->may[r] = r == (int)c->mesh->recompute || (differ && listed[r]);
        if (!c->may[r])
            continue;
        c->views.meshes[r] = *c->mesh;
        c->views.meshes[r].recompute = (enum recompute)r;
        c->views.tables[r] = &c->tables[r];
        layer_table_fill(ctx, &c->views.meshes[r], &c->tables[r]);
    }
}

static double best_split(const struct step_context *ctx, const struct layer_table *table,
                         const struct mesh *mesh, const bool *listed, struct oracle_split *out) {
    *out = (struct oracle_split){.least_time_s = INFINITY, .least_bytes = INFINITY};
    struct cutting c = {.ctx = ctx, .table = table, .mesh = mesh, .out = out};
    c.split.stages = mesh->pp;
    open_policies(&c, listed);
    const bool is_free =
        mesh->vpp == 1 && ctx->engine.uneven_stages && !ctx->estimator.pipeline_fraction;
    if (is_free)
        cut(&c, 0, ctx->geometry->layers);
    else
        cut_evenly(&c, ctx->geometry->layers);
    return c.peak_bytes;
}

void oracle_best_split(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *mesh, struct oracle_split *out) {
    (void)best_split(ctx, table, mesh, NULL, out);
}

void oracle_best_stages(const struct step_context *ctx, const struct mesh *mesh,
                        const bool *recompute, struct oracle_split *out) {
    struct layer_table table;
    layer_table_fill(ctx, mesh, &table);
    (void)best_split(ctx, &table, mesh, recompute, out);
}

/* ---- layouts ---- */

static void try_mesh(const struct problem *p, const struct step_context *ctx,
                     const struct mesh *mesh, struct oracle_layout *out) {
    struct layer_table table;
    struct oracle_split best;
    layer_table_fill(ctx, mesh, &table);
    const double peak_bytes = best_split(ctx, &table, mesh, p->layouts.recompute, &best);
    out->meshes++;
    out->splits += best.tried;
    if (!ctx->estimator.pipeline_fraction)
        out->wrong_time_bound += step_bound(ctx, &table, mesh) > best.least_time_s;
    out->wrong_memory_bound += step_memory_bound(ctx, &table, mesh) > best.least_bytes;
    if (!best.found)
        return;
    if (out->found && best.step_time_s >= out->step_time_s) {
        out->runner_up_s = fmin(out->runner_up_s, best.step_time_s);
        return;
    }
    if (out->found)
        out->runner_up_s = out->step_time_s;
    out->found = true;
    out->step_time_s = best.step_time_s;
    out->layout = (struct layout){.mesh = *mesh, .split = best.split};
    out->peak_bytes = peak_bytes;
}

static void try_batches(const struct problem *p, const struct step_context *ctx, struct mesh m,
                        struct oracle_layout *out) {
    const int world = p->cluster.nodes * p->cluster.gpus_per_node;
    for (m.micro_batch = 1; m.micro_batch <= p->workload.global_batch; ++m.micro_batch)
        for (int r = 0; r < RECOMPUTE_MODES; ++r) {
            m.recompute = (enum recompute)r;
            if (!oracle_is_declared(p, &m) || !oracle_is_legal(p, ctx->geometry, &m))
                continue;
            m.dp = world / (m.tp * m.cp * m.pp);
            m.micro_batches = p->workload.global_batch / (m.micro_batch * m.dp);
            try_mesh(p, ctx, &m, out);
        }
}

static void try_experts(const struct problem *p, const struct step_context *ctx, struct mesh m,
                        struct oracle_layout *out) {
    const int world = p->cluster.nodes * p->cluster.gpus_per_node;
    for (m.ep = 1; m.ep <= world; ++m.ep)
        for (m.etp = 1; m.ep * m.etp <= world; ++m.etp)
            for (m.vpp = 1; divides(m.ep * m.etp * m.pp, world) && m.vpp <= ctx->geometry->layers;
                 ++m.vpp)
                try_batches(p, ctx, m, out);
}

void oracle_best_layout(const struct problem *p, const struct geometry *g,
                        struct oracle_layout *out) {
    struct step_context ctx;
    step_context_init(&ctx, g, &p->cluster, &p->calibration, &p->workload, &p->engine,
                      p->estimator);
    context_mix_policies(&ctx, p->layouts.recompute); /* bounds are of what stages may do */
    *out = (struct oracle_layout){.runner_up_s = INFINITY};
    const int world = p->cluster.nodes * p->cluster.gpus_per_node;
    struct mesh m = {0};
    for (m.tp = 1; m.tp <= world; ++m.tp)
        for (m.cp = 1; m.tp * m.cp <= world; ++m.cp)
            for (m.pp = 1; m.tp * m.cp * m.pp <= world; ++m.pp)
                if (divides(m.tp * m.cp * m.pp, world))
                    try_experts(p, &ctx, m, out);
}

/* ---- geometries ---- */

static int by_loss(const void *left, const void *right) {
    const struct oracle_plan *const a = left, *const b = right;
    if (a->loss != b->loss)
        return a->loss < b->loss ? -1 : 1;
    return a->step_time_s < b->step_time_s ? -1 : a->step_time_s > b->step_time_s;
}

static void fill_bins(const struct problem *p, struct oracle_answer *out) {
    double low = INFINITY, high = -INFINITY, place[ORACLE_GEOMETRIES_MAX];
    for (size_t i = 0; i < p->geometries.count; ++i) {
        struct oracle_counts n;
        oracle_count(&p->geometries.items[i], &n);
        place[i] = log(n.active / n.total); /* ln(1 - S) */
        low = fmin(low, place[i]);
        high = fmax(high, place[i]);
    }
    for (size_t k = 0; k < out->count; ++k) {
        const double share = high > low ? (high - place[out->plans[k].index]) / (high - low) : 0.0;
        const int bin = high - low > 1e-9 ? (int)fmin(SEARCH_BINS - 1, share * SEARCH_BINS) : 0;
        if (!out->has_bin[bin] || out->plans[k].loss < out->bin_loss[bin]) {
            out->has_bin[bin] = true;
            out->bin_loss[bin] = out->plans[k].loss;
        }
    }
}

void oracle_search(const struct problem *p, bool is_solved, struct oracle_answer *out) {
    out->count = out->most_flops = 0;
    for (int b = 0; b < SEARCH_BINS; ++b)
        out->has_bin[b] = false;
    for (size_t i = 0; i < p->geometries.count; ++i) {
        const struct geometry *const g = &p->geometries.items[i];
        struct oracle_layout *const best = &out->layouts[i];
        if (!is_solved)
            oracle_best_layout(p, g, best);
        if (!best->found)
            continue;
        struct oracle_counts n;
        oracle_count(g, &n);
        const double tokens = oracle_tokens(p, n.active, best->step_time_s);
        if (tokens > 0.0)
            out->plans[out->count++] = (struct oracle_plan){
                i,
                oracle_loss(&p->law, n.total, oracle_worth(p, tokens), n.sparsity, g->granularity),
                tokens, 6.0 * n.active * tokens, best->step_time_s};
    }
    qsort(out->plans, out->count, sizeof out->plans[0], by_loss);
    for (size_t k = 1; k < out->count; ++k)
        if (out->plans[k].model_flops > out->plans[out->most_flops].model_flops)
            out->most_flops = k;
    fill_bins(p, out);
}
