// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Searches of a job whose stages are stated: the list, the best layout, the leanest one and how
 * many GPUs are missing, against every legal mesh priced with those stages; meshes of other PP are
 * as without.
 */
#include "plan_case.h"

#include "close.h"
#include "known_models.h"
#include "plan/layout_list.h"
#include "step/engine_rules.h"
#include "step/published.h"

#include <stdlib.h>
#include <string.h>

enum { SPACES = 60, WAYS = 2, MESHES_MAX = 40000 };

/* Layers at random over the stages; the ends may have none. */
static void draw_split(struct random *r, int layers, int pp, struct split *out) {
    int counts[LAYOUT_MAX_PP] = {0}, left = layers;
    for (int i = 0; i < pp; ++i) {
        counts[i] = pp == 1 || (i > 0 && i + 1 < pp) || random_chance(r, 0.7) ? 1 : 0;
        left -= counts[i];
    }
    while (left-- > 0)
        counts[random_int(r, 0, pp - 1)]++;
    *out = (struct split){.stages = pp};
    for (int i = 0; i < pp; ++i)
        out->first[i + 1] = (uint16_t)(out->first[i] + counts[i]);
}

static const int divisors[] = {1, 2, 4, 8};
enum { DIVISORS = sizeof divisors / sizeof divisors[0] };

static struct pipeline_chunk chunks_of[LAYOUT_MAX_PP];

/* Two ways, both with the stages. */
static void draw(struct random *r, struct problem *p, struct geometry *g, struct workload *ways,
                 struct stated_stages *stages) {
    int pp;
    case_random(r, p, g, 1);
    p->layouts.allow_extrapolation = true;
    do
        pp = divisors[random_int(r, 0, DIVISORS - 1)];
    while (pp > g->layers || cluster_gpus(&p->cluster) % pp != 0);
    *stages = (struct stated_stages){.pp = pp, .vpp = 1, .count = (size_t)pp, .chunks = chunks_of};
    draw_split(r, g->layers, pp, &stages->split);
    for (int i = 0; i < pp; ++i)
        chunks_of[i] = (struct pipeline_chunk){
            .layers = (uint16_t)(stages->split.first[i + 1] - stages->split.first[i]),
            .mtp = (uint16_t)(i + 1 == pp ? g->mtp_layers : 0)};
    p->layouts.pp = (struct axis){.count = 1, .values = {pp}};
    p->layouts.vpp = (struct axis){.count = 1, .values = {1}};
    p->workload.stages = stages;
    ways[0] = ways[1] = p->workload;
    ways[1].execution.sharding = SHARD_ZERO2;
    p->ways = (struct way_list){random_int(r, 0, 1) * WAYS, ways};
    struct leanest_layout lean;
    leanest_layout_find(p, g, &lean);
    if (lean.found)
        p->cluster.device.memory_bytes = lean.needed_bytes * random_between(r, 0.9, 2.0);
}

struct brute {
    const struct step_context *ctx;
    const struct stated_stages *stages;
    double least_bytes, times[MESHES_MAX];
    size_t count;
    long legal;
};

static void shape(void *context, const struct mesh *mesh) {
    (void)context;
    (void)mesh;
}

static void try_mesh(void *context, const struct mesh *mesh) {
    struct brute *const b = context;
    struct layer_table table;
    struct prediction at;
    layer_table_fill(b->ctx, mesh, &table);
    step_predict(b->ctx, &table, mesh, &b->stages->split, &at, NULL);
    b->legal++;
    b->least_bytes = fmin(b->least_bytes, at.memory.total);
    if (at.verdict == VERDICT_NO || !step_is_plausible(&at))
        return;
    assert_true(b->count < MESHES_MAX);
    b->times[b->count++] = at.step_time_s;
}

static int ascending(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void enumerate(const struct problem *p, const struct geometry *g, struct brute *b) {
    *b = (struct brute){.stages = p->workload.stages, .least_bytes = (double)INFINITY};
    for (int way = 0; way < problem_ways(p); ++way) {
        struct step_context ctx;
        struct mesh_census census = {0};
        problem_context(p, g, way, &ctx);
        b->ctx = &ctx;
        mesh_walk(&ctx, &p->layouts, shape, try_mesh, b, &census);
    }
    qsort(b->times, b->count, sizeof b->times[0], ascending);
}

static void has_stages(const struct layout *layout, const struct stated_stages *stages) {
    assert_int_equal(layout->split.stages, stages->pp);
    assert_memory_equal(layout->split.first, stages->split.first,
                        (size_t)(stages->pp + 1) * sizeof stages->split.first[0]);
}

static void best_of(const struct problem *p, const struct geometry *g, struct best_layout *out) {
    struct status_error err;
    struct layout_counts counts = {0};
    struct layout_scratch *const scratch = layout_scratch_new();
    assert_non_null(scratch);
    assert_int_equal(best_layout_find(scratch, p, g, out, &counts, &err), MOSAIC_OK);
    layout_scratch_free(scratch);
}

static void searches_keep_to_the_stages(void **state) {
    (void)state;
    static struct brute b;
    static struct layout_list list;
    static struct workload ways[WAYS];
    const struct layout_list_options options = {.top = 8};
    struct random r = {601};
    struct problem p;
    struct geometry g;
    struct stated_stages stages;
    size_t listed = 0, none = 0;
    for (int i = 0; i < SPACES; ++i) {
        struct best_layout best;
        struct leanest_layout lean;
        struct status_error err;
        draw(&r, &p, &g, ways, &stages);
        enumerate(&p, &g, &b);
        best_of(&p, &g, &best);
        leanest_layout_find(&p, &g, &lean);
        assert_int_equal(layout_list_find(&p, &g, &options, &list, &err), MOSAIC_OK);
        assert_int_equal(lean.found, b.legal > 0);
        if (lean.found) {
            has_stages(&lean.layout, &stages);
            assert_close(lean.needed_bytes, b.least_bytes, 0.0);
        }
        assert_int_equal(best.found, b.count > 0);
        assert_int_equal(list.count > 0, b.count > 0);
        for (size_t k = 0; k < list.count; ++k)
            has_stages(&list.items[k].layout, &stages);
        if (best.found) {
            has_stages(&best.layout, &stages);
            assert_close(best.step_time_s, b.times[0], 0.0);
            assert_close(list.items[0].step_time_s, b.times[0], 0.0);
        }
        listed += list.count;
        none += b.legal > 0 && b.count == 0;
    }
    assert_true(listed > SPACES && none > SPACES / 20);
}

/* What is short is what the stated stages need, however well others would fit. */
static void stages_decide_what_is_missing(void **state) {
    (void)state;
    static struct workload ways[WAYS];
    struct random r = {602};
    struct problem p;
    struct geometry g;
    struct stated_stages stages;
    int same = 0;
    for (int i = 0; i < SPACES; ++i) {
        struct shortfall s = {0};
        struct leanest_layout lean;
        draw(&r, &p, &g, ways, &stages);
        leanest_layout_find(&p, &g, &lean);
        if (!lean.found)
            continue;
        p.cluster.device.memory_bytes = lean.needed_bytes * random_between(&r, 0.6, 1.0);
        shortfall_gpus(&p, &g, &s);
        assert_true(s.needed_bytes >= lean.needed_bytes);
        same += !(s.needed_bytes > lean.needed_bytes);
    }
    assert_true(same > SPACES / 4);
}

/* PP that has no stated stages gets the best split. */
static void other_meshes_are_as_without(void **state) {
    (void)state;
    static struct workload ways[WAYS];
    struct random r = {603};
    struct problem p;
    struct geometry g;
    struct stated_stages stages;
    int found = 0;
    for (int i = 0; i < SPACES; ++i) {
        struct best_layout with, without;
        draw(&r, &p, &g, ways, &stages);
        p.ways = (struct way_list){0};
        p.layouts.pp = (struct axis){.count = 1, .values = {stages.pp == 2 ? 4 : 2}};
        best_of(&p, &g, &with);
        p.workload.stages = NULL;
        best_of(&p, &g, &without);
        assert_int_equal(with.found, without.found);
        if (!with.found)
            continue;
        found++;
        assert_close(with.step_time_s, without.step_time_s, 0.0);
        assert_int_equal(mesh_compare(&with.layout.mesh, &without.layout.mesh), 0);
        assert_memory_equal(&with.layout.split, &without.layout.split, sizeof with.layout.split);
    }
    assert_true(found > SPACES / 10);
}

/* ---- what a stage holds ---- */

/* DeepSeek-V3 shortened: 12 layers, 3 of them dense, MTP layers as asked. */
struct held {
    struct geometry g;
    struct workload work;
    struct pipeline_chunk chunks[64];
    struct stated_stages stages;
    struct step_context ctx;
    struct layer_table table;
    struct mesh mesh;
};
static struct problem machine;
static struct geometry of_machine[4];

static void hold(struct held *h, int mtp, const char *text, int pp) {
    struct status_error err;
    case_load("configs/examples/predict-table4.yaml", &machine, of_machine, 4);
    h->g = deepseek_v3;
    h->g.layers = 12;
    h->g.mtp_layers = mtp;
    h->work = machine.workload;
    h->work.stages = NULL;
    h->work.global_batch = 1024;
    h->mesh = (struct mesh){.tp = 1,
                            .cp = 1,
                            .pp = pp,
                            .vpp = 1,
                            .ep = 8,
                            .etp = 1,
                            .micro_batch = 1,
                            .recompute = RECOMPUTE_FULL};
    if (text) {
        size_t count;
        assert_int_equal(pipeline_parse(text, h->chunks, 64, &count, &err), MOSAIC_OK);
        h->mesh.vpp = (int)count / pp;
        h->stages = (struct stated_stages){
            .pp = pp, .vpp = h->mesh.vpp, .count = count, .chunks = h->chunks};
        split_from_pipeline(h->chunks, count, pp, &h->stages.split);
        h->work.stages = &h->stages;
        h->work.execution.uneven_chunks = true;
    }
    if (mesh_complete(&h->mesh, &h->g, &h->work, cluster_gpus(&machine.cluster), &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    step_context_init(&h->ctx, &h->g, &machine.cluster, &machine.calibration, &h->work,
                      &machine.engine, machine.estimator);
    layer_table_fill(&h->ctx, &h->mesh, &h->table);
}

static void content(const struct held *h, int stage, struct stage_content *out) {
    const struct split *const s = &h->stages.split;
    stage_content_of(&h->ctx, &h->table, &h->mesh,
                     (struct stage_range){stage, s->first[stage], s->first[stage + 1]}, out);
}

static void chunks_decide_what_a_stage_holds(void **state) {
    (void)state;
    static struct held h;
    static const struct {
        const char *text;
        int pp, mtp;
        int dense[4], moe[4], of_mtp[4];
    } cases[] = {
        {"Et*3|t*3|t*3|t*3mL", 4, 1, {3, 0, 0, 0}, {0, 3, 3, 3}, {0, 0, 0, 1}},
        {"Et*6|t*6|m|L", 4, 1, {3, 0, 0, 0}, {3, 6, 0, 0}, {0, 0, 1, 0}},
        {"Et*6|t*6m|m|L", 4, 2, {3, 0, 0, 0}, {3, 6, 0, 0}, {0, 1, 1, 0}},
        /* the dense layers of chunks 0, 1 and 2 */
        {"Et|t|t|t|tt|tt|tt|ttmL", 4, 1, {1, 1, 1, 0}, {2, 2, 2, 3}, {0, 0, 0, 1}},
        {"Ett|t*4|t*3|t*3|m|L", 2, 1, {2, 1, 0, 0}, {3, 6, 0, 0}, {1, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        double dense_params = 0.0, expert_params = 0.0, whole_dense = 0.0, whole_expert = 0.0;
        hold(&h, cases[i].mtp, cases[i].text, cases[i].pp);
        for (int stage = 0; stage < cases[i].pp; ++stage) {
            struct stage_content c;
            content(&h, stage, &c);
            assert_close(c.dense_layers, (double)cases[i].dense[stage], 0.0);
            assert_close(c.moe_layers, (double)cases[i].moe[stage], 0.0);
            assert_close(c.mtp_layers, (double)cases[i].of_mtp[stage], 0.0);
            assert_int_equal(c.has[LAYER_MOE], cases[i].moe[stage] + cases[i].of_mtp[stage] > 0);
            assert_int_equal(c.has[LAYER_DENSE], cases[i].dense[stage] > 0);
            dense_params += c.dense_params;
            expert_params += c.expert_params;
        }
        h.work.stages = NULL;
        for (int stage = 0; stage < cases[i].pp; ++stage) {
            struct stage_content c;
            content(&h, stage, &c);
            whole_dense += c.dense_params;
            whole_expert += c.expert_params;
        }
        assert_close(dense_params, whole_dense, 1e-14);
        assert_close(expert_params, whole_expert, 1e-14);
    }
}

/* Time and activations go with an MTP layer; its head pass stays. */
static void mtp_layers_move_with_their_cost(void **state) {
    (void)state;
    static struct held with, without;
    hold(&with, 1, "Et*4|t*4|t*4m|L", 4);
    hold(&without, 1, "Et*4|t*4|t*4|mL", 4);
    const struct layer_cost *const moe = &with.table.cost[LAYER_MOE];
    const double kept = moe->kept_bytes + moe->kept_routed_bytes;
    double sum_s = 0.0, sum_last_s = 0.0;
    for (int stage = 0; stage < 4; ++stage) {
        struct stage_cost moved, last;
        struct memory_items full, less;
        const struct split *const s = &with.stages.split;
        const struct stage_range range = {stage, s->first[stage], s->first[stage + 1]};
        const double sign = stage == 2 ? 1.0 : stage == 3 ? -1.0 : 0.0;
        stage_cost_of(&with.ctx, &with.table, &with.mesh, range, &moved);
        stage_cost_of(&without.ctx, &without.table, &without.mesh, range, &last);
        assert_true(sign * (moved.busy_s - last.busy_s) >= fabs(sign) * 0.9 * moe->gpu_s);
        sum_s += moved.busy_s;
        sum_last_s += last.busy_s;
        assert_close_abs(moved.expert_params - last.expert_params, sign * with.table.mtp.expert,
                         1.0);
        stage_memory_of(&with.ctx, &with.table, &with.mesh, range, &full);
        stage_memory_of(&without.ctx, &without.table, &without.mesh, range, &less);
        /* 2 of 4 stages are left: 2 micro-batches wait there, one beside the loss */
        assert_close_abs(full.activations - less.activations,
                         stage == 2   ? 2.0 * kept
                         : stage == 3 ? -kept
                                      : 0.0,
                         2.0);
        assert_close_abs(full.logits - less.logits, 0.0, 0.0);
    }
    assert_close(sum_s, sum_last_s, 0.01);
}

/* A stated split with its MTP layers beside the loss is priced as a chosen one, bit for bit. */
static void stated_as_chosen(void **state) {
    (void)state;
    static struct held h;
    static const char *const texts[] = {"Et*3|t*3|t*3|t*3mL", "Ett|t*5|t*3|ttmL",
                                        "Et*4|t|t*3|t*4mL"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        struct prediction stated, chosen;
        struct memory_items of_stated[4], of_chosen[4];
        hold(&h, 1, texts[i], 4);
        step_predict(&h.ctx, &h.table, &h.mesh, &h.stages.split, &stated, of_stated);
        h.work.stages = NULL;
        step_predict(&h.ctx, &h.table, &h.mesh, &h.stages.split, &chosen, of_chosen);
        assert_memory_equal(&stated, &chosen, sizeof stated);
        assert_memory_equal(of_stated, of_chosen, sizeof of_chosen);
    }
}

/* The ends or MTP layers alone on a stage. */
static void stages_without_layers_are_priced(void **state) {
    (void)state;
    static struct held h;
    static const char *const texts[] = {"E|t*6|t*6m|L", "E|t*12|m|L", "Et*6|t*6|m|L"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i)
        for (int schedule = 0; schedule < 3; ++schedule) {
            struct prediction p;
            hold(&h, 1, texts[i], 4);
            if (schedule == 1)
                h.work.execution.offload_activations = 0.5;
            if (schedule == 2)
                h.work.execution.checkpoint_host_bytes = 1e9;
            machine.cluster.host_link_bytes_per_s = 5e10;
            step_predict(&h.ctx, &h.table, &h.mesh, &h.stages.split, &p, NULL);
            assert_true(step_is_plausible(&p));
            assert_close(time_split_sum(&p.split), p.step_time_s, 1e-12);
            assert_true(p.memory.total > 0.0 && isfinite(p.host_bytes));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searches_keep_to_the_stages),
        cmocka_unit_test(stages_decide_what_is_missing),
        cmocka_unit_test(other_meshes_are_as_without),
        cmocka_unit_test(chunks_decide_what_a_stage_holds),
        cmocka_unit_test(mtp_layers_move_with_their_cost),
        cmocka_unit_test(stated_as_chosen),
        cmocka_unit_test(stages_without_layers_are_priced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
