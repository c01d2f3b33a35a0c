// SPDX-License-Identifier: GPL-3.0-or-later
/* Stage times, their composition into a step, and the prediction built from it. */
#include "step/memory.h"
#include "step/published.h"

#include <math.h>

/* (a^n + b^n)^(1/n) for n a power of two; 64 and beyond stand for the maximum. */
static double near_maximum(double a, double b, double exponent) {
    const double large = fmax(a, b), small = fmin(a, b);
    if (exponent >= 64.0 || !(small > 0.0))
        return large;
    double ratio = small / large;
    const int halvings = ilogb(exponent);
    for (int i = 0; i < halvings; ++i)
        ratio *= ratio;
    double factor = 1.0 + ratio;
    for (int i = 0; i < halvings; ++i)
        factor = sqrt(factor);
    return large * factor;
}

double step_straggler_factor(const struct step_context *ctx) {
    if (ctx->estimator.no_straggler)
        return 1.0;
    const double gpus_of_a_node = 8.0; /* the growth is counted from one such node */
    const double doublings = log2((double)cluster_gpus(ctx->cluster) / gpus_of_a_node);
    return 1.0 + fmax(doublings, 0.0) * ctx->calibration->scalar[CAL_STRAGGLER];
}

double step_factor(const struct step_context *ctx) {
    return step_straggler_factor(ctx) * ctx->anchor_factor;
}

/* Layers of each kind, MTP ones among them. */
static void layers_by_kind(const struct step_context *ctx, const struct layer_table *table,
                           double layers[LAYER_KINDS]) {
    const struct geometry *const g = ctx->geometry;
    layers[LAYER_MOE] = (double)geometry_moe_layers(g);
    layers[LAYER_DENSE] = (double)g->layers - layers[LAYER_MOE];
    layers[table->mtp_kind] += (double)g->mtp_layers;
}

/* Bubble of a schedule in stages: what filling and draining adds is k (p - 1) stage times. */
static double bubble_stages(const struct step_context *ctx, const struct layer_table *table,
                            const struct mesh *mesh) {
    const enum schedule schedule = mesh_schedule(mesh);
    if (schedule != SCHEDULE_ZERO_BUBBLE && schedule != SCHEDULE_DUALPIPE)
        return 1.0 / (double)mesh->vpp;
    double layers[LAYER_KINDS], forward_s = table->head_forward_s, total_s = table->head_s;
    double weights_s = 0.0;
    layers_by_kind(ctx, table, layers);
    for (int kind = 0; kind < LAYER_KINDS; ++kind) {
        forward_s += layers[kind] * table->cost[kind].forward_s;
        total_s += layers[kind] * table->cost[kind].gpu_s;
        weights_s += layers[kind] * table->cost[kind].weight_gradient_s;
    }
    if (schedule == SCHEDULE_ZERO_BUBBLE)
        return fmax(0.0, 1.0 - 2.0 * weights_s / total_s);
    const double p = (double)mesh->pp;
    const double pair_s = 2.0 * total_s - forward_s - 3.0 * weights_s;
    return p > 2.0 ? fmax(0.0, (0.5 * p - 1.0) / (p - 1.0) * pair_s / total_s) : 0.0;
}

struct pipeline_form pipeline_form_of(const struct step_context *ctx,
                                      const struct layer_table *table, const struct mesh *mesh) {
    const double bubble = bubble_stages(ctx, table, mesh);
    const double share = ctx->calibration->scalar[CAL_IMBALANCE_SHARE];
    const double steady = (double)mesh->micro_batches - bubble;
    return (struct pipeline_form){share * steady,
                                  bubble + (1.0 - share) * steady / (double)mesh->pp};
}

/* The calibration's share of PP hand-offs that stays visible. */
static double hand_off_share(const struct step_context *ctx) {
    const bool overlaps = (ctx->workload->execution.overlap & OVERLAP_PP) != 0;
    return ctx->calibration->scalar[overlaps ? CAL_PP_OVERLAPPED : CAL_PP_EXPOSED];
}

/* Host time of one micro-batch and stage outside its layers. */
static double host_micro_batch_s(const struct step_context *ctx, const struct mesh *mesh) {
    if (ctx->workload->execution.graphs == GRAPHS_FULL)
        return 0.0;
    const double *const scalar = ctx->calibration->scalar;
    return scalar[CAL_HOST_MICRO_BATCH] + (double)(mesh->vpp - 1) * scalar[CAL_HOST_CHUNK];
}

/* Both hand-offs of every chunk and micro-batch: activations forward, gradients back. */
double hand_off_time(const struct step_context *ctx, const struct layer_table *table,
                     const struct mesh *mesh, struct lookup_count *lookups) {
    if (mesh->pp <= 1)
        return 0.0;
    /* Where the pipeline spans domains, its slowest hand-off crosses one. */
    const int stage = mesh->tp * mesh->cp * mesh->dp, domain = cluster_domain_in_use(ctx->cluster);
    const bool crosses = cluster_gpus(ctx->cluster) > domain && stage < domain;
    const int stride = crosses ? domain : stage;
    const double one_s =
        collective_time_s(&ctx->network, COLLECTIVE_POINT_TO_POINT, (struct group){2, stride},
                          table->hand_off_bytes, lookups);
    return 2.0 * (double)mesh->vpp * one_s;
}

double step_passes(const struct mesh *mesh) {
    return mesh->recompute == RECOMPUTE_FULL ? 4.0 : 3.0;
}

/* Activations on their way to the host beside forward, and back beside backward.  (Fixed shares: a
 * faster machine is never slower.) */
static double offload_exposed_s(const struct step_context *ctx, const struct layer_table *table,
                                const struct mesh *mesh, const struct stage_content *c,
                                double busy_s) {
    const struct execution *const e = &ctx->workload->execution;
    const bool is_full = mesh->recompute == RECOMPUTE_FULL;
    const double forward_s = busy_s / step_passes(mesh);
    const double layers = c->dense_layers + c->moe_layers;
    if (e->checkpoint_host_bytes > 0.0 && is_full && layers > 0.0) {
        struct boundary_offload boundaries;
        /* In the first stage's share of the budget: no stage offloads less. */
        memory_boundaries(ctx, table, c, 1.0, &boundaries);
        const struct boundary_exposed exposed =
            boundary_offload_exposed(&boundaries, forward_s / layers, (busy_s - forward_s) / layers,
                                     step_host_bytes_per_s(ctx));
        return exposed.forward_s + exposed.backward_s;
    }
    if (!(e->offload_activations > 0.0))
        return 0.0;
    const double one_way_s =
        e->offload_activations * stage_away_bytes(table, c) / step_host_bytes_per_s(ctx);
    return fmax(one_way_s - forward_s, 0.0) + fmax(one_way_s - (busy_s - forward_s), 0.0);
}

/* What all stages of a mesh share. */
struct mesh_parts {
    double hand_off_s;   /* that shows, of one micro-batch */
    double host_micro_s; /* of the host, outside the layers */
    struct shard_links links;
};

static void mesh_parts_of(const struct step_context *ctx, const struct layer_table *table,
                          const struct mesh *mesh, struct lookup_count *lookups,
                          struct mesh_parts *out) {
    out->hand_off_s = hand_off_share(ctx) * hand_off_time(ctx, table, mesh, lookups);
    out->host_micro_s = host_micro_batch_s(ctx, mesh);
    shard_links_of(ctx, mesh, &out->links);
}

static void stage_time_of(const struct step_context *ctx, const struct layer_table *table,
                          const struct mesh *mesh, const struct mesh_parts *parts,
                          const struct stage_content *c, struct stage_cost *out) {
    const struct layer_cost *const dense = &table->cost[LAYER_DENSE];
    const struct layer_cost *const moe = &table->cost[LAYER_MOE];
    double gpu_s = c->dense_layers * dense->gpu_s + c->moe_layers * moe->gpu_s + parts->hand_off_s;
    double forward_s = c->dense_layers * dense->forward_s + c->moe_layers * moe->forward_s;
    double host_s =
        c->dense_layers * dense->host_s + c->moe_layers * moe->host_s + parts->host_micro_s;
    if (c->is_first) {
        gpu_s += table->embedding.gpu_s;
        forward_s += table->embedding.forward_s;
    }
    if (c->mtp_layers > 0.0) {
        const double mtp = c->mtp_layers;
        const struct layer_cost *const layer = &table->cost[table->mtp_kind];
        gpu_s += mtp * layer->gpu_s;
        forward_s += mtp * layer->forward_s;
        host_s += mtp * layer->host_s;
    }
    const double busy_s = near_maximum(gpu_s, host_s, ctx->calibration->scalar[CAL_HOST_NORM]);
    /* The loss needs its result on the host: the head does not hide under launches. */
    out->dispatch_s = busy_s - gpu_s;
    out->busy_s = busy_s + (c->is_last ? table->head_s : 0.0);
    out->forward_s = busy_s * (gpu_s > 0.0 ? forward_s / gpu_s : 0.0) +
                     (c->is_last ? table->head_forward_s : 0.0);
    out->dense_params = c->dense_params;
    out->expert_params = c->expert_params;
    out->head_elsewhere = c->head_elsewhere;
    out->offload_s = offload_exposed_s(ctx, table, mesh, c, out->busy_s);
    out->gather_s = gathering_exposed_s(ctx, &parts->links, out);
    out->busy_s += out->gather_s + out->offload_s;
}

static double tail_of(const struct data_parallel *dp) {
    return dp->reduce_exposed_s + dp->optimizer_s + dp->gather_exposed_s + dp->offload_s;
}

/* What a stage of as many parameters or more has at least. */
static double least_tail_of(const struct data_parallel *dp) {
    return dp->reduce_exposed_s + dp->optimizer_s + dp->gather_exposed_s + dp->offload_least_s;
}

void stage_cost_of(const struct step_context *ctx, const struct layer_table *table,
                   const struct mesh *mesh, struct stage_range range, struct stage_cost *out) {
    struct mesh_parts parts;
    struct stage_content content;
    mesh_parts_of(ctx, table, mesh, NULL, &parts);
    stage_content_of(ctx, table, mesh, range, &content);
    stage_time_of(ctx, table, mesh, &parts, &content, out);
    struct data_parallel dp;
    data_parallel_of(ctx, table, mesh, &parts.links, out, NULL, &dp);
    out->tail_s = tail_of(&dp);
}

/* Sums over the stages of one split. */
struct pipeline {
    double sum_s, max_s, dispatch_s, gather_s, offload_s;
    double tail_s, tail_dp_s, tail_optimizer_s, tail_offload_s;
};

/* Runs of equal stages, in order; views where they differ in what they recompute, else NULL. */
struct stage_runs {
    const struct stage_run *items;
    int count;
    const struct policy_views *views;
};

static void run_stages(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *mesh, const struct stage_runs *runs,
                       const struct mesh_parts *parts, struct pipeline *out,
                       struct lookup_count *lookups) {
    const struct policy_views *const views = runs->views;
    *out = (struct pipeline){0};
    for (int i = 0; i < runs->count; ++i) {
        const struct stage_run *const run = &runs->items[i];
        const double count = (double)run->count;
        struct stage_cost stage;
        struct data_parallel dp;
        if (views) {
            table = views->tables[run->recompute];
            mesh = &views->meshes[run->recompute];
        }
        stage_time_of(ctx, table, mesh, parts, &run->content, &stage);
        data_parallel_of(ctx, table, mesh, &parts->links, &stage, i == 0 ? lookups : NULL, &dp);
        out->sum_s += count * stage.busy_s;
        out->max_s = fmax(out->max_s, stage.busy_s);
        out->dispatch_s += count * stage.dispatch_s;
        out->gather_s += count * stage.gather_s;
        out->offload_s += count * stage.offload_s;
        if (tail_of(&dp) > out->tail_s) {
            out->tail_s = tail_of(&dp);
            out->tail_dp_s = dp.reduce_exposed_s + dp.gather_exposed_s;
            out->tail_optimizer_s = dp.optimizer_s;
            out->tail_offload_s = dp.offload_s;
        }
    }
}

void add_layers(struct time_split *t, const struct layer_cost *cost, double times) {
    t->gemm_s += times * cost->kernels.gemm_s;
    t->grouped_gemm_s += times * cost->kernels.grouped_gemm_s;
    t->attention_s += times * cost->kernels.attention_s;
    t->elementwise_s += times * cost->kernels.elementwise_s;
    t->router_s += times * cost->kernels.router_s;
    t->permute_s += times * cost->kernels.permute_s;
    t->quantise_s += times * cost->kernels.quantise_s;
    t->recompute_s += times * cost->recompute_s;
    t->tp_exposed_s += times * cost->tp_s;
    t->cp_exposed_s += times * cost->cp_s;
    t->ep_exposed_s += times * cost->ep_s;
}

double time_split_sum(const struct time_split *t) {
    double sum = 0.0;
#define ADD_TERM(name) sum += t->name;
    TIME_TERMS(ADD_TERM)
#undef ADD_TERM
    return sum;
}

/* A stage's layers by kind, MTP ones among them. */
static void layers_of_run(const struct layer_table *table, const struct stage_run *run,
                          double layers[LAYER_KINDS]) {
    const double count = (double)run->count;
    layers[LAYER_DENSE] = count * run->content.dense_layers;
    layers[LAYER_MOE] = count * run->content.moe_layers;
    layers[table->mtp_kind] += count * run->content.mtp_layers;
}

/* The layers' terms, `times` over, and the FLOPs that they run again. */
static void add_mixed_layers(const struct stage_runs *runs, double times, struct time_split *t) {
    for (int i = 0; i < runs->count; ++i) {
        const struct layer_table *const own = runs->views->tables[runs->items[i].recompute];
        double layers[LAYER_KINDS];
        layers_of_run(own, &runs->items[i], layers);
        for (int kind = 0; kind < LAYER_KINDS; ++kind)
            add_layers(t, &own->cost[kind], times * layers[kind]);
    }
}

static double mixed_flop_again(const struct stage_runs *runs) {
    double again = 0.0;
    for (int i = 0; i < runs->count; ++i) {
        const struct layer_table *const own = runs->views->tables[runs->items[i].recompute];
        double layers[LAYER_KINDS];
        layers_of_run(own, &runs->items[i], layers);
        for (int kind = 0; kind < LAYER_KINDS; ++kind)
            again += layers[kind] * own->cost[kind].recompute_flop;
    }
    return again;
}

/* Every term is the mean over the stages times the micro-batches; what the slowest stage adds is
 * stage_imbalance_s, what filling and draining add is bubble_s. */
static void compose_default(const struct step_context *ctx, const struct layer_table *table,
                            const struct mesh *mesh, const struct stage_runs *runs,
                            struct prediction *out) {
    struct mesh_parts parts;
    struct pipeline pipe;
    mesh_parts_of(ctx, table, mesh, &out->lookups, &parts);
    run_stages(ctx, table, mesh, runs, &parts, &pipe, &out->lookups);
    const struct pipeline_form form = pipeline_form_of(ctx, table, mesh);
    const double m = (double)mesh->micro_batches, p = (double)mesh->pp;
    struct time_split *const t = &out->split;
    double layers[LAYER_KINDS];
    layers_by_kind(ctx, table, layers);
    for (int kind = 0; !runs->views && kind < LAYER_KINDS; ++kind)
        add_layers(t, &table->cost[kind], m / p * layers[kind]);
    if (runs->views)
        add_mixed_layers(runs, m / p, t);
    add_layers(t, &table->embedding, m / p);
    t->head_loss_s = m / p * table->head_s;
    t->pp_exposed_s = m * parts.hand_off_s;
    t->dispatch_exposed_s = m / p * pipe.dispatch_s;
    const double mean_s = pipe.sum_s / p;
    t->stage_imbalance_s =
        fmax(m * ctx->calibration->scalar[CAL_IMBALANCE_SHARE] * (pipe.max_s - mean_s), 0.0);
    t->bubble_s = fmax(form.max_weight * pipe.max_s + form.sum_weight * pipe.sum_s - m * mean_s -
                           t->stage_imbalance_s,
                       0.0);
    t->dp_exposed_s = m / p * pipe.gather_s + pipe.tail_dp_s;
    t->optimizer_s = pipe.tail_optimizer_s;
    t->offload_exposed_s = m / p * pipe.offload_s + pipe.tail_offload_s;
    t->straggler_s = (step_straggler_factor(ctx) - 1.0) * time_split_sum(t);
}

double step_interval_spread(double sigma) {
    const double normal_95 = 1.6448536269514722; /* 90 % of a normal distribution, two-sided */
    return exp(normal_95 * sigma);
}

static void fill_rates(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *mesh, const struct stage_runs *runs,
                       struct prediction *out) {
    const struct workload *const w = ctx->workload;
    const double tokens = (double)w->global_batch * (double)w->sequence;
    const double gpus = (double)cluster_gpus(ctx->cluster);
    const double gpu_seconds = out->step_time_s * gpus;
    const double per_flop = tokens / (gpu_seconds * ctx->peak_flop_per_s);
    out->tokens_per_s_per_gpu = tokens / gpu_seconds;
    out->mfu = ctx->flops.causal * per_flop;
    out->mfu_full_attention = ctx->flops.full * per_flop;
    out->mfu_6n = ctx->flops.six_n * per_flop;
    double layers[LAYER_KINDS], again = 0.0;
    layers_by_kind(ctx, table, layers);
    for (int kind = 0; kind < LAYER_KINDS; ++kind)
        again += layers[kind] * table->cost[kind].recompute_flop;
    if (runs->views)
        again = mixed_flop_again(runs);
    again *= (double)mesh->micro_batches / (double)mesh->pp;
    const double routed =
        6.0 * (double)ctx->geometry->top_k * ctx->params.expert * layers[LAYER_MOE];
    out->mfu_useful = out->mfu - w->execution.dropped * routed * per_flop;
    out->hfu = out->mfu + again / (out->step_time_s * ctx->peak_flop_per_s);
    const double spread = step_interval_spread(ctx->sigma);
    out->sigma = ctx->sigma;
    out->interval_low_s = out->step_time_s / spread;
    out->interval_high_s = out->step_time_s * spread;
}

static void forms_of(const struct step_context *ctx, const struct policy_views *views,
                     struct memory_form *forms) {
    for (int r = 0; r < RECOMPUTE_MODES; ++r)
        if (views->tables[r])
            memory_form_of(ctx, views->tables[r], &views->meshes[r], &forms[r]);
}

/* The fullest stage, the first of equals, where each has a form of its own. */
static int fullest_of_mixed(const struct memory_form *forms, const struct stage_runs *runs,
                            struct memory_items *out) {
    int fullest = 0;
    out->total = -1.0;
    for (int i = 0; i < runs->count; ++i) {
        const struct stage_run *const run = &runs->items[i];
        struct memory_items items;
        memory_of_stage(&forms[run->recompute], &run->content, run->in_flight, &items);
        if (items.total > out->total) {
            *out = items;
            fullest = i;
        }
    }
    return fullest;
}

static void fill_host(const struct step_context *ctx, const struct mesh *mesh,
                      const struct memory_form *forms, const struct stage_runs *runs,
                      struct prediction *out) {
    double bytes[LAYOUT_MAX_PP];
    for (int i = 0; i < runs->count; ++i) {
        const struct stage_run *const run = &runs->items[i];
        for (int stage = run->stage; stage < run->stage + run->count; ++stage) {
            bytes[stage] = memory_host_bytes(&forms[run->recompute], &run->content,
                                             stage_in_flight(mesh, stage));
            out->host_bytes = fmax(out->host_bytes, bytes[stage]);
        }
    }
    out->host_node_bytes = memory_host_node_bytes(ctx, mesh, bytes);
}

/* Forms by recomputation: that of the mesh alone where the stages do not differ. */
static void fill_schedules(const struct step_context *ctx, const struct mesh *mesh,
                           const struct memory_form *forms, const struct stage_runs *runs,
                           struct prediction *out) {
    const struct memory_form *const own = &forms[mesh->recompute];
    for (int i = 0; own->has_guarantee && i < runs->count; ++i) {
        const struct stage_run *const run = &runs->items[i];
        out->guarantee_bytes =
            fmax(out->guarantee_bytes,
                 memory_guarantee(&forms[run->recompute], &run->content, run->in_flight));
    }
    if (own->uses_host)
        fill_host(ctx, mesh, forms, runs, out);
}

static void fill_memory(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh, const struct stage_runs *runs,
                        struct prediction *out) {
    struct memory_form forms[RECOMPUTE_MODES];
    struct memory_form *const own = &forms[mesh->recompute];
    int fullest;
    if (runs->views) {
        forms_of(ctx, runs->views, forms);
        fullest = fullest_of_mixed(forms, runs, &out->memory);
    } else {
        memory_form_of(ctx, table, mesh, own);
        fullest = memory_fullest(own, runs->items, runs->count, &out->memory);
    }
    out->worst_stage = runs->items[fullest].stage;
    if (own->has_guarantee || own->uses_host)
        fill_schedules(ctx, mesh, forms, runs, out);
    out->allocated_bytes = memory_allocated(&out->memory);
    out->capacity_bytes = ctx->cluster->device.memory_bytes;
    out->verdict = memory_verdict_of(own, out->memory.total);
    if (!memory_host_fits(ctx, out->host_node_bytes))
        out->verdict = VERDICT_NO;
}

static void stage_memories(const struct step_context *ctx, const struct layer_table *table,
                           const struct mesh *mesh, const struct policy_views *views,
                           const struct split *split, struct memory_items *stages) {
    for (int i = 0; i < mesh->pp; ++i) {
        const enum recompute r = split_recompute(split, mesh, i);
        stage_memory_of(ctx, views ? views->tables[r] : table, views ? &views->meshes[r] : mesh,
                        (struct stage_range){i, split->first[i], split->first[i + 1]}, &stages[i]);
    }
}

void step_predict_of(const struct step_context *ctx, const struct stage_pricing *pricing,
                     const struct split *split, struct prediction *out,
                     struct memory_items *stages) {
    const struct layer_table *const table = pricing->table;
    const struct mesh *const mesh = pricing->mesh;
    struct stage_run items[LAYOUT_MAX_PP];
    const struct stage_runs runs = {items, stage_runs_find(ctx, table, mesh, split, items),
                                    split->is_mixed ? pricing->views : NULL};
    *out = (struct prediction){.lookups = table->lookups};
    if (ctx->estimator.pipeline_fraction)
        published_compose(ctx, table, mesh, out);
    else
        compose_default(ctx, table, mesh, &runs, out);
    out->anchor_steps = ctx->anchor_steps;
    out->anchor_factor = ctx->anchor_factor;
    if (ctx->anchor_steps > 0)
        out->split.correction_s += (ctx->anchor_factor - 1.0) * time_split_sum(&out->split);
    out->step_time_s = time_split_sum(&out->split);
    fill_rates(ctx, table, mesh, &runs, out);
    fill_memory(ctx, table, mesh, &runs, out);
    if (stages)
        stage_memories(ctx, table, mesh, runs.views, split, stages);
}

static void predict_mixed(const struct step_context *ctx, const struct layer_table *table,
                          const struct mesh *mesh, const struct split *split,
                          struct prediction *out, struct memory_items *stages) {
    struct policy_views views;
    struct layer_table rooms[RECOMPUTE_MODES];
    policy_views_of(ctx, table, mesh, split_policies(split, mesh), rooms, &views);
    step_predict_of(ctx, &(struct stage_pricing){table, mesh, &views}, split, out, stages);
}

void step_predict(const struct step_context *ctx, const struct layer_table *table,
                  const struct mesh *mesh, const struct split *split, struct prediction *out,
                  struct memory_items *stages) {
    if (split->is_mixed)
        predict_mixed(ctx, table, mesh, split, out, stages);
    else
        step_predict_of(ctx, &(struct stage_pricing){table, mesh, NULL}, split, out, stages);
}

bool step_is_plausible(const struct prediction *p) {
    return isfinite(p->step_time_s) && p->step_time_s > 0.0 && p->mfu <= 1.0 && p->mfu_6n <= 1.0;
}

/* The least tail of the worst stage.  Tails rise with the parameters, so it has at least that of
 * the mean dense ones; and some stage has ceil(L / p) layers, all but the first dense ones with
 * experts. (The mean of both would be no bound: leading dense layers and experts peak on different
 * stages.)
 */
static double tail_bound(const struct step_context *ctx, const struct layer_table *table,
                         const struct mesh *mesh) {
    const struct geometry *const g = ctx->geometry;
    const double layers = ceil((double)g->layers / (double)mesh->pp);
    const double moe = fmax(layers - (double)g->first_dense, 0.0);
    const struct layer_params *const dense_layer = &table->params[LAYER_DENSE];
    const struct layer_params *const moe_layer = &table->params[LAYER_MOE];
    const double least_dense = g->first_dense == 0 ? moe_layer->dense
                               : geometry_moe_layers(g) == 0
                                   ? dense_layer->dense
                                   : fmin(dense_layer->dense, moe_layer->dense);
    struct stage_content mean;
    stage_content_mean(ctx, table, mesh, &mean);
    const double wide_open_s = 1e30; /* windows as wide as can be */
    struct stage_cost stage = {
        .dense_params = mean.dense_params, .busy_s = 2.0 * wide_open_s, .forward_s = wide_open_s};
    struct shard_links links;
    struct data_parallel dp;
    shard_links_of(ctx, mesh, &links);
    data_parallel_of(ctx, table, mesh, &links, &stage, NULL, &dp);
    const double mean_s = least_tail_of(&dp);
    stage.dense_params = layers * least_dense;
    stage.expert_params = moe * moe_layer->expert;
    data_parallel_of(ctx, table, mesh, &links, &stage, NULL, &dp);
    return fmax(mean_s, least_tail_of(&dp));
}

/* Least times of a layer. */
struct layer_pace {
    double gpu_s, host_s;
};

static void paces_of(const struct layer_table *table, const struct mesh *mesh,
                     struct layer_pace pace[LAYER_KINDS]) {
    const bool is_mixed = table->is_mixable && mesh_takes_policies(mesh);
    for (int kind = 0; kind < LAYER_KINDS; ++kind) {
        const struct layer_cost *const cost = &table->cost[kind];
        const struct layer_least *const least = &table->least[kind];
        pace[kind] = is_mixed ? (struct layer_pace){least->gpu_s, least->host_s}
                              : (struct layer_pace){cost->gpu_s, cost->host_s};
    }
}

double step_bound(const struct step_context *ctx, const struct layer_table *table,
                  const struct mesh *mesh) {
    const struct geometry *const g = ctx->geometry;
    struct layer_pace layer[LAYER_KINDS];
    const struct layer_pace *const dense = &layer[LAYER_DENSE], *const moe = &layer[LAYER_MOE];
    paces_of(table, mesh, layer);
    const double p = (double)mesh->pp, n_moe = (double)geometry_moe_layers(g);
    const double n_dense = (double)g->layers - n_moe;
    const double hand_off_s = hand_off_share(ctx) * hand_off_time(ctx, table, mesh, NULL);
    const double micro_s = host_micro_batch_s(ctx, mesh);
    const double mtp = (double)g->mtp_layers;
    const double mtp_gpu_s = mtp * layer[table->mtp_kind].gpu_s;
    const double mtp_host_s = mtp * layer[table->mtp_kind].host_s;
    const double gpu_s = n_dense * dense->gpu_s + n_moe * moe->gpu_s + table->embedding.gpu_s +
                         mtp_gpu_s + p * hand_off_s;
    const double host_s = n_dense * dense->host_s + n_moe * moe->host_s + mtp_host_s + p * micro_s;
    const double sum_s = fmax(gpu_s, host_s) + table->head_s;
    /* Some stage has ceil(L / p) layers of the cheaper kind present. */
    const double per_stage = ceil((double)g->layers / p);
    const bool has_dense = n_dense > 0.0, has_moe = n_moe > 0.0;
    const double least_gpu_s = !has_dense ? moe->gpu_s
                               : !has_moe ? dense->gpu_s
                                          : fmin(dense->gpu_s, moe->gpu_s);
    const double least_host_s = !has_dense ? moe->host_s
                                : !has_moe ? dense->host_s
                                           : fmin(dense->host_s, moe->host_s);
    double max_s = fmax(per_stage * least_gpu_s + hand_off_s, per_stage * least_host_s + micro_s);
    max_s = fmax(max_s, sum_s / p);
    max_s = fmax(max_s, table->head_s + fmax(least_gpu_s + mtp_gpu_s + hand_off_s,
                                             least_host_s + mtp_host_s + micro_s));
    const struct pipeline_form form = pipeline_form_of(ctx, table, mesh);
    const double bound_s =
        form.max_weight * max_s + form.sum_weight * sum_s + tail_bound(ctx, table, mesh);
    const double rounding = 1.0 - 1e-12;
    return bound_s * step_factor(ctx) * rounding;
}
