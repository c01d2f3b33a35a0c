// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Explanations of layouts: what is suggested is legal and fits when it is looked at anew, nothing
 * nearer was missed, and the verdict is the one that the numbers give.
 */
#include "plan_case.h"

#include "close.h"
#include "plan/explain.h"

#include <stdio.h>
#include <string.h>

enum { ROOM = 2048 };

static struct geometry items[ROOM];
static struct explanation e;
static const struct search_options options = {.threads = 1};

static void ask(const struct problem *p, const char *text) {
    struct status_error err;
    if (explain_layout(p, text, &options, &e, &err) != MOSAIC_OK)
        fail_msg("%s: %s", text, err.message);
}

static void refused(const char *text, const char *part) {
    struct status_error err = {0};
    struct layout_request request;
    assert_int_equal(layout_text_read(text, &request, &err), MOSAIC_USAGE);
    if (!strstr(err.message, part))
        fail_msg("'%s' is not in '%s'", part, err.message);
}

/* ---- the text ---- */

static void reads_text(void **state) {
    (void)state;
    struct status_error err;
    struct layout_request r;
    assert_int_equal(layout_text_read("tp=8, mbs=2,recompute=full,schedule=zero_bubble", &r, &err),
                     MOSAIC_OK);
    assert_int_equal(r.mesh.tp, 8);
    assert_int_equal(r.mesh.micro_batch, 2);
    assert_int_equal(r.mesh.recompute, RECOMPUTE_FULL);
    assert_int_equal(r.mesh.schedule, SCHEDULE_ZERO_BUBBLE);
    assert_int_equal(r.given, 1u << LAYOUT_TP | 1u << LAYOUT_MICRO_BATCH | 1u << LAYOUT_RECOMPUTE |
                                  1u << LAYOUT_SCHEDULE);
    assert_int_equal(r.given_ways, 0);
    assert_int_equal(
        layout_text_read("dispatcher=deepep,pp=2,offload_optimizer=50 %,sharding=fsdp", &r, &err),
        MOSAIC_OK);
    assert_int_equal(r.given, 1u << LAYOUT_PP);
    assert_int_equal(r.given_ways,
                     1u << WAY_DISPATCHER | 1u << WAY_OFFLOAD_OPTIMIZER | 1u << WAY_SHARDING);
    assert_true(r.ways[WAY_DISPATCHER] == (double)DISPATCH_DEEPEP);
    assert_close(r.ways[WAY_OFFLOAD_OPTIMIZER], 0.5, 0.0);
    assert_true(r.ways[WAY_SHARDING] == (double)SHARD_FSDP);
}

static void refuses_text(void **state) {
    (void)state;
    refused("", "no AXIS=VALUE");
    refused("tp", "'tp' is no AXIS=VALUE");
    refused("tp=8,", "no AXIS=VALUE");
    refused("ttp=8", "did you mean 'tp'?");
    refused("recomputation=full", "did you mean 'recompute'?");
    refused("tp=0", "whole number");
    refused("tp=-1", "whole number");
    refused("tp=2.5", "whole number");
    refused("tp=99999999999999", "whole number");
    refused("tp=1048577", "whole number");
    refused("tp=", "whole number");
    refused("recompute=most", "no word of it");
    refused("schedule=interleaved", "no word of it");
    refused("tp=1,tp=2", "given twice");
    refused("mbs=1,micro_batch=1", "given twice");
    refused("dispatcher=nccl,dispatcher=nccl", "dispatcher is given twice");
    refused("dispatcher=deeep", "no value of it");
    refused("offload_optimizer=1.5", "no value of it");
    refused("offload_activations=", "no value of it");
    refused("ofload_optimizer=1", "did you mean 'offload_optimizer'?");
    char longest[600];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    refused(longest, "characters");
}

static void axes_are_values_of_a_mesh(void **state) {
    (void)state;
    struct mesh m = {0};
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        char text[STATUS_QUOTE_MAX];
        layout_axis_set(&m, (enum layout_axis)i, 2);
        assert_int_equal(layout_axis_get(&m, (enum layout_axis)i), 2);
        assert_string_not_equal(layout_axis_name((enum layout_axis)i), "unknown");
        assert_string_not_equal(layout_axis_text((enum layout_axis)i, 2, text), "unknown");
    }
    assert_string_equal(layout_axis_name(LAYOUT_AXES), "unknown");
}

/* ---- the numbers ---- */

static int count_bits(unsigned set) {
    int count = 0;
    for (; set; set &= set - 1)
        count++;
    return count;
}

/* The change is legal, differs in what it says, and its figures are those of a fresh prediction. */
static void look_again(const struct problem *p, const struct explain_change *c, bool fits) {
    const struct mesh *const m = &c->layout.mesh;
    struct mesh again = *m;
    struct prediction at;
    struct status_error err;
    unsigned differs = 0;
    for (int i = 0; i < LAYOUT_AXES; ++i)
        if (layout_axis_get(m, (enum layout_axis)i) !=
            layout_axis_get(&e.point.mesh, (enum layout_axis)i))
            differs |= 1u << i;
    if (m->way != e.point.mesh.way)
        differs |= 1u << LAYOUT_WAY;
    assert_int_equal(differs, c->axes);
    const struct workload *const w = problem_workload(&e.problem, m->way);
    if (mesh_complete(&again, &e.geometry, w, cluster_gpus(&p->cluster), &err) != MOSAIC_OK ||
        mesh_check_engine(&again, &e.geometry, w, &p->engine, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    assert_memory_equal(&again, m, sizeof again);
    assert_int_equal(c->layout.split.stages, m->pp);
    assert_int_equal(c->layout.split.first[m->pp], e.geometry.layers);
    /* A problem with that way alone. */
    struct problem alone = *p;
    struct layout there = c->layout;
    alone.workload = *w;
    alone.ways = (struct way_list){0};
    there.mesh.way = 0;
    best_layout_predict(&alone, &e.geometry, &there, &at, NULL);
    if (c->is_declared)
        assert_true(m->way < problem_ways(p));
    assert_close(at.host_bytes, c->host_bytes, 0.0);
    assert_close(at.step_time_s, c->step_time_s, 0.0);
    assert_close(at.memory.total, c->memory_bytes, 0.0);
    assert_int_equal(at.verdict, c->verdict);
    if (fits)
        assert_int_not_equal(at.verdict, VERDICT_NO);
}

/* Whether some change of one axis is legal: by trial of every small value. */
static bool has_single_change(const struct problem *p) {
    for (int i = 0; i < LAYOUT_RECOMPUTE; ++i)
        for (int value = 1; value <= 1024; ++value) {
            struct mesh m = e.point.mesh;
            layout_axis_set(&m, (enum layout_axis)i, value);
            if (mesh_complete(&m, &e.geometry, &p->workload, cluster_gpus(&p->cluster), NULL) ==
                    MOSAIC_OK &&
                mesh_check_engine(&m, &e.geometry, &p->workload, &p->engine, NULL) == MOSAIC_OK)
                return true;
        }
    return false;
}

static void check_explanation(const struct problem *p) {
    if (e.verdict == EXPLAIN_ILLEGAL) {
        assert_true(e.violation_count > 0);
        for (int i = 0; i < e.neighbour_count; ++i) {
            look_again(p, &e.neighbours[i], false);
            assert_int_equal(count_bits(e.neighbours[i].axes), count_bits(e.neighbours[0].axes));
            assert_true(i == 0 || e.neighbours[i].distance >= e.neighbours[i - 1].distance);
        }
        assert_int_equal(e.neighbour_count > 0 && count_bits(e.neighbours[0].axes) == 1,
                         has_single_change(p));
    } else {
        assert_int_equal(e.violation_count, 0);
        assert_int_equal(e.verdict == EXPLAIN_DOES_NOT_FIT,
                         e.side.prediction.verdict == VERDICT_NO);
    }
    for (int i = 0; i < e.fix_count; ++i) {
        look_again(p, &e.fixes[i], true);
        assert_true(e.verdict == EXPLAIN_ILLEGAL || count_bits(e.fixes[i].axes) <= 2);
    }
    if (e.verdict == EXPLAIN_LOSES)
        assert_true(e.side.prediction.step_time_s > e.winner.prediction.step_time_s);
    /* Of what the plan declares nothing beats its winner. */
    if (e.verdict == EXPLAIN_IS_BEST && e.has_winner && e.undeclared == 0 && e.undeclared_ways == 0)
        assert_true(e.side.prediction.step_time_s >= e.winner.prediction.step_time_s);
}

/* The winner by all of its axes is the best: nothing else is left to say. */
static void ask_for_winner(const struct problem *p, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        const enum layout_axis axis = (enum layout_axis)i;
        char value[STATUS_QUOTE_MAX];
        used += (size_t)snprintf(
            text + used, size - used, "%s%s=%s", i ? "," : "", layout_axis_name(axis),
            layout_axis_text(axis, layout_axis_get(&e.winner.layout.mesh, axis), value));
    }
    for (int i = WAY_SHARDING; i <= WAY_OFFLOAD_OPTIMIZER; ++i) {
        char value[STATUS_QUOTE_MAX];
        const double at =
            way_axis_get(&e.ways[e.winner.layout.mesh.way].execution, (enum way_axis)i);
        used +=
            (size_t)snprintf(text + used, size - used, ",%s=%s", way_axis_name((enum way_axis)i),
                             way_axis_text((enum way_axis)i, at, value));
    }
    ask(p, text);
    assert_int_equal(e.verdict, EXPLAIN_IS_BEST);
}

/* Ways of a plan: none, or some that differ. */
static void draw_ways(struct random *r, struct problem *p, struct workload *ways) {
    p->ways = (struct way_list){0};
    p->cluster.host_link_bytes_per_s = random_between(r, 1e10, 1e11);
    p->cluster.host_memory_bytes = random_chance(r, 0.5) ? 1e18 : 0.0;
    if (random_chance(r, 0.3))
        return;
    p->ways = (struct way_list){random_int(r, 2, 4), ways};
    for (int i = 0; i < p->ways.count; ++i) {
        ways[i] = p->workload;
        ways[i].execution.dispatcher = (enum dispatcher)(i % 2);
        ways[i].execution.offload_optimizer = i / 2 * 0.5;
    }
}

/* Changes of the way, and of the layout beside it. */
static int ways_changed(void) {
    int count = 0;
    for (int i = 0; i < e.fix_count; ++i)
        count += (e.fixes[i].axes & 1u << LAYOUT_WAY) != 0;
    return count;
}

static void random_layouts(void **state) {
    (void)state;
    static const int values[] = {1, 1, 2, 2, 3, 4, 8};
    static struct workload ways[4];
    int seen[EXPLAIN_IS_BEST + 1] = {0}, changed = 0;
    for (uint64_t seed = 1; seed <= 250; ++seed) {
        struct random r = {seed};
        struct problem p;
        char text[512];
        case_random(&r, &p, items, 1);
        draw_ways(&r, &p, ways);
        p.layouts.allow_extrapolation = true;
        struct status_error err;
        (void)snprintf(text, sizeof text, "tp=%d,pp=%d,ep=%d,mbs=%d", random_pick(&r, values, 7),
                       random_pick(&r, values, 7), random_pick(&r, values, 7),
                       random_pick(&r, values, 7));
        if (explain_layout(&p, text, &options, &e, &err) != MOSAIC_OK)
            continue; /* above 100 % MFU */
        if (e.has_winner && random_chance(&r, 0.2))
            ask_for_winner(&p, text, sizeof text);
        else if (e.violation_count == 0 &&
                 random_chance(&r, 0.6)) { /* memory that just does not do */
            p.cluster.device.memory_bytes = 0.7 * e.side.prediction.memory.total;
            if (explain_layout(&p, text, &options, &e, &err) != MOSAIC_OK)
                continue;
        }
        check_explanation(&p);
        changed += ways_changed();
        seen[e.verdict]++;
    }
    print_message("%d changes of the way\n", changed);
    assert_true(changed > 10);
    for (int v = 0; v <= EXPLAIN_IS_BEST; ++v)
        if (seen[v] < 3)
            fail_msg("only %d times %s", seen[v], explain_verdict_name((enum explain_verdict)v));
}

/* ---- users' cases ---- */

/* U28: 671e9 parameters on eight 80 GB GPUs: no number to fall back on, but a number of GPUs. */
static void u28_fewest_gpus(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/examples/impossible.yaml", &p, items, ROOM);
    ask(&p, "tp=8");
    assert_int_equal(e.verdict, EXPLAIN_DOES_NOT_FIT);
    assert_false(e.has_winner);
    assert_int_equal(e.fix_count, 0);
    assert_true(e.has_fewest);
    assert_true(e.fewest.gpus_needed >= 142 && e.fewest.gpus_needed <= 512);
    assert_int_equal(e.origins[LAYOUT_TP], EXPLAIN_GIVEN);
    assert_int_equal(e.origins[LAYOUT_ETP], EXPLAIN_DEFAULT);
    /* An illegal one gets the same answer. */
    const int needed = e.fewest.gpus_needed;
    ask(&p, "tp=8,ep=8,pp=2");
    assert_int_equal(e.verdict, EXPLAIN_ILLEGAL);
    assert_int_equal(e.fewest.gpus_needed, needed);
}

/* U32: EP 8 beside PP 2 on eight GPUs; EP 4 is the nearest that can be. */
static void u32_nearest(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/examples/predict-table4.yaml", &p, items, ROOM);
    p.cluster.nodes = 1;
    ask(&p, "pp=2,ep=8");
    assert_int_equal(e.verdict, EXPLAIN_ILLEGAL);
    assert_string_equal(e.violations[0].rule, "expert_ranks");
    assert_true(e.neighbour_count > 0);
    bool has_ep4 = false;
    for (int i = 0; i < e.neighbour_count; ++i)
        has_ep4 = has_ep4 ||
                  (e.neighbours[i].axes == 1u << LAYOUT_EP && e.neighbours[i].layout.mesh.ep == 4);
    assert_true(has_ep4);
    check_explanation(&p);
}

/* The plan's own layout is its best; one that the plan leaves out says so. */
static void against_the_winner(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/examples/predict-table4.yaml", &p, items, ROOM);
    ask(&p, "pp=8");
    assert_int_equal(e.verdict, EXPLAIN_IS_BEST);
    assert_int_equal(e.undeclared, 0);
    assert_int_equal(e.origins[LAYOUT_EP], EXPLAIN_PLAN);
    assert_true(e.side.has_tokens && e.winner.has_tokens);
    assert_close(e.side.run.loss, e.winner.run.loss, 0.0);
    ask(&p, "pp=4");
    assert_int_equal(e.undeclared, 1u << LAYOUT_PP);
    assert_int_equal(e.verdict, EXPLAIN_LOSES);
    assert_true(e.side.run.loss > e.winner.run.loss && e.side.run.tokens < e.winner.run.tokens);
    check_explanation(&p);
}

/* A change of one axis stays in the list beside faster ones of two. */
static void keeps_a_single_change(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/examples/predict-table4.yaml", &p, items, ROOM);
    ask(&p, "ep=1");
    assert_int_equal(e.verdict, EXPLAIN_DOES_NOT_FIT);
    bool has_single = false;
    for (int i = 0; i < e.fix_count; ++i)
        has_single = has_single || count_bits(e.fixes[i].axes) == 1;
    assert_true(has_single);
    check_explanation(&p);
}

/* Several models: the best plan's. */
static void several_models(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, ROOM);
    assert_true(p.geometries.count > 1);
    ask(&p, "pp=2");
    assert_true(e.is_searched && e.has_winner);
    check_explanation(&p);
}

/* Where the axes of the way come from, and what the explanation's own problem holds. */
static void keys_of_the_execution(void **state) {
    (void)state;
    struct problem p;
    static struct workload ways[2];
    case_load("configs/examples/predict-table4.yaml", &p, items, ROOM);
    ask(&p, "offload_optimizer=1");
    assert_int_equal(e.declared_ways, 1);
    assert_int_equal(e.shown_ways, 1u << WAY_OFFLOAD_OPTIMIZER);
    assert_int_equal(e.undeclared_ways, 1u << WAY_OFFLOAD_OPTIMIZER);
    assert_int_equal(e.way_origins[WAY_OFFLOAD_OPTIMIZER], EXPLAIN_GIVEN);
    assert_int_equal(e.way_origins[WAY_DISPATCHER], EXPLAIN_PLAN);
    assert_int_equal(e.verdict, EXPLAIN_LOSES);
    assert_true(e.side.prediction.host_bytes > 0.0 && e.winner.prediction.host_bytes <= 0.0);
    /* Listed by the plan: the winner's. */
    ways[0] = ways[1] = p.workload;
    ways[1].execution.dispatcher = DISPATCH_DEEPEP;
    p.ways = (struct way_list){2, ways};
    ask(&p, "pp=8");
    assert_int_equal(e.shown_ways, 1u << WAY_DISPATCHER);
    assert_int_equal(e.way_origins[WAY_DISPATCHER], EXPLAIN_WINNER);
    assert_int_equal(e.verdict, EXPLAIN_IS_BEST);
    ask(&p, "dispatcher=nccl");
    assert_int_equal(e.undeclared_ways, 0);
    assert_int_equal(e.verdict, e.winner.layout.mesh.way == 0 ? EXPLAIN_IS_BEST : EXPLAIN_LOSES);
    /* Refused: no link, no size of a group. */
    struct status_error err;
    p.cluster.host_link_bytes_per_s = 0.0;
    assert_int_equal(explain_layout(&p, "offload_optimizer=1", &options, &e, &err),
                     MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "node.host_link"));
    assert_int_equal(explain_layout(&p, "offload_optimizer=0", &options, &e, &err), MOSAIC_OK);
    assert_int_equal(explain_layout(&p, "sharding=hybrid", &options, &e, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "shard_ranks"));
}

/* The host binds: taking the state back, where the device has room, is a change that fits; it is
 * the plan's own way where the plan lists it. */
static void host_memory_binds(void **state) {
    (void)state;
    struct problem p;
    case_load("configs/examples/predict-table4.yaml", &p, items, ROOM);
    p.workload.execution.offload_optimizer = 1.0;
    p.cluster.host_memory_bytes = 40e9;
    ask(&p, "pp=8");
    assert_int_equal(e.verdict, EXPLAIN_DOES_NOT_FIT);
    assert_true(e.side.prediction.memory.total < e.side.prediction.capacity_bytes);
    assert_true(e.fix_count > 0);
    check_explanation(&p);
    int single = 0;
    for (int i = 0; i < e.fix_count; ++i) {
        single += e.fixes[i].axes == 1u << LAYOUT_WAY;
        assert_true(e.fixes[i].host_bytes * 8.0 <= 40e9);
    }
    assert_true(single > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_text),
        cmocka_unit_test(refuses_text),
        cmocka_unit_test(axes_are_values_of_a_mesh),
        cmocka_unit_test(random_layouts),
        cmocka_unit_test(u28_fewest_gpus),
        cmocka_unit_test(u32_nearest),
        cmocka_unit_test(against_the_winner),
        cmocka_unit_test(keeps_a_single_change),
        cmocka_unit_test(several_models),
        cmocka_unit_test(keys_of_the_execution),
        cmocka_unit_test(host_memory_binds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
