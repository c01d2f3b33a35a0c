// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Ways of an explanation, in order: the plan's; the one asked about; from that one, each value that
 * the plan lists for a key; and more in host memory, where the cluster states it and its link.
 */
#include "plan/explain_ways.h"

#include <math.h>

static bool differs(double a, double b) {
    return a < b || a > b;
}

/* The place of an execution among the ways, added where it is new; the last way when full. */
static int way_of(struct explanation *e, const struct execution *execution) {
    struct way_list *const ways = &e->problem.ways;
    for (int i = 0; i < ways->count; ++i)
        if (layout_way_difference(&ways->items[i].execution, execution) == 0)
            return i;
    if (ways->count == EXPLAIN_WAYS_MAX)
        return ways->count - 1;
    ways->items[ways->count] = ways->items[0];
    ways->items[ways->count].execution = *execution;
    return ways->count++;
}

/* Whether some way of the plan has this value, and whether all have. */
static bool is_listed(const struct problem *p, enum way_axis axis, double value, bool *is_only) {
    int count = 0;
    for (int i = 0; i < problem_ways(p); ++i)
        count += !differs(way_axis_get(&problem_workload(p, i)->execution, axis), value);
    *is_only = count == problem_ways(p);
    return count > 0;
}

/* The execution asked about, key by key, as fill_axes does with the axes. */
static void ask(const struct problem *p, const struct layout_request *request,
                struct explanation *out, struct execution *asked) {
    const struct execution *const winner =
        out->has_winner ? &problem_workload(p, out->winner.layout.mesh.way)->execution : NULL;
    *asked = problem_workload(p, 0)->execution;
    for (int i = 0; i < WAY_AXES; ++i) {
        const enum way_axis axis = (enum way_axis)i;
        double value = way_axis_get(asked, axis);
        bool is_only;
        (void)is_listed(p, axis, value, &is_only);
        out->way_origins[i] = is_only ? EXPLAIN_PLAN : EXPLAIN_DEFAULT;
        if (request->given_ways & 1u << i) {
            out->way_origins[i] = EXPLAIN_GIVEN;
            value = request->ways[i];
        } else if (!is_only && winner) {
            out->way_origins[i] = EXPLAIN_WINNER;
            value = way_axis_get(winner, axis);
        }
        way_axis_set(asked, axis, value);
        if (!is_only || (request->given_ways & 1u << i))
            out->shown_ways |= 1u << i;
        if (!is_listed(p, axis, value, &is_only))
            out->undeclared_ways |= 1u << i;
    }
}

/* What a plan's document would be refused for. */
static enum mosaic_status check(const struct problem *p, const struct layout_request *request,
                                const struct execution *asked, struct status_error *err) {
    for (int i = 0; i < WAY_AXES; ++i)
        if ((request->given_ways & 1u << i) && way_axis_needs_host((enum way_axis)i) &&
            way_axis_get(asked, (enum way_axis)i) > 0.0 &&
            !(p->cluster.host_link_bytes_per_s > 0.0)) {
            (void)status_set(err, MOSAIC_BAD_INPUT, "layout: %s needs the cluster's node.host_link",
                             way_axis_name((enum way_axis)i));
            status_hint(err, "bandwidth per GPU and direction, e.g. node: {host_link: 63 GB/s}");
            return MOSAIC_BAD_INPUT;
        }
    if (asked->sharding != SHARD_HYBRID || asked->shard_ranks > 0)
        return MOSAIC_OK;
    (void)status_set(err, MOSAIC_BAD_INPUT,
                     "layout: hybrid sharding needs the plan's execution.shard_ranks");
    status_hint(err, "ranks of a shard group, e.g. --set execution.shard_ranks=8 with "
                     "--set execution.sharding=hybrid");
    return MOSAIC_BAD_INPUT;
}

/* From the way asked about, each value that the plan lists for a key. */
static void add_listed(const struct problem *p, const struct execution *asked,
                       struct explanation *out) {
    for (int i = 0; i < WAY_AXES; ++i)
        for (int way = 0; way < problem_ways(p); ++way) {
            struct execution other = *asked;
            way_axis_set(&other, (enum way_axis)i,
                         way_axis_get(&problem_workload(p, way)->execution, (enum way_axis)i));
            (void)way_of(out, &other);
        }
}

/* From the way asked about, none or all of the optimizer and none, half or all of the activations
 * on the host. */
static void add_offloads(const struct problem *p, const struct execution *asked,
                         struct explanation *out) {
    const double kept = asked->offload_activations, state = asked->offload_optimizer;
    const double activations[] = {kept, 0.0, 0.5, 1.0}, optimizer[] = {state, 0.0, 1.0};
    if (!(p->cluster.host_link_bytes_per_s > 0.0 && p->cluster.host_memory_bytes > 0.0) ||
        p->estimator.release_memory)
        return;
    for (size_t o = 0; o < sizeof optimizer / sizeof optimizer[0]; ++o)
        for (size_t a = 0; a < sizeof activations / sizeof activations[0]; ++a) {
            struct execution other = *asked;
            other.offload_optimizer = optimizer[o];
            other.offload_activations = activations[a];
            (void)way_of(out, &other);
        }
}

/* From the way asked about, each memory schedule at a usual size, and all of them, where the engine
 * runs them; the rest is left to whoever asks. */
static void add_schedules(const struct problem *p, const struct execution *asked,
                          struct explanation *out) {
    const struct cluster *const c = &p->cluster;
    const bool has_host = c->host_link_bytes_per_s > 0.0 && c->host_memory_bytes > 0.0;
    const double share = 0.5; /* of the host's memory, for boundaries */
    const struct {
        enum way_axis axis;
        double value;
    } usual[] = {{WAY_EXPERT_BALANCE, (double)BALANCE_LLEP},
                 {WAY_DISPATCH_CHUNK, 8192.0},
                 {WAY_VOCAB_RING, (double)c->gpus_per_node},
                 {WAY_CHECKPOINT_OFFLOAD,
                  has_host ? floor(share * c->host_memory_bytes / (double)c->gpus_per_node) : 0.0},
                 {WAY_OPTIMIZER_BUCKET, has_host ? 1e8 : 0.0}};
    if (!p->engine.memory_schedules || p->estimator.release_memory)
        return;
    struct execution all = *asked;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; ++i) {
        struct execution one = *asked;
        if (!(usual[i].value > 0.0) || way_axis_get(asked, usual[i].axis) > 0.0)
            continue;
        way_axis_set(&one, usual[i].axis, usual[i].value);
        way_axis_set(&all, usual[i].axis, usual[i].value);
        (void)way_of(out, &one);
    }
    (void)way_of(out, &all);
}

enum mosaic_status explain_ways_open(const struct problem *problem,
                                     const struct layout_request *request, struct explanation *out,
                                     struct status_error *err) {
    struct execution asked;
    out->problem = *problem;
    out->declared_ways = problem_ways(problem);
    for (int i = 0; i < out->declared_ways; ++i)
        out->ways[i] = *problem_workload(problem, i);
    out->problem.ways = (struct way_list){out->declared_ways, out->ways};
    ask(problem, request, out, &asked);
    TRY(check(problem, request, &asked, err));
    out->point.mesh.way = way_of(out, &asked);
    add_listed(problem, &asked, out);
    add_offloads(problem, &asked, out);
    add_schedules(problem, &asked, out);
    return MOSAIC_OK;
}
