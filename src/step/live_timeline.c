// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Rows of the four clocks.  What the descriptors' own functions do not hand out (the rates they are
 * priced with) is resolved here as ring_head.c, data_parallel.c and step.c do; tests hold the sums
 * against theirs.
 */
#include "step/live_timeline.h"

#include <assert.h>
#include <math.h>

const char *live_lane_name(enum live_lane lane) {
    static const char *const names[LIVE_LANES] = {"compute", "dispatch", "host copy", "ring"};
    return (unsigned)lane < LIVE_LANES ? names[lane] : "unknown";
}

/* What the clocks share. */
struct clock {
    const struct step_context *ctx;
    const struct layer_table *table;
    const struct mesh *mesh;
    const struct split *split;
    const struct live_sets *sets;
    struct live_timeline *out;
    enum live_set_kind set;
};

static void put(struct clock *c, enum live_lane lane, const char *what, long which, double start_s,
                double length_s) {
    assert(c->out->count < LIVE_ROWS_MAX);
    c->out->rows[c->out->count++] = (struct live_row){.set = c->set,
                                                      .lane = lane,
                                                      .what = what,
                                                      .first = which,
                                                      .last = which,
                                                      .start_s = start_s,
                                                      .end_s = start_s + length_s};
}

static void put_left_out(struct clock *c, const char *what, long first, long last, double start_s,
                         double end_s) {
    put(c, LIVE_COMPUTE, what, first, start_s, end_s - start_s);
    c->out->rows[c->out->count - 1].last = last;
    c->out->rows[c->out->count - 1].is_left_out = true;
}

/* ---- one MoE layer's forward ---- */

/* The experts' forward, as the layer table has it: what chunks run again. */
static double expert_forward_s(const struct clock *c) {
    const long tokens = c->sets->routes.chunks.total;
    double again_s[2];
    for (int i = 0; i < 2; ++i) {
        struct workload workload = *c->ctx->workload;
        struct step_context ctx;
        struct layer_table table;
        workload.execution.dispatch_chunk = i == 0 ? 0 : (int)(tokens - tokens / 2);
        workload.execution.dispatch_chunks_max = 2;
        step_context_init(&ctx, c->ctx->geometry, c->ctx->cluster, c->ctx->calibration, &workload,
                          &c->ctx->engine, c->ctx->estimator);
        layer_table_fill(&ctx, c->mesh, &table);
        again_s[i] = table.cost[LAYER_MOE].recompute_s;
    }
    return again_s[1] - again_s[0];
}

static void chunk_times_of(const struct clock *c, struct chunk_times *out) {
    const struct expert_schedule *const routes = &c->sets->routes;
    const struct geometry *const g = c->ctx->geometry;
    const double params = (double)g->ffn_matrices * (double)g->hidden * (double)g->expert_ffn;
    const double chunks = (double)routes->chunks.count;
    const double all_to_alls = 4.0; /* that all_to_all_s is of */
    const double one_way_s = c->table->cost[LAYER_MOE].all_to_all_s / all_to_alls / chunks;
    *out = (struct chunk_times){
        .compute_s = expert_forward_s(c) / chunks, .dispatch_s = one_way_s, .combine_s = one_way_s};
    if (!routes->is_balanced)
        return;
    /* Weights go out in forward and in backward, gradients come home: this is the first. */
    const double gradient = execution_gradient_bytes(&c->ctx->workload->execution);
    out->plan_s = c->ctx->calibration->scalar[CAL_LLEP_LAYER];
    out->migrate_s = expert_lending_s(c->ctx, c->mesh, routes, params) * WEIGHT_BYTES /
                     (2.0 * WEIGHT_BYTES + gradient);
}

static bool is_shown(long i, long count, long all, long first, long last) {
    return count <= all || i < first || i >= count - last;
}

static bool chunk_is_shown(long i, long count) {
    return is_shown(i, count, LIVE_CHUNKS_ALL, LIVE_CHUNKS_FIRST, LIVE_CHUNKS_LAST);
}

/* While chunk i is computed, the one before is combined and the next dispatched. */
static double chunk_rows(struct clock *c, const struct chunk_times *t, long count, double start_s) {
    double at_s = start_s, hidden_from_s = -1.0;
    put(c, LIVE_EXCHANGE, "dispatch", 0, at_s, t->dispatch_s);
    at_s += t->dispatch_s;
    for (long i = 0; i < count; ++i) {
        const bool shows = chunk_is_shown(i, count);
        double sent_s = 0.0;
        if (i > 0 && chunk_is_shown(i - 1, count))
            put(c, LIVE_EXCHANGE, "combine", i - 1, at_s, t->combine_s);
        sent_s += i > 0 ? t->combine_s : 0.0;
        if (i + 1 < count && chunk_is_shown(i + 1, count))
            put(c, LIVE_EXCHANGE, "dispatch", i + 1, at_s + sent_s, t->dispatch_s);
        sent_s += i + 1 < count ? t->dispatch_s : 0.0;
        const double end_s = at_s + fmax(t->compute_s, sent_s);
        if (shows)
            put(c, LIVE_COMPUTE, "experts", i, at_s, t->compute_s);
        else if (hidden_from_s < 0.0)
            hidden_from_s = at_s;
        if (!shows && chunk_is_shown(i + 1, count))
            put_left_out(c, "experts", LIVE_CHUNKS_FIRST, i, hidden_from_s, end_s);
        at_s = end_s;
    }
    put(c, LIVE_EXCHANGE, "combine", count - 1, at_s, t->combine_s);
    return at_s + t->combine_s;
}

static void dispatch_clock(struct clock *c) {
    const struct token_chunks *const chunks = &c->sets->routes.chunks;
    struct chunk_times *const t = &c->out->chunk;
    if (c->mesh->ep <= 1 || !(c->sets->content.moe_layers > 0.0) || chunks->total < 2)
        return;
    chunk_times_of(c, t);
    double start_s = 0.0;
    if (t->plan_s > 0.0) {
        put(c, LIVE_COMPUTE, "plan", -1, start_s, t->plan_s);
        start_s += t->plan_s;
    }
    if (t->migrate_s > 0.0) {
        put(c, LIVE_EXCHANGE, "lend experts", -1, start_s, t->migrate_s);
        start_s += t->migrate_s;
    }
    c->out->end_s[c->set] = chunk_rows(c, t, chunks->count, start_s);
}

/* ---- the head's ring ---- */

static bool meeting_is_shown(long i, long count) {
    return is_shown(i, count, LIVE_MEETINGS_ALL, LIVE_MEETINGS_FIRST, LIVE_MEETINGS_LAST);
}

/* A meeting's GEMMs beside the hop to the next one; launches and folds behind; then what comes
 * home. */
static double ring_pass(struct clock *c, bool is_backward, double start_s) {
    const struct vocab_ring *const ring = &c->sets->ring.ring;
    const struct vocab_rates rates = ring_head_rates(c->ctx, c->mesh);
    struct vocab_pass_time t;
    vocab_ring_pass_time(ring, &rates, is_backward, &t);
    const char *const meets = is_backward ? "backward meeting" : "meeting";
    const double meetings = (double)ring->ranks, gemm_s = t.gemm_s / meetings;
    const double beside_s = (t.fold_s + t.launch_s) / meetings;
    double at_s = start_s, hidden_from_s = -1.0;
    for (long i = 0; i < ring->ranks; ++i) {
        const bool shows = meeting_is_shown(i, ring->ranks), hops = i < ring->hops;
        const double end_s = at_s + (hops ? fmax(gemm_s, t.hop_s) : gemm_s) + beside_s;
        if (shows) {
            put(c, LIVE_COMPUTE, meets, i, at_s, gemm_s + beside_s);
            if (hops)
                put(c, LIVE_RING, "hop", i, at_s, t.hop_s);
        } else if (hidden_from_s < 0.0) {
            hidden_from_s = at_s;
        }
        if (!shows && meeting_is_shown(i + 1, ring->ranks))
            put_left_out(c, meets, LIVE_MEETINGS_FIRST, i, hidden_from_s, end_s);
        at_s = end_s;
    }
    const double return_s = start_s + t.total_s - at_s;
    const double back = is_backward ? ring->return_backward_bytes : ring->return_forward_bytes;
    if (back > 0.0)
        put(c, LIVE_RING, "return", -1, at_s, return_s);
    return start_s + t.total_s;
}

static void vocabulary_clock(struct clock *c) {
    if (!c->sets->ring.is_on || !c->sets->content.is_last)
        return;
    c->out->end_s[c->set] = ring_pass(c, true, ring_pass(c, false, 0.0));
}

/* ---- one boundary ---- */

static void boundary_clock(struct clock *c) {
    const struct boundary_offload *const b = &c->sets->boundaries;
    if (b->selected == 0)
        return;
    const int stage = c->sets->stage;
    const struct stage_range range = {stage, c->split->first[stage], c->split->first[stage + 1]};
    struct stage_cost cost;
    stage_cost_of(c->ctx, c->table, c->mesh, range, &cost);
    const double busy_s = cost.busy_s - cost.gather_s - cost.offload_s;
    const double layers = c->sets->content.dense_layers + c->sets->content.moe_layers;
    struct live_timeline *const out = c->out;
    const double forward_s = busy_s / step_passes(c->mesh);
    out->copy_s = b->bytes / step_host_bytes_per_s(c->ctx);
    out->layer_forward_s = forward_s / layers;
    out->layer_backward_s = (busy_s - forward_s) / layers;
    put(c, LIVE_COMPUTE, "forward", -1, 0.0, out->layer_forward_s);
    put(c, LIVE_HOST_COPY, "down", -1, 0.0, out->copy_s);
    const double turn_s = fmax(out->layer_forward_s, out->copy_s);
    put(c, LIVE_COMPUTE, "recompute and backward", -1, turn_s, out->layer_backward_s);
    put(c, LIVE_HOST_COPY, "up, of the layer before", -1, turn_s, out->copy_s);
    out->end_s[c->set] = turn_s + fmax(out->layer_backward_s, out->copy_s);
}

/* ---- the optimizer ---- */

static void optimizer_clock(struct clock *c) {
    const long count = c->sets->stream.buckets;
    if (count == 0)
        return;
    struct state_stream_time *const t = &c->out->bucket;
    *t = optimizer_stream_time(c->ctx, &c->sets->stream);
    long i = 0;
    while (i < count) {
        if (i == LIVE_BUCKETS_FIRST && count > LIVE_BUCKETS_ALL) {
            const long first = i;
            i = count - LIVE_BUCKETS_LAST;
            put_left_out(c, "buckets", first, i - 1, (double)first * t->period_s + t->up_s,
                         (double)(i - 1) * t->period_s + t->up_s + t->update_s);
        }
        const double at_s = (double)i * t->period_s;
        put(c, LIVE_HOST_COPY, "up", i, at_s, t->up_s);
        put(c, LIVE_COMPUTE, "update", i, at_s + t->up_s, t->update_s);
        put(c, LIVE_HOST_COPY, "down", i, at_s + t->up_s + t->update_s, t->down_s);
        ++i;
    }
    const double fixed_s = c->ctx->calibration->scalar[CAL_OPTIMIZER_FIXED];
    if (fixed_s > 0.0)
        put(c, LIVE_COMPUTE, "fixed part", -1, t->total_s, fixed_s);
    c->out->end_s[c->set] = t->total_s + fixed_s;
}

void live_timeline_of(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, const struct split *split,
                      const struct live_sets *sets, struct live_timeline *out) {
    static void (*const clocks[LIVE_SETS])(struct clock * c) = {dispatch_clock, vocabulary_clock,
                                                                boundary_clock, optimizer_clock};
    out->count = 0;
    *out = (struct live_timeline){0};
    const struct mesh own = live_mesh(ctx, table, mesh, split);
    struct layer_table filled;
    if (own.recompute != mesh->recompute)
        layer_table_fill(ctx, &own, &filled);
    struct clock c = {
        ctx,          own.recompute != mesh->recompute ? &filled : table, &own, split, sets, out,
        LIVE_DISPATCH};
    for (int i = 0; i < LIVE_SETS; ++i) {
        c.set = (enum live_set_kind)i;
        clocks[i](&c);
    }
}
