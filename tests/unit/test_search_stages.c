// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The best layout and the search against brute force where stages may recompute differently and
 * where stages share nodes whose host memory binds; on one and two threads.
 */
#include "oracle.h"
#include "plan_case.h"

#include "close.h"
#include "effort.h"

#include <math.h>
#include <string.h>

enum { SPACES = EFFORT(160, 48), GEOMETRIES = 3 };

static const double close_enough = 1e-12;

static void run(const struct problem *p, int threads, struct search_result *out) {
    struct status_error err;
    const struct search_options options = {.threads = threads};
    if (search_run(p, &options, out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

/* Few layers and GPUs, so that every list of recomputations can be tried. */
static void mixed_case(struct random *r, struct problem *p, struct geometry *items) {
    do
        case_random(r, p, items, (size_t)random_int(r, 1, 3));
    while (cluster_gpus(&p->cluster) > 8 || p->cluster.gpus_per_node < 3);
    for (size_t i = 0; i < p->geometries.count; ++i) {
        struct geometry *const g = &items[i];
        g->layers = random_int(r, 3, 6);
        g->first_dense = g->experts == 0 ? g->layers : g->first_dense < 2 ? g->first_dense : 1;
        g->ladder_q = 0;
    }
    p->engine.recompute_per_stage = true;
    p->layouts.recompute[RECOMPUTE_NONE] = p->layouts.recompute[RECOMPUTE_FULL] = true;
    if (random_chance(r, 0.7))
        p->layouts.pp = (struct axis){.count = 3, .values = {2, 3, 4}};
    p->layouts.vpp = (struct axis){.count = 2, .values = {1, 2}};
    if (random_chance(r, 0.5)) {
        p->cluster.host_link_bytes_per_s = random_between(r, 1e10, 1e11);
        p->cluster.host_memory_bytes = 1e18;
        p->workload.execution.offload_activations = random_int(r, 0, 2) / 2.0;
        p->workload.execution.offload_optimizer = random_int(r, 1, 2) / 2.0;
    }
}

/* Device memory below what the best layout without a limit takes. */
static void draw_device(struct random *r, struct problem *p, const struct oracle_answer *wide) {
    for (size_t i = 0; i < p->geometries.count; ++i)
        if (wide->layouts[i].found) {
            p->cluster.device.memory_bytes =
                ceil(wide->layouts[i].peak_bytes * random_between(r, 0.75, 1.0));
            return;
        }
}

/* Host memory about what the best layout without a limit of it needs. */
static void draw_host(struct random *r, struct problem *p, const struct oracle_answer *wide) {
    for (size_t i = 0; p->cluster.host_memory_bytes > 0.0 && i < p->geometries.count; ++i) {
        struct prediction at;
        if (!wide->layouts[i].found)
            continue;
        best_layout_predict(p, &p->geometries.items[i], &wide->layouts[i].layout, &at, NULL);
        if (!(at.host_node_bytes > 0.0))
            continue;
        p->cluster.host_memory_bytes = ceil(at.host_node_bytes * random_between(r, 0.7, 1.1));
        return;
    }
}

/* What the random spaces have to exercise. */
struct coverage {
    int layouts, none, mixed, shared, interleaved;
    long wrong_time_bounds, wrong_memory_bounds;
};

static void note(const struct problem *p, const struct geometry *g,
                 const struct oracle_layout *want, const struct best_layout *got,
                 struct coverage *c) {
    c->wrong_time_bounds += want->wrong_time_bound;
    c->wrong_memory_bounds += want->wrong_memory_bound;
    c->layouts += want->found;
    c->none += !want->found;
    if (!got->found)
        return;
    struct prediction at;
    best_layout_predict(p, g, &got->layout, &at, NULL);
    assert_memory_equal(&at.step_time_s, &got->step_time_s, sizeof(double));
    assert_true(at.verdict != VERDICT_NO);
    c->mixed += got->layout.split.is_mixed;
    c->interleaved += got->layout.split.is_mixed && got->layout.mesh.vpp > 1;
    c->shared += p->cluster.host_memory_bytes > 0.0 &&
                 at.host_bytes * p->cluster.gpus_per_node > p->cluster.host_memory_bytes;
}

/* Each geometry by itself. */
static void same_layouts(const struct problem *p, const struct oracle_answer *want,
                         struct coverage *seen) {
    struct status_error err;
    struct layout_scratch *const scratch = layout_scratch_new();
    assert_non_null(scratch);
    for (size_t i = 0; i < p->geometries.count; ++i) {
        const struct geometry *const g = &p->geometries.items[i];
        struct best_layout got;
        struct layout_counts counts = {0};
        if (best_layout_find(scratch, p, g, &got, &counts, &err) != MOSAIC_OK)
            fail_msg("%s", err.message);
        assert_int_equal(got.found, want->layouts[i].found);
        if (got.found)
            assert_close(got.step_time_s, want->layouts[i].step_time_s, close_enough);
        note(p, g, &want->layouts[i], &got, seen);
    }
    layout_scratch_free(scratch);
}

static void same_bytes(const struct layout *a, const struct layout *b) {
    assert_int_equal(mesh_compare(&a->mesh, &b->mesh), 0);
    for (int i = 0; i < a->mesh.pp; ++i) {
        assert_int_equal(a->split.first[i + 1], b->split.first[i + 1]);
        assert_int_equal(split_recompute(&a->split, &a->mesh, i),
                         split_recompute(&b->split, &b->mesh, i));
    }
}

/* All of them, on one and two threads. */
static void same_search(const struct problem *p, const struct oracle_answer *want) {
    struct search_result one = {0}, two = {0};
    run(p, 1, &one);
    run(p, 2, &two);
    assert_int_equal(one.status, want->count > 0 ? SEARCH_OPTIMAL : SEARCH_INFEASIBLE);
    assert_int_equal(one.kept_count, want->count);
    assert_int_equal(two.kept_count, want->count);
    for (size_t k = 0; k < one.kept_count; ++k) {
        const struct candidate *const c = &one.kept[k];
        assert_close(c->step_time_s, want->layouts[c->index].step_time_s, close_enough);
        assert_int_equal(c->index, two.kept[k].index);
        assert_memory_equal(&c->step_time_s, &two.kept[k].step_time_s, sizeof(double));
        same_bytes(&c->layout, &two.kept[k].layout);
    }
    if (want->count > 1 && want->plans[1].loss > want->plans[0].loss * (1.0 + close_enough))
        assert_int_equal(one.kept[0].index, want->plans[0].index);
    search_result_free(&one);
    search_result_free(&two);
}

static void one_space(struct random *r, struct coverage *seen) {
    static struct oracle_answer want;
    struct geometry items[GEOMETRIES];
    struct problem p;
    do {
        mixed_case(r, &p, items);
        oracle_search(&p, false, &want);
    } while (want.count == 0);
    if (random_chance(r, 0.8)) {
        draw_device(r, &p, &want);
        oracle_search(&p, false, &want);
    }
    draw_host(r, &p, &want);
    oracle_search(&p, false, &want);
    same_layouts(&p, &want, seen);
    same_search(&p, &want);
}

static void search_is_exact(void **state) {
    (void)state;
    struct random r = {20260811};
    struct coverage seen = {0};
    for (int i = 0; i < SPACES; ++i)
        one_space(&r, &seen);
    print_message("%d layouts, %d do not fit; stages differ in %d, %d of them interleaved, and "
                  "share crowded nodes in %d\n",
                  seen.layouts, seen.none, seen.mixed, seen.interleaved, seen.shared);
    assert_true(seen.layouts > SPACES && seen.none > SPACES / 8);
    assert_true(seen.mixed > SPACES / 8 && seen.shared > SPACES / 16 && seen.interleaved > 0);
    assert_int_equal(seen.wrong_time_bounds, 0);
    assert_int_equal(seen.wrong_memory_bounds, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
