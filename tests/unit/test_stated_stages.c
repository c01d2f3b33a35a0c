// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Searches of a job whose stages are stated: the list, the best layout, the leanest one and how
 * many GPUs are missing, against every legal mesh priced with those stages; meshes of other PP are
 * as without.
 */
#include "plan_case.h"

#include "close.h"
#include "plan/layout_list.h"

#include <stdlib.h>
#include <string.h>

enum { SPACES = 120, WAYS = 2, MESHES_MAX = 40000 };

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

/* Two ways, both with the stages. */
static void draw(struct random *r, struct problem *p, struct geometry *g, struct workload *ways,
                 struct stated_stages *stages) {
    int pp;
    case_random(r, p, g, 1);
    p->layouts.allow_extrapolation = true;
    do
        pp = divisors[random_int(r, 0, DIVISORS - 1)];
    while (pp > g->layers || cluster_gpus(&p->cluster) % pp != 0);
    *stages = (struct stated_stages){.pp = pp, .vpp = 1, .count = (size_t)pp};
    draw_split(r, g->layers, pp, &stages->split);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searches_keep_to_the_stages),
        cmocka_unit_test(stages_decide_what_is_missing),
        cmocka_unit_test(other_meshes_are_as_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
