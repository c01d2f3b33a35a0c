// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a search takes as its space grows, in evaluations, bounds and layer tables, which do not
 * hang on the machine: ten times the space costs ten times at most, and a space of more than 1e9
 * points is solved and proved by looking at few of them.
 */
#include "plan_case.h"

#include "close.h"
#include "effort.h"
#include "plan/search.h"

#include <stdlib.h>
#include <string.h>

enum { ITEMS = 2048, WAYS_MOST = 128 };

static struct geometry items[ITEMS];
static struct workload ways[WAYS_MOST];
static struct problem problem;
static struct search_result result;

/* Of both passes of a search. */
struct cost {
    double meshes, evaluations, programs, bounds, tables;
};

static struct cost run(int threads) {
    struct status_error err;
    const struct search_options options = {.threads = threads};
    if (search_run(&problem, &options, &result, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    search_result_free(&result);
    assert_int_equal(result.status, SEARCH_OPTIMAL);
    const struct layout_counts *const b = &result.proof.bound_counts, *const c =
                                                                          &result.proof.counts;
    assert_int_equal(b->meshes, b->census.legal);
    assert_int_equal(b->meshes, b->closed_by_memory + b->closed_by_shape + b->bounded);
    assert_int_equal(c->meshes, c->closed_by_memory + c->closed_by_bound + c->opened);
    return (struct cost){.meshes = (double)b->meshes,
                         .evaluations = (double)c->work.evaluations,
                         .programs = (double)c->work.programs,
                         .bounds = (double)(b->bounded + c->bounded),
                         .tables = (double)(b->tables + c->tables)};
}

static void print(const char *what, const struct cost *c) {
    print_message("%s: %.4g meshes; %.0f evaluations, %.0f programs, %.0f bounds of one mesh, %.0f "
                  "layer tables: one of these to %.0f meshes\n",
                  what, c->meshes, c->evaluations, c->programs, c->bounds, c->tables,
                  c->meshes / (c->evaluations + c->bounds + c->tables));
}

/* The dearer ones by themselves, and all together. */
static void expect_growth(const struct cost *small, const struct cost *large) {
    const double grown = large->meshes / small->meshes;
    print_message("space x %.1f: evaluations x %.2f, bounds x %.2f, tables x %.2f\n", grown,
                  large->evaluations / small->evaluations, large->bounds / small->bounds,
                  large->tables / small->tables);
    assert_true(grown >= 9.9);
    assert_true(large->evaluations <= grown * small->evaluations);
    assert_true(large->evaluations + large->bounds + large->tables <=
                grown * (small->evaluations + small->bounds + small->tables));
}

static void free_degrees(void) {
    struct layout_space *const s = &problem.layouts;
    s->tp = s->cp = s->vpp = s->ep = (struct axis){.count = 0};
}

/* Every n-th geometry. */
static void thin_out(size_t n) {
    for (size_t i = 0; n * i < problem.geometries.count; ++i)
        items[i] = items[n * i];
    problem.geometries.count /= n;
}

/* Every tenth geometry, then all of them. */
static void ten_times_the_geometries(void **state) {
    (void)state;
    case_load("configs/p6-b200-32n-20d.yaml", &problem, items, ITEMS);
    thin_out(EFFORT(1, 4));
    const size_t all = problem.geometries.count;
    static struct geometry kept[ITEMS];
    memcpy(kept, items, sizeof kept);
    thin_out(10);
    const struct cost small = run(2);
    memcpy(items, kept, sizeof kept);
    problem.geometries.count = all;
    const struct cost large = run(2);
    print("every tenth geometry", &small);
    print("all geometries", &large);
    expect_growth(&small, &large);
}

/* Degrees as the paper pins them, then free. */
static void ten_times_the_layouts(void **state) {
    (void)state;
    case_load("configs/p6-b200-32n-20d.yaml", &problem, items, ITEMS);
    thin_out(EFFORT(12, 60));
    const struct cost small = run(2);
    free_degrees();
    const struct cost large = run(2);
    print("degrees of the plan", &small);
    print("TP, CP, EP, VPP free", &large);
    expect_growth(&small, &large);
}

/* Sharding, and how much waits on the host. */
static void list_ways(int shares) {
    static const enum sharding sharding[] = {SHARD_ZERO1, SHARD_NONE, SHARD_ZERO2, SHARD_FSDP};
    int count = 0;
    for (int s = 0; s < 4; ++s)
        for (int a = 0; a < shares; ++a)
            for (int o = 0; o < shares; ++o) {
                assert_true(count < WAYS_MOST);
                struct execution *const e = &ways[count].execution;
                ways[count++] = problem.workload;
                e->sharding = sharding[s];
                e->offload_activations = (double)a / (double)shares;
                e->offload_optimizer = (double)o / (double)shares;
            }
    problem.ways = (struct way_list){count, ways};
    problem.cluster.host_link_bytes_per_s = 5e10;
    problem.cluster.host_memory_bytes = 2e12;
}

static void many_times_the_ways(void **state) {
    (void)state;
    case_load("configs/p6-b200-32n-20d.yaml", &problem, items, ITEMS);
    thin_out(EFFORT(40, 180));
    free_degrees();
    const struct cost small = run(2);
    list_ways(5);
    const struct cost large = run(2);
    print("one way", &small);
    print("100 ways", &large);
    expect_growth(&small, &large);
}

/* DeepSeek-V3 with other widths, depths, experts and top-k, on 2048 GPUs, all degrees free. */
static void list_models(void) {
    static const int hidden[] = {6144, 7168}, layers[] = {48, 60, 64};
    static const int experts[] = {128, 160, 256, 320}, top_k[] = {4, 8};
    const struct geometry of_file = items[0];
    size_t count = 0;
    for (int h = 0; h < 2; ++h)
        for (int l = 0; l < 3; ++l)
            for (int e = 0; e < 4; ++e)
                for (int k = 0; k < 2; ++k) {
                    struct geometry *const g = &items[count++];
                    *g = of_file;
                    g->hidden = hidden[h];
                    g->layers = layers[l];
                    g->experts = experts[e];
                    g->top_k = top_k[k];
                }
    problem.geometries.count = count;
}

static void more_than_1e9_points(void **state) {
    (void)state;
#ifdef IS_SANITIZED
    print_message("more_than_1e9_points: takes minutes under a sanitizer: skipped\n");
    skip();
#endif
    case_load("bench/plans/dsv3-2048.yaml", &problem, items, ITEMS);
    list_models();
    list_ways(5);
    problem.engine.uneven_stages = false; /* programs cost the same in any space */
    const struct cost cost = run(2);
    print("48 models, 100 ways, all degrees", &cost);
    assert_true(cost.meshes >= 1e9);
    assert_true(cost.evaluations + cost.bounds + cost.tables < cost.meshes / 50.0);
    /* The best plan is as well found alone. */
    const struct candidate best = result.kept[0];
    problem.ways = (struct way_list){1, &ways[best.layout.mesh.way]};
    items[0] = items[best.index];
    problem.geometries.count = 1;
    (void)run(1);
    assert_close(result.kept[0].step_time_s, best.step_time_s, 0.0);
    search_result_free(&result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_times_the_geometries),
        cmocka_unit_test(ten_times_the_layouts),
        cmocka_unit_test(many_times_the_ways),
        cmocka_unit_test(more_than_1e9_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
