// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The best split of one mesh against every split of it: with data-parallel tails that decide, with
 * memory of device and node that cuts, with stages that recompute differently, and with cut-offs on
 * both sides of the answer.
 */
#include "oracle.h"
#include "plan_case.h"

#include "close.h"
#include "effort.h"
#include "plan/best_split.h"

#include <string.h>

enum { CASES = 400, MIXED_CASES = EFFORT(200, 80) };

static const double close_enough = 1e-12;

struct fixture {
    struct problem problem;
    struct geometry geometry;
    struct step_context ctx;
    struct layer_table table;
    struct mesh mesh;
};

/* Tails that weigh as much as the pipeline: slow links, little to hide behind, costly optimizer. */
static void heavy_tails(struct random *r, struct problem *p) {
    double *const s = p->calibration.scalar;
    p->cluster.tiers[0].bytes_per_s = random_between(r, 1e9, 1e11);
    p->cluster.tiers[1].bytes_per_s = random_between(r, 1e8, 1e10);
    s[CAL_DP_OVERLAP] = random_chance(r, 0.5) ? 0.0 : random_unit(r);
    s[CAL_DP_BUCKETS] = random_int(r, 1, 4);
    s[CAL_OPTIMIZER_BYTES] = random_between(r, 90.0, 5000.0);
    if (random_chance(r, 0.7))
        p->calibration.collective_count = 0;
}

/* A legal mesh of a random problem with a pipeline. */
static void draw(struct random *r, struct fixture *f) {
    struct problem *const p = &f->problem;
    case_random(r, p, &f->geometry, 1);
    f->geometry.layers = random_int(r, 4, 11);
    f->geometry.ladder_q = 0;
    if (f->geometry.experts == 0)
        f->geometry.first_dense = f->geometry.layers;
    p->engine.uneven_stages = true;
    p->cluster.nodes = random_int(r, 1, 3);
    p->cluster.gpus_per_node = random_int(r, 2, 6);
    p->cluster.tiers[0].domain = p->cluster.gpus_per_node;
    p->workload.global_batch = cluster_gpus(&p->cluster) * random_int(r, 1, 3);
    heavy_tails(r, p);
    for (;;) {
        f->mesh = (struct mesh){.tp = 1,
                                .cp = 1,
                                .pp = random_int(r, 2, 6),
                                .vpp = 1,
                                .ep = random_int(r, 1, 2),
                                .etp = 1,
                                .micro_batch = 1,
                                .recompute = (enum recompute)random_int(r, 0, 2)};
        if (mesh_complete(&f->mesh, &f->geometry, &p->workload, cluster_gpus(&p->cluster), NULL) ==
            MOSAIC_OK)
            break;
        p->cluster.gpus_per_node = random_int(r, 2, 6);
        p->cluster.tiers[0].domain = p->cluster.gpus_per_node;
        p->workload.global_batch = cluster_gpus(&p->cluster) * random_int(r, 1, 3);
    }
    step_context_init(&f->ctx, &f->geometry, &p->cluster, &p->calibration, &p->workload, &p->engine,
                      p->estimator);
    layer_table_fill(&f->ctx, &f->mesh, &f->table);
}

static void find(struct split_scratch *scratch, const struct fixture *f, double cutoff_s,
                 struct best_split *out, struct split_work *work) {
    struct status_error err;
    const struct split_request request = {&f->ctx, &f->table, &f->mesh, cutoff_s};
    if (best_split_find(scratch, &request, out, work, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

static bool is_even(const struct fixture *f, const struct split *split) {
    struct split even;
    split_even(f->geometry.layers, f->mesh.pp, &even);
    return memcmp(even.first, split->first, sizeof even.first[0] * ((size_t)f->mesh.pp + 1)) == 0;
}

static void same_split(struct split_scratch *scratch, const struct fixture *f,
                       const struct oracle_split *want, struct split_work *work) {
    struct best_split got;
    find(scratch, f, INFINITY, &got, work);
    assert_int_equal(got.found, want->found);
    assert_int_equal(got.too_large, !want->found);
    if (!want->found)
        return;
    assert_close(got.step_time_s, want->step_time_s, close_enough);
    assert_int_equal(got.split.stages, f->mesh.pp);
    assert_int_equal(got.split.first[f->mesh.pp], f->geometry.layers);
    assert_int_equal(got.split.is_mixed,
                     split_policies(&got.split, &f->mesh) != 1U << f->mesh.recompute);
    struct prediction p;
    step_predict(&f->ctx, &f->table, &f->mesh, &got.split, &p, NULL);
    assert_memory_equal(&p.step_time_s, &got.step_time_s, sizeof(double));
    /* Just above the best it is found, at and below it nothing is. */
    find(scratch, f, want->step_time_s * (1.0 + 1e-9), &got, work);
    assert_true(got.found);
    assert_close(got.step_time_s, want->step_time_s, close_enough);
    find(scratch, f, want->step_time_s * (1.0 - 1e-9), &got, work);
    assert_false(got.found);
    find(scratch, f, want->step_time_s * 0.5, &got, work);
    assert_false(got.found);
}

static void every_split_tried(void **state) {
    (void)state;
    struct random r = {8};
    struct split_scratch *const scratch = split_scratch_new();
    assert_non_null(scratch);
    int uneven = 0, repeated = 0, none = 0, bound = 0;
    for (int i = 0; i < CASES; ++i) {
        static struct fixture f;
        struct oracle_split want;
        struct split_work work = {0};
        draw(&r, &f);
        oracle_best_split(&f.ctx, &f.table, &f.mesh, &want);
        if (random_chance(&r, 0.4)) { /* memory between the leanest split and more than the best */
            f.problem.cluster.device.memory_bytes =
                ceil(want.least_bytes * random_between(&r, 0.98, 1.3));
            oracle_best_split(&f.ctx, &f.table, &f.mesh, &want);
        }
        bound += step_bound(&f.ctx, &f.table, &f.mesh) > want.least_time_s;
        bound += step_memory_bound(&f.ctx, &f.table, &f.mesh) > want.least_bytes;
        struct best_split first;
        find(scratch, &f, INFINITY, &first, &work);
        repeated += work.programs > 1;
        uneven += want.found && !is_even(&f, &want.split);
        none += !want.found;
        same_split(scratch, &f, &want, &work);
    }
    split_scratch_free(scratch);
    print_message("%d uneven, %d with several limits of the tail, %d too large\n", uneven, repeated,
                  none);
    assert_true(uneven > CASES / 8 && repeated > CASES / 20 && none > CASES / 50);
    assert_int_equal(bound, 0);
}

/* GPUs in the host's memory with what waits there, of one stage on every node: too much at times
 * where a node's own stages are not. */
static bool is_crowded(const struct fixture *f, const struct prediction *p) {
    const struct cluster *const c = &f->problem.cluster;
    return p->host_bytes * c->gpus_per_node > c->host_memory_bytes;
}

/* Splits that a node's host memory does not hold are none; nodes that several stages share hold
 * what those need together. */
static void host_memory_cuts(void **state) {
    (void)state;
    struct random r = {10};
    struct split_scratch *const scratch = split_scratch_new();
    assert_non_null(scratch);
    int moved = 0, none = 0, shared = 0;
    for (int i = 0; i < CASES; ++i) {
        static struct fixture f;
        struct oracle_split wide, want;
        struct split_work work = {0};
        struct prediction p;
        draw(&r, &f);
        struct cluster *const c = &f.problem.cluster;
        c->host_link_bytes_per_s = random_between(&r, 1e10, 1e11);
        c->host_memory_bytes = 1e18;
        f.problem.workload.execution.offload_activations = random_int(&r, 0, 2) / 2.0;
        f.problem.workload.execution.offload_optimizer = random_int(&r, 0, 2) / 2.0;
        step_context_init(&f.ctx, &f.geometry, c, &f.problem.calibration, &f.problem.workload,
                          &f.problem.engine, f.problem.estimator);
        layer_table_fill(&f.ctx, &f.mesh, &f.table);
        oracle_best_split(&f.ctx, &f.table, &f.mesh, &wide);
        step_predict(&f.ctx, &f.table, &f.mesh, &wide.split, &p, NULL);
        if (p.host_bytes > 0.0)
            c->host_memory_bytes = p.host_node_bytes * random_between(&r, 0.7, 1.05);
        oracle_best_split(&f.ctx, &f.table, &f.mesh, &want);
        none += !want.found;
        moved += want.found && memcmp(want.split.first, wide.split.first,
                                      sizeof want.split.first[0] * ((size_t)f.mesh.pp + 1)) != 0;
        same_split(scratch, &f, &want, &work);
        if (!want.found)
            continue;
        step_predict(&f.ctx, &f.table, &f.mesh, &want.split, &p, NULL);
        assert_true(p.verdict != VERDICT_NO);
        shared += is_crowded(&f, &p);
    }
    split_scratch_free(scratch);
    print_message("%d elsewhere, %d too large, %d of stages that share nodes\n", moved, none,
                  shared);
    assert_true(moved > CASES / 10 && none > CASES / 10 && shared > CASES / 10);
}

/* ---- stages that recompute differently ---- */

static const bool all_policies[RECOMPUTE_MODES] = {true, true, true};

static void mix(struct fixture *f) {
    const struct problem *const p = &f->problem;
    step_context_init(&f->ctx, &f->geometry, &p->cluster, &p->calibration, &p->workload,
                      &f->problem.engine, p->estimator);
    context_mix_policies(&f->ctx, all_policies);
    layer_table_fill(&f->ctx, &f->mesh, &f->table);
}

/* Few enough stages that every list of recomputations can be tried. */
static void draw_mixed(struct random *r, struct fixture *f) {
    do
        draw(r, f);
    while (f->mesh.pp > 4);
    f->problem.engine.recompute_per_stage = true;
    f->problem.engine.uneven_stages = f->geometry.layers % f->mesh.pp != 0 || random_chance(r, 0.6);
    if (random_chance(r, 0.2) && f->geometry.layers % (2 * f->mesh.pp) == 0)
        f->mesh.vpp = 2;
    if (random_chance(r, 0.4)) {
        f->problem.cluster.host_link_bytes_per_s = random_between(r, 1e10, 1e11);
        f->problem.cluster.host_memory_bytes = 1e18;
        f->problem.workload.execution.offload_activations = random_int(r, 0, 2) / 2.0;
        f->problem.workload.execution.offload_optimizer = random_int(r, 0, 2) / 2.0;
    }
    mix(f);
}

/* Memory of device and node around what the best split without limits needs. */
static void draw_limits(struct random *r, struct fixture *f, const struct oracle_split *wide) {
    struct prediction p;
    struct cluster *const c = &f->problem.cluster;
    step_predict(&f->ctx, &f->table, &f->mesh, &wide->split, &p, NULL);
    const double least = wide->least_bytes, most = fmax(p.memory.total, least);
    if (random_chance(r, 0.9))
        c->device.memory_bytes = ceil(random_between(r, 0.97 * least, 1.05 * most));
    if (p.host_node_bytes > 0.0 && random_chance(r, 0.7))
        c->host_memory_bytes = p.host_node_bytes * random_between(r, 0.5, 1.05);
    mix(f);
}

static void stages_differ(void **state) {
    (void)state;
    struct random r = {12};
    struct split_scratch *const scratch = split_scratch_new();
    assert_non_null(scratch);
    int mixed = 0, none = 0, wrong = 0, better = 0, interleaved = 0;
    for (int i = 0; i < MIXED_CASES; ++i) {
        static struct fixture f;
        struct oracle_split wide, want, plain;
        struct split_work work = {0};
        draw_mixed(&r, &f);
        oracle_best_stages(&f.ctx, &f.mesh, all_policies, &wide);
        draw_limits(&r, &f, &wide);
        oracle_best_stages(&f.ctx, &f.mesh, all_policies, &want);
        oracle_best_split(&f.ctx, &f.table, &f.mesh, &plain);
        wrong += step_bound(&f.ctx, &f.table, &f.mesh) > wide.least_time_s;
        wrong += step_memory_bound(&f.ctx, &f.table, &f.mesh) > wide.least_bytes;
        same_split(scratch, &f, &want, &work);
        none += !want.found;
        mixed += want.found && want.split.is_mixed;
        interleaved += want.found && want.split.is_mixed && f.mesh.vpp > 1;
        better += want.found && (!plain.found || want.step_time_s < plain.step_time_s * 0.99);
    }
    split_scratch_free(scratch);
    print_message("%d mixed, %d of them interleaved, %d better for it by 1 %%, %d too large\n",
                  mixed, interleaved, better, none);
    assert_true(mixed > MIXED_CASES / 3 && better > MIXED_CASES / 8 && none > MIXED_CASES / 40);
    assert_true(interleaved > 0);
    assert_int_equal(wrong, 0);
}

/* One policy for all where the engine, the plan, the schedule or the estimator leaves one. */
static void stages_may_not_differ(void **state) {
    (void)state;
    struct random r = {13};
    static struct fixture f;
    do
        draw_mixed(&r, &f);
    while (f.mesh.recompute != RECOMPUTE_FULL || f.mesh.vpp > 1);
    assert_int_equal(mesh_policies(&f.ctx, &f.mesh), 7);
    struct mesh other = f.mesh;
    other.recompute = RECOMPUTE_SELECTIVE;
    assert_int_equal(mesh_policies(&f.ctx, &other), 3);
    other.recompute = RECOMPUTE_NONE;
    assert_int_equal(mesh_policies(&f.ctx, &other), 1);
    const int full = 1 << RECOMPUTE_FULL;
    other = f.mesh;
    other.schedule = SCHEDULE_ZERO_BUBBLE;
    assert_int_equal(mesh_policies(&f.ctx, &other), full);
    other = f.mesh;
    other.pp = 1;
    assert_int_equal(mesh_policies(&f.ctx, &other), full);
    const bool ends[RECOMPUTE_MODES] = {true, false, true};
    const bool one[RECOMPUTE_MODES] = {false, false, true};
    context_mix_policies(&f.ctx, ends);
    assert_int_equal(mesh_policies(&f.ctx, &f.mesh), 5);
    context_mix_policies(&f.ctx, one);
    assert_int_equal(mesh_policies(&f.ctx, &f.mesh), full);
    f.problem.workload.execution.checkpoint_host_bytes = 1e9;
    context_mix_policies(&f.ctx, all_policies);
    assert_int_equal(mesh_policies(&f.ctx, &f.mesh), full);
    f.problem.workload.execution.checkpoint_host_bytes = 0.0;
    f.ctx.estimator = estimator_published();
    context_mix_policies(&f.ctx, all_policies);
    assert_int_equal(mesh_policies(&f.ctx, &f.mesh), full);
    f.ctx.estimator = estimator_default();
    f.ctx.engine.recompute_per_stage = false;
    context_mix_policies(&f.ctx, all_policies);
    assert_int_equal(mesh_policies(&f.ctx, &f.mesh), full);
}

/* Where the program has nothing to say it is not run. */
static void program_not_needed(void **state) {
    (void)state;
    struct random r = {9};
    static struct fixture f;
    struct best_split got;
    struct split_work work = {0};
    struct split_scratch *const scratch = split_scratch_new();
    draw(&r, &f);
    f.mesh.pp = 1;
    find(scratch, &f, INFINITY, &got, &work);
    assert_true(got.found && work.programs == 0 && work.evaluations == 1);
    draw(&r, &f);
    f.ctx.engine.uneven_stages = false;
    find(scratch, &f, INFINITY, &got, &work);
    assert_true(got.found && work.programs == 0);
    assert_true(is_even(&f, &got.split));
    draw(&r, &f);
    find(scratch, &f, step_bound(&f.ctx, &f.table, &f.mesh), &got, &work);
    assert_true(!got.found && !got.too_large && work.programs == 0);
    split_scratch_free(scratch);
    split_scratch_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_tried),  cmocka_unit_test(host_memory_cuts),
        cmocka_unit_test(stages_differ),      cmocka_unit_test(stages_may_not_differ),
        cmocka_unit_test(program_not_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
