// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Several ways to run a job in one problem against one problem a way: the best layout, the list,
 * the search and its threads, and what is said when nothing fits.
 */
#include "plan_case.h"

#include "close.h"
#include "engine/way.h"
#include "plan/layout_list.h"

#include <stdlib.h>
#include <string.h>

enum { SPACES = 80, WAYS = 6, TOP = 6 };

static void draw_way(struct random *r, struct execution *e) {
    static const double shares[] = {0.0, 0.0, 0.25, 0.5, 1.0};
    enum { SHARES = sizeof shares / sizeof shares[0] };
    e->sharding = (enum sharding)random_int(r, SHARD_ZERO1, SHARD_FSDP);
    e->dispatcher = (enum dispatcher)random_int(r, 0, DISPATCHERS - 1);
    e->graphs = (enum graphs)random_int(r, GRAPHS_NONE, GRAPHS_FULL);
    e->offload_activations = shares[random_int(r, 0, SHARES - 1)];
    e->offload_optimizer = shares[random_int(r, 0, SHARES - 1)];
}

/* Memory schedules, as each rules out an offload. */
static void draw_schedules(struct random *r, enum optimizer optimizer, struct execution *e) {
    static const int rings[] = {0, 0, 2, 4}, chunks[] = {0, 0, 256, 2048};
    e->balance = random_chance(r, 0.3) ? BALANCE_LLEP : BALANCE_NONE;
    e->dispatch_chunk = random_pick(r, chunks, sizeof chunks / sizeof chunks[0]);
    e->dispatch_chunks_max = 10;
    e->vocab_ring = random_pick(r, rings, sizeof rings / sizeof rings[0]);
    e->bucket_slots = 2;
    if (random_chance(r, 0.3)) {
        e->checkpoint_host_bytes = random_between(r, 1e6, 1e10);
        e->offload_activations = 0.0;
    }
    if (optimizer == OPTIMIZER_ADAMW && random_chance(r, 0.3)) {
        e->bucket_params = random_between(r, 1e4, 1e8);
        e->offload_optimizer = 0.0;
    }
}

static bool is_new(const struct problem *p, int way) {
    for (int i = 0; i < way; ++i) {
        int same = 0;
        for (int axis = 0; axis < WAY_AXES; ++axis)
            same += !(fabs(way_axis_get(&p->ways.items[i].execution, (enum way_axis)axis) -
                           way_axis_get(&p->ways.items[way].execution, (enum way_axis)axis)) > 0.0);
        if (same == WAY_AXES)
            return false;
    }
    return true;
}

/* A space with 2 to WAYS distinct ways, and memories of device and host that bind often. */
static void draw(struct random *r, struct problem *p, struct geometry *items, size_t count,
                 struct workload *ways) {
    case_random(r, p, items, count);
    p->cluster.host_link_bytes_per_s = random_between(r, 1e9, 1e11);
    p->ways = (struct way_list){random_int(r, 2, WAYS), ways};
    for (int i = 0; i < p->ways.count; ++i)
        do {
            ways[i] = p->workload;
            if (i > 0 && random_chance(r, 0.3)) /* the first with another dispatcher */
                ways[i].execution = ways[0].execution;
            else
                draw_way(r, &ways[i].execution);
            if (random_chance(r, 0.35))
                draw_schedules(r, p->workload.optimizer, &ways[i].execution);
            ways[i].execution.dispatcher = (enum dispatcher)random_int(r, 0, DISPATCHERS - 1);
        } while (!is_new(p, i));
    struct leanest_layout lean;
    leanest_layout_find(p, &items[0], &lean);
    if (lean.found && random_chance(r, 0.7))
        p->cluster.device.memory_bytes = lean.needed_bytes * random_between(r, 0.9, 2.0);
    p->cluster.host_memory_bytes = 1e18;
    if (lean.found && random_chance(r, 0.6))
        p->cluster.host_memory_bytes = p->cluster.device.memory_bytes * p->cluster.gpus_per_node *
                                       random_between(r, 0.01, 0.3);
}

/* The same with one of its ways alone. */
static struct problem only(const struct problem *p, int way) {
    struct problem one = *p;
    one.workload = p->ways.items[way];
    one.ways = (struct way_list){0};
    return one;
}

static void best_of(const struct problem *p, const struct geometry *g, struct best_layout *out) {
    struct status_error err;
    struct layout_counts counts = {0};
    struct layout_scratch *const scratch = layout_scratch_new();
    assert_non_null(scratch);
    assert_int_equal(best_layout_find(scratch, p, g, out, &counts, &err), MOSAIC_OK);
    layout_scratch_free(scratch);
}

static void list_of(const struct problem *p, const struct geometry *g, size_t top,
                    struct layout_list *out) {
    struct status_error err;
    const struct layout_list_options options = {.top = top};
    assert_int_equal(layout_list_find(p, g, &options, out, &err), MOSAIC_OK);
}

static bool is_before(double time_s, const struct mesh *mesh, double than_s,
                      const struct mesh *than) {
    return time_s < than_s || (!(time_s > than_s) && mesh_compare(mesh, than) < 0);
}

/* ---- best layout ---- */

static void best_is_the_best_of_all_ways(void **state) {
    (void)state;
    static struct workload ways[WAYS];
    struct random r = {501};
    struct problem p;
    struct geometry g;
    int found = 0, later = 0;
    for (int i = 0; i < SPACES; ++i) {
        struct best_layout all, best = {0};
        draw(&r, &p, &g, 1, ways);
        best_of(&p, &g, &all);
        for (int way = 0; way < p.ways.count; ++way) {
            struct best_layout one;
            const struct problem alone = only(&p, way);
            best_of(&alone, &g, &one);
            one.layout.mesh.way = way;
            if (one.found && (!best.found || is_before(one.step_time_s, &one.layout.mesh,
                                                       best.step_time_s, &best.layout.mesh)))
                best = one;
        }
        assert_int_equal(all.found, best.found);
        if (!best.found)
            continue;
        found++;
        later += best.layout.mesh.way > 0;
        assert_close(all.step_time_s, best.step_time_s, 0.0);
        assert_int_equal(mesh_compare(&all.layout.mesh, &best.layout.mesh), 0);
        struct prediction of_all, of_one;
        const struct problem alone = only(&p, all.layout.mesh.way);
        struct layout there = all.layout;
        there.mesh.way = 0;
        best_layout_predict(&p, &g, &all.layout, &of_all, NULL);
        best_layout_predict(&alone, &g, &there, &of_one, NULL);
        assert_memory_equal(&of_all, &of_one, sizeof of_all);
        assert_int_not_equal(of_all.verdict, VERDICT_NO);
    }
    print_message("%d found, %d in a later way\n", found, later);
    assert_true(found > SPACES / 5 && later > SPACES / 10);
}

/* ---- list ---- */

static int ascending(const void *left, const void *right) {
    const struct listed_layout *const a = left, *const b = right;
    return is_before(a->step_time_s, &a->layout.mesh, b->step_time_s, &b->layout.mesh) ? -1 : 1;
}

/* Whether only how tokens are exchanged and balanced tells them apart, and nothing is exchanged. */
static bool is_twin(const struct problem *p, const struct listed_layout *a,
                    const struct listed_layout *b) {
    struct execution left = p->ways.items[a->layout.mesh.way].execution;
    struct mesh mesh = a->layout.mesh;
    const struct execution *const right = &p->ways.items[b->layout.mesh.way].execution;
    mesh.way = b->layout.mesh.way;
    left.dispatcher = right->dispatcher;
    left.balance = right->balance;
    left.dispatch_chunk = right->dispatch_chunk;
    for (int i = 0; i < WAY_AXES; ++i)
        if (fabs(way_axis_get(&left, (enum way_axis)i) - way_axis_get(right, (enum way_axis)i)) > 0)
            return false;
    return mesh.ep == 1 && mesh_compare(&mesh, &b->layout.mesh) == 0 &&
           !(fabs(a->step_time_s - b->step_time_s) > 0.0);
}

static void list_is_that_of_all_ways(void **state) {
    (void)state;
    static struct workload ways[WAYS];
    static struct layout_list all, one;
    static struct listed_layout merged[WAYS * LAYOUT_LIST_MAX];
    struct random r = {502};
    struct problem p;
    struct geometry g;
    int listed = 0, twins = 0;
    for (int i = 0; i < SPACES; ++i) {
        size_t count = 0, at = 0;
        draw(&r, &p, &g, 1, ways);
        for (int way = 0; way < p.ways.count; ++way) {
            const struct problem alone = only(&p, way);
            list_of(&alone, &g, LAYOUT_LIST_MAX, &one);
            for (size_t k = 0; k < one.count; ++k) {
                merged[count] = one.items[k];
                merged[count++].layout.mesh.way = way;
            }
        }
        if (count > 0)
            qsort(merged, count, sizeof merged[0], ascending);
        list_of(&p, &g, TOP, &all);
        for (size_t k = 0; k < count && at < TOP; ++k) {
            bool is_listed = false;
            for (size_t j = 0; j < at && !is_listed; ++j)
                is_listed = is_twin(&p, &all.items[j], &merged[k]);
            twins += is_listed;
            if (is_listed)
                continue;
            assert_true(at < all.count);
            assert_close(all.items[at].step_time_s, merged[k].step_time_s, 0.0);
            assert_int_equal(mesh_compare(&all.items[at].layout.mesh, &merged[k].layout.mesh), 0);
            at++;
        }
        assert_int_equal(at, all.count);
        listed += (int)all.count;
    }
    print_message("%d listed, %d twins\n", listed, twins);
    assert_true(listed > SPACES && twins > SPACES / 10);
}

/* ---- search ---- */

static void search(const struct problem *p, int threads, struct search_result *out) {
    struct status_error err;
    const struct search_options options = {.threads = threads};
    if (search_run(p, &options, out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

static void same_candidate(const struct candidate *a, const struct candidate *b) {
    assert_int_equal(a->index, b->index);
    assert_int_equal(mesh_compare(&a->layout.mesh, &b->layout.mesh), 0);
    assert_memory_equal(a->layout.split.first, b->layout.split.first,
                        sizeof a->layout.split.first[0] * ((size_t)a->layout.mesh.pp + 1));
    assert_close(a->step_time_s, b->step_time_s, 0.0);
    assert_close(a->run.loss, b->run.loss, 0.0);
}

static void search_goes_through_all_ways(void **state) {
    (void)state;
    enum { GEOMETRIES = 4 };
    static struct workload ways[WAYS];
    static struct geometry items[GEOMETRIES];
    static struct search_result all, threaded, one;
    struct random r = {503};
    struct problem p;
    int found = 0;
    for (int i = 0; i < SPACES / 3; ++i) {
        double loss = (double)INFINITY;
        draw(&r, &p, items, GEOMETRIES, ways);
        search(&p, 1, &all);
        search(&p, 3, &threaded);
        assert_int_equal(all.kept_count, threaded.kept_count);
        for (size_t k = 0; k < all.kept_count; ++k)
            same_candidate(&all.kept[k], &threaded.kept[k]);
        assert_memory_equal(&all.proof.counts, &threaded.proof.counts, sizeof all.proof.counts);
        for (int way = 0; way < p.ways.count; ++way) {
            const struct problem alone = only(&p, way);
            search(&alone, 1, &one);
            if (one.kept_count > 0)
                loss = fmin(loss, one.kept[0].run.loss);
            search_result_free(&one);
        }
        assert_int_equal(all.kept_count > 0, isfinite(loss));
        if (all.kept_count > 0)
            assert_close(all.kept[0].run.loss, loss, 0.0);
        found += all.kept_count > 0;
        search_result_free(&all);
        search_result_free(&threaded);
    }
    assert_true(found > SPACES / 10);
}

/* ---- nothing fits ---- */

/* A host that is too small is named, and the leanest layout is the leanest of all ways. */
static void leanest_of_all_ways(void **state) {
    (void)state;
    static struct workload ways[WAYS];
    struct random r = {504};
    struct problem p;
    struct geometry g;
    int hosts = 0;
    for (int i = 0; i < SPACES; ++i) {
        struct leanest_layout all, one;
        double least = (double)INFINITY;
        draw(&r, &p, &g, 1, ways);
        if (random_chance(&r, 0.5)) {
            p.cluster.host_memory_bytes *= 0.1;
            for (int way = 0; way < p.ways.count; ++way) {
                ways[way].execution.bucket_params = 0.0;
                ways[way].execution.offload_optimizer = 1.0;
            }
        }
        leanest_layout_find(&p, &g, &all);
        for (int way = 0; way < p.ways.count; ++way) {
            const struct problem alone = only(&p, way);
            leanest_layout_find(&alone, &g, &one);
            if (one.found)
                least = fmin(least, one.needed_bytes);
        }
        assert_int_equal(all.found, isfinite(least));
        if (!all.found)
            continue;
        assert_close(all.needed_bytes, least, 0.0);
        struct prediction at;
        struct shortfall s = {0};
        best_layout_predict(&p, &g, &all.layout, &at, NULL);
        assert_close(at.memory.total, all.need.device_bytes, 0.0);
        assert_close(at.host_node_bytes, all.need.host_bytes, 0.0);
        assert_int_equal(at.verdict != VERDICT_NO,
                         all.needed_bytes <= p.cluster.device.memory_bytes);
        shortfall_need(&p, &all.need, &s);
        const bool is_host =
            at.verdict == VERDICT_NO && at.memory.total <= p.cluster.device.memory_bytes;
        assert_int_equal(s.host_needed_bytes > 0.0, is_host);
        hosts += is_host;
    }
    print_message("%d hosts\n", hosts);
    assert_true(hosts > SPACES / 30);
}

/* A host of a terabyte where two are needed: what is missing is said, and how many GPUs share it
 * out. */
static void more_nodes_have_more_host_memory(void **state) {
    (void)state;
    static struct geometry items[4];
    struct problem p;
    struct shortfall s = {0};
    case_load("configs/examples/predict-table4.yaml", &p, items, 4);
    p.workload.execution.offload_optimizer = 1.0;
    p.cluster.host_memory_bytes = 40e9;
    shortfall_gpus(&p, &items[0], &s);
    assert_true(s.needed_bytes < s.capacity_bytes);
    assert_true(s.host_needed_bytes > s.host_capacity_bytes);
    assert_true(s.gpus_needed > s.gpus);
    problem_resize(&p, s.gpus_needed / p.cluster.gpus_per_node);
    struct best_layout best;
    best_of(&p, &items[0], &best);
    assert_true(best.found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_is_the_best_of_all_ways),
        cmocka_unit_test(list_is_that_of_all_ways),
        cmocka_unit_test(search_goes_through_all_ways),
        cmocka_unit_test(leanest_of_all_ways),
        cmocka_unit_test(more_nodes_have_more_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
