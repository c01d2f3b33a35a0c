// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Live sets and phases out of the memory model's own items: a set is what changes hands when its
 * key is turned off, a phase the items alive in it.
 */
#include "step/live_sets.h"

#include <math.h>

const char *live_set_name(enum live_set_kind set) {
    static const char *const names[LIVE_SETS] = {"expert dispatch", "vocabulary projection",
                                                 "checkpoint boundaries", "AdamW state"};
    return (unsigned)set < LIVE_SETS ? names[set] : "unknown";
}

const char *live_schedule_name(enum live_set_kind set) {
    static const char *const names[LIVE_SETS] = {
        "PipelinedLLEP", "Ring-DTP", "Selective Checkpoint Offload", "OffloadStreamAdamW"};
    return (unsigned)set < LIVE_SETS ? names[set] : "unknown";
}

const char *live_phase_name(enum live_phase_kind phase) {
    static const char *const names[LIVE_PHASES] = {"resident", "forward layer", "head",
                                                   "backward layer", "optimizer"};
    return (unsigned)phase < LIVE_PHASES ? names[phase] : "unknown";
}

const char *live_part(const struct live_phase *phase, int i, double *bytes) {
    int at = 0;
#define FIND_PART(name)                                                                            \
    if (at++ == i) {                                                                               \
        *bytes = phase->name;                                                                      \
        return #name;                                                                              \
    }
    LIVE_PARTS(FIND_PART)
#undef FIND_PART
    return NULL;
}

/* The same point with other keys of its execution. */
struct variant {
    struct workload workload;
    struct step_context ctx;
    struct layer_table table;
    double dense_kept_bytes; /* a MoE layer's activations but those of routed rows */
    struct memory_form form;
    struct memory_items items;
    double step_time_s;
    int worst_stage;
};

static bool is_on(const struct execution *e, enum live_set_kind set) {
    switch (set) {
    case LIVE_DISPATCH:
        return e->dispatch_chunk > 0 || e->balance != BALANCE_NONE;
    case LIVE_VOCABULARY:
        return e->vocab_ring > 1;
    case LIVE_BOUNDARIES:
        return e->checkpoint_host_bytes > 0.0;
    case LIVE_OPTIMIZER:
        return e->bucket_params > 0.0;
    case LIVE_SETS:
        break;
    }
    return false;
}

static void turn_off(struct execution *e, enum live_set_kind set) {
    switch (set) {
    case LIVE_DISPATCH:
        e->dispatch_chunk = 0;
        e->balance = BALANCE_NONE;
        return;
    case LIVE_VOCABULARY:
        e->vocab_ring = 1;
        return;
    case LIVE_BOUNDARIES:
        e->checkpoint_host_bytes = 0.0;
        return;
    case LIVE_OPTIMIZER:
        e->bucket_params = 0.0;
        return;
    case LIVE_SETS:
        break;
    }
}

/* What a layer keeps with nothing recomputed does not hang on chunks: all of it is there while the
 * layer's backward runs. */
static double dense_kept_bytes(const struct step_context *ctx, const struct mesh *mesh) {
    struct mesh storing = *mesh;
    struct layer_table table;
    storing.recompute = RECOMPUTE_NONE;
    layer_table_fill(ctx, &storing, &table);
    return table.cost[LAYER_MOE].kept_bytes;
}

/* off: a schedule, or LIVE_SETS for the point itself. */
static void variant_of(const struct step_context *ctx, const struct mesh *mesh,
                       const struct split *split, enum live_set_kind off, struct variant *out) {
    out->workload = *ctx->workload;
    turn_off(&out->workload.execution, off);
    step_context_init(&out->ctx, ctx->geometry, ctx->cluster, ctx->calibration, &out->workload,
                      &ctx->engine, ctx->estimator);
    layer_table_fill(&out->ctx, mesh, &out->table);
    out->dense_kept_bytes = dense_kept_bytes(&out->ctx, mesh);
    memory_form_of(&out->ctx, &out->table, mesh, &out->form);
    struct prediction prediction;
    step_predict(&out->ctx, &out->table, mesh, split, &prediction, NULL);
    out->step_time_s = prediction.step_time_s;
    out->worst_stage = prediction.worst_stage;
}

double live_routed_tokens(const struct step_context *ctx, const struct mesh *mesh) {
    return (double)mesh->micro_batch * (double)ctx->workload->sequence /
           ((double)mesh->cp * (double)mesh->tp);
}

struct state_stream live_stream_of(const struct step_context *ctx, const struct layer_table *table,
                                   const struct mesh *mesh, const struct stage_content *content) {
    if (!(ctx->workload->execution.bucket_params > 0.0))
        return (struct state_stream){0};
    const struct shard_groups g = sharding_groups(ctx, mesh);
    return optimizer_stream_of(ctx, table, &g,
                               content->dense_params / g.dense_states +
                                   ring_rest_share(ctx, g.dense_states) * content->head_elsewhere +
                                   content->expert_params / g.expert_states);
}

/* Bytes of one set on one GPU of the stage. */
static double set_bytes(const struct variant *v, const struct live_sets *at,
                        enum live_set_kind set) {
    const struct stage_content *const c = &at->content;
    const struct layer_cost *const moe = &v->table.cost[LAYER_MOE];
    switch (set) {
    case LIVE_DISPATCH:
        if (!c->has[LAYER_MOE])
            return 0.0;
        return moe->interior_bytes - v->dense_kept_bytes - moe->kept_routed_bytes +
               v->items.routed + v->items.communication;
    case LIVE_VOCABULARY:
        if (!c->is_last)
            return 0.0;
        return v->table.logits_bytes +
               v->table.head_params *
                   (WEIGHT_BYTES + execution_gradient_bytes(&v->workload.execution));
    case LIVE_BOUNDARIES:
        return v->items.activations - (c->is_last ? v->table.head_kept_bytes : 0.0);
    case LIVE_OPTIMIZER:
        return v->items.optimizer +
               live_stream_of(&v->ctx, &v->table, v->form.mesh, c).staging_bytes;
    case LIVE_SETS:
        break;
    }
    return 0.0;
}

static double set_guarantee(const struct variant *v, const struct live_sets *at,
                            enum live_set_kind set) {
    const double bytes = at->sets[set].bytes;
    if (set != LIVE_DISPATCH || !at->content.has[LAYER_MOE])
        return bytes;
    return bytes - v->items.communication +
           fmax(expert_exchange_guarantee(&v->ctx, v->form.mesh, &at->routes),
                v->items.communication);
}

static double set_host_bytes(const struct variant *v, const struct live_sets *at,
                             enum live_set_kind set) {
    const struct stage_content *const c = &at->content;
    if (!v->form.uses_host)
        return 0.0;
    const double state = v->form.state.host[0] * c->dense_params +
                         v->form.state.head_host * c->head_elsewhere +
                         v->form.state.host[1] * c->expert_params;
    if (set == LIVE_OPTIMIZER)
        return state;
    return set == LIVE_BOUNDARIES ? memory_host_bytes(&v->form, c, at->in_flight) - state : 0.0;
}

static double ring_link_bytes(const struct vocab_ring *ring) {
    return (double)ring->hops * (ring->hop_forward_bytes + ring->hop_backward_bytes) +
           ring->return_forward_bytes + ring->return_backward_bytes;
}

/* Borrowed weights travel forward and backward, their gradients home. */
static double lending_link_bytes(const struct step_context *ctx,
                                 const struct expert_schedule *routes) {
    const struct geometry *const g = ctx->geometry;
    const double params = (double)g->ffn_matrices * (double)g->hidden * (double)g->expert_ffn;
    return expert_lending_bytes(ctx, routes, params) +
           routes->foreign_experts * params * WEIGHT_BYTES;
}

/* Of the head and each MTP layer's. */
static double head_passes(const struct variant *v, const struct live_sets *at) {
    return at->content.is_last ? 1.0 + (double)v->ctx.geometry->mtp_layers : 0.0;
}

static double set_link_bytes(const struct variant *v, const struct live_sets *at,
                             enum live_set_kind set) {
    const double batches = (double)v->form.mesh->micro_batches;
    switch (set) {
    case LIVE_DISPATCH:
        return batches * at->content.moe_layers * lending_link_bytes(&v->ctx, &at->routes);
    case LIVE_VOCABULARY:
        return batches * head_passes(v, at) * ring_link_bytes(&at->ring.ring);
    case LIVE_BOUNDARIES:
        return 2.0 * batches * at->boundaries.link_bytes;
    case LIVE_OPTIMIZER:
        return at->stream.up_bytes + at->stream.down_bytes;
    case LIVE_SETS:
        break;
    }
    return 0.0;
}

/* What chunks rebuild: the same routing in one piece runs less again. */
static double rebuilt_flop(const struct variant *v) {
    struct workload workload = v->workload;
    struct step_context ctx;
    struct layer_table whole;
    workload.execution.dispatch_chunk = 0;
    step_context_init(&ctx, v->ctx.geometry, v->ctx.cluster, v->ctx.calibration, &workload,
                      &v->ctx.engine, v->ctx.estimator);
    layer_table_fill(&ctx, v->form.mesh, &whole);
    return v->table.cost[LAYER_MOE].recompute_flop - whole.cost[LAYER_MOE].recompute_flop;
}

static double set_extra_flop(const struct variant *v, const struct live_sets *at,
                             enum live_set_kind set) {
    const double batches = (double)v->form.mesh->micro_batches;
    if (set == LIVE_VOCABULARY)
        return batches * head_passes(v, at) * at->ring.ring.extra_flop;
    return set == LIVE_DISPATCH ? batches * at->content.moe_layers * rebuilt_flop(v) : 0.0;
}

static void set_of(const struct variant *on, const struct variant *off, enum live_set_kind set,
                   struct live_sets *at) {
    struct live_set *const out = &at->sets[set];
    *out = (struct live_set){.is_on = is_on(&on->workload.execution, set),
                             .before_bytes = set_bytes(off, at, set),
                             .bytes = set_bytes(on, at, set)};
    out->guarantee_bytes = set_guarantee(on, at, set);
    out->host_bytes = set_host_bytes(on, at, set);
    if (!out->is_on)
        return;
    out->link_bytes = set_link_bytes(on, at, set);
    out->extra_s = on->step_time_s - off->step_time_s;
    out->extra_flop = set_extra_flop(on, at, set);
}

static void descriptors_of(const struct variant *v, struct live_sets *out) {
    const struct step_context *const ctx = &v->ctx;
    const struct mesh *const mesh = v->form.mesh;
    expert_schedule_of(ctx, mesh, live_routed_tokens(ctx, mesh), &out->routes);
    ring_head_of(ctx, mesh, live_routed_tokens(ctx, mesh) * (double)mesh->tp,
                 step_padded_vocab(ctx, mesh->tp) / (double)mesh->tp, &out->ring);
    if (v->form.has_boundaries)
        memory_boundaries(&v->ctx, &v->table, &out->content, out->in_flight, &out->boundaries);
    out->stream = live_stream_of(ctx, &v->table, mesh, &out->content);
}

static double layer_interior(const struct memory_form *f, const struct stage_content *c) {
    const double dense = c->has[LAYER_DENSE] ? f->interior[LAYER_DENSE] : 0.0;
    return fmax(dense, c->has[LAYER_MOE] ? f->interior[LAYER_MOE] : 0.0);
}

static void sum_phase(const struct memory_form *f, struct live_phase *phase) {
    phase->total_bytes = 0.0;
#define ADD_PART(name) phase->total_bytes += phase->name;
    LIVE_PARTS(ADD_PART)
#undef ADD_PART
    phase->held_bytes =
        phase->total_bytes * (1.0 + f->ctx->calibration->scalar[CAL_FRAGMENTATION]) + f->runtime;
}

/* still: the same point with its state resident, whose workspace holds no buckets. */
static void phases_of(const struct variant *v, const struct variant *still, struct live_sets *out) {
    const struct memory_items *const m = &out->memory;
    const double interior = layer_interior(&v->form, &out->content);
    const double workspace =
        fmax(still->items.workspace - fmax(interior - m->logits, 0.0), v->form.workspace);
    const double gradient = execution_gradient_bytes(&v->workload.execution);
    const double head_kept = out->content.is_last ? v->table.head_kept_bytes : 0.0;
    const struct live_phase resident = {.resident =
                                            m->weights + m->gradients + m->optimizer + m->graphs};
    struct live_phase body = resident;
    body.kept = m->activations + m->routed;
    body.exchange = m->communication;
    body.gathered = m->gathered;
    body.workspace = workspace;
    struct live_phase *const p = out->phases;
    p[LIVE_RESIDENT] = p[LIVE_STEP] = resident;
    p[LIVE_STEP].staging = out->stream.staging_bytes;
    p[LIVE_BACKWARD] = p[LIVE_FORWARD] = body;
    p[LIVE_BACKWARD].interior = p[LIVE_FORWARD].interior = interior;
    /* Before any gradient, and before the head has run. */
    p[LIVE_FORWARD].kept -= head_kept;
    p[LIVE_FORWARD].gathered *= WEIGHT_BYTES / (WEIGHT_BYTES + gradient);
    p[LIVE_FORWARD].workspace -= v->form.workspace;
    if (out->content.is_last) {
        p[LIVE_HEAD] = body;
        p[LIVE_HEAD].logits = m->logits;
    }
    for (int i = 0; i < LIVE_PHASES; ++i)
        if (i != LIVE_HEAD || out->content.is_last)
            sum_phase(&v->form, &p[i]);
}

/* The first of equals, but one. */
static enum live_phase_kind largest_but(const struct live_sets *at, enum live_phase_kind but) {
    enum live_phase_kind most = LIVE_RESIDENT;
    for (int i = LIVE_FORWARD; i < LIVE_PHASES; ++i)
        if (i != (int)but && at->phases[i].total_bytes > at->phases[most].total_bytes)
            most = (enum live_phase_kind)i;
    return most;
}

static void stage_of(const struct variant *v, const struct split *split, struct live_sets *out) {
    struct stage_run runs[LAYOUT_MAX_PP];
    const int count = stage_runs_find(&v->ctx, &v->table, v->form.mesh, split, runs);
    int at = 0;
    if (split->is_mixed) /* the form is of one of them */
        while (at + 1 < count && runs[at + 1].stage <= v->worst_stage)
            ++at;
    else
        at = memory_fullest(&v->form, runs, count, &out->memory);
    const struct stage_run *const fullest = &runs[at];
    if (split->is_mixed)
        memory_of_stage(&v->form, &fullest->content, fullest->in_flight, &out->memory);
    out->stage = fullest->stage;
    out->content = fullest->content;
    out->in_flight = fullest->in_flight;
    out->guarantee_bytes = memory_guarantee(&v->form, &fullest->content, fullest->in_flight);
}

struct mesh live_mesh(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, const struct split *split) {
    struct mesh own = *mesh;
    struct prediction prediction;
    if (!split->is_mixed)
        return own;
    step_predict(ctx, table, mesh, split, &prediction, NULL);
    own.recompute = split_recompute(split, mesh, prediction.worst_stage);
    return own;
}

void live_sets_of(const struct step_context *ctx, const struct layer_table *table,
                  const struct mesh *of, const struct split *split, struct live_sets *out) {
    const struct mesh own = live_mesh(ctx, table, of, split);
    const struct mesh *const mesh = &own;
    struct variant on;
    struct variant off;
    *out = (struct live_sets){0};
    variant_of(ctx, mesh, split, LIVE_SETS, &on);
    if (!split->is_mixed)
        on.table = *table;
    stage_of(&on, split, out);
    on.items = out->memory;
    descriptors_of(&on, out);
    for (int i = 0; i < LIVE_SETS; ++i) {
        const enum live_set_kind set = (enum live_set_kind)i;
        struct stage_content content;
        variant_of(ctx, mesh, split, set, &off);
        const struct stage_range range = {out->stage, split->first[out->stage],
                                          split->first[out->stage + 1]};
        stage_content_of(&off.ctx, &off.table, mesh, range, &content);
        memory_of_stage(&off.form, &content, out->in_flight, &off.items);
        set_of(&on, &off, set, out);
        if (set == LIVE_OPTIMIZER)
            phases_of(&on, &off, out);
    }
    out->fullest = largest_but(out, LIVE_RESIDENT);
    out->next = largest_but(out, out->fullest);
}
